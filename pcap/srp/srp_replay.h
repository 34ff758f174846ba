/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan, done again with a live target: each request when the answers have come that had come then. */
#ifndef NVMF_PCAP_SRP_REPLAY_H
#define NVMF_PCAP_SRP_REPLAY_H

#include "host/srp/channels.h"
#include "srp_plan.h"

enum srp_likeness { SRP_SAME, SRP_ALLOWED, SRP_DIFFERENT, SRP_SKIPPED, SRP_LIKENESSES };
const char *srp_likeness_name(enum srp_likeness l); /* "same", "allowed", "DIFFERENT", "skipped" */

struct srp_verdict {
        enum srp_likeness likeness;
        const char *why; /* static; NULL: there is nothing to say */
};

struct srp_replay_options {
        struct srp_params host; /* the initiator's and the target's identifiers are the live ones */
        bool allow_write;
        void (*replayed)(void *user, const struct srp_plan *p, const struct srp_plan_cmd *c,
                         const struct srp_verdict *v);
        void *user;
};

/* 0: it was done, counts has how many of each; -1: err has one line. */
int srp_replay_run(const struct srp_plan *p, const struct srp_replay_options *o,
                   uint64_t counts[SRP_LIKENESSES], char *err, size_t err_size);

/* Whether this answer is that something is to be told first, or that there is no room: when, is each target's own affair. */
bool srp_is_passing(uint8_t status, bool has_sense, const struct scsi_sense *s);
/* How an answer compares with that of the capture. known: what a READ returns was written before by this replay. */
struct srp_verdict srp_replay_compare(const struct srp_plan_cmd *c,
                                      const struct srp_request_out *live, const void *data,
                                      uint32_t n, bool known);

#endif
