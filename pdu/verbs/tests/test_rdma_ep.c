/* SPDX-License-Identifier: BSD-3-Clause */
/* Two endpoints over verbs in memory, each in a group of its own; time is a variable. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pdu/verbs/memory_verbs.h"
#include "pdu/verbs/rdma_ep.h"

enum { BYTES = 4096, WRS = 16, PART = 64, SCHEDULES = 2000 };

struct side { /* first: the endpoint, whose ops find the rest by it */
        struct rdma_ep e;
        struct rdma_group group;
        struct verbs_listener *listener;
        struct verbs_event event; /* the last */
        unsigned events, settled, moved, ends, flushed, received, completions;
        uint32_t bytes;       /* of the receive that came last */
        bool deaf;            /* event() keeps everything from the life */
        bool lenient;         /* completed() lets failures pass */
        bool greedy;          /* completed() polls again */
        bool last_wqe;        /* that event came */
        bool was_there;       /* at its end: the queue pair */
        bool shares;          /* its receives are the SRQ's */
        struct rdma_ep *kill; /* completed() destroys it */
        unsigned devs_freed;
        struct verbs_mr mr;
        struct verbs_wr send[WRS], recv[WRS];
        uint8_t memory[BYTES];
};

static struct memory_fabric *fabric;
static struct side host, ctrl;
static uint64_t clock_ms;
static uint32_t seed;

static uint64_t now(void)
{
        return clock_ms;
}

static uint32_t xorshift(void *user)
{
        (void)user;
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        return seed;
}

/* --- the owner of both ------------------------------------------------------------------------- */

static bool on_event(struct rdma_ep *e, const struct verbs_event *v)
{
        struct side *s = (struct side *)e;

        s->event = *v;
        s->events++;
        s->last_wqe |= v->type == VERBS_LAST_WQE;
        return !s->deaf;
}

static bool on_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct side *s = (struct side *)e;

        s->completions++;
        if (wc->wr->op == VERBS_RECV && wc->status == VERBS_SUCCESS) {
                s->received++;
                s->bytes = wc->bytes;
        }
        s->flushed += wc->status == VERBS_FLUSHED;
        if (s->kill)
                rdma_ep_destroy(s->kill);
        if (s->greedy)
                rdma_group_poll(&s->group, 1);
        return wc->status != VERBS_SUCCESS && !s->lenient;
}

static void on_moved(struct rdma_ep *e, enum life_event why)
{
        (void)why;
        ((struct side *)e)->moved++;
}

static void on_end(struct rdma_ep *e)
{
        struct side *s = (struct side *)e;

        s->ends++;
        s->was_there = e->ep != NULL;
}

static void on_settle(struct rdma_ep *e)
{
        ((struct side *)e)->settled++;
}

static const struct rdma_ep_ops host_ops = {
        .event = on_event, .completed = on_completion, .moved = on_moved, .end = on_end
};
static const struct rdma_ep_ops ctrl_ops = { on_event, on_completion, on_moved, on_end, on_settle };

static void on_request(struct rdma_group *g, const struct verbs_event *v)
{
        (void)g;
        ctrl.event = *v;
}

static void on_listener_lost(struct rdma_group *g, struct verbs_listener *l)
{
        (void)g;
        assert_ptr_equal(l, ctrl.listener);
        verbs_unlisten(l);
        ctrl.listener = NULL;
}

static void on_dev_free(struct rdma_dev *d)
{
        (void)d;
        ctrl.devs_freed++;
}

static const struct rdma_group_ops group_ops = { .request = on_request,
                                                 .listener_lost = on_listener_lost,
                                                 .dev_free = on_dev_free };

/* --- setting up -------------------------------------------------------------------------------- */

static void begin(const struct memory_caps *caps, bool random)
{
        struct memory_config cfg = { .caps = caps, .random = random ? xorshift : NULL };

        clock_ms = 1000;
        memset(&host, 0, sizeof(host));
        memset(&ctrl, 0, sizeof(ctrl));
        fabric = memory_fabric_new(&cfg);
        assert_non_null(fabric);
}

static int open_both(void)
{
        struct verbs_provider *p = memory_provider(fabric);

        if (rdma_group_open(&host.group, p, NULL, now) < 0 ||
            rdma_group_open(&ctrl.group, p, &group_ops, now) < 0)
                return -1;
        ctrl.listener = verbs_listen(ctrl.group.context, "10.0.0.2", "4420", 8);
        rdma_ep_init(&host.e, &host.group, &host_ops);
        rdma_ep_init(&ctrl.e, &ctrl.group, &ctrl_ops);
        return ctrl.listener ? 0 : -1;
}

static void start(void)
{
        begin(NULL, false);
        assert_int_equal(open_both(), 0);
}

static unsigned work(struct side *s)
{
        unsigned n;

        memory_idle(fabric);
        n = rdma_group_events(&s->group, UINT_MAX);
        memory_idle(fabric);
        return n + rdma_group_poll(&s->group, UINT_MAX);
}

static void work_all(void)
{
        while (work(&host) + work(&ctrl) > 0)
                continue;
}

