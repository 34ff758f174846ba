/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool.h"

#include <stdlib.h>

struct pool_buffer { /* what a free buffer begins with */
        struct pool_buffer *next;
};

void pool_init(struct pool *p, uint64_t cap)
{
        *p = (struct pool) { .cap = cap };
}

static unsigned class_of(uint32_t len)
{
        unsigned class = 0;

        while (len > UINT32_C(1) << (POOL_MIN_SHIFT + class))
                class ++;
        return class;
}

static uint64_t size_of(unsigned class)
{
        return UINT64_C(1) << (POOL_MIN_SHIFT + class);
}

static struct pool_buffer *take(struct pool *p, unsigned class)
{
        struct pool_buffer *b = p->free[class];

        if (b)
                p->free[class] = b->next;
        return b;
}

/* Gives free buffers back until `bytes` more may be allocated, or there are no more. */
static void shrink(struct pool *p, uint64_t bytes)
{
        for (unsigned class = POOL_CLASSES; class -- > 0;)
                while (p->bytes + bytes > p->cap && p->free[class]) {
                        free(take(p, class));
                        p->bytes -= size_of(class);
                }
}

void pool_fini(struct pool *p)
{
        shrink(p, p->cap + 1);
}

static void *allocate(struct pool *p, unsigned class)
{
        void *b;

        if (p->bytes + size_of(class) > p->cap)
                shrink(p, size_of(class));
        if (p->bytes + size_of(class) > p->cap)
                return NULL;
        b = aligned_alloc(64, size_of(class));
        if (b)
                p->bytes += size_of(class);
        return b;
}

uint8_t *pool_get(struct pool *p, uint32_t len, unsigned held)
{
        unsigned class = class_of(len);
        void *b;

        p->used = true;
        if (held > 0 && p->lent + size_of(class) > p->cap - p->cap / 4)
                return NULL;
        b = take(p, class);
        if (!b)
                b = allocate(p, class);
        if (b)
                p->lent += size_of(class);
        return b;
}

void pool_put(struct pool *p, uint8_t *buf, uint32_t len)
{
        unsigned class = class_of(len);
        struct pool_buffer *b = (struct pool_buffer *)(void *)buf;

        b->next = p->free[class];
        p->free[class] = b;
        p->lent -= size_of(class);
}

void pool_trim(struct pool *p)
{
        if (!p->used)
                shrink(p, p->cap + 1);
        p->used = false;
}
