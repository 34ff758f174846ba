/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmf_...: subsystems, listeners, hosts, referrals. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "methods.h"
#include "model.h"
#include "pdu/core/wipe.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "target/nvme/ctrl.h"
#include "target/nvme/service.h"

struct nvmf {
        const char *nqn, *tgt_name, *host;
        /* a subsystem */
        const char *serial_number, *model_number;
        bool allow_any_host, ana_reporting;
        uint64_t min_cntlid, max_cntlid, max_namespaces;
        /* an address */
        unsigned trtype, adrfam;
        const char *traddr, *trsvcid, *subnqn;
        bool has_address, secure_channel;
        /* a namespace */
        uint64_t nsid;
        const char *bdev_name, *nguid, *uuid;
        uint64_t anagrpid;
        bool no_auto_visible;
        unsigned ana_state;
        uint64_t transition_ms;
        /* a host */
        const char *dhchap_key, *dhchap_ctrlr_key, *psk;
};

#define NQN    PARAM(nvmf, nqn, TEXT, REQUIRED)
#define TARGET PARAM(nvmf, tgt_name, TEXT)
#define ADDRESS                                                                                    \
        {                                                                                          \
                .name = "listen_address", .kind = JSONRPC_OBJECT, REQUIRED, .members = address     \
        }

static const struct jsonrpc_param address[] = {
        PARAM(nvmf, trtype, WORD, REQUIRED, .words = "tcp|rdma"),
        PARAM(nvmf, adrfam, WORD, .words = "ipv4|ipv6"),
        PARAM(nvmf, traddr, TEXT, REQUIRED),
        PARAM(nvmf, trsvcid, TEXT),
        { 0 },
};

/* Not given, it is empty: no port has that. */
static const char *trsvcid_of(const struct nvmf *a)
{
        return a->trsvcid ? a->trsvcid : "";
}

/* --- what methods speak of -------------------------------------------------------------------- */

/* SPDK's answers to a target that is not there are of two kinds. */
static bool is_here(const struct nvmf *a, int code, struct jsonrpc_call *call)
{
        if (!a->tgt_name || strcmp(a->tgt_name, RPC_TARGET) == 0)
                return true;
        jsonrpc_fail(call, code,
                     code == JSONRPC_INTERNAL ? "Unable to find target %.200s"
                                              : "NVMf target '%.200s' not found",
                     a->tgt_name);
        return false;
}

static bool is_discovery(const char *nqn)
{
        return strcmp(nqn, NQN_DISCOVERY) == 0;
}

static struct config_subsystem *subsystem_of(const struct config *c, const char *nqn,
                                             struct jsonrpc_call *call)
{
        struct config_subsystem *s = config_find_subsystem(c, nqn);

        if (!s)
                jsonrpc_fail(call, JSONRPC_PARAMS, "Subsystem with NQN '%.223s' not found", nqn);
        return s;
}

/* The subsystem in a copy of the configuration; NULL: the call has failed, there is no copy. */
static struct config_subsystem *edit(struct rpc *r, const struct nvmf *a, struct config *next,
                                     struct jsonrpc_call *call)
{
        struct config_subsystem *s;

        if (!is_here(a, JSONRPC_PARAMS, call) || !subsystem_of(&r->config, a->nqn, call) ||
            !rpc_edit(r, next, call))
                return NULL;
        s = config_find_subsystem(next, a->nqn);
        return s;
}

static void refuse(struct config *next, int code, const char *why, struct jsonrpc_call *call)
{
        rpc_abandon(next);
        jsonrpc_fail(call, code, "%s", why);
}

static uint8_t trtype_of(const struct nvmf *a)
{
        return a->trtype == 0 ? TRTYPE_TCP : TRTYPE_RDMA;
}

static struct config_port *find_port(const struct config *c, const struct nvmf *a)
{
        for (unsigned i = 0; i < c->n_ports; i++) {
                struct config_port *p = &c->ports[i];

                if (p->trtype == trtype_of(a) && strcmp(p->traddr, a->traddr) == 0 &&
                    strcmp(p->trsvcid, trsvcid_of(a)) == 0)
                        return p;
        }
        return NULL;
}

static void put_address(struct json_object *o, uint8_t trtype, const char *traddr,
                        const char *trsvcid)
{
        put_text(o, "trtype", trtype == TRTYPE_RDMA ? "RDMA" : "TCP");
        put_text(o, "adrfam", strchr(traddr, ':') ? "IPv6" : "IPv4");
        put_text(o, "traddr", traddr);
        put_text(o, "trsvcid", trsvcid);
}

/* --- subsystems ------------------------------------------------------------------------------- */

const struct jsonrpc_param rpc_create_params[] = {
        NQN,
        TARGET,
        PARAM(nvmf, serial_number, TEXT),
        PARAM(nvmf, model_number, TEXT),
        FIXED("admin_label", TEXT, 0),
        PARAM(nvmf, max_namespaces, NUMBER, .max = UINT32_MAX),
        PARAM(nvmf, allow_any_host, BOOL),
        PARAM(nvmf, ana_reporting, BOOL),
        PARAM(nvmf, min_cntlid, NUMBER, .otherwise = CNTLID_MIN, .max = UINT16_MAX),
        PARAM(nvmf, max_cntlid, NUMBER, .otherwise = CNTLID_MAX, .max = UINT16_MAX),
        FIXED("dmrsl", NUMBER, 0),
        FIXED("max_discard_size_kib", NUMBER, 0), /* DMRSL until SPDK 26.05 */
        FIXED("wzsl", NUMBER, 0),
        FIXED("max_write_zeroes_size_kib", NUMBER, 0), /* WZSL */
        FIXED("passthrough", BOOL, false),
        FIXED("enable_nssr", BOOL, false),
        { 0 },
};

static bool is_plain(const char *text, size_t max)
{
        for (const char *p = text; *p; p++)
                if (*p < 0x20 || *p > 0x7e)
                        return false;
        return strlen(text) <= max;
}

