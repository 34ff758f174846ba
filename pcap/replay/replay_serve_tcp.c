/* SPDX-License-Identifier: BSD-3-Clause */
/* Live hosts over TCP. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/time.h"
#include "pdu/nvme/io/link_stream.h"
#include "pdu/nvme/tcp/tcp_controller.h"
#include "replay_server.h"

enum {
        BUFFER = 128 << 10, /* bytes, for receiving */
        MAXH2CDATA = 1 << 20,
};

struct served_conn {
        struct serve_conn common; /* first */
        struct stream stream;
        struct tcp_controller *tcp;
        struct link *link;
        bool more;
        uint8_t buf[BUFFER];
};

static struct served_conn *served_of(struct serve_conn *c)
{
        return (struct served_conn *)c;
}

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        (void)user;
        (void)lkey;
        return calloc(1, len);
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        (void)user;
        (void)len;
        free(buf);
}

/* --- connections ------------------------------------------------------------------------------ */

static struct served_conn *conn_new(struct server *sv, const struct stream *stream)
{
        struct request_ops ops = serve_request_ops;
        struct tcp_controller_config cfg = { .hdgst = true,
                                             .ddgst = true,
                                             .maxh2cdata = MAXH2CDATA,
                                             .io_in_capsule = sv->in_capsule,
                                             .max_transfer = SERVE_TRANSFER_MAX,
                                             .r2t_window = 1 };
        struct served_conn *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        ops.buffer_get = buffer_get;
        ops.buffer_put = buffer_put;
        c->common.server = sv;
        c->stream = *stream;
        c->tcp = tcp_controller_new(&cfg, &ops, c);
        if (!c->tcp) {
                free(c);
                return NULL;
        }
        c->link = tcp_controller_link(c->tcp);
        framer_attach(&c->link->rx, c->buf, BUFFER);
        return c;
}

static void conn_free(struct served_conn *c)
{
        link_kill(c->link);
        serve_unpark(&c->common);
        tcp_controller_free(c->tcp);
        stream_close(&c->stream, false);
        free(c);
}

static void serve(struct served_conn *c)
{
        ssize_t n = c->more ? 0 : link_fill(c->link, &c->stream);

        if (n > 0 || c->more)
                c->more = tcp_controller_received(c->tcp, (size_t)n, 0);
        c->common.over |= n < 0 || link_flush(c->link, &c->stream) < 0 ||
                          (c->link->state >= LINK_CLOSING && !link_wants_send(c->link));
}

/* --- the server ------------------------------------------------------------------------------- */

static void take_conn(struct server *sv, struct stream_listener *listener)
{
        struct stream stream = { 0 };
        struct served_conn *c;

        if (!stream_accept(listener, &stream))
                return;
        c = conn_new(sv, &stream);
        if (!c)
                stream_close(&stream, false);
        else if (serve_add(sv, &c->common) < 0)
                conn_free(c);
        else
                memcpy(sv->traddr, stream_local(&c->stream).addr, sizeof(sv->traddr));
}

static void drop_closed(struct server *sv)
{
        unsigned kept = 0;

        for (unsigned i = 0; i < sv->n_conns; i++) {
                if (sv->conns[i]->over)
                        conn_free(served_of(sv->conns[i]));
                else
                        sv->conns[kept++] = sv->conns[i];
        }
        sv->n_conns = kept;
        if (kept > 0)
                sv->idle_since = loop_now_ns();
}

static void turn(struct server *sv, struct stream_listener *listener)
{
        struct pollfd fds[SERVE_CONNS + 1] = { { .fd = listener->source.fd, .events = POLLIN } };
        bool now[SERVE_CONNS];
        unsigned n = sv->n_conns;
        int ms = SERVE_TICK_MS;

        for (unsigned i = 0; i < n; i++) {
                struct served_conn *c = served_of(sv->conns[i]);

                now[i] = !stream_pollfd(&c->stream, link_events(c->link), &fds[i + 1]) || c->more;
                ms = now[i] ? 0 : ms;
        }
        if (loop_poll(fds, n + 1, ms) < 0)
                return;
        for (unsigned i = 0; i < n; i++)
                if (fds[i + 1].revents || now[i])
                        serve(served_of(sv->conns[i]));
        if (fds[0].revents)
                take_conn(sv, listener);
}

int serve_tcp(struct server *sv, char *err, size_t err_size)
{
        struct stream_listener listener;

        if (stream_listen(&listener, sv->o->traddr, sv->o->trsvcid, err, err_size) < 0)
                return -1;
        sv->port = stream_listener_port(&listener);
        sv->o->listening(sv->o->user, sv->port);
        while (!serve_is_over(sv)) {
                turn(sv, &listener);
                drop_closed(sv);
        }
        for (unsigned i = 0; i < sv->n_conns; i++)
                conn_free(served_of(sv->conns[i]));
        stream_unlisten(&listener);
        return 0;
}
