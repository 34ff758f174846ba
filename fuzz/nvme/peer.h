/* SPDX-License-Identifier: BSD-3-Clause */
/* A live NVMe target and how it is played to: between the family's transports, probe and options. */
#ifndef NVMF_FUZZ_NVME_PEER_H
#define NVMF_FUZZ_NVME_PEER_H

#include "avoid.h"
#include "fuzz/campaign/oracle.h"
#include "fuzz/remote/schedule.h"
#include "host/nvme/ctrl.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/wire/rules.h"
#include "seq_bind.h"

struct nvme_peer { /* remote_target.peer */
        /* Where, who asks; its timeout is that of the target; its policy says which rules of
         * controllers are waived, its provider of verbs may be NULL. */
        struct host_params host;
        const struct avoid *avoid; /* may be NULL */
        bool
            stranger; /* sessions have another key than the host: whoever accepts it breaks a rule */
        unsigned prove_within; /* ms that a host has from Connect on; 0: not known */
};
/* The host's transaction, where it has a key. */
static inline void peer_bind_auth(struct seq_bind *b, const struct nvme_peer *peer)
{
        struct auth_keys keys = { .host = peer->host.dhchap, .ctrl = peer->host.dhchap_ctrl };

        keys.host.bytes[0] ^= peer->stranger;
        if (keys.host.len > 0)
                seq_bind_auth(b, auth_openssl(), &keys);
}

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

/* --- deadlines: what outlasts them by `hang` is overdue ------------------------------------------ */

/* A command that is about to be sent. */
void nvme_asks(struct remote_conn *c, const union sqe *sqe, bool admin);
/* A response: of a connection that a Keep Alive Timer, the time for authentication or a configuration
 * should have ended long ago, or of a shutdown that is still not complete (Base 2.2 3.6.1 recommends how
 * long hosts wait). */
void nvme_answered(struct remote_conn *c, const struct cqe *cqe);
/* After each message: whether the controller takes the host for proven; of a stranger that is
 * FAB_AUTH_REFUSED. */
void nvme_proven(struct remote_conn *c, const struct seq_bind *b);

#endif
