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
        /* The target's policy has changed. */
        void (*renew)(struct target_conn *c);
        /* Ends it at once, without notice: over TCP with RST. */
        void (*cut)(struct target_conn *c);
        const struct requests *(*requests)(const struct target_conn *c);
        /* Neither reads nor sends until c->stalled_until. NULL: it cannot. */
        void (*stall)(struct target_conn *c);
        /* Ends it once what is ready to be sent is out, over TCP with FIN or with RST; from within its
         * machine: nothing is freed. */
        void (*finish)(struct target_conn *c, bool reset);
        /* A comment for the recording; NULL: it cannot. */
        void (*note)(struct target_conn *c, const char *text);
        bool by_pdu; /* it may end within a message: request_faults.pdu comes */
};

struct target_conn { /* embedded in the transport's, which zeroes it */
        const struct conn_kind *kind;
        struct reactor *reactor;
        struct port *port;
        struct ctrl_queue queue;
        struct nvm_queue nvm;
        struct { /* a command, by its CID */
                uint16_t cid;
                const struct request *but, *found;
        } sought;
        unsigned number; /* in traces */
        uint64_t answered,
            busy; /* commands, and ns that they took: counted where that is measured */
        uint64_t paced,
            oldest;        /* ms: when its pace was looked at; since when the host is waited for */
        struct pool *pool; /* its data buffers are from there */
        struct pool_borrower borrower;
        struct turn_part part;   /* of its host's share of the reactor */
        char traddr[NET_TRADDR]; /* its own end */
        struct conn_peer peer;
        struct loop_message close; /* posted by its controller */
        uint64_t stalled_until;    /* ms: on purpose; 0: it is not */
        uint64_t delay;            /* ms that I/O commands are answered later, on purpose */
        struct conn_held *held, **held_last;             /* commands that wait for a time */
        struct conn_deferred *deferred, **deferred_last; /* ... for their subsystem to be resumed */
        struct {
                uint64_t pause;
                unsigned working;
        } counted;  /* by conn_count_work() */
        char *note; /* of the recording's next packet; NULL: none yet */

        _Atomic unsigned asked;     /* messages on their way to it that it has to live for */
        unsigned preempted;         /* commands that are to be aborted, and have not ended */
        struct preempt_part *parts; /* who waits for those */

        bool is_io;                       /* Connect of an I/O queue has succeeded */
        bool reported;                    /* its end has been told */
        bool failed;                      /* it has to end: memory, the peer closed ... */
        bool last_words;                  /* it ends when everything is sent */
        bool cut_off;                     /* on purpose: nothing is answered any more */
        bool over;                        /* conn_end() has come */
        const struct request *last;       /* the command that has ended the queue */
        bool again, hungry;               /* in its reactor's list of that name */
        struct target_conn *next, **prev; /* in its reactor's conns */
        struct target_conn *next_again, *next_hungry;
};

/* Completes an EXECUTING request that another thread has given back; go_on() must follow. */
void conn_finish(struct target_conn *c, struct request *r);

/* --- for the kinds ---------------------------------------------------------------------------- */

/* One more connection with `peer`; false: there are too many in all, or of its address. */
bool conn_count(struct service *s, const struct conn_peer *peer);
/* The connection's reference to the port is handed over; it is one of its reactor's from here on, and
 * is counted already. */
void conn_begin(struct target_conn *c, const struct conn_kind *kind, struct reactor *r,
                struct port *port, const struct conn_peer *peer, struct pool *pool);
/* It is over for its controller; commands that other threads work on still come back. Once. */
void conn_end(struct target_conn *c);
/* Nobody speaks of it any more, and all buffers are back: out of its reactor. Freeing it is the kind's. */
void conn_leave(struct target_conn *c);
/* What was never begun: gives the port back, and is no longer counted. */
void conn_forget(struct service *s, struct port *port, const struct conn_peer *peer);

/* request_ops of its machine, whose owner is the connection; buffers and trace are the kind's. */
extern const struct request_ops conn_request_ops;
/* The trace of requests, where the target has one. */
void conn_trace(void *user, const struct request *r);
/* A line of the trace about the connection itself. */
void conn_trace_line(const struct target_conn *c, const char *what);

/* Data buffers. Without memory NULL: the connection is fed once buffers have come back. */
uint8_t *conn_buffer_get(struct target_conn *c, uint32_t len);
void conn_buffer_put(struct target_conn *c, uint8_t *buf, uint32_t len);

