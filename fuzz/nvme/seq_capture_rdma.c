/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures of NVMe/RDMA: what pcap/trace/trace.h makes of RoCEv2 and iWARP. A connection's words are kept
 * until all connections of its sequence are over: the data of a command comes after it, as the
 * answers to the controller's READs; and whose memory a descriptor names shows from all of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pcap/nvme/family.h"
#include "pdu/nvme/wire/fabrics.h"
#include "seq_reading.h"

enum {
        ABORTS = 4, /* whose commands are looked for */
        KEYS_UNKNOWN = 1 << 16,
        SAID_MAX = 4 * SEQ_STEPS, /* of a sequence: of hosts and responses */
        LINGER_NS = 5000000,      /* who leaves later than that did not leave in haste */
};

struct flow {
        struct speaker host;
        uint8_t *memory; /* BIND_MEMORY; what the host has there */
};

enum said_kind { REQUEST, COMMAND, RESPONSE, LEAVE };

struct said {
        struct said *older, *newer;
        struct flow *flow;
        enum said_kind kind;
        bool padded, answered; /* REQUEST: zeroes after it mean nothing; COMMAND */
        int64_t time_ns;
        uint8_t reads_in, reads_out;
        uint8_t *contents; /* of a command: its data, as far as it was READ */
        uint32_t got;      /* bytes of them */
        size_t n;
        uint8_t bytes[];
};

struct rdma_reading {
        struct reading *r;
        struct flow *flow[SEQ_QUEUES];
        unsigned flows, open, words;
        struct trace_conn *begun; /* has opened when no other one was open, and said nothing yet */
        struct said *oldest, *newest;
        bool ours; /* data lies as in our sessions: by CID, one connection's after the other's */
        uint64_t base; /* ... from here on */
        uint32_t key;
};

/* --- a capsule ---------------------------------------------------------------------------------- */

static bool is_keyed(uint8_t sgl_id)
{
        return sgl_id == SGL_KEYED || sgl_id == SGL_KEYED_INVALIDATE;
}

/* The nth descriptor of a command. */
static struct rdma_buffer descriptor(const struct fit_message *m, unsigned nth)
{
        struct rdma_buffer b = { 0 };
        struct sgl s = m->head.work.sqe.sgl;

        if (m->keys > 1 && m->keys != KEYS_UNKNOWN)
                memcpy(&s, m->bytes + sizeof(union sqe) + nth * sizeof(s), sizeof(s));
        if (!is_keyed(s.id))
                s.id = SGL_KEYED; /* what it would say */
        (void)sgl_get_keyed(&s, &b);
        return b;
}

static void read_descriptors(struct fit_message *m)
{
        m->apart = true;
        for (unsigned i = 0; i < m->keys; i++)
                m->data_len += descriptor(m, i).len;
}

/* What follows the SQE: descriptors, whatever the SQE says of them. */
static bool are_descriptors(const uint8_t *p, size_t n)
{
        for (size_t i = 0; i < n; i += sizeof(struct sgl))
                if (n - i < sizeof(struct sgl) || !is_keyed(p[i + offsetof(struct sgl, id)]))
                        return false;
        return n >= 2 * sizeof(struct sgl);
}

static bool are_zeroes(const uint8_t *p, size_t n)
{
        while (n > 0 && *p == 0)
                p++, n--;
        return n == 0;
}

static void read_command(const uint8_t *p, size_t n, struct fit_message *m)
{
        const size_t head = n < sizeof(union sqe) ? n : sizeof(union sqe), more = n - head;
        union sqe *sqe = &m->head.work.sqe;
        uint8_t id;

        *m = (struct fit_message) { .type = PDU_CAPSULE_CMD, .bytes = p, .n = n };
        m->head.work.len = le32((uint32_t)n);
        memcpy(sqe, p, head);
        id = sqe->sgl.id;
        if (id == SGL_IN_CAPSULE || (more > 0 && !are_descriptors(p + head, more) &&
                                     !(is_keyed(id) && are_zeroes(p + head, more)))) {
                m->keys = id == SGL_IN_CAPSULE ? 0 : KEYS_UNKNOWN;
                m->data = more > 0 ? p + head : NULL;
                m->data_len = more;
                return;
        }
        m->keys = are_descriptors(p + head, more) ? (unsigned)(more / sizeof(struct sgl)) : 1;
        read_descriptors(m);
        if (m->keys == 1 && !is_keyed(id))
                m->keys = KEYS_UNKNOWN;
}

