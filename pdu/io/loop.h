/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An event loop of one thread: descriptors (epoll, level-triggered) and messages from other
 * threads. Timers are the owner's: it says how long a turn may wait.
 */
#ifndef NVMF_IO_LOOP_H
#define NVMF_IO_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

struct loop_source { /* embedded in whatever owns the descriptor */
        int fd;
        uint32_t events;                                       /* waited for; kept by the loop */
        void (*ready)(struct loop_source *s, uint32_t events); /* EPOLLIN ... */
};

struct loop_message {                        /* embedded in whatever wants to be told */
        void (*run)(struct loop_message *m); /* on the loop's thread; may free it */
        struct loop_message *next;
        _Atomic bool posted;
};

enum { LOOP_EVENTS = 64 }; /* descriptors served in a turn */

struct loop {
        int epoll, bell;
        _Atomic(struct loop_message *) mail; /* newest first */
        struct epoll_event ready[LOOP_EVENTS];
        int at, count; /* of ready[], while a turn goes on */
};

/* 0, or -1 with errno. */
int loop_init(struct loop *l);
/* One without descriptors: it takes messages, and loop_mail() runs them. */
void loop_init_mail(struct loop *l);
/* No source may be left; messages that are still posted never run. */
void loop_fini(struct loop *l);

/* Sources: on the loop's thread, or before it turns. -1 with errno. */
int loop_add(struct loop *l, struct loop_source *s, uint32_t events);
void loop_change(struct loop *l, struct loop_source *s, uint32_t events);
/* It is not called any more, also in this turn; closing the descriptor is the owner's. */
void loop_remove(struct loop *l, struct loop_source *s);

/* From any thread. A message that is posted already stays posted once: false. Everything that the
 * poster wrote before is seen by run(). */
bool loop_post(struct loop *l, struct loop_message *m);
static inline bool loop_posted(const struct loop_message *m)
{
        return atomic_load(&m->posted);
}

/* Waits up to timeout_ms (-1: forever) for something to do and does it: sources first, then
 * messages. How many there were. */
int loop_turn(struct loop *l, int timeout_ms);

/* Runs the messages that were posted, as loop_turn() does. How many there were. */
int loop_mail(struct loop *l);

/*
 * Clocks and waits for who has no loop. This is the only place that reads a clock: any steady one, and
 * that of the calendar (ns since 1970).
 */
uint64_t loop_now_ms(void);
uint64_t loop_now_ns(void);
int64_t loop_wall_ns(void);
/* So many ms from now, for pthread_cond_timedwait() of a condition by CLOCK_MONOTONIC. */
struct timespec loop_in(unsigned ms);
/* ms until a time of loop_now_ms(); 0: it is past. */
int loop_left(uint64_t deadline);
void loop_sleep_us(uint64_t us);
struct pollfd;
/* As poll(2), but a signal does not end it early. */
int loop_poll(struct pollfd *fds, unsigned n, int timeout_ms);

#endif
