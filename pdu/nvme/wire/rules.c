/* SPDX-License-Identifier: BSD-3-Clause */
#include "rules.h"

static const struct rule rows[RULES] = {
#define RULE(sym, id, bound, level, source, says, ...)                                             \
        [sym] = { id, bound, level, source, says, __VA_ARGS__ },
#include "rules.def"
#undef RULE
};

const struct rulebook nvme_rules = { .name = "nvme", .rows = rows, .count = RULES };
