/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tracker of NVMe/RDMA: connection management, capsules, READs and WRITEs in any order.
 *
 * Input: bits (1 byte), the allocation that fails (1); then steps: what (1), its numbers, bytes.
 */
#include "pdu/nvme/rdma/rdma_track.h"
#include "fuzz/fuzz.h"

enum { BIT_PASSIVE = 1, BIT_WAIVED = 2, BIT_MID_STREAM = 4 };
enum step { REQUEST, ACCEPT, REJECT, COMMAND, RESPONSE, READ, WRITE, READS, CLOSED, FORMAT, STEPS };

/* len bytes (the first byte of the step says how many) of the input. */
static const uint8_t *next_bytes(struct fuzz_input *b, size_t *len, size_t max)
{
        const uint8_t *p;

        *len = bytes_u8(b) % (max + 1);
        *len = *len < b->left ? *len : b->left;
        p = b->p;
        b->p += *len;
        b->left -= *len;
        return p;
}

static const struct rule_set *connects(struct rdma_track *t, struct fuzz_input *b, enum step what)
{
        uint8_t in = bytes_u8(b), out = bytes_u8(b);
        size_t len;
        const uint8_t *p = next_bytes(b, &len, 196);

        if (what == REQUEST)
                return rdma_track_request(t, p, len, in, out);
        if (what == ACCEPT)
                return rdma_track_accept(t, p, len, in, out);
        return rdma_track_reject(t, p, len);
}

static const struct rule_set *moves(struct rdma_track *t, struct fuzz_input *b, enum step what)
{
        enum party sender = bytes_u8(b) & 1 ? PARTY_HOST : PARTY_CONTROLLER;
        uint64_t addr = bytes_u16(b);
        uint32_t key = bytes_u8(b), len = bytes_u16(b);

        if (what == READ)
                return rdma_track_read(t, sender, addr, key, len);
        return rdma_track_write(t, sender, addr, key, len);
}

static const struct rule_set *track_step(struct rdma_track *t, struct fuzz_input *b, enum step what)
{
        size_t len;
        const uint8_t *p = next_bytes(b, &len, 255);
        uint8_t invalidates = bytes_u8(b);

        if (what == COMMAND)
                return rdma_track_command(t, p, (uint32_t)len);
        return rdma_track_response(t, p, (uint32_t)len, invalidates & 1, invalidates >> 1);
}

static const struct rule_set *one_step(struct rdma_track *t, struct fuzz_input *b)
{
        enum step what = bytes_u8(b) % STEPS;

        switch (what) {
        case REQUEST:
        case ACCEPT:
        case REJECT:
                return connects(t, b, what);
        case COMMAND:
        case RESPONSE:
                return track_step(t, b, what);
        case READ:
        case WRITE:
                return moves(t, b, what);
        case READS:
                return rdma_track_reads(t, bytes_u8(b));
        case CLOSED:
                rdma_track_closed(t, bytes_u8(b) & 1 ? PARTY_HOST : PARTY_CONTROLLER);
                break;
        case FORMAT:
                rdma_track_format(t, bytes_u16(b), bytes_u8(b), bytes_u8(b));
                break;
        case STEPS:
                break;
        }
        return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);
        unsigned bits = bytes_u8(&b);
        const struct rule_set *waived = bits & BIT_WAIVED ? fuzz_all_rules() : NULL, *found;
        struct rdma_track *t;

        fuzz_scarce(bytes_u8(&b) % 16);
        t = rdma_track_new(64, bits & BIT_PASSIVE, waived);
        if (t && (bits & BIT_MID_STREAM))
                rdma_track_mid_stream(t);
        while (t && b.left > 0) {
                found = one_step(t, &b);
                must(!rule_in(found, RULE_NONE));
                must(!found || !waived || rule_set_empty(found));
                if (rdma_track_last(t))
                        must(rdma_track_last(t)->data.count <= RDMA_DESCRIPTORS);
        }
        if (t)
                rdma_track_free(t);
        fuzz_scarce(0);
        return 0;
}
