/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over RDMA by hand. A connection posts all of its receives at once and sends from places of its own;
 * completions and events are taken as they come, and then the scheduler goes on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/verbs/rdma_wait.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "remote_verbs.h"

enum {
        RECVS =
            96, /* what a target may say without being asked is little; a request has one response */
        RECV = 512, /* bytes of one */
        SENDS = 48,
        RETRIES = 7,
        EVENTS = 64, /* at a time; also batches of completions, and rounds of both */
};

struct room { /* registered */
        _Alignas(REMOTE_VERBS_DATA) uint8_t data[SEQ_QUEUES][REMOTE_VERBS_DATA];
        uint8_t send[SEQ_QUEUES][SENDS][REMOTE_VERBS_SEND];
        uint8_t recv[SEQ_QUEUES][RECVS][RECV];
};

struct verbs_conn {
        struct remote_conn base; /* first */
        struct rdma_ep ep;       /* group NULL: none */
        void *talk;
        struct verbs_ask ask;
        struct verbs_wr send[SENDS], recv[RECVS];
        bool sending[SENDS];
};

struct verbs_session {
        struct remote_session base; /* first */
        const struct verbs_talk_ops *ops;
        struct rdma_group group; /* context NULL: not open */
        struct rdma_loop loop;
        struct rdma_dev
            *dev; /* where the room is registered; NULL: no connection was resolved yet */
        struct verbs_mr mr;
        struct room *room;
        struct verbs_conn conn[SEQ_QUEUES];
};

static struct verbs_session *session_of(const struct remote_session *s)
{
        return (struct verbs_session *)(void *)(uintptr_t)s;
}

static struct verbs_conn *conn_of(const struct remote_conn *c)
{
        return (struct verbs_conn *)(void *)(uintptr_t)c;
}

static struct verbs_conn *conn_at(struct rdma_ep *e)
{
        return (struct verbs_conn *)(void *)((char *)e - offsetof(struct verbs_conn, ep));
}

static const struct verbs_talk_ops *ops_of(const struct verbs_conn *c)
{
        return session_of(c->base.session)->ops;
}

/* --- work ------------------------------------------------------------------------------------- */

static int post_recv(struct verbs_conn *c, unsigned i)
{
        struct verbs_session *s = session_of(c->base.session);
        struct verbs_wr *bad;

        c->recv[i] =
            (struct verbs_wr) { .op = VERBS_RECV,
                                .n_sge = 1,
                                .sge = { { s->room->recv[c->base.on][i], RECV, s->mr.lkey } } };
        return rdma_ep_post_recv(&c->ep, &c->recv[i], &bad);
}

static int free_send(const struct verbs_conn *c)
{
        for (int i = 0; i < SENDS; i++)
                if (!c->sending[i])
                        return i;
        return -1;
}

bool remote_verbs_post(struct remote_conn *base, const uint8_t *bytes, uint32_t len)
{
        struct verbs_session *s = session_of(base->session);
        struct verbs_conn *c = conn_of(base);
        int i = free_send(c);
        struct verbs_wr *bad;
        uint8_t *place;

        if (i < 0)
                return false;
        place = s->room->send[base->on][i];
        len = len < REMOTE_VERBS_SEND ? len : REMOTE_VERBS_SEND;
        memcpy(place, bytes, len);
        c->send[i] = (struct verbs_wr) { .op = VERBS_SEND,
                                         .flags = VERBS_SIGNALED,
                                         .n_sge = 1,
                                         .sge = { { place, len, s->mr.lkey } } };
        c->sending[i] = true;
        if (rdma_ep_post(&c->ep, &c->send[i], &bad) == 0)
                return true;
        base->broken = true;
        rdma_ep_flushed(&c->ep, bad);
        return false;
}

bool remote_verbs_expects(const struct remote_conn *c)
{
        return session_of(c->session)->ops->expects(conn_of(c)->talk);
}

bool remote_verbs_can_send(const struct remote_conn *base, const struct seq_step *step)
{
        const struct verbs_conn *c = conn_of(base);

        return base->session->impatient || (free_send(c) >= 0 && !ops_of(c)->waits(c->talk, step));
}

bool remote_verbs_send(struct remote_conn *base, const struct seq_step *step)
{
        struct verbs_conn *c = conn_of(base);

        return ops_of(c)->say(c->talk, base->session->sequence, step);
}

