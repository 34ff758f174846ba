/* SPDX-License-Identifier: BSD-3-Clause */
/* bdev_...: storage, and layers over it. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "methods.h"
#include "model.h"
#include "pdu/io/loop.h"
#include "pdu/nvme/wire/nvme.h"

static const struct {
        const char *product, *prefix; /* of names that are made */
} types[] = {
        [BDEV_MALLOC] = { "Malloc disk", "Malloc" },
        [BDEV_NULL] = { "Null disk", "Null" },
        [BDEV_AIO] = { "AIO disk", "Aio" },
        [BDEV_DELAY] = { "delay", "Delay" },
        [BDEV_ERROR] = { "Error Injection Disk", "EE_" },
};

/* --- the list --------------------------------------------------------------------------------- */

struct bdev *rpc_bdev(const struct rpc *r, const char *name)
{
        uint8_t uuid[16];
        bool is_uuid = take_uuid(name, uuid);

        for (unsigned i = 0; i < r->n_bdevs; i++)
                if (strcmp(bdev_name(r->bdevs[i]), name) == 0 ||
                    (is_uuid && memcmp(bdev_uuid(r->bdevs[i]), uuid, sizeof(uuid)) == 0))
                        return r->bdevs[i];
        return NULL;
}

bool rpc_bdev_claimed(const struct rpc *r, const struct bdev *b)
{
        for (unsigned i = 0; i < r->n_bdevs; i++)
                if (bdev_under(r->bdevs[i]) == b)
                        return true;
        for (unsigned i = 0; i < r->config.n_subsystems; i++) {
                const struct config_subsystem *s = &r->config.subsystems[i];

                for (unsigned k = 0; k < s->n_ns; k++)
                        if (s->ns[k].bdev == b)
                                return true;
        }
        return false;
}

void rpc_bdevs_free(struct rpc *r)
{
        while (r->n_bdevs > 0)
                bdev_put(r->bdevs[--r->n_bdevs]);
}

/* The bdev of that type, or the call has failed. */
static struct bdev *find(struct rpc *r, const char *name, enum bdev_type type,
                         struct jsonrpc_call *call)
{
        struct bdev *b = rpc_bdev(r, name);

        if (b && bdev_type(b) == type)
                return b;
        jsonrpc_fail(call, -ENODEV, "%s", strerror(ENODEV));
        return NULL;
}

/* --- creating --------------------------------------------------------------------------------- */

struct create {
        const char *name, *uuid, *filename, *base_bdev_name, *base_name;
        uint64_t block_size, num_blocks;
        bool fallocate;
        uint64_t avg_read_latency, p99_read_latency, avg_write_latency, p99_write_latency;
};

/* The name that is given, or one that is made of the prefix; false: the call has failed. */
static bool name_it(struct rpc *r, const char *given, enum bdev_type type, char name[BDEV_NAME],
                    struct jsonrpc_call *call)
{
        if (given && (!given[0] || strlen(given) >= BDEV_NAME)) {
                jsonrpc_fail(call, -EINVAL, "The name is empty or too long");
                return false;
        }
        if (given)
                strcpy(name, given);
        else
                do
                        snprintf(name, BDEV_NAME, "%s%u", types[type].prefix, r->serial++);
                while (rpc_bdev(r, name));
        if (!rpc_bdev(r, name) && r->n_bdevs < BDEVS_MAX)
                return true;
        jsonrpc_fail(call, r->n_bdevs < BDEVS_MAX ? -EEXIST : -ENOSPC, "%s", "");
        return false;
}

/* Owned by the list from here on; its name is the result. */
static void keep(struct rpc *r, struct bdev *b, const char *uuid, struct jsonrpc_call *call)
{
        if (uuid && !take_uuid(uuid, bdev_uuid(b))) {
                bdev_put(b);
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: uuid is not a UUID");
                return;
        }
        r->bdevs[r->n_bdevs++] = b;
        call->result = json_object_new_string(bdev_name(b));
}

