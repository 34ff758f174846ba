/* SPDX-License-Identifier: BSD-3-Clause */
/* Request limits and tags of SRP. */
#include "conformance/srp/srp_words.h"

enum { QUIET_MS = 100 };

/* --- the limit ---------------------------------------------------------------------------------- */

CASE("srp/limit/whole", MUST, RULES(SRP_RSP_ANSWERED),
     "As many requests at once as the limit permits are answered")
{
        struct chan *c = ready_channel(t);

        run_burst(c, limit_of(c));
}

CASE("srp/limit/whole-again", MUST, RULES(SRP_RSP_ANSWERED, SRP_LIMIT_RETURNED),
     "The whole limit can be used ten times in a row")
{
        struct chan *c = ready_channel(t);
        int64_t before = c->limit;

        for (unsigned i = 0; i < 10; i++) {
                run_burst(c, limit_of(c));
                expect_limit(c, before);
        }
}

CASE("srp/limit/returned", MUST, RULES(SRP_LIMIT_RETURNED),
     "A response gives back what its request has taken")
{
        struct chan *c = log_in(t);
        int64_t before = c->limit;

        attend(c);
        expect_limit(c, before);
}

CASE("srp/limit/returned-error", MUST, RULES(SRP_LIMIT_RETURNED),
     "The response to a command that fails gives back what that has taken")
{
        struct chan *c = ready_channel(t);
        int64_t before = c->limit;

        (void)run_order(order_of(c, SCSI_NOBODYS, 0));
        expect_limit(c, before);
}

CASE("srp/limit/returned-management", MUST, RULES(SRP_LIMIT_RETURNED),
     "The response to task management gives back what that has taken")
{
        struct chan *c = ready_channel(t);
        int64_t before = c->limit;

        (void)run_function(c, SRP_TM_ABORT_TASK, 0x7777);
        expect_limit(c, before);
}

CASE("srp/limit/returned-aborted", MUST, RULES(SRP_LIMIT_RETURNED),
     "What a command has taken that was aborted is given back, too", .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);
        int64_t before = c->limit;
        struct order *o = order_slow(c);
        uint64_t tag;

        send_order(o);
        tag = send_function_to(c, srp_peer_of(t->suite)->slow_lun, SRP_TM_ABORT_TASK, o->tag);
        (void)expect_rsp_to(c, tag);
        expect_limit(c, before);
}

CASE("srp/limit/overflow", MUST, RULES(SRP_LIMIT_OVERFLOW),
     "Deltas take the limit not beyond 7FFFFFFFh")
{
        expect_served(ready_channel(t));
}

CASE("srp/limit/taken-back", MUST, RULES(SRP_LIMIT_TAKEN), "No more is taken back than was given")
{
        expect_served(ready_channel(t));
}

/* As many commands are outstanding as the limit permits: one that is answered at once, as by TASK SET FULL, is not. */
static struct chan *full_channel(struct t *t)
{
        struct chan *c = slow_channel(t);
        int64_t before = c->limit;

        t->negative = c->overruns = true;
        for (unsigned i = 0;
             c->limit > 0 && before - c->limit < CHAN_AT_ONCE && i < 4 * CHAN_AT_ONCE; i++)
                send_order(order_slow(c));
        require(t, c->limit <= 0,
                "the limit is not reached, by %lld: it is high, or the unit answers",
                (long long)c->limit);
        return c;
}

CASE("srp/limit/overrun", MUST, RULES(SRP_LIMIT_OVERRUN),
     "A request beyond the limit ends the channel", .needs = NEEDS_SLOW)
{
        struct chan *c = full_channel(t);

        send_order(order_slow(c));
        expect_ended(c);
}

CASE("srp/limit/overrun-management", MUST, RULES(SRP_LIMIT_OVERRUN),
     "Task management beyond the limit ends the channel", .needs = NEEDS_SLOW)
{
        struct chan *c = full_channel(t);

        (void)send_function(c, SRP_TM_ABORT_TASK, 0x7777);
        expect_ended(c);
}

