/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RoCEv2: packets of reliable connections (IBTA 9.7) by queue pair and packet sequence number (PSN),
 * and the messages of them. A packet names only the queue pair it goes to; which two belong together
 * say the messages of connection management, or, if the capture began later, acknowledgements: they
 * bear the PSN of what the other side sent last.
 *
 * A packet ahead of its turn waits: for a retransmission of what is missing, or for proof that the
 * receiver has it and only the capture has not.
 */
#include "pcap/tracer.h"

#include <stdlib.h>
#include <string.h>

enum {
        BTH_LEN = 12,
        ICRC_LEN = 4,
        DETH_LEN = 8,
        RETH_LEN = 16,
        AETH_LEN = 4,
        IMMEDIATE_LEN = 4,
        CM_QPN = 1,
        PSN_MASK = 0xffffff,
        BUCKETS = 4096,
        CONNS_MAX = 8192,
        HELD_MAX = 64, /* packets ahead of their turn, of one side */
        READS = 256,   /* outstanding ones of one side: what the CM can express */
        HALVES = 256,
        CAPSULE_MAX = 1 << 20,
        COMMAND_LEN = 64,
        RESPONSE_LEN = 16,
        NAK = 0x60, /* AETH syndrome: 0x60 | code; code 0: PSN sequence error */
        NAK_MASK = 0x60,
};

/* What a packet of an opcode is made of. */
enum part {
        FIRST = 1 << 0, /* of a message */
        LAST = 1 << 1,
        SEND = 1 << 2,
        WRITE = 1 << 3,
        READ = 1 << 4,
        ANSWER = 1 << 5, /* PSN of the other side's sequence: read response, ACK */
        RETH = 1 << 6,
        AETH = 1 << 7,
        IMMEDIATE = 1 << 8,
        INVALIDATE = 1 << 9,
        ATOMIC = 1 << 10,
        KNOWN = 1 << 11,
};

static const uint16_t opcodes[] = {
        [0] = KNOWN | SEND | FIRST,
        [1] = KNOWN | SEND,
        [2] = KNOWN | SEND | LAST,
        [3] = KNOWN | SEND | LAST | IMMEDIATE,
        [4] = KNOWN | SEND | FIRST | LAST,
        [5] = KNOWN | SEND | FIRST | LAST | IMMEDIATE,
        [6] = KNOWN | WRITE | FIRST | RETH,
        [7] = KNOWN | WRITE,
        [8] = KNOWN | WRITE | LAST,
        [9] = KNOWN | WRITE | LAST | IMMEDIATE,
        [10] = KNOWN | WRITE | FIRST | LAST | RETH,
        [11] = KNOWN | WRITE | FIRST | LAST | RETH | IMMEDIATE,
        [12] = KNOWN | READ | FIRST | LAST | RETH,
        [13] = KNOWN | READ | ANSWER | FIRST | AETH,
        [14] = KNOWN | READ | ANSWER,
        [15] = KNOWN | READ | ANSWER | LAST | AETH,
        [16] = KNOWN | READ | ANSWER | FIRST | LAST | AETH,
        [17] = KNOWN | ANSWER | AETH,
        [18] = KNOWN | ANSWER | AETH | ATOMIC,
        [19] = KNOWN | ATOMIC,
        [20] = KNOWN | ATOMIC,
        [22] = KNOWN | SEND | LAST | INVALIDATE,
        [23] = KNOWN | SEND | FIRST | LAST | INVALIDATE,
};
enum { OPCODES = sizeof(opcodes) / sizeof(opcodes[0]), UD_SEND_ONLY = 0x64 };

/* One packet of a reliable connection, taken apart. */
struct roce_packet {
        unsigned parts;
        uint32_t qpn, psn; /* qpn: where it goes */
        uint64_t addr;
        uint32_t key, len; /* RETH; INVALIDATE: key */
        unsigned syndrome;
        const uint8_t *data;
        uint32_t n, whole; /* bytes of data in the capture and in the packet */
        struct capture_place at;
};

struct held {
        struct held *next;
        struct roce_packet packet; /* its data follows */
        uint8_t data[];
};

struct read {
        bool used, cut;
        uint32_t psn, packets;   /* packets: of the answer; 0: not known */
        uint32_t key, len, next; /* next: offset of what should come */
        uint64_t addr;
        struct capture_place at;
};

