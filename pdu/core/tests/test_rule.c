/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine with a book that is nobody's; with NVMe's: pdu/nvme/wire/tests/test_rules.c. */
#include "check.h"

#include "pdu/core/rule.h"

enum { TOY_HELLO = 1, TOY_ECHO, TOY_LAST };

static const struct rule rows[] = {
        [TOY_HELLO] = { .id = "toy/hello",
                        .reaction = REACT_REJECT,
                        .accept = { { 3, 0 }, { 4, PLACE_ANY } } },
        [TOY_ECHO] = { .id = "toy/echo",
                       .reaction = REACT_TERM,
                       .accept = { { 7, PLACE_DIGEST } } },
        [TOY_LAST] = { .id = "toy/last" },
};
static const struct rulebook toy = { .rows = rows, .count = sizeof(rows) / sizeof(rows[0]) };

static void test_book(void **state)
{
        (void)state;
        assert_ptr_equal(rulebook_get(&toy, TOY_ECHO), &rows[TOY_ECHO]);
        assert_null(rulebook_get(&toy, RULE_NONE));
        assert_null(rulebook_get(&toy, TOY_LAST + 1));
        assert_int_equal(rulebook_by_name(&toy, "toy/last"), TOY_LAST);
        assert_int_equal(rulebook_by_name(&toy, "toy"), RULE_NONE);
}

static void test_outcomes(void **state)
{
        struct fault f = rulebook_fault(&toy, TOY_ECHO);

        (void)state;
        assert_true(rulebook_accepts(&toy, TOY_HELLO, 3, 0, 0));
        assert_false(rulebook_accepts(&toy, TOY_HELLO, 3, 1, 0));
        assert_true(rulebook_accepts(&toy, TOY_HELLO, 4, 1, 0));
        assert_true(rulebook_accepts(&toy, TOY_ECHO, 7, 0xabcd, 0xabcd));
        assert_false(rulebook_accepts(&toy, TOY_LAST, 0, 0, 0));
        assert_true(is_fault(f) && f.rule == TOY_ECHO && f.code == 7 && f.place == 0);
        assert_false(is_fault(rulebook_fault(&toy, TOY_LAST + 1)));
}

static void test_sets_reach_their_capacity(void **state)
{
        struct rule_set s = { 0 };
        unsigned sum = 0;

        (void)state;
        assert_int_equal(rule_next(&s, RULE_NONE), RULE_NONE);
        rule_add(&s, 1);
        rule_add(&s, 64);
        rule_add(&s, RULE_CAPACITY - 1);
        rule_each_in (&s, rule)
                sum += rule;
        assert_int_equal(sum, 1 + 64 + RULE_CAPACITY - 1);
        assert_int_equal(rule_next(&s, RULE_CAPACITY - 1), RULE_NONE);
}

static void test_a_message_of_termination_has_the_name_of_its_book(void **state)
{
        static const struct rulebook named = { .term = "Goodbye" };

        (void)state;
        assert_string_equal(rulebook_reaction(&toy, REACT_TERM), "message of termination");
        assert_string_equal(rulebook_reaction(&named, REACT_TERM), "Goodbye");
        assert_string_equal(rulebook_reaction(&named, REACT_CLOSE), "close");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_book),
                cmocka_unit_test(test_outcomes),
                cmocka_unit_test(test_sets_reach_their_capacity),
                cmocka_unit_test(test_a_message_of_termination_has_the_name_of_its_book),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
