/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_recvs.h"

void rdma_recvs_init(struct rdma_recvs *r)
{
        *r = (struct rdma_recvs) { 0 };
        r->waiting_last = &r->waiting;
}

static int post_own(struct rdma_recvs *r, struct rdma_ep *e, uint32_t count)
{
        struct verbs_wr *bad;

        r->own = rdma_device_chunk(r->device, count);
        if (!r->own)
                return -1;
        for (uint32_t i = 0; i + 1 < count; i++)
                r->own->recv[i].wr.next = &r->own->recv[i + 1].wr;
        return rdma_ep_post_recv(e, &r->own->recv[0].wr, &bad);
}

int rdma_recvs_get(struct rdma_recvs *r, struct rdma_ep *e, uint32_t count)
{
        if (r->device->srq_wrs == 0)
                return post_own(r, e, count);
        if (rdma_device_reserve(r->device, count) < 0)
                return -1;
        r->reserved = count;
        return 0;
}

void rdma_recvs_drop(struct rdma_recvs *r)
{
        if (r->own)
                rdma_device_drop_chunk(r->device, r->own);
        if (r->reserved)
                rdma_device_unreserve(r->device, r->reserved);
        r->own = NULL;
        r->reserved = 0;
}

/* Receives of its own go back to it, as long as it receives at all. */
void rdma_recvs_put(struct rdma_recvs *r, struct rdma_recv *rx)
{
        if (!r->own) {
                rdma_device_recv_put(r->device, rx);
                return;
        }
        rx->wr.next = r->to_post;
        r->to_post = &rx->wr;
}

void rdma_recvs_post(struct rdma_recvs *r, struct rdma_ep *e)
{
        struct verbs_wr *chain = r->to_post, *bad;

        rdma_device_post(r->device);
        r->to_post = NULL;
        if (chain && rdma_ep_post_recv(e, chain, &bad) < 0)
                rdma_ep_step(e, LIFE_FAILED);
}

void rdma_recvs_defer(struct rdma_recvs *r, struct rdma_recv *rx)
{
        rx->next = NULL;
        *r->waiting_last = rx;
        r->waiting_last = &rx->next;
        r->waits++;
}

struct rdma_recv *rdma_recvs_next(struct rdma_recvs *r)
{
        struct rdma_recv *rx = r->waiting;

        r->waiting = rx->next;
        if (!r->waiting)
                r->waiting_last = &r->waiting;
        r->waits--;
        return rx;
}

uint8_t *rdma_buffer_get(struct conn *c, uint32_t len, uint32_t *lkey)
{
        uint8_t *buf = conn_buffer_get(c, len);

        if (buf)
                *lkey = regmem_key(buf, pool_size(len));
        return buf;
}

void *rdma_memory_get(struct rdma_recvs *r, uint32_t bytes, uint32_t *lkey)
{
        void *memory = regmem_get(&r->device->memory, pool_size(bytes));

        if (memory)
                *lkey = regmem_key(memory, pool_size(bytes));
        return memory;
}

void rdma_memory_put(struct rdma_recvs *r, void *memory, uint32_t bytes)
{
        regmem_put(&r->device->memory, memory, pool_size(bytes));
}
