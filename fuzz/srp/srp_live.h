/* SPDX-License-Identifier: BSD-3-Clause */
/* A live SRP target and how it is played to: between the family's transport, its probe and its options. */
#ifndef NVMF_FUZZ_SRP_LIVE_H
#define NVMF_FUZZ_SRP_LIVE_H

#include "fuzz/campaign/oracle.h"
#include "fuzz/remote/schedule.h"
#include "host/srp/chan.h"
#include "srp_avoid.h"
#include "srp_bind.h"

struct capture_writer;

struct srp_remote_peer { /* remote_target.peer */
        /* Where, and the target's identifier; the initiator's is made up, another one for each session. Its policy says
         * which rules of targets are waived, its provider of verbs may be NULL. */
        struct srp_params host;
        const struct srp_avoid *avoid; /* what is not sent; may be NULL */
        struct capture_writer *record; /* what goes over the connections; NULL: nobody asks */
};

static inline const struct srp_remote_peer *srp_peer_of(const struct remote_session *s)
{
        return s->target->peer;
}

struct srp_message { /* remote_session.message */
        const uint8_t *p;
        uint32_t n;
        uint32_t imm_at; /* as srp_line() has it */
        bool login;      /* a login in the form of RDMA CM */
};

extern const struct remote_transport srp_remote;

/* A fresh login: TEST UNIT READY, READ CAPACITY, and a read of the first block of LUN 0. Whatever the status is, it is an
 * answer. */
bool srp_alive(const struct remote_target *target, char why[ORACLE_LINE]);
/* The request limit, MAX IT IU LEN, MAX TI IU LEN; blocks of LUN 0 and how many a command may have. */
struct oracle_limits srp_limits(const struct remote_target *target);

/* --- data that is not ours ---------------------------------------------------------------------- */

/* Takes what may change data or other initiators' tasks out of a sequence. */
void srp_tame(struct sequence *s);
/* Whether an IU may do that: a command that is not known to be harmless, task management beyond one's own tasks. */
bool srp_harms(const uint8_t *iu, uint32_t n);

#endif
