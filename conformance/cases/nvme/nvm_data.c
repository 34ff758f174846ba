/* SPDX-License-Identifier: BSD-3-Clause */
/* NVM Command Set 3.3: data of large and of many commands, and blocks that are marked or cleared. */
#include <inttypes.h>
#include <string.h>

#include "conformance/words/case.h"
#include "pdu/nvme/wire/identify.h"

enum { PIECE = 64 << 10 };

/* Bytes of the case's range that one command can carry: whole blocks, at most `most`. */
static uint32_t one_command(struct t *t, uint32_t most)
{
        uint32_t mdts = caps(t)->mdts, n = own_bytes(t) < most ? own_bytes(t) : most;

        require(t, caps(t)->nsid && caps(t)->block <= BLOCK_MAX, "no blocks of at most %u bytes",
                BLOCK_MAX);
        return (mdts > 0 && mdts < n ? mdts : n) / caps(t)->block * caps(t)->block;
}

static uint32_t piece_of(struct t *t)
{
        uint32_t mdts = caps(t)->mdts;

        return (mdts > 0 && mdts < PIECE ? mdts : PIECE) / caps(t)->block * caps(t)->block;
}

static uint32_t piece_at(struct t *t, uint32_t at, uint32_t n)
{
        return n - at < piece_of(t) ? n - at : piece_of(t);
}

static void want_stored(struct queue *q, const uint8_t *data, uint32_t n)
{
        struct t *t = q->t;

        for (uint32_t at = 0; at < n; at += piece_of(t))
                want_bytes(t, "what was written",
                           read_blocks(q, at / caps(t)->block, piece_at(t, at, n)), data + at,
                           piece_at(t, at, n));
}

CASE("nvm/read/large", MUST, RULES(NVM_DATA),
     "A Read of up to 1 MiB returns what was written in pieces", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = one_command(t, KIB(1024));
        const uint8_t *data = pattern(t, n);

        require(t, n > KIB(256), "a command carries %u bytes", n);
        for (uint32_t at = 0; at < n; at += piece_of(t))
                write_blocks(q, at / caps(t)->block, piece_at(t, at, n), data + at);
        want_bytes(t, "what was written", read_blocks(q, 0, n), data, n);
}

/* Whatever is there, a block that this case has just made is not. Nothing is written outside of its range. */
CASE("nvm/read/far", MUST, RULES(NVM_DATA),
     "A block that was written is not read at an LBA that differs in one bit", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;
        const uint8_t *data = pattern(t, n);

        put_block(q, 0, data);
        for (unsigned bit = 0; bit < 64 && 1ull << bit < caps(t)->blocks; bit++) {
                uint64_t lba = own_lba(t) ^ 1ull << bit;
                struct reply r;

                if (lba >= caps(t)->blocks)
                        continue;
                r = finish(q, send_read(q, .slba = lba - own_lba(t)));
                want(t, r.status != NVME_SUCCESS || memcmp(r.data, data, n) != 0, "other data",
                     "at block %" PRIu64 " what was written at block %" PRIu64, lba, own_lba(t));
        }
        want_data(t, "what was written", read_blocks(q, 0, n), data, n);
}

CASE("nvm/write/large", MUST, RULES(NVM_DATA), "A Write of up to 1 MiB stores all of its data",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = one_command(t, KIB(1024));
        const uint8_t *data = pattern(t, n);

        require(t, n > KIB(256), "a command carries %u bytes", n);
        write_blocks(q, 0, n, data);
        want_stored(q, data, n);
}

/* As one_command(), of a Compare, which brings its metadata where Write and Read do not (caps.made). */
static uint32_t one_compare(struct t *t)
{
        uint32_t block = caps(t)->block, unit = block + (caps(t)->made ? caps(t)->ms : 0);
        uint32_t blocks = one_command(t, KIB(1024)) / block;

        if (caps(t)->mdts > 0 && caps(t)->mdts / unit < blocks)
                blocks = caps(t)->mdts / unit;
        return blocks * block;
}

/* The last block of n bytes that were written has another last byte now, its protection information apart. */
static void change_end(struct queue *q, const uint8_t *data, uint32_t n)
{
        uint32_t block = caps(q->t)->block, last = n / block - 1;
        uint8_t bytes[BLOCK_MAX];

        memcpy(bytes, data + n - block, block);
        bytes[caps(q->t)->plain - 1] ^= 1;
        put_block(q, last, bytes);
}

