/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be told without a device; with devices: test_verbs_lab.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/verbs/verbs.h"

static char error[256];
static struct verbs_provider *provider;

static int setup(void **state)
{
        (void)state;
        provider = verbs_rdma(error, sizeof(error));
        return 0;
}

static void test_without_rdma_it_says_so(void **state)
{
        (void)state;
        if (provider)
                skip();
        if (!strcmp(error, "built without RDMA"))
                return;
        assert_memory_equal(error, "RDMA: ", 6);
        assert_true(strlen(error) > 10);
        assert_null(strchr(error, '\n'));
        assert_null(strstr(error, "Success"));
}

static void test_it_says_the_same_again(void **state)
{
        char again[256] = "";

        (void)state;
        assert_ptr_equal(verbs_rdma(again, sizeof(again)), provider);
        if (!provider)
                assert_string_equal(again, error);
}

static void test_a_short_buffer_is_enough(void **state)
{
        char little[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };

        (void)state;
        if (provider)
                skip();
        assert_null(verbs_rdma(little, 6));
        assert_int_equal(strlen(little), 5);
        assert_int_equal(little[6], 1);
}

/* On a machine that has devices: what no address is, is refused, and all is given back. */
static void test_bad_addresses(void **state)
{
        struct verbs_context *c;
        int fds[4] = { -1, -1, -1, -1 };
        struct verbs_event e;

        (void)state;
        if (!provider) {
                skip();
                return;
        }
        c = verbs_open(provider);
        assert_non_null(c);
        assert_int_equal(verbs_fds(c, fds, 4), 2);
        assert_int_equal(verbs_fds(c, fds, 1), 1);
        assert_false(verbs_event(c, &e));
        assert_null(verbs_listen(c, "127.0.0.1", "nfs", 1));
        assert_int_equal(errno, ENXIO);
        assert_null(verbs_resolve(c, "127.0.0.1", "66000", 100));
        assert_int_equal(errno, ENXIO);
        assert_null(verbs_local(c, "no such name"));
        assert_int_equal(errno, ENXIO);
        assert_null(verbs_local(c, "0.0.0.0")); /* is no device's */
        assert_int_equal(errno, ENODEV);
        verbs_close(c);
}

int main(void)
{
        const struct CMUnitTest cases[] = {
                cmocka_unit_test(test_without_rdma_it_says_so),
                cmocka_unit_test(test_it_says_the_same_again),
                cmocka_unit_test(test_a_short_buffer_is_enough),
                cmocka_unit_test(test_bad_addresses),
        };

        return cmocka_run_group_tests(cases, setup, NULL);
}
