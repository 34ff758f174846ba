/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules, whatever the protocol: what a row of a rulebook says, sets of rules, the fault of one who
 * breaks a rule, and the policy of one who breaks them on purpose. A rulebook is a family's table of
 * rows; a rule's number is its index there and means something only together with that book.
 */
#ifndef NVMF_CORE_RULE_H
#define NVMF_CORE_RULE_H

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

/* What the party that sees the rule broken has to do, and with it what struct fault's code says.
 * Which numbers that are is the family's affair: it names them in its rulebook. */
enum reaction {
        REACT_NONE,     /* nothing prescribed: must survive it */
        REACT_TERM,     /* fatal: a message of termination; code: why it ends */
        REACT_STATUS,   /* the command completes with a status; code: that */
        REACT_CLOSE,    /* fatal: closes without a word */
        REACT_ANY,      /* an error status or the end of the connection, never silence; code: of the
                         * message of termination, for a receiver that ends the connection so */
        REACT_REFUSE,   /* the same, where we complete the command; code: as of REACT_STATUS */
        REACT_REJECT,   /* the connect request is rejected; code: why */
        REACT_AUTH,     /* a failure message, then closes; code: why */
        REACT_TOLERATE, /* goes on as though nothing had happened */
};

/* Where what is wrong stands: bytes from the start of the message that is at fault, to which a family
 * may add bits of its own; or one of these. */
enum {
        PLACE_ANY = -1,    /* not prescribed, or reserved with this code */
        PLACE_DIGEST = -2, /* no place: the digest that was received */
};

struct outcome {
        uint16_t code;
        int32_t place;
};

#define RULE_NONE 0 /* no rule has this number */
enum {
        RULE_CAPACITY = 896, /* numbers of a rulebook stay below */
        RULE_OUTCOMES = 4,
};

/* What a sentence or a reaction rests on. */
enum basis {
        BASIS_NONE,    /* no reaction is prescribed */
        BASIS_PRINTED, /* it stands in the source */
        BASIS_GENERAL, /* a general rule of the source applies: reserved fields, fatal errors ... */
        BASIS_OWN,     /* our own reading */
};
const char *basis_name(enum basis b); /* "", "printed", "general rule", "own reading" */
struct rule;
/* What a verdict about this party rests on: the duty of a rule that binds it; else the reaction to a
 * breach by the other one (BASIS_NONE also where nobody has to notice it). */
enum basis rule_basis(const struct rule *r, enum party judged);
/* That is our own reading, or nobody's: whoever departs from it is advised, and fails nothing. */
bool rule_is_advice(const struct rule *r, enum party judged);

/* What a breach of the duty comes to. */
enum grade { GRADE_MUST, GRADE_SHOULD, GRADE_ADVICE, GRADE_INFO, GRADES };
/* INFO if the row is; ADVICE if the duty is our own reading; else as its level. */
enum grade rule_grade(const struct rule *r);
const char *grade_name(enum grade g); /* "must", "should", "advice", "info" */

/* Where a breach can be seen. */
enum {
        SEEN_LIVE = 1 << 0,    /* by a case of the suite that names the rule */
        SEEN_CAPTURE = 1 << 1, /* in a capture ... */
        SEEN_ALONE = 1 << 2,   /* ... where one frame proves it, even if others are missing */
        SEEN_SET_UP = 1 << 3,  /* ... if the connection's set-up is in it */
};

/* A row. The duty is the sender's (says, level, basis); the reaction is apart from it, and the
 * receiver's. */
struct rule {
        const char *symbol; /* "TCP_H2C_TTAG": what the code calls it */
        const char *id;     /* "tcp/h2cdata/ttag": stable forever */
        enum party bound;   /* who has to keep it */
        enum level level;
        enum basis basis; /* of the sentence */
        const char
            *source;      /* document, revision and section; a document's revisions apart, by ';' */
        const char *says; /* the requirement, one sentence in our own words */
        enum reaction reaction;
        enum basis reacts; /* what the reaction rests on */
        bool unowed;       /* our machines react so, but nothing obliges anyone to notice */
        /* Ends with code 0; the first one is the prescribed. */
        struct outcome accept[RULE_OUTCOMES];
        const char *checked; /* folders of the code that checks it; NULL: unchecked says why none */
        const char *unchecked; /* does */
        unsigned violators;    /* what breaks it: bits, as rulebook->violators names them ... */
        const char *unbroken;  /* ... and where there is none, why */
        unsigned seen;         /* SEEN_* */
        const char *unseen;    /* why not LIVE, or not in a CAPTURE; NULL: it is both */
        /* Rules whose checks come before its own: they have to be waived with it. */
        uint16_t shadows[2];
        /* Why a power check of this party as the one tested cannot try it; NULL: it can. */
        const char *untried[2];
};

