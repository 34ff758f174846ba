/* SPDX-License-Identifier: BSD-3-Clause */
#include "power.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "pdu/io/loop.h"
#include "report.h"
#include "runner.h"

enum { EXIT_FAIL = 1, EXIT_BROKEN = 3, EXIT_SKIPPED = 77 };

struct trial {               /* of one rule, or flaw */
        unsigned rule, flaw; /* one of them is 0 */
        bool waived;         /* the one that is tested overlooks it; else it breaks it */
        bool caught;
        char by[128];             /* the case that found out */
        char unable[RESULT_TEXT]; /* why no case of it can be run, spoilt or not */
        char error[RESULT_TEXT];
        double seconds;
};

struct trials {
        const struct options *o;
        const struct conform_family *f;
        bool flaws;         /* are tried, not rules */
        struct suite suite; /* of a trial, before it starts */
        struct run sound;   /* of the cases on the sound one */
        const struct test_case **cases;
        size_t count;
        struct trial *trial;
        size_t n, next;
        pthread_mutex_t lock;
};

static bool names(const struct test_case *c, unsigned rule)
{
        const unsigned *r = c->rules;

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
static void waive(struct rule_policy *policy, const struct rulebook *book, unsigned rule)
{
        const struct rule *r = rulebook_get(book, rule);

        rule_add(&policy->waived, rule);
        for (size_t i = 0; i < sizeof(r->shadows) / sizeof(r->shadows[0]); i++)
                if (r->shadows[i])
                        rule_add(&policy->waived, r->shadows[i]);
}

static const struct flaw *flaw_of(const struct trials *t, const struct trial *trial)
{
        return &t->f->family->rules->flaws[trial->flaw];
}

/* One of the words of found_by selects it. */
static bool may_find(const struct flaw *flaw, const struct test_case *c)
{
        for (const char *p = flaw->found_by; *p; p += *p == ' ') {
                size_t len = strcspn(p, " ");
                char word[128];

                snprintf(word, sizeof(word), "%.*s", (int)len, p);
                if (strcmp(word, c->id) == 0 || id_matches(word, c->id))
                        return true;
                p += len;
        }
        return false;
}

static size_t cases_of(const struct trials *t, const struct trial *trial,
                       const struct test_case **list)
{
        size_t n = 0;

        for (size_t i = 0; i < t->count; i++)
                if (trial->flaw ? may_find(flaw_of(t, trial), t->cases[i])
                                : names(t->cases[i], trial->rule))
                        list[n++] = t->cases[i];
        return n;
}

/* What its party should not do is lenient, and so is what an older one may, or what meets a reaction inexactly. */
static bool is_advised(const struct trials *t, const struct flaw *flaw)
{
        const struct rule *r = rulebook_get(t->f->family->rules, flaw->breaks);

        return flaw->lenient || (r && r->level == LEVEL_SHOULD);
}

/* A flaw fails a case; a host's may also be what a capture of the case shows. */
static bool catches(const struct trials *t, const struct trial *trial, const struct result *r)
{
        if (!trial->flaw)
                return r->test && r->caught;
        return (r->verdict == VERDICT_FAIL ||
                (r->verdict == VERDICT_LENIENT && is_advised(t, flaw_of(t, trial)))) &&
               (r->test || flaw_of(t, trial)->host);
}

/* NULL: it ran there. */
static const char *skipped_on_sound(const struct trials *t, const struct test_case *c)
{
        for (size_t i = 0; i < t->sound.count; i++)
                if (t->sound.results[i].test == c)
                        return t->sound.results[i].verdict == VERDICT_SKIP
                                   ? t->sound.results[i].note
                                   : NULL;
        return NULL;
}

/* A trial shows nothing if its cases do not run on the sound one, either; who makes one skip by being spoilt has survived. */
static void note_unable(const struct trials *t, struct trial *trial,
                        const struct test_case *const *list, size_t n)
{
        const char *why = NULL;

        for (size_t i = 0; i < n; i++) {
                why = skipped_on_sound(t, list[i]);
                if (!why)
                        return;
        }
        if (why)
                snprintf(trial->unable, sizeof(trial->unable), "%s", why);
}

static void note_catch(const struct trials *t, struct trial *trial, const struct run *run)
{
        for (size_t i = 0; i < run->count && !trial->caught; i++) {
                const struct result *r = &run->results[i];

                if (!catches(t, trial, r))
                        continue;
                trial->caught = true;
                snprintf(trial->by, sizeof(trial->by), "%s", r->id);
        }
}

static void run_trial(const struct trials *t, struct trial *trial, const struct suite *suite)
{
        const struct test_case **list = must_have(calloc(t->count, sizeof(*list)));
        struct runner runner = { .suite = suite,
                                 .cases = list,
                                 .jobs = 2,
                                 .repeat = 1,
                                 .stop_at_failure = !trial->flaw };
        struct run run = { .strict = suite->strict };

        runner.count = cases_of(t, trial, list);
        if (!runner_run(&runner, &run))
                must_have(NULL);
        note_catch(t, trial, &run);
        if (!trial->caught)
                note_unable(t, trial, list, runner.count);
        trial->seconds = run.seconds;
        free(run.results);
        free(list);
}

static void try_policy(const struct trials *t, struct trial *trial,
                       const struct rule_policy *policy)
{
        struct suite suite = t->suite;
        void *started = t->f->start(t->o, policy, &suite, trial->error, sizeof(trial->error));

        if (!started)
                return;
        suite.started = loop_wall_ns() / 1000000000;
        trial->error[0] = '\0';
        run_trial(t, trial, &suite);
        t->f->stop(started);
}

static void try_one(const struct trials *t, struct trial *trial)
{
        struct rule_policy policy = { 0 };

        if (trial->flaw) {
                rule_add(&policy.flaws, trial->flaw);
                try_policy(t, trial, &policy);
                return;
        }
        trial->waived = is_waived(t, rulebook_get(t->f->family->rules, trial->rule));
        if (trial->waived)
                waive(&policy, t->f->family->rules, trial->rule);
        else
                rule_add(&policy.violated, trial->rule);
        try_policy(t, trial, &policy);
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
                try_one(t, &t->trial[i]);
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
static bool means_something(const struct conform_family *f, enum role role, const struct rule *r)
{
        return role == ROLE_TARGET || f->notices ||
               (r->reaction != REACT_NONE && r->reaction != REACT_TOLERATE);
}

static const char *untried(enum role role, const struct rule *r)
{
        return r->untried[role == ROLE_HOST ? PARTY_HOST : PARTY_CONTROLLER];
}

bool power_tries(const struct conform_family *f, enum role role, const struct rule *r)
{
        return means_something(f, role, r) && !untried(role, r);
}

static bool is_named(const struct trials *t, unsigned rule)
{
        size_t i = 0;

        while (i < t->count && !names(t->cases[i], rule))
                i++;
        return i < t->count;
}

/* The flaws that `ids` select, one each. */
static bool is_selected(const struct trials *t, const struct flaw *flaw)
{
        const struct selection *s = &t->o->selection;

        if ((flaw->only && strcmp(flaw->only, s->transport) != 0) ||
            flaw->host != (s->role == ROLE_HOST))
                return false;
        for (size_t i = 0; i < s->id_count; i++)
                if (strcmp(s->ids[i], flaw->id) == 0 || id_matches(s->ids[i], flaw->id))
                        return true;
        return false;
}

static void collect_flaws(struct trials *t)
{
        const struct rulebook *book = t->f->family->rules;

        for (unsigned f = 1; f < book->flaw_count; f++)
                if (is_selected(t, &book->flaws[f]))
                        t->trial[t->n++].flaw = f;
}

static void collect_rules(struct trials *t)
{
        enum role role = t->o->selection.role;

        for (unsigned id = 1; id < t->f->family->rules->count; id++) {
                const struct rule *r = rulebook_get(t->f->family->rules, id);

                if (!is_named(t, id) || !means_something(t->f, role, r))
                        continue;
                if (untried(role, r))
                        printf("  not tried  %-34s  %s\n", r->id, untried(role, r));
                else
                        t->trial[t->n++].rule = id;
        }
}

static void print_trial(const struct trials *all, const struct trial *t, bool brief)
{
        const struct rule *rule = rulebook_get(all->f->family->rules, t->rule);
        const char *how = t->flaw ? "had" : t->waived ? "waived" : "violated";
        const char *id = t->flaw ? flaw_of(all, t)->id : rule->id;

        if (t->error[0])
                printf("  error     %-8s  %-34s  %s\n", how, id, t->error);
        else if (t->unable[0])
                printf("  not tried  %-34s  %s\n", id, t->unable);
        else if (!t->caught)
                printf("  SURVIVED  %-8s  %-34s  %s\n", how, id,
                       t->flaw ? flaw_of(all, t)->says : rule->says);
        else if (!brief)
                printf("  caught    %-8s  %-34s  by %s\n", how, id, t->by);
}

static int sum_up(const struct trials *t, bool brief)
{
        size_t caught = 0, broken = 0, unable = 0;

        for (size_t i = 0; i < t->n; i++) {
                print_trial(t, &t->trial[i], brief);
                caught += t->trial[i].caught;
                broken += t->trial[i].error[0] != '\0';
                unable += t->trial[i].unable[0] != '\0';
        }
        printf("\npower: %zu of %zu\n", caught, t->n - unable);
        if (broken > 0)
                return EXIT_BROKEN;
        if (t->n > 0 && unable == t->n)
                return EXIT_SKIPPED;
        return caught == t->n - unable ? 0 : EXIT_FAIL;
}

/* --- the sound target ---------------------------------------------------------------------- */

/* What is informational and about no rule is nobody's proof. */
static bool is_bad(const struct result *r)
{
        if (r->verdict == VERDICT_INFO && r->test->rules[0] == RULE_NONE)
                return false;
        return r->caught || r->verdict == VERDICT_FAIL || r->verdict == VERDICT_ERROR;
}

/* A case that fails there proves nothing anywhere: it is left out, and a line of `useless` names it. */
static size_t keep_good(const struct run *run, const struct test_case **cases, FILE *useless)
{
        size_t kept = 0;

        for (size_t i = 0; i < run->count; i++) {
                const struct result *r = &run->results[i];

                if (!r->test)
                        continue;
                if (is_bad(r))
                        fprintf(useless, "  no use    %s fails on the correct %s: %s\n", r->id,
                                run->role == ROLE_HOST ? "host" : "target", r->seen);
                else
                        cases[kept++] = r->test;
        }
        return kept;
}

static size_t run_sound(const struct options *o, const struct suite *suite,
                        const struct test_case **cases, size_t n, FILE *useless, struct run *run)
{
        struct runner runner = {
                .suite = suite, .cases = cases, .count = n, .jobs = (unsigned)o->jobs, .repeat = 1
        };

        *run = (struct run) { .strict = suite->strict, .role = suite->role };
        if (!runner_run(&runner, run))
                must_have(NULL);
        return keep_good(run, cases, useless);
}

/* What the sound one can do is what a spoilt one would say, if it were to be trusted. How many of the
 * cases are left, at the start of the array; 0: error says what is wrong. */
static size_t try_sound(const struct options *o, struct suite *suite,
                        const struct test_case **cases, size_t n, FILE *useless, struct run *run,
                        char *error, size_t size)
{
        bool host = o->selection.role == ROLE_HOST;
        struct probed probed = { .count = 0 };

        if (!host && (!suite->family->probe(suite, &probed, error, size) || probed.count > 0))
                return 0;
        n = run_sound(o, suite, cases, n, useless, run);
        snprintf(error, size, "no case passes on the sound %s", host ? "host" : "target");
        return n;
}

static int try_all(struct trials *t)
{
        const struct rulebook *book = t->f->family->rules;
        int code;

        t->trial = must_have(calloc(book->count + book->flaw_count, sizeof(*t->trial)));
        pthread_mutex_init(&t->lock, NULL);
        if (t->flaws)
                collect_flaws(t);
        else
                collect_rules(t);
        run_all(t, (unsigned)t->o->jobs);
        code = sum_up(t, t->o->brief);
        pthread_mutex_destroy(&t->lock);
        free(t->trial);
        return code;
}

bool power_is_of_flaws(const struct options *o)
{
        const struct rulebook *book = o->suite.family->family->rules;

        for (size_t i = 0; i < o->selection.id_count; i++)
                for (unsigned f = 1; f < book->flaw_count; f++)
                        if (id_matches(o->selection.ids[i], book->flaws[f].id) ||
                            strcmp(o->selection.ids[i], book->flaws[f].id) == 0)
                                return true;
        return false;
}

/* Cases that no flaw of these is to be found by. */
static size_t drop_idle(struct trials *t, const struct test_case **cases, size_t n)
{
        const struct rulebook *book = t->f->family->rules;
        size_t kept = 0;

        for (size_t i = 0; i < n; i++)
                for (unsigned f = 1; f < book->flaw_count; f++)
                        if (is_selected(t, &book->flaws[f]) &&
                            may_find(&book->flaws[f], cases[i])) {
                                cases[kept++] = cases[i];
                                break;
                        }
        return kept;
}

/* The last of the output, which is what people look at: why the exit status is what it is. */
static void print_useless(FILE *useless, char *const *lines)
{
        must_have(fclose(useless) == 0 ? *lines : NULL);
        if (**lines)
                printf("%spower: these prove nothing, and are why this ends with an error\n",
                       *lines);
        free(*lines);
}

int power_run(const struct options *o, const struct test_case **cases, size_t n)
{
        const struct conform_family *f = o->suite.family;
        struct suite sound = o->suite;
        struct rule_policy none = { 0 };
        struct trials t = { .o = o, .f = f, .suite = o->suite, .cases = cases };
        char error[1024], *lines = NULL;
        size_t len = 0;
        FILE *useless = must_have(open_memstream(&lines, &len));
        void *started;
        int code = EXIT_BROKEN;

        t.flaws = power_is_of_flaws(o);
        if (t.flaws)
                n = drop_idle(&t, cases, n);
        t.suite.strict = sound.strict = !t.flaws;
        sound.started = loop_wall_ns() / 1000000000;
        started = f->start(o, &none, &sound, error, sizeof(error));
        if (started)
                t.count = try_sound(o, &sound, cases, n, useless, &t.sound, error, sizeof(error));
        t.suite.peer = sound.peer; /* with all that was found out */
        if (t.count > 0)
                code = try_all(&t);
        else
                fprintf(stderr, "nvmfspec conform: %s\n", error);
        if (started)
                f->stop(started);
        free(t.sound.results);
        print_useless(useless, &lines);
        return code == 0 && t.count < n ? EXIT_FAIL : code;
}
