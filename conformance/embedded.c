/* SPDX-License-Identifier: BSD-3-Clause */
#include "embedded.h"

#include <string.h>

#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "target/nvme/config.h"

/* A second subsystem, which none of our hosts may use. */
#define DENIED_NQN  "nqn.2026-01.io.nvmfspec:denied"
#define OTHER_HOST  "nqn.2026-01.io.nvmfspec:a-host-that-is-not-here"
#define AUTH_NQN    "nqn.2026-01.io.nvmfspec:authenticated"
#define STATIC_NQN  "nqn.2026-01.io.nvmfspec:static"
#define ANA_NQN     "nqn.2026-01.io.nvmfspec:ana"
#define WHOLE_NQN   "nqn.2026-01.io.nvmfspec:whole"
#define ADMIN_NQN   "nqn.2026-01.io.nvmfspec:administrative"
#define LIMITED_NQN "nqn.2026-01.io.nvmfspec:limited"
#define FORMATS_NQN "nqn.2026-01.io.nvmfspec:formats"
#define MASKED_NQN  "nqn.2026-01.io.nvmfspec:masked"
/* What comes and goes. */
#define GUEST_NQN "nqn.2026-01.io.nvmfspec:guest"
#define GUEST_NS  "mem:1M"

enum { MASKED_NSID = 2 };

/* One that is used as it stands, and one that is tied to an NQN. */
static const struct auth_key host_key = { .hash = AUTH_SHA256, .len = 32, .bytes = "the host's" };
static const struct auth_key ctrl_key = { .len = 48, .bytes = "the subsystem's" };

static const struct auth_key tls_psk = { .hash = AUTH_SHA256, .len = 32, .bytes = "for TLS" };

/* Other hosts that have a PSK of their own: as it stands, tied to their NQN by either hash, of either length;
 * and one whose checksum was wrong, which was not taken. */
static const struct tls_host tls_hosts[] = {
        { .nqn = "nqn.2026-01.io.nvmfspec:psk-00",
          .key = { .len = 32, .bytes = "for one host, as is" } },
        { .nqn = "nqn.2026-01.io.nvmfspec:psk-01",
          .key = { .hash = AUTH_SHA256, .len = 48, .bytes = "for one, by SHA-256" } },
        { .nqn = "nqn.2026-01.io.nvmfspec:psk-02",
          .key = { .hash = AUTH_SHA384, .len = 32, .bytes = "for one, by SHA-384" } },
        { .nqn = "nqn.2026-01.io.nvmfspec:psk-spoilt",
          .key = { .hash = AUTH_SHA256, .len = 32, .bytes = "for nobody", .spoilt = true } },
};
enum { HOSTS = sizeof(tls_hosts) / sizeof(tls_hosts[0]) };

enum { PSK_LIFETIME = 3000 }; /* ms: a case waits for it */

enum { RECEIVES = 65536 }; /* on one SRQ: enough for any number of jobs */

static bool over_rdma(const struct nvme_args *a)
{
        return strcmp(a->o.suite.transport, "rdma") == 0;
}

static struct auth_keys keys_of(const struct nvme_args *a)
{
        if (a->keyed)
                return (struct auth_keys) { .host = a->peer.dhchap, .ctrl = a->peer.dhchap_ctrl };
        return (struct auth_keys) { .host = host_key, .ctrl = ctrl_key };
}

/* Hosts without TLS are served, too, unless --tls-key has it otherwise. */
static struct nvme_tls tls_of(const struct nvme_args *a)
{
        if (a->peer.tls_always || over_rdma(a) || !auth_openssl())
                return a->peer.tls;
        return (struct nvme_tls) { .key = tls_psk };
}

static bool add_tls_hosts(struct config *c, struct config_subsystem *s)
{
        for (unsigned i = 0; i < HOSTS && auth_openssl(); i++) {
                struct config_host *h = config_add_own(s, tls_hosts[i].nqn);

                if (!h || !config_add_string(&s->hosts, &s->n_hosts, tls_hosts[i].nqn) ||
                    (!config_find_host(c, tls_hosts[i].nqn) &&
                     !config_add_host(c, tls_hosts[i].nqn)))
                        return false;
                h->keys = s->keys;
                h->keys.psk = tls_hosts[i].key;
        }
        return true;
}

