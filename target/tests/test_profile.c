/* SPDX-License-Identifier: BSD-3-Clause */
/* Profiles and limits by name: which of them wins where several say something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "target/nvme/target.h"

static struct target_options called(const char *names)
{
        struct target_options o = { 0 };
        char error[400] = "";

        if (!target_profile(&o, names, error, sizeof(error)))
                fail_msg("%s", error);
        return o;
}

static void test_several_at_once(void **state)
{
        struct target_options o = called("strict,small-queues,padding");

        (void)state;
        assert_int_equal(o.rigour, RIGOUR_STRICT);
        assert_int_equal(o.limits.queue_entries, 16);
        assert_int_equal(o.limits.queues, 0);
        assert_int_equal(o.cpda, 31);
}

static void test_the_last_one_wins(void **state)
{
        (void)state;
        assert_int_equal(called("strict,tolerant").rigour, RIGOUR_TOLERANT);
        assert_int_equal(called("tolerant,padding,strict").rigour, RIGOUR_STRICT);
        assert_int_equal(called("small-queues,one-command").limits.queue_entries, 2);
        assert_int_equal(called("one-command,small-queues").limits.queue_entries, 16);
}

static void test_what_is_given_wins(void **state)
{
        struct target_options o = { .limits.queue_entries = 64, .icdoff = 3 };
        struct target_options p = called("small-queues,one-queue,icdoff,one-descriptor");

        (void)state;
        target_profile_fill(&o, &p);
        assert_int_equal(o.limits.queue_entries, 64);
        assert_int_equal(o.limits.queues, 1);
        assert_int_equal(o.icdoff, 3);
        assert_int_equal(o.msdbd, 1);
        assert_int_equal(o.rigour, RIGOUR_USUAL);
}

static void test_a_name_that_is_not_there(void **state)
{
        static const char *const names[] = { "",      ",",        "strict,",
                                             "stric", "strictly", "strict padding" };
        struct target_options o;
        char error[400];

        (void)state;
        for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                o = (struct target_options) { 0 };
                if (target_profile(&o, names[i], error, sizeof(error)))
                        fail_msg("'%s' is taken", names[i]);
                assert_non_null(strstr(error, "is not a profile"));
                assert_non_null(strstr(error, " one-descriptor"));
        }
}

static void test_a_limit_of_nothing(void **state)
{
        static const struct {
                const char *setting;
                bool ok;
        } rows[] = {
                { "in_capsule=0", true },
                { "rdma_in_capsule=0", true },
                { "in_capsule=4294967295", false },
                { "queues=0", false },
                { "buffers=0", false },
                { "in_capsule=", false },
                { "queues=4294967296", false },
                { "idle_timeout=4294967295", true },
        };
        struct target_limits l = { 0 };
        char error[400];

        (void)state;
        for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (target_limit(&l, rows[i].setting, error, sizeof(error)) != rows[i].ok)
                        fail_msg("%s", rows[i].setting);
        assert_int_equal(l.in_capsule, TARGET_NONE);
        assert_int_equal(l.rdma_in_capsule, TARGET_NONE);
        target_limits_fill(&l, &(struct target_limits) { .in_capsule = 8192, .queues = 3 });
        assert_int_equal(l.in_capsule, TARGET_NONE);
        assert_int_equal(l.queues, 3);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_several_at_once),
                cmocka_unit_test(test_the_last_one_wins),
                cmocka_unit_test(test_what_is_given_wins),
                cmocka_unit_test(test_a_name_that_is_not_there),
                cmocka_unit_test(test_a_limit_of_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
