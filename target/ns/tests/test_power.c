/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss of power, simulated: what a file namespace asks of the kernel is recorded while several hosts
 * write, zero, flush and write through. Then the power fails at any moment: of what was not synced by
 * then, each sector holds any one of the versions that it has had since. The file is opened again, and
 * each block has to be as one write left it, and none older than what was flushed.
 *
 * A sector is as large as a block; on a disk whose sectors are smaller no block can be whole.
 * NVMFSPEC_POWER_CUTS says how many cuts (50).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/ns/ns.h"

enum {
        HOSTS = 3,
        OWN = 128, /* blocks of each host */
        BLOCKS = HOSTS * OWN,
        STEPS = 60,       /* of each host */
        CUTS_A_RUN = 10,  /* of the same recording */
        MOST = 16,        /* blocks of a command */
        EVENTS = 1 << 14, /* of a recording */
        BS_MAX = 4096,
};

/* From `begin` to `end` by one clock that counts; end 0: it is not over. */
struct span {
        uint64_t begin, end;
};

/* --- what is asked of the kernel -------------------------------------------------------------- */

struct event {
        struct span when;
        enum kind { WRITE, SYNC } kind;
        uint64_t offset, len;
        uint8_t *data; /* NULL: zeroes */
};

static struct recording {
        pthread_mutex_t lock;
        struct event event[EVENTS];
        unsigned n;
        bool on;
        bool lying; /* a disk that says it has synced, and has not */
        unsigned sector;
} rec = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Atomic uint64_t ticks;

static uint64_t tick(void)
{
        return atomic_fetch_add(&ticks, 1) + 1;
}

static struct event *begin_event(enum kind kind, uint64_t offset, uint64_t len, const void *data)
{
        struct event *e = NULL;

        pthread_mutex_lock(&rec.lock);
        if (rec.on && !(kind == SYNC && rec.lying)) {
                if (rec.n == EVENTS)
                        abort();
                e = &rec.event[rec.n++];
                *e = (struct event) { { tick(), 0 }, kind, offset, len, NULL };
                if (data) {
                        e->data = malloc(len);
                        memcpy(e->data, data, len);
                }
        }
        pthread_mutex_unlock(&rec.lock);
        return e;
}

static int end_event(struct event *e, long rc)
{
        if (e)
                e->when.end = tick();
        return (int)rc;
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
        struct event *e = begin_event(WRITE, (uint64_t)offset, n, buf);

        return end_event(e, syscall(SYS_pwrite64, fd, buf, n, offset));
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
        struct event *e = begin_event(WRITE, (uint64_t)offset, (uint64_t)len, NULL);

        return end_event(e, syscall(SYS_fallocate, fd, mode, offset, len));
}

int fdatasync(int fd)
{
        struct event *e = begin_event(SYNC, 0, 0, NULL);

        return end_event(e, syscall(SYS_fdatasync, fd));
}

int fsync(int fd)
{
        struct event *e = begin_event(SYNC, 0, 0, NULL);

        return end_event(e, syscall(SYS_fsync, fd));
}

/* --- what hosts have asked for and seen ------------------------------------------------------- */

/* A block is filled with the number of its write, 0 for zeroes: host, step and block. */
struct change {
        struct span when;
        uint64_t value;
        struct change *earlier;
};

static struct change *history[BLOCKS]; /* the last one first */
static struct span flushes[HOSTS * STEPS];
static _Atomic unsigned n_flushes;

struct host {
        pthread_t thread;
        struct ns *ns;
        unsigned number, seed;
};

static void note(uint64_t lba, struct span when, uint64_t value)
{
        struct change *c = malloc(sizeof(*c));

        *c = (struct change) { when, value, history[lba] };
        history[lba] = c;
}

struct waiter {
        struct ns_wait on;
        sem_t done;
};

static void on_flushed(struct ns_wait *w)
{
        sem_post(&((struct waiter *)w)->done);
}

