/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams over TCP, and over Unix sockets: all sockets are here. */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
        BACKLOG = 1024,
        KEEP_IDLE = 60, /* seconds */
        KEEP_INTERVAL = 10,
        KEEP_COUNT = 6,
        TURNED_AWAY = 64, /* at most, before the one who accepts is heard again */
        NVME_PORT = 4420,
        DISCOVERY_PORT = 8009,
};

static void set_option(int fd, int level, int name, int value)
{
        /* a refusal costs speed, nothing else */
        setsockopt(fd, level, name, &value, sizeof(value));
}

static int close_failed(int fd)
{
        int saved = errno;

        close(fd);
        errno = saved;
        return -1;
}

/* --- what a stream does ----------------------------------------------------------------------- */

/* recv() is the cheaper call where a single place is asked for. */
static ssize_t tcp_read(struct stream *s, const struct iovec *iov, int n)
{
        return n == 1 ? recv(s->source.fd, iov->iov_base, iov->iov_len, 0)
                      : readv(s->source.fd, iov, n);
}

static ssize_t tcp_write(struct stream *s, const struct iovec *iov, int n)
{
        const struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)iov,
                                    .msg_iovlen = (size_t)n };

        return sendmsg(s->source.fd, &msg, MSG_NOSIGNAL);
}

static int tcp_half_close(struct stream *s)
{
        return shutdown(s->source.fd, SHUT_WR);
}

static void tcp_close(struct stream *s, bool reset)
{
        const struct linger now = { .l_onoff = 1, .l_linger = 0 };

        if (reset)
                setsockopt(s->source.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(s->source.fd);
}

const struct stream_ops stream_over_tcp = {
        .read = tcp_read,
        .write = tcp_write,
        .half_close = tcp_half_close,
        .close = tcp_close,
};

static void tcp_begin(struct stream *s, int fd)
{
        *s = (struct stream) { .ops = &stream_over_tcp, .source.fd = fd, .ready = s->ready };
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE);
        set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL);
        set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
}

/* --- connecting ------------------------------------------------------------------------------- */

static int open_socket(const struct addrinfo *ai)
{
        return socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, ai->ai_protocol);
}

int stream_begin_connect(struct stream *s, const struct addrinfo *to)
{
        int fd = open_socket(to);

        if (fd < 0)
                return -1;
        tcp_begin(s, fd);
        if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
                return 0;
        if (errno != EINPROGRESS) {
                s->ops = NULL;
                close_failed(fd);
        }
        return -1;
}

int stream_end_connect(struct stream *s)
{
        socklen_t len = sizeof(int);
        int problem = 0;

        if (getsockopt(s->source.fd, SOL_SOCKET, SO_ERROR, &problem, &len) < 0)
                problem = errno;
        if (problem == 0)
                return 0;
        stream_close(s, false);
        errno = problem;
        return -1;
}

static int connect_until(struct stream *s, const struct addrinfo *to, uint64_t deadline)
{
        int n;

        if (stream_begin_connect(s, to) == 0)
                return 0;
        if (errno != EINPROGRESS)
                return -1;
        n = stream_wait(s, EPOLLOUT, loop_left(deadline));
        if (n > 0)
                return stream_end_connect(s);
        if (n == 0)
                errno = ETIMEDOUT;
        s->ops = NULL;
        return close_failed(s->source.fd);
}

int stream_connect(struct stream *s, const char *traddr, const char *trsvcid, unsigned timeout_ms,
                   char *error, size_t size)
{
        struct addrinfo *list = net_resolve(traddr, trsvcid, 0, error, size);
        uint64_t deadline = loop_now_ms() + timeout_ms;
        int rc = -1, problem;

        errno = 0;
        if (!list)
                return -1;
        for (const struct addrinfo *ai = list; ai && rc < 0; ai = ai->ai_next)
                rc = connect_until(s, ai, deadline);
        problem = errno;
        if (rc < 0)
                snprintf(error, size, "connect to %s:%s: %s", traddr, trsvcid, strerror(problem));
        freeaddrinfo(list);
        errno = problem;
        return rc;
}

/* --- listening -------------------------------------------------------------------------------- */

static int listen_at(const struct addrinfo *ai)
{
        int fd = open_socket(ai);

        if (fd < 0)
                return -1;
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        if (ai->ai_family == AF_INET6)
                set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
        if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
                return close_failed(fd);
        return fd;
}

