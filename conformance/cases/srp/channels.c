/* SPDX-License-Identifier: BSD-3-Clause */
/* Several channels of an initiator, and logins that end older ones. */
#include "conformance/srp/srp_words.h"

static unsigned result_of(const struct chan *c)
{
        return c->rsp.rsp_flags & SRP_RESULT;
}

/* --- what a login says of older channels -------------------------------------------------------------- */

CASE("srp/login/told-none", MUST, RULES(SRP_LOGIN_TOLD),
     "The first login of an initiator is told that there were no channels")
{
        want_eq(t, "multi-channel result", result_of(log_in(t)), SRP_RESULT_NONE);
}

CASE("srp/login/told-maintained", MUST, RULES(SRP_LOGIN_TOLD),
     "A multiple login is told that the older channel is maintained", .needs = NEEDS_MULTI)
{
        (void)ready_channel(t);
        want_eq(t, "multi-channel result", result_of(log_in(t, .flags = SRP_ACTION_MULTI)),
                SRP_RESULT_MAINTAINED);
}

CASE("srp/login/told-terminated", MUST, RULES(SRP_LOGIN_TOLD),
     "A single login is told that the older channel is terminated")
{
        (void)ready_channel(t);
        want_eq(t, "multi-channel result", result_of(log_in(t)), SRP_RESULT_TERMINATED);
}

CASE("srp/login/told-left", MUST, RULES(SRP_LOGIN_RESULT),
     "A login after the older channel has gone is told that there was none", .slow = true)
{
        struct chan *c;

        leave(ready_channel(t));
        give_ms(t, 300);
        c = log_in(t);
        if (result_of(c) != SRP_RESULT_NONE)
                advise(t, "multi-channel result 0", "%u", result_of(c));
}

/* --- what becomes of them -------------------------------------------------------------------------------- */

CASE("srp/login/older-end", MUST, RULES(SRP_LOGIN_ENDS), "A single login ends the older channel")
{
        struct chan *c = ready_channel(t);

        (void)log_in(t);
        expect_ended(c);
}

CASE("srp/login/older-end-all", MUST, RULES(SRP_LOGIN_ENDS),
     "A single login ends all older channels", .needs = NEEDS_MULTI)
{
        struct chan *c = ready_channel(t), *more[2];

        for (unsigned i = 0; i < 2; i++)
                more[i] = log_in(t, .flags = SRP_ACTION_MULTI);
        (void)log_in(t);
        expect_ended(c);
        for (unsigned i = 0; i < 2; i++)
                expect_ended(more[i]);
}

CASE("srp/login/older-end-busy", MUST, RULES(SRP_LOGIN_ENDS),
     "A single login ends the older channel while commands are outstanding, and works",
     .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t), *again;

        for (unsigned i = 0; i < 4; i++)
                send_order(order_slow(c));
        again = ready_channel(t);
        expect_ended(c);
        expect_served(again);
}

CASE("srp/login/others-stay", MUST, RULES(SRP_RSP_ANSWERED),
     "A single login leaves other initiators' channels as they are")
{
        struct chan *c = ready_channel(t), *other = ready_channel(t, .other = 1);

        (void)log_in(t);
        expect_ended(c);
        expect_served(other);
}

CASE("srp/login/older-stay", MUST, RULES(SRP_LOGIN_KEEPS),
     "A multiple login leaves the older channel as it is", .needs = NEEDS_MULTI)
{
        struct chan *c = ready_channel(t);

        (void)log_in(t, .flags = SRP_ACTION_MULTI);
        expect_served(c);
        pause_ms(t, 50);
        expect_served(c);
}

CASE("srp/login/single-then-multiple", MUST, RULES(SRP_RSP_ANSWERED),
     "Each of several channels works", .needs = NEEDS_MULTI)
{
        struct chan *c[3] = { ready_channel(t) };

        for (unsigned i = 1; i < 3; i++)
                c[i] = log_in(t, .flags = SRP_ACTION_MULTI);
        for (unsigned i = 0; i < 9; i++)
                expect_served(c[i % 3]);
}

/* Of one nexus they are: who takes them for overlapped commands (SAM-5 5.11) is right, and so is who keeps them apart. */
CASE("srp/login/same-tags", MUST, RULES(SRP_TAG_RESPONSE),
     "Commands with one tag on two channels are each answered on their own, or end a channel",
     .needs = NEEDS_MULTI)
{
        struct chan *c = ready_channel(t), *more = log_in(t, .flags = SRP_ACTION_MULTI),
                    *both[2] = { c, more };
        struct order *o[2];

        t->negative = true;
        for (unsigned i = 0; i < 2; i++) {
                o[i] = order_of(both[i], SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);
                order_set_tag(o[i], 0x42);
                send_order(o[i]);
        }
        for (unsigned i = 0; i < 2; i++)
                expect_ended_or_answered(both[i], 0x42);
}

CASE("srp/login/one-leaves", MUST, RULES(SRP_RSP_ANSWERED),
     "Where one of several channels leaves the others work on", .needs = NEEDS_MULTI)
{
        struct chan *c = ready_channel(t), *more = log_in(t, .flags = SRP_ACTION_MULTI);

        leave(more);
        expect_served(c);
}

CASE("srp/login/first-leaves", MUST, RULES(SRP_RSP_ANSWERED),
     "Where the first channel leaves the others work on", .needs = NEEDS_MULTI)
{
        struct chan *c = ready_channel(t), *more = log_in(t, .flags = SRP_ACTION_MULTI);

        leave(c);
        expect_served(more);
}

CASE("srp/login/one-breaks", MUST, NO_RULE,
     "Where one of several channels breaks a rule the others work on", .needs = NEEDS_MULTI)
{
        struct chan *c = ready_channel(t), *more = log_in(t, .flags = SRP_ACTION_MULTI);

        send_as_is(more, (const uint8_t[64]) { 0x7f }, 64);
        give_ms(t, 50);
        if (is_live(c))
                expect_ended_or_works(c);
        if (!is_live(c))
                advise(t, "the other channel works on", "its end");
        expect_others_served(t);
}

CASE("srp/login/again-and-again", MUST, RULES(SRP_RSP_ANSWERED),
     "Of twenty single logins in a row the last one works")
{
        enum { LOGINS = 20 };
        struct chan *c = NULL;

        for (unsigned i = 0; !is_enough(t, i, LOGINS); i++)
                c = log_in(t);
        attend(c);
        expect_served(c);
}
