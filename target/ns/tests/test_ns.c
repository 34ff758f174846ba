/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pdu/io/log.h"
#include "pdu/io/loop.h"
#include "target/ns/marks.h"
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

static _Atomic bool no_sync, slow_sync;
static _Atomic unsigned syncs;
int fdatasync(int fd)
{
        syncs++;
        while (slow_sync)
                usleep(1000);
        if (!no_sync)
                return (int)syscall(SYS_fdatasync, fd);
        errno = EIO;
        return -1;
}

/* Of all that a file has, its attributes too. */
static _Atomic unsigned full_syncs;
int fsync(int fd)
{
        full_syncs++;
        return (int)syscall(SYS_fsync, fd);
}

/* A file system without attributes, as some of network and memory are. */
static _Atomic bool no_attributes;
ssize_t fgetxattr(int fd, const char *name, void *value, size_t size)
{
        if (!no_attributes)
                return syscall(SYS_fgetxattr, fd, name, value, size);
        errno = ENOTSUP;
        return -1;
}

int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
        if (!no_attributes)
                return (int)syscall(SYS_fsetxattr, fd, name, value, size, flags);
        errno = ENOTSUP;
        return -1;
}

static struct ns *open_ns(const char *spec)
{
        struct ns *ns = ns_open(NULL, spec, NQN, 1, error, sizeof(error));

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
                { "mem:1M,bs=520",
                  "mem:1M,bs=520: 'bs=520' is not an option of a namespace "
                  "(bs=512, bs=4096, delay=TIME-TIME, ms=8, pi=1, guard=32, sts=16)" },
                { "mem:1M,size=2M",
                  "mem:1M,size=2M: 'size=2M' is not an option of a namespace (bs=512, "
                  "bs=4096, delay=TIME-TIME, ms=8, pi=1, guard=32, sts=16)" },
                { "null:1000", "null:1000: size is not a multiple of the block size" },
                { "mem:4608,bs=4096",
                  "mem:4608,bs=4096: size is not a multiple of the block size" },
                { "file:/nowhere/x", "file:/nowhere/x: No such file or directory" },
                { "/tmp", "/tmp: Is a directory" },
                { "/dev/null", "/dev/null: neither a file nor a block device" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_null(ns_open(NULL, bad[i][0], NQN, 1, error, sizeof(error)));
                assert_string_equal(error, bad[i][1]);
        }
}

