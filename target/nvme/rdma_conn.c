/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/machine/spoil.h"

enum {
        CLOSING_MS = 2000,  /* that a host may take to answer DREQ */
        DRAINING_MS = 3000, /* that a device may take to flush a queue pair */
        GONE_MS = 200,      /* that a device which is gone may take */
        WRS_EACH = 2,       /* work requests of a command: data and response; more wait */
        WRS_MORE = 17,      /* data of one command in many pieces, and the sentinel */
        RECVS_MORE = 1,     /* the sentinel */
        RECEIVES_LEAST = 2,
        RESPONSE_LEN = 16,
};

_Static_assert(offsetof(struct rdma_conn, conn) == 0, "its machine's owner is both");

static struct rdma_conn *rdma_of(struct conn *c)
{
        return (struct rdma_conn *)c;
}

static struct service *service(const struct rdma_conn *c)
{
        return c->conn.reactor->service;
}

static bool violates_rule(const struct rdma_conn *c, enum rule_id rule)
{
        return rule_in(&service(c)->policy.violated, rule);
}

/* --- what its machine asks for ---------------------------------------------------------------- */

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        struct rdma_conn *c = user;
        uint8_t *buf = conn_buffer_get(&c->conn, &c->device->pool, len);

        if (buf)
                *lkey = regmem_key(buf, pool_size(len));
        return buf;
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        struct rdma_conn *c = user;

        conn_buffer_put(&c->conn, &c->device->pool, buf, len);
}

static void *response_memory(void *user, uint32_t bytes, uint32_t *lkey)
{
        struct rdma_conn *c = user;
        void *memory = regmem_get(&c->device->memory, pool_size(bytes));

        if (memory)
                *lkey = regmem_key(memory, pool_size(bytes));
        return memory;
}

static void response_memory_put(void *user, void *memory, uint32_t bytes)
{
        struct rdma_conn *c = user;

        regmem_put(&c->device->memory, memory, pool_size(bytes));
}

/* Receives of its own go back to it, as long as it receives at all. */
static void recv_put(void *user, struct rdma_recv *rx)
{
        struct rdma_conn *c = user;

        if (!c->own) {
                rdma_device_recv_put(c->device, rx);
                return;
        }
        rx->wr.next = c->to_post;
        c->to_post = &rx->wr;
}

/* --- what the user is told -------------------------------------------------------------------- */

static void report(struct rdma_conn *c, const char *what, const char *detail)
{
        if (!c->conn.reported)
                conn_report(&c->conn, c->peer, what, detail);
        c->conn.reported = true;
}

static void report_fault(struct rdma_conn *c)
{
        struct fault f = rdma_controller_fault(c->machine);
        const struct rule *rule = rule_get(f.rule);
        char what[120];

        if (!rule)
                return;
        snprintf(what, sizeof(what), "closed for %s", rule->id);
        report(c, what, rule->says);
}

static void report_failure(struct rdma_conn *c, const struct verbs_wc *wc)
{
        char what[120];

        if (wc->status == VERBS_FLUSHED)
                return;
        snprintf(what, sizeof(what), "%s failed: %s", verbs_op_name(wc->wr->op),
                 verbs_status_name(wc->status));
        report(c, what, NULL);
}

/* --- its life --------------------------------------------------------------------------------- */

static void take_capsule(struct rdma_conn *c, struct rdma_recv *rx)
{
        if (!rdma_controller_received(c->machine, rx) || violates_rule(c, RDMA_ERROR_ENDS))
                return;
        report_fault(c);
        c->conn.failed = true;
}

static void replay(struct rdma_conn *c)
{
        struct rdma_recv *rx = c->kept, *next;

        c->kept = NULL;
        c->kept_last = &c->kept;
        for (; rx; rx = next) {
                next = rx->next;
                take_capsule(c, rx);
        }
}

