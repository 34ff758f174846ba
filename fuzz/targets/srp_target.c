/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's machine of an SRP channel between an initiator that says anything and an owner who keeps his contract:
 * what it posts stays within the queue and the memory that is lent to it, buffers, receives and commands go back once,
 * and what it says breaks no rule as long as the initiator breaks none.
 *
 * Input: bits (1 byte), the rule that it breaks on purpose (2 bytes, 0: none), then acts: which (1 byte), and what an act
 * is about: an IU as it is (its length, 2 bytes, and its bytes), a command (see say_cmd()), or a number (1 byte).
 */
#include "pdu/srp/machine/srp_target.h"
#include "fuzz/fuzz.h"
#include "pdu/srp/machine/channel.h"
#include "pdu/srp/machine/spoil.h"

#include <stdlib.h>

enum {
        RECVS = 16,
        IU = 512,
        IMM_AT = 68,
        LENT = 64,
        POSTED = 128,
        OUT_MAX = 1 << 14, /* bytes that a command needs, or returns */
};

enum act {
        SAY_RAW,
        SAY_CMD,
        SAY_CMD_AGAIN, /* commands come more often than all else */
        SAY_TSK_MGMT,
        SAY_CREDIT,
        SAY_LOGOUT,
        TAKE,
        COMPLETE,
        COMPLETE_MORE,
        FAIL,
        FINISH,
        ABORT,
        BUFFERS,
        LEAVE,
        ACTS,
};

struct recv {
        struct rdma_recv r; /* first */
        uint8_t p[IU];
        bool lent; /* to the machine */
        int64_t number;
};

static struct world {
        struct srp_target *t;
        struct srp_target_config cfg;
        struct fuzz_input in;
        struct recv recv[RECVS], *coming;
        struct verbs_wr *posted[POSTED];
        unsigned n_posted, reads;
        struct lent {
                uint8_t *p;
                uint32_t len;
        } lent[LENT];
        void *ius;
        bool starved, failed, over, lawless;
        unsigned begun, ended; /* commands */
        struct srp_channel channel;
        struct srp_watch watch;
        int64_t numbers;
} w;

static uint8_t any(void)
{
        return bytes_u8(&w.in);
}

/* --- who looks on ----------------------------------------------------------------------------- */

static void tell(void *user, enum srp_happening what, int64_t value)
{
        (void)user;
        if (what == SRP_HAS_REQUESTED && w.coming)
                w.coming->number = w.numbers++;
        srp_watch_tell(&w.watch, what, value, 0);
        must(w.watch.broken == SRP_INVARIANT_NONE);
}

/* What binds the other party ends all judging: the two may see things differently from there on. */
static void judge(const struct rule_set *found)
{
        rule_each_in (found, id)
                w.lawless |= srp_rule_get(id)->bound == PARTY_HOST;
        must(w.lawless || rule_set_empty(found));
}

static void heard(enum party sender, const void *p, uint32_t n)
{
        struct rule_set found = { 0 };

        srp_channel_iu(&w.channel, sender, p, n, &found);
        judge(&found);
}

static void moved_data(const struct verbs_wr *wr)
{
        const struct srp_desc memory = { wr->remote, wr->rkey, wr->sge[0].len };
        struct rule_set found = { 0 };

        srp_channel_transfer(&w.channel, wr->op == VERBS_WRITE, &memory, &found);
        judge(&found);
}

/* --- the owner: memory ------------------------------------------------------------------------ */

static bool is_within(const uint8_t *p, uint32_t n, const void *from, size_t len)
{
        const uint8_t *base = from;

        return p >= base && n <= len && (size_t)(p - base) <= len - n;
}

static struct lent *lent_of(const uint8_t *p, uint32_t n)
{
        for (unsigned i = 0; i < LENT; i++)
                if (w.lent[i].p && is_within(p, n, w.lent[i].p, w.lent[i].len))
                        return &w.lent[i];
        return NULL;
}

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        unsigned i = 0;

        (void)user;
        *lkey = 1;
        must(len > 0 && len <= OUT_MAX + SRP_TABLE_MAX + 64);
        while (i < LENT && w.lent[i].p)
                i++;
        if (w.starved || i == LENT)
                return NULL;
        w.lent[i] = (struct lent) { calloc(1, len), len };
        return w.lent[i].p;
}

