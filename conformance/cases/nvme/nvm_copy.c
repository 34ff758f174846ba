/* SPDX-License-Identifier: BSD-3-Clause */
/* NVM Command Set 3.3.2: Copy, within a namespace and from others. */
#include <string.h>

#include "conformance/words/case.h"

#include "conformance/engine/suite.h"
#include "pdu/core/crc16.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/protect.h"

enum {
        TAG = 0xa55a,
        FORMAT_2 = 2 << 8, /* cdw12 */
        PRACT_READ = 1 << 15,
        PROTECTED = 0xe, /* types of protection information */
        FAST_ONLY = 0x80,
        LIST = 64 /* namespaces that are looked at */
};

/* --- within a namespace */

static const struct id_ns *identify_ns(struct queue *q)
{
        return identify(q->admin, CNS_NS, caps(q->t)->nsid);
}

static const struct id_ns *copying(struct queue *q)
{
        require(q->t, le16_get(caps(q->t)->id.oncs) & ONCS_COPY, "Copy is not supported");
        require(q->t, le16_get(caps(q->t)->id.cdfs) & 1, "Copy does not support format 0h");
        require(q->t, caps(q->t)->nsid, "the subsystem has no namespace");
        return identify(q->admin, CNS_NS, caps(q->t)->nsid);
}

struct copy {
        uint32_t nsid; /* 0: the namespace that is tested */
        uint64_t to;   /* a block of the case's range */
        uint32_t cdw2, cdw3, cdw12, cdw14, cdw15;
        unsigned count; /* of ranges; 0: one */
        uint32_t size;  /* bytes of one; 0: 32 */
};
#define send_copy_as(q, range, ...) copy_send((q), (range), (struct copy) { __VA_ARGS__ })

static uint16_t copy_send(struct queue *q, const void *range, struct copy c)
{
        uint64_t lba = own_lba(q->t) + c.to;
        uint32_t count = c.count ? c.count : 1;
        uint32_t bytes = count * (c.size ? c.size : (uint32_t)sizeof(struct copy_range));

        return send_cmd(q, .opc = NVME_COPY, .nsid = c.nsid ? c.nsid : caps(q->t)->nsid,
                        .cdw2 = c.cdw2, .cdw3 = c.cdw3, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32), .cdw12 = c.cdw12 | (count - 1),
                        .cdw14 = c.cdw14, .cdw15 = c.cdw15, .bytes = bytes, .data = range,
                        .as_is = true, .in_capsule = caps(q->t)->in_capsule >= bytes);
}

/* Of `count` ranges, to a block of the case's range; format 0h and more bits of dword 12. */
static uint16_t send_copy(struct queue *q, const struct copy_range *range, unsigned count,
                          uint64_t to, uint32_t cdw12)
{
        uint64_t lba = own_lba(q->t) + to;
        uint32_t bytes = count * (uint32_t)sizeof(*range);

        return send_cmd(q, .opc = NVME_COPY, .nsid = caps(q->t)->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32), .cdw12 = cdw12 | (count - 1),
                        .bytes = bytes, .data = range,
                        .in_capsule = caps(q->t)->in_capsule >= bytes);
}

static struct copy_range blocks_from(struct t *t, uint64_t slba, uint32_t blocks)
{
        return (struct copy_range) { .slba = le64(own_lba(t) + slba),
                                     .nlb = le16((uint16_t)(blocks - 1)) };
}

CASE(
    "nvm/copy/ranges", MUST, RULES(NVM_COPY),
    "Copy of two source ranges, or of one of two blocks, writes their blocks in that order, and no "
    "others",
    .writes = true)
{
        struct queue *q = io_queue(t);
        const struct id_ns *ns = copying(q);
        struct copy_range range[2] = { blocks_from(t, 1, 1), blocks_from(t, 0, 1) };
        uint32_t block = caps(t)->block;
        const uint8_t *data = write_six(q);

        require(t, ns->msrc > 0 && le32_get(ns->mcl) > 1, "Copy takes a single range or block");
        succeed(q, send_copy(q, range, 2, 3, 0));
        want_block(q, 3, data + block);
        want_block(q, 4, data);
        for (unsigned i = 0; i < SIX; i++)
                if (i != 3 && i != 4)
                        want_block(q, i, data + i * block);
        if (le16_get(ns->mssrl) < 2)
                return;
        range[0] = blocks_from(t, 1, 2);
        succeed(q, send_copy(q, range, 1, 3, 0));
        want_block(q, 3, data + block);
        want_block(q, 4, data + 2 * block);
        want_block(q, 5, data + 5 * block);
}

