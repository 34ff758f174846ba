/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is behind the words of a case: who is tested, a running case, and how it ends.
 */
#ifndef NVMF_CONFORMANCE_SUITE_H
#define NVMF_CONFORMANCE_SUITE_H

#include <setjmp.h>
#include <stdio.h>

#include "result.h"

struct suite { /* who is tested, and how; the same for all cases of a run */
        const struct conform_family *family;
        enum role role;
        const char *transport;           /* one of family->family->transports */
        struct verbs_provider *verbs;    /* what carries RDMA, or NULL */
        struct verbs_provider *recorder; /* --pcap: the same, recorded; or NULL */
        const char *traddr, *trsvcid;
        bool embedded; /* a reference peer of ours */
        double timeout_scale;
        bool strict;
        uint32_t seed;
        int64_t started;               /* s since the epoch: when the run began */
        FILE *narrate;                 /* --verbose, or NULL */
        const char *transcripts;       /* a folder, or NULL */
        struct leaving *leaving;       /* takes over connections that are closed; or NULL */
        const char *restart;           /* a command that starts who is tested again; or NULL */
        struct capture_writer *record; /* --pcap, or NULL */
        void *peer; /* the family's: what else there is to know of who is tested */
};

enum { CASE_MS = 30000 };

struct memory { /* freed when the case ends */
        struct memory *next;
        uint64_t align[];
};

struct t {
        const struct suite *suite;
        const struct test_case *test;
        struct result *result;
        jmp_buf out;
        uint32_t number; /* unique */
        int range;       /* the one that it may write, -1: none */
        void *world;     /* the family's: what is open and known while it runs */
        unsigned connections;
        unsigned rule;   /* that expectations are about */
        bool setting_up; /* inside a word that makes a connection */
        bool negative;   /* did something that could hurt who is tested */
        /* who is tested had no resources for the last connection that was asked for, or answers that it can't
         * do now what it can do later */
        bool busy;
        bool hung; /* who is tested was ended, since it came to no end: that once proves nothing */
        bool breach; /* a rule that the case names was broken: see result->rule, seen */
        uint64_t began, deadline; /* of the whole case: now_ms() */
        unsigned lingers; /* ms after t_end() in which what it has begun may change its range */
        struct exchange log;
        char
            capture[256]; /* its connections, as another one recorded them: a path; removed when the
                            * case ends; "" if none */
        struct memory *memory;
};

/* A context for `test`, with the unique number n; result gets its verdict. */
void t_start(struct t *t, const struct suite *s, const struct test_case *test,
             struct result *result, uint32_t n);
/* Closes what is open and frees; after it only the result is left. */
void t_end(struct t *t);
/* Runs body(t) to its verdict. */
void t_run(struct t *t, void (*body)(struct t *t));
/* The last words of the exchange, for the report. */
void t_keep_exchange(struct t *t);
/* All of that: start, the test's own body, end. */
void t_once(const struct suite *s, const struct test_case *test, struct result *result, uint32_t n);
void *t_alloc(struct t *t, size_t n); /* zeroed, until the case ends */

/* Ends the case as an ERROR: it says nothing about the target. */
void broke(struct t *t, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* ms of this run's clock: see --timeout-scale. */
uint64_t t_scaled(const struct t *t, unsigned ms);
/* The time, of now_ms(), that is so far away for this run, but not after the case has to end. */
uint64_t t_deadline(const struct t *t, unsigned ms);
/*
 * What who is tested may take by its own announcement, or by the specification, is not the case's time: from
 * t_lend() on, until t_repay() with what it returned, the case has that much more. t_lend() is for waits that
 * t_deadline() would cut off: ms are of now_ms(), not scaled.
 */
uint64_t t_lend(struct t *t, uint64_t ms);
void t_repay(struct t *t, uint64_t left);
/* Ends the case as an ERROR if its time is over: then nothing that did not come says anything. */
void broke_if_over(struct t *t);
/* A rule of the family; whether the case names it. */
const struct rule *t_rule(const struct t *t, unsigned rule);
bool t_names(const struct t *t, unsigned rule);
/* What is judged by it is advice: see fail(). */
bool rests_on_own_reading(const struct t *t, unsigned rule);
/* Who is tested broke `rule`, as the line says. */
void t_notice(struct t *t, unsigned rule, const char *line);
/* Ends the case if a rule that it names was broken. */
void t_settle(struct t *t);

#endif
