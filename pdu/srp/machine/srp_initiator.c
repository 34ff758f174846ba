/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_initiator.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/bytes.h"
#include "spoil.h"

enum {
        KEPT = 1, /* of the limit: for task management */
        TM_SLOTS = 2,
        ANSWERS = 4, /* to requests of the target, and the logout, at a time */
        RECVS_MORE = 4,
        TABLE_BYTES = SRP_PIECES_MAX * SRP_DESC_LEN,
        IU_LEAST = 256,
        ALIGN = 64,
};

struct slot { /* of a request */
        struct slot *next;
        struct srp_request_out *request; /* NULL: free, or given up */
        uint64_t tag;
        struct verbs_wr wr, again;
        uint8_t *iu, *table;
        unsigned out; /* SENDs that have not completed */
        bool answered;
};

struct answer { /* an IU without request: SRP_CRED_RSP, SRP_AER_RSP, SRP_I_LOGOUT */
        struct verbs_wr wr, again;
        uint8_t *iu;
        unsigned out;
};

struct srp_initiator {
        struct srp_initiator_config cfg;
        struct srp_initiator_ops ops;
        void *user;
        const struct rule_set *waived, *violated;
        uint32_t imm_at, it_max, iu_bytes,
            ti_bytes;        /* it_max: that may be sent; iu_bytes: that there is room for */
        uint32_t lkey, rkey; /* of its memory */
        struct slot *slots, *free;
        unsigned count, commands; /* slots; outstanding, without task management */
        uint64_t generation;
        struct answer answer[ANSWERS];
        struct rdma_recv *recvs;
        struct verbs_wr *recv_chain;
        struct verbs_wr *chain, **chain_last;
        int64_t limit;
        bool left, over; /* the target has logged out; nothing is sent any more */
        uint32_t reason;
        enum srp_rule fault;
};

uint32_t srp_initiator_sends(unsigned depth)
{
        return 2 * (depth + TM_SLOTS + ANSWERS); /* what is violated may be sent twice */
}

uint32_t srp_initiator_receives(unsigned depth)
{
        return depth + TM_SLOTS + RECVS_MORE;
}

/* --- what is sent ----------------------------------------------------------------------------- */

static void chain(struct srp_initiator *i, struct verbs_wr *wr)
{
        wr->next = NULL;
        *i->chain_last = wr;
        i->chain_last = &wr->next;
}

/* An IU of n bytes; how many work requests it takes. */
static unsigned send_iu(struct srp_initiator *i, uint8_t *iu, uint32_t n, struct verbs_wr *wr,
                        struct verbs_wr *again, void *user)
{
        struct srp_spoil s = { .iu = iu, .len = n, .asked = &i->cfg.asked };

        if (i->violated)
                (void)srp_spoil(i->violated, &s);
        *wr = (struct verbs_wr) { .op = VERBS_SEND,
                                  .flags = VERBS_SIGNALED,
                                  .n_sge = 1,
                                  .sge = { { iu, s.len, i->lkey } },
                                  .user = user };
        if (s.len <= i->cfg.inline_bytes)
                wr->flags |= VERBS_INLINE;
        chain(i, wr);
        if (!s.twice)
                return 1;
        *again = *wr;
        chain(i, again);
        return 2;
}

static void put_data(struct srp_cmd *c, enum srp_direction direction, enum srp_format format,
                     unsigned count)
{
        if (direction == SRP_OUT) {
                c->buf_fmt = (uint8_t)(format << 4);
                c->out_count = (uint8_t)count;
        } else {
                c->buf_fmt = (uint8_t)format;
                c->in_count = (uint8_t)count;
        }
}

/* Pieces of about the same length, the last one has what is left. */
static void put_table(const struct srp_request_out *r, uint32_t rkey, uint8_t *table, unsigned n)
{
        uint32_t each = r->len / n, at = 0;

        for (unsigned k = 0; k < n; k++) {
                uint32_t len = k + 1 < n ? each : r->len - at;
                struct srp_desc d = { (uintptr_t)r->data + at, rkey, len };

                srp_desc_put(table + k * SRP_DESC_LEN, &d);
                at += len;
        }
}

