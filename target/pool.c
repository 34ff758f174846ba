/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool.h"

#include <assert.h>
#include <stdlib.h>

#include "pdu/core/asan.h"

struct pool_buffer { /* what a free buffer begins with */
        struct pool_buffer *next;
};

static void *get_heap(void *user, uint64_t bytes)
{
        (void)user;
        return aligned_alloc(64, bytes);
}

static void put_heap(void *user, void *memory, uint64_t bytes)
{
        (void)user;
        (void)bytes;
        free(memory);
}

void pool_init(struct pool *p, uint64_t cap, const struct pool_source *source, void *user)
{
        static const struct pool_source heap = { get_heap, put_heap };

        *p = (struct pool) { .source = source ? source : &heap, .user = user, .cap = cap };
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

uint64_t pool_size(uint32_t len)
{
        return size_of(class_of(len));
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
                        void *b = take(p, class);

                        ASAN_UNPOISON_MEMORY_REGION(b, size_of(class));
                        p->source->put(p->user, b, size_of(class));
                        p->bytes -= size_of(class);
                }
}

void pool_fini(struct pool *p)
{
        assert(p->lent == 0);
        shrink(p, p->cap + 1);
}

static void *allocate(struct pool *p, unsigned class)
{
        void *b;

        if (p->bytes + size_of(class) > p->cap)
                shrink(p, size_of(class));
        if (p->bytes + size_of(class) > p->cap)
                return NULL;
        b = p->source->get(p->user, size_of(class));
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
        if (!b)
                return NULL;
        p->lent += size_of(class);
        /* the address sanitizer takes the buffer to be as long as was asked for, and until it is back */
        ASAN_POISON_MEMORY_REGION(b, size_of(class));
        ASAN_UNPOISON_MEMORY_REGION(b, len);
        return b;
}

void pool_put(struct pool *p, uint8_t *buf, uint32_t len)
{
        unsigned class = class_of(len);
        struct pool_buffer *b = (struct pool_buffer *)(void *)buf;

        assert(!ASAN_IS_POISONED(buf, len)); /* it is lent */
        ASAN_POISON_MEMORY_REGION(buf, size_of(class));
        ASAN_UNPOISON_MEMORY_REGION(buf, sizeof(*b));
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
