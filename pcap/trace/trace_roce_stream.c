/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one side of a reliable connection (IBTA 9.7) sends, by packet sequence number (PSN), and the
 * messages of it. A packet ahead of its turn waits: for a retransmission of what is missing, or for
 * proof that the receiver has it and only the capture has not.
 */
#include "trace_roce.h"

#include <stdlib.h>

enum {
        PSN_MASK = 0xffffff,
        HELD_MAX = 64,       /* packets ahead of their turn, of one side; */
        HELD_ALL = 64 << 20, /* bytes of those of all sides */
        READS = 256,         /* outstanding ones of one side: what the CM can express */
        CAPSULE_MAX = 1 << 20,
        SYNDROME_KIND = 0x60, /* AETH (9.7.5.2.4): what it is; the rest: its code */
        SYNDROME_RNR = 0x20,
        SYNDROME_NAK = 0x60,
        NAK_SEQUENCE = 0,
        NAK_ACCESS = 2,
};

struct roce_held {
        struct roce_held *next;
        struct roce_packet packet; /* its data follows */
        uint8_t data[];
};

struct roce_read {
        bool used, cut, holed;   /* holed: something of it is not in the capture */
        uint32_t psn, packets;   /* packets: of the answer; 0: not known */
        uint32_t key, len, next; /* next: offset of what should come */
        uint64_t addr;
        struct capture_place at;
};

static struct roce_held *unlink_held(struct roce *r, struct roce_direction *d)
{
        struct roce_held *h = d->held;

        d->held = h->next;
        d->held_n--;
        r->held -= sizeof(*h) + h->packet.n;
        return h;
}

static void drop_held(struct roce *r, struct roce_direction *d)
{
        while (d->held)
                free(unlink_held(r, d));
}

void roce_direction_free(struct tracer *t, struct roce_direction *d)
{
        drop_held(t->roce, d);
        bytes_free_within(&t->gathered, &d->message);
        free(d->reads);
}

/* What it has begun to say is not all there. */
static void stop(struct tracer *t, struct roce_direction *d)
{
        d->doing = IDLE;
        bytes_free_within(&t->gathered, &d->message);
}

/* --- messages --------------------------------------------------------------------------------- */

static struct trace_event event_of(struct tracer *t, struct roce_conn *c, enum trace_kind kind,
                                   enum party sender, const struct roce_packet *p)
{
        struct trace_event e = trace_event_of(t, &c->pub, kind, sender);

        e.first = p->at;
        if (p->parts & ANSWER || c->dir[sender].doing == IDLE)
                return e;
        e.first = c->dir[sender].first;
        return e;
}

static void send_end(struct tracer *t, struct roce_conn *c, enum party sender,
                     const struct roce_packet *p, const uint8_t *data, uint32_t len)
{
        struct trace_event e = event_of(t, c, TRACE_CAPSULE, sender, p);

        e.capsule.data = data;
        e.capsule.len = len;
        e.capsule.known = c->dir[sender].known;
        e.capsule.invalidates = p->parts & INVALIDATE;
        e.capsule.key = p->parts & INVALIDATE ? p->key : 0;
        c->dir[sender].doing = IDLE;
        t->totals.capsules++;
        trace_emit(t, &e);
        bytes_free_within(&t->gathered, &c->dir[sender].message);
}

static void take_send(struct tracer *t, struct roce_conn *c, enum party sender,
                      const struct roce_packet *p)
{
        struct roce_direction *d = &c->dir[sender];

        if (p->parts & FIRST) {
                d->doing = SENDING;
                d->first = p->at;
                d->message.n = 0;
                d->known = 0;
        }
        if (d->doing != SENDING || d->message.n + p->whole > CAPSULE_MAX) {
                stop(t, d);
                return;
        }
        if (d->known == d->message.n)
                d->known += p->n;
        if (p->parts & FIRST && p->parts & LAST && p->n == p->whole) {
                send_end(t, c, sender, p, p->data, p->n);
                return;
        }
        if (!bytes_add_within(&t->gathered, &d->message, p->data, p->n) ||
            !bytes_add_within(&t->gathered, &d->message, NULL, p->whole - p->n)) {
                stop(t, d);
                trace_gap(t, &c->pub, sender, (struct trace_gap) { .packets = 1 });
        } else if (p->parts & LAST) {
                send_end(t, c, sender, p, d->message.p, (uint32_t)d->message.n);
        }
}

static void write_end(struct tracer *t, struct roce_conn *c, enum party sender,
                      const struct roce_packet *p)
{
        struct roce_direction *d = &c->dir[sender];
        struct trace_event e = event_of(t, c, TRACE_WRITE, sender, p);

        e.memory = d->write;
        e.memory.len = d->written;
        e.memory.cut = d->cut;
        d->doing = IDLE;
        trace_emit(t, &e);
}

