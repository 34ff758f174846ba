/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace of commands (command_trace.h), as they go through the states of a connection's machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "conn.h"
#include "target/nvme/command_trace.h"

/* A command that has not ended; kept for the next one. */
struct times_slot {
        struct trace_times times;
        union sqe sqe;
        bool used;
        struct times_slot *older; /* of all */
        struct times_slot *next;  /* spare */
};

struct conn_tracer {
        struct journal *journal;
        uint16_t cntlid;
        char hostnqn[NQN_MAX + 1], subnqn[NQN_MAX + 1]; /* "": not known yet */
        struct times_slot *all, *spare;
};

/* The controller may be gone before the last of its commands. */
static void learn_names(struct target_conn *c)
{
        const struct ctrl *ctrl = c->queue.ctrl;
        struct conn_tracer *t = c->tracer;

        if (t->hostnqn[0] || !ctrl)
                return;
        t->cntlid = ctrl->m.cntlid;
        snprintf(t->hostnqn, sizeof(t->hostnqn), "%.*s", NQN_MAX, ctrl->m.hostnqn);
        snprintf(t->subnqn, sizeof(t->subnqn), "%.*s", NQN_MAX, ctrl->m.subnqn);
}

static struct times_slot *take_slot(struct conn_tracer *t)
{
        struct times_slot *s = t->spare;

        if (s) {
                t->spare = s->next;
        } else {
                s = malloc(sizeof(*s));
                if (!s)
                        return NULL;
                s->older = t->all;
                t->all = s;
        }
        s->used = true;
        return s;
}

/* r NULL: it has not ended. */
static void write_line(struct target_conn *c, const struct times_slot *s, const struct request *r)
{
        const struct conn_tracer *t = c->tracer;
        struct trace_record line = { .sqe = s->sqe,
                                     .times = s->times,
                                     .conn = c->base.number,
                                     .qid = c->queue.qid,
                                     .cntlid = t->cntlid,
                                     .rdma = c->queue.rdma };

        if (r) {
                line.ended = true;
                line.answered = !r->no_response;
                line.status = le16_get(r->cqe.sf) >> 1;
                line.bytes = trace_times_bytes(&s->times, r);
                line.xfer = r->xfer;
        }
        memcpy(line.hostnqn, t->hostnqn, sizeof(line.hostnqn));
        memcpy(line.subnqn, t->subnqn, sizeof(line.subnqn));
        command_trace_add(t->journal, &line);
}

static void forget(struct request *r)
{
        r->times = NULL;
}

void conn_times_end(struct target_conn *c)
{
        struct conn_tracer *t = c->tracer;
        struct times_slot *s;

        if (!t)
                return;
        while ((s = t->all)) {
                t->all = s->older;
                if (s->used)
                        write_line(c, s, NULL);
                free(s);
        }
        free(t);
        c->tracer = NULL;
}

static bool is_current(const struct target_conn *c)
{
        return (c->tracer ? c->tracer->journal : NULL) == conn_service(c)->journal;
}

void conn_times_renew(struct target_conn *c, struct requests *q)
{
        struct journal *j = conn_service(c)->journal;

        if (!is_current(c)) {
                conn_times_end(c);
                requests_each(q, forget);
                c->tracer = j ? calloc(1, sizeof(*c->tracer)) : NULL;
        }
        if (c->tracer)
                c->tracer->journal = j;
        requests_set_trace(q, c->tracer || conn_service(c)->trace ? conn_trace : NULL);
}

void conn_times_begin(struct target_conn *c, struct request *r)
{
        struct times_slot *s;

        if (!is_current(c)) /* the trace has begun just now */
                conn_times_renew(c, r->queue);
        s = c->tracer ? take_slot(c->tracer) : NULL;
        r->times = s;
        if (!s) {
                journal_lose(conn_service(c)->journal);
                return;
        }
        s->sqe = r->sqe;
        learn_names(c);
        trace_times_begin(&s->times, loop_wall_ns(), loop_now_ns());
}

void conn_times_enter(struct target_conn *c, const struct request *r)
{
        struct times_slot *s = r->times;

        if (!s ||
            r->state == REQUEST_NEW) /* what is in it is another command's, until it is admitted */
                return;
        trace_times_enter(&s->times, r->state, loop_now_ns());
        if (r->state != REQUEST_COMPLETED)
                return;
        learn_names(c);
        write_line(c, s, r);
        s->used = false;
        s->next = c->tracer->spare;
        c->tracer->spare = s;
}
