/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection information of a block: what is made for a command passes its own checks, and a tuple
 * differs from what is expected exactly where an error says so.
 *
 * Input: type and guard (1 byte), the block's place in the command (1), 2 bytes of its guard, SLBA (4), an
 * SQE, a source range of Copy, 8 bytes of the tuple; then the storage tag's bits (1), the other bytes of
 * the guard (6), of the range (8) and of the tuple (8).
 */
#include "pdu/nvme/wire/protect.h"
#include "fuzz/fuzz.h"

enum { RANGE = 40 };

struct block {
        struct pi_format format;
        uint32_t i;
        uint64_t crc;
        uint64_t slba;
};

/* Numbers of so many bits. */
static uint64_t low(uint64_t v, unsigned bits)
{
        return bits < 64 ? v & ((UINT64_C(1) << bits) - 1) : v;
}

static void check_made(const struct pi_use *u, const struct block *b)
{
        uint8_t tuple[PI_LEN_WIDE], again[PI_LEN_WIDE] = { 0 };
        struct pi_wide made;

        pi_make(&b->format, u, b->i, b->crc, tuple);
        made = pi_wide_get(&b->format, tuple);
        pi_wide_put(&b->format, again, &made);
        must(memcmp(tuple, again, pi_len(&b->format)) == 0);
        must(pi_check(u, &b->format, tuple, b->i, b->crc) == PI_RIGHT);
}

static void check_tuple(const struct pi_use *u, const struct block *b, const uint8_t *tuple)
{
        enum pi_result result = pi_check(u, &b->format, tuple, b->i, b->crc);
        struct pi_wide pi = pi_wide_get(&b->format, tuple);
        unsigned bits = pi_ref_bits(&b->format);

        must(result != PI_GUARD_WRONG || (u->guard && pi.guard != b->crc));
        must(result != PI_APP_WRONG || (u->app && pi.app != u->tag));
        must(result != PI_STORAGE_WRONG || (u->stc && pi.storage != u->storage));
        must(result != PI_REF_WRONG || (u->ref && pi.ref != low(u->first + b->i, bits)));
        must(u->guard || u->app || u->ref || u->stc || result == PI_RIGHT);
        must(pi_needs_crc(u) || result == pi_check(u, &b->format, tuple, b->i, ~b->crc));
}

/* A guard in two parts is that of the whole. */
static void check_guard(const struct pi_format *f, const uint8_t *p, size_t n)
{
        uint64_t whole = pi_crc(f, 0, p, n), half = pi_crc(f, 0, p, n / 2);

        must(whole == low(whole, f->guard));
        must(pi_crc(f, half, p + n / 2, n - n / 2) == whole);
}

/* Of a 16b guard without storage tag, all 8 bytes are one of three fields. */
static void check_plain(const uint8_t *tuple)
{
        uint8_t again[PI_LEN];

        pi_put(again, pi_get(tuple));
        must(memcmp(tuple, again, sizeof(again)) == 0);
}

static void check_use(struct pi_use u, const struct block *b, const uint8_t *tuple)
{
        must(pi_admit(&u, &b->format, b->slba) == NVME_SUCCESS || (u.ref && u.first != b->slba));
        for (int strict = 0; strict < 2; strict++) {
                u.strict = strict;
                check_made(&u, b);
                check_tuple(&u, b, tuple);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static const uint8_t guards[] = { 16, 32, 64, 16 };
        struct fuzz_input b = bytes_of(input, size);
        unsigned kind = bytes_u8(&b);
        struct block block = { .format = { .type = kind % (PI_TYPES + 1),
                                           .guard = guards[kind / (PI_TYPES + 1) % 4] },
                               .i = bytes_u8(&b) };
        uint8_t range[RANGE], tuple[PI_LEN_WIDE];
        union sqe sqe;

        block.crc = bytes_u16(&b);
        block.slba = bytes_u32(&b);
        bytes_copy(&b, &sqe, sizeof(sqe));
        bytes_copy(&b, range, sizeof(struct copy_range));
        bytes_copy(&b, tuple, PI_LEN);
        block.format.sts = bytes_u8(&b);
        block.crc = low(block.crc | (uint64_t)bytes_u16(&b) << 16 | (uint64_t)bytes_u32(&b) << 32,
                        block.format.guard);
        bytes_copy(&b, range + sizeof(struct copy_range), RANGE - sizeof(struct copy_range));
        bytes_copy(&b, tuple + PI_LEN, PI_LEN_WIDE - PI_LEN);
        check_plain(tuple);
        if (!pi_is_format(&block.format))
                return 0;
        check_guard(&block.format, input, size);
        check_use(pi_use_of(&sqe, &block.format), &block, tuple);
        check_use(pi_use_of_range(&sqe, range, &block.format), &block, tuple);
        return 0;
}