static int prepare(struct side *s, unsigned receives)
{
        struct verbs_qp_attr attr = { WRS, WRS, PART };
        struct verbs_wr *bad;

        if (s->shares) {
                attr.recv_wrs = 0;
                assert_int_equal(verbs_make_srq(s->e.dev->domain, WRS), 0);
        }
        if (rdma_ep_qp(&s->e, &attr) < 0 ||
            verbs_reg(s->e.dev->domain, s->memory, BYTES, 0, &s->mr) < 0)
                return -1;
        for (unsigned i = 0; i < receives; i++) {
                s->recv[i] =
                    (struct verbs_wr) { .op = VERBS_RECV,
                                        .n_sge = 1,
                                        .sge = { { s->memory + i * PART, PART, s->mr.lkey } } };
                if ((s->shares ? verbs_post_srq(s->e.dev->domain, &s->recv[i], &bad)
                               : rdma_ep_post_recv(&s->e, &s->recv[i], &bad)) < 0)
                        return -1;
        }
        return 0;
}

static int post(struct side *s, unsigned first, unsigned count)
{
        struct verbs_wr *bad;

        for (unsigned i = first; i < first + count; i++)
                s->send[i] = (struct verbs_wr) {
                        .next = i + 1 < first + count ? &s->send[i + 1] : NULL,
                        .op = VERBS_SEND,
                        .flags = VERBS_SIGNALED,
                        .n_sge = 1,
                        .sge = { { s->memory + BYTES / 2, i + 1, s->mr.lkey } },
                };
        return rdma_ep_post(&s->e, &s->send[first], &bad);
}

/* Up to the connect request, which waits in ctrl.event; ctrl's endpoint has taken it. */
static int request(unsigned receives)
{
        static const struct verbs_conn_param hello = { "hello", 5, 4, 0, 7, 7 };

        if (rdma_ep_resolve(&host.e, "10.0.0.2", "4420", 1000) < 0)
                return -1;
        work_all();
        if (host.event.type != VERBS_RESOLVED || prepare(&host, receives) < 0 ||
            rdma_ep_connect(&host.e, &hello) < 0)
                return -1;
        work_all();
        assert_int_equal(ctrl.event.type, VERBS_CONNECT_REQUEST);
        assert_memory_equal(ctrl.event.data, "hello", 5);
        if (rdma_ep_take(&ctrl.e, ctrl.event.ep) == 0)
                return 0;
        rdma_ep_refuse(ctrl.event.ep, NULL, 0);
        return -1;
}

static int accept_it(unsigned receives)
{
        static const struct verbs_conn_param welcome = { "welcome", 7, 0, 4, 7, 7 };

        return prepare(&ctrl, receives) < 0 ? -1 : rdma_ep_accept(&ctrl.e, &welcome);
}

static int connect_both(unsigned receives)
{
        if (request(receives) < 0 || accept_it(receives) < 0)
                return -1;
        work_all();
        return host.e.life.state == LIFE_LIVE && ctrl.e.life.state == LIFE_LIVE ? 0 : -1;
}

static void connected(unsigned receives)
{
        start();
        assert_int_equal(connect_both(receives), 0);
}

static void forget(struct side *s)
{
        if (s->mr.own)
                verbs_dereg(s->e.dev->domain, &s->mr);
        if (s->e.group)
                rdma_ep_destroy(&s->e);
        if (s->listener)
                verbs_unlisten(s->listener);
}

/* Everything is given back. */
static void end(void)
{
        forget(&host);
        forget(&ctrl);
        assert_int_equal(memory_leaked(fabric),
                         ctrl.shares ? memory_leaks(fabric).posted : 0); /* the SRQ has them */
        rdma_group_close(&host.group);
        rdma_group_close(&ctrl.group);
        memory_fabric_free(fabric);
}

static void expect_state(const struct side *s, enum life_state state)
{
        assert_string_equal(life_state_name(s->e.life.state), life_state_name(state));
}

/* --- resolution -------------------------------------------------------------------------------- */

/* This try comes to nothing, after so many ms; the next, if there is one, is under way. */
static void let_time_out(unsigned ms)
{
        memory_lose_cm(host.e.ep, 1);
        memory_inject(host.e.ep, VERBS_UNREACHABLE, ETIMEDOUT);
        clock_ms += ms;
        memory_idle(fabric);
        assert_int_equal(rdma_group_events(&host.group, UINT_MAX), 1);
}

static void resolution_is_tried_again_and_each_time_longer(void **state)
{
        (void)state;
        start();
        assert_int_equal(rdma_ep_resolve(&host.e, "10.0.0.2", "4420", 5000), 0);
        assert_int_equal(host.e.try_ms, 2 * RDMA_RESOLVE_MS);
        let_time_out(RDMA_RESOLVE_MS);
        assert_int_equal(host.e.try_ms, 4 * RDMA_RESOLVE_MS);
        let_time_out(2 * RDMA_RESOLVE_MS);
        assert_int_equal(host.events, 0);
        expect_state(&host, LIFE_CONNECTING);
        assert_int_equal(memory_leaks(fabric).eps, 1);
        work_all();
        assert_int_equal(host.events, 1);
        assert_int_equal(host.event.type, VERBS_RESOLVED);
        assert_non_null(host.e.dev);
        assert_ptr_equal(host.e.dev, host.group.devs);
        end();
}

