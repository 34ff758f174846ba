/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rulebook: every requirement of the NVMe/TCP transport and of the Fabrics layer that shows on
 * the wire is one row of rules.def. Checkers name the row they enforce, cases name the rows they
 * test, and the prescribed reaction stands here and nowhere else.
 */
#ifndef NVMF_WIRE_RULES_H
#define NVMF_WIRE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum party { PARTY_HOST, PARTY_CONTROLLER };

static inline enum party peer_of(enum party p)
{
        return p == PARTY_HOST ? PARTY_CONTROLLER : PARTY_HOST;
}

const char *party_name(enum party p); /* "host", "controller" */

enum level {
        LEVEL_MUST,   /* "shall" */
        LEVEL_SHOULD, /* "should", and the exact code where several are natural */
        LEVEL_INFO,   /* worth knowing, never a finding */
};
const char *level_name(enum level l); /* "must", "should", "info" */

enum rule_id {
        RULE_NONE,
#define RULE(sym, ...) sym,
#include "rules.def"
#undef RULE
        RULES
};

/* What the party that sees the rule broken has to do. */
enum reaction {
        REACT_NONE,   /* nothing prescribed: must survive it */
        REACT_TERM,   /* fatal: TermReq with one of the accepted {FES, FEI}; base grade: any end */
        REACT_STATUS, /* the command completes with one of the accepted statuses */
        REACT_CLOSE,  /* fatal: closes without a word */
        REACT_ANY,    /* an error status or the end of the connection, never silence */
        REACT_REJECT, /* the connect request is rejected with one of the accepted STS */
        REACT_AUTH,   /* a failure message with one of the accepted RCODEEX, then closes */
        REACT_TOLERATE, /* goes on as though nothing had happened */
};
const char *reaction_name(enum reaction r);

enum {
        FEI_ANY = -1,    /* reserved for this FES, or not prescribed */
        FEI_DIGEST = -2, /* the HDGST value that was received */
};

struct outcome {
        uint16_t code; /* REACT_TERM: FES; REACT_STATUS: SCT << 8 | SC; REACT_AUTH: RCODEEX */
        /* REACT_TERM: byte offset, FEI_ANY or FEI_DIGEST; REACT_STATUS: FEI_ANY, or of Connect
         * IPO | IATTR << 16 */
        int32_t fei;
};

enum { RULE_OUTCOMES = 4 };

struct rule {
        const char *id;   /* "tcp/h2cdata/ttag": stable forever */
        enum party bound; /* who has to keep it */
        enum level level;
        const char *source; /* document, revision and section */
        const char *says;   /* the requirement, one sentence in our own words */
        enum reaction reaction;
        /* Ends with code 0; the first one is the prescribed. */
        struct outcome accept[RULE_OUTCOMES];
};

/* NULL if id is not a rule. */
const struct rule *rule_get(enum rule_id id);
/* RULE_NONE if there is no such id. */
enum rule_id rule_by_name(const char *id);
/* Whether {code, fei} is one of the accepted outcomes; FEI_ANY in the rule matches all. */
bool rule_accepts(enum rule_id id, uint16_t code, uint32_t fei, uint32_t received_digest);

#define rule_each(id) for (enum rule_id id = (enum rule_id)1; (id) < RULES; (id)++)

/* A broken rule and the reaction it prescribes; set at the line that sees it. */
struct fault {
        enum rule_id rule; /* RULE_NONE: no fault */
        uint16_t fes;      /* REACT_TERM; also SCT << 8 | SC of a REACT_STATUS fault */
        uint32_t fei;
};

static inline bool is_fault(struct fault f)
{
        return f.rule != RULE_NONE;
}

/* The fault of breaking `id`, with its first accepted outcome (FEI_ANY, FEI_DIGEST: 0). */
struct fault rule_fault(enum rule_id id);

struct rule_set {
        uint64_t bits[(RULES + 63) / 64];
};

static inline bool rule_in(const struct rule_set *s, enum rule_id id)
{
        return s && (s->bits[(unsigned)id / 64] >> ((unsigned)id % 64) & 1);
}

static inline void rule_add(struct rule_set *s, enum rule_id id)
{
        s->bits[(unsigned)id / 64] |= UINT64_C(1) << ((unsigned)id % 64);
}

bool rule_set_empty(const struct rule_set *s);
/* The first rule of the set behind `id` (RULE_NONE: of all); RULES: there is none. */
enum rule_id rule_behind(const struct rule_set *s, enum rule_id id);
#define rule_each_in(s, id)                                                                        \
        for (enum rule_id id = rule_behind(s, RULE_NONE); (id) < RULES; (id) = rule_behind(s, id))

/* How a target or host departs from the rulebook on purpose; all zero: not at all. */
struct rule_policy {
        struct rule_set waived;   /* rules of the peer that are not checked */
        struct rule_set violated; /* own rules that are broken on output */
};

#endif