/* False, here and below: the endpoint's life is none of its own. */
static bool completed(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct verbs_conn *c = conn_at(e);
        bool recv = wc->wr->op == VERBS_RECV;

        if (!recv)
                c->sending[wc->wr - c->send] = false;
        if (c->base.state != CONN_LIVE && c->base.state != CONN_OPENING)
                return false;
        if (wc->status != VERBS_SUCCESS) {
                if (!c->base.broken && wc->status != VERBS_FLUSHED)
                        conn_received_word(&c->base, (uint64_t)wc->status << 48 | 2);
                c->base.broken = true;
        } else if (recv) {
                ops_of(c)->heard(c->talk, wc->wr->sge[0].addr, wc);
                c->base.broken |= post_recv(c, (unsigned)(wc->wr - c->recv)) < 0;
        }
        return false;
}

/* --- connection management ---------------------------------------------------------------------- */

static bool use_device(struct verbs_session *s, struct rdma_dev *d)
{
        if (s->dev)
                return s->dev == d;
        if (verbs_reg(d->domain, s->room, sizeof(*s->room), VERBS_REMOTE_READ | VERBS_REMOTE_WRITE,
                      &s->mr) < 0)
                return false;
        s->dev = d;
        d->user = s;
        return rdma_loop_update(&s->loop) == 0;
}

static void device_gone(struct rdma_dev *d)
{
        struct verbs_session *s = d->user;

        if (!s)
                return;
        if (d->domain)
                verbs_dereg(d->domain, &s->mr);
        s->dev = NULL;
}

static void resolved(struct verbs_conn *c)
{
        struct verbs_qp_attr attr = { .send_wrs = SENDS, .recv_wrs = RECVS };
        struct verbs_session *s = session_of(c->base.session);
        const struct verbs_conn_param p = { .data = c->ask.data,
                                            .len = (uint8_t)c->ask.len,
                                            .reads_in = c->ask.reads_in,
                                            .reads_out = c->ask.reads_out,
                                            .rnr_retry = RETRIES,
                                            .retry = RETRIES };
        bool ok = use_device(s, c->ep.dev) && rdma_ep_qp(&c->ep, &attr) == 0;

        for (unsigned i = 0; i < RECVS && ok; i++)
                ok = post_recv(c, i) == 0;
        s->ops->asking(c->talk, s->room->data[c->base.on], s->mr.rkey);
        if (!ok || rdma_ep_connect(&c->ep, &p) < 0)
                conn_refuse(&c->base, "connect: %s", strerror(errno));
}

static void refused(struct verbs_conn *c, const struct verbs_event *e)
{
        conn_refuse(&c->base, "%s: %s", verbs_event_name(e->type),
                    strerror(e->reason < 0 ? -e->reason : ECONNREFUSED));
}

static bool happened(struct rdma_ep *ep, const struct verbs_event *e)
{
        struct verbs_conn *c = conn_at(ep);
        bool opening = c->base.state == CONN_OPENING;

        if (!opening && c->base.state != CONN_LIVE)
                return false;
        if (e->type == VERBS_RESOLVED) {
                resolved(c);
        } else if (e->type == VERBS_ESTABLISHED && opening) {
                conn_live(&c->base);
                ops_of(c)->accepted(c->talk, e);
                return true;
        } else if (e->type == VERBS_REJECTED) {
                ops_of(c)->rejected(c->talk, e);
                conn_ended(&c->base, false);
        } else if (e->type == VERBS_UNREACHABLE || e->type == VERBS_CONNECT_ERROR) {
                refused(c, e);
        } else if (e->type == VERBS_DISCONNECTED) { /* what was said before it is heard first */
                (void)rdma_group_poll(&session_of(c->base.session)->group, EVENTS);
                conn_ended(&c->base, false);
        } else if (e->type == VERBS_QP_ERROR || e->type == VERBS_DEVICE_REMOVED) {
                c->base.broken = true;
        }
        return false;
}

bool remote_verbs_open(struct remote_conn *base, const struct seq_step *step)
{
        static const struct rdma_ep_ops ep_ops = { .event = happened, .completed = completed };
        struct verbs_session *s = session_of(base->session);
        unsigned timeout = base->session->target->timeout;
        struct verbs_conn *c = conn_of(base);
        struct verbs_where at = { 0 };
        int rc;

        conn_speaks(base);
        memset(c->sending, 0, sizeof(c->sending));
        rc = s->ops->ask(c->talk, s->conn[0].talk, step, &c->ask);
        if (rc < 0)
                conn_refuse(base, "%s", strerror(errno));
        if (rc <= 0)
                return rc < 0;
        conn_opening(base, timeout);
        rdma_ep_init(&c->ep, &s->group, &ep_ops);
        s->ops->where(base->session->target, &at);
        if (rdma_ep_resolve(&c->ep, at.traddr, at.trsvcid, timeout) < 0)
                conn_refuse(base, "resolve: %s", strerror(errno));
        return true;
}

