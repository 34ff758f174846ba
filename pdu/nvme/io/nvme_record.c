/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvme_record.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/io/loop.h"
#include "pdu/io/verbs/verbs_record_flow.h"
#include "pdu/nvme/wire/rdma.h"

enum { NVME_PORT = 4420, DISCOVERY_PORT = 8009 };

/* A command of the host that is outstanding. */
struct command {
        struct command *next;
        uint16_t cid;
        enum nvme_xfer xfer;
        struct rdma_data data;
};

/* Where the data of a command is, as it says itself: the device judges the rest. */
static void keep_command(struct record_flow *f, const struct iovec *iov, int n)
{
        struct rdma_format format = { .in_capsule = UINT32_MAX / 2 };
        const union sqe *sqe = n > 0 ? iov[0].iov_base : NULL;
        struct rule_set all;
        struct command *c;

        if (n < 1 || iov[0].iov_len < sizeof(*sqe) || !(c = calloc(1, sizeof(*c))))
                return;
        memset(&all, 0xff, sizeof(all)); /* all waived */
        c->cid = le16_get(sqe->cid);
        c->xfer = sqe_xfer(sqe);
        (void)rdma_data_read(sqe, (uint32_t)iov[0].iov_len, &format, c->xfer, 0, &all, &c->data);
        if (c->data.count == 0) {
                free(c);
                return;
        }
        c->next = f->kept;
        f->kept = c;
}

/* The controller must have read or written this. */
static void make_up(struct record_flow *f, enum nvme_xfer xfer, const struct rdma_buffer *b)
{
        struct capture_writer *w = f->w;
        uint32_t len = record_memory_bytes(f->memory, b->addr, b->key, b->len), number;
        struct iovec iov = { (void *)(uintptr_t)b->addr, len };
        int64_t now = loop_wall_ns();

        if (len == 0)
                return;
        if (xfer == XFER_C2H) {
                (void)capture_rdma_write(w, &f->rdma, PARTY_CONTROLLER, b->addr, b->key, &iov, 1,
                                         now);
        } else if (xfer == XFER_H2C) {
                number =
                    capture_rdma_read(w, &f->rdma, PARTY_CONTROLLER, b->addr, b->key, len, now);
                capture_rdma_answer(w, &f->rdma, PARTY_HOST, number, &iov, 1, now);
        }
}

/* The command of that id, taken out; NULL: there is none. */
static struct command *take_command(struct record_flow *f, uint16_t cid)
{
        struct command *c = f->kept, *before = NULL;

        for (; c && c->cid != cid; c = c->next)
                before = c;
        if (c && before)
                before->next = c->next;
        else if (c)
                f->kept = c->next;
        return c;
}

static void end_command(struct record_flow *f, const struct iovec *iov, int n)
{
        const struct cqe *cqe = n > 0 ? iov[0].iov_base : NULL;
        struct command *c;

        if (n < 1 || iov[0].iov_len < sizeof(*cqe))
                return;
        c = take_command(f, le16_get(cqe->cid));
        for (unsigned i = 0; c && i < c->data.count && cqe_status(cqe) == NVME_SUCCESS; i++)
                make_up(f, c->xfer, &c->data.keyed[i]);
        free(c);
}

static void drop_commands(struct record_flow *f)
{
        struct command *next;

        for (struct command *c = f->kept; c; c = next) {
                next = c->next;
                free(c);
        }
        f->kept = NULL;
}

struct verbs_provider *nvme_record_new(struct verbs_provider *of, struct capture_writer *w)
{
        static const struct record_protocol nvme = { .ports = { NVME_PORT, DISCOVERY_PORT },
                                                     .sent = keep_command,
                                                     .received = end_command,
                                                     .end = drop_commands };

        return verbs_record_new(of, w, &nvme);
}
