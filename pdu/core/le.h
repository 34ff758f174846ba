/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Little-endian integers as they stand on the wire. The types have size and alignment of bytes and
 * no arithmetic: a field can only be read with leN_get() and made with leN(), so a missing swap does
 * not compile.
 */
#ifndef NVMF_WIRE_LE_H
#define NVMF_WIRE_LE_H

#include <stdint.h>

typedef struct {
        uint8_t b[2];
} le16_t;
typedef struct {
        uint8_t b[4];
} le32_t;
typedef struct {
        uint8_t b[8];
} le64_t;

static inline uint16_t le16_get(le16_t v)
{
        return (uint16_t)(v.b[0] | v.b[1] << 8);
}

static inline uint32_t le32_get(le32_t v)
{
        return v.b[0] | (uint32_t)v.b[1] << 8 | (uint32_t)v.b[2] << 16 | (uint32_t)v.b[3] << 24;
}

static inline uint64_t le64_get(le64_t v)
{
        return v.b[0] | (uint64_t)v.b[1] << 8 | (uint64_t)v.b[2] << 16 | (uint64_t)v.b[3] << 24 |
               (uint64_t)v.b[4] << 32 | (uint64_t)v.b[5] << 40 | (uint64_t)v.b[6] << 48 |
               (uint64_t)v.b[7] << 56;
}

static inline le16_t le16(uint16_t v)
{
        return (le16_t) { { (uint8_t)v, (uint8_t)(v >> 8) } };
}

static inline le32_t le32(uint32_t v)
{
        le32_t w = { { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) } };

        return w;
}

static inline le64_t le64(uint64_t v)
{
        return (le64_t) { { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24),
                            (uint8_t)(v >> 32), (uint8_t)(v >> 40), (uint8_t)(v >> 48),
                            (uint8_t)(v >> 56) } };
}

/* A little-endian integer of n bytes, 1 <= n <= 8, anywhere: for field tables and mutators. */
static inline uint64_t le_get(const uint8_t *p, unsigned n)
{
        uint64_t v = 0;

        while (n-- > 0)
                v = v << 8 | p[n];
        return v;
}

static inline void le_put(uint8_t *p, unsigned n, uint64_t v)
{
        for (; n-- > 0; v >>= 8)
                *p++ = (uint8_t)v;
}

#endif