/* Nobody writes to it any more, unless the queue pair has gone. */
static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        struct lent *l = lent_of(buf, len);

        (void)user;
        must(l && l->p == buf && l->len == len);
        for (unsigned i = 0; i < w.n_posted && !w.over; i++)
                must(!is_within(w.posted[i]->sge[0].addr, w.posted[i]->sge[0].len, buf, len));
        free(l->p);
        *l = (struct lent) { 0 };
}

static void recv_put(void *user, struct rdma_recv *rx)
{
        struct recv *r = (struct recv *)rx;

        (void)user;
        must(r >= w.recv && r < w.recv + RECVS && r->lent);
        r->lent = false;
}

static void *iu_memory(void *user, uint32_t bytes, uint32_t *lkey)
{
        (void)user;
        must(!w.ius);
        *lkey = 2;
        return w.ius = calloc(1, bytes);
}

static void iu_memory_put(void *user, void *memory, uint32_t bytes)
{
        (void)user;
        (void)bytes;
        must(memory == w.ius);
        free(w.ius);
        w.ius = NULL;
}

/* --- the owner: commands ---------------------------------------------------------------------- */

static void begins(struct srp_command *c)
{
        const struct recv *r = (const struct recv *)c->rx;

        must(r->lent && !c->user);
        tell(NULL, SRP_HAS_RUN, r->number);
        c->user = &w;
        w.begun++;
}

static bool admit(void *user, struct srp_command *c)
{
        uint8_t what = any();

        (void)user;
        begins(c);
        must(c->cdb_len >= SCSI_CDB_LEN &&
             is_within(c->cdb, c->cdb_len, ((struct recv *)c->rx)->p, c->rx->bytes));
        if (what % 16 == 0) {
                srp_command_check(c, &(struct scsi_sense) { .key = SCSI_ILLEGAL_REQUEST });
                return false;
        }
        if (c->out_size > 0 && what % 4)
                c->out_len = c->out_size < OUT_MAX ? c->out_size : OUT_MAX;
        else if (what % 4 > 1)
                c->in_max = 64u * (what >> 2);
        return true;
}

static void finish(struct srp_command *c)
{
        uint8_t what = any();

        if (c->type == SRP_TSK_MGMT)
                c->response = what % 2 ? SRP_TM_COMPLETE : SRP_TM_NOT_SUPPORTED;
        else if (what % 4 == 0)
                srp_command_check(c, &(struct scsi_sense) { .key = SCSI_ILLEGAL_REQUEST });
        else if (c->out_len == 0)
                c->in_len = what % 2 ? c->in_max : c->in_max / 2;
        srp_command_done(c);
}

static void execute(void *user, struct srp_command *c)
{
        (void)user;
        must(!w.over && c->step == SRP_STEP_EXECUTING && c->user == &w && !c->aborted);
        must(c->type == SRP_TSK_MGMT || c->done == c->out_len);
        must(c->out_len == 0 || lent_of(c->data, c->out_len) ||
             is_within(c->data, c->out_len, ((struct recv *)c->rx)->p, IU));
        if (any() % 2)
                finish(c);
}

static void manage(void *user, struct srp_command *c)
{
        begins(c);
        execute(user, c);
}

static void ended(void *user, struct srp_command *c)
{
        (void)user;
        must(c->user == &w);
        c->user = NULL;
        w.ended++;
}

static struct srp_command *nth(unsigned n)
{
        struct srp_command *c = srp_target_first(w.t);

        for (; c && n > 0; n--)
                c = srp_command_next(c);
        return c;
}

static void finish_any(unsigned n)
{
        struct srp_command *c = nth(n);

        if (c && c->step == SRP_STEP_EXECUTING)
                finish(c);
}