static unsigned pieces_of(const struct srp_initiator *i, const struct srp_request_out *r)
{
        unsigned n = r->pieces ? r->pieces : 2, room = SRP_PIECES_MAX;
        uint32_t head = sizeof(struct srp_cmd) + SRP_TABLE_LEN;

        if (i->it_max < head + SRP_DESC_LEN)
                return 0;
        if (r->form == SRP_FORM_INDIRECT)
                room = i->it_max > head ? (i->it_max - head) / SRP_DESC_LEN : 0;
        n = least(n, least(room, SRP_PIECES_MAX));
        return least(n, r->len);
}

/* A table descriptor at `at`, and as many entries of the table as are to be in line. */
static uint32_t put_indirect(const struct srp_initiator *i, const struct srp_request_out *r,
                             struct slot *s, uint8_t *at, uint32_t rkey, unsigned n,
                             unsigned in_line)
{
        struct srp_desc table = { (uintptr_t)s->table, i->rkey, n * SRP_DESC_LEN };

        put_table(r, rkey, s->table, n);
        srp_desc_put(at, &table);
        be_put(at + SRP_DESC_LEN, 4, r->len);
        memcpy(at + SRP_TABLE_LEN, s->table, in_line * SRP_DESC_LEN);
        return SRP_TABLE_LEN + in_line * SRP_DESC_LEN;
}

static bool fits_in_line(const struct srp_initiator *i, const struct srp_request_out *r)
{
        return r->form == SRP_FORM_IMMEDIATE && r->direction == SRP_OUT && i->imm_at > 0 &&
               i->imm_at <= i->it_max && r->len <= i->it_max - i->imm_at;
}

static uint32_t put_immediate(struct srp_initiator *i, const struct srp_request_out *r,
                              struct slot *s, struct srp_cmd *c)
{
        put_data(c, SRP_OUT, SRP_IMMEDIATE_DATA, 0);
        memset(s->iu + sizeof(*c), 0, i->imm_at - sizeof(*c));
        be_put(s->iu + sizeof(*c), 4, r->len);
        memcpy(s->iu + i->imm_at, r->data, r->len);
        return i->imm_at + r->len;
}

/* 0: the memory is not known. */
static uint32_t put_memory(struct srp_initiator *i, const struct srp_request_out *r, struct slot *s,
                           struct srp_cmd *c)
{
        bool table = r->form == SRP_FORM_INDIRECT || r->form == SRP_FORM_EXTERNAL;
        unsigned pieces = table ? pieces_of(i, r) : 0;
        unsigned in_line = r->form == SRP_FORM_EXTERNAL ? 1 : pieces;
        struct srp_desc d = { (uintptr_t)r->data, 0, r->len };
        uint8_t *at = s->iu + sizeof(*c);

        if (!i->ops.keys(i->user, r->data, r->len, &d.key))
                return 0;
        if (pieces > 0) {
                put_data(c, r->direction, SRP_INDIRECT, in_line);
                return sizeof(*c) + put_indirect(i, r, s, at, d.key, pieces, in_line);
        }
        put_data(c, r->direction, SRP_DIRECT, 0);
        srp_desc_put(at, &d);
        return sizeof(*c) + SRP_DESC_LEN;
}

/* Bytes of the IU; 0: the memory is not known. */
static uint32_t build_cmd(struct srp_initiator *i, const struct srp_request_out *r, struct slot *s)
{
        struct srp_cmd c = {
                .opcode = SRP_CMD, .tag = be64(r->tag), .lun = be64(r->lun), .attr = r->attr
        };
        uint32_t n = sizeof(c);

        memcpy(c.cdb, r->cdb, sizeof(c.cdb));
        if (r->direction != SRP_NOTHING && r->len > 0)
                n = fits_in_line(i, r) ? put_immediate(i, r, s, &c) : put_memory(i, r, s, &c);
        memcpy(s->iu, &c, sizeof(c));
        return n;
}

