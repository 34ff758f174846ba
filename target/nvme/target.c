/* SPDX-License-Identifier: BSD-3-Clause */
#include "target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "control.h"
#include "pdu/io/log.h"
#include "pdu/io/loop.h"
#include "pdu/io/net.h"
#include "plan.h"
#include "target/engine/engine.h"
#include "target/nvme/command_trace.h"
#include "target/nvme/conn.h"
#include "trigger.h"

/* In SPDK's words and order, those that it goes through. */
enum state {
        CREATING,        /* what its reactors share */
        CREATING_GROUPS, /* its reactors */
        STARTING,        /* what it serves, and where */
        RUNNING,
        ENDING_LISTEN,     /* no new connections */
        ENDING_SUBSYSTEMS, /* commands end, and connections */
        DESTROYING_SUBSYSTEMS,
        DESTROYING_GROUPS,
        DESTROYING,
        STOPPED,
        FAILED, /* while it was started; it ends as others do */
        STATES
};

struct target {
        _Atomic int state;
        struct nvme_service service;
        struct inventory inv;
        struct engine engine;
        pthread_mutex_t changing; /* one change of the inventory at a time */
        char *config;             /* file, or NULL */
        struct triggers *faults;  /* with a trigger; NULL: there never were any */
        struct config trace;      /* the trace alone: what service.journal is */
        char traddr[NET_TRADDR];
        uint16_t trsvcid;
};

static const char *state_name(enum state s)
{
        static const char *const names[STATES] = {
                [CREATING] = "create target",
                [CREATING_GROUPS] = "create poll groups",
                [STARTING] = "start subsystems",
                [RUNNING] = "running",
                [ENDING_LISTEN] = "stop listen",
                [ENDING_SUBSYSTEMS] = "stop subsystems",
                [DESTROYING_SUBSYSTEMS] = "destroy subsystems",
                [DESTROYING_GROUPS] = "destroy poll groups",
                [DESTROYING] = "destroy target",
                [STOPPED] = "stopped",
                [FAILED] = "error",
        };

        return names[s];
}

static void enter(struct target *t, enum state s)
{
        atomic_store(&t->state, s);
        log_line(LOG_AS_TRACE, NULL, NULL, "target: %s", state_name(s));
}

const char *target_state(const struct target *t)
{
        return state_name((enum state)atomic_load(&t->state));
}

/* --- change ----------------------------------------------------------------------------------- */

struct new_faults {
        struct target *target;
        const struct config *config;
};

static void change_faults(struct nvme_service *s, void *arg)
{
        const struct new_faults *new = arg;
        const struct config *c = new->config;

        s->faults_gone =
            triggers_change(new->target->faults, c->faults, c->n_faults, loop_now_ms());
        s->faults = c->n_faults > 0 ? new->target->faults : NULL;
}

static void set_faults(struct target *t, const struct config *c)
{
        if (!triggers_are(t->faults, c->faults, c->n_faults))
                target_alone(t, change_faults, &(struct new_faults) { t, c });
}

struct new_trace {
        struct journal *journal; /* NULL: there is to be none */
        struct config asked;     /* the trace alone */
        bool differs;            /* from what there is */
};

/* False: error says why not. */
static bool open_trace(const struct target *t, const struct config *c, struct new_trace *new,
                       char *error, size_t size)
{
        const struct config_trace *now = &t->trace.trace, *then = &c->trace;

        *new = (struct new_trace) { .differs = !config_same_trace(now, then) };
        if (!new->differs || !then->file)
                return true;
        if (now->file && strcmp(now->file, then->file) == 0) {
                snprintf(error, size, "%s is being written: the trace has to be stopped first",
                         now->file);
                return false;
        }
        if (!config_set_trace(&new->asked, then, error, size))
                return false;
        new->journal =
            command_trace_open(then->file, then->size, (unsigned)then->files, error, size);
        if (!new->journal)
                config_free(&new->asked);
        return new->journal;
}

static void close_trace(struct journal *j, struct config *c)
{
        if (journal_close(j) < 0)
                log_line(LOG_AS_ERROR, NULL, NULL, "%s: %s", c->trace.file, strerror(errno));
        config_free(c);
}

