/* SPDX-License-Identifier: BSD-3-Clause */
#include "psk_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/wipe.h"

struct entry {
        char hostnqn[NQN_MAX + 1], subnqn[NQN_MAX + 1];
        struct generated_psk is; /* psk.len 0: the place is free */
        uint64_t born, dies;     /* ms; born: in the order of their coming */
};

struct psk_store {
        pthread_mutex_t lock;
        uint64_t count; /* that ever came */
        struct entry entries[PSKS_MAX];
};

struct psk_store *psk_store_new(void)
{
        struct psk_store *s = calloc(1, sizeof(*s));

        if (s)
                pthread_mutex_init(&s->lock, NULL);
        return s;
}

void psk_store_free(struct psk_store *s)
{
        if (!s)
                return;
        pthread_mutex_destroy(&s->lock);
        wipe(s, sizeof(*s));
        free(s);
}

#define each_entry(s, e) for (struct entry *e = (s)->entries; e < (s)->entries + PSKS_MAX; e++)

static void discard(struct entry *e)
{
        wipe(e, sizeof(*e));
}

static bool is_of(const struct entry *e, const char *hostnqn, const char *subnqn)
{
        return e->is.psk.len > 0 && strcmp(e->hostnqn, hostnqn) == 0 &&
               strcmp(e->subnqn, subnqn) == 0;
}

/* 3.6.1.4: at the end of its lifetime it is discarded. */
static void discard_dead(struct psk_store *s, uint64_t now)
{
        each_entry(s, e) if (e->is.psk.len > 0 && now >= e->dies) discard(e);
}

static struct entry *older(struct entry *a, struct entry *b)
{
        return !a || b->born < a->born ? b : a;
}

/* A free one; but the oldest of this pair where it has all it may have, and of all where all are taken. */
static struct entry *place_for(struct psk_store *s, const char *hostnqn, const char *subnqn)
{
        struct entry *of_pair = NULL, *oldest = NULL; /* free ones were born at 0 */
        unsigned count = 0;

        each_entry(s, e)
        {
                oldest = older(oldest, e);
                if (!is_of(e, hostnqn, subnqn))
                        continue;
                of_pair = older(of_pair, e);
                count++;
        }
        return count < PSKS_OF_PAIR ? oldest : of_pair;
}

void psk_store_add(struct psk_store *s, const char *hostnqn, const char *subnqn,
                   const struct generated_psk *psk, uint64_t now, uint64_t dies)
{
        struct entry *e;

        pthread_mutex_lock(&s->lock);
        discard_dead(s, now);
        e = place_for(s, hostnqn, subnqn);
        discard(e);
        *e = (struct entry) { .is = *psk, .born = ++s->count, .dies = dies };
        memcpy(e->hostnqn, hostnqn, strnlen(hostnqn, NQN_MAX));
        memcpy(e->subnqn, subnqn, strnlen(subnqn, NQN_MAX));
        pthread_mutex_unlock(&s->lock);
}

static int newest_first(const void *a, const void *b)
{
        const struct entry *const *x = a, *const *y = b;

        return ((*x)->born < (*y)->born) - ((*x)->born > (*y)->born);
}

unsigned psk_store_find(struct psk_store *s, const char *hostnqn, const char *subnqn, uint64_t now,
                        struct generated_psk psks[PSKS_OF_PAIR])
{
        const struct entry *found[PSKS_OF_PAIR];
        unsigned n = 0;

        pthread_mutex_lock(&s->lock);
        discard_dead(s, now);
        each_entry(s, e) if (n < PSKS_OF_PAIR && is_of(e, hostnqn, subnqn)) found[n++] = e;
        qsort(found, n, sizeof(found[0]), newest_first);
        for (unsigned i = 0; i < n; i++)
                psks[i] = found[i]->is;
        pthread_mutex_unlock(&s->lock);
        return n;
}

void psk_store_remove(struct psk_store *s, const struct auth_key *psk)
{
        pthread_mutex_lock(&s->lock);
        each_entry(s, e) if (e->is.psk.len == psk->len &&
                             memcmp(e->is.psk.bytes, psk->bytes, psk->len) == 0) discard(e);
        pthread_mutex_unlock(&s->lock);
}
