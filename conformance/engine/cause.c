/* SPDX-License-Identifier: BSD-3-Clause */
#include "cause.h"

#include <stdio.h>
#include <string.h>

#include "family.h"

struct tally {                       /* by rule: results that noticed it */
        unsigned all, failing, open; /* open: failing, and not explained yet */
        bool direct;                 /* one of them is about it */
};

/* What a baseline lists, and what was not run, needs no explanation. */
static bool is_failing(const struct result *r)
{
        return r->test && r->repeats > 0 && r->known != KNOWN_LISTED &&
               (r->verdict == VERDICT_FAIL || r->verdict == VERDICT_ERROR);
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

                t->all++;
                if (!is_failing(r))
                        continue;
                t->failing++;
                t->open += r->cause == RULE_NONE;
                t->direct = t->direct || r->rule == r->notices[i].rule;
        }
}

static bool explains(const struct run *run, const struct tally *t, unsigned rule)
{
        if (t->direct)
                return true;
        return rulebook_get(run->family->family->rules, rule)->level == LEVEL_MUST &&
               (t->failing == t->all ||
                (size_t)t->failing * run->count >= (size_t)2 * run->failing * t->all);
}

/* The rule that explains most of what is not explained yet; RULE_NONE: there is none. */
static unsigned next_cause(const struct run *run)
{
        struct tally tally[RULE_CAPACITY] = { 0 };
        unsigned best = RULE_NONE;

        for (size_t i = 0; i < run->count; i++)
                count(&run->results[i], tally);
        for (unsigned rule = 1; rule < run->family->family->rules->count; rule++)
                if (tally[rule].open > tally[best].open && explains(run, &tally[rule], rule))
                        best = rule;
        return best;
}

static void attribute(struct run *run, unsigned rule, struct cause *c)
{
        *c = (struct cause) { .rule = rule };
        for (size_t i = 0; i < run->count; i++) {
                struct result *r = &run->results[i];

                if (!is_failing(r) || r->cause != RULE_NONE || !notice_of(r, rule))
                        continue;
                r->cause = rule;
                if (c->failures++ == 0)
                        c->first = r;
        }
}

void causes_find(struct run *run)
{
        unsigned rule;

        for (size_t i = 0; i < run->count; i++)
                run->failing += is_failing(&run->results[i]);
        while (run->cause_count < RUN_CAUSES && (rule = next_cause(run)) != RULE_NONE)
                attribute(run, rule, &run->causes[run->cause_count++]);
}

void cause_says(const struct run *run, const struct cause *c, char *buf, size_t size)
{
        const struct rule *rule = rulebook_get(run->family->family->rules, c->rule);

        snprintf(buf, size, "%u of %u failures: the %s broke %s (%s): %s First seen in %s: %s",
                 c->failures, run->failing, run->role == ROLE_HOST ? "host" : "target", rule->id,
                 rule->source, rule->says, c->first->id, notice_of(c->first, c->rule)->line);
}
