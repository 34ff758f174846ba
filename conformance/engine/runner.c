/* SPDX-License-Identifier: BSD-3-Clause */
#include "runner.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "leaving.h"
#include "pdu/io/shell.h"
#include "standstill.h"
#include "transcript.h"

enum {
        JOB_STACK = 512 << 10,
        RANGES_MAX = 64,
        LEASE_POLL_MS = 5,
        WHOLE_PLACES = 16, /* runs at once that share what is stored */
        WRITERS = 16,      /* runs at once that write, to whatever target */
        LEASE_WAIT_MS = 60000,
        TRIES = 5,
        BUSY_MS = 250, /* and twice as long each time ... */
        BUSY_ALONE = 5,
        BUSY_BESIDE = 7, /* ... up to so many tries: beside others, who may hold what there is
                                          * for as long as Keep Alive Timeouts are, 16 s */
        HANGS = 3,       /* who has hung so often twice in a row is believed at once */
        RESTARTS = 256,  /* of who is tested */
        RECENT = 8, /* cases that ended last are suspect, too: it may have died a moment later */
};

#define WRITER "conform/writer/%u" /* a lease */

struct progress { /* of a case */
        bool started, done;
        unsigned ended; /* as how manieth; 0: it has not */
        bool suspect;   /* ran when who is tested died; not reported before it was run again */
};

struct crew { /* the threads of a run and what they share */
        const struct runner *r;
        struct result *results;
        size_t *order; /* indices of cases, as they run */
        pthread_mutex_t lock;
        size_t next, end;       /* of order */
        pthread_cond_t settled; /* a case has ended: */
        unsigned moved;         /* those that run and are not unmoved */
        size_t reported;
        struct progress *of; /* by case */
        unsigned ended, restarts;
        const struct test_case *alone; /* that is tried whether it kills */
        struct result riddle; /* a death that no case alone is the cause of; .verdict NONE: none */
        _Atomic unsigned running,
            waiting; /* cases, and those of them that hold nothing until somebody is through */
        _Atomic unsigned hangs; /* twice in a row */
        uint64_t ranges_taken;  /* bits: those in use */
        unsigned ranges;
        struct {
                uint64_t since; /* when it was given back */
                uint64_t kept;  /* until when what a case has begun may still change it */
        } free[RANGES_MAX];
        int lease[RANGES_MAX][RANGE_PIECES]; /* of the ranges in use */
        int whole[WHOLE_PLACES];             /* of all that is stored; see take_whole() */
        bool shared;                         /* others use it, and do not leave */
        int writing; /* the lease of a run that writes, of this place among them */
        unsigned writer;
        bool met; /* there was another one */
        bool enough;
        _Atomic bool dead, lost; /* lost: it could not be started again */
        struct standstill still;
};

static bool is_stopped(const struct crew *c)
{
        return c->r->stop && *c->r->stop;
}

/* Why no case is begun any more; NULL: they are. */
static const char *too_late(const struct crew *c)
{
        if (c->dead && c->lost)
                return "--restart did not bring the system under test back";
        if (c->dead && c->restarts == RESTARTS)
                return "the system under test had died too often to be started again";
        if (c->dead)
                return "the system under test had stopped answering";
        return is_stopped(c) ? "interrupted" : NULL;
}

/* --- is it still there? -------------------------------------------------------------------- */

/* A target that is only slow, on a machine that is busy, is given time: what is at stake is all that
 * has not run yet. */
enum { ATTEMPTS = 5, BETWEEN_MS = 500 };

/* That all it has is in use is an answer, too. */
static bool answers(const struct suite *s, const struct test_case *live, struct result *r,
                    uint32_t n)
{
        struct t t;

        t_start(&t, s, live, r, n);
        t_run(&t, live->run);
        t_end(&t);
        return t.busy || (r->verdict > VERDICT_NONE && r->verdict <= VERDICT_LENIENT);
}

static bool still_alive(const struct suite *s, uint32_t n, char *why, size_t size)
{
        const struct test_case *live = s->family->liveness ? s->family->liveness(s) : NULL;

        if (!live)
                return true; /* as alive as it was */
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
                struct result r = { .id = "liveness" };
                struct suite quiet = *s;

                quiet.narrate = NULL;
                quiet.recorder = NULL;
                if (answers(&quiet, live, &r, n))
                        return true;
                snprintf(why, size, "%s", r.verdict == VERDICT_SKIP ? r.note : r.seen);
                if (attempt < ATTEMPTS - 1)
                        pause_ms(NULL, BETWEEN_MS);
        }
        return false;
}

