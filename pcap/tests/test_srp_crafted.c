/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A crafted capture for each rule of SRP that a capture can show, and for what is just on the right side of it: what is
 * wrong is found, alone and proven, and nobody is accused of what is correct.
 */
#include "srp_capture.h"

enum {
        ONE,
        MANY,
        REFUSED,      /* sessions */
        LEN = 0xffff, /* not a field: how long the message is */
        CHANGES = 4,
};

/* Of the nth message of this type, as an IU, a field. */
struct change {
        uint8_t type, nth;
        uint16_t at, size;
        uint64_t value;
};

/* The session up to the last message that is changed. */
static const struct row {
        unsigned rule; /* RULE_NONE: it is correct */
        unsigned session;
        struct change change[CHANGES];
} rows[] = {
        /* clang-format off */
        { SRP_TYPE_I, ONE, { { SRP_CMD, 0, 0, 1, 0x04 } } },
        { SRP_TYPE_I, ONE, { { SRP_CMD, 0, 0, 1, SRP_RSP } } },
        { SRP_TYPE_T, ONE, { { SRP_RSP, 0, 0, 1, 0xc3 } } },
        { SRP_TYPE_T, ONE, { { SRP_RSP, 0, 0, 1, SRP_CMD } } },
        { SRP_LENGTH_I, ONE, { { SRP_CMD, 6, LEN, 0, 47 } } },
        { SRP_LENGTH_I, ONE, { { SRP_TSK_MGMT, 0, LEN, 0, 47 } } },
        { SRP_LENGTH_I, ONE, { { SRP_I_LOGOUT, 0, LEN, 0, 15 } } },
        { RULE_NONE, ONE, { { SRP_CMD, 6, LEN, 0, 49 } } },
        { SRP_LENGTH_T, ONE, { { SRP_RSP, 0, LEN, 0, 35 } } },
        { SRP_LENGTH_T, ONE, { { SRP_CRED_REQ, 0, LEN, 0, 15 } } },
        { SRP_LENGTH_T, ONE, { { SRP_T_LOGOUT, 0, LEN, 0, 15 } } },
        { RULE_NONE, ONE, { { SRP_RSP, 0, LEN, 0, 37 } } },
        { SRP_MAX_I, ONE, { { SRP_LOGIN_REQ, 0, 16, 4, 99 }, { SRP_LOGIN_RSP, 0, 16, 4, 99 }, { SRP_CMD, 1, LEN, 0, 100 } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_REQ, 0, 16, 4, 100 }, { SRP_LOGIN_RSP, 0, 16, 4, 100 }, { SRP_CMD, 1, LEN, 0, 100 } } },
        { SRP_MAX_T, ONE, { { SRP_LOGIN_RSP, 0, 20, 4, 53 }, { SRP_RSP, 2, LEN, 0, 54 } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_RSP, 0, 20, 4, 54 }, { SRP_RSP, 2, LEN, 0, 54 } } },
        { SRP_RESERVED_I, ONE, { { SRP_LOGIN_REQ, 0, 26, 1, 0x04 } } },
        { SRP_RESERVED_I, ONE, { { SRP_CMD, 0, 31, 1, 0x01 } } },
        { SRP_RESERVED_I, ONE, { { SRP_TSK_MGMT, 0, 40, 8, 1 } } },
        { SRP_RESERVED_I, ONE, { { SRP_CRED_RSP, 0, 7, 1, 1 } } },
        { RULE_NONE, ONE, { { SRP_CMD, 0, 1, 1, SRP_SCSOLNT | SRP_UCSOLNT } } },
        { SRP_RESERVED_T, ONE, { { SRP_LOGIN_RSP, 0, 51, 1, 1 } } },
        { SRP_RESERVED_T, REFUSED, { { SRP_LOGIN_REJ, 0, 16, 8, 1 } } },
        { SRP_RESERVED_T, ONE, { { SRP_RSP, 0, 18, 1, 0x40 } } },
        { SRP_RESERVED_T, ONE, { { SRP_T_LOGOUT, 0, 2, 2, 1 } } },
        { SRP_RESERVED_T, ONE, { { SRP_AER_REQ, 0, 32, 4, 1 } } },

        { SRP_LOGIN_ONCE, ONE, { { SRP_CMD, 0, 0, 8, 0 }, { SRP_CMD, 0, 16, 4, 8260 }, { SRP_CMD, 0, 20, 8, 0 } } },
        { SRP_LOGIN_IT_LEN, ONE, { { SRP_LOGIN_REQ, 0, 16, 4, 63 } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_REQ, 0, 16, 4, 64 } } },
        { SRP_LOGIN_FORMATS, ONE, { { SRP_LOGIN_REQ, 0, 24, 2, 0x0106 } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_REQ, 0, 24, 2, SRP_FORMAT_INDIRECT } } },
        { SRP_LOGIN_ACTION, ONE, { { SRP_LOGIN_REQ, 0, 26, 1, 2 } } },
        { SRP_LOGIN_ACTION, ONE, { { SRP_LOGIN_REQ, 0, 26, 1, 3 } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_REQ, 0, 26, 1, 0xf1 } } },
        { SRP_LOGIN_ANSWER, ONE, { { SRP_LOGIN_RSP, 0, 0, 1, SRP_RSP } } },
        { SRP_LOGIN_ANSWER, ONE, { { SRP_LOGIN_RSP, 0, 0, 1, SRP_LOGIN_REJ } } },
        { SRP_LOGIN_TAG, ONE, { { SRP_LOGIN_RSP, 0, 8, 8, 0 } } },
        { SRP_LOGIN_TAG, REFUSED, { { SRP_LOGIN_REJ, 0, 8, 8, 0 } } },
        { SRP_LOGIN_GRANTED, ONE, { { SRP_LOGIN_RSP, 0, 16, 4, 8259 } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_RSP, 0, 16, 4, UINT32_MAX } } },
        { SRP_LOGIN_TI_LEN, ONE, { { SRP_LOGIN_RSP, 0, 20, 4, 35 } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_RSP, 0, 20, 4, 36 } } },
        { SRP_LOGIN_SUPPORTED, ONE, { { SRP_LOGIN_RSP, 0, 24, 2, SRP_FORMAT_DIRECT } } },
        { SRP_LOGIN_SUPPORTED, ONE, { { SRP_LOGIN_RSP, 0, 24, 2, SRP_FORMAT_INDIRECT } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_REQ, 0, 24, 2, SRP_FORMAT_DIRECT }, { SRP_LOGIN_RSP, 0, 24, 2, SRP_FORMAT_DIRECT } } },
        { SRP_LOGIN_LIMIT, ONE, { { SRP_LOGIN_RSP, 0, 4, 4, UINT32_MAX } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_RSP, 0, 4, 4, 0 } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_RSP, 0, 4, 4, INT32_MAX } } },
        { SRP_LOGIN_RESULT, ONE, { { SRP_LOGIN_RSP, 0, 26, 1, 3 } } },
        { SRP_LOGIN_OUTCOME, ONE, { { SRP_LOGIN_RSP, 0, 26, 1, SRP_RESULT_MAINTAINED } } },
        { SRP_LOGIN_OUTCOME, MANY, { { SRP_LOGIN_RSP, 0, 26, 1, SRP_RESULT_TERMINATED } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_RSP, 0, 26, 1, SRP_RESULT_TERMINATED } } },
        { RULE_NONE, MANY, { { SRP_LOGIN_RSP, 0, 26, 1, SRP_RESULT_NONE } } },
        { SRP_LOGIN_IMMEDIATE, ONE, { { SRP_LOGIN_RSP, 0, 26, 1, SRP_IMMEDIATE } } },
        { SRP_REJECT_IU, REFUSED, { { SRP_LOGIN_REJ, 0, 0, 1, SRP_LOGIN_RSP } } },
        { SRP_REJECT_REASON, REFUSED, { { SRP_LOGIN_REJ, 0, 4, 4, 0xffff } } },
        { SRP_REJECT_REASON, REFUSED, { { SRP_LOGIN_REJ, 0, 4, 4, 0x10007 } } },
        { RULE_NONE, REFUSED, { { SRP_LOGIN_REJ, 0, 4, 4, 0x10000 } } },
        { RULE_NONE, REFUSED, { { SRP_LOGIN_REJ, 0, 4, 4, 0x10006 } } },

        { SRP_LIMIT_OVERRUN, ONE, { { SRP_LOGIN_RSP, 0, 4, 4, 0 }, { SRP_CMD, 0, 8, 8, 1 } } },
        { SRP_LIMIT_OVERRUN, ONE, { { SRP_LOGIN_RSP, 0, 4, 4, 1 }, { SRP_CRED_REQ, 0, 4, 4, 0 }, { SRP_TSK_MGMT, 0, 8, 8, 8 } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_RSP, 0, 4, 4, 1 }, { SRP_CMD, 6, 8, 8, 7 } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_RSP, 0, 4, 4, 1 }, { SRP_TSK_MGMT, 0, 8, 8, 8 } } },
        { SRP_LIMIT_OVERFLOW, ONE, { { SRP_RSP, 0, 4, 4, INT32_MAX } } },
        { RULE_NONE, ONE, { { SRP_RSP, 0, 4, 4, INT32_MAX - 7 } } },
        { SRP_LIMIT_TAKEN, ONE, { { SRP_RSP, 0, 4, 4, (uint32_t)-9 } } },
        { RULE_NONE, ONE, { { SRP_RSP, 0, 4, 4, (uint32_t)-8 } } },

        { SRP_TAG_UNIQUE, ONE, { { SRP_TSK_MGMT, 0, 8, 8, 7 } } },
        { RULE_NONE, ONE, { { SRP_TSK_MGMT, 0, 8, 8, 1 } } },
        { SRP_TAG_RESPONSE, ONE, { { SRP_RSP, 0, 8, 8, 2 } } },
        { SRP_TAG_RESPONSE, ONE, { { SRP_RSP, 1, 8, 8, 1 } } },
        { SRP_TAG_ANSWER, ONE, { { SRP_CRED_RSP, 0, 8, 8, 101 } } },
        { SRP_TAG_ANSWER, ONE, { { SRP_CRED_RSP, 0, 0, 1, SRP_AER_RSP } } },
        { SRP_TAG_ANSWER, ONE, { { SRP_AER_RSP, 0, 8, 8, 100 } } },

        { SRP_CMD_CDB, ONE, { { SRP_CMD, 0, 31, 1, 0x14 } } },
        { SRP_CMD_FORMAT, ONE, { { SRP_CMD, 0, 5, 1, 0x04 } } },
        { SRP_CMD_FORMAT, ONE, { { SRP_CMD, 0, 5, 1, 0xf0 } } },
        { SRP_CMD_FORMAT, ONE, { { SRP_CMD, 0, 5, 1, 0x03 } } },
        { RULE_NONE, ONE, { { SRP_CMD, 0, 5, 1, 0 } } },
        { SRP_CMD_AGREED, ONE, { { SRP_LOGIN_REQ, 0, 24, 2, SRP_FORMAT_DIRECT }, { SRP_LOGIN_RSP, 0, 24, 2, SRP_FORMAT_DIRECT }, { SRP_CMD, 1, 8, 8, 2 } } },
        { RULE_NONE, ONE, { { SRP_LOGIN_REQ, 0, 24, 2, SRP_FORMAT_DIRECT }, { SRP_LOGIN_RSP, 0, 24, 2, SRP_FORMAT_DIRECT }, { SRP_CMD, 0, 8, 8, 1 } } },
        { SRP_CMD_AGREED, MANY, { { SRP_LOGIN_RSP, 0, 26, 1, SRP_RESULT_MAINTAINED }, { SRP_CMD, 0, 8, 8, 1 } } },
        { SRP_CMD_DESCRIPTORS, ONE, { { SRP_CMD, 1, 7, 1, 3 } } },
        { SRP_CMD_DESCRIPTORS, ONE, { { SRP_CMD, 0, 31, 1, 0x10 } } },
        { RULE_NONE, ONE, { { SRP_CMD, 1, 7, 1, 1 } } },
        { RULE_NONE, ONE, { { SRP_CMD, 1, 7, 1, 0 } } },
        { SRP_CMD_IMMEDIATE, MANY, { { SRP_CMD, 0, 48, 4, 513 } } },
        { SRP_CMD_IMMEDIATE, MANY, { { SRP_LOGIN_REQ, 0, 28, 2, 51 }, { SRP_CMD, 0, 8, 8, 1 } } },
        { RULE_NONE, MANY, { { SRP_CMD, 0, 48, 4, 511 } } },
        { RULE_NONE, MANY, { { SRP_LOGIN_REQ, 0, 28, 2, 52 }, { SRP_CMD, 0, 8, 8, 1 } } },
        { SRP_CMD_TABLE, ONE, { { SRP_CMD, 1, 60, 4, 33 } } },
        { SRP_CMD_TABLE, ONE, { { SRP_CMD, 1, 60, 4, 0 } } },
        { SRP_CMD_COUNT, ONE, { { SRP_CMD, 1, 60, 4, 16 } } },
        { RULE_NONE, ONE, { { SRP_CMD, 1, 60, 4, 48 } } },
        { SRP_CMD_TOTAL, ONE, { { SRP_CMD, 1, 64, 4, 8191 } } },
        { RULE_NONE, ONE, { { SRP_CMD, 1, 60, 4, 48 }, { SRP_CMD, 1, 64, 4, 12288 } } },
        { SRP_CMD_WRAP, ONE, { { SRP_CMD, 0, 48, 8, UINT64_MAX - 34 } } },
        { SRP_CMD_WRAP, ONE, { { SRP_CMD, 1, 68, 8, UINT64_MAX } } },
        { RULE_NONE, ONE, { { SRP_CMD, 0, 48, 8, UINT64_MAX - 35 } } },
        { SRP_CMD_ATTRIBUTE, ONE, { { SRP_CMD, 0, 29, 1, 3 } } },
        { SRP_CMD_ATTRIBUTE, ONE, { { SRP_CMD, 0, 29, 1, 5 } } },
        { RULE_NONE, ONE, { { SRP_CMD, 0, 29, 1, 1 } } },
        { RULE_NONE, ONE, { { SRP_CMD, 0, 29, 1, 2 } } },
        { RULE_NONE, ONE, { { SRP_CMD, 0, 29, 1, 4 } } },

        { SRP_TM_FUNCTION, ONE, { { SRP_TSK_MGMT, 0, 30, 1, 0 } } },
        { SRP_TM_FUNCTION, ONE, { { SRP_TSK_MGMT, 0, 30, 1, 3 } } },
        { RULE_NONE, ONE, { { SRP_TSK_MGMT, 0, 30, 1, SRP_TM_LUN_RESET } } },
        { RULE_NONE, ONE, { { SRP_TSK_MGMT, 0, 30, 1, SRP_TM_CLEAR_ACA } } },
        { SRP_TM_ANSWER, ONE, { { SRP_RSP, 6, 18, 1, 0 }, { SRP_RSP, 6, 32, 4, 0 } } },

        { SRP_RSP_PARTS, ONE, { { SRP_RSP, 2, 28, 4, 19 } } },
        { SRP_RSP_PARTS, ONE, { { SRP_AER_REQ, 0, 28, 4, 19 } } },
        { RULE_NONE, ONE, { { SRP_RSP, 2, 28, 4, 17 } } },
        { SRP_RSP_UNMARKED, ONE, { { SRP_RSP, 0, 32, 4, 4 } } },
        { SRP_RSP_UNMARKED, ONE, { { SRP_RSP, 0, 28, 4, 18 } } },
        { SRP_RSP_DATA, ONE, { { SRP_RSP, 6, 32, 4, 3 } } },
        { SRP_RSP_SENSE, ONE, { { SRP_RSP, 2, 18, 1, SRP_DOUNDER }, { SRP_RSP, 2, 28, 4, 0 } } },
        { RULE_NONE, ONE, { { SRP_RSP, 0, 19, 1, 0x08 } } },
        { SRP_RSP_BOTH, ONE, { { SRP_RSP, 2, 18, 1, SRP_SNSVALID | SRP_DOOVER | SRP_DOUNDER } } },
        { RULE_NONE, ONE, { { SRP_RSP, 2, 18, 1, SRP_SNSVALID | SRP_DOOVER | SRP_DIUNDER } } },
        { SRP_RSP_RESIDUAL, ONE, { { SRP_RSP, 0, 20, 4, 1 } } },
        { SRP_RSP_RESIDUAL, ONE, { { SRP_RSP, 0, 24, 4, 1 } } },
        { SRP_RSP_UNDERFLOW, ONE, { { SRP_RSP, 0, 18, 1, SRP_DIUNDER }, { SRP_RSP, 0, 24, 4, 37 } } },
        { RULE_NONE, ONE, { { SRP_RSP, 0, 18, 1, SRP_DIUNDER }, { SRP_RSP, 0, 24, 4, 36 } } },
        { RULE_NONE, ONE, { { SRP_RSP, 0, 18, 1, SRP_DIOVER }, { SRP_RSP, 0, 24, 4, 4000 } } },
        { SRP_SOLICITED, ONE, { { SRP_RSP, 0, 1, 1, SRP_SOLNT } } },
        { SRP_SOLICITED, ONE, { { SRP_CRED_REQ, 0, 1, 1, SRP_SOLNT } } },
        { SRP_SOLICITED, ONE, { { SRP_AER_REQ, 0, 1, 1, SRP_SOLNT } } },
        { SRP_SOLICITED, ONE, { { SRP_T_LOGOUT, 0, 1, 1, SRP_SOLNT } } },
        { RULE_NONE, MANY, { { SRP_RSP, 0, 1, 1, 0 } } },
        /* clang-format on */
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* What the target does to the initiator's memory, while INQUIRY (data-in, 36 bytes at 10000h, key 11h) or WRITE
 * (data-out, 512 at 50000h, key 55h) is outstanding, or after its response. */
