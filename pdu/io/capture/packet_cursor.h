/* SPDX-License-Identifier: BSD-3-Clause */
/* A cursor over the rest of a captured packet: never beyond what was captured, and it knows how much
 * more there was on the wire. All lengths are bytes. */
#ifndef NVMF_IO_PACKET_CURSOR_H
#define NVMF_IO_PACKET_CURSOR_H

#include <stddef.h>
#include <stdint.h>

struct cursor {
        const uint8_t *p;
        size_t n;     /* captured */
        size_t whole; /* on the wire, n or more */
};

/* The next n bytes and on after them; NULL, and where it was, if they are not all there. */
static inline const uint8_t *cursor_take(struct cursor *c, size_t n)
{
        const uint8_t *p = c->p;

        if (c->n < n)
                return NULL;
        c->p += n;
        c->n -= n;
        c->whole -= n;
        return p;
}

/* Nothing counts beyond `whole` bytes from here: padding and checksums. */
static inline void cursor_trim(struct cursor *c, size_t whole)
{
        if (c->whole > whole)
                c->whole = whole;
        if (c->n > c->whole)
                c->n = c->whole;
}

#endif
