/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 3.9: Keep Alive. */
#include "conformance/words/case.h"

#include "conformance/engine/suite.h"

enum {
        KATO_MOST = 10000, /* ms: where SPDK begins; a case that waits for two of them has 30 s */
        LATE = 5000, /* ms that a busy target may need to notice: only who is late waits for them */
        CASE_TIME = 28000, /* ms that a case may wait in all */
};

/* The Keep Alive Timeout that it works with, which may be longer than asked (3.9.1): ms. Who asks for it while the
 * timer of the other runs may come too late. */
static uint32_t kato_in_force(struct queue *admin, uint64_t since, uint32_t asked)
{
        uint32_t kato =
            expect_answer(admin, send_cmd(admin, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_KATO)).dw0;

        require(admin->t, !admin->over || now_ms() - since < asked,
                "the timer of %u ms ran out before Get Features was answered", asked);
        want(admin->t, !admin->over, "the response to Get Features", "the end after %u ms",
             (unsigned)(now_ms() - since));
        require(admin->t, kato > 0 && kato <= KATO_MOST, "KATO is raised to %u ms", kato);
        return kato;
}

/* Its Keep Alive timer, started now that the association stands, runs out soon: ms. However long it
 * took to connect its queues, the time counts from here (3.9.3.1, 3.9.4.1). */
static uint32_t shorten(struct queue *admin, uint32_t asked)
{
        uint64_t since = now_ms();

        succeed(admin, send_set_feature(admin, FEAT_KATO, asked));
        return kato_in_force(admin, since, asked);
}

/* With traffic based Keep Alive it may take two intervals to notice that the host is silent (3.9.4.2);
 * then CQT, if it is told, to clean up (3.9.5). */
static uint32_t patience(const struct t *t, uint32_t kato)
{
        return 2 * kato + le16_get(caps(t)->id.cqt) + LATE;
}

static void expect_expiry(struct queue *admin, uint32_t kato)
{
        uint32_t ms = patience(admin->t, kato);

        require(admin->t, ms <= CASE_TIME, "KATO and CQT allow %u ms", ms);
        expect_end_within(admin, ms);
}

CASE("fab/keep-alive/command", MUST, RULES(KA_COMMAND), "The Keep Alive command succeeds")
{
        struct queue *q = admin_queue(t);

        expect_success(q, send_cmd(q, .opc = NVME_KEEP_ALIVE));
}

CASE("fab/keep-alive/round-up", MUST, RULES(KA_ROUND),
     "KATO of Connect is rounded up to the granularity given by KAS")
{
        uint32_t grain = le16_get(caps(t)->id.kas) * 100u;
        struct queue *q = admin_queue(t, .kato = 123456);
        uint32_t kato = get_feature(q, FEAT_KATO);

        require(t, grain > 0, "KAS is 0");
        want(t, kato >= 123456 && kato % grain == 0, "123456 ms, rounded up", "%u ms", kato);
}

CASE("fab/keep-alive/round-up-feature", MUST, RULES(KA_ROUND),
     "KATO of Set Features is rounded up to the granularity given by KAS")
{
        uint32_t grain = le16_get(caps(t)->id.kas) * 100u, kato;
        struct queue *q = admin_queue(t);
        struct reply r;

        require(t, grain > 0, "KAS is 0");
        r = finish(q, send_set_feature(q, FEAT_KATO, 654321));
        require(t, r.status != NVME_KATO_INVALID, "a KATO of 11 minutes is too long for it");
        want_eq(t, "status", r.status, NVME_SUCCESS);
        kato = get_feature(q, FEAT_KATO);
        want(t, kato >= 654321 && kato % grain == 0, "654321 ms, rounded up", "%u ms", kato);
}

CASE("fab/keep-alive/minimum", MUST, RULES(KA_MINIMUM),
     "A KATO of 1 ms is not refused, and is raised to what the controller can do")
{
        struct queue *q = admin_queue(t);

        struct reply r;

        succeed(q, send_set_feature(q, FEAT_KATO, 1));
        r = expect_answer(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_KATO));
        require(t, !q->over, "the association ended by Keep Alive meanwhile");
        want_eq(t, "the status of Get Features of KATO", r.status, NVME_SUCCESS);
        want(t, r.dw0 >= 1, "at least 1 ms", "0 (no timer)");
}

CASE("fab/keep-alive/zero", MUST, RULES(KA_ZERO),
     "Set Features with KATO 0 is refused and leaves the old value")
{
        struct queue *q = admin_queue(t, .kato = 60000);
        uint32_t before = get_feature(q, FEAT_KATO);

        expect_refusal(q, send_set_feature(q, FEAT_KATO, 0));
        if (!q->over)
                want_eq(t, "KATO", get_feature(q, FEAT_KATO), before);
}

CASE("fab/keep-alive/expiry", MUST, RULES(KA_EXPIRY),
     "When the Keep Alive timer expires, all connections of the association are closed",
     .slow = true, .unmoved = true)
{
        struct queue *q = io_queue(t), *second = second_queue(q, 0);
        uint32_t kato = shorten(q->admin, 1000);

        expect_expiry(q->admin, kato);
        expect_expiry(q, kato); /* in which order they end nobody says */
        if (second)
                expect_expiry(second, kato);
}

