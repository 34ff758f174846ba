/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pdu/io/stream.h"

enum { PATIENCE = 60000, BULK = 8 << 20 };

static char error[NET_ERROR];

static const char *port_text(const struct stream_listener *l)
{
        static char text[8];

        snprintf(text, sizeof(text), "%u", stream_listener_port(l));
        return text;
}

/* Two ends of a connection over the loopback interface, fresh for each test. */
static struct stream_listener listener;
static struct stream a, b;

static int make_pair(void **state)
{
        struct pollfd p;

        (void)state;
        a = b = (struct stream) { 0 };
        if (stream_listen(&listener, "127.0.0.1", "0", error, sizeof(error)) < 0)
                return -1;
        if (stream_accept(&listener, &b)) /* nobody is there */
                return -1;
        if (stream_connect(&a, "127.0.0.1", port_text(&listener), PATIENCE, error, sizeof(error)))
                return -1;
        p = (struct pollfd) { .fd = listener.source.fd, .events = POLLIN };
        return loop_poll(&p, 1, PATIENCE) == 1 && stream_accept(&listener, &b) ? 0 : -1;
}

static int drop_pair(void **state)
{
        (void)state;
        stream_close(&a, false);
        stream_close(&b, false);
        stream_unlisten(&listener);
        return 0;
}

static ssize_t put(struct stream *s, const void *p, size_t n)
{
        const struct iovec iov = { (void *)(uintptr_t)p, n };

        return stream_write(s, &iov, 1);
}

static ssize_t get(struct stream *s, void *p, size_t n)
{
        const struct iovec iov = { p, n };

        return stream_read(s, &iov, 1);
}

/* What comes next, as text; "FIN", "RST", "lost", or "timeout" if nothing does. */
static const char *next(struct stream *s)
{
        static const char *const ends[] = { "open", "FIN", "RST", "lost" };
        static char text[64];
        ssize_t n;

        if (stream_wait(s, EPOLLIN, 100) == 0)
                return "timeout";
        n = get(s, text, sizeof(text) - 1);
        if (n < 0)
                return ends[s->end];
        text[n] = '\0';
        return text;
}

/* --- beginning -------------------------------------------------------------------------------- */

static int option(const struct stream *s, int level, int name)
{
        int on = 0;
        socklen_t len = sizeof(on);

        assert_int_equal(getsockopt(s->source.fd, level, name, &on, &len), 0);
        return on;
}

static void test_connect_and_accept(void **state)
{
        (void)state;
        assert_int_equal(stream_local(&a).port, stream_peer(&b).port);
        assert_int_equal(stream_peer(&a).port, stream_listener_port(&listener));
        assert_string_equal(stream_peer(&a).addr, "127.0.0.1");
        assert_string_equal(stream_local(&b).addr, "127.0.0.1");
        for (unsigned i = 0; i < 2; i++) {
                const struct stream *s = i ? &a : &b;

                assert_true(fcntl(s->source.fd, F_GETFL) & O_NONBLOCK);
                assert_true(fcntl(s->source.fd, F_GETFD) & FD_CLOEXEC);
                assert_true(option(s, IPPROTO_TCP, TCP_NODELAY));
                assert_true(option(s, SOL_SOCKET, SO_KEEPALIVE));
        }
        assert_false(stream_accept(&listener, &b));
        stream_close(&a, false);
        stream_close(&a, false); /* closed already */
        assert_false(stream_is_open(&a));
}

static void test_ipv6(void **state)
{
        struct stream_listener l;
        struct stream s = { 0 };

        (void)state;
        if (stream_listen(&l, "[::1]", "0", error, sizeof(error)) < 0)
                skip(); /* a machine without IPv6 */
        assert_int_equal(stream_connect(&s, "::1", port_text(&l), PATIENCE, error, sizeof(error)),
                         0);
        assert_string_equal(stream_peer(&s).addr, "::1");
        stream_close(&s, false);
        stream_unlisten(&l);
}

