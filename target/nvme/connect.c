/* SPDX-License-Identifier: BSD-3-Clause */
/* Connect (Base 2.2 6.3): makes a controller, or joins one. Under the locks of inventory and table.
 */
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "pdu/core/plant.h"

struct attempt {
        struct admin *a;
        const struct connect_cmd *cmd;
        struct connect_data data;
        uint32_t ipo; /* DW0 of a failure */
};

static uint16_t refuse(struct attempt *at, enum rule_id rule)
{
        uint16_t status = rule_refuse(at->a->env->policy, rule);

        if (status)
                at->ipo = rule_fault(rule).place;
        return status;
}

static bool names_discovery(const struct attempt *at)
{
        char name[NQN_FIELD];

        if (PLANTED(NQN_END)) /* up to its NUL, wherever that is */
                for (size_t i = 0;
                     (name[i] =
                          ((const char *)&at->data)[offsetof(struct connect_data, subnqn) + i]);
                     i++)
                        ;
        return strcmp(at->data.subnqn, NQN_DISCOVERY) == 0;
}

/* With the syntax waived: compared as long as our name is, as those do who forget the end of it. */
static struct subsystem *subsystem_at_start(const struct port *port, const char *nqn)
{
        const struct port_subsystem *p = port->subsystems;

        while (p && strncmp(p->subsystem->nqn, nqn, strlen(p->subsystem->nqn)) != 0)
                p = p->next;
        return p ? p->subsystem : NULL;
}

/* NULL and 0: the discovery service. */
static uint16_t find_subsystem(struct attempt *at, struct subsystem **s)
{
        const struct port *port = at->a->port;
        uint16_t status;

        *s = names_discovery(at) ? NULL : port_subsystem(port, at->data.subnqn);
        if (!*s && waives(at->a->env, FAB_CONNECT_SUBNQN_SYNTAX))
                *s = subsystem_at_start(port, at->data.subnqn);
        if (*s || names_discovery(at))
                return 0;
        status = refuse(at, FAB_CONNECT_SUBNQN);
        if (!status && port->subsystems)
                *s = port->subsystems->subsystem;
        return status;
}

unsigned ctrl_queues_max(const struct ctrl_env *env, const struct subsystem *s)
{
        if (s && s->administrative && !flawed(env->policy, FLAW_ADMIN_QUEUES))
                return 0;
        return s && s->qid_max > 0 && s->qid_max < env->limits->queues ? s->qid_max
                                                                       : env->limits->queues;
}

static struct controller_config machine_config(const struct ctrl_env *env,
                                               const struct subsystem *s)
{
        unsigned queues = ctrl_queues_max(env, s);

        return (struct controller_config) {
                .type = s ? CONTROLLER_IO : CONTROLLER_DISCOVERY,
                .persistent = true,
                .mqes = (uint16_t)(env->limits->queue_entries - 1),
                .queues_max = s || waives(env, FAB_DISC_IO) ? (uint16_t)queues : 0,
                .kas = KAS_UNITS,
                .kato_min = KATO_MIN,
                .idle_timeout = env->limits->idle_timeout,
                .ready_time = s ? env->limits->ready_time : 0,
                .aerl = AER_MAX - 1,
                .whole = s && s->whole,
                .command_based = s && s->whole,
                .administrative = s && s->administrative,
                .ana = s && s->ana,
                .policy = env->policy,
        };
}

static struct ctrl *ctrl_new(const struct attempt *at, struct subsystem *s)
{
        struct controller_config cfg = machine_config(at->a->env, s);
        struct ctrl *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        pthread_mutex_init(&c->lock, NULL);
        c->env = at->a->env;
        c->subsystem = s ? subsystem_get(s) : NULL;
        c->port_id = at->a->port->id;
        c->trtype = at->a->port->trtype;
        c->single_queues = at->cmd->cattr & CATTR_INDIVIDUAL_DELETE;
        controller_init(&c->m, &cfg, at->a->now);
        memcpy(c->m.hostid, at->data.hostid, sizeof(c->m.hostid));
        memcpy(c->m.hostnqn, at->data.hostnqn, sizeof(c->m.hostnqn));
        memcpy(c->m.subnqn, at->data.subnqn, sizeof(c->m.subnqn));
        if (s && s->whole)
                controller_subsystem_state(&c->m, atomic_load(&s->shut_down),
                                           atomic_load(&s->was_reset));
        settings_begin(c, at->a->now);
        auth_set_up(c, s);
        if (s && s->ana)
                c->ana = ana_view_new(s, at->a->port, c->m.hostnqn, at->a->env->policy);
        if (cfg.ana && !c->ana) {
                ctrl_free(c);
                return NULL;
        }
        return c;
}

