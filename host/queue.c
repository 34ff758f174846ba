/* SPDX-License-Identifier: BSD-3-Clause */
#include "host/queue.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pdu/io/net.h"

enum { IOVECS = 512, LINGER_MS = 500 };

uint64_t host_now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ms until `deadline` (ns), not below 0. */
static int left(uint64_t deadline)
{
        uint64_t now = host_now();

        return now >= deadline ? 0 : (int)((deadline - now + 999999) / 1000000);
}

static uint64_t deadline_in(unsigned ms)
{
        return host_now() + (uint64_t)ms * 1000000;
}

/* --- moving bytes ----------------------------------------------------------------------------- */

/* As far as the socket takes it; also on a link that ends, for its TermReq. -1 with errno. */
static int push(struct host_queue *q)
{
        struct iovec iov[IOVECS];
        struct msghdr msg = { .msg_iov = iov };
        int count;

        while ((count = link_send_iov(q->link, iov, IOVECS)) > 0) {
                ssize_t n;

                msg.msg_iovlen = (size_t)count;
                n = sendmsg(q->fd, &msg, MSG_NOSIGNAL);
                if (n < 0)
                        return errno == EAGAIN || errno == EINTR ? 0 : -1;
                link_sent(q->link, (size_t)n);
        }
        return 0;
}

/* --- breaking --------------------------------------------------------------------------------- */

int host_queue_break(struct host_queue *q, const char *fmt, ...)
{
        va_list ap;

        if (q->broken)
                return -1;
        q->broken = true;
        q->error = (struct host_error) { .kind = HOST_BROKEN };
        va_start(ap, fmt);
        vsnprintf(q->error.line, sizeof(q->error.line), fmt, ap);
        va_end(ap);
        tcp_host_fail_all(q->tcp, HOST_STATUS_ABORTED);
        return -1;
}

/* Whether the link has ended by a TermReq of either side; breaks the queue if so. */
static int judge_link(struct host_queue *q)
{
        const struct link *l = q->link;

        if (l->state <= LINK_LIVE)
                return 0;
        if (l->peer_term.seen)
                return host_queue_break(
                    q, "queue %u: controller sent C2HTermReq: %s (FES %02xh, FEI %u)", q->qid,
                    pdu_fes_name(l->peer_term.fes, PARTY_CONTROLLER), l->peer_term.fes,
                    l->peer_term.fei);
        if (tcp_host_digests_refused(q->tcp))
                return host_queue_break(
                    q, "queue %u: controller refused a digest that was asked for", q->qid);
        if (is_fault(l->fault)) {
                push(q); /* our TermReq, before the link forgets it */
                return host_queue_break(q, "queue %u: controller broke %s (%s)", q->qid,
                                        rule_get(l->fault.rule)->id, rule_get(l->fault.rule)->says);
        }
        return host_queue_break(q, "queue %u: connection ended", q->qid);
}

/* --- sending and receiving -------------------------------------------------------------------- */

int host_queue_send(struct host_queue *q)
{
        if (q->broken)
                return -1;
        if (link_wants_send(q->link) && push(q) < 0)
                return host_queue_break(q, "queue %u: send: %s", q->qid, strerror(errno));
        return 0;
}

/* One call; recv() is the cheaper one where a single place is asked for. */
static ssize_t pull(struct host_queue *q)
{
        struct iovec iov[2];
        int count = link_recv_iov(q->link, iov);

        return count == 1 ? recv(q->fd, iov[0].iov_base, iov[0].iov_len, 0)
                          : readv(q->fd, iov, count);
}

