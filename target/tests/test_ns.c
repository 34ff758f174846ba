/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pdu/io/loop.h"
#include "pdu/nvme/wire/nvme.h"
#include "target/ns/extents.h"
#include "target/ns/ns_backend.h"

enum { BS = 512 };
#define NQN "nqn.2026-01.io.nvmfspec:test"

static char error[256], path[] = "/tmp/nvmfspec-test-ns-XXXXXX", file_spec[64];

/* The C library's, for a disk or file system that gives nothing back. */
static bool no_holes;
int fallocate(int fd, int mode, off_t offset, off_t len)
{
        if (!no_holes)
                return (int)syscall(SYS_fallocate, fd, mode, offset, len);
        errno = EOPNOTSUPP;
        return -1;
}

static struct ns *open_ns(const char *spec)
{
        struct ns *ns = ns_open(spec, NQN, 1, error, sizeof(error));

        if (!ns)
                print_error("%s\n", error);
        assert_non_null(ns);
        return ns;
}

static void fill(uint8_t *buf, size_t len, unsigned seed)
{
        for (size_t i = 0; i < len; i++)
                buf[i] = (uint8_t)(seed + i / BS + i);
}

static const char *const kinds[] = { "mem:1M", file_spec };
#define each_kind(k) for (unsigned k = 0; k < 2; k++)

/* --- specification ---------------------------------------------------------------------------- */

static void test_sizes(void **state)
{
        uint64_t n;

        (void)state;
        assert_true(ns_parse_size("512", &n) && n == 512);
        assert_true(ns_parse_size("64k", &n) && n == 65536);
        assert_true(ns_parse_size("1T", &n) && n == UINT64_C(1) << 40);
        assert_false(ns_parse_size("", &n));
        assert_false(ns_parse_size("0", &n));
        assert_false(ns_parse_size("-1", &n));
        assert_false(ns_parse_size("1Q", &n));
        assert_false(ns_parse_size("1MM", &n));
        assert_false(ns_parse_size("99999999T", &n));
        assert_false(ns_parse_size("99999999999999999999999", &n));
}

