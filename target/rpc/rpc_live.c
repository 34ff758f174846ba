/* SPDX-License-Identifier: BSD-3-Clause */
/* What runs: transports, controllers, queues, statistics; and how to disturb it (nvmfspec_...). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "methods.h"
#include "model.h"
#include "pdu/io/loop.h"
#include "pdu/io/option.h"
#include "target/nvme/admin.h"
#include "target/nvme/conn.h"

/* --- transports ------------------------------------------------------------------------------- */

struct transport {
        unsigned trtype;
        const char *tgt_name;
        uint64_t max_queue_depth, max_io_qpairs_per_ctrlr, in_capsule_data_size, max_io_size;
        bool c2h_success;
};

enum { NOT_GIVEN = UINT32_MAX };

const struct jsonrpc_param rpc_transport_params[] = {
        PARAM(transport, trtype, WORD, REQUIRED, .words = "tcp|rdma"),
        PARAM(transport, tgt_name, TEXT),
        PARAM(transport, max_queue_depth, NUMBER, .otherwise = NOT_GIVEN, .max = 65536),
        PARAM(transport, max_io_qpairs_per_ctrlr, NUMBER, .otherwise = NOT_GIVEN, .max = 65535),
        PARAM(transport, in_capsule_data_size, NUMBER, .otherwise = NOT_GIVEN, .max = 65536),
        PARAM(transport, max_io_size, NUMBER, .otherwise = NOT_GIVEN, .max = 64 << 20),
        PARAM(transport, c2h_success, BOOL, .otherwise = true),
        FIXED("dif_insert_or_strip", BOOL, false),
        FIXED("disable_command_passthru", BOOL, false),
        FIXED("masked_oncs", WORDS, 0, .words = "nvmcmps|nvmdsmsv|nvmwzsv|reservs|nvmcpys"),
        FIXED("masked_fuses", WORDS, 0, .words = "fcws"),
        /* Bounds, and ours are lower: nvmf_get_transports says them. */
        UNUSED("max_aq_depth", NUMBER),
        UNUSED("kas", NUMBER),
        UNUSED("min_kato", NUMBER),
        UNUSED("io_unit_size", NUMBER),
        UNUSED("num_shared_buffers", NUMBER),
        UNUSED("buf_cache_size", NUMBER),
        UNUSED("iobuf_small_cache_size", NUMBER),
        UNUSED("iobuf_large_cache_size", NUMBER),
        UNUSED("zcopy", BOOL),
        UNUSED("num_cqe", NUMBER),
        UNUSED("max_srq_depth", NUMBER),
        UNUSED("no_srq", BOOL),
        UNUSED("sock_priority", NUMBER),
        UNUSED("acceptor_backlog", NUMBER),
        UNUSED("abort_timeout_sec", NUMBER),
        UNUSED("no_wr_batching", BOOL),
        UNUSED("control_msg_num", NUMBER),
        UNUSED("disable_mappable_bar0", BOOL),
        UNUSED("disable_adaptive_irq", BOOL),
        UNUSED("disable_shadow_doorbells", BOOL),
        UNUSED("acceptor_poll_rate", NUMBER),
        UNUSED("ack_timeout", NUMBER),
        UNUSED("data_wr_pool_size", NUMBER),
        { 0 },
};

/* A target, and nobody of that name. */
static bool is_here(const char *tgt_name, struct jsonrpc_call *call)
{
        if (!tgt_name || strcmp(tgt_name, "nvmf_tgt") == 0)
                return true;
        jsonrpc_fail(call, JSONRPC_INTERNAL, "Unable to find a target.");
        return false;
}

static void set_if_given(unsigned *limit, uint64_t value)
{
        if (value != NOT_GIVEN)
                *limit = (unsigned)value;
}

struct setting {
        const struct transport *asked;
        const char *wrong;
};

static void set_limits(struct nvme_service *s, void *arg)
{
        struct setting *set = arg;
        const struct transport *a = set->asked;
        struct target_limits l = s->limits;

        set_if_given(&l.queue_entries, a->max_queue_depth);
        set_if_given(&l.queues, a->max_io_qpairs_per_ctrlr);
        set_if_given(a->trtype == 0 ? &l.in_capsule : &l.rdma_in_capsule, a->in_capsule_data_size);
        set_if_given(&l.max_transfer, a->max_io_size);
        set->wrong = service_set_limits(s, &l);
        if (!set->wrong && a->trtype == 0)
                s->success = a->c2h_success;
}

