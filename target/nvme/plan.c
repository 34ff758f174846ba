/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"
#include "pdu/io/loop.h"
#include "pdu/nvme/wire/nvme.h"
#include "target/ns/bdev.h"
#include "target/nvme/ana.h"
#include "target/nvme/ns_hosts.h"

/* --- arrays ----------------------------------------------------------------------------------- */

static bool append(void *array, unsigned *n, void *element)
{
        void ***at = array, **more = realloc(*at, (*n + 1) * sizeof(*more));

        if (!more)
                return false;
        more[(*n)++] = element;
        *at = more;
        return true;
}

static struct plan_ns *add_step(struct plan *p, struct subsystem *s, uint32_t nsid)
{
        struct plan_ns *more = realloc(p->ns, (p->n_ns + 1) * sizeof(*more));

        if (!more)
                return NULL;
        p->ns = more;
        p->ns[p->n_ns] = (struct plan_ns) { .subsystem = s, .nsid = nsid };
        return &p->ns[p->n_ns++];
}

static bool no_memory(char *error, size_t size)
{
        snprintf(error, size, "%s", strerror(ENOMEM));
        return false;
}

/* --- namespaces ------------------------------------------------------------------------------- */

/* "mem:64M,bs=4096" as "mem:,bs=4096" and 64M, "file:F,size=1G" as "file:F" and 1G; false: it names
 * no size. */
static bool split_size(const char *path, char *rest, size_t room, uint64_t *bytes)
{
        static const char *const marks[] = { "mem:", "null:", ",size=" };

        for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
                const char *mark = strstr(path, marks[i]);
                const char *digits = mark ? mark + strlen(marks[i]) : NULL;
                size_t len = digits ? strcspn(digits, ",") : 0;
                char text[32];

                if (!mark || (mark != path && marks[i][0] != ',') || len >= sizeof(text))
                        continue;
                snprintf(text, sizeof(text), "%.*s", (int)len, digits);
                snprintf(rest, room, "%.*s%s", (int)(digits - path), path, digits + len);
                return ns_parse_size(text, bytes);
        }
        return false;
}

/* Whether `wanted` is the same storage in another size: then that size. */
static bool resized(const struct ns *ns, const char *wanted, uint64_t *blocks)
{
        char now[4200], then[4200];
        uint64_t bytes, old;

        if (!split_size(ns->path, now, sizeof(now), &old) ||
            !split_size(wanted, then, sizeof(then), &bytes))
                return false;
        *blocks = bytes >> ns->lbads;
        return strcmp(now, then) == 0 && *blocks << ns->lbads == bytes;
}

static bool same_identity(const struct ns *ns, const struct config_ns *want)
{
        return (!want->has_uuid || memcmp(ns->uuid, want->uuid, sizeof(ns->uuid)) == 0) &&
               memcmp(nvme_ns(ns)->nguid, want->nguid, sizeof(nvme_ns(ns)->nguid)) == 0;
}

/* False: out of memory. */
static bool hosts_wanted(const struct config_ns *want, struct ns_hosts **hosts)
{
        *hosts = want->masked ? ns_hosts_new(want->hosts, want->n_hosts) : NULL;
        return *hosts || !want->masked;
}

static struct ns *open_ns(const struct config_ns *want, const char *nqn, char *error, size_t size)
{
        struct ns_hosts *hosts;
        struct ns *ns = want->bdev
                            ? bdev_open_ns(want->bdev, want->path, want->nsid, error, size)
                            : ns_open(&nvme_ns_family, want->path, nqn, want->nsid, error, size);

        if (ns && !hosts_wanted(want, &hosts)) {
                ns_put(ns);
                no_memory(error, size);
                return NULL;
        }
        if (ns)
                nvme_ns(ns)->hosts = hosts;
        if (ns && want->has_uuid)
                memcpy(ns->uuid, want->uuid, sizeof(ns->uuid));
        if (ns)
                memcpy(nvme_ns(ns)->nguid, want->nguid, sizeof(nvme_ns(ns)->nguid));
        if (ns)
                nvme_ns(ns)->anagrpid = config_ana_group(want);
        return ns;
}

