/* SPDX-License-Identifier: BSD-3-Clause */
/* The registered memory of one RDMA endpoint: what callers have, and what it has for itself. */
#ifndef NVMF_VERBS_RDMA_MEMORY_H
#define NVMF_VERBS_RDMA_MEMORY_H

#include "verbs.h"

struct rdma_region {
        struct rdma_region *next;
        struct verbs_mr mr;
        bool own; /* to be freed */
};

struct rdma_memory {
        struct verbs_domain *domain;
        struct rdma_region *regions; /* the one that was hit last comes first */
};

/* Without regions. The domain must outlive them. */
void rdma_memory_init(struct rdma_memory *m, struct verbs_domain *domain);
/* Registrations end, own memory is freed. No queue pair may use it any more. */
void rdma_memory_fini(struct rdma_memory *m);

/* Registers base[0..len) for both directions. 0; -1 with errno. */
int rdma_memory_add(struct rdma_memory *m, void *base, size_t len);
/* The registration that begins at base ends; nothing, if there is none. */
void rdma_memory_drop(struct rdma_memory *m, const void *base);
/* Page-aligned zeroes, registered; freed by rdma_memory_drop(). NULL with errno. */
void *rdma_memory_own(struct rdma_memory *m, size_t len, uint32_t *lkey);

/* The registration that data[0..len) lies in; NULL: none. */
const struct verbs_mr *rdma_memory_find(struct rdma_memory *m, const void *data, uint32_t len);

#endif