static bool add_tested(struct config *c, const struct nvme_args *a, bool guest)
{
        const char *const *ns = a->ns.items;
        struct config_subsystem *s = config_add_subsystem(c, TARGET_NQN);
        uint32_t nsid = 0;

        if (!s)
                return false;
        s->allow_any_host = true;
        if (a->keyed)
                s->keys = keys_of(a);
        if (!add_tls_hosts(c, s))
                return false;
        while (*ns)
                if (!config_add_ns(s, ++nsid, *ns++))
                        return false;
        return !guest || config_add_ns(s, ++nsid, GUEST_NS);
}

static bool add_guest(struct config *c)
{
        struct config_subsystem *s = config_add_subsystem(c, GUEST_NQN);

        if (s)
                s->allow_any_host = true;
        return s && config_add_string(&c->ports->subsystems, &c->ports->n_subsystems, GUEST_NQN);
}

static bool add_denied(struct config *c)
{
        struct config_subsystem *s = config_add_subsystem(c, DENIED_NQN);

        if (!s || !config_add_host(c, OTHER_HOST))
                return false;
        s->allow_any_host = false;
        return config_add_string(&s->hosts, &s->n_hosts, OTHER_HOST);
}

/* One whose controllers can be asked for. */
static bool add_static(struct config *c)
{
        struct config_subsystem *s = config_add_subsystem(c, STATIC_NQN);

        if (!s)
                return false;
        s->allow_any_host = s->fixed = true;
        return true;
}

/* Who has a PSK that is configured has no other: that of the run, or (see tcp/tls) of the tested subsystem. */
static enum target_concat concat_of(const struct nvme_args *a)
{
        bool configured = a->peer.tls_always || a->peer.dhchap.len > 0;

        return configured || over_rdma(a) || !auth_openssl() ? CONCAT_OFF : CONCAT_PERMITTED;
}

/* One that can be reset and shut down as a whole. */
static bool add_whole(struct config *c)
{
        struct config_subsystem *s = config_add_subsystem(c, WHOLE_NQN);

        if (!s || !config_add_ns(s, 1, GUEST_NS) || !config_add_ns(s, 2, GUEST_NS))
                return false;
        s->allow_any_host = s->whole = true;
        return true;
}

/* One with formats that hosts have to enable. */
static bool add_formats(struct config *c)
{
        static const char *const ns[] = { "mem:1M,bs=4096,ms=16,pi=1,guard=32,sts=24",
                                          "mem:1M,bs=4096,ms=16,pi=2,guard=64,sts=18",
                                          "mem:1M,ms=8,pi=1,sts=8",
                                          "mem:1M,bs=4096,ms=16,pi=3,guard=64", GUEST_NS };
        struct config_subsystem *s = config_add_subsystem(c, FORMATS_NQN);

        if (!s)
                return false;
        for (uint32_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++)
                if (!config_add_ns(s, i + 1, ns[i]))
                        return false;
        s->allow_any_host = s->whole = true;
        return true;
}

/* One whose second namespace another host has, and none of ours. Lists that end too early have it still. */
static bool add_masked(struct config *c, bool larger)
{
        struct config_subsystem *s = config_add_subsystem(c, MASKED_NQN);
        struct config_ns *ns;

        if (!s || !config_add_ns(s, 1, GUEST_NS) || !config_add_ns(s, 3, GUEST_NS) ||
            !config_add_ns(s, 4, GUEST_NS))
                return false;
        s->allow_any_host = true;
        ns = config_add_ns(s, MASKED_NSID, larger ? "mem:2M" : GUEST_NS);
        if (ns)
                ns->masked = true;
        return ns && config_add_string(&ns->hosts, &ns->n_hosts, OTHER_HOST);
}

/* One without I/O queues. */
static bool add_administrative(struct config *c)
{
        struct config_subsystem *s = config_add_subsystem(c, ADMIN_NQN);

        if (s)
                s->allow_any_host = s->administrative = true;
        return s;
}

/* One whose commands may not be large. */
static bool add_limited(struct config *c)
{
        struct config_subsystem *s = config_add_subsystem(c, LIMITED_NQN);

        if (!s || !config_add_ns(s, 1, GUEST_NS))
                return false;
        s->allow_any_host = s->limited = true;
        return true;
}

/* A third one, which has a key with them. */
static bool add_authenticated(struct config *c, const struct nvme_args *a)
{
        struct config_subsystem *s = config_add_subsystem(c, AUTH_NQN);

        if (!s || !config_add_ns(s, 1, "mem:1M"))
                return false;
        s->allow_any_host = true;
        s->keys = keys_of(a);
        return add_tls_hosts(c, s);
}