/* What one side sends. */
struct direction {
        bool synced;
        uint32_t next; /* PSN */
        struct held *held;
        unsigned held_n;
        enum { IDLE, SENDING, WRITING } doing;
        struct capture_place first;
        struct bytes message; /* SEND in several packets */
        struct trace_memory write;
        uint32_t written;
        bool cut;
        struct read *reads; /* READS of them, from the first on */
        unsigned next_read;
};

struct conn {
        struct trace_conn pub;
        struct direction dir[2];
        uint32_t mtu; /* bytes; 0: not known */
        uint32_t id[2];
        bool accepted, rejected, leaving;
        struct conn *earlier, *later;
};

/* A queue pair to which packets go and nobody knows whose they are: a capture that began later. */
struct half {
        bool used;
        struct capture_end from, to;
        uint32_t qpn, last_psn;
        bool commands, responses; /* what it looks like */
        uint64_t frame;
};

enum name_kind { NAME_QP, NAME_ID };

/* Where a connection is found by: queue pair or communication id, at an address. */
struct name {
        enum name_kind kind;
        struct capture_end at; /* no port */
        uint32_t number;
        struct conn *conn;
        enum party owner; /* whose it is */
        struct name *next;
};

struct roce {
        struct name *bucket[BUCKETS];
        struct conn *all, *last;
        unsigned conns;
        struct half halves[HALVES];
        unsigned next_half;
};

/* --- names ------------------------------------------------------------------------------------ */

static bool same_address(const struct capture_end *a, const struct capture_end *b)
{
        return a->family == b->family && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

static struct name **bucket_of(struct roce *r, enum name_kind kind, const struct capture_end *at,
                               uint32_t number)
{
        uint64_t addr[2], h;

        memcpy(addr, at->addr, sizeof(addr));
        h = (addr[0] ^ addr[1] * 31 ^ ((uint64_t)number << 8 | kind)) *
            UINT64_C(0x9e3779b97f4a7c15);
        return &r->bucket[(h >> 32) % BUCKETS];
}

static struct name *find(struct roce *r, enum name_kind kind, const struct capture_end *at,
                         uint32_t number)
{
        for (struct name *n = *bucket_of(r, kind, at, number); n; n = n->next)
                if (n->kind == kind && n->number == number && same_address(&n->at, at))
                        return n;
        return NULL;
}

static void forget_name(struct roce *r, enum name_kind kind, const struct capture_end *at,
                        uint32_t number, const struct conn *of)
{
        for (struct name **n = bucket_of(r, kind, at, number); *n; n = &(*n)->next) {
                struct name *it = *n;

                if (it->kind != kind || it->number != number || it->conn != of ||
                    !same_address(&it->at, at))
                        continue;
                *n = it->next;
                free(it);
                return;
        }
}

static void close_conn(struct tracer *t, struct conn *c);

/* Who had this name before is over. */
static void add_name(struct tracer *t, enum name_kind kind, struct conn *c, enum party owner,
                     uint32_t number)
{
        const struct capture_end *at = &c->pub.end[owner];
        struct name *old = find(t->roce, kind, at, number), *n, **bucket;

        if (old && old->conn == c)
                return;
        if (old)
                close_conn(t, old->conn);
        n = calloc(1, sizeof(*n));
        if (!n) {
                t->no_memory = true;
                return;
        }
        bucket = bucket_of(t->roce, kind, at, number);
        *n = (struct name) { kind, *at, number, c, owner, *bucket };
        *bucket = n;
}

/* The controller's queue pair; another one may have been taken for it before. */
static void name_controller_qp(struct tracer *t, struct conn *c, uint32_t qpn)
{
        forget_name(t->roce, NAME_QP, &c->pub.end[PARTY_CONTROLLER], c->pub.qpn[PARTY_CONTROLLER],
                    c);
        c->pub.qpn[PARTY_CONTROLLER] = qpn;
        add_name(t, NAME_QP, c, PARTY_CONTROLLER, qpn);
}

/* --- connections ------------------------------------------------------------------------------ */

static struct conn *conn_new(struct tracer *t)
{
        struct roce *r = t->roce;
        struct conn *c;

        if (r->conns == CONNS_MAX)
                close_conn(t, r->all);
        c = calloc(1, sizeof(*c));
        if (!c) {
                t->no_memory = true;
                return NULL;
        }
        c->pub.transport = TRACE_ROCE;
        c->earlier = r->last;
        *(r->last ? &r->last->later : &r->all) = c;
        r->last = c;
        r->conns++;
        return c;
}

static void drop_held(struct direction *d)
{
        while (d->held) {
                struct held *h = d->held;

                d->held = h->next;
                free(h);
        }
        d->held_n = 0;
}

static void flush(struct tracer *t, struct conn *c, enum party sender);

static void close_conn(struct tracer *t, struct conn *c)
{
        struct roce *r = t->roce;

        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                flush(t, c, p);
                forget_name(r, NAME_QP, &c->pub.end[p], c->pub.qpn[p], c);
                forget_name(r, NAME_ID, &c->pub.end[p], c->id[p], c);
        }
        trace_tell(t, &c->pub, TRACE_CLOSED, PARTY_HOST);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                drop_held(&c->dir[p]);
                bytes_free(&c->dir[p].message);
                free(c->dir[p].reads);
        }
        *(c->earlier ? &c->earlier->later : &r->all) = c->later;
        *(c->later ? &c->later->earlier : &r->last) = c->earlier;
        r->conns--;
        free(c);
}

