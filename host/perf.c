/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "host/nvme/build.h"
#include "random.h"

enum {
        IDLE_SPINS = 256, /* polls of all queues without a byte before the clock is read */
        SLEEP_MS = 100,
        WATCH_MS = 20,
        NS_PER_MS = 1000000,
};

struct worker;

struct perf_queue {
        struct host_queue *queue;
        struct worker *worker;
        uint64_t next; /* of a rising load: in units of io_size */
};

struct slot { /* one of the commands that a queue keeps outstanding */
        struct host_cmd cmd;
        struct perf_queue *pq;
        uint64_t started; /* ns */
};

struct worker {
        const struct perf_options *o;
        struct perf_queue *queues;
        unsigned count, slots_each;
        struct slot *slots;
        uint8_t *data;  /* what is written: one buffer for all, as nobody changes it */
        uint8_t *sink;  /* RDMA: for what is read, as nobody looks at it; in the second half */
        uint64_t units; /* places that a command may go to */
        uint64_t random;
        uint64_t begin, end; /* of the measured time, ns */
        bool stopping, failed;
        unsigned outstanding;
        struct histogram latency[2];
        struct host_error error;
        atomic_bool over;
        pthread_t thread;
        int cpu; /* -1: anywhere */
};

/* --- one command ------------------------------------------------------------------------------ */

static uint64_t choose_place(struct perf_queue *pq)
{
        struct worker *w = pq->worker;

        if (w->o->random)
                return random_below(&w->random, w->units);
        if (pq->next >= w->units)
                pq->next = 0;
        return pq->next++;
}

static bool choose_write(struct worker *w)
{
        if (w->o->read_percent == 100)
                return false;
        return random_below(&w->random, 100) >= w->o->read_percent;
}

static void submit(struct slot *s, uint64_t now)
{
        struct worker *w = s->pq->worker;
        bool write = choose_write(w);
        uint64_t slba = choose_place(s->pq) * (w->o->io_size / w->o->block_size);

        s->cmd.sqe.opc = write ? NVME_WRITE : NVME_READ;
        s->cmd.sqe.cdw10 = le32((uint32_t)slba);
        s->cmd.sqe.cdw11 = le32((uint32_t)(slba >> 32));
        s->cmd.xfer = write ? XFER_H2C : XFER_C2H;
        s->cmd.data = write ? w->data : w->sink;
        s->started = now;
        if (host_queue_submit(s->pq->queue, &s->cmd) == 0)
                w->outstanding++;
}

static void fail(struct worker *w, const struct host_cmd *cmd)
{
        const union sqe *s = &cmd->sqe;

        w->stopping = true;
        if (w->failed || cmd->status == HOST_STATUS_ABORTED)
                return;
        w->failed = true;
        host_fail_status(
            &w->error, cmd->status, &cmd->cqe, "%s of %u bytes at LBA %llu", sqe_name(s, false),
            cmd->len,
            (unsigned long long)(le32_get(s->cdw10) | (uint64_t)le32_get(s->cdw11) << 32));
}

static void ended(struct host_cmd *cmd, void *user)
{
        struct slot *s = user;
        struct worker *w = s->pq->worker;
        uint64_t now = s->pq->queue->received_at;

        w->outstanding--;
        if (cmd->status)
                fail(w, cmd);
        else if (now >= w->begin && now < w->end)
                histogram_add(&w->latency[cmd->xfer == XFER_H2C], now - s->started);
        if (!w->stopping)
                submit(s, now);
}

/* --- one worker ------------------------------------------------------------------------------- */

static void break_down(struct worker *w, const struct host_queue *q)
{
        w->stopping = true;
        if (!w->failed)
                w->error = q->error;
        w->failed = true;
}

/* Serves every queue once; false if nothing had come. */
static bool serve(struct worker *w)
{
        bool any = false;

        for (unsigned i = 0; i < w->count; i++) {
                struct host_queue *q = w->queues[i].queue;
                long n = host_queue_receive(q);

                any |= n > 0;
                if (n < 0 || host_queue_send(q) < 0)
                        break_down(w, q);
        }
        return any;
}

