/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests in memory: what a reliable connection does with them, and with the keys. */
#include "memory_own.h"

static struct memory_work *work_of(struct chained *c)
{
        return (struct memory_work *)(void *)c;
}

/* --- completions ------------------------------------------------------------------------------- */

static void memory_work_free(struct memory_fabric *f, struct memory_work *w)
{
        while (w) {
                struct memory_work *covered = w->covers;

                if (w->ep && w->own.op != VERBS_RECV)
                        w->ep->sends_used--;
                else if (w->ep && !w->srq)
                        w->ep->recvs_used--;
                else if (w->srq)
                        w->srq->srq_used--;
                map_remove(&f->work, (uintptr_t)w->wr);
                free(w);
                w = covered;
        }
}

static void received(struct verbs_ep *ep, struct memory_work *w, enum verbs_status status)
{
        w->status = status;
        w->state = WORK_DONE;
        fifo_push(&ep->received, &w->chain);
        memory_ready(ep);
}

/* Completions come in order: those at the front that are done. An error is the last that is. */
static void collect(struct verbs_ep *ep)
{
        struct memory_work *w;

        while ((w = work_of(ep->sends.head)) && w->state == WORK_DONE) {
                fifo_pop(&ep->sends);
                if (w->status == VERBS_SUCCESS && !(w->own.flags & VERBS_SIGNALED)) {
                        w->covers = ep->silent;
                        ep->silent = w;
                        continue;
                }
                w->covers = ep->silent;
                ep->silent = NULL;
                fifo_push(&ep->sent, &w->chain);
                if (w->status != VERBS_SUCCESS)
                        return;
        }
}

static void flush_sends(struct verbs_ep *ep)
{
        struct memory_work *w;

        while ((w = fifo_pop(&ep->sends))) {
                w->status = VERBS_FLUSHED;
                w->state = WORK_DONE;
                w->covers = ep->silent;
                ep->silent = NULL;
                fifo_push(&ep->sent, &w->chain);
        }
}

void memory_qp_fail(struct verbs_ep *ep)
{
        struct memory_work *w;

        if (ep->qp != MEMORY_QP_NEW && ep->qp != MEMORY_QP_LIVE)
                return;
        ep->qp = MEMORY_QP_ERROR;
        ep->in_hand = NULL;
        ep->reads = 0;
        flush_sends(ep);
        if (ep->claimed)
                received(ep, ep->claimed, VERBS_FLUSHED);
        ep->claimed = NULL;
        while ((w = fifo_pop(&ep->recvs)))
                received(ep, w, VERBS_FLUSHED);
        ep->last_wqe = ep->attr.recv_wrs == 0 && !ep->o.fabric->caps.device.no_last_wqe;
        memory_ready(ep);
        if (ep->peer)
                memory_ready(ep->peer);
        if (ep->cm == CM_LOCAL)
                memory_wake_joined(ep->o.fabric);
}

static bool turn_of(unsigned *in)
{
        return *in > 0 && --*in == 0;
}

static void finish_reads_before(struct verbs_ep *ep, const struct memory_work *w);

static void fail_send(struct verbs_ep *ep, struct memory_work *w, enum verbs_status status)
{
        finish_reads_before(ep, w);
        if (ep->qp != MEMORY_QP_LIVE)
                return; /* one of those failed first: this one is flushed */
        w->status = status;
        w->state = WORK_DONE;
        collect(ep);
        memory_qp_fail(ep);
}

/* What the responder does not stand for: both queue pairs fail. */
static void fail_both(struct verbs_ep *ep, struct memory_work *w, enum verbs_status status)
{
        struct verbs_ep *peer = ep->peer;

        fail_send(ep, w, status);
        if (peer && peer->qp == MEMORY_QP_LIVE) {
                memory_qp_fail(peer);
                memory_send_event(peer, VERBS_QP_ERROR);
        }
}

static void done(struct verbs_ep *ep, struct memory_work *w)
{
        if (turn_of(&ep->fail_in)) {
                fail_send(ep, w, ep->fail_status);
                return;
        }
        w->status = VERBS_SUCCESS;
        w->state = WORK_DONE;
        collect(ep);
}

/* --- what is carried out ----------------------------------------------------------------------- */

static uint32_t bytes_of(const struct verbs_wr *wr)
{
        uint32_t n = 0;

        for (unsigned i = 0; i < wr->n_sge; i++)
                n += wr->sge[i].len;
        return n;
}

