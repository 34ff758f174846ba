/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Do blocks give back what was written? The range is taken in two halves. Each step writes
 * one half in pieces of random size and order, over all queues, while the other half is read in
 * other pieces and order, by preference through another queue than wrote it; some pieces are left
 * as they are, so that stale data has a chance to show. At the end all of it is read once more.
 * Destroys what the range holds.
 *
 * Queues that are lost are connected again, where load_ops.reconnect does so, and what was outstanding is sent again.
 */
#ifndef NVMF_HOST_VERIFY_H
#define NVMF_HOST_VERIFY_H

#include "load.h"
#include "pattern.h"

enum { VERIFY_BLOCKS_MAX = 1 << 26, VERIFY_QUEUES_MAX = 255 };

struct verify_options {
        uint64_t slba;     /* where the range begins */
        uint64_t range;    /* bytes, at least two blocks */
        uint32_t max_size; /* bytes of one command at most */
        unsigned depth;    /* commands outstanding per queue */
        unsigned passes;   /* of two steps each; 0: until the time is over */
        unsigned ms;       /* 0: no limit */
        bool asked_for;    /* every other write: see struct load_io */
        uint64_t seed;
};

struct verify_result {
        uint64_t passes, writes, reads, bytes_written, bytes_read;
        unsigned reconnects;
        double seconds;
        bool differs;
        uint64_t lba;                     /* the first block that was seen to differ, and */
        unsigned write_queue, read_queue; /* by their numbers: which wrote and read it */
        struct pattern_diff diff;
        char line[300]; /* all of that in words */
};

/* 0: done, r->differs says what it found; -1: an error. Blocks are of a multiple of 512 bytes. */
int verify_run(struct load *l, const struct verify_options *o, struct verify_result *r,
               struct host_error *e);

#endif
