/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "target/engine/conn.h"

static void test_buffers_come_again(void **state)
{
        struct pool_borrower who = { 0 };
        struct pool p;
        uint8_t *a, *b;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        a = pool_get(&p, 5000, &who);
        assert_non_null(a);
        assert_int_equal((uintptr_t)a % 64, 0);
        assert_int_equal(p.bytes, 8192);
        memset(a, 0xff, 5000);
        b = pool_get(&p, 1, &who);
        assert_int_equal(p.bytes, 8192 + 4096);
        pool_put(&p, a, 5000, &who);
        assert_ptr_equal(pool_get(&p, 8192, &who), a); /* of the same class */
        pool_put(&p, a, 8192, &who);
        pool_put(&p, b, 1, &who);
        pool_fini(&p);
        assert_int_equal(p.bytes, 0);
}

static void test_the_bound_holds(void **state)
{
        struct pool_borrower who[17] = { 0 };
        struct pool p;
        uint8_t *b[16];

        (void)state;
        pool_init(&p, 65536, NULL, NULL);
        for (unsigned i = 0; i < 16; i++)
                b[i] = pool_get(&p, 4096, &who[i]);
        assert_null(pool_get(&p, 4096, &who[16]));
        pool_put(&p, b[0], 4096, &who[0]);
        assert_null(pool_get(&p, 8192, &who[0])); /* what is free does not suffice */
        pool_put(&p, b[1], 4096, &who[1]);
        pool_put(&p, b[2], 4096, &who[2]);
        b[0] = pool_get(&p, 8192, &who[0]); /* two free ones of another class make room */
        assert_non_null(b[0]);
        assert_int_equal(p.bytes, 65536);
        assert_int_equal(who[0].bytes, 8192);
        pool_put(&p, b[0], 8192, &who[0]);
        for (unsigned i = 3; i < 16; i++)
                pool_put(&p, b[i], 4096, &who[i]);
        pool_fini(&p);
}

static void test_a_quarter_is_for_those_who_have_none(void **state)
{
        struct pool_borrower who = { 0 }, other = { 0 };
        struct pool p;
        uint8_t *b[16], *last;

        (void)state;
        pool_init(&p, 65536, NULL, NULL);
        for (unsigned i = 0; i < 12; i++)
                b[i] = pool_get(&p, 4096, &who);
        assert_non_null(b[11]);
        assert_null(pool_get(&p, 4096, &who));
        last = pool_get(&p, 8192, &other);
        assert_non_null(last);
        pool_put(&p, last, 8192, &other);
        pool_put(&p, b[0], 4096, &who);
        b[0] = pool_get(&p, 4096, &who);
        assert_non_null(b[0]);
        for (unsigned i = 0; i < 12; i++)
                pool_put(&p, b[i], 4096, &who);
        assert_int_equal(p.lent, 0);
        pool_fini(&p);
}

/* However many connections it has, and whatever it calls itself. */
static void test_a_host_has_half_and_an_address_five_eighths(void **state)
{
        struct pool_borrower who[64] = { 0 }, other = { 0 };
        struct pool p;
        uint8_t *b[64], *last;
        unsigned n = 0;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        for (unsigned i = 0; i < 64; i++) {
                who[i].host = pool_join(&p, i < 32 ? "one" : "two");
                who[i].place = pool_join(&p, "192.0.2.1");
                b[i] = pool_get(&p, 32768, &who[i]);
                assert_int_equal(b[i] != NULL, i < 16 || (i >= 32 && i < 36));
                n += b[i] != NULL;
        }
        assert_int_equal(p.lent, n * 32768);
        other.place = pool_join(&p, "192.0.2.2");
        last = pool_get(&p, 262144, &other);
        assert_non_null(last);
        pool_put(&p, last, 262144, &other);
        pool_leave(&p, other.place);
        for (unsigned i = 0; i < 64; i++) {
                if (b[i])
                        pool_put(&p, b[i], 32768, &who[i]);
                pool_leave(&p, who[i].host);
                pool_leave(&p, who[i].place);
        }
        assert_null(p.shares);
        pool_fini(&p);
}

