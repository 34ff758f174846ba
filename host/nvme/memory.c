/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
        PAGE = 4096,
        STAGE_MIN = 4096,
        SLAB = 64 * 1024, /* bytes of a slab at least */
};

/* --- regions ---------------------------------------------------------------------------------- */

void memory_init(struct memory *m, struct verbs_domain *domain)
{
        *m = (struct memory) { .domain = domain };
}

static void drop(struct memory *m, struct region **at)
{
        struct region *r = *at;

        *at = r->next;
        verbs_dereg(m->domain, &r->mr);
        if (r->own)
                free(r->mr.addr);
        free(r);
}

void memory_fini(struct memory *m)
{
        while (m->regions)
                drop(m, &m->regions);
        while (m->slabs) {
                struct stage_slab *slab = m->slabs;

                m->slabs = slab->next;
                free(slab);
        }
}

static struct region *add(struct memory *m, void *base, size_t len)
{
        struct region *r = calloc(1, sizeof(*r));

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

int memory_add(struct memory *m, void *base, size_t len)
{
        return add(m, base, len) ? 0 : -1;
}

void memory_drop(struct memory *m, const void *base)
{
        for (struct region **at = &m->regions; *at; at = &(*at)->next) {
                if ((*at)->mr.addr == base) {
                        drop(m, at);
                        return;
                }
        }
}

void *memory_own(struct memory *m, size_t len, uint32_t *lkey)
{
        void *p = aligned_alloc(PAGE, (len + PAGE - 1) & ~(size_t)(PAGE - 1));
        struct region *r;

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

const struct verbs_mr *memory_find(struct memory *m, const void *data, uint32_t len)
{
        for (struct region **at = &m->regions; *at; at = &(*at)->next) {
                struct region *r = *at;

                if (!holds(&r->mr, data, len))
                        continue;
                *at = r->next;
                r->next = m->regions;
                m->regions = r;
                return &r->mr;
        }
        return NULL;
}

/* --- stages ----------------------------------------------------------------------------------- */

static size_t class_bytes(unsigned class)
{
        return (size_t)STAGE_MIN << class;
}

static unsigned class_of(uint32_t len)
{
        unsigned class = 0;

        while (class_bytes(class) < len)
                class ++;
        return class;
}

static int add_slab(struct memory *m, unsigned class)
{
        size_t each = class_bytes(class), count = each < SLAB ? SLAB / each : 1;
        struct stage_slab *slab = calloc(1, sizeof(*slab) + count * sizeof(slab->stages[0]));
        uint32_t lkey;
        uint8_t *data = slab ? memory_own(m, each * count, &lkey) : NULL;

        if (!data) {
                free(slab);
                return -1;
        }
        slab->next = m->slabs;
        m->slabs = slab;
        for (size_t i = 0; i < count; i++) {
                slab->stages[i] =
                    (struct stage) { .data = data + i * each, .class = class, .memory = m };
                stage_put(&slab->stages[i]);
        }
        return 0;
}

struct stage *stage_get(struct memory *m, uint32_t len)
{
        unsigned class = class_of(len);
        struct stage *s;

        if (class >= STAGE_CLASSES) {
                errno = EMSGSIZE;
                return NULL;
        }
        if (!m->free[class] && add_slab(m, class) < 0)
                return NULL;
        s = m->free[class];
        m->free[class] = s->next;
        return s;
}

void stage_put(struct stage *s)
{
        s->next = s->memory->free[s->class];
        s->memory->free[s->class] = s;
}
