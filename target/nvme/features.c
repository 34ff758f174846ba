/* SPDX-License-Identifier: BSD-3-Clause */
/* Set and Get Features (Base 2.2 5.1.11, 5.1.25) of what is not the machine's own. */
#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"

#include "admin.h"

enum {
        WARNING_TEMP = 0x157, /* kelvins: WCTEMP */
        TEMP_SENSOR_ALL = 0xf,
        TEMP_HYSTERESIS = 22, /* bits of dw11 from here on: TMPTHMH is 0 */
        TIMESTAMP_BITS = 48,
        TIMESTAMP_BY_HOST = 1 << 1, /* byte 6: origin: set by the host */
        HOST_BEHAVIOR_LBAFEE = 2,
        HOST_BEHAVIOR_COPY = 4, /* where CDFE is */
        COPY_ALWAYS = 3,        /* its formats that need not be enabled */
        PROGRESS_BITS = 0xff,
        SAVEABLE = 1 << 0,
        SAVE = 1u << 31, /* of dw10 */
};

/* Features that are one dword to store and to give back. */
static const struct dword_feature {
        bool supported;
        uint32_t initial, settable;
} dwords[32] = {
        [FEAT_ARBITRATION] = { true, 0, 0xffffff07 },
        [FEAT_POWER] = { true, 0, 0xe0 }, /* one power state; workload hint */
        [FEAT_WRITE_CACHE] = { true, 1, 1 },
        [FEAT_WRITE_ATOMICITY] = { true, 0, 1 },
        [FEAT_THERMAL_MANAGEMENT] = { true, 0, UINT32_MAX }, /* and as is_thermal() has it */
        [FEAT_LBA_STATUS] = { true, LBA_INTERVAL << 16 | LBA_INTERVAL, 0 },
};

static const struct dword_feature *dword_feature(uint8_t fid)
{
        bool known = fid < sizeof(dwords) / sizeof(dwords[0]) && dwords[fid].supported;

        return known ? &dwords[fid] : NULL;
}

static uint32_t after_reset(const struct ctrl *c, size_t fid)
{
        if ((fid == FEAT_ARBITRATION && has_flaw(c->env, FLAW_KEPT_ARBITRATION)) ||
            (fid == FEAT_POWER && has_flaw(c->env, FLAW_KEPT_POWER)) ||
            (fid == FEAT_WRITE_CACHE && has_flaw(c->env, FLAW_KEPT_WRITE_CACHE)))
                return c->settings.dword[fid];
        return dwords[fid].initial;
}

static void settings_recovery(struct ctrl *c, uint32_t value)
{
        struct ns *ns = ctrl_first_ns(c);

        for (; ns; ns = has_flaw(c->env, FLAW_RECOVERY_ONE) ? NULL : ctrl_next_ns(c, ns))
                ns_set_recovery(ns, value);
}

/* FLAW_PROTECTED_RESET */
static void settings_unprotect(struct ctrl *c)
{
        for (struct ns *ns = ctrl_first_ns(c); ns; ns = ctrl_next_ns(c, ns))
                ns_protect(ns, 0);
}

/* FLAW_NS_ATTACH_RESET */
static void attach_again(struct ctrl *c)
{
        for (struct ns *ns = c->subsystem ? c->subsystem->ns : NULL; ns; ns = ns->next)
                if (ns_is_flipped(ns, c->m.cntlid))
                        ns_flip(ns, c->m.cntlid);
}

/* FLAW_LABEL_RESET */
static void forget_labels(struct ctrl *c)
{
        for (struct ns *ns = ctrl_first_ns(c); ns; ns = ctrl_next_ns(c, ns))
                memset(nvme_ns(ns)->label, 0, sizeof(nvme_ns(ns)->label));
}

static uint16_t initial_threshold(const struct ctrl *c)
{
        return has_flaw(c->env, FLAW_THRESHOLD_DEFAULT) ? UINT16_MAX : WARNING_TEMP;
}

void settings_begin(struct ctrl *c, uint64_t now)
{
        c->settings = (struct settings) { .temp_over = initial_threshold(c),
                                          .timestamp_at = now,
                                          .reset_at = now };
        c->notices = (struct notices) { 0 };
        for (size_t fid = 0; fid < sizeof(dwords) / sizeof(dwords[0]); fid++)
                c->settings.dword[fid] = dwords[fid].initial;
        if (c->subsystem && has_flaw(c->env, FLAW_SETTINGS_STAY))
                c->settings.dword[FEAT_ARBITRATION] = atomic_load(&c->subsystem->last_arbitration);
        atomic_store(&c->write_through, false);
        atomic_store(&c->copy_formats, 0);
        atomic_store(&c->extended, false);
}

