/* SPDX-License-Identifier: BSD-3-Clause */
/* Get Log Page (Base 2.2 5.1.12). */
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "pdu/core/plant.h"

enum {
        SUPPORTED_LEN = 1024,
        LOG_SUPPORTED_BIT = 1 << 0,
        LOG_CONTEXT_HEADER = 1 << 16,       /* of the Persistent Event log: ECRH */
        LOG_INDEXED = 1 << 1,               /* index offsets (IOS) */
        LOG_PORT_LOCAL = 1 << (16 + 1),     /* of the discovery log: PLEOS */
        LOG_ALL_SUBSYSTEMS = 1 << (16 + 2), /* ... ALLSUBES */
        EFFECT_SUPPORTED = 1 << 0,
        EFFECT_BLOCKS = 1 << 1,       /* logical blocks change */
        EFFECT_NS_INVENTORY = 1 << 3, /* namespaces come or go (NIC) */
        SCOPE_NS = 1 << 20,           /* bits 31:20 of an entry */
        SCOPE_CTRL = 1 << 21,
        SCOPE_SUBSYSTEM = 1 << 25,
        FEATURE_SUPPORTED = 1 << 0,
        CRITICAL_TEMP = 1 << 1,
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

static bool has_whole(const struct ctrl *c)
{
        return c->subsystem && c->subsystem->whole;
}

static bool is_of_whole(unsigned lid)
{
        return lid == LOG_SANITIZE || lid == LOG_LOCKDOWN || lid == LOG_CHANGED_ALLOCATED;
}

static bool has_page(const struct ctrl *c, unsigned lid)
{
        if ((lid == LOG_ANA && !c->ana) || (is_of_whole(lid) && !has_whole(c)) ||
            (lid == LOG_RESERVATION && has_flaw(c->env, FLAW_RESERVATION_NO_LOG)))
                return false;
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
                        list[lid] = le32(LOG_SUPPORTED_BIT | (lid == LOG_ANA ? LOG_INDEXED : 0u));
        if (!is_discovery(a->ctrl))
                list[LOG_PERSISTENT] = le32(LOG_SUPPORTED_BIT | LOG_CONTEXT_HEADER);
        else
                list[LOG_DISCOVERY] =
                    le32(LOG_SUPPORTED_BIT | LOG_INDEXED | LOG_PORT_LOCAL | LOG_ALL_SUBSYSTEMS);
        window_put(w, 0, list, sizeof(list));
}

static void put_feature_effects(struct admin *a, const struct window *w)
{
        le32_t list[256] = { 0 };

        for (unsigned fid = 0; fid < 256; fid++)
                if (features_supports(a->ctrl, (uint8_t)fid))
                        list[fid] = le32(FEATURE_SUPPORTED |
                                         (feature_is_of_ns((uint8_t)fid)    ? SCOPE_NS
                                          : feature_is_shared((uint8_t)fid) ? SCOPE_SUBSYSTEM
                                                                            : SCOPE_CTRL));
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
        [NVME_COPY] = EFFECT_SUPPORTED | EFFECT_BLOCKS,
        [NVME_CANCEL] = EFFECT_SUPPORTED,
        [NVME_RESERVATION_REGISTER] = EFFECT_SUPPORTED,
        [NVME_RESERVATION_REPORT] = EFFECT_SUPPORTED,
        [NVME_RESERVATION_ACQUIRE] = EFFECT_SUPPORTED,
        [NVME_RESERVATION_RELEASE] = EFFECT_SUPPORTED,
};

/* Of admin commands that concern more than their controller. No Format NVM changes a format, and no namespace has
 * another capability after any command (NCC). */
static const uint32_t admin_effects[256] = {
        [NVME_SET_FEATURES] = SCOPE_NS | SCOPE_CTRL | SCOPE_SUBSYSTEM,
        [NVME_NS_MANAGEMENT] = EFFECT_BLOCKS | EFFECT_NS_INVENTORY | SCOPE_NS | SCOPE_SUBSYSTEM,
        [NVME_NS_ATTACHMENT] = EFFECT_NS_INVENTORY | SCOPE_NS | SCOPE_CTRL,
        [NVME_FORMAT] = EFFECT_BLOCKS | SCOPE_NS,
        [NVME_SANITIZE] = EFFECT_BLOCKS | SCOPE_SUBSYSTEM,
        [NVME_LOCKDOWN] = SCOPE_SUBSYSTEM,
        [NVME_GET_LBA_STATUS] = SCOPE_NS,
};

static void put_effects(struct admin *a, const struct window *w)
{
        le32_t list[256] = { 0 };

        for (unsigned opc = 0; opc < 256; opc++)
                if (controller_supports(&a->ctrl->m.cfg, (uint8_t)opc) &&
                    !(opc == NVME_NS_ATTACHMENT && has_flaw(a->env, FLAW_NS_ATTACH_UNLISTED)))
                        list[opc] =
                            le32(EFFECT_SUPPORTED |
                                 (admin_effects[opc] && !is_discovery(a->ctrl) ? admin_effects[opc]
                                                                               : SCOPE_CTRL));
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

static void spoil_error(const struct ctrl_env *env, struct log_error *e)
{
        if (has_flaw(env, FLAW_ERROR_SQID))
                e->sqid = le16(0);
        if (has_flaw(env, FLAW_ERROR_CID))
                e->cid = le16(0);
        if (has_flaw(env, FLAW_ERROR_STATUS))
                e->sf = status_field(NVME_INTERNAL_ERROR);
        if (has_flaw(env, FLAW_ERROR_OPCODE))
                e->opc = 0;
        if (has_flaw(env, FLAW_ERROR_NSID))
                e->nsid = le32(NSID_ALL);
        if (has_flaw(env, FLAW_ERROR_COUNT))
                e->count = le64(1);
        if (has_flaw(env, FLAW_ERROR_COUNT_STOPS) && le64_get(e->count) > 4)
                e->count = le64(4);
}

/* The newest first; entries that were never used are zeroes. */
static void put_error(struct admin *a, const struct window *w)
{
        struct ctrl *c = a->ctrl;
        struct log_error e;
        uint64_t n;

        if (violates(a->env, LOG_MORE))
                return;
        if (has_flaw(a->env, FLAW_ERROR_SHARED) && c->error_count == 0) {
                e = (struct log_error) { .count = le64(ctrl_errors_of_all()) };
                window_put(w, 0, &e, sizeof(e));
        }
        pthread_mutex_lock(&c->lock);
        n = c->error_count - c->errors_gone;
        n = n < ERROR_ENTRIES ? n : ERROR_ENTRIES;
        for (uint64_t i = 0; i < n; i++) {
                uint64_t at = has_flaw(a->env, FLAW_ERROR_OLDEST) ? n - 1 - i : i;

                e = c->errors[(c->error_count - 1 - at) % ERROR_ENTRIES];
                spoil_error(a->env, &e);
                window_put(w, i * sizeof(e), &e, sizeof(e));
        }
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

static bool is_beyond(struct ctrl *c)
{
        bool beyond;

        pthread_mutex_lock(&c->lock);
        beyond = has_flaw(c->env, FLAW_SMART_WARNING_UNDER) ? ROOM_TEMP >= c->settings.temp_over
                                                            : settings_too_hot(c);
        pthread_mutex_unlock(&c->lock);
        return beyond;
}

static bool is_of_ns(const struct admin *a)
{
        uint32_t nsid = le32_get(a->r->sqe.nsid);

        return nsid != 0 && nsid != NSID_ALL;
}

static void put_smart(struct admin *a, const struct window *w)
{
        struct totals t = total(a->ctrl);
        struct log_smart s = { .spare = 100, .spare_threshold = 10 };

        le_put(s.temp, 2, has_flaw(a->env, FLAW_SMART_APART) && is_of_ns(a) ? 0 : ROOM_TEMP);
        if (!has_flaw(a->env, FLAW_SMART_WARNING) && is_beyond(a->ctrl))
                s.critical = CRITICAL_TEMP;
        if (has_flaw(a->env, FLAW_SMART_UNITS)) {
                t.bytes_read = t.reads;
                t.bytes_written = t.writes;
        }
        if (has_flaw(a->env, FLAW_SMART_KILOBYTES))
                t.bytes_read *= 512;
        le_put(s.data_read, 8, units(t.bytes_read));
        le_put(s.data_written, 8,
               has_flaw(a->env, FLAW_SMART_WRITTEN) ? 1 : units(t.bytes_written));
        le_put(s.reads, 8, violates(a->env, LOG_SMART_READS) ? 0 : t.reads);
        le_put(s.writes, 8, t.writes);
        le_put(s.power_cycles, 8, 1);
        le_put(s.error_entries, 8, has_flaw(a->env, FLAW_ERRORS_UNCOUNTED) ? 0 : t.errors);
        window_put(w, 0, &s, sizeof(s));
}

static void put_fw_slot(struct admin *a, const struct window *w)
{
        struct log_fw_slot f = { .afi = !has_flaw(a->env, FLAW_AFI_ZERO) };
        bool other = has_flaw(a->env, FLAW_FIRMWARE_OTHER);

        text_pad(f.frs[0], sizeof(f.frs[0]), other ? "other" : a->ctrl->subsystem->firmware);
        window_put(w, 0, &f, sizeof(f));
}

static bool retains(const struct admin *a)
{
        return le32_get(a->r->sqe.cdw10) >> 15 & 1; /* RAE */
}

static void put_list(struct admin *a, const struct window *w, const uint32_t *nsids,
                     unsigned *count)
{
        le32_t list[LOG_CHANGED_NS_MAX] = { 0 };

        pthread_mutex_lock(&a->ctrl->lock);
        if (*count > LOG_CHANGED_NS_MAX)
                list[0] = le32(UINT32_MAX);
        else
                for (unsigned i = 0; i < *count; i++)
                        list[i] = le32(nsids[i]);
        if (!retains(a) && !violates(a->env, LOG_CHANGED))
                *count = 0;
        pthread_mutex_unlock(&a->ctrl->lock);
        window_put(w, 0, list, sizeof(list));
}

static void put_changed_ns(struct admin *a, const struct window *w)
{
        put_list(a, w, a->ctrl->changed_ns, &a->ctrl->changed);
}

static void put_changed_allocated(struct admin *a, const struct window *w)
{
        put_list(a, w, a->ctrl->changed_allocated_ns, &a->ctrl->changed_allocated);
}

/* --- Persistent Event: 5.1.12.1.14 */

enum pel_action pel_action(const union sqe *sqe)
{
        uint32_t dw10 = le32_get(sqe->cdw10);

        if (sqe->opc != NVME_GET_LOG_PAGE || (dw10 & 0xff) != LOG_PERSISTENT)
                return PEL_NONE;
        return (enum pel_action)(dw10 >> 8 & 3);
}

static struct pel_context *make_context(const struct admin *a)
{
        struct ctrl *c = a->ctrl;
        struct id_ctrl id = { 0 };

        identify_fill(c, &id);
        return pel_context(&c->subsystem->pel,
                           &(struct pel_subject) { c->subsystem->nqn, &id,
                                                   settings_stamp(c, a->now), c->subsystem->whole },
                           violates(a->env, LOG_PEL_ORDER), has_flaw(a->env, FLAW_PEL_STILL));
}

/* Under the controller's lock: the context that the command is to read, or none. */
static uint16_t take_context(struct admin *a, enum pel_action action, bool *existed)
{
        struct ctrl *c = a->ctrl;

        *existed = c->pel;
        if (action == PEL_RELEASE ||
            (action == PEL_ESTABLISH && has_flaw(a->env, FLAW_PEL_AGAIN)) ||
            (action == PEL_READ && *existed && has_flaw(a->env, FLAW_PEL_GROWS))) {
                free(c->pel);
                c->pel = NULL;
        }
        if (action == PEL_RELEASE)
                return 0;
        if (action == PEL_READ ? !*existed : action == PEL_ESTABLISH && c->pel)
                return NVME_SEQUENCE_ERROR;
        if (!c->pel)
                c->pel = make_context(a);
        return c->pel ? 0 : NVME_INTERNAL_ERROR;
}

static void put_context(const struct admin *a, enum pel_action action, bool existed,
                        uint64_t offset)
{
        const struct ctrl *c = a->ctrl;
        struct window w = { a->r->data, action == PEL_HEADER ? 0 : offset, a->r->len };
        struct log_pel h;

        memcpy(&h, c->pel->bytes, sizeof(h));
        if (existed && action == PEL_HEADER)
                h.rci = le32(PEL_RCE | 1u << 16 | c->port_id);
        if (action == PEL_HEADER && w.len > LOG_PEL_HEADER)
                w.len = LOG_PEL_HEADER;
        window_put(&w, 0, &h, sizeof(h));
        if (action != PEL_HEADER)
                window_put(&w, sizeof(h), c->pel->bytes + sizeof(h), c->pel->len - sizeof(h));
}

static uint16_t read_events(struct admin *a, uint64_t offset)
{
        enum pel_action action = pel_action(&a->r->sqe);
        uint16_t status;
        bool existed;

        pthread_mutex_lock(&a->ctrl->lock);
        status = take_context(a, action, &existed);
        if (!status && action <= PEL_ESTABLISH && offset > a->ctrl->pel->len)
                status = rule_refuse(a->env->policy, LOG_OFFSET);
        else if (!status && action != PEL_RELEASE)
                put_context(a, action, existed, offset);
        pthread_mutex_unlock(&a->ctrl->lock);
        return status;
}

static uint64_t size_reservation(const struct admin *a)
{
        (void)a;
        return sizeof(struct log_reservation);
}

/* Reading takes the page away, whatever RAE says. */
static void put_reservation(struct admin *a, const struct window *w)
{
        struct log_reservation page;

        pthread_mutex_lock(&a->ctrl->lock);
        page = notices_read(a->ctrl);
        pthread_mutex_unlock(&a->ctrl->lock);
        window_put(w, 0, &page, sizeof(page));
}

/* PLEO and ALLSUBE */
static struct discovery_part discovery_part(const struct admin *a)
{
        uint32_t dw10 = le32_get(a->r->sqe.cdw10);

        return (struct discovery_part) {
                .local = dw10 >> 9 & 1 && !has_flaw(a->env, FLAW_DISC_NOT_LOCAL),
                .all = dw10 >> 10 & 1 && !has_flaw(a->env, FLAW_DISC_NOT_ALL),
        };
}

static uint64_t size_discovery(const struct admin *a)
{
        return discovery_log_size(a->ctrl, a->port, discovery_part(a));
}

static void put_discovery(struct admin *a, const struct window *w)
{
        discovery_log(a->ctrl, a->port, discovery_part(a), w);
}

static const struct page pages[256] = {
        [LOG_SUPPORTED] = { true, true, size_1k, put_supported },
        [LOG_ERROR] = { true, false, size_error, put_error },
        [LOG_SMART] = { true, false, size_512, put_smart },
        [LOG_FW_SLOT] = { true, false, size_512, put_fw_slot },
        [LOG_CHANGED_NS] = { true, false, size_4k, put_changed_ns },
        [LOG_EFFECTS] = { true, true, size_4k, put_effects },
        [LOG_ANA] = { true, false, ana_log_size, ana_log },
        [LOG_PERSISTENT] = { true, false, size_512, put_nothing }, /* read_events() */
        [LOG_LBA_STATUS] = { true, false, size_512, put_nothing }, /* lba_status_log() */
        [LOG_FEATURE_EFFECTS] = { true, true, size_1k, put_feature_effects },
        [LOG_MI_EFFECTS] = { true, true, size_4k, put_nothing },
        [LOG_RESERVATION] = { true, false, size_reservation, put_reservation },
        [LOG_LOCKDOWN] = { true, false, size_512, lockdown_log },
        [LOG_CHANGED_ALLOCATED] = { true, false, size_4k, put_changed_allocated },
        [LOG_SANITIZE] = { true, false, size_512, sanitize_log },
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

static bool by_index(const struct admin *a)
{
        return le32_get(a->r->sqe.cdw14) >> 23 & 1; /* OT */
}

static uint16_t check_fields(const struct admin *a, uint8_t lid, uint64_t offset)
{
        uint32_t nsid = le32_get(a->r->sqe.nsid);
        bool indexed = by_index(a) && (lid == LOG_ANA || lid == LOG_DISCOVERY);

        if (offset & 3 && !indexed)
                return NVME_INVALID_FIELD;
        if (by_index(a) && !indexed && rule_refuse(a->env->policy, LOG_INDEX))
                return NVME_INVALID_FIELD;
        if (lid == LOG_SMART && a->ctrl->ana && violates(a->env, ANA_UNAFFECTED))
                return NVME_ANA_INACCESSIBLE;
        if (nsid != 0 && nsid != NSID_ALL && /* LPA: whether SMART is per namespace */
            (lid != LOG_SMART || !(has_flaw(a->env, FLAW_SMART_NSID) ||
                                   (has_whole(a->ctrl) && ctrl_ns(a->ctrl, nsid)))))
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
        ctrl_send_events(a->ctrl);
        pthread_mutex_unlock(&a->ctrl->lock);
}

static uint16_t read_page(struct admin *a, uint8_t lid, uint64_t offset)
{
        struct window w = { a->r->data, offset, a->r->len };

        if (lid == LOG_PERSISTENT)
                return read_events(a, offset);
        if (lid == LOG_LBA_STATUS) {
                clear_event(a, lid);
                return lba_status_log(a, offset, retains(a));
        }
        if (by_index(a) && lid == LOG_ANA && !violates(a->env, ANA_INDEX)) {
                if (!ana_log_offset(a, offset, &w.at))
                        return NVME_INVALID_FIELD;
                offset = w.at;
        }
        if (by_index(a) && lid == LOG_DISCOVERY) { /* the header, then entries as long as it */
                if (offset >= pages[lid].size(a) / DISC_ENTRY_LEN)
                        return NVME_INVALID_FIELD;
                w.at = (offset + has_flaw(a->env, FLAW_DISC_INDEX_BYTES)) * DISC_ENTRY_LEN;
        } else if (offset > pages[lid].size(a) && !PLANTED(LOG_OFFSET)) {
                if (has_flaw(a->env, FLAW_LOG_FAILED_CLEARS))
                        clear_event(a, lid);
                return rule_refuse(a->env->policy, LOG_OFFSET);
        }
        if (lid == LOG_DISCOVERY && violates(a->env, DISC_OFFSETS))
                w.at = 0;
        if (lid == LOG_ERROR && has_flaw(a->env, FLAW_ERROR_OFFSET))
                w.at = 0;
        clear_event(a, lid);
        if (offset < 1024 || lid == LOG_DISCOVERY || !has_flaw(a->env, FLAW_LOG_LATE_PART))
                pages[lid].put(a, &w);
        return 0;
}

uint16_t admin_get_log(struct admin *a)
{
        uint8_t lid = (uint8_t)le32_get(a->r->sqe.cdw10);
        uint64_t offset = le32_get(a->r->sqe.cdw12) | (uint64_t)le32_get(a->r->sqe.cdw13) << 32;
        uint16_t status = check_page(a, lid);

        if (a->r->len > 0) /* 0: Release Context */
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