static bool check_subsystem(const struct rpc *r, const struct nvmf *a, struct jsonrpc_call *call)
{
        if (!is_here(a, JSONRPC_INTERNAL, call))
                return false;
        if ((a->serial_number && !is_plain(a->serial_number, 20)) ||
            (a->model_number && !is_plain(a->model_number, 40)))
                jsonrpc_fail(call, JSONRPC_PARAMS,
                             "Invalid parameters: the serial or model number is too long or not "
                             "printable");
        else if (strlen(a->nqn) > NQN_MAX || is_discovery(a->nqn) ||
                 !nqn_valid(a->nqn, strlen(a->nqn) + 1, false) ||
                 config_find_subsystem(&r->config, a->nqn) ||
                 r->config.n_subsystems >= r->max_subsystems)
                jsonrpc_fail(call, JSONRPC_INTERNAL, "Unable to create subsystem %.223s", a->nqn);
        else if (a->min_cntlid < CNTLID_MIN || a->max_cntlid > CNTLID_MAX ||
                 a->min_cntlid > a->max_cntlid)
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid cntlid range [%u-%u]",
                             (unsigned)a->min_cntlid, (unsigned)a->max_cntlid);
        return call->code == 0;
}

METHOD(nvmf_create_subsystem)
{
        struct rpc *r = owner;
        const struct nvmf *a = args;
        struct config next;
        struct config_subsystem *s;

        if (!check_subsystem(r, a, call) || !rpc_edit(r, &next, call))
                return;
        s = config_add_subsystem(&next, a->nqn);
        if (!s) {
                refuse(&next, -ENOMEM, strerror(ENOMEM), call);
                return;
        }
        if (a->serial_number)
                strcpy(s->serial, a->serial_number);
        if (a->model_number)
                strcpy(s->model, a->model_number);
        s->allow_any_host = a->allow_any_host;
        s->ana = a->ana_reporting;
        s->cntlid_min = (uint16_t)a->min_cntlid;
        s->cntlid_max = (uint16_t)a->max_cntlid;
        s->max_namespaces = (uint32_t)a->max_namespaces;
        rpc_commit(r, &next, JSONRPC_INTERNAL, call);
}

const struct jsonrpc_param rpc_subsystem_params[] = { NQN, TARGET, { 0 } };

/* Ports that nobody listens for any more. */
static void drop_idle_ports(struct config *c)
{
        for (unsigned i = c->n_ports; i-- > 0;)
                if (c->ports[i].n_subsystems == 0 && !c->ports[i].discovery)
                        config_remove_port(c, &c->ports[i]);
}

METHOD(nvmf_delete_subsystem)
{
        struct config next;
        struct config_subsystem *s = edit(owner, args, &next, call);

        if (!s)
                return;
        config_remove_subsystem(&next, s);
        drop_idle_ports(&next);
        rpc_commit(owner, &next, JSONRPC_INTERNAL, call);
}

static const struct {
        uint8_t state;
        const char *word;
} ana_words[] = { { ANA_OPTIMIZED, "optimized" },
                  { ANA_NONOPTIMIZED, "non_optimized" },
                  { ANA_INACCESSIBLE, "inaccessible" },
                  { ANA_PERSISTENT_LOSS, "persistent_loss" },
                  { ANA_CHANGE, "change" } };
#define ANA_WORDS "optimized|non_optimized|inaccessible|persistent_loss|change"

static const char *ana_word(uint8_t state)
{
        unsigned i = 0;

        while (ana_words[i].state != state)
                i++;
        return ana_words[i].word;
}

/* The last group that is used, or that something is said of. */
static uint32_t last_group(const struct config_port *p, const struct config_subsystem *s)
{
        uint32_t last = 1;

        for (unsigned i = 0; i < s->n_ns; i++)
                if (config_ana_group(&s->ns[i]) > last)
                        last = config_ana_group(&s->ns[i]);
        for (unsigned i = 0; i < p->n_ana; i++)
                if (p->ana[i].grpid > last)
                        last = p->ana[i].grpid;
        return last;
}

static void put_ana_states(struct json_object *o, const struct config_port *p,
                           const struct config_subsystem *s)
{
        struct json_object *array = put_array(o, "ana_states");
        uint32_t last = last_group(p, s);
        struct ana_states states;

        config_ana_states(p, s->nqn, &states);
        for (uint32_t g = 1; g <= last; g++) {
                struct json_object *group = add_object(array);

                put_number(group, "ana_group", g);
                put_text(group, "ana_state", ana_word(states.of[g]));
        }
}

static void put_listeners(struct json_object *array, const struct config *c, const char *nqn,
                          bool inside)
{
        const struct config_subsystem *s = nqn && inside ? config_find_subsystem(c, nqn) : NULL;

        for (unsigned i = 0; i < c->n_ports; i++) {
                const struct config_port *p = &c->ports[i];
                struct json_object *o;

                if (nqn ? config_find_string(p->subsystems, p->n_subsystems, nqn) < 0
                        : !p->discovery)
                        continue;
                o = add_object(array);
                put_address(inside ? put_object(o, "address") : o, p->trtype, p->traddr,
                            p->trsvcid);
                if (s && s->ana)
                        put_ana_states(o, p, s);
        }
}

static void put_keys(struct json_object *o, const struct config_host *h)
{
        if (h->key_name[0])
                put_text(o, "dhchap_key", h->key_name);
        if (h->ctrl_key_name[0])
                put_text(o, "dhchap_ctrlr_key", h->ctrl_key_name);
}

static void put_hosts(struct json_object *o, const struct config_subsystem *s)
{
        struct json_object *hosts = put_array(o, "hosts");

        for (unsigned i = 0; i < s->n_hosts; i++) {
                struct json_object *host = add_object(hosts);

                put_text(host, "nqn", s->hosts[i]);
                for (unsigned k = 0; k < s->n_own; k++) {
                        if (strcmp(s->own[k].nqn, s->hosts[i]) != 0)
                                continue;
                        put_keys(host, &s->own[k]);
                }
        }
}

