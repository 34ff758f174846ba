/* SPDX-License-Identifier: BSD-3-Clause */
/* Correct sessions of SRP, message by message: what a channel is told, and what captures are made of. */
#ifndef NVMF_SRP_MACHINE_TESTS_SESSION_H
#define NVMF_SRP_MACHINE_TESTS_SESSION_H

#include <string.h>

#include "pdu/srp/machine/channel.h"
#include "pdu/srp/machine/spoil.h"

enum { SAYS = 64, SAY_BYTES = 1024, IMMEDIATE_AT = 80 };

struct say {
        enum { SAY_LOGIN, SAY_ACCEPT, SAY_REJECT, SAY_IU, SAY_READ, SAY_WRITE } kind;
        enum party sender;
        uint8_t p[SAY_BYTES]; /* a login as an IU of 64 bytes */
        uint32_t n;
        struct srp_desc memory;
};

struct session {
        struct say says[SAYS];
        unsigned n;
        struct srp_login_req asked;
};

static inline struct say *say(struct session *s, enum party sender, const union srp_iu *iu)
{
        struct say *one = &s->says[s->n++];

        memset(one, 0, sizeof(*one));
        one->kind = SAY_IU;
        one->sender = sender;
        one->n = (uint32_t)srp_write(iu, one->p, sizeof(one->p));
        return one;
}

static inline void say_login(struct session *s, uint8_t flags)
{
        struct srp_login_req r = {
                .opcode = SRP_LOGIN_REQ,
                .tag = be64(0x1122334455667788),
                .req_it_iu_len = be32(8260),
                .req_buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                .req_flags = flags,
                .imm_data_offset = be16(flags & SRP_IMMEDIATE ? IMMEDIATE_AT : 0),
                .initiator_port_id = "the initiator's",
                .target_port_id = "the target's ID",
        };

        s->asked = r;
        say(s, PARTY_HOST, &(union srp_iu) { .login_req = r })->kind = SAY_LOGIN;
}

static inline void say_accept(struct session *s, uint8_t flags)
{
        struct srp_login_rsp r = {
                .opcode = SRP_LOGIN_RSP,
                .req_lim_delta = be32(8),
                .tag = s->asked.tag,
                .max_it_iu_len = be32(8260),
                .max_ti_iu_len = be32(260),
                .buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                .rsp_flags = flags,
        };

        say(s, PARTY_CONTROLLER, &(union srp_iu) { .login_rsp = r })->kind = SAY_ACCEPT;
}

static inline void say_reject(struct session *s, uint32_t reason)
{
        struct srp_login_rej r = { .opcode = SRP_LOGIN_REJ,
                                   .reason = be32(reason),
                                   .tag = s->asked.tag };

        say(s, PARTY_CONTROLLER, &(union srp_iu) { .login_rej = r })->kind = SAY_REJECT;
}

static inline struct say *say_cmd(struct session *s, uint64_t tag, uint8_t command)
{
        struct srp_cmd c = {
                .opcode = SRP_CMD, .tag = be64(tag), .lun = be64(1ull << 48), .cdb = { command }
        };

        return say(s, PARTY_HOST, &(union srp_iu) { .cmd = c });
}

/* A descriptor more, after those that are there. */
static inline void add_format(struct say *c, bool out, uint8_t format, uint8_t count)
{
        c->p[5] |= (uint8_t)(out ? format << 4 : format);
        c->p[out ? 6 : 7] = count;
}

static inline void add_direct(struct say *c, bool out, struct srp_desc d)
{
        add_format(c, out, SRP_DIRECT, 0);
        srp_desc_put(c->p + c->n, &d);
        c->n += SRP_DESC_LEN;
}

static inline void add_indirect(struct say *c, bool out, struct srp_desc table, uint32_t len,
                                const struct srp_desc *entries, uint8_t n)
{
        add_format(c, out, SRP_INDIRECT, n);
        srp_desc_put(c->p + c->n, &table);
        be_put(c->p + c->n + SRP_DESC_LEN, 4, len);
        c->n += SRP_TABLE_LEN;
        for (uint8_t i = 0; i < n; i++, c->n += SRP_DESC_LEN)
                srp_desc_put(c->p + c->n, &entries[i]);
}

