/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A captured host once more, against a live target: by intent, not by bytes. Each command is issued
 * again through the host's own queues, over whichever transport, when the answers have come that had
 * come in the capture; what a controller or a connection chooses (CNTLID, CID, TTAG, keys, SQHD,
 * digests, challenges) is the live one's: authentication is done again where it is asked for, with
 * the keys given. Then the answers are laid beside the captured ones.
 */
#ifndef NVMF_PCAP_REPLAY_H
#define NVMF_PCAP_REPLAY_H

#include "host/nvme/auth.h"
#include "host/nvme/queue.h"
#include "replay_compare.h"
#include "replay_plan.h"

struct replay_options { /* strings and policies are the caller's, until the replay is over */
        enum host_transport transport;
        struct verbs_provider *verbs; /* RDMA; NULL: the devices of this machine */
        const char *traddr, *trsvcid;
        const char *subnqn;                  /* NULL: as captured; the discovery NQN stays */
        const char *hostnqn;                 /* NULL: as captured */
        const uint8_t *hostid;               /* 16 bytes; NULL: as captured */
        bool hdgst, ddgst;                   /* TCP */
        struct auth_key dhchap, dhchap_ctrl; /* where the live target asks for authentication */
        unsigned timeout;                    /* ms, for each command */
        bool allow_write;                    /* else commands that change something are skipped */
        bool strict_data; /* blocks hold what they held when the capture was taken */
        uint64_t offset;  /* added to each LBA */
        uint64_t blocks;  /* commands that go after offset + blocks are skipped; 0: none */
        struct capture_writer *record; /* what goes over TCP is written there; may be NULL */
        double timing;                 /* of the original times; 0: as fast as the answers allow */
};

struct replayed {
        const struct plan_cmd *cmd;
        struct verdict verdict;
        bool sent;
        uint16_t qid, cid; /* live, if it was sent */
};
/* Called for each command of the capture, once its answer is here or it is clear that none comes. */
typedef void replay_fn(void *user, const struct replayed *r);

struct replay_totals {
        uint64_t count[LIKENESSES];
        uint64_t reordered; /* answers that overtook others, which NVMe allows */
};

/* Replays the plan once; adds to totals. 0; -1 with one line in err: there is no live target (any
 * more) to replay it to. */
int replay_run(const struct replay_plan *plan, const struct replay_options *options, replay_fn *fn,
               void *user, struct replay_totals *totals, char *err, size_t err_size);

#endif
