/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RDMA host machine against a controller that does what it should not, over verbs in memory: the
 * controller is the test itself. However it ends, every command is called back once, the memory is
 * the host's own again, and nothing is left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/rdma/rdma_host.h"
#include "pdu/verbs/memory_verbs.h" /* before cmocka, whose fail() is a macro */
#include "pdu/verbs/rdma_life.h"

#include <cmocka.h>

enum { DEPTH = 4, DATA = 512, ROOM = 16384 };

static struct memory_fabric *fabric;
static struct verbs_listener *listener;
static struct verbs_conn_param request;  /* of the host */
static struct verbs_conn_param response; /* of the controller */
static struct rdma_request request_data;
static uint8_t response_data[196];

static struct {
        struct verbs_context *c;
        struct verbs_domain *d;
        struct verbs_ep *ep;
        struct rdma_life life;
        struct rdma_host *machine;
        struct verbs_mr mr;
        uint8_t memory[ROOM]; /* the machine's, then the commands' data */
        struct host_cmd cmd[DEPTH];
        unsigned called_back[DEPTH];
        struct verbs_event last;
} host;

static struct {
        struct verbs_context *c;
        struct verbs_domain *d;
        struct verbs_ep *ep;
        struct verbs_mr mr;
        uint8_t memory[ROOM];
        struct verbs_wr recv[DEPTH + 1], wr[16];
        union sqe sqe[DEPTH]; /* that came */
        unsigned came, posted;
} ctrl;

/* --- the host's owner --------------------------------------------------------------------------- */

static void *memory(void *user, size_t bytes, uint32_t *lkey)
{
        (void)user;
        assert_true(bytes <= ROOM / 2);
        *lkey = host.mr.lkey;
        return host.memory;
}

static void memory_put(void *user, void *p, size_t bytes)
{
        (void)user;
        (void)bytes;
        assert_ptr_equal(p, host.memory);
}

static bool data_keys(void *user, const void *data, uint32_t len, uint32_t *lkey, uint32_t *rkey)
{
        (void)user;
        (void)data;
        (void)len;
        *lkey = host.mr.lkey;
        *rkey = host.mr.rkey;
        return true;
}

static void post(void)
{
        struct verbs_wr *bad, *chain;

        if (host.life.state > LIFE_LIVE)
                return;
        if ((chain = rdma_host_take_recvs(host.machine)))
                assert_int_equal(verbs_post_recv(host.ep, chain, &bad), 0);
        if ((chain = rdma_host_take(host.machine)))
                assert_int_equal(verbs_post(host.ep, chain, &bad), 0);
}

static void act(unsigned actions)
{
        struct verbs_wr *bad;

        if (actions & LIFE_DO_DISCONNECT)
                verbs_disconnect(host.ep);
        if (actions & LIFE_DO_FAIL) {
                verbs_fail(host.ep);
                verbs_post(host.ep, life_send_sentinel(&host.life), &bad);
                verbs_post_recv(host.ep, life_recv_sentinel(&host.life), &bad);
        }
        if (actions & LIFE_DO_END)
                rdma_host_fail_all(host.machine, NVME_TRANSIENT_TRANSPORT);
        if (actions & LIFE_DO_RELEASE) {
                verbs_destroy(host.ep);
                rdma_host_free(host.machine);
                verbs_dereg(host.d, &host.mr);
        }
}

static void happens(enum life_event e)
{
        act(life_event(&host.life, e));
}

static void take_events(void)
{
        struct verbs_event v;

        while (verbs_event(host.c, &v)) {
                host.last = v;
                if (life_event_of(v.type) != LIFE_EVENTS)
                        happens(life_event_of(v.type));
        }
}

static void take_completions(void)
{
        struct verbs_wc wc;

        while (verbs_poll(host.d, &wc, 1) > 0)
                if (!life_sentinel_flushed(&host.life, wc.wr) &&
                    rdma_host_completed(host.machine, &wc))
                        happens(LIFE_FAILED);
        if (host.life.state == LIFE_DRAINING && host.life.sentinels == 0)
                happens(LIFE_DRAINED);
}

