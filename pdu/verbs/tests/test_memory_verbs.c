/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pdu/verbs/memory_verbs.h"

enum { ALL_RIGHTS = VERBS_REMOTE_READ | VERBS_REMOTE_WRITE | VERBS_WINDOWS, BYTES = 8192 };

struct side {
        struct verbs_context *c;
        struct verbs_domain *d;
        struct verbs_ep *ep;
        struct verbs_mr mr;
        uint8_t memory[BYTES];
        struct verbs_wr wr[64];
};

static struct memory_fabric *fabric;
static struct verbs_listener *listener;
static struct side host, ctrl;
static uint32_t seed;
static struct verbs_qp_attr qp_attr;
static struct verbs_conn_param host_param, ctrl_param;

static uint32_t xorshift(void *user)
{
        (void)user;
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        return seed;
}

static struct verbs_event expect_event(struct verbs_context *c, enum verbs_event_type type)
{
        static struct verbs_event e;

        memory_idle(fabric);
        assert_true(verbs_event(c, &e));
        assert_string_equal(verbs_event_name(e.type), verbs_event_name(type));
        return e;
}

static void expect_quiet(struct verbs_context *c)
{
        struct verbs_event e;

        memory_idle(fabric);
        assert_false(verbs_event(c, &e));
}

static struct verbs_wc expect_wc(struct side *s, const struct verbs_wr *wr,
                                 enum verbs_status status)
{
        struct verbs_wc wc;

        memory_idle(fabric);
        assert_int_equal(verbs_poll(s->d, &wc, 1), 1);
        assert_ptr_equal(wc.wr, wr);
        assert_string_equal(verbs_status_name(wc.status), verbs_status_name(status));
        return wc;
}

static void expect_no_wc(struct side *s)
{
        struct verbs_wc wc;

        memory_idle(fabric);
        assert_int_equal(verbs_poll(s->d, &wc, 1), 0);
}

/* --- setting up -------------------------------------------------------------------------------- */

static void fabric_new(const struct memory_caps *caps, bool random)
{
        struct memory_config cfg = { .caps = caps, .random = random ? xorshift : NULL };

        fabric = memory_fabric_new(&cfg);
        host.c = verbs_open(memory_provider(fabric));
        ctrl.c = verbs_open(memory_provider(fabric));
        listener = verbs_listen(ctrl.c, "10.0.0.2", "4420", 8);
        assert_non_null(listener);
        qp_attr = (struct verbs_qp_attr) { 16, 16, 64 };
        host_param = (struct verbs_conn_param) { "hello", 5, 4, 0, 7, 7 };
        ctrl_param = (struct verbs_conn_param) { "welcome", 7, 0, 4, 7, 7 };
        memset(host.memory, 'h', BYTES);
        memset(ctrl.memory, 'c', BYTES);
}

static void prepare(struct side *s)
{
        s->d = verbs_domain(s->ep);
        assert_non_null(s->d);
        if (qp_attr.recv_wrs == 0)
                assert_int_equal(verbs_make_srq(s->d, 16), 0);
        assert_int_equal(verbs_grow_cq(s->d, 256), 0);
        assert_int_equal(verbs_qp(s->ep, &qp_attr), 0);
        assert_int_equal(verbs_reg(s->d, s->memory, BYTES, ALL_RIGHTS, &s->mr), 0);
}

static void request(void)
{
        host.ep = verbs_resolve(host.c, "10.0.0.2", "4420", 1000);
        assert_non_null(host.ep);
        assert_ptr_equal(expect_event(host.c, VERBS_RESOLVED).ep, host.ep);
        prepare(&host);
        assert_int_equal(verbs_connect(host.ep, &host_param), 0);
        ctrl.ep = expect_event(ctrl.c, VERBS_CONNECT_REQUEST).ep;
        prepare(&ctrl);
}

static void connected(void)
{
        request();
        assert_int_equal(verbs_accept(ctrl.ep, &ctrl_param), 0);
        expect_event(host.c, VERBS_ESTABLISHED);
        expect_event(ctrl.c, VERBS_ESTABLISHED);
}

static void start(const struct memory_caps *caps)
{
        fabric_new(caps, false);
        connected();
}

static void forget(struct side *s)
{
        struct verbs_wc wc;

        if (s->ep)
                verbs_destroy(s->ep);
        s->ep = NULL;
        if (s->mr.own)
                verbs_dereg(s->d, &s->mr);
        while (s->d && verbs_poll(s->d, &wc, 1) > 0)
                assert_null(wc.ep);
        s->d = NULL;
}

/* Everything is given back: nothing is left but what an SRQ still has. */
static void end(void)
{
        forget(&host);
        forget(&ctrl);
        if (listener)
                verbs_unlisten(listener);
        listener = NULL;
        if (qp_attr.recv_wrs > 0)
                assert_int_equal(memory_leaked(fabric), 0);
        memory_fabric_free(fabric);
}

/* --- work requests ----------------------------------------------------------------------------- */

static struct verbs_wr *wr(struct side *s, unsigned i, enum verbs_op op, size_t at, uint32_t len)
{
        s->wr[i] = (struct verbs_wr) { .op = op,
                                       .flags = VERBS_SIGNALED,
                                       .n_sge = 1,
                                       .sge = { { s->memory + at, len, s->mr.lkey } } };
        return &s->wr[i];
}

static struct verbs_wr *rdma(struct side *s, unsigned i, enum verbs_op op, struct side *to,
                             size_t at, uint32_t len)
{
        struct verbs_wr *w = wr(s, i, op, at, len);

        w->remote = (uintptr_t)to->memory + at;
        w->rkey = to->mr.rkey;
        return w;
}

static void post(struct side *s, struct verbs_wr *w)
{
        struct verbs_wr *bad;

        assert_int_equal(verbs_post(s->ep, w, &bad), 0);
        assert_null(bad);
}

static struct verbs_wr *post_recv(struct side *s, unsigned i, size_t at, uint32_t len)
{
        struct verbs_wr *w = wr(s, i, VERBS_RECV, at, len), *bad;

        if (qp_attr.recv_wrs > 0)
                assert_int_equal(verbs_post_recv(s->ep, w, &bad), 0);
        else
                assert_int_equal(verbs_post_srq(s->d, w, &bad), 0);
        return w;
}

/* Requester's completion, and the end of both queue pairs that it means. */
static void expect_both_fail(struct verbs_wr *w, enum verbs_status status)
{
        struct verbs_event e;

        post(&ctrl, w);
        expect_wc(&ctrl, w, status);
        assert_int_equal(memory_qp_state(ctrl.ep), MEMORY_QP_ERROR);
        e = expect_event(host.c, VERBS_QP_ERROR);
        assert_ptr_equal(e.ep, host.ep);
        assert_int_equal(memory_qp_state(host.ep), MEMORY_QP_ERROR);
        end();
}

/* --- connecting -------------------------------------------------------------------------------- */

