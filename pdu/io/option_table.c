/* SPDX-License-Identifier: BSD-3-Clause */
#include "option_table.h"

static void add_rows(struct option_table *t, const struct option_row *rows)
{
        for (; rows && rows->name && t->n < OPTION_ROWS - 1; rows++)
                t->rows[t->n++] = *rows;
}

void option_table_make(struct option_table *t, const void *const *families,
                       const struct option_row *before, const struct option_row *own,
                       const struct option_row *after)
{
        const struct family *first = *(const struct family *const *)families[0];

        *t = (struct option_table) { 0 };
        families_transports(families, t->transports, sizeof(t->transports));
        snprintf(t->says, sizeof(t->says), "%s (%s)", t->transports, first->transports[0]);
        add_rows(t, before);
        t->rows[0].says = t->says;
        t->rows[0].choices = t->transports;
        add_rows(t, own);
        add_rows(t, after);
}

const void *option_family(const void *const *families, int argc, char **argv)
{
        const char *transport = option_peek(argc, argv, 't', "transport");
        const void *f = transport ? families_find(families, transport) : NULL;

        return f ? f : families[0];
}
