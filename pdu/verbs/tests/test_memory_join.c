/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs in memory that are joined by numbers, without connection management. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pdu/verbs/memory_verbs.h"

enum { BYTES = 4096, SCHEDULES = 2000, STEPS = 60, WRS = 16 };

struct end {
        struct verbs_context *c;
        struct verbs_domain *d;
        struct verbs_ep *ep;
        struct verbs_mr mr;
        struct verbs_numbers own;
        uint8_t memory[BYTES];
        struct verbs_wr wr[2 * WRS]; /* sends, then receives */
};

static struct memory_fabric *fabric;
static struct end a, b;
static uint32_t seed;
static struct verbs_qp_attr attr;
static const struct verbs_conn_param param = { .reads_in = 4, .reads_out = 4, .rnr_retry = 7 };

static uint32_t xorshift(void *user)
{
        (void)user;
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        return seed;
}

static uint32_t chance(uint32_t of)
{
        return xorshift(NULL) % of;
}

/* --- setting up -------------------------------------------------------------------------------- */

static void prepare(struct end *e)
{
        e->d = verbs_domain(e->ep);
        assert_non_null(e->d);
        if (attr.recv_wrs == 0)
                assert_int_equal(verbs_make_srq(e->d, WRS), 0);
        assert_int_equal(verbs_grow_cq(e->d, 256), 0);
        assert_int_equal(verbs_qp(e->ep, &attr), 0);
        assert_int_equal(
            verbs_reg(e->d, e->memory, BYTES, VERBS_REMOTE_READ | VERBS_REMOTE_WRITE, &e->mr), 0);
        assert_int_equal(verbs_numbers(e->ep, &e->own), 0);
}

static void begin(struct end *e, const char *traddr, int byte)
{
        memset(e, 0, sizeof(*e));
        memset(e->memory, byte, BYTES);
        e->c = verbs_open(memory_provider(fabric));
        e->ep = verbs_local(e->c, traddr);
        assert_non_null(e->ep);
        prepare(e);
}

static void start(const struct memory_caps *caps, bool random)
{
        struct memory_config cfg = { .caps = caps, .random = random ? xorshift : NULL };

        attr = (struct verbs_qp_attr) { WRS, WRS, 64 };
        fabric = memory_fabric_new(&cfg);
        begin(&a, "10.0.0.1", 'a');
        begin(&b, "10.0.0.2", 'b');
}

static int join(struct end *e, const struct end *to)
{
        return verbs_join(e->ep, &to->own, &param);
}

static struct verbs_event expect_event(struct end *e, enum verbs_event_type type)
{
        struct verbs_event v;

        memory_idle(fabric);
        assert_true(verbs_event(e->c, &v));
        assert_string_equal(verbs_event_name(v.type), verbs_event_name(type));
        assert_ptr_equal(v.ep, e->ep);
        return v;
}

static void expect_quiet(struct end *e)
{
        struct verbs_event v;

        memory_idle(fabric);
        assert_false(verbs_event(e->c, &v));
}

static void joined(void)
{
        start(NULL, false);
        assert_int_equal(join(&a, &b), 0);
        assert_int_equal(join(&b, &a), 0);
        expect_event(&a, VERBS_ESTABLISHED);
        expect_event(&b, VERBS_ESTABLISHED);
}

static void forget(struct end *e)
{
        struct verbs_wc wc;

        if (e->ep)
                verbs_destroy(e->ep);
        e->ep = NULL;
        if (e->mr.own)
                verbs_dereg(e->d, &e->mr);
        while (e->d && verbs_poll(e->d, &wc, 1) > 0)
                assert_null(wc.ep);
}

static void end(void)
{
        forget(&a);
        forget(&b);
        if (attr.recv_wrs > 0)
                assert_int_equal(memory_leaked(fabric), 0);
        memory_fabric_free(fabric);
}

/* --- work -------------------------------------------------------------------------------------- */

