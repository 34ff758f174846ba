/* SPDX-License-Identifier: BSD-3-Clause */
#include "reactor.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>

#include "conn.h"
#include "family.h"
#include "pdu/io/stream.h"
#include "rdma.h"

enum {
        TICK_MS = 50,   /* of the family */
        TRIM_MS = 1000, /* memory that nobody uses */
        LATE_MS = 500,
        DRAIN_TURN_MS = 2,
        RX_SPARE_MAX = 16, /* receive buffers kept for reuse */
};

struct rx_buffer { /* what a free receive buffer begins with */
        struct rx_buffer *next;
};

uint64_t reactor_now(struct reactor *r)
{
        if (r->now == 0)
                r->now = loop_now_ms();
        return r->now;
}

uint64_t reactor_look(struct reactor *r)
{
        if (!r->given)
                r->now = loop_now_ms();
        return r->now;
}

bool reactor_is_behind(const struct reactor *r)
{
        uint64_t looked = atomic_load_explicit(&r->looked, memory_order_relaxed);

        return !r->given && loop_now_ms() >= looked + LATE_MS;
}

/* --- receive buffers -------------------------------------------------------------------------- */

uint8_t *reactor_rx_get(struct reactor *r)
{
        struct rx_buffer *b = r->rx_free;

        if (!b)
                return aligned_alloc(64, RX_BUFFER);
        r->rx_free = b->next;
        r->rx_spare--;
        return (uint8_t *)b;
}

void reactor_rx_put(struct reactor *r, uint8_t *buf)
{
        struct rx_buffer *b = (struct rx_buffer *)(void *)buf;

        if (r->rx_spare >= RX_SPARE_MAX) {
                free(buf);
                return;
        }
        b->next = r->rx_free;
        r->rx_free = b;
        r->rx_spare++;
}

/* --- sources that pause ----------------------------------------------------------------------- */

void reactor_pause(struct reactor *r, struct reactor_pause *p, struct loop_source *s, unsigned ms)
{
        *p = (struct reactor_pause) {
                .source = s, .events = s->events, .until = reactor_now(r) + ms, .next = r->paused
        };
        r->paused = p;
        loop_change(&r->loop, s, 0);
}

void reactor_resume(struct reactor *r, struct reactor_pause *p)
{
        struct reactor_pause **at = &r->paused;

        if (!p->source)
                return;
        while (*at != p)
                at = &(*at)->next;
        *at = p->next;
        loop_change(&r->loop, p->source, p->events);
        p->source = NULL;
}

static void resume_those_due(struct reactor *r)
{
        for (struct reactor_pause *p = r->paused, *next; p; p = next) {
                next = p->next;
                if (reactor_now(r) >= p->until)
                        reactor_resume(r, p);
        }
}

/* --- connections ------------------------------------------------------------------------------ */

static void go_on(struct reactor *r)
{
        struct conn *c = r->again, *next;

        r->again = NULL;
        for (; c; c = next) {
                next = c->next_again;
                c->again = false;
                c->kind->go_on(c);
        }
}

/* Those that wait the longest come first, until buffers are short again. */
static void feed(struct reactor *r)
{
        struct conn *c = r->hungry, *next;

        if (!r->fed)
                return;
        r->fed = false;
        r->hungry = NULL;
        r->hungry_last = &r->hungry;
        for (; c; c = next) {
                next = c->next_hungry;
                c->hungry = false;
                if (c->kind->feed)
                        c->kind->feed(c);
        }
}

static void each_conn(struct reactor *r, void (*fn)(struct conn *c))
{
        struct conn *next;

        for (struct conn *c = r->conns; c; c = next) {
                next = c->next;
                fn(c);
        }
}

static void sweep_conn(struct conn *c)
{
        if (c->kind->sweep)
                c->kind->sweep(c);
}

/* Whether `ms` have passed since b->last, which is now then. A reactor that comes late has not read yet what came while
 * it stood still, and is not to take that for silence: once, it has a turn before. */
static bool is_time(struct reactor *r, struct reactor_beat *b, unsigned ms)
{
        uint64_t passed = reactor_now(r) - b->last;

        if (passed < ms)
                return false;
        b->last = reactor_now(r);
        b->missed = passed >= ms + LATE_MS && !b->missed;
        return !b->missed;
}