void roce_end(struct tracer *t)
{
        if (!t->roce)
                return;
        while (t->roce->all)
                close_conn(t, t->roce->all);
        free(t->roce);
        t->roce = NULL;
}

/* --- messages --------------------------------------------------------------------------------- */

static struct trace_event event_of(struct tracer *t, struct conn *c, enum trace_kind kind,
                                   enum party sender, const struct roce_packet *p)
{
        struct trace_event e = trace_event_of(t, &c->pub, kind, sender);

        e.first = p->at;
        if (p->parts & ANSWER || c->dir[sender].doing == IDLE)
                return e;
        e.first = c->dir[sender].first;
        return e;
}

static void send_end(struct tracer *t, struct conn *c, enum party sender,
                     const struct roce_packet *p, const uint8_t *data, uint32_t len)
{
        struct trace_event e = event_of(t, c, TRACE_CAPSULE, sender, p);

        e.capsule.data = data;
        e.capsule.len = len;
        e.capsule.cut = c->dir[sender].cut;
        e.capsule.invalidates = p->parts & INVALIDATE;
        e.capsule.key = p->parts & INVALIDATE ? p->key : 0;
        c->dir[sender].doing = IDLE;
        t->totals.capsules++;
        trace_emit(t, &e);
}

static void take_send(struct tracer *t, struct conn *c, enum party sender,
                      const struct roce_packet *p)
{
        struct direction *d = &c->dir[sender];

        if (p->parts & FIRST) {
                d->doing = SENDING;
                d->first = p->at;
                d->message.n = 0;
                d->cut = false;
        }
        if (d->doing != SENDING || d->message.n + p->whole > CAPSULE_MAX) {
                d->doing = IDLE;
                return;
        }
        d->cut |= p->n < p->whole;
        if (p->parts & FIRST && p->parts & LAST && p->n == p->whole) {
                send_end(t, c, sender, p, p->data, p->n);
                return;
        }
        if (!bytes_add(&d->message, p->data, p->n) ||
            !bytes_add(&d->message, NULL, p->whole - p->n))
                t->no_memory = true;
        else if (p->parts & LAST)
                send_end(t, c, sender, p, d->message.p, (uint32_t)d->message.n);
}

static void write_end(struct tracer *t, struct conn *c, enum party sender,
                      const struct roce_packet *p)
{
        struct direction *d = &c->dir[sender];
        struct trace_event e = event_of(t, c, TRACE_WRITE, sender, p);

        e.memory = d->write;
        e.memory.len = d->written;
        e.memory.cut = d->cut;
        d->doing = IDLE;
        trace_emit(t, &e);
}

