/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS 1.3 connections made by hand, record by record, and what a reader with their secrets finds inside. */
#include "pdu/core/tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pdu/core/tests/scarce.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/tls_reader.h"
#include "pdu/nvme/io/tls_record.h"

enum { HEADER = 5, ROOM = 200000, RECORDS = 64, ALERT = 21, HANDSHAKE, DATA };

static const uint8_t extensions[] = { 8, 0, 0, 2, 0, 0 }, ticket[] = { 4, 0, 0, 3, 1, 2, 3 },
                     update[] = { 24, 0, 0, 1, 0 };
static const uint8_t finished[4 + 48] = { 20, 0, 0, 48 };

/* --- a connection --------------------------------------------------------------------------------- */

static struct {
        struct tls_psk psk;
        struct tls_traffic keys[2];
        uint64_t seq[2];
        uint8_t handshake[2][AUTH_HASH_MAX], traffic[2][AUTH_HASH_MAX];

        uint8_t bytes[ROOM];
        size_t len;
        struct {
                enum party sender;
                size_t at, len;
        } records[RECORDS];
        unsigned count;
} c;

static struct auth_key configured(uint8_t first)
{
        struct auth_key key = { .hash = 0, .len = 32 };

        for (unsigned i = 0; i < key.len; i++)
                key.bytes[i] = (uint8_t)(first + i);
        return key;
}

static void put(enum party sender, const uint8_t *p, size_t n)
{
        memcpy(c.bytes + c.len, p, n);
        c.records[c.count].sender = sender;
        c.records[c.count].at = c.len;
        c.records[c.count++].len = n;
        c.len += n;
}

static void seal(enum party sender, uint8_t type, const void *content, size_t n)
{
        static uint8_t record[16384 + TLS_RECORD_MORE];

        n = tls_record_seal(&c.keys[sender], c.seq[sender]++, type, content, n, 0, record);
        assert_true(n > 0);
        put(sender, record, n);
}

static void set_keys(enum party side, const uint8_t *secret)
{
        c.keys[side].suite = c.psk.suite;
        c.seq[side] = 0;
        assert_int_equal(tls_traffic_keys(auth_openssl(), secret, &c.keys[side]), 0);
}

/* As OpenSSL does to please middleboxes. */
static void put_change(enum party side)
{
        put(side, (const uint8_t[]) { 20, 3, 3, 0, 1, 1 }, 6);
}

static void compute(enum tls_epoch epoch, const struct auth_slice *said, unsigned n)
{
        assert_int_equal(tls_psk_secrets(auth_openssl(), &c.psk, NULL, epoch, said, n,
                                         epoch == TLS_HANDSHAKE_KEYS ? c.handshake : c.traffic),
                         0);
}

struct how {
        enum tls_suite suite;
        bool dhe, retried;
        uint16_t version; /* that the server takes; 0: 1.3 */
};

static size_t build_hello(struct how how, uint8_t *record)
{
        struct tls_identity id = { .suite = how.suite, .hostnqn = "nqn.h", .subnqn = "nqn.s" };
        struct auth_key key = configured(1);
        struct tls_hello h = { .version = TLS_1_3,
                               .suites = 1u << how.suite,
                               .modes = how.dhe ? TLS_PSK_DHE_KE : TLS_PSK_KE,
                               .group = how.dhe ? TLS_X25519 : TLS_NO_GROUP,
                               .psk = &c.psk,
                               .random = { 7, 6, 5 } };

        assert_int_equal(tls_key_derive(auth_openssl(), &key, &id, TLS_PRINTED, &c.psk), 0);
        return tls_hello_build(auth_openssl(), &h, record);
}

static void put_retry(void)
{
        static const uint8_t random[32] = {
                0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c,
                0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
                0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
        };
        uint8_t record[] = { 22,   3, 3, 0, 50, 2, 0,  0, 46, 3, 3, [11 + 32] = 0,
                             0x13, 1, 0, 0, 6,  0, 43, 0, 2,  3, 4 };

        memcpy(record + 11, random, sizeof(random));
        put(PARTY_CONTROLLER, record, sizeof(record));
}

