/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which cases run beside which: what each one sees of the others when it begins and while it runs.
 */
#include "conformance/engine/runner.h" /* before cmocka makes macros of fail and skip */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KINDS = 4, EACH = 6 };

enum kind { WAITS, QUICK, CHANGES, ALONE };

static atomic_uint running[KINDS], together[KINDS][KINDS], order[KINDS];
static atomic_uint begun;

/* A case of a kind: counts those of each kind that run meanwhile. */
static void take_part(enum kind kind, unsigned ms)
{
        running[kind]++;
        order[kind] = ++begun;
        for (unsigned i = 0; i < ms; i++) {
                for (unsigned other = 0; other < KINDS; other++)
                        together[kind][other] += running[other] - (other == (unsigned)kind);
                usleep(1000);
        }
        running[kind]--;
}

static void wait_long(struct t *t)
{
        (void)t;
        take_part(WAITS, 300);
}

static void be_quick(struct t *t)
{
        (void)t;
        take_part(QUICK, 20);
}

static void change(struct t *t)
{
        (void)t;
        take_part(CHANGES, 10);
}

static void be_alone(struct t *t)
{
        (void)t;
        take_part(ALONE, 10);
}

static const unsigned no_rules[] = { RULE_NONE };

#define OF(kind, ...)                                                                              \
        [kind] = { .id = "test/runner/" #kind,                                                     \
                   .level = LEVEL_MUST,                                                            \
                   .rules = no_rules,                                                              \
                   .says = "It runs",                                                              \
                   __VA_ARGS__ }

static const struct test_case cases[KINDS] = {
        OF(WAITS, .run = wait_long, .slow = true, .unmoved = true),
        OF(QUICK, .run = be_quick),
        OF(CHANGES, .run = change, .changes = true),
        OF(ALONE, .run = be_alone, .alone = true),
};

/* The engine wants a program that has cases. */
static const struct test_case *const one __attribute__((used, section("suite_cases"))) =
    &cases[QUICK];

static const struct rulebook no_rulebook = { .count = 1 };
static const struct family no_family = { .name = "Test", .rules = &no_rulebook };

static const struct test_case *liveness(const struct suite *s)
{
        (void)s;
        return NULL;
}

static const char *why_not(const struct suite *s, const struct test_case *c, bool range)
{
        (void)s, (void)c, (void)range;
        return NULL;
}

static unsigned ranges(const struct suite *s)
{
        (void)s;
        return 0;
}

static void none(struct t *t)
{
        (void)t;
}

static const struct conform_family conform_none = {
        .family = &no_family,
        .liveness = liveness,
        .why_not = why_not,
        .ranges = ranges,
        .begin = none,
        .settle = none,
        .end = none,
};

/* The last kinds first: the runner puts them in order. */
static void run(unsigned jobs)
{
        const struct test_case *all[KINDS * EACH];
        struct suite s = { .family = &conform_none, .timeout_scale = 1 };
        struct runner r = {
                .suite = &s, .cases = all, .count = KINDS * EACH, .jobs = jobs, .repeat = 1
        };
        struct run result = { .family = &conform_none };

        for (unsigned i = 0; i < KINDS * EACH; i++)
                all[i] = &cases[KINDS - 1 - i / EACH];
        memset(together, 0, sizeof(together));
        assert_true(runner_run(&r, &result));
        assert_int_equal(result.count, KINDS * EACH);
        for (size_t i = 0; i < result.count; i++)
                assert_int_equal(result.results[i].verdict, VERDICT_PASS);
        free(result.results);
}

static void what_changes_runs_beside_who_only_waits(void **state)
{
        (void)state;
        run(3 * EACH);
        assert_true(together[WAITS][CHANGES] > 0);
        assert_true(together[CHANGES][WAITS] > 0);
        assert_true(together[WAITS][QUICK] > 0);
        assert_int_equal(together[CHANGES][QUICK], 0);
        assert_int_equal(together[QUICK][CHANGES], 0);
        assert_int_equal(together[CHANGES][CHANGES], 0);
        for (unsigned other = 0; other < KINDS; other++) {
                assert_int_equal(together[ALONE][other], 0);
                assert_int_equal(together[other][ALONE], 0);
        }
        assert_true(order[QUICK] < order[CHANGES] && order[CHANGES] < order[ALONE]);
}

static void one_at_a_time_is_one_at_a_time(void **state)
{
        (void)state;
        run(1);
        for (unsigned a = 0; a < KINDS; a++)
                for (unsigned b = 0; b < KINDS; b++)
                        assert_int_equal(together[a][b], 0);
        assert_true(order[WAITS] < order[QUICK]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_changes_runs_beside_who_only_waits),
                cmocka_unit_test(one_at_a_time_is_one_at_a_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
