/* SPDX-License-Identifier: BSD-3-Clause */
/* NVM Command Set 3.3: what commands do to their blocks, and to no others. */
#include <inttypes.h>
#include <string.h>

#include "conformance/words/case.h"

#include "conformance/engine/suite.h"

/* --- ranges */

static uint16_t send_read_at(struct queue *q, uint64_t lba, uint32_t blocks)
{
        const struct caps *c = caps(q->t);

        return send_cmd(q, .opc = NVME_READ, .nsid = c->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32), .cdw12 = blocks - 1,
                        .bytes = blocks * c->block);
}

CASE("nvm/read/beyond", MUST, RULES(NVM_RANGE),
     "A Read beyond the end of the namespace fails with LBA Out of Range")
{
        struct queue *q = io_queue(t);
        uint32_t n = 8;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        if (caps(t)->mdts && caps(t)->mdts / caps(t)->block < n)
                n = caps(t)->mdts / caps(t)->block;
        expect_error(q, send_read(q, .slba = caps(t)->blocks), NVME_LBA_RANGE);
        expect_error(q, send_read(q, .slba = UINT64_C(1) << 62), NVME_LBA_RANGE);
        expect_error(q, /* SLBA and NLB together wrap */
                     send_cmd(q, .opc = NVME_READ, .nsid = caps(t)->nsid, .cdw10 = UINT32_MAX,
                              .cdw11 = UINT32_MAX, .cdw12 = n - 1, .bytes = n * caps(t)->block),
                     NVME_LBA_RANGE);
        expect_works(q);
}

CASE("nvm/read/beyond-sqfc-off", MUST, RULES(NVM_RANGE),
     "A Read beyond the end of the namespace fails also where SQ flow control is disabled")
{
        struct queue *q = io_queue(t, .cattr = CATTR_DISABLE_SQFC);

        require(t, q->sqfc_off, "the target does not disable SQ flow control");
        require(t, caps(t)->nsid, "the subsystem has no namespace");
        expect_error(q, send_read(q, .slba = caps(t)->blocks), NVME_LBA_RANGE);
        expect_works(q);
}

CASE("nvm/read/last-block", MUST, RULES(NVM_RANGE),
     "The last block can be read; a Read of one block more fails with LBA Out of Range")
{
        enum { MEDIA = 2 }; /* status code type of what the medium does not give */
        uint64_t last = caps(t)->blocks - 1;
        struct queue *q = io_queue(t);
        struct reply r;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        r = finish(q, send_read_at(q, last, 1));
        require(t, r.status >> 8 != MEDIA, "the last block cannot be read: %s",
                status_name(r.status));
        check_success(q, r);
        require_carried(t, 2);
        expect_error(q, send_read_at(q, last, 2), NVME_LBA_RANGE);
        expect_works(q);
}

CASE("nvm/write/beyond", MUST, RULES(NVM_RANGE),
     "A Write beyond the end of the namespace fails with LBA Out of Range", .writes = true)
{
        const uint64_t beyond[] = { caps(t)->blocks, UINT64_MAX };
        struct queue *q = io_queue(t);
        uint32_t n = r2t_bytes(t), block = caps(t)->block;

        /* One block in the second Write: more would wrap to blocks of others. */
        for (int i = 0; i < 2; i++, n = block)
                expect_error(q,
                             send_cmd(q, .opc = NVME_WRITE, .nsid = caps(t)->nsid,
                                      .cdw10 = (uint32_t)beyond[i],
                                      .cdw11 = (uint32_t)(beyond[i] >> 32), .cdw12 = n / block - 1,
                                      .bytes = n, .in_capsule = n <= caps(t)->in_capsule),
                             NVME_LBA_RANGE);
        expect_works(q);
}

/* Blocks without data; a target that drops the upper bits, or wraps, finds the first block. */
static uint16_t send_bare_at(struct queue *q, uint8_t opc, uint64_t lba, uint32_t blocks)
{
        return send_cmd(q, .opc = opc, .nsid = caps(q->t)->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32), .cdw12 = blocks - 1);
}

static struct queue *queue_for(struct t *t, uint16_t oncs, const char *name)
{
        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, le16_get(caps(t)->id.oncs) & oncs, "%s is not supported", name);
        return io_queue(t);
}