/* Both hellos, up to where keys are in use. */
static void greet(struct how how)
{
        uint8_t hello[TLS_HELLO_MAX], answer[TLS_ANSWER_MAX];
        struct tls_hello_view v;
        size_t n, m;

        memset(&c, 0, sizeof(c));
        n = build_hello(how, hello);
        assert_true(tls_hello_read(&v, hello, n));
        put(PARTY_HOST, hello, n);
        if (how.retried) {
                put_retry();
                put(PARTY_HOST, hello, n);
        }
        m = tls_answer_build(&v, how.version ? how.version : TLS_1_3, answer);
        put(PARTY_CONTROLLER, answer, m);
        put_change(PARTY_CONTROLLER);
        compute(TLS_HANDSHAKE_KEYS,
                (const struct auth_slice[]) { { hello + HEADER, n - HEADER },
                                              { answer + HEADER, m - HEADER } },
                2);
        compute(TLS_APPLICATION_KEYS,
                (const struct auth_slice[]) { { hello + HEADER, n - HEADER },
                                              { answer + HEADER, m - HEADER },
                                              { extensions, sizeof(extensions) },
                                              { finished, sizeof(finished) } },
                4);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                set_keys(p, c.handshake[p]);
}

static void finish(void)
{
        seal(PARTY_CONTROLLER, HANDSHAKE, extensions, sizeof(extensions));
        seal(PARTY_CONTROLLER, HANDSHAKE, finished, 11); /* a message may be cut anywhere */
        seal(PARTY_CONTROLLER, HANDSHAKE, finished + 11, sizeof(finished) - 11);
        set_keys(PARTY_CONTROLLER, c.traffic[PARTY_CONTROLLER]);
        put_change(PARTY_HOST);
        seal(PARTY_HOST, HANDSHAKE, finished, sizeof(finished));
        set_keys(PARTY_HOST, c.traffic[PARTY_HOST]);
}

static void key_update(enum party sender)
{
        seal(sender, HANDSHAKE, update, sizeof(update));
        assert_int_equal(tls_next_secret(auth_openssl(), c.psk.suite, c.traffic[sender]), 0);
        set_keys(sender, c.traffic[sender]);
}

static void converse(void)
{
        static const uint8_t much[16384];

        seal(PARTY_HOST, DATA, "hello", 5);
        seal(PARTY_CONTROLLER, HANDSHAKE, ticket, sizeof(ticket));
        seal(PARTY_CONTROLLER, DATA, "good day", 8);
        seal(PARTY_HOST, DATA, "", 0);
        key_update(PARTY_HOST);
        seal(PARTY_HOST, DATA, much, sizeof(much));
        key_update(PARTY_CONTROLLER);
        seal(PARTY_CONTROLLER, DATA, ".", 1);
        key_update(PARTY_CONTROLLER);
        seal(PARTY_CONTROLLER, DATA, "!", 1);
        seal(PARTY_HOST, ALERT, "\1\132", 2); /* user_canceled */
        seal(PARTY_HOST, ALERT, "\1\0", 2);   /* close_notify */
        seal(PARTY_CONTROLLER, DATA, "bye", 3);
        seal(PARTY_CONTROLLER, ALERT, "\1\0", 2);
        put(PARTY_HOST, (const uint8_t *)"\27\3\3\0\2ab", 7); /* nobody reads that any more */
}

/* --- keys ----------------------------------------------------------------------------------------- */

static void print_secret(char *text, const char *label, const uint8_t *secret)
{
        size_t n = strlen(text);

        n += (size_t)sprintf(text + n, "%s 070605%058d ", label, 0);
        for (unsigned i = 0; i < tls_key_len(c.psk.suite); i++)
                n += (size_t)sprintf(text + n, "%02x", secret[i]);
        strcpy(text + n, "\n");
}

enum { CH = 1, SH = 2, CT = 4, ST = 8, ALL = 15 };

/* Of the connection as it began. */
static struct key_log *log_of(unsigned which)
{
        struct key_log *k = key_log_new();
        char text[2000] = "# a log\n", error[200];

        assert_non_null(k);
        if (which & CH)
                print_secret(text, "CLIENT_HANDSHAKE_TRAFFIC_SECRET", c.handshake[PARTY_HOST]);
        if (which & ST)
                print_secret(text, "SERVER_TRAFFIC_SECRET_0", c.traffic[PARTY_CONTROLLER]);
        if (which & CT)
                print_secret(text, "CLIENT_TRAFFIC_SECRET_0", c.traffic[PARTY_HOST]);
        if (which & SH)
                print_secret(text, "SERVER_HANDSHAKE_TRAFFIC_SECRET",
                             c.handshake[PARTY_CONTROLLER]);
        assert_int_equal(key_log_add(k, text, strlen(text), error, sizeof(error)), 0);
        assert_int_equal(key_log_is_empty(k), which == 0);
        return k;
}

