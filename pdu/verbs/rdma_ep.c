/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_ep.h"

#include <errno.h>
#include <stdlib.h>

#include "pdu/core/bytes.h"

/* --- devices ----------------------------------------------------------------------------------- */

static struct rdma_dev *dev_get(struct rdma_group *g, struct verbs_ep *ep)
{
        struct verbs_domain *domain = verbs_domain(ep);
        struct rdma_dev *d = g->devs;

        if (!domain)
                return NULL;
        while (d && d->domain != domain)
                d = d->next;
        if (!d) {
                d = calloc(1, sizeof(*d));
                if (!d)
                        return NULL;
                *d = (struct rdma_dev) { .next = g->devs,
                                         .domain = domain,
                                         .caps = verbs_caps(domain) };
                g->devs = d;
        }
        d->eps++;
        return d;
}

static void dev_free(struct rdma_group *g, struct rdma_dev *d)
{
        if (g->ops && g->ops->dev_free)
                g->ops->dev_free(d);
        free(d);
}

/* Asks for more than is needed, so that it need not ask for each queue pair. */
int rdma_dev_reserve(struct rdma_dev *d, uint32_t cqes)
{
        uint32_t need = d->cqes + cqes, ask = 2 * d->cq_size;

        if (need > d->cq_size) {
                if (d->caps->cqes)
                        ask = least(ask, d->caps->cqes);
                if (ask <= need || verbs_grow_cq(d->domain, ask) < 0) {
                        ask = need;
                        if (verbs_grow_cq(d->domain, ask) < 0)
                                return -1;
                }
                d->cq_size = ask;
        }
        d->cqes = need;
        return 0;
}

void rdma_dev_unreserve(struct rdma_dev *d, uint32_t cqes)
{
        d->cqes -= cqes;
}

/* --- life -------------------------------------------------------------------------------------- */

/* Hands out what was held back: to be taken now, or to be given back. */
static void empty_held(struct rdma_ep *e, enum verbs_status status)
{
        struct verbs_wr *wr = e->held, *next;

        e->held = NULL;
        e->held_last = &e->held;
        for (; wr; wr = next) {
                struct verbs_wc wc = {
                        .wr = wr, .ep = e->ep, .status = status, .bytes = wr->bytes
                };

                next = wr->next;
                if (status == VERBS_SUCCESS && e->life.state != LIFE_LIVE)
                        wc.status = VERBS_FLUSHED; /* one before it has ended the connection */
                if (e->ops->completed(e, &wc) && wc.status == VERBS_SUCCESS)
                        rdma_ep_step(e, LIFE_FAILED);
        }
}

static void list_drained(struct rdma_ep *e)
{
        struct rdma_group *g = e->group;

        if (e->life.sentinels > 0 || e->drained)
                return;
        e->drained = true;
        e->next_drained = g->drained;
        g->drained = e;
}

/* The SRQ gives this queue pair nothing any more: it says so, once, or its device is gone. */
static void take_last_wqe(struct rdma_ep *e)
{
        e->last_wqe = true;
        if (!e->awaits_last_wqe)
                return;
        e->awaits_last_wqe = false;
        e->life.sentinels--;
        list_drained(e);
}

/* A sentinel that can't be posted is as good as flushed. */
static void fail_queue_pair(struct rdma_ep *e)
{
        struct verbs_wr *send, *recv, *bad = NULL;

        verbs_fail(e->ep);
        send = life_send_sentinel(&e->life);
        recv = e->srq ? NULL : life_recv_sentinel(&e->life);
        if (verbs_post(e->ep, send, &bad) < 0)
                life_sentinel_flushed(&e->life, send);
        if (recv && verbs_post_recv(e->ep, recv, &bad) < 0)
                life_sentinel_flushed(&e->life, recv);
        e->awaits_last_wqe = e->srq && !e->dev->caps->no_last_wqe && !e->last_wqe && !e->dev->gone;
        e->life.sentinels += e->awaits_last_wqe;
        list_drained(e);
}

static void leave_lists(struct rdma_ep *e)
{
        struct rdma_ep **at = &e->group->touched;

        while (e->touched && *at != e)
                at = &(*at)->next_touched;
        if (e->touched)
                *at = e->next_touched;
        at = &e->group->drained;
        while (e->drained && *at != e)
                at = &(*at)->next_drained;
        if (e->drained)
                *at = e->next_drained;
        e->touched = e->drained = false;
}

