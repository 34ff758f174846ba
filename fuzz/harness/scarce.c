/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that runs out when the input says so. Targets are linked with --wrap for it. */
#include <errno.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"

static unsigned left; /* allocations before one fails; 0: none does */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static void set(unsigned nth)
{
        left = nth;
}

__attribute__((constructor)) static void announce(void)
{
        fuzz_scarce_with = set;
}

static bool fails_now(void)
{
        bool fails = left > 0 && --left == 0;

        if (fails)
                errno = ENOMEM;
        return fails;
}

void *__wrap_malloc(size_t size)
{
        return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
        return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
        return fails_now() ? NULL : __real_realloc(p, size);
}
