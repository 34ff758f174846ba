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
_Static_assert((unsigned)RULES <= RULE_CAPACITY, "a rule set has room for all rules");

enum flaw_id {
        FLAW_NONE,
#define FLAW(sym, ...) FLAW_##sym,
#include "flaws.def"
#undef FLAW
        FLAWS
};
_Static_assert((unsigned)FLAWS <= RULE_CAPACITY, "a rule set has room for all flaws");

/* Whether the peer with this policy, which may be NULL, is to have the flaw. */
static inline bool flawed(const struct rule_policy *policy, enum flaw_id flaw)
{
        return policy && rule_in(&policy->flaws, flaw);
}

/* What breaks a rule on request. */
enum {
        /* A change of what is about to be sent: entries of the tables in pdu/nvme's spoil_*.c. */
        V_PDU = 1 << 0,      /* a PDU of NVMe/TCP */
        V_SQE = 1 << 1,      /* a command: its SQE, or Connect's data */
        V_CQE = 1 << 2,      /* the outcome of a command: CQE, Identify, properties, logs */
        V_RDMA_CQE = 1 << 3, /* the same, for rules that NVMe/RDMA has in place of NVMe/TCP's */
        V_CM = 1 << 4,       /* private data and numbers of a connect request or its answer */
        V_CAPSULE = 1 << 5,  /* a command capsule of NVMe/RDMA */
        V_RESPONSE = 1 << 6, /* a response of NVMe/RDMA */
        V_TRANSFER = 1 << 7, /* a READ or WRITE */
        V_TABLES = (1 << 8) - 1,
        /* Over time, by whoever finds the rule in policy->violated. */
        V_TCP = 1 << 8,         /* the machines of NVMe/TCP */
        V_RDMA = 1 << 9,        /* the machines of NVMe/RDMA */
        V_CONTROLLER = 1 << 10, /* the controller's life */
        V_AUTH = 1 << 11,       /* who authenticates: needs a key */
        V_TARGET = 1 << 12,     /* the target */
        /* By nobody's machine: a case of the suite sends it. */
        V_CASE = 1 << 13,
        /* Not over RDMA, though the table is everybody's. */
        V_NOT_RDMA = 1 << 14,
        /* A row of flaws.def that names the rule. */
        V_FLAW = 1 << 15,
        V_ON_TCP = V_PDU | V_SQE | V_CQE,
        V_ON_RDMA = V_SQE | V_CQE | V_RDMA_CQE | V_CM | V_CAPSULE | V_RESPONSE | V_TRANSFER,
};

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