static void destroy_queue_pair(struct rdma_ep *e)
{
        struct rdma_group *g = e->group;

        leave_lists(e);
        for (struct verbs_wc *wc = g->batch + g->batch_at; wc < g->batch + g->batch_count; wc++) {
                if (!e->ep || wc->ep != e->ep)
                        continue;
                wc->ep = NULL;
                if (!e->srq || wc->wr->op != VERBS_RECV)
                        wc->wr = NULL;
        }
        if (e->ep)
                verbs_destroy(e->ep);
        e->ep = NULL;
        e->life.has_qp = false; /* whatever its life is told: nothing is left to do with it */
}

/* It stays busy, so that RELEASE comes with rdma_ep_release() alone. */
void rdma_ep_step(struct rdma_ep *e, enum life_event why)
{
        enum life_state was = e->life.state;
        unsigned todo;

        if (was == LIFE_RELEASED)
                return;
        life_busy(&e->life);
        todo = life_event(&e->life, why);
        if (e->life.state != was) {
                e->since = e->group->now();
                if (e->ops->moved)
                        e->ops->moved(e, why);
        }
        if (todo & LIFE_DO_REPLAY)
                empty_held(e, VERBS_SUCCESS);
        if (todo & LIFE_DO_DISCONNECT)
                verbs_disconnect(e->ep);
        if (todo & LIFE_DO_FAIL)
                fail_queue_pair(e);
        if (todo & LIFE_DO_END) {
                if (e->life.sentinels > 0)
                        destroy_queue_pair(e);
                empty_held(e, VERBS_FLUSHED);
                if (e->ops->end)
                        e->ops->end(e);
        }
}

void rdma_ep_expire(struct rdma_ep *e, unsigned closing, unsigned draining)
{
        if ((e->life.state == LIFE_CLOSING && rdma_ep_is_older(e, closing)) ||
            (e->life.state == LIFE_DRAINING && rdma_ep_is_older(e, draining)))
                rdma_ep_step(e, LIFE_LATE);
}

bool rdma_ep_release(struct rdma_ep *e)
{
        return e->life.state == LIFE_DEAD &&
               (life_event(&e->life, LIFE_IDLE) & LIFE_DO_RELEASE) != 0;
}

/* --- completions ------------------------------------------------------------------------------- */

static void touch(struct rdma_ep *e)
{
        if (e->touched || !e->ops->settle)
                return;
        e->touched = true;
        e->next_touched = e->group->touched;
        e->group->touched = e;
}

static void received(struct rdma_ep *e, struct verbs_wc *wc)
{
        bool success = wc->status == VERBS_SUCCESS;

        if (success && e->life.state == LIFE_CONNECTING) {
                wc->wr->bytes = wc->bytes;
                wc->wr->next = NULL;
                *e->held_last = wc->wr;
                e->held_last = &wc->wr->next;
                return;
        }
        if (success && e->life.state != LIFE_LIVE)
                wc->status = VERBS_FLUSHED;
        if (e->ops->completed(e, wc) && (!success || wc->status == VERBS_SUCCESS))
                rdma_ep_step(e, LIFE_FAILED);
}

static void completed(struct rdma_ep *e, struct verbs_wc *wc)
{
        if (wc->wr->op == VERBS_RECV) {
                received(e, wc);
                return;
        }
        if (wc->wr->flags & VERBS_SIGNALED)
                e->unfinished--;
        if (e->ops->completed(e, wc))
                rdma_ep_step(e, LIFE_FAILED);
}

static void hand_out(struct rdma_group *g)
{
        while (g->batch_at < g->batch_count) {
                struct verbs_wc wc = g->batch[g->batch_at++];
                struct rdma_ep *e = wc.ep ? verbs_user(wc.ep) : NULL;

                if (!wc.wr) /* of one that was destroyed meanwhile */
                        continue;
                if (e) {
                        if (life_sentinel_flushed(&e->life, wc.wr))
                                list_drained(e);
                        else
                                completed(e, &wc);
                        touch(e);
                } else if (wc.wr->op == VERBS_RECV && g->ops && g->ops->orphan) {
                        g->ops->orphan(g->batch_dev, wc.wr);
                }
        }
}

static void settle_touched(struct rdma_group *g)
{
        struct rdma_ep *e;

        while ((e = g->touched) != NULL) {
                g->touched = e->next_touched;
                e->touched = false;
                e->ops->settle(e);
        }
}

