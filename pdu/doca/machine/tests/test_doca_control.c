/* SPDX-License-Identifier: BSD-3-Clause */
/* What a control channel's two sides may say, and when. */
#include "pdu/core/tests/check.h"

#include "pdu/doca/machine/control.h"

enum { CORES = 2 };

static struct doca_msg request_of(enum doca_kind kind)
{
        return (struct doca_msg) { .kind = kind,
                                   .message_id = 7,
                                   .correlation_id = 9,
                                   .transactions = kind == DOCA_INIT ? 4 : 0,
                                   .cores = kind == DOCA_INIT ? CORES : 0 };
}

static struct doca_msg create_of(uint64_t context, uint64_t role)
{
        return (struct doca_msg) { .kind = DOCA_CREATE,
                                   .message_id = 7,
                                   .correlation_id = 9,
                                   .context = context,
                                   .role = role };
}

static struct doca_msg answer_to(const struct doca_control *c, const struct doca_msg *request)
{
        struct doca_msg m = { .kind = doca_shape_of(c->dialect, request->kind)->answer,
                              .message_id = request->message_id,
                              .correlation_id = request->correlation_id };

        if (m.kind == DOCA_QUERY_RSP) {
                m.total_size = 1 << 20;
                m.block_size = 512;
        }
        if (m.kind == DOCA_CREATE_RSP) {
                m.context = request->context;
                m.role = request->role;
        }
        return m;
}

/* What the service's request breaks. */
static struct rule_set ask(struct doca_control *c, struct doca_msg request)
{
        struct rule_set found = { 0 };

        doca_control_says(c, PARTY_HOST, &request, &found);
        return found;
}

static struct rule_set answer(struct doca_control *c, struct doca_msg m)
{
        struct rule_set found = { 0 };

        doca_control_says(c, PARTY_CONTROLLER, &m, &found);
        return found;
}

/* A request and its response, of which neither breaks anything. */
static void exchange(struct doca_control *c, struct doca_msg request)
{
        struct rule_set found = ask(c, request);

        assert_true(rule_set_empty(&found));
        found = answer(c, answer_to(c, &request));
        assert_true(rule_set_empty(&found));
}

static void fail_it(struct doca_control *c, struct doca_msg request)
{
        struct doca_msg error = { .kind = DOCA_ERROR_RSP,
                                  .message_id = 7,
                                  .correlation_id = 9,
                                  .result = DOCA_ERROR_INVALID_VALUE };
        struct rule_set found;

        (void)ask(c, request);
        found = answer(c, error);
        assert_true(rule_set_empty(&found));
}

static void assert_only(const struct rule_set *found, enum doca_rule rule)
{
        assert_int_equal(rule_next(found, RULE_NONE), rule);
        assert_int_equal(rule_next(found, rule), RULE_NONE);
}

static void connect_all(struct doca_control *c)
{
        for (uint64_t context = 0; context < CORES; context++)
                for (uint64_t role = 0; role < DOCA_ROLES; role++)
                        exchange(c, create_of(context, role));
}

static void test_line(void **state)
{
        (void)state;
        for (unsigned v = DOCA_3_0; v < DOCA_VERSIONS; v++) {
                struct doca_control c;

                doca_control_init(&c, doca_dialect((enum doca_version)v), DOCA_KEEPS);
                assert_string_equal(doca_control_stage(&c), "query");
                exchange(&c, request_of(DOCA_QUERY));
                assert_int_equal(c.total_size, 1 << 20);
                exchange(&c, request_of(DOCA_INIT));
                assert_string_equal(doca_control_stage(&c), "connections");
                connect_all(&c);
                assert_string_equal(doca_control_stage(&c), "start");
                exchange(&c, request_of(DOCA_START));
                assert_string_equal(doca_control_stage(&c), "data");
                exchange(&c, request_of(DOCA_STOP));
                assert_string_equal(doca_control_stage(&c), "shutdown");
                exchange(&c, request_of(DOCA_SHUTDOWN));
                assert_string_equal(doca_control_stage(&c), "end");
                assert_int_equal(doca_control_due(&c), DOCA_NOTHING);
        }
}

