/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_memory.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

void rdma_memory_init(struct rdma_memory *m, struct verbs_domain *domain)
{
        *m = (struct rdma_memory) { .domain = domain };
}

static void drop(struct rdma_memory *m, struct rdma_region **at)
{
        struct rdma_region *r = *at;

        *at = r->next;
        verbs_dereg(m->domain, &r->mr);
        if (r->own)
                free(r->mr.addr);
        free(r);
}

void rdma_memory_fini(struct rdma_memory *m)
{
        while (m->regions)
                drop(m, &m->regions);
}

static struct rdma_region *add(struct rdma_memory *m, void *base, size_t len)
{
        struct rdma_region *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        if (verbs_reg(m->domain, base, len, VERBS_REMOTE_READ | VERBS_REMOTE_WRITE, &r->mr) < 0) {
                free(r);
                return NULL;
        }
        r->next = m->regions;
        m->regions = r;
        return r;
}

int rdma_memory_add(struct rdma_memory *m, void *base, size_t len)
{
        return add(m, base, len) ? 0 : -1;
}

void rdma_memory_drop(struct rdma_memory *m, const void *base)
{
        for (struct rdma_region **at = &m->regions; *at; at = &(*at)->next) {
                if ((*at)->mr.addr == base) {
                        drop(m, at);
                        return;
                }
        }
}

void *rdma_memory_own(struct rdma_memory *m, size_t len, uint32_t *lkey)
{
        void *p = aligned_alloc(PAGE, (len + PAGE - 1) & ~(size_t)(PAGE - 1));
        struct rdma_region *r;

        if (!p)
                return NULL;
        memset(p, 0, len);
        r = add(m, p, len);
        if (!r) {
                free(p);
                return NULL;
        }
        r->own = true;
        *lkey = r->mr.lkey;
        return p;
}

static bool holds(const struct verbs_mr *mr, const void *data, uint32_t len)
{
        uintptr_t offset = (uintptr_t)data - (uintptr_t)mr->addr;

        return offset < mr->len && len <= mr->len - offset;
}

const struct verbs_mr *rdma_memory_find(struct rdma_memory *m, const void *data, uint32_t len)
{
        for (struct rdma_region **at = &m->regions; *at; at = &(*at)->next) {
                struct rdma_region *r = *at;

                if (!holds(&r->mr, data, len))
                        continue;
                *at = r->next;
                r->next = m->regions;
                m->regions = r;
                return &r->mr;
        }
        return NULL;
}
