/* SPDX-License-Identifier: BSD-3-Clause */
#include "conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/stream_tls.h"
#include "pdu/nvme/io/link_stream.h"
#include "pdu/nvme/tcp/tcp_controller.h"

enum { RECEIVES = 4 }; /* reads of one connection in a turn */

struct tcp_conn {
        struct target_conn conn;
        struct stream stream; /* closed: over, waits for commands that still execute */
        struct tcp_controller *tcp;
        struct link *link;

        uint64_t phase_since;   /* ms: accepted, or ICResp sent */
        uint64_t heard;         /* ms: until then it has sent, at the least rate, what is owed */
        uint64_t sent;          /* ms: until then it has read, at the least rate */
        uint64_t closing_since; /* ms: our TermReq is out; 0: it is not */
        bool live;              /* ICResp was sent */
        bool more;              /* bytes that came are still to be looked at */
        bool waits;             /* the stream holds bytes that no event will tell of */
};

#define container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static struct tcp_conn *tcp_of(struct target_conn *c)
{
        return container(c, struct tcp_conn, conn);
}

static struct tcp_conn *of_base(struct conn *c)
{
        return tcp_of(target_conn_of(c));
}

static uint64_t now(const struct tcp_conn *c)
{
        return reactor_now(c->conn.base.reactor);
}

static const struct nvme_service *service(const struct tcp_conn *c)
{
        return conn_service(&c->conn);
}

/* --- what its machine asks for ---------------------------------------------------------------- */

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        struct target_conn *c = user;

        (void)lkey;
        return conn_buffer_get(&c->base, len);
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        struct target_conn *c = user;

        conn_buffer_put(&c->base, buf, len);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void give_back_rx(struct tcp_conn *c)
{
        uint8_t *buf = c->link->rx.buf;

        framer_attach(&c->link->rx, NULL, 0);
        if (buf)
                reactor_rx_put(c->conn.base.reactor, buf);
}

/* The connection is over; commands that other threads work on still come back. */
static void end(struct tcp_conn *c, bool reset)
{
        stream_close(&c->stream, reset);
        link_kill(c->link);
        conn_end(&c->conn);
        give_back_rx(c);
}

static void tcp_conn_free(struct tcp_conn *c)
{
        tcp_controller_free(c->tcp); /* gives buffers back */
        conn_retire(&c->conn);
        free(c);
}

/* Nobody will speak of it any more. */
static bool is_free(const struct tcp_conn *c)
{
        return !stream_is_open(&c->stream) && requests_executing(tcp_requests(c->tcp)) == 0 &&
               !loop_posted(&c->conn.close) && c->conn.asked == 0;
}

static bool is_over(const struct tcp_conn *c)
{
        if (c->conn.failed || c->link->state == LINK_DEAD)
                return true;
        if (link_wants_send(c->link))
                return false;
        return c->conn.last_words || (c->link->state == LINK_CLOSING && !link_term_sent(c->link));
}

/* --- output ----------------------------------------------------------------------------------- */

/* Bytes at the least rate take that long: a single one does not start a timer again. */
static void move_on(const struct tcp_conn *c, uint64_t *until, size_t bytes)
{
        *until += bytes * 1000 / service(c)->limits.least_rate;
        if (*until > now(c))
                *until = now(c);
}

static void flush(struct tcp_conn *c)
{
        ssize_t n = c->conn.stalled_until ? 0 : link_flush(c->link, &c->stream);

        c->conn.failed |= n < 0;
        if (n > 0)
                move_on(c, &c->sent, (size_t)n);
}

/* --- what the user is told ----------------------------------------------------------------- */

static void report_fault(const struct tcp_conn *c)
{
        const struct fault *f = &c->link->fault;
        const struct rule *rule = rule_get(f->rule);
        char what[160];

        if (c->link->term_queued)
                snprintf(what, sizeof(what),
                         f->code == FES_HEADER_DIGEST_ERROR
                             ? "C2HTermReq %02xh (%s), FEI %08xh, for %s"
                             : "C2HTermReq %02xh (%s), FEI %u, for %s",
                         f->code, pdu_fes_name(f->code, PARTY_CONTROLLER), f->place, rule->id);
        else
                snprintf(what, sizeof(what), "closed for %s", rule->id);
        conn_report(&c->conn, rule->id, what, rule->says);
}

