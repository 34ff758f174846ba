/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe over Fabrics, as the target's engine knows it. */
#include "conn.h"
#include "nvme_command.h"
#include "pdu/nvme/io/nvme_record.h"
#include "pdu/nvme/wire/family.h"
#include "rdma_conn.h"
#include "target/engine/family.h"

static struct listen_place place(struct port *p)
{
        return (struct listen_place) { .rdma = p->trtype == TRTYPE_RDMA,
                                       .traddr = p->traddr,
                                       .trsvcid = p->trsvcid };
}

static void reject_rdma(struct service *s, struct verbs_ep *ep)
{
        rdma_conn_reject((struct nvme_service *)(void *)s, ep, RDMA_REJECT_RESOURCES);
}

static void own_init(struct reactor *r)
{
        reactor_own(r)->finished_mail.run = conn_finish_all;
}

static void tick(struct service *s, uint64_t now)
{
        struct ctrl_table *t = ((struct nvme_service *)(void *)s)->ctrl.table;

        ctrl_table_tick(t, now);
        ctrl_table_ana_tick(t, now);
}

const struct target_family nvme_target = {
        .family = &nvme_family,
        .place = place,
        .port_get = port_get,
        .port_put = port_put,
        .start_stream = tcp_conn_start,
        .start_rdma = rdma_conn_start,
        .reject_rdma = reject_rdma,
        .record_rdma = nvme_record_new,
        .record_end = verbs_record_free,
        .own_bytes = sizeof(struct nvme_reactor),
        .own_init = own_init,
        .tick = tick,
        .command = &nvme_command,
};
