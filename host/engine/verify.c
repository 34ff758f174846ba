/* SPDX-License-Identifier: BSD-3-Clause */
#include "verify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "pdu/io/loop.h"
#include "random.h"
#include "time.h"

enum { SKIP_ONE_IN = 8 }; /* pieces that a step leaves as they are */

struct job {                    /* a piece of the range */
        uint32_t first, blocks; /* from the start of the range */
        uint16_t queue;         /* index */
        bool write;
};

struct slot { /* one outstanding command */
        struct verify *v;
        struct job job;
        uint8_t *data;
        uint64_t started;
        bool busy, again;  /* again: its job is still to be done, the queue broke */
        struct load_io io; /* last: as long as the family's is */
};

struct verify {
        struct load *l;
        const struct verify_options *o;
        struct verify_result *r;
        struct host_error *error;
        bool failed;
        uint32_t blocks, piece_max; /* of the range; of one command */
        uint32_t *generation;       /* of each block; 0: not ours yet */
        uint8_t *writer;            /* index of the queue that wrote it */
        struct job *jobs;
        unsigned cut; /* pieces, until now */
        size_t count;
        size_t next[VERIFY_QUEUES_MAX]; /* job that a queue looks at next */
        char *slots;                    /* depth of them per queue */
        size_t slot_bytes;
        uint8_t *data; /* of all slots */
        unsigned busy;
        uint64_t random;
        uint32_t step;
};

/* --- jobs ------------------------------------------------------------------------------------- */

/* Sizes of all magnitudes in turn, up to piece_max blocks. */
static uint32_t piece_size(struct verify *v)
{
        unsigned magnitudes = 32 - (unsigned)__builtin_clz(v->piece_max);
        uint64_t most = UINT64_C(2) << (v->cut++ % magnitudes);
        uint32_t size = (uint32_t)random_below(&v->random, most) + 1;

        return size < v->piece_max ? size : v->piece_max;
}

static uint16_t choose_queue(struct verify *v, uint32_t first, bool write)
{
        unsigned queues = v->l->queues;

        if (write || queues == 1)
                return (uint16_t)random_below(&v->random, queues);
        return (uint16_t)((v->writer[first] + 1 + random_below(&v->random, queues - 1)) % queues);
}

/* A piece that is ours already may be left as it is; one that is not can't be read. */
static bool wanted(struct verify *v, uint32_t first, bool write)
{
        if (v->generation[first] == 0)
                return write;
        return !write || random_below(&v->random, SKIP_ONE_IN) != 0;
}

static void cut(struct verify *v, uint32_t from, uint32_t to, bool write)
{
        while (from < to) {
                uint32_t size = piece_size(v);

                if (size > to - from)
                        size = to - from;
                if (wanted(v, from, write))
                        v->jobs[v->count++] = (struct job) { .first = from,
                                                             .blocks = size,
                                                             .queue = choose_queue(v, from, write),
                                                             .write = write };
                from += size;
        }
}

static void shuffle(struct verify *v)
{
        for (size_t i = v->count; i > 1; i--) {
                size_t j = (size_t)random_below(&v->random, i);
                struct job other = v->jobs[j];

                v->jobs[j] = v->jobs[i - 1];
                v->jobs[i - 1] = other;
        }
}

/* --- one command ------------------------------------------------------------------------------ */

static uint64_t place_of(const struct verify *v, uint32_t block)
{
        return (v->o->slba + block) * (v->l->block_size / PATTERN_UNIT);
}

static void fill(struct verify *v, struct slot *s)
{
        pattern_fill(s->data, (size_t)s->job.blocks * v->l->block_size, place_of(v, s->job.first),
                     v->step, v->o->seed);
        for (uint32_t i = 0; i < s->job.blocks; i++) {
                v->generation[s->job.first + i] = v->step;
                v->writer[s->job.first + i] = (uint8_t)s->job.queue;
        }
}