static void resolution_ends_with_its_time(void **state)
{
        (void)state;
        start();
        assert_int_equal(rdma_ep_resolve(&host.e, "10.0.0.2", "4420", 150), 0);
        let_time_out(151);
        assert_int_equal(host.events, 1);
        assert_int_equal(host.event.type, VERBS_UNREACHABLE);
        assert_int_equal(host.event.reason, ETIMEDOUT);
        expect_state(&host, LIFE_DEAD); /* there is no queue pair to drain */
        assert_int_equal(host.ends, 1);
        assert_true(rdma_ep_release(&host.e));
        end();
}

static void no_route_is_not_tried_again(void **state)
{
        (void)state;
        start();
        assert_int_equal(rdma_ep_resolve(&host.e, "10.0.0.2", "4420", 5000), 0);
        memory_lose_cm(host.e.ep, 1);
        memory_inject(host.e.ep, VERBS_UNREACHABLE, ENETUNREACH);
        work_all();
        assert_int_equal(host.events, 1);
        assert_int_equal(host.event.reason, ENETUNREACH);
        end();
}

static void a_try_that_cannot_be_made_ends_the_resolution(void **state)
{
        (void)state;
        start();
        assert_int_equal(rdma_ep_resolve(&host.e, "10.0.0.2", "4420", 5000), 0);
        memory_refuse(fabric, MEMORY_RESOLVE, 1);
        let_time_out(RDMA_RESOLVE_MS);
        assert_int_equal(host.event.type, VERBS_UNREACHABLE);
        assert_int_equal(host.event.reason, ENOMEM);
        assert_null(host.e.ep);
        end();
}

/* --- connecting -------------------------------------------------------------------------------- */

/* The k-th call of any kind fails: whatever that was, all is given back; until none fails. */
static void failing_at_each_step_leaves_nothing(void **state)
{
        bool whole = false;

        (void)state;
        for (unsigned k = 1; !whole; k++) {
                begin(NULL, false);
                memory_refuse(fabric, MEMORY_ANY, k);
                if (open_both() == 0 && connect_both(4) == 0) {
                        whole = post(&host, 0, 1) == 0;
                        work_all();
                        rdma_ep_step(&host.e, LIFE_CLOSE);
                        work_all();
                        whole &= host.ends == 1 && ctrl.ends == 1;
                } else if (host.e.group) {
                        rdma_ep_step(&host.e, LIFE_ABORT);
                        work_all();
                        expect_state(&host, LIFE_DEAD);
                }
                memory_refuse(fabric, MEMORY_ANY, 0);
                end();
                assert_true(k < 100);
        }
}

static void rejection_brings_its_private_data(void **state)
{
        (void)state;
        start();
        assert_int_equal(request(2), 0);
        rdma_ep_refuse(ctrl.event.ep, "because", 7);
        rdma_ep_disown(&ctrl.e);
        work_all();
        assert_int_equal(host.event.type, VERBS_REJECTED);
        assert_memory_equal(host.event.data, "because", 7);
        assert_int_equal(host.e.life.cause, LIFE_REFUSED);
        expect_state(&host, LIFE_DEAD); /* drained: both receives came back */
        assert_int_equal(host.flushed, 2);
        assert_int_equal(host.ends, 1);
        end();
}

static void a_group_without_listener_of_its_own_refuses(void **state)
{
        static const struct rdma_group_ops none = { 0 };

        (void)state;
        start();
        ctrl.group.ops = &none;
        assert_int_equal(rdma_ep_resolve(&host.e, "10.0.0.2", "4420", 1000), 0);
        work_all();
        assert_int_equal(prepare(&host, 1), 0);
        assert_int_equal(rdma_ep_connect(&host.e, &(struct verbs_conn_param) { .len = 0 }), 0);
        work_all();
        assert_int_equal(host.event.type, VERBS_REJECTED);
        ctrl.group.ops = NULL;
        end();
}

static void a_queue_pair_has_what_the_device_gives(void **state)
{
        struct verbs_qp_attr attr = { 1000, 1000, 1000 };
        struct memory_caps caps;

        (void)state;
        memory_caps_default(&caps);
        caps.device.qp_wrs = 100;
        caps.device.inline_bytes = 32;
        begin(&caps, false);
        assert_int_equal(open_both(), 0);
        assert_int_equal(rdma_ep_resolve(&host.e, "10.0.0.2", "4420", 1000), 0);
        work_all();
        assert_int_equal(rdma_ep_qp(&host.e, &attr), 0);
        assert_int_equal(attr.send_wrs, 99); /* and a sentinel */
        assert_int_equal(attr.recv_wrs, 99);
        assert_int_equal(attr.inline_bytes, 32);
        assert_int_equal(host.e.dev->cqes, 200);
        end();
        assert_int_equal(host.e.cqes, 0);
}