CASE("fab/keep-alive/sooner", MUST, RULES(KA_EXPIRY),
     "The KATO of Connect takes effect when the controller is enabled", .slow = true,
     .unmoved = true)
{
        enum { ASKED = 1000 };
        struct queue *q = admin_queue(t, .kato = ASKED, .disabled = true);
        uint64_t since = now_ms();

        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        expect_expiry(q, kato_in_force(q, since, ASKED));
}

CASE("fab/keep-alive/expiry-alone", MUST, RULES(KA_EXPIRY),
     "Keep Alive expiry of one association does not affect another association of the same host",
     .slow = true, .unmoved = true)
{
        struct queue *other = admin_queue(t), *q = io_queue(t);

        expect_expiry(q->admin, shorten(q->admin, 1000));
        expect_works(other);
}

typedef uint16_t send_fn(struct queue *q);

/*
 * This command, each time before KATO has passed since the last one was sent: 2.4 intervals, in which
 * a timer that runs faster than KATO says has run out. The target restarts its timer when a command
 * completes (3.9.3.1), which is after it was sent: what ends sooner than KATO after that is ended by the
 * target, however busy it is. False: we were late, or it was, so that an end is nobody's fault.
 */
static bool is_kept_by(struct queue *q, uint64_t sent, uint32_t kato, send_fn *send)
{
        for (int i = 0; i < 3; i++) {
                uint64_t before = sent;
                struct reply r;

                pause_ms(q->t, kato / 10 * 8);
                sent = now_ms();
                r = expect_answer(q, send(q));
                if (now_ms() - before >= kato / 20 * 19) /* clocks may differ */
                        return false;
                want(q->t, !q->over, "the association continues", "it ended %u ms after a command",
                     (unsigned)(now_ms() - before));
                if (q == q->admin)
                        want_eq(q->t, "status", r.status, NVME_SUCCESS);
        }
        return true;
}

/* Again with a longer KATO, on a new association, as long as this machine is too slow for it. */
static struct queue *kept_queue(struct t *t, bool io, send_fn *send)
{
        uint64_t began = now_ms(), most = t_scaled(t, CASE_TIME);

        for (uint32_t asked = 1200; now_ms() - began + 3 * asked <= most; asked *= 2) {
                struct queue *q = io_queue(t);
                uint64_t since = now_ms();
                uint32_t kato = shorten(q->admin, asked);

                if (is_kept_by(io ? q : q->admin, since, kato, send))
                        return q;
        }
        skip(t, "this machine is too slow to send commands within each KATO");
}

static uint16_t send_keep_alive(struct queue *q)
{
        return send_cmd(q, .opc = NVME_KEEP_ALIVE);
}

CASE("fab/keep-alive/alive", MUST, RULES(KA_ALIVE),
     "The association lives on while a Keep Alive arrives within each KATO", .slow = true,
     .unmoved = true)
{
        expect_works(kept_queue(t, false, send_keep_alive));
}

static uint16_t send_block(struct queue *q)
{
        return send_read(q);
}

CASE("fab/keep-alive/traffic", MUST, RULES(KA_ALIVE),
     "With Traffic Based Keep Alive (CTRATT bit 6), Reads keep the association alive", .slow = true,
     .unmoved = true)
{
        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, le32_get(caps(t)->id.ctratt) & CTRATT_TBKAS, "Keep Alive is command based");
        expect_works(kept_queue(t, true, send_block)->admin);
}

CASE("fab/keep-alive/default", MUST, RULES(KA_DEFAULT),
     "The default value of KATO is 120 s, rounded up as KAS says")
{
        enum { DEFAULT = 1 << 8, MS = 120000 };
        struct queue *q = admin_queue(t);
        uint32_t grain = le16_get(caps(t)->id.kas) * 100u;

        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0), "before NVMe 2.0 the default may be 0");
        require(t, le16_get(caps(t)->id.oncs) & ONCS_SAVE,
                "ONCS does not announce Select and Save");
        require(t, grain > 0, "KAS is 0");
        want_eq(t, "the default value of KATO",
                succeed(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_KATO | DEFAULT)).dw0,
                (MS + grain - 1) / grain * grain);
}

/* One with command based Keep Alive. */
static struct queue *command_based(struct t *t)
{
        struct queue *q = admin_queue(t);

        if (le32_get(identify_ctrl(q)->ctratt) & CTRATT_TBKAS && caps(t)->expendable)
                q = admin_queue(t, .subnqn = caps(t)->expendable);
        require(t, !(le32_get(identify_ctrl(q)->ctratt) & CTRATT_TBKAS),
                "Keep Alive is traffic based (CTRATT bit 6)");
        require(t, le16_get(identify_ctrl(q)->kas), "KAS is 0");
        return q;
}

CASE("fab/keep-alive/command-based", MUST, RULES(KA_COMMAND_BASED, KA_EXPIRY),
     "Where Keep Alive is command based (CTRATT bit 6 is 0), other commands do not stop its timer",
     .slow = true, .unmoved = true)
{
        struct queue *q = command_based(t);
        uint32_t kato = shorten(q, 1000), step = kato / 4, most = patience(t, kato);
        uint64_t end = t_deadline(t, most);

        require(t, most <= CASE_TIME, "KATO and CQT allow %u ms", most);
        while (now_ms() < end && !q->over) {
                pause_ms(t, step);
                expect_answer(
                    q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = IDENTIFY_LEN));
        }
        want(t, q->over, "the end of the association", "it lasts %u ms without Keep Alive", most);
}
