/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs that are connected by numbers. Their CM id is bound to the local address and never
 * connects: it finds the device, its port and its GID, makes the queue pair and takes it to INIT, and
 * hears of the removal. The rest is done here (IBTA 10.3.1).
 */
#include <errno.h>
#include <string.h>

#include "verbs_rdma_parts.h"

enum {
        MASK_24 = 0xffffff,
        HOP_LIMIT = 64,
        RNR_TIMER = 12,   /* 0.64 ms */
        ACK_TIMEOUT = 16, /* 268 ms; seven tries are 2 s */
        MOST_RETRIES = 6, /* rxe takes 7 to be forever, which is so of RNR alone */
        FOREVER = 7,
};

/* Whether there is a queue pair, and not one of the CM's; else errno. */
static bool is_local(const struct verbs_ep *ep)
{
        errno = EINVAL;
        return ep->local && ep->id->qp;
}

static int query_port(const struct verbs_ep *ep, struct ibv_port_attr *port)
{
        errno = ibv_query_port(ep->id->verbs, ep->id->port_num, port);
        return errno == 0 ? 0 : -1;
}

static const union ibv_gid *gid_of(const struct verbs_ep *ep)
{
        return &ep->id->route.addr.addr.ibaddr.sgid;
}

int vrdma_ep_numbers(const struct verbs_ep *ep, struct verbs_numbers *own)
{
        struct ibv_port_attr port;

        if (!is_local(ep) || query_port(ep, &port) < 0)
                return -1;
        *own = (struct verbs_numbers) { .qpn = ep->id->qp->qp_num,
                                        .psn = ep->psn & MASK_24,
                                        .lid = port.lid,
                                        .mtu = (uint16_t)(128 << port.active_mtu) };
        memcpy(own->gid, gid_of(ep)->raw, sizeof(own->gid));
        return 0;
}

/* The index of the endpoint's own GID; of the two that RoCE has for an address that of version 2.
 * -1 with errno: the address has gone from the device. */
static int find_gid(const struct verbs_ep *ep, const struct ibv_port_attr *port)
{
        struct ibv_gid_entry e;

        for (int i = 0; i < port->gid_tbl_len; i++)
                if (ibv_query_gid_ex(ep->id->verbs, ep->id->port_num, (uint32_t)i, &e, 0) == 0 &&
                    e.gid_type != IBV_GID_TYPE_ROCE_V1 &&
                    memcmp(e.gid.raw, gid_of(ep)->raw, sizeof(e.gid.raw)) == 0)
                        return i;
        errno = EADDRNOTAVAIL;
        return -1;
}

static enum ibv_mtu mtu_of(const struct verbs_numbers *peer, const struct ibv_port_attr *port)
{
        enum ibv_mtu mtu = IBV_MTU_256;

        while (mtu < port->active_mtu && 256 << mtu <= peer->mtu)
                mtu++;
        return mtu;
}

static int move(struct verbs_ep *ep, struct ibv_qp_attr *attr, int mask)
{
        errno = ibv_modify_qp(ep->id->qp, attr, mask);
        return errno == 0 ? 0 : -1;
}

/* It takes what the peer sends. */
static int ready_to_receive(struct verbs_ep *ep, const struct verbs_numbers *peer, uint8_t reads_in)
{
        struct ibv_port_attr port;
        int index = query_port(ep, &port) < 0 ? -1 : find_gid(ep, &port);
        struct ibv_qp_attr attr = {
                .qp_state = IBV_QPS_RTR,
                .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   (reads_in > 0 ? IBV_ACCESS_REMOTE_READ : 0u),
                .path_mtu = index < 0 ? IBV_MTU_256 : mtu_of(peer, &port),
                .dest_qp_num = peer->qpn & MASK_24,
                .rq_psn = peer->psn & MASK_24,
                .max_dest_rd_atomic = reads_in,
                .min_rnr_timer = RNR_TIMER,
                .ah_attr = { .dlid = peer->lid,
                             .is_global = index >= 0 && port.link_layer == IBV_LINK_LAYER_ETHERNET,
                             .grh = { .sgid_index = (uint8_t)index, .hop_limit = HOP_LIMIT },
                             .port_num = ep->id->port_num },
        };

        if (index < 0)
                return -1;
        memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
        return move(ep, &attr,
                    IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_AV | IBV_QP_PATH_MTU |
                        IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                        IBV_QP_MIN_RNR_TIMER);
}

static int ready_to_send(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        struct ibv_qp_attr attr = {
                .qp_state = IBV_QPS_RTS,
                .sq_psn = ep->psn & MASK_24,
                .max_rd_atomic = at_most(param->reads_out, ep->domain->caps.reads_out),
                .timeout = ACK_TIMEOUT,
                .retry_cnt = at_most(param->retry, MOST_RETRIES),
                .rnr_retry = at_most(param->rnr_retry, FOREVER),
        };

        return move(ep, &attr,
                    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
                        IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
}

static void keep_peer(struct verbs_ep *ep, const uint8_t gid[16])
{
        struct sockaddr_in *v4 = (void *)&ep->peer;

        ep->peer.sin6_family = AF_INET6;
        memcpy(&ep->peer.sin6_addr, gid, sizeof(ep->peer.sin6_addr));
        if (!IN6_IS_ADDR_V4MAPPED(&ep->peer.sin6_addr))
                return;
        memset(&ep->peer, 0, sizeof(ep->peer));
        v4->sin_family = AF_INET;
        memcpy(&v4->sin_addr, gid + 12, sizeof(v4->sin_addr));
}

int vrdma_ep_join(struct verbs_ep *ep, const struct verbs_numbers *peer,
                  const struct verbs_conn_param *param)
{
        if (!is_local(ep) || ep->joined || ep->failed)
                return -1;
        if (ready_to_receive(ep, peer, at_most(param->reads_in, ep->domain->caps.reads_in)) < 0 ||
            ready_to_send(ep, param) < 0)
                return -1;
        keep_peer(ep, peer->gid);
        ep->joined = true;
        vrdma_note(ep->context, &ep->note, NOTE_JOINED);
        return 0;
}

int vrdma_ep_part(struct verbs_ep *ep)
{
        if (vrdma_ep_fail(ep) < 0)
                return -1;
        if (!ep->joined)
                errno = ENOTCONN;
        else if (!ep->disconnected)
                vrdma_note(ep->context, &ep->note, NOTE_PARTED);
        ep->disconnected = true;
        return ep->joined ? 0 : -1;
}