static struct verbs_wr *work(struct end *e, unsigned i, enum verbs_op op, struct end *to, size_t at,
                             uint32_t len)
{
        struct verbs_wr *w = &e->wr[i], *bad;

        *w = (struct verbs_wr) { .op = op,
                                 .flags = VERBS_SIGNALED,
                                 .n_sge = 1,
                                 .sge = { { e->memory + at, len, e->mr.lkey } },
                                 .remote = (uintptr_t)to->memory + at,
                                 .rkey = to->mr.rkey };
        if (op != VERBS_RECV)
                assert_int_equal(verbs_post(e->ep, w, &bad), 0);
        else if (attr.recv_wrs == 0)
                assert_int_equal(verbs_post_srq(e->d, w, &bad), 0);
        else
                assert_int_equal(verbs_post_recv(e->ep, w, &bad), 0);
        return w;
}

static void expect_wc(struct end *e, const struct verbs_wr *w, enum verbs_status status)
{
        struct verbs_wc wc;

        memory_idle(fabric);
        assert_int_equal(verbs_poll(e->d, &wc, 1), 1);
        assert_ptr_equal(wc.wr, w);
        assert_string_equal(verbs_status_name(wc.status), verbs_status_name(status));
}

static void expect_no_wc(struct end *e)
{
        struct verbs_wc wc;

        memory_idle(fabric);
        assert_int_equal(verbs_poll(e->d, &wc, 1), 0);
}

/* A SEND from one to the other, at a place of the memory that is its own. */
static void expect_send(struct end *from, struct end *to, unsigned i)
{
        struct verbs_wr *recv = work(to, WRS + i, VERBS_RECV, from, 64 * i, 64);
        struct verbs_wr *send = work(from, i, VERBS_SEND, to, 2048, 16);

        expect_wc(to, recv, VERBS_SUCCESS);
        expect_wc(from, send, VERBS_SUCCESS);
        assert_memory_equal(to->memory + 64 * i, from->memory + 2048, 16);
}

/* Work of either side gets nowhere. */
static void expect_nobody(struct end *e)
{
        struct end *other = e == &a ? &b : &a;
        struct verbs_wr *send = work(e, 0, VERBS_SEND, other, 0, 16);
        struct verbs_wr *write = work(e, 1, VERBS_WRITE, other, 0, 16);

        expect_wc(e, send, VERBS_RETRY_EXCEEDED);
        expect_wc(e, write, VERBS_FLUSHED);
        assert_int_equal(memory_qp_state(e->ep), MEMORY_QP_ERROR);
}

/* --- numbers ----------------------------------------------------------------------------------- */

static void each_queue_pair_has_numbers_of_its_own(void **state)
{
        struct verbs_numbers again;

        (void)state;
        start(NULL, false);
        assert_int_not_equal(a.own.qpn, b.own.qpn);
        assert_int_not_equal(a.own.psn, b.own.psn);
        assert_int_equal((a.own.qpn | a.own.psn | b.own.qpn | b.own.psn) >> 24, 0);
        assert_int_equal(a.own.lid, 0);
        assert_int_equal(a.own.mtu, 4096);
        assert_int_equal(verbs_numbers(a.ep, &again), 0);
        assert_memory_equal(&again, &a.own, sizeof(again));
        end();
}

static void the_gid_is_the_address(void **state)
{
        static const struct {
                const char *address;
                uint8_t gid[16];
        } known[] = {
                { "10.0.0.200", { [10] = 0xff, 0xff, 10, 0, 0, 200 } },
                { "::1", { [15] = 1 } },
                { "[fd00::a:2]", { 0xfd, 0, [13] = 10, 0, 2 } },
                { "fe80::1:2:3:4%2", { 0xfe, 0x80, [9] = 1, 0, 2, 0, 3, 0, 4 } },
                { "1:2:3:4:5:6:7:89ab", { 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0x89, 0xab } },
                { "fd00:1::", { 0xfd, 0, 0, 1 } },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                fabric = memory_fabric_new(NULL);
                attr = (struct verbs_qp_attr) { WRS, WRS, 64 };
                begin(&a, known[i].address, 'a');
                assert_memory_equal(a.own.gid, known[i].gid, 16);
                forget(&a);
                memory_fabric_free(fabric);
        }
}

