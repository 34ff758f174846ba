/* SPDX-License-Identifier: BSD-3-Clause */
#include "protect.h"

#include "pdu/core/be.h"

enum {
        ACT = 1 << 3, /* PRINFO */
        GUARD = 1 << 2,
        APP = 1 << 1,
        REF = 1 << 0,
        STCR = 1 << 25, /* of Copy: STC of its read portion */
        ELBT_WIDE =
            26, /* in a range with a wider guard: 10 bytes, then the application tag, its mask */
        ELBAT_WIDE = 36,
};

/* The storage and reference space holds both tags, the storage tag first (5.3.1.4). */
typedef unsigned __int128 pi_space;

/* --- what commands ask for */

static struct pi_use use_of(const struct pi_format *f, uint32_t prinfo, pi_space space,
                            uint32_t tags)
{
        return (struct pi_use) { .act = prinfo & ACT,
                                 .guard = prinfo & GUARD,
                                 .app = prinfo & APP,
                                 .ref = prinfo & REF,
                                 .tag = (uint16_t)tags,
                                 .mask = (uint16_t)(tags >> 16),
                                 .first = (uint64_t)space & pi_ref_mask(f),
                                 .storage =
                                     (uint64_t)(space >> pi_ref_bits(f)) & pi_storage_mask(f) };
}

struct pi_use pi_use_of(const union sqe *s, const struct pi_format *f)
{
        uint32_t cdw12 = le32_get(s->cdw12);
        pi_space space = (pi_space)(le32_get(s->cdw2) & 0xffff) << 64 |
                         (uint64_t)le32_get(s->cdw3) << 32 | le32_get(s->cdw14);
        struct pi_use u = use_of(f, cdw12 >> RW_PRINFO_SHIFT, space, le32_get(s->cdw15));

        u.stc = cdw12 & RW_STC;
        return u;
}

struct pi_use pi_use_of_range(const union sqe *s, const void *range, const struct pi_format *f)
{
        const struct copy_range *r = range;
        const uint8_t *wide = range;
        uint32_t cdw12 = le32_get(s->cdw12), prinfo = cdw12 >> COPY_PRINFOR_SHIFT;
        struct pi_use u = f->guard > 16
                              ? use_of(f, prinfo,
                                       (pi_space)be_get(wide + ELBT_WIDE, 2) << 64 |
                                           be_get(wide + ELBT_WIDE + 2, 8),
                                       (uint32_t)le_get(wide + ELBAT_WIDE, 4))
                              : use_of(f, prinfo, le32_get(r->elbt),
                                       le16_get(r->elbat) | (uint32_t)le16_get(r->elbatm) << 16);

        u.stc = cdw12 & STCR;
        return u;
}

/* --- checks */

/* The host says the address in type 1 itself, where it has it checked. */
uint16_t pi_admit(const struct pi_use *u, const struct pi_format *f, uint64_t slba)
{
        return f->type == 1 && u->ref && (u->first ^ slba) & pi_ref_mask(f)
                   ? NVME_INVALID_PROTECTION
                   : NVME_SUCCESS;
}