/* A fault as products have it, by a name of its own: a reference peer has it on request. */
struct flaw {
        const char *id;   /* "semantic/abort-ends-another": stable forever */
        unsigned breaks;  /* the rule that says why it is one; RULE_NONE: the book has none */
        const char *says; /* what the peer does, one sentence */
        const char *only; /* transport; NULL: any */
        bool host;        /* a host has it, and cases of --role host find it; else a target */
        /* found at that grade: the rule binds from a later revision on, or is met inexactly */
        bool lenient;
        const char *found_by; /* ids of cases (or how they begin), apart by spaces */
};

struct rulebook {
        const char *name;             /* of the family: "nvme" */
        const char *term;             /* its message of termination; NULL: it has none */
        const struct rule *rows;      /* rows[RULE_NONE] is empty */
        unsigned count;               /* rules have the numbers 1 to count - 1 */
        const char *const *violators; /* bit n of a row's violators is violators[n]; NULL ends */
        const struct flaw *flaws;     /* flaws[0] is empty, like rows[RULE_NONE] */
        unsigned flaw_count;          /* numbers 1 to flaw_count - 1; 0: there are none */
};

/* NULL if `rule` is not one of the book's. */
const struct rule *rulebook_get(const struct rulebook *b, unsigned rule);
/* In words: "error status"; REACT_TERM as the book's term. Never NULL, and not to be freed. */
const char *rulebook_reaction(const struct rulebook *b, enum reaction r);
/* RULE_NONE if there is no such id. */
unsigned rulebook_by_name(const struct rulebook *b, const char *id);
/* Whether {code, place} is one of the accepted outcomes; PLACE_ANY in the rule matches all. */
bool rulebook_accepts(const struct rulebook *b, unsigned rule, uint16_t code, uint32_t place,
                      uint32_t received_digest);

/* A broken rule and the reaction that it prescribes; set at the line that sees it. */
struct fault {
        unsigned rule;  /* RULE_NONE: no fault */
        uint16_t code;  /* what it means depends on the rule's reaction: see enum reaction */
        uint32_t place; /* see struct outcome; 0 where none is prescribed */
};

static inline bool is_fault(struct fault f)
{
        return f.rule != RULE_NONE;
}

/* The fault of breaking `rule`, with its first accepted outcome (PLACE_ANY, PLACE_DIGEST: 0). */
struct fault rulebook_fault(const struct rulebook *b, unsigned rule);

struct rule_set {
        uint64_t bits[RULE_CAPACITY / 64];
};

static inline bool rule_in(const struct rule_set *s, unsigned rule)
{
        return s && (s->bits[rule / 64] >> (rule % 64) & 1);
}

static inline void rule_add(struct rule_set *s, unsigned rule)
{
        s->bits[rule / 64] |= UINT64_C(1) << (rule % 64);
}

static inline void rule_add_if(struct rule_set *s, bool broken, unsigned rule)
{
        if (broken)
                rule_add(s, rule);
}

static inline void rule_remove(struct rule_set *s, unsigned rule)
{
        s->bits[rule / 64] &= ~(UINT64_C(1) << (rule % 64));
}

/* NULL is an empty set. */
bool rule_set_empty(const struct rule_set *s);
/* The set's first rule after `rule` (RULE_NONE: of all); RULE_NONE: there is none. */
unsigned rule_next(const struct rule_set *s, unsigned rule);
#define rule_each_in(s, rule)                                                                      \
        for (unsigned rule = rule_next(s, RULE_NONE); (rule) != RULE_NONE;                         \
             (rule) = rule_next(s, rule))

/* How a target or host departs from its rulebook on purpose; all zero: not at all. */
struct rule_policy {
        struct rule_set waived;   /* rules of the peer that are not checked */
        struct rule_set violated; /* own rules that are broken on output */
        struct rule_set flaws;    /* numbers of rulebook.flaws, not of rules */
};

/* 0 if no flaw of the book has this id. */
unsigned rulebook_flaw_by_name(const struct rulebook *b, const char *id);
/* Who violates a rule has the flaws that break it. */
void rulebook_add_flaws(const struct rulebook *b, struct rule_policy *policy);

#endif
