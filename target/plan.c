/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
               memcmp(ns->nguid, want->nguid, sizeof(ns->nguid)) == 0;
}

static struct ns *open_ns(const struct config_ns *want, const char *nqn, char *error, size_t size)
{
        struct ns *ns = ns_open(want->path, nqn, want->nsid, error, size);

        if (ns && want->has_uuid)
                memcpy(ns->uuid, want->uuid, sizeof(ns->uuid));
        if (ns)
                memcpy(ns->nguid, want->nguid, sizeof(ns->nguid));
        return ns;
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
                        return true;
                if (resized(now, want->path, &blocks)) {
                        step = add_step(p, s, want->nsid);
                        if (!step)
                                return no_memory(error, size);
                        step->resize = now;
                        step->blocks = blocks;
                        step->path = want->path;
                        return true;
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

static const struct config_subsystem *wanted_subsystem(const struct config *c, const char *nqn)
{
        for (unsigned i = 0; i < c->n_subsystems; i++)
                if (strcmp(c->subsystems[i].nqn, nqn) == 0)
                        return &c->subsystems[i];
        return NULL;
}

static void copy_given(char *to, const char *from)
{
        if (from[0])
                strcpy(to, from);
}

static void apply_attributes(struct subsystem *s, const struct config *config,
                             const struct config_subsystem *want)
{
        copy_given(s->serial, want->serial);
        copy_given(s->model, want->model);
        copy_given(s->firmware, want->firmware);
        s->allow_any_host = want->allow_any_host;
        s->cntlid_min = want->cntlid_min ? want->cntlid_min : CNTLID_MIN;
        s->cntlid_max = want->cntlid_max ? want->cntlid_max : CNTLID_MAX;
        s->qid_max = want->qid_max;
        subsystem_clear_hosts(s);
        for (unsigned i = 0; i < want->n_hosts; i++)
                subsystem_add_host(s, want->hosts[i], config_keys(config, want, want->hosts[i]));
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
                if (!wanted_subsystem(p->config, s->nqn) &&
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

static void add_referral(struct port *port, const struct config_referral *want)
{
        struct referral *r = want->enable ? calloc(1, sizeof(*r)) : NULL;

        if (!r)
                return;
        r->port_id = want->port_id;
        r->trtype = want->trtype;
        r->adrfam = want->adrfam;
        r->treq = want->treq;
        strcpy(r->traddr, want->traddr);
        strcpy(r->trsvcid, want->trsvcid);
        r->next = port->referrals;
        port->referrals = r;
}

static void apply_port(struct port *port, struct inventory *inv, const struct config_port *want)
{
        port->treq = want->treq;
        port_clear_subsystems(port);
        for (unsigned i = 0; i < want->n_subsystems; i++)
                port_add_subsystem(port, inventory_subsystem(inv, want->subsystems[i]));
        while (port->referrals) {
                struct referral *r = port->referrals;

                port->referrals = r->next;
                free(r);
        }
        for (unsigned i = want->n_referrals; i-- > 0;)
                add_referral(port, &want->referrals[i]);
}

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
        h = mix(mix_text(h, s->nqn), &s->allow_any_host, 1);
        for (const struct host_entry *host = s->hosts; host; host = host->next)
                h = mix_text(h, host->nqn);
        return h;
}

static uint64_t mix_port(uint64_t h, const struct port *port)
{
        uint8_t fixed[] = { (uint8_t)port->id, (uint8_t)(port->id >> 8), port->trtype, port->treq };

        h = mix_text(mix_text(mix(h, fixed, sizeof(fixed)), port->traddr), port->trsvcid);
        for (const struct port_subsystem *ps = port->subsystems; ps; ps = ps->next)
                h = mix_subsystem(h, ps->subsystem);
        for (const struct referral *r = port->referrals; r; r = r->next)
                h = mix_text(mix_text(mix(h, &r->port_id, sizeof(r->port_id)), r->traddr),
                             r->trsvcid);
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
        if (plan_subsystems(p, inv, error, size) && plan_ports(p, inv, error, size))
                return true;
        plan_free(p);
        return false;
}

static void apply_namespaces(struct plan *p)
{
        for (unsigned i = 0; i < p->n_ns; i++) {
                struct plan_ns *step = &p->ns[i];

                if (step->remove)
                        subsystem_remove_ns(step->subsystem, step->remove);
                if (step->add)
                        subsystem_add_ns(step->subsystem, step->add);
        }
}

static void apply_subsystems(struct plan *p, struct inventory *inv)
{
        for (unsigned i = 0; i < p->n_old_subsystems; i++)
                inventory_remove_subsystem(inv, p->old_subsystems[i]);
        for (unsigned i = 0; i < p->n_new_subsystems; i++)
                inventory_add_subsystem(inv, p->new_subsystems[i]);
        for (unsigned i = 0; i < p->config->n_subsystems; i++) {
                const struct config_subsystem *want = &p->config->subsystems[i];

                apply_attributes(inventory_subsystem(inv, want->nqn), p->config, want);
        }
}

static void apply_ports(struct plan *p, struct inventory *inv)
{
        for (unsigned i = 0; i < p->n_old_ports; i++)
                inventory_remove_port(inv, p->old_ports[i]);
        for (unsigned i = 0; i < p->n_new_ports; i++)
                inventory_add_port(inv, p->new_ports[i]);
        for (unsigned i = 0; i < p->config->n_ports; i++) {
                const struct config_port *want = &p->config->ports[i];

                apply_port(inventory_port(inv, want->id), inv, want);
        }
}

/* Outside the lock: resizing may wait for a disk, and a namespace has a lock of its own. */
static void resize_namespaces(struct plan *p)
{
        for (unsigned i = 0; i < p->n_ns; i++) {
                struct plan_ns *step = &p->ns[i];
                char *path = step->resize ? strdup(step->path) : NULL;

                if (!path || ns_resize(step->resize, step->blocks)) {
                        free(path); /* stays as it is, and is asked for again */
                        continue;
                }
                free(step->resize->path);
                step->resize->path = path;
        }
}

void plan_apply(struct plan *p, struct inventory *inv)
{
        uint64_t before;

        pthread_rwlock_wrlock(&inv->lock);
        before = logs_of(inv);
        apply_subsystems(p, inv);
        apply_namespaces(p);
        apply_ports(p, inv);
        p->discovery = logs_of(inv) != before;
        inv->genctr += p->discovery;
        p->applied = true;
        pthread_rwlock_unlock(&inv->lock);
        resize_namespaces(p);
}

void plan_free(struct plan *p)
{
        for (unsigned i = 0; i < p->n_ns; i++) {
                struct ns *unused = p->applied ? p->ns[i].remove : p->ns[i].add;

                if (unused)
                        ns_put(unused);
        }
        for (unsigned i = 0; p->applied && i < p->n_old_subsystems; i++)
                subsystem_put(p->old_subsystems[i]);
        for (unsigned i = 0; !p->applied && i < p->n_new_subsystems; i++)
                subsystem_put(p->new_subsystems[i]);
        for (unsigned i = 0; p->applied && i < p->n_old_ports; i++)
                port_put(p->old_ports[i]);
        for (unsigned i = 0; !p->applied && i < p->n_new_ports; i++)
                port_put(p->new_ports[i]);
        free(p->ns);
        free(p->new_subsystems);
        free(p->old_subsystems);
        free(p->new_ports);
        free(p->old_ports);
        *p = (struct plan) { 0 };
}
