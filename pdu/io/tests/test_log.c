/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "pdu/io/log.h"
#include "pdu/io/loop.h"

static int in, out; /* a pipe of one page */
static char text[1 << 20];

static int make_pipe(void **state)
{
        int fds[2];

        (void)state;
        if (pipe(fds) < 0)
                return -1;
        in = fds[0];
        out = fds[1];
        fcntl(out, F_SETPIPE_SZ, 4096);
        fcntl(in, F_SETFL, O_NONBLOCK);
        return 0;
}

static int drop_pipe(void **state)
{
        (void)state;
        assert_true(log_flush(5000));
        close(in);
        close(out);
        return 0;
}

/* All that was logged, until nothing more comes. */
static const char *logged(void)
{
        size_t n = 0;
        ssize_t got;
        bool all;

        do {
                all = log_flush(20);
                got = read(in, text + n, sizeof(text) - 1 - n);
                n += got > 0 ? (size_t)got : 0;
        } while (got > 0 || !all);
        text[n] = '\0';
        return text;
}

static unsigned count(const char *in_what, const char *what)
{
        unsigned n = 0;

        for (const char *p = in_what; (p = strstr(p, what)); p += strlen(what))
                n++;
        return n;
}

static void test_text(void **state)
{
        (void)state;
        log_start(out, LOG_AS_INFO, false);
        log_line(LOG_AS_WARNING, NULL, NULL, "red \033[31m and\nnew %d", 5);
        log_line(LOG_AS_TRACE, NULL, NULL, "not wanted");
        logged();
        assert_non_null(strstr(text, "Z warning red \\x1b[31m and\\x0anew 5\n"));
        assert_int_equal(count(text, "\n"), 1);
        assert_true(text[4] == '-' && text[10] == 'T' && text[19] == '.');
}

static void test_json(void **state)
{
        (void)state;
        log_start(out, LOG_AS_INFO, true);
        log_line(LOG_AS_ERROR, "kind", "::1", "a \"quote\" \\ \t");
        logged();
        assert_int_equal(strncmp(text, "{\"time\":\"", 9), 0);
        assert_non_null(strstr(text, "\"level\":\"error\",\"kind\":\"kind\",\"peer\":\"::1\","
                                     "\"message\":\"a \\\"quote\\\" \\\\ \\u0009\"}\n"));
}

/* Of each kind and peer so many, and how many more there were. */
static void test_limited(void **state)
{
        (void)state;
        log_start(out, LOG_AS_INFO, false);
        for (unsigned i = 0; i < 1000; i++)
                log_line(LOG_AS_WARNING, "noise", "10.0.0.1", "noise %u", i);
        log_line(LOG_AS_WARNING, "noise", "10.0.0.2", "somebody else");
        log_line(LOG_AS_WARNING, "other", "10.0.0.1", "something else");
        logged();
        assert_int_equal(count(text, "warning noise "), LOG_BURST);
        assert_int_equal(count(text, " else"), 2);
        assert_non_null(strstr(text, "noise, 10.0.0.1: 980 lines like these were left out"));
}

/* Whoever logs is not held up by who does not read, and what was dropped is told. */
static void test_not_read(void **state)
{
        enum { LINES = 20000, PATIENCE = 60000 /* ms; who is held up hangs */ };
        unsigned dropped = 0;
        uint64_t since = loop_now_ms();
        const char *says;

        (void)state;
        log_start(out, LOG_AS_INFO, false);
        for (unsigned i = 0; i < LINES; i++)
                log_line(LOG_AS_WARNING, NULL, NULL, "line %u", i);
        assert_false(log_flush(10));
        assert_in_range(loop_now_ms() - since, 0, PATIENCE);
        for (uint64_t until = loop_now_ms() + PATIENCE; loop_now_ms() < until && dropped == 0;) {
                unsigned lines = count(logged(), "warning line");

                says = strstr(text, " lines were dropped");
                while (says && says > text && says[-1] >= '0' && says[-1] <= '9')
                        says--;
                dropped = says ? (unsigned)atoi(says) : 0;
                if (dropped > 0)
                        assert_true(lines > 0 && dropped < LINES);
        }
        assert_int_not_equal(dropped, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_text, make_pipe, drop_pipe),
                cmocka_unit_test_setup_teardown(test_json, make_pipe, drop_pipe),
                cmocka_unit_test_setup_teardown(test_limited, make_pipe, drop_pipe),
                cmocka_unit_test_setup_teardown(test_not_read, make_pipe, drop_pipe),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
