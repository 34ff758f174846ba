/* SPDX-License-Identifier: BSD-3-Clause */
/* Get Log Page (Base 2.2 5.1.12). */
#include <string.h>

#include "admin.h"
#include "pdu/core/plant.h"

enum {
        SUPPORTED_LEN = 1024,
        LOG_SUPPORTED_BIT = 1 << 0,
        EFFECT_SUPPORTED = 1 << 0,
        EFFECT_BLOCKS = 1 << 1, /* logical blocks change */
        SCOPE_NS = 1 << 20,     /* bits 31:20 of an entry */
        SCOPE_CTRL = 1 << 21,
        FEATURE_SUPPORTED = 1 << 0,
        ROOM_TEMP = 300,    /* kelvins */
        UNITS = 512 * 1000, /* bytes of a SMART data unit */
};

void window_put(const struct window *w, uint64_t pos, const void *bytes, size_t n)
{
        const uint8_t *from = bytes;
        uint64_t end = w->at + w->len;

        if (pos < w->at) {
                uint64_t skip = w->at - pos;

                if (skip >= n && !PLANTED(LOG_OFFSET))
                        return;
                from += skip;
                n -= (size_t)skip;
                pos = w->at;
        }
        if (pos >= end)
                return;
        memcpy(w->out + (pos - w->at), from, n < end - pos ? n : (size_t)(end - pos));
}

/* --- the pages -------------------------------------------------------------------------------- */

struct page {
        bool io, discovery; /* controllers that have it */
        uint64_t (*size)(const struct admin *a);
        void (*put)(struct admin *a, const struct window *w);
};
static const struct page pages[256];

static bool has_page(const struct ctrl *c, unsigned lid)
{
        return is_discovery(c) ? pages[lid].discovery : pages[lid].io;
}

static uint64_t size_1k(const struct admin *a)
{
        (void)a;
        return SUPPORTED_LEN;
}

static uint64_t size_4k(const struct admin *a)
{
        (void)a;
        return sizeof(struct log_effects);
}

static uint64_t size_512(const struct admin *a)
{
        (void)a;
        return sizeof(struct log_smart);
}

static void put_supported(struct admin *a, const struct window *w)
{
        le32_t list[256] = { 0 };

        for (unsigned lid = 0; lid < 256; lid++)
                if (has_page(a->ctrl, lid))
                        list[lid] = le32(LOG_SUPPORTED_BIT);
        window_put(w, 0, list, sizeof(list));
}

static void put_feature_effects(struct admin *a, const struct window *w)
{
        le32_t list[256] = { 0 };

        for (unsigned fid = 0; fid < 256; fid++)
                if (features_supports(a->ctrl, (uint8_t)fid))
                        list[fid] = le32(FEATURE_SUPPORTED | SCOPE_CTRL);
        window_put(w, 0, list, sizeof(list));
}

static const uint32_t io_effects[256] = {
        [NVME_FLUSH] = EFFECT_SUPPORTED,
        [NVME_WRITE] = EFFECT_SUPPORTED | EFFECT_BLOCKS,
        [NVME_READ] = EFFECT_SUPPORTED,
        [NVME_WRITE_UNCORRECTABLE] = EFFECT_SUPPORTED | EFFECT_BLOCKS,
        [NVME_COMPARE] = EFFECT_SUPPORTED,
        [NVME_WRITE_ZEROES] = EFFECT_SUPPORTED | EFFECT_BLOCKS,
        [NVME_DSM] = EFFECT_SUPPORTED | EFFECT_BLOCKS,
        [NVME_VERIFY] = EFFECT_SUPPORTED,
};

