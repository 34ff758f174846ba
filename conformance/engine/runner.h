/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs cases, several at once, each with connections of its own. After a case
 * that did something nasty it looks whether the target still lives.
 */
#ifndef NVMF_CONFORMANCE_RUNNER_H
#define NVMF_CONFORMANCE_RUNNER_H

#include "family.h"

struct runner {
        const struct suite *suite;
        const struct test_case **cases;
        size_t count;
        const struct probed *probed; /* stands before the results of the cases; or NULL */
        unsigned jobs, repeat;
        bool stop_at_failure; /* enough is known then (--power) */
        /* Once true no case begins any more, what goes wrong in the others says nothing, and all that lack
         * a result are told as not run. May be NULL. */
        const _Atomic bool *stop;
        /* A case has ended; called in the order of the cases, by one thread at a time. May be NULL.
         */
        void (*ended)(void *arg, const struct result *r);
        void *arg;
};

/* The results: the probe's, by case, then one for each rule that was seen broken and that no failing case names.
 * Fills in run->results, count, dead, seconds; the results are the caller's to free. False: out of memory,
 * nothing has run. */
bool runner_run(const struct runner *runner, struct run *run);

#endif
