/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs, work requests, completions. With soft devices every ibv_post_send() is a system
 * call, so chains stay whole; ibv_post_recv() and ibv_poll_cq() are none.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "verbs_rdma_parts.h"

enum { CHAIN = 64, POLL = 32, FROM_SRQ = 1 };

/* --- which endpoint --------------------------------------------------------------------------- */

static struct verbs_ep **bucket(struct verbs_domain *d, uint32_t qp_num)
{
        return &d->by_qp[qp_num % QP_BUCKETS];
}

static struct verbs_ep *find_ep(struct verbs_domain *d, uint32_t qp_num)
{
        struct verbs_ep *ep = *bucket(d, qp_num);

        while (ep && ep->id->qp->qp_num != qp_num)
                ep = ep->same_hash;
        return ep;
}

static void add_ep(struct verbs_domain *d, struct verbs_ep *ep)
{
        struct verbs_ep **p = bucket(d, ep->id->qp->qp_num);

        ep->same_hash = *p;
        *p = ep;
}

static void remove_ep(struct verbs_domain *d, struct verbs_ep *ep)
{
        struct verbs_ep **p = bucket(d, ep->id->qp->qp_num);

        while (*p != ep)
                p = &(*p)->same_hash;
        *p = ep->same_hash;
}

/* --- completions ------------------------------------------------------------------------------ */

static enum verbs_status status_of(enum ibv_wc_status s)
{
        static const uint8_t map[] = {
                [IBV_WC_SUCCESS] = VERBS_SUCCESS,
                [IBV_WC_LOC_LEN_ERR] = VERBS_LOCAL_LENGTH,
                [IBV_WC_LOC_QP_OP_ERR] = VERBS_LOCAL_QP,
                [IBV_WC_LOC_EEC_OP_ERR] = VERBS_GENERAL,
                [IBV_WC_LOC_PROT_ERR] = VERBS_LOCAL_PROTECTION,
                [IBV_WC_WR_FLUSH_ERR] = VERBS_FLUSHED,
                [IBV_WC_MW_BIND_ERR] = VERBS_BIND_ERROR,
                [IBV_WC_BAD_RESP_ERR] = VERBS_BAD_RESPONSE,
                [IBV_WC_LOC_ACCESS_ERR] = VERBS_LOCAL_ACCESS,
                [IBV_WC_REM_INV_REQ_ERR] = VERBS_REMOTE_INVALID,
                [IBV_WC_REM_ACCESS_ERR] = VERBS_REMOTE_ACCESS,
                [IBV_WC_REM_OP_ERR] = VERBS_REMOTE_OPERATION,
                [IBV_WC_RETRY_EXC_ERR] = VERBS_RETRY_EXCEEDED,
                [IBV_WC_RNR_RETRY_EXC_ERR] = VERBS_RNR_EXCEEDED,
                [IBV_WC_LOC_RDD_VIOL_ERR] = VERBS_GENERAL,
                [IBV_WC_REM_INV_RD_REQ_ERR] = VERBS_REMOTE_INVALID,
                [IBV_WC_REM_ABORT_ERR] = VERBS_REMOTE_OPERATION,
                [IBV_WC_INV_EECN_ERR] = VERBS_GENERAL,
                [IBV_WC_INV_EEC_STATE_ERR] = VERBS_GENERAL,
                [IBV_WC_FATAL_ERR] = VERBS_FATAL,
                [IBV_WC_RESP_TIMEOUT_ERR] = VERBS_RETRY_EXCEEDED,
                [IBV_WC_GENERAL_ERR] = VERBS_GENERAL,
        };

        return s < sizeof(map) ? (enum verbs_status)map[s] : VERBS_GENERAL;
}

/* False: the queue pair is gone, and the work request with it. One of an SRQ is still its owner's. */
static bool translate(struct verbs_domain *d, const struct ibv_wc *from, struct verbs_wc *to)
{
        struct verbs_ep *ep = find_ep(d, from->qp_num);

        if (!ep && !(from->wr_id & FROM_SRQ))
                return false;
        *to = (struct verbs_wc) {
                .wr = (struct verbs_wr *)(uintptr_t)(from->wr_id & ~(uint64_t)FROM_SRQ),
                .ep = ep,
                .status = status_of(from->status),
        };
        if (from->status != IBV_WC_SUCCESS || to->wr->op != VERBS_RECV)
                return true;
        to->bytes = from->byte_len;
        to->invalidated = from->wc_flags & d->invalidated_flag;
        if (to->invalidated)
                to->invalid_key = from->invalidated_rkey;
        return true;
}

