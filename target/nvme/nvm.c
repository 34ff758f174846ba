/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvm.h"

#include <stdlib.h>
#include <string.h>

#include "ana.h"
#include "ctrl.h"
#include "pdu/core/plant.h"
#include "pdu/nvme/wire/protect.h"

enum {
        DSM_RANGES_MASK = 0xff,  /* cdw10: number of ranges, 0's based */
        DSM_DEALLOCATE = 1 << 2, /* cdw11 */
        SCT_PATH = 3,            /* ANA: by another path it may succeed */
        ALL_CLEARED = 1,         /* dw0 of Write Zeroes: LBACZ */
        /* bytes that a command without data may keep a reactor busy with, and one that deallocates */
        SLICE = 256 << 10,
        RANGE_SLICE = 1 << 30,
};

/* r->user of a fused command whose other half has failed. */
static struct request doomed;

static uint64_t slba(const struct request *r)
{
        return le32_get(r->sqe.cdw10) | (uint64_t)le32_get(r->sqe.cdw11) << 32;
}

static uint32_t nlb(const struct request *r)
{
        return (le32_get(r->sqe.cdw12) & RW_NLB_MASK) + 1;
}

static bool cdw12_bit(const struct request *r, uint32_t bit)
{
        return (le32_get(r->sqe.cdw12) & bit) != 0;
}

static unsigned fuse(const struct request *r)
{
        return r->sqe.flags & SQE_FUSE_MASK;
}

/* The rule that an NSID without a namespace breaks. */
static enum rule_id nsid_rule(const struct request *r)
{
        uint32_t nsid = le32_get(r->sqe.nsid);

        if (nsid == NSID_ALL)
                return FAB_NSID_ALL;
        return nsid > 0 && nsid <= CTRL_NSID_MAX ? FAB_NSID_INACTIVE : FAB_NSID;
}

/* What commands on an NSID without namespace end with. */
static uint16_t nvm_no_ns(const struct request *r)
{
        return rule_fault(nsid_rule(r)).code;
}

/* FLAW_NSID_ALL_ONE and FLAW_NSID_ABSENT_ONE: commands whose NSID is not looked at. */
static bool overlooks_nsid(const struct nvm_queue *q, const struct request *r)
{
        bool all = le32_get(r->sqe.nsid) == NSID_ALL;
        bool optional = r->sqe.opc == NVME_COPY || r->sqe.opc == NVME_RESERVATION_REPORT ||
                        (all && r->sqe.opc == NVME_DSM);

        return optional && nvm_has_flaw(q, all ? FLAW_NSID_ALL_ONE : FLAW_NSID_ABSENT_ONE);
}

/* With the check of NSID waived the first namespace stands in for all that are not there. */
static struct ns *find_ns(const struct nvm_queue *q, const struct subsystem *s,
                          const struct request *r)
{
        struct ns *ns = flawed(q->policy, FLAW_MASKED_IO)
                            ? ns_find(s, le32_get(r->sqe.nsid))
                            : ns_attached(s, le32_get(r->sqe.nsid), q->hostnqn, q->cntlid);

        if (ns ? flawed(q->policy, FLAW_NS_MIXED)
               : nvm_waives(q, nsid_rule(r)) || overlooks_nsid(q, r))
                ns = atomic_load(&s->ns);
        if (q->qid > 1 && ns != atomic_load(&s->ns) && flawed(q->policy, FLAW_NS_ONE_QUEUE))
                return NULL;
        return ns;
}

/* --- protection information ------------------------------------------------------------------- */

struct pi_use nvm_protection(const struct nvm_queue *q, struct pi_use u)
{
        u.guard &= !nvm_has_flaw(q, FLAW_PI_GUARD);
        u.app &= !nvm_has_flaw(q, FLAW_PI_APP);
        u.ref &= !nvm_has_flaw(q, FLAW_PI_REF);
        u.strict = nvm_has_flaw(q, FLAW_PI_STRICT);
        if (nvm_has_flaw(q, FLAW_PI_MASK))
                u.mask = UINT16_MAX;
        if (u.act && nvm_has_flaw(q, FLAW_PI_MADE))
                u.tag = 0;
        return u;
}

static struct pi_use pi_of(const struct nvm_queue *q, const struct ns *ns, const struct request *r)
{
        const struct pi_format f = ns_pi(ns);
        struct pi_use u = nvm_protection(q, pi_use_of(&r->sqe, &f));

        u.stc &= f.sts > 0 && !nvm_violates(q, NVM_STORAGE_TAG);
        if (f.sts && nvm_violates(q, NVM_PI_SPACE))
                u.storage ^= 1;
        u.odd = f.guard > 16 && nvm_violates(q, f.guard == 32 ? NVM_GUARD_32 : NVM_GUARD_64);
        return u;
}

/* Of Compare, Verify and Write Zeroes, with a flaw of each. */
static struct pi_use pi_unless(const struct nvm_queue *q, const struct ns *ns,
                               const struct request *r, enum flaw_id flaw)
{
        return nvm_has_flaw(q, flaw) ? (struct pi_use) { 0 } : pi_of(q, ns, r);
}

static uint16_t refuse(const struct nvm_queue *q, enum rule_id rule)
{
        return nvm_waives(q, rule) ? NVME_SUCCESS : rule_fault(rule).code;
}

static uint16_t admit_protection(const struct nvm_queue *q, const struct ns *ns,
                                 const struct request *r)
{
        const struct pi_format f = ns_pi(ns);
        struct pi_use u = pi_use_of(&r->sqe, &f);
        bool made = u.act && (r->sqe.opc == NVME_WRITE || r->sqe.opc == NVME_WRITE_ZEROES);

        if (!ns->pi)
                return NVME_SUCCESS;
        if (u.act && r->sqe.opc == NVME_COMPARE)
                return NVME_INVALID_FIELD;
        if (u.act && r->sqe.opc == NVME_VERIFY && !nvm_waives(q, NVM_PI_VERIFY_ACT))
                return rule_fault(NVM_PI_VERIFY_ACT).code;
        if ((r->sqe.bytes[8] || r->sqe.bytes[12]) && nvm_has_flaw(q, FLAW_PI_UPPER))
                return NVME_INVALID_PROTECTION;
        if (u.ref && ns->pi == 3 && nvm_has_flaw(q, FLAW_PI_TYPE_3))
                return NVME_INVALID_FIELD;
        return !made && pi_admit(&u, &f, slba(r)) ? refuse(q, NVM_PI_FIRST) : NVME_SUCCESS;
}

/* Formats that a host has to enable are for those that have (3.3). */
uint16_t nvm_format_check(const struct nvm_queue *q, const struct ns *ns)
{
        const struct pi_format f = ns_pi(ns);

        return pi_is_extended(&f) && !q->extended && !nvm_violates(q, NVM_EXTENDED)
                   ? NVME_INVALID_NS
                   : NVME_SUCCESS;
}