void settings_reset(struct ctrl *c, uint64_t now)
{
        const struct settings old = c->settings;
        struct settings *s = &c->settings;

        *s = (struct settings) { .temp_over = initial_threshold(c),
                                 .timestamp_at = now,
                                 .reset_at = now };
        memcpy(s->dword, old.dword, sizeof(s->dword));
        if (!has_flaw(c->env, FLAW_PROGRESS_RESET))
                s->progress = old.progress;
        if (has_flaw(c->env, FLAW_NS_ATTACH_RESET))
                attach_again(c);
        if (has_flaw(c->env, FLAW_LABEL_RESET))
                forget_labels(c);
        for (size_t fid = 0; fid < sizeof(dwords) / sizeof(dwords[0]); fid++)
                s->dword[fid] = after_reset(c, fid);
        if (!has_flaw(c->env, FLAW_KEPT_RECOVERY))
                settings_recovery(c, 0);
        if (has_flaw(c->env, FLAW_PROTECTED_RESET))
                settings_unprotect(c);
        for (struct ns *ns = ctrl_first_ns(c); ns && has_flaw(c->env, FLAW_RESERVATION_RESET);
             ns = ctrl_next_ns(c, ns))
                ns_resv_clear_all(ns);
        c->notices = (struct notices) { 0 };
        if (has_flaw(c->env, FLAW_KEPT_THRESHOLD))
                s->temp_over = old.temp_over;
        if (has_flaw(c->env, FLAW_KEPT_UNDER))
                s->temp_under = old.temp_under;
        if (has_flaw(c->env, FLAW_KEPT_BEHAVIOR))
                memcpy(s->host_behavior, old.host_behavior, sizeof(s->host_behavior));
        if (has_flaw(c->env, FLAW_TIMESTAMP_KEPT)) {
                s->timestamp = old.timestamp;
                s->timestamp_at = old.timestamp_at;
        }
        atomic_store(&c->write_through, s->dword[FEAT_WRITE_CACHE] == 0);
        atomic_store(&c->copy_formats, 0);
        atomic_store(&c->extended, false);
}

bool feature_is_of_ns(uint8_t fid)
{
        return fid == FEAT_LBA_RANGES || fid == FEAT_ERROR_RECOVERY ||
               fid == FEAT_RESERVATION_MASK || fid == FEAT_RESERVATION_PERSISTENCE ||
               fid == FEAT_WRITE_PROTECT || fid == FEAT_LABEL;
}

bool feature_is_shared(uint8_t fid)
{
        return fid == FEAT_PERFORMANCE || fid == FEAT_SANITIZE || fid == FEAT_AGENT ||
               fid == FEAT_HOST_AGENT;
}

bool features_supports(const struct ctrl *c, uint8_t fid)
{
        if (fid == FEAT_AEC || fid == FEAT_KATO)
                return controller_supports(&c->m.cfg, NVME_SET_FEATURES);
        if (fid == FEAT_SANITIZE)
                return c->subsystem && c->subsystem->whole;
        return !is_discovery(c) &&
               (dword_feature(fid) || feature_is_of_ns(fid) || fid == FEAT_TEMP ||
                fid == FEAT_QUEUES || fid == FEAT_TIMESTAMP || fid == FEAT_HOST_BEHAVIOR ||
                fid == FEAT_HOSTID || fid == FEAT_PROGRESS || feature_is_shared(fid));
}

static uint8_t fid_of(const struct request *r)
{
        return (uint8_t)le32_get(r->sqe.cdw10);
}

static bool is_set(const struct request *r)
{
        return r->sqe.opc == NVME_SET_FEATURES;
}

static uint32_t data_len(uint8_t fid, bool extended)
{
        switch (fid) {
        case FEAT_TIMESTAMP:
                return TIMESTAMP_LEN;
        case FEAT_HOST_BEHAVIOR:
                return HOST_BEHAVIOR_LEN;
        case FEAT_LBA_RANGES:
                return LBA_RANGES_LEN;
        case FEAT_PERFORMANCE:
                return PERFORMANCE_LEN;
        case FEAT_LABEL:
                return LABEL_LEN;
        case FEAT_AGENT:
        case FEAT_HOST_AGENT:
                return AGENT_LEN;
        case FEAT_HOSTID:
                return extended ? 16 : 8;
        default:
                return 0;
        }
}

/* Setting the Host Identifier is refused whatever it is: its data is not asked for. */
uint16_t features_transfer(struct request *r)
{
        bool extended = le32_get(r->sqe.cdw11) & EXHID;
        uint32_t len = data_len(fid_of(r), extended);

        if (is_set(r) ? fid_of(r) == FEAT_HOSTID : feature_select(&r->sqe) >= FEATURE_CAPABILITIES)
                len = 0;
        if (PLANTED(FEATURE_SHORT) && fid_of(r) == FEAT_HOST_BEHAVIOR &&
            le32_get(r->sqe.sgl.len) < len)
                len = le32_get(r->sqe.sgl.len);
        r->len = len;
        r->xfer = len == 0 ? XFER_NONE : is_set(r) ? XFER_H2C : XFER_C2H;
        return 0;
}

