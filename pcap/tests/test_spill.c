/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pcap/replay/replay_index.h"
#include "pcap/replay/replay_plan.h"

enum { PIECES = 3000, PIECE = 30000 };

static uint32_t *pieces[PIECES];

/* Bytes of this process in memory, in KiB. */
static size_t resident(void)
{
        FILE *f = fopen("/proc/self/statm", "r");
        unsigned long all, in_memory;

        assert_non_null(f);
        assert_int_equal(fscanf(f, "%lu %lu", &all, &in_memory), 2);
        fclose(f);
        return in_memory * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void test_holds_what_it_was_given(void **state)
{
        struct spill s = { 0 };
        size_t before = resident(), since = 0, largest = 0;
        uint32_t *large;

        (void)state;
        for (unsigned i = 0; i < PIECES; i++) {
                pieces[i] = spill_add(&s, PIECE);
                assert_non_null(pieces[i]);
                assert_int_equal((uintptr_t)pieces[i] % 16, 0);
                assert_int_equal(pieces[i][PIECE / 4 - 1], 0);
                for (unsigned k = 0; k < PIECE / 4; k++)
                        pieces[i][k] = i + k;
        }
        large = spill_add(&s, 40 << 20);
        assert_non_null(large);
        large[(40 << 18) - 1] = 1;
        for (unsigned i = 0; i < PIECES; i++) {
                for (unsigned k = 0; k < PIECE / 4; k++)
                        assert_true(pieces[i][k] == i + k);
                spill_looked(&s, &since, PIECE);
                if (resident() > largest)
                        largest = resident();
        }
        assert_true(largest - before < 40 << 10); /* of 127 MiB */
        assert_true(s.bytes >= (size_t)PIECES * PIECE + (40 << 20));
        spill_free(&s);
        assert_null(s.parts);
}

static void test_no_room(void **state)
{
        struct trace_options trace = { 0 };
        struct spill s = { 0 };
        struct replay_plan plan;
        char err[300], path[512];

        (void)state;
        setenv("TMPDIR", "/proc/self/nowhere", 1);
        assert_null(spill_add(&s, 1));
        assert_int_equal(s.error, ENOENT);
        spill_free(&s);
        snprintf(path, sizeof(path), "%s/pdu/io/tests/captures/nvme-tcp-6.12.pcap", SOURCE_DIR);
        assert_int_equal(replay_plan_read(&plan, path, &trace, 0, err, sizeof(err)), -1);
        assert_non_null(strstr(err, "not enough space for its data in TMPDIR: No such file"));
        replay_plan_free(&plan);
        unsetenv("TMPDIR");
}

/* --- answers ---------------------------------------------------------------------------------- */

static const struct plan_cmd *next(struct answers *a, const struct plan_cmd *like, bool *again)
{
        return answers_next(a, like->queue->assoc, like->admin, &like->sqe, again);
}

/* Each command of a capture gets its own answer, in turn; then the last one of its kind. */
static void test_answers_in_turn(void **state)
{
        struct trace_options trace = { 0 };
        struct replay_plan plan;
        struct answers *a;
        char err[300], path[512];
        bool again;

        (void)state;
        snprintf(path, sizeof(path), "%s/pdu/io/tests/captures/nvme-tcp-6.12.pcap", SOURCE_DIR);
        assert_int_equal(replay_plan_read(&plan, path, &trace, 0, err, sizeof(err)), 0);
        a = answers_new(&plan);
        assert_non_null(a);
        for (const struct plan_cmd *c = plan.cmds; c; c = c->next)
                if (c->answered) {
                        assert_ptr_equal(next(a, c, &again), c);
                        assert_false(again);
                }
        for (const struct plan_cmd *c = plan.cmds; c; c = c->next) {
                const struct plan_cmd *p = next(a, c, &again);

                assert_true(again);
                assert_true(!c->answered || (p && p->sqe.opc == c->sqe.opc));
        }
        for (int i = 0; i < 8; i++) { /* when all Connects were given, all begins again */
                const struct plan_cmd *p = answers_connect(a, i & 1);

                assert_non_null(p);
                assert_true(answers_is(a, p->queue->assoc, (uint16_t)le32_get(p->cqe.dw0)));
        }
        assert_ptr_equal(next(a, plan.cmds, &again), plan.cmds);
        assert_false(again);
        answers_free(a);
        replay_plan_free(&plan);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_holds_what_it_was_given),
                cmocka_unit_test(test_no_room),
                cmocka_unit_test(test_answers_in_turn),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
