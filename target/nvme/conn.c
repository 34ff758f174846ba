/* SPDX-License-Identifier: BSD-3-Clause */
#include "conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "pdu/core/plant.h"
#include "pdu/io/log.h"

enum { PACE_MS = 500 };

#define container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static struct target_conn *of_queue(struct ctrl_queue *q)
{
        return container(q, struct target_conn, queue);
}

static struct target_conn *of_nvm(struct nvm_queue *q)
{
        return container(q, struct target_conn, nvm);
}

static const struct ctrl_env *env(const struct target_conn *c)
{
        return &conn_service(c)->ctrl;
}

static bool is_io(const struct target_conn *c, const struct request *r)
{
        return c->queue.qid > 0 && r->sqe.opc != NVME_FABRICS;
}

static void answer(struct target_conn *c, struct request *r);
static void unhold(struct target_conn *c, const struct request *r);

/* --- its pace --------------------------------------------------------------------------------- */

static bool waits_for_host(const struct request *r)
{
        switch (r->state) {
        case REQUEST_H2C_PENDING:
        case REQUEST_TRANSFERRING_H2C:
        case REQUEST_C2H_PENDING:
        case REQUEST_COMPLETION_PENDING:
        case REQUEST_READY_TO_COMPLETE:
        case REQUEST_TRANSFERRING_C2H:
        case REQUEST_COMPLETING:
                return true;
        case REQUEST_FREE:
        case REQUEST_NEW:
        case REQUEST_DEFERRED:
        case REQUEST_NEED_BUFFER:
        case REQUEST_READY_TO_EXECUTE:
        case REQUEST_EXECUTING:
        case REQUEST_EXECUTED:
        case REQUEST_COMPLETED:
                return false;
        }
        return false;
}

static void look_at_pace(struct request *r)
{
        struct target_conn *c = r->owner;

        if (!waits_for_host(r) || r->held)
                r->since = 0;
        else if (r->since == 0)
                r->since = c->paced;
        else if (r->since < c->oldest)
                c->oldest = r->since;
}

/* All that the connection has of the pool goes over one line: it has the time for that. */
bool conn_keeps_pace(struct target_conn *c, const struct requests *requests)
{
        const struct target_limits *l = &conn_service(c)->limits;
        uint64_t now = reactor_now(c->base.reactor), most;

        if (now - c->paced < PACE_MS)
                return true;
        c->paced = c->oldest = now;
        requests_each(requests, look_at_pace);
        most = l->stall_timeout + c->base.borrower.bytes * 1000 / l->least_rate;
        return now - c->oldest < most;
}

/* --- what its machine asks for ---------------------------------------------------------------- */

/* FAB_DISCONNECT_LAST is broken. */
static bool talks_on(const struct target_conn *c)
{
        return rule_in(&conn_service(c)->policy.violated, FAB_DISCONNECT_LAST);
}

uint16_t conn_log_status(struct target_conn *c, struct request *r, uint16_t status)
{
        if (!status)
                return status;
        r->cqe.sf = status_field(status);
        ctrl_log_error(&c->queue, r);
        return le16_get(r->cqe.sf) >> 1;
}

static uint16_t admit_it(struct target_conn *c, struct request *r)
{
        uint16_t status;

        r->success_ok = c->queue.success_ok && conn_service(c)->success;
        if (!is_io(c, r))
                return ctrl_admit(env(c), &c->queue, r, reactor_now(c->base.reactor));
        status = ctrl_io_admit(&c->queue);
        if (status)
                return status;
        c->nvm.ana = ctrl_ana(&c->queue);
        c->nvm.qid = c->queue.qid;
        c->nvm.copy_formats = ctrl_copy_formats(&c->queue);
        c->nvm.extended = ctrl_extended(&c->queue);
        status = r->deferred ? nvm_admit_later(&c->nvm, ctrl_subsystem(&c->queue), r)
                             : nvm_admit(&c->nvm, ctrl_subsystem(&c->queue), r);
        return conn_log_status(c, r, status);
}

