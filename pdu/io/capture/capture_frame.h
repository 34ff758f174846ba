/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the parts that write captures (capture_writer.h, capture_rdma.h): one frame. Private. */
#ifndef NVMF_IO_CAPTURE_FRAME_H
#define NVMF_IO_CAPTURE_FRAME_H

#include "capture_writer.h"

enum {
        ETHER_HEAD = 14,
        IP4_HEAD = 20,
        IP6_HEAD = 40,
        FRAME_HEADS = ETHER_HEAD + IP6_HEAD, /* at most, below TCP and UDP */
};

static inline void put16(uint8_t *p, unsigned v)
{
        p[0] = (uint8_t)(v >> 8);
        p[1] = (uint8_t)v;
}
static inline void put24(uint8_t *p, uint32_t v)
{
        p[0] = (uint8_t)(v >> 16);
        put16(p + 1, v & 0xffff);
}
static inline void put32(uint8_t *p, uint32_t v)
{
        put16(p, v >> 16);
        put16(p + 2, v & 0xffff);
}
static inline void put64(uint8_t *p, uint64_t v)
{
        put32(p, (uint32_t)(v >> 32));
        put32(p + 4, (uint32_t)v);
}

/* From -> to, as Ethernet and IP say; returns where the n bytes of `protocol` go. */
uint8_t *frame_heads(uint8_t *p, const struct capture_end end[2], enum party sender,
                     uint8_t protocol, size_t n);
/* The checksum of those bytes, pseudo-header included; its own field is zero. */
uint16_t frame_sum(const struct capture_end end[2], uint8_t protocol, const uint8_t *p, size_t n);

/* Where a frame is made, which is the caller's until it is put into the file: `end` after it. */
uint8_t *frame_begin(struct capture_writer *w);
void frame_end(struct capture_writer *w, const uint8_t *end, int64_t time_ns, const char *comment);

/* A number that no other call got, from 0. */
uint32_t frame_number(struct capture_writer *w);
/* The two ends: 10.0.0.1 and 10.0.0.2:4420 unless both are IP of one family. */
void frame_ends(struct capture_end end[2], const struct sockaddr *host,
                const struct sockaddr *controller);

#endif
