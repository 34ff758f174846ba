/* SPDX-License-Identifier: BSD-3-Clause */
#include "result.h"

#include <stdlib.h>

#include "cause.h"
#include "family.h"

const char *verdict_name(enum verdict v)
{
        static const char *const names[VERDICTS] = {
                [VERDICT_NONE] = "not run",  [VERDICT_PASS] = "pass",
                [VERDICT_ADVICE] = "advice", [VERDICT_LENIENT] = "lenient",
                [VERDICT_INFO] = "info",     [VERDICT_SKIP] = "skip",
                [VERDICT_FAIL] = "fail",     [VERDICT_ERROR] = "error",
        };

        return names[v];
}

bool result_fails(const struct result *r)
{
        return r->verdict == VERDICT_FAIL && r->known != KNOWN_LISTED;
}

/* A case that was skipped or broke has tested nothing. */
static void cover(struct run *run, const struct result *r)
{
        if (!r->test || r->verdict == VERDICT_SKIP || r->verdict == VERDICT_ERROR ||
            r->verdict == VERDICT_NONE)
                return;
        for (const unsigned *rule = r->test->rules; *rule != RULE_NONE; rule++)
                rule_add(&run->covered, *rule);
}

enum basis result_basis(const struct run *run, const struct result *r)
{
        const struct rule *rule = rulebook_get(run->family->family->rules, r->rule);

        return rule ? rule_basis(rule, run->role == ROLE_HOST ? PARTY_HOST : PARTY_CONTROLLER)
                    : BASIS_NONE;
}

const char *result_related(const struct result *r)
{
        return r->test && r->harm ? r->test->related : NULL;
}

void run_sum(struct run *run)
{
        for (size_t i = 0; i < run->count; i++) {
                const struct result *r = &run->results[i];

                cover(run, r);
                if (r->known == KNOWN_LISTED)
                        run->known++;
                else
                        run->verdicts[r->verdict]++;
                if (r->known == KNOWN_FIXED)
                        run->fixed++;
        }
        causes_find(run);
}

int run_exit(const struct run *r)
{
        if (r->verdicts[VERDICT_FAIL] > 0 || (r->fixed > 0 && !r->lax))
                return 1;
        if (r->verdicts[VERDICT_ERROR] > 0 || r->verdicts[VERDICT_NONE] > 0)
                return 3;
        if (r->verdicts[VERDICT_SKIP] == r->count)
                return 77;
        return 0;
}

struct rule_set rules_named(const struct conform_family *f, enum role role)
{
        struct rule_set s = { 0 };
        size_t n;
        const struct test_case **all = cases_all(f, role, &n);

        for (size_t i = 0; i < n; i++)
                for (const unsigned *r = all[i]->rules; *r != RULE_NONE; r++)
                        rule_add(&s, *r);
        free(all);
        return s;
}
