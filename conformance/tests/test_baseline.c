/* SPDX-License-Identifier: BSD-3-Clause */
#include "conformance/engine/baseline.h" /* before cmocka makes macros of fail and skip */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static struct baseline parse(const char *text)
{
        struct baseline b = { 0 };
        char error[256] = "";

        assert_int_equal(baseline_parse(&b, text, "known.txt", error, sizeof(error)), 0);
        return b;
}

static void refused(const char *text, const char *where)
{
        struct baseline b = { 0 };
        char error[256] = "";

        assert_int_equal(baseline_parse(&b, text, "known.txt", error, sizeof(error)), -1);
        assert_non_null(strstr(error, where));
        assert_null(b.entries);
}

static void reads_lines(void **state)
{
        struct baseline b = parse("# what is known of it\n"
                                  "\n"
                                  "tcp/alignment/hpda fail   # only HPDA 0 is supported\n"
                                  "  tcp/termreq/* \tlenient\r\n"
                                  "noticed/fab/queue/sqhd fail");

        (void)state;
        assert_int_equal(b.count, 3);
        assert_string_equal(b.entries[0].id, "tcp/alignment/hpda");
        assert_int_equal(b.entries[0].verdict, VERDICT_FAIL);
        assert_string_equal(b.entries[0].reason, "only HPDA 0 is supported");
        assert_int_equal(b.entries[0].line, 3);
        assert_string_equal(b.entries[1].id, "tcp/termreq/*");
        assert_int_equal(b.entries[1].verdict, VERDICT_LENIENT);
        assert_string_equal(b.entries[1].reason, "");
        assert_string_equal(b.entries[2].id, "noticed/fab/queue/sqhd");
        baseline_free(&b);
        b = parse("");
        assert_int_equal(b.count, 0);
        baseline_free(&b);
}

static void names_the_line_that_is_wrong(void **state)
{
        char longer[400];

        (void)state;
        refused("tcp/alignment/hpda\n", "known.txt:1:");
        refused("\n\ntcp/3.3/hpda pass\n", "known.txt:3:");
        refused("tcp/alignment/hpda fail because\n", "known.txt:1:");
        memset(longer, 'x', sizeof(longer));
        memcpy(longer + 300, " fail", 6);
        refused(longer, "known.txt:1:");
}

static void a_missing_file_is_named(void **state)
{
        struct baseline b = { 0 };
        char error[256];

        (void)state;
        assert_int_equal(baseline_read(&b, "/no/such/file", error, sizeof(error)), -1);
        assert_non_null(strstr(error, "/no/such/file: No such file"));
}

/* --- what it makes of results */

static struct result outcome(const char *id, enum verdict v, bool only_strict)
{
        struct result r = { .verdict = v, .only_strict = only_strict };

        strcpy(r.id, id);
        return r;
}

static void check(const char *text, struct run *run, const enum known *expected)
{
        struct baseline b = parse(text);

        baseline_apply(&b, run);
        for (size_t i = 0; i < run->count; i++)
                if (run->results[i].known != expected[i])
                        fail_msg("%s: known %d", run->results[i].id, run->results[i].known);
        baseline_free(&b);
}

static void lists_failures(void **state)
{
        struct result r[] = {
                outcome("a/1/x", VERDICT_FAIL, false),     outcome("a/1/y", VERDICT_FAIL, false),
                outcome("a/1/z", VERDICT_ERROR, false),    outcome("a/1/w", VERDICT_SKIP, false),
                outcome("noticed/r", VERDICT_FAIL, false),
        };
        struct run run = { .results = r, .count = 5 };
        const enum known expected[] = { KNOWN_LISTED, KNOWN_NOT, KNOWN_NOT, KNOWN_NOT,
                                        KNOWN_LISTED };

        (void)state;
        check("a/1/x fail # why\na/1/z fail\na/1/w fail\nnoticed/* fail\n", &run, expected);
}

static void tells_what_is_fixed(void **state)
{
        struct result r[] = { outcome("a/1/x", VERDICT_PASS, false),
                              outcome("a/1/y", VERDICT_LENIENT, true) };
        struct run run = { .results = r, .count = 2 };
        const enum known expected[] = { KNOWN_FIXED, KNOWN_FIXED };

        (void)state;
        check("a/1/x fail\na/1/y fail\n", &run, expected);
}

static void a_glob_is_fixed_when_nothing_of_it_fails(void **state)
{
        struct result r[] = { outcome("a/1/x", VERDICT_PASS, false),
                              outcome("a/1/y", VERDICT_FAIL, false) };
        struct run run = { .results = r, .count = 2 };
        const enum known expected[] = { KNOWN_NOT, KNOWN_LISTED };

        (void)state;
        check("a/1/* fail\n", &run, expected);
}

static void lenient_excuses_what_only_strict_runs_fail(void **state)
{
        struct result r[] = { outcome("a/1/x", VERDICT_FAIL, true),
                              outcome("a/1/y", VERDICT_FAIL, false),
                              outcome("a/1/z", VERDICT_PASS, false) };
        struct run run = { .results = r, .count = 3, .strict = true };
        const enum known expected[] = { KNOWN_LISTED, KNOWN_NOT, KNOWN_FIXED };

        (void)state;
        check("a/1/x lenient\na/1/y lenient\na/1/z lenient\n", &run, expected);
}

static void lenient_means_nothing_in_other_runs(void **state)
{
        struct result r[] = { outcome("a/1/x", VERDICT_LENIENT, true),
                              outcome("a/1/y", VERDICT_PASS, false) };
        struct run run = { .results = r, .count = 2 };
        const enum known expected[] = { KNOWN_NOT, KNOWN_NOT };

        (void)state;
        check("a/1/* lenient\n", &run, expected);
}

static void advice_needs_no_excuse(void **state)
{
        struct result r[] = { outcome("a/1/x", VERDICT_ADVICE, false),
                              outcome("a/1/y", VERDICT_PASS, false),
                              outcome("a/1/z", VERDICT_FAIL, false),
                              outcome("a/1/w", VERDICT_ADVICE, false) };
        struct run run = { .results = r, .count = 4, .strict = true };
        const enum known expected[] = { KNOWN_NOT, KNOWN_NOT, KNOWN_NOT, KNOWN_FIXED };

        (void)state;
        check("a/1/x advice\na/1/y advice\na/1/z advice\na/1/w fail\n", &run, expected);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(reads_lines),
                cmocka_unit_test(names_the_line_that_is_wrong),
                cmocka_unit_test(a_missing_file_is_named),
                cmocka_unit_test(lists_failures),
                cmocka_unit_test(tells_what_is_fixed),
                cmocka_unit_test(a_glob_is_fixed_when_nothing_of_it_fails),
                cmocka_unit_test(lenient_excuses_what_only_strict_runs_fail),
                cmocka_unit_test(lenient_means_nothing_in_other_runs),
                cmocka_unit_test(advice_needs_no_excuse),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
