/* SPDX-License-Identifier: BSD-3-Clause */
/* A set of block numbers as disjoint intervals: the blocks that Write Uncorrectable marked. */
#ifndef NVMF_TARGET_EXTENTS_H
#define NVMF_TARGET_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

enum { EXTENTS_MAX = 4096 };

struct extent {
        uint64_t from, to; /* to is the first one behind it */
};

/* All zero: empty. Not thread-safe. */
struct extents {
        struct extent *at; /* ascending, none touches the next */
        unsigned count, cap;
};

void extents_fini(struct extents *e);
/* Both want from < to; false: the set would have too many intervals (nothing changed). */
bool extents_add(struct extents *e, uint64_t from, uint64_t to);
bool extents_remove(struct extents *e, uint64_t from, uint64_t to);
/* Whether any of [from, to) is in it. */
bool extents_touch(const struct extents *e, uint64_t from, uint64_t to);

#endif
