/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that runs out: programs that include this have their allocations counted, and one of them
 * fails if it is told to. */
#ifndef NVMF_MACHINE_TESTS_SCARCE_H
#define NVMF_MACHINE_TESTS_SCARCE_H

#include <stdbool.h>
#include <stdlib.h>

static unsigned allocations_left; /* before one fails; 0: none does */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);

static bool fails_now(void)
{
        return allocations_left > 0 && --allocations_left == 0;
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

#endif