static void report(struct verify *v, const struct slot *s, uint32_t block,
                   const struct pattern_diff *diff)
{
        struct verify_result *r = v->r;
        int n;

        r->differs = true;
        r->diff = *diff;
        r->lba = v->o->slba + block;
        r->write_queue = load_number(v->l, v->writer[block]);
        r->read_queue = load_number(v->l, s->job.queue);
        n = snprintf(
            r->line, sizeof(r->line),
            "LBA %llu, written through queue %u, read through queue %u (%u blocks from %llu): ",
            (unsigned long long)r->lba, r->write_queue, r->read_queue, s->job.blocks,
            (unsigned long long)(v->o->slba + s->job.first));
        pattern_explain(diff, place_of(v, block) + diff->offset / PATTERN_UNIT,
                        v->generation[block], v->o->seed, r->line + n, sizeof(r->line) - (size_t)n);
}

static void compare(struct verify *v, const struct slot *s)
{
        struct pattern_diff diff;

        for (uint32_t i = 0; i < s->job.blocks && !v->r->differs; i++) {
                uint32_t block = s->job.first + i;

                if (!pattern_check(s->data + (size_t)i * v->l->block_size, v->l->block_size,
                                   place_of(v, block), v->generation[block], v->o->seed, &diff))
                        report(v, s, block, &diff);
        }
}

static void fail(struct verify *v, struct slot *s)
{
        s->again = s->io.outcome == LOAD_LOST;
        if (!v->failed && !s->again)
                load_why_failed(v->l, &s->io, v->error);
        v->failed |= !s->again;
}

static void ended(struct load_io *io, void *user)
{
        struct slot *s = user;
        struct verify *v = s->v;
        uint64_t bytes = (uint64_t)io->blocks * v->l->block_size;

        s->busy = false;
        v->busy--;
        if (io->outcome != LOAD_DONE) {
                fail(v, s);
        } else if (s->job.write) {
                v->r->writes++;
                v->r->bytes_written += bytes;
        } else {
                v->r->reads++;
                v->r->bytes_read += bytes;
                compare(v, s);
        }
}

static void start(struct verify *v, struct slot *s, const struct job *job)
{
        s->job = *job;
        if (job->write)
                fill(v, s);
        s->io = (struct load_io) { .write = job->write,
                                   .asked_for = v->o->asked_for && (random_next(&v->random) & 1),
                                   .block = v->o->slba + job->first,
                                   .blocks = job->blocks,
                                   .data = s->data,
                                   .done = ended,
                                   .user = s };
        s->started = loop_now_ns();
        s->busy = v->l->ops->submit(v->l, job->queue, &s->io) == 0;
        s->again = !s->busy;
        v->busy += s->busy;
}

static struct slot *slot_of(const struct verify *v, size_t i)
{
        return (struct slot *)(void *)(v->slots + i * v->slot_bytes);
}

/* --- a step ----------------------------------------------------------------------------------- */

static const struct job *next_job(struct verify *v, unsigned queue)
{
        while (v->next[queue] < v->count) {
                const struct job *job = &v->jobs[v->next[queue]++];

                if (job->queue == queue)
                        return job;
        }
        return NULL;
}

/* Gives every idle slot of a queue a job; true while there is something to wait for. */
static bool feed(struct verify *v, unsigned queue)
{
        bool busy = false;

        for (unsigned i = 0; i < v->o->depth && i < v->l->depth; i++) {
                struct slot *s = slot_of(v, (size_t)queue * v->o->depth + i);
                const struct job *job = s->busy ? NULL : s->again ? &s->job : next_job(v, queue);

                if (job)
                        start(v, s, job);
                busy |= s->busy || s->again;
        }
        return busy;
}

/* When its last try went to the other side, or will go. */
static uint64_t sent_at(const struct slot *s)
{
        return s->io.held_until > s->started ? s->io.held_until : s->started;
}

