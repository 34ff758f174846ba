/* SPDX-License-Identifier: BSD-3-Clause */
/* How a case ends, without any target: its body says it. */
#include "conformance/engine/cause.h"
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

        t_breach(t, TCP_R2T_DWORD_OFFSET, &m, NULL);
        t_breach(t, TCP_R2T_DWORD_OFFSET, &m, NULL);
        t_breach(t, TCP_R2T_EMPTY, &m, NULL);
}

static void breaks_should(struct t *t)
{
        t_breach(t, TCP_FLAGS_C2H, NULL, "a reserved bit");
}

static void does_harm(struct t *t)
{
        want_data(t, "what was written", "ab", "aa", 2);
}

static void is_advised(struct t *t)
{
        advise(t, "a refusal", "it was accepted");
        advise(t, "something else", "later");
}

static void is_advised_then_lenient(struct t *t)
{
        is_advised(t);
        is_lenient(t);
}

static void breaches_after_lenience(struct t *t)
{
        is_lenient(t);
        breaks_should(t);
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

/* A run of one body, by a rule whose basis says how heavy it weighs. */
#define BY(rule, body, ...)                                                                        \
        run((struct test_case) { .run = body, .rules = RULES(rule), ##__VA_ARGS__ }, true)

/* A must of that party that rests on this, and the reaction to its breach on that. */
static unsigned like(enum party bound, enum basis basis, enum basis reacts)
{
        rule_each (rule) {
                const struct rule *r = rule_get(rule);

                if (r->bound == bound && r->level == LEVEL_MUST && r->basis == basis &&
                    r->reacts == reacts && !r->unowed)
                        return rule;
        }
        assert_true(false);
        return RULE_NONE;
}
#define PRINTED_REACTION like(PARTY_HOST, BASIS_PRINTED, BASIS_PRINTED)
#define OWN_REACTION     like(PARTY_HOST, BASIS_PRINTED, BASIS_OWN)
#define PRINTED_DUTY     like(PARTY_CONTROLLER, BASIS_PRINTED, BASIS_OWN)
#define OWN_DUTY         like(PARTY_CONTROLLER, BASIS_OWN, BASIS_NONE)

static void own_reading_is_advice(void **state)
{
        (void)state;
        assert_int_equal(BY(PRINTED_REACTION, fails).verdict, VERDICT_FAIL);
        assert_int_equal(BY(OWN_REACTION, fails).verdict, VERDICT_ADVICE);
        assert_true(BY(OWN_REACTION, fails).caught);
        assert_false(BY(OWN_REACTION, fails).only_strict);
        assert_int_equal(BY(OWN_REACTION, is_lenient).verdict, VERDICT_ADVICE);
        assert_int_equal(BY(OWN_REACTION, fails, .level = SHOULD).verdict, VERDICT_ADVICE);
        assert_int_equal(BY(OWN_REACTION, fails, .level = INFO).verdict, VERDICT_INFO);
        assert_int_equal(BY(PRINTED_DUTY, fails).verdict, VERDICT_FAIL);
        assert_int_equal(BY(OWN_DUTY, fails).verdict, VERDICT_ADVICE);
        assert_int_equal(BY(RULE_NONE, fails).verdict, VERDICT_FAIL);
}

static void harm_is_none(void **state)
{
        struct result r = BY(OWN_REACTION, does_harm);

        (void)state;
        assert_int_equal(r.verdict, VERDICT_FAIL);
        assert_true(r.harm && r.caught);
        assert_string_equal(r.expected, "what was written");
        assert_string_equal(r.seen, "62h in place of 61h at byte 1; 1 of 2 bytes differ");
        assert_false(BY(PRINTED_REACTION, fails).harm);
        assert_int_equal(BY(OWN_REACTION, does_harm, .level = INFO).verdict, VERDICT_INFO);
}

static void the_heaviest_word_stays(void **state)
{
        struct result r = BY(PRINTED_REACTION, is_advised);

        (void)state;
        assert_int_equal(r.verdict, VERDICT_ADVICE);
        assert_string_equal(r.seen, "it was accepted");
        assert_true(r.caught);
        r = run((struct test_case) { .run = is_advised_then_lenient }, false);
        assert_int_equal(r.verdict, VERDICT_LENIENT);
        assert_string_equal(r.seen, "a close");
        r = run((struct test_case) { .run = breaches_after_lenience,
                                     .rules = RULES(PRINTED_REACTION, TCP_FLAGS_C2H) },
                false);
        assert_int_equal(r.verdict, VERDICT_LENIENT);
        assert_string_equal(r.seen, "a close");
}

static void rules_that_the_case_names(void **state)
{
        struct result r =
            run((struct test_case) { .run = breaches,
                                     .rules = RULES(TCP_H2C_TTAG, TCP_R2T_DWORD_OFFSET) },
                false);

        (void)state;
        assert_int_equal(r.verdict, VERDICT_FAIL);
        assert_int_equal(r.rule, TCP_R2T_DWORD_OFFSET);
        assert_true(r.caught);
        assert_int_equal(r.notice_count, 2);
        /* a should of the controller is a should of every case that names it */
        r = run((struct test_case) { .run = breaks_should, .rules = RULES(TCP_FLAGS_C2H) }, false);
        assert_int_equal(r.verdict, VERDICT_LENIENT);
        assert_true(r.caught);
        r = run((struct test_case) { .run = breaks_should, .rules = RULES(TCP_FLAGS_C2H) }, true);
        assert_int_equal(r.verdict, VERDICT_FAIL);
}

static void rules_that_it_does_not_name(void **state)
{
        struct result r = run((struct test_case) { .run = breaches }, true);

        (void)state;
        assert_int_equal(r.verdict, VERDICT_PASS);
        assert_false(r.caught);
        assert_int_equal(r.notice_count, 2);
        assert_int_equal(r.notices[0].rule, TCP_R2T_DWORD_OFFSET);
}

static const struct test_case about_ttag = { .rules = RULES(TCP_H2C_TTAG) };
static const struct test_case about_pfv = { .rules = RULES(TCP_ICREQ_PFV) };

/* --- the sum of all */

static int code(const enum verdict *v, size_t n, enum known known, bool lax)
{
        struct result results[4];
        struct run r = { .family = &nvme_conform, .results = results, .count = n, .lax = lax };

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
        assert_int_equal(CODE(KNOWN_NOT, false, VERDICT_PASS, VERDICT_ADVICE), 0);
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
        struct run r = { .family = &nvme_conform, .results = results, .count = 3 };

        (void)state;
        run_sum(&r);
        assert_true(rule_in(&r.covered, TCP_H2C_TTAG));
        assert_false(rule_in(&r.covered, TCP_ICREQ_PFV));
        assert_false(rule_in(&r.covered, TCP_R2T_CID));
}

/* --- causes */

enum { CASES = 60 };

/* n results from here on noticed the rule; they fail, or pass. */
static void add(struct run *run, size_t n, enum verdict v, unsigned rule)
{
        for (size_t i = 0; i < n; i++) {
                struct result *r = &run->results[run->count++];

                *r = (struct result) { .test = &about_ttag, .verdict = v, .repeats = 1 };
                r->notices[0].rule = rule;
                r->notice_count = rule != RULE_NONE;
        }
}

static void causes(void **state)
{
        struct result results[CASES];
        struct run run = { .family = &nvme_conform, .results = results };
        char line[512];

        (void)state;
        add(&run, 3, VERDICT_FAIL, TCP_R2T_RANGE);
        add(&run, 10, VERDICT_FAIL, TCP_C2H_CONTIG);
        add(&run, 10, VERDICT_PASS, TCP_C2H_CONTIG);
        add(&run, 37, VERDICT_PASS, RULE_NONE);
        causes_find(&run);
        assert_int_equal(run.failing, 13);
        assert_int_equal(run.cause_count, 2);
        assert_int_equal(run.causes[0].rule, TCP_C2H_CONTIG);
        assert_int_equal(run.causes[0].failures, 10);
        assert_int_equal(run.causes[1].rule, TCP_R2T_RANGE);
        assert_int_equal(results[0].cause, TCP_R2T_RANGE);
        assert_int_equal(results[3].cause, TCP_C2H_CONTIG);
        assert_int_equal(results[13].cause, RULE_NONE);
        cause_says(&run, &run.causes[0], line, sizeof(line));
        assert_non_null(
            strstr(line, "10 of 13 failures: the target broke tcp/c2hdata/datao (T1.0"));
}

static void what_everybody_noticed_explains_nothing(void **state)
{
        struct result results[CASES];
        struct run run = { .family = &nvme_conform, .results = results };

        (void)state;
        add(&run, 5, VERDICT_FAIL, TCP_C2H_CONTIG);
        add(&run, 30, VERDICT_PASS, TCP_C2H_CONTIG);
        add(&run, 1, VERDICT_FAIL, TCP_FLAGS_C2H); /* a should */
        add(&run, 1, VERDICT_FAIL, RULE_NONE);
        causes_find(&run);
        assert_int_equal(run.cause_count, 0);
        results[0].rule = TCP_C2H_CONTIG; /* but for what fails by its own name */
        run.failing = 0;
        causes_find(&run);
        assert_int_equal(run.cause_count, 1);
        assert_int_equal(run.causes[0].rule, TCP_C2H_CONTIG);
        assert_int_equal(run.causes[0].failures, 1);
        assert_int_equal(results[0].cause, TCP_C2H_CONTIG);
        assert_int_equal(results[1].cause, RULE_NONE);
}

/* What was skipped had no chance to notice anything. */
static void skipped_cases_do_not_make_a_rule_rare(void **state)
{
        struct result results[CASES];
        struct run run = { .family = &nvme_conform, .results = results };

        (void)state;
        add(&run, 8, VERDICT_FAIL, TCP_C2H_CONTIG);
        add(&run, 10, VERDICT_PASS, TCP_C2H_CONTIG);
        add(&run, 2, VERDICT_PASS, RULE_NONE);
        add(&run, 40, VERDICT_SKIP, RULE_NONE);
        causes_find(&run);
        assert_int_equal(run.cause_count, 0);
}

/* Most of a run fails: no rule can be twice as frequent there as in all. */
static void a_rule_explains_most_of_a_bad_run(void **state)
{
        struct result results[CASES];
        struct run run = { .family = &nvme_conform, .results = results };

        (void)state;
        add(&run, 40, VERDICT_FAIL, TCP_C2H_CONTIG);
        add(&run, 5, VERDICT_PASS, TCP_C2H_CONTIG);
        add(&run, 15, VERDICT_PASS, RULE_NONE);
        causes_find(&run);
        assert_int_equal(run.causes[0].failures, 40);
}

/* One failure is about a rule that all others break too, and pass. */
static void what_fails_directly_explains_others_where_it_is_rare(void **state)
{
        struct result results[CASES];
        struct run run = { .family = &nvme_conform, .results = results };

        (void)state;
        add(&run, 3, VERDICT_FAIL, TCP_FLAGS_C2H); /* a should */
        add(&run, 4, VERDICT_FAIL, TCP_C2H_CONTIG);
        add(&run, 20, VERDICT_PASS, TCP_C2H_CONTIG);
        results[0].rule = TCP_FLAGS_C2H;
        results[3].rule = TCP_C2H_CONTIG;
        causes_find(&run);
        assert_int_equal(run.cause_count, 2);
        assert_int_equal(run.causes[0].rule, TCP_FLAGS_C2H);
        assert_int_equal(run.causes[0].failures, 3);
        assert_int_equal(run.causes[1].failures, 1);
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
                cmocka_unit_test(own_reading_is_advice),
                cmocka_unit_test(harm_is_none),
                cmocka_unit_test(the_heaviest_word_stays),
                cmocka_unit_test(rules_that_the_case_names),
                cmocka_unit_test(rules_that_it_does_not_name),
                cmocka_unit_test(exit_codes),
                cmocka_unit_test(coverage),
                cmocka_unit_test(causes),
                cmocka_unit_test(what_everybody_noticed_explains_nothing),
                cmocka_unit_test(skipped_cases_do_not_make_a_rule_rare),
                cmocka_unit_test(a_rule_explains_most_of_a_bad_run),
                cmocka_unit_test(what_fails_directly_explains_others_where_it_is_rare),
                cmocka_unit_test(the_oldest_lines_go_first),
                cmocka_unit_test(bytes_are_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
