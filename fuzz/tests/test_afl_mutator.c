/* SPDX-License-Identifier: BSD-3-Clause */
/* AFL++'s interface to a target's mutator: what comes of it is in bounds, and still a sequence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fuzz/harness/afl_mutator.c"
#include "fuzz/harness/mutate.c"
#include "fuzz/nvme/templates.h"
#include "fuzz/sequence/seq_mutate.h"

enum { RUNS = 1000, MOST = 3000 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
        return seq_mutate_text(data, size, max, seed, SEQ_TCP, PARTY_HOST);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                                 uint8_t *out, size_t max, unsigned seed)
{
        return seq_splice_text(a, a_size, b, b_size, out, max, seed);
}

static void mutants_are_sequences(void **state)
{
        static uint8_t in[MOST], other[MOST];
        static struct sequence s;
        struct mutator *m = afl_custom_init(NULL, 7);
        size_t n = 1, other_n = 0, kept = 0;
        uint8_t *out;
        char err[100];

        (void)state;
        assert_non_null(m);
        for (unsigned i = 0; i < RUNS; i++) {
                size_t made = afl_custom_fuzz(m, in, n, &out, i % 2 ? other : NULL, other_n, MOST);

                assert_true(made <= MOST && out != in);
                if (made == 0)
                        continue;
                assert_true(seq_parse(&s, (const char *)out, made, err, sizeof(err)));
                kept++;
                memcpy(other, in, n);
                other_n = n;
                memcpy(in, out, made);
                n = made;
        }
        assert_true(kept > RUNS / 2);
        afl_custom_deinit(m);
}

static void bytes_stay_in_bounds(void **state)
{
        uint8_t data[64] = { 0 };
        size_t n = 0;
        bool grew = false;

        (void)state;
        fuzz_mutate_seed(3);
        for (unsigned i = 0; i < RUNS; i++) {
                n = LLVMFuzzerMutate(data, n, sizeof(data));
                assert_true(n <= sizeof(data));
                grew |= n > sizeof(data) / 2;
        }
        assert_true(grew);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(mutants_are_sequences),
                cmocka_unit_test(bytes_stay_in_bounds),
        };

        return cmocka_run_group_tests_name("afl_mutator", tests, NULL, NULL);
}
