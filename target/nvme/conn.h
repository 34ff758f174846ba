/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An NVMe connection, whatever transport it came by: its controller's queue and its I/O commands, on top of its place
 * on the reactor (target/engine/conn.h), on which everything here runs. What moves the bytes is its kind: tcp_conn.c,
 * rdma_conn.c.
 */
#ifndef NVMF_TARGET_CONN_H
#define NVMF_TARGET_CONN_H

#include "nvm.h"
#include "pdu/io/stream.h"
#include "target/engine/conn.h"
#include "target/nvme/service.h"

struct target_conn;

struct
    target_conn_kind { /* what a transport does for its connections; all may free the connection */
        struct conn_kind base;
        /* The target's policy has changed. */
        void (*renew)(struct target_conn *c);
        const struct requests *(*requests)(const struct target_conn *c);
        /* Neither reads nor sends until c->stalled_until. NULL: it cannot. */
        void (*stall)(struct target_conn *c);
        /* Ends it once what is ready to be sent is out, over TCP with FIN or with RST; from within its
         * machine: nothing is freed. */
        void (*finish)(struct target_conn *c, bool reset);
        /* Ends it at once, without notice: over TCP with RST. */
        void (*cut)(struct target_conn *c);
        /* A comment for the recording; NULL: it cannot. */
        void (*note)(struct target_conn *c, const char *text);
        bool by_pdu; /* it may end within a message: request_faults.pdu comes */
};

struct target_conn {      /* embedded in the transport's, which zeroes it */
        struct conn base; /* first */
        const struct target_conn_kind *kind;
        struct ctrl_queue queue;
        struct nvm_queue nvm;
        struct { /* a command, by its CID */
                uint16_t cid;
                const struct request *but, *found;
        } sought;
        uint64_t answered,
            busy; /* commands, and ns that they took: counted where that is measured */
        uint64_t paced,
            oldest; /* ms: when its pace was looked at; since when the host is waited for */
        struct loop_message close; /* posted by its controller */
        uint64_t stalled_until;    /* ms: on purpose; 0: it is not */
        uint64_t delay;            /* ms that I/O commands are answered later, on purpose */
        struct conn_held *held, **held_last;             /* commands that wait for a time */
        struct conn_deferred *deferred, **deferred_last; /* ... for their subsystem to be resumed */
        struct request *sliced, **sliced_last; /* ... for the time that their next slice takes */
        struct {
                uint64_t pause;
                unsigned working;
        } counted;                  /* by conn_count_work() */
        char *note;                 /* of the recording's next packet; NULL: none yet */
        struct conn_tracer *tracer; /* NULL: there is no trace of commands */

        _Atomic unsigned asked;     /* messages on their way to it that it has to live for */
        unsigned preempted;         /* commands that are to be aborted, and have not ended */
        struct preempt_part *parts; /* who waits for those */

        bool is_io;                 /* Connect of an I/O queue has succeeded */
        bool reported;              /* its end has been told */
        bool failed;                /* it has to end: memory, the peer closed ... */
        bool last_words;            /* it ends when everything is sent */
        bool cut_off;               /* on purpose: nothing is answered any more */
        bool over;                  /* conn_end() has come */
        const struct request *last; /* the command that has ended the queue */
};

extern const struct target_family nvme_target;

static inline struct target_conn *target_conn_of(struct conn *c)
{
        return (struct target_conn *)(void *)c;
}

static inline struct nvme_service *conn_service(const struct target_conn *c)
{
        return reactor_service(c->base.reactor);
}

static inline struct nvme_reactor *conn_own(const struct target_conn *c)
{
        return reactor_own(c->base.reactor);
}

/* Any thread: an EXECUTING request goes back to its connection to be completed there. */
void conn_give_back(struct target_conn *c, struct request *r);
/* Those that were given back, on their reactor. */
void conn_finish_all(struct loop_message *finished_mail);

/* --- for the kinds ---------------------------------------------------------------------------- */

/* Into its reactor: see conn_enter(). */
void conn_begin(struct target_conn *c, const struct target_conn_kind *kind, struct reactor *r,
                struct port *port, const struct conn_peer *peer, struct pool *pool);
/* conn_kind.go_on begins with this: slices of commands, as far as the turn has time for them. */
void conn_go_on(struct target_conn *c);
/* It is over for its controller; commands that other threads work on still come back. Once. */
void conn_end(struct target_conn *c);
/* Out of its reactor: see conn_leave(). */
void conn_retire(struct target_conn *c);

/* request_ops of its machine, whose owner is the connection; buffers are the kind's, the trace is
 * conn_times_renew()'s. */
extern const struct request_ops conn_request_ops;
/* Each state of a request, for the log and for the trace of commands. */
void conn_trace(void *user, const struct request *r);
/* A line of the trace about the connection itself. */
void conn_trace_line(const struct target_conn *c, const char *what);

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

/* The request is answered, or (fetch) its data asked for, so much later. False: it cannot be. */
bool conn_hold(struct target_conn *c, struct request *r, uint64_t ms, bool fetch);
/* conn_kind.wake: those whose time has come. */
void conn_wake(struct conn *c);
/* Now and then. False: a command has waited for the host for longer than its data may take. */
bool conn_keeps_pace(struct target_conn *c, const struct requests *requests);
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

/* --- the trace of commands (conn_times.c), where the target has one -------------------------------- */

/* The target's trace, or that of the log, has begun or ended, or the connection begins. */
void conn_times_renew(struct target_conn *c, struct requests *q);
/* A command comes: r->times from here on. */
void conn_times_begin(struct target_conn *c, struct request *r);
/* A command with r->times enters a state; the last one writes its line. */
void conn_times_enter(struct target_conn *c, const struct request *r);
/* The connection, or the trace, is over: lines of what has not ended. */
void conn_times_end(struct target_conn *c);

/* --- by kind ---------------------------------------------------------------------------------- */

/* Takes the stream, which may move with it, and the reference to the port, also if it fails for want
 * of memory. */
void tcp_conn_start(struct reactor *r, struct port *port, struct stream *stream,
                    const struct conn_peer *peer);

#endif