static unsigned poll_dev(struct rdma_group *g, struct rdma_dev *d, unsigned batches)
{
        unsigned total = 0;
        int n = RDMA_BATCH;

        for (; batches > 0 && n == RDMA_BATCH; batches--) {
                n = verbs_poll(d->domain, g->batch, RDMA_BATCH);
                d->gone |= n < 0;
                if (n <= 0)
                        break;
                g->batch_dev = d;
                g->batch_at = 0;
                g->batch_count = (unsigned)n;
                total += (unsigned)n;
                hand_out(g);
                settle_touched(g);
        }
        return total;
}

static unsigned poll_devs(struct rdma_group *g, unsigned batches)
{
        struct rdma_dev **at = &g->devs, *d;
        unsigned n = 0;

        while ((d = *at) != NULL) {
                n += poll_dev(g, d, batches);
                if (d->gone && d->eps == 0) {
                        *at = d->next;
                        dev_free(g, d);
                } else {
                        at = &d->next;
                }
        }
        return n;
}

unsigned rdma_group_poll(struct rdma_group *g, unsigned batches)
{
        unsigned n = g->batch_count - g->batch_at;
        struct rdma_ep *e;

        hand_out(g);
        n += poll_devs(g, batches);
        e = g->drained;
        if (n > 0 || !e)
                return n;
        g->drained = e->next_drained; /* it was flushed, and then the queues were seen empty */
        e->drained = false;
        rdma_ep_step(e, LIFE_DRAINED);
        if (e->ops->settle)
                e->ops->settle(e);
        return 1;
}

/* --- events ------------------------------------------------------------------------------------ */

static int try_resolve(struct rdma_ep *e)
{
        struct rdma_group *g = e->group;
        uint64_t now = g->now();
        uint64_t left = e->give_up > now ? e->give_up - now : 0;

        if (e->ep)
                verbs_destroy(e->ep);
        e->ep = verbs_resolve(g->context, e->traddr, e->trsvcid,
                              left < e->try_ms ? (unsigned)left + 1 : e->try_ms);
        e->try_ms *= 2;
        if (!e->ep)
                return -1;
        verbs_set_user(e->ep, e);
        return 0;
}

/* Of one that is not resolved yet. False: another try, nothing is to be told. */
static bool resolve_event(struct rdma_ep *e, struct verbs_event *v)
{
        if (v->type == VERBS_UNREACHABLE && abs(v->reason) == ETIMEDOUT &&
            e->group->now() < e->give_up) {
                if (try_resolve(e) == 0)
                        return false;
                v->reason = errno;
        } else if (v->type == VERBS_RESOLVED) {
                e->dev = dev_get(e->group, e->ep);
                if (!e->dev) {
                        v->type = VERBS_UNREACHABLE;
                        v->reason = errno;
                }
        }
        return true;
}

static void ep_event(struct rdma_ep *e, struct verbs_event *v)
{
        enum life_event why;

        if (!e->dev && !resolve_event(e, v))
                return;
        why = life_event_of(v->type);
        if (why == LIFE_REMOVED && e->dev)
                e->dev->gone = true;
        if (v->type == VERBS_LAST_WQE || why == LIFE_REMOVED)
                take_last_wqe(e);
        if ((!e->ops->event || e->ops->event(e, v)) && why != LIFE_EVENTS)
                rdma_ep_step(e, why);
        if (e->ops->settle)
                e->ops->settle(e);
}

static void group_event(struct rdma_group *g, struct verbs_event *v)
{
        if (v->type == VERBS_CONNECT_REQUEST && g->ops && g->ops->request)
                g->ops->request(g, v);
        else if (v->type == VERBS_CONNECT_REQUEST)
                rdma_ep_refuse(v->ep, NULL, 0);
        else if (v->ep && verbs_user(v->ep))
                ep_event(verbs_user(v->ep), v);
        else if (v->type == VERBS_DEVICE_REMOVED && !v->ep && v->listener && g->ops &&
                 g->ops->listener_lost)
                g->ops->listener_lost(g, v->listener);
}

unsigned rdma_group_events(struct rdma_group *g, unsigned max)
{
        struct verbs_event v;
        unsigned n = 0;

        for (; n < max && verbs_event(g->context, &v); n++)
                group_event(g, &v);
        return n;
}

/* --- groups ------------------------------------------------------------------------------------ */

