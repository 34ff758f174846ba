/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>

#include "pdu/io/loop.h"
#include "pdu/io/verbs/verbs_memory.h"

enum { ROUNDS = 2000, DEPTH = 8, BYTES = 4096 };

static struct verbs_provider *provider;

/* One thread's end: it sleeps on its descriptor and nothing else. */
struct end {
        struct verbs_context *c;
        struct verbs_domain *d;
        struct verbs_ep *ep;
        struct verbs_mr mr;
        uint8_t memory[DEPTH][BYTES];
        struct verbs_wr recv[DEPTH], send[DEPTH], data[DEPTH];
        unsigned done, sent, wakeups;
};

struct note { /* a SEND says where the sender's memory is */
        uint64_t addr;
        uint32_t key, round;
};

static void wait_for(struct end *e)
{
        struct pollfd p = { .events = POLLIN };

        assert_int_equal(verbs_fds(e->c, &p.fd, 1), 1);
        assert_int_equal(poll(&p, 1, 10000), 1);
        e->wakeups++;
}

static struct verbs_event next_event(struct end *e, enum verbs_event_type type)
{
        struct verbs_event v;

        while (!verbs_event(e->c, &v))
                wait_for(e);
        assert_int_equal(v.type, type);
        return v;
}

static int next_completion(struct end *e, struct verbs_wc *wc)
{
        for (;;) {
                if (verbs_poll(e->d, wc, 1) == 1)
                        return 1;
                assert_int_equal(verbs_arm(e->c), 0);
                if (verbs_poll(e->d, wc, 1) == 1)
                        return 1;
                wait_for(e);
        }
}

static void post_recv(struct end *e, unsigned i)
{
        struct verbs_wr *bad;

        e->recv[i] = (struct verbs_wr) { .op = VERBS_RECV,
                                         .n_sge = 1,
                                         .sge = { { e->memory[i], BYTES, e->mr.lkey } } };
        assert_int_equal(verbs_post_recv(e->ep, &e->recv[i], &bad), 0);
}

static void prepare(struct end *e)
{
        const struct verbs_qp_attr attr = { 4 * DEPTH, DEPTH, 64 };

        e->d = verbs_domain(e->ep);
        assert_int_equal(verbs_grow_cq(e->d, 8 * DEPTH), 0);
        assert_int_equal(verbs_qp(e->ep, &attr), 0);
        assert_int_equal(verbs_reg(e->d, e->memory, sizeof(e->memory),
                                   VERBS_REMOTE_READ | VERBS_REMOTE_WRITE, &e->mr),
                         0);
        for (unsigned i = 0; i < DEPTH; i++)
                post_recv(e, i);
}

static void finish(struct end *e)
{
        verbs_destroy(e->ep);
        verbs_dereg(e->d, &e->mr);
        verbs_close(e->c);
}

/* --- the side that is asked: it writes into the asker's memory, and answers --------------------- */

static void answer(struct end *e, unsigned i)
{
        struct note n;
        struct verbs_wr *bad;

        memcpy(&n, e->memory[i], sizeof(n));
        memset(e->memory[i] + 64, (int)(n.round & 0xff), 1024);
        e->data[i] = (struct verbs_wr) { .next = &e->send[i],
                                         .op = VERBS_WRITE,
                                         .n_sge = 1,
                                         .sge = { { e->memory[i] + 64, 1024, e->mr.lkey } },
                                         .remote = n.addr,
                                         .rkey = n.key };
        e->send[i] = (struct verbs_wr) { .op = VERBS_SEND,
                                         .flags = VERBS_SIGNALED | VERBS_INLINE,
                                         .n_sge = 1,
                                         .sge = { { &n.round, 4, 0 } } };
        assert_int_equal(verbs_post(e->ep, &e->data[i], &bad), 0);
}

static void serve_one(struct end *e)
{
        struct verbs_wc wc;

        next_completion(e, &wc);
        assert_int_equal(wc.status, VERBS_SUCCESS);
        if (wc.wr->op == VERBS_RECV) {
                answer(e, (unsigned)(wc.wr - e->recv));
                e->done++;
        } else { /* only now may its buffers be used again */
                post_recv(e, (unsigned)(wc.wr - e->send));
                e->sent++;
        }
}

