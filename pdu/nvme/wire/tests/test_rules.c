/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/wire/rules.h"
#include "pdu/nvme/wire/tcp.h"

/* Documents and their revisions apart by "; ", each with what to look up there. */
static void check_source(const char *source)
{
        static const char *const documents[] = { "T1.0 ", "R1.0 ", "B2.1 ", "B2.2 ",
                                                 "B2.3 ", "N1.2 ", "IBTA " };
        size_t d = 0;

        while (d < sizeof(documents) / sizeof(documents[0]) &&
               strncmp(source, documents[d], 5) != 0)
                d++;
        if (d == sizeof(documents) / sizeof(documents[0]))
                fail_msg("no document is called as in '%s'", source);
        if (strchr(source, ';'))
                check_source(strchr(source, ';') + 2);
}

/* Who is not both live and in captures says why; the rest is about captures. */
static void check_seen(const struct rule *r)
{
        bool both = (r->seen & SEEN_LIVE) && (r->seen & SEEN_CAPTURE);

        assert_true(both == !r->unseen);
        assert_true((r->seen & SEEN_CAPTURE) || !(r->seen & (SEEN_ALONE | SEEN_SET_UP)));
        assert_true(r->reaction == REACT_NONE || r->reacts != BASIS_NONE);
}

static void test_rows_are_whole(void **state)
{
        (void)state;
        rule_each (id) {
                const struct rule *r = rule_get(id);

                assert_non_null(r);
                assert_true(strlen(r->id) > 5 && strchr(r->id, '/'));
                assert_true(strlen(r->says) > 10 && r->says[strlen(r->says) - 1] == '.');
                assert_true(strlen(r->symbol) > 3);
                check_source(r->source);
                assert_true(r->bound == PARTY_HOST || r->bound == PARTY_CONTROLLER);
                assert_non_null(level_name(r->level));
                assert_non_null(rulebook_reaction(&nvme_rules, r->reaction));
                assert_true(r->basis != BASIS_NONE && *basis_name(r->basis));
                assert_true(!r->checked == !!r->unchecked && !r->violators == !!r->unbroken);
                check_seen(r);
        }
        assert_null(rule_get(RULE_NONE));
        assert_null(rule_get(RULES));
}

static void test_ids_are_unique(void **state)
{
        (void)state;
        rule_each (id)
                assert_int_equal(rule_by_name(rule_get(id)->id), id);
        assert_int_equal(rule_by_name("tcp/no-such-rule"), RULE_NONE);
        assert_int_equal(rule_by_name(""), RULE_NONE);
}

/* A TermReq has a FES of figure 22 or 23, and an FEI only where that FES defines one. */
static void check_term(const struct outcome *o)
{
        bool has_offset =
            o->code == FES_INVALID_HEADER_FIELD || o->code == FES_UNSUPPORTED_PARAMETER;

        assert_in_range(o->code, FES_INVALID_HEADER_FIELD, FES_UNSUPPORTED_PARAMETER);
        if (has_offset)
                assert_in_range(o->place, 0, PDU_HEADER_MAX - 1);
        else
                assert_true(o->place < 0);
}

static void check_status(const struct outcome *o)
{
        assert_true(o->code <= STATUS_MASK && o->code != NVME_SUCCESS);
        assert_string_not_equal(status_name(o->code), "Unknown Status");
}

static void test_outcomes(void **state)
{
        (void)state;
        rule_each (id) {
                const struct rule *r = rule_get(id);

                if (r->reaction == REACT_TERM || r->reaction == REACT_STATUS)
                        assert_int_not_equal(r->accept[0].code, 0);
                for (int i = 0; i < RULE_OUTCOMES && r->accept[i].code; i++) {
                        if (r->reaction == REACT_TERM)
                                check_term(&r->accept[i]);
                        if (r->reaction == REACT_STATUS)
                                check_status(&r->accept[i]);
                }
        }
}