static void drop_kept(struct rdma_conn *c)
{
        struct rdma_recv *rx = c->kept, *next;

        c->kept = NULL;
        c->kept_last = &c->kept;
        for (; rx; rx = next) {
                next = rx->next;
                recv_put(c, rx);
        }
}

static void list_drained(struct rdma_conn *c)
{
        struct rdma *m = c->device->rdma;

        if (c->life.sentinels > 0 || c->drained)
                return;
        c->drained = true;
        c->next_drained = m->drained;
        m->drained = c;
}

/* What can't be posted is as good as flushed. */
static void fail_queue_pair(struct rdma_conn *c)
{
        struct verbs_wr *send, *recv = NULL, *bad = NULL;

        verbs_fail(c->ep);
        send = life_send_sentinel(&c->life);
        if (c->own)
                recv = life_recv_sentinel(&c->life);
        if (verbs_post(c->ep, send, &bad) < 0)
                life_sentinel_flushed(&c->life, send);
        if (recv && verbs_post_recv(c->ep, recv, &bad) < 0)
                life_sentinel_flushed(&c->life, recv);
        list_drained(c);
}

static void end(struct rdma_conn *c)
{
        drop_kept(c);
        rdma_controller_end(c->machine);
        conn_end(&c->conn);
}

static void leave_drained(struct rdma_conn *c)
{
        struct rdma_conn **at = &c->device->rdma->drained;

        while (c->drained && *at && *at != c)
                at = &(*at)->next_drained;
        if (c->drained && *at)
                *at = c->next_drained;
        c->drained = false;
}

static void leave_touched(struct rdma_conn *c)
{
        struct rdma_conn **at = &c->device->rdma->touched;

        while (c->touched && *at && *at != c)
                at = &(*at)->next_touched;
        if (c->touched && *at)
                *at = c->next_touched;
        c->touched = false;
}

/* What it was made of, as far as it was. */
static void dismantle(struct rdma_conn *c)
{
        if (c->machine)
                rdma_controller_free(c->machine);
        if (c->ep)
                verbs_destroy(c->ep);
        if (c->own)
                rdma_device_drop_chunk(c->device, c->own);
        if (c->cqes)
                rdma_device_unreserve(c->device, c->receives, c->cqes);
        rdma_device_put(c->device);
        free(c);
}

static void release(struct rdma_conn *c)
{
        leave_drained(c);
        leave_touched(c);
        conn_leave(&c->conn);
        dismantle(c);
}

static void trace_life(const struct rdma_conn *c, enum life_event e)
{
        char what[80];

        snprintf(what, sizeof(what), "%s (%s)", life_state_name(c->life.state), life_event_name(e));
        conn_trace_line(&c->conn, what);
}

/* It stays busy, so that RELEASE comes with LIFE_IDLE alone: the last word of settle(). */
static void step(struct rdma_conn *c, enum life_event e)
{
        enum life_state was = c->life.state;
        unsigned todo;

        life_busy(&c->life);
        todo = life_event(&c->life, e);
        if (c->life.state != was) {
                c->since = reactor_now(c->conn.reactor);
                if (service(c)->trace)
                        trace_life(c, e);
        }
        if (todo & LIFE_DO_REPLAY)
                replay(c);
        if (todo & LIFE_DO_DISCONNECT)
                verbs_disconnect(c->ep);
        if (todo & LIFE_DO_FAIL)
                fail_queue_pair(c);
        if (todo & LIFE_DO_END)
                end(c);
}

/* --- what comes ------------------------------------------------------------------------------- */

/* A rule of ours that is broken: the queue pair stays as it is. */
static bool takes_no_notice(const struct rdma_conn *c, enum life_event e)
{
        return (e == LIFE_DISCONNECTED && c->life.state <= LIFE_LIVE &&
                violates_rule(c, RDMA_DREQ)) ||
               (e == LIFE_FAILED && violates_rule(c, RDMA_ERROR_ENDS));
}