static void only_a_local_endpoint_with_a_queue_pair_has_numbers(void **state)
{
        struct verbs_numbers n;
        struct verbs_ep *ep;

        (void)state;
        start(NULL, false);
        ep = verbs_local(a.c, "10.0.0.3");
        assert_int_equal(verbs_numbers(ep, &n), -1);
        assert_int_equal(errno, EINVAL);
        assert_int_equal(verbs_join(ep, &b.own, &param), -1);
        assert_int_equal(errno, EINVAL);
        assert_int_equal(verbs_connect(a.ep, &param), -1);
        verbs_destroy(ep);
        ep = verbs_resolve(a.c, "10.0.0.3", "4420", 100);
        memory_idle(fabric);
        assert_int_equal(verbs_qp(ep, &attr), 0);
        assert_int_equal(verbs_numbers(ep, &n), -1);
        assert_int_equal(verbs_join(ep, &b.own, &param), -1);
        assert_int_equal(errno, EINVAL);
        verbs_destroy(ep);
        end();
}

static void where_no_device_is_there_is_no_endpoint(void **state)
{
        (void)state;
        start(NULL, false);
        assert_null(verbs_local(a.c, "0.0.0.0"));
        assert_int_equal(errno, ENODEV);
        assert_null(verbs_local(a.c, "example.org"));
        assert_int_equal(errno, ENXIO);
        memory_refuse(fabric, MEMORY_RESOLVE, 1);
        assert_null(verbs_local(a.c, "10.0.0.1"));
        assert_int_equal(errno, ENOMEM);
        memory_remove(fabric, a.c);
        assert_null(verbs_local(a.c, "10.0.0.1"));
        assert_int_equal(errno, ENODEV);
        assert_int_equal(join(&a, &b), -1);
        assert_int_equal(errno, ENODEV);
        end();
}

static void iwarp_has_no_such_thing(void **state)
{
        struct memory_caps caps;
        struct verbs_context *c;

        (void)state;
        memory_caps_default(&caps);
        caps.device.iwarp = true;
        fabric = memory_fabric_new(&(struct memory_config) { .caps = &caps });
        c = verbs_open(memory_provider(fabric));
        assert_null(verbs_local(c, "10.0.0.1"));
        assert_int_equal(errno, ENOTSUP);
        memory_fabric_free(fabric);
}

/* --- joining ----------------------------------------------------------------------------------- */

static void data_go_both_ways_in_whichever_order_they_join(void **state)
{
        char local[64], peer[80];

        (void)state;
        for (int turn = 0; turn < 2; turn++) {
                struct end *first = turn ? &b : &a, *second = turn ? &a : &b;

                start(NULL, false);
                expect_quiet(first);
                assert_int_equal(join(first, second), 0);
                expect_event(first, VERBS_ESTABLISHED);
                expect_quiet(second);
                assert_int_equal(join(second, first), 0);
                expect_event(second, VERBS_ESTABLISHED);
                expect_send(&a, &b, 0);
                expect_send(&b, &a, 1);
                verbs_addresses(a.ep, local, peer, sizeof(local));
                assert_string_equal(local, "10.0.0.1");
                assert_string_equal(peer, "10.0.0.2:0");
                end();
        }
}

