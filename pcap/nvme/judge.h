/* SPDX-License-Identifier: BSD-3-Clause */
/* The trackers behind a session's findings. Private to the room. */
#ifndef NVMF_PCAP_JUDGE_H
#define NVMF_PCAP_JUDGE_H

#include "pcap/nvme/session.h"
#include "pdu/nvme/rdma/rdma_track.h"
#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/fabrics.h"

struct judge; /* of one connection */
/* waived: the caller's, outlives it; may be NULL. NULL without memory. */
struct judge *judge_new(const struct trace_conn *c, const struct rule_set *waived);
void judge_free(struct judge *j);

/* What an event breaks is added to `found`. cmd as the session knows it, before the event is told to
 * it. */
void judge_event(struct judge *j, const struct trace_event *e, struct rule_set *found);
/* What Identify Controller says of I/O queues. */
void judge_identified(struct judge *j, const struct association *a);

static inline void judge_finds(struct rule_set *found, bool broken, enum rule_id rule)
{
        if (broken)
                rule_add(found, rule);
}

/* A command, given what kind of controller it goes to; adds to `found`. */
void judge_command(const struct session *s, const union sqe *sqe, struct rule_set *found);
/* Data and results whose meaning the command tells, when it has succeeded; adds to `found`. */
void judge_data(const struct session *s, const struct session_cmd *cmd, const struct cqe *cqe,
                struct rule_set *found);
/* Whether a command that succeeded moved all that it had to. */
void judge_transfer(const struct session *s, const struct session_cmd *cmd, struct rule_set *found);
/* The data of a Connect; `admin`: what the admin queue of the association said, or NULL. */
void judge_connect(const struct session_cmd *cmd, const struct association *admin,
                   struct rule_set *found);
/* What it shows that a command was refused (judge_refusal.c). */
void judge_refusal(const struct session *s, const struct session_cmd *cmd, const struct cqe *cqe,
                   struct rule_set *found);

/* --- authentication (judge_auth.c) -------------------------------------------------------------- */

struct auth_past {                /* of a queue; all zero at first */
        bool begun, mutual, lost; /* lost: a message is not in the capture */
        bool returned;            /* C2 was C1 */
        enum auth_message last;
        uint16_t t_id;
        uint8_t hash, group, challenge[AUTH_HASH_MAX];
        struct auth_protocol offered;
};
struct auth_memory { /* of the capture: the challenge seen last */
        uint8_t hl, value[AUTH_HASH_MAX];
};
/* An Authentication Send or Receive that is over. */
void judge_auth(struct auth_past *a, struct auth_memory *memory, const struct session_cmd *cmd,
                bool success, struct rule_set *found);

/* --- below the capsules of NVMe/RDMA (judge_rdma.c) --------------------------------------------- */

struct rdma_watch;                       /* of one connection; free() */
struct rdma_watch *rdma_watch_new(void); /* NULL without memory */
/* Something is missing before what comes next. */
void rdma_watch_gap(struct rdma_watch *w);
/* Behind the tracker, which has been told the same and has `found` something. */
void rdma_watch_event(struct rdma_watch *w, const struct trace_event *e, struct rdma_track *t,
                      struct rule_set *found);

/* --- what an association has been through (judge_past.c) ---------------------------------------- */

struct past *past_new(const struct session_cmd *connect); /* NULL without memory */
void past_free(struct past *p);
/* A command of one of its queues, whose capsule is whole; and its completion. */
void past_command(const struct session *s, struct session_cmd *cmd, struct rule_set *found);
void past_answer(const struct session *s, const struct session_cmd *cmd, const struct cqe *cqe,
                 const struct trace_event *e, struct rule_set *found);
/* Its admin queue is disconnected. */
void past_disconnects(struct past *p, int64_t time_ns);
/* A Connect of an I/O queue to it, and how that was answered. */
void past_joins(const struct association *a, const struct session *s, const struct session_cmd *cmd,
                uint16_t status, struct rule_set *found);

#endif
