/* SPDX-License-Identifier: BSD-3-Clause */
#include "regmem.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

struct piece { /* what a free one begins with */
        struct piece *next;
};

/* Stands in the page before its memory, which is aligned to its size: so a piece finds it. */
struct slab {
        struct verbs_mr mr;
        void *map;
        size_t map_bytes;
        unsigned class, pieces, used, fresh; /* fresh: were never lent since it has this class */
        struct piece *free;
        struct slab *next_open, **link; /* link: in an open list, or NULL */
        struct slab *next, **all;
};

static unsigned class_of(uint64_t bytes)
{
        return (unsigned)__builtin_ctzll(bytes) - REGMEM_MIN_SHIFT;
}

static uint64_t bytes_of(unsigned class)
{
        return UINT64_C(1) << (REGMEM_MIN_SHIFT + class);
}

static uint64_t slab_bytes(uint64_t piece)
{
        return piece > REGMEM_SLAB ? piece : REGMEM_SLAB;
}

static uint8_t *memory_of(const struct slab *s)
{
        return s->mr.addr;
}

static struct slab *slab_of(const void *piece, uint64_t bytes)
{
        uintptr_t base = (uintptr_t)piece & ~(uintptr_t)(slab_bytes(bytes) - 1);

        return (struct slab *)(base - PAGE);
}

/* --- lists ------------------------------------------------------------------------------------ */

static void open_slab(struct slab **list, struct slab *s)
{
        s->next_open = *list;
        s->link = list;
        if (s->next_open)
                s->next_open->link = &s->next_open;
        *list = s;
}

static void close_slab(struct slab *s)
{
        *s->link = s->next_open;
        if (s->next_open)
                s->next_open->link = s->link;
        s->link = NULL;
}

/* --- slabs ------------------------------------------------------------------------------------ */

/* `bytes` aligned to that, with a page before them. */
static struct slab *map_slab(size_t bytes)
{
        size_t all = 2 * bytes + PAGE;
        void *map = mmap(NULL, all, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        uintptr_t base;
        struct slab *s;

        if (map == MAP_FAILED)
                return NULL;
        base = ((uintptr_t)map + PAGE + bytes - 1) & ~(uintptr_t)(bytes - 1);
        madvise((void *)base, bytes, MADV_HUGEPAGE); /* or not: costs the device's table entries */
        s = (struct slab *)(base - PAGE);
        s->map = map;
        s->map_bytes = all;
        s->mr.addr = (void *)base;
        return s;
}

static void set_class(struct regmem *m, struct slab *s, unsigned class)
{
        s->class = class;
        s->pieces = (unsigned)(s->mr.len / bytes_of(class));
        s->used = s->fresh = 0;
        s->free = NULL;
        open_slab(&m->open[class], s);
}

static struct slab *new_slab(struct regmem *m, uint64_t piece)
{
        size_t bytes = slab_bytes(piece);
        struct slab *s = map_slab(bytes);

        if (!s)
                return NULL;
        if (verbs_reg(m->domain, memory_of(s), bytes, 0, &s->mr) < 0) {
                munmap(s->map, s->map_bytes);
                return NULL;
        }
        s->next = m->slabs;
        s->all = &m->slabs;
        if (s->next)
                s->next->all = &s->next;
        m->slabs = s;
        return s;
}

static void drop_slab(struct regmem *m, struct slab *s)
{
        *s->all = s->next;
        if (s->next)
                s->next->all = s->all;
        if (m->domain)
                verbs_dereg(m->domain, &s->mr);
        munmap(s->map, s->map_bytes);
}

/* One that is free is as good as a new one. */
static struct slab *slab_for(struct regmem *m, unsigned class)
{
        struct slab *s = m->open[class];

        if (s)
                return s;
        s = bytes_of(class) <= REGMEM_SLAB ? m->idle : NULL;
        if (s)
                close_slab(s);
        else
                s = new_slab(m, bytes_of(class));
        if (s)
                set_class(m, s, class);
        return s;
}

/* Large ones go at once: hardly anybody wants the same again. */
static void retire(struct regmem *m, struct slab *s)
{
        if (s->link)
                close_slab(s);
        if (s->mr.len > REGMEM_SLAB)
                drop_slab(m, s);
        else
                open_slab(&m->idle, s);
}

/* --- pieces ----------------------------------------------------------------------------------- */

void regmem_init(struct regmem *m, struct verbs_domain *d)
{
        *m = (struct regmem) { .domain = d };
}

void regmem_fini(struct regmem *m)
{
        while (m->slabs)
                drop_slab(m, m->slabs);
        *m = (struct regmem) { .domain = m->domain };
}

void *regmem_get(struct regmem *m, uint64_t bytes)
{
        struct slab *s = slab_for(m, class_of(bytes));
        struct piece *p;

        if (!s)
                return NULL;
        p = s->free;
        if (p)
                s->free = p->next;
        else
                p = (struct piece *)(void *)(memory_of(s) + s->fresh++ * bytes);
        if (++s->used == s->pieces)
                close_slab(s);
        return p;
}

void regmem_put(struct regmem *m, void *piece, uint64_t bytes)
{
        struct slab *s = slab_of(piece, bytes);
        struct piece *p = piece;

        p->next = s->free;
        s->free = p;
        if (s->used-- == s->pieces)
                open_slab(&m->open[s->class], s);
        if (s->used == 0)
                retire(m, s);
}

void regmem_trim(struct regmem *m, unsigned keep)
{
        struct slab *s = m->idle, *next;

        for (; s; s = next) {
                next = s->next_open;
                if (keep > 0) {
                        keep--;
                        continue;
                }
                close_slab(s);
                drop_slab(m, s);
        }
}

uint32_t regmem_key(const void *piece, uint64_t bytes)
{
        return slab_of(piece, bytes)->mr.lkey;
}
