/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_CORE_WIPE_H
#define NVMF_CORE_WIPE_H

#include <string.h>

/* Zeroes a secret; the compiler does not leave it out, though nobody reads it again. p may be NULL if
 * n is 0. */
static inline void wipe(void *p, size_t n)
{
        if (n > 0)
                memset(p, 0, n);
        __asm__ volatile("" : : "r"(p) : "memory");
}

#endif
