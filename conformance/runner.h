/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs cases against a target, several at once, each in an association of its own. After a case
 * that did something nasty it looks whether the target still lives.
 */
#ifndef NVMF_CONFORMANCE_RUNNER_H
#define NVMF_CONFORMANCE_RUNNER_H

#include "suite.h"

struct runner {
        const struct suite *suite;
        const struct test_case **cases;
        size_t count;
        unsigned jobs, repeat;
        bool stop_at_failure; /* enough is known then (--power) */
        /* A case has ended; called in the order of the cases, by one thread at a time. May be NULL.
         */
        void (*ended)(void *arg, const struct result *r);
        void *arg;
};

/* The results, by case, then one for each rule that was seen broken and that no failing case names.
 * Fills in run->results, count, dead, seconds; the results are the caller's to free. */
void runner_run(const struct runner *runner, struct run *run);

/* What the target can do: fills in suite->caps. False: error says what did not work. */
bool probe(struct suite *suite, char *error, size_t size);
/* The first NVM subsystem of the suite's transport in the discovery log. */
bool probe_subsystem(struct suite *suite, char nqn[NQN_FIELD], char *error, size_t size);

#endif
