/* SPDX-License-Identifier: BSD-3-Clause */
/* The channel is told sessions, correct ones and such as break each rule once. */
#include "pdu/core/tests/check.h"

#include "session.h"

static struct session session;
static struct srp_channel channel;
static struct rule_set broken_here; /* by any test of this file */

static struct rule_set tell(const struct say *one)
{
        struct rule_set found = { 0 };
        struct srp_login_req login;
        struct srp_login_req_cm cm;

        switch (one->kind) {
        case SAY_LOGIN:
                memcpy(&login, one->p, sizeof(login));
                cm = srp_login_to_cm(&login);
                srp_channel_login(&channel, &cm, sizeof(cm), false, &found);
                break;
        case SAY_ACCEPT:
                srp_channel_accept(&channel, one->p, one->n, &found);
                break;
        case SAY_REJECT:
                srp_channel_reject(&channel, one->p, one->n, &found);
                break;
        case SAY_IU:
                srp_channel_iu(&channel, one->sender, one->p, one->n, &found);
                break;
        case SAY_READ:
        case SAY_WRITE:
                srp_channel_transfer(&channel, one->kind == SAY_WRITE, &one->memory, &found);
                break;
        }
        for (unsigned i = 0; i < RULE_CAPACITY / 64; i++)
                broken_here.bits[i] |= found.bits[i];
        return found;
}

static void assert_only(const struct rule_set *found, unsigned rule)
{
        rule_each_in (found, id)
                if (id != rule)
                        fail_msg("%s is found, not %s", srp_rule_get(id)->id,
                                 rule ? srp_rule_get(rule)->id : "nothing");
        if (rule && !rule_in(found, rule))
                fail_msg("%s is not found", srp_rule_get(rule)->id);
}

/* All of it up to message `end`; nothing is found. */
static void tell_until(unsigned end)
{
        srp_channel_init(&channel);
        for (unsigned i = 0; i < end; i++) {
                struct rule_set found = tell(&session.says[i]);

                assert_only(&found, RULE_NONE);
        }
}

static void tell_one(const struct say *one, unsigned rule)
{
        struct rule_set found = tell(one);

        assert_only(&found, rule);
}

/* A session of one channel, live, with nothing outstanding. */
static void begin_live(void)
{
        session_of_one_channel(&session);
        tell_until(2);
        session.n = 0;
}

/* --- correct sessions ------------------------------------------------------------------------- */

static void test_correct_sessions(void **state)
{
        (void)state;
        for (int i = 0; i < SESSIONS; i++) {
                sessions[i](&session);
                tell_until(session.n);
                assert_int_equal(srp_channel_outstanding(&channel), 0);
        }
        assert_int_equal(channel.state, SRP_STATE_CLOSED);
        assert_string_equal(srp_state_name(channel.state), "closed");
}

static void test_what_is_known_of_it(void **state)
{
        const struct srp_request *r;

        (void)state;
        session_of_many_channels(&session);
        tell_until(1);
        assert_string_equal(srp_state_name(channel.state), "login");
        assert_int_equal(srp_channel_limit(&channel), 0);
        assert_int_equal(srp_channel_immediate(&channel), 0);
        tell_one(&session.says[1], RULE_NONE);
        assert_string_equal(srp_state_name(channel.state), "live");
        assert_int_equal(srp_channel_limit(&channel), 8);
        assert_int_equal(srp_channel_immediate(&channel), IMMEDIATE_AT);
        tell_one(&session.says[2], RULE_NONE);
        assert_int_equal(srp_channel_limit(&channel), 7);
        r = srp_channel_find(&channel, 1);
        assert_non_null(r);
        assert_int_equal(r->out_len, 512);
        assert_int_equal(r->sol_not, SRP_SCSOLNT | SRP_UCSOLNT);
        assert_null(srp_channel_find(&channel, 2));
        assert_int_equal(srp_channel_outstanding(&channel), 1);
        tell_one(&session.says[3], RULE_NONE);
        assert_int_equal(srp_channel_limit(&channel), 8);
        srp_channel_close(&channel);
        assert_int_equal(channel.state, SRP_STATE_CLOSED);
}

/* Whatever is left out, and known to be, nobody is blamed for. */
static void test_what_is_missing_is_not_blamed(void **state)
{
        (void)state;
        for (int i = 0; i < SESSIONS; i++)
                for (unsigned lost = 0; lost < SAYS; lost++) {
                        sessions[i](&session);
                        srp_channel_init(&channel);
                        for (unsigned j = 0; j < session.n; j++) {
                                if (j == lost && session.says[j].kind >= SAY_IU)
                                        srp_channel_miss(&channel, session.says[j].sender);
                                else if (j != lost)
                                        tell_one(&session.says[j], RULE_NONE);
                        }
                }
}

