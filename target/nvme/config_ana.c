/* SPDX-License-Identifier: BSD-3-Clause */
/* What a configuration says of ANA groups: see config.h. */
#include <stdlib.h>
#include <string.h>

#include "config.h"

_Static_assert(ANA_OPTIMIZED == 1, "what a new listener has");

uint32_t config_ana_group(const struct config_ns *ns)
{
        return ns->anagrpid ? ns->anagrpid : ANA_GROUP_FIRST;
}

void config_ana_states(const struct config_port *p, const char *nqn, struct ana_states *states)
{
        *states = (struct ana_states) { 0 };
        memset(states->of, ANA_OPTIMIZED, sizeof(states->of));
        for (unsigned own = 0; own < 2; own++)
                for (unsigned i = 0; i < p->n_ana; i++) {
                        const struct config_ana *a = &p->ana[i];

                        if (own ? strcmp(a->nqn, nqn) != 0 : a->nqn[0])
                                continue;
                        for (uint32_t g = a->grpid; g <= (a->grpid ? a->grpid : ANA_GROUPS); g++) {
                                states->of[g] = a->state;
                                states->ms[g] = a->transition;
                        }
                }
}

static void remove_states(struct config_port *p, const char *nqn, uint32_t grpid)
{
        for (unsigned i = p->n_ana; i-- > 0;)
                if (strcmp(p->ana[i].nqn, nqn) == 0 && (grpid == 0 || p->ana[i].grpid == grpid))
                        memmove(&p->ana[i], &p->ana[i + 1], (--p->n_ana - i) * sizeof(p->ana[0]));
}

void config_ana_remove(struct config_port *p, const char *nqn)
{
        remove_states(p, nqn, 0);
}

/* What concerns all groups comes first: it was forgotten what there was before. */
bool config_ana_pass(struct config_port *p, const char *nqn, uint32_t grpid, uint8_t state,
                     uint16_t transition)
{
        struct config_ana *more;

        remove_states(p, nqn, grpid);
        more = realloc(p->ana, (p->n_ana + 1) * sizeof(*more));
        if (!more)
                return false;
        p->ana = more;
        more = &p->ana[p->n_ana++];
        *more = (struct config_ana) { .grpid = grpid, .state = state, .transition = transition };
        strncpy(more->nqn, nqn, sizeof(more->nqn) - 1);
        return true;
}

bool config_ana_set(struct config_port *p, const char *nqn, uint32_t grpid, uint8_t state)
{
        return config_ana_pass(p, nqn, grpid, state, 0);
}

static bool names(const struct config_port *p, const struct config_subsystem *s)
{
        return config_find_string(p->subsystems, p->n_subsystems, s->nqn) >= 0;
}

void config_ana_report(struct config *c)
{
        for (unsigned i = 0; i < c->n_subsystems; i++) {
                struct config_subsystem *s = &c->subsystems[i];

                for (unsigned k = 0; k < s->n_ns; k++)
                        s->ana |= s->ns[k].anagrpid > 0;
                for (unsigned k = 0; k < c->n_ports; k++)
                        s->ana |= c->ports[k].n_ana > 0 && names(&c->ports[k], s);
        }
}