static _Atomic uint16_t port;

static void *server(void *arg)
{
        static struct end e;
        struct verbs_conn_param param = { .reads_out = 4, .rnr_retry = 7 };
        struct verbs_listener *l;

        e = (struct end) { .c = verbs_open(provider) };
        l = verbs_listen(e.c, "127.0.0.1", "4420", 4);
        port = verbs_listener_port(l);
        e.ep = next_event(&e, VERBS_CONNECT_REQUEST).ep;
        prepare(&e);
        assert_int_equal(verbs_accept(e.ep, &param), 0);
        next_event(&e, VERBS_ESTABLISHED);
        while (e.done < ROUNDS || e.sent < ROUNDS)
                serve_one(&e);
        next_event(&e, VERBS_DISCONNECTED);
        assert_int_equal(verbs_disconnect(e.ep), 0);
        next_event(&e, VERBS_TIMEWAIT_EXIT);
        verbs_unlisten(l);
        finish(&e);
        return arg;
}

/* --- the side that asks ------------------------------------------------------------------------- */

static struct end asker;
static uint8_t target[DEPTH][1024];
static struct verbs_mr target_mr;

static void ask(unsigned i, uint32_t round)
{
        struct note n = { (uintptr_t)target[i], target_mr.rkey, round };
        struct verbs_wr *bad;

        asker.send[i] = (struct verbs_wr) { .op = VERBS_SEND,
                                            .flags = VERBS_SIGNALED | VERBS_INLINE,
                                            .n_sge = 1,
                                            .sge = { { &n, sizeof(n), 0 } } };
        assert_int_equal(verbs_post(asker.ep, &asker.send[i], &bad), 0);
}

static void one_at_a_time(uint32_t round)
{
        struct verbs_wc wc;
        bool answered = false, sent = false;
        uint32_t said;

        ask(0, round);
        while (!answered || !sent) {
                next_completion(&asker, &wc);
                assert_int_equal(wc.status, VERBS_SUCCESS);
                if (wc.wr->op == VERBS_SEND) {
                        sent = true;
                        continue;
                }
                answered = true;
                memcpy(&said, asker.memory[wc.wr - asker.recv], 4);
                assert_int_equal(said, round);
                for (unsigned i = 0; i < 1024; i += 341)
                        assert_int_equal(target[0][i], round & 0xff);
                post_recv(&asker, (unsigned)(wc.wr - asker.recv));
        }
}

static void connect_to(const char *trsvcid)
{
        struct verbs_conn_param param = { .reads_in = 4, .rnr_retry = 7 };

        asker = (struct end) { .c = verbs_open(provider) };
        asker.ep = verbs_resolve(asker.c, "127.0.0.1", trsvcid, 1000);
        next_event(&asker, VERBS_RESOLVED);
        prepare(&asker);
        assert_int_equal(verbs_reg(asker.d, target, sizeof(target), VERBS_REMOTE_WRITE, &target_mr),
                         0);
        assert_int_equal(verbs_connect(asker.ep, &param), 0);
        next_event(&asker, VERBS_ESTABLISHED);
}

static void two_threads_talk(void **state)
{
        struct memory_count left;
        pthread_t thread;

        (void)state;
        provider = verbs_memory_new(NULL);
        assert_int_equal(pthread_create(&thread, NULL, server, NULL), 0);
        while (port == 0)
                poll(NULL, 0, 1);
        connect_to("4420");
        for (uint32_t round = 0; round < ROUNDS; round++)
                one_at_a_time(round);
        assert_int_equal(verbs_disconnect(asker.ep), 0);
        next_event(&asker, VERBS_DISCONNECTED);
        verbs_dereg(asker.d, &target_mr);
        finish(&asker);
        pthread_join(thread, NULL);
        assert_true(asker.wakeups > 0);
        left = verbs_memory_leaks(provider);
        assert_int_equal(left.contexts + left.eps + left.qps + left.mrs + left.listeners, 0);
        assert_int_equal(left.posted, 0);
        verbs_memory_free(provider);
}

/* --- descriptors --------------------------------------------------------------------------------- */

