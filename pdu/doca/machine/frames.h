/* SPDX-License-Identifier: BSD-3-Clause */
/* A control channel's bytes, cut into frames; and those that wait to be sent. */
#ifndef NVMF_DOCA_MACHINE_FRAMES_H
#define NVMF_DOCA_MACHINE_FRAMES_H

#include "pdu/doca/wire/doca.h"

struct doca_buffer { /* all zero: empty */
        uint8_t *p;
        size_t at, end, cap; /* what waits is p[at..end) */
};
/* n bytes more at its end; false: out of memory, and nothing is added. */
bool doca_buffer_add(struct doca_buffer *b, const void *p, size_t n);
/* The first n are done with. */
void doca_buffer_drop(struct doca_buffer *b, size_t n);
void doca_buffer_free(struct doca_buffer *b);
static inline size_t doca_buffer_len(const struct doca_buffer *b)
{
        return b->end - b->at;
}

enum doca_frame { DOCA_FRAME_MORE, DOCA_FRAME_WHOLE, DOCA_FRAME_BAD };
/* The frame at the beginning: its length n with WHOLE. BAD: its size is none (DOCA_SIZE_S, DOCA_SIZE_T): nothing more can be
 * read. */
enum doca_frame doca_frame_next(const struct doca_dialect *d, const struct doca_buffer *b,
                                size_t *n);

#endif