/* --- the features ----------------------------------------------------------------------------- */

/* Two temperatures, each 0 or within MNTMT and MXTMT, the first below the second (5.1.25.1.9). */
static bool is_thermal(const struct ctrl *c, uint32_t value)
{
        uint32_t first = value >> 16, second = value & 0xffff;
        struct id_ctrl id = { 0 };
        uint32_t least, most;

        identify_fill(c, &id);
        least = le16_get(id.mntmt);
        most = le16_get(id.mxtmt);
        return (!first || (first >= least && first <= most)) &&
               (!second || (second >= least && second <= most)) &&
               (!second || first < second || has_flaw(c->env, FLAW_THERMAL_ORDER));
}

static uint16_t set_dword(struct ctrl *c, uint8_t fid, uint32_t value)
{
        if (value & ~dwords[fid].settable ||
            (fid == FEAT_THERMAL_MANAGEMENT && !is_thermal(c, value)))
                return NVME_INVALID_FIELD;
        c->settings.dword[fid] = value;
        if (fid == FEAT_ARBITRATION)
                atomic_store(&c->subsystem->last_arbitration, value);
        if (fid == FEAT_WRITE_CACHE)
                atomic_store(&c->write_through, value == 0);
        return 0;
}

static uint16_t *threshold(struct ctrl *c, uint32_t dw11)
{
        if (has_flaw(c->env, FLAW_THRESHOLDS_MIXED))
                return &c->settings.temp_over;
        switch (dw11 >> 20 & 3) {
        case 0:
                return &c->settings.temp_over;
        case 1:
                return &c->settings.temp_under;
        default:
                return NULL;
        }
}

/* There is the composite temperature and no sensor. */
static uint16_t temperature(struct ctrl *c, bool set, uint32_t dw11, uint32_t *value)
{
        uint32_t sensor = dw11 >> 16 & 0xf;
        uint16_t *t = threshold(c, dw11);

        if (!t || dw11 >> TEMP_HYSTERESIS || (sensor != 0 && !(set && sensor == TEMP_SENSOR_ALL)))
                return NVME_INVALID_FIELD;
        if (set)
                *t = (uint16_t)dw11;
        else
                *value = *t;
        return 0;
}

struct pel_stamp settings_stamp(const struct ctrl *c, uint64_t now)
{
        const struct settings *s = &c->settings;
        struct pel_stamp stamp = { .bytes = { [6] = s->timestamp_set ? TIMESTAMP_BY_HOST : 0 } };

        le_put(stamp.bytes, TIMESTAMP_BITS / 8, s->timestamp + (now - s->timestamp_at));
        return stamp;
}

/* The event has the new time, its data the old one. */
static void record_timestamp(struct admin *a, struct pel_stamp old)
{
        struct ctrl *c = a->ctrl;
        struct pel_stamp now = settings_stamp(c, a->now);
        bool swapped = has_flaw(a->env, FLAW_PEL_OLD_TIME);
        struct pel_from from = { c->m.cntlid, c->port_id, swapped ? old : now };
        uint8_t data[16];

        memcpy(data, swapped ? now.bytes : old.bytes, 8);
        le_put(data + 8, 8, a->now - c->settings.reset_at);
        pel_add(&c->subsystem->pel, PEL_TIMESTAMP, &from, data, sizeof(data));
}

static void set_timestamp(struct admin *a)
{
        struct settings *s = &a->ctrl->settings;
        struct pel_stamp old = settings_stamp(a->ctrl, a->now);

        s->timestamp = le_get(a->r->data, TIMESTAMP_BITS / 8);
        s->timestamp_at = a->now;
        s->timestamp_set = true;
        record_timestamp(a, old);
}

static void get_timestamp(const struct admin *a, bool current)
{
        const struct settings *s = &a->ctrl->settings;
        uint64_t elapsed = a->now - s->timestamp_at;
        bool by_host = current && s->timestamp_set && !has_flaw(a->env, FLAW_TIMESTAMP_ORIGIN);

        if (has_flaw(a->env, FLAW_TIMESTAMP_FAST))
                elapsed *= 2;
        if (has_flaw(a->env, FLAW_TIMESTAMP_STILL))
                elapsed = 0;
        le_put(a->r->data, TIMESTAMP_BITS / 8, current ? s->timestamp + elapsed : 0);
        a->r->data[6] = by_host ? TIMESTAMP_BY_HOST : 0;
        a->r->data[7] = 0;
}