static bool readable(struct verbs_context *c)
{
        struct pollfd p = { .events = POLLIN };

        assert_int_equal(verbs_fds(c, &p.fd, 1), 1);
        assert_int_equal(verbs_fds(c, NULL, 0), 0);
        return poll(&p, 1, 0) == 1;
}

static void join(struct end *a, struct end *b)
{
        struct verbs_conn_param param = { .rnr_retry = 7 };
        struct verbs_listener *l = verbs_listen(b->c, "::", "4420", 1);

        assert_false(readable(a->c));
        a->ep = verbs_resolve(a->c, "::1", "4420", 1000);
        assert_true(readable(a->c));
        next_event(a, VERBS_RESOLVED);
        assert_false(readable(a->c));
        prepare(a);
        assert_int_equal(verbs_connect(a->ep, &param), 0);
        assert_true(readable(b->c));
        b->ep = next_event(b, VERBS_CONNECT_REQUEST).ep;
        assert_false(readable(b->c));
        prepare(b);
        assert_int_equal(verbs_accept(b->ep, &param), 0);
        next_event(a, VERBS_ESTABLISHED);
        next_event(b, VERBS_ESTABLISHED);
        verbs_unlisten(l);
}

static void the_descriptor_says_when(void **state)
{
        struct end *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
        struct verbs_wc wc;
        struct verbs_wr *bad, *w = &a->send[0];

        (void)state;
        provider = verbs_memory_new(NULL);
        a->c = verbs_open(provider);
        b->c = verbs_open(provider);
        join(a, b);
        *w = (struct verbs_wr) { .op = VERBS_SEND };
        assert_int_equal(verbs_post(a->ep, w, &bad), 0);
        assert_false(readable(b->c)); /* nobody asked */
        verbs_arm(b->c);
        assert_false(readable(b->c)); /* what is there already wakes nobody */
        assert_int_equal(verbs_poll(b->d, &wc, 1), 1);
        a->send[1] = *w;
        assert_int_equal(verbs_post(a->ep, &a->send[1], &bad), 0);
        assert_true(readable(b->c));
        assert_int_equal(verbs_poll(b->d, &wc, 1), 1);
        assert_true(readable(b->c));
        verbs_arm(b->c);
        assert_false(readable(b->c));
        finish(a);
        finish(b);
        verbs_memory_free(provider);
        free(a);
        free(b);
}

static void a_join_makes_it_readable(void **state)
{
        struct end *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
        struct verbs_conn_param param = { .rnr_retry = 7 };
        struct verbs_numbers an, bn;
        struct verbs_wc wc;
        struct verbs_wr *bad, *w = &a->send[0];

        (void)state;
        provider = verbs_memory_new(NULL);
        a->c = verbs_open(provider);
        b->c = verbs_open(provider);
        a->ep = verbs_local(a->c, "127.0.0.1");
        b->ep = verbs_local(b->c, "127.0.0.2");
        prepare(a);
        prepare(b);
        assert_int_equal(verbs_numbers(a->ep, &an) + verbs_numbers(b->ep, &bn), 0);
        assert_false(readable(a->c));
        assert_int_equal(verbs_join(a->ep, &bn, &param), 0);
        assert_true(readable(a->c));
        assert_false(readable(b->c));
        next_event(a, VERBS_ESTABLISHED);
        *w = (struct verbs_wr) { .op = VERBS_SEND };
        assert_int_equal(verbs_post(a->ep, w, &bad), 0); /* waits for b */
        verbs_arm(b->c);
        assert_int_equal(verbs_join(b->ep, &an, &param), 0);
        assert_true(readable(b->c));
        next_event(b, VERBS_ESTABLISHED);
        assert_true(readable(b->c)); /* for the receive */
        assert_int_equal(verbs_poll(b->d, &wc, 1), 1);
        assert_int_equal(wc.status, VERBS_SUCCESS);
        assert_int_equal(verbs_disconnect(a->ep), 0);
        next_event(a, VERBS_DISCONNECTED);
        finish(a);
        finish(b);
        verbs_memory_free(provider);
        free(a);
        free(b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(two_threads_talk),
                cmocka_unit_test(the_descriptor_says_when),
                cmocka_unit_test(a_join_makes_it_readable),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