static void read_request(const uint8_t *p, size_t n, uint8_t reads_in, uint8_t reads_out,
                         struct fit_message *m)
{
        const size_t head = sizeof(struct rdma_request);

        *m = (struct fit_message) { .type = SEQ_REQUEST, .bytes = p, .n = n };
        memcpy(&m->head.work.request, p, n < head ? n : head);
        m->head.work.private_len = (uint8_t)(n < UINT8_MAX ? n : UINT8_MAX);
        m->head.work.reads_in = reads_in;
        m->head.work.reads_out = reads_out;
}

/* --- as a step ---------------------------------------------------------------------------------- */

static unsigned variants(const struct fit *f, const struct seq_template *t)
{
        bool many = f->want.keys > SEQ_KEYS && f->want.keys != KEYS_UNKNOWN;

        if (t->type != f->want.type || many)
                return 0;
        return t->type == PDU_CAPSULE_CMD && nvme_template(t)->opc == NVME_ABORT ? 2 * ABORTS : 2;
}

static void vary(struct fit *f, unsigned nth)
{
        struct seq_step *step = &f->trial.step[0];

        step->of = (uint8_t)(nth / 2);
        f->plain = nth % 2;
        if (f->want.type == PDU_CAPSULE_CMD && f->want.keys != KEYS_UNKNOWN &&
            f->want.keys != seq_bind_keys(step))
                step->keys = (uint8_t)(f->want.keys + 1);
}

/* A trial leaves the host's memory alone. */
static void render(const struct fit *f, uint8_t *out, struct fit_message *is)
{
        static uint8_t scratch[BIND_MEMORY];
        struct seq_bind copy = *f->bind;
        uint32_t place = seq_bind_place((uint16_t)(copy.last_cid + 1));
        size_t n = f->want.data_len < SEQ_DATA_MAX ? f->want.data_len : SEQ_DATA_MAX;
        struct bind_work w;

        memcpy(scratch + place, copy.memory.at + place, n);
        copy.memory.at = scratch;
        w = seq_bind_work(&copy, &f->trial, &f->trial.step[0], out);
        if (w.type == SEQ_REQUEST) {
                read_request(out, w.len, w.reads_in, w.reads_out, is);
                return;
        }
        read_command(out, w.len, is);
        if (is->apart && is->data_len == f->want.data_len && is->data_len <= SEQ_DATA_MAX)
                is->data = scratch + place;
}

/* Of a request as much is said as there are changes for. Contents that there is no room for are
 * left out. */
static bool same(struct fit *f)
{
        static uint8_t own[BIND_ROOM];
        const size_t head = sizeof(union sqe);
        const struct fit_message *want = &f->want;
        struct fit_message is;

        render(f, own, &is);
        if (want->type == SEQ_REQUEST)
                return true;
        if (is.n != want->n || memcmp(want->bytes, own, is.n < head ? is.n : head) != 0)
                return false;
        return is.n <= head || (!want->apart && want->data_len > f->room) ||
               memcmp(want->bytes + head, own + head, is.n - head) == 0;
}

/* An address that is far away is that of no memory, and so is key 0. */
static bool is_live(const struct field *f, uint64_t value, uint64_t difference)
{
        return strcmp(f->name, "sqe.cid") == 0 ||
               (strcmp(f->name, "sqe.sgl.key") == 0 && value > 0) ||
               (strcmp(f->name, "sqe.sgl.addr") == 0 && difference <= UINT32_MAX);
}

static const struct fit_ops fit_rdma = { SEQ_RDMA, variants, vary, render, same, is_live };

/* --- whose memory ------------------------------------------------------------------------------- */

static const struct said *next_keyed(const struct said *w, struct rdma_buffer *b, uint64_t *base)
{
        struct fit_message m;

        for (; w; w = w->newer) {
                if (w->kind != COMMAND)
                        continue;
                read_command(w->bytes, w->n, &m);
                *b = descriptor(&m, 0);
                *base = b->addr - seq_bind_place(le16_get(m.head.work.sqe.cid)) -
                        (uint64_t)w->flow->host.on * BIND_STRIDE;
                if (m.apart && m.keys < KEYS_UNKNOWN && b->len > 0)
                        return w;
        }
        return NULL;
}

