/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RoCEv2: packets and their connections. A packet names only the queue pair it goes to; which two
 * belong together say the messages of connection management, or, if the capture began later,
 * acknowledgements: they bear the PSN of what the other side sent last.
 */
#include "trace_roce.h"

#include <stdlib.h>

#include "pdu/io/capture/packet_cursor.h"

enum {
        BTH_LEN = 12,
        ICRC_LEN = 4,
        DETH_LEN = 8,
        RETH_LEN = 16,
        AETH_LEN = 4,
        IMMEDIATE_LEN = 4,
        CM_QPN = 1,
        COMMAND_LEN = 64,
        RESPONSE_LEN = 16,
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

/* --- captures that began later ---------------------------------------------------------------- */

static struct roce_half *half_of(struct roce *r, const struct packet *u,
                                 const struct roce_packet *p)
{
        struct roce_half *h;

        for (unsigned i = 0; i < ROCE_HALVES; i++) {
                h = &r->halves[i];
                if (h->used && h->qpn == p->qpn && same_address(&h->to, &u->to) &&
                    same_address(&h->from, &u->from))
                        return h;
        }
        h = &r->halves[r->next_half++ % ROCE_HALVES];
        *h = (struct roce_half) {
                .used = true, .from = u->from, .to = u->to, .qpn = p->qpn, .last_psn = UINT32_MAX
        };
        return h;
}

/* The one that goes the other way and whose last packet this one acknowledges. */
static struct roce_half *other_half(struct roce *r, const struct roce_half *h, uint32_t psn)
{
        struct roce_half *found = NULL;

        for (unsigned i = 0; i < ROCE_HALVES; i++) {
                struct roce_half *o = &r->halves[i];

                if (!o->used || o == h || o->last_psn != psn || !same_address(&o->to, &h->from) ||
                    !same_address(&o->from, &h->to))
                        continue;
                if (!found || o->frame > found->frame)
                        found = o;
        }
        return found;
}

static void pair(struct tracer *t, struct roce_half *host, struct roce_half *controller)
{
        struct roce_conn *c = roce_conn_new(t);

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
        roce_name(t, NAME_QP, c, PARTY_HOST, c->pub.qpn[PARTY_HOST]);
        roce_name(t, NAME_QP, c, PARTY_CONTROLLER, c->pub.qpn[PARTY_CONTROLLER]);
        trace_open(t, &c->pub);
}

/* The acceptance was lost: whoever speaks now has accepted, or has seen that. */
static void miss_acceptance(struct tracer *t, struct roce_conn *c)
{
        if (c->accepted)
                return;
        c->accepted = true;
        trace_gap(t, &c->pub, peer_of(c->pub.active), (struct trace_gap) { 0 });
}

/* The only connection between the two whose passive side's queue pair nobody named, of the last ones. */
static struct roce_conn *nameless(struct roce *r, const struct packet *u)
{
        enum { LOOKED_AT = 256 };
        struct roce_conn *found = NULL, *c = r->last;

