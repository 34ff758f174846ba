/* SPDX-License-Identifier: BSD-3-Clause */
#include "tags.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct tag_place {
        uint16_t tag;
        uint16_t slot; /* + 1; 0: nobody here */
};

static uint32_t places_for(unsigned slots)
{
        uint32_t n = 4;

        while (n < slots * 4)
                n *= 2;
        return n;
}

static uint32_t next(const struct tags *t, uint32_t i)
{
        return (i + 1) & t->mask;
}

/*
 * Peers count their tags up, some with a generation above: the low bits are the best hash. Homes
 * are two places apart, as a full queue would otherwise be one run without a gap, which each
 * removal would have to walk to its end.
 */
static uint32_t home_of(const struct tags *t, uint16_t tag)
{
        return (uint32_t)tag << 1 & t->mask;
}

/* Where the tag is, or the empty place where its search ends. */
static uint32_t seek(const struct tags *t, uint16_t tag)
{
        uint32_t i = home_of(t, tag);

        while (t->places[i].slot > 0 && t->places[i].tag != tag)
                i = next(t, i);
        return i;
}

int tags_init(struct tags *t, unsigned slots)
{
        *t = (struct tags) { 0 };
        return tags_grow(t, slots);
}

void tags_fini(struct tags *t)
{
        free(t->places);
        free(t->free);
        *t = (struct tags) { 0 };
}

static void rehash(struct tags *t, const struct tag_place *old, uint32_t n)
{
        while (n-- > 0)
                if (old[n].slot > 0)
                        t->places[seek(t, old[n].tag)] = old[n];
}

/* New ones are taken from low to high, after those that were free before. */
static void add_free(struct tags *t, uint16_t *list, unsigned slots)
{
        unsigned n = 0;

        for (unsigned i = slots; i-- > t->slots;)
                list[n++] = (uint16_t)i;
        if (t->left > 0)
                memcpy(list + n, t->free, t->left * sizeof(*list));
        t->left += n;
        free(t->free);
        t->free = list;
}

int tags_grow(struct tags *t, unsigned slots)
{
        struct tag_place *places, *old = t->places;
        uint32_t n = old ? t->mask + 1 : 0;
        uint16_t *list;

        slots = slots < TAGS_MAX ? slots : TAGS_MAX;
        if (slots <= t->slots)
                return 0;
        places = calloc(places_for(slots), sizeof(*places));
        list = malloc(slots * sizeof(*list));
        if (!places || !list) {
                free(places);
                free(list);
                return -1;
        }
        t->places = places;
        t->mask = places_for(slots) - 1;
        rehash(t, old, n);
        free(old);
        add_free(t, list, slots);
        t->slots = slots;
        return 0;
}

int tags_find(const struct tags *t, uint16_t tag)
{
        return t->places[seek(t, tag)].slot - 1;
}

int tags_add(struct tags *t, uint16_t tag)
{
        int slot;

        if (t->left == 0)
                return TAGS_NONE;
        slot = t->free[--t->left];
        t->places[seek(t, tag)] = (struct tag_place) { tag, (uint16_t)(slot + 1) };
        t->used++;
        return slot;
}

/* Whether a tag at `from`, whose search begins at `home`, would still be found at `to`. */
static bool may_move(const struct tags *t, uint32_t home, uint32_t from, uint32_t to)
{
        return ((from - home) & t->mask) >= ((from - to) & t->mask);
}

/* Those that follow without a gap move up, so that no search stops at the place left empty. */
static void close_gap(struct tags *t, uint32_t gap)
{
        for (uint32_t i = next(t, gap); t->places[i].slot > 0; i = next(t, i)) {
                if (!may_move(t, home_of(t, t->places[i].tag), i, gap))
                        continue;
                t->places[gap] = t->places[i];
                gap = i;
        }
        t->places[gap] = (struct tag_place) { 0, 0 };
}

int tags_remove(struct tags *t, uint16_t tag)
{
        uint32_t i = seek(t, tag);
        int slot = t->places[i].slot - 1;

        if (slot < 0)
                return TAGS_NONE;
        t->used--;
        close_gap(t, i);
        return slot;
}

void tags_free(struct tags *t, int slot)
{
        if (slot >= 0)
                t->free[t->left++] = (uint16_t)slot;
}
