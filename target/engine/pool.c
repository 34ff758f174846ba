/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

static struct pool_buffer *pop_free(struct pool *p, unsigned class)
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
                        void *b = pop_free(p, class);

                        ASAN_UNPOISON_MEMORY_REGION(b, size_of(class));
                        p->source->put(p->user, b, size_of(class));
                        p->bytes -= size_of(class);
                }
}

void pool_fini(struct pool *p)
{
        assert(p->lent == 0 && p->kept == 0);
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

/* --- who has how much ------------------------------------------------------------------------- */

struct pool_share *pool_join(struct pool *p, const char *name)
{
        struct pool_share *s = p->shares;

        while (s && strcmp(s->name, name) != 0)
                s = s->next;
        if (!s) {
                s = calloc(1, sizeof(*s) + strlen(name) + 1);
                if (!s)
                        return NULL;
                strcpy(s->name, name);
                s->next = p->shares;
                p->shares = s;
        }
        s->refs++;
        return s;
}

void pool_leave(struct pool *p, struct pool_share *share)
{
        struct pool_share **at = &p->shares;

        if (!share || --share->refs > 0)
                return;
        assert(share->lent == 0 && share->kept == 0);
        while (*at != share)
                at = &(*at)->next;
        *at = share->next;
        free(share);
}

/* Whoever has nothing is not held to it. */
static bool fits(const struct pool_share *s, uint64_t bytes, uint64_t most)
{
        return !s || s->lent == 0 || s->lent + bytes <= most;
}

static bool may_have(const struct pool *p, const struct pool_borrower *b, uint64_t bytes)
{
        uint64_t lent = p->lent + bytes;

        if (b->held > 0 && lent > p->cap - p->cap / 4)
                return false;
        if (p->lent > 0 && bytes > size_of(0) && lent > p->cap - p->cap / 16)
                return false;
        return fits(b->host, bytes, p->cap / 8 * (b->held > 0 ? 3 : 4)) &&
               fits(b->place, bytes, p->cap / 8 * 5);
}

static void account(struct pool *p, struct pool_borrower *b, uint64_t bytes, bool out)
{
        uint64_t change = out ? bytes : -bytes;

        b->held += out ? 1u : -1u;
        b->bytes += change;
        p->lent += change;
        if (b->host)
                b->host->lent += change;
        if (b->place)
                b->place->lent += change;
}

/* --- lending ---------------------------------------------------------------------------------- */

uint8_t *pool_get(struct pool *p, uint32_t len, struct pool_borrower *borrower)
{
        unsigned class = class_of(len);
        void *b;

        p->used = true;
        if (!may_have(p, borrower, size_of(class)))
                return NULL;
        b = pop_free(p, class);
        if (!b)
                b = allocate(p, class);
        if (!b)
                return NULL;
        account(p, borrower, size_of(class), true);
        /* the address sanitizer takes the buffer to be as long as was asked for, and until it is back */
        ASAN_POISON_MEMORY_REGION(b, size_of(class));
        ASAN_UNPOISON_MEMORY_REGION(b, len);
        return b;
}

void pool_put(struct pool *p, uint8_t *buf, uint32_t len, struct pool_borrower *borrower)
{
        unsigned class = class_of(len);
        struct pool_buffer *b = (struct pool_buffer *)(void *)buf;

        assert(!ASAN_IS_POISONED(buf, len)); /* it is lent */
        ASAN_POISON_MEMORY_REGION(buf, size_of(class));
        ASAN_UNPOISON_MEMORY_REGION(buf, sizeof(*b));
        b->next = p->free[class];
        p->free[class] = b;
        account(p, borrower, size_of(class), false);
}

void *pool_keep(struct pool *p, const void *data, uint32_t len, struct pool_share *place)
{
        bool fits = p->kept + len <= p->cap / 4 && place->kept + len <= p->cap / 8;
        void *copy = fits ? malloc(len) : NULL;

        if (!copy)
                return NULL;
        p->kept += len;
        place->kept += len;
        return memcpy(copy, data, len);
}

void pool_drop(struct pool *p, void *copy, uint32_t len, struct pool_share *place)
{
        free(copy);
        p->kept -= len;
        place->kept -= len;
}

void pool_trim(struct pool *p)
{
        if (!p->used)
                shrink(p, p->cap + 1);
        p->used = false;
}
