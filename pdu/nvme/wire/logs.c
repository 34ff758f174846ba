/* SPDX-License-Identifier: BSD-3-Clause */
#include "logs.h"

#include "discovery.h"
#include "identify.h"

static void status_field_text(struct text *t, uint64_t sf)
{
        text_add(t, "%s", status_name((uint16_t)(sf >> 1 & STATUS_MASK)));
}

static const struct field error_fields[] = {
        FIELD(struct log_error, count),
        FIELD(struct log_error, sqid),
        FIELD(struct log_error, cid),
        FIELD(struct log_error, sf, .say = status_field_text),
        FIELD(struct log_error, pel),
        FIELD(struct log_error, lba),
        FIELD(struct log_error, nsid),
        FIELD(struct log_error, vsia),
        FIELD(struct log_error, trtype, .words = transport_types),
        FIELD(struct log_error, csi),
        FIELD(struct log_error, opc),
        FIELD(struct log_error, csinfo),
        FIELD(struct log_error, ttsi),
        FIELD(struct log_error, lpver),
        { 0 },
};

static void kelvin_text(struct text *t, uint64_t v)
{
        if (v)
                text_add(t, "%d C", (int)v - 273);
}

static void percent_text(struct text *t, uint64_t v)
{
        text_add(t, "%u %%", (unsigned)v);
}

static const struct field smart_fields[] = {
        FIELD(struct log_smart, critical, .kind = FIELD_BITS,
              .words = WORDS({ 1 << 0, "spare low" }, { 1 << 1, "temperature" },
                             { 1 << 2, "reliability degraded" }, { 1 << 3, "read only" },
                             { 1 << 4, "memory backup failed" }, { 1 << 5, "PMR" })),
        FIELD(struct log_smart, temp, .say = kelvin_text),
        FIELD(struct log_smart, spare, .say = percent_text),
        FIELD(struct log_smart, spare_threshold, .say = percent_text),
        FIELD(struct log_smart, used, .say = percent_text),
        FIELD(struct log_smart, egcw),
        FIELD(struct log_smart, data_read),
        FIELD(struct log_smart, data_written),
        FIELD(struct log_smart, reads),
        FIELD(struct log_smart, writes),
        FIELD(struct log_smart, busy),
        FIELD(struct log_smart, power_cycles),
        FIELD(struct log_smart, power_on_hours),
        FIELD(struct log_smart, unsafe_shutdowns),
        FIELD(struct log_smart, media_errors),
        FIELD(struct log_smart, error_entries),
        { 0 },
};

static const struct field fw_slot_fields[] = {
        FIELD_AT("active", 0, 1, .bits = 3),
        FIELD_AT("next", 0, 1, .shift = 4, .bits = 3),
        FIELD_AT("frs1", 8, 8, .kind = FIELD_STRING),
        FIELD_AT("frs2", 16, 8, .kind = FIELD_STRING),
        FIELD_AT("frs3", 24, 8, .kind = FIELD_STRING),
        FIELD_AT("frs4", 32, 8, .kind = FIELD_STRING),
        FIELD_AT("frs5", 40, 8, .kind = FIELD_STRING),
        FIELD_AT("frs6", 48, 8, .kind = FIELD_STRING),
        FIELD_AT("frs7", 56, 8, .kind = FIELD_STRING),
        { 0 },
};

static const struct field effect_fields[] = {
        FIELD_AT("effects", 0, 4, .kind = FIELD_BITS,
                 .words = WORDS({ 1 << 0, "supported" }, { 1 << 1, "changes blocks" },
                                { 1 << 2, "changes namespace capability" },
                                { 1 << 3, "changes namespace inventory" },
                                { 1 << 4, "changes controller capability" })),
        FIELD_AT("cse", 2, 1, .bits = 3,
                 .words = WORDS({ 0, "no restriction" }, { 1, "one at a time in the namespace" },
                                { 2, "one at a time in all namespaces" })),
        { 0 },
};

static void describe_effects(const struct describe *d, const char *list, const le32_t *effects,
                             bool admin)
{
        for (unsigned opc = 0; opc < 256; opc++) {
                union sqe s = { .opc = (uint8_t)opc };

                if (!(le32_get(effects[opc]) & 1))
                        continue;
                d->group(d->arg, list);
                d->number(d->arg, "opc", opc, 8,
                          opc == NVME_FABRICS ? "Fabrics" : sqe_name(&s, admin));
                describe_fields(d, effect_fields, &effects[opc]);
                d->group(d->arg, NULL);
        }
}

/* Only the opcodes that are supported. */
static void describe_log_effects(const struct describe *d, const struct log_effects *e)
{
        describe_effects(d, "admin[]", e->admin, true);
        describe_effects(d, "io[]", e->io, false);
}