/* Fabrics knows the 128-bit one only. */
static uint16_t get_hostid(const struct admin *a)
{
        if (!(le32_get(a->r->sqe.cdw11) & EXHID) || has_flaw(a->env, FLAW_HOSTID_REFUSED))
                return NVME_INVALID_FIELD;
        memcpy(a->r->data, a->ctrl->m.hostid, sizeof(a->ctrl->m.hostid));
        if (has_flaw(a->env, FLAW_HOSTID_HALF))
                memset(a->r->data + 8, 0, 8);
        return 0;
}

static uint32_t recovery_of(const struct admin *a, const struct ns *ns)
{
        uint32_t value = atomic_load(&nvme_ns(ns)->recovery);

        return has_flaw(a->env, FLAW_RECOVERY_DULBE) ? value & UINT16_MAX : value;
}

/* Error Recovery, of one namespace or (Set Features) of all (4.4). */
static uint16_t recovery(struct admin *a, bool current, uint32_t *value)
{
        uint32_t nsid = le32_get(a->r->sqe.nsid), dw11 = le32_get(a->r->sqe.cdw11);
        bool every = is_set(a->r) && (nsid == NSID_ALL || has_flaw(a->env, FLAW_RECOVERY_SHARED));
        struct ns *ns = ctrl_ns(a->ctrl, nsid);

        if (!ns && !every)
                return nsid == 0 || nsid > CTRL_NSID_MAX ? NVME_INVALID_NS : NVME_INVALID_FIELD;
        if (is_set(a->r) && dw11 & ~(uint32_t)(RECOVERY_DULBE | UINT16_MAX))
                return NVME_INVALID_FIELD;
        if (!is_set(a->r))
                *value = current ? recovery_of(a, ns) : 0;
        else if (every)
                settings_recovery(a->ctrl, dw11);
        else
                ns_set_recovery(has_flaw(a->env, FLAW_RECOVERY_FIRST) ? ctrl_first_ns(a->ctrl) : ns,
                                dw11);
        return 0;
}

static void set_behavior(struct admin *a)
{
        uint8_t *now = a->ctrl->settings.host_behavior;

        for (unsigned i = 0; i < HOST_BEHAVIOR_LEN; i++)
                now[i] =
                    a->r->data[i] | (has_flaw(a->env, FLAW_BEHAVIOR_MERGED) ? now[i] : (uint8_t)0);
        if (!has_flaw(a->env, FLAW_BEHAVIOR_COPY))
                now[HOST_BEHAVIOR_COPY] &= (uint8_t)~COPY_ALWAYS;
        atomic_store(&a->ctrl->copy_formats, (uint16_t)le_get(now + HOST_BEHAVIOR_COPY, 2));
        atomic_store(&a->ctrl->extended, now[HOST_BEHAVIOR_LBAFEE] == 1);
}

/* --- what a subsystem or a namespace remembers ---------------------------------------------------- */

/* Namespace Admin Label (5.1.25.1.22), which is always saved: the current value is the saved one. */
static uint16_t label(struct admin *a, bool current)
{
        uint32_t nsid = le32_get(a->r->sqe.nsid);
        struct ns *ns = ctrl_ns(a->ctrl, nsid);
        pthread_mutex_t *lock = &a->ctrl->subsystem->features.lock;

        if (!ns)
                return nsid == 0 || nsid > CTRL_NSID_MAX ? NVME_INVALID_NS : NVME_INVALID_FIELD;
        if (is_set(a->r) && !(le32_get(a->r->sqe.cdw10) & SAVE) &&
            !has_flaw(a->env, FLAW_LABEL_UNSAVED))
                return NVME_INVALID_FIELD;
        pthread_mutex_lock(lock);
        if (is_set(a->r))
                memcpy(nvme_ns(ns)->label, a->r->data, LABEL_LEN);
        else if (current || feature_select(&a->r->sqe) == FEATURE_SAVED)
                memcpy(a->r->data, nvme_ns(ns)->label, LABEL_LEN);
        else
                memset(a->r->data, has_flaw(a->env, FLAW_LABEL_DEFAULT) ? ' ' : 0, LABEL_LEN);
        pthread_mutex_unlock(lock);
        return 0;
}

/* The addresses of agents (5.1.25.1.24, .25). */
static uint16_t agent(struct admin *a, bool current)
{
        struct shared_features *f = &a->ctrl->subsystem->features;
        bool mixed = has_flaw(a->env, FLAW_AGENT_SHARED);
        uint8_t *agent = f->agent[mixed ? 0 : fid_of(a->r) - FEAT_AGENT];

        pthread_mutex_lock(&f->lock);
        if (is_set(a->r))
                memcpy(agent, a->r->data, AGENT_LEN);
        else if (current)
                memcpy(a->r->data, agent, AGENT_LEN);
        else
                memset(a->r->data, 0, AGENT_LEN);
        pthread_mutex_unlock(&f->lock);
        return 0;
}