static const struct transfer {
        bool broken, write_command, after, writes;
        uint64_t addr;
        uint32_t key, len;
} transfers[] = {
        { false, false, false, true, 0x10000, 0x11, 36 },
        { false, false, false, true, 0x10010, 0x11, 20 },
        { true, false, false, true, 0x10000, 0x11, 37 },
        { true, false, false, true, 0xffff, 0x11, 1 },
        { true, false, false, true, 0x10000, 0x12, 36 },
        { true, false, false, false, 0x10000, 0x11, 36 },
        { true, false, true, true, 0x10000, 0x11, 36 },
        { false, true, false, false, 0x50000, 0x55, 512 },
        { true, true, false, false, 0x50000, 0x55, 513 },
        { true, true, false, true, 0x50000, 0x55, 512 },
};
enum { TRANSFERS = sizeof(transfers) / sizeof(transfers[0]) };

static bool shown[SRP_RULES]; /* it was found in some capture */

/* -1: there is none. */
static int find(uint8_t type, unsigned nth)
{
        for (unsigned i = 0; i < session.n; i++)
                if (session.says[i].kind < SAY_READ && session.says[i].p[0] == type && nth-- == 0)
                        return (int)i;
        return -1;
}

/* Where the messages are is known before any is changed. Returns the last one. */
static unsigned apply(const struct row *r)
{
        int at[CHANGES], last = -1;

        for (unsigned i = 0; i < CHANGES; i++) {
                const struct change *c = &r->change[i];
                bool used = i == 0 || c->at > 0 || c->size > 0 || c->value > 0;

                at[i] = used ? find(c->type, c->nth) : -1;
                assert_true(!used || at[i] >= 0);
                last = at[i] > last ? at[i] : last;
        }
        for (unsigned i = 0; i < CHANGES; i++) {
                const struct change *c = &r->change[i];

                if (at[i] >= 0 && c->at == LEN)
                        session.says[at[i]].n = (uint32_t)c->value;
                else if (at[i] >= 0)
                        be_put(session.says[at[i]].p + c->at, c->size, c->value);
        }
        return (unsigned)last;
}