/* Blocks of one Write or Read, a few KiB. */
static uint32_t at_once(struct t *t)
{
        uint32_t most = caps(t)->mdts && caps(t)->mdts < KIB(16) ? caps(t)->mdts : KIB(16);

        return most > caps(t)->block ? most / caps(t)->block : 1;
}

/* As many as the limits allow, from the first half of the case's range: how many ranges. */
static unsigned largest(struct t *t, const struct id_ns *ns, struct copy_range *range,
                        uint32_t *blocks)
{
        uint32_t mssrl = le16_get(ns->mssrl), mcl = le32_get(ns->mcl);
        uint32_t room = own_bytes(t) / caps(t)->block / 2, most = mcl < room ? mcl : room;
        uint32_t fit = caps(t)->mdts ? caps(t)->mdts / sizeof(*range) : ns->msrc + 1u;
        unsigned n = 0;

        for (*blocks = 0; mssrl > 0 && n <= ns->msrc && n < fit && *blocks < most; n++) {
                uint32_t size = most - *blocks < mssrl ? most - *blocks : mssrl;

                range[n] = blocks_from(t, *blocks, size);
                *blocks += size;
        }
        return n;
}

CASE(
    "nvm/copy/large", MUST, RULES(NVM_COPY),
    "Copy of as many blocks as MSSRL, MSRC and MCL allow, or the case's range has room for, copies "
    "all of them",
    .writes = true)
{
        struct queue *q = io_queue(t);
        const struct id_ns *ns = copying(q);
        struct copy_range range[256];
        uint32_t block = caps(t)->block, step = at_once(t), blocks;
        unsigned n = largest(t, ns, range, &blocks);
        const uint8_t *data;

        require(t, blocks > 2, "Copy takes one or two blocks");
        data = pattern(t, blocks * block);
        for (uint32_t i = 0; i < blocks; i += step)
                write_blocks(q, i, (blocks - i < step ? blocks - i : step) * block,
                             data + i * block);
        succeed_slow(q, send_copy(q, range, n, blocks, 0));
        for (uint32_t i = 0; i < blocks; i += step) {
                uint32_t bytes = (blocks - i < step ? blocks - i : step) * block;

                want_data(t, "the blocks that were copied", read_blocks(q, blocks + i, bytes),
                          data + i * block, bytes);
        }
}

/* The limits are numbers of blocks, which 3.3.2 compares with NLB, one less: what is beyond by both. */
CASE("nvm/copy/limits", MUST, RULES(NVM_COPY_SIZE),
     "Copy beyond MSRC, MSSRL or MCL fails with Command Size Limit Exceeded", .writes = true)
{
        struct queue *q = io_queue(t);
        const struct id_ns *ns = copying(q);
        struct copy_range range[256];
        uint32_t mssrl = le16_get(ns->mssrl), mcl = le32_get(ns->mcl), count = ns->msrc + 1u;
        uint64_t room = own_bytes(t) / caps(t)->block; /* what is copied all the same stays there */

        for (unsigned i = 0; i < 256; i++)
                range[i] = blocks_from(t, 0, mssrl > 0 ? mssrl : 1);
        if (mssrl > 0 && (uint64_t)count * (mssrl - 1) > mcl && (uint64_t)count * mssrl <= room)
                expect_refusal(q, send_copy(q, range, count, 0, 0));
        if (mssrl + 2 <= room && mssrl < 0xffff) {
                range[0].nlb = le16((uint16_t)(mssrl + 1));
                expect_refusal(q, send_copy(q, range, 1, 0, 0));
        }
        for (unsigned i = 0; i < 256; i++)
                range[i] = blocks_from(t, 0, 1);
        if (count < 256)
                expect_refusal(q, send_copy(q, range, count + 1, 0, 0));
        expect_works(q);
}