static void create(struct rpc *r, enum bdev_type type, const struct create *a, const char *spec,
                   struct jsonrpc_call *call)
{
        char name[BDEV_NAME], error[JSONRPC_MESSAGE];
        struct bdev *b;

        if (!name_it(r, a->name, type, name, call))
                return;
        b = bdev_open(&nvme_ns_family, type, name, spec, error, sizeof(error));
        if (b)
                keep(r, b, a->uuid, call);
        else
                jsonrpc_fail(call, -EINVAL, "%s", error);
}

static bool check_size(const struct create *a, struct jsonrpc_call *call)
{
        if (a->block_size != 512 && a->block_size != 4096)
                jsonrpc_fail(call, -EINVAL, "block_size is not 512 or 4096");
        else if (a->num_blocks == 0 || a->num_blocks > (uint64_t)INT64_MAX / a->block_size)
                jsonrpc_fail(call, -EINVAL, "num_blocks is 0 or too large");
        return call->code == 0;
}

static void create_sized(struct rpc *r, enum bdev_type type, const char *kind,
                         const struct create *a, struct jsonrpc_call *call)
{
        char spec[80];

        if (!check_size(a, call))
                return;
        snprintf(spec, sizeof(spec), "%s:%" PRIu64 ",bs=%" PRIu64, kind,
                 a->num_blocks * a->block_size, a->block_size);
        create(r, type, a, spec, call);
}

const struct jsonrpc_param rpc_malloc_params[] = {
        PARAM(create, name, TEXT),
        PARAM(create, block_size, NUMBER, REQUIRED, .max = UINT32_MAX),
        PARAM(create, num_blocks, NUMBER, REQUIRED),
        PARAM(create, uuid, TEXT),
        UNUSED("optimal_io_boundary", NUMBER),
        FIXED("md_size", NUMBER, 0),
        FIXED("md_interleave", BOOL, false),
        FIXED("dif_type", NUMBER, 0),
        FIXED("dif_is_head_of_md", BOOL, false),
        UNUSED("physical_block_size", NUMBER),
        FIXED("dif_pi_format", NUMBER, 0),
        UNUSED("numa_id", NUMBER),
        { 0 },
};

METHOD(bdev_malloc_create)
{
        create_sized(owner, BDEV_MALLOC, "mem", args, call);
}

const struct jsonrpc_param rpc_null_params[] = {
        PARAM(create, name, TEXT, REQUIRED),
        PARAM(create, block_size, NUMBER, REQUIRED, .max = UINT32_MAX),
        PARAM(create, num_blocks, NUMBER, REQUIRED),
        PARAM(create, uuid, TEXT),
        UNUSED("physical_block_size", NUMBER),
        FIXED("md_size", NUMBER, 0),
        FIXED("dif_type", NUMBER, 0),
        FIXED("dif_pi_format", NUMBER, 0),
        FIXED("dif_is_head_of_md", BOOL, false),
        FIXED("preferred_write_granularity", NUMBER, 0),
        FIXED("preferred_write_alignment", NUMBER, 0),
        FIXED("optimal_write_size", NUMBER, 0),
        FIXED("preferred_unmap_granularity", NUMBER, 0),
        FIXED("preferred_unmap_alignment", NUMBER, 0),
        { 0 },
};

METHOD(bdev_null_create)
{
        create_sized(owner, BDEV_NULL, "null", args, call);
}

const struct jsonrpc_param rpc_aio_params[] = {
        PARAM(create, name, TEXT, REQUIRED),
        PARAM(create, filename, TEXT, REQUIRED),
        PARAM(create, block_size, NUMBER, .otherwise = 512, .max = UINT32_MAX),
        FIXED("readonly", BOOL, false),
        PARAM(create, fallocate, BOOL, .otherwise = true),
        PARAM(create, uuid, TEXT),
        UNUSED("nowait", BOOL),
        { 0 },
};

