/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy (NVM Command Set 1.2 3.3.2): within a namespace, and from others of the subsystem. */
#include <stdlib.h>
#include <string.h>

#include "ana.h"
#include "ctrl.h"
#include "nvm.h"
#include "pdu/nvme/wire/protect.h"

enum {
        RANGES_MASK = 0xff,   /* cdw12 */
        FORMAT_SHIFT = 8,     /* ... DESFMT */
        PRACT_READ = 1 << 15, /* ... PRACT of PRINFOR */
        FORMAT_16B = 32,      /* bytes of a range of formats 0h and 2h: for a 16b guard, ... */
        FORMAT_WIDE = 40,     /* ... of 1h and 3h: for a wider one */
        FORMAT_NAMED = 2,     /* and up: a range names its namespace */
        FAST_ONLY = 1 << 15,  /* SOPT */
        ALWAYS_ENABLED = 3,   /* formats 0h and 1h */
};

struct source { /* a range */
        struct ns *ns;
        uint64_t slba;
        uint32_t blocks, nsid;
        bool fast;
        struct pi_use pi;
};

static uint16_t refuse(const struct nvm_queue *q, enum rule_id rule)
{
        return rule_refuse(q->policy, rule);
}

static unsigned format_of(const struct request *r)
{
        return le32_get(r->sqe.cdw12) >> FORMAT_SHIFT & 15;
}

static size_t range_size(const struct request *r)
{
        return format_of(r) & 1 ? FORMAT_WIDE : FORMAT_16B;
}

static bool acts_on_read(const struct request *r)
{
        return le32_get(r->sqe.cdw12) & PRACT_READ;
}

static bool acts_on_write(const struct request *r)
{
        return le32_get(r->sqe.cdw12) & RW_PRACT;
}

static uint64_t destination(const struct request *r)
{
        return le32_get(r->sqe.cdw10) | (uint64_t)le32_get(r->sqe.cdw11) << 32;
}

/* What the command itself says; with a rule waived it is taken as far as it makes sense. */
uint16_t nvm_copy_admit(const struct nvm_queue *q, const struct ns *ns, struct request *r)
{
        uint32_t ranges = (le32_get(r->sqe.cdw12) & RANGES_MASK) + 1;
        unsigned format = format_of(r);
        bool enabled = (q->copy_formats | ALWAYS_ENABLED) >> format & 1;
        bool tagged = le32_get(r->sqe.cdw14) || le32_get(r->sqe.cdw15);
        uint16_t status = 0;

        if (format > COPY_FORMAT_MAX || !enabled) {
                status = refuse(q, NVM_COPY_FORMAT);
                r->sqe.cdw12 = le32(le32_get(r->sqe.cdw12) & ~(15u << FORMAT_SHIFT));
        } else if (ns->pi && (format & 1) != (ns->guard > 16)) {
                status = refuse(q, NVM_COPY_GUARD);
        }
        if (!status && ranges > COPY_RANGES)
                status = refuse(q, NVM_COPY_SIZE);
        if (!status && !ns->pi && (tagged || acts_on_write(r)) && nvm_has_flaw(q, FLAW_COPY_TAGS))
                status = NVME_INVALID_FIELD;
        r->xfer = XFER_H2C;
        r->len = ranges * (uint32_t)range_size(r);
        return status;
}

/* --- the ranges --------------------------------------------------------------------------------- */

/* The namespace that range i reads. */
static uint16_t find_source(const struct nvm_queue *q, struct ns *to, struct source *s)
{
        struct ns *ns = ns_attached(q->subsystem, s->nsid, q->hostnqn, q->cntlid);

        if (nvm_has_flaw(q, FLAW_COPY_SOURCE))
                ns = ns ? to : NULL;
        s->ns = ns ? ns : to; /* a rule is waived */
        if (ns)
                return 0;
        return s->nsid > 0 && s->nsid <= CTRL_NSID_MAX ? refuse(q, NVM_COPY_INACTIVE)
                                                       : refuse(q, NVM_COPY_SOURCE);
}