static void take_write(struct tracer *t, struct conn *c, enum party sender,
                       const struct roce_packet *p)
{
        struct direction *d = &c->dir[sender];
        struct trace_event e;

        if (p->parts & FIRST) {
                d->doing = WRITING;
                d->first = p->at;
                d->write = (struct trace_memory) { .addr = p->addr, .key = p->key };
                d->written = 0;
                d->cut = false;
        }
        if (d->doing != WRITING)
                return;
        d->cut |= p->n < p->whole;
        e = event_of(t, c, TRACE_WRITE_DATA, sender, p);
        e.memory = d->write;
        e.memory.offset = d->written;
        e.memory.data = p->data;
        e.memory.len = p->n;
        if (p->n > 0)
                trace_emit(t, &e);
        d->written += p->whole;
        if (p->parts & LAST)
                write_end(t, c, sender, p);
}

/* Packets that answer a READ take as many PSNs (9.7.3.1). */
static uint32_t answer_packets(const struct conn *c, uint32_t len)
{
        if (c->mtu == 0)
                return 0;
        return len <= c->mtu ? 1 : (len + c->mtu - 1) / c->mtu;
}

static void take_read(struct tracer *t, struct conn *c, enum party sender,
                      const struct roce_packet *p)
{
        struct direction *d = &c->dir[sender];
        struct trace_event e = event_of(t, c, TRACE_READ, sender, p);

        if (!d->reads && !(d->reads = calloc(READS, sizeof(*d->reads)))) {
                t->no_memory = true;
                return;
        }
        d->reads[d->next_read++ % READS] = (struct read) {
                .used = true,
                .psn = p->psn,
                .packets = answer_packets(c, p->len),
                .addr = p->addr,
                .key = p->key,
                .len = p->len,
                .at = p->at,
        };
        e.memory = (struct trace_memory) { .addr = p->addr, .key = p->key, .len = p->len };
        trace_emit(t, &e);
}

/* --- in sequence ------------------------------------------------------------------------------ */

/* How far a is behind b: negative before it, of numbers modulo 2^24. */
static int32_t psn_distance(uint32_t a, uint32_t b)
{
        return (int32_t)((a - b) << 8) >> 8;
}

static void learn_mtu(struct conn *c, const struct roce_packet *p)
{
        bool full = (p->parts & (SEND | WRITE)) || (p->parts & ANSWER && p->parts & READ);

        if (c->mtu == 0 && full && p->parts & FIRST && !(p->parts & LAST) && p->whole > 0)
                c->mtu = p->whole;
}

static void process(struct tracer *t, struct conn *c, enum party sender,
                    const struct roce_packet *p)
{
        struct direction *d = &c->dir[sender];

        learn_mtu(c, p);
        d->next = (p->psn + 1) & PSN_MASK;
        if (p->parts & READ)
                d->next = (p->psn + answer_packets(c, p->len)) & PSN_MASK;
        if (p->parts & READ && c->mtu == 0)
                d->synced = false; /* whatever comes next */
        if (c->pub.whole_until[sender] < p->at.frame)
                c->pub.whole_until[sender] = p->at.frame;
        if (p->parts & SEND)
                take_send(t, c, sender, p);
        else if (p->parts & WRITE)
                take_write(t, c, sender, p);
        else if (p->parts & READ)
                take_read(t, c, sender, p);
}

static void release_held(struct tracer *t, struct conn *c, enum party sender)
{
        struct direction *d = &c->dir[sender];

        while (d->held && psn_distance(d->held->packet.psn, d->next) <= 0) {
                struct held *h = d->held;

                d->held = h->next;
                d->held_n--;
                if (h->packet.psn == d->next)
                        process(t, c, sender, &h->packet);
                free(h);
        }
}

/* What comes before `psn` is not in the capture. */
static void skip_to(struct tracer *t, struct conn *c, enum party sender, uint32_t psn)
{
        struct direction *d = &c->dir[sender];

        d->doing = IDLE;
        trace_gap(t, &c->pub, sender, (struct trace_gap) { .packets = (psn - d->next) & PSN_MASK });
        d->next = psn;
        release_held(t, c, sender);
}

static void flush(struct tracer *t, struct conn *c, enum party sender)
{
        while (c->dir[sender].held)
                skip_to(t, c, sender, c->dir[sender].held->packet.psn);
}