/* Who came over IPv4 to where both are listened to hears of IPv4 alone. */
static void test_ipv4_to_a_socket_of_both(void **state)
{
        struct stream c = { 0 }, d = { 0 };
        struct stream_listener l;
        struct pollfd p;

        (void)state;
        if (stream_listen(&l, "::", "0", error, sizeof(error)) < 0)
                skip(); /* a machine without IPv6 */
        assert_int_equal(
            stream_connect(&c, "127.0.0.1", port_text(&l), PATIENCE, error, sizeof(error)), 0);
        p = (struct pollfd) { .fd = l.source.fd, .events = POLLIN };
        assert_int_equal(loop_poll(&p, 1, PATIENCE), 1);
        assert_true(stream_accept(&l, &d));
        assert_string_equal(stream_local(&d).addr, "127.0.0.1");
        assert_int_equal(stream_local(&d).port, stream_listener_port(&l));
        assert_int_equal(stream_peer(&d).port, stream_local(&c).port);
        stream_close(&c, false);
        stream_close(&d, false);
        stream_unlisten(&l);
}

static void test_errors_name_what_was_wrong(void **state)
{
        struct stream_listener l, second;
        struct stream s = { 0 };

        (void)state;
        assert_int_equal(stream_listen(&l, "127.0.0.1", "http", error, sizeof(error)), -1);
        assert_string_equal(error, "'http' is not a TCP port");
        assert_int_equal(stream_listen(&l, "127.0.0.1", "0", error, sizeof(error)), 0);
        assert_int_equal(stream_listen(&second, "127.0.0.1", port_text(&l), error, sizeof(error)),
                         -1);
        assert_non_null(strstr(error, strerror(EADDRINUSE)));
        stream_unlisten(&l);
        assert_int_equal(stream_connect(&s, "127.0.0.1", "1", PATIENCE, error, sizeof(error)), -1);
        assert_int_equal(errno, ECONNREFUSED);
        assert_non_null(strstr(error, strerror(ECONNREFUSED)));
        assert_false(stream_is_open(&s));
        assert_int_equal(stream_connect(&s, "[]", "1", PATIENCE, error, sizeof(error)), -1);
        assert_int_equal(errno, 0);
        assert_non_null(strstr(error, "[]: "));
}

/* A listener whose backlog is full answers no SYN. */
static void test_connect_times_out(void **state)
{
        struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct stream s[4] = { { 0 } };
        struct addrinfo to = { .ai_family = AF_INET,
                               .ai_addr = (void *)&in,
                               .ai_addrlen = sizeof(in) };
        socklen_t len = sizeof(in);
        uint64_t start;
        char port[8];

        (void)state;
        assert_int_equal(bind(fd, (void *)&in, len), 0);
        assert_int_equal(listen(fd, 0), 0);
        assert_int_equal(getsockname(fd, (void *)&in, &len), 0);
        snprintf(port, sizeof(port), "%u", ntohs(in.sin_port));
        for (unsigned i = 0; i < 3; i++)
                stream_begin_connect(&s[i], &to);
        start = loop_now_ms();
        assert_int_equal(stream_connect(&s[3], "127.0.0.1", port, 60, error, sizeof(error)), -1);
        assert_int_equal(errno, ETIMEDOUT);
        assert_non_null(strstr(error, strerror(ETIMEDOUT)));
        assert_in_range(loop_now_ms() - start, 59, PATIENCE);
        assert_false(stream_is_open(&s[3]));
        for (unsigned i = 0; i < 3; i++)
                stream_close(&s[i], true);
        close(fd);
}

