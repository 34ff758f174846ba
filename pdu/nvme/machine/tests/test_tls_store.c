/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of key stores, as nvme-cli writes them and as they must not be. */
#include "pdu/nvme/machine/tls_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define KEY "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
#define LONG                                                                                       \
        "NVMeTLSkey-1:02:11LCxR+6DimqGQVwqdQlPkQHegWNMpf6OlYw1b0BJiL5fCisrtMTtcg7uZDKp9qFhClnuQ==" \
        ":"
#define PAIR   "nqn.2026-01.org.example:host nqn.2026-01.org.example:subsystem"
#define OLD    "NVMe0R01 " PAIR
#define NEW    "NVMe1R01 " PAIR " ZGlnZXN0"
#define LONGER "NVMe0R02 " PAIR

static const char *add(struct tls_store *s, const char *line)
{
        return tls_store_line(s, line, strlen(line));
}

static struct tls_identity names(uint8_t version, enum tls_suite suite)
{
        return (struct tls_identity) { .version = version,
                                       .suite = suite,
                                       .hostnqn = "nqn.2026-01.org.example:host",
                                       .subnqn = "nqn.2026-01.org.example:subsystem" };
}

static void keys_are_found(void **state)
{
        static const char *const lines[] = {
                "", "# " OLD " " KEY, OLD " " KEY, "  " NEW "\t" KEY "\r", LONGER " " LONG, KEY
        };
        struct tls_store s = { 0 };
        struct tls_identity like = names(1, TLS_AES_128_GCM);
        struct tls_psk psk;

        (void)state;
        for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
                assert_null(add(&s, lines[i]));
        assert_int_equal(s.n, 3);
        assert_int_equal(s.configured.len, 32);
        assert_true(tls_store_find(&s, OLD, strlen(OLD), &psk));
        assert_int_equal(psk.suite, TLS_AES_128_GCM);
        assert_memory_equal(psk.key, s.configured.bytes, 32);
        assert_true(tls_store_find(&s, LONGER, strlen(LONGER), &psk));
        assert_int_equal(psk.suite, TLS_AES_256_GCM);
        assert_false(tls_store_find(&s, OLD, strlen(OLD) - 1, &psk));
        assert_int_equal(tls_store_of(&s, &like)->identity_len, strlen(NEW));
        like = names(0, 0);
        assert_int_equal(tls_store_of(&s, &like)->identity_len, strlen(OLD));
        like = names(1, TLS_AES_256_GCM); /* of another version, rather than none */
        assert_int_equal(tls_store_of(&s, &like)->suite, TLS_AES_256_GCM);
        like.subnqn[0] = 'N';
        assert_null(tls_store_of(&s, &like));
        tls_store_clear(&s);
        assert_int_equal(s.n + s.configured.len, 0);
}

/* It is for who authenticates, and new each time: not for who asks by names. */
static void generated_keys_are_nobodys(void **state)
{
        struct tls_store s = { 0 };
        struct tls_identity like = names(0, 0);

        (void)state;
        assert_null(add(&s, "NVMe0G01 " PAIR " " KEY));
        assert_null(tls_store_of(&s, &like));
        tls_store_clear(&s);
}

static void other_lines_are_refused(void **state)
{
        static const char *const lines[] = {
                OLD,
                "x " KEY,
                " " PAIR " " KEY,
                LONGER " " KEY,
                OLD " " LONG,
                OLD " " KEY " x",
                "NVMe0R01 nqn.a " KEY,
                OLD "  " KEY,
                OLD " NVMeTLSkey-1:01:" KEY KEY KEY,
        };
        struct tls_store s = { 0 };

        (void)state;
        for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
                assert_non_null(add(&s, lines[i]));
        assert_int_equal(s.n, 0);
        assert_null(add(&s, OLD " " KEY));
        assert_non_null(add(&s, OLD " " KEY)); /* twice */
        assert_null(add(&s, KEY));
        assert_non_null(add(&s, KEY));
        tls_store_clear(&s);
}

static void there_may_be_many(void **state)
{
        struct tls_store s = { 0 };
        struct tls_psk psk;
        char line[400];

        (void)state;
        for (unsigned i = 0; i <= TLS_STORE_MAX; i++) {
                snprintf(line, sizeof(line), "NVMe0R01 nqn.%u nqn.s " KEY, i);
                if (i < TLS_STORE_MAX)
                        assert_null(add(&s, line));
                else
                        assert_non_null(add(&s, line));
        }
        assert_true(tls_store_find(&s, "NVMe0R01 nqn.700 nqn.s", 22, &psk));
        tls_store_clear(&s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(keys_are_found),
                cmocka_unit_test(generated_keys_are_nobodys),
                cmocka_unit_test(other_lines_are_refused),
                cmocka_unit_test(there_may_be_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
