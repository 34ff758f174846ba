/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer's mutator of bytes, for programs without it: a small one that does the usual things. A
 * fuzzer that brings its own has it instead.
 */
#include "fuzz/stream.h"

static uint64_t dice = 1;

static uint32_t below(size_t n)
{
        return n > 0 ? fuzz_random(&dice) % (uint32_t)n : 0;
}

static size_t flip(uint8_t *data, size_t size, size_t max)
{
        (void)max;
        data[below(size)] ^= (uint8_t)(1u << below(8));
        return size;
}

static size_t set(uint8_t *data, size_t size, size_t max)
{
        static const uint8_t telling[] = { 0, 1, 0x7f, 0x80, 0xff };

        (void)max;
        data[below(size)] = below(2) ? (uint8_t)below(256) : telling[below(sizeof(telling))];
        return size;
}

static size_t add(uint8_t *data, size_t size, size_t max)
{
        (void)max;
        data[below(size)] += (uint8_t)(below(35) - 17);
        return size;
}

static size_t insert(uint8_t *data, size_t size, size_t max)
{
        size_t n = 1 + below(8), at = below(size + 1);

        if (size + n > max)
                return size;
        memmove(data + at + n, data + at, size - at);
        for (size_t i = 0; i < n; i++)
                data[at + i] = (uint8_t)below(256);
        return size + n;
}

static size_t take_out(uint8_t *data, size_t size, size_t max)
{
        size_t at = below(size), n = 1 + below(size - at);

        (void)max;
        if (n == size)
                return size;
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
}

static size_t copy(uint8_t *data, size_t size, size_t max)
{
        size_t from = below(size), to = below(size);
        size_t n = 1 + below(size - (from > to ? from : to));

        (void)max;
        memmove(data + to, data + from, n);
        return size;
}

void fuzz_mutate_seed(unsigned seed)
{
        dice = seed;
}

__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max)
{
        static size_t (*const ways[])(uint8_t *, size_t, size_t) = { flip,   set,      add,
                                                                     insert, take_out, copy };

        for (uint32_t n = 1 + below(4); n > 0; n--)
                size = size > 0 ? ways[below(6)](data, size, max) : insert(data, size, max);
        return size;
}