METHOD(nvmf_create_transport)
{
        struct rpc *r = owner;
        struct setting set = { .asked = args };
        const struct transport *a = args;
        const char *name = a->trtype == 0 ? "TCP" : "RDMA";

        if (!is_here(a->tgt_name, call))
                return;
        if (r->transports[a->trtype]) {
                jsonrpc_fail(call, JSONRPC_INTERNAL, "Transport type '%s' already exists", name);
                return;
        }
        target_alone(r->target, set_limits, &set);
        if (set.wrong)
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: %s", set.wrong);
        else
                r->transports[a->trtype] = true;
}

static void put_transport(struct json_object *o, const struct rpc *r, unsigned trtype)
{
        const struct nvme_service *s = target_service(r->target);
        const struct target_limits *l = &s->limits;

        put_text(o, "trtype", trtype == 0 ? "TCP" : "RDMA");
        put_number(o, "max_queue_depth", l->queue_entries);
        put_number(o, "max_io_qpairs_per_ctrlr", l->queues);
        put_number(o, "in_capsule_data_size", trtype == 0 ? l->in_capsule : l->rdma_in_capsule);
        put_number(o, "max_io_size", l->max_transfer);
        put_number(o, "max_aq_depth", CTRL_ADMIN_ENTRIES);
        put_bool(o, "dif_insert_or_strip", false);
        if (trtype == 0)
                put_bool(o, "c2h_success", s->success);
        put_bool(o, "disable_command_passthru", false);
        put_number(o, "kas", KAS_UNITS);
        put_number(o, "min_kato", KATO_MIN);
}

void rpc_save_transports(const struct rpc *r, struct json_object *into)
{
        for (unsigned t = 0; t < 2; t++)
                if (r->transports[t])
                        put_transport(add_call(into, "nvmf_create_transport"), r, t);
}

struct get {
        const char *tgt_name, *nqn, *trtype;
};

const struct jsonrpc_param rpc_get_params[] = { PARAM(get, tgt_name, TEXT),
                                                PARAM(get, trtype, TEXT),
                                                { 0 } };
const struct jsonrpc_param rpc_of_params[] = { PARAM(get, nqn, TEXT, REQUIRED),
                                               PARAM(get, tgt_name, TEXT),
                                               { 0 } };

METHOD(nvmf_get_transports)
{
        static const char *const names[] = { "TCP", "RDMA" };
        const struct rpc *r = owner;
        const struct get *a = args;

        if (!is_here(a->tgt_name, call))
                return;
        call->result = json_object_new_array();
        for (unsigned t = 0; t < 2; t++)
                if (r->transports[t] && (!a->trtype || strcasecmp(a->trtype, names[t]) == 0))
                        put_transport(add_object(call->result), r, t);
        if (a->trtype && json_object_array_length(call->result) == 0)
                jsonrpc_fail(call, -ENODEV, "%s", "");
}

/* --- controllers and queues ------------------------------------------------------------------- */

static void put_controller(const struct ctrl_info *info, void *arg)
{
        struct json_object *o = add_object(arg);

        put_number(o, "cntlid", info->cntlid);
        put_text(o, "cntrltype", info->discovery ? "discovery" : "io");
        put_text(o, "hostnqn", info->hostnqn);
        put_uuid(o, "hostid", info->hostid);
        put_number(o, "num_io_qpairs", info->io_queues);
}

/* NULL: the call has failed. */
static struct subsystem *subsystem_of(const struct rpc *r, const struct get *a,
                                      struct jsonrpc_call *call)
{
        struct subsystem *s = is_here(a->tgt_name, call)
                                  ? inventory_subsystem(target_inventory(r->target), a->nqn)
                                  : NULL;

        if (!s && !call->code)
                jsonrpc_fail(call, JSONRPC_PARAMS, "Subsystem with NQN '%.223s' not found", a->nqn);
        return s;
}

METHOD(nvmf_subsystem_get_controllers)
{
        const struct rpc *r = owner;
        const struct subsystem *s = subsystem_of(r, args, call);

        if (!s)
                return;
        call->result = json_object_new_array();
        ctrl_table_each(target_service(r->target)->ctrl.table, s, put_controller, call->result);
}

struct listing {
        const struct subsystem *subsystem;
        struct json_object *into;
};