static void wake_conn(struct conn *c)
{
        if (c->kind->wake)
                c->kind->wake(c);
}

static void keep_time(struct reactor *r)
{
        if (r->wake && reactor_now(r) >= r->wake) {
                r->wake = 0;
                each_conn(r, wake_conn);
        }
        if (is_time(r, &r->sweep, SWEEP_MS)) {
                each_conn(r, sweep_conn);
                resume_those_due(r);
                r->fed = true; /* memory may be had again */
        }
        if (r->is_ticker && r->service->family->tick && is_time(r, &r->tick, TICK_MS))
                r->service->family->tick(r->service, reactor_now(r));
        if (!is_time(r, &r->trim, TRIM_MS))
                return;
        pool_trim(&r->pool);
        if (r->rdma)
                rdma_sweep(r->rdma);
}

/* --- the thread ------------------------------------------------------------------------------- */

static void drain_conn(struct conn *c)
{
        struct reactor *r = c->reactor;

        c->kind->drain(c, reactor_now(r) >= r->drain_until);
}

static int timeout(struct reactor *r)
{
        if (r->again || (r->fed && r->hungry))
                return 0;
        if (r->drain_until)
                return DRAIN_TURN_MS;
        if (r->busy_until && loop_now_ns() < r->busy_until)
                return 0;
        r->busy_until = 0;
        if (r->conns)
                return SWEEP_MS;
        return r->is_ticker ? TICK_MS : -1;
}

/* No longer than until something that is held is due. */
static int until_wake(const struct reactor *r, int wait)
{
        uint64_t now = r->wake ? loop_now_ms() : 0;
        uint64_t left = r->wake > now ? r->wake - now : 0;

        return r->wake && (wait < 0 || left < (uint64_t)wait) ? (int)left : wait;
}

static unsigned serve(struct reactor *r)
{
        int wait = until_wake(r, timeout(r)), served;

        if (!r->rdma)
                return (unsigned)loop_turn(&r->loop, wait);
        served = loop_turn(&r->loop, rdma_wait(r->rdma, wait));
        return (unsigned)served + rdma_work(r->rdma);
}

/* What follows from what was served. */
static void follow_up(struct reactor *r)
{
        go_on(r);
        feed(r);
        keep_time(r);
}

void reactor_step(struct reactor *r, uint64_t now)
{
        r->now = now;
        r->given = true;
        r->turns.now++;
        loop_mail(&r->loop);
        follow_up(r);
}

static void turn(struct reactor *r)
{
        unsigned served;

        r->turns.now++;
        served = serve(r);
        atomic_store_explicit(&r->looked, reactor_now(r), memory_order_relaxed);
        if (served > 0 && r->service->busy_poll > 0)
                r->busy_until = loop_now_ns() + UINT64_C(1000) * r->service->busy_poll;
        follow_up(r);
        r->now = 0;
}

static void *run(void *arg)
{
        struct reactor *r = arg;

        while (!r->drain_until || r->conns) {
                turn(r);
                if (r->drain_until)
                        each_conn(r, drain_conn);
        }
        if (r->rdma)
                rdma_stop(r->rdma);
        return NULL;
}

/* --- from other threads ----------------------------------------------------------------------- */

struct call {
        struct loop_message message;
        struct reactor *reactor;
        void (*fn)(struct reactor *r, void *arg);
        void *arg;
        sem_t done;
};

static void on_call(struct loop_message *m)
{
        struct call *call = (struct call *)m;

        call->fn(call->reactor, call->arg);
        sem_post(&call->done);
}

void reactor_call(struct reactor *r, void (*fn)(struct reactor *r, void *arg), void *arg)
{
        struct call call = { .message.run = on_call, .reactor = r, .fn = fn, .arg = arg };

        sem_init(&call.done, 0, 0);
        loop_post(&r->loop, &call.message);
        while (sem_wait(&call.done) < 0 && errno == EINTR)
                ;
        sem_destroy(&call.done);
}

struct adoption {
        struct loop_message message;
        struct reactor *reactor;
        struct port *port;
        struct stream stream;
        struct conn_peer peer;
};

