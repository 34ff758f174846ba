/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over queue pairs, of any verbs provider. The capsules of a session lie in memory that is
 * registered once and as a whole; whatever a controller does there harms nobody. Queue pairs that
 * are over stay until the session is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/sequence/seq_bind.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/rdma/rdma_track.h"
#include "remote.h"

enum {
        RECVS = 32,
        RECV = 256, /* bytes of one */
        SENDS = 32,
        SEND = SEQ_DATA_MAX + 1024,
        READS = 16,
        RETRIES = 7,
        DEPTH = 1024,
        BATCH = 16,
        FDS = 4,
        RESOLVE_MS = 200, /* first time-out of a resolution, then twice that and so on */
        ROUNDS = 64,      /* of events, before others have their turn */
        BLIND_MS = 1,     /* between two looks at a provider without descriptors */
};
enum conn_state { ABSENT, RESOLVING, CONNECTING, LIVE, OVER };
enum mode { RUNNING, DELAYED, SETTLING, ENDING };

struct room { /* registered */
        uint8_t data[SEQ_QUEUES][BIND_MEMORY];
        uint8_t send[SEQ_QUEUES][SENDS][SEND];
        uint8_t recv[SEQ_QUEUES][RECVS][RECV];
};

struct rdma_conn {
        struct rdma_session *session;
        unsigned on;
        enum conn_state state;
        struct verbs_ep *ep;
        struct seq_bind bind;
        struct rdma_track *track;
        struct bind_work request; /* what it connects with */
        uint8_t private[VERBS_PRIVATE_MAX];
        struct verbs_wr send[SENDS], recv[RECVS];
        bool sending[SENDS];
        bool wild;     /* the host broke a rule that ends connections: judged no more */
        bool joining;  /* Connect went out, its response did not come */
        bool broken;   /* work failed */
        unsigned aers; /* outstanding */
        unsigned resolve_ms;
        uint64_t give_up; /* ms: no address until then */
};

struct rdma_session {
        struct remote_session base;
        struct verbs_context *context;
        struct verbs_domain *domain; /* NULL: no connection was resolved yet */
        struct verbs_mr mr;
        struct room *room;
        struct rdma_source {
                struct loop_source source;
                struct rdma_session *session;
        } source[FDS];
        int sources;
        enum mode mode;
        bool impatient, serving;
        unsigned step;
        uint64_t due, spoke; /* ms */
        uint64_t patience;   /* ms: an answer is not waited for any longer, whatever is said */
        struct rdma_conn conn[SEQ_QUEUES];
        uint8_t out[BIND_ROOM];
};

#define each_conn(c, t)                                                                            \
        for (struct rdma_conn * (c) = (t)->conn; (c) < (t)->conn + SEQ_QUEUES; (c)++)

static struct rdma_session *rdma_of(struct remote_session *s)
{
        return (struct rdma_session *)(void *)s;
}

static void due_in(struct rdma_session *t, unsigned ms)
{
        t->due = loop_now_ms() + ms;
        t->base.deadline = t->sources > 0 ? t->due : loop_now_ms() + BLIND_MS;
}

/* We have done something: the controller has time to answer. */
static void acted(struct rdma_session *t)
{
        unsigned settle = t->base.target->settle;

        t->patience = loop_now_ms() + (t->base.hang > settle ? t->base.hang : settle);
}

/* Each word makes us wait for the next one, but a controller that never stops is not heard out. */
static void wait_for_more(struct rdma_session *t)
{
        uint64_t now = loop_now_ms(), settle = t->base.target->settle;

        due_in(t, now >= t->patience           ? 0
                  : t->patience - now < settle ? (unsigned)(t->patience - now)
                                               : (unsigned)settle);
}

/* --- what is made of it ------------------------------------------------------------------------- */

static void remember(struct rdma_conn *c, uint64_t what)
{
        uint64_t ms = loop_now_ms() - c->session->spoke;
        uint64_t slow = ms >= 10000 ? 3 : ms >= 1000 ? 2 : ms >= 100;

        remote_answer_add(&c->session->base.answer, what | (uint64_t)c->on << 56 | slow << 60);
}

