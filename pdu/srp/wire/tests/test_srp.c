/* SPDX-License-Identifier: BSD-3-Clause */
/* IUs byte by byte: each field stands where the layout has it, and nothing is read that is not there. */
#include "pdu/core/tests/check.h"

#include <stdlib.h>

#include "pdu/srp/wire/srp.h"

/* Each field has bytes of its own, so that a wrong offset shows. */
static const uint8_t login_req[64] = {
        0x00, 0,    0,    0,    0,    0,    0,    0,    1,    2,    3,
        4,    5,    6,    7,    8,                   /* opcode, tag */
        0x00, 0x00, 0x20, 0x44, 0,    0,    0,    0, /* REQ IT IU LEN 8260 */
        0x00, 0x06, 0xd1, 0,    0x00, 0x50, 0,    0, /* formats, flags, immediate at 80 */
        0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa,
        0xab, 0xac, 0xad, 0xae, 0xaf, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5,
        0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf,
};
static const uint8_t login_req_cm[56] = {
        1,    2,    3,    4,    5,    6,    7,    8,    0x00, 0x06, 0xd1, 0x00, 0x00, 0x00,
        0x20, 0x44, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab,
        0xac, 0xad, 0xae, 0xaf, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9,
        0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0x00, 0x50, 0,    0,    0,    0,    0,    0,
};
static const uint8_t login_rsp[52] = {
        0xc0, 0,    0,    0,    0x00, 0x00, 0x00, 0x3f, 1,    2,    3,
        4,    5,    6,    7,    8,                                        /* delta 63, tag */
        0x00, 0x00, 0x20, 0x44, 0x00, 0x00, 0x01, 0x04, 0x00, 0x06, 0x92, /* 8260, 260, 6, flags */
};
static const uint8_t login_rej[32] = {
        0xc2, 0, 0, 0, 0x00, 0x01, 0x00, 0x03, 1, 2, 3, 4,    5,
        6,    7, 8, 0, 0,    0,    0,    0,    0, 0, 0, 0x00, 0x06,
};
static const uint8_t tsk_mgmt[48] = {
        0x01, 0x06, 0, 0, 0, 0, 0, 0, 1, 2, 3,    4, 5,    6,    7,    8,    0,    0,    0,    0,
        0x00, 0x05, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
};
static const uint8_t i_logout[16] = { 0x03, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8 };
static const uint8_t t_logout[16] = { 0x80, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8 };
static const uint8_t cred_req[16] = {
        0x81, 1, 0, 0, 0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8
};
static const uint8_t cred_rsp[16] = { 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8 };
static const uint8_t aer_rsp[16] = { 0x42, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8 };
static const uint8_t aer_req[38] = {
        0x82, 1,    0,    0, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0,    0,
        0,    0x40, 0x05, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0x70, 0x06,
};
/* response data 0, sense 70h 02h */
static const uint8_t rsp[42] = {
        0xc1, 1,    0,    0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x2b, 0x02, 0,
        0,    0x10, 0x01, 0, 0,    0x20, 0x02, 0,    0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 5,    0x70, 0x02,
};
/* a CDB of 20 bytes, direct data-out, an indirect data-in of three entries of which two are here */
static const uint8_t cmd[48 + 4 + 16 + 20 + 32] = {
        0x02, 0x04, 0,    0,    0,    0x12, 0,    2,    1, 2, 3, 4,    5, 6,    7,    8,
        0,    0,    0,    0,    0x00, 0x05, 0,    0,    0, 0, 0, 0,    0, 0x02, 0,    0x04,
        0x28, 0,    0,    0,    0,    9,    0,    0,    8, 0, 0, 0,    0, 0,    0,    0,
        0xc0, 0xc1, 0xc2, 0xc3, /* additional CDB */
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0, 0, 0, 0x11, 0, 0,    2,    0, /* 512 */
        0,    0,    0,    0,    0,    0,    0x20, 0,    0, 0, 0, 0x22, 0, 0,    0,    48,
        0,    0,    0x30, 0, /* table, total */
        0,    0,    0,    0,    0,    0,    0x30, 0,    0, 0, 0, 0x33, 0, 0,    0x10, 0,
        0,    0,    0,    0,    0,    0,    0x40, 0,    0, 0, 0, 0x34, 0, 0,    0x10, 0,
};

