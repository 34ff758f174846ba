/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue over a byte stream. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/time.h"
#include "pdu/nvme/io/link_stream.h"
#include "pdu/nvme/io/nvme_tls.h"
#include "queue.h"
#include "tls_loose.h"

enum {
        LINGER_MS = 500,
        BUFFER = 256 * 1024, /* bytes, for receiving */
};

struct queue_tcp {
        struct stream stream;
        struct tcp_host *host;
        struct link *link;
        uint8_t *buf;
};

/* Whether the link has ended by a TermReq of either side; breaks the queue if so. */
static int judge_link(struct host_queue *q)
{
        struct queue_tcp *t = q->own;
        const struct link *l = t->link;

        if (l->state <= LINK_LIVE)
                return 0;
        if (l->peer_term.seen)
                return host_queue_break(
                    q, "queue %u: controller sent C2HTermReq: %s (FES %02xh, FEI %u)", q->qid,
                    pdu_fes_name(l->peer_term.fes, PARTY_CONTROLLER), l->peer_term.fes,
                    l->peer_term.fei);
        if (tcp_host_digests_refused(t->host))
                return host_queue_break(
                    q, "queue %u: controller refused a digest that was asked for", q->qid);
        if (is_fault(l->fault)) {
                link_flush(t->link, &t->stream); /* our TermReq, before the link forgets it */
                return host_queue_break(q, "queue %u: controller broke %s (%s)", q->qid,
                                        rule_get(l->fault.rule)->id, rule_get(l->fault.rule)->says);
        }
        return host_queue_break(q, "queue %u: the connection ended", q->qid);
}

/* --- sending and receiving -------------------------------------------------------------------- */

/* Bytes; 0: none; -1: the stream has ended, or the link (and the queue is broken). */
static long read_stream(struct host_queue *q)
{
        struct queue_tcp *t = q->own;
        ssize_t n = link_fill(t->link, &t->stream);

        if (n <= 0)
                return n;
        q->state.received_at = loop_now_ns();
        tcp_host_received(t->host, (size_t)n);
        return judge_link(q) < 0 ? -1 : n;
}

static long tcp_receive(struct host_queue *q)
{
        const struct queue_tcp *t = q->own;
        long n = read_stream(q);

        if (n >= 0 || q->state.broken)
                return n;
        return t->stream.end == STREAM_FIN
                   ? host_queue_break(q, "queue %u: controller closed the connection", q->qid)
                   : host_queue_break(q, "queue %u: receive: %s", q->qid, stream_why(&t->stream));
}

/* Who resets the connection may have said why: what has come is read before it is given up. */
static int tcp_send(struct host_queue *q)
{
        struct queue_tcp *t = q->own;
        char why[sizeof(q->state.error.line)];

        if (!link_wants_send(t->link) || link_flush(t->link, &t->stream) >= 0)
                return 0;
        snprintf(why, sizeof(why), "%s", stream_why(&t->stream));
        while (read_stream(q) > 0)
                ;
        return host_queue_break(q, "queue %u: send: %s", q->qid, why);
}

static int tcp_submit(struct host_queue *q, struct host_cmd *cmd)
{
        return tcp_host_submit(((struct queue_tcp *)q->own)->host, cmd);
}

static int tcp_fds(struct host_queue *q, struct pollfd *fds)
{
        const struct queue_tcp *t = q->own;

        return stream_pollfd(&t->stream, link_events(t->link), fds) ? 1 : -1;
}

static void tcp_fail(struct host_queue *q)
{
        tcp_host_fail_all(((struct queue_tcp *)q->own)->host, HOST_STATUS_ABORTED);
}

static int no_memory(struct host_queue *q, void *base, size_t len)
{
        (void)q;
        (void)base;
        (void)len;
        return 0;
}

static void no_drop(struct host_queue *q, const void *base)
{
        (void)q;
        (void)base;
}

/* --- open and close --------------------------------------------------------------------------- */

static void release(struct host_queue *q)
{
        struct queue_tcp *t = q->own;

        tcp_host_free(t->host);
        free(t->buf);
        stream_close(&t->stream, false);
        free(t);
        q->own = NULL;
}

