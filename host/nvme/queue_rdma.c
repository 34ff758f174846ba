/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue over RDMA: an endpoint (pdu/verbs/rdma_ep.h) in a group of its own, so that it may be given
 * to another thread.
 *
 * Commands are called back only when nothing can reach their memory any more: on a queue pair that
 * breaks after it is drained, or destroyed where that takes too long.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bounce.h"
#include "host/engine/time.h"
#include "pdu/io/verbs/rdma_wait.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/rdma/rdma_host.h"
#include "pdu/nvme/rdma/spoil_rdma.h"
#include "queue.h"

enum {
        CLOSE_MS = 1000, /* how long a disconnect waits for its answer, and a drain for its end */
        NAP_MS = 10,
        CAUSE_MS = 100,    /* see await_cause() */
        IDLE_POLLS = 256,  /* polls that found nothing, for a look at events */
        BUSY_POLLS = 4096, /* polls that found something, likewise */
        READS_MAX = 128,   /* READs of the controller at a time, if the device can */
        INLINE_MAX = 64,   /* an SQE */
        IB_CONSUMER = 28,  /* reject reason: the peer's program did */
};

struct queue_rdma {
        struct rdma_ep ep; /* first */
        struct host_queue *queue;
        struct rdma_group group;
        struct rdma_host *host;
        struct rdma_memory memory;
        struct bounces bounces;
        struct rdma_request request;
        struct verbs_event said; /* RESOLVED, ESTABLISHED or what came in place of it */
        bool heard;              /* there is one */
        unsigned polls;
        bool slept; /* there may be events */
};

static struct queue_rdma *rdma_of(struct host_queue *q)
{
        return q->own;
}

static void take_events(struct queue_rdma *r)
{
        (void)rdma_group_events(&r->group, UINT_MAX);
}

/* --- what the endpoint says --------------------------------------------------------------------- */

/* What ends a queue that was live; NULL: no such thing. */
static const char *ending(enum life_event e)
{
        switch (e) {
        case LIFE_DISCONNECTED:
        case LIFE_TIMEWAIT:
                return "controller closed the connection";
        case LIFE_REMOVED:
                return "the RDMA device was removed";
        case LIFE_FAILED:
                return "the queue pair failed";
        case LIFE_REFUSED:
                return "the connection failed";
        case LIFE_ESTABLISHED:
        case LIFE_CLOSE:
        case LIFE_ABORT:
        case LIFE_LATE:
        case LIFE_DRAINED:
        case LIFE_IDLE:
        case LIFE_EVENTS:
                return NULL;
        }
        return NULL;
}

/* The life moves first: a queue that breaks runs it down. */
static bool on_event(struct rdma_ep *e, const struct verbs_event *event)
{
        struct queue_rdma *r = (struct queue_rdma *)e;
        enum life_event why = life_event_of(event->type);
        bool live = e->life.state >= LIFE_LIVE;

        if (!r->heard) {
                r->said = *event;
                r->said.param.data = r->said.data;
                r->heard = event->type == VERBS_RESOLVED || why != LIFE_EVENTS;
        }
        if (why == LIFE_EVENTS)
                return false;
        rdma_ep_step(e, why);
        if (live && ending(why))
                host_queue_break(r->queue, "queue %u: %s", r->queue->qid, ending(why));
        return false;
}

/* iWARP: the queue pair fails by itself when the peer disconnects; that event comes a little later.
 */
static void await_cause(struct queue_rdma *r)
{
        uint64_t deadline = deadline_in(CAUSE_MS);

        while (!r->queue->broken && ms_until(deadline) > 0) {
                loop_sleep_us(1000);
                take_events(r);
        }
}

static void broken_by(struct queue_rdma *r, const struct verbs_wc *wc)
{
        struct host_queue *q = r->queue;
        struct fault f = rdma_host_fault(r->host);

        if (is_fault(f)) {
                host_queue_break(q, "queue %u: controller broke %s (%s)", q->qid,
                                 rule_get(f.rule)->id, rule_get(f.rule)->says);
                return;
        }
        take_events(r); /* the cause may be known by them */
        if (wc->status == VERBS_FLUSHED)
                await_cause(r);
        if (!q->broken)
                rdma_ep_step(&r->ep, LIFE_FAILED);
        host_queue_break(q, "queue %u: %s failed: %s", q->qid, verbs_op_name(wc->wr->op),
                         verbs_status_name(wc->status));
}

