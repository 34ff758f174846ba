/* SPDX-License-Identifier: BSD-3-Clause */
#include "protect.h"

#include "pdu/core/be.h"
#include "pdu/core/crc16.h"
#include "pdu/core/crc32c.h"
#include "pdu/core/crc64.h"

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

/* --- formats */

/* The storage and reference space holds both tags, the storage tag first (5.3.1.4). */
typedef unsigned __int128 pi_space;

static unsigned space_bits(const struct pi_format *f)
{
        return f->guard == 64 ? 48 : f->guard == 32 ? 80 : 32;
}

bool pi_is_format(const struct pi_format *f)
{
        unsigned least = f->guard == 32 ? 16 : 0, most = f->guard == 32 ? 64 : space_bits(f);

        return f->type <= PI_TYPES && (f->guard == 16 || f->guard == 32 || f->guard == 64) &&
               f->sts >= least && f->sts <= most;
}

unsigned pi_ref_bits(const struct pi_format *f)
{
        return space_bits(f) - f->sts;
}

static uint64_t low(unsigned bits)
{
        return bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
}

static uint64_t ref_of(const struct pi_format *f, pi_space space)
{
        return (uint64_t)space & low(pi_ref_bits(f));
}

static uint64_t storage_of(const struct pi_format *f, pi_space space)
{
        return (uint64_t)(space >> pi_ref_bits(f)) & low(f->sts);
}

uint64_t pi_crc(const struct pi_format *f, uint64_t crc, const void *bytes, size_t len)
{
        if (f->guard == 64)
                return crc64_more(crc, bytes, len);
        return f->guard == 32 ? crc32c_more((uint32_t)crc, bytes, len)
                              : crc16_more((uint16_t)crc, bytes, len);
}

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
                                 .first = ref_of(f, space),
                                 .storage = storage_of(f, space) };
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

static pi_space be_space(const uint8_t *p, unsigned len)
{
        pi_space v = 0;

        while (len-- > 0)
                v = v << 8 | *p++;
        return v;
}

struct pi_use pi_use_of_range(const union sqe *s, const void *range, const struct pi_format *f)
{
        const struct copy_range *r = range;
        const uint8_t *wide = range;
        uint32_t cdw12 = le32_get(s->cdw12), prinfo = cdw12 >> COPY_PRINFOR_SHIFT;
        struct pi_use u = f->guard > 16
                              ? use_of(f, prinfo, be_space(wide + ELBT_WIDE, 10),
                                       (uint32_t)le_get(wide + ELBAT_WIDE, 4))
                              : use_of(f, prinfo, le32_get(r->elbt),
                                       le16_get(r->elbat) | (uint32_t)le16_get(r->elbatm) << 16);

        u.stc = cdw12 & STCR;
        return u;
}

/* --- tuples */

static unsigned bytes_of_guard(const struct pi_format *f)
{
        return f->guard / 8u;
}

struct pi_wide pi_wide_get(const struct pi_format *f, const uint8_t *tuple)
{
        unsigned n = bytes_of_guard(f);
        pi_space space = be_space(tuple + n + 2, space_bits(f) / 8);

        return (struct pi_wide) { .guard = (uint64_t)be_space(tuple, n),
                                  .app = (uint16_t)be_space(tuple + n, 2),
                                  .storage = storage_of(f, space),
                                  .ref = ref_of(f, space) };
}

static void put(uint8_t *p, unsigned len, pi_space v)
{
        for (; len > 0; v >>= 8)
                p[--len] = (uint8_t)v;
}

void pi_wide_put(const struct pi_format *f, uint8_t *tuple, const struct pi_wide *pi)
{
        unsigned n = bytes_of_guard(f);
        pi_space space = (pi_space)pi->storage << pi_ref_bits(f) | (pi->ref & low(pi_ref_bits(f)));

        put(tuple, n, pi->guard);
        put(tuple + n, 2, pi->app);
        put(tuple + n + 2, space_bits(f) / 8, space);
}

static const struct pi_format plain = { .type = 1, .guard = 16 };

struct pi pi_get(const uint8_t tuple[PI_LEN])
{
        struct pi_wide pi = pi_wide_get(&plain, tuple);

        return (struct pi) { (uint16_t)pi.guard, pi.app, (uint32_t)pi.ref };
}

void pi_put(uint8_t tuple[PI_LEN], struct pi pi)
{
        pi_wide_put(&plain, tuple,
                    &(struct pi_wide) { .guard = pi.guard, .app = pi.app, .ref = pi.ref });
}

void pi_make(const struct pi_format *f, const struct pi_use *u, uint32_t i, uint64_t crc,
             uint8_t *tuple)
{
        pi_wide_put(
            f, tuple,
            &(struct pi_wide) {
                .guard = crc ^ u->odd, .app = u->tag, .storage = u->storage, .ref = u->first + i });
}

/* --- checks */

/* The host says the address in type 1 itself, where it has it checked. */
uint16_t pi_admit(const struct pi_use *u, const struct pi_format *f, uint64_t slba)
{
        return f->type == 1 && u->ref && (u->first ^ slba) & low(pi_ref_bits(f))
                   ? NVME_INVALID_PROTECTION
                   : NVME_SUCCESS;
}

/* Nothing is to be checked of it, whatever PRCHK says. */
static bool is_exempt(const struct pi_wide *pi, const struct pi_format *f)
{
        return pi->app == PI_NO_CHECK && (f->type != 3 || pi->ref == low(pi_ref_bits(f)));
}

uint16_t pi_check(const struct pi_use *u, const struct pi_format *f, const uint8_t *tuple,
                  uint32_t i, uint64_t crc)
{
        struct pi_wide pi = pi_wide_get(f, tuple);

        if (is_exempt(&pi, f) && !u->strict)
                return NVME_SUCCESS;
        if (u->guard && pi.guard != (crc ^ u->odd))
                return NVME_GUARD_CHECK;
        if (u->app && (pi.app ^ u->tag) & u->mask)
                return NVME_APP_TAG_CHECK;
        if (u->stc && pi.storage != u->storage)
                return NVME_STORAGE_TAG_CHECK;
        return u->ref && f->type != 3 && (pi.ref ^ (u->first + i)) & low(pi_ref_bits(f))
                   ? NVME_REF_TAG_CHECK
                   : NVME_SUCCESS;
}
