/* SPDX-License-Identifier: BSD-3-Clause */
/* I/O messages of one context. */
#include "pdu/core/tests/check.h"

#include "pdu/doca/machine/flow.h"
#include "pdu/doca/machine/spoil.h"

static const struct doca_bounds bounds = {
        .total_size = 1 << 20, .block_size = 512, .base = 0x10000, .len = 1 << 16
};
static struct doca_flow flow;

static struct rule_set say(const struct doca_dialect *d, enum party sender, struct doca_io io)
{
        struct rule_set found = { 0 };
        uint8_t p[DOCA_IO_LEN];
        struct doca_io out;

        doca_io_write(d, &io, p);
        doca_flow_says(&flow, sender, p, sizeof(p), &out, &found);
        return found;
}

static struct doca_io request(const struct doca_dialect *d, uint64_t user, uint64_t memory,
                              uint64_t storage, uint64_t size)
{
        struct doca_io io = { .type = DOCA_IO_READ, .user_data = user, .size = size };

        doca_io_put_place(d, &io, bounds.base, (struct doca_place) { memory, storage });
        return io;
}

static void assert_only(const struct rule_set *found, enum doca_rule rule)
{
        assert_int_equal(rule_next(found, RULE_NONE), rule);
        if (rule != DOCA_RULE_NONE)
                assert_int_equal(rule_next(found, rule), RULE_NONE);
}

static void test_each_dialect(void **state)
{
        (void)state;
        for (unsigned v = 0; v < DOCA_VERSIONS; v++) {
                const struct doca_dialect *d = doca_dialect((enum doca_version)v);
                struct doca_io io = request(d, 5, 0x1000, 0x1000, 4096);
                struct rule_set found;

                doca_flow_init(&flow, d, &bounds, 2);
                found = say(d, PARTY_HOST, io);
                assert_only(&found, DOCA_RULE_NONE);
                assert_int_equal(flow.count, 1);
                io.type = DOCA_IO_RESULT;
                found = say(d, PARTY_CONTROLLER, io);
                assert_only(&found, DOCA_RULE_NONE);
                assert_int_equal(flow.count, 0);
                found = say(d, PARTY_CONTROLLER, io);
                assert_only(&found, DOCA_IO_USER);
        }
}

static void test_bounds(void **state)
{
        const struct doca_dialect *d = doca_dialect(DOCA_3_2);
        static const struct {
                uint64_t memory, storage, size;
                enum doca_rule broken;
        } places[] = {
                { 0xf000, 0xff000, 0x1000, DOCA_RULE_NONE },
                { 0xf200, 0, 0x1000, DOCA_IO_MEMORY },
                { UINT64_MAX, 0, 0x1000, DOCA_IO_MEMORY },
                { 0, 0xff200, 0x1000, DOCA_IO_STORAGE },
                { 0, UINT64_MAX - 511, 0x1000, DOCA_IO_STORAGE },
                { 0, 0, 100, DOCA_IO_BLOCKS },
                { 0, 1, 512, DOCA_IO_BLOCKS },
        };

        (void)state;
        for (unsigned i = 0; i < COUNT(places); i++) {
                struct rule_set found;

                doca_flow_init(&flow, d, &bounds, 2);
                found = say(d, PARTY_HOST,
                            request(d, 1, places[i].memory, places[i].storage, places[i].size));
                assert_only(&found, places[i].broken);
        }
}

/* An address before the memory's beginning is outside, too. */
static void test_address_before(void **state)
{
        const struct doca_dialect *d = doca_dialect(DOCA_3_0);
        struct doca_io io = { .type = DOCA_IO_WRITE, .memory = bounds.base - 512, .size = 512 };
        struct rule_set found;

        (void)state;
        doca_flow_init(&flow, d, &bounds, 2);
        found = say(d, PARTY_HOST, io);
        assert_only(&found, DOCA_IO_MEMORY);
}

static void test_limit(void **state)
{
        const struct doca_dialect *d = doca_dialect(DOCA_3_2);
        struct rule_set found;

        (void)state;
        doca_flow_init(&flow, d, &bounds, 2);
        say(d, PARTY_HOST, request(d, 1, 0, 0, 512));
        found = say(d, PARTY_HOST, request(d, 2, 0, 0, 512));
        assert_only(&found, DOCA_RULE_NONE);
        found = say(d, PARTY_HOST, request(d, 3, 0, 0, 512));
        assert_only(&found, DOCA_IO_LIMIT);
        for (unsigned i = 0; i < 2 * DOCA_FLOW_REQUESTS; i++) /* more than it has room for */
                say(d, PARTY_HOST, request(d, 4, 0, 0, 512));
        assert_true(flow.count <= DOCA_FLOW_REQUESTS);
        found = say(d, PARTY_CONTROLLER, (struct doca_io) { .user_data = 2 });
        assert_only(&found, DOCA_RULE_NONE); /* it may be one of those */
}