static void host_turn(void)
{
        memory_idle(fabric);
        take_events();
        if (host.life.state < LIFE_RELEASED)
                take_completions();
        if (host.life.state < LIFE_RELEASED)
                post();
        memory_idle(fabric);
}

static void done(struct host_cmd *cmd, void *user)
{
        (void)user;
        host.called_back[cmd - host.cmd]++;
}

static void submit(unsigned i, enum nvme_xfer xfer)
{
        host.cmd[i] = (struct host_cmd) { .data = host.memory + ROOM / 2 + i * DATA,
                                          .len = DATA,
                                          .xfer = xfer,
                                          .command_buffer = true,
                                          .done = done };
        host.cmd[i].sqe.opc = xfer == XFER_H2C ? NVME_WRITE : NVME_READ;
        assert_int_equal(rdma_host_submit(host.machine, &host.cmd[i]), 0);
        host_turn();
}

/* --- setting up --------------------------------------------------------------------------------- */

static void host_prepare(uint32_t inline_bytes)
{
        const struct rdma_host_config cfg = {
                .qid = 1, .depth = DEPTH, .capsule_max = 64, .inline_bytes = inline_bytes
        };
        static const struct rdma_host_ops ops = { memory, memory_put, data_keys };
        const struct verbs_qp_attr attr = { 3 * DEPTH + RDMA_HOST_SIGNAL, DEPTH + 2, inline_bytes };

        host.d = verbs_domain(host.ep);
        assert_int_equal(verbs_grow_cq(host.d, 64), 0);
        assert_int_equal(verbs_qp(host.ep, &attr), 0);
        host.life.has_qp = true;
        assert_int_equal(
            verbs_reg(host.d, host.memory, ROOM, VERBS_REMOTE_READ | VERBS_REMOTE_WRITE, &host.mr),
            0);
        host.machine = rdma_host_new(&cfg, &ops, NULL);
        assert_non_null(host.machine);
        post();
}

static void asked(const struct memory_caps *caps)
{
        struct memory_config cfg = { .caps = caps };
        struct verbs_event v;

        fabric = memory_fabric_new(&cfg);
        memset(&host, 0, sizeof(host));
        memset(&ctrl, 0, sizeof(ctrl));
        memset(response_data, 0, sizeof(response_data));
        life_init(&host.life);
        host.c = verbs_open(memory_provider(fabric));
        ctrl.c = verbs_open(memory_provider(fabric));
        listener = verbs_listen(ctrl.c, "10.0.0.2", "4420", 8);
        request_data = (struct rdma_request) { .qid = le16(1),
                                               .hrqsize = le16(DEPTH + 1),
                                               .hsqsize = le16(DEPTH) };
        request = (struct verbs_conn_param) {
                .data = &request_data, .len = 32, .reads_in = 4, .rnr_retry = 7
        };
        response = (struct verbs_conn_param) {
                .data = response_data, .len = 32, .reads_out = 4, .rnr_retry = 7
        };
        host.ep = verbs_resolve(host.c, "10.0.0.2", "4420", 1000);
        memory_idle(fabric);
        assert_true(verbs_event(host.c, &v));
        assert_int_equal(v.type, VERBS_RESOLVED);
        host_prepare(64);
        assert_int_equal(verbs_connect(host.ep, &request), 0);
        memory_idle(fabric);
        assert_true(verbs_event(ctrl.c, &v));
        ctrl.ep = v.ep;
}

static void accept_it(void)
{
        const struct verbs_qp_attr attr = { 16, DEPTH + 2, 64 };
        struct verbs_wr *bad;

        ctrl.d = verbs_domain(ctrl.ep);
        assert_int_equal(verbs_grow_cq(ctrl.d, 64), 0);
        assert_int_equal(verbs_qp(ctrl.ep, &attr), 0);
        assert_int_equal(verbs_reg(ctrl.d, ctrl.memory, ROOM, 0, &ctrl.mr), 0);
        for (unsigned i = 0; i <= DEPTH; i++) {
                ctrl.recv[i] = (struct verbs_wr) {
                        .op = VERBS_RECV,
                        .n_sge = 1,
                        .sge = { { ctrl.memory + ROOM / 2 + i * 64, 64, ctrl.mr.lkey } },
                };
                assert_int_equal(verbs_post_recv(ctrl.ep, &ctrl.recv[i], &bad), 0);
        }
        assert_int_equal(verbs_accept(ctrl.ep, &response), 0);
        host_turn();
}

