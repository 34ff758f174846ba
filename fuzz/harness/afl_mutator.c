/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AFL++'s custom mutator, made of a target's own LLVMFuzzerCustomMutator() and, if it has one,
 * LLVMFuzzerCustomCrossOver(): build/afl_TARGET.so, for AFL_CUSTOM_MUTATOR_LIBRARY.
 */
#include <stdlib.h>

#include "fuzz/stream.h"

enum { CROSSES_ONE_IN = 4 };

struct mutator {
        uint64_t seed;
        uint8_t *out;
        size_t room;
};

void *afl_custom_init(void *afl, unsigned seed);
size_t afl_custom_fuzz(struct mutator *m, uint8_t *in, size_t in_size, uint8_t **out,
                       uint8_t *other, size_t other_size, size_t max);
void afl_custom_deinit(struct mutator *m);

#pragma weak LLVMFuzzerCustomCrossOver

void *afl_custom_init(void *afl, unsigned seed)
{
        struct mutator *m = calloc(1, sizeof(*m));

        (void)afl;
        if (m)
                m->seed = seed;
        fuzz_mutate_seed(seed);
        return m;
}

void afl_custom_deinit(struct mutator *m)
{
        free(m->out);
        free(m);
}

static bool make_room(struct mutator *m, size_t max)
{
        uint8_t *out = max > m->room ? realloc(m->out, max) : m->out;

        if (!out)
                return false;
        m->out = out;
        m->room = max > m->room ? max : m->room;
        return true;
}

/* 0: nothing came of it, the input is left as it is. */
size_t afl_custom_fuzz(struct mutator *m, uint8_t *in, size_t in_size, uint8_t **out,
                       uint8_t *other, size_t other_size, size_t max)
{
        size_t n = 0;

        if (!make_room(m, max)) {
                *out = NULL;
                return 0;
        }
        *out = m->out;
        if (other && LLVMFuzzerCustomCrossOver && fuzz_random(&m->seed) % CROSSES_ONE_IN == 0)
                n = LLVMFuzzerCustomCrossOver(in, in_size, other, other_size, m->out, max,
                                              fuzz_random(&m->seed));
        if (n > 0)
                return n;
        n = in_size < max ? in_size : max;
        memcpy(m->out, in, n);
        return LLVMFuzzerCustomMutator(m->out, n, max, fuzz_random(&m->seed));
}