METHOD(bdev_aio_create)
{
        const struct create *a = args;
        char spec[PATH_MAX + 40];
        struct stat st;

        if (a->block_size != 0 && a->block_size != 512 && a->block_size != 4096)
                jsonrpc_fail(call, -EINVAL, "block_size is not 512 or 4096");
        else if (strlen(a->filename) >= PATH_MAX || strchr(a->filename, ','))
                jsonrpc_fail(call, -EINVAL, "filename is too long or has a comma");
        else if (stat(a->filename, &st) < 0)
                jsonrpc_fail(call, -errno, "%s", "");
        if (call->code)
                return;
        snprintf(spec, sizeof(spec), "file:%s,bs=%u", a->filename,
                 a->block_size == 4096 ? 4096 : 512);
        create(owner, BDEV_AIO, a, spec, call);
}

/* --- layers ----------------------------------------------------------------------------------- */

static void create_layer(struct rpc *r, enum bdev_type type, const char *name, const char *base,
                         const struct create *a, struct jsonrpc_call *call)
{
        struct bdev *on = rpc_bdev(r, base), *b;
        char own[BDEV_NAME];

        if (!on)
                jsonrpc_fail(call, -ENODEV, "%s", "");
        else if (rpc_bdev_claimed(r, on))
                jsonrpc_fail(call, -EPERM, "%s is in use", base);
        else if (name_it(r, name, type, own, call)) {
                b = bdev_over(type, own, on);
                if (!b) {
                        jsonrpc_fail(call, -ENOMEM, "%s", "");
                        return;
                }
                bdev_set_latency(
                    b, false, (struct bdev_latency) { a->avg_read_latency, a->p99_read_latency });
                bdev_set_latency(
                    b, true, (struct bdev_latency) { a->avg_write_latency, a->p99_write_latency });
                keep(r, b, a->uuid, call);
        }
}

const struct jsonrpc_param rpc_delay_params[] = {
        PARAM(create, name, TEXT, REQUIRED),
        PARAM(create, base_bdev_name, TEXT, REQUIRED),
        PARAM(create, avg_read_latency, NUMBER, REQUIRED, .max = LATENCY_MAX),
        PARAM(create, p99_read_latency, NUMBER, REQUIRED, .max = LATENCY_MAX),
        PARAM(create, avg_write_latency, NUMBER, REQUIRED, .max = LATENCY_MAX),
        PARAM(create, p99_write_latency, NUMBER, REQUIRED, .max = LATENCY_MAX),
        PARAM(create, uuid, TEXT),
        { 0 },
};

METHOD(bdev_delay_create)
{
        const struct create *a = args;

        if (a->p99_read_latency < a->avg_read_latency ||
            a->p99_write_latency < a->avg_write_latency)
                jsonrpc_fail(call, -EINVAL, "a p99 latency is below the average");
        else
                create_layer(owner, BDEV_DELAY, a->name, a->base_bdev_name, a, call);
}

const struct jsonrpc_param rpc_error_params[] = {
        PARAM(create, base_name, TEXT, REQUIRED),
        PARAM(create, uuid, TEXT),
        { 0 },
};

METHOD(bdev_error_create)
{
        const struct create *a = args;
        char name[BDEV_NAME + 8];

        snprintf(name, sizeof(name), "EE_%.127s", a->base_name);
        create_layer(owner, BDEV_ERROR, name, a->base_name, a, call);
        if (call->code == 0) {
                json_object_put(call->result);
                call->result = NULL; /* true */
        }
}

/* --- deleting --------------------------------------------------------------------------------- */

struct by_name {
        const char *name;
};

const struct jsonrpc_param rpc_by_name[] = { PARAM(by_name, name, TEXT, REQUIRED), { 0 } };
const struct jsonrpc_param rpc_may_name[] = { PARAM(by_name, name, TEXT),
                                              UNUSED("timeout", NUMBER),
                                              { 0 } };

/* Whether `b` is that bdev, or a layer somewhere over it. */
static bool rests_on(const struct bdev *b, const struct bdev *on)
{
        while (b && b != on)
                b = bdev_under(b);
        return b;
}

