/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A channel of the target: a link (target/engine/rdma_link.h) between the machine (srp_target.h) and the SCSI device. Logins are
 * judged here, too.
 */
#ifndef NVMF_TARGET_SRP_CONN_H
#define NVMF_TARGET_SRP_CONN_H

#include "pdu/srp/machine/srp_target.h"
#include "srp_nexus.h"
#include "srp_script.h"
#include "target/engine/conn.h"
#include "target/engine/rdma_link.h"

struct task_visit;

struct srp_task {              /* beside each command */
        struct scsi_task scsi; /* first */
        struct srp_command *command;
        struct loop_message finished;
        struct task_visit *visit; /* who waits until it has ended; NULL: nobody */
};

struct srp_conn {
        struct conn base; /* first */
        struct rdma_link link;
        struct srp_target *machine;
        struct srp_login_req asked;

        struct srp_nexus *nexus;
        struct srp_conn *next, **at; /* among its channels; at NULL: it is not */
        bool ousted; /* it ends, for a later login or by itself: under the service's lock */
        struct loop_message oust;
        _Atomic unsigned visits;     /* of task management, that it has to live for */
        struct task_visit *visiting; /* those that have come, in turn */

        bool failed;      /* it has to end */
        bool leaving;     /* ... once it has said so */
        uint64_t left_at; /* ms: since when */
        uint64_t
            moved_at; /* ms: when something that it has posted completed, or was posted first */
        uint64_t
            heard_at; /* ms: something has completed, or it was looked then whether it is there */
        struct verbs_wr probe; /* a WRITE of no bytes, which its device answers */
        bool reported, registered;
        struct srp_more more[SRP_SCRIPT_MORE];
};

static inline struct srp_conn *srp_conn_of(struct conn *c)
{
        return (struct srp_conn *)c;
}

/* target_family.start_rdma() and reject_rdma(). */
void srp_conn_start(struct reactor *r, struct port *port, const struct verbs_event *e,
                    const struct conn_peer *peer);
void srp_conn_reject(struct service *s, struct verbs_ep *ep);
/* It logs its initiator out, and ends; on its reactor. */
void srp_conn_end(struct conn *c);

/* Something is ready to be sent, or has changed: on its reactor, later. */
static inline void srp_conn_again(struct srp_conn *c)
{
        conn_come_again(&c->base);
}

#endif
