/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends by hand understand each other. That OpenSSL understands them the suite shows, whose cases of tcp/tls
 * go on by hand with it. */
#include "pdu/core/tests/check.h"

#include <string.h>

#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/tls_hand.h"
#include "pdu/nvme/io/tls_record.h"

static const struct auth_slice client_hello = { "client", 6 }, server_hello = { "server", 6 };

static struct tls_psk psk_of(enum tls_suite suite)
{
        return (struct tls_psk) { .suite = suite, .key = { 1, 2, 3 } };
}

/* Both have heard the same and are past the handshake. */
static void shake(struct tls_hand hands[2], const struct tls_psk *psk, uint16_t group,
                  const struct auth_slice *share)
{
        for (int side = 0; side < 2; side++) {
                struct tls_hand *h = &hands[side];
                uint8_t finished[TLS_FINISHED_MAX];
                size_t n;

                assert_int_equal(tls_hand_begin(h, (enum party)side, psk, &client_hello,
                                                &server_hello, group, share),
                                 0);
                n = tls_hand_finished(h, PARTY_CONTROLLER, finished);
                assert_int_equal(n, 4 + tls_key_len(psk->suite));
                assert_int_equal(tls_hand_heard(h, finished, n), 0);
                assert_int_equal(tls_hand_complete(h), 0);
                assert_int_equal(tls_hand_switch(h, PARTY_CONTROLLER), 0);
                assert_int_equal(tls_hand_switch(h, PARTY_HOST), 0);
        }
}

static ssize_t pass_on(struct tls_hand hands[2], enum party from, uint8_t type, const char *text,
                       size_t pad)
{
        uint8_t record[256], content[256], seen = 0;
        size_t len = strlen(text), n = tls_hand_seal(&hands[from], type, text, len, pad, record);
        ssize_t got = tls_hand_open(&hands[peer_of(from)], record, n, content, &seen);

        assert_int_equal(n, len + pad + TLS_RECORD_MORE);
        if (got >= 0)
                assert_int_equal(seen, type);
        if (got > 0)
                assert_memory_equal(content, text, len);
        return got;
}

static void records_go_both_ways(void **state)
{
        (void)state;
        for (enum tls_suite suite = TLS_AES_128_GCM; suite < TLS_SUITES; suite++) {
                const struct tls_psk psk = psk_of(suite);
                struct tls_hand hands[2];

                shake(hands, &psk, TLS_NO_GROUP, &client_hello);
                for (int i = 0; i < 3; i++) {
                        assert_int_equal(pass_on(hands, PARTY_HOST, TLS_DATA, "ICReq", 0), 5);
                        assert_int_equal(pass_on(hands, PARTY_CONTROLLER, TLS_DATA, "ICResp", 9),
                                         6);
                }
                assert_int_equal(pass_on(hands, PARTY_HOST, TLS_DATA, "", 0), 0);
                assert_int_equal(pass_on(hands, PARTY_HOST, 0, "", 15), 0);
        }
}

static void an_update_changes_the_keys_of_one_side(void **state)
{
        const struct tls_psk psk = psk_of(TLS_AES_256_GCM);
        struct tls_hand hands[2];

        (void)state;
        shake(hands, &psk, TLS_NO_GROUP, &client_hello);
        assert_int_equal(tls_hand_update(&hands[PARTY_HOST], PARTY_HOST), 0);
        assert_int_equal(pass_on(hands, PARTY_CONTROLLER, TLS_DATA, "ICResp", 0), 6);
        assert_int_equal(pass_on(hands, PARTY_HOST, TLS_DATA, "ICReq", 0), -1);
        assert_int_equal(tls_hand_update(&hands[PARTY_CONTROLLER], PARTY_HOST), 0);
        hands[PARTY_HOST].seq[PARTY_HOST] = 0;
        assert_int_equal(pass_on(hands, PARTY_HOST, TLS_DATA, "ICReq", 0), 5);
}

/* The keys depend on the key, on what was said and on what the shares give. */
static void what_differs_is_not_understood(void **state)
{
        const uint8_t point[97] = { 4, 1 }, other_point[97] = { 4, 2 };
        const struct auth_slice share = { point, sizeof(point) },
                                other = { other_point, sizeof(other_point) };
        struct tls_psk psk = psk_of(TLS_AES_128_GCM);
        struct tls_hand hands[2], others[2];

        (void)state;
        shake(hands, &psk, TLS_SECP384R1, &share);
        assert_int_equal(pass_on(hands, PARTY_HOST, TLS_DATA, "ICReq", 0), 5);
        shake(others, &psk, TLS_SECP384R1, &other);
        hands[PARTY_CONTROLLER] = others[PARTY_CONTROLLER];
        assert_int_equal(pass_on(hands, PARTY_HOST, TLS_DATA, "ICReq", 0), -1);
        shake(hands, &psk, TLS_NO_GROUP, &share);
        psk.key[0] ^= 1;
        shake(others, &psk, TLS_NO_GROUP, &share);
        hands[PARTY_CONTROLLER] = others[PARTY_CONTROLLER];
        assert_int_equal(pass_on(hands, PARTY_HOST, TLS_DATA, "ICReq", 0), -1);
}

static void what_cannot_be_computed(void **state)
{
        static const uint8_t long_message[TLS_SAID_MAX];
        const struct tls_psk psk = psk_of(TLS_AES_128_GCM);
        struct tls_hand h;

        (void)state;
        assert_int_equal(tls_hand_begin(&h, PARTY_HOST, &psk, &client_hello, &server_hello,
                                        TLS_FFDHE3072, &client_hello),
                         -1);
        assert_int_equal(tls_hand_begin(&h, PARTY_HOST, &psk, &client_hello, &server_hello,
                                        TLS_X25519, &(struct auth_slice) { long_message, 49 }),
                         -1);
        assert_int_equal(tls_hand_begin(&h, PARTY_HOST, &psk, &client_hello, &server_hello,
                                        TLS_NO_GROUP, &client_hello),
                         0);
        assert_int_equal(tls_hand_heard(&h, long_message, sizeof(long_message)), -1);
        tls_hand_end(&h);
        assert_int_equal(h.said_len, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(records_go_both_ways),
                cmocka_unit_test(an_update_changes_the_keys_of_one_side),
                cmocka_unit_test(what_differs_is_not_understood),
                cmocka_unit_test(what_cannot_be_computed),
        };

        return auth_openssl() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
