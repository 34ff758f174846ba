/* SPDX-License-Identifier: BSD-3-Clause */
#include "seq_capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/capture.h"
#include "pdu/machine/framer.h"
#include "pdu/wire/fabrics.h"
#include "seq_bind.h"

enum { DISCOVERY_PORT = 8009, NQN_LEN = 223, POKE_MAX = 512, PAUSE_MS = 2 };

struct flow { /* a connection of the capture */
        unsigned on;
        struct seq_bind bind;
        struct framer heard;
        uint8_t *room; /* of the framer */
        uint8_t buf[BIND_ROOM];
        size_t n;              /* bytes of the host in buf, less than a PDU */
        bool deaf, raw, asked; /* raw: no PDUs can be told any more; asked: ICReq was sent */
        bool answered;         /* the controller said something since */
        char hostnqn[NQN_LEN + 1], subnqn[NQN_LEN + 1];
};

struct reading {
        struct corpus *corpus;
        struct sequence s, trial, best; /* trial, best: of one step */
        struct flow *flow[SEQ_QUEUES];  /* of s; NULL: over */
        struct flow *admin;             /* the first one, kept until s is whole */
        unsigned open;
        bool no_memory;
};

/* --- one PDU as a step -------------------------------------------------------------------------- */

struct span {
        size_t at, len;
};

/* Where the data of a PDU of n bytes lies. */
static struct span data_in(const struct seq_bind *b, uint8_t type, size_t n)
{
        const struct pdu_info *info = pdu_info(type);
        union pdu h = { .ch.type = type };
        size_t head, digest;

        pdu_lay_out(&h, &b->out, 4);
        head = h.ch.pdo > 0 ? h.ch.pdo : pdu_head_len(&h, &b->out);
        digest = h.ch.flags & PDU_DDGSTF ? PDU_DIGEST_LEN : 0;
        if (type != PDU_H2C_TERM && !info->has_data)
                return (struct span) { n, 0 };
        return n > head + digest ? (struct span) { head, n - head - digest }
                                 : (struct span) { n, 0 };
}

static size_t render(const struct seq_bind *b, const struct sequence *one, uint8_t *out)
{
        struct seq_bind copy = *b;

        return seq_bind_say(&copy, one, &one->step[0], out);
}

static bool is_all(const uint8_t *p, size_t n, uint8_t v)
{
        return n == 0 || (p[0] == v && memcmp(p, p + 1, n - 1) == 0);
}

/* Bytes of the data that differ from those the step has by itself, if they are few. */
static void poke(struct sequence *one, const uint8_t *want, const uint8_t *is, size_t n)
{
        struct seq_step *step = &one->step[0];
        size_t from = 0, to = n;

        while (from < to && want[from] == is[from])
                from++;
        while (to > from && want[to - 1] == is[to - 1])
                to--;
        if (to - from > 0 && to - from <= POKE_MAX) {
                step->poke_at = (uint16_t)from;
                (void)seq_pool(one, want + from, to - from, &step->poke);
        }
}

static void set_data(struct sequence *one, const uint8_t *p, size_t n, size_t room)
{
        struct seq_step *step = &one->step[0];

        step->has_data = n <= SEQ_DATA_MAX;
        step->is_literal = !is_all(p, n, 0xa5) && n <= room && seq_pool(one, p, n, &step->bytes);
        step->data_len = step->is_literal ? 0 : (uint16_t)n;
}

/* A command that describes data which does not go with it says how much. */
static void describe_data(struct seq_step *step, const union pdu *want)
{
        uint32_t len = le32_get(want->cmd.sqe.sgl.len);

        if (step->template->type != PDU_CAPSULE_CMD || step->template->sgl != SGL_TRANSPORT ||
            len == step->template->data_len || len > SEQ_DATA_MAX)
                return;
        step->has_data = true;
        step->data_len = (uint16_t)len;
}

static void fit_data(struct reading *r, const struct flow *f, const uint8_t *p, size_t n)
{
        static uint8_t own[BIND_ROOM];
        struct sequence *one = &r->trial;
        uint8_t type = one->step[0].template->type;
        struct span want = data_in(&f->bind, type, n), is;
        union pdu h = { 0 };

        memcpy(&h, p, n < sizeof(h) ? n : sizeof(h));
        if (want.len == 0)
                describe_data(&one->step[0], &h);
        is = data_in(&f->bind, type, render(&f->bind, one, own));
        if (want.len != is.len)
                set_data(one, p + want.at, want.len, (size_t)SEQ_POOL - r->s.pooled);
        else
                poke(one, p + want.at, own + is.at, is.len);
}

