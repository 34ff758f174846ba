/* SPDX-License-Identifier: BSD-3-Clause */
/* The invariants of a channel's life: traces in which all hold, and for each one in which it does not. */
#include "pdu/core/tests/check.h"

#include <string.h>

#include "pdu/srp/machine/life.h"

struct step {
        enum srp_happening what;
        int64_t value;
        uint64_t now;
};
enum { STEPS = 24 };

static const struct srp_watch_times times = { 1000, 200, 300, 400 };

/* Registered, accepted with 4 credits, live, one command with data, DREQ of the peer, and all is given back. */
static const struct step whole_life[] = {
        { SRP_HAS_POSTED, 2, 0 },        { SRP_HAS_REGISTERED, 0, 0 },
        { SRP_HAS_RELOGGED, 0, 0 },      { SRP_HAS_ACCEPTED, 0, 1 },
        { SRP_HAS_GRANTED, 4, 1 },       { SRP_HAS_MOVED, LIFE_LIVE, 2 },
        { SRP_HAS_RUN, 0, 3 },           { SRP_HAS_REQUESTED, 0, 3 },
        { SRP_HAS_AWAITED, 0, 3 },       { SRP_HAS_EXECUTED, 0, 5 },
        { SRP_HAS_GOT, 0, 5 },           { SRP_HAS_GRANTED, 1, 6 },
        { SRP_HAS_PUT, 0, 6 },           { SRP_HAS_HEARD_DREQ, 0, 7 },
        { SRP_HAS_SAID_DREQ, 0, 7 },     { SRP_HAS_MOVED, LIFE_DRAINING, 7 },
        { SRP_HAS_COMPLETED, 0, 8 },     { SRP_HAS_COMPLETED, 0, 8 },
        { SRP_HAS_MOVED, LIFE_DEAD, 9 }, { SRP_HAS_UNREGISTERED, 0, 9 },
        { SRP_HAS_DESTROYED, 0, 9 },     { SRP_HAS_FREED, 0, 9 },
        { SRP_HAS_PUT, 0, 9 },
};
enum { WHOLE = COUNT(whole_life) };

static const struct step rejected[] = { { SRP_HAS_DESTROYED, 0, 0 },
                                        { SRP_HAS_FREED, 0, 0 },
                                        { SRP_HAS_PUT, 0, 0 } };

/* n steps, of which the one at `at` (-1: none) is another one. */
static enum srp_invariant play(const struct step *steps, unsigned n, int at,
                               const struct step *other, bool to_its_end)
{
        struct srp_watch w;

        srp_watch_init(&w, &times, 0);
        for (unsigned i = 0; i < n; i++) {
                const struct step *s = (int)i == at ? other : &steps[i];

                srp_watch_tell(&w, s->what, s->value, s->now);
        }
        return to_its_end && w.broken == SRP_INVARIANT_NONE ? srp_watch_end(&w) : w.broken;
}

static void test_lives_in_which_all_holds(void **state)
{
        (void)state;
        assert_int_equal(play(whole_life, WHOLE, -1, NULL, true), SRP_INVARIANT_NONE);
        assert_int_equal(play(rejected, COUNT(rejected), -1, NULL, true), SRP_INVARIANT_NONE);
}