/* What becomes of blocks of a Write that fails is not said: another case's may be among them. */
CASE("nvm/write/last-block", MUST, RULES(NVM_RANGE),
     "A Write of the last block and one block more fails with LBA Out of Range", .writes = true,
     .alone = true)
{
        struct queue *q = io_queue(t);
        uint64_t last = caps(t)->blocks - 1;
        uint32_t block = caps(t)->block;
        uint8_t *data = t_alloc(t, 2 * block);
        struct reply r;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require_carried(t, 2);
        r = finish(q, send_read_at(q, last, 1));
        require(t, r.status == NVME_SUCCESS, "the last block cannot be read");
        memcpy(data, r.data, block); /* whoever writes it all the same changes nothing */
        expect_error(q,
                     send_cmd(q, .opc = NVME_WRITE, .nsid = caps(t)->nsid, .cdw10 = (uint32_t)last,
                              .cdw11 = (uint32_t)(last >> 32), .cdw12 = 1, .bytes = 2 * block,
                              .data = data, .in_capsule = caps(t)->in_capsule >= 2 * block),
                     NVME_LBA_RANGE);
        expect_works(q);
}

CASE("nvm/compare/beyond", MUST, RULES(NVM_RANGE),
     "A Compare beyond the end of the namespace fails with LBA Out of Range")
{
        const uint64_t beyond[] = { caps(t)->blocks, UINT64_MAX };
        struct queue *q = queue_for(t, ONCS_COMPARE, "Compare");
        uint32_t block = caps(t)->block;
        uint8_t *first = t_alloc(t, block);
        struct reply r = finish(q, send_read_at(q, 0, 1));

        require(t, r.status == NVME_SUCCESS, "the first block cannot be read");
        memcpy(first, r.data, block);
        for (int i = 0; i < 2; i++)
                expect_error(q,
                             send_cmd(q, .opc = NVME_COMPARE, .nsid = caps(t)->nsid,
                                      .cdw10 = (uint32_t)beyond[i],
                                      .cdw11 = (uint32_t)(beyond[i] >> 32), .bytes = block,
                                      .data = first, .in_capsule = caps(t)->in_capsule >= block),
                             NVME_LBA_RANGE);
        expect_works(q);
}

CASE("nvm/compare/last-block", MUST, RULES(NVM_RANGE),
     "A Compare of the last block and one block more fails with LBA Out of Range")
{
        struct queue *q = queue_for(t, ONCS_COMPARE, "Compare");
        uint64_t last = caps(t)->blocks - 1;
        uint32_t block = caps(t)->block;
        uint8_t *data = t_alloc(t, 2 * block);
        struct reply r;

        require_carried(t, 2);
        r = finish(q, send_read_at(q, last, 1));
        require(t, r.status == NVME_SUCCESS, "the last block cannot be read");
        memcpy(data, r.data, block);
        expect_error(q,
                     send_cmd(q, .opc = NVME_COMPARE, .nsid = caps(t)->nsid,
                              .cdw10 = (uint32_t)last, .cdw11 = (uint32_t)(last >> 32), .cdw12 = 1,
                              .bytes = 2 * block, .data = data,
                              .in_capsule = caps(t)->in_capsule >= 2 * block),
                     NVME_LBA_RANGE);
        expect_works(q);
}

CASE("nvm/write-zeroes/beyond", MUST, RULES(NVM_RANGE),
     "Write Zeroes beyond the end of the namespace fails with LBA Out of Range", .writes = true)
{
        struct queue *q = queue_for(t, ONCS_WRITE_ZEROES, "Write Zeroes");

        expect_error(q, send_bare_at(q, NVME_WRITE_ZEROES, caps(t)->blocks, 1), NVME_LBA_RANGE);
        expect_error(q, send_bare_at(q, NVME_WRITE_ZEROES, UINT64_MAX, 1), NVME_LBA_RANGE);
        expect_works(q);
}