void remote_verbs_half_close(struct remote_conn *base)
{
        struct verbs_conn *c = conn_of(base);

        if (ops_of(c)->leaves)
                ops_of(c)->leaves(c->talk);
        rdma_ep_disconnect(&c->ep);
}

void remote_verbs_close(struct remote_conn *c, bool reset)
{
        if (c->state != CONN_LIVE)
                return;
        if (reset)
                rdma_ep_fail(&conn_of(c)->ep);
        else
                remote_verbs_half_close(c);
}

/* --- life --------------------------------------------------------------------------------------- */

/* All that there is to take, and what follows from it; then the bell is set. What came before it was
 * set has no bell: it counts for the next round. */
bool remote_verbs_poll(struct remote_session *s)
{
        struct rdma_group *g = &session_of(s)->group;
        struct pollfd fds[RDMA_FDS];
        unsigned rounds = 0;
        bool any = false;

        do {
                any |= rdma_group_events(g, EVENTS) > 0;
                any |= rdma_group_poll(g, EVENTS) > 0;
                if (any)
                        remote_go(s);
                any = rdma_group_arm(g, fds, RDMA_FDS) < 0;
        } while (any && s->sequence && ++rounds < EVENTS);
        if (!any || !s->sequence)
                return true;
        s->deadline = loop_now_ms();
        return false;
}

static void ready(struct rdma_loop *l, bool events)
{
        struct verbs_session *s =
            (struct verbs_session *)(void *)((char *)l - offsetof(struct verbs_session, loop));

        (void)events;
        remote_verbs_poll(&s->base);
}

static bool open_context(struct verbs_session *s)
{
        static const struct rdma_group_ops ops = { .dev_free = device_gone };
        struct verbs_where at = { 0 };

        s->ops->where(s->base.target, &at);
        if (!at.verbs)
                at.verbs = verbs_rdma(s->base.answer.why, sizeof(s->base.answer.why));
        if (!at.verbs || rdma_group_open(&s->group, at.verbs, &ops, loop_now_ms) < 0)
                return false;
        s->loop = (struct rdma_loop) { s->base.loop, .context = s->group.context, .ready = ready };
        return rdma_loop_update(&s->loop) == 0;
}

bool remote_verbs_begin(struct remote_session *base)
{
        struct verbs_session *s = session_of(base);

        if (s->ops->begin)
                s->ops->begin(s->conn[0].talk);
        if (!s->group.context && !open_context(s))
                return false;
        base->blind = s->loop.count == 0;
        return true;
}

void remote_verbs_end(struct remote_session *base)
{
        struct verbs_session *s = session_of(base);

        for (struct verbs_conn *c = s->conn; c < s->conn + SEQ_QUEUES; c++) {
                if (c->ep.group)
                        rdma_ep_destroy(&c->ep);
                c->ep.group = NULL;
        }
}

void remote_verbs_free(struct remote_session *base)
{
        struct verbs_session *s = session_of(base);

        rdma_loop_end(&s->loop);
        rdma_group_close(&s->group);
        for (struct verbs_conn *c = s->conn; c < s->conn + SEQ_QUEUES; c++) {
                if (c->talk && s->ops->fini)
                        s->ops->fini(c->talk);
                free(c->talk);
        }
        free(s->room);
        free(s);
}

static bool prepare(struct verbs_session *s, struct verbs_conn *c)
{
        s->base.conn[c - s->conn] = &c->base;
        c->talk = calloc(1, s->ops->bytes);
        if (c->talk)
                s->ops->init(c->talk, &c->base);
        return c->talk;
}

struct remote_session *remote_verbs_new(const struct verbs_talk_ops *ops)
{
        struct verbs_session *s = calloc(1, sizeof(*s));
        bool ok;

        if (!s)
                return NULL;
        s->ops = ops;
        s->room = aligned_alloc(REMOTE_VERBS_DATA, sizeof(*s->room));
        ok = s->room;
        for (unsigned i = 0; i < SEQ_QUEUES && ok; i++)
                ok = prepare(s, &s->conn[i]);
        if (ok) {
                memset(s->room, 0, sizeof(*s->room));
                return &s->base;
        }
        remote_verbs_free(&s->base);
        return NULL;
}
