/* SPDX-License-Identifier: BSD-3-Clause */
/* NVM Command Set 3.3: what is ignored or a hint, deallocated blocks, and what stays. */
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case.h"

/* Arbitration: bursts of two commands. Hint bits of Read, Write and Dataset Management. */
enum { BURST = 1, PRACT = 1 << 29, PRCHK = 7 << 26, STC = 1 << 24 };
enum { RANGE = sizeof(struct dsm_range) };

/* --- what is ignored, and hints */

/* A command with a block of data of its own, through whatever takes that. */
static uint16_t send_block(struct queue *q, uint8_t opc, uint64_t slba, const struct cmd *bits,
                           const void *data)
{
        uint64_t lba = own_lba(q->t) + slba;
        bool compare =
            opc == NVME_COMPARE; /* it has no hints, and PRACT is 0 (N1.2 3.3.1, figure 26) */

        return send_cmd(q, .opc = opc, .nsid = caps(q->t)->nsid, .cdw2 = bits->cdw2,
                        .cdw3 = bits->cdw3, .cdw10 = (uint32_t)lba, .cdw11 = (uint32_t)(lba >> 32),
                        .cdw12 = compare ? bits->cdw12 & ~(uint32_t)PRACT : bits->cdw12,
                        .cdw13 = compare ? 0 : bits->cdw13, .cdw14 = bits->cdw14,
                        .cdw15 = bits->cdw15, .bytes = caps(q->t)->block, .data = data,
                        .in_capsule =
                            opc != NVME_READ && caps(q->t)->in_capsule >= caps(q->t)->block);
}

static void succeed_with(struct queue *q, const struct cmd *bits)
{
        const uint8_t *data = write_six(q);
        uint32_t block = caps(q->t)->block;

        succeed(q, send_block(q, NVME_WRITE, 2, bits, data));
        want_bytes(q->t, "what was written",
                   succeed(q, send_block(q, NVME_READ, 2, bits, NULL)).data, data, block);
        if (le16_get(caps(q->t)->id.oncs) & ONCS_COMPARE)
                succeed(q, send_block(q, NVME_COMPARE, 2, bits, data));
        want_block(q, 1, data + block);
        want_block(q, 3, data + 3 * block);
}

CASE("nvm/protection/ignored", MUST, RULES(NVM_NO_PROTECTION),
     "Read, Write and Compare ignore PRINFO, STC and tags on a namespace without protection "
     "information",
     .writes = true)
{
        struct queue *q = io_queue(t);
        bool wide =
            caps(t)->vs >= NVME_VERSION(2, 0, 0); /* STC and upper tags were reserved before */
        struct cmd all = { .cdw2 = wide ? UINT32_MAX : 0,
                           .cdw3 = wide ? UINT16_MAX : 0,
                           .cdw12 = PRACT | PRCHK | (wide ? STC : 0),
                           .cdw14 = UINT32_MAX,
                           .cdw15 = UINT32_MAX };
        struct cmd check = { .cdw12 = PRCHK };

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, !caps(t)->pi, "the namespace has protection information");
        succeed_with(q, &check);
        succeed_with(q, &all);
}

static uint16_t send_dsm(struct queue *q, uint32_t slba, uint32_t attributes, uint32_t bits)
{
        uint8_t *range = t_alloc(q->t, RANGE); /* R2T may ask for it later */

        require(q->t, le16_get(caps(q->t)->id.oncs) & ONCS_DSM,
                "Dataset Management is not supported");
        le_put(range, 4, attributes);
        le_put(range + 4, 4, 1);
        le_put(range + 8, 8, own_lba(q->t) + slba);
        return send_cmd(q, .opc = NVME_DSM, .nsid = caps(q->t)->nsid, .cdw11 = bits, .bytes = RANGE,
                        .data = range, .in_capsule = caps(q->t)->in_capsule >= RANGE);
}

/* Attributes that conflict with each other may be refused (N1.2 figures 48, 58, 75), one alone not. */
static bool is_in_conflict(uint16_t status)
{
        enum { CONFLICTING_ATTRIBUTES = 0x180 };

        return status == CONFLICTING_ATTRIBUTES;
}

CASE("nvm/hints/read-write", MUST, RULES(NVM_HINTS),
     "Read and Write with any dataset hint succeed with the right data, and with several unless "
     "they conflict",
     .writes = true)
{
        static const struct cmd alone[] = {
                { .cdw13 = 0x06 }, { .cdw13 = 0x30 }, { .cdw13 = 0x40 }, { .cdw13 = 0x80 }
        };
        static const struct cmd all = { .cdw13 = 0xf6 };
        struct queue *q = io_queue(t);
        const uint8_t *data;

        for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++)
                succeed_with(q, &alone[i]);
        data = write_six(q);
        if (is_in_conflict(finish(q, send_block(q, NVME_WRITE, 2, &all, data)).status))
                want_block(q, 2, data + 2 * caps(t)->block);
        else if (!is_in_conflict(finish(q, send_block(q, NVME_READ, 2, &all, NULL)).status))
                succeed_with(q, &all);
}