static void completion_queue_grows_ahead_and_within_the_device(void **state)
{
        struct memory_caps caps;
        struct rdma_dev *d;

        (void)state;
        memory_caps_default(&caps);
        caps.device.cqes = 100;
        begin(&caps, false);
        assert_int_equal(open_both(), 0);
        assert_int_equal(rdma_ep_resolve(&host.e, "10.0.0.2", "4420", 1000), 0);
        work_all();
        d = host.e.dev;
        assert_int_equal(rdma_dev_reserve(d, 30), 0);
        assert_int_equal(d->cq_size, 30);
        assert_int_equal(rdma_dev_reserve(d, 5), 0);
        assert_int_equal(d->cq_size, 60);
        assert_int_equal(rdma_dev_reserve(d, 40), 0);
        assert_int_equal(d->cq_size, 100);
        assert_int_equal(rdma_dev_reserve(d, 26), -1);
        assert_int_equal(d->cqes, 75);
        rdma_dev_unreserve(d, 75);
        end();
}

/* --- receives before it is live ---------------------------------------------------------------- */

/* The host is live and sends; its controller has not been told that it is. */
static void overtake(void)
{
        start();
        assert_int_equal(request(4), 0);
        assert_int_equal(accept_it(4), 0);
        memory_hold_cm(ctrl.e.ep, true);
        work_all();
        expect_state(&host, LIFE_LIVE);
        assert_int_equal(post(&host, 0, 3), 0);
        work_all();
        expect_state(&ctrl, LIFE_CONNECTING);
        assert_int_equal(ctrl.completions, 0);
}

static void capsules_that_overtake_wait_until_it_is_live(void **state)
{
        (void)state;
        overtake();
        memory_hold_cm(ctrl.e.ep, false);
        work_all();
        expect_state(&ctrl, LIFE_LIVE);
        assert_int_equal(ctrl.received, 3);
        assert_int_equal(ctrl.bytes, 3); /* in order: the last has that length */
        end();
}

static void capsules_that_wait_come_back_where_it_ends_before(void **state)
{
        (void)state;
        overtake();
        rdma_ep_step(&ctrl.e, LIFE_ABORT);
        memory_hold_cm(ctrl.e.ep, false);
        work_all();
        assert_int_equal(ctrl.received, 0);
        assert_int_equal(ctrl.flushed, 4); /* and the one that was posted still */
        assert_int_equal(ctrl.ends, 1);
        end();
}

/* --- joined by numbers --------------------------------------------------------------------------- */

/* Up to the queue pairs; whoever is to join has the other one's numbers. */
static int local_both(unsigned receives, struct verbs_numbers *h, struct verbs_numbers *c)
{
        if (rdma_ep_local(&host.e, "10.0.0.1") < 0 || rdma_ep_local(&ctrl.e, "10.0.0.2") < 0 ||
            prepare(&host, receives) < 0 || prepare(&ctrl, receives) < 0 ||
            rdma_ep_numbers(&host.e, h) < 0)
                return -1;
        return rdma_ep_numbers(&ctrl.e, c);
}

static int join(struct side *s, const struct verbs_numbers *peer)
{
        static const struct verbs_conn_param param = { .rnr_retry = 7, .retry = 7 };

        return rdma_ep_join(&s->e, peer, &param);
}

static int join_both(unsigned receives)
{
        struct verbs_numbers h, c;

        if (local_both(receives, &h, &c) < 0 || join(&host, &c) < 0 || join(&ctrl, &h) < 0)
                return -1;
        work_all();
        return host.e.life.state == LIFE_LIVE && ctrl.e.life.state == LIFE_LIVE ? 0 : -1;
}

static void joined(unsigned receives)
{
        start();
        assert_int_equal(join_both(receives), 0);
}

static void joined_endpoints_exchange_capsules(void **state)
{
        (void)state;
        joined(4);
        assert_non_null(host.e.dev);
        assert_int_equal(host.event.type, VERBS_ESTABLISHED);
        assert_int_equal(post(&host, 0, 3) + post(&ctrl, 0, 2), 0);
        work_all();
        assert_int_equal(ctrl.received, 3);
        assert_int_equal(host.received, 2);
        assert_int_equal(host.e.unfinished + ctrl.e.unfinished, 0);
        end();
}

