/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The discovery log page (Base 2.2 5.1.12.3.1): what a host may use through the port it came in by, or
 * through others (struct discovery_scope). The discovery service itself comes first, then subsystems,
 * then referrals.
 */
#include "pdu/nvme/wire/discovery.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "admin.h"

struct visit {
        const struct ctrl *ctrl;
        const struct port *port;
        void (*entry)(struct visit *v, const struct disc_entry *e);
        uint64_t count;
        const struct window *window;
        uint64_t digest;
        struct discovery_part part; /* local: without referrals */
};

/* An address as TRADDR has it: no name, no brackets, not that of every interface. */
static bool is_address(const char *traddr)
{
        struct in_addr v4;
        struct in6_addr v6;

        if (inet_pton(AF_INET, traddr, &v4) == 1)
                return v4.s_addr != htonl(INADDR_ANY);
        return inet_pton(AF_INET6, traddr, &v6) == 1 && !IN6_IS_ADDR_UNSPECIFIED(&v6);
}

/* What listens by a name, or everywhere, is where the host found it. */
static const char *traddr_of(const struct visit *v, const struct port *p)
{
        const struct ctrl_queue *q = v->ctrl->admin;

        return q && q->traddr && !is_address(p->traddr) ? q->traddr : p->traddr;
}

static uint8_t adrfam_of(const char *traddr)
{
        return strchr(traddr, ':') ? ADRFAM_IPV6 : ADRFAM_IPV4;
}

/* Who asks has come over the device of the port. */
static enum disc_prtype prtype_of(const struct visit *v)
{
        const struct ctrl_queue *q = v->ctrl->admin;

        return q && q->prtype ? q->prtype : PRTYPE_ROCE_V2;
}

static uint16_t number(const char *trsvcid)
{
        unsigned long n = strtoul(trsvcid, NULL, 10);

        return n <= UINT16_MAX ? (uint16_t)n : 0;
}

static void visit_entry(struct visit *v, struct disc_entry *e, uint16_t portid, uint8_t trtype,
                        uint8_t treq)
{
        e->portid = le16(portid);
        e->trtype = trtype;
        e->treq = treq;
        e->asqsz = le16((uint16_t)ctrl_entries_max(v->ctrl->env, 0));
        v->entry(v, e);
        v->count++;
}

/* s: NULL is the discovery service itself. */
static void visit_own(struct visit *v, const struct port *p, uint8_t subtype,
                      const struct subsystem *s)
{
        const char *nqn = s ? s->nqn : NQN_DISCOVERY;
        const char *traddr = traddr_of(v, p);
        bool tells = v->ctrl->env->sqfc_disable && !has_flaw(v->ctrl->env, FLAW_TREQ_SQFC);
        uint8_t sqfc = tells ? TREQ_SQFC : 0;
        uint8_t treq = p->treq;
        struct disc_entry e;

        if (p->trtype == TRTYPE_RDMA)
                disc_entry_rdma(&e, subtype, adrfam_of(traddr), traddr, number(p->trsvcid), nqn,
                                prtype_of(v));
        else
                disc_entry_tcp(&e, subtype, adrfam_of(traddr), traddr, number(p->trsvcid), nqn);
        if (p->trtype != TRTYPE_RDMA)
                e.tsas[0] = p->sectype;
        if (p->trtype != TRTYPE_RDMA && v->ctrl->env->secure) {
                e.tsas[0] = SECTYPE_TLS13;
                treq = v->ctrl->env->secure;
        }
        if (s && s->fixed)
                e.cntlid = le16(CNTLID_STATIC);
        if (subtype == SUBTYPE_CURRENT)
                e.eflags = le16(EFLAGS_EPCSD);
        if (has_flaw(v->ctrl->env, FLAW_TRADDR_EMPTY))
                memset(e.traddr, 0, sizeof(e.traddr));
        else if (has_flaw(v->ctrl->env, FLAW_TRADDR_ANY))
                text_pad(e.traddr, sizeof(e.traddr), "0.0.0.0");
        visit_entry(v, &e, p->id, p->trtype, treq | sqfc);
}

static void visit_referral(struct visit *v, const struct referral *r)
{
        uint8_t subtype = r->subnqn[0] ? SUBTYPE_NVM : SUBTYPE_REFERRAL;
        const char *nqn = r->subnqn[0] ? r->subnqn : NQN_DISCOVERY;
        struct disc_entry e;

        if (r->trtype == TRTYPE_RDMA)
                disc_entry_rdma(&e, subtype, r->adrfam, r->traddr, number(r->trsvcid), nqn,
                                prtype_of(v));
        else
                disc_entry_tcp(&e, subtype, r->adrfam, r->traddr, number(r->trsvcid), nqn);
        visit_entry(v, &e, r->port_id, r->trtype, r->treq);
}

