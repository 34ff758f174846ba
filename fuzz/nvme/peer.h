/* SPDX-License-Identifier: BSD-3-Clause */
/* A live NVMe target and how it is played to: between the family's transports, probe and options. */
#ifndef NVMF_FUZZ_NVME_PEER_H
#define NVMF_FUZZ_NVME_PEER_H

#include "avoid.h"
#include "fuzz/campaign/oracle.h"
#include "fuzz/remote/schedule.h"
#include "host/nvme/ctrl.h"
#include "pdu/nvme/wire/rules.h"
#include "templates.h"

struct nvme_peer { /* remote_target.peer */
        /* Where, who asks; its timeout is that of the target; its policy says which rules of
         * controllers are waived, its provider of verbs may be NULL. */
        struct host_params host;
        const struct avoid *avoid; /* may be NULL */
};
static inline const struct nvme_peer *peer_of_session(const struct remote_session *s)
{
        return s->target->peer;
}

extern const struct remote_transport remote_tcp, remote_rdma;

/* A fresh association: Connect, Identify, an I/O queue, and a read of the first block of the first
 * namespace if there is one. Longer than the timeout, and said on stderr, where no local port is
 * free. */
bool nvme_alive(const struct remote_target *target, char why[ORACLE_LINE]);
/* Entries (CAP.MQES, Base 2.2 3.1.4.1), bytes (MDTS, IOCCSZ), events (AERL), namespaces (NN, all
 * 5.1.13), blocks (NSZE, NVM Command Set 1.2 4.1.5.1). */
struct oracle_limits nvme_limits(const struct remote_target *target);

/* What a command is about that succeeded, where its opcode does not tell: which page, feature or
 * property; whether it is fused. */
uint8_t nvme_subject(const union sqe *sqe, bool admin);

/* A response as a word of the target: its status, and what it answers, if that is known. */
static inline uint64_t nvme_response(const struct cqe *cqe, const uint8_t *opc, uint8_t fctype,
                                     uint64_t subject)
{
        uint64_t status = cqe_status(cqe);

        if (!opc)
                return status << 16;
        return status << 16 | (uint64_t)*opc << 32 | (uint64_t)fctype << 40 |
               (status == 0 ? subject << 48 : 0);
}

/* --- data that is not ours ---------------------------------------------------------------------- */

/* Takes what may change data or settings out of a sequence: writes become compares, other commands
 * than those known to be harmless go, and so do changes of opcodes and bytes that are sent raw. */
void nvme_tame(struct sequence *s);
/* Whether a command may change data or settings. admin: it goes to an admin queue, surely. */
bool nvme_harms(const union sqe *sqe, bool admin);
/* Counts a command that is about to be sent. False: it would do harm, and is not allowed. */
bool nvme_may_command(struct remote_conn *c, const union sqe *sqe, bool admin);

#endif
