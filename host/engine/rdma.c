/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pdu/io/verbs/rdma_wait.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "time.h"

enum {
        CLOSE_MS = 1000, /* how long a disconnect waits for its answer, and a drain for its end */
        NAP_MS = 10,
        CAUSE_MS = 1000,   /* see await_cause() */
        IDLE_POLLS = 256,  /* polls that found nothing, for a look at events */
        BUSY_POLLS = 4096, /* polls that found something, likewise */
        IB_CONSUMER = 28,  /* reject reason: the peer's program did */
};

static struct host_rdma *conn_of(struct rdma_ep *e)
{
        return (struct host_rdma *)e;
}

static void take_events(struct host_rdma *c)
{
        (void)rdma_group_events(&c->group, UINT_MAX);
}

int host_rdma_break(struct host_rdma *c, const char *fmt, ...)
{
        char why[sizeof(c->state->error.line)];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(why, sizeof(why), fmt, ap);
        va_end(ap);
        if (load_break(c->state, "%s: %s", c->name, why))
                host_rdma_abort(c);
        return -1;
}

/* --- what the endpoint says --------------------------------------------------------------------- */

/* What ends a connection that was live; NULL: no such thing. */
static const char *ending(const struct host_rdma *c, enum life_event why)
{
        static const char *const says[LIFE_EVENTS + 1] = {
                [LIFE_REMOVED] = "the RDMA device was removed",
                [LIFE_FAILED] = "the queue pair failed",
                [LIFE_REFUSED] = "the connection failed",
        };

        return why == LIFE_DISCONNECTED || why == LIFE_TIMEWAIT ? c->ops->closed : says[why];
}

/* The life moves first: a connection that breaks runs it down. */
static bool on_event(struct rdma_ep *e, const struct verbs_event *event)
{
        struct host_rdma *c = conn_of(e);
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
        if (live && ending(c, why))
                host_rdma_break(c, "%s", ending(c, why));
        return false;
}

/* A host has nothing that executes, so that END and RELEASE come as one: the queue pair goes first,
 * in case it could not be drained. */
static void on_end(struct rdma_ep *e)
{
        struct host_rdma *c = conn_of(e);

        (void)rdma_ep_release(e);
        rdma_ep_destroy(e);
        c->ops->ended(c);
}

/* iWARP: the queue pair fails by itself when the peer disconnects; that event comes a little later. */
static void await_cause(struct host_rdma *c)
{
        uint64_t deadline = deadline_in(CAUSE_MS);

        while (!c->state->broken && ms_until(deadline) > 0) {
                loop_sleep_us(1000);
                take_events(c);
        }
}

void host_rdma_failed(struct host_rdma *c, const struct verbs_wc *wc)
{
        take_events(c); /* the cause may be known by them */
        if (wc->status == VERBS_FLUSHED)
                await_cause(c);
        if (!c->state->broken)
                rdma_ep_step(&c->ep, LIFE_FAILED);
        host_rdma_break(c, "%s failed: %s", verbs_op_name(wc->wr->op),
                        verbs_status_name(wc->status));
}

/* --- polling ------------------------------------------------------------------------------------ */

/* Also leaves the processor to who may need it: soft devices have threads. */
static bool time_for_events(struct host_rdma *c, bool idle)
{
        bool slept = c->slept;

        c->slept = false;
        if (c->polls++ % (idle ? IDLE_POLLS : BUSY_POLLS) == 0) {
                sched_yield();
                return true;
        }
        return idle && slept;
}

long host_rdma_receive(struct host_rdma *c)
{
        unsigned n = rdma_group_poll(&c->group, 1);

        if (!c->state->broken && time_for_events(c, n == 0))
                take_events(c);
        return c->state->broken ? -1 : (long)n;
}

int host_rdma_fds(struct host_rdma *c, struct pollfd *fds)
{
        c->slept = true;
        return rdma_group_arm(&c->group, fds, LOAD_FDS);
}