static void collect(struct rdma_conn *c, const struct rule_set *found)
{
        if (c->wild || rule_set_empty(found))
                return;
        rule_each (id)
                if (rule_in(found, id) && rule_get(id)->bound == PARTY_CONTROLLER &&
                    rule_get(id)->level == LEVEL_MUST)
                        rule_add(&c->session->base.answer.broken, id);
}

/* Whether the two sides may see things differently from here on. */
static void confess(struct rdma_conn *c, const struct rule_set *found)
{
        rule_each (id) {
                const struct rule *r = rule_get(id);

                if (rule_in(found, id) && r->bound == PARTY_HOST &&
                    (r->reaction == REACT_TERM || r->reaction == REACT_CLOSE ||
                     r->reaction == REACT_ANY || r->reaction == REACT_REJECT))
                        c->wild = true;
        }
}

static void tell(const struct rdma_conn *c, enum party sender, const union pdu *h)
{
        if (c->session->base.pdu)
                c->session->base.pdu(c->session->base.user, c->on, sender, h);
}

/* --- ends --------------------------------------------------------------------------------------- */

static void end_conn(struct rdma_conn *c, enum remote_end end)
{
        struct remote_answer *a = &c->session->base.answer;

        c->state = OVER;
        a->end = end > a->end ? end : a->end;
        remember(c, (uint64_t)end << 32 | (uint64_t)c->broken << 40);
}

static void refuse(struct rdma_conn *c, const char *why, int error)
{
        struct remote_answer *a = &c->session->base.answer;

        snprintf(a->why, sizeof(a->why), "%s: %s", why, strerror(error));
        end_conn(c, REMOTE_REFUSED);
}

static bool all_over(const struct rdma_session *t)
{
        bool over = true;

        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                over &= t->conn[i].state == ABSENT || t->conn[i].state == OVER;
        return over;
}

static void put_away(struct rdma_session *t)
{
        each_conn(c, t)
        {
                if (c->ep)
                        verbs_destroy(c->ep);
                c->ep = NULL;
        }
}

static void finish(struct rdma_session *t)
{
        put_away(t);
        t->base.answer.steps = t->step;
        t->base.sequence = NULL;
        t->base.over(&t->base);
}

/* --- work --------------------------------------------------------------------------------------- */

static int post_recv(struct rdma_conn *c, unsigned i)
{
        struct rdma_session *t = c->session;
        struct verbs_wr *bad;

        c->recv[i] = (struct verbs_wr) { .op = VERBS_RECV,
                                         .n_sge = 1,
                                         .sge = { { t->room->recv[c->on][i], RECV, t->mr.lkey } },
                                         .user = c };
        return verbs_post_recv(c->ep, &c->recv[i], &bad);
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
        struct rdma_session *t = c->session;
        int i = free_send(c);
        struct verbs_wr *bad;

        if (i < 0)
                return;
        len = len < SEND ? len : SEND;
        memcpy(t->room->send[c->on][i], bytes, len);
        c->send[i] = (struct verbs_wr) { .op = VERBS_SEND,
                                         .flags = VERBS_SIGNALED,
                                         .n_sge = 1,
                                         .sge = { { t->room->send[c->on][i], len, t->mr.lkey } },
                                         .user = c };
        c->sending[i] = verbs_post(c->ep, &c->send[i], &bad) == 0;
        c->broken |= !c->sending[i];
}

static bool is_avoided(const struct rdma_conn *c, const struct seq_step *step,
                       const union seq_work *message, const struct rule_set *broken)
{
        const struct avoid *avoid = c->session->base.target->avoid;

        return avoid_rules(avoid, broken) ||
               (step->kind == SEQ_PDU && avoid_message(avoid, step->template, message));
}

/* A capsule as rules and readers see it. */
static union seq_work message_of(const uint8_t *capsule, uint32_t len)
{
        union seq_work m = { .cmd.ch.type = PDU_CAPSULE_CMD };

        m.len = le32(len);
        memcpy(&m.cmd.sqe, capsule, len < sizeof(m.cmd.sqe) ? len : sizeof(m.cmd.sqe));
        return m;
}