static void live(const struct memory_caps *caps)
{
        asked(caps);
        accept_it();
        assert_int_equal(host.life.state, LIFE_LIVE);
}

/* Commands that came are in ctrl.sqe[]. */
static void take_commands(void)
{
        struct verbs_wc wc;

        memory_idle(fabric);
        while (verbs_poll(ctrl.d, &wc, 1) > 0)
                if (wc.wr->op == VERBS_RECV && wc.status == VERBS_SUCCESS)
                        memcpy(&ctrl.sqe[ctrl.came++], wc.wr->sge[0].addr, 64);
}

static void controller_leaves(void)
{
        if (ctrl.ep)
                verbs_destroy(ctrl.ep);
        ctrl.ep = NULL;
        if (ctrl.mr.own)
                verbs_dereg(ctrl.d, &ctrl.mr);
        ctrl.mr.own = NULL;
}

/* The host ends by itself, or because the controller goes. */
static void end(void)
{
        controller_leaves();
        for (unsigned i = 0; i < 4; i++)
                if (host.life.state < LIFE_RELEASED)
                        host_turn();
        assert_int_equal(host.life.state, LIFE_RELEASED);
        for (unsigned i = 0; i < DEPTH; i++)
                assert_int_equal(host.called_back[i], host.cmd[i].done != NULL);
        verbs_unlisten(listener);
        assert_int_equal(memory_leaked(fabric), 0);
        memory_fabric_free(fabric);
}

/* The host is to end the connection by itself, while the controller stays. */
static void expect_end(enum rule_id rule, enum life_event cause)
{
        struct fault f;
        bool gone = false;

        memory_idle(fabric);
        take_events();
        if (host.life.state < LIFE_RELEASED) {
                struct verbs_wc wc;

                while (verbs_poll(host.d, &wc, 1) > 0)
                        if (!life_sentinel_flushed(&host.life, wc.wr) &&
                            rdma_host_completed(host.machine, &wc))
                                happens(LIFE_FAILED);
        }
        assert_int_equal(host.life.state, LIFE_DRAINING);
        f = rdma_host_fault(host.machine);
        assert_int_equal(f.rule, rule);
        assert_int_equal(host.life.cause, cause);
        for (unsigned i = 0; i < 3 && !gone; i++) {
                host_turn();
                gone = host.life.state == LIFE_RELEASED;
        }
        assert_true(gone);
        end();
}

/* --- what a controller sends -------------------------------------------------------------------- */

static struct verbs_wr *send(const void *bytes, uint32_t len)
{
        struct verbs_wr *w = &ctrl.wr[ctrl.posted];
        uint8_t *at = ctrl.memory + 128 * ctrl.posted++;

        assert_true(len <= 128);
        memcpy(at, bytes, len < sizeof(struct cqe) ? len : sizeof(struct cqe));
        *w = (struct verbs_wr) { .op = VERBS_SEND,
                                 .n_sge = 1,
                                 .sge = { { at, len, ctrl.mr.lkey } } };
        return w;
}

static void post_ctrl(struct verbs_wr *w)
{
        struct verbs_wr *bad;

        assert_int_equal(verbs_post(ctrl.ep, w, &bad), 0);
}

static struct cqe answer_to(unsigned i)
{
        take_commands();
        assert_true(i < ctrl.came);
        return (struct cqe) { .cid = ctrl.sqe[i].cid };
}

/* --- acceptances and rejections ------------------------------------------------------------------ */