static void reads_and_writes_move_data(void **state)
{
        (void)state;
        joined();
        expect_wc(&a, work(&a, 0, VERBS_WRITE, &b, 100, 50), VERBS_SUCCESS);
        assert_int_equal(b.memory[99], 'b');
        assert_int_equal(b.memory[100], 'a');
        assert_int_equal(b.memory[150], 'b');
        expect_wc(&a, work(&a, 1, VERBS_READ, &b, 1000, 50), VERBS_SUCCESS);
        assert_int_equal(a.memory[1049], 'b');
        expect_wc(&b, work(&b, 2, VERBS_READ, &a, 3000, 50), VERBS_SUCCESS);
        assert_int_equal(b.memory[3000], 'a');
        end();
}

static void a_wrong_key_fails_both(void **state)
{
        struct verbs_wr *w, *bad;

        (void)state;
        joined();
        w = &a.wr[0];
        *w = (struct verbs_wr) { .op = VERBS_READ,
                                 .flags = VERBS_SIGNALED,
                                 .n_sge = 1,
                                 .sge = { { a.memory, 8, a.mr.lkey } },
                                 .remote = (uintptr_t)b.memory,
                                 .rkey = b.mr.rkey ^ 0x5500 };
        assert_int_equal(verbs_post(a.ep, w, &bad), 0);
        expect_wc(&a, w, VERBS_REMOTE_ACCESS);
        expect_event(&b, VERBS_QP_ERROR);
        end();
}

static void no_more_reads_than_agreed(void **state)
{
        struct verbs_conn_param none = param;
        struct verbs_wr *bad;

        (void)state;
        start(NULL, false);
        none.reads_in = none.reads_out = 0;
        assert_int_equal(join(&a, &b), 0);
        assert_int_equal(verbs_join(b.ep, &a.own, &none), 0);
        b.wr[0] = (struct verbs_wr) { .op = VERBS_READ };
        assert_int_equal(verbs_post(b.ep, &b.wr[0], &bad), -1);
        expect_wc(&a, work(&a, 0, VERBS_READ, &b, 0, 8), VERBS_REMOTE_INVALID);
        end();
}

/* How often a SEND is tried that nobody receives is said by the sender itself. */
static void rnr_retries_are_our_own(void **state)
{
        struct verbs_conn_param hasty = param;

        (void)state;
        start(NULL, false);
        hasty.rnr_retry = 1;
        assert_int_equal(verbs_join(a.ep, &b.own, &hasty), 0);
        assert_int_equal(join(&b, &a), 0);
        work(&b, 0, VERBS_SEND, &a, 0, 8);
        expect_no_wc(&b); /* waits */
        expect_wc(&a, work(&a, 0, VERBS_SEND, &b, 0, 8), VERBS_RNR_EXCEEDED);
        end();
}

/* --- who is not there -------------------------------------------------------------------------- */

static void work_waits_for_the_peer_to_join(void **state)
{
        struct verbs_wr *recv, *send;

        (void)state;
        start(NULL, false);
        recv = work(&b, WRS, VERBS_RECV, &a, 0, 64);
        assert_int_equal(join(&a, &b), 0);
        send = work(&a, 0, VERBS_SEND, &b, 0, 16);
        expect_no_wc(&a);
        expect_no_wc(&b);
        assert_int_equal(join(&b, &a), 0);
        expect_wc(&b, recv, VERBS_SUCCESS);
        expect_wc(&a, send, VERBS_SUCCESS);
        end();
}

static void destroy_b(void)
{
        verbs_destroy(b.ep);
        b.ep = NULL;
}

static void fail_b(void)
{
        assert_int_equal((verbs_fail)(b.ep), 0);
}

static void remove_b(void)
{
        memory_remove(fabric, b.c);
}

static void close_b(void)
{
        forget(&b);
        verbs_close(b.c);
        b.d = NULL;
}

static void join_b_elsewhere(void)
{
        struct verbs_numbers other = a.own;

        other.qpn++;
        assert_int_equal(verbs_join(b.ep, &other, &param), 0);
}

