/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rdma.h"
#include "reactor.h"

enum {
        CHUNK_LEAST = 32, /* receives */
        CHUNK_MOST = 256,
        ALIGN = 64,
        FIRST_SLABS = 2, /* as first_memory() makes them */
};

/* --- receives --------------------------------------------------------------------------------- */

struct recv_chunk *rdma_device_chunk(struct rdma_device *d, unsigned count)
{
        size_t each = (d->rdma->reactor->service->limits.receive_bytes + ALIGN - 1) / ALIGN * ALIGN;
        struct recv_chunk *chunk = calloc(1, sizeof(*chunk) + count * sizeof(chunk->recv[0]));

        if (!chunk)
                return NULL;
        chunk->count = count;
        chunk->bytes = count * each;
        chunk->memory =
            mmap(NULL, chunk->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (chunk->memory == MAP_FAILED) {
                free(chunk);
                return NULL;
        }
        if (verbs_reg(d->dev->domain, chunk->memory, chunk->bytes, 0, &chunk->mr) < 0) {
                munmap(chunk->memory, chunk->bytes);
                free(chunk);
                return NULL;
        }
        for (unsigned i = 0; i < count; i++)
                chunk->recv[i].wr = (struct verbs_wr) {
                        .op = VERBS_RECV,
                        .n_sge = 1,
                        .sge = { { (char *)chunk->memory + i * each, (uint32_t)each,
                                   chunk->mr.lkey } },
                        .user = chunk,
                };
        return chunk;
}

void rdma_device_drop_chunk(struct rdma_device *d, struct recv_chunk *chunk)
{
        if (d->dev->domain)
                verbs_dereg(d->dev->domain, &chunk->mr);
        munmap(chunk->memory, chunk->bytes);
        free(chunk);
}

static void to_post(struct rdma_device *d, struct rdma_recv *rx)
{
        rx->wr.next = NULL;
        *d->to_post_last = &rx->wr;
        d->to_post_last = &rx->wr.next;
}

static void drop_from_srq(struct rdma_device *d, struct recv_chunk *chunk)
{
        struct recv_chunk **at = &d->chunks;

        while (*at && *at != chunk)
                at = &(*at)->next;
        if (*at)
                *at = chunk->next;
        rdma_device_drop_chunk(d, chunk);
}

static void spare(struct rdma_device *d, struct rdma_recv *rx)
{
        struct recv_chunk *chunk = rx->wr.user;

        d->receives--;
        rx->wr.next = chunk->spares;
        chunk->spares = &rx->wr;
        if (++chunk->n_spares == chunk->count)
                drop_from_srq(d, chunk);
}

void rdma_device_recv_put(struct rdma_device *d, struct rdma_recv *rx)
{
        if (d->dev->gone || d->receives > d->wanted + CHUNK_MOST)
                spare(d, rx);
        else
                to_post(d, rx);
}

/* What can't be posted has failed with its device. */
void rdma_device_post(struct rdma_device *d)
{
        struct verbs_wr *chain = d->to_post, *bad = NULL;

        if (!chain)
                return;
        d->to_post = NULL;
        d->to_post_last = &d->to_post;
        if (verbs_post_srq(d->dev->domain, chain, &bad) == 0)
                return;
        for (struct verbs_wr *next; bad; bad = next) {
                next = bad->next;
                spare(d, (struct rdma_recv *)bad);
        }
}

static void use_spares(struct rdma_device *d)
{
        for (struct recv_chunk *chunk = d->chunks; chunk; chunk = chunk->next)
                while (chunk->spares && d->receives < d->wanted) {
                        struct rdma_recv *rx = (struct rdma_recv *)chunk->spares;

                        chunk->spares = rx->wr.next;
                        chunk->n_spares--;
                        d->receives++;
                        to_post(d, rx);
                }
}

static uint32_t chunk_count(const struct rdma_device *d)
{
        uint32_t count = d->wanted - d->receives, room = d->srq_wrs - d->receives;

        if (count < CHUNK_LEAST)
                count = CHUNK_LEAST;
        if (count > CHUNK_MOST)
                count = CHUNK_MOST;
        return count < room ? count : room;
}

static int more_receives(struct rdma_device *d)
{
        use_spares(d);
        while (d->receives < d->wanted) {
                struct recv_chunk *chunk = rdma_device_chunk(d, chunk_count(d));

                if (!chunk)
                        return -1;
                chunk->next = d->chunks;
                d->chunks = chunk;
                d->receives += chunk->count;
                for (unsigned i = 0; i < chunk->count; i++)
                        to_post(d, &chunk->recv[i]);
        }
        rdma_device_post(d);
        return 0;
}

/* --- a queue more or less ---------------------------------------------------------------------- */

uint32_t rdma_device_receives_left(const struct rdma_device *d)
{
        return d->srq_wrs - d->wanted;
}

int rdma_device_reserve(struct rdma_device *d, uint32_t receives)
{
        if (rdma_dev_reserve(d->dev, receives) < 0)
                return -1;
        d->wanted += receives;
        if (more_receives(d) == 0)
                return 0;
        rdma_device_unreserve(d, receives);
        return -1;
}

void rdma_device_unreserve(struct rdma_device *d, uint32_t receives)
{
        rdma_dev_unreserve(d->dev, receives);
        d->wanted -= receives;
}

/* --- the device -------------------------------------------------------------------------------- */

static void *get_piece(void *user, uint64_t bytes)
{
        return regmem_get(user, bytes);
}

static void put_piece(void *user, void *memory, uint64_t bytes)
{
        regmem_put(user, memory, bytes);
}

/* So that whoever is let in finds a buffer of either end. */
static int first_memory(struct rdma_device *d, uint32_t max_transfer)
{
        void *small = regmem_get(&d->memory, pool_size(1));
        void *large = regmem_get(&d->memory, pool_size(max_transfer));

        if (small)
                regmem_put(&d->memory, small, pool_size(1));
        if (large)
                regmem_put(&d->memory, large, pool_size(max_transfer));
        return small && large ? 0 : -1;
}

/* Where it can't be made, as some devices say that they can and then refuse, each queue has receives
 * of its own. */
static void make_srq(struct rdma_device *d, uint32_t limit)
{
        uint32_t wrs = d->dev->caps->srq_wrs < limit ? d->dev->caps->srq_wrs : limit;

        /* it has up to two chunks more than its queues want */
        if (wrs == 0 || rdma_dev_reserve(d->dev, 2 * CHUNK_MOST) < 0)
                return;
        if (verbs_make_srq(d->dev->domain, wrs) == 0)
                d->srq_wrs = wrs;
        else
                rdma_dev_unreserve(d->dev, 2 * CHUNK_MOST);
}

struct rdma_device *rdma_device_of(struct rdma *m, struct rdma_dev *dev)
{
        static const struct pool_source source = { get_piece, put_piece };
        const struct engine_limits *l = &m->reactor->service->limits;
        struct rdma_device *d = dev->user;