CASE("nvm/write-uncorrectable/beyond", MUST, RULES(NVM_RANGE),
     "Write Uncorrectable beyond the end of the namespace fails with LBA Out of Range",
     .writes = true)
{
        struct queue *q = queue_for(t, ONCS_WRITE_UNCORRECTABLE, "Write Uncorrectable");

        expect_error(q, send_bare_at(q, NVME_WRITE_UNCORRECTABLE, caps(t)->blocks, 1),
                     NVME_LBA_RANGE);
        expect_error(q, send_bare_at(q, NVME_WRITE_UNCORRECTABLE, UINT64_MAX, 1), NVME_LBA_RANGE);
        expect_works(q);
}

/* The last block with all of its metadata, as it is stored. */
static uint16_t send_last(struct queue *q, uint8_t opc, const uint8_t *data)
{
        const struct caps *c = caps(q->t);
        uint64_t last = c->blocks - 1;
        uint32_t bytes = c->block + (c->made ? c->ms : 0);

        return send_cmd(q, .opc = opc, .nsid = c->nsid, .cdw10 = (uint32_t)last,
                        .cdw11 = (uint32_t)(last >> 32), .bytes = bytes, .data = data,
                        .as_is = true, .in_capsule = data && c->in_capsule >= bytes);
}

/* Of the last block and one more. The last one gets back what it had if that is gone. */
static void expect_beyond_last(struct queue *q, uint8_t opc)
{
        uint64_t last = caps(q->t)->blocks - 1;
        struct reply before = finish(q, send_last(q, NVME_READ, NULL)), after, r;

        require(q->t, !caps(q->t)->read_only, "the namespace is write protected");
        require(q->t, before.status == NVME_SUCCESS, "the last block cannot be read");
        r = finish(q, send_bare_at(q, opc, last, 2));
        after = finish(q, send_last(q, NVME_READ, NULL));
        if (after.status != NVME_SUCCESS || memcmp(after.data, before.data, before.got) != 0)
                succeed(q, send_last(q, NVME_WRITE, before.data));
        want(q->t, r.status != NVME_SUCCESS, "LBA Out of Range", "Success");
        if (r.status != NVME_LBA_RANGE)
                lenient(q->t, "LBA Out of Range", "%s", status_name(r.status));
        expect_works(q);
}

CASE("nvm/write-zeroes/last-block", MUST, RULES(NVM_RANGE),
     "Write Zeroes of the last block and one block more fails with LBA Out of Range",
     .writes = true, .alone = true)
{
        expect_beyond_last(queue_for(t, ONCS_WRITE_ZEROES, "Write Zeroes"), NVME_WRITE_ZEROES);
}

CASE("nvm/write-uncorrectable/last-block", MUST, RULES(NVM_RANGE),
     "Write Uncorrectable of the last block and one block more fails with LBA Out of Range",
     .writes = true, .alone = true)
{
        expect_beyond_last(queue_for(t, ONCS_WRITE_UNCORRECTABLE, "Write Uncorrectable"),
                           NVME_WRITE_UNCORRECTABLE);
}

/* Its error may be another one than that of Read (3.3.5). */
CASE("nvm/verify/beyond", MUST, RULES(NVM_RANGE),
     "Verify beyond the end of the namespace, or of the last block and one more, fails")
{
        struct queue *q = queue_for(t, ONCS_VERIFY, "Verify");
        const uint64_t from[] = { caps(t)->blocks, caps(t)->blocks - 1, UINT64_MAX };

        for (int i = 0; i < 3; i++)
                want(t, finish(q, send_bare_at(q, NVME_VERIFY, from[i], 2)).status != NVME_SUCCESS,
                     "an error", "Success of Verify from block %" PRIu64, from[i]);
        expect_works(q);
}

/* --- contents */

/* A few blocks, in the capsule if they fit: there are targets that ask for no R2T then. */
static void put_blocks(struct queue *q, uint64_t slba, uint32_t bytes, const uint8_t *data)
{
        succeed(q, send_write(q, .slba = slba, .bytes = bytes, .data = data,
                              .in_capsule = caps(q->t)->in_capsule >= bytes));
}

/* A row of four blocks at the start of the case's range, each unlike the others. */
enum { ROW = 4 };

static const uint8_t *write_row(struct queue *q)
{
        uint32_t block = caps(q->t)->block;
        const uint8_t *data = pattern(q->t, ROW * block);

        require(q->t, caps(q->t)->nsid && block <= BLOCK_MAX, "no blocks of at most %u bytes",
                BLOCK_MAX);
        for (uint32_t i = 0; i < ROW; i++)
                put_blocks(q, i, block, data + i * block);
        return data;
}

