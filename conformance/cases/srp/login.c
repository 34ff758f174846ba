/* SPDX-License-Identifier: BSD-3-Clause */
/* Logins to SRP targets: what is accepted, how, and what is not. */
#include "conformance/srp/srp_words.h"

/* --- accepted ----------------------------------------------------------------------------------- */

#define ACCEPTED(name, rule, says, ...)                                                            \
        CASE("srp/login/" name, MUST, RULES(rule), says)                                           \
        {                                                                                          \
                (void)log_in(t, __VA_ARGS__);                                                      \
        }

ACCEPTED("answer", SRP_LOGIN_ANSWER, "An accepted connection has a login response", 0)
ACCEPTED("tag", SRP_LOGIN_TAG, "The login response has the tag of its request", 0)
ACCEPTED("it-iu-granted", SRP_LOGIN_GRANTED, "As long IUs are granted as were asked for", 0)
ACCEPTED("it-iu-linux", SRP_LOGIN_GRANTED, "IUs of 8,260 bytes, which Linux asks for, are granted",
         .it_iu = 8260)
ACCEPTED("ti-iu-length", SRP_LOGIN_TI_LEN, "The target's IUs may be as long as a response", 0)
ACCEPTED("supported", SRP_LOGIN_SUPPORTED,
         "Both buffer formats are supported where both are asked for", 0)
ACCEPTED("supported-direct", SRP_LOGIN_SUPPORTED, "Direct buffers alone can be asked for",
         .formats = SRP_FORMAT_DIRECT)
ACCEPTED("supported-indirect", SRP_LOGIN_SUPPORTED, "Indirect buffers alone can be asked for",
         .formats = SRP_FORMAT_INDIRECT)
ACCEPTED("limit", SRP_LOGIN_LIMIT, "The first request limit is not negative", 0)
ACCEPTED("result", SRP_LOGIN_RESULT, "The multi-channel result is one of three", 0)
ACCEPTED("outcome-single", SRP_LOGIN_OUTCOME, "A single login maintains no older channels", 0)
ACCEPTED("immediate-unasked", SRP_LOGIN_IMMEDIATE, "Immediate data is not granted unasked", 0)

CASE("srp/login/outcome-multiple", MUST, RULES(SRP_LOGIN_OUTCOME),
     "A multiple login terminates no older channels", .needs = NEEDS_MULTI)
{
        (void)log_in(t, .flags = SRP_ACTION_MULTI);
}

/* --- works -------------------------------------------------------------------------------------- */

/* Accepted, and then a command is served. */
#define WORKS(name, says, ...)                                                                     \
        CASE("srp/login/" name, MUST, RULES(SRP_RSP_ANSWERED), says)                               \
        {                                                                                          \
                expect_served(ready_channel(t, __VA_ARGS__));                                      \
        }

WORKS("works", "A channel works after its login", 0)
WORKS("no-formats", "A login that asks for no buffer formats works", .no_formats = true)
WORKS("it-iu-least", "A login that asks for IUs of 64 bytes, the least, works", .it_iu = 64)
WORKS("solicited", "A login that asks for solicited notification works",
      .flags = SRP_LOSOLNT | SRP_CRSOLNT | SRP_AESOLNT)
WORKS("immediate", "A login that asks for immediate data works", .flags = SRP_IMMEDIATE)
WORKS("immediate-low", "A login with an offset of immediate data within the command works",
      .flags = SRP_IMMEDIATE, .imm_at = 40)
WORKS("immediate-high", "A login with an offset of immediate data beyond all IUs works",
      .flags = SRP_IMMEDIATE, .imm_at = 0xffff)

CASE("srp/login/reserved", SHOULD, RULES(SRP_RESERVED_I),
     "Reserved bytes of a login are not looked at")
{
        expect_served(ready_channel(t, .reserved = 0xff));
}

CASE("srp/login/early", MUST, RULES(SRP_RSP_ANSWERED),
     "A command that comes as soon as the initiator knows of the acceptance is answered")
{
        struct chan *c = log_in(t);

        (void)run_order(order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0));
}

CASE("srp/login/early-burst", MUST, RULES(SRP_RSP_ANSWERED, SRP_TAG_RESPONSE),
     "As many commands as the limit permits, sent before the target knows that it is connected, "
     "are answered")
{
        struct chan *c = log_in(t);
        unsigned n = limit_of(c);

        for (unsigned i = 0; i < n; i++)
                send_order(order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0));
        for (unsigned i = 0; i < n; i++)
                (void)expect_rsp(c);
}

CASE("srp/login/early-logout", MUST, NO_RULE, "A logout right after the acceptance harms nobody")
{
        send_small(log_in(t), SRP_I_LOGOUT, 5);
        expect_others_served(t);
}

/* --- rejected ----------------------------------------------------------------------------------- */

#define REJECTED(name, rules, reason, says, ...)                                                   \
        CASE("srp/reject/" name, MUST, rules, says)                                                \
        {                                                                                          \
                expect_rejected(ask_login(t, __VA_ARGS__), reason);                                \
        }