static struct key_log *psk_log(uint8_t first)
{
        struct auth_key key = configured(first);
        struct key_log *k = key_log_new();

        assert_non_null(k);
        key_log_set_psk(k, &key);
        return k;
}

/* --- reading -------------------------------------------------------------------------------------- */

static struct {
        uint8_t bytes[2][ROOM];
        size_t len[2];
} got;

static void on_plain(void *user, enum party sender, const uint8_t *p, size_t n)
{
        assert_ptr_equal(user, &got);
        assert_true(n > 0);
        memcpy(got.bytes[sender] + got.len[sender], p, n);
        got.len[sender] += n;
}

/* In pieces of so many bytes; what the reader says. */
static const char *read_all(struct key_log *k, size_t piece)
{
        static char said[300];
        struct tls_reader *r = tls_reader_new(k);
        const char *why = NULL;

        memset(&got, 0, sizeof(got));
        for (unsigned i = 0; r && i < c.count; i++)
                for (size_t at = 0; at < c.records[i].len; at += piece) {
                        size_t n = c.records[i].len - at < piece ? c.records[i].len - at : piece;
                        uint8_t *copy = malloc(n); /* for who reads beyond it */

                        if (!copy)
                                continue;
                        memcpy(copy, c.bytes + c.records[i].at + at, n);
                        why = tls_reader_read(r, c.records[i].sender, copy, n, on_plain, &got);
                        free(copy);
                }
        snprintf(said, sizeof(said), "%s", r ? why ? why : "" : "no reader");
        tls_reader_free(r);
        return said;
}

static void assert_conversation(void)
{
        assert_int_equal(got.len[PARTY_HOST], 5 + 16384);
        assert_memory_equal(got.bytes[PARTY_HOST], "hello", 5);
        assert_int_equal(got.len[PARTY_CONTROLLER], 13);
        assert_memory_equal(got.bytes[PARTY_CONTROLLER], "good day.!bye", 13);
}

static void assert_read(struct key_log *k)
{
        static const size_t pieces[] = { 1, 3, 5, 1000, ROOM };

        for (unsigned i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
                assert_string_equal(read_all(k, pieces[i]), "");
                assert_conversation();
        }
        key_log_free(k);
}

static void assert_fails(struct key_log *k, const char *why)
{
        assert_string_equal(read_all(k, ROOM), why);
        assert_string_equal(read_all(k, 1), why);
        key_log_free(k);
}

/* --- tests ---------------------------------------------------------------------------------------- */

static void a_psk_alone_is_enough(void **state)
{
        (void)state;
        for (enum tls_suite suite = TLS_AES_128_GCM; suite < TLS_SUITES; suite++) {
                greet((struct how) { .suite = suite });
                finish();
                converse();
                assert_read(psk_log(1));
        }
}

static void a_key_log_opens_it(void **state)
{
        (void)state;
        for (enum tls_suite suite = TLS_AES_128_GCM; suite < TLS_SUITES; suite++) {
                struct key_log *all, *traffic;

                greet((struct how) {
                    .suite = suite, .dhe = true, .retried = suite == TLS_AES_256_GCM });
                finish();
                all = log_of(ALL);
                traffic = log_of(CT | ST); /* where the handshake ends is found out */
                converse();
                assert_read(all);
                assert_read(traffic);
        }
}

/* Several records of one hello, and one byte each. */
static void a_hello_may_be_cut(void **state)
{
        uint8_t record[HEADER + 200] = { 22, 3, 1 };
        struct key_log *k;
        size_t len, at;

        (void)state;
        greet((struct how) { .suite = TLS_AES_128_GCM });
        len = c.records[0].len - HEADER;
        k = psk_log(1);
        finish();
        converse();
        for (at = 0; at < len; at += 90) {
                size_t n = len - at < 90 ? len - at : 90;

                record[4] = (uint8_t)n;
                memcpy(record + HEADER, c.bytes + HEADER + at, n);
                put(PARTY_HOST, record, HEADER + n);
        }
        at = c.count - 1; /* they come first, in place of the whole one */
        for (unsigned i = 0; i < (len + 89) / 90; i++)
                for (size_t j = at; j > 0; j--) {
                        __typeof__(c.records[0]) last = c.records[j];

                        c.records[j] = c.records[j - 1];
                        c.records[j - 1] = last;
                }
        for (unsigned i = (unsigned)((len + 89) / 90); i + 1 < c.count; i++)
                c.records[i] = c.records[i + 1];
        c.count--;
        assert_read(k);
}

