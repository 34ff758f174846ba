/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An NVMe/RDMA connection of the target: a link (target/engine/rdma_link.h) between the capsule machine
 * (rdma_controller.h) and its controller's queue. What a connect request asks for is judged here, too.
 */
#ifndef NVMF_TARGET_RDMA_CONN_H
#define NVMF_TARGET_RDMA_CONN_H

#include "conn.h"
#include "pdu/nvme/rdma/rdma_controller.h"
#include "target/engine/rdma_link.h"

struct rdma_conn {
        struct target_conn conn;
        struct rdma_link link; /* capsules that a turn has no time for wait in it */
        struct rdma_controller *machine;
        struct rdma_request request;
        uint32_t entries; /* of its queue */
};

/* A connect request, on the context of the reactor that is to serve it: accepts or rejects it. Takes
 * e->ep and the reference to the port. */
void rdma_conn_start(struct reactor *r, struct port *port, const struct verbs_event *e,
                     const struct conn_peer *peer);
/* Without looking at it. */
void rdma_conn_reject(struct nvme_service *s, struct verbs_ep *ep, uint16_t sts);

#endif