static const char *bdev_name_of(const struct config_ns *ns)
{
        return ns->bdev ? bdev_name(ns->bdev) : ns->path;
}

static void put_namespace(struct json_object *array, const struct subsystem *live,
                          const struct config_ns *ns, bool ana)
{
        struct json_object *o = add_object(array);
        const struct ns *there = subsystem_ns(live, ns->nsid);

        put_number(o, "nsid", ns->nsid);
        put_text(o, "bdev_name", bdev_name_of(ns));
        put_text(o, "name", bdev_name_of(ns));
        if (ns->has_nguid)
                put_hex(o, "nguid", ns->nguid, sizeof(ns->nguid));
        if (there)
                put_uuid(o, "uuid", there->uuid);
        if (ana)
                put_number(o, "anagrpid", config_ana_group(ns));
}

static void put_subsystem(struct json_object *array, const struct rpc *r,
                          const struct config_subsystem *s)
{
        const struct subsystem *live = inventory_subsystem(target_inventory(r->target), s->nqn);
        struct json_object *o = add_object(array), *namespaces;

        put_text(o, "nqn", s->nqn);
        put_text(o, "subtype", "NVMe");
        put_listeners(put_array(o, "listen_addresses"), &r->config, s->nqn, false);
        put_bool(o, "allow_any_host", s->allow_any_host);
        put_hosts(o, s);
        if (!live)
                return;
        put_text(o, "serial_number", live->serial);
        put_text(o, "model_number", live->model);
        put_number(o, "max_namespaces", s->max_namespaces ? s->max_namespaces : CTRL_NSID_MAX);
        put_bool(o, "passthrough", false);
        put_number(o, "min_cntlid", live->cntlid_min);
        put_number(o, "max_cntlid", live->cntlid_max);
        put_number(o, "dmrsl", 0);
        put_number(o, "wzsl", 0);
        namespaces = put_array(o, "namespaces");
        for (unsigned i = 0; i < s->n_ns; i++)
                if (s->ns[i].enable)
                        put_namespace(namespaces, live, &s->ns[i], s->ana);
}

const struct jsonrpc_param rpc_get_subsystems_params[] = { PARAM(nvmf, nqn, TEXT), TARGET, { 0 } };

METHOD(nvmf_get_subsystems)
{
        const struct rpc *r = owner;
        const struct nvmf *a = args;
        struct json_object *o;

        if (!is_here(a, JSONRPC_PARAMS, call) ||
            (a->nqn && !is_discovery(a->nqn) && !subsystem_of(&r->config, a->nqn, call)))
                return;
        call->result = json_object_new_array();
        if (!a->nqn || is_discovery(a->nqn)) {
                o = add_object(call->result);
                put_text(o, "nqn", NQN_DISCOVERY);
                put_text(o, "subtype", "Discovery");
                put_listeners(put_array(o, "listen_addresses"), &r->config, NULL, false);
                put_bool(o, "allow_any_host", true);
                put_array(o, "hosts");
        }
        for (unsigned i = 0; i < r->config.n_subsystems; i++)
                if (!a->nqn || strcmp(r->config.subsystems[i].nqn, a->nqn) == 0)
                        put_subsystem(call->result, r, &r->config.subsystems[i]);
}

const struct jsonrpc_param rpc_allow_params[] = {
        NQN, PARAM(nvmf, allow_any_host, BOOL, REQUIRED), TARGET, { 0 }
};

METHOD(nvmf_subsystem_allow_any_host)
{
        const struct nvmf *a = args;
        struct config next;
        struct config_subsystem *s = edit(owner, a, &next, call);

        if (!s)
                return;
        s->allow_any_host = a->allow_any_host;
        rpc_commit(owner, &next, JSONRPC_INTERNAL, call);
}

/* --- listeners -------------------------------------------------------------------------------- */

const struct jsonrpc_param rpc_listener_params[] = {
        NQN,
        TARGET,
        ADDRESS,
        PARAM(nvmf, secure_channel, BOOL),
        PARAM(nvmf, ana_state, WORD, .words = ANA_WORDS),
        UNUSED("sock_impl", TEXT),
        UNUSED("numa_id", NUMBER),
        { 0 },
};
const struct jsonrpc_param rpc_unlisten_params[] = { NQN, TARGET, ADDRESS, { 0 } };

static bool is_secure(const struct config_port *p)
{
        return p->treq == TREQ_SECURE_REQUIRED;
}

static struct config_port *add_port(struct config *c, const struct nvmf *a)
{
        struct config_port *p;
        uint16_t id = 1;

        for (unsigned i = 0; i < c->n_ports; i++)
                if (c->ports[i].id == id) {
                        id++;
                        i = UINT32_MAX; /* from the start */
                }
        p = config_add_port(c, id, a->traddr, trsvcid_of(a));
        if (!p)
                return NULL;
        p->trtype = trtype_of(a);
        if (a->secure_channel) {
                p->sectype = SECTYPE_TLS13;
                p->treq = TREQ_SECURE_REQUIRED;
        }
        return p;
}

static bool check_address(const struct rpc *r, const struct nvmf *a, struct jsonrpc_call *call)
{
        const char *trsvcid = trsvcid_of(a);
        char *end;
        unsigned long port = strtoul(trsvcid, &end, 10);

        if (!a->traddr[0] || strlen(a->traddr) >= sizeof(((struct config_port *)0)->traddr))
                jsonrpc_fail(call, JSONRPC_PARAMS,
                             "Invalid parameters: traddr is empty or too long");
        else if (end == trsvcid || *end || port > UINT16_MAX || strlen(trsvcid) > 5)
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: trsvcid is not a port");
        else if (!r->transports[a->trtype])
                jsonrpc_fail(call, JSONRPC_PARAMS,
                             "Invalid parameters: there is no transport %s: nvmf_create_transport",
                             a->trtype == 0 ? "TCP" : "RDMA");
        return call->code == 0;
}