/* Task management goes its own way. */
static void abort_any(unsigned n)
{
        struct srp_command *c = nth(n);

        if (c && c->type == SRP_CMD && !c->aborted)
                srp_command_abort(c);
}

/* --- the queue pair --------------------------------------------------------------------------- */

static void look_at(const struct verbs_wr *wr)
{
        const struct verbs_sge *sge = &wr->sge[0];

        must(wr->n_sge == 1);
        for (unsigned i = 0; i < w.n_posted; i++)
                must(w.posted[i] != wr);
        if (wr->op == VERBS_SEND) {
                must(sge->len > 0 && sge->len <= SRP_IU_OUT);
                heard(PARTY_CONTROLLER, sge->addr, sge->len);
        } else {
                must(wr->op == VERBS_READ || wr->op == VERBS_WRITE);
                must(sge->len > 0 && lent_of(sge->addr, sge->len));
                moved_data(wr);
        }
        w.reads += wr->op == VERBS_READ;
        must(w.reads <= w.cfg.reads);
}

static void take(void)
{
        for (struct verbs_wr *wr = srp_target_take(w.t), *next; wr; wr = next) {
                next = wr->next;
                if (w.failed) /* its queue pair takes nothing any more */
                        continue;
                must(w.n_posted < POSTED);
                tell(NULL, SRP_HAS_POSTED, 1);
                look_at(wr);
                w.posted[w.n_posted++] = wr;
                must(w.n_posted <= w.cfg.send_wrs);
        }
}

/* What the initiator has in its memory: descriptors. */
static void fill(uint8_t *p, uint32_t n)
{
        uint32_t each = 1u + any();

        for (uint32_t i = 0; i + SRP_DESC_LEN <= n; i += SRP_DESC_LEN)
                srp_desc_put(p + i, &(struct srp_desc) { 0x100000 + i * 4096u, 9, each });
}

static struct verbs_wr *pop(void)
{
        struct verbs_wr *wr = w.posted[0];

        memmove(w.posted, w.posted + 1, --w.n_posted * sizeof(w.posted[0]));
        w.reads -= wr->op == VERBS_READ;
        return wr;
}

static void stop(void)
{
        tell(NULL, SRP_HAS_MOVED, LIFE_DRAINING);
        w.failed = true;
        srp_target_stop(w.t);
}

/* The oldest that is signaled, or has failed; those before it are done silently. */
static void complete(enum verbs_status status)
{
        while (w.n_posted > 0) {
                struct verbs_wr *wr = pop();
                struct verbs_wc wc = { .wr = wr, .status = w.failed ? VERBS_FLUSHED : status };

                if (wc.status == VERBS_SUCCESS && wr->op == VERBS_READ)
                        fill(wr->sge[0].addr, wr->sge[0].len);
                if (wc.status == VERBS_SUCCESS && !(wr->flags & VERBS_SIGNALED)) {
                        tell(NULL, SRP_HAS_COMPLETED, 0);
                        continue;
                }
                if (srp_target_completed(w.t, &wc) && !w.failed)
                        stop();
                return;
        }
}

/* --- the initiator ---------------------------------------------------------------------------- */

static void say(const void *p, uint32_t n)
{
        struct recv *r = w.recv;

        while (r < w.recv + RECVS && r->lent)
                r++;
        if (r == w.recv + RECVS || w.failed)
                return;
        memset(r->p, 0xee, sizeof(r->p));
        memcpy(r->p, p, n);
        r->r =
            (struct rdma_recv) { .wr = { .op = VERBS_RECV, .n_sge = 1, .sge = { { r->p, IU, 3 } } },
                                 .bytes = n };
        r->lent = true;
        r->number = -1;
        heard(PARTY_HOST, r->p, n);
        w.coming = r;
        switch (srp_target_received(w.t, &r->r)) {
        case SRP_GOES_ON:
                break;
        case SRP_LOGGED_OUT:
                stop();
                break;
        case SRP_AT_FAULT:
                must(w.lawless);
                must(srp_rule_get(srp_target_fault(w.t))->bound == PARTY_HOST);
                srp_target_logout(w.t, 0);
                break;
        }
        w.coming = NULL;
}

