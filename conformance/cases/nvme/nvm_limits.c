/* SPDX-License-Identifier: BSD-3-Clause */
/* NVM Command Set 3.3.3.1, 4.1.5.4: how large commands may be whose data does not travel. */
#include <string.h>

#include "conformance/words/case.h"

#include "conformance/engine/suite.h"
#include "pdu/nvme/wire/identify.h"

enum { DEALLOCATE = 1 << 2, RANGES = 256, NLB_MAX = 65536 };

/* Where commands go that are to be too large: to a subsystem that is there for it, or to the case's own
 * range. */
struct place {
        struct queue *q;
        const struct id_nvm_ctrl *limits;
        uint16_t oncs;
        uint32_t nsid, block;
        uint64_t lba, blocks;
};

static struct place find_place(struct t *t)
{
        const char *name = caps(t)->limited;
        struct queue *q = io_queue(t, .subnqn = name);
        struct place p = { q, NULL, le16_get(identify_ctrl(q->admin)->oncs), 0, 0, 0, 0 };
        const struct id_ns *ns;
        struct reply r;

        require(t, name || caps(t)->vs >= NVME_VERSION(2, 0, 0), "limits came with NVMe 2.0");
        p.nsid = name ? (uint32_t)le_get(identify(q->admin, CNS_NS_LIST, 0), 4) : caps(t)->nsid;
        require(t, p.nsid, "the subsystem has no namespace");
        p.lba = name ? 0 : own_lba(t);
        ns = identify(q->admin, CNS_NS, p.nsid);
        r = finish(q->admin, send_cmd(q->admin, .opc = NVME_IDENTIFY, .cdw10 = CNS_IOCS_CTRL,
                                      .bytes = IDENTIFY_LEN));
        require(t, r.status == NVME_SUCCESS, "there is no CNS 06h");
        p.limits = (const struct id_nvm_ctrl *)r.data;
        require(t, id_ns_metadata(ns) == 0, "the blocks have metadata");
        p.block = id_ns_block_size(ns);
        p.blocks = name ? le64_get(ns->nsze) : own_bytes(t) / caps(t)->block;
        return p;
}

static uint16_t send_bare(const struct place *p, uint8_t opc, uint64_t blocks, uint32_t bits)
{
        return send_cmd(p->q, .opc = opc, .nsid = p->nsid, .cdw10 = (uint32_t)p->lba,
                        .cdw11 = (uint32_t)(p->lba >> 32), .cdw12 = (uint32_t)(blocks - 1) | bits);
}

static const struct limited {
        const char *name;
        uint8_t opc;
        uint16_t oncs;
        uint32_t bits;
        bool only_if; /* it has a limit of its own */
        size_t at;    /* of the limit, in CNS 06h */
} commands[] = {
        { "Verify", NVME_VERIFY, ONCS_VERIFY, 0, false, offsetof(struct id_nvm_ctrl, vsl) },
        { "Write Zeroes", NVME_WRITE_ZEROES, ONCS_WRITE_ZEROES, 0, false,
          offsetof(struct id_nvm_ctrl, wzsl) },
        { "Write Zeroes with DEAC", NVME_WRITE_ZEROES, ONCS_WRITE_ZEROES, RW_DEAC, true,
          offsetof(struct id_nvm_ctrl, wzdsl) },
        { "Write Uncorrectable", NVME_WRITE_UNCORRECTABLE, ONCS_WRITE_UNCORRECTABLE, 0, false,
          offsetof(struct id_nvm_ctrl, wusl) },
};

/* Blocks of the largest such command, by CAP.MPSMIN; 0: none. */
static uint64_t most_blocks(const struct place *p, const struct limited *c)
{
        unsigned page = 12 + (unsigned)(caps(p->q->t)->cap >> 48 & 15);
        uint8_t limit = ((const uint8_t *)p->limits)[c->at];

        return limit && limit + page < 64 ? (UINT64_C(1) << (limit + page)) / p->block : 0;
}

static bool can_try(const struct place *p, const struct limited *c)
{
        uint64_t most = most_blocks(p, c);

        return !(p->oncs & c->oncs) && most > 0 && most < NLB_MAX && most < p->blocks;
}

/* By ONCS and no limit (4.1.5.4). */
static bool is_unsupported(const struct place *p, const struct limited *c)
{
        return !(p->oncs & c->oncs) && !c->only_if && !((const uint8_t *)p->limits)[c->at];
}

