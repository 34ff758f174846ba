/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notices when this machine, or this process, stands still: a virtual machine that is stopped for a
 * second, a processor that is not to be had. Whoever waited for an answer then waited in vain, and
 * a timer that ran out meanwhile says nothing about the target.
 */
#ifndef NVMF_CONFORMANCE_STANDSTILL_H
#define NVMF_CONFORMANCE_STANDSTILL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct standstill {
        pthread_t thread;
        bool running;
        pthread_mutex_t lock;
        pthread_cond_t stopped;
        bool stop;               /* with the lock */
        _Atomic uint64_t looked; /* ms of now_ms() */
        _Atomic uint64_t ended;  /* the last one; 0: there was none */
};

/* Looks at the clock from a thread of its own until standstill_stop(). Without a thread to be had
 * nothing is ever noticed. */
void standstill_start(struct standstill *s);
void standstill_stop(struct standstill *s);
/* There was one, of 200 ms or more, that ended at `since` (ms of now_ms()) or later, or lasts.
 * Any thread. */
bool standstill_since(const struct standstill *s, uint64_t since);

#endif