static const struct sample {
        const uint8_t *p;
        uint32_t n;
        const char *line;
        const char *has[4]; /* in its fields */
} samples[] = {
        /* clang-format off */
        { login_req, sizeof(login_req), "SRP_LOGIN_REQ tag 102030405060708h req_it_iu_len 8260 req_buf_fmt 6h req_flags D1h",
          { "initiator_port_id : a0a1a2a3", "target_port_id : b0b1b2b3", "imm_data_offset : 80", "LOSOLNT, AESOLNT, immediate data" } },
        { login_rsp, sizeof(login_rsp), "SRP_LOGIN_RSP tag 102030405060708h req_lim_delta 63 max_it_iu_len 8260 max_ti_iu_len 260 rsp_flags 92h",
          { "buf_fmt      : 6 (direct, indirect)", "channels maintained, SOLNTSUP, immediate data" } },
        { login_rej, sizeof(login_rej), "SRP_LOGIN_REJ tag 102030405060708h reason 10003h (cannot associate with the nexus)",
          { "reason       : 65539 (cannot associate" } },
        { tsk_mgmt, sizeof(tsk_mgmt), "SRP_TSK_MGMT tag 102030405060708h function logical unit reset lun 5",
          { "task_tag     : 1112131415161718", "SCSOLNT, UCSOLNT" } },
        { i_logout, sizeof(i_logout), "SRP_I_LOGOUT tag 102030405060708h", { "iu           : SRP_I_LOGOUT" } },
        { t_logout, sizeof(t_logout), "SRP_T_LOGOUT tag 102030405060708h reason multi-channel action of a new login", { "SOLNT" } },
        { cred_req, sizeof(cred_req), "SRP_CRED_REQ tag 102030405060708h req_lim_delta -2", { "req_lim_delta : 4294967294" } },
        { cred_rsp, sizeof(cred_rsp), "SRP_CRED_RSP tag 102030405060708h", { "tag          : 0102030405060708" } },
        { aer_rsp, sizeof(aer_rsp), "SRP_AER_RSP tag 102030405060708h", { "opcode       : 66" } },
        { aer_req, sizeof(aer_req), "SRP_AER_REQ tag 102030405060708h req_lim_delta 2", { "sense        : 7006", "lun          : 4005" } },
        { rsp, sizeof(rsp), "SRP_RSP tag 102030405060708h req_lim_delta -1 status CHECK CONDITION out 4097 under in 8194 under response code 5 sense 2",
          { "sense        : 7002", "response     : 00000005", "out_residual : 4097", "RSPVALID, SNSVALID, DOUNDER, DIUNDER" } },
        { cmd, sizeof(cmd), "SRP_CMD tag 102030405060708h lun 5 READ(10) out 512 direct in 12288 indirect, 2 of 3 entries in line",
          { "add_cdb      : c0c1c2c3", "attr         : 2 (ordered)", "format       : indirect", "addr         : 72623859790382856" } },
        /* clang-format on */
};

static char text[8192];

static const char *line_of(const void *p, uint32_t n, uint32_t imm_at)
{
        struct text t = text_in(text, sizeof(text));

        srp_line(&t, p, n, imm_at);
        return text;
}

static const char *fields_of(const void *p, uint32_t n, uint32_t imm_at)
{
        struct text_lines lines = { .text = text_in(text, sizeof(text)) };
        struct describe d = text_describer(&lines);

        srp_describe(&d, p, n, imm_at);
        assert_int_equal(lines.depth, 0);
        return text;
}

static struct rule_set checked(const void *p, uint32_t n, enum party sender, uint32_t imm_at)
{
        struct rule_set found = { 0 };

        srp_check(p, n, sender, imm_at, &found);
        return found;
}

static void assert_finds(const void *p, uint32_t n, enum party sender, uint32_t imm_at,
                         unsigned rule)
{
        struct rule_set found = checked(p, n, sender, imm_at);

        rule_each_in (&found, id)
                if (id != rule)
                        fail_msg("%s is found", srp_rule_get(id)->id);
        if (rule && !rule_in(&found, rule))
                fail_msg("%s is not found", srp_rule_get(rule)->id);
}

