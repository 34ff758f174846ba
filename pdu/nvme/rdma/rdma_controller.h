/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller's side of one NVMe/RDMA queue pair: command capsules in, READ and WRITE of the
 * host's memory, responses out (R1.0 3.3). It posts nothing itself: it makes chains of work
 * requests, and is told of completions. Connection management and the life cycle are the owner's,
 * with rdma_life.h.
 *
 * Where work requests are short (send queue, outstanding READs) those that wait go on in this order:
 * responses, READs, WRITEs; and then those that wait for buffers.
 */
#ifndef NVMF_MACHINE_RDMA_CONTROLLER_H
#define NVMF_MACHINE_RDMA_CONTROLLER_H

#include "pdu/nvme/machine/request.h"
#include "pdu/nvme/wire/rdma.h"
#include "pdu/verbs/verbs.h"

struct rdma_controller;

struct rdma_controller_config {
        struct rdma_format format; /* admin: known from the connect request's QID */
        uint32_t max_transfer;     /* bytes (MDTS): longer ones end with Invalid Field in Command */
        uint32_t send_wrs;     /* of the queue pair that may be outstanding: at least 2, and more
                                    * than any command that returns data may have descriptors */
        uint32_t reads;        /* READs outstanding at most: min of ours and the host's IRD; 0:
                                     * commands with host data outside the capsule fail */
        uint32_t inline_bytes; /* of a SEND; responses go inline where 16 fit */
        uint16_t depth;        /* entries: HSQSIZE + 1; more commands outstanding are a fault */
        const struct rule_policy *policy; /* may be NULL */
};

struct rdma_controller_ops {
        struct request_ops request;
        /* The receive buffer is no longer needed: post it again. */
        void (*recv_put)(void *user, struct rdma_recv *rx);
        /* Registered memory for responses, `bytes` of it, until rdma_controller_free(): for some
         * dozens at a time. Not called where they go inline. NULL: out of memory. */
        void *(*response_memory)(void *user, uint32_t bytes, uint32_t *lkey);
        void (*response_memory_put)(void *user, void *memory, uint32_t bytes);
};

/* NULL: out of memory. ops and cfg are copied, user is handed to every op. */
struct rdma_controller *rdma_controller_new(const struct rdma_controller_config *cfg,
                                            const struct rdma_controller_ops *ops, void *user);
/* The policy of its configuration has changed. */
void rdma_controller_renew(struct rdma_controller *c);
/* No request may be EXECUTING; the queue pair is drained or was never there. What it holds (buffers,
 * receives) goes back. */
void rdma_controller_free(struct rdma_controller *c);
/* Its requests, for the calls of request.h. */
struct requests *rdma_requests(struct rdma_controller *c);

/* A RECV completed well: a capsule of rx->bytes bytes. True: it ends the connection, for
 * rdma_controller_fault(). rx goes back through recv_put in any case, sometime. */
bool rdma_controller_received(struct rdma_controller *c, struct rdma_recv *rx);
/* What the host did that ended it; RULE_NONE: nothing. */
struct fault rdma_controller_fault(const struct rdma_controller *c);
/* What a host breaks that sends more commands than its queue holds. */
enum rule_id rdma_controller_overrun(const struct rdma_controller *c);

/* Work requests that are ready, as one chain; NULL: none. They are outstanding from here on. Call
 * it once after each batch of completions, not from within an op: capsules that found no memory are
 * taken here, too (look at rdma_controller_fault() afterwards). */
struct verbs_wr *rdma_controller_take(struct rdma_controller *c);
/* Whether rdma_controller_take() has something to do. */
bool rdma_controller_wants_post(const struct rdma_controller *c);
/* One of them completed (those not signaled: with error only). True: with an error, the connection has
 * to end. */
bool rdma_controller_completed(struct rdma_controller *c, const struct verbs_wc *wc);

/*
 * The queue pair is drained, or never came to be: nothing is outstanding any more. Requests that do
 * not execute end without a word; those that do, when they are completed.
 */
void rdma_controller_end(struct rdma_controller *c);

#endif
