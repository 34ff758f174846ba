/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection's place on its reactor, whatever protocol it speaks: the memory that it borrows, its host's share of
 * the reactor's time, and the lists that it stands in. Embedded in the family's connection, which zeroes it. All of it
 * is for the reactor's thread, but conn_count() and conn_uncount().
 */
#ifndef NVMF_TARGET_ENGINE_CONN_H
#define NVMF_TARGET_ENGINE_CONN_H

#include "pdu/io/net.h"
#include "reactor.h"

struct rdma_link;

struct
    conn_kind { /* what the family does for its connections; all may free the connection. NULL: nothing */
        /* There is something to do without anything new from the wire. */
        void (*go_on)(struct conn *c);
        /* Data buffers came back. */
        void (*feed)(struct conn *c);
        /* Looks at its timers. */
        void (*sweep)(struct conn *c);
        /* The time of reactor->wake has come, which some connection has asked for. */
        void (*wake)(struct conn *c);
        /* Ends it as soon as nothing is in flight; at_once: now. */
        void (*drain)(struct conn *c, bool at_once);
};

struct conn {
        const struct conn_kind *kind;
        struct reactor *reactor;
        struct port *port;      /* a reference */
        unsigned number;        /* in traces, from 1 */
        const char *host;       /* its name, once it is known: whose shares it has */
        struct rdma_link *rdma; /* NULL: it is not over RDMA */
        struct pool *pool;      /* its data buffers are from there */
        struct pool_borrower borrower;
        struct turn_part part, slices; /* of its host's share of the reactor */
        char traddr[NET_TRADDR];       /* its own end */
        struct conn_peer peer;
        bool again, hungry;        /* in its reactor's list of that name */
        struct conn *next, **prev; /* in its reactor's conns */
        struct conn *next_again, *next_hungry;
};

/* One more connection with `peer`; false: there are too many in all, or of its address. Any thread. */
bool conn_count(struct service *s, const struct conn_peer *peer);
/* It is the reactor's from here on, with the reference to the port; it was counted. */
void conn_enter(struct conn *c, const struct conn_kind *kind, struct reactor *r, struct port *port,
                const struct conn_peer *peer, struct pool *pool);
/* Nobody speaks of it any more, and all buffers are back: out of its reactor. Freeing it is the family's. */
void conn_leave(struct conn *c);
/* What never entered: gives the port back, and is no longer counted. Any thread. */
void conn_uncount(struct service *s, struct port *port, const struct conn_peer *peer);

/* Data buffers of len bytes. NULL when out of memory: the connection is fed once buffers have come back. */
uint8_t *conn_buffer_get(struct conn *c, uint32_t len);
void conn_buffer_put(struct conn *c, uint8_t *buf, uint32_t len);
/* A copy of what came in a capsule, for as long as it has to wait: len bytes, not 0. NULL when its address has too many
 * such bytes, or out of memory. All are dropped before conn_leave(). */
void *conn_keep(struct conn *c, const void *data, uint32_t len);
void conn_drop(struct conn *c, void *copy, uint32_t len);

enum { CONN_BUDGET = 32 }; /* messages of a host in a turn */
/* A message of it has come, or bytes in which one may be: how many it may have now (0: none until the next turn, for
 * which conn_come_again() is the caller's). Its host's connections share CONN_BUDGET in each turn; who takes one
 * counts it in c->part.taken. The hosts of one address share what two have, as soon as another address asks, too. */
unsigned conn_budget(struct conn *c);
/* The same of a part of its own, beside c->part: zero at first, the caller counts in part->taken. */
unsigned conn_ask(struct conn *c, struct turn_part *part);

/* A slice of a long command: whether it may be done in this turn, in which it counts then. If not, the caller keeps it
 * for go_on(), which comes in the next turn. Slices have their own part beside what comes from the wire, so that
 * neither keeps the other from going on. */
bool conn_take_slice(struct conn *c);

/* Into the reactor's lists: go_on() in the next turn, feed() once buffers have come back; out of the latter. */
void conn_come_again(struct conn *c);
void conn_go_hungry(struct conn *c);
void conn_leave_hungry(struct conn *c);
/* wake() at that time of the reactor (ms), or before. */
void conn_wake_at(struct conn *c, uint64_t due);

/* Whether `ms` have passed since `since`. */
bool conn_is_older(const struct conn *c, uint64_t since, unsigned ms);

#endif
