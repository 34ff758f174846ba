/* SPDX-License-Identifier: BSD-3-Clause */
/* SRP's rulebook: what binds initiators (PARTY_HOST) and targets (PARTY_CONTROLLER), a row of rules.def
 * each. Its numbers have nothing to do with those of other books. */
#ifndef NVMF_SRP_WIRE_RULES_H
#define NVMF_SRP_WIRE_RULES_H

#include "pdu/core/rule.h"

enum srp_rule {
        SRP_RULE_NONE = RULE_NONE,
#define RULE(sym, ...) sym,
#include "rules.def"
#undef RULE
        SRP_RULES
};
_Static_assert((unsigned)SRP_RULES <= RULE_CAPACITY, "a rule set has room for all rules");

/* What breaks a rule on request. */
enum {
        SRP_V_IU = 1 << 0,     /* a change of one IU: tables of pdu/srp/machine/spoil.c */
        SRP_V_TWICE = 1 << 1,  /* the same IU, sent once more: likewise */
        SRP_V_TARGET = 1 << 2, /* what the target does, over time */
        SRP_V_CASE = 1 << 3,   /* what a case of the suite sends */
        SRP_V_SPOILS = SRP_V_IU | SRP_V_TWICE,
};

extern const struct rulebook srp_rules;

static inline const struct rule *srp_rule_get(unsigned id)
{
        return rulebook_get(&srp_rules, id);
}

#endif
