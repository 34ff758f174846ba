/* SPDX-License-Identifier: BSD-3-Clause */
/* ClientHellos by hand and what is answered. That others understand them the suite shows, whose cases offer them
 * to OpenSSL. */
#include "pdu/core/tests/check.h"

#include <stdio.h>
#include <string.h>

#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/tls_record.h"

enum { HEADER = 5 };

static struct tls_psk psk_of(enum tls_suite suite)
{
        struct tls_psk psk = { .suite = suite, .key = { 1, 2, 3 } };

        psk.identity_len = (uint16_t)snprintf((char *)psk.identity, sizeof(psk.identity),
                                              "NVMe0R0%d nqn.h nqn.s", (int)suite);
        return psk;
}

static struct tls_hello hello_of(const struct tls_psk *psk)
{
        return (struct tls_hello) { .version = TLS_1_3,
                                    .suites = 1u << psk->suite,
                                    .modes = TLS_PSK_DHE_KE,
                                    .group = TLS_FFDHE3072,
                                    .psk = psk,
                                    .random = { 7 } };
}

/* --- tests ----------------------------------------------------------------------------------- */

static void what_is_built_is_read(void **state)
{
        (void)state;
        for (enum tls_suite suite = TLS_AES_128_GCM; suite < TLS_SUITES; suite++) {
                const struct tls_psk psk = psk_of(suite);
                struct tls_hello h = hello_of(&psk);
                uint8_t record[TLS_HELLO_MAX];
                struct tls_hello_view v;
                size_t n;

                h.early = true;
                n = tls_hello_build(auth_openssl(), &h, record);
                assert_true(tls_hello_read(&v, record, n));
                assert_int_equal(v.version, TLS_1_3);
                assert_int_equal(v.suites, 1u << suite);
                assert_int_equal(v.modes, TLS_PSK_DHE_KE);
                assert_int_equal(v.share_group, TLS_FFDHE3072);
                assert_int_equal(v.share_len, 384);
                assert_true(v.early && v.groups);
                assert_int_equal(v.identities, 1);
                assert_int_equal(v.identity_len, psk.identity_len);
                assert_memory_equal(v.identity, psk.identity, psk.identity_len);
        }
}

static void a_binder_proves_the_key(void **state)
{
        struct tls_psk psk = psk_of(TLS_AES_256_GCM);
        struct tls_hello h = hello_of(&psk);
        uint8_t record[TLS_HELLO_MAX];
        struct tls_hello_view v;
        size_t n = tls_hello_build(auth_openssl(), &h, record);

        (void)state;
        assert_true(tls_hello_read(&v, record, n));
        assert_true(tls_hello_proves(auth_openssl(), &v, &psk));
        psk.key[47] ^= 1;
        assert_false(tls_hello_proves(auth_openssl(), &v, &psk));
        psk.key[47] ^= 1;
        record[20] ^= 1; /* of the random, which is in what is bound */
        assert_false(tls_hello_proves(auth_openssl(), &v, &psk));
        h.wrong_binder = true;
        n = tls_hello_build(auth_openssl(), &h, record);
        assert_true(tls_hello_read(&v, record, n));
        assert_false(tls_hello_proves(auth_openssl(), &v, &psk));
}

/* Each cut leaves a record that is not whole; with its length put right, a message that is not. */
static void what_is_cut_is_not_read(void **state)
{
        const struct tls_psk psk = psk_of(TLS_AES_128_GCM);
        const struct tls_hello h = hello_of(&psk);
        uint8_t record[TLS_HELLO_MAX];
        struct tls_hello_view v;
        size_t n = tls_hello_build(auth_openssl(), &h, record);

        (void)state;
        for (size_t cut = 0; cut < n; cut++)
                assert_false(tls_hello_read(&v, record, cut));
        for (size_t cut = HEADER; cut < n; cut++) {
                record[3] = (uint8_t)((cut - HEADER) >> 8);
                record[4] = (uint8_t)(cut - HEADER);
                assert_false(tls_hello_read(&v, record, cut));
        }
}

static void an_identity_can_be_too_long(void **state)
{
        struct tls_psk psk = psk_of(TLS_AES_128_GCM);
        struct tls_hello h = hello_of(&psk);
        uint8_t record[TLS_HELLO_MAX];

        (void)state;
        psk.identity_len = TLS_IDENTITY_MAX;
        assert_int_not_equal(tls_hello_build(auth_openssl(), &h, record), 0);
}