static void other_keys_do_not_open_it(void **state)
{
        char error[200];
        struct key_log *k;

        (void)state;
        greet((struct how) { .suite = TLS_AES_128_GCM });
        finish();
        converse();
        assert_fails(psk_log(2), "its binder is not of this PSK");
        assert_fails(key_log_new(), "the key log has no secrets of it (client random 07060500...)");
        c.traffic[PARTY_HOST][0] ^= 1;
        assert_fails(
            log_of(CT | ST | CH | SH),
            "record 1 of the host's data does not decrypt: the secret is not its own, or it "
            "is damaged");
        c.handshake[PARTY_CONTROLLER][0] ^= 1;
        assert_fails(log_of(ALL),
                     "record 1 of the controller's handshake does not decrypt: the secret "
                     "is not its own, or it is damaged");
        assert_fails(log_of(CT | CH | SH), "the key log lacks its SERVER_TRAFFIC_SECRET_0");
        assert_fails(log_of(CH), "the key log lacks its CLIENT_TRAFFIC_SECRET_0");
        greet((struct how) { .suite = TLS_AES_256_GCM, .dhe = true });
        finish();
        assert_fails(psk_log(1),
                     "its keys come from (EC)DHE, too: that takes a key log, not the PSK");
        c.psk.suite = TLS_AES_128_GCM; /* the log's secrets are shorter */
        k = log_of(ALL);
        assert_fails(k, "its secrets in the key log are of another cipher suite");
        greet((struct how) { .suite = TLS_AES_128_GCM, .retried = true });
        assert_fails(psk_log(1), "after a HelloRetryRequest it takes a key log, not the PSK");
        k = key_log_new();
        assert_int_equal(key_log_add(k, "hello\n", 6, error, sizeof(error)), -1);
        assert_string_equal(error, "line 1 is not one of a TLS key log");
        key_log_free(k);
}

static void secrets_that_open_nothing(void **state)
{
        (void)state;
        greet((struct how) { .suite = TLS_AES_128_GCM });
        for (unsigned i = 0; i < 40; i++)
                seal(PARTY_CONTROLLER, HANDSHAKE, extensions, sizeof(extensions));
        assert_fails(log_of(CT | ST),
                     "its SERVER_TRAFFIC_SECRET_0 opens nothing, and there is none of "
                     "the handshake in the key log");
}

static void damage_ends_it(void **state)
{
        struct key_log *k;

        (void)state;
        greet((struct how) { .suite = TLS_AES_128_GCM });
        finish();
        k = log_of(ALL);
        seal(PARTY_HOST, DATA, "hello", 5);
        seal(PARTY_HOST, DATA, "hello", 5);
        seal(PARTY_HOST, DATA, "hello", 5);
        c.bytes[c.len - 25] ^= 4;
        seal(PARTY_HOST, DATA, "hello", 5);
        assert_string_equal(read_all(k, 7),
                            "record 3 of the host's data does not decrypt: it is damaged");
        assert_int_equal(got.len[PARTY_HOST], 10);
        key_log_free(k);
}

struct one {
        enum party sender;
        const char *record;
        size_t len;
        const char *why;
};

/* What comes instead of, or in the middle of, a handshake. */
static void what_is_not_tls_1_3(void **state)
{
        static const struct one ones[] = {
                { PARTY_HOST, "\26\3\1\0\5\1\0\0\1\3", 10, "its ClientHello cannot be read" },
                { PARTY_HOST, "\27\3\3\0\1a", 6,
                  "the host's encrypted record comes before the ServerHello in the capture" },
                { PARTY_HOST, "\26\2\1\0\5", 5, "what the host sent is not a TLS record" },
                { PARTY_HOST, "\30\3\1\0\5", 5, "what the host sent is not a TLS record" },
                { PARTY_CONTROLLER, "\27\3\1\377\377", 5,
                  "what the controller sent is not a TLS record" },
                { PARTY_CONTROLLER, "\26\3\3\0\4\2\0\0\0", 9,
                  "its ClientHello is not in the capture" },
                { PARTY_CONTROLLER, "\25\3\3\0\2\2\50", 7,
                  "the controller ended it by alert 40 (handshake_failure) in the handshake" },
                { PARTY_CONTROLLER, "\25\3\3\0\1\2", 6,
                  "the controller ended it by an alert in the handshake" },
        };

        (void)state;
        for (unsigned i = 0; i < sizeof(ones) / sizeof(ones[0]); i++) {
                memset(&c, 0, sizeof(c));
                put(ones[i].sender, (const uint8_t *)ones[i].record, ones[i].len);
                assert_fails(psk_log(1), ones[i].why);
        }
        greet((struct how) { .suite = TLS_AES_128_GCM, .version = TLS_1_2 });
        assert_fails(psk_log(1), "it is not TLS 1.3");
        greet((struct how) { .suite = TLS_AES_128_GCM });
        c.bytes[c.records[1].at + HEADER + 4 + 2 + 32 + 1 + 1] = 3; /* of its suite */
        assert_fails(psk_log(1), "its cipher suite, 1303h, is none that is read");
        greet((struct how) { .suite = TLS_AES_128_GCM });
        c.bytes[c.records[1].at + HEADER] = 11; /* a Certificate? */
        assert_fails(psk_log(1), "its ServerHello cannot be read");
        greet((struct how) { .suite = TLS_AES_128_GCM });
        c.bytes[c.records[1].at + HEADER + 4 + 2 + 32 + 1 + 1] = 2; /* a suite of another hash */
        assert_fails(psk_log(1), "its cipher suite is not that of the identity");
}

