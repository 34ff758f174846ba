/* SPDX-License-Identifier: BSD-3-Clause */
/* What a campaign mutates: sequences that showed something new, each in as little room as it needs. */
#ifndef NVMF_FUZZ_SEEDS_H
#define NVMF_FUZZ_SEEDS_H

#include "sequence.h"

enum { SEEDS_MAX = 1 << 16 }; /* as many as a map of novelty lets come */

struct seed {
        uint64_t since;        /* the first run that may use it */
        bool whole;            /* it was played to its end: the controller did not close */
        struct sequence *head; /* without its steps; they and its pool are behind it */
};

struct seeds {
        struct seed *at; /* n of them, `since` ascending */
        unsigned n, room;
};

/* A copy. False: there is no memory, or no room. */
bool seeds_add(struct seeds *s, const struct sequence *sequence, uint64_t since, bool whole);
void seeds_get(const struct seeds *s, unsigned i, struct sequence *out);
/* The first so many may be used by this run. */
unsigned seeds_usable(const struct seeds *s, uint64_t run);
/* One of the first n, new ones and whole ones more often. */
void seeds_pick(const struct seeds *s, unsigned n, uint64_t *seed, struct sequence *out);
void seeds_free(struct seeds *s);

#endif