CASE("nvm/copy/format", MUST, RULES(NVM_COPY_FORMAT),
     "Copy with a reserved descriptor format, or one that is not enabled, fails with Invalid Field",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct copy_range range[2] = { 0 };

        copying(q);
        range[0] = blocks_from(t, 0, 1);
        expect_refusal(q, send_copy(q, range, 1, 1, 0xf << 8));
        expect_refusal(q, send_copy(q, range, 1, 1, 2 << 8));
        expect_works(q);
}

static void want_out_of_range(struct t *t, struct reply r)
{
        want(t, r.status != NVME_SUCCESS, "LBA Out of Range", "success");
        want(t, r.dw0 == 0, "dword 0 of 0, since nothing was written", "%u", r.dw0);
        if (r.status != NVME_LBA_RANGE)
                lenient(t, "LBA Out of Range", "status %u/%02Xh", r.status >> 8, r.status & 0xff);
}

CASE("nvm/copy/beyond", MUST, RULES(NVM_COPY_RESULT),
     "Copy to or from beyond the end of the namespace fails with LBA Out of Range, writes nothing "
     "and returns 0",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct copy_range range = blocks_from(t, 0, 1);

        copying(q);
        want_out_of_range(t, finish(q, send_copy(q, &range, 1, caps(t)->blocks - own_lba(t), 0)));
        range.slba = le64(caps(t)->blocks);
        want_out_of_range(t, finish(q, send_copy(q, &range, 1, 0, 0)));
        expect_works(q);
}

CASE("nvm/copy/last-block", MUST, RULES(NVM_COPY_RESULT),
     "Copy of the last block and one block more fails with LBA Out of Range and returns 0",
     .writes = true)
{
        struct queue *q = io_queue(t);
        const struct id_ns *ns = copying(q);
        struct copy_range range = { .slba = le64(caps(t)->blocks - 1), .nlb = le16(1) };

        require(t, le16_get(ns->mssrl) > 1 && le32_get(ns->mcl) > 1, "Copy takes a single block");
        want_out_of_range(t, finish(q, send_copy(q, &range, 1, 0, 0)));
        expect_works(q);
}

CASE("nvm/copy/second-range", MUST, RULES(NVM_COPY_RESULT),
     "Copy fails if its second source range extends beyond the end of the namespace, and says that "
     "it was not copied",
     .writes = true)
{
        struct queue *q = io_queue(t);
        const struct id_ns *ns = copying(q);
        struct copy_range range[2] = { blocks_from(t, 0, 1), { .slba = le64(caps(t)->blocks) } };
        struct reply r;

        require(t, ns->msrc > 0 && le32_get(ns->mcl) > 1, "Copy takes a single range or block");
        r = finish(q, send_copy(q, range, 2, 2, 0));
        want(t, r.status != NVME_SUCCESS, "LBA Out of Range", "success");
        want(t, r.dw0 <= 1, "dword 0 of at most 1, the range that cannot be copied", "%u", r.dw0);
        if (r.status != NVME_LBA_RANGE)
                lenient(t, "LBA Out of Range", "status %u/%02Xh", r.status >> 8, r.status & 0xff);
        expect_works(q);
}

