/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include "pdu/core/le.h"

static void test_order(void **state)
{
        le16_t a = le16(0x0102);
        le32_t b = le32(0x01020304);
        le64_t c = le64(UINT64_C(0x0102030405060708));

        (void)state;
        assert_memory_equal(a.b, "\x02\x01", 2);
        assert_memory_equal(b.b, "\x04\x03\x02\x01", 4);
        assert_memory_equal(c.b, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
}

static void test_there_and_back(void **state)
{
        uint64_t seed = 4;

        (void)state;
        for (int i = 0; i < 1000; i++) {
                uint64_t v = random_next(&seed);
                uint8_t bytes[8];

                assert_int_equal(le16_get(le16((uint16_t)v)), (uint16_t)v);
                assert_int_equal(le32_get(le32((uint32_t)v)), (uint32_t)v);
                assert_true(le64_get(le64(v)) == v);
                for (unsigned n = 1; n <= 8; n++) {
                        le_put(bytes, n, v);
                        assert_true(le_get(bytes, n) ==
                                    (n < 8 ? v & ((UINT64_C(1) << 8 * n) - 1) : v));
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_there_and_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