/* What is bound to the live session is told as a difference. */
static bool is_bound(const struct field *f)
{
        const char *last = strrchr(f->name, '.');
        const char *name = last ? last + 1 : f->name;

        return strcmp(name, "cid") == 0 || strcmp(name, "cccid") == 0 || strcmp(name, "ttag") == 0;
}

static void fit_fields(struct reading *r, const struct flow *f, const uint8_t *p)
{
        static uint8_t own[BIND_ROOM];
        struct seq_step *step = &r->trial.step[0];
        union pdu want = { 0 }, is = { 0 };
        uint8_t hlen = pdu_info(step->template->type)->hlen;

        render(&f->bind, &r->trial, own);
        memcpy(&want, p, hlen);
        memcpy(&is, own, hlen);
        for (const struct field *const *at = seq_fields(SEQ_TCP, step->template);
             *at && step->changes < SEQ_CHANGES; at++) {
                uint64_t v = field_get(*at, &want), old = field_get(*at, &is);

                if (v == old)
                        continue;
                field_put(*at, &is, v);
                step->change[step->changes++] = is_bound(*at)
                                                    ? (struct seq_change) { *at, SEQ_FLIP, v ^ old }
                                                    : (struct seq_change) { *at, SEQ_SET, v };
        }
}

static uint32_t difference(const uint8_t *a, const uint8_t *b)
{
        le32_t v, w;

        memcpy(&v, a, sizeof(v));
        memcpy(&w, b, sizeof(w));
        return le32_get(v) ^ le32_get(w);
}

/* Whether the step gives these very bytes. */
static bool fit_digests(struct reading *r, const struct flow *f, const uint8_t *p, size_t n)
{
        static uint8_t own[BIND_ROOM];
        struct seq_step *step = &r->trial.step[0];
        const struct pdu_info *info = pdu_info(step->template->type);
        struct span data = data_in(&f->bind, step->template->type, n);

        if (render(&f->bind, &r->trial, own) != n)
                return false;
        if (f->bind.out.hdgst && info->has_hdgst && n >= info->hlen + (size_t)PDU_DIGEST_LEN)
                step->hdgst_xor = difference(p + info->hlen, own + info->hlen);
        if (f->bind.out.ddgst && data.len > 0 && data.at + data.len + PDU_DIGEST_LEN == n)
                step->ddgst_xor = difference(p + data.at + data.len, own + data.at + data.len);
        return render(&f->bind, &r->trial, own) == n && memcmp(p, own, n) == 0;
}

static bool fit(struct reading *r, const struct flow *f, const struct seq_template *t, uint8_t of,
                const uint8_t *p, size_t n)
{
        r->trial.steps = 1;
        r->trial.pooled = 0;
        r->trial.step[0] = seq_step_of(t);
        r->trial.step[0].of = of;
        fit_data(r, f, p, n);
        fit_fields(r, f, p);
        return fit_digests(r, f, p, n);
}

static unsigned cost(const struct sequence *one, const uint8_t *p)
{
        const struct seq_template *t = one->step[0].template;
        const struct pdu_capsule_cmd *cmd = (const void *)p;
        bool other =
            t->type == PDU_CAPSULE_CMD &&
            (cmd->sqe.opc != t->opc || (t->opc == NVME_FABRICS && cmd->sqe.fctype != t->fctype));

        return 64u * other + 4u * one->step[0].changes + one->pooled / 4 + (one->step[0].of > 0) +
               (one->step[0].has_data ? 1 : 0);
}

/* The simplest step of any template that gives these bytes, into best. */
static bool find_step(struct reading *r, const struct flow *f, const uint8_t *p, size_t n)
{
        size_t count;
        const struct seq_template *t = seq_templates(SEQ_TCP, PARTY_HOST, &count);
        bool found = false;

        for (size_t i = 0; i < count; i++) {
                unsigned orders = t[i].type == PDU_H2C_DATA ? f->bind.r2ts
                                  : t[i].opc == NVME_ABORT  ? 4
                                                            : 1;

                if (t[i].type != p[0] || n < pdu_info(t[i].type)->hlen)
                        continue;
                for (unsigned of = 0; of < (orders > 0 ? orders : 1); of++)
                        if (fit(r, f, &t[i], (uint8_t)of, p, n) &&
                            (!found || cost(&r->trial, p) < cost(&r->best, p))) {
                                r->best = r->trial;
                                found = true;
                        }
        }
        return found;
}

/* --- what the host says ------------------------------------------------------------------------- */

static bool add_step(struct reading *r, const struct flow *f, const struct sequence *from,
                     const struct seq_step *step)
{
        struct seq_step copy = *step;

        copy.on = (uint8_t)f->on;
        return seq_insert(&r->s, r->s.steps, from, &copy);
}

