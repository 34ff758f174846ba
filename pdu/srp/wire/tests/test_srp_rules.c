/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of SRP's rulebook are whole, and say nothing that is not so. */
#include "pdu/core/tests/check.h"

#include "pdu/srp/wire/family.h"
#include "pdu/srp/wire/rules.h"

static void test_rows_are_whole(void **state)
{
        (void)state;
        for (unsigned id = 1; id < SRP_RULES; id++) {
                const struct rule *r = srp_rule_get(id);

                assert_non_null(r);
                assert_true(strncmp(r->symbol, "SRP_", 4) == 0);
                assert_true(strncmp(r->id, "srp/", 4) == 0);
                assert_true(strncmp(r->source, "SRP16a 6.", 9) == 0 ||
                            strcmp(r->source, "Linux") == 0 ||
                            strcmp(r->source, "IBTA 12.10") == 0);
                assert_true(strlen(r->says) > 10 && r->says[strlen(r->says) - 1] == '.');
                assert_true(!r->checked == !!r->unchecked && !r->violators == !!r->unbroken);
                assert_true(r->seen & (SEEN_CAPTURE | SEEN_LIVE));
                assert_int_equal(!!r->unseen, !(r->seen & SEEN_CAPTURE) || !(r->seen & SEEN_LIVE));
                assert_true(r->reaction == REACT_NONE || r->reacts != BASIS_NONE);
                assert_int_not_equal(r->basis,
                                     BASIS_PRINTED); /* nobody here has read it in print */
                assert_int_equal(rulebook_by_name(&srp_rules, r->id), id);
        }
        assert_null(srp_rule_get(SRP_RULES));
        assert_null(srp_rule_get(RULE_NONE));
}

/* Nobody fails by our own reading; what cannot be understood is a fault. */
static void test_grades(void **state)
{
        (void)state;
        assert_int_equal(rule_grade(srp_rule_get(SRP_TYPE_I)), GRADE_MUST);
        assert_int_equal(rule_grade(srp_rule_get(SRP_TAG_RESPONSE)), GRADE_MUST);
        assert_int_equal(rule_grade(srp_rule_get(SRP_LIMIT_OVERRUN)), GRADE_ADVICE);
        assert_int_equal(rule_grade(srp_rule_get(SRP_RESERVED_T)), GRADE_ADVICE);
}

static void test_family(void **state)
{
        (void)state;
        assert_string_equal(family_party(&srp_family, PARTY_HOST), "initiator");
        assert_string_equal(family_party(&srp_family, PARTY_CONTROLLER), "target");
        assert_string_equal(family_party(&(struct family) { 0 }, PARTY_HOST), "host");
        for (unsigned id = 1; id < SRP_RULES; id++) {
                const char *name = srp_rule_get(id)->id;
                const struct topic *t = srp_family.topics;

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