static uint32_t build_tsk_mgmt(const struct srp_request_out *r, struct slot *s)
{
        struct srp_tsk_mgmt t = { .opcode = SRP_TSK_MGMT,
                                  .tag = be64(r->tag),
                                  .lun = be64(r->lun),
                                  .function = r->function,
                                  .task_tag = be64(r->task_tag) };

        memcpy(s->iu, &t, sizeof(t));
        return sizeof(t);
}

/* One credit is kept for task management. */
static bool may_send(const struct srp_initiator *i, const struct srp_request_out *r)
{
        if (i->over || i->left || i->fault != SRP_RULE_NONE || !i->free)
                return false;
        return r->function ? i->limit > 0 : i->limit > KEPT && i->commands < i->cfg.depth;
}

int srp_initiator_submit(struct srp_initiator *i, struct srp_request_out *r)
{
        struct slot *s = i->free;
        uint32_t n;

        if (!may_send(i, r))
                return -1;
        r->tag = ++i->generation << 16 | (uint64_t)(s - i->slots);
        n = r->function ? build_tsk_mgmt(r, s) : build_cmd(i, r, s);
        if (n == 0)
                return -1;
        i->free = s->next;
        s->request = r;
        s->tag = r->tag;
        s->answered = false;
        i->commands += !r->function;
        i->limit--;
        s->out = send_iu(i, s->iu, n, &s->wr, &s->again, s);
        return 0;
}

static struct answer *free_answer(struct srp_initiator *i)
{
        for (unsigned k = 0; k < ANSWERS; k++)
                if (i->answer[k].out == 0)
                        return &i->answer[k];
        return NULL;
}

/* False: there are too many already. */
static bool say(struct srp_initiator *i, uint8_t type, be64_t tag)
{
        struct answer *a = free_answer(i);
        struct srp_logout iu = { .opcode = type, .tag = tag };

        if (!a || i->over)
                return false;
        memcpy(a->iu, &iu, sizeof(iu));
        a->out = send_iu(i, a->iu, sizeof(iu), &a->wr, &a->again, NULL);
        return true;
}

void srp_initiator_logout(struct srp_initiator *i)
{
        (void)say(i, SRP_I_LOGOUT, be64(++i->generation << 16 | 0xffff));
}

struct verbs_wr *srp_initiator_take(struct srp_initiator *i)
{
        struct verbs_wr *first = i->chain;

        i->chain = NULL;
        i->chain_last = &i->chain;
        return first;
}

struct verbs_wr *srp_initiator_take_recvs(struct srp_initiator *i)
{
        struct verbs_wr *first = i->recv_chain;

        i->recv_chain = NULL;
        return first;
}

bool srp_initiator_wants_post(const struct srp_initiator *i)
{
        return i->chain || i->recv_chain;
}

/* --- what comes ------------------------------------------------------------------------------- */

/* Free once both its response and the completion of its SEND are there. */
static void put_slot(struct srp_initiator *i, struct slot *s)
{
        if (s->out > 0 || !s->answered)
                return;
        s->next = i->free;
        i->free = s;
}

static bool breaks(struct srp_initiator *i, bool broken, enum srp_rule rule)
{
        if (!broken || rule_in(i->waived, rule))
                return false;
        i->fault = rule;
        return true;
}

static struct slot *find(struct srp_initiator *i, uint64_t tag)
{
        uint64_t at = tag & 0xffff;
        struct slot *s = at < i->count ? &i->slots[at] : NULL;

        return s && s->request && s->tag == tag ? s : NULL;
}

/* Never beyond what a limit can be. */
static void take_delta(struct srp_initiator *i, be32_t delta)
{
        i->limit += (int32_t)be32_get(delta);
        if (i->limit > INT32_MAX)
                i->limit = INT32_MAX;
}

static int64_t residual(uint8_t flags, uint8_t over, uint8_t under, be32_t count)
{
        return flags & under  ? (int64_t)be32_get(count)
               : flags & over ? -(int64_t)be32_get(count)
                              : 0;
}