/* Identify and its like find one, when everything else is lent. */
/* Beside the buffers, and bounded: an eighth of the pool's size for an address, a quarter in all. */
static void test_copies_are_bounded(void **state)
{
        enum { CAP = 1 << 20, LEN = CAP / 32 };
        static const uint8_t data[LEN] = { 1, 2, 3 };
        struct pool_share *place[3];
        void *copy[3][4];
        struct pool p;

        (void)state;
        pool_init(&p, CAP, NULL, NULL);
        for (unsigned i = 0; i < 3; i++)
                place[i] = pool_join(&p, (const char *[]) { "a", "b", "c" }[i]);
        for (unsigned i = 0; i < 2; i++) {
                for (unsigned k = 0; k < 4; k++) {
                        copy[i][k] = pool_keep(&p, data, LEN, place[i]);
                        assert_memory_equal(copy[i][k], data, LEN);
                }
                assert_null(pool_keep(&p, data, 1, place[i]));
        }
        assert_null(pool_keep(&p, data, 1, place[2]));
        assert_int_equal(p.bytes, 0);
        for (unsigned i = 0; i < 2; i++)
                for (unsigned k = 0; k < 4; k++)
                        pool_drop(&p, copy[i][k], LEN, place[i]);
        copy[2][0] = pool_keep(&p, data, LEN, place[2]);
        assert_non_null(copy[2][0]);
        pool_drop(&p, copy[2][0], LEN, place[2]);
        for (unsigned i = 0; i < 3; i++)
                pool_leave(&p, place[i]);
        pool_fini(&p);
}

static void test_a_reserve_of_small_ones(void **state)
{
        struct pool_borrower who[16] = { 0 }, other = { 0 };
        struct pool p;
        uint8_t *b[16], *small;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        for (unsigned i = 0; i < 16; i++)
                b[i] = pool_get(&p, 65536, &who[i]);
        assert_null(b[15]);
        assert_null(pool_get(&p, 8192, &other));
        small = pool_get(&p, 4096, &other);
        assert_non_null(small);
        pool_put(&p, small, 4096, &other);
        for (unsigned i = 0; i < 15; i++)
                pool_put(&p, b[i], 65536, &who[i]);
        pool_fini(&p);
}

/* --- turns ------------------------------------------------------------------------------------- */

enum { MOST = 128, PARTS_MAX = 1000 };

struct busy { /* a host all of whose queues always have more to do */
        struct turn_share share;
        struct turn_part part[PARTS_MAX];
        unsigned parts, done[PARTS_MAX], all;
};

static void do_work(struct turns *t, struct busy *b)
{
        for (unsigned i = 0; i < b->parts; i++) {
                unsigned n = turn_ask(t, &b->share, &b->part[i], MOST);

                b->part[i].taken += n;
                b->done[i] += n;
                b->all += n;
                assert_int_equal(turn_ask(t, &b->share, &b->part[i], MOST), 0);
        }
}

static void run_turns(struct turns *t, struct busy *one, struct busy *other, unsigned turns)
{
        for (; turns > 0; turns--) {
                t->now++;
                do_work(t, one);
                do_work(t, other);
        }
}

/* The parts of a host have as much together as the single one of another, and none has nothing. */
static void test_hosts_have_equal_shares_of_a_turn(void **state)
{
        static const unsigned parts[] = { 1, 2, 16, 60, 128, 129, 300, PARTS_MAX };
        enum { TURNS = 800 };

        (void)state;
        for (unsigned k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
                static struct busy many, one;
                struct turns t = { 0 };

                memset(&many, 0, sizeof(many));
                memset(&one, 0, sizeof(one));
                many.parts = parts[k];
                one.parts = 1;
                run_turns(&t, &many, &one, 2); /* how many there are has to be seen */
                many.all = one.all = 0;
                memset(many.done, 0, sizeof(many.done));
                run_turns(&t, &many, &one, TURNS);
                assert_int_equal(one.all, MOST * TURNS);
                assert_true(many.all <= one.all * 5 / 4);
                assert_true(many.all >= one.all / 2);
                for (unsigned i = 0; i < parts[k]; i++)
                        assert_true(many.done[i] >= many.all / parts[k] / 2);
        }
}

/* One piece for each of them in each turn would be dear. */
static void test_many_queues_have_some_pieces_at_a_time(void **state)
{
        static struct busy many = { .parts = 60 }, one = { .parts = 1 };
        struct turns t = { 0 };

        (void)state;
        run_turns(&t, &many, &one, 10);
        for (unsigned turn = 0; turn < 100; turn++) {
                memset(many.done, 0, sizeof(many.done));
                run_turns(&t, &many, &one, 1);
                for (unsigned i = 0; i < many.parts; i++)
                        assert_true(many.done[i] == 0 || many.done[i] == 4);
        }
}

