/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a run found out: one model, from which every report is written.
 */
#ifndef NVMF_CONFORMANCE_RESULT_H
#define NVMF_CONFORMANCE_RESULT_H

#include "exchange.h"
#include "select.h"

enum verdict {
        VERDICT_NONE, /* not run */
        VERDICT_PASS,
        VERDICT_ADVICE,  /* it rests on our own reading: shown and counted, never a failure */
        VERDICT_LENIENT, /* accepted at the base grade, not at the strict one */
        VERDICT_INFO,    /* an informational case: what was seen, never a failure */
        VERDICT_SKIP,
        VERDICT_FAIL,
        VERDICT_ERROR, /* the harness or the connection broke: nothing is said about the target */
        VERDICTS
};
const char *verdict_name(enum verdict v); /* "pass", "lenient", ... */

/* What the baseline file makes of it. */
enum known { KNOWN_NOT, KNOWN_LISTED, KNOWN_FIXED /* listed, but it passes */ };

enum { RESULT_TEXT = 320, RESULT_EXCHANGE = 12, RESULT_NOTICES = 8 };

struct notice { /* a rule that the target broke on the way */
        unsigned rule;
        char line[EXCHANGE_LINE]; /* the PDU */
};

struct result {
        char id[128];                 /* the case's, "noticed/RULE", "probe/STEP" */
        const struct test_case *test; /* NULL: a noticed rule */
        enum level level;
        enum verdict verdict;
        enum known known;
        const char *reason;                            /* of the baseline, in place there */
        unsigned rule;                                 /* that the failure is about */
        unsigned cause;                                /* that explains it, see cause.h */
        char expected[RESULT_TEXT], seen[RESULT_TEXT]; /* of a failure or lenience */
        char note[RESULT_TEXT];                        /* why skipped, what was seen, remarks */
        struct notice notices[RESULT_NOTICES];
        unsigned notice_count;
        struct exchange_line exchange[RESULT_EXCHANGE]; /* the last lines of a failure */
        unsigned exchange_count, exchange_dropped;
        uint64_t exchange_start; /* us: the time that lines count from */
        char transcript[256];    /* path without suffix; "" if none was written */
        double ms;
        unsigned repeats; /* runs of the case whose worst outcome this is */
        bool harm;        /* what failed did harm: see harm() */
        bool caught;      /* a rule of the case was broken, whatever its level and basis */
        bool only_strict; /* it fails because the run is strict */
};

struct cause { /* of failures: a rule that was seen broken in all of them */
        unsigned rule;
        unsigned failures;          /* that it explains, and no cause before it does */
        bool effects;               /* other failures than those by this rule may be among them */
        const struct result *first; /* of these */
};
enum { RUN_CAUSES = 16 };

struct run { /* the whole */
        const struct conform_family *family;
        enum role role;
        struct result *results; /* the probe's, by id, the noticed rules at the end */
        size_t count;
        unsigned verdicts[VERDICTS]; /* known failures are not in FAIL ... */
        unsigned known, fixed;       /* ... but here */
        struct rule_set covered;     /* named by a case that ran to a verdict */
        char target[600];            /* "127.0.0.1:4420 nqn..." */
        char abilities[600];         /* what was found out about it */
        char started[32];            /* ISO 8601 */
        double seconds;
        bool strict, lax; /* lax: what is in the baseline, but passes, is no failure */
        bool dead;        /* the target stopped answering, or somebody has stopped the run */
        char error[1024]; /* why it ended early; "" if it did not */
        unsigned failing; /* cases that fail or broke */
        struct cause causes[RUN_CAUSES]; /* the one that explains most comes first */
        size_t cause_count;
};

/* Whether the result makes the run fail: a FAIL that the baseline does not list. */
bool result_fails(const struct result *r);
/* What the verdict rests on, by r->rule; BASIS_NONE also without a rule. */
enum basis result_basis(const struct run *run, const struct result *r);
/* The known bugs that a case would have found, where it did harm: a refusal that is missing is no CVE. */
const char *result_related(const struct result *r);
/* Sums up verdicts, coverage, causes; called once when all results are there. */
void run_sum(struct run *r);
/* The exit code: 0, 1, 3 or 77. */
int run_exit(const struct run *r);
/* Rules that any case of the role names. */
struct rule_set rules_named(const struct conform_family *f, enum role role);

#endif