CASE("nvm/copy/ignored", MUST, RULES(NVM_NO_PROTECTION),
     "Copy ignores PRINFOR, PRINFOW and all tags on a namespace without protection information",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct copy_range range = blocks_from(t, 0, 1);
        bool wide = caps(t)->vs >= NVME_VERSION(2, 0, 0); /* upper tags were reserved before */
        const uint8_t *data;

        copying(q);
        require(t, !caps(t)->pi, "the namespace has protection information");
        data = write_six(q);
        range.elbt = le32(UINT32_MAX);
        range.elbat = range.elbatm = le16(UINT16_MAX);
        succeed(q, send_copy_as(q, &range, .to = 3, .cdw2 = wide ? UINT32_MAX : 0,
                                .cdw3 = wide ? UINT16_MAX : 0, .cdw12 = RW_PRACT | RW_PRCHK,
                                .cdw14 = UINT32_MAX, .cdw15 = UINT32_MAX));
        want_block(q, 3, data);
        succeed(q, send_copy_as(q, &range, .to = 4, .cdw12 = 7 << 12));
        want_block(q, 4, data);
}

/* --- formats that name a namespace */

/* The host enables what the controller supports of formats 2h and 3h. */
static void enable(struct queue *q)
{
        uint16_t cdfs = le16_get(caps(q->t)->id.cdfs);
        uint8_t *behavior = t_alloc(q->t, 512);

        copying(q);
        require(q->t, cdfs & 4, "Copy does not support format 2h");
        memset(behavior, 0, 512);
        behavior[4] = cdfs & 0xc;
        require_feature(
            q->admin,
            finish(q->admin, send_cmd(q->admin, .opc = NVME_SET_FEATURES,
                                      .cdw10 = FEAT_HOST_BEHAVIOR, .bytes = 512, .data = behavior)),
            "Host Behavior Support cannot be set");
}

static struct copy_range named(struct t *t, uint32_t nsid, uint64_t slba, uint32_t blocks)
{
        struct copy_range range = blocks_from(t, slba, blocks);

        range.snsid = le32(nsid);
        return range;
}

struct like { /* of a namespace that is looked for */
        uint32_t block, ms;
        uint8_t pi;
        bool other_block; /* than this */
};

static bool is_like(const struct id_ns *n, const struct like *like)
{
        uint32_t block = id_ns_block_size(n);

        return block && (block == like->block) == !like->other_block &&
               id_ns_metadata(n) == like->ms && (n->dps & 7) == like->pi;
}

struct block { /* of any namespace; nsid 0: there is none */
        uint32_t nsid;
        uint64_t lba;
};

/* Of another namespace than `not`: by the case's range, or the first one. */
static struct block find_like(struct queue *q, uint32_t not, struct like like)
{
        const void *list = identify(q->admin, CNS_NS_LIST, 0);
        size_t n = ns_list_count(list, IDENTIFY_LEN);

        for (size_t i = 0; i < n && i < LIST; i++) {
                uint32_t nsid = ns_list_get(list, i);
                const struct id_ns *ns =
                    nsid == not ? NULL : identify_optional(q->admin, CNS_NS, nsid);

                if (ns && is_like(ns, &like))
                        return (struct block) { nsid, le64_get(ns->nsze) > own_lba(q->t) + SIX
                                                          ? own_lba(q->t)
                                                          : 0 };
        }
        return (struct block) { 0 };
}

/* As it is stored. */
static const uint8_t *stored(struct queue *q, struct block b, uint32_t bytes)
{
        struct reply r =
            finish(q, send_cmd(q, .opc = NVME_READ, .nsid = b.nsid, .cdw10 = (uint32_t)b.lba,
                               .cdw11 = (uint32_t)(b.lba >> 32), .bytes = bytes, .as_is = true));

        require(q->t, r.status == NVME_SUCCESS, "a block of namespace %u cannot be read", b.nsid);
        return r.data;
}

/* A Copy from another namespace, which may be out of reach, or beyond the controller's resources (N1.2 3.3.2,
 * figure 42). */
static void succeed_across(struct queue *q, uint16_t cid)
{
        struct reply r = finish_slow(q, cid);

        require(q->t, r.status != NVME_NOT_REACHABLE && r.status != NVME_COPY_RESOURCES,
                "there is no way, or no room, for a Copy between these namespaces");
        check_success(q, r);
}

static struct copy_range range_of(struct block b)
{
        return (struct copy_range) { .snsid = le32(b.nsid), .slba = le64(b.lba) };
}