static void private_data_go_both_ways(void **state)
{
        struct verbs_event e;
        char local[64], peer[80];

        (void)state;
        fabric_new(NULL, false);
        host.ep = verbs_resolve(host.c, "10.0.0.2", "4420", 1000);
        expect_event(host.c, VERBS_RESOLVED);
        prepare(&host);
        verbs_set_user(host.ep, &host);
        assert_ptr_equal(verbs_user(host.ep), &host);
        assert_int_equal(verbs_connect(host.ep, &host_param), 0);
        e = expect_event(ctrl.c, VERBS_CONNECT_REQUEST);
        assert_ptr_equal(e.listener, listener);
        assert_int_equal(e.param.len, 56);
        assert_memory_equal(e.data, "hello\0\0", 7);
        assert_int_equal(e.param.reads_in, 4);
        ctrl.ep = e.ep;
        prepare(&ctrl);
        assert_int_equal(verbs_accept(ctrl.ep, &ctrl_param), 0);
        expect_quiet(ctrl.c); /* until the connector has seen the reply */
        e = expect_event(host.c, VERBS_ESTABLISHED);
        assert_int_equal(e.param.len, 196);
        assert_memory_equal(e.data, "welcome\0", 8);
        assert_int_equal(e.param.reads_out, 4);
        expect_event(ctrl.c, VERBS_ESTABLISHED);
        verbs_addresses(host.ep, local, peer, sizeof(local));
        assert_string_equal(peer, "10.0.0.2:4420");
        verbs_addresses(ctrl.ep, local, NULL, sizeof(local));
        assert_string_equal(local, "10.0.0.2");
        assert_int_equal(memory_leaks(fabric).eps, 2);
        assert_int_equal(memory_leaks(fabric).qps, 2);
        end();
}

static void data_are_not_padded_where_they_are_not(void **state)
{
        struct memory_caps caps;
        struct verbs_event e;

        (void)state;
        memory_caps_default(&caps);
        caps.no_padding = true;
        fabric_new(&caps, false);
        request();
        assert_int_equal(verbs_reject(ctrl.ep, "no", 2), 0);
        e = expect_event(host.c, VERBS_REJECTED);
        assert_int_equal(e.param.len, 2);
        assert_int_equal(e.reason, 28);
        assert_memory_equal(e.data, "no", 2);
        end();
}

static void no_more_reads_are_offered_than_the_device_can_do(void **state)
{
        struct memory_caps caps;
        struct verbs_event e;

        (void)state;
        memory_caps_default(&caps);
        caps.device.reads_in = 2;
        caps.device.reads_out = 1;
        fabric_new(&caps, false);
        host_param.reads_out = 255;
        host.ep = verbs_resolve(host.c, "10.0.0.2", "4420", 1000);
        expect_event(host.c, VERBS_RESOLVED);
        prepare(&host);
        assert_int_equal(verbs_connect(host.ep, &host_param), 0);
        e = expect_event(ctrl.c, VERBS_CONNECT_REQUEST);
        assert_int_equal(e.param.reads_in, 2);
        assert_int_equal(e.param.reads_out, 1);
        verbs_destroy(e.ep);
        end();
}

static void nobody_listens(void **state)
{
        struct verbs_event e;

        (void)state;
        fabric_new(NULL, false);
        verbs_unlisten(listener);
        listener = NULL;
        host.ep = verbs_resolve(host.c, "10.0.0.2", "4420", 1000);
        expect_event(host.c, VERBS_RESOLVED);
        prepare(&host);
        assert_int_equal(verbs_connect(host.ep, &host_param), 0);
        e = expect_event(host.c, VERBS_REJECTED);
        assert_int_equal(e.reason, 8);
        assert_int_equal(e.param.len, 0);
        end();
}

static void listeners_have_ports(void **state)
{
        struct verbs_listener *a, *b;

        (void)state;
        fabric_new(NULL, false);
        assert_int_equal(verbs_listener_port(listener), 4420);
        assert_null(verbs_listen(host.c, "10.0.0.2", "4420", 1));
        assert_int_equal(errno, EADDRINUSE);
        assert_null(verbs_listen(host.c, "10.0.0.2", "http", 1));
        assert_null(verbs_listen(host.c, "example.org", "4420", 1));
        assert_int_equal(errno, ENXIO);
        a = verbs_listen(host.c, "[fd00::1]", "4420", 1);
        assert_non_null(a);
        assert_null(verbs_listen(host.c, "fd00::1", "4420", 1));
        verbs_unlisten(a);
        a = verbs_listen(host.c, "0.0.0.0", "0", 1);
        b = verbs_listen(host.c, "0.0.0.0", "0", 1);
        assert_int_not_equal(verbs_listener_port(a), 0);
        assert_int_not_equal(verbs_listener_port(a), verbs_listener_port(b));
        assert_int_equal(memory_leaks(fabric).listeners, 3);
        verbs_unlisten(a);
        verbs_unlisten(b);
        end();
}

static void unlisten_rejects_those_who_wait(void **state)
{
        (void)state;
        for (int arrived = 0; arrived < 2; arrived++) {
                fabric_new(NULL, false);
                host.ep = verbs_resolve(host.c, "10.0.0.2", "4420", 1000);
                expect_event(host.c, VERBS_RESOLVED);
                prepare(&host);
                assert_int_equal(verbs_connect(host.ep, &host_param), 0);
                if (arrived)
                        memory_idle(fabric);
                verbs_unlisten(listener);
                listener = NULL;
                expect_quiet(ctrl.c);
                assert_int_equal(expect_event(host.c, VERBS_REJECTED).reason, 28);
                end();
        }
}

static void the_backlog_is_limited(void **state)
{
        struct verbs_ep *ep[9];
        struct verbs_event e;

        (void)state;
        fabric_new(NULL, false);
        for (unsigned i = 0; i < 9; i++) {
                ep[i] = verbs_resolve(host.c, "10.0.0.2", "4420", 1000);
                expect_event(host.c, VERBS_RESOLVED);
                verbs_qp(ep[i], &qp_attr);
                assert_int_equal(verbs_connect(ep[i], &host_param), 0);
        }
        e = expect_event(host.c, VERBS_REJECTED);
        assert_ptr_equal(e.ep, ep[8]);
        assert_int_equal(e.reason, 1);
        for (unsigned i = 0; i < 9; i++)
                verbs_destroy(ep[i]);
        end();
}

static void who_gives_up_is_missed(void **state)
{
        (void)state;
        fabric_new(NULL, false);
        request();
        verbs_destroy(host.ep);
        host.ep = NULL;
        expect_event(ctrl.c, VERBS_REJECTED);
        assert_int_equal(verbs_accept(ctrl.ep, &ctrl_param), -1);
        end();
}

static void a_request_that_is_destroyed_is_rejected(void **state)
{
        (void)state;
        fabric_new(NULL, false);
        request();
        verbs_destroy(ctrl.ep);
        ctrl.ep = NULL;
        expect_event(host.c, VERBS_REJECTED);
        end();
}