/* Of a namespace that stays. */
static bool plan_hosts(struct plan *p, struct subsystem *s, struct ns *ns,
                       const struct config_ns *want)
{
        struct ns_hosts *hosts;
        struct plan_ns *step;

        if (!hosts_wanted(want, &hosts))
                return false;
        if (ns_hosts_equal(hosts, nvme_ns(ns)->hosts)) {
                ns_hosts_free(hosts);
                return true;
        }
        step = add_step(p, s, ns->nsid);
        if (!step) {
                ns_hosts_free(hosts);
                return false;
        }
        step->mask = ns;
        step->hosts = hosts;
        return true;
}

/* What has to happen for one namespace that is asked for. */
static bool plan_ns(struct plan *p, struct subsystem *s, const struct config_ns *want, char *error,
                    size_t size)
{
        struct ns *now = subsystem_ns(s, want->nsid);
        struct plan_ns *step;
        uint64_t blocks;

        if (now && same_identity(now, want)) {
                if (strcmp(now->path, want->path) == 0)
                        return plan_hosts(p, s, now, want) || no_memory(error, size);
                if (resized(now, want->path, &blocks)) {
                        step = add_step(p, s, want->nsid);
                        if (!step)
                                return no_memory(error, size);
                        step->resize = now;
                        step->blocks = blocks;
                        step->path = want->path;
                        return plan_hosts(p, s, now, want) || no_memory(error, size);
                }
        }
        step = add_step(p, s, want->nsid);
        if (!step)
                return no_memory(error, size);
        step->remove = now;
        step->add = open_ns(want, s->nqn, error, size);
        return step->add;
}

static const struct config_ns *wanted_ns(const struct config_subsystem *want, uint32_t nsid)
{
        for (unsigned i = 0; i < want->n_ns; i++)
                if (want->ns[i].nsid == nsid && want->ns[i].enable)
                        return &want->ns[i];
        return NULL;
}

static bool plan_namespaces(struct plan *p, struct subsystem *s,
                            const struct config_subsystem *want, char *error, size_t size)
{
        for (struct ns *ns = s->ns; ns; ns = ns->next) {
                struct plan_ns *step;

                if (wanted_ns(want, ns->nsid))
                        continue;
                step = add_step(p, s, ns->nsid);
                if (!step)
                        return no_memory(error, size);
                step->remove = ns;
        }
        for (unsigned i = 0; i < want->n_ns; i++)
                if (want->ns[i].enable && !plan_ns(p, s, &want->ns[i], error, size))
                        return false;
        return true;
}

/* --- subsystems ------------------------------------------------------------------------------- */

static void copy_given(char *to, const char *from)
{
        if (from[0])
                strcpy(to, from);
}

static void apply_attributes(struct subsystem *s, const struct config_subsystem *want)
{
        copy_given(s->serial, want->serial);
        copy_given(s->model, want->model);
        copy_given(s->firmware, want->firmware);
        s->allow_any_host = want->allow_any_host;
        s->fixed = want->fixed;
        atomic_store(&s->whole, want->whole);
        s->administrative = want->administrative;
        s->ana = want->ana;
        atomic_store(&s->limited, want->limited);
        s->cntlid_min = want->cntlid_min ? want->cntlid_min : CNTLID_MIN;
        s->cntlid_max = want->cntlid_max ? want->cntlid_max : CNTLID_MAX;
        s->qid_max = want->qid_max;
        s->keys = want->keys;
}

