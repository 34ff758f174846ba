/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of DOCA's rulebook are whole, and say nothing that is not so. */
#include "pdu/core/tests/check.h"

#include "pdu/doca/wire/family.h"
#include "pdu/doca/wire/rules.h"

static void test_rows_are_whole(void **state)
{
        (void)state;
        for (unsigned id = 1; id < DOCA_RULES; id++) {
                const struct rule *r = doca_rule_get(id);

                assert_non_null(r);
                assert_true(strncmp(r->symbol, "DOCA_", 5) == 0);
                assert_true(strncmp(r->id, "doca/", 5) == 0);
                assert_true(strncmp(r->source, "SAMPLES ", 8) == 0);
                assert_true(strlen(r->says) > 10 && r->says[strlen(r->says) - 1] == '.');
                assert_true(!r->checked == !!r->unchecked && !r->violators == !!r->unbroken);
                assert_true(r->seen & (SEEN_CAPTURE | SEEN_LIVE));
                assert_true(((r->seen & SEEN_CAPTURE) && (r->seen & SEEN_LIVE)) == !r->unseen);
                assert_true(r->reaction == REACT_NONE || r->reacts == BASIS_OWN);
                assert_int_not_equal(r->basis, BASIS_PRINTED); /* there is no such print */
                assert_int_equal(rulebook_by_name(&doca_rules, r->id), id);
        }
        assert_null(doca_rule_get(DOCA_RULES));
        assert_null(doca_rule_get(RULE_NONE));
}

/* Nobody fails by what the reference does by oversight; what cannot be understood is a fault. */
static void test_grades(void **state)
{
        (void)state;
        assert_int_equal(rule_grade(doca_rule_get(DOCA_ANSWER_ID)), GRADE_MUST);
        assert_int_equal(rule_grade(doca_rule_get(DOCA_IO_USER)), GRADE_MUST);
        assert_int_equal(rule_grade(doca_rule_get(DOCA_IO_STORAGE)), GRADE_ADVICE);
        assert_int_equal(rule_grade(doca_rule_get(DOCA_TRAILING_T)), GRADE_ADVICE);
        assert_true(rule_is_advice(doca_rule_get(DOCA_ORDER), PARTY_CONTROLLER));
        assert_false(rule_is_advice(doca_rule_get(DOCA_ORDER), PARTY_HOST));
}

static void test_family(void **state)
{
        (void)state;
        assert_string_equal(family_party(&doca_family, PARTY_HOST), "service");
        assert_string_equal(family_party(&doca_family, PARTY_CONTROLLER), "target");
        for (unsigned id = 1; id < DOCA_RULES; id++) {
                const char *name = doca_rule_get(id)->id;
                const struct topic *t = doca_family.topics;

                while (t->name && (strncmp(t->name, name, strlen(t->name)) != 0 ||
                                   name[strlen(t->name)] != '/'))
                        t++;
                if (!t->name)
                        fail_msg("no topic is that of %s", name);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows_are_whole),
                cmocka_unit_test(test_grades),
                cmocka_unit_test(test_family),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
