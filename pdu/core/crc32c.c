/* SPDX-License-Identifier: BSD-3-Clause */
#include "crc32c.h"

#include <string.h>

#ifdef NVMF_WITH_ISAL
#include <isa-l/crc.h>
#endif
#ifdef __x86_64__
#include <nmmintrin.h>
#endif

/* All three work on the bare register: crc32c_with() does the initial and the final xor. */
typedef uint32_t update(uint32_t reg, const uint8_t *p, size_t len);

#ifdef NVMF_WITH_ISAL
static uint32_t update_isal(uint32_t reg, const uint8_t *p, size_t len)
{
        enum { CHUNK = 1 << 30 }; /* its length is an int */

        for (; len > CHUNK; p += CHUNK, len -= CHUNK)
                reg = crc32_iscsi((uint8_t *)(uintptr_t)p, CHUNK, reg);
        return crc32_iscsi((uint8_t *)(uintptr_t)p, (int)len, reg);
}
#endif

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t update_sse42(uint32_t reg, const uint8_t *p,
                                                               size_t len)
{
        uint64_t r = reg, word;

        for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word)) {
                memcpy(&word, p, sizeof(word));
                r = _mm_crc32_u64(r, word);
        }
        reg = (uint32_t)r;
        while (len-- > 0)
                reg = _mm_crc32_u8(reg, *p++);
        return reg;
}
#endif

/* The remainder of byte i is the sum of the remainders of its bits: CRC is linear. */
#define R(i)                                                                                       \
        (((i)&1 ? 0xf26b8303 : 0) ^ ((i)&2 ? 0xe13b70f7 : 0) ^ ((i)&4 ? 0xc79a971f : 0) ^          \
         ((i)&8 ? 0x8ad958cf : 0) ^ ((i)&16 ? 0x105ec76f : 0) ^ ((i)&32 ? 0x20bd8ede : 0) ^        \
         ((i)&64 ? 0x417b1dbc : 0) ^ ((i)&128 ? 0x82f63b78 : 0))
#define R4(i)  R(i), R((i) + 1), R((i) + 2), R((i) + 3)
#define R16(i) R4(i), R4((i) + 4), R4((i) + 8), R4((i) + 12)
#define R64(i) R16(i), R16((i) + 16), R16((i) + 32), R16((i) + 48)

static const uint32_t remainders[256] = { R64(0), R64(64), R64(128), R64(192) };

static uint32_t update_table(uint32_t reg, const uint8_t *p, size_t len)
{
        while (len-- > 0)
                reg = reg >> 8 ^ remainders[(reg ^ *p++) & 0xff];
        return reg;
}

static const struct {
        const char *name;
        update *update;
} impls[CRC32C_IMPLS] = {
#ifdef NVMF_WITH_ISAL
        [CRC32C_ISAL] = { "libisal", update_isal },
#else
        [CRC32C_ISAL] = { "libisal", NULL },
#endif
#ifdef __x86_64__
        [CRC32C_SSE42] = { "SSE4.2", update_sse42 },
#else
        [CRC32C_SSE42] = { "SSE4.2", NULL },
#endif
        [CRC32C_TABLE] = { "table", update_table },
};

bool crc32c_has(enum crc32c_impl impl)
{
#ifdef __x86_64__
        if (impl == CRC32C_SSE42)
                return __builtin_cpu_supports("sse4.2") != 0;
#endif
        return impls[impl].update != NULL;
}

const char *crc32c_name(enum crc32c_impl impl)
{
        return impls[impl].name;
}

uint32_t crc32c_with(enum crc32c_impl impl, uint32_t crc, const void *data, size_t len)
{
        return ~impls[impl].update(~crc, data, len);
}

uint32_t crc32c_more(uint32_t crc, const void *data, size_t len)
{
        enum crc32c_impl impl = 0;

        while (!crc32c_has(impl)) /* the table ends it */
                impl++;
        return crc32c_with(impl, crc, data, len);
}

uint32_t crc32c(const void *data, size_t len)
{
        return crc32c_more(0, data, len);
}