static bool plan_subsystem(struct plan *p, struct inventory *inv,
                           const struct config_subsystem *want, char *error, size_t size)
{
        struct subsystem *s = inventory_subsystem(inv, want->nqn);

        if (!s) {
                s = subsystem_new(want->nqn);
                if (!s || !append(&p->new_subsystems, &p->n_new_subsystems, s)) {
                        if (s)
                                subsystem_put(s);
                        return no_memory(error, size);
                }
        }
        return plan_namespaces(p, s, want, error, size);
}

static bool plan_subsystems(struct plan *p, struct inventory *inv, char *error, size_t size)
{
        for (struct subsystem *s = inv->subsystems; s; s = s->next)
                if (!config_find_subsystem(p->config, s->nqn) &&
                    !append(&p->old_subsystems, &p->n_old_subsystems, s))
                        return no_memory(error, size);
        for (unsigned i = 0; i < p->config->n_subsystems; i++)
                if (!plan_subsystem(p, inv, &p->config->subsystems[i], error, size))
                        return false;
        return true;
}

/* --- ports ------------------------------------------------------------------------------------ */

static bool listens_on(const struct port *port, const struct config_port *want)
{
        return port->id == want->id && port->trtype == want->trtype &&
               strcmp(port->traddr, want->traddr) == 0 &&
               (strcmp(want->trsvcid, "0") == 0 || strcmp(port->trsvcid, want->trsvcid) == 0);
}

static const struct config_port *wanted_port(const struct config *c, const struct port *port)
{
        for (unsigned i = 0; i < c->n_ports; i++)
                if (listens_on(port, &c->ports[i]))
                        return &c->ports[i];
        return NULL;
}

static struct port *listening_port(struct inventory *inv, const struct config_port *want)
{
        struct port *port = inv->ports;

        while (port && !listens_on(port, want))
                port = port->next;
        return port;
}

static bool plan_port(struct plan *p, struct inventory *inv, const struct config_port *want)
{
        struct port *port;

        if (listening_port(inv, want))
                return true;
        port = port_new(want->id);
        if (!port)
                return false;
        port->trtype = want->trtype;
        strcpy(port->traddr, want->traddr);
        strcpy(port->trsvcid, want->trsvcid);
        if (append(&p->new_ports, &p->n_new_ports, port))
                return true;
        port_put(port);
        return false;
}

static bool plan_ports(struct plan *p, struct inventory *inv, char *error, size_t size)
{
        for (struct port *port = inv->ports; port; port = port->next)
                if (!wanted_port(p->config, port) && !append(&p->old_ports, &p->n_old_ports, port))
                        return no_memory(error, size);
        for (unsigned i = 0; i < p->config->n_ports; i++)
                if (!plan_port(p, inv, &p->config->ports[i]))
                        return no_memory(error, size);
        return true;
}

static bool add_referral(struct referral **list, const struct config_referral *want)
{
        struct referral *r = calloc(1, sizeof(*r));

        if (!r)
                return false;
        r->port_id = want->port_id;
        r->trtype = want->trtype;
        r->adrfam = want->adrfam;
        r->treq = want->treq;
        strcpy(r->traddr, want->traddr);
        strcpy(r->trsvcid, want->trsvcid);
        strcpy(r->subnqn, want->subnqn);
        r->next = *list;
        *list = r;
        return true;
}

/* --- who may use what: all of it is made before any of it counts ------------------------------ */

static struct subsystem *subsystem_to_be(const struct plan *p, const struct inventory *inv,
                                         const char *nqn)
{
        for (unsigned i = 0; i < p->n_new_subsystems; i++)
                if (strcmp(p->new_subsystems[i]->nqn, nqn) == 0)
                        return p->new_subsystems[i];
        return inventory_subsystem(inv, nqn);
}

static bool list_hosts(struct plan *p, unsigned at)
{
        const struct config_subsystem *want = &p->config->subsystems[at];

        for (unsigned i = 0; i < want->n_hosts; i++)
                if (!hosts_add(&p->lists.hosts[at], want->hosts[i],
                               config_keys(p->config, want, want->hosts[i])))
                        return false;
        return true;
}