/* Each way out of life: what is done, and what the other one knows of it. */
static void a_joined_endpoint_ends_and_its_peer_sees_it_when_it_posts(void **state)
{
        static const enum life_event ways[] = { LIFE_CLOSE, LIFE_ABORT, LIFE_FAILED, LIFE_REMOVED };

        (void)state;
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
                joined(4);
                rdma_ep_step(&host.e, ways[i]);
                work_all();
                expect_state(&host, LIFE_DEAD); /* no peer to wait for */
                assert_int_equal(host.e.life.cause, ways[i]);
                assert_int_equal(host.event.type, VERBS_DISCONNECTED);
                assert_int_equal(host.e.life.actions,
                                 LIFE_DO_REPLAY | LIFE_DO_DISCONNECT | LIFE_DO_FAIL | LIFE_DO_END);
                assert_int_equal(host.flushed, 4);
                assert_int_equal(host.ends, 1);
                expect_state(&ctrl, LIFE_LIVE);
                assert_int_equal(post(&ctrl, 0, 1), 0);
                work_all();
                expect_state(&ctrl, LIFE_DEAD);
                assert_int_equal(ctrl.e.life.cause, LIFE_FAILED);
                assert_int_equal(ctrl.ends, 1);
                assert_true(rdma_ep_release(&host.e) && rdma_ep_release(&ctrl.e));
                end();
        }
}

static void capsules_before_the_join_is_known_wait(void **state)
{
        struct verbs_numbers h, c;

        (void)state;
        start();
        assert_int_equal(local_both(4, &h, &c), 0);
        assert_int_equal(join(&host, &c), 0);
        (void)work(&host);
        expect_state(&host, LIFE_LIVE);
        assert_int_equal(post(&host, 0, 3), 0);
        (void)work(&host);
        expect_state(&host, LIFE_LIVE); /* it is tried again */
        assert_int_equal(join(&ctrl, &h), 0);
        memory_idle(fabric);
        assert_int_equal(rdma_group_poll(&ctrl.group, 1), 3);
        expect_state(&ctrl, LIFE_CONNECTING);
        assert_int_equal(ctrl.completions, 0);
        work_all();
        expect_state(&ctrl, LIFE_LIVE);
        assert_int_equal(ctrl.received, 3);
        end();
}

static void a_local_endpoint_that_is_never_joined_ends(void **state)
{
        struct verbs_numbers h, c;

        (void)state;
        start();
        assert_int_equal(local_both(4, &h, &c), 0);
        rdma_ep_step(&host.e, LIFE_CLOSE);
        work_all();
        expect_state(&host, LIFE_DEAD);
        assert_int_equal(host.flushed, 4);
        assert_int_equal(host.events, 0);
        assert_int_equal(join(&ctrl, &h), 0);
        assert_int_equal(post(&ctrl, 0, 1), 0);
        work_all();
        assert_int_equal(ctrl.e.life.cause, LIFE_FAILED);
        assert_int_equal(host.ends + ctrl.ends, 2);
        end();
}

static void there_is_no_local_endpoint_with_iwarp(void **state)
{
        struct memory_caps caps;

        (void)state;
        memory_caps_default(&caps);
        caps.device.iwarp = true;
        begin(&caps, false);
        assert_int_equal(open_both(), 0);
        assert_int_equal(rdma_ep_local(&host.e, "10.0.0.1"), -1);
        assert_int_equal(errno, ENOTSUP);
        assert_null(host.e.ep);
        end();
}

static void failing_at_each_step_of_a_join_leaves_nothing(void **state)
{
        bool whole = false;

        (void)state;
        for (unsigned k = 1; !whole; k++) {
                begin(NULL, false);
                memory_refuse(fabric, MEMORY_ANY, k);
                if (open_both() == 0 && join_both(4) == 0) {
                        whole = post(&host, 0, 1) == 0;
                        work_all();
                        rdma_ep_step(&host.e, LIFE_CLOSE);
                        work_all();
                        whole &= host.e.life.state == LIFE_DEAD;
                } else if (host.e.group) {
                        rdma_ep_step(&host.e, LIFE_ABORT);
                        work_all();
                        expect_state(&host, LIFE_DEAD);
                }
                memory_refuse(fabric, MEMORY_ANY, 0);
                end();
                assert_true(k < 100);
        }
}

/* --- in any order --- */

struct schedule {
        struct verbs_numbers numbers[2];
        bool tried[2];
        unsigned posted[2];
};

static void random_act(struct schedule *q, struct side *s, unsigned i)
{
        static const enum life_event wishes[] = { LIFE_CLOSE, LIFE_ABORT, LIFE_FAILED };

        switch (xorshift(NULL) % 12) {
        case 0:
        case 1:
                if (!q->tried[i] && s->e.life.state == LIFE_CONNECTING) {
                        assert_int_equal(join(s, &q->numbers[!i]), 0);
                        q->tried[i] = true;
                }
                break;
        case 2:
                if (s->e.life.state == LIFE_LIVE && q->posted[i] < WRS / 2)
                        assert_int_equal(post(s, q->posted[i]++, 1), 0);
                break;
        case 3:
                if (xorshift(NULL) % 16 == 0)
                        rdma_ep_step(&s->e, wishes[xorshift(NULL) % 3]);
                break;
        case 4:
                (void)rdma_group_events(&s->group, 1);
                break;
        case 5:
                (void)rdma_group_poll(&s->group, 1);
                break;
        default:
                (void)memory_step(fabric);
        }
}

