/* SPDX-License-Identifier: BSD-3-Clause */
/* Set and Get Features (Base 2.2 5.1.11, 5.1.25) of what is not the machine's own. */
#include <string.h>

#include "pdu/core/plant.h"

#include "admin.h"

enum {
        WARNING_TEMP = 0x157, /* kelvins: WCTEMP */
        TEMP_SENSOR_ALL = 0xf,
        TIMESTAMP_LEN = 8,
        TIMESTAMP_BITS = 48,
        TIMESTAMP_BY_HOST = 1 << 1, /* byte 6: origin: set by the host */
        HOSTID_EXTENDED = 1 << 0,
        HOST_BEHAVIOR_LEN = 512,
};

/* Features that are one dword to store and to give back. */
static const struct dword_feature {
        bool supported;
        uint32_t initial, settable;
} dwords[32] = {
        [FEAT_ARBITRATION] = { true, 0, 0xffffff07 },
        [FEAT_POWER] = { true, 0, 0xe0 }, /* one power state; workload hint */
        [FEAT_ERROR_RECOVERY] = { true, 0, 0xffff },
        [FEAT_WRITE_CACHE] = { true, 1, 1 },
        [FEAT_WRITE_ATOMICITY] = { true, 0, 1 },
};

static const struct dword_feature *dword_feature(uint8_t fid)
{
        bool known = fid < sizeof(dwords) / sizeof(dwords[0]) && dwords[fid].supported;

        return known ? &dwords[fid] : NULL;
}

void settings_reset(struct ctrl *c)
{
        c->settings = (struct settings) { .temp_over = WARNING_TEMP };
        for (size_t fid = 0; fid < sizeof(dwords) / sizeof(dwords[0]); fid++)
                c->settings.dword[fid] = dwords[fid].initial;
        atomic_store(&c->write_through, false);
}

bool features_supports(const struct ctrl *c, uint8_t fid)
{
        if (fid == FEAT_AEC || fid == FEAT_KATO)
                return controller_supports(&c->m.cfg, NVME_SET_FEATURES);
        return !is_discovery(c) &&
               (dword_feature(fid) || fid == FEAT_TEMP || fid == FEAT_QUEUES ||
                fid == FEAT_TIMESTAMP || fid == FEAT_HOST_BEHAVIOR || fid == FEAT_HOSTID);
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
        case FEAT_HOSTID:
                return extended ? 16 : 8;
        default:
                return 0;
        }
}

/* Setting the Host Identifier is refused whatever it is: its data is not asked for. */
uint16_t features_transfer(struct request *r)
{
        bool extended = le32_get(r->sqe.cdw11) & HOSTID_EXTENDED;
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

static uint16_t set_dword(struct ctrl *c, uint8_t fid, uint32_t value)
{
        if (value & ~dwords[fid].settable)
                return NVME_INVALID_FIELD;
        c->settings.dword[fid] = value;
        if (fid == FEAT_WRITE_CACHE)
                atomic_store(&c->write_through, value == 0);
        return 0;
}

static uint16_t *threshold(struct ctrl *c, uint32_t dw11)
{
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

        if (!t || (sensor != 0 && !(set && sensor == TEMP_SENSOR_ALL)))
                return NVME_INVALID_FIELD;
        if (set)
                *t = (uint16_t)dw11;
        else
                *value = *t;
        return 0;
}

static void set_timestamp(struct admin *a)
{
        struct settings *s = &a->ctrl->settings;

        s->timestamp = le_get(a->r->data, TIMESTAMP_BITS / 8);
        s->timestamp_at = a->now;
        s->timestamp_set = true;
}

static void get_timestamp(const struct admin *a, bool current)
{
        const struct settings *s = &a->ctrl->settings;
        bool set = current && s->timestamp_set;
        uint64_t ms = set ? s->timestamp + (a->now - s->timestamp_at) : 0;

        le_put(a->r->data, TIMESTAMP_BITS / 8, ms);
        a->r->data[6] = set ? TIMESTAMP_BY_HOST : 0;
        a->r->data[7] = 0;
}

/* Fabrics knows the 128-bit one only. */
static uint16_t get_hostid(const struct admin *a)
{
        if (!(le32_get(a->r->sqe.cdw11) & HOSTID_EXTENDED))
                return NVME_INVALID_FIELD;
        memcpy(a->r->data, a->ctrl->m.hostid, sizeof(a->ctrl->m.hostid));
        return 0;
}

static uint16_t set(struct admin *a, uint8_t fid)
{
        uint32_t dw11 = le32_get(a->r->sqe.cdw11), unused;

        switch (fid) {
        case FEAT_TEMP:
                return temperature(a->ctrl, true, dw11, &unused);
        case FEAT_TIMESTAMP:
                set_timestamp(a);
                return 0;
        case FEAT_HOST_BEHAVIOR:
                memcpy(a->ctrl->settings.host_behavior, a->r->data, HOST_BEHAVIOR_LEN);
                return 0;
        case FEAT_HOSTID:
                return rule_refuse(a->env->policy, FEAT_HOSTID_FIXED);
        default:
                return set_dword(a->ctrl, fid, dw11);
        }
}

static uint16_t get(struct admin *a, uint8_t fid, bool current, uint32_t *value)
{
        static const uint8_t initial[HOST_BEHAVIOR_LEN];
        const struct settings *s = &a->ctrl->settings;

        switch (fid) {
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
        default:
                *value = current ? s->dword[fid] : dwords[fid].initial;
                return 0;
        }
}

static uint16_t capabilities(uint8_t fid, uint32_t *value)
{
        *value = fid == FEAT_HOSTID ? 0 : FEATURE_CHANGEABLE;
        return 0;
}

static bool for_all_namespaces(const struct request *r)
{
        uint32_t nsid = le32_get(r->sqe.nsid);

        return nsid == 0 || nsid == UINT32_MAX || fid_of(r) == FEAT_ERROR_RECOVERY;
}

static uint16_t feature(struct admin *a)
{
        enum feature_select select = feature_select(&a->r->sqe);
        uint8_t fid = fid_of(a->r);
        uint32_t value = 0;
        uint16_t status = feature_check(&a->r->sqe);

        if (status)
                return status;
        if (is_set(a->r))
                status = for_all_namespaces(a->r) ? set(a, fid) : NVME_FEATURE_NOT_NS;
        else if (select == FEATURE_CAPABILITIES)
                status = capabilities(fid, &value);
        else
                status = get(a, fid, select == FEATURE_CURRENT, &value);
        a->r->cqe.dw0 = le32(value);
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

uint16_t admin_features(struct admin *a)
{
        struct ctrl *c = a->ctrl;
        uint16_t status;

        pthread_mutex_lock(&c->lock);
        if (!features_supports(c, fid_of(a->r)))
                status = unknown(a);
        else if (controller_feature(&c->m, &a->r->sqe, &a->r->cqe, a->now))
                status = cqe_status(&a->r->cqe);
        else
                status = feature(a);
        pthread_mutex_unlock(&c->lock);
        return status;
}