static bool list_port(struct plan *p, const struct inventory *inv, unsigned at)
{
        const struct config_port *want = &p->config->ports[at];

        for (unsigned i = 0; i < want->n_subsystems; i++)
                if (!port_subsystems_add(&p->lists.subsystems[at],
                                         subsystem_to_be(p, inv, want->subsystems[i])))
                        return false;
        for (struct port_subsystem *ps = p->lists.subsystems[at]; ps; ps = ps->next)
                config_ana_states(want, ps->subsystem->nqn, &ps->ana);
        for (unsigned i = want->n_referrals; i-- > 0;)
                if (want->referrals[i].enable &&
                    !add_referral(&p->lists.referrals[at], &want->referrals[i]))
                        return false;
        return true;
}

static bool plan_lists(struct plan *p, const struct inventory *inv, char *error, size_t size)
{
        const struct config *c = p->config;
        struct plan_lists *l = &p->lists;
        bool ok;

        l->hosts = calloc(c->n_subsystems + 1, sizeof(*l->hosts));
        l->subsystems = calloc(c->n_ports + 1, sizeof(*l->subsystems));
        l->referrals = calloc(c->n_ports + 1, sizeof(*l->referrals));
        ok = l->hosts && l->subsystems && l->referrals;
        for (unsigned i = 0; ok && i < c->n_subsystems; i++)
                ok = list_hosts(p, i);
        for (unsigned i = 0; ok && i < c->n_ports; i++)
                ok = list_port(p, inv, i);
        return ok || no_memory(error, size);
}

static void drop_lists(struct plan *p)
{
        for (unsigned i = 0; p->lists.hosts && i < p->config->n_subsystems; i++)
                hosts_clear(&p->lists.hosts[i]);
        for (unsigned i = 0; p->lists.subsystems && i < p->config->n_ports; i++)
                port_subsystems_clear(&p->lists.subsystems[i]);
        for (unsigned i = 0; p->lists.referrals && i < p->config->n_ports; i++)
                referrals_clear(&p->lists.referrals[i]);
        free(p->lists.hosts);
        free(p->lists.subsystems);
        free(p->lists.referrals);
}

#define SWAP(type, a, b)                                                                           \
        do {                                                                                       \
                type swapped = (a);                                                                \
                                                                                                   \
                (a) = (b);                                                                         \
                (b) = swapped;                                                                     \
        } while (0)

/* --- what discovery logs show ----------------------------------------------------------------- */

static uint64_t mix(uint64_t h, const void *data, size_t len)
{
        const uint8_t *p = data;

        while (len-- > 0)
                h = (h ^ *p++) * UINT64_C(0x100000001b3);
        return h;
}

static uint64_t mix_text(uint64_t h, const char *s)
{
        return mix(h, s, strlen(s) + 1);
}

static uint64_t mix_subsystem(uint64_t h, const struct subsystem *s)
{
        const uint8_t fixed[] = { s->allow_any_host, s->fixed };

        h = mix(mix_text(h, s->nqn), fixed, sizeof(fixed));
        for (const struct host_entry *host = s->hosts; host; host = host->next)
                h = mix_text(h, host->nqn);
        return h;
}

static uint64_t mix_port(uint64_t h, const struct port *port)
{
        uint8_t fixed[] = { (uint8_t)port->id, (uint8_t)(port->id >> 8), port->trtype, port->treq,
                            port->sectype };

        h = mix_text(mix_text(mix(h, fixed, sizeof(fixed)), port->traddr), port->trsvcid);
        for (const struct port_subsystem *ps = port->subsystems; ps; ps = ps->next)
                h = mix_subsystem(h, ps->subsystem);
        for (const struct referral *r = port->referrals; r; r = r->next)
                h = mix_text(mix_text(mix_text(mix(h, &r->port_id, sizeof(r->port_id)), r->traddr),
                                      r->trsvcid),
                             r->subnqn);
        return h;
}

