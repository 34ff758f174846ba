/* SPDX-License-Identifier: BSD-3-Clause */
#include "marks.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = 64, WORDS = MARKS_A_PAGE / WORD };

struct marks_page {
        uint64_t number; /* of the page: of its first bit / MARKS_A_PAGE */
        uint64_t *bits;
};

void marks_fini(struct marks *m)
{
        for (unsigned i = 0; i < m->count; i++)
                free(m->page[i].bits);
        free(m->page);
        *m = (struct marks) { 0 };
}

/* The first page of at least that number. */
static unsigned find(const struct marks *m, uint64_t number)
{
        unsigned lo = 0, hi = m->count;

        while (lo < hi) {
                unsigned mid = lo + (hi - lo) / 2;

                if (m->page[mid].number < number)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return lo;
}

static uint64_t page_of(uint64_t n)
{
        return n / MARKS_A_PAGE;
}

/* The bits of word w of a page that are in [from, to). */
static uint64_t mask(const struct marks_page *p, unsigned w, uint64_t from, uint64_t to)
{
        uint64_t base = p->number * MARKS_A_PAGE + (uint64_t)w * WORD, bits = UINT64_MAX;

        if (from >= base + WORD || to <= base)
                return 0;
        if (from > base)
                bits &= UINT64_MAX << (from - base);
        if (to < base + WORD)
                bits &= UINT64_MAX >> (base + WORD - to);
        return bits;
}

static bool page_is_empty(const struct marks_page *p)
{
        for (unsigned w = 0; w < WORDS; w++)
                if (p->bits[w])
                        return false;
        return true;
}

/* Of pages first to end - 1. */
static void drop_empty(struct marks *m, unsigned first, unsigned end)
{
        unsigned kept = first;

        if (first == end)
                return;
        for (unsigned i = first; i < end; i++)
                if (page_is_empty(&m->page[i]))
                        free(m->page[i].bits);
                else
                        m->page[kept++] = m->page[i];
        memmove(m->page + kept, m->page + end, (m->count - end) * sizeof(*m->page));
        m->count -= end - kept;
}

static void set(struct marks_page *p, uint64_t from, uint64_t to, bool in)
{
        uint64_t base = p->number * MARKS_A_PAGE;

        if (from <= base && to >= base + MARKS_A_PAGE) {
                memset(p->bits, in ? 0xff : 0, WORDS * sizeof(*p->bits));
                return;
        }
        for (unsigned w = 0; w < WORDS; w++)
                if (in)
                        p->bits[w] |= mask(p, w, from, to);
                else
                        p->bits[w] &= ~mask(p, w, from, to);
}

void marks_remove(struct marks *m, uint64_t from, uint64_t to)
{
        unsigned first = find(m, page_of(from)), end = first;

        for (; end < m->count && m->page[end].number <= page_of(to - 1); end++)
                set(&m->page[end], from, to, false);
        drop_empty(m, first, end);
}

static bool page_make(struct marks *m, unsigned at, uint64_t number)
{
        unsigned cap = m->cap > 0 ? m->cap * 2 : 16;
        struct marks_page *page = m->page;
        uint64_t *bits;

        if (m->count == m->cap) {
                page = realloc(m->page, cap * sizeof(*page));
                if (!page)
                        return false;
                m->page = page;
                m->cap = cap;
        }
        bits = calloc(WORDS, sizeof(*bits));
        if (!bits)
                return false;
        memmove(page + at + 1, page + at, (m->count - at) * sizeof(*page));
        page[at] = (struct marks_page) { number, bits };
        m->count++;
        return true;
}

/* All pages first, so that it is done as a whole or not at all. */
bool marks_add(struct marks *m, uint64_t from, uint64_t to)
{
        uint64_t last = page_of(to - 1), all = last - page_of(from) + 1;
        unsigned first = find(m, page_of(from)), there = find(m, last + 1) - first, i = first;

        if (all - there > MARKS_PAGES_MAX - m->count)
                return false;
        for (uint64_t n = page_of(from); n <= last; n++, i++)
                if ((i == m->count || m->page[i].number != n) && !page_make(m, i, n)) {
                        drop_empty(m, first, i);
                        return false;
                }
        while (i-- > first)
                set(&m->page[i], from, to, true);
        return true;
}

bool marks_cover(const struct marks *m, uint64_t from, uint64_t to)
{
        unsigned i = find(m, page_of(from));

        for (uint64_t n = page_of(from); n <= page_of(to - 1); n++, i++) {
                if (i == m->count || m->page[i].number != n)
                        return false;
                for (unsigned w = 0; w < WORDS; w++)
                        if (~m->page[i].bits[w] & mask(&m->page[i], w, from, to))
                                return false;
        }
        return true;
}

bool marks_touch(const struct marks *m, uint64_t from, uint64_t to)
{
        for (unsigned i = find(m, page_of(from));
             i < m->count && m->page[i].number <= page_of(to - 1); i++)
                for (unsigned w = 0; w < WORDS; w++)
                        if (m->page[i].bits[w] & mask(&m->page[i], w, from, to))
                                return true;
        return false;
}

uint64_t marks_next(const struct marks *m, uint64_t from, uint64_t to, bool in)
{
        while (from < to) {
                unsigned i = find(m, page_of(from));
                uint64_t bits;

                if (i == m->count || m->page[i].number != page_of(from)) {
                        if (!in || i == m->count)
                                return in ? to : from;
                        from = m->page[i].number * MARKS_A_PAGE;
                        continue;
                }
                bits = m->page[i].bits[from % MARKS_A_PAGE / WORD];
                bits = (in ? bits : ~bits) >> from % WORD;
                if (bits) {
                        from += (unsigned)__builtin_ctzll(bits);
                        break;
                }
                from += WORD - from % WORD;
        }
        return from < to ? from : to;
}

/* Of each group the first bit stands for all of it. */
static uint64_t whole_groups(uint64_t bits, unsigned shift)
{
        for (unsigned k = 0; k < shift; k++)
                bits &= bits >> (1U << k);
        return bits & UINT64_MAX / ((UINT64_C(1) << (1U << shift)) - 1);
}

uint64_t marks_groups(const struct marks *m, unsigned shift, uint64_t to)
{
        uint64_t n = 0;

        for (unsigned i = 0; i < m->count; i++)
                for (unsigned w = 0; w < WORDS; w++)
                        n += (unsigned)__builtin_popcountll(
                            whole_groups(m->page[i].bits[w] & mask(&m->page[i], w, 0, to), shift));
        return n;
}