static void what_must_not_be_inside(void **state)
{
        (void)state;
        greet((struct how) { .suite = TLS_AES_128_GCM });
        seal(PARTY_CONTROLLER, DATA, "early", 5);
        assert_fails(psk_log(1), "the controller sent data before its Finished");
        greet((struct how) { .suite = TLS_AES_128_GCM });
        seal(PARTY_CONTROLLER, 24, "heartbeat", 9);
        assert_fails(psk_log(1), "the controller sent a record of type 24");
        greet((struct how) { .suite = TLS_AES_128_GCM });
        put(PARTY_CONTROLLER, (const uint8_t *)"\26\3\3\0\1a", 6);
        assert_fails(psk_log(1), "the controller sent a record of type 22 in clear");
        greet((struct how) { .suite = TLS_AES_128_GCM });
        seal(PARTY_HOST, HANDSHAKE, finished, sizeof(finished));
        assert_fails(psk_log(1),
                     "the host's Finished comes before the controller's in the capture");
        greet((struct how) { .suite = TLS_AES_128_GCM });
        finish();
        seal(PARTY_HOST, ALERT, "\2\24", 2);
        assert_fails(psk_log(1), "the host ended it by alert 20 (bad_record_mac)");
}

/* Of a server that never comes to its end. */
static void a_handshake_is_bounded(void **state)
{
        static const uint8_t much[10000] = { 11, 1, 0, 0 };

        (void)state;
        greet((struct how) { .suite = TLS_AES_128_GCM });
        seal(PARTY_CONTROLLER, HANDSHAKE, much, sizeof(much));
        seal(PARTY_CONTROLLER, HANDSHAKE, much, sizeof(much));
        assert_fails(psk_log(1), "its handshake is too long");
        memset(&c, 0, sizeof(c));
        for (unsigned i = 0; i < 3; i++) {
                uint8_t record[HEADER + 8000] = { 22, 3, 1, 8000 >> 8, 8000 & 255, 1, 1, 0, 0 };

                put(PARTY_HOST, record, sizeof(record));
        }
        assert_fails(psk_log(1), "its hello is too long");
}

static void memory_may_run_out(void **state)
{
        unsigned failed = 0;

        (void)state;
        greet((struct how) { .suite = TLS_AES_128_GCM });
        finish();
        converse();
        for (unsigned nth = 1; nth < 40; nth++) {
                struct key_log *k = psk_log(1);
                const char *why;

                allocations_left = nth;
                why = read_all(k, 1000);
                allocations_left = 0;
                failed += strcmp(why, "out of memory") == 0 || strcmp(why, "no reader") == 0;
                key_log_free(k);
        }
        assert_true(failed >= 4);
        for (unsigned nth = 1; nth < 4; nth++) {
                char text[200] = "", error[200] = "";
                struct key_log *k;

                print_secret(text, "CLIENT_TRAFFIC_SECRET_0", c.traffic[0]);
                allocations_left = nth;
                k = key_log_new();
                if (k && key_log_add(k, text, strlen(text), error, sizeof(error)) < 0)
                        assert_string_equal(error, "out of memory");
                allocations_left = 0;
                assert_int_equal(!k, nth == 1);
                key_log_free(k);
        }
}

/* --- files ---------------------------------------------------------------------------------------- */

static char path[] = "/tmp/test-key-log-XXXXXX";