static void swap_journal(struct nvme_service *s, void *arg)
{
        struct new_trace *new = arg;
        struct journal *old = s->journal;

        s->journal = new->journal;
        new->journal = old;
}

/* In place of the one that there is, which no connection has any more then. */
static void set_trace(struct target *t, struct new_trace *new)
{
        struct config old = t->trace;

        if (!new->differs)
                return;
        target_alone(t, swap_journal, new);
        t->trace = new->asked;
        new->asked = old;
}

/* As target_change(). */
static int apply(struct target *t, const struct config *c, char *error, size_t size)
{
        struct plan p;
        bool whole;

        if (!plan_make(&p, &t->inv, c, error, size))
                return -1;
        if (!listen_on(&t->engine.listeners, p.new_ports, p.n_new_ports, error, size)) {
                plan_free(&p);
                return -1;
        }
        whole = plan_apply(&p, &t->inv, error, size);
        listen_accept(&t->engine.listeners, p.n_new_ports);
        listen_drop(&t->engine.listeners, p.old_ports, p.n_old_ports);
        plan_notify(&p, t->service.ctrl.table, &t->inv);
        engine_wait_for_turn(&t->engine); /* nobody holds what was taken out, but by a reference */
        plan_free(&p);
        return whole ? 0 : 1;
}

/* As target_change(). */
static int change(struct target *t, const struct config *c, char *error, size_t size)
{
        struct new_trace trace;
        int rc;

        if (c->n_faults > 0 && !t->faults && !(t->faults = triggers_new())) {
                snprintf(error, size, "%s", strerror(ENOMEM));
                return -1;
        }
        if (!open_trace(t, c, &trace, error, size))
                return -1;
        rc = apply(t, c, error, size);
        if (rc >= 0) {
                set_faults(t, c);
                set_trace(t, &trace);
        }
        close_trace(trace.journal, &trace.asked);
        return rc;
}

/* Files may have another size than they had. */
static void measure_subsystem(struct target *t, struct subsystem *s)
{
        for (struct ns *ns = s->ns; ns; ns = ns->next)
                if (ns_measure(ns))
                        ctrl_table_ns_changed(t->service.ctrl.table,
                                              &(struct ns_change) { .subsystem = s,
                                                                    .nsid = ns->nsid,
                                                                    .is = true,
                                                                    .after = nvme_ns(ns)->hosts });
}

/* With t->changing held nobody else changes the lists. */
static void measure_all(struct target *t)
{
        for (struct subsystem *s = t->inv.subsystems; s; s = s->next)
                measure_subsystem(t, s);
}

static int reload(struct target *t, char *error, size_t size)
{
        struct config c;
        int rc = 0;

        if (t->config) {
                rc = config_load(&c, t->config, error, size) ? change(t, &c, error, size) : -1;
                config_free(&c);
        }
        if (rc >= 0)
                measure_all(t);
        return rc;
}

int target_reload(struct target *t, char *error, size_t size)
{
        int rc;

        pthread_mutex_lock(&t->changing);
        rc = reload(t, error, size);
        pthread_mutex_unlock(&t->changing);
        return rc;
}

int target_change(struct target *t, const struct config *c, char *error, size_t size)
{
        int rc;

        pthread_mutex_lock(&t->changing);
        rc = change(t, c, error, size);
        pthread_mutex_unlock(&t->changing);
        return rc;
}

/* --- control ---------------------------------------------------------------------------------- */

struct inventory *target_inventory(struct target *t)
{
        return &t->inv;
}

struct nvme_service *target_service(struct target *t)
{
        return &t->service;
}

void target_each_reactor(struct target *t, void (*fn)(struct reactor *r, void *arg), void *arg)
{
        engine_each_reactor(&t->engine, fn, arg);
}

struct visit {
        void (*fn)(struct target_conn *c, void *arg);
        void *arg;
};

static void visit_conn(struct conn *c, void *arg)
{
        const struct visit *v = arg;

        v->fn(target_conn_of(c), v->arg);
}