/*
 * Its namespaces 1 to 5 are in the groups of these numbers, one in each state. Of group 6 the state
 * changes, group 7 is lost now and then, and namespace 8 goes from group 1 to 2 and back.
 */
static bool add_ana(struct config *c, const bool changed[CHANGES])
{
        static const uint8_t states[] = { ANA_OPTIMIZED, ANA_NONOPTIMIZED, ANA_INACCESSIBLE,
                                          ANA_PERSISTENT_LOSS, ANA_CHANGE };
        struct config_subsystem *s = config_add_subsystem(c, ANA_NQN);
        bool ana = changed[CHANGE_ANA], ok = s;

        for (uint32_t nsid = 1; ok && nsid <= 8u + changed[CHANGE_NAMESPACES]; nsid++) {
                struct config_ns *ns = config_add_ns(s, nsid, GUEST_NS);

                ok = ns;
                if (ns)
                        ns->anagrpid = nsid < 8 ? nsid : 1u + changed[CHANGE_ANA_GROUP];
        }
        if (s)
                s->ana = s->allow_any_host = true;
        for (uint32_t g = 1; ok && g <= sizeof(states); g++)
                ok = config_ana_set(c->ports, ANA_NQN, g, states[g - 1]);
        return ok &&
               config_ana_set(c->ports, ANA_NQN, 6, ana ? ANA_NONOPTIMIZED : ANA_INACCESSIBLE) &&
               config_ana_set(c->ports, ANA_NQN, 7, ana ? ANA_OPTIMIZED : ANA_PERSISTENT_LOSS);
}

static bool add_port(struct config *c, uint8_t trtype)
{
        struct config_port *p = config_add_port(c, 1, "127.0.0.1", "0");

        if (p)
                p->trtype = trtype;
        return p && config_add_string(&p->subsystems, &p->n_subsystems, TARGET_NQN) &&
               config_add_string(&p->subsystems, &p->n_subsystems, DENIED_NQN) &&
               config_add_string(&p->subsystems, &p->n_subsystems, STATIC_NQN) &&
               config_add_string(&p->subsystems, &p->n_subsystems, LIMITED_NQN) &&
               config_add_string(&p->subsystems, &p->n_subsystems, ADMIN_NQN) &&
               config_add_string(&p->subsystems, &p->n_subsystems, ANA_NQN) &&
               config_add_string(&p->subsystems, &p->n_subsystems, WHOLE_NQN) &&
               config_add_string(&p->subsystems, &p->n_subsystems, FORMATS_NQN) &&
               config_add_string(&p->subsystems, &p->n_subsystems, MASKED_NQN) &&
               (!auth_openssl() || config_add_string(&p->subsystems, &p->n_subsystems, AUTH_NQN));
}

static bool add_faults(struct config *c, const struct nvme_args *a, char *error, size_t size)
{
        for (size_t i = 0; i < a->faults.count; i++)
                if (!config_add_fault(c, a->faults.items[i], error, size))
                        return false;
        return true;
}

static bool make_config(struct config *c, const struct embedded *e, char *error, size_t size)
{
        const struct nvme_args *a = e->args;

        *c = (struct config) { 0 };
        if (add_tested(c, a, e->changed[CHANGE_NAMESPACES]) && add_denied(c) && add_static(c) &&
            add_whole(c) && add_formats(c) && add_limited(c) && add_administrative(c) &&
            add_masked(c, e->changed[CHANGE_MASKED]) &&
            (!auth_openssl() || add_authenticated(c, a)) &&
            add_port(c, over_rdma(a) ? TRTYPE_RDMA : TRTYPE_TCP) && add_ana(c, e->changed) &&
            (!e->changed[CHANGE_DISCOVERY] || add_guest(c)))
                return add_faults(c, a, error, size) &&
                       config_check(c, "embedded target", error, size);
        snprintf(error, size, "out of memory");
        return false;
}

/* Too few receives (RDMA_CREDITS broken) would be lost in a shared receive queue. */
static bool make_fabric(struct embedded *e, const struct rule_policy *policy)
{
        struct memory_caps caps;

        memory_caps_default(&caps);
        caps.no_padding = true;
        caps.device.srq_wrs = RECEIVES;
        if (rule_in(&policy->violated, RDMA_CREDITS))
                caps.device.srq_wrs = 0;
        e->verbs = verbs_memory_new(&caps);
        return e->verbs;
}

static void free_fabric(struct embedded *e)
{
        if (e->verbs)
                verbs_memory_free(e->verbs);
        e->verbs = NULL;
}