/* --- each rule, broken once ------------------------------------------------------------------- */

static bool spoil_session(session_fn *make, enum srp_rule rule)
{
        bool twice;
        int at;

        make(&session);
        at = session_spoil(&session, rule, &twice);
        if (at < 0)
                return false;
        tell_until((unsigned)at);
        if (twice)
                tell_one(&session.says[at], RULE_NONE);
        tell_one(&session.says[at], rule);
        return true;
}

static void test_each_violator_breaks_its_rule_alone(void **state)
{
        (void)state;
        for (unsigned rule = 1; rule < SRP_RULES; rule++) {
                const struct rule *r = srp_rule_get(rule);
                bool any = false;

                for (int i = 0; i < SESSIONS; i++)
                        any |= spoil_session(sessions[i], (enum srp_rule)rule);
                if (any != ((r->violators & SRP_V_SPOILS) != 0))
                        fail_msg("%s: %s", r->id, any ? "is broken" : "nothing breaks it");
                assert_int_equal(srp_spoil_kinds((enum srp_rule)rule), r->violators);
        }
}

static void test_too_long(void **state)
{
        struct say *c;

        (void)state;
        begin_live();
        channel.granted.max_it_iu_len = be32(63);
        c = say_cmd(&session, 1, 0x12);
        add_direct(c, false, (struct srp_desc) { 0x10000, 1, 36 });
        tell_one(c, SRP_MAX_I);
        channel.granted.max_ti_iu_len = be32(39);
        tell_one(say_rsp(&session, 1, SRP_SNSVALID), SRP_MAX_T);
}

static void test_a_second_login(void **state)
{
        (void)state;
        begin_live();
        say_login(&session, SRP_ACTION_SINGLE);
        session.says[0].kind = SAY_IU;
        tell_one(&session.says[0], SRP_LOGIN_ONCE);
}

static void test_more_requests_than_the_limit(void **state)
{
        (void)state;
        begin_live();
        for (unsigned i = 0; i < 7; i++)
                tell_one(say_cmd(&session, i, 0), RULE_NONE);
        say_tsk_mgmt(&session, 7, SRP_TM_LUN_RESET, 0);
        tell_one(&session.says[7], RULE_NONE);
        assert_int_equal(srp_channel_limit(&channel), 0);
        tell_one(say_tag(&session, SRP_CRED_RSP, 9), SRP_TAG_ANSWER); /* is not counted */
        tell_one(say_cmd(&session, 8, 0), SRP_LIMIT_OVERRUN);
        tell_one(say_rsp(&session, 0, 0), RULE_NONE);
        tell_one(say_rsp(&session, 1, 0), RULE_NONE);
        tell_one(say_cmd(&session, 9, 0), RULE_NONE);
        tell_one(say_cmd(&session, 10, 0), SRP_LIMIT_OVERRUN);
}

/* What a target takes back the initiator may not know yet. */
static void test_what_is_taken_back(void **state)
{
        struct say *c;

        (void)state;
        begin_live();
        tell_one(say_cmd(&session, 1, 0), RULE_NONE);
        c = say_rsp(&session, 1, 0);
        be_put(c->p + 4, 4, (uint32_t)-8);
        tell_one(c, RULE_NONE);
        for (unsigned i = 2; i < 9; i++)
                tell_one(say_cmd(&session, i, 0), RULE_NONE);
        c = say_rsp(&session, 2, 0);
        be_put(c->p + 4, 4, (uint32_t)-1);
        tell_one(c, SRP_LIMIT_TAKEN);
}

static void test_formats_that_were_not_agreed(void **state)
{
        static const struct srp_desc entry = { 0x1000, 1, 512 };

        (void)state;
        begin_live();
        channel.granted.buf_fmt = be16(SRP_FORMAT_INDIRECT);
        add_direct(say_cmd(&session, 1, 0x28), false, entry);
        tell_one(&session.says[0], SRP_CMD_AGREED);
        channel.granted.buf_fmt = be16(SRP_FORMAT_DIRECT);
        add_indirect(say_cmd(&session, 2, 0x28), false, (struct srp_desc) { 0x2000, 2, 16 }, 512,
                     &entry, 1);
        tell_one(&session.says[1], SRP_CMD_AGREED);
        add_immediate(say_cmd(&session, 3, 0x2a), 512);
        tell_one(&session.says[2], SRP_CMD_AGREED);
}

