/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "target/nvme/conn.h"
#include "target/pool.h"
#include "target/reactor.h"

static void test_buffers_come_again(void **state)
{
        struct pool_borrower who = { 0 };
        struct pool p;
        uint8_t *a, *b;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        a = pool_get(&p, 5000, &who);
        assert_non_null(a);
        assert_int_equal((uintptr_t)a % 64, 0);
        assert_int_equal(p.bytes, 8192);
        memset(a, 0xff, 5000);
        b = pool_get(&p, 1, &who);
        assert_int_equal(p.bytes, 8192 + 4096);
        pool_put(&p, a, 5000, &who);
        assert_ptr_equal(pool_get(&p, 8192, &who), a); /* of the same class */
        pool_put(&p, a, 8192, &who);
        pool_put(&p, b, 1, &who);
        pool_fini(&p);
        assert_int_equal(p.bytes, 0);
}

static void test_the_bound_holds(void **state)
{
        struct pool_borrower who[17] = { 0 };
        struct pool p;
        uint8_t *b[16];

        (void)state;
        pool_init(&p, 65536, NULL, NULL);
        for (unsigned i = 0; i < 16; i++)
                b[i] = pool_get(&p, 4096, &who[i]);
        assert_null(pool_get(&p, 4096, &who[16]));
        pool_put(&p, b[0], 4096, &who[0]);
        assert_null(pool_get(&p, 8192, &who[0])); /* what is free does not suffice */
        pool_put(&p, b[1], 4096, &who[1]);
        pool_put(&p, b[2], 4096, &who[2]);
        b[0] = pool_get(&p, 8192, &who[0]); /* two free ones of another class make room */
        assert_non_null(b[0]);
        assert_int_equal(p.bytes, 65536);
        assert_int_equal(who[0].bytes, 8192);
        pool_put(&p, b[0], 8192, &who[0]);
        for (unsigned i = 3; i < 16; i++)
                pool_put(&p, b[i], 4096, &who[i]);
        pool_fini(&p);
}

static void test_a_quarter_is_for_those_who_have_none(void **state)
{
        struct pool_borrower who = { 0 }, other = { 0 };
        struct pool p;
        uint8_t *b[16], *last;

        (void)state;
        pool_init(&p, 65536, NULL, NULL);
        for (unsigned i = 0; i < 12; i++)
                b[i] = pool_get(&p, 4096, &who);
        assert_non_null(b[11]);
        assert_null(pool_get(&p, 4096, &who));
        last = pool_get(&p, 8192, &other);
        assert_non_null(last);
        pool_put(&p, last, 8192, &other);
        pool_put(&p, b[0], 4096, &who);
        b[0] = pool_get(&p, 4096, &who);
        assert_non_null(b[0]);
        for (unsigned i = 0; i < 12; i++)
                pool_put(&p, b[i], 4096, &who);
        assert_int_equal(p.lent, 0);
        pool_fini(&p);
}

/* However many connections it has, and whatever it calls itself. */
static void test_a_host_has_half_and_an_address_five_eighths(void **state)
{
        struct pool_borrower who[64] = { 0 }, other = { 0 };
        struct pool p;
        uint8_t *b[64], *last;
        unsigned n = 0;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        for (unsigned i = 0; i < 64; i++) {
                who[i].host = pool_join(&p, i < 32 ? "one" : "two");
                who[i].place = pool_join(&p, "192.0.2.1");
                b[i] = pool_get(&p, 32768, &who[i]);
                assert_int_equal(b[i] != NULL, i < 16 || (i >= 32 && i < 36));
                n += b[i] != NULL;
        }
        assert_int_equal(p.lent, n * 32768);
        other.place = pool_join(&p, "192.0.2.2");
        last = pool_get(&p, 262144, &other);
        assert_non_null(last);
        pool_put(&p, last, 262144, &other);
        pool_leave(&p, other.place);
        for (unsigned i = 0; i < 64; i++) {
                if (b[i])
                        pool_put(&p, b[i], 32768, &who[i]);
                pool_leave(&p, who[i].host);
                pool_leave(&p, who[i].place);
        }
        assert_null(p.shares);
        pool_fini(&p);
}

/* Identify and its like find one, when everything else is lent. */
static void test_a_reserve_of_small_ones(void **state)
{
        struct pool_borrower who[16] = { 0 }, other = { 0 };
        struct pool p;
        uint8_t *b[16], *small;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        for (unsigned i = 0; i < 16; i++)
                b[i] = pool_get(&p, 65536, &who[i]);
        assert_null(b[15]);
        assert_null(pool_get(&p, 8192, &other));
        small = pool_get(&p, 4096, &other);
        assert_non_null(small);
        pool_put(&p, small, 4096, &other);
        for (unsigned i = 0; i < 15; i++)
                pool_put(&p, b[i], 65536, &who[i]);
        pool_fini(&p);
}

/* In a turn of the reactor all queues of a host do together what one alone may. */
static void test_work_is_shared_by_the_queues_of_a_host(void **state)
{
        static const unsigned budgets[] = { 128, 64, 42, 32, 25, 21, 18, 16, 16, 16 };
        enum { QUEUES = sizeof(budgets) / sizeof(budgets[0]) };
        static struct target_conn c;
        struct pool p;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        assert_int_equal(conn_budget(&c, 128), 128); /* before Connect */
        for (unsigned i = 0; i < QUEUES; i++) {
                c.borrower.host = pool_join(&p, "one");
                assert_int_equal(conn_budget(&c, 128), budgets[i]);
        }
        for (unsigned i = 0; i < QUEUES; i++)
                pool_leave(&p, c.borrower.host);
        pool_fini(&p);
}

static void test_idle_pools_shrink(void **state)
{
        struct pool_borrower who = { 0 };
        struct pool p;
        uint8_t *a;

        (void)state;
        pool_init(&p, 65536, NULL, NULL);
        a = pool_get(&p, 4096, &who);
        pool_put(&p, pool_get(&p, 4096, &who), 4096, &who);
        pool_trim(&p); /* it was used since */
        assert_int_equal(p.bytes, 8192);
        pool_trim(&p);
        assert_int_equal(p.bytes, 4096); /* lent ones stay */
        pool_put(&p, a, 4096, &who);
        pool_trim(&p);
        assert_int_equal(p.bytes, 0);
        pool_fini(&p);
}

/* What comes in the middle of a long turn did not come at its start. */
static void test_a_turn_may_take_long(void **state)
{
        static struct reactor r;

        (void)state;
        r.now = 1;
        assert_int_equal(reactor_now(&r), 1);
        assert_true(reactor_look(&r) > 1);
        assert_true(reactor_now(&r) > 1);
        r.given = true;
        r.now = 1;
        assert_int_equal(reactor_look(&r), 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_turn_may_take_long),
                cmocka_unit_test(test_buffers_come_again),
                cmocka_unit_test(test_the_bound_holds),
                cmocka_unit_test(test_a_quarter_is_for_those_who_have_none),
                cmocka_unit_test(test_a_host_has_half_and_an_address_five_eighths),
                cmocka_unit_test(test_a_reserve_of_small_ones),
                cmocka_unit_test(test_work_is_shared_by_the_queues_of_a_host),
                cmocka_unit_test(test_idle_pools_shrink),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