/* A queue that breaks here takes, and ends, what is left by itself: see run_down(). */
static bool on_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct queue_rdma *r = (struct queue_rdma *)e;

        if (r->group.batch_at == 1) /* the first of its batch */
                r->queue->received_at = loop_now_ns();
        if (rdma_host_completed(r->host, wc) && !r->queue->broken)
                broken_by(r, wc);
        return false;
}

/* A host has nothing that executes, so that END and RELEASE come as one: the queue pair goes first,
 * in case it could not be drained. */
static void on_end(struct rdma_ep *e)
{
        struct queue_rdma *r = (struct queue_rdma *)e;

        (void)rdma_ep_release(e);
        rdma_ep_destroy(e);
        if (r->host)
                rdma_host_fail_all(r->host, HOST_STATUS_ABORTED);
}

static const struct rdma_ep_ops ep_ops = { .event = on_event,
                                           .completed = on_completion,
                                           .end = on_end };

/* --- polling ------------------------------------------------------------------------------------ */

/* Also leaves the processor to who may need it: soft devices have threads. */
static bool time_for_events(struct queue_rdma *r, bool idle)
{
        bool slept = r->slept;

        r->slept = false;
        if (r->polls++ % (idle ? IDLE_POLLS : BUSY_POLLS) == 0) {
                sched_yield();
                return true;
        }
        return idle && slept;
}

static long rdma_receive(struct host_queue *q)
{
        struct queue_rdma *r = rdma_of(q);
        unsigned n = rdma_group_poll(&r->group, 1);

        if (!q->broken && time_for_events(r, n == 0))
                take_events(r);
        return q->broken ? -1 : (long)n;
}