void target_each_conn(struct target *t, void (*fn)(struct target_conn *c, void *arg), void *arg)
{
        engine_each_conn(&t->engine, visit_conn, &(struct visit) { fn, arg });
}

struct standstill {
        struct nvme_service *service;
        void (*fn)(struct nvme_service *s, void *arg);
        void *arg;
};

static void while_alone(void *arg)
{
        const struct standstill *s = arg;

        s->fn(s->service, s->arg);
}

static void renew(struct target_conn *c, void *arg)
{
        (void)arg;
        c->kind->renew(c);
}

void target_alone(struct target *t, void (*fn)(struct nvme_service *s, void *arg), void *arg)
{
        engine_alone(&t->engine, while_alone, &(struct standstill) { &t->service, fn, arg });
        target_each_conn(t, renew, NULL);
}

bool target_trigger(struct target *t, unsigned *slot, struct trigger *copy)
{
        bool any;

        pthread_mutex_lock(&t->changing);
        any = triggers_list(t->faults, slot, copy);
        pthread_mutex_unlock(&t->changing);
        return any;
}

void target_measure(struct target *t)
{
        pthread_mutex_lock(&t->changing);
        measure_all(t);
        pthread_mutex_unlock(&t->changing);
}

/* --- start ------------------------------------------------------------------------------------ */

/* One subsystem, one port: for those who have no configuration. */
static bool simple_config(struct config *c, const struct target_options *o)
{
        static const char *const default_ns[] = { "mem:64M", NULL };
        const char *const *ns = o->ns && o->ns[0] ? o->ns : default_ns;
        struct config_subsystem *s = config_add_subsystem(c, o->subnqn ? o->subnqn : TARGET_NQN);
        struct config_port *p = config_add_port(c, 1, o->traddr ? o->traddr : "127.0.0.1",
                                                o->trsvcid ? o->trsvcid : "4420");

        if (p && o->trtype)
                p->trtype = o->trtype;
        if (!s || !p || !config_add_string(&p->subsystems, &p->n_subsystems, s->nqn))
                return false;
        if (o->keys)
                s->keys = *o->keys;
        for (uint32_t nsid = 1; ns[nsid - 1]; nsid++)
                if (!config_add_ns(s, nsid, ns[nsid - 1]))
                        return false;
        return true;
}

static bool add_faults(struct config *c, const struct target_options *o, char *error, size_t size)
{
        for (const char *const *f = o->faults; f && *f; f++)
                if (!config_add_fault(c, *f, error, size))
                        return false;
        return true;
}

static bool first_config(struct target *t, const struct target_options *o, char *error, size_t size)
{
        struct config c = { 0 };
        bool ok;

        enter(t, STARTING);
        if (o->serve)
                return change(t, o->serve, error, size) == 0;
        if (o->config) {
                ok = config_load(&c, o->config, error, size);
        } else {
                ok = simple_config(&c, o);
                if (!ok)
                        snprintf(error, size, "%s", strerror(ENOMEM));
                ok = ok && add_faults(&c, o, error, size) &&
                     config_check(&c, "options", error, size);
        }
        ok = ok && change(t, &c, error, size) == 0;
        config_free(&c);
        return ok;
}

/* Each connection needs a descriptor. */
static void raise_descriptor_limit(void)
{
        struct rlimit l;

        if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
                l.rlim_cur = l.rlim_max;
                setrlimit(RLIMIT_NOFILE, &l);
        }
}

static void note_address(struct target *t)
{
        const struct port *p = t->inv.ports;

        if (!p)
                return;
        snprintf(t->traddr, sizeof(t->traddr), "%s", p->traddr);
        t->trsvcid = (uint16_t)strtoul(p->trsvcid, NULL, 10);
}

static void begin_reactor(struct reactor *r, void *arg)
{
        (void)r;
        (void)arg;
        ns_put_elsewhere();
}

static bool start_reactors(struct target *t, const struct target_options *o, char *error,
                           size_t size)
{
        enter(t, CREATING_GROUPS);
        if (!engine_start(&t->engine, &t->service.base, o->reactors ? o->reactors : 1,
                          t->service.limits.buffers, o->verbs, error, size))
                return false;
        target_each_reactor(t, begin_reactor, NULL);
        return true;
}