/* Copies between two lists of segments; how many bytes. */
static uint32_t copy(const struct verbs_wr *to, const struct verbs_wr *from)
{
        uint32_t at = 0, back = 0, total = 0, n;
        unsigned t = 0, f = 0;

        while (t < to->n_sge && f < from->n_sge) {
                n = to->sge[t].len - at < from->sge[f].len - back ? to->sge[t].len - at
                                                                  : from->sge[f].len - back;
                if (n > 0)
                        memcpy((uint8_t *)to->sge[t].addr + at, (uint8_t *)from->sge[f].addr + back,
                               n);
                at += n;
                back += n;
                total += n;
                if (at == to->sge[t].len) {
                        t++;
                        at = 0;
                }
                if (back == from->sge[f].len) {
                        f++;
                        back = 0;
                }
        }
        return total;
}

/* The other side's memory as a list of one segment. */
static struct verbs_wr remote_list(const struct memory_work *w, uint32_t len)
{
        struct verbs_wr list = { .n_sge = 1 };

        list.sge[0].addr = (void *)(uintptr_t)w->own.remote;
        list.sge[0].len = len;
        return list;
}

static void receive_failed(struct verbs_ep *ep, struct memory_work *w, struct memory_work *rx,
                           enum verbs_status rx_status, enum verbs_status status)
{
        struct verbs_ep *peer = ep->peer;

        received(peer, rx, rx_status);
        memory_qp_fail(peer);
        fail_send(ep, w, status);
}

/* SEND with invalidate: the receiver's window, or its MR where the device does that. */
static bool invalidate(struct verbs_ep *responder, uint32_t key)
{
        struct memory_key *k = memory_key_usable(responder, key);

        if (!k || (!k->window && !responder->o.fabric->caps.device.invalidates_mr))
                return false;
        if (k->window)
                memory_unbind(k);
        else
                k->usable = false;
        return true;
}

static void finish_send(struct verbs_ep *ep, struct memory_work *w)
{
        struct verbs_ep *peer = ep->peer;
        struct memory_work *rx = peer->claimed;

        peer->claimed = NULL;
        if (memory_check_local(rx, peer->domain) != VERBS_SUCCESS) {
                receive_failed(ep, w, rx, VERBS_LOCAL_PROTECTION, VERBS_REMOTE_OPERATION);
                return;
        }
        if (bytes_of(&w->own) > bytes_of(&rx->own)) {
                receive_failed(ep, w, rx, VERBS_LOCAL_LENGTH, VERBS_REMOTE_INVALID);
                return;
        }
        rx->bytes = copy(&rx->own, &w->own);
        if (w->own.op == VERBS_SEND_INVALIDATE) {
                if (!invalidate(peer, w->own.rkey)) {
                        receive_failed(ep, w, rx, VERBS_REMOTE_INVALID, VERBS_RETRY_EXCEEDED);
                        return;
                }
                rx->invalidated = true;
                rx->invalid_key = w->own.rkey;
        }
        if (turn_of(&peer->fail_in)) {
                received(peer, rx, peer->fail_status);
                memory_qp_fail(peer);
        } else {
                received(peer, rx, VERBS_SUCCESS);
        }
        done(ep, w);
}

static void finish_write(struct verbs_ep *ep, struct memory_work *w)
{
        uint32_t len = bytes_of(&w->own);
        struct verbs_wr to = remote_list(w, len);

        if (!memory_remote_ok(ep->peer, &w->own, len, VERBS_REMOTE_WRITE)) {
                fail_both(ep, w, VERBS_REMOTE_ACCESS);
                return;
        }
        copy(&to, &w->own);
        done(ep, w);
}

/* The SEND or WRITE that has started. */
static void finish(struct verbs_ep *ep)
{
        struct memory_work *w = ep->in_hand;
        enum verbs_status status = memory_check_local(w, ep->domain);

        ep->in_hand = NULL;
        if (status != VERBS_SUCCESS)
                fail_send(ep, w, status);
        else if (!ep->peer || ep->peer->qp != MEMORY_QP_LIVE)
                fail_send(ep, w, VERBS_RETRY_EXCEEDED);
        else if (w->own.op == VERBS_WRITE)
                finish_write(ep, w);
        else
                finish_send(ep, w);
}

