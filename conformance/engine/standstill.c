/* SPDX-License-Identifier: BSD-3-Clause */
#include "standstill.h"

#include <time.h>

#include "pdu/io/loop.h"
#include "test_case.h"

enum { LOOK_MS = 50, STILL_MS = 200 };

static bool is_still(uint64_t looked)
{
        return now_ms() - looked >= LOOK_MS + STILL_MS;
}

/* Until it is stopped, or for LOOK_MS. */
static void wait_stopped(struct standstill *s)
{
        uint64_t ns = loop_now_ns() + LOOK_MS * UINT64_C(1000000);
        struct timespec until = { .tv_sec = (time_t)(ns / 1000000000),
                                  .tv_nsec = (long)(ns % 1000000000) };

        pthread_cond_timedwait(&s->stopped, &s->lock, &until);
}

static void *look(void *arg)
{
        struct standstill *s = arg;

        pthread_mutex_lock(&s->lock);
        while (!s->stop) {
                wait_stopped(s);
                if (is_still(s->looked))
                        s->ended = now_ms();
                s->looked = now_ms();
        }
        pthread_mutex_unlock(&s->lock);
        return NULL;
}

void standstill_start(struct standstill *s)
{
        pthread_condattr_t clock;

        *s = (struct standstill) { .looked = now_ms() };
        pthread_mutex_init(&s->lock, NULL);
        pthread_condattr_init(&clock);
        pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        pthread_cond_init(&s->stopped, &clock);
        pthread_condattr_destroy(&clock);
        s->running = pthread_create(&s->thread, NULL, look, s) == 0;
}

void standstill_stop(struct standstill *s)
{
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_signal(&s->stopped);
        pthread_mutex_unlock(&s->lock);
        if (s->running)
                pthread_join(s->thread, NULL);
        s->running = false;
        pthread_cond_destroy(&s->stopped);
        pthread_mutex_destroy(&s->lock);
}

bool standstill_since(const struct standstill *s, uint64_t since)
{
        uint64_t ended = s->ended;

        return s->running && ((ended && ended >= since) || is_still(s->looked));
}
