/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/loop.h"
#include "random.h"
#include "time.h"

enum {
        IDLE_SPINS = 256, /* polls of all queues without a byte before the clock is read */
        SLEEP_MS = 100,
        WATCH_MS = 20,
};

struct worker;

struct perf_queue {
        unsigned queue; /* of the load */
        const struct load_state *state;
        struct worker *worker;
        uint64_t next; /* of a rising load: in units of io_size */
};

struct slot { /* one of the commands that a queue keeps outstanding */
        struct perf_queue *pq;
        uint64_t started;  /* ns */
        struct load_io io; /* last: as long as the family's is */
};

struct worker {
        struct load *load;
        const struct perf_options *o;
        struct perf_queue *queues;
        unsigned count, *numbers; /* of queues; which they are in the load */
        unsigned slots_each;
        char *slots;
        size_t slot_bytes;
        uint8_t *data;  /* what is written: one buffer for all, as nobody changes it */
        uint8_t *sink;  /* for what is read, where that needs memory: in the second half */
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

        s->io.write = write;
        s->io.block = choose_place(s->pq) * s->io.blocks;
        s->io.data = write ? w->data : w->sink;
        s->started = now;
        if (w->load->ops->submit(w->load, s->pq->queue, &s->io) == 0)
                w->outstanding++;
}

static void fail(struct worker *w, const struct load_io *io)
{
        w->stopping = true;
        if (w->failed || io->outcome == LOAD_LOST)
                return;
        w->failed = true;
        load_why_failed(w->load, io, &w->error);
}

static void ended(struct load_io *io, void *user)
{
        struct slot *s = user;
        struct worker *w = s->pq->worker;
        const struct load_state *state = s->pq->state;
        uint64_t now = state && state->received_at ? state->received_at : loop_now_ns();

        w->outstanding--;
        if (io->outcome != LOAD_DONE)
                fail(w, io);
        else if (now >= w->begin && now < w->end)
                histogram_add(&w->latency[io->write], now - s->started);
        if (!w->stopping)
                submit(s, now);
}

/* --- one worker ------------------------------------------------------------------------------- */

static void break_down(struct worker *w, unsigned queue)
{
        w->stopping = true;
        if (!w->failed)
                load_why_lost(w->load, queue, &w->error);
        w->failed = true;
}

/* Serves every queue once; false if nothing had come. */
static bool serve(struct worker *w)
{
        bool any = false;

        for (unsigned i = 0; i < w->count; i++) {
                long n = w->load->ops->receive(w->load, w->numbers[i]);

                any |= n > 0;
                if (n < 0 || load_send(w->load, w->numbers[i]) < 0)
                        break_down(w, w->numbers[i]);
        }
        return any;
}

/* Serves until nothing is outstanding or `limit` has come. */
static struct slot *slot_of(const struct worker *w, unsigned i)
{
        return (struct slot *)(void *)(w->slots + i * w->slot_bytes);
}

/* The timeout of a command that waits to be sent again counts from then. */
static uint64_t drained_by(const struct worker *w, uint64_t limit)
{
        for (unsigned i = 0; i < w->count * w->slots_each; i++) {
                uint64_t held = slot_of(w, i)->io.held_until;

                if (held && held + (uint64_t)w->load->timeout * NS_PER_MS > limit)
                        limit = held + (uint64_t)w->load->timeout * NS_PER_MS;
        }
        return limit;
}

static bool is_over(const struct worker *w, uint64_t limit)
{
        uint64_t now = loop_now_ns();

        return now >= limit && (!w->stopping || now >= drained_by(w, limit));
}

static void serve_until(struct worker *w, uint64_t limit, struct pollfd *fds)
{
        unsigned idle = 0, spins = fds ? 1 : IDLE_SPINS; /* a nap is long enough */

        while (!w->stopping || w->outstanding > 0) {
                if (serve(w))
                        idle = 0;
                else if (fds)
                        load_sleep(w->load, w->numbers, w->count, fds, SLEEP_MS);
                if (w->failed || (idle++ % spins == 0 && is_over(w, limit)))
                        return;
        }
}

static void start_slots(struct worker *w)
{
        const struct perf_options *o = w->o;
        uint64_t now = loop_now_ns();

        for (unsigned i = 0; i < w->count * w->slots_each; i++) {
                struct slot *s = slot_of(w, i);

                s->pq = &w->queues[i % w->count];
                s->io = (struct load_io) { .blocks = o->io_size / w->load->block_size,
                                           .asked_for = o->asked_for,
                                           .done = ended,
                                           .user = s };
                if (i / w->count < w->load->depth)
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
                               count, w->load->timeout);
        w->failed |= count > 0;
        for (unsigned i = 0; count > 0 && i < w->count; i++)
                load_abandon(w->load, w->numbers[i], "the load was stopped");
}