/* Whether somebody else writes where the case did: what it saw is not the target's doing. */
static bool is_shared(const struct suite *s, uint32_t n, int range, char *how, size_t size)
{
        const struct test_case *sharing = s->family->sharing;
        struct suite quiet = *s;
        struct result r = { .id = "sharing" };
        struct t t;

        if (!sharing || range < 0)
                return false;
        quiet.narrate = NULL;
        quiet.recorder = NULL;
        t_start(&t, &quiet, sharing, &r, n);
        t.range = range;
        t_run(&t, sharing->run);
        t_end(&t);
        snprintf(how, size, "%s", r.note);
        return r.verdict == VERDICT_SKIP;
}

/* --- one case ------------------------------------------------------------------------------ */

static bool went_wrong(const struct result *r)
{
        return r->verdict == VERDICT_FAIL || r->verdict == VERDICT_ERROR ||
               r->verdict == VERDICT_LENIENT || r->verdict == VERDICT_ADVICE || r->notice_count > 0;
}

/* Who may have done it: what is running, and what has just ended. The ids of the former are named. */
static void find_suspects(struct crew *c, char *names, size_t size)
{
        size_t len = 0;

        for (size_t i = 0; i < c->r->count; i++) {
                struct progress *p = &c->of[i];
                bool running = p->started && p->ended == 0;

                p->suspect = running || (p->ended > 0 && p->ended + RECENT > c->ended);
                if (running && len < size)
                        len += (size_t)snprintf(names + len, size - len, "%s%s",
                                                len > 0 ? ", " : "", c->r->cases[i]->id);
        }
}

static bool can_restart(const struct crew *c)
{
        return c->r->suite->restart && c->restarts < RESTARTS && !c->lost && !is_stopped(c);
}

/* The first one that finds it dead tells; what the others saw after that says nothing. */
static void report_death(struct crew *c, struct result *r, const char *why)
{
        char running[RESULT_TEXT] = "";
        bool host = c->r->suite->role == ROLE_HOST, first;

        pthread_mutex_lock(&c->lock);
        first = !c->dead;
        if (first && !c->alone)
                find_suspects(c, running, sizeof(running));
        c->dead = true;
        pthread_mutex_unlock(&c->lock);
        r->caught = r->harm = first;
        r->rule = first ? r->rule : RULE_NONE;
        r->verdict = first ? VERDICT_FAIL : VERDICT_ERROR;
        snprintf(r->expected, RESULT_TEXT, "%s",
                 !first ? ""
                 : host ? "the host works with a correct target afterwards"
                        : "the target continues to serve other hosts");
        if (!first)
                snprintf(r->seen, RESULT_TEXT, "interrupted: the %s died while this case ran",
                         host ? "host" : "target");
        else if (c->alone)
                snprintf(r->seen, RESULT_TEXT,
                         "it no longer answers (%.200s): this case, run alone, "
                         "ends it",
                         why);
        else
                snprintf(r->seen, RESULT_TEXT, "it no longer answers (%.90s)%s%.130s", why,
                         strchr(running, ',')
                             ? "; these cases ran (--restart CMD, or -j 1, tells them "
                               "apart): "
                             : "",
                         strchr(running, ',') ? running : "");
        escape_text(r->seen); /* it may be cut within a character */
}

static void start_result(struct result *r, const struct test_case *test)
{
        *r = (struct result) { .test = test, .level = test->level };
        snprintf(r->id, sizeof(r->id), "%s", test->id);
}

/* Where a case writes. */
struct place {
        int range;        /* -1: it may not */
        unsigned lingers; /* ms, of what ran there: see struct t */
};

static void move_on(struct crew *c, const struct test_case *test, struct place *p);

/* It went wrong as it got no connection, which somebody else may have, and how many there have to be no sentence says; or by
 * a status that passes by itself. Harm and a broken rule are no less for that. */
static bool is_busy(const struct t *t, const struct result *r)
{
        bool passed =
            r->verdict == VERDICT_PASS || r->verdict == VERDICT_INFO || r->verdict == VERDICT_SKIP;

        if (!t->busy || passed || r->harm)
                return false;
        for (unsigned i = 0; i < r->notice_count; i++)
                if (r->notices[i].rule == r->rule)
                        return false;
        return true;
}

