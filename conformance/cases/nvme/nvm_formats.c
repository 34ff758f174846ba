/* SPDX-License-Identifier: BSD-3-Clause */
/* NVM Command Set 5.3.1, 4.1.2: formats that hosts have to enable (LBAFEE): a storage tag, or a guard of 32 or
 * 64 bits; of a subsystem that the run may do this to. */
#include <string.h>

#include "conformance/words/case.h"

#include "conformance/engine/suite.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/protect.h"

enum {
        ROW = 2,
        TAG = 0xa55a,
        LBA = 3, /* that the row begins at */
        STS_MASK = 0x7f,
        PIF_SHIFT = 7,
        BEHAVIOR = 512,
        LBAFEE = 2, /* byte of Host Behavior Support */
        OACS_FORMAT = 1 << 1,
        METADATA_APART = 1 << 4, /* MSET */
};

/* --- namespaces */

struct extended {
        uint32_t nsid, block, ms;
        uint64_t mask; /* LBSTM */
        unsigned index, pif;
        struct pi_format f;
};

static unsigned guard_of(unsigned pif)
{
        static const uint8_t bits[] = { 16, 32, 64, 0 };

        return bits[pif];
}

static struct extended extended_of(struct queue *q, uint32_t nsid)
{
        const struct id_ns *n = identify(q->admin, CNS_NS, nsid);
        const struct id_nvm_ns *x = identify(q->admin, CNS_IOCS_NS, nsid);
        unsigned index = id_ns_format(n), pif = le32_get(x->elbaf[index]) >> PIF_SHIFT & 3;

        return (
            struct extended) { .nsid = nsid,
                               .block = 1u << n->lbaf[index].lbads,
                               .ms = id_ns_metadata(n),
                               .mask = le64_get(x->lbstm),
                               .index = index,
                               .pif = pif,
                               .f = { .type = n->dps & 7,
                                      .guard = (uint8_t)guard_of(pif),
                                      .sts = (uint8_t)(le32_get(x->elbaf[index]) & STS_MASK) } };
}

static void enable(struct queue *q)
{
        uint8_t *behavior = t_alloc(q->t, BEHAVIOR);

        memset(behavior, 0, BEHAVIOR);
        behavior[LBAFEE] = 1;
        succeed(q->admin, send_cmd(q->admin, .opc = NVME_SET_FEATURES, .cdw10 = FEAT_HOST_BEHAVIOR,
                                   .bytes = BEHAVIOR, .data = behavior));
}

/* An I/O queue of the subsystem. */
static struct queue *formats_queue(struct t *t, bool enabled)
{
        struct queue *q;

        require(t, caps(t)->formats,
                "no subsystem with extended formats may be used (--formats-nqn)");
        require(t, !caps(t)->mdts || caps(t)->mdts >= KIB(16), "MDTS is less than 16 KiB");
        q = io_queue(t, .subnqn = caps(t)->formats);
        require(t, le32_get(identify_ctrl(q->admin)->ctratt) & CTRATT_ELBAS,
                "CTRATT.ELBAS announces no extended formats");
        if (enabled)
                enable(q);
        return q;
}

typedef bool is_wanted(const struct extended *x);

static bool is_extended(const struct extended *x)
{
        return pi_is_extended(&x->f);
}

static bool has_guard_32(const struct extended *x)
{
        return x->f.type && x->f.guard == 32;
}

static bool has_guard_64(const struct extended *x)
{
        return x->f.type && x->f.guard == 64;
}

static bool has_storage_tag(const struct extended *x)
{
        return x->f.type && x->f.guard && x->f.sts > 0;
}

static bool has_mask(const struct extended *x)
{
        return has_storage_tag(x) && x->mask & 1;
}

/* The next one from *i on in the list of namespaces; false: there is none. */
static bool next_extended(struct queue *q, unsigned *i, is_wanted *wanted, struct extended *x)
{
        const uint8_t *list = identify(q->admin, CNS_NS_LIST, 0);
        uint32_t nsid;

        while (*i < IDENTIFY_LEN / 4 && (nsid = (uint32_t)le_get(list + 4 * (*i)++, 4)) != 0) {
                const struct id_ns *n = identify(q->admin, CNS_NS, nsid);

                if (n->lbaf[id_ns_format(n)].lbads > 12 || !(n->flbas & 0x10))
                        continue;
                *x = extended_of(q, nsid);
                if (wanted(x))
                        return true;
        }
        return false;
}

