/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_bind.h"

#include <string.h>

#include "pdu/srp/machine/spoil.h"

enum { IT_IU = 8260, READS = 16, ENTRIES = 4 };

/* --- data ------------------------------------------------------------------------------------- */

static uint32_t data_len(const struct seq_step *step)
{
        uint32_t n = step->template->data_len;

        if (step->has_data)
                n = step->is_literal ? step->bytes.len : step->data_len;
        return n < SRP_BIND_DATA ? n : SRP_BIND_DATA;
}

static void put_contents(const struct sequence *s, const struct seq_step *step, uint8_t *to,
                         uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                to[i] = (uint8_t)(i * 7 + 1);
        if (step->has_data && step->is_literal)
                memcpy(to, s->pool + step->bytes.at, n);
        if (step->poke.len > 0 && step->poke_at + (uint32_t)step->poke.len <= n)
                memcpy(to + step->poke_at, s->pool + step->poke.at, step->poke.len);
}

/* --- what a step says by itself --------------------------------------------------------------- */

struct plan { /* of a command's data */
        enum srp_shape shape;
        unsigned entries, in_line; /* of a table */
        uint32_t bytes;            /* of each direction */
};

static struct plan plan_of(const struct seq_step *step)
{
        struct plan p = { .shape = srp_template(step->template)->shape,
                          .entries = ENTRIES,
                          .bytes = data_len(step) };
        unsigned keys = step->keys - 1u;

        if (step->keys > 0) {
                p.shape = keys == 0                    ? SRP_AS_IMMEDIATE
                          : keys == 1                  ? SRP_AS_DIRECT
                          : p.shape == SRP_AS_EXTERNAL ? SRP_AS_EXTERNAL
                                                       : SRP_AS_TABLE;
                p.entries = keys;
        }
        p.in_line = p.shape == SRP_AS_TABLE ? p.entries : p.shape == SRP_AS_EXTERNAL ? 1 : 0;
        return p;
}

static bool goes_out(const struct srp_template *t)
{
        return t->way == SRP_TO_TARGET || t->way == SRP_BOTH_WAYS;
}

static bool goes_in(const struct srp_template *t)
{
        return t->way == SRP_FROM_TARGET || t->way == SRP_BOTH_WAYS;
}

static bool is_table(const struct plan *p)
{
        return p->shape == SRP_AS_TABLE || p->shape == SRP_AS_EXTERNAL;
}

static uint32_t descriptor_len(const struct plan *p)
{
        return p->shape == SRP_AS_DIRECT ? SRP_DESC_LEN
               : is_table(p)             ? SRP_TABLE_LEN + p->in_line * SRP_DESC_LEN
                                         : 4;
}

static uint32_t command_len(const struct srp_template *t, const struct plan *p)
{
        uint32_t n = (uint32_t)sizeof(struct srp_cmd) + t->add_cdb;

        if (goes_out(t) && p->shape == SRP_AS_IMMEDIATE)
                return SRP_BIND_IMM_AT + p->bytes;
        if (p->shape == SRP_AS_IMMEDIATE)
                return n;
        return n + (goes_out(t) + goes_in(t)) * descriptor_len(p);
}

static void fill_in_command(struct srp_bind *b, const struct seq_step *step, const struct plan *p,
                            struct srp_said *w)
{
        const struct srp_template *t = srp_template(step->template);
        struct srp_cmd *c = &w->iu.cmd;
        unsigned format = p->shape == SRP_AS_DIRECT      ? SRP_DIRECT
                          : p->shape == SRP_AS_IMMEDIATE ? SRP_IMMEDIATE_DATA
                                                         : SRP_INDIRECT;

        memcpy(c->cdb, t->cdb, sizeof(c->cdb));
        c->add_cdb_len = t->add_cdb;
        if (goes_out(t))
                c->buf_fmt = (uint8_t)(format << 4);
        if (goes_in(t) && format != SRP_IMMEDIATE_DATA)
                c->buf_fmt |= (uint8_t)format;
        c->out_count = goes_out(t) ? (uint8_t)p->in_line : 0;
        c->in_count = goes_in(t) ? (uint8_t)p->in_line : 0;
        w->addr = le64(b->addr + (is_table(p) ? SRP_BIND_TABLE : goes_out(t) ? 0 : SRP_BIND_DATA));
        w->key = le32(b->key);
        w->bytes = le32(is_table(p) ? p->entries * SRP_DESC_LEN : p->bytes);
        w->total = le32(p->bytes);
        w->len = le32(command_len(t, p));
}

