/* SPDX-License-Identifier: BSD-3-Clause */
#include "runner.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "standstill.h"
#include "transcript.h"

enum { JOB_STACK = 512 << 10, RANGES_MAX = 64, TRIES = 5, BUSY_MS = 250 };

struct crew { /* the threads of a run and what they share */
        const struct runner *r;
        struct result *results;
        size_t *order; /* indices of cases, as they run */
        pthread_mutex_t lock;
        pthread_cond_t range_free;
        size_t next, end; /* of order */
        size_t reported;
        bool *done;            /* by case */
        uint64_t ranges_taken; /* bits: those in use */
        unsigned ranges;
        bool enough;
        _Atomic bool dead;
        struct standstill still;
};

static bool is_stopped(const struct crew *c)
{
        return c->r->stop && *c->r->stop;
}

/* Why no case is begun any more; NULL: they are. */
static const char *too_late(const struct crew *c)
{
        if (c->dead)
                return "the system under test had stopped answering";
        return is_stopped(c) ? "interrupted" : NULL;
}

/* --- is it still there? -------------------------------------------------------------------- */

/* A target that is only slow, on a machine that is busy, is given time: what is at stake is all that
 * has not run yet. */
enum { ATTEMPTS = 5, BETWEEN_MS = 500 };

static bool still_alive(const struct suite *s, uint32_t n, char *why, size_t size)
{
        const struct test_case *live = s->family->liveness(s);

        if (!live)
                return true; /* as alive as it was */
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
                struct result r = { .id = "liveness" };
                struct suite quiet = *s;

                quiet.narrate = NULL;
                quiet.recorder = NULL;
                t_once(&quiet, live, &r, n);
                if (r.verdict == VERDICT_PASS || r.verdict == VERDICT_LENIENT)
                        return true;
                snprintf(why, size, "%s", r.verdict == VERDICT_SKIP ? r.note : r.seen);
                if (attempt < ATTEMPTS - 1)
                        pause_ms(NULL, BETWEEN_MS);
        }
        return false;
}

/* --- one case ------------------------------------------------------------------------------ */

static bool went_wrong(const struct result *r)
{
        return r->verdict == VERDICT_FAIL || r->verdict == VERDICT_ERROR ||
               r->verdict == VERDICT_LENIENT || r->notice_count > 0;
}

static void report_death(struct crew *c, struct result *r, const char *why)
{
        r->verdict = VERDICT_FAIL;
        snprintf(r->expected, RESULT_TEXT, "%s",
                 c->r->suite->role == ROLE_HOST ? "the host works with a correct target afterwards"
                                                : "the target continues to serve other hosts");
        snprintf(r->seen, RESULT_TEXT, "it no longer answers (%.200s)%s", why,
                 c->r->jobs > 1 ? "; another case that ran at that time may be the cause: try "
                                  "--jobs 1"
                                : "");
        escape_text(r->seen); /* it may be cut within a character */
        pthread_mutex_lock(&c->lock);
        c->dead = true;
        pthread_mutex_unlock(&c->lock);
}

static void start_result(struct result *r, const struct test_case *test)
{
        *r = (struct result) { .test = test, .level = test->level };
        snprintf(r->id, sizeof(r->id), "%s", test->id);
}

/* The one before it is over. */
static void end_try(struct t *t)
{
        bool busy = t->busy;

        t_end(t);
        if (busy)
                pause_ms(t, BUSY_MS);
}

/* What went wrong while this machine stood still proves nothing: it is tried again, and said at last.
 * So is what met a target that is busy: a small one may not be done yet with the connections of the
 * case before. */
static void run_fairly(struct crew *c, struct t *t, const struct test_case *test, struct result *r,
                       uint32_t n, int range)
{
        for (unsigned tries = 0; tries < TRIES; tries++) {
                uint64_t since = now_ms();

                if (tries > 0)
                        end_try(t);
                start_result(r, test);
                t_start(t, c->r->suite, test, r, n);
                t->range = range;
                t_run(t, test->run);
                if (!went_wrong(r) || is_stopped(c) ||
                    !(t->busy || standstill_since(&c->still, since)))
                        return;
        }
        if (!*r->note && !t->busy)
                snprintf(r->note, RESULT_TEXT,
                         "this machine stalled during the case, in each of %u attempts", TRIES);
}

/* False: the run was stopped meanwhile, and whether that is why it went wrong, or whether what is tested
 * still lives, nobody knows. */