/* The tested namespace has blocks of data and nothing else. */
static void require_plain(struct t *t)
{
        require(t, caps(t)->nsid && !caps(t)->pi && !caps(t)->ms, "the blocks have metadata");
}

CASE("nvm/copy/across", MUST, RULES(NVM_COPY_ACROSS),
     "Copy of format 2h copies a block of another namespace that has the same format",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t block = caps(t)->block;
        struct copy_range range;
        const uint8_t *data;
        uint8_t before[BLOCK_MAX];
        struct block from;

        enable(q);
        require_plain(t);
        from = find_like(q, caps(t)->nsid, (struct like) { .block = block });
        require(t, from.nsid, "no other namespace has the same format");
        data = write_six(q);
        memcpy(before, stored(q, from, block), block);
        range = range_of(from);
        succeed_across(q, send_copy_as(q, &range, .to = 3, .cdw12 = FORMAT_2));
        require(t, memcmp(before, stored(q, from, block), block) == 0, "somebody else writes");
        want_bytes(t, "the block of the other namespace", read_blocks(q, 3, block), before, block);
        want_block(q, 4, data + 4 * block);
}

CASE(
    "nvm/copy/stripped", MUST, RULES(NVM_COPY_ACROSS),
    "Copy from a namespace with protection information to one without, with PRACT, copies the data",
    .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t block = caps(t)->block;
        struct copy_range range;
        uint8_t before[BLOCK_MAX];
        struct block from = { 0 };

        enable(q);
        require_plain(t);
        for (uint8_t type = 1; type <= PI_TYPES && !from.nsid; type++)
                from = find_like(q, caps(t)->nsid,
                                 (struct like) { .block = block, .ms = PI_LEN, .pi = type });
        require(t, from.nsid, "no namespace differs in protection information only");
        write_six(q);
        memcpy(before, stored(q, from, block + PI_LEN), block);
        range = range_of(from);
        succeed_across(q, send_copy_as(q, &range, .to = 3, .cdw12 = FORMAT_2 | PRACT_READ));
        require(t, memcmp(before, stored(q, from, block + PI_LEN), block) == 0,
                "somebody else writes");
        want_bytes(t, "the data of the other namespace", read_blocks(q, 3, block), before, block);
}

/* A namespace whose metadata is protection information and nothing else, and one like it without. */
static struct space find_pair(struct queue *q, struct block *plain)
{
        struct space s = find_space(q, PROTECTED, PI_LEN);

        require(q->t, s.ms == PI_LEN && s.block <= BLOCK_MAX, "metadata of more than 8 bytes");
        *plain = find_like(q, s.nsid, (struct like) { .block = s.block });
        require(q->t, plain->nsid, "no namespace differs in protection information only");
        return s;
}

CASE("nvm/copy/inserted", MUST, RULES(NVM_COPY_ACROSS),
     "Copy from a namespace without protection information to one with it, with PRACT, inserts it",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t lba = (uint32_t)own_lba(t) + 1;
        struct block from;
        struct copy_range range;
        const uint8_t *seen;
        uint8_t before[BLOCK_MAX];
        struct space s;
        struct pi pi;

        enable(q);
        s = find_pair(q, &from);
        range = range_of(from);
        memcpy(before, stored(q, from, s.block), s.block);
        succeed_across(q, send_copy_as(q, &range, .nsid = s.nsid, .to = 1,
                                       .cdw12 = FORMAT_2 | RW_PRACT, .cdw14 = lba, .cdw15 = TAG));
        require(t, memcmp(before, stored(q, from, s.block), s.block) == 0, "somebody else writes");
        seen = stored(q, (struct block) { s.nsid, own_lba(t) + 1 }, s.block + PI_LEN);
        want_bytes(t, "the data of the other namespace", seen, before, s.block);
        pi = pi_get(seen + s.block);
        want_eq(t, "the guard", pi.guard, crc16_more(0, before, s.block));
        want_eq(t, "the application tag", pi.app, TAG);
        if (s.pi != 3)
                want_eq(t, "the reference tag", pi.ref, lba);
}