CASE("nvm/compare/large", MUST, RULES(NVM_COMPARE),
     "A Compare of up to 1 MiB detects a different byte at its end", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = one_compare(t);
        const uint8_t *data = pattern(t, n);

        require(t, le16_get(caps(t)->id.oncs) & ONCS_COMPARE, "Compare is not supported");
        require(t, n >= KIB(64), "a command carries %u bytes", n);
        for (uint32_t at = 0; at < n; at += piece_of(t))
                write_blocks(q, at / caps(t)->block, piece_at(t, at, n), data + at);
        succeed(q, send_compare(q, .bytes = n, .data = data));
        change_end(q, data, n);
        expect_error(q, send_compare(q, .bytes = n, .data = data), NVME_COMPARE_FAILURE);
}

CASE("nvm/write/pipelined", MUST, RULES(NVM_DATA),
     "28 Writes with in-capsule data, sent without waiting, each store their own data",
     .writes = true)
{
        enum { WRITES = 28 };
        struct queue *q = io_queue(t);
        unsigned writes = together(q, WRITES);
        uint32_t block = caps(t)->block, n = one_command(t, caps(t)->in_capsule), most;
        const uint8_t *data;
        uint16_t cid[WRITES];

        require(t, n >= block, "the capsule has no room for data");
        most = own_bytes(t) / writes;
        n = (n < most ? n : most) / block * block;
        data = pattern(t, writes * n);
        for (unsigned i = 0; i < writes; i++)
                cid[i] = send_write(q, .slba = i * (n / block), .bytes = n, .data = data + i * n,
                                    .in_capsule = true);
        for (unsigned i = 0; i < writes; i++)
                succeed(q, cid[i]);
        want_stored(q, data, writes * n);
}

/* --- blocks that are cleared */

/* The whole of the range that is written is zeroes after this, or the controller does not do it. */
static void clear(struct queue *q, uint32_t n, uint32_t bits)
{
        struct t *t = q->t;
        const uint8_t *data = pattern(t, n);
        uint16_t status;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_WRITE_ZEROES, "Write Zeroes is not supported");
        for (uint32_t at = 0; at < n; at += piece_of(t))
                write_blocks(q, at / caps(t)->block, piece_at(t, at, n), data + at);
        status = finish_slow(q, send_write_zeroes(q, .bytes = n, .cdw12 = bits)).status;
        require(t, status == NVME_SUCCESS, "Write Zeroes of %u bytes is refused", n);
        for (uint32_t at = 0; at < n; at += piece_of(t)) {
                const uint8_t *seen = read_blocks(q, at / caps(t)->block, piece_at(t, at, n));

                want(t, are_filled(t, seen, piece_at(t, at, n), 0), "zeroes",
                     "other data in the %u KiB from byte %u on", piece_at(t, at, n) / 1024, at);
        }
}

CASE("nvm/write-zeroes/large", MUST, RULES(NVM_ZEROES),
     "Write Zeroes of more than 256 blocks clears all of them", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t most = 600 * caps(t)->block, n = own_bytes(t) < most ? own_bytes(t) : most;

        require(t, n > 256 * caps(t)->block, "the range has %u bytes", n);
        clear(q, n, 0);
}

CASE("nvm/write-zeroes/deallocate", MUST, RULES(NVM_ZEROES),
     "Blocks read as zeroes after Write Zeroes with DEAC", .writes = true)
{
        clear(io_queue(t), one_command(t, PIECE), RW_DEAC);
}

/* Deallocating is an advice: nothing need happen to the blocks that the ranges name (N1.2 3.3.3). */
CASE("nvm/dsm/two-ranges", MUST, RULES(NVM_DSM_RANGES),
     "Dataset Management that deallocates two ranges changes no block outside them", .writes = true)
{
        struct queue *q = io_queue(t);
        uint8_t ranges[2][16] = { 0 };
        const uint8_t *data;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_DSM, "Dataset Management is not supported");
        data = write_six(q);
        for (int i = 0; i < 2; i++) { /* blocks 1 and 4 */
                le_put(ranges[i] + 4, 4, 1);
                le_put(ranges[i] + 8, 8, own_lba(t) + 1 + 3 * (unsigned)i);
        }
        succeed_slow(q, send_cmd(q, .opc = NVME_DSM, .nsid = caps(t)->nsid, .cdw10 = 1, .cdw11 = 4,
                                 .bytes = sizeof(ranges), .data = ranges,
                                 .in_capsule = caps(t)->in_capsule >= sizeof(ranges)));
        for (uint32_t i = 0; i < SIX; i++)
                if (i != 1 && i != 4)
                        want_block(q, i, data + i * caps(t)->block);
}

