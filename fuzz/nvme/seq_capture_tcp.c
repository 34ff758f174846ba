/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of NVMe/TCP. */
#include <stdlib.h>
#include <string.h>

#include "pdu/io/capture/capture.h"
#include "pdu/nvme/tcp/framer.h"
#include "pdu/nvme/wire/fabrics.h"
#include "seq_reading.h"

enum { DISCOVERY_PORT = 8009 };

struct flow { /* a connection of the capture */
        struct speaker host;
        struct framer heard;
        uint8_t *room; /* of the framer */
        uint8_t buf[BIND_ROOM];
        size_t n;              /* bytes of the host in buf, less than a PDU */
        bool deaf, raw, asked; /* raw: no PDUs can be told any more; asked: ICReq was sent */
};

struct tcp_reading {
        struct reading *r;
        struct flow *flow[SEQ_QUEUES]; /* of the sequence, kept until it is whole */
        unsigned open;
};

/* --- one PDU as a step -------------------------------------------------------------------------- */

/* n bytes of a PDU of that type; what stands in the place of its data counts as such. */
static void read_pdu(const struct seq_bind *b, uint8_t type, const uint8_t *p, size_t n,
                     struct fit_message *m)
{
        const struct pdu_info *info = pdu_info(type);
        union pdu h = { .ch.type = type };
        size_t head, digest;

        *m = (struct fit_message) { .type = type, .bytes = p, .n = n };
        memcpy(&m->head.pdu, p, n < info->hlen ? n : info->hlen);
        pdu_lay_out(&h, &b->out, 4);
        head = h.ch.pdo > 0 ? h.ch.pdo : pdu_head_len(&h, &b->out);
        digest = h.ch.flags & PDU_DDGSTF ? PDU_DIGEST_LEN : 0;
        if (n <= head + digest)
                return;
        m->data = p + head;
        m->data_len = n - head - digest;
}

static void render(const struct fit *f, uint8_t *out, struct fit_message *is)
{
        struct seq_bind copy = *f->bind;
        size_t n = seq_bind_encode(&copy, &f->trial, &f->trial.step[0], out);

        read_pdu(f->bind, f->trial.step[0].template->type, out, n, is);
}

static unsigned variants(const struct fit *f, const struct seq_template *t)
{
        if (t->type != f->want.type)
                return 0;
        if (t->type == PDU_H2C_DATA && f->bind->r2ts > 0)
                return f->bind->r2ts;
        return nvme_template(t)->opc == NVME_ABORT ? 4 : 1;
}

/* A command that describes data which does not go with it says how much. */
static void vary(struct fit *f, unsigned nth)
{
        struct seq_step *step = &f->trial.step[0];
        uint32_t len = le32_get(f->want.head.pdu.cmd.sqe.sgl.len);

        step->of = (uint8_t)nth;
        if (f->want.data_len > 0 || step->template->type != PDU_CAPSULE_CMD ||
            nvme_template(step->template)->sgl != SGL_TRANSPORT ||
            len == step->template->data_len || len > SEQ_DATA_MAX)
                return;
        step->has_data = true;
        step->data_len = (uint16_t)len;
}

static uint32_t difference(const uint8_t *a, const uint8_t *b)
{
        le32_t v, w;

        memcpy(&v, a, sizeof(v));
        memcpy(&w, b, sizeof(w));
        return le32_get(v) ^ le32_get(w);
}

/* Contents that there is no room for: all but them is the same. */
static bool is_left_out(const struct fit *f, const struct fit_message *is)
{
        const struct fit_message *want = &f->want;
        size_t head = want->data ? (size_t)(want->data - want->bytes) : 0;

        return want->data_len > f->room && want->n == is->n && want->data_len == is->data_len &&
               memcmp(want->bytes, is->bytes, head) == 0;
}

