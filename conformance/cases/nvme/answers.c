/* SPDX-License-Identifier: BSD-3-Clause */
/* What admin commands have to be answered with: pdu/nvme/wire/answers.def; what completions say. */
#include "pdu/nvme/wire/answers.h"
#include <string.h>

#include "conformance/words/case.h"

enum { LIST = 1024 };

/* The lowest NSID that is not in the list of active ones; 0: all are, or more than a list has room for. */
static uint32_t inactive(struct queue *q)
{
        const le32_t *list = identify(q, CNS_NS_LIST, 0);
        uint32_t nsid = 1;

        for (unsigned i = 0; i < LIST && le32_get(list[i]) == nsid; i++)
                nsid++;
        return nsid <= LIST && nsid <= le32_get(caps(q->t)->id.nn) ? nsid : 0;
}

/* Read on this connection, so that whoever judges a capture of it knows as much. */
static struct answerer answerer(struct queue *q)
{
        return (struct answerer) { .cntrltype = CNTRLTYPE_IO,
                                   .vs = (uint32_t)property_get(q, PROP_VS),
                                   .cap = property_get(q, PROP_CAP),
                                   .inactive = inactive(q),
                                   .active = caps(q->t)->nsid,
                                   .ctrl = identify_ctrl(q) };
}

static uint16_t asked(struct queue *q, const struct ask *a)
{
        static const uint8_t data[4096];

        struct reply r = finish(q, send_cmd(q, .opc = a->opc, .nsid = a->nsid, .cdw10 = a->cdw10,
                                            .cdw11 = a->cdw11, .cdw12 = a->cdw12, .cdw13 = a->cdw13,
                                            .cdw14 = a->cdw14, .bytes = a->bytes, .data = data,
                                            .in_capsule = (a->opc & 3) == 1)); /* see put_block() */

        note_passing(q, r);
        return r.status;
}

/* Each command of the rule is answered with a status that is right. */
static void judge_answers(struct queue *q, enum rule_id rule)
{
        struct answerer who = answerer(q);
        const struct answer_duty *d;
        char seen[512];
        struct text text = text_in(seen, sizeof(seen));
        unsigned asks = 0, faults = 0;

        for (unsigned i = 0; (d = answer_duty(i)); i++) {
                struct ask ask;
                uint16_t status;

                if (d->rule != rule || !answer_applies(&who, i))
                        continue;
                ask = answer_ask(&who, i);
                status = asked(q, &ask);
                asks++;
                if (!answer_is_right(i, status))
                        text_add(&text, "%s%s (%s): seen %s", faults++ > 0 ? "; " : "", d->says,
                                 d->key, status_name(status));
        }
        require(q->t, asks > 0, "nothing of this applies to the controller");
        want(q->t, !faults, "the statuses that the specification prescribes", "%s", seen);
        expect_works(q);
}

CASE("base/log/answers", MUST, RULES(LOG_ANSWERS),
     "Get Log Page succeeds or is refused as its NSID, offset and length demand")
{
        judge_answers(admin_queue(t), LOG_ANSWERS);
}

CASE("base/identify/answers", MUST, RULES(ID_ANSWERS),
     "Identify succeeds or is refused as its CNS, NSID and CSI demand")
{
        judge_answers(admin_queue(t), ID_ANSWERS);
}

CASE("base/feature/answers", MUST, RULES(FEAT_ANSWERS),
     "Set and Get Features succeed or are refused as the feature, its value and NSID demand")
{
        judge_answers(admin_queue(t), FEAT_ANSWERS);
}

CASE("base/command/answers", MUST, RULES(CMD_ANSWERS),
     "Optional admin commands are answered as OACS announces them")
{
        judge_answers(admin_queue(t), CMD_ANSWERS);
}