static void fill_in(struct srp_request_out *r, const struct srp_rsp *rsp, const uint8_t *p,
                    const struct srp_rsp_parts *parts)
{
        r->outcome = SRP_DONE;
        r->status = rsp->status;
        r->has_response = parts->resp_len >= 4;
        r->response = r->has_response ? p[parts->resp_at + 3] : 0;
        r->has_sense = parts->sense_len > 0 &&
                       scsi_sense_get(p + parts->sense_at, parts->sense_len, &r->sense);
        r->out_residual = residual(rsp->flags, SRP_DOOVER, SRP_DOUNDER, rsp->out_residual);
        r->in_residual = residual(rsp->flags, SRP_DIOVER, SRP_DIUNDER, rsp->in_residual);
}

static bool take_rsp(struct srp_initiator *i, const struct srp_rsp *rsp, const uint8_t *p,
                     uint32_t n)
{
        struct slot *s = find(i, be64_get(rsp->tag));
        struct rule_set unused = { 0 };
        struct srp_rsp_parts parts;
        struct srp_request_out *r;

        take_delta(i, rsp->req_lim_delta);
        if (breaks(i, !s, SRP_TAG_RESPONSE))
                return false;
        if (!s)
                return true;
        if (!srp_rsp_read(p, n, &parts, &unused) && rsp->flags & SRP_SNSVALID)
                parts = (struct srp_rsp_parts) { .sense_at = sizeof(*rsp),
                                                 .sense_len = n - (uint32_t)sizeof(*rsp) };
        r = s->request;
        s->request = NULL;
        s->answered = true;
        i->commands -= !r->function;
        put_slot(i, s);
        fill_in(r, rsp, p, &parts);
        r->done(r, r->user);
        return true;
}

/* Rules that are our own reading end nothing. */
static bool breaks_alone(struct srp_initiator *i, const uint8_t *p, uint32_t n)
{
        struct rule_set found = { 0 };

        srp_check(p, n, PARTY_CONTROLLER, 0, &found);
        rule_each_in (&found, id)
                if (breaks(i, rule_grade(srp_rule_get(id)) == GRADE_MUST, (enum srp_rule)id))
                        return true;
        return false;
}

/* False: the channel has to end. */
static bool take_iu(struct srp_initiator *i, const uint8_t *p, uint32_t n)
{
        union srp_iu iu;

        if (breaks_alone(i, p, n))
                return false;
        if (!srp_read(p, n, &iu))
                return true; /* a rule that is waived */
        switch (iu.opcode) {
        case SRP_RSP:
                return take_rsp(i, &iu.rsp, p, n);
        case SRP_CRED_REQ:
                take_delta(i, iu.cred_req.req_lim_delta);
                return say(i, SRP_CRED_RSP, iu.cred_req.tag);
        case SRP_AER_REQ:
                take_delta(i, iu.aer_req.req_lim_delta);
                return say(i, SRP_AER_RSP, iu.aer_req.tag);
        case SRP_T_LOGOUT:
                i->left = true;
                i->reason = be32_get(iu.t_logout.reason);
                return false;
        default:
                return true;
        }
}

static void put_recv(struct srp_initiator *i, struct verbs_wr *wr)
{
        wr->next = i->recv_chain;
        i->recv_chain = wr;
}

static bool sent(struct srp_initiator *i, const struct verbs_wc *wc)
{
        struct slot *s = wc->wr->user;

        for (unsigned k = 0; k < ANSWERS; k++)
                if (wc->wr == &i->answer[k].wr || wc->wr == &i->answer[k].again)
                        i->answer[k].out--;
        if (s) {
                s->out--;
                if (wc->status == VERBS_SUCCESS)
                        put_slot(i, s);
        }
        return wc->status != VERBS_SUCCESS;
}

