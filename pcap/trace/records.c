/* SPDX-License-Identifier: BSD-3-Clause */
/* From events to records: a tracker for each family. */
#include <stdio.h>

#include "trace.h"

struct trackers {
        const struct trace_family *const *families;
        void *of[TRACE_FAMILIES];
};

static void on_event(void *user, const struct trace_event *e)
{
        const struct trackers *t = user;

        for (unsigned i = 0; i < TRACE_FAMILIES && t->families[i]; i++)
                if (e->conn->family == t->families[i])
                        t->families[i]->event(t->of[i], e);
}

/* False: no memory. */
static bool open_trackers(struct trackers *t, const struct trace_reading *how)
{
        bool whole = true;

        for (unsigned i = 0; i < TRACE_FAMILIES && t->families[i]; i++) {
                struct trace_reading own = *how;

                own.waived = how->waived ? &how->waived[i] : NULL;
                t->of[i] = t->families[i]->open(&own);
                whole &= t->of[i] != NULL;
        }
        return whole;
}

/* False: memory ran out on the way. */
static bool close_trackers(struct trackers *t)
{
        bool whole = true;

        for (unsigned i = 0; i < TRACE_FAMILIES && t->families[i]; i++)
                whole &= t->of[i] && t->families[i]->close(t->of[i]);
        return whole;
}

int trace_records(const char *path, const struct trace_family *const *families,
                  const struct trace_options *options, const struct trace_reading *how,
                  struct trace_totals *totals, char *err, size_t err_size)
{
        struct trace_options own = options ? *options : (struct trace_options) { 0 };
        struct trackers t = { .families = families };
        int rc = 0;

        *totals = (struct trace_totals) { 0 };
        own.beside = families + 1;
        if (open_trackers(&t, how))
                rc = trace_read(path, families[0], &own, on_event, &t, totals, err, err_size);
        if (!close_trackers(&t) && rc == 0) {
                snprintf(err, err_size, "%s: out of memory", path);
                rc = -1;
        }
        return rc;
}