static uint16_t admit(void *user, struct request *r)
{
        struct target_conn *c = user;
        uint16_t status;

        c->base.part.taken++;
        r->times = NULL;
        if (conn_service(c)->journal)
                conn_times_begin(c, r);
        r->since = 0;
        r->began =
            atomic_load_explicit(&conn_service(c)->timed, memory_order_relaxed) ? loop_now_ns() : 0;
        r->preempted = false;
        if (c->cut_off || (c->queue.disconnecting && !talks_on(c))) {
                r->no_response = true;
                return NVME_ABORT_SQ_DELETED;
        }
        r->deferred = conn_is_paused(c, r);
        status = admit_it(c, r);
        return conn_service(c)->faults ? conn_trigger_arrives(c, r, status) : status;
}

static void connected(struct target_conn *c, struct requests *requests)
{
        if (requests_set_depth(requests, c->queue.sq.size) != 0)
                c->failed = true;
        c->is_io = c->queue.qid > 0;
        memcpy(c->nvm.hostid, c->queue.ctrl->m.hostid, sizeof(c->nvm.hostid));
        c->nvm.hostnqn = c->base.host = c->queue.ctrl->m.hostnqn;
        c->nvm.cntlid = c->queue.ctrl->m.cntlid;
        if (flawed(c->nvm.policy, FLAW_RESERVATION_PATH))
                c->nvm.hostid[0] = (uint8_t)(c->nvm.hostid[0] ^ c->queue.ctrl->m.cntlid);
        metric_add(&conn_own(c)->metrics.opened[c->is_io ? METRIC_IO : METRIC_ADMIN], 1);
        ++*(c->is_io ? &conn_own(c)->io_queues : &conn_own(c)->admin_queues);
        if (c->is_io)
                atomic_fetch_add(&conn_service(c)->io_conns, 1);
}

/* An admin or Fabrics command. */
static void end_ctrl(struct target_conn *c, struct request *r, enum ctrl_verdict verdict)
{
        if (c->queue.reset)
                requests_reset(r->queue);
        c->queue.reset = false;
        switch (verdict) {
        case CTRL_PARKED:
                return;
        case CTRL_FLUSH:
                nvm_flush_all(&c->nvm, ctrl_subsystem(&c->queue), r);
                return;
        case CTRL_CONNECTED:
                connected(c, r->queue);
                break;
        case CTRL_DISCONNECT:
                c->last_words = !talks_on(c);
                c->last = r;
                request_complete(r);
                return;
        case CTRL_COMPLETE:
                break;
        }
        answer(c, r);
}

static void execute_ctrl(struct target_conn *c, struct request *r)
{
        end_ctrl(c, r,
                 ctrl_execute(env(c), &c->queue, c->base.port, r, reactor_look(c->base.reactor)));
}

/* Its data is there; the queue may have come to its end while it was on the way. */
static void execute_io(struct target_conn *c, struct request *r)
{
        uint16_t status = ctrl_io_status(&c->queue);

        if (status) {
                r->cqe.sf = status_field(status);
                request_complete(r);
                return;
        }
        c->nvm.write_through = ctrl_write_through(&c->queue);
        c->nvm.qid = c->queue.qid;
        nvm_execute(&c->nvm, ctrl_subsystem(&c->queue), r);
}

static void execute(void *user, struct request *r)
{
        struct target_conn *c = user;

        if (r->faults && conn_trigger_executes(c, r))
                request_complete(r);
        else if (is_io(c, r))
                execute_io(c, r);
        else
                execute_ctrl(c, r);
}

static void measure(struct target_conn *c, const struct request *r)
{
        uint64_t ns = r->began ? loop_now_ns() - r->began : 0;

        metrics_command(&conn_own(c)->metrics, c->queue.qid, r, ns);
        if (ns == 0 || (c->queue.qid == 0 && r->sqe.opc == NVME_AER))
                return;
        c->answered++;
        c->busy += ns;
}

/* The response to Disconnect, or to a command that authentication failed with, is the last one,
 * whatever was under way. */
static void completing(void *user, struct request *r)
{
        struct target_conn *c = user;

        if (r->preempted)
                conn_preempted(c, r);
        if (r->held)
                unhold(c, r);
        if (r->deferred)
                conn_undefer(c, r);
        if (c->cut_off || (c->queue.disconnecting && !talks_on(c) && r != c->last)) {
                r->no_response = true;
                return;
        }
        if (r->faults)
                conn_trigger_completes(c, r);
        if (!r->no_response)
                measure(c, r);
        if (is_io(c, r))
                nvm_completing(&c->nvm, r);
}

