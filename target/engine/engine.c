/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"

enum {
        DRAIN_MS = 2000,
        LEAST_TRANSFERS = 4, /* of the longest, for which a reactor has buffers */
};

static uint64_t buffers_each(const struct service *s, uint64_t buffers, unsigned reactors)
{
        uint64_t least = LEAST_TRANSFERS * (uint64_t)s->limits.max_transfer;
        uint64_t each = buffers / reactors;

        return each > least ? each : least;
}

bool engine_start(struct engine *e, struct service *s, unsigned n, uint64_t buffers,
                  struct verbs_provider *verbs, char *error, size_t size)
{
        uint64_t each;

        if (n > REACTORS_MAX)
                n = REACTORS_MAX;
        each = buffers_each(s, buffers, n);
        s->longest = each / LEAST_TRANSFERS;
        e->reactors = calloc(n, sizeof(*e->reactors));
        for (; e->reactors && e->n_reactors < n; e->n_reactors++) {
                struct reactor *r = &e->reactors[e->n_reactors];

                if (reactor_start(r, s, each, e->n_reactors == 0) < 0)
                        break;
                r->number = e->n_reactors;
        }
        e->listeners = (struct listeners) {
                .service = s, .reactors = e->reactors, .n_reactors = e->n_reactors, .verbs = verbs
        };
        if (e->n_reactors == n)
                return true;
        snprintf(error, size, "reactor: %s", strerror(e->reactors ? errno : ENOMEM));
        return false;
}

void engine_close(struct engine *e)
{
        listen_drop_all(&e->listeners);
}

void engine_drain(struct engine *e)
{
        for (unsigned i = 0; i < e->n_reactors; i++)
                reactor_drain(&e->reactors[i], DRAIN_MS);
        for (unsigned i = 0; i < e->n_reactors; i++)
                reactor_join(&e->reactors[i]);
        listen_fini(&e->listeners);
}

void engine_fini(struct engine *e)
{
        for (unsigned i = 0; i < e->n_reactors; i++)
                reactor_fini(&e->reactors[i]);
        free(e->reactors);
}

/* --- from the one who controls it -------------------------------------------------------------- */

static void nothing(struct reactor *r, void *arg)
{
        (void)r;
        (void)arg;
}

void engine_wait_for_turn(struct engine *e)
{
        engine_each_reactor(e, nothing, NULL);
}

void engine_each_reactor(struct engine *e, void (*fn)(struct reactor *r, void *arg), void *arg)
{
        for (unsigned i = 0; i < e->n_reactors; i++)
                reactor_call(&e->reactors[i], fn, arg);
}

struct visit {
        void (*fn)(struct conn *c, void *arg);
        void *arg;
};

static void visit_conns(struct reactor *r, void *arg)
{
        const struct visit *v = arg;

        for (struct conn *c = r->conns, *next; c; c = next) {
                next = c->next;
                v->fn(c, v->arg);
        }
}

void engine_each_conn(struct engine *e, void (*fn)(struct conn *c, void *arg), void *arg)
{
        engine_each_reactor(e, visit_conns, &(struct visit) { fn, arg });
}

struct standstill {
        struct engine *engine;
        unsigned still; /* reactors */
        void (*fn)(void *arg);
        void *arg;
};

/* Each reactor waits for the next one; the last has the target to itself. */
static void stand_still(struct reactor *r, void *arg)
{
        struct standstill *s = arg;

        (void)r;
        if (++s->still < s->engine->n_reactors)
                reactor_call(&s->engine->reactors[s->still], stand_still, s);
        else
                s->fn(s->arg);
}

void engine_alone(struct engine *e, void (*fn)(void *arg), void *arg)
{
        reactor_call(e->reactors, stand_still, &(struct standstill) { e, 0, fn, arg });
}