static void write_text(const char *text)
{
        FILE *f = fopen(path, "w");

        assert_non_null(f);
        fputs(text, f);
        fclose(f);
}

static const char *read_error(const char *text)
{
        static char error[300];
        struct key_log *k = key_log_new();

        write_text(text);
        error[0] = '\0';
        assert_int_equal(key_log_read(k, path, error, sizeof(error)), -1);
        assert_memory_equal(error, path, strlen(path));
        key_log_free(k);
        return error + strlen(path);
}

static void many_connections_in_a_file(void **state)
{
        struct key_log *k = key_log_new();
        char error[200];
        FILE *f = fopen(path, "w");

        (void)state;
        assert_non_null(f);
        for (unsigned i = 0; i < 500; i++)
                fprintf(f, "%s %064x %064x\n",
                        i % 2 ? "CLIENT_TRAFFIC_SECRET_0" : "SERVER_TRAFFIC_SECRET_0",
                        i * 7919 % 500, i);
        fclose(f);
        assert_int_equal(key_log_read(k, path, error, sizeof(error)), 0);
        for (unsigned i = 0; i < 500; i++) {
                unsigned n = i * 7919 % 500;
                uint8_t random[TLS_RANDOM] = { [30] = (uint8_t)(n >> 8), [31] = (uint8_t)n };
                const struct tls_secret *s =
                    key_log_find(k, random, i % 2 ? TLS_CLIENT_TRAFFIC : TLS_SERVER_TRAFFIC);

                assert_non_null(s);
                assert_int_equal(s->bytes[30] << 8 | s->bytes[31], i);
                assert_null(
                    key_log_find(k, random, i % 2 ? TLS_SERVER_TRAFFIC : TLS_CLIENT_TRAFFIC));
        }
        key_log_free(k);
}

static void files_that_are_no_key_logs(void **state)
{
        struct key_log *k = key_log_new();
        char error[200];

        (void)state;
        assert_string_equal(read_error(""), ": has no secret of TLS 1.3");
        assert_string_equal(read_error("# nothing\n\n"), ": has no secret of TLS 1.3");
        assert_string_equal(read_error("# nothing\nNVMeTLSkey-1:01:\n"),
                            ": line 2 is not one of a TLS key log");
        assert_int_equal(key_log_read(k, "/does/not/exist", error, sizeof(error)), -1);
        assert_string_equal(error, "/does/not/exist: No such file or directory");
        assert_int_equal(key_log_read(k, "/tmp", error, sizeof(error)), -1);
        assert_string_equal(error, "/tmp: Is a directory");
        key_log_free(k);
}

static void a_log_is_its_owners(void **state)
{
        char error[300], text[20] = "";
        struct stat st;
        FILE *f;

        (void)state;
        unlink(path);
        f = key_log_create(path, error, sizeof(error));
        assert_non_null(f);
        assert_int_equal(fstat(fileno(f), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        fputs("one\n", f);
        fclose(f);
        f = key_log_create(path, error, sizeof(error));
        fputs("two\n", f);
        fclose(f);
        f = fopen(path, "r");
        assert_int_equal(fread(text, 1, sizeof(text), f), 8);
        fclose(f);
        assert_string_equal(text, "one\ntwo\n");
        assert_int_equal(chmod(path, 0644), 0);
        assert_null(key_log_create(path, error, sizeof(error)));
        assert_non_null(strstr(error, ": others may read it (mode 0644; chmod 600)"));
        assert_null(key_log_create("/does/not/exist", error, sizeof(error)));
        assert_string_equal(error, "/does/not/exist: No such file or directory");
        unlink(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_psk_alone_is_enough),
                cmocka_unit_test(a_key_log_opens_it),
                cmocka_unit_test(a_hello_may_be_cut),
                cmocka_unit_test(other_keys_do_not_open_it),
                cmocka_unit_test(secrets_that_open_nothing),
                cmocka_unit_test(damage_ends_it),
                cmocka_unit_test(what_is_not_tls_1_3),
                cmocka_unit_test(what_must_not_be_inside),
                cmocka_unit_test(a_handshake_is_bounded),
                cmocka_unit_test(memory_may_run_out),
                cmocka_unit_test(many_connections_in_a_file),
                cmocka_unit_test(files_that_are_no_key_logs),
                cmocka_unit_test(a_log_is_its_owners),
        };
        int fd = mkstemp(path);

        if (fd < 0)
                return 1;
        close(fd);
        return auth_openssl() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