/* False: it is not to be sent. */
static bool say(struct rdma_conn *c, const struct seq_step *step)
{
        struct rdma_session *t = c->session;
        struct bind_work w = seq_bind_work(&c->bind, t->base.sequence, step, t->out);
        union seq_work m = message_of(t->out, w.len);
        const union sqe *sqe = &m.cmd.sqe;
        bool admin = c->on == 0 && c->bind.qid == 0;

        if (w.type != PDU_CAPSULE_CMD)
                return true;
        if (!t->base.target->allow_write && remote_harms(sqe, admin))
                return false;
        t->spoke = loop_now_ms();
        acted(t);
        for (unsigned i = 0; i < w.times; i++) {
                const struct rule_set *broken = rdma_track_command(c->track, t->out, w.len);

                if (is_avoided(c, step, &m, broken))
                        return false;
                tell(c, PARTY_HOST, &(const union pdu) { .cmd = m.cmd });
                if (!c->wild)
                        confess(c, broken);
                c->aers += admin && sqe->opc == NVME_AER;
                c->joining |= sqe->opc == NVME_FABRICS && sqe->fctype == FCTYPE_CONNECT;
                post_send(c, t->out, w.len);
        }
        return true;
}

static uint64_t about(const struct rdma_track_cmd *cmd, const struct cqe *cqe, bool admin)
{
        uint64_t subject = cqe_status(cqe) == 0 ? remote_subject(&cmd->sqe, admin) : 0;

        return (uint64_t)cmd->sqe.opc << 32 | (uint64_t)cmd->sqe.fctype << 40 | subject << 48;
}

static void hear(struct rdma_conn *c, const struct verbs_wc *wc)
{
        const uint8_t *bytes = wc->wr->sge[0].addr;
        union pdu h = { .ch.type = PDU_CAPSULE_RESP };
        const struct rdma_track_cmd *cmd;

        memcpy(&h.resp.cqe, bytes, wc->bytes < sizeof(h.resp.cqe) ? wc->bytes : sizeof(h.resp.cqe));
        collect(c,
                rdma_track_response(c->track, bytes, wc->bytes, wc->invalidated, wc->invalid_key));
        cmd = rdma_track_last(c->track);
        if (cmd && cmd->sqe.opc == NVME_AER && c->aers > 0)
                c->aers--;
        c->joining = false;
        c->session->base.answer.pdus++;
        tell(c, PARTY_CONTROLLER, &h);
        seq_bind_heard(&c->bind, &h);
        remember(c, (uint64_t)cqe_status(&h.resp.cqe) << 16 | (uint64_t)wc->invalidated << 15 |
                        (cmd ? about(cmd, &h.resp.cqe, c->on == 0) : 0));
}

static void completed(struct rdma_conn *c, const struct verbs_wc *wc)
{
        bool recv = wc->wr >= c->recv && wc->wr < c->recv + RECVS;

        if (!recv)
                c->sending[wc->wr - c->send] = false;
        if (c->state != LIVE && c->state != CONNECTING)
                return;
        if (wc->status != VERBS_SUCCESS) {
                if (!c->broken)
                        remember(c, (uint64_t)wc->status << 48);
                c->broken = true;
        } else if (recv) {
                hear(c, wc);
                c->broken |= post_recv(c, (unsigned)(wc->wr - c->recv)) < 0;
        }
}

static bool poll_work(struct rdma_session *t)
{
        struct verbs_wc wc[BATCH];
        int n = t->domain ? verbs_poll(t->domain, wc, BATCH) : 0;

        for (int i = 0; i < n; i++)
                if (wc[i].ep)
                        completed(wc[i].wr->user, &wc[i]);
        return n > 0;
}

/* --- connection management ---------------------------------------------------------------------- */

static void watch(struct rdma_session *t);

static bool enter_domain(struct rdma_session *t, struct verbs_domain *domain)
{
        const unsigned access = VERBS_REMOTE_READ | VERBS_REMOTE_WRITE;

        if (t->domain)
                return t->domain == domain;
        if (!domain || verbs_grow_cq(domain, SEQ_QUEUES * (SENDS + RECVS)) < 0 ||
            verbs_reg(domain, t->room, sizeof(*t->room), access, &t->mr) < 0)
                return false;
        t->domain = domain;
        watch(t);
        return true;
}