/* --- blocks that cannot be read */

static uint16_t send_blocks(struct queue *q, uint8_t opc, uint64_t slba, uint32_t blocks)
{
        uint64_t lba = own_lba(q->t) + slba;

        return send_cmd(q, .opc = opc, .nsid = caps(q->t)->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32), .cdw12 = blocks - 1);
}

/* Blocks 1 and 2 of a row are marked. */
static const uint8_t *mark(struct queue *q)
{
        const uint8_t *data;

        require(q->t, le16_get(caps(q->t)->id.oncs) & ONCS_WRITE_UNCORRECTABLE,
                "Write Uncorrectable is not supported");
        data = write_six(q);
        succeed(q, send_blocks(q, NVME_WRITE_UNCORRECTABLE, 1, 2));
        return data;
}

static void unmark(struct queue *q, const uint8_t *data)
{
        uint32_t block = caps(q->t)->block;

        for (uint32_t i = 1; i < 3; i++)
                put_block(q, i, data + i * block);
}

CASE("nvm/write-uncorrectable/read", MUST, RULES(NVM_UNREADABLE),
     "Each block that Write Uncorrectable names fails to be read, and the others do not",
     .writes = true)
{
        struct queue *q = io_queue(t);
        const uint8_t *data = mark(q);
        uint16_t status[2];

        for (unsigned i = 0; i < 2; i++)
                status[i] = finish(q, send_read(q, .slba = 1 + i)).status;
        unmark(q, data);
        for (unsigned i = 0; i < 2; i++) {
                want(t, status[i] != NVME_SUCCESS, "Unrecovered Read Error", "Success of a Read");
                if (status[i] != NVME_UNRECOVERED_READ)
                        lenient(t, "Unrecovered Read Error", "status %03Xh", status[i]);
        }
        want_block(q, 0, data);
        want_block(q, 3, data + 3 * caps(t)->block);
}

CASE("nvm/write-uncorrectable/written", MUST, RULES(NVM_UNREADABLE),
     "Blocks that Write Uncorrectable has marked can be read again after a Write", .writes = true)
{
        struct queue *q = io_queue(t);
        const uint8_t *data = mark(q);

        unmark(q, data);
        want_block(q, 1, data + 1 * caps(t)->block);
        want_block(q, 2, data + 2 * caps(t)->block);
}

CASE("nvm/verify/unreadable", MUST, RULES(NVM_VERIFY),
     "Verify fails for blocks that cannot be read, and succeeds for the others", .writes = true)
{
        struct queue *q = io_queue(t);
        const uint8_t *data;
        uint16_t status;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_VERIFY, "Verify is not supported");
        data = mark(q);
        status = finish(q, send_blocks(q, NVME_VERIFY, 0, SIX)).status;
        unmark(q, data);
        want(t, status != NVME_SUCCESS, "an error", "Success");
        succeed(q, send_blocks(q, NVME_VERIFY, 0, SIX));
}

/* Blocks at the start of the case's range, written: as many as one command of this kind may name, 64 KiB at most, or 4 KiB
 * where CNS 06h has a limit (of a page at least). */
static uint32_t write_many(struct queue *q, uint16_t oncs, const char *name, size_t limit)
{
        struct t *t = q->t;
        const uint8_t *limits;
        uint32_t n;

        require(t, le16_get(caps(t)->id.oncs) & oncs, "%s is not supported", name);
        limits = identify_optional(q->admin, CNS_IOCS_CTRL, 0);
        n = one_command(t, limits && limits[limit] ? KIB(4) : PIECE);
        require(t, n / caps(t)->block > 2, "%s may be refused beyond two blocks", name);
        write_blocks(q, 0, n, NULL);
        return n / caps(t)->block;
}

