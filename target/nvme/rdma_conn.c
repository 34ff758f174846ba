/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/bytes.h"
#include "pdu/io/log.h"
#include "pdu/nvme/rdma/spoil_rdma.h"

enum {
        WRS_EACH = 2,  /* work requests of a command: data and response; more wait */
        WRS_MORE = 16, /* data of one command in many pieces */
        RECEIVES_LEAST = 2,
        RESPONSE_LEN = 16,
};

_Static_assert(offsetof(struct rdma_conn, conn) == 0, "the owner of its machine must be both");

static struct rdma_conn *rdma_of(struct target_conn *c)
{
        return (struct rdma_conn *)c;
}

static struct rdma_conn *of_base(struct conn *c)
{
        return rdma_of(target_conn_of(c));
}

static struct rdma_conn *conn_of(struct rdma_ep *e)
{
        return (struct rdma_conn *)(void *)((char *)e - offsetof(struct rdma_conn, link));
}

static struct nvme_service *service(const struct rdma_conn *c)
{
        return conn_service(&c->conn);
}

static bool violates_rule(const struct rdma_conn *c, enum rule_id rule)
{
        return rule_in(&service(c)->policy.violated, rule);
}

/* --- what the user is told -------------------------------------------------------------------- */

static void report(struct rdma_conn *c, const char *kind, const char *what, const char *detail)
{
        if (!c->conn.reported)
                conn_report(&c->conn, kind, what, detail);
        c->conn.reported = true;
}

static void report_fault(struct rdma_conn *c, unsigned broken)
{
        const struct rule *rule = rule_get(broken);
        char what[120];

        if (!rule)
                return;
        if (!c->conn.reported)
                conn_fault(&c->conn, (enum rule_id)broken);
        snprintf(what, sizeof(what), "closed for %s", rule->id);
        report(c, rule->id, what, rule->says);
}

static void report_failure(struct rdma_conn *c, const struct verbs_wc *wc)
{
        char what[120];

        if (rdma_failure(wc, what, sizeof(what)))
                report(c, "failed", what, NULL);
}

/* --- what comes ------------------------------------------------------------------------------- */

/* A rule of ours that is broken: the queue pair stays as it is. */
static bool takes_no_notice(const struct rdma_conn *c, enum life_event e)
{
        return (e == LIFE_DISCONNECTED && c->link.ep.life.state <= LIFE_LIVE &&
                violates_rule(c, RDMA_DREQ)) ||
               (e == LIFE_FAILED && violates_rule(c, RDMA_ERROR_ENDS));
}

static bool on_event(struct rdma_ep *e, const struct verbs_event *event)
{
        return !takes_no_notice(conn_of(e), life_event_of(event->type));
}

static void end_for(struct rdma_conn *c, unsigned broken)
{
        if (violates_rule(c, RDMA_ERROR_ENDS))
                return;
        report_fault(c, broken);
        c->conn.failed = true;
}

static void take_capsule(struct rdma_conn *c, struct rdma_recv *rx)
{
        if (rdma_controller_received(c->machine, rx))
                end_for(c, rdma_controller_fault(c->machine).rule);
}

/* Whether there is room for one more: as many wait as the queue has entries at most, since they keep receives
 * that others need. A host that sends more has overrun its queue; where that rule is waived, the oldest is
 * taken at once. */
static bool may_wait(struct rdma_conn *c)
{
        enum rule_id overrun = rdma_controller_overrun(c->machine);

        if (c->link.waits < c->entries)
                return true;
        if (!rule_in(&service(c)->policy.waived, overrun)) {
                end_for(c, overrun);
                return false;
        }
        take_capsule(c, rdma_link_oldest(&c->link));
        return true;
}

/* Takes it in this turn or, after those that wait already, in a later one. */
static void take_or_defer(struct rdma_conn *c, struct rdma_recv *rx)
{
        if (rdma_link_has_turn(&c->link))
                take_capsule(c, rx);
        else if (c->conn.failed || !may_wait(c))
                rdma_link_recv_put(c, rx);
        else
                rdma_link_defer(&c->link, rx);
}

static bool on_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct rdma_conn *c = conn_of(e);
        struct rdma_recv *rx = (struct rdma_recv *)wc->wr;

        if (wc->wr->op == VERBS_RECV && wc->status == VERBS_SUCCESS) {
                rx->bytes = wc->bytes;
                take_or_defer(c, rx);
                return false;
        }
        if (wc->wr->op != VERBS_RECV &&
            (e->life.state >= LIFE_DEAD || !rdma_controller_completed(c->machine, wc)))
                return false;
        if (e->life.state == LIFE_LIVE)
                report_failure(c, wc);
        if (wc->wr->op == VERBS_RECV)
                rdma_link_recv_put(c, rx);
        return !takes_no_notice(c, LIFE_FAILED);
}