static void hold(struct tracer *t, struct conn *c, enum party sender, const struct roce_packet *p)
{
        struct direction *d = &c->dir[sender];
        struct held *h = malloc(sizeof(*h) + p->n), **at = &d->held;

        if (!h) {
                t->no_memory = true;
                return;
        }
        h->packet = *p;
        memcpy(h->data, p->data, p->n);
        h->packet.data = h->data;
        while (*at && psn_distance((*at)->packet.psn, p->psn) <= 0)
                at = &(*at)->next;
        h->next = *at;
        *at = h;
        if (++d->held_n > HELD_MAX)
                flush(t, c, sender);
}

/* `sender` has received all of its peer's packets up to psn. */
static void acknowledged(struct tracer *t, struct conn *c, enum party sender, uint32_t psn)
{
        enum party peer = peer_of(sender);
        struct direction *d = &c->dir[peer];
        uint32_t behind = (psn + 1) & PSN_MASK;

        if (!d->synced)
                return;
        while (d->held && psn_distance(d->held->packet.psn, psn) <= 0)
                skip_to(t, c, peer, d->held->packet.psn);
        if (psn_distance(d->next, behind) < 0)
                skip_to(t, c, peer, behind);
}

static void take_request(struct tracer *t, struct conn *c, enum party sender,
                         const struct roce_packet *p)
{
        struct direction *d = &c->dir[sender];
        int32_t ahead;

        if (!d->synced) {
                d->synced = true;
                d->next = p->psn;
        }
        ahead = psn_distance(p->psn, d->next);
        if (ahead < 0) {
                t->totals.repeated++;
                return;
        }
        flush(t, c, peer_of(sender)); /* it answers what it has, waiting or not */
        if (ahead > 0) {
                hold(t, c, sender, p);
                return;
        }
        process(t, c, sender, p);
        release_held(t, c, sender);
}

/* --- answers ---------------------------------------------------------------------------------- */

static struct read *read_of(struct direction *d, uint32_t psn)
{
        for (unsigned i = 1; d->reads && i <= READS; i++) { /* the latest first */
                struct read *r = &d->reads[(d->next_read - i) % READS];

                if (r->used && psn_distance(psn, r->psn) >= 0 &&
                    (r->packets == 0 || psn_distance(psn, r->psn) < (int32_t)r->packets))
                        return r;
        }
        return NULL;
}

static void read_end(struct tracer *t, struct conn *c, enum party sender, struct read *r)
{
        struct trace_event e = trace_event_of(t, &c->pub, TRACE_READ_END, sender);

        e.first = r->at;
        e.memory = (struct trace_memory) {
                .addr = r->addr, .key = r->key, .len = r->len, .cut = r->cut || r->next != r->len
        };
        r->used = false;
        trace_emit(t, &e);
}

static void take_read_answer(struct tracer *t, struct conn *c, enum party sender,
                             const struct roce_packet *p)
{
        struct read *r = read_of(&c->dir[peer_of(sender)], p->psn);
        struct trace_event e = event_of(t, c, TRACE_READ_DATA, sender, p);
        uint64_t offset;

        learn_mtu(c, p);
        if (!r)
                return;
        offset = (uint64_t)((p->psn - r->psn) & PSN_MASK) * c->mtu;
        if (offset < r->next || offset + p->whole > r->len) {
                t->totals.repeated++;
                return;
        }
        r->cut |= offset > r->next || p->n < p->whole;
        r->next = (uint32_t)offset + p->whole;
        e.memory = (struct trace_memory) { .addr = r->addr,
                                           .key = r->key,
                                           .len = p->n,
                                           .offset = (uint32_t)offset,
                                           .data = p->data };
        if (p->n > 0)
                trace_emit(t, &e);
        if (p->parts & LAST)
                read_end(t, c, sender, r);
}

static bool is_nak(const struct roce_packet *p)
{
        return (p->syndrome & NAK_MASK) != 0;
}

static void take_answer(struct tracer *t, struct conn *c, enum party sender,
                        const struct roce_packet *p)
{
        if (p->parts & AETH && is_nak(p)) { /* what waits for its turn will come again */
                drop_held(&c->dir[peer_of(sender)]);
                return;
        }
        acknowledged(t, c, sender, p->psn);
        if (p->parts & READ)
                take_read_answer(t, c, sender, p);
}

/* --- captures that began later ---------------------------------------------------------------- */

