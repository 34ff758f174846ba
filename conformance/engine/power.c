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

/* With the rules whose checks come first, or nothing would show. */
static void waive(struct rule_policy *policy, enum rule_id rule)
{
        const struct rule *r = rule_get(rule);

        rule_add(&policy->waived, rule);
        for (size_t i = 0; i < sizeof(r->shadows) / sizeof(r->shadows[0]); i++)
                if (r->shadows[i])
                        rule_add(&policy->waived, r->shadows[i]);
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

/* A host that tolerates or survives something anyway can't be made to by a waiver. */
static bool means_something(enum role role, const struct rule *r)
{
        return role == ROLE_TARGET || (r->reaction != REACT_NONE && r->reaction != REACT_TOLERATE);
}

static const char *untried(enum role role, const struct rule *r)
{
        return r->untried[role == ROLE_HOST ? PARTY_HOST : PARTY_CONTROLLER];
}

bool power_tries(enum role role, const struct rule *r)
{
        return means_something(role, r) && !untried(role, r);
}

static bool is_named(const struct trials *t, enum rule_id rule)
{
        size_t i = 0;

        while (i < t->count && !names(t->cases[i], rule))
                i++;
        return i < t->count;
}

static void collect(struct trials *t)
{
        enum role role = t->o->selection.role;

        rule_each (id) {
                const struct rule *r = rule_get(id);

                if (!is_named(t, id) || !means_something(role, r))
                        continue;
                if (untried(role, r))
                        printf("  not tried  %-34s  %s\n", r->id, untried(role, r));
                else
                        t->trial[t->n++].rule = id;
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
