/* SPDX-License-Identifier: BSD-3-Clause */
#include "subsystem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/wipe.h"
#include "target/nvme/ns_hosts.h"

const char *subsystem_state_name(enum subsystem_state state)
{
        static const char *const names[SUBSYSTEM_STATES] = { "active", "pausing", "paused" };

        return names[state];
}

void inventory_init(struct inventory *inv)
{
        *inv = (struct inventory) { 0 };
        pthread_rwlock_init(&inv->lock, NULL);
}

void inventory_fini(struct inventory *inv)
{
        while (inv->ports) {
                struct port *p = inv->ports;

                inventory_remove_port(inv, p);
                port_put(p);
        }
        while (inv->subsystems) {
                struct subsystem *s = inv->subsystems;

                inventory_remove_subsystem(inv, s);
                subsystem_put(s);
        }
        pthread_rwlock_destroy(&inv->lock);
}

/* --- look-ups --------------------------------------------------------------------------------- */

struct subsystem *port_subsystem(const struct port *p, const char *nqn)
{
        for (struct port_subsystem *ps = p->subsystems; ps; ps = ps->next)
                if (strcmp(ps->subsystem->nqn, nqn) == 0)
                        return ps->subsystem;
        return NULL;
}

static const struct host_entry *find_host(const struct subsystem *s, const char *hostnqn)
{
        const struct host_entry *h = s->hosts;

        while (h && strcmp(h->nqn, hostnqn) != 0)
                h = h->next;
        return h;
}

bool subsystem_allows(const struct subsystem *s, const char *hostnqn)
{
        return s->allow_any_host || find_host(s, hostnqn);
}

const struct auth_keys *subsystem_keys(const struct subsystem *s, const char *hostnqn)
{
        const struct host_entry *h = find_host(s, hostnqn);

        return h ? &h->keys : &s->keys;
}

struct ns *ns_find(const struct subsystem *s, uint32_t nsid)
{
        struct ns *ns = atomic_load_explicit(&s->ns, memory_order_acquire);

        while (ns && ns->nsid < nsid)
                ns = atomic_load_explicit(&ns->next, memory_order_acquire);
        return ns && ns->nsid == nsid ? ns : NULL;
}

struct ns *subsystem_ns(const struct subsystem *s, uint32_t nsid)
{
        return ns_find(s, nsid);
}

bool subsystem_is_extended(const struct subsystem *s)
{
        for (const struct ns *ns = atomic_load(&s->ns); ns; ns = atomic_load(&ns->next)) {
                const struct pi_format f = ns_pi(ns);

                if (pi_is_extended(&f))
                        return true;
        }
        return false;
}

bool ns_has_controller(const struct ns *ns, uint16_t cntlid)
{
        return ns_is_flipped(ns, cntlid) == nvme_ns(ns)->made;
}

bool ns_is_attached(const struct ns *ns, const char *hostnqn, uint16_t cntlid)
{
        return ns_has_controller(ns, cntlid) &&
               ns_hosts_has(atomic_load_explicit(&nvme_ns(ns)->hosts, memory_order_acquire),
                            hostnqn);
}

struct ns *ns_attached(const struct subsystem *s, uint32_t nsid, const char *hostnqn,
                       uint16_t cntlid)
{
        struct ns *ns = ns_find(s, nsid);

        return ns && ns_is_attached(ns, hostnqn, cntlid) ? ns : NULL;
}

struct ns *ns_attached_from(struct ns *ns, const char *hostnqn, uint16_t cntlid)
{
        while (ns && !ns_is_attached(ns, hostnqn, cntlid))
                ns = atomic_load_explicit(&ns->next, memory_order_acquire);
        return ns;
}

struct subsystem *inventory_subsystem(const struct inventory *inv, const char *nqn)
{
        struct subsystem *s = inv->subsystems;

        while (s && strcmp(s->nqn, nqn) != 0)
                s = s->next;
        return s;
}

struct port *inventory_port(const struct inventory *inv, uint16_t id)
{
        struct port *p = inv->ports;

        while (p && p->id != id)
                p = p->next;
        return p;
}

/* --- references ------------------------------------------------------------------------------- */

struct subsystem *subsystem_get(struct subsystem *s)
{
        atomic_fetch_add(&s->refs, 1);
        return s;
}

void subsystem_put(struct subsystem *s)
{
        if (atomic_fetch_sub(&s->refs, 1) > 1)
                return;
        for (struct ns *ns = s->ns, *next; ns; ns = next) {
                next = ns->next;
                ns_put(ns);
        }
        for (struct ns *ns = s->graves, *next; ns; ns = next) {
                next = nvme_ns(ns)->grave;
                ns_put(ns);
        }
        hosts_clear(&s->hosts);
        wipe(&s->keys, sizeof(s->keys));
        pel_fini(&s->pel);
        pthread_mutex_destroy(&s->features.lock);
        free(s->features.performance);
        free(s);
}

void subsystem_hurry(struct subsystem *s)
{
        for (struct ns *ns = s->ns; ns; ns = ns->next)
                ns_hurry(ns);
}