void rdma_conn_event(struct rdma_conn *c, const struct verbs_event *e)
{
        enum life_event le = life_event_of(e->type);

        if (le == LIFE_REMOVED)
                c->device->gone = true;
        if (le != LIFE_EVENTS && !takes_no_notice(c, le))
                step(c, le);
}

static void failed(struct rdma_conn *c, const struct verbs_wc *wc)
{
        if (c->life.state == LIFE_LIVE)
                report_failure(c, wc);
        if (!takes_no_notice(c, LIFE_FAILED))
                step(c, LIFE_FAILED);
}

static void keep(struct rdma_conn *c, struct rdma_recv *rx)
{
        rx->next = NULL;
        *c->kept_last = rx;
        c->kept_last = &rx->next;
}

static void received(struct rdma_conn *c, const struct verbs_wc *wc)
{
        struct rdma_recv *rx = (struct rdma_recv *)wc->wr;

        rx->bytes = wc->bytes;
        if (wc->status != VERBS_SUCCESS) {
                failed(c, wc); /* looks at it */
                recv_put(c, rx);
        } else if (c->life.state == LIFE_CONNECTING) {
                keep(c, rx);
        } else if (c->life.state == LIFE_LIVE) {
                take_capsule(c, rx);
        } else {
                recv_put(c, rx);
        }
}

static void sent(struct rdma_conn *c, const struct verbs_wc *wc)
{
        if (wc->wr->flags & VERBS_SIGNALED)
                c->unfinished--;
        if (c->life.state < LIFE_DEAD && rdma_controller_completed(c->machine, wc))
                failed(c, wc);
}

void rdma_conn_completed(struct rdma_conn *c, const struct verbs_wc *wc)
{
        if (life_sentinel_flushed(&c->life, wc->wr))
                list_drained(c);
        else if (wc->wr->op == VERBS_RECV)
                received(c, wc);
        else
                sent(c, wc);
}

void rdma_conn_drained(struct rdma_conn *c)
{
        step(c, LIFE_DRAINED);
}

/* --- what goes -------------------------------------------------------------------------------- */

static void post_receives(struct rdma_conn *c)
{
        struct verbs_wr *chain = c->to_post, *bad;

        rdma_device_post(c->device);
        c->to_post = NULL;
        if (chain && verbs_post_recv(c->ep, chain, &bad) < 0)
                step(c, LIFE_FAILED);
}

/* What was not posted is as good as flushed. */
static void post(struct rdma_conn *c)
{
        struct verbs_wr *chain = rdma_controller_take(c->machine), *bad = NULL, *next;

        for (struct verbs_wr *wr = chain; wr; wr = wr->next)
                c->unfinished += wr->flags & VERBS_SIGNALED ? 1 : 0;
        if (!chain || verbs_post(c->ep, chain, &bad) == 0)
                return;
        report(c, "posting failed", strerror(errno));
        for (; bad; bad = next) {
                next = bad->next;
                sent(c, &(struct verbs_wc) { .wr = bad, .ep = c->ep, .status = VERBS_FLUSHED });
        }
}

/* Its last response has reached the host. */
static bool is_said(const struct rdma_conn *c)
{
        return c->conn.last_words && c->unfinished == 0 && !rdma_controller_wants_post(c->machine);
}

/* Nobody will speak of it any more. */
static bool is_idle(const struct rdma_conn *c)
{
        return requests_executing(rdma_requests(c->machine)) == 0 && !loop_posted(&c->conn.close);
}

void rdma_conn_settle(struct rdma_conn *c)
{
        if (c->life.state == LIFE_LIVE) {
                post_receives(c);
                post(c);
        }
        if (c->life.state <= LIFE_LIVE && (c->conn.failed || is_said(c)))
                step(c, LIFE_CLOSE);
        if (c->life.state == LIFE_DEAD && is_idle(c) &&
            (life_event(&c->life, LIFE_IDLE) & LIFE_DO_RELEASE))
                release(c);
}

