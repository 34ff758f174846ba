/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which cases run beside which: what each one sees of the others when it begins and while it runs. Which range a
 * case gets, and what becomes of one that finds who is tested busy.
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

enum { KINDS = 5, EACH = 6 };

enum kind { WAITS, QUICK, CHANGES, STORMS, ALONE };

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

static void take_all(struct t *t)
{
        (void)t;
        take_part(STORMS, 10);
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
        OF(STORMS, .run = take_all, .storm = true),
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

static unsigned n_ranges;

static unsigned ranges(const struct suite *s)
{
        (void)s;
        return n_ranges;
}

static bool no_piece(const struct suite *s, unsigned range, unsigned i, char name[LEASE_NAME])
{
        (void)s, (void)range, (void)i, (void)name;
        return false;
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
        .range_piece = no_piece,
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
                assert_int_equal(together[STORMS][other], 0);
                assert_int_equal(together[other][STORMS], 0);
        }
        assert_true(order[QUICK] < order[CHANGES] && order[CHANGES] < order[STORMS]);
        assert_true(order[STORMS] < order[ALONE]);
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

/* --- ranges, and who is busy ------------------------------------------------------------------- */

static int given[EACH];
static unsigned tries;

/* Long enough for the clock to go on. */
static void note_range(struct t *t)
{
        given[t->number] = t->range;
        usleep(2000);
}

static void note_and_linger(struct t *t)
{
        note_range(t);
        t->lingers = 60000;
}

static void find_busy(struct t *t)
{
        tries++;
        t->busy = true;
        (fail)(t, "a connection", "no resources");
}

static void find_busy_first(struct t *t)
{
        t->busy = tries++ < 2;
        if (t->busy)
                (fail)(t, "a connection", "no resources");
}

static void do_harm(struct t *t)
{
        t->busy = true;
        harm(t, "the same data", "other data");
}

static void be_late(struct t *t)
{
        t->deadline = now_ms();
        broke_if_over(t);
}

static bool had_time;

static void look_at_the_clock(struct t *t)
{
        had_time = t->deadline > now_ms();
}

static void what_comes_after_a_case_has_time(void **state)
{
        const struct test_case late = { .id = "test/late",
                                        .level = LEVEL_MUST,
                                        .rules = no_rules,
                                        .run = be_late,
                                        .after = look_at_the_clock };
        struct suite s = { .family = &conform_none, .timeout_scale = 0.01 };
        struct result r = { 0 };

        (void)state;
        t_once(&s, &late, &r, 1);
        assert_int_equal(r.verdict, VERDICT_ERROR);
        assert_true(had_time);
}

/* May use what is lent, and has as much of its own afterwards as before. */
static void borrow(struct t *t)
{
        uint64_t left = t_lend(t, 1000), own = t->deadline - 1000 - now_ms();

        usleep(50000);
        t_repay(t, left);
        if (t->deadline - now_ms() + 20 < own)
                (fail)(t, "its own time", "%u ms less", (unsigned)(own + now_ms() - t->deadline));
}

static void count_storm(struct t *t)
{
        for (unsigned i = 0; !is_enough(t, i, 1000); i++)
                usleep(1000);
}

/* n of them, one at a time, with so many ranges: the result of the last one, whose note is copied. */
static enum verdict run_some(void (*const *body)(struct t *t), unsigned n, unsigned with,
                             char note[RESULT_TEXT])
{
        struct test_case some[EACH];
        const struct test_case *list[EACH];
        struct suite s = { .family = &conform_none, .timeout_scale = 0.01 };
        struct runner r = { .suite = &s, .cases = list, .count = n, .jobs = 1, .repeat = 1 };
        struct run result = { .family = &conform_none };
        enum verdict verdict;

        n_ranges = with;
        for (unsigned i = 0; i < n; i++) {
                some[i] = cases[QUICK];
                some[i].writes = true;
                some[i].run = body[i];
                list[i] = &some[i];
        }
        assert_true(runner_run(&r, &result));
        n_ranges = 0;
        verdict = result.results[n - 1].verdict;
        snprintf(note, RESULT_TEXT, "%s", result.results[n - 1].note);
        free(result.results);
        return verdict;
}

static void the_range_that_was_free_longest_comes_first(void **state)
{
        void (*const body[EACH])(struct t *) = { note_range, note_range, note_range,
                                                 note_range, note_range, note_range };
        char note[RESULT_TEXT];

        (void)state;
        assert_int_equal(run_some(body, EACH, 3, note), VERDICT_PASS);
        for (int i = 0; i < EACH; i++)
                assert_int_equal(given[i], i % 3);
}

static void a_range_is_kept_back_while_it_may_change(void **state)
{
        static const int expected[EACH] = { 0, 1, 2, 1, 2, 1 };
        void (*const body[EACH])(struct t *) = { note_and_linger, note_range, note_range,
                                                 note_range,      note_range, note_range };
        char note[RESULT_TEXT];

        (void)state;
        assert_int_equal(run_some(body, EACH, 3, note), VERDICT_PASS);
        assert_memory_equal(given, expected, sizeof(given));
        assert_int_equal(run_some(body, EACH, 1, note), VERDICT_PASS); /* but for want of another */
        assert_int_equal(given[EACH - 1], 0);
}

static void busy_to_the_last_try_is_no_failure(void **state)
{
        void (*const busy[])(struct t *) = { find_busy };
        void (*const first[])(struct t *) = { find_busy_first };
        void (*const harmful[])(struct t *) = { do_harm };
        char note[RESULT_TEXT];

        (void)state;
        tries = 0;
        assert_int_equal(run_some(busy, 1, 1, note), VERDICT_SKIP);
        assert_true(tries > 3);
        assert_non_null(strstr(note, "the target was busy"));
        tries = 0;
        assert_int_equal(run_some(first, 1, 1, note), VERDICT_PASS);
        assert_int_equal(tries, 3);
        assert_int_equal(run_some(harmful, 1, 1, note), VERDICT_FAIL);
}

static void time_that_is_over_says_nothing(void **state)
{
        void (*const late[])(struct t *) = { be_late };
        void (*const borrows[])(struct t *) = { borrow };
        void (*const storm[])(struct t *) = { count_storm };
        char note[RESULT_TEXT];

        (void)state;
        assert_int_equal(run_some(late, 1, 1, note), VERDICT_ERROR);
        assert_int_equal(run_some(borrows, 1, 1, note), VERDICT_PASS);
        assert_int_equal(run_some(storm, 1, 1, note), VERDICT_PASS); /* half of 300 ms */
        assert_non_null(strstr(note, "of 1000"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_changes_runs_beside_who_only_waits),
                cmocka_unit_test(one_at_a_time_is_one_at_a_time),
                cmocka_unit_test(the_range_that_was_free_longest_comes_first),
                cmocka_unit_test(a_range_is_kept_back_while_it_may_change),
                cmocka_unit_test(busy_to_the_last_try_is_no_failure),
                cmocka_unit_test(time_that_is_over_says_nothing),
                cmocka_unit_test(what_comes_after_a_case_has_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