static bool same(struct fit *f)
{
        static uint8_t own[BIND_ROOM];
        struct seq_step *step = &f->trial.step[0];
        const struct fit_message *want = &f->want;
        const struct pdu_info *info = pdu_info(want->type);
        size_t end = want->data ? (size_t)(want->data - want->bytes) + want->data_len : 0;
        struct fit_message is;

        render(f, own, &is);
        if (is.n != want->n)
                return false;
        if (f->bind->out.hdgst && info->has_hdgst && is.n >= info->hlen + (size_t)PDU_DIGEST_LEN)
                step->hdgst_xor = difference(want->bytes + info->hlen, own + info->hlen);
        render(f, own, &is);
        if (is_left_out(f, &is))
                return true;
        if (f->bind->out.ddgst && want->data_len > 0 && end + PDU_DIGEST_LEN == is.n)
                step->ddgst_xor = difference(want->bytes + end, own + end);
        render(f, own, &is);
        return is.n == want->n && memcmp(want->bytes, own, is.n) == 0;
}

/* What is bound to the live session. */
static bool is_live(const struct field *f, uint64_t value, uint64_t difference)
{
        const char *last = strrchr(f->name, '.');
        const char *name = last ? last + 1 : f->name;

        (void)value, (void)difference;
        return strcmp(name, "cid") == 0 || strcmp(name, "cccid") == 0 || strcmp(name, "ttag") == 0;
}

static const struct fit_ops fit_tcp = { SEQ_TCP, variants, vary, render, same, is_live };

/* --- what the host says ------------------------------------------------------------------------- */

static void learn_names(struct flow *f, const struct fit_message *m)
{
        const union sqe *sqe = &m->head.pdu.cmd.sqe;

        if (m->type == PDU_H2C_DATA || (m->type == PDU_CAPSULE_CMD && sqe->opc == NVME_FABRICS &&
                                        sqe->fctype == FCTYPE_CONNECT))
                speaker_learn(&f->host, m->data, m->data_len);
}

static void take_pdu(struct reading *r, struct flow *f, const uint8_t *p, size_t n)
{
        static uint8_t out[BIND_ROOM];

        read_pdu(&f->host.bind, p[0], p, n, &r->fit.want);
        learn_names(f, &r->fit.want);
        if (!reading_find(r, &fit_tcp, &f->host)) {
                reading_add_late(r, &f->host, SEQ_RAW, p, n);
        } else if (reading_add(r, &f->host, &r->fit.best, &r->fit.best.step[0])) {
                f->asked |= p[0] == PDU_ICREQ;
                (void)seq_bind_encode(&f->host.bind, &r->fit.best, &r->fit.best.step[0], out);
        }
        f->host.answered = false;
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

static void take_rest(struct reading *r, struct flow *f)
{
        if (f->n > 0)
                reading_add_late(r, &f->host, SEQ_RAW, f->buf, f->n);
        f->n = 0;
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
                if (f->raw)
                        take_rest(r, f);
        }
}

/* --- what the controller says ------------------------------------------------------------------- */

static void on_answer(struct flow *f, const union pdu *h)
{
        struct message m = message_of_pdu(h);

        seq_bind_received(&f->host.bind, &m);
        if (h->ch.type == PDU_ICRESP && f->asked)
                framer_negotiated(&f->heard, &f->host.bind.in);
}

