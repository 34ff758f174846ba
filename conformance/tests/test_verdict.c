/* SPDX-License-Identifier: BSD-3-Clause */
/* How a case ends, without any target: its body says it. */
#include "conformance/words/words.h" /* before cmocka makes macros of fail and skip */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#undef fail
#undef skip

#include <stdlib.h>
#include <string.h>

static const unsigned some_rule[] = { TCP_H2C_TTAG, RULE_NONE };

static struct result run(struct test_case test, bool strict)
{
        struct peer peer = { .subnqn = "" };
        const struct suite s = { .family = &nvme_conform,
                                 .transport = "tcp",
                                 .peer = &peer,
                                 .traddr = "",
                                 .timeout_scale = 1,
                                 .strict = strict };
        struct result r = { .id = "x" };
        struct t t;

        if (!test.rules)
                test.rules = some_rule;
        test.id = "x";
        test.says = "It works";
        t_start(&t, &s, &test, &r, 1);
        t_run(&t, test.run);
        t_end(&t);
        return r;
}

static void passes(struct t *t)
{
        note(t, "a remark");
        note(t, "another");
}

static void fails(struct t *t)
{
        want_eq(t, "ANSWER", 41, 42);
}

static void is_lenient(struct t *t)
{
        lenient(t, "a TermReq", "a close");
        lenient(t, "something else", "later");
}

static void is_lenient_then_fails(struct t *t)
{
        lenient(t, "a TermReq", "a close");
        fail(t, "life", "death");
}

static void is_skipped(struct t *t)
{
        require(t, 1 + 1 == 3, "no %s", "third way");
}

static void breaks_down(struct t *t)
{
        about(t, TCP_ICREQ_PFV); /* which it does not name */
}

static void breaks_in_setup(struct t *t)
{
        t->setting_up = true;
        fail(t, "ICResp", "no answer");
}

static void breaches(struct t *t)
{
        struct message m = { .kind = MESSAGE_PDU, .pdu.data.ch.type = PDU_R2T };

        t_breach(t, TCP_R2T_TTAG, &m, NULL);
        t_breach(t, TCP_R2T_TTAG, &m, NULL);
        t_breach(t, TCP_R2T_EMPTY, &m, NULL);
}

static void ordinary_ends(void **state)
{
        struct result r;

        (void)state;
        r = run((struct test_case) { .run = passes }, false);
        assert_int_equal(r.verdict, VERDICT_PASS);
        assert_string_equal(r.note, "a remark; another");
        r = run((struct test_case) { .run = fails }, false);
        assert_int_equal(r.verdict, VERDICT_FAIL);
        assert_string_equal(r.expected, "ANSWER 42 (2Ah)");
        assert_string_equal(r.seen, "ANSWER 41 (29h)");
        assert_int_equal(r.rule, TCP_H2C_TTAG);
        assert_true(r.caught);
        r = run((struct test_case) { .run = is_skipped }, false);
        assert_int_equal(r.verdict, VERDICT_SKIP);
        assert_string_equal(r.note, "no third way");
}

static void the_harness_is_not_the_target(void **state)
{
        struct result r = run((struct test_case) { .run = breaks_down }, false);

        (void)state;
        assert_int_equal(r.verdict, VERDICT_ERROR);
        assert_false(r.caught);
        r = run((struct test_case) { .run = breaks_in_setup }, false);
        assert_int_equal(r.verdict, VERDICT_ERROR);
        assert_string_equal(r.expected, "in setup: ICResp");
        assert_false(r.caught);
}

static void grades(void **state)
{
        struct result r = run((struct test_case) { .run = is_lenient }, false);

        (void)state;
        assert_int_equal(r.verdict, VERDICT_LENIENT);
        assert_string_equal(r.seen, "a close");
        assert_true(r.only_strict);
        r = run((struct test_case) { .run = is_lenient }, true);
        assert_int_equal(r.verdict, VERDICT_FAIL);
        assert_true(r.only_strict);
        r = run((struct test_case) { .run = is_lenient_then_fails }, false);
        assert_int_equal(r.verdict, VERDICT_FAIL);
        assert_string_equal(r.seen, "death");
        assert_false(r.only_strict);
}

static void levels(void **state)
{
        (void)state;
        assert_int_equal(run((struct test_case) { .run = fails, .level = SHOULD }, false).verdict,
                         VERDICT_LENIENT);
        assert_int_equal(run((struct test_case) { .run = fails, .level = SHOULD }, true).verdict,
                         VERDICT_FAIL);
        assert_int_equal(run((struct test_case) { .run = fails, .level = INFO }, true).verdict,
                         VERDICT_INFO);
        assert_int_equal(run((struct test_case) { .run = is_lenient, .level = INFO }, true).verdict,
                         VERDICT_INFO);
        assert_int_equal(run((struct test_case) { .run = passes, .level = INFO }, true).verdict,
                         VERDICT_PASS);
}

