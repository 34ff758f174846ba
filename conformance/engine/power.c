/* SPDX-License-Identifier: BSD-3-Clause */
#include "power.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/embedded.h"
#include "report.h"
#include "runner.h"

enum { EXIT_FAIL = 1, EXIT_BROKEN = 3 };

struct trial { /* of one rule */
        enum rule_id rule;
        bool waived; /* the one that is tested overlooks it; else it breaks it */
        bool caught;
        char by[128]; /* the case that found out */
        char error[RESULT_TEXT];
        double seconds;
};

/* Another check stands before some, or behind them: it is waived with them, or nothing would show. */
static const struct {
        enum rule_id rule, before;
} shadows[] = {
        { TCP_C2H_AFTER_LAST, TCP_C2H_CID },          { TCP_C2H_SUCCESS_RESP, TCP_RESP_CID },
        { FAB_SGL_SHORT, RDMA_SGL_LENGTH },           { FAB_CONNECT_DATA, RDMA_SGL_LENGTH },
        { FAB_CONNECT_SQSIZE_ZERO, RDMA_REQ_SQSIZE }, { FAB_CONNECT_SQSIZE_MAX, RDMA_REQ_SQSIZE },
        { FAB_CONNECT_QID, RDMA_REQ_SAME_QID },       { RDMA_ICD_ADMIN, RDMA_CMD_LONG },
        { RDMA_SGL_ONE, RDMA_SGL_SEGMENT },           { RDMA_SGL_ONE, RDMA_SGL_LENGTH },
};

/* What nobody could see broken by one in memory, or overlooked by a host. */
static const struct {
        enum rule_id rule;
        enum role role; /* who is tested */
        const char *why;
} hidden[] = {
        { RDMA_WRITE_BEFORE, ROLE_TARGET, "in memory a chain of work requests is one step" },
        { RDMA_READ_LIMIT, ROLE_TARGET, "the device keeps it, whatever the target posts" },
        { TCP_R2T_EMPTY, ROLE_HOST, "who overlooks it waits for more until it gives up" },
        { TCP_R2T_LIMIT, ROLE_HOST, "there is no room for more R2Ts" },
        { TCP_R2T_TTAG, ROLE_HOST, "nothing obliges a host to notice" },
        { RDMA_ACC_LENGTH, ROLE_HOST, "connection management pads private data" },
        { RDMA_RSP_LENGTH, ROLE_HOST, "who overlooks it waits for a response until it gives up" },
        { RDMA_RSP_CID, ROLE_HOST, "who overlooks it waits for a response until it gives up" },
        { RDMA_WRITE_RANGE, ROLE_HOST, "the device refuses it" },
        { RDMA_WRITE_DIR, ROLE_HOST, "the device refuses it" },
        { RDMA_READ_RANGE, ROLE_HOST, "the device refuses it" },
        { RDMA_READ_DIR, ROLE_HOST, "the device refuses it" },
        { RDMA_INV_UNASKED, ROLE_HOST, "the device invalidates it all the same" },
        { RDMA_INV_KEY, ROLE_HOST, "the reference host does not ask for it" },
};

struct trials {
        const struct options *o;
        const struct test_case **cases;
        size_t count;
        struct trial *trial;
        size_t n, next;
        pthread_mutex_t lock;
};

static bool names(const struct test_case *c, enum rule_id rule)
{
        const enum rule_id *r = c->rules;

        while (*r != RULE_NONE && *r != rule)
                r++;
        return *r == rule;
}

/* A target that is to overlook a breach, and one that may not: refusing is its way to break those.
 * A host can only overlook. */
static bool is_waived(const struct trials *t, const struct rule *r)
{
        return t->o->selection.role == ROLE_HOST ||
               (r->bound == PARTY_HOST && r->reaction != REACT_TOLERATE);
}

static void waive(struct rule_policy *policy, enum rule_id rule)
{
        rule_add(&policy->waived, rule);
        for (size_t i = 0; i < sizeof(shadows) / sizeof(shadows[0]); i++)
                if (shadows[i].rule == rule)
                        rule_add(&policy->waived, shadows[i].before);
}