static void test_connect_in_two_steps(void **state)
{
        struct addrinfo *where =
            net_resolve("127.0.0.1", port_text(&listener), 0, error, sizeof(error));
        struct stream s = { 0 };

        (void)state;
        if (stream_begin_connect(&s, where) < 0) {
                assert_int_equal(errno, EINPROGRESS);
                assert_true(stream_wait(&s, EPOLLOUT, PATIENCE) > 0);
                assert_int_equal(stream_end_connect(&s), 0);
        }
        assert_int_equal(put(&s, "x", 1), 1);
        stream_close(&s, false);
        freeaddrinfo(where);
        where = net_resolve("127.0.0.1", "1", 0, error, sizeof(error));
        if (stream_begin_connect(&s, where) < 0 && errno == EINPROGRESS) {
                assert_true(stream_wait(&s, EPOLLOUT, PATIENCE) > 0);
                assert_int_equal(stream_end_connect(&s), -1);
        }
        assert_int_equal(errno, ECONNREFUSED);
        assert_false(stream_is_open(&s));
        freeaddrinfo(where);
}

/* Without descriptors those who wait are turned away; in the backlog they would wake us forever. */
static void test_out_of_descriptors(void **state)
{
        struct rlimit was, tight;
        struct stream c = { 0 }, d = { 0 };
        struct pollfd p = { .fd = listener.source.fd, .events = POLLIN };

        (void)state;
        assert_int_equal(
            stream_connect(&c, "127.0.0.1", port_text(&listener), PATIENCE, error, sizeof(error)),
            0);
        assert_int_equal(loop_poll(&p, 1, PATIENCE), 1);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
        tight = was;
        tight.rlim_cur = (rlim_t)c.source.fd + 1;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
        assert_false(stream_accept(&listener, &d));
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
        assert_int_equal(loop_poll(&p, 1, 0), 0);
        assert_string_not_equal(next(&c), "timeout");
        stream_close(&c, false);
}

/* --- bytes, and the end of them --------------------------------------------------------------- */

static uint8_t pattern(size_t i)
{
        return (uint8_t)(i * 7 + (i >> 9));
}

/* Gathered from two places, taken in parts; what is not taken now is taken later. */
static void test_partial_writes(void **state)
{
        size_t sent = 0, got = 0;
        uint8_t *out = malloc(BULK), in[1000];
        bool full = false;

        (void)state;
        for (size_t i = 0; i < BULK; i++)
                out[i] = pattern(i);
        while (got < BULK) {
                const size_t left = BULK - sent;
                struct iovec iov[2] = { { out + sent, left / 2 },
                                        { out + sent + left / 2, left - left / 2 } };
                ssize_t n = left > 0 ? stream_write(&a, iov, 2) : 0;

                assert_true(n >= 0);
                sent += (size_t)n;
                if (n > 0) {
                        assert_int_equal(a.all, sent == BULK);
                        continue;
                }
                full |= left > 0;
                assert_true(stream_wait(&b, EPOLLIN, PATIENCE) > 0);
                while ((n = get(&b, in, sizeof(in))) > 0) {
                        assert_int_equal(b.all, n == sizeof(in));
                        for (ssize_t k = 0; k < n; k++)
                                assert_int_equal(in[k], pattern(got++));
                }
                assert_int_equal(n, 0);
        }
        assert_true(full);
        free(out);
}

static void test_ends_are_told_apart(void **state)
{
        (void)state;
        assert_string_equal(next(&b), "timeout");
        assert_int_equal(b.end, STREAM_OPEN);
        assert_int_equal(put(&a, "last", 4), 4);
        stream_close(&a, false);
        assert_string_equal(next(&b), "last");
        assert_string_equal(next(&b), "FIN");
        assert_int_equal(b.error, 0);
        assert_string_equal(next(&b), "FIN");
}

static void test_a_reset(void **state)
{
        (void)state;
        stream_close(&a, true);
        assert_string_equal(next(&b), "RST");
        assert_int_equal(b.error, ECONNRESET);
        assert_string_equal(next(&b), "RST");
}

/* The socket tells a reset once: to the write. */
static void test_a_reset_that_a_write_sees_first(void **state)
{
        (void)state;
        assert_int_equal(put(&a, "last", 4), 4);
        assert_true(stream_wait(&b, EPOLLIN, PATIENCE) > 0);
        stream_close(&a, true);
        assert_int_equal(put(&b, "x", 1), -1);
        assert_int_equal(b.error, ECONNRESET);
        assert_int_equal(b.end, STREAM_OPEN); /* there is more to read */
        assert_string_equal(next(&b), "last");
        assert_string_equal(next(&b), "RST");
}