/* From the device's queue. */
static unsigned poll_cq(struct verbs_domain *d, struct verbs_wc *wc, unsigned max)
{
        struct ibv_wc from[POLL];
        unsigned told = 0;
        int want, n;

        do {
                want = (int)(max - told < POLL ? max - told : POLL);
                n = ibv_poll_cq(d->cq, want, from);
                for (int i = 0; i < n; i++)
                        told += translate(d, &from[i], &wc[told]);
        } while (n > 0 && n == want && told < max);
        return told;
}

/* Room for more in the stash, or false with errno. */
static bool stash_room(struct verbs_domain *d, unsigned more)
{
        struct verbs_wc *bigger;
        unsigned size = d->stash_count + more;

        if (d->stash_at == d->stash_count)
                d->stash_at = d->stash_count = 0;
        if (d->stash_count + more <= d->stash_size)
                return true;
        bigger = realloc(d->stash, 2 * size * sizeof(*bigger));
        if (!bigger)
                return false;
        d->stash = bigger;
        d->stash_size = 2 * size;
        return true;
}

/* Takes out of the device's queue what is in it. */
static void stash_cq(struct verbs_domain *d)
{
        unsigned n = POLL;

        while (n == POLL && stash_room(d, POLL)) {
                n = poll_cq(d, &d->stash[d->stash_count], POLL);
                d->stash_count += n;
        }
}

static unsigned poll_stash(struct verbs_domain *d, struct verbs_wc *wc, unsigned max)
{
        unsigned n = 0;

        while (n < max && d->stash_at < d->stash_count)
                wc[n++] = d->stash[d->stash_at++];
        return n;
}

int vrdma_poll(struct verbs_domain *d, struct verbs_wc *wc, int max)
{
        unsigned room = max > 0 ? (unsigned)max : 0;
        unsigned n = d->stash_at < d->stash_count ? poll_stash(d, wc, room) : 0;

        if (d->cq && n < room)
                n += poll_cq(d, wc + n, room - n);
        if (n > 0 || !d->removed)
                return (int)n;
        d->given_up = !d->eps;
        return -1;
}

/* What waits in the stash makes the context's descriptor readable as a completion does. */
static void ring_for_stash(struct verbs_domain *d)
{
        uint64_t one = 1;

        if (d->stash_at == d->stash_count || d->context->rang)
                return;
        d->context->rang = write(d->context->flush_bell, &one, sizeof(one)) > 0;
}

/* --- telling of completions ------------------------------------------------------------------- */

enum { ACK_BATCH = 64 };

/* Each costs a lock, so events are acknowledged many at a time; the rest before the CQ goes. */
void vrdma_take_cq_events(struct verbs_domain *d)
{
        struct ibv_cq *cq;
        void *context;

        while (d->armed && ibv_get_cq_event(d->channel, &cq, &context) == 0) {
                d->armed = false; /* one request, one event */
                d->unacked++;
        }
        if (d->unacked < ACK_BATCH)
                return;
        ibv_ack_cq_events(d->cq, d->unacked);
        d->unacked = 0;
}

static int arm_domain(struct verbs_domain *d)
{
        vrdma_take_cq_events(d);
        if (d->armed)
                return 0;
        errno = ibv_req_notify_cq(d->cq, 0);
        if (errno != 0)
                return -1;
        d->armed = true;
        return 0;
}

int vrdma_arm(struct verbs_context *c)
{
        uint64_t count;
        int rc = 0;

        for (struct verbs_domain *d = c->domains; d; d = d->next)
                if (d->cq && arm_domain(d) < 0)
                        rc = -1;
        if (c->rang && read(c->flush_bell, &count, sizeof(count)) > 0)
                c->rang = false;
        return rc;
}

/* --- queue pairs ------------------------------------------------------------------------------ */

int vrdma_ep_qp(struct verbs_ep *ep, const struct verbs_qp_attr *attr)
{
        struct verbs_domain *d = vrdma_domain(ep);
        struct ibv_qp_init_attr init;

        if (!d)
                return -1;
        if (!d->cq || ep->id->qp || (attr->recv_wrs == 0 && !d->srq)) {
                errno = d->cq ? EINVAL : ENODEV;
                return -1;
        }
        init = (struct ibv_qp_init_attr) {
                .qp_context = ep,
                .send_cq = d->cq,
                .recv_cq = d->cq,
                .srq = attr->recv_wrs == 0 ? d->srq : NULL,
                .cap = { .max_send_wr = attr->send_wrs,
                         .max_recv_wr = attr->recv_wrs,
                         .max_send_sge = d->caps.sges,
                         .max_recv_sge = attr->recv_wrs ? d->caps.sges : 0,
                         .max_inline_data = attr->inline_bytes },
                .qp_type = IBV_QPT_RC,
        };
        if (rdma_create_qp(ep->id, d->pd, &init) < 0)
                return -1;
        ep->srq = init.srq;
        add_ep(d, ep);
        return 0;
}

