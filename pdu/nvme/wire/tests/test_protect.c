/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection information: made, read, and checked as PRCHK and the type ask. */
#include "pdu/core/tests/check.h"

#include "pdu/core/crc16.h"
#include "pdu/nvme/wire/protect.h"

/* The check value of the CRC catalogues; pieces give the same as the whole. */
static void crc_is_that_of_t10_dif(void **state)
{
        (void)state;
        assert_int_equal(crc16_more(0, "123456789", 9), 0xd0db);
        assert_int_equal(crc16_more(crc16_more(0, "1234", 4), "56789", 5), 0xd0db);
        assert_int_equal(crc16_more(0, "\0\0\0", 3), 0);
        assert_int_equal(crc16_more(0x1234, "", 0), 0x1234);
}

static const struct pi_format formats[] = {
        { 0, 16, 0 }, { 1, 16, 0 }, { 2, 16, 0 }, { 3, 16, 0 }
};

/* Figures 150, 153 and 155 of NVM Command Set 1.2. */
static void wide_guards_are_those_of_the_specification(void **state)
{
        static const struct pi_format f32 = { 1, 32, 16 }, f64 = { 1, 64, 0 };
        static const struct {
                uint32_t guard_32;
                uint64_t guard_64;
        } rows[] = {
                { 0x98f94189, UINT64_C(0x6482d367eb22b64e) },
                { 0x25c1fe13, UINT64_C(0xc0ddba7302eca3ac) },
                { 0x9c71fe32, UINT64_C(0x3e729f5f6750449c) },
                { 0x214941a8, UINT64_C(0x9a2df64b8e9e517e) },
        };
        uint8_t block[4096];

        (void)state;
        assert_true(pi_crc(&f64, 0, "123456789", 9) == UINT64_C(0xae8b14860a799888));
        for (unsigned p = 0; p < COUNT(rows); p++) {
                for (unsigned i = 0; i < sizeof(block); i++)
                        block[i] = p == 0 ? 0 : p == 1 ? 0xff : (uint8_t)(p == 2 ? i : ~i);
                assert_int_equal(pi_crc(&f32, 0, block, sizeof(block)), rows[p].guard_32);
                assert_true(pi_crc(&f64, pi_crc(&f64, 0, block, 100), block + 100,
                                   sizeof(block) - 100) == rows[p].guard_64);
        }
}

static void tags_share_their_space(void **state)
{
        static const struct {
                struct pi_format f;
                struct pi_wide pi;
                uint8_t tuple[PI_LEN_WIDE];
        } rows[] = {
                { { 1, 16, 8 },
                  { .guard = 0x102, .app = 0x304, .storage = 5, .ref = 0x60708 },
                  { 1, 2, 3, 4, 5, 6, 7, 8 } },
                { { 1, 16, 32 },
                  { .guard = 0x102, .app = 0x304, .storage = 0x5060708 },
                  { 1, 2, 3, 4, 5, 6, 7, 8 } },
                { { 1, 32, 20 },
                  { .guard = 0x1020304,
                    .app = 0x506,
                    .storage = 0x78910,
                    .ref = UINT64_C(0xa0b0c0d0e0f01a) },
                  { 1, 2, 3, 4, 5, 6, 0x78, 0x91, 0x00, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0,
                    0x1a } },
                { { 1, 64, 18 },
                  { .guard = UINT64_C(0x102030405060708),
                    .app = 0x90a,
                    .storage = 0x2fffd,
                    .ref = 0x3fffffff },
                  { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0xbf, 0xff, 0x7f, 0xff, 0xff, 0xff } },
        };

        (void)state;
        for (unsigned i = 0; i < COUNT(rows); i++) {
                uint8_t tuple[PI_LEN_WIDE];
                struct pi_wide pi;

                assert_true(pi_is_format(&rows[i].f) && pi_is_extended(&rows[i].f));
                pi_wide_put(&rows[i].f, tuple, &rows[i].pi);
                assert_memory_equal(tuple, rows[i].tuple, pi_len(&rows[i].f));
                pi = pi_wide_get(&rows[i].f, tuple);
                assert_true(pi.guard == rows[i].pi.guard && pi.app == rows[i].pi.app &&
                            pi.storage == rows[i].pi.storage && pi.ref == rows[i].pi.ref);
        }
}

static void a_command_brings_both_tags(void **state)
{
        union sqe s = { .opc = NVME_READ };
        struct pi_use u;

        (void)state;
        s.cdw2 = le32(0xffff1234);
        s.cdw3 = le32(0x56789abc);
        s.cdw14 = le32(0xdef01234);
        s.cdw12 = le32(RW_STC);
        u = pi_use_of(&s, &(struct pi_format) { 1, 32, 16 });
        assert_true(u.stc && u.storage == 0x1234 && u.first == UINT64_C(0x56789abcdef01234));
        u = pi_use_of(&s, &(struct pi_format) { 1, 64, 18 });
        assert_true(u.storage == 0x26af3 && u.first == 0x1ef01234);
        u = pi_use_of(&s, &(struct pi_format) { 1, 16, 32 });
        assert_true(u.storage == 0xdef01234 && u.first == 0);
}

static void a_tuple_is_big_endian(void **state)
{
        static const uint8_t bytes[PI_LEN] = { 1, 2, 3, 4, 5, 6, 7, 8 };
        uint8_t again[PI_LEN];
        struct pi pi = pi_get(bytes);

        (void)state;
        assert_int_equal(pi.guard, 0x102);
        assert_int_equal(pi.app, 0x304);
        assert_int_equal(pi.ref, 0x5060708);
        pi_put(again, pi);
        assert_memory_equal(again, bytes, PI_LEN);
}

