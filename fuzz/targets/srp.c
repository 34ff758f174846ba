/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SRP: information units in any order on one channel, whatever they are.
 *
 * Input: messages. Each is a byte of what it is (login, acceptance, rejection, IU of either side, READ,
 * WRITE, loss, an IU changed by a violator), two of its length, and its bytes: of a transfer 16; after
 * those of a violator its rule (2 bytes).
 */
#include "fuzz/fuzz.h"
#include "pdu/srp/machine/channel.h"
#include "pdu/srp/machine/login.h"
#include "pdu/srp/machine/spoil.h"

enum kind {
        LOGIN,
        LOGIN_NATIVE,
        ACCEPT,
        REJECT,
        IU_I,
        IU_T,
        READ,
        WRITE,
        MISS,
        DOUBT,
        SPOIL,
        KINDS
};
enum { LONGEST = 1024 };

/* What is said of an IU is said of it alone; nothing is found that does not bind who sent it. */
static void look_at(const uint8_t *p, uint32_t n, enum party sender, uint32_t imm_at)
{
        struct rule_set found = { 0 }, again = { 0 };
        struct fuzz_reader reader;
        struct text_lines lines;
        struct describe d = fuzz_describer(&reader);
        char buf[600];
        struct text t = text_in(buf, sizeof(buf));

        srp_check(p, n, sender, imm_at, &found);
        srp_check(p, n, sender, imm_at, &again);
        must(memcmp(&found, &again, sizeof(found)) == 0);
        rule_each_in (&found, rule)
                must(srp_rule_get(rule) && srp_rule_get(rule)->bound == sender);
        srp_describe(&d, p, n, imm_at);
        fuzz_described(&reader);
        d = fuzz_liner(&lines);
        srp_describe(&d, p, n, imm_at);
        fuzz_lined(&lines);
        srp_line(&t, p, n, imm_at);
        must(t.len > 0 && t.len < sizeof(buf));
}

/* Parts lie in the IU. */
static void look_into(const uint8_t *p, uint32_t n, uint32_t imm_at)
{
        struct rule_set found = { 0 };
        struct srp_cmd_parts cmd;
        struct srp_rsp_parts rsp;
        union srp_iu iu, same;
        uint8_t again[64];

        if (srp_cmd_read(p, n, imm_at, &cmd, &found)) {
                must(cmd.add_cdb_at + cmd.add_cdb_len <= n);
                must(cmd.out.at + cmd.out.size <= n && cmd.in.at + cmd.in.size <= n);
                must(!cmd.out.data_at || cmd.out.data_at + (uint64_t)cmd.out.len <= n);
                must(cmd.in.format != SRP_IMMEDIATE_DATA);
                srp_desc_put(again, &cmd.in.desc);
                must(be_get(again, 8) == cmd.in.desc.addr);
        }
        if (srp_rsp_read(p, n, &rsp, &found))
                must(rsp.sense_at + rsp.sense_len <= n && rsp.resp_at + rsp.resp_len <= n);
        if (!srp_read(p, n, &iu))
                return;
        must(srp_write(&iu, again, sizeof(again)) == srp_info(iu.opcode)->len);
        must(srp_read(again, srp_info(iu.opcode)->len, &same));
        must(memcmp(&iu, &same, srp_info(iu.opcode)->len) == 0);
}

/* A violator changes nothing beyond the IU, and only what it is asked for. */
static void spoil(const struct srp_channel *c, struct fuzz_input *b, uint8_t *p, uint32_t n)
{
        struct rule_set violated = { 0 };
        struct srp_spoil s = { .iu = p, .len = n, .asked = &c->asked };
        unsigned rule = 1u + bytes_u16(b) % (SRP_RULES - 1u);

        rule_add(&violated, rule);
        must(!srp_spoil(&violated, &s) || srp_rule_get(rule)->violators);
        must(s.len <= n);
        must(srp_spoil_kinds((enum srp_rule)rule) == srp_rule_get(rule)->violators);
}