long host_queue_receive(struct host_queue *q)
{
        ssize_t n;

        if (q->broken)
                return -1;
        n = pull(q);
        if (n > 0) {
                q->received_at = host_now();
                tcp_host_received(q->tcp, (size_t)n);
                return judge_link(q) < 0 ? -1 : n;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        return n == 0 ? host_queue_break(q, "queue %u: controller closed the connection", q->qid)
                      : host_queue_break(q, "queue %u: receive: %s", q->qid, strerror(errno));
}

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

short host_queue_events(const struct host_queue *q)
{
        return link_wants_send(q->link) ? POLLIN | POLLOUT : POLLIN;
}

int host_queue_wait(struct host_queue *q, int ms)
{
        if (host_queue_send(q) < 0)
                return -1;
        net_wait(q->fd, host_queue_events(q), ms);
        return host_queue_poll(q);
}

/* --- open, run, close ------------------------------------------------------------------------- */

static void release(struct host_queue *q)
{
        if (q->tcp)
                tcp_host_free(q->tcp);
        free(q->buf);
        close(q->fd);
        *q = (struct host_queue) { .fd = -1 };
}

static int make_machine(struct host_queue *q, const struct host_queue_config *cfg,
                        struct host_error *e)
{
        struct tcp_host_config tcp = cfg->tcp;

        if (tcp.limits.depth_max == 0)
                tcp.limits.depth_max = (uint16_t)(tcp.depth + 1);
        if (tcp.limits.r2ts_max == 0)
                tcp.limits.r2ts_max = tcp.depth * (uint64_t)tcp.maxr2t > UINT16_MAX
                                          ? UINT16_MAX
                                          : (uint16_t)(tcp.depth * tcp.maxr2t);
        q->tcp = tcp_host_new(&tcp, q);
        q->buf = malloc(HOST_QUEUE_BUFFER);
        if (!q->tcp || !q->buf)
                return host_fail(e, HOST_BROKEN, "no memory for a queue of %u commands", tcp.depth);
        q->link = tcp_host_link(q->tcp);
        framer_attach(&q->link->rx, q->buf, HOST_QUEUE_BUFFER);
        return 0;
}

static int exchange_ic(struct host_queue *q, uint64_t deadline, struct host_error *e)
{
        tcp_host_start(q->tcp);
        while (!tcp_host_ready(q->tcp) && left(deadline) > 0 &&
               host_queue_wait(q, left(deadline)) >= 0)
                ;
        if (q->broken)
                *e = q->error;
        else if (!tcp_host_ready(q->tcp))
                host_error_set(e, HOST_BROKEN, "queue %u: no ICResp within %u ms", q->qid,
                               q->timeout);
        return tcp_host_ready(q->tcp) && !q->broken ? 0 : -1;
}

int host_queue_open(struct host_queue *q, const struct host_queue_config *cfg, struct host_error *e)
{
        uint64_t deadline = deadline_in(cfg->timeout);
        char error[NET_ERROR];

        *q = (struct host_queue) { .qid = cfg->qid,
                                   .depth = cfg->tcp.depth,
                                   .timeout = cfg->timeout };
        q->fd = net_connect(cfg->traddr, cfg->trsvcid, cfg->timeout, error, sizeof(error));
        if (q->fd < 0)
                return host_fail(e, HOST_BROKEN, "%s", error);
        if (make_machine(q, cfg, e) == 0 && exchange_ic(q, deadline, e) == 0)
                return 0;
        if (q->link)
                host_queue_close(q);
        else
                release(q);
        return -1;
}

/*
 * After a TermReq of ours the controller closes (T1.0 3.5): closing first, with its bytes unread,
 * would reset the connection and could take the TermReq along.
 */
static void linger(struct host_queue *q)
{
        uint64_t deadline = deadline_in(LINGER_MS);
        ssize_t n;

        if (shutdown(q->fd, SHUT_WR) < 0)
                return;
        while (left(deadline) > 0 && net_wait(q->fd, POLLIN, left(deadline)) > 0) {
                n = recv(q->fd, q->buf, HOST_QUEUE_BUFFER, 0);
                if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                        return;
        }
}

void host_queue_close(struct host_queue *q)
{
        if (!q->broken) {
                push(q);
                host_queue_break(q, "queue %u: closed", q->qid);
        } else if (is_fault(q->link->fault)) {
                linger(q);
        }
        release(q);
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
                host_queue_break(q, "queue %u: no room for a command", q->qid);
}

int host_run_left(const struct host_run *run)
{
        return left(run->deadline);
}

bool host_run_over(const struct host_run *run)
{
        return run->done || run->queue->broken || host_run_left(run) == 0;
}

int host_run_end(struct host_run *run, struct cqe *cqe, struct host_error *e)
{
        struct host_queue *q = run->queue;
        const char *name = sqe_name(&run->cmd.sqe, q->qid == 0);

        if (!run->done)
                host_queue_break(q, "queue %u: no response to %s within %u ms", q->qid, name,
                                 q->timeout);
        if (!run->done || run->cmd.status == HOST_STATUS_ABORTED) {
                *e = q->error;
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