static void nap(struct worker *w, struct pollfd *fds)
{
        struct host_sleep s = { .fds = fds };

        for (unsigned i = 0; i < w->count; i++)
                host_sleep_on(&s, w->queues[i].queue);
        host_sleep(&s, SLEEP_MS);
}

/* Serves until nothing is outstanding or `limit` has come. */
static void serve_until(struct worker *w, uint64_t limit, struct pollfd *fds)
{
        unsigned idle = 0, spins = fds ? 1 : IDLE_SPINS; /* a nap is long enough */

        while (!w->stopping || w->outstanding > 0) {
                if (serve(w))
                        idle = 0;
                else if (fds)
                        nap(w, fds);
                if (w->failed || (idle++ % spins == 0 && loop_now_ns() >= limit))
                        return;
        }
}

static void start_slots(struct worker *w)
{
        const struct perf_options *o = w->o;
        uint64_t now = loop_now_ns();

        for (unsigned i = 0; i < w->count * w->slots_each; i++) {
                struct slot *s = &w->slots[i];

                s->pq = &w->queues[i % w->count];
                s->cmd = (struct host_cmd) { .sqe = build_rw(NVME_READ, o->nsid, 0,
                                                             o->io_size / o->block_size, 0),
                                             .len = o->io_size,
                                             .command_buffer = o->command_buffers,
                                             .done = ended,
                                             .user = s };
                if (i / w->count < s->pq->queue->depth)
                        submit(s, now);
        }
}

/* Whether the worker runs where it is to run: figures of another place would deceive. */
static bool pin(struct worker *w)
{
        cpu_set_t set;
        int problem;

        if (w->cpu < 0)
                return true;
        CPU_ZERO(&set);
        CPU_SET((size_t)w->cpu, &set);
        problem = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
        if (problem)
                host_error_set(&w->error, HOST_USAGE, "no worker can run on CPU %d: %s", w->cpu,
                               strerror(problem));
        w->failed = problem != 0;
        return !problem;
}

/* What is still outstanding after a failure, or too long: its memory goes away now. */
static void give_up(struct worker *w)
{
        unsigned count = w->outstanding;

        if (count > 0 && !w->failed)
                host_error_set(&w->error, HOST_BROKEN, "%u commands were not answered within %u ms",
                               count, w->queues[0].queue->timeout);
        w->failed |= count > 0;
        for (unsigned i = 0; count > 0 && i < w->count; i++)
                host_queue_break(w->queues[i].queue, "the load was stopped");
}

static void run(struct worker *w)
{
        struct pollfd fds[HOST_IO_QUEUES_MAX * HOST_QUEUE_FDS];

        w->begin = loop_now_ns() + (uint64_t)w->o->warmup_ms * NS_PER_MS;
        w->end = w->begin + (uint64_t)w->o->ms * NS_PER_MS;
        start_slots(w);
        serve_until(w, w->end, w->o->sleep ? fds : NULL);
        w->stopping = true;
        serve_until(w, loop_now_ns() + (uint64_t)w->queues[0].queue->timeout * NS_PER_MS,
                    w->o->sleep ? fds : NULL);
        give_up(w);
}

static void *work(void *arg)
{
        struct worker *w = arg;

        if (pin(w))
                run(w);
        atomic_store(&w->over, true);
        return NULL;
}

/* --- all of them ------------------------------------------------------------------------------ */

static int check(const struct host_ctrl *c, const struct perf_options *o, struct host_error *e)
{
        uint64_t range = o->range ? o->range : o->blocks * o->block_size;

        if (o->io_size == 0 || o->io_size % o->block_size)
                return host_fail(e, HOST_USAGE,
                                 "block size %u is not a multiple of the namespace's %u",
                                 o->io_size, o->block_size);
        if (o->io_size > host_ctrl_max_transfer(c) || o->io_size / o->block_size > RW_NLB_MASK + 1)
                return host_fail(e, HOST_USAGE,
                                 "block size %u is more than one command can "
                                 "transfer (%u)",
                                 o->io_size, host_ctrl_max_transfer(c));
        if (range > o->blocks * o->block_size || range < o->io_size)
                return host_fail(e, HOST_USAGE,
                                 "a range of %llu bytes exceeds the namespace of "
                                 "%llu bytes",
                                 (unsigned long long)range,
                                 (unsigned long long)(o->blocks * o->block_size));
        return 0;
}

