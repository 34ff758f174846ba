/* SPDX-License-Identifier: BSD-3-Clause */
#include "rules.h"

#include "pdu/core/rule_words.h"

#define IPO_SQE(o)  ((int32_t)(o))
#define IPO_DATA(o) ((int32_t)((o) | 1 << 16))

static const struct rule rows[RULES] = {
/* clang-format off */
#define RULE(sym, id_, binds, source_, duty, reacts_, checked_, broken, seen_)                     \
        [sym] = { .symbol = #sym, .id = (id_), binds, source_, duty, reacts_, checked_, broken, seen_ },
#include "rules.def"
#undef RULE
        /* clang-format on */
};

static const char *const violators[] = {
        "a PDU",
        "a command",
        "the outcome of a command",
        "the outcome of a command over RDMA",
        "connection management",
        "a capsule",
        "a response",
        "a READ or WRITE",
        "the machines of NVMe/TCP",
        "the machines of NVMe/RDMA",
        "the controller",
        "authentication",
        "the target",
        "a case",
        "not over RDMA",
        "a fault of a vendor",
        NULL,
};

static const struct flaw flaws[FLAWS] = {
/* clang-format off */
#define FLAW(sym, rule, id_, says_, ...) [FLAW_##sym] = { .breaks = (rule), .id = "semantic/" id_, .says = (says_), __VA_ARGS__ },
#define FOUND_BY(cases) .found_by = (cases)
#define ONLY(transport) .only = (transport)
#define BY_HOST         .host = true
#include "flaws.def"
#undef FLAW
        /* clang-format on */
};

const struct rulebook nvme_rules = { .name = "nvme",
                                     .rows = rows,
                                     .count = RULES,
                                     .violators = violators,
                                     .flaws = flaws,
                                     .flaw_count = FLAWS };
