/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of lines of which nothing is lost without notice, whatever the disk does and however much comes. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "target/engine/journal.h"

static char folder[64], path[128];

static int make_folder(void **state)
{
        (void)state;
        strcpy(folder, "/tmp/test_journal.XXXXXX");
        if (!mkdtemp(folder))
                return -1;
        snprintf(path, sizeof(path), "%s/trace", folder);
        return 0;
}

static int remove_folder(void **state)
{
        char command[128];

        (void)state;
        snprintf(command, sizeof(command), "rm -rf '%s'", folder);
        return system(command);
}

static size_t head(uint64_t part, char *text, size_t size)
{
        return (size_t)snprintf(text, size, "head %u", (unsigned)part);
}

static _Atomic bool held; /* no line is made: the disk is slow */

/* A record is a number, and so many bytes that do not matter. */
static size_t line(const void *record, size_t n, char *text, size_t size)
{
        uint64_t number;

        assert_int_equal((uintptr_t)record % 8, 0);
        assert_true(n >= sizeof(number));
        memcpy(&number, record, sizeof(number));
        while (held)
                usleep(1000);
        return number == UINT64_MAX ? 0 : (size_t)snprintf(text, size, "%u", (unsigned)number);
}

static struct journal *start(uint64_t most, unsigned files)
{
        const struct journal_options o = {
                .path = path, .most = most, .files = files, .head = head, .line = line
        };
        char error[200] = "";
        struct journal *j = journal_open(&o, error, sizeof(error));

        assert_string_equal(error, "");
        assert_non_null(j);
        return j;
}

struct seen {
        unsigned head, lines, first, last, left_out;
        bool whole, ends_with_left_out; /* each line has its end */
        off_t bytes;
};

static void look_at(struct seen *s, const char *text)
{
        unsigned n;

        s->whole = strchr(text, '\n');
        if (!s->whole) /* it is being written */
                return;
        s->ends_with_left_out = sscanf(text, "{\"left_out\":%u}\n", &n) == 1;
        if (s->ends_with_left_out) {
                s->left_out += n;
                return;
        }
        assert_int_equal(sscanf(text, "%u\n", &n), 1);
        if (s->lines++ == 0)
                s->first = n;
        else
                assert_true(n > s->last); /* in order */
        s->last = n;
}

static struct seen read_file(const char *suffix)
{
        struct seen s = { 0 };
        char name[160], text[256];
        struct stat st;
        FILE *f;

        snprintf(name, sizeof(name), "%s%s", path, suffix);
        f = fopen(name, "r");
        assert_non_null(f);
        assert_non_null(fgets(text, sizeof(text), f));
        assert_int_equal(sscanf(text, "head %u\n", &s.head), 1);
        while (fgets(text, sizeof(text), f))
                look_at(&s, text);
        assert_int_equal(fstat(fileno(f), &st), 0);
        s.bytes = st.st_size;
        fclose(f);
        return s;
}

static void add(struct journal *j, unsigned from, unsigned to, size_t n)
{
        uint64_t record[512] = { 0 };

        assert_true(n >= 8 && n <= sizeof(record));
        for (unsigned i = from; i < to; i++) {
                record[0] = i;
                journal_add(j, record, n);
        }
}

static void test_all_in_order(void **state)
{
        struct journal *j = start(0, 1);
        struct seen s;

        (void)state;
        for (size_t n = 8; n < 80; n++)
                add(j, (unsigned)n * 10, (unsigned)n * 10 + 10, n);
        assert_int_equal(journal_left_out(j), 0);
        assert_int_equal(journal_close(j), 0);
        s = read_file("");
        assert_int_equal(s.lines, 720);
        assert_int_equal(s.first, 80);
        assert_int_equal(s.last, 799);
        assert_true(s.whole && s.left_out == 0);
}

/* It is there while it is written, not only in the end. */
static void test_a_line_is_there_soon(void **state)
{
        struct journal *j = start(0, 1);

        (void)state;
        add(j, 7, 8, 8);
        for (int i = 0; i < 500 && read_file("").lines == 0; i++)
                usleep(10000);
        assert_int_equal(read_file("").lines, 1);
        assert_int_equal(journal_close(j), 0);
}

/* What the only file has no room for is counted in its last line, and the file keeps to its size. */
static void test_a_file_is_full(void **state)
{
        struct journal *j = start(JOURNAL_LEAST, 1);
        struct seen s;

        (void)state;
        add(j, 1000000, 1020000, 8);
        assert_int_equal(journal_close(j), 0);
        s = read_file("");
        assert_true(s.bytes <= JOURNAL_LEAST && s.bytes > JOURNAL_LEAST - 200);
        assert_int_equal(s.lines + s.left_out, 20000);
        assert_true(s.lines > 7000 && s.first == 1000000 && s.last == 1000000 + s.lines - 1);
        assert_true(s.ends_with_left_out && s.whole);
}

