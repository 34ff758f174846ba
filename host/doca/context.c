/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/time.h"
#include "pdu/core/plant.h"
#include "pdu/doca/machine/spoil.h"
#include "pdu/io/net.h"
#include "pdu/io/verbs/rdma_wait.h"
#include "session.h"

enum {
        RETRIES = 7,
        READS = 16, /* of the target at a time, if the device can */
        NAP_MS = 10,
        IDLE_POLLS = 256, /* that found nothing, for a look at events */
};

static struct doca_link *link_of(struct rdma_ep *e)
{
        return (struct doca_link *)e;
}

/* --- requests ----------------------------------------------------------------------------------- */

static void ended(struct doca_request *r, enum load_outcome outcome)
{
        struct load_io *io = r->io;

        r->io = NULL;
        r->next = r->context->free;
        r->context->free = r;
        io->outcome = outcome;
        io->done(io, io->user);
}

static uint32_t bytes_of(const struct doca_context *c, const struct load_io *io)
{
        return io->blocks * c->session->block_size;
}

/* Its place in the memory; 2.10: the one that it has in the storage. */
static uint8_t *data_of(const struct doca_request *r)
{
        const struct doca_session *s = r->context->session;

        return s->params->dialect->storage_by_memory ? s->exported + r->io->block * s->block_size
                                                     : r->data;
}

static void conclude(struct doca_request *r)
{
        bool ok = r->result == DOCA_SUCCESS || PLANTED(DOCA_ERROR_MASKED);

        if (!r->sent || !r->answered)
                return;
        if (!ok)
                r->context->session->failed_result = r->result;
        if (ok && !r->io->write && r->io->data)
                memcpy(r->io->data, data_of(r), bytes_of(r->context, r->io));
        ended(r, ok ? LOAD_DONE : LOAD_FAILED);
}

static enum doca_rule fault(const struct doca_context *c, const struct rule_set *found)
{
        rule_each_in (found, id)
                if (rule_grade(doca_rule_get(id)) == GRADE_MUST &&
                    !rule_in(&c->session->params->policy.waived, id))
                        return (enum doca_rule)id;
        return DOCA_RULE_NONE;
}

/* NULL: it is of none that is outstanding. */
static struct doca_request *request_of(const struct doca_context *c, uint64_t user_data)
{
        const struct doca_params *p = c->session->params;

        if (!p->change)
                return user_data > 0 && user_data <= p->depth && c->requests[user_data - 1].io
                           ? &c->requests[user_data - 1]
                           : NULL;
        for (unsigned i = 0; i < p->depth; i++)
                if (c->requests[i].io && c->requests[i].said.user_data == user_data)
                        return &c->requests[i];
        return NULL;
}

static void take_result(struct doca_context *c, struct rdma_recv *rx)
{
        struct rule_set found = { 0 };
        struct doca_request *r;
        enum doca_rule rule;
        struct doca_io io;

        doca_flow_says(c->flow, PARTY_CONTROLLER, rx->wr.sge[0].addr, rx->bytes, &io, &found);
        rx->wr.next = c->to_post;
        c->to_post = &rx->wr;
        rule_each_in (&found, id)
                rule_add(&c->session->found, id);
        rule = fault(c, &found);
        if (rule != DOCA_RULE_NONE) {
                (void)doca_context_break(c, "context %u: target broke %s (%s)", c->number,
                                         doca_rule_get(rule)->id, doca_rule_get(rule)->says);
                return;
        }
        r = request_of(c, io.user_data);
        if (!r)
                return;
        r->result = (uint32_t)io.result;
        r->answered = true;
        conclude(r);
}

static void build(struct doca_request *r)
{
        struct doca_context *c = r->context;
        const struct doca_session *s = c->session;
        const struct doca_dialect *d = s->params->dialect;
        uint64_t base = (uint64_t)(uintptr_t)s->exported;
        struct doca_place at = { .memory = (uint64_t)(data_of(r) - s->exported),
                                 .storage = r->io->block * s->block_size };
        uint32_t n = DOCA_IO_LEN;
        struct rule_set own = { 0 };

        r->said = (struct doca_io) { .type = r->io->write ? DOCA_IO_WRITE : DOCA_IO_READ,
                                     .user_data = (uint64_t)(r - c->requests) + 1,
                                     .size = bytes_of(c, r->io) };
        doca_io_put_place(d, &r->said, base, at);
        if (s->params->change)
                s->params->change(s, &r->said);
        doca_io_write(d, &r->said, r->message);
        (void)doca_spoil_io(&s->params->policy.violated, d, PARTY_HOST, r->message, &n);
        doca_flow_says(c->flow, PARTY_HOST, r->message, n, &r->said, &own);
        r->send = (struct verbs_wr) { .op = VERBS_SEND,
                                      .flags = VERBS_SIGNALED,
                                      .n_sge = 1,
                                      .sge = { { r->message, n, s->messages_key } },
                                      .user = r };
}