static void events_move_with_the_endpoint(void **state)
{
        struct verbs_context *other;
        struct verbs_ep *ep;

        (void)state;
        fabric_new(NULL, false);
        other = verbs_open(memory_provider(fabric));
        host.ep = verbs_resolve(host.c, "10.0.0.2", "4420", 1000);
        expect_event(host.c, VERBS_RESOLVED);
        prepare(&host);
        assert_int_equal(verbs_connect(host.ep, &host_param), 0);
        ep = expect_event(ctrl.c, VERBS_CONNECT_REQUEST).ep;
        memory_inject(ep, VERBS_ADDR_CHANGE, 0);
        assert_int_equal(verbs_migrate(ep, other), 0);
        expect_quiet(ctrl.c);
        assert_ptr_equal(expect_event(other, VERBS_ADDR_CHANGE).ep, ep);
        assert_non_null(verbs_domain(ep));
        assert_int_equal(verbs_migrate(ep, ctrl.c), 0); /* a domain of each */
        assert_int_equal(verbs_qp(ep, &qp_attr), 0);
        assert_int_equal(verbs_migrate(ep, other), -1);
        verbs_destroy(ep);
        expect_event(host.c, VERBS_REJECTED);
        verbs_close(other);
        end();
}

/* --- parting ----------------------------------------------------------------------------------- */

static void parting_is_answered(void **state)
{
        (void)state;
        start(NULL);
        assert_int_equal(verbs_disconnect(host.ep), 0);
        expect_quiet(host.c);
        expect_event(ctrl.c, VERBS_DISCONNECTED);
        assert_int_equal(memory_qp_state(ctrl.ep), MEMORY_QP_LIVE);
        assert_int_equal(verbs_disconnect(ctrl.ep), 0);
        expect_event(host.c, VERBS_DISCONNECTED);
        expect_event(host.c, VERBS_TIMEWAIT_EXIT);
        expect_event(ctrl.c, VERBS_TIMEWAIT_EXIT);
        assert_int_equal(verbs_disconnect(ctrl.ep), 0);
        expect_quiet(host.c);
        expect_quiet(ctrl.c);
        end();
}

static void both_part_at_once(void **state)
{
        (void)state;
        start(NULL);
        assert_int_equal(verbs_disconnect(host.ep), 0);
        assert_int_equal(verbs_disconnect(ctrl.ep), 0);
        expect_event(host.c, VERBS_DISCONNECTED);
        expect_event(ctrl.c, VERBS_DISCONNECTED);
        expect_event(host.c, VERBS_TIMEWAIT_EXIT);
        expect_event(ctrl.c, VERBS_TIMEWAIT_EXIT);
        expect_quiet(host.c);
        expect_quiet(ctrl.c);
        end();
}

static void destroying_hangs_up(void **state)
{
        (void)state;
        start(NULL);
        verbs_destroy(ctrl.ep);
        ctrl.ep = NULL;
        expect_event(host.c, VERBS_DISCONNECTED);
        assert_int_equal(verbs_disconnect(host.ep), 0);
        expect_event(host.c, VERBS_TIMEWAIT_EXIT);
        end();
}

static void destroying_answers(void **state)
{
        (void)state;
        start(NULL);
        verbs_disconnect(host.ep);
        expect_event(ctrl.c, VERBS_DISCONNECTED);
        verbs_destroy(ctrl.ep);
        ctrl.ep = NULL;
        expect_event(host.c, VERBS_DISCONNECTED);
        end();
}

static void messages_are_lost_and_late(void **state)
{
        (void)state;
        start(NULL);
        memory_lose_cm(ctrl.ep, 1);
        memory_hold_cm(host.ep, true);
        verbs_disconnect(host.ep);
        expect_quiet(ctrl.c);
        verbs_disconnect(ctrl.ep);
        expect_quiet(host.c);
        memory_hold_cm(host.ep, false);
        expect_event(host.c, VERBS_DISCONNECTED);
        end();
}

static void disconnect_before_the_connection(void **state)
{
        (void)state;
        fabric_new(NULL, false);
        request();
        assert_int_equal(verbs_disconnect(host.ep), -1);
        assert_int_equal(errno, ENOTCONN);
        assert_int_equal(verbs_accept(ctrl.ep, &ctrl_param), 0);
        assert_int_equal(verbs_disconnect(ctrl.ep), 0); /* reply and DREQ, one after the other */
        expect_event(host.c, VERBS_ESTABLISHED);
        expect_event(host.c, VERBS_DISCONNECTED);
        verbs_disconnect(host.ep);
        expect_event(ctrl.c, VERBS_DISCONNECTED);
        end();
}

/* --- data -------------------------------------------------------------------------------------- */

static void sends_arrive(void **state)
{
        struct verbs_wr *rx, *tx;
        struct verbs_wc wc;

        (void)state;
        start(NULL);
        rx = post_recv(&ctrl, 0, 0, 128);
        tx = wr(&host, 0, VERBS_SEND, 64, 10);
        tx->n_sge = 2;
        tx->sge[1] = (struct verbs_sge) { host.memory + 256, 20, host.mr.lkey };
        memset(host.memory + 256, '2', 20);
        post(&host, tx);
        wc = expect_wc(&ctrl, rx, VERBS_SUCCESS);
        assert_int_equal(wc.bytes, 30);
        assert_ptr_equal(wc.ep, ctrl.ep);
        assert_false(wc.invalidated);
        assert_memory_equal(ctrl.memory, "hhhhhhhhhh22222222222222222222cc", 32);
        expect_wc(&host, tx, VERBS_SUCCESS);
        end();
}

static void inline_data_are_taken_at_once(void **state)
{
        struct verbs_wr *tx, *bad;
        uint8_t unregistered[65] = "inline";

        (void)state;
        start(NULL);
        post_recv(&ctrl, 0, 0, 128);
        tx = wr(&host, 0, VERBS_SEND, 0, 0);
        tx->flags |= VERBS_INLINE;
        tx->sge[0] = (struct verbs_sge) { unregistered, 6, 0 };
        post(&host, tx);
        memset(unregistered, 0, sizeof(unregistered));
        expect_wc(&host, tx, VERBS_SUCCESS);
        assert_memory_equal(ctrl.memory, "inlinec", 7);
        tx->sge[0].len = 65;
        assert_int_equal(verbs_post(host.ep, tx, &bad), -1);
        assert_int_equal(errno, EINVAL);
        assert_ptr_equal(bad, tx);
        end();
}

static void reads_and_writes_move_data(void **state)
{
        struct verbs_wr *w;

        (void)state;
        start(NULL);
        w = rdma(&ctrl, 0, VERBS_READ, &host, 100, 50);
        post(&ctrl, w);
        expect_wc(&ctrl, w, VERBS_SUCCESS);
        assert_memory_equal(ctrl.memory + 99, "chh", 3);
        assert_memory_equal(ctrl.memory + 148, "hhc", 3);
        w = rdma(&ctrl, 0, VERBS_WRITE, &host, 1000, 2);
        post(&ctrl, w);
        expect_wc(&ctrl, w, VERBS_SUCCESS);
        assert_memory_equal(host.memory + 999, "hcch", 4);
        w = rdma(&ctrl, 0, VERBS_WRITE, &host, 0, 0); /* nothing: no key is looked at */
        w->rkey = 1;
        post(&ctrl, w);
        expect_wc(&ctrl, w, VERBS_SUCCESS);
        end();
}