/* A delay stands for the answer that was waited for: raw bytes do not wait by themselves. */
static void add_raw(struct reading *r, struct flow *f, const uint8_t *p, size_t n)
{
        struct seq_step step = { .kind = SEQ_DELAY, .ms = PAUSE_MS };

        if (n == 0)
                return;
        if (f->answered)
                (void)seq_insert(&r->s, r->s.steps, &r->s, &step);
        step = (struct seq_step) { .kind = SEQ_RAW };
        r->trial.pooled = 0;
        if (seq_pool(&r->trial, p, n < SEQ_POOL ? n : SEQ_POOL, &step.bytes))
                (void)add_step(r, f, &r->trial, &step);
}

/* Who connects to whom is the player's to say, not the capture's: Connect's data without names. */
static void learn_names(struct flow *f, const uint8_t *p, size_t n)
{
        struct span at = data_in(&f->bind, PDU_CAPSULE_CMD, n);
        struct connect_data data;
        union pdu h;

        if (p[0] != PDU_CAPSULE_CMD && p[0] != PDU_H2C_DATA)
                return;
        memcpy(&h, p, n < sizeof(h) ? n : sizeof(h));
        if (p[0] == PDU_H2C_DATA)
                at = data_in(&f->bind, PDU_H2C_DATA, n);
        else if (h.cmd.sqe.opc != NVME_FABRICS || h.cmd.sqe.fctype != FCTYPE_CONNECT)
                return;
        if (at.len != sizeof(data) || f->bind.hostnqn != f->hostnqn || f->hostnqn[0])
                return;
        memcpy(&data, p + at.at, sizeof(data));
        memcpy(f->bind.hostid, data.hostid, sizeof(f->bind.hostid));
        snprintf(f->hostnqn, sizeof(f->hostnqn), "%.*s", NQN_LEN, (const char *)data.hostnqn);
        snprintf(f->subnqn, sizeof(f->subnqn), "%.*s", NQN_LEN, (const char *)data.subnqn);
}

static void take_pdu(struct reading *r, struct flow *f, const uint8_t *p, size_t n)
{
        static uint8_t out[BIND_ROOM];

        learn_names(f, p, n);
        if (!find_step(r, f, p, n)) {
                add_raw(r, f, p, n);
        } else if (add_step(r, f, &r->best, &r->best.step[0])) {
                f->asked |= p[0] == PDU_ICREQ;
                (void)seq_bind_say(&f->bind, &r->best, &r->best.step[0], out);
        }
        f->answered = false;
}

/* Bytes of the PDU that begins buf; 0: none can be told. */
static size_t length_of(const struct flow *f)
{
        const struct pdu_info *info = pdu_info(f->buf[0]);
        struct pdu_ch ch;
        uint32_t len;

        memcpy(&ch, f->buf, sizeof(ch));
        len = le32_get(ch.plen);
        return info && info->sender == PARTY_HOST && len >= info->hlen && len <= BIND_ROOM ? len
                                                                                           : 0;
}

static void take_host(struct reading *r, struct flow *f, const uint8_t *p, size_t n)
{
        while (n > 0) {
                size_t part = n < sizeof(f->buf) - f->n ? n : sizeof(f->buf) - f->n, len;

                memcpy(f->buf + f->n, p, part);
                f->n += part;
                p += part;
                n -= part;
                while (!f->raw && f->n >= sizeof(struct pdu_ch) && (len = length_of(f)) <= f->n) {
                        f->raw = len == 0;
                        if (f->raw)
                                break;
                        take_pdu(r, f, f->buf, len);
                        f->n -= len;
                        memmove(f->buf, f->buf + len, f->n);
                }
                if (f->raw) {
                        add_raw(r, f, f->buf, f->n);
                        f->n = 0;
                        f->answered = false;
                }
        }
}

/* --- what the controller says ------------------------------------------------------------------- */

static void hear(struct flow *f, const union pdu *h)
{
        seq_bind_heard(&f->bind, h);
        if (h->ch.type == PDU_ICRESP && f->asked)
                framer_negotiated(&f->heard, &f->bind.in);
}

static void take_controller(struct flow *f, const uint8_t *p, size_t n)
{
        enum framer_event e;

        f->answered = true;
        while (n > 0 && !f->deaf) {
                size_t part = framer_feed(&f->heard, p, n);

                p += part;
                n -= part;
                while ((e = framer_next(&f->heard)) != FRAMER_MORE && e != FRAMER_FAULT)
                        if (e == FRAMER_PDU)
                                hear(f, framer_header(&f->heard));
                f->deaf = e == FRAMER_FAULT;
        }
}