/* How many keyed commands there are, and how many have that base, or that key. */
static unsigned count(const struct rdma_reading *t, const uint64_t *base, const uint32_t *key)
{
        struct rdma_buffer b;
        uint64_t is;
        unsigned n = 0;

        for (const struct said *w = t->oldest; (w = next_keyed(w, &b, &is)); w = w->newer)
                n += (!base || is == *base) && (!key || b.key == *key);
        return n;
}

/* Where most of the data lies. It is laid out as ours if that is half of it, or more. */
static void find_memory(struct rdma_reading *t)
{
        unsigned all = count(t, NULL, NULL), based = 0, keyed = 0;
        struct rdma_buffer b;
        uint64_t base;

        for (const struct said *w = t->oldest; (w = next_keyed(w, &b, &base)); w = w->newer) {
                unsigned n = count(t, &base, NULL), k = count(t, NULL, &b.key);

                if (n > based) {
                        based = n;
                        t->base = base;
                }
                if (k > keyed) {
                        keyed = k;
                        t->key = b.key;
                }
        }
        t->ours = 2 * based > all || (2 * based == all && keyed == all);
}

/* Whether a descriptor is good, and only has to name the memory of who plays. */
static bool is_good(const struct rdma_reading *t, const struct rdma_buffer *b)
{
        uint64_t at = b->addr - t->base;

        return !t->ours || (b->key == t->key && at < (uint64_t)SEQ_QUEUES * BIND_STRIDE &&
                            at % BIND_STRIDE % SEQ_DATA_MAX == 0);
}

static bool is_outstanding(const struct said *command, const struct fit_message *m)
{
        struct fit_message other;

        for (const struct said *w = command->older; w; w = w->older) {
                if (w->flow != command->flow || w->kind != COMMAND || w->answered)
                        continue;
                read_command(w->bytes, w->n, &other);
                if (le16_get(other.head.work.sqe.cid) == le16_get(m->head.work.sqe.cid))
                        return true;
        }
        return false;
}

/* The descriptors of another host, as ours has them: they share the data out evenly, and its memory
 * is not such as a controller can invalidate. */
static void make_ours(struct said *w)
{
        struct fit_message m;
        struct rdma_buffer b;
        struct sgl s;
        uint32_t part;

        read_command(w->bytes, w->n, &m);
        if (m.head.work.sqe.sgl.id == SGL_KEYED_INVALIDATE)
                w->bytes[offsetof(union sqe, sgl.id)] = SGL_KEYED;
        if (!m.apart || m.keys < 2 || m.keys > SEQ_KEYS)
                return;
        b = descriptor(&m, 0);
        part = (uint32_t)(m.data_len / m.keys);
        for (unsigned i = 0; i < m.keys; i++, b.addr += part) {
                b.len = i + 1 == m.keys ? (uint32_t)m.data_len - i * part : part;
                b.invalidate = false;
                sgl_put_keyed(&s, &b);
                memcpy(w->bytes + sizeof(union sqe) + i * sizeof(s), &s, sizeof(s));
        }
}

/* The memory of the bind lies where the command says, if that is good; CIDs of another host mean
 * nothing but that they differ. */
static void place_memory(const struct rdma_reading *t, const struct said *w,
                         const struct fit_message *m)
{
        struct speaker *k = &w->flow->host;
        struct seq_bind *b = &k->bind;
        struct rdma_buffer first = descriptor(m, 0);

        if (!t->ours && !is_outstanding(w, m))
                b->last_cid = (uint16_t)(le16_get(m->head.work.sqe.cid) - 1);
        b->memory.addr = t->base + (uint64_t)k->on * BIND_STRIDE;
        b->memory.key = t->key;
        if (m->apart && first.len > 0 && is_good(t, &first)) {
                b->memory.addr = first.addr - seq_bind_place((uint16_t)(b->last_cid + 1));
                b->memory.key = first.key;
        }
}

/* --- what was said, as steps ----------------------------------------------------------------------------- */

static bool is_connect(const union sqe *sqe)
{
        return sqe->opc == NVME_FABRICS && sqe->fctype == FCTYPE_CONNECT;
}