static void finish_read(struct verbs_ep *ep, struct memory_work *w)
{
        uint32_t len = bytes_of(&w->own);
        struct verbs_wr from = remote_list(w, len);

        ep->reads--;
        if (memory_check_local(w, ep->domain) != VERBS_SUCCESS)
                fail_send(ep, w, VERBS_LOCAL_PROTECTION);
        else if (!ep->peer || ep->peer->qp != MEMORY_QP_LIVE)
                fail_send(ep, w, VERBS_RETRY_EXCEEDED);
        else if (!memory_remote_ok(ep->peer, &w->own, len, VERBS_REMOTE_READ))
                fail_both(ep, w, VERBS_REMOTE_ACCESS);
        else {
                copy(&w->own, &from);
                done(ep, w);
        }
}

static struct memory_work *first_read(const struct verbs_ep *ep)
{
        struct memory_work *w = work_of(ep->sends.head);

        while (w && (w->state != WORK_STARTED || w->own.op != VERBS_READ))
                w = work_of(w->chain.next);
        return w;
}

/* They were answered before that one was refused. */
static void finish_reads_before(struct verbs_ep *ep, const struct memory_work *w)
{
        struct memory_work *at;

        while (ep->qp == MEMORY_QP_LIVE && ep->reads > 0) {
                at = work_of(ep->sends.head);
                while (at && at != w && (at->state != WORK_STARTED || at->own.op != VERBS_READ))
                        at = work_of(at->chain.next);
                if (!at || at == w)
                        return;
                finish_read(ep, at);
        }
}

/* --- starting ---------------------------------------------------------------------------------- */

static void tap_work(struct verbs_ep *ep, const struct memory_work *w)
{
        static const enum memory_act acts[] = {
                [VERBS_SEND] = MEMORY_SEND,
                [VERBS_SEND_INVALIDATE] = MEMORY_SEND,
                [VERBS_READ] = MEMORY_READ,
                [VERBS_WRITE] = MEMORY_WRITE,
        };
        uint32_t len = bytes_of(&w->own);
        uint8_t *whole = NULL;
        struct memory_tap_entry e = { .act = acts[w->own.op],
                                      .len = len,
                                      .addr = w->own.remote,
                                      .key = w->own.rkey,
                                      .invalidates = w->own.op == VERBS_SEND_INVALIDATE };

        if (w->own.n_sge > 0 && w->own.op != VERBS_READ)
                e.data = w->own.sge[0].addr;
        if (w->own.n_sge > 1 && e.data && (whole = malloc(len ? len : 1))) {
                struct verbs_wr to = { .n_sge = 1, .sge = { { whole, len, 0 } } };

                copy(&to, &w->own);
                e.data = whole;
        }
        memory_tap(ep, &e);
        free(whole);
}

static void start_bind(struct verbs_ep *ep, struct memory_work *w)
{
        const struct verbs_window *v = &w->window;
        struct memory_key *k = memory_key_of(ep->domain, v->rkey);
        struct memory_key *mr = v->mr ? memory_key_of(ep->domain, v->mr->lkey) : NULL;

        if (!k || !k->window || k->usable || !mr || mr->window || !(mr->access & VERBS_WINDOWS) ||
            !memory_key_holds(mr, (uintptr_t)v->addr, v->len)) {
                fail_send(ep, w, VERBS_BIND_ERROR);
                return;
        }
        k->rkey = v->rkey;
        k->addr = v->addr;
        k->len = v->len;
        k->access = v->access;
        k->mr = mr;
        k->ep = ep;
        k->usable = true;
        done(ep, w);
}

static void start_invalidate(struct verbs_ep *ep, struct memory_work *w)
{
        struct memory_key *k = memory_key_usable(ep, w->own.rkey);

        if (!k || !k->window) {
                fail_send(ep, w, VERBS_LOCAL_QP);
                return;
        }
        memory_unbind(k);
        done(ep, w);
}

static void start_read(struct verbs_ep *ep, struct memory_work *w)
{
        uint32_t len = bytes_of(&w->own);

        tap_work(ep, w);
        if (ep->reads >= ep->peer->param.reads_in) {
                fail_both(ep, w, VERBS_REMOTE_INVALID);
        } else if (!memory_remote_ok(ep->peer, &w->own, len, VERBS_REMOTE_READ)) {
                fail_both(ep, w, VERBS_REMOTE_ACCESS);
        } else {
                w->state = WORK_STARTED;
                ep->reads++;
        }
}

