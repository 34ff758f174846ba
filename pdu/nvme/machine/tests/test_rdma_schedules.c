/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Schedules (schedule.h) by the thousand. SCHEDULE=n runs just that one, and tells what happens;
 * SCHEDULES=n how many there are.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include "pdu/verbs/memory_verbs.h" /* before cmocka, whose fail() is a macro */

#include <cmocka.h>

#include "schedule.h"

enum { SCHEDULES = 10000 };

static char current[32]; /* "SCHEDULE=n", ready for a signal handler */

static void run(uint32_t seed, bool loud)
{
        const struct schedule s = { .seed = seed, .loud = loud };

        snprintf(current, sizeof(current), "SCHEDULE=%u\n", seed);
        schedule_run(&s);
}

static uint32_t number_of(const char *name, uint32_t otherwise)
{
        const char *s = getenv(name);

        return s ? (uint32_t)strtoul(s, NULL, 0) : otherwise;
}

static void say_which(void)
{
        if (write(STDERR_FILENO, current, strlen(current)) < 0)
                return;
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void on_abort(int sig)
{
        (void)sig;
        say_which();
}

static void any_schedule_ends_well(void **state)
{
        uint32_t one = number_of("SCHEDULE", 0), count = number_of("SCHEDULES", SCHEDULES);

        (void)state;
        atexit(say_which);
        signal(SIGABRT, on_abort);
        if (__sanitizer_set_death_callback)
                __sanitizer_set_death_callback(say_which);
        if (one > 0)
                run(one, true);
        for (uint32_t seed = 1; one == 0 && seed <= count; seed++)
                run(seed, false);
        current[0] = '\0';
        if (one > 0 || count < SCHEDULES)
                return;
        printf("%u ends released, %u commands (%u cut off), %u of %u schedules undisturbed, "
               "%u timers\n",
               total.released, total.commands, total.failed, total.finished_clean, count,
               total.late);
        /* the schedules are worth something: all of it has happened */
        assert_int_equal(total.statuses | 1u << VERBS_BIND_ERROR | 1u << VERBS_LOCAL_QP,
                         (1u << VERBS_STATUSES) - 1);
        for (unsigned i = 0; i < KINDS; i++)
                assert_true(total.kinds[i] > 50);
        for (unsigned v = LIFE_REFUSED; v <= LIFE_FAILED; v++)
                assert_true(total.causes[v] > 20);
        assert_in_range(total.finished_clean, count / 5, count);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(any_schedule_ends_well),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
