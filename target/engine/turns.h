/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How those who have work share a turn of their reactor. A host (a share) may have so much in a turn, however many
 * connections (parts) it has; those that ask for work in the turn have equal parts of it, those that are idle none, and
 * cost nothing. Where more ask than have some pieces each, each has some in one of several turns, so that none starves.
 * While no other host asks for anything, parts are larger: then a turn holds up nobody.
 *
 * No clock and no memory of its own: the reactor counts its turns.
 */
#ifndef NVMF_TARGET_TURNS_H
#define NVMF_TARGET_TURNS_H

#include <stdint.h>

struct turn_share;

struct turns {                         /* of a reactor */
        uint64_t now;                  /* from 1 */
        const struct turn_share *last; /* that asked */
        uint64_t changed;              /* when that was another one before; 0: never */
};

struct turn_share {      /* zero at first */
        uint64_t turn;   /* in which it asked last; */
        unsigned asking; /* parts that have asked in that */
        unsigned asked;  /* parts that ask in a turn, by those before */
        unsigned parts;  /* ever */
        uint64_t rounds; /* turns in which it asked and had something */
};

struct turn_part { /* zero at first; it may go from one share to another */
        const struct turn_share *share;
        uint64_t turn;  /* in which it asked last; */
        unsigned taken; /* in that */
        unsigned place; /* among the parts of its share, from 1 */
};

/* A part has work: how many more pieces of it (0: none) it may do in this turn, where its share has `most`. The owner
 * counts in p->taken what it does. `most` may be another one in another turn, also 0. */
unsigned turn_ask(struct turns *t, struct turn_share *s, struct turn_part *p, unsigned most);

#endif
