/* SPDX-License-Identifier: BSD-3-Clause */
/* The answers of a captured controller, by what was asked. Private to the room. */
#ifndef NVMF_PCAP_REPLAY_INDEX_H
#define NVMF_PCAP_REPLAY_INDEX_H

#include "replay_plan.h"

struct answers;
/* Of a plan, which stays as it is and must outlive it. NULL: out of memory. */
struct answers *answers_new(const struct replay_plan *p);
void answers_free(struct answers *a);

/* The first one to this command in an association that was not given yet; else the last, *again set.
 * NULL: there is none. */
const struct plan_cmd *answers_next(struct answers *a, unsigned assoc, bool admin,
                                    const union sqe *s, bool *again);
/* The next Connect of an admin queue to a controller of that kind; when all have been given, all
 * answers are as at first. NULL: there is none. */
const struct plan_cmd *answers_connect(struct answers *a, bool discovery);
/* Whether the controller of this association had this CNTLID. */
bool answers_is(const struct answers *a, unsigned assoc, uint16_t cntlid);
/* Hosts read a log page in pieces of their own: the last captured piece that holds this one's
 * beginning. NULL: there is none. */
const struct plan_cmd *answers_log(const struct answers *a, unsigned assoc, const union sqe *s);
/* Of a Get Log Page. */
uint64_t log_offset(const union sqe *s);
/* Bytes of in-capsule data as the captured controllers promised them, FRAMER_IN_PLACE at most. */
uint32_t answers_in_capsule(const struct answers *a);

#endif
