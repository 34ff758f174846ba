/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace of commands: it is part of the configuration. */
#include <errno.h>
#include <inttypes.h>

#include "methods.h"
#include "model.h"
#include "target/nvme/command_trace.h"
#include "target/nvme/service.h"

struct args {
        const char *file;
        uint64_t size, files;
};

const struct jsonrpc_param rpc_trace_params[] = {
        PARAM(args, file, TEXT, REQUIRED),
        PARAM(args, size, NUMBER, .otherwise = TRACE_SIZE_USUAL, .max = UINT64_MAX),
        PARAM(args, files, NUMBER, .otherwise = 1, .max = TRACE_FILES_MAX),
        { 0 },
};

METHOD(nvmfspec_trace_start)
{
        const struct args *a = args;
        const struct config_trace t = { (char *)a->file, a->size, a->files };
        struct rpc *r = owner;
        struct config next;
        char error[200];

        if (r->config.trace.file) {
                jsonrpc_fail(call, -EBUSY, "%.200s is being written", r->config.trace.file);
                return;
        }
        if (!rpc_edit(r, &next, call))
                return;
        if (!config_set_trace(&next, &t, error, sizeof(error))) {
                rpc_abandon(&next);
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: %s", error);
        } else {
                (void)rpc_commit(r, &next, JSONRPC_INTERNAL, call);
        }
}

METHOD(nvmfspec_trace_stop)
{
        struct rpc *r = owner;
        struct config next;
        char error[200];

        (void)args;
        if (!r->config.trace.file) {
                jsonrpc_fail(call, -ENOENT, "There is no trace");
                return;
        }
        if (!rpc_edit(r, &next, call))
                return;
        (void)config_set_trace(&next, &(struct config_trace) { 0 }, error, sizeof(error));
        (void)rpc_commit(r, &next, JSONRPC_INTERNAL, call);
}

METHOD(nvmfspec_trace_get)
{
        const struct rpc *r = owner;
        struct journal *j =
            target_service(r->target)->journal; /* this thread alone changes it, or waits */
        const struct config_trace *t = &r->config.trace;

        (void)args;
        call->result = json_object_new_object();
        if (!t->file || !j)
                return;
        put_text(call->result, "file", t->file);
        put_number(call->result, "size", t->size);
        put_number(call->result, "files", t->files);
        put_number(call->result, "left_out", journal_left_out(j));
}

void rpc_save_trace(const struct rpc *r, struct json_object *into)
{
        const struct config_trace *t = &r->config.trace;
        struct json_object *p = t->file ? add_call(into, "nvmfspec_trace_start") : NULL;

        if (!p)
                return;
        put_text(p, "file", t->file);
        put_number(p, "size", t->size);
        put_number(p, "files", t->files);
}