static void put_thread(struct json_object *o, const char *name, const struct reactor *r)
{
        char text[40];

        snprintf(text, sizeof(text), "nvmf_tgt_poll_group_%03u", r->number);
        put_text(o, name, text);
}

static void put_place(struct json_object *o, const struct port *p, const char *addr,
                      const char *port)
{
        put_text(o, "trtype", p->trtype == TRTYPE_RDMA ? "RDMA" : "TCP");
        put_text(o, "adrfam", strchr(addr, ':') ? "IPv6" : "IPv4");
        put_text(o, "traddr", addr);
        put_text(o, "trsvcid", port);
}

static const char *auth_state(const struct auth *a)
{
        /* of the messages of a transaction, the one that is due */
        static const char *const steps[] = { "negotiate", "challenge", "reply", "success1",
                                             "success2" };

        if (a->failed)
                return a->told ? "error" : "failure1";
        return auth_turn(a) == AUTH_DONE ? "completed" : steps[a->at];
}

/* Of a host that has to authenticate itself. */
static void put_auth(struct json_object *o, const struct auth *a)
{
        static const char *const hashes[AUTH_HASHES] = { "unknown", "sha256", "sha384", "sha512" };
        static const char *const groups[AUTH_GROUPS] = { "null",      "ffdhe2048", "ffdhe3072",
                                                         "ffdhe4096", "ffdhe6144", "ffdhe8192" };
        struct json_object *auth;

        if (!a->cfg || a->cfg->keys.host.len == 0)
                return;
        auth = put_object(o, "auth");
        put_text(auth, "state", auth_state(a));
        put_text(auth, "digest", hashes[a->hash]);
        put_text(auth, "dhgroup", a->hash ? groups[a->group] : "unknown"); /* chosen together */
}

static void put_queue(struct target_conn *c, void *arg)
{
        const struct listing *l = arg;
        struct ctrl_info info;
        struct json_object *o;
        char port[8];

        if (ctrl_subsystem(&c->queue) != l->subsystem || !ctrl_info_of(&c->queue, &info))
                return;
        o = add_object(l->into);
        put_number(o, "cntlid", info.cntlid);
        put_number(o, "qid", c->queue.qid);
        put_text(o, "state", c->queue.unproven ? "authenticating" : "enabled");
        put_thread(o, "thread", c->base.reactor);
        put_text(o, "hostnqn", info.hostnqn);
        put_place(put_object(o, "listen_address"), c->base.port, c->base.traddr,
                  c->base.port->trsvcid);
        snprintf(port, sizeof(port), "%u", c->base.peer.port);
        put_place(put_object(o, "peer_address"), c->base.port, c->base.peer.addr, port);
        put_auth(o, &c->queue.auth);
}

METHOD(nvmf_subsystem_get_qpairs)
{
        const struct rpc *r = owner;
        struct listing l = { .subsystem = subsystem_of(r, args, call) };

        if (!l.subsystem)
                return;
        l.into = call->result = json_object_new_array();
        target_each_conn(r->target, put_queue, &l);
}

/* --- statistics ------------------------------------------------------------------------------- */

static void put_counters(struct target_conn *c, void *arg)
{
        struct ctrl_info info;
        struct json_object *o;
        char peer[NET_TRADDR + 8];

        if (!ctrl_info_of(&c->queue, &info))
                return;
        o = add_object(arg);
        snprintf(peer, sizeof(peer), "%s:%u", c->base.peer.addr, c->base.peer.port);
        put_number(o, "connection", c->base.number);
        put_text(o, "nqn", info.subnqn);
        put_text(o, "hostnqn", info.hostnqn);
        put_text(o, "peer", peer);
        put_number(o, "cntlid", info.cntlid);
        put_number(o, "qid", c->queue.qid);
        put_number(o, "reads", atomic_load(&c->queue.reads));
        put_number(o, "bytes_read", atomic_load(&c->queue.bytes_read));
        put_number(o, "writes", atomic_load(&c->queue.writes));
        put_number(o, "bytes_written", atomic_load(&c->queue.bytes_written));
        put_number(o, "commands", c->answered);
        put_number(o, "busy_ns", c->busy);
}

/* From the first call on times are measured. */
METHOD(nvmfspec_get_queues)
{
        const struct rpc *r = owner;

        (void)args;
        atomic_store(&target_service(r->target)->timed, true);
        call->result = json_object_new_object();
        put_number(call->result, "ns", loop_now_ns());
        target_each_conn(r->target, put_counters, put_array(call->result, "queues"));
}