CASE("nvm/hints/dsm", MUST, RULES(NVM_HINTS),
     "Dataset Management accepts all its attributes, and without Deallocate changes no data",
     .writes = true)
{
        enum { CONTEXT = 0x08000735 };
        struct queue *q = io_queue(t);
        uint32_t block = caps(t)->block;
        const uint8_t *data;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_DSM, "Dataset Management is not supported");
        data = write_six(q);
        for (uint32_t bits = 0; bits < 4; bits++) {
                struct reply r = finish_slow(q, send_dsm(q, bits, CONTEXT, bits));

                if (!is_in_conflict(r.status))
                        check_success(q, r);
                succeed_slow(q, send_dsm(q, bits, 0, bits));
        }
        for (uint32_t i = 0; i < SIX; i++)
                want_block(q, i, data + i * block);
        for (uint32_t bits = 4; bits < 8; bits++)
                succeed_slow(q, send_dsm(q, 0, 0, bits));
        for (uint32_t i = 1; i < SIX; i++)
                want_block(q, i, data + i * block);
}

/* --- deallocated blocks */

CASE("nvm/dsm/deallocated", MUST, RULES(NVM_DEALLOCATED),
     "A block after Dataset Management with Deallocate has its old data, or reads as DLFEAT says, "
     "twice the same",
     .writes = true)
{
        struct queue *q = io_queue(t);
        const struct id_ns *ns = identify(q->admin, CNS_NS, caps(t)->nsid);
        uint8_t behaviour = ns->dlfeat & 7, first[BLOCK_MAX];
        uint32_t block = caps(t)->block;
        const uint8_t *data = write_six(q);

        succeed_slow(q, send_dsm(q, 2, 0, 4));
        memcpy(first, read_blocks(q, 2, block), block);
        want(t,
             memcmp(first, data + 2 * block, block) == 0 ||
                 (behaviour != 2 && are_filled(t, first, block, 0x00)) ||
                 (behaviour != 1 && are_filled(t, first, block, 0xff)),
             behaviour == 1   ? "the old data, or all 00h"
             : behaviour == 2 ? "the old data, or all FFh"
                              : "the old data, or all 00h or FFh",
             "other data");
        if (memcmp(first, data + 2 * block, block) != 0) /* else it may be deallocated by and by */
                want_block(q, 2, first);
        put_block(q, 2, data);
        want_block(q, 2, data);
}

/* --- what stays */

CASE("nvm/data/kept", MUST, RULES(NVM_KEPT),
     "What was written is still there after a Controller Reset, and in a new association",
     .writes = true)
{
        struct queue *q = io_queue(t);
        const uint8_t *data = write_six(q);

        set_cc(q->admin, 0, CSTS_RDY, 0);
        set_cc(q->admin, CC_RUN, CSTS_RDY, CSTS_RDY);
        hang_up(q->admin);
        q = io_queue(t);
        for (uint32_t i = 0; i < SIX; i++)
                want_block(q, i, data + i * caps(t)->block);
}

static bool can_set(struct queue *q, uint8_t fid, uint32_t value)
{
        return finish(q, send_set_feature(q, fid, value)).status == NVME_SUCCESS;
}

CASE("nvm/flush/cache-off", MUST, RULES(NVM_FLUSH),
     "Flush succeeds while the volatile write cache is off")
{
        struct queue *q = io_queue(t);
        struct reply was;
        uint16_t status;

        require(t, caps(t)->id.vwc & 1, "there is no volatile write cache");
        require(t, caps(t)->nsid, "the subsystem has no namespace");
        was = finish(q->admin,
                     send_cmd(q->admin, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_WRITE_CACHE));
        require(t, was.status == NVME_SUCCESS && can_set(q->admin, FEAT_WRITE_CACHE, 0),
                "it cannot be turned off");
        status = finish(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid)).status;
        can_set(q->admin, FEAT_WRITE_CACHE, was.dw0);
        want_eq(t, "the status of Flush", status, NVME_SUCCESS);
}

/* --- features of the NVM command set */

CASE("nvm/feature/write-atomicity", MUST, RULES(FEAT_STAYS),
     "Write Atomicity Normal, where supported, returns the value that was set")
{
        struct queue *q = admin_queue(t);
        struct reply was =
            finish(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_WRITE_ATOMICITY));

        require(t, was.status == NVME_SUCCESS && can_set(q, FEAT_WRITE_ATOMICITY, 1),
                "it cannot be set");
        for (int i = 0; i < 4; i++) { /* each value read twice */
                uint32_t value = i < 2, seen;

                if (i == 2)
                        succeed(q, send_set_feature(q, FEAT_WRITE_ATOMICITY, value));
                seen = get_feature(q, FEAT_WRITE_ATOMICITY);
                want(t, seen == value, "the value that was set", "%Xh", seen);
        }
        can_set(q, FEAT_WRITE_ATOMICITY, was.dw0);
}