/* --- each IU ---------------------------------------------------------------------------------- */

static void test_words(void **state)
{
        (void)state;
        assert_int_equal(COUNT(samples), 12);
        for (size_t i = 0; i < COUNT(samples); i++) {
                const struct sample *s = &samples[i];

                assert_string_equal(line_of(s->p, s->n, 0), s->line);
                (void)fields_of(s->p, s->n, 0);
                for (int j = 0; j < 4 && s->has[j]; j++)
                        if (!strstr(text, s->has[j]))
                                fail_msg("no '%s' in\n%s", s->has[j], text);
        }
}

static void test_correct_ones_break_nothing(void **state)
{
        (void)state;
        for (size_t i = 0; i < COUNT(samples); i++)
                assert_finds(samples[i].p, samples[i].n, srp_info(samples[i].p[0])->sender, 0,
                             RULE_NONE);
}

static void test_round_trips(void **state)
{
        uint8_t again[64];
        union srp_iu iu;

        (void)state;
        for (size_t i = 0; i < COUNT(samples); i++) {
                const struct srp_info *info = srp_info(samples[i].p[0]);

                assert_non_null(info);
                assert_int_equal(info->type, samples[i].p[0]);
                assert_true(srp_read(samples[i].p, samples[i].n, &iu));
                assert_int_equal(srp_write(&iu, again, info->len), info->len);
                assert_memory_equal(again, samples[i].p, info->len);
                assert_int_equal(srp_write(&iu, again, info->len - 1u), 0);
                assert_false(srp_read(samples[i].p, info->len - 1u, &iu));
                assert_true(info->has_more || info->len == samples[i].n);
        }
        assert_int_equal(srp_write(&(union srp_iu) { .opcode = 0x7f }, again, 64), 0);
        assert_false(srp_read("\x7f", 1, &iu));
        assert_false(srp_read(NULL, 0, &iu));
}

/* Each field of each table, set alone: what is in the bytes is in the field, and nothing else moves. */
static void test_fields_are_apart(void **state)
{
        (void)state;
        for (unsigned i = 0; srp_info_at(i); i++)
                for (const struct field *f = srp_info_at(i)->fields; f->name; f++) {
                        uint8_t p[64] = { 0 };
                        uint64_t v =
                            0x0102030405060708 & (f->size < 8 ? (1ull << 8 * f->size) - 1 : ~0ull);

                        assert_true(f->offset + f->size <= srp_info_at(i)->len);
                        if (f->size > 8)
                                continue;
                        field_put(f, p, v);
                        assert_int_equal(field_get(f, p), v);
                        for (unsigned j = 0; j < 64; j++)
                                assert_true(p[j] == 0 ||
                                            (j >= f->offset && j < f->offset + f->size));
                        if (f->big)
                                assert_int_equal(p[f->offset + f->size - 1u], v & 255);
                }
}

static void test_types(void **state)
{
        unsigned n = 0;

        (void)state;
        for (unsigned i = 0; i < 256; i++)
                n += srp_info((uint8_t)i) != NULL;
        assert_int_equal(n, 12);
        assert_null(srp_info_at(12));
        assert_true(srp_info(SRP_CMD)->request && srp_info(SRP_TSK_MGMT)->request);
        assert_false(srp_info(SRP_CRED_RSP)->request || srp_info(SRP_I_LOGOUT)->request);
        assert_true(srp_info(SRP_RSP)->grants && srp_info(SRP_AER_REQ)->grants);
}

/* --- logging in ------------------------------------------------------------------------------- */

static void test_the_two_forms_of_a_login(void **state)
{
        struct srp_login_req r, native;
        struct srp_login_req_cm cm;

        (void)state;
        assert_true(srp_login_read(login_req_cm, 56, false, &r));
        assert_true(srp_login_read(login_req, 64, true, &native));
        assert_memory_equal(&r, login_req, 64);
        assert_memory_equal(&native, login_req, 64);
        cm = srp_login_to_cm(&r);
        assert_memory_equal(&cm, login_req_cm, 56);
        assert_true(srp_login_read(login_req_cm, 48, false, &r)); /* without what Linux has added */
        assert_int_equal(be16_get(r.imm_data_offset), 0);
        assert_false(srp_login_read(login_req_cm, 47, false, &r));
        assert_false(srp_login_read(login_req, 63, true, &r));
        assert_false(srp_login_read(NULL, 0, false, &r));
        assert_false(srp_login_read(NULL, 0, true, &r));
}