/* Into the list of the port, in the state that is asked for. */
static bool list_at_port(struct config_port *p, const struct nvmf *a)
{
        return config_add_string(&p->subsystems, &p->n_subsystems, a->nqn) &&
               (a->ana_state == 0 || config_ana_set(p, a->nqn, 0, ana_words[a->ana_state].state));
}

METHOD(nvmf_subsystem_add_listener)
{
        struct rpc *r = owner;
        const struct nvmf *a = args;
        bool discovery = is_discovery(a->nqn), there, ok;
        struct config_subsystem *s;
        struct config next;
        struct config_port *p;

        if (!is_here(a, JSONRPC_PARAMS, call) || !check_address(r, a, call))
                return;
        s = discovery ? NULL : subsystem_of(&r->config, a->nqn, call);
        if ((!discovery && !s) || !rpc_edit(r, &next, call))
                return;
        if (a->ana_state != 0 && (!s || !s->ana)) {
                refuse(&next, JSONRPC_PARAMS, "Invalid parameters: ANA reporting is disabled",
                       call);
                return;
        }
        p = find_port(&next, a);
        there = p && (discovery ? p->discovery
                                : config_find_string(p->subsystems, p->n_subsystems, a->nqn) >= 0);
        if (there) {
                refuse(&next, JSONRPC_PARAMS, "Invalid parameters: the listener is there already",
                       call);
                return;
        }
        if (p && is_secure(p) != a->secure_channel) {
                refuse(&next, JSONRPC_PARAMS,
                       "Invalid parameters: others have the address, with another secure_channel",
                       call);
                return;
        }
        if (!p)
                p = add_port(&next, a);
        if (p && discovery)
                p->discovery = true;
        ok = p && (discovery || list_at_port(p, a));
        if (!ok)
                refuse(&next, -ENOMEM, strerror(ENOMEM), call);
        else
                rpc_commit(r, &next, JSONRPC_PARAMS, call);
}

METHOD(nvmf_subsystem_remove_listener)
{
        struct rpc *r = owner;
        const struct nvmf *a = args;
        bool discovery = is_discovery(a->nqn), there;
        struct config next;
        struct config_port *p;
        int at;

        if (!is_here(a, JSONRPC_PARAMS, call) ||
            (!discovery && !subsystem_of(&r->config, a->nqn, call)) || !rpc_edit(r, &next, call))
                return;
        p = find_port(&next, a);
        at = p ? config_find_string(p->subsystems, p->n_subsystems, a->nqn) : -1;
        there = discovery ? p && p->discovery : at >= 0;
        if (!there) {
                refuse(&next, JSONRPC_PARAMS, "Invalid parameters: there is no such listener",
                       call);
                return;
        }
        if (discovery)
                p->discovery = false;
        else
                config_remove_string(p->subsystems, &p->n_subsystems, (unsigned)at);
        if (!discovery)
                config_ana_remove(p, a->nqn);
        drop_idle_ports(&next);
        rpc_commit(r, &next, JSONRPC_INTERNAL, call);
}

METHOD(nvmf_subsystem_get_listeners)
{
        const struct rpc *r = owner;
        const struct nvmf *a = args;

        if (!is_here(a, JSONRPC_PARAMS, call) ||
            (!is_discovery(a->nqn) && !subsystem_of(&r->config, a->nqn, call)))
                return;
        call->result = json_object_new_array();
        put_listeners(call->result, &r->config, is_discovery(a->nqn) ? NULL : a->nqn, true);
}

/* --- namespaces ------------------------------------------------------------------------------- */

static const struct jsonrpc_param namespace[] = {
        PARAM(nvmf, nsid, NUMBER, .max = UINT32_MAX),
        PARAM(nvmf, bdev_name, TEXT, REQUIRED),
        PARAM(nvmf, nguid, TEXT),
        FIXED("eui64", TEXT, 0),
        PARAM(nvmf, uuid, TEXT),
        FIXED("ptpl_file", TEXT, 0),
        PARAM(nvmf, anagrpid, NUMBER, .max = UINT32_MAX),
        PARAM(nvmf, no_auto_visible, BOOL),
        FIXED("hide_metadata", BOOL, false),
        { 0 },
};
const struct jsonrpc_param rpc_add_ns_params[] = {
        NQN,
        { .name = "namespace", .kind = JSONRPC_OBJECT, REQUIRED, .members = namespace },
        TARGET,
        { 0 },
};

static uint32_t free_nsid(const struct config_subsystem *s)
{
        uint32_t nsid = 1;

        while (config_find_ns(s, nsid))
                nsid++;
        return nsid;
}

static bool check_ns(const struct rpc *r, const struct config_subsystem *s, const struct nvmf *a,
                     const struct bdev *b, uint32_t nsid, struct jsonrpc_call *call)
{
        uint32_t most = s->max_namespaces && s->max_namespaces < CTRL_NSID_MAX ? s->max_namespaces
                                                                               : CTRL_NSID_MAX;
        uint8_t id[16];

        if (nsid > most || config_find_ns(s, nsid))
                jsonrpc_fail(call, JSONRPC_PARAMS,
                             "Invalid parameters: nsid %u is in use or too high", nsid);
        else if (!b && !strchr(a->bdev_name, ':'))
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: there is no bdev '%.100s'",
                             a->bdev_name);
        else if (strlen(a->bdev_name) > PATH_MAX)
                jsonrpc_fail(call, JSONRPC_PARAMS,
                             "Invalid parameters: bdev_name is longer than %d bytes", PATH_MAX);
        else if (b && rpc_bdev_claimed(r, b))
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: bdev '%.100s' is in use",
                             a->bdev_name);
        else if (a->nguid && !take_uuid(a->nguid, id))
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid nguid");
        else if (a->uuid && !take_uuid(a->uuid, id))
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: uuid is not a UUID");
        else if (a->anagrpid > ANA_GROUPS)
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: anagrpid is above %u",
                             (unsigned)ANA_GROUPS);
        return call->code == 0;
}

