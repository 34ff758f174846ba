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

struct cm_blob {
        uint8_t magic[4], version, rsvd5;
        be16_t port;
        uint8_t address[16]; /* IPv6, or IPv4 as ::ffff:a.b.c.d */
        be64_t cookie;
        uint8_t reads_in, reads_out, rsvd34[6];
};
_Static_assert(sizeof(struct cm_blob) == DOCA_END_BLOB, "no gaps");

struct memory_blob {
        uint8_t magic[4], version, access, rsvd6[2];
        be64_t base, len;
        be32_t rkey;
        uint8_t rsvd28[4];
};
_Static_assert(sizeof(struct memory_blob) == DOCA_MEMORY_BLOB, "no gaps");

static const uint8_t end_magic[4] = { 'V', 'B', 'Q', 'P' }, cm_magic[4] = { 'V', 'B', 'C', 'M' },
                     memory_magic[4] = { 'V', 'B', 'M', 'R' };

static uint8_t mtu_code(uint16_t mtu)
{
        uint8_t code = 1;

        while (code < 5 && (256u << code) <= mtu)
                code++;
        return code;
}

static void write_cm(const struct doca_end *e, uint8_t p[DOCA_END_BLOB])
{
        struct cm_blob b = { .version = VERSION,
                             .port = be16(e->port),
                             .cookie = be64(e->cookie),
                             .reads_in = e->reads_in,
                             .reads_out = e->reads_out };

        memcpy(b.magic, cm_magic, sizeof(b.magic));
        memcpy(b.address, e->numbers.gid, sizeof(b.address));
        memcpy(p, &b, sizeof(b));
}

static bool read_cm(const uint8_t *p, struct doca_end *out)
{
        struct cm_blob b;

        memcpy(&b, p, sizeof(b));
        if (memcmp(b.magic, cm_magic, sizeof(b.magic)) != 0 || b.version != VERSION)
                return false;
        *out = (struct doca_end) { .by_cm = true,
                                   .port = be16_get(b.port),
                                   .cookie = be64_get(b.cookie),
                                   .reads_in = b.reads_in,
                                   .reads_out = b.reads_out };
        memcpy(out->numbers.gid, b.address, sizeof(b.address));
        return out->port != 0;
}

void doca_cm_write(uint64_t cookie, uint8_t p[DOCA_CM_DATA])
{
        memcpy(p, cm_magic, sizeof(cm_magic));
        be_put(p + sizeof(cm_magic), sizeof(cookie), cookie);
}

bool doca_cm_read(const void *p, size_t n, uint64_t *cookie)
{
        if (n < DOCA_CM_DATA || memcmp(p, cm_magic, sizeof(cm_magic)) != 0)
                return false;
        *cookie = be_get((const uint8_t *)p + sizeof(cm_magic), sizeof(*cookie));
        return true;
}

static void write_numbers(const struct doca_end *e, uint8_t p[DOCA_END_BLOB])
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

void doca_end_write(const struct doca_end *e, uint8_t p[DOCA_END_BLOB])
{
        if (e->by_cm) {
                write_cm(e, p);
                return;
        }
        write_numbers(e, p);
}

bool doca_end_read(struct doca_bytes from, struct doca_end *out)
{
        struct end_blob b;

        if (from.len != sizeof(b))
                return false;
        if (read_cm(from.p, out))
                return true;
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
