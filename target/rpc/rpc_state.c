/* SPDX-License-Identifier: BSD-3-Clause */
/* States of the target and of its subsystems, and the pause of a subsystem, as SPDK's library has it. */
#include <string.h>

#include "methods.h"
#include "model.h"
#include "target/nvme/conn.h"

struct pause {
        const char *nqn, *tgt_name;
        uint64_t nsid;
};

const struct jsonrpc_param rpc_pause_params[] = {
        PARAM(pause, nqn, TEXT, REQUIRED),
        PARAM(pause, tgt_name, TEXT),
        PARAM(pause, nsid, NUMBER, .otherwise = NSID_ALL, .max = NSID_ALL),
        { 0 },
};
const struct jsonrpc_param rpc_resume_params[] = {
        PARAM(pause, nqn, TEXT, REQUIRED),
        PARAM(pause, tgt_name, TEXT),
        { 0 },
};

/* NULL: the call has failed. */
static struct subsystem *subsystem_of(const struct rpc *r, const struct pause *a,
                                      struct jsonrpc_call *call)
{
        struct subsystem *s = inventory_subsystem(target_inventory(r->target), a->nqn);

        if (a->tgt_name && strcmp(a->tgt_name, RPC_TARGET) != 0)
                jsonrpc_fail(call, JSONRPC_PARAMS, "NVMf target '%.200s' not found", a->tgt_name);
        else if (!s)
                jsonrpc_fail(call, JSONRPC_PARAMS, "Subsystem with NQN '%.223s' not found", a->nqn);
        return call->code ? NULL : s;
}

static void count_work(struct target_conn *c, void *arg)
{
        conn_count_work(c, arg);
}

/* What it is in now: nobody is told when the last command ends. */
static enum subsystem_state look(const struct rpc *r, struct subsystem *s, struct conn_work *work)
{
        *work = (struct conn_work) { .subsystem = s, .pause = atomic_load(&s->pause) };
        if (atomic_load(&s->state) == SUBSYSTEM_ACTIVE)
                return SUBSYSTEM_ACTIVE;
        target_each_conn(r->target, count_work, work);
        if (work->working == 0)
                atomic_store(&s->state, SUBSYSTEM_PAUSED);
        return (enum subsystem_state)atomic_load(&s->state);
}

/* One that is paused stays as it is, whatever it was paused for. */
METHOD(nvmfspec_subsystem_pause)
{
        const struct rpc *r = owner;
        const struct pause *a = args;
        struct subsystem *s = subsystem_of(r, a, call);
        struct conn_work work;

        if (!s)
                return;
        if (!call->again && atomic_load(&s->state) == SUBSYSTEM_ACTIVE) {
                atomic_store(&s->pause, subsystem_pause((uint32_t)a->nsid));
                atomic_store(&s->state, SUBSYSTEM_PAUSING);
        }
        call->later = look(r, s, &work) == SUBSYSTEM_PAUSING;
}

static void resume_conn(struct target_conn *c, void *arg)
{
        if (ctrl_subsystem(&c->queue) != arg)
                return;
        conn_resume(c);
        c->kind->base.go_on(&c->base);
}

/* After a pause that has not come to its end yet, as SPDK does one after the other. */
METHOD(nvmfspec_subsystem_resume)
{
        const struct rpc *r = owner;
        struct subsystem *s = subsystem_of(r, args, call);
        struct conn_work work;

        if (!s)
                return;
        call->later = look(r, s, &work) == SUBSYSTEM_PAUSING;
        if (call->later || atomic_load(&s->state) == SUBSYSTEM_ACTIVE)
                return;
        atomic_store(&s->pause, 0);
        target_each_conn(r->target, resume_conn, s);
        atomic_store(&s->state, SUBSYSTEM_ACTIVE);
}

static void put_state(struct json_object *o, const struct rpc *r, struct subsystem *s)
{
        struct conn_work work;
        enum subsystem_state state = look(r, s, &work);

        put_text(o, "nqn", s->nqn);
        put_text(o, "state", subsystem_state_name(state));
        if (state == SUBSYSTEM_ACTIVE)
                return;
        put_number(o, "nsid", (uint32_t)work.pause);
        put_number(o, "working", work.working);
        put_number(o, "waiting", work.waiting);
}

METHOD(nvmfspec_get_states)
{
        const struct rpc *r = owner;
        struct json_object *subsystems;

        (void)args;
        call->result = json_object_new_object();
        put_text(call->result, "target", target_state(r->target));
        subsystems = put_array(call->result, "subsystems");
        for (struct subsystem *s = target_inventory(r->target)->subsystems; s; s = s->next)
                put_state(add_object(subsystems), r, s);
}
