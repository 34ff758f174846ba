/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A namespace that takes its time, for hosts whose patience, and whose grasp of completions in any
 * order, is tested. What a command asks for is done when it comes; its answer waits here, in a list by
 * the time at which it is due, for a thread that gives it on.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ns_backend.h"
#include "pdu/io/loop.h"

enum { NS_PER_US = 1000, US_PER_MS = 1000, US_PER_S = 1000000 };
#define NS_PER_S UINT64_C(1000000000)

struct ns_delay {
        struct ns *ns;
        struct ns_times times; /* most 0: as the bdev says */
        pthread_t thread;
        pthread_mutex_t lock; /* of what follows */
        pthread_cond_t wake;
        struct ns_wait *first, *last; /* by when they are due; no first: last means nothing */
        unsigned short seed[3];
        bool hurry, stop;
};

/* --- "100us-5ms" ------------------------------------------------------------------------------- */

static bool take_unit(const char **at, uint64_t *unit)
{
        static const struct {
                const char *name;
                uint64_t us;
        } units[] = { { "us", 1 }, { "ms", US_PER_MS }, { "s", US_PER_S } };

        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
                if (strncmp(*at, units[i].name, strlen(units[i].name)) == 0) {
                        *unit = units[i].us;
                        *at += strlen(units[i].name);
                        return true;
                }
        return false;
}

/* 0 needs no unit. */
static bool take_time(const char **at, uint64_t *us)
{
        uint64_t unit = 0;
        char *end;

        if (**at < '0' || **at > '9')
                return false;
        errno = 0;
        *us = strtoull(*at, &end, 10);
        *at = end;
        if (errno || *us > NS_DELAY_MAX || (!take_unit(at, &unit) && *us > 0))
                return false;
        *us *= unit;
        return *us <= NS_DELAY_MAX;
}

bool ns_delay_parse(const char *text, struct ns_times *t)
{
        if (!take_time(&text, &t->least))
                return false;
        t->most = t->least;
        if (*text == '-' && (text++, !take_time(&text, &t->most)))
                return false;
        return *text == '\0' && t->least <= t->most && t->most > 0;
}

/* --- the wait ---------------------------------------------------------------------------------- */

/* With the lock held. */
static uint64_t draw(struct ns_delay *d, bool write)
{
        uint64_t chance = (uint64_t)nrand48(d->seed);

        if (d->times.most == 0)
                return bdev_delay_us(d->ns, write, (unsigned)(chance % 100)) * NS_PER_US;
        return (d->times.least + chance % (d->times.most - d->times.least + 1)) * NS_PER_US;
}

void ns_delay_begin(struct ns_delay *d, struct ns_wait *w)
{
        struct ns_wait **at = &d->first;

        pthread_mutex_lock(&d->lock);
        w->due = loop_now_ns() + draw(d, w->write);
        if (d->first && d->last->due <= w->due) /* all are, where the delay is always the same */
                at = &d->last->next;
        while (*at && (*at)->due <= w->due)
                at = &(*at)->next;
        w->next = *at;
        *at = w;
        if (!w->next)
                d->last = w;
        if (at == &d->first)
                pthread_cond_signal(&d->wake);
        pthread_mutex_unlock(&d->lock);
}

void ns_delay_hurry(struct ns_delay *d)
{
        pthread_mutex_lock(&d->lock);
        d->hurry = true;
        pthread_cond_signal(&d->wake);
        pthread_mutex_unlock(&d->lock);
}

static void sleep_until(struct ns_delay *d, uint64_t due)
{
        struct timespec t = { .tv_sec = (time_t)(due / NS_PER_S),
                              .tv_nsec = (long)(due % NS_PER_S) };

        pthread_cond_timedwait(&d->wake, &d->lock, &t);
}

/* The next one that is due; NULL: it is over. */
static struct ns_wait *take_due(struct ns_delay *d)
{
        struct ns_wait *w;

        pthread_mutex_lock(&d->lock);
        while (!d->stop && !(d->first && (d->hurry || d->first->due <= loop_now_ns()))) {
                if (d->first)
                        sleep_until(d, d->first->due);
                else
                        pthread_cond_wait(&d->wake, &d->lock);
        }
        w = d->stop ? NULL : d->first;
        if (w)
                d->first = w->next;
        pthread_mutex_unlock(&d->lock);
        return w;
}

static void *answer(void *arg)
{
        struct ns_delay *d = arg;
        struct ns_wait *w;

        while ((w = take_due(d)) != NULL)
                if (w->durable && d->ns->ops->flush)
                        d->ns->ops->flush(d->ns, w);
                else
                        w->done(w);
        return NULL;
}

/* --- life -------------------------------------------------------------------------------------- */

static void set_up(struct ns_delay *d)
{
        pthread_condattr_t monotonic;

        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_mutex_init(&d->lock, NULL);
        pthread_cond_init(&d->wake, &monotonic);
        pthread_condattr_destroy(&monotonic);
}

static void tear_down(struct ns_delay *d)
{
        pthread_cond_destroy(&d->wake);
        pthread_mutex_destroy(&d->lock);
        free(d);
}

struct ns_delay *ns_delay_new(struct ns *ns, const struct ns_times *t)
{
        struct ns_delay *d = calloc(1, sizeof(*d));

        if (!d)
                return NULL;
        d->ns = ns;
        if (t)
                d->times = *t;
        set_up(d);
        errno = pthread_create(&d->thread, NULL, answer, d);
        if (errno == 0)
                return d;
        tear_down(d);
        return NULL;
}

void ns_delay_free(struct ns_delay *d)
{
        pthread_mutex_lock(&d->lock);
        d->stop = true;
        pthread_cond_signal(&d->wake);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->thread, NULL);
        tear_down(d);
}