static void unsigned_ones_hold_their_place(void **state)
{
        struct verbs_wr *w, *bad;

        (void)state;
        start(NULL);
        for (unsigned i = 0; i < 16; i++) {
                w = rdma(&ctrl, i, VERBS_WRITE, &host, i, 1);
                w->flags = i == 15 ? VERBS_SIGNALED : 0;
                post(&ctrl, w);
        }
        memory_idle(fabric);
        assert_int_equal(memory_leaks(fabric).posted, 16);
        w = rdma(&ctrl, 16, VERBS_WRITE, &host, 0, 1);
        assert_int_equal(verbs_post(ctrl.ep, w, &bad), -1);
        assert_int_equal(errno, ENOMEM);
        assert_ptr_equal(bad, w);
        expect_wc(&ctrl, &ctrl.wr[15], VERBS_SUCCESS);
        assert_int_equal(memory_leaks(fabric).posted, 0);
        post(&ctrl, w);
        expect_wc(&ctrl, w, VERBS_SUCCESS);
        expect_no_wc(&ctrl);
        end();
}

static void a_chain_stops_at_the_bad_one(void **state)
{
        struct verbs_wr *bad;

        (void)state;
        start(NULL);
        for (unsigned i = 0; i < 3; i++) {
                rdma(&ctrl, i, VERBS_WRITE, &host, 0, 1)->next = &ctrl.wr[i + 1];
                wr(&ctrl, 10 + i, VERBS_RECV, 0, 16)->next = &ctrl.wr[11 + i];
        }
        wr(&ctrl, 3, VERBS_SEND, 0, 1)->n_sge = 3;
        wr(&ctrl, 13, VERBS_SEND, 0, 1);
        assert_int_equal(verbs_post(ctrl.ep, ctrl.wr, &bad), -1);
        assert_ptr_equal(bad, &ctrl.wr[3]);
        assert_int_equal(verbs_post_recv(ctrl.ep, &ctrl.wr[10], &bad), -1);
        assert_ptr_equal(bad, &ctrl.wr[13]);
        for (unsigned i = 0; i < 3; i++)
                expect_wc(&ctrl, &ctrl.wr[i], VERBS_SUCCESS);
        assert_int_equal(memory_leaks(fabric).posted, 3);
        end();
}

static void what_was_written_is_there_before_the_send(void **state)
{
        struct verbs_wc wc[4];

        (void)state;
        for (uint32_t s = 1; s < 300; s++) {
                seed = s;
                fabric_new(NULL, true);
                connected();
                post_recv(&host, 0, 4096, 16);
                rdma(&ctrl, 0, VERBS_WRITE, &host, 0, 512)->next = &ctrl.wr[1];
                rdma(&ctrl, 1, VERBS_WRITE, &host, 512, 512)->next = &ctrl.wr[2];
                wr(&ctrl, 2, VERBS_SEND, 0, 16);
                post(&ctrl, &ctrl.wr[0]);
                while (verbs_poll(host.d, wc, 4) == 0)
                        assert_true(memory_step(fabric));
                for (unsigned i = 0; i < 1024; i++)
                        assert_int_equal(host.memory[i], 'c');
                for (unsigned i = 0; i < 3; i++)
                        expect_wc(&ctrl, &ctrl.wr[i], VERBS_SUCCESS);
                end();
        }
}

/* The memory that a READ fills is sent on by the SEND after it. */
static bool send_passes_read(uint32_t s, uint8_t flags)
{
        bool passed;

        seed = s;
        fabric_new(NULL, true);
        connected();
        post_recv(&host, 0, 4096, 16);
        rdma(&ctrl, 0, VERBS_READ, &host, 0, 16)->next = &ctrl.wr[1];
        wr(&ctrl, 1, VERBS_SEND, 0, 16)->flags |= flags;
        post(&ctrl, &ctrl.wr[0]);
        expect_wc(&host, &host.wr[0], VERBS_SUCCESS);
        expect_wc(&ctrl, &ctrl.wr[0], VERBS_SUCCESS); /* in order nevertheless */
        expect_wc(&ctrl, &ctrl.wr[1], VERBS_SUCCESS);
        passed = host.memory[4096] == 'c';
        end();
        return passed;
}

static void a_send_passes_reads_without_fence(void **state)
{
        unsigned passed = 0;

        (void)state;
        for (uint32_t s = 1; s < 100; s++) {
                passed += send_passes_read(s, 0);
                assert_false(send_passes_read(s, VERBS_FENCE));
        }
        assert_in_range(passed, 1, 98);
}

static void completions_of_different_queues_race(void **state)
{
        struct verbs_wc wc[2];
        unsigned send_first = 0;

        (void)state;
        for (uint32_t s = 1; s < 100; s++) {
                seed = s;
                fabric_new(NULL, true);
                connected();
                post_recv(&host, 0, 0, 64);
                post_recv(&ctrl, 0, 0, 64);
                post(&host, wr(&host, 1, VERBS_SEND, 0, 8));
                memory_step(fabric);
                post(&ctrl, wr(&ctrl, 1, VERBS_SEND, 0, 8));
                memory_idle(fabric);
                assert_int_equal(verbs_poll(host.d, wc, 2), 2);
                send_first += wc[0].wr->op == VERBS_SEND;
                end();
        }
        assert_in_range(send_first, 5, 95);
}

/* --- keys -------------------------------------------------------------------------------------- */

static void a_wrong_key_fails_both(void **state)
{
        struct verbs_wr *w;

        (void)state;
        start(NULL);
        w = rdma(&ctrl, 0, VERBS_WRITE, &host, 0, 16);
        w->rkey++;
        expect_both_fail(w, VERBS_REMOTE_ACCESS);
        start(NULL);
        w = rdma(&ctrl, 0, VERBS_READ, &host, 0, 16);
        w->rkey = ctrl.mr.rkey; /* of another protection domain */
        expect_both_fail(w, VERBS_REMOTE_ACCESS);
        start(NULL);
        w = rdma(&ctrl, 0, VERBS_READ, &host, 0, 16);
        w->rkey = host.mr.lkey;
        expect_both_fail(w, VERBS_REMOTE_ACCESS);
}

static void ranges_are_checked(void **state)
{
        struct verbs_wr *w;

        (void)state;
        start(NULL);
        w = rdma(&ctrl, 0, VERBS_WRITE, &host, BYTES - 16, 16);
        post(&ctrl, w);
        expect_wc(&ctrl, w, VERBS_SUCCESS);
        w->remote++;
        expect_both_fail(w, VERBS_REMOTE_ACCESS);
        start(NULL);
        w = rdma(&ctrl, 0, VERBS_WRITE, &host, 0, 16);
        w->remote--;
        expect_both_fail(w, VERBS_REMOTE_ACCESS);
        start(NULL);
        w = rdma(&ctrl, 0, VERBS_WRITE, &host, 0, 16);
        w->remote = UINT64_MAX - 7;
        expect_both_fail(w, VERBS_REMOTE_ACCESS);
}

static void rights_are_checked(void **state)
{
        static const enum verbs_op ops[] = { VERBS_READ, VERBS_WRITE };
        static const unsigned rights[] = { VERBS_REMOTE_WRITE, VERBS_REMOTE_READ };

        (void)state;
        for (unsigned i = 0; i < 2; i++) {
                start(NULL);
                verbs_dereg(host.d, &host.mr);
                assert_int_equal(verbs_reg(host.d, host.memory, BYTES, rights[i], &host.mr), 0);
                expect_both_fail(rdma(&ctrl, 0, ops[i], &host, 0, 16), VERBS_REMOTE_ACCESS);
        }
}

