/* SPDX-License-Identifier: BSD-3-Clause */
#include "conn.h"

#include <stdio.h>

#include "pdu/core/plant.h"

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
        return &c->reactor->service->ctrl;
}

static bool is_io(const struct target_conn *c, const struct request *r)
{
        return c->queue.qid > 0 && r->sqe.opc != NVME_FABRICS;
}

/* --- lists of the reactor --------------------------------------------------------------------- */

void conn_come_again(struct target_conn *c)
{
        if (c->again)
                return;
        c->again = true;
        c->next_again = c->reactor->again;
        c->reactor->again = c;
}

void conn_go_hungry(struct target_conn *c)
{
        if (c->hungry)
                return;
        c->hungry = true;
        c->next_hungry = NULL;
        *c->reactor->hungry_last = c;
        c->reactor->hungry_last = &c->next_hungry;
}

static void leave_again(struct target_conn *c)
{
        struct target_conn **at = &c->reactor->again;

        while (c->again && *at && *at != c)
                at = &(*at)->next_again;
        if (c->again && *at)
                *at = c->next_again;
        c->again = false;
}

static void leave_hungry(struct target_conn *c)
{
        struct target_conn **at = &c->reactor->hungry;

        while (c->hungry && *at && *at != c)
                at = &(*at)->next_hungry;
        if (c->hungry && *at) {
                *at = c->next_hungry;
                if (!*at)
                        c->reactor->hungry_last = at;
        }
        c->hungry = false;
}

/* --- data buffers ----------------------------------------------------------------------------- */

uint8_t *conn_buffer_get(struct target_conn *c, struct pool *pool, uint32_t len)
{
        uint8_t *buf = pool_get(pool, len, c->buffers);

        if (buf)
                c->buffers++;
        else
                conn_go_hungry(c);
        return buf;
}

void conn_buffer_put(struct target_conn *c, struct pool *pool, uint8_t *buf, uint32_t len)
{
        c->buffers--;
        pool_put(pool, buf, len);
        c->reactor->fed = true;
}

/* --- what its machine asks for ---------------------------------------------------------------- */

/* FAB_DISCONNECT_LAST is broken. */
static bool talks_on(const struct target_conn *c)
{
        return rule_in(&c->reactor->service->policy.violated, FAB_DISCONNECT_LAST);
}

static uint16_t admit(void *user, struct request *r)
{
        struct target_conn *c = user;
        uint16_t status;

        if (c->queue.disconnecting && !talks_on(c)) {
                r->no_response = true;
                return NVME_ABORT_SQ_DELETED;
        }
        r->success_ok = c->queue.success_ok && c->reactor->service->success;
        if (!is_io(c, r))
                return ctrl_admit(env(c), &c->queue, r, reactor_now(c->reactor));
        status = ctrl_io_admit(&c->queue);
        return status ? status : nvm_admit(&c->nvm, ctrl_subsystem(&c->queue), r);
}

static void connected(struct target_conn *c, struct requests *requests)
{
        if (requests_set_depth(requests, c->queue.sq.size) != 0)
                c->failed = true;
        c->is_io = c->queue.qid > 0;
        if (c->is_io)
                atomic_fetch_add(&c->reactor->service->io_conns, 1);
}

/* An admin or Fabrics command. */
static void execute_ctrl(struct target_conn *c, struct request *r)
{
        enum ctrl_verdict verdict =
            ctrl_execute(env(c), &c->queue, c->port, r, reactor_now(c->reactor));

        if (c->queue.reset)
                requests_reset(r->queue);
        c->queue.reset = false;
        switch (verdict) {
        case CTRL_PARKED:
                return;
        case CTRL_CONNECTED:
                connected(c, r->queue);
                break;
        case CTRL_DISCONNECT:
                c->last_words = !talks_on(c);
                c->last = r;
                break;
        case CTRL_COMPLETE:
                break;
        }
        request_complete(r);
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
        nvm_execute(&c->nvm, ctrl_subsystem(&c->queue), r);
}

static void execute(void *user, struct request *r)
{
        struct target_conn *c = user;

        if (is_io(c, r))
                execute_io(c, r);
        else
                execute_ctrl(c, r);
}

/* The response to Disconnect, or to a command that authentication failed with, is the last one,
 * whatever was under way. */
static void completing(void *user, struct request *r)
{
        struct target_conn *c = user;

        if (c->queue.disconnecting && !talks_on(c) && r != c->last) {
                r->no_response = true;
                return;
        }
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
        .execute = execute,
        .completing = completing,
        .sqhd = sqhd,
};