METHOD(nvmf_subsystem_add_ns)
{
        struct rpc *r = owner;
        const struct nvmf *a = args;
        struct bdev *b = rpc_bdev(r, a->bdev_name);
        struct config next;
        struct config_subsystem *s = edit(r, a, &next, call);
        uint32_t nsid = !s ? 0 : a->nsid ? (uint32_t)a->nsid : free_nsid(s);
        char path[sizeof("bdev:") + PATH_MAX];
        struct config_ns *ns;

        if (!s)
                return;
        if (!check_ns(r, s, a, b, nsid, call)) {
                rpc_abandon(&next);
                return;
        }
        snprintf(path, sizeof(path), "%s%s", b ? "bdev:" : "", b ? bdev_name(b) : a->bdev_name);
        ns = config_add_ns(s, nsid, path);
        if (!ns) {
                refuse(&next, -ENOMEM, strerror(ENOMEM), call);
                return;
        }
        ns->bdev = b;
        ns->anagrpid = a->anagrpid ? (uint32_t)a->anagrpid : nsid;
        ns->masked = a->no_auto_visible;
        ns->has_uuid = b || a->uuid;
        ns->has_nguid = b || a->nguid;
        if (b) {
                memcpy(ns->uuid, bdev_uuid(b), sizeof(ns->uuid));
                memcpy(ns->nguid, bdev_uuid(b), sizeof(ns->nguid));
        }
        if (a->uuid)
                take_uuid(a->uuid, ns->uuid);
        if (a->nguid)
                take_uuid(a->nguid, ns->nguid);
        if (rpc_commit(r, &next, JSONRPC_PARAMS, call))
                call->result = json_object_new_int64(nsid);
}

const struct jsonrpc_param rpc_ns_params[] = {
        NQN, PARAM(nvmf, nsid, NUMBER, REQUIRED), TARGET, { 0 }
};

METHOD(nvmf_subsystem_remove_ns)
{
        const struct nvmf *a = args;
        struct config next;
        struct config_subsystem *s = edit(owner, a, &next, call);
        struct config_ns *ns = s ? config_find_ns(s, (uint32_t)a->nsid) : NULL;

        if (!s)
                return;
        if (!ns || a->nsid > UINT32_MAX) {
                refuse(&next, JSONRPC_PARAMS, "Invalid parameters: there is no such namespace",
                       call);
                return;
        }
        config_remove_ns(s, ns);
        rpc_commit(owner, &next, JSONRPC_INTERNAL, call);
}

/* --- whom a namespace is attached to ---------------------------------------------------------- */

const struct jsonrpc_param rpc_ns_host_params[] = {
        NQN, PARAM(nvmf, nsid, NUMBER, REQUIRED), PARAM(nvmf, host, TEXT, REQUIRED), TARGET, { 0 },
};

static const char *wrong_ns_host(const struct nvmf *a, const struct config_ns *ns)
{
        if (strlen(a->host) > NQN_MAX || !nqn_valid(a->host, strlen(a->host) + 1, false))
                return "Invalid parameters: host is not an NQN";
        if (!ns)
                return "Invalid parameters: there is no such namespace";
        return ns->masked ? NULL
                          : "Invalid parameters: the namespace is visible to every host "
                            "(no_auto_visible is not set)";
}

/* False: out of memory. What is so already is no failure. */
static bool set_ns_host(struct config_ns *ns, const char *host, bool visible)
{
        int at = config_find_string(ns->hosts, ns->n_hosts, host);

        if (at >= 0 && !visible)
                config_remove_string(ns->hosts, &ns->n_hosts, (unsigned)at);
        return at >= 0 || !visible || config_add_string(&ns->hosts, &ns->n_hosts, host);
}

static void change_ns_host(struct rpc *r, const struct nvmf *a, bool visible,
                           struct jsonrpc_call *call)
{
        struct config next;
        struct config_subsystem *s = edit(r, a, &next, call);
        struct config_ns *ns =
            s && a->nsid <= UINT32_MAX ? config_find_ns(s, (uint32_t)a->nsid) : NULL;
        const char *wrong = s ? wrong_ns_host(a, ns) : NULL;

        if (!s)
                return;
        if (wrong)
                refuse(&next, JSONRPC_PARAMS, wrong, call);
        else if (!set_ns_host(ns, a->host, visible))
                refuse(&next, -ENOMEM, strerror(ENOMEM), call);
        else
                rpc_commit(r, &next, JSONRPC_INTERNAL, call);
}

METHOD(nvmf_ns_add_host)
{
        change_ns_host(owner, args, true, call);
}

METHOD(nvmf_ns_remove_host)
{
        change_ns_host(owner, args, false, call);
}

const struct jsonrpc_param rpc_ana_group_params[] = {
        NQN,   PARAM(nvmf, nsid, NUMBER, REQUIRED), PARAM(nvmf, anagrpid, NUMBER, REQUIRED), TARGET,
        { 0 },
};

static const char *wrong_group(const struct config_subsystem *s, uint64_t anagrpid)
{
        if (!s->ana)
                return "Invalid parameters: ANA reporting is disabled";
        return anagrpid > ANA_GROUPS ? "Invalid parameters: there is no such ANA group" : NULL;
}

METHOD(nvmf_subsystem_set_ns_ana_group)
{
        const struct nvmf *a = args;
        struct config next;
        struct config_subsystem *s = edit(owner, a, &next, call);
        const char *wrong = s ? wrong_group(s, a->anagrpid) : NULL;
        struct config_ns *ns =
            s && a->nsid <= UINT32_MAX ? config_find_ns(s, (uint32_t)a->nsid) : NULL;

        if (!s)
                return;
        if (!wrong && a->anagrpid == 0)
                wrong = "Invalid parameters: there is no such ANA group";
        if (!wrong && !ns)
                wrong = "Invalid parameters: there is no such namespace";
        if (wrong) {
                refuse(&next, JSONRPC_PARAMS, wrong, call);
                return;
        }
        ns->anagrpid = (uint32_t)a->anagrpid;
        rpc_commit(owner, &next, JSONRPC_INTERNAL, call);
}

