/* SPDX-License-Identifier: BSD-3-Clause */
/* The heap of fuzz programs: one block a run, and what it has to notice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#include "fuzz/fuzz.h"

static void a_run_takes_nothing_from_the_real_heap(void **state)
{
        uint8_t *first = NULL;

        (void)state;
        for (int run = 0; run < 3; run++) {
                unsigned long before = fuzz_heap.allocations;
                uint8_t *p, *q;

                fuzz_run_begin();
                p = malloc(100);
                q = calloc(4, 25);
                assert_true(q > p + 100); /* nothing lies beside anything */
                for (int i = 0; i < 100; i++)
                        assert_int_equal(q[i], 0);
                memset(p, 7, 100);
                p = realloc(p, 200);
                assert_int_equal(p[99], 7);
                free(q);
                free(p);
                free(NULL);
                fuzz_run_end();
                assert_int_equal(fuzz_heap.allocations, before);
                assert_true(run == 0 || p == first);
                first = p;
        }
}

static void what_is_of_the_real_heap_goes_back_there(void **state)
{
        char *outside = malloc(10), *grown;

        (void)state;
        assert_non_null(outside);
        fuzz_run_begin();
        grown = realloc(outside, 5000);
        assert_non_null(grown);
        free(grown);
        fuzz_run_end();
}

static void the_nth_allocation_fails_once(void **state)
{
        void *p[3];

        (void)state;
        fuzz_run_begin();
        fuzz_scarce(2);
        for (int i = 0; i < 3; i++)
                p[i] = malloc(8);
        assert_true(p[0] && !p[1] && p[2]);
        free(p[0]);
        free(p[2]);
        fuzz_run_end();
}

/* --- what ends the program ---------------------------------------------------------------------- */

static uint8_t *volatile held; /* so that no compiler sees through it */

static void leak(void)
{
        held = malloc(8);
        fuzz_run_end();
}

static void free_twice(void)
{
        held = malloc(8);
        free(held);
        free(held);
}

#ifdef __SANITIZE_ADDRESS__
/* However much comes in between. */
static void use_late(void)
{
        held = malloc(8);
        free(held);
        for (int i = 0; i < 1000; i++)
                free(malloc(8));
        held[0] = 1;
}

static void write_too_far(void)
{
        held = malloc(9);
        held[9] = 1;
}
#endif

/* It dies on purpose: that is nobody's report. */
static void be_quiet(void)
{
        fclose(stderr);
#ifdef __SANITIZE_ADDRESS__
        __sanitizer_set_report_path("/dev/null");
#endif
}

static bool dies(void (*what)(void))
{
        int status = 0;
        pid_t child = fork();

        if (child == 0) {
                be_quiet();
                fuzz_run_begin();
                what();
                _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        return status != 0;
}

static void mistakes_end_the_program(void **state)
{
        (void)state;
        assert_true(dies(leak));
        assert_true(dies(free_twice));
#ifdef __SANITIZE_ADDRESS__
        assert_true(dies(use_late));
        assert_true(dies(write_too_far));
#endif
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_run_takes_nothing_from_the_real_heap),
                cmocka_unit_test(what_is_of_the_real_heap_goes_back_there),
                cmocka_unit_test(the_nth_allocation_fails_once),
                cmocka_unit_test(mistakes_end_the_program),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