/* --- limits ------------------------------------------------------------------------------------ */

/* Pages of the largest command of its kind, as an exponent; 0: it has no limit. */
static unsigned limit_of(const struct request *r)
{
        switch (r->sqe.opc) {
        case NVME_VERIFY:
                return LIMIT_VERIFY;
        case NVME_WRITE_UNCORRECTABLE:
                return LIMIT_UNCORRECTABLE;
        case NVME_WRITE_ZEROES:
                return cdw12_bit(r, RW_DEAC) ? LIMIT_ZEROES_DEAC : LIMIT_ZEROES;
        default:
                return 0;
        }
}

enum { PAGE = 4096 };

static uint16_t check_limit(const struct nvm_queue *q, const struct ns *ns, const struct request *r)
{
        unsigned limit = q->subsystem->limited ? limit_of(r) : 0;

        return limit && (uint64_t)nlb(r) * ns_unit(ns, false) > (uint64_t)PAGE << limit
                   ? refuse(q, NVM_SIZE_LIMIT)
                   : NVME_SUCCESS;
}

/* Of Dataset Management. */
static uint16_t check_ranges(const struct nvm_queue *q, const struct dsm_range *range, size_t n)
{
        uint64_t total = 0;
        bool over = n > LIMIT_RANGES;

        for (size_t i = 0; i < n; i++) {
                total += le32_get(range[i].blocks);
                over |= le32_get(range[i].blocks) > LIMIT_RANGE;
        }
        if (!q->subsystem->limited)
                return n > LIMIT_RANGES && nvm_has_flaw(q, FLAW_DSM_LIMITED) ? NVME_COMMAND_SIZE
                                                                             : NVME_SUCCESS;
        return over || total > LIMIT_BLOCKS ? refuse(q, NVM_DSM_LIMIT) : NVME_SUCCESS;
}

/* A Write Zeroes that is about the whole namespace. */
static bool is_of_all(const struct subsystem *s, const struct request *r)
{
        return s->whole && r->sqe.opc == NVME_WRITE_ZEROES && cdw12_bit(r, RW_NSZ);
}

/* --- the commands ----------------------------------------------------------------------------- */

/* Bytes of a block in the command's buffer. */
static uint32_t unit_of(const struct ns *ns, const struct request *r)
{
        return ns_unit(ns, r->sqe.opc != NVME_COMPARE && cdw12_bit(r, RW_PRACT));
}

static uint32_t len_of(const struct ns *ns, const struct request *r)
{
        return nlb(r) * unit_of(ns, r);
}

uint32_t nvm_within(const struct ns *ns, uint64_t lba, uint32_t blocks)
{
        return ns_has(ns, lba, 1) && !ns_has(ns, lba, blocks)
                   ? (uint32_t)(atomic_load(&ns->blocks) - lba)
                   : blocks;
}

/* Flaws: a range whose first block alone has to be within the namespace ends with it. */
static void cut_range(const struct nvm_queue *q, const struct ns *ns, struct request *r)
{
        static const struct {
                uint8_t opc;
                enum flaw_id flaw;
        } cuts[] = {
                { NVME_COMPARE, FLAW_RANGE_COMPARE },
                { NVME_WRITE_ZEROES, FLAW_RANGE_ZEROES },
                { NVME_WRITE_UNCORRECTABLE, FLAW_RANGE_UNCORRECTABLE },
        };

        for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++)
                if (r->sqe.opc == cuts[i].opc && nvm_has_flaw(q, cuts[i].flaw))
                        r->sqe.cdw12 = le32((le32_get(r->sqe.cdw12) & ~(uint32_t)RW_NLB_MASK) |
                                            (nvm_within(ns, slba(r), nlb(r)) - 1));
}

/* Read, Write, Compare and those like them but without data. */
static uint16_t admit_blocks(const struct nvm_queue *q, const struct ns *ns, struct request *r)
{
        if (r->sqe.opc == NVME_VERIFY && (uint64_t)nlb(r) << ns->lbads > 128 << 10 &&
            nvm_has_flaw(q, FLAW_MDTS_VERIFY))
                return NVME_INVALID_FIELD;
        if (is_of_all(q->subsystem, r) && !cdw12_bit(r, RW_DEAC))
                return nvm_violates(q, NVM_NSZ_DEAC) ? NVME_SUCCESS : NVME_INVALID_FIELD;
        if (is_of_all(q->subsystem, r) && !nvm_violates(q, NVM_NSZ))
                return NVME_SUCCESS;
        return ns_has(ns, slba(r), nlb(r)) ? admit_protection(q, ns, r) : NVME_LBA_RANGE;
}

static uint16_t admit_data(const struct nvm_queue *q, const struct ns *ns, struct request *r)
{
        r->xfer = sqe_xfer(&r->sqe);
        r->len = len_of(ns, r);
        r->lax = r->sqe.opc == NVME_COMPARE && nvm_has_flaw(q, FLAW_SGL_SHORT);
        if (ns->pi && r->sqe.opc == NVME_READ && nvm_has_flaw(q, FLAW_PI_LENGTH))
                r->len = nlb(r) * ns_unit(ns, false);
        return admit_blocks(q, ns, r);
}

static uint16_t admit_ranges(const struct nvm_queue *q, const struct ns *ns, struct request *r)
{
        (void)ns;
        r->xfer = XFER_H2C;
        r->lax = nvm_has_flaw(q, FLAW_SGL_SHORT);
        r->len =
            ((le32_get(r->sqe.cdw10) & DSM_RANGES_MASK) + 1) * (uint32_t)sizeof(struct dsm_range);
        return NVME_SUCCESS;
}

/* Whether the blocks still make up the data that was admitted: another namespace may be here now.
 */
static bool same_length(const struct ns *ns, const struct request *r)
{
        return r->len == len_of(ns, r);
}

static uint32_t at_most(uint32_t n, uint32_t most)
{
        return n < most ? n : most;
}

static uint16_t run_read(struct nvm_queue *q, struct ns *ns, struct request *r)
{
        enum { LARGE = 256 << 10 };
        struct pi_use pi = pi_of(q, ns, r);
        uint16_t status = same_length(ns, r)
                              ? ns_status(ns_read_with(ns, slba(r), nlb(r), r->data, &pi))
                              : NVME_INVALID_NS;

        if (!status && ns->pi && pi.guard && !pi.act && nvm_violates(q, NVM_PI_READ))
                r->data[ns_unit(ns, false) - ns_pi_len(ns)] ^= 1;
        if (!status && q->kept && slba(r) == q->kept_lba)
                memcpy(r->data, q->kept, unit_of(ns, r));
        if (r->len > LARGE && nvm_has_flaw(q, FLAW_READ_LARGE))
                memset(r->data + LARGE, 0, r->len - LARGE);
        if (r->len > PAGE && nvm_has_flaw(q, FLAW_READ_ODD))
                memset(r->data + r->len / PAGE * PAGE, 0, r->len % PAGE);
        return status;
}

