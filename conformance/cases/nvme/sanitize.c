/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 5.1.22, 5.1.12.1.33, 8.1.24: Sanitize, of a subsystem that the run may do this to. */
#include <string.h>

#include "conformance/words/case.h"
#include "pdu/nvme/wire/identify.h"

enum {
        EXIT_FAILURE = 1, /* SANACT */
        BLOCK_ERASE = 2,
        OVERWRITE = 3,
        CRYPTO_ERASE = 4,
        AUSE = 1 << 3,
        OWPASS_1 = 1 << 4,
        OWPASS_2 = 2 << 4,
        OIPBP = 1 << 8,
        NDAS = 1 << 9,
        EMVS = 1 << 10,
        CES = 1 << 0, /* SANICAP */
        BES = 1 << 1,
        OWS = 1 << 2,
        VERS = 1 << 3,
        SUCCESS = 1, /* SOS */
        IN_PROGRESS = 2,
        SOS = 7,
        GDE = 1 << 8,
        PAGE = 512,
        WAIT_MS = 20000, /* an operation has no deadline: then the case says so */
        POLL_MS = 10,
};

static struct queue *sanitizer(struct t *t)
{
        struct queue *q;

        require(t, caps(t)->expendable, "no subsystem may be sanitized (--expendable-nqn)");
        q = io_queue(t, .subnqn = caps(t)->expendable);
        require(t, le32_get(identify_ctrl(q->admin)->sanicap) & (CES | BES | OWS),
                "SANICAP announces no Sanitize");
        return q;
}

/* The fastest that there is. */
static uint32_t action_of(struct queue *q)
{
        uint32_t can = le32_get(identify_ctrl(q->admin)->sanicap);

        return can & CES ? CRYPTO_ERASE : can & BES ? BLOCK_ERASE : OVERWRITE | OWPASS_1;
}

static uint16_t sanitize(struct queue *q, uint32_t dw10)
{
        return finish_slow(q->admin, send_cmd(q->admin, .opc = NVME_SANITIZE, .cdw10 = dw10))
            .status;
}

static const uint8_t *sanitize_log(struct queue *q)
{
        return get_log(q->admin, LOG_SANITIZE, PAGE, 0);
}

static unsigned sos(struct queue *q)
{
        return (unsigned)le_get(sanitize_log(q) + 2, 2) & SOS;
}

static void await(struct queue *q)
{
        for (unsigned ms = 0; sos(q) == IN_PROGRESS; ms += POLL_MS) {
                require(q->t, ms < WAIT_MS, "the operation takes longer than %d s", WAIT_MS / 1000);
                pause_ms(q->t, POLL_MS);
        }
}

/* However the case ended. */
static void restore(struct t *t)
{
        struct queue *q;

        if (!caps(t)->expendable)
                return;
        q = io_queue(t, .subnqn = caps(t)->expendable);
        if (le32_get(identify_ctrl(q->admin)->sanicap) & (CES | BES | OWS))
                await(q);
        undo(t);
}

/* An operation that runs while the case goes on; the case is skipped if it ends at once. */
static void start(struct queue *q)
{
        want_eq(q->t, "the status of Sanitize", sanitize(q, action_of(q)), NVME_SUCCESS);
        require(q->t, sos(q) == IN_PROGRESS, "the operation has ended with the command");
}

/* Media verification came with 2.1: before, its bits are reserved. */
static bool verifies(struct queue *q)
{
        return property_get(q->admin, PROP_VS) >= NVME_VERSION(2, 1, 0);
}

static void want_refused(struct queue *q, const char *what, uint32_t dw10)
{
        uint16_t status = sanitize(q, dw10);

        want(q->t, status != NVME_SUCCESS, "Invalid Field", "Success for %s", what);
        if (status != NVME_INVALID_FIELD)
                lenient(q->t, "Invalid Field", "status %03Xh for %s", status, what);
}

/* --- the command */

CASE("base/sanitize/refused", MUST, RULES(SANITIZE_REFUSED),
     "Sanitize with an action that is reserved or not supported, or EMVS without verification, "
     "fails",
     .alone = true, .after = restore)
{
        struct queue *q = sanitizer(t);
        uint32_t can = le32_get(identify_ctrl(q->admin)->sanicap);

        want_refused(q, "SANACT 0h", 0);
        want_refused(q, "SANACT 7h", 7);
        if (!(can & OWS))
                want_refused(q, "Overwrite", OVERWRITE | OWPASS_1);
        if (!(can & CES))
                want_refused(q, "Crypto Erase", CRYPTO_ERASE);
        if (!(can & VERS) && verifies(q))
                want_refused(q, "EMVS", action_of(q) | EMVS);
        want(t, sos(q) != IN_PROGRESS, "no operation", "one is in progress");
}