        if (d)
                return d;
        d = calloc(1, sizeof(*d));
        if (!d)
                return NULL;
        *d = (struct rdma_device) { .dev = dev, .rdma = m, .to_post_last = &d->to_post };
        dev->user = d;
        regmem_init(&d->memory, dev->domain);
        pool_init(&d->pool, m->reactor->pool.cap, &source, &d->memory);
        if (first_memory(d, l->max_transfer) < 0) {
                int saved = errno;

                rdma_device_free(dev);
                errno = saved;
                return NULL;
        }
        make_srq(d, l->receives);
        return rdma_loop_update(&m->loop) == 0 ? d : NULL;
}

void rdma_device_trim(struct rdma_device *d)
{
        if (d->dev->eps > 0)
                return;
        pool_trim(&d->pool);
        regmem_trim(&d->memory, FIRST_SLABS);
}

void rdma_device_free(struct rdma_dev *dev)
{
        struct rdma_device *d = dev->user;

        if (!d)
                return;
        dev->user = NULL;
        d->memory.domain = dev->domain;
        pool_fini(&d->pool);
        regmem_fini(&d->memory);
        while (d->chunks) {
                struct recv_chunk *next = d->chunks->next;

                rdma_device_drop_chunk(d, d->chunks);
                d->chunks = next;
        }
        free(d);
}