static void add_step(struct reading *r, struct flow *f)
{
        static uint8_t out[BIND_ROOM];

        if (reading_add(r, &f->host, &r->fit.best, &r->fit.best.step[0]))
                (void)seq_bind_work(&f->host.bind, &r->fit.best, &r->fit.best.step[0], out);
}

static void add_command(struct rdma_reading *t, struct said *w)
{
        struct reading *r = t->r;
        struct fit_message *m = &r->fit.want;
        struct flow *f = w->flow;

        if (!t->ours)
                make_ours(w);
        read_command(w->bytes, w->n, m);
        place_memory(t, w, m);
        if (m->apart && w->contents && w->got >= m->data_len)
                m->data = w->contents;
        if (m->data && is_connect(&m->head.work.sqe))
                speaker_learn(&f->host, m->data, m->data_len);
        if (w->n >= offsetof(union sqe, cdw10) && reading_find(r, &fit_rdma, &f->host))
                add_step(r, f);
        else
                reading_add_late(r, &f->host, SEQ_RAW, w->bytes, w->n);
        f->host.answered = false;
}

/* What the transport does not tell is what a host says by itself. A CNTLID is the live session's. */
static void add_request(struct reading *r, struct said *w)
{
        static uint8_t out[BIND_ROOM];
        struct fit *fit = &r->fit;
        struct fit_message *m = &fit->want, is;
        const struct seq_bind *b = &w->flow->host.bind;
        union seq_work *work = &m->head.work;

        read_request(w->bytes, w->n, w->reads_in, w->reads_out, m);
        fit->ops = &fit_rdma;
        fit->bind = b;
        fit->trial.pooled = 0;
        fit->trial.step[0] = seq_step_of(nvme_template_by_name(SEQ_RDMA, PARTY_HOST, "request"));
        render(fit, out, &is);
        if (w->padded)
                work->private_len = is.head.work.private_len;
        if (w->reads_in == 0 && w->reads_out == 0 && !w->padded)
                work->reads_in = is.head.work.reads_in;
        if (b->admin && le16_get(work->request.cntlid) == b->admin->cntlid)
                work->request.cntlid = is.head.work.request.cntlid;
        if (reading_find(r, &fit_rdma, &w->flow->host))
                add_step(r, w->flow);
}

static void take_response(const struct said *w)
{
        struct message response = message_of_capsule(MESSAGE_RESPONSE, w->bytes, (uint32_t)w->n);
        struct fit_message m;

        seq_bind_received(&w->flow->host.bind, &response);
        w->flow->host.answered = true;
        for (struct said *c = w->older; c; c = c->older) {
                if (c->flow != w->flow || c->kind != COMMAND || c->answered)
                        continue;
                read_command(c->bytes, c->n, &m);
                if (le16_get(m.head.work.sqe.cid) != le16_get(response.cqe.cid))
                        continue;
                c->answered = true;
                return;
        }
}

/* Whether the controller still owes it an answer, other than to an AER. */
static bool is_owed(const struct said *leave)
{
        struct fit_message m;

        for (const struct said *w = leave->older; w; w = w->older) {
                if (w->flow != leave->flow || w->kind != COMMAND || w->answered)
                        continue;
                read_command(w->bytes, w->n, &m);
                if (w->flow->host.bind.qid > 0 || m.head.work.sqe.opc != NVME_AER)
                        return true;
        }
        return false;
}

/* The end that every sequence comes to is not said: nothing was owed, or waited for any more. */
static bool is_plain_end(const struct said *leave)
{
        const struct said *last = leave->older;

        for (const struct said *w = leave->newer; w; w = w->newer)
                if (w->kind == COMMAND || w->kind == REQUEST)
                        return false;
        while (last && last->kind == LEAVE)
                last = last->older;
        return !is_owed(leave) || !last || leave->time_ns - last->time_ns > LINGER_NS;
}

static void add_all(struct rdma_reading *t)
{
        for (struct said *w = t->oldest; w; w = w->newer)
                if (w->kind == REQUEST)
                        add_request(t->r, w);
                else if (w->kind == COMMAND)
                        add_command(t, w);
                else if (w->kind == RESPONSE)
                        take_response(w);
                else if (!is_plain_end(w))
                        reading_add_late(t->r, &w->flow->host, SEQ_CLOSE, NULL, 0);
}

