/* SPDX-License-Identifier: BSD-3-Clause */
#include "standstill.h"

#include "test_case.h"

enum { LOOK_MS = 50, STILL_MS = 200 };

static bool is_still(uint64_t looked)
{
        return now_ms() - looked >= LOOK_MS + STILL_MS;
}

static void *look(void *arg)
{
        struct standstill *s = arg;

        while (!s->stop) {
                pause_ms(NULL, LOOK_MS);
                if (is_still(s->looked))
                        s->ended = now_ms();
                s->looked = now_ms();
        }
        return NULL;
}

void standstill_start(struct standstill *s)
{
        *s = (struct standstill) { .looked = now_ms() };
        s->running = pthread_create(&s->thread, NULL, look, s) == 0;
}

void standstill_stop(struct standstill *s)
{
        s->stop = true;
        if (s->running)
                pthread_join(s->thread, NULL);
        s->running = false;
}

bool standstill_since(const struct standstill *s, uint64_t since)
{
        uint64_t ended = s->ended;

        return s->running && ((ended && ended >= since) || is_still(s->looked));
}
