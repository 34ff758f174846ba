/* SPDX-License-Identifier: BSD-3-Clause */
/* What the TLS of a play's target makes of hosts that are unlike ours: a host by hand, over the loopback interface. */
#include "pdu/core/tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conformance/host/stage_tls.h"
#include "pdu/core/tls.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/tls_hand.h"
#include "pdu/nvme/io/tls_record.h"
#include "pdu/nvme/wire/tcp.h"

#define PSK "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"

enum { PATIENCE = 60000, HEADER = 5, CERTIFICATE = 11 };

static struct stream_listener listener;
static struct stream host, target;
static struct nvme_tls_server server;
static struct tls_seen seen;
static struct stage_tls stage;

static struct tls_psk psk;
static struct tls_hello hello;
static struct tls_said said;
static struct tls_hand hand; /* the host's */

/* --- the host ------------------------------------------------------------------------------------- */

static void put(const void *p, size_t n)
{
        const struct iovec iov = { (void *)(uintptr_t)p, n };

        assert_int_equal(stream_write(&host, &iov, 1), n);
}

static void put_record(uint8_t type, const void *content, size_t n)
{
        uint8_t record[TLS_RECORD_MORE + 256];

        put(record, tls_hand_seal(&hand, type, content, n, 0, record));
}

static void put_hello(void)
{
        uint8_t record[TLS_HELLO_MAX];
        size_t n = tls_hello_build(auth_openssl(), &hello, record);

        assert_true(tls_said_add(&said, record + HEADER, n - HEADER));
        put(record, n);
}

static void get(uint8_t *p, size_t n)
{
        while (n > 0) {
                const struct iovec iov = { p, n };
                ssize_t got;

                assert_true(stream_wait(&host, EPOLLIN, PATIENCE) > 0);
                got = stream_read(&host, &iov, 1);
                assert_true(got >= 0);
                p += got;
                n -= (size_t)got;
        }
}

/* The next record but ChangeCipherSpec; bytes. */
static size_t get_record(uint8_t record[TLS_SEALED_MAX])
{
        size_t n;

        do {
                get(record, HEADER);
                n = (size_t)(record[3] << 8 | record[4]);
                assert_true(HEADER + n <= TLS_SEALED_MAX);
                get(record + HEADER, n);
        } while (record[0] == TLS_CHANGE_CIPHER);
        return HEADER + n;
}

static struct tls_answer get_answer(uint8_t record[TLS_SEALED_MAX])
{
        struct tls_answer a = tls_answer_read(record, get_record(record));

        assert_int_equal(a.message_len, a.len - HEADER);
        return a;
}

/* The target's flight up to its Finished, whatever that proves. */
static void get_flight(void)
{
        uint8_t record[TLS_SEALED_MAX], content[TLS_SEALED_MAX], type;
        struct tls_answer a = get_answer(record);
        const struct auth_slice before = { said.p, said.len },
                                answer = { record + HEADER, a.message_len },
                                share = { a.share, a.share_len };
        ssize_t n;

        assert_int_equal(a.kind, TLS_SERVER_HELLO);
        assert_int_equal(tls_hand_begin(&hand, PARTY_HOST, &psk, &before, &answer, a.group, &share),
                         0);
        do {
                n = tls_hand_open(&hand, record, get_record(record), content, &type);
                assert_true(n > 0 && type == TLS_HANDSHAKE);
                assert_int_equal(tls_hand_heard(&hand, content, (size_t)n), 0);
        } while (content[0] != TLS_FINISHED);
}

static void complete(void)
{
        assert_int_equal(tls_hand_complete(&hand), 0);
        assert_int_equal(tls_hand_switch(&hand, PARTY_CONTROLLER), 0);
}

/* Our Finished, in records of so many bytes. */
static void finish(size_t piece)
{
        uint8_t message[TLS_FINISHED_MAX];
        size_t n = tls_hand_finished(&hand, PARTY_HOST, message);

        complete();
        for (size_t at = 0; at < n; at += piece)
                put_record(TLS_HANDSHAKE, message + at, n - at < piece ? n - at : piece);
        assert_int_equal(tls_hand_switch(&hand, PARTY_HOST), 0);
}

/* --- the target ----------------------------------------------------------------------------------- */

/* What it reads of so many bytes that the host has sent; -1: it has ended the connection. */
static ssize_t serve(uint8_t *data, size_t size)
{
        const struct iovec iov = { data, size };
        ssize_t n = 0;

        while (n == 0 && stream_wait(&target, EPOLLIN, PATIENCE) > 0)
                n = stream_read(&target, &iov, 1);
        return n;
}

/* It reads all that is there, and has no data of it. False: it has ended the connection. */
static bool digests(void)
{
        uint8_t byte;
        const struct iovec iov = { &byte, 1 };
        ssize_t n = 0;

        while (n == 0 && stream_wait(&target, EPOLLIN, 100) > 0)
                n = stream_read(&target, &iov, 1);
        assert_true(n <= 0);
        return n == 0;
}