/* It does not say how many connections there will be, and names no context. */
static void test_line_of_2_10(void **state)
{
        struct doca_msg configure = request_of(DOCA_INIT);
        struct rule_set found;
        struct doca_control c;

        (void)state;
        configure.cores = 0;
        doca_control_init(&c, doca_dialect(DOCA_2_10), DOCA_KEEPS);
        exchange(&c, configure);
        found = ask(&c, request_of(DOCA_CONNECT));
        assert_only(&found, DOCA_ORDER);
        answer(&c, (struct doca_msg) { .kind = DOCA_RESPONSE, .correlation_id = 9, .result = 1 });
        for (unsigned i = 0; i < 2 * CORES; i++)
                exchange(&c, create_of(0, i % 2));
        assert_int_equal(c.cores, CORES);
        exchange(&c, request_of(DOCA_CONNECT));
        exchange(&c, request_of(DOCA_START));
        exchange(&c, request_of(DOCA_SHUTDOWN));
        assert_int_equal(doca_control_due(&c), DOCA_NOTHING);
}

static void test_not_due(void **state)
{
        static const enum doca_kind wrong[] = { DOCA_INIT, DOCA_CREATE, DOCA_START, DOCA_STOP,
                                                DOCA_SHUTDOWN };

        (void)state;
        for (unsigned i = 0; i < COUNT(wrong); i++) {
                struct rule_set found;
                struct doca_control c;

                doca_control_init(&c, doca_dialect(DOCA_3_2), DOCA_KEEPS);
                found = ask(&c, request_of(wrong[i]));
                assert_only(&found, DOCA_ORDER);
        }
}

/* The strict one stays where it was: what has failed may be tried again. */
static void test_error_keeps_its_stage(void **state)
{
        struct doca_control c;

        (void)state;
        doca_control_init(&c, doca_dialect(DOCA_3_2), DOCA_KEEPS);
        exchange(&c, request_of(DOCA_QUERY));
        fail_it(&c, request_of(DOCA_INIT));
        exchange(&c, request_of(DOCA_INIT));
        fail_it(&c, create_of(0, 0));
        connect_all(&c);
        exchange(&c, request_of(DOCA_START));
}

/* The reference: after a failed init there are no cores, and start is due; a failed connection counts. */
static void test_error_uses_its_stage_up(void **state)
{
        struct rule_set found;
        struct doca_control c;

        (void)state;
        doca_control_init(&c, doca_dialect(DOCA_3_2), DOCA_CONSUMES);
        exchange(&c, request_of(DOCA_QUERY));
        fail_it(&c, request_of(DOCA_INIT));
        assert_int_equal(doca_control_due(&c), DOCA_START);
        found = ask(&c, request_of(DOCA_INIT));
        assert_only(&found, DOCA_ORDER);

        doca_control_init(&c, doca_dialect(DOCA_3_2), DOCA_CONSUMES);
        exchange(&c, request_of(DOCA_QUERY));
        exchange(&c, request_of(DOCA_INIT));
        for (unsigned i = 0; i < 2 * CORES; i++)
                fail_it(&c, create_of(0, 0));
        assert_int_equal(doca_control_due(&c), DOCA_START);
}

/* Who does not know what an error has done judges the order no more. */
static void test_error_leaves_unsure(void **state)
{
        struct rule_set found;
        struct doca_control c;

        (void)state;
        doca_control_init(&c, doca_dialect(DOCA_3_2), DOCA_UNSURE);
        exchange(&c, request_of(DOCA_QUERY));
        fail_it(&c, request_of(DOCA_INIT));
        found = ask(&c, request_of(DOCA_START));
        assert_true(rule_set_empty(&found));
        found =
            answer(&c, answer_to(&c, &(struct doca_msg) { .kind = DOCA_START, .message_id = 1 }));
        assert_true(rule_in(&found, DOCA_ANSWER_ID)); /* that is judged all the same */
}

static void test_connections(void **state)
{
        struct rule_set found;
        struct doca_control c;

        (void)state;
        doca_control_init(&c, doca_dialect(DOCA_3_2), DOCA_KEEPS);
        exchange(&c, request_of(DOCA_QUERY));
        exchange(&c, request_of(DOCA_INIT));
        exchange(&c, create_of(1, DOCA_IO_CONTROL)); /* any order will do */
        found =
            ask(&c, create_of(CORES, DOCA_IO_DATA)); /* one too many, as the reference lets pass */
        assert_only(&found, DOCA_CONTEXT);
        answer(&c, (struct doca_msg) { .kind = DOCA_ERROR_RSP, .result = 6 });
        found = ask(&c, create_of(0, DOCA_ROLES));
        assert_only(&found, DOCA_ROLE);
        answer(&c, (struct doca_msg) { .kind = DOCA_ERROR_RSP, .result = 6 });
        found = ask(&c, create_of(1, DOCA_IO_CONTROL));
        assert_only(&found, DOCA_ROLE_ONCE);
}