static void report_busy(struct result *r)
{
        char seen[RESULT_TEXT];

        memcpy(seen, r->seen, sizeof(seen));
        r->verdict = VERDICT_SKIP;
        r->rule = RULE_NONE;
        r->caught = r->only_strict = false;
        r->expected[0] = r->seen[0] = '\0';
        snprintf(r->note, RESULT_TEXT, "the target was busy: %.200s", seen);
        escape_text(r->note);
}

/* How often it is worth while to try. */
static unsigned busy_tries(const struct crew *c)
{
        return c->running - c->waiting > 1 ? BUSY_BESIDE : BUSY_ALONE;
}

/* Until somebody may be through who has what the case needs. */
static void await_others(struct crew *c, const struct t *t, unsigned tries)
{
        c->waiting++;
        pause_ms(NULL, (unsigned)t_scaled(t, (unsigned)BUSY_MS << tries));
        c->waiting--;
}

static void end_try(struct t *t, struct place *p)
{
        t_end(t);
        p->lingers = t->lingers;
}

static void run_try(struct crew *c, struct t *t, const struct test_case *test, struct result *r,
                    uint32_t n, struct place *p)
{
        move_on(c, test, p);
        start_result(r, test);
        t_start(t, c->r->suite, test, r, n);
        t->range = p->range;
        t_run(t, test->run);
}

/* Once more, if it hung; a hang that does not happen again is worth a remark. */
static bool was_chance(struct crew *c, const struct t *t, struct result *r, bool *hung)
{
        bool again = *hung;

        *hung = t->hung;
        if (again && !t->hung && !*r->note)
                snprintf(r->note, RESULT_TEXT, "it hung at first; run again, it did not");
        if (again && t->hung)
                c->hangs++;
        return !again && t->hung && c->hangs < HANGS;
}

/* What went wrong while this machine stood still proves nothing: it is tried again, and said at last.
 * So is what met a target that is busy: a small one may not be done yet with the connections of the
 * case before. And so is a hang. */
static void run_fairly(struct crew *c, struct t *t, const struct test_case *test, struct result *r,
                       uint32_t n, struct place *p)
{
        bool hung = false;

        for (unsigned tries = 0;; tries++) {
                uint64_t since = now_ms();
                bool busy, chance;

                run_try(c, t, test, r, n, p);
                busy = is_busy(t, r);
                chance = was_chance(c, t, r, &hung);
                if (!went_wrong(r) || is_stopped(c) ||
                    !(busy || chance || standstill_since(&c->still, since)))
                        return;
                if (tries + 1 >= (busy ? busy_tries(c) : TRIES))
                        break;
                end_try(t, p);
                if (busy)
                        await_others(c, t, tries);
        }
        if (is_busy(t, r))
                report_busy(r);
        else if (!*r->note)
                snprintf(r->note, RESULT_TEXT,
                         "this machine stalled during the case, in each of %u attempts", TRIES);
}

/* Whether another run on this machine has been writing meanwhile: it may know the target by another address. What it
 * wrote last may bear no mark of it. */
static bool met_others(struct crew *c)
{
        char name[LEASE_NAME];

        pthread_mutex_lock(&c->lock);
        for (unsigned i = 0; i < WRITERS && c->writing >= 0 && !c->met; i++) {
                int lease;

                if (i == c->writer)
                        continue;
                snprintf(name, sizeof(name), WRITER, i);
                lease = lease_take(name);
                c->met = lease == LEASE_HELD;
                lease_give(lease);
        }
        pthread_mutex_unlock(&c->lock);
        return c->met;
}

static void interrupted(struct result *r, const char *why, const char *how)
{
        r->verdict = VERDICT_ERROR;
        r->caught = r->harm = false;
        snprintf(r->note, RESULT_TEXT, "%.140s; it saw: %.140s", why, r->seen);
        snprintf(r->seen, RESULT_TEXT,
                 "interrupted: another run of the suite %s (--slice K/N keeps them apart)", how);
}

/* A case failed that others may have disturbed: run again, it does not. */
static bool fails_once(struct crew *c, const struct test_case *test, uint32_t n, struct place *p)
{
        struct result again;
        struct t t;

        run_fairly(c, &t, test, &again, n, p);
        end_try(&t, p);
        return !went_wrong(&again) && !is_stopped(c);
}