const struct jsonrpc_param rpc_ana_state_params[] = {
        NQN,
        ADDRESS,
        PARAM(nvmf, ana_state, WORD, REQUIRED, .words = ANA_WORDS),
        TARGET,
        PARAM(nvmf, anagrpid, NUMBER),
        PARAM(nvmf, transition_ms, NUMBER, .max = CONFIG_ANA_TRANSITION_MAX),
        { 0 },
};

/* Of one group, or, without anagrpid, of all. */
METHOD(nvmf_subsystem_listener_set_ana_state)
{
        const struct nvmf *a = args;
        struct config next;
        struct config_subsystem *s = edit(owner, a, &next, call);
        struct config_port *p = s ? find_port(&next, a) : NULL;
        const char *wrong = s ? wrong_group(s, a->anagrpid) : NULL;

        if (!s)
                return;
        if (!p || config_find_string(p->subsystems, p->n_subsystems, a->nqn) < 0)
                wrong = "Invalid parameters: there is no such listener";
        if (wrong)
                refuse(&next, JSONRPC_PARAMS, wrong, call);
        else if (!config_ana_pass(p, a->nqn, (uint32_t)a->anagrpid, ana_words[a->ana_state].state,
                                  (uint16_t)a->transition_ms))
                refuse(&next, -ENOMEM, strerror(ENOMEM), call);
        else
                rpc_commit(owner, &next, JSONRPC_INTERNAL, call);
}

/* --- hosts ------------------------------------------------------------------------------------ */

const struct jsonrpc_param rpc_host_params[] = {
        NQN,
        PARAM(nvmf, host, TEXT, REQUIRED),
        TARGET,
        PARAM(nvmf, psk, TEXT),
        PARAM(nvmf, dhchap_key, TEXT),
        PARAM(nvmf, dhchap_ctrlr_key, TEXT),
        { 0 },
};
const struct jsonrpc_param rpc_unhost_params[] = {
        NQN, PARAM(nvmf, host, TEXT, REQUIRED), TARGET, UNUSED("timeout_ms", NUMBER), { 0 }
};

/* A key by its name in the keyring, of either form; false: the call has failed. */
static bool load_key(const struct rpc *r, const char *name, auth_parse *parse, struct auth_key *key,
                     char shown[CONFIG_KEY_NAME + 1], struct jsonrpc_call *call)
{
        char value[PATH_ROOM + 1], error[JSONRPC_MESSAGE];

        if (!name)
                return true;
        for (unsigned i = 0; i < r->n_keys; i++) {
                if (strcmp(r->keys[i].name, name) != 0)
                        continue;
                snprintf(value, sizeof(value), "@%s", r->keys[i].path);
                snprintf(shown, CONFIG_KEY_NAME + 1, "%s", name);
                if (auth_option(key, parse, value, error, sizeof(error)) == 0)
                        return true;
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: %s", error);
                return false;
        }
        jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: there is no key '%.63s'", name);
        return false;
}

static bool load_keys(const struct rpc *r, const struct nvmf *a, struct config_host *h,
                      struct jsonrpc_call *call)
{
        if (a->dhchap_ctrlr_key && !a->dhchap_key) {
                jsonrpc_fail(call, JSONRPC_PARAMS,
                             "Invalid parameters: dhchap_ctrlr_key requires dhchap_key");
                return false;
        }
        h->keys.hashes = (uint8_t)r->digests;
        h->keys.groups = (uint8_t)r->groups;
        return load_key(r, a->dhchap_key, auth_key_parse, &h->keys.host, h->key_name, call) &&
               load_key(r, a->dhchap_ctrlr_key, auth_key_parse, &h->keys.ctrl, h->ctrl_key_name,
                        call) &&
               load_key(r, a->psk, tls_key_parse, &h->keys.psk, h->psk_name, call);
}

struct rekeying {
        const struct nvmf *a;
        const struct auth_keys *keys;
};

static void rekey(struct nvme_service *s, void *arg)
{
        const struct rekeying *k = arg;

        ctrl_table_rekey(s->ctrl.table, k->a->host, k->a->nqn, k->keys);
}

/* The associations of the host have the keys of that configuration before it is applied: so they stay. */
static void keep_associations(struct rpc *r, const struct config *c, const struct nvmf *a)
{
        const struct config_subsystem *s = config_find_subsystem(c, a->nqn);

        target_alone(r->target, rekey, &(struct rekeying) { a, config_keys(c, s, a->host) });
}

/* What other keys leave alone. */
static struct config_host psk_of(const struct config_subsystem *s, const char *hostnqn)
{
        struct config_host h = { 0 };

        for (unsigned i = 0; i < s->n_own; i++)
                if (strcmp(s->own[i].nqn, hostnqn) == 0) {
                        h.keys.psk = s->own[i].keys.psk;
                        memcpy(h.psk_name, s->own[i].psk_name, sizeof(h.psk_name));
                }
        return h;
}

/* Adds it, with its keys; the copy is applied or abandoned. */
static void put_host(struct rpc *r, struct config *next, struct config_subsystem *s,
                     const struct nvmf *a, struct jsonrpc_call *call)
{
        struct config_host keys = psk_of(s, a->host), *own = NULL;
        bool ok = load_keys(r, a, &keys, call);
        bool has_some = keys.keys.host.len || keys.keys.psk.len;
        bool known = config_find_string(s->hosts, s->n_hosts, a->host) >= 0;

        config_remove_keys(s, a->host);
        if (ok && has_some && (own = config_add_own(s, a->host)) != NULL) {
                snprintf(keys.nqn, sizeof(keys.nqn), "%s", a->host);
                *own = keys;
        }
        wipe(&keys, sizeof(keys));
        if (!ok)
                rpc_abandon(next);
        else if ((has_some && !own) ||
                 (!known && !config_add_string(&s->hosts, &s->n_hosts, a->host)))
                refuse(next, -ENOMEM, strerror(ENOMEM), call);
        else {
                if (known)
                        keep_associations(r, next, a);
                if (!rpc_commit(r, next, JSONRPC_INTERNAL, call) && known)
                        keep_associations(r, &r->config, a);
        }
}