static void prinfo_and_tags_are_read(void **state)
{
        union sqe s = { .opc = NVME_COPY };
        struct copy_range range = { .elbt = le32(9), .elbat = le16(0x11), .elbatm = le16(0x22) };
        struct pi_use u;

        (void)state;
        s.cdw12 = le32(RW_PRACT | RW_PRCHK_APP | 5u << COPY_PRINFOR_SHIFT);
        s.cdw14 = le32(77);
        s.cdw15 = le32(0xff00abcd);
        u = pi_use_of(&s, &formats[1]);
        assert_true(u.act && u.app && !u.guard && !u.ref && !u.strict);
        assert_int_equal(u.first, 77);
        assert_int_equal(u.tag, 0xabcd);
        assert_int_equal(u.mask, 0xff00);
        u = pi_use_of_range(&s, &range, &formats[1]);
        assert_true(!u.act && !u.app && u.guard && u.ref);
        assert_true(pi_needs_crc(&u));
        assert_int_equal(u.first, 9);
        assert_int_equal(u.tag, 0x11);
        assert_int_equal(u.mask, 0x22);
}

static enum pi_result check(const struct pi_use *u, unsigned type, struct pi pi)
{
        uint8_t tuple[PI_LEN];

        pi_put(tuple, pi);
        return pi_check(u, &formats[type], tuple, 3, 0xc0de);
}

static const struct pi right = { 0xc0de, 0x1234, 103 };

static void what_is_asked_for_is_checked(void **state)
{
        static const struct {
                struct pi_use use;
                unsigned type;
                struct pi pi;
                uint16_t status;
        } rows[] = {
                { { .guard = true }, 1, { 0xc0de, 0, 0 }, PI_RIGHT },
                { { .guard = true }, 1, { 0xc0df, 0, 0 }, PI_GUARD_WRONG },
                { { .guard = false }, 1, { 0xc0df, 0, 0 }, PI_RIGHT },
                { { .app = true, .tag = 0x1234, .mask = 0xffff }, 2, { 0, 0x1234, 0 }, 0 },
                { { .app = true, .tag = 0x1234, .mask = 0xffff },
                  2,
                  { 0, 0x1235, 0 },
                  PI_APP_WRONG },
                { { .app = true, .tag = 0x1234, .mask = 0xfffe }, 2, { 0, 0x1235, 0 }, 0 },
                { { .app = false, .tag = 0x1234, .mask = 0xffff }, 2, { 0, 0x1235, 0 }, 0 },
                { { .ref = true, .first = 100 }, 1, { 0, 0, 103 }, 0 },
                { { .ref = true, .first = 100 }, 1, { 0, 0, 104 }, PI_REF_WRONG },
                { { .ref = true, .first = 100 }, 2, { 0, 0, 104 }, PI_REF_WRONG },
                { { .ref = true, .first = 100 }, 3, { 0, 0, 104 }, 0 },
                { { .ref = true, .first = UINT32_MAX }, 2, { 0, 0, 2 }, 0 },
                { { .guard = true, .ref = true }, 1, { 0, PI_NO_CHECK, 9 }, 0 },
                { { .guard = true, .ref = true }, 3, { 0, PI_NO_CHECK, 9 }, PI_GUARD_WRONG },
                { { .guard = true, .ref = true }, 3, { 0, PI_NO_CHECK, UINT32_MAX }, 0 },
                { { .guard = true, .strict = true }, 1, { 0, PI_NO_CHECK, 9 }, PI_GUARD_WRONG },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++)
                if (check(&rows[i].use, rows[i].type, rows[i].pi) != rows[i].status)
                        fail_msg("row %zu", i);
}

static void what_was_made_is_right(void **state)
{
        struct pi_use u = { .act = true,
                            .guard = true,
                            .app = true,
                            .ref = true,
                            .tag = 0x1234,
                            .mask = 0xffff,
                            .first = 100 };
        uint8_t tuple[PI_LEN], expected[PI_LEN];

        (void)state;
        pi_make(&formats[1], &u, 3, 0xc0de, tuple);
        pi_put(expected, right);
        assert_memory_equal(tuple, expected, PI_LEN);
        assert_int_equal(check(&u, 1, pi_get(tuple)), PI_RIGHT);
}

static void type_1_begins_with_the_address(void **state)
{
        struct pi_use u = { .ref = true, .first = 7 };

        (void)state;
        assert_int_equal(pi_admit(&u, &formats[1], 7), NVME_SUCCESS);
        assert_int_equal(pi_admit(&u, &formats[1], UINT64_C(0x500000007)), NVME_SUCCESS);
        assert_int_equal(pi_admit(&u, &formats[1], 8), NVME_INVALID_PROTECTION);
        assert_int_equal(pi_admit(&u, &formats[2], 8), NVME_SUCCESS);
        u.ref = false;
        assert_int_equal(pi_admit(&u, &formats[1], 8), NVME_SUCCESS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(crc_is_that_of_t10_dif),
                cmocka_unit_test(wide_guards_are_those_of_the_specification),
                cmocka_unit_test(tags_share_their_space),
                cmocka_unit_test(a_command_brings_both_tags),
                cmocka_unit_test(a_tuple_is_big_endian),
                cmocka_unit_test(prinfo_and_tags_are_read),
                cmocka_unit_test(what_is_asked_for_is_checked),
                cmocka_unit_test(what_was_made_is_right),
                cmocka_unit_test(type_1_begins_with_the_address),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