/* The end was FIN; that our bytes were not wanted any more is another matter. */
static void test_a_write_after_the_peer_closed(void **state)
{
        (void)state;
        stream_close(&a, false);
        assert_true(stream_wait(&b, EPOLLIN, PATIENCE) > 0);
        assert_int_equal(put(&b, "x", 1), 1);
        assert_true(stream_wait(&b, 0, PATIENCE) > 0); /* its RST is here */
        assert_int_equal(put(&b, "x", 1), -1);
        assert_string_equal(next(&b), "FIN");
}

static void test_half_close(void **state)
{
        (void)state;
        assert_int_equal(stream_half_close(&a), 0);
        assert_string_equal(next(&b), "FIN");
        assert_int_equal(put(&b, "still here", 10), 10);
        assert_string_equal(next(&a), "still here");
        stream_close(&b, false);
        assert_string_equal(next(&a), "FIN");
}

static void *close_later(void *arg)
{
        char waste[16];

        usleep(50000);
        while (get(arg, waste, sizeof(waste)) >= 0)
                stream_wait(arg, EPOLLIN, PATIENCE);
        stream_close(arg, false);
        return NULL;
}

/* Our last words arrive although the peer's were not read. */
static void test_linger(void **state)
{
        pthread_t t;

        (void)state;
        assert_int_equal(put(&b, "unread", 6), 6);
        assert_int_equal(put(&a, "last words", 10), 10);
        pthread_create(&t, NULL, close_later, &b);
        stream_linger(&a, PATIENCE);
        assert_int_equal(a.end, STREAM_FIN);
        pthread_join(t, NULL);
        assert_int_equal(b.end, STREAM_FIN);
}

static void test_linger_ends(void **state)
{
        uint64_t start = loop_now_ms();

        (void)state;
        stream_linger(&a, 30);
        assert_in_range(loop_now_ms() - start, 29, PATIENCE);
        assert_int_equal(a.end, STREAM_OPEN);
}

static ssize_t read_flood(struct stream *s, const struct iovec *iov, int n)
{
        (void)s, (void)n;
        return (ssize_t)iov->iov_len;
}

static uint32_t want_flood(const struct stream *s, uint32_t events)
{
        (void)s;
        return events | STREAM_NOW;
}

/* As it may be over TLS, of which there is always a record to be had. */
static void test_linger_ends_in_a_flood(void **state)
{
        struct stream_ops flood = *a.ops;
        const struct stream_ops *own = a.ops;
        uint64_t start = loop_now_ms();

        (void)state;
        flood.read = read_flood;
        flood.wants = want_flood;
        a.ops = &flood;
        stream_linger(&a, 30);
        a.ops = own;
        assert_in_range(loop_now_ms() - start, 29, PATIENCE);
        assert_int_equal(a.end, STREAM_OPEN);
}

/* --- by hand ---------------------------------------------------------------------------------- */

struct dribble {
        unsigned pieces;
        uint64_t first, last;
        char text[64];
        size_t len;
};

static void on_piece(void *user, const void *p, size_t n)
{
        struct dribble *d = user;

        d->last = loop_now_ms();
        d->first = d->pieces++ ? d->first : d->last;
        assert_true(stream_wait(&b, EPOLLIN, PATIENCE) > 0);
        assert_int_equal(get(&b, d->text + d->len, sizeof(d->text) - d->len), n);
        assert_memory_equal(p, d->text + d->len, n);
        d->len += n;
}

static void test_pieces_with_a_pause(void **state)
{
        struct dribble d = { 0 };
        struct stream_hand h = { .piece = 3,
                                 .pause = 20,
                                 .deadline = loop_now_ms() + 30,
                                 .sent = on_piece,
                                 .user = &d };

        (void)state;
        assert_int_equal(stream_send(&a, "0123456789", 10, &h), 1);
        assert_int_equal(d.pieces, 4);
        assert_string_equal(d.text, "0123456789");
        assert_in_range(d.last - d.first, 57, PATIENCE);
        h.pause = h.piece = 0;
        assert_int_equal(stream_send(&a, "whole", 5, &h), 1);
        assert_int_equal(d.pieces, 5);
}