/* False: the run was stopped meanwhile, and whether that is why it went wrong, or whether what is tested
 * still lives, nobody knows. */
static bool run_once(struct crew *c, const struct test_case *test, struct result *r, uint32_t n,
                     struct place *p)
{
        const struct suite *s = c->r->suite;
        char why[RESULT_TEXT];
        struct t t;

        run_fairly(c, &t, test, r, n, p);
        if (is_stopped(c) && (t.negative || went_wrong(r))) {
                end_try(&t, p);
                return false;
        }
        if (s->record)
                transcript_record(s->record, &t);
        if (went_wrong(r)) {
                t_keep_exchange(&t);
                if (s->transcripts)
                        transcript_write(s->transcripts, r, &t);
        }
        end_try(&t, p);
        if (r->verdict == VERDICT_FAIL && is_shared(s, n | 1u << 29, p->range, why, sizeof(why)))
                interrupted(r, why, "writes to the same blocks");
        else if (r->verdict == VERDICT_FAIL && p->range >= 0 && met_others(c) &&
                 fails_once(c, test, n, p))
                interrupted(r, "run again it does not fail",
                            "was writing, perhaps to the same blocks");
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
static void run_case(struct crew *c, size_t i, struct place *p)
{
        const struct test_case *test = c->r->cases[i];
        const struct conform_family *f = c->r->suite->family;
        const char *why = f->why_not ? f->why_not(c->r->suite, test, p->range >= 0) : NULL;
        struct result *worst = &c->results[i], r;
        uint64_t start = exchange_now();

        start_result(worst, test);
        if (!why && test->alone && c->shared)
                why = "another run of the suite uses what this case needs for itself";
        if (why) {
                worst->verdict = VERDICT_SKIP;
                snprintf(worst->note, RESULT_TEXT, "%s", why);
                return;
        }
        for (unsigned n = 0; n < c->r->repeat && !too_late(c); n++) {
                if (!run_once(c, test, &r, (uint32_t)(n * c->r->count + i), p))
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

static void give_leases(struct crew *c, unsigned range)
{
        for (unsigned i = 0; i < RANGE_PIECES; i++) {
                lease_give(c->lease[range][i]);
                c->lease[range][i] = LEASE_HELD;
        }
}

/* False: another run on this machine has some of it. */
static bool take_leases(struct crew *c, unsigned range)
{
        const struct suite *s = c->r->suite;
        char name[LEASE_NAME];

        for (unsigned i = 0; i < RANGE_PIECES && s->family->range_piece &&
                             s->family->range_piece(s, range, i, name);
             i++)
                if ((c->lease[range][i] = lease_take(name)) == LEASE_HELD) {
                        give_leases(c, range);
                        return false;
                }
        return true;
}

/* Nothing may change it any more, or sooner not; and it has been free for longer. */
static bool is_better(const struct crew *c, unsigned a, unsigned b, uint64_t now)
{
        bool kept_a = c->free[a].kept > now, kept_b = c->free[b].kept > now;

        if (kept_a || kept_b)
                return !kept_a || (kept_b && c->free[a].kept < c->free[b].kept);
        return c->free[a].since < c->free[b].since;
}

/* Of those whose bits are not set, from a place on that is this run's; -1: there is none. */
static int best_range(const struct crew *c, uint64_t but)
{
        uint64_t now = now_ms();
        int best = -1;

        for (unsigned i = 0; i < c->ranges; i++) {
                unsigned range = (c->r->suite->seed + i) % c->ranges;

                if (!(but >> range & 1) && (best < 0 || is_better(c, range, (unsigned)best, now)))
                        best = (int)range;
        }
        return best;
}

/* -1: there is none that is free. */
static int find_range(struct crew *c, bool alone)
{
        uint64_t but = c->ranges_taken;
        int range;

        while ((range = best_range(c, but)) >= 0 && alone && !take_leases(c, (unsigned)range))
                but |= UINT64_C(1) << range;
        return range;
}

/* A range for a case that writes; waits for one. -1: there is none at all. What other runs keep for long
 * is shared with them: see is_shared(). */
static int take_range(struct crew *c, const struct test_case *test)
{
        uint64_t end = now_ms() + LEASE_WAIT_MS;
        int range;

        if (!test->writes || c->ranges == 0)
                return -1;
        pthread_mutex_lock(&c->lock);
        while ((range = find_range(c, now_ms() < end)) < 0) {
                pthread_mutex_unlock(&c->lock);
                pause_ms(NULL, LEASE_POLL_MS);
                pthread_mutex_lock(&c->lock);
        }
        c->ranges_taken |= UINT64_C(1) << range;
        pthread_mutex_unlock(&c->lock);
        return range;
}

static void give_range(struct crew *c, const struct place *p)
{
        uint64_t now = now_ms();

        if (p->range < 0)
                return;
        pthread_mutex_lock(&c->lock);
        c->ranges_taken &= ~(UINT64_C(1) << p->range);
        c->free[p->range].since = now;
        c->free[p->range].kept = now + p->lingers;
        give_leases(c, (unsigned)p->range);
        pthread_mutex_unlock(&c->lock);
}

/* To another range, if what was begun in this one may still change it. */
static void move_on(struct crew *c, const struct test_case *test, struct place *p)
{
        if (p->lingers == 0 || p->range < 0)
                return;
        give_range(c, p);
        *p = (struct place) { .range = take_range(c, test) };
}

/* Results are told in the order of the cases, as soon as all before them are there. */
static void crew_report(struct crew *c, size_t i)
{
        pthread_mutex_lock(&c->lock);
        c->of[i].done = true;
        if (c->r->stop_at_failure && c->results[i].caught)
                c->enough = true;
        while (c->reported < c->r->count && c->of[c->reported].done) {
                if (c->r->ended)
                        c->r->ended(c->r->arg, &c->results[c->reported]);
                c->reported++;
        }
        pthread_mutex_unlock(&c->lock);
}

static bool has_more(const struct crew *c)
{
        return c->next < c->end && !c->enough && !(c->dead && can_restart(c));
}

/* Cases that change the target come after those that they would disturb, one at a time. */
static bool has_to_wait(const struct crew *c)
{
        return has_more(c) && c->r->cases[c->order[c->next]]->changes && c->moved > 0;
}

static bool next_case(struct crew *c, size_t *i)
{
        bool more;

        pthread_mutex_lock(&c->lock);
        while (has_to_wait(c))
                pthread_cond_wait(&c->settled, &c->lock);
        more = has_more(c);
        if (more) {
                *i = c->order[c->next++];
                c->of[*i].started = true;
                c->moved += !c->r->cases[*i]->unmoved;
        }
        pthread_mutex_unlock(&c->lock);
        return more;
}

/* Whether it is to be run again. */
static bool mark_ended(struct crew *c, size_t i)
{
        bool again;

        pthread_mutex_lock(&c->lock);
        c->of[i].ended = ++c->ended;
        c->moved -= !c->r->cases[i]->unmoved;
        pthread_cond_broadcast(&c->settled);
        again = c->of[i].suspect && can_restart(c);
        pthread_mutex_unlock(&c->lock);
        return again;
}

static void run_in_range(struct crew *c, size_t i)
{
        struct place p = { .range = take_range(c, c->r->cases[i]) };

        if (p.range >= 0)
                (void)met_others(c);
        c->running++;
        run_case(c, i, &p);
        c->running--;
        give_range(c, &p);
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
                        run_in_range(c, i);
                }
                if (!mark_ended(c, i))
                        crew_report(c, i);
        }
        return NULL;
}

/* A place among the runs that write; there may be none left. */
static void take_writer(struct crew *c)
{
        char name[LEASE_NAME];

        c->writing = LEASE_HELD;
        for (unsigned i = 0; i < WRITERS && c->writing == LEASE_HELD; i++) {
                snprintf(name, sizeof(name), WRITER, i);
                c->writing = lease_take(name);
                c->writer = i;
        }
        c->met = c->writing == LEASE_HELD;
}

enum turn { /* which cases come first */
            TURN_SLOW,
            TURN_QUICK,
            TURN_CHANGES,
            TURN_STORM,
            TURN_ALONE,
};

static enum turn turn_of(const struct test_case *test)
{
        if (test->alone)
                return TURN_ALONE;
        if (test->storm)
                return TURN_STORM;
        if (test->changes)
                return TURN_CHANGES;
        return test->slow ? TURN_SLOW : TURN_QUICK;
}

/* Those of a turn, after the n that are in order. How many are then. */
static size_t put_cases(struct crew *c, size_t n, enum turn turn)
{
        for (size_t i = 0; i < c->r->count; i++)
                if (turn_of(c->r->cases[i]) == turn)
                        c->order[n++] = i;
        return n;
}

/* --- all that is stored, among runs on this machine --------------------------------------------- */

/* Who uses it as all do has one place of it, who needs it alone has every place. */
static bool place_name(const struct crew *c, unsigned place, char name[LEASE_NAME])
{
        char whole[LEASE_NAME - 8];

        return c->r->suite->family->whole && c->r->suite->family->whole(c->r->suite, whole) &&
               snprintf(name, LEASE_NAME, "%s/%u", whole, place) < LEASE_NAME;
}

/* One of the places from `place` to the last; false: all are held until the time is up. */
static bool take_place(struct crew *c, unsigned place, unsigned last)
{
        uint64_t end = now_ms() + LEASE_WAIT_MS;
        char name[LEASE_NAME];

        for (;;) {
                for (unsigned i = place; i <= last; i++) {
                        if (!place_name(c, i, name))
                                return true;
                        c->whole[i] = lease_take(name);
                        if (c->whole[i] != LEASE_HELD)
                                return true;
                }
                if (now_ms() >= end)
                        return false;
                pause_ms(NULL, LEASE_POLL_MS);
        }
}

static void give_places(struct crew *c)
{
        for (unsigned i = 0; i < WHOLE_PLACES; i++) {
                lease_give(c->whole[i]);
                c->whole[i] = LEASE_HELD;
        }
}

static void take_whole(struct crew *c)
{
        give_places(c);
        for (unsigned i = 0; i < WHOLE_PLACES && !c->shared; i++)
                c->shared = !take_place(c, i, i);
}

static void run_crew(struct crew *c, size_t jobs)
{
        size_t left = c->end - c->next;
        unsigned n = (unsigned)(jobs < left ? jobs : left), started = 0;
        pthread_t *threads = calloc(n, sizeof(*threads));
        pthread_attr_t attr;

        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, JOB_STACK);
        while (threads && started < n && pthread_create(&threads[started], &attr, work, c) == 0)
                started++;
        if (started == 0)
                work(c);
        for (unsigned i = 0; i < started; i++)
                pthread_join(threads[i], NULL);
        pthread_attr_destroy(&attr);
        free(threads);
}