struct port *port_get(struct port *p)
{
        atomic_fetch_add(&p->refs, 1);
        return p;
}

void referrals_clear(struct referral **list)
{
        while (*list) {
                struct referral *r = *list;

                *list = r->next;
                free(r);
        }
}

void port_put(struct port *p)
{
        if (atomic_fetch_sub(&p->refs, 1) > 1)
                return;
        port_subsystems_clear(&p->subsystems);
        referrals_clear(&p->referrals);
        free(p);
}

/* --- changes ---------------------------------------------------------------------------------- */

/* Each its own, and the same in every run: some hosts name disks by it. */
static void make_serial(struct subsystem *s)
{
        uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

        for (const char *p = s->nqn; *p; p++)
                h = (h ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
        snprintf(s->serial, sizeof(s->serial), "%016" PRIx64, h);
}

struct subsystem *subsystem_new(const char *nqn)
{
        struct subsystem *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        strncpy(s->nqn, nqn, NQN_MAX);
        make_serial(s);
        strcpy(s->model, "nvmfspec reference target");
        strcpy(s->firmware, "0.1");
        s->allow_any_host = true;
        s->cntlid_min = CNTLID_MIN;
        s->cntlid_max = CNTLID_MAX;
        atomic_init(&s->refs, 1);
        pel_init(&s->pel);
        pthread_mutex_init(&s->features.lock, NULL);
        return s;
}

struct port *port_new(uint16_t id)
{
        struct port *p = calloc(1, sizeof(*p));

        if (!p)
                return NULL;
        p->id = id;
        p->trtype = TRTYPE_TCP;
        atomic_init(&p->refs, 1);
        return p;
}

void inventory_add_subsystem(struct inventory *inv, struct subsystem *s)
{
        struct subsystem **at = &inv->subsystems;

        while (*at)
                at = &(*at)->next;
        *at = s;
}

void inventory_add_port(struct inventory *inv, struct port *p)
{
        struct port **at = &inv->ports;

        while (*at && (*at)->id < p->id)
                at = &(*at)->next;
        p->next = *at;
        *at = p;
}

static void port_remove_subsystem(struct port *p, const struct subsystem *s)
{
        struct port_subsystem **at = &p->subsystems, *ps;

        while ((ps = *at) != NULL) {
                if (ps->subsystem != s) {
                        at = &ps->next;
                        continue;
                }
                *at = ps->next;
                free(ps);
        }
}

void inventory_remove_subsystem(struct inventory *inv, struct subsystem *s)
{
        struct subsystem **at = &inv->subsystems;

        for (struct port *p = inv->ports; p; p = p->next)
                port_remove_subsystem(p, s);
        while (*at && *at != s)
                at = &(*at)->next;
        if (*at)
                *at = s->next;
        s->next = NULL;
}

void inventory_remove_port(struct inventory *inv, struct port *p)
{
        struct port **at = &inv->ports;

        while (*at && *at != p)
                at = &(*at)->next;
        if (*at)
                *at = p->next;
        p->next = NULL;
        port_subsystems_clear(&p->subsystems);
}

/* Where in the list a namespace of this NSID is or would be. */
static _Atomic(struct ns *) *ns_place(struct subsystem *s, uint32_t nsid)
{
        _Atomic(struct ns *) *at = &s->ns;
        struct ns *ns;

        while ((ns = *at) != NULL && ns->nsid < nsid)
                at = &ns->next;
        return at;
}

void subsystem_add_ns(struct subsystem *s, struct ns *ns)
{
        _Atomic(struct ns *) *at = ns_place(s, ns->nsid);

        atomic_store(&ns->next, atomic_load(at));
        atomic_store(at, ns);
}

bool subsystem_remove_ns(struct subsystem *s, struct ns *ns)
{
        _Atomic(struct ns *) *at = ns_place(s, ns->nsid);
        bool is_there = *at == ns;

        if (is_there)
                atomic_store(at, atomic_load(&ns->next)); /* readers still walk on from ns */
        return is_there;
}

bool hosts_add(struct host_entry **hosts, const char *hostnqn, const struct auth_keys *keys)
{
        struct host_entry *h = calloc(1, sizeof(*h));

        if (!h)
                return false;
        strncpy(h->nqn, hostnqn, NQN_MAX);
        if (keys)
                h->keys = *keys;
        h->next = *hosts;
        *hosts = h;
        return true;
}

void hosts_clear(struct host_entry **hosts)
{
        while (*hosts) {
                struct host_entry *h = *hosts;

                *hosts = h->next;
                wipe(h, sizeof(*h));
                free(h);
        }
}

bool port_subsystems_add(struct port_subsystem **at, struct subsystem *s)
{
        struct port_subsystem *ps = calloc(1, sizeof(*ps));

        if (!ps)
                return false;
        while (*at)
                at = &(*at)->next;
        ps->subsystem = s;
        memset(ps->ana.of, ANA_OPTIMIZED, sizeof(ps->ana.of));
        *at = ps;
        return true;
}

void port_subsystems_clear(struct port_subsystem **list)
{
        while (*list) {
                struct port_subsystem *ps = *list;

                *list = ps->next;
                free(ps);
        }
}