/* As when a disk is pulled: namespaces on it go, and so do layers over it. */
static void delete (struct rpc *r, const char *name, enum bdev_type type, struct jsonrpc_call *call)
{
        struct bdev *b = find(r, name, type, call);
        struct config next;
        unsigned left = 0;

        if (!b || !rpc_edit(r, &next, call))
                return;
        for (unsigned i = 0; i < next.n_subsystems; i++)
                for (unsigned k = next.subsystems[i].n_ns; k-- > 0;) {
                        struct config_ns *ns = &next.subsystems[i].ns[k];

                        if (ns->bdev && rests_on(ns->bdev, b))
                                config_remove_ns(&next.subsystems[i], ns);
                }
        if (!rpc_commit(r, &next, JSONRPC_INTERNAL, call))
                return;
        for (unsigned i = r->n_bdevs; i-- > 0;) /* layers were made after what they are over */
                if (rests_on(r->bdevs[i], b) && r->bdevs[i] != b) {
                        bdev_put(r->bdevs[i]);
                        r->bdevs[i] = NULL;
                }
        for (unsigned i = 0; i < r->n_bdevs; i++)
                if (r->bdevs[i] && r->bdevs[i] != b)
                        r->bdevs[left++] = r->bdevs[i];
        r->n_bdevs = left;
        bdev_put(b);
}

#define DELETE(method, type)                                                                       \
        METHOD(method)                                                                             \
        {                                                                                          \
                delete (owner, ((const struct by_name *)args)->name, type, call);                  \
        }
DELETE(bdev_malloc_delete, BDEV_MALLOC)
DELETE(bdev_null_delete, BDEV_NULL)
DELETE(bdev_aio_delete, BDEV_AIO)
DELETE(bdev_delay_delete, BDEV_DELAY)
DELETE(bdev_error_delete, BDEV_ERROR)

/* --- size ------------------------------------------------------------------------------------- */

struct resize {
        const char *name;
        uint64_t new_size;
};

const struct jsonrpc_param rpc_resize_params[] = {
        PARAM(resize, name, TEXT, REQUIRED),
        PARAM(resize, new_size, NUMBER, REQUIRED, .max = UINT64_MAX >> 21),
        { 0 },
};

METHOD(bdev_null_resize)
{
        struct rpc *r = owner;
        const struct resize *a = args; /* MiB */
        struct bdev *b = find(r, a->name, BDEV_NULL, call);

        if (!b)
                return;
        if (a->new_size == 0 ||
            bdev_resize(b, (a->new_size << 20) >> bdev_storage(b)->lbads) != NS_DONE)
                jsonrpc_fail(call, -EINVAL, "%s", "");
        else
                target_measure(r->target);
}

METHOD(bdev_aio_rescan)
{
        struct rpc *r = owner;
        struct bdev *b = find(r, ((const struct by_name *)args)->name, BDEV_AIO, call);

        if (b && bdev_measure(b))
                target_measure(r->target);
}

/* --- latency and faults ----------------------------------------------------------------------- */

struct update {
        const char *delay_bdev_name;
        unsigned latency_type;
        uint64_t latency_us;
};

const struct jsonrpc_param rpc_update_params[] = {
        PARAM(update, delay_bdev_name, TEXT, REQUIRED),
        PARAM(update, latency_type, WORD, REQUIRED,
              .words = "avg_read|p99_read|avg_write|p99_write"),
        PARAM(update, latency_us, NUMBER, REQUIRED, .max = LATENCY_MAX),
        { 0 },
};

METHOD(bdev_delay_update_latency)
{
        const struct update *a = args;
        struct bdev *b = rpc_bdev(owner, a->delay_bdev_name);
        bool write = a->latency_type >= 2;
        struct bdev_latency l;

        if (!b || bdev_type(b) != BDEV_DELAY) {
                jsonrpc_fail(call, JSONRPC_PARAMS, "The requested bdev does not exist.");
                return;
        }
        l = bdev_latency(b, write);
        *(a->latency_type % 2 == 0 ? &l.average : &l.p99) = a->latency_us;
        bdev_set_latency(b, write, l);
}