/* The first and the last one are what write_row() made them. */
static void want_ends(struct queue *q, const uint8_t *data)
{
        uint32_t block = caps(q->t)->block, last = ROW - 1;

        want_data(q->t, "the block before", read_blocks(q, 0, block), data, block);
        want_data(q->t, "the block after", read_blocks(q, last, block), data + last * block, block);
}

CASE("nvm/write/alone", MUST, RULES(NVM_DATA),
     "A Write of two blocks changes those two blocks and no others", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t block = caps(t)->block;
        const uint8_t *data = write_row(q);

        require_carried(t, 2);
        put_blocks(q, 1, 2 * block, data);
        want_data(t, "what was written", read_blocks(q, 1, 2 * block), data, 2 * block);
        want_ends(q, data);
}

/* As r2t_bytes(), of a Compare, which brings its metadata where Write and Read do not (caps.made). */
static uint32_t compare_bytes(struct t *t)
{
        uint32_t n = r2t_bytes(t), block = caps(t)->block, mdts = caps(t)->mdts;

        if (caps(t)->made && mdts)
                while (n > 0 && n / block * (block + caps(t)->ms) > mdts)
                        n -= block;
        require(t, n > 0, "MDTS is less than a block with its metadata");
        return n;
}

CASE("nvm/compare/blocks", MUST, RULES(NVM_COMPARE),
     "Compare tells equal blocks from different ones", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = compare_bytes(t);
        const uint8_t *data = pattern(t, 2 * n);

        require(t, le16_get(caps(t)->id.oncs) & ONCS_COMPARE, "Compare is not supported");
        write_blocks(q, 0, n, data);
        succeed(q, send_compare(q, .bytes = n, .data = data));
        expect_error(q, send_compare(q, .bytes = n, .data = data + n), NVME_COMPARE_FAILURE);
}

/* Of what was written one byte is another one now. */
static void change_byte(struct queue *q, const uint8_t *data, uint32_t at)
{
        uint32_t block = caps(q->t)->block, first = at / block;
        uint8_t bytes[BLOCK_MAX];

        require(q->t, block <= sizeof(bytes), "blocks of %u bytes", block);
        memcpy(bytes, data + first * block, block);
        bytes[at % block] ^= 1;
        put_blocks(q, first, block, bytes);
}

CASE("nvm/compare/byte", MUST, RULES(NVM_COMPARE),
     "Compare detects a single different byte at the start, in the middle or at the end",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = compare_bytes(t), at[] = { 0, n / 2, n - caps(t)->block + caps(t)->plain - 1 };
        const uint8_t *data = pattern(t, n);

        require(t, le16_get(caps(t)->id.oncs) & ONCS_COMPARE, "Compare is not supported");
        for (int i = 0; i < 3; i++) {
                write_blocks(q, 0, n, data);
                change_byte(q, data, at[i]);
                expect_error(q, send_compare(q, .bytes = n, .data = data), NVME_COMPARE_FAILURE);
        }
}

CASE("nvm/fused/compare-write", MUST, RULES(NVM_FUSED),
     "A fused Compare and Write writes if and only if its Compare finds equal blocks",
     .writes = true)
{
        struct queue *q = fusing_queue(t);
        uint32_t n = caps(t)->block;
        const uint8_t *data = pattern(t, 2 * n);
        uint16_t compare, write;

        write_blocks(q, 0, n, data);
        compare = send_compare(q, .fuse = SQE_FUSE_FIRST, .data = data, .in_capsule = true);
        write = send_write(q, .fuse = SQE_FUSE_SECOND, .data = data + n, .in_capsule = true);
        succeed(q, compare);
        succeed(q, write);
        want_data(t, "what the Write wrote", read_blocks(q, 0, n), data + n, n);
        compare = send_compare(q, .fuse = SQE_FUSE_FIRST, .data = data, .in_capsule = true);
        write = send_write(q, .fuse = SQE_FUSE_SECOND, .data = data, .in_capsule = true);
        expect_error(q, compare, NVME_COMPARE_FAILURE);
        expect_error(q, write, NVME_ABORT_FAILED_FUSED);
        want_data(t, "what was there before", read_blocks(q, 0, n), data + n, n);
}

