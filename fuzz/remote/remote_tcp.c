/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over TCP sockets. Steps are gathered and sent together up to one that needs an answer
 * first, a cut, another connection, a delay or an end. Behind the last one, when nothing more is due,
 * the connections are closed halfway: the controller's own end then says that it has seen everything.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dialogue.h"
#include "pdu/io/net.h"

enum {
        OUT = 2 * BIND_ROOM,
        PIECES = SEQ_STEPS * SEQ_CUTS,
        PORT_MS = 5,
        TAKES = 16, /* of one connection, before the others have their turn */
};
enum conn_state { ABSENT, CONNECTING, LIVE, OVER };
enum mode { RUNNING, DELAYED, SETTLING, ENDING };

struct tcp_conn {
        struct loop_source source;
        struct tcp_session *session;
        struct dialogue talk;
        enum conn_state state;
        bool broken;    /* it does not take any more */
        size_t n, sent; /* bytes in out */
        unsigned pieces, piece;
        uint32_t cut[PIECES]; /* where pieces of out end, ascending */
        uint8_t out[OUT];
};

struct tcp_session {
        struct remote_session base;
        struct addrinfo *where; /* NULL: not resolved yet */
        enum mode mode;
        bool impatient; /* an answer did not come: no more waits */
        unsigned step;
        uint64_t give_up;  /* ms: no connection until then */
        uint64_t patience; /* ms: an answer is not waited for any longer, whatever is said */
        struct tcp_conn conn[SEQ_QUEUES];
};

#define each_conn(c, t) for (struct tcp_conn * (c) = (t)->conn; (c) < (t)->conn + SEQ_QUEUES; (c)++)

static void go_on(struct tcp_session *t);

static struct tcp_session *tcp_of(struct remote_session *s)
{
        return (struct tcp_session *)(void *)s;
}

static void due_in(struct tcp_session *t, unsigned ms)
{
        t->base.deadline = loop_now_ms() + ms;
}

/* We have done something: the controller has time to answer. */
static void acted(struct tcp_session *t)
{
        unsigned settle = t->base.target->settle;

        t->patience = loop_now_ms() + (t->base.hang > settle ? t->base.hang : settle);
}

/* Each word makes us wait for the next one, but a controller that never stops is not heard out. */
static void wait_for_more(struct tcp_session *t)
{
        due_in(t, t->base.target->settle);
        if (t->base.deadline > t->patience)
                t->base.deadline = t->patience;
}

/* --- ends --------------------------------------------------------------------------------------- */

static void hang_up(struct tcp_conn *c, bool reset)
{
        if (c->source.fd < 0)
                return;
        loop_remove(c->session->base.loop, &c->source);
        if (reset)
                net_reset_close(c->source.fd);
        else
                close(c->source.fd);
        c->source.fd = -1;
}

static void finish(struct tcp_session *t)
{
        t->base.answer.steps = t->step;
        t->base.sequence = NULL;
        t->base.over(&t->base);
}

static void end_conn(struct tcp_conn *c, enum remote_end end, bool reset)
{
        struct remote_answer *a = &c->session->base.answer;

        hang_up(c, reset);
        c->state = OVER;
        c->n = c->sent = 0;
        a->end = end > a->end ? end : a->end;
        remote_answer_add(a, (uint64_t)end << 32 | (uint64_t)c->broken << 40 |
                                 (uint64_t)c->talk.on << 56);
}

static bool all_over(const struct tcp_session *t)
{
        bool over = true;

        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                over &= t->conn[i].state == ABSENT || t->conn[i].state == OVER;
        return over;
}

static void refuse(struct tcp_conn *c, const char *why)
{
        struct remote_answer *a = &c->session->base.answer;

        snprintf(a->why, sizeof(a->why), "%s", why);
        end_conn(c, REMOTE_REFUSED, true);
}

/* It is not to be sent: nobody hears of it. */
static void give_up(struct tcp_session *t)
{
        each_conn(c, t) if (c->state != ABSENT && c->state != OVER)
            end_conn(c, REMOTE_UNSENT, true);
        t->base.answer.end = REMOTE_UNSENT;
        finish(t);
}