/* --- connections -------------------------------------------------------------------------------- */

static void free_flow(struct flow *f)
{
        if (f)
                free(f->room);
        free(f);
}

static struct flow *new_flow(unsigned on, const struct flow *admin)
{
        struct flow *f = calloc(1, sizeof(*f));

        if (f)
                f->room = malloc(FRAMER_BUFFER_MIN);
        if (!f || !f->room) {
                free_flow(f);
                return NULL;
        }
        f->on = on;
        framer_init(&f->heard, PARTY_CONTROLLER, NULL);
        framer_attach(&f->heard, f->room, FRAMER_BUFFER_MIN);
        seq_bind_init(&f->bind, PARTY_HOST, f->hostnqn, f->subnqn);
        f->bind.qid = (uint16_t)on;
        f->bind.admin = admin ? &admin->bind : NULL;
        return f;
}

static void end_sequence(struct reading *r)
{
        if (r->s.steps > 0 && !corpus_add(r->corpus, &r->s))
                r->no_memory = true;
        for (unsigned i = 1; i < SEQ_QUEUES; i++)
                free_flow(r->flow[i]);
        free_flow(r->admin);
        memset(r->flow, 0, sizeof(r->flow));
        r->admin = NULL;
        r->open = 0;
        r->s = (struct sequence) { .transport = SEQ_TCP, .side = PARTY_HOST };
}

static bool is_nvme(const struct capture_conn *c)
{
        uint16_t port = c->end[PARTY_CONTROLLER].port;

        return !c->midstream && (port == NVME_TCP_PORT || port == DISCOVERY_PORT);
}

static void opened(void *user, struct capture_conn *c, const struct capture_place *at)
{
        struct reading *r = user;
        struct flow *f;

        (void)at;
        if (!is_nvme(c) || r->s.queues == SEQ_QUEUES)
                return;
        f = new_flow(r->s.queues, r->admin);
        if (!f) {
                r->no_memory = true;
                return;
        }
        if (!r->admin)
                r->admin = f;
        r->flow[r->s.queues++] = f;
        r->open++;
        c->user = f;
}

static void data(void *user, struct capture_conn *c, enum party sender, const uint8_t *p, size_t n,
                 const struct capture_place *at)
{
        (void)at;
        if (c->user && sender == PARTY_HOST)
                take_host(user, c->user, p, n);
        else if (c->user)
                take_controller(c->user, p, n);
}

static void gap(void *user, struct capture_conn *c, enum party sender, uint32_t n,
                const struct capture_place *at)
{
        struct flow *f = c->user;

        (void)user, (void)n, (void)at;
        if (f && sender == PARTY_HOST)
                f->raw = true;
        else if (f)
                f->deaf = true;
}

static void closed(void *user, struct capture_conn *c, const struct capture_place *at)
{
        struct reading *r = user;
        struct flow *f = c->user;

        (void)at;
        if (!f)
                return;
        add_raw(r, f, f->buf, f->n);
        f->n = 0;
        c->user = NULL;
        if (--r->open == 0)
                end_sequence(r);
}

/* --- files -------------------------------------------------------------------------------------- */

bool seq_is_capture(const void *p, size_t n)
{
        static const uint8_t magic[][4] = { { 0xd4, 0xc3, 0xb2, 0xa1 },
                                            { 0xa1, 0xb2, 0xc3, 0xd4 },
                                            { 0x4d, 0x3c, 0xb2, 0xa1 },
                                            { 0xa1, 0xb2, 0x3c, 0x4d },
                                            { 0x0a, 0x0d, 0x0d, 0x0a } };

        for (size_t i = 0; n >= 4 && i < sizeof(magic) / sizeof(magic[0]); i++)
                if (memcmp(p, magic[i], 4) == 0)
                        return true;
        return false;
}

bool seq_capture(struct corpus *c, const char *path, char err[CORPUS_ERROR])
{
        static const struct capture_ops ops = {
                .opened = opened, .data = data, .gap = gap, .closed = closed
        };
        struct reading *r = calloc(1, sizeof(*r));
        unsigned before = c->n;
        bool ok;

        if (!r)
                return false;
        r->corpus = c;
        end_sequence(r);
        ok = capture_read(path, &ops, r, err, CORPUS_ERROR) == 0;
        end_sequence(r);
        if (r->no_memory)
                snprintf(err, CORPUS_ERROR, "%s: no memory", path);
        else if (ok && c->n == before)
                snprintf(err, CORPUS_ERROR, "%s: no NVMe/TCP connection from its start", path);
        ok &= !r->no_memory && c->n > before;
        free(r);
        return ok;
}
