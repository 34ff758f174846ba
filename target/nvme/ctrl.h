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
#include "target/nvme/ns_resv.h"
#include "target/nvme/target.h"

enum {
        CTRL_ADMIN_ENTRIES = 256, /* of the admin queue at most: ASQSZ of discovery entries */
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
        /* The same: commands of this I/O queue for the namespace are to be aborted; `by` is told once
         * they have ended. */
        void (*preempt)(struct ctrl_queue *q, uint32_t nsid, void *by);
        /* Whether the connection's reactor has not looked at what its host has sent for a while. Any thread. NULL: it always has. */
        bool (*behind)(struct ctrl_queue *q);
        const char *traddr; /* local address of the connection: what the discovery log says where
                             * the port's is a wildcard or a name; NULL: the port's own */
        const char *peer;   /* place of the other end (conn_peer); NULL: unknown */
        const struct rdma_request *rdma; /* private data that it came with, read; NULL: over TCP */
        const struct tls_psk *tls;       /* the key of its TLS; NULL: without */
        enum disc_prtype prtype;         /* of its device, over RDMA */

        struct ctrl *ctrl; /* NULL before Connect and after ctrl_queue_gone() */
        uint16_t qid;
        struct sq sq; /* of 0 entries before Connect */
        bool connected;
        bool success_ok;    /* SQ flow control is off: SUCCESS may be used */
        bool disconnecting; /* Disconnect was answered: nothing more is processed */
        bool unproven;      /* its host has to authenticate itself, and has not yet */
        bool generated;     /* its TLS has a PSK that its host and subsystem generated */
        bool begun;         /* its host proves itself once more */
        bool computing;     /* a step of it, on another thread */
        uint64_t due_since; /* ms: its last step, or Connect */
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
        const struct target_limits *limits; /* as they are: 0 is no in-capsule data */
        const struct rule_policy *policy;   /* may be NULL */
        bool sqfc_disable;                  /* can do without SQ flow control */
        bool strict;                        /* see struct target_options */
        uint8_t secure;                     /* TREQ of ports over TCP with TLS; 0: there is none */
        struct rdma_format rdma;            /* of I/O queues over RDMA */
        bool quiet;                         /* nothing goes to the log */
        struct ctrl_table *table;           /* all controllers, by CNTLID */
        struct auth_work *auth_work;        /* NULL: authentication computes where it is asked to */
        const struct auth_crypto *crypto;   /* NULL: OpenSSL's */
        struct psk_store *psks; /* of secure channel concatenation; NULL: there is none */
        bool psk_required;      /* hosts that have a key have to concatenate one */
};

/* NULL: out of memory. */
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
        CTRL_COMPLETE, /* r->cqe and r->c2h_len are set: complete it */
        CTRL_PARKED,   /* it will come back through q->complete: an AER, or a command that is
                         * answered after others that it ends (Abort, Property Set) */
        CTRL_FLUSH, /* shutdown, write protection: flush the subsystem's namespaces, then ctrl_flushed() and
                         * complete it */
        CTRL_CONNECTED, /* as CTRL_COMPLETE; Connect succeeded: q is set up, size the queue first */
        CTRL_DISCONNECT, /* as CTRL_COMPLETE; then close the connection when it is sent */
};
/* Executes an admin or Fabrics command. `port` is where the connection came in. */
enum ctrl_verdict ctrl_execute(const struct ctrl_env *env, struct ctrl_queue *q,
                               const struct port *port, struct request *r, uint64_t now);
/* A command was CTRL_FLUSH, and r->cqe has the status of the flush: makes it that of the command. */
void ctrl_flushed(struct ctrl_queue *q, struct request *r);
/* The same of one that was parked with r->user set, and has come back through q->complete(): ctrl_waits(). */
bool ctrl_waits(const struct ctrl_queue *q, const struct request *r);
enum ctrl_verdict ctrl_resume(const struct ctrl_env *env, struct ctrl_queue *q, struct request *r,
                              uint64_t now);
/* request_ops.sqhd, for every command of the queue. */
uint16_t ctrl_sqhd(struct ctrl_queue *q, const struct request *r);

/* I/O path: whether commands may run on this I/O queue now; atomic loads alone. Marks
 * traffic. */
uint16_t ctrl_io_admit(struct ctrl_queue *q);
/* The same of a command that was admitted, and has waited for its data since. */
uint16_t ctrl_io_status(const struct ctrl_queue *q);
/* Of a connected I/O queue; the controller holds a reference to it. */
struct subsystem *ctrl_subsystem(const struct ctrl_queue *q);
/* The host has turned the write cache off (feature 06h): every write is durable when it completes.
 */
