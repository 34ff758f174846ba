/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data buffers of one reactor: size classes of powers of two from 4 KiB, kept for reuse, within a
 * bound of bytes in all. No locks: a pool has one thread.
 *
 * A quarter is kept for borrowers that hold nothing yet, so that one who does not give back what it
 * has cannot starve all others. All borrowers of one host at one address have half of it at most (the last
 * eighth is for those of them that hold nothing), those of one address five eighths, and a sixteenth is for
 * buffers of the smallest class: Identify always finds one.
 *
 * Copies of what came in capsules and has to wait are beside that, since they must not wait for buffers, nor buffers for
 * them: a quarter as many bytes in all, an eighth for one address.
 */
#ifndef NVMF_TARGET_POOL_H
#define NVMF_TARGET_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "turns.h"

enum {
        POOL_MIN_SHIFT = 12,
        POOL_MAX_SHIFT = 26,
        POOL_CLASSES = POOL_MAX_SHIFT - POOL_MIN_SHIFT + 1
};

struct pool_source { /* where the memory of a pool comes from; sizes are those of the classes */
        void *(*get)(void *user, uint64_t bytes); /* NULL: there is none */
        void (*put)(void *user, void *memory, uint64_t bytes);
};

struct pool_share { /* what several borrowers have together */
        struct pool_share *next;
        uint64_t lent;
        uint64_t kept; /* as an address: bytes of copies */
        unsigned refs;
        struct turn_share turns; /* of what they have to do */
        struct turn_share hosts; /* as an address: of what its hosts have to do, by */
        struct turn_part part;   /* what each may do at its address */
        unsigned may;            /* so much, in that turn */
        uint32_t receives;       /* as an address: what it has of those that an SRQ promises */
        char name[];
};

struct pool_borrower {
        unsigned held;                   /* buffers */
        uint64_t bytes;                  /* of them */
        struct pool_share *host, *place; /* either may be NULL */
};

struct pool {
        const struct pool_source *source;
        void *user;          /* the source's */
        uint64_t cap, bytes; /* allowed; allocated, whether lent or free */
        uint64_t lent;
        uint64_t kept; /* bytes of copies */
        struct pool_buffer *free[POOL_CLASSES];
        struct pool_share *shares;
        bool used; /* since the last pool_trim() */
};

/* source NULL: malloc. */
void pool_init(struct pool *p, uint64_t cap, const struct pool_source *source, void *user);
/* All buffers must be back. */
void pool_fini(struct pool *p);

/* The share of that name, for one more borrower that holds nothing; NULL if out of memory. */
struct pool_share *pool_join(struct pool *p, const char *name);
/* share may be NULL. */
void pool_leave(struct pool *p, struct pool_share *share);

/* A buffer of at least len bytes (at most 64 MiB), 64-byte aligned; NULL: a bound is reached. */
uint8_t *pool_get(struct pool *p, uint32_t len, struct pool_borrower *b);
/* len and b as of pool_get(). */
void pool_put(struct pool *p, uint8_t *buf, uint32_t len, struct pool_borrower *b);

/* A copy of `len` bytes (not 0) for an address, which has not left; NULL: a bound is reached. */
void *pool_keep(struct pool *p, const void *data, uint32_t len, struct pool_share *place);
void pool_drop(struct pool *p, void *copy, uint32_t len, struct pool_share *place);

/* Now and then: a pool that was not used since the last time gives its free buffers back. */
void pool_trim(struct pool *p);

/* Bytes that a buffer of `len` really has. */
uint64_t pool_size(uint32_t len);

#endif
