/* SPDX-License-Identifier: BSD-3-Clause */
#include "target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "listen.h"
#include "pdu/io/net.h"

enum {
        REACTORS_MAX = 256,
        DRAIN_MS = 2000,
        R2TS_MAX = 1024, /* open ones of a connection */
        RDMA_IN_CAPSULE_MAX = 65536,
        ICDOFF_MAX = 256, /* a page */
};

struct target {
        struct service service;
        struct inventory inv;
        struct listeners listeners;
        struct reactor *reactors;
        unsigned n_reactors;
        pthread_mutex_t changing; /* one change of the inventory at a time */
        char *config;             /* file, or NULL */
        char traddr[NET_TRADDR];
        uint16_t trsvcid;
};

/* --- limits ----------------------------------------------------------------------------------- */

struct target_limits target_limits_default(void)
{
        return (struct target_limits) {
                .connections = 4096,
                .queue_entries = 1024,
                .queues = 64,
                .controllers = 1024,
                .buffers = 256 << 20,
                .max_transfer = 1 << 20,
                .in_capsule = 16384,
                .maxh2cdata = 1 << 17,
                .rdma_in_capsule = 4096,
                .receives = 8192,
                .ic_timeout = 10000,
                .stall_timeout = 30000,
                .term_timeout = 30000,
                .idle_timeout = 120000,
        };
}

#define DEFAULT(field)                                                                             \
        do {                                                                                       \
                if (l->field == 0)                                                                 \
                        l->field = d.field;                                                        \
        } while (0)

static void fill_in(struct target_limits *l)
{
        const struct target_limits d = target_limits_default();

        DEFAULT(connections);
        DEFAULT(queue_entries);
        DEFAULT(queues);
        DEFAULT(controllers);
        DEFAULT(buffers);
        DEFAULT(max_transfer);
        DEFAULT(in_capsule);
        DEFAULT(maxh2cdata);
        DEFAULT(rdma_in_capsule);
        DEFAULT(receives);
        DEFAULT(ic_timeout);
        DEFAULT(stall_timeout);
        DEFAULT(term_timeout);
        DEFAULT(idle_timeout);
}

/* What no configuration of a machine or of Identify can express; NULL: all is well. */
static const char *check_limits(const struct target_limits *l)
{
        if (l->queue_entries < 2 || l->queue_entries > 65536)
                return "limit queue_entries is not from 2 to 65536";
        if (l->queues > 65535)
                return "limit queues is above 65535";
        if (l->controllers > CNTLID_MAX)
                return "limit controllers is above 65519";
        if (l->max_transfer < 4096 || l->max_transfer > 64 << 20 ||
            (l->max_transfer & (l->max_transfer - 1)) != 0)
                return "limit max_transfer is no power of two from 4K to 64M";
        if (l->in_capsule > FRAMER_IN_PLACE || l->in_capsule % 16 != 0)
                return "limit in_capsule is no multiple of 16 up to 16384";
        if (l->rdma_in_capsule > RDMA_IN_CAPSULE_MAX || l->rdma_in_capsule % 16 != 0)
                return "limit rdma_in_capsule is no multiple of 16 up to 65536";
        if (l->receives < 2)
                return "limit receives is below 2";
        if (l->maxh2cdata < PDU_MAXH2CDATA_MIN || l->maxh2cdata % 4 != 0)
                return "limit maxh2cdata is no multiple of 4 from 4096 on";
        return NULL;
}

/* --- change ----------------------------------------------------------------------------------- */

static void nothing(struct reactor *r, void *arg)
{
        (void)r;
        (void)arg;
}

/* Every reactor has ended the turn it was in: what was taken out of the inventory is in nobody's
 * hands but those that hold a reference. */
static void wait_for_turn(struct target *t)
{
        for (unsigned i = 0; i < t->n_reactors; i++)
                reactor_call(&t->reactors[i], nothing, NULL);
}

static void tell_hosts(struct target *t, const struct plan *p)
{
        struct ctrl_table *table = t->service.ctrl.table;

        for (unsigned i = 0; i < p->n_ns; i++)
                ctrl_table_ns_changed(table, p->ns[i].subsystem, p->ns[i].nsid);
        if (p->discovery)
                ctrl_table_discovery_changed(table);
        ctrl_table_revoke(table, &t->inv);
}

