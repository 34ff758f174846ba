/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_CORE_RNG_H
#define NVMF_CORE_RNG_H

#include <stdint.h>

/* A small generator, so that one seed in the input makes many decisions. */
static inline uint32_t fuzz_random(uint64_t *seed)
{
        *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)(*seed >> 33);
}

/* One of 0 to n - 1; nothing is drawn for n 0. */
static inline unsigned fuzz_any(uint64_t *seed, unsigned n)
{
        return n > 0 ? fuzz_random(seed) % n : 0;
}

#endif