CASE("srp/limit/overrun-far", MUST, NO_RULE,
     "Far more requests than the limit permits harm nobody, whatever becomes of the channel",
     .storm = true)
{
        struct chan *c = ready_channel(t);

        t->negative = c->overruns = true;
        for (unsigned i = 0; i < CHAN_AT_ONCE && is_live(c); i++)
                send_order(order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0));
        expect_others_served(t);
}

/* --- tags --------------------------------------------------------------------------------------- */

CASE("srp/tag/response", MUST, RULES(SRP_TAG_RESPONSE), "A response has the tag of its request")
{
        expect_served(ready_channel(t));
}

#define TAG(name, value, says)                                                                     \
        CASE("srp/tag/" name, MUST, RULES(SRP_TAG_RESPONSE), says)                                 \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                struct order *o = order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);                \
                                                                                                   \
                order_set_tag(o, value);                                                           \
                (void)run_order(o);                                                                \
        }

TAG("zero", 0, "A tag of zero is given back")
TAG("ones", UINT64_MAX, "A tag of 64 ones is given back")
TAG("high", UINT64_C(0x8000000000000000), "A tag with the highest bit alone is given back")

CASE("srp/tag/again", MUST, RULES(SRP_TAG_RESPONSE),
     "A tag can be used again once its request is answered")
{
        struct chan *c = ready_channel(t);

        for (unsigned i = 0; i < 10; i++) {
                struct order *o = order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);

                order_set_tag(o, 7);
                (void)run_order(o);
        }
}

CASE("srp/tag/unique", MUST, RULES(SRP_TAG_UNIQUE),
     "A second request with the tag of one that is outstanding is answered, or ends the channel",
     .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);
        struct order *first = order_slow(c), *second = order_slow(c);

        order_set_tag(second, first->tag);
        send_order(first);
        send_oddly(second);
        expect_ended_or_answered(c, first->tag);
}

CASE("srp/tag/answer-unasked", MUST, RULES(SRP_TAG_ANSWER),
     "SRP_CRED_RSP without a request of the target ends the channel")
{
        struct chan *c = ready_channel(t);

        t->negative = true;
        send_small(c, SRP_CRED_RSP, 0x1234);
        expect_ended(c);
}

CASE("srp/tag/answer-unasked-event", MUST, RULES(SRP_TAG_ANSWER),
     "SRP_AER_RSP without a request of the target ends the channel")
{
        struct chan *c = ready_channel(t);

        t->negative = true;
        send_small(c, SRP_AER_RSP, 0x1234);
        expect_ended(c);
}

/* Its task is aborted over another channel: no response brings the credit. */
static struct chan *owed_channel(struct t *t)
{
        struct chan *c = slow_channel(t), *by = log_in(t, .flags = SRP_ACTION_MULTI);
        uint32_t slow = srp_peer_of(t->suite)->slow_lun;

        c->mute = true;
        send_order(order_slow(c));
        expect_served(c);
        (void)expect_rsp_to(by, send_function_to(by, slow, SRP_TM_ABORT_TASK_SET, 0));
        return c;
}

CASE("srp/tag/target-waits", MUST, RULES(SRP_TARGET_WAITS),
     "The target has one request to the initiator that is not answered",
     .needs = NEEDS_SLOW | NEEDS_MULTI)
{
        struct chan *c = owed_channel(t);
        uint64_t until = now_ms() + t_scaled(t, 3000);

        require(t, chan_has_iu(c, until), "the target sends no requests");
        (void)chan_take(c);
        if (chan_has_iu(c, now_ms() + t_scaled(t, QUIET_MS)))
                (void)chan_take(c);
}

/* A target may give up such an initiator, and need not give it credit by a second request. */
CASE("srp/tag/target-unanswered", MUST, NO_RULE,
     "A channel works on or ends where the initiator does not answer the target's request, and "
     "others are served",
     .needs = NEEDS_SLOW | NEEDS_MULTI)
{
        struct chan *c = owed_channel(t);

        for (unsigned i = 0; i < 20 && is_live(c) && c->limit > 0; i++)
                expect_ended_or_works(c);
        expect_others_served(t);
}
