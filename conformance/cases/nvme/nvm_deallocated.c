/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVM Command Set 2.1.1, 3.3.3.2.1, 4.1.3.2: which blocks count as deallocated, as DULBE shows it. It
 * is set for the namespace, so that these cases run alone.
 */
#include <string.h>

#include "conformance/words/case.h"

#include "conformance/engine/suite.h"

enum {
        ROW = 4,
        DAE = 1 << 2, /* NSFEAT */
        THINP = 1 << 0,
        DRB_ZEROES = 1, /* DLFEAT */
        DRB_ONES = 2,
        DULBE = 1 << 16,
        DEFAULT = 1 << 8, /* SEL of Get Features */
        QUIET_MS = 50
};

static const struct id_ns *identify_ns(struct queue *q)
{
        return identify(q->admin, CNS_NS, caps(q->t)->nsid);
}

static uint16_t send_recovery(struct queue *admin, uint32_t value)
{
        return send_cmd(admin, .opc = NVME_SET_FEATURES, .nsid = caps(admin->t)->nsid,
                        .cdw10 = FEAT_ERROR_RECOVERY, .cdw11 = value);
}

static uint32_t recovery(struct queue *admin, uint32_t select)
{
        return succeed(admin,
                       send_cmd(admin, .opc = NVME_GET_FEATURES, .nsid = caps(admin->t)->nsid,
                                .cdw10 = FEAT_ERROR_RECOVERY | select))
            .dw0;
}

/* From here on reading deallocated blocks is an error. */
static struct queue *strict_queue(struct t *t)
{
        struct queue *q = io_queue(t);

        require(t, caps(t)->nsid && caps(t)->block <= BLOCK_MAX, "no blocks of at most %u bytes",
                BLOCK_MAX);
        require_carried(t, ROW);
        require(t, identify_ns(q)->nsfeat & DAE, "NSFEAT.DAE is 0: DULBE is not supported");
        require(t, !(keep_feature(q->admin, FEAT_ERROR_RECOVERY, caps(t)->nsid, 0, 0).dw0 & DULBE),
                "Error Recovery is in use");
        succeed(q->admin, send_recovery(q->admin, DULBE));
        return q;
}

static const uint8_t *write_row(struct queue *q)
{
        uint32_t block = caps(q->t)->block;
        const uint8_t *data = pattern(q->t, ROW * block);

        for (uint32_t i = 0; i < ROW; i++)
                write_blocks(q, i, block, data + i * block);
        return data;
}

static struct reply read_one(struct queue *q, uint64_t i, uint32_t blocks)
{
        return finish(q, send_read(q, .slba = i, .bytes = blocks * caps(q->t)->block));
}

/* By Write Zeroes, or Dataset Management; whether the controller has done it. */
static bool deallocate(struct queue *q, uint64_t i)
{
        uint16_t oncs = le16_get(caps(q->t)->id.oncs);
        struct dsm_range range = { .blocks = le32(1), .slba = le64(own_lba(q->t) + i) };

        if (oncs & ONCS_DSM)
                succeed_slow(q, send_cmd(q, .opc = NVME_DSM, .nsid = caps(q->t)->nsid, .cdw11 = 4,
                                         .bytes = sizeof(range), .data = &range,
                                         .in_capsule = caps(q->t)->in_capsule >= sizeof(range)));
        if (read_one(q, i, 1).status == NVME_DEALLOCATED)
                return true;
        if (oncs & ONCS_WRITE_ZEROES)
                finish(q, send_write_zeroes(q, .slba = i, .bytes = caps(q->t)->block,
                                            .cdw12 = RW_DEAC));
        return read_one(q, i, 1).status == NVME_DEALLOCATED;
}

static uint16_t send_verify(struct queue *q, uint64_t i)
{
        uint64_t lba = own_lba(q->t) + i;

        return send_cmd(q, .opc = NVME_VERIFY, .nsid = caps(q->t)->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32));
}

static uint16_t send_copy(struct queue *q, uint64_t from, uint64_t to)
{
        uint64_t lba = own_lba(q->t) + to;
        struct copy_range *range = t_alloc(q->t, sizeof(*range));

        *range = (struct copy_range) { .slba = le64(own_lba(q->t) + from) };
        return send_cmd(q, .opc = NVME_COPY, .nsid = caps(q->t)->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32), .bytes = sizeof(*range), .data = range,
                        .in_capsule = caps(q->t)->in_capsule >= sizeof(*range));
}

static bool copies(struct queue *q)
{
        return le16_get(caps(q->t)->id.oncs) & ONCS_COPY && le16_get(caps(q->t)->id.cdfs) & 1;
}

static void want_status(struct queue *q, const char *what, uint16_t seen, uint16_t right)
{
        want(q->t, seen == right, status_name(right), "status %u/%02Xh of %s", seen >> 8,
             seen & 0xff, what);
}

