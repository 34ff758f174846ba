/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Big-endian integers as they stand on the wire, as le.h has little-endian ones: the types have size
 * and alignment of bytes and no arithmetic, so a missing swap does not compile.
 */
#ifndef NVMF_CORE_BE_H
#define NVMF_CORE_BE_H

#include <stdint.h>

typedef struct {
        uint8_t b[2];
} be16_t;
typedef struct {
        uint8_t b[4];
} be32_t;
typedef struct {
        uint8_t b[8];
} be64_t;

/* A big-endian integer of n bytes, 1 <= n <= 8, anywhere: for field tables and mutators. */
static inline uint64_t be_get(const uint8_t *p, unsigned n)
{
        uint64_t v = 0;

        while (n-- > 0)
                v = v << 8 | *p++;
        return v;
}

static inline void be_put(uint8_t *p, unsigned n, uint64_t v)
{
        for (; n-- > 0; v >>= 8)
                p[n] = (uint8_t)v;
}

static inline uint16_t be16_get(be16_t v)
{
        return (uint16_t)be_get(v.b, 2);
}

static inline uint32_t be32_get(be32_t v)
{
        return (uint32_t)be_get(v.b, 4);
}

static inline uint64_t be64_get(be64_t v)
{
        return be_get(v.b, 8);
}

static inline be16_t be16(uint16_t v)
{
        be16_t w;

        be_put(w.b, 2, v);
        return w;
}

static inline be32_t be32(uint32_t v)
{
        be32_t w;

        be_put(w.b, 4, v);
        return w;
}

static inline be64_t be64(uint64_t v)
{
        be64_t w;

        be_put(w.b, 8, v);
        return w;
}

#endif