static void old_versions_have_nothing_new(void **state)
{
        const struct tls_psk psk = psk_of(TLS_AES_128_GCM);
        struct tls_hello h = hello_of(&psk);
        uint8_t record[TLS_HELLO_MAX];
        struct tls_hello_view v;

        (void)state;
        for (uint16_t version = SSL_3; version <= TLS_1_1; version++) {
                h.version = version;
                assert_true(
                    tls_hello_read(&v, record, tls_hello_build(auth_openssl(), &h, record)));
                assert_int_equal(v.version, version);
                assert_int_equal(v.suites, 0);
                assert_int_equal(v.identities, 0);
                assert_int_equal(v.share_group, TLS_NO_GROUP);
        }
}

static void answers_are_read(void **state)
{
        const struct tls_psk psk = psk_of(TLS_AES_128_GCM);
        struct tls_hello h = hello_of(&psk);
        uint8_t record[TLS_HELLO_MAX], answer[TLS_ANSWER_MAX];
        struct tls_hello_view v;
        struct tls_answer a;
        char text[120];
        size_t n;

        (void)state;
        tls_hello_read(&v, record, tls_hello_build(auth_openssl(), &h, record));
        n = tls_answer_build(&v, TLS_1_3, answer);
        for (size_t cut = 0; cut < n; cut++)
                assert_int_equal(tls_answer_read(answer, cut).kind, TLS_NO_ANSWER);
        a = tls_answer_read(answer, n);
        assert_int_equal(a.kind, TLS_SERVER_HELLO);
        assert_int_equal(a.version, TLS_1_3);
        assert_int_equal(a.suite, 0x1301);
        assert_int_equal(a.group, TLS_FFDHE3072);
        assert_true(a.psk);
        tls_answer_text(&a, text, sizeof(text));
        assert_string_equal(text, "ServerHello of TLS 1.3, suite 1301h, the PSK, ffdhe3072");
        n = tls_alert_build(115, answer);
        a = tls_answer_read(answer, n);
        tls_answer_text(&a, text, sizeof(text));
        assert_string_equal(text, "alert 115 (unknown_psk_identity)");
        a = tls_answer_read((const uint8_t *)"\x01\x00\x80\x00\x80\x00\x00\x00", 8); /* an ICResp */
        assert_int_equal(a.kind, TLS_UNREADABLE);
}

static void records_are_sealed_and_opened(void **state)
{
        const struct auth_slice hello = { "client", 6 }, answer = { "server", 6 };
        uint8_t record[64], content[64], message[16], type;

        (void)state;
        for (enum tls_suite suite = TLS_AES_128_GCM; suite < TLS_SUITES; suite++) {
                const struct tls_psk psk = psk_of(suite);
                struct tls_traffic t;
                size_t len = tls_early_build(message), n;

                assert_int_equal(tls_server_traffic(auth_openssl(), &psk, &hello, &answer, &t), 0);
                n = tls_record_seal(&t, 5, 22, message, len, 0, record);
                assert_int_equal(n, len + TLS_RECORD_MORE);
                assert_int_equal(tls_record_open(&t, 5, record, n, content, &type), len);
                assert_int_equal(type, 22);
                assert_int_equal(tls_accepts_early(content, len), 1);
                assert_int_equal(tls_record_open(&t, 6, record, n, content, &type), -1);
                record[n - 1] ^= 1;
                assert_int_equal(tls_record_open(&t, 5, record, n, content, &type), -1);
        }
        assert_int_equal(tls_accepts_early((const uint8_t *)"\x08\0\0\2\0\0", 6), 0);
        assert_int_equal(tls_accepts_early((const uint8_t *)"\x08\0\0\2\0\1", 6), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_built_is_read),
                cmocka_unit_test(a_binder_proves_the_key),
                cmocka_unit_test(what_is_cut_is_not_read),
                cmocka_unit_test(an_identity_can_be_too_long),
                cmocka_unit_test(old_versions_have_nothing_new),
                cmocka_unit_test(answers_are_read),
                cmocka_unit_test(records_are_sealed_and_opened),
        };

        return auth_openssl() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
