/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/message.h"

static void test_cut(void **state)
{
        char buf[8];
        struct text t = text_in(buf, sizeof(buf));

        (void)state;
        text_add(&t, "%s", "abc");
        text_add(&t, "%d", 12);
        assert_string_equal(buf, "abc12");
        text_add(&t, "%s", "defghi");
        assert_string_equal(buf, "abc12de");
        assert_int_equal(t.len, 7);
        text_add(&t, "%s", "more");
        assert_string_equal(buf, "abc12de");
}

static void test_padding(void **state)
{
        char field[8], copy[4];

        (void)state;
        text_pad(field, sizeof(field), "ab");
        assert_memory_equal(field, "ab      ", 8);
        assert_int_equal(text_len(field, sizeof(field)), 2);
        text_pad(field, sizeof(field), "abcdefghij");
        assert_memory_equal(field, "abcdefgh", 8);
        assert_int_equal(text_len(field, sizeof(field)), 8);
        text_copy(copy, sizeof(copy), field, sizeof(field));
        assert_string_equal(copy, "abc");
        text_fill(field, sizeof(field), "a b");
        assert_memory_equal(field, "a b\0\0\0\0\0", 8);
        text_copy(copy, sizeof(copy), field, sizeof(field));
        assert_string_equal(copy, "a b");
        assert_int_equal(text_len("     ", 5), 0);
        assert_int_equal(text_len("", 0), 0);
}

static void test_field_get_and_put(void **state)
{
        static const struct field whole = FIELD_AT("w", 1, 4),
                                  part = FIELD_AT("p", 1, 2, .shift = 3, .bits = 7),
                                  wide = FIELD_AT("q", 0, 8);
        uint8_t bytes[8];

        (void)state;
        memset(bytes, 0xff, sizeof(bytes));
        field_put(&whole, bytes, 0);
        assert_memory_equal(bytes, "\xff\0\0\0\0\xff\xff\xff", 8);
        field_put(&part, bytes, 0x7f);
        assert_memory_equal(bytes, "\xff\xf8\x03\0\0\xff\xff\xff", 8);
        assert_int_equal(field_get(&part, bytes), 0x7f);
        field_put(&part, bytes, 0x1ff); /* no more than its bits */
        assert_memory_equal(bytes, "\xff\xf8\x03\0\0\xff\xff\xff", 8);
        memset(bytes, 0xff, sizeof(bytes));
        field_put(&part, bytes, 1);
        assert_memory_equal(bytes, "\xff\x0f\xfc\xff\xff\xff\xff\xff", 8);
        field_put(&wide, bytes, UINT64_C(0x8000000000000001));
        assert_true(field_get(&wide, bytes) == UINT64_C(0x8000000000000001));
}

static const struct field kinds[] = {
        FIELD_AT("named", 0, 1, .words = WORDS({ 1, "one" })),
        FIELD_AT("unnamed", 1, 1, .words = WORDS({ 1, "one" })),
        FIELD_AT("bits", 2, 2, .kind = FIELD_BITS, .words = WORDS({ 1, "a" }, { 4, "c" })),
        FIELD_AT("count", 4, 2, .kind = FIELD_ZERO_BASED),
        FIELD_AT("string", 8, 8, .kind = FIELD_STRING),
        FIELD_AT("bytes", 16, 4, .kind = FIELD_BYTES),
        FIELD_AT("uuid", 16, 16, .kind = FIELD_UUID),
        FIELD_AT("long", 32, 16),
        FIELD_AT("longer", 48, 16),
        { 0 },
};