static void test_what_is_a_login_beyond_doubt(void **state)
{
        static const struct {
                uint8_t at, value;
        } spoils[] = { { 9, 0 }, { 11, 2 }, { 12, 1 } };
        uint8_t p[56];

        (void)state;
        assert_true(srp_login_likely(login_req_cm, 56));
        assert_false(srp_login_likely(login_req_cm, 47));
        for (size_t i = 0; i < COUNT(spoils); i++) {
                memcpy(p, login_req_cm, sizeof(p));
                p[spoils[i].at] = spoils[i].value;
                assert_false(srp_login_likely(p, sizeof(p)));
        }
        memcpy(p, login_req_cm, sizeof(p));
        memset(p + 14, 0, 2); /* no length */
        assert_false(srp_login_likely(p, sizeof(p)));
        memcpy(p, login_req_cm, sizeof(p));
        memset(p + 16, 0, 16); /* an initiator without a name */
        assert_false(srp_login_likely(p, sizeof(p)));
        memcpy(p, login_req_cm, sizeof(p));
        memset(p + 32, 0, 16); /* a target without one */
        assert_true(srp_login_likely(p, sizeof(p)));
        p[8] = 1; /* ... and another format */
        assert_false(srp_login_likely(p, sizeof(p)));
}

static void test_reasons(void **state)
{
        (void)state;
        assert_string_equal(srp_reject_name(SRP_REJECT_FIRST), "no reason");
        assert_string_equal(srp_reject_name(SRP_REJECT_CHANNELS), "channel limit reached");
        assert_string_equal(srp_reject_name(0), "reserved");
        assert_string_equal(srp_reject_name(SRP_REJECT_LAST + 1), "reserved");
        assert_string_equal(srp_command_name(0x88), "READ(16)");
        assert_null(srp_command_name(0xff));
}

/* --- parts ------------------------------------------------------------------------------------ */

static void test_parts_of_a_command(void **state)
{
        struct rule_set found = { 0 };
        struct srp_cmd_parts parts;
        struct srp_desc entry;

        (void)state;
        assert_true(srp_cmd_read(cmd, sizeof(cmd), 0, &parts, &found));
        assert_true(rule_set_empty(&found));
        assert_int_equal(parts.add_cdb_at, 48);
        assert_int_equal(parts.add_cdb_len, 4);
        assert_int_equal(parts.out.format, SRP_DIRECT);
        assert_int_equal(parts.out.at, 52);
        assert_int_equal(parts.out.size, 16);
        assert_int_equal(parts.out.desc.addr, 0x0102030405060708);
        assert_int_equal(parts.out.desc.key, 0x11);
        assert_int_equal(parts.out.len, 512);
        assert_int_equal(parts.in.format, SRP_INDIRECT);
        assert_int_equal(parts.in.at, 68);
        assert_int_equal(parts.in.size, 52);
        assert_int_equal(parts.in.desc.len, 48);
        assert_int_equal(parts.in.len, 12288);
        assert_int_equal(parts.in.in_line, 2);
        entry = srp_desc_at(cmd, &parts.in, 1);
        assert_int_equal(entry.addr, 0x4000);
        assert_int_equal(entry.key, 0x34);
        assert_int_equal(entry.len, 4096);
}

static void test_immediate_data(void **state)
{
        uint8_t p[100] = { [0] = SRP_CMD, [5] = 0x30, [51] = 20 };
        struct rule_set found = { 0 };
        struct srp_cmd_parts parts;

        (void)state;
        assert_true(srp_cmd_read(p, 100, 80, &parts, &found));
        assert_int_equal(parts.out.len, 20);
        assert_int_equal(parts.out.data_at, 80);
        assert_string_equal(line_of(p, 100, 80),
                            "SRP_CMD tag 0h lun 0 TEST UNIT READY out 20 immediate");
        assert_non_null(strstr(fields_of(p, 100, 80), "offset       : 80"));
        assert_finds(p, 100, PARTY_HOST, 80, RULE_NONE);
        assert_finds(p, 100, PARTY_HOST, 52, RULE_NONE);
        assert_finds(p, 100, PARTY_HOST, 51, SRP_CMD_IMMEDIATE); /* in the descriptor */
        assert_finds(p, 100, PARTY_HOST, 81, SRP_CMD_IMMEDIATE);
        assert_finds(p, 100, PARTY_HOST, 101, SRP_CMD_IMMEDIATE);
        assert_finds(p, 100, PARTY_HOST, 0, RULE_NONE); /* where it begins is not known */
        p[5] = 0x03;
        assert_finds(p, 100, PARTY_HOST, 80, SRP_CMD_FORMAT);
}

