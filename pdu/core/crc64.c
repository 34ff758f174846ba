/* SPDX-License-Identifier: BSD-3-Clause */
#include "crc64.h"

enum { BITS = 4, ENTRIES = 1 << BITS };

#define POLYNOMIAL UINT64_C(0x9a6c9329ac4bc9b5) /* bits in reverse */

/* What four bits at the low end become. */
static uint64_t shifted(uint64_t crc)
{
        for (unsigned i = 0; i < BITS; i++)
                crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
        return crc;
}

uint64_t crc64_more(uint64_t crc, const void *data, size_t len)
{
        const uint8_t *p = data;
        uint64_t table[ENTRIES];

        for (unsigned i = 0; i < ENTRIES; i++)
                table[i] = shifted(i);
        crc = ~crc;
        for (; len > 0; len--) {
                crc ^= *p++;
                crc = crc >> BITS ^ table[crc & (ENTRIES - 1)];
                crc = crc >> BITS ^ table[crc & (ENTRIES - 1)];
        }
        return ~crc;
}