int rdma_group_open(struct rdma_group *g, struct verbs_provider *p,
                    const struct rdma_group_ops *ops, uint64_t (*now)(void))
{
        *g = (struct rdma_group) { .context = verbs_open(p), .ops = ops, .now = now };
        return g->context ? 0 : -1;
}

void rdma_group_close(struct rdma_group *g)
{
        struct rdma_dev *d;

        if (g->context)
                verbs_close(g->context);
        g->context = NULL;
        while ((d = g->devs) != NULL) {
                g->devs = d->next;
                d->domain = NULL;
                dev_free(g, d);
        }
}

/* --- endpoints --------------------------------------------------------------------------------- */

void rdma_ep_init(struct rdma_ep *e, struct rdma_group *g, const struct rdma_ep_ops *ops)
{
        *e = (struct rdma_ep) { .group = g, .ops = ops, .since = g->now() };
        e->held_last = &e->held;
        life_init(&e->life);
}

int rdma_ep_resolve(struct rdma_ep *e, const char *traddr, const char *trsvcid, unsigned ms)
{
        e->traddr = traddr;
        e->trsvcid = trsvcid;
        e->try_ms = RDMA_RESOLVE_MS;
        e->give_up = e->group->now() + ms;
        return try_resolve(e);
}

int rdma_ep_take(struct rdma_ep *e, struct verbs_ep *ep)
{
        e->dev = dev_get(e->group, ep);
        if (!e->dev)
                return -1;
        e->ep = ep;
        verbs_set_user(ep, e);
        return 0;
}

int rdma_ep_local(struct rdma_ep *e, const char *traddr)
{
        struct verbs_ep *ep = verbs_local(e->group->context, traddr);
        int why;

        if (!ep)
                return -1;
        if (rdma_ep_take(e, ep) == 0)
                return 0;
        why = errno;
        verbs_destroy(ep);
        errno = why;
        return -1;
}

int rdma_ep_qp(struct rdma_ep *e, struct verbs_qp_attr *attr)
{
        const struct verbs_caps *caps = e->dev->caps;
        uint32_t most = caps->qp_wrs ? caps->qp_wrs - 1 : UINT32_MAX - 1;
        struct verbs_qp_attr qp;

        e->srq = attr->recv_wrs == 0;
        attr->send_wrs = least(attr->send_wrs, most);
        attr->recv_wrs = least(attr->recv_wrs, most);
        attr->inline_bytes = least(attr->inline_bytes, caps->inline_bytes);
        qp = *attr;
        qp.send_wrs++;
        qp.recv_wrs += e->srq ? 0 : 1;
        if (rdma_dev_reserve(e->dev, qp.send_wrs + qp.recv_wrs) < 0)
                return -1;
        e->cqes = qp.send_wrs + qp.recv_wrs;
        if (verbs_qp(e->ep, &qp) < 0)
                return -1;
        e->life.has_qp = true;
        return 0;
}

void rdma_ep_refuse(struct verbs_ep *ep, const void *data, uint8_t len)
{
        verbs_reject(ep, data, len);
        verbs_destroy(ep);
}

int rdma_ep_post(struct rdma_ep *e, struct verbs_wr *chain, struct verbs_wr **bad)
{
        for (const struct verbs_wr *wr = chain; wr; wr = wr->next)
                e->unfinished += wr->flags & VERBS_SIGNALED ? 1 : 0;
        return verbs_post(e->ep, chain, bad);
}

void rdma_ep_flushed(struct rdma_ep *e, struct verbs_wr *bad)
{
        for (struct verbs_wr *next; bad; bad = next) {
                next = bad->next;
                completed(e,
                          &(struct verbs_wc) { .wr = bad, .ep = e->ep, .status = VERBS_FLUSHED });
        }
}

int rdma_ep_disconnect(struct rdma_ep *e)
{
        if (e->ep)
                return verbs_disconnect(e->ep);
        errno = ENOTCONN;
        return -1;
}

int rdma_ep_fail(struct rdma_ep *e)
{
        if (e->ep)
                return verbs_fail(e->ep);
        errno = ENOTCONN;
        return -1;
}

void rdma_ep_destroy(struct rdma_ep *e)
{
        destroy_queue_pair(e);
        if (e->dev) {
                rdma_dev_unreserve(e->dev, e->cqes);
                e->dev->eps--;
        }
        e->cqes = 0;
        e->dev = NULL;
}