static void test_lun_and_cdb_in_words(void **state)
{
        uint8_t p[48] = { [0] = SRP_CMD, [20] = 0x41, [21] = 2, [32] = 0xee };

        (void)state;
        assert_string_equal(line_of(p, 48, 0), "SRP_CMD tag 0h lun 258 CDB EEh");
        p[22] = 1; /* a second level */
        assert_string_equal(line_of(p, 48, 0), "SRP_CMD tag 0h lun 4102010000000000h CDB EEh");
        assert_string_equal(line_of(p, 47, 0), "SRP_CMD tag 0h, only 47 bytes");
        p[0] = 0x7f;
        assert_string_equal(line_of(p, 48, 0), "IU of 48 bytes, type 7Fh");
        assert_string_equal(line_of(NULL, 0, 0), "IU of 0 bytes");
        assert_string_equal(fields_of(NULL, 0, 0), "");
        assert_non_null(strstr(fields_of(p, 4, 0), "bytes        : 7f000000"));
}

static void test_over_is_not_under(void **state)
{
        uint8_t p[36] = { [0] = SRP_RSP, [18] = SRP_DOOVER | SRP_DIOVER, [23] = 1, [27] = 2 };

        (void)state;
        assert_string_equal(line_of(p, 36, 0),
                            "SRP_RSP tag 0h req_lim_delta 0 status GOOD out 1 over in 2 over");
        assert_finds(p, 36, PARTY_CONTROLLER, 0, RULE_NONE);
        p[18] = SRP_DOOVER | SRP_DOUNDER | SRP_DIOVER;
        assert_finds(p, 36, PARTY_CONTROLLER, 0, SRP_RSP_BOTH);
        p[18] = SRP_DIOVER;
        assert_finds(p, 36, PARTY_CONTROLLER, 0, SRP_RSP_RESIDUAL);
}

/* --- what is wrong in one IU ------------------------------------------------------------------- */

static void test_types_and_lengths(void **state)
{
        (void)state;
        for (size_t i = 0; i < COUNT(samples); i++) {
                enum party sender = srp_info(samples[i].p[0])->sender;
                bool host = sender == PARTY_HOST;

                assert_finds(samples[i].p, samples[i].n, peer_of(sender), 0,
                             host ? SRP_TYPE_T : SRP_TYPE_I);
                for (uint32_t n = 0; n < srp_info(samples[i].p[0])->len; n++)
                        assert_finds(samples[i].p, n, sender, 0,
                                     host ? SRP_LENGTH_I : SRP_LENGTH_T);
        }
        assert_finds("\x05", 1, PARTY_HOST, 0, SRP_TYPE_I);
        assert_finds("\xc5", 1, PARTY_CONTROLLER, 0, SRP_TYPE_T);
}

static void test_values(void **state)
{
        static const uint8_t attributes[] = { 0, 1, 2, 4 }, functions[] = { 1, 2, 4, 8, 0x40 };
        uint8_t c[48] = { SRP_CMD }, t[48] = { SRP_TSK_MGMT };

        (void)state;
        for (unsigned v = 0; v < 256; v++) {
                c[29] = t[30] = (uint8_t)v;
                assert_finds(c, 48, PARTY_HOST, 0,
                             memchr(attributes, (int)v, 4) ? RULE_NONE : SRP_CMD_ATTRIBUTE);
                assert_finds(t, 48, PARTY_HOST, 0,
                             memchr(functions, (int)v, 5) ? RULE_NONE : SRP_TM_FUNCTION);
        }
        c[29] = 0;
        for (unsigned v = 0; v < 256; v++) {
                struct rule_set found;

                c[5] = (uint8_t)v;
                found = checked(c, 48, PARTY_HOST, 0);
                assert_int_equal(rule_in(&found, SRP_CMD_FORMAT), v >> 4 > 3 || (v < 16 && v > 2));
        }
}

