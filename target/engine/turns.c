/* SPDX-License-Identifier: BSD-3-Clause */
#include "turns.h"

#include <stdbool.h>

enum {
        REMEMBERED = 1000, /* turns: who has come once is likely to come again */
        LEAST = 4,         /* of a part: one by one they cost more */
        ALONE = 4, /* times as much has a share that is alone, and each part of it at least */
        LEAST_ALONE = 16,
};

static unsigned larger(unsigned a, unsigned b)
{
        return a > b ? a : b;
}

/* Whether others have asked as well. */
static bool is_contested(struct turns *t, const struct turn_share *s)
{
        if (t->last && t->last != s)
                t->changed = t->now;
        t->last = s;
        return t->changed > 0 && t->now - t->changed < REMEMBERED;
}

/* A turn in which few parts ask does not make it forget the many at once. */
static void begin_turn(struct turn_share *s, uint64_t now, unsigned most)
{
        uint64_t idle = now - s->turn;

        if (idle == 0)
                return;
        s->asked = larger(s->asking, s->asked / 2);
        s->asked >>= idle < 32 ? idle - 1 : 31;
        s->asking = 0;
        s->turn = now;
        s->rounds += most > 0;
}

static void begin_part(struct turn_share *s, struct turn_part *p)
{
        if (p->share == s && p->turn == s->turn)
                return;
        if (p->share != s)
                p->place = ++s->parts;
        p->share = s;
        p->turn = s->turn;
        p->taken = 0;
        s->asking++;
}

/* Of `most` for so many parts, in the round that is this part's. */
static unsigned part_of(uint64_t round, unsigned parts, unsigned most)
{
        unsigned least = most < LEAST ? most : LEAST;

        if (parts <= most / least)
                return most / parts;
        return round % ((parts * least + most - 1) / most) == 0 ? least : 0;
}

unsigned turn_ask(struct turns *t, struct turn_share *s, struct turn_part *p, unsigned most)
{
        bool contested = is_contested(t, s);
        unsigned parts, part;

        begin_turn(s, t->now, most);
        begin_part(s, p);
        parts = larger(larger(s->asked, s->asking), 1);
        if (most == 0)
                return 0;
        if (contested)
                part = part_of(s->rounds + p->place, parts, most);
        else
                part = larger(most * ALONE / parts, LEAST_ALONE);
        return part > p->taken ? part - p->taken : 0;
}