static uint32_t put_desc(uint8_t *p, uint32_t len)
{
        srp_desc_put(p, &(struct srp_desc) { 0x10000u * (1u + any() % 8), any(), len });
        return SRP_DESC_LEN;
}

/* A table of some entries, of which some are in line, or one more than there are. */
static uint32_t put_table(uint8_t *p, uint8_t *count)
{
        unsigned entries = any() % 8, each = any();
        uint32_t n = put_desc(p, entries * SRP_DESC_LEN + (each == 0)) + 4;

        *count = (uint8_t)(any() % (entries + 2));
        be_put(p + SRP_DESC_LEN, 4, entries * each);
        for (unsigned i = 0; i < *count; i++)
                n += put_desc(p + n, each);
        return n;
}

static uint32_t put_data(uint8_t *p, unsigned format, uint8_t *count)
{
        if (format == SRP_DIRECT)
                return put_desc(p, any() * 16u);
        return format == SRP_INDIRECT ? put_table(p, count) : 0;
}

/* Its tag, formats of both directions (2 bits each), attribute, additional CDB; then what put_data() asks for. */
static void say_cmd(void)
{
        uint8_t p[IU] = { 0 }, tag = any(), formats = any(), more = any();
        struct srp_cmd c = { .opcode = SRP_CMD, .tag = be64(tag), .cdb = { 0x28 } };
        unsigned out = formats & 3, in = formats >> 2 & 3;
        uint32_t n = sizeof(c);

        c.buf_fmt = (uint8_t)(out << 4 | in);
        c.attr = more & 3;
        c.sol_not = formats >> 4 & (SRP_SCSOLNT | SRP_UCSOLNT);
        c.add_cdb_len = more >> 7 ? 16 : 0;
        n += c.add_cdb_len;
        n += put_data(p + n, out, &c.out_count);
        n += put_data(p + n, in, &c.in_count);
        if (out == SRP_IMMEDIATE_DATA) {
                be_put(p + n, 4, any());
                n = IMM_AT + 200;
        }
        memcpy(p, &c, sizeof(c));
        say(p, n);
}

static void say_raw(void)
{
        uint8_t p[IU];
        uint32_t n = bytes_u16(&w.in) % (IU + 1u);

        n = n < w.in.left ? n : (uint32_t)w.in.left;
        bytes_copy(&w.in, p, n);
        say(p, n);
}

static void say_tsk_mgmt(void)
{
        struct srp_tsk_mgmt m = { .opcode = SRP_TSK_MGMT,
                                  .tag = be64(any()),
                                  .function = (uint8_t)(1u << any() % 8),
                                  .task_tag = be64(any()) };

        say(&m, sizeof(m));
}

static void say_tag(uint8_t type)
{
        const struct srp_logout iu = { .opcode = type, .tag = be64(any() % 4) };

        say(&iu, sizeof(iu));
}

/* --- all of it -------------------------------------------------------------------------------- */

static void one_act(void)
{
        switch ((enum act)(any() % ACTS)) {
        case SAY_RAW:
                say_raw();
                break;
        case SAY_CMD:
        case SAY_CMD_AGAIN:
                say_cmd();
                break;
        case SAY_TSK_MGMT:
                say_tsk_mgmt();
                break;
        case SAY_CREDIT:
                say_tag(SRP_CRED_RSP);
                break;
        case SAY_LOGOUT:
                say_tag(SRP_I_LOGOUT);
                break;
        case TAKE:
                take();
                break;
        case COMPLETE:
        case COMPLETE_MORE:
                complete(VERBS_SUCCESS);
                break;
        case FAIL:
                complete(VERBS_REMOTE_ACCESS);
                break;
        case FINISH:
                finish_any(any() % 8);
                break;
        case ABORT:
                abort_any(any() % 8);
                break;
        case BUFFERS:
                w.starved = !w.starved;
                srp_target_feed(w.t);
                break;
        case LEAVE:
                if (any() % 8 == 0)
                        srp_target_logout(w.t, 0);
                break;
        case ACTS:
                break;
        }
}