static void test_a_bad_spec_names_its_token(void **state)
{
        static const char *const bad[][2] = {
                { "mem", "mem: neither mem:SIZE, null:SIZE, file:PATH nor a path" },
                { "mem:", "mem:: '' is not a size" },
                { "mem:x", "mem:x: 'x' is not a size" },
                { "mem:1M,bs=520", "mem:1M,bs=520: 'bs=520' is not an option of a namespace "
                                   "(bs=512, bs=4096, delay=TIME-TIME)" },
                { "mem:1M,size=2M",
                  "mem:1M,size=2M: 'size=2M' is not an option of a namespace (bs=512, "
                  "bs=4096, delay=TIME-TIME)" },
                { "null:1000", "null:1000: size is not a multiple of the block size" },
                { "mem:4608,bs=4096",
                  "mem:4608,bs=4096: size is not a multiple of the block size" },
                { "file:/nowhere/x", "file:/nowhere/x: No such file or directory" },
                { "/tmp", "/tmp: Is a directory" },
                { "/dev/null", "/dev/null: neither a file nor a block device" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_null(ns_open(bad[i][0], NQN, 1, error, sizeof(error)));
                assert_string_equal(error, bad[i][1]);
        }
}

static void test_uuid_is_stable_and_own(void **state)
{
        struct ns *a = open_ns("mem:1M"), *b = open_ns("mem:2M,bs=4096");
        struct ns *c = ns_open("mem:1M", NQN, 2, error, sizeof(error));
        struct ns *d = ns_open("mem:1M", "nqn.2026-01.io.nvmfspec:other", 1, error, sizeof(error));

        (void)state;
        assert_memory_equal(a->uuid, b->uuid, 16);
        assert_memory_not_equal(a->uuid, c->uuid, 16);
        assert_memory_not_equal(a->uuid, d->uuid, 16);
        assert_int_equal(a->lbads, 9);
        assert_int_equal(b->lbads, 12);
        assert_int_equal(b->blocks, 512);
        ns_put(a);
        ns_put(b);
        ns_put(c);
        ns_put(d);
}

/* --- blocks ----------------------------------------------------------------------------------- */

static void test_read_back(void **state)
{
        static uint8_t in[256 * BS], out[256 * BS], zero[256 * BS];

        (void)state;
        fill(in, sizeof(in), 7);
        each_kind(k)
        {
                struct ns *ns = open_ns(kinds[k]);

                assert_int_equal(ns->blocks, 2048);
                assert_int_equal(ns_read(ns, 2048 - 256, 256, out), NVME_SUCCESS);
                assert_memory_equal(out, zero, sizeof(out));
                assert_int_equal(ns_write(ns, 2048 - 256, 256, in), NVME_SUCCESS);
                assert_int_equal(ns_read(ns, 2048 - 256, 256, out), NVME_SUCCESS);
                assert_memory_equal(out, in, sizeof(out));
                assert_int_equal(ns_zero(ns, 2048 - 255, 200, k == 0), NVME_SUCCESS);
                assert_int_equal(ns_read(ns, 2048 - 256, 256, out), NVME_SUCCESS);
                assert_memory_equal(out, in, BS);
                assert_memory_equal(out + BS, zero, 200 * BS);
                assert_memory_equal(out + 201 * BS, in + 201 * BS, 55 * BS);
                assert_int_equal(ns_zero(ns, 0, 2048, k == 1), NVME_SUCCESS);
                assert_int_equal(ns_read(ns, 2048 - 256, 256, out), NVME_SUCCESS);
                assert_memory_equal(out, zero, sizeof(out));
                ns_put(ns);
        }
}

static void test_range(void **state)
{
        static uint8_t buf[2 * BS];

        (void)state;
        each_kind(k)
        {
                struct ns *ns = open_ns(kinds[k]);

                assert_int_equal(ns_read(ns, 2047, 2, buf), NVME_LBA_RANGE);
                assert_int_equal(ns_read(ns, UINT64_MAX, 2, buf), NVME_LBA_RANGE);
                assert_int_equal(ns_zero(ns, 1, UINT64_MAX, true), NVME_LBA_RANGE);
                assert_int_equal(ns_write(ns, 2048, 1, buf), NVME_LBA_RANGE);
                assert_int_equal(ns_read(ns, 2048, 0, buf), NVME_SUCCESS);
                ns_put(ns);
        }
}

static void test_compare(void **state)
{
        static uint8_t a[64 * BS], b[64 * BS], out[64 * BS];

        (void)state;
        fill(a, sizeof(a), 1);
        memcpy(b, a, sizeof(b));
        b[63 * BS + 511] ^= 1;
        each_kind(k)
        {
                struct ns *ns = open_ns(kinds[k]);

                ns_write(ns, 100, 64, a);
                assert_int_equal(ns_compare(ns, 100, 64, a), NVME_SUCCESS);
                assert_int_equal(ns_compare(ns, 100, 64, b), NVME_COMPARE_FAILURE);
                assert_int_equal(ns_compare_write(ns, 100, 64, b, b), NVME_COMPARE_FAILURE);
                ns_read(ns, 100, 64, out);
                assert_memory_equal(out, a, sizeof(out));
                assert_int_equal(ns_compare_write(ns, 100, 64, a, b), NVME_SUCCESS);
                ns_read(ns, 100, 64, out);
                assert_memory_equal(out, b, sizeof(out));
                assert_int_equal(ns_verify(ns, 100, 64), NVME_SUCCESS);
                ns_put(ns);
        }
}

static void test_deallocate(void **state)
{
        static uint8_t in[256 * BS], out[256 * BS], zero[256 * BS];

        (void)state;
        each_kind(k)
        {
                struct ns *ns = open_ns(kinds[k]);

                fill(in, sizeof(in), k);
                assert_int_equal(ns_write(ns, 0, 256, in), NVME_SUCCESS);
                assert_int_equal(ns_write_uncorrectable(ns, 7, 1), NVME_SUCCESS);
                assert_int_equal(ns_deallocate(ns, 0, 255), NVME_SUCCESS);
                assert_int_equal(ns_read(ns, 0, 256, out), NVME_SUCCESS);
                assert_memory_equal(out, zero, 255 * BS);
                assert_memory_equal(out + 255 * BS, in + 255 * BS, BS);
                assert_int_equal(ns_deallocate(ns, 1, UINT64_MAX), NVME_LBA_RANGE);
                ns_put(ns);
        }
}

/* For a hint no disk is written full of zeroes; for Write Zeroes it is. */
static void test_deallocate_where_there_are_no_holes(void **state)
{
        static uint8_t in[256 * BS], out[256 * BS], zero[256 * BS];
        struct ns *ns = open_ns(file_spec);

        (void)state;
        no_holes = true;
        fill(in, sizeof(in), 5);
        assert_int_equal(ns_write(ns, 0, 256, in), NVME_SUCCESS);
        assert_int_equal(ns_write_uncorrectable(ns, 7, 1), NVME_SUCCESS);
        assert_int_equal(ns_deallocate(ns, 0, 256), NVME_SUCCESS);
        assert_int_equal(ns_read(ns, 7, 1, out), NVME_UNRECOVERED_READ);
        assert_int_equal(ns_write(ns, 7, 1, in + 7 * BS), NVME_SUCCESS);
        assert_int_equal(ns_read(ns, 0, 256, out), NVME_SUCCESS);
        assert_memory_equal(out, in, sizeof(in));
        assert_int_equal(ns_zero(ns, 0, 256, true), NVME_SUCCESS);
        assert_int_equal(ns_read(ns, 0, 256, out), NVME_SUCCESS);
        assert_memory_equal(out, zero, sizeof(out));
        no_holes = false;
        ns_put(ns);
}

static void test_uncorrectable_until_written(void **state)
{
        static uint8_t buf[8 * BS];

        (void)state;
        each_kind(k)
        {
                struct ns *ns = open_ns(kinds[k]);

                assert_int_equal(ns_write_uncorrectable(ns, 10, 4), NVME_SUCCESS);
                assert_int_equal(ns_read(ns, 6, 8, buf), NVME_UNRECOVERED_READ);
                assert_int_equal(ns_compare(ns, 13, 1, buf), NVME_UNRECOVERED_READ);
                assert_int_equal(ns_verify(ns, 10, 1), NVME_UNRECOVERED_READ);
                assert_int_equal(ns_read(ns, 2, 8, buf), NVME_SUCCESS);
                assert_int_equal(ns_read(ns, 14, 8, buf), NVME_SUCCESS);
                assert_int_equal(ns_write(ns, 11, 1, buf), NVME_SUCCESS);
                assert_int_equal(ns_read(ns, 11, 1, buf), NVME_SUCCESS);
                assert_int_equal(ns_read(ns, 10, 1, buf), NVME_UNRECOVERED_READ);
                assert_int_equal(ns_zero(ns, 0, 2048, true), NVME_SUCCESS);
                assert_int_equal(ns_read(ns, 6, 8, buf), NVME_SUCCESS);
                ns_put(ns);
        }
}

static void test_resize(void **state)
{
        static uint8_t in[BS], out[BS], zero[BS];
        struct ns *ns = open_ns("mem:1M");

        (void)state;
        fill(in, BS, 3);
        ns_write(ns, 0, 1, in);
        ns_write(ns, 2047, 1, in);
        assert_int_equal(ns_resize(ns, 4096), NVME_SUCCESS);
        assert_int_equal(ns_write(ns, 4095, 1, in), NVME_SUCCESS);
        assert_int_equal(ns_resize(ns, 2041), NVME_SUCCESS);
        assert_int_equal(ns_read(ns, 2041, 1, out), NVME_LBA_RANGE);
        assert_int_equal(ns_resize(ns, 2048), NVME_SUCCESS);
        assert_int_equal(ns_read(ns, 2047, 1, out), NVME_SUCCESS);
        assert_memory_equal(out, zero, BS);
        ns_read(ns, 0, 1, out);
        assert_memory_equal(out, in, BS);
        ns_put(ns);
}

static void test_a_file_grows_but_is_not_cut_off(void **state)
{
        static uint8_t out[BS], zero[BS];
        struct ns *ns = open_ns(file_spec);

        (void)state;
        assert_int_equal(ns_resize(ns, 4096), NVME_SUCCESS);
        assert_int_equal(ns_read(ns, 4095, 1, out), NVME_SUCCESS);
        assert_memory_equal(out, zero, BS);
        assert_int_equal(ns_resize(ns, 2048), NVME_INVALID_FIELD);
        assert_int_equal(ns->blocks, 4096);
        ns_put(ns);
        ns = open_ns(file_spec); /* size=1M is the least */
        assert_int_equal(ns->blocks, 4096);
        ns_put(ns);
        assert_int_equal(truncate(path, 1 << 20), 0);
}

static void test_a_file_that_grew_is_noticed(void **state)
{
        struct ns *ns = open_ns(path);

        (void)state;
        assert_false(ns_measure(ns));
        assert_int_equal(truncate(path, 2 << 20), 0);
        assert_true(ns_measure(ns));
        assert_int_equal(ns->blocks, 4096);
        assert_int_equal(truncate(path, 1 << 20), 0);
        assert_true(ns_measure(ns));
        assert_int_equal(ns->blocks, 2048);
        ns_put(ns);
}

static void test_a_missing_file_is_made(void **state)
{
        char made[64], spec[96];
        struct ns *ns;
        struct stat st;

        (void)state;
        snprintf(made, sizeof(made), "%s-made", path);
        snprintf(spec, sizeof(spec), "file:%s,size=64K,bs=4096", made);
        ns = open_ns(spec);
        assert_int_equal(ns->blocks, 16);
        ns_put(ns);
        assert_int_equal(stat(made, &st), 0);
        assert_int_equal(st.st_size, 65536);
        unlink(made);
}

struct waiter {
        struct ns_wait on;
        sem_t done;
};

static void on_waited(struct ns_wait *w)
{
        sem_post(&((struct waiter *)w)->done);
}

static void begin(struct ns *ns, struct waiter *w, bool durable)
{
        w->on = (struct ns_wait) { .durable = durable, .done = on_waited };
        sem_init(&w->done, 0, 0);
        assert_false(ns_await(ns, &w->on));
}

static void end(struct waiter *w)
{
        sem_wait(&w->done);
        assert_int_equal(w->on.status, NVME_SUCCESS);
}

static void test_flush(void **state)
{
        struct waiter w[8];
        struct ns *mem = open_ns("mem:1M"), *file = open_ns(file_spec);

        (void)state;
        w[0].on = (struct ns_wait) { .durable = true };
        assert_true(ns_await(mem, &w[0].on));
        assert_int_equal(w[0].on.status, NVME_SUCCESS);
        for (unsigned i = 0; i < 8; i++)
                begin(file, &w[i], true);
        for (unsigned i = 0; i < 8; i++)
                end(&w[i]);
        ns_put(mem);
        ns_put(file);
}

static void test_delays(void **state)
{
        static const struct {
                const char *text;
                uint64_t least, most; /* us; most 0: it is none */
        } of[] = {
                { "5ms", 5000, 5000 },
                { "0-200us", 0, 200 },
                { "1us-60s", 1, 60000000 },
                { "100us-1ms", 100, 1000 },
                { "", 0, 0 },
                { "0", 0, 0 },
                { "5", 0, 0 },
                { "5m", 0, 0 },
                { "-5ms", 0, 0 },
                { "5ms-", 0, 0 },
                { "5ms-1ms", 0, 0 },
                { "5ms-6ms-7ms", 0, 0 },
                { "1ms,", 0, 0 },
                { "60001ms", 0, 0 },
                { "1-2ms", 0, 0 },
                { "18446744073709551s", 0, 0 },
                { "99999999999999999999us", 0, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
                struct ns_times t;
                bool ok = ns_delay_parse(of[i].text, &t);

                assert_int_equal(ok, of[i].most > 0);
                if (!ok)
                        continue;
                assert_int_equal(t.least, of[i].least);
                assert_int_equal(t.most, of[i].most);
        }
}

static void test_a_delayed_namespace_answers_later(void **state)
{
        char delayed_file[96];
        const char *const specs[] = { "mem:1M,delay=20ms", delayed_file };

        (void)state;
        snprintf(delayed_file, sizeof(delayed_file), "%s,delay=20ms", file_spec);
        for (unsigned k = 0; k < 2; k++) {
                struct ns *ns = open_ns(specs[k]);
                uint64_t began = loop_now_ns();
                struct waiter w[2];

                for (unsigned i = 0; i < 2; i++)
                        begin(ns, &w[i], i);
                for (unsigned i = 0; i < 2; i++)
                        end(&w[i]);
                assert_true(loop_now_ns() - began >= 20 * 1000000);
                ns_put(ns);
        }
}

struct ordered {
        struct ns_wait on;
        unsigned begun;
};
static unsigned order[64];
static _Atomic unsigned ended;

static void note_order(struct ns_wait *w)
{
        order[ended] = ((struct ordered *)w)->begun;
        ended++;
}

static void test_a_range_of_delays_changes_the_order(void **state)
{
        struct ns *ns = open_ns("null:1M,delay=0-20ms");
        struct ordered w[64];
        bool overtaken = false;

        (void)state;
        ended = 0;
        for (unsigned i = 0; i < 64; i++) {
                w[i] = (struct ordered) { .on.done = note_order, .begun = i };
                assert_false(ns_await(ns, &w[i].on));
        }
        while (ended < 64)
                usleep(1000);
        for (unsigned i = 1; i < 64; i++)
                overtaken = overtaken || order[i] < order[i - 1];
        assert_true(overtaken);
        ns_put(ns);
}

/* --- several threads: every block is as one write left it ------------------------------------- */

enum { SPAN = 600, ROUNDS = 400 }; /* blocks over several stripes, and pieces of them */
static _Atomic bool torn;

static void *writer(void *arg)
{
        static _Thread_local uint8_t buf[SPAN * BS];
        struct ns *ns = arg;
        unsigned seed = (unsigned)(uintptr_t)&buf;

        for (unsigned i = 0; i < ROUNDS; i++) {
                uint32_t lba = (uint32_t)rand_r(&seed) % SPAN,
                         n = 1 + (uint32_t)rand_r(&seed) % (SPAN - lba);

                memset(buf, (int)i, n * BS);
                if (i % 8 == 0)
                        ns_zero(ns, lba, n, true);
                else
                        ns_write(ns, lba, n, buf);
        }
        return NULL;
}

static void *reader(void *arg)
{
        static _Thread_local uint8_t buf[SPAN * BS];

        for (unsigned i = 0; i < ROUNDS; i++) {
                ns_read(arg, 0, SPAN, buf);
                for (uint8_t *b = buf; b < buf + sizeof(buf); b += BS)
                        if (memcmp(b, b + 1, BS - 1) != 0)
                                torn = true;
        }
        return NULL;
}

static void test_no_block_is_torn(void **state)
{
        pthread_t t[4];

        (void)state;
        each_kind(k)
        {
                struct ns *ns = open_ns(kinds[k]);

                for (unsigned i = 0; i < 4; i++)
                        pthread_create(&t[i], NULL, i % 2 ? writer : reader, ns);
                for (unsigned i = 0; k == 0 && i < 50; i++)
                        ns_resize(ns, i % 2 ? 2048 : 2048 + 4096 * i);
                for (unsigned i = 0; i < 4; i++)
                        pthread_join(t[i], NULL);
                assert_false(torn);
                ns_put(ns);
        }
}

/* --- extents against a bitmap ----------------------------------------------------------------- */

static void test_extents_are_a_set(void **state)
{
        struct extents e = { 0 };
        bool map[200] = { 0 };
        unsigned seed = 1;

        (void)state;
        for (unsigned i = 0; i < 20000; i++) {
                unsigned from = (unsigned)rand_r(&seed) % 199,
                         to = from + 1 + (unsigned)rand_r(&seed) % 12;
                bool add = rand_r(&seed) & 1, any = false;

                to = to > 200 ? 200 : to;
                for (unsigned j = from; j < to; j++)
                        any |= map[j];
                assert_int_equal(extents_touch(&e, from, to), any);
                assert_true(add ? extents_add(&e, from, to) : extents_remove(&e, from, to));
                memset(map + from, add, to - from);
                for (unsigned j = 1; j < e.count; j++)
                        assert_true(e.at[j - 1].to < e.at[j].from);
        }
        extents_fini(&e);
}

static void test_extents_are_bounded(void **state)
{
        struct extents e = { 0 };

        (void)state;
        for (uint64_t i = 0; i < EXTENTS_MAX; i++)
                assert_true(extents_add(&e, 2 * i, 2 * i + 1));
        assert_false(extents_add(&e, 1 << 20, (1 << 20) + 1));
        assert_true(extents_add(&e, 1, 2)); /* fills a gap */
        assert_int_equal(e.count, EXTENTS_MAX - 1);
        extents_fini(&e);
}

static int make_file(void **state)
{
        int fd = mkstemp(path);

        (void)state;
        snprintf(file_spec, sizeof(file_spec), "file:%s,size=1M", path);
        return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
        (void)state;
        return unlink(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_a_bad_spec_names_its_token),
                cmocka_unit_test(test_uuid_is_stable_and_own),
                cmocka_unit_test(test_read_back),
                cmocka_unit_test(test_range),
                cmocka_unit_test(test_compare),
                cmocka_unit_test(test_deallocate),
                cmocka_unit_test(test_deallocate_where_there_are_no_holes),
                cmocka_unit_test(test_uncorrectable_until_written),
                cmocka_unit_test(test_resize),
                cmocka_unit_test(test_a_file_grows_but_is_not_cut_off),
                cmocka_unit_test(test_a_file_that_grew_is_noticed),
                cmocka_unit_test(test_a_missing_file_is_made),
                cmocka_unit_test(test_flush),
                cmocka_unit_test(test_delays),
                cmocka_unit_test(test_a_delayed_namespace_answers_later),
                cmocka_unit_test(test_a_range_of_delays_changes_the_order),
                cmocka_unit_test(test_no_block_is_torn),
                cmocka_unit_test(test_extents_are_a_set),
                cmocka_unit_test(test_extents_are_bounded),
        };

        return cmocka_run_group_tests(tests, make_file, remove_file);
}
