/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host get-feature, set-feature */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "host/engine/show.h"
#include "host/nvme/build.h"

enum { DATA_MAX = 4096, FEATURE_SAVE = 1u << 31 };

static void queues_text(struct text *t, uint32_t v)
{
        text_add(t, "%u submission, %u completion queues", (v & 0xffff) + 1, (v >> 16) + 1);
}

static void kato_text(struct text *t, uint32_t v)
{
        text_add(t, "%u ms", v);
}

static void cache_text(struct text *t, uint32_t v)
{
        text_add(t, v & 1 ? "write cache enabled" : "write cache disabled");
}

static void events_text(struct text *t, uint32_t v)
{
        text_add(t, "SMART %02xh%s%s%s", v & 0xff, v & AEC_NS ? ", namespace attributes" : "",
                 v & AEC_ANA ? ", ANA" : "", v & AEC_DISCOVERY ? ", discovery log" : "");
}

static void capabilities_text(struct text *t, uint32_t v)
{
        text_add(t, "%ssaveable, %s, %schangeable", v & 1 ? "" : "not ",
                 v & 2 ? "of a namespace" : "of the controller", v & 4 ? "" : "not ");
}

static const struct feature {
        const char *name;
        uint8_t fid;
        uint32_t data; /* bytes that come with it */
        uint32_t dw11; /* of Get Features */
        void (*say)(struct text *t, uint32_t value);
} features[] = {
        { "arbitration", FEAT_ARBITRATION, 0, 0, NULL },
        { "power", FEAT_POWER, 0, 0, NULL },
        { "temperature", FEAT_TEMP, 0, 0, NULL },
        { "error-recovery", FEAT_ERROR_RECOVERY, 0, 0, NULL },
        { "write-cache", FEAT_WRITE_CACHE, 0, 0, cache_text },
        { "queues", FEAT_QUEUES, 0, 0, queues_text },
        { "write-atomicity", FEAT_WRITE_ATOMICITY, 0, 0, NULL },
        { "events", FEAT_AEC, 0, 0, events_text },
        { "timestamp", FEAT_TIMESTAMP, 8, 0, NULL },
        { "kato", FEAT_KATO, 0, 0, kato_text },
        { "host-behavior", FEAT_HOST_BEHAVIOR, 512, 0, NULL },
        { "hostid", FEAT_HOSTID, 16, 1, NULL }, /* EXHID: 128 bits */
};

static int find_feature(const struct call *call, struct feature *f, struct host_error *e)
{
        uint64_t fid;
        bool number;

        if (call->count != 1)
                return host_fail(e, HOST_USAGE, "no feature given: a number or a name is required");
        number = option_number(call->words[0], &fid) == 0;
        for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
                if (number ? features[i].fid == fid
                           : strcmp(features[i].name, call->words[0]) == 0) {
                        *f = features[i];
                        return 0;
                }
        }
        if (!number || fid > 255)
                return host_fail(e, HOST_USAGE,
                                 "no feature '%s': a number up to 255, or arbitration, "
                                 "power, temperature, error-recovery, write-cache, queues, "
                                 "write-atomicity, events, timestamp, kato, host-behavior, hostid",
                                 call->words[0]);
        *f = (struct feature) { .fid = (uint8_t)fid };
        return 0;
}

int check_feature(struct call *call, struct host_error *e)
{
        struct feature f;

        return find_feature(call, &f, e);
}

int check_set_feature(struct call *call, struct host_error *e)
{
        if (call->args->value == ARG_UNSET && !call->args->base.file)
                return host_fail(e, HOST_USAGE,
                                 "no value given: use --value N, or --file PATH "
                                 "for data");
        return check_feature(call, e);
}

/* Those of namespaces (Base 2.2 figure 385): of the first one, unless another one is asked for. */
static uint32_t nsid_of(const struct args *a, const struct feature *f)
{
        if (a->nsid != ARG_NO_NSID)
                return (uint32_t)a->nsid;
        switch (f->fid) {
        case FEAT_LBA_RANGES:
        case FEAT_ERROR_RECOVERY:
        case FEAT_LABEL:
        case FEAT_RESERVATION_MASK:
        case FEAT_RESERVATION_PERSISTENCE:
        case FEAT_WRITE_PROTECT:
                return 1;
        default:
                return 0;
        }
}

/* --- get -------------------------------------------------------------------------------------- */

static unsigned selected(const struct args *a)
{
        static const char *const names[] = { "current", "default", "saved", "capabilities" };
        unsigned i = 0;

        while (i < 3 && strcmp(names[i], a->select) != 0)
                i++;
        return i;
}

static void show_feature(const struct call *call, const struct feature *f, uint32_t value,
                         const uint8_t *data, uint32_t len)
{
        char hex[2 * DATA_MAX + 1] = "", meaning[128] = "";
        struct text t = text_in(meaning, sizeof(meaning));
        const char *name = feature_name(f->fid);
        struct show s;

        if (selected(call->args) == 3)
                capabilities_text(&t, value);
        else if (f->say)
                f->say(&t, value);
        for (uint32_t i = 0; i < len; i++)
                snprintf(hex + (size_t)2 * i, 3, "%02x", data[i]);
        show_begin(&s, host_json(&call->args->base));
        s.d.number(s.d.arg, "fid", f->fid, 8, name);
        s.d.string(s.d.arg, "select", call->args->select, strlen(call->args->select));
        s.d.number(s.d.arg, "value", value, 32, meaning[0] ? meaning : NULL);
        if (len > 0)
                s.d.string(s.d.arg, "data", hex, 2 * len);
        show_end(&s);
}

int call_get_feature(struct call *call, struct host_error *e)
{
        const struct args *a = call->args;
        static uint8_t data[DATA_MAX];
        struct feature f;
        union sqe sqe;
        struct cqe cqe;

        if (find_feature(call, &f, e) < 0)
                return -1;
        if (a->data_length != ARG_UNSET)
                f.data = (uint32_t)a->data_length;
        if (selected(a) == 3)
                f.data = 0;
        sqe = build_admin(NVME_GET_FEATURES, nsid_of(a, &f), f.fid | (uint32_t)selected(a) << 8,
                          f.dw11);
        if (host_ctrl_admin(call->ctrl, &sqe, f.data ? data : NULL, f.data, &cqe, e) < 0)
                return -1;
        show_feature(call, &f, le32_get(cqe.dw0), data, f.data);
        return 0;
}

/* --- set -------------------------------------------------------------------------------------- */

static int load(const char *path, uint8_t data[DATA_MAX], uint32_t *len, struct host_error *e)
{
        FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");

        if (!f)
                return host_fail(e, HOST_USAGE, "%s: %s", path, strerror(errno));
        *len = (uint32_t)fread(data, 1, DATA_MAX, f);
        if (f != stdin)
                fclose(f);
        return *len > 0 ? 0 : host_fail(e, HOST_USAGE, "%s: empty", path);
}

int call_set_feature(struct call *call, struct host_error *e)
{
        const struct args *a = call->args;
        static uint8_t data[DATA_MAX];
        struct feature f;
        uint32_t len = 0;
        union sqe sqe;

        if (find_feature(call, &f, e) < 0 ||
            (a->base.file && load(a->base.file, data, &len, e) < 0))
                return -1;
        sqe = build_admin(NVME_SET_FEATURES, nsid_of(a, &f), f.fid | (a->save ? FEATURE_SAVE : 0u),
                          a->value == ARG_UNSET ? f.dw11 : (uint32_t)a->value);
        return host_ctrl_admin(call->ctrl, &sqe, len ? data : NULL, len, NULL, e);
}