static uint16_t sqhd(void *user, const struct request *r)
{
        struct target_conn *c = user;

        return ctrl_sqhd(&c->queue, r);
}

const struct request_ops conn_request_ops = {
        .admit = admit,
        .defer = conn_defer,
        .execute = execute,
        .completing = completing,
        .sqhd = sqhd,
        .faults = &conn_request_faults,
};

void conn_trace(void *user, const struct request *r)
{
        struct target_conn *c = user;

        if (c->tracer)
                conn_times_enter(c, r);
        if (conn_service(c)->trace)
                log_line(LOG_AS_TRACE, NULL, NULL, "conn %u qid %u cid %u %s: %s", c->base.number,
                         c->queue.qid, le16_get(r->sqe.cid), sqe_name(&r->sqe, c->queue.qid == 0),
                         request_state_name(r->state));
}

void conn_trace_line(const struct target_conn *c, const char *what)
{
        log_line(LOG_AS_TRACE, NULL, NULL, "conn %u qid %u: %s", c->base.number, c->queue.qid,
                 what);
}

/* --- what I/O commands ask for ---------------------------------------------------------------- */

static void account(struct target_conn *c, struct request *r)
{
        uint16_t status = cqe_status(&r->cqe);

        if (status && status != NVME_COMPARE_FAILURE)
                ctrl_log_error(&c->queue, r);
        else if (r->sqe.opc == NVME_READ || r->sqe.opc == NVME_WRITE) {
                struct metrics *m = &conn_own(c)->metrics;

                metric_add(r->sqe.opc == NVME_WRITE ? &m->written : &m->read, r->len);
                ctrl_account(&c->queue, r->sqe.opc == NVME_WRITE, r->len);
        } else if (r->sqe.opc == NVME_VERIFY && c->queue.ctrl) {
                ctrl_account_verify(&c->queue, r);
        }
}

struct conn_held {
        struct request *request;
        bool fetch;   /* its data is asked for then; else it is answered */
        uint64_t due; /* ms */
        struct conn_held *next;
};

bool conn_hold(struct target_conn *c, struct request *r, uint64_t ms, bool fetch)
{
        struct conn_held *h = c->over ? NULL : malloc(sizeof(*h));

        if (!h)
                return false;
        *h = (struct conn_held) { .request = r,
                                  .fetch = fetch,
                                  .due = reactor_look(c->base.reactor) + ms + 1 };
        r->held = true;
        *c->held_last = h;
        c->held_last = &h->next;
        conn_wake_at(&c->base, h->due);
        return true;
}

static struct conn_held *take_held(struct target_conn *c, struct conn_held **at)
{
        struct conn_held *h = *at;

        *at = h->next;
        if (!*at)
                c->held_last = at;
        h->request->held = false;
        return h;
}

/* It has ended by itself: Abort, a reset. */
static void unhold(struct target_conn *c, const struct request *r)
{
        struct conn_held **at = &c->held;

        while (*at && (*at)->request != r)
                at = &(*at)->next;
        if (*at)
                free(take_held(c, at));
}

/* Answers it, perhaps later: unless it ends while it moves data, where its machine has to know at once. */
static void answer(struct target_conn *c, struct request *r)
{
        uint64_t ms = is_io(c, r) ? c->delay : 0;

        if (conn_service(c)->faults && !c->over)
                ms += conn_trigger_delays(c, r);
        if (ms == 0 || r->state != REQUEST_EXECUTING || !conn_hold(c, r, ms, false))
                request_complete(r);
}

static void release(struct conn_held *h)
{
        struct request *r = h->request;
        bool fetch = h->fetch;

        free(h);
        if (!fetch)
                request_complete(r);
        else if (r->state == REQUEST_H2C_PENDING) /* it has not ended as its machine did */
                request_fetch(r);
}

static struct conn_held *take_due(struct target_conn *c, uint64_t now)
{
        struct conn_held **at = &c->held;

        while (*at && (*at)->due > now)
                at = &(*at)->next;
        return *at ? take_held(c, at) : NULL;
}