bool srp_initiator_completed(struct srp_initiator *i, const struct verbs_wc *wc)
{
        bool ok;

        if (wc->wr->op != VERBS_RECV)
                return sent(i, wc);
        if (wc->status != VERBS_SUCCESS || i->over)
                return wc->status != VERBS_SUCCESS;
        ok = take_iu(i, wc->wr->sge[0].addr, wc->bytes);
        put_recv(i, wc->wr);
        return !ok;
}

enum srp_rule srp_initiator_fault(const struct srp_initiator *i)
{
        return i->fault;
}

bool srp_initiator_is_left(const struct srp_initiator *i, uint32_t *reason)
{
        *reason = i->reason;
        return i->left;
}

void srp_initiator_fail_all(struct srp_initiator *i)
{
        i->over = true;
        for (unsigned k = 0; k < i->count; k++) {
                struct srp_request_out *r = i->slots[k].request;

                if (!r)
                        continue;
                i->slots[k].request = NULL;
                i->commands -= !r->function;
                r->outcome = SRP_LOST;
                r->done(r, r->user);
        }
}

/* --- from the beginning to the end ------------------------------------------------------------ */

static uint32_t aligned(uint32_t n)
{
        return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* All IUs and tables are one piece of memory: requests, answers, receives. */
static bool share_memory(struct srp_initiator *i)
{
        uint32_t each = aligned(i->iu_bytes) + TABLE_BYTES,
                 recvs = srp_initiator_receives(i->cfg.depth);
        size_t bytes =
            (size_t)i->count * each + ANSWERS * ALIGN + (size_t)recvs * aligned(i->ti_bytes);
        uint8_t *at = i->ops.memory(i->user, bytes, &i->lkey, &i->rkey);

        if (!at)
                return false;
        for (unsigned k = i->count; k-- > 0; at += each) {
                i->slots[k].iu = at;
                i->slots[k].table = at + aligned(i->iu_bytes);
                i->slots[k].next = i->free;
                i->free = &i->slots[k];
        }
        for (unsigned k = 0; k < ANSWERS; k++, at += ALIGN)
                i->answer[k].iu = at;
        for (uint32_t k = 0; k < recvs; k++, at += aligned(i->ti_bytes)) {
                i->recvs[k].wr = (struct verbs_wr) { .op = VERBS_RECV,
                                                     .n_sge = 1,
                                                     .sge = { { at, i->ti_bytes, i->lkey } } };
                put_recv(i, &i->recvs[k].wr);
        }
        return true;
}

struct srp_initiator *srp_initiator_new(const struct srp_initiator_config *cfg,
                                        const struct srp_initiator_ops *ops, void *user)
{
        bool immediate = cfg->asked.req_flags & cfg->granted.rsp_flags & SRP_IMMEDIATE;
        uint32_t ti = be32_get(cfg->granted.max_ti_iu_len);
        struct srp_initiator *i = calloc(1, sizeof(*i));

        if (!i)
                return NULL;
        i->cfg = *cfg;
        i->ops = *ops;
        i->user = user;
        i->waived = cfg->policy ? &cfg->policy->waived : NULL;
        i->violated =
            cfg->policy && !rule_set_empty(&cfg->policy->violated) ? &cfg->policy->violated : NULL;
        i->imm_at = immediate ? be16_get(cfg->asked.imm_data_offset) : 0;
        i->it_max = be32_get(cfg->asked.req_it_iu_len);
        i->iu_bytes = i->it_max < IU_LEAST ? IU_LEAST : i->it_max;
        i->ti_bytes = ti < IU_LEAST ? IU_LEAST : least(ti, 1 << 16);
        i->count = cfg->depth + TM_SLOTS;
        i->limit = (int32_t)be32_get(cfg->granted.req_lim_delta);
        i->chain_last = &i->chain;
        i->slots = calloc(i->count, sizeof(*i->slots));
        i->recvs = calloc(srp_initiator_receives(cfg->depth), sizeof(*i->recvs));
        if (i->slots && i->recvs && share_memory(i))
                return i;
        srp_initiator_free(i);
        return NULL;
}

void srp_initiator_free(struct srp_initiator *i)
{
        free(i->slots);
        free(i->recvs);
        free(i);
}