static void judge(unsigned rule, unsigned row)
{
        struct rule_set waived[2] = { 0 }; /* of NVMe and of SRP */

        check(NULL);
        if (rule != RULE_NONE || count_of("\"rule\":") > 0) {
                char line[100];

                snprintf(line, sizeof(line), "\"rule\":\"%s\"",
                         rule ? srp_rule_get(rule)->id : "none");
                if (count_of(line) != 1 || count_of("\"rule\":") != 1)
                        fail_msg("row %u: not %s alone, but: %s", row, line, out);
        }
        assert_found(rule);
        if (rule == RULE_NONE)
                return;
        shown[rule] = true;
        rule_add(&waived[1], rule);
        check(waived);
        assert_found(RULE_NONE);
}

static void test_rows(void **state)
{
        (void)state;
        for (unsigned i = 0; i < ROWS; i++) {
                unsigned last;

                sessions[rows[i].session](&session);
                last = apply(&rows[i]);
                begin();
                write_session(last + 1, -1);
                end();
                judge(rows[i].rule, i);
        }
}

static void test_transfers(void **state)
{
        (void)state;
        for (unsigned i = 0; i < TRANSFERS; i++) {
                const struct transfer *t = &transfers[i];

                session_of_one_channel(&session);
                session.n = 2;
                if (t->write_command)
                        add_direct(say_cmd(&session, 3, 0x2a), true,
                                   (struct srp_desc) { 0x50000, 0x55, 512 });
                else
                        add_direct(say_cmd(&session, 1, 0x12), false,
                                   (struct srp_desc) { 0x10000, 0x11, 36 });
                if (t->after)
                        say_rsp(&session, 1, 0);
                say_transfer(&session, t->writes, t->addr, t->key, t->len);
                begin();
                write_session(session.n, -1);
                end();
                judge(t->broken ? SRP_TRANSFER : RULE_NONE, i);
        }
}