/* One step is another one, or one more is put before it. */
static const struct {
        enum srp_invariant breaks;
        unsigned at; /* in whole_life */
        bool before;
        struct step step;
} wrongs[] = {
        { SRP_MONOTONE, 15, false, { SRP_HAS_MOVED, LIFE_LIVE, 7 } },
        { SRP_MONOTONE, 16, true, { SRP_HAS_MOVED, LIFE_CONNECTING, 8 } },
        { SRP_LAST_CQE, 19, true, { SRP_HAS_COMPLETED, 0, 9 } },
        { SRP_UNREGISTER_ONE, 18, true, { SRP_HAS_UNREGISTERED, 0, 8 } },
        { SRP_UNREGISTER_ONE, 20, true, { SRP_HAS_UNREGISTERED, 0, 9 } },
        { SRP_DESTROY_ONE, 8, true, { SRP_HAS_DESTROYED, 0, 3 } },
        { SRP_DESTROY_ONE, 21, true, { SRP_HAS_DESTROYED, 0, 9 } },
        { SRP_ORDER, 19, false, { SRP_HAS_DESTROYED, 0, 9 } },
        { SRP_ORDER, 20, true, { SRP_HAS_COMPLETED, 0, 9 } },
        { SRP_ORDER, 16, true, { SRP_HAS_FREED, 0, 8 } },
        { SRP_ORDER, 22, true, { SRP_HAS_FREED, 0, 9 } },
        { SRP_REFERENCES, 22, true, { SRP_HAS_PUT, 0, 9 } },
        { SRP_ON_NEXUS, 1, false, { SRP_HAS_RELOGGED, 0, 0 } },
        { SRP_ON_NEXUS, 2, true, { SRP_HAS_REGISTERED, 0, 0 } },
        { SRP_NOT_DISABLED, 3, true, { SRP_HAS_DISABLED, 0, 1 } },
        { SRP_DREQ_ANSWERED, 14, false, { SRP_HAS_GRANTED, 0, 7 } },
        { SRP_HELD_IN_ORDER, 5, true, { SRP_HAS_RUN, 0, 2 } },
        { SRP_HELD_IN_ORDER, 6, false, { SRP_HAS_RUN, 1, 3 } },
        { SRP_HELD_IN_ORDER, 7, true, { SRP_HAS_RUN, 0, 3 } },
        { SRP_CREDITS, 4, false, { SRP_HAS_GRANTED, 0, 1 } },
        { SRP_CREDITS, 11, false, { SRP_HAS_GRANTED, INT32_MAX, 6 } },
        { SRP_RELOGIN, 2, false, { SRP_HAS_RELOGGED, 1, 0 } },
        { SRP_RELOGIN, 2, false, { SRP_HAS_RELOGGED, 2, 0 } },
        { SRP_NEED_DATA, 9, true, { SRP_HAS_MOVED, LIFE_CLOSING, 4 } },
        { SRP_NEED_DATA, 8, true, { SRP_HAS_EXECUTED, 0, 3 } },
        { SRP_IN_TIME, 5, false, { SRP_HAS_MOVED, LIFE_LIVE, 1001 } },
        { SRP_IN_TIME, 18, false, { SRP_HAS_MOVED, LIFE_DEAD, 308 } },
};

static void test_each_invariant_can_be_broken(void **state)
{
        bool seen[SRP_INVARIANTS] = { true };

        (void)state;
        for (size_t i = 0; i < COUNT(wrongs); i++) {
                struct step steps[STEPS];
                unsigned at = wrongs[i].at, more = wrongs[i].before;

                memcpy(steps, whole_life, at * sizeof(*steps));
                steps[at] = wrongs[i].step;
                memcpy(steps + at + 1, whole_life + at + !more,
                       (WHOLE - at - !more) * sizeof(*steps));
                if (play(steps, WHOLE + more, -1, NULL, false) != wrongs[i].breaks)
                        fail_msg("row %zu: %s", i,
                                 srp_invariant_says(play(steps, WHOLE + more, -1, NULL, false)));
                seen[wrongs[i].breaks] = true;
        }
        for (unsigned i = 0; i < SRP_INVARIANTS; i++)
                if (!seen[i])
                        fail_msg("nothing breaks %u: %s", i, srp_invariant_says(i));
}

/* What never happened: the last steps are missing. */
static void test_what_is_missing_at_the_end(void **state)
{
        static const struct {
                unsigned steps;
                enum srp_invariant breaks;
        } rows[] = {
                { WHOLE - 1, SRP_REFERENCES },
                { WHOLE - 2, SRP_ORDER },
                { WHOLE - 3, SRP_DESTROY_ONE },
                { WHOLE - 4, SRP_UNREGISTER_ONE },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++)
                assert_int_equal(play(whole_life, rows[i].steps, -1, NULL, true), rows[i].breaks);
}

static void test_names(void **state)
{
        static const char *const names[] = { "connecting", "live",         "disconnecting",
                                             "draining",   "disconnected", "released" };

        (void)state;
        for (enum life_state s = LIFE_CONNECTING; s <= LIFE_RELEASED; s++)
                assert_string_equal(srp_life_name(s), names[s]);
        for (enum srp_happening h = 0; h < SRP_HAPPENINGS; h++)
                assert_non_null(srp_happening_name(h));
        for (enum srp_invariant i = 0; i < SRP_INVARIANTS; i++)
                assert_non_null(srp_invariant_says(i));
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lives_in_which_all_holds),
                cmocka_unit_test(test_each_invariant_can_be_broken),
                cmocka_unit_test(test_what_is_missing_at_the_end),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
