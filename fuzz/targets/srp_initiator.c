/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The initiator's machine of an SRP channel and a target that says anything: each request has one end, what is sent
 * stays within the memory that it has, the request limit and the depth, and breaks no rule as long as the target breaks
 * none.
 *
 * Input: bits (1 byte), the rule that it breaks on purpose (2 bytes, 0: none), what was granted (limit and the longest IU
 * of the target, 2 bytes each), then acts: which (1 byte), and what an act is about: an IU as it is (its length, 2 bytes,
 * and its bytes), a response (see answer()), or a request (see submit()).
 */
#include "pdu/srp/machine/srp_initiator.h"
#include "fuzz/fuzz.h"
#include "pdu/srp/machine/channel.h"
#include "pdu/srp/machine/spoil.h"

#include <stdlib.h>

enum {
        DEPTH = 4,
        REQUESTS = 8,
        IMM_AT = 68,
        DATA = 4096,
        KEY = 0x1234,
        POSTED = 64,
        SENT_MAX = 1 << 14,
        IU_MAX = 320, /* of the target */
};

enum act {
        SUBMIT,
        SUBMIT_MORE,
        MANAGE,
        LOG_OUT,
        SEND,
        SENT,
        SENT_BADLY,
        ANSWER,
        ANSWER_MORE,
        RAW,
        ASK, /* SRP_CRED_REQ, SRP_AER_REQ */
        LEAVE,
        ACTS,
};

static struct world {
        struct srp_initiator *i;
        struct srp_initiator_config cfg;
        struct fuzz_input in;
        struct srp_channel channel;
        uint8_t *memory, data[DATA + 64]; /* keys are known of the first DATA */
        size_t bytes;
        struct srp_request_out request[REQUESTS];
        bool busy[REQUESTS];
        unsigned outstanding, commands;
        struct verbs_wr *posted[POSTED], *recv; /* recv: posted */
        unsigned n_posted, recvs;
        uint64_t tag[16]; /* that were sent, the last ones */
        unsigned tags;
        bool lawless, failed;
} w;

static uint8_t any(void)
{
        return bytes_u8(&w.in);
}

/* --- who looks on ----------------------------------------------------------------------------- */

static void judge(const struct rule_set *found)
{
        rule_each_in (found, id)
                w.lawless |= srp_rule_get(id)->bound == PARTY_CONTROLLER;
        must(w.lawless || rule_set_empty(found));
}

static void heard(enum party sender, const void *p, uint32_t n)
{
        struct rule_set found = { 0 };

        srp_channel_iu(&w.channel, sender, p, n, &found);
        judge(&found);
}

/* --- the owner -------------------------------------------------------------------------------- */

static void *get_memory(void *user, size_t bytes, uint32_t *lkey, uint32_t *rkey)
{
        (void)user;
        must(!w.memory);
        *lkey = 1;
        *rkey = 2;
        w.bytes = bytes;
        return w.memory = calloc(1, bytes);
}

static bool keys(void *user, const void *data, uint32_t len, uint32_t *rkey)
{
        const uint8_t *p = data;

        (void)user;
        *rkey = KEY;
        return p >= w.data && len <= DATA && p - w.data <= DATA - (int64_t)len;
}

static void done(struct srp_request_out *r, void *user)
{
        unsigned n = (unsigned)(r - w.request);

        (void)user;
        must(n < REQUESTS && w.busy[n]);
        must(r->outcome == SRP_DONE || w.failed);
        w.busy[n] = false;
        w.outstanding--;
        w.commands -= !r->function;
}

static struct srp_request_out *free_request(void)
{
        for (unsigned i = 0; i < REQUESTS; i++)
                if (!w.busy[i])
                        return &w.request[i];
        return NULL;
}

static void hand_in(struct srp_request_out *r)
{
        if (srp_initiator_submit(w.i, r) < 0)
                return;
        must(!w.failed);
        w.busy[r - w.request] = true;
        w.outstanding++;
        w.commands += !r->function;
        must(w.commands <= DEPTH);
        w.tag[w.tags++ % 16] = r->tag;
}

/* Direction and form (2 bits each), length (2 bytes), pieces, attribute. */
static void submit(void)
{
        struct srp_request_out *r = free_request();
        uint8_t what = any();

        if (!r)
                return;
        *r = (struct srp_request_out) { .cdb = { what },
                                        .lun = scsi_lun_of(1),
                                        .direction = (enum srp_direction)((what & 3) % 3),
                                        .form = (enum srp_form)(what >> 2 & 3),
                                        .data = w.data,
                                        .len = bytes_u16(&w.in) % (DATA + 64),
                                        .pieces = any() % 80,
                                        .done = done };
        r->attr = any() & 3 ? SRP_SIMPLE : SRP_ORDERED;
        hand_in(r);
}

