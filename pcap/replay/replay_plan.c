/* SPDX-License-Identifier: BSD-3-Clause */
#include "replay_plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void *add(struct replay_plan *p, size_t n)
{
        void *room = spill_add(&p->spill, n);

        p->no_memory |= !room;
        return room;
}

static void add_step(struct replay_plan *p, enum plan_kind kind, struct plan_queue *q,
                     struct plan_cmd *cmd, const struct capture_place *at)
{
        struct plan_step *s = add(p, sizeof(*s));

        if (!s)
                return;
        *s = (struct plan_step) { .kind = kind, .cmd = cmd, .queue = q, .time_ns = at->time_ns };
        *(p->last_step ? &p->last_step->next : &p->steps) = s;
        p->last_step = s;
}

static struct plan_queue *queue_of(struct replay_plan *p, struct session *s)
{
        struct plan_queue *q = s->user;

        if (q)
                return q;
        s->user = q = add(p, sizeof(*q));
        if (!q)
                return NULL;
        *q = (struct plan_queue) { .number = s->conn->number, .qid = -1, .next = p->queues };
        p->rdma |= s->conn->transport != TRACE_TCP;
        p->queues = q;
        return q;
}

static void submit(struct replay_plan *p, struct plan_queue *q, const struct record *r)
{
        struct plan_cmd *c = add(p, sizeof(*c));

        if (!c)
                return;
        c->queue = q;
        c->admin = session_admin(r->session, r->sqe);
        c->sqe = *r->sqe;
        c->at = r->e->at;
        *(p->last_cmd ? &p->last_cmd->next : &p->cmds) = c;
        p->last_cmd = c;
        c->next_open = q->open;
        q->open = c;
        r->cmd->user = c;
        if (sqe_is_connect(r->sqe)) {
                q->connects = true;
                q->qid = le16_get(r->sqe->connect.qid);
        }
        add_step(p, PLAN_SUBMIT, q, c, &c->at);
}

/* By the description of the transport that the capture used. */
static uint32_t described(const struct record *r)
{
        const struct session_cmd *cmd = r->cmd;

        if (sqe_xfer(&cmd->sqe) == XFER_NONE)
                return 0;
        return r->session->conn->transport == TRACE_TCP ? sgl_len(&cmd->sqe.sgl) : cmd->rdma.len;
}

/* What is known of a command, taken when it begins (data in the capsule) and when it is over: then its
 * record goes. */
static void take_data(struct replay_plan *p, struct plan_cmd *c, const struct record *r)
{
        const struct session_cmd *cmd = r->cmd;

        c->len = described(r);
        c->data_cut = cmd->data_cut;
        if (cmd->data_len == 0 || cmd->data_cut)
                return;
        if (cmd->data_len > c->data_len)
                c->data = add(p, cmd->data_len);
        c->data_len = c->data ? cmd->data_len : 0;
        if (c->data)
                memcpy(c->data, cmd->data, cmd->data_len);
}

static void answer(struct replay_plan *p, struct plan_queue *q, struct plan_cmd *c,
                   const struct record *r)
{
        struct plan_cmd **at = &q->open;

        while (*at && *at != c)
                at = &(*at)->next_open;
        if (*at)
                *at = c->next_open;
        c->answered = true;
        c->answer = r->e->at;
        c->nth = ++q->answered;
        if (r->cqe)
                c->cqe = *r->cqe;
        add_step(p, PLAN_ANSWER, q, c, &c->answer);
}

static void on_record(void *user, const struct record *r)
{
        struct replay_plan *p = user;
        struct plan_queue *q;

        if (p->stop_at && r->e->at.frame > p->stop_at)
                return;
        q = queue_of(p, r->session);
        if (!q)
                return;
        q->gapped |= r->session->gapped;
        if (r->session->assoc)
                q->assoc = r->session->assoc->number;
        if (q->qid < 0)
                q->qid = r->session->qid;
        if (r->sqe && r->cmd)
                submit(p, q, r);
        if (r->cmd && r->cmd->user && (r->sqe || r->ends))
                take_data(p, r->cmd->user, r);
        if (r->cmd && r->cmd->user && r->ends)
                answer(p, q, r->cmd->user, r);
        if (r->e->kind == TRACE_GAP)
                add_step(p, PLAN_GAP, q, NULL, &r->e->at);
        if (r->e->kind == TRACE_CLOSED) {
                add_step(p, PLAN_CLOSE, q, NULL, &r->e->at);
                q->open = NULL;
        }
}

static void on_other(void *user, const struct trace_conn *c)
{
        struct replay_plan *p = user;

        if (!p->other)
                p->other = c->family;
        p->others++;
}

int replay_plan_read(struct replay_plan *p, const char *path, const struct trace_options *trace,
                     uint64_t stop_at, char *err, size_t err_size)
{
        struct session_options options = { .keep_data = true, .other = on_other };
        struct trace_options all = *trace;
        int rc;

        *p = (struct replay_plan) { .stop_at = stop_at };
        all.data = true;
        rc = session_read(path, &all, &options, on_record, p, &p->totals, err, err_size);
        if (rc == 0 && p->no_memory) {
                snprintf(err, err_size, "%s: not enough space for its data in TMPDIR: %s", path,
                         strerror(p->spill.error ? p->spill.error : ENOMEM));
                rc = -1;
        }
        spill_rest(&p->spill);
        return rc;
}

void replay_plan_free(struct replay_plan *p)
{
        spill_free(&p->spill);
        *p = (struct replay_plan) { 0 };
}
