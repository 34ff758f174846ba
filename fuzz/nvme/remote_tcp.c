/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over byte streams by hand. Steps are gathered and sent together up to one that needs an answer
 * first, a cut, another connection, a delay or an end. After the last one the connections are closed
 * halfway.
 */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "dialogue.h"
#include "pdu/io/stream.h"

enum {
        OUT = 2 * BIND_ROOM,
        PIECES = SEQ_STEPS * SEQ_CUTS,
        PORT_MS = 5,
        TAKES = 16, /* of one connection, before the others have their turn */
};

struct tcp_conn {
        struct remote_conn base;
        struct stream stream;
        struct dialogue talk;
        uint64_t give_up; /* ms: no connection until then */
        size_t n, sent;   /* bytes in out */
        unsigned pieces, piece;
        uint32_t cut[PIECES]; /* where pieces of out end, ascending */
        uint8_t out[OUT];
};

struct tcp_session {
        struct remote_session base;
        struct addrinfo *where; /* NULL: not resolved yet */
        struct tcp_conn conn[SEQ_QUEUES];
};

static struct tcp_session *tcp_of(const struct remote_session *s)
{
        return (struct tcp_session *)(void *)(uintptr_t)s;
}

static struct tcp_conn *conn_of(const struct remote_conn *c)
{
        return (struct tcp_conn *)(void *)(uintptr_t)c;
}

/* --- out ---------------------------------------------------------------------------------------- */

/* All that is in hand, a piece at a time; false: the stream is full. */
static bool flush(struct tcp_conn *c)
{
        struct remote_session *s = c->base.session;

        while (c->sent < c->n && !c->base.broken) {
                size_t end = c->piece < c->pieces ? c->cut[c->piece] : c->n;
                const struct iovec iov = { c->out + c->sent, end - c->sent };
                ssize_t n = stream_write(&c->stream, &iov, 1);

                if (n == 0) {
                        stream_watch(&c->stream, s->loop, EPOLLIN | EPOLLOUT);
                        return false;
                }
                if (n < 0) {
                        c->base.broken = true; /* why is to be read */
                        break;
                }
                remote_log_add(&s->log, c->base.on, PARTY_HOST, iov.iov_base, (size_t)n);
                remote_acted(s);
                c->sent += (size_t)n;
                c->piece += c->piece < c->pieces && c->sent == end;
        }
        c->n = c->sent = 0;
        c->pieces = c->piece = 0;
        return true;
}

static bool tcp_flush(struct remote_session *s)
{
        bool all = true;

        for (struct tcp_conn *c = tcp_of(s)->conn; c < tcp_of(s)->conn + SEQ_QUEUES; c++)
                if (c->n > 0)
                        all &= flush(c);
        return all;
}

static bool tcp_is_stuck(const struct remote_conn *c)
{
        return conn_of(c)->sent < conn_of(c)->n && !c->broken;
}

static void add_cuts(struct tcp_conn *c, const struct seq_step *step, size_t n)
{
        for (unsigned i = 0; i < step->cuts; i++)
                if (step->cut[i] > 0 && step->cut[i] < n)
                        c->cut[c->pieces++] = (uint32_t)(c->n + step->cut[i]);
        if (step->cuts > 0)
                c->cut[c->pieces++] = (uint32_t)(c->n + n);
}

/* What is in hand goes out before anything but more of the same connection. */
static bool tcp_can_send(const struct remote_conn *base, const struct seq_step *step)
{
        const struct tcp_session *t = tcp_of(base->session);
        const struct tcp_conn *c = conn_of(base);

        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                if (i != base->on && t->conn[i].n > 0)
                        return false;
        return c->n + BIND_ROOM <= sizeof(c->out) && c->pieces + SEQ_CUTS < PIECES &&
               (t->base.impatient || !dialogue_waits(&c->talk, step));
}

static bool is_avoided(const struct tcp_conn *c, const struct seq_step *step, const uint8_t *p,
                       size_t n)
{
        union pdu h = { 0 };

        if (step->kind != SEQ_PDU || n == 0)
                return false;
        memcpy(&h, p, n < sizeof(h) ? n : sizeof(h));
        return avoid_message(peer_of_session(c->base.session)->avoid, step->template, &h);
}

static bool tcp_send(struct remote_conn *base, const struct seq_step *step)
{
        struct tcp_conn *c = conn_of(base);
        uint8_t *p = c->out + c->n;
        size_t n = seq_bind_encode(&c->talk.bind, base->session->sequence, step, p);

        dialogue_says(&c->talk, p, n);
        if (c->talk.harms || is_avoided(c, step, p, n))
                return false;
        if (n > 0)
                add_cuts(c, step, n);
        c->n += n;
        remote_acted(base->session);
        return true;
}

/* --- in ----------------------------------------------------------------------------------------- */