/* --- out ---------------------------------------------------------------------------------------- */

/* All that is in hand, a piece at a time; false: the socket is full. */
static bool flush(struct tcp_conn *c)
{
        struct tcp_session *t = c->session;

        while (c->sent < c->n && !c->broken) {
                size_t end = c->piece < c->pieces ? c->cut[c->piece] : c->n;
                ssize_t n = send(c->source.fd, c->out + c->sent, end - c->sent, MSG_NOSIGNAL);

                if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                        loop_change(t->base.loop, &c->source, EPOLLIN | EPOLLOUT);
                        t->base.deadline = t->patience;
                        return false;
                }
                if (n < 0) {
                        c->broken = true; /* why is to be read */
                        break;
                }
                remote_log_add(&t->base.log, c->talk.on, PARTY_HOST, c->out + c->sent, (size_t)n);
                acted(t);
                c->sent += (size_t)n;
                c->piece += c->piece < c->pieces && c->sent == end;
        }
        c->n = c->sent = 0;
        c->pieces = c->piece = 0;
        return true;
}

static bool flush_all(struct tcp_session *t)
{
        bool all = true;

        each_conn(c, t) if (c->n > 0) all &= flush(c);
        return all;
}

static void add_cuts(struct tcp_conn *c, const struct seq_step *step, size_t n)
{
        for (unsigned i = 0; i < step->cuts; i++)
                if (step->cut[i] > 0 && step->cut[i] < n)
                        c->cut[c->pieces++] = (uint32_t)(c->n + step->cut[i]);
        if (step->cuts > 0)
                c->cut[c->pieces++] = (uint32_t)(c->n + n);
}

static bool has_room(const struct tcp_conn *c)
{
        return c->n + BIND_ROOM <= sizeof(c->out) && c->pieces + SEQ_CUTS < PIECES;
}

static bool is_avoided(const struct tcp_conn *c, const struct seq_step *step, const uint8_t *p,
                       size_t n)
{
        union pdu h = { 0 };

        if (step->kind != SEQ_PDU || n == 0)
                return false;
        memcpy(&h, p, n < sizeof(h) ? n : sizeof(h));
        return avoid_message(c->session->base.target->avoid, step->template, &h);
}

/* False: it is not to be sent. */
static bool compose(struct tcp_conn *c, const struct seq_step *step)
{
        uint8_t *p = c->out + c->n;
        size_t n = seq_bind_say(&c->talk.bind, c->session->base.sequence, step, p);

        dialogue_says(&c->talk, p, n);
        if (c->talk.harms || is_avoided(c, step, p, n))
                return false;
        if (n > 0)
                add_cuts(c, step, n);
        c->n += n;
        acted(c->session);
        return true;
}

/* --- beginning of a connection ------------------------------------------------------------------ */

static void ready(struct loop_source *source, uint32_t events);

static void live(struct tcp_conn *c)
{
        c->state = LIVE;
        remote_log_add(&c->session->base.log, c->talk.on, PARTY_HOST, NULL, 0);
}