static void says_what_is_wrong(enum rule_id rule)
{
        struct rule_set found = { 0 };

        accept_it();
        assert_int_equal(host.last.type, VERBS_ESTABLISHED);
        rdma_accept_check(host.last.data, host.last.param.len, host.last.param.reads_in,
                          &request_data, &found);
        if (rule == RULE_NONE)
                assert_true(rule_set_empty(&found));
        else
                assert_true(rule_in(&found, rule));
        happens(LIFE_ABORT);
        end();
}

static void acceptances_that_are_wrong(void **state)
{
        struct memory_caps caps;

        (void)state;
        asked(NULL);
        memcpy(response_data, &(struct rdma_accept) { .crqsize = le16(DEPTH) }, 32);
        says_what_is_wrong(RULE_NONE);
        asked(NULL);
        memcpy(response_data, &(struct rdma_accept) { .crqsize = le16(DEPTH), .recfmt = le16(1) },
               32);
        says_what_is_wrong(RDMA_ACC_RECFMT);
        asked(NULL);
        memcpy(response_data, &(struct rdma_accept) { .crqsize = le16(DEPTH + 2) }, 32);
        says_what_is_wrong(RDMA_ACC_CRQSIZE);
        asked(NULL);
        memset(response_data, 0xff, sizeof(response_data));
        response.len = 196;
        says_what_is_wrong(RDMA_ACC_RSVD);
        asked(NULL);
        memcpy(response_data, &(struct rdma_accept) { .crqsize = le16(DEPTH) }, 32);
        response.reads_in = 3;
        says_what_is_wrong(RDMA_ACC_IRD);
        memory_caps_default(&caps);
        caps.no_padding = true;
        for (uint8_t len = 0; len < 32; len++) {
                asked(&caps);
                response.len = len;
                says_what_is_wrong(RDMA_ACC_LENGTH);
        }
}

static void rejections_with_and_without_a_word(void **state)
{
        struct memory_caps caps;

        (void)state;
        memory_caps_default(&caps);
        for (unsigned sts = 0; sts < 12; sts++)
                for (unsigned len = 0; len <= 4; len += 2)
                        for (int padded = 0; padded < 2; padded++) {
                                struct rdma_reject r = { .sts = le16((uint16_t)sts) }, got;

                                caps.no_padding = !padded;
                                asked(&caps);
                                assert_int_equal(verbs_reject(ctrl.ep, &r, (uint8_t)len), 0);
                                host_turn();
                                assert_int_equal(host.last.type, VERBS_REJECTED);
                                assert_int_equal(host.last.reason, 28);
                                assert_int_equal(
                                    rdma_reject_read(host.last.data, host.last.param.len, &got),
                                    padded || len == 4);
                                if (len == 4)
                                        assert_int_equal(le16_get(got.sts), sts);
                                assert_int_equal(host.life.cause, LIFE_REFUSED);
                                end();
                        }
}

static void a_request_that_is_never_answered(void **state)
{
        (void)state;
        asked(NULL);
        host_turn();
        assert_int_equal(host.life.state, LIFE_CONNECTING);
        happens(LIFE_LATE);
        host_turn();
        assert_int_equal(host.life.state, LIFE_RELEASED);
        end();
}

static void gone_before_it_was_established(void **state)
{
        (void)state;
        asked(NULL);
        accept_it();
        assert_int_equal(verbs_disconnect(ctrl.ep), 0);
        host_turn();
        assert_true(host.life.state >= LIFE_DRAINING);
        end();
}

/* --- responses ---------------------------------------------------------------------------------- */

static void the_good_one(void **state)
{
        struct cqe cqe;

        (void)state;
        live(NULL);
        submit(0, XFER_H2C);
        cqe = answer_to(0);
        post_ctrl(send(&cqe, 16));
        host_turn();
        assert_int_equal(host.called_back[0], 1);
        assert_int_equal(host.cmd[0].status, 0);
        assert_int_equal(host.life.state, LIFE_LIVE);
        end();
}