CASE("nvm/fused/ranges", SHOULD, RULES(NVM_FUSED_RANGES),
     "A fused Compare and Write with different block ranges is refused and writes nothing",
     .writes = true)
{
        struct queue *q = fusing_queue(t);
        uint32_t n = caps(t)->block;
        const uint8_t *data = pattern(t, 2 * n);
        uint16_t compare, write;

        put_blocks(q, 0, n, data);
        put_blocks(q, 1, n, data);
        compare = send_compare(q, .fuse = SQE_FUSE_FIRST, .data = data, .in_capsule = true);
        write =
            send_write(q, .slba = 1, .fuse = SQE_FUSE_SECOND, .data = data + n, .in_capsule = true);
        expect_error(q, compare, NVME_INVALID_FIELD);
        expect_error(q, write, NVME_INVALID_FIELD);
        want_data(t, "what was there before", read_blocks(q, 1, n), data, n);
}

CASE("nvm/fused/pair", SHOULD, RULES(NVM_FUSED_PAIR),
     "A Compare that is fused with a Compare, and a Read with a Write, is refused", .writes = true)
{
        struct queue *q = fusing_queue(t);
        uint32_t n = caps(t)->block;
        const uint8_t *data = pattern(t, 2 * n);
        uint16_t first, second;

        put_blocks(q, 0, n, data);
        first = send_compare(q, .fuse = SQE_FUSE_FIRST, .data = data, .in_capsule = true);
        second = send_compare(q, .fuse = SQE_FUSE_SECOND, .data = data, .in_capsule = true);
        expect_refusal(q, first);
        expect_refusal(q, second);
        first = send_read(q, .fuse = SQE_FUSE_FIRST);
        second = send_write(q, .fuse = SQE_FUSE_SECOND, .data = data + n, .in_capsule = true);
        expect_refusal(q, first);
        expect_refusal(q, second);
        want_bytes(t, "what was there before", read_blocks(q, 0, n), data, n);
}

/* Before 2.1 nothing is said of half a fused operation: it may be executed, or wait. */
static bool refuses_half(struct queue *q, uint16_t cid)
{
        enum { HALF_MS = 1000 };
        const char *seen = "it was executed";

        if (caps(q->t)->vs >= NVME_VERSION(2, 1, 0)) {
                expect_refusal(q, cid);
                return true;
        }
        if (!answers_within(q, cid, HALF_MS) && !ends_within(q, 1))
                seen = "no answer";
        else if (expect_answer(q, cid).status != NVME_SUCCESS || q->over)
                return true;
        advise(q->t, "an error status", "%s", seen);
        return false;
}

CASE("base/fused/alone", MUST, RULES(FUSE_ALONE),
     "A fused command without its other half fails with Command Aborted due to Missing Fused "
     "Command",
     .writes = true)
{
        struct queue *q = fusing_queue(t);
        uint32_t n = caps(t)->block;
        const uint8_t *data = pattern(t, 2 * n);
        uint16_t first;
        bool refused;

        put_blocks(q, 0, n, data);
        refused = refuses_half(
            q, send_write(q, .fuse = SQE_FUSE_SECOND, .data = data + n, .in_capsule = true));
        first = send_compare(q, .fuse = SQE_FUSE_FIRST, .data = data, .in_capsule = true);
        succeed(q, send_read(q));
        if (refuses_half(q, first) && refused)
                want_bytes(t, "what was there before", read_blocks(q, 0, n), data, n);
}

CASE("base/fused/reserved", MUST, RULES(FUSE_RESERVED),
     "A Read with the reserved FUSE 11b is refused")
{
        struct queue *q = io_queue(t);

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        expect_refusal(q, send_read(q, .fuse = SQE_FUSE_MASK));
        expect_works(q);
}

CASE("base/fused/unsupported", SHOULD, RULES(FUSE_UNSUPPORTED),
     "An admin command that claims to be half of a fused operation is refused")
{
        struct queue *q = admin_queue(t);

        mutate(q, "sqe.flags", SQE_PSDT_SGL | SQE_FUSE_FIRST);
        expect_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = 4096));
        expect_works(q);
}