void conn_wake(struct conn *base)
{
        struct target_conn *c = target_conn_of(base);
        struct conn_held *h;

        if (!c->held)
                return;
        while ((h = take_due(c, reactor_now(c->base.reactor))) != NULL)
                release(h);
        for (h = c->held; h; h = h->next)
                conn_wake_at(base, h->due);
        c->kind->base.go_on(base);
}

/* The connection is over: nothing is asked for any more, and what executes has to end. */
static void release_all(struct target_conn *c)
{
        struct conn_held *h;

        while ((h = take_due(c, UINT64_MAX)) != NULL)
                if (h->fetch)
                        free(h);
                else
                        release(h);
}

static void io_done(struct nvm_queue *q, struct request *r)
{
        struct target_conn *c = of_nvm(q);

        conn_own(c)->commands++;
        if (!is_io(c, r))
                ctrl_flushed(&c->queue, r);
        else if (c->queue.ctrl)
                account(c, r);
        answer(c, r);
}

static void io_post(struct nvm_queue *q, struct request *r)
{
        conn_give_back(of_nvm(q), r);
}

static uint16_t io_cntlid(void *q, const uint8_t hostid[16])
{
        return ctrl_cntlid_of(&of_nvm(q)->queue, hostid);
}

static void io_notify(struct nvm_queue *q, struct ns *ns, const struct ns_resv_notices *n)
{
        ctrl_table_notify(env(of_nvm(q))->table, ns, n);
}

/* What is asked of every request of the connection, on its reactor. */
static void compare_cid(struct request *r)
{
        struct target_conn *c = r->owner;

        if (r->state != REQUEST_FREE && r->state <= REQUEST_EXECUTING && r != c->sought.but &&
            le16_get(r->sqe.cid) == c->sought.cid)
                c->sought.found = r;
}

static const struct request *io_find(struct nvm_queue *q, uint16_t cid, const struct request *but)
{
        struct target_conn *c = of_nvm(q);

        c->sought.cid = cid;
        c->sought.but = but;
        c->sought.found = NULL;
        requests_each(c->kind->requests(c), compare_cid);
        return c->sought.found;
}

static void *io_keep(struct nvm_queue *q, const struct request *r)
{
        return conn_keep(&of_nvm(q)->base, r->data, r->len);
}

static void io_drop(struct nvm_queue *q, const struct request *r, void *copy)
{
        conn_drop(&of_nvm(q)->base, copy, r->len);
}

static const struct nvm_queue_ops nvm_ops = { .done = io_done,
                                              .post = io_post,
                                              .cntlid = io_cntlid,
                                              .notify = io_notify,
                                              .preempt = conn_preempt,
                                              .keep = io_keep,
                                              .drop = io_drop,
                                              .find = io_find };

/* Those that wait the longest come first. */
static void put_sliced(struct target_conn *c, struct request *r)
{
        r->next = NULL;
        *c->sliced_last = r;
        c->sliced_last = &r->next;
}

static struct request *take_sliced(struct target_conn *c)
{
        struct request *r = c->sliced;

        c->sliced = r->next;
        if (!c->sliced)
                c->sliced_last = &c->sliced;
        return r;
}

void conn_go_on(struct target_conn *c)
{
        while (c->sliced && conn_take_slice(&c->base))
                nvm_resume(&c->nvm, take_sliced(c));
}

/* The connection is over. */
static void drop_sliced(struct target_conn *c)
{
        while (c->sliced)
                nvm_drop_slices(take_sliced(c));
}

static void finish(struct target_conn *c, struct request *r)
{
        if (is_io(c, r) && nvm_has_slices(r)) {
                put_sliced(c, r);
                if (c->over)
                        drop_sliced(c);
        } else if (ctrl_waits(&c->queue, r))
                end_ctrl(c, r, ctrl_resume(env(c), &c->queue, r, reactor_now(c->base.reactor)));
        else if (r->user)
                nvm_resume(&c->nvm, r);
        else
                answer(c, r);
        conn_come_again(&c->base);
}

void conn_give_back(struct target_conn *c, struct request *r)
{
        struct nvme_reactor *own = conn_own(c);
        struct loop *loop = &c->base.reactor->loop;
        struct request *top = atomic_load(&own->finished);

        do
                r->next = top;
        while (!atomic_compare_exchange_weak(&own->finished, &top, r));
        loop_post(loop, &own->finished_mail); /* the connection may be gone by now */
}