struct inject {
        const char *name;
        unsigned io_type, error_type;
        uint64_t nvme_sct, nvme_sc, num, corrupt_offset, corrupt_value;
};

enum { IO_CLEAR, IO_READ, IO_WRITE, IO_UNMAP, IO_FLUSH, IO_ALL };
enum { ERROR_FAILURE, ERROR_CORRUPT, ERROR_NVME };

const struct jsonrpc_param rpc_inject_params[] = {
        PARAM(inject, name, TEXT, REQUIRED),
        PARAM(inject, io_type, WORD, REQUIRED, .words = "clear|read|write|unmap|flush|all"),
        PARAM(inject, error_type, WORD, REQUIRED, .words = "failure|corrupt_data|nvme_failure"),
        PARAM(inject, nvme_sct, NUMBER, .max = 7),
        PARAM(inject, nvme_sc, NUMBER, .max = 0xff),
        PARAM(inject, num, NUMBER, .otherwise = 1, .max = UINT32_MAX),
        FIXED("queue_depth", NUMBER, 0),
        PARAM(inject, corrupt_offset, NUMBER, .max = UINT32_MAX),
        PARAM(inject, corrupt_value, NUMBER, .max = 0xff),
        { 0 },
};

/* A command ends with that status. */
static enum ns_result fault_of(uint16_t status)
{
        return (enum ns_result)(NS_OWN + status);
}

METHOD(bdev_error_inject_error)
{
        static const int ops[] = { [IO_READ] = BDEV_READ,
                                   [IO_WRITE] = BDEV_WRITE,
                                   [IO_UNMAP] = BDEV_UNMAP,
                                   [IO_FLUSH] = BDEV_FLUSH };
        const struct inject *a = args;
        struct bdev *b = find(owner, a->name, BDEV_ERROR, call);
        struct bdev_fault f = { .left = (uint32_t)a->num,
                                .result = fault_of(NVME_INTERNAL_ERROR),
                                .offset = (uint32_t)a->corrupt_offset,
                                .value = (uint8_t)a->corrupt_value };

        if (!b)
                return;
        if ((a->error_type == ERROR_NVME) != (a->nvme_sct != 0 || a->nvme_sc != 0)) {
                jsonrpc_fail(call, -EINVAL,
                             "nvme_sct or nvme_sc should be specified for NVMe error injection");
                return;
        }
        if (a->error_type == ERROR_NVME)
                f.result = fault_of((uint16_t)(a->nvme_sct << 8 | a->nvme_sc));
        if (a->error_type == ERROR_CORRUPT)
                f.result = NS_DONE;
        if (a->io_type == IO_CLEAR)
                f.left = 0;
        for (unsigned type = IO_READ; type < IO_ALL; type++)
                if (type == a->io_type || a->io_type == IO_ALL || a->io_type == IO_CLEAR)
                        bdev_set_fault(b, (enum bdev_op)ops[type], f);
}

/* --- what is shown ---------------------------------------------------------------------------- */

/* In SPDK's words, all of them: what a namespace takes, whatever is behind it. */
static void put_supported(struct json_object *o, const struct bdev *b)
{
        static const struct {
                const char *type;
                bool yes;
        } rows[] = {
                { "read", true },         { "write", true },
                { "unmap", true },        { "write_zeroes", true },
                { "compare", true },      { "compare_and_write", true },
                { "abort", true },        { "copy", true },
                { "reset", false },       { "nvme_admin", false },
                { "nvme_io", false },     { "nvme_io_md", false },
                { "zcopy", false },       { "get_zone_info", false },
                { "zone_append", false }, { "zone_management", false },
                { "seek_hole", false },   { "seek_data", false },
                { "nvme_iov_md", false },
        };
        struct json_object *into = put_object(o, "supported_io_types");

        put_bool(into, "flush", bdev_storage(b)->ops->flush || bdev_type(b) == BDEV_ERROR);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                put_bool(into, rows[i].type, rows[i].yes);
}

