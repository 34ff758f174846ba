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
        bool caught;      /* a rule of the case was broken, whatever its level */
        bool only_strict; /* it fails because the run is strict */
};

struct run { /* the whole */
        const struct conform_family *family;
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
};

/* Whether the result makes the run fail: a FAIL that the baseline does not list. */
bool result_fails(const struct result *r);
/* Sums up verdicts, coverage; called once when all results are there. */
void run_sum(struct run *r);
/* The exit code: 0, 1, 3 or 77. */
int run_exit(const struct run *r);
/* Rules that any case of the role names. */
struct rule_set rules_named(const struct conform_family *f, enum role role);

#endif