CASE("nvm/verify/last-unreadable", MUST, RULES(NVM_VERIFY),
     "Verify of up to 64 KiB fails where its last block alone cannot be read", .writes = true)
{
        struct queue *q = io_queue(t);
        uint16_t marked, status;
        uint32_t n;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_WRITE_UNCORRECTABLE,
                "Write Uncorrectable is not supported");
        n = write_many(q, ONCS_VERIFY, "Verify", offsetof(struct id_nvm_ctrl, vsl));
        succeed_slow(q, send_blocks(q, NVME_VERIFY, 0, n));
        marked = finish(q, send_blocks(q, NVME_WRITE_UNCORRECTABLE, n - 1, 1)).status;
        status = finish_slow(q, send_blocks(q, NVME_VERIFY, 0, n)).status;
        write_blocks(q, n - 1, caps(t)->block, NULL);
        want_eq(t, "the status of Write Uncorrectable", marked, NVME_SUCCESS);
        want(t, status != NVME_SUCCESS, "an error", "Success of Verify");
        succeed_slow(q, send_blocks(q, NVME_VERIFY, 0, n));
}

CASE("nvm/write-uncorrectable/many", MUST, RULES(NVM_UNREADABLE),
     "Each of more than two blocks that Write Uncorrectable names fails to be read, until it is "
     "written",
     .writes = true)
{
        enum { MOST = 64 };
        struct queue *q = io_queue(t);
        uint32_t n = write_many(q, ONCS_WRITE_UNCORRECTABLE, "Write Uncorrectable",
                                offsetof(struct id_nvm_ctrl, wusl));
        uint32_t bytes, readable = 0;
        uint16_t marked;

        n = n < MOST ? n : MOST;
        bytes = n * caps(t)->block;
        marked = finish(q, send_blocks(q, NVME_WRITE_UNCORRECTABLE, 0, n)).status;
        for (uint32_t i = 0; i < n; i++)
                readable += finish(q, send_read(q, .slba = i)).status == NVME_SUCCESS;
        write_blocks(q, 0, bytes, NULL);
        want_eq(t, "the status of Write Uncorrectable", marked, NVME_SUCCESS);
        want(t, readable == 0, "an error of each Read", "Success of %u of %u", readable, n);
        read_blocks(q, 0, bytes);
}

/* --- fused */

CASE("nvm/fused/through-r2t", MUST, RULES(NVM_FUSED),
     "A fused Compare whose data does not lie in the capsule compares what was stored before",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;
        const uint8_t *data = pattern(t, 2 * n);
        uint16_t compare, write;

        require(t, le16_get(caps(t)->id.fuses) & FUSES_COMPARE_WRITE, "FUSES is 0");
        require(t, together(q, 2) > 1, ONE_AT_A_TIME);
        require(t, n <= BLOCK_MAX, "blocks of %u bytes", n);
        write_blocks(q, 0, n, data);
        compare = send_compare(q, .fuse = SQE_FUSE_FIRST, .data = data);
        write = send_write(q, .fuse = SQE_FUSE_SECOND, .data = data + n);
        succeed(q, compare); /* which may be only when the Write's data is there, too */
        succeed(q, write);
        want_bytes(t, "what the Write wrote", read_blocks(q, 0, n), data + n, n);
}

CASE("nvm/fused/fails-before-data", MUST, RULES(NVM_FUSED),
     "A fused Write whose data is not in the capsule writes nothing if its Compare fails",
     .writes = true)
{
        struct queue *q = fusing_queue(t);
        uint32_t n = caps(t)->block;
        const uint8_t *data = pattern(t, 2 * n);
        uint16_t compare, write;

        put_block(q, 0, data);
        compare = send_compare(q, .fuse = SQE_FUSE_FIRST, .data = data + n, .in_capsule = true);
        write = send_write(q, .fuse = SQE_FUSE_SECOND, .data = data + n);
        expect_error(q, write, NVME_ABORT_FAILED_FUSED); /* which may ask for its data before it */
        expect_error(q, compare, NVME_COMPARE_FAILURE);
        want_data(t, "what was there before", read_blocks(q, 0, n), data, n);
}

struct fused {
        struct queue *q;
        const uint8_t *data;
        uint16_t compare, write;
};