static void manage(void)
{
        struct srp_request_out *r = free_request();

        if (!r)
                return;
        *r = (struct srp_request_out) { .function = SRP_TM_ABORT_TASK,
                                        .lun = scsi_lun_of(1),
                                        .task_tag = w.tag[any() % 16],
                                        .done = done };
        hand_in(r);
}

/* --- the queue pair --------------------------------------------------------------------------- */

static bool is_ours(const struct verbs_sge *sge)
{
        const uint8_t *p = sge->addr;

        return p >= w.memory && sge->len <= w.bytes && (size_t)(p - w.memory) <= w.bytes - sge->len;
}

static void post_recvs(void)
{
        for (struct verbs_wr *wr = srp_initiator_take_recvs(w.i), *next; wr; wr = next) {
                next = wr->next;
                must(wr->op == VERBS_RECV && wr->n_sge == 1 && is_ours(&wr->sge[0]));
                wr->next = w.recv;
                w.recv = wr;
                w.recvs++;
        }
        must(w.recvs <= srp_initiator_receives(DEPTH));
}

static void send_all(void)
{
        post_recvs();
        for (struct verbs_wr *wr = srp_initiator_take(w.i), *next; wr; wr = next) {
                next = wr->next;
                must(wr->op == VERBS_SEND && wr->n_sge == 1 && is_ours(&wr->sge[0]));
                for (unsigned i = 0; i < w.n_posted; i++)
                        must(w.posted[i] != wr);
                if (w.failed)
                        continue;
                must(w.n_posted < POSTED);
                w.posted[w.n_posted++] = wr;
                must(w.n_posted <= srp_initiator_sends(DEPTH));
                heard(PARTY_HOST, wr->sge[0].addr, wr->sge[0].len);
        }
}

static void fail(void)
{
        w.failed = true;
        srp_initiator_fail_all(w.i);
        must(w.outstanding == 0);
}

static void completed(const struct verbs_wc *wc)
{
        if (srp_initiator_completed(w.i, wc) && !w.failed)
                fail();
}

static void send_done(enum verbs_status status)
{
        struct verbs_wc wc = { .status = w.failed ? VERBS_FLUSHED : status };

        if (w.n_posted == 0)
                return;
        wc.wr = w.posted[0];
        memmove(w.posted, w.posted + 1, --w.n_posted * sizeof(w.posted[0]));
        completed(&wc);
}

/* --- the target ------------------------------------------------------------------------------- */

static void say(const void *p, uint32_t n)
{
        struct verbs_wr *wr = w.recv;
        struct verbs_wc wc = { .bytes = n };
        uint32_t reason;

        if (!wr || w.failed || n > wr->sge[0].len)
                return;
        send_all(); /* who hands a request in posts it at once */
        wc.wr = wr = w.recv;
        w.recv = wr->next;
        w.recvs--;
        memcpy(wr->sge[0].addr, p, n);
        heard(PARTY_CONTROLLER, p, n);
        completed(&wc);
        if (srp_initiator_fault(w.i) != SRP_RULE_NONE)
                must(w.failed && w.lawless);
        must(w.failed || !srp_initiator_is_left(w.i, &reason));
}

static void say_raw(void)
{
        uint8_t p[IU_MAX];
        uint32_t n = bytes_u16(&w.in) % (IU_MAX + 1u);

        n = n < w.in.left ? n : (uint32_t)w.in.left;
        bytes_copy(&w.in, p, n);
        say(p, n);
}

/* To one of the last tags, or to none: delta, flags, what follows. */
static void answer(void)
{
        uint8_t p[IU_MAX] = { 0 }, which = any(), flags = any(), delta = any();
        struct srp_rsp r = { .opcode = SRP_RSP,
                             .req_lim_delta =
                                 be32(delta == 255 ? INT32_MAX : (uint32_t)(int8_t)delta),
                             .tag = be64(w.tag[which % 16] ^ (which >> 7)),
                             .flags = flags & 0x3f,
                             .status = (uint8_t)(flags & SRP_SNSVALID ? SRP_CHECK_CONDITION : 0),
                             .out_residual = be32(flags & SRP_DOUNDER ? any() : 0),
                             .in_residual = be32(flags & SRP_DIUNDER ? any() : 0),
                             .sense_len = be32(flags & SRP_SNSVALID ? SCSI_SENSE_LEN : 0),
                             .resp_len = be32(flags & SRP_RSPVALID ? 4 : 0) };

        memcpy(p, &r, sizeof(r));
        p[sizeof(r) + 3] = any();
        say(p, (uint32_t)sizeof(r) + be32_get(r.sense_len) + be32_get(r.resp_len));
}