/* Whatever happened: each life came to its end once, and all that was posted has come back before. */
static void expect_whole_life(struct side *s, unsigned posted, bool tried)
{
        unsigned must = LIFE_DO_DISCONNECT | LIFE_DO_FAIL | LIFE_DO_END;

        expect_state(s, LIFE_DEAD);
        assert_int_equal(s->ends, 1);
        assert_true(s->was_there);
        assert_int_equal(s->completions, WRS / 2 + posted);
        assert_int_equal(s->e.unfinished, 0);
        assert_int_equal(s->e.life.actions & ~(unsigned)LIFE_DO_REPLAY, must);
        assert_true(tried || !(s->e.life.actions & LIFE_DO_REPLAY));
        assert_true(rdma_ep_release(&s->e));
        assert_false(rdma_ep_release(&s->e));
}

static void joined_lives_end_once_in_any_order(void **state)
{
        unsigned exchanged = 0;

        (void)state;
        for (uint32_t run = 1; run <= SCHEDULES; run++) {
                struct schedule q = { .posted = { 0 } };

                seed = run * 2654435761u;
                begin(NULL, true);
                assert_int_equal(open_both(), 0);
                assert_int_equal(local_both(WRS / 2, &q.numbers[0], &q.numbers[1]), 0);
                for (unsigned n = xorshift(NULL) % 240; n > 0; n--) {
                        unsigned i = xorshift(NULL) % 2;

                        random_act(&q, i ? &ctrl : &host, i);
                }
                exchanged += host.received > 0 && ctrl.received > 0;
                rdma_ep_step(&host.e, LIFE_ABORT);
                rdma_ep_step(&ctrl.e, LIFE_CLOSE);
                work_all();
                assert_true(ctrl.received <= q.posted[0] && host.received <= q.posted[1]);
                expect_whole_life(&host, q.posted[0], q.tried[0]);
                expect_whole_life(&ctrl, q.posted[1], q.tried[1]);
                end();
        }
        assert_true(exchanged > SCHEDULES / 50);
}

/* --- the end ------------------------------------------------------------------------------------ */

static void close_is_orderly_on_both_sides(void **state)
{
        (void)state;
        connected(4);
        rdma_ep_step(&host.e, LIFE_CLOSE);
        expect_state(&host, LIFE_CLOSING);
        work_all();
        expect_state(&host, LIFE_DEAD);
        expect_state(&ctrl, LIFE_DEAD);
        assert_int_equal(ctrl.e.life.cause, LIFE_DISCONNECTED);
        assert_int_equal(host.flushed + ctrl.flushed, 8);
        assert_true(ctrl.settled > 0);
        assert_true(rdma_ep_release(&host.e));
        assert_false(rdma_ep_release(&host.e));
        rdma_ep_step(&host.e, LIFE_ABORT); /* nothing any more */
        expect_state(&host, LIFE_RELEASED);
        end();
}

/* However late and in whichever order completions come: END comes after the last of them. */
static void draining_waits_for_late_completions(void **state)
{
        (void)state;
        for (uint32_t run = 1; run <= 200; run++) {
                seed = run * 2654435761u;
                begin(NULL, true);
                assert_int_equal(open_both(), 0);
                assert_int_equal(connect_both(WRS / 2), 0);
                assert_int_equal(post(&host, 0, WRS / 2), 0);
                for (unsigned i = run % 7; i > 0; i--)
                        memory_step(fabric);
                rdma_ep_step(&host.e, LIFE_ABORT);
                expect_state(&host, LIFE_DRAINING);
                while (host.ends == 0) {
                        (void)memory_step(fabric);
                        (void)rdma_group_poll(&host.group, 1);
                }
                assert_int_equal(host.e.unfinished, 0);
                assert_int_equal(host.completions, WRS); /* sends and receives */
                work_all();
                assert_int_equal(host.completions, WRS);
                end();
        }
}

static void a_peer_that_does_not_answer_is_not_waited_for(void **state)
{
        (void)state;
        connected(2);
        memory_hold_cm(host.e.ep, true);
        memory_hold_cm(ctrl.e.ep, true);
        rdma_ep_step(&host.e, LIFE_CLOSE);
        clock_ms += 999;
        rdma_ep_expire(&host.e, 1000, 10);
        expect_state(&host, LIFE_CLOSING);
        clock_ms++;
        rdma_ep_expire(&host.e, 1000, 10);
        expect_state(&host, LIFE_DRAINING);
        assert_int_equal(host.e.since, clock_ms);
        clock_ms += 10;
        rdma_ep_expire(&host.e, 1000, 10); /* a device that does not flush, either */
        expect_state(&host, LIFE_DEAD);
        assert_int_equal(host.ends, 1);
        end();
}

static void work_that_fails_ends_it(void **state)
{
        (void)state;
        connected(2);
        memory_fail_work(host.e.ep, 1, VERBS_RETRY_EXCEEDED);
        assert_int_equal(post(&host, 0, 1), 0);
        work_all();
        assert_int_equal(host.e.life.cause, LIFE_FAILED);
        assert_int_equal(ctrl.e.life.cause, LIFE_DISCONNECTED);
        assert_int_equal(host.ends + ctrl.ends, 2);
        end();
}

