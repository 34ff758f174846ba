/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A controller of the target: the sans-I/O controller machine, its association of queues, and the
 * admin and Fabrics commands. Queues of one controller may live on different reactors, so
 * everything here locks; the I/O path takes no lock (ctrl_io_admit(), ctrl_account(),
 * ctrl_write_through()).
 *
 * Arrow: connection -> ctrl -> inventory. A connection is known here only as a ctrl_queue.
 *
 * Locks are taken in this order: inventory, table of controllers, controller, and whatever
 * q->close() and q->complete() take to post their message. So nobody calls into here with the
 * inventory's lock or a mailbox's lock held.
 */
#ifndef NVMF_TARGET_CTRL_H
#define NVMF_TARGET_CTRL_H

#include "pdu/nvme/machine/auth.h"
#include "pdu/nvme/machine/controller.h"
#include "pdu/nvme/machine/request.h"
#include "pdu/nvme/wire/discovery.h"
#include "pdu/nvme/wire/rdma.h"
#include "subsystem.h"
#include "target/target.h"

enum {
        CTRL_ADMIN_ENTRIES = 128, /* of the admin queue at most: ASQSZ of discovery entries */
        CTRL_NSID_MAX = 1024,     /* NN and MNAN: no namespace has a higher NSID */
};

/*
 * One queue of an association; embedded in the connection, which zeroes it and sets the three
 * members of the first group before Connect. The rest is kept here.
 */
struct ctrl_queue {
        /* How others (any thread) tell the connection; both only post a message to the connection's
         * own reactor, in order. complete(): gives back an EXECUTING request. */
        void (*close)(struct ctrl_queue *q);
        void (*complete)(struct ctrl_queue *q, struct request *r);
        const char *traddr; /* local address of the connection: what the discovery log says where
                             * the port's is a wildcard or a name; NULL: the port's own */
        const struct rdma_request *rdma; /* private data that it came with, read; NULL: over TCP */
        enum disc_prtype prtype;         /* of its device, over RDMA */

        struct ctrl *ctrl; /* NULL before Connect and after ctrl_queue_gone() */
        uint16_t qid;
        struct sq sq; /* of 0 entries before Connect */
        bool connected;
        bool success_ok;    /* SQ flow control is off: SUCCESS may be used */
        bool disconnecting; /* Disconnect was answered: nothing more is processed */
        bool unproven;      /* its host has to authenticate itself, and has not yet */
        bool reset;         /* by the last command: the connection's to do, and to clear */
        struct auth auth;

        /* ctrl.c's own */
        bool detached; /* closed by a Controller Reset or Disconnect: its end ends nothing else */
        _Atomic uint16_t io_status; /* 0: I/O commands may run */
        atomic_bool traffic;        /* commands since the last tick */
        _Atomic uint64_t bytes_read, bytes_written, reads, writes; /* written by its reactor only */
        struct ctrl_queue *next;                                   /* in the controller */
};

/* Everything a controller needs of its target; outlives the controllers. */
struct ctrl_env {
        struct inventory *inv;
        const struct target_limits *limits; /* no zeroes in it */
        const struct rule_policy *policy;   /* may be NULL */
        bool sqfc_disable;                  /* can do without SQ flow control */
        struct rdma_format rdma;            /* of I/O queues over RDMA */
        struct ctrl_table *table;           /* all controllers, by CNTLID */
};

/* NULL without memory. */
struct ctrl_table *ctrl_table_new(unsigned controllers_max);
/* All queues are gone. */
void ctrl_table_free(struct ctrl_table *t);

/*
 * request_ops.admit for the admin queue and for Fabrics commands on any queue: says transfer
 * length and direction, or the status. Takes the command off the SQ, as ctrl_io_admit() does: one
 * of the two is called for every command, once.
 */
uint16_t ctrl_admit(const struct ctrl_env *env, struct ctrl_queue *q, struct request *r,
                    uint64_t now);

/* Entries that queue qid may have at most. */
unsigned ctrl_entries_max(const struct ctrl_env *env, uint16_t qid);

enum ctrl_verdict {
        CTRL_COMPLETE,  /* r->cqe and r->c2h_len are set: complete it */
        CTRL_PARKED,    /* it will come back through q->complete: an AER, or a command that is
                         * answered after others that it ends (Abort, Property Set) */
        CTRL_CONNECTED, /* as CTRL_COMPLETE; Connect succeeded: q is set up, size the queue first */
        CTRL_DISCONNECT, /* as CTRL_COMPLETE; then close the connection when it is sent */
};
/* Executes an admin or Fabrics command. `port` is where the connection came in. */
enum ctrl_verdict ctrl_execute(const struct ctrl_env *env, struct ctrl_queue *q,
                               const struct port *port, struct request *r, uint64_t now);
/* request_ops.sqhd, for every command of the queue. */
uint16_t ctrl_sqhd(struct ctrl_queue *q, const struct request *r);

/* I/O path: whether commands may run on this I/O queue now; one atomic load. Marks traffic. */
uint16_t ctrl_io_admit(struct ctrl_queue *q);
/* The same of a command that was admitted, and has waited for its data since. */
uint16_t ctrl_io_status(const struct ctrl_queue *q);
/* Of a connected I/O queue; the controller holds a reference to it. */
struct subsystem *ctrl_subsystem(const struct ctrl_queue *q);
/* The host has turned the write cache off (feature 06h): every write is durable when it completes.
 */
bool ctrl_write_through(const struct ctrl_queue *q);
/* An I/O command failed with a status worth an Error Information entry: adds it, and sets M. */
void ctrl_log_error(struct ctrl_queue *q, struct request *r);
/* SMART counters: bytes moved by one read or write command. */
void ctrl_account(struct ctrl_queue *q, bool write, uint64_t bytes);

/*
 * The connection of the queue ends (any reason). Ends the association where it has to: with the
 * admin queue at once; after a short while with an I/O queue that was not disconnected by command
 * (hosts that leave drop the I/O queues first, then shut down), unless the host said with Connect
 * that it deletes single I/O queues. After it q->close and q->complete
 * are never called again. Returns the parked requests of the queue, linked by next: they are
 * EXECUTING and the connection's to complete.
 */
struct request *ctrl_queue_gone(struct ctrl_queue *q);

/* Ten times a second or so: Keep Alive and idle timers of all controllers. */
void ctrl_table_tick(struct ctrl_table *t, uint64_t now);

/* The inventory changed (called without its lock held): AERs to hosts that are concerned.
 * ns_changed: namespace nsid of `s`; discovery: what some host sees in the log. */
void ctrl_table_ns_changed(struct ctrl_table *t, struct subsystem *s, uint32_t nsid);
void ctrl_table_discovery_changed(struct ctrl_table *t);
/* A host may not use a subsystem any more, or the subsystem is gone: ends those associations. */
void ctrl_table_revoke(struct ctrl_table *t, struct inventory *inv);

#endif