static size_t cases_of(const struct trials *t, enum rule_id rule, const struct test_case **list)
{
        size_t n = 0;

        for (size_t i = 0; i < t->count; i++)
                if (names(t->cases[i], rule))
                        list[n++] = t->cases[i];
        return n;
}

static void note_catch(struct trial *trial, const struct run *run)
{
        for (size_t i = 0; i < run->count && !trial->caught; i++) {
                const struct result *r = &run->results[i];

                if (!r->test || !r->caught)
                        continue;
                trial->caught = true;
                snprintf(trial->by, sizeof(trial->by), "%s", r->id);
        }
}

static void run_trial(const struct trials *t, struct trial *trial, struct suite suite)
{
        const struct test_case **list = calloc(t->count, sizeof(*list));
        struct runner runner = {
                .suite = &suite, .cases = list, .jobs = 2, .repeat = 1, .stop_at_failure = true
        };
        struct run run = { .strict = true };

        if (!list)
                abort();
        suite.strict = true;
        runner.count = cases_of(t, trial->rule, list);
        runner_run(&runner, &run);
        note_catch(trial, &run);
        trial->seconds = run.seconds;
        free(run.results);
        free(list);
}

static void try_target(const struct trials *t, struct trial *trial,
                       const struct rule_policy *policy)
{
        struct suite suite = t->o->suite;
        struct embedded e;

        if (!embedded_start(&e, t->o, policy, trial->error, sizeof(trial->error)))
                return;
        trial->error[0] = '\0';
        embedded_address(&e, &suite);
        run_trial(t, trial, suite);
        embedded_stop(&e);
}

static void try_host(const struct trials *t, struct trial *trial, const struct rule_policy *policy)
{
        struct suite suite = t->o->suite;
        struct hosted hosted = { .policy = *policy };

        suite.hosted = &hosted;
        run_trial(t, trial, suite);
}

static void try_rule(const struct trials *t, struct trial *trial)
{
        struct rule_policy policy = { 0 };

        trial->waived = is_waived(t, rule_get(trial->rule));
        if (trial->waived)
                waive(&policy, trial->rule);
        else
                rule_add(&policy.violated, trial->rule);
        if (t->o->selection.role == ROLE_HOST)
                try_host(t, trial, &policy);
        else
                try_target(t, trial, &policy);
}

static void *work(void *arg)
{
        struct trials *t = arg;

        for (;;) {
                size_t i;

                pthread_mutex_lock(&t->lock);
                i = t->next++;
                pthread_mutex_unlock(&t->lock);
                if (i >= t->n)
                        return NULL;
                try_rule(t, &t->trial[i]);
        }
}

static void run_all(struct trials *t, unsigned jobs)
{
        pthread_t threads[256];
        unsigned started = 0;

        while (started < jobs && started < t->n &&
               pthread_create(&threads[started], NULL, work, t) == 0)
                started++;
        if (started == 0)
                work(t);
        for (unsigned i = 0; i < started; i++)
                pthread_join(threads[i], NULL);
}

/* --- the rules, and what became of them ---------------------------------------------------- */

static const char *why_hidden(const struct trials *t, enum rule_id rule)
{
        for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
                if (hidden[i].rule == rule && hidden[i].role == t->o->selection.role)
                        return hidden[i].why;
        return NULL;
}

/* A host that tolerates or survives something anyway can't be made to by a waiver. */
static bool can_try(const struct trials *t, enum rule_id rule)
{
        enum reaction r = rule_get(rule)->reaction;

        return t->o->selection.role == ROLE_TARGET || (r != REACT_NONE && r != REACT_TOLERATE);
}

static void collect(struct trials *t)
{
        rule_each (r)
                for (size_t i = 0; i < t->count; i++)
                        if (names(t->cases[i], r) && can_try(t, r)) {
                                if (why_hidden(t, r))
                                        printf("  not tried  %-34s  %s\n", rule_get(r)->id,
                                               why_hidden(t, r));
                                else
                                        t->trial[t->n++].rule = r;
                                break;
                        }
}