static void say(const char *text)
{
        const struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };

        assert_int_equal(stream_write(&target, &iov, 1), strlen(text));
}

static void take(void)
{
        uint8_t record[TLS_HELLO_MAX];
        ssize_t n;

        do {
                assert_true(stream_wait(&target, EPOLLIN, PATIENCE) > 0);
                n = recv(target.source.fd, record, sizeof(record), MSG_PEEK);
                assert_true(n > 0);
        } while (tls_record_len(record, (size_t)n) == 0);
        assert_true(stage_tls_take(&stage, &server, &target, record, (size_t)n));
}

/* --- both ----------------------------------------------------------------------------------------- */

static void make_key(void)
{
        struct tls_identity id = { .suite = TLS_AES_128_GCM,
                                   .hostnqn = "nqn.2026-01.org.example:host",
                                   .subnqn = "nqn.2026-01.org.example:subsystem" };

        memset(&server, 0, sizeof(server));
        assert_null(tls_key_parse(&server.tls.key, PSK));
        assert_int_equal(tls_key_derive(auth_openssl(), &server.tls.key, &id, TLS_PRINTED, &psk),
                         0);
        hello = (struct tls_hello) { .version = TLS_1_3,
                                     .suites = 1u << TLS_AES_128_GCM,
                                     .modes = TLS_PSK_DHE_KE,
                                     .group = TLS_X25519,
                                     .spare_group = TLS_SECP256R1,
                                     .psk = &psk,
                                     .session_len = 32,
                                     .random = { 7 } };
}

static int connect_pair(void **state)
{
        char error[NET_ERROR], port[8];

        (void)state;
        make_key();
        memset(&host, 0, sizeof(host));
        memset(&target, 0, sizeof(target));
        memset(&seen, 0, sizeof(seen));
        said.len = 0;
        if (stream_listen(&listener, "127.0.0.1", "0", error, sizeof(error)) < 0)
                return -1;
        snprintf(port, sizeof(port), "%u", stream_listener_port(&listener));
        if (stream_connect(&host, "127.0.0.1", port, PATIENCE, error, sizeof(error)) < 0)
                return -1;
        for (unsigned i = 0; i < PATIENCE && !stream_accept(&listener, &target); i++)
                loop_poll(NULL, 0, 1);
        return stream_is_open(&target) ? 0 : -1;
}

static int drop_pair(void **state)
{
        (void)state;
        stream_close(&host, false);
        stream_close(&target, false);
        stream_unlisten(&listener);
        tls_hand_end(&hand);
        return 0;
}

/* Up to the target's Finished. */
static void begin(enum tls_act act)
{
        stage = (struct stage_tls) { act, &seen };
        put_hello();
        take();
        get_flight();
}

/* Up to data: the host has sent a byte, and the target answers it. */
static void open_both(enum tls_act act)
{
        uint8_t byte = 0;

        begin(act);
        finish(TLS_FINISHED_MAX);
        put_record(TLS_DATA, "x", 1);
        assert_int_equal(serve(&byte, 1), 1);
        say("y");
}

static void assert_blameless(void)
{
        stream_close(&target, false);
        assert_true(seen.done && !seen.went_on && !seen.left && !seen.wrong);
}

/* --- tests ---------------------------------------------------------------------------------------- */

static void messages_of_a_host_come_in_pieces(void **state)
{
        static const uint8_t update[] = { TLS_KEY_UPDATE, 0, 0, 1, 0 };
        uint8_t data[8] = "";

        (void)state;
        begin(TLS_ACT_USUAL);
        finish(5);
        for (size_t i = 0; i < sizeof(update); i++)
                put_record(TLS_HANDSHAKE, update + i, 1);
        assert_int_equal(tls_hand_update(&hand, PARTY_HOST), 0);
        put_record(TLS_DATA, "data", 4);
        assert_int_equal(serve(data, sizeof(data)), 4);
        assert_string_equal((char *)data, "data");
        assert_blameless();
}

static void a_host_may_ask_for_an_update(void **state)
{
        static const uint8_t asks[] = { TLS_KEY_UPDATE, 0, 0, 1, 1 };
        uint8_t record[TLS_SEALED_MAX], content[TLS_SEALED_MAX], type, byte = 0;

        (void)state;
        begin(TLS_ACT_USUAL);
        finish(TLS_FINISHED_MAX);
        put_record(TLS_HANDSHAKE, asks, sizeof(asks));
        assert_int_equal(tls_hand_update(&hand, PARTY_HOST), 0);
        put_record(TLS_DATA, "x", 1);
        assert_int_equal(serve(&byte, 1), 1);
        assert_int_equal(tls_hand_open(&hand, record, get_record(record), content, &type), 5);
        assert_true(type == TLS_HANDSHAKE && content[0] == TLS_KEY_UPDATE && content[4] == 0);
        assert_blameless();
}

static void data_before_finished_is_not_taken(void **state)
{
        (void)state;
        begin(TLS_ACT_USUAL);
        put_record(TLS_DATA, "x", 1);
        assert_false(digests());
}