CASE("base/sanitize/protected", MUST, RULES(SANITIZE_PROTECTED),
     "Sanitize of a subsystem with a write protected namespace fails with Namespace is Write "
     "Protected",
     .alone = true, .after = restore)
{
        struct queue *q = sanitizer(t), *admin = q->admin;
        uint32_t nsid = (uint32_t)le_get(identify(admin, CNS_NS_LIST, 0), 4);
        uint16_t status;

        require(t, identify_ctrl(admin)->nwpc & 1 && nsid, "there is no write protection (NWPC)");
        keep_feature(admin, FEAT_WRITE_PROTECT, nsid, 0, 0);
        succeed(admin, send_cmd(admin, .opc = NVME_SET_FEATURES, .nsid = nsid,
                                .cdw10 = FEAT_WRITE_PROTECT, .cdw11 = 1));
        status = sanitize(q, action_of(q));
        await(q);
        succeed(admin, send_cmd(admin, .opc = NVME_SET_FEATURES, .nsid = nsid,
                                .cdw10 = FEAT_WRITE_PROTECT, .cdw11 = 0));
        want_eq(t, "the status of Sanitize", status, NVME_WRITE_PROTECTED);
}

CASE("base/sanitize/ignored", MUST, RULES(SANITIZE_IGNORED),
     "Fields of Sanitize that have no meaning for its action are ignored", .alone = true,
     .after = restore)
{
        struct queue *q = sanitizer(t);
        uint32_t action = action_of(q);

        want_eq(t, "the status for Exit Failure Mode with EMVS, NDAS and AUSE",
                sanitize(q, EXIT_FAILURE | (verifies(q) ? EMVS : 0) | NDAS | AUSE), NVME_SUCCESS);
        want(t, sos(q) != IN_PROGRESS, "no operation", "one is in progress");
        require(t, (action & 7) != OVERWRITE, "Overwrite alone is supported");
        want_eq(t, "the status with OWPASS and OIPBP", sanitize(q, action | OWPASS_2 | OIPBP),
                NVME_SUCCESS);
}

/* --- an operation */

/* A pattern in the last block of the first namespace: its NSID. */
struct block {
        uint32_t nsid, bytes;
        uint64_t last;
};

static uint16_t send_last(struct queue *q, const struct block *b, uint8_t opc, const void *data)
{
        return send_cmd(q, .opc = opc, .nsid = b->nsid, .cdw10 = (uint32_t)b->last,
                        .cdw11 = (uint32_t)(b->last >> 32), .bytes = b->bytes, .data = data,
                        .as_is = true,
                        .in_capsule = opc == NVME_WRITE && caps(q->t)->in_capsule >= b->bytes);
}

static struct block last_block(struct queue *q)
{
        struct block b = { .nsid = (uint32_t)le_get(identify(q->admin, CNS_NS_LIST, 0), 4) };
        const struct id_ns *n;

        require(q->t, b.nsid, "the subsystem has no namespace");
        n = identify_optional(q->admin, CNS_NS, b.nsid);
        require(q->t, n && !id_ns_metadata(n), "the namespace has metadata, or other than blocks");
        require(q->t, !(n->nsattr & 1), "the namespace is write protected");
        b.bytes = id_ns_block_size(n);
        b.last = le64_get(n->nsze) - 1;
        require(q->t, b.bytes && b.bytes <= BLOCK_MAX, "blocks of more than %d bytes", BLOCK_MAX);
        return b;
}

CASE("base/sanitize/operation", MUST, RULES(SANITIZE_OPERATION),
     "A Sanitize operation is in log page 81h when the command completes, and erases all data",
     .alone = true, .after = restore)
{
        struct queue *q = sanitizer(t);
        struct block b = last_block(q);
        const uint8_t *data = pattern(t, BLOCK_MAX);
        uint32_t dw10 = action_of(q);
        const uint8_t *log;
        struct reply r;
        unsigned now;

        succeed(q, send_last(q, &b, NVME_WRITE, data));
        want_eq(t, "the status of Sanitize", sanitize(q, dw10), NVME_SUCCESS);
        log = sanitize_log(q);
        now = (unsigned)le_get(log + 2, 2) & SOS;
        want(t, now == IN_PROGRESS || now == SUCCESS, "an operation in progress, or its success",
             "SOS %u", now);
        want_eq(t, "SCDW10", le_get(log + 4, 4), dw10);
        await(q);
        log = sanitize_log(q);
        now = (unsigned)le_get(log + 2, 2);
        require(t, (now & SOS) == SUCCESS, "the operation has not succeeded: SOS %u", now & SOS);
        want(t, now & GDE, "GDE of 1", "SSTAT %04Xh", now);
        r = finish(q, send_last(q, &b, NVME_READ, NULL));
        want(t, r.status != NVME_SUCCESS || memcmp(r.data, data, b.bytes) != 0,
             "no data from before", "the pattern that was written");
        succeed(q, send_last(q, &b, NVME_WRITE, data));
        want_eq(t, "GDE after a Write", le_get(sanitize_log(q) + 2, 2) & GDE, 0);
}

