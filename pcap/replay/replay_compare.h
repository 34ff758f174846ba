/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The answer that a command got in a capture beside the one it gets now. Two controllers may differ
 * in what is their own affair (identity, capabilities, counters): a table says in what, and why.
 */
#ifndef NVMF_PCAP_REPLAY_COMPARE_H
#define NVMF_PCAP_REPLAY_COMPARE_H

#include "pdu/nvme/wire/nvme.h"

enum likeness { SAME, ALLOWED, DIFFERENT, SKIPPED, LIKENESSES };
const char *likeness_name(enum likeness l); /* "SAME", "allowed", "DIFFERENT", "skipped" */

struct verdict {
        enum likeness likeness;
        char why[240]; /* empty if SAME */
};

struct answer {
        struct cqe cqe;
        const uint8_t *data; /* of commands that read; may be NULL */
        uint32_t len;        /* bytes of it */
};

struct comparison {
        const union sqe *sqe;
        bool admin;
        struct answer captured, live;
        bool cut;       /* the capture lacks some of the data */
        bool unknown;   /* the blocks it concerns may hold something else now */
        bool read_only; /* commands that write are not replayed */
};

/* An allowed difference never hides one that is not: DIFFERENT if there is any such. */
struct verdict compare_answers(const struct comparison *c);

#endif