static void on_adoption(struct loop_message *m)
{
        struct adoption *a = (struct adoption *)m;

        a->reactor->service->family->start_stream(a->reactor, a->port, &a->stream, &a->peer);
        free(a);
}

void reactor_adopt(struct reactor *r, struct port *port, struct stream *stream,
                   const struct conn_peer *peer)
{
        struct adoption *a = malloc(sizeof(*a));

        if (!a) {
                stream_close(stream, false);
                conn_uncount(r->service, port, peer);
                return;
        }
        *a = (struct adoption) { .message.run = on_adoption,
                                 .reactor = r,
                                 .port = port,
                                 .stream = *stream,
                                 .peer = *peer };
        loop_post(&r->loop, &a->message);
}

struct rdma_opening {
        struct verbs_provider *provider;
        int error;
};

static void open_rdma(struct reactor *r, void *arg)
{
        struct rdma_opening *o = arg;

        if (!r->rdma)
                r->rdma = rdma_start(r, o->provider);
        o->error = r->rdma ? 0 : errno;
}

int reactor_open_rdma(struct reactor *r, struct verbs_provider *p)
{
        struct rdma_opening o = { .provider = p };

        reactor_call(r, open_rdma, &o);
        errno = o.error;
        return o.error ? -1 : 0;
}

struct rdma_adoption {
        struct loop_message message;
        struct reactor *reactor;
        struct port *port;
        struct verbs_event event;
        struct conn_peer peer;
};

static void on_rdma_adoption(struct loop_message *m)
{
        struct rdma_adoption *a = (struct rdma_adoption *)m;

        a->reactor->service->family->start_rdma(a->reactor, a->port, &a->event, &a->peer);
        free(a);
}

void reactor_adopt_rdma(struct reactor *r, struct port *port, const struct verbs_event *e,
                        struct reactor *from, const struct conn_peer *peer)
{
        struct rdma_adoption *a;

        if (r == from) {
                r->service->family->start_rdma(r, port, e, peer);
                return;
        }
        a = malloc(sizeof(*a));
        if (!a || verbs_migrate(e->ep, r->rdma->group.context) < 0) {
                free(a);
                r->service->family->reject_rdma(r->service, e->ep);
                conn_uncount(r->service, port, peer);
                return;
        }
        *a = (struct rdma_adoption) { .message.run = on_rdma_adoption,
                                      .reactor = r,
                                      .port = port,
                                      .event = *e,
                                      .peer = *peer };
        loop_post(&r->loop, &a->message);
}

bool reactor_init(struct reactor *r, struct service *s, uint64_t buffers, bool is_ticker)
{
        *r = (struct reactor) { .service = s, .is_ticker = is_ticker };
        r->own = s->family->own_bytes > 0 ? calloc(1, s->family->own_bytes) : NULL;
        if (s->family->own_bytes > 0 && !r->own)
                return false;
        r->hungry_last = &r->hungry;
        pool_init(&r->pool, buffers, NULL, NULL);
        loop_init_mail(&r->loop);
        if (s->family->own_init)
                s->family->own_init(r);
        return true;
}

void reactor_fini(struct reactor *r)
{
        while (r->rx_free)
                free(reactor_rx_get(r));
        pool_fini(&r->pool);
        loop_fini(&r->loop);
        free(r->own);
}

int reactor_start(struct reactor *r, struct service *s, uint64_t buffers, bool is_ticker)
{
        int rc;

        if (!reactor_init(r, s, buffers, is_ticker)) {
                errno = ENOMEM;
                return -1;
        }
        if (loop_init(&r->loop) < 0) {
                free(r->own);
                return -1;
        }
        rc = pthread_create(&r->thread, NULL, run, r);
        if (rc == 0)
                return 0;
        reactor_fini(r);
        errno = rc;
        return -1;
}

static void begin_drain(struct reactor *r, void *arg)
{
        r->drain_until = reactor_now(r) + *(unsigned *)arg;
}

void reactor_drain(struct reactor *r, unsigned drain_ms)
{
        reactor_call(r, begin_drain, &drain_ms);
}

void reactor_join(struct reactor *r)
{
        pthread_join(r->thread, NULL);
}