/* The other side goes its own way, before it has joined and after. */
static void what_the_peer_does_shows_with_the_next_work(void **state)
{
        static void (*const ways[])(void) = { destroy_b, fail_b, remove_b, close_b,
                                              join_b_elsewhere };

        (void)state;
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
                start(NULL, false);
                assert_int_equal(join(&a, &b), 0);
                expect_event(&a, VERBS_ESTABLISHED);
                work(&a, 2, VERBS_SEND, &b, 0, 16);
                expect_no_wc(&a);
                ways[i]();
                expect_wc(&a, &a.wr[2], VERBS_RETRY_EXCEEDED);
                expect_quiet(&a);
                end();
        }
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) - 1; i++) {
                joined();
                ways[i]();
                expect_quiet(&a);
                expect_nobody(&a);
                end();
        }
}

static void wrong_numbers_reach_nobody(void **state)
{
        (void)state;
        for (unsigned kind = 0; kind < 4; kind++) {
                struct verbs_numbers wrong;

                start(NULL, false);
                wrong = kind == 3 ? a.own : b.own; /* itself */
                wrong.qpn ^= kind == 0 ? 0x800000 : 0;
                wrong.psn ^= kind == 1;
                wrong.gid[15] ^= kind == 2 ? 7 : 0;
                assert_int_equal(verbs_join(a.ep, &wrong, &param), 0);
                expect_event(&a, VERBS_ESTABLISHED);
                assert_int_equal(join(&b, &a), 0);
                expect_event(&b, VERBS_ESTABLISHED);
                expect_nobody(&a);
                expect_nobody(&b);
                expect_quiet(&a);
                end();
        }
}

static void numbers_that_were_good_once_are_not_given_again(void **state)
{
        struct verbs_numbers old;

        (void)state;
        start(NULL, false);
        old = b.own;
        forget(&b);
        begin(&b, "10.0.0.2", 'b');
        assert_int_not_equal(b.own.qpn, old.qpn);
        assert_int_equal(verbs_join(a.ep, &old, &param), 0);
        assert_int_equal(join(&b, &a), 0);
        expect_nobody(&a);
        expect_nobody(&b);
        end();
}

/* Two want the same one: it is the peer of the one that it names. */
static void a_third_one_is_left_out(void **state)
{
        static struct end c;

        (void)state;
        start(NULL, false);
        begin(&c, "10.0.0.1", 'c');
        assert_int_equal(join(&c, &b), 0);
        assert_int_equal(join(&a, &b), 0);
        work(&c, 0, VERBS_SEND, &b, 0, 16);
        expect_no_wc(&c);
        assert_int_equal(join(&b, &a), 0);
        expect_wc(&c, &c.wr[0], VERBS_RETRY_EXCEEDED);
        expect_send(&a, &b, 1);
        expect_send(&b, &a, 1);
        forget(&c);
        end();
}

static void a_join_is_for_once(void **state)
{
        (void)state;
        joined();
        assert_int_equal(join(&a, &b), -1);
        assert_int_equal(errno, EINVAL);
        expect_send(&a, &b, 0);
        end();
        start(NULL, false);
        fail_b();
        assert_int_equal(join(&b, &a), -1);
        assert_int_equal(errno, EINVAL);
        memory_refuse(fabric, MEMORY_CONNECT, 1);
        assert_int_equal(join(&a, &b), -1);
        assert_int_equal(errno, ENOMEM);
        end();
}

/* --- the end ------------------------------------------------------------------------------------ */

static void parting_is_ours_alone(void **state)
{
        struct verbs_wr *recv;

        (void)state;
        joined();
        recv = work(&a, WRS, VERBS_RECV, &b, 0, 64);
        assert_int_equal(verbs_disconnect(a.ep), 0);
        assert_int_equal(memory_qp_state(a.ep), MEMORY_QP_ERROR);
        expect_event(&a, VERBS_DISCONNECTED);
        expect_wc(&a, recv, VERBS_FLUSHED);
        assert_int_equal(verbs_disconnect(a.ep), 0);
        expect_quiet(&a); /* once, and no TIMEWAIT_EXIT */
        expect_quiet(&b);
        expect_nobody(&b);
        assert_int_equal(verbs_disconnect(b.ep), 0);
        expect_event(&b, VERBS_DISCONNECTED);
        end();
}