static struct half *half_of(struct roce *r, const struct packet *u, const struct roce_packet *p)
{
        struct half *h;

        for (unsigned i = 0; i < HALVES; i++) {
                h = &r->halves[i];
                if (h->used && h->qpn == p->qpn && same_address(&h->to, &u->to) &&
                    same_address(&h->from, &u->from))
                        return h;
        }
        h = &r->halves[r->next_half++ % HALVES];
        *h = (struct half) {
                .used = true, .from = u->from, .to = u->to, .qpn = p->qpn, .last_psn = UINT32_MAX
        };
        return h;
}

/* The one that goes the other way and whose last packet this one acknowledges. */
static struct half *other_half(struct roce *r, const struct half *h, uint32_t psn)
{
        struct half *found = NULL;

        for (unsigned i = 0; i < HALVES; i++) {
                struct half *o = &r->halves[i];

                if (!o->used || o == h || o->last_psn != psn || !same_address(&o->to, &h->from) ||
                    !same_address(&o->from, &h->to))
                        continue;
                if (!found || o->frame > found->frame)
                        found = o;
        }
        return found;
}

static void pair(struct tracer *t, struct half *host, struct half *controller)
{
        struct conn *c = conn_new(t);

        if (!c)
                return;
        c->pub.midstream = true;
        c->accepted = true;
        c->pub.end[PARTY_HOST] = host->from;
        c->pub.end[PARTY_CONTROLLER] = host->to;
        c->pub.end[PARTY_HOST].port = c->pub.end[PARTY_CONTROLLER].port = 0;
        c->pub.qpn[PARTY_CONTROLLER] = host->qpn; /* a half is named by where it goes */
        c->pub.qpn[PARTY_HOST] = controller->qpn;
        host->used = controller->used = false;
        add_name(t, NAME_QP, c, PARTY_HOST, c->pub.qpn[PARTY_HOST]);
        add_name(t, NAME_QP, c, PARTY_CONTROLLER, c->pub.qpn[PARTY_CONTROLLER]);
        trace_open(t, &c->pub);
}

/* The acceptance was lost: whoever speaks now has accepted, or has seen that. */
static void miss_acceptance(struct tracer *t, struct conn *c)
{
        if (c->accepted)
                return;
        c->accepted = true;
        trace_gap(t, &c->pub, PARTY_CONTROLLER, (struct trace_gap) { 0 });
}

/* The only connection between the two whose controller's queue pair nobody named. */
static struct conn *nameless(struct roce *r, const struct packet *u)
{
        struct conn *found = NULL;

        for (struct conn *c = r->last; c; c = c->earlier) {
                if (c->pub.qpn[PARTY_CONTROLLER] != 0 ||
                    !same_address(&c->pub.end[PARTY_HOST], &u->from) ||
                    !same_address(&c->pub.end[PARTY_CONTROLLER], &u->to))
                        continue;
                if (found)
                        return NULL;
                found = c;
        }
        return found;
}

static bool adopt(struct tracer *t, const struct packet *u, const struct roce_packet *p)
{
        struct conn *c = p->parts & ANSWER ? NULL : nameless(t->roce, u);

        if (!c)
                return false;
        name_controller_qp(t, c, p->qpn);
        miss_acceptance(t, c);
        take_request(t, c, PARTY_HOST, p);
        return true;
}

/* Packets are dropped until it is known whose they are. */
static void take_unknown(struct tracer *t, const struct packet *u, const struct roce_packet *p)
{
        struct half *h, *o;

        if (adopt(t, u, p))
                return;
        h = half_of(t->roce, u, p);
        t->totals.strange++;
        h->frame = t->at.frame;
        if (!(p->parts & ANSWER)) {
                h->last_psn = p->psn;
                h->responses |= p->parts & SEND && p->parts & FIRST && p->whole == RESPONSE_LEN;
                h->commands |= p->parts & SEND && p->parts & FIRST && p->whole >= COMMAND_LEN;
        } else if (!(p->parts & READ)) {
                o = other_half(t->roce, h, p->psn);
                if (o && (h->responses || o->commands) && !(h->commands || o->responses))
                        pair(t, o, h);
                else if (o && (h->commands || o->responses) && !(h->responses || o->commands))
                        pair(t, h, o);
        }
}

