/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An NVMe/RDMA connection of the target: a queue pair between the capsule machine
 * (rdma_controller.h), its life (rdma_life.h) and its controller's queue. What a connect request
 * asks for is judged here, too.
 */
#ifndef NVMF_TARGET_RDMA_CONN_H
#define NVMF_TARGET_RDMA_CONN_H

#include "conn.h"
#include "pdu/verbs/rdma_life.h"
#include "rdma.h"

struct rdma_conn {
        struct conn conn;
        struct rdma_device *device;
        struct verbs_ep *ep;
        struct rdma_controller *machine;
        struct rdma_life life;
        struct rdma_request request;
        struct recv_chunk *own;              /* receives, where there is no SRQ */
        struct verbs_wr *to_post;            /* of them */
        struct rdma_recv *kept, **kept_last; /* capsules before it was established */
        uint32_t receives, cqes;             /* reserved with the device */
        unsigned unfinished;                 /* signaled work requests that are posted */
        uint64_t since;                      /* ms: in this state of life */
        bool touched, drained;               /* in the list of that name */
        struct rdma_conn *next_touched, *next_drained;
        char peer[NET_TRADDR];
};

/* A connect request, on the context of the reactor that is to serve it: accepts or rejects it. Takes
 * e->ep and the reference to the port. */
void rdma_conn_start(struct reactor *r, struct port *port, const struct verbs_event *e);
/* Without looking at it. */
void rdma_conn_reject(struct service *s, struct verbs_ep *ep, uint16_t sts);

/* Something came for it; rdma_conn_settle() must follow, when all has been handed out. */
void rdma_conn_event(struct rdma_conn *c, const struct verbs_event *e);
void rdma_conn_completed(struct rdma_conn *c, const struct verbs_wc *wc);
/* The completion queue was seen empty since its sentinels were flushed. */
void rdma_conn_drained(struct rdma_conn *c);
/* Posts what is ready, and sees what becomes of it; may free it. */
void rdma_conn_settle(struct rdma_conn *c);

#endif
