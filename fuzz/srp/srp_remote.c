/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions of an initiator over RDMA endpoints by hand, of any verbs provider. All memory of a session is registered once
 * and as a whole: whatever a target does there harms nobody. Queue pairs that are over stay until the session is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/be.h"
#include "pdu/io/capture/capture_rdma.h"
#include "pdu/io/verbs/rdma_wait.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "srp_live.h"

enum {
        RECVS =
            96, /* what a target may say without being asked is little; a request has one response */
        RECV = 512, /* bytes of one */
        SENDS = 48,
        RETRIES = 7,
        EVENTS = 64,   /* at a time; also batches of completions, and rounds of both */
        REJECTED = 28, /* by the target itself (IBTA 12.6.7.2) */
        ALIGN = 4096,
};

struct room { /* registered */
        _Alignas(ALIGN) uint8_t data[SEQ_QUEUES][SRP_BIND_MEMORY];
        uint8_t send[SEQ_QUEUES][SENDS][SRP_BIND_IU];
        uint8_t recv[SEQ_QUEUES][RECVS][RECV];
};

struct srp_wire {
        struct remote_conn base; /* first */
        struct rdma_ep ep;       /* group NULL: none */
        struct srp_bind bind;
        struct srp_channel channel;
        struct srp_bound login; /* what it connects with */
        uint8_t private[VERBS_PRIVATE_MAX];
        struct verbs_wr send[SENDS], recv[RECVS];
        bool sending[SENDS];
        struct capture_rdma flow;
};

struct srp_session {
        struct remote_session base; /* first */
        struct rdma_group group;    /* context NULL: not open */
        struct rdma_loop loop;
        struct rdma_dev
            *dev; /* where the room is registered; NULL: no connection was resolved yet */
        struct verbs_mr mr;
        struct room *room;
        srp_port_id initiator;
        uint64_t played;
        struct srp_wire wire[SEQ_QUEUES];
        uint8_t out[SRP_BIND_IU];
};

static struct srp_session *session_of(const struct remote_session *s)
{
        return (struct srp_session *)(void *)(uintptr_t)s;
}

static struct srp_wire *wire_of(const struct remote_conn *c)
{
        return (struct srp_wire *)(void *)(uintptr_t)c;
}

static struct srp_wire *wire_at(struct rdma_ep *e)
{
        return (struct srp_wire *)(void *)((char *)e - offsetof(struct srp_wire, ep));
}

/* --- rules ------------------------------------------------------------------------------------ */

/* What the initiator has broken leaves it to the target how to go on. */
static void note_findings(struct srp_wire *w, const struct rule_set *found)
{
        rule_each_in (found, id) {
                const struct rule *r = srp_rule_get(id);

                if (r->bound == PARTY_HOST && r->reaction != REACT_TOLERATE)
                        w->base.wild = true;
        }
}

static void collect(struct srp_wire *w, const struct rule_set *found)
{
        struct rule_set must = { 0 };

        if (w->base.wild)
                return;
        rule_each_in (found, id)
                if (!rule_in(&srp_peer_of(w->base.session)->host.policy.waived, id) &&
                    rule_grade(srp_rule_get(id)) == GRADE_MUST)
                        rule_add(&must, id);
        conn_broke(&w->base, &must);
}

static bool is_avoided(const struct srp_wire *w, const struct rule_set *found)
{
        const struct rule_set *avoid = srp_peer_of(w->base.session)->avoid;

        rule_each_in (found, id)
                if (avoid && rule_in(avoid, id))
                        return true;
        return false;
}

/* --- a capture of it -------------------------------------------------------------------------- */

static void record_cm(struct srp_wire *w, enum party sender, const struct capture_cm *m)
{
        struct capture_writer *out = srp_peer_of(w->base.session)->record;

        if (out)
                capture_rdma_cm(out, &w->flow, sender, m, loop_wall_ns());
}

static void record_iu(struct srp_wire *w, enum party sender, const void *p, uint32_t n)
{
        struct capture_writer *out = srp_peer_of(w->base.session)->record;
        struct iovec iov = { (void *)(uintptr_t)p, n };
        int64_t now = loop_wall_ns();

        if (out)
                capture_rdma_ack(out, &w->flow, peer_of(sender),
                                 capture_rdma_send(out, &w->flow, sender, &iov, 1, NULL, now),
                                 CAPTURE_ACK, now);
}