static uint16_t may_read(struct nvm_queue *q, const struct request *r, struct ns *ns)
{
        struct request read = { .sqe = r->sqe };
        uint16_t status = ana_status(q->ana, ns);

        read.sqe.opc = NVME_READ;
        read.sqe.nsid = le32(ns->nsid);
        return status ? status : nvm_reservation_check(q, q->subsystem, ns, &read);
}

static uint16_t read_range(struct nvm_queue *q, struct ns *to, const struct request *r, size_t i,
                           struct source *s)
{
        const uint8_t *p = r->data + i * range_size(r);
        const struct copy_range *range = (const struct copy_range *)p;
        uint16_t status = 0;

        *s = (struct source) { .ns = to,
                               .nsid = le32_get(range->snsid),
                               .slba = le64_get(range->slba),
                               .blocks = le16_get(range->nlb) + 1u };
        if (format_of(r) >= FORMAT_NAMED) {
                s->fast = le_get(p + 22, 2) & FAST_ONLY;
                status = find_source(q, to, s);
        }
        s->blocks -= s->blocks > 1 && nvm_has_flaw(q, FLAW_COPY_NLB);
        if (nvm_has_flaw(q, FLAW_RANGE_COPY))
                s->blocks = nvm_within(s->ns, s->slba, s->blocks);
        if (i > 0 && !ns_has(s->ns, s->slba, s->blocks) && nvm_has_flaw(q, FLAW_COPY_SECOND))
                s->slba = 0;
        if ((range_size(r) == FORMAT_16B) == (s->ns->guard == 16)) {
                const struct pi_format f = ns_pi(s->ns);

                s->pi = pi_use_of_range(&r->sqe, p, &f);
        }
        if (!status)
                status = nvm_format_check(q, s->ns);
        s->pi = nvm_has_flaw(q, FLAW_PI_COPY) ? (struct pi_use) { .act = s->pi.act }
                                              : nvm_protection(q, s->pi);
        if (!status && s->ns != to)
                status = may_read(q, r, s->ns);
        return !status && s->fast && nvm_has_flaw(q, FLAW_COPY_FAST) ? NVME_INVALID_FIELD : status;
}

static bool overlaps(const struct source *s, uint64_t lba, uint64_t count)
{
        return s->slba < lba + count && lba < s->slba + s->blocks;
}

/* Blocks of all ranges, each within its namespace and the limits, none of them a destination's. */
static uint16_t check_sizes(const struct nvm_queue *q, const struct ns *to, const struct request *r,
                            const struct source *s, size_t n, uint32_t *total)
{
        uint64_t lba = destination(r);
        bool over = false, within = true, overlap = false;

        *total = 0;
        for (size_t i = 0; i < n; i++) {
                *total += s[i].blocks;
                over |= s[i].blocks > COPY_RANGE_BLOCKS || *total > COPY_BLOCKS;
                within &= ns_has(s[i].ns, s[i].slba, s[i].blocks);
        }
        if ((over && !nvm_waives(q, NVM_COPY_SIZE)) || *total > UINT16_MAX)
                return rule_fault(NVM_COPY_SIZE).code;
        if (!within || !ns_has(to, lba, *total))
                return NVME_LBA_RANGE;
        for (size_t i = 0; i < n && format_of(r) >= FORMAT_NAMED; i++)
                overlap |= s[i].ns == to && overlaps(&s[i], lba, *total);
        return overlap ? refuse(q, NVM_COPY_OVERLAP) : 0;
}

/* --- formats: 3.3.2.4 --------------------------------------------------------------------------- */

/* They differ in nothing but that one has protection information, which is all of its metadata. */
static bool corresponds(const struct ns *with, const struct ns *without)
{
        return with->pi && !without->pi && with->lbads == without->lbads &&
               with->ms == ns_pi_len(with) && !without->ms;
}

static bool matches(const struct ns *a, const struct ns *b)
{
        return a->lbads == b->lbads && a->ms == b->ms && a->pi == b->pi && a->guard == b->guard &&
               a->sts == b->sts;
}

static bool fits(const struct ns *from, const struct ns *to, const struct ns *first,
                 const struct request *r)
{
        if (!first->pi == !to->pi)
                return matches(from, to);
        return to->pi ? acts_on_write(r) && corresponds(to, from)
                      : acts_on_read(r) && (range_size(r) == FORMAT_16B) == (from->guard == 16) &&
                            corresponds(from, to);
}