/* What is seen of any rejection: whether this login is rejected is the matter of another case. */
#define REJECTION(name, rules, says)                                                               \
        CASE("srp/reject/" name, MUST, rules, says)                                                \
        {                                                                                          \
                const struct chan *c = ask_login(t, .it_iu = 63);                                  \
                                                                                                   \
                require(t, c->state == CHAN_REJECTED, "the target accepts IUs of 63 bytes");       \
        }

REJECTION("iu", RULES(SRP_REJECT_IU), "A login is rejected by SRP_LOGIN_REJ")
REJECTION("tag", RULES(SRP_LOGIN_TAG), "A login rejection has the tag of its request")
REJECTION("reason", RULES(SRP_REJECT_REASON), "A login rejection has a known reason")
REJECTED("it-iu-short", RULES(SRP_LOGIN_IT_LEN), SRP_REJECT_IU_LENGTH,
         "A login that asks for IUs of 63 bytes is rejected", .it_iu = 63)
REJECTED("it-iu-one", RULES(SRP_LOGIN_IT_LEN), SRP_REJECT_IU_LENGTH,
         "A login that asks for IUs of one byte is rejected", .it_iu = 1)
REJECTED("formats-unknown", RULES(SRP_LOGIN_FORMATS), SRP_REJECT_FORMATS,
         "A login that requires a format that nobody knows is rejected", .formats = 0x0106)
REJECTED("formats-all", RULES(SRP_LOGIN_FORMATS), SRP_REJECT_FORMATS,
         "A login that requires all formats that could be is rejected", .formats = 0xffff)
REJECTED("action-2", RULES(SRP_LOGIN_ACTION), 0, "A login with multi-channel action 2 is rejected",
         .flags = 2)
REJECTED("action-3", RULES(SRP_LOGIN_ACTION), 0, "A login with multi-channel action 3 is rejected",
         .flags = 3)
REJECTED("opcode-command", RULES(SRP_TYPE_I), 0, "A command in place of a login is rejected",
         .opcode = SRP_CMD)
REJECTED("opcode-response", RULES(SRP_TYPE_I), 0,
         "A login response in place of a login is rejected", .opcode = SRP_LOGIN_RSP)
REJECTED("opcode-unknown", RULES(SRP_TYPE_I), 0,
         "A type that nobody knows in place of a login is rejected", .opcode = 0x7f)
REJECTED("cut", RULES(SRP_LOGIN_IT_LEN), 0, "Nine bytes of a login are rejected", .len = 9)
REJECTED("cut-ports", RULES(SRP_LOGIN_IT_LEN), 0,
         "A login without its port identifiers is rejected", .len = 12)
REJECTED("empty", RULES(SRP_LOGIN_IT_LEN), 0, "A connection without login is rejected", .len = -1)

CASE("srp/reject/other-target", MUST, RULES(SRP_LOGIN_PORT),
     "A login to another target port is rejected", .needs = NEEDS_PORT)
{
        expect_rejected(ask_login(t, .other_target = true), SRP_REJECT_NEXUS);
}

CASE("srp/reject/it-iu-huge", MUST, RULES(SRP_LOGIN_GRANTED),
     "A login that asks for IUs of 2 GiB is rejected, or works")
{
        expect_works_or_rejected(ask_login(t, .it_iu = INT32_MAX));
}

CASE("srp/reject/it-iu-negative", MUST, RULES(SRP_LOGIN_GRANTED),
     "A login that asks for IUs of 4 GiB is rejected, or works")
{
        expect_works_or_rejected(ask_login(t, .it_iu = UINT32_MAX));
}

CASE("srp/reject/then-accepted", MUST, RULES(SRP_RSP_ANSWERED),
     "An initiator whose login was rejected can log in")
{
        (void)ask_login(t, .it_iu = 63);
        expect_served(ready_channel(t));
}

CASE("srp/reject/while-live", MUST, RULES(SRP_LOGIN_KEEPS),
     "A login that is rejected leaves the initiator's channel as it is")
{
        struct chan *c = ready_channel(t);

        if (ask_login(t, .it_iu = 63)->state == CHAN_REJECTED)
                expect_served(c);
}

CASE("srp/reject/channels", SHOULD, NO_RULE,
     "A channel too many is rejected, and those that are there work on", .needs = NEEDS_MULTI)
{
        enum { MOST = 24 };
        struct chan *first = ready_channel(t), *c = first;
        unsigned n = 1;

        while (n < MOST && c->state == CHAN_LIVE) {
                c = ask_login(t, .flags = SRP_ACTION_MULTI);
                n += c->state == CHAN_LIVE;
        }
        if (c->state == CHAN_LIVE)
                note(t, "%u channels, and no limit", n);
        else if (c->has_rej && be32_get(c->rej.reason) != SRP_REJECT_CHANNELS &&
                 be32_get(c->rej.reason) != SRP_REJECT_RESOURCES)
                advise(t, srp_reject_name(SRP_REJECT_CHANNELS), "%s",
                       srp_reject_name(be32_get(c->rej.reason)));
        expect_served(first);
}
