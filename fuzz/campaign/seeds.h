/* SPDX-License-Identifier: BSD-3-Clause */
/* What a campaign mutates: sequences that showed something new, each in as little room as it needs. */
#ifndef NVMF_FUZZ_SEEDS_H
#define NVMF_FUZZ_SEEDS_H

#include "fuzz/sequence/sequence.h"

enum {
        SEEDS_MAX = 1 << 16, /* as many as a map of novelty lets come */
        SEEDS_WORDS = 4096,  /* that are told apart */
};

struct seed {
        uint64_t since;        /* the first run that may use it */
        bool whole;            /* it was played to its end: the controller did not close */
        uint8_t words;         /* that the controller said */
        uint16_t *word;        /* below SEEDS_WORDS; NULL: none */
        struct sequence *head; /* without its steps; they and its pool are after it */
};

struct seeds {
        struct seed *at; /* n of them, `since` ascending */
        unsigned n, room;

        /* Of each word that was heard the shortest whole sequence that had it said. */
        struct seed_top {
                uint16_t steps;
                uint32_t seed;
        } * top;               /* tops of them; of word w: top[place[w] - 1] */
        uint16_t *place;       /* 0: not heard yet */
        unsigned tops, ranked; /* the first so many seeds are in */
};

/* A copy. False: there is no memory, or no room. */
bool seeds_add(struct seeds *s, const struct sequence *sequence, uint64_t since, bool whole);
/* What the controller said to the one that was added last: n words, of any size, at most 255. */
void seeds_heard(struct seeds *s, const uint32_t *word, unsigned n);
/* The i-th, from 0. */
void seeds_get(const struct seeds *s, unsigned i, struct sequence *out);
/* The first so many may be used by this run. */
unsigned seeds_usable(const struct seeds *s, uint64_t run);
/* One of the first n: that of a word, each as often as the other, or any, new ones and whole ones more
 * often. */
void seeds_pick(struct seeds *s, unsigned n, uint64_t *seed, struct sequence *out);
/* Without the first n, of which nothing was picked yet. */
void seeds_drop(struct seeds *s, unsigned n);
void seeds_free(struct seeds *s);

#endif
