/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 3.9: Keep Alive. */
#include "conformance/case.h"

/* An association whose Keep Alive timer runs out soon. */
static struct queue *short_lived(struct t *t, uint32_t *kato)
{
        struct queue *q = io_queue(t, .kato = 1000);

        *kato = get_feature(q->admin, FEAT_KATO);
        require(t, *kato > 0 && *kato <= 3000, "KATO is raised to %u ms", *kato);
        return q;
}

/* ms that cleaning up may take when the timer has run out (3.9.5); 0: not told. */
static unsigned cleanup_ms(const struct t *t)
{
        return le16_get(caps(t)->id.cqt);
}

CASE("fab/3.9/command", MUST, RULES(KA_COMMAND), "Keep Alive succeeds")
{
        struct queue *q = admin_queue(t);

        expect_success(q, send_cmd(q, .opc = NVME_KEEP_ALIVE));
}

CASE("fab/3.9/round-up", MUST, RULES(KA_ROUND),
     "KATO of Connect is rounded up to the granularity that KAS says")
{
        uint32_t grain = le16_get(caps(t)->id.kas) * 100u;
        struct queue *q = admin_queue(t, .kato = 12345);
        uint32_t kato = get_feature(q, FEAT_KATO);

        require(t, grain > 0, "KAS is 0");
        want(t, kato >= 12345 && kato % grain == 0, "12345 ms, rounded up", "%u ms", kato);
}

CASE("fab/3.9/round-up-feature", MUST, RULES(KA_ROUND), "... and so is that of Set Features")
{
        uint32_t grain = le16_get(caps(t)->id.kas) * 100u, kato;
        struct queue *q = admin_queue(t);

        require(t, grain > 0, "KAS is 0");
        succeed(q, send_set_feature(q, FEAT_KATO, 54321));
        kato = get_feature(q, FEAT_KATO);
        want(t, kato >= 54321 && kato % grain == 0, "54321 ms, rounded up", "%u ms", kato);
}

CASE("fab/3.9/zero", MUST, RULES(KA_ZERO),
     "Set Features with KATO 0 is refused, and the old value stays")
{
        struct queue *q = admin_queue(t, .kato = 60000);
        uint32_t before = get_feature(q, FEAT_KATO);

        expect_refusal(q, send_set_feature(q, FEAT_KATO, 0));
        if (!q->over)
                want_eq(t, "KATO", get_feature(q, FEAT_KATO), before);
}

CASE("fab/3.9/expiry", MUST, RULES(KA_EXPIRY),
     "When the Keep Alive timer runs out all connections of the association are closed",
     .slow = true)
{
        uint32_t kato;
        struct queue *q = short_lived(t, &kato);

        expect_end(q->admin, 2 * kato + cleanup_ms(t));
        expect_end(q, 500);
}

CASE("fab/3.9/expiry-alone", MUST, RULES(KA_EXPIRY),
     "... and those of another association of the same host are not", .slow = true)
{
        uint32_t kato;
        struct queue *other = admin_queue(t), *q = short_lived(t, &kato);

        expect_end(q->admin, 2 * kato + cleanup_ms(t));
        expect_works(other);
}

CASE("fab/3.9/alive", MUST, RULES(KA_ALIVE), "With Keep Alive the association lives on",
     .slow = true)
{
        uint32_t kato;
        struct queue *q = short_lived(t, &kato);

        for (int i = 0; i < 9; i++) {
                pause_ms(t, kato / 3);
                expect_success(q->admin, send_cmd(q->admin, .opc = NVME_KEEP_ALIVE));
        }
        expect_works(q);
}

CASE("fab/3.9/traffic", MUST, RULES(KA_ALIVE),
     "With traffic based Keep Alive (CTRATT bit 6) Reads keep the association alive", .slow = true)
{
        uint32_t kato;
        struct queue *q = short_lived(t, &kato);

        require(t, caps(t)->nsid, "no namespace");
        require(t, le32_get(caps(t)->id.ctratt) & CTRATT_TBKAS, "Keep Alive is command based");
        for (int i = 0; i < 9; i++) {
                pause_ms(t, kato / 3);
                expect_works(q);
        }
        expect_works(q->admin);
}