/* Those that have nothing to do have no part of it, soon after the last time that they had. */
static void test_idle_queues_have_no_share_of_a_turn(void **state)
{
        static struct busy many = { .parts = 64 }, other = { .parts = 1 };
        struct turns t = { 0 };

        (void)state;
        run_turns(&t, &many, &other, 10);
        many.parts = 1;
        run_turns(&t, &many, &other, 8);
        many.all = 0;
        run_turns(&t, &many, &other, 1);
        assert_int_equal(many.all, MOST);
}

/* Nobody waits for the end of its turn: fewer and longer steps are cheaper. */
static void test_a_host_that_is_alone_has_larger_parts(void **state)
{
        static struct busy many = { .parts = 64 }, other = { .parts = 1 }, none;
        struct turns t = { 0 };

        (void)state;
        run_turns(&t, &many, &none, 10);
        many.all = 0;
        run_turns(&t, &many, &none, 1);
        assert_int_equal(many.all, 64 * 16);
        run_turns(&t, &many, &other, 1);
        many.all = 0;
        run_turns(&t, &many, &none, 100); /* the other one is back before long */
        assert_int_equal(many.all, 100 * 64 * 2);
        run_turns(&t, &many, &none, 1000);
        many.all = 0;
        run_turns(&t, &many, &none, 1);
        assert_int_equal(many.all, 64 * 16);
}

/* As a connection does that has said in the middle of a turn whose it is. */
static void test_a_part_goes_to_another_share_within_a_turn(void **state)
{
        struct turn_share place = { 0 }, host = { 0 };
        struct turn_part p = { 0 };
        struct turns t = { .now = 1 };

        (void)state;
        assert_int_equal(turn_ask(&t, &place, &p, MOST), 4 * MOST); /* alone */
        p.taken = 1;
        assert_int_equal(turn_ask(&t, &host, &p, MOST), MOST);
        assert_int_equal(host.asking, 1);
        t.now++;
        assert_int_equal(turn_ask(&t, &host, &p, MOST), MOST);
        assert_int_equal(host.asked, 1);
}

/* By its connections: those of one host, and one that has not said yet whose it is. */
static void test_work_is_shared_by_the_queues_of_a_host(void **state)
{
        enum { QUEUES = 8 };
        static struct conn c[QUEUES], other;
        static struct reactor r;
        struct pool p;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        for (unsigned i = 0; i < QUEUES; i++) {
                c[i].reactor = &r;
                c[i].pool = &p;
                c[i].borrower.host = pool_join(&p, "one");
        }
        other.reactor = &r;
        other.pool = &p;
        for (r.turns.now = 1; r.turns.now < 4; r.turns.now++) {
                for (unsigned i = 0; i < QUEUES; i++)
                        (void)conn_budget(&c[i]);
                assert_int_equal(conn_budget(&other), CONN_BUDGET);
                other.part.taken += 20;
                assert_int_equal(conn_budget(&other), CONN_BUDGET - 20);
        }
        for (unsigned i = 0; i < QUEUES; i++) {
                assert_int_equal(conn_budget(&c[i]), CONN_BUDGET / QUEUES);
                pool_leave(&p, c[i].borrower.host);
        }
        pool_leave(&p, other.borrower.place);
        assert_null(p.shares);
        pool_fini(&p);
}

/* A conn of a host at an address. */
static void join(struct conn *c, struct reactor *r, struct pool *p, const char *place,
                 const char *host)
{
        *c = (struct conn) { .reactor = r, .pool = p, .host = host };
        snprintf(c->peer.place, sizeof(c->peer.place), "%s", place);
}

static void leave(struct conn *c)
{
        pool_leave(c->pool, c->borrower.host);
        pool_leave(c->pool, c->borrower.place);
}

/* Commands in slices are work, too, and neither they nor what comes keeps the other from going on. */
static void test_slices_are_part_of_a_turn(void **state)
{
        enum { OUTSTANDING = 1000 };
        static struct conn c, other;
        static struct reactor r;
        unsigned slices = 0, turns = 0;
        struct pool p;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        join(&c, &r, &p, "192.0.2.1", "one");
        join(&other, &r, &p, "192.0.2.2", "other");
        for (r.turns.now = 1; r.turns.now < 100; r.turns.now++) {
                unsigned before = slices;

                assert_true(conn_budget(&other) >= CONN_BUDGET);
                c.part.taken += conn_budget(&c);
                while (slices - before < OUTSTANDING && conn_take_slice(&c))
                        slices++;
                assert_true(slices > before && slices - before <= CONN_BUDGET / 8 * 4);
                turns++;
        }
        assert_true(slices <= turns * CONN_BUDGET / 8 / 2 + 16);
        assert_true(c.again);
        leave(&c);
        leave(&other);
        pool_fini(&p);
}

