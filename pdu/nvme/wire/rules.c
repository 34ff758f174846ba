/* SPDX-License-Identifier: BSD-3-Clause */
#include "rules.h"

#include "auth.h"
#include "fabrics.h"
#include "pdu/core/rule_words.h"
#include "rdma.h"
#include "tcp.h"

/* Places: FEI of TermReq, and IPO with IATTR of the response to Connect. */
#define AT(pdu, field)  ((int32_t)offsetof(struct pdu, field))
#define IPO_SQE(field)  ((int32_t)offsetof(struct connect_cmd, field))
#define IPO_DATA(field) ((int32_t)(offsetof(struct connect_data, field) | CONNECT_IATTR_DATA))

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
#define AT_LENIENT      .lenient = true
#include "flaws.def"
#undef FLAW
        /* clang-format on */
};

const struct rulebook nvme_rules = { .name = "nvme",
                                     .term = "TermReq",
                                     .rows = rows,
                                     .count = RULES,
                                     .violators = violators,
                                     .flaws = flaws,
                                     .flaw_count = FLAWS };