struct groups {
        const struct rpc *rpc;
        struct json_object *into;
};

static void put_group(struct reactor *r, void *arg)
{
        const struct groups *g = arg;
        struct json_object *o = add_object(g->into), *transports;
        unsigned admin = 0, io = 0, none = 0;

        for (struct conn *base = r->conns; base; base = base->next) {
                const struct target_conn *c = target_conn_of(base);

                ++*(!c->queue.ctrl ? &none : c->is_io ? &io : &admin);
        }
        put_thread(o, "name", r);
        put_number(o, "admin_qpairs", reactor_own(r)->admin_queues);
        put_number(o, "io_qpairs", reactor_own(r)->io_queues);
        put_number(o, "current_admin_qpairs", admin);
        put_number(o, "current_io_qpairs", io);
        put_number(o, "current_unassociated_qpairs", none);
        put_number(o, "pending_bdev_io", 0); /* no bdev has commands wait */
        put_number(o, "completed_nvme_io", reactor_own(r)->commands);
        transports = put_array(o, "transports");
        for (unsigned t = 0; t < 2; t++)
                if (g->rpc->transports[t])
                        put_text(add_object(transports), "trtype", t == 0 ? "TCP" : "RDMA");
}

METHOD(nvmf_get_stats)
{
        const struct rpc *r = owner;
        const struct get *a = args;
        struct groups g = { .rpc = r };

        if (!is_here(a->tgt_name, call))
                return;
        call->result = json_object_new_object();
        put_number(call->result, "tick_rate", UINT64_C(1000000000));
        g.into = put_array(call->result, "poll_groups");
        target_each_reactor(r->target, put_group, &g);
}

static void put_reactor(struct reactor *r, void *arg)
{
        struct json_object *o = add_object(arg), *thread;

        put_number(o, "lcore", r->number);
        put_bool(o, "in_interrupt", r->service->busy_poll == 0);
        thread = add_object(put_array(o, "lw_threads"));
        put_thread(thread, "name", r);
        put_number(thread, "id", r->number + 1);
}

METHOD(framework_get_reactors)
{
        const struct rpc *r = owner;

        (void)args;
        call->result = json_object_new_object();
        put_number(call->result, "tick_rate", UINT64_C(1000000000));
        put_number(call->result, "pid", (uint64_t)getpid());
        target_each_reactor(r->target, put_reactor, put_array(call->result, "reactors"));
}

/* --- rules ------------------------------------------------------------------------------------ */

struct rule_change {
        const char *rule;
        bool on;
};

const struct jsonrpc_param rpc_rule_params[] = {
        PARAM(rule_change, rule, TEXT, REQUIRED),
        PARAM(rule_change, on, BOOL, .otherwise = true),
        { 0 },
};

/* A policy without flaws of its own: they follow from what it violates. */
static void set_policy(struct nvme_service *s, void *arg)
{
        s->policy = *(const struct rule_policy *)arg;
        s->ctrl.sqfc_disable =
            s->sqfc_disable && !rule_in(&s->policy.violated, TCP_C2H_SUCCESS_SQFC);
}

/* A rule that is violated brings flaws along. */
static void remove_flaws(struct rule_policy *p, unsigned rule)
{
        struct rule_policy alone = { 0 };

        rule_add(&alone.violated, rule);
        rulebook_add_flaws(&nvme_rules, &alone);
        rule_each_in (&alone.flaws, flaw)
                rule_remove(&p->flaws, flaw);
}

static bool no_longer(struct rule_policy *p, const char *name, bool violate)
{
        unsigned rule = rule_by_name(name), flaw = rulebook_flaw_by_name(&nvme_rules, name);

        if (rule != RULE_NONE)
                rule_remove(violate ? &p->violated : &p->waived, rule);
        else if (violate && flaw)
                rule_remove(&p->flaws, flaw);
        else
                return false;
        if (rule != RULE_NONE && violate)
                remove_flaws(p, rule);
        return true;
}

static void change_rule(struct rpc *r, const struct rule_change *a, bool violate,
                        struct jsonrpc_call *call)
{
        struct rule_policy p = target_service(r->target)->policy;
        char error[JSONRPC_MESSAGE] = "there is no such rule";
        bool ok;