static void test_a_peer_that_takes_no_bytes(void **state)
{
        struct stream_hand h = { .deadline = loop_now_ms() + 50 };
        uint8_t *bytes = calloc(1, BULK);

        (void)state;
        while (stream_send(&a, bytes, BULK, &h) > 0)
                ;
        assert_true(loop_now_ms() >= h.deadline);
        assert_int_equal(a.end, STREAM_OPEN);
        free(bytes);
}

static void test_a_peer_that_is_gone(void **state)
{
        struct stream_hand h = { .piece = 1, .deadline = loop_now_ms() + PATIENCE };

        (void)state;
        stream_close(&b, true);
        assert_true(stream_wait(&a, EPOLLIN, PATIENCE) > 0);
        assert_int_equal(stream_send(&a, "xyz", 3, &h), -1);
        assert_int_equal(a.error, ECONNRESET);
}

struct both { /* an end that sends and receives at once */
        struct stream *s;
        uint8_t *bytes;
        size_t got;
        bool sent;
};

static bool read_meanwhile(void *user)
{
        static _Thread_local uint8_t in[65536];
        struct both *x = user;
        ssize_t n = get(x->s, in, sizeof(in));

        for (ssize_t i = 0; i < n; i++)
                assert_int_equal(in[i], pattern(x->got++));
        return n >= 0 && !(x->sent && x->got == BULK);
}

static void *exchange(void *arg)
{
        struct both *x = arg;
        struct stream_hand h = { .deadline = loop_now_ms() + 2ul * PATIENCE,
                                 .readable = read_meanwhile,
                                 .user = x };

        x->sent = stream_send(x->s, x->bytes, BULK, &h) == 1;
        assert_true(x->sent);
        if (x->got < BULK)
                assert_true(stream_serve(x->s, h.deadline, &h));
        assert_int_equal(x->got, BULK);
        return NULL;
}

/* More than both sockets hold, in both directions. */
static void test_two_full_sockets(void **state)
{
        uint8_t *bytes = malloc(BULK);
        struct both x = { &a, bytes, 0, false }, y = { &b, bytes, 0, false };
        pthread_t t;

        (void)state;
        for (size_t i = 0; i < BULK; i++)
                bytes[i] = pattern(i);
        pthread_create(&t, NULL, exchange, &y);
        exchange(&x);
        pthread_join(t, NULL);
        free(bytes);
}

static bool count_byte(void *user)
{
        unsigned *n = user;
        char c;

        return get(&b, &c, 1) == 1 && ++*n < 3;
}

/* As where a peer never stops sending. */
static bool leave_it(void *user)
{
        (void)user;
        return true;
}

static void test_deadline_of_what_is_always_readable(void **state)
{
        char *bytes = calloc(1, BULK);
        struct stream_hand h = { .readable = leave_it };

        (void)state;
        assert_non_null(bytes);
        assert_int_equal(put(&b, "1", 1), 1);
        assert_false(stream_serve(&a, loop_now_ms() + 20, &h));
        h.deadline = loop_now_ms() + 20;
        for (int rc = 1; rc > 0; h.deadline = loop_now_ms() + 20) {
                rc = stream_send(&a, bytes, BULK, &h);
                assert_true(rc >= 0);
        }
        free(bytes);
}

static void test_serve_until_enough_the_end_or_the_deadline(void **state)
{
        unsigned n = 0;
        struct stream_hand h = { .readable = count_byte, .user = &n };

        (void)state;
        assert_false(stream_serve(&b, loop_now_ms() + 20, &h));
        assert_int_equal(put(&a, "12345", 5), 5);
        assert_true(stream_serve(&b, loop_now_ms() + PATIENCE, &h));
        assert_int_equal(n, 3);
        n = 0;
        stream_close(&a, false);
        assert_true(stream_serve(&b, loop_now_ms() + PATIENCE, &h));
        assert_int_equal(n, 2);
        assert_int_equal(b.end, STREAM_FIN);
}