static void test_echo(void **state)
{
        const struct doca_dialect *d = doca_dialect(DOCA_3_2);
        struct doca_io io = request(d, 1, 0, 512, 512);
        struct rule_set found;

        (void)state;
        doca_flow_init(&flow, d, &bounds, 2);
        say(d, PARTY_HOST, io);
        io.type = DOCA_IO_RESULT;
        io.storage = 0;
        found = say(d, PARTY_CONTROLLER, io);
        assert_only(&found, DOCA_IO_ECHO);
}

/* User data is the service's: the same may stand for two requests, which end in any order. */
static void test_same_user_data(void **state)
{
        const struct doca_dialect *d = doca_dialect(DOCA_3_2);
        struct doca_io io[2] = { request(d, 1, 0, 512, 512), request(d, 1, 0, 1024, 512) };
        struct rule_set found;

        (void)state;
        doca_flow_init(&flow, d, &bounds, 2);
        for (unsigned i = 0; i < 2; i++) {
                say(d, PARTY_HOST, io[i]);
                io[i].type = DOCA_IO_RESULT;
        }
        found = say(d, PARTY_CONTROLLER, io[1]);
        assert_only(&found, DOCA_RULE_NONE);
        found = say(d, PARTY_CONTROLLER, io[0]);
        assert_only(&found, DOCA_RULE_NONE);
        assert_int_equal(flow.count, 0);
}

/* Requests that came before a gap may be told of after it: their results are what is missing. */
static void test_missing_results(void **state)
{
        const struct doca_dialect *d = doca_dialect(DOCA_3_2);
        struct doca_io old = request(d, 1, 0, 512, 512), io = request(d, 1, 0, 1024, 512);
        struct rule_set found;

        (void)state;
        doca_flow_init(&flow, d, &bounds, 2);
        doca_flow_miss(&flow);
        say(d, PARTY_HOST, old);
        say(d, PARTY_HOST, io);
        io.type = DOCA_IO_RESULT;
        found = say(d, PARTY_CONTROLLER, io);
        assert_only(&found, DOCA_RULE_NONE);
        say(d, PARTY_HOST, request(d, 1, 0, 2048, 512));
        found = say(d, PARTY_CONTROLLER, io); /* of neither: one may have been lost */
        assert_only(&found, DOCA_RULE_NONE);
        doca_flow_miss(&flow);
        say(d, PARTY_HOST, old);
        found = say(d, PARTY_CONTROLLER, io); /* there is but one */
        assert_only(&found, DOCA_IO_ECHO);
}

/* --- violators -------------------------------------------------------------------------------- */

/* What a valid message breaks once it is spoilt, for each rule that has an entry. */
static void test_violators(void **state)
{
        const struct doca_dialect *d = doca_dialect(DOCA_3_2);
        unsigned seen = 0;

        (void)state;
        for (unsigned rule = 1; rule < DOCA_RULES; rule++) {
                struct doca_io io = request(d, 1, 0x1000, 0x1000, 4096);
                enum party sender = doca_rule_get(rule)->bound;
                struct rule_set violated = { 0 }, found = { 0 };
                uint32_t n = DOCA_IO_LEN;
                uint8_t p[DOCA_IO_LEN];

                if (!(doca_spoil_kinds((enum doca_rule)rule) & DOCA_V_IO))
                        continue;
                seen++;
                rule_add(&violated, rule);
                doca_flow_init(&flow, d, &bounds, 2);
                if (sender == PARTY_CONTROLLER) {
                        say(d, PARTY_HOST, io);
                        io.type = DOCA_IO_RESULT;
                }
                doca_io_write(d, &io, p);
                assert_true(doca_spoil_io(&violated, d, sender, p, &n));
                doca_flow_says(&flow, sender, p, n, &io, &found);
                assert_only(&found, (enum doca_rule)rule);
        }
        assert_int_equal(seen, 9);
}

/* Rows say what the tables have; the target's own are its code's. */
static void test_rows_say_so(void **state)
{
        (void)state;
        for (unsigned rule = 1; rule < DOCA_RULES; rule++)
                assert_int_equal(doca_rule_get(rule)->violators & ~(unsigned)DOCA_V_TARGET,
                                 doca_spoil_kinds((enum doca_rule)rule));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_dialect),   cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_address_before), cmocka_unit_test(test_limit),
                cmocka_unit_test(test_same_user_data), cmocka_unit_test(test_missing_results),
                cmocka_unit_test(test_echo),           cmocka_unit_test(test_violators),
                cmocka_unit_test(test_rows_say_so),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
