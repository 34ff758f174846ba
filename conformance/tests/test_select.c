/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids, selection, and what every case of the registry has to be. */
#include "conformance/words/words.h" /* before cmocka makes macros of fail and skip */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static void prefixes_end_where_words_end(void **state)
{
        (void)state;
        assert_true(id_matches("tcp", "tcp/h2cdata/ttag-unknown"));
        assert_true(id_matches("tcp/", "tcp/h2cdata/ttag-unknown"));
        assert_true(id_matches("tcp/h2cdata", "tcp/h2cdata/ttag-unknown"));
        assert_true(id_matches("tcp/h2cdata/ttag", "tcp/h2cdata/ttag-unknown"));
        assert_true(id_matches("tcp/h2cdata/ttag-unknown", "tcp/h2cdata/ttag-unknown"));
        assert_false(id_matches("nvm/write", "nvm/writes/x"));
        assert_false(id_matches("tcp/h2cdata/tt", "tcp/h2cdata/ttag-unknown"));
        assert_false(id_matches("tcp/h2cdata/ttag-unknown-too", "tcp/h2cdata/ttag-unknown"));
        assert_false(id_matches("", "tcp/h2cdata/ttag-unknown"));
}

static void globs_match_all_of_an_id(void **state)
{
        (void)state;
        assert_true(id_matches("*/hpda*", "tcp/alignment/hpda-digest"));
        assert_true(id_matches("tcp/a?ignment/*", "tcp/alignment/hpda-digest"));
        assert_false(id_matches("hpda*", "tcp/alignment/hpda-digest"));
}

static int order(const char *a, const char *b)
{
        return id_compare(nvme_conform.family, a, b);
}

static void order_is_by_topic_and_name(void **state)
{
        (void)state;
        assert_true(order("tcp/termreq/z", "fab/connect/a") < 0);
        assert_true(order("fab/connect/z", "base/identify/a") < 0);
        assert_true(order("tcp/h2cdata/a", "tcp/c2hdata/a") > 0);
        assert_true(order("tcp/alignment/zz", "tcp/capsule/aa") < 0);
        assert_true(order("tcp/alignment/a", "tcp/alignment/b") < 0);
        assert_int_equal(order("tcp/alignment/a", "tcp/alignment/a"), 0);
}

/* The ids that a selection takes; the caller frees. NULL: it is refused. */
static const struct test_case **take(struct selection s, size_t *n, char error[256])
{
        error[0] = '\0';
        s.family = &nvme_conform;
        return cases_select(&s, n, error, 256);
}

static void all_without_a_selection(void **state)
{
        size_t all, n;
        char error[256];
        const struct test_case **registry = cases_all(&nvme_conform, ROLE_TARGET, &all);
        const struct test_case **taken =
            take((struct selection) { .level = LEVEL_INFO }, &n, error);

        (void)state;
        assert_non_null(taken);
        assert_int_equal(n, all);
        free(registry);
        free(taken);
}

static void excluded_are_not_taken(void **state)
{
        static char *ids[] = { "tcp/setup" };
        static const char *const excluded[] = { "tcp/setup/icreq" };
        size_t n;
        char error[256];
        const struct test_case **taken = take((struct selection) { .ids = ids,
                                                                   .id_count = 1,
                                                                   .excluded = excluded,
                                                                   .excluded_count = 1,
                                                                   .level = LEVEL_INFO },
                                              &n, error);

        (void)state;
        assert_non_null(taken);
        for (size_t i = 0; i < n; i++) {
                assert_true(id_matches("tcp/setup", taken[i]->id));
                assert_false(id_matches("tcp/setup/icreq", taken[i]->id));
        }
        free(taken);
}

static void level_is_a_floor(void **state)
{
        size_t n;
        char error[256];
        const struct test_case **taken =
            take((struct selection) { .level = LEVEL_MUST }, &n, error);

        (void)state;
        for (size_t i = 0; i < n; i++)
                assert_int_equal(taken[i]->level, LEVEL_MUST);
        free(taken);
}

static void rules_select_the_cases_that_name_them(void **state)
{
        struct selection s = { .level = LEVEL_INFO };
        size_t n;
        char error[256];
        const struct test_case **taken;

        (void)state;
        rule_add(&s.rules, TCP_H2C_TTAG);
        taken = take(s, &n, error);
        assert_non_null(taken);
        for (size_t i = 0; i < n; i++) {
                const unsigned *r = taken[i]->rules;

                while (*r != RULE_NONE && *r != TCP_H2C_TTAG)
                        r++;
                assert_int_equal(*r, TCP_H2C_TTAG);
        }
        free(taken);
}

static void nothing_or_nobody_is_an_error(void **state)
{
        static char *unknown[] = { "tcp/setup", "tcp/no-such-case" },
                    *one[] = { "tcp/setup/icreq" };
        static const char *const mistyped[] = { "tcp/setup/icrek" }, *const same[] = {
                "tcp/setup"
        };
        size_t n;
        char error[256];

        (void)state;
        assert_null(take((struct selection) { .ids = unknown, .id_count = 2, .level = LEVEL_INFO },
                         &n, error));
        assert_non_null(strstr(error, "tcp/no-such-case"));
        assert_null(take(
            (struct selection) { .excluded = mistyped, .excluded_count = 1, .level = LEVEL_INFO },
            &n, error));
        assert_non_null(strstr(error, "tcp/setup/icrek"));
        assert_null(take((struct selection) { .ids = one,
                                              .id_count = 1,
                                              .excluded = same,
                                              .excluded_count = 1,
                                              .level = LEVEL_INFO },
                         &n, error));
        assert_non_null(strstr(error, "is selected"));
}

/* --- the registry itself */

static void check_case(const struct test_case *c)
{
        const char *end = c->says + strlen(c->says) - 1;
        size_t section = id_section(c->id);

        if (section == strlen(c->id) || !section_title(nvme_conform.family, c->id, section)[0])
                fail_msg("%s: its section has no title", c->id);
        if (strspn(c->id, "abcdefghijklmnopqrstuvwxyz0123456789/-") != strlen(c->id))
                fail_msg("%s: an id is of a-z 0-9 / -", c->id);
        if (*end == '.' || (c->source && strlen(c->says) > 110))
                fail_msg("%s: the sentence ends with a full stop or is too long", c->id);
        if (!c->run || !c->rules || (c->source && !strstr(c->source, c->id)))
                fail_msg("%s: it is not whole", c->id);
}

static void check_cases(enum role role, size_t least)
{
        size_t n;
        const struct test_case **all = cases_all(&nvme_conform, role, &n);

        assert_true(n >= least);
        for (size_t i = 0; i < n; i++) {
                check_case(all[i]);
                if (i > 0 && strcmp(all[i - 1]->id, all[i]->id) == 0)
                        fail_msg("%s is there twice", all[i]->id);
        }
        free(all);
}

static void every_case_is_well_formed(void **state)
{
        (void)state;
        check_cases(ROLE_TARGET, 250);
        check_cases(ROLE_HOST, 100);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(prefixes_end_where_words_end),
                cmocka_unit_test(globs_match_all_of_an_id),
                cmocka_unit_test(order_is_by_topic_and_name),
                cmocka_unit_test(all_without_a_selection),
                cmocka_unit_test(excluded_are_not_taken),
                cmocka_unit_test(level_is_a_floor),
                cmocka_unit_test(rules_select_the_cases_that_name_them),
                cmocka_unit_test(nothing_or_nobody_is_an_error),
                cmocka_unit_test(every_case_is_well_formed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
