/* SPDX-License-Identifier: BSD-3-Clause */
/* The trackers behind a session's findings. Private to the room. */
#ifndef NVMF_PCAP_JUDGE_H
#define NVMF_PCAP_JUDGE_H

#include "pcap/session.h"

/* Of one connection; NULL without memory. */
struct judge;
struct judge *judge_new(const struct trace_conn *c, const struct rule_set *waived);
void judge_free(struct judge *j);

/* What an event breaks is added to `found`. cmd as the session knows it, before the event is told to
 * it. */
void judge_event(struct judge *j, const struct trace_event *e, struct rule_set *found);
/* What Identify Controller says of I/O queues. */
void judge_identified(struct judge *j, const struct association *a);

/* A command, given what kind of controller it goes to; adds to `found`. */
void judge_command(const struct session *s, const union sqe *sqe, struct rule_set *found);
/* Data and results whose meaning the command tells, when it has succeeded; adds to `found`. */
void judge_data(const struct session *s, const struct session_cmd *cmd, const struct cqe *cqe,
                struct rule_set *found);
/* The data of a Connect; `admin`: what the admin queue of the association said, or NULL. */
void judge_connect(const struct session_cmd *cmd, const struct association *admin,
                   struct rule_set *found);

#endif
