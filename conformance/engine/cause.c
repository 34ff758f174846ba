/* SPDX-License-Identifier: BSD-3-Clause */
#include "cause.h"

#include <stdio.h>
#include <string.h>

#include "family.h"

struct tally { /* by rule: results that noticed it */
        unsigned failing, others;
        unsigned open, own; /* failing, and not explained yet; of these, what fails by this rule */
        bool direct;        /* one of the failing is about it */
};

/* What a baseline lists, and what was not run, needs no explanation. */
static bool is_failing(const struct result *r)
{
        return r->test && r->repeats > 0 && r->known != KNOWN_LISTED &&
               (r->verdict == VERDICT_FAIL || r->verdict == VERDICT_ERROR);
}

/* What had the chance to notice a rule, and did not fail. */
static bool is_passed(const struct result *r)
{
        return r->test && r->repeats > 0 && r->verdict != VERDICT_SKIP && !is_failing(r);
}

static const struct notice *notice_of(const struct result *r, unsigned rule)
{
        for (unsigned i = 0; i < r->notice_count; i++)
                if (r->notices[i].rule == rule)
                        return &r->notices[i];
        return NULL;
}

static void count(const struct result *r, struct tally *tally)
{
        for (unsigned i = 0; i < r->notice_count; i++) {
                struct tally *t = &tally[r->notices[i].rule];
                bool about = r->rule == r->notices[i].rule, open = r->cause == RULE_NONE;

                t->others += is_passed(r);
                if (!is_failing(r))
                        continue;
                t->failing++;
                t->open += open;
                t->own += open && about;
                t->direct = t->direct || about;
        }
}

static unsigned count_passed(const struct run *run)
{
        unsigned n = 0;

        for (size_t i = 0; i < run->count; i++)
                n += is_passed(&run->results[i]);
        return n;
}

/* Noticed where a case fails, and less than half as often where one passes. */
static bool explains(const struct run *run, const struct tally *t, unsigned rule, unsigned passed)
{
        return (t->direct || rulebook_get(run->family->family->rules, rule)->level == LEVEL_MUST) &&
               (size_t)t->failing * passed >= (size_t)2 * t->others * run->failing;
}

/* The cause that explains most of what is not explained yet; its rule is RULE_NONE if there is none. */
static struct cause next_cause(const struct run *run)
{
        struct tally tally[RULE_CAPACITY] = { 0 };
        unsigned passed = count_passed(run);
        struct cause best = { .rule = RULE_NONE };

        for (size_t i = 0; i < run->count; i++)
                count(&run->results[i], tally);
        for (unsigned rule = 1; rule < run->family->family->rules->count; rule++) {
                bool effects = explains(run, &tally[rule], rule, passed);
                unsigned n = effects ? tally[rule].open : tally[rule].own;

                if (n > best.failures)
                        best = (struct cause) { rule, n, effects, NULL };
        }
        return best;
}

static void attribute(struct run *run, struct cause *c)
{
        for (size_t i = 0; i < run->count; i++) {
                struct result *r = &run->results[i];

                if (!is_failing(r) || r->cause != RULE_NONE || !notice_of(r, c->rule) ||
                    !(c->effects || r->rule == c->rule))
                        continue;
                r->cause = c->rule;
                if (!c->first)
                        c->first = r;
        }
}

void causes_find(struct run *run)
{
        struct cause c;

        for (size_t i = 0; i < run->count; i++)
                run->failing += is_failing(&run->results[i]);
        while (run->cause_count < RUN_CAUSES && (c = next_cause(run)).rule != RULE_NONE) {
                attribute(run, &c);
                run->causes[run->cause_count++] = c;
        }
}

void cause_says(const struct run *run, const struct cause *c, char *buf, size_t size)
{
        const struct rule *rule = rulebook_get(run->family->family->rules, c->rule);

        snprintf(buf, size, "%u of %u failures: the %s broke %s (%s): %s First seen in %s: %s",
                 c->failures, run->failing, run->role == ROLE_HOST ? "host" : "target", rule->id,
                 rule->source, rule->says, c->first->id, notice_of(c->first, c->rule)->line);
}