static void record_open(struct srp_wire *w)
{
        struct capture_writer *out = srp_peer_of(w->base.session)->record;

        w->flow = (struct capture_rdma) { 0 };
        if (out)
                capture_rdma_open(out, &w->flow, NULL, NULL, loop_wall_ns());
}

/* --- what is heard and said ------------------------------------------------------------------- */

static void message(struct srp_wire *w, enum party sender, const void *p, uint32_t n, bool login)
{
        const struct srp_message m = { p, n, srp_channel_immediate(&w->channel), login };

        conn_message(&w->base, sender, &m);
}

/* An IU of the target as a word: what it is, how it went, and what it is about. */
static uint64_t word_of(const struct srp_wire *w, const uint8_t *p, uint32_t n)
{
        const struct srp_request *r;
        struct rule_set unused = { 0 };
        struct srp_rsp_parts parts;
        struct scsi_sense sense = { 0 };
        union srp_iu iu;
        uint64_t word;

        if (!srp_read(p, n, &iu))
                return (uint64_t)(n > 0 ? p[0] : 0) << 48 | 1;
        word = (uint64_t)iu.opcode << 48;
        if (iu.opcode != SRP_RSP)
                return word;
        r = srp_channel_find(&w->channel, be64_get(iu.rsp.tag));
        (void)srp_rsp_read(p, n, &parts, &unused);
        word |= (uint64_t)iu.rsp.status << 40 | (uint64_t)(iu.rsp.flags & 0x3f) << 32;
        if (parts.resp_len >= 4)
                word |= (uint64_t)p[parts.resp_at + 3] << 24;
        if (parts.sense_len > 0 && scsi_sense_get(p + parts.sense_at, parts.sense_len, &sense))
                word |= (uint64_t)(sense.asc & 0xffff) << 8;
        return word | (r ? (uint64_t)r->type << 4 : 1);
}

static void take_iu(struct srp_wire *w, const uint8_t *p, uint32_t n)
{
        struct rule_set found = { 0 };
        uint64_t word = word_of(w, p, n);

        w->base.session->answer.pdus++;
        record_iu(w, PARTY_CONTROLLER, p, n);
        message(w, PARTY_CONTROLLER, p, n, false);
        srp_channel_iu(&w->channel, PARTY_CONTROLLER, p, n, &found);
        collect(w, &found);
        w->base.term |= n > 0 && p[0] == SRP_T_LOGOUT;
        conn_received_word(&w->base, word);
}

/* --- work ------------------------------------------------------------------------------------- */

static int post_recv(struct srp_wire *w, unsigned i)
{
        struct srp_session *s = session_of(w->base.session);
        struct verbs_wr *bad;

        w->recv[i] =
            (struct verbs_wr) { .op = VERBS_RECV,
                                .n_sge = 1,
                                .sge = { { s->room->recv[w->base.on][i], RECV, s->mr.lkey } } };
        return rdma_ep_post_recv(&w->ep, &w->recv[i], &bad);
}

static int free_send(const struct srp_wire *w)
{
        for (int i = 0; i < SENDS; i++)
                if (!w->sending[i])
                        return i;
        return -1;
}

static void post_send(struct srp_wire *w, const uint8_t *bytes, uint32_t len)
{
        struct srp_session *s = session_of(w->base.session);
        int i = free_send(w);
        struct verbs_wr *bad;
        uint8_t *place;

        if (i < 0)
                return;
        place = s->room->send[w->base.on][i];
        memcpy(place, bytes, len);
        w->send[i] = (struct verbs_wr) { .op = VERBS_SEND,
                                         .flags = VERBS_SIGNALED,
                                         .n_sge = 1,
                                         .sge = { { place, len, s->mr.lkey } } };
        w->sending[i] = true;
        record_iu(w, PARTY_HOST, bytes, len);
        if (rdma_ep_post(&w->ep, &w->send[i], &bad) == 0)
                return;
        w->base.broken = true;
        rdma_ep_flushed(&w->ep, bad);
}

static bool expects(const struct remote_conn *c)
{
        return c->wild || srp_channel_outstanding(&wire_of(c)->channel) > 0;
}

static bool is_request(const struct seq_step *step)
{
        return step->kind == SEQ_PDU && srp_info(step->template->type)->request;
}

