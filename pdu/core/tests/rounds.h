/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_CORE_TESTS_ROUNDS_H
#define NVMF_CORE_TESTS_ROUNDS_H

#include <stdlib.h>
#include <string.h>

/* How many of n rounds with random input a test makes: a fifth, the first ones; with NVMFSPEC_ROUNDS=all, as in ci/nightly,
 * all. */
static inline unsigned random_rounds(unsigned n)
{
        const char *wish = getenv("NVMFSPEC_ROUNDS");

        return wish && strcmp(wish, "all") == 0 ? n : (n + 4) / 5;
}

#endif
