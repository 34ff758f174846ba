/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a machine makes of a stream must not depend on how the stream was cut. splits_check() feeds
 * it whole, byte by byte and at many random cuts, each time to a new machine, and wants the same
 * events. It returns those events, one line each, for the test to compare with what it expects.
 */
#ifndef NVMF_MACHINE_TESTS_SPLITS_H
#define NVMF_MACHINE_TESTS_SPLITS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SPLITS_RANDOM = 200 };

struct events {
        size_t len;
        char text[1 << 16];
};

__attribute__((format(printf, 2, 3))) static inline void events_add(struct events *e,
                                                                    const char *fmt, ...)
{
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(e->text + e->len, sizeof(e->text) - e->len, fmt, ap);
        va_end(ap);
        assert_in_range(n, 0, sizeof(e->text) - e->len - 1);
        e->len += (size_t)n;
}

struct splits_machine {
        void *(*make)(void *arg);
        void (*feed)(void *machine, const uint8_t *p, size_t n, struct events *e);
        void (*drop)(void *machine);
        void *arg;
};

/* A small generator of its own, so that a failure repeats everywhere. */
static inline uint32_t splits_rand(uint64_t *seed)
{
        *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)(*seed >> 33);
}

/* Cuts of at most `most` bytes; 0: no cut. */
static inline void splits_run(const struct splits_machine *m, const uint8_t *stream, size_t len,
                              size_t most, uint64_t *seed, struct events *e)
{
        static uint8_t heap[1 << 18], *heap_end = heap + sizeof(heap); /* a byte too far is seen */
        void *machine = m->make(m->arg);

        assert_in_range(len, 0, sizeof(heap));
        e->len = 0;
        e->text[0] = '\0';
        while (len > 0) {
                size_t n = most > 0 ? splits_rand(seed) % most + 1 : len;

                n = n < len ? n : len;
                memcpy(heap_end - n, stream, n);
                m->feed(machine, heap_end - n, n, e);
                stream += n;
                len -= n;
        }
        m->drop(machine);
}

static inline const char *splits_check(const struct splits_machine *m, const uint8_t *stream,
                                       size_t len)
{
        static struct events whole, cut;
        static const size_t most[] = { 3, 17, 60, 200, 1000, 5000, 20000, 100000 };
        uint64_t seed = 1;

        splits_run(m, stream, len, 0, &seed, &whole);
        splits_run(m, stream, len, 1, &seed, &cut);
        assert_string_equal(whole.text, cut.text);
        for (unsigned i = 0; i < SPLITS_RANDOM; i++) {
                splits_run(m, stream, len, most[i % (sizeof(most) / sizeof(most[0]))], &seed, &cut);
                assert_string_equal(whole.text, cut.text);
        }
        return whole.text;
}

#endif