static uint16_t progress(struct admin *a, bool current, uint32_t *value)
{
        uint32_t dw11 = le32_get(a->r->sqe.cdw11);

        if (!is_set(a->r))
                *value = current ? a->ctrl->settings.progress : 0;
        else if (dw11 & ~(uint32_t)PROGRESS_BITS)
                return NVME_INVALID_FIELD;
        else
                a->ctrl->settings.progress = dw11;
        return 0;
}

/* Sanitize Config: NODRM is 0, and stays so. */
static uint16_t sanitize_config(const struct admin *a)
{
        bool other = is_set(a->r) && le32_get(a->r->sqe.cdw11) != 0;

        return other && !has_flaw(a->env, FLAW_FEATURE_FIXED) ? NVME_FEATURE_NOT_CHANGEABLE : 0;
}

enum { PROTECT = 1, UNTIL_POWER_CYCLE = 2 };

/* What was written before a namespace was protected, and whether it is, are on the disk when the command completes. Of
 * several the last one's flush counts. */
static uint16_t set_protection(struct admin *a, struct ns *ns, uint32_t state)
{
        struct nvme_ns *own = nvme_ns(ns);
        bool changes = atomic_load(&ns->protection) != state || atomic_load(&own->protector);
        uint16_t status;

        if (state == UNTIL_POWER_CYCLE) /* there is no RPMB that could permit it (5.1.25.1.31) */
                return rule_refuse(a->env->policy, NS_PROTECT_CHANGE);
        if (state > PROTECT)
                return NVME_INVALID_FIELD;
        status = ns_status(ns_protect(ns, (uint8_t)state));
        if (!status && changes)
                atomic_store(&own->protector, a->r);
        if (state == PROTECT && has_flaw(a->env, FLAW_PROTECT_EVENT)) {
                controller_event(&a->ctrl->m, AEN_SMART, 0, LOG_SMART);
                ctrl_send_events(a->ctrl);
        }
        if (!status && (changes || state == PROTECT) && ns_waits(ns, true))
                a->verdict = CTRL_FLUSH;
        return status;
}

/* NSATTR of Identify Namespace has changed: each controller that the namespace is attached to reports that, the
 * one that got the command among them, for figure 152 of 5.1.2 excepts it for Delete alone. */
static void report_protection(const struct ctrl *c, const struct ns *ns)
{
        struct ns_change change = { .subsystem = c->subsystem,
                                    .nsid = ns->nsid,
                                    .was = true,
                                    .is = true,
                                    .before = nvme_ns(ns)->hosts,
                                    .after = nvme_ns(ns)->hosts,
                                    .attached = ns };

        ctrl_table_ns_changed(c->env->table, &change);
        ctrl_table_allocated_changed(c->env->table, &change);
}

/* No namespace is marked by an earlier command that had the same place. */
static void begin_protection(const struct ctrl *c, const struct request *r)
{
        const struct request *earlier;

        for (struct ns *ns = c->subsystem->ns; ns; ns = ns->next) {
                earlier = r;
                atomic_compare_exchange_strong(&nvme_ns(ns)->protector, &earlier, NULL);
        }
}

static bool is_protection(const struct ctrl *c, const struct request *r)
{
        return c->subsystem && r->sqe.opc == NVME_SET_FEATURES && fid_of(r) == FEAT_WRITE_PROTECT;
}

/* False: it had not changed that, or another one has taken that over. */
static bool forget_protection(struct ns *ns, const struct request *r)
{
        return atomic_compare_exchange_strong(&nvme_ns(ns)->protector, &r, NULL);
}

static bool undo_protection(struct ns *ns, const struct request *r)
{
        return forget_protection(ns, r) && ns_protect(ns, !atomic_load(&ns->protection)) == NS_DONE;
}

static bool has_protected(const struct ns *ns, const struct request *r)
{
        return atomic_load(&nvme_ns(ns)->protector) == r;
}

void features_protected(const struct ctrl *c, const struct request *r, bool ends)
{
        bool done = cqe_status(&r->cqe) == NVME_SUCCESS;

        for (struct ns *ns = is_protection(c, r) ? c->subsystem->ns : NULL; ns; ns = ns->next) {
                if (done && has_protected(ns, r) && !has_flaw(c->env, FLAW_PROTECT_SILENT))
                        report_protection(c, ns);
                if (!done)
                        undo_protection(ns, r);
                else if (ends)
                        forget_protection(ns, r);
        }
}

void features_flushed(const struct ctrl *c, const struct request *r)
{
        bool done = cqe_status(&r->cqe) == NVME_SUCCESS;

        for (struct ns *ns = is_protection(c, r) ? c->subsystem->ns : NULL; ns; ns = ns->next)
                if (done)
                        forget_protection(ns, r);
                else if (undo_protection(ns, r))
                        report_protection(c, ns);
}