static void trace_life(struct rdma_ep *e, enum life_event why)
{
        struct rdma_conn *c = conn_of(e);
        char what[80];

        if (!service(c)->trace)
                return;
        snprintf(what, sizeof(what), "%s (%s)", life_state_name(e->life.state),
                 life_event_name(why));
        conn_trace_line(&c->conn, what);
}

static void on_end(struct rdma_ep *e)
{
        struct rdma_conn *c = conn_of(e);

        rdma_link_drop_waiting(&c->link);
        rdma_controller_end(c->machine);
        conn_end(&c->conn);
}

/* What it was made of, as far as it was. */
static void dismantle(struct rdma_conn *c)
{
        if (c->machine)
                rdma_controller_free(c->machine);
        rdma_link_fini(&c->link);
        free(c);
}

/* --- what goes -------------------------------------------------------------------------------- */

/* Its last response has reached the host. */
static bool is_said(const struct rdma_conn *c)
{
        return c->conn.last_words && c->link.ep.unfinished == 0 &&
               !rdma_controller_wants_post(c->machine);
}

/* Nobody will speak of it any more. */
static bool is_idle(const struct rdma_conn *c)
{
        return requests_executing(rdma_requests(c->machine)) == 0 && !loop_posted(&c->conn.close) &&
               c->conn.asked == 0;
}

/* Posts what is ready, and sees what becomes of it; may free it. */
static void settle(struct rdma_ep *e)
{
        struct rdma_conn *c = conn_of(e);

        if (e->life.state == LIFE_LIVE &&
            rdma_link_post(&c->link, rdma_controller_take(c->machine)) < 0)
                report(c, "posting", "posting failed", strerror(errno));
        if (e->life.state <= LIFE_LIVE && (c->conn.failed || is_said(c)))
                rdma_ep_step(e, LIFE_CLOSE);
        if (e->life.state == LIFE_DEAD && is_idle(c) && rdma_ep_release(e)) {
                rdma_controller_free(c->machine); /* gives buffers back */
                c->machine = NULL;
                conn_retire(&c->conn);
                dismantle(c);
        }
}

static void go_on(struct conn *base)
{
        struct rdma_conn *c = of_base(base);
        bool live = c->link.ep.life.state == LIFE_LIVE;
        struct rdma_recv *rx;

        conn_go_on(&c->conn);
        while (live && !c->conn.failed && (rx = rdma_link_next(&c->link)) != NULL)
                take_capsule(c, rx);
        settle(&c->link.ep);
}

static void feed(struct conn *base)
{
        struct rdma_conn *c = of_base(base);

        if (c->link.ep.life.state == LIFE_LIVE)
                requests_buffers(rdma_requests(c->machine));
        settle(&c->link.ep);
}

/* --- timers ----------------------------------------------------------------------------------- */

static void sweep_set_up(struct rdma_conn *c)
{
        bool late = c->link.ep.life.state == LIFE_CONNECTING;

        if (c->conn.queue.connected ||
            !rdma_ep_is_older(&c->link.ep, service(c)->limits.ic_timeout))
                return;
        report(c, "setup", "closed",
               late ? "timed out before the connection was established" : "no Connect");
        rdma_ep_step(&c->link.ep, late ? LIFE_LATE : LIFE_CLOSE);
}

/* A host that posts no receives, or whose link is stuck, holds what its commands have. */
static void sweep_pace(struct rdma_conn *c)
{
        if (conn_keeps_pace(&c->conn, rdma_requests(c->machine)))
                return;
        if (!c->conn.reported)
                metric_add(&conn_own(&c->conn)->metrics.stalled, 1);
        report(c, "timeout", "closed",
               "timed out: the host does not take or send a command's data");
        rdma_ep_step(&c->link.ep, LIFE_CLOSE);
}

static void sweep(struct conn *base)
{
        struct rdma_conn *c = of_base(base);

        if (c->link.ep.life.state <= LIFE_LIVE)
                sweep_set_up(c);
        if (c->link.ep.life.state == LIFE_LIVE)
                sweep_pace(c);
        rdma_link_expire(&c->link);
        settle(&c->link.ep);
}