static void test_lines(void **state)
{
        uint8_t base[64] = { 1, 2, 0x0d, 0, 0xff, 0xff };
        char buf[1024];
        struct text_lines lines = { text_in(buf, sizeof(buf)), 0 };
        struct describe d = text_describer(&lines);

        (void)state;
        memcpy(base + 8, "a\tb\xff   ", 8);
        for (uint8_t i = 16; i < 32; i++)
                base[i] = i;
        base[39] = 0x80;
        base[48] = 7;
        base[56] = 1;
        describe_fields(&d, kinds, base);
        d.group(d.arg, "list[]");
        d.number(d.arg, "n", 5, 8, "five");
        d.group(d.arg, NULL);
        assert_string_equal(buf, "named        : 1 (one)\n"
                                 "unnamed      : 2\n"
                                 "bits         : 13 (a, c, 0x8)\n"
                                 "count        : 65535 (65536)\n"
                                 "string       : a\\x09b\\xff\n"
                                 "bytes        : 10111213\n"
                                 "uuid         : 10111213-1415-1617-1819-1a1b1c1d1e1f\n"
                                 "long         : 9223372036854775808\n"
                                 "longer       : 0x10000000000000007\n"
                                 "list\n"
                                 "  n            : 5 (five)\n");
}

/* --- nothing overruns ------------------------------------------------------------------------- */

enum { GUARD = 16 };

static void describe_any(char *buf, size_t cap, const union pdu *h, const void *data, size_t len)
{
        struct text line = text_in(buf, cap);
        struct text_lines lines;
        struct describe d = text_describer(&lines);

        pdu_line(&line, h, true);
        assert_true(line.len < cap && buf[line.len] == '\0');
        lines = (struct text_lines) { text_in(buf, cap), 0 };
        describe_pdu(&d, h, false, data, len);
        assert_true(lines.text.len < cap && buf[lines.text.len] == '\0');
        assert_int_equal(lines.depth, 0);
}

static void test_small_buffers(void **state)
{
        static char buf[4096 + GUARD];
        struct connect_data data;
        uint64_t seed = 5;
        union pdu h;

        (void)state;
        for (unsigned round = 0; round < 2000; round++) {
                size_t cap = round % 4 ? 1 + random_next(&seed) % 300 : 4096;

                random_fill(&seed, &h, sizeof(h));
                random_fill(&seed, &data, sizeof(data));
                h.ch.type = (uint8_t)(round % 14);
                if (round % 3 == 0) {
                        h.cmd.sqe.opc = NVME_FABRICS;
                        h.cmd.sqe.fctype &= 0xf;
                }
                memset(buf + cap, 0x5a, GUARD);
                describe_any(buf, cap, &h, &data, random_next(&seed) % (sizeof(data) + 1));
                for (int i = 0; i < GUARD; i++)
                        assert_int_equal(buf[cap + (size_t)i], 0x5a);
        }
}

static void test_pdu_description(void **state)
{
        union pdu h = { .cmd = { .ch = { .type = PDU_CAPSULE_CMD, .flags = PDU_DDGSTF },
                                 .sqe.connect = { .opc = NVME_FABRICS,
                                                  .fctype = FCTYPE_CONNECT,
                                                  .sqsize = le16(31) } } };
        struct connect_data c = { .subnqn = NQN_DISCOVERY };
        char buf[4096];
        struct text_lines lines = { text_in(buf, sizeof(buf)), 0 };
        struct describe d = text_describer(&lines);

        (void)state;
        describe_pdu(&d, &h, true, &c, sizeof(c));
        assert_non_null(strstr(buf, "type         : 4 (CapsuleCmd)\n"));
        assert_non_null(strstr(buf, "flags        : 2 (DDGSTF)\n"));
        assert_non_null(strstr(buf, "  fctype       : 1 (Connect)\n"));
        assert_non_null(strstr(buf, "  sqsize       : 31 (32)\n"));
        assert_non_null(strstr(buf, "connect\n"));
        assert_non_null(strstr(buf, "  subnqn       : " NQN_DISCOVERY "\n"));
        lines = (struct text_lines) { text_in(buf, sizeof(buf)), 0 };
        describe_pdu(&d, &h, true, &c, sizeof(c) - 1); /* cut: nothing is said of it */
        assert_null(strstr(buf, "connect\n"));
}

