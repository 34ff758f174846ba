/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/engine/histogram.h"
#include "host/engine/random.h"

static struct histogram h;

static int clear(void **state)
{
        (void)state;
        h = (struct histogram) { 0 };
        return 0;
}

static void empty_says_zero(void **state)
{
        (void)state;
        assert_int_equal(histogram_percentile(&h, 99), 0);
        assert_true(histogram_mean(&h) == 0);
}

static void small_values_are_exact(void **state)
{
        (void)state;
        for (uint64_t v = 1; v <= 100; v++)
                histogram_add(&h, v);
        assert_int_equal(histogram_percentile(&h, 50), 50);
        assert_int_equal(histogram_percentile(&h, 99), 99);
        assert_int_equal(histogram_percentile(&h, 100), 100);
        assert_int_equal(h.min, 1);
        assert_true(histogram_mean(&h) == 50.5);
}

static void buckets_are_in_order_and_touch(void **state)
{
        unsigned last = 0;

        (void)state;
        for (uint64_t v = 0; v < UINT64_C(1) << 41; v += 1 + v / 100) {
                unsigned i = histogram_index(v);

                assert_true(i >= last && i < HISTOGRAM_BUCKETS);
                last = i;
        }
        assert_int_equal(last, HISTOGRAM_BUCKETS - 1);
        for (unsigned shift = 6; shift < HISTOGRAM_BITS; shift++)
                assert_int_equal(histogram_index(UINT64_C(1) << shift),
                                 histogram_index((UINT64_C(1) << shift) - 1) + 1);
}

static void percentiles_are_within_a_64th(void **state)
{
        (void)state;
        for (uint64_t v = 1; v <= 1000000; v++)
                histogram_add(&h, v);
        for (unsigned p = 1; p < 100; p++) {
                uint64_t exact = p * 10000, got = histogram_percentile(&h, p);

                assert_true(got >= exact && got <= exact + exact / 64 + 1);
        }
}

static void never_above_the_largest(void **state)
{
        (void)state;
        histogram_add(&h, 1000001);
        assert_int_equal(histogram_percentile(&h, 50), 1000001);
        histogram_add(&h, UINT64_MAX);
        assert_true(histogram_percentile(&h, 100) == UINT64_MAX);
}

static void merged_is_as_though_counted_together(void **state)
{
        static struct histogram a, b, all;
        uint64_t random = 7;

        (void)state;
        for (int i = 0; i < 10000; i++) {
                uint64_t v = random_below(&random, UINT64_C(1) << (i % 35));

                histogram_add(&all, v);
                histogram_add(i % 3 ? &a : &b, v);
        }
        histogram_merge(&h, &a);
        histogram_merge(&h, &b);
        assert_memory_equal(&h, &all, sizeof(h));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(empty_says_zero, clear),
                cmocka_unit_test_setup(small_values_are_exact, clear),
                cmocka_unit_test_setup(buckets_are_in_order_and_touch, clear),
                cmocka_unit_test_setup(percentiles_are_within_a_64th, clear),
                cmocka_unit_test_setup(never_above_the_largest, clear),
                cmocka_unit_test_setup(merged_is_as_though_counted_together, clear),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
