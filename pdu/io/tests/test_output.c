/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pdu/io/output.h"

static char place[] = "/tmp/nvmfspec-test-output-XXXXXX";

/* A path in there; good until the next call but one. */
static const char *in_place(const char *name)
{
        static char paths[2][128];
        static unsigned turn;
        char *path = paths[turn++ % 2];

        snprintf(path, sizeof(paths[0]), "%s/%s", place, name);
        return path;
}

static int setup(void **state)
{
        int fd;

        (void)state;
        if (!mkdtemp(place))
                return -1;
        fd = open(in_place("file"), O_WRONLY | O_CREAT, 0600);
        return fd >= 0 && write(fd, "kept", 4) == 4 ? close(fd) : -1;
}

static int teardown(void **state)
{
        (void)state;
        unlink(in_place("file"));
        rmdir(in_place("folder"));
        return rmdir(place);
}

static void test_file(void **state)
{
        struct stat st;

        (void)state;
        assert_true(output_file(in_place("new")));
        assert_int_equal(access(in_place("new"), F_OK), -1); /* none was left behind */
        assert_true(output_file(in_place("file")));
        assert_int_equal(stat(in_place("file"), &st), 0);
        assert_int_equal(st.st_size, 4);
        assert_true(output_file("/dev/null"));
        assert_false(output_file(in_place("none/new")));
        assert_int_equal(errno, ENOENT);
        assert_false(output_file(in_place("file/new")));
        assert_int_equal(errno, ENOTDIR);
        assert_false(output_file(place));
        assert_int_equal(errno, EISDIR);
}

static void test_folder(void **state)
{
        (void)state;
        assert_true(output_folder(in_place("folder")));
        assert_true(output_folder(in_place("folder")));
        assert_false(output_folder(in_place("file")));
        assert_int_equal(errno, ENOTDIR);
        assert_false(output_folder(in_place("none/folder")));
        assert_int_equal(errno, ENOENT);
}

/* As an ordinary user: root may write anywhere. */
static void test_what_may_not_be_written(void **state)
{
        (void)state;
        if (geteuid() == 0)
                skip();
        assert_false(output_file("/etc/passwd"));
        assert_int_equal(errno, EACCES);
        assert_false(output_folder("/etc"));
        assert_int_equal(errno, EACCES);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_file),
                cmocka_unit_test(test_folder),
                cmocka_unit_test(test_what_may_not_be_written),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
