/* SPDX-License-Identifier: BSD-3-Clause */
#include "rules.h"

#include "pdu/core/rule_words.h"
#include "srp.h"

#define REASON(name) (SRP_REJECT_##name - SRP_REJECT_FIRST)
#define INITIATOR    PARTY_HOST
#define TARGET       PARTY_CONTROLLER

static const struct rule rows[SRP_RULES] = {
/* clang-format off */
#define RULE(sym, id_, binds, source_, duty, reacts_, checked_, broken, seen_)                     \
        [sym] = { .symbol = #sym, .id = (id_), binds, source_, duty, reacts_, checked_, broken, seen_ },
#include "rules.def"
#undef RULE
        /* clang-format on */
};

static const char *const violators[] = { "an information unit", "an information unit, sent twice",
                                         "the target", "a case", NULL };

const struct rulebook srp_rules = {
        .name = "srp", .rows = rows, .count = SRP_RULES, .violators = violators
};
