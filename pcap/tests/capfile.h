/* SPDX-License-Identifier: BSD-3-Clause */
/* A classic pcap file in memory, to be written again with packets left out or bytes changed. */
#ifndef NVMF_PCAP_TESTS_CAPFILE_H
#define NVMF_PCAP_TESTS_CAPFILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CAP_HEAD = 24, CAP_PACKET_HEAD = 16, CAP_PACKETS = 4096 };

struct capfile {
        uint8_t *bytes;
        size_t len;
        size_t at[CAP_PACKETS + 1]; /* offset of each packet's header, and of the end */
        unsigned packets;
};

static const char *const captures[] = {
        "pdu/io/tests/captures/nvme-tcp-6.12.pcap",
        "pdu/io/tests/captures/nvme-tcp-digest-6.12.pcap",
        "pcap/tests/captures/nvme-rdma-rxe-6.12.pcap",
        "pcap/tests/captures/nvme-rdma-siw-6.12.pcap",
};
enum { CAPTURES = 4 };

static inline uint32_t cap_u32(const uint8_t *p)
{
        return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void cap_load_path(struct capfile *c, const char *path)
{
        FILE *f = fopen(path, "rb");
        size_t at;

        assert_non_null(f);
        fseek(f, 0, SEEK_END);
        c->len = (size_t)ftell(f);
        rewind(f);
        c->bytes = malloc(c->len);
        assert_non_null(c->bytes);
        assert_int_equal(fread(c->bytes, 1, c->len, f), c->len);
        fclose(f);
        c->packets = 0;
        for (at = CAP_HEAD; at + CAP_PACKET_HEAD <= c->len && c->packets < CAP_PACKETS;) {
                c->at[c->packets++] = at;
                at += CAP_PACKET_HEAD + cap_u32(c->bytes + at + 8);
        }
        c->at[c->packets] = c->len;
}

static inline void cap_load(struct capfile *c, const char *name)
{
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", SOURCE_DIR, name);
        cap_load_path(c, path);
}

static inline void cap_free(struct capfile *c)
{
        free(c->bytes);
}

static inline uint64_t cap_random(uint64_t *seed)
{
        uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

static inline void cap_write_bytes(const char *path, const uint8_t *p, size_t n)
{
        FILE *f = fopen(path, "wb");

        assert_non_null(f);
        assert_int_equal(fwrite(p, 1, n, f), n);
        assert_int_equal(fclose(f), 0);
}

/* Each packet stays with a probability of 1 - 1/one_in; returns how many were left out. */
static inline unsigned cap_write_lossy(const struct capfile *c, const char *path, unsigned one_in,
                                       uint64_t *seed)
{
        FILE *f = fopen(path, "wb");
        unsigned dropped = 0;

        assert_non_null(f);
        fwrite(c->bytes, 1, CAP_HEAD, f);
        for (unsigned i = 0; i < c->packets; i++) {
                if (cap_random(seed) % one_in == 0)
                        dropped++;
                else
                        fwrite(c->bytes + c->at[i], 1, c->at[i + 1] - c->at[i], f);
        }
        assert_int_equal(fclose(f), 0);
        return dropped;
}

#endif