static void resolved(struct rdma_conn *c)
{
        const struct verbs_qp_attr attr = { .send_wrs = SENDS, .recv_wrs = RECVS };
        struct rdma_session *t = c->session;
        struct verbs_conn_param p = { .data = c->private,
                                      .len = (uint8_t)c->request.len,
                                      .reads_in = c->request.reads_in,
                                      .reads_out = c->request.reads_out,
                                      .rnr_retry = RETRIES,
                                      .retry = RETRIES };
        bool ok = enter_domain(t, verbs_domain(c->ep)) && verbs_qp(c->ep, &attr) == 0;

        for (unsigned i = 0; i < RECVS && ok; i++)
                ok = post_recv(c, i) == 0;
        c->bind.memory = (struct bind_memory) { .at = t->room->data[c->on],
                                                .addr = (uintptr_t)t->room->data[c->on],
                                                .key = t->mr.rkey };
        if (!ok || verbs_connect(c->ep, &p) < 0)
                refuse(c, "connect", errno);
        else
                c->state = CONNECTING;
}

/* Several short tries, as host/nvme/queue_rdma.c says. */
static void knock(struct rdma_conn *c)
{
        const struct host_params *p = &c->session->base.target->host;

        if (c->ep)
                verbs_destroy(c->ep);
        c->resolve_ms *= 2;
        c->ep = verbs_resolve(c->session->context, p->traddr, p->trsvcid, c->resolve_ms);
        if (c->ep)
                verbs_set_user(c->ep, c);
        else
                refuse(c, "resolve", errno);
}

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
        confess(c, broken);
        return !is_avoided(c, step, &m, broken);
}

/* False: it is not to be. */
static bool open_conn(struct rdma_conn *c, const struct seq_step *first)
{
        struct rdma_session *t = c->session;
        const struct host_params *p = &t->base.target->host;
        struct seq_step step = seq_step_of(seq_template(SEQ_RDMA, PARTY_HOST, "request"));

        if (first->kind == SEQ_PDU && first->template->type == SEQ_REQUEST)
                step = *first;
        seq_bind_init(&c->bind, PARTY_HOST, p->hostnqn, p->subnqn);
        memcpy(c->bind.hostid, p->hostid, sizeof(c->bind.hostid));
        c->bind.qid = (uint16_t)c->on;
        c->bind.admin = c->on > 0 ? &t->conn[0].bind : NULL;
        rdma_track_free(c->track);
        c->track = rdma_track_new(DEPTH, false, &p->policy->waived);
        c->request = seq_bind_work(&c->bind, t->base.sequence, &step, t->out);
        memcpy(c->private, t->out, c->request.len);
        if (!c->track) {
                refuse(c, "track", ENOMEM);
                return true;
        }
        if (!asks(c, &step))
                return false;
        c->state = RESOLVING;
        c->resolve_ms = RESOLVE_MS / 2;
        c->give_up = loop_now_ms() + p->timeout;
        due_in(t, p->timeout);
        knock(c);
        return true;
}

static void rejected(struct rdma_conn *c, const struct verbs_event *e)
{
        size_t len = rdma_reject_len(e->param.data, e->param.len);
        uint32_t sts = 0;

        if (len > 0) {
                memcpy(&sts, e->param.data, len < sizeof(sts) ? len : sizeof(sts));
                collect(c, rdma_track_reject(c->track, e->param.data, len));
        }
        remember(c, (uint64_t)sts << 8 | 1);
        end_conn(c, REMOTE_CLOSED);
}

static void happened(struct rdma_conn *c, const struct verbs_event *e)
{
        bool ours = c->session->mode == ENDING;

        if (c->state == OVER)
                return;
        if (e->type == VERBS_RESOLVED && c->state == RESOLVING) {
                resolved(c);
        } else if (e->type == VERBS_ESTABLISHED && c->state == CONNECTING) {
                c->state = LIVE;
                acted(c->session);
                collect(c, rdma_track_accept(c->track, e->param.data, e->param.len,
                                             e->param.reads_in, e->param.reads_out));
        } else if (e->type == VERBS_REJECTED) {
                rejected(c, e);
        } else if (e->type == VERBS_UNREACHABLE && c->state == RESOLVING &&
                   abs(e->reason) == ETIMEDOUT && loop_now_ms() < c->give_up) {
                knock(c);
        } else if (e->type == VERBS_UNREACHABLE || e->type == VERBS_CONNECT_ERROR) {
                refuse(c, verbs_event_name(e->type), e->reason < 0 ? -e->reason : ECONNREFUSED);
        } else if (e->type == VERBS_DISCONNECTED) {
                verbs_disconnect(c->ep);
                end_conn(c, ours ? REMOTE_DONE : REMOTE_CLOSED);
        } else if (e->type == VERBS_QP_ERROR || e->type == VERBS_DEVICE_REMOVED) {
                c->broken = true;
        }
}