static int open_spare(void)
{
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int stream_listen(struct stream_listener *l, const char *traddr, const char *trsvcid, char *error,
                  size_t size)
{
        struct addrinfo *list = net_resolve(traddr, trsvcid, AI_PASSIVE, error, size);
        int fd = -1;

        if (!list)
                return -1;
        for (const struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next)
                fd = listen_at(ai);
        if (fd < 0)
                snprintf(error, size, "listen on %s:%s: %s", traddr, trsvcid, strerror(errno));
        else
                *l = (struct stream_listener) { .source.fd = fd, .spare = open_spare() };
        freeaddrinfo(list);
        return fd < 0 ? -1 : 0;
}

/* --- Unix sockets ------------------------------------------------------------------------------ */

static int open_local(struct sockaddr_un *a, const char *path)
{
        *a = (struct sockaddr_un) { .sun_family = AF_UNIX };
        if (strlen(path) >= sizeof(a->sun_path)) {
                errno = ENAMETOOLONG;
                return -1;
        }
        strcpy(a->sun_path, path);
        return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int stream_connect_local(struct stream *s, const char *path, char *error, size_t size)
{
        struct sockaddr_un a;
        int fd = open_local(&a, path);

        if (fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0) {
                tcp_begin(s, fd);
                return 0;
        }
        snprintf(error, size, "connect to %s: %s", path, strerror(errno));
        return fd < 0 ? -1 : close_failed(fd);
}

/* What a process that has ended left there; nothing else is removed. */
static void remove_stale(const char *path)
{
        struct stat st;
        struct stream s = { 0 };
        char error[NET_ERROR];

        if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
                return;
        if (stream_connect_local(&s, path, error, sizeof(error)) == 0)
                stream_close(&s, false);
        else if (errno == ECONNREFUSED)
                unlink(path);
}

int stream_listen_local(struct stream_listener *l, const char *path, char *error, size_t size)
{
        struct sockaddr_un a;
        int fd = open_local(&a, path), bound = -1;
        mode_t mask;

        if (fd >= 0) {
                remove_stale(path);
                mask = umask(S_IXUSR | S_IRWXG | S_IRWXO);
                bound = bind(fd, (const struct sockaddr *)&a, sizeof(a));
                umask(mask);
        }
        if (bound == 0 && listen(fd, BACKLOG) == 0) {
                *l = (struct stream_listener) { .source.fd = fd, .spare = open_spare() };
                return 0;
        }
        snprintf(error, size, "listen on %s: %s", path, strerror(errno));
        return fd < 0 ? -1 : close_failed(fd);
}

/* --- accepting -------------------------------------------------------------------------------- */

static int accept_one(const struct stream_listener *l)
{
        return accept4(l->source.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void turn_away(struct stream_listener *l)
{
        close(l->spare);
        close(accept_one(l));
        l->spare = open_spare();
}

bool stream_accept(struct stream_listener *l, struct stream *s)
{
        for (unsigned i = 0; i < TURNED_AWAY; i++) {
                int fd = accept_one(l);

                if (fd >= 0) {
                        tcp_begin(s, fd);
                        return true;
                }
                if (errno == EMFILE || errno == ENFILE)
                        turn_away(l);
                else if (errno != EINTR && errno != ECONNABORTED)
                        return false;
        }
        return false;
}

void stream_unlisten(struct stream_listener *l)
{
        close(l->source.fd);
        close(l->spare);
}

/* --- who is there ----------------------------------------------------------------------------- */

typedef int name_fn(int fd, struct sockaddr *addr, socklen_t *len);

union address {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
};

/* As it is for those who do not know of our sockets: an IPv4 address on one for both is one of IPv4,
 * and how we call the interface of a link-local one is our affair. */
static union address plain(union address a)
{
        union address v4 = { .v4 = { .sin_family = AF_INET, .sin_port = a.v6.sin6_port } };

        if (a.any.sa_family != AF_INET6)
                return a;
        a.v6.sin6_scope_id = 0;
        if (!IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr))
                return a;
        memcpy(&v4.v4.sin_addr, a.v6.sin6_addr.s6_addr + 12, sizeof(v4.v4.sin_addr));
        return v4;
}

/* An address of the socket; family AF_UNSPEC if it has none. */
static union address ask(name_fn *name, int fd)
{
        union address a = { 0 };
        socklen_t len = sizeof(a);

        if (name(fd, &a.any, &len) < 0)
                a.any.sa_family = AF_UNSPEC;
        return plain(a);
}

static struct stream_place place(name_fn *name, int fd)
{
        union address a = ask(name, fd);
        bool v6 = a.any.sa_family == AF_INET6;
        struct stream_place p = { .port = v6 ? ntohs(a.v6.sin6_port) : ntohs(a.v4.sin_port) };

        if (a.any.sa_family == AF_UNSPEC ||
            getnameinfo(&a.any, v6 ? sizeof(a.v6) : sizeof(a.v4), p.addr, sizeof(p.addr), NULL, 0,
                        NI_NUMERICHOST) != 0)
                return (struct stream_place) { 0 };
        return p;
}

uint16_t stream_listener_port(const struct stream_listener *l)
{
        return place(getsockname, l->source.fd).port;
}

struct stream_place stream_local(const struct stream *s)
{
        return place(getsockname, s->source.fd);
}

struct stream_place stream_peer(const struct stream *s)
{
        return place(getpeername, s->source.fd);
}

void stream_record(struct stream *s, struct capture_writer *w, enum party self)
{
        union address end[2];
        in_port_t *port;

        s->record = w;
        s->self = self;
        if (!w)
                return;
        end[self] = ask(getsockname, s->source.fd);
        end[peer_of(self)] = ask(getpeername, s->source.fd);
        port = &end[PARTY_CONTROLLER].v4.sin_port; /* at the same place in both families */
        if (*port != htons(DISCOVERY_PORT))
                *port = htons(NVME_PORT);
        capture_flow_open(w, &s->flow, &end[PARTY_HOST].any, &end[PARTY_CONTROLLER].any,
                          loop_wall_ns());
}
