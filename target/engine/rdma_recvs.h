/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receives of one RDMA connection, whatever protocol it speaks: a share of the device's SRQ or, where it has none, its
 * own; and messages that a turn has no time for. Registered memory for its data, too. Embedded in the family's connection.
 */
#ifndef NVMF_TARGET_RDMA_RECVS_H
#define NVMF_TARGET_RDMA_RECVS_H

#include "conn.h"
#include "rdma.h"

struct rdma_recvs {
        struct rdma_device *device; /* the connection's, from its beginning on */
        struct recv_chunk *own;     /* receives, where there is no SRQ */
        struct verbs_wr *to_post;   /* of them */
        uint32_t reserved;          /* with the SRQ */
        struct rdma_recv *waiting, **waiting_last;
        uint32_t waits; /* so many */
};

/* None yet; the device is set by its owner. */
void rdma_recvs_init(struct rdma_recvs *r);
/* So many of them, for a connection that has its queue pair. -1 with errno. */
int rdma_recvs_get(struct rdma_recvs *r, struct rdma_ep *e, uint32_t count);
/* The queue pair is destroyed, and nothing waits. */
void rdma_recvs_drop(struct rdma_recvs *r);

/* It is not needed any more: to be posted again. */
void rdma_recvs_put(struct rdma_recvs *r, struct rdma_recv *rx);
/* Posts those that were put; where that fails, so has the connection. */
void rdma_recvs_post(struct rdma_recvs *r, struct rdma_ep *e);

/* A message that has to wait, after those that do already; and the oldest of them, which r->waiting says is there. */
void rdma_recvs_defer(struct rdma_recvs *r, struct rdma_recv *rx);
struct rdma_recv *rdma_recvs_next(struct rdma_recvs *r);

/* As conn_buffer_get(), with the buffer's key. */
uint8_t *rdma_buffer_get(struct conn *c, uint32_t len, uint32_t *lkey);
/* Registered memory of the device, for as long as the connection needs it. NULL: there is none. */
void *rdma_memory_get(struct rdma_recvs *r, uint32_t bytes, uint32_t *lkey);
void rdma_memory_put(struct rdma_recvs *r, void *memory, uint32_t bytes);

#endif
