/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of channels, in any order of events: many schedules, in which everything that can happen does. */
#include "pdu/core/tests/check.h"

#include "srp_schedule.h"

enum { SEEDS = 2000 };

static void check_that_all_was_tried(void)
{
        for (unsigned i = 0; i < SRP_HAPPENINGS; i++)
                if (i != SRP_HAS_POSTED && seen.happened[i] < 500)
                        fail_msg("%s: only %u times", srp_happening_name(i), seen.happened[i]);
        for (unsigned i = LIFE_LIVE; i <= LIFE_RELEASED; i++)
                if (seen.moved[i] < 500)
                        fail_msg("%s: only %u times", srp_life_name(i), seen.moved[i]);
        assert_true(seen.terminated > 500);
        assert_true(seen.disabled_early > 50);
        assert_true(seen.removed_early > 20);
        assert_true(seen.dreq_while_closing > 50);
}

static void test_any_schedule(void **state)
{
        const char *only = getenv("SRP_SEED");
        uint64_t first = only ? strtoull(only, NULL, 10) : 1;

        (void)state;
        for (uint64_t seed = first; seed <= (only ? first : SEEDS); seed++)
                srp_schedule_run(&(struct srp_schedule) { .seed = seed });
        if (!only)
                check_that_all_was_tried();
}

/* That a breach is seen: a watch that is told of a channel what is not so. */
static void test_the_watch_watches(void **state)
{
        static const struct srp_conn c;
        struct watched *of;

        (void)state;
        memset(&w, 0, sizeof(w));
        of = watch_of(&c);
        assert_int_equal(srp_watch_tell(&of->watch, SRP_HAS_ACCEPTED, 0, 0), SRP_ON_NEXUS);
        assert_int_equal(srp_watch_tell(&of->watch, SRP_HAS_MOVED, LIFE_CONNECTING, 0),
                         SRP_MONOTONE);
        assert_int_equal(of->watch.broken, SRP_ON_NEXUS);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_watch_watches),
                cmocka_unit_test(test_any_schedule),
        };

        return cmocka_run_group_tests_name("srp_life", tests, NULL, NULL);
}