int vrdma_ep_fail(struct verbs_ep *ep)
{
        struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

        if (!ep->id->qp) {
                errno = EINVAL;
                return -1;
        }
        errno = ibv_modify_qp(ep->id->qp, &attr, IBV_QP_STATE);
        if (errno == EIO || errno == ENODEV) { /* the device is gone: it flushes nothing any more */
                ep->domain->flushing = FLUSH_NEVER;
                errno = 0;
        }
        ep->failed = errno == 0;
        return ep->failed ? 0 : -1;
}

/* Completions of a queue pair that goes: what it took from an SRQ stays its owner's, the rest is
 * dropped. Now, because a device (siw) may give the next queue pair the same number. */
static void orphan_completions(struct verbs_domain *d, const struct verbs_ep *ep)
{
        unsigned kept = d->stash_at;

        for (unsigned i = d->stash_at; i < d->stash_count; i++) {
                struct verbs_wc wc = d->stash[i];

                if (wc.ep == ep && !(ep->srq && wc.wr->op == VERBS_RECV))
                        continue;
                if (wc.ep == ep)
                        wc.ep = NULL;
                d->stash[kept++] = wc;
        }
        d->stash_count = kept;
}

void vrdma_ep_drop_qp(struct verbs_ep *ep)
{
        struct verbs_domain *d = ep->domain;

        remove_ep(d, ep);
        rdma_destroy_qp(ep->id);
        orphan_completions(d, ep);
        stash_cq(d);
        ring_for_stash(d);
}

/* --- posting ---------------------------------------------------------------------------------- */

static const enum ibv_wr_opcode opcodes[] = {
        [VERBS_SEND] = IBV_WR_SEND,      [VERBS_SEND_INVALIDATE] = IBV_WR_SEND_WITH_INV,
        [VERBS_READ] = IBV_WR_RDMA_READ, [VERBS_WRITE] = IBV_WR_RDMA_WRITE,
        [VERBS_BIND] = IBV_WR_BIND_MW,   [VERBS_INVALIDATE] = IBV_WR_LOCAL_INV,
};

struct chain { /* as ibv takes it, up to CHAIN at a time */
        struct ibv_sge sges[CHAIN][VERBS_SGES];
        union {
                struct ibv_send_wr send[CHAIN];
                struct ibv_recv_wr recv[CHAIN];
        };
};

static void copy_sges(const struct verbs_wr *wr, struct ibv_sge *to)
{
        for (unsigned i = 0; i < wr->n_sge && i < VERBS_SGES; i++)
                to[i] = (struct ibv_sge) { .addr = (uintptr_t)wr->sge[i].addr,
                                           .length = wr->sge[i].len,
                                           .lkey = wr->sge[i].lkey };
}

static unsigned flags_of(const struct verbs_wr *wr)
{
        return (wr->flags & VERBS_SIGNALED ? IBV_SEND_SIGNALED : 0u) |
               (wr->flags & VERBS_INLINE ? IBV_SEND_INLINE : 0u) |
               (wr->flags & VERBS_FENCE ? IBV_SEND_FENCE : 0u);
}

static void bind_of(const struct verbs_wr *wr, struct ibv_send_wr *to)
{
        const struct verbs_window *w = wr->window;
        const struct registration *window = w->own, *memory = w->mr->own;

        to->bind_mw.mw = window->mw;
        to->bind_mw.rkey = w->rkey;
        to->bind_mw.bind_info = (struct ibv_mw_bind_info) {
                .mr = memory->mr,
                .addr = (uintptr_t)w->addr,
                .length = w->len,
                .mw_access_flags = (w->access & VERBS_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0u) |
                                   (w->access & VERBS_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0u),
        };
}

static bool invalidates(const struct verbs_wr *wr)
{
        return wr->op == VERBS_SEND_INVALIDATE || wr->op == VERBS_INVALIDATE;
}

static void to_send(const struct verbs_wr *wr, struct ibv_send_wr *to, struct ibv_sge *sges)
{
        copy_sges(wr, sges);
        to->wr_id = (uintptr_t)wr;
        to->next = NULL;
        to->sg_list = sges;
        to->num_sge = wr->n_sge;
        to->opcode = opcodes[wr->op];
        to->send_flags = flags_of(wr);
        to->wr.rdma.remote_addr = wr->remote;
        to->wr.rdma.rkey = wr->rkey;
        to->invalidate_rkey = invalidates(wr) ? wr->rkey : 0; /* rxe wants 0 for all others */
        if (wr->op == VERBS_BIND)
                bind_of(wr, to);
}