static void report_end(struct tcp_conn *c)
{
        const char *tls =
            c->stream.end == STREAM_LOST && c->stream.ops->why ? stream_why(&c->stream) : NULL;
        char what[80];

        if (c->conn.reported || (!tls && c->link->state < LINK_TERMINATING))
                return;
        c->conn.reported = true;
        if (tls) {
                conn_report(&c->conn, "TLS", tls, NULL);
        } else if (is_fault(c->link->fault)) {
                conn_fault(&c->conn, (enum rule_id)c->link->fault.rule);
                report_fault(c);
        } else if (c->link->peer_term.seen) {
                snprintf(what, sizeof(what), "host sent H2CTermReq %02xh (%s), FEI %u",
                         c->link->peer_term.fes, pdu_fes_name(c->link->peer_term.fes, PARTY_HOST),
                         c->link->peer_term.fei);
                conn_report(&c->conn, "H2CTermReq", what, NULL);
        }
}

/* --- after each step -------------------------------------------------------------------------- */

static void note_progress(struct tcp_conn *c)
{
        if (!c->live && c->link->state == LINK_LIVE) {
                c->live = true;
                c->conn.queue.tls = stream_tls_psk(&c->stream);
                c->phase_since = now(c);
        }
        if (c->closing_since == 0 && link_term_sent(c->link))
                c->closing_since = now(c);
}

/* An idle connection holds no receive buffer. */
static void lend_back(struct tcp_conn *c)
{
        uint8_t *buf = c->link->rx.buf && !c->more ? framer_detach(&c->link->rx) : NULL;

        if (buf)
                reactor_rx_put(c->conn.base.reactor, buf);
}

static void wait_for_more(struct tcp_conn *c)
{
        bool blocked = link_wants_send(c->link);

        if (c->conn.stalled_until) {
                stream_watch(&c->stream, &c->conn.base.reactor->loop, 0);
                return;
        }
        c->waits = stream_watch(&c->stream, &c->conn.base.reactor->loop,
                                (c->more ? 0u : EPOLLIN) | (blocked ? EPOLLOUT : 0u)) > 0;
        if (c->waits || (c->more && !blocked))
                conn_come_again(&c->conn.base);
        if (requests_need_buffers(tcp_requests(c->tcp)))
                conn_go_hungry(&c->conn.base);
}

/* Sends what there is, and sees what becomes of the connection. */
static void settle(struct tcp_conn *c)
{
        if (stream_is_open(&c->stream)) {
                report_end(c);
                flush(c);
                note_progress(c);
                if (is_over(c)) {
                        end(c, c->link->state == LINK_DEAD);
                } else {
                        lend_back(c);
                        wait_for_more(c);
                }
        }
        if (is_free(c))
                tcp_conn_free(c);
}

/* --- input ------------------------------------------------------------------------------------ */

static bool attach(struct tcp_conn *c)
{
        uint8_t *buf;

        if (c->link->rx.buf)
                return true;
        buf = reactor_rx_get(c->conn.base.reactor);
        if (buf)
                framer_attach(&c->link->rx, buf, RX_BUFFER);
        c->conn.failed |= !buf;
        return buf;
}

/* Bytes have come, or (n 0) were left: what fits into this turn. True: some are left. */
static bool take_bytes(struct tcp_conn *c, size_t n)
{
        unsigned budget = conn_budget(&c->conn.base);

        if (budget > 0)
                return tcp_controller_received(c->tcp, n, budget);
        link_received(c->link, n);
        return true;
}