/* Names can be taken by anybody. */
static void test_an_address_has_one_share_however_many_hosts_it_has(void **state)
{
        enum { HOSTS = 100, TURNS = 1000 };
        static struct conn c[HOSTS], other;
        static unsigned done[HOSTS];
        static char names[HOSTS][8];
        static struct reactor r;
        unsigned all = 0;
        struct pool p;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        for (unsigned i = 0; i < HOSTS; i++) {
                snprintf(names[i], sizeof(names[i]), "%u", i);
                join(&c[i], &r, &p, "192.0.2.1", names[i]);
        }
        join(&other, &r, &p, "192.0.2.2", "other");
        for (r.turns.now = 1; r.turns.now <= TURNS; r.turns.now++) {
                for (unsigned i = 0; i < HOSTS; i++) {
                        unsigned n = conn_budget(&c[i]);

                        c[i].part.taken += n;
                        done[i] += n;
                        all += n;
                }
                assert_int_equal(conn_budget(&other), CONN_BUDGET);
        }
        assert_true(all <= TURNS * CONN_BUDGET * 9 / 4);
        for (unsigned i = 0; i < HOSTS; i++)
                assert_true(done[i] >= all / HOSTS / 2);
        for (unsigned i = 0; i < HOSTS; i++)
                leave(&c[i]);
        leave(&other);
        pool_fini(&p);
}

/* ... and each has its own where no other address asks for anything. */
static void test_hosts_of_the_only_address_have_shares_as_large(void **state)
{
        static struct conn c[4];
        static struct reactor r;
        static char names[4][2] = { "a", "b", "c", "d" };
        struct pool p;

        (void)state;
        pool_init(&p, 1 << 20, NULL, NULL);
        for (unsigned i = 0; i < 4; i++)
                join(&c[i], &r, &p, "192.0.2.1", names[i]);
        for (r.turns.now = 1; r.turns.now < 10; r.turns.now++)
                for (unsigned i = 0; i < 4; i++)
                        assert_true(conn_budget(&c[i]) >= CONN_BUDGET);
        for (unsigned i = 0; i < 4; i++)
                leave(&c[i]);
        pool_fini(&p);
}

static void test_idle_pools_shrink(void **state)
{
        struct pool_borrower who = { 0 };
        struct pool p;
        uint8_t *a;

        (void)state;
        pool_init(&p, 65536, NULL, NULL);
        a = pool_get(&p, 4096, &who);
        pool_put(&p, pool_get(&p, 4096, &who), 4096, &who);
        pool_trim(&p); /* it was used since */
        assert_int_equal(p.bytes, 8192);
        pool_trim(&p);
        assert_int_equal(p.bytes, 4096); /* lent ones stay */
        pool_put(&p, a, 4096, &who);
        pool_trim(&p);
        assert_int_equal(p.bytes, 0);
        pool_fini(&p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_buffers_come_again),
                cmocka_unit_test(test_the_bound_holds),
                cmocka_unit_test(test_a_quarter_is_for_those_who_have_none),
                cmocka_unit_test(test_a_host_has_half_and_an_address_five_eighths),
                cmocka_unit_test(test_copies_are_bounded),
                cmocka_unit_test(test_a_reserve_of_small_ones),
                cmocka_unit_test(test_hosts_have_equal_shares_of_a_turn),
                cmocka_unit_test(test_many_queues_have_some_pieces_at_a_time),
                cmocka_unit_test(test_idle_queues_have_no_share_of_a_turn),
                cmocka_unit_test(test_a_host_that_is_alone_has_larger_parts),
                cmocka_unit_test(test_a_part_goes_to_another_share_within_a_turn),
                cmocka_unit_test(test_work_is_shared_by_the_queues_of_a_host),
                cmocka_unit_test(test_slices_are_part_of_a_turn),
                cmocka_unit_test(test_an_address_has_one_share_however_many_hosts_it_has),
                cmocka_unit_test(test_hosts_of_the_only_address_have_shares_as_large),
                cmocka_unit_test(test_idle_pools_shrink),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
