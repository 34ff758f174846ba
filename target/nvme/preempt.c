/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preempt and Abort (Base 2.2 8.1.22.7): the commands of hosts whose registrations are preempted end
 * before the Reservation Acquire does. Each of their queues is asked on its own reactor: what waits for
 * its data is aborted there, what executes is waited for.
 */
#include <stdlib.h>

#include "admin.h"
#include "conn.h"

#define container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct preempt { /* a Reservation Acquire that waits */
        struct target_conn *conn;
        struct request *request;
        _Atomic unsigned left; /* queues, and the one who asks them */
};

struct preempt_part { /* one queue of a host that was preempted */
        struct loop_message message;
        struct target_conn *conn;
        uint32_t nsid;
        struct preempt *of;
        struct preempt_part *next;
};

/* True: it was the last one. */
static bool end_one(struct preempt *p)
{
        return atomic_fetch_sub(&p->left, 1) == 1;
}

static void end_part(struct preempt_part *part)
{
        struct preempt *p = part->of;

        free(part);
        if (!end_one(p))
                return;
        conn_give_back(p->conn, p->request);
        free(p);
}

void conn_end_preempts(struct target_conn *c)
{
        struct preempt_part *part;

        while ((part = c->parts) != NULL) {
                c->parts = part->next;
                end_part(part);
        }
}

void conn_preempted(struct target_conn *c, struct request *r)
{
        r->preempted = false;
        if (--c->preempted == 0)
                conn_end_preempts(c);
}

/* A Reservation Acquire that executes has done what it does, and waits for commands of others: two would wait for each
 * other. */
static bool waits_itself(const struct request *r)
{
        return r->state == REQUEST_EXECUTING && r->sqe.opc == NVME_RESERVATION_ACQUIRE;
}

static bool is_meant(const struct target_conn *c, const struct request *r)
{
        return r->state != REQUEST_FREE && r->state <= REQUEST_EXECUTING && !r->preempted &&
               r->sqe.opc != NVME_FABRICS && le32_get(r->sqe.nsid) == c->parts->nsid &&
               !waits_itself(r);
}

/* Those that execute end by themselves, but for one whose other half its host still owes. */
static void abort_one(struct request *r)
{
        struct target_conn *c = r->owner;
        uint16_t status =
            flawed(c->nvm.policy, FLAW_PREEMPT_STATUS) ? NVME_ABORT_REQUESTED : NVME_PREEMPTED;

        if (!is_meant(c, r))
                return;
        r->preempted = true;
        c->preempted++;
        if (r->state == REQUEST_EXECUTING) {
                nvm_end_waiting(&c->nvm, r, status);
                return;
        }
        r->cqe.sf = status_field(status);
        r->c2h_len = 0;
        request_complete(r);
}

/* On the reactor of the preempted host's queue. */
static void on_asked(struct loop_message *m)
{
        struct preempt_part *part = container(m, struct preempt_part, message);
        struct target_conn *c = part->conn;

        part->next = c->parts;
        c->parts = part;
        c->preempted++; /* nothing is over while they are being looked for */
        if (c->queue.ctrl)
                requests_each(c->kind->requests(c), abort_one);
        if (--c->preempted == 0 || c->over) /* nothing ends on a connection that is over */
                conn_end_preempts(c);
        atomic_fetch_sub(&c->asked, 1);
        c->kind->base.go_on(&c->base);
}

void conn_ask_preempt(struct ctrl_queue *q, uint32_t nsid, void *by)
{
        struct target_conn *c = container(q, struct target_conn, queue);
        struct preempt_part *part = calloc(1, sizeof(*part));
        struct preempt *p = by;

        if (!part) /* best effort, as Abort is */
                return;
        *part = (struct preempt_part) {
                .message = { .run = on_asked }, .conn = c, .nsid = nsid, .of = p
        };
        atomic_fetch_add(&p->left, 1);
        atomic_fetch_add(&c->asked, 1);
        loop_post(&c->base.reactor->loop, &part->message);
}

bool conn_preempt(struct nvm_queue *q, struct ns *ns, const struct ns_resv_notices *n,
                  struct request *r)
{
        struct target_conn *c = container(q, struct target_conn, nvm);
        struct preempt *p = malloc(sizeof(*p));

        if (!p)
                return false;
        *p = (struct preempt) { .conn = c, .request = r, .left = 1 };
        ctrl_table_preempt(conn_service(c)->ctrl.table, ns, n, p);
        if (!end_one(p))
                return true;
        free(p);
        return false;
}