/* Its data has a place in the memory. */
static bool has_place(const struct doca_context *c, const struct load_io *io)
{
        const struct doca_session *s = c->session;

        return bytes_of(c, io) <= s->params->io_bytes &&
               doca_within(io->block, io->blocks, s->total_size / s->block_size);
}

static int submit(struct load *l, unsigned queue, struct load_io *io)
{
        struct doca_session *s = l->host;
        struct doca_context *c = &s->contexts[queue];
        struct doca_request *r = c->free;

        if (c->state.broken || !r || !has_place(c, io))
                return -1;
        c->free = r->next;
        r->io = io;
        r->sent = r->answered = false;
        if (io->write)
                memcpy(data_of(r), io->data, bytes_of(c, io));
        build(r);
        *c->to_send_last = &r->send;
        c->to_send_last = &r->send.next;
        return 0;
}

/* --- posting and polling ------------------------------------------------------------------------ */

static int post(struct doca_context *c)
{
        struct verbs_wr *recvs = c->to_post, *sends = c->to_send, *bad;
        struct rdma_ep *ep = &c->link[DOCA_IO_CONTROL].ep;

        c->to_post = c->to_send = NULL;
        c->to_send_last = &c->to_send;
        if (recvs && rdma_ep_post_recv(ep, recvs, &bad) < 0)
                return -1;
        return sends ? rdma_ep_post(ep, sends, &bad) : 0;
}

static int send_queued(struct load *l, unsigned queue)
{
        struct doca_context *c = &((struct doca_session *)l->host)->contexts[queue];

        if (c->state.broken)
                return -1;
        if (post(c) < 0)
                return doca_context_break(c, "context %u: post: %s", c->number, strerror(errno));
        return 0;
}

/* What comes is of any context: they have one completion queue. */
static long receive(struct load *l, unsigned queue)
{
        struct doca_session *s = l->host;
        long n;

        n = (long)rdma_group_poll(&s->group, 1);
        if (n == 0 && (s->slept || s->polls++ % IDLE_POLLS == 0))
                (void)rdma_group_events(&s->group, UINT32_MAX);
        s->slept = false;
        for (unsigned i = 0; n > 0 && i < s->n_contexts; i++)
                if (!s->contexts[i].state.broken)
                        (void)send_queued(l, i);
        return s->contexts[queue].state.broken ? -1 : n;
}

static int fds(struct load *l, unsigned queue, struct pollfd *to)
{
        struct doca_session *s = l->host;

        (void)queue;
        s->slept = true;
        return rdma_group_arm(&s->group, to, LOAD_FDS);
}

static void abandon(struct load *l, unsigned queue, const char *why)
{
        struct doca_context *c = &((struct doca_session *)l->host)->contexts[queue];

        (void)doca_context_break(c, "context %u: %s", c->number, why);
}

static void why_failed(const struct load *l, const struct load_io *io, struct host_error *e)
{
        const struct doca_session *s = l->host;

        host_error_set(e, HOST_STATUS, "%s of %u blocks at block %" PRIu64 ": %s",
                       io->write ? "write" : "read", io->blocks, io->block,
                       doca_error_name(s->failed_result));
        e->status = (uint16_t)s->failed_result;
}

static struct load_state *state_of(const struct load *l, unsigned queue)
{
        return &((struct doca_session *)l->host)->contexts[queue].state;
}

struct load doca_load(struct doca_session *s)
{
        static const struct load_ops ops = {
                .io_bytes = sizeof(struct load_io),
                .submit = submit,
                .send = send_queued,
                .receive = receive,
                .state = state_of,
                .fds = fds,
                .abandon = abandon,
                .why_failed = why_failed,
        };