/* What is wrong only because it is said twice, or after the end. */
static void test_what_is_said_twice(void **state)
{
        static const struct {
                unsigned rule;
                uint8_t type;
        } twice[] = {
                { SRP_TAG_UNIQUE, SRP_CMD },         { SRP_TAG_RESPONSE, SRP_RSP },
                { SRP_TAG_ANSWER, SRP_CRED_RSP },    { SRP_TAG_ANSWER, SRP_AER_RSP },
                { SRP_TARGET_WAITS, SRP_CRED_REQ },  { SRP_TARGET_WAITS, SRP_AER_REQ },
                { SRP_LOGOUT_LAST_I, SRP_I_LOGOUT }, { SRP_LOGOUT_LAST_T, SRP_T_LOGOUT },
        };

        (void)state;
        for (unsigned i = 0; i < sizeof(twice) / sizeof(twice[0]); i++) {
                int at;

                session_of_one_channel(&session);
                at = find(twice[i].type, 0);
                begin();
                write_session((unsigned)at + 1, at);
                end();
                judge(twice[i].rule, i);
        }
}

static void test_no_rule_lacks_a_capture(void **state)
{
        (void)state;
        for (unsigned rule = 1; rule < SRP_RULES; rule++)
                if (srp_rule_get(rule)->seen & SEEN_CAPTURE && !shown[rule])
                        fail_msg("no capture shows %s", srp_rule_get(rule)->id);
}