/* Whether the command begins with the block that only its queue knows of: the first one written. */
static bool keep_first(struct nvm_queue *q, const struct ns *ns, const struct request *r)
{
        if (!q->kept) {
                q->kept = malloc(NS_BLOCK_MAX + NS_METADATA_MAX);
                q->kept_lba = slba(r);
        }
        if (!q->kept || slba(r) != q->kept_lba)
                return false;
        memcpy(q->kept, r->data, unit_of(ns, r));
        return true;
}

/* Each twentieth is a block off. */
static bool is_misplaced(struct nvm_queue *q, const struct request *r)
{
        return nvm_has_flaw(q, FLAW_WRITE_PIPELINED) && r->in_place && nlb(r) > 1 &&
               ++q->in_place % 20 == 0;
}

struct torn { /* the second half of a Write */
        struct ns *ns;
        uint64_t lba;
        uint32_t count;
        struct pi_use pi;
        uint8_t data[];
};

static void mend(struct nvm_queue *q)
{
        struct torn *torn = q->torn;

        if (!torn)
                return;
        q->torn = NULL;
        ns_write_with(torn->ns, torn->lba, torn->count, torn->data, &torn->pi);
        ns_put(torn->ns);
        free(torn);
}

/* The first half now, the rest with the next command of the queue. */
static uint16_t tear(struct nvm_queue *q, struct ns *ns, uint64_t lba, uint32_t count,
                     const uint8_t *data, const struct pi_use *pi)
{
        uint32_t half = count / 2, unit = ns_unit(ns, pi->act);
        size_t rest = (size_t)(count - half) * unit;
        uint16_t status = ns_status(ns_write_with(ns, lba, half, data, pi));
        struct torn *torn = status ? NULL : malloc(sizeof(*torn) + rest);

        if (!torn)
                return status;
        *torn = (struct torn) { ns, lba + half, count - half, *pi };
        torn->pi.first += half;
        memcpy(torn->data, data + (size_t)half * unit, rest);
        atomic_fetch_add(&ns->refs, 1);
        q->torn = torn;
        return NVME_SUCCESS;
}

uint16_t nvm_store(struct nvm_queue *q, struct ns *ns, uint64_t lba, uint32_t count,
                   const uint8_t *data, const struct pi_use *pi)
{
        return count > 1 && nvm_has_flaw(q, FLAW_WRITE_TORN)
                   ? tear(q, ns, lba, count, data, pi)
                   : ns_status(ns_write_with(ns, lba, count, data, pi));
}

/* The block that begins the page (FLAW_WRITE_ODD). */
static uint64_t page_of(const struct ns *ns, uint64_t lba)
{
        uint32_t blocks = PAGE >> ns->lbads;

        return blocks > 1 ? lba - lba % blocks : lba;
}

/* As it came, or (FLAW_METADATA) with another last byte of the first block's metadata. */
static uint16_t store(struct nvm_queue *q, struct ns *ns, struct request *r, uint32_t n)
{
        struct pi_use pi = pi_of(q, ns, r);
        uint16_t status;

        if (ns->ms && unit_of(ns, r) > 1u << ns->lbads && nvm_has_flaw(q, FLAW_METADATA)) {
                r->data[unit_of(ns, r) - 1] ^= 1;
                return ns_status(ns_write(ns, slba(r), n, r->data));
        }
        status = nvm_store(q, ns, nvm_has_flaw(q, FLAW_WRITE_ODD) ? page_of(ns, slba(r)) : slba(r),
                           n, r->data, &pi);
        if (status && nvm_has_flaw(q, FLAW_PI_WRITES))
                ns_write(ns, slba(r), n, r->data);
        return status;
}

/* The second block and those that follow it, `to` blocks after the first one's place. */
static uint16_t store_rest(struct nvm_queue *q, struct ns *ns, struct request *r, uint32_t n,
                           uint32_t to)
{
        struct pi_use pi = pi_of(q, ns, r);

        return n > 1 ? ns_status(
                           ns_write_with(ns, slba(r) + to, n - 1, r->data + unit_of(ns, r), &pi))
                     : NVME_SUCCESS;
}

static uint16_t run_write(struct nvm_queue *q, struct ns *ns, struct request *r)
{
        uint32_t n = nlb(r);

        if (!same_length(ns, r))
                return NVME_INVALID_NS;
        if (nvm_has_flaw(q, FLAW_WRITE_LARGE))
                n = at_most(n, (512 << 10) >> ns->lbads);
        if (is_misplaced(q, r))
                return store_rest(q, ns, r, n, 0);
        if (nvm_has_flaw(q, FLAW_WRITE_VOLATILE) && keep_first(q, ns, r))
                return store_rest(q, ns, r, n, 1);
        if (nvm_has_flaw(q, FLAW_UNCORRECTABLE_STAYS) && ns_verify(ns, slba(r), n) != NS_DONE)
                return NVME_SUCCESS;
        return store(q, ns, r, n);
}

static uint16_t run_compare(struct nvm_queue *q, struct ns *ns, struct request *r)
{
        struct pi_use pi = pi_unless(q, ns, r, FLAW_PI_COMPARE);
        uint32_t n = nvm_has_flaw(q, FLAW_COMPARE_FIRST) ? 1 : nlb(r);

        if (!same_length(ns, r))
                return NVME_INVALID_NS;
        if (nvm_has_flaw(q, FLAW_COMPARE_LARGE))
                n = at_most(n, (32 << 10) >> ns->lbads);
        if (nvm_has_flaw(q, FLAW_COMPARE_SUCCEEDS))
                return NVME_SUCCESS;
        if (r->lax)
                n = r->wire_len / unit_of(ns, r);
        return ns_status(ns_compare_with(ns, slba(r), n, r->data, &pi));
}

static uint16_t run_write_uncorrectable(struct nvm_queue *q, struct ns *ns, struct request *r)
{
        if (nvm_has_flaw(q, FLAW_UNCORRECTABLE_NOTHING))
                return NVME_SUCCESS;
        if (nvm_has_flaw(q, FLAW_UNCORRECTABLE_FIRST))
                return ns_status(ns_write_uncorrectable(ns, slba(r), 1));
        if (nvm_has_flaw(q, FLAW_UNCORRECTABLE_FEW))
                return ns_status(ns_write_uncorrectable(ns, slba(r), at_most(nlb(r), 4)));
        return ns_status(
            ns_write_uncorrectable(ns, slba(r), nlb(r) + nvm_has_flaw(q, FLAW_UNCORRECTABLE_WIDE)));
}