static int register_data(struct worker *w, const struct host_ctrl *c, struct host_error *e)
{
        if (c->params.transport == HOST_RDMA)
                w->sink = w->data + w->o->io_size;
        for (unsigned i = 0; i < w->count; i++)
                if (host_queue_add_memory(w->queues[i].queue, w->data, 2ul * w->o->io_size, e) < 0)
                        return -1;
        return 0;
}

static int make_worker(struct worker *w, struct host_ctrl *c, const struct perf_options *o,
                       unsigned index, unsigned workers, struct host_error *e)
{
        uint64_t range = o->range ? o->range : o->blocks * o->block_size;

        w->o = o;
        w->cpu = index < o->cpus ? o->cpu[index] : -1;
        w->random = random_mix(o->seed + index);
        w->units = range / o->io_size;
        w->slots_each = o->depth;
        w->queues = calloc(c->io_count, sizeof(*w->queues));
        w->data = malloc(2ul * o->io_size);
        if (!w->queues || !w->data)
                return host_fail(e, HOST_BROKEN, "no memory for worker %u", index);
        for (unsigned i = index; i < c->io_count; i += workers)
                w->queues[w->count++] = (struct perf_queue) { .queue = &c->io[i],
                                                              .worker = w,
                                                              .next = w->units / c->io_count * i };
        for (uint32_t i = 0; i < o->io_size; i++)
                w->data[i] = (uint8_t)random_next(&w->random);
        w->slots = calloc((size_t)w->count * o->depth, sizeof(*w->slots));
        return w->slots ? register_data(w, c, e)
                        : host_fail(e, HOST_BROKEN, "no memory for worker %u", index);
}

static void free_workers(struct worker *workers, unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                struct worker *w = &workers[i];

                for (unsigned j = 0; j < w->count; j++)
                        host_queue_drop_memory(w->queues[j].queue, w->data);
                free(w->queues);
                free(w->data);
                free(w->slots);
        }
        free(workers);
}

/* The association is kept alive from here while the workers have the I/O queues. */
static void watch(struct host_ctrl *c, struct worker *workers, unsigned count)
{
        unsigned i = 0;

        while (i < count) {
                if (atomic_load(&workers[i].over)) {
                        pthread_join(workers[i++].thread, NULL);
                        continue;
                }
                loop_sleep_us(WATCH_MS * 1000);
                host_ctrl_poll(c);
        }
}

static int collect(const struct worker *workers, unsigned count, struct perf_result *r,
                   struct host_error *e)
{
        for (unsigned i = 0; i < count; i++) {
                if (workers[i].failed) {
                        *e = workers[i].error;
                        return -1;
                }
                histogram_merge(&r->latency[PERF_READ], &workers[i].latency[PERF_READ]);
                histogram_merge(&r->latency[PERF_WRITE], &workers[i].latency[PERF_WRITE]);
        }
        return 0;
}

/* What each queue holds: they are all of one size. */
static unsigned depth_of(const struct host_ctrl *c, const struct perf_options *o)
{
        return o->depth < c->io[0].depth ? o->depth : c->io[0].depth;
}

int perf_run(struct host_ctrl *c, const struct perf_options *o, struct perf_result *r,
             struct host_error *e)
{
        unsigned count = o->cpus > c->io_count ? c->io_count : o->cpus ? o->cpus : 1, started = 0;
        struct worker *workers;
        int result;

        if (check(c, o, e) < 0)
                return -1;
        *r = (struct perf_result) { .seconds = o->ms / 1e3, .depth = depth_of(c, o) };
        workers = calloc(count, sizeof(*workers));
        if (!workers)
                return host_fail(e, HOST_BROKEN, "no memory for %u workers", count);
        result = 0;
        for (; started < count && result == 0; started++)
                if (make_worker(&workers[started], c, o, started, count, e) < 0)
                        result = -1;
                else if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) !=
                         0)
                        result = host_fail(e, HOST_BROKEN, "cannot start worker %u", started);
        watch(c, workers, result == 0 ? started : started - 1);
        if (result == 0)
                result = collect(workers, count, r, e);
        free_workers(workers, count);
        return result;
}