        for (unsigned i = 0; i < LOOKED_AT && c; i++, c = c->earlier) {
                enum party active = c->pub.active, passive = peer_of(active);

                if (c->pub.qpn[passive] != 0 || !same_address(&c->pub.end[active], &u->from) ||
                    !same_address(&c->pub.end[passive], &u->to))
                        continue;
                if (found)
                        return NULL;
                found = c;
        }
        return c ? NULL : found; /* there may be more */
}

static bool adopt(struct tracer *t, const struct packet *u, const struct roce_packet *p)
{
        struct roce_conn *c = p->parts & ANSWER ? NULL : nameless(t->roce, u);

        if (!c)
                return false;
        roce_name_passive(t, c, p->qpn);
        miss_acceptance(t, c);
        c->adopted = true;
        roce_take_request(t, c, c->pub.active, p);
        return true;
}

static void learn(struct roce_half *h, const struct roce_packet *p)
{
        unsigned whole = p->parts & (SEND | FIRST | LAST);

        h->last_psn = p->psn;
        if (!(p->parts & SEND) || !(p->parts & FIRST))
                return;
        h->responses |= p->whole == RESPONSE_LEN;
        h->commands |= p->whole >= COMMAND_LEN;
        h->others |=
            whole == (SEND | FIRST | LAST) && p->whole < COMMAND_LEN && p->whole != RESPONSE_LEN;
}

/* Commands alone are no proof: other protocols have messages as long. */
static bool could_be(const struct roce_half *host, const struct roce_half *controller)
{
        return controller->responses && !controller->commands && !host->responses &&
               !host->others && !controller->others;
}

/* Packets are dropped until it is known whose they are. */
static void take_unknown(struct tracer *t, const struct packet *u, const struct roce_packet *p)
{
        struct roce_half *h, *o;

        if (roce_was_seen(t->roce, &u->to, p)) {
                t->totals.repeated++;
                return;
        }
        if (adopt(t, u, p))
                return;
        h = half_of(t->roce, u, p);
        t->totals.strange++;
        h->frame = t->at.frame;
        if (!(p->parts & ANSWER)) {
                learn(h, p);
        } else if (!(p->parts & READ)) {
                o = other_half(t->roce, h, p->psn);
                if (o && could_be(o, h))
                        pair(t, o, h);
                else if (o && could_be(h, o))
                        pair(t, h, o);
        }
}

/* --- what others have told of ---------------------------------------------------------------- */

static bool is_ready(struct tracer *t)
{
        if (!t->roce)
                t->roce = calloc(1, sizeof(*t->roce));
        t->no_memory |= !t->roce;
        return t->roce;
}

struct trace_conn *trace_learn(struct tracer *t, const struct trace_conn *by,
                               const struct trace_pair *pair)
{
        struct roce_conn *c = is_ready(t) ? roce_conn_new(t) : NULL;

        if (!c)
                return NULL;
        c->accepted = true;
        c->mtu = pair->mtu;
        c->pub.family = by->family;
        c->pub.described_by = by->number;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                c->pub.end[p] = pair->end[p];
                c->pub.qpn[p] = pair->qpn[p];
                c->dir[p].synced = true;
                c->dir[p].next = pair->psn[p];
                roce_name(t, NAME_QP, c, p, pair->qpn[p]);
        }
        trace_open(t, &c->pub);
        return &c->pub;
}

/* --- connection management -------------------------------------------------------------------- */

static struct trace_event cm_event(struct tracer *t, struct roce_conn *c, enum trace_kind kind,
                                   enum party sender, const struct cm_message *m)
{
        struct trace_event e = trace_event_of(t, &c->pub, kind, sender);

        e.cm = (struct trace_cm) {
                .data = m->data,
                .len = m->len,
                .reads_in = m->reads_in,
                .reads_out = m->reads_out,
                .depths = true,
                .retries = kind == TRACE_REQUEST,
                .service_type = m->service_type,
                .rnr_retry = m->rnr_retry,
                .reason = m->reason,
        };
        return e;
}

/* Who asks has told its numbers, and what the other side begins with. */
static void name_active(struct tracer *t, struct roce_conn *c, const struct packet *u,
                        const struct cm_message *m)
{
        enum party active = c->pub.active;
        struct roce_direction *answers = &c->dir[peer_of(active)];

        c->pub.end[active] = u->from;
        c->pub.end[active].port = m->active_port;
        c->pub.qpn[active] = m->qpn;
        c->id[active] = m->local_id;
        answers->synced = true;
        answers->next = c->asked_psn = m->psn;
        roce_name(t, NAME_ID, c, active, m->local_id);
        roce_name(t, NAME_QP, c, active, m->qpn);
}

