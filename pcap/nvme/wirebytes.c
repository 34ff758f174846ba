/* SPDX-License-Identifier: BSD-3-Clause */
#include "wirebytes.h"

#include <string.h>

#include "pdu/core/crc32c.h"

static bool add_sum(struct bytes *out, uint32_t crc)
{
        uint8_t sum[PDU_DIGEST_LEN] = { (uint8_t)crc, (uint8_t)(crc >> 8), (uint8_t)(crc >> 16),
                                        (uint8_t)(crc >> 24) };

        return bytes_add(out, sum, sizeof(sum));
}

bool wire_head(struct bytes *out, const struct trace_pdu *p)
{
        uint32_t head = pdu_head_len(p->h, p->format), hlen = p->h->ch.hlen;

        return hlen <= PDU_HEADER_MAX && hlen <= head && bytes_add(out, p->h, hlen) &&
               (head == hlen || add_sum(out, p->hdgst));
}

bool wire_front(struct bytes *out, const struct trace_pdu *p)
{
        uint32_t head = pdu_head_len(p->h, p->format);
        uint32_t start = p->data_len ? pdu_data_start(p->h, p->format) : head;

        out->n = 0;
        if (!wire_head(out, p) || (start > out->n && !bytes_add(out, NULL, start - out->n)))
                return false;
        if (p->pad_set)
                out->p[start - 1] = 1;
        return true;
}

uint32_t wire_rest(const struct trace_pdu *p)
{
        return p->data_len + (pdu_has_ddgst(p->h, p->format) ? PDU_DIGEST_LEN : 0u);
}

bool wire_bytes(struct bytes *out, const struct trace_pdu *p, struct wire_parts *parts)
{
        *parts = (struct wire_parts) { .has_ddgst = pdu_has_ddgst(p->h, p->format) };
        if (!wire_front(out, p))
                return false;
        parts->data = out->n;
        if (!bytes_add(out, p->data, p->data_len))
                return false;
        parts->ddgst = out->n;
        if (parts->has_ddgst && !bytes_add(out, NULL, PDU_DIGEST_LEN))
                return false;
        wire_sum(out, parts, p->ddgst_bad);
        return true;
}

void wire_sum(struct bytes *pdu, const struct wire_parts *parts, bool wrong)
{
        uint32_t crc;

        if (!parts->has_ddgst)
                return;
        crc = crc32c(pdu->p + parts->data, parts->ddgst - parts->data) ^ (wrong ? 0xffffffff : 0);
        pdu->n = parts->ddgst;
        (void)add_sum(pdu, crc); /* its room is there */
}