        return (struct load) { .ops = &ops,
                               .host = s,
                               .queues = s->n_contexts,
                               .depth = s->params->depth,
                               .block_size = s->block_size,
                               .blocks = s->total_size / s->block_size,
                               .max_blocks = s->params->io_bytes / s->block_size,
                               .timeout = s->params->timeout };
}

static void one_done(struct load_io *io, void *user)
{
        (void)io;
        *(bool *)user = true;
}

int doca_transfer(struct doca_session *s, unsigned context, bool write, uint64_t block,
                  uint32_t blocks, void *data, struct host_error *e)
{
        struct load l = doca_load(s);
        uint64_t deadline = deadline_in(s->params->timeout);
        bool done = false;
        struct load_io io = { .write = write,
                              .block = block,
                              .blocks = blocks,
                              .data = data,
                              .done = one_done,
                              .user = &done };

        if (!has_place(&s->contexts[context], &io))
                return host_fail(e, HOST_USAGE, "%u blocks at block %" PRIu64 " do not fit", blocks,
                                 block);
        if (submit(&l, context, &io) == 0 && send_queued(&l, context) == 0)
                while (!done && receive(&l, context) >= 0) {
                        if (ms_until(deadline) == 0)
                                abandon(&l, context, "a request timed out");
                        else if (!done) {
                                s->slept = true;
                                rdma_group_sleep(&s->group, NAP_MS);
                        }
                }
        if (done && io.outcome == LOAD_DONE)
                return 0;
        if (done && io.outcome == LOAD_FAILED)
                why_failed(&l, &io, e);
        else
                load_why_lost(&l, context, e);
        return -1;
}

/* --- what the endpoints say --------------------------------------------------------------------- */

static const char *ending(enum life_event why)
{
        return why == LIFE_REMOVED                              ? "the RDMA device was removed"
               : why == LIFE_REFUSED                            ? "the connection failed"
               : why == LIFE_FAILED || why == LIFE_DISCONNECTED ? "the queue pair failed"
                                                                : NULL;
}

static bool on_event(struct rdma_ep *e, const struct verbs_event *event)
{
        struct doca_link *l = link_of(e);
        enum life_event why = life_event_of(event->type);

        if (why == LIFE_EVENTS)
                return false;
        rdma_ep_step(e, why);
        if (ending(why))
                (void)doca_context_break(l->context, "context %u: %s: %s", l->context->number,
                                         doca_role_name(l->role), ending(why));
        return false;
}

static void take_completion(struct doca_context *c, const struct verbs_wc *wc)
{
        struct doca_request *r = wc->wr->user;
        struct rdma_recv *rx = (struct rdma_recv *)wc->wr;

        if (wc->wr->op == VERBS_RECV) {
                rx->bytes = wc->bytes;
                take_result(c, rx);
        } else if (wc->wr->op == VERBS_SEND && r->io) {
                r->sent = true;
                conclude(r);
        }
}

static bool on_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct doca_link *l = link_of(e);
        struct doca_context *c = l->context;

        if (wc->status != VERBS_SUCCESS) {
                if (wc->status != VERBS_FLUSHED || !c->state.broken)
                        (void)doca_context_break(c, "context %u: %s on %s failed: %s", c->number,
                                                 verbs_op_name(wc->wr->op), doca_role_name(l->role),
                                                 verbs_status_name(wc->status));
                return false;
        }
        if (!c->state.broken)
                take_completion(c, wc);
        return false;
}

/* --- the end ------------------------------------------------------------------------------------ */

void doca_context_close(struct doca_context *c)
{
        c->state.broken = true;
        for (unsigned role = 0; role < DOCA_ROLES; role++)
                if (c->link[role].ep.life.has_qp)
                        rdma_ep_step(&c->link[role].ep, LIFE_ABORT);
}

int doca_context_break(struct doca_context *c, const char *fmt, ...)
{
        va_list ap;
        bool news;

        va_start(ap, fmt);
        news = load_vbreak(&c->state, fmt, ap);
        va_end(ap);
        if (!news)
                return -1;
        doca_context_close(c);
        for (unsigned i = 0; c->requests && i < c->session->params->depth; i++)
                if (c->requests[i].io)
                        ended(&c->requests[i], LOAD_LOST);
        return -1;
}

void doca_context_free(struct doca_context *c)
{
        for (unsigned role = 0; role < DOCA_ROLES; role++) {
                (void)rdma_ep_release(&c->link[role].ep);
                rdma_ep_destroy(&c->link[role].ep);
        }
        free(c->requests);
        free(c->recvs);
        free(c->flow);
}