/* A target's own answer to a login is nothing that the channel finds fault with. */
static void decide(const struct srp_login_req *r, unsigned channels)
{
        struct srp_port port = { .it_iu_max = 8260,
                                 .ti_iu_max = 260,
                                 .formats = SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT,
                                 .immediate_max = 160,
                                 .request_limit = 8,
                                 .channels_max = 1 + channels % 3 };
        struct srp_login_req_cm cm = srp_login_to_cm(r);
        struct srp_login_req again = srp_login_of_cm(&cm);
        struct srp_login_answer a;
        static struct srp_channel c;
        struct rule_set unused = { 0 }, found = { 0 };

        must(be64_get(again.tag) == be64_get(r->tag) && again.req_flags == r->req_flags);
        memcpy(port.id, r->target_port_id, channels % 2 ? sizeof(port.id) : 0);
        a = srp_login_decide(r, &port, channels, NULL);
        srp_channel_init(&c);
        srp_channel_login(&c, r, sizeof(*r), true, &unused);
        if (a.reason)
                srp_channel_reject(&c, &a.rej, sizeof(a.rej), &found);
        else
                srp_channel_accept(&c, &a.rsp, sizeof(a.rsp), &found);
        must(rule_set_empty(&found));
        port.id[15] ^= 0xff;
        (void)srp_login_decide(r, &port, channels, &unused);
}

static void one_message(struct srp_channel *c, struct fuzz_input *b, struct rule_set *found)
{
        uint8_t what = bytes_u8(b), p[LONGEST];
        enum kind kind = (enum kind)(what % KINDS);
        enum party sender = kind == IU_I ? PARTY_HOST : PARTY_CONTROLLER;
        uint32_t n = bytes_u16(b) % (LONGEST + 1u);
        struct srp_desc memory;

        n = n < b->left ? n : (uint32_t)b->left;
        bytes_copy(b, p, n);
        memory = (struct srp_desc) { n >= 16 ? be_get(p, 8) : 0,
                                     n >= 16 ? (uint32_t)be_get(p + 8, 4) : 0,
                                     n >= 16 ? (uint32_t)be_get(p + 12, 4) : 0 };
        switch (kind) {
        case LOGIN:
        case LOGIN_NATIVE:
                srp_channel_login(c, p, n, kind == LOGIN_NATIVE, found);
                (void)srp_login_likely(p, n);
                decide(&c->asked, what / KINDS);
                break;
        case ACCEPT:
                srp_channel_accept(c, p, n, found);
                break;
        case REJECT:
                srp_channel_reject(c, p, n, found);
                break;
        case SPOIL:
                spoil(c, b, p, n);
                sender = what / KINDS & 1 ? PARTY_HOST : PARTY_CONTROLLER;
                srp_channel_iu(c, sender, p, n, found);
                break;
        case IU_I:
        case IU_T:
                look_at(p, n, sender, srp_channel_immediate(c));
                look_into(p, n, srp_channel_immediate(c));
                srp_channel_iu(c, sender, p, n, found);
                break;
        case READ:
        case WRITE:
                srp_channel_transfer(c, kind == WRITE, &memory, found);
                break;
        case MISS:
                srp_channel_miss(c, (enum party)(what / KINDS & 1));
                break;
        case DOUBT:
                srp_channel_doubt(c, memory.addr);
                break;
        case KINDS:
                break;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static struct srp_channel c;
        struct fuzz_input b = bytes_of(input, size);

        srp_channel_init(&c);
        while (b.left > 0) {
                struct rule_set found = { 0 };

                one_message(&c, &b, &found);
                must(!rule_in(&found, RULE_NONE) && rule_next(&found, SRP_RULES - 1) == RULE_NONE);
                must(srp_channel_outstanding(&c) <= SRP_CHANNEL_REQUESTS);
                must(c.overfull || srp_channel_outstanding(&c) <= c.taken);
                must(srp_state_name(c.state) != NULL);
                must(srp_channel_limit(&c) == 0 || c.agreed);
        }
        srp_channel_close(&c);
        for (unsigned i = 0; srp_info_at(i); i++)
                must(srp_info((uint8_t)srp_info_at(i)->type) == srp_info_at(i));
        return 0;
}
