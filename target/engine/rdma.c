/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "family.h"
#include "pdu/io/net.h"
#include "reactor.h"

enum {
        BATCHES = 64,  /* of completions of one device in a turn: see below */
        EVENTS = 64,   /* in a turn */
        BACKLOG = 256, /* connect requests that wait */
        ASK_MS = 1,    /* a context without descriptors is asked so often */
        PATIENCE = 32, /* looks before sleeping, at most; and after being woken */
        PATIENCE_LEAST = 4,
        ROUNDS = 64, /* of looks that found something, before the reactor looks after others */
};

static void on_ready(struct rdma_loop *l, bool events)
{
        struct rdma *m = (struct rdma *)(void *)((char *)l - offsetof(struct rdma, loop));

        m->rung |= events;
        m->armed = false;
}

/* --- listeners -------------------------------------------------------------------------------- */

static int listen_again(struct rdma_listener *l)
{
        l->verbs = verbs_listen(l->rdma->group.context, l->traddr, l->trsvcid, BACKLOG);
        return l->verbs ? 0 : -1;
}

int rdma_port_listen(struct rdma *m, struct rdma_listener *l)
{
        l->rdma = m;
        if (listen_again(l) < 0)
                return -1;
        l->next = m->listeners;
        m->listeners = l;
        return rdma_loop_update(&m->loop);
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

void rdma_sweep(struct rdma *m)
{
        for (struct rdma_listener *l = m->listeners; l; l = l->next)
                if (!l->verbs)
                        listen_again(l);
        for (struct rdma_dev *d = m->group.devs; d; d = d->next)
                if (d->user)
                        rdma_device_trim(d->user);
}

/* Of "192.0.2.7:4420" or "[2001:db8::7]:4420". */
struct conn_peer rdma_peer(const struct verbs_ep *ep)
{
        char text[NET_TRADDR], addr[NET_TRADDR], port[32];

        verbs_addresses(ep, NULL, text, sizeof(text));
        return net_split(text, addr, port) ? conn_peer_of(addr, (uint16_t)strtoul(port, NULL, 10))
                                           : conn_peer_of(text, 0);
}

/* --- what comes ------------------------------------------------------------------------------- */

static void on_request(struct rdma_group *g, const struct verbs_event *e)
{
        struct rdma *m = (struct rdma *)g;
        struct rdma_listener *l = find_listener(m, e->listener);

        if (l && l->accepting)
                l->request(l, e);
        else
                m->reactor->service->family->reject_rdma(m->reactor->service, e->ep);
}

/* The address may come back, with another device. */
static void on_listener_lost(struct rdma_group *g, struct verbs_listener *verbs)
{
        struct rdma_listener *l = find_listener((struct rdma *)g, verbs);

        if (!l)
                return;
        verbs_unlisten(l->verbs);
        l->verbs = NULL;
}

static void on_orphan(struct rdma_dev *dev, struct verbs_wr *recv)
{
        rdma_device_recv_put(dev->user, (struct rdma_recv *)recv);
}

static unsigned take_events(struct rdma *m)
{
        unsigned n;

        if (!m->rung && m->loop.count > 0)
                return 0;
        n = rdma_group_events(&m->group, EVENTS);
        m->rung = n == EVENTS;
        return n;
}

/* BATCHES are far more than what a few hosts cause in a turn, so that capsules wait by host, for their
 * conn_budget(), and not all of them in one completion queue.
 * Connections that go on have posted what was given back to the SRQ; the others have not. */
static unsigned poll_devices(struct rdma *m)
{
        unsigned n = rdma_group_poll(&m->group, BATCHES);

        m->hits += n > 0;
        m->misses += n == 0;
        for (struct rdma_dev *d = m->group.devs; d && n > 0; d = d->next)
                if (d->user)
                        rdma_device_post(d->user);
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

        return m->rung || m->group.drained || r->again || (r->fed && r->hungry) ||
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

/* What comes before arming wakes nobody: hence one more look. */
int rdma_wait(struct rdma *m, int timeout)
{
        if (timeout == 0 || is_wanted(m))
                return 0;
        if (m->loop.count == 0)
                return ASK_MS;
        if (work_on(m))
                return 0;
        if (!m->armed) {
                m->armed = verbs_arm(m->group.context) == 0;
                if (poll_devices(m) > 0)
                        return 0;
        }
        return m->armed || timeout < 0 || timeout > ASK_MS ? timeout : ASK_MS;
}

/* --- beginning and end ------------------------------------------------------------------------ */

struct rdma *rdma_start(struct reactor *r, struct verbs_provider *p)
{
        static const struct rdma_group_ops ops = { .request = on_request,
                                                   .listener_lost = on_listener_lost,
                                                   .dev_free = rdma_device_free,
                                                   .orphan = on_orphan };
        struct rdma *m = calloc(1, sizeof(*m));

        if (!m)
                return NULL;
        m->reactor = r;
        if (rdma_group_open(&m->group, p, &ops, loop_now_ms) == 0) {
                m->loop = (struct rdma_loop) { .loop = &r->loop,
                                               .context = m->group.context,
                                               .ready = on_ready };
                if (rdma_loop_update(&m->loop) == 0)
                        return m;
        }
        rdma_stop(m);
        return NULL;
}

void rdma_stop(struct rdma *m)
{
        int saved = errno;

        rdma_loop_end(&m->loop);
        rdma_group_close(&m->group);
        free(m);
        errno = saved;
}
