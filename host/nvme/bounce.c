/* SPDX-License-Identifier: BSD-3-Clause */
#include "bounce.h"

#include <errno.h>
#include <stdlib.h>

enum {
        BOUNCE_MIN = 4096,
        SLAB = 64 * 1024, /* bytes of a slab at least */
};

void bounces_fini(struct bounces *m)
{
        while (m->slabs) {
                struct bounce_slab *slab = m->slabs;

                m->slabs = slab->next;
                free(slab);
        }
}

static size_t class_bytes(unsigned class)
{
        return (size_t)BOUNCE_MIN << class;
}

static unsigned class_of(uint32_t len)
{
        unsigned class = 0;

        while (class_bytes(class) < len)
                class ++;
        return class;
}

static int add_slab(struct bounces *m, unsigned class)
{
        size_t each = class_bytes(class), count = each < SLAB ? SLAB / each : 1;
        struct bounce_slab *slab = calloc(1, sizeof(*slab) + count * sizeof(slab->bounces[0]));
        uint32_t lkey;
        uint8_t *data = slab ? rdma_memory_own(m->memory, each * count, &lkey) : NULL;

        if (!data) {
                free(slab);
                return -1;
        }
        slab->next = m->slabs;
        m->slabs = slab;
        for (size_t i = 0; i < count; i++) {
                slab->bounces[i] =
                    (struct bounce) { .data = data + i * each, .class = class, .of = m };
                bounce_put(&slab->bounces[i]);
        }
        return 0;
}

struct bounce *bounce_get(struct bounces *m, uint32_t len)
{
        unsigned class = class_of(len);
        struct bounce *s;

        if (class >= BOUNCE_CLASSES) {
                errno = EMSGSIZE;
                return NULL;
        }
        if (!m->free[class] && add_slab(m, class) < 0)
                return NULL;
        s = m->free[class];
        m->free[class] = s->next;
        return s;
}

void bounce_put(struct bounce *s)
{
        s->next = s->of->free[s->class];
        s->of->free[s->class] = s;
}