/* Each namespace of the kind; skips the case where there is none. */
#define each_extended(q, wanted, x)                                                                \
        for (unsigned i_ = need_one((q), (wanted)); next_extended((q), &i_, (wanted), (x));)

static unsigned need_one(struct queue *q, is_wanted *wanted)
{
        struct extended x;
        unsigned i = 0;

        require(q->t, next_extended(q, &i, wanted, &x),
                "no namespace of the subsystem has such a format");
        return 0;
}

/* --- commands on the row */

static uint32_t unit(const struct extended *x)
{
        return x->block + x->ms;
}

struct io {
        uint8_t opc;
        uint32_t bits; /* RW_PRACT, RW_STC ... */
        uint64_t storage, ref;
        const void *data;
};
#define send_io(q, x, ...) io_send((q), (x), (struct io) { .opc = NVME_READ, ##__VA_ARGS__ })

static uint16_t io_send(struct queue *q, const struct extended *x, struct io io)
{
        unsigned bits = pi_ref_bits(&x->f);
        unsigned __int128 space = (unsigned __int128)io.storage << bits |
                                  (io.ref & (bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX));
        bool stripped = io.bits & RW_PRACT && x->ms == pi_len(&x->f);
        uint32_t bytes = io.opc & 3 ? ROW * (stripped ? x->block : unit(x)) : 0;

        return send_cmd(q, .opc = io.opc, .nsid = x->nsid, .cdw2 = (uint32_t)(space >> 64),
                        .cdw3 = (uint32_t)(space >> 32), .cdw14 = (uint32_t)space, .cdw10 = LBA,
                        .cdw12 = (ROW - 1) | io.bits, .cdw15 = 0xffff0000 | TAG, .bytes = bytes,
                        .data = io.data, .as_is = true,
                        .in_capsule = io.opc != NVME_READ && caps(q->t)->in_capsule >= bytes);
}

static const uint8_t *stored(struct queue *q, const struct extended *x)
{
        return succeed(q, send_io(q, x)).data;
}

static struct pi_wide tuple_of(const struct extended *x, const uint8_t *row, unsigned i)
{
        return pi_wide_get(&x->f, row + (i + 1) * unit(x) - pi_len(&x->f));
}

/* --- guards: figures 150 and 155 */

enum pattern { ZEROES, ONES, RISING, FALLING, PATTERNS };

static const uint8_t *patterned(struct t *t, const struct extended *x, enum pattern p)
{
        uint8_t *row = t_alloc(t, ROW * unit(x));

        memset(row, 0, ROW * unit(x));
        for (uint32_t i = 0; i < ROW * x->block; i++)
                row[i] = p == ZEROES ? 0 : p == ONES ? 0xff : (uint8_t)(p == RISING ? i : ~i);
        return row;
}

static void want_guards(struct queue *q, is_wanted *wanted, const uint64_t guards[PATTERNS])
{
        bool seen = false;
        struct extended x;

        each_extended(q, wanted, &x)
        {
                if (x.block != 4096 || x.ms != pi_len(&x.f))
                        continue;
                seen = true;
                for (enum pattern p = ZEROES; p < PATTERNS; p++) {
                        succeed(q, send_io(q, &x, .opc = NVME_WRITE, .bits = RW_PRACT, .ref = LBA,
                                           .data = patterned(q->t, &x, p)));
                        want_eq(q->t, "the guard", tuple_of(&x, stored(q, &x), 1).guard, guards[p]);
                }
        }
        require(q->t, seen,
                "no namespace of the kind has blocks of 4096 bytes and no more metadata");
}

CASE("nvm/protection/guard-32", MUST, RULES(NVM_GUARD_32),
     "A Write with PRACT stores the CRC-32C of known blocks as guard of 32 bits", .alone = true)
{
        static const uint64_t guards[PATTERNS] = { 0x98f94189, 0x25c1fe13, 0x9c71fe32, 0x214941a8 };

        want_guards(formats_queue(t, true), has_guard_32, guards);
}