static void put_effects(struct admin *a, const struct window *w)
{
        le32_t list[256] = { 0 };

        for (unsigned opc = 0; opc < 256; opc++)
                if (controller_supports(&a->ctrl->m.cfg, (uint8_t)opc))
                        list[opc] = le32(EFFECT_SUPPORTED | SCOPE_CTRL);
        window_put(w, offsetof(struct log_effects, admin), list, sizeof(list));
        if (is_discovery(a->ctrl))
                return;
        for (unsigned opc = 0; opc < 256; opc++)
                list[opc] = le32(io_effects[opc] ? io_effects[opc] | SCOPE_NS : 0);
        window_put(w, offsetof(struct log_effects, io), list, sizeof(list));
}

/* There are no NVMe-MI commands; the page has to be there (LPA). */
static void put_nothing(struct admin *a, const struct window *w)
{
        (void)a;
        (void)w;
}

static uint64_t size_error(const struct admin *a)
{
        (void)a;
        return sizeof(a->ctrl->errors);
}

/* The newest first; entries that were never used are zeroes. */
static void put_error(struct admin *a, const struct window *w)
{
        struct ctrl *c = a->ctrl;

        if (violates(a->env, LOG_MORE))
                return;
        pthread_mutex_lock(&c->lock);
        for (uint64_t i = 0; i < ERROR_ENTRIES && i < c->error_count; i++)
                window_put(w, i * sizeof(c->errors[0]),
                           &c->errors[(c->error_count - 1 - i) % ERROR_ENTRIES],
                           sizeof(c->errors[0]));
        pthread_mutex_unlock(&c->lock);
}

struct totals {
        uint64_t bytes_read, bytes_written, reads, writes, errors;
};

static struct totals total(struct ctrl *c)
{
        struct totals t;

        pthread_mutex_lock(&c->lock);
        t = (struct totals) { c->bytes_read, c->bytes_written, c->reads, c->writes,
                              c->error_count };
        for (const struct ctrl_queue *q = c->queues; q; q = q->next) {
                t.bytes_read += atomic_load(&q->bytes_read);
                t.bytes_written += atomic_load(&q->bytes_written);
                t.reads += atomic_load(&q->reads);
                t.writes += atomic_load(&q->writes);
        }
        pthread_mutex_unlock(&c->lock);
        return t;
}

static uint64_t units(uint64_t bytes)
{
        return bytes / UNITS + (bytes % UNITS > 0);
}

static void put_smart(struct admin *a, const struct window *w)
{
        struct totals t = total(a->ctrl);
        struct log_smart s = { .spare = 100, .spare_threshold = 10 };

        le_put(s.temp, 2, ROOM_TEMP);
        le_put(s.data_read, 8, units(t.bytes_read));
        le_put(s.data_written, 8, units(t.bytes_written));
        le_put(s.reads, 8, violates(a->env, LOG_SMART_READS) ? 0 : t.reads);
        le_put(s.writes, 8, t.writes);
        le_put(s.power_cycles, 8, 1);
        le_put(s.error_entries, 8, t.errors);
        window_put(w, 0, &s, sizeof(s));
}

static void put_fw_slot(struct admin *a, const struct window *w)
{
        struct log_fw_slot f = { .afi = 1 };

        text_pad(f.frs[0], sizeof(f.frs[0]), a->ctrl->subsystem->firmware);
        window_put(w, 0, &f, sizeof(f));
}

static bool retains(const struct admin *a)
{
        return le32_get(a->r->sqe.cdw10) >> 15 & 1; /* RAE */
}

static void put_changed_ns(struct admin *a, const struct window *w)
{
        le32_t list[LOG_CHANGED_NS_MAX] = { 0 };
        struct ctrl *c = a->ctrl;

        pthread_mutex_lock(&c->lock);
        if (c->changed > LOG_CHANGED_NS_MAX)
                list[0] = le32(UINT32_MAX);
        else
                for (unsigned i = 0; i < c->changed; i++)
                        list[i] = le32(c->changed_ns[i]);
        if (!retains(a) && !violates(a->env, LOG_CHANGED))
                c->changed = 0;
        pthread_mutex_unlock(&c->lock);
        window_put(w, 0, list, sizeof(list));
}

