/* SPDX-License-Identifier: BSD-3-Clause */
/* NVM Command Set 2.1.4, 3.3.2.2: what is written at once is read at once, by whatever controller. */
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case.h"

enum {
        ROUNDS = 8,
        NSABP = 1 << 1, /* NSFEAT */
        MOST = 64 << 10 /* bytes of a Write */
};

/* Blocks that are written at once, from which one of the case's range on. */
struct piece {
        uint64_t slba;
        uint32_t blocks;
};

static const struct id_ns *identify_ns(struct queue *q)
{
        return identify(q->admin, CNS_NS, caps(q->t)->nsid);
}

/* Disable Normal of Write Atomicity Normal: AWUN and NAWUN say nothing then. */
static void require_normal(struct queue *q)
{
        struct reply r = finish(
            q->admin, send_cmd(q->admin, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_WRITE_ATOMICITY));

        require(q->t, r.status != NVME_SUCCESS || !(r.dw0 & 1),
                "only AWUPF counts by default (Write Atomicity Normal)");
}

static uint32_t smaller(uint64_t a, uint64_t b)
{
        return (uint32_t)(a < b ? a : b);
}

static uint32_t fitting(struct t *t)
{
        uint32_t most = smaller(own_bytes(t) / 4, MOST);

        if (caps(t)->mdts > 0)
                most = smaller(most, caps(t)->mdts);
        return most / caps(t)->block;
}

static bool fits(struct t *t, struct piece p, uint32_t pieces)
{
        return p.slba + (uint64_t)pieces * p.blocks <= own_bytes(t) / caps(t)->block;
}

/* By NAWUN or AWUN, and from a boundary (NABO, NABSN) on if there are boundaries. */
static struct piece piece_of(struct queue *q)
{
        const struct id_ns *n = identify_ns(q);
        uint32_t unit = le16_get(caps(q->t)->id.awun) + 1u, size = le16_get(n->nabsn);
        uint64_t lba = own_lba(q->t), offset = le16_get(n->nabo);
        struct piece p = { 0 };

        if (n->nsfeat & NSABP && le16_get(n->nawun))
                unit = le16_get(n->nawun) + 1u;
        p.blocks = smaller(unit, fitting(q->t));
        if (!size)
                return p;
        size++; /* 0's based */
        p.blocks = smaller(p.blocks, size);
        p.slba = lba < offset ? offset - lba : (size - (lba - offset) % size) % size;
        if (!fits(q->t, p, 3) && p.slba >= p.blocks)
                p.slba = 0; /* all before the boundary */
        return p;
}

/* AWUN holds also where a Write crosses a boundary (2.1.4.4). */
static struct piece crossing(struct queue *q, struct piece p)
{
        uint32_t unit = le16_get(caps(q->t)->id.awun) + 1u, size = le16_get(identify_ns(q)->nabsn);

        if (!size || unit < 2 || p.slba == 0)
                return (struct piece) { 0 };
        p.blocks = smaller(unit, fitting(q->t));
        p.slba -= p.blocks > p.slba ? p.slba : p.blocks / 2;
        return p;
}

static uint8_t *filled(struct t *t, uint32_t bytes, uint8_t value)
{
        uint8_t *data = t_alloc(t, bytes);

        memset(data, value, bytes);
        return data;
}

static void want_whole(struct t *t, const uint8_t *seen, uint32_t bytes, uint8_t old, uint8_t new)
{
        uint32_t same = 1;

        while (same < bytes && seen[same] == seen[0])
                same++;
        want(t, same == bytes && (seen[0] == old || seen[0] == new),
             "the blocks all as before, or all as written", "%02Xh up to byte %u, then %02Xh",
             seen[0], same, same < bytes ? seen[same] : 0);
}

/* See put_block(). */
static uint16_t send_piece(struct queue *q, struct piece p, uint32_t bytes, const uint8_t *data)
{
        return send_write(q, .slba = p.slba, .bytes = bytes, .data = data,
                          .in_capsule = caps(q->t)->in_capsule >= bytes);
}