static void responses_of_other_lengths(void **state)
{
        static const uint32_t lengths[] = { 0, 1, 8, 15, 17, 32, 63, 64 };
        struct cqe cqe;

        (void)state;
        for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
                live(NULL);
                submit(0, XFER_C2H);
                cqe = answer_to(0);
                post_ctrl(send(&cqe, lengths[i]));
                expect_end(RDMA_RSP_LENGTH, LIFE_FAILED);
                assert_int_equal(host.cmd[0].status, NVME_TRANSIENT_TRANSPORT);
        }
}

static void a_response_longer_than_any_receive(void **state)
{
        struct cqe cqe;

        (void)state;
        live(NULL);
        submit(0, XFER_C2H);
        cqe = answer_to(0);
        post_ctrl(send(&cqe, 128));
        expect_end(RULE_NONE, LIFE_FAILED); /* the device has said it already */
}

static void responses_to_nothing(void **state)
{
        struct cqe cqe;

        (void)state;
        for (unsigned cid = 0; cid < 65536; cid += 257) {
                live(NULL);
                submit(0, XFER_C2H);
                submit(1, XFER_C2H);
                cqe = answer_to(1);
                if (cid == le16_get(cqe.cid) || cid == le16_get(ctrl.sqe[0].cid)) {
                        end();
                        continue;
                }
                cqe.cid = le16((uint16_t)cid);
                post_ctrl(send(&cqe, 16));
                expect_end(RDMA_RSP_CID, LIFE_FAILED);
        }
}

static void one_before_any_command(void **state)
{
        struct cqe cqe = { 0 };

        (void)state;
        live(NULL);
        post_ctrl(send(&cqe, 16));
        expect_end(RDMA_RSP_CID, LIFE_FAILED);
}

static void the_same_twice(void **state)
{
        struct cqe cqe;

        (void)state;
        live(NULL);
        submit(0, XFER_C2H);
        submit(1, XFER_C2H);
        cqe = answer_to(0);
        post_ctrl(send(&cqe, 16));
        post_ctrl(send(&cqe, 16));
        expect_end(RDMA_RSP_CID, LIFE_FAILED);
        assert_int_equal(host.cmd[0].status, 0);
        assert_int_equal(host.cmd[1].status, NVME_TRANSIENT_TRANSPORT);
}

static void more_than_there_are_receives(void **state)
{
        struct cqe cqe = { .cid = le16(0xfff) };

        (void)state;
        live(NULL);
        submit(0, XFER_C2H);
        for (unsigned i = 0; i < 10; i++)
                post_ctrl(send(&cqe, 16));
        expect_end(RDMA_RSP_CID, LIFE_FAILED);
}

/* --- keys --------------------------------------------------------------------------------------- */

/* No command of this host asks for it. */
static void invalidating_what_nobody_offered(void **state)
{
        struct memory_caps caps;
        struct verbs_wr *w;
        struct cqe cqe;

        (void)state;
        memory_caps_default(&caps);
        caps.device.invalidates_mr = true;
        live(&caps);
        submit(0, XFER_H2C);
        cqe = answer_to(0);
        w = send(&cqe, 16);
        w->op = VERBS_SEND_INVALIDATE;
        w->rkey = host.mr.rkey;
        post_ctrl(w);
        expect_end(RDMA_INV_UNASKED, LIFE_FAILED);
}

static void invalidating_what_the_device_refuses(void **state)
{
        struct verbs_wr *w;
        struct cqe cqe;

        (void)state;
        for (uint32_t off = 0; off < 3; off++) {
                live(NULL);
                submit(0, XFER_H2C);
                cqe = answer_to(0);
                w = send(&cqe, 16);
                w->op = VERBS_SEND_INVALIDATE;
                w->rkey = host.mr.rkey + off;
                post_ctrl(w);
                expect_end(RULE_NONE, LIFE_FAILED);
        }
}

static struct verbs_wr *reach(enum verbs_op op, uint64_t addr, uint32_t key, uint32_t len)
{
        struct verbs_wr *w = &ctrl.wr[ctrl.posted++];