static uint16_t admin_sqsize_max(const struct ctrl_env *env)
{
        unsigned entries = env->limits->queue_entries;

        if (entries > CTRL_ADMIN_ENTRIES)
                entries = CTRL_ADMIN_ENTRIES;
        return (uint16_t)((entries < ADMIN_SQ_MIN ? ADMIN_SQ_MIN : entries) - 1);
}

unsigned ctrl_entries_max(const struct ctrl_env *env, uint16_t qid)
{
        return qid ? env->limits->queue_entries : admin_sqsize_max(env) + 1u;
}

static void join(const struct attempt *at, struct ctrl *c, uint16_t sqsize_max)
{
        struct ctrl_queue *q = at->a->queue;
        bool unasked = violates(at->a->env, FAB_SQFC_UNASKED); /* and kept to from here on */

        q->ctrl = c;
        q->qid = le16_get(at->cmd->qid);
        q->connected = true;
        q->success_ok = at->a->env->sqfc_disable && (at->cmd->cattr & CATTR_DISABLE_SQFC);
        sq_init(&q->sq, connect_entries(at->cmd, sqsize_max), q->success_ok || unasked);
        auth_begin(c, q, at->a->now);
        ctrl_add_queue(c, q);
}

/* A response would do for either of them (8.3.4). */
static bool is_of_same_name(const struct attempt *at, const struct subsystem *s)
{
        return subsystem_keys(s, at->data.hostnqn)->host.len &&
               strcmp(at->data.hostnqn, at->data.subnqn) == 0;
}

/* Names can be taken by anybody: another address is the same host if it has proven its key. */
static bool is_same_host(const struct ctrl *c, const struct attempt *at, bool here)
{
        bool proven = c->auth.keys.host.len > 0 && c->admin && !c->admin->unproven;

        return strcmp(c->m.hostnqn, at->data.hostnqn) == 0 && (here || proven);
}

/* One host, one address, one subsystem leave some of them for others. */
static bool has_room(const struct attempt *at, const struct subsystem *s)
{
        const struct target_limits *l = at->a->env->limits;
        const struct ctrl_table *t = at->a->env->table;
        const char *peer = at->a->queue->peer;
        unsigned host = 0, place = 0, unproven = 0, subsystem = 0;

        for (const struct ctrl *c = t->first; c; c = c->next) {
                bool here = peer && c->admin && c->admin->peer && strcmp(c->admin->peer, peer) == 0;

                host += is_same_host(c, at, here);
                place += here;
                unproven += here && c->admin->unproven;
                subsystem += c->subsystem == s;
        }
        return t->count < t->max && host < l->host_controllers && place < l->host_controllers &&
               subsystem < l->subsystem_controllers && unproven < l->unproven;
}

/*
 * 6.3: any controller of the dynamic model; of the static one any (FFFEh) or this one. 0: it can't be
 * had, and *status says why.
 */
static uint16_t cntlid_for(struct attempt *at, const struct subsystem *s, uint16_t *status)
{
        struct ctrl_table *t = at->a->env->table;
        uint16_t asked = le16_get(at->data.cntlid);
        bool taken;

        if (s && s->fixed && asked == CNTLID_DYNAMIC)
                *status = refuse(at, FAB_CONNECT_CNTLID_STATIC);
        if (*status)
                return 0;
        if (has_flaw(at->a->env, FLAW_CNTLID_REUSED))
                return ctrl_table_cntlid(t, s) % 4 + CNTLID_MIN;
        if (!s || !s->fixed || asked > CNTLID_MAX || violates(at->a->env, FAB_CONNECT_CNTLID_SAME))
                return ctrl_table_cntlid(t, s);
        taken = ctrl_table_has(t, s, asked);
        if (asked < s->cntlid_min || asked > s->cntlid_max)
                *status = refuse(at, FAB_CONNECT_HOST);
        else if (taken)
                *status = refuse(at, FAB_CONNECT_TAKEN);
        if (*status)
                return 0;
        return taken ? ctrl_table_cntlid(t, s) : asked;
}