static struct fused send_fused(struct queue *q, const uint8_t *old, const uint8_t *data,
                               bool in_capsule)
{
        struct fused f = { .q = q, .data = data };

        f.compare = send_compare(q, .fuse = SQE_FUSE_FIRST, .data = old, .in_capsule = true);
        f.write = send_write(q, .fuse = SQE_FUSE_SECOND, .data = data, .in_capsule = in_capsule);
        return f;
}

static bool has_written(const struct fused *f)
{
        uint16_t compared = finish(f->q, f->compare).status;

        return finish(f->q, f->write).status == NVME_SUCCESS && compared == NVME_SUCCESS;
}

/* The second operation may have to wait for the first one, whose data is held back while it is sent. */
CASE("tcp/r2t/fused-atomic", MUST, RULES(NVM_FUSED),
     "Of two fused operations on two controllers that expect the same block one fails",
     .writes = true)
{
        enum { ASKED_MS = 1000, BOTH_BEGUN_MS = 100 };
        struct queue *q = fusing_queue(t), *other = io_queue(t);
        uint32_t n = caps(t)->block;
        const uint8_t *data = pattern(t, 3 * n);
        struct fused late, early;
        bool first, second;
        struct r2t r;

        put_block(q, 0, data);
        late = send_fused(q, data, data + n, false);
        require(t, asked_within(q, late.write, ASKED_MS, &r),
                "the Write is not asked for its data at once");
        early = send_fused(other, data, data + 2 * n, true);
        (void)answers_within(other, early.write, BOTH_BEGUN_MS);
        serve(q, r);
        first = has_written(&late);
        second = has_written(&early);
        want(t, !first || !second, "Compare Failure of one of the two", "Success of both");
        if (first || second)
                want_data(t, "what the one that succeeded wrote", read_blocks(q, 0, n),
                          first ? late.data : early.data, n);
}

/* --- namespaces, opcodes */

/* An active namespace that is not the one under test; 0: there is none. */
static uint32_t other_namespace(struct queue *q)
{
        const le32_t *list = identify(q->admin, CNS_NS_LIST, 0);

        for (unsigned i = 0; i < IDENTIFY_LEN / sizeof(*list) && le32_get(list[i]); i++)
                if (le32_get(list[i]) != caps(q->t)->nsid)
                        return le32_get(list[i]);
        return 0;
}

CASE("nvm/read/other-namespace", MUST, RULES(NVM_NS_APART),
     "What was written to one namespace is not read from another", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t nsid = other_namespace(q), block = 0;
        const struct id_ns *ns;
        const uint8_t *data;
        struct reply r;

        require(t, nsid, "the subsystem has a single namespace");
        ns = identify_optional(q->admin, CNS_NS, nsid);
        if (ns && !id_ns_metadata(ns))
                block = id_ns_block_size(ns);
        require(t, block > 0 && block <= KIB(64), "namespace %u has no plain blocks", nsid);
        data = pattern(t, caps(t)->block < block ? block : caps(t)->block);
        write_blocks(q, 0, caps(t)->block, data);
        r = finish(q, send_cmd(q, .opc = NVME_READ, .nsid = nsid, .cdw10 = (uint32_t)own_lba(t),
                               .cdw11 = (uint32_t)(own_lba(t) >> 32), .bytes = block));
        want(t,
             r.status != NVME_SUCCESS ||
                 memcmp(r.data, data, block < caps(t)->block ? block : caps(t)->block) != 0,
             "other data, or an error", "the data of namespace %u in namespace %u", caps(t)->nsid,
             nsid);
}

/* Those that neither the Base Specification nor an I/O command set assigns. */
CASE("nvm/opcode/unassigned", MUST, RULES(FAB_OPCODE),
     "Unassigned I/O opcodes are refused, and the queue works on")
{
        static const uint8_t opcodes[] = { 0x03, 0x07, 0x0a, 0x0b, 0x0f, 0x13, 0x16, 0x17,
                                           0x1a, 0x1b, 0x1c, 0x1e, 0x1f, 0x40, 0x7e };
        struct queue *q = io_queue(t);

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, caps(t)->vs < VS_LATER, "a later revision may have assigned them");
        for (unsigned i = 0; i < sizeof(opcodes); i++)
                expect_refusal(q, send_cmd(q, .opc = opcodes[i], .nsid = caps(t)->nsid));
        expect_answer(q, send_cmd(q, .opc = 0x06, .nsid = caps(t)->nsid)); /* key value: List */
        expect_works(q);
}