static void stamp(char *text, size_t size)
{
        uint64_t ns = loop_now_ns();

        snprintf(text, size, "%llu.%09llu", (unsigned long long)(ns / 1000000000),
                 (unsigned long long)(ns % 1000000000));
}

void conn_trace(void *user, const struct request *r)
{
        const struct target_conn *c = user;
        char when[32];

        stamp(when, sizeof(when));
        fprintf(stderr, "%s conn %u qid %u cid %u %s: %s\n", when, c->number, c->queue.qid,
                le16_get(r->sqe.cid), sqe_name(&r->sqe, c->queue.qid == 0),
                request_state_name(r->state));
}

void conn_trace_line(const struct target_conn *c, const char *what)
{
        char when[32];

        stamp(when, sizeof(when));
        fprintf(stderr, "%s conn %u qid %u: %s\n", when, c->number, c->queue.qid, what);
}

/* --- what I/O commands ask for ---------------------------------------------------------------- */

static void account(struct target_conn *c, struct request *r)
{
        uint16_t status = cqe_status(&r->cqe);

        if (status && status != NVME_COMPARE_FAILURE)
                ctrl_log_error(&c->queue, r);
        else if (r->sqe.opc == NVME_READ || r->sqe.opc == NVME_WRITE)
                ctrl_account(&c->queue, r->sqe.opc == NVME_WRITE, r->len);
}

static void io_done(struct nvm_queue *q, struct request *r)
{
        struct target_conn *c = of_nvm(q);

        if (c->queue.ctrl)
                account(c, r);
        request_complete(r);
}

static void io_post(struct nvm_queue *q, struct request *r)
{
        reactor_give_back(of_nvm(q)->reactor, r);
}

static const struct nvm_queue_ops nvm_ops = { io_done, io_post };

void conn_finish(struct target_conn *c, struct request *r)
{
        if (is_io(c, r) && r->user)
                nvm_resume(&c->nvm, r);
        else
                request_complete(r);
        conn_come_again(c);
}

/* --- what its controller asks for, from any thread -------------------------------------------- */

static void ask_close(struct ctrl_queue *q)
{
        struct target_conn *c = of_queue(q);

        loop_post(&c->reactor->loop, &c->close);
}

static void ask_complete(struct ctrl_queue *q, struct request *r)
{
        reactor_give_back(of_queue(q)->reactor, r);
}

static void on_close(struct loop_message *m)
{
        struct target_conn *c = container(m, struct target_conn, close);

        c->last_words = true;
        c->kind->go_on(c);
}

/* --- from the beginning to the end ------------------------------------------------------------ */

void conn_begin(struct target_conn *c, const struct conn_kind *kind, struct reactor *r,
                struct port *port)
{
        c->kind = kind;
        c->reactor = r;
        c->port = port;
        c->queue.close = ask_close;
        c->queue.complete = ask_complete;
        c->queue.traddr = c->traddr;
        c->nvm.ops = &nvm_ops;
        c->nvm.policy = &r->service->policy;
        c->close.run = on_close;
        c->number = atomic_fetch_add(&r->service->accepted, 1) + 1;
        c->next = r->conns;
        c->prev = &r->conns;
        if (c->next)
                c->next->prev = &c->next;
        r->conns = c;
}

void conn_end(struct target_conn *c)
{
        struct request *r, *next;

        for (r = ctrl_queue_gone(&c->queue); r; r = next) {
                next = r->next;
                request_complete(r);
        }
        nvm_give_up(&c->nvm);
        leave_hungry(c);
        if (c->is_io)
                atomic_fetch_sub(&c->reactor->service->io_conns, 1);
}

void conn_leave(struct target_conn *c)
{
        leave_again(c);
        leave_hungry(c);
        *c->prev = c->next;
        if (c->next)
                c->next->prev = c->prev;
        if (PLANTED(EARLY_CLOSE) && c->queue.sq.size == 0)
                port_put(c->port);
        conn_forget(c->reactor->service, c->port);
}

void conn_forget(struct service *s, struct port *port)
{
        port_put(port);
        atomic_fetch_sub(&s->conns, 1);
}

bool conn_is_older(const struct target_conn *c, uint64_t since, unsigned ms)
{
        return reactor_now(c->reactor) - since >= ms;
}

bool conn_is_busy(const struct target_conn *c, unsigned executing)
{
        if (c->is_io)
                return executing > 0;
        return atomic_load(&c->reactor->service->io_conns) > 0;
}

void conn_report(const struct target_conn *c, const char *peer, const char *what,
                 const char *detail)
{
        if (c->reactor->service->quiet)
                return;
        fprintf(stderr, "conn %u (%s, qid %u): %s%s%s\n", c->number, peer, c->queue.qid, what,
                detail ? ": " : "", detail ? detail : "");
}
