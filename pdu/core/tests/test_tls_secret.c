/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of key logs, as programs write them and as they must not be. */
#include "pdu/core/tls_secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define RANDOM "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"
#define SHORT  "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf"
#define LONG   SHORT "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf"

static int parse(struct tls_secret *s, const char *line)
{
        return tls_secret_parse(s, line, strlen(line));
}

static void secrets_are_read(void **state)
{
        static const struct {
                const char *line;
                enum tls_secret_kind kind;
                unsigned len;
        } lines[] = {
                { "CLIENT_HANDSHAKE_TRAFFIC_SECRET " RANDOM " " SHORT, TLS_CLIENT_HANDSHAKE, 32 },
                { "SERVER_HANDSHAKE_TRAFFIC_SECRET " RANDOM " " LONG "\n", TLS_SERVER_HANDSHAKE,
                  48 },
                { "CLIENT_TRAFFIC_SECRET_0 " RANDOM " " SHORT "\r\n", TLS_CLIENT_TRAFFIC, 32 },
                { "  SERVER_TRAFFIC_SECRET_0\t" RANDOM "  " LONG " \n", TLS_SERVER_TRAFFIC, 48 },
        };

        (void)state;
        for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                struct tls_secret s;

                assert_int_equal(parse(&s, lines[i].line), 1);
                assert_int_equal(s.kind, lines[i].kind);
                assert_int_equal(s.len, lines[i].len);
                for (unsigned n = 0; n < sizeof(s.random); n++)
                        assert_int_equal(s.random[n], n);
                for (unsigned n = 0; n < s.len; n++)
                        assert_int_equal(s.bytes[n], 0xa0 + n);
                assert_non_null(strstr(lines[i].line, tls_secret_name(lines[i].kind)));
        }
}

static void what_is_not_needed_is_skipped(void **state)
{
        static const char *const lines[] = {
                "",
                "\n",
                "  \r\n",
                "# CLIENT_TRAFFIC_SECRET_0",
                "#",
                "CLIENT_RANDOM " RANDOM " " LONG,
                "EXPORTER_SECRET " RANDOM " " SHORT,
                "CLIENT_TRAFFIC_SECRET_1 " RANDOM " " SHORT,
                "CLIENT_EARLY_TRAFFIC_SECRET " RANDOM " " SHORT,
        };
        struct tls_secret s;

        (void)state;
        for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
                assert_int_equal(parse(&s, lines[i]), 0);
}

static void what_is_no_key_log_is_refused(void **state)
{
        static const char *const lines[] = {
                "hello",
                "CLIENT_TRAFFIC_SECRET_0",
                "CLIENT_TRAFFIC_SECRET_0 " RANDOM,
                "CLIENT_TRAFFIC_SECRET_0 " RANDOM " a0",
                "CLIENT_TRAFFIC_SECRET_0 " RANDOM " " SHORT "a",
                "CLIENT_TRAFFIC_SECRET_0 " RANDOM " " SHORT "a0",
                "CLIENT_TRAFFIC_SECRET_0 " RANDOM " " LONG LONG LONG LONG LONG SHORT,
                "CLIENT_TRAFFIC_SECRET_0 " RANDOM "00 " SHORT,
                "CLIENT_TRAFFIC_SECRET_0 " RANDOM " " SHORT " more",
                "CLIENT_TRAFFIC_SECRET_0 0g" RANDOM " " SHORT,
                "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        };
        char line[200] = "CLIENT_TRAFFIC_SECRET_0 " RANDOM " " SHORT;
        struct tls_secret s;

        (void)state;
        for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
                assert_int_equal(parse(&s, lines[i]), -1);
        line[30] = 'g';
        assert_int_equal(parse(&s, line), -1);
        line[30] = '0';
        line[100] = '\0';
        assert_int_equal(
            tls_secret_parse(&s, line, strlen("CLIENT_TRAFFIC_SECRET_0 " RANDOM " " SHORT)), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(secrets_are_read),
                cmocka_unit_test(what_is_not_needed_is_skipped),
                cmocka_unit_test(what_is_no_key_log_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