/* What Write Uncorrectable has marked is written again. */
static void restore(const struct place *p, uint64_t blocks)
{
        const uint8_t *data = pattern(p->q->t, p->block);

        for (uint64_t i = 0; i < blocks; i++)
                succeed(p->q, send_cmd(p->q, .opc = NVME_WRITE, .nsid = p->nsid,
                                       .cdw10 = (uint32_t)(p->lba + i),
                                       .cdw11 = (uint32_t)((p->lba + i) >> 32), .bytes = p->block,
                                       .data = data, .as_is = true));
}

CASE("nvm/limits/size", MUST, RULES(NVM_SIZE_LIMIT),
     "Verify, Write Zeroes and Write Uncorrectable succeed up to a limit in CNS 06h, and are "
     "refused beyond it",
     .writes = true)
{
        struct place p = find_place(t);
        unsigned tried = 0;

        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
                const struct limited *c = &commands[i];
                uint64_t most = most_blocks(&p, c);

                if (is_unsupported(&p, c)) {
                        expect_error(p.q, send_bare(&p, c->opc, 1, c->bits), NVME_INVALID_OPCODE);
                        tried++;
                }
                if (!can_try(&p, c))
                        continue;
                tried++;
                if (c->opc == NVME_VERIFY)
                        restore(&p, most);
                succeed_slow(p.q, send_bare(&p, c->opc, most, c->bits));
                if (c->opc == NVME_WRITE_UNCORRECTABLE)
                        restore(&p, most);
                expect_refusal(p.q, send_bare(&p, c->opc, most + 1, c->bits));
        }
        require(t, tried > 0, "ONCS says of each command that it has no limit");
}

static bool has_limits(const struct id_nvm_ctrl *l)
{
        return l->dmrl || le32_get(l->dmrsl) || le64_get(l->dmsl);
}

/* `count` ranges of so many blocks each, one beside the other. */
static uint16_t send_ranges(const struct place *p, unsigned count, uint32_t blocks)
{
        struct dsm_range *range = t_alloc(p->q->t, count * sizeof(*range));
        uint32_t bytes = count * (uint32_t)sizeof(*range);

        for (unsigned i = 0; i < count; i++)
                range[i] =
                    (struct dsm_range) { .blocks = le32(blocks),
                                         .slba = le64(p->lba + (uint64_t)i * blocks % p->blocks) };
        return send_cmd(p->q, .opc = NVME_DSM, .nsid = p->nsid, .cdw10 = count - 1,
                        .cdw11 = DEALLOCATE, .bytes = bytes, .data = range,
                        .in_capsule = caps(p->q->t)->in_capsule >= bytes);
}

CASE("nvm/limits/dsm", MUST, RULES(NVM_DSM_LIMIT),
     "Dataset Management beyond DMRL, DMRSL or DMSL is refused where ONCS says that these are "
     "limits",
     .writes = true)
{
        struct place p = find_place(t);
        const struct id_nvm_ctrl *l = p.limits;
        uint32_t range = le32_get(l->dmrsl);
        uint64_t total = le64_get(l->dmsl);

        require(t, !(p.oncs & ONCS_DSM) && has_limits(l), "Dataset Management has no such limits");
        succeed_slow(p.q, send_ranges(&p, 1, 1));
        if (l->dmrl && l->dmrl < RANGES - 1)
                expect_refusal(p.q, send_ranges(&p, l->dmrl + 1u, 1));
        if (range && range < p.blocks)
                expect_refusal(p.q, send_ranges(&p, 1, range + 1));
        if (total && total < p.blocks && range && total / range < l->dmrl)
                expect_refusal(p.q, send_ranges(&p, (unsigned)(total / range) + 1, range));
        expect_works(p.q->admin);
}

CASE("nvm/limits/dsm-advised", MUST, RULES(NVM_DSM_ADVISED),
     "Dataset Management of 256 ranges succeeds where ONCS.NVMDSMSV says that none is too large",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct place p = { .q = q, .nsid = caps(t)->nsid, .lba = own_lba(t) };

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, le16_get(caps(t)->id.oncs) & ONCS_DSM, "ONCS.NVMDSMSV is 0");
        p.blocks = own_bytes(t) / caps(t)->block;
        require(t, !caps(t)->mdts || caps(t)->mdts >= RANGES * sizeof(struct dsm_range),
                "MDTS is less than 256 ranges");
        succeed_slow(q, send_ranges(&p, RANGES, 1));
        succeed_slow(q, send_ranges(&p, 1, (uint32_t)p.blocks));
}