static void a_key_is_never_given_again(void **state)
{
        struct verbs_wr *w;
        uint32_t old[100];

        (void)state;
        start(NULL);
        for (unsigned i = 0; i < 100; i++) {
                old[i] = host.mr.rkey;
                verbs_dereg(host.d, &host.mr);
                verbs_reg(host.d, host.memory, BYTES, ALL_RIGHTS, &host.mr);
                for (unsigned k = 0; k <= i; k++)
                        assert_int_not_equal(host.mr.rkey, old[k]);
                assert_int_not_equal(host.mr.rkey, old[i] + 1);
                assert_int_not_equal(host.mr.rkey, host.mr.lkey);
        }
        w = rdma(&ctrl, 0, VERBS_READ, &host, 0, 16);
        w->rkey = old[99];
        expect_both_fail(w, VERBS_REMOTE_ACCESS);
}

static void own_memory_is_checked_too(void **state)
{
        struct verbs_wr *w;

        (void)state;
        start(NULL);
        w = rdma(&ctrl, 0, VERBS_WRITE, &host, 0, 16);
        w->sge[0].lkey = ctrl.mr.rkey;
        post(&ctrl, w);
        expect_wc(&ctrl, w, VERBS_LOCAL_PROTECTION);
        assert_int_equal(memory_qp_state(host.ep), MEMORY_QP_LIVE);
        end();
        start(NULL);
        post_recv(&host, 0, 0, 16);
        w = wr(&ctrl, 0, VERBS_SEND, BYTES - 8, 16);
        post(&ctrl, w);
        expect_wc(&ctrl, w, VERBS_LOCAL_PROTECTION);
        end();
}

static void windows_come_and_go(void **state)
{
        struct verbs_window win;
        struct verbs_wr *w;

        (void)state;
        start(NULL);
        assert_int_equal(verbs_make_window(host.d, &win), 0);
        win.mr = &host.mr;
        win.addr = host.memory + 512;
        win.len = 256;
        win.access = VERBS_REMOTE_READ;
        for (unsigned i = 0; i < 3; i++) {
                w = wr(&host, 0, VERBS_BIND, 0, 0);
                w->n_sge = 0;
                w->window = &win;
                post(&host, w);
                expect_wc(&host, w, VERBS_SUCCESS);
                w = rdma(&ctrl, 0, VERBS_READ, &host, 512, 256);
                w->rkey = win.rkey;
                post(&ctrl, w);
                expect_wc(&ctrl, w, VERBS_SUCCESS);
                w = wr(&host, 0, VERBS_INVALIDATE, 0, 0);
                w->n_sge = 0;
                w->rkey = win.rkey;
                post(&host, w);
                expect_wc(&host, w, VERBS_SUCCESS);
                verbs_window_next(&win);
        }
        w = rdma(&ctrl, 0, VERBS_READ, &host, 512, 256);
        w->rkey = win.rkey; /* not bound yet */
        assert_int_equal(memory_leaks(fabric).windows, 1);
        post(&ctrl, w);
        expect_wc(&ctrl, w, VERBS_REMOTE_ACCESS);
        verbs_drop_window(host.d, &win);
        end();
}

static void bound_window(struct verbs_window *win)
{
        struct verbs_wr *w = wr(&host, 9, VERBS_BIND, 0, 0);

        start(NULL);
        assert_int_equal(verbs_make_window(host.d, win), 0);
        win->mr = &host.mr;
        win->addr = host.memory + 512;
        win->len = 256;
        win->access = VERBS_REMOTE_READ | VERBS_REMOTE_WRITE;
        w->n_sge = 0;
        w->window = win;
        post(&host, w);
        expect_wc(&host, w, VERBS_SUCCESS);
}

static void a_send_invalidates_a_window(void **state)
{
        struct verbs_window win;
        struct verbs_wr *w;
        struct verbs_wc wc;

        (void)state;
        bound_window(&win);
        post_recv(&host, 0, 0, 16);
        w = wr(&ctrl, 0, VERBS_SEND_INVALIDATE, 0, 16);
        w->rkey = win.rkey;
        post(&ctrl, w);
        wc = expect_wc(&host, &host.wr[0], VERBS_SUCCESS);
        assert_true(wc.invalidated);
        assert_int_equal(wc.invalid_key, win.rkey);
        expect_wc(&ctrl, w, VERBS_SUCCESS);
        verbs_drop_window(host.d, &win);
        w = rdma(&ctrl, 0, VERBS_READ, &host, 512, 256);
        w->rkey = win.rkey;
        expect_both_fail(w, VERBS_REMOTE_ACCESS);
}

static void invalidating_a_wrong_key_ends_it(void **state)
{
        struct verbs_window win;
        struct verbs_wr *w;

        (void)state;
        bound_window(&win);
        post_recv(&host, 0, 0, 16);
        w = wr(&ctrl, 0, VERBS_SEND_INVALIDATE, 0, 16);
        w->rkey = host.mr.rkey; /* an MR, which this device does not invalidate */
        post(&ctrl, w);
        expect_wc(&host, &host.wr[0], VERBS_REMOTE_INVALID);
        expect_wc(&ctrl, w, VERBS_RETRY_EXCEEDED);
        verbs_drop_window(host.d, &win);
        end();
}

static void some_devices_invalidate_mrs(void **state)
{
        struct memory_caps caps;
        struct verbs_wr *w;

        (void)state;
        memory_caps_default(&caps);
        caps.device.invalidates_mr = true;
        start(&caps);
        post_recv(&host, 0, 0, 16);
        w = wr(&ctrl, 0, VERBS_SEND_INVALIDATE, 0, 16);
        w->rkey = host.mr.rkey;
        post(&ctrl, w);
        assert_true(expect_wc(&host, &host.wr[0], VERBS_SUCCESS).invalidated);
        expect_wc(&ctrl, w, VERBS_SUCCESS);
        expect_both_fail(rdma(&ctrl, 1, VERBS_READ, &host, 0, 16), VERBS_REMOTE_ACCESS);
}

static void bad_binds_fail(void **state)
{
        struct verbs_window win;
        struct verbs_wr *w;

        (void)state;
        bound_window(&win);
        w = wr(&host, 0, VERBS_BIND, 0, 0);
        w->n_sge = 0;
        w->window = &win; /* it is bound */
        post(&host, w);
        expect_wc(&host, w, VERBS_BIND_ERROR);
        verbs_drop_window(host.d, &win);
        end();
}

/* --- limits ------------------------------------------------------------------------------------ */