/* The ports of this side may be used up for a moment: EADDRNOTAVAIL. */
static void knock(struct tcp_conn *c)
{
        struct tcp_session *t = c->session;
        const int on = 1;
        int fd = socket(t->where->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int rc = fd < 0 ? -1 : connect(fd, t->where->ai_addr, t->where->ai_addrlen);

        c->state = CONNECTING;
        if (rc < 0 && errno == EADDRNOTAVAIL && loop_now_ms() < t->give_up) {
                close(fd);
                due_in(t, PORT_MS);
                return;
        }
        if (fd < 0 || (rc < 0 && errno != EINPROGRESS)) {
                refuse(c, strerror(errno));
                if (fd >= 0)
                        close(fd);
                return;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        c->source = (struct loop_source) { .fd = fd, .ready = ready };
        if (loop_add(t->base.loop, &c->source, rc == 0 ? EPOLLIN : EPOLLOUT) < 0) {
                c->source.fd = -1;
                close(fd);
                refuse(c, strerror(errno));
        } else if (rc == 0) {
                live(c);
        } else {
                due_in(t, t->base.target->host.timeout);
        }
}

static void open_conn(struct tcp_conn *c)
{
        struct tcp_session *t = c->session;
        const struct host_params *p = &t->base.target->host;
        char error[NET_ERROR];

        t->give_up = loop_now_ms() + p->timeout;
        if (dialogue_begin(&c->talk, &t->conn[0].talk) < 0) {
                refuse(c, "no memory");
                return;
        }
        if (!t->where)
                t->where = net_resolve(p->traddr, p->trsvcid, 0, error, sizeof(error));
        if (t->where)
                knock(c);
        else
                refuse(c, error);
}

static void connected(struct tcp_conn *c)
{
        int error = 0;
        socklen_t len = sizeof(error);

        getsockopt(c->source.fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error) {
                refuse(c, strerror(error));
                return;
        }
        loop_change(c->session->base.loop, &c->source, EPOLLIN);
        acted(c->session);
        live(c);
}

/* --- steps -------------------------------------------------------------------------------------- */

static void settle(struct tcp_session *t)
{
        bool due = false;

        if (all_over(t)) {
                finish(t);
                return;
        }
        each_conn(c, t) due |=
            c->state == LIVE && !c->talk.term && (c->broken || dialogue_expects(&c->talk));
        if (due && !t->impatient) {
                t->mode = SETTLING;
                wait_for_more(t);
                return;
        }
        t->mode = ENDING;
        for (unsigned i = SEQ_QUEUES; i-- > 0;)
                if (t->conn[i].state == LIVE)
                        shutdown(t->conn[i].source.fd, SHUT_WR);
        due_in(t, t->base.hang);
}

static void pause_for(struct tcp_session *t, uint32_t ms)
{
        t->mode = DELAYED;
        due_in(t, ms < t->base.target->delay ? ms : t->base.target->delay);
}

/* What is in hand goes out before anything but more of the same connection. */
static bool goes_along(struct tcp_session *t, const struct tcp_conn *c, const struct seq_step *step)
{
        each_conn(other, t) if (other != c && other->n > 0) return false;
        return (step->kind == SEQ_PDU || step->kind == SEQ_RAW) && c->state == LIVE &&
               has_room(c) && (t->impatient || !dialogue_waits(&c->talk, step));
}

/* An answer is due that the next connection may hang on, such as the one to CC.EN. */
static bool is_waiting(struct tcp_session *t)
{
        each_conn(c, t) if (c->state == LIVE && !c->broken && !c->talk.wild && !c->talk.term &&
                            dialogue_expects(&c->talk)) return true;
        return false;
}

/* A step that takes more than bytes. False: it, or an answer, is to be waited for. */
static bool do_step(struct tcp_session *t, struct tcp_conn *c, const struct seq_step *step)
{
        if (step->kind == SEQ_DELAY) {
                t->step++;
                pause_for(t, step->ms);
                return false;
        }
        if (c->state == ABSENT && (t->impatient || !is_waiting(t))) {
                open_conn(c);
                return c->state != CONNECTING;
        }
        if (c->state == CONNECTING)
                return false;
        if (c->state == ABSENT) {
                wait_for_more(t);
                return false;
        }
        if (step->kind == SEQ_CLOSE || step->kind == SEQ_RESET) {
                t->step++;
                end_conn(c, REMOTE_LEFT, step->kind == SEQ_RESET);
                return true;
        }
        if (goes_along(t, c, step))
                return true;
        wait_for_more(t);
        return false;
}

/* As far as it goes without an answer. */
static void go_on(struct tcp_session *t)
{
        const struct sequence *s = t->base.sequence;

        while (t->step < s->steps) {
                const struct seq_step *step = &s->step[t->step];
                struct tcp_conn *c = &t->conn[step->on];

                if (c->state == OVER || c->broken || c->talk.term) {
                        t->step++;
                } else if (goes_along(t, c, step)) {
                        t->step++;
                        if (!compose(c, step)) {
                                give_up(t);
                                return;
                        }
                } else if (!flush_all(t) || !do_step(t, c, step)) {
                        return;
                }
        }
        if (flush_all(t))
                settle(t);
}

/* --- in ----------------------------------------------------------------------------------------- */

static void ended(struct tcp_conn *c, bool reset)
{
        bool ours = c->session->mode == ENDING;

        c->broken |= reset && ours;
        end_conn(c,
                 c->talk.term ? REMOTE_TERM
                 : ours       ? REMOTE_DONE
                 : reset      ? REMOTE_RESET
                              : REMOTE_CLOSED,
                 false);
}

/* False: nothing more is there, or the connection is over. */
static bool take(struct tcp_conn *c)
{
        struct iovec iov[2];
        ssize_t n;

        dialogue_room(&c->talk, iov);
        n = recv(c->source.fd, iov[0].iov_base, iov[0].iov_len, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return false;
        if (n <= 0) {
                ended(c, n < 0);
                return false;
        }
        remote_log_add(&c->session->base.log, c->talk.on, PARTY_CONTROLLER, iov[0].iov_base,
                       (size_t)n);
        dialogue_hears(&c->talk, (size_t)n);
        return (size_t)n == iov[0].iov_len;
}

static void ready(struct loop_source *source, uint32_t events)
{
        struct tcp_conn *c = (struct tcp_conn *)(void *)source;
        struct tcp_session *t = c->session;

        if (c->state == CONNECTING) {
                connected(c);
        } else {
                if (events & EPOLLOUT)
                        loop_change(t->base.loop, source, EPOLLIN);
                for (unsigned i = 0; i < TAKES && take(c); i++)
                        ;
        }
        if (t->mode == RUNNING)
                go_on(t);
        else if (t->mode == SETTLING || all_over(t))
                settle(t);
}

/* --- life --------------------------------------------------------------------------------------- */

static void tcp_start(struct remote_session *s)
{
        struct tcp_session *t = tcp_of(s);

        t->mode = RUNNING;
        t->impatient = false;
        t->step = 0;
        each_conn(c, t)
        {
                c->state = ABSENT;
                c->talk.term = c->broken = false;
                c->n = c->sent = 0;
                c->pieces = c->piece = 0;
        }
        acted(t);
        go_on(t);
}

/* Whoever has to do something and did not. */
static void give_in(struct tcp_session *t)
{
        each_conn(c, t)
        {
                if (c->state == CONNECTING && c->source.fd < 0)
                        knock(c);
                else if (c->state == CONNECTING)
                        refuse(c, strerror(ETIMEDOUT));
                else if (c->state == LIVE && (t->mode == ENDING || (c->sent < c->n && !c->broken)))
                        end_conn(c, REMOTE_HANG, true);
        }
}

static void tcp_late(struct remote_session *s)
{
        struct tcp_session *t = tcp_of(s);
        bool connecting = false;

        each_conn(c, t) connecting |= c->state == CONNECTING;
        give_in(t);
        if (!connecting && t->mode != DELAYED)
                t->impatient = true;
        if (t->mode == DELAYED) {
                t->mode = RUNNING;
                acted(t);
        }
        if (t->mode == RUNNING)
                go_on(t);
        else
                settle(t);
}

static void tcp_stop(struct remote_session *s)
{
        each_conn(c, tcp_of(s)) hang_up(c, true);
        s->sequence = NULL;
}

static void tcp_free(struct remote_session *s)
{
        struct tcp_session *t = tcp_of(s);

        each_conn(c, t) dialogue_fini(&c->talk);
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
                t->conn[i].session = t;
                t->conn[i].source.fd = -1;
                ok &= dialogue_init(&t->conn[i].talk, &t->base, i) == 0;
        }
        if (ok)
                return &t->base;
        tcp_free(&t->base);
        return NULL;
}

const struct remote_ops remote_tcp = {
        .new = tcp_new,
        .free = tcp_free,
        .start = tcp_start,
        .late = tcp_late,
        .stop = tcp_stop,
};
