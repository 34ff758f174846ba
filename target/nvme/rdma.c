/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "rdma_conn.h"

enum {
        BATCH = 64,    /* completions polled at once */
        BATCHES = 8,   /* of one device in a turn */
        EVENTS = 64,   /* in a turn */
        BACKLOG = 256, /* connect requests that wait */
        ASK_MS = 1,    /* a context without descriptors is asked so often */
        PATIENCE = 32, /* looks before sleeping, at most; and after being woken */
        PATIENCE_LEAST = 4,
        ROUNDS = 64, /* of looks that found something, before the reactor looks after others */
};

/* --- what the loop waits for ------------------------------------------------------------------ */

/* Only the first descriptor of a context brings events. */
static void on_ring(struct loop_source *s, uint32_t events)
{
        struct rdma *m = ((struct rdma_fd *)s)->rdma;

        (void)events;
        m->rung |= s == &m->fds[0].source;
        m->armed = false;
}

static bool has_fd(const int *fds, int n, int fd)
{
        while (n > 0 && fds[n - 1] != fd)
                n--;
        return n > 0;
}

static bool is_watched(const struct rdma *m, int fd)
{
        for (int i = 0; i < m->n_fds; i++)
                if (m->fds[i].source.fd == fd)
                        return true;
        return false;
}

static int watch(struct rdma *m, int fd)
{
        struct rdma_fd *f = &m->fds[m->n_fds];

        if (m->n_fds == RDMA_FDS) {
                errno = ENOSPC;
                return -1;
        }
        f->rdma = m;
        f->source = (struct loop_source) { .fd = fd, .ready = on_ring };
        if (loop_add(&m->reactor->loop, &f->source, EPOLLIN) < 0)
                return -1;
        m->n_fds++;
        return 0;
}

int rdma_watch(struct rdma *m)
{
        int fds[RDMA_FDS], n = verbs_fds(m->context, fds, RDMA_FDS);

        for (int i = 0; i < m->n_fds; i++)
                if (!has_fd(fds, n, m->fds[i].source.fd))
                        m->fds[i].source.fd = -1; /* closed, and so out of the loop */
        for (int i = 0; i < n; i++)
                if (!is_watched(m, fds[i]) && watch(m, fds[i]) < 0)
                        return -1;
        return 0;
}

static void unwatch(struct rdma *m)
{
        while (m->n_fds > 0)
                if (m->fds[--m->n_fds].source.fd >= 0)
                        loop_remove(&m->reactor->loop, &m->fds[m->n_fds].source);
}

/* --- listeners -------------------------------------------------------------------------------- */

static int listen_again(struct rdma_listener *l)
{
        l->verbs = verbs_listen(l->rdma->context, l->port->traddr, l->port->trsvcid, BACKLOG);
        return l->verbs ? 0 : -1;
}

int rdma_port_listen(struct rdma *m, struct rdma_listener *l)
{
        l->rdma = m;
        if (listen_again(l) < 0)
                return -1;
        l->next = m->listeners;
        m->listeners = l;
        return rdma_watch(m);
}

void rdma_port_unlisten(struct rdma_listener *l)
{
        struct rdma_listener **at = &l->rdma->listeners;

        while (*at && *at != l)
                at = &(*at)->next;
        if (*at)
                *at = l->next;
        if (l->verbs)
                verbs_unlisten(l->verbs);
        l->verbs = NULL;
}

static struct rdma_listener *find_listener(struct rdma *m, const struct verbs_listener *verbs)
{
        struct rdma_listener *l = m->listeners;

        while (l && l->verbs != verbs)
                l = l->next;
        return l;
}

/* The address may come back, with another device. */
static void lose_listener(struct rdma_listener *l)
{
        verbs_unlisten(l->verbs);
        l->verbs = NULL;
}

void rdma_sweep(struct rdma *m)
{
        for (struct rdma_listener *l = m->listeners; l; l = l->next)
                if (!l->verbs)
                        listen_again(l);
        for (struct rdma_device *d = m->devices; d; d = d->next)
                rdma_device_trim(d);
}

/* --- events ----------------------------------------------------------------------------------- */

static void on_request(struct rdma *m, const struct verbs_event *e)
{
        struct rdma_listener *l = find_listener(m, e->listener);

        if (l && l->accepting)
                l->request(l, e);
        else
                rdma_conn_reject(m->reactor->service, e->ep, RDMA_REJECT_RESOURCES);
}

static void on_event(struct rdma *m, const struct verbs_event *e)
{
        struct rdma_conn *c = e->ep && e->type != VERBS_CONNECT_REQUEST ? verbs_user(e->ep) : NULL;
        struct rdma_listener *l;

        if (e->type == VERBS_CONNECT_REQUEST) {
                on_request(m, e);
        } else if (c) {
                rdma_conn_event(c, e);
                rdma_conn_settle(c);
        } else if (e->type == VERBS_DEVICE_REMOVED && !e->ep && e->listener) {
                l = find_listener(m, e->listener);
                if (l)
                        lose_listener(l);
        }
}