CASE("nvm/dulbe/alike", MUST, RULES(NVM_DULBE),
     "With DULBE, Read, Verify, Compare and Copy of a deallocated block all fail with 2/87h, until "
     "it is written",
     .writes = true, .alone = true, .after = undo)
{
        struct queue *q = strict_queue(t);
        const uint8_t *data = write_row(q);
        uint32_t block = caps(t)->block;
        uint16_t oncs = le16_get(caps(t)->id.oncs);

        require(t, deallocate(q, 1), "the controller does not deallocate a single block");
        want_status(q, "a Read of it and its neighbours", read_one(q, 0, 3).status,
                    NVME_DEALLOCATED);
        if (oncs & ONCS_VERIFY)
                want_status(q, "Verify", finish(q, send_verify(q, 1)).status, NVME_DEALLOCATED);
        if (oncs & ONCS_COMPARE)
                want_status(q, "Compare",
                            finish(q, send_compare(q, .slba = 1, .data = data,
                                                   .in_capsule = caps(t)->in_capsule >= block))
                                .status,
                            NVME_DEALLOCATED);
        if (copies(q))
                want_status(q, "Copy", finish(q, send_copy(q, 1, 3)).status, NVME_DEALLOCATED);
        want_status(q, "a Read after those", read_one(q, 1, 1).status, NVME_DEALLOCATED);
        succeed(q, send_read(q));
        write_blocks(q, 1, block, data);
        want_bytes(t, "what was written", read_blocks(q, 1, block), data, block);
        if (oncs & ONCS_VERIFY)
                succeed(q, send_verify(q, 1));
}

/* The block is deallocated again, and then not any more. */
static void want_written(struct queue *q, const char *by, uint16_t cid, uint16_t status)
{
        succeed(q, cid);
        want_status(q, by, read_one(q, 1, 1).status, status);
        require(q->t, deallocate(q, 1), "a block is deallocated only once");
}

CASE("nvm/dulbe/written", MUST, RULES(NVM_ALLOCATED),
     "A block that Write, Copy, Write Uncorrectable or Write Zeroes has written is not a "
     "deallocated one",
     .writes = true, .alone = true, .after = undo)
{
        struct queue *q = strict_queue(t);
        const uint8_t *data = write_row(q);
        uint16_t oncs = le16_get(caps(t)->id.oncs);
        uint32_t block = caps(t)->block;
        uint64_t lba = own_lba(t) + 1;

        require(t, deallocate(q, 1), "the controller does not deallocate a single block");
        want_written(
            q, "a Read after Write",
            send_write(q, .slba = 1, .data = data, .in_capsule = caps(t)->in_capsule >= block),
            NVME_SUCCESS);
        if (oncs & ONCS_WRITE_ZEROES && (identify_ns(q)->dlfeat & 7) == DRB_ONES)
                want_written(q, "a Read after Write Zeroes, which may not deallocate here",
                             send_write_zeroes(q, .slba = 1, .bytes = block, .cdw12 = RW_DEAC),
                             NVME_SUCCESS);
        if (copies(q))
                want_written(q, "a Read after Copy", send_copy(q, 0, 1), NVME_SUCCESS);
        if (oncs & ONCS_WRITE_UNCORRECTABLE)
                want_written(q, "a Read after Write Uncorrectable",
                             send_cmd(q, .opc = NVME_WRITE_UNCORRECTABLE, .nsid = caps(t)->nsid,
                                      .cdw10 = (uint32_t)lba, .cdw11 = (uint32_t)(lba >> 32)),
                             NVME_UNRECOVERED_READ);
        write_blocks(q, 1, block, data);
}

CASE("nvm/write-zeroes/deallocates", SHOULD, RULES(NVM_DEAC),
     "Write Zeroes with DEAC deallocates where deallocated blocks read as zeroes", .writes = true,
     .alone = true, .after = undo)
{
        struct queue *q = strict_queue(t);
        uint8_t dlfeat = identify_ns(q)->dlfeat;
        uint32_t block = caps(t)->block;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_WRITE_ZEROES, "Write Zeroes is not supported");
        require(t, (dlfeat & 7) == DRB_ZEROES && dlfeat & 8,
                "deallocated blocks do not read as zeroes, or DEAC is not supported");
        write_row(q);
        succeed(q, send_write_zeroes(q, .bytes = ROW * block, .cdw12 = RW_DEAC));
        want_status(q, "a Read after Write Zeroes with DEAC", read_one(q, 0, ROW).status,
                    NVME_DEALLOCATED);
}