/* A request waits for the limit; who has no patience any more overruns it. */
static bool can_send(const struct remote_conn *c, const struct seq_step *step)
{
        const struct srp_wire *w = wire_of(c);

        if (c->session->impatient)
                return true;
        return free_send(w) >= 0 && (!is_request(step) || c->wild || !w->channel.agreed ||
                                     srp_channel_limit(&w->channel) > 0);
}

static bool send_step(struct remote_conn *c, const struct seq_step *step)
{
        struct srp_wire *w = wire_of(c);
        uint8_t *out = session_of(c->session)->out;
        struct srp_bound b;

        if (step->kind == SEQ_PDU && step->template->type == SRP_LOGIN_REQ)
                return true; /* it has connected with it */
        b = srp_bind_step(&w->bind, c->session->sequence, step, out);
        conn_speaks(c);
        remote_acted(c->session);
        if (!c->session->target->allow_write && srp_harms(out, b.len))
                return false;
        for (unsigned i = 0; i < b.times; i++) {
                struct rule_set found = { 0 };

                srp_channel_iu(&w->channel, PARTY_HOST, out, b.len, &found);
                if (is_avoided(w, &found))
                        return false;
                note_findings(w, &found);
                message(w, PARTY_HOST, out, b.len, false);
                post_send(w, out, b.len);
        }
        return true;
}

/* False: the endpoint's life is none of its own. */
static bool completed(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct srp_wire *w = wire_at(e);
        bool recv = wc->wr->op == VERBS_RECV;

        if (!recv)
                w->sending[wc->wr - w->send] = false;
        if (w->base.state != CONN_LIVE && w->base.state != CONN_OPENING)
                return false;
        if (wc->status != VERBS_SUCCESS) {
                if (!w->base.broken && wc->status != VERBS_FLUSHED)
                        conn_received_word(&w->base, (uint64_t)wc->status << 32 | 2);
                w->base.broken = true;
        } else if (recv) {
                take_iu(w, wc->wr->sge[0].addr, wc->bytes);
                w->base.broken |= post_recv(w, (unsigned)(wc->wr - w->recv)) < 0;
        }
        return false;
}

/* --- connection management ---------------------------------------------------------------------- */

static bool use_device(struct srp_session *s, struct rdma_dev *d)
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
        struct srp_session *s = d->user;

        if (!s)
                return;
        if (d->domain)
                verbs_dereg(d->domain, &s->mr);
        s->dev = NULL;
}

static void fill_in_bind(struct srp_wire *w)
{
        struct srp_session *s = session_of(w->base.session);
        uint8_t *at = s->room->data[w->base.on];

        w->bind.at = at;
        w->bind.addr = (uintptr_t)at;
        w->bind.key = s->mr.rkey;
}

static void resolved(struct srp_wire *w)
{
        struct srp_session *s = session_of(w->base.session);
        struct verbs_qp_attr attr = { .send_wrs = SENDS, .recv_wrs = RECVS };
        const struct srp_bound *l = &w->login;
        struct verbs_conn_param p = { .data = w->private,
                                      .len = (uint8_t)l->len,
                                      .reads_in = l->reads_in,
                                      .reads_out = l->reads_out,
                                      .rnr_retry = RETRIES,
                                      .retry = RETRIES };
        const struct capture_cm m = { CAPTURE_REQUEST, w->private, l->len, l->reads_in,
                                      l->reads_out,    true,       0 };
        bool ok = use_device(s, w->ep.dev) && rdma_ep_qp(&w->ep, &attr) == 0;

        for (unsigned i = 0; i < RECVS && ok; i++)
                ok = post_recv(w, i) == 0;
        fill_in_bind(w);
        record_cm(w, PARTY_HOST, &m);
        if (!ok || rdma_ep_connect(&w->ep, &p) < 0)
                conn_refuse(&w->base, "connect: %s", strerror(errno));
}

static void established(struct srp_wire *w, const struct verbs_event *e)
{
        const struct capture_cm accept = { .kind = CAPTURE_ACCEPT,
                                           .data = e->data,
                                           .len = e->param.len,
                                           .reads_in = e->param.reads_in,
                                           .reads_out = e->param.reads_out };
        const struct capture_cm ready = { .kind = CAPTURE_READY };
        struct rule_set found = { 0 };

        conn_live(&w->base);
        record_cm(w, PARTY_CONTROLLER, &accept);
        record_cm(w, PARTY_HOST, &ready);
        message(w, PARTY_CONTROLLER, e->data, e->param.len, false);
        srp_channel_accept(&w->channel, e->data, e->param.len, &found);
        collect(w, &found);
        conn_received_word(&w->base, (uint64_t)SRP_LOGIN_RSP << 48 |
                                         (uint64_t)w->channel.granted.rsp_flags << 8);
}

