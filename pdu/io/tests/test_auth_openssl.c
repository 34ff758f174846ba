/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pdu/nvme/io/auth_openssl.h"

#define KEY "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:"

static const struct auth_crypto *c;

static int with_openssl(void **state)
{
        (void)state;
        c = auth_openssl();
        return 0;
}

static void unhex(uint8_t *out, const char *hex)
{
        for (; *hex; hex += 2)
                sscanf(hex, "%2hhx", out++);
}

static void matches(enum auth_hash hash, const struct auth_slice *key, const char *hex)
{
        const struct auth_slice parts[] = { { "what do ya want ", 16 },
                                            { "", 0 },
                                            { "for nothing?", 12 } };
        uint8_t got[AUTH_HASH_MAX], want[AUTH_HASH_MAX];

        unhex(want, hex);
        assert_int_equal(c->digest(hash, key, parts, 3, got), 0);
        assert_memory_equal(got, want, auth_hash_len((uint8_t)hash));
}

/* RFC 4231, test case 2; the plain hash of the same bytes by coreutils. */
static void digests(void **state)
{
        const struct auth_slice key = { "Jefe", 4 };

        (void)state;
        if (!c)
                skip();
        matches(AUTH_SHA256, &key,
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        matches(AUTH_SHA384, &key,
                "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e"
                "8e2240ca5e69e2c78b3239ecfab21649");
        matches(AUTH_SHA512, &key,
                "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
                "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737");
        matches(AUTH_SHA256, NULL,
                "b381e7fec653fc3ab9b178272366b8ac87fed8d31cb25ed1d0e1f3318644c89c");
}

/* The prime of RFC 7919 begins and ends with 64 ones; in between, e makes the difference. */
static void edges_are_refused(void **state)
{
        const uint8_t x[] = { 7 };

        (void)state;
        if (!c)
                skip();
        for (int g = AUTH_FFDHE2048; g < AUTH_GROUPS; g++) {
                uint8_t base[AUTH_GROUP_MAX] = { 0 }, out[AUTH_GROUP_MAX];
                unsigned len = auth_group_len((uint8_t)g);

                assert_int_equal(c->power((enum auth_group)g, base, x, 1, out), -1);
                base[len - 1] = 1;
                assert_int_equal(c->power((enum auth_group)g, base, x, 1, out), -1);
                base[len - 1] = 2;
                assert_int_equal(c->power((enum auth_group)g, base, x, 1, out), 0);
                assert_int_equal(out[len - 1], 128);
                memset(base, 0xff, len);
                assert_int_equal(c->power((enum auth_group)g, base, x, 1, out), -1);
        }
}

/* What both ends compute is the same, and of full length. */
static void both_ends_agree(void **state)
{
        (void)state;
        if (!c)
                skip();
        for (int g = AUTH_FFDHE2048; g < AUTH_GROUPS; g++) {
                uint8_t x[AUTH_EXPONENT], y[AUTH_EXPONENT];
                uint8_t gx[AUTH_GROUP_MAX], gy[AUTH_GROUP_MAX], a[AUTH_GROUP_MAX],
                    b[AUTH_GROUP_MAX];

                assert_int_equal(c->random(x, sizeof(x)), 0);
                assert_int_equal(c->random(y, sizeof(y)), 0);
                assert_int_equal(c->power((enum auth_group)g, NULL, x, sizeof(x), gx), 0);
                assert_int_equal(c->power((enum auth_group)g, NULL, y, sizeof(y), gy), 0);
                assert_int_equal(c->power((enum auth_group)g, gx, y, sizeof(y), a), 0);
                assert_int_equal(c->power((enum auth_group)g, gy, x, sizeof(x), b), 0);
                assert_memory_equal(a, b, auth_group_len((uint8_t)g));
                assert_memory_not_equal(a, gx, auth_group_len((uint8_t)g));
        }
}

/* --- options ---------------------------------------------------------------------------------- */

static void file_of(char *path, const char *text)
{
        int fd = mkstemp(strcpy(path, "/tmp/nvmfspec-key-XXXXXX"));

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

static void a_key_by_option(void **state)
{
        char path[64], at[80], error[200] = "";
        struct auth_key key = { 0 };

        (void)state;
        if (!c)
                skip();
        assert_int_equal(auth_key_option(&key, KEY, error, sizeof(error)), 0);
        assert_int_equal(key.len, 32);
        assert_int_equal(auth_key_option(&key, "DHHC-1:secret", error, sizeof(error)), -1);
        assert_null(strstr(error, "secret"));
        file_of(path, KEY "\nmore");
        snprintf(at, sizeof(at), "@%s", path);
        memset(&key, 0, sizeof(key));
        assert_int_equal(auth_key_option(&key, at, error, sizeof(error)), 0);
        assert_int_equal(key.len, 32);
        unlink(path);
        assert_int_equal(auth_key_option(&key, at, error, sizeof(error)), -1);
        assert_non_null(strstr(error, path));
        file_of(path, "");
        snprintf(at, sizeof(at), "@%s", path);
        assert_int_equal(auth_key_option(&key, at, error, sizeof(error)), -1);
        assert_non_null(strstr(error, path));
        unlink(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(digests),
                cmocka_unit_test(edges_are_refused),
                cmocka_unit_test(both_ends_agree),
                cmocka_unit_test(a_key_by_option),
        };

        return cmocka_run_group_tests(tests, with_openssl, NULL);
}