static void test_returned_header(void **state)
{
        union pdu h = { .term = { .ch = { .type = PDU_C2H_TERM }, .fes = le16(1) } };
        struct pdu_data bad = { .ch.type = PDU_H2C_DATA, .ttag = le16(77) };
        char buf[4096];
        struct text_lines lines = { text_in(buf, sizeof(buf)), 0 };
        struct describe d = text_describer(&lines);

        (void)state;
        describe_pdu(&d, &h, true, &bad, sizeof(bad));
        assert_non_null(strstr(buf, "fes          : 1 (Invalid PDU Header Field)\n"));
        assert_non_null(strstr(buf, "returned     : H2CData cccid 0 ttag 77 datao 0 datal 0\n"));
}

/* A command or response reads the same in a PDU and as a capsule of its own. */
static void assert_same(const struct message *pdu, const struct message *capsule, const char *part)
{
        char a[4096], b[4096];
        struct text_lines as = { .text = text_in(a, sizeof(a)) },
                          bs = { .text = text_in(b, sizeof(b)) };
        struct text one = text_in(a + 3072, 1024), other = text_in(b + 3072, 1024);
        struct describe da = text_describer(&as), db = text_describer(&bs);

        as.text.cap = bs.text.cap = 3072;
        describe_message(&da, pdu, true);
        describe_message(&db, capsule, true);
        assert_non_null(strstr(a, part));
        assert_string_equal(strstr(a, part), b);
        message_line(&one, pdu, true);
        message_line(&other, capsule, true);
        assert_string_equal(one.p, other.p);
        for (const struct field *f = pdu_fields(pdu->pdu.ch.type); f->name; f++) {
                const struct field *own = message_field(capsule, f->name);

                assert_ptr_equal(message_field(pdu, f->name), f);
                if (f->offset < sizeof(struct pdu_ch))
                        assert_null(own);
                else
                        assert_int_equal(field_get(own, &capsule->pdu), field_get(f, &pdu->pdu));
        }
}

static void test_messages(void **state)
{
        struct message cmd = { .kind = MESSAGE_PDU }, rsp = { .kind = MESSAGE_PDU };
        struct message sqe = { .kind = MESSAGE_COMMAND }, cqe = { .kind = MESSAGE_RESPONSE };
        struct message none = { 0 };
        char buf[8];
        struct text t = text_in(buf, sizeof(buf));

        (void)state;
        memset(&sqe.sqe, 0x5a, sizeof(sqe.sqe));
        sqe.sqe.opc = NVME_IDENTIFY;
        memset(&cqe.cqe, 0x5a, sizeof(cqe.cqe));
        cmd.pdu.cmd = (struct pdu_capsule_cmd) { .ch.type = PDU_CAPSULE_CMD, .sqe = sqe.sqe };
        rsp.pdu.resp = (struct pdu_capsule_resp) { .ch.type = PDU_CAPSULE_RESP, .cqe = cqe.cqe };
        assert_same(&cmd, &sqe, "sqe");
        assert_same(&rsp, &cqe, "cqe");
        assert_ptr_equal(message_cqe(&rsp), &rsp.pdu.resp.cqe);
        assert_ptr_equal(message_cqe(&cqe), &cqe.cqe);
        assert_null(message_cqe(&cmd));
        assert_null(message_cqe(&sqe));
        assert_false(message_is(&cqe, PDU_CAPSULE_RESP));
        assert_null(message_field(&none, "sqe.cid"));
        message_line(&t, &none, true);
        describe_message(&(struct describe) { 0 }, &none, true);
        assert_string_equal(buf, "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cut),
                cmocka_unit_test(test_padding),
                cmocka_unit_test(test_field_get_and_put),
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_small_buffers),
                cmocka_unit_test(test_pdu_description),
                cmocka_unit_test(test_returned_header),
                cmocka_unit_test(test_messages),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
