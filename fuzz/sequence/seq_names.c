/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands in a sequence by name: templates, their fields, rules. All are in one hash table that is
 * made before main(): texts of sequences are read many thousand times a second.
 */
#include <ctype.h>
#include <string.h>

#include "sequence.h"

enum { PLACES = 4096, ENTRIES = 64, LISTS = 64 };

enum space { FIELDS, TEMPLATES, RULES_OF };

/* What a name is of: a family's messages of one type, its templates of one side, its rules. */
static unsigned kind_of(const struct fuzz_family *f, enum space space, unsigned transport,
                        unsigned which)
{
        unsigned family = 0;

        while (fuzz_families[family] != f)
                family++;
        return family << 24 | (unsigned)space << 16 | transport << 8 | which;
}

static struct place {
        const char *name; /* NULL: free. "" is that of the list of a kind */
        unsigned kind;
        const void *what;
} places[PLACES];
static unsigned used;

static struct list {
        unsigned n;
        const void *at[ENTRIES + 1]; /* ended by NULL */
} lists[LISTS];
static unsigned n_lists;

static unsigned hash(unsigned kind, const char *name)
{
        unsigned h = (kind + 1) * 0x9e3779b1;

        for (; *name; name++)
                h = h * 0x01000193 ^ (uint8_t)*name;
        return h ^ h >> 15;
}

/* Its place, or the free one where it would be. */
static struct place *place_of(unsigned kind, const char *name)
{
        for (unsigned i = hash(kind, name);; i++) {
                struct place *p = &places[i % PLACES];

                if (!p->name || (p->kind == kind && strcmp(p->name, name) == 0))
                        return p;
        }
}

/* Of two with one name the first counts. */
static bool add(unsigned kind, const char *name, const void *what)
{
        struct place *p = place_of(kind, name);

        if (p->name || used + 1 == PLACES) /* one stays free, so that a search ends */
                return false;
        *p = (struct place) { name, kind, what };
        used++;
        return true;
}

static const struct list *list_of(unsigned kind)
{
        static const struct list none;
        const struct list *l = place_of(kind, "")->what;

        return l ? l : &none;
}

static void add_listed(unsigned kind, const char *name, const void *what)
{
        struct list *l = (struct list *)(uintptr_t)place_of(kind, "")->what;

        if (!l && n_lists < LISTS) {
                l = &lists[n_lists++];
                add(kind, "", l);
        }
        if (l && l->n < ENTRIES && add(kind, name, what))
                l->at[l->n++] = what;
}

/* --- templates, fields, rules ------------------------------------------------------------------- */

const struct seq_template *const *seq_templates(const struct fuzz_family *f, unsigned transport,
                                                enum party side, size_t *n)
{
        const struct list *l = list_of(kind_of(f, TEMPLATES, transport, side));

        *n = l->n;
        return (const struct seq_template *const *)l->at;
}

const struct seq_template *seq_template(const struct fuzz_family *f, unsigned transport,
                                        enum party side, const char *name)
{
        return place_of(kind_of(f, TEMPLATES, transport, side), name)->what;
}

const struct field *const *seq_fields(const struct fuzz_family *f, unsigned transport,
                                      const struct seq_template *t)
{
        return (const struct field *const *)list_of(kind_of(f, FIELDS, transport, t->type))->at;
}

const struct field *seq_field(const struct fuzz_family *f, unsigned transport,
                              const struct seq_template *t, const char *name)
{
        return place_of(kind_of(f, FIELDS, transport, t->type), name)->what;
}

unsigned seq_rule(const struct fuzz_family *f, const char *id)
{
        return (unsigned)(uintptr_t)place_of(kind_of(f, RULES_OF, 0, 0), id)->what;
}

static void add_fields(const struct fuzz_family *f, unsigned transport,
                       const struct seq_template *t)
{
        const unsigned kind = kind_of(f, FIELDS, transport, t->type);
        const struct field *table[FUZZ_FIELD_TABLES] = { NULL };

        f->fields(transport, t, table);
        for (unsigned i = 0; i < FUZZ_FIELD_TABLES; i++)
                for (const struct field *at = table[i]; at && at->name; at++)
                        add_listed(kind, at->name, at);
        for (unsigned i = 0; i < FUZZ_FIELD_TABLES; i++)
                for (const struct field *at = table[i]; at && at->name; at++)
                        if (strchr(at->name, '.'))
                                add(kind, strchr(at->name, '.') + 1, at);
}

static void add_templates(const struct fuzz_family *f, unsigned transport, enum party side)
{
        const unsigned kind = kind_of(f, TEMPLATES, transport, side);
        const struct seq_template *t;

        for (unsigned n = 0; (t = f->template(transport, side, n)); n++) {
                add_listed(kind, t->name, t);
                add_fields(f, transport, t);
        }
}

__attribute__((constructor)) static void add_names(void)
{
        for (const struct fuzz_family *const *at = fuzz_families; *at; at++) {
                const struct rulebook *rules = (*at)->family->rules;

                for (unsigned i = 0; (*at)->family->transports[i]; i++) {
                        add_templates(*at, i, PARTY_HOST);
                        add_templates(*at, i, PARTY_CONTROLLER);
                }
                for (unsigned rule = 1; rule < rules->count; rule++)
                        add(kind_of(*at, RULES_OF, 0, 0), rulebook_get(rules, rule)->id,
                            (const void *)(uintptr_t)rule);
        }
}

/* --- statuses ----------------------------------------------------------------------------------- */

/* The word that stands for a character of a status's name. */
static char plain(char c)
{
        return c == ' ' ? '_' : (char)tolower((unsigned char)c);
}

void seq_status_name(enum verbs_status status, char name[SEQ_STATUS_NAME])
{
        const char *from = verbs_status_name(status);
        size_t n = 0;

        while (from[n] && n + 1 < SEQ_STATUS_NAME) {
                name[n] = plain(from[n]);
                n++;
        }
        name[n] = '\0';
}

enum verbs_status seq_status(const char *name)
{
        char known[SEQ_STATUS_NAME];

        for (enum verbs_status i = VERBS_SUCCESS + 1; i < VERBS_STATUSES; i++) {
                seq_status_name(i, known);
                if (strcmp(known, name) == 0)
                        return i;
        }
        return VERBS_STATUSES;
}