static void test_uuid_is_stable_and_own(void **state)
{
        struct ns *a = open_ns("mem:1M"), *b = open_ns("mem:2M,bs=4096");
        struct ns *c = ns_open(NULL, "mem:1M", NQN, 2, error, sizeof(error));
        struct ns *d =
            ns_open(NULL, "mem:1M", "nqn.2026-01.io.nvmfspec:other", 1, error, sizeof(error));

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
                assert_int_equal(ns_read(ns, 2048 - 256, 256, out), NS_DONE);
                assert_memory_equal(out, zero, sizeof(out));
                assert_int_equal(ns_write(ns, 2048 - 256, 256, in), NS_DONE);
                assert_int_equal(ns_read(ns, 2048 - 256, 256, out), NS_DONE);
                assert_memory_equal(out, in, sizeof(out));
                assert_int_equal(ns_zero(ns, 2048 - 255, 200, k == 0), NS_DONE);
                assert_int_equal(ns_read(ns, 2048 - 256, 256, out), NS_DONE);
                assert_memory_equal(out, in, BS);
                assert_memory_equal(out + BS, zero, 200 * BS);
                assert_memory_equal(out + 201 * BS, in + 201 * BS, 55 * BS);
                assert_int_equal(ns_zero(ns, 0, 2048, k == 1), NS_DONE);
                assert_int_equal(ns_read(ns, 2048 - 256, 256, out), NS_DONE);
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

                assert_int_equal(ns_read(ns, 2047, 2, buf), NS_BEYOND);
                assert_int_equal(ns_read(ns, UINT64_MAX, 2, buf), NS_BEYOND);
                assert_int_equal(ns_zero(ns, 1, UINT64_MAX, true), NS_BEYOND);
                assert_int_equal(ns_write(ns, 2048, 1, buf), NS_BEYOND);
                assert_int_equal(ns_read(ns, 2048, 0, buf), NS_DONE);
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
                assert_int_equal(ns_compare(ns, 100, 64, a), NS_DONE);
                assert_int_equal(ns_compare(ns, 100, 64, b), NS_DIFFERS);
                assert_int_equal(ns_compare_write(ns, 100, 64, b, b), NS_DIFFERS);
                ns_read(ns, 100, 64, out);
                assert_memory_equal(out, a, sizeof(out));
                assert_int_equal(ns_compare_write(ns, 100, 64, a, b), NS_DONE);
                ns_read(ns, 100, 64, out);
                assert_memory_equal(out, b, sizeof(out));
                assert_int_equal(ns_verify(ns, 100, 64), NS_DONE);
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
                assert_int_equal(ns_write(ns, 0, 256, in), NS_DONE);
                assert_int_equal(ns_write_uncorrectable(ns, 7, 1), NS_DONE);
                assert_int_equal(ns_deallocate(ns, 0, 255), NS_DONE);
                assert_int_equal(ns_read(ns, 0, 256, out), NS_DONE);
                assert_memory_equal(out, zero, 255 * BS);
                assert_memory_equal(out + 255 * BS, in + 255 * BS, BS);
                assert_int_equal(ns_deallocate(ns, 1, UINT64_MAX), NS_BEYOND);
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
        assert_int_equal(ns_write(ns, 0, 256, in), NS_DONE);
        assert_int_equal(ns_write_uncorrectable(ns, 7, 1), NS_DONE);
        assert_int_equal(ns_deallocate(ns, 0, 256), NS_DONE);
        assert_int_equal(ns_read(ns, 7, 1, out), NS_READ_ERROR);
        assert_int_equal(ns_write(ns, 7, 1, in + 7 * BS), NS_DONE);
        assert_int_equal(ns_read(ns, 0, 256, out), NS_DONE);
        assert_memory_equal(out, in, sizeof(in));
        assert_int_equal(ns_zero(ns, 0, 256, true), NS_DONE);
        assert_int_equal(ns_read(ns, 0, 256, out), NS_DONE);
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

                assert_int_equal(ns_write_uncorrectable(ns, 10, 4), NS_DONE);
                assert_int_equal(ns_read(ns, 6, 8, buf), NS_READ_ERROR);
                assert_int_equal(ns_compare(ns, 13, 1, buf), NS_READ_ERROR);
                assert_int_equal(ns_verify(ns, 10, 1), NS_READ_ERROR);
                assert_int_equal(ns_read(ns, 2, 8, buf), NS_DONE);
                assert_int_equal(ns_read(ns, 14, 8, buf), NS_DONE);
                assert_int_equal(ns_write(ns, 11, 1, buf), NS_DONE);
                assert_int_equal(ns_read(ns, 11, 1, buf), NS_DONE);
                assert_int_equal(ns_read(ns, 10, 1, buf), NS_READ_ERROR);
                assert_int_equal(ns_zero(ns, 0, 2048, true), NS_DONE);
                assert_int_equal(ns_read(ns, 6, 8, buf), NS_DONE);
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
        assert_int_equal(ns_resize(ns, 4096), NS_DONE);
        assert_int_equal(ns_write(ns, 4095, 1, in), NS_DONE);
        assert_int_equal(ns_resize(ns, 2041), NS_DONE);
        assert_int_equal(ns_read(ns, 2041, 1, out), NS_BEYOND);
        assert_int_equal(ns_resize(ns, 2048), NS_DONE);
        assert_int_equal(ns_read(ns, 2047, 1, out), NS_DONE);
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
        assert_int_equal(ns_resize(ns, 4096), NS_DONE);
        assert_int_equal(ns_read(ns, 4095, 1, out), NS_DONE);
        assert_memory_equal(out, zero, BS);
        assert_int_equal(ns_resize(ns, 2048), NS_FIXED);
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

/* Whatever it is called, and however large its blocks: what one does the other sees. */
static void test_namespaces_on_one_file_share_it(void **state)
{
        static uint8_t in[8 * BS], out[8 * BS];
        char name[64], other[96];
        struct ns *a = open_ns(file_spec), *b;

        (void)state;
        snprintf(name, sizeof(name), "%s-link", path);
        assert_int_equal(link(path, name), 0);
        snprintf(other, sizeof(other), "file:%s,bs=4096", name);
        b = open_ns(other);
        unlink(name);
        assert_ptr_equal(a->store, b->store);
        assert_ptr_equal(a->lock, b->lock);
        fill(in, sizeof(in), 3);
        assert_int_equal(ns_write(a, 8, 8, in), NS_DONE);
        assert_int_equal(ns_read(b, 1, 1, out), NS_DONE);
        assert_memory_equal(in, out, sizeof(in));
        assert_int_equal(ns_write_uncorrectable(a, 15, 1), NS_DONE);
        assert_int_equal(ns_read(b, 1, 1, out), NS_READ_ERROR);
        assert_int_equal(ns_read(b, 2, 1, out), NS_DONE);
        ns_put(a);
        assert_int_equal(ns_zero(b, 1, 1, false), NS_DONE);
        assert_int_equal(ns_read(b, 1, 1, out), NS_DONE);
        ns_put(b);
}

/* Where blocks of two sizes are on one file, a large one may be deallocated, or unreadable, in part. */
static void test_large_blocks_of_which_a_part_is_marked(void **state)
{
        char spec[96];
        struct ns *a = open_ns(file_spec), *b;
        uint64_t n;

        (void)state;
        snprintf(spec, sizeof(spec), "file:%s,bs=4096", path);
        b = open_ns(spec);
        assert_int_equal(ns_deallocate(a, 9, 1), NS_DONE);
        assert_int_equal(ns_deallocate(a, 20, 2), NS_DONE);
        assert_int_equal(ns_used(a), a->blocks - 3);
        assert_int_equal(ns_used(b), b->blocks);
        assert_int_equal(ns_extent(b, NS_ALLOCATED, 0, 8, &n), 0);
        assert_int_equal(n, 8);
        assert_int_equal(ns_deallocate(a, 16, 16), NS_DONE);
        assert_int_equal(ns_used(b), b->blocks - 2);
        assert_int_equal(ns_extent(b, NS_ALLOCATED, 1, 8, &n), 1);
        assert_int_equal(n, 1);
        assert_int_equal(ns_extent(b, NS_ALLOCATED, 2, 8, &n), 4);
        assert_int_equal(n, 4);
        assert_int_equal(ns_write_uncorrectable(a, 47, 2), NS_DONE);
        assert_int_equal(ns_extent(b, NS_UNREADABLE, 0, 8, &n), 5);
        assert_int_equal(n, 2);
        assert_int_equal(ns_zero(a, 47, 2, false), NS_DONE);
        ns_put(a);
        ns_put(b);
}

/* 0: it could be opened, and was closed. */
static int open_in_another_process(const char *spec)
{
        int status = -1;
        pid_t child = fork();

        if (child == 0) {
                struct ns *ns = ns_open(NULL, spec, NQN, 1, error, sizeof(error));

                if (ns)
                        ns_put(ns);
                _exit(ns ? 0 : strstr(error, ": in use by another process") ? 1 : 2);
        }
        assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
        return WEXITSTATUS(status);
}

static void test_a_file_belongs_to_one_process(void **state)
{
        char same_file[64];
        struct ns *ns;
        pid_t child;
        int ready[2];
        char c;

        (void)state;
        snprintf(same_file, sizeof(same_file), "%s", path);
        assert_int_equal(pipe(ready), 0);
        child = fork();
        if (child == 0) {
                alarm(30);
                open_ns(same_file);
                _exit(write(ready[1], "", 1) == 1 && pause() ? 0 : 1);
        }
        assert_int_equal(read(ready[0], &c, 1), 1);
        assert_null(ns_open(NULL, file_spec, NQN, 1, error, sizeof(error)));
        assert_non_null(strstr(error, ": in use by another process"));
        assert_int_equal(open_in_another_process(file_spec), 1);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        ns = open_ns(file_spec); /* whoever dies lets go of it */
        ns_put(ns);
        assert_int_equal(open_in_another_process(file_spec), 0);
        close(ready[0]);
        close(ready[1]);
}

/* As for one that is mounted: only opening it exclusively fails. */
static void test_a_device_in_use_is_refused(void **state)
{
        char node[64];
        int loop = open("/dev/loop-control", O_RDWR | O_CLOEXEC), number, device, image;

        (void)state;
        number = loop < 0 ? -1 : ioctl(loop, LOOP_CTL_GET_FREE);
        snprintf(node, sizeof(node), "/dev/loop%d", number);
        device = number < 0 ? -1 : open(node, O_RDWR | O_EXCL | O_CLOEXEC);
        image = open(path, O_RDWR | O_CLOEXEC);
        if (device < 0 || ioctl(device, LOOP_SET_FD, image) < 0) {
                print_message("no loop device here\n");
        } else {
                assert_null(ns_open(NULL, node, NQN, 1, error, sizeof(error)));
                assert_non_null(strstr(error, ": the device is mounted or in use"));
                close(device);
                ns_put(open_ns(node));
                device = open(node, O_RDWR | O_CLOEXEC);
                ioctl(device, LOOP_CLR_FD);
        }
        close(device);
        close(image);
        close(loop);
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
        assert_int_equal(w->on.result, NS_DONE);
}

static void test_flush(void **state)
{
        struct waiter w[8];
        struct ns *mem = open_ns("mem:1M"), *file = open_ns(file_spec);

        (void)state;
        w[0].on = (struct ns_wait) { .durable = true };
        assert_true(ns_await(mem, &w[0].on));
        assert_int_equal(w[0].on.result, NS_DONE);
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

static void count_ended(struct ns_wait *w)
{
        (void)w;
        ended++;
}

/* However many wait, one more that is due last costs the same. */
static void test_a_delay_that_many_wait_for(void **state)
{
        enum { MANY = 60000 };
        struct ns *ns = open_ns("null:1M,delay=60s");
        struct ns_wait *w = calloc(MANY, sizeof(*w));
        uint64_t began = loop_now_ns();

        (void)state;
        ended = 0;
        for (unsigned i = 0; i < MANY; i++) {
                w[i].done = count_ended;
                assert_false(ns_await(ns, &w[i]));
        }
        assert_true(loop_now_ns() - began < UINT64_C(1000000000));
        ns_hurry(ns);
        while (ended < MANY)
                usleep(1000);
        ns_put(ns);
        free(w);
}

/* --- several threads: every block is as one write left it ------------------------------------- */

enum { SPAN = 600, ROUNDS = 400 }; /* blocks over several stripes, and pieces of them */
static _Atomic bool torn;

static void *writer(void *arg)
{
        uint8_t *buf = malloc(SPAN * BS);
        struct ns *ns = arg;
        unsigned seed = (unsigned)(uintptr_t)buf;

        for (unsigned i = 0; i < ROUNDS; i++) {
                uint32_t lba = (uint32_t)rand_r(&seed) % SPAN,
                         n = 1 + (uint32_t)rand_r(&seed) % (SPAN - lba);

                memset(buf, (int)i, n * BS);
                if (i % 8 == 0)
                        ns_zero(ns, lba, n, true);
                else
                        ns_write(ns, lba, n, buf);
        }
        free(buf);
        return NULL;
}

static void *reader(void *arg)
{
        uint8_t *buf = malloc(SPAN * BS);

        for (unsigned i = 0; i < ROUNDS; i++) {
                ns_read(arg, 0, SPAN, buf);
                for (uint8_t *b = buf; b < buf + SPAN * BS; b += BS)
                        if (memcmp(b, b + 1, BS - 1) != 0)
                                torn = true;
        }
        free(buf);
        return NULL;
}

/* A reader and a writer of each; what they read and write is the same. */
static void read_and_write(struct ns *one, struct ns *other, bool resize)
{
        pthread_t t[4];

        torn = false;
        for (unsigned i = 0; i < 4; i++)
                pthread_create(&t[i], NULL, i % 2 ? writer : reader, i < 2 ? one : other);
        for (unsigned i = 0; resize && i < 50; i++)
                ns_resize(one, i % 2 ? 2048 : 2048 + 4096 * i);
        for (unsigned i = 0; i < 4; i++)
                pthread_join(t[i], NULL);
        assert_false(torn);
}

static void test_no_block_is_torn(void **state)
{
        (void)state;
        each_kind(k)
        {
                struct ns *ns = open_ns(kinds[k]);

                read_and_write(ns, ns, k == 0);
                ns_put(ns);
        }
}

/* As two subsystems have it, the second by another name of the file. */
static void test_no_block_is_torn_where_a_file_is_open_twice(void **state)
{
        char link_path[64], link_spec[96];
        struct ns *one = open_ns(file_spec), *other;

        (void)state;
        snprintf(link_path, sizeof(link_path), "%s-link", path);
        snprintf(link_spec, sizeof(link_spec), "file:%s,size=1M", link_path);
        assert_int_equal(link(path, link_path), 0);
        other = open_ns(link_spec);
        assert_ptr_not_equal(one, other);
        read_and_write(one, other, false);
        ns_put(other);
        ns_put(one);
        unlink(link_path);
}

/* --- blocks that are deallocated, or cannot be read -------------------------------------------- */

static void want_extent(struct ns *ns, enum ns_blocks what, uint64_t lba, uint64_t first,
                        uint64_t count)
{
        uint64_t n, at = ns_extent(ns, what, lba, 64, &n);

        assert_int_equal(at, first);
        assert_int_equal(n, count);
}

static void test_blocks_are_told(void **state)
{
        struct ns *ns = ns_open(NULL, "mem:64K", "nqn", 1, NULL, 0);
        uint8_t block[512] = { 1 };

        (void)state;
        want_extent(ns, NS_ALLOCATED, 0, 0, 64);
        want_extent(ns, NS_UNREADABLE, 0, 64, 0);
        assert_int_equal(ns_deallocate(ns, 8, 4), NS_DONE);
        assert_int_equal(ns_zero(ns, 12, 4, true), NS_DONE);
        want_extent(ns, NS_ALLOCATED, 0, 0, 8);
        want_extent(ns, NS_ALLOCATED, 8, 16, 48);
        assert_int_equal(ns_used(ns), 128 - 8);
        assert_int_equal(ns_read(ns, 8, 1, block), NS_DONE);
        atomic_store(&ns->deallocated_fails, true);
        assert_int_equal(ns_read(ns, 7, 2, block), NS_DEALLOCATED);
        assert_int_equal(ns_verify(ns, 15, 1), NS_DEALLOCATED);
        assert_int_equal(ns_write(ns, 8, 1, block), NS_DONE);
        assert_int_equal(ns_read(ns, 8, 1, block), NS_DONE);
        assert_int_equal(ns_zero(ns, 9, 1, false), NS_DONE);
        want_extent(ns, NS_ALLOCATED, 0, 0, 10);
        assert_int_equal(ns_times_marked(ns), 0);
        assert_int_equal(ns_write_uncorrectable(ns, 10, 2), NS_DONE);
        assert_int_equal(ns_times_marked(ns), 1);
        want_extent(ns, NS_UNREADABLE, 0, 10, 2);
        want_extent(ns, NS_ALLOCATED, 0, 0, 12);
        assert_int_equal(ns_read(ns, 10, 1, block), NS_READ_ERROR);
        assert_int_equal(ns_write(ns, 10, 1, block), NS_DONE);
        want_extent(ns, NS_UNREADABLE, 0, 11, 1);
        ns_put(ns);
}

/* --- marks against a map ---------------------------------------------------------------------- */

static uint64_t groups_of_eight(const bool *map, uint64_t to)
{
        uint64_t n = 0;

        for (uint64_t i = 0; i + 8 <= to; i += 8)
                n += !memchr(map + i, 0, 8);
        return n;
}

static uint64_t numbers(const bool *map, uint64_t to)
{
        uint64_t n = 0;

        for (uint64_t i = 0; i < to; i++)
                n += map[i];
        return n;
}

static void test_marks_are_a_set(void **state)
{
        enum { PLACES = 4 * MARKS_A_PAGE };
        static bool map[PLACES];
        struct marks m = { 0 };
        unsigned seed = 1;

        (void)state;
        for (unsigned i = 0; i < 4000; i++) {
                unsigned from = (unsigned)rand_r(&seed) % (PLACES - 1),
                         to = from + 1 + (unsigned)rand_r(&seed) % (i % 2 ? 100 : PLACES);
                bool add = rand_r(&seed) & 1, any;

                to = to > PLACES ? PLACES : to;
                any = memchr(map + from, 1, to - from);
                assert_int_equal(marks_touch(&m, from, to), any);
                assert_int_equal(marks_cover(&m, from, to), !memchr(map + from, 0, to - from));
                for (unsigned in = 0; in < 2; in++) {
                        const bool *found = memchr(map + from, (int)in, to - from);

                        assert_int_equal(marks_next(&m, from, to, in), found ? found - map : to);
                }
                if (add)
                        assert_true(marks_add(&m, from, to));
                else
                        marks_remove(&m, from, to);
                memset(map + from, add, to - from);
                assert_int_equal(marks_groups(&m, 3, to & ~7U), groups_of_eight(map, to & ~7U));
                if (i % 16 == 0)
                        assert_int_equal(marks_groups(&m, 0, to), numbers(map, to));
        }
        marks_remove(&m, 0, UINT64_MAX);
        assert_int_equal(m.count, 0);
        assert_int_equal(marks_groups(&m, 0, UINT64_MAX), 0);
        assert_int_equal(marks_groups(&m, 3, UINT64_MAX), 0);
        marks_fini(&m);
}

static void test_marks_are_bounded(void **state)
{
        struct marks m = { 0 };
        uint64_t end = (uint64_t)MARKS_A_PAGE * MARKS_PAGES_MAX;

        (void)state;
        assert_true(marks_add(&m, 0, end - MARKS_A_PAGE));
        assert_false(marks_add(&m, end - 1, end + 1)); /* needs two pages, there is one */
        assert_false(marks_touch(&m, end - MARKS_A_PAGE, UINT64_MAX));
        assert_true(marks_add(&m, end - 1, end));
        assert_false(marks_add(&m, end, end + 1));
        assert_true(marks_add(&m, 0, end));
        assert_int_equal(marks_groups(&m, 0, end - 5), end - 5);
        assert_false(marks_add(&m, 5, UINT64_MAX)); /* at once, not page by page */
        marks_fini(&m);
}

/* A host may ask as often as it likes: of a full set, and of one with a gap at the end of each page. */
static void test_marks_are_counted_at_once(void **state)
{
        struct marks m = { 0 };
        uint64_t end = (uint64_t)MARKS_A_PAGE * MARKS_PAGES_MAX, began, found = 0;

        (void)state;
        assert_true(marks_add(&m, 0, end));
        began = loop_now_ns();
        for (unsigned i = 0; i < 100; i++) {
                assert_int_equal(marks_groups(&m, i % 2 ? 3 : 0, end), i % 2 ? end / 8 : end);
                assert_int_equal(marks_next(&m, 0, end, false), end);
        }
        assert_true(loop_now_ns() - began < UINT64_C(500000000));
        for (uint64_t at = MARKS_A_PAGE - 1; at < end; at += MARKS_A_PAGE)
                marks_remove(&m, at, at + 1);
        for (uint64_t at = 0; (at = marks_next(&m, at, end, false)) < end; at++)
                found++;
        assert_int_equal(found, MARKS_PAGES_MAX);
        marks_fini(&m);
}

/* However many pieces are left of what was marked. */
static void test_a_write_always_clears_marks(void **state)
{
        static uint8_t buf[BS];
        struct ns *ns = open_ns("null:8M");

        (void)state;
        assert_int_equal(ns_write_uncorrectable(ns, 0, 16384), NS_DONE);
        for (unsigned lba = 0; lba < 16384; lba += 2)
                assert_int_equal(ns_write(ns, lba, 1, buf), NS_DONE);
        for (unsigned lba = 0; lba < 16384; lba++)
                assert_int_equal(ns_read(ns, lba, 1, buf), lba % 2 ? NS_READ_ERROR : NS_DONE);
        ns_put(ns);
}

/* --- a disk that fails ------------------------------------------------------------------------ */

static enum ns_result flush(struct ns *ns)
{
        struct waiter w;

        begin(ns, &w, true);
        sem_wait(&w.done);
        return w.on.result;
}

static void test_a_failed_flush_is_not_forgotten(void **state)
{
        static uint8_t buf[BS];
        char other[64], spec[96];
        struct ns *ns;

        (void)state;
        snprintf(other, sizeof(other), "%s-failing", path);
        snprintf(spec, sizeof(spec), "file:%s,size=64K", other);
        ns = open_ns(spec);
        assert_int_equal(ns_write(ns, 0, 1, buf), NS_DONE);
        no_sync = true;
        assert_int_equal(flush(ns), NS_WRITE_ERROR);
        no_sync = false;
        assert_int_equal(flush(ns), NS_WRITE_ERROR);
        ns_put(ns);
        assert_null(ns_open(NULL, spec, NQN, 1, error, sizeof(error)));
        assert_non_null(strstr(error, "an earlier flush failed"));
        unlink(other);
}

/* Whoever sets it has others to serve: it is the next flush that puts it on the disk, which takes an fsync(). */
static void test_write_protection_does_not_wait_for_the_disk(void **state)
{
        static const uint8_t states[] = { 0, 1, 1, 0, 0 };
        struct ns *ns = open_ns(file_spec);
        bool none = getxattr(path, "user.nvmfspec.none", NULL, 0) < 0 && errno == ENOTSUP;

        (void)state;
        for (size_t i = 0; i < sizeof(states) && !none; i++) {
                bool changes = ns->protection != states[i];
                unsigned before = syncs + full_syncs, full = full_syncs;

                assert_int_equal(ns_protect(ns, states[i]), NS_DONE);
                assert_int_equal(syncs + full_syncs, before);
                assert_int_equal(flush(ns), NS_DONE);
                assert_int_equal(full_syncs, full + changes);
        }
        ns_put(ns);
}

static void test_closing_flushes(void **state)
{
        struct ns *ns = open_ns(file_spec);
        unsigned before = syncs;

        (void)state;
        ns_put(ns);
        assert_true(syncs > before);
}

static void *put_last(void *ns)
{
        ns_put_elsewhere();
        ns_put(ns);
        return NULL;
}

/* The thread that serves hosts goes on; who opens the file again finds it as it was. */
static void test_who_serves_others_does_not_wait_for_the_end(void **state)
{
        static uint8_t buf[BS] = { 77 }, found[BS];
        struct ns *ns = open_ns(file_spec);
        unsigned before = syncs;
        pthread_t thread;

        (void)state;
        assert_int_equal(ns_write(ns, 3, 1, buf), NS_DONE);
        slow_sync = true;
        assert_int_equal(pthread_create(&thread, NULL, put_last, ns), 0);
        pthread_join(thread, NULL);
        slow_sync = false;
        ns = open_ns(file_spec);
        assert_int_equal(ns_read(ns, 3, 1, found), NS_DONE);
        assert_memory_equal(found, buf, BS);
        ns_settle();
        ns_put(ns);
        assert_true(syncs > before);
        ns_put(open_ns("mem:64K"));
}

/* In another process, for which the file is marked. */
static void test_a_flush_that_failed_as_it_was_closed(void **state)
{
        char other[64], spec[96];
        int status = -1;
        pid_t child;

        (void)state;
        snprintf(other, sizeof(other), "%s-failed", path);
        snprintf(spec, sizeof(spec), "file:%s,size=64K", other);
        child = fork();
        if (child == 0) {
                struct ns *ns = open_ns(spec);

                no_sync = true;
                ns_put(ns);
                _exit(getxattr(other, "user.nvmfspec.flush-failed", NULL, 0) < 0);
        }
        assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
        if (WEXITSTATUS(status)) {
                print_message("the file system has no attributes\n");
        } else {
                struct ns *ns = ns_open(NULL, spec, NQN, 1, error, sizeof(error));

                assert_null(ns);
                assert_int_equal(removexattr(other, "user.nvmfspec.flush-failed"), 0);
                ns_put(open_ns(spec));
        }
        unlink(other);
}

/* How often the log says so, of namespaces on one file that are opened and closed meanwhile. */
static unsigned warnings(const char *spec)
{
        char said[4096];
        unsigned count = 0;
        ssize_t n;
        int ends[2];

        assert_int_equal(pipe(ends), 0);
        log_start(ends[1], LOG_AS_INFO, false);
        for (unsigned i = 0; i < 2; i++) {
                struct ns *one = open_ns(spec), *other = open_ns(spec);

                ns_put(other);
                ns_put(one);
        }
        assert_true(log_flush(10000));
        log_start(STDERR_FILENO, LOG_AS_INFO, false);
        close(ends[1]);
        n = read(ends[0], said, sizeof(said) - 1);
        close(ends[0]);
        assert_true(n >= 0);
        said[n] = '\0';
        for (const char *at = said; (at = strstr(at, "has no extended attributes")); at++)
                count++;
        return count;
}

/* Each time the file is opened, and not for each namespace on it. */
static void test_where_a_failed_flush_would_be_forgotten_it_is_said(void **state)
{
        char other[64], spec[96];

        (void)state;
        snprintf(other, sizeof(other), "%s-forgetful", path);
        snprintf(spec, sizeof(spec), "file:%s,size=64K", other);
        no_attributes = true;
        assert_int_equal(warnings(spec), 2);
        no_attributes = false;
        if (getxattr(other, "user.nvmfspec.none", NULL, 0) < 0 && errno == ENOTSUP)
                print_message("the file system has no attributes\n");
        else
                assert_int_equal(warnings(spec), 0);
        unlink(other);
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
                cmocka_unit_test(test_namespaces_on_one_file_share_it),
                cmocka_unit_test(test_large_blocks_of_which_a_part_is_marked),
                cmocka_unit_test(test_a_file_belongs_to_one_process),
                cmocka_unit_test(test_a_device_in_use_is_refused),
                cmocka_unit_test(test_flush),
                cmocka_unit_test(test_delays),
                cmocka_unit_test(test_a_delayed_namespace_answers_later),
                cmocka_unit_test(test_a_range_of_delays_changes_the_order),
                cmocka_unit_test(test_a_delay_that_many_wait_for),
                cmocka_unit_test(test_no_block_is_torn),
                cmocka_unit_test(test_no_block_is_torn_where_a_file_is_open_twice),
                cmocka_unit_test(test_blocks_are_told),
                cmocka_unit_test(test_marks_are_a_set),
                cmocka_unit_test(test_marks_are_bounded),
                cmocka_unit_test(test_marks_are_counted_at_once),
                cmocka_unit_test(test_a_write_always_clears_marks),
                cmocka_unit_test(test_a_failed_flush_is_not_forgotten),
                cmocka_unit_test(test_write_protection_does_not_wait_for_the_disk),
                cmocka_unit_test(test_closing_flushes),
                cmocka_unit_test(test_who_serves_others_does_not_wait_for_the_end),
                cmocka_unit_test(test_a_flush_that_failed_as_it_was_closed),
                cmocka_unit_test(test_where_a_failed_flush_would_be_forgotten_it_is_said),
        };

        return cmocka_run_group_tests(tests, make_file, remove_file);
}
