/* SPDX-License-Identifier: BSD-3-Clause */
#include "extents.h"

#include <stdlib.h>
#include <string.h>

void extents_fini(struct extents *e)
{
        free(e->at);
        *e = (struct extents) { 0 };
}

/* The first interval that ends at or behind n. */
static unsigned find(const struct extents *e, uint64_t n)
{
        unsigned lo = 0, hi = e->count;

        while (lo < hi) {
                unsigned mid = lo + (hi - lo) / 2;

                if (e->at[mid].to < n)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return lo;
}

static bool grow(struct extents *e)
{
        unsigned cap = e->cap > 0 ? e->cap * 2 : 16;
        struct extent *at;

        if (e->count < e->cap)
                return true;
        at = cap <= EXTENTS_MAX ? realloc(e->at, cap * sizeof(*at)) : NULL;
        if (!at)
                return false;
        e->at = at;
        e->cap = cap;
        return true;
}

/* Intervals [first, last) give way to the n at `by`. */
static bool replace(struct extents *e, unsigned first, unsigned last, const struct extent *by,
                    unsigned n)
{
        if (n > last - first && !grow(e)) /* by one at most */
                return false;
        memmove(e->at + first + n, e->at + last, (e->count - last) * sizeof(*by));
        memcpy(e->at + first, by, n * sizeof(*by));
        e->count = e->count + n - (last - first);
        return true;
}

bool extents_add(struct extents *e, uint64_t from, uint64_t to)
{
        unsigned first = find(e, from), last = first;
        struct extent whole = { from, to };

        while (last < e->count && e->at[last].from <= to)
                last++;
        if (last > first) {
                if (e->at[first].from < from)
                        whole.from = e->at[first].from;
                if (e->at[last - 1].to > to)
                        whole.to = e->at[last - 1].to;
        }
        return replace(e, first, last, &whole, 1);
}

bool extents_remove(struct extents *e, uint64_t from, uint64_t to)
{
        unsigned first = find(e, from + 1), last = first, n = 0;
        struct extent rest[2];

        while (last < e->count && e->at[last].from < to)
                last++;
        if (last == first)
                return true;
        if (e->at[first].from < from)
                rest[n++] = (struct extent) { e->at[first].from, from };
        if (e->at[last - 1].to > to)
                rest[n++] = (struct extent) { to, e->at[last - 1].to };
        return replace(e, first, last, rest, n);
}

bool extents_touch(const struct extents *e, uint64_t from, uint64_t to)
{
        unsigned i = find(e, from + 1);

        return i < e->count && e->at[i].from < to;
}