static int rdma_fds(struct host_queue *q, struct pollfd *fds)
{
        struct queue_rdma *r = rdma_of(q);

        r->slept = true;
        return rdma_group_arm(&r->group, fds, HOST_QUEUE_FDS);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Until the queue pair is gone: twice CLOSE_MS at most. */
static void run_down(struct queue_rdma *r)
{
        uint64_t deadline = deadline_in(CLOSE_MS);

        while (r->ep.life.state != LIFE_RELEASED) {
                take_events(r);
                if (rdma_group_poll(&r->group, 1) > 0 || r->ep.life.state == LIFE_RELEASED)
                        continue;
                if (ms_until(deadline) > 0) {
                        rdma_group_sleep(&r->group, NAP_MS);
                        continue;
                }
                rdma_ep_step(&r->ep, LIFE_LATE);
                deadline = deadline_in(CLOSE_MS);
        }
}

static void rdma_fail(struct host_queue *q)
{
        struct queue_rdma *r = rdma_of(q);

        rdma_ep_step(&r->ep, LIFE_ABORT);
        run_down(r);
}

static void rdma_close(struct host_queue *q)
{
        struct queue_rdma *r = rdma_of(q);

        if (!q->broken) {
                q->broken = true; /* nothing more is taken on */
                q->error = (struct host_error) { .kind = HOST_BROKEN };
                snprintf(q->error.line, sizeof(q->error.line), "queue %u: closed", q->qid);
                rdma_ep_step(&r->ep, LIFE_CLOSE);
        }
        run_down(r);
        rdma_host_free(r->host);
        bounces_fini(&r->bounces);
        rdma_memory_fini(&r->memory);
        rdma_group_close(&r->group);
        free(r);
        q->own = NULL;
}

/* --- commands --------------------------------------------------------------------------------- */

static void bounce_done(struct host_cmd *cmd, void *user)
{
        struct bounce *s = user;

        if (cmd->xfer == XFER_C2H && s->original && cmd->got)
                memcpy(s->original, s->data, cmd->got);
        cmd->data = s->original;
        cmd->done = s->done;
        cmd->user = s->user;
        bounce_put(s);
        cmd->done(cmd, cmd->user);
}

/* The command's data lies in a bounce buffer until it is done. */
static struct bounce *bounce_begin(struct queue_rdma *r, struct host_cmd *cmd)
{
        struct bounce *s = bounce_get(&r->bounces, cmd->len);

        if (!s)
                return NULL;
        if (cmd->xfer == XFER_H2C && cmd->data)
                memcpy(s->data, cmd->data, cmd->len);
        s->original = cmd->data;
        s->done = cmd->done;
        s->user = cmd->user;
        cmd->data = s->data;
        cmd->done = bounce_done;
        cmd->user = s;
        return s;
}

static void bounce_undo(struct bounce *s, struct host_cmd *cmd)
{
        cmd->data = s->original;
        cmd->done = s->done;
        cmd->user = s->user;
        bounce_put(s);
}

static int rdma_submit(struct host_queue *q, struct host_cmd *cmd)
{
        struct queue_rdma *r = rdma_of(q);
        struct bounce *s = NULL;

        if (rdma_host_outstanding(r->host) >= q->depth)
                return -1;
        if (cmd->xfer != XFER_NONE && cmd->len > 0 &&
            !(cmd->data && rdma_memory_find(&r->memory, cmd->data, cmd->len))) {
                s = bounce_begin(r, cmd);
                if (!s)
                        return -1;
        }
        if (rdma_host_submit(r->host, cmd) == 0)
                return 0;
        if (s)
                bounce_undo(s, cmd);
        return -1;
}

/* Receives first: a SEND's response needs one. */
static int post(struct queue_rdma *r)
{
        struct verbs_wr *recvs = rdma_host_take_recvs(r->host), *sends = rdma_host_take(r->host);
        struct verbs_wr *bad;

        if (recvs && rdma_ep_post_recv(&r->ep, recvs, &bad) < 0)
                return -1;
        return sends ? rdma_ep_post(&r->ep, sends, &bad) : 0;
}

static int rdma_send(struct host_queue *q)
{
        struct queue_rdma *r = rdma_of(q);

        if (rdma_host_wants_post(r->host) && post(r) < 0)
                return host_queue_break(q, "queue %u: post: %s", q->qid, strerror(errno));
        return 0;
}

static int rdma_add_memory(struct host_queue *q, void *base, size_t len)
{
        return rdma_memory_add(&rdma_of(q)->memory, base, len);
}

static void rdma_drop_memory(struct host_queue *q, const void *base)
{
        rdma_memory_drop(&rdma_of(q)->memory, base);
}

/* --- open: the machine and its memory --------------------------------------------------------- */

static void *machine_memory(void *user, size_t bytes, uint32_t *lkey)
{
        return rdma_memory_own(&((struct queue_rdma *)user)->memory, bytes, lkey);
}

static void machine_memory_put(void *user, void *memory, size_t bytes)
{
        (void)bytes;
        rdma_memory_drop(&((struct queue_rdma *)user)->memory, memory);
}

static bool data_keys(void *user, const void *data, uint32_t len, uint32_t *lkey, uint32_t *rkey)
{
        const struct verbs_mr *mr =
            rdma_memory_find(&((struct queue_rdma *)user)->memory, data, len);

        if (!mr)
                return false;
        *lkey = mr->lkey;
        *rkey = mr->rkey;
        return true;
}

static uint32_t least(uint32_t a, uint32_t b)
{
        return a < b ? a : b;
}

static bool violates(const struct host_queue_config *cfg)
{
        return cfg->policy && !rule_set_empty(&cfg->policy->violated);
}

/* In-capsule data is sent from where it lies, no room is needed for it; but violators have
 * the capsule as a whole, and some make it longer than is allowed. */
static uint32_t capsule_bytes(const struct host_queue_config *cfg)
{
        uint32_t bytes = 64 + cfg->icdoff * 16u;

        return violates(cfg) ? bytes + cfg->in_capsule + 16 * (cfg->msdbd + 2u) : bytes;
}

static struct rdma_host_config machine_config(const struct queue_rdma *r,
                                              const struct host_queue_config *cfg)
{
        return (struct rdma_host_config) { .qid = cfg->qid,
                                           .depth = r->queue->depth,
                                           .icdoff = cfg->icdoff,
                                           .in_capsule = cfg->qid ? cfg->in_capsule : 0,
                                           .capsule_max = capsule_bytes(cfg),
                                           .inline_bytes =
                                               least(r->ep.dev->caps->inline_bytes, INLINE_MAX),
                                           .msdbd = cfg->msdbd,
                                           .policy = cfg->policy };
}

static int make_queue_pair(struct queue_rdma *r, const struct host_queue_config *cfg,
                           struct host_error *e)
{
        static const struct rdma_host_ops ops = {
                .memory = machine_memory,
                .memory_put = machine_memory_put,
                .data_keys = data_keys,
        };
        const struct verbs_caps *caps = r->ep.dev->caps;
        struct rdma_host_config host = machine_config(r, cfg);
        struct verbs_qp_attr attr = { .send_wrs = rdma_host_sends(&host),
                                      .recv_wrs = r->queue->depth + 1u, /* one to spare */
                                      .inline_bytes = host.inline_bytes };

        if (rdma_ep_qp(&r->ep, &attr) < 0)
                return host_fail(e, HOST_BROKEN, "queue %u: cannot make a queue pair on %s: %s",
                                 cfg->qid, caps->name, strerror(errno));
        if (attr.send_wrs < rdma_host_sends(&host))
                return host_fail(e, HOST_BROKEN,
                                 "queue %u: %s supports %u work requests, but %u are needed",
                                 cfg->qid, caps->name, caps->qp_wrs, rdma_host_sends(&host) + 1);
        r->host = rdma_host_new(&host, &ops, r);
        if (!r->host)
                return host_fail(e, HOST_BROKEN, "queue %u: no memory that %s can use: %s",
                                 cfg->qid, caps->name, strerror(errno));
        return post(r) == 0
                   ? 0
                   : host_fail(e, HOST_BROKEN, "queue %u: post: %s", cfg->qid, strerror(errno));
}

/* --- open: the connection --------------------------------------------------------------------- */

/* In words; IBA 12.6.7.2 (figures), or as errno. */
static const char *reason_name(int reason)
{
        static const char *const names[] = {
                [1] = "no queue pair left",
                [3] = "no resources",
                [4] = "timeout",
                [5] = "unsupported request",
                [6] = "invalid communication id",
                [8] = "no listener at this address",
                [9] = "invalid transport",
                [10] = "stale connection",
                [24] = "port changed",
                [25] = "redirected",
                [IB_CONSUMER] = "refused by the controller",
        };
        size_t n = sizeof(names) / sizeof(names[0]);

        if (reason < 0)
                return strerror(-reason);
        if ((size_t)reason < n && names[reason])
                return names[reason];
        return (size_t)reason < n || reason == 0 ? "no reason given" : strerror(reason);
}

/* The CM pads private data with zeroes: a rejection of its own may come with some. */
static int explain_reject(const struct queue_rdma *r, const char *where, struct host_error *e)
{
        const struct verbs_event *v = &r->said;
        struct rdma_reject reject;

        if (v->param.len > 0 && rdma_reject_read(v->param.data, v->param.len, &reject) &&
            le16_get(reject.recfmt) == 0 && le16_get(reject.sts) != 0)
                return host_fail(e, HOST_BROKEN,
                                 "queue %u: %s: controller rejected the connection: %s (status %u)",
                                 r->queue->qid, where, rdma_reject_name(le16_get(reject.sts)),
                                 le16_get(reject.sts));
        return host_fail(e, HOST_BROKEN, "queue %u: %s: connection rejected: %s (reason %d)",
                         r->queue->qid, where, reason_name(v->reason), v->reason);
}

/* Waits for the event that answers the last step; it is in r->said then. */
static int await_event(struct queue_rdma *r, enum verbs_event_type wanted, const char *what,
                       const char *where, uint64_t deadline, struct host_error *e)
{
        unsigned qid = r->queue->qid;

        for (take_events(r); !r->heard; take_events(r)) {
                int ms = ms_until(deadline);

                if (ms == 0)
                        return host_fail(e, HOST_BROKEN, "queue %u: %s: no %s within %u ms", qid,
                                         where, what, r->queue->timeout);
                rdma_group_sleep(&r->group, ms > NAP_MS ? NAP_MS : ms);
        }
        if (r->said.type == wanted && r->ep.life.state <= LIFE_LIVE)
                return 0;
        if (r->said.type == wanted) /* and then came what ended it */
                return host_fail(e, HOST_BROKEN, "queue %u: %s: %s", qid, where,
                                 ending(r->ep.life.cause));
        if (r->said.type == VERBS_REJECTED)
                return explain_reject(r, where, e);
        return host_fail(e, HOST_BROKEN, "queue %u: %s: %s (%s)", qid, where,
                         verbs_event_name(r->said.type), reason_name(r->said.reason));
}

/* What it says bounds the commands outstanding. */
static int take_acceptance(struct queue_rdma *r, const struct host_queue_config *cfg,
                           struct host_error *e)
{
        const struct verbs_conn_param *p = &r->said.param;
        struct rule_set found = { 0 };
        struct rdma_accept accept;
        uint16_t room;

        rdma_accept_check(p->data, p->len, p->reads_in, &r->request, &found);
        rule_each_in (&found, id) {
                const struct rule *rule = rule_get(id);

                if (rule->level != LEVEL_MUST || (cfg->policy && rule_in(&cfg->policy->waived, id)))
                        continue;
                return host_fail(e, HOST_BROKEN, "queue %u: controller broke %s (%s)", cfg->qid,
                                 rule->id, rule->says);
        }
        rdma_accept_read(p->data, p->len, &accept);
        room = le16_get(accept.crqsize);
        if (room > 0 && room < r->queue->depth)
                r->queue->depth = room;
        return 0;
}

static int connect_request(struct queue_rdma *r, const struct host_queue_config *cfg)
{
        struct verbs_conn_param param = {
                .reads_in = (uint8_t)least(r->ep.dev->caps->reads_in, READS_MAX),
                .reads_out = 0, /* a host starts no READ */
                .retry = 7,
                .rnr_retry = 7,
        };
        struct spoil_cm s = { .message = SPOIL_REQUEST,
                              .data = &r->request,
                              .len = sizeof(r->request),
                              .reads_in = param.reads_in };

        r->request = (struct rdma_request) { .qid = le16(cfg->qid),
                                             .hrqsize = le16(cfg->entries),
                                             .hsqsize = le16((uint16_t)(cfg->entries - 1)),
                                             .cntlid = le16(cfg->qid ? cfg->cntlid : 0) };
        if (violates(cfg))
                spoil_cm(&cfg->policy->violated, &s);
        param.data = &r->request;
        param.len = s.len;
        param.reads_in = s.reads_in;
        param.reads_out = s.reads_out;
        r->heard = false;
        return rdma_ep_connect(&r->ep, &param);
}

static struct verbs_provider *provider(const struct host_queue_config *cfg, struct host_error *e)
{
        char error[200];
        struct verbs_provider *p = cfg->verbs ? cfg->verbs : verbs_rdma(error, sizeof(error));

        if (!p)
                host_error_set(e, HOST_BROKEN, "%s", error);
        return p;
}

/* r->group is open then, and there is something to close. */
static struct queue_rdma *queue_new(struct host_queue *q, const struct host_queue_config *cfg,
                                    struct host_error *e)
{
        struct verbs_provider *p = provider(cfg, e);
        struct queue_rdma *r = p ? calloc(1, sizeof(*r)) : NULL;

        if (!r) {
                if (p)
                        host_error_set(e, HOST_BROKEN, "no memory for a queue");
                return NULL;
        }
        if (rdma_group_open(&r->group, p, NULL, loop_now_ms) < 0) {
                host_error_set(e, HOST_BROKEN, "queue %u: cannot open an RDMA context: %s",
                               cfg->qid, strerror(errno));
                free(r);
                return NULL;
        }
        r->queue = q;
        rdma_ep_init(&r->ep, &r->group, &ep_ops);
        return r;
}

static int resolve(struct queue_rdma *r, const struct host_queue_config *cfg, const char *where,
                   uint64_t deadline, struct host_error *e)
{
        if (rdma_ep_resolve(&r->ep, cfg->traddr, cfg->trsvcid, (unsigned)ms_until(deadline)) < 0)
                return host_fail(e, HOST_BROKEN, "queue %u: %s: %s", cfg->qid, where,
                                 strerror(errno));
        if (await_event(r, VERBS_RESOLVED, "address", where, deadline, e) < 0)
                return -1;
        rdma_memory_init(&r->memory, r->ep.dev->domain);
        r->bounces.memory = &r->memory;
        return 0;
}

static int rdma_open(struct host_queue *q, const struct host_queue_config *cfg,
                     struct host_error *e)
{
        uint64_t deadline = deadline_in(cfg->timeout);
        struct queue_rdma *r = q->own = queue_new(q, cfg, e);
        char where[300];

        if (!r)
                return -1;
        snprintf(where, sizeof(where), "%s port %s", cfg->traddr, cfg->trsvcid);
        if (resolve(r, cfg, where, deadline, e) == 0 && make_queue_pair(r, cfg, e) == 0) {
                if (connect_request(r, cfg) < 0)
                        host_error_set(e, HOST_BROKEN, "queue %u: %s: %s", q->qid, where,
                                       strerror(errno));
                else if (await_event(r, VERBS_ESTABLISHED, "answer", where, deadline, e) == 0 &&
                         take_acceptance(r, cfg, e) == 0)
                        return 0;
        }
        rdma_close(q);
        return -1;
}

const struct host_queue_ops host_queue_rdma = {
        .open = rdma_open,
        .close = rdma_close,
        .fail = rdma_fail,
        .submit = rdma_submit,
        .send = rdma_send,
        .receive = rdma_receive,
        .fds = rdma_fds,
        .add_memory = rdma_add_memory,
        .drop_memory = rdma_drop_memory,
};
