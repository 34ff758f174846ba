/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metadata, and the protection information in its last 8 bytes (NVM Command Set 1.2, 5.2.3 and 5.3).
 *
 * It lies in the same storage, after all blocks. Protection information is stored inverted: what was
 * never written, or was given back, is zeroes and so reads as FFh, which 3.3.3.2.1 asks for.
 */
#include <string.h>

#include "ns_backend.h"

static uint32_t block_of(const struct ns *ns)
{
        return 1u << ns->lbads;
}

static uint8_t *tuple_of(const struct ns *ns, uint8_t *meta)
{
        return meta + ns->ms - ns_pi_len(ns);
}

static uint64_t place_of(const struct ns *ns, uint64_t lba)
{
        return ns->meta + lba * ns->ms;
}

static void invert(const struct ns *ns, uint8_t *meta)
{
        for (unsigned i = 0; i < ns_pi_len(ns) && ns->pi; i++)
                tuple_of(ns, meta)[i] ^= 0xff;
}

static enum ns_result load(struct ns *ns, uint64_t lba, uint8_t *meta)
{
        enum ns_result result = ns->ops->read(ns, place_of(ns, lba), ns->ms, meta);

        invert(ns, meta);
        return result;
}

static enum ns_result store(struct ns *ns, uint64_t lba, uint8_t *meta)
{
        invert(ns, meta);
        return ns->ops->write(ns, place_of(ns, lba), ns->ms, meta);
}

static uint64_t crc_of(const struct ns *ns, const uint8_t *block, const uint8_t *meta)
{
        const struct pi_format f = ns_pi(ns);

        return pi_crc(&f, pi_crc(&f, 0, block, block_of(ns)), meta, ns->ms - ns_pi_len(ns));
}

/* Block i of a command. */
static enum ns_result check(const struct ns *ns, const struct pi_use *pi, uint32_t i,
                            const uint8_t *block, const uint8_t *meta)
{
        const struct pi_format f = ns_pi(ns);
        enum pi_result found;

        if (!pi || !ns->pi)
                return NS_DONE;
        found = pi_check(pi, &f, meta + ns->ms - ns_pi_len(ns), i,
                         pi_needs_crc(pi) ? crc_of(ns, block, meta) : 0);
        return found == PI_RIGHT ? NS_DONE
                                 : (enum ns_result)(NS_GUARD_WRONG + (found - PI_GUARD_WRONG));
}

enum ns_result meta_read(struct ns *ns, uint64_t lba, uint32_t count, uint8_t *out,
                         const struct pi_use *pi)
{
        uint32_t block = block_of(ns), unit = ns_unit(ns, pi && pi->act);
        enum ns_result result = NS_DONE;

        for (uint32_t i = 0; i < count && !result; i++, out += unit) {
                uint8_t meta[NS_METADATA_MAX];

                result = ns->ops->read(ns, (lba + i) << ns->lbads, block, out);
                if (!result)
                        result = load(ns, lba + i, meta);
                if (!result)
                        result = check(ns, pi, i, out, meta);
                if (unit > block)
                        memcpy(out + block, meta, ns->ms);
        }
        return result;
}

/* Nothing is written unless all is right. */
static enum ns_result check_all(const struct ns *ns, uint32_t count, const uint8_t *in,
                                const struct pi_use *pi)
{
        uint32_t block = block_of(ns), unit = ns_unit(ns, false);
        enum ns_result result = NS_DONE;

        for (uint32_t i = 0; i < count && !result; i++, in += unit)
                result = check(ns, pi, i, in, in + block);
        return result;
}

enum ns_result meta_write(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *in,
                          const struct pi_use *pi)
{
        const struct pi_format f = ns_pi(ns);
        bool act = ns->pi && pi && pi->act;
        uint32_t block = block_of(ns), unit = ns_unit(ns, act);
        enum ns_result result = act ? NS_DONE : check_all(ns, count, in, pi);

        for (uint32_t i = 0; i < count && !result; i++, in += unit) {
                uint8_t meta[NS_METADATA_MAX] = { 0 };

                if (unit > block)
                        memcpy(meta, in + block, ns->ms);
                if (act)
                        pi_make(&f, pi, i, crc_of(ns, in, meta), tuple_of(ns, meta));
                result = ns->ops->write(ns, (lba + i) << ns->lbads, block, in);
                if (!result)
                        result = store(ns, lba + i, meta);
        }
        return result;
}

/* Protection information is checked, and not compared (3.3.1). */
static bool is_equal(const struct ns *ns, const uint8_t *cmp, const uint8_t *block,
                     const uint8_t *meta)
{
        return memcmp(cmp, block, block_of(ns)) == 0 &&
               memcmp(cmp + block_of(ns), meta, ns->ms - (ns->pi ? ns_pi_len(ns) : 0)) == 0;
}

enum ns_result meta_compare(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *cmp,
                            const struct pi_use *pi)
{
        enum ns_result result = cmp ? check_all(ns, count, cmp, pi) : NS_DONE;
        uint8_t block[NS_BLOCK_MAX], meta[NS_METADATA_MAX];

        for (uint32_t i = 0; i < count && !result; i++) {
                result = ns->ops->read(ns, (lba + i) << ns->lbads, block_of(ns), block);
                if (!result)
                        result = load(ns, lba + i, meta);
                if (!result)
                        result = check(ns, pi, i, block, meta);
                if (!result && cmp &&
                    !is_equal(ns, cmp + (size_t)i * ns_unit(ns, false), block, meta))
                        result = NS_DIFFERS;
        }
        return result;
}

/* Of blocks of zeroes: as 3.3.8 has it with PRACT, or zeroes as well. */
enum ns_result meta_zero(struct ns *ns, uint64_t lba, uint64_t count, bool deallocate,
                         const struct pi_use *pi)
{
        static const uint8_t zeroes[NS_BLOCK_MAX + NS_METADATA_MAX];
        const struct pi_format f = ns_pi(ns);
        bool act = ns->pi && pi && pi->act;
        uint64_t crc = act ? crc_of(ns, zeroes, zeroes) : 0;
        enum ns_result result = NS_DONE;

        if (!ns->pi || deallocate)
                return ns->ops->zero(ns, place_of(ns, lba), count * ns->ms, deallocate);
        for (uint64_t i = 0; i < count && !result; i++) {
                uint8_t meta[NS_METADATA_MAX] = { 0 };

                if (act)
                        pi_make(&f, pi, (uint32_t)i, crc, tuple_of(ns, meta));
                result = store(ns, lba + i, meta);
        }
        return result;
}