CASE("nvm/protection/guard-64", MUST, RULES(NVM_GUARD_64),
     "A Write with PRACT stores the 64b CRC of known blocks as guard of 64 bits", .alone = true)
{
        static const uint64_t guards[PATTERNS] = { UINT64_C(0x6482d367eb22b64e),
                                                   UINT64_C(0xc0ddba7302eca3ac),
                                                   UINT64_C(0x3e729f5f6750449c),
                                                   UINT64_C(0x9a2df64b8e9e517e) };

        want_guards(formats_queue(t, true), has_guard_64, guards);
}

/* With every check, in all formats. */
CASE("nvm/protection/read-extended", MUST, RULES(NVM_PI_READ),
     "A Read of an extended format that has everything checked returns the right guards and tags",
     .alone = true)
{
        struct queue *q = formats_queue(t, true);
        struct extended x;

        each_extended(q, is_extended, &x)
        {
                uint32_t checks = RW_PRCHK_GUARD | (x.f.type == 3 ? 0 : RW_PRCHK_REF);
                const uint8_t *row;

                succeed(q, send_io(q, &x, .opc = NVME_WRITE, .bits = RW_PRACT, .ref = LBA,
                                   .data = patterned(t, &x, FALLING)));
                row = succeed(q, send_io(q, &x, .bits = checks, .ref = LBA)).data;
                want_bytes(t, "what is read without checks", stored(q, &x), row, ROW * unit(&x));
        }
}

/* --- tags */

static uint64_t some_tag(const struct extended *x)
{
        return UINT64_C(0x8123456789abcdef) & (UINT64_MAX >> (64 - x->f.sts));
}

CASE("nvm/protection/tag-space", MUST, RULES(NVM_PI_SPACE),
     "A Write with PRACT stores LBST in the STS first bits and rising reference tags in the others",
     .alone = true)
{
        struct queue *q = formats_queue(t, true);
        struct extended x;

        each_extended(q, has_storage_tag, &x)
        {
                const uint8_t *row;

                succeed(q,
                        send_io(q, &x, .opc = NVME_WRITE, .bits = RW_PRACT, .storage = some_tag(&x),
                                .ref = LBA, .data = patterned(t, &x, RISING)));
                row = stored(q, &x);
                for (unsigned i = 0; i < ROW; i++) {
                        struct pi_wide pi = tuple_of(&x, row, i);

                        want_eq(t, "the application tag", pi.app, TAG);
                        want_eq(t, "the storage tag", pi.storage, some_tag(&x));
                        if (x.f.type != 3 && pi_ref_bits(&x.f) > 8)
                                want_eq(t, "the reference tag", pi.ref, LBA + i);
                }
        }
}

CASE("nvm/protection/storage-tag", MUST, RULES(NVM_STORAGE_TAG),
     "A wrong storage tag fails Read and Write with its own status if STC is set, and only then",
     .alone = true)
{
        struct queue *q = formats_queue(t, true);
        struct extended x;

        each_extended(q, has_mask, &x)
        {
                uint64_t tag = some_tag(&x);
                const uint8_t *row;

                succeed(q, send_io(q, &x, .opc = NVME_WRITE, .bits = RW_PRACT, .storage = tag,
                                   .ref = LBA, .data = patterned(t, &x, RISING)));
                row = succeed(q, send_io(q, &x, .bits = RW_STC, .storage = tag, .ref = LBA)).data;
                succeed(q, send_io(q, &x, .storage = tag ^ 1, .ref = LBA));
                expect_error(q, send_io(q, &x, .bits = RW_STC, .storage = tag ^ 1, .ref = LBA),
                             NVME_STORAGE_TAG_CHECK);
                succeed(q, send_io(q, &x, .opc = NVME_WRITE, .bits = RW_STC, .storage = tag,
                                   .ref = LBA, .data = row));
                expect_error(q,
                             send_io(q, &x, .opc = NVME_WRITE, .bits = RW_STC, .storage = tag ^ 1,
                                     .ref = LBA, .data = row),
                             NVME_STORAGE_TAG_CHECK);
        }
}

