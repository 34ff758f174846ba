/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 7.1: Cancel. */
#include "conformance/words/case.h"

enum { SINGLE, MULTIPLE, ANY_CID = 0xffff, SUPPORTED = 1 };

static bool has_cancel(struct queue *admin)
{
        const struct log_effects *e;

        if (!(caps(admin->t)->id.lpa & LPA_EFFECTS))
                return false;
        e = get_log(admin, LOG_EFFECTS, sizeof(*e), 0);
        return le32_get(e->io[NVME_CANCEL]) & SUPPORTED;
}

static uint16_t send_cancel(struct queue *q, uint16_t qid, uint16_t cid, uint32_t action)
{
        return send_cmd(q, .opc = NVME_CANCEL, .nsid = NSID_ALL, .cdw10 = (uint32_t)cid << 16 | qid,
                        .cdw11 = action);
}

CASE("base/cancel/refused", MUST, RULES(CANCEL_REFUSED),
     "Cancel of itself, of another queue's command, or of all with a CID fails with what 7.1 "
     "prescribes")
{
        enum { OWN_CID = 7 };
        struct queue *q = io_queue(t);

        require(t, has_cancel(q->admin), "Cancel is not supported");
        expect_status(q, send_cancel(q, 2, ANY_CID, MULTIPLE), NVME_INVALID_FIELD);
        expect_status(q, send_cancel(q, 1, 0, MULTIPLE), NVME_INVALID_FIELD);
        expect_status(q,
                      send_cmd(q, .opc = NVME_CANCEL, .cid = OWN_CID, .nsid = NSID_ALL,
                               .cdw10 = OWN_CID << 16 | 1),
                      NVME_INVALID_CID);
        expect_works(q);
}

CASE("base/cancel/not-found", MUST, RULES(CANCEL_NOTHING),
     "Cancel of a command that is not outstanding succeeds and counts none")
{
        struct queue *q = io_queue(t);
        struct reply r = finish(q, send_cancel(q, 1, 0x7abc, SINGLE));

        require(t, r.status == NVME_SUCCESS || has_cancel(q->admin), "Cancel is not supported");
        want_eq(t, "the status of Cancel", r.status, NVME_SUCCESS);
        want_eq(t, "dword 0", r.dw0, 0);
        want(t, has_cancel(q->admin), "a log page 05h that has Cancel",
             "Cancel is not supported there");
        expect_works(q);
}

/* Two active namespaces, if there are as many. */
static uint32_t another_ns(struct queue *q)
{
        const uint8_t *list = identify(q->admin, CNS_NS_LIST, 0);
        uint32_t first = (uint32_t)le_get(list, 4), second = (uint32_t)le_get(list + 4, 4);

        require(q->t, second, "the subsystem has less than two namespaces");
        return first == caps(q->t)->nsid ? second : first;
}

/* Cancel while a Write waits for its data: how many commands are worked at is printed nowhere (B2.2 3.3.2.5), and the
 * case is skipped where it is one. */
static void expect_beside(struct queue *q, struct r2t r, uint16_t cid, uint16_t status)
{
        enum { CANCEL_MS = 1000 };

        if (!answers_within(q, cid, CANCEL_MS)) {
                serve(q, r);
                succeed(q, r.cid);
                finish(q, cid);
                skip(q->t, "commands wait for the data of those before them");
        }
        expect_status(q, cid, status);
}

CASE("base/cancel/namespace", MUST, RULES(CANCEL_NSID),
     "Cancel of a command that has another NSID fails with Invalid Field, and leaves the command",
     .only = "tcp", .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r;

        require(t, has_cancel(q->admin), "Cancel is not supported");
        another_ns(q);
        r = open_r2t(q);
        expect_beside(q, r,
                      send_cmd(q, .opc = NVME_CANCEL, .nsid = another_ns(q),
                               .cdw10 = (uint32_t)r.cid << 16 | 1, .cdw11 = SINGLE),
                      NVME_INVALID_FIELD);
        serve(q, r);
        want_eq(t, "the status of the Write", finish(q, r.cid).status, NVME_SUCCESS);
}

CASE("base/cancel/multiple", MUST, RULES(CANCEL_MULTIPLE),
     "Cancel of all commands succeeds, and leaves those of other namespaces", .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = { 0 };

        require(t, has_cancel(q->admin), "Cancel is not supported");
        expect_status(q, send_cancel(q, 1, ANY_CID, MULTIPLE), NVME_SUCCESS);
        if (t_is_rdma(t))
                return;
        another_ns(q);
        r = open_r2t(q);
        expect_beside(q, r,
                      send_cmd(q, .opc = NVME_CANCEL, .nsid = another_ns(q),
                               .cdw10 = (uint32_t)ANY_CID << 16 | 1, .cdw11 = MULTIPLE),
                      NVME_SUCCESS);
        serve(q, r);
        want_eq(t, "the status of the Write", finish(q, r.cid).status, NVME_SUCCESS);
}
