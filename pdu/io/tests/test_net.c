/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pdu/io/net.h"

static char error[NET_ERROR];

static void port_text(int fd, char text[32])
{
        snprintf(text, 32, "%u", net_local_port(fd));
}

static void test_connect_and_accept(void **state)
{
        int listener = net_listen("127.0.0.1", "0", error, sizeof(error));
        int a, b, on = 0;
        socklen_t len = sizeof(on);
        char port[32], addr[NET_TRADDR];

        (void)state;
        assert_true(listener >= 0);
        assert_int_equal(net_accept(listener), -1);
        assert_int_equal(errno, EAGAIN);
        port_text(listener, port);
        a = net_connect("127.0.0.1", port, 1000, error, sizeof(error));
        assert_true(a >= 0);
        assert_true(net_wait(listener, POLLIN, 1000) > 0);
        b = net_accept(listener);
        assert_true(b >= 0);
        assert_int_equal(net_local_port(a), net_peer_port(b));
        assert_int_equal(net_peer_port(a), net_local_port(listener));
        net_peer_addr(a, addr);
        assert_string_equal(addr, "127.0.0.1");
        assert_true(fcntl(a, F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(b, F_GETFL) & O_NONBLOCK);
        assert_int_equal(getsockopt(b, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
        assert_int_equal(on, 1);
        assert_int_equal(net_wait(b, POLLIN, 10), 0);
        net_reset_close(a);
        assert_true(net_wait(b, POLLIN, 1000) & POLLERR);
        assert_int_equal(recv(b, port, 1, 0), -1);
        assert_int_equal(errno, ECONNRESET);
        close(b);
        close(listener);
}

static void test_ipv6(void **state)
{
        int listener = net_listen("[::1]", "0", error, sizeof(error)), fd;
        char port[32];

        (void)state;
        if (listener < 0)
                skip(); /* a machine without IPv6 */
        port_text(listener, port);
        fd = net_connect("::1", port, 1000, error, sizeof(error));
        assert_true(fd >= 0);
        close(fd);
        close(listener);
}

/* Who came over IPv4 to where both are listened to hears of IPv4 alone. */
static void test_ipv4_to_a_socket_of_both(void **state)
{
        int listener = net_listen("::", "0", error, sizeof(error)), a, b;
        char port[32], addr[NET_TRADDR];

        (void)state;
        if (listener < 0)
                skip(); /* a machine without IPv6 */
        port_text(listener, port);
        a = net_connect("127.0.0.1", port, 1000, error, sizeof(error));
        assert_true(a >= 0);
        assert_true(net_wait(listener, POLLIN, 1000) > 0);
        b = net_accept(listener);
        net_local_addr(b, addr);
        assert_string_equal(addr, "127.0.0.1");
        assert_int_equal(net_local_port(b), net_local_port(listener));
        assert_int_equal(net_peer_port(b), net_local_port(a));
        close(a);
        close(b);
        close(listener);
}

static void test_errors_name_what_was_wrong(void **state)
{
        int listener = net_listen("127.0.0.1", "0", error, sizeof(error));
        char port[32];

        (void)state;
        assert_int_equal(net_listen("127.0.0.1", "http", error, sizeof(error)), -1);
        assert_string_equal(error, "'http' is no TCP port");
        assert_int_equal(net_listen("127.0.0.1", "65536", error, sizeof(error)), -1);
        assert_int_equal(net_listen("256.1.1.1", "0", error, sizeof(error)), -1);
        assert_non_null(strstr(error, "256.1.1.1: "));
        port_text(listener, port);
        assert_int_equal(net_listen("127.0.0.1", port, error, sizeof(error)), -1);
        assert_non_null(strstr(error, strerror(EADDRINUSE)));
        close(listener);
        assert_int_equal(net_connect("127.0.0.1", port, 1000, error, sizeof(error)), -1);
        assert_non_null(strstr(error, strerror(ECONNREFUSED)));
        assert_int_equal(net_connect("[]", port, 1000, error, sizeof(error)), -1);
        assert_non_null(strstr(error, "[]: "));
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
                cmocka_unit_test(test_connect_and_accept),
                cmocka_unit_test(test_ipv6),
                cmocka_unit_test(test_ipv4_to_a_socket_of_both),
                cmocka_unit_test(test_errors_name_what_was_wrong),
                cmocka_unit_test(test_split),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