static void test_accepts(void **state)
{
        (void)state;
        assert_true(rule_accepts(TCP_H2C_TTAG, 1, 10, 0));
        assert_false(rule_accepts(TCP_H2C_TTAG, 1, 11, 0));
        assert_false(rule_accepts(TCP_H2C_TTAG, 2, 0, 0));
        assert_true(rule_accepts(TCP_H2C_UNSOLICITED, 2, 12345, 0)); /* FEI is reserved with 02h */
        assert_false(rule_accepts(TCP_H2C_LIMIT, 4, 0, 0));
        assert_true(rule_accepts(TCP_H2C_LIMIT_RANGE, 4, 0, 0));
        assert_false(rule_accepts(TCP_H2C_TTAG, 0, 0, 0));
        assert_true(rule_accepts(TCP_HDGST_H2C, 3, 0xdeadbeef, 0xdeadbeef));
        assert_false(rule_accepts(TCP_HDGST_H2C, 3, 0, 0xdeadbeef));
        assert_true(rule_accepts(FAB_CONNECT_SUBNQN, NVME_CONNECT_PARAM, 256 | 1 << 16, 0));
        assert_false(rule_accepts(FAB_CONNECT_SUBNQN, NVME_CONNECT_PARAM, 256, 0));
        assert_false(rule_accepts(TCP_FLAGS_H2C, 1, 1, 0)); /* tolerated: nothing is right */
        assert_false(rule_accepts(RULE_NONE, 1, 0, 0));
        assert_false(rule_accepts(RULES, 1, 0, 0));
}

static void test_faults(void **state)
{
        struct fault f = rule_fault(TCP_H2C_TTAG);

        (void)state;
        assert_true(is_fault(f));
        assert_int_equal(f.rule, TCP_H2C_TTAG);
        assert_int_equal(f.code, FES_INVALID_HEADER_FIELD);
        assert_int_equal(f.place, 10);
        assert_int_equal(rule_fault(TCP_HDGST_H2C).place, 0);
        assert_false(is_fault(rule_fault(RULE_NONE)));
}

static void test_sets(void **state)
{
        struct rule_set s = { 0 };

        (void)state;
        assert_true(rule_set_empty(&s));
        assert_true(rule_set_empty(NULL));
        assert_false(rule_in(NULL, TCP_TYPE_H2C));
        rule_each (id) {
                struct rule_set one = { 0 };

                assert_false(rule_in(&s, id));
                rule_add(&s, id);
                rule_add(&one, id);
                assert_true(rule_in(&s, id));
                rule_each (other)
                        assert_int_equal(rule_in(&one, other), other == id);
        }
        assert_false(rule_set_empty(&s));
}

static void test_names(void **state)
{
        (void)state;
        assert_string_equal(party_name(PARTY_HOST), "host");
        assert_string_equal(party_name(peer_of(PARTY_HOST)), "controller");
        assert_string_equal(level_name(LEVEL_SHOULD), "should");
        assert_string_equal(rulebook_reaction(&nvme_rules, REACT_TERM), "TermReq");
}

static void test_each_in(void **state)
{
        struct rule_set s = { 0 };
        unsigned n = 0, want = 0;

        (void)state;
        rule_each_in (&s, id)
                fail();
        rule_each (id)
                if (id % 63 == 1 || id == RULES - 1) {
                        rule_add(&s, id);
                        want++;
                }
        rule_each_in (&s, id) {
                assert_true(rule_in(&s, id));
                n++;
        }
        assert_int_equal(n, want);
        assert_int_equal(rule_next(&s, RULES - 1), RULE_NONE);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows_are_whole), cmocka_unit_test(test_ids_are_unique),
                cmocka_unit_test(test_outcomes),       cmocka_unit_test(test_accepts),
                cmocka_unit_test(test_faults),         cmocka_unit_test(test_sets),
                cmocka_unit_test(test_names),          cmocka_unit_test(test_each_in),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
