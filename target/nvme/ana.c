/* SPDX-License-Identifier: BSD-3-Clause */
#include "ana.h"

#include <stdlib.h>
#include <string.h>

#include "admin.h"

_Static_assert((int)ANA_GROUPS == (int)CTRL_NSID_MAX, "one for each namespace, if need be");

enum {
        LSP_RGO = 1 << 8, /* of cdw10 */
        STALE_COUNT = 7,
};

struct ana_view {
        const struct rule_policy *policy;
        const char *hostnqn;
        _Atomic uint8_t state[ANA_GROUPS + 1];
        _Atomic uint16_t group[ANA_GROUPS + 1]; /* by NSID; 0: not attached */
        uint16_t members[ANA_GROUPS + 1];
        uint64_t changes, count[ANA_GROUPS + 1]; /* of the log, and of each group */
};

static bool breaks(const struct ana_view *v, enum rule_id rule)
{
        return v->policy && rule_in(&v->policy->violated, rule);
}

/* --- what is reported ------------------------------------------------------------------------- */

static const struct ana_states *states_of(const struct subsystem *s, const struct port *port)
{
        static const struct ana_states none;
        const struct port_subsystem *ps = port ? port->subsystems : NULL;

        while (ps && ps->subsystem != s)
                ps = ps->next;
        return ps ? &ps->ana : &none;
}

void ana_states_pass(struct ana_states *to, const struct ana_states *was, uint64_t now)
{
        for (unsigned g = 1; g <= ANA_GROUPS; g++) {
                uint8_t had = was->next[g] ? was->next[g] : was->of[g], gets = to->of[g];

                if (gets == had) {
                        to->of[g] = was->of[g];
                        to->next[g] = was->next[g];
                        to->until[g] = was->until[g];
                } else if (to->ms[g] && gets != ANA_CHANGE) {
                        to->of[g] = ANA_CHANGE;
                        to->next[g] = gets;
                        to->until[g] = now + to->ms[g];
                }
        }
}

static void settle(struct ana_states *states, uint64_t now, uint64_t *due)
{
        for (unsigned g = 1; g <= ANA_GROUPS; g++)
                if (states->next[g] && now >= states->until[g]) {
                        states->of[g] = states->next[g];
                        states->next[g] = 0;
                } else if (states->next[g] && (!*due || states->until[g] < *due)) {
                        *due = states->until[g];
                }
}

uint64_t ana_states_settle(struct inventory *inv, uint64_t now)
{
        uint64_t due = 0;

        for (struct port *p = inv->ports; p; p = p->next)
                for (struct port_subsystem *ps = p->subsystems; ps; ps = ps->next)
                        settle(&ps->ana, now, &due);
        return due;
}

void ana_reset(struct ana_view *v)
{
        v->changes = breaks(v, ANA_COUNT_RESET) ? STALE_COUNT : 0;
        for (unsigned g = 0; g <= ANA_GROUPS; g++)
                v->count[g] = 1;
}

struct ana_view *ana_view_new(const struct subsystem *s, const struct port *port,
                              const char *hostnqn, const struct rule_policy *policy)
{
        struct ana_view *v = calloc(1, sizeof(*v));

        if (!v)
                return NULL;
        v->policy = policy;
        v->hostnqn = hostnqn;
        ana_update(v, s, port, 0);
        ana_reset(v);
        return v;
}

void ana_view_free(struct ana_view *v)
{
        free(v);
}

/* The groups in which something has changed. */
struct changed {
        bool group[ANA_GROUPS + 1];
        bool any;
};

static void touch(struct ana_view *v, struct changed *c, unsigned group)
{
        if (group == 0 || c->group[group])
                return;
        c->group[group] = c->any = true;
        if (!breaks(v, ANA_CHANGES))
                v->count[group] = v->count[group] + 1 ? v->count[group] + 1 : 1;
}

static void move(struct ana_view *v, struct changed *c, unsigned nsid, unsigned group,
                 struct ana_news *news)
{
        unsigned was = v->group[nsid];

        if (was == group)
                return;
        touch(v, c, was);
        touch(v, c, group);
        v->group[nsid] = (uint16_t)group;
        if (was && group)
                news->told |= !breaks(v, ANA_MOVED);
        else
                news->joined = true;
}

static void update_groups(struct ana_view *v, struct changed *c, const struct subsystem *s,
                          uint16_t cntlid, struct ana_news *news)
{
        uint16_t now[ANA_GROUPS + 1] = { 0 };

        for (const struct ns *ns = ns_attached_from(s->ns, v->hostnqn, cntlid); ns;
             ns = ns_attached_from(ns->next, v->hostnqn, cntlid))
                now[ns->nsid] = (uint16_t)nvme_ns(ns)->anagrpid;
        memset(v->members, 0, sizeof(v->members));
        for (unsigned nsid = 1; nsid <= ANA_GROUPS; nsid++) {
                move(v, c, nsid, now[nsid], news);
                v->members[now[nsid]]++;
        }
}