static uint64_t tag_of_task(const struct srp_bind *b, unsigned of)
{
        return of < b->commands && of < SRP_BIND_TAGS
                   ? b->sent[(b->commands - 1 - of) % SRP_BIND_TAGS]
                   : 0;
}

/* The target's request that is to be answered. */
static uint64_t asked_tag(const struct srp_bind *b, uint8_t type, unsigned of)
{
        uint8_t asks = type == SRP_CRED_RSP ? SRP_CRED_REQ : SRP_AER_REQ;

        for (unsigned i = 0; b->channel && i < SRP_CHANNEL_ASKED; i++) {
                const struct srp_asked *a = &b->channel->target_request[i];

                if (a->used && a->type == asks && of-- == 0)
                        return a->tag;
        }
        return 0;
}

static void fill_in_login(const struct srp_bind *b, struct srp_said *w)
{
        struct srp_login_req *r = &w->iu.login_req;

        r->tag = be64(b->tag);
        r->req_it_iu_len = be32(IT_IU);
        r->req_buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT);
        r->req_flags = (uint8_t)((b->first ? SRP_ACTION_SINGLE : SRP_ACTION_MULTI) | SRP_IMMEDIATE);
        r->imm_data_offset = be16(SRP_BIND_IMM_AT);
        memcpy(r->initiator_port_id, b->initiator, sizeof(srp_port_id));
        memcpy(r->target_port_id, b->target, sizeof(srp_port_id));
        w->len = le32(sizeof(struct srp_login_req_cm));
        w->reads_in = w->reads_out = READS;
}

static void fill_in(struct srp_bind *b, const struct seq_step *step, const struct plan *p,
                    struct srp_said *w)
{
        uint8_t type = step->template->type;

        w->iu.opcode = type;
        w->len = le32(srp_info(type)->len);
        if (type == SRP_LOGIN_REQ) {
                fill_in_login(b, w);
                return;
        }
        w->iu.cmd.tag = be64(b->tag); /* in the same place everywhere */
        if (type == SRP_CMD)
                fill_in_command(b, step, p, w);
        else if (type == SRP_CRED_RSP || type == SRP_AER_RSP)
                w->iu.cred_rsp.tag = be64(asked_tag(b, type, step->of));
        if (type != SRP_TSK_MGMT)
                return;
        w->iu.tsk_mgmt.function = srp_template(step->template)->function;
        w->iu.tsk_mgmt.task_tag = be64(tag_of_task(b, step->of));
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void put_entries(uint8_t *to, uint64_t addr, uint32_t key, uint32_t bytes, unsigned entries,
                        unsigned n)
{
        uint32_t each = entries ? bytes / entries : 0;

        for (unsigned i = 0; i < n; i++) {
                uint32_t len = i + 1 < entries ? each : bytes - i * each;

                srp_desc_put(to + i * SRP_DESC_LEN,
                             &(struct srp_desc) { addr + i * each, key, len });
        }
}

/* One direction's, with the data at `data` of the memory; bytes that it takes. */
static uint32_t put_descriptor(const struct srp_bind *b, const struct srp_said *w,
                               const struct plan *p, uint32_t data, uint8_t *to)
{
        struct srp_desc d = { le64_get(w->addr), le32_get(w->key), le32_get(w->bytes) };

        srp_desc_put(to, &d);
        if (!is_table(p))
                return SRP_DESC_LEN;
        be_put(to + SRP_DESC_LEN, 4, le32_get(w->total));
        put_entries(to + SRP_TABLE_LEN, b->addr + data, b->key, p->bytes, p->entries, p->in_line);
        put_entries(b->at + SRP_BIND_TABLE, b->addr + data, b->key, p->bytes, p->entries,
                    p->entries);
        return SRP_TABLE_LEN + p->in_line * SRP_DESC_LEN;
}

static void put_command(const struct srp_bind *b, const struct sequence *s,
                        const struct seq_step *step, const struct srp_said *w, const struct plan *p,
                        uint8_t *out)
{
        const struct srp_template *t = srp_template(step->template);
        uint8_t *at = out + sizeof(struct srp_cmd) + t->add_cdb;

        if (goes_out(t))
                put_contents(s, step, b->at, p->bytes);
        if (p->shape != SRP_AS_IMMEDIATE) {
                if (goes_out(t))
                        at += put_descriptor(b, w, p, 0, at);
                if (goes_in(t))
                        (void)put_descriptor(b, w, p, SRP_BIND_DATA, at);
        } else if (goes_out(t)) {
                be_put(at, 4, le32_get(w->total));
                memcpy(out + SRP_BIND_IMM_AT, b->at, p->bytes);
        }
}

static void note_tag(struct srp_bind *b, const struct srp_said *w)
{
        const struct srp_info *info = srp_info(w->iu.opcode);

        if (w->iu.opcode == SRP_CMD)
                b->sent[b->commands++ % SRP_BIND_TAGS] = be64_get(w->iu.cmd.tag);
        if (info && (info->request || info->type == SRP_I_LOGOUT))
                b->tag++;
}

static void spoil(struct srp_bind *b, const struct seq_step *step, uint8_t *out,
                  struct srp_bound *bound)
{
        struct srp_spoil s = { .iu = out, .len = bound->len, .asked = &b->channel->asked };
        struct rule_set violated = { 0 };

