/* SPDX-License-Identifier: BSD-3-Clause */
#include "frames.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"

enum { LEAST = 256 };

static void move_up(struct doca_buffer *b)
{
        if (b->at > 0)
                memmove(b->p, b->p + b->at, doca_buffer_len(b));
        b->end -= b->at;
        b->at = 0;
}

bool doca_buffer_add(struct doca_buffer *b, const void *p, size_t n)
{
        size_t cap = b->cap ? b->cap : LEAST;
        uint8_t *grown;

        move_up(b);
        while (cap - b->end < n)
                cap *= 2;
        if (cap > b->cap) {
                grown = realloc(b->p, cap);
                if (!grown)
                        return false;
                b->p = grown;
                b->cap = cap;
        }
        if (n > 0)
                memcpy(b->p + b->end, p, n);
        b->end += n;
        return true;
}

void doca_buffer_drop(struct doca_buffer *b, size_t n)
{
        b->at += n;
}

void doca_buffer_free(struct doca_buffer *b)
{
        free(b->p);
        *b = (struct doca_buffer) { 0 };
}

enum doca_frame doca_frame_next(const struct doca_dialect *d, const struct doca_buffer *b,
                                size_t *n)
{
        size_t have = doca_buffer_len(b);
        uint64_t len = have > 0 ? doca_frame_len(d, b->p + b->at, have) : 0;

        *n = 0;
        if (len == 0 && have < d->frame.size_len)
                return DOCA_FRAME_MORE;
        if (!doca_frame_sane(d, len) && (!PLANTED(DOCA_FRAME_SHORT) || len >= d->frame.header))
                return DOCA_FRAME_BAD;
        if (have < len)
                return DOCA_FRAME_MORE;
        *n = (size_t)len;
        return DOCA_FRAME_WHOLE;
}