static inline void add_immediate(struct say *c, uint32_t len)
{
        add_format(c, true, SRP_IMMEDIATE_DATA, 0);
        be_put(c->p + c->n, 4, len);
        c->n = IMMEDIATE_AT + len;
}

static inline void say_transfer(struct session *s, bool writes, uint64_t addr, uint32_t key,
                                uint32_t len)
{
        s->says[s->n++] = (struct say) { .kind = writes ? SAY_WRITE : SAY_READ,
                                         .sender = PARTY_CONTROLLER,
                                         .memory = { addr, key, len } };
}

static inline struct say *say_rsp(struct session *s, uint64_t tag, uint8_t flags)
{
        struct srp_rsp r = { .opcode = SRP_RSP,
                             .req_lim_delta = be32(1),
                             .tag = be64(tag),
                             .flags = flags,
                             .status = flags & SRP_SNSVALID ? SRP_CHECK_CONDITION : 0,
                             .resp_len = be32(flags & SRP_RSPVALID ? 4 : 0),
                             .sense_len = be32(flags & SRP_SNSVALID ? 18 : 0) };
        struct say *one = say(s, PARTY_CONTROLLER, &(union srp_iu) { .rsp = r });

        one->n += be32_get(r.resp_len) + be32_get(r.sense_len);
        return one;
}

static inline struct say *say_tag(struct session *s, uint8_t type, uint64_t tag)
{
        return say(s, srp_info(type)->sender,
                   &(union srp_iu) { .i_logout = { .opcode = type, .tag = be64(tag) } });
}

static inline void say_tsk_mgmt(struct session *s, uint64_t tag, uint8_t function, uint64_t task)
{
        struct srp_tsk_mgmt t = { .opcode = SRP_TSK_MGMT,
                                  .tag = be64(tag),
                                  .lun = be64(1ull << 48),
                                  .function = function,
                                  .task_tag = be64(task) };

        say(s, PARTY_HOST, &(union srp_iu) { .tsk_mgmt = t });
}

/* Descriptors of each kind, residuals, sense, credits, events, an abort, and logging out. */
static inline void session_of_one_channel(struct session *s)
{
        static const struct srp_desc pieces[] = { { 0x30000, 0x33, 4096 },
                                                  { 0x40000, 0x34, 4096 } };
        static const struct srp_desc first[] = { { 0x70000, 0x77, 4096 } };
        struct say *c;

        s->n = 0;
        say_login(s, SRP_ACTION_SINGLE);
        say_accept(s, SRP_RESULT_NONE);
        add_direct(say_cmd(s, 1, 0x12), false, (struct srp_desc) { 0x10000, 0x11, 36 });
        say_rsp(s, 1, 0);
        add_indirect(say_cmd(s, 2, 0x28), false, (struct srp_desc) { 0x20000, 0x22, 32 }, 8192,
                     pieces, 2);
        say_transfer(s, true, 0x30000, 0x33, 4096);
        say_transfer(s, true, 0x40000, 0x34, 4096);
        say_rsp(s, 2, 0);
        add_direct(say_cmd(s, 3, 0x2a), true, (struct srp_desc) { 0x50000, 0x55, 512 });
        say_transfer(s, false, 0x50000, 0x55, 512);
        be_put(say_rsp(s, 3, SRP_SNSVALID | SRP_DOUNDER)->p + 20, 4, 512);
        c = say_cmd(s, 4, 0x7f); /* a CDB of 32 bytes */
        c->p[31] = 16;
        c->n += 16;
        add_direct(c, true, (struct srp_desc) { 0x58000, 0x58, 512 });
        say_rsp(s, 4, 0);
        add_indirect(say_cmd(s, 5, 0x28), false, (struct srp_desc) { 0x60000, 0x66, 64 }, 16384,
                     first, 1);
        say_transfer(s, false, 0x60000, 0x66, 64); /* the table; who knows what is in it */
        say_transfer(s, true, 0x99000, 0x99, 4096);
        be_put(say_rsp(s, 5, SRP_DIUNDER)->p + 24, 4, 100);
        c = say_cmd(s, 6, 0x53); /* both directions */
        add_direct(c, true, (struct srp_desc) { 0x80000, 0x80, 512 });
        add_direct(c, false, (struct srp_desc) { 0x81000, 0x81, 512 });
        say_transfer(s, false, 0x80000, 0x80, 256);
        say_transfer(s, true, 0x81000, 0x81, 512);
        say_rsp(s, 6, 0);
        be_put(say_tag(s, SRP_CRED_REQ, 100)->p + 4, 4, 2);
        say_tag(s, SRP_CRED_RSP, 100);
        c = say(
            s, PARTY_CONTROLLER,
            &(union srp_iu) {
                .aer_req = { .opcode = SRP_AER_REQ, .tag = be64(101), .sense_len = be32(18) } });
        c->n += 18;
        say_tag(s, SRP_AER_RSP, 101);
        (void)say_cmd(s, 7, 0x00);
        say_tsk_mgmt(s, 8, SRP_TM_ABORT_TASK, 7);
        say_rsp(s, 8, SRP_RSPVALID);
        (void)say_cmd(s, 7, 0x00); /* which is free again */
        say_rsp(s, 7, 0);
        say_tag(s, SRP_T_LOGOUT, 102);
        say_tag(s, SRP_I_LOGOUT, 103);
}

