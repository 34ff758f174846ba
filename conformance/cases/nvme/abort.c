/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 5.1.1: Abort of commands that wait. */
#include "conformance/words/case.h"

static uint16_t send_abort(struct queue *q, uint16_t cid)
{
        return send_cmd(q, .opc = NVME_ABORT, .cdw10 = (uint32_t)cid << 16);
}

CASE("base/abort/which", MUST, RULES(ABORT_WHICH),
     "Abort of the second of two Asynchronous Event Requests ends it with Command Abort Requested, "
     "and not the first")
{
        struct queue *q = admin_queue(t);
        uint16_t first = send_cmd(q, .opc = NVME_AER), second, abort;
        struct reply r, aborted = { 0 };
        bool ended = false;

        require(t, caps(t)->id.aerl > 0, "AERL is 0");
        second = send_cmd(q, .opc = NVME_AER);
        abort = send_abort(q, second);
        for (r = expect_next(q); r.cid == second; r = expect_next(q)) {
                aborted = r;
                ended = true;
        }
        if (r.cid != abort) { /* an event */
                want_eq(t, "the status of the request that was not to be aborted", r.status,
                        NVME_SUCCESS);
                r = succeed(q, abort);
        }
        want_eq(t, "the status of Abort", r.status, NVME_SUCCESS);
        pause_ms(t, 50);
        expect_works(q);
        if (answered(q, first)) /* by an event, which is none of our business */
                want_eq(t, "the status of the request that was not to be aborted",
                        finish(q, first).status, NVME_SUCCESS);
        if (r.dw0 & 1) { /* it may still be aborted later */
                if (ended || answered(q, second))
                        aborted = ended ? aborted : finish(q, second);
                want(t, aborted.status == NVME_SUCCESS || aborted.status == NVME_ABORT_REQUESTED,
                     "Command Abort Requested, or an event", "status %03Xh", aborted.status);
                return;
        }
        if (!ended) /* it has no effects any more, so the two may come in any order */
                aborted = finish(q, second);
        want_eq(t, "the status of the aborted request", aborted.status, NVME_ABORT_REQUESTED);
}

/* Its data is never sent after that: there is no command any more that an H2CData would be of. */
CASE("tcp/r2t/abort", MUST, RULES(ABORT_WHICH),
     "A Write that waits for its data and is reported as aborted ends so, and writes nothing",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = r2t_bytes(t);
        const uint8_t *data = pattern(t, 2 * n);
        enum { AT_ONCE_MS = 1000 };
        struct reply abort;
        struct r2t r;
        uint16_t cid;
        bool early;

        write_blocks(q, 0, n, data);
        r = open_r2t(q, .bytes = n, .data = data + n);
        cid = send_cmd(q->admin, .opc = NVME_ABORT, .cdw10 = (uint32_t)r.cid << 16 | q->qid);
        early = answers_within(q->admin, cid, AT_ONCE_MS);
        if (!early) { /* it may wait for the data, or for the end */
                serve(q, r);
                finish(q, r.cid);
        }
        abort = succeed(q->admin, cid);
        if (!early)
                return;
        if (abort.dw0 & 1) { /* aborted later, or not at all */
                serve(q, r);
                finish(q, r.cid);
                return;
        }
        want_eq(t, "the status of the aborted command", expect_resp(q, r.cid).status,
                NVME_ABORT_REQUESTED);
        want_data(t, "what was there before", read_blocks(q, 0, n), data, n);
}

CASE("base/abort/not-outstanding", MUST, RULES(ABORT_UNKNOWN),
     "Abort of a command that has completed reports that it was not aborted")
{
        struct queue *q = admin_queue(t);
        uint16_t cid = send_cmd(q, .opc = NVME_KEEP_ALIVE);

        expect_success(q, cid);
        want_eq(t, "bit 0 of dword 0", succeed(q, send_abort(q, cid)).dw0 & 1, 1);
}
