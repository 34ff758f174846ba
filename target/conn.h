/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection: the socket between the TCP machine, its controller's queue and the I/O commands. It
 * belongs to one reactor, and everything here runs on that.
 */
#ifndef NVMF_TARGET_CONN_H
#define NVMF_TARGET_CONN_H

#include "nvm.h"
#include "pdu/io/net.h"
#include "pdu/machine/tcp_controller.h"
#include "reactor.h"

struct conn {
        struct loop_source source; /* fd -1: over, waits for commands that still execute */
        struct reactor *reactor;
        struct port *port;
        struct tcp_controller *tcp;
        struct link *link;
        struct ctrl_queue queue;
        struct nvm_queue nvm;
        unsigned number;           /* in traces */
        unsigned buffers;          /* of the pool that it holds */
        char traddr[NET_TRADDR];   /* its own end */
        struct loop_message close; /* posted by its controller */

        uint64_t phase_since;      /* ms: accepted, or ICResp sent */
        uint64_t heard;            /* ms: bytes came, or none were owed */
        uint64_t sent;             /* ms: bytes went, or there were none to send */
        uint64_t closing_since;    /* ms: our TermReq is out; 0: it is not */
        bool live;                 /* ICResp was sent */
        bool is_io;                /* Connect of an I/O queue has succeeded */
        bool reported;             /* its end has been told */
        bool more;                 /* bytes that came are still to be looked at */
        bool failed;               /* it has to end: the socket failed, the peer closed ... */
        bool last_words;           /* it ends when everything is sent */
        bool again, hungry;        /* in its reactor's list of that name */
        struct conn *next, **prev; /* in its reactor's conns */
        struct conn *next_again, *next_hungry;
};

/* Takes the descriptor and the reference to the port, also if it fails for want of memory. */
void conn_start(struct reactor *r, struct port *port, int fd);

/* Each of these may free the connection. */

/* There is something to do without anything new from the socket. */
void conn_go_on(struct conn *c);
/* Data buffers came back. */
void conn_feed(struct conn *c);
/* Looks at its timers. */
void conn_sweep(struct conn *c);
/* Ends it as soon as nothing is in flight; at_once: now. */
void conn_drain(struct conn *c, bool at_once);

/* Completes an EXECUTING request that another thread has given back; conn_go_on() must follow. */
void conn_finish(struct conn *c, struct request *r);

#endif