static int overdue(struct verify *v)
{
        uint64_t limit = (uint64_t)v->l->timeout * NS_PER_MS, now = loop_now_ns();

        for (size_t i = 0; i < (size_t)v->l->queues * v->o->depth; i++) {
                const struct slot *s = slot_of(v, i);

                if (s->busy && now > sent_at(s) + limit)
                        return host_fail(v->error, HOST_BROKEN,
                                         "queue %u: no response to a %s within %u ms",
                                         load_number(v->l, s->job.queue),
                                         s->io.write ? "write" : "read", v->l->timeout);
        }
        return 0;
}

static void sleep_on(struct verify *v)
{
        struct pollfd fds[VERIFY_QUEUES_MAX * LOAD_FDS];
        unsigned queues[VERIFY_QUEUES_MAX];

        for (unsigned i = 0; i < v->l->queues; i++)
                queues[i] = i;
        load_sleep(v->l, queues, v->l->queues, fds, v->l->ops->next ? v->l->ops->next(v->l) : -1);
}

static int lost(struct verify *v, unsigned queue)
{
        load_why_lost(v->l, queue, v->error);
        return -1;
}

/* Serves every queue once. 1: something came; -1: an error. */
static int serve(struct verify *v, bool *busy)
{
        int any = 0;

        *busy = false;
        for (unsigned i = 0; i < v->l->queues; i++) {
                int n;

                *busy |= feed(v, i);
                n = load_poll(v->l, i);
                if (n < 0)
                        return lost(v, i);
                any |= n;
        }
        return v->failed ? -1 : any;
}

static int add_memory(struct verify *v)
{
        size_t part = (size_t)v->o->depth * v->piece_max * v->l->block_size;

        for (unsigned i = 0; v->l->ops->add_memory && i < v->l->queues; i++)
                if (v->l->ops->add_memory(v->l, i, v->data + i * part, part, v->error) < 0)
                        return -1;
        return 0;
}

static void drop_memory(struct verify *v)
{
        size_t part = (size_t)v->o->depth * v->piece_max * v->l->block_size;

        for (unsigned i = 0; v->data && v->l->ops->drop_memory && i < v->l->queues; i++)
                v->l->ops->drop_memory(v->l, i, v->data + i * part);
}

/* Commands may still be outstanding after an error or a difference: their buffers go now. */
static void abandon(struct verify *v)
{
        for (unsigned i = 0; v->busy > 0 && i < v->l->queues; i++)
                load_abandon(v->l, i, "verification was stopped");
}

static int reconnect(struct verify *v)
{
        if (v->failed || v->r->differs || !v->l->reconnects)
                return -1;
        abandon(v);
        drop_memory(v);
        if (v->l->ops->reconnect(v->l, v->error) < 0) {
                v->l->queues = 0; /* there are none any more */
                return -1;
        }
        v->r->reconnects++;
        return add_memory(v);
}

/* Does the jobs of this step, stops at the first difference. */
static int do_jobs(struct verify *v)
{
        bool busy = true;

        shuffle(v);
        for (unsigned i = 0; i < v->l->queues; i++)
                v->next[i] = 0;
        while (busy && !v->r->differs) {
                int any = serve(v, &busy);

                if (any >= 0 && v->l->ops->keep && v->l->ops->keep(v->l, v->error) < 0)
                        any = -1;
                if (any == 0 && busy)
                        sleep_on(v);
                if (any == 0)
                        any = overdue(v);
                if (any < 0 && reconnect(v) < 0)
                        return -1;
                busy |= any < 0;
        }
        v->count = 0;
        return 0;
}

static bool enough(const struct verify *v, uint64_t started)
{
        const struct verify_options *o = v->o;

        return (o->passes && v->r->passes >= o->passes) ||
               (o->ms && loop_now_ns() - started >= (uint64_t)o->ms * NS_PER_MS);
}