/* Those that need no other ability of the controller. */
static const struct mandatory {
        const char *name;
        uint32_t bytes, cdw10;
        uint8_t opc;
        bool io; /* on an I/O queue */
} mandatory[] = {
        { .name = "Get Log Page",
          .opc = NVME_GET_LOG_PAGE,
          .cdw10 = 127u << 16 | LOG_ERROR,
          .bytes = 512 },
        { .name = "Identify", .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = IDENTIFY_LEN },
        { .name = "Abort", .opc = NVME_ABORT, .cdw10 = 0xfff0u << 16 },
        { .name = "Get Features", .opc = NVME_GET_FEATURES, .cdw10 = FEAT_QUEUES },
        { .name = "Keep Alive", .opc = NVME_KEEP_ALIVE },
        { .name = "Flush", .opc = NVME_FLUSH, .io = true },
};

CASE("base/command/mandatory", MUST, RULES(CMD_MANDATORY),
     "Commands that each I/O controller has to support do not end with Invalid Command Opcode")
{
        struct queue *io = io_queue(t);
        char seen[256];
        struct text text = text_in(seen, sizeof(seen));

        for (size_t i = 0; i < sizeof(mandatory) / sizeof(mandatory[0]); i++) {
                const struct mandatory *m = &mandatory[i];
                struct reply r;

                if (m->opc == NVME_KEEP_ALIVE && !le16_get(caps(t)->id.kas))
                        continue; /* then it is prohibited */
                if (m->io && !caps(t)->nsid)
                        continue; /* its command set is that of its namespace */
                r = finish(m->io ? io : io->admin,
                           send_cmd(m->io ? io : io->admin, .opc = m->opc, .cdw10 = m->cdw10,
                                    .nsid = m->io ? caps(t)->nsid : 0, .bytes = m->bytes));
                if (r.status == NVME_INVALID_OPCODE)
                        text_add(&text, "%s%s", text.len > 0 ? ", " : "", m->name);
        }
        want(t, text.len == 0, "another status", "Invalid Command Opcode of %s", seen);
}

CASE("base/command/answers-advised", SHOULD, RULES(ANSWERS_ADVISED),
     "Get Log Page and Identify with an NSID that they have no use for are refused")
{
        judge_answers(admin_queue(t), ANSWERS_ADVISED);
}

/* --- completions: the queue that watches judges them */

CASE("base/command/result", SHOULD, RULES(CQE_RESERVED),
     "Reserved bits in the result of Abort are 0")
{
        struct queue *q = admin_queue(t);

        succeed(q, send_cmd(q, .opc = NVME_ABORT, .cdw10 = 0xfff0u << 16));
}

static void fail_somehow(struct queue *q)
{
        finish(q, send_get_log(q, 0x6f, 512, 0));
        finish(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = 0x7f, .bytes = IDENTIFY_LEN));
        finish(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = 0x77));
        finish(q, send_cmd(q, .opc = NVME_SET_FEATURES, .cdw10 = FEAT_KATO | 1u << 31));
}

CASE("base/command/status-reserved", SHOULD, RULES(STATUS_RESERVED),
     "Commands that are refused have an assigned status")
{
        fail_somehow(admin_queue(t));
}

CASE("base/command/status-specific", SHOULD, RULES(STATUS_COMMAND),
     "Command specific statuses are those of their commands")
{
        fail_somehow(admin_queue(t));
}

CASE("base/command/retry-unasked", MUST, RULES(CQE_UNASKED_RETRY),
     "Commands that fail come without a retry delay and not as interrupted, as the host has not "
     "set ACRE")
{
        struct queue *q = admin_queue(t);
        struct reply r[] = { finish(q, send_get_log(q, 0x6f, 512, 0)),
                             finish(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = 0x7f,
                                                .bytes = IDENTIFY_LEN)),
                             finish(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = 0x77)),
                             finish(q, send_cmd(q, .opc = NVME_KEEP_ALIVE)) };

        for (unsigned i = 0; i < sizeof(r) / sizeof(r[0]); i++) {
                want(t, !r[i].retry_delay, "CRD 0", "a retry delay with status %03Xh", r[i].status);
                want(t, r[i].status != NVME_INTERRUPTED, "another status", "Command Interrupted");
        }
}

CASE("base/command/status-retry", MUST, RULES(STATUS_RETRY),
     "Statuses of what may succeed later come with DNR 0")
{
        fail_somehow(admin_queue(t));
}