static void rejected(struct srp_wire *w, const struct verbs_event *e)
{
        const struct capture_cm reject = { .kind = CAPTURE_REJECT,
                                           .data = e->data,
                                           .len = e->param.len,
                                           .reason = (uint16_t)e->reason };
        struct rule_set found = { 0 };
        union srp_iu iu = { 0 };

        record_cm(w, PARTY_CONTROLLER, &reject);
        if (e->reason == REJECTED && e->param.len > 0) {
                message(w, PARTY_CONTROLLER, e->data, e->param.len, false);
                srp_channel_reject(&w->channel, e->data, e->param.len, &found);
                collect(w, &found);
                (void)srp_read(e->data, e->param.len, &iu);
        }
        conn_received_word(&w->base, (uint64_t)SRP_LOGIN_REJ << 48 |
                                         (uint64_t)(be32_get(iu.login_rej.reason) & 0xff) << 8 |
                                         (uint64_t)(e->reason & 0xff) << 16);
        conn_ended(&w->base, false);
}

static bool happened(struct rdma_ep *ep, const struct verbs_event *e)
{
        struct srp_wire *w = wire_at(ep);
        bool opening = w->base.state == CONN_OPENING;

        if (!opening && w->base.state != CONN_LIVE)
                return false;
        if (e->type == VERBS_RESOLVED) {
                resolved(w);
        } else if (e->type == VERBS_ESTABLISHED && opening) {
                established(w, e);
                return true;
        } else if (e->type == VERBS_REJECTED) {
                rejected(w, e);
        } else if (e->type == VERBS_UNREACHABLE || e->type == VERBS_CONNECT_ERROR) {
                conn_refuse(&w->base, "%s: %s", verbs_event_name(e->type),
                            strerror(e->reason < 0 ? -e->reason : ECONNREFUSED));
        } else if (e->type == VERBS_DISCONNECTED) { /* what was said before it is heard first */
                (void)rdma_group_poll(&session_of(w->base.session)->group, EVENTS);
                conn_ended(&w->base, false);
        } else if (e->type == VERBS_QP_ERROR || e->type == VERBS_DEVICE_REMOVED) {
                w->base.broken = true;
        }
        return false;
}

static const struct rdma_ep_ops ep_ops = { .event = happened, .completed = completed };

/* What comes first on a connection is its login, be it the step to come or not. */
static struct seq_step login_of(const struct seq_step *first)
{
        if (first->kind == SEQ_PDU && first->template->type == SRP_LOGIN_REQ)
                return *first;
        return seq_step_of(srp_template_at(0, PARTY_HOST, 0));
}

static bool open_wire(struct remote_conn *c, const struct seq_step *first)
{
        struct srp_session *s = session_of(c->session);
        const struct srp_params *p = &srp_peer_of(c->session)->host;
        struct seq_step step = login_of(first);
        struct rule_set found = { 0 };
        struct srp_wire *w = wire_of(c);

        conn_speaks(c);
        memset(w->sending, 0, sizeof(w->sending));
        srp_channel_init(&w->channel);
        w->bind = (struct srp_bind) { .first = c->on == 0, .channel = &w->channel, .tag = 1 };
        memcpy(w->bind.initiator, s->initiator, sizeof(srp_port_id));
        memcpy(w->bind.target, p->target, sizeof(srp_port_id));
        w->login = srp_bind_step(&w->bind, c->session->sequence, &step, s->out);
        memcpy(w->private, s->out, sizeof(w->private));
        w->bind.tag++;
        srp_channel_login(&w->channel, w->private, w->login.len, false, &found);
        if (is_avoided(w, &found))
                return false;
        note_findings(w, &found);
        record_open(w);
        message(w, PARTY_HOST, w->private, w->login.len, true);
        conn_opening(c, p->timeout);
        rdma_ep_init(&w->ep, &s->group, &ep_ops);
        if (rdma_ep_resolve(&w->ep, p->traddr, p->trsvcid, p->timeout) < 0)
                conn_refuse(c, "resolve: %s", strerror(errno));
        return true;
}