CASE("nvm/write-zeroes/zeroes", MUST, RULES(NVM_ZEROES), "Blocks read as zeroes after Write Zeroes",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = r2t_bytes(t);

        require(t, le16_get(caps(t)->id.oncs) & ONCS_WRITE_ZEROES, "Write Zeroes is not supported");
        write_blocks(q, 0, n, NULL);
        succeed_slow(q, send_write_zeroes(q, .bytes = n));
        if (!are_filled(t, read_blocks(q, 0, n), n, 0))
                harm(t, "zeroes", "other data");
}

CASE("nvm/write-zeroes/alone", MUST, RULES(NVM_DATA),
     "Write Zeroes of two blocks changes those two blocks and no others", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t block = caps(t)->block;
        const uint8_t *data;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_WRITE_ZEROES, "Write Zeroes is not supported");
        data = write_row(q);
        succeed_slow(q, send_write_zeroes(q, .slba = 1, .bytes = 2 * block));
        for (uint32_t i = 1; i < ROW - 1; i++)
                want(t, are_filled(t, read_blocks(q, i, block), block, 0), "zeroes",
                     "block %u is not zeroes", i);
        want_ends(q, data);
}

/* To deallocate is an advice: a block may stay, or be what DLFEAT says. */
static void want_deallocated(struct queue *q, uint32_t i, const uint8_t *data)
{
        uint32_t block = caps(q->t)->block;
        const uint8_t *seen = read_blocks(q, i, block);

        want(q->t,
             memcmp(seen, data + i * block, block) == 0 || are_filled(q->t, seen, block, 0x00) ||
                 are_filled(q->t, seen, block, 0xff),
             "the old data, or all 00h or FFh", "other data in block %u", i);
}

CASE("nvm/dsm/deallocate-alone", MUST, RULES(NVM_DSM_RANGES),
     "Dataset Management that deallocates two blocks changes no other blocks", .writes = true)
{
        struct queue *q = io_queue(t);
        uint8_t range[16] = { [4] = 2 }; /* blocks; after them SLBA */
        const uint8_t *data;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_DSM, "Dataset Management is not supported");
        data = write_row(q);
        le_put(range + 8, 8, own_lba(t) + 1);
        succeed_slow(q, send_cmd(q, .opc = NVME_DSM, .nsid = caps(t)->nsid, .cdw11 = 4,
                                 .bytes = sizeof(range), .data = range,
                                 .in_capsule = caps(t)->in_capsule >= sizeof(range)));
        for (uint32_t i = 1; i < ROW - 1; i++)
                want_deallocated(q, i, data);
        want_ends(q, data);
}

CASE("nvm/dsm/long-sgl", SHOULD, RULES(FAB_SGL_LONG),
     "Dataset Management with an SGL longer than its ranges succeeds", .writes = true,
     .related = "nvmet b716e6889c95")
{
        struct queue *q = io_queue(t);
        uint8_t ranges[4096] = { 0 };

        require(t, le16_get(caps(t)->id.oncs) & ONCS_DSM, "Dataset Management is not supported");
        require(t, caps(t)->in_capsule >= sizeof(ranges), "the capsule has no room for data");
        le_put(ranges + 8, 8, own_lba(t)); /* none of its blocks */
        succeed_long(q, send_cmd(q, .opc = NVME_DSM, .nsid = caps(t)->nsid, .cdw10 = 0, .cdw11 = 4,
                                 .bytes = sizeof(ranges), .data = ranges, .in_capsule = true));
}

/* --- Flush */

CASE("nvm/flush/all", MUST, RULES(NVM_FLUSH),
     "Flush of namespace FFFFFFFFh succeeds or is refused, as bits 2:1 of VWC say")
{
        uint8_t behaviour = caps(t)->id.vwc >> 1 & 3;
        struct queue *q = io_queue(t);
        uint16_t cid;

        require(t, behaviour >= 2, "VWC does not say what Flush of all namespaces does");
        cid = send_cmd(q, .opc = NVME_FLUSH, .nsid = NSID_ALL);
        if (behaviour == 3)
                succeed(q, cid);
        else
                expect_error(q, cid, NVME_INVALID_NS);
        expect_works(q);
}
