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

#include "pdu/io/net.h"
#include "pdu/io/stream.h"
#include "remote_stream.h"

enum {
        PIECES = SEQ_STEPS * SEQ_CUTS,
        PORT_MS = 5,
        TAKES = 16, /* of one connection, before the others have their turn */
};

struct stream_conn {
        struct remote_conn base;
        struct stream stream;
        void *talk;
        uint64_t give_up; /* ms: no connection until then */
        size_t n, sent;   /* bytes in out */
        unsigned pieces, piece;
        uint32_t cut[PIECES]; /* where pieces of out end, ascending */
        uint8_t *out;         /* two steps' room */
};

struct stream_session {
        struct remote_session base;
        const struct stream_talk_ops *ops;
        struct addrinfo *where; /* NULL: not resolved yet */
        struct stream_conn conn[SEQ_QUEUES];
};

static struct stream_session *session_of(const struct remote_session *s)
{
        return (struct stream_session *)(void *)(uintptr_t)s;
}

static struct stream_conn *conn_of(const struct remote_conn *c)
{
        return (struct stream_conn *)(void *)(uintptr_t)c;
}

/* --- out ---------------------------------------------------------------------------------------- */

/* All that is in hand, a piece at a time; false: the stream is full. */
static bool flush(struct stream_conn *c)
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

bool remote_stream_flush(struct remote_session *s)
{
        bool all = true;

        for (struct stream_conn *c = session_of(s)->conn; c < session_of(s)->conn + SEQ_QUEUES; c++)
                if (c->n > 0)
                        all &= flush(c);
        return all;
}

bool remote_stream_is_stuck(const struct remote_conn *c)
{
        return conn_of(c)->sent < conn_of(c)->n && !c->broken;
}

static void add_cuts(struct stream_conn *c, const struct seq_step *step, size_t n)
{
        for (unsigned i = 0; i < step->cuts; i++)
                if (step->cut[i] > 0 && step->cut[i] < n)
                        c->cut[c->pieces++] = (uint32_t)(c->n + step->cut[i]);
        if (step->cuts > 0)
                c->cut[c->pieces++] = (uint32_t)(c->n + n);
}

/* What is in hand goes out before anything but more of the same connection. */
bool remote_stream_can_send(const struct remote_conn *base, const struct seq_step *step)
{
        const struct stream_session *t = session_of(base->session);
        const struct stream_conn *c = conn_of(base);

        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                if (i != base->on && t->conn[i].n > 0)
                        return false;
        return c->n <= t->ops->room && c->pieces + SEQ_CUTS < PIECES &&
               (t->base.impatient || !t->ops->waits(c->talk, step));
}

bool remote_stream_send(struct remote_conn *base, const struct seq_step *step)
{
        struct stream_conn *c = conn_of(base);
        size_t n = 0;

        if (!session_of(base->session)
                 ->ops->say(c->talk, base->session->sequence, step, c->out + c->n, &n))
                return false;
        if (n > 0)
                add_cuts(c, step, n);
        c->n += n;
        remote_acted(base->session);
        return true;
}

/* --- in ----------------------------------------------------------------------------------------- */

/* False: nothing more is there, or the connection is over. */
static bool read_some(struct stream_conn *c)
{
        const struct stream_talk_ops *ops = session_of(c->base.session)->ops;
        struct iovec iov;
        ssize_t n;

        ops->room_for(c->talk, &iov);
        n = stream_read(&c->stream, &iov, 1);
        if (n < 0)
                conn_ended(&c->base, c->stream.end != STREAM_FIN);
        if (n <= 0)
                return false;
        remote_log_add(&c->base.session->log, c->base.on, PARTY_CONTROLLER, iov.iov_base,
                       (size_t)n);
        ops->heard(c->talk, (size_t)n);
        return c->stream.all;
}

static void connected(struct stream_conn *c)
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
        struct stream_conn *c =
            (struct stream_conn *)(void *)((char *)stream - offsetof(struct stream_conn, stream));
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

void remote_stream_close(struct remote_conn *base, bool reset)
{
        struct stream_conn *c = conn_of(base);

        c->n = c->sent = 0;
        stream_close(&c->stream, reset);
}

/* The ports of this side may be used up for a moment: EADDRNOTAVAIL. */
static void begin_connect(struct stream_conn *c)
{
        struct remote_session *s = c->base.session;
        int rc;

        c->stream.ready = ready;
        rc = stream_begin_connect(&c->stream, session_of(s)->where);
        if (rc == 0)
                connected(c);
        else if (errno == EADDRNOTAVAIL && loop_now_ms() < c->give_up)
                conn_opening(&c->base, PORT_MS);
        else if (errno == EINPROGRESS && stream_watch(&c->stream, s->loop, EPOLLOUT) >= 0)
                conn_opening(&c->base, s->target->timeout);
        else
                conn_refuse(&c->base, "%s", strerror(errno));
}

bool remote_stream_retry(struct remote_conn *base)
{
        if (stream_is_open(&conn_of(base)->stream))
                return false;
        begin_connect(conn_of(base));
        return true;
}

bool remote_stream_open(struct remote_conn *base, const struct seq_step *step)
{
        struct stream_session *t = session_of(base->session);
        struct stream_conn *c = conn_of(base);
        const char *traddr, *trsvcid;
        char error[NET_ERROR] = "no memory";

        (void)step;
        c->give_up = loop_now_ms() + base->session->target->timeout;
        c->pieces = c->piece = 0;
        if (t->ops->begin(c->talk, t->conn[0].talk) == 0) {
                t->ops->where(base->session->target, &traddr, &trsvcid);
                if (!t->where)
                        t->where = net_resolve(traddr, trsvcid, 0, error, sizeof(error));
                if (t->where) {
                        begin_connect(c);
                        return true;
                }
        }
        conn_refuse(base, "%s", error);
        return true;
}

bool remote_stream_expects(const struct remote_conn *c)
{
        return session_of(c->session)->ops->expects(conn_of(c)->talk);
}

void remote_stream_half_close(struct remote_conn *c)
{
        stream_half_close(&conn_of(c)->stream);
}

/* --- life --------------------------------------------------------------------------------------- */

void remote_stream_free(struct remote_session *s)
{
        struct stream_session *t = session_of(s);

        for (unsigned i = 0; i < SEQ_QUEUES; i++) {
                if (t->conn[i].talk)
                        t->ops->fini(t->conn[i].talk);
                free(t->conn[i].talk);
                free(t->conn[i].out);
        }
        if (t->where)
                freeaddrinfo(t->where);
        free(t);
}

static bool prepare(struct stream_session *t, struct stream_conn *c)
{
        t->base.conn[c - t->conn] = &c->base;
        c->out = malloc(2 * t->ops->room);
        c->talk = calloc(1, t->ops->bytes);
        return c->out && c->talk && t->ops->init(c->talk, &c->base) == 0;
}

struct remote_session *remote_stream_new(const struct stream_talk_ops *ops)
{
        struct stream_session *t = calloc(1, sizeof(*t));
        bool ok = t;

        for (unsigned i = 0; i < SEQ_QUEUES && ok; i++) {
                t->ops = ops;
                ok = prepare(t, &t->conn[i]);
        }
        if (ok)
                return &t->base;
        if (t)
                remote_stream_free(&t->base);
        return NULL;
}