/* False: nothing more to be had. */
static bool receive_once(struct tcp_conn *c)
{
        ssize_t n = link_fill(c->link, &c->stream);

        c->conn.failed |= n < 0;
        if (n <= 0)
                return false;
        move_on(c, &c->heard, (size_t)n);
        c->more = take_bytes(c, (size_t)n);
        return !c->more && c->stream.all;
}

static void receive(struct tcp_conn *c)
{
        unsigned rounds = RECEIVES;

        if (!attach(c))
                return;
        while (rounds-- > 0 && receive_once(c))
                ;
}

static void on_ready(struct stream *s, uint32_t events)
{
        struct tcp_conn *c = container(s, struct tcp_conn, stream);

        if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                if (c->more ||
                    c->conn.stalled_until) /* it is not waiting for input: the socket has failed */
                        c->conn.failed = true;
                else
                        receive(c);
        } else if (c->more) {
                flush(c);
                c->more = take_bytes(c, 0);
        }
        settle(c);
}

static void go_on(struct conn *base)
{
        struct tcp_conn *c = of_base(base);

        conn_go_on(&c->conn);
        if (!stream_is_open(&c->stream) || c->conn.stalled_until)
                ;
        else if (c->more)
                c->more = take_bytes(c, 0);
        else if (c->waits)
                receive(c);
        settle(c);
}

static void feed(struct conn *base)
{
        struct tcp_conn *c = of_base(base);

        requests_buffers(tcp_requests(c->tcp));
        settle(c);
}

/* --- timers ----------------------------------------------------------------------------------- */

static bool is_set_up_late(struct tcp_conn *c)
{
        const struct nvme_service *s = service(c);

        return !c->conn.queue.connected && c->link->state < LINK_TERMINATING &&
               !rule_in(&s->policy.waived, TCP_IC_TIMEOUT) &&
               conn_is_older(&c->conn.base, c->phase_since, s->limits.ic_timeout);
}

/* As long as there is output the R2T may be in it that the host is to answer. */
static bool has_stalled(struct tcp_conn *c)
{
        unsigned ms = service(c)->limits.stall_timeout;
        bool blocked = link_wants_send(c->link);

        if (!blocked)
                c->sent = now(c);
        if (blocked || c->more || !tcp_controller_waits(c->tcp))
                c->heard = now(c);
        return conn_is_older(&c->conn.base, c->sent, ms) ||
               conn_is_older(&c->conn.base, c->heard, ms) ||
               !conn_keeps_pace(&c->conn, tcp_requests(c->tcp));
}

/* Who does not listen gets a reset. */
static void give_up_stalled(struct tcp_conn *c)
{
        conn_report(
            &c->conn, "timeout", "reset",
            link_wants_send(c->link)
                ? "timed out: the host reads nothing"
                : "timed out: the host does not send the rest of a PDU or of a command's data");
        c->conn.reported = true;
        metric_add(&conn_own(&c->conn)->metrics.stalled, 1);
        link_kill(c->link);
}

static void give_up_late(struct tcp_conn *c)
{
        conn_fault(&c->conn, TCP_IC_TIMEOUT);
        conn_report(&c->conn, "setup", "closed for tcp/setup/ic-timeout",
                    c->live ? "no Connect" : "no ICReq");
        c->conn.failed = true;
}

static void look_at_timers(struct tcp_conn *c)
{
        if (c->closing_since > 0)
                c->conn.failed |=
                    conn_is_older(&c->conn.base, c->closing_since, service(c)->limits.term_timeout);
        else if (has_stalled(c))
                give_up_stalled(c);
        else if (is_set_up_late(c))
                give_up_late(c);
}

static void sweep(struct conn *base)
{
        struct tcp_conn *c = of_base(base);

        if (c->conn.stalled_until && now(c) >= c->conn.stalled_until) {
                c->conn.stalled_until = 0;
                c->heard = c->sent = now(c);
        }
        if (stream_is_open(&c->stream) && !c->conn.stalled_until)
                look_at_timers(c);
        settle(c);
}