static void start_write(struct verbs_ep *ep, struct memory_work *w)
{
        tap_work(ep, w);
        if (!memory_remote_ok(ep->peer, &w->own, bytes_of(&w->own), VERBS_REMOTE_WRITE)) {
                fail_both(ep, w, VERBS_REMOTE_ACCESS);
                return;
        }
        w->state = WORK_STARTED;
        ep->in_hand = w;
}

static struct fifo *recvs_of(struct verbs_ep *ep)
{
        return ep->attr.recv_wrs > 0 ? &ep->recvs : &ep->domain->srq;
}

/* Nothing to receive it: tried again as often as the receiver said (7: not here, it waits). */
static void not_ready(struct verbs_ep *ep, struct memory_work *w)
{
        if (ep->o.fabric->caps.device.iwarp)
                fail_both(ep, w, VERBS_REMOTE_OPERATION); /* RFC 5041 6.6.2 */
        else if (ep->rnr_left >= ep->theirs.rnr_retry)
                fail_send(ep, w, VERBS_RNR_EXCEEDED);
        else
                ep->rnr_left++;
}

static void start_send(struct verbs_ep *ep, struct memory_work *w)
{
        struct memory_work *rx = fifo_pop(recvs_of(ep->peer));

        if (!rx) {
                not_ready(ep, w);
                return;
        }
        ep->rnr_left = 0;
        rx->ep = ep->peer;
        ep->peer->claimed = rx;
        tap_work(ep, w);
        w->state = WORK_STARTED;
        ep->in_hand = w;
}

static struct memory_work *first_queued(const struct verbs_ep *ep)
{
        struct memory_work *w = work_of(ep->sends.head);

        while (w && w->state != WORK_QUEUED)
                w = work_of(w->chain.next);
        return w;
}

static void start_remote(struct verbs_ep *ep, struct memory_work *w)
{
        if (!ep->peer || ep->peer->qp != MEMORY_QP_LIVE)
                fail_send(ep, w, VERBS_RETRY_EXCEEDED);
        else if (w->own.op == VERBS_READ)
                start_read(ep, w);
        else if (w->own.op == VERBS_WRITE)
                start_write(ep, w);
        else
                start_send(ep, w);
}

static void start(struct verbs_ep *ep)
{
        struct memory_work *w = first_queued(ep);
        enum verbs_status status = memory_check_local(w, ep->domain);

        if (turn_of(&ep->fail_work_in))
                fail_send(ep, w, ep->fail_work_status);
        else if (status != VERBS_SUCCESS)
                fail_send(ep, w, status);
        else if (w->own.op == VERBS_BIND)
                start_bind(ep, w);
        else if (w->own.op == VERBS_INVALIDATE)
                start_invalidate(ep, w);
        else
                start_remote(ep, w);
}

static bool is_send(const struct memory_work *w)
{
        return w->own.op == VERBS_SEND || w->own.op == VERBS_SEND_INVALIDATE;
}

/* A SEND for whom nothing is posted, and who is to wait forever. */
static bool waits_for_recv(struct verbs_ep *ep, const struct memory_work *w)
{
        if (!is_send(w) || recvs_of(ep->peer)->head || ep->theirs.rnr_retry < 7 ||
            ep->o.fabric->caps.device.iwarp)
                return false;
        if (ep->peer->attr.recv_wrs == 0)
                ep->peer->domain->starved = true;
        return true;
}

static bool may_start(struct verbs_ep *ep)
{
        const struct memory_work *w = ep->qp == MEMORY_QP_LIVE ? first_queued(ep) : NULL;

        if (!w || ep->in_hand || ((w->own.flags & VERBS_FENCE) && ep->reads > 0))
                return false;
        if (w->own.op == VERBS_BIND || w->own.op == VERBS_INVALIDATE)
                return true;
        if (!ep->peer || ep->peer->qp == MEMORY_QP_ERROR)
                return !memory_awaits(ep);
        if (ep->peer->qp != MEMORY_QP_LIVE || (is_send(w) && ep->peer->claimed))
                return false; /* it has not heard of the reply yet */
        if (w->own.op == VERBS_READ)
                return ep->reads == 0 || ep->reads < ep->param.reads_out;
        return !waits_for_recv(ep, w);
}

unsigned memory_work_may(struct verbs_ep *ep)
{
        unsigned may = 0;

        if (may_start(ep))
                may |= WORK_START;
        if (ep->in_hand)
                may |= WORK_FINISH;
        if (ep->reads > 0)
                may |= WORK_FINISH_READ;
        if (ep->sent.head)
                may |= WORK_SENT;
        if (ep->received.head)
                may |= WORK_RECEIVED;
        else if (ep->last_wqe)
                may |= WORK_LAST_WQE;
        return may;
}

