/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a queue pair: every cell of its table, and what holds in any order of events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "pdu/verbs/rdma_life.h"

enum { SCHEDULES = 20000, STEPS = 40 };

/* --- every cell ------------------------------------------------------------------------------- */

/*
 * One cell: the next state (C, Live, closinG, Draining, dead "X", released "*"), then what
 * is to be done (replay, say DREQ, fail, end, release "z"); ".": nothing happens. The columns:
 * established, refused, close, abort, disconnected, time-wait, late, removed, failed, drained, idle.
 */
static const char states[] = "CLGDX*", actions[] = "rsfez";

static const struct {
        bool has_qp, idle;
        const char *cell[LIFE_RELEASED + 1][LIFE_EVENTS];
} tables[] = {
        { true,
          false,
          {
              { "Lr", "Df", "Dsf", "Dsf", "Dsf", "Df", "Dsf", "Dsf", "Dsf", ".", "." },
              { ".", "Dsf", "Gs", "Dsf", "Dsf", "Df", ".", "Dsf", "Dsf", ".", "." },
              { ".", "Df", ".", "Df", "Df", "Df", "Df", "Df", ".", ".", "." },
              { ".", ".", ".", ".", ".", ".", "Xe", ".", ".", "Xe", "." },
              { ".", ".", ".", ".", ".", ".", ".", ".", ".", ".", "*z" },
              { ".", ".", ".", ".", ".", ".", ".", ".", ".", ".", "." },
          } },
        { true,
          true,
          {
              { "Lr", "Df", "Dsf", "Dsf", "Dsf", "Df", "Dsf", "Dsf", "Dsf", ".", "." },
              { ".", "Dsf", "Gs", "Dsf", "Dsf", "Df", ".", "Dsf", "Dsf", ".", "." },
              { ".", "Df", ".", "Df", "Df", "Df", "Df", "Df", ".", ".", "." },
              { ".", ".", ".", ".", ".", ".", "*ez", ".", ".", "*ez", "." },
              { NULL }, /* not to be had: who is idle does not stay dead */
              { ".", ".", ".", ".", ".", ".", ".", ".", ".", ".", "." },
          } },
        { false,
          false,
          {
              { "Lr", "Xe", "Xe", "Xe", "Xe", "Xe", "Xe", "Xe", "Xe", ".", "." },
              { ".", "Xe", "G", "Xe", "Xe", "Xe", ".", "Xe", "Xe", ".", "." },
              { ".", "Xe", ".", "Xe", "Xe", "Xe", "Xe", "Xe", ".", ".", "." },
              { NULL }, /* nothing to drain */
              { ".", ".", ".", ".", ".", ".", ".", ".", ".", ".", "*z" },
              { ".", ".", ".", ".", ".", ".", ".", ".", ".", ".", "." },
          } },
        { false,
          true,
          {
              { "Lr", "*ez", "*ez", "*ez", "*ez", "*ez", "*ez", "*ez", "*ez", ".", "." },
              { ".", "*ez", "G", "*ez", "*ez", "*ez", ".", "*ez", "*ez", ".", "." },
              { ".", "*ez", ".", "*ez", "*ez", "*ez", "*ez", "*ez", ".", ".", "." },
              { NULL },
              { NULL },
              { ".", ".", ".", ".", ".", ".", ".", ".", ".", ".", "." },
          } },
};

static void in_letters(char *out, enum life_state before, enum life_state after, unsigned done)
{
        if (before == after && done == 0) {
                strcpy(out, ".");
                return;
        }
        *out++ = states[after];
        for (unsigned bit = 0; bit < 5; bit++)
                if (done >> bit & 1)
                        *out++ = actions[bit];
        *out = '\0';
}

static struct rdma_life in_state(enum life_state s, bool has_qp, bool idle)
{
        static const unsigned past[] = {
                [LIFE_LIVE] = LIFE_DO_REPLAY,
                [LIFE_CLOSING] = LIFE_DO_REPLAY | LIFE_DO_DISCONNECT,
                [LIFE_DRAINING] = LIFE_DO_FAIL,
                [LIFE_DEAD] = LIFE_DO_FAIL | LIFE_DO_END,
                [LIFE_RELEASED] = LIFE_DO_FAIL | LIFE_DO_END | LIFE_DO_RELEASE,
        };
        struct rdma_life l;

        life_init(&l);
        assert_int_equal(l.state, LIFE_CONNECTING);
        l.state = s;
        l.has_qp = has_qp;
        l.actions = past[s];
        if (!idle && s < LIFE_RELEASED)
                life_busy(&l);
        return l;
}

static void every_cell(void **state)
{
        (void)state;
        for (size_t t = 0; t < 4; t++)
                for (enum life_state s = LIFE_CONNECTING; s <= LIFE_RELEASED; s++)
                        for (enum life_event e = 0; tables[t].cell[s][0] && e < LIFE_EVENTS; e++) {
                                struct rdma_life l = in_state(s, tables[t].has_qp, tables[t].idle);
                                unsigned done = life_event(&l, e);
                                char got[8];

                                in_letters(got, s, l.state, done);
                                if (strcmp(got, tables[t].cell[s][e]) != 0)
                                        fail_msg("table %zu, %s: %s: %s, not %s", t,
                                                 life_state_name(s), life_event_name(e), got,
                                                 tables[t].cell[s][e]);
                        }
}

