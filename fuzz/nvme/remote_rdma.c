/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over RDMA endpoints by hand, of any verbs provider. The capsules of a session lie in memory
 * that is registered once and as a whole; whatever a controller does there harms nobody. Queue pairs
 * that are over stay until the session is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/verbs/rdma_wait.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/io/verbs_record.h"
#include "pdu/nvme/rdma/rdma_track.h"
#include "peer.h"
#include "seq_bind.h"

enum {
        RECVS = 32,
        RECV = 256, /* bytes of one */
        SENDS = 32,
        SEND = SEQ_DATA_MAX + 1024,
        RETRIES = 7,
        DEPTH = 1024,
        EVENTS = 64, /* at a time; also batches of completions, and rounds of both */
};

struct room { /* registered */
        _Alignas(BIND_STRIDE) uint8_t data[SEQ_QUEUES][BIND_STRIDE];
        uint8_t send[SEQ_QUEUES][SENDS][SEND];
        uint8_t recv[SEQ_QUEUES][RECVS][RECV];
};

struct rdma_conn {
        struct remote_conn base;
        struct rdma_ep ep; /* group NULL: none */
        struct seq_bind bind;
        struct rdma_track *track;
        struct bind_work request; /* what it connects with */
        uint8_t private[VERBS_PRIVATE_MAX];
        struct verbs_wr send[SENDS], recv[RECVS];
        bool sending[SENDS];
};

struct rdma_session {
        struct remote_session base;
        struct rdma_group group; /* context NULL: not open */
        struct rdma_loop loop;
        struct rdma_dev
            *dev; /* where the room is registered; NULL: no connection was resolved yet */
        struct verbs_mr mr;
        struct room *room;
        struct rdma_conn conn[SEQ_QUEUES];
        uint8_t out[BIND_ROOM];
};

static struct rdma_session *rdma_of(const struct remote_session *s)
{
        return (struct rdma_session *)(void *)(uintptr_t)s;
}

static struct rdma_conn *conn_of(const struct remote_conn *c)
{
        return (struct rdma_conn *)(void *)(uintptr_t)c;
}

static struct rdma_conn *conn_at(struct rdma_ep *e)
{
        return (struct rdma_conn *)(void *)((char *)e - offsetof(struct rdma_conn, ep));
}

/* Whether the two sides may see things differently from here on. */
static void note_findings(struct rdma_conn *c, const struct rule_set *found)
{
        rule_each_in (found, id) {
                const struct rule *r = rule_get(id);

                if (r->bound == PARTY_HOST &&
                    (r->reaction == REACT_TERM || r->reaction == REACT_CLOSE ||
                     r->reaction == REACT_ANY || r->reaction == REACT_REFUSE ||
                     r->reaction == REACT_REJECT))
                        c->base.wild = true;
        }
}

static void collect(struct rdma_conn *c, const struct rule_set *found)
{
        if (!c->base.wild)
                conn_broke(&c->base, found);
}

/* --- work --------------------------------------------------------------------------------------- */

static int post_recv(struct rdma_conn *c, unsigned i)
{
        struct rdma_session *t = rdma_of(c->base.session);
        struct verbs_wr *bad;

        c->recv[i] =
            (struct verbs_wr) { .op = VERBS_RECV,
                                .n_sge = 1,
                                .sge = { { t->room->recv[c->base.on][i], RECV, t->mr.lkey } } };
        return rdma_ep_post_recv(&c->ep, &c->recv[i], &bad);
}

static int free_send(const struct rdma_conn *c)
{
        for (int i = 0; i < SENDS; i++)
                if (!c->sending[i])
                        return i;
        return -1;
}

static void post_send(struct rdma_conn *c, const uint8_t *bytes, uint32_t len)
{
        struct rdma_session *t = rdma_of(c->base.session);
        int i = free_send(c);
        struct verbs_wr *bad;
        uint8_t *place;

        if (i < 0)
                return;
        place = t->room->send[c->base.on][i];
        len = len < SEND ? len : SEND;
        memcpy(place, bytes, len);
        c->send[i] = (struct verbs_wr) { .op = VERBS_SEND,
                                         .flags = VERBS_SIGNALED,
                                         .n_sge = 1,
                                         .sge = { { place, len, t->mr.lkey } } };
        c->sending[i] = true;
        if (rdma_ep_post(&c->ep, &c->send[i], &bad) == 0)
                return;
        c->base.broken = true;
        rdma_ep_flushed(&c->ep, bad);
}