static uint64_t logs_of(const struct inventory *inv)
{
        uint64_t h = UINT64_C(0xcbf29ce484222325);

        for (const struct port *port = inv->ports; port; port = port->next)
                h = mix_port(h, port);
        return h;
}

/* --- the plan --------------------------------------------------------------------------------- */

bool plan_make(struct plan *p, struct inventory *inv, const struct config *config, char *error,
               size_t size)
{
        *p = (struct plan) { .config = config };
        if (plan_subsystems(p, inv, error, size) && plan_ports(p, inv, error, size) &&
            plan_lists(p, inv, error, size))
                return true;
        plan_free(p);
        return false;
}

/* Since it was looked at a host may have deleted the one that is to go, or made one where another is to be. */
static void take_out(struct plan_ns *step)
{
        struct ns *ns = step->add ? subsystem_ns(step->subsystem, step->nsid) : step->remove;

        step->remove = NULL;
        if (!ns)
                return;
        ns_hurry(ns);
        if (subsystem_remove_ns(step->subsystem, ns))
                step->remove = ns;
}

static void apply_namespaces(struct plan *p)
{
        for (unsigned i = 0; i < p->n_ns; i++) {
                struct plan_ns *step = &p->ns[i];

                take_out(step);
                if (step->add)
                        subsystem_add_ns(step->subsystem, step->add);
                if (step->mask)
                        step->hosts = atomic_exchange(&nvme_ns(step->mask)->hosts, step->hosts);
        }
}

/* Of namespaces that stay. */
static void apply_groups(struct subsystem *s, const struct config_subsystem *want)
{
        for (struct ns *ns = s->ns; ns; ns = ns->next) {
                const struct config_ns *w = wanted_ns(want, ns->nsid);

                if (w)
                        nvme_ns(ns)->anagrpid = config_ana_group(w);
        }
}

static void apply_subsystems(struct plan *p, struct inventory *inv)
{
        for (unsigned i = 0; i < p->n_old_subsystems; i++) {
                inventory_remove_subsystem(inv, p->old_subsystems[i]);
                subsystem_hurry(p->old_subsystems[i]);
        }
        for (unsigned i = 0; i < p->n_new_subsystems; i++)
                inventory_add_subsystem(inv, p->new_subsystems[i]);
        for (unsigned i = 0; i < p->config->n_subsystems; i++) {
                const struct config_subsystem *want = &p->config->subsystems[i];
                struct subsystem *s = inventory_subsystem(inv, want->nqn);

                apply_attributes(s, want);
                apply_groups(s, want);
                SWAP(struct host_entry *, s->hosts, p->lists.hosts[i]);
        }
}

/* What is behind this port already; what is new begins with its states. */
static void pass_states(struct port_subsystem *to, const struct port_subsystem *had, uint64_t now)
{
        for (; to; to = to->next)
                for (const struct port_subsystem *was = had; was; was = was->next)
                        if (was->subsystem == to->subsystem)
                                ana_states_pass(&to->ana, &was->ana, now);
}

static void apply_ports(struct plan *p, struct inventory *inv)
{
        uint64_t now = loop_now_ms();

        for (unsigned i = 0; i < p->n_old_ports; i++)
                inventory_remove_port(inv, p->old_ports[i]);
        for (unsigned i = 0; i < p->n_new_ports; i++)
                inventory_add_port(inv, p->new_ports[i]);
        for (unsigned i = 0; i < p->config->n_ports; i++) {
                struct port *port = inventory_port(inv, p->config->ports[i].id);

                port->treq = p->config->ports[i].treq;
                port->sectype = p->config->ports[i].sectype;
                pass_states(p->lists.subsystems[i], port->subsystems, now);
                SWAP(struct port_subsystem *, port->subsystems, p->lists.subsystems[i]);
                SWAP(struct referral *, port->referrals, p->lists.referrals[i]);
        }
        atomic_store(&inv->ana_due, ana_states_settle(inv, now));
}