static uint16_t connect_admin(struct attempt *at)
{
        const struct ctrl_env *env = at->a->env;
        uint16_t max = admin_sqsize_max(env);
        struct subsystem *s;
        struct ctrl *c;
        uint16_t status;

        status = find_subsystem(at, &s);
        if (!status && s && !subsystem_allows(s, at->data.hostnqn))
                status = refuse(at, FAB_CONNECT_HOST);
        if (!status && s && is_of_same_name(at, s))
                status = refuse(at, FAB_CONNECT_SAME_NQN);
        if (status)
                return status;
        if (!has_room(at, s)) {
                metric_add(&env->table->refused, 1);
                return NVME_CONNECT_BUSY;
        }
        c = ctrl_new(at, s);
        if (!c)
                return NVME_CONNECT_BUSY;
        status = controller_connect_kato(&c->m, le32_get(at->cmd->kato));
        if (status)
                at->ipo = offsetof(struct connect_cmd, kato);
        c->m.cntlid = status ? 0 : cntlid_for(at, s, &status);
        if (c->m.cntlid == 0) {
                ctrl_free(c);
                return status ? status : NVME_CONNECT_BUSY;
        }
        ctrl_table_add(env->table, c);
        join(at, c, max);
        c->view = is_discovery(c) ? discovery_view(c, at->a->port) : 0;
        return 0;
}

static bool is_host_of(const struct attempt *at, const struct ctrl *c)
{
        return strcmp(c->m.hostnqn, at->data.hostnqn) == 0 &&
               memcmp(c->m.hostid, at->data.hostid, sizeof(c->m.hostid)) == 0;
}

/*
 * The controller that an I/O queue means: by SUBNQN and CNTLID. If there is none, the host's own
 * one that only SUBNQN misses (or, with the rule waived, only CNTLID).
 */
static struct ctrl *find_ctrl(const struct attempt *at)
{
        const struct ctrl_env *env = at->a->env;
        uint16_t cntlid = le16_get(at->data.cntlid);
        bool any = !rule_refuse(env->policy, FAB_CONNECT_CNTLID_IO);
        struct ctrl *near = NULL;

        for (struct ctrl *c = env->table->first; c; c = c->next) {
                bool same = strcmp(c->m.subnqn, at->data.subnqn) == 0;

                if (same && c->m.cntlid == cntlid)
                        return c;
                if ((c->m.cntlid == cntlid || (same && any)) && is_host_of(at, c))
                        near = c;
        }
        return near;
}

static bool qid_in_use(const struct ctrl *c, uint16_t qid)
{
        for (const struct ctrl_queue *q = c->queues; q; q = q->next)
                if (q->qid == qid && !q->detached)
                        return true;
        return false;
}

static bool terminated(const char nqn[NQN_FIELD])
{
        return memchr(nqn, '\0', NQN_FIELD);
}

static bool names_host(const struct port *port, const char *nqn)
{
        for (const struct port_subsystem *ps = port->subsystems; ps; ps = ps->next)
                for (const struct host_entry *h = ps->subsystem->hosts; h; h = h->next)
                        if (strcmp(h->nqn, nqn) == 0)
                                return true;
        return false;
}

/* Names that the configuration gives are names, whatever they look like: nvmetcli's own examples
 * are called "testnqn" and "hostnqn". Unless it is strict, the target takes what hosts call themselves as
 * it comes: SPDK's programs have no name. */
static struct rule_policy policy_for(const struct attempt *at)
{
        struct rule_policy p =
            at->a->env->policy ? *at->a->env->policy : (struct rule_policy) { 0 };
        const struct port *port = at->a->port;
        const struct subsystem *s =
            terminated(at->data.subnqn) ? port_subsystem(port, at->data.subnqn) : NULL;

        if (s)
                rule_add(&p.waived, FAB_CONNECT_SUBNQN_SYNTAX);
        if (s ? s->fixed : !names_discovery(at)) /* cntlid_for(), or nobody's */
                rule_add(&p.waived, FAB_CONNECT_CNTLID_DYN);
        if (terminated(at->data.hostnqn) &&
            (!at->a->env->strict || names_host(port, at->data.hostnqn)))
                rule_add(&p.waived, FAB_CONNECT_HOSTNQN_SYNTAX);
        return p;
}

static uint16_t join_io(struct attempt *at, struct ctrl *c)
{
        struct rule_policy policy = policy_for(at);
        uint16_t status =
            PLANTED(QID_INDEX) && c->changed_ns[le16_get(at->cmd->qid)] ? NVME_CONNECT_PARAM : 0;

        status = connect_check(at->cmd, &at->data, &c->m, c->m.cfg.mqes, &policy, &at->ipo);

        if (!status && c->port_id != at->a->port->id) {
                at->ipo = rule_fault(FAB_CONNECT_CNTLID_IO).place;
                status = NVME_CONNECT_PARAM;
        }
        if (!status && at->a->queue->tls && violates(at->a->env, TLS_ALL_QUEUES))
                status = NVME_AUTH_REQUIRED;
        if (!status && qid_in_use(c, le16_get(at->cmd->qid)))
                status = refuse(at, FAB_CONNECT_QID_USED);
        if (!status)
                join(at, c, c->m.cfg.mqes);
        if (PLANTED(IO_REF) && status)
                subsystem_get(c->subsystem);
        return status;
}