static void test_a_ring(void **state)
{
        static const char *const suffixes[] = { "", ".1", ".2" };
        struct journal *j = start(JOURNAL_LEAST, 3);
        struct seen s[3];
        unsigned heads = 0;

        (void)state;
        for (unsigned i = 0; i < 5; i++) {
                add(j, 1000000 + i * 10000, 1010000 + i * 10000, 8);
                usleep(120000); /* so that none is left out */
        }
        assert_int_equal(journal_left_out(j), 0);
        assert_int_equal(journal_close(j), 0);
        for (int i = 0; i < 3; i++) {
                s[i] = read_file(suffixes[i]);
                assert_int_equal(s[i].head % 3, i);
                assert_true(s[i].bytes <= JOURNAL_LEAST && s[i].whole);
                heads += s[i].head;
        }
        assert_true(heads >= 12); /* three in a row: 3 + 4 + 5 at least */
        for (int i = 0; i < 3; i++) {
                const struct seen *a = &s[i], *b = &s[(i + 1) % 3];

                if (b->head == a->head + 1)
                        assert_int_equal(b->first, a->last + 1);
                else
                        assert_int_equal(a->last, 1049999);
        }
}

/* Nobody waits for the file: it is a pipe that nobody reads. */
static void test_nobody_waits(void **state)
{
        unsigned wanted = 3 * JOURNAL_ROOM / 4096;
        struct journal *j;
        FILE *reader;

        (void)state;
        assert_int_equal(mkfifo(path, 0600), 0);
        reader = fopen(path, "r+"); /* opens at once, and keeps it open */
        assert_non_null(reader);
        j = start(0, 1);
        add(j, 0, wanted * 100, 4096); /* comes back */
        assert_true(journal_left_out(j) > 0);
        fclose(reader);  /* the thread's writes fail from now on, and all is left out */
        add(j, 0, 1, 8); /* or, if there were few before and all are in the pipe by now, this one */
        assert_int_equal(journal_close(j), -1);
        assert_int_equal(errno, EPIPE);
}

/* What found no room, what was lost, and what makes no line are told in the file. */
static void test_left_out_is_told(void **state)
{
        const uint64_t nothing = UINT64_MAX;
        struct journal *j = start(0, 1);
        struct seen s;

        (void)state;
        held = true;
        add(j, 0, 5000, 4096); /* 20 MB */
        assert_in_range(journal_left_out(j), 5000 - 2 * JOURNAL_ROOM / 4096, 4999);
        held = false;
        while (read_file("").left_out == 0)
                usleep(10000);
        journal_lose(j);
        journal_add(j, &nothing, sizeof(nothing));
        add(j, 5000, 5001, 8); /* it goes on */
        assert_int_equal(journal_close(j), 0);
        s = read_file("");
        assert_int_equal(s.lines + s.left_out, 5003);
        assert_int_equal(s.last, 5000);
        assert_true(s.whole);
}

static void test_no_such_folder(void **state)
{
        struct journal_options o = { .head = head, .line = line, .path = "/nonexistent/trace" };
        char error[200] = "";

        (void)state;
        assert_null(journal_open(&o, error, sizeof(error)));
        assert_string_equal(error, "/nonexistent/trace: No such file or directory");
}

static void test_a_full_disk(void **state)
{
        const struct journal_options o = { .path = "/dev/full", .head = head, .line = line };
        char error[200] = "";

        (void)state;
        assert_null(journal_open(&o, error, sizeof(error)));
        assert_string_equal(error, "/dev/full: No space left on device");
        assert_int_equal(journal_close(NULL), 0);
}

static void *add_some(void *arg)
{
        for (unsigned i = 0; i < 2000; i++)
                journal_lose(arg);
        return NULL;
}

static void test_from_several_threads(void **state)
{
        struct journal *j = start(0, 1);
        pthread_t thread[4];
        struct seen s;

        (void)state;
        for (int i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&thread[i], NULL, add_some, j), 0);
        add(j, 0, 2000, 16);
        for (int i = 0; i < 4; i++)
                pthread_join(thread[i], NULL);
        assert_int_equal(journal_close(j), 0);
        s = read_file("");
        assert_int_equal(s.lines, 2000);
        assert_int_equal(s.left_out, 8000);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
        const struct CMUnitTest tests[] = {
                EACH(test_all_in_order),         EACH(test_a_line_is_there_soon),
                EACH(test_a_file_is_full),       EACH(test_a_ring),
                EACH(test_nobody_waits),         EACH(test_left_out_is_told),
                EACH(test_no_such_folder),       EACH(test_a_full_disk),
                EACH(test_from_several_threads),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
