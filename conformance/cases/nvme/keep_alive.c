/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 3.9: Keep Alive. */
#include "conformance/words/case.h"

enum {
        KATO_MOST = 10000, /* ms: where SPDK begins; a case that waits for two of them has 30 s */
        LATE = 1500,       /* ms that a busy target may need to notice */
};

/* Its KATO. */
static uint32_t soon(struct queue *admin)
{
        uint32_t kato = get_feature(admin, FEAT_KATO);

        require(admin->t, kato > 0 && kato <= KATO_MOST, "KATO is raised to %u ms", kato);
        return kato;
}

/* An association whose Keep Alive timer runs out soon. */
static struct queue *short_lived(struct t *t, uint32_t asked, uint32_t *kato)
{
        struct queue *q = io_queue(t, .kato = asked);

        *kato = soon(q->admin);
        return q;
}

/* With traffic based Keep Alive it may take two intervals to notice that the host is silent (3.9.4.2);
 * then CQT, if it is told, to clean up (3.9.5). */
static void expect_expiry(struct queue *admin, uint32_t kato)
{
        expect_end_within(admin, 2 * kato + le16_get(caps(admin->t)->id.cqt) + LATE);
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

        require(t, grain > 0, "KAS is 0");
        succeed(q, send_set_feature(q, FEAT_KATO, 654321));
        kato = get_feature(q, FEAT_KATO);
        want(t, kato >= 654321 && kato % grain == 0, "654321 ms, rounded up", "%u ms", kato);
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
     .slow = true)
{
        uint32_t kato;
        struct queue *q = short_lived(t, 1000, &kato);

        expect_expiry(q->admin, kato);
        expect_end(q, 500);
}

CASE("fab/keep-alive/sooner", MUST, RULES(KA_EXPIRY),
     "A shorter KATO set by Set Features takes effect at once", .slow = true)
{
        struct queue *q = admin_queue(t);

        succeed(q, send_set_feature(q, FEAT_KATO, 1000));
        expect_expiry(q, soon(q));
}

CASE("fab/keep-alive/expiry-alone", MUST, RULES(KA_EXPIRY),
     "Keep Alive expiry of one association does not affect another association of the same host",
     .slow = true)
{
        uint32_t kato;
        struct queue *other = admin_queue(t), *q = short_lived(t, 1000, &kato);

        expect_expiry(q->admin, kato);
        expect_works(other);
}

/* 2.4 intervals: a timer that runs faster than KATO says has run out. */
CASE("fab/keep-alive/alive", MUST, RULES(KA_ALIVE),
     "The association lives on while a Keep Alive arrives within each KATO", .slow = true)
{
        uint32_t kato;
        struct queue *q = short_lived(t, 1500, &kato);

        for (int i = 0; i < 3; i++) {
                pause_ms(t, kato / 10 * 8);
                expect_success(q->admin, send_cmd(q->admin, .opc = NVME_KEEP_ALIVE));
        }
        expect_works(q);
}

CASE("fab/keep-alive/traffic", MUST, RULES(KA_ALIVE),
     "With Traffic Based Keep Alive (CTRATT bit 6), Reads keep the association alive", .slow = true)
{
        uint32_t kato;
        struct queue *q = short_lived(t, 1500, &kato);

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, le32_get(caps(t)->id.ctratt) & CTRATT_TBKAS, "Keep Alive is command based");
        for (int i = 0; i < 3; i++) {
                pause_ms(t, kato / 10 * 8);
                expect_works(q);
        }
        expect_works(q->admin);
}