static void tell_transfer(bool writes, uint64_t addr, uint32_t key, uint32_t len, unsigned rule)
{
        session.n = 0;
        say_transfer(&session, writes, addr, key, len);
        tell_one(&session.says[0], rule);
}

static void test_memory(void **state)
{
        static const struct srp_desc pieces[] = { { 0x1000, 1, 512 }, { 0x1200, 1, 512 } };

        (void)state;
        begin_live();
        add_indirect(say_cmd(&session, 1, 0x28), false, (struct srp_desc) { 0x2000, 2, 32 }, 1024,
                     pieces, 2);
        tell_one(&session.says[0], RULE_NONE);
        tell_transfer(true, 0x1000, 1, 1024, RULE_NONE); /* pieces that are one after the other */
        tell_transfer(true, 0x1100, 1, 512, RULE_NONE);
        tell_transfer(false, 0x2010, 2, 16, RULE_NONE);
        tell_transfer(true, 0, 0, 0, RULE_NONE);
        tell_transfer(true, 0x1001, 1, 1024, SRP_TRANSFER);
        tell_transfer(true, 0x0fff, 1, 4, SRP_TRANSFER);
        tell_transfer(true, 0x1000, 2, 4, SRP_TRANSFER);
        tell_transfer(false, 0x1000, 1, 4, SRP_TRANSFER);
        tell_transfer(true, 0x2000, 2, 4, SRP_TRANSFER);
        session.n = 0;
        tell_one(say_rsp(&session, 1, 0), RULE_NONE);
        tell_transfer(true, 0x1000, 1, 4, SRP_TRANSFER); /* the command is over */
}

/* More pieces than are kept: nobody knows the rest. */
static void test_memory_of_many_pieces(void **state)
{
        struct srp_desc pieces[SRP_CHANNEL_RANGES];

        (void)state;
        begin_live();
        for (unsigned i = 0; i < COUNT(pieces); i++)
                pieces[i] = (struct srp_desc) { 0x1000 * (i + 1), i, 16 };
        add_indirect(say_cmd(&session, 1, 0x28), false,
                     (struct srp_desc) { 0x90000, 9, 16 * SRP_CHANNEL_RANGES },
                     16 * SRP_CHANNEL_RANGES, pieces, SRP_CHANNEL_RANGES);
        tell_one(&session.says[0], RULE_NONE);
        tell_transfer(true, 0x77777, 7, 4, RULE_NONE);
}

/* --- task management -------------------------------------------------------------------------- */

static void test_a_reset_frees_tags_of_its_unit(void **state)
{
        (void)state;
        begin_live();
        tell_one(say_cmd(&session, 1, 0), RULE_NONE);
        tell_one(say_cmd(&session, 2, 0), RULE_NONE);
        be_put(say_cmd(&session, 3, 0)->p + 20, 8, 2ull << 48);
        tell_one(&session.says[2], RULE_NONE);
        say_tsk_mgmt(&session, 9, SRP_TM_LUN_RESET, 0);
        tell_one(&session.says[3], RULE_NONE);
        tell_one(say_rsp(&session, 9, SRP_RSPVALID), RULE_NONE);
        tell_one(say_cmd(&session, 1, 0), RULE_NONE);
        tell_one(say_cmd(&session, 3, 0), SRP_TAG_UNIQUE);
        srp_channel_doubt(&channel, 1ull << 48); /* seen on another channel */
        tell_one(say_cmd(&session, 1, 0), RULE_NONE);
}

static void test_an_aborted_task_may_have_been_answered(void **state)
{
        (void)state;
        begin_live();
        tell_one(say_cmd(&session, 1, 0), RULE_NONE);
        say_tsk_mgmt(&session, 2, SRP_TM_ABORT_TASK, 1);
        tell_one(&session.says[1], RULE_NONE);
        tell_one(say_rsp(&session, 1, 0), RULE_NONE);
        tell_one(say_rsp(&session, 2, SRP_RSPVALID), RULE_NONE);
        tell_one(say_rsp(&session, 1, 0), SRP_TAG_RESPONSE);
}

/* --- limits of what is kept ------------------------------------------------------------------- */

static void test_more_requests_than_are_kept(void **state)
{
        (void)state;
        begin_live();
        channel.gifts = channel.given = 1000;
        for (unsigned i = 0; i <= SRP_CHANNEL_REQUESTS; i++) {
                session.n = 0;
                tell_one(say_cmd(&session, i, 0), RULE_NONE);
        }
        session.n = 0;
        assert_int_equal(srp_channel_outstanding(&channel), SRP_CHANNEL_REQUESTS);
        tell_one(say_rsp(&session, SRP_CHANNEL_REQUESTS, 0), RULE_NONE); /* nobody remembers it */
        say_tsk_mgmt(&session, 5000, SRP_TM_LUN_RESET, 0);
        tell_one(&session.says[1], RULE_NONE);
}