static void go_on(struct conn *conn)
{
        rdma_conn_settle(rdma_of(conn));
}

static void feed(struct conn *conn)
{
        struct rdma_conn *c = rdma_of(conn);

        if (c->life.state == LIFE_LIVE)
                requests_buffers(rdma_requests(c->machine));
        rdma_conn_settle(c);
}

/* --- timers ----------------------------------------------------------------------------------- */

static void sweep_set_up(struct rdma_conn *c)
{
        if (c->conn.queue.connected ||
            !conn_is_older(&c->conn, c->since, service(c)->limits.ic_timeout))
                return;
        report(c, "closed",
               c->life.state == LIFE_CONNECTING ? "not established in time" : "no Connect");
        step(c, c->life.state == LIFE_CONNECTING ? LIFE_LATE : LIFE_CLOSE);
}

static bool is_late(const struct rdma_conn *c)
{
        unsigned draining = c->device->gone ? GONE_MS : DRAINING_MS;

        return (c->life.state == LIFE_CLOSING && conn_is_older(&c->conn, c->since, CLOSING_MS)) ||
               (c->life.state == LIFE_DRAINING && conn_is_older(&c->conn, c->since, draining));
}

static void sweep(struct conn *conn)
{
        struct rdma_conn *c = rdma_of(conn);

        if (c->life.state <= LIFE_LIVE)
                sweep_set_up(c);
        else if (is_late(c))
                step(c, LIFE_LATE);
        rdma_conn_settle(c);
}

static bool is_busy(const struct rdma_conn *c)
{
        return c->unfinished > 0 || rdma_controller_wants_post(c->machine) ||
               conn_is_busy(&c->conn, requests_executing(rdma_requests(c->machine)));
}

static void drain(struct conn *conn, bool at_once)
{
        struct rdma_conn *c = rdma_of(conn);

        if (at_once)
                step(c, LIFE_ABORT);
        else if (c->life.state <= LIFE_LIVE && !is_busy(c))
                step(c, LIFE_CLOSE);
        rdma_conn_settle(c);
}

/* --- connect requests ------------------------------------------------------------------------- */

void rdma_conn_reject(struct service *s, struct verbs_ep *ep, uint16_t sts)
{
        struct rdma_reject r = { .sts = le16(sts) };
        struct spoil_cm spoil = { .message = SPOIL_REJECT, .data = &r, .len = sizeof(r) };

        spoil_cm(&s->policy.violated, &spoil);
        verbs_reject(ep, &r, spoil.len);
        verbs_destroy(ep);
}

static void refuse(struct service *s, const struct verbs_event *e, uint16_t sts, const char *why)
{
        char peer[NET_TRADDR];

        verbs_addresses(e->ep, NULL, peer, sizeof(peer));
        if (!s->quiet)
                fprintf(stderr, "connect request of %s rejected (%s): %s\n", peer,
                        rdma_reject_name(sts), why);
        rdma_conn_reject(s, e->ep, sts);
}

static struct rdma_limits limits_of(const struct service *s, const struct rdma_request *r)
{
        return (struct rdma_limits) {
                .queues = (uint16_t)s->limits.queues,
                .entries = ctrl_entries_max(&s->ctrl, le16_get(r->qid)),
                .hrqsize_min = 1,
                .reads_in_min = 1,
        };
}

/* False: it was rejected. */
static bool is_acceptable(struct service *s, const struct verbs_event *e,
                          const struct rdma_request *r)
{
        const struct verbs_conn_param *p = &e->param;
        struct rdma_limits limits = limits_of(s, r);
        struct fault f = rdma_request_check(e->data, p->len, p->reads_in, p->reads_out, &limits,
                                            &s->policy.waived);

        if (is_fault(f))
                refuse(s, e, f.code, rule_get(f.rule)->says);
        return !is_fault(f);
}

static uint32_t least(uint32_t a, uint32_t b)
{
        return a < b ? a : b;
}