        if (!a->on)
                ok = no_longer(&p, a->rule, violate);
        else if (violate)
                ok = target_violate(&p, a->rule, error, sizeof(error));
        else
                ok = target_waive(&p, a->rule, error, sizeof(error));
        if (!ok) {
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: %s", error);
                return;
        }
        rulebook_add_flaws(&nvme_rules, &p);
        target_alone(r->target, set_policy, &p);
}

METHOD(nvmfspec_violate)
{
        change_rule(owner, args, true, call);
}

METHOD(nvmfspec_waive)
{
        change_rule(owner, args, false, call);
}

static void put_rules(struct json_object *o, const char *name, const struct rule_set *set)
{
        struct json_object *array = put_array(o, name);

        rule_each_in (set, rule)
                json_object_array_add(array, json_object_new_string(rule_get(rule)->id));
}

METHOD(nvmfspec_get_policy)
{
        const struct rpc *r = owner;
        const struct rule_policy *p = &target_service(r->target)->policy;

        (void)args;
        call->result = json_object_new_object();
        put_rules(call->result, "waived", &p->waived);
        put_rules(call->result, "violated", &p->violated);
}

/* --- associations and connections ------------------------------------------------------------- */

struct kill {
        uint64_t cntlid;
        const char *hostnqn, *nqn;
};

const struct jsonrpc_param rpc_kill_params[] = {
        PARAM(kill, cntlid, NUMBER, .max = UINT16_MAX),
        PARAM(kill, hostnqn, TEXT),
        PARAM(kill, nqn, TEXT),
        { 0 },
};

METHOD(nvmfspec_kill)
{
        const struct rpc *r = owner;
        const struct kill *a = args;
        unsigned n = ctrl_table_end(target_service(r->target)->ctrl.table, (uint16_t)a->cntlid,
                                    a->hostnqn, a->nqn);

        if (n == 0)
                jsonrpc_fail(call, -ENOENT, "No association is meant by this");
        else
                call->result = json_object_new_int64(n);
}

struct disturb {
        uint64_t cntlid, qid, ms;
        bool reset;
        /* out */
        unsigned meant, unable;
};

const struct jsonrpc_param rpc_drop_params[] = {
        PARAM(disturb, cntlid, NUMBER, REQUIRED, .max = UINT16_MAX),
        PARAM(disturb, qid, NUMBER, REQUIRED, .max = UINT16_MAX),
        PARAM(disturb, reset, BOOL),
        { 0 },
};
const struct jsonrpc_param rpc_stall_params[] = {
        PARAM(disturb, cntlid, NUMBER, REQUIRED, .max = UINT16_MAX),
        PARAM(disturb, qid, NUMBER, REQUIRED, .max = UINT16_MAX),
        PARAM(disturb, ms, NUMBER, REQUIRED, .max = 3600000),
        { 0 },
};

static bool is_meant(const struct target_conn *c, struct disturb *d)
{
        struct ctrl_info info;
        bool meant =
            c->queue.qid == d->qid && ctrl_info_of(&c->queue, &info) && info.cntlid == d->cntlid;

        d->meant += meant;
        return meant;
}

static void drop(struct target_conn *c, void *arg)
{
        struct disturb *d = arg;

        if (!is_meant(c, d))
                return;
        if (d->reset)
                c->kind->cut(c);
        else
                c->kind->base.drain(&c->base, true);
}

static void stall(struct target_conn *c, void *arg)
{
        struct disturb *d = arg;

        if (!is_meant(c, d))
                return;
        if (c->kind->stall) {
                c->stalled_until = reactor_now(c->base.reactor) + d->ms;
                c->kind->stall(c);
        } else {
                d->unable++;
        }
}

static void delay(struct target_conn *c, void *arg)
{
        struct disturb *d = arg;

        if (is_meant(c, d))
                c->delay = d->ms;
}

static void disturb(struct rpc *r, const void *args, void (*fn)(struct target_conn *c, void *arg),
                    struct jsonrpc_call *call)
{
        struct disturb d = *(const struct disturb *)args;

        target_each_conn(r->target, fn, &d);
        if (d.unable > 0)
                jsonrpc_fail(call, -EOPNOTSUPP, "This can be done over TCP alone");
        else if (d.meant == 0)
                jsonrpc_fail(call, -ENOENT, "There is no such queue");
}

METHOD(nvmfspec_drop)
{
        disturb(owner, args, drop, call);
}

METHOD(nvmfspec_delay)
{
        disturb(owner, args, delay, call);
}

METHOD(nvmfspec_stall)
{
        disturb(owner, args, stall, call);
}