static void take_write(struct tracer *t, struct roce_conn *c, enum party sender,
                       const struct roce_packet *p)
{
        struct roce_direction *d = &c->dir[sender];
        struct trace_event e;

        if (p->parts & FIRST) {
                stop(t, d);
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
static uint32_t answer_packets(const struct roce_conn *c, uint32_t len)
{
        if (c->mtu == 0)
                return 0;
        return len <= c->mtu ? 1 : (len + c->mtu - 1) / c->mtu;
}

static void take_read(struct tracer *t, struct roce_conn *c, enum party sender,
                      const struct roce_packet *p)
{
        struct roce_direction *d = &c->dir[sender];
        struct trace_event e = event_of(t, c, TRACE_READ, sender, p);

        if (!d->reads && !(d->reads = calloc(READS, sizeof(*d->reads)))) {
                t->no_memory = true;
                return;
        }
        d->reads[d->next_read++ % READS] = (struct roce_read) {
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

static void learn_mtu(struct roce_conn *c, const struct roce_packet *p)
{
        bool full = (p->parts & (SEND | WRITE)) || (p->parts & ANSWER && p->parts & READ);

        if (c->mtu == 0 && full && p->parts & FIRST && !(p->parts & LAST) && p->whole > 0)
                c->mtu = p->whole;
}

static void process(struct tracer *t, struct roce_conn *c, enum party sender,
                    const struct roce_packet *p)
{
        struct roce_direction *d = &c->dir[sender];

        learn_mtu(c, p);
        d->next = (p->psn + 1) & PSN_MASK;
        if (p->parts & READ)
                d->next = (p->psn + answer_packets(c, p->len)) & PSN_MASK;
        if (p->parts & READ && c->mtu == 0)
                d->synced = false; /* whatever comes next */
        d->acked &= psn_distance(d->next, (d->ack_psn + 1) & PSN_MASK) < 0;
        if (c->pub.whole_until[sender] < p->at.frame)
                c->pub.whole_until[sender] = p->at.frame;
        if (p->parts & SEND)
                take_send(t, c, sender, p);
        else if (p->parts & WRITE)
                take_write(t, c, sender, p);
        else if (p->parts & READ)
                take_read(t, c, sender, p);
}

static void release_held(struct tracer *t, struct roce_conn *c, enum party sender)
{
        struct roce_direction *d = &c->dir[sender];

        while (d->held && psn_distance(d->held->packet.psn, d->next) <= 0) {
                struct roce_held *h = unlink_held(t->roce, d);

                if (h->packet.psn == d->next)
                        process(t, c, sender, &h->packet);
                free(h);
        }
}

/* What comes before `psn` is not in the capture. */
static void skip_to(struct tracer *t, struct roce_conn *c, enum party sender, uint32_t psn)
{
        struct roce_direction *d = &c->dir[sender];

        stop(t, d);
        trace_gap(t, &c->pub, sender, (struct trace_gap) { .packets = (psn - d->next) & PSN_MASK });
        d->next = psn;
        release_held(t, c, sender);
}

static void hold(struct tracer *t, struct roce_conn *c, enum party sender,
                 const struct roce_packet *p)
{
        struct roce_direction *d = &c->dir[sender];
        struct roce_held *h = malloc(sizeof(*h) + p->n), **at = &d->held;

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
        t->roce->held += sizeof(*h) + p->n;
        if (++d->held_n > HELD_MAX || t->roce->held > HELD_ALL)
                roce_flush(t, c, sender);
}

/* `sender` has received all of its peer's packets up to psn. */
static void acknowledged(struct tracer *t, struct roce_conn *c, enum party sender, uint32_t psn)
{
        enum party peer = peer_of(sender);
        struct roce_direction *d = &c->dir[peer];
        uint32_t behind = (psn + 1) & PSN_MASK;

        if (!d->synced)
                return;
        while (d->held && psn_distance(d->held->packet.psn, psn) <= 0)
                skip_to(t, c, peer, d->held->packet.psn);
        if (psn_distance(d->next, behind) < 0)
                skip_to(t, c, peer, behind);
}

/* What `sender` has acknowledged and was not seen is a gap now. */
static void settle(struct tracer *t, struct roce_conn *c, enum party sender)
{
        struct roce_direction *d = &c->dir[peer_of(sender)];

        if (!d->acked)
                return;
        d->acked = false;
        acknowledged(t, c, sender, d->ack_psn);
}

void roce_flush(struct tracer *t, struct roce_conn *c, enum party sender)
{
        while (c->dir[sender].held)
                skip_to(t, c, sender, c->dir[sender].held->packet.psn);
        settle(t, c, peer_of(sender));
}

/* An acknowledgement may be caught before its packet, which is waited for unless more comes of who has it. */
static void acknowledge_late(struct tracer *t, struct roce_conn *c, enum party sender, uint32_t psn)
{
        struct roce_direction *d = &c->dir[peer_of(sender)];

        if (!d->synced || psn_distance(d->next, (psn + 1) & PSN_MASK) >= 0)
                return;
        if (d->acked && t->at.frame - d->ack_frame > TRACE_LATE)
                settle(t, c, sender);
        if (!d->acked) {
                d->acked = true;
                d->ack_psn = psn;
                d->ack_frame = t->at.frame;
        } else if (psn_distance(psn, d->ack_psn) > 0) {
                d->ack_psn = psn;
        }
}

void roce_take_request(struct tracer *t, struct roce_conn *c, enum party sender,
                       const struct roce_packet *p)
{
        struct roce_direction *d = &c->dir[sender];
        int32_t ahead;

        if (d->acked && t->at.frame - d->ack_frame > TRACE_LATE)
                settle(t, c, peer_of(sender));
        if (!d->synced) {
                d->synced = true;
                d->next = p->psn;
        }
        ahead = psn_distance(p->psn, d->next);
        if (ahead < 0) {
                t->totals.repeated++;
                return;
        }
        roce_flush(t, c, peer_of(sender)); /* it answers what it has, waiting or not */
        if (ahead > 0) {
                hold(t, c, sender, p);
                return;
        }
        process(t, c, sender, p);
        release_held(t, c, sender);
}

/* --- answers ---------------------------------------------------------------------------------- */

static struct roce_read *read_of(struct roce_direction *d, uint32_t psn)
{
        for (unsigned i = 1; d->reads && i <= READS; i++) { /* the latest first */
                struct roce_read *r = &d->reads[(d->next_read - i) % READS];

                if (r->used && psn_distance(psn, r->psn) >= 0 &&
                    (r->packets == 0 || psn_distance(psn, r->psn) < (int32_t)r->packets))
                        return r;
        }
        return NULL;
}

static void read_end(struct tracer *t, struct roce_conn *c, enum party sender, struct roce_read *r)
{
        struct trace_event e = trace_event_of(t, &c->pub, TRACE_READ_END, sender);

        /* No message is missing with it, so it is no gap of the session. */
        t->totals.gaps += r->holed || (!r->cut && r->next != r->len);
        e.first = r->at;
        e.memory = (struct trace_memory) { .addr = r->addr,
                                           .key = r->key,
                                           .len = r->len,
                                           .cut = r->cut || r->holed || r->next != r->len };
        r->used = false;
        trace_emit(t, &e);
}

static void take_read_answer(struct tracer *t, struct roce_conn *c, enum party sender,
                             const struct roce_packet *p)
{
        struct roce_read *r = read_of(&c->dir[peer_of(sender)], p->psn);
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
        r->cut |= p->n < p->whole;
        r->holed |= offset > r->next;
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
        return p->parts & AETH && p->syndrome & SYNDROME_KIND;
}

/* One that is but for a packet out of turn says nothing. */
static void emit_refusal(struct tracer *t, struct roce_conn *c, enum party sender,
                         const struct roce_packet *p)
{
        struct trace_event e = trace_event_of(t, &c->pub, TRACE_REFUSAL, sender);
        unsigned code = p->syndrome & ~(unsigned)SYNDROME_KIND;

        if ((p->syndrome & SYNDROME_KIND) == SYNDROME_RNR)
                e.refusal = TRACE_NOT_READY;
        else if (code == NAK_SEQUENCE)
                return;
        else
                e.refusal = code == NAK_ACCESS ? TRACE_NO_ACCESS : TRACE_REFUSED_OTHERWISE;
        acknowledged(t, c, sender, (p->psn - 1) & PSN_MASK); /* all but that one */
        trace_emit(t, &e);
}

void roce_take_answer(struct tracer *t, struct roce_conn *c, enum party sender,
                      const struct roce_packet *p)
{
        if (is_nak(p)) { /* what waits for its turn will come again */
                drop_held(t->roce, &c->dir[peer_of(sender)]);
                emit_refusal(t, c, sender, p);
                return;
        }
        if (p->parts & READ) {
                acknowledged(t, c, sender, p->psn);
                take_read_answer(t, c, sender, p);
        } else {
                acknowledge_late(t, c, sender, p->psn);
        }
}