/* A rule was waived: whatever was asked for, a queue has a size. */
static uint32_t entries_of(const struct service *s, const struct rdma_request *r)
{
        uint32_t entries = le16_get(r->hsqsize) + 1u;

        if (entries < RECEIVES_LEAST)
                entries = RECEIVES_LEAST;
        return least(entries, ctrl_entries_max(&s->ctrl, le16_get(r->qid)));
}

/*
 * How many commands it may send at once without waiting for us: CRQSIZE. All that it asked for, or
 * where the SRQ has not so many left, what is left, if the host bears RNR; 0: it can't be served.
 */
static uint32_t crqsize_of(const struct rdma_device *d, uint32_t entries, uint8_t rnr_retry)
{
        uint32_t most = d->srq_wrs ? rdma_device_receives_left(d) : d->caps->qp_wrs - RECVS_MORE;

        if (most >= entries)
                return entries;
        return most >= RECEIVES_LEAST && rnr_retry > 0 ? most : 0;
}

static struct rdma_controller *make_machine(struct rdma_conn *c, uint32_t entries,
                                            const struct verbs_qp_attr *attr, uint32_t reads)
{
        const struct service *s = service(c);
        struct rdma_controller_config cfg = {
                .format = s->ctrl.rdma,
                .max_transfer = s->limits.max_transfer,
                .send_wrs = attr->send_wrs - 1, /* the sentinel */
                .reads = reads,
                .inline_bytes = attr->inline_bytes,
                .depth = (uint16_t)least(entries, UINT16_MAX),
                .policy = &s->policy,
        };
        struct rdma_controller_ops ops = {
                .request = conn_request_ops,
                .recv_put = recv_put,
                .response_memory = response_memory,
                .response_memory_put = response_memory_put,
        };

        cfg.format.admin = le16_get(c->request.qid) == 0;
        ops.request.buffer_get = buffer_get;
        ops.request.buffer_put = buffer_put;
        ops.request.trace = s->trace ? conn_trace : NULL;
        return rdma_controller_new(&cfg, &ops, c);
}

static struct verbs_qp_attr qp_attr(const struct rdma_device *d, uint32_t entries, uint32_t crqsize)
{
        return (struct verbs_qp_attr) {
                .send_wrs = least(WRS_EACH * entries + WRS_MORE, d->caps->qp_wrs),
                .recv_wrs = d->srq_wrs ? 0 : crqsize + RECVS_MORE,
                .inline_bytes = d->caps->inline_bytes >= RESPONSE_LEN ? RESPONSE_LEN : 0,
        };
}

/* Promises more than there is, if RDMA_CREDITS is broken. */
static uint32_t receives_of(const struct rdma_conn *c, uint32_t crqsize)
{
        return violates_rule(c, RDMA_CREDITS) ? 1 : crqsize;
}

static int own_receives(struct rdma_conn *c, uint32_t count)
{
        struct verbs_wr *bad;

        c->own = rdma_device_chunk(c->device, count);
        if (!c->own)
                return -1;
        for (uint32_t i = 0; i + 1 < count; i++)
                c->own->recv[i].wr.next = &c->own->recv[i + 1].wr;
        return verbs_post_recv(c->ep, &c->own->recv[0].wr, &bad);
}

/* All that it needs before it can be accepted; -1 with errno. */
static int build(struct rdma_conn *c, const struct verbs_qp_attr *attr, uint32_t entries,
                 uint32_t crqsize, uint32_t reads)
{
        uint32_t receives = receives_of(c, crqsize), cqes = attr->send_wrs + attr->recv_wrs;

        if (rdma_device_reserve(c->device, c->device->srq_wrs ? receives : 0, cqes) < 0)
                return -1;
        c->receives = c->device->srq_wrs ? receives : 0;
        c->cqes = cqes;
        errno = ENOMEM;
        c->machine = make_machine(c, entries, attr, reads);
        if (!c->machine || verbs_qp(c->ep, attr) < 0)
                return -1;
        c->life.has_qp = true;
        return c->device->srq_wrs ? 0 : own_receives(c, receives);
}

