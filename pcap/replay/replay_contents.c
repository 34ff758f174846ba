/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "replay_live.h"

/* At first nothing is known of a namespace. */
static struct contents *contents_of(struct replay *r, uint32_t nsid)
{
        struct contents *c = r->contents;

        while (c && c->nsid != nsid)
                c = c->next;
        if (c)
                return c;
        c = calloc(1, sizeof(*c));
        if (!c)
                return NULL;
        c->nsid = nsid;
        c->next = r->contents;
        r->contents = c;
        return c;
}

static void blocks_of(const union sqe *s, uint64_t *from, uint64_t *to)
{
        *from = le32_get(s->cdw10) | (uint64_t)le32_get(s->cdw11) << 32;
        *to = *from + (le32_get(s->cdw12) & RW_NLB_MASK) + 1;
        if (*to <= *from)
                *to = UINT64_MAX;
        if (*from >= *to)
                *from = *to - 1;
}

bool contents_known(struct replay *r, const union sqe *sqe)
{
        struct contents *c = contents_of(r, le32_get(sqe->nsid));
        uint64_t from, to;

        blocks_of(sqe, &from, &to);
        return c && !c->lost && marks_cover(&c->known, from, to);
}

static void mark_unknown(struct contents *c, uint64_t from, uint64_t to)
{
        if (from < to)
                marks_remove(&c->known, from, to);
}

static void mark_ranges_unknown(struct contents *c, const struct dsm_range *range, uint32_t count)
{
        for (uint32_t i = 0; i < count; i++) {
                uint64_t from = le64_get(range[i].slba), to = from + le32_get(range[i].blocks);

                mark_unknown(c, from, to < from ? UINT64_MAX : to);
        }
}

/* A block is not known while a command that changes it is under way. */
void contents_sent(struct replay *r, const union sqe *sqe, const void *data, uint32_t len)
{
        struct contents *c = contents_of(r, le32_get(sqe->nsid));
        uint64_t from, to;

        blocks_of(sqe, &from, &to);
        if (!c)
                return;
        switch (sqe->opc) {
        case NVME_READ:
        case NVME_COMPARE:
        case NVME_VERIFY:
        case NVME_FLUSH:
        case NVME_FABRICS:
                return;
        case NVME_WRITE:
        case NVME_WRITE_ZEROES:
        case NVME_WRITE_UNCORRECTABLE:
                mark_unknown(c, from, to);
                return;
        case NVME_DSM:
                if (data)
                        mark_ranges_unknown(c, data, len / (uint32_t)sizeof(struct dsm_range));
                else
                        mark_unknown(c, 0, UINT64_MAX);
                return;
        default:
                c->lost = true;
        }
}

void contents_done(struct replay *r, const union sqe *sqe)
{
        struct contents *c = contents_of(r, le32_get(sqe->nsid));
        uint64_t from, to;

        if (!c || (sqe->opc != NVME_WRITE && sqe->opc != NVME_WRITE_ZEROES))
                return;
        blocks_of(sqe, &from, &to);
        marks_add(&c->known, from, to); /* if there is no room for it, they stay unknown */
}

void contents_lost(struct replay *r)
{
        for (struct contents *c = r->contents; c; c = c->next)
                mark_unknown(c, 0, UINT64_MAX);
}

void contents_free(struct replay *r)
{
        while (r->contents) {
                struct contents *c = r->contents;

                r->contents = c->next;
                marks_fini(&c->known);
                free(c);
        }
}
