/* SPDX-License-Identifier: BSD-3-Clause */
#include "conn.h"

#include <stdio.h>

#include "family.h"

enum {
        NAME_MAX_BYTES = 512,           /* of a share: a place and a host's name */
        PLACE_BUDGET = 2 * CONN_BUDGET, /* messages of all hosts of an address in a turn */
        SLICE_MESSAGES = 8,             /* as many messages take the time of a slice */
};

/* --- lists of the reactor --------------------------------------------------------------------- */

void conn_come_again(struct conn *c)
{
        if (c->again)
                return;
        c->again = true;
        c->next_again = c->reactor->again;
        c->reactor->again = c;
}

void conn_go_hungry(struct conn *c)
{
        if (c->hungry)
                return;
        c->hungry = true;
        c->next_hungry = NULL;
        *c->reactor->hungry_last = c;
        c->reactor->hungry_last = &c->next_hungry;
}

static void leave_again(struct conn *c)
{
        struct conn **at = &c->reactor->again;

        while (c->again && *at && *at != c)
                at = &(*at)->next_again;
        if (c->again && *at)
                *at = c->next_again;
        c->again = false;
}

void conn_leave_hungry(struct conn *c)
{
        struct conn **at = &c->reactor->hungry;

        while (c->hungry && *at && *at != c)
                at = &(*at)->next_hungry;
        if (c->hungry && *at) {
                *at = c->next_hungry;
                if (!*at)
                        c->reactor->hungry_last = at;
        }
        c->hungry = false;
}

void conn_wake_at(struct conn *c, uint64_t due)
{
        if (c->reactor->wake == 0 || due < c->reactor->wake)
                c->reactor->wake = due;
}

/* --- what it shares with others of its host ---------------------------------------------------- */

/* Names can be taken by anybody: a host has a share at each address. */
static struct pool_share *join_host(struct conn *c)
{
        char name[NAME_MAX_BYTES];

        snprintf(name, sizeof(name), "%s %s", c->peer.place, c->host);
        return pool_join(c->pool, name);
}

/* From when the host's name is known it counts, as soon as what the connection had before is back. */
static bool has_shares(struct conn *c)
{
        if (!c->borrower.place)
                c->borrower.place = pool_join(c->pool, c->peer.place);
        if (!c->borrower.host && c->borrower.held == 0 && c->host)
                c->borrower.host = join_host(c);
        return c->borrower.place && (c->borrower.host || c->borrower.held > 0 || !c->host);
}

uint8_t *conn_buffer_get(struct conn *c, uint32_t len)
{
        uint8_t *buf = has_shares(c) ? pool_get(c->pool, len, &c->borrower) : NULL;

        if (!buf)
                conn_go_hungry(c);
        return buf;
}

void conn_buffer_put(struct conn *c, uint8_t *buf, uint32_t len)
{
        pool_put(c->pool, buf, len, &c->borrower);
        c->reactor->fed = true;
}

void *conn_keep(struct conn *c, const void *data, uint32_t len)
{
        (void)has_shares(c);
        return c->borrower.place ? pool_keep(c->pool, data, len, c->borrower.place) : NULL;
}

void conn_drop(struct conn *c, void *copy, uint32_t len)
{
        pool_drop(c->pool, copy, len, c->borrower.place);
}

/* Of a host in this turn: names can be taken by anybody, so that all of an address have a share of it, too. Asked for
 * once a turn. */
static unsigned most_of(struct conn *c, struct pool_share *host)
{
        struct reactor *r = c->reactor;
        struct pool_share *place = c->borrower.place;
        unsigned most;

        if (!place || (host->part.turn == r->turns.now && host->part.share == &place->hosts))
                return place ? host->may : CONN_BUDGET;
        r->places.now = r->turns.now;
        most = turn_ask(&r->places, &place->hosts, &host->part, PLACE_BUDGET);
        host->may = most < CONN_BUDGET ? most : CONN_BUDGET;
        return host->may;
}

/* Before their host is known, all connections from one address have one share. One for which no share could be
 * allocated may take CONN_BUDGET by itself. */
unsigned conn_ask(struct conn *c, struct turn_part *part)
{
        struct pool_share *share;

        if (!c->borrower.host)
                (void)has_shares(c);
        share = c->borrower.host ? c->borrower.host : c->borrower.place;
        return share ? turn_ask(&c->reactor->turns, &share->turns, part, most_of(c, share))
                     : CONN_BUDGET;
}

unsigned conn_budget(struct conn *c)
{
        return conn_ask(c, &c->part);
}

bool conn_take_slice(struct conn *c)
{
        if (conn_ask(c, &c->slices) == 0) {
                conn_come_again(c);
                return false;
        }
        c->slices.taken += SLICE_MESSAGES;
        return true;
}

/* --- from the beginning to the end ------------------------------------------------------------ */

bool conn_count(struct service *s, const struct conn_peer *peer)
{
        if (!quota_take(&s->of_address, peer->place, s->limits.host_connections)) {
                metric_add(&s->refused_address, 1);
                return false;
        }
        if (atomic_fetch_add(&s->conns, 1) < s->limits.connections)
                return true;
        metric_add(&s->refused_target, 1);
        atomic_fetch_sub(&s->conns, 1);
        quota_give(&s->of_address, peer->place);
        return false;
}

void conn_enter(struct conn *c, const struct conn_kind *kind, struct reactor *r, struct port *port,
                const struct conn_peer *peer, struct pool *pool)
{
        c->kind = kind;
        c->reactor = r;
        c->port = port;
        c->peer = *peer;
        c->pool = pool;
        c->number = atomic_fetch_add(&r->service->accepted, 1) + 1;
        c->next = r->conns;
        c->prev = &r->conns;
        if (c->next)
                c->next->prev = &c->next;
        r->conns = c;
}

void conn_leave(struct conn *c)
{
        leave_again(c);
        conn_leave_hungry(c);
        *c->prev = c->next;
        if (c->next)
                c->next->prev = c->prev;
        conn_uncount(c->reactor->service, c->port, &c->peer);
        pool_leave(c->pool, c->borrower.host);
        pool_leave(c->pool, c->borrower.place);
}

void conn_uncount(struct service *s, struct port *port, const struct conn_peer *peer)
{
        if (s->family->port_put)
                s->family->port_put(port);
        atomic_fetch_sub(&s->conns, 1);
        quota_give(&s->of_address, peer->place);
}

bool conn_is_older(const struct conn *c, uint64_t since, unsigned ms)
{
        return reactor_now(c->reactor) - since >= ms;
}
