/* SPDX-License-Identifier: BSD-3-Clause */
/* "verbs blob, version 1", byte by byte, as doc/doca.md has it. */
#include "pdu/core/tests/check.h"

#include "pdu/doca/wire/blob.h"

static const uint8_t end_blob[DOCA_END_BLOB] = {
        'V',  'B',  'Q',  'P',  1,    0,    0,    3,    /* version, flags, MTU 1024 */
        0,    0x12, 0x34, 0x56, 0,    0x65, 0x43, 0x21, /* queue pair, PSN */
        0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac,
        0xad, 0xae, 0xaf, 0x7a, 0x7b, 16,   8,    7,    6,    0,    0, /* LID, READs in and out, retries */
};
static const uint8_t memory_blob[DOCA_MEMORY_BLOB] = {
        'V', 'B', 'M', 'R', 1, 3,    0, 0, 0,    0,    0x7f, 1,    2, 3, 4, 5,
        0,   0,   0,   0,   0, 0x10, 0, 0, 0x91, 0x92, 0x93, 0x94, 0, 0, 0, 0,
};

static void test_end(void **state)
{
        struct doca_end e;
        uint8_t p[DOCA_END_BLOB];

        (void)state;
        assert_true(doca_end_read((struct doca_bytes) { end_blob, sizeof(end_blob) }, &e));
        assert_int_equal(e.numbers.mtu, 1024);
        assert_int_equal(e.numbers.qpn, 0x123456);
        assert_int_equal(e.numbers.psn, 0x654321);
        assert_int_equal(e.numbers.gid[0], 0xa0);
        assert_int_equal(e.numbers.gid[15], 0xaf);
        assert_int_equal(e.numbers.lid, 0x7a7b);
        assert_int_equal(e.reads_in, 16);
        assert_int_equal(e.reads_out, 8);
        assert_int_equal(e.rnr_retry, 7);
        assert_int_equal(e.retry, 6);
        doca_end_write(&e, p);
        assert_memory_equal(p, end_blob, sizeof(p));
}

static void test_memory(void **state)
{
        struct doca_memory m;
        uint8_t p[DOCA_MEMORY_BLOB];

        (void)state;
        assert_true(doca_memory_read((struct doca_bytes) { memory_blob, sizeof(memory_blob) }, &m));
        assert_int_equal(m.base, UINT64_C(0x00007f0102030405));
        assert_int_equal(m.len, 0x100000);
        assert_int_equal(m.rkey, 0x91929394);
        assert_int_equal(m.access, VERBS_REMOTE_READ | VERBS_REMOTE_WRITE);
        doca_memory_write(&m, p);
        assert_memory_equal(p, memory_blob, sizeof(p));
}

/* Whatever else stands there is somebody else's. */
static void test_foreign(void **state)
{
        static const struct {
                unsigned at;
                uint8_t value;
        } ends[] = { { 0, 'X' }, { 4, 2 }, { 7, 0 }, { 7, 6 }, { 8, 1 }, { 12, 1 } },
          memories[] = { { 3, 'X' }, { 4, 2 } };
        struct doca_memory m;
        struct doca_end e;
        uint8_t p[DOCA_END_BLOB];

        (void)state;
        for (unsigned i = 0; i < COUNT(ends); i++) {
                memcpy(p, end_blob, sizeof(end_blob));
                p[ends[i].at] = ends[i].value;
                assert_false(doca_end_read((struct doca_bytes) { p, sizeof(end_blob) }, &e));
        }
        for (unsigned i = 0; i < COUNT(memories); i++) {
                memcpy(p, memory_blob, sizeof(memory_blob));
                p[memories[i].at] = memories[i].value;
                assert_false(doca_memory_read((struct doca_bytes) { p, sizeof(memory_blob) }, &m));
        }
        assert_false(doca_end_read((struct doca_bytes) { end_blob, sizeof(end_blob) - 1 }, &e));
        assert_false(doca_end_read((struct doca_bytes) { NULL, 0 }, &e));
        assert_false(doca_memory_read((struct doca_bytes) { memory_blob, 31 }, &m));
        memcpy(p, memory_blob, sizeof(memory_blob)); /* beyond the last address */
        memset(p + 8, 0xff, 8);
        assert_false(doca_memory_read((struct doca_bytes) { p, sizeof(memory_blob) }, &m));
}

static void test_mtus(void **state)
{
        static const struct {
                uint16_t said, read;
        } mtus[] = { { 0, 256 }, { 256, 256 }, { 1500, 1024 }, { 4096, 4096 }, { 9000, 4096 } };

        (void)state;
        for (unsigned i = 0; i < COUNT(mtus); i++) {
                struct doca_end e = { .numbers.mtu = mtus[i].said }, back;
                uint8_t p[DOCA_END_BLOB];

                doca_end_write(&e, p);
                assert_true(doca_end_read((struct doca_bytes) { p, sizeof(p) }, &back));
                assert_int_equal(back.numbers.mtu, mtus[i].read);
        }
}

/* The layout of doc/doca.md. */
static void test_cm(void **state)
{
        static const uint8_t bytes[DOCA_END_BLOB] = { 'V',  'B',  'C', 'M', 1, 0,  0x11, 0x46, 0,
                                                      0,    0,    0,   0,   0, 0,  0,    0,    0,
                                                      0xff, 0xff, 192, 0,   2, 7,  1,    2,    3,
                                                      4,    5,    6,   7,   8, 16, 1 };
        uint8_t p[DOCA_END_BLOB], data[DOCA_CM_DATA + 3] = { 0 };
        struct doca_end e;
        uint64_t cookie;

        (void)state;
        assert_true(doca_end_read((struct doca_bytes) { bytes, sizeof(bytes) }, &e));
        assert_true(e.by_cm);
        assert_int_equal(e.port, 4422);
        assert_int_equal(e.cookie, 0x0102030405060708);
        assert_int_equal(e.reads_in, 16);
        assert_int_equal(e.reads_out, 1);
        doca_end_write(&e, p);
        assert_memory_equal(p, bytes, sizeof(p));
        memcpy(p, bytes, sizeof(p));
        p[6] = p[7] = 0; /* a port that is none */
        assert_false(doca_end_read((struct doca_bytes) { p, sizeof(p) }, &e));
        doca_cm_write(e.cookie, data);
        assert_memory_equal(data, "VBCM\1\2\3\4\5\6\7\10", DOCA_CM_DATA);
        assert_true(doca_cm_read(data, sizeof(data), &cookie));
        assert_int_equal(cookie, 0x0102030405060708);
        assert_false(doca_cm_read(data, DOCA_CM_DATA - 1, &cookie));
        data[3] = 'X';
        assert_false(doca_cm_read(data, sizeof(data), &cookie));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cm),     cmocka_unit_test(test_end),
                cmocka_unit_test(test_memory), cmocka_unit_test(test_foreign),
                cmocka_unit_test(test_mtus),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
