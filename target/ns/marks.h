/* SPDX-License-Identifier: BSD-3-Clause */
/* A set of numbers, as bits on pages that are there only where some are set: the units of storage that
 * Write Uncorrectable marked, the blocks whose contents a replay knows. Taking out needs no memory, so it cannot fail: a write clears marks. */
#ifndef NVMF_TARGET_MARKS_H
#define NVMF_TARGET_MARKS_H

#include <stdbool.h>
#include <stdint.h>

enum {
        MARKS_A_PAGE = 32768,
        MARKS_PAGES_MAX =
            4096, /* 16 MiB; of units of 512 bytes at least 64 GiB, if they lie together */
};

struct marks_page;

/* All zero: empty. Not thread-safe. */
struct marks {
        struct marks_page *page; /* ascending */
        unsigned count, cap;     /* pages */
        uint64_t whole[2];       /* numbers in it; aligned groups of eight that are */
};

/* Frees its memory: it is empty again. */
void marks_fini(struct marks *m);
/* All want from < to. add: false if out of memory or pages, then nothing changed. */
bool marks_add(struct marks *m, uint64_t from, uint64_t to);
void marks_remove(struct marks *m, uint64_t from, uint64_t to);
/* Whether any of [from, to) is in it; whether all are. */
bool marks_touch(const struct marks *m, uint64_t from, uint64_t to);
bool marks_cover(const struct marks *m, uint64_t from, uint64_t to);
/* The first number of [from, to) that is in it, or (in: false) is not; `to` if there is none. */
uint64_t marks_next(const struct marks *m, uint64_t from, uint64_t to, bool in);
/* How many of its aligned groups of 2^shift (0 or 3) numbers below `to` are in it as a whole: at once, but for pages
 * from `to` on. */
uint64_t marks_groups(const struct marks *m, unsigned shift, uint64_t to);

#endif
