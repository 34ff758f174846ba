/* SPDX-License-Identifier: BSD-3-Clause */
#include "seeds.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { FRESH = 64, TRIES = 3, HEAD = offsetof(struct sequence, step) };

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
        s->at[s->n++] = (struct seed) { since, whole, (struct sequence *)(void *)p };
        return true;
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
void seeds_pick(const struct seeds *s, unsigned n, uint64_t *seed, struct sequence *out)
{
        unsigned among = n > FRESH && fuzz_random(seed) % 2 ? FRESH : n, i = 0;

        for (unsigned tries = 0; tries < TRIES; tries++) {
                i = n - 1 - fuzz_random(seed) % among;
                if (s->at[i].whole)
                        break;
                among = n;
        }
        seeds_get(s, i, out);
}

void seeds_free(struct seeds *s)
{
        for (unsigned i = 0; i < s->n; i++)
                free(s->at[i].head);
        free(s->at);
        *s = (struct seeds) { 0 };
}