static void print_trial(const struct trial *t, bool brief)
{
        const char *how = t->waived ? "waived" : "violated";

        if (t->error[0])
                printf("  error     %-8s  %-34s  %s\n", how, rule_get(t->rule)->id, t->error);
        else if (!t->caught)
                printf("  SURVIVED  %-8s  %-34s  %s\n", how, rule_get(t->rule)->id,
                       rule_get(t->rule)->says);
        else if (!brief)
                printf("  caught    %-8s  %-34s  by %s\n", how, rule_get(t->rule)->id, t->by);
}

static int sum_up(const struct trials *t, bool brief)
{
        size_t caught = 0, broken = 0;

        for (size_t i = 0; i < t->n; i++) {
                print_trial(&t->trial[i], brief);
                caught += t->trial[i].caught;
                broken += t->trial[i].error[0] != '\0';
        }
        printf("\npower: %zu of %zu\n", caught, t->n);
        if (broken > 0)
                return EXIT_BROKEN;
        return caught == t->n ? 0 : EXIT_FAIL;
}

/* --- the sound target ---------------------------------------------------------------------- */

/* What is informational and about no rule is nobody's proof. */
static bool is_bad(const struct result *r)
{
        if (r->verdict == VERDICT_INFO && r->test->rules[0] == RULE_NONE)
                return false;
        return r->caught || r->verdict == VERDICT_FAIL || r->verdict == VERDICT_ERROR;
}

/* A case that fails there proves nothing anywhere: it is left out, and named. */
static size_t keep_good(const struct run *run, const struct test_case **cases)
{
        size_t kept = 0;

        for (size_t i = 0; i < run->count; i++) {
                const struct result *r = &run->results[i];

                if (!r->test)
                        continue;
                if (is_bad(r))
                        printf("  useless   %s fails on the sound target: %s\n", r->id, r->seen);
                else
                        cases[kept++] = r->test;
        }
        return kept;
}

static size_t run_sound(const struct options *o, const struct test_case **cases, size_t n)
{
        struct suite suite = o->suite;
        struct runner runner = {
                .suite = &suite, .cases = cases, .count = n, .jobs = (unsigned)o->jobs, .repeat = 1
        };
        struct run run = { .strict = true };

        suite.strict = true;
        runner_run(&runner, &run);
        n = keep_good(&run, cases);
        free(run.results);
        return n;
}

/* What the sound one can do is what a spoilt one would say, if it were to be trusted. How many of
 * the cases are left, at the start of the array; 0: error says what is wrong. */
static size_t try_sound(struct options *o, const struct test_case **cases, size_t n, char *error,
                        size_t size)
{
        struct rule_policy none = { 0 };
        struct probed probed;
        struct embedded e;

        snprintf(error, size, "no case passes on the sound host");
        if (o->selection.role == ROLE_HOST)
                return run_sound(o, cases, n);
        if (!embedded_start(&e, o, &none, error, size))
                return 0;
        embedded_address(&e, &o->suite);
        if (probe(&o->suite, &probed, error, size) && probed.count == 0) {
                n = run_sound(o, cases, n);
                snprintf(error, size, "no case passes on the sound target");
        } else {
                n = 0;
        }
        embedded_stop(&e);
        return n;
}

int power_run(const struct options *options, const struct test_case **cases, size_t n)
{
        struct options o = *options;
        char error[1024];
        size_t kept = try_sound(&o, cases, n, error, sizeof(error));
        struct trials t = { .o = &o, .cases = cases, .count = kept };
        int code;

        if (kept == 0) {
                fprintf(stderr, "nvmfspec conform: %s\n", error);
                return EXIT_BROKEN;
        }
        t.trial = calloc((size_t)RULES, sizeof(*t.trial));
        if (!t.trial)
                abort();
        pthread_mutex_init(&t.lock, NULL);
        collect(&t);
        run_all(&t, (unsigned)o.jobs);
        code = sum_up(&t, o.brief);
        pthread_mutex_destroy(&t.lock);
        free(t.trial);
        return code == 0 && kept < n ? EXIT_FAIL : code;
}