/* --- the completion queue ---------------------------------------------------------------------- */

static void arrive(struct verbs_domain *d, struct memory_work *w)
{
        struct verbs_context *c = d->context;

        MUST(d->cq_used < d->cq_room, "completion queue overrun");
        fifo_push(&d->cq, &w->chain);
        d->cq_used++;
        if (!c->armed)
                return;
        c->armed = false;
        c->rung = true;
        memory_changed(c);
}

void memory_work_do(struct verbs_ep *ep, unsigned bit)
{
        if (bit == WORK_START) {
                start(ep);
        } else if (bit == WORK_FINISH) {
                finish(ep);
        } else if (bit == WORK_FINISH_READ) {
                finish_read(ep, first_read(ep));
        } else if (bit == WORK_SENT) {
                arrive(ep->domain, fifo_pop(&ep->sent));
        } else if (bit == WORK_RECEIVED) {
                arrive(ep->domain, fifo_pop(&ep->received));
        } else {
                ep->last_wqe = false;
                memory_send_event(ep, VERBS_LAST_WQE);
        }
        if (ep->peer)
                memory_ready(ep->peer);
}

int memory_poll(struct verbs_domain *d, struct verbs_wc *wc, int max)
{
        struct memory_work *w;
        int n = 0;

        ALIVE(d);
        while (n < max && (w = fifo_pop(&d->cq))) {
                wc[n++] = (struct verbs_wc) { w->wr,    w->ep,          w->status,
                                              w->bytes, w->invalidated, w->invalid_key };
                d->cq_used--;
                memory_work_free(d->o.fabric, w);
        }
        return n == 0 && d->context->removed ? -1 : n;
}

/* --- posting ----------------------------------------------------------------------------------- */

static uint32_t inline_of(const struct verbs_wr *wr)
{
        return wr->flags & VERBS_INLINE && wr->op != VERBS_RECV ? bytes_of(wr) : 0;
}

static struct memory_work *work_new(struct memory_fabric *f, struct verbs_wr *wr)
{
        uint32_t extra = inline_of(wr);
        struct memory_work *w = malloc(sizeof(*w) + extra);

        MUST(!map_get(&f->work, (uintptr_t)wr), "posted again while it is outstanding");
        if (!w || map_put(&f->work, (uintptr_t)wr, w) < 0) {
                free(w);
                errno = ENOMEM;
                return NULL;
        }
        *w = (struct memory_work) { .wr = wr, .own = *wr };
        if (extra > 0) {
                struct verbs_wr to = { .n_sge = 1, .sge = { { w->data, extra, 0 } } };

                copy(&to, wr);
                w->own.sge[0] = to.sge[0];
                w->own.n_sge = 1;
        }
        if (wr->op == VERBS_BIND)
                w->window = *wr->window;
        return w;
}

static int may_post(const struct verbs_ep *ep, const struct verbs_wr *wr)
{
        const struct verbs_caps *caps = &ep->o.fabric->caps.device;

        if (wr->op == VERBS_RECV || wr->n_sge > caps->sges || wr->n_sge > VERBS_SGES ||
            inline_of(wr) > ep->attr.inline_bytes || (wr->op == VERBS_BIND && !caps->windows) ||
            (wr->op == VERBS_READ && ep->param.reads_out == 0))
                return fail_with(EINVAL);
        if (ep->qp != MEMORY_QP_LIVE && ep->qp != MEMORY_QP_ERROR)
                return fail_with(EINVAL);
        return ep->sends_used < ep->attr.send_wrs ? 0 : fail_with(ENOMEM);
}

static int post_one(struct verbs_ep *ep, struct verbs_wr *wr)
{
        struct memory_work *w;

        if (may_post(ep, wr) < 0)
                return -1;
        w = work_new(ep->o.fabric, wr);
        if (!w)
                return -1;
        w->ep = ep;
        ep->sends_used++;
        fifo_push(&ep->sends, &w->chain);
        return 0;
}

int memory_post(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        int ret = 0;

        ALIVE(ep);
        MUST(ep->qp != MEMORY_QP_NONE, "no queue pair to post to");
        *bad = chain;
        if (memory_refused(ep->o.fabric, MEMORY_POST))
                return -1;
        while (*bad && (ret = post_one(ep, *bad)) == 0)
                *bad = (*bad)->next;
        if (ep->qp == MEMORY_QP_ERROR)
                flush_sends(ep);
        memory_ready(ep);
        return ret;
}

