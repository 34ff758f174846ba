/* SPDX-License-Identifier: BSD-3-Clause */
#include "rules.h"

#include "doca.h"
#include "pdu/core/rule_words.h"

#define SERVICE PARTY_HOST
#define TARGET  PARTY_CONTROLLER

static const struct rule rows[DOCA_RULES] = {
/* clang-format off */
#define RULE(sym, id_, binds, source_, duty, reacts_, checked_, broken, seen_)                     \
        [sym] = { .symbol = #sym, .id = (id_), binds, source_, duty, reacts_, checked_, broken, seen_ },
#include "rules.def"
#undef RULE
        /* clang-format on */
};

static const char *const violators[] = { "a control message", "an I/O message", "the target",
                                         NULL };

const struct rulebook doca_rules = {
        .name = "doca", .rows = rows, .count = DOCA_RULES, .violators = violators
};

bool doca_is_refused(const struct rule_policy *policy, enum doca_rule rule)
{
        enum reaction reaction = doca_rule_get(rule)->reaction;

        if (reaction == REACT_NONE || rule_in(&policy->waived, rule))
                return false;
        return reaction != REACT_TOLERATE || rule_in(&policy->violated, rule);
}

uint16_t doca_refusal(enum doca_rule rule)
{
        uint16_t code = doca_rule_get(rule)->accept[0].code;

        return code ? code : DOCA_ERROR_INVALID_VALUE;
}