static void run(struct worker *w)
{
        struct pollfd *fds = w->o->sleep ? calloc(w->count, LOAD_FDS * sizeof(*fds)) : NULL;

        w->begin = loop_now_ns() + (uint64_t)w->o->warmup_ms * NS_PER_MS;
        w->end = w->begin + (uint64_t)w->o->ms * NS_PER_MS;
        start_slots(w);
        serve_until(w, w->end, fds);
        w->stopping = true;
        serve_until(w, loop_now_ns() + (uint64_t)w->load->timeout * NS_PER_MS, fds);
        free(fds);
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

static uint64_t bytes_of(const struct load *l)
{
        return l->blocks * l->block_size;
}

static uint64_t range_of(const struct load *l, const struct perf_options *o)
{
        return o->range ? o->range : bytes_of(l);
}

static int check(const struct load *l, const struct perf_options *o, struct host_error *e)
{
        uint64_t range = range_of(l, o);

        if (o->io_size == 0 || o->io_size % l->block_size)
                return host_fail(e, HOST_USAGE,
                                 "block size %u is not a multiple of the namespace's %u",
                                 o->io_size, l->block_size);
        if (o->io_size / l->block_size > l->max_blocks)
                return host_fail(e, HOST_USAGE,
                                 "block size %u is more than one command can "
                                 "transfer (%llu)",
                                 o->io_size, (unsigned long long)l->max_blocks * l->block_size);
        if (range > bytes_of(l) || range < o->io_size)
                return host_fail(e, HOST_USAGE,
                                 "a range of %llu bytes exceeds the namespace of "
                                 "%llu bytes",
                                 (unsigned long long)range, (unsigned long long)bytes_of(l));
        return 0;
}

static int register_data(struct worker *w, struct host_error *e)
{
        struct load *l = w->load;

        if (l->sinks)
                w->sink = w->data + w->o->io_size;
        for (unsigned i = 0; l->ops->add_memory && i < w->count; i++)
                if (l->ops->add_memory(l, w->numbers[i], w->data, 2ul * w->o->io_size, e) < 0)
                        return -1;
        return 0;
}

static int make_worker(struct worker *w, struct load *l, const struct perf_options *o,
                       unsigned index, unsigned workers, struct host_error *e)
{
        w->load = l;
        w->o = o;
        w->cpu = index < o->cpus ? o->cpu[index] : -1;
        w->random = random_mix(o->seed + index);
        w->units = range_of(l, o) / o->io_size;
        w->slot_bytes = (offsetof(struct slot, io) + l->ops->io_bytes + sizeof(void *) - 1) /
                        sizeof(void *) * sizeof(void *);
        w->slots_each = o->depth;
        w->queues = calloc(l->queues, sizeof(*w->queues));
        w->numbers = calloc(l->queues, sizeof(*w->numbers));
        w->data = malloc(2ul * o->io_size);
        if (!w->queues || !w->numbers || !w->data)
                return host_fail(e, HOST_BROKEN, "no memory for worker %u", index);
        for (unsigned i = index; i < l->queues; i += workers) {
                w->queues[w->count] =
                    (struct perf_queue) { .queue = i,
                                          .state = l->ops->state ? l->ops->state(l, i) : NULL,
                                          .worker = w,
                                          .next = w->units / l->queues * i };
                w->numbers[w->count++] = i;
        }
        for (uint32_t i = 0; i < o->io_size; i++)
                w->data[i] = (uint8_t)random_next(&w->random);
        w->slots = calloc((size_t)w->count * o->depth, w->slot_bytes);
        return w->slots ? register_data(w, e)
                        : host_fail(e, HOST_BROKEN, "no memory for worker %u", index);
}

static void free_workers(struct worker *workers, unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                struct worker *w = &workers[i];

                for (unsigned j = 0; w->load && w->load->ops->drop_memory && j < w->count; j++)
                        w->load->ops->drop_memory(w->load, w->numbers[j], w->data);
                free(w->queues);
                free(w->numbers);
                free(w->data);
                free(w->slots);
        }
        free(workers);
}

/* The association is kept alive from here while the workers have the I/O queues. */
static void watch(struct load *l, struct worker *workers, unsigned count)
{
        struct host_error ignored; /* the queues say it, too */
        unsigned i = 0;

        while (i < count) {
                if (atomic_load(&workers[i].over)) {
                        pthread_join(workers[i++].thread, NULL);
                        continue;
                }
                loop_sleep_us(WATCH_MS * 1000);
                if (l->ops->keep)
                        l->ops->keep(l, &ignored);
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

int perf_run(struct load *l, const struct perf_options *o, struct perf_result *r,
             struct host_error *e)
{
        unsigned count = o->cpus > l->queues ? l->queues : o->cpus ? o->cpus : 1, started = 0;
        struct worker *workers;
        int result;

        if (check(l, o, e) < 0)
                return -1;
        *r = (struct perf_result) { .seconds = o->ms / 1e3,
                                    .depth = o->depth < l->depth ? o->depth : l->depth };
        workers = calloc(count, sizeof(*workers));
        if (!workers)
                return host_fail(e, HOST_BROKEN, "no memory for %u workers", count);
        result = 0;
        for (; started < count && result == 0; started++)
                if (make_worker(&workers[started], l, o, started, count, e) < 0)
                        result = -1;
                else if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) !=
                         0)
                        result = host_fail(e, HOST_BROKEN, "cannot start worker %u", started);
        watch(l, workers, result == 0 ? started : started - 1);
        if (result == 0)
                result = collect(workers, count, r, e);
        free_workers(workers, count);
        return result;
}
