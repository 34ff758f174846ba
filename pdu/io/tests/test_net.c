/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include <netdb.h>

#include "pdu/io/net.h"

static char error[NET_ERROR];

static void test_errors_name_what_was_wrong(void **state)
{
        char longer[NET_TRADDR + 1] = "";

        (void)state;
        memset(longer, 'a', NET_TRADDR);
        assert_null(net_resolve("127.0.0.1", "http", 0, error, sizeof(error)));
        assert_string_equal(error, "'http' is not a TCP port");
        assert_null(net_resolve("127.0.0.1", "65536", 0, error, sizeof(error)));
        assert_null(net_resolve("256.1.1.1", "0", 0, error, sizeof(error)));
        assert_non_null(strstr(error, "256.1.1.1: "));
        assert_null(net_resolve("[]", "4420", 0, error, sizeof(error)));
        assert_non_null(strstr(error, "[]: "));
        assert_null(net_resolve(longer, "4420", 0, error, sizeof(error)));
        assert_string_equal(error, "address is longer than 255 bytes");
}

static void test_brackets_are_stripped(void **state)
{
        struct addrinfo *list = net_resolve("[::1]", "4420", AI_NUMERICHOST, error, sizeof(error));

        (void)state;
        assert_non_null(list);
        assert_int_equal(list->ai_family, AF_INET6);
        freeaddrinfo(list);
}

/* "localhost" is all names that a machine without a network has. */
static void test_addresses(void **state)
{
        static const char *const same[] = { "127.0.0.1", "::1", "[::1]", "" };
        char addr[4][NET_TRADDR];
        unsigned n;

        (void)state;
        for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
                assert_int_equal(net_addresses(same[i], "0", addr, 4, error, sizeof(error)), 1);
                assert_string_equal(addr[0], same[i]);
        }
        n = net_addresses("localhost", "0", addr, 4, error, sizeof(error));
        assert_in_range(n, 1, 4);
        for (unsigned i = 0; i < n; i++)
                if (strcmp(addr[i], "::1") != 0)
                        assert_memory_equal(addr[i], "127.", 4);
        assert_int_equal(net_addresses("256.1.1.1", "0", addr, 4, error, sizeof(error)), 0);
        assert_non_null(strstr(error, "256.1.1.1: "));
}

static void test_split(void **state)
{
        char addr[NET_TRADDR], port[32];

        (void)state;
        assert_true(net_split("192.0.2.7:4420", addr, port));
        assert_string_equal(addr, "192.0.2.7");
        assert_string_equal(port, "4420");
        assert_true(net_split("[2001:db8::1]:8009", addr, port));
        assert_string_equal(addr, "[2001:db8::1]");
        assert_true(net_split(":4420", addr, port));
        assert_string_equal(addr, "");
        assert_false(net_split("2001:db8::1:8009", addr, port));
        assert_false(net_split("192.0.2.7", addr, port));
        assert_false(net_split("192.0.2.7:", addr, port));
        assert_false(net_split("192.0.2.7:x", addr, port));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_errors_name_what_was_wrong),
                cmocka_unit_test(test_brackets_are_stripped),
                cmocka_unit_test(test_addresses),
                cmocka_unit_test(test_split),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