/* --- associations */

CASE("fab/association/fresh", MUST, RULES(ASSOC_FRESH),
     "A new association begins with the default Arbitration, whatever the one before has set")
{
        struct queue *q = admin_queue(t);
        uint32_t first;

        require(t, !caps(t)->fixed, "the subsystem is of the static controller model");
        require(t, can_set(q, FEAT_ARBITRATION, BURST), "Arbitration cannot be set");
        hang_up(q);
        q = admin_queue(t);
        first = get_feature(q, FEAT_ARBITRATION);
        succeed(q, send_set_feature(q, FEAT_ARBITRATION, (first & 7) == BURST ? 0 : BURST));
        hang_up(q);
        q = admin_queue(t);
        want(t, get_feature(q, FEAT_ARBITRATION) == first, "the default value", "another value");
}

CASE("fab/connect/ignored", MUST, RULES(FAB_CONNECT_IGNORED),
     "Connect ignores NVMSETID of the admin queue, and the priority class of an I/O queue")
{
        struct queue *q = bare_queue(t), *io;

        expect_connected(q, send_connect(q, .nvmsetid = 0xfffe));
        q = admin_queue(t);
        grant_queue(q);
        io = join(q);
        expect_connected(io, send_connect(io, .cattr = 2));
}

CASE("fab/property/cc-new", MUST, RULES(FAB_CC_READBACK),
     "CC.EN is 0 on an admin queue that has just been connected")
{
        want(t, !(property_get(admin_queue(t, .disabled = true), PROP_CC) & CC_EN), "CC.EN 0",
             "CC.EN 1");
}

CASE("fab/discovery/cntlid", MUST, RULES(FAB_CONNECT_CNTLID_DYN),
     "Connect to the discovery service with a specific CNTLID, which is of the dynamic model, is "
     "refused",
     .needs = DISCOVERY)
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .subnqn = NQN_DISCOVERY, .cntlid = 5, .kato = 0));
}

/* --- directives: Base 8.1.8.1 */

/* Those of I/O commands that the controller has enabled for the namespace: bits 1 << type. */
static uint16_t directives(struct queue *q, uint32_t nsid)
{
        enum {
                DIRECTIVE_RECEIVE = 0x1a,
                RETURN_PARAMETERS = 1,
                BYTES = 4096,
                ENABLED = 32,
                OACS = 1 << 5
        };
        const uint8_t *data;

        if (!(le16_get(caps(q->t)->id.oacs) & OACS))
                return 0;
        data = succeed(q->admin,
                       send_cmd(q->admin, .opc = DIRECTIVE_RECEIVE, .nsid = nsid,
                                .cdw10 = BYTES / 4 - 1, .cdw11 = RETURN_PARAMETERS, .bytes = BYTES))
                   .data;
        return (uint16_t)(le_get(data + ENABLED, 2) & ~1u);
}

CASE("nvm/write/directive", MUST, RULES(NVM_DIRECTIVE),
     "A Write with a reserved DTYPE succeeds where no directive is enabled, and is refused where "
     "one is",
     .writes = true)
{
        enum { DTYPE_RESERVED = 6u << 20, DSPEC = 0x1234u << 16 };
        struct queue *q = io_queue(t);
        uint32_t nsid = caps(t)->nsid, block;
        uint16_t cid;

        require(t, nsid, "the subsystem has no namespace");
        require(t, caps(t)->vs >= NVME_VERSION(1, 3, 0), "directives came with NVMe 1.3");
        block = caps(t)->block;
        cid = send_cmd(q, .opc = NVME_WRITE, .nsid = nsid, .cdw10 = (uint32_t)own_lba(t),
                       .cdw11 = (uint32_t)(own_lba(t) >> 32), .cdw12 = DTYPE_RESERVED,
                       .cdw13 = DSPEC, .bytes = block, .data = pattern(t, block),
                       .in_capsule = caps(t)->in_capsule >= block);
        if (directives(q, nsid)) {
                expect_error(q, cid, NVME_INVALID_FIELD);
                return;
        }
        succeed(q, cid);
        want_bytes(t, "what was written", read_blocks(q, 0, block), pattern(t, block), block);
}

CASE("nvm/write/announced-sgl", MUST, RULES(SGLS_ANNOUNCED),
     "A Write takes the data that SGLS and IOCCSZ say may be in its capsule", .writes = true)
{
        enum { OFFSET = 1 << 20 };
        struct queue *q = io_queue(t);

        require(t, le32_get(caps(t)->id.sgls) & OFFSET, "SGLS bit 20 is 0");
        require(t, caps(t)->in_capsule >= caps(t)->block && caps(t)->block,
                "no block fits the capsule");
        succeed(q, send_write(q, .in_capsule = true));
}