        if (step->violates == RULE_NONE)
                return;
        rule_add(&violated, step->violates);
        (void)srp_spoil(&violated, &s);
        bound->len = s.len;
        bound->times = 1 + s.twice;
}

static uint32_t at_most(uint32_t n, uint32_t most)
{
        return n < most ? n : most;
}

static struct srp_bound bind_login(struct srp_bind *b, const struct seq_step *step,
                                   const struct srp_said *w, uint8_t *out)
{
        struct srp_bound r = { .type = SRP_LOGIN_REQ,
                               .len = sizeof(struct srp_login_req),
                               .reads_in = w->reads_in,
                               .reads_out = w->reads_out };
        struct srp_login_req_cm cm;

        memcpy(out, &w->iu.login_req, sizeof(struct srp_login_req));
        spoil(b, step, out, &r);
        memcpy(&r.asked, out, sizeof(r.asked));
        cm = srp_login_to_cm(&r.asked);
        memset(out, 0, VERBS_PRIVATE_MAX);
        memcpy(out, &cm, sizeof(cm));
        r.len =
            at_most(le32_get(w->len), sizeof(cm)); /* all that connection management has room for */
        r.times = 1;
        return r;
}

static struct srp_bound bind_raw(const struct sequence *s, const struct seq_step *step,
                                 uint8_t *out)
{
        struct srp_bound r = { .len = step->bytes.len, .times = 1 };

        memcpy(out, s->pool + step->bytes.at, r.len);
        r.type = r.len > 0 ? out[0] : SRP_CMD;
        return r;
}

struct srp_bound srp_bind_step(struct srp_bind *b, const struct sequence *s,
                               const struct seq_step *step, uint8_t *out)
{
        struct srp_said w = { 0 };
        struct srp_bound r;
        struct plan p;

        memset(out, 0, SRP_BIND_IU);
        if (step->kind == SEQ_RAW)
                return bind_raw(s, step, out);
        p = plan_of(step);
        fill_in(b, step, &p, &w);
        seq_apply(step, &w);
        if (step->template->type == SRP_LOGIN_REQ)
                return bind_login(b, step, &w, out);
        memcpy(out, &w.iu, srp_info(step->template->type)->len);
        if (step->template->type == SRP_CMD)
                put_command(b, s, step, &w, &p, out);
        r = (struct srp_bound) { .type = w.iu.opcode,
                                 .len = at_most(le32_get(w.len), SRP_BIND_IU),
                                 .times = 1 };
        spoil(b, step, out, &r);
        note_tag(b, &w);
        return r;
}