static void take_controller(struct flow *f, const uint8_t *p, size_t n)
{
        enum framer_event e;

        f->host.answered = true;
        while (n > 0 && !f->deaf) {
                size_t part = framer_feed(&f->heard, p, n);

                p += part;
                n -= part;
                while ((e = framer_next(&f->heard)) != FRAMER_MORE && e != FRAMER_FAULT)
                        if (e == FRAMER_PDU)
                                on_answer(f, framer_header(&f->heard));
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
        speaker_init(&f->host, on, admin ? &admin->host : NULL);
        framer_init(&f->heard, PARTY_CONTROLLER, NULL);
        framer_attach(&f->heard, f->room, FRAMER_BUFFER_MIN);
        return f;
}

static void end_sequence(struct tcp_reading *t)
{
        reading_end(t->r);
        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                free_flow(t->flow[i]);
        memset(t->flow, 0, sizeof(t->flow));
        t->open = 0;
        t->r->s.transport = SEQ_TCP;
}

static bool is_nvme(const struct capture_conn *c)
{
        uint16_t port = c->end[PARTY_CONTROLLER].port;

        return !c->midstream && (port == NVME_TCP_PORT || port == DISCOVERY_PORT);
}

/* iWARP goes over the same ports. */
static bool is_iwarp(const uint8_t *p, size_t n)
{
        static const char word[] = "MPA ID Req Frame";

        return n >= sizeof(word) - 1 && memcmp(p, word, sizeof(word) - 1) == 0;
}

static uint8_t of_others; /* user of a connection that is not for us */

/* The flow of a connection, from the first word of its host on; NULL: there is none. */
static struct flow *flow_of(struct tcp_reading *t, struct capture_conn *c, enum party sender,
                            const uint8_t *p, size_t n)
{
        struct sequence *s = &t->r->s;

        if (c->user)
                return c->user == &of_others ? NULL : c->user;
        if (sender != PARTY_HOST)
                return NULL;
        c->user = &of_others;
        if (!is_nvme(c) || is_iwarp(p, n) || s->queues == SEQ_QUEUES)
                return NULL;
        t->flow[s->queues] = new_flow(s->queues, t->flow[0]);
        if (!t->flow[s->queues]) {
                t->r->no_memory = true;
                return NULL;
        }
        t->open++;
        c->user = t->flow[s->queues];
        return t->flow[s->queues++];
}

static void data(void *user, struct capture_conn *c, enum party sender, const uint8_t *p, size_t n,
                 const struct capture_place *at)
{
        struct tcp_reading *t = user;
        struct flow *f = flow_of(t, c, sender, p, n);

        (void)at;
        if (f && sender == PARTY_HOST)
                take_host(t->r, f, p, n);
        else if (f)
                take_controller(f, p, n);
}

static void gap(void *user, struct capture_conn *c, enum party sender, uint32_t n,
                const struct capture_place *at)
{
        struct flow *f = flow_of(user, c, PARTY_CONTROLLER, NULL, 0);

        (void)n, (void)at;
        if (f && sender == PARTY_HOST)
                f->raw = true;
        else if (f)
                f->deaf = true;
        else
                c->user = &of_others; /* its beginning is missing */
}

/* A connection whose host says nothing is a step nevertheless. */
static struct flow *silent_flow(struct tcp_reading *t, struct capture_conn *c)
{
        struct flow *f = c->accepted ? flow_of(t, c, PARTY_HOST, NULL, 0) : NULL;

        if (f)
                reading_add_late(t->r, &f->host, SEQ_CLOSE, NULL, 0);
        return f;
}

static void closed(void *user, struct capture_conn *c, const struct capture_place *at)
{
        struct tcp_reading *t = user;
        struct flow *f = c->user ? flow_of(t, c, PARTY_CONTROLLER, NULL, 0) : silent_flow(t, c);

        (void)at;
        if (!f)
                return;
        take_rest(t->r, f);
        c->user = NULL;
        if (--t->open == 0)
                end_sequence(t);
}

/* Controllers are at the ports of NVMe/TCP. */
static bool is_service(void *user, uint16_t port)
{
        (void)user;
        return port == NVME_TCP_PORT || port == NVME_DISC_PORT;
}

bool capture_read_tcp(struct reading *r, const char *path, char err[CORPUS_ERROR])
{
        static const struct capture_ops ops = {
                .data = data, .gap = gap, .closed = closed, .service = is_service
        };
        struct tcp_reading t = { .r = r };
        bool ok;

        end_sequence(&t);
        ok = capture_read(path, &ops, &t, err, CORPUS_ERROR) == 0;
        end_sequence(&t);
        return ok;
}
