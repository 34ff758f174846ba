/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A controller of the target: the sans-I/O controller machine, its association of queues, and the
 * admin and Fabrics commands. Queues of one controller may live on different reactors, so everything
 * here locks; the I/O path takes no lock (see ctrl_io_ready()).
 *
 * Arrow: connection (conn.c) -> ctrl -> inventory. A connection is known here only as a ctrl_queue.
 */
#ifndef NVMF_TARGET_CTRL_H
#define NVMF_TARGET_CTRL_H

#include "pdu/machine/controller.h"
#include "pdu/machine/tcp_controller.h"
#include "subsystem.h"
#include "target.h"

/* One queue of an association; embedded in the connection. */
struct ctrl_queue {
        struct ctrl *ctrl; /* NULL before Connect and after the association ended */
        uint16_t qid;
        struct sq sq;
        bool connected, success_ok; /* success_ok: SQ flow control is off, SUCCESS may be used */
        bool disconnecting; /* Disconnect was answered: nothing more is processed */
        struct ctrl_queue *next; /* in the controller */
        /* How others (any thread) tell the connection; set by the connection before Connect. Both
         * only post a message to the connection's own reactor. */
        void (*close)(struct ctrl_queue *q);
        void (*complete)(struct ctrl_queue *q, struct request *r); /* complete a parked AER there */
};

/* Everything a controller needs of its target. */
struct ctrl_env {
        struct inventory *inv;
        const struct target_limits *limits;
        const struct rule_policy *policy;
        bool sqfc_disable;    /* can do without SQ flow control */
        struct ctrl_table *table; /* all controllers, by CNTLID */
};

struct ctrl_table *ctrl_table_new(unsigned controllers_max);
void ctrl_table_free(struct ctrl_table *t);

/* tcp_controller_ops.admit for the admin queue and for Fabrics commands on any queue: says transfer
 * length and direction, or the status. */
uint16_t ctrl_admit(const struct ctrl_env *env, struct ctrl_queue *q, struct request *r,
                    uint64_t now);

enum ctrl_verdict {
        CTRL_COMPLETE, /* r->cqe and r->c2h_len are set: complete it */
        CTRL_PARKED,   /* an AER: will come back through q->complete */
        CTRL_CONNECTED, /* as CTRL_COMPLETE; Connect succeeded: q is set up, size the queue first */
        CTRL_DISCONNECT, /* as CTRL_COMPLETE; then close the connection when it is sent */
};
/* Executes an admin or Fabrics command. `port` is where the connection came in. */
enum ctrl_verdict ctrl_execute(const struct ctrl_env *env, struct ctrl_queue *q,
                               const struct port *port, struct request *r, uint64_t now);

/* I/O path: whether commands may run on this I/O queue now; one atomic load. Marks traffic. */
uint16_t ctrl_io_admit(struct ctrl_queue *q);
struct subsystem *ctrl_subsystem(const struct ctrl_queue *q);
/* An I/O command failed with a status worth an Error Information entry. */
void ctrl_log_error(struct ctrl_queue *q, const struct request *r, uint16_t status);
/* SMART counters: blocks as 512-byte units and commands. */
void ctrl_account(struct ctrl_queue *q, bool write, uint64_t bytes);

/* The connection of the queue ends (any reason). Ends the association where it has to: admin queue,
 * or an I/O queue that was not disconnected by command. After it q->close and q->complete are never
 * called again and parked requests of the queue are forgotten. */
void ctrl_queue_gone(struct ctrl_queue *q);

/* Every second or so: Keep Alive and idle timers of all controllers. */
void ctrl_table_tick(struct ctrl_table *t, uint64_t now);

/* The inventory changed (called without its lock held): AERs to hosts that are concerned.
 * ns_changed: namespaces of `s` (NULL: none); discovery: what some host sees in the log. */
void ctrl_table_ns_changed(struct ctrl_table *t, struct subsystem *s, uint32_t nsid);
void ctrl_table_discovery_changed(struct ctrl_table *t);
/* A host may not use a subsystem any more, or the subsystem is gone: ends those associations. */
void ctrl_table_revoke(struct ctrl_table *t, struct inventory *inv);

#endif