static void reads_beyond_the_depth_of_the_other_side(void **state)
{
        struct verbs_wc wc[8];
        int n;

        (void)state;
        fabric_new(NULL, false);
        ctrl_param.reads_out = 8; /* although the host answers 4 */
        connected();
        for (unsigned i = 0; i < 8; i++)
                rdma(&ctrl, i, VERBS_READ, &host, i * 16, 16)->next =
                    i < 7 ? &ctrl.wr[i + 1] : NULL;
        post(&ctrl, ctrl.wr);
        memory_idle(fabric);
        n = verbs_poll(ctrl.d, wc, 8);
        assert_int_equal(n, 8);
        for (int i = 0; i < 8; i++)
                if (wc[i].status == VERBS_REMOTE_INVALID)
                        n = i;
        assert_int_equal(n, 4);
        expect_event(host.c, VERBS_QP_ERROR);
        end();
}

static void reads_within_the_depth_wait(void **state)
{
        (void)state;
        for (uint32_t s = 1; s < 100; s++) {
                seed = s;
                fabric_new(NULL, true);
                connected();
                for (unsigned i = 0; i < 16; i++)
                        rdma(&ctrl, i, VERBS_READ, &host, i * 16, 16)->next =
                            i < 15 ? &ctrl.wr[i + 1] : NULL;
                post(&ctrl, ctrl.wr);
                for (unsigned i = 0; i < 16; i++)
                        expect_wc(&ctrl, &ctrl.wr[i], VERBS_SUCCESS);
                end();
        }
}

static void nothing_is_posted_to_receive(void **state)
{
        static const uint8_t retries[] = { 0, 3 };

        (void)state;
        for (unsigned i = 0; i < 2; i++) {
                fabric_new(NULL, false);
                ctrl_param.rnr_retry = retries[i];
                connected();
                post(&host, wr(&host, 0, VERBS_SEND, 0, 16));
                expect_wc(&host, &host.wr[0], VERBS_RNR_EXCEEDED);
                assert_int_equal(memory_qp_state(ctrl.ep), MEMORY_QP_LIVE);
                end();
        }
        start(NULL);
        post(&host, wr(&host, 0, VERBS_SEND, 0, 16));
        expect_no_wc(&host);
        post_recv(&ctrl, 0, 0, 16);
        expect_wc(&host, &host.wr[0], VERBS_SUCCESS);
        expect_wc(&ctrl, &ctrl.wr[0], VERBS_SUCCESS);
        end();
}

static void iwarp_has_no_rnr(void **state)
{
        struct memory_caps caps;

        (void)state;
        memory_caps_default(&caps);
        caps.device.iwarp = true;
        start(&caps);
        post(&host, wr(&host, 0, VERBS_SEND, 0, 16));
        expect_wc(&host, &host.wr[0], VERBS_REMOTE_OPERATION);
        expect_event(ctrl.c, VERBS_QP_ERROR);
        end();
}

static void iwarp_wants_the_right_to_write_for_what_it_reads(void **state)
{
        static const unsigned rights[] = { 0, VERBS_REMOTE_WRITE, ALL_RIGHTS, VERBS_REMOTE_READ };
        struct memory_caps caps;
        struct verbs_wr *w;

        (void)state;
        memory_caps_default(&caps);
        caps.device.iwarp = true;
        for (unsigned i = 0; i < 4; i++) {
                start(&caps);
                verbs_dereg(ctrl.d, &ctrl.mr);
                assert_int_equal(verbs_reg(ctrl.d, ctrl.memory, BYTES, rights[i], &ctrl.mr), 0);
                w = rdma(&ctrl, 0, VERBS_READ, &host, 0, 16);
                post(&ctrl, w);
                expect_wc(&ctrl, w, i < 3 ? VERBS_SUCCESS : VERBS_LOCAL_PROTECTION);
                end();
        }
}

static void a_send_longer_than_the_receive(void **state)
{
        (void)state;
        start(NULL);
        post_recv(&ctrl, 0, 0, 15);
        post(&host, wr(&host, 0, VERBS_SEND, 0, 16));
        expect_wc(&ctrl, &ctrl.wr[0], VERBS_LOCAL_LENGTH);
        expect_wc(&host, &host.wr[0], VERBS_REMOTE_INVALID);
        end();
}

/* --- errors and ends --------------------------------------------------------------------------- */

static void a_failed_queue_is_flushed(void **state)
{
        (void)state;
        start(NULL);
        for (unsigned i = 0; i < 4; i++) {
                wr(&host, i, VERBS_SEND, 0, 16)->flags = 0; /* those come back, too */
                post(&host, &host.wr[i]);
                post_recv(&host, 8 + i, 0, 16);
        }
        assert_int_equal(verbs_fail(host.ep), 0);
        post(&host, wr(&host, 4, VERBS_WRITE, 0, 0));
        post_recv(&host, 12, 0, 0);
        memory_idle(fabric);
        for (unsigned n = 0, s = 0, r = 0; n < 10; n++) {
                struct verbs_wc wc;

                assert_int_equal(verbs_poll(host.d, &wc, 1), 1);
                assert_int_equal(wc.status, VERBS_FLUSHED);
                assert_ptr_equal(wc.wr,
                                 wc.wr->op == VERBS_RECV ? &host.wr[8 + r++] : &host.wr[s++]);
        }
        expect_quiet(ctrl.c); /* the peer does not know, before it sends */
        post(&ctrl, wr(&ctrl, 0, VERBS_SEND, 0, 16));
        expect_wc(&ctrl, &ctrl.wr[0], VERBS_RETRY_EXCEEDED);
        end();
}

static void a_shared_queue_feeds_all(void **state)
{
        struct verbs_wc wc;

        (void)state;
        fabric_new(NULL, false);
        qp_attr.recv_wrs = 0;
        connected();
        post(&host, wr(&host, 0, VERBS_SEND, 0, 16));
        expect_no_wc(&host);
        post_recv(&ctrl, 0, 0, 64);
        post_recv(&ctrl, 1, 0, 64);
        wc = expect_wc(&ctrl, &ctrl.wr[0], VERBS_SUCCESS);
        assert_ptr_equal(wc.ep, ctrl.ep);
        assert_int_equal(verbs_fail(ctrl.ep), 0);
        assert_ptr_equal(expect_event(ctrl.c, VERBS_LAST_WQE).ep, ctrl.ep);
        expect_no_wc(&ctrl); /* the other one stays where it is */
        assert_int_equal(memory_leaks(fabric).posted, 2);
        expect_wc(&host, &host.wr[0], VERBS_SUCCESS);
        end();
}

/* A receive in the middle of a message when the queue pair fails, or goes. */
static void what_was_taken_from_a_shared_queue_comes_back(void **state)
{
        unsigned flushed = 0, orphans = 0;
        struct verbs_wc wc;

        (void)state;
        for (uint32_t s = 1; s < 200; s++) {
                seed = s;
                fabric_new(NULL, true);
                qp_attr.recv_wrs = 0;
                connected();
                post_recv(&ctrl, 0, 0, 64);
                post(&host, wr(&host, 0, VERBS_SEND, 0, 16));
                memory_step(fabric);
                if (s & 1) {
                        verbs_destroy(ctrl.ep);
                        ctrl.ep = NULL;
                } else {
                        verbs_fail(ctrl.ep);
                }
                memory_idle(fabric);
                assert_int_equal(verbs_poll(ctrl.d, &wc, 1), 1);
                assert_ptr_equal(wc.wr, &ctrl.wr[0]);
                assert_ptr_equal(wc.ep, ctrl.ep);
                orphans += !wc.ep;
                flushed += wc.status == VERBS_FLUSHED;
                end();
        }
        assert_in_range(orphans, 50, 150);
        assert_true(flushed > 20);
}

