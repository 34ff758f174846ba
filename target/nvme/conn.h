/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection, whatever transport it came by: its controller's queue, its I/O commands, and its
 * place on the reactor that it belongs to; everything here runs on that. What moves the bytes is its
 * kind: tcp_conn.c, rdma_conn.c.
 */
#ifndef NVMF_TARGET_CONN_H
#define NVMF_TARGET_CONN_H

#include "nvm.h"
#include "pdu/io/stream.h"
#include "target/reactor.h"

struct conn_kind { /* what a transport does for its connections; all may free the connection */
        /* There is something to do without anything new from the wire. */
        void (*go_on)(struct target_conn *c);
        /* Data buffers came back. */
        void (*feed)(struct target_conn *c);
        /* Looks at its timers. */
        void (*sweep)(struct target_conn *c);
        /* Ends it as soon as nothing is in flight; at_once: now. */
        void (*drain)(struct target_conn *c, bool at_once);
};

struct target_conn { /* embedded in the transport's, which zeroes it */
        const struct conn_kind *kind;
        struct reactor *reactor;
        struct port *port;
        struct ctrl_queue queue;
        struct nvm_queue nvm;
        unsigned number;           /* in traces */
        unsigned buffers;          /* of a pool that it holds */
        char traddr[NET_TRADDR];   /* its own end */
        struct loop_message close; /* posted by its controller */

        bool is_io;                       /* Connect of an I/O queue has succeeded */
        bool reported;                    /* its end has been told */
        bool failed;                      /* it has to end: memory, the peer closed ... */
        bool last_words;                  /* it ends when everything is sent */
        const struct request *last;       /* the command that has ended the queue */
        bool again, hungry;               /* in its reactor's list of that name */
        struct target_conn *next, **prev; /* in its reactor's conns */
        struct target_conn *next_again, *next_hungry;
};

/* Completes an EXECUTING request that another thread has given back; go_on() must follow. */
void conn_finish(struct target_conn *c, struct request *r);

/* --- for the kinds ---------------------------------------------------------------------------- */

/* The connection's reference to the port is handed over; it is one of its reactor's from here on,
 * and counted already as one of the target's (service.conns). */
void conn_begin(struct target_conn *c, const struct conn_kind *kind, struct reactor *r,
                struct port *port);
/* It is over for its controller; commands that other threads work on still come back. Once. */
void conn_end(struct target_conn *c);
/* Nobody speaks of it any more: out of its reactor. Freeing it is the kind's. */
void conn_leave(struct target_conn *c);
/* What was never begun: gives the port back, and is no longer counted. */
void conn_forget(struct service *s, struct port *port);

/* request_ops of its machine, whose owner is the connection; buffers and trace are the kind's. */
extern const struct request_ops conn_request_ops;
/* The trace of requests, where the target has one. */
void conn_trace(void *user, const struct request *r);
/* A line of the trace about the connection itself. */
void conn_trace_line(const struct target_conn *c, const char *what);

/* Data buffers of the pool that the connection's come from. Without memory NULL: the connection is fed
 * once buffers have come back. */
uint8_t *conn_buffer_get(struct target_conn *c, struct pool *pool, uint32_t len);
void conn_buffer_put(struct target_conn *c, struct pool *pool, uint8_t *buf, uint32_t len);

/* Into the reactor's lists. */
void conn_come_again(struct target_conn *c);
void conn_go_hungry(struct target_conn *c);

/* Whether `ms` have passed since `since`. */
bool conn_is_older(const struct target_conn *c, uint64_t since, unsigned ms);
/* It keeps the target from draining, with that many commands executing: an admin queue waits for the
 * I/O queues, which would end with it. */
bool conn_is_busy(const struct target_conn *c, unsigned executing);

/* One line on stderr, for whoever looks at a host's faults; detail may be NULL. */
void conn_report(const struct target_conn *c, const char *peer, const char *what,
                 const char *detail);

/* --- by kind ---------------------------------------------------------------------------------- */

/* Takes the stream, which may move with it, and the reference to the port, also if it fails for want
 * of memory. */
void tcp_conn_start(struct reactor *r, struct port *port, struct stream *stream);

#endif
