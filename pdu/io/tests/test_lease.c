/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/io/lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char name[LEASE_NAME + 10], other[LEASE_NAME + 10];

static void one_holder_at_a_time(void **state)
{
        int mine = lease_take(name), another;

        (void)state;
        assert_true(mine >= 0);
        assert_int_equal(lease_take(name), LEASE_HELD);
        another = lease_take(other);
        assert_true(another >= 0);
        lease_give(mine);
        mine = lease_take(name);
        assert_true(mine >= 0);
        lease_give(mine);
        lease_give(another);
        lease_give(LEASE_HELD);
}

/* Whoever holds it and dies gives it back. */
static void it_ends_with_its_holder(void **state)
{
        int told[2], waits[2], lease;
        pid_t child;
        char c;

        (void)state;
        assert_int_equal(pipe(told) | pipe(waits), 0);
        child = fork();
        if (child == 0) {
                c = lease_take(name) >= 0;
                _exit(write(told[1], &c, 1) != 1 || read(waits[0], &c, 1) != 1);
        }
        assert_int_equal(read(told[0], &c, 1), 1);
        assert_true(c);
        assert_int_equal(lease_take(name), LEASE_HELD);
        assert_int_equal(write(waits[1], &c, 1), 1);
        assert_int_equal(waitpid(child, NULL, 0), child);
        lease = lease_take(name);
        assert_true(lease >= 0);
        lease_give(lease);
        for (int i = 0; i < 2; i++) {
                close(told[i]);
                close(waits[i]);
        }
}

static void without_descriptors_there_is_none(void **state)
{
        struct rlimit old, none;

        (void)state;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
        none = old;
        none.rlim_cur = 0;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        assert_int_equal(lease_take(name), LEASE_IMPOSSIBLE);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(one_holder_at_a_time),
                                            cmocka_unit_test(it_ends_with_its_holder),
                                            cmocka_unit_test(without_descriptors_there_is_none) };

        memset(name, 'n', LEASE_NAME - 1); /* as long as may be; told apart at the end */
        snprintf(name, sizeof(name), "nvmfspec/test/%d/", getpid());
        memcpy(other, name, sizeof(other));
        name[strlen(name)] = 'a';
        other[strlen(other)] = 'b';
        return cmocka_run_group_tests(tests, NULL, NULL);
}