/* --- what was said ---------------------------------------------------------------------------------- */

static struct said *add_said(struct rdma_reading *t, struct flow *f, enum said_kind kind,
                             const struct trace_event *e, const uint8_t *p, size_t n)
{
        struct said *w = t->words < SAID_MAX ? malloc(sizeof(*w) + n) : NULL;

        if (!w) {
                t->r->no_memory |= t->words < SAID_MAX;
                return NULL;
        }
        *w = (struct said) { .flow = f, .kind = kind, .time_ns = e->at.time_ns, .n = n };
        if (n > 0)
                memcpy(w->bytes, p, n);
        w->older = t->newest;
        *(t->newest ? &t->newest->newer : &t->oldest) = w;
        t->newest = w;
        t->words++;
        return w;
}

/* RoCE fills private data up with zeroes. */
static void take_request(struct rdma_reading *t, struct flow *f, const struct trace_event *e)
{
        const struct trace_cm *cm = &e->cm;
        struct said *w = add_said(t, f, REQUEST, e, cm->data, cm->len);

        if (!w)
                return;
        w->reads_in = (uint8_t)(cm->reads_in < UINT8_MAX ? cm->reads_in : UINT8_MAX);
        w->reads_out = (uint8_t)(cm->reads_out < UINT8_MAX ? cm->reads_out : UINT8_MAX);
        w->padded = e->conn->transport == TRACE_ROCE;
}

static void take_capsule(struct rdma_reading *t, struct flow *f, const struct trace_event *e)
{
        const struct trace_capsule *c = &e->capsule;

        if (e->sender == PARTY_CONTROLLER)
                (void)add_said(t, f, RESPONSE, e, c->data, c->len);
        else if (c->len <= BIND_ROOM)
                (void)add_said(t, f, COMMAND, e, c->data, c->len);
}

/* Where these bytes lie in the data of a command; SIZE_MAX: elsewhere. */
static size_t place_of(const struct fit_message *m, const struct trace_memory *piece)
{
        uint64_t at = piece->addr + piece->offset;
        size_t before = 0;

        if (!m->apart || m->keys == KEYS_UNKNOWN)
                return SIZE_MAX;
        for (unsigned i = 0; i < m->keys; i++) {
                struct rdma_buffer b = descriptor(m, i);

                if (b.key == piece->key && at >= b.addr && at - b.addr <= b.len &&
                    piece->len <= b.len - (at - b.addr))
                        return before + (size_t)(at - b.addr);
                before += b.len;
        }
        return SIZE_MAX;
}

/* A piece of an answer to a READ: of the last command that it can be of. */
static void take_contents(struct rdma_reading *t, const struct flow *f,
                          const struct trace_memory *piece)
{
        struct fit_message m;

        for (struct said *w = t->newest; w; w = w->older) {
                size_t at;

                if (w->flow != f || w->kind != COMMAND)
                        continue;
                read_command(w->bytes, w->n, &m);
                at = place_of(&m, piece);
                if (at == SIZE_MAX)
                        continue;
                if (m.data_len > SEQ_DATA_MAX)
                        return;
                if (!w->contents)
                        w->contents = calloc(1, m.data_len);
                if (!w->contents) {
                        t->r->no_memory = true;
                        return;
                }
                memcpy(w->contents + at, piece->data, piece->len);
                w->got += piece->len;
                return;
        }
}

/* --- connections -------------------------------------------------------------------------------- */

static void free_flow(struct flow *f)
{
        if (f)
                free(f->memory);
        free(f);
}

static void open_flow(struct rdma_reading *t, struct trace_conn *c)
{
        struct flow *f;

        if (c->transport == TRACE_TCP || c->midstream || t->flows == SEQ_QUEUES)
                return;
        f = calloc(1, sizeof(*f));
        if (f)
                f->memory = calloc(1, BIND_MEMORY);
        if (!f || !f->memory) {
                free_flow(f);
                t->r->no_memory = true;
                return;
        }
        speaker_init(&f->host, t->flows, t->flows > 0 ? &t->flow[0]->host : NULL);
        f->host.bind.memory.at = f->memory;
        t->flow[t->flows++] = f;
        t->open++;
        c->user = f;
}

