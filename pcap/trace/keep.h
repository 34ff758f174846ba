/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of a capture is kept in memory at a time, whatever its size. What lies far into the data of a command makes
 * everything before it part of what is kept, as zeroes that no file has to hold. Where pieces come in any order, there are
 * at most as many of these bytes as of data, and where frames were lost, few times as many: so many there may be.
 */
#ifndef NVMF_PCAP_KEEP_H
#define NVMF_PCAP_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keep { /* bytes */
        size_t most, used;
        uint64_t holes; /* that there may still be */
};

enum {
        KEEP_SOME = 64 << 20,     /* by a reader that judges */
        KEEP_DATA = 256 << 20,    /* by one that wants all data, of what is outstanding */
        KEEP_HOLES = 64 << 20,    /* from the start, */
        KEEP_HOLES_PER_BYTE = 16, /* ... and for each byte of data */
};

static inline struct keep keep_most(size_t most)
{
        return (struct keep) { .most = most, .holes = KEEP_HOLES };
}

/* n bytes of data have come. */
static inline void keep_saw(struct keep *k, size_t n)
{
        k->holes += (uint64_t)n * KEEP_HOLES_PER_BYTE;
}

/* Whether `more` bytes may be kept, of which `there` are data. */
static inline bool keep_more(struct keep *k, size_t more, size_t there)
{
        size_t hole = more > there ? more - there : 0;

        if (more > k->most - k->used || hole > k->holes)
                return false;
        k->used += more;
        k->holes -= hole;
        return true;
}

static inline void keep_less(struct keep *k, size_t n)
{
        k->used -= n;
}

#endif
