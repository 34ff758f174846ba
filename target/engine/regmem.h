/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that an RDMA device knows: pieces of powers of two out of slabs, each of them registered
 * once, when it is made. A slab whose pieces are all back is kept for other sizes, too, so that
 * registering (which costs system calls) stops when the load is known. One thread's.
 */
#ifndef NVMF_TARGET_REGMEM_H
#define NVMF_TARGET_REGMEM_H

#include "pdu/verbs/verbs.h"

enum {
        REGMEM_MIN_SHIFT = 12,
        REGMEM_MAX_SHIFT = 26,
        REGMEM_CLASSES = REGMEM_MAX_SHIFT - REGMEM_MIN_SHIFT + 1,
        REGMEM_SLAB = 2 << 20, /* bytes; pieces beyond it have a slab of their own */
};

struct regmem {
        struct verbs_domain *domain;
        struct slab *open[REGMEM_CLASSES]; /* have a piece to give */
        struct slab *idle;                 /* wholly free, not of any class */
        struct slab *slabs;                /* all */
};

/* Nothing is registered before the first piece is asked for. d must outlive it, or m->domain be
 * set to NULL. */
void regmem_init(struct regmem *m, struct verbs_domain *d);
/* Whatever is still lent goes, too: no work request with it may be posted. The domain may be gone
 * already: m->domain is NULL then. */
void regmem_fini(struct regmem *m);

/* A piece of `bytes` (a power of two from 4 KiB to 64 MiB), aligned to that; NULL with errno. */
void *regmem_get(struct regmem *m, uint64_t bytes);
/* bytes as of regmem_get(). */
void regmem_put(struct regmem *m, void *piece, uint64_t bytes);
/* Gives slabs that are wholly free back, down to `keep` of them. */
void regmem_trim(struct regmem *m, unsigned keep);
/* Its lkey. */
uint32_t regmem_key(const void *piece, uint64_t bytes);

#endif