/* Namespace Write Protection Config, which has no default (8.1.16). */
static uint16_t protection(struct admin *a, uint32_t *value)
{
        uint32_t nsid = le32_get(a->r->sqe.nsid);
        struct ns *ns = ctrl_ns(a->ctrl, nsid);
        uint16_t status = NVME_SUCCESS;

        if (!ns && !(is_set(a->r) && nsid == NSID_ALL))
                return nsid == 0 || nsid > CTRL_NSID_MAX ? NVME_INVALID_NS : NVME_INVALID_FIELD;
        if (!is_set(a->r))
                *value = atomic_load(&ns->protection);
        else if (ns)
                status = set_protection(a, ns, le32_get(a->r->sqe.cdw11));
        for (ns = ns ? NULL : ctrl_first_ns(a->ctrl); ns && !status; ns = ctrl_next_ns(a->ctrl, ns))
                status = set_protection(a, ns, le32_get(a->r->sqe.cdw11));
        if (status)
                a->verdict = CTRL_COMPLETE;
        return status;
}

/* --- reservations, of one namespace or (Set Features) of all (5.1.25.1.29, .30) ------------------ */

static void mask_notices(struct ctrl *c, uint32_t nsid, uint32_t value)
{
        bool every = nsid == NSID_ALL || has_flaw(c->env, FLAW_NOTICE_MASK_ALL);

        for (uint32_t i = 1; i <= CTRL_NSID_MAX; i++)
                if (every || i == nsid)
                        c->notices.masked[i] = value & RESERVATION_MASKS;
}

/* A Set Features of Reservation Persistence: its r->user. */
struct persistence {
        struct ctrl_queue *queue;
        struct request *request;
        _Atomic unsigned left; /* namespaces that wait for a disk, and the one who asks them */
        unsigned count;
        struct persistence_ns {
                struct ns_resv_change change;
                struct ns *ns;
                struct persistence *of;
        } of[];
};

/* True: it was the last one. */
static bool end_persistence(struct persistence *p)
{
        return atomic_fetch_sub(&p->left, 1) == 1;
}

static void on_persistent(struct ns_resv_change *c)
{
        struct persistence *p = ((struct persistence_ns *)c)->of;

        if (end_persistence(p))
                p->queue->complete(p->queue, p->request);
}

static void persist_ns(struct persistence *p, struct ns *ns, bool ptpl)
{
        struct persistence_ns *n = &p->of[p->count++];

        *n = (struct persistence_ns) { { .ptpl = ptpl, .done = on_persistent }, ns, p };
        atomic_fetch_add(&ns->refs, 1);
        atomic_fetch_add(&p->left, 1);
        if (ns_resv_apply(ns, &n->change))
                end_persistence(p);
}

bool features_persists(const struct request *r)
{
        return r->sqe.opc == NVME_SET_FEATURES && fid_of(r) == FEAT_RESERVATION_PERSISTENCE;
}

uint16_t features_persistent(struct admin *a)
{
        struct persistence *p = a->r->user;
        uint16_t status = 0;

        a->r->user = NULL;
        for (unsigned i = 0; i < p->count; i++) {
                if (p->of[i].change.status)
                        status = p->of[i].change.status;
                ns_put(p->of[i].ns);
        }
        free(p);
        return status;
}

static bool is_persistent(const struct ns *ns, uint32_t nsid)
{
        return (nsid == NSID_ALL || ns->nsid == nsid) && ns_resv_supported(ns);
}

static uint16_t set_persistence(struct admin *a, uint32_t nsid, bool ptpl)
{
        unsigned count = 0;
        struct persistence *p;

        if (has_flaw(a->env, FLAW_RESERVATION_PTPL))
                return 0;
        for (struct ns *ns = ctrl_first_ns(a->ctrl); ns; ns = ctrl_next_ns(a->ctrl, ns))
                count += is_persistent(ns, nsid);
        p = calloc(1, sizeof(*p) + count * sizeof(p->of[0]));
        if (!p)
                return NVME_INTERNAL_ERROR;
        p->queue = a->queue;
        p->request = a->r;
        p->left = 1;
        a->r->user = p;
        for (struct ns *ns = ctrl_first_ns(a->ctrl); ns && p->count < count;
             ns = ctrl_next_ns(a->ctrl, ns))
                if (is_persistent(ns, nsid))
                        persist_ns(p, ns, ptpl);
        if (end_persistence(p))
                return features_persistent(a);
        a->verdict = CTRL_PARKED;
        return 0;
}