/* --- connection management -------------------------------------------------------------------- */

static struct trace_event cm_event(struct tracer *t, struct conn *c, enum trace_kind kind,
                                   enum party sender, const struct cm_message *m)
{
        struct trace_event e = trace_event_of(t, &c->pub, kind, sender);

        e.cm = (struct trace_cm) {
                .data = m->data,
                .len = m->len,
                .reads_in = m->reads_in,
                .reads_out = m->reads_out,
                .reason = m->reason,
        };
        return e;
}

/* Whether the private data of a request could be NVMe's: record format 0, and sizes. */
static bool is_nvme_request(const struct cm_message *m)
{
        return m->data[0] == 0 && m->data[1] == 0 && (m->data[4] || m->data[5]) &&
               (m->data[6] || m->data[7]);
}

static void take_req(struct tracer *t, const struct packet *u, const struct cm_message *m)
{
        uint16_t port = cm_service_port(m->service);
        struct name *known = find(t->roce, NAME_ID, &u->from, m->local_id);
        struct conn *c;
        struct trace_event e;

        if (known && known->conn->pub.qpn[PARTY_HOST] == m->qpn && !known->conn->accepted) {
                t->totals.repeated++;
                return;
        }
        if (port == 0 || !(trace_is_service(t, port) || is_nvme_request(m)) || !(c = conn_new(t)))
                return;
        c->pub.end[PARTY_HOST] = u->from;
        c->pub.end[PARTY_CONTROLLER] = u->to;
        c->pub.end[PARTY_HOST].port = m->host_port;
        c->pub.end[PARTY_CONTROLLER].port = port;
        c->pub.qpn[PARTY_HOST] = m->qpn;
        c->id[PARTY_HOST] = m->local_id;
        c->mtu = m->mtu;
        c->dir[PARTY_CONTROLLER].synced = true;
        c->dir[PARTY_CONTROLLER].next = m->psn;
        add_name(t, NAME_ID, c, PARTY_HOST, m->local_id);
        add_name(t, NAME_QP, c, PARTY_HOST, m->qpn);
        trace_open(t, &c->pub);
        e = cm_event(t, c, TRACE_REQUEST, PARTY_HOST, m);
        trace_emit(t, &e);
}

static void take_rep(struct tracer *t, const struct cm_message *m, struct conn *c)
{
        struct trace_event e = cm_event(t, c, TRACE_ACCEPT, PARTY_CONTROLLER, m);

        if (c->accepted) {
                t->totals.repeated++;
                return;
        }
        c->accepted = true;
        c->id[PARTY_CONTROLLER] = m->local_id;
        c->dir[PARTY_HOST].synced = true;
        c->dir[PARTY_HOST].next = m->psn;
        add_name(t, NAME_ID, c, PARTY_CONTROLLER, m->local_id);
        name_controller_qp(t, c, m->qpn);
        trace_emit(t, &e);
}

static void take_rtu(struct tracer *t, struct conn *c, enum party sender)
{
        miss_acceptance(t, c);
        trace_tell(t, &c->pub, TRACE_READY, sender);
}

static void take_leave(struct tracer *t, const struct cm_message *m, struct conn *c,
                       enum party sender)
{
        struct trace_event e = cm_event(t, c, TRACE_DISCONNECT, sender, m);

        if (c->leaving)
                t->totals.repeated++;
        else
                trace_emit(t, &e);
        c->leaving = true;
}

static void take_end(struct tracer *t, const struct cm_message *m, struct conn *c,
                     enum party sender, enum trace_kind kind)
{
        struct trace_event e = cm_event(t, c, kind, sender, m);

        trace_emit(t, &e);
        close_conn(t, c);
}

/* The connection that a message is about: known to its receiver by remote_id. */
static struct conn *conn_of(struct tracer *t, const struct packet *u, const struct cm_message *m,
                            enum party *sender)
{
        struct name *n = find(t->roce, NAME_ID, &u->to, m->remote_id);

        if (!n && m->remote_id == 0) { /* a REJ before anything else */
                t->totals.strange++;
                return NULL;
        }
        if (!n) { /* its receiver was never seen: by the sender's own id then */
                n = find(t->roce, NAME_ID, &u->from, m->local_id);
                if (n)
                        *sender = n->owner;
        } else {
                *sender = peer_of(n->owner);
        }
        t->totals.strange += !n;
        return n ? n->conn : NULL;
}