static void take_req(struct tracer *t, const struct packet *u, const struct cm_message *m)
{
        uint16_t port = cm_service_port(m->service);
        struct roce_name *known = roce_find(t->roce, NAME_ID, &u->from, m->local_id);
        struct roce_conn *c;
        struct trace_event e;

        if (known && known->conn->pub.qpn[known->owner] == m->qpn &&
            (!known->conn->accepted || known->conn->asked_psn == m->psn)) {
                t->totals.repeated++;
                return;
        }
        if (port == 0 ||
            !(trace_is_service(t, port) ||
              (t->family->is_request && t->family->is_request(m->data)) ||
              trace_claimed(t, m->data, m->len)) ||
            !(c = roce_conn_new(t)))
                return;
        trace_recognize(t, &c->pub, m->data, m->len);
        name_active(t, c, u, m);
        c->pub.end[peer_of(c->pub.active)] = u->to;
        c->pub.end[peer_of(c->pub.active)].port = port;
        c->mtu = m->mtu;
        trace_open(t, &c->pub);
        e = cm_event(t, c, TRACE_REQUEST, c->pub.active, m);
        trace_emit(t, &e);
}

static void take_rep(struct tracer *t, const struct cm_message *m, struct roce_conn *c)
{
        enum party active = c->pub.active, passive = peer_of(active);
        struct trace_event e = cm_event(t, c, TRACE_ACCEPT, passive, m);
        bool guessed;

        if (c->accepted && !c->adopted) {
                t->totals.repeated++;
                return;
        }
        guessed = c->adopted && c->pub.qpn[passive] == m->qpn;
        if (c->adopted && !guessed) /* what was told since is of others */
                trace_gap(t, &c->pub, passive, (struct trace_gap) { 0 });
        c->accepted = true;
        c->adopted = false;
        c->id[passive] = m->local_id;
        if (!guessed) { /* else its packets have been taken */
                c->dir[active].synced = true;
                c->dir[active].next = m->psn;
        }
        roce_name(t, NAME_ID, c, passive, m->local_id);
        roce_name_passive(t, c, m->qpn);
        trace_emit(t, &e);
}

static void take_rtu(struct tracer *t, struct roce_conn *c, enum party sender)
{
        miss_acceptance(t, c);
        trace_emit_kind(t, &c->pub, TRACE_READY, sender);
}

static void take_leave(struct tracer *t, const struct cm_message *m, struct roce_conn *c,
                       enum party sender)
{
        struct trace_event e = cm_event(t, c, TRACE_DISCONNECT, sender, m);

        if (c->leaving)
                t->totals.repeated++;
        else
                trace_emit(t, &e);
        c->leaving = true;
}

static void take_end(struct tracer *t, const struct cm_message *m, struct roce_conn *c,
                     enum party sender, enum trace_kind kind)
{
        struct trace_event e = cm_event(t, c, kind, sender, m);

        trace_emit(t, &e);
        roce_conn_close(t, c);
}

