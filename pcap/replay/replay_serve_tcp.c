/* SPDX-License-Identifier: BSD-3-Clause */
/* Live hosts over TCP. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/time.h"
#include "pdu/nvme/tcp/tcp_controller.h"
#include "replay_server.h"

enum {
        BUFFER = 128 << 10, /* bytes, for receiving */
        IOVECS = 64,
        MAXH2CDATA = 1 << 20,
};

struct conn {
        struct serve_conn common; /* first */
        int fd;
        struct tcp_controller *tcp;
        struct link *link;
        bool more;
        uint8_t buf[BUFFER];
};

static struct conn *of(struct serve_conn *c)
{
        return (struct conn *)c;
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

static struct conn *conn_new(struct server *sv, int fd)
{
        struct request_ops ops = serve_request_ops;
        struct tcp_controller_config cfg = { .hdgst = true,
                                             .ddgst = true,
                                             .maxh2cdata = MAXH2CDATA,
                                             .io_in_capsule = sv->in_capsule,
                                             .max_transfer = SERVE_TRANSFER_MAX,
                                             .r2t_window = 1 };
        struct conn *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        ops.buffer_get = buffer_get;
        ops.buffer_put = buffer_put;
        c->common.server = sv;
        c->fd = fd;
        c->tcp = tcp_controller_new(&cfg, &ops, c);
        if (!c->tcp) {
                free(c);
                return NULL;
        }
        c->link = tcp_controller_link(c->tcp);
        framer_attach(&c->link->rx, c->buf, BUFFER);
        return c;
}

static void conn_free(struct conn *c)
{
        link_kill(c->link);
        serve_unpark(&c->common);
        tcp_controller_free(c->tcp);
        close(c->fd);
        free(c);
}

static void push(struct conn *c)
{
        struct iovec iov[IOVECS];
        struct msghdr msg = { .msg_iov = iov };

        while ((msg.msg_iovlen = (size_t)link_send_iov(c->link, iov, IOVECS)) > 0) {
                ssize_t n = sendmsg(c->fd, &msg, MSG_NOSIGNAL);

                if (n < 0) {
                        c->common.over |= errno != EAGAIN && errno != EINTR;
                        return;
                }
                link_sent(c->link, (size_t)n);
        }
}

static void serve(struct conn *c)
{
        struct iovec iov[2];
        struct msghdr msg = { .msg_iov = iov };
        ssize_t n;

        if (c->more) {
                c->more = tcp_controller_received(c->tcp, 0, 0);
        } else {
                msg.msg_iovlen = (size_t)link_recv_iov(c->link, iov);
                n = recvmsg(c->fd, &msg, 0);
                if (n > 0)
                        c->more = tcp_controller_received(c->tcp, (size_t)n, 0);
                else
                        c->common.over |= n == 0 || (errno != EAGAIN && errno != EINTR);
        }
        push(c);
        c->common.over |= c->link->state >= LINK_CLOSING && !link_wants_send(c->link);
}

/* --- the server ------------------------------------------------------------------------------- */

static void take_conn(struct server *sv, int listener)
{
        int fd = net_accept(listener);
        struct conn *c;

        if (fd < 0)
                return;
        c = conn_new(sv, fd);
        if (!c)
                close(fd);
        else if (serve_add(sv, &c->common) < 0)
                conn_free(c);
        else
                net_local_addr(fd, sv->traddr);
}

static void drop_closed(struct server *sv)
{
        unsigned kept = 0;

        for (unsigned i = 0; i < sv->n_conns; i++) {
                if (sv->conns[i]->over)
                        conn_free(of(sv->conns[i]));
                else
                        sv->conns[kept++] = sv->conns[i];
        }
        sv->n_conns = kept;
        if (kept > 0)
                sv->idle_since = host_now();
}

static void turn(struct server *sv, int listener)
{
        struct pollfd fds[SERVE_CONNS + 1] = { { .fd = listener, .events = POLLIN } };
        unsigned n = sv->n_conns;
        int ms = SERVE_TICK_MS;

        for (unsigned i = 0; i < n; i++)
                ms = of(sv->conns[i])->more ? 0 : ms;
        for (unsigned i = 0; i < n; i++)
                fds[i + 1] = (struct pollfd) {
                        .fd = of(sv->conns[i])->fd,
                        .events =
                            link_wants_send(of(sv->conns[i])->link) ? POLLIN | POLLOUT : POLLIN,
                };
        if (poll(fds, n + 1, ms) < 0)
                return;
        for (unsigned i = 0; i < n; i++)
                if (fds[i + 1].revents || of(sv->conns[i])->more)
                        serve(of(sv->conns[i]));
        if (fds[0].revents)
                take_conn(sv, listener);
}

int serve_tcp(struct server *sv, char *err, size_t err_size)
{
        int listener = net_listen(sv->o->traddr, sv->o->trsvcid, err, err_size);

        if (listener < 0)
                return -1;
        sv->port = net_local_port(listener);
        sv->o->listening(sv->o->user, sv->port);
        while (!serve_is_over(sv)) {
                turn(sv, listener);
                drop_closed(sv);
        }
        for (unsigned i = 0; i < sv->n_conns; i++)
                conn_free(of(sv->conns[i]));
        close(listener);
        return 0;
}