/* --- who did it? --------------------------------------------------------------------------- */

static bool restart(struct crew *c)
{
        char says[SHELL_LINE], why[RESULT_TEXT];

        if (!can_restart(c))
                return false;
        c->restarts++;
        c->dead = shell_run(c->r->suite->restart, says, SHELL_MS) != 0 ||
                  !still_alive(c->r->suite, 3u << 30 | c->restarts, why, sizeof(why));
        c->lost = c->dead;
        return !c->dead;
}

/* Each of them alone, until one is reported to have ended it. How many have. */
static unsigned try_suspects(struct crew *c)
{
        unsigned killers = 0;
        struct result before;

        for (size_t i = 0; i < c->r->count && !c->dead; i++) {
                if (!c->of[i].suspect)
                        continue;
                before = c->results[i];
                c->alone = c->r->cases[i];
                run_in_range(c, i);
                if (c->of[i].done && worse(before.verdict, c->results[i].verdict) == before.verdict)
                        c->results[i] = before;
                if (c->dead) {
                        killers++;
                        restart(c);
                }
        }
        c->alone = NULL;
        return killers;
}

static void report_riddle(struct crew *c)
{
        struct result *r = &c->riddle;
        char names[RESULT_TEXT] = "";
        size_t len = 0;

        for (size_t i = 0; i < c->r->count && len < sizeof(names); i++)
                if (c->of[i].suspect)
                        len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
                                                len > 0 ? ", " : "", c->r->cases[i]->id);
        *r = (struct result) { .id = "noticed/death",
                               .verdict = VERDICT_FAIL,
                               .harm = true,
                               .caught = true,
                               .repeats = r->repeats + 1 };
        snprintf(r->expected, RESULT_TEXT, "Who is tested survives the cases that run at a time");
        snprintf(r->seen, RESULT_TEXT, "it died, and of what ran then no case alone ends it");
        snprintf(r->note, RESULT_TEXT, "%s", names);
}