/* A bit that is reserved, anywhere, is seen, and is all that is seen. */
static void test_reserved(void **state)
{
        unsigned seen = 0;

        (void)state;
        for (size_t i = 0; i < COUNT(samples); i++) {
                const struct srp_info *info = srp_info(samples[i].p[0]);
                uint8_t p[sizeof(cmd)];

                for (unsigned bit = 8; bit < 8u * info->len; bit++) {
                        struct rule_set found;

                        memcpy(p, samples[i].p, samples[i].n);
                        p[bit / 8] ^= (uint8_t)(1u << bit % 8);
                        found = checked(p, samples[i].n, info->sender, 0);
                        seen += rule_in(&found, SRP_RESERVED_I) || rule_in(&found, SRP_RESERVED_T);
                }
        }
        /* bytes by type: login request 14, response 28, rejection 17, task management 21, command 9,
         * tags alone 7 each, T_LOGOUT 2, response 4, credits 2, event 10; and parts of bytes */
        assert_int_equal(seen, 8 * (14 + 28 + 17 + 21 + 9 + 3 * 7 + 2 + 4 + 2 + 10) + 2 + 4 + 6 +
                                   6 + 2 + 7 + 7 + 2 + 7 + 7);
}

/* Whatever is cut, and whatever the bytes are, nothing beyond them is read: sanitizers watch. */
static void test_any_bytes(void **state)
{
        uint64_t seed = 7;

        (void)state;
        for (unsigned round = 0; round < 20000; round++) {
                const struct sample *s = &samples[random_next(&seed) % COUNT(samples)];
                uint32_t n = (uint32_t)(random_next(&seed) % (s->n + 1u));
                uint8_t *p = malloc(n ? n : 1);

                assert_non_null(p);
                memcpy(p, s->p, n);
                for (unsigned i = 0; i < 3 && n > 1; i++)
                        p[1 + random_next(&seed) % (n - 1)] = (uint8_t)random_next(&seed);
                for (unsigned sender = 0; sender < 2; sender++)
                        (void)checked(p, n, (enum party)sender, round % 120);
                (void)line_of(p, n, round % 120);
                (void)fields_of(p, n, round % 120);
                free(p);
        }
}

static void test_identifiers_of_ports(void **state)
{
        static const char *const wrong[] = { "", "12", "0002c90300a0b0c00002c90300a0b0c",
                                             "0002c90300a0b0c00002c90300a0b0c0f",
                                             "0002c90300a0b0c00002c90300a0b0cg" };
        char said[SRP_PORT_ID_TEXT];
        srp_port_id id;

        (void)state;
        assert_true(srp_port_id_read(id, "0002C90300a0b0c0fFFfc90300a0b0c1"));
        assert_memory_equal(id, "\0\2\xc9\3\0\xa0\xb0\xc0\xff\xff\xc9\3\0\xa0\xb0\xc1", 16);
        srp_port_id_text(id, said);
        assert_string_equal(said, "0002c90300a0b0c0ffffc90300a0b0c1");
        for (size_t i = 0; i < COUNT(wrong); i++)
                assert_false(srp_port_id_read(id, wrong[i]));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_words),
                cmocka_unit_test(test_correct_ones_break_nothing),
                cmocka_unit_test(test_round_trips),
                cmocka_unit_test(test_fields_are_apart),
                cmocka_unit_test(test_types),
                cmocka_unit_test(test_the_two_forms_of_a_login),
                cmocka_unit_test(test_what_is_a_login_beyond_doubt),
                cmocka_unit_test(test_reasons),
                cmocka_unit_test(test_identifiers_of_ports),
                cmocka_unit_test(test_parts_of_a_command),
                cmocka_unit_test(test_immediate_data),
                cmocka_unit_test(test_lun_and_cdb_in_words),
                cmocka_unit_test(test_over_is_not_under),
                cmocka_unit_test(test_types_and_lengths),
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_reserved),
                cmocka_unit_test(test_any_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
