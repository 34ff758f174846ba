/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does a namespace give back what was written? The range is taken in two halves. Each step writes
 * one half in pieces of random size and order, over all queues, while the other half is read in
 * other pieces and order, by preference through another queue than wrote it; some pieces are left
 * as they are, so that stale data has a chance to show. At the end all of it is read once more.
 * Destroys what the range holds.
 *
 * A controller that is lost is connected to again, if c's ctrl_loss_tmo allows, and what was
 * outstanding is sent again.
 */
#ifndef NVMF_HOST_VERIFY_H
#define NVMF_HOST_VERIFY_H

#include "host/nvme/ctrl.h"
#include "pattern.h"

enum { VERIFY_BLOCKS_MAX = 1 << 26, VERIFY_QUEUES_MAX = 255 };

struct verify_options {
        uint32_t nsid, block_size; /* bytes of a logical block: a multiple of 512 */
        uint64_t blocks;           /* of the namespace */
        uint64_t slba;             /* where the range begins */
        uint64_t range;            /* bytes, at least two blocks */
        uint32_t max_size;         /* bytes of one command at most */
        unsigned depth;            /* commands outstanding per queue */
        unsigned passes;           /* of two steps each; 0: until the time is over */
        unsigned ms;               /* 0: no limit */
        bool command_buffers; /* every other write that fits the capsule waits for an R2T all the
                               * same (SGL 5Ah); nvmet-tcp never answers those (seen with 6.12) */
        uint64_t seed;
};

struct verify_result {
        uint64_t passes, writes, reads, bytes_written, bytes_read;
        unsigned reconnects;
        double seconds;
        bool differs;
        uint64_t lba;                 /* the first block that was seen to differ, and */
        unsigned write_qid, read_qid; /* which queues wrote and read it */
        struct pattern_diff diff;
        char line[300]; /* all of that in words */
};

/* 0: done, r->differs says what it found; -1: an error. Uses all I/O queues of c. */
int verify_run(struct host_ctrl *c, const struct verify_options *o, struct verify_result *r,
               struct host_error *e);

#endif