/* --- hosts that have not enabled them */

CASE("nvm/protection/extended", MUST, RULES(NVM_EXTENDED),
     "Without LBAFEE, commands for blocks of an extended format fail with Invalid Namespace or "
     "Format",
     .alone = true)
{
        struct queue *q = formats_queue(t, false);
        uint16_t oncs = le16_get(identify_ctrl(q->admin)->oncs);
        struct extended x;

        each_extended(q, is_extended, &x)
        {
                const uint8_t *row = patterned(t, &x, RISING);

                expect_error(q, send_io(q, &x), NVME_INVALID_NS);
                expect_error(q, send_io(q, &x, .opc = NVME_WRITE, .data = row), NVME_INVALID_NS);
                if (oncs & ONCS_COMPARE)
                        expect_error(q, send_io(q, &x, .opc = NVME_COMPARE, .data = row),
                                     NVME_INVALID_NS);
                if (oncs & ONCS_VERIFY)
                        expect_error(q, send_io(q, &x, .opc = NVME_VERIFY), NVME_INVALID_NS);
                if (oncs & ONCS_WRITE_ZEROES)
                        expect_error(q, send_io(q, &x, .opc = NVME_WRITE_ZEROES), NVME_INVALID_NS);
        }
        enable(q);
        each_extended(q, is_extended, &x) succeed(q, send_io(q, &x));
}

/* --- Format NVM */

static uint16_t send_format(struct queue *q, const struct extended *x, unsigned index)
{
        return send_cmd(q->admin, .opc = NVME_FORMAT, .nsid = x->nsid,
                        .cdw10 = (index & 15) | (index >> 4) << 12 | (uint32_t)x->f.type << 5 |
                                 METADATA_APART);
}

static struct queue *formatting_queue(struct t *t, bool enabled)
{
        struct queue *q = formats_queue(t, enabled);

        require(t, le16_get(identify_ctrl(q->admin)->oacs) & OACS_FORMAT,
                "OACS announces no Format NVM");
        return q;
}

/* A format of the namespace other than its own, with a storage tag; -1: there is none. */
static int other_tagged(struct queue *q, const struct extended *x)
{
        const struct id_ns *n = identify(q->admin, CNS_NS, x->nsid);
        const struct id_nvm_ns *e = identify(q->admin, CNS_IOCS_NS, x->nsid);

        for (int i = 0; i <= n->nlbaf && i < 16; i++)
                if ((unsigned)i != x->index && le32_get(e->elbaf[i]) & STS_MASK)
                        return i;
        return -1;
}

static bool is_any(const struct extended *x)
{
        (void)x;
        return true;
}

/* Formatting to one's own format destroys the data alone. */
CASE("nvm/format/extended", MUST, RULES(FORMAT_EXTENDED),
     "Without LBAFEE, Format NVM from or to an extended format fails with Invalid Namespace or "
     "Format",
     .alone = true)
{
        struct queue *q = formatting_queue(t, false);
        struct extended x;

        each_extended(q, is_extended, &x)
            expect_error(q->admin, send_format(q, &x, x.index), NVME_INVALID_NS);
        each_extended(q, is_any, &x)
        {
                int other = other_tagged(q, &x);

                if (other >= 0)
                        expect_error(q->admin, send_format(q, &x, (unsigned)other),
                                     NVME_INVALID_NS);
        }
}

CASE("nvm/format/storage-tag", MUST, RULES(FORMAT_STORAGE_TAG),
     "Format NVM to another format with a storage tag fails with Invalid Namespace or Format",
     .alone = true)
{
        struct queue *q = formatting_queue(t, true);
        struct extended x;
        bool tried = false;

        each_extended(q, is_any, &x)
        {
                int other = other_tagged(q, &x);

                if (other < 0)
                        continue;
                tried = true;
                expect_error(q->admin, send_format(q, &x, (unsigned)other), NVME_INVALID_NS);
                want_eq(t, "the format", extended_of(q, x.nsid).index, x.index);
        }
        require(t, tried, "no namespace lists another format with a storage tag");
}