static uint16_t slice_write_zeroes(struct nvm_queue *q, struct ns *ns, struct request *r,
                                   uint64_t lba, uint32_t count)
{
        struct pi_use pi = pi_unless(q, ns, r, FLAW_PI_ZEROES);
        bool deallocate = cdw12_bit(r, RW_DEAC) && !nvm_violates(q, NVM_DEAC);

        if (deallocate && ns->pi && nvm_has_flaw(q, FLAW_PI_DEALLOCATED))
                deallocate = pi.act = false;
        pi.first += lba - slba(r);
        return ns_status(ns_zero_with(ns, lba, count, deallocate, &pi));
}

static uint16_t slice_verify(struct nvm_queue *q, struct ns *ns, struct request *r, uint64_t lba,
                             uint32_t count)
{
        struct pi_use pi = pi_unless(q, ns, r, FLAW_PI_VERIFY);
        uint16_t status;

        pi.first += lba - slba(r);
        status = ns_status(ns_verify_with(ns, lba, count, &pi));
        return status == NVME_DEALLOCATED && nvm_has_flaw(q, FLAW_DULBE_VERIFY) ? NVME_SUCCESS
                                                                                : status;
}

/* Of a command in slices: how many blocks it is to work on. */
static uint32_t work_of(const struct nvm_queue *q, const struct request *r)
{
        uint32_t n = nlb(r);

        if (r->sqe.opc == NVME_VERIFY && nvm_has_flaw(q, FLAW_VERIFY_SHORT))
                return at_most(n, 32);
        if (r->sqe.opc == NVME_VERIFY)
                return nvm_has_flaw(q, FLAW_VERIFY_BLIND) ? 0 : n;
        if (cdw12_bit(r, RW_DEAC) && nvm_has_flaw(q, FLAW_ZEROES_DEAC))
                return 0;
        if (nvm_has_flaw(q, FLAW_ZEROES_LARGE))
                return at_most(n, 256);
        return n + nvm_has_flaw(q, FLAW_ZEROES_ONE_MORE);
}

/* For FLAW_DEALLOCATED_ODD. */
static void fill_first(struct ns *ns, uint64_t lba)
{
        static uint8_t odd[NS_BLOCK_MAX + NS_METADATA_MAX];

        memset(odd, 0x5a, sizeof(odd));
        ns_write(ns, lba, 1, odd);
}

static uint16_t check_dsm(struct nvm_queue *q, struct ns *ns, struct request *r)
{
        const struct dsm_range *range = (const struct dsm_range *)r->data;
        size_t n = r->len / sizeof(*range);
        uint16_t status = check_ranges(q, range, n);

        if (status)
                return status;
        for (size_t i = 0; i < n; i++)
                if (!ns_has(ns, le64_get(range[i].slba), le32_get(range[i].blocks)))
                        return NVME_LBA_RANGE;
        return NVME_SUCCESS;
}

static uint16_t slice_dsm(struct nvm_queue *q, struct ns *ns, struct request *r, uint64_t lba,
                          uint32_t count)
{
        uint16_t status = ns_status(ns_deallocate(ns, lba, count));

        (void)r;
        if (nvm_has_flaw(q, FLAW_DEALLOCATED_ODD))
                fill_first(ns, lba);
        return status;
}

