/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/engine/pattern.h"

enum { LEN = 8 * PATTERN_UNIT, PLACE = 1000, GENERATION = 3, SEED = 42 };

static uint8_t buf[LEN];
static struct pattern_diff diff;

static int fill(void **state)
{
        (void)state;
        pattern_fill(buf, LEN, PLACE, GENERATION, SEED);
        return 0;
}

static bool check(void)
{
        return pattern_check(buf, LEN, PLACE, GENERATION, SEED, &diff);
}

static const char *explained(void)
{
        static char line[256];

        pattern_explain(&diff, PLACE + diff.offset / PATTERN_UNIT, GENERATION, SEED, line,
                        sizeof(line));
        return line;
}

static void holds_what_was_filled(void **state)
{
        (void)state;
        assert_true(check());
        assert_true(
            pattern_check(buf + PATTERN_UNIT, PATTERN_UNIT, PLACE + 1, GENERATION, SEED, &diff));
}

static void every_flipped_bit_is_found_where_it_is(void **state)
{
        (void)state;
        for (size_t i = 0; i < LEN; i += 37) {
                buf[i] ^= 0x10;
                assert_false(check());
                assert_int_equal(diff.offset, i);
                assert_int_equal(diff.seen ^ diff.expected, 0x10);
                buf[i] ^= 0x10;
        }
        assert_true(check());
}

static void a_stale_unit_is_called_stale(void **state)
{
        (void)state;
        pattern_fill(buf + PATTERN_UNIT, PATTERN_UNIT, PLACE + 1, GENERATION - 1, SEED);
        assert_false(check());
        assert_true(diff.marked && !diff.torn);
        assert_int_equal(diff.generation, GENERATION - 1);
        assert_non_null(strstr(explained(), "stale"));
}

static void a_misplaced_unit_says_whence_it_came(void **state)
{
        (void)state;
        memcpy(buf, buf + 2 * PATTERN_UNIT, PATTERN_UNIT);
        assert_false(check());
        assert_int_equal(diff.place, PLACE + 2);
        assert_non_null(strstr(explained(), "wrong place"));
}

static void a_mix_of_two_generations_is_torn(void **state)
{
        uint8_t old[PATTERN_UNIT];

        (void)state;
        pattern_fill(old, sizeof(old), PLACE, GENERATION - 1, SEED);
        memcpy(buf + 256, old + 256, 256);
        assert_false(check());
        assert_true(diff.torn);
        assert_true(diff.offset >= 256);
        assert_non_null(strstr(explained(), "torn"));
}

static void foreign_data_is_told_apart(void **state)
{
        (void)state;
        memset(buf, 0, PATTERN_UNIT);
        assert_false(check());
        assert_false(diff.marked);
        assert_non_null(strstr(explained(), "not written by this program"));
        pattern_fill(buf, PATTERN_UNIT, PLACE, GENERATION, SEED + 1);
        assert_false(check());
        assert_non_null(strstr(explained(), "another run"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(holds_what_was_filled, fill),
                cmocka_unit_test_setup(every_flipped_bit_is_found_where_it_is, fill),
                cmocka_unit_test_setup(a_stale_unit_is_called_stale, fill),
                cmocka_unit_test_setup(a_misplaced_unit_says_whence_it_came, fill),
                cmocka_unit_test_setup(a_mix_of_two_generations_is_torn, fill),
                cmocka_unit_test_setup(foreign_data_is_told_apart, fill),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
