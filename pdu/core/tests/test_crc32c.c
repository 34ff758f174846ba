/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>

#include "pdu/core/crc32c.h"

#define impl_each(i)                                                                               \
        for (enum crc32c_impl i = CRC32C_ISAL; (i) < CRC32C_IMPLS; (i)++)                          \
                if (crc32c_has(i))

/* RFC 3720 appendix B.4, and the check value of the CRC catalogues. */
static void test_vectors(void **state)
{
        uint8_t zeroes[32] = { 0 }, ones[32], rising[32], falling[32];
        const struct {
                const void *data;
                size_t len;
                uint32_t crc;
        } vectors[] = {
                { zeroes, 32, 0x8a9136aa },     { ones, 32, 0x62a8ab43 },
                { rising, 32, 0x46dd794e },     { falling, 32, 0x113fdb5c },
                { "123456789", 9, 0xe3069283 }, { "", 0, 0 },
        };

        (void)state;
        memset(ones, 0xff, sizeof(ones));
        for (uint8_t i = 0; i < 32; i++) {
                rising[i] = i;
                falling[31 - i] = i;
        }
        for (size_t v = 0; v < COUNT(vectors); v++) {
                assert_int_equal(crc32c(vectors[v].data, vectors[v].len), vectors[v].crc);
                impl_each(i) assert_int_equal(crc32c_with(i, 0, vectors[v].data, vectors[v].len),
                                              vectors[v].crc);
        }
}

static uint32_t bitwise(const uint8_t *p, size_t n)
{
        uint32_t reg = 0xffffffff;

        for (; n-- > 0; p++) {
                reg ^= *p;
                for (int bit = 0; bit < 8; bit++)
                        reg = reg >> 1 ^ (reg & 1 ? 0x82f63b78 : 0);
        }
        return ~reg;
}

static void test_any_place_and_length(void **state)
{
        static uint8_t data[512 + 16];
        uint64_t seed = 1;

        (void)state;
        random_fill(&seed, data, sizeof(data));
        for (size_t at = 0; at < 16; at++)
                for (size_t len = 0; len <= 512; len += len < 70 ? 1 : 61)
                        impl_each(i) assert_int_equal(crc32c_with(i, 0, data + at, len),
                                                      bitwise(data + at, len));
}

static void test_splits(void **state)
{
        static uint8_t data[4096];
        uint64_t seed = 2;
        uint32_t whole;

        (void)state;
        random_fill(&seed, data, sizeof(data));
        whole = bitwise(data, sizeof(data));
        for (int round = 0; round < 300; round++) {
                size_t a = random_next(&seed) % (sizeof(data) + 1);
                size_t b = a + random_next(&seed) % (sizeof(data) - a + 1);

                impl_each(i)
                {
                        uint32_t crc = crc32c_with(i, 0, data, a);

                        crc = crc32c_with(i, crc, data + a, b - a);
                        assert_int_equal(crc32c_with(i, crc, data + b, sizeof(data) - b), whole);
                }
                assert_int_equal(crc32c_more(crc32c(data, a), data + a, sizeof(data) - a), whole);
        }
}

static void test_choice(void **state)
{
        (void)state;
        assert_true(crc32c_has(CRC32C_TABLE));
        for (enum crc32c_impl i = CRC32C_ISAL; i < CRC32C_IMPLS; i++)
                printf("%s: %s\n", crc32c_name(i), crc32c_has(i) ? "yes" : "no");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_vectors),
                cmocka_unit_test(test_any_place_and_length),
                cmocka_unit_test(test_splits),
                cmocka_unit_test(test_choice),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