static void who_was_not_joined_has_nobody_to_part_from(void **state)
{
        (void)state;
        start(NULL, false);
        assert_int_equal(verbs_disconnect(a.ep), -1);
        assert_int_equal(errno, ENOTCONN);
        expect_quiet(&a);
        assert_int_equal(memory_qp_state(a.ep), MEMORY_QP_ERROR);
        end();
}

static void a_shared_queue_feeds_them(void **state)
{
        (void)state;
        start(NULL, false);
        forget(&b);
        attr.recv_wrs = 0;
        begin(&b, "10.0.0.2", 'b');
        assert_int_equal(join(&b, &a), 0);
        assert_int_equal(join(&a, &b), 0);
        expect_event(&b, VERBS_ESTABLISHED);
        expect_send(&a, &b, 0);
        assert_int_equal(verbs_disconnect(b.ep), 0);
        expect_event(&b, VERBS_DISCONNECTED);
        expect_event(&b, VERBS_LAST_WQE);
        end();
}

static void it_can_be_migrated(void **state)
{
        struct verbs_context *other;

        (void)state;
        start(NULL, false);
        other = b.c;
        forget(&a);
        a.ep = verbs_local(a.c, "10.0.0.1");
        assert_int_equal(verbs_migrate(a.ep, other), 0);
        prepare(&a);
        assert_ptr_equal(a.d, b.d);
        a.c = other;
        assert_int_equal(join(&a, &b), 0);
        expect_event(&a, VERBS_ESTABLISHED);
        a.d = NULL; /* b's */
        verbs_dereg(b.d, &a.mr);
        end();
}

/* --- any order ---------------------------------------------------------------------------------- */

struct tally { /* of one end, of one schedule */
        unsigned sent, posted, came, events[VERBS_PORT_UP + 1];
        bool tried, failed, ended;
};

static struct tally tally[2];

static void take(struct end *e, struct tally *t)
{
        struct verbs_event v;
        struct verbs_wc wc;

        if (chance(2) == 0 && verbs_event(e->c, &v)) {
                assert_ptr_equal(v.ep, e->ep);
                t->events[v.type]++;
                assert_true(v.type != VERBS_DISCONNECTED || t->events[VERBS_ESTABLISHED] == 1);
        }
        if (!e->ep || verbs_poll(e->d, &wc, 1) != 1)
                return;
        if (wc.wr->op == VERBS_RECV && wc.status == VERBS_SUCCESS)
                assert_int_equal(*(uint8_t *)wc.wr->sge[0].addr, t->came++); /* in order */
        else if (wc.wr->op == VERBS_SEND)
                t->sent += wc.status == VERBS_SUCCESS;
        t->failed |= wc.status != VERBS_SUCCESS;
        assert_true(wc.status == VERBS_SUCCESS || wc.status == VERBS_FLUSHED ||
                    wc.status == VERBS_RETRY_EXCEEDED);
}

static void post_some(struct end *e, struct end *to, struct tally *t)
{
        unsigned n = t->posted;

        if (!t->tried || t->ended || n == WRS)
                return;
        e->memory[2048 + n] = (uint8_t)n;
        work(e, n, VERBS_SEND, to, 2048 + n, 1);
        t->posted++;
}

static void end_one(struct end *e, struct tally *t)
{
        uint32_t how = chance(3);

        if (t->ended || chance(8) > 0)
                return;
        t->ended = true;
        if (how == 0) {
                assert_int_equal((verbs_fail)(e->ep), 0);
        } else if (how == 1) {
                assert_int_equal(verbs_disconnect(e->ep), t->tried ? 0 : -1);
        } else {
                verbs_destroy(e->ep);
                e->ep = NULL;
        }
}