/* A slow machine has twice as long: the case waits for all of it. */
static unsigned lifetime_of(const struct nvme_args *a)
{
        return a->o.suite.timeout_scale > 1 ? 2 * PSK_LIFETIME : PSK_LIFETIME;
}

/* A slow machine has as much longer as cases wait for its end. Who goes on with a handshake without a PSK waits for
 * its end longer than the case does. */
static unsigned ic_timeout_of(const struct nvme_args *a, const struct rule_policy *policy)
{
        double scale = a->o.suite.timeout_scale;

        return rule_in(&policy->violated, TLS_PSK_NEEDED)
                   ? 60000
                   : (unsigned)(3000 * (scale > 1 ? scale : 1));
}

/* So short that cases about them are soon over; a Write needs several H2CData. */
static struct target_limits limits_of(const struct nvme_args *a, const struct rule_policy *policy)
{
        struct target_limits l = a->limits;

        target_limits_fill(&l, &a->profile.limits);
        l.ic_timeout = l.ic_timeout ?: ic_timeout_of(a, policy);
        l.maxh2cdata = l.maxh2cdata ?: 65536;
        l.receives = l.receives ?: RECEIVES;
        l.psk_lifetime = l.psk_lifetime ?: lifetime_of(a);
        return l;
}

/* As it is called so, and strict unless that says otherwise. */
static struct target_options options_of(const struct nvme_args *a, const struct rule_policy *policy)
{
        struct target_options t = {
                .reactors = 1,
                .cpda = (uint8_t)a->cpda,
                .quiet = true,
                .tls = tls_of(a),
                .tls_required = a->peer.tls_always,
                .concat = concat_of(a),
                .policy = *policy,
                .limits = limits_of(a, policy),
        };

        target_profile_fill(&t, &a->profile);
        t.rigour = t.rigour ? t.rigour : RIGOUR_STRICT;
        return t;
}

bool embedded_start(struct embedded *e, const struct nvme_args *a, const struct rule_policy *policy,
                    char *error, size_t size)
{
        struct config config;
        struct target_options t = options_of(a, policy);

        t.serve = &config;
        *e = (struct embedded) { .args = a };
        if (over_rdma(a) && !make_fabric(e, policy)) {
                snprintf(error, size, "out of memory");
                return false;
        }
        t.verbs = e->verbs;
        e->target = make_config(&config, e, error, size) ? target_start(&t, error, size) : NULL;
        config_free(&config);
        if (!e->target) {
                free_fabric(e);
                return false;
        }
        snprintf(e->trsvcid, sizeof(e->trsvcid), "%u", target_trsvcid(e->target));
        return true;
}

void embedded_stop(struct embedded *e)
{
        target_stop(e->target);
        free_fabric(e);
}

static int make_change(void *user, enum change what, char *error, size_t size)
{
        struct embedded *e = user;
        struct config config;
        int rc = -1;

        e->changed[what] = !e->changed[what];
        if (make_config(&config, e, error, size))
                rc = target_change(e->target, &config, error, size);
        config_free(&config);
        return rc;
}

void embedded_address(struct embedded *e, struct suite *s)
{
        const struct auth_keys keys = keys_of(e->args);
        struct peer *p = s->peer;

        s->traddr = "127.0.0.1";
        s->verbs = e->verbs;
        s->trsvcid = e->trsvcid;
        p->subnqn = TARGET_NQN;
        p->denied = DENIED_NQN;
        p->statics = STATIC_NQN;
        p->ana = ANA_NQN;
        p->expendable = WHOLE_NQN;
        p->formats = FORMATS_NQN;
        p->limited = LIMITED_NQN;
        p->administrative = ADMIN_NQN;
        p->masked = MASKED_NQN;
        p->masked_nsid = MASKED_NSID;
        p->auth = auth_openssl() ? AUTH_NQN : NULL;
        p->dhchap = keys.host;
        p->dhchap_ctrl = keys.ctrl;
        p->tls = tls_of(e->args);
        p->tls_each_hash = true;
        p->n_tls_hosts = over_rdma(e->args) || !auth_openssl() ? 0 : HOSTS;
        memcpy(p->tls_hosts, tls_hosts, sizeof(tls_hosts));
        p->psk_lifetime = e->args->limits.psk_lifetime ?: lifetime_of(e->args);
        p->may_write = p->every_ns = true;
        p->changer = (struct changer) { make_change, e };
}