static void flush(struct ns *ns)
{
        struct waiter w = { .on = { .durable = true, .done = on_flushed } };
        struct span when = { .begin = tick() };

        sem_init(&w.done, 0, 0);
        if (!ns_await(ns, &w.on))
                sem_wait(&w.done);
        when.end = tick();
        if (w.on.result == NS_DONE)
                flushes[n_flushes++] = when;
        sem_destroy(&w.done);
}

static void fill(uint8_t *block, size_t size, uint64_t value)
{
        for (size_t i = 0; i < size; i += sizeof(value))
                memcpy(block + i, &value, sizeof(value));
}

static void step(struct host *h, unsigned number)
{
        static _Thread_local uint8_t buf[MOST * BS_MAX];
        unsigned lba = (unsigned)rand_r(&h->seed) % OWN, what = (unsigned)rand_r(&h->seed) % 8;
        unsigned n = 1 + (unsigned)rand_r(&h->seed) % (OWN - lba < MOST ? OWN - lba : MOST);
        size_t size = (size_t)1 << h->ns->lbads;
        bool zero = what == 0;
        struct span when;

        lba += h->number * OWN;
        if (what == 1) {
                flush(h->ns);
                return;
        }
        for (unsigned i = 0; i < n; i++)
                fill(buf + i * size, size,
                     (uint64_t)(h->number * STEPS + number + 1) << 32 | (lba + i));
        when.begin = tick();
        if (zero)
                ns_zero(h->ns, lba, n, number % 2);
        else
                ns_write(h->ns, lba, n, buf);
        when.end = tick();
        for (unsigned i = 0; i < n; i++)
                note(lba + i, when,
                     zero ? 0 : (uint64_t)(h->number * STEPS + number + 1) << 32 | (lba + i));
        if (what == 2) /* Force Unit Access */
                flush(h->ns);
}

static void *run_host(void *arg)
{
        struct host *h = arg;

        for (unsigned i = 0; i < STEPS; i++)
                step(h, i);
        return NULL;
}

/* --- the cut ---------------------------------------------------------------------------------- */

static bool is_synced(const struct event *e, uint64_t cut)
{
        for (const struct event *s = e; s < rec.event + rec.n; s++)
                if (s->kind == SYNC && e->when.end && e->when.end < s->when.begin && s->when.end &&
                    s->when.end <= cut)
                        return true;
        return false;
}

/* Any version of each sector that it has had since the last one that was synced. Events are in order
 * of their beginning, and those of one sector do not overlap: its lock of the range is held. */
static void cut_power(uint8_t *image, uint64_t cut, unsigned *seed)
{
        for (const struct event *e = rec.event; e < rec.event + rec.n; e++) {
                bool synced = is_synced(e, cut);

                if (e->kind != WRITE || e->when.begin >= cut)
                        continue;
                for (uint64_t at = 0; at < e->len; at += rec.sector) {
                        uint8_t *to = image + e->offset + at;

                        if (!synced && rand_r(seed) % 2)
                                continue;
                        if (e->data)
                                memcpy(to, e->data + at, rec.sector);
                        else
                                memset(to, 0, rec.sector);
                }
        }
}

static bool is_flushed(const struct change *c, uint64_t cut)
{
        for (unsigned i = 0; i < n_flushes; i++)
                if (c->when.end < flushes[i].begin && flushes[i].end <= cut)
                        return true;
        return false;
}

/* Whether a block may hold that after the cut. */
static bool may_hold(uint64_t lba, uint64_t value, uint64_t cut)
{
        for (const struct change *c = history[lba]; c; c = c->earlier) {
                if (c->when.begin < cut && c->value == value)
                        return true;
                if (is_flushed(c, cut))
                        return false;
        }
        return value == 0;
}

static char path[] = "/tmp/nvmfspec-test-power-XXXXXX";
static unsigned lost, torn;

