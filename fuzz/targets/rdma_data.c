/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the data of an RDMA command capsule is described: in the capsule, by one key, by a list.
 *
 * Input: bits (1 byte), ICDOFF (2), in-capsule bytes (4), MSDBD (1), what the command transfers (4),
 * the capsule.
 */
#include "fuzz/fuzz.h"
#include "pdu/nvme/wire/rdma.h"

static void check_within(const struct rdma_data *d, uint32_t len)
{
        uint64_t sum = 0;

        must(d->count <= RDMA_DESCRIPTORS);
        must(!d->in_capsule || (uint64_t)d->offset + d->len <= len);
        for (unsigned i = 0; i < d->count; i++)
                sum += d->keyed[i].len;
        must(d->in_capsule || d->count == 0 || sum == d->len);
        must(!d->invalidate || d->count > 0);
}

static bool all_zero(const struct rdma_data *d)
{
        return !d->in_capsule && d->offset == 0 && d->len == 0 && d->count == 0 && !d->invalidate &&
               d->invalidate_key == 0;
}

/* What is read of a keyed descriptor and written again is the same. */
static void check_keyed(const uint8_t *capsule, size_t n)
{
        struct rdma_buffer b, again;
        struct sgl s, copy = { 0 };

        if (n < sizeof(union sqe))
                return;
        memcpy(&s, capsule + offsetof(union sqe, sgl), sizeof(s));
        if (!sgl_get_keyed(&s, &b))
                return;
        sgl_put_keyed(&copy, &b);
        must(sgl_get_keyed(&copy, &again));
        must(again.addr == b.addr && again.len == b.len && again.key == b.key);
        must(again.invalidate == b.invalidate);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);
        unsigned bits = bytes_u8(&b);
        struct rdma_format format = { .admin = bits & 1, .icdoff = bytes_u16(&b) };
        enum nvme_xfer xfer = bits & 2 ? XFER_H2C : bits & 4 ? XFER_C2H : XFER_NONE;
        struct rdma_data data, waived;
        struct fault fault;
        uint32_t needs, len;

        format.in_capsule = bytes_u32(&b);
        format.msdbd = bytes_u8(&b);
        needs = bytes_u32(&b);
        len = (uint32_t)b.left;
        (void)rdma_capsule_max(&format);
        fault = rdma_data_read(b.p, len, &format, xfer, needs, NULL, &data);
        must(is_fault(fault) == (len < sizeof(union sqe)) || is_fault(fault));
        if (is_fault(fault))
                must(all_zero(&data));
        check_within(&data, len);
        must(is_fault(fault) || xfer == XFER_NONE || data.len >= needs);
        fault = rdma_data_read(b.p, len, &format, xfer, needs, fuzz_all_rules(), &waived);
        must(!is_fault(fault) || fault.rule == RDMA_CMD_SHORT);
        check_within(&waived, len);
        check_keyed(b.p, b.left);
        return 0;
}
