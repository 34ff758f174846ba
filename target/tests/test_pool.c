/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "target/pool.h"

static void test_buffers_come_again(void **state)
{
        struct pool p;
        uint8_t *a, *b;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        a = pool_get(&p, 5000, 0);
        assert_non_null(a);
        assert_int_equal((uintptr_t)a % 64, 0);
        assert_int_equal(p.bytes, 8192);
        memset(a, 0xff, 5000);
        b = pool_get(&p, 1, 0);
        assert_int_equal(p.bytes, 8192 + 4096);
        pool_put(&p, a, 5000);
        assert_ptr_equal(pool_get(&p, 8192, 0), a); /* of the same class */
        pool_put(&p, a, 8192);
        pool_put(&p, b, 1);
        pool_fini(&p);
        assert_int_equal(p.bytes, 0);
}

static void test_the_bound_holds(void **state)
{
        struct pool p;
        uint8_t *b[16];

        (void)state;
        pool_init(&p, 65536, NULL, NULL);
        for (unsigned i = 0; i < 16; i++)
                b[i] = pool_get(&p, 4096, 0);
        assert_null(pool_get(&p, 4096, 0));
        pool_put(&p, b[0], 4096);
        assert_null(pool_get(&p, 8192, 0)); /* what is free does not suffice */
        pool_put(&p, b[1], 4096);
        b[0] = pool_get(&p, 8192, 0); /* two free ones of another class make room */
        assert_non_null(b[0]);
        assert_int_equal(p.bytes, 65536);
        pool_put(&p, b[0], 8192);
        for (unsigned i = 2; i < 16; i++)
                pool_put(&p, b[i], 4096);
        pool_fini(&p);
}

static void test_a_quarter_is_for_those_who_have_none(void **state)
{
        struct pool p;
        uint8_t *b[16], *last;

        (void)state;
        pool_init(&p, 65536, NULL, NULL);
        for (unsigned i = 0; i < 12; i++)
                b[i] = pool_get(&p, 4096, i);
        assert_non_null(b[11]);
        assert_null(pool_get(&p, 4096, 12));
        last = pool_get(&p, 16384, 0);
        assert_non_null(last);
        pool_put(&p, last, 16384);
        pool_put(&p, b[0], 4096);
        b[0] = pool_get(&p, 4096, 11);
        assert_non_null(b[0]);
        for (unsigned i = 0; i < 12; i++)
                pool_put(&p, b[i], 4096);
        assert_int_equal(p.lent, 0);
        pool_fini(&p);
}

static void test_idle_pools_shrink(void **state)
{
        struct pool p;
        uint8_t *a;

        (void)state;
        pool_init(&p, 65536, NULL, NULL);
        a = pool_get(&p, 4096, 0);
        pool_put(&p, pool_get(&p, 4096, 0), 4096);
        pool_trim(&p); /* it was used since */
        assert_int_equal(p.bytes, 8192);
        pool_trim(&p);
        assert_int_equal(p.bytes, 4096); /* lent ones stay */
        pool_put(&p, a, 4096);
        pool_trim(&p);
        assert_int_equal(p.bytes, 0);
        pool_fini(&p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_buffers_come_again),
                cmocka_unit_test(test_the_bound_holds),
                cmocka_unit_test(test_a_quarter_is_for_those_who_have_none),
                cmocka_unit_test(test_idle_pools_shrink),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