static void some_never_say_last_wqe(void **state)
{
        struct memory_caps caps;

        (void)state;
        memory_caps_default(&caps);
        caps.device.no_last_wqe = true;
        fabric_new(&caps, false);
        qp_attr.recv_wrs = 0;
        connected();
        verbs_fail(ctrl.ep);
        expect_quiet(ctrl.c);
        end();
}

static void destroying_takes_everything_along(void **state)
{
        (void)state;
        for (uint32_t s = 1; s < 300; s++) {
                seed = s;
                fabric_new(NULL, true);
                connected();
                for (unsigned i = 0; i < 4; i++) {
                        post_recv(&host, i, i * 64, 64);
                        post_recv(&ctrl, i, i * 64, 64);
                        post(&host, wr(&host, 10 + i, VERBS_SEND, 0, 16));
                        post(&ctrl, rdma(&ctrl, 10 + i, VERBS_READ, &host, 0, 64));
                        post(&ctrl, wr(&ctrl, 20 + i, VERBS_SEND, 0, 16));
                        ctrl.wr[20 + i].flags = 0;
                }
                for (unsigned i = xorshift(NULL) % 40; i > 0; i--)
                        memory_step(fabric);
                end();
        }
}

/* --- faults ------------------------------------------------------------------------------------ */

static void any_completion_may_fail(void **state)
{
        (void)state;
        for (unsigned s = VERBS_SUCCESS + 1; s < VERBS_STATUSES; s++) {
                start(NULL);
                memory_fail_completion(host.ep, 2, (enum verbs_status)s);
                post_recv(&ctrl, 0, 0, 16);
                post_recv(&ctrl, 1, 64, 16);
                post(&host, wr(&host, 0, VERBS_SEND, 0, 16));
                post(&host, wr(&host, 1, VERBS_SEND, 0, 16));
                expect_wc(&host, &host.wr[0], VERBS_SUCCESS);
                expect_wc(&host, &host.wr[1], (enum verbs_status)s);
                expect_wc(&ctrl, &ctrl.wr[0], VERBS_SUCCESS);
                expect_wc(&ctrl, &ctrl.wr[1], VERBS_SUCCESS);
                assert_int_equal(ctrl.memory[64], 'h'); /* it was done */
                assert_int_equal(memory_qp_state(host.ep), MEMORY_QP_ERROR);
                end();
        }
}

static void a_receive_may_fail(void **state)
{
        (void)state;
        start(NULL);
        memory_fail_completion(ctrl.ep, 1, VERBS_GENERAL);
        post_recv(&ctrl, 0, 0, 16);
        post(&host, wr(&host, 0, VERBS_SEND, 0, 16));
        expect_wc(&ctrl, &ctrl.wr[0], VERBS_GENERAL);
        expect_wc(&host, &host.wr[0], VERBS_SUCCESS);
        end();
}

static void work_may_fail_undone(void **state)
{
        (void)state;
        start(NULL);
        memory_fail_work(ctrl.ep, 2, VERBS_RETRY_EXCEEDED);
        post(&ctrl, rdma(&ctrl, 0, VERBS_WRITE, &host, 0, 16));
        post(&ctrl, rdma(&ctrl, 1, VERBS_WRITE, &host, 64, 16));
        expect_wc(&ctrl, &ctrl.wr[0], VERBS_SUCCESS);
        expect_wc(&ctrl, &ctrl.wr[1], VERBS_RETRY_EXCEEDED);
        assert_int_equal(host.memory[0], 'c');
        assert_int_equal(host.memory[64], 'h');
        end();
}

static void a_device_goes_away(void **state)
{
        struct verbs_event e;

        (void)state;
        start(NULL);
        post_recv(&ctrl, 0, 0, 16);
        memory_remove(fabric, ctrl.c);
        e = expect_event(ctrl.c, VERBS_DEVICE_REMOVED);
        assert_ptr_equal(e.ep, ctrl.ep);
        e = expect_event(ctrl.c, VERBS_DEVICE_REMOVED);
        assert_null(e.ep);
        assert_ptr_equal(e.listener, listener);
        expect_wc(&ctrl, &ctrl.wr[0], VERBS_FLUSHED);
        expect_quiet(host.c);
        assert_null(verbs_listen(ctrl.c, "10.0.0.2", "4421", 1));
        assert_int_equal(errno, ENODEV);
        assert_null(verbs_resolve(ctrl.c, "10.0.0.2", "4420", 1));
        post(&host, wr(&host, 0, VERBS_SEND, 0, 16));
        expect_wc(&host, &host.wr[0], VERBS_RETRY_EXCEEDED);
        memory_remove(fabric, NULL);
        expect_event(host.c, VERBS_DEVICE_REMOVED);
        end();
}

static void any_event_at_any_time(void **state)
{
        (void)state;
        start(NULL);
        for (unsigned t = VERBS_CONNECT_REQUEST; t <= VERBS_PORT_UP; t++) {
                memory_inject(host.ep, (enum verbs_event_type)t, 5);
                assert_int_equal(expect_event(host.c, (enum verbs_event_type)t).reason, 5);
        }
        memory_inject_context(ctrl.c, VERBS_PORT_DOWN, 0);
        assert_null(expect_event(ctrl.c, VERBS_PORT_DOWN).ep);
        end();
}

/* Every call in turn finds no memory: it says so, and nothing is left over. */
static bool try_all(struct verbs_ep **ep)
{
        struct verbs_domain *d;
        struct verbs_mr mr;
        struct verbs_window win;
        struct verbs_listener *l = verbs_listen(host.c, "10.0.0.2", "1", 1);

        if (!l)
                return false;
        *ep = verbs_resolve(host.c, "10.0.0.2", "4420", 1);
        d = *ep ? verbs_domain(*ep) : NULL;
        if (!d || verbs_make_srq(d, 8) < 0 || verbs_grow_cq(d, 8) < 0 ||
            verbs_qp(*ep, &qp_attr) < 0)
                goto unlisten;
        if (verbs_reg(d, host.memory, 8, 0, &mr) == 0) {
                if (verbs_make_window(d, &win) == 0) {
                        verbs_drop_window(d, &win);
                        verbs_dereg(d, &mr);
                        memory_idle(fabric);
                        verbs_unlisten(l);
                        return verbs_connect(*ep, &host_param) == 0;
                }
                verbs_dereg(d, &mr);
        }
unlisten:
        verbs_unlisten(l);
        return false;
}

static void every_call_may_find_no_memory(void **state)
{
        unsigned n = 0;
        bool done = false;

        (void)state;
        while (!done) {
                struct verbs_ep *ep = NULL;

                fabric_new(NULL, false);
                memory_refuse(fabric, MEMORY_ANY, ++n);
                errno = 0;
                done = try_all(&ep);
                if (!done)
                        assert_int_equal(errno, ENOMEM);
                if (ep)
                        verbs_destroy(ep);
                end();
        }
        assert_int_equal(n, 10);
        fabric_new(NULL, false);
        memory_refuse(fabric, MEMORY_LISTEN, 2);
        verbs_unlisten(verbs_listen(host.c, "10.0.0.2", "1", 1));
        assert_null(verbs_listen(host.c, "10.0.0.2", "1", 1));
        verbs_unlisten(verbs_listen(host.c, "10.0.0.2", "1", 1));
        end();
}