static int make_machine(struct host_queue *q, const struct host_queue_config *cfg,
                        struct host_error *e)
{
        struct queue_tcp *t = q->own;
        struct tcp_host_config tcp = cfg->tcp;
        uint64_t r2ts = q->depth * (uint64_t)tcp.maxr2t;

        tcp.depth = q->depth;
        tcp.in_capsule = cfg->in_capsule;
        tcp.policy = cfg->policy;
        tcp.limits.depth_max = cfg->entries;
        tcp.limits.r2ts_max = r2ts > UINT16_MAX ? UINT16_MAX : (uint16_t)r2ts;
        t->host = tcp_host_new(&tcp, q);
        t->buf = malloc(BUFFER);
        if (!t->host || !t->buf)
                return host_fail(e, HOST_BROKEN, "no memory for a queue of %u commands", q->depth);
        t->link = tcp_host_link(t->host);
        framer_attach(&t->link->rx, t->buf, BUFFER);
        return 0;
}

static int exchange_ic(struct host_queue *q, uint64_t deadline, struct host_error *e)
{
        struct queue_tcp *t = q->own;

        tcp_host_start(t->host);
        while (!tcp_host_ready(t->host) && ms_until(deadline) > 0 &&
               host_queue_wait(q, ms_until(deadline)) >= 0)
                ;
        if (q->state.broken)
                *e = q->state.error;
        else if (!tcp_host_ready(t->host))
                host_error_set(e, HOST_BROKEN, "queue %u: no ICResp within %u ms", q->qid,
                               q->timeout);
        return tcp_host_ready(t->host) && !q->state.broken ? 0 : -1;
}

static void tcp_close(struct host_queue *q)
{
        struct queue_tcp *t = q->own;

        if (!q->state.broken) {
                link_flush(t->link, &t->stream);
                host_queue_break(q, "queue %u: closed", q->qid);
        } else if (is_fault(t->link->fault)) {
                stream_linger(&t->stream, LINGER_MS); /* the controller closes (T1.0 3.5) */
        }
        release(q);
}

/* 0; -1 with errno. */
static int open_stream(struct queue_tcp *t, const struct host_queue_config *cfg, char *error,
                       size_t size)
{
        if (stream_connect(&t->stream, cfg->traddr, cfg->trsvcid, cfg->timeout, error, size) < 0)
                return -1;
        if (!cfg->tls || !nvme_tls_is_asked(cfg->tls))
                return 0;
        if (host_tls_is_loose(cfg->tls, cfg->policy))
                return host_tls_connect(&t->stream, cfg->tls, cfg->policy, cfg->hostnqn,
                                        cfg->subnqn, error, size);
        return nvme_tls_connect(&t->stream, cfg->tls, cfg->hostnqn, cfg->subnqn, error, size);
}

static int tcp_open(struct host_queue *q, const struct host_queue_config *cfg, struct host_error *e)
{
        uint64_t deadline = deadline_in(cfg->timeout);
        struct queue_tcp *t = q->own = calloc(1, sizeof(*t));
        char error[NET_ERROR];

        if (!t)
                return host_fail(e, HOST_BROKEN, "no memory for a queue");
        if (open_stream(t, cfg, error, sizeof(error)) < 0) {
                int problem = errno;

                host_error_set(e, HOST_BROKEN, "%s", error);
                e->no = problem;
                release(q);
                return -1;
        }
        stream_record(&t->stream, cfg->record, PARTY_HOST);
        if (make_machine(q, cfg, e) == 0 && exchange_ic(q, deadline, e) == 0)
                return 0;
        if (t->link)
                tcp_close(q);
        else
                release(q);
        return -1;
}

const struct host_queue_ops host_queue_tcp = {
        .open = tcp_open,
        .close = tcp_close,
        .fail = tcp_fail,
        .submit = tcp_submit,
        .send = tcp_send,
        .receive = tcp_receive,
        .fds = tcp_fds,
        .add_memory = no_memory,
        .drop_memory = no_drop,
};
