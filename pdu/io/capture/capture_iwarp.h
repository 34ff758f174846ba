/* SPDX-License-Identifier: BSD-3-Clause */
/* What capture_rdma.h does with iWARP, and by the same sources. Lengths are bytes. Private. */
#ifndef NVMF_IO_CAPTURE_IWARP_H
#define NVMF_IO_CAPTURE_IWARP_H

#include "capture_rdma.h"

/* Bytes in several pieces, from some place on. */
struct pieces {
        const struct iovec *iov;
        int n;
        size_t at; /* of the first */
};
/* Bytes that are left. */
size_t pieces_len(const struct pieces *p);
/* The next n of them, which are there. */
void pieces_take(struct pieces *p, uint8_t *to, size_t n);

/* As capture_rdma_cm(): MPA start frames (RFC 5044, 7.1; RFC 6581), nothing for other kinds. */
void iwarp_cm(struct capture_writer *w, struct capture_rdma *f, enum party sender,
              const struct capture_cm *m, int64_t time_ns);

/* Of RDMAP: RFC 5040, 4.3. */
enum iwarp_opcode {
        IWARP_WRITE,
        IWARP_READ_REQUEST,
        IWARP_READ_RESPONSE,
        IWARP_SEND,
        IWARP_SEND_INVALIDATE,
        IWARP_TERMINATE = 7,
};
/* A message on an untagged queue, in segments; key: what it invalidates. */
void iwarp_untagged(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                    enum iwarp_opcode opcode, uint32_t key, struct pieces data, int64_t time_ns);
/* A tagged one: to addr, by that key. */
void iwarp_tagged(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                  enum iwarp_opcode opcode, uint64_t addr, uint32_t key, struct pieces data,
                  int64_t time_ns);
/* Asks for len bytes at addr; the answer goes where iwarp_answer() says. Returns its number. */
uint32_t iwarp_read(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                    uint64_t addr, uint32_t key, uint32_t len, int64_t time_ns);
void iwarp_answer(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                  uint32_t read, struct pieces data, int64_t time_ns);

#endif