METHOD(nvmf_subsystem_add_host)
{
        const struct nvmf *a = args;
        struct config next;
        struct config_subsystem *s = edit(owner, a, &next, call);

        if (!s)
                return;
        if (strlen(a->host) > NQN_MAX || !nqn_valid(a->host, strlen(a->host) + 1, false) ||
            config_find_string(s->hosts, s->n_hosts, a->host) >= 0)
                refuse(&next, JSONRPC_INTERNAL,
                       "Internal error: the host is allowed already, or its name is not an NQN",
                       call);
        else
                put_host(owner, &next, s, a, call);
}

METHOD(nvmf_subsystem_remove_host)
{
        const struct nvmf *a = args;
        struct config next;
        struct config_subsystem *s = edit(owner, a, &next, call);

        if (s && config_remove_host(s, a->host))
                rpc_commit(owner, &next, JSONRPC_INTERNAL, call);
        else if (s)
                refuse(&next, JSONRPC_INTERNAL, "Internal error: the host is not in the list",
                       call);
}

METHOD(nvmf_subsystem_set_keys)
{
        const struct nvmf *a = args;
        struct config next;
        struct config_subsystem *s = edit(owner, a, &next, call);

        if (s && config_find_string(s->hosts, s->n_hosts, a->host) >= 0)
                put_host(owner, &next, s, a, call);
        else if (s)
                refuse(&next, -EINVAL, "The host is not in the list", call);
}

/* --- referrals -------------------------------------------------------------------------------- */

const struct jsonrpc_param rpc_referral_params[] = {
        TARGET,
        { .name = "address", .kind = JSONRPC_OBJECT, REQUIRED, .members = address },
        FIXED("secure_channel", BOOL, false),
        PARAM(nvmf, subnqn, TEXT),
        { 0 },
};
const struct jsonrpc_param rpc_target_params[] = { TARGET, { 0 } };

/* "": a discovery service. */
static const char *subnqn_of(const struct nvmf *a)
{
        return a->subnqn && !is_discovery(a->subnqn) ? a->subnqn : "";
}

static int find_referral(const struct config_port *p, const struct nvmf *a)
{
        for (unsigned i = 0; i < p->n_referrals; i++)
                if (p->referrals[i].trtype == trtype_of(a) &&
                    strcmp(p->referrals[i].traddr, a->traddr) == 0 &&
                    strcmp(p->referrals[i].trsvcid, trsvcid_of(a)) == 0 &&
                    strcmp(p->referrals[i].subnqn, subnqn_of(a)) == 0)
                        return (int)i;
        return -1;
}

static const char *name_of(const struct config_referral *ref)
{
        return ref->subnqn[0] ? ref->subnqn : NQN_DISCOVERY;
}

static bool check_referral(const struct nvmf *a, struct jsonrpc_call *call)
{
        const char *nqn = subnqn_of(a);

        if (strlen(nqn) > NQN_MAX)
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid subsystem NQN");
        else if (strlen(a->traddr) >= sizeof(((struct config_referral *)0)->traddr) ||
                 strlen(trsvcid_of(a)) >= sizeof(((struct config_referral *)0)->trsvcid) ||
                 !a->traddr[0])
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: the address is too long");
        else if (!trsvcid_of(a)[0])
                jsonrpc_fail(call, JSONRPC_INTERNAL, "Service ID is required.");
        else if (nqn[0] && !nqn_valid(nqn, strlen(nqn) + 1, false))
                jsonrpc_fail(call, JSONRPC_INTERNAL, "Internal error: subnqn is not an NQN");
        return call->code == 0 && is_here(a, JSONRPC_INTERNAL, call);
}

/* With the same configuration, but for what all ports share. */
static void apply_referrals(struct rpc *r, struct jsonrpc_call *call)
{
        struct config next;

        if (rpc_edit(r, &next, call))
                rpc_commit(r, &next, JSONRPC_INTERNAL, call);
}

METHOD(nvmf_discovery_add_referral)
{
        struct rpc *r = owner;
        const struct nvmf *a = args;
        struct config_referral *ref;

        if (!check_referral(a, call) || find_referral(&r->shared, a) >= 0)
                return; /* one that is there is no failure */
        ref = r->shared.n_referrals < REFERRALS_MAX ? config_add_referral(&r->shared) : NULL;
        if (!ref) {
                jsonrpc_fail(call, JSONRPC_INTERNAL, "Internal error: too many referrals");
                return;
        }
        ref->enable = true;
        ref->trtype = trtype_of(a);
        ref->adrfam = strchr(a->traddr, ':') ? ADRFAM_IPV6 : ADRFAM_IPV4;
        strcpy(ref->traddr, a->traddr);
        strcpy(ref->trsvcid, trsvcid_of(a));
        strcpy(ref->subnqn, subnqn_of(a));
        apply_referrals(r, call);
}

METHOD(nvmf_discovery_remove_referral)
{
        struct rpc *r = owner;
        const struct nvmf *a = args;
        int at;

        if (!check_referral(a, call))
                return;
        at = find_referral(&r->shared, a);
        if (at < 0) {
                jsonrpc_fail(call, JSONRPC_INTERNAL, "Unable to remove a referral.");
                return;
        }
        config_remove_referral(&r->shared, (unsigned)at);
        apply_referrals(r, call);
}

METHOD(nvmf_discovery_get_referrals)
{
        const struct rpc *r = owner;

        if (!is_here(args, JSONRPC_INTERNAL, call))
                return;
        call->result = json_object_new_array();
        for (unsigned i = 0; i < r->shared.n_referrals; i++) {
                const struct config_referral *ref = &r->shared.referrals[i];
                struct json_object *o = add_object(call->result);

                put_address(put_object(o, "address"), ref->trtype, ref->traddr, ref->trsvcid);
                put_bool(o, "secure_channel", false);
                put_text(o, "subnqn", name_of(ref));
        }
}

