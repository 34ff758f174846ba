/* SPDX-License-Identifier: BSD-3-Clause */
/* Two streams over TLS by hand, over the loopback interface. */
#include "pdu/core/tests/check.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "pdu/core/tls.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/hand_stream.h"

enum { PATIENCE = 60000, BULK = 1 << 20 };

static struct stream_listener listener;
static struct stream ends[2]; /* of enum party */
static unsigned updates, closes, gone, sends;

static struct hand_stream *hand_of(enum party side)
{
        return hand_stream_of(&ends[side]);
}

/* Data is given; KeyUpdate is followed; close_notify is the end; all else ends it. */
static size_t on_record(struct stream *s, uint8_t *record, size_t len)
{
        struct hand_stream *h = hand_stream_of(s);
        uint8_t content[HAND_IN], type;
        ssize_t n = tls_hand_open(&h->hand, record, len, content, &type);

        if (n < 0)
                return 0;
        if (type == TLS_DATA)
                return hand_stream_give(s, content, (size_t)n) ? len : 0;
        if (type == TLS_HANDSHAKE && tls_hand_update(&h->hand, peer_of(h->hand.self)) == 0)
                updates++;
        h->over = type == TLS_ALERTS;
        return len;
}

static bool on_sends(struct stream *s)
{
        return ++sends % 5 != 0 || hand_stream_put_update(s, 0);
}

static void on_closes(struct stream *s)
{
        closes++;
        hand_stream_put_record(s, TLS_ALERTS, "\1\0", 2, 0);
}

static void on_gone(struct stream *s)
{
        (void)s;
        gone++;
}

static const struct hand_stream_ops ops = { on_record, on_sends, on_closes, on_gone };

