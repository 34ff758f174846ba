/* SPDX-License-Identifier: BSD-3-Clause */
/* What a target says to logins; the channel, which judges it, finds nothing in it. */
#include "pdu/core/tests/check.h"

#include "pdu/srp/machine/channel.h"
#include "pdu/srp/machine/login.h"

static const struct srp_port port = {
        .id = "the target's ID",
        .it_iu_max = 8260,
        .ti_iu_max = 260,
        .formats = SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT,
        .immediate_max = 160,
        .request_limit = 128,
        .channels_max = 4,
};

static struct srp_login_req request(uint8_t flags)
{
        return (struct srp_login_req) {
                .opcode = SRP_LOGIN_REQ,
                .tag = be64(5),
                .req_it_iu_len = be32(8260),
                .req_buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                .req_flags = flags,
                .imm_data_offset = be16(80),
                .initiator_port_id = "the initiator's",
                .target_port_id = "the target's ID",
        };
}

/* The channel looks on. */
static struct srp_login_answer answer(const struct srp_login_req *r, const struct srp_port *p,
                                      unsigned channels)
{
        struct srp_login_answer a = srp_login_decide(r, p, channels, NULL);
        struct rule_set found = { 0 }, unused = { 0 };
        static struct srp_channel c;

        srp_channel_init(&c);
        srp_channel_login(&c, r, sizeof(*r), true, &unused);
        if (a.reason)
                srp_channel_reject(&c, &a.rej, sizeof(a.rej), &found);
        else
                srp_channel_accept(&c, &a.rsp, sizeof(a.rsp), &found);
        assert_true(rule_set_empty(&found));
        assert_int_equal(c.state, a.reason ? SRP_STATE_CLOSED : SRP_STATE_OPEN);
        return a;
}

static void test_accepted(void **state)
{
        static const struct {
                uint8_t asks, gives;
                unsigned channels;
                bool terminates;
        } rows[] = {
                { SRP_ACTION_SINGLE, SRP_RESULT_NONE, 0, false },
                { SRP_ACTION_SINGLE, SRP_RESULT_TERMINATED, 3, true },
                { SRP_ACTION_SINGLE, SRP_RESULT_TERMINATED, 4, true },
                { SRP_ACTION_MULTI, SRP_RESULT_NONE, 0, false },
                { SRP_ACTION_MULTI, SRP_RESULT_MAINTAINED, 3, false },
                { SRP_ACTION_SINGLE | SRP_IMMEDIATE, SRP_RESULT_NONE | SRP_IMMEDIATE, 0, false },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct srp_login_req r = request(rows[i].asks);
                struct srp_login_answer a = answer(&r, &port, rows[i].channels);

                assert_int_equal(a.reason, 0);
                assert_int_equal(a.rsp.rsp_flags, rows[i].gives);
                assert_int_equal(a.terminates, rows[i].terminates);
                assert_int_equal(be32_get(a.rsp.req_lim_delta), 128);
                assert_int_equal(be32_get(a.rsp.max_it_iu_len), 8260);
        }
}

static void test_immediate_data_only_where_it_fits(void **state)
{
        static const uint16_t offsets[] = { 0, 51, 161, 52, 160 };

        (void)state;
        for (size_t i = 0; i < COUNT(offsets); i++) {
                struct srp_login_req r = request(SRP_IMMEDIATE);

                r.imm_data_offset = be16(offsets[i]);
                assert_int_equal(answer(&r, &port, 0).rsp.rsp_flags, i < 3 ? 0 : SRP_IMMEDIATE);
        }
}

static void test_rejected(void **state)
{
        struct srp_port one = port;
        struct srp_login_req r = request(0);

        (void)state;
        one.channels_max = 1;
        r.opcode = SRP_CMD;
        assert_int_equal(answer(&r, &port, 0).reason, SRP_REJECT_FIRST);
        r = request(2);
        assert_int_equal(answer(&r, &port, 0).reason, SRP_REJECT_FIRST);
        r = request(0);
        r.req_it_iu_len = be32(63);
        assert_int_equal(answer(&r, &port, 0).reason, SRP_REJECT_IU_LENGTH);
        r.req_it_iu_len = be32(8261);
        assert_int_equal(answer(&r, &port, 0).reason, SRP_REJECT_IU_LENGTH);
        r = request(0);
        r.req_buf_fmt = be16(0x0106);
        assert_int_equal(answer(&r, &port, 0).reason, SRP_REJECT_FORMATS);
        r = request(0);
        r.target_port_id[15] ^= 1;
        assert_int_equal(answer(&r, &port, 0).reason, SRP_REJECT_NEXUS);
        r = request(SRP_ACTION_MULTI);
        assert_int_equal(answer(&r, &one, 0).reason, SRP_REJECT_MULTI);
        assert_int_equal(answer(&r, &port, 4).reason, SRP_REJECT_CHANNELS);
        assert_int_equal(be32_get(answer(&r, &port, 4).rej.reason), SRP_REJECT_CHANNELS);
        assert_int_equal(be64_get(answer(&r, &port, 4).rej.tag), 5);
}

/* Only who has understood a login request knows its tag. */
static void test_the_tag_of_a_rejection(void **state)
{
        static const uint8_t opcodes[] = { SRP_LOGIN_REQ, SRP_CMD, 0x7f };

        (void)state;
        for (size_t i = 0; i < COUNT(opcodes); i++) {
                const struct srp_login_rej rej = { .opcode = SRP_LOGIN_REJ,
                                                   .reason = be32(SRP_REJECT_FIRST) };
                struct srp_login_req r = request(0);
                struct rule_set found = { 0 }, unused = { 0 };
                static struct srp_channel c;

                r.opcode = opcodes[i];
                srp_channel_init(&c);
                srp_channel_login(&c, &r, sizeof(r), true, &unused);
                srp_channel_reject(&c, &rej, sizeof(rej), &found);
                assert_int_equal(rule_in(&found, SRP_LOGIN_TAG), i == 0);
        }
}

static void test_a_port_without_a_name_is_everybodys(void **state)
{
        struct srp_port any = port;
        struct srp_login_req r = request(0);

        (void)state;
        memset(any.id, 0, sizeof(any.id));
        assert_int_equal(answer(&r, &any, 0).reason, 0);
}

static void test_waived(void **state)
{
        static const enum srp_rule rules[] = { SRP_LOGIN_IT_LEN, SRP_LOGIN_FORMATS,
                                               SRP_LOGIN_ACTION };

        (void)state;
        for (size_t i = 0; i < COUNT(rules); i++) {
                struct rule_set waived = { 0 };
                struct srp_login_req r = request(i == 2 ? 3 : 0);

                if (i == 0)
                        r.req_it_iu_len = be32(1);
                if (i == 1)
                        r.req_buf_fmt = be16(0x8000);
                assert_int_not_equal(srp_login_decide(&r, &port, 0, NULL).reason, 0);
                rule_add(&waived, rules[i]);
                assert_int_equal(srp_login_decide(&r, &port, 0, &waived).reason, 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_accepted),
                cmocka_unit_test(test_immediate_data_only_where_it_fits),
                cmocka_unit_test(test_rejected),
                cmocka_unit_test(test_the_tag_of_a_rejection),
                cmocka_unit_test(test_a_port_without_a_name_is_everybodys),
                cmocka_unit_test(test_waived),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