struct target *target_start(const struct target_options *o, char *error, size_t size)
{
        struct target *t = calloc(1, sizeof(*t));
        bool reloads = o->config && !o->serve;

        snprintf(error, size, "%s", strerror(ENOMEM));
        if (!t)
                return NULL;
        enter(t, CREATING);
        inventory_init(&t->inv);
        pthread_mutex_init(&t->changing, NULL);
        raise_descriptor_limit();
        t->config = reloads ? strdup(o->config) : NULL;
        if (!service_init(&t->service, o, &t->inv, error, size) || (reloads && !t->config) ||
            !start_reactors(t, o, error, size) || !first_config(t, o, error, size)) {
                enter(t, FAILED);
                target_stop(t);
                return NULL;
        }
        note_address(t);
        enter(t, RUNNING);
        return t;
}

const char *target_traddr(const struct target *t)
{
        return t->traddr;
}

uint16_t target_trsvcid(const struct target *t)
{
        return t->trsvcid;
}

unsigned target_connections(const struct target *t)
{
        return atomic_load(&t->service.base.conns);
}

static void count_subsystems(struct target *t, struct metrics_sum *sum)
{
        pthread_rwlock_rdlock(&t->inv.lock);
        for (const struct subsystem *s = t->inv.subsystems; s; s = s->next)
                sum->subsystems[atomic_load(&s->state)]++;
        pthread_rwlock_unlock(&t->inv.lock);
}

char *target_metrics(struct target *t, size_t *len)
{
        const struct nvme_service *s = &t->service;
        struct metrics_sum *sum = calloc(1, sizeof(*sum));
        char *text;

        if (!sum)
                return NULL;
        for (unsigned i = 0; i < t->engine.n_reactors; i++)
                metrics_sum_add(sum, &reactor_own(&t->engine.reactors[i])->metrics);
        sum->timed = s->timed;
        sum->started = s->started;
        sum->connections = atomic_load(&s->base.conns);
        sum->accepted = atomic_load(&s->base.accepted);
        sum->refused_address = atomic_load(&s->base.refused_address);
        sum->refused_target = atomic_load(&s->base.refused_target);
        ctrl_table_count(s->ctrl.table, sum);
        sum->state = target_state(t);
        count_subsystems(t, sum);
        text = metrics_text(sum, len);
        free(sum);
        return text;
}

static void put_port(const struct port *p, char *text, size_t size)
{
        bool v6 = strchr(p->traddr, ':') && p->traddr[0] != '[';
        size_t len = strlen(text);

        snprintf(text + len, size - len, "%s%s%s%s%s:%s", len > 0 ? " " : "",
                 p->trtype == TRTYPE_RDMA ? "rdma:" : "", v6 ? "[" : "", p->traddr, v6 ? "]" : "",
                 p->trsvcid);
}

void target_ports(struct target *t, char *text, size_t size)
{
        text[0] = '\0';
        pthread_rwlock_rdlock(&t->inv.lock);
        for (const struct port *p = t->inv.ports; p; p = p->next)
                put_port(p, text, size);
        pthread_rwlock_unlock(&t->inv.lock);
}

/* --- stop ------------------------------------------------------------------------------------- */

void target_stop(struct target *t)
{
        enter(t, ENDING_LISTEN);
        engine_close(&t->engine);
        enter(t, ENDING_SUBSYSTEMS);
        for (struct subsystem *s = t->inv.subsystems; s; s = s->next)
                subsystem_hurry(s);
        engine_drain(&t->engine);
        enter(t, DESTROYING_SUBSYSTEMS);
        service_fini(&t->service);
        inventory_fini(&t->inv);
        ns_settle();
        enter(t, DESTROYING_GROUPS);
        engine_fini(&t->engine);
        enter(t, DESTROYING);
        close_trace(t->service.journal, &t->trace);
        triggers_free(t->faults);
        pthread_mutex_destroy(&t->changing);
        free(t->config);
        enter(t, STOPPED);
        free(t);
}
