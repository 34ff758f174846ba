/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data buffers of one reactor: size classes of powers of two from 4 KiB, kept for reuse, within a
 * bound of bytes in all. No locks: a pool has one thread.
 *
 * A quarter is kept for borrowers that hold nothing yet, so that one who does not give back what it
 * has cannot starve all others.
 */
#ifndef NVMF_TARGET_POOL_H
#define NVMF_TARGET_POOL_H

#include <stdbool.h>
#include <stdint.h>

enum {
        POOL_MIN_SHIFT = 12,
        POOL_MAX_SHIFT = 26,
        POOL_CLASSES = POOL_MAX_SHIFT - POOL_MIN_SHIFT + 1
};

struct pool {
        uint64_t cap, bytes; /* allowed; allocated, whether lent or free */
        uint64_t lent;
        struct pool_buffer *free[POOL_CLASSES];
        bool used; /* since the last pool_trim() */
};

void pool_init(struct pool *p, uint64_t cap);
/* All buffers must be back. */
void pool_fini(struct pool *p);

/* A buffer of at least len bytes (at most 64 MiB), 64-byte aligned, for a borrower that holds `held`
 * others; NULL: the bound is reached. */
uint8_t *pool_get(struct pool *p, uint32_t len, unsigned held);
void pool_put(struct pool *p, uint8_t *buf, uint32_t len);

/* Now and then: a pool that was not used since the last time gives its free buffers back. */
void pool_trim(struct pool *p);

#endif