/* --- on a loop -------------------------------------------------------------------------------- */

static uint32_t seen;

static void on_ready(struct stream *s, uint32_t events)
{
        seen = events;
        if (events & EPOLLHUP)
                stream_close(s, false);
}

static void test_watch(void **state)
{
        struct loop l;

        (void)state;
        assert_int_equal(loop_init(&l), 0);
        b.ready = on_ready;
        assert_int_equal(stream_watch(&b, &l, EPOLLIN), 0);
        assert_int_equal(loop_turn(&l, 0), 0);
        assert_int_equal(put(&a, "x", 1), 1);
        assert_int_equal(loop_turn(&l, PATIENCE), 1);
        assert_int_equal(seen, EPOLLIN);
        assert_int_equal(stream_watch(&b, &l, EPOLLOUT), 0);
        assert_int_equal(loop_turn(&l, PATIENCE), 1);
        assert_int_equal(seen, EPOLLOUT);
        assert_int_equal(stream_watch(&b, &l, 0), 0);
        assert_int_equal(loop_turn(&l, 0), 0);
        stream_close(&a, true); /* comes unasked */
        assert_int_equal(loop_turn(&l, PATIENCE), 1);
        assert_true(seen & EPOLLHUP);
        assert_false(stream_is_open(&b));
        loop_fini(&l);
}

/* An implementation on top of TCP's, as TLS will be: to read it may have to write, and it may hold
 * bytes that the descriptor knows nothing of. */
static bool holds_bytes;

static uint32_t crossed(const struct stream *s, uint32_t events)
{
        (void)s;
        (void)events;
        return EPOLLOUT | (holds_bytes ? STREAM_NOW : 0);
}

static void test_another_implementation(void **state)
{
        struct stream_ops ops = *b.ops;
        struct pollfd p;
        struct loop l;

        (void)state;
        ops.wants = crossed;
        b.ops = &ops;
        b.ready = on_ready;
        assert_int_equal(loop_init(&l), 0);
        assert_int_equal(stream_watch(&b, &l, EPOLLIN), 0);
        assert_int_equal(loop_turn(&l, PATIENCE), 1);
        assert_int_equal(seen, EPOLLIN | EPOLLOUT); /* what the owner waits for can go on */
        assert_true(stream_pollfd(&b, EPOLLIN, &p));
        assert_int_equal(p.events, POLLOUT);
        assert_int_equal(stream_wait(&b, EPOLLIN, PATIENCE), EPOLLIN | EPOLLOUT);
        holds_bytes = true;
        assert_int_equal(stream_watch(&b, &l, EPOLLIN), 1);
        assert_false(stream_pollfd(&b, EPOLLIN, &p));
        assert_int_equal(stream_wait(&b, EPOLLIN, PATIENCE), EPOLLIN);
        holds_bytes = false;
        stream_close(&b, false);
        loop_fini(&l);
}

/* --- recording -------------------------------------------------------------------------------- */

enum { FIN = 1, RST = 4, ACK = 16, ETHERNET_IP = 14 + 20 };

/* "4420 FIN" ... of the packet that ended the connection, and the payload of both sides. */
static const char *recorded(const char *path, char payload[128])
{
        static char text[32];
        pcap_t *in = pcap_open_offline(path, error);
        struct pcap_pkthdr *h;
        const u_char *p;

        assert_non_null(in);
        text[0] = payload[0] = '\0';
        while (pcap_next_ex(in, &h, &p) == 1) {
                const u_char *tcp = p + ETHERNET_IP;
                unsigned head = ETHERNET_IP + (tcp[12] >> 4) * 4u;
                size_t len = strlen(payload);

                if (tcp[13] & (FIN | RST) && !text[0])
                        snprintf(text, sizeof(text), "%s %s",
                                 tcp[0] * 256 + tcp[1] == 4420 ? "controller" : "host",
                                 tcp[13] & RST ? "RST" : "FIN");
                snprintf(payload + len, 128 - len, "%.*s", (int)(h->caplen - head),
                         (const char *)p + head);
        }
        pcap_close(in);
        return text;
}

