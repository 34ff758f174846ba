/* SPDX-License-Identifier: BSD-3-Clause */
#include "marks.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = 64, WORDS = MARKS_A_PAGE / WORD, EIGHT = 3 /* shift of a group */ };

struct marks_page {
        uint64_t number; /* of the page: of its first bit / MARKS_A_PAGE */
        uint64_t *bits;
        uint32_t whole[2]; /* as those of the set, of this page; never 0, but while it is changed */
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

/* The words that have bits of [from, to), which has some of the page: the first of them, and their end. */
static unsigned first_word(const struct marks_page *p, uint64_t from)
{
        uint64_t base = p->number * MARKS_A_PAGE;

        return from > base ? (unsigned)((from - base) / WORD) : 0;
}

static unsigned end_word(const struct marks_page *p, uint64_t to)
{
        uint64_t base = p->number * MARKS_A_PAGE;

        return to < base + MARKS_A_PAGE ? (unsigned)((to - base + WORD - 1) / WORD) : WORDS;
}

/* Of each group the first bit stands for all of it. */
static unsigned whole_groups(uint64_t bits, unsigned shift)
{
        for (unsigned k = 0; k < shift; k++)
                bits &= bits >> (1U << k);
        return (unsigned)__builtin_popcountll(bits &
                                              UINT64_MAX / ((UINT64_C(1) << (1U << shift)) - 1));
}

static void page_count(struct marks *m, struct marks_page *p, const uint32_t whole[2])
{
        for (unsigned k = 0; k < 2; k++) {
                m->whole[k] += whole[k];
                m->whole[k] -= p->whole[k];
                p->whole[k] = whole[k];
        }
}

/* Of pages first to end - 1. */
static void drop_empty(struct marks *m, unsigned first, unsigned end)
{
        unsigned kept = first;

        for (unsigned i = first; i < end; i++)
                if (m->page[i].whole[0] == 0)
                        free(m->page[i].bits);
                else
                        m->page[kept++] = m->page[i];
        if (kept < end)
                memmove(m->page + kept, m->page + end, (m->count - end) * sizeof(*m->page));
        m->count -= end - kept;
}

static void set(struct marks *m, struct marks_page *p, uint64_t from, uint64_t to, bool in)
{
        static const uint32_t all[2][2] = { { 0, 0 }, { MARKS_A_PAGE, MARKS_A_PAGE >> EIGHT } };
        uint64_t base = p->number * MARKS_A_PAGE, old;
        uint32_t whole[2] = { p->whole[0], p->whole[1] };

        if (from <= base && to >= base + MARKS_A_PAGE) {
                memset(p->bits, in ? 0xff : 0, WORDS * sizeof(*p->bits));
                page_count(m, p, all[in]);
                return;
        }
        for (unsigned w = first_word(p, from), end = end_word(p, to); w < end; w++) {
                old = p->bits[w];
                p->bits[w] = in ? old | mask(p, w, from, to) : old & ~mask(p, w, from, to);
                whole[0] += whole_groups(p->bits[w], 0) - whole_groups(old, 0);
                whole[1] += whole_groups(p->bits[w], EIGHT) - whole_groups(old, EIGHT);
        }
        page_count(m, p, whole);
}

void marks_remove(struct marks *m, uint64_t from, uint64_t to)
{
        unsigned first = find(m, page_of(from)), end = first;

        for (; end < m->count && m->page[end].number <= page_of(to - 1); end++)
                set(m, &m->page[end], from, to, false);
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
        page[at] = (struct marks_page) { .number = number, .bits = bits };
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
                set(m, &m->page[i], from, to, true);
        return true;
}

bool marks_cover(const struct marks *m, uint64_t from, uint64_t to)
{
        unsigned i = find(m, page_of(from));

        for (uint64_t n = page_of(from); n <= page_of(to - 1); n++, i++) {
                if (i == m->count || m->page[i].number != n)
                        return false;
                for (unsigned w = first_word(&m->page[i], from), end = end_word(&m->page[i], to);
                     w < end; w++)
                        if (~m->page[i].bits[w] & mask(&m->page[i], w, from, to))
                                return false;
        }
        return true;
}

bool marks_touch(const struct marks *m, uint64_t from, uint64_t to)
{
        for (unsigned i = find(m, page_of(from));
             i < m->count && m->page[i].number <= page_of(to - 1); i++)
                for (unsigned w = first_word(&m->page[i], from), end = end_word(&m->page[i], to);
                     w < end; w++)
                        if (m->page[i].bits[w] & mask(&m->page[i], w, from, to))
                                return true;
        return false;
}

/* The first number of the page from `from` on that is in it, or (in: false) is not; the end of the page: none. */
static uint64_t page_next(const struct marks_page *p, uint64_t from, bool in)
{
        uint64_t base = p->number * MARKS_A_PAGE, flip = in ? 0 : UINT64_MAX;
        unsigned w = (unsigned)((from - base) / WORD);
        uint64_t bits = (p->bits[w] ^ flip) & UINT64_MAX << from % WORD;

        if (!in && p->whole[0] == MARKS_A_PAGE)
                return base + MARKS_A_PAGE;
        while (!bits && ++w < WORDS)
                bits = p->bits[w] ^ flip;
        return base + (uint64_t)w * WORD + (bits ? (unsigned)__builtin_ctzll(bits) : 0);
}

uint64_t marks_next(const struct marks *m, uint64_t from, uint64_t to, bool in)
{
        for (unsigned i = find(m, page_of(from)); from < to; i++) {
                const struct marks_page *p = &m->page[i];

                if (i == m->count)
                        return in ? to : from;
                if (p->number != page_of(from) && !in)
                        return from;
                if (p->number != page_of(from))
                        from = p->number * MARKS_A_PAGE;
                from = page_next(p, from, in);
                if (page_of(from) == p->number)
                        break;
        }
        return from < to ? from : to;
}

uint64_t marks_groups(const struct marks *m, unsigned shift, uint64_t to)
{
        uint64_t n = m->whole[shift > 0];

        for (unsigned i = find(m, page_of(to)); i < m->count; i++) {
                const struct marks_page *p = &m->page[i];

                n -= p->whole[shift > 0];
                for (unsigned w = 0; p->number == page_of(to) && w < WORDS; w++)
                        n += whole_groups(p->bits[w] & mask(p, w, 0, to), shift);
        }
        return n;
}