static void take_cm(struct tracer *t, const struct packet *u, const struct cm_message *m)
{
        enum party sender = PARTY_HOST;
        struct conn *c;

        if (m->attribute == CM_REQ) {
                take_req(t, u, m);
                return;
        }
        c = conn_of(t, u, m, &sender);
        if (!c)
                return;
        if (m->attribute == CM_REP)
                take_rep(t, m, c);
        else if (m->attribute == CM_RTU)
                take_rtu(t, c, sender);
        else if (m->attribute == CM_DREQ)
                take_leave(t, m, c, sender);
        else if (m->attribute == CM_DREP)
                take_end(t, m, c, sender, TRACE_DISCONNECTED);
        else if (m->attribute == CM_REJ)
                take_end(t, m, c, sender, TRACE_REJECT);
}

/* --- packets ---------------------------------------------------------------------------------- */

struct cursor {
        const uint8_t *p;
        size_t n, whole;
};

static const uint8_t *take(struct cursor *c, size_t n)
{
        const uint8_t *p = c->p;

        if (c->n < n)
                return NULL;
        c->p += n;
        c->n -= n;
        c->whole -= n;
        return p;
}

/* Nothing counts that is not in the packet: padding and the invariant CRC. */
static bool trim_end(struct cursor *c, size_t n)
{
        if (c->whole < n)
                return false;
        c->whole -= n;
        if (c->n > c->whole)
                c->n = c->whole;
        return true;
}

static bool parse_extensions(struct cursor *c, struct roce_packet *out)
{
        const uint8_t *p;

        if (out->parts & RETH) {
                if (!(p = take(c, RETH_LEN)))
                        return false;
                out->addr = be64_at(p);
                out->key = be32_at(p + 8);
                out->len = be32_at(p + 12);
        }
        if (out->parts & AETH) {
                if (!(p = take(c, AETH_LEN)))
                        return false;
                out->syndrome = p[0];
        }
        if (out->parts & IMMEDIATE && !take(c, IMMEDIATE_LEN))
                return false;
        if (out->parts & INVALIDATE) {
                if (!(p = take(c, IMMEDIATE_LEN)))
                        return false;
                out->key = be32_at(p);
        }
        return true;
}

static void take_mad(struct tracer *t, const struct packet *u, struct cursor c)
{
        struct cm_message m;

        if (take(&c, DETH_LEN) && cm_parse(c.p, c.n, &m))
                take_cm(t, u, &m);
}

static void take_reliable(struct tracer *t, const struct packet *u, const struct roce_packet *p)
{
        struct name *n = find(t->roce, NAME_QP, &u->to, p->qpn);
        enum party sender;

        if (!n) {
                take_unknown(t, u, p);
                return;
        }
        sender = peer_of(n->owner);
        if (!same_address(&n->conn->pub.end[sender], &u->from)) {
                t->totals.strange++;
                return;
        }
        miss_acceptance(t, n->conn);
        if (p->parts & ANSWER)
                take_answer(t, n->conn, sender, p);
        else
                take_request(t, n->conn, sender, p);
}

void roce_packet(struct tracer *t, const struct packet *u)
{
        struct cursor c = { u->data, u->n, u->whole };
        const uint8_t *bth = take(&c, BTH_LEN);
        struct roce_packet p = { .at = t->at };

        if (!t->roce && !(t->roce = calloc(1, sizeof(*t->roce)))) {
                t->no_memory = true;
                return;
        }
        if (!bth || !trim_end(&c, ICRC_LEN + (bth[1] >> 4 & 3u)))
                return;
        p.qpn = be24_at(bth + 5);
        p.psn = be24_at(bth + 9);
        if (bth[0] == UD_SEND_ONLY && p.qpn == CM_QPN) {
                take_mad(t, u, c);
                return;
        }
        p.parts = bth[0] < OPCODES ? opcodes[bth[0]] : 0;
        if (!p.parts || !parse_extensions(&c, &p))
                return;
        p.data = c.p;
        p.n = (uint32_t)c.n;
        p.whole = (uint32_t)c.whole;
        take_reliable(t, u, &p);
}