static void rules_that_the_case_names(void **state)
{
        struct result r =
            run((struct test_case) { .run = breaches, .rules = RULES(TCP_H2C_TTAG, TCP_R2T_TTAG) },
                false);

        (void)state;
        assert_int_equal(r.verdict, VERDICT_FAIL);
        assert_int_equal(r.rule, TCP_R2T_TTAG);
        assert_true(r.caught);
        assert_int_equal(r.notice_count, 2);
        /* a should of the controller is a should of every case that names it */
        r = run((struct test_case) { .run = breaches, .rules = RULES(TCP_R2T_EMPTY) }, false);
        assert_int_equal(r.verdict, VERDICT_LENIENT);
        assert_true(r.caught);
        r = run((struct test_case) { .run = breaches, .rules = RULES(TCP_R2T_EMPTY) }, true);
        assert_int_equal(r.verdict, VERDICT_FAIL);
}

static void rules_that_it_does_not_name(void **state)
{
        struct result r = run((struct test_case) { .run = breaches }, true);

        (void)state;
        assert_int_equal(r.verdict, VERDICT_PASS);
        assert_false(r.caught);
        assert_int_equal(r.notice_count, 2);
        assert_int_equal(r.notices[0].rule, TCP_R2T_TTAG);
}

static const struct test_case about_ttag = { .rules = RULES(TCP_H2C_TTAG) };
static const struct test_case about_pfv = { .rules = RULES(TCP_ICREQ_PFV) };

/* --- the sum of all */

static int code(const enum verdict *v, size_t n, enum known known, bool lax)
{
        struct result results[4];
        struct run r = { .results = results, .count = n, .lax = lax };

        for (size_t i = 0; i < n; i++)
                results[i] = (struct result) { .verdict = v[i], .test = &about_ttag };
        results[0].known = known;
        run_sum(&r);
        return run_exit(&r);
}

#define CODE(known, lax, ...)                                                                      \
        code((const enum verdict[]) { __VA_ARGS__ },                                               \
             sizeof((const enum verdict[]) { __VA_ARGS__ }) / sizeof(enum verdict), known, lax)

static void exit_codes(void **state)
{
        (void)state;
        assert_int_equal(CODE(KNOWN_NOT, false, VERDICT_PASS, VERDICT_LENIENT, VERDICT_INFO), 0);
        assert_int_equal(CODE(KNOWN_NOT, false, VERDICT_PASS, VERDICT_SKIP), 0);
        assert_int_equal(CODE(KNOWN_NOT, false, VERDICT_FAIL, VERDICT_ERROR), 1);
        assert_int_equal(CODE(KNOWN_NOT, false, VERDICT_PASS, VERDICT_ERROR), 3);
        assert_int_equal(CODE(KNOWN_NOT, false, VERDICT_SKIP, VERDICT_SKIP), 77);
        assert_int_equal(CODE(KNOWN_LISTED, false, VERDICT_FAIL, VERDICT_PASS), 0);
        assert_int_equal(CODE(KNOWN_LISTED, false, VERDICT_FAIL, VERDICT_FAIL), 1);
        assert_int_equal(CODE(KNOWN_FIXED, false, VERDICT_PASS, VERDICT_PASS), 1);
        assert_int_equal(CODE(KNOWN_FIXED, true, VERDICT_PASS, VERDICT_PASS), 0);
}

static void coverage(void **state)
{
        struct result results[] = { { .verdict = VERDICT_FAIL, .test = &about_ttag },
                                    { .verdict = VERDICT_SKIP, .test = &about_pfv },
                                    { .verdict = VERDICT_FAIL, .rule = TCP_R2T_CID } };
        struct run r = { .results = results, .count = 3 };

        (void)state;
        run_sum(&r);
        assert_true(rule_in(&r.covered, TCP_H2C_TTAG));
        assert_false(rule_in(&r.covered, TCP_ICREQ_PFV));
        assert_false(rule_in(&r.covered, TCP_R2T_CID));
}

/* --- the exchange */

static void the_oldest_lines_go_first(void **state)
{
        struct exchange x = { 0 };
        char line[300];

        (void)state;
        for (int i = 0; i < EXCHANGE_LINES + 10; i++)
                exchange_event(&x, 1, "line %d", i);
        assert_int_equal(x.count, EXCHANGE_LINES);
        assert_int_equal(x.dropped, 10);
        assert_string_equal(exchange_line(&x, 0)->text, "line 10");
        exchange_format(exchange_line(&x, EXCHANGE_LINES - 1), exchange_line(&x, 0)->at, line,
                        sizeof(line));
        assert_non_null(strstr(line, "ms  #1 -- line 521"));
        exchange_free(&x);
}

static void bytes_are_bounded(void **state)
{
        struct exchange x = { 0 };
        uint8_t *much = calloc(1, EXCHANGE_BYTES);

        (void)state;
        assert_non_null(much);
        exchange_bytes(&x, 1, true, much, EXCHANGE_BYTES - 1);
        assert_false(x.cut);
        exchange_bytes(&x, 1, true, much, 2);
        assert_true(x.cut);
        exchange_bytes(&x, 1, true, much, 1); /* what comes after a gap would be a lie */
        assert_int_equal(x.chunk_count, 1);
        exchange_free(&x);
        free(much);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(ordinary_ends),
                cmocka_unit_test(the_harness_is_not_the_target),
                cmocka_unit_test(grades),
                cmocka_unit_test(levels),
                cmocka_unit_test(rules_that_the_case_names),
                cmocka_unit_test(rules_that_it_does_not_name),
                cmocka_unit_test(exit_codes),
                cmocka_unit_test(coverage),
                cmocka_unit_test(the_oldest_lines_go_first),
                cmocka_unit_test(bytes_are_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
