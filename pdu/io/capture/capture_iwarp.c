/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_iwarp.h"

#include <string.h>

#include "capture_frame.h"
#include "pdu/core/crc32c.h"

enum {
        START_HEAD = 20, /* key, flags, revision, length */
        START_CRC = 0x40,
        START_REJECTED = 0x20,
        START_ENHANCED = 0x10, /* revision 2: four bytes on IRD and ORD come first */
        START_DATA = 255,
        TAGGED = 0x80,
        LAST = 0x40,
        DDP_VERSION = 0x01,
        RDMAP_VERSION = 0x40,
        TAGGED_HEAD = 14,
        UNTAGGED_HEAD = 18,
        READ_REQUEST_LEN = 28,
        SEGMENT = 16384, /* bytes of a message in one segment at most */
        FPDU_MAX = 2 + UNTAGGED_HEAD + SEGMENT + 3 + 4,
        SINK_KEY = 1, /* READ number n is answered to address n << 32 of this key */
};

/* --- start-up frames -------------------------------------------------------------------------- */

void iwarp_cm(struct capture_writer *w, struct capture_rdma *f, enum party sender,
              const struct capture_cm *m, int64_t time_ns)
{
        bool enhanced = m->depths || m->reads_in || m->reads_out;
        uint32_t len = m->len < START_DATA ? m->len : START_DATA;
        uint8_t frame[START_HEAD + 4 + START_DATA] = { 0 }, *p = frame + START_HEAD;

        if (m->kind > CAPTURE_REJECT)
                return;
        memcpy(frame, m->kind == CAPTURE_REQUEST ? "MPA ID Req Frame" : "MPA ID Rep Frame", 17);
        frame[16] = START_CRC; /* where the string ends */
        frame[17] = enhanced ? 2 : 1;
        if (m->kind == CAPTURE_REJECT)
                frame[16] |= START_REJECTED;
        if (enhanced) {
                frame[16] |= START_ENHANCED;
                put16(p, m->reads_in);
                put16(p + 2, m->reads_out);
                p += 4;
        }
        if (len > 0)
                memcpy(p, m->data, len);
        p += len;
        put16(frame + 18, (unsigned)(p - frame) - START_HEAD);
        capture_flow_data(w, &f->tcp, sender, frame, (size_t)(p - frame), time_ns);
}

/* --- segments --------------------------------------------------------------------------------- */

/* The FPDU of `head` bytes that stand at fpdu + 2 already, and n bytes of data. */
static void put_fpdu(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                     uint8_t *fpdu, size_t head, struct pieces *data, size_t n, int64_t time_ns)
{
        size_t len = 2 + head + n;
        uint32_t crc;

        put16(fpdu, (unsigned)(head + n));
        pieces_take(data, fpdu + 2 + head, n);
        for (; len % 4; len++)
                fpdu[len] = 0;
        crc = crc32c(fpdu, len);
        for (int i = 0; i < 4; i++)
                fpdu[len++] = (uint8_t)(crc >> 8 * i);
        capture_flow_data(w, &f->tcp, sender, fpdu, len, time_ns);
}

static uint32_t queue_of(enum iwarp_opcode o)
{
        return o == IWARP_READ_REQUEST ? 1 : o == IWARP_TERMINATE ? 2 : 0;
}

void iwarp_untagged(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                    enum iwarp_opcode opcode, uint32_t key, struct pieces data, int64_t time_ns)
{
        uint32_t *counter = opcode == IWARP_READ_REQUEST ? f->next : f->msn;
        uint32_t msn = opcode == IWARP_TERMINATE ? 1 : ++counter[sender];
        uint8_t fpdu[FPDU_MAX];
        uint32_t at = 0, run;
        size_t left;

        do {
                left = pieces_len(&data);
                run = left < SEGMENT ? (uint32_t)left : SEGMENT;
                fpdu[2] = (uint8_t)(DDP_VERSION | (run == left ? LAST : 0));
                fpdu[3] = (uint8_t)(RDMAP_VERSION | opcode);
                put32(fpdu + 4, key);
                put32(fpdu + 8, queue_of(opcode));
                put32(fpdu + 12, msn);
                put32(fpdu + 16, at);
                put_fpdu(w, f, sender, fpdu, UNTAGGED_HEAD, &data, run, time_ns);
                at += run;
        } while (run < left);
}

void iwarp_tagged(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                  enum iwarp_opcode opcode, uint64_t addr, uint32_t key, struct pieces data,
                  int64_t time_ns)
{
        uint8_t fpdu[FPDU_MAX];
        size_t left, run;

        do {
                left = pieces_len(&data);
                run = left < SEGMENT ? left : SEGMENT;
                fpdu[2] = (uint8_t)(TAGGED | DDP_VERSION | (run == left ? LAST : 0));
                fpdu[3] = (uint8_t)(RDMAP_VERSION | opcode);
                put32(fpdu + 4, key);
                put64(fpdu + 8, addr);
                put_fpdu(w, f, sender, fpdu, TAGGED_HEAD, &data, run, time_ns);
                addr += run;
        } while (run < left);
}

/* --- READs ------------------------------------------------------------------------------------ */

uint32_t iwarp_read(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                    uint64_t addr, uint32_t key, uint32_t len, int64_t time_ns)
{
        uint8_t asks[READ_REQUEST_LEN];
        struct iovec iov = { asks, sizeof(asks) };
        uint32_t number = f->next[sender];

        put32(asks, SINK_KEY);
        put64(asks + 4, (uint64_t)number << 32);
        put32(asks + 12, len);
        put32(asks + 16, key);
        put64(asks + 20, addr);
        iwarp_untagged(w, f, sender, IWARP_READ_REQUEST, 0, (struct pieces) { &iov, 1, 0 },
                       time_ns);
        return number;
}

void iwarp_answer(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                  uint32_t read, struct pieces data, int64_t time_ns)
{
        iwarp_tagged(w, f, sender, IWARP_READ_RESPONSE, (uint64_t)read << 32, SINK_KEY, data,
                     time_ns);
}