static unsigned take_events(struct rdma *m)
{
        struct verbs_event e;
        unsigned n = 0;

        if (!m->rung && m->n_fds > 0)
                return 0;
        m->rung = false;
        while (n < EVENTS && verbs_event(m->context, &e)) {
                on_event(m, &e);
                n++;
        }
        m->rung = n == EVENTS;
        return n;
}

/* --- completions ------------------------------------------------------------------------------ */

static void touch(struct rdma *m, struct rdma_conn *c)
{
        if (c->touched)
                return;
        c->touched = true;
        c->next_touched = m->touched;
        m->touched = c;
}

static void on_completion(struct rdma_device *d, const struct verbs_wc *wc)
{
        struct rdma_conn *c = wc->ep ? verbs_user(wc->ep) : NULL;

        if (c) {
                rdma_conn_completed(c, wc);
                touch(d->rdma, c);
        } else if (wc->wr->op == VERBS_RECV) { /* of the SRQ, for a queue pair that is gone */
                rdma_device_recv_put(d, (struct rdma_recv *)wc->wr);
        }
}

static void settle_touched(struct rdma *m)
{
        struct rdma_conn *c;

        while ((c = m->touched) != NULL) {
                m->touched = c->next_touched;
                c->touched = false;
                rdma_conn_settle(c);
        }
}

/* What was given back goes to the SRQ before the answers: who gets one may send the next command. */
static unsigned poll_device(struct rdma_device *d)
{
        struct verbs_wc wc[BATCH];
        unsigned total = 0;
        int n = BATCH;

        for (unsigned i = 0; i < BATCHES && n == BATCH; i++) {
                n = verbs_poll(d->domain, wc, BATCH);
                for (int k = 0; k < n; k++)
                        on_completion(d, &wc[k]);
                total += n > 0 ? (unsigned)n : 0;
                settle_touched(d->rdma);
                rdma_device_post(d);
        }
        return total;
}

/* Those whose sentinels were flushed before their completion queue was seen empty. */
static void end_drained(struct rdma *m)
{
        struct rdma_conn *c = m->drained, *next;

        m->drained = NULL;
        for (; c; c = next) {
                next = c->next_drained;
                c->drained = false;
                rdma_conn_drained(c);
                rdma_conn_settle(c);
        }
}

static unsigned poll_devices(struct rdma *m)
{
        unsigned n = 0;

        for (struct rdma_device *d = m->devices, *next; d; d = next) {
                next = d->next;
                n += poll_device(d);
        }
        if (n == 0 && m->drained)
                end_drained(m);
        return n;
}

unsigned rdma_work(struct rdma *m)
{
        unsigned events = take_events(m), n = poll_devices(m);

        if (n > 0 && m->patience < PATIENCE_LEAST)
                m->patience = PATIENCE_LEAST;
        return events + n;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* There is more to do for the reactor than to wait for completions. */
static bool is_wanted(const struct rdma *m)
{
        const struct reactor *r = m->reactor;

        return m->rung || m->drained || r->again || (r->fed && r->hungry) ||
               atomic_load_explicit(&r->loop.mail, memory_order_relaxed);
}

/*
 * Looks for completions a few times, giving way to others in between: whoever has to make them may
 * need this processor. As long as that finds some, it is cheaper than arming, sleeping and being
 * woken, which are four system calls; where it does not, it soon stops.
 */
static bool poll_patiently(struct rdma *m)
{
        for (unsigned i = 0; i < m->patience; i++) {
                sched_yield();
                if (poll_devices(m) > 0) {
                        m->patience = 2 * m->patience < PATIENCE ? 2 * m->patience : PATIENCE;
                        return true;
                }
        }
        m->patience /= 2;
        return false;
}

/* True: the reactor has to look after others. */
static bool work_on(struct rdma *m)
{
        unsigned rounds = ROUNDS;

        while (m->patience > 0 && rounds > 0 && !is_wanted(m) && poll_patiently(m))
                rounds--;
        return rounds == 0 || is_wanted(m);
}

/* What comes before arming rings no bell: hence one more look. */
int rdma_wait(struct rdma *m, int timeout)
{
        if (timeout == 0 || is_wanted(m))
                return 0;
        if (m->n_fds == 0)
                return ASK_MS;
        if (work_on(m))
                return 0;
        if (!m->armed) {
                m->armed = verbs_arm(m->context) == 0;
                if (poll_devices(m) > 0)
                        return 0;
        }
        return m->armed || timeout < 0 || timeout > ASK_MS ? timeout : ASK_MS;
}

/* --- beginning and end ------------------------------------------------------------------------ */

struct rdma *rdma_start(struct reactor *r, struct verbs_provider *p)
{
        struct rdma *m = calloc(1, sizeof(*m));

        if (!m)
                return NULL;
        m->reactor = r;
        m->context = verbs_open(p);
        if (m->context && rdma_watch(m) == 0)
                return m;
        rdma_stop(m);
        return NULL;
}

void rdma_stop(struct rdma *m)
{
        int saved = errno;

        unwatch(m);
        if (m->context)
                verbs_close(m->context);
        while (m->devices) {
                struct rdma_device *d = m->devices;

                m->devices = d->next;
                d->domain = d->memory.domain = NULL;
                rdma_device_free(d);
        }
        free(m);
        errno = saved;
}