static bool is_busy(const struct rdma_conn *c)
{
        return c->link.waiting || c->link.ep.unfinished > 0 ||
               rdma_controller_wants_post(c->machine) ||
               conn_is_busy(&c->conn, requests_executing(rdma_requests(c->machine)));
}

static void drain(struct conn *base, bool at_once)
{
        struct rdma_conn *c = of_base(base);

        if (at_once)
                rdma_ep_step(&c->link.ep, LIFE_ABORT);
        else if (c->link.ep.life.state <= LIFE_LIVE && !is_busy(c))
                rdma_ep_step(&c->link.ep, LIFE_CLOSE);
        settle(&c->link.ep);
}

/* --- connect requests ------------------------------------------------------------------------- */

void rdma_conn_reject(struct nvme_service *s, struct verbs_ep *ep, uint16_t sts)
{
        struct rdma_reject r = { .sts = le16(sts) };
        struct spoil_cm spoil = { .message = SPOIL_REJECT, .data = &r, .len = sizeof(r) };

        spoil_cm(&s->policy.violated, &spoil);
        rdma_ep_refuse(ep, &r, spoil.len);
}

static void refuse(struct nvme_service *s, const struct verbs_event *e, uint16_t sts,
                   const char *why)
{
        if (!s->quiet)
                rdma_log_rejected(e->ep, "connect request", rdma_reject_name(sts), why);
        rdma_conn_reject(s, e->ep, sts);
}

static struct rdma_limits limits_of(const struct nvme_service *s, const struct rdma_request *r)
{
        return (struct rdma_limits) {
                .queues = (uint16_t)s->limits.queues,
                .entries = ctrl_entries_max(&s->ctrl, le16_get(r->qid)),
                .hrqsize_min = 1,
                .reads_in_min = 1,
        };
}