static int run(struct verify *v, uint64_t started)
{
        uint32_t half = v->blocks / 2;

        while (!v->r->differs && !enough(v, started)) {
                for (int upper = 0; upper < 2; upper++) {
                        v->step++;
                        cut(v, 0, half, !upper);
                        cut(v, half, v->blocks, upper);
                        if (do_jobs(v) < 0)
                                return -1;
                }
                v->r->passes++;
        }
        cut(v, 0, v->blocks, false);
        return v->r->differs ? 0 : do_jobs(v);
}

/* --- set-up ----------------------------------------------------------------------------------- */

static int check(const struct load *l, const struct verify_options *o, struct host_error *e)
{
        uint64_t blocks = o->range / l->block_size;

        if (l->block_size % PATTERN_UNIT)
                return host_fail(e, HOST_USAGE, "blocks of %u bytes are too small for the pattern",
                                 l->block_size);
        if (l->max_blocks == 0)
                return host_fail(e, HOST_USAGE, "blocks of %u bytes are longer than a request",
                                 l->block_size);
        if (l->queues > VERIFY_QUEUES_MAX)
                return host_fail(e, HOST_USAGE, "verify uses at most %d queues", VERIFY_QUEUES_MAX);
        if (o->range % l->block_size || blocks < 2 || blocks > VERIFY_BLOCKS_MAX)
                return host_fail(e, HOST_USAGE,
                                 "a range of %llu bytes: must be 2 to %d blocks "
                                 "of %u bytes",
                                 (unsigned long long)o->range, VERIFY_BLOCKS_MAX, l->block_size);
        if (o->slba > l->blocks || blocks > l->blocks - o->slba)
                return host_fail(e, HOST_USAGE, "the range ends beyond the namespace's %llu blocks",
                                 (unsigned long long)l->blocks);
        return 0;
}

static uint32_t largest_piece(const struct verify *v)
{
        uint32_t blocks = v->o->max_size / v->l->block_size;

        if (blocks > v->l->max_blocks)
                blocks = v->l->max_blocks;
        return blocks > 0 ? blocks : 1;
}

static int allocate(struct verify *v)
{
        size_t slots = (size_t)v->l->queues * v->o->depth;
        size_t each = (size_t)v->piece_max * v->l->block_size;

        v->generation = calloc(v->blocks, sizeof(*v->generation));
        v->writer = calloc(v->blocks, sizeof(*v->writer));
        v->jobs = calloc(v->blocks, sizeof(*v->jobs));
        v->slot_bytes = (offsetof(struct slot, io) + v->l->ops->io_bytes + sizeof(void *) - 1) /
                        sizeof(void *) * sizeof(void *);
        v->slots = calloc(slots, v->slot_bytes);
        v->data = calloc(slots, each);
        if (!v->generation || !v->writer || !v->jobs || !v->slots || !v->data)
                return host_fail(v->error, HOST_BROKEN, "no memory for a range of %u blocks",
                                 v->blocks);
        for (size_t i = 0; i < slots; i++) {
                slot_of(v, i)->v = v;
                slot_of(v, i)->data = v->data + i * each;
        }
        return add_memory(v);
}

static void release(struct verify *v)
{
        drop_memory(v);
        free(v->data);
        free(v->slots);
        free(v->jobs);
        free(v->writer);
        free(v->generation);
}

int verify_run(struct load *l, const struct verify_options *o, struct verify_result *r,
               struct host_error *e)
{
        struct verify v = { .l = l, .o = o, .r = r, .error = e, .random = o->seed };
        uint64_t started = loop_now_ns();
        int result;

        *r = (struct verify_result) { 0 };
        if (check(l, o, e) < 0)
                return -1;
        v.blocks = (uint32_t)(o->range / l->block_size);
        v.piece_max = largest_piece(&v);
        result = allocate(&v) < 0 ? -1 : run(&v, started);
        r->seconds = (double)(loop_now_ns() - started) / 1e9;
        abandon(&v);
        release(&v);
        return result;
}