static void put_file(struct json_object *o, const struct bdev *b)
{
        const char *path = bdev_storage(b)->path + strlen("file:");

        json_object_object_add(o, "filename",
                               json_object_new_string_len(path, (int)strcspn(path, ",")));
}

static void put_specific(struct json_object *o, struct bdev *b)
{
        static const char *const keys[] = { "", "", "", "delay", "error" };
        struct json_object *specific = put_object(o, "driver_specific"), *layer;

        if (bdev_type(b) == BDEV_AIO) {
                put_file(put_object(specific, "aio"), b);
                return;
        }
        if (!bdev_under(b))
                return;
        layer = put_object(specific, keys[bdev_type(b)]);
        put_text(layer, "name", bdev_name(b));
        put_text(layer, "base_bdev_name", bdev_name(bdev_under(b)));
        if (bdev_type(b) == BDEV_DELAY) {
                struct bdev_latency read = bdev_latency(b, false), write = bdev_latency(b, true);

                put_number(layer, "avg_read_latency", read.average);
                put_number(layer, "p99_read_latency", read.p99);
                put_number(layer, "avg_write_latency", write.average);
                put_number(layer, "p99_write_latency", write.p99);
        }
}

static void put_bdev(struct json_object *array, const struct rpc *r, struct bdev *b)
{
        const struct ns *storage = bdev_storage(b);
        struct json_object *o = add_object(array), *aliases, *limits;
        char uuid[40];

        put_text(o, "name", bdev_name(b));
        aliases = put_array(o, "aliases");
        put_uuid(o, "uuid", bdev_uuid(b));
        snprintf(uuid, sizeof(uuid), "%s",
                 json_object_get_string(json_object_object_get(o, "uuid")));
        json_object_array_add(aliases, json_object_new_string(uuid));
        put_text(o, "product_name", types[bdev_type(b)].product);
        put_number(o, "block_size", UINT64_C(1) << storage->lbads);
        put_number(o, "num_blocks", storage->blocks);
        limits = put_object(o, "assigned_rate_limits");
        put_number(limits, "rw_ios_per_sec", 0);
        put_number(limits, "rw_mbytes_per_sec", 0);
        put_number(limits, "r_mbytes_per_sec", 0);
        put_number(limits, "w_mbytes_per_sec", 0);
        put_bool(o, "claimed", rpc_bdev_claimed(r, b));
        put_bool(o, "zoned", false);
        put_supported(o, b);
        put_specific(o, b);
}

METHOD(bdev_get_bdevs)
{
        struct rpc *r = owner;
        const struct by_name *a = args;
        struct bdev *b = a->name ? rpc_bdev(r, a->name) : NULL;

        if (a->name && !b) {
                jsonrpc_fail(call, -ENODEV, "%s", "");
                return;
        }
        call->result = json_object_new_array();
        for (unsigned i = 0; i < r->n_bdevs; i++)
                if (!b || r->bdevs[i] == b)
                        put_bdev(call->result, r, r->bdevs[i]);
}

static void put_iostat(struct json_object *array, const struct bdev *b)
{
        struct bdev_stats s = bdev_stats(b);
        struct json_object *o = add_object(array);

        put_text(o, "name", bdev_name(b));
        put_number(o, "bytes_read", s.bytes[BDEV_READ]);
        put_number(o, "num_read_ops", s.ops[BDEV_READ]);
        put_number(o, "bytes_written", s.bytes[BDEV_WRITE]);
        put_number(o, "num_write_ops", s.ops[BDEV_WRITE]);
        put_number(o, "bytes_unmapped", s.bytes[BDEV_UNMAP]);
        put_number(o, "num_unmap_ops", s.ops[BDEV_UNMAP]);
}

struct iostat {
        struct json_object *names;
        const char *name;
};

const struct jsonrpc_param rpc_iostat_params[] = {
        PARAM(iostat, names, TEXTS),
        PARAM(iostat, name, TEXT),
        FIXED("per_channel", BOOL, false),
        UNUSED("reset_mode", TEXT),
        { 0 },
};