static int may_recv(const struct memory_fabric *f, const struct verbs_wr *wr, uint32_t used,
                    uint32_t room)
{
        if (wr->op != VERBS_RECV || wr->n_sge > f->caps.device.sges || wr->n_sge > VERBS_SGES)
                return fail_with(EINVAL);
        return used < room ? 0 : fail_with(ENOMEM);
}

static int recv_one(struct verbs_ep *ep, struct verbs_wr *wr)
{
        struct memory_work *w;

        if (may_recv(ep->o.fabric, wr, ep->recvs_used, ep->attr.recv_wrs) < 0)
                return -1;
        w = work_new(ep->o.fabric, wr);
        if (!w)
                return -1;
        w->ep = ep;
        ep->recvs_used++;
        if (ep->qp == MEMORY_QP_ERROR)
                received(ep, w, VERBS_FLUSHED);
        else
                fifo_push(&ep->recvs, &w->chain);
        return 0;
}

int memory_post_recv(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        int ret = 0;

        ALIVE(ep);
        MUST(ep->qp != MEMORY_QP_NONE, "no queue pair to post to");
        *bad = chain;
        if (memory_refused(ep->o.fabric, MEMORY_POST))
                return -1;
        while (*bad && (ret = recv_one(ep, *bad)) == 0)
                *bad = (*bad)->next;
        if (ep->peer)
                memory_ready(ep->peer);
        return ret;
}

static int srq_one(struct verbs_domain *d, struct verbs_wr *wr)
{
        struct memory_work *w;

        if (may_recv(d->o.fabric, wr, d->srq_used, d->srq_wrs) < 0)
                return -1;
        w = work_new(d->o.fabric, wr);
        if (!w)
                return -1;
        w->srq = d;
        d->srq_used++;
        fifo_push(&d->srq, &w->chain);
        return 0;
}

static void feed(struct verbs_domain *d)
{
        d->starved = false;
        for (struct verbs_ep *ep = d->o.fabric->eps; ep; ep = ep->next)
                if (ep->peer && ep->peer->domain == d)
                        memory_ready(ep);
}

int memory_post_srq(struct verbs_domain *d, struct verbs_wr *chain, struct verbs_wr **bad)
{
        int ret = 0;

        ALIVE(d);
        *bad = chain;
        if (memory_refused(d->o.fabric, MEMORY_POST))
                return -1;
        while (*bad && (ret = srq_one(d, *bad)) == 0)
                *bad = (*bad)->next;
        if (d->starved)
                feed(d);
        return ret;
}

/* --- ends -------------------------------------------------------------------------------------- */

static void drop(struct memory_fabric *f, struct fifo *list)
{
        struct memory_work *w;

        while ((w = fifo_pop(list)))
                memory_work_free(f, w);
}

/* In a completion queue: what an SRQ gave comes home without an endpoint, the rest goes. */
static bool outlives(struct chained *c, void *arg)
{
        struct memory_work *w = work_of(c);
        struct verbs_ep *ep = arg;

        if (w->ep != ep)
                return true;
        if (w->srq) {
                w->ep = NULL;
                return true;
        }
        ep->domain->cq_used--;
        memory_work_free(ep->o.fabric, w);
        return false;
}

void memory_qp_end(struct verbs_ep *ep)
{
        struct memory_fabric *f = ep->o.fabric;
        struct memory_work *w;

        if (ep->qp == MEMORY_QP_NONE)
                return;
        memory_qp_fail(ep);
        drop(f, &ep->sent);
        memory_work_free(f, ep->silent);
        ep->silent = NULL;
        fifo_sift(&ep->domain->cq, outlives, ep);
        while ((w = fifo_pop(&ep->received))) {
                if (w->srq) {
                        w->ep = NULL;
                        arrive(ep->domain, w);
                } else {
                        memory_work_free(f, w);
                }
        }
        if (f->windows > 0)
                memory_unbind_those_of(f, NULL, ep);
        ep->qp = MEMORY_QP_NONE;
}

void memory_domain_end(struct verbs_domain *d)
{
        drop(d->o.fabric, &d->srq);
        drop(d->o.fabric, &d->cq);
        memory_keys_end(d);
        d->o.gone = true;
}
