/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 3.1.2, 3.2.1.6: what the controllers and the queues of one subsystem share. */
#include <string.h>

#include "conformance/words/case.h"
#include "pdu/nvme/wire/identify.h"

enum { CONTROLLERS = 6, NSIDS = IDENTIFY_LEN / 4, LOOKED_AT = 8 };

CASE("fab/association/namespaces", SHOULD, RULES(ASSOC_ALIKE),
     "Six dynamic controllers of one host begin with the same namespaces")
{
        uint8_t first[IDENTIFY_LEN];

        require(t, caps(t)->io, "controllers of this type have no namespaces");
        require(t, !caps(t)->fixed, "the subsystem is of the static controller model");
        memcpy(first, identify(admin_queue(t), CNS_NS_LIST, 0), sizeof(first));
        for (int i = 1; i < CONTROLLERS; i++)
                want_bytes(t, "the list of active namespaces",
                           identify(admin_queue(t), CNS_NS_LIST, 0), first, sizeof(first));
}

CASE("base/identify/two-controllers", MUST, RULES(ID_CTRL_AGREES),
     "CMIC bit 1 (the subsystem may have two or more controllers) is 1 on each of two controllers")
{
        struct queue *q[] = { admin_queue(t), admin_queue(t) };

        require(t, q[0]->cntlid != q[1]->cntlid, "both associations have controller %u",
                q[0]->cntlid);
        for (int i = 0; i < 2; i++)
                want_eq(t, "CMIC bit 1", identify_ctrl(q[i])->cmic >> 1 & 1, 1);
}

/* Of the first block; as long as a block of that namespace is. */
static uint16_t status_of_read(struct queue *q, uint32_t nsid)
{
        const struct id_ns *ns = identify(q->admin, CNS_NS, nsid);
        const struct lbaf *f = &ns->lbaf[id_ns_format(ns)];

        return finish(q, send_cmd(q, .opc = NVME_READ, .nsid = nsid, .as_is = true,
                                  .bytes = (1u << f->lbads) + le16_get(f->ms)))
            .status;
}

CASE(
    "base/namespace/every-queue", MUST, RULES(NS_EVERY_QUEUE),
    "What can be read from a namespace by one I/O queue of a controller can be read by another one")
{
        struct queue *a = io_queue(t, .qid = 1), *b = io_queue_of(a->admin, .qid = 2);
        uint32_t nsids[LOOKED_AT];
        const uint8_t *list = identify(a->admin, CNS_NS_LIST, 0);
        unsigned n = 0;

        while (n < LOOKED_AT && le_get(list + n * 4, 4)) {
                nsids[n] = (uint32_t)le_get(list + n * 4, 4);
                n++;
        }
        require(t, n > 0, "the subsystem has no namespace");
        for (unsigned i = 0; i < n; i++)
                if (status_of_read(a, nsids[i]) == NVME_SUCCESS)
                        want_eq(t, "the status of a Read by the second queue",
                                status_of_read(b, nsids[i]), NVME_SUCCESS);
}

CASE("fab/queue/admin-beside-io", SHOULD, RULES(FAB_ANSWERED),
     "Admin commands are answered while the I/O queue is full of Writes that wait for their data",
     .writes = true, .only = "tcp")
{
        struct queue *q = io_queue(t, .sqsize = 7);
        uint16_t cid[7];
        unsigned n = together(q, q->sqsize);

        for (unsigned i = 0; i < n && i < 7; i++)
                cid[i] = send_write(q, .bytes = r2t_bytes(t));
        expect_works(q->admin);
        identify_ctrl(q->admin);
        for (unsigned i = 0; i < n && i < 7; i++)
                succeed(q, cid[i]);
}