static bool run_once(struct crew *c, const struct test_case *test, struct result *r, uint32_t n,
                     int range)
{
        const struct suite *s = c->r->suite;
        char why[RESULT_TEXT];
        struct t t;

        run_fairly(c, &t, test, r, n, range);
        if (is_stopped(c) && (t.negative || went_wrong(r))) {
                t_end(&t);
                return false;
        }
        if (s->record)
                transcript_record(s->record, &t);
        if (went_wrong(r)) {
                t_keep_exchange(&t);
                if (s->transcripts)
                        transcript_write(s->transcripts, r, &t);
        }
        t_end(&t);
        if ((!t.negative && !went_wrong(r)) || still_alive(s, n | 1u << 31, why, sizeof(why)))
                return true;
        if (is_stopped(c))
                return false;
        report_death(c, r, why);
        return true;
}

static void not_run(struct result *r, const char *why)
{
        r->verdict = VERDICT_ERROR;
        snprintf(r->seen, RESULT_TEXT, "not run: %s", why);
}

static enum verdict worse(enum verdict a, enum verdict b)
{
        return a > b ? a : b;
}

/* All runs of a case; the worst one is its result. */
static void run_case(struct crew *c, size_t i, int range)
{
        const struct test_case *test = c->r->cases[i];
        const char *why = c->r->suite->family->why_not(c->r->suite, test, range >= 0);
        struct result *worst = &c->results[i], r;
        uint64_t start = exchange_now();

        start_result(worst, test);
        if (why) {
                worst->verdict = VERDICT_SKIP;
                snprintf(worst->note, RESULT_TEXT, "%s", why);
                return;
        }
        for (unsigned n = 0; n < c->r->repeat && !too_late(c); n++) {
                if (!run_once(c, test, &r, (uint32_t)(n * c->r->count + i), range))
                        break;
                if (n == 0 || worse(r.verdict, worst->verdict) != worst->verdict)
                        *worst = r;
                worst->repeats = n + 1;
        }
        if (worst->repeats == 0)
                not_run(worst, too_late(c));
        else
                worst->ms = (double)(exchange_now() - start) / 1000.0 / worst->repeats;
}

/* --- the crew ------------------------------------------------------------------------------ */

/* A range for a case that writes; waits for one. -1: there is none at all. */
static int take_range(struct crew *c, const struct test_case *test)
{
        int range = 0;

        if (!test->writes || c->ranges == 0)
                return -1;
        pthread_mutex_lock(&c->lock);
        while (c->ranges_taken == (c->ranges == 64 ? ~UINT64_C(0) : (UINT64_C(1) << c->ranges) - 1))
                pthread_cond_wait(&c->range_free, &c->lock);
        while (c->ranges_taken >> range & 1)
                range++;
        c->ranges_taken |= UINT64_C(1) << range;
        pthread_mutex_unlock(&c->lock);
        return range;
}

static void give_range(struct crew *c, int range)
{
        if (range < 0)
                return;
        pthread_mutex_lock(&c->lock);
        c->ranges_taken &= ~(UINT64_C(1) << range);
        pthread_cond_signal(&c->range_free);
        pthread_mutex_unlock(&c->lock);
}

/* Results are told in the order of the cases, as soon as all before them are there. */
static void crew_report(struct crew *c, size_t i)
{
        pthread_mutex_lock(&c->lock);
        c->done[i] = true;
        if (c->r->stop_at_failure && c->results[i].caught)
                c->enough = true;
        while (c->reported < c->r->count && c->done[c->reported]) {
                if (c->r->ended)
                        c->r->ended(c->r->arg, &c->results[c->reported]);
                c->reported++;
        }
        pthread_mutex_unlock(&c->lock);
}

static bool next_case(struct crew *c, size_t *i)
{
        bool more;

        pthread_mutex_lock(&c->lock);
        more = c->next < c->end && !c->enough;
        if (more)
                *i = c->order[c->next++];
        pthread_mutex_unlock(&c->lock);
        return more;
}

static void *work(void *arg)
{
        struct crew *c = arg;
        size_t i;

        while (next_case(c, &i)) {
                const char *why = too_late(c);

                if (why) {
                        start_result(&c->results[i], c->r->cases[i]);
                        not_run(&c->results[i], why);
                } else {
                        int range = take_range(c, c->r->cases[i]);

                        run_case(c, i, range);
                        give_range(c, range);
                }
                crew_report(c, i);
        }
        return NULL;
}

