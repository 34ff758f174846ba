/* SPDX-License-Identifier: BSD-3-Clause */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 1024, KEEP_IDLE = 60, KEEP_INTERVAL = 10, KEEP_COUNT = 6 };

/* --- addresses -------------------------------------------------------------------------------- */

static bool is_port(const char *trsvcid)
{
        char *end;
        unsigned long port;

        if (trsvcid[0] < '0' || trsvcid[0] > '9')
                return false;
        port = strtoul(trsvcid, &end, 10);
        return *end == '\0' && port <= UINT16_MAX;
}

/* The address without the brackets that it may stand in; false if it is too long. */
static bool strip_brackets(const char *traddr, char out[NET_TRADDR])
{
        size_t len = strlen(traddr);

        if (len >= 2 && traddr[0] == '[' && traddr[len - 1] == ']') {
                traddr++;
                len -= 2;
        }
        if (len >= NET_TRADDR)
                return false;
        memcpy(out, traddr, len);
        out[len] = '\0';
        return true;
}

struct addrinfo *net_resolve(const char *traddr, const char *trsvcid, int flags, char *error,
                             size_t size)
{
        const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                        .ai_flags = flags | AI_NUMERICSERV };
        struct addrinfo *list = NULL;
        char addr[NET_TRADDR];
        int rc;

        if (!is_port(trsvcid)) {
                snprintf(error, size, "'%s' is no TCP port", trsvcid);
                return NULL;
        }
        if (!strip_brackets(traddr, addr)) {
                snprintf(error, size, "address is longer than %d bytes", NET_TRADDR - 1);
                return NULL;
        }
        rc = getaddrinfo(addr[0] || !(flags & AI_PASSIVE) ? addr : NULL, trsvcid, &hints, &list);
        if (rc != 0)
                snprintf(error, size, "%s: %s", traddr,
                         rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
        return rc == 0 ? list : NULL;
}

bool net_split(const char *text, char addr[NET_TRADDR], char port[32])
{
        const char *colon = strrchr(text, ':');
        size_t len = colon ? (size_t)(colon - text) : 0;

        if (!colon || len >= NET_TRADDR || strlen(colon + 1) >= 32 || !is_port(colon + 1))
                return false;
        if (memchr(text, ':', len) && !(text[0] == '[' && colon[-1] == ']'))
                return false; /* a bare IPv6 address: which colon is it? */
        memcpy(addr, text, len);
        addr[len] = '\0';
        memcpy(port, colon + 1, strlen(colon + 1) + 1);
        return true;
}

/* --- sockets ---------------------------------------------------------------------------------- */

static void set_option(int fd, int level, int name, int value)
{
        setsockopt(fd, level, name, &value,
                   sizeof(value)); /* a refusal costs speed, nothing else */
}

static void tune(int fd)
{
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE);
        set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL);
        set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
}

static int open_socket(const struct addrinfo *ai)
{
        return socket(ai->ai_family, ai->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                      ai->ai_protocol);
}

static int close_failed(int fd)
{
        int saved = errno;

        close(fd);
        errno = saved;
        return -1;
}

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

int net_listen(const char *traddr, const char *trsvcid, char *error, size_t size)
{
        struct addrinfo *list = net_resolve(traddr, trsvcid, AI_PASSIVE, error, size);
        int fd = -1;

        if (!list)
                return -1;
        for (struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next)
                fd = listen_at(ai);
        if (fd < 0)
                snprintf(error, size, "listen on %s:%s: %s", traddr, trsvcid, strerror(errno));
        freeaddrinfo(list);
        return fd;
}

int net_accept(int listener)
{
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0)
                tune(fd);
        return fd;
}

static int64_t now_ms(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int net_wait(int fd, short events, int timeout_ms)
{
        struct pollfd p = { .fd = fd, .events = events };
        int64_t until = now_ms() + timeout_ms;
        int n;

        do {
                int64_t left = until - now_ms();

                n = poll(&p, 1, timeout_ms < 0 ? -1 : left > 0 ? (int)left : 0);
        } while (n < 0 && errno == EINTR);
        return n > 0 ? p.revents : n;
}

/* 0, or -1 with errno. */
static int finish_connect(int fd, unsigned timeout_ms)
{
        socklen_t len = sizeof(int);
        int problem = 0;
        int n = net_wait(fd, POLLOUT, timeout_ms > INT32_MAX ? -1 : (int)timeout_ms);

        if (n == 0)
                errno = ETIMEDOUT;
        if (n <= 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &len) < 0)
                return -1;
        errno = problem;
        return problem ? -1 : 0;
}

static int connect_to(const struct addrinfo *ai, unsigned timeout_ms)
{
        int fd = open_socket(ai);

        if (fd < 0)
                return -1;
        tune(fd);
        if (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0 &&
            (errno != EINPROGRESS || finish_connect(fd, timeout_ms) < 0))
                return close_failed(fd);
        return fd;
}

int net_connect(const char *traddr, const char *trsvcid, unsigned timeout_ms, char *error,
                size_t size)
{
        struct addrinfo *list = net_resolve(traddr, trsvcid, 0, error, size);
        int fd = -1, problem;

        errno = 0;
        if (!list)
                return -1;
        for (struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next)
                fd = connect_to(ai, timeout_ms);
        problem = errno;
        if (fd < 0)
                snprintf(error, size, "connect to %s:%s: %s", traddr, trsvcid, strerror(problem));
        freeaddrinfo(list);
        errno = problem;
        return fd;
}

void net_reset_close(int fd)
{
        const struct linger now = { .l_onoff = 1, .l_linger = 0 };

        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(fd);
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

static uint16_t port_of(name_fn *name, int fd)
{
        union address a = ask(name, fd);

        if (a.any.sa_family == AF_INET)
                return ntohs(a.v4.sin_port);
        return a.any.sa_family == AF_INET6 ? ntohs(a.v6.sin6_port) : 0;
}

static void addr_of(name_fn *name, int fd, char addr[NET_TRADDR])
{
        union address a = ask(name, fd);
        socklen_t len = a.any.sa_family == AF_INET6 ? sizeof(a.v6) : sizeof(a.v4);

        if (a.any.sa_family == AF_UNSPEC ||
            getnameinfo(&a.any, len, addr, NET_TRADDR, NULL, 0, NI_NUMERICHOST) != 0)
                addr[0] = '\0';
}

uint16_t net_local_port(int fd)
{
        return port_of(getsockname, fd);
}

uint16_t net_peer_port(int fd)
{
        return port_of(getpeername, fd);
}

void net_local_addr(int fd, char addr[NET_TRADDR])
{
        addr_of(getsockname, fd, addr);
}

void net_peer_addr(int fd, char addr[NET_TRADDR])
{
        addr_of(getpeername, fd, addr);
}