static void ask(void)
{
        uint8_t what = any();
        const struct srp_cred_req c = { .opcode = SRP_CRED_REQ,
                                        .req_lim_delta = be32(what >> 4),
                                        .tag = be64(what & 7) };
        const struct srp_aer_req a = { .opcode = SRP_AER_REQ, .tag = be64(what & 7) };

        if (what & 8)
                say(&a, sizeof(a));
        else
                say(&c, sizeof(c));
}

static void leave(void)
{
        const struct srp_t_logout iu = { .opcode = SRP_T_LOGOUT, .reason = be32(any() % 8) };

        if (any() % 8 == 0)
                say(&iu, sizeof(iu));
}

/* --- all of it -------------------------------------------------------------------------------- */

static void one_act(void)
{
        switch ((enum act)(any() % ACTS)) {
        case SUBMIT:
        case SUBMIT_MORE:
                submit();
                break;
        case MANAGE:
                manage();
                break;
        case LOG_OUT:
                if (any() % 8 == 0 && !w.failed) {
                        srp_initiator_logout(w.i);
                        w.lawless = true; /* what its owner sends after it is his business */
                }
                break;
        case SEND:
                send_all();
                break;
        case SENT:
                send_done(VERBS_SUCCESS);
                break;
        case SENT_BADLY:
                send_done(VERBS_RETRY_EXCEEDED);
                break;
        case ANSWER:
        case ANSWER_MORE:
                answer();
                break;
        case RAW:
                say_raw();
                break;
        case ASK:
                ask();
                break;
        case LEAVE:
                leave();
                break;
        case ACTS:
                break;
        }
}

static void set_up(const struct rule_policy *policy, unsigned bits)
{
        uint32_t it_iu = bits & 6 ? SENT_MAX / 2 : 64 + (bits >> 3) * 8, ti_iu = 36 + any();
        uint8_t flags = (uint8_t)(bits & 1 ? SRP_IMMEDIATE : 0);
        struct rule_set unused = { 0 };

        w.cfg = (struct srp_initiator_config) {
                .asked = { .opcode = SRP_LOGIN_REQ,
                           .tag = be64(1),
                           .req_it_iu_len = be32(it_iu),
                           .req_buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                           .req_flags = flags,
                           .imm_data_offset = be16(flags ? IMM_AT : 0) },
                .granted = { .opcode = SRP_LOGIN_RSP,
                             .req_lim_delta = be32(2 + any() % 16),
                             .tag = be64(1),
                             .max_it_iu_len = be32(it_iu),
                             .max_ti_iu_len = be32(ti_iu),
                             .buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                             .rsp_flags = flags },
                .depth = DEPTH,
                .inline_bytes = bits & 128 ? 64 : 0,
                .policy = policy,
        };
        srp_channel_init(&w.channel);
        srp_channel_login(&w.channel, &w.cfg.asked, sizeof(w.cfg.asked), true, &unused);
        srp_channel_accept(&w.channel, &w.cfg.granted, sizeof(w.cfg.granted), &unused);
}

static void end(void)
{
        if (!w.failed)
                fail();
        send_all();
        while (w.n_posted > 0)
                send_done(VERBS_FLUSHED);
        must(w.outstanding == 0 && w.commands == 0);
        srp_initiator_free(w.i);
        free(w.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static const struct srp_initiator_ops ops = { get_memory, keys };
        struct rule_policy policy = { 0 };
        unsigned bits, rule;

        memset(&w, 0, sizeof(w));
        w.in = bytes_of(input, size);
        bits = any();
        rule = bytes_u16(&w.in) % SRP_RULES;
        if (rule != SRP_RULE_NONE && srp_spoil_kinds((enum srp_rule)rule) != 0) {
                rule_add(&policy.violated, rule);
                w.lawless = true;
        }
        set_up(&policy, bits);
        w.i = srp_initiator_new(&w.cfg, &ops, NULL);
        must(w.i);
        while (w.in.left > 0)
                one_act();
        end();
        return 0;
}
