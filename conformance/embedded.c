/* SPDX-License-Identifier: BSD-3-Clause */
#include "embedded.h"

#include <string.h>

#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "target/config.h"

/* A second subsystem, which none of our hosts may use. */
#define DENIED_NQN "nqn.2026-01.io.nvmfspec:denied"
#define OTHER_HOST "nqn.2026-01.io.nvmfspec:a-host-that-is-not-here"
#define AUTH_NQN   "nqn.2026-01.io.nvmfspec:authenticated"
/* What comes and goes. */
#define GUEST_NQN "nqn.2026-01.io.nvmfspec:guest"
#define GUEST_NS  "mem:1M"

/* One that is used as it stands, and one that is tied to an NQN. */
static const struct auth_key host_key = { .hash = AUTH_SHA256, .len = 32, .bytes = "the host's" };
static const struct auth_key ctrl_key = { .len = 48, .bytes = "the subsystem's" };

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

/* A third one, which has a key with them. */
static bool add_authenticated(struct config *c, const struct nvme_args *a)
{
        struct config_subsystem *s = config_add_subsystem(c, AUTH_NQN);

        if (!s || !config_add_ns(s, 1, "mem:1M"))
                return false;
        s->allow_any_host = true;
        s->keys = keys_of(a);
        return true;
}

static bool add_port(struct config *c, uint8_t trtype)
{
        struct config_port *p = config_add_port(c, 1, "127.0.0.1", "0");

        if (p)
                p->trtype = trtype;
        return p && config_add_string(&p->subsystems, &p->n_subsystems, TARGET_NQN) &&
               config_add_string(&p->subsystems, &p->n_subsystems, DENIED_NQN) &&
               (!auth_openssl() || config_add_string(&p->subsystems, &p->n_subsystems, AUTH_NQN));
}

static bool make_config(struct config *c, const struct embedded *e, char *error, size_t size)
{
        const struct nvme_args *a = e->args;

        *c = (struct config) { 0 };
        if (add_tested(c, a, e->changed[CHANGE_NAMESPACES]) && add_denied(c) &&
            (!auth_openssl() || add_authenticated(c, a)) &&
            add_port(c, over_rdma(a) ? TRTYPE_RDMA : TRTYPE_TCP) &&
            (!e->changed[CHANGE_DISCOVERY] || add_guest(c)))
                return config_check(c, "embedded target", error, size);
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

/* So short that cases about them are soon over; a Write needs several H2CData. */
static struct target_limits limits_of(const struct nvme_args *a)
{
        struct target_limits l = a->limits;

        l.ic_timeout = l.ic_timeout ?: 1500;
        l.maxh2cdata = l.maxh2cdata ?: 65536;
        l.receives = l.receives ?: RECEIVES;
        return l;
}

bool embedded_start(struct embedded *e, const struct nvme_args *a, const struct rule_policy *policy,
                    char *error, size_t size)
{
        struct config config;
        struct target_options t = {
                .serve = &config,
                .reactors = 1,
                .cpda = (uint8_t)a->cpda,
                .quiet = true,
                .policy = *policy,
                .limits = limits_of(a),
        };

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
        p->auth = auth_openssl() ? AUTH_NQN : NULL;
        p->dhchap = keys.host;
        p->dhchap_ctrl = keys.ctrl;
        p->may_write = true;
        p->changer = (struct changer) { make_change, e };
}
