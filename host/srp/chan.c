/* SPDX-License-Identifier: BSD-3-Clause */
#include "chan.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/time.h"
#include "pdu/io/verbs/rdma_wait.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/srp/machine/channel.h"
#include "pdu/srp/machine/spoil.h"

enum {
        CLOSE_MS = 1000, /* how long a disconnect waits for its answer, and a drain for its end */
        LOGOUT_MS = 200,
        NAP_MS = 10,
        CAUSE_MS = 100,    /* see await_cause() */
        IDLE_POLLS = 256,  /* polls that found nothing, for a look at events */
        BUSY_POLLS = 4096, /* polls that found something, likewise */
        READS = 16,        /* of the target at a time, if the device can */
        INLINE = 64,       /* a command with a descriptor */
        IMMEDIATE_AT = 68, /* after a command and a descriptor, as Linux has it */
        LEFT_FOR_TM = 1,   /* of the request limit */
};

static struct srp_chan *chan_of(struct rdma_ep *e)
{
        return (struct srp_chan *)e;
}

static void take_events(struct srp_chan *c)
{
        (void)rdma_group_events(&c->group, UINT_MAX);
}

/* --- what the endpoint says --------------------------------------------------------------------- */

static const char *ending(enum life_event e)
{
        switch (e) {
        case LIFE_DISCONNECTED:
        case LIFE_TIMEWAIT:
                return "target closed the connection";
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

/* The life moves first: a channel that breaks runs it down. */
static bool on_event(struct rdma_ep *e, const struct verbs_event *event)
{
        struct srp_chan *c = chan_of(e);
        enum life_event why = life_event_of(event->type);
        bool live = e->life.state >= LIFE_LIVE;

        if (!c->heard) {
                c->said = *event;
                c->said.param.data = c->said.data;
                c->heard = event->type == VERBS_RESOLVED || why != LIFE_EVENTS;
        }
        if (why == LIFE_EVENTS)
                return false;
        rdma_ep_step(e, why);
        if (live && ending(why))
                srp_chan_break(c, "channel %u: %s", c->number, ending(why));
        return false;
}

/* iWARP: the queue pair fails by itself when the peer disconnects; that event comes a little later. */
static void await_cause(struct srp_chan *c)
{
        uint64_t deadline = deadline_in(CAUSE_MS);

        while (!c->broken && ms_until(deadline) > 0) {
                loop_sleep_us(1000);
                take_events(c);
        }
}

static void broken_by(struct srp_chan *c, const struct verbs_wc *wc)
{
        enum srp_rule rule = srp_initiator_fault(c->machine);
        uint32_t reason;

        if (rule != SRP_RULE_NONE) {
                srp_chan_break(c, "channel %u: target broke %s (%s)", c->number,
                               srp_rule_get(rule)->id, srp_rule_get(rule)->says);
                return;
        }
        if (srp_initiator_is_left(c->machine, &reason)) {
                srp_chan_break(c, "channel %u: target has logged out (reason %u)", c->number,
                               reason);
                return;
        }
        take_events(c); /* the cause may be known by them */
        if (wc->status == VERBS_FLUSHED)
                await_cause(c);
        if (!c->broken)
                rdma_ep_step(&c->ep, LIFE_FAILED);
        srp_chan_break(c, "channel %u: %s failed: %s", c->number, verbs_op_name(wc->wr->op),
                       verbs_status_name(wc->status));
}

/* A channel that breaks here ends what is left by itself: see run_down(). */
static bool on_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct srp_chan *c = chan_of(e);

        if (c->group.batch_at == 1) /* the first of its batch */
                c->received_at = loop_now_ns();
        if (srp_initiator_completed(c->machine, wc) && !c->broken)
                broken_by(c, wc);
        return false;
}

/* The queue pair goes first, in case it could not be drained. */
static void on_end(struct rdma_ep *e)
{
        struct srp_chan *c = chan_of(e);

        (void)rdma_ep_release(e);
        rdma_ep_destroy(e);
        if (c->machine)
                srp_initiator_fail_all(c->machine);
}

static const struct rdma_ep_ops ep_ops = { .event = on_event,
                                           .completed = on_completion,
                                           .end = on_end };

/* --- polling ------------------------------------------------------------------------------------ */

static bool time_for_events(struct srp_chan *c, bool idle)
{
        bool slept = c->slept;

        c->slept = false;
        if (c->polls++ % (idle ? IDLE_POLLS : BUSY_POLLS) == 0) {
                sched_yield();
                return true;
        }
        return idle && slept;
}

long srp_chan_receive(struct srp_chan *c)
{
        unsigned n = rdma_group_poll(&c->group, 1);

        if (!c->broken && time_for_events(c, n == 0))
                take_events(c);
        return c->broken ? -1 : (long)n;
}

int srp_chan_fds(struct srp_chan *c, struct pollfd *fds)
{
        c->slept = true;
        return rdma_group_arm(&c->group, fds, SRP_CHAN_FDS);
}

void srp_chan_sleep(struct srp_chan *c, int ms)
{
        c->slept = true;
        rdma_group_sleep(&c->group, ms);
}

/* Receives first: a response needs one. */
static int post(struct srp_chan *c)
{
        struct verbs_wr *recvs = srp_initiator_take_recvs(c->machine), *sends, *bad;

        if (recvs && rdma_ep_post_recv(&c->ep, recvs, &bad) < 0)
                return -1;
        sends = srp_initiator_take(c->machine);
        return sends ? rdma_ep_post(&c->ep, sends, &bad) : 0;
}

int srp_chan_send(struct srp_chan *c)
{
        if (c->broken)
                return -1;
        if (srp_initiator_wants_post(c->machine) && post(c) < 0)
                return srp_chan_break(c, "channel %u: post: %s", c->number, strerror(errno));
        return 0;
}

int srp_chan_submit(struct srp_chan *c, struct srp_request_out *r)
{
        return c->broken ? -1 : srp_initiator_submit(c->machine, r);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Until the queue pair is gone: twice CLOSE_MS at most. */
static void run_down(struct srp_chan *c)
{
        uint64_t deadline = deadline_in(CLOSE_MS);

        while (c->ep.life.state != LIFE_RELEASED) {
                take_events(c);
                if (rdma_group_poll(&c->group, 1) > 0 || c->ep.life.state == LIFE_RELEASED)
                        continue;
                if (ms_until(deadline) > 0) {
                        rdma_group_sleep(&c->group, NAP_MS);
                        continue;
                }
                rdma_ep_step(&c->ep, LIFE_LATE);
                deadline = deadline_in(CLOSE_MS);
        }
}

int srp_chan_break(struct srp_chan *c, const char *fmt, ...)
{
        va_list ap;

        if (c->broken)
                return -1;
        c->broken = true;
        c->error = (struct host_error) { .kind = HOST_BROKEN };
        va_start(ap, fmt);
        vsnprintf(c->error.line, sizeof(c->error.line), fmt, ap);
        va_end(ap);
        rdma_ep_step(&c->ep, LIFE_ABORT);
        run_down(c);
        return -1;
}

/* The target ends the connection, which is what is waited for. */
static void log_out(struct srp_chan *c)
{
        uint64_t deadline = deadline_in(LOGOUT_MS);

        srp_initiator_logout(c->machine);
        if (srp_chan_send(c) < 0)
                return;
        while (!c->broken && ms_until(deadline) > 0)
                if (srp_chan_receive(c) == 0)
                        srp_chan_sleep(c, NAP_MS);
}

void srp_chan_close(struct srp_chan *c, bool logout)
{
        if (!c->broken && logout && c->machine && c->ep.life.state == LIFE_LIVE)
                log_out(c);
        if (!c->broken) {
                c->broken = true; /* nothing more is taken on */
                c->error = (struct host_error) { .kind = HOST_BROKEN };
                snprintf(c->error.line, sizeof(c->error.line), "channel %u: closed", c->number);
                rdma_ep_step(&c->ep, LIFE_CLOSE);
        }
        run_down(c);
        if (c->machine)
                srp_initiator_free(c->machine);
        c->machine = NULL;
        rdma_memory_fini(&c->memory);
        rdma_group_close(&c->group);
}

/* --- open: the machine and its memory ----------------------------------------------------------- */

static uint32_t least(uint32_t a, uint32_t b)
{
        return a < b ? a : b;
}

static void *machine_memory(void *user, size_t bytes, uint32_t *lkey, uint32_t *rkey)
{
        struct srp_chan *c = user;
        void *memory = rdma_memory_own(&c->memory, bytes, lkey);

        if (memory)
                *rkey = rdma_memory_find(&c->memory, memory, 1)->rkey;
        return memory;
}

static bool data_keys(void *user, const void *data, uint32_t len, uint32_t *rkey)
{
        const struct verbs_mr *mr = rdma_memory_find(&((struct srp_chan *)user)->memory, data, len);

        if (mr)
                *rkey = mr->rkey;
        return mr;
}

static int make_queue_pair(struct srp_chan *c, struct host_error *e)
{
        unsigned depth = c->params->depth;
        struct verbs_qp_attr attr = { .send_wrs = srp_initiator_sends(depth),
                                      .recv_wrs = srp_initiator_receives(depth),
                                      .inline_bytes = INLINE };
        const struct verbs_caps *caps = c->ep.dev->caps;

        if (rdma_ep_qp(&c->ep, &attr) < 0)
                return host_fail(e, HOST_BROKEN, "channel %u: cannot make a queue pair on %s: %s",
                                 c->number, caps->name, strerror(errno));
        if (attr.send_wrs < srp_initiator_sends(depth))
                return host_fail(
                    e, HOST_BROKEN, "channel %u: %s supports %u work requests, but %u are needed",
                    c->number, caps->name, caps->qp_wrs, srp_initiator_sends(depth) + 1);
        return 0;
}

/* What was agreed on bounds the requests outstanding. */
static int make_machine(struct srp_chan *c, struct host_error *e)
{
        static const struct srp_initiator_ops ops = { machine_memory, data_keys };
        int32_t limit = (int32_t)be32_get(c->granted.req_lim_delta);
        struct srp_initiator_config cfg = { .asked = c->asked,
                                            .granted = c->granted,
                                            .inline_bytes =
                                                least(c->ep.dev->caps->inline_bytes, INLINE),
                                            .policy = &c->params->policy };

        if (limit <= LEFT_FOR_TM)
                return host_fail(e, HOST_BROKEN,
                                 "channel %u: a request limit of %d leaves no command", c->number,
                                 limit);
        c->depth = cfg.depth = least(c->params->depth, (uint32_t)limit - LEFT_FOR_TM);
        c->machine = srp_initiator_new(&cfg, &ops, c);
        if (!c->machine)
                return host_fail(e, HOST_BROKEN, "channel %u: no memory that %s can use: %s",
                                 c->number, c->ep.dev->caps->name, strerror(errno));
        return post(c) == 0
                   ? 0
                   : host_fail(e, HOST_BROKEN, "channel %u: post: %s", c->number, strerror(errno));
}

/* --- open: logging in --------------------------------------------------------------------------- */

enum { IB_CONSUMER = 28 }; /* reject reason: the peer's program did */

/* The CM pads private data with zeroes: a rejection of its own may come with some. */
static int explain_reject(const struct srp_chan *c, const char *where, struct host_error *e)
{
        const struct verbs_event *v = &c->said;
        union srp_iu iu;

        if (srp_read(v->data, v->param.len, &iu) && iu.opcode == SRP_LOGIN_REJ) {
                uint32_t reason = be32_get(iu.login_rej.reason);

                return host_fail(e, HOST_BROKEN, "channel %u: %s: login rejected: %s (%08Xh)",
                                 c->number, where, srp_reject_name(reason), reason);
        }
        return host_fail(e, HOST_BROKEN, "channel %u: %s: connection rejected%s (reason %d)",
                         c->number, where, v->reason == IB_CONSUMER ? " by the target" : "",
                         v->reason);
}

/* Waits for the event that answers the last step; it is in c->said then. */
static int await_event(struct srp_chan *c, enum verbs_event_type wanted, const char *what,
                       const char *where, uint64_t deadline, struct host_error *e)
{
        for (take_events(c); !c->heard; take_events(c)) {
                int ms = ms_until(deadline);

                if (ms == 0)
                        return host_fail(e, HOST_BROKEN, "channel %u: %s: no %s within %u ms",
                                         c->number, where, what, c->params->timeout);
                rdma_group_sleep(&c->group, ms > NAP_MS ? NAP_MS : ms);
        }
        if (c->said.type == wanted && c->ep.life.state <= LIFE_LIVE)
                return 0;
        if (c->said.type == wanted) /* and then came what ended it */
                return host_fail(e, HOST_BROKEN, "channel %u: %s: %s", c->number, where,
                                 ending(c->ep.life.cause));
        if (c->said.type == VERBS_REJECTED)
                return explain_reject(c, where, e);
        return host_fail(e, HOST_BROKEN, "channel %u: %s: %s (%s)", c->number, where,
                         verbs_event_name(c->said.type),
                         c->said.reason < 0 ? strerror(-c->said.reason) : "no reason given");
}

static struct srp_login_req login_of(const struct srp_params *p, bool single)
{
        struct srp_login_req r = {
                .opcode = SRP_LOGIN_REQ,
                .tag = be64(1),
                .req_it_iu_len = be32(p->it_iu),
                .req_buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                .req_flags = (uint8_t)((single ? SRP_ACTION_SINGLE : SRP_ACTION_MULTI) |
                                       (p->immediate ? SRP_IMMEDIATE : 0)),
                .imm_data_offset = be16(p->immediate ? IMMEDIATE_AT : 0),
        };

        memcpy(r.initiator_port_id, p->initiator, sizeof(srp_port_id));
        memcpy(r.target_port_id, p->target, sizeof(srp_port_id));
        return r;
}

static int connect_request(struct srp_chan *c, bool single)
{
        struct srp_login_req said = c->asked = login_of(c->params, single);
        struct srp_spoil s = { .iu = (uint8_t *)&said, .len = sizeof(said) };
        struct srp_login_req_cm cm;
        struct verbs_conn_param param = {
                .data = &cm,
                .len = sizeof(cm),
                .reads_in = (uint8_t)least(c->ep.dev->caps->reads_in, READS),
                .retry = 7,
                .rnr_retry = 7,
        };

        (void)srp_spoil(&c->params->policy.violated, &s);
        cm = srp_login_to_cm(&said);
        c->heard = false;
        return rdma_ep_connect(&c->ep, &param);
}

/* What the response breaks beside its request; our own readings apart. */
static int judge_response(struct srp_chan *c, struct host_error *e)
{
        const struct verbs_conn_param *p = &c->said.param;
        struct srp_channel *seen = calloc(1, sizeof(*seen));
        struct rule_set found = { 0 }, unused = { 0 };

        if (!seen)
                return host_fail(e, HOST_BROKEN, "%s", strerror(ENOMEM));
        srp_channel_init(seen);
        srp_channel_login(seen, &c->asked, sizeof(c->asked), true, &unused);
        srp_channel_accept(seen, p->data, p->len, &found);
        c->granted = seen->granted;
        free(seen);
        rule_each_in (&found, id) {
                const struct rule *rule = srp_rule_get(id);

                if (rule_grade(rule) == GRADE_MUST && !rule_in(&c->params->policy.waived, id))
                        return host_fail(e, HOST_BROKEN, "channel %u: target broke %s (%s)",
                                         c->number, rule->id, rule->says);
        }
        return 0;
}

static struct verbs_provider *provider(const struct srp_params *p, struct host_error *e)
{
        char error[200];
        struct verbs_provider *v = p->verbs ? p->verbs : verbs_rdma(error, sizeof(error));

        if (!v)
                host_error_set(e, HOST_BROKEN, "%s", error);
        return v;
}

static int log_in(struct srp_chan *c, bool single, struct host_error *e)
{
        const struct srp_params *p = c->params;
        uint64_t deadline = deadline_in(p->timeout);
        char where[300];

        snprintf(where, sizeof(where), "%s port %s", p->traddr, p->trsvcid);
        if (rdma_ep_resolve(&c->ep, p->traddr, p->trsvcid, (unsigned)ms_until(deadline)) < 0)
                return host_fail(e, HOST_BROKEN, "channel %u: %s: %s", c->number, where,
                                 strerror(errno));
        if (await_event(c, VERBS_RESOLVED, "address", where, deadline, e) < 0)
                return -1;
        rdma_memory_init(&c->memory, c->ep.dev->domain);
        if (make_queue_pair(c, e) < 0)
                return -1;
        if (connect_request(c, single) < 0)
                return host_fail(e, HOST_BROKEN, "channel %u: %s: %s", c->number, where,
                                 strerror(errno));
        if (await_event(c, VERBS_ESTABLISHED, "answer", where, deadline, e) < 0)
                return -1;
        return judge_response(c, e) < 0 ? -1 : make_machine(c, e);
}

int srp_chan_open(struct srp_chan *c, const struct srp_params *p, unsigned number, bool single,
                  struct host_error *e)
{
        struct verbs_provider *v = provider(p, e);

        *c = (struct srp_chan) { .params = p, .number = number };
        if (!v)
                return -1;
        if (rdma_group_open(&c->group, v, NULL, loop_now_ms) < 0)
                return host_fail(e, HOST_BROKEN, "channel %u: cannot open an RDMA context: %s",
                                 number, strerror(errno));
        rdma_ep_init(&c->ep, &c->group, &ep_ops);
        if (log_in(c, single, e) == 0)
                return 0;
        srp_chan_close(c, false);
        return -1;
}