static void log_in(void)
{
        struct rule_set unused = { 0 };

        srp_channel_init(&w.channel);
        srp_channel_login(&w.channel, &w.cfg.asked, sizeof(w.cfg.asked), true, &unused);
        srp_channel_accept(&w.channel, &w.cfg.granted, sizeof(w.cfg.granted), &unused);
        srp_watch_init(&w.watch, NULL, 0);
        tell(NULL, SRP_HAS_REGISTERED, 0);
        tell(NULL, SRP_HAS_ACCEPTED, 0);
        tell(NULL, SRP_HAS_MOVED, LIFE_LIVE);
}

static void set_up(const struct rule_policy *policy)
{
        unsigned bits = any();
        uint8_t flags = (uint8_t)(bits & 1 ? SRP_IMMEDIATE : 0);

        w.cfg = (struct srp_target_config) {
                .asked = { .opcode = SRP_LOGIN_REQ,
                           .tag = be64(1),
                           .req_it_iu_len = be32(IU),
                           .req_buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                           .req_flags = flags,
                           .imm_data_offset = be16(flags ? IMM_AT : 0) },
                .granted = { .opcode = SRP_LOGIN_RSP,
                             .req_lim_delta = be32(2 + (bits >> 1 & 3) * 2),
                             .tag = be64(1),
                             .max_it_iu_len = be32(IU),
                             .max_ti_iu_len = be32(SRP_IU_OUT),
                             .buf_fmt = be16(bits & 8 ? SRP_FORMAT_DIRECT
                                                      : SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                             .rsp_flags = flags },
                .send_wrs = bits & 16 ? 8 : 40,
                .reads = bits >> 5 & 3,
                .inline_bytes = bits & 128 ? SRP_IU_OUT : 0,
                .policy = policy,
        };
}

/* The queue pair is drained, or gone; what executes may end before or after. */
static void end(bool early)
{
        struct srp_command *c;

        if (!w.failed)
                stop();
        while (w.n_posted > 0 && early)
                complete(VERBS_FLUSHED);
        tell(NULL, SRP_HAS_MOVED, LIFE_DEAD);
        w.over = true;
        srp_target_end(w.t);
        must(!srp_target_take(w.t));
        while (srp_target_executing(w.t) > 0)
                for (c = srp_target_first(w.t); c; c = srp_command_next(c))
                        if (c->step == SRP_STEP_EXECUTING) {
                                finish(c);
                                break;
                        }
        must(!srp_target_first(w.t) && w.begun == w.ended);
        srp_target_free(w.t);
        must(!w.ius);
        for (unsigned i = 0; i < LENT; i++)
                must(!w.lent[i].p);
        for (unsigned i = 0; i < RECVS; i++)
                must(!w.recv[i].lent);
        must(w.watch.awaiting == 0 && w.watch.refs == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static const struct srp_target_ops ops = { .admit = admit,
                                                   .execute = execute,
                                                   .manage = manage,
                                                   .ended = ended,
                                                   .buffer_get = buffer_get,
                                                   .buffer_put = buffer_put,
                                                   .recv_put = recv_put,
                                                   .iu_memory = iu_memory,
                                                   .iu_memory_put = iu_memory_put,
                                                   .tell = tell };
        struct rule_policy policy = { 0 };
        unsigned rule;

        memset(&w, 0, sizeof(w));
        w.in = bytes_of(input, size);
        set_up(&policy);
        rule = bytes_u16(&w.in) % SRP_RULES;
        if (rule != SRP_RULE_NONE && srp_spoil_kinds((enum srp_rule)rule) != 0) {
                rule_add(&policy.violated, rule);
                w.lawless = true;
        }
        log_in();
        w.t = srp_target_new(&w.cfg, &ops, NULL);
        must(w.t);
        while (w.in.left > 0)
                one_act();
        end(size % 2);
        return 0;
}
