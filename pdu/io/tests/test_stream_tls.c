/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS between two streams over the loopback interface. */
#include "pdu/core/tests/check.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pdu/io/stream_tls.h"
#include "pdu/io/stream_tls_own.h"

enum { PATIENCE = 60000, BULK = 3 << 20 };

static struct stream_listener listener;
static struct stream client, server;
static struct tls *tls_client, *tls_server;

/* --- sockets, in place of the C library's ---------------------------------------------------------- */

static bool late;        /* the server speaks when the client has just looked in vain, once */
static bool full;        /* the server's has no room */
static unsigned offered; /* how often the kernel was to take over the client's records */

ssize_t recv(int fd, void *p, size_t n, int flags)
{
        ssize_t got = recvfrom(fd, p, n, flags, NULL, NULL);
        int saved = errno;
        uint8_t byte;

        if (got < 0 && late && fd == client.source.fd) {
                late = false;
                assert_true(stream_wait(&server, EPOLLIN, PATIENCE) > 0);
                assert_int_equal(stream_read(&server, &(struct iovec) { &byte, 1 }, 1), 0);
                assert_true(stream_wait(&client, EPOLLIN, PATIENCE) > 0);
        }
        errno = saved;
        return got;
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
        if (full && fd == server.source.fd) {
                errno = EAGAIN;
                return -1;
        }
        return syscall(SYS_sendmsg, fd, msg, flags);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
        offered += level == IPPROTO_TCP && name == TCP_ULP && fd == client.source.fd;
        return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

/* --- two streams ------------------------------------------------------------------------------------ */

static struct tls_psk key_of(const char *identity, enum tls_suite suite, uint8_t fill)
{
        struct tls_psk psk = { .suite = suite, .identity_len = (uint16_t)strlen(identity) };

        memcpy(psk.identity, identity, psk.identity_len);
        memset(psk.key, fill, sizeof(psk.key));
        return psk;
}

/* The server knows "aes128" and "aes256". */
static bool find(void *user, const void *identity, size_t len, struct tls_psk *psk)
{
        (void)user;
        if (len != 6 || memcmp(identity, "aes", 3) != 0)
                return false;
        *psk = key_of(memcmp(identity, "aes128", 6) == 0 ? "aes128" : "aes256",
                      memcmp(identity, "aes128", 6) == 0 ? TLS_AES_128_GCM : TLS_AES_256_GCM, 7);
        return true;
}

static int connect_pair(void **state)
{
        char error[NET_ERROR], port[8];
        struct pollfd p;

        (void)state;
        client = server = (struct stream) { 0 };
        if (stream_listen(&listener, "127.0.0.1", "0", error, sizeof(error)) < 0)
                return -1;
        snprintf(port, sizeof(port), "%u", stream_listener_port(&listener));
        if (stream_connect(&client, "127.0.0.1", port, PATIENCE, error, sizeof(error)))
                return -1;
        p = (struct pollfd) { .fd = listener.source.fd, .events = POLLIN };
        return loop_poll(&p, 1, PATIENCE) == 1 && stream_accept(&listener, &server) ? 0 : -1;
}

static int drop_pair(void **state)
{
        (void)state;
        full = false;
        stream_close(&client, false);
        stream_close(&server, false);
        stream_unlisten(&listener);
        tls_free(tls_client);
        tls_free(tls_server);
        tls_client = tls_server = NULL;
        return 0;
}

static void begin(const struct tls_config *c, const struct tls_config *s, const struct tls_psk *psk)
{
        struct tls_config cc = c ? *c : (struct tls_config) { 0 };
        struct tls_config sc = s ? *s : (struct tls_config) { 0 };

        cc.side = PARTY_HOST;
        sc.side = PARTY_CONTROLLER;
        sc.find = find;
        tls_client = tls_new(&cc);
        tls_server = tls_new(&sc);
        assert_non_null(tls_client);
        assert_non_null(tls_server);
        assert_int_equal(stream_tls_begin(&server, tls_server, NULL), 0);
        if (psk)
                assert_int_equal(stream_tls_begin(&client, tls_client, psk), 0);
}

/* One byte of each side, so that both have been through the handshake; false: one has ended. */
static bool greet(void)
{
        uint64_t deadline = loop_now_ms() + PATIENCE;
        bool sent = false, answered = false;
        uint8_t byte = 1;
        const struct iovec iov = { &byte, 1 };

        while (loop_now_ms() < deadline) {
                ssize_t got;

                if (!sent && stream_write(&client, &iov, 1) > 0)
                        sent = true;
                if (!answered && stream_read(&server, &iov, 1) > 0)
                        answered = stream_write(&server, &iov, 1) > 0;
                got = stream_read(&client, &iov, 1);
                if (got > 0)
                        return true;
                if (got < 0)
                        stream_wait(&server, EPOLLIN, 10); /* it may have been told why */
                if (got < 0 || server.end != STREAM_OPEN) {
                        (void)stream_read(&server, &iov, 1);
                        return false;
                }
        }
        fail_msg("no end of the handshake");
        return false;
}

static void both_suites_are_agreed_on(void **state)
{
        static const struct {
                const char *identity, *name;
                enum tls_suite suite;
        } offers[] = { { "aes128", "TLS_AES_128_GCM_SHA256", TLS_AES_128_GCM },
                       { "aes256", "TLS_AES_256_GCM_SHA384", TLS_AES_256_GCM } };

        for (unsigned i = 0; i < 2; i++) {
                struct tls_psk psk = key_of(offers[i].identity, offers[i].suite, 7);

                begin(NULL, NULL, &psk);
                assert_false(stream_tls_ready(&server));
                assert_null(stream_tls_suite(&server));
                assert_null(stream_tls_psk(&server));
                assert_true(greet());
                assert_true(stream_tls_ready(&client) && stream_tls_ready(&server));
                assert_string_equal(stream_tls_suite(&client), offers[i].name);
                assert_string_equal(stream_tls_suite(&server), offers[i].name);
                assert_memory_equal(stream_tls_psk(&server)->identity, offers[i].identity, 6);
                if (i == 0) {
                        drop_pair(state);
                        assert_int_equal(connect_pair(state), 0);
                }
        }
}

static void assert_refused(const struct tls_psk *psk, const struct tls_config *c,
                           const struct tls_config *s, const char *why)
{
        begin(c, s, psk);
        assert_false(greet());
        assert_int_equal(server.end, STREAM_LOST);
        assert_int_equal(server.error, EPROTO);
        if (!strstr(stream_why(&server), why))
                fail_msg("%s", stream_why(&server));
        assert_int_equal(client.end, STREAM_LOST);
        assert_non_null(strstr(stream_why(&client), "alert"));
}

/* Sees all of a ClientHello, as a record. */
static bool explain(void *user, const uint8_t *hello, size_t len, char *text, size_t size)
{
        *(unsigned *)user += 1;
        assert_true(len > 100);
        assert_memory_equal(hello, "\x16\x03\x01", 3);
        assert_int_equal(5 + (hello[3] << 8 | hello[4]), len);
        assert_int_equal(hello[5], 1);
        snprintf(text, size, "it is wrong");
        return true;
}

static void a_wrong_key_is_explained(void **state)
{
        static const struct {
                const char *identity, *server, *client;
        } offers[] = { { "aes128", "TLS: binder does not verify: it is wrong",
                         ": we offered aes128, derived as you like" },
                       { "other", "TLS: no key for the identity other: it is wrong",
                         ": we offered other, derived as you like" } };
        unsigned asked = 0;

        for (unsigned i = 0; i < 2; i++) {
                struct tls_psk psk = key_of(offers[i].identity, TLS_AES_128_GCM, 8);

                assert_refused(&psk, &(struct tls_config) { .derived = "as you like" },
                               &(struct tls_config) { .explain = explain, .user = &asked },
                               offers[i].server);
                assert_non_null(strstr(stream_why(&client), offers[i].client));
                assert_int_equal(asked, i + 1);
                if (i == 0) {
                        drop_pair(state);
                        assert_int_equal(connect_pair(state), 0);
                }
        }
}

/* With what a stranger has called itself. */
static bool explain_rudely(void *user, const uint8_t *hello, size_t len, char *text, size_t size)
{
        (void)user;
        (void)hello;
        (void)len;
        snprintf(text, size, "the key of \x1b[2J\nme\xff");
        return true;
}

static void what_is_explained_is_printable(void **state)
{
        struct tls_psk psk = key_of("aes128", TLS_AES_128_GCM, 8);

        (void)state;
        assert_refused(&psk, NULL, &(struct tls_config) { .explain = explain_rudely },
                       "TLS: binder does not verify: the key of .[2J.me.");
}

static void a_right_key_is_not_explained(void **state)
{
        struct tls_psk psk = key_of("aes256", TLS_AES_256_GCM, 7);
        unsigned asked = 0;

        (void)state;
        begin(NULL, &(struct tls_config) { .explain = explain, .user = &asked }, &psk);
        assert_true(greet());
        assert_int_equal(asked, 0);
}

static void an_unknown_identity_is_named(void **state)
{
        struct tls_psk psk = key_of("NVMe0R01 \x01 me", TLS_AES_128_GCM, 7);

        (void)state;
        assert_refused(&psk, NULL, NULL, "no key for the identity NVMe0R01 . me");
}

static void another_key_is_refused(void **state)
{
        struct tls_psk psk = key_of("aes128", TLS_AES_128_GCM, 8);

        (void)state;
        assert_refused(&psk, NULL, NULL, "binder");
}

static void a_suite_that_is_not_allowed_is_refused(void **state)
{
        struct tls_psk psk = key_of("aes128", TLS_AES_128_GCM, 7);

        (void)state;
        assert_refused(&psk, NULL, &(struct tls_config) { .suites = 1u << TLS_AES_256_GCM },
                       "no key for the identity aes128");
}

static void only_with_dhe(void **state)
{
        struct tls_psk psk = key_of("aes128", TLS_AES_128_GCM, 7);

        (void)state;
        begin(&(struct tls_config) { .dhe_only = true }, &(struct tls_config) { .dhe_only = true },
              &psk);
        assert_true(greet());
}

static void a_group_of_the_peers_choice(void **state)
{
        struct tls_psk psk = key_of("aes256", TLS_AES_256_GCM, 7);

        (void)state;
        begin(&(struct tls_config) { .groups = "ffdhe3072" }, NULL, &psk);
        assert_true(greet());
}

static void a_group_that_nobody_knows(void **state)
{
        (void)state;
        assert_null(tls_new(&(struct tls_config) { .side = PARTY_HOST, .groups = "none-such" }));
        assert_int_equal(errno, EINVAL);
}

static void plain_bytes_are_served_where_they_may_be(void **state)
{
        const struct iovec out = { "\0plain", 6 };
        char text[8];
        const struct iovec in = { text, sizeof(text) };

        (void)state;
        begin(NULL, &(struct tls_config) { .plain = true }, NULL);
        assert_int_equal(stream_read(&server, &in, 1), 0);
        assert_int_equal(stream_write(&server, &out, 1), 0); /* in which form is not known yet */
        assert_int_equal(stream_write(&client, &out, 1), 6);
        assert_true(stream_wait(&server, EPOLLIN, PATIENCE) > 0);
        assert_int_equal(stream_read(&server, &in, 1), 6);
        assert_memory_equal(text, "\0plain", 6);
        assert_false(stream_tls_ready(&server));
        assert_int_equal(stream_write(&server, &out, 1), 6);
        assert_true(stream_wait(&client, EPOLLIN, PATIENCE) > 0);
        assert_int_equal(stream_read(&client, &in, 1), 6);
}

static void plain_bytes_are_refused_elsewhere(void **state)
{
        const struct iovec out = { "\0plain", 6 };
        char text[8];
        const struct iovec in = { text, sizeof(text) };

        (void)state;
        begin(NULL, NULL, NULL);
        assert_int_equal(stream_write(&client, &out, 1), 6);
        assert_true(stream_wait(&server, EPOLLIN, PATIENCE) > 0);
        assert_int_equal(stream_read(&server, &in, 1), -1);
        assert_string_equal(stream_why(&server), "TLS: the peer does not begin with TLS");
}

static void who_leaves_in_the_handshake(void **state)
{
        char text[8];
        const struct iovec in = { text, sizeof(text) };

        (void)state;
        begin(NULL, NULL, NULL);
        assert_int_equal(stream_write(&client, &(struct iovec) { "\x16\x03\x01", 3 }, 1), 3);
        stream_close(&client, false);
        for (int i = 0; i < 100 && stream_read(&server, &in, 1) == 0; i++)
                stream_wait(&server, EPOLLIN, 100);
        assert_int_equal(server.end, STREAM_FIN);
        assert_non_null(strstr(stream_why(&server), "in the handshake"));
}

static bool no_keys(enum tls_suite suite, const uint8_t *secret, const char *label, uint8_t *out,
                    size_t len)
{
        (void)suite;
        (void)secret;
        (void)label;
        (void)out;
        (void)len;
        return false;
}

/* Else its records would begin with a number that one of ours has had. */
static void the_kernel_is_asked_before_any_data(void **state)
{
        struct tls_psk psk = key_of("aes128", TLS_AES_128_GCM, 7);
        uint8_t byte = 1;
        ssize_t put = 0;

        (void)state;
        begin(&(struct tls_config) { .kernel = no_keys }, NULL, &psk);
        offered = 0;
        late = true;
        for (int i = 0; i < 100 && put == 0; i++) {
                put = stream_write(&client, &(struct iovec) { &byte, 1 }, 1);
                assert_false(late);
        }
        assert_int_equal(put, 1);
        assert_int_equal(offered, 1);
}

/* --- much data, in both directions at once --------------------------------------------------------- */

struct mover {
        struct stream *s;
        uint8_t salt;
        size_t sent, got;
        bool good;
};

static uint8_t pattern(uint8_t salt, size_t at)
{
        return (uint8_t)(at * 7 + (at >> 8) + salt);
}

static void fill(uint8_t *p, size_t n, uint8_t salt, size_t at)
{
        for (size_t i = 0; i < n; i++)
                p[i] = pattern(salt, at + i);
}

static bool send_some(struct mover *m)
{
        uint8_t a[5000], b[20000];
        const struct iovec iov[] = { { a, sizeof(a) }, { b, 0 }, { b, sizeof(b) } };
        ssize_t put;

        if (m->sent >= BULK)
                return true;
        fill(a, sizeof(a), m->salt, m->sent);
        fill(b, sizeof(b), m->salt, m->sent + sizeof(a));
        put = stream_write(m->s, iov, 3);
        if (put > 0)
                m->sent += (size_t)put;
        return put >= 0;
}

static bool receive_some(struct mover *m)
{
        uint8_t a[333], b[9000];
        const struct iovec iov[] = { { a, sizeof(a) }, { b, sizeof(b) } };
        ssize_t got = stream_read(m->s, iov, 2);

        for (ssize_t i = 0; i < got; i++)
                if ((i < 333 ? a[i] : b[i - 333]) != pattern((uint8_t)!m->salt, m->got + (size_t)i))
                        return false;
        if (got > 0)
                m->got += (size_t)got;
        return got >= 0;
}

static void *move(void *arg)
{
        struct mover *m = arg;
        uint64_t deadline = loop_now_ms() + 2 * PATIENCE;

        m->good = true;
        while (m->good && (m->sent < BULK || m->got < BULK) && loop_now_ms() < deadline) {
                stream_wait(m->s, m->sent < BULK ? EPOLLIN | EPOLLOUT : EPOLLIN, 1000);
                m->good = send_some(m) && receive_some(m);
        }
        return NULL;
}

static void much_data_both_ways(void **state)
{
        struct tls_psk psk = key_of("aes256", TLS_AES_256_GCM, 7);
        struct mover a = { .s = &client, .salt = 0 }, b = { .s = &server, .salt = 1 };
        pthread_t thread;

        (void)state;
        begin(NULL, NULL, &psk);
        assert_int_equal(pthread_create(&thread, NULL, move, &a), 0);
        move(&b);
        pthread_join(thread, NULL);
        assert_true(a.good && b.good);
        assert_true(a.sent >= BULK && b.sent >= BULK && a.got >= BULK && b.got >= BULK);
}

/* The client asks for a KeyUpdate with each byte; how many of them have left. */
static unsigned ask_for_keys(unsigned times)
{
        uint8_t byte = 0;
        const struct iovec one = { &byte, 1 };
        unsigned i = 0;

        while (i < times && SSL_key_update(own(&client)->ssl, SSL_KEY_UPDATE_REQUESTED) == 1 &&
               stream_write(&client, &one, 1) == 1)
                i++;
        return i;
}

static unsigned read_all(struct stream *s)
{
        uint8_t bytes[4096];
        const struct iovec all = { bytes, sizeof(bytes) };
        unsigned sum = 0;

        for (ssize_t got; (got = stream_read(s, &all, 1)) > 0;)
                sum += (unsigned)got;
        return sum;
}

/* Each KeyUpdate that asks for one makes the server send; it goes on where the client reads again. */
static void who_is_owed_much_is_not_read_from(void **state)
{
        enum { ASKED = 20000, AT_ONCE = 500, KEPT = 256 * 1024 };
        struct tls_psk psk = key_of("aes128", TLS_AES_128_GCM, 7);
        uint64_t deadline;
        unsigned asked = 0, heard = 0;

        (void)state;
        begin(NULL, NULL, &psk);
        assert_true(greet());
        full = true;
        for (unsigned i = 0; i < ASKED / AT_ONCE; i++) {
                asked += ask_for_keys(AT_ONCE);
                heard += read_all(&server);
                assert_true(own(&server)->unsent_len <= KEPT);
        }
        full = false;
        assert_true(heard < asked);
        for (deadline = loop_now_ms() + PATIENCE; heard < asked && loop_now_ms() < deadline;) {
                assert_true(stream_wait(&server, EPOLLIN, PATIENCE) > 0);
                heard += read_all(&server);
                read_all(&client);
        }
        assert_int_equal(heard, asked);
}

/* A server that looks at the ClientHello is told of an end before there is one. */
static bool record_nothing(void *user, struct stream *s, const uint8_t *hello, size_t len)
{
        (void)user, (void)s, (void)hello, (void)len;
        return false;
}

static void who_leaves_before_the_hello(void **state)
{
        static const uint8_t part[] = { 0x16, 3, 1, 1, 0, 1 };
        const struct tls_config looks = { .take_over = record_nothing };
        uint8_t byte;
        const struct iovec iov = { &byte, 1 }, begun = { (void *)(uintptr_t)part, sizeof(part) };

        for (unsigned some = 0; some < 2; some++) {
                if (some) {
                        drop_pair(state);
                        assert_int_equal(connect_pair(state), 0);
                }
                begin(NULL, &looks, NULL);
                if (some)
                        assert_int_equal(stream_write(&client, &begun, 1), sizeof(part));
                assert_int_equal(stream_half_close(&client), 0);
                assert_true(stream_wait(&server, EPOLLIN, PATIENCE) > 0);
                usleep(50000);
                assert_int_equal(stream_read(&server, &iov, 1), -1);
                assert_int_not_equal(server.end, STREAM_OPEN);
        }
}

/* ... and of nothing until there is more of one. */
static void a_hello_in_part_is_waited_for(void **state)
{
        static const uint8_t hello[] = { 0x16, 3, 1, 0, 4, 1, 0, 0, 0 };
        const struct tls_config looks = { .take_over = record_nothing };
        uint8_t byte;
        const struct iovec iov = { &byte, 1 };

        (void)state;
        begin(NULL, &looks, NULL);
        for (size_t i = 0; i < sizeof(hello); i++) {
                const struct iovec next = { (void *)(uintptr_t)(hello + i), 1 };

                assert_int_equal(stream_write(&client, &next, 1), 1);
                assert_true(stream_wait(&server, EPOLLIN, PATIENCE) > 0);
                if (i + 1 == sizeof(hello))
                        break;
                assert_int_equal(stream_read(&server, &iov, 1), 0);
                assert_int_equal(stream_wait(&server, EPOLLIN, 10), 0);
        }
        assert_int_equal(stream_read(&server, &iov, 1), -1); /* OpenSSL takes it for none */
}

static void an_end_is_heard(void **state)
{
        struct tls_psk psk = key_of("aes128", TLS_AES_128_GCM, 7);
        uint8_t byte;
        const struct iovec iov = { &byte, 1 };

        (void)state;
        begin(NULL, NULL, &psk);
        assert_true(greet());
        assert_int_equal(stream_half_close(&client), 0);
        assert_true(stream_wait(&server, EPOLLIN, PATIENCE) > 0);
        assert_int_equal(stream_read(&server, &iov, 1), -1);
        assert_int_equal(server.end, STREAM_FIN);
        assert_int_equal(stream_write(&server, &iov, 1), 1); /* the other direction is open */
        assert_true(stream_wait(&client, EPOLLIN, PATIENCE) > 0);
        assert_int_equal(stream_read(&client, &iov, 1), 1);
}

static void secrets_are_logged_on_request(void **state)
{
        struct tls_psk psk = key_of("aes128", TLS_AES_128_GCM, 7);
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        (void)state;
        begin(NULL, &(struct tls_config) { .keylog = f }, &psk);
        assert_true(greet());
        fclose(f);
        assert_non_null(strstr(text, "CLIENT_TRAFFIC_SECRET_0 "));
        assert_non_null(strstr(text, "SERVER_TRAFFIC_SECRET_0 "));
        free(text);
}

#define PAIR(f) cmocka_unit_test_setup_teardown(f, connect_pair, drop_pair)

int main(void)
{
        const struct CMUnitTest tests[] = {
                PAIR(both_suites_are_agreed_on),
                PAIR(a_wrong_key_is_explained),
                PAIR(what_is_explained_is_printable),
                PAIR(a_right_key_is_not_explained),
                PAIR(an_unknown_identity_is_named),
                PAIR(another_key_is_refused),
                PAIR(a_suite_that_is_not_allowed_is_refused),
                PAIR(only_with_dhe),
                PAIR(a_group_of_the_peers_choice),
                cmocka_unit_test(a_group_that_nobody_knows),
                PAIR(plain_bytes_are_served_where_they_may_be),
                PAIR(plain_bytes_are_refused_elsewhere),
                PAIR(who_leaves_in_the_handshake),
                PAIR(the_kernel_is_asked_before_any_data),
                PAIR(much_data_both_ways),
                PAIR(who_is_owed_much_is_not_read_from),
                PAIR(who_leaves_before_the_hello),
                PAIR(a_hello_in_part_is_waited_for),
                PAIR(an_end_is_heard),
                PAIR(secrets_are_logged_on_request),
        };
        struct tls *t = tls_new(&(struct tls_config) { .side = PARTY_HOST });

        if (!t && errno == ENOTSUP)
                return 77;
        tls_free(t);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
