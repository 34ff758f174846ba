/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get LBA Status, its log page, its events and their interval (NVM Command Set 1.2 4.2.1, 4.1.4.5,
 * 4.1.3.5, 5.2.1). The only blocks known to be unrecoverable are those of Write Uncorrectable.
 */
#include <stdlib.h>
#include <string.h>

#include "admin.h"

enum {
        ALLOCATED = 0x02, /* action types */
        SCAN = 0x10,
        TRACKED = 0x11,
        HEADER = 8, /* bytes of the list that the command returns, and of an entry of it */
        ENTRY = 16,
        INCOMPLETE = 1,
        COMPLETE = 2,
        ARE_ALLOCATED = 2, /* LBARS */
        ARE_MARKED = 3,
        LOG_HEADER = 16, /* bytes: of the log page, of a namespace in it, of a range of that */
        LOG_NS = 16,
        LOG_RANGE = 16,
        LOG_RANGES = 64, /* of a namespace: with more it is to be looked at as a whole */
        NO_RANGES = -1,  /* NLRD of such a one */
};

/* --- the command -------------------------------------------------------------------------------- */

struct list {
        uint8_t *bytes;
        uint32_t room, n; /* entries */
        bool cut;         /* there are more */
};

static void list_add(struct list *l, uint64_t lba, uint64_t count, uint8_t status)
{
        uint8_t *e = l->bytes + HEADER + (size_t)l->n * ENTRY;

        if (l->n == l->room) {
                l->cut = true;
                return;
        }
        le_put(e, 8, lba);
        le_put(e + 8, 4, count - 1);
        e[13] = status;
        l->n++;
}

/* The first two change places. */
static void list_swap(struct list *l)
{
        uint8_t first[ENTRY], *e = l->bytes + HEADER;

        if (l->n < 2)
                return;
        memcpy(first, e, ENTRY);
        memcpy(e, e + ENTRY, ENTRY);
        memcpy(e + ENTRY, first, ENTRY);
}

static void list_fill(const struct admin *a, struct list *l, struct ns *ns, uint64_t lba,
                      uint64_t end, bool allocated)
{
        enum ns_blocks what = allocated ? NS_ALLOCATED : NS_UNREADABLE;
        bool split = violates(a->env, NVM_LBA_MERGED);
        uint64_t count;

        if (allocated && has_flaw(a->env, FLAW_LBA_FREE)) {
                list_add(l, lba, end - lba, ARE_ALLOCATED);
                return;
        }
        if (!allocated && has_flaw(a->env, FLAW_LBA_BLIND))
                return;
        for (; !l->cut && (lba = ns_extent(ns, what, lba, end, &count)) < end; lba += count) {
                if (count > UINT32_MAX)
                        count = UINT32_MAX;
                if (split && count > 1)
                        count = 1;
                split = false;
                list_add(l, lba, count, allocated ? ARE_ALLOCATED : ARE_MARKED);
        }
        if (has_flaw(a->env, FLAW_LBA_ORDER))
                list_swap(l);
}

static uint16_t fill(struct admin *a, struct ns *ns)
{
        const union sqe *s = &a->r->sqe;
        uint64_t lba = le32_get(s->cdw10) | (uint64_t)le32_get(s->cdw11) << 32;
        uint64_t blocks = atomic_load(&ns->blocks), end = blocks;
        uint32_t dw13 = le32_get(s->cdw13), length = dw13 & 0xffff, type = dw13 >> 24;
        uint8_t small[HEADER] = { 0 };
        struct list l = { .bytes = a->r->len < HEADER ? small : a->r->data };

        if (type != ALLOCATED && type != SCAN && type != TRACKED)
                return NVME_INVALID_FIELD;
        if (!ns_has(ns, lba, length > 0 ? length : 1))
                return NVME_LBA_RANGE;
        if (length > 0)
                end = lba + length - (length > 1 && has_flaw(a->env, FLAW_LBA_LENGTH));
        if (a->r->len >= HEADER)
                l.room = (a->r->len - HEADER) / ENTRY;
        list_fill(a, &l, ns, lba, end, type == ALLOCATED);
        le_put(l.bytes, 4, l.n);
        l.bytes[4] = l.cut && !has_flaw(a->env, FLAW_LBA_COMPLETE) ? INCOMPLETE : COMPLETE;
        if (l.bytes == small)
                memcpy(a->r->data, small, a->r->len);
        return 0;
}

uint16_t admin_lba_status(struct admin *a)
{
        uint32_t nsid = le32_get(a->r->sqe.nsid);
        uint16_t status;
        struct ns *ns;

        a->ctrl->asked_lba_status = true;
        memset(a->r->data, 0, a->r->len);
        pthread_rwlock_rdlock(&a->env->inv->lock);
        ns = ctrl_ns(a->ctrl, nsid);
        if (ns)
                status = fill(a, ns);
        else
                status =
                    rule_refuse(a->env->policy,
                                nsid > 0 && nsid <= CTRL_NSID_MAX ? FAB_NSID_INACTIVE : FAB_NSID);
        pthread_rwlock_unlock(&a->env->inv->lock);
        return status;
}

/* --- the log page ------------------------------------------------------------------------------- */

static uint64_t times_marked(const struct ctrl *c)
{
        uint64_t times = 0;

        for (struct ns *ns = ctrl_first_ns(c); ns; ns = ctrl_next_ns(c, ns))
                times += ns_times_marked(ns);
        return times;
}