static uint64_t size_discovery(const struct admin *a)
{
        return discovery_log_size(a->ctrl, a->port);
}

static void put_discovery(struct admin *a, const struct window *w)
{
        discovery_log(a->ctrl, a->port, w);
}

static const struct page pages[256] = {
        [LOG_SUPPORTED] = { true, true, size_1k, put_supported },
        [LOG_ERROR] = { true, false, size_error, put_error },
        [LOG_SMART] = { true, false, size_512, put_smart },
        [LOG_FW_SLOT] = { true, false, size_512, put_fw_slot },
        [LOG_CHANGED_NS] = { true, false, size_4k, put_changed_ns },
        [LOG_EFFECTS] = { true, true, size_4k, put_effects },
        [LOG_FEATURE_EFFECTS] = { true, true, size_1k, put_feature_effects },
        [LOG_MI_EFFECTS] = { true, true, size_4k, put_nothing },
        [LOG_DISCOVERY] = { false, true, size_discovery, put_discovery },
};

/* --- the command ------------------------------------------------------------------------------ */

static uint16_t check_page(const struct admin *a, uint8_t lid)
{
        enum rule_id rule = LOG_UNKNOWN;

        if (has_page(a->ctrl, lid))
                return 0;
        if (is_discovery(a->ctrl))
                rule = pages[lid].io ? DISC_LOGS : LOG_UNKNOWN;
        else if (lid >= LOG_DISCOVERY && lid <= LOG_DISCOVERY + 3)
                rule = LOG_NOT_DISC;
        return rule_refuse(a->env->policy, rule);
}

static uint16_t check_fields(const struct admin *a, uint8_t lid, uint64_t offset)
{
        uint32_t nsid = le32_get(a->r->sqe.nsid);
        bool by_index = le32_get(a->r->sqe.cdw14) >> 23 & 1; /* OT */

        if (offset & 3)
                return NVME_INVALID_FIELD;
        if (by_index && rule_refuse(a->env->policy, LOG_INDEX))
                return NVME_INVALID_FIELD;
        if (lid == LOG_SMART && nsid != 0 && nsid != UINT32_MAX) /* LPA: not per namespace */
                return NVME_INVALID_FIELD;
        return 0;
}

/* The event is cleared before the page is put together: one that comes meanwhile is reported. */
static void clear_event(struct admin *a, uint8_t lid)
{
        if (retains(a) && !violates(a->env, LOG_RAE))
                return;
        pthread_mutex_lock(&a->ctrl->lock);
        controller_log_read(&a->ctrl->m, lid);
        pthread_mutex_unlock(&a->ctrl->lock);
}

static uint16_t read_page(struct admin *a, uint8_t lid, uint64_t offset)
{
        struct window w = { a->r->data, offset, a->r->len };

        if (offset > pages[lid].size(a) && !PLANTED(LOG_OFFSET))
                return rule_refuse(a->env->policy, LOG_OFFSET);
        if (lid == LOG_DISCOVERY && violates(a->env, DISC_OFFSETS))
                w.at = 0;
        clear_event(a, lid);
        pages[lid].put(a, &w);
        return 0;
}

uint16_t admin_get_log(struct admin *a)
{
        uint8_t lid = (uint8_t)le32_get(a->r->sqe.cdw10);
        uint64_t offset = le32_get(a->r->sqe.cdw12) | (uint64_t)le32_get(a->r->sqe.cdw13) << 32;
        uint16_t status = check_page(a, lid);

        memset(a->r->data, 0, a->r->len);
        if (!status)
                status = check_fields(a, lid, offset);
        if (status || !has_page(a->ctrl, lid))
                return status;
        pthread_rwlock_rdlock(&a->env->inv->lock); /* one command sees one state of the log */
        status = read_page(a, lid, offset);
        pthread_rwlock_unlock(&a->env->inv->lock);
        return status;
}