/* --- mistakes ---------------------------------------------------------------------------------- */

static void dies(void (*mistake)(void))
{
        int status;
        pid_t pid;

        fflush(NULL);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                setrlimit(RLIMIT_CORE, &(struct rlimit) { 0, 0 });
                fclose(stderr);
                signal(SIGABRT, SIG_DFL);
                mistake();
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void posts_twice(void)
{
        struct verbs_wr *bad;

        verbs_post(host.ep, wr(&host, 0, VERBS_SEND, 0, 16), &bad);
        verbs_post(host.ep, &host.wr[0], &bad);
}

static void uses_a_destroyed_endpoint(void)
{
        verbs_destroy(host.ep);
        verbs_disconnect(host.ep);
}

static void polls_a_closed_domain(void)
{
        struct verbs_wc wc;

        verbs_close(host.c);
        verbs_poll(host.d, &wc, 1);
}

static void overruns_its_completion_queue(void)
{
        struct verbs_wr *bad;

        verbs_fail(host.ep);
        for (unsigned i = 0; i < 300; i++) {
                struct verbs_wr *w = calloc(1, sizeof(*w));

                w->op = VERBS_RECV;
                verbs_post_recv(host.ep, w, &bad);
                memory_idle(fabric);
        }
}

static void mistakes_are_noticed(void **state)
{
        (void)state;
#ifdef NDEBUG
        skip();
#endif
        start(NULL);
        dies(posts_twice);
        dies(uses_a_destroyed_endpoint);
        dies(polls_a_closed_domain);
        end();
        fabric_new(NULL, false);
        qp_attr.recv_wrs = 512;
        connected();
        dies(overruns_its_completion_queue);
        end();
}

/* --- watching ---------------------------------------------------------------------------------- */

static char seen[256];

static void tap(void *user, const struct memory_tap_entry *e)
{
        static const char letters[] = "QARDsrw";
        size_t n = strlen(seen);

        (void)user;
        snprintf(seen + n, sizeof(seen) - n, "%c%c%u ", letters[e->act],
                 e->by_connector ? 'h' : 'c', e->len);
        if (e->act == MEMORY_SEND)
                assert_memory_equal(e->data, e->by_connector ? "hhhh" : "cccc", 4);
        if (e->act == MEMORY_READ)
                assert_true(e->addr == (uintptr_t)host.memory && e->key == host.mr.rkey);
        assert_true(e->connection > 0);
}

static void everything_is_seen(void **state)
{
        struct memory_config cfg = { .tap = tap };
        struct verbs_wr *w;

        (void)state;
        fabric_new(NULL, false);
        memory_fabric_free(fabric);
        fabric = memory_fabric_new(&cfg);
        host.c = verbs_open(memory_provider(fabric));
        ctrl.c = verbs_open(memory_provider(fabric));
        listener = verbs_listen(ctrl.c, "10.0.0.2", "4420", 8);
        connected();
        post_recv(&ctrl, 0, 512, 64);
        post_recv(&host, 0, 512, 64);
        w = wr(&host, 1, VERBS_SEND, 0, 10);
        w->n_sge = 2;
        w->sge[1] = w->sge[0];
        post(&host, w);
        post(&ctrl, rdma(&ctrl, 1, VERBS_READ, &host, 0, 8));
        post(&ctrl, rdma(&ctrl, 2, VERBS_WRITE, &host, 64, 9));
        post(&ctrl, wr(&ctrl, 3, VERBS_SEND, 64, 16));
        memory_idle(fabric);
        verbs_disconnect(host.ep);
        assert_string_equal(seen, "Qh5 Ac7 sh20 rc8 wc9 sc16 Dh0 ");
        end();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(private_data_go_both_ways),
                cmocka_unit_test(data_are_not_padded_where_they_are_not),
                cmocka_unit_test(no_more_reads_are_offered_than_the_device_can_do),
                cmocka_unit_test(nobody_listens),
                cmocka_unit_test(listeners_have_ports),
                cmocka_unit_test(unlisten_rejects_those_who_wait),
                cmocka_unit_test(the_backlog_is_limited),
                cmocka_unit_test(who_gives_up_is_missed),
                cmocka_unit_test(a_request_that_is_destroyed_is_rejected),
                cmocka_unit_test(events_move_with_the_endpoint),
                cmocka_unit_test(parting_is_answered),
                cmocka_unit_test(both_part_at_once),
                cmocka_unit_test(destroying_hangs_up),
                cmocka_unit_test(destroying_answers),
                cmocka_unit_test(messages_are_lost_and_late),
                cmocka_unit_test(disconnect_before_the_connection),
                cmocka_unit_test(sends_arrive),
                cmocka_unit_test(inline_data_are_taken_at_once),
                cmocka_unit_test(reads_and_writes_move_data),
                cmocka_unit_test(unsigned_ones_hold_their_place),
                cmocka_unit_test(a_chain_stops_at_the_bad_one),
                cmocka_unit_test(what_was_written_is_there_before_the_send),
                cmocka_unit_test(a_send_passes_reads_without_fence),
                cmocka_unit_test(completions_of_different_queues_race),
                cmocka_unit_test(a_wrong_key_fails_both),
                cmocka_unit_test(ranges_are_checked),
                cmocka_unit_test(rights_are_checked),
                cmocka_unit_test(a_key_is_never_given_again),
                cmocka_unit_test(own_memory_is_checked_too),
                cmocka_unit_test(windows_come_and_go),
                cmocka_unit_test(a_send_invalidates_a_window),
                cmocka_unit_test(invalidating_a_wrong_key_ends_it),
                cmocka_unit_test(some_devices_invalidate_mrs),
                cmocka_unit_test(bad_binds_fail),
                cmocka_unit_test(reads_beyond_the_depth_of_the_other_side),
                cmocka_unit_test(reads_within_the_depth_wait),
                cmocka_unit_test(nothing_is_posted_to_receive),
                cmocka_unit_test(iwarp_has_no_rnr),
                cmocka_unit_test(iwarp_wants_the_right_to_write_for_what_it_reads),
                cmocka_unit_test(a_send_longer_than_the_receive),
                cmocka_unit_test(a_failed_queue_is_flushed),
                cmocka_unit_test(a_shared_queue_feeds_all),
                cmocka_unit_test(what_was_taken_from_a_shared_queue_comes_back),
                cmocka_unit_test(some_never_say_last_wqe),
                cmocka_unit_test(destroying_takes_everything_along),
                cmocka_unit_test(any_completion_may_fail),
                cmocka_unit_test(a_receive_may_fail),
                cmocka_unit_test(work_may_fail_undone),
                cmocka_unit_test(a_device_goes_away),
                cmocka_unit_test(any_event_at_any_time),
                cmocka_unit_test(every_call_may_find_no_memory),
                cmocka_unit_test(mistakes_are_noticed),
                cmocka_unit_test(everything_is_seen),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
