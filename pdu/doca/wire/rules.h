/* SPDX-License-Identifier: BSD-3-Clause */
/* The rulebook of DOCA's storage protocol: what binds storage services (PARTY_HOST) and targets (PARTY_CONTROLLER), a row
 * of rules.def each. Its numbers have nothing to do with those of other books. */
#ifndef NVMF_DOCA_WIRE_RULES_H
#define NVMF_DOCA_WIRE_RULES_H

#include "pdu/core/rule.h"

enum doca_rule {
        DOCA_RULE_NONE = RULE_NONE,
#define RULE(sym, ...) sym,
#include "rules.def"
#undef RULE
        DOCA_RULES
};
_Static_assert((unsigned)DOCA_RULES <= RULE_CAPACITY, "a rule set has room for all rules");

/* What breaks a rule on request. */
enum {
        DOCA_V_CONTROL =
            1 << 0,         /* a change of one control message: table of pdu/doca/machine/spoil.c */
        DOCA_V_IO = 1 << 1, /* ... of one I/O message: likewise */
        DOCA_V_TARGET = 1 << 2, /* the target, over time */
};

extern const struct rulebook doca_rules;

static inline const struct rule *doca_rule_get(unsigned id)
{
        return rulebook_get(&doca_rules, id);
}

/* Whether who has this policy refuses a message that breaks the rule: a rule with a reaction that is not waived, and of
 * those whose reaction is to go on the ones that are violated. */
bool doca_is_refused(const struct rule_policy *policy, enum doca_rule rule);
/* The code of the refusal: DOCA_ERROR_*. */
uint16_t doca_refusal(enum doca_rule rule);

#endif