static bool take_events(struct rdma_session *t)
{
        struct verbs_event e;
        bool any = false;

        for (; verbs_event(t->context, &e); any = true)
                if (e.ep && verbs_user(e.ep))
                        happened(verbs_user(e.ep), &e);
        return any;
}

/* --- steps -------------------------------------------------------------------------------------- */

static bool expects(const struct rdma_conn *c)
{
        return c->state == LIVE &&
               (c->wild || c->broken || rdma_track_outstanding(c->track) > c->aers);
}

static void settle(struct rdma_session *t)
{
        bool due = false;

        if (all_over(t)) {
                finish(t);
                return;
        }
        if (t->mode == ENDING)
                return;
        each_conn(c, t) due |= expects(c);
        if (due && !t->impatient) {
                t->mode = SETTLING;
                wait_for_more(t);
                return;
        }
        t->mode = ENDING;
        due_in(t, t->base.hang);
        for (unsigned i = SEQ_QUEUES; i-- > 0;)
                if (t->conn[i].state == LIVE)
                        verbs_disconnect(t->conn[i].ep);
}

/* An answer is due that the next connection may hang on, such as the one to CC.EN. */
static bool is_waiting(struct rdma_session *t)
{
        each_conn(c, t) if (!c->wild && !c->broken && expects(c)) return true;
        return false;
}

/* False. */
static bool give_up(struct rdma_session *t)
{
        t->base.answer.end = REMOTE_UNSENT;
        finish(t);
        return false;
}

/* False: it, or an answer, is to be waited for, or all is over. */
static bool do_step(struct rdma_session *t, struct rdma_conn *c, const struct seq_step *step)
{
        if (c->state == ABSENT && !t->impatient && is_waiting(t)) {
                wait_for_more(t);
                return false;
        }
        if (c->state == ABSENT && !open_conn(c, step))
                return give_up(t);
        if (c->state == RESOLVING || c->state == CONNECTING)
                return false;
        if (c->state == LIVE && (step->kind == SEQ_CLOSE || step->kind == SEQ_RESET)) {
                if (step->kind == SEQ_CLOSE)
                        verbs_disconnect(c->ep);
                else
                        verbs_fail(c->ep);
                end_conn(c, REMOTE_LEFT);
        } else if (c->state == LIVE && (step->kind == SEQ_PDU || step->kind == SEQ_RAW)) {
                if (!t->impatient && (c->joining || free_send(c) < 0)) {
                        wait_for_more(t);
                        return false;
                }
                if (!say(c, step))
                        return give_up(t);
        }
        t->step++;
        return true;
}

static void go_on(struct rdma_session *t)
{
        const struct sequence *s = t->base.sequence;

        while (t->step < s->steps) {
                const struct seq_step *step = &s->step[t->step];
                struct rdma_conn *c = &t->conn[step->on];

                if (c->state == OVER || c->broken) {
                        t->step++;
                } else if (step->kind == SEQ_DELAY) {
                        t->step++;
                        t->mode = DELAYED;
                        due_in(t,
                               step->ms < t->base.target->delay ? step->ms : t->base.target->delay);
                        return;
                } else if (!do_step(t, c, step)) {
                        return;
                }
        }
        settle(t);
}

/* All that there is to take, and what follows from it; then the bell is set. What came before it was
 * set has no bell: it counts for the next round. False: there may be more, without a bell. */
