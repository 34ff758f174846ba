/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "pdu/core/tests/scarce.h"
#include "target/engine/quota.h"

static void test_each_has_its_own(void **state)
{
        struct quota q;

        (void)state;
        quota_init(&q);
        for (unsigned i = 0; i < 3; i++)
                assert_true(quota_take(&q, "one", 3));
        assert_false(quota_take(&q, "one", 3));
        assert_true(quota_take(&q, "two", 3));
        quota_give(&q, "one");
        assert_true(quota_take(&q, "one", 3));
        for (unsigned i = 0; i < 3; i++)
                quota_give(&q, "one");
        quota_give(&q, "two");
        for (unsigned i = 0; i < QUOTA_PLACES; i++) /* nobody is remembered */
                assert_null(q.entries[i]);
        quota_fini(&q);
}

/* When memory runs out, nobody comes in, and without room nobody is remembered. */
static void test_it_fails_closed(void **state)
{
        struct quota q;

        (void)state;
        quota_init(&q);
        allocations_left = 1;
        assert_false(quota_take(&q, "one", 3));
        assert_false(quota_take(&q, "two", 0));
        for (unsigned i = 0; i < QUOTA_PLACES; i++)
                assert_null(q.entries[i]);
        quota_fini(&q);
}

static void test_places(void **state)
{
        static const struct {
                const char *addr, *place;
        } rows[] = {
                { "192.0.2.7", "192.0.2.7" },
                { "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::" },
                { "[2001:db8:1:2::7]", "2001:db8:1:2::" },
                { "2001:db8:1:3::7", "2001:db8:1:3::" },
                { "::ffff:192.0.2.7", "::ffff:192.0.2.7" },
                { "fe80::1%eth0", "fe80::1%eth0" },
                { "", "" },
        };

        (void)state;
        for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                assert_string_equal(conn_peer_of(rows[i].addr, 1).place, rows[i].place);
        assert_string_equal(conn_peer_of("[::1]", 4420).addr, "::1");
        assert_int_equal(conn_peer_of("[::1]", 4420).port, 4420);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_has_its_own),
                cmocka_unit_test(test_it_fails_closed),
                cmocka_unit_test(test_places),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
