/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host get-log */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "host/engine/show.h"
#include "host/nvme/build.h"
#include "host/nvme/discovery.h"
#include "pdu/nvme/wire/logs.h"

enum { UNKNOWN_LEN = 512, PIECE = 4096 };

static const struct log {
        const char *name;
        uint8_t lid;
        uint32_t len; /* bytes; 0: the controller says */
} logs[] = {
        { "supported", LOG_SUPPORTED, 1024 },
        { "error", LOG_ERROR, 0 },
        { "smart", LOG_SMART, sizeof(struct log_smart) },
        { "fw-slot", LOG_FW_SLOT, sizeof(struct log_fw_slot) },
        { "changed-ns", LOG_CHANGED_NS, LOG_CHANGED_NS_MAX * 4 },
        { "effects", LOG_EFFECTS, sizeof(struct log_effects) },
        { "ana", LOG_ANA, 4096 },
        { "feature-effects", LOG_FEATURE_EFFECTS, 1024 },
        { "discovery", LOG_DISCOVERY, 0 },
};

static int find_log(const struct call *call, struct log *log, struct host_error *e)
{
        const char *word = call->count == 1 ? call->words[0] : "";
        uint64_t lid;
        bool number = option_number(word, &lid) == 0;

        if (call->count != 1)
                return host_fail(e, HOST_USAGE,
                                 "no log page given: a number or a name is required");
        if (call->args->length % 4 || call->args->offset % 4)
                return host_fail(e, HOST_USAGE, "length and offset are multiples of 4");
        for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
                if (number ? logs[i].lid == lid : strcmp(logs[i].name, word) == 0) {
                        *log = logs[i];
                        return 0;
                }
        }
        if (!number || lid > 255)
                return host_fail(
                    e, HOST_USAGE,
                    "no log page '%s': a number up to 255, or supported, "
                    "error, smart, fw-slot, changed-ns, effects, ana, feature-effects, "
                    "discovery",
                    word);
        *log = (struct log) { .lid = (uint8_t)lid, .len = UNKNOWN_LEN };
        return 0;
}

int check_log(struct call *call, struct host_error *e)
{
        struct log log;

        return find_log(call, &log, e);
}

/* Text and JSON of a page that has no description. */
static void show_bytes(struct show *s, const uint8_t *data, size_t len)
{
        char hex[2 * 32 + 1], at[24];

        for (size_t line = 0; line < len; line += 32) {
                size_t n = len - line < 32 ? len - line : 32;

                for (size_t i = 0; i < n; i++)
                        snprintf(hex + 2 * i, 3, "%02x", data[line + i]);
                snprintf(at, sizeof(at), "%04zx", line);
                s->d.string(s->d.arg, at, hex, 2 * n);
        }
}

static void show_log(const struct call *call, uint8_t lid, const uint8_t *data, size_t len)
{
        struct show s;

        show_begin(&s, host_json(&call->args->base));
        if (call->args->offset > 0 || !describe_log(&s.d, lid, data, len))
                show_bytes(&s, data, len);
        show_end(&s);
}

/* In pieces of 4 KiB, as a controller's MDTS may ask for; the event is cleared by the last one. */
static int read_log(struct call *call, const struct log *log, uint8_t *data, uint32_t len,
                    struct host_error *e)
{
        for (uint32_t at = 0; at < len; at += PIECE) {
                uint32_t n = len - at < PIECE ? len - at : PIECE;
                bool rae = call->args->rae || at + n < len;
                union sqe sqe = build_get_log(log->lid, log->lid == LOG_DISCOVERY ? 0 : UINT32_MAX,
                                              call->args->offset + at, n, rae);

                if (host_ctrl_admin(call->ctrl, &sqe, data + at, n, NULL, e) < 0)
                        return -1;
        }
        return 0;
}

static int get_discovery(struct call *call, struct host_error *e)
{
        struct discovery_log log;

        if (discovery_read(call->ctrl, 0, &log, e) < 0)
                return -1;
        show_log(call, LOG_DISCOVERY, log.page, log.len);
        discovery_free(&log);
        return 0;
}

static uint32_t page_len(const struct call *call, const struct log *log)
{
        if (call->args->length)
                return (uint32_t)call->args->length;
        if (log->lid == LOG_ERROR)
                return (call->ctrl->id.elpe + 1u) * (uint32_t)sizeof(struct log_error);
        return log->len ? log->len : UNKNOWN_LEN;
}

int call_get_log(struct call *call, struct host_error *e)
{
        struct log log;
        uint32_t len;
        uint8_t *data;
        int result;

        if (find_log(call, &log, e) < 0)
                return -1;
        len = page_len(call, &log);
        if (log.lid == LOG_DISCOVERY && !call->args->length && !call->args->offset)
                return get_discovery(call, e);
        data = calloc(1, len);
        if (!data)
                return host_fail(e, HOST_BROKEN, "no memory for %u bytes", len);
        result = read_log(call, &log, data, len, e);
        if (result == 0)
                show_log(call, log.lid, data, len);
        free(data);
        return result;
}