/* Reservation Notification Mask and Reservation Persistence. */
static uint16_t reservations(struct admin *a, uint8_t fid, bool current, uint32_t *value)
{
        uint32_t nsid = le32_get(a->r->sqe.nsid), dw11 = le32_get(a->r->sqe.cdw11);
        struct ns *ns = ctrl_ns(a->ctrl, nsid);

        if (!(is_set(a->r) && nsid == NSID_ALL) && !(ns && ns_resv_supported(ns)))
                return NVME_INVALID_FIELD;
        if (is_set(a->r) && fid == FEAT_RESERVATION_PERSISTENCE)
                return set_persistence(a, nsid, dw11 & 1);
        if (is_set(a->r))
                mask_notices(a->ctrl, nsid, dw11);
        else if (fid == FEAT_RESERVATION_PERSISTENCE)
                *value = current && ns_resv_ptpl(ns);
        else
                *value = current && nsid <= CTRL_NSID_MAX ? a->ctrl->notices.masked[nsid] : 0;
        return 0;
}

static uint16_t set(struct admin *a, uint8_t fid, uint32_t *value)
{
        uint32_t dw11 = le32_get(a->r->sqe.cdw11), unused;

        switch (fid) {
        case FEAT_LBA_RANGES:
                return lba_ranges_set(a);
        case FEAT_ERROR_RECOVERY:
                return recovery(a, true, &unused);
        case FEAT_WRITE_PROTECT:
                return protection(a, &unused);
        case FEAT_RESERVATION_MASK:
        case FEAT_RESERVATION_PERSISTENCE:
                return reservations(a, fid, true, &unused);
        case FEAT_TEMP:
                return temperature(a->ctrl, true, dw11, &unused);
        case FEAT_TIMESTAMP:
                set_timestamp(a);
                return 0;
        case FEAT_HOST_BEHAVIOR:
                set_behavior(a);
                return 0;
        case FEAT_LABEL:
                return label(a, true);
        case FEAT_AGENT:
        case FEAT_HOST_AGENT:
                return agent(a, true);
        case FEAT_PROGRESS:
                return progress(a, true, &unused);
        case FEAT_SANITIZE:
                return sanitize_config(a);
        case FEAT_LBA_STATUS:
                return lba_status_interval(a, value);
        case FEAT_HOSTID:
                return rule_refuse(a->env->policy, FEAT_HOSTID_FIXED);
        default:
                return set_dword(a->ctrl, fid, dw11);
        }
}

static uint16_t get(struct admin *a, uint8_t fid, bool current, uint32_t *value)
{
        static const uint8_t initial[HOST_BEHAVIOR_LEN];
        struct settings *s = &a->ctrl->settings;

        switch (fid) {
        case FEAT_LBA_RANGES:
                return lba_ranges_get(a, current, value);
        case FEAT_ERROR_RECOVERY:
                return recovery(a, current, value);
        case FEAT_WRITE_PROTECT:
                return protection(a, value);
        case FEAT_RESERVATION_MASK:
        case FEAT_RESERVATION_PERSISTENCE:
                return reservations(a, fid, current, value);
        case FEAT_TEMP:
                return temperature(a->ctrl, false, le32_get(a->r->sqe.cdw11), value);
        case FEAT_TIMESTAMP:
                get_timestamp(a, current);
                return 0;
        case FEAT_HOST_BEHAVIOR:
                memcpy(a->r->data, current ? s->host_behavior : initial, HOST_BEHAVIOR_LEN);
                return 0;
        case FEAT_HOSTID:
                return get_hostid(a);
        case FEAT_LABEL:
                return label(a, current);
        case FEAT_AGENT:
        case FEAT_HOST_AGENT:
                return agent(a, current);
        case FEAT_PROGRESS:
                return progress(a, current, value);
        case FEAT_SANITIZE:
                return 0;
        default:
                *value = current ? s->dword[fid] : dwords[fid].initial;
                if (fid == FEAT_ARBITRATION && has_flaw(a->env, FLAW_SETTINGS_SHARED))
                        *value = atomic_load(&a->ctrl->subsystem->last_arbitration);
                if (current && has_flaw(a->env, FLAW_FEATURE_ONCE))
                        s->dword[fid] = dwords[fid].initial;
                return 0;
        }
}

static uint16_t capabilities(const struct admin *a, uint8_t fid, uint32_t *value)
{
        *value = fid == FEAT_HOSTID || fid == FEAT_SANITIZE ? 0 : FEATURE_CHANGEABLE;
        if (fid == FEAT_LABEL)
                *value |= SAVEABLE;
        if (fid == FEAT_RESERVATION_PERSISTENCE && has_flaw(a->env, FLAW_FEATURE_SAVEABLE))
                *value |= 1;
        if (feature_is_of_ns(fid))
                *value |= FEATURE_OF_NS;
        return 0;
}

static bool for_all_namespaces(const struct admin *a)
{
        const struct request *r = a->r;
        uint32_t nsid = le32_get(r->sqe.nsid);

        return nsid == 0 || has_flaw(a->env, FLAW_FEATURE_NSID) || nsid == UINT32_MAX ||
               feature_is_of_ns(fid_of(r));
}

/* FLAW_FEATURE_GET_NSID */
static bool is_confused(const struct admin *a)
{
        return le32_get(a->r->sqe.nsid) && has_flaw(a->env, FLAW_FEATURE_GET_NSID);
}