/* Stays as it is where that fails, and is asked for again. */
static bool resize(const struct plan_ns *step, char *error, size_t size)
{
        char *path = strdup(step->path);
        enum ns_result result = path ? ns_resize(step->resize, step->blocks) : NS_NO_MEMORY;

        if (result != NS_DONE) {
                snprintf(error, size, "%s: namespace %u cannot get the size of %.200s: %s",
                         step->subsystem->nqn, step->nsid, step->path, ns_result_name(result));
                free(path);
                return false;
        }
        free(step->resize->path);
        step->resize->path = path;
        return true;
}

/* Outside the lock: resizing may wait for a disk, and a namespace has a lock of its own. */
static bool resize_namespaces(struct plan *p, char *error, size_t size)
{
        char more[200];
        bool ok = true;

        for (unsigned i = 0; i < p->n_ns; i++)
                if (p->ns[i].resize)
                        ok &= resize(&p->ns[i], ok ? error : more, ok ? size : sizeof(more));
        return ok;
}

bool plan_apply(struct plan *p, struct inventory *inv, char *error, size_t size)
{
        uint64_t before;

        pthread_rwlock_wrlock(&inv->lock);
        before = logs_of(inv);
        apply_subsystems(p, inv);
        apply_namespaces(p);
        apply_ports(p, inv);
        inv->discovery = p->config->discovery;
        p->discovery = logs_of(inv) != before;
        inv->genctr += p->discovery;
        p->applied = true;
        pthread_rwlock_unlock(&inv->lock);
        return resize_namespaces(p, error, size);
}

static void notify_ns(const struct plan_ns *step, struct ctrl_table *t)
{
        struct ns *was = step->mask ? step->mask : step->remove ? step->remove : step->resize;
        struct ns *is = step->mask ? step->mask : step->add ? step->add : step->resize;
        struct ns_change change = { .subsystem = step->subsystem,
                                    .nsid = step->nsid,
                                    .was = was,
                                    .is = is,
                                    .after = is ? nvme_ns(is)->hosts : NULL,
                                    .hosts_alone = step->mask };

        change.before = step->mask ? step->hosts : was ? nvme_ns(was)->hosts : NULL;
        ctrl_table_ns_changed(t, &change);
}

void plan_notify(const struct plan *p, struct ctrl_table *t, struct inventory *inv)
{
        for (unsigned i = 0; i < p->n_ns; i++)
                notify_ns(&p->ns[i], t);
        ctrl_table_ana_changed(t);
        if (p->discovery)
                ctrl_table_discovery_changed(t);
        ctrl_table_revoke(t, inv);
}

void plan_free(struct plan *p)
{
        for (unsigned i = 0; i < p->n_ns; i++) {
                struct ns *unused = p->applied ? p->ns[i].remove : p->ns[i].add;

                if (unused && !(PLANTED(NS_KEPT) && p->ns[i].add))
                        ns_put(unused);
                ns_hosts_free(p->ns[i].hosts);
        }
        for (unsigned i = 0; p->applied && i < p->n_old_subsystems; i++)
                subsystem_put(p->old_subsystems[i]);
        for (unsigned i = 0; !p->applied && i < p->n_new_subsystems; i++)
                subsystem_put(p->new_subsystems[i]);
        for (unsigned i = 0; p->applied && i < p->n_old_ports; i++) {
                if (PLANTED(PORT_TWICE) && p->old_ports[i]->refs > 1)
                        port_put(p->old_ports[i]);
                port_put(p->old_ports[i]);
        }
        for (unsigned i = 0; !p->applied && i < p->n_new_ports; i++)
                port_put(p->new_ports[i]);
        drop_lists(p);
        free(p->ns);
        free(p->new_subsystems);
        free(p->old_subsystems);
        free(p->new_ports);
        free(p->old_ports);
        *p = (struct plan) { 0 };
}
