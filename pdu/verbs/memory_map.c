/* SPDX-License-Identifier: BSD-3-Clause */
/* Open addressing with linear probing, at a load of at most one half. */
#include "memory_own.h"

struct map_place {
        uint64_t key;
        void *value; /* NULL: nobody here */
};

static uint32_t home_of(const struct memory_map *m, uint64_t key)
{
        return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & m->mask;
}

static uint32_t seek(const struct memory_map *m, uint64_t key)
{
        uint32_t i = home_of(m, key);

        while (m->places[i].value && m->places[i].key != key)
                i = (i + 1) & m->mask;
        return i;
}

static int grow(struct memory_map *m)
{
        uint32_t n = m->places ? m->mask + 1 : 0;
        struct memory_map bigger = { .mask = n ? 2 * n - 1 : 63, .used = m->used };

        bigger.places = calloc((size_t)bigger.mask + 1, sizeof(*bigger.places));
        if (!bigger.places)
                return -1;
        for (uint32_t i = 0; i < n; i++)
                if (m->places[i].value)
                        bigger.places[seek(&bigger, m->places[i].key)] = m->places[i];
        free(m->places);
        *m = bigger;
        return 0;
}

int map_put(struct memory_map *m, uint64_t key, void *value)
{
        if ((!m->places || 2 * (m->used + 1) > m->mask) && grow(m) < 0)
                return -1;
        m->places[seek(m, key)] = (struct map_place) { key, value };
        m->used++;
        return 0;
}

void *map_get(const struct memory_map *m, uint64_t key)
{
        return m->places ? m->places[seek(m, key)].value : NULL;
}

/* Those that follow without a gap move up, so that no search stops at the place left empty. */
void map_remove(struct memory_map *m, uint64_t key)
{
        uint32_t gap = seek(m, key), home;

        if (!m->places[gap].value)
                return;
        m->used--;
        for (uint32_t i = (gap + 1) & m->mask; m->places[i].value; i = (i + 1) & m->mask) {
                home = home_of(m, m->places[i].key);
                if (((i - home) & m->mask) < ((i - gap) & m->mask))
                        continue;
                m->places[gap] = m->places[i];
                gap = i;
        }
        m->places[gap].value = NULL;
}

void *map_next(const struct memory_map *m, uint32_t *at)
{
        while (m->places && *at <= m->mask) {
                void *value = m->places[(*at)++].value;

                if (value)
                        return value;
        }
        return NULL;
}

void map_fini(struct memory_map *m)
{
        free(m->places);
        *m = (struct memory_map) { 0 };
}

void fifo_sift(struct fifo *f, bool (*keep)(struct chained *c, void *arg), void *arg)
{
        struct fifo kept = { 0 };
        struct chained *c;

        while ((c = fifo_pop(f)))
                if (keep(c, arg))
                        fifo_push(&kept, c);
        *f = kept;
}