static unsigned entries_each(const struct ctrl_env *env)
{
        if (violates(env, DISC_LISTED))
                return 0;
        return violates(env, DISC_ONE_DYNAMIC) ? 2 : 1;
}

static void visit_subsystems(struct visit *v, const struct port *p)
{
        const struct ctrl *c = v->ctrl;
        unsigned times = entries_each(c->env);

        for (const struct port_subsystem *ps = p->subsystems; ps; ps = ps->next)
                if (v->part.all || subsystem_allows(ps->subsystem, c->m.hostnqn))
                        for (unsigned i = 0; i < times; i++)
                                visit_own(v, p, SUBTYPE_NVM, ps->subsystem);
}

static bool is_within(const struct discovery_scope *s, const struct port *own,
                      const struct port *other)
{
        return s->all_ports && (!s->same_trtype || own->trtype == other->trtype) &&
               (!s->same_traddr || strcmp(own->traddr, other->traddr) == 0) &&
               (!s->same_trsvcid || strcmp(own->trsvcid, other->trsvcid) == 0);
}

static void visit_all(struct visit *v)
{
        const struct inventory *inv = v->ctrl->env->inv;

        if (!v->port)
                return;
        visit_own(v, v->port, SUBTYPE_CURRENT, NULL);
        visit_subsystems(v, v->port);
        for (const struct port *p = inv->ports; p && !v->part.local; p = p->next)
                if (p != v->port && (v->part.all || is_within(&inv->discovery, v->port, p)))
                        visit_subsystems(v, p);
        for (const struct referral *r = v->port->referrals; r && !v->part.local; r = r->next)
                visit_referral(v, r);
}

static void count_entry(struct visit *v, const struct disc_entry *e)
{
        (void)v;
        (void)e;
}

static uint64_t count_entries(const struct ctrl *c, const struct port *port,
                              struct discovery_part part)
{
        struct visit v = { .ctrl = c, .port = port, .entry = count_entry, .part = part };

        visit_all(&v);
        return v.count;
}

uint64_t discovery_log_size(const struct ctrl *c, const struct port *port,
                            struct discovery_part part)
{
        return DISC_HEADER_LEN + count_entries(c, port, part) * DISC_ENTRY_LEN;
}

static void put_entry(struct visit *v, const struct disc_entry *e)
{
        window_put(v->window, DISC_HEADER_LEN + v->count * DISC_ENTRY_LEN, e, sizeof(*e));
}

/* Moves three times in eight. */
static uint64_t restless(uint64_t reads)
{
        return reads / 8 * 3 + (reads % 8 < 3 ? reads % 8 : 3);
}

static uint64_t genctr(const struct ctrl_env *env)
{
        uint64_t reads = 0;

        if (violates(env, DISC_GENCTR))
                reads = atomic_fetch_add(&env->table->log_reads, 1);
        else if (flawed(env->policy, FLAW_DISC_RESTLESS))
                reads = restless(atomic_fetch_add(&env->table->log_reads, 1));
        return env->inv->genctr * (violates(env, DISC_GENCTR_STEP) ? 2 : 1) + reads;
}

void discovery_log(const struct ctrl *c, const struct port *port, struct discovery_part part,
                   const struct window *w)
{
        struct visit v = { .ctrl = c, .port = port, .entry = put_entry, .window = w, .part = part };
        struct disc_header h = { .genctr = le64(genctr(c->env)),
                                 .flags = (uint8_t)((part.local ? DLPF_PORT_LOCAL : 0) |
                                                    (part.all ? DLPF_ALL : 0)) };

        visit_all(&v);
        h.numrec = le64(v.count + (has_flaw(c->env, FLAW_NUMREC_HUGE) ? DISC_NUMREC_END : 0));
        window_put(w, 0, &h, sizeof(h));
}

/* FNV-1a */
static void digest_entry(struct visit *v, const struct disc_entry *e)
{
        const uint8_t *p = (const uint8_t *)e;

        for (size_t i = 0; i < sizeof(*e); i++)
                v->digest = (v->digest ^ p[i]) * UINT64_C(0x100000001b3);
}

uint64_t discovery_view(const struct ctrl *c, const struct port *port)
{
        struct visit v = {
                .ctrl = c,
                .port = port,
                .entry = digest_entry,
                .digest = UINT64_C(0xcbf29ce484222325),
        };

        visit_all(&v);
        return v.digest;
}