static void record(void (*act)(void), const char *ended)
{
        char path[] = "/tmp/test_stream.XXXXXX", payload[128];
        struct capture_writer *w;
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        w = capture_writer_open(path, error, sizeof(error));
        assert_non_null(w);
        stream_record(&a, w, PARTY_HOST);
        assert_int_equal(put(&a, "to and ", 7), 7);
        assert_string_equal(next(&b), "to and ");
        assert_int_equal(put(&b, "fro", 3), 3);
        assert_string_equal(next(&a), "fro");
        act();
        stream_close(&a, false);
        assert_int_equal(capture_writer_close(w), 0);
        assert_string_equal(recorded(path, payload), ended);
        assert_string_equal(payload, "to and fro");
        close(fd);
        unlink(path);
}

static void nothing(void)
{
}

static void close_b(void)
{
        stream_close(&b, false);
        assert_string_equal(next(&a), "FIN");
}

static void reset_b(void)
{
        stream_close(&b, true);
        assert_string_equal(next(&a), "RST");
}

static void reset_b_unread(void)
{
        stream_close(&b, true);
        assert_int_equal(put(&a, "x", 1), -1);
}

static void reset_a(void)
{
        stream_close(&a, true);
}

static void linger_a(void)
{
        pthread_t t;

        pthread_create(&t, NULL, close_later, &b);
        stream_linger(&a, PATIENCE);
        pthread_join(t, NULL);
}

static void test_recorded_we_close(void **state)
{
        (void)state;
        record(nothing, "host FIN");
}

static void test_recorded_the_peer_closes(void **state)
{
        (void)state;
        record(close_b, "controller FIN");
}

static void test_recorded_the_peer_resets(void **state)
{
        (void)state;
        record(reset_b, "controller RST");
}

static void test_recorded_a_write_sees_the_reset(void **state)
{
        (void)state;
        record(reset_b_unread, "controller RST");
}

static void test_recorded_we_reset(void **state)
{
        (void)state;
        record(reset_a, "host RST");
}

static void test_recorded_half_close(void **state)
{
        (void)state;
        record(linger_a, "host FIN");
}

#define PAIR(test) cmocka_unit_test_setup_teardown(test, make_pair, drop_pair)

int main(void)
{
        const struct CMUnitTest tests[] = {
                PAIR(test_connect_and_accept),
                cmocka_unit_test(test_ipv6),
                cmocka_unit_test(test_ipv4_to_a_socket_of_both),
                cmocka_unit_test(test_errors_name_what_was_wrong),
                cmocka_unit_test(test_connect_times_out),
                PAIR(test_connect_in_two_steps),
                PAIR(test_out_of_descriptors),
                PAIR(test_partial_writes),
                PAIR(test_ends_are_told_apart),
                PAIR(test_a_reset),
                PAIR(test_a_reset_that_a_write_sees_first),
                PAIR(test_a_write_after_the_peer_closed),
                PAIR(test_half_close),
                PAIR(test_linger),
                PAIR(test_linger_ends),
                PAIR(test_linger_ends_in_a_flood),
                PAIR(test_pieces_with_a_pause),
                PAIR(test_a_peer_that_takes_no_bytes),
                PAIR(test_a_peer_that_is_gone),
                PAIR(test_two_full_sockets),
                PAIR(test_deadline_of_what_is_always_readable),
                PAIR(test_serve_until_enough_the_end_or_the_deadline),
                PAIR(test_watch),
                PAIR(test_another_implementation),
                PAIR(test_recorded_we_close),
                PAIR(test_recorded_the_peer_closes),
                PAIR(test_recorded_the_peer_resets),
                PAIR(test_recorded_a_write_sees_the_reset),
                PAIR(test_recorded_we_reset),
                PAIR(test_recorded_half_close),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
