/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_link.h"

#include <errno.h>
#include <stdio.h>

#include "pdu/core/bytes.h"
#include "pdu/io/log.h"

enum {
        CLOSING_MS = 2000,  /* that a peer may take to answer DREQ */
        DRAINING_MS = 3000, /* that a device may take to flush a queue pair */
        GONE_MS = 200,      /* that a device which is gone may take */
};

static struct rdma_link *link_of(struct conn *c)
{
        return c->rdma;
}

/* --- from the beginning to the end ------------------------------------------------------------ */

void rdma_link_init(struct rdma_link *l, struct conn *c, const struct rdma_ep_ops *ops)
{
        *l = (struct rdma_link) { .conn = c };
        l->waiting_last = &l->waiting;
        rdma_ep_init(&l->ep, &c->reactor->rdma->group, ops);
        c->rdma = l;
}

int rdma_link_take(struct rdma_link *l, struct verbs_ep *ep)
{
        const struct conn_peer peer = rdma_peer(ep);

        if (rdma_ep_take(&l->ep, ep) < 0)
                return -1;
        l->device = rdma_device_of(l->conn->reactor->rdma, l->ep.dev);
        if (l->device)
                l->place = pool_join(&l->device->pool, peer.place);
        if (l->place)
                return 0;
        rdma_ep_disown(&l->ep);
        l->device = NULL;
        return -1;
}

static int post_own(struct rdma_link *l, uint32_t count)
{
        struct verbs_wr *bad;

        l->own = rdma_device_chunk(l->device, count);
        if (!l->own)
                return -1;
        for (uint32_t i = 0; i + 1 < count; i++)
                l->own->recv[i].wr.next = &l->own->recv[i + 1].wr;
        return rdma_ep_post_recv(&l->ep, &l->own->recv[0].wr, &bad);
}

int rdma_link_make(struct rdma_link *l, struct verbs_qp_attr *attr, uint32_t receives)
{
        bool srq = l->device->srq_wrs > 0;

        if (srq)
                attr->recv_wrs = 0;
        if (rdma_ep_qp(&l->ep, attr) < 0)
                return -1;
        if (!srq)
                return post_own(l, receives);
        if (rdma_device_reserve(l->device, receives) < 0)
                return -1;
        l->reserved = receives;
        l->place->receives += receives;
        return 0;
}

uint32_t rdma_link_receives_left(const struct rdma_link *l)
{
        uint32_t most = l->ep.dev->caps->qp_wrs, all = l->device->srq_wrs;

        if (all > 0)
                return least(rdma_device_receives_left(l->device),
                             all - all / 4 - least(all - all / 4, l->place->receives));
        return most ? most - 1 : UINT32_MAX; /* but the sentinel */
}

uint8_t rdma_link_reads(const struct rdma_link *l, const struct verbs_conn_param *p)
{
        uint8_t most = l->ep.dev->caps->reads_out;

        return most < p->reads_in ? most : p->reads_in;
}

void rdma_link_fini(struct rdma_link *l)
{
        rdma_ep_destroy(&l->ep);
        if (l->own)
                rdma_device_drop_chunk(l->device, l->own);
        if (l->reserved) {
                rdma_device_unreserve(l->device, l->reserved);
                l->place->receives -= l->reserved;
        }
        if (l->place)
                pool_leave(&l->device->pool, l->place);
        l->place = NULL;
        l->own = NULL;
        l->reserved = 0;
}

void rdma_link_expire(struct rdma_link *l)
{
        if (l->ep.life.state > LIFE_LIVE)
                rdma_ep_expire(&l->ep, CLOSING_MS, l->ep.dev->gone ? GONE_MS : DRAINING_MS);
}

/* --- what the user is told -------------------------------------------------------------------- */

void rdma_log_rejected(const struct verbs_ep *ep, const char *what, const char *reason,
                       const char *why)
{
        struct conn_peer peer = rdma_peer(ep);

        log_line(LOG_AS_WARNING, "rejected", peer.addr, "%s of %s:%u rejected (%s)%s%s", what,
                 peer.addr, peer.port, reason, why ? ": " : "", why ? why : "");
}

bool rdma_failure(const struct verbs_wc *wc, char *text, size_t size)
{
        if (wc->status == VERBS_FLUSHED)
                return false;
        snprintf(text, size, "%s failed: %s", verbs_op_name(wc->wr->op),
                 verbs_status_name(wc->status));
        return true;
}

/* --- receives --------------------------------------------------------------------------------- */

/* Receives of its own go back to it, as long as it receives at all. */
void rdma_link_recv_put(void *conn, struct rdma_recv *rx)
{
        struct rdma_link *l = link_of(conn);

        if (!l->own) {
                rdma_device_recv_put(l->device, rx);
                return;
        }
        rx->wr.next = l->to_post;
        l->to_post = &rx->wr;
}

/* Where receives cannot be posted, the connection has failed. */
int rdma_link_post(struct rdma_link *l, struct verbs_wr *chain)
{
        struct verbs_wr *recvs = l->to_post, *bad = NULL;
        int saved;

        rdma_device_post(l->device);
        l->to_post = NULL;
        if (recvs && rdma_ep_post_recv(&l->ep, recvs, &bad) < 0)
                rdma_ep_step(&l->ep, LIFE_FAILED);
        if (!chain || l->ep.life.state != LIFE_LIVE || rdma_ep_post(&l->ep, chain, &bad) == 0)
                return 0;
        saved = errno;
        rdma_ep_flushed(&l->ep, bad);
        errno = saved;
        return -1;
}

void rdma_link_defer(struct rdma_link *l, struct rdma_recv *rx)
{
        rx->next = NULL;
        *l->waiting_last = rx;
        l->waiting_last = &rx->next;
        l->waits++;
        conn_come_again(l->conn);
}

struct rdma_recv *rdma_link_oldest(struct rdma_link *l)
{
        struct rdma_recv *rx = l->waiting;

        l->waiting = rx->next;
        if (!l->waiting)
                l->waiting_last = &l->waiting;
        l->waits--;
        return rx;
}

struct rdma_recv *rdma_link_next(struct rdma_link *l)
{
        if (!l->waiting)
                return NULL;
        if (conn_budget(l->conn) > 0)
                return rdma_link_oldest(l);
        conn_come_again(l->conn);
        return NULL;
}

void rdma_link_drop_waiting(struct rdma_link *l)
{
        while (l->waiting)
                rdma_link_recv_put(l->conn, rdma_link_oldest(l));
}

/* --- memory ----------------------------------------------------------------------------------- */

uint8_t *rdma_link_buffer_get(void *conn, uint32_t len, uint32_t *lkey)
{
        uint8_t *buf = conn_buffer_get(conn, len);

        if (buf)
                *lkey = regmem_key(buf, pool_size(len));
        return buf;
}

void rdma_link_buffer_put(void *conn, uint8_t *buf, uint32_t len)
{
        conn_buffer_put(conn, buf, len);
}

void *rdma_link_memory_get(void *conn, uint32_t bytes, uint32_t *lkey)
{
        void *memory = regmem_get(&link_of(conn)->device->memory, pool_size(bytes));

        if (memory)
                *lkey = regmem_key(memory, pool_size(bytes));
        return memory;
}

void rdma_link_memory_put(void *conn, void *memory, uint32_t bytes)
{
        regmem_put(&link_of(conn)->device->memory, memory, pool_size(bytes));
}
