/* SPDX-License-Identifier: BSD-3-Clause */
#include "loop.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static int control(struct loop *l, int op, struct loop_source *s, uint32_t events)
{
        struct epoll_event e = { .events = events, .data.ptr = s };

        s->events = events;
        return epoll_ctl(l->epoll, op, s->fd, &e);
}

int loop_init(struct loop *l)
{
        struct epoll_event bell = { .events = EPOLLIN };

        *l = (struct loop) { .bell = -1 };
        l->epoll = epoll_create1(EPOLL_CLOEXEC);
        if (l->epoll >= 0)
                l->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (l->bell < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->bell, &bell) < 0) {
                loop_fini(l);
                return -1;
        }
        return 0;
}

void loop_init_mail(struct loop *l)
{
        *l = (struct loop) { .epoll = -1, .bell = -1 };
}

static void close_if_open(int fd)
{
        int saved = errno;

        if (fd >= 0)
                close(fd);
        errno = saved;
}

void loop_fini(struct loop *l)
{
        close_if_open(l->bell);
        close_if_open(l->epoll);
}

int loop_add(struct loop *l, struct loop_source *s, uint32_t events)
{
        return control(l, EPOLL_CTL_ADD, s, events);
}

void loop_change(struct loop *l, struct loop_source *s, uint32_t events)
{
        if (events != s->events)
                control(l, EPOLL_CTL_MOD, s, events);
}

void loop_remove(struct loop *l, struct loop_source *s)
{
        control(l, EPOLL_CTL_DEL, s, 0);
        for (int i = l->at; i < l->count; i++)
                if (l->ready[i].data.ptr == s)
                        l->ready[i].events = 0;
}

/* --- messages --------------------------------------------------------------------------------- */

static void ring(struct loop *l)
{
        const uint64_t one = 1;

        while (write(l->bell, &one, sizeof(one)) < 0 && errno == EINTR)
                ;
}

bool loop_post(struct loop *l, struct loop_message *m)
{
        struct loop_message *top = atomic_load(&l->mail);

        if (atomic_exchange(&m->posted, true))
                return false;
        do
                m->next = top;
        while (!atomic_compare_exchange_weak(&l->mail, &top, m));
        if (!top && l->bell >= 0)
                ring(l);
        return true;
}

static struct loop_message *in_order(struct loop_message *newest)
{
        struct loop_message *list = NULL, *next;

        for (; newest; newest = next) {
                next = newest->next;
                newest->next = list;
                list = newest;
        }
        return list;
}

int loop_mail(struct loop *l)
{
        struct loop_message *m = in_order(atomic_exchange(&l->mail, NULL)), *next;
        int n = 0;

        for (; m; m = next, n++) {
                next = m->next;
                atomic_store(&m->posted, false);
                m->run(m);
        }
        return n;
}

/* --- a turn ----------------------------------------------------------------------------------- */

static void silence(struct loop *l)
{
        uint64_t count;

        while (read(l->bell, &count, sizeof(count)) < 0 && errno == EINTR)
                ;
}

static void serve(struct loop *l, const struct epoll_event *e)
{
        struct loop_source *s = e->data.ptr;

        if (!s)
                silence(l);
        else if (e->events)
                s->ready(s, e->events);
}

int loop_turn(struct loop *l, int timeout_ms)
{
        int n = epoll_wait(l->epoll, l->ready, LOOP_EVENTS, timeout_ms);

        l->count = n > 0 ? n : 0;
        for (l->at = 0; l->at < l->count; l->at++)
                serve(l, &l->ready[l->at]);
        n = l->count;
        l->at = l->count = 0;
        if (atomic_load_explicit(&l->mail, memory_order_relaxed))
                n += loop_mail(l);
        return n;
}

/* --- clocks ----------------------------------------------------------------------------------- */

static int64_t clock_ns(clockid_t clock)
{
        struct timespec ts;

        clock_gettime(clock, &ts);
        return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

uint64_t loop_now_ns(void)
{
        return (uint64_t)clock_ns(CLOCK_MONOTONIC);
}

uint64_t loop_now_ms(void)
{
        return loop_now_ns() / 1000000;
}

int64_t loop_wall_ns(void)
{
        return clock_ns(CLOCK_REALTIME);
}

struct timespec loop_in(unsigned ms)
{
        uint64_t ns = loop_now_ns() + UINT64_C(1000000) * ms;

        return (struct timespec) { .tv_sec = (time_t)(ns / 1000000000),
                                   .tv_nsec = (long)(ns % 1000000000) };
}

int loop_left(uint64_t deadline)
{
        uint64_t now = loop_now_ms();

        if (deadline <= now)
                return 0;
        return deadline - now > INT32_MAX ? INT32_MAX : (int)(deadline - now);
}

void loop_sleep_us(uint64_t us)
{
        const struct timespec ts = { .tv_sec = (time_t)(us / 1000000),
                                     .tv_nsec = (long)(us % 1000000) * 1000 };

        nanosleep(&ts, NULL);
}

int loop_poll(struct pollfd *fds, unsigned n, int timeout_ms)
{
        uint64_t deadline = timeout_ms > 0 ? loop_now_ms() + (unsigned)timeout_ms : 0;
        int ready = poll(fds, n, timeout_ms);

        while (ready < 0 && errno == EINTR)
                ready = poll(fds, n, timeout_ms > 0 ? loop_left(deadline) : timeout_ms);
        return ready;
}
