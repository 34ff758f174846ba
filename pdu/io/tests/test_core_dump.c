/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "pdu/io/core_dump.h"
#include "pdu/io/shell.h"

/* -1: it cannot be read. */
static long filter(void)
{
        FILE *f = fopen("/proc/self/coredump_filter", "re");
        char line[32] = "";
        bool read = f && fgets(line, sizeof(line), f);

        if (f)
                fclose(f);
        return read ? strtol(line, NULL, 16) : -1;
}

static long filter_of_a_command(void)
{
        char says[SHELL_LINE];

        assert_int_equal(shell_run("cat /proc/$$/coredump_filter", says, 10000), 0);
        return strtol(says, NULL, 16);
}

/* Ours are empty, those of what we run are not. */
static void test_cores(void **state)
{
        long before = filter();

        (void)state;
        if (before <= 0) /* it is empty already, or there is no such file */
                return;
        assert_int_equal(filter_of_a_command(), before);
        core_dump_empty();
        assert_int_equal(filter(), 0);
        assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
        assert_int_equal(filter_of_a_command(), before);
        core_dump_empty();
        assert_int_equal(filter_of_a_command(), before);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cores),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