static bool is_avoided(const struct rdma_conn *c, const struct seq_step *step,
                       const union seq_work *message, const struct rule_set *broken)
{
        const struct avoid *avoid = peer_of_session(c->base.session)->avoid;

        return avoid_rules(avoid, broken) ||
               (step->kind == SEQ_PDU && avoid_message(avoid, step->template, message));
}

/* A capsule as rules and readers see it. */
static union seq_work message_of(const uint8_t *capsule, uint32_t len)
{
        union seq_work m = { .len = le32(len) };

        memcpy(&m.sqe, capsule, len < sizeof(m.sqe) ? len : sizeof(m.sqe));
        return m;
}

static bool rdma_expects(const struct remote_conn *c)
{
        return c->wild || rdma_track_outstanding(conn_of(c)->track) > c->aers;
}

static bool rdma_can_send(const struct remote_conn *c, const struct seq_step *step)
{
        return c->session->impatient ||
               (!c->joining && free_send(conn_of(c)) >= 0 &&
                !(seq_bind_is_auth(&conn_of(c)->bind, step) && rdma_expects(c)));
}

static bool rdma_send(struct remote_conn *base, const struct seq_step *step)
{
        struct rdma_conn *c = conn_of(base);
        uint8_t *out = rdma_of(base->session)->out;
        struct bind_work w = seq_bind_work(&c->bind, base->session->sequence, step, out);
        union seq_work m = message_of(out, w.len);

        if (w.type != PDU_CAPSULE_CMD)
                return true; /* it has connected with it */
        conn_speaks(base);
        remote_acted(base->session);
        for (unsigned i = 0; i < w.times; i++) {
                const struct rule_set *broken = rdma_track_command(c->track, out, w.len);

                if (!nvme_may_command(base, &m.sqe, base->on == 0 && c->bind.qid == 0) ||
                    is_avoided(c, step, &m, broken))
                        return false;
                conn_message(base, PARTY_HOST,
                             &(const struct message) { .kind = MESSAGE_COMMAND, .sqe = m.sqe });
                note_findings(c, broken);
                post_send(c, out, w.len);
        }
        return true;
}

static void receive_completion(struct rdma_conn *c, const struct verbs_wc *wc)
{
        const uint8_t *bytes = wc->wr->sge[0].addr;
        struct message m = message_of_capsule(MESSAGE_RESPONSE, bytes, wc->bytes);
        const struct rdma_track_cmd *cmd;

        collect(c,
                rdma_track_response(c->track, bytes, wc->bytes, wc->invalidated, wc->invalid_key));
        cmd = rdma_track_last(c->track);
        if (cmd && cmd->sqe.opc == NVME_AER && c->base.aers > 0)
                c->base.aers--;
        c->base.session->answer.pdus++;
        conn_message(&c->base, PARTY_CONTROLLER, &m);
        seq_bind_received(&c->bind, &m);
        nvme_answered(&c->base, &m.cqe);
        c->base.joining = false;
        nvme_proven(&c->base, &c->bind);
        conn_received_word(&c->base,
                           (uint64_t)wc->invalidated << 15 |
                               nvme_response(&m.cqe, cmd ? &cmd->sqe.opc : NULL,
                                             cmd ? cmd->sqe.fctype : 0,
                                             cmd ? nvme_subject(&cmd->sqe, c->base.on == 0) : 0));
}

/* False, here and below: the endpoint's life is none of its own. */
static bool completed(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct rdma_conn *c = conn_at(e);
        bool recv = wc->wr->op == VERBS_RECV;

        if (!recv)
                c->sending[wc->wr - c->send] = false;
        if (c->base.state != CONN_LIVE && c->base.state != CONN_OPENING)
                return false;
        if (wc->status != VERBS_SUCCESS) {
                if (!c->base.broken)
                        conn_received_word(&c->base, (uint64_t)wc->status << 48);
                c->base.broken = true;
        } else if (recv) {
                receive_completion(c, wc);
                c->base.broken |= post_recv(c, (unsigned)(wc->wr - c->recv)) < 0;
        }
        return false;
}

/* --- connection management ---------------------------------------------------------------------- */

static bool use_device(struct rdma_session *t, struct rdma_dev *d)
{
        if (t->dev)
                return t->dev == d;
        if (verbs_reg(d->domain, t->room, sizeof(*t->room), VERBS_REMOTE_READ | VERBS_REMOTE_WRITE,
                      &t->mr) < 0)
                return false;
        t->dev = d;
        d->user = t;
        return rdma_loop_update(&t->loop) == 0;
}

static void device_gone(struct rdma_dev *d)
{
        struct rdma_session *t = d->user;

        if (!t)
                return;
        if (d->domain)
                verbs_dereg(d->domain, &t->mr);
        t->dev = NULL;
}

