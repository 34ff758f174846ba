/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "host/engine/time.h"

enum { ASK_MS = 1 }; /* how often queues without descriptors are asked */

const char *host_transport_name(enum host_transport t)
{
        return t == HOST_RDMA ? "rdma" : "tcp";
}

/* --- open, break, close ----------------------------------------------------------------------- */

int host_queue_open(struct host_queue *q, const struct host_queue_config *cfg, struct host_error *e)
{
        *q = (struct host_queue) { .ops = cfg->transport == HOST_RDMA ? &host_queue_rdma
                                                                      : &host_queue_tcp,
                                   .qid = cfg->qid,
                                   .depth = (uint16_t)(cfg->entries - 1),
                                   .timeout = cfg->timeout };
        return q->ops->open(q, cfg, e);
}

int host_queue_break(struct host_queue *q, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        if (load_vbreak(&q->state, fmt, ap))
                q->ops->fail(q);
        va_end(ap);
        return -1;
}

void host_queue_close(struct host_queue *q)
{
        if (q->own)
                q->ops->close(q);
        *q = (struct host_queue) { 0 };
}

int host_queue_add_memory(struct host_queue *q, void *base, size_t len, struct host_error *e)
{
        if (q->state.broken) {
                *e = q->state.error;
                return -1;
        }
        return q->ops->add_memory(q, base, len) == 0
                   ? 0
                   : host_fail(e, HOST_BROKEN, "queue %u: cannot register %zu bytes of memory: %m",
                               q->qid, len);
}

void host_queue_drop_memory(struct host_queue *q, const void *base)
{
        q->ops->drop_memory(q, base);
}

/* --- serving ---------------------------------------------------------------------------------- */

int host_queue_poll(struct host_queue *q)
{
        long n;

        if (host_queue_send(q) < 0)
                return -1;
        n = host_queue_receive(q);
        if (n > 0 && host_queue_send(q) < 0)
                return -1;
        return n > 0 ? 1 : (int)n;
}

int host_queue_wait(struct host_queue *q, int ms)
{
        struct pollfd fds[HOST_QUEUE_FDS];
        struct host_sleep s = { .fds = fds };

        if (host_queue_send(q) < 0)
                return -1;
        host_sleep_on(&s, q);
        host_sleep(&s, ms);
        return host_queue_poll(q);
}

int host_queue_fds(struct host_queue *q, struct pollfd *fds)
{
        return q->state.broken ? -1 : q->ops->fds(q, fds);
}

void host_sleep_on(struct host_sleep *s, struct host_queue *q)
{
        int n = host_queue_fds(q, s->fds + s->count);

        s->awake |= n < 0;
        s->blind |= n == 0;
        s->count += n > 0 ? (unsigned)n : 0;
}

int host_sleep(const struct host_sleep *s, int ms)
{
        if (s->awake)
                return 1;
        if (s->blind && (ms < 0 || ms > ASK_MS))
                ms = ASK_MS;
        return loop_poll(s->fds, s->count, ms);
}

/* --- one command ------------------------------------------------------------------------------ */

static void run_done(struct host_cmd *cmd, void *user)
{
        struct host_run *run = user;

        (void)cmd;
        run->done = true;
}

void host_run_start(struct host_run *run, struct host_queue *q, const union sqe *sqe, void *data,
                    uint32_t len)
{
        *run = (struct host_run) { .queue = q, .deadline = deadline_in(q->timeout) };
        run->cmd = (struct host_cmd) { .sqe = *sqe,
                                       .data = data,
                                       .len = len,
                                       .xfer = len ? sqe_xfer(sqe) : XFER_NONE,
                                       .done = run_done,
                                       .user = run };
        if (host_queue_submit(q, &run->cmd) < 0)
                host_queue_break(q, "queue %u is full", q->qid);
}

int host_run_left(const struct host_run *run)
{
        return ms_until(run->deadline);
}

bool host_run_over(const struct host_run *run)
{
        return run->done || run->queue->state.broken || host_run_left(run) == 0;
}

int host_run_end(struct host_run *run, struct cqe *cqe, struct host_error *e)
{
        struct host_queue *q = run->queue;
        const char *name = sqe_name(&run->cmd.sqe, q->qid == 0);

        if (!run->done)
                host_queue_break(q, "queue %u: no response to %s within %u ms", q->qid, name,
                                 q->timeout);
        if (!run->done || run->cmd.status == HOST_STATUS_ABORTED) {
                *e = q->state.error;
                return -1;
        }
        if (cqe)
                *cqe = run->cmd.cqe;
        return run->cmd.status ? host_fail_status(e, run->cmd.status, &run->cmd.cqe, "%s", name)
                               : 0;
}

int host_queue_run(struct host_queue *q, const union sqe *sqe, void *data, uint32_t len,
                   struct cqe *cqe, struct host_error *e)
{
        struct host_run run;

        host_run_start(&run, q, sqe, data, len);
        while (!host_run_over(&run))
                host_queue_wait(q, host_run_left(&run));
        return host_run_end(&run, cqe, e);
}
