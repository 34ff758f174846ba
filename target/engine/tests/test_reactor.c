/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "target/engine/conn.h"
#include "target/engine/family.h"
#include "target/engine/reactor.h"

static unsigned ticks, sweeps;

static void count_tick(struct service *s, uint64_t now)
{
        (void)s;
        (void)now;
        ticks++;
}

static void count_sweep(struct conn *c)
{
        (void)c;
        sweeps++;
}

/* What comes in the middle of a long turn did not come at its start. */
static void test_a_turn_may_take_long(void **state)
{
        static struct reactor r;

        (void)state;
        r.now = 1;
        assert_int_equal(reactor_now(&r), 1);
        assert_true(reactor_look(&r) > 1);
        assert_true(reactor_now(&r) > 1);
        r.given = true;
        r.now = 1;
        assert_int_equal(reactor_look(&r), 1);
}

/* Timers are not looked at in the turn after which it is seen that the reactor stood still, but in the one after the
 * next, also where that comes late again. */
static void test_who_comes_late_reads_first(void **state)
{
        static const struct target_family family = { .tick = count_tick };
        static const struct conn_kind kind = { .sweep = count_sweep };
        static struct service s = { .family = &family };
        static struct reactor r;
        static struct conn c = { .kind = &kind };
        /* at ms, and how often timers have been looked at then */
        static const unsigned turns[][2] = { { 1050, 1 }, { 1099, 1 }, { 1100, 2 },  { 1640, 3 },
                                             { 3000, 3 }, { 3001, 3 }, { 3050, 4 },  { 3100, 5 },
                                             { 6000, 5 }, { 9000, 6 }, { 12000, 6 }, { 12050, 7 } };

        (void)state;
        assert_true(reactor_init(&r, &s, 1 << 20, true));
        r.sweep = r.tick = r.trim = (struct reactor_beat) { .last = 1000 };
        r.conns = &c;
        for (unsigned i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
                reactor_step(&r, turns[i][0]);
                assert_int_equal(sweeps, turns[i][1]);
                assert_int_equal(ticks, turns[i][1]);
        }
        r.conns = NULL;
        reactor_fini(&r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_turn_may_take_long),
                cmocka_unit_test(test_who_comes_late_reads_first),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
