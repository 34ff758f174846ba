/* SPDX-License-Identifier: BSD-3-Clause */
/* How channels end: logouts, disconnects in each state, initiators that vanish, floods of logins. */
#include "conformance/srp/srp_words.h"

/* --- logouts -------------------------------------------------------------------------------------------- */

CASE("srp/logout/ends", MUST, RULES(SRP_LOGOUT_ENDS), "SRP_I_LOGOUT ends the channel")
{
        struct chan *c = ready_channel(t);

        send_small(c, SRP_I_LOGOUT, 9);
        expect_ended(c);
}

CASE("srp/logout/ends-busy", MUST, RULES(SRP_LOGOUT_ENDS),
     "SRP_I_LOGOUT ends the channel while commands are outstanding", .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);

        for (unsigned i = 0; i < 4; i++)
                send_order(order_slow(c));
        send_small(c, SRP_I_LOGOUT, 9);
        expect_ended(c);
}

CASE("srp/logout/last-initiator", MUST, RULES(SRP_LOGOUT_LAST_I),
     "A command after SRP_I_LOGOUT harms nobody")
{
        struct chan *c = ready_channel(t);

        t->negative = true;
        send_small(c, SRP_I_LOGOUT, 9);
        send_order(order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0));
        expect_others_served(t);
}

CASE("srp/logout/last-initiator-twice", MUST, RULES(SRP_LOGOUT_LAST_I),
     "A second SRP_I_LOGOUT harms nobody")
{
        struct chan *c = ready_channel(t);

        t->negative = true;
        for (unsigned i = 0; i < 2; i++)
                send_small(c, SRP_I_LOGOUT, 9);
        expect_others_served(t);
}

CASE("srp/logout/last-target", MUST, RULES(SRP_LOGOUT_LAST_T),
     "The target says nothing on a channel after SRP_T_LOGOUT")
{
        enum { MORE_MS = 100 };
        struct chan *c = ready_channel(t);

        (void)log_in(t);
        expect_ended(c);
        (void)chan_is_disconnected(c, now_ms() + t_scaled(t, MORE_MS));
        chan_look(c);
}

CASE("srp/logout/relogin", MUST, RULES(SRP_RSP_ANSWERED),
     "An initiator that has logged out can log in")
{
        struct chan *c = ready_channel(t);

        send_small(c, SRP_I_LOGOUT, 9);
        expect_served(ready_channel(t));
}

/* A WRITE of 32 KiB, whose data the target begins to fetch. */
static struct chan *begin_write(struct chan *c)
{
        uint16_t blocks = blocks_in(c, 32 << 10);
        struct order *o = order_write(c, blocks);

        (void)data_out(o, blocks * block_of(c));
        send_order(o);
        return c;
}

/* --- disconnects ------------------------------------------------------------------------------------------ */

#define DISCONNECT(name, says, ...)                                                                \
        CASE("srp/logout/disconnect-" name, MUST, RULES(SRP_DREQ), says " is answered",            \
             ##__VA_ARGS__)

DISCONNECT("at-once", "A disconnect right after the acceptance")
{
        leave(log_in(t));
}

DISCONNECT("idle", "A disconnect of an idle channel")
{
        leave(ready_channel(t));
}

DISCONNECT("after-burst", "A disconnect right after as many commands as the limit permits")
{
        struct chan *c = ready_channel(t);
        unsigned n = limit_of(c);

        for (unsigned i = 0; i < n; i++)
                send_order(order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0));
        leave(c);
}

DISCONNECT("busy", "A disconnect while commands are outstanding", .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);

        for (unsigned i = 0; i < 4; i++)
                send_order(order_slow(c));
        leave(c);
}

DISCONNECT("write", "A disconnect while a WRITE's data is fetched", .writes = true)
{
        leave(begin_write(ready_channel(t)));
}

DISCONNECT("after-logout", "A disconnect right after SRP_I_LOGOUT")
{
        struct chan *c = ready_channel(t);

        send_small(c, SRP_I_LOGOUT, 9);
        leave(c);
}

DISCONNECT("after-fault", "A disconnect right after an IU of a type that nobody knows")
{
        struct chan *c = ready_channel(t);

        send_as_is(c, (const uint8_t[64]) { 0x7f }, 64);
        leave(c);
}

DISCONNECT("during-relogin", "A disconnect while another login ends the channel")
{
        struct chan *c = ready_channel(t);
        struct chan *again = chan_new(t, &(const struct chan_login) { 0 });

        chan_connect(again);
        leave(c);
}

DISCONNECT("managing", "A disconnect while tasks are aborted", .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);
        uint32_t slow = srp_peer_of(t->suite)->slow_lun;

        for (unsigned i = 0; i < 4; i++)
                send_order(order_slow(c));
        (void)send_function_to(c, slow, SRP_TM_ABORT_TASK_SET, 0);
        leave(c);
}

DISCONNECT("all-at-once", "A disconnect of each of eight initiators")
{
        enum { CHANNELS = 8 };
        struct chan *c[CHANNELS];

        for (unsigned i = 0; i < CHANNELS; i++)
                c[i] = ready_channel(t, .other = i + 1);
        for (unsigned i = 0; i < CHANNELS; i++)
                chan_leave(c[i]);
        for (unsigned i = 0; i < CHANNELS; i++)
                expect_left(c[i]);
}

