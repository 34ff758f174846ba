/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes PDUs one after the other, as a sender that keeps every rule would. */
#ifndef NVMF_MACHINE_TESTS_STREAM_H
#define NVMF_MACHINE_TESTS_STREAM_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/crc32c.h"
#include "pdu/nvme/wire/tcp.h"

struct stream {
        struct pdu_format format;
        size_t len;
        size_t last; /* where the last PDU begins */
        uint8_t bytes[1 << 18];
};

static inline void stream_bytes(struct stream *s, const void *p, size_t n)
{
        if (n > sizeof(s->bytes) - s->len)
                abort();
        if (n > 0)
                memcpy(s->bytes + s->len, p, n);
        s->len += n;
}

static inline void stream_digest(struct stream *s, const void *p, size_t n)
{
        le32_t crc = le32(crc32c(p, n));

        stream_bytes(s, &crc, sizeof(crc));
}

static inline void stream_fill(struct stream *s, size_t to)
{
        while (s->len < to)
                stream_bytes(s, "\xaa", 1);
}

/* A PDU as h stands: laid out already. */
static inline void stream_laid(struct stream *s, const union pdu *h, const void *data, uint32_t len)
{
        const struct pdu_info *info = pdu_info(h->ch.type);
        size_t hlen = info && info->hlen ? info->hlen : sizeof(h->ch);

        s->last = s->len;
        stream_bytes(s, h, hlen);
        if (h->ch.flags & PDU_HDGSTF)
                stream_digest(s, h, hlen);
        if (len > 0 && h->ch.pdo > 0)
                stream_fill(s, s->last + h->ch.pdo);
        stream_bytes(s, data, len);
        if (h->ch.flags & PDU_DDGSTF)
                stream_digest(s, data, len);
}

/* Lays it out first. */
static inline void stream_add(struct stream *s, union pdu *h, const void *data, uint32_t len)
{
        pdu_lay_out(h, &s->format, len);
        stream_laid(s, h, data, len);
}

/* The last PDU, to be spoilt. */
static inline union pdu *stream_last(struct stream *s)
{
        return (union pdu *)(void *)(s->bytes + s->last);
}

#endif