static bool serve(struct rdma_session *t)
{
        bool any = false;
        unsigned rounds = 0;

        do {
                any |= take_events(t);
                any |= poll_work(t);
                if (any && t->base.sequence && t->mode == RUNNING)
                        go_on(t);
                else if (any && t->base.sequence && t->mode != DELAYED)
                        settle(t);
                verbs_arm(t->context);
                any = poll_work(t);
        } while (any && t->base.sequence && ++rounds < ROUNDS);
        if (!any || !t->base.sequence)
                return true;
        t->base.deadline = loop_now_ms();
        return false;
}

static void ready(struct loop_source *source, uint32_t events)
{
        (void)events;
        serve(((struct rdma_source *)(void *)source)->session);
}

/* More descriptors may have come. */
static void watch(struct rdma_session *t)
{
        int fds[FDS], n = verbs_fds(t->context, fds, FDS);

        for (; t->sources < n; t->sources++) {
                struct rdma_source *s = &t->source[t->sources];

                s->source = (struct loop_source) { .fd = fds[t->sources], .ready = ready };
                s->session = t;
                if (loop_add(t->base.loop, &s->source, EPOLLIN) < 0)
                        return;
        }
}

/* --- life --------------------------------------------------------------------------------------- */

static bool open_device(struct rdma_session *t)
{
        const struct host_params *p = &t->base.target->host;
        struct verbs_provider *verbs = p->verbs;

        if (!verbs)
                verbs = verbs_rdma(t->base.answer.why, sizeof(t->base.answer.why));
        t->context = verbs ? verbs_open(verbs) : NULL;
        if (t->context)
                watch(t);
        return t->context;
}

static void rdma_start(struct remote_session *s)
{
        struct rdma_session *t = rdma_of(s);

        t->mode = RUNNING;
        t->impatient = false;
        t->step = 0;
        t->spoke = loop_now_ms();
        acted(t);
        each_conn(c, t)
        {
                c->state = ABSENT;
                c->wild = c->joining = c->broken = false;
                c->aers = 0;
                memset(c->sending, 0, sizeof(c->sending));
        }
        if (!t->context && !open_device(t)) {
                t->base.answer.end = REMOTE_REFUSED;
                finish(t);
                return;
        }
        due_in(t, s->target->settle);
        go_on(t);
        if (s->sequence)
                serve(t);
}

/* Whoever has to do something and did not. */
static void give_in(struct rdma_session *t)
{
        each_conn(c, t)
        {
                if (c->state == RESOLVING || c->state == CONNECTING)
                        refuse(c, "connect", ETIMEDOUT);
                else if (c->state == LIVE && t->mode == ENDING)
                        end_conn(c, REMOTE_HANG);
        }
}

static void rdma_late(struct remote_session *s)
{
        struct rdma_session *t = rdma_of(s);
        bool all = serve(t);

        if (!s->sequence)
                return;
        if (loop_now_ms() < t->due) { /* only looked at what has no descriptors */
                if (!all)
                        return;
                s->deadline = t->sources > 0 ? t->due : loop_now_ms() + BLIND_MS;
                return;
        }
        give_in(t);
        if (t->mode == DELAYED) {
                t->mode = RUNNING;
                acted(t);
        } else {
                t->impatient = true;
        }
        if (t->mode == RUNNING)
                go_on(t);
        else
                settle(t);
}

static void rdma_stop(struct remote_session *s)
{
        put_away(rdma_of(s));
        s->sequence = NULL;
}

static void rdma_free(struct remote_session *s)
{
        struct rdma_session *t = rdma_of(s);

        for (int i = 0; i < t->sources; i++)
                loop_remove(s->loop, &t->source[i].source);
        if (t->domain)
                verbs_dereg(t->domain, &t->mr);
        if (t->context)
                verbs_close(t->context);
        each_conn(c, t) rdma_track_free(c->track);
        free(t->room);
        free(t);
}

static struct remote_session *rdma_new(void)
{
        struct rdma_session *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        t->room = calloc(1, sizeof(*t->room));
        for (unsigned i = 0; i < SEQ_QUEUES; i++) {
                t->conn[i].session = t;
                t->conn[i].on = i;
        }
        if (t->room)
                return &t->base;
        rdma_free(&t->base);
        return NULL;
}

const struct remote_ops remote_rdma = {
        .new = rdma_new,
        .free = rdma_free,
        .start = rdma_start,
        .late = rdma_late,
        .stop = rdma_stop,
};