/* --- the beginning ------------------------------------------------------------------------------ */

void doca_context_init(struct doca_context *c, struct doca_session *s, unsigned number)
{
        static const struct rdma_ep_ops ops = { .event = on_event, .completed = on_completion };

        c->session = s;
        c->number = number;
        c->to_send_last = &c->to_send;
        for (unsigned role = 0; role < DOCA_ROLES; role++) {
                c->link[role].context = c;
                c->link[role].role = (enum doca_role)role;
                rdma_ep_init(&c->link[role].ep, &s->group, &ops);
        }
}

int doca_context_local(struct doca_context *c, struct host_error *e)
{
        const char *device = c->session->device;

        for (unsigned role = 0; role < DOCA_ROLES; role++)
                if (rdma_ep_local(&c->link[role].ep, device) < 0) {
                        int no = errno;

                        host_error_set(e, HOST_BROKEN, "no RDMA device at %s: %s", device,
                                       strerror(no));
                        e->no = no;
                        return -1;
                }
        return 0;
}

static void place_slots(struct doca_context *c)
{
        const struct doca_session *s = c->session;
        unsigned depth = s->params->depth;
        size_t first = (size_t)(c->number - 1) * depth;

        for (unsigned i = 0; i < depth; i++) {
                struct doca_request *r = &c->requests[i];

                r->context = c;
                r->data = s->exported + (first + i) * s->params->io_bytes;
                r->message = s->messages + 2 * (first + i) * DOCA_IO_LEN;
                r->next = c->free;
                c->free = r;
                c->recvs[i].wr = (struct verbs_wr) {
                        .op = VERBS_RECV,
                        .n_sge = 1,
                        .sge = { { r->message + DOCA_IO_LEN, DOCA_IO_LEN, s->messages_key } },
                        .next = c->to_post,
                };
                c->to_post = &c->recvs[i].wr;
        }
}

int doca_context_prepare(struct doca_context *c, struct host_error *e)
{
        const struct doca_session *s = c->session;
        struct doca_bounds bounds = { .total_size = s->total_size, .block_size = s->block_size };

        c->requests = calloc(s->params->depth, sizeof(*c->requests));
        c->recvs = calloc(s->params->depth, sizeof(*c->recvs));
        c->flow = malloc(sizeof(*c->flow));
        if (!c->requests || !c->recvs || !c->flow)
                return host_fail(e, HOST_BROKEN, "%s", strerror(ENOMEM));
        doca_flow_init(c->flow, s->params->dialect, &bounds, s->params->depth);
        place_slots(c);
        return 0;
}

static int make_queue_pair(struct doca_link *l, struct host_error *e)
{
        unsigned depth = l->context->session->params->depth;
        struct verbs_qp_attr attr = { .send_wrs = depth, .recv_wrs = depth };

        if (l->role == DOCA_IO_DATA)
                attr = (struct verbs_qp_attr) { .send_wrs = 1, .recv_wrs = 1 };
        if (rdma_ep_qp(&l->ep, &attr) < 0)
                return host_fail(e, HOST_BROKEN, "context %u: cannot make a queue pair on %s: %s",
                                 l->context->number, l->context->session->dev->caps->name,
                                 strerror(errno));
        if (l->role == DOCA_IO_CONTROL && attr.send_wrs < depth)
                return host_fail(e, HOST_BROKEN, "context %u: %s does not hold %u work requests",
                                 l->context->number, l->ep.dev->caps->name, depth);
        return 0;
}

static uint8_t least(uint8_t a, uint8_t b)
{
        return a < b ? a : b;
}

static int join(struct doca_link *l, const struct doca_msg *m, struct host_error *e)
{
        const struct verbs_caps *caps = l->context->session->dev->caps;
        struct verbs_conn_param p = { .rnr_retry = RETRIES, .retry = RETRIES };
        struct doca_end peer;

        if (!doca_end_read(m->data, &peer) || peer.by_cm)
                return host_fail(e, HOST_BROKEN,
                                 "context %u: cannot connect: the target's connection details (%u "
                                 "bytes) are not a verbs blob, version 1",
                                 l->context->number, m->data.len);
        p.reads_in = least(least(caps->reads_in, READS), peer.reads_out);
        p.reads_out = least(caps->reads_out, peer.reads_in);
        if (rdma_ep_join(&l->ep, &peer.numbers, &p) < 0)
                return host_fail(e, HOST_BROKEN, "context %u: %s: %s", l->context->number,
                                 doca_role_name(l->role), strerror(errno));
        return 0;
}