static void reset_reading(struct rdma_reading *t)
{
        for (struct said *w = t->oldest, *newer; w; w = newer) {
                newer = w->newer;
                free(w->contents);
                free(w);
        }
        for (unsigned i = 0; i < t->flows; i++)
                free_flow(t->flow[i]);
        *t = (struct rdma_reading) { .r = t->r };
}

static unsigned qid_of(const struct rdma_reading *t, const struct flow *f)
{
        struct rdma_request r;

        for (const struct said *w = t->oldest; w; w = w->newer)
                if (w->flow == f && w->kind == REQUEST && rdma_request_read(w->bytes, w->n, &r))
                        return le16_get(r.qid);
        return SEQ_QUEUES;
}

/* Which connection of the sequence each is: that of its QID, or else one that is free. */
static void number_flows(const struct rdma_reading *t)
{
        struct flow *at[SEQ_QUEUES] = { NULL }, *left[SEQ_QUEUES];
        unsigned n = 0, next = 0;

        for (unsigned i = 0; i < t->flows; i++) {
                unsigned qid = qid_of(t, t->flow[i]);

                if (qid < SEQ_QUEUES && !at[qid])
                        at[qid] = t->flow[i];
                else
                        left[n++] = t->flow[i];
        }
        for (unsigned on = 0; on < SEQ_QUEUES; on++) {
                if (!at[on] && next < n)
                        at[on] = left[next++];
                if (!at[on])
                        continue;
                at[on]->host.on = on;
                at[on]->host.bind.qid = (uint16_t)on;
                at[on]->host.bind.admin = on > 0 && at[0] ? &at[0]->host.bind : NULL;
                t->r->s.queues = (uint8_t)(on + 1);
        }
}

static void end_sequence(struct rdma_reading *t)
{
        t->r->s.transport = SEQ_RDMA;
        number_flows(t);
        find_memory(t);
        add_all(t);
        reading_end(t->r);
        reset_reading(t);
}

static void over(struct rdma_reading *t, struct trace_conn *c)
{
        c->user = NULL;
        t->open--;
}

/* An I/O queue that comes when all others are gone, refused perhaps, is still of their session. */
static bool joins(const struct rdma_reading *t, const struct trace_event *e)
{
        struct rdma_request r;
        uint16_t qid = rdma_request_read(e->cm.data, e->cm.len, &r) ? le16_get(r.qid) : 0;

        for (unsigned i = 0; i < t->flows; i++)
                if (qid_of(t, t->flow[i]) == qid)
                        return false;
        return qid > 0 && t->flows < SEQ_QUEUES;
}

static void start_flow(struct rdma_reading *t, const struct trace_event *e)
{
        if (e->kind != TRACE_REQUEST || !joins(t, e))
                end_sequence(t);
        open_flow(t, e->conn);
}

static void on_event(void *user, const struct trace_event *e)
{
        struct rdma_reading *t = user;
        struct flow *f;

        if (t->begun == e->conn)
                start_flow(t, e);
        t->begun = NULL;
        f = e->conn->user;
        if (e->kind == TRACE_OPENED && t->open == 0 && t->flows > 0) {
                t->begun = e->conn;
        } else if (e->kind == TRACE_OPENED) {
                open_flow(t, e->conn);
        } else if (!f) {
                return;
        } else if (e->kind == TRACE_REQUEST) {
                take_request(t, f, e);
        } else if (e->kind == TRACE_CAPSULE) {
                take_capsule(t, f, e);
        } else if (e->kind == TRACE_READ_DATA) {
                take_contents(t, f, &e->memory);
        } else if (e->kind == TRACE_DISCONNECT) {
                if (e->sender == PARTY_HOST)
                        (void)add_said(t, f, LEAVE, e, NULL, 0);
                over(t, e->conn);
        } else if (e->kind == TRACE_REJECT || e->kind == TRACE_CLOSED) {
                over(t, e->conn);
        }
}

bool capture_read_rdma(struct reading *r, const char *path, char err[CORPUS_ERROR])
{
        struct rdma_reading t = { .r = r };
        bool ok = trace_read(path, &nvme_capture, NULL, on_event, &t, NULL, err, CORPUS_ERROR) == 0;

        end_sequence(&t);
        return ok;
}
