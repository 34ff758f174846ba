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

static struct tls_server_hello server_hello(void)
{
        static const uint8_t session[] = { 1, 2, 3 };

        return (struct tls_server_hello) { .legacy = TLS_1_2,
                                           .version = TLS_1_3,
                                           .session = session,
                                           .session_len = sizeof(session),
                                           .suite = 0x1302,
                                           .psk = true,
                                           .identity = 7,
                                           .group = TLS_X25519,
                                           .share = tls_known_share(TLS_X25519) };
}

static struct tls_answer read_back(const struct tls_server_hello *h)
{
        static uint8_t record[TLS_ANSWER_MAX];
        size_t n = tls_server_hello_build(h, record);

        assert_int_not_equal(n, 0);
        return tls_answer_read(record, n);
}

static void server_hellos_are_as_they_are_wanted(void **state)
{
        struct tls_server_hello h = server_hello();
        struct tls_answer a = read_back(&h);

        (void)state;
        assert_int_equal(a.kind, TLS_SERVER_HELLO);
        assert_int_equal(a.identity, 7);
        assert_int_equal(a.suite, 0x1302);
        assert_int_equal(a.group, TLS_X25519);
        assert_int_equal(a.share_len, 32);
        assert_int_equal(a.session_len, 3);
        assert_false(a.strange || a.twice || a.over || a.downgraded || a.cookie.p);
        assert_int_equal(a.message_len, a.len - HEADER);
        h.legacy = TLS_1_0;
        h.compression = 1;
        h.strange = 16;
        h.twice = h.downgraded = true;
        a = read_back(&h);
        assert_int_equal(a.version, TLS_1_3);
        assert_int_equal(a.compression, 1);
        assert_int_equal(a.strange, 16);
        assert_true(a.twice && a.downgraded);
}

static void wrong_lengths_of_server_hellos_are_seen(void **state)
{
        struct tls_server_hello h = server_hello();

        (void)state;
        h.over = true;
        assert_true(read_back(&h).over);
        h = server_hello();
        h.wrong_len = TLS_LAST_LEN;
        h.wrong_by = 1;
        assert_int_equal(read_back(&h).kind, TLS_UNREADABLE);
        h.wrong_by = -1;
        assert_int_equal(read_back(&h).kind, TLS_UNREADABLE);
}

static void requests_to_try_again_are_read(void **state)
{
        struct tls_server_hello h = server_hello();
        struct tls_answer a;

        (void)state;
        h.retry = true;
        h.psk = false;
        h.cookie = (struct auth_slice) { "sesame", 6 };
        a = read_back(&h);
        assert_int_equal(a.kind, TLS_RETRY);
        assert_int_equal(a.group, TLS_X25519);
        assert_int_equal(a.cookie.len, 6);
        assert_memory_equal(a.cookie.p, "sesame", 6);
        assert_int_equal(a.share_len, 0);
}

static void a_second_hello_repeats_the_first(void **state)
{
        const struct auth_slice cookie = { "sesame", 6 };
        const struct tls_psk psk = psk_of(TLS_AES_128_GCM);
        struct tls_hello h = hello_of(&psk);
        uint8_t records[2][TLS_HELLO_MAX];
        struct tls_hello_view first, second;
        struct auth_slice share;

        (void)state;
        h.group = TLS_X25519;
        h.spare_group = TLS_SECP256R1;
        assert_true(
            tls_hello_read(&first, records[0], tls_hello_build(auth_openssl(), &h, records[0])));
        assert_true(tls_hello_has_group(&first, TLS_SECP256R1));
        assert_false(tls_hello_has_group(&first, TLS_SECP384R1));
        assert_true(tls_hello_has_suite(&first, 0x1301) && !tls_hello_has_suite(&first, 0x1302));
        assert_true(tls_hello_share(&first, TLS_X25519, &share) && share.len == 32);
        assert_false(tls_hello_share(&first, TLS_SECP256R1, &share));
        assert_true(tls_hello_has_extension(&first, 41) && !tls_hello_has_extension(&first, 44));
        h.shares_spare = true;
        h.cookie = &cookie;
        assert_true(
            tls_hello_read(&second, records[1], tls_hello_build(auth_openssl(), &h, records[1])));
        assert_true(tls_hello_share(&second, TLS_SECP256R1, &share) && share.len == 65);
        assert_int_equal(second.cookie.len, 6);
        assert_true(tls_hello_repeats(&second, &first));
        h.modes = TLS_PSK_KE;
        tls_hello_read(&second, records[1], tls_hello_build(auth_openssl(), &h, records[1]));
        assert_false(tls_hello_repeats(&second, &first));
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
                cmocka_unit_test(server_hellos_are_as_they_are_wanted),
                cmocka_unit_test(wrong_lengths_of_server_hellos_are_seen),
                cmocka_unit_test(requests_to_try_again_are_read),
                cmocka_unit_test(a_second_hello_repeats_the_first),
                cmocka_unit_test(records_are_sealed_and_opened),
        };

        return auth_openssl() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