/* An element for the namespace at `at`, if it has such blocks: bytes of it, 0 for none. As many ranges are looked for as
 * are listed, and one more. */
static size_t put_ns(struct ns *ns, uint8_t *at, uint64_t *total)
{
        uint64_t blocks = atomic_load(&ns->blocks), lba = 0, count, listed = 0;
        uint32_t n = 0;

        for (; (lba = ns_extent(ns, NS_UNREADABLE, lba, blocks, &count)) < blocks; lba += count) {
                uint8_t *range = at + LOG_NS + (size_t)n * LOG_RANGE;

                if (n++ == LOG_RANGES)
                        break;
                listed += count;
                le_put(range, 8, lba);
                le_put(range + 8, 4, count - 1);
        }
        if (n == 0)
                return 0;
        *total += n > LOG_RANGES ? ns_unreadable(ns) : listed;
        le_put(at, 4, ns->nsid);
        le_put(at + 4, 4, n > LOG_RANGES ? (uint32_t)NO_RANGES : n);
        at[8] = TRACKED;
        return LOG_NS + (n > LOG_RANGES ? 0 : (size_t)n * LOG_RANGE);
}

/* The page as it is now; it stays so until it was read with RAE 0 (4.1.4.5). */
static struct lba_log *make_log(struct ctrl *c)
{
        size_t most = LOG_HEADER, at = LOG_HEADER;
        uint64_t total = 0, times = times_marked(c);
        struct lba_log *log;
        uint32_t elements = 0;

        for (struct ns *ns = ctrl_first_ns(c); ns; ns = ctrl_next_ns(c, ns))
                most += LOG_NS + LOG_RANGES * LOG_RANGE;
        log = calloc(1, sizeof(*log) + most);
        if (!log)
                return NULL;
        for (struct ns *ns = ctrl_first_ns(c); ns; ns = ctrl_next_ns(c, ns)) {
                size_t len = put_ns(ns, log->bytes + at, &total);

                elements += len > 0;
                at += len;
        }
        if (times != c->lba_seen)
                c->lba_generation++;
        c->lba_seen = times;
        log->len = at;
        le_put(log->bytes, 4, has_flaw(c->env, FLAW_LBA_LOG_LENGTH) ? at - LOG_HEADER : at);
        le_put(log->bytes + 4, 4, elements);
        le_put(log->bytes + 8, 4, total < UINT32_MAX ? total : UINT32_MAX - 1);
        le_put(log->bytes + 14, 2, c->lba_generation);
        return log;
}

uint16_t lba_status_log(struct admin *a, uint64_t offset, bool retain)
{
        struct window w = { a->r->data, offset, a->r->len };
        struct ctrl *c = a->ctrl;
        uint16_t status = 0;

        pthread_mutex_lock(&c->lock);
        if (has_flaw(a->env, FLAW_LBA_LOG_MOVES)) {
                free(c->lba_log);
                c->lba_log = NULL;
        }
        if (!c->lba_log)
                c->lba_log = make_log(c);
        if (!c->lba_log)
                status = NVME_INTERNAL_ERROR;
        else if (offset > c->lba_log->len)
                status = rule_refuse(a->env->policy, LOG_OFFSET);
        else
                window_put(&w, 0, c->lba_log->bytes, c->lba_log->len);
        if (!retain && !status) {
                free(c->lba_log);
                c->lba_log = NULL;
                c->lba_told_at = a->now;
        }
        pthread_mutex_unlock(&c->lock);
        return status;
}

static bool has_marked(const struct ctrl *c)
{
        uint64_t count = 0;

        for (struct ns *ns = ctrl_first_ns(c); ns && !count; ns = ctrl_next_ns(c, ns))
                ns_extent(ns, NS_UNREADABLE, 0, atomic_load(&ns->blocks), &count);
        return count > 0;
}

void lba_status_tick(struct ctrl *c, uint64_t now)
{
        uint64_t interval = 100 * (uint64_t)(c->settings.dword[FEAT_LBA_STATUS] & 0xffff), times;

        if (is_discovery(c) || !(c->m.aec & AEC_LBA_STATUS) || now - c->lba_told_at < interval)
                return;
        times = times_marked(c);
        if (times == c->lba_told || !has_marked(c))
                return;
        c->lba_told = times;
        c->lba_told_at = now;
        controller_event(&c->m, AEN_NOTICE, AEN_INFO_LBA_STATUS,
                         has_flaw(c->env, FLAW_LBA_EVENT) ? 0 : LOG_LBA_STATUS);
        ctrl_send_events(c);
}

/* --- the interval ------------------------------------------------------------------------------- */

/* The closest one there is, to which the command is answered. */
uint16_t lba_status_interval(struct admin *a, uint32_t *value)
{
        uint32_t wanted = le32_get(a->r->sqe.cdw11) & 0xffff;

        if (wanted > LBA_INTERVAL_MAX && has_flaw(a->env, FLAW_LBA_INTERVAL))
                return NVME_INVALID_FIELD;
        if (wanted > LBA_INTERVAL_MAX)
                wanted = LBA_INTERVAL_MAX;
        if (wanted < LBA_INTERVAL)
                wanted = LBA_INTERVAL;
        *value = (uint32_t)LBA_INTERVAL << 16 | wanted;
        if (has_flaw(a->env, FLAW_LBA_POLL))
                *value = le32_get(a->r->sqe.cdw11);
        a->ctrl->settings.dword[FEAT_LBA_STATUS] = *value;
        return 0;
}