static bool change(struct target *t, const struct config *c, char *error, size_t size)
{
        struct plan p;

        if (!plan_make(&p, &t->inv, c, error, size))
                return false;
        if (!listen_on_new(&t->listeners, &p, error, size)) {
                plan_free(&p);
                return false;
        }
        plan_apply(&p, &t->inv);
        listen_accept_new(&t->listeners, &p);
        listen_drop_old(&t->listeners, &p);
        tell_hosts(t, &p);
        wait_for_turn(t);
        plan_free(&p);
        return true;
}

/* Files may have another size than they had. */
static void measure_subsystem(struct target *t, struct subsystem *s)
{
        for (struct ns *ns = s->ns; ns; ns = ns->next)
                if (ns_measure(ns))
                        ctrl_table_ns_changed(t->service.ctrl.table, s, ns->nsid);
}

/* With t->changing held nobody else changes the lists. */
static void measure_all(struct target *t)
{
        for (struct subsystem *s = t->inv.subsystems; s; s = s->next)
                measure_subsystem(t, s);
}

static bool reload(struct target *t, char *error, size_t size)
{
        struct config c;
        bool ok = true;

        if (t->config) {
                ok = config_load(&c, t->config, error, size) && change(t, &c, error, size);
                config_free(&c);
        }
        if (ok)
                measure_all(t);
        return ok;
}

int target_reload(struct target *t, char *error, size_t size)
{
        bool ok;

        pthread_mutex_lock(&t->changing);
        ok = reload(t, error, size);
        pthread_mutex_unlock(&t->changing);
        return ok ? 0 : -1;
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
        for (uint32_t nsid = 1; ns[nsid - 1]; nsid++)
                if (!config_add_ns(s, nsid, ns[nsid - 1]))
                        return false;
        return true;
}

static bool first_config(struct target *t, const struct target_options *o, char *error, size_t size)
{
        struct config c = { 0 };
        bool ok;

        if (o->serve)
                return change(t, o->serve, error, size);
        if (o->config) {
                ok = config_load(&c, o->config, error, size);
        } else {
                ok = simple_config(&c, o);
                if (!ok)
                        snprintf(error, size, "%s", strerror(ENOMEM));
                ok = ok && config_check(&c, "options", error, size);
        }
        ok = ok && change(t, &c, error, size);
        config_free(&c);
        return ok;
}

static void describe_machine(struct service *s, const struct target_options *o)
{
        const struct target_limits *l = &s->limits;
        unsigned depth =
            l->queue_entries > CTRL_ADMIN_ENTRIES ? l->queue_entries : CTRL_ADMIN_ENTRIES;

        s->tcp = (struct tcp_controller_config) {
                .cpda = o->cpda,
                .hdgst = !o->no_hdgst,
                .ddgst = !o->no_ddgst,
                .maxh2cdata = l->maxh2cdata,
                .io_in_capsule = l->in_capsule,
                .max_transfer = l->max_transfer,
                .limits = { .depth_max = (uint16_t)(depth < 65535 ? depth : 65535),
                            .r2ts_max = R2TS_MAX },
                .policy = &s->policy,
        };
}

static struct rdma_format rdma_format(const struct target_limits *l, const struct target_options *o)
{
        return (struct rdma_format) {
                .icdoff = o->icdoff,
                .in_capsule = o->no_in_capsule ? 0 : l->rdma_in_capsule,
                .msdbd = o->msdbd ? o->msdbd : RDMA_DESCRIPTORS,
        };
}

/* What limits do not say. */
static const char *check_options(const struct target_options *o)
{
        if (o->cpda > PDU_PDA_MAX)
                return "cpda is above 31";
        if (o->icdoff > ICDOFF_MAX)
                return "icdoff is above 256";
        if (o->msdbd > RDMA_DESCRIPTORS)
                return "msdbd is above 16";
        return NULL;
}