/* False: nothing more is there, or the connection is over. */
static bool read_some(struct tcp_conn *c)
{
        struct iovec iov[2];
        ssize_t n;

        dialogue_room(&c->talk, iov);
        n = stream_read(&c->stream, iov, 1);
        if (n < 0)
                conn_ended(&c->base, c->stream.end != STREAM_FIN);
        if (n <= 0)
                return false;
        remote_log_add(&c->base.session->log, c->base.on, PARTY_CONTROLLER, iov[0].iov_base,
                       (size_t)n);
        dialogue_hears(&c->talk, (size_t)n);
        return c->stream.all;
}

static void connected(struct tcp_conn *c)
{
        if (stream_watch(&c->stream, c->base.session->loop, EPOLLIN) < 0) {
                conn_refuse(&c->base, "%s", strerror(errno));
                return;
        }
        remote_log_add(&c->base.session->log, c->base.on, PARTY_HOST, NULL, 0);
        conn_live(&c->base);
}

static void ready(struct stream *stream, uint32_t events)
{
        struct tcp_conn *c =
            (struct tcp_conn *)(void *)((char *)stream - offsetof(struct tcp_conn, stream));
        struct remote_session *s = c->base.session;

        if (c->base.state == CONN_OPENING) {
                if (stream_end_connect(stream) == 0)
                        connected(c);
                else
                        conn_refuse(&c->base, "%s", strerror(errno));
        } else {
                if (events & EPOLLOUT)
                        stream_watch(stream, s->loop, EPOLLIN);
                for (unsigned i = 0; i < TAKES && read_some(c); i++)
                        ;
        }
        remote_go(s);
}

/* --- connections -------------------------------------------------------------------------------- */

static void tcp_close(struct remote_conn *base, bool reset)
{
        struct tcp_conn *c = conn_of(base);

        c->n = c->sent = 0;
        stream_close(&c->stream, reset);
}

/* The ports of this side may be used up for a moment: EADDRNOTAVAIL. */
static void begin_connect(struct tcp_conn *c)
{
        struct remote_session *s = c->base.session;
        int rc;

        c->stream.ready = ready;
        rc = stream_begin_connect(&c->stream, tcp_of(s)->where);
        if (rc == 0)
                connected(c);
        else if (errno == EADDRNOTAVAIL && loop_now_ms() < c->give_up)
                conn_opening(&c->base, PORT_MS);
        else if (errno == EINPROGRESS && stream_watch(&c->stream, s->loop, EPOLLOUT) >= 0)
                conn_opening(&c->base, s->target->timeout);
        else
                conn_refuse(&c->base, "%s", strerror(errno));
}

static bool tcp_retry(struct remote_conn *base)
{
        if (stream_is_open(&conn_of(base)->stream))
                return false;
        begin_connect(conn_of(base));
        return true;
}

static bool tcp_open(struct remote_conn *base, const struct seq_step *step)
{
        struct tcp_session *t = tcp_of(base->session);
        const struct host_params *p = &peer_of_session(&t->base)->host;
        struct tcp_conn *c = conn_of(base);
        char error[NET_ERROR] = "no memory";

        (void)step;
        c->give_up = loop_now_ms() + p->timeout;
        c->pieces = c->piece = 0;
        if (dialogue_begin(&c->talk, &t->conn[0].talk) == 0) {
                if (!t->where)
                        t->where = net_resolve(p->traddr, p->trsvcid, 0, error, sizeof(error));
                if (t->where) {
                        begin_connect(c);
                        return true;
                }
        }
        conn_refuse(base, "%s", error);
        return true;
}

static bool tcp_expects(const struct remote_conn *c)
{
        return dialogue_expects(&conn_of(c)->talk);
}

static void tcp_half_close(struct remote_conn *c)
{
        stream_half_close(&conn_of(c)->stream);
}

/* --- life --------------------------------------------------------------------------------------- */

static void tcp_free(struct remote_session *s)
{
        struct tcp_session *t = tcp_of(s);

        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                dialogue_fini(&t->conn[i].talk);
        if (t->where)
                freeaddrinfo(t->where);
        free(t);
}

static struct remote_session *tcp_new(void)
{
        struct tcp_session *t = calloc(1, sizeof(*t));
        bool ok = true;

        if (!t)
                return NULL;
        for (unsigned i = 0; i < SEQ_QUEUES; i++) {
                t->base.conn[i] = &t->conn[i].base;
                ok &= dialogue_init(&t->conn[i].talk, &t->conn[i].base) == 0;
        }
        if (ok)
                return &t->base;
        tcp_free(&t->base);
        return NULL;
}

const struct remote_transport remote_tcp = {
        .new = tcp_new,
        .free = tcp_free,
        .open = tcp_open,
        .retry = tcp_retry,
        .can_send = tcp_can_send,
        .send = tcp_send,
        .flush = tcp_flush,
        .is_stuck = tcp_is_stuck,
        .expects = tcp_expects,
        .half_close = tcp_half_close,
        .close = tcp_close,
};
