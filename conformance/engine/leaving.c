/* SPDX-License-Identifier: BSD-3-Clause */
#include "leaving.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "pdu/io/loop.h"
#include "pdu/io/stream.h"

enum { LOOK_MS = 5 };

struct departed {
        struct stream stream;
        uint64_t until;
        const char *who;
};

struct leaving {
        pthread_t thread;
        pthread_mutex_t lock;
        unsigned ms;
        struct departed of[LEAVING_MAX];
        size_t count;
        unsigned watched, leaked;
        const char *first; /* that leaked */
        _Atomic bool stop;
};

/* What still comes is dropped; of a peer that never stops, some of it at a time. */
static bool has_ended(struct stream *s)
{
        enum { READS = 64 };
        uint8_t waste[4096];
        const struct iovec iov = { waste, sizeof(waste) };
        ssize_t got = 1;

        for (unsigned i = 0; i < READS && got > 0; i++)
                got = stream_read(s, &iov, 1);
        return got < 0;
}

/* Looked at before its time is: on a machine that stands still nobody leaks. */
static bool is_over(struct leaving *l, struct departed *d)
{
        if (has_ended(&d->stream))
                return true;
        if (loop_now_ms() < d->until)
                return false;
        if (l->leaked++ == 0)
                l->first = d->who;
        return true;
}

/* How many are left. */
static size_t look(struct leaving *l)
{
        size_t left;

        pthread_mutex_lock(&l->lock);
        for (size_t i = 0; i < l->count;) {
                if (!is_over(l, &l->of[i])) {
                        i++;
                        continue;
                }
                stream_close(&l->of[i].stream, false);
                l->of[i] = l->of[--l->count];
        }
        left = l->count;
        pthread_mutex_unlock(&l->lock);
        return left;
}

static void *watch(void *arg)
{
        struct leaving *l = arg;

        while (!l->stop) {
                look(l);
                loop_sleep_us(LOOK_MS * 1000);
        }
        return NULL;
}

struct leaving *leaving_new(unsigned ms)
{
        struct leaving *l = calloc(1, sizeof(*l));

        if (!l)
                return NULL;
        l->ms = ms;
        pthread_mutex_init(&l->lock, NULL);
        if (pthread_create(&l->thread, NULL, watch, l) == 0)
                return l;
        pthread_mutex_destroy(&l->lock);
        free(l);
        return NULL;
}

void leaving_add(struct leaving *l, struct stream *s, const char *who)
{
        if (stream_half_close(s) < 0) {
                stream_close(s, false);
                return;
        }
        pthread_mutex_lock(&l->lock);
        if (l->count < LEAVING_MAX) {
                l->of[l->count++] = (struct departed) { *s, loop_now_ms() + l->ms, who };
                l->watched++;
                s->ops = NULL;
        }
        pthread_mutex_unlock(&l->lock);
        stream_close(s, false);
}

bool leaving_end(struct leaving *l, const _Atomic bool *stop, struct result *r)
{
        bool any;

        while (look(l) > 0 && !(stop && *stop))
                loop_sleep_us(LOOK_MS * 1000);
        l->stop = true;
        pthread_join(l->thread, NULL);
        while (l->count > 0)
                stream_close(&l->of[--l->count].stream, false);
        any = l->leaked > 0;
        if (any) {
                *r = (struct result) { .id = "noticed/leak",
                                       .level = LEVEL_SHOULD,
                                       .verdict = VERDICT_ADVICE,
                                       .repeats = l->leaked };
                snprintf(r->expected, RESULT_TEXT,
                         "A peer closes a connection that we have closed");
                snprintf(r->seen, RESULT_TEXT, "%u of %u connections were still open after %u ms",
                         l->leaked, l->watched, l->ms);
                snprintf(r->note, RESULT_TEXT, "first seen in %s", l->first);
        }
        pthread_mutex_destroy(&l->lock);
        free(l);
        return any;
}