/* False: the call has failed. */
static bool put_named(const struct rpc *r, const char *name, struct json_object *into,
                      struct jsonrpc_call *call)
{
        const struct bdev *b = rpc_bdev(r, name);

        if (b)
                put_iostat(into, b);
        else
                jsonrpc_fail(call, -ENODEV, "%s", "");
        return b;
}

static void put_iostats(const struct rpc *r, const struct iostat *a, struct json_object *into,
                        struct jsonrpc_call *call)
{
        const char *name = a->name;
        size_t i = 0;

        if (!name && json_object_is_type(a->names, json_type_string))
                name = json_object_get_string(a->names);
        if (name)
                put_named(r, name, into, call);
        else if (a->names)
                while (i < json_object_array_length(a->names) &&
                       put_named(r, json_object_get_string(json_object_array_get_idx(a->names, i)),
                                 into, call))
                        i++;
        else
                for (; i < r->n_bdevs; i++)
                        put_iostat(into, r->bdevs[i]);
}

METHOD(bdev_get_iostat)
{
        call->result = json_object_new_object();
        put_number(call->result, "tick_rate", UINT64_C(1000000000));
        put_number(call->result, "ticks", loop_now_ns());
        put_iostats(owner, args, put_array(call->result, "bdevs"), call);
}

const struct jsonrpc_param rpc_reset_params[] = { PARAM(by_name, name, TEXT),
                                                  UNUSED("mode", TEXT),
                                                  { 0 } };

METHOD(bdev_reset_iostat)
{
        const struct rpc *r = owner;
        const struct by_name *a = args;

        if (a->name && !rpc_bdev(r, a->name)) {
                jsonrpc_fail(call, -ENODEV, "%s", "");
                return;
        }
        for (unsigned i = 0; i < r->n_bdevs; i++)
                if (!a->name || strcmp(bdev_name(r->bdevs[i]), a->name) == 0)
                        bdev_reset_stats(r->bdevs[i]);
}

/* There is nothing that would have to be examined. */
METHOD(bdev_wait_for_examine)
{
        (void)owner;
        (void)args;
        (void)call;
}

/* --- saving ----------------------------------------------------------------------------------- */

static void save(struct json_object *into, struct bdev *b)
{
        static const char *const methods[] = {
                [BDEV_MALLOC] = "bdev_malloc_create", [BDEV_NULL] = "bdev_null_create",
                [BDEV_AIO] = "bdev_aio_create",       [BDEV_DELAY] = "bdev_delay_create",
                [BDEV_ERROR] = "bdev_error_create",
        };
        struct json_object *p = add_call(into, methods[bdev_type(b)]);
        const struct ns *storage = bdev_storage(b);
        struct bdev_latency read = bdev_latency(b, false), write = bdev_latency(b, true);

        if (bdev_type(b) != BDEV_ERROR)
                put_text(p, "name", bdev_name(b));
        put_uuid(p, "uuid", bdev_uuid(b));
        switch (bdev_type(b)) {
        case BDEV_MALLOC:
        case BDEV_NULL:
                put_number(p, "num_blocks", storage->blocks);
                put_number(p, "block_size", UINT64_C(1) << storage->lbads);
                break;
        case BDEV_AIO:
                put_file(p, b);
                put_number(p, "block_size", UINT64_C(1) << storage->lbads);
                break;
        case BDEV_DELAY:
                put_text(p, "base_bdev_name", bdev_name(bdev_under(b)));
                put_number(p, "avg_read_latency", read.average);
                put_number(p, "p99_read_latency", read.p99);
                put_number(p, "avg_write_latency", write.average);
                put_number(p, "p99_write_latency", write.p99);
                break;
        case BDEV_ERROR:
                put_text(p, "base_name", bdev_name(bdev_under(b)));
                break;
        }
}

void rpc_save_bdevs(const struct rpc *r, struct json_object *into)
{
        for (unsigned i = 0; i < r->n_bdevs; i++)
                save(into, r->bdevs[i]);
}