static const struct conn_kind kind = { go_on, feed, sweep, drain };

static void begin(struct rdma_conn *c, struct port *port)
{
        struct reactor *r = c->conn.reactor;

        conn_begin(&c->conn, &kind, r, port);
        c->conn.queue.rdma = &c->request;
        c->conn.queue.prtype = c->device->caps->iwarp ? PRTYPE_IWARP : PRTYPE_ROCE_V2;
        verbs_set_user(c->ep, c);
        c->since = reactor_now(r);
        if (r->service->trace)
                trace_life(c, LIFE_EVENTS);
}

static void accept_it(struct rdma_conn *c, uint32_t crqsize, uint8_t reads, uint8_t rnr_retry)
{
        struct rdma_accept a = { .crqsize = le16((uint16_t)least(crqsize, UINT16_MAX)) };
        struct spoil_cm spoil = {
                .message = SPOIL_ACCEPT,
                .data = &a,
                .len = sizeof(a),
                .reads_out = reads,
        };
        struct verbs_conn_param p = { .data = &a, .rnr_retry = rnr_retry, .retry = 7 };

        spoil_cm(&service(c)->policy.violated, &spoil);
        p.len = spoil.len;
        p.reads_in = spoil.reads_in;
        p.reads_out = spoil.reads_out;
        if (verbs_accept(c->ep, &p) < 0) {
                report(c, "accepting failed", strerror(errno));
                step(c, LIFE_REFUSED);
        }
        rdma_conn_settle(c);
}

static struct rdma_conn *conn_new(struct reactor *r, const struct verbs_event *e)
{
        struct rdma_device *d = rdma_device_get(r->rdma, e->ep);
        struct rdma_conn *c = d ? calloc(1, sizeof(*c)) : NULL;

        if (!c) {
                if (d)
                        rdma_device_put(d);
                return NULL;
        }
        c->conn.reactor = r;
        c->device = d;
        c->ep = e->ep;
        c->kept_last = &c->kept;
        life_init(&c->life);
        (void)rdma_request_read(e->data, e->param.len, &c->request);
        verbs_addresses(e->ep, c->conn.traddr, c->peer, sizeof(c->peer));
        return c;
}

/* NULL: rejected. */
static struct rdma_conn *serve(struct reactor *r, const struct verbs_event *e, uint32_t *crqsize,
                               uint8_t *reads)
{
        struct rdma_conn *c = conn_new(r, e);
        struct verbs_qp_attr attr;
        uint32_t entries;

        if (!c) {
                refuse(r->service, e, RDMA_REJECT_RESOURCES, strerror(errno));
                return NULL;
        }
        entries = entries_of(r->service, &c->request);
        *crqsize = crqsize_of(c->device, entries, e->param.rnr_retry);
        *reads = (uint8_t)least(c->device->caps->reads_out, e->param.reads_in);
        attr = qp_attr(c->device, entries, *crqsize);
        errno = ENOSPC;
        if (*crqsize > 0 && build(c, &attr, entries, *crqsize, *reads) == 0)
                return c;
        refuse(r->service, e, RDMA_REJECT_RESOURCES, strerror(errno));
        c->ep = NULL;
        dismantle(c);
        return NULL;
}

void rdma_conn_start(struct reactor *r, struct port *port, const struct verbs_event *e)
{
        struct rdma_request request;
        struct rdma_conn *c = NULL;
        uint32_t crqsize;
        uint8_t reads;

        (void)rdma_request_read(e->data, e->param.len, &request);
        if (is_acceptable(r->service, e, &request))
                c = serve(r, e, &crqsize, &reads);
        if (!c) {
                conn_forget(r->service, port);
                return;
        }
        begin(c, port);
        accept_it(c, crqsize, reads, e->param.rnr_retry);
}