static bool reads_current(const struct admin *a, enum feature_select select)
{
        bool current = select == FEATURE_CURRENT ||
                       (select == FEATURE_SAVED && has_flaw(a->env, FLAW_SAVED_CURRENT)) ||
                       (select == FEATURE_DEFAULT && has_flaw(a->env, FLAW_DEFAULT_CURRENT));

        return current && !is_confused(a);
}

/* Of the features whose changes are persistent events. */
static uint32_t recorded_value(const struct ctrl *c, uint8_t fid)
{
        if (fid == FEAT_TEMP)
                return (uint32_t)c->settings.temp_over << 16 | c->settings.temp_under;
        return fid == FEAT_THERMAL_MANAGEMENT ? c->settings.dword[fid] : 0;
}

/* Dwords 10 to 15, of which the last four are reserved for all that are recorded. */
static void record_feature(struct admin *a)
{
        enum { DWORDS = 2 };
        struct ctrl *c = a->ctrl;
        struct pel_from from = { c->m.cntlid, c->port_id, settings_stamp(c, a->now) };
        uint8_t data[4 + 4 * DWORDS] = { has_flaw(a->env, FLAW_PEL_FEATURE_SHORT) ? 1 : DWORDS };

        le_put(data + 4, 4, le32_get(a->r->sqe.cdw10));
        le_put(data + 8, 4, le32_get(a->r->sqe.cdw11));
        if (has_flaw(a->env, FLAW_PEL_FEATURE_ONCE) && c->recorded_feature)
                return;
        c->recorded_feature = true;
        pel_add(&c->subsystem->pel, PEL_SET_FEATURE, &from, data, 4 + 4u * data[0]);
}

static uint16_t feature(struct admin *a)
{
        enum feature_select select = feature_select(&a->r->sqe);
        uint8_t fid = fid_of(a->r);
        uint32_t value = 0;
        bool saves = fid == FEAT_PERFORMANCE || (fid == FEAT_LABEL && is_set(a->r));
        uint32_t before = recorded_value(a->ctrl, fid);
        uint16_t status = saves ? 0 : feature_check(&a->r->sqe);

        if (status)
                return status;
        if (fid == FEAT_PERFORMANCE)
                status = performance(a, &value);
        else if (fid == FEAT_SANITIZE && le32_get(a->r->sqe.nsid))
                status = NVME_INVALID_FIELD;
        else if (is_set(a->r))
                status = for_all_namespaces(a) ? set(a, fid, &value) : NVME_FEATURE_NOT_NS;
        else if (select == FEATURE_CAPABILITIES)
                status = capabilities(a, fid, &value);
        else
                status = get(a, fid, reads_current(a, select), &value);
        a->r->cqe.dw0 = le32(value);
        if (!status && is_set(a->r) && recorded_value(a->ctrl, fid) != before)
                record_feature(a);
        return status;
}

static uint16_t unknown(struct admin *a)
{
        uint8_t fid = fid_of(a->r);
        bool prohibited = is_discovery(a->ctrl) && (fid == FEAT_QUEUES || fid == FEAT_HOSTID);

        if (a->r->xfer == XFER_C2H)
                memset(a->r->data, 0, a->r->len);
        return rule_refuse(a->env->policy, prohibited ? DISC_FEATURES : FEAT_UNKNOWN);
}

bool settings_too_hot(const struct ctrl *c)
{
        return ROOM_TEMP >= c->settings.temp_over || ROOM_TEMP <= c->settings.temp_under;
}

/* A threshold that has been reached, or whose event is enabled now that it is (5.1.25.1.5). */
static void warn(struct admin *a)
{
        struct ctrl *c = a->ctrl;
        uint8_t fid = fid_of(a->r);

        if (!is_set(a->r) || (fid != FEAT_TEMP && fid != FEAT_AEC) || is_discovery(c) ||
            !settings_too_hot(c) || has_flaw(a->env, FLAW_WARNING_SILENT))
                return;
        controller_event(&c->m, AEN_SMART, AEN_INFO_TEMPERATURE, LOG_SMART);
        ctrl_send_events(c);
}

uint16_t admin_features(struct admin *a)
{
        struct ctrl *c = a->ctrl;
        uint16_t status;

        pthread_mutex_lock(&c->lock);
        if (is_protection(c, a->r)) /* before anything can fail */
                begin_protection(c, a->r);
        if (!features_supports(c, fid_of(a->r)))
                status = unknown(a);
        else if ((status = ana_features(a)) != 0)
                ;
        else if (controller_feature(&c->m, &a->r->sqe, &a->r->cqe, a->now))
                status = cqe_status(&a->r->cqe);
        else
                status = feature(a);
        if (!status)
                warn(a);
        pthread_mutex_unlock(&c->lock);
        return status;
}
