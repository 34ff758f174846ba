/* SPDX-License-Identifier: BSD-3-Clause */
#include "rules.h"

/* The words of rules.def: see there. */
#define HOST                       PARTY_HOST
#define CONTROLLER                 PARTY_CONTROLLER
#define MUST                       LEVEL_MUST
#define SHOULD                     LEVEL_SHOULD
#define INFO                       LEVEL_INFO
#define PRINTED                    BASIS_PRINTED
#define GENERAL                    BASIS_GENERAL
#define OWN                        BASIS_OWN
#define BINDS(who, level_, basis_) .bound = (who), .level = (level_), .basis = (basis_)
#define SOURCE(text)               .source = (text)
#define DUTY(text)                 .says = (text)
#define REACTS(basis_, ...)        .reacts = (basis_), __VA_ARGS__
#define NO_REACTION                .reacts = BASIS_NONE, .reaction = REACT_NONE
#define TERM(...)                  .reaction = REACT_TERM, .accept = { __VA_ARGS__ }
#define STATUS(...)                .reaction = REACT_STATUS, .accept = { __VA_ARGS__ }
#define REJECTS(...)               .reaction = REACT_REJECT, .accept = { __VA_ARGS__ }
#define AUTHS(...)                 .reaction = REACT_AUTH, .accept = { __VA_ARGS__ }
#define ANY_END(...)               .reaction = REACT_ANY, .accept = { __VA_ARGS__ }
#define REFUSES(...)               .reaction = REACT_REFUSE, .accept = { __VA_ARGS__ }
#define SURVIVES(...)              .reaction = REACT_NONE, .accept = { __VA_ARGS__ }
#define CLOSES                     .reaction = REACT_CLOSE
#define TOLERATED                  .reaction = REACT_TOLERATE
#define UNOWED                     .unowed = true
#define CHECKED(folders)           .checked = (folders)
#define UNCHECKED(why)             .unchecked = (why)
#define BROKEN(by, ...)            .violators = (by), ##__VA_ARGS__
#define UNBROKEN(why)              .unbroken = (why)
#define WAIVE_ALSO(...)            .shadows = { __VA_ARGS__ }
#define UNTRIED(who, why)          .untried[who] = (why)
#define SEEN(where)                .seen = (where)
#define SEEN_BUT(where, why)       .seen = (where), .unseen = (why)
#define LIVE                       SEEN_LIVE
#define CAPTURE                    SEEN_CAPTURE
#define ALONE                      SEEN_ALONE
#define SET_UP                     SEEN_SET_UP
#define IPO_SQE(o)                 ((int32_t)(o))
#define IPO_DATA(o)                ((int32_t)((o) | 1 << 16))

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
        NULL,
};

const struct rulebook nvme_rules = {
        .name = "nvme", .rows = rows, .count = RULES, .violators = violators
};