bool ctrl_write_through(const struct ctrl_queue *q);
/* Descriptor formats of Copy that its host has enabled (CDFE of feature 16h). */
uint16_t ctrl_copy_formats(const struct ctrl_queue *q);
/* Whether it has enabled LBAFEE (the same feature). */
bool ctrl_extended(const struct ctrl_queue *q);
/* What its controller reports of ANA groups; NULL: nothing. */
const struct ana_view *ctrl_ana(const struct ctrl_queue *q);
/* An I/O command failed with a status worth an Error Information entry: adds it, and sets M. */
void ctrl_log_error(struct ctrl_queue *q, struct request *r);
/* SMART counters: bytes moved by one read or write command. */
void ctrl_account(struct ctrl_queue *q, bool write, uint64_t bytes);
/* The same of a Verify, whose data does not move: units that are read, and no read command. */
void ctrl_account_verify(struct ctrl_queue *q, const struct request *r);

/*
 * The connection of the queue ends (any reason). Ends the association where it has to: with the
 * admin queue at once; where the target is strict, after a short while with an I/O queue that was not
 * disconnected by command (hosts that leave drop the I/O queues first, then shut down), unless the
 * host said with Connect that it deletes single I/O queues. After it q->close and q->complete
 * are never called again. Returns the parked requests of the queue, linked by next: they are
 * EXECUTING and the connection's to complete.
 */
struct request *ctrl_queue_gone(struct ctrl_queue *q);

/* --- reservations (notices.c) ------------------------------------------------------------------ */

/* Of any controller of that host with the queue's subsystem; CNTLID_NOT_ASSOCIATED: there is none. */
uint16_t ctrl_cntlid_of(const struct ctrl_queue *q, const uint8_t hostid[16]);
/* On a reactor: tells the controllers of those hosts, whatever NSID the storage of `ns` has there. */
void ctrl_table_notify(struct ctrl_table *t, struct ns *ns, const struct ns_resv_notices *n);
/* The same: q->preempt() of all I/O queues of the hosts whose registrations were preempted. */
void ctrl_table_preempt(struct ctrl_table *t, struct ns *ns, const struct ns_resv_notices *n,
                        void *by);

/* Ten times a second or so: Keep Alive and idle timers of all controllers. */
void ctrl_table_tick(struct ctrl_table *t, uint64_t now);

/* What has happened to a namespace: whether it was there and is, and whom it was and is attached to (NULL:
 * every host). */
struct ns_change {
        const struct subsystem *subsystem;
        uint32_t nsid;
        bool was, is;
        const struct ns_hosts *before, *after;
        bool hosts_alone; /* nothing else of it has changed */
        /* By a host. Only controllers that it is attached to are told, one is not, only one is: */
        const struct ns *attached; /* NULL: that does not matter */
        uint16_t but, only;        /* 0: the same */
};

/* The inventory changed (called without its lock held): AERs to hosts that are concerned.
 * ns_changed: those that had the namespace or have it now; discovery: what some host sees in the log. */
void ctrl_table_ns_changed(struct ctrl_table *t, const struct ns_change *change);
/* The same of namespaces that are allocated, attached or not: .subsystem, .nsid, .but. */
void ctrl_table_allocated_changed(struct ctrl_table *t, const struct ns_change *change);
void ctrl_table_discovery_changed(struct ctrl_table *t);
/* ANA states or groups may be others. */
void ctrl_table_ana_changed(struct ctrl_table *t);
/* ANA groups whose transition is over by now get their states, and hosts are told; without its locks. */
void ctrl_table_ana_tick(struct ctrl_table *t, uint64_t now);
/* On a reactor: an NVM Subsystem Reset ends all associations of `s`, that of `by` among them; an NVM
 * Subsystem Shutdown begins on all its controllers, or (done) is complete. */
void ctrl_table_reset(struct ctrl_table *t, struct subsystem *s, const struct ctrl *by);
void ctrl_table_shut_down(struct ctrl_table *t, struct subsystem *s, bool normal, bool done);
/* What others may know of a controller; pointers hold for the call. */
struct ctrl_info {
        uint16_t cntlid;
        bool discovery;
        const char *hostnqn, *subnqn;
        const uint8_t *hostid; /* 16 bytes */
        unsigned io_queues;
};
struct metrics_sum;
/* How many there are, and what became of others; takes no lock. */
void ctrl_table_count(const struct ctrl_table *t, struct metrics_sum *sum);
/* Of each controller of `s` (NULL: of all), under the table's lock. */
void ctrl_table_each(struct ctrl_table *t, const struct subsystem *s,
                     void (*fn)(const struct ctrl_info *info, void *arg), void *arg);
/* On the queue's reactor. False: it has no controller. */
bool ctrl_info_of(const struct ctrl_queue *q, struct ctrl_info *info);
/* Ends associations: those that are meant by all that is given (0 and NULL: any). How many. */
unsigned ctrl_table_end(struct ctrl_table *t, uint16_t cntlid, const char *hostnqn,
                        const char *subnqn);
/* From now on these keys count for the associations of a host with a subsystem, which stay: what they
 * prove next, they prove with them. No reactor runs (target_alone()). */
void ctrl_table_rekey(struct ctrl_table *t, const char *hostnqn, const char *subnqn,
                      const struct auth_keys *keys);
/* A host may not use a subsystem any more, or the subsystem is gone: ends those associations. */
void ctrl_table_revoke(struct ctrl_table *t, struct inventory *inv);

#endif
