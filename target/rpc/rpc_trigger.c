/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults with a trigger: they are part of the configuration, and what they have come to is the target's. */
#include <errno.h>
#include <string.h>

#include "methods.h"
#include "model.h"
#include "target/nvme/trigger.h"

struct args {
        const char *fault;
        uint64_t id;
};

const struct jsonrpc_param rpc_fault_params[] = { PARAM(args, fault, TEXT, REQUIRED), { 0 } };
const struct jsonrpc_param rpc_unfault_params[] = { PARAM(args, id, NUMBER), { 0 } };

/* Its number; 0: there is none. */
static unsigned id_of(const struct rpc *r, const char *text)
{
        struct trigger f;

        for (unsigned slot = 0; target_trigger(r->target, &slot, &f);)
                if (strcmp(f.text, text) == 0)
                        return f.id;
        return 0;
}

METHOD(nvmfspec_fault_add)
{
        struct rpc *r = owner;
        const struct args *a = args;
        char error[300];
        struct config next;

        if (!rpc_edit(r, &next, call))
                return;
        if (!config_add_fault(&next, a->fault, error, sizeof(error))) {
                rpc_abandon(&next);
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: %s", error);
        } else if (rpc_commit(r, &next, JSONRPC_INTERNAL, call)) {
                call->result = json_object_new_int64(id_of(r, a->fault));
        }
}

METHOD(nvmfspec_fault_list)
{
        const struct rpc *r = owner;
        struct trigger f;

        (void)args;
        call->result = json_object_new_array();
        for (unsigned slot = 0; target_trigger(r->target, &slot, &f);) {
                struct json_object *o = add_object(call->result);

                put_number(o, "id", f.id);
                put_text(o, "fault", f.text);
                put_number(o, "met", f.met);
                put_number(o, "fired", f.fired);
        }
}

/* With id 0 all of them. */
static unsigned take_out(const struct rpc *r, struct config *c, uint64_t id)
{
        unsigned n = 0;
        struct trigger f;

        for (unsigned slot = 0; target_trigger(r->target, &slot, &f);) {
                int at = config_find_string(c->faults, c->n_faults, f.text);

                if ((id != 0 && f.id != id) || at < 0)
                        continue;
                config_remove_string(c->faults, &c->n_faults, (unsigned)at);
                n++;
        }
        return n;
}

METHOD(nvmfspec_fault_remove)
{
        struct rpc *r = owner;
        const struct args *a = args;
        struct config next;
        unsigned n;

        if (!rpc_edit(r, &next, call))
                return;
        n = take_out(r, &next, a->id);
        if (n == 0) {
                rpc_abandon(&next);
                jsonrpc_fail(call, -ENOENT, "There is no such fault");
        } else if (rpc_commit(r, &next, JSONRPC_INTERNAL, call)) {
                call->result = json_object_new_int64(n);
        }
}

void rpc_save_faults(const struct rpc *r, struct json_object *into)
{
        for (unsigned i = 0; i < r->config.n_faults; i++)
                put_text(add_call(into, "nvmfspec_fault_add"), "fault", r->config.faults[i]);
}