/* --- initiators that vanish -------------------------------------------------------------------------------- */

#define LIFE(name, says, ...) CASE("srp/life/" name, MUST, NO_RULE, says, ##__VA_ARGS__)

LIFE("vanish-asking", "An initiator that vanishes after its login request harms no others")
{
        struct chan *c = chan_new(t, &(const struct chan_login) { .other = 1 });

        chan_connect(c);
        chan_vanish(c);
        expect_others_served(t);
}

LIFE("vanish-accepted", "An initiator that vanishes right after the acceptance harms no others")
{
        chan_vanish(log_in(t));
        expect_others_served(t);
}

LIFE("vanish-idle", "An initiator that vanishes from an idle channel harms no others")
{
        chan_vanish(ready_channel(t));
        expect_others_served(t);
}

LIFE("vanish-busy", "An initiator that vanishes while commands are outstanding harms no others",
     .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);

        for (unsigned i = 0; i < 8; i++)
                send_order(order_slow(c));
        chan_vanish(c);
        expect_others_served(t);
}

LIFE("vanish-write", "An initiator that vanishes while its data is fetched harms no others",
     .writes = true)
{
        chan_vanish(begin_write(ready_channel(t)));
        expect_others_served(t);
}

LIFE("fail-accepted", "A queue pair that fails right after the acceptance harms no others")
{
        chan_fail(log_in(t));
        expect_others_served(t);
}

LIFE("fail-idle", "A queue pair that fails on an idle channel harms no others")
{
        chan_fail(ready_channel(t));
        expect_others_served(t);
}

LIFE("fail-busy", "A queue pair that fails while commands are outstanding harms no others",
     .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);

        for (unsigned i = 0; i < 8; i++)
                send_order(order_slow(c));
        chan_fail(c);
        expect_others_served(t);
}

LIFE("fail-then-login", "An initiator whose queue pair has failed can log in")
{
        chan_fail(ready_channel(t));
        expect_served(ready_channel(t));
}

LIFE("vanish-then-login", "An initiator that has vanished can log in")
{
        chan_vanish(ready_channel(t));
        expect_served(ready_channel(t));
}

LIFE("deaf", "An initiator that does not answer a disconnect request harms no others")
{
        struct chan *c = ready_channel(t), *again = chan_new(t, &(const struct chan_login) { 0 });

        t->negative = c->deaf = true;
        chan_connect(again);
        (void)chan_is_ended(c, now_ms() + t_scaled(t, 1000));
        expect_others_served(t);
}

LIFE("no-receives", "An initiator without room for responses harms no others")
{
        struct chan *c = log_in(t, .no_receives = true);

        t->negative = true;
        for (unsigned i = 0; i < 4 && c->limit > 0; i++)
                send_order(order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0));
        expect_others_served(t);
        chan_vanish(c);
}

LIFE("silent", "A channel on which nothing is said stays, and harms no others")
{
        struct chan *c = log_in(t);

        expect_others_served(t);
        attend(c);
        expect_served(c);
}

/* --- many ----------------------------------------------------------------------------------------------- */

LIFE("login-and-out", "Fifty logins with as many disconnects are served")
{
        enum { TIMES = 50 };

        for (unsigned i = 0; !is_enough(t, i, TIMES); i++)
                leave(log_in(t));
        expect_others_served(t);
}

/* So many login requests at once, of as many initiators or of one. */
static void flood(struct t *t, unsigned n, bool one, struct chan **c)
{
        t->negative = true;
        for (unsigned i = 0; i < n; i++)
                c[i] = chan_new(t, &(const struct chan_login) { .other = one ? 1 : 1 + i });
        for (unsigned i = 0; i < n; i++)
                chan_connect(c[i]);
}

/* Of what is too much at once the CM may take no notice; no time is prescribed. */
static void await_all(struct t *t, struct chan **c, unsigned n)
{
        uint64_t until = t_deadline(t, 10000);

        for (unsigned i = 0; i < n; i++)
                if (!chan_is_decided(c[i], until))
                        advise(t, "an answer to each login", "none to login %u", i);
}

LIFE("flood",
     "Forty initiators that log in at once are accepted or rejected, and others are served",
     .storm = true)
{
        enum { LOGINS = 40 };
        struct chan *c[LOGINS];

        flood(t, LOGINS, false, c);
        await_all(t, c, LOGINS);
        for (unsigned i = 0; i < LOGINS; i++)
                if (c[i]->state == CHAN_LIVE)
                        leave(c[i]);
        expect_others_served(t);
}

LIFE("flood-one", "Of twenty logins of one initiator at once the last works, or a next one",
     .storm = true)
{
        enum { LOGINS = 20 };
        struct chan *c[LOGINS];

        flood(t, LOGINS, true, c);
        await_all(t, c, LOGINS);
        expect_served(ready_channel(t, .other = 1));
}

LIFE("flood-vanish", "Forty initiators that vanish after their login requests harm no others",
     .storm = true)
{
        enum { LOGINS = 40 };
        struct chan *c[LOGINS];

        flood(t, LOGINS, false, c);
        for (unsigned i = 0; i < LOGINS; i++)
                chan_vanish(c[i]);
        expect_others_served(t);
}