static void step_one(struct end *e, struct end *to, struct tally *t)
{
        switch (chance(6)) {
        case 0:
                if (!t->tried && !t->ended) {
                        assert_int_equal(join(e, to), 0);
                        t->tried = true;
                }
                break;
        case 1:
                post_some(e, to, t);
                break;
        case 2:
                take(e, t);
                break;
        case 3:
                end_one(e, t);
                break;
        default:
                memory_step(fabric);
        }
}

static void take_the_rest(void)
{
        memory_idle(fabric);
        for (unsigned i = 0; i < 6 * WRS; i++) {
                take(&a, &tally[0]);
                take(&b, &tally[1]);
                memory_idle(fabric);
        }
}

/* What has come was sent; without an end of either side all of it has, and nothing has failed. */
static void judge(const struct tally *from, const struct tally *to)
{
        bool whole = from->tried && to->tried && !from->ended && !to->ended;

        assert_true(to->came <= from->posted);
        assert_true(to->ended || from->sent <= to->came);
        assert_true(from->events[VERBS_ESTABLISHED] <= from->tried);
        assert_true(from->events[VERBS_DISCONNECTED] <= from->ended);
        if (!whole)
                return;
        assert_int_equal(to->came, from->posted);
        assert_int_equal(from->events[VERBS_ESTABLISHED], 1);
        assert_false(from->failed);
}

static void any_order(void **state)
{
        unsigned whole = 0;

        (void)state;
        for (uint32_t run = 1; run <= SCHEDULES; run++) {
                seed = run * 2654435761u;
                start(NULL, true);
                memset(tally, 0, sizeof(tally));
                for (unsigned i = 0; i < WRS; i++) {
                        work(&a, WRS + i, VERBS_RECV, &b, i, 1);
                        work(&b, WRS + i, VERBS_RECV, &a, i, 1);
                }
                for (unsigned n = chance(STEPS); n > 0; n--) {
                        bool turn = chance(2);

                        step_one(turn ? &b : &a, turn ? &a : &b, &tally[turn]);
                }
                take_the_rest();
                judge(&tally[0], &tally[1]);
                judge(&tally[1], &tally[0]);
                whole += tally[0].came > 0 && tally[1].came > 0;
                end();
        }
        assert_true(whole > SCHEDULES / 50); /* not all of them end before they begin */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_queue_pair_has_numbers_of_its_own),
                cmocka_unit_test(the_gid_is_the_address),
                cmocka_unit_test(only_a_local_endpoint_with_a_queue_pair_has_numbers),
                cmocka_unit_test(where_no_device_is_there_is_no_endpoint),
                cmocka_unit_test(iwarp_has_no_such_thing),
                cmocka_unit_test(data_go_both_ways_in_whichever_order_they_join),
                cmocka_unit_test(reads_and_writes_move_data),
                cmocka_unit_test(a_wrong_key_fails_both),
                cmocka_unit_test(no_more_reads_than_agreed),
                cmocka_unit_test(rnr_retries_are_our_own),
                cmocka_unit_test(work_waits_for_the_peer_to_join),
                cmocka_unit_test(what_the_peer_does_shows_with_the_next_work),
                cmocka_unit_test(wrong_numbers_reach_nobody),
                cmocka_unit_test(numbers_that_were_good_once_are_not_given_again),
                cmocka_unit_test(a_third_one_is_left_out),
                cmocka_unit_test(a_join_is_for_once),
                cmocka_unit_test(parting_is_ours_alone),
                cmocka_unit_test(who_was_not_joined_has_nobody_to_part_from),
                cmocka_unit_test(a_shared_queue_feeds_them),
                cmocka_unit_test(it_can_be_migrated),
                cmocka_unit_test(any_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