static bool set_up_service(struct target *t, const struct target_options *o, char *error,
                           size_t size)
{
        struct service *s = &t->service;
        const char *wrong;

        s->limits = o->limits;
        fill_in(&s->limits);
        wrong = check_options(o);
        if (!wrong)
                wrong = check_limits(&s->limits);
        if (wrong) {
                snprintf(error, size, "%s", wrong);
                return false;
        }
        s->policy = o->policy;
        s->success = !o->no_success;
        s->trace = o->trace;
        s->record = o->record;
        s->quiet = o->quiet;
        s->busy_poll = o->busy_poll;
        s->ctrl = (struct ctrl_env) {
                .inv = &t->inv,
                .limits = &s->limits,
                .policy = &s->policy,
                .sqfc_disable = !o->no_sqfc_disable,
                .rdma = rdma_format(&s->limits, o),
                .table = ctrl_table_new(s->limits.controllers),
        };
        describe_machine(s, o);
        if (!s->ctrl.table)
                snprintf(error, size, "%s", strerror(ENOMEM));
        return s->ctrl.table;
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

static uint64_t buffers_each(const struct target_limits *l, unsigned reactors)
{
        uint64_t least = 2 * (uint64_t)l->max_transfer, each = l->buffers / reactors;

        return each > least ? each : least;
}

static bool start_reactors(struct target *t, unsigned n, char *error, size_t size)
{
        if (n > REACTORS_MAX)
                n = REACTORS_MAX;
        t->reactors = calloc(n, sizeof(*t->reactors));
        for (; t->reactors && t->n_reactors < n; t->n_reactors++)
                if (reactor_start(&t->reactors[t->n_reactors], &t->service,
                                  buffers_each(&t->service.limits, n), t->n_reactors == 0) < 0)
                        break;
        t->listeners.reactors = t->reactors;
        t->listeners.n_reactors = t->n_reactors;
        if (t->n_reactors == n)
                return true;
        snprintf(error, size, "reactor: %s", strerror(t->reactors ? errno : ENOMEM));
        return false;
}

static void note_address(struct target *t)
{
        const struct port *p = t->inv.ports;

        if (!p)
                return;
        snprintf(t->traddr, sizeof(t->traddr), "%s", p->traddr);
        t->trsvcid = (uint16_t)strtoul(p->trsvcid, NULL, 10);
}

struct target *target_start(const struct target_options *o, char *error, size_t size)
{
        struct target *t = calloc(1, sizeof(*t));

        snprintf(error, size, "%s", strerror(ENOMEM));
        if (!t)
                return NULL;
        inventory_init(&t->inv);
        pthread_mutex_init(&t->changing, NULL);
        raise_descriptor_limit();
        t->listeners.service = &t->service;
        t->listeners.verbs = o->verbs;
        t->config = o->config && !o->serve ? strdup(o->config) : NULL;
        if (!set_up_service(t, o, error, size) ||
            !start_reactors(t, o->reactors ? o->reactors : 1, error, size) ||
            !first_config(t, o, error, size)) {
                target_stop(t);
                return NULL;
        }
        note_address(t);
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

static void put_port(const struct port *p, char *text, size_t size)
{
        bool v6 = strchr(p->traddr, ':');
        size_t len = strlen(text);

        snprintf(text + len, size - len, "%s%s%s%s%s:%s", len > 0 ? " " : "",
                 p->trtype == TRTYPE_RDMA ? "rdma:" : "", v6 ? "[" : "", p->traddr, v6 ? "]" : "",
                 p->trsvcid);
}

void target_ports(const struct target *t, char *text, size_t size)
{
        text[0] = '\0';
        for (const struct port *p = t->inv.ports; p; p = p->next)
                put_port(p, text, size);
}

/* --- stop ------------------------------------------------------------------------------------- */

void target_stop(struct target *t)
{
        listen_drop_old(&t->listeners, NULL);
        for (unsigned i = 0; i < t->n_reactors; i++)
                reactor_drain(&t->reactors[i], DRAIN_MS);
        for (unsigned i = 0; i < t->n_reactors; i++)
                reactor_join(&t->reactors[i]);
        free(t->reactors);
        ctrl_table_free(t->service.ctrl.table);
        inventory_fini(&t->inv);
        pthread_mutex_destroy(&t->changing);
        free(t->config);
        free(t);
}