static void resolved(struct rdma_conn *c)
{
        struct verbs_qp_attr attr = { .send_wrs = SENDS, .recv_wrs = RECVS };
        struct rdma_session *t = rdma_of(c->base.session);
        struct verbs_conn_param p = { .data = c->private,
                                      .len = (uint8_t)c->request.len,
                                      .reads_in = c->request.reads_in,
                                      .reads_out = c->request.reads_out,
                                      .rnr_retry = RETRIES,
                                      .retry = RETRIES };
        bool ok = use_device(t, c->ep.dev) && rdma_ep_qp(&c->ep, &attr) == 0;

        for (unsigned i = 0; i < RECVS && ok; i++)
                ok = post_recv(c, i) == 0;
        c->bind.memory = (struct bind_memory) { .at = t->room->data[c->base.on],
                                                .addr = (uintptr_t)t->room->data[c->base.on],
                                                .key = t->mr.rkey };
        if (!ok || rdma_ep_connect(&c->ep, &p) < 0)
                conn_refuse(&c->base, "connect: %s", strerror(errno));
}

static void rejected(struct rdma_conn *c, const struct verbs_event *e)
{
        size_t len = rdma_reject_len(e->param.data, e->param.len);
        uint32_t sts = 0;

        if (len > 0) {
                memcpy(&sts, e->param.data, len < sizeof(sts) ? len : sizeof(sts));
                collect(c, rdma_track_reject(c->track, e->param.data, len));
        }
        conn_received_word(&c->base, (uint64_t)sts << 8 | 1);
        conn_ended(&c->base, false);
}

static bool happened(struct rdma_ep *ep, const struct verbs_event *e)
{
        struct rdma_conn *c = conn_at(ep);
        bool opening = c->base.state == CONN_OPENING;

        if (!opening && c->base.state != CONN_LIVE)
                return false;
        if (e->type == VERBS_RESOLVED) {
                resolved(c);
        } else if (e->type == VERBS_ESTABLISHED && opening) {
                conn_live(&c->base);
                collect(c, rdma_track_accept(c->track, e->param.data, e->param.len,
                                             e->param.reads_in, e->param.reads_out));
                return true;
        } else if (e->type == VERBS_REJECTED) {
                rejected(c, e);
        } else if (e->type == VERBS_UNREACHABLE || e->type == VERBS_CONNECT_ERROR) {
                conn_refuse(&c->base, "%s: %s", verbs_event_name(e->type),
                            strerror(e->reason < 0 ? -e->reason : ECONNREFUSED));
        } else if (e->type == VERBS_DISCONNECTED) {
                conn_ended(&c->base, false);
        } else if (e->type == VERBS_QP_ERROR || e->type == VERBS_DEVICE_REMOVED) {
                c->base.broken = true;
        }
        return false;
}

static const struct rdma_ep_ops ep_ops = { .event = happened, .completed = completed };

/* False: what is asked for is to be avoided. */
static bool asks(struct rdma_conn *c, const struct seq_step *step)
{
        const struct bind_work *w = &c->request;
        const struct rule_set *broken =
            rdma_track_request(c->track, c->private, w->len, w->reads_in, w->reads_out);
        union seq_work m = { .private_len = (uint8_t)w->len,
                             .reads_in = w->reads_in,
                             .reads_out = w->reads_out };

        memcpy(&m.request, c->private, w->len < sizeof(m.request) ? w->len : sizeof(m.request));
        note_findings(c, broken);
        return !is_avoided(c, step, &m, broken);
}

static bool rdma_open(struct remote_conn *base, const struct seq_step *first)
{
        struct rdma_session *t = rdma_of(base->session);
        struct rdma_conn *c = conn_of(base);
        const struct host_params *p = &peer_of_session(base->session)->host;
        struct seq_step step = seq_step_of(nvme_template_by_name(SEQ_RDMA, PARTY_HOST, "request"));

        if (first->kind == SEQ_PDU && first->template->type == SEQ_REQUEST)
                step = *first;
        conn_speaks(base);
        memset(c->sending, 0, sizeof(c->sending));
        seq_bind_init(&c->bind, PARTY_HOST, p->hostnqn, p->subnqn);
        memcpy(c->bind.hostid, p->hostid, sizeof(c->bind.hostid));
        peer_bind_auth(&c->bind, peer_of_session(base->session));
        c->bind.qid = (uint16_t)base->on;
        c->bind.admin = base->on > 0 ? &t->conn[0].bind : NULL;
        rdma_track_free(c->track);
        c->track = rdma_track_new(DEPTH, false, &p->policy->waived);
        c->request = seq_bind_work(&c->bind, base->session->sequence, &step, t->out);
        memcpy(c->private, t->out, c->request.len);
        if (!c->track) {
                conn_refuse(base, "track: %s", strerror(ENOMEM));
                return true;
        }
        if (!asks(c, &step))
                return false;
        conn_opening(base, p->timeout);
        rdma_ep_init(&c->ep, &t->group, &ep_ops);
        if (rdma_ep_resolve(&c->ep, p->traddr, p->trsvcid, p->timeout) < 0)
                conn_refuse(base, "resolve: %s", strerror(errno));
        return true;
}