static void cause_is_the_first(void **state)
{
        struct rdma_life l;

        (void)state;
        life_init(&l);
        l.has_qp = true;
        assert_int_equal(l.cause, LIFE_EVENTS);
        life_event(&l, LIFE_ESTABLISHED);
        life_event(&l, LIFE_LATE);
        assert_int_equal(l.cause, LIFE_EVENTS);
        life_event(&l, LIFE_CLOSE);
        assert_int_equal(l.cause, LIFE_CLOSE);
        life_event(&l, LIFE_DISCONNECTED);
        life_event(&l, LIFE_DRAINED);
        assert_int_equal(l.cause, LIFE_CLOSE);
        assert_int_equal(l.state, LIFE_RELEASED);
}

static void names(void **state)
{
        (void)state;
        for (enum life_state s = LIFE_CONNECTING; s <= LIFE_RELEASED; s++)
                for (enum life_state t = LIFE_CONNECTING; t < s; t++)
                        assert_string_not_equal(life_state_name(s), life_state_name(t));
        for (enum life_event e = 0; e <= LIFE_EVENTS; e++)
                for (enum life_event t = 0; t < e; t++)
                        assert_string_not_equal(life_event_name(e), life_event_name(t));
}

/* --- sentinels -------------------------------------------------------------------------------- */

static void sentinels(void **state)
{
        struct verbs_wr other = { 0 }, *send, *recv;
        struct rdma_life l;

        (void)state;
        life_init(&l);
        l.has_qp = true;
        life_event(&l, LIFE_ABORT);
        send = life_send_sentinel(&l);
        recv = life_recv_sentinel(&l);
        assert_int_equal(l.sentinels, 2);
        assert_int_equal(send->op, VERBS_WRITE);
        assert_int_equal(send->n_sge, 0);
        assert_true(send->flags & VERBS_SIGNALED);
        assert_null(send->next);
        assert_int_equal(recv->op, VERBS_RECV);
        assert_int_equal(recv->n_sge, 0);
        assert_false(life_sentinel_flushed(&l, &other));
        assert_true(life_sentinel_flushed(&l, recv));
        assert_int_equal(l.sentinels, 1);
        assert_true(life_sentinel_flushed(&l, send));
        assert_int_equal(l.sentinels, 0);
        assert_int_equal(life_event(&l, LIFE_DRAINED), LIFE_DO_END | LIFE_DO_RELEASE);
}

/* --- any order -------------------------------------------------------------------------------- */

struct run {
        struct rdma_life l;
        unsigned seed, count[5];
        struct verbs_wr *posted[2];
};

static unsigned chance(struct run *r, unsigned n)
{
        r->seed = r->seed * 1664525 + 1013904223;
        return (r->seed >> 8) % n;
}

static void post_sentinels(struct run *r)
{
        r->posted[0] = life_send_sentinel(&r->l);
        r->posted[1] = chance(r, 2) ? life_recv_sentinel(&r->l) : NULL;
        if (chance(r, 8) == 0) { /* was not to be posted */
                life_sentinel_flushed(&r->l, r->posted[0]);
                r->posted[0] = NULL;
        }
}

static void feed(struct run *r, enum life_event e)
{
        enum life_state before = r->l.state;
        unsigned done = life_event(&r->l, e);

        assert_true(r->l.state >= before);
        assert_true(before < LIFE_RELEASED || done == 0);
        for (unsigned bit = 0; bit < 5; bit++)
                r->count[bit] += done >> bit & 1;
        for (unsigned bit = 0; bit < 5; bit++)
                assert_true(r->count[bit] <= 1);
        assert_true(r->l.has_qp || !(done & (LIFE_DO_DISCONNECT | LIFE_DO_FAIL)));
        assert_int_equal(r->count[3], r->l.state >= LIFE_DEAD);
        assert_int_equal(r->count[4], r->l.state == LIFE_RELEASED);
        assert_true(r->count[3] == 0 || !r->l.has_qp || r->count[2] == 1);
        assert_true(r->count[4] == 0 || r->l.idle);
        if (done & LIFE_DO_FAIL)
                post_sentinels(r);
}

static void flush(struct run *r, int i)
{
        if (!r->posted[i])
                return;
        assert_true(life_sentinel_flushed(&r->l, r->posted[i]));
        r->posted[i] = NULL;
}

static void random_step(struct run *r)
{
        enum life_event e = chance(r, LIFE_EVENTS);

        if (chance(r, 4) == 0 && r->l.state < LIFE_DEAD)
                life_busy(&r->l);
        if (chance(r, 2) == 0)
                flush(r, (int)chance(r, 2));
        if (e == LIFE_DRAINED && r->l.sentinels > 0)
                return; /* the owner counts */
        if (e == LIFE_LATE && chance(r, 4) > 0)
                return;
        feed(r, e);
}

/* However it came here, its timer and the end of its commands lead out. */
static void comes_to_its_end(struct run *r)
{
        if (r->l.state == LIFE_LIVE)
                feed(r, LIFE_CLOSE);
        for (int i = 0; i < 3 && r->l.state < LIFE_DEAD; i++) {
                enum life_state before = r->l.state;

                feed(r, LIFE_LATE);
                assert_true(r->l.state > before);
        }
        feed(r, LIFE_IDLE);
        assert_int_equal(r->l.state, LIFE_RELEASED);
}

static void any_order(void **state)
{
        (void)state;
        for (unsigned seed = 1; seed <= SCHEDULES; seed++) {
                struct run r = { .seed = seed };

                life_init(&r.l);
                r.l.has_qp = chance(&r, 4) > 0;
                for (unsigned n = chance(&r, STEPS); n > 0; n--)
                        random_step(&r);
                comes_to_its_end(&r);
        }
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_cell), cmocka_unit_test(cause_is_the_first),
                cmocka_unit_test(names),      cmocka_unit_test(sentinels),
                cmocka_unit_test(any_order),
        };

        return cmocka_run_group_tests_name("rdma_life", tests, NULL, NULL);
}