/* 8.1.1.7: as long as there is somebody whom it was told. */
static bool is_lost(const struct ana_view *v, unsigned group, unsigned before)
{
        return v->state[group] == ANA_PERSISTENT_LOSS && before > 0 && !breaks(v, ANA_LOSS_STAYS);
}

static void update_state(struct ana_view *v, struct changed *c, unsigned group, uint8_t state,
                         unsigned before, struct ana_news *news)
{
        if (v->state[group] == state || is_lost(v, group, before))
                return;
        v->state[group] = state;
        if (v->members[group] == 0)
                return;
        touch(v, c, group);
        if (before == 0) /* it is seen because a namespace was attached */
                return;
        news->state = true;
        news->told |= !breaks(v, ANA_EVENT);
}

struct ana_news ana_update(struct ana_view *v, const struct subsystem *s, const struct port *port,
                           uint16_t cntlid)
{
        const struct ana_states *states = states_of(s, port);
        struct ana_news news = { 0 };
        struct changed c = { 0 };
        uint16_t before[ANA_GROUPS + 1];

        memcpy(before, v->members, sizeof(before));
        update_groups(v, &c, s, cntlid, &news);
        for (unsigned g = 1; g <= ANA_GROUPS; g++)
                update_state(v, &c, g, states->of[g], before[g], &news);
        v->changes += c.any && !breaks(v, ANA_CHANGES);
        return news;
}

/* --- what it does to commands ----------------------------------------------------------------- */

/* Of a namespace that has just come the view does not know yet. */
uint32_t ana_group(const struct ana_view *v, const struct ns *ns)
{
        uint32_t group = v ? v->group[ns->nsid] : 0;

        return v && group == 0 ? nvme_ns(ns)->anagrpid : group;
}

uint8_t ana_state(const struct ana_view *v, const struct ns *ns)
{
        return v ? v->state[ana_group(v, ns)] : ANA_OPTIMIZED;
}

/* A rule that is broken has another status in place of the right one. */
static uint16_t status_or(const struct ana_view *v, enum rule_id rule, uint16_t right,
                          uint16_t wrong)
{
        return breaks(v, rule) ? wrong : right;
}

static uint16_t status_of(const struct ana_view *v, uint8_t state)
{
        switch (state) {
        case ANA_INACCESSIBLE:
                return status_or(v, ANA_INACCESSIBLE_STATUS, NVME_ANA_INACCESSIBLE, 0);
        case ANA_PERSISTENT_LOSS:
                return status_or(v, ANA_LOSS_STATUS, NVME_ANA_LOSS, NVME_ANA_INACCESSIBLE);
        case ANA_CHANGE:
                return status_or(v, ANA_TRANSITION_STATUS, NVME_ANA_TRANSITION,
                                 NVME_ANA_INACCESSIBLE);
        case ANA_NONOPTIMIZED:
                return status_or(v, ANA_ACCESSIBLE, 0, NVME_ANA_INACCESSIBLE);
        default:
                return 0;
        }
}

uint16_t ana_status(const struct ana_view *v, const struct ns *ns)
{
        return v ? status_of(v, ana_state(v, ns)) : 0;
}

bool ana_hides_capacity(const struct ana_view *v, const struct ns *ns)
{
        uint8_t state = ana_state(v, ns);

        return (state == ANA_INACCESSIBLE || state == ANA_PERSISTENT_LOSS) &&
               !breaks(v, ANA_CAPACITY);
}

/* --- features --------------------------------------------------------------------------------- */

static uint16_t feature_status(const struct ana_view *v, const struct ns *ns)
{
        switch (ana_state(v, ns)) {
        case ANA_INACCESSIBLE:
                return NVME_ANA_INACCESSIBLE;
        case ANA_PERSISTENT_LOSS:
                return NVME_ANA_LOSS;
        case ANA_CHANGE:
                return NVME_ANA_TRANSITION;
        default:
                return 0;
        }
}

static bool needs_namespace(uint8_t fid)
{
        return feature_is_of_ns(fid) || fid == FEAT_RESERVATION_MASK ||
               fid == FEAT_RESERVATION_PERSISTENCE;
}

static uint16_t of_all(const struct ctrl *c)
{
        uint16_t status = 0;

        for (const struct ns *ns = ctrl_first_ns(c); ns && !status; ns = ctrl_next_ns(c, ns))
                status = feature_status(c->ana, ns);
        return breaks(c->ana, ANA_FEATURE_ALL) ? 0 : status;
}