static void half_close(struct remote_conn *c)
{
        const struct capture_cm m = { .kind = CAPTURE_DISCONNECT };

        record_cm(wire_of(c), PARTY_HOST, &m);
        rdma_ep_disconnect(&wire_of(c)->ep);
}

static void close_wire(struct remote_conn *c, bool reset)
{
        if (c->state != CONN_LIVE)
                return;
        if (reset)
                rdma_ep_fail(&wire_of(c)->ep);
        else
                half_close(c);
}

/* --- life --------------------------------------------------------------------------------------- */

/* All that there is to take, and what follows from it; then the bell is set. What came before it was
 * set has no bell: it counts for the next round. */
static bool poll_session(struct remote_session *base)
{
        struct rdma_group *g = &session_of(base)->group;
        struct pollfd fds[RDMA_FDS];
        unsigned rounds = 0;
        bool any = false;

        do {
                any |= rdma_group_events(g, EVENTS) > 0;
                any |= rdma_group_poll(g, EVENTS) > 0;
                if (any)
                        remote_go(base);
                any = rdma_group_arm(g, fds, RDMA_FDS) < 0;
        } while (any && base->sequence && ++rounds < EVENTS);
        if (!any || !base->sequence)
                return true;
        base->deadline = loop_now_ms();
        return false;
}

static void ready(struct rdma_loop *l, bool events)
{
        (void)events;
        poll_session(
            &((struct srp_session *)(void *)((char *)l - offsetof(struct srp_session, loop)))
                 ->base);
}

/* Each session is another initiator: none ends the channels of one that is played beside it. */
static void name_initiator(struct srp_session *s)
{
        memcpy(s->initiator, "fuzz", 4);
        be_put(s->initiator + 4, 8, (uintptr_t)s >> 4);
        be_put(s->initiator + 12, 4, ++s->played);
}

static bool begin(struct remote_session *base)
{
        static const struct rdma_group_ops ops = { .dev_free = device_gone };
        struct srp_session *s = session_of(base);
        struct verbs_provider *verbs = srp_peer_of(base)->host.verbs;

        name_initiator(s);
        if (!s->group.context) {
                if (!verbs)
                        verbs = verbs_rdma(base->answer.why, sizeof(base->answer.why));
                if (!verbs || rdma_group_open(&s->group, verbs, &ops, loop_now_ms) < 0)
                        return false;
                s->loop =
                    (struct rdma_loop) { base->loop, .context = s->group.context, .ready = ready };
                if (rdma_loop_update(&s->loop) < 0)
                        return false;
        }
        base->blind = s->loop.count == 0;
        return true;
}

static void end(struct remote_session *base)
{
        struct srp_session *s = session_of(base);

        for (struct srp_wire *w = s->wire; w < s->wire + SEQ_QUEUES; w++) {
                if (w->ep.group)
                        rdma_ep_destroy(&w->ep);
                w->ep.group = NULL;
        }
}

static void session_free(struct remote_session *base)
{
        struct srp_session *s = session_of(base);

        rdma_loop_end(&s->loop);
        rdma_group_close(&s->group);
        free(s->room);
        free(s);
}

static struct remote_session *session_new(void)
{
        struct srp_session *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                s->base.conn[i] = &s->wire[i].base;
        s->room = aligned_alloc(ALIGN, sizeof(*s->room));
        if (s->room) {
                memset(s->room, 0, sizeof(*s->room));
                return &s->base;
        }
        session_free(&s->base);
        return NULL;
}

static bool record(const struct remote_target *target, const char *path,
                   bool (*play)(void *user, const struct remote_target *recorded), void *user,
                   bool *played, char *err, size_t size)
{
        struct srp_remote_peer peer = *(const struct srp_remote_peer *)target->peer;
        struct remote_target recorded = *target;

        peer.record = capture_writer_open(path, err, size);
        if (!peer.record)
                return false;
        recorded.peer = &peer;
        *played = play(user, &recorded);
        if (capture_writer_close(peer.record) == 0)
                return true;
        snprintf(err, size, "%.200s: %s", path, strerror(errno));
        return false;
}

const struct remote_transport srp_remote = {
        .new = session_new,
        .free = session_free,
        .begin = begin,
        .end = end,
        .open = open_wire,
        .can_send = can_send,
        .send = send_step,
        .expects = expects,
        .half_close = half_close,
        .close = close_wire,
        .poll = poll_session,
        .answered_for = true, /* by the connection manager of a machine */
        .record = record,
};
