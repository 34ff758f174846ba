/* SPDX-License-Identifier: BSD-3-Clause */
#include "seeds.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/rng.h"

enum {
        FRESH = 64,
        TRIES = 3,
        BY_WORD = 5 /* of eighths */,
        HEAD = offsetof(struct sequence, step)
};

static size_t steps_of(const struct sequence *s)
{
        return s->steps * sizeof(s->step[0]);
}

bool seeds_add(struct seeds *s, const struct sequence *sequence, uint64_t since, bool whole)
{
        size_t steps = steps_of(sequence);
        uint8_t *p;

        if (s->n == s->room) {
                unsigned room = s->room ? 2 * s->room : 256;
                struct seed *at = s->n < SEEDS_MAX ? realloc(s->at, room * sizeof(*at)) : NULL;

                if (!at)
                        return false;
                s->at = at;
                s->room = room;
        }
        p = malloc(HEAD + steps + sizeof(uint16_t) + sequence->pooled);
        if (!p)
                return false;
        memcpy(p, sequence, HEAD + steps);
        memcpy(p + HEAD + steps, &sequence->pooled, sizeof(uint16_t));
        memcpy(p + HEAD + steps + sizeof(uint16_t), sequence->pool, sequence->pooled);
        s->at[s->n++] =
            (struct seed) { .since = since, .whole = whole, .head = (struct sequence *)(void *)p };
        return true;
}

void seeds_heard(struct seeds *s, const uint32_t *word, unsigned n)
{
        struct seed *last = &s->at[s->n - 1];

        last->word = malloc(n * sizeof(*last->word));
        if (!last->word)
                return;
        last->words = (uint8_t)n;
        for (unsigned i = 0; i < n; i++)
                last->word[i] = (uint16_t)(word[i] % SEEDS_WORDS);
}

/* --- which of them ------------------------------------------------------------------------------ */

static void rank_word(struct seeds *s, uint16_t word, unsigned seed)
{
        unsigned steps = s->at[seed].head->steps;
        struct seed_top *t;

        if (s->place[word] == 0) { /* counted from 1 */
                s->top[s->tops] = (struct seed_top) { UINT16_MAX, seed };
                s->place[word] = (uint16_t)++s->tops;
        }
        t = &s->top[s->place[word] - 1];
        if (steps >= t->steps)
                return;
        t->steps = (uint16_t)steps;
        t->seed = seed;
}

/* Only what this run may know of: which sequence is which word's is the same every time. */
static void rank(struct seeds *s, unsigned n)
{
        if (!s->top) {
                s->top = calloc(SEEDS_WORDS, sizeof(*s->top));
                s->place = calloc(SEEDS_WORDS, sizeof(*s->place));
        }
        for (; s->top && s->place && s->ranked < n; s->ranked++)
                for (unsigned i = 0; s->at[s->ranked].whole && i < s->at[s->ranked].words; i++)
                        rank_word(s, s->at[s->ranked].word[i], s->ranked);
}

void seeds_get(const struct seeds *s, unsigned i, struct sequence *out)
{
        const uint8_t *p = (const void *)s->at[i].head;
        size_t steps = steps_of(s->at[i].head);

        memcpy(out, p, HEAD + steps);
        memcpy(&out->pooled, p + HEAD + steps, sizeof(uint16_t));
        memcpy(out->pool, p + HEAD + steps + sizeof(uint16_t), out->pooled);
}

unsigned seeds_usable(const struct seeds *s, uint64_t run)
{
        unsigned n = s->n;

        while (n > 1 && s->at[n - 1].since > run)
                n--;
        return n;
}

/* Mutants of what the controller closed early seldom come further. */
static unsigned any_seed(const struct seeds *s, unsigned n, uint64_t *seed)
{
        unsigned among = n > FRESH && fuzz_random(seed) % 2 ? FRESH : n, i = 0;

        for (unsigned tries = 0; tries < TRIES; tries++) {
                i = n - 1 - fuzz_random(seed) % among;
                if (s->at[i].whole)
                        break;
                among = n;
        }
        return i;
}

void seeds_pick(struct seeds *s, unsigned n, uint64_t *seed, struct sequence *out)
{
        rank(s, n);
        if (s->tops > 0 && fuzz_random(seed) % 8 < BY_WORD)
                seeds_get(s, s->top[fuzz_random(seed) % s->tops].seed, out);
        else
                seeds_get(s, any_seed(s, n, seed), out);
}

static void free_seeds(struct seeds *s, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                free(s->at[i].head);
                free(s->at[i].word);
        }
}

void seeds_drop(struct seeds *s, unsigned n)
{
        if (n == 0)
                return;
        free_seeds(s, n);
        s->n -= n;
        memmove(s->at, s->at + n, s->n * sizeof(*s->at));
}

void seeds_free(struct seeds *s)
{
        free_seeds(s, s->n);
        free(s->at);
        free(s->top);
        free(s->place);
        *s = (struct seeds) { 0 };
}