/* The block keeps what it has. */
static void want_apart(struct queue *q, struct block from, uint32_t to, uint32_t bytes,
                       uint32_t bits)
{
        struct copy_range range = range_of(from);
        struct block there = { to, own_lba(q->t) + 3 };
        uint8_t before[BLOCK_MAX + PI_LEN];

        memcpy(before, stored(q, there, bytes), bytes);
        expect_refusal(q, send_copy_as(q, &range, .nsid = to, .to = 3, .cdw12 = FORMAT_2 | bits));
        want_bytes(q->t, "what was there before", stored(q, there, bytes), before, bytes);
}

CASE("nvm/copy/block-sizes", MUST, RULES(NVM_COPY_MATCH),
     "Copy from a namespace with another block size is refused, and writes nothing", .writes = true)
{
        struct queue *q = io_queue(t);
        struct block from;

        enable(q);
        require_plain(t);
        from = find_like(q, caps(t)->nsid,
                         (struct like) { .block = caps(t)->block, .other_block = true });
        require(t, from.nsid, "no namespace has blocks of another size");
        write_six(q);
        want_apart(q, from, caps(t)->nsid, caps(t)->block, 0);
        expect_works(q);
}

CASE("nvm/copy/unlike", MUST, RULES(NVM_COPY_MATCH),
     "Copy that would change, insert or strip protection information without PRACT is refused, and "
     "writes nothing",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct block plain, typed = { 0 }, own;
        struct space s;

        enable(q);
        s = find_pair(q, &plain);
        own = (struct block) { s.nsid, own_lba(t) };
        want_apart(q, plain, s.nsid, s.block + PI_LEN, 0);
        for (uint8_t type = 1; type <= PI_TYPES && !typed.nsid; type++)
                if (type != s.pi)
                        typed =
                            find_like(q, s.nsid,
                                      (struct like) { .block = s.block, .ms = PI_LEN, .pi = type });
        if (typed.nsid) {
                want_apart(q, typed, s.nsid, s.block + PI_LEN, 0);
                want_apart(q, typed, s.nsid, s.block + PI_LEN, PRACT_READ | RW_PRACT);
        }
        if (!caps(t)->pi && !caps(t)->ms && caps(t)->block == s.block)
                want_apart(q, own, caps(t)->nsid, s.block, 0);
        expect_works(q);
}

CASE("nvm/copy/act", MUST, RULES(NVM_PI_COPY_ACT),
     "Copy of format 2h between namespaces with protection information and unlike PRACT bits is "
     "refused",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s;
        struct copy_range range;

        enable(q);
        s = find_space(q, PROTECTED, PI_LEN);
        range = named(t, s.nsid, 0, 1);
        expect_refusal(
            q, send_copy_as(q, &range, .nsid = s.nsid, .to = 3, .cdw12 = FORMAT_2 | RW_PRACT));
        expect_refusal(
            q, send_copy_as(q, &range, .nsid = s.nsid, .to = 3, .cdw12 = FORMAT_2 | PRACT_READ));
        expect_works(q);
}

CASE("nvm/copy/source", MUST, RULES(NVM_COPY_SOURCE),
     "Copy from SNSID 0, FFFFFFFFh or one above NN is refused", .writes = true)
{
        const uint32_t nn = le32_get(caps(t)->id.nn), bad[] = { 0, NSID_ALL, nn + 1 };
        struct queue *q = io_queue(t);

        enable(q);
        for (int i = 0; i < 3 && !(i == 2 && nn >= NSID_ALL - 1); i++) {
                struct copy_range range = named(t, bad[i], 0, 1);

                expect_refusal(q, send_copy_as(q, &range, .to = 3, .cdw12 = FORMAT_2));
        }
        expect_works(q);
}