void host_rdma_sleep(struct host_rdma *c, int ms)
{
        c->slept = true;
        rdma_group_sleep(&c->group, ms);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Until the queue pair is gone: twice CLOSE_MS at most. */
static void run_down(struct host_rdma *c)
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

void host_rdma_abort(struct host_rdma *c)
{
        rdma_ep_step(&c->ep, LIFE_ABORT);
        run_down(c);
}

void host_rdma_disconnect(struct host_rdma *c)
{
        if (!c->group.context) /* it could not be opened */
                return;
        if (load_break(c->state, "%s: closed", c->name)) /* nothing more is taken on */
                rdma_ep_step(&c->ep, LIFE_CLOSE);
        run_down(c);
}

void host_rdma_close(struct host_rdma *c)
{
        rdma_memory_fini(&c->memory);
        rdma_group_close(&c->group);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* In words; IBA 12.6.7.2 (figures), or as errno. */
static const char *reason_name(const struct host_rdma *c, int reason)
{
        static const char *const names[IB_CONSUMER] = {
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
        };

        if (reason < 0)
                return strerror(-reason);
        if (reason == IB_CONSUMER)
                return c->ops->refused;
        if (reason > IB_CONSUMER)
                return strerror(reason);
        return names[reason] ? names[reason] : "no reason given";
}

/* Waits for the event that answers the last step; it is in c->said then. */
static int await_event(struct host_rdma *c, enum verbs_event_type wanted, const char *what,
                       struct host_error *e)
{
        const struct verbs_event *v = &c->said;

        for (take_events(c); !c->heard; take_events(c)) {
                int ms = ms_until(c->deadline);

                if (ms == 0)
                        return host_fail(e, HOST_BROKEN, "%s: %s: no %s within %u ms", c->name,
                                         c->where, what, c->cfg.timeout);
                rdma_group_sleep(&c->group, ms > NAP_MS ? NAP_MS : ms);
        }
        if (v->type == wanted && c->ep.life.state <= LIFE_LIVE)
                return 0;
        if (v->type == wanted) /* and then came what ended it */
                return host_fail(e, HOST_BROKEN, "%s: %s: %s", c->name, c->where,
                                 ending(c, c->ep.life.cause));
        if (v->type != VERBS_REJECTED)
                return host_fail(e, HOST_BROKEN, "%s: %s: %s (%s)", c->name, c->where,
                                 verbs_event_name(v->type), reason_name(c, v->reason));
        return c->ops->rejected(c, e)
                   ? -1
                   : host_fail(e, HOST_BROKEN, "%s: %s: connection rejected: %s (reason %d)",
                               c->name, c->where, reason_name(c, v->reason), v->reason);
}

static int open_group(struct host_rdma *c, struct host_error *e)
{
        char error[200];
        struct verbs_provider *p = c->cfg.verbs ? c->cfg.verbs : verbs_rdma(error, sizeof(error));

        if (!p)
                return host_fail(e, HOST_BROKEN, "%s", error);
        if (rdma_group_open(&c->group, p, NULL, loop_now_ms) < 0)
                return host_fail(e, HOST_BROKEN, "%s: cannot open an RDMA context: %s", c->name,
                                 strerror(errno));
        return 0;
}

static int fail_step(const struct host_rdma *c, struct host_error *e)
{
        return host_fail(e, HOST_BROKEN, "%s: %s: %s", c->name, c->where, strerror(errno));
}

int host_rdma_resolve(struct host_rdma *c, const struct host_rdma_ops *ops,
                      const struct host_rdma_config *cfg, struct host_error *e)
{
        c->ops = ops;
        c->cfg = *cfg;
        c->deadline = deadline_in(cfg->timeout);
        c->ep_ops =
            (struct rdma_ep_ops) { .event = on_event, .completed = ops->completed, .end = on_end };
        snprintf(c->where, sizeof(c->where), "%s port %s", cfg->traddr, cfg->trsvcid);
        if (open_group(c, e) < 0)
                return -1;
        rdma_ep_init(&c->ep, &c->group, &c->ep_ops);
        if (rdma_ep_resolve(&c->ep, cfg->traddr, cfg->trsvcid, (unsigned)ms_until(c->deadline)) < 0)
                return fail_step(c, e);
        if (await_event(c, VERBS_RESOLVED, "address", e) < 0)
                return -1;
        rdma_memory_init(&c->memory, c->ep.dev->domain);
        return 0;
}

int host_rdma_qp(struct host_rdma *c, const struct verbs_qp_attr *attr, struct host_error *e)
{
        const struct verbs_caps *caps = c->ep.dev->caps;
        struct verbs_qp_attr given = *attr;

        if (rdma_ep_qp(&c->ep, &given) < 0)
                return host_fail(e, HOST_BROKEN, "%s: cannot make a queue pair on %s: %s", c->name,
                                 caps->name, strerror(errno));
        if (given.send_wrs < attr->send_wrs)
                return host_fail(e, HOST_BROKEN,
                                 "%s: %s supports %u work requests, but %u are needed", c->name,
                                 caps->name, caps->qp_wrs, attr->send_wrs + 1);
        return 0;
}

int host_rdma_connect(struct host_rdma *c, const struct verbs_conn_param *p, struct host_error *e)
{
        c->heard = false;
        return rdma_ep_connect(&c->ep, p) < 0 ? fail_step(c, e)
                                              : await_event(c, VERBS_ESTABLISHED, "answer", e);
}

int host_rdma_no_memory(const struct host_rdma *c, struct host_error *e)
{
        return host_fail(e, HOST_BROKEN, "%s: no memory that %s can use: %s", c->name,
                         c->ep.dev->caps->name, strerror(errno));
}

int host_rdma_no_post(const struct host_rdma *c, struct host_error *e)
{
        return host_fail(e, HOST_BROKEN, "%s: post: %s", c->name, strerror(errno));
}