/* A library that keeps the window's key (rxe's doesn't) has it by now. */
static void bound(const struct verbs_wr *first, const struct verbs_wr *end)
{
        for (const struct verbs_wr *wr = first; wr != end; wr = wr->next) {
                const struct registration *window = wr->op == VERBS_BIND ? wr->window->own : NULL;

                if (window)
                        window->mw->rkey = wr->window->rkey;
        }
}

/* That many on; drivers return errno, but not all with the same sign. */
static int refused(struct verbs_wr *chain, long done, int rc, struct verbs_wr **bad)
{
        while (done-- > 0)
                chain = chain->next;
        *bad = chain;
        errno = rc == -1 ? errno : rc < 0 ? -rc : rc;
        return -1;
}

/* The device (siw) looks at nothing that comes once the queue pair has failed. Completes the chain
 * in its stead, after all that the device completed before. */
static int flush(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        struct verbs_domain *d = ep->domain;

        stash_cq(d);
        for (; chain; chain = chain->next) {
                if (!stash_room(d, 1)) {
                        *bad = chain;
                        return -1;
                }
                d->stash[d->stash_count++] =
                    (struct verbs_wc) { .wr = chain, .ep = ep, .status = VERBS_FLUSHED };
        }
        ring_for_stash(d);
        return 0;
}

static bool may_post(const struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        *bad = chain;
        errno = EINVAL;
        return ep->id->qp;
}

int vrdma_post(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        struct ibv_send_wr *refuses;
        struct chain c;
        bool binds = false;
        int n, rc;

        if (!may_post(ep, chain, bad))
                return -1;
        if (ep->failed && ep->domain->flushing == FLUSH_NEVER)
                return flush(ep, chain, bad);
        for (struct verbs_wr *first = chain; first; first = chain) {
                for (n = 0; n < CHAIN && chain; chain = chain->next, n++) {
                        to_send(chain, &c.send[n], c.sges[n]);
                        binds |= chain->op == VERBS_BIND;
                        if (n > 0)
                                c.send[n - 1].next = &c.send[n];
                }
                rc = ibv_post_send(ep->id->qp, c.send, &refuses);
                if (rc != 0)
                        return refused(first, refuses - c.send, rc, bad);
                if (binds)
                        bound(first, chain);
        }
        return 0;
}

/* The next part of the chain; what is left of it. */
static struct verbs_wr *to_recv(struct verbs_wr *chain, struct chain *c, uintptr_t tag)
{
        for (int n = 0; n < CHAIN && chain; chain = chain->next, n++) {
                copy_sges(chain, c->sges[n]);
                c->recv[n] = (struct ibv_recv_wr) { .wr_id = (uintptr_t)chain | tag,
                                                    .sg_list = c->sges[n],
                                                    .num_sge = chain->n_sge };
                if (n > 0)
                        c->recv[n - 1].next = &c->recv[n];
        }
        return chain;
}

int vrdma_post_recv(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        struct ibv_recv_wr *refuses;
        struct chain c;
        int rc;

        if (!may_post(ep, chain, bad))
                return -1;
        if (ep->failed && ep->domain->flushing == FLUSH_NEVER)
                return flush(ep, chain, bad);
        for (struct verbs_wr *first = chain; first; first = chain) {
                chain = to_recv(chain, &c, 0);
                rc = ibv_post_recv(ep->id->qp, c.recv, &refuses);
                if (rc != 0)
                        return refused(first, refuses - c.recv, rc, bad);
        }
        return ep->failed && ep->domain->flushing == FLUSH_KICKED ? vrdma_ep_fail(ep) : 0;
}

int vrdma_post_srq(struct verbs_domain *d, struct verbs_wr *chain, struct verbs_wr **bad)
{
        struct ibv_recv_wr *refuses;
        struct chain c;
        int rc;

        *bad = chain;
        errno = d->pd ? EINVAL : ENODEV;
        if (!d->srq)
                return -1;
        for (struct verbs_wr *first = chain; first; first = chain) {
                chain = to_recv(chain, &c, FROM_SRQ);
                rc = ibv_post_srq_recv(d->srq, c.recv, &refuses);
                if (rc != 0)
                        return refused(first, refuses - c.recv, rc, bad);
        }
        return 0;
}