static size_t put_cases(struct crew *c, size_t n, bool changes, bool slow)
{
        for (size_t i = 0; i < c->r->count; i++)
                if (c->r->cases[i]->changes == changes && c->r->cases[i]->slow == slow)
                        c->order[n++] = i;
        return n;
}

static void run_crew(struct crew *c, size_t jobs)
{
        size_t left = c->end - c->next;
        unsigned n = (unsigned)(jobs < left ? jobs : left), started = 0;
        pthread_t *threads = calloc(n, sizeof(*threads));
        pthread_attr_t attr;

        if (!threads)
                abort();
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, JOB_STACK);
        while (started < n && pthread_create(&threads[started], &attr, work, c) == 0)
                started++;
        if (started == 0)
                work(c);
        for (unsigned i = 0; i < started; i++)
                pthread_join(threads[i], NULL);
        pthread_attr_destroy(&attr);
        free(threads);
}

/* The slow ones first; at last those that the others would notice, one at a time. */
static void run_all(struct crew *c)
{
        c->end = put_cases(c, put_cases(c, 0, false, true), false, false);
        if (c->end > 0)
                run_crew(c, c->r->jobs);
        c->end = put_cases(c, put_cases(c, c->end, true, true), true, false);
        if (c->next < c->end)
                run_crew(c, 1);
}

/* --- rules that no failing case names ------------------------------------------------------ */

static bool accounted_for(const struct result *results, size_t n, unsigned rule)
{
        for (size_t i = 0; i < n; i++)
                if (results[i].rule == rule && results[i].caught)
                        return true;
        return false;
}

static void count_notice(const struct rulebook *rules, struct result *p, const struct result *from,
                         const struct notice *n)
{
        const struct rule *rule = rulebook_get(rules, n->rule);
        static const enum verdict verdicts[] = { [LEVEL_MUST] = VERDICT_FAIL,
                                                 [LEVEL_SHOULD] = VERDICT_LENIENT,
                                                 [LEVEL_INFO] = VERDICT_INFO };

        if (p->repeats++ > 0)
                return;
        snprintf(p->id, sizeof(p->id), "noticed/%s", rule->id);
        p->level = rule->level;
        p->verdict = verdicts[rule->level];
        p->rule = n->rule;
        snprintf(p->expected, RESULT_TEXT, "%s", rule->says);
        snprintf(p->seen, RESULT_TEXT, "%s", n->line);
        snprintf(p->note, RESULT_TEXT, "first seen in %s", from->id);
}

/* Cases are named before the probe is, whose results are the first. */
static void add_notices(struct run *run, size_t probed)
{
        const struct rulebook *rules = run->family->family->rules;
        size_t n = run->count;

        for (unsigned rule = 1; rule < rules->count; rule++) {
                struct result *p = &run->results[run->count];

                if (accounted_for(run->results, n, rule))
                        continue;
                for (size_t i = 0; i < n; i++) {
                        const struct result *r = &run->results[(i + probed) % n];

                        for (unsigned k = 0; k < r->notice_count; k++)
                                if (r->notices[k].rule == rule)
                                        count_notice(rules, p, r, &r->notices[k]);
                }
                if (p->repeats > 0)
                        run->count++;
        }
}

void runner_run(const struct runner *runner, struct run *run)
{
        const struct conform_family *f = runner->suite->family;
        unsigned ranges = f->ranges(runner->suite);
        struct crew c = { .r = runner, .ranges = ranges < RANGES_MAX ? ranges : RANGES_MAX };
        size_t probed = runner->probed ? runner->probed->count : 0;
        uint64_t start = now_ms();

        run->family = f;
        run->results =
            calloc(probed + runner->count + f->family->rules->count, sizeof(*run->results));
        c.order = calloc(runner->count, sizeof(*c.order));
        c.done = calloc(runner->count, sizeof(*c.done));
        if (!run->results || !c.order || !c.done)
                abort();
        c.results = run->results + probed;
        for (size_t i = 0; i < probed; i++) {
                run->results[i] = runner->probed->results[i];
                if (runner->ended)
                        runner->ended(runner->arg, &run->results[i]);
        }
        pthread_mutex_init(&c.lock, NULL);
        pthread_cond_init(&c.range_free, NULL);
        standstill_start(&c.still);
        run_all(&c);
        standstill_stop(&c.still);
        pthread_cond_destroy(&c.range_free);
        pthread_mutex_destroy(&c.lock);
        free(c.order);
        free(c.done);
        run->count = probed + runner->count;
        run->dead = too_late(&c);
        add_notices(run, probed);
        run->seconds = (double)(now_ms() - start) / 1000.0;
}
