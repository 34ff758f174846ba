/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers that a seed repeats: splitmix64 (Steele, Lea, Flood 2014). */
#ifndef NVMF_HOST_RANDOM_H
#define NVMF_HOST_RANDOM_H

#include <stdint.h>

static inline uint64_t random_mix(uint64_t z)
{
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

/* The next number; any state will do as a seed. */
static inline uint64_t random_next(uint64_t *state)
{
        *state += UINT64_C(0x9e3779b97f4a7c15);
        return random_mix(*state);
}

/* Below n, n > 0, without a division. */
static inline uint64_t random_below(uint64_t *state, uint64_t n)
{
        return (uint64_t)((unsigned __int128)random_next(state) * n >> 64);
}

#endif