static void rdma_half_close(struct remote_conn *c)
{
        rdma_ep_disconnect(&conn_of(c)->ep);
}

static void rdma_close(struct remote_conn *c, bool reset)
{
        if (c->state != CONN_LIVE)
                return;
        if (reset)
                rdma_ep_fail(&conn_of(c)->ep);
        else
                rdma_ep_disconnect(&conn_of(c)->ep);
}

/* --- life --------------------------------------------------------------------------------------- */

/* All that there is to take, and what follows from it; then the bell is set. What came before it was
 * set has no bell: it counts for the next round. */
static bool rdma_poll(struct remote_session *s)
{
        struct rdma_group *g = &rdma_of(s)->group;
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
        (void)events;
        rdma_poll(
            &((struct rdma_session *)(void *)((char *)l - offsetof(struct rdma_session, loop)))
                 ->base);
}

static bool rdma_begin(struct remote_session *s)
{
        static const struct rdma_group_ops ops = { .dev_free = device_gone };
        struct rdma_session *t = rdma_of(s);
        struct verbs_provider *verbs = peer_of_session(s)->host.verbs;

        if (!t->group.context) {
                if (!verbs)
                        verbs = verbs_rdma(s->answer.why, sizeof(s->answer.why));
                if (!verbs || rdma_group_open(&t->group, verbs, &ops, loop_now_ms) < 0)
                        return false;
                t->loop =
                    (struct rdma_loop) { s->loop, .context = t->group.context, .ready = ready };
                if (rdma_loop_update(&t->loop) < 0)
                        return false;
        }
        s->blind = t->loop.count == 0;
        return true;
}

static void rdma_end(struct remote_session *s)
{
        struct rdma_session *t = rdma_of(s);

        for (struct rdma_conn *c = t->conn; c < t->conn + SEQ_QUEUES; c++) {
                if (c->ep.group)
                        rdma_ep_destroy(&c->ep);
                c->ep.group = NULL;
        }
}

static void rdma_free(struct remote_session *s)
{
        struct rdma_session *t = rdma_of(s);

        rdma_loop_end(&t->loop);
        rdma_group_close(&t->group);
        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                rdma_track_free(t->conn[i].track);
        free(t->room);
        free(t);
}

static struct remote_session *rdma_new(void)
{
        struct rdma_session *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                t->base.conn[i] = &t->conn[i].base;
        t->room = aligned_alloc(BIND_STRIDE, sizeof(*t->room));
        if (t->room) {
                memset(t->room, 0, sizeof(*t->room));
                return &t->base;
        }
        rdma_free(&t->base);
        return NULL;
}

static bool rdma_record(const struct remote_target *target, const char *path,
                        bool (*play)(void *user, const struct remote_target *recorded), void *user,
                        bool *played, char *err, size_t size)
{
        struct nvme_peer peer = *(const struct nvme_peer *)target->peer;
        struct remote_target recorded = *target;
        struct verbs_provider *of = peer.host.verbs ? peer.host.verbs : verbs_rdma(err, size);
        struct capture_writer *w = of ? capture_writer_open(path, err, size) : NULL;

        if (!w)
                return false;
        peer.host.verbs = verbs_record_new(of, w);
        recorded.peer = &peer;
        *played = peer.host.verbs && play(user, &recorded);
        verbs_record_free(peer.host.verbs);
        if (capture_writer_close(w) == 0)
                return true;
        snprintf(err, size, "%.200s: %s", path, strerror(errno));
        return false;
}

const struct remote_transport remote_rdma = {
        .new = rdma_new,
        .free = rdma_free,
        .begin = rdma_begin,
        .end = rdma_end,
        .open = rdma_open,
        .can_send = rdma_can_send,
        .send = rdma_send,
        .expects = rdma_expects,
        .half_close = rdma_half_close,
        .close = rdma_close,
        .poll = rdma_poll,
        .answered_for = true, /* by the connection manager of a machine */
        .record = rdma_record,
};