/* Each Write is sent together with a Read on another controller, and followed by one. */
static void write_and_read(struct queue *q, struct queue *other, struct piece p)
{
        uint32_t bytes = p.blocks * caps(q->t)->block;
        uint8_t *data[2] = { filled(q->t, bytes, 0x11), filled(q->t, bytes, 0x22) };

        succeed(q, send_piece(q, p, bytes, data[1]));
        for (unsigned i = 0; i < ROUNDS; i++) {
                uint8_t *now = data[i % 2];
                uint16_t write = send_piece(q, p, bytes, now);
                uint16_t read = send_read(other, .slba = p.slba, .bytes = bytes);

                succeed(q, write);
                want_whole(q->t, succeed(other, read).data, bytes, data[0][0], data[1][0]);
                want_whole(q->t, read_blocks(other, p.slba, bytes), bytes, now[0], now[0]);
        }
}

CASE("nvm/atomic/write", MUST, RULES(NVM_ATOMIC),
     "A Write of NAWUN or AWUN blocks is seen as a whole or not at all, on another controller as "
     "well",
     .writes = true)
{
        struct queue *q = io_queue(t), *other = io_queue(t);
        struct piece p;

        require(t, caps(t)->nsid && fitting(t) > 0, "no usable namespace");
        p = piece_of(q);
        require(t, p.blocks > 1, "a single block is written at once");
        require(t, fits(t, p, 1), "too small a range");
        require_normal(q);
        write_and_read(q, other, p);
        p = crossing(q, p);
        if (p.blocks > 1)
                write_and_read(q, other, p);
}

static uint16_t send_copy(struct queue *q, uint64_t from, struct piece to)
{
        uint64_t lba = own_lba(q->t) + to.slba;
        struct copy_range *range = t_alloc(q->t, sizeof(*range));

        *range = (struct copy_range) { .slba = le64(own_lba(q->t) + from),
                                       .nlb = le16((uint16_t)(to.blocks - 1)) };
        return send_cmd(q, .opc = NVME_COPY, .nsid = caps(q->t)->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32), .bytes = sizeof(*range), .data = range,
                        .in_capsule = caps(q->t)->in_capsule >= sizeof(*range));
}

CASE("nvm/atomic/copy", MUST, RULES(NVM_ATOMIC),
     "What a Copy of NAWUN or AWUN blocks writes is seen as a whole or not at all", .writes = true)
{
        struct queue *q = io_queue(t), *other = io_queue(t);
        struct piece p;
        uint32_t bytes;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_COPY && le16_get(caps(t)->id.cdfs) & 1,
                "Copy of format 0h is not supported");
        require(t, caps(t)->nsid && fitting(t) > 0, "no usable namespace");
        p = piece_of(q);
        p.blocks = smaller(p.blocks,
                           smaller(le16_get(identify_ns(q)->mssrl), le32_get(identify_ns(q)->mcl)));
        require(t, p.blocks > 1, "a single block is copied at once");
        require(t, fits(t, p, 3), "too small a range");
        require_normal(q);
        bytes = p.blocks * caps(t)->block;
        write_blocks(q, p.slba + p.blocks, bytes, filled(t, bytes, 0x11));
        write_blocks(q, p.slba + 2 * p.blocks, bytes, filled(t, bytes, 0x22));
        write_blocks(q, p.slba, bytes, filled(t, bytes, 0x22));
        for (unsigned i = 0; i < ROUNDS; i++) {
                uint16_t copy = send_copy(q, p.slba + (1 + i % 2) * p.blocks, p);
                uint16_t read = send_read(other, .slba = p.slba, .bytes = bytes);

                succeed(q, copy);
                want_whole(t, succeed(other, read).data, bytes, 0x11, 0x22);
                want_whole(t, read_blocks(other, p.slba, bytes), bytes, i % 2 ? 0x22 : 0x11,
                           i % 2 ? 0x22 : 0x11);
        }
}