static uint16_t check_formats(const struct nvm_queue *q, const struct ns *to,
                              const struct request *r, const struct source *s, size_t n)
{
        bool fit = true;

        if (s[0].ns->pi && to->pi && acts_on_read(r) != acts_on_write(r))
                return refuse(q, NVM_PI_COPY_ACT);
        for (size_t i = 0; i < n; i++)
                fit &= fits(s[i].ns, to, s[0].ns, r);
        return fit ? 0 : NVME_INCOMPATIBLE;
}

/* What is said of reference tags is right where they are checked (5.3.3). */
static uint16_t check_tags(const struct nvm_queue *q, const struct ns *to, const struct request *r,
                           const struct source *s, size_t n)
{
        struct pi_format f = ns_pi(to);
        struct pi_use use = pi_use_of(&r->sqe, &f);
        uint16_t status = use.act ? 0 : pi_admit(&use, &f, destination(r));

        for (size_t i = 0; i < n && !status; i++) {
                f = ns_pi(s[i].ns);
                status = pi_admit(&s[i].pi, &f, s[i].slba);
        }
        return status ? refuse(q, NVM_PI_FIRST) : 0;
}

/* --- the command -------------------------------------------------------------------------------- */

/* How many of the blocks are written. */
static uint32_t stored(const struct nvm_queue *q, uint32_t total)
{
        enum { LARGE = 128 };

        if (total > LARGE && nvm_has_flaw(q, FLAW_COPY_LARGE))
                return LARGE;
        return total - (total > 1 && nvm_has_flaw(q, FLAW_COPY_SHORT));
}

static uint16_t move(struct nvm_queue *q, struct ns *to, const struct request *r,
                     const struct source *s, size_t n, uint32_t total)
{
        bool backwards = nvm_has_flaw(q, FLAW_COPY_ORDER);
        size_t unit = ns_unit(to, acts_on_write(r)), at = 0;
        /* With NVM_PI_COPY_ACT waived what is read may be larger than what is written. */
        uint8_t *blocks = calloc(total + 1, unit + NS_METADATA_MAX);
        const struct pi_format f = ns_pi(to);
        struct pi_use use = nvm_protection(q, pi_use_of(&r->sqe, &f));
        uint16_t status = blocks ? 0 : NVME_INTERNAL_ERROR;

        for (size_t i = 0; i < n && !status; i++) {
                const struct source *from = &s[backwards ? n - 1 - i : i];

                status = ns_status(ns_read_with(from->ns, from->slba, from->blocks,
                                                blocks + at * unit, &from->pi));
                at += from->blocks;
        }
        if (nvm_has_flaw(q, FLAW_COPY_INSERTED) && !s[0].ns->pi)
                use.tag ^= 1;
        if (!status)
                status = nvm_store(q, to, destination(r), stored(q, total), blocks, &use);
        free(blocks);
        if (!status && nvm_has_flaw(q, FLAW_COPY_HOLLOW))
                status = ns_status(ns_deallocate(to, destination(r), total));
        return status;
}

/* All is read before anything is written, which is done at once: nothing is copied by halves. */
uint16_t nvm_copy_run(struct nvm_queue *q, struct ns *ns, struct request *r)
{
        struct source s[RANGES_MASK + 1];
        size_t n = r->len / range_size(r);
        uint32_t total = 0;
        uint16_t status = 0;
        bool apart = false;

        if (n == 0)
                return NVME_INVALID_FIELD;
        for (size_t i = 0; i < n && !status; i++)
                status = read_range(q, ns, r, i, &s[i]);
        if (!status)
                status = check_sizes(q, ns, r, s, n, &total);
        if (!status) {
                status = check_formats(q, ns, r, s, n);
                apart = status == NVME_INCOMPATIBLE;
        }
        if (apart && nvm_waives(q, NVM_COPY_MATCH))
                return NVME_SUCCESS;
        if (!status)
                status = check_tags(q, ns, r, s, n);
        if (!status)
                status = move(q, ns, r, s, n, total);
        if (status && nvm_has_flaw(q, FLAW_COPY_RESULT))
                r->cqe.dw0 = le32((uint32_t)n);
        return status;
}