/* They are not run again: what came of them so far is what is told. */
static void acquit_suspects(struct crew *c)
{
        for (size_t i = 0; i < c->r->count; i++) {
                if (c->of[i].suspect && !c->of[i].done)
                        crew_report(c, i);
                c->of[i].suspect = false;
        }
}

/* It is dead: starts it again and tells apart who did it. False: it is not back. */
static bool revive(struct crew *c)
{
        bool back = restart(c);

        if (back && try_suspects(c) == 0)
                report_riddle(c);
        acquit_suspects(c);
        return back && !c->dead;
}

/* Cases up to c->end. */
static void run_on(struct crew *c, size_t jobs)
{
        do
                run_crew(c, jobs);
        while (c->dead && can_restart(c) && revive(c) && c->next < c->end && !c->enough);
        acquit_suspects(c); /* the run may have been stopped before anybody looked for who did it */
        if (c->dead && c->next < c->end)
                run_crew(c, 1); /* they are told not to be run */
}

/* Those that are alone at last, one at a time. */
static void run_all(struct crew *c)
{
        for (enum turn turn = TURN_SLOW; turn < TURN_STORM; turn++)
                c->end = put_cases(c, c->end, turn);
        take_place(c, 0, WHOLE_PLACES - 1);
        if (c->next < c->end)
                run_on(c, c->r->jobs);
        c->end = put_cases(c, c->end, TURN_STORM);
        if (c->next < c->end)
                run_on(c, 1);
        c->end = put_cases(c, c->end, TURN_ALONE);
        if (c->next < c->end) {
                take_whole(c);
                run_on(c, 1);
        }
        give_places(c);
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
        static const enum verdict verdicts[GRADES] = { VERDICT_FAIL, VERDICT_LENIENT,
                                                       VERDICT_ADVICE, VERDICT_INFO };

        if (p->repeats++ > 0)
                return;
        snprintf(p->id, sizeof(p->id), "noticed/%s", rule->id);
        p->level = rule->level;
        p->verdict = verdicts[rule_grade(rule)];
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

enum { OTHERS = 2 }; /* results that are of no case or rule: a death, leaks */

bool runner_run(const struct runner *runner, struct run *run)
{
        const struct conform_family *f = runner->suite->family;
        unsigned ranges = f->ranges ? f->ranges(runner->suite) : 0;
        struct crew c = { .r = runner, .ranges = ranges < RANGES_MAX ? ranges : RANGES_MAX };
        size_t probed = runner->probed ? runner->probed->count : 0;
        uint64_t start = now_ms();

        run->family = f;
        run->results = calloc(probed + runner->count + f->family->rules->count + OTHERS,
                              sizeof(*run->results));
        c.order = calloc(runner->count, sizeof(*c.order));
        c.of = calloc(runner->count, sizeof(*c.of));
        if (!run->results || !c.order || !c.of) {
                free(run->results);
                free(c.order);
                free(c.of);
                run->results = NULL;
                return false;
        }
        c.results = run->results + probed;
        for (size_t i = 0; i < probed; i++) {
                run->results[i] = runner->probed->results[i];
                if (runner->ended)
                        runner->ended(runner->arg, &run->results[i]);
        }
        pthread_mutex_init(&c.lock, NULL);
        pthread_cond_init(&c.settled, NULL);
        memset(c.lease, 0xff, sizeof(c.lease)); /* none */
        memset(c.whole, 0xff, sizeof(c.whole));
        c.writing = LEASE_IMPOSSIBLE;
        if (ranges > 0 && !runner->suite->embedded)
                take_writer(&c);
        standstill_start(&c.still);
        run_all(&c);
        standstill_stop(&c.still);
        lease_give(c.writing);
        pthread_cond_destroy(&c.settled);
        pthread_mutex_destroy(&c.lock);
        free(c.order);
        free(c.of);
        run->count = probed + runner->count;
        run->dead = too_late(&c);
        add_notices(run, probed);
        if (c.riddle.verdict != VERDICT_NONE)
                run->results[run->count++] = c.riddle;
        if (runner->suite->leaving &&
            leaving_end(runner->suite->leaving, runner->stop, &run->results[run->count]))
                run->count++;
        run->seconds = (double)(now_ms() - start) / 1000.0;
        return true;
}