/* False: it was rejected. */
static bool is_acceptable(struct nvme_service *s, const struct verbs_event *e,
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

/* A rule was waived: whatever was asked for, a queue has a size. */
static uint32_t entries_of(const struct nvme_service *s, const struct rdma_request *r)
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
static uint32_t crqsize_of(const struct rdma_conn *c, uint32_t entries, uint8_t rnr_retry)
{
        uint32_t most = rdma_link_receives_left(&c->link);

        if (most >= entries)
                return entries;
        return most >= RECEIVES_LEAST && rnr_retry > 0 ? most : 0;
}

static struct rdma_controller *make_machine(struct rdma_conn *c, uint32_t entries,
                                            const struct verbs_qp_attr *attr, uint32_t reads)
{
        const struct nvme_service *s = service(c);
        struct rdma_controller_config cfg = {
                .format = s->ctrl.rdma,
                .max_transfer = s->limits.max_transfer,
                .send_wrs = attr->send_wrs,
                .reads = reads,
                .inline_bytes = attr->inline_bytes,
                .depth = (uint16_t)least(entries, UINT16_MAX),
                .policy = &s->policy,
        };
        struct rdma_controller_ops ops = {
                .request = conn_request_ops,
                .recv_put = rdma_link_recv_put,
                .response_memory = rdma_link_memory_get,
                .response_memory_put = rdma_link_memory_put,
        };

        cfg.format.admin = le16_get(c->request.qid) == 0;
        ops.request.buffer_get = rdma_link_buffer_get;
        ops.request.buffer_put = rdma_link_buffer_put;
        return rdma_controller_new(&cfg, &ops, c);
}

/* Promises more than there is, if RDMA_CREDITS is broken. */
static uint32_t receives_of(const struct rdma_conn *c, uint32_t crqsize)
{
        return violates_rule(c, RDMA_CREDITS) ? 1 : crqsize;
}

/* All that it needs before it can be accepted; -1 with errno. */
static int build(struct rdma_conn *c, uint32_t entries, uint32_t crqsize, uint32_t reads)
{
        struct verbs_qp_attr attr = { .send_wrs = WRS_EACH * entries + WRS_MORE,
                                      .recv_wrs = crqsize,
                                      .inline_bytes = RESPONSE_LEN };

        if (rdma_link_make(&c->link, &attr, receives_of(c, crqsize)) < 0)
                return -1;
        errno = ENOMEM;
        c->machine = make_machine(c, entries, &attr, reads);
        return c->machine ? 0 : -1;
}

static void renew(struct target_conn *conn)
{
        struct rdma_conn *c = rdma_of(conn);

        if (!c->machine)
                return;
        rdma_controller_renew(c->machine);
        requests_set_faulty(rdma_requests(c->machine), service(c)->faults);
        conn_times_renew(conn, rdma_requests(c->machine));
        conn_trigger_renew(conn);
}

/* What is posted already is flushed or arrives, as it is with a connection that is lost. */
static void finish(struct target_conn *conn, bool reset)
{
        (void)reset;
        conn->failed = true;
}

static void cut(struct target_conn *conn)
{
        drain(&conn->base, true);
}

static const struct requests *requests(const struct target_conn *c)
{
        return rdma_requests(((const struct rdma_conn *)(const void *)c)->machine);
}

static const struct target_conn_kind kind = {
        .base = { .go_on = go_on, .feed = feed, .sweep = sweep, .wake = conn_wake, .drain = drain },
        .renew = renew,
        .cut = cut,
        .requests = requests,
        .finish = finish,
};

static void start_conn(struct rdma_conn *c, struct port *port, const struct conn_peer *peer)
{
        conn_begin(&c->conn, &kind, c->conn.base.reactor, port, peer, &c->link.device->pool);
        conn_times_renew(&c->conn, rdma_requests(c->machine));
        c->conn.queue.rdma = &c->request;
        c->conn.queue.prtype = c->link.ep.dev->caps->iwarp ? PRTYPE_IWARP : PRTYPE_ROCE_V2;
        requests_set_faulty(rdma_requests(c->machine), service(c)->faults);
        trace_life(&c->link.ep, LIFE_EVENTS);
}

/* CRQSIZE is not more than was asked for, even where that breaks a rule that is waived. */
static void accept_it(struct rdma_conn *c, uint32_t crqsize, uint8_t reads, uint8_t rnr_retry)
{
        uint32_t asked = le16_get(c->request.hsqsize) + 1u;
        struct rdma_accept a = { .crqsize =
                                     le16((uint16_t)least(least(crqsize, asked), UINT16_MAX)) };
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
        if (rdma_ep_accept(&c->link.ep, &p) < 0) {
                report(c, "accepting", "accepting failed", strerror(errno));
                rdma_ep_step(&c->link.ep, LIFE_REFUSED);
        }
        settle(&c->link.ep);
}

/* NULL: out of memory. */
static struct rdma_conn *conn_new(struct reactor *r, const struct verbs_event *e)
{
        static const struct rdma_ep_ops ops = { .event = on_event,
                                                .completed = on_completion,
                                                .moved = trace_life,
                                                .end = on_end,
                                                .settle = settle };
        struct rdma_conn *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->conn.base.reactor = r;
        rdma_link_init(&c->link, &c->conn.base, &ops);
        (void)rdma_request_read(e->data, e->param.len, &c->request);
        verbs_addresses(e->ep, c->conn.base.traddr, NULL, sizeof(c->conn.base.traddr));
        c->entries = entries_of(reactor_service(r), &c->request);
        return c;
}

/* -1 with errno. */
static int prepare(struct rdma_conn *c, const struct verbs_event *e, uint32_t *crqsize,
                   uint8_t *reads)
{
        if (rdma_link_take(&c->link, e->ep) < 0)
                return -1;
        *crqsize = crqsize_of(c, c->entries, e->param.rnr_retry);
        *reads = rdma_link_reads(&c->link, &e->param);
        errno = ENOSPC;
        return *crqsize > 0 ? build(c, c->entries, *crqsize, *reads) : -1;
}

/* NULL: rejected. */
static struct rdma_conn *serve(struct reactor *r, const struct verbs_event *e, uint32_t *crqsize,
                               uint8_t *reads)
{
        struct rdma_conn *c = conn_new(r, e);

        if (c && prepare(c, e, crqsize, reads) == 0)
                return c;
        refuse(reactor_service(r), e, RDMA_REJECT_RESOURCES, strerror(errno));
        if (c) {
                rdma_ep_disown(&c->link.ep);
                dismantle(c);
        }
        return NULL;
}

void rdma_conn_start(struct reactor *r, struct port *port, const struct verbs_event *e,
                     const struct conn_peer *peer)
{
        struct rdma_request request;
        struct rdma_conn *c = NULL;
        uint32_t crqsize;
        uint8_t reads;

        (void)rdma_request_read(e->data, e->param.len, &request);
        if (is_acceptable(reactor_service(r), e, &request))
                c = serve(r, e, &crqsize, &reads);
        if (!c) {
                conn_uncount(r->service, port, peer);
                return;
        }
        start_conn(c, port, peer);
        accept_it(c, crqsize, reads, e->param.rnr_retry);
}