static void what_cannot_be_posted_is_as_good_as_flushed(void **state)
{
        struct verbs_wr *bad = &host.send[0];

        (void)state;
        connected(2);
        memory_refuse(fabric, MEMORY_POST, 1);
        assert_int_equal(post(&host, 0, 3), -1);
        assert_int_equal(host.e.unfinished, 3);
        rdma_ep_flushed(&host.e, bad);
        assert_int_equal(host.e.unfinished, 0);
        assert_int_equal(host.flushed, 3);
        assert_int_equal(host.e.life.cause, LIFE_FAILED);
        work_all();
        assert_int_equal(host.ends, 1);
        end();
}

static void sentinels_that_cannot_be_posted_are_not_waited_for(void **state)
{
        (void)state;
        connected(0);
        memory_refuse(fabric, MEMORY_POST, 1);
        rdma_ep_step(&host.e, LIFE_ABORT);
        assert_int_equal(host.e.life.sentinels, 1);
        work_all();
        assert_int_equal(host.ends, 1);
        end();
}

/* A device that says so has given back all receives that the queue pair took only after LAST_WQE. */
static void with_an_srq_the_end_waits_for_its_last_wqe(void **state)
{
        struct memory_caps caps;

        (void)state;
        memory_caps_default(&caps);
        for (uint32_t run = 1; run <= 200; run++) {
                caps.device.no_last_wqe = run % 4 == 0;
                seed = run * 2654435761u;
                begin(&caps, true);
                assert_int_equal(open_both(), 0);
                ctrl.shares = true;
                assert_int_equal(connect_both(WRS), 0);
                ctrl.lenient = true;
                assert_int_equal(post(&host, 0, WRS / 2), 0);
                for (unsigned i = run % 7; i > 0; i--)
                        memory_step(fabric);
                rdma_ep_step(&ctrl.e, LIFE_ABORT);
                while (ctrl.ends == 0) {
                        assert_true(memory_step(fabric));
                        (void)rdma_group_events(&ctrl.group, 1);
                        (void)rdma_group_poll(&ctrl.group, 1);
                }
                assert_true(ctrl.was_there);
                assert_int_equal(ctrl.last_wqe, !caps.device.no_last_wqe);
                end();
        }
}

/* It is said once: before the owner has the queue pair fail, if that failed by itself. */
static void a_last_wqe_that_came_is_not_awaited(void **state)
{
        (void)state;
        begin(NULL, false);
        assert_int_equal(open_both(), 0);
        ctrl.shares = true;
        assert_int_equal(connect_both(WRS), 0);
        ctrl.deaf = ctrl.lenient = true;
        assert_int_equal(rdma_ep_fail(&ctrl.e), 0);
        work_all();
        assert_true(ctrl.last_wqe);
        expect_state(&ctrl, LIFE_LIVE);
        rdma_ep_step(&ctrl.e, LIFE_ABORT);
        work_all();
        assert_int_equal(ctrl.ends, 1);
        end();
}

/* Where draining takes too long, what a READ may still fill is not given back before the queue pair
 * is destroyed. */
static void a_queue_pair_that_is_not_drained_is_destroyed_before_its_end(void **state)
{
        (void)state;
        connected(WRS);
        assert_int_equal(post(&host, 0, WRS), 0);
        rdma_ep_step(&host.e, LIFE_ABORT);
        assert_true(host.e.life.sentinels > 0);
        rdma_ep_step(&host.e, LIFE_LATE);
        assert_int_equal(host.ends, 1);
        assert_false(host.was_there);
        work_all();
        assert_int_equal(host.completions, 0);
        end();
}

static void a_device_that_nobody_uses_goes_when_it_is_removed(void **state)
{
        (void)state;
        connected(0);
        forget(&ctrl);
        ctrl.listener = NULL;
        ctrl.mr.own = NULL;
        work_all();
        assert_int_equal(ctrl.devs_freed, 0);
        memory_remove(fabric, ctrl.group.context);
        work_all();
        assert_int_equal(ctrl.devs_freed, 1);
        end();
}

static void a_device_that_is_removed_goes_with_its_last_endpoint(void **state)
{
        (void)state;
        connected(2);
        memory_remove(fabric, ctrl.group.context);
        work_all();
        assert_null(ctrl.listener);
        assert_int_equal(ctrl.e.life.cause, LIFE_REMOVED);
        assert_true(ctrl.e.dev->gone);
        assert_int_equal(ctrl.ends, 1);
        assert_int_equal(ctrl.devs_freed, 0);
        forget(&ctrl);
        ctrl.mr.own = NULL;
        assert_int_equal(rdma_group_poll(&ctrl.group, 1), 0);
        assert_int_equal(ctrl.devs_freed, 1);
        assert_null(ctrl.group.devs);
        end();
        assert_int_equal(ctrl.devs_freed, 1);
}

/* --- by hand ------------------------------------------------------------------------------------ */

