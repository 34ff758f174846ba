/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load on some blocks, and how fast it was served. Each queue keeps `depth` commands outstanding
 * in a closed loop; a worker thread serves its share of the queues and measures them.
 */
#ifndef NVMF_HOST_PERF_H
#define NVMF_HOST_PERF_H

#include "histogram.h"
#include "load.h"

enum { PERF_CPUS = 64 };

struct perf_options {
        uint32_t io_size;       /* bytes of one command: a multiple of the load's block_size */
        uint64_t range;         /* bytes from the first block on; 0: all of them */
        unsigned read_percent;  /* 0..100 */
        bool random;            /* else rising, from a start of each queue's own */
        unsigned depth;         /* commands outstanding per queue, as far as it holds them */
        unsigned ms, warmup_ms; /* the measured time, and the time before it */
        bool sleep;             /* wait in poll(2) instead of polling the sockets all the time */
        int cpu[PERF_CPUS];     /* a worker is pinned to each; none: one worker, unpinned */
        unsigned cpus;
        bool asked_for; /* see struct load_io */
        uint64_t seed;
};

enum { PERF_READ, PERF_WRITE };

struct perf_result {
        struct histogram latency[2]; /* ns from submission to completion */
        unsigned depth;              /* commands that were outstanding per queue */
        double seconds;
};

/* Serves all queues of l for the time asked; a failed command ends it with an error. */
int perf_run(struct load *l, const struct perf_options *o, struct perf_result *r,
             struct host_error *e);

#endif
