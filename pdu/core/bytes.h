/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_CORE_BYTES_H
#define NVMF_CORE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint32_t least(uint32_t a, uint32_t b)
{
        return a < b ? a : b;
}

/* Whether one of n bytes is not zero, as of a field that is reserved. */
static inline bool any_set(const uint8_t *p, size_t n)
{
        while (n > 0 && p[n - 1] == 0)
                n--;
        return n > 0;
}

#endif