        *w = (struct verbs_wr) { .op = op,
                                 .n_sge = 1,
                                 .sge = { { ctrl.memory, len, ctrl.mr.lkey } },
                                 .remote = addr,
                                 .rkey = key };
        return w;
}

static void reaching_where_it_may_not(void **state)
{
        uint64_t at = (uintptr_t)host.memory;

        (void)state;
        for (enum verbs_op op = VERBS_READ; op <= VERBS_WRITE; op++) {
                live(NULL);
                submit(0, XFER_C2H);
                take_commands();
                post_ctrl(reach(op, at + ROOM - 1, host.mr.rkey, 2));
                expect_end(RULE_NONE, LIFE_FAILED);
                live(NULL);
                submit(0, XFER_C2H);
                post_ctrl(reach(op, at, host.mr.rkey ^ 1, 2));
                expect_end(RULE_NONE, LIFE_FAILED);
        }
}

static void nothing_reaches_the_memory_of_what_was_called_back(void **state)
{
        struct verbs_wr *bad, *w;
        struct rdma_buffer b;

        (void)state;
        live(NULL);
        submit(0, XFER_C2H);
        take_commands();
        assert_true(sgl_get_keyed(&ctrl.sqe[0].sgl, &b));
        happens(LIFE_ABORT);
        host_turn();
        assert_int_equal(host.called_back[0], 1);
        memset(host.memory + ROOM / 2, 0x11, DATA);
        w = reach(VERBS_WRITE, b.addr, b.key, DATA);
        memset(ctrl.memory, 0x22, DATA);
        if (verbs_post(ctrl.ep, w, &bad) == 0)
                memory_idle(fabric);
        for (unsigned i = 0; i < DATA; i++)
                assert_int_equal(host.memory[ROOM / 2 + i], 0x11);
        end();
}

/* --- silence ------------------------------------------------------------------------------------ */

static void dreq_is_never_answered(void **state)
{
        (void)state;
        live(NULL);
        submit(0, XFER_C2H);
        happens(LIFE_CLOSE);
        host_turn();
        assert_int_equal(host.life.state, LIFE_CLOSING);
        assert_int_equal(host.called_back[0], 0);
        happens(LIFE_LATE);
        host_turn();
        assert_int_equal(host.life.state, LIFE_RELEASED);
        end();
}

static void it_leaves_in_the_middle(void **state)
{
        (void)state;
        live(NULL);
        for (unsigned i = 0; i < DEPTH; i++)
                submit(i, i & 1 ? XFER_H2C : XFER_C2H);
        take_commands();
        assert_int_equal(ctrl.came, DEPTH);
        end();
}

static void it_stops_to_receive(void **state)
{
        (void)state;
        for (uint8_t retries = 0; retries < 7; retries += 3) {
                asked(NULL);
                response.rnr_retry = retries;
                accept_it();
                verbs_fail(ctrl.ep);
                submit(0, XFER_C2H);
                host_turn();
                assert_int_equal(host.life.cause, LIFE_FAILED);
                end();
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(acceptances_that_are_wrong),
                cmocka_unit_test(rejections_with_and_without_a_word),
                cmocka_unit_test(a_request_that_is_never_answered),
                cmocka_unit_test(gone_before_it_was_established),
                cmocka_unit_test(the_good_one),
                cmocka_unit_test(responses_of_other_lengths),
                cmocka_unit_test(a_response_longer_than_any_receive),
                cmocka_unit_test(responses_to_nothing),
                cmocka_unit_test(one_before_any_command),
                cmocka_unit_test(the_same_twice),
                cmocka_unit_test(more_than_there_are_receives),
                cmocka_unit_test(invalidating_what_nobody_offered),
                cmocka_unit_test(invalidating_what_the_device_refuses),
                cmocka_unit_test(reaching_where_it_may_not),
                cmocka_unit_test(nothing_reaches_the_memory_of_what_was_called_back),
                cmocka_unit_test(dreq_is_never_answered),
                cmocka_unit_test(it_leaves_in_the_middle),
                cmocka_unit_test(it_stops_to_receive),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