static struct request *in_order(struct request *newest)
{
        struct request *list = NULL, *next;

        for (; newest; newest = next) {
                next = newest->next;
                newest->next = list;
                list = newest;
        }
        return list;
}

void conn_finish_all(struct loop_message *m)
{
        struct nvme_reactor *own = container(m, struct nvme_reactor, finished_mail);
        struct request *q = in_order(atomic_exchange(&own->finished, NULL)), *next;

        for (; q; q = next) {
                next = q->next;
                finish(q->owner, q);
        }
}

/* --- what its controller asks for, from any thread -------------------------------------------- */

static void ask_close(struct ctrl_queue *q)
{
        struct target_conn *c = of_queue(q);

        loop_post(&c->base.reactor->loop, &c->close);
}

static bool is_behind(struct ctrl_queue *q)
{
        return reactor_is_behind(of_queue(q)->base.reactor);
}

static void ask_complete(struct ctrl_queue *q, struct request *r)
{
        conn_give_back(of_queue(q), r);
}

static void on_close(struct loop_message *m)
{
        struct target_conn *c = container(m, struct target_conn, close);

        c->last_words = true;
        c->kind->base.go_on(&c->base);
}

/* --- from the beginning to the end ------------------------------------------------------------ */

void conn_begin(struct target_conn *c, const struct target_conn_kind *kind, struct reactor *r,
                struct port *port, const struct conn_peer *peer, struct pool *pool)
{
        conn_enter(&c->base, &kind->base, r, port, peer, pool);
        c->kind = kind;
        c->queue.close = ask_close;
        c->queue.behind = is_behind;
        c->queue.complete = ask_complete;
        c->queue.preempt = conn_ask_preempt;
        c->queue.traddr = c->base.traddr;
        c->queue.peer = c->base.peer.place;
        c->nvm.ops = &nvm_ops;
        c->nvm.policy = &conn_service(c)->policy;
        c->close.run = on_close;
        c->held_last = &c->held;
        c->deferred_last = &c->deferred;
        c->sliced_last = &c->sliced;
}

void conn_end(struct target_conn *c)
{
        struct request *r, *next;

        if (c->queue.connected)
                metric_add(&conn_own(c)->metrics.closed[c->is_io ? METRIC_IO : METRIC_ADMIN], 1);
        for (r = ctrl_queue_gone(&c->queue); r; r = next) {
                next = r->next;
                request_complete(r);
        }
        c->nvm.hostnqn = c->base.host = NULL; /* its controller may be gone */
        nvm_give_up(&c->nvm);
        conn_end_preempts(c);
        c->over = true;
        release_all(c);
        drop_sliced(c);
        conn_drop_deferred(c);
        conn_leave_hungry(&c->base);
        if (c->is_io)
                atomic_fetch_sub(&conn_service(c)->io_conns, 1);
}

void conn_retire(struct target_conn *c)
{
        if (PLANTED(EARLY_CLOSE) && c->queue.sq.size == 0)
                port_put(c->base.port);
        if (PLANTED(QUOTA_KEPT) && c->queue.sq.size == 0)
                (void)quota_take(&conn_service(c)->base.of_address, c->base.peer.place, UINT32_MAX);
        if (PLANTED(SHARE_KEPT) && c->queue.detached)
                c->base.borrower = (struct pool_borrower) { 0 };
        free(c->note);
        conn_times_end(c);
        conn_leave(&c->base);
}

bool conn_is_busy(const struct target_conn *c, unsigned executing)
{
        if (c->is_io)
                return executing > 0;
        return atomic_load(&conn_service(c)->io_conns) > 0;
}

void conn_fault(struct target_conn *c, enum rule_id rule)
{
        metric_add(&conn_own(c)->metrics.faults[rule], 1);
}

void conn_report(const struct target_conn *c, const char *kind, const char *what,
                 const char *detail)
{
        if (!conn_service(c)->quiet)
                log_line(LOG_AS_WARNING, kind, c->base.peer.addr, "conn %u (%s:%u, qid %u): %s%s%s",
                         c->base.number, c->base.peer.addr, c->base.peer.port, c->queue.qid, what,
                         detail ? ": " : "", detail ? detail : "");
}