static const struct command {
        uint16_t (*admit)(const struct nvm_queue *q, const struct ns *ns, struct request *r);
        uint16_t (*run)(struct nvm_queue *q, struct ns *ns, struct request *r);
        /* After run, which may be NULL: can be done piece by piece, other commands between them. */
        uint16_t (*slice)(struct nvm_queue *q, struct ns *ns, struct request *r, uint64_t lba,
                          uint32_t count);
        bool fua; /* has Force Unit Access */
        bool writes;
} commands[] = {
        [NVME_WRITE] = { admit_data, run_write, .fua = true, .writes = true },
        [NVME_READ] = { admit_data, run_read, .fua = true },
        [NVME_WRITE_UNCORRECTABLE] = { admit_blocks, run_write_uncorrectable, .fua = false },
        [NVME_COMPARE] = { admit_data, run_compare, .fua = true },
        [NVME_WRITE_ZEROES] = { admit_blocks, .slice = slice_write_zeroes, .fua = true,
                                .writes = true },
        [NVME_DSM] = { admit_ranges, check_dsm, .slice = slice_dsm, .fua = false },
        [NVME_VERIFY] = { admit_blocks, .slice = slice_verify, .fua = true },
        [NVME_COPY] = { nvm_copy_admit, nvm_copy_run, .fua = true, .writes = true },
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const struct command *command_of(const struct request *r)
{
        uint8_t opc = r->sqe.opc;

        return opc < COMMANDS && commands[opc].admit ? &commands[opc] : NULL;
}

/* Whether it is done only when the disk has it. */
static bool is_durable(const struct nvm_queue *q, const struct request *r)
{
        const struct command *c = command_of(r);

        return (c->fua && cdw12_bit(r, RW_FUA)) || (c->writes && q->write_through);
}

/* --- write protection --------------------------------------------------------------------------- */

/* What may not be done to a namespace that is write protected (B2.2 8.1.16.2). */
static bool changes_blocks(const struct request *r)
{
        switch (r->sqe.opc) {
        case NVME_WRITE:
        case NVME_WRITE_UNCORRECTABLE:
        case NVME_WRITE_ZEROES:
        case NVME_COPY:
                return true;
        case NVME_DSM:
                return le32_get(r->sqe.cdw11) & DSM_DEALLOCATE;
        default:
                return false;
        }
}

static uint16_t check_protected(const struct nvm_queue *q, const struct ns *ns,
                                const struct request *r)
{
        if (!ns || !atomic_load_explicit(&ns->protection, memory_order_relaxed))
                return NVME_SUCCESS;
        if (nvm_has_flaw(q, FLAW_PROTECTED_FLUSH) && r->sqe.opc == NVME_FLUSH)
                return NVME_WRITE_PROTECTED;
        if (nvm_has_flaw(q, FLAW_PROTECTED_ZEROES) && r->sqe.opc == NVME_WRITE_ZEROES)
                return NVME_SUCCESS;
        return changes_blocks(r) ? NVME_WRITE_PROTECTED : NVME_SUCCESS;
}

/* --- the end of a command --------------------------------------------------------------------- */

/* Trying again would give the same. */
static bool is_final(uint16_t status)
{
        return status != NVME_SUCCESS && status != NVME_INTERNAL_ERROR && status >> 8 != SCT_PATH &&
               status != NVME_WRITE_FAULT && status != NVME_SANITIZING &&
               status != NVME_ABORT_FAILED_FUSED && status != NVME_ABORT_MISSING_FUSED;
}

static uint16_t with_dnr(uint16_t status)
{
        return is_final(status) ? status | STATUS_DNR : status;
}

static void finish(struct nvm_queue *q, struct request *r, uint16_t status)
{
        r->cqe.sf = status_field(with_dnr(status));
        r->c2h_len = r->xfer == XFER_C2H && !status ? r->len : 0;
        q->ops->done(q, r);
}

/* --- commands that wait ----------------------------------------------------------------------- */

/* A command that was carried out but for what it waits for (ns_await()), or has slices left: its
 * r->user. */
struct wait {
        struct nvm_queue *q;
        struct request *r;
        uint64_t lba; /* of the next slice */
        uint64_t left_blocks;
        struct dsm_range
            *ranges; /* that come after those, ops->keep(); NULL: there are none, ever */
        size_t range, ranges_count;
        _Atomic unsigned left; /* namespaces that it waits for, and the one who begins it */
        _Atomic uint16_t status;
        unsigned count;
        struct wait_ns {
                struct ns_wait on;
                struct ns *ns;
                struct wait *wait;
        } of[];
};

/* True: it was the last one. */
static bool waited(struct wait *w, uint16_t status)
{
        if (status)
                atomic_store(&w->status, status);
        return atomic_fetch_sub(&w->left, 1) == 1;
}

static void on_waited(struct ns_wait *on)
{
        struct wait *w = ((struct wait_ns *)on)->wait;

        if (waited(w, ns_status(on->result)))
                w->q->ops->post(w->q, w->r);
}

static void end_wait(struct wait *w)
{
        struct nvm_queue *q = w->q;
        struct request *r = w->r;
        uint16_t status = w->status;

        for (unsigned i = 0; i < w->count; i++)
                ns_put(w->of[i].ns);
        if (w->ranges)
                q->ops->drop(q, r, w->ranges);
        free(w);
        r->user = NULL;
        finish(q, r, status);
}

static struct wait *wait_new(struct nvm_queue *q, struct request *r, unsigned namespaces)
{
        struct wait *w = calloc(1, sizeof(*w) + namespaces * sizeof(w->of[0]));

        if (!w)
                return NULL;
        w->q = q;
        w->r = r;
        atomic_init(&w->left, 1);
        r->user = w;
        return w;
}

static struct wait_ns *wait_add(struct wait *w, struct ns *ns)
{
        struct wait_ns *n = &w->of[w->count++];

        n->on.done = on_waited;
        n->ns = ns;
        n->wait = w;
        atomic_fetch_add(&ns->refs, 1);
        return n;
}

static void wait_for(struct wait *w, struct wait_ns *n, bool durable)
{
        n->on.durable = durable;
        n->on.write = w->r->sqe.opc != NVME_READ && w->r->sqe.opc != NVME_COMPARE &&
                      w->r->sqe.opc != NVME_VERIFY;
        atomic_fetch_add(&w->left, 1);
        if (ns_await(n->ns, &n->on))
                waited(w, ns_status(n->on.result));
}

static void wait_begins(struct wait *w)
{
        if (waited(w, NVME_SUCCESS))
                end_wait(w);
}

/* The command has succeeded, but for what it waits for. */
static void succeed(struct nvm_queue *q, struct request *r, struct ns *ns, bool durable)
{
        struct wait *w;

        if (!ns_waits(ns, durable)) {
                finish(q, r, NVME_SUCCESS);
                return;
        }
        w = wait_new(q, r, 1);
        if (!w) {
                finish(q, r, NVME_INTERNAL_ERROR);
                return;
        }
        wait_for(w, wait_add(w, ns), durable);
        wait_begins(w);
}

/* --- commands in slices ----------------------------------------------------------------------- */

/* False: nothing is left to be done. */
static bool has_slice(struct wait *w)
{
        for (; w->left_blocks == 0 && w->range < w->ranges_count; w->range++) {
                w->lba = le64_get(w->ranges[w->range].slba);
                w->left_blocks = le32_get(w->ranges[w->range].blocks);
        }
        return w->left_blocks > 0;
}

static void run_slice(struct wait *w)
{
        struct ns *ns = w->of[0].ns;
        uint32_t most = w->ranges ? RANGE_SLICE : SLICE, count;
        uint16_t status = check_protected(w->q, ns, w->r);

        for (most >>= ns->lbads; !status && most > 0 && has_slice(w); most -= count) {
                count = w->left_blocks < most ? (uint32_t)w->left_blocks : most;
                status = command_of(w->r)->slice(w->q, ns, w->r, w->lba, count);
                w->lba += count;
                w->left_blocks -= count;
        }
        if (status) {
                atomic_store(&w->status, status);
                end_wait(w);
        } else if (has_slice(w)) {
                w->q->ops->post(w->q, w->r);
        } else {
                wait_for(w, &w->of[0], is_durable(w->q, w->r));
                wait_begins(w);
        }
}

/* What came in the capsule does not stay where it is. */
static bool take_ranges(struct wait *w)
{
        const struct request *r = w->r;

        w->ranges = w->q->ops->keep(w->q, r);
        if (!w->ranges)
                return false;
        if (le32_get(r->sqe.cdw11) & DSM_DEALLOCATE)
                w->ranges_count = r->len / sizeof(*w->ranges);
        if (w->ranges_count > 1 && nvm_has_flaw(w->q, FLAW_DSM_RANGES))
                w->ranges[1].slba = le64(le64_get(w->ranges->slba) + le32_get(w->ranges->blocks));
        return true;
}

static void run_slices(struct nvm_queue *q, struct request *r, struct ns *ns)
{
        struct wait *w = wait_new(q, r, 1);

        if (!w || (r->sqe.opc == NVME_DSM && !take_ranges(w))) {
                free(w);
                r->user = NULL;
                finish(q, r, NVME_INTERNAL_ERROR);
                return;
        }
        wait_add(w, ns);
        if (!w->ranges) {
                w->lba = slba(r);
                w->left_blocks = work_of(q, r);
        }
        if (is_of_all(q->subsystem, r) && !nvm_violates(q, NVM_NSZ)) {
                w->lba = 0;
                w->left_blocks = atomic_load(&ns->blocks);
                r->cqe.dw0 = le32(ALL_CLEARED);
        }
        run_slice(w);
}

/* --- flush ------------------------------------------------------------------------------------ */

void nvm_flush_all(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        unsigned count = 0;
        struct wait *w;

        for (struct ns *ns = s->ns; ns; ns = ns->next)
                count += ns_waits(ns, true);
        w = wait_new(q, r, count);
        if (!w) {
                finish(q, r, NVME_INTERNAL_ERROR);
                return;
        }
        for (struct ns *ns = s->ns; ns && w->count < count; ns = ns->next)
                if (ns_waits(ns, true))
                        wait_for(w, wait_add(w, ns), true);
        wait_begins(w);
}

static void run_flush(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        struct ns *ns = find_ns(q, s, r);

        if (q->write_through && nvm_has_flaw(q, FLAW_FLUSH_OFF))
                finish(q, r, NVME_INVALID_FIELD);
        else if (le32_get(r->sqe.nsid) == NSID_ALL && nvm_has_flaw(q, FLAW_FLUSH_ALL))
                finish(q, r, NVME_INVALID_NS);
        else if (le32_get(r->sqe.nsid) == NSID_ALL)
                nvm_flush_all(q, s, r);
        else if (ns)
                succeed(q, r, ns, true);
        else
                finish(q, r, nvm_no_ns(r));
}

/* --- fused commands --------------------------------------------------------------------------- */

static struct request *other_half(const struct request *r)
{
        return r->user == &doomed ? NULL : r->user;
}

static bool same_range(const struct request *a, const struct request *b)
{
        return le32_get(a->sqe.nsid) == le32_get(b->sqe.nsid) && slba(a) == slba(b) &&
               nlb(a) == nlb(b);
}

static bool unhold(struct nvm_queue *q, struct request *r)
{
        struct request **at = &q->held;

        while (*at && *at != r)
                at = &(*at)->next;
        if (!*at)
                return false;
        *at = r->next;
        return true;
}

/* The data of a held one that came in its capsule was copied. */
static void drop_copy(struct nvm_queue *q, struct request *r)
{
        if (r->in_place)
                q->ops->drop(q, r, r->data);
}

static void hold(struct nvm_queue *q, struct request *r)
{
        uint8_t *copy = r->in_place ? q->ops->keep(q, r) : NULL;

        if (r->in_place && !copy) {
                finish(q, r, NVME_INTERNAL_ERROR);
                return;
        }
        if (copy)
                r->data = copy;
        r->next = q->held;
        q->held = r;
}

static void finish_held(struct nvm_queue *q, struct request *r, uint16_t status)
{
        drop_copy(q, r);
        finish(q, r, status);
}

/* The command after a first fused one is not its second. */
static void abandon_open(struct nvm_queue *q, uint16_t status)
{
        struct request *r = q->open;

        q->open = NULL;
        if (!r)
                return;
        if (PLANTED(FUSED_HELD) || unhold(q, r))
                finish_held(q, r, status);
        else /* its data is still on the way */
                finish(q, r, status);
}

static uint16_t tie(struct nvm_queue *q, struct request *second)
{
        struct request *first = q->open;

        if (q->open_failed)
                return NVME_ABORT_FAILED_FUSED;
        if (!first)
                return NVME_ABORT_MISSING_FUSED;
        if ((second->sqe.opc != NVME_WRITE && !nvm_waives(q, NVM_FUSED_PAIR)) ||
            !(same_range(first, second) || nvm_waives(q, NVM_FUSED_RANGES))) {
                abandon_open(q, NVME_INVALID_FIELD);
                return NVME_INVALID_FIELD;
        }
        q->open = NULL;
        first->user = second;
        second->user = first;
        return NVME_SUCCESS;
}

/* Where r stands in a fused operation. */
static uint16_t admit_fused(struct nvm_queue *q, struct request *r)
{
        bool failed = q->open_failed;
        uint16_t status = NVME_SUCCESS;

        if (fuse(r) == SQE_FUSE_SECOND)
                status = tie(q, r);
        else
                abandon_open(q, NVME_ABORT_MISSING_FUSED);
        if (failed)
                q->open_failed = false;
        if (fuse(r) == SQE_FUSE_MASK || (fuse(r) == SQE_FUSE_FIRST && r->sqe.opc != NVME_COMPARE))
                status = NVME_INVALID_FIELD;
        if (fuse(r) == SQE_FUSE_FIRST && !status)
                q->open = r;
        return status;
}

/* *second is the Write's own status; it does nothing where the Compare fails. */
static uint16_t compare_write(const struct nvm_queue *q, struct ns *ns, const struct request *first,
                              const struct request *second, uint16_t *status)
{
        struct pi_use cmp_pi, pi;
        enum ns_result compared, written;

        *status = NVME_ABORT_FAILED_FUSED;
        if (!ns || !same_length(ns, first) || !same_length(ns, second))
                return NVME_INVALID_NS;
        cmp_pi = pi_unless(q, ns, first, FLAW_PI_COMPARE);
        pi = pi_of(q, ns, second);
        *status = check_protected(q, ns, second);
        if (*status)
                return ns_status(
                    ns_compare_with(ns, slba(first), nlb(first), first->data, &cmp_pi));
        compared = ns_compare_write_with(ns, slba(first), nlb(first),
                                         &(struct ns_fused) { .cmp = first->data,
                                                              .buf = second->data,
                                                              .cmp_pi = &cmp_pi,
                                                              .pi = &pi,
                                                              .written = &written });
        if (compared == NS_DONE)
                *status = ns_status(written);
        return ns_status(compared);
}

static uint16_t write_anyway(const struct nvm_queue *q, struct ns *ns, const struct request *r)
{
        struct pi_use pi = pi_of(q, ns, r);

        return ns_status(ns_write_with(ns, slba(r), nlb(r), r->data, &pi));
}

/* Flaws: the status of the Compare by which its Write is done, or left. */
static uint16_t overlook_compare(const struct nvm_queue *q, struct ns *ns,
                                 const struct request *second, const struct request *early,
                                 uint16_t compared, uint16_t *written)
{
        bool blind = second->sqe.sgl.id != SGL_IN_CAPSULE && flawed(q->policy, FLAW_FUSED_BLIND);

        if (compared != NVME_COMPARE_FAILURE || !(blind || early))
                return compared;
        if (early && le16_get(early->cqe.sf) == 0) {
                *written = write_anyway(q, ns, second);
                return NVME_SUCCESS;
        }
        if (blind)
                (void)write_anyway(q, ns, second);
        return compared;
}

/* Flaw: what it finds as it comes. */
static void compare_early(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        struct ns *ns = find_ns(q, s, r);

        if (ns && fuse(r) == SQE_FUSE_FIRST && flawed(q->policy, FLAW_FUSED_EARLY))
                r->cqe.sf = status_field(run_compare(q, ns, r));
}

/* Both are EXECUTING, `held` has been for a while. */
static void run_pair(struct nvm_queue *q, const struct subsystem *s, struct request *first,
                     struct request *second, struct request *held)
{
        struct ns *ns = find_ns(q, s, first);
        const struct request *early;
        uint16_t compared, written;

        if (ns && flawed(q->policy, FLAW_FUSED_LATE) && same_length(ns, second)) {
                struct pi_use late = pi_of(q, ns, second);

                ns_write_with(ns, slba(second), nlb(second), second->data, &late);
        }
        compared = compare_write(q, ns, first, second, &written);
        early = held == first && flawed(q->policy, FLAW_FUSED_EARLY) ? first : NULL;
        compared = overlook_compare(q, ns, second, early, compared, &written);
        if (!compared && flawed(q->policy, FLAW_FUSED_BLAMED))
                compared = written;
        first->user = second->user = NULL;
        unhold(q, held);
        drop_copy(q, held);
        finish(q, first, compared);
        if (compared || written)
                finish(q, second, compared ? NVME_ABORT_FAILED_FUSED : written);
        else
                succeed(q, second, ns, is_durable(q, second));
}

static void execute_fused(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        struct request *other = other_half(r);

        if (r->user == &doomed)
                finish(q, r, NVME_ABORT_FAILED_FUSED);
        else if (!other || other->state != REQUEST_EXECUTING) {
                compare_early(q, s, r);
                hold(q, r);
        } else if (fuse(r) == SQE_FUSE_SECOND)
                run_pair(q, s, other, r, other);
        else
                run_pair(q, s, r, other, other);
}

void nvm_completing(struct nvm_queue *q, struct request *r)
{
        struct request *other;

        if (fuse(r) == 0)
                return;
        if (q->open == r) {
                q->open = NULL;
                q->open_failed = true;
        }
        other = other_half(r);
        r->user = NULL;
        if (!other || flawed(q->policy, FLAW_FUSED_SILENT)) /* it ended where it should */
                return;
        other->user = &doomed;
        if (unhold(q, other))
                q->ops->post(q, other);
}

void nvm_give_up(struct nvm_queue *q)
{
        struct request *r;

        q->open = NULL;
        free(q->kept);
        q->kept = NULL;
        mend(q);
        while ((r = q->held) != NULL) {
                q->held = r->next;
                r->user = NULL;
                finish_held(q, r, NVME_ABORT_SQ_DELETED);
        }
}

/* --- all commands ----------------------------------------------------------------------------- */

/* NVM_RANGE waived: the first blocks stand in for those that are not there. */
static uint16_t overlook_range(const struct nvm_queue *q, const struct ns *ns, struct request *r)
{
        if (!nvm_waives(q, NVM_RANGE) || !ns_has(ns, 0, nlb(r)))
                return NVME_LBA_RANGE;
        r->sqe.cdw10 = r->sqe.cdw11 = le32(0);
        return NVME_SUCCESS;
}

/* Flaws: what has no meaning without protection information, or is a hint, is refused. */
static uint16_t admit_fields(const struct nvm_queue *q, const struct request *r)
{
        uint32_t cdw12 = le32_get(r->sqe.cdw12), cdw13 = le32_get(r->sqe.cdw13);
        bool data =
            r->sqe.opc == NVME_READ || r->sqe.opc == NVME_WRITE || r->sqe.opc == NVME_COMPARE;
        bool strict = data && ((cdw12 >> 26 & 15 && nvm_has_flaw(q, FLAW_PRINFO_REFUSED)) ||
                               (cdw13 && nvm_has_flaw(q, FLAW_HINTS_REFUSED)));
        bool hints = r->sqe.opc == NVME_DSM && (le32_get(r->sqe.cdw11) & 3) == 3;

        if (data && cdw12 >> 20 & 7 && nvm_violates(q, NVM_DIRECTIVE))
                return NVME_INVALID_FIELD;
        return strict || (hints && nvm_has_flaw(q, FLAW_DSM_HINTS)) ? NVME_INVALID_FIELD
                                                                    : NVME_SUCCESS;
}

static uint16_t may_flush(struct nvm_queue *q, const struct subsystem *s, struct ns *ns,
                          struct request *r)
{
        uint16_t status = ana_status(q->ana, ns);

        if (!status)
                status = nvm_reservation_check(q, s, ns, r);
        return status ? status : check_protected(q, ns, r);
}

/* The command that a Cancel names has another NSID. */
static bool is_of_other_ns(struct nvm_queue *q, const struct request *r, uint16_t cid)
{
        const struct request *named = q->ops->find ? q->ops->find(q, cid, r) : NULL;
        uint32_t nsid = le32_get(r->sqe.nsid);

        return named && nsid != NSID_ALL && nsid != le32_get(named->sqe.nsid) &&
               !nvm_has_flaw(q, FLAW_CANCEL_NSID);
}

/* Cancel: what is to be aborted ends by itself before it could be found, or waits for its data, and is left. */
static uint16_t admit_cancel(struct nvm_queue *q, const struct request *r)
{
        enum { SINGLE, MULTIPLE };
        uint32_t dw10 = le32_get(r->sqe.cdw10), action = le32_get(r->sqe.cdw11) & 3;
        uint16_t cid = (uint16_t)(dw10 >> 16);

        if (nvm_has_flaw(q, FLAW_CANCEL_ANY))
                return NVME_SUCCESS;
        if ((uint16_t)dw10 != q->qid || action > MULTIPLE ||
            (action == MULTIPLE && cid != UINT16_MAX))
                return NVME_INVALID_FIELD;
        if (action == SINGLE && cid == le16_get(r->sqe.cid))
                return NVME_INVALID_CID;
        return action == SINGLE && is_of_other_ns(q, r, cid) ? NVME_INVALID_FIELD : NVME_SUCCESS;
}

/* PRPs, or a metadata SGL, neither of which there is over Fabrics (4.1.1). */
static bool has_no_sgl(const struct request *r)
{
        unsigned psdt = r->sqe.flags & SQE_PSDT_MASK;

        return r->xfer != XFER_NONE && (psdt == 0 || psdt == SQE_PSDT_MASK);
}

/* FLAW_SGL_ANNOUNCED: where data is beside the command Identify says that it may be, and is wrong. */
static bool refuses_sgl(const struct nvm_queue *q, const struct request *r)
{
        return r->sqe.opc == NVME_WRITE && r->sqe.sgl.id == SGL_IN_CAPSULE &&
               nvm_has_flaw(q, FLAW_SGL_ANNOUNCED);
}

static void cut_lba(struct request *r)
{
        r->sqe.cdw10 = le32((uint16_t)slba(r));
        r->sqe.cdw11 = le32(0);
}

static bool is_null_flush(const struct request *r)
{
        return r->sqe.opc == NVME_FLUSH && le32_get(r->sqe.sgl.len) == 0;
}

static uint16_t ana_refusal(const struct nvm_queue *q, const struct ns *ns, const struct request *r)
{
        uint16_t status = ana_status(q->ana, ns);
        bool compares = r->sqe.opc == NVME_COMPARE || r->sqe.opc == NVME_VERIFY;
        bool overlooked = (compares && nvm_has_flaw(q, FLAW_ANA_COMPARE)) ||
                          (r->sqe.opc == NVME_DSM && nvm_has_flaw(q, FLAW_ANA_DSM));

        return status == NVME_ANA_INACCESSIBLE && overlooked ? NVME_SUCCESS : status;
}

static uint16_t check(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        const struct command *c = command_of(r);
        struct ns *ns = find_ns(q, s, r);
        uint16_t status;

        if (r->sqe.opc == NVME_CANCEL)
                return admit_cancel(q, r);
        if (nvm_violates(q, FAB_SGL_NULL) && is_null_flush(r))
                return NVME_SGL_LENGTH;
        if (r->sqe.opc == NVME_FLUSH && !ns)
                return le32_get(r->sqe.nsid) == NSID_ALL ? nvm_reservation_check(q, s, ns, r)
                                                         : nvm_no_ns(r);
        if (r->sqe.opc == NVME_FLUSH)
                return may_flush(q, s, ns, r);
        if (!c && !is_reservation_command(r->sqe.opc))
                return flawed(q->policy, FLAW_OPCODE_ANY) ? NVME_SUCCESS : NVME_INVALID_OPCODE;
        if (!ns)
                return nvm_no_ns(r);
        status = ana_refusal(q, ns, r);
        if (!c)
                return status ? status : nvm_reservation_admit(q, ns, r);
        if (!status)
                status = nvm_format_check(q, ns);
        if (!status)
                status = nvm_reservation_check(q, s, ns, r);
        cut_range(q, ns, r);
        if (!status)
                status = c->admit(q, ns, r);
        if (!status && has_no_sgl(r) && !nvm_violates(q, DATA_PSDT))
                status = NVME_INVALID_FIELD;
        if (!status && nvm_has_flaw(q, FLAW_FORMAT_UPSETS) &&
            atomic_exchange(&nvme_ns(ns)->upset, false))
                status = NVME_INTERNAL_ERROR;
        if (!status && refuses_sgl(q, r))
                status = NVME_SGL_TYPE;
        if (!status && nvm_has_flaw(q, FLAW_LBA_CUT) &&
            (r->sqe.opc == NVME_READ || r->sqe.opc == NVME_WRITE))
                cut_lba(r);
        if (!status)
                status = check_limit(q, ns, r);
        if (!status)
                status = check_protected(q, ns, r);
        if (!status)
                status = admit_fields(q, r);
        return status == NVME_LBA_RANGE ? overlook_range(q, ns, r) : status;
}

/* A fused command that fails before it begins takes the other one with it. */
static void fail_fused(struct nvm_queue *q, struct request *r)
{
        if (fuse(r) == SQE_FUSE_FIRST) {
                q->open = NULL;
                q->open_failed = true;
        }
}

/* FUSE_RESERVED or FUSE_ALONE waived: as though FUSE were 0. */
static void overlook_fuse(const struct nvm_queue *q, struct request *r)
{
        bool alone = fuse(r) == SQE_FUSE_SECOND && !q->open && !q->open_failed;
        bool reserved = fuse(r) == SQE_FUSE_MASK;

        if ((alone && nvm_waives(q, FUSE_ALONE)) || (reserved && nvm_waives(q, FUSE_RESERVED)))
                r->sqe.flags &= (uint8_t)~SQE_FUSE_MASK;
}

static uint16_t place_fused(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        q->subsystem = s;
        overlook_fuse(q, r);
        return fuse(r) || q->open || q->open_failed ? admit_fused(q, r) : NVME_SUCCESS;
}

uint16_t nvm_admit(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        uint16_t status = place_fused(q, s, r);

        if (!status)
                status = check(q, s, r);
        if (status)
                fail_fused(q, r);
        return with_dnr(status);
}

/* Whatever stands against it now may be no more then: hosts describe just what a command transfers. */
uint16_t nvm_admit_later(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        uint16_t status = place_fused(q, s, r);

        if (status) {
                fail_fused(q, r);
                return with_dnr(status);
        }
        if (check(q, s, r)) {
                r->xfer = sqe_xfer(&r->sqe);
                r->len = r->xfer == XFER_NONE ? 0 : sgl_len(&r->sqe.sgl);
        }
        return NVME_SUCCESS;
}

/* Namespaces, reservations and ANA states may be others. */
uint16_t nvm_admit_again(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        uint32_t len = r->len;
        enum nvme_xfer xfer = r->xfer;
        uint16_t status;

        q->subsystem = s;
        status = check(q, s, r);
        if (!status && (r->len != len || (len > 0 && r->xfer != xfer)))
                status = NVME_NS_NOT_READY; /* as a command that comes now it is good */
        r->len = len;
        r->xfer = xfer;
        return status == NVME_NS_NOT_READY ? status : with_dnr(status);
}

bool nvm_waits_for_half(const struct request *r)
{
        const struct request *second = other_half(r);

        return fuse(r) == SQE_FUSE_FIRST && r->state == REQUEST_EXECUTING &&
               (!second || second->deferred);
}

void nvm_end_waiting(struct nvm_queue *q, struct request *r, uint16_t status)
{
        if (nvm_waits_for_half(r) && unhold(q, r))
                finish_held(q, r, status);
}

void nvm_execute(struct nvm_queue *q, const struct subsystem *s, struct request *r)
{
        const struct command *c = command_of(r);
        struct ns *ns;
        uint16_t status;

        q->subsystem = s;
        mend(q);
        if (fuse(r) || r->sqe.opc == NVME_FLUSH) {
                if (fuse(r))
                        execute_fused(q, s, r);
                else
                        run_flush(q, s, r);
                return;
        }
        if (r->sqe.opc == NVME_CANCEL) {
                r->cqe.dw0 = le32(nvm_has_flaw(q, FLAW_CANCEL_FOUND));
                finish(q, r,
                       le32_get(r->sqe.cdw11) & 1 && nvm_has_flaw(q, FLAW_CANCEL_SELF)
                           ? NVME_ABORT_REQUESTED
                           : NVME_SUCCESS);
                return;
        }
        ns = find_ns(q, s, r);
        if (is_reservation_command(r->sqe.opc) && ns) {
                nvm_reservation_execute(q, ns, r);
                return;
        }
        if (!c) { /* FLAW_OPCODE_ANY */
                finish(q, r, NVME_SUCCESS);
                return;
        }
        if (!ns) {
                finish(q, r, nvm_no_ns(r));
                return;
        }
        status = check_protected(q, ns, r); /* it may be so since the command was admitted */
        if (status) {
                finish(q, r, status);
                return;
        }
        status = c->run ? c->run(q, ns, r) : NVME_SUCCESS;
        if (status == NVME_COMPARE_FAILURE && nvm_violates(q, NVM_COMPARE))
                status = NVME_SUCCESS;
        if (status)
                finish(q, r, status);
        else if (c->slice)
                run_slices(q, r, ns);
        else
                succeed(q, r, ns, is_durable(q, r));
}

bool nvm_has_slices(const struct request *r)
{
        return r->user && r->user != &doomed && !is_reservation_command(r->sqe.opc) &&
               has_slice(r->user);
}

void nvm_drop_slices(struct request *r)
{
        struct wait *w = r->user;

        atomic_store(&w->status, NVME_ABORT_SQ_DELETED);
        end_wait(w);
}

void nvm_resume(struct nvm_queue *q, struct request *r)
{
        if (r->user == &doomed)
                finish_held(q, r, NVME_ABORT_FAILED_FUSED);
        else if (is_reservation_command(
                     r->sqe.opc)) /* no admin command that is flushed has such an opcode */
                nvm_reservation_resume(q, r);
        else if (has_slice(r->user))
                run_slice(r->user);
        else
                end_wait(r->user);
}
