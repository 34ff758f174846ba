/* SPDX-License-Identifier: BSD-3-Clause */
#include "protect.h"

#include "crc16.h"
#include "crc32c.h"
#include "crc64.h"

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

uint64_t pi_ref_mask(const struct pi_format *f)
{
        return low(pi_ref_bits(f));
}

uint64_t pi_storage_mask(const struct pi_format *f)
{
        return low(f->sts);
}

uint64_t pi_crc(const struct pi_format *f, uint64_t crc, const void *bytes, size_t len)
{
        if (f->guard == 64)
                return crc64_more(crc, bytes, len);
        return f->guard == 32 ? crc32c_more((uint32_t)crc, bytes, len)
                              : crc16_more((uint16_t)crc, bytes, len);
}

static pi_space be_space(const uint8_t *p, unsigned len)
{
        pi_space v = 0;

        while (len-- > 0)
                v = v << 8 | *p++;
        return v;
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
                                  .storage =
                                      (uint64_t)(space >> pi_ref_bits(f)) & pi_storage_mask(f),
                                  .ref = (uint64_t)space & pi_ref_mask(f) };
}

static void put(uint8_t *p, unsigned len, pi_space v)
{
        for (; len > 0; v >>= 8)
                p[--len] = (uint8_t)v;
}

void pi_wide_put(const struct pi_format *f, uint8_t *tuple, const struct pi_wide *pi)
{
        unsigned n = bytes_of_guard(f);
        pi_space space = (pi_space)pi->storage << pi_ref_bits(f) | (pi->ref & pi_ref_mask(f));

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

/* Nothing is to be checked of it, whatever PRCHK says. */
static bool is_exempt(const struct pi_wide *pi, const struct pi_format *f)
{
        return pi->app == PI_NO_CHECK && (f->type != 3 || pi->ref == pi_ref_mask(f));
}

enum pi_result pi_check(const struct pi_use *u, const struct pi_format *f, const uint8_t *tuple,
                        uint32_t i, uint64_t crc)
{
        struct pi_wide pi = pi_wide_get(f, tuple);

        if (is_exempt(&pi, f) && !u->strict)
                return PI_RIGHT;
        if (u->guard && pi.guard != (crc ^ u->odd))
                return PI_GUARD_WRONG;
        if (u->app && (pi.app ^ u->tag) & u->mask)
                return PI_APP_WRONG;
        if (u->stc && pi.storage != u->storage)
                return PI_STORAGE_WRONG;
        return u->ref && f->type != 3 && (pi.ref ^ (u->first + i)) & pi_ref_mask(f) ? PI_REF_WRONG
                                                                                    : PI_RIGHT;
}
