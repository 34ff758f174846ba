/* SPDX-License-Identifier: BSD-3-Clause */
#include "blob.h"

#include <string.h>

enum { VERSION = 1 };

struct end_blob {
        uint8_t magic[4], version, flags, rsvd6;
        uint8_t mtu; /* 1: 256, 2: 512 ... 5: 4096 bytes */
        be32_t qpn, psn;
        uint8_t gid[16];
        be16_t lid;
        uint8_t reads_in, reads_out, rnr_retry, retry, rsvd38[2];
};
_Static_assert(sizeof(struct end_blob) == DOCA_END_BLOB, "no gaps");

struct memory_blob {
        uint8_t magic[4], version, access, rsvd6[2];
        be64_t base, len;
        be32_t rkey;
        uint8_t rsvd28[4];
};
_Static_assert(sizeof(struct memory_blob) == DOCA_MEMORY_BLOB, "no gaps");

static const uint8_t end_magic[4] = { 'V', 'B', 'Q', 'P' },
                     memory_magic[4] = { 'V', 'B', 'M', 'R' };

static uint8_t mtu_code(uint16_t mtu)
{
        uint8_t code = 1;

        while (code < 5 && (256u << code) <= mtu)
                code++;
        return code;
}

void doca_end_write(const struct doca_end *e, uint8_t p[DOCA_END_BLOB])
{
        struct end_blob b = { .version = VERSION,
                              .mtu = mtu_code(e->numbers.mtu),
                              .qpn = be32(e->numbers.qpn),
                              .psn = be32(e->numbers.psn),
                              .lid = be16(e->numbers.lid),
                              .reads_in = e->reads_in,
                              .reads_out = e->reads_out,
                              .rnr_retry = e->rnr_retry,
                              .retry = e->retry };

        memcpy(b.magic, end_magic, sizeof(b.magic));
        memcpy(b.gid, e->numbers.gid, sizeof(b.gid));
        memcpy(p, &b, sizeof(b));
}

bool doca_end_read(struct doca_bytes from, struct doca_end *out)
{
        struct end_blob b;

        if (from.len != sizeof(b))
                return false;
        memcpy(&b, from.p, sizeof(b));
        if (memcmp(b.magic, end_magic, sizeof(b.magic)) != 0 || b.version != VERSION || b.mtu < 1 ||
            b.mtu > 5 || be32_get(b.qpn) >> 24 || be32_get(b.psn) >> 24)
                return false;
        *out = (struct doca_end) { .numbers = { .qpn = be32_get(b.qpn),
                                                .psn = be32_get(b.psn),
                                                .lid = be16_get(b.lid),
                                                .mtu = (uint16_t)(128u << b.mtu) },
                                   .reads_in = b.reads_in,
                                   .reads_out = b.reads_out,
                                   .rnr_retry = b.rnr_retry,
                                   .retry = b.retry };
        memcpy(out->numbers.gid, b.gid, sizeof(b.gid));
        return true;
}

void doca_memory_write(const struct doca_memory *m, uint8_t p[DOCA_MEMORY_BLOB])
{
        struct memory_blob b = { .version = VERSION,
                                 .access = (uint8_t)m->access,
                                 .base = be64(m->base),
                                 .len = be64(m->len),
                                 .rkey = be32(m->rkey) };

        memcpy(b.magic, memory_magic, sizeof(b.magic));
        memcpy(p, &b, sizeof(b));
}

bool doca_memory_read(struct doca_bytes from, struct doca_memory *out)
{
        struct memory_blob b;

        if (from.len != sizeof(b))
                return false;
        memcpy(&b, from.p, sizeof(b));
        *out = (struct doca_memory) { .base = be64_get(b.base),
                                      .len = be64_get(b.len),
                                      .rkey = be32_get(b.rkey),
                                      .access = b.access };
        return memcmp(b.magic, memory_magic, sizeof(b.magic)) == 0 && b.version == VERSION &&
               out->len <= UINT64_MAX - out->base;
}