uint16_t ana_features(const struct admin *a)
{
        const struct ctrl *c = a->ctrl;
        bool set = a->r->sqe.opc == NVME_SET_FEATURES;
        uint32_t nsid = le32_get(a->r->sqe.nsid);
        const struct ns *ns = c->ana ? ctrl_ns(c, nsid) : NULL;
        uint16_t status = ns ? feature_status(c->ana, ns) : 0;

        if (c->ana && set && nsid == NSID_ALL)
                return of_all(c);
        if (!status || breaks(c->ana, set ? ANA_FEATURE_SET : ANA_FEATURE_GET))
                return 0;
        return needs_namespace((uint8_t)le32_get(a->r->sqe.cdw10)) ||
                       (set && status == NVME_ANA_LOSS)
                   ? status
                   : 0;
}

/* --- the log page ----------------------------------------------------------------------------- */

static uint32_t groups_in_use(const struct subsystem *s)
{
        bool seen[ANA_GROUPS + 1] = { [0] = true };
        uint32_t n = 0;

        for (const struct ns *ns = s->ns; ns; ns = ns->next) {
                uint32_t group = nvme_ns(ns)->anagrpid;

                n += !seen[group];
                seen[group] = true;
        }
        return n;
}

uint32_t ana_groups_most(const struct ctrl *c)
{
        uint64_t rest = sizeof(struct log_ana) + CTRL_NSID_MAX * sizeof(le32_t);
        uint64_t room = c->env->limits->max_transfer;
        uint64_t most = room > rest ? (room - rest) / sizeof(struct ana_group) : ANA_GROUPS;

        return most < ANA_GROUPS && most >= groups_in_use(c->subsystem) ? (uint32_t)most
                                                                        : ANA_GROUPS;
}

static bool groups_only(const struct admin *a)
{
        return le32_get(a->r->sqe.cdw10) & LSP_RGO;
}

struct layout {
        uint32_t members[ANA_GROUPS + 1];
        uint64_t at[ANA_GROUPS + 1]; /* of the group's descriptor */
        uint64_t size;
        uint16_t groups;
};

static void lay_out(const struct admin *a, struct layout *l)
{
        memset(l->members, 0, sizeof(l->members));
        for (const struct ns *ns = ctrl_first_ns(a->ctrl); ns; ns = ctrl_next_ns(a->ctrl, ns))
                l->members[ana_group(a->ctrl->ana, ns)]++;
        l->size = sizeof(struct log_ana);
        l->groups = 0;
        for (unsigned g = 1; g <= ANA_GROUPS; g++) {
                if (l->members[g] == 0)
                        continue;
                l->at[g] = l->size;
                l->size += sizeof(struct ana_group) + (groups_only(a) ? 0 : l->members[g] * 4);
                l->groups++;
        }
}

/* As hosts reckon it by NANAGRPID and MNAN, and read it to the end piece by piece. */
uint64_t ana_log_size(const struct admin *a)
{
        (void)a;
        return sizeof(struct log_ana) + ANA_GROUPS * (sizeof(struct ana_group) + sizeof(le32_t));
}

bool ana_log_offset(const struct admin *a, uint64_t index, uint64_t *offset)
{
        struct layout l;
        unsigned g = 0;

        lay_out(a, &l);
        *offset = 0;
        if (index > l.groups)
                return false;
        for (; index > 0; index--) {
                do
                        g++;
                while (l.members[g] == 0);
                *offset = l.at[g];
        }
        return true;
}

static void put_group(const struct admin *a, const struct layout *l, unsigned g,
                      const struct window *w)
{
        const struct ana_view *v = a->ctrl->ana;
        struct ana_group group = { .grpid = le32(g), .chgcnt = le64(v->count[g]) };

        group.nnsids = le32(groups_only(a) ? 0 : l->members[g]);
        group.state = v->state[g];
        window_put(w, l->at[g], &group, sizeof(group));
}

/* A group's identifiers rise since its subsystem's list does. */
static void put_nsids(const struct admin *a, struct layout *l, const struct window *w)
{
        for (const struct ns *ns = ctrl_first_ns(a->ctrl); ns; ns = ctrl_next_ns(a->ctrl, ns)) {
                uint64_t *at = &l->at[ana_group(a->ctrl->ana, ns)];
                le32_t nsid = le32(ns->nsid);

                window_put(w, *at + sizeof(struct ana_group), &nsid, sizeof(nsid));
                *at += sizeof(nsid);
        }
}

void ana_log(struct admin *a, const struct window *w)
{
        struct log_ana header = { 0 };
        struct layout l;

        pthread_mutex_lock(&a->ctrl->lock);
        lay_out(a, &l);
        header.chgcnt = le64(a->ctrl->ana->changes);
        header.ngrps = le16(l.groups);
        window_put(w, 0, &header, sizeof(header));
        for (unsigned g = 1; g <= ANA_GROUPS; g++)
                if (l.members[g] > 0)
                        put_group(a, &l, g, w);
        if (!groups_only(a))
                put_nsids(a, &l, w);
        pthread_mutex_unlock(&a->ctrl->lock);
}