CASE("base/log/sanitize-failures", MUST, RULES(SANITIZE_STATE),
     "SANS and FAILS of log page 81h are 0 where SANICAP.VERS is, and FAILS unless one failed",
     .alone = true)
{
        enum { FAILED = 3, SSI = 36 };
        struct queue *q = sanitizer(t);
        const uint8_t *log = sanitize_log(q);
        bool supported = le32_get(identify_ctrl(q->admin)->sanicap) & VERS;

        want(t, supported || log[SSI] == 0, "SANS and FAILS of 0", "%02Xh", log[SSI]);
        want(t, (le_get(log + 2, 2) & SOS) == FAILED || log[SSI] >> 4 == 0, "FAILS of 0", "%Xh",
             log[SSI] >> 4);
}

/* --- commands during it */

CASE("base/sanitize/allowed", MUST, RULES(SANITIZE_ALLOWED),
     "Commands that do not touch data work during a Sanitize operation", .alone = true,
     .after = restore)
{
        static const struct {
                uint8_t lid;
                uint32_t bytes;
        } pages[] = { { LOG_ERROR, 64 }, { LOG_SMART, 512 }, { LOG_SANITIZE, 512 } };
        struct queue *q = sanitizer(t), *admin = q->admin;
        uint16_t identify_cid, status[3];
        bool running;

        start(q);
        identify_cid =
            send_cmd(admin, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = IDENTIFY_LEN);
        want_eq(t, "the status of Identify", finish(admin, identify_cid).status, NVME_SUCCESS);
        want_eq(t, "the status of Keep Alive",
                finish(admin, send_cmd(admin, .opc = NVME_KEEP_ALIVE)).status, NVME_SUCCESS);
        want_eq(t, "the status of Get Features",
                finish(admin, send_cmd(admin, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_KATO)).status,
                NVME_SUCCESS);
        for (unsigned i = 0; i < 3; i++)
                status[i] =
                    finish(admin, send_get_log(admin, pages[i].lid, pages[i].bytes, 0)).status;
        running = sos(q) == IN_PROGRESS;
        for (unsigned i = 0; i < 3; i++)
                want(t, status[i] == NVME_SUCCESS, "Success", "status %03Xh for log page %02Xh",
                     status[i], pages[i].lid);
        require(t, running, "the operation has ended in the meantime");
}

/* Each of these ends so as long as the operation runs. */
static void want_barred(struct queue *q, const char *what, uint16_t status)
{
        bool running = sos(q) == IN_PROGRESS;

        require(q->t, running || status == NVME_SANITIZING, "the operation has ended already");
        want_eq(q->t, what, status, NVME_SANITIZING);
}

CASE("base/sanitize/barred", MUST, RULES(SANITIZE_BARRED),
     "Write protection, the Persistent Event log and another Sanitize are refused during a "
     "Sanitize operation",
     .alone = true, .after = restore)
{
        struct queue *q = sanitizer(t), *admin = q->admin;
        const struct id_ctrl *id = identify_ctrl(admin);
        uint32_t nsid = (uint32_t)le_get(identify(admin, CNS_NS_LIST, 0), 4), action = action_of(q);

        start(q);
        want_barred(q, "the status of another Sanitize", sanitize(q, action));
        if (id->nwpc & 1 && nsid)
                want_barred(q, "the status of Set Features of write protection",
                            finish(admin, send_cmd(admin, .opc = NVME_SET_FEATURES, .nsid = nsid,
                                                   .cdw10 = FEAT_WRITE_PROTECT, .cdw11 = 0))
                                .status);
        if (id->lpa & LPA_PERSISTENT)
                want_barred(
                    q, "the status of Get Log Page of the Persistent Event log",
                    finish(admin,
                           send_cmd(admin, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                                    .cdw10 = LOG_PERSISTENT | 1 << 8 | 127 << 16, .bytes = 512))
                        .status);
}

CASE("base/sanitize/barred-io", MUST, RULES(SANITIZE_BARRED),
     "Reads are refused on each controller during a Sanitize operation, and work after it",
     .alone = true, .after = restore)
{
        struct queue *q = sanitizer(t), *other = sanitizer(t);
        struct block b = last_block(q);

        start(q);
        want_barred(q, "the status of Read", finish(q, send_last(q, &b, NVME_READ, NULL)).status);
        want_barred(q, "the status of Read on another controller",
                    finish(other, send_last(other, &b, NVME_READ, NULL)).status);
        await(q);
        succeed(other, send_last(other, &b, NVME_READ, NULL));
}