CASE("nvm/copy/inactive", MUST, RULES(NVM_COPY_INACTIVE),
     "Copy from an inactive namespace is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        const void *list = identify(q->admin, CNS_NS_LIST, 0);
        struct copy_range range;
        uint32_t nsid = 1;

        enable(q);
        for (size_t i = 0; i < ns_list_count(list, IDENTIFY_LEN) && ns_list_get(list, i) == nsid;
             i++)
                nsid++;
        require(t, nsid <= le32_get(caps(t)->id.nn), "every NSID is active");
        range = named(t, nsid, 0, 1);
        expect_refusal(q, send_copy_as(q, &range, .to = 3, .cdw12 = FORMAT_2));
        expect_works(q);
}

CASE("nvm/copy/overlap", MUST, RULES(NVM_COPY_OVERLAP),
     "Copy of format 2h to blocks that it reads is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        struct copy_range range[2] = { named(t, caps(t)->nsid, 0, 1),
                                       named(t, caps(t)->nsid, 4, 1) };

        enable(q);
        require(t, le32_get(identify_ns(q)->mcl) > 1 && identify_ns(q)->msrc > 0,
                "Copy takes a single range or block");
        expect_refusal(q, send_copy_as(q, range, .to = 0, .cdw12 = FORMAT_2));
        expect_refusal(q, send_copy_as(q, range, .to = 3, .count = 2, .cdw12 = FORMAT_2));
        expect_works(q);
}

CASE("nvm/copy/fast", MUST, RULES(NVM_COPY_FAST),
     "Copy with Fast Copy Only copies, or fails with Fast Copy Not Possible where ONCS permits",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct copy_range range = named(t, caps(t)->nsid, 0, 1);
        bool always = le16_get(caps(t)->id.oncs) & ONCS_COPY_FAST;
        const uint8_t *data;
        struct reply r;

        enable(q);
        data = write_six(q);
        range.rsvd20 = le32((uint32_t)FAST_ONLY << 24);
        r = finish_slow(q, send_copy_as(q, &range, .to = 3, .cdw12 = FORMAT_2));
        require(t, r.status != NVME_COPY_RESOURCES, "the controller is short of resources");
        want(t, r.status == NVME_SUCCESS || (!always && r.status == NVME_NO_FAST_COPY),
             always ? "Success, as ONCS.NVMAFC promises" : "Success, or Fast Copy Not Possible",
             "status %u/%02Xh", r.status >> 8, r.status & 0xff);
        if (r.status == NVME_SUCCESS)
                want_block(q, 3, data);
}

/* Of the format in use: 0: 16b, 1: 32b, 2: 64b; others are not known. */
static unsigned guard(struct queue *q, uint32_t nsid)
{
        const struct id_nvm_ns *n = identify(q->admin, CNS_IOCS_NS, nsid);
        const struct id_ns *ns = identify(q->admin, CNS_NS, nsid);
        uint32_t format = le32_get(n->elbaf[id_ns_format(ns)]);
        unsigned pif = format >> 7 & 3;

        return pif == 3 ? format >> 9 & 15 : pif;
}

CASE("nvm/copy/guard", MUST, RULES(NVM_COPY_GUARD),
     "Copy of a format for another guard than the namespace has is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        uint16_t cdfs = le16_get(caps(t)->id.cdfs);
        uint8_t range[40] = { 0 };
        unsigned first, tried = 0;
        struct space s;

        copying(q);
        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0),
                "guards of other sizes came with NVMe 2.0");
        if (cdfs & 4)
                enable(q);
        s = find_space(q, PROTECTED, PI_LEN);
        first = guard(q, s.nsid) ? 0 : 1;
        le_put(range, 4, s.nsid);
        le_put(range + 8, 8, own_lba(t));
        for (unsigned format = first; format < 4; format += 2) {
                if (!(cdfs >> format & 1))
                        continue;
                tried++;
                expect_refusal(q, send_copy_as(q, range, .nsid = s.nsid, .to = 3,
                                               .cdw12 = format << 8, .size = format & 1 ? 40 : 32));
        }
        require(t, tried > 0, "Copy supports no format for another guard");
        expect_works(q);
}