static void test_counts(void **state)
{
        struct doca_msg init = request_of(DOCA_INIT);
        struct rule_set found;
        struct doca_control c;

        (void)state;
        doca_control_init(&c, doca_dialect(DOCA_3_2), DOCA_KEEPS);
        exchange(&c, request_of(DOCA_QUERY));
        init.cores = 0;
        found = ask(&c, init);
        assert_only(&found, DOCA_INIT_COUNTS);
}

static void test_responses(void **state)
{
        const struct doca_msg query = request_of(DOCA_QUERY);
        struct doca_control fresh, c;
        struct doca_msg good, bad;
        struct rule_set found;

        (void)state;
        doca_control_init(&fresh, doca_dialect(DOCA_3_2), DOCA_KEEPS);
        good = answer_to(&fresh, &query);
        c = fresh;
        found = answer(&c, good);
        assert_only(&found, DOCA_ANSWER_ASKED);
        (void)ask(&fresh, query);
        c = fresh, bad = good, bad.kind = DOCA_INIT_RSP;
        found = answer(&c, bad);
        assert_only(&found, DOCA_ANSWER_TYPE);
        c = fresh, bad = good, bad.message_id++;
        found = answer(&c, bad);
        assert_only(&found, DOCA_ANSWER_ID);
        c = fresh, bad = good, bad.correlation_id++;
        found = answer(&c, bad);
        assert_only(&found, DOCA_ANSWER_CORRELATION);
        c = fresh, bad = good, bad.total_size++;
        found = answer(&c, bad);
        assert_only(&found, DOCA_QUERY_SIZE);
        c = fresh, bad = good, bad.block_size = 0;
        found = answer(&c, bad);
        assert_only(&found, DOCA_QUERY_SIZE);
        c = fresh, bad = good, bad.kind = DOCA_ERROR_RSP;
        found = answer(&c, bad);
        assert_only(&found, DOCA_ERROR_CODE);
}

static void test_echo(void **state)
{
        struct doca_msg request = create_of(1, DOCA_IO_DATA), bad;
        struct rule_set found;
        struct doca_control c;

        (void)state;
        doca_control_init(&c, doca_dialect(DOCA_3_2), DOCA_KEEPS);
        exchange(&c, request_of(DOCA_QUERY));
        exchange(&c, request_of(DOCA_INIT));
        (void)ask(&c, request);
        bad = answer_to(&c, &request);
        bad.context = 0;
        found = answer(&c, bad);
        assert_only(&found, DOCA_CREATE_ECHO);
}

/* Several at once are answered in order; only that they were several is held against the service. */
static void test_several_outstanding(void **state)
{
        struct doca_msg query = request_of(DOCA_QUERY), init = request_of(DOCA_INIT);
        struct rule_set found;
        struct doca_control c;

        (void)state;
        init.message_id = 8;
        doca_control_init(&c, doca_dialect(DOCA_3_2), DOCA_KEEPS);
        (void)ask(&c, query);
        found = ask(&c, init);
        assert_only(&found, DOCA_ONE);
        found = answer(&c, answer_to(&c, &query));
        assert_true(rule_set_empty(&found));
        found = answer(&c, answer_to(&c, &init));
        assert_true(rule_set_empty(&found));
        assert_int_equal(doca_control_due(&c), DOCA_CREATE);
        for (unsigned i = 0; i < 3 * DOCA_OUTSTANDING; i++)
                (void)ask(&c, query);
}

/* After a gap nothing is held against anybody that it could explain. */
static void test_missing(void **state)
{
        struct rule_set found;
        struct doca_control c;

        (void)state;
        doca_control_init(&c, doca_dialect(DOCA_3_2), DOCA_UNSURE);
        (void)ask(&c, request_of(DOCA_QUERY));
        doca_control_miss(&c);
        found = answer(&c, (struct doca_msg) { .kind = DOCA_STOP_RSP, .message_id = 99 });
        assert_true(rule_set_empty(&found));
        for (unsigned i = 0; i < 2 * DOCA_OUTSTANDING; i++) { /* their responses may be missing */
                found = ask(&c, request_of(DOCA_SHUTDOWN));
                assert_true(rule_set_empty(&found));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_line),
                cmocka_unit_test(test_line_of_2_10),
                cmocka_unit_test(test_not_due),
                cmocka_unit_test(test_error_keeps_its_stage),
                cmocka_unit_test(test_error_uses_its_stage_up),
                cmocka_unit_test(test_error_leaves_unsure),
                cmocka_unit_test(test_connections),
                cmocka_unit_test(test_counts),
                cmocka_unit_test(test_responses),
                cmocka_unit_test(test_echo),
                cmocka_unit_test(test_several_outstanding),
                cmocka_unit_test(test_missing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
