/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe's rulebook: every requirement of its transports and of the Fabrics layer that shows on the
 * wire is one row of rules.def. Checkers name the row they enforce, cases name the rows they test,
 * and the prescribed reaction stands here and nowhere else.
 */
#ifndef NVMF_WIRE_RULES_H
#define NVMF_WIRE_RULES_H

#include "pdu/core/rule.h"

enum rule_id {
        NVME_RULE_NONE = RULE_NONE,
#define RULE(sym, ...) sym,
#include "rules.def"
#undef RULE
        RULES
};
_Static_assert((unsigned)RULES <= RULE_CAPACITY, "rules have room in a set");

extern const struct rulebook nvme_rules;

/* As in pdu/core/rule.h, in this book. */
static inline const struct rule *rule_get(unsigned id)
{
        return rulebook_get(&nvme_rules, id);
}

static inline enum rule_id rule_by_name(const char *id)
{
        return (enum rule_id)rulebook_by_name(&nvme_rules, id);
}

static inline bool rule_accepts(unsigned id, uint16_t code, uint32_t place, uint32_t digest)
{
        return rulebook_accepts(&nvme_rules, id, code, place, digest);
}

static inline struct fault rule_fault(unsigned id)
{
        return rulebook_fault(&nvme_rules, id);
}

#define rule_each(id) for (enum rule_id id = (enum rule_id)1; (id) < RULES; (id)++)

#endif