static void an_event_that_is_kept_from_the_life_is_not_answered(void **state)
{
        (void)state;
        connected(2);
        ctrl.deaf = ctrl.lenient = true;
        rdma_ep_step(&host.e, LIFE_CLOSE);
        work_all();
        assert_int_equal(ctrl.event.type, VERBS_DISCONNECTED);
        expect_state(&ctrl, LIFE_LIVE);
        expect_state(&host, LIFE_CLOSING); /* waits for the answer */
        assert_int_equal(rdma_ep_disconnect(&ctrl.e), 0);
        work_all();
        expect_state(&host, LIFE_DEAD);
        expect_state(&ctrl, LIFE_LIVE);
        end();
}

static void a_queue_pair_can_fail_and_nobody_is_told(void **state)
{
        (void)state;
        connected(2);
        host.lenient = true;
        assert_int_equal(rdma_ep_fail(&host.e), 0);
        work_all();
        assert_int_equal(host.flushed, 2);
        expect_state(&host, LIFE_LIVE);
        expect_state(&ctrl, LIFE_LIVE);
        rdma_ep_destroy(&host.e);
        assert_int_equal(rdma_ep_fail(&host.e), -1);
        assert_int_equal(rdma_ep_disconnect(&host.e), -1);
        host.mr.own = NULL; /* with nobody left who knows its device */
        work_all();
        expect_state(&ctrl, LIFE_DEAD);
        forget(&ctrl);
        rdma_group_close(&host.group);
        rdma_group_close(&ctrl.group);
        memory_fabric_free(fabric);
}

/* --- polling in polling ------------------------------------------------------------------------- */

static void an_inner_poll_hands_out_what_the_outer_has_in_hand(void **state)
{
        (void)state;
        connected(8);
        assert_int_equal(post(&host, 0, 4), 0);
        memory_idle(fabric);
        host.greedy = true;
        assert_true(rdma_group_poll(&host.group, 1) >= 4);
        assert_int_equal(host.completions, 4);
        assert_int_equal(host.e.unfinished, 0);
        end();
}

static void what_is_in_hand_of_a_destroyed_endpoint_is_dropped(void **state)
{
        (void)state;
        connected(8);
        assert_int_equal(post(&host, 0, 4), 0);
        memory_idle(fabric);
        verbs_dereg(host.e.dev->domain, &host.mr);
        host.mr.own = NULL;
        host.kill = &host.e;
        (void)rdma_group_poll(&host.group, 1);
        assert_int_equal(host.completions, 1);
        assert_null(host.e.ep);
        end();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(resolution_is_tried_again_and_each_time_longer),
                cmocka_unit_test(resolution_ends_with_its_time),
                cmocka_unit_test(no_route_is_not_tried_again),
                cmocka_unit_test(a_try_that_cannot_be_made_ends_the_resolution),
                cmocka_unit_test(failing_at_each_step_leaves_nothing),
                cmocka_unit_test(rejection_brings_its_private_data),
                cmocka_unit_test(a_group_without_listener_of_its_own_refuses),
                cmocka_unit_test(a_queue_pair_has_what_the_device_gives),
                cmocka_unit_test(completion_queue_grows_ahead_and_within_the_device),
                cmocka_unit_test(capsules_that_overtake_wait_until_it_is_live),
                cmocka_unit_test(capsules_that_wait_come_back_where_it_ends_before),
                cmocka_unit_test(joined_endpoints_exchange_capsules),
                cmocka_unit_test(a_joined_endpoint_ends_and_its_peer_sees_it_when_it_posts),
                cmocka_unit_test(capsules_before_the_join_is_known_wait),
                cmocka_unit_test(a_local_endpoint_that_is_never_joined_ends),
                cmocka_unit_test(there_is_no_local_endpoint_with_iwarp),
                cmocka_unit_test(failing_at_each_step_of_a_join_leaves_nothing),
                cmocka_unit_test(joined_lives_end_once_in_any_order),
                cmocka_unit_test(close_is_orderly_on_both_sides),
                cmocka_unit_test(draining_waits_for_late_completions),
                cmocka_unit_test(a_peer_that_does_not_answer_is_not_waited_for),
                cmocka_unit_test(work_that_fails_ends_it),
                cmocka_unit_test(what_cannot_be_posted_is_as_good_as_flushed),
                cmocka_unit_test(sentinels_that_cannot_be_posted_are_not_waited_for),
                cmocka_unit_test(with_an_srq_the_end_waits_for_its_last_wqe),
                cmocka_unit_test(a_last_wqe_that_came_is_not_awaited),
                cmocka_unit_test(a_queue_pair_that_is_not_drained_is_destroyed_before_its_end),
                cmocka_unit_test(a_device_that_nobody_uses_goes_when_it_is_removed),
                cmocka_unit_test(a_device_that_is_removed_goes_with_its_last_endpoint),
                cmocka_unit_test(an_event_that_is_kept_from_the_life_is_not_answered),
                cmocka_unit_test(a_queue_pair_can_fail_and_nobody_is_told),
                cmocka_unit_test(an_inner_poll_hands_out_what_the_outer_has_in_hand),
                cmocka_unit_test(what_is_in_hand_of_a_destroyed_endpoint_is_dropped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