/* --- commands of hosts whose registrations are preempted (preempt.c) ----------------------------- */

/* nvm_queue_ops.preempt, and ctrl_queue.preempt. */
bool conn_preempt(struct nvm_queue *q, struct ns *ns, const struct ns_resv_notices *n,
                  struct request *r);
void conn_ask_preempt(struct ctrl_queue *q, uint32_t nsid, void *by);
/* A command of the connection ends that was to be aborted. */
void conn_preempted(struct target_conn *c, struct request *r);
/* The connection ends, and its commands with it. */
void conn_end_preempts(struct target_conn *c);

/* --- a subsystem that is paused (pause.c) --------------------------------------------------------- */

/* Whether a command that comes now, and is good, is to wait. */
bool conn_is_paused(const struct target_conn *c, const struct request *r);
/* request_ops.defer. */
void conn_defer(void *user, struct request *r);
/* A deferred command ends by itself: Abort, a reset. */
void conn_undefer(struct target_conn *c, const struct request *r);
/* The subsystem is not paused any more: all that waits goes on, in order. The kind's go_on is to follow. */
void conn_resume(struct target_conn *c);
/* The connection is over: what waits is never executed. */
void conn_drop_deferred(struct target_conn *c);
struct conn_work {
        const struct subsystem *subsystem;
        uint64_t pause;
        unsigned working, waiting;
};
/* Adds how many commands are in work that a pause concerns, and how many wait; by now, on the reactor. Nothing
 * if the connection is of another subsystem. */
void conn_count_work(struct target_conn *c, struct conn_work *work);

/* An I/O command that ends with this status (0: it does not) before it begins: it goes to the Error
 * Information log. The same with M. */
uint16_t conn_log_status(struct target_conn *c, struct request *r, uint16_t status);

/* Into the reactor's lists: it is called again in the next turn; when buffers have come back. */
void conn_come_again(struct target_conn *c);
void conn_go_hungry(struct target_conn *c);

/* The request is answered, or (fetch) its data asked for, so much later. False: it cannot be. */
bool conn_hold(struct target_conn *c, struct request *r, uint64_t ms, bool fetch);
/* Those whose time has come: the kind's go_on or sweep is to follow. */
void conn_release_held(struct target_conn *c);
/* Now and then. False: a command has waited for the host for longer than its data may take. */
bool conn_keeps_pace(struct target_conn *c, const struct requests *requests);
enum { CONN_BUDGET = 128 };
/* A capsule of it has come, or bytes in which one may be: how many it may have now (0: none until the next turn, for
 * which conn_come_again() is the caller's). Its host's connections share CONN_BUDGET in each turn. */
unsigned conn_budget(struct target_conn *c);

/* Whether `ms` have passed since `since`. */
bool conn_is_older(const struct target_conn *c, uint64_t since, unsigned ms);
/* It keeps the target from draining, with that many commands executing: an admin queue waits for the
 * I/O queues, which would end with it. */
bool conn_is_busy(const struct target_conn *c, unsigned executing);

/* It ends because its host has broken that rule: counted. */
void conn_fault(struct target_conn *c, enum rule_id rule);
/* A line of the log, for whoever looks at a host's faults; kind as in log_line(), detail may be NULL. */
void conn_report(const struct target_conn *c, const char *kind, const char *what,
                 const char *detail);

/* --- faults with a trigger (conn_trigger.c), where the target has some ----------------------------- */

/* request_ops.faults. */
extern const struct request_faults conn_request_faults;
/* A command has been admitted, or not: the status that it ends with, perhaps without a response. */
uint16_t conn_trigger_arrives(struct target_conn *c, struct request *r, uint16_t status);
/* Its data is there. True: the connection ends, and so does the command. */
bool conn_trigger_executes(struct target_conn *c, struct request *r);
/* Its outcome is there: ms that it is answered later. */
uint64_t conn_trigger_delays(struct target_conn *c, const struct request *r);
/* request_ops.completing. */
void conn_trigger_completes(struct target_conn *c, struct request *r);
/* The target's faults have changed. */
void conn_trigger_renew(struct target_conn *c);

/* --- by kind ---------------------------------------------------------------------------------- */

/* Takes the stream, which may move with it, and the reference to the port, also if it fails for want
 * of memory. */
void tcp_conn_start(struct reactor *r, struct port *port, struct stream *stream,
                    const struct conn_peer *peer);

#endif