CASE("nvm/feature/error-recovery", MUST, RULES(NVM_RECOVERY),
     "Error Recovery returns TLER and DULBE as they were set, and DULBE 0 by default",
     .writes = true, .alone = true, .after = undo)
{
        struct queue *q = io_queue(t), *admin = q->admin;
        bool dae = caps(t)->nsid && identify_ns(q)->nsfeat & DAE;
        uint32_t value = 0x123 | (dae ? DULBE : 0);

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require_feature(admin, keep_feature(admin, FEAT_ERROR_RECOVERY, caps(t)->nsid, 0, 0),
                        "Error Recovery is not supported");
        require_feature(admin, finish(admin, send_recovery(admin, value)),
                        "Error Recovery cannot be set");
        want_eq(t, "Error Recovery as it was set", recovery(admin, 0), value);
        want_eq(t, "TLER without DULBE", finish(admin, send_recovery(admin, 1)).status,
                NVME_SUCCESS);
        want_eq(t, "Error Recovery as it was set again", recovery(admin, 0), 1);
        if (le16_get(caps(t)->id.oncs) & ONCS_SAVE)
                want(t, !(recovery(admin, DEFAULT) & DULBE), "DULBE 0 by default", "DULBE 1");
}

/* False: it has another value after a Controller Reset, which somebody else may have set by now. */
static bool comes_back(struct queue *admin, uint32_t initial)
{
        require_feature(admin, finish(admin, send_recovery(admin, initial ^ 1)),
                        "Error Recovery cannot be set");
        set_cc(admin, CC_RUN & ~CC_EN, CSTS_RDY, 0);
        set_cc(admin, CC_RUN, CSTS_RDY, CSTS_RDY);
        return recovery(admin, 0) == initial;
}

CASE("nvm/feature/error-recovery-reset", MUST, RULES(FEAT_RESET),
     "Error Recovery has its default value after a Controller Reset", .writes = true, .alone = true,
     .after = undo)
{
        enum { CAPABILITIES = 3 << 8, SAVEABLE = 1 << 0, CHANGEABLE = 1 << 2, TRIES = 3 };
        struct queue *admin = admin_queue(t);
        uint32_t initial, can;
        int tries = 0;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, le16_get(caps(t)->id.oncs) & ONCS_SAVE,
                "ONCS does not announce Select and Save");
        require_feature(admin, keep_feature(admin, FEAT_ERROR_RECOVERY, caps(t)->nsid, 0, 0),
                        "Error Recovery is not supported");
        can = recovery(admin, CAPABILITIES);
        require(t, (can & (SAVEABLE | CHANGEABLE)) == CHANGEABLE,
                "Error Recovery is saveable or cannot be changed");
        initial = recovery(admin, DEFAULT);
        require(t, recovery(admin, 0) == initial, "Error Recovery is in use");
        while (tries < TRIES && !comes_back(admin, initial))
                tries++;
        want(t, tries < TRIES, "the default value of Error Recovery after a Controller Reset",
             "another one, %d times", TRIES);
}

/* --- NUSE */

static uint64_t use(struct queue *q)
{
        return le64_get(identify_ns(q)->nuse);
}

/* NUSE when it is within these, or has had the time to be: nothing says how soon it follows. */
static uint64_t use_within(struct queue *q, uint64_t least, uint64_t most)
{
        uint64_t until = 0, seen;

        do
                seen = use(q);
        while ((seen < least || seen > most) && look_again(q->t, &until));
        return seen;
}

/* A change of the tested namespace; others may change at any time, and other events cannot be disabled. */
static bool tells_of_it(struct queue *admin, uint16_t aer)
{
        const le32_t *list;

        if (!answered(admin, aer))
                return false;
        if ((expect_success(admin, aer).dw0 & 0xffff) != (AEN_NOTICE | AEN_INFO_NS_CHANGED << 8))
                return false;
        list = take_changed(admin);
        for (unsigned i = 0; i < CHANGED_NSIDS; i++)
                if (le32_get(list[i]) == caps(admin->t)->nsid)
                        return true;
        return false;
}

CASE("nvm/identify/use", MUST, RULES(NVM_USE),
     "NUSE of a thin namespace falls as a block is deallocated, rises as it is written, and no "
     "notice "
     "tells of it",
     .writes = true, .alone = true, .after = undo)
{
        struct queue *q = io_queue(t);
        uint64_t full, less;
        uint16_t aer;
        uint32_t told = le32_get(caps(t)->id.oaes) & OAES_NS;

        require(t, caps(t)->nsid && identify_ns(q)->nsfeat & THINP, "NSFEAT.THINP is 0");
        require(t, identify_ns(q)->nsfeat & DAE, "what is deallocated is not told");
        q = strict_queue(t);
        if (told) {
                take_changed(q->admin);
                succeed(q->admin, send_set_feature(q->admin, FEAT_AEC, told));
        }
        aer = send_cmd(q->admin, .opc = NVME_AER);
        write_row(q);
        full = use(q);
        require(t, deallocate(q, 1), "the controller does not deallocate a single block");
        less = use_within(q, 0, full - 1);
        want(t, less < full, "NUSE lower than before", "%llu, before %llu",
             (unsigned long long)less, (unsigned long long)full);
        write_row(q);
        want_eq(t, "NUSE when the block is written again", use_within(q, full, full), full);
        pause_ms(t, QUIET_MS);
        expect_works(q->admin);
        want(t, !told || !tells_of_it(q->admin, aer), "no notice",
             "a notice that the attributes of the namespace have changed");
}