/* The same connection, by whoever's port it is: said where it is one of NVMe's. */
static void test_a_port_of_nvme_is_told(void **state)
{
        static const struct {
                uint16_t port;
                bool told;
        } ports[] = { { 4420, true }, { 8009, true }, { 5555, false } };

        (void)state;
        for (unsigned i = 0; i < 3; i++) {
                struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(ports[i].port) },
                                   from = { .sin_family = AF_INET, .sin_port = htons(50000) };

                to.sin_addr.s_addr = htonl(0x0a000002);
                from.sin_addr.s_addr = htonl(0x0a000001);
                session_of_one_channel(&session);
                session.says[2].p[29] = 3;
                begin();
                flow = (struct capture_rdma) { 0 };
                capture_rdma_open(writer, &flow, (struct sockaddr *)&from, (struct sockaddr *)&to,
                                  now);
                for (unsigned k = 0; k < 4; k++)
                        write_one(&session.says[k]);
                write_end();
                end();
                assert_int_equal(RUN("show", path), PCAP_OK);
                assert_int_equal(count_of("SRP on a port of NVMe"), ports[i].told);
                (void)RUN("check", path, "--all");
                assert_int_equal(count_of(", SRP on a port of NVMe)"), ports[i].told);
                assert_int_equal(count_of("srp/command/attribute"), 1);
                (void)RUN("check", path, "--all", "-o", "json");
                assert_int_equal(count_of("\"port_of\":\"NVMe\""), ports[i].told);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_transfers),
                cmocka_unit_test(test_what_is_said_twice),
                cmocka_unit_test(test_no_rule_lacks_a_capture),
                cmocka_unit_test(test_a_port_of_nvme_is_told),
        };

        return cmocka_run_group_tests_name("srp_crafted", tests, set_up, tear_down);
}