/* The socket is full soon. */
static void shrink(enum party side)
{
        const int bytes = 16384;
        int fd = ends[side].source.fd;

        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

static void begin(enum party side)
{
        static const struct auth_slice client = { "client", 6 }, server = { "server", 6 },
                                       share = { "", 0 };
        const struct tls_psk psk = { .suite = TLS_AES_128_GCM, .key = { 1, 2, 3 } };
        struct hand_stream *h = calloc(1, sizeof(*h));

        shrink(side);
        assert_int_equal(
            tls_hand_begin(&h->hand, side, &psk, &client, &server, TLS_NO_GROUP, &share), 0);
        h->ready = true;
        hand_stream_begin(&ends[side], h, &ops);
}

static int connect_pair(void **state)
{
        char error[NET_ERROR], port[8];
        struct pollfd p;

        (void)state;
        updates = closes = gone = sends = 0;
        memset(ends, 0, sizeof(ends));
        if (stream_listen(&listener, "127.0.0.1", "0", error, sizeof(error)) < 0)
                return -1;
        snprintf(port, sizeof(port), "%u", stream_listener_port(&listener));
        if (stream_connect(&ends[PARTY_HOST], "127.0.0.1", port, PATIENCE, error, sizeof(error)))
                return -1;
        p = (struct pollfd) { .fd = listener.source.fd, .events = POLLIN };
        if (loop_poll(&p, 1, PATIENCE) != 1 || !stream_accept(&listener, &ends[PARTY_CONTROLLER]))
                return -1;
        begin(PARTY_HOST);
        begin(PARTY_CONTROLLER);
        return 0;
}

static int drop_pair(void **state)
{
        (void)state;
        stream_close(&ends[PARTY_HOST], false);
        stream_close(&ends[PARTY_CONTROLLER], false);
        stream_unlisten(&listener);
        return 0;
}

static uint8_t byte_at(size_t at)
{
        return (uint8_t)(at * 7 + at / 251);
}

/* What has come in place at; how much. */
static size_t take(struct stream *s, size_t at)
{
        uint8_t got[5000];
        const struct iovec iov[] = { { got, 1000 }, { got + 1000, 4000 } };
        ssize_t n = stream_read(s, iov, 2);

        assert_true(n >= 0);
        for (size_t i = 0; i < (size_t)n; i++)
                assert_int_equal(got[i], byte_at(at + i));
        return (size_t)n;
}

/* The reader waits until the socket is full, so that records are left over. */
static void move(struct stream *from, struct stream *to)
{
        static uint8_t data[BULK];
        uint64_t deadline = loop_now_ms() + PATIENCE;
        size_t out = 0, in = 0;
        unsigned full = 0;

        for (size_t i = 0; i < BULK; i++)
                data[i] = byte_at(i);
        while (in < BULK && loop_now_ms() < deadline) {
                const struct iovec iov[] = { { data + out, (BULK - out) / 2 },
                                             { data + out + (BULK - out) / 2,
                                               BULK - out - (BULK - out) / 2 } };
                ssize_t put = out < BULK ? stream_write(from, iov, 2) : 0;
                size_t got;

                assert_true(put >= 0);
                out += (size_t)put;
                full += put == 0;
                got = take(to, in);
                in += got;
                if (out == BULK && got == 0)
                        (void)stream_read(
                            from, iov, 1); /* as an owner does that has nothing to send: flushes */
        }
        assert_int_equal(in, BULK);
        assert_true(full > 0);
}

static void much_data_comes_in_order(void **state)
{
        (void)state;
        move(&ends[PARTY_HOST], &ends[PARTY_CONTROLLER]);
        assert_int_equal(updates, sends / 5);
        assert_true(updates > 2);
}

static void pieces_and_padding(void **state)
{
        (void)state;
        hand_of(PARTY_CONTROLLER)->piece = 97;
        hand_of(PARTY_CONTROLLER)->pad = 200;
        move(&ends[PARTY_CONTROLLER], &ends[PARTY_HOST]);
        assert_true(sends > BULK / 97);
}

static void nothing_is_written_before_it_is_ready(void **state)
{
        const struct iovec iov = { (uint8_t[]) { 1 }, 1 };

        (void)state;
        hand_of(PARTY_HOST)->ready = false;
        assert_int_equal(stream_write(&ends[PARTY_HOST], &iov, 1), 0);
        hand_of(PARTY_HOST)->ready = true;
        assert_int_equal(stream_write(&ends[PARTY_HOST], &iov, 1), 1);
}

static ssize_t read_end(enum party side)
{
        uint8_t byte;
        const struct iovec iov = { &byte, 1 };

        (void)stream_wait(&ends[side], EPOLLIN, PATIENCE);
        return stream_read(&ends[side], &iov, 1);
}

static void a_close_is_said_once(void **state)
{
        (void)state;
        assert_int_equal(stream_half_close(&ends[PARTY_HOST]), 0);
        assert_int_equal(read_end(PARTY_CONTROLLER), -1);
        assert_int_equal(ends[PARTY_CONTROLLER].end, STREAM_FIN);
        assert_true(hand_of(PARTY_CONTROLLER)->over && !hand_of(PARTY_CONTROLLER)->ended);
        stream_close(&ends[PARTY_HOST], false);
        assert_int_equal(closes, 1);
        assert_int_equal(gone, 1);
}

static void an_end_that_is_not_said(void **state)
{
        (void)state;
        stream_close(&ends[PARTY_HOST], true);
        assert_int_equal(read_end(PARTY_CONTROLLER), -1);
        assert_int_equal(closes, 0);
        assert_true(hand_of(PARTY_CONTROLLER)->ended && !hand_of(PARTY_CONTROLLER)->over);
}

/* Its last words are still to be read when writing has failed. */
static void who_resets_is_heard_first(void **state)
{
        const struct iovec byte = { (uint8_t[]) { 7 }, 1 };
        uint8_t got = 0;
        const struct iovec to = { &got, 1 };

        (void)state;
        assert_int_equal(stream_write(&ends[PARTY_CONTROLLER], &byte, 1), 1);
        assert_true(stream_wait(&ends[PARTY_HOST], EPOLLIN, PATIENCE) > 0);
        assert_int_equal(stream_write(&ends[PARTY_HOST], &byte, 1), 1);
        stream_close(&ends[PARTY_HOST], false); /* what it has not read makes that a reset */
        for (unsigned i = 0; i < 5000 && !hand_of(PARTY_CONTROLLER)->ended; i++) {
                assert_int_equal(stream_write(&ends[PARTY_CONTROLLER], &byte, 1), 1);
                loop_poll(NULL, 0, 1);
        }
        assert_int_equal(stream_read(&ends[PARTY_CONTROLLER], &to, 1), 1);
        assert_int_equal(got, 7);
        assert_int_equal(read_end(PARTY_CONTROLLER), -1);
        assert_true(hand_of(PARTY_CONTROLLER)->ended && !hand_of(PARTY_CONTROLLER)->failed);
}

static void what_was_looked_at_is_dropped(void **state)
{
        static const uint8_t seen[] = { 1, 2, 3 };
        const struct iovec iov = { (uint8_t[]) { 7 }, 1 };

        (void)state;
        assert_false(hand_stream_skip(&ends[PARTY_CONTROLLER], sizeof(seen)));
        assert_false(hand_stream_skip(&ends[PARTY_CONTROLLER], HAND_IN + 1));
        assert_true(hand_stream_put(&ends[PARTY_HOST], seen, sizeof(seen)));
        assert_int_equal(stream_write(&ends[PARTY_HOST], &iov, 1), 1);
        assert_true(stream_wait(&ends[PARTY_CONTROLLER], EPOLLIN, PATIENCE) > 0);
        assert_true(hand_stream_skip(&ends[PARTY_CONTROLLER], sizeof(seen)));
        assert_int_equal(read_end(PARTY_CONTROLLER), 1);
}

static void what_its_owner_refuses_ends_it(void **state)
{
        static const uint8_t plain[] = { 1, 0, 128, 0 }, endless[] = { TLS_DATA, 3, 3, 255, 255 };

        (void)state;
        assert_true(hand_stream_put(&ends[PARTY_HOST], plain, sizeof(plain)));
        assert_int_equal(read_end(PARTY_CONTROLLER), -1);
        assert_int_equal(ends[PARTY_CONTROLLER].end, STREAM_LOST);
        assert_int_equal(ends[PARTY_CONTROLLER].error, EPROTO);
        assert_true(hand_stream_put(&ends[PARTY_CONTROLLER], endless, sizeof(endless)));
        for (unsigned i = 0; i < HAND_IN / 1000 + 1; i++) {
                static const uint8_t more[1000];

                hand_stream_put(&ends[PARTY_CONTROLLER], more, sizeof(more));
                if (ends[PARTY_HOST].end == STREAM_OPEN)
                        (void)read_end(PARTY_HOST);
        }
        assert_int_equal(ends[PARTY_HOST].error, EPROTO);
}

static void what_has_no_room_is_not_sent(void **state)
{
        static const uint8_t large[HAND_OUT + 1];

        (void)state;
        assert_false(hand_stream_put(&ends[PARTY_HOST], large, sizeof(large)));
        assert_false(hand_stream_put(&ends[PARTY_HOST], large, 0));
        assert_false(
            hand_stream_put_record(&ends[PARTY_HOST], TLS_DATA, large, TLS_SEALED_MAX, 5000));
}

#define PAIR(f) cmocka_unit_test_setup_teardown(f, connect_pair, drop_pair)

int main(void)
{
        const struct CMUnitTest tests[] = {
                PAIR(much_data_comes_in_order),
                PAIR(pieces_and_padding),
                PAIR(nothing_is_written_before_it_is_ready),
                PAIR(a_close_is_said_once),
                PAIR(an_end_that_is_not_said),
                PAIR(who_resets_is_heard_first),
                PAIR(what_was_looked_at_is_dropped),
                PAIR(what_its_owner_refuses_ends_it),
                PAIR(what_has_no_room_is_not_sent),
        };

        return auth_openssl() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