/* --- saving ----------------------------------------------------------------------------------- */

static void save_address(struct json_object *p, const char *name, uint8_t trtype,
                         const char *traddr, const char *trsvcid)
{
        put_address(put_object(p, name), trtype, traddr, trsvcid);
}

static void save_hosts(struct json_object *into, const struct config_subsystem *s)
{
        for (unsigned i = 0; i < s->n_hosts; i++) {
                struct json_object *p = add_call(into, "nvmf_subsystem_add_host");

                put_text(p, "nqn", s->nqn);
                put_text(p, "host", s->hosts[i]);
                for (unsigned k = 0; k < s->n_own; k++) {
                        if (strcmp(s->own[k].nqn, s->hosts[i]) != 0)
                                continue;
                        put_keys(p, &s->own[k]);
                        if (s->own[k].psk_name[0])
                                put_text(p, "psk", s->own[k].psk_name);
                }
        }
}

static void save_ns_hosts(struct json_object *into, const char *nqn, const struct config_ns *ns)
{
        for (unsigned i = 0; i < ns->n_hosts; i++) {
                struct json_object *p = add_call(into, "nvmf_ns_add_host");

                put_text(p, "nqn", nqn);
                put_number(p, "nsid", ns->nsid);
                put_text(p, "host", ns->hosts[i]);
        }
}

static void save_namespaces(struct json_object *into, const struct config_subsystem *s)
{
        for (unsigned i = 0; i < s->n_ns; i++) {
                const struct config_ns *ns = &s->ns[i];
                struct json_object *p, *o;

                if (!ns->enable)
                        continue;
                p = add_call(into, "nvmf_subsystem_add_ns");
                put_text(p, "nqn", s->nqn);
                o = put_object(p, "namespace");
                put_number(o, "nsid", ns->nsid);
                put_text(o, "bdev_name", bdev_name_of(ns));
                if (ns->has_nguid)
                        put_hex(o, "nguid", ns->nguid, sizeof(ns->nguid));
                if (ns->has_uuid)
                        put_uuid(o, "uuid", ns->uuid);
                if (s->ana)
                        put_number(o, "anagrpid", config_ana_group(ns));
                put_bool(o, "no_auto_visible", ns->masked);
                save_ns_hosts(into, s->nqn, ns);
        }
}

static void save_ana(struct json_object *into, const struct config_port *port,
                     const struct config_subsystem *s)
{
        uint32_t last = last_group(port, s);
        struct ana_states states;

        config_ana_states(port, s->nqn, &states);
        for (uint32_t g = 1; s->ana && g <= last; g++) {
                struct json_object *p;

                if (states.of[g] == ANA_OPTIMIZED)
                        continue;
                p = add_call(into, "nvmf_subsystem_listener_set_ana_state");
                put_text(p, "nqn", s->nqn);
                save_address(p, "listen_address", port->trtype, port->traddr, port->trsvcid);
                put_text(p, "ana_state", ana_word(states.of[g]));
                put_number(p, "anagrpid", g);
        }
}

static void save_subsystem(struct json_object *into, const struct rpc *r,
                           const struct config_subsystem *s)
{
        struct json_object *p = add_call(into, "nvmf_create_subsystem");

        put_text(p, "nqn", s->nqn);
        put_bool(p, "allow_any_host", s->allow_any_host);
        if (s->ana)
                put_bool(p, "ana_reporting", true);
        if (s->serial[0])
                put_text(p, "serial_number", s->serial);
        if (s->model[0])
                put_text(p, "model_number", s->model);
        if (s->max_namespaces)
                put_number(p, "max_namespaces", s->max_namespaces);
        put_number(p, "min_cntlid", s->cntlid_min ? s->cntlid_min : CNTLID_MIN);
        put_number(p, "max_cntlid", s->cntlid_max ? s->cntlid_max : CNTLID_MAX);
        save_hosts(into, s);
        save_namespaces(into, s);
        for (unsigned i = 0; i < r->config.n_ports; i++) {
                const struct config_port *port = &r->config.ports[i];

                if (config_find_string(port->subsystems, port->n_subsystems, s->nqn) < 0)
                        continue;
                p = add_call(into, "nvmf_subsystem_add_listener");
                put_text(p, "nqn", s->nqn);
                save_address(p, "listen_address", port->trtype, port->traddr, port->trsvcid);
                put_bool(p, "secure_channel", is_secure(port));
                save_ana(into, port, s);
        }
}

void rpc_save_nvmf(const struct rpc *r, struct json_object *into)
{
        struct json_object *p;

        rpc_save_target(r, into);
        rpc_save_transports(r, into);
        for (unsigned i = 0; i < r->shared.n_referrals; i++) {
                const struct config_referral *ref = &r->shared.referrals[i];

                p = add_call(into, "nvmf_discovery_add_referral");
                save_address(p, "address", ref->trtype, ref->traddr, ref->trsvcid);
                put_bool(p, "secure_channel", false);
                put_text(p, "subnqn", name_of(ref));
        }
        for (unsigned i = 0; i < r->config.n_ports; i++)
                if (r->config.ports[i].discovery) {
                        p = add_call(into, "nvmf_subsystem_add_listener");
                        put_text(p, "nqn", NQN_DISCOVERY);
                        save_address(p, "listen_address", r->config.ports[i].trtype,
                                     r->config.ports[i].traddr, r->config.ports[i].trsvcid);
                        put_bool(p, "secure_channel", is_secure(&r->config.ports[i]));
                }
        for (unsigned i = 0; i < r->config.n_subsystems; i++)
                save_subsystem(into, r, &r->config.subsystems[i]);
        rpc_save_faults(r, into);
        rpc_save_trace(r, into);
}