static struct doca_end own_limits(const struct doca_session *s)
{
        const struct verbs_caps *caps = s->dev->caps;

        return (struct doca_end) { .reads_in = least(caps->reads_in, READS),
                                   .reads_out = caps->reads_out,
                                   .rnr_retry = RETRIES,
                                   .retry = RETRIES };
}

/* What the target has to know of this end. */
static int tell(struct doca_link *l, struct doca_end *own, struct host_error *e)
{
        const struct doca_session *s = l->context->session;

        *own = own_limits(s);
        if (!s->by_cm) {
                if (make_queue_pair(l, e) < 0)
                        return -1;
                return rdma_ep_numbers(&l->ep, &own->numbers) == 0
                           ? 0
                           : host_fail(e, HOST_BROKEN, "context %u: %s", l->context->number,
                                       strerror(errno));
        }
        own->by_cm = true;
        own->port = verbs_listener_port(s->listener);
        own->cookie = s->cookie + DOCA_ROLES * (l->context->number - 1) + l->role;
        return net_gid(s->device, own->numbers.gid)
                   ? 0
                   : host_fail(e, HOST_USAGE, "'%s' is not a numeric address", s->device);
}

static int connect_link(struct doca_link *l, struct host_error *e)
{
        struct doca_session *s = l->context->session;
        struct doca_msg response,
            request = { .kind = DOCA_CREATE, .context = l->context->number - 1, .role = l->role };
        uint8_t blob[DOCA_END_BLOB];
        struct doca_end own;

        if (tell(l, &own, e) < 0)
                return -1;
        doca_end_write(&own, blob);
        request.data = (struct doca_bytes) { blob, sizeof(blob) };
        if (doca_session_ask(s, request, &response, e) < 0)
                return -1;
        return s->by_cm ? 0 : join(l, &response, e);
}

/* io_data first, as the reference does; receives before io_control can be used. */
int doca_context_connect(struct doca_context *c, struct host_error *e)
{
        for (unsigned role = 0; role < DOCA_ROLES; role++)
                if (connect_link(&c->link[role], e) < 0)
                        return -1;
        if (!c->session->by_cm && post(c) < 0)
                return host_fail(e, HOST_BROKEN, "context %u: post: %s", c->number,
                                 strerror(errno));
        return 0;
}

/* The target connects to one end of it. */
static void accept_link(struct doca_link *l, struct verbs_ep *ep)
{
        struct doca_context *c = l->context;
        struct doca_end own = own_limits(c->session);
        struct verbs_conn_param p = { .reads_in = own.reads_in,
                                      .reads_out = own.reads_out,
                                      .rnr_retry = RETRIES,
                                      .retry = RETRIES };
        struct host_error e = { 0 };

        if (l->ep.ep || c->state.broken || rdma_ep_take(&l->ep, ep) < 0) {
                rdma_ep_refuse(ep, NULL, 0);
                return;
        }
        if (make_queue_pair(l, &e) < 0)
                (void)doca_context_break(c, "%s", e.line);
        else if ((l->role == DOCA_IO_CONTROL && post(c) < 0) || rdma_ep_accept(&l->ep, &p) < 0)
                (void)doca_context_break(c, "context %u: %s: %s", c->number,
                                         doca_role_name(l->role), strerror(errno));
}

void doca_session_request(struct rdma_group *g, const struct verbs_event *v)
{
        struct doca_session *s =
            (struct doca_session *)(void *)((char *)g - offsetof(struct doca_session, group));
        uint64_t cookie;

        if (!doca_cm_read(v->param.data, v->param.len, &cookie) ||
            cookie - s->cookie >= (uint64_t)DOCA_ROLES * s->n_contexts) {
                rdma_ep_refuse(v->ep, NULL, 0);
                return;
        }
        cookie -= s->cookie;
        accept_link(&s->contexts[cookie / DOCA_ROLES].link[cookie % DOCA_ROLES], v->ep);
}

bool doca_context_is_live(const struct doca_context *c)
{
        for (unsigned role = 0; role < DOCA_ROLES; role++)
                if (c->link[role].ep.life.state != LIFE_LIVE)
                        return false;
        return true;
}