static const struct field ana_fields[] = {
        FIELD(struct log_ana, chgcnt),
        FIELD(struct log_ana, ngrps),
        { 0 },
};
static const struct field ana_group_fields[] = {
        FIELD(struct ana_group, grpid),
        FIELD(struct ana_group, nnsids),
        FIELD(struct ana_group, chgcnt),
        FIELD(struct ana_group, state, .bits = 4,
              .words = WORDS({ ANA_OPTIMIZED, "optimized" }, { ANA_NONOPTIMIZED, "non-optimized" },
                             { ANA_INACCESSIBLE, "inaccessible" },
                             { ANA_PERSISTENT_LOSS, "persistent loss" }, { ANA_CHANGE, "change" })),
        { 0 },
};

const struct ana_group *ana_group_next(const void *log, size_t len, size_t *at, const void **nsids,
                                       size_t *count)
{
        const struct ana_group *g = (const void *)((const uint8_t *)log + *at);
        size_t room;

        if (*at > len || len - *at < sizeof(*g))
                return NULL;
        room = (len - *at - sizeof(*g)) / 4;
        *nsids = g + 1;
        *count = le32_get(g->nnsids) < room ? le32_get(g->nnsids) : room;
        *at += sizeof(*g) + *count * 4;
        return g;
}

static void describe_namespaces(const struct describe *d, const void *nsids, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                d->group(d->arg, "namespace[]");
                d->number(d->arg, "nsid", ns_list_get(nsids, i), 32, NULL);
                d->group(d->arg, NULL);
        }
}

/* --- any log page ----------------------------------------------------------------------------- */

static void any_error(const struct describe *d, const void *data, size_t len)
{
        const struct log_error *e = data;

        for (size_t i = 0; i < len / sizeof(*e) && le64_get(e[i].count) != 0; i++) {
                d->group(d->arg, "entry[]");
                describe_fields(d, error_fields, &e[i]);
                d->group(d->arg, NULL);
        }
}

static void any_smart(const struct describe *d, const void *data, size_t len)
{
        (void)len;
        describe_fields(d, smart_fields, data);
}

static void any_fw_slot(const struct describe *d, const void *data, size_t len)
{
        (void)len;
        describe_fields(d, fw_slot_fields, data);
}

static void any_changed_ns(const struct describe *d, const void *data, size_t len)
{
        for (size_t i = 0; i < ns_list_count(data, len); i++) {
                uint32_t nsid = ns_list_get(data, i);

                d->group(d->arg, "namespace[]");
                d->number(d->arg, "nsid", nsid, 32,
                          nsid == UINT32_MAX ? "more entries than the log contains" : NULL);
                d->group(d->arg, NULL);
        }
}

static void any_ana(const struct describe *d, const void *data, size_t len)
{
        size_t at = sizeof(struct log_ana), count;
        unsigned groups = le16_get(((const struct log_ana *)data)->ngrps);
        const struct ana_group *g;
        const void *nsids;

        describe_fields(d, ana_fields, data);
        while (groups-- > 0 && (g = ana_group_next(data, len, &at, &nsids, &count))) {
                d->group(d->arg, "group[]");
                describe_fields(d, ana_group_fields, g);
                describe_namespaces(d, nsids, count);
                d->group(d->arg, NULL);
        }
}

static void any_effects(const struct describe *d, const void *data, size_t len)
{
        (void)len;
        describe_log_effects(d, data);
}

static void any_discovery(const struct describe *d, const void *data, size_t len)
{
        const struct disc_entry *e;

        describe_disc_header(d, data);
        for (uint64_t i = 0; (e = disc_log_entry(data, len, i)); i++) {
                d->group(d->arg, "record[]");
                describe_disc_entry(d, e);
                d->group(d->arg, NULL);
        }
}

/* Log 00h: for each LID 4 bytes, bit 0 of which says that it is supported. */
static void any_supported(const struct describe *d, const void *data, size_t len)
{
        for (unsigned lid = 0; lid < 256 && (lid + 1) * 4 <= len; lid++) {
                if (!(((const uint8_t *)data)[lid * 4] & 1))
                        continue;
                d->group(d->arg, "log[]");
                d->number(d->arg, "lid", lid, 8, log_name((uint8_t)lid));
                d->group(d->arg, NULL);
        }
}

bool describe_log(const struct describe *d, uint8_t lid, const void *data, size_t len)
{
        static const struct {
                uint8_t lid;
                uint16_t least; /* bytes */
                void (*describe)(const struct describe *d, const void *data, size_t len);
        } known[] = {
                { LOG_SUPPORTED, 1024, any_supported },
                { LOG_ERROR, sizeof(struct log_error), any_error },
                { LOG_SMART, sizeof(struct log_smart), any_smart },
                { LOG_FW_SLOT, sizeof(struct log_fw_slot), any_fw_slot },
                { LOG_CHANGED_NS, 4, any_changed_ns },
                { LOG_EFFECTS, sizeof(struct log_effects), any_effects },
                { LOG_ANA, sizeof(struct log_ana), any_ana },
                { LOG_DISCOVERY, sizeof(struct disc_header), any_discovery },
        };

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                if (known[i].lid != lid || len < known[i].least)
                        continue;
                known[i].describe(d, data, len);
                return true;
        }
        return false;
}
