/* SPDX-License-Identifier: BSD-3-Clause */
/* NVM Command Set 4.1.3.1: LBA Range Type, of the namespace that is tested; left as it was. */
#include <string.h>

#include "conformance/words/case.h"

#include "conformance/engine/suite.h"

enum { BYTES = 4096, ENTRY = 64, DEFAULT = 1 << 8, OVERLAPPING = 0x114 };

struct ranges {
        uint8_t bytes[BYTES];
        uint32_t num; /* 0's based */
};

static bool get_ranges(struct queue *q, uint32_t select, struct ranges *r)
{
        struct reply reply =
            finish(q, send_cmd(q, .opc = NVME_GET_FEATURES, .nsid = caps(q->t)->nsid,
                               .cdw10 = FEAT_LBA_RANGES | select, .bytes = BYTES));

        if (reply.status != NVME_SUCCESS)
                return false;
        memcpy(r->bytes, reply.data, BYTES);
        r->num = reply.dw0 & 63;
        return true;
}

static uint16_t set_ranges(struct queue *q, const struct ranges *r)
{
        uint8_t *data = t_alloc(q->t, BYTES);

        memcpy(data, r->bytes, BYTES);
        return finish(q, send_cmd(q, .opc = NVME_SET_FEATURES, .nsid = caps(q->t)->nsid,
                                  .cdw10 = FEAT_LBA_RANGES, .cdw11 = r->num, .bytes = BYTES,
                                  .data = data))
            .status;
}

static void put(struct ranges *r, unsigned i, uint8_t type, uint64_t slba, uint64_t blocks)
{
        uint8_t *e = r->bytes + i * ENTRY;

        e[0] = type;
        e[1] = 1;
        le_put(e + 16, 8, slba);
        le_put(e + 24, 8, blocks - 1);
}

static struct ranges first_ranges(struct queue *q)
{
        struct ranges r;

        require(q->t, caps(q->t)->nsid && caps(q->t)->blocks > 8, "the subsystem has no namespace");
        require(q->t, get_ranges(q, 0, &r), "LBA Range Type is not supported");
        return r;
}

/* What was set, and what is returned then. */
struct trial {
        const struct ranges *set;
        uint16_t status;
        bool got;
        struct ranges seen;
};

static struct trial try_ranges(struct queue *q, const struct ranges *r)
{
        struct trial trial = { .set = r, .status = set_ranges(q, r) };

        trial.got = get_ranges(q, 0, &trial.seen);
        return trial;
}

static void want_trial(struct queue *q, const char *what, const struct trial *trial)
{
        want_eq(q->t, what, trial->status, NVME_SUCCESS);
        want(q->t, trial->got, "LBA Range Type", "an error");
        want_eq(q->t, "NUM", trial->seen.num, trial->set->num);
        want_bytes(q->t, "the ranges that were set", trial->seen.bytes, trial->set->bytes,
                   (trial->set->num + 1) * ENTRY);
}

CASE("nvm/feature/ranges", MUST, RULES(NVM_RANGES),
     "LBA Range Type returns what was set last, without unused entries, and by default one range "
     "of all",
     .writes = true, .alone = true)
{
        struct queue *q = admin_queue(t);
        struct ranges before = first_ranges(q), two = { .num = 1 }, one = { .num = 0 }, initial;
        struct trial first, second;

        put(&two, 0, 1, 0, 2);
        put(&two, 1, 2, 4, 2);
        put(&two, 2, 3, 0, 8); /* unused, and over all others */
        put(&one, 0, 3, 2, 3);
        first = try_ranges(q, &two);
        second = try_ranges(q, &one);
        set_ranges(q, &before);
        require(t, second.status == NVME_SUCCESS, "LBA Range Type cannot be set");
        want_trial(q, "the status of two ranges, with an entry that is not used", &first);
        want_trial(q, "the status of one range", &second);
        if (!(le16_get(caps(t)->id.oncs) & ONCS_SAVE) || !get_ranges(q, DEFAULT, &initial))
                return;
        want_eq(t, "NUM by default", initial.num, 0);
        want_eq(t, "the type by default", initial.bytes[0], 0);
        want_eq(t, "the attributes by default", initial.bytes[1], 1);
        want_eq(t, "the first block by default", le_get(initial.bytes + 16, 8), 0);
        want_eq(t, "the number of blocks by default", le_get(initial.bytes + 24, 8),
                caps(t)->blocks - 1);
}

CASE("nvm/feature/ranges-overlap", MUST, RULES(NVM_RANGES),
     "LBA ranges that overlap are accepted, or refused with Overlapping Range", .writes = true,
     .alone = true)
{
        struct queue *q = admin_queue(t);
        struct ranges before = first_ranges(q), two = { .num = 1 };
        uint16_t status;

        put(&two, 0, 1, 0, 4);
        put(&two, 1, 2, 3, 2);
        require(t, set_ranges(q, &before) == NVME_SUCCESS, "LBA Range Type cannot be set");
        status = set_ranges(q, &two);
        if (status == NVME_SUCCESS)
                set_ranges(q, &before);
        want(t, status == NVME_SUCCESS || status == OVERLAPPING, "Success, or Overlapping Range",
             "status %u/%02Xh", status >> 8, status & 0xff);
}

/* The number of ranges stands in the completion, which SUCCESS leaves out. */
CASE("tcp/c2hdata/success-alone", MUST, RULES(TCP_C2H_SUCCESS_ALONE),
     "The data of a command whose completion has a value does not end with SUCCESS", .writes = true,
     .alone = true)
{
        struct queue *q = admin_queue(t, .cattr = CATTR_DISABLE_SQFC);
        struct ranges before = first_ranges(q), two = { .num = 1 };
        struct reply r;

        put(&two, 0, 1, 0, 2);
        put(&two, 1, 2, 4, 2);
        require(t, set_ranges(q, &two) == NVME_SUCCESS, "LBA Range Type cannot be set");
        r = finish(q, send_cmd(q, .opc = NVME_GET_FEATURES, .nsid = caps(t)->nsid,
                               .cdw10 = FEAT_LBA_RANGES, .bytes = BYTES));
        set_ranges(q, &before);
        want_eq(t, "the status of Get Features", r.status, NVME_SUCCESS);
        want(t, !r.success_flag, "a CapsuleResp that says how many ranges there are",
             "C2HData with SUCCESS");
}
