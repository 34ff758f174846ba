/* SPDX-License-Identifier: BSD-3-Clause */
/* LBA Range Type, feature 03h (NVM Command Set 1.2 4.1.3.1): kept for hosts, and of no effect. */
#include <stdlib.h>
#include <string.h>

#include "admin.h"

enum { RANGES = 64, OVERWRITABLE = 1, OVERLAPPING = 0x114 };

struct range {
        uint8_t type, attributes, rsvd2[14];
        le64_t slba, nlb; /* 0's based */
        uint8_t guid[16], rsvd48[16];
};
_Static_assert(sizeof(struct range) * RANGES == LBA_RANGES_LEN, "LBA Range Type");

struct lba_ranges {
        uint32_t n;
        struct range range[RANGES];
};

/* The namespace of the command, or why it is none. */
static uint16_t find_ns(const struct admin *a, struct ns **ns)
{
        uint32_t nsid = le32_get(a->r->sqe.nsid);

        *ns = ctrl_ns(a->ctrl, nsid);
        if (*ns)
                return 0;
        return nsid > CTRL_NSID_MAX && nsid != NSID_ALL ? NVME_INVALID_NS : NVME_INVALID_FIELD;
}

static bool overlap(const struct range *a, const struct range *b)
{
        uint64_t first = le64_get(a->slba), other = le64_get(b->slba);

        return first < other ? other - first <= le64_get(a->nlb)
                             : first - other <= le64_get(b->nlb);
}

static bool any_overlap(const struct range *r, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                for (uint32_t k = 0; k < i; k++)
                        if (overlap(&r[i], &r[k]))
                                return true;
        return false;
}

uint16_t lba_ranges_set(struct admin *a)
{
        const struct range *range = (const struct range *)a->r->data;
        uint32_t n = (le32_get(a->r->sqe.cdw11) & (RANGES - 1)) + 1;
        pthread_mutex_t *lock = &a->ctrl->subsystem->features.lock;
        struct lba_ranges *ranges, *old;
        struct ns *ns;
        uint16_t status = find_ns(a, &ns);

        if (status)
                return status;
        if (any_overlap(range, n + (n < RANGES && has_flaw(a->env, FLAW_RANGES_UNUSED))))
                return has_flaw(a->env, FLAW_RANGES_OVERLAP) ? NVME_INVALID_FIELD : OVERLAPPING;
        ranges = calloc(1, sizeof(*ranges));
        if (!ranges)
                return NVME_INTERNAL_ERROR;
        ranges->n = n;
        memcpy(ranges->range, range, n * sizeof(*range));
        pthread_mutex_lock(lock);
        old = nvme_ns(ns)->lba_ranges;
        if (has_flaw(a->env, FLAW_RANGES_FIRST) && old)
                ranges->range[0] = old->range[0];
        nvme_ns(ns)->lba_ranges = ranges;
        pthread_mutex_unlock(lock);
        free(old);
        return 0;
}

uint16_t lba_ranges_get(struct admin *a, bool current, uint32_t *value)
{
        struct range *range = (struct range *)a->r->data;
        pthread_mutex_t *lock = &a->ctrl->subsystem->features.lock;
        const struct lba_ranges *ranges;
        struct ns *ns;
        uint16_t status = find_ns(a, &ns);

        if (status)
                return status;
        memset(range, 0, LBA_RANGES_LEN);
        pthread_mutex_lock(lock);
        ranges = current ? nvme_ns(ns)->lba_ranges : NULL;
        if (ranges) {
                memcpy(range, ranges->range, LBA_RANGES_LEN);
                *value = ranges->n - 1;
        } else {
                range->attributes = has_flaw(a->env, FLAW_RANGES_DEFAULT) ? 0 : OVERWRITABLE;
                range->nlb = le64(atomic_load(&ns->blocks) - 1);
        }
        pthread_mutex_unlock(lock);
        return 0;
}
