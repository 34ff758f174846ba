/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include "pdu/core/crc32c.h"

enum { LEAVES_LAYOUT = 1, LEAVES_HDGST = 2, LEAVES_DDGST = 4, LEAVES_TYPE = 8 };

/* Of ten PDUs seven are repaired in full. */
static unsigned leaves(uint64_t *seed)
{
        static const unsigned what[10] = { LEAVES_LAYOUT, LEAVES_HDGST, LEAVES_DDGST };

        return what[fuzz_random(seed) % 10];
}

static uint8_t type_of(enum party sender, unsigned n)
{
        static const uint8_t types[2][5] = {
                { PDU_ICREQ, PDU_CAPSULE_CMD, PDU_H2C_DATA, PDU_H2C_TERM, PDU_CAPSULE_CMD },
                { PDU_ICRESP, PDU_CAPSULE_RESP, PDU_C2H_DATA, PDU_R2T, PDU_C2H_TERM },
        };

        return types[sender][n % 5];
}

static void put_digest(uint8_t *at, const uint8_t *p, size_t n)
{
        le32_t crc = le32(crc32c(p, n));

        memcpy(at, &crc, sizeof(crc));
}

/* Data of the PDU: what it says now, or as much as there is. */
static uint32_t wanted(const struct pdu_ch *ch, size_t left, uint64_t *seed)
{
        uint32_t said = le32_get(ch->plen);

        if (said > left || said < ch->hlen)
                said = (uint32_t)left;
        return said > ch->hlen ? said - ch->hlen : fuzz_random(seed) % 64;
}

/* Lays it out for at most the bytes that there are; false: there is no room for its header. */
static bool lay_out(union pdu *h, size_t left, const struct pdu_format *f, uint64_t *seed)
{
        uint32_t len = wanted(&h->ch, left, seed);
        bool dwords = fuzz_random(seed) % 8;

        pdu_lay_out(h, f, len);
        if (le32_get(h->ch.plen) > left) {
                uint32_t over = le32_get(h->ch.plen) - (uint32_t)left;

                len = over < len ? len - over : 0;
        }
        pdu_lay_out(h, f, dwords ? len & ~3u : len);
        if (h->ch.type == PDU_H2C_DATA || h->ch.type == PDU_C2H_DATA)
                h->data.length = le32(pdu_data_len(h, f));
        return le32_get(h->ch.plen) <= left;
}

static void digests(uint8_t *p, const union pdu *h, const struct pdu_format *f, unsigned left_out)
{
        uint32_t start = pdu_data_start(h, f), len = pdu_data_len(h, f);

        if ((h->ch.flags & PDU_HDGSTF) && !(left_out & LEAVES_HDGST))
                put_digest(p + h->ch.hlen, p, h->ch.hlen);
        if (pdu_has_ddgst(h, f) && !(left_out & LEAVES_DDGST))
                put_digest(p + start + len, p + start, len);
}

void stream_sum(uint8_t *p, size_t n, const struct pdu_format *f)
{
        union pdu h = { 0 };

        memcpy(&h, p, n < sizeof(h) ? n : sizeof(h));
        if (h.ch.hlen + (size_t)PDU_DIGEST_LEN <= n && le32_get(h.ch.plen) <= n)
                digests(p, &h, f, 0);
}

/* Bytes of the PDU at p; 0: the rest is none. */
static size_t fix(uint8_t *p, size_t n, const struct pdu_format *f, enum party sender,
                  uint64_t *seed)
{
        unsigned left_out = leaves(seed);
        union pdu h = { .ch.type = p[0] };
        const struct pdu_info *info = pdu_info(p[0]);
        size_t plen;

        if (!info || !info->hlen || info->sender != sender) {
                h.ch.type = type_of(sender, p[0]);
                info = pdu_info(h.ch.type);
        }
        if (n < info->hlen + (size_t)PDU_DIGEST_LEN)
                return 0;
        memcpy(h.bytes + 1, p + 1, info->hlen - 1u);
        h.ch.flags &= info->flags;
        if (left_out & LEAVES_LAYOUT)
                return info->hlen;
        if (!lay_out(&h, n, f, seed))
                return 0;
        plen = le32_get(h.ch.plen);
        memcpy(p, &h, h.ch.hlen);
        digests(p, &h, f, left_out);
        return plen;
}

void stream_fix(uint8_t *p, size_t n, const struct pdu_format *f, enum party sender, unsigned seed)
{
        uint64_t state = seed;
        size_t len;

        while (n >= sizeof(struct pdu_ch) && (len = fix(p, n, f, sender, &state)) > 0) {
                p += len;
                n -= len;
        }
}