static void test_a_target_that_asks_again_and_again(void **state)
{
        (void)state;
        begin_live();
        tell_one(say_tag(&session, SRP_CRED_REQ, 1), RULE_NONE);
        for (unsigned i = 2; i < 8; i++)
                tell_one(say_tag(&session, SRP_CRED_REQ, i), SRP_TARGET_WAITS);
        tell_one(say_tag(&session, SRP_AER_RSP, 1), SRP_TAG_ANSWER); /* the other kind */
        tell_one(say_tag(&session, SRP_CRED_RSP, 1), RULE_NONE);
}

/* --- bytes that are no session ---------------------------------------------------------------- */

static void test_a_capture_that_began_later(void **state)
{
        (void)state;
        session_of_one_channel(&session);
        srp_channel_init(&channel);
        for (unsigned i = 2; i < session.n; i++)
                tell_one(&session.says[i], RULE_NONE);
}

static void test_logins_that_are_none(void **state)
{
        struct rule_set found = { 0 };
        uint8_t p[64] = { 0 };

        (void)state;
        srp_channel_init(&channel);
        srp_channel_login(&channel, p, 47, false, &found);
        assert_only(&found, SRP_LENGTH_I);
        found = (struct rule_set) { 0 };
        p[11] = SRP_CMD;
        srp_channel_login(&channel, p, 56, false, &found);
        assert_only(&found, SRP_TYPE_I);
        found = (struct rule_set) { 0 };
        p[11] = 0;
        p[12] = 1;
        p[50] = 1;
        srp_channel_login(&channel, p, 56, false, &found);
        assert_only(&found, SRP_RESERVED_I);
        session_of_one_channel(&session);
        srp_channel_login(&channel, session.says[0].p, 64, true, &(struct rule_set) { 0 });
        assert_int_equal(be64_get(channel.asked.tag), 0x1122334455667788);
        tell_one(&session.says[1], RULE_NONE);
        srp_channel_login(&channel, session.says[0].p, 63, true, &found);
        assert_true(rule_in(&found, SRP_LENGTH_I));
}

static void test_notices_that_nobody_asked_for(void **state)
{
        (void)state;
        begin_live();
        say_tag(&session, SRP_CRED_REQ, 1)->p[1] = SRP_SOLNT;
        tell_one(&session.says[0], SRP_SOLICITED);
        say_tag(&session, SRP_CRED_RSP, 1);
        tell_one(&session.says[1], RULE_NONE);
        say(&session, PARTY_CONTROLLER,
            &(union srp_iu) { .aer_req = { .opcode = SRP_AER_REQ, .sol_not = SRP_SOLNT } });
        tell_one(&session.says[2], SRP_SOLICITED);
        say_tag(&session, SRP_T_LOGOUT, 3)->p[1] = SRP_SOLNT;
        tell_one(&session.says[3], SRP_SOLICITED);
}

/* The last test: of those that a capture shows. */
static void test_all_rules_were_broken(void **state)
{
        (void)state;
        for (unsigned rule = 1; rule < SRP_RULES; rule++)
                if (srp_rule_get(rule)->seen & SEEN_CAPTURE && !rule_in(&broken_here, rule))
                        fail_msg("nothing here breaks %s", srp_rule_get(rule)->id);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_correct_sessions),
                cmocka_unit_test(test_what_is_known_of_it),
                cmocka_unit_test(test_what_is_missing_is_not_blamed),
                cmocka_unit_test(test_each_violator_breaks_its_rule_alone),
                cmocka_unit_test(test_too_long),
                cmocka_unit_test(test_a_second_login),
                cmocka_unit_test(test_more_requests_than_the_limit),
                cmocka_unit_test(test_what_is_taken_back),
                cmocka_unit_test(test_formats_that_were_not_agreed),
                cmocka_unit_test(test_memory),
                cmocka_unit_test(test_memory_of_many_pieces),
                cmocka_unit_test(test_a_reset_frees_tags_of_its_unit),
                cmocka_unit_test(test_an_aborted_task_may_have_been_answered),
                cmocka_unit_test(test_more_requests_than_are_kept),
                cmocka_unit_test(test_a_target_that_asks_again_and_again),
                cmocka_unit_test(test_a_capture_that_began_later),
                cmocka_unit_test(test_logins_that_are_none),
                cmocka_unit_test(test_notices_that_nobody_asked_for),
                cmocka_unit_test(test_all_rules_were_broken),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
