/* SPDX-License-Identifier: BSD-3-Clause */
/* What depends on what in the key schedule, and a library that fails in it. That its values are right, others show,
 * whose records open by them (pcap/tests/test_decrypt.py). */
#include "pdu/nvme/machine/tls_schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static unsigned calls, fails_at;

/* Only looks like a hash: what goes in comes out mixed. */
static int digest(enum auth_hash hash, const struct auth_slice *key, const struct auth_slice *parts,
                  unsigned n, uint8_t *out)
{
        uint32_t h = 0x811c9dc5;
        size_t len = auth_hash_len((uint8_t)hash);

        for (size_t i = 0; key && i < key->len; i++)
                h = (h ^ ((const uint8_t *)key->p)[i]) * 0x01000193;
        for (unsigned p = 0; p < n; p++)
                for (size_t i = 0; i < parts[p].len; i++)
                        h = (h ^ ((const uint8_t *)parts[p].p)[i]) * 0x01000193;
        for (size_t i = 0; i < len; i++, h = (h ^ (uint32_t)i) * 0x01000193)
                out[i] = (uint8_t)(h >> 16);
        return ++calls == fails_at ? -1 : 0;
}

static const struct auth_crypto crypto = { .digest = digest };

/* All that there is, one after the other. */
static int compute(enum tls_suite suite, uint8_t first, uint8_t out[4][AUTH_HASH_MAX],
                   struct tls_traffic *t)
{
        const struct tls_psk psk = { .suite = suite, .key = { first } };
        const struct auth_slice said[] = { { "client", 6 }, { "server", 6 } };
        int rc;

        memset(out, 0, 4 * AUTH_HASH_MAX);
        *t = (struct tls_traffic) { .suite = suite };
        calls = 0;
        rc = tls_psk_secrets(&crypto, &psk, NULL, TLS_HANDSHAKE_KEYS, said, 2, out);
        if (rc == 0)
                rc = tls_psk_secrets(&crypto, &psk, NULL, TLS_APPLICATION_KEYS, said, 2, out + 2);
        if (rc == 0)
                rc = tls_traffic_keys(&crypto, out[3], t);
        if (rc == 0)
                rc = tls_next_secret(&crypto, suite, out[3]);
        return rc;
}

static void secrets_are_of_their_side_epoch_and_key(void **state)
{
        uint8_t a[4][AUTH_HASH_MAX], b[4][AUTH_HASH_MAX];
        struct tls_traffic t, u;

        (void)state;
        fails_at = 0;
        for (enum tls_suite suite = TLS_AES_128_GCM; suite < TLS_SUITES; suite++) {
                size_t len = tls_key_len(suite);

                assert_int_equal(compute(suite, 1, a, &t), 0);
                assert_int_equal(compute(suite, 1, b, &u), 0);
                assert_memory_equal(a, b, sizeof(a));
                assert_memory_equal(&t, &u, sizeof(t));
                assert_int_equal(compute(suite, 2, b, &u), 0);
                for (int i = 0; i < 4; i++) {
                        assert_memory_not_equal(a[i], b[i], len);
                        assert_memory_not_equal(a[i], a[(i + 1) % 4], len);
                        assert_int_equal(a[i][len], 0); /* and no longer than the hash */
                }
                assert_memory_not_equal(t.key, u.key, suite == TLS_AES_128_GCM ? 16 : 32);
        }
}

static void a_library_may_fail(void **state)
{
        uint8_t out[4][AUTH_HASH_MAX];
        struct tls_traffic t;
        unsigned all;

        (void)state;
        fails_at = 0;
        assert_int_equal(compute(TLS_AES_256_GCM, 1, out, &t), 0);
        all = calls;
        assert_in_range(all, 10, 40);
        for (unsigned nth = 1; nth <= all; nth++) {
                fails_at = nth;
                assert_int_equal(compute(TLS_AES_256_GCM, 1, out, &t), -1);
                assert_int_equal(calls, nth); /* nothing is computed after it */
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(secrets_are_of_their_side_epoch_and_key),
                cmocka_unit_test(a_library_may_fail),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