/* By close_notify it ends the connection, and says nothing of an error. */
static void a_close_is_no_error_alert(void **state)
{
        (void)state;
        begin(TLS_ACT_PROOF);
        put_record(TLS_ALERTS, "\1\0", 2);
        assert_false(digests());
        assert_blameless();
        assert_true(!seen.alerted && seen.ended_ns > 0);
}

static void an_error_alert_is_kept(void **state)
{
        (void)state;
        begin(TLS_ACT_PROOF);
        put_record(TLS_ALERTS, "\2\x33", 2);
        assert_false(digests());
        assert_blameless();
        assert_true(seen.alerted && seen.alert == 51 && seen.ended_ns > 0);
}

static void who_stays_has_left_it_open(void **state)
{
        (void)state;
        begin(TLS_ACT_PROOF);
        assert_true(digests());
        stream_close(&target, false);
        assert_true(seen.done && seen.left && !seen.went_on && seen.ended_ns == 0);
}

static void who_finishes_has_gone_on(void **state)
{
        (void)state;
        begin(TLS_ACT_PROOF);
        finish(TLS_FINISHED_MAX);
        assert_true(digests());
        assert_true(seen.went_on);
}

static void another_message_is_to_go_on(void **state)
{
        static const uint8_t certificate[] = { CERTIFICATE, 0, 0, 4, 0, 0, 0, 0 };

        (void)state;
        begin(TLS_ACT_CERTIFICATE);
        put_record(TLS_HANDSHAKE, certificate, sizeof(certificate));
        assert_false(digests());
        stream_close(&target, false);
        assert_true(seen.went_on && !seen.left);
}

/* The target writes on, and finds that out by it. */
static void who_resets_has_not_left_it_open(void **state)
{
        (void)state;
        open_both(TLS_ACT_TAG);
        put_record(TLS_ALERTS, "\2\x14", 2);
        stream_close(&host, false); /* what it has not read makes that a reset */
        for (unsigned i = 0; i < 100; i++) {
                say("y");
                loop_poll(NULL, 0, 1);
        }
        assert_false(digests());
        assert_blameless();
        assert_true(seen.alerted && seen.alert == 20 && seen.ended_ns > 0);
}

static void after_close_notify_a_host_may_take_leave(void **state)
{
        static const uint8_t term[24] = { PDU_H2C_TERM, 0, 24, 0, 24 };
        uint8_t data[sizeof(term)];

        (void)state;
        open_both(TLS_ACT_CLOSED);
        put_record(TLS_DATA, term, sizeof(term));
        assert_int_equal(serve(data, sizeof(data)), sizeof(term));
        stream_close(&host, true);
        assert_false(digests());
        assert_blameless();
}

static void after_close_notify_a_host_may_not_go_on(void **state)
{
        static const uint8_t command[72] = { PDU_CAPSULE_CMD, 0, 72, 0, 72 };
        uint8_t data[sizeof(command)];

        (void)state;
        open_both(TLS_ACT_CLOSED);
        put_record(TLS_DATA, command, sizeof(command));
        assert_int_equal(serve(data, sizeof(data)), sizeof(command));
        assert_true(seen.went_on);
}

/* The second ClientHello has the group that was asked for, or it is none. */
static void try_again(bool shares)
{
        uint8_t record[TLS_SEALED_MAX];
        struct tls_answer a;

        stage = (struct stage_tls) { TLS_ACT_RETRY, &seen };
        put_hello();
        take();
        a = get_answer(record);
        assert_int_equal(a.kind, TLS_RETRY);
        assert_int_equal(a.group, TLS_SECP256R1);
        assert_true(tls_said_fold(&said, TLS_AES_128_GCM));
        assert_true(tls_said_add(&said, record + HEADER, a.message_len));
        hello.shares_spare = shares;
        put_hello();
}

static void the_group_is_the_one_that_was_asked_for(void **state)
{
        (void)state;
        try_again(true);
        assert_true(digests());
        get_flight();
        finish(TLS_FINISHED_MAX);
        assert_true(digests());
        assert_blameless();
}

static void another_group_is_not_served(void **state)
{
        (void)state;
        try_again(false);
        assert_false(digests());
}

#define PAIR(f) cmocka_unit_test_setup_teardown(f, connect_pair, drop_pair)

int main(void)
{
        const struct CMUnitTest tests[] = {
                PAIR(messages_of_a_host_come_in_pieces),
                PAIR(a_host_may_ask_for_an_update),
                PAIR(data_before_finished_is_not_taken),
                PAIR(a_close_is_no_error_alert),
                PAIR(an_error_alert_is_kept),
                PAIR(who_stays_has_left_it_open),
                PAIR(who_finishes_has_gone_on),
                PAIR(another_message_is_to_go_on),
                PAIR(who_resets_has_not_left_it_open),
                PAIR(after_close_notify_a_host_may_take_leave),
                PAIR(after_close_notify_a_host_may_not_go_on),
                PAIR(the_group_is_the_one_that_was_asked_for),
                PAIR(another_group_is_not_served),
        };

        return auth_openssl() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