static bool is_busy(const struct tcp_conn *c)
{
        return link_wants_send(c->link) || tcp_controller_waits(c->tcp) || c->more ||
               conn_is_busy(&c->conn, requests_executing(tcp_requests(c->tcp)));
}

static void drain(struct conn *base, bool at_once)
{
        struct tcp_conn *c = of_base(base);

        c->conn.failed |= at_once || !is_busy(c);
        settle(c);
}

/* --- on request ------------------------------------------------------------------------------- */

static void renew(struct target_conn *conn)
{
        tcp_controller_renew(tcp_of(conn)->tcp);
        tcp_controller_set_faulty(tcp_of(conn)->tcp, service(tcp_of(conn))->faults);
        conn_times_renew(conn, tcp_requests(tcp_of(conn)->tcp));
        conn_trigger_renew(conn);
}

static void finish(struct target_conn *conn, bool reset)
{
        link_finish(tcp_of(conn)->link, reset ? TX_RESETS : TX_CLOSES);
}

/* The flow points to it until its next packet is written. */
static void note(struct target_conn *conn, const char *text)
{
        struct tcp_conn *c = tcp_of(conn);
        char *copy = c->stream.record ? strdup(text) : NULL;

        if (!copy)
                return;
        c->stream.flow.comment = copy;
        free(conn->note);
        conn->note = copy;
}

static void cut(struct target_conn *conn)
{
        struct tcp_conn *c = tcp_of(conn);

        if (stream_is_open(&c->stream))
                link_kill(c->link);
        settle(c);
}

static void settled(struct target_conn *conn)
{
        settle(tcp_of(conn));
}

/* --- the beginning ---------------------------------------------------------------------------- */

static const struct requests *requests(const struct target_conn *c)
{
        return tcp_requests(((const struct tcp_conn *)(const void *)c)->tcp);
}

static const struct target_conn_kind kind = {
        .base = { .go_on = go_on, .feed = feed, .sweep = sweep, .wake = conn_wake, .drain = drain },
        .renew = renew,
        .cut = cut,
        .requests = requests,
        .stall = settled,
        .finish = finish,
        .note = note,
        .by_pdu = true,
};

static struct tcp_conn *tcp_conn_new(struct reactor *r, const struct stream *stream)
{
        struct request_ops ops = conn_request_ops;
        struct tcp_conn *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        ops.buffer_get = buffer_get;
        ops.buffer_put = buffer_put;
        c->tcp = tcp_controller_new(&reactor_service(r)->tcp, &ops, &c->conn);
        if (!c->tcp) {
                free(c);
                return NULL;
        }
        c->stream = *stream;
        c->stream.ready = on_ready;
        c->link = tcp_controller_link(c->tcp);
        c->link->segment = reactor_service(r)->limits.segment;
        tcp_controller_set_faulty(c->tcp, reactor_service(r)->faults);
        return c;
}

/* False: no memory for TLS. */
static bool secure(struct tcp_conn *c, struct tls *tls)
{
        return !tls || stream_tls_begin(&c->stream, tls, NULL) == 0;
}

void tcp_conn_start(struct reactor *r, struct port *port, struct stream *stream,
                    const struct conn_peer *peer)
{
        struct tcp_conn *c = tcp_conn_new(r, stream);

        if (!c || !secure(c, service_tls(reactor_service(r), port)) ||
            stream_watch(&c->stream, &r->loop, EPOLLIN) < 0) {
                stream_close(c ? &c->stream : stream, false);
                conn_uncount(r->service, port, peer);
                if (c)
                        tcp_controller_free(c->tcp);
                free(c);
                return;
        }
        conn_begin(&c->conn, &kind, r, port, peer, &r->pool);
        conn_times_renew(&c->conn, tcp_requests(c->tcp));
        memcpy(c->conn.base.traddr, stream_local(&c->stream).addr, sizeof(c->conn.base.traddr));
        stream_record(&c->stream, r->service->record, PARTY_CONTROLLER);
        c->phase_since = c->heard = c->sent = now(c);
}
