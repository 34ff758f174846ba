/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data that says what it is: every 512 bytes carry their place, generation and seed, and the rest
 * follows from these, so that a block that is lost, stale, torn or in the wrong place can be told.
 *
 *   0 "NVMFSPEC"   8 place (bytes / 512 from the namespace's start)   16 generation   24
 * seed   32...
 */
#ifndef NVMF_HOST_PATTERN_H
#define NVMF_HOST_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PATTERN_UNIT = 512 };

/* len: a multiple of 512; place: of the first unit. */
void pattern_fill(uint8_t *buf, size_t len, uint64_t place, uint64_t generation, uint64_t seed);

struct pattern_diff {
        size_t offset;          /* first byte that differs, from the start of the buffer */
        uint8_t expected, seen; /* that byte */
        bool marked;            /* the unit has a pattern's head, and it says: */
        uint64_t place, generation, seed;
        bool torn; /* ... but the rest of the unit is not what that head promises */
};

/* Whether buf holds just that; if not, the first difference. */
bool pattern_check(const uint8_t *buf, size_t len, uint64_t place, uint64_t generation,
                   uint64_t seed, struct pattern_diff *diff);

/* One line about a difference: expected against seen, and what the unit says of itself. */
void pattern_explain(const struct pattern_diff *diff, uint64_t place, uint64_t generation,
                     uint64_t seed, char *line, size_t size);

#endif