/* Immediate data, and notification of all that can be notified. */
static inline void session_of_many_channels(struct session *s)
{
        struct say *c;

        s->n = 0;
        say_login(s, SRP_ACTION_MULTI | SRP_IMMEDIATE | SRP_LOSOLNT | SRP_CRSOLNT | SRP_AESOLNT);
        say_accept(s, SRP_RESULT_MAINTAINED | SRP_IMMEDIATE | SRP_SOLNTSUP);
        c = say_cmd(s, 1, 0x2a);
        c->p[1] = SRP_SCSOLNT | SRP_UCSOLNT;
        add_immediate(c, 512);
        say_rsp(s, 1, 0)->p[1] = SRP_SOLNT;
        say_tag(s, SRP_CRED_REQ, 100)->p[1] = SRP_SOLNT;
        say_tag(s, SRP_CRED_RSP, 100);
        say_tag(s, SRP_T_LOGOUT, 101)->p[1] = SRP_SOLNT;
        say_tag(s, SRP_I_LOGOUT, 102);
}

static inline void session_refused(struct session *s)
{
        s->n = 0;
        say_login(s, SRP_ACTION_SINGLE);
        say_reject(s, SRP_REJECT_NEXUS);
}

typedef void session_fn(struct session *s);
static session_fn *const sessions[] = { session_of_one_channel, session_of_many_channels,
                                        session_refused };
enum { SESSIONS = sizeof(sessions) / sizeof(sessions[0]) };

/* The first message of the session that can break it, changed so that it does; -1: none can. It may have to
 * be said twice. */
static inline int session_spoil(struct session *s, enum srp_rule rule, bool *twice)
{
        struct rule_set violated = { 0 };

        rule_add(&violated, rule);
        for (unsigned i = 0; i < s->n; i++) {
                struct say *one = &s->says[i];
                struct srp_spoil spoil = { .iu = one->p,
                                           .len = one->n,
                                           .asked = &s->asked,
                                           .asks_solicited = one->p[1] & SRP_SOLNT };

                if (one->kind == SAY_READ || one->kind == SAY_WRITE ||
                    !srp_spoil(&violated, &spoil))
                        continue;
                one->n = spoil.len;
                *twice = spoil.twice;
                return (int)i;
        }
        return -1;
}

#endif
