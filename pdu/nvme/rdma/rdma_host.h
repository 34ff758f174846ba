/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's side of one NVMe/RDMA queue pair: command capsules out, responses in, keys checked.
 * Like rdma_controller.h it makes work requests and is told of completions; the life cycle is the
 * owner's. Data lies in registered memory that the owner names (data_mr).
 */
#ifndef NVMF_MACHINE_RDMA_HOST_H
#define NVMF_MACHINE_RDMA_HOST_H

#include "pdu/nvme/machine/host_cmd.h"
#include "pdu/nvme/wire/rdma.h"
#include "pdu/verbs/verbs.h"

struct rdma_host;

struct rdma_host_config {
        uint16_t qid;
        uint16_t depth;      /* commands outstanding at most: queue size - 1 */
        uint16_t icdoff;     /* 16-byte units */
        uint32_t in_capsule; /* bytes; changed by rdma_host_set_in_capsule() */
        uint32_t
            capsule_max; /* bytes of a capsule's memory: the SQE, ICDOFF, and room for data that
                               * lies in no registered memory and is copied, and for violators */
        uint32_t inline_bytes;
        uint8_t msdbd;                    /* for violators */
        const struct rule_policy *policy; /* may be NULL */
};

struct rdma_host_ops {
        /* Registered memory that lives as long as the machine: for capsules and responses. NULL if
         * out of memory. */
        void *(*memory)(void *user, size_t bytes, uint32_t *lkey);
        void (*memory_put)(void *user, void *memory, size_t bytes);
        /* The registration that cmd->data[0..len) lies in: false: in none (the command is refused,
         * unless its data goes in the capsule and there is room). */
        bool (*data_keys)(void *user, const void *data, uint32_t len, uint32_t *lkey,
                          uint32_t *rkey);
};

enum { RDMA_HOST_SIGNAL = 16 }; /* one SEND of so many is signaled at least */

/* Work requests that may be on the send queue. */
unsigned rdma_host_sends(const struct rdma_host_config *cfg);

/* NULL: out of memory, or what the ops register failed. *cfg and *ops are copied, the policy is
 * not. user is handed to the ops. */
struct rdma_host *rdma_host_new(const struct rdma_host_config *cfg, const struct rdma_host_ops *ops,
                                void *user);
/* Commands still outstanding are not called back: rdma_host_fail_all() first. */
void rdma_host_free(struct rdma_host *h);
/* 64 + icdoff * 16 more than capsule_max: no in-capsule data. */
void rdma_host_set_in_capsule(struct rdma_host *h, uint32_t bytes, uint16_t icdoff);

/* RECVs to be posted, as one chain: at first all, later those whose responses were taken. NULL: none. */
struct verbs_wr *rdma_host_take_recvs(struct rdma_host *h);
/* SENDs to be posted. */
struct verbs_wr *rdma_host_take(struct rdma_host *h);
/* Whether one of the two has any. */
bool rdma_host_wants_post(const struct rdma_host *h);

/* 0; -1 when `depth` commands are outstanding, data lies in no registered memory or is more than
 * SGL_KEYED_MAX. */
int rdma_host_submit(struct rdma_host *h, struct host_cmd *cmd);
unsigned rdma_host_outstanding(const struct rdma_host *h);

/* A completion of its own: calls done() of a command that ended by it. True: the connection has to
 * end (error status, or a breach of the controller: rdma_host_fault()). */
bool rdma_host_completed(struct rdma_host *h, const struct verbs_wc *wc);
struct fault rdma_host_fault(const struct rdma_host *h);

/* The queue pair is drained: every command that has not ended is called back with `status`. */
void rdma_host_fail_all(struct rdma_host *h, uint16_t status);

#endif