/* The connection that a message is about: known to its receiver by remote_id. */
static struct roce_conn *conn_of(struct tracer *t, const struct packet *u,
                                 const struct cm_message *m, enum party *sender)
{
        struct roce_name *n = roce_find(t->roce, NAME_ID, &u->to, m->remote_id);

        if (!n && m->remote_id == 0) { /* a REJ before anything else */
                t->totals.strange++;
                return NULL;
        }
        if (!n) { /* its receiver was never seen: by the sender's own id then */
                n = roce_find(t->roce, NAME_ID, &u->from, m->local_id);
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
        struct roce_conn *c;

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

/* Nothing counts that is not in the packet: padding and the invariant CRC. */
static bool trim_end(struct cursor *c, size_t n)
{
        if (c->whole < n)
                return false;
        cursor_trim(c, c->whole - n);
        return true;
}

static bool parse_extensions(struct cursor *c, struct roce_packet *out)
{
        const uint8_t *p;

        if (out->parts & RETH) {
                if (!(p = cursor_take(c, RETH_LEN)))
                        return false;
                out->addr = be64_at(p);
                out->key = be32_at(p + 8);
                out->len = be32_at(p + 12);
        }
        if (out->parts & AETH) {
                if (!(p = cursor_take(c, AETH_LEN)))
                        return false;
                out->syndrome = p[0];
        }
        if (out->parts & IMMEDIATE && !cursor_take(c, IMMEDIATE_LEN))
                return false;
        if (out->parts & INVALIDATE) {
                if (!(p = cursor_take(c, IMMEDIATE_LEN)))
                        return false;
                out->key = be32_at(p);
        }
        return true;
}

/* Whether it was seen before: the CM repeats what is not answered in time, with the same transaction id, and some captures
 * have each frame more than once. */
static bool is_repeated(struct roce *r, const struct packet *u, const uint8_t *mad, size_t n)
{
        uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
        struct capture_end from = u->from;

        for (size_t i = 0; i < n; i++)
                hash = (hash ^ mad[i]) * UINT64_C(0x100000001b3);
        from.port = 0; /* chosen for each packet, if the sender likes */
        hash = capture_end_hash(&from, hash);
        for (unsigned i = 0; i < ROCE_MADS; i++)
                if (r->mads[i] == hash)
                        return true;
        r->mads[r->next_mad++ % ROCE_MADS] = hash;
        return false;
}

static void take_mad(struct tracer *t, const struct packet *u, struct cursor c)
{
        struct cm_message m;

        t->totals.sliced += c.n < c.whole;
        if (!cursor_take(&c, DETH_LEN) || !cm_parse(c.p, c.n, &m))
                return;
        if (is_repeated(t->roce, u, c.p, c.n))
                t->totals.repeated++;
        else
                take_cm(t, u, &m);
}

/* A connection that the user has told of begins with the first packet to either of its queue pairs. */
static void open_told(struct tracer *t, const struct packet *u, const struct trace_told *told,
                      enum party sender)
{
        struct roce_conn *c = roce_conn_new(t);

        if (!c)
                return;
        c->pub.midstream = c->accepted = true;
        c->pub.family = told->family;
        c->pub.told = told;
        c->pub.end[sender] = u->from;
        c->pub.end[peer_of(sender)] = u->to;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                c->pub.end[p].port = 0;
                c->pub.qpn[p] = told->qpn[p];
                roce_name(t, NAME_QP, c, p, told->qpn[p]);
        }
        trace_open(t, &c->pub);
}

static bool is_found(const struct roce *r, const struct trace_told *told)
{
        const struct roce_conn *c = r->all;

        while (c && c->pub.told != told)
                c = c->later;
        return c;
}

/* One connection each: other machines may have queue pairs of the same numbers, which were not meant. */
static struct roce_name *find_told(struct tracer *t, const struct packet *u,
                                   const struct roce_packet *p)
{
        for (const struct trace_told *told = t->options.told; told->family; told++) {
                bool there = told->qpn[PARTY_CONTROLLER] == p->qpn;

                if ((!there && told->qpn[PARTY_HOST] != p->qpn) || is_found(t->roce, told))
                        continue;
                open_told(t, u, told, there ? PARTY_HOST : PARTY_CONTROLLER);
                return roce_find(t->roce, NAME_QP, &u->to, p->qpn);
        }
        return NULL;
}

static void take_reliable(struct tracer *t, const struct packet *u, const struct roce_packet *p)
{
        struct roce_name *n = roce_find(t->roce, NAME_QP, &u->to, p->qpn);
        enum party sender;

        if (!n)
                n = find_told(t, u, p);
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
                roce_take_answer(t, n->conn, sender, p);
        else
                roce_take_request(t, n->conn, sender, p);
}

void roce_packet(struct tracer *t, const struct packet *u)
{
        struct cursor c = { u->data, u->n, u->whole };
        const uint8_t *bth = cursor_take(&c, BTH_LEN);
        struct roce_packet p = { .at = t->at };

        if (!is_ready(t))
                return;
        t->totals.cut += !bth && c.whole >= BTH_LEN;
        if (!bth || !trim_end(&c, ICRC_LEN + (bth[1] >> 4 & 3u)))
                return;
        p.qpn = be24_at(bth + 5);
        p.psn = be24_at(bth + 9);
        if (bth[0] == UD_SEND_ONLY && p.qpn == CM_QPN) {
                take_mad(t, u, c);
                return;
        }
        p.parts = bth[0] < OPCODES ? opcodes[bth[0]] : 0;
        if (!p.parts)
                return;
        t->totals.sliced += c.n < c.whole;
        if (!parse_extensions(&c, &p))
                return;
        p.data = c.p;
        p.n = (uint32_t)c.n;
        p.whole = (uint32_t)c.whole;
        take_reliable(t, u, &p);
}
