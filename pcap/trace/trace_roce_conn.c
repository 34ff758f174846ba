/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of RoCEv2, and how a packet finds its own. */
#include "trace_roce.h"

#include <stdlib.h>

enum { CONNS_MAX = 8192 };

/* --- names ------------------------------------------------------------------------------------ */

static struct roce_name **bucket_of(struct roce *r, enum roce_name_kind kind,
                                    const struct capture_end *at, uint32_t number)
{
        struct capture_end address = *at;

        address.port = 0; /* a name has none */
        return &r->bucket[capture_end_hash(&address, (uint64_t)number << 8 | kind) % ROCE_BUCKETS];
}

struct roce_name *roce_find(struct roce *r, enum roce_name_kind kind, const struct capture_end *at,
                            uint32_t number)
{
        for (struct roce_name *n = *bucket_of(r, kind, at, number); n; n = n->next)
                if (n->kind == kind && n->number == number && same_address(&n->at, at))
                        return n;
        return NULL;
}

static void remove_name(struct roce *r, enum roce_name_kind kind, const struct capture_end *at,
                        uint32_t number, const struct roce_conn *of)
{
        for (struct roce_name **n = bucket_of(r, kind, at, number); *n; n = &(*n)->next) {
                struct roce_name *it = *n;

                if (it->kind != kind || it->number != number || it->conn != of ||
                    !same_address(&it->at, at))
                        continue;
                *n = it->next;
                free(it);
                return;
        }
}

void roce_name(struct tracer *t, enum roce_name_kind kind, struct roce_conn *c, enum party owner,
               uint32_t number)
{
        const struct capture_end *at = &c->pub.end[owner];
        struct roce_name *old = roce_find(t->roce, kind, at, number), *n, **bucket;

        if (old && old->conn == c)
                return;
        if (old)
                roce_conn_close(t, old->conn);
        n = calloc(1, sizeof(*n));
        if (!n) {
                t->no_memory = true;
                return;
        }
        bucket = bucket_of(t->roce, kind, at, number);
        *n = (struct roce_name) { kind, *at, number, c, owner, *bucket };
        *bucket = n;
}

void roce_name_passive(struct tracer *t, struct roce_conn *c, uint32_t qpn)
{
        enum party passive = peer_of(c->pub.active);

        remove_name(t->roce, NAME_QP, &c->pub.end[passive], c->pub.qpn[passive], c);
        c->pub.qpn[passive] = qpn;
        roce_name(t, NAME_QP, c, passive, qpn);
}

/* --- connections ------------------------------------------------------------------------------ */

/* It may go on, which nobody will know: what is missing from here on is told, so that this does not pass for its end. */
static void forget(struct tracer *t, struct roce_conn *c)
{
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                roce_flush(t, c, p);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                trace_gap(t, &c->pub, p, (struct trace_gap) { 0 });
        roce_conn_close(t, c);
}

struct roce_conn *roce_conn_new(struct tracer *t)
{
        struct roce *r = t->roce;
        struct roce_conn *c;

        if (r->conns == CONNS_MAX)
                forget(t, r->all);
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

static struct roce_next next_of(const struct roce_direction *d)
{
        return (struct roce_next) { d->synced, d->next };
}

static void remember(struct roce *r, const struct roce_conn *c, enum party owner)
{
        struct roce_past *past = &r->pasts[r->next_past++ % ROCE_PASTS];

        *past = (struct roce_past) {
                .at = c->pub.end[owner],
                .qpn = c->pub.qpn[owner],
                .next = { next_of(&c->dir[peer_of(owner)]), next_of(&c->dir[owner]) },
        };
}

bool roce_was_seen(const struct roce *r, const struct capture_end *to, const struct roce_packet *p)
{
        enum { LATELY = 1 << 16 }; /* PSNs */

        for (unsigned i = 0; i < ROCE_PASTS; i++) {
                const struct roce_past *past = &r->pasts[i];
                const struct roce_next *next = &past->next[p->parts & ANSWER ? 1 : 0];
                int32_t ahead = psn_distance(p->psn, next->psn);

                if (past->qpn == p->qpn && same_address(&past->at, to) && next->known &&
                    ahead < 0 && ahead > -LATELY)
                        return true;
        }
        return false;
}

void roce_conn_close(struct tracer *t, struct roce_conn *c)
{
        struct roce *r = t->roce;

        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                roce_flush(t, c, p);
                if (c->pub.qpn[p])
                        remember(r, c, p);
                remove_name(r, NAME_QP, &c->pub.end[p], c->pub.qpn[p], c);
                remove_name(r, NAME_ID, &c->pub.end[p], c->id[p], c);
        }
        trace_emit_kind(t, &c->pub, TRACE_CLOSED, PARTY_HOST);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                roce_direction_free(t, &c->dir[p]);
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
                roce_conn_close(t, t->roce->all);
        free(t->roce);
        t->roce = NULL;
}
