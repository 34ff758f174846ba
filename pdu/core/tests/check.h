/* SPDX-License-Identifier: BSD-3-Clause */
/* cmocka with what it wants included before it, and a random sequence that is the same every time.
 */
#ifndef NVMF_WIRE_TESTS_CHECK_H
#define NVMF_WIRE_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* xorshift64: *state is the seed, not 0. */
static inline uint64_t random_next(uint64_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

static inline void random_fill(uint64_t *state, void *p, size_t n)
{
        for (uint8_t *b = p; n-- > 0; b++)
                *b = (uint8_t)(random_next(state) >> 32);
}

#endif