static uint16_t connect_io(struct attempt *at)
{
        struct ctrl *c = find_ctrl(at);
        struct subsystem *s;
        uint16_t status;

        if (!c) {
                status = find_subsystem(at, &s);
                at->ipo = rule_fault(status ? FAB_CONNECT_SUBNQN : FAB_CONNECT_CNTLID_IO).place;
                return NVME_CONNECT_PARAM;
        }
        pthread_mutex_lock(&c->lock);
        status = join_io(at, c);
        pthread_mutex_unlock(&c->lock);
        return status;
}

/* FAB_CONNECT_NO_LOG broken: everybody's error log has it. */
static void log_failed_connect(const struct attempt *at, uint16_t status)
{
        for (struct ctrl *c = at->a->env->table->first; c; c = c->next) {
                pthread_mutex_lock(&c->lock);
                ctrl_add_error(c, le16_get(at->cmd->qid), &at->a->r->sqe, status);
                pthread_mutex_unlock(&c->lock);
        }
}

/* Over RDMA the connect request has named queue and size already. */
static uint16_t check_private_data(struct attempt *at)
{
        const struct rdma_request *rdma = at->a->queue->rdma;
        uint16_t status = 0;

        if (rdma && le16_get(rdma->qid) != le16_get(at->cmd->qid))
                status = refuse(at, RDMA_REQ_SAME_QID);
        if (rdma && !status && le16_get(rdma->hsqsize) != le16_get(at->cmd->sqsize))
                status = refuse(at, RDMA_REQ_SQSIZE);
        return status;
}

static uint16_t connect_locked(struct attempt *at)
{
        uint16_t qid = le16_get(at->cmd->qid), status;
        uint16_t max = qid ? UINT16_MAX : admin_sqsize_max(at->a->env);
        struct rule_policy policy = policy_for(at);

        if (PLANTED(NQN_END))
                names_discovery(at);
        if (has_flaw(at->a->env, FLAW_HOSTNQN_LONG) && at->data.hostnqn[NQN_MAX - 1])
                return NVME_CONNECT_PARAM;
        if (violates(at->a->env, FAB_NQN_BYTES) && (uint8_t)at->data.hostnqn[13] >= 0x80) {
                at->ipo = CONNECT_IATTR_DATA | offsetof(struct connect_data, hostnqn);
                return NVME_CONNECT_PARAM;
        }
        if (has_flaw(at->a->env, FLAW_CONNECT_STRICT) &&
            (le16_get(at->cmd->nvmsetid) || at->cmd->cattr & 3))
                return NVME_CONNECT_PARAM;
        status = connect_check(at->cmd, &at->data, NULL, max, &policy, &at->ipo);
        if (!status)
                status = check_private_data(at);
        if (status)
                return status;
        /* with the syntax rules waived the names may be without end */
        at->data.subnqn[NQN_FIELD - 1] = at->data.hostnqn[NQN_FIELD - 1] = '\0';
        return qid ? connect_io(at) : connect_admin(at);
}

uint16_t admin_connect(struct admin *a)
{
        struct attempt at = { .a = a, .cmd = &a->r->sqe.connect };
        uint32_t len = a->r->len < sizeof(at.data) ? a->r->len : (uint32_t)sizeof(at.data);
        uint16_t status;

        if (a->queue->connected && has_flaw(a->env, FLAW_CONNECT_ANOTHER))
                return 0;
        if (a->queue->connected) /* since it was admitted, or it is waived */
                return rule_refuse(a->env->policy, FAB_CONNECT_ONCE);
        if (a->r->data)
                memcpy(&at.data, a->r->data, len);
        atomic_store(&a->env->table->inv, a->env->inv);
        pthread_rwlock_rdlock(&a->env->inv->lock);
        pthread_mutex_lock(&a->env->table->lock);
        status = connect_locked(&at);
        if (status && violates(a->env, FAB_CONNECT_NO_LOG))
                log_failed_connect(&at, status);
        pthread_mutex_unlock(&a->env->table->lock);
        pthread_rwlock_unlock(&a->env->inv->lock);
        if (!status)
                a->verdict = CTRL_CONNECTED;
        a->r->cqe.dw0 = le32(status ? at.ipo : a->queue->ctrl->m.cntlid | auth_demand(a->queue));
        return status;
}