static void look_at(struct ns *ns, uint64_t cut)
{
        uint8_t block[BS_MAX], same[BS_MAX];
        size_t size = (size_t)1 << ns->lbads;
        uint64_t value;

        for (uint64_t lba = 0; lba < BLOCKS; lba++) {
                assert_int_equal(ns_read(ns, lba, 1, block), NS_DONE);
                memcpy(&value, block, sizeof(value));
                fill(same, size, value);
                torn += memcmp(block, same, size) != 0;
                lost += !may_hold(lba, value, cut);
        }
}

static struct ns *open_ns(unsigned bs)
{
        char spec[128], error[256];
        struct ns *ns;

        snprintf(spec, sizeof(spec), "file:%s,size=%u,bs=%u", path, BLOCKS * bs, bs);
        ns = ns_open(NULL, spec, "nqn.2026-01.io.nvmfspec:test", 1, error, sizeof(error));
        if (!ns)
                fail_msg("%s", error);
        return ns;
}

static void record(unsigned bs, unsigned seed)
{
        struct host hosts[HOSTS];
        struct ns *ns;

        assert_int_equal(truncate(path, 0), 0);
        ns = open_ns(bs);
        rec.on = true;
        for (unsigned i = 0; i < HOSTS; i++) {
                hosts[i] = (struct host) { .ns = ns, .number = i, .seed = seed * HOSTS + i };
                pthread_create(&hosts[i].thread, NULL, run_host, &hosts[i]);
        }
        for (unsigned i = 0; i < HOSTS; i++)
                pthread_join(hosts[i].thread, NULL);
        rec.on = false;
        ns_put(ns);
}

static void forget(void)
{
        while (rec.n > 0)
                free(rec.event[--rec.n].data);
        for (unsigned i = 0; i < BLOCKS; i++)
                while (history[i]) {
                        struct change *c = history[i];

                        history[i] = c->earlier;
                        free(c);
                }
        n_flushes = 0;
        ticks = 0;
}

static void cut_and_look(unsigned bs, unsigned *seed)
{
        uint64_t cut = 1 + (uint64_t)rand_r(seed) % ticks;
        uint8_t *image = calloc(BLOCKS, bs);
        FILE *f = fopen(path, "r+e");
        struct ns *ns;

        cut_power(image, cut, seed);
        assert_true(f && fwrite(image, bs, BLOCKS, f) == BLOCKS && fclose(f) == 0);
        free(image);
        ns = open_ns(bs);
        look_at(ns, cut);
        ns_put(ns);
}

/* sector 0: as large as a block. */
static void simulate(unsigned cuts, unsigned sector)
{
        lost = torn = 0;
        for (unsigned done = 0; done < cuts; done += CUTS_A_RUN) {
                unsigned run = done / CUTS_A_RUN, seed = run + 1, bs = run % 2 ? 4096 : 512;

                rec.sector = sector ? sector : bs;
                record(bs, seed);
                for (unsigned i = 0; i < CUTS_A_RUN; i++)
                        cut_and_look(bs, &seed);
                forget();
        }
}

static void test_nothing_flushed_is_lost(void **state)
{
        const char *cuts = getenv("NVMFSPEC_POWER_CUTS");

        (void)state;
        simulate(cuts ? (unsigned)strtoul(cuts, NULL, 10) : 50, 0);
        assert_int_equal(lost, 0);
        assert_int_equal(torn, 0);
}

/* The same with a disk that lies, and with one that tears blocks: this test would see it. */
static void test_a_disk_that_lies_is_noticed(void **state)
{
        (void)state;
        rec.lying = true;
        simulate(CUTS_A_RUN, 0);
        rec.lying = false;
        assert_true(lost > 0);
        assert_int_equal(torn, 0);
        simulate(CUTS_A_RUN, 64);
        assert_true(torn > 0);
}

static int make_file(void **state)
{
        int fd = mkstemp(path);

        (void)state;
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
                cmocka_unit_test(test_nothing_flushed_is_lost),
                cmocka_unit_test(test_a_disk_that_lies_is_noticed),
        };

        return cmocka_run_group_tests(tests, make_file, remove_file);
}
