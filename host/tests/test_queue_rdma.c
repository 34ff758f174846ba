/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue over RDMA, with verbs in memory and a controller that the test plays, right and wrong. The
 * fabric and the controller run whenever the queue looks for events or completions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/random.h"
#include "host/nvme/build.h" /* before cmocka, whose fail() is a macro */
#include "host/nvme/queue.h"
#include "pdu/nvme/wire/rdma.h"
#include "pdu/verbs/memory_verbs.h"

#include <cmocka.h>

enum {
        ENTRIES = 8,
        RECVS = ENTRIES + 2,
        IN_CAPSULE = 4096,
        CAPSULE = 64 + IN_CAPSULE,
        DATA = 32768,
        SENDS = 64,
        PATIENCE = 60000, /* ms; what takes longer hangs */
        HASTY = 300,      /* where nothing will come */
        PATTERN = 0x5a,
};

static struct verbs ops; /* memory_ops, but that the other side runs meanwhile */
static struct memory_fabric *fabric;
static struct rule_policy policy;
static struct host_queue queue;
static struct host_error error;
static uint64_t seed;
static bool invalidates_mr; /* the device may */
static unsigned timeout;

/* What the controller does; all zero: what it should. */
static struct {
        bool ignores; /* connect requests */
        bool mute;    /* answers no command */
        bool rejects;
        uint8_t reject[8], reject_len;
        struct rdma_accept accept;
        uint8_t accept_len;
        void (*respond)(const union sqe *sqe); /* in place of a good response */
} script;

static struct {
        struct verbs_context *context;
        struct verbs_listener *listener;
        struct verbs_domain *domain;
        struct verbs_ep *ep;
        struct verbs_mr mr;
        struct memory {
                uint8_t capsule[RECVS][CAPSULE];
                uint8_t data[DATA];
                uint8_t response[SENDS][64];
        } m;
        struct verbs_wr recv[RECVS], wr[2 * SENDS];
        unsigned next_wr, next_response;
        struct rdma_request request; /* of the last connect */
        struct verbs_conn_param param;
        union sqe sqe; /* that came last */
        unsigned came, connects;
        bool disconnected;
} ctrl;

static struct verbs_ep *host_ep; /* as the fabric's tap saw it */

static void tap(void *user, const struct memory_tap_entry *e)
{
        (void)user;
        if (e->by_connector)
                host_ep = (struct verbs_ep *)(uintptr_t)e->from;
}

static uint32_t choose(void *user)
{
        (void)user;
        return (uint32_t)random_next(&seed);
}

/* --- the controller --------------------------------------------------------------------------- */

static void post_recv(unsigned i)
{
        struct verbs_wr *bad;

        ctrl.recv[i] = (struct verbs_wr) {
                .op = VERBS_RECV,
                .n_sge = 1,
                .sge = { { .addr = ctrl.m.capsule[i], .len = CAPSULE, .lkey = ctrl.mr.lkey } },
        };
        assert_int_equal(verbs_post_recv(ctrl.ep, &ctrl.recv[i], &bad), 0);
}

static struct verbs_wr *work(enum verbs_op op, void *addr, uint32_t len)
{
        struct verbs_wr *wr = &ctrl.wr[ctrl.next_wr++ % (2 * SENDS)];

        *wr = (struct verbs_wr) { .op = op,
                                  .flags = VERBS_SIGNALED,
                                  .n_sge = 1,
                                  .sge = { { .addr = addr, .len = len, .lkey = ctrl.mr.lkey } } };
        return wr;
}

/* What was refused shows at the host. */
static void post(struct verbs_wr *chain)
{
        struct verbs_wr *bad;

        verbs_post(ctrl.ep, chain, &bad);
}

static struct verbs_wr *response(uint16_t cid, unsigned status, uint32_t len)
{
        uint8_t *bytes = ctrl.m.response[ctrl.next_response++ % SENDS];
        struct cqe cqe = { .cid = le16(cid), .sf = status_field(status) };

        memset(bytes, 0, sizeof(ctrl.m.response[0]));
        memcpy(bytes, &cqe, sizeof(cqe));
        return work(VERBS_SEND, bytes, len);
}

static uint16_t cid_of(const union sqe *sqe)
{
        return le16_get(sqe->cid);
}

/* Data by READ or WRITE, and the response after it. */
static void respond(const union sqe *sqe)
{
        struct verbs_wr *send = response(cid_of(sqe), 0, sizeof(struct cqe)), *move;
        enum nvme_xfer xfer = sqe_xfer(sqe);
        struct rdma_buffer b;

        if (!sgl_get_keyed(&sqe->sgl, &b) || b.len == 0) {
                post(send);
                return;
        }
        assert_true(b.len <= DATA);
        if (xfer == XFER_C2H)
                memset(ctrl.m.data, PATTERN, b.len);
        move = work(xfer == XFER_H2C ? VERBS_READ : VERBS_WRITE, ctrl.m.data, b.len);
        move->remote = b.addr;
        move->rkey = b.key;
        move->next = send;
        send->flags |= VERBS_FENCE;
        post(move);
}

static void take_capsule(const struct verbs_wc *wc)
{
        unsigned i = (unsigned)(wc->wr - ctrl.recv);

        memcpy(&ctrl.sqe, ctrl.m.capsule[i], sizeof(ctrl.sqe));
        if (ctrl.sqe.sgl.id == SGL_IN_CAPSULE)
                memcpy(ctrl.m.data, ctrl.m.capsule[i] + 64, le32_get(ctrl.sqe.sgl.len));
        ctrl.came++;
        post_recv(i);
        if (script.mute)
                return;
        if (script.respond)
                script.respond(&ctrl.sqe);
        else
                respond(&ctrl.sqe);
}

static void accept_connect(void)
{
        const struct verbs_qp_attr attr = { .send_wrs = 2 * SENDS, .recv_wrs = RECVS };
        const struct verbs_conn_param param = {
                .data = &script.accept, .len = script.accept_len, .reads_out = 4, .rnr_retry = 7
        };

        ctrl.domain = verbs_domain(ctrl.ep);
        assert_non_null(ctrl.domain);
        assert_int_equal(verbs_grow_cq(ctrl.domain, 4 * SENDS), 0);
        assert_int_equal(verbs_qp(ctrl.ep, &attr), 0);
        if (!ctrl.mr.lkey)
                assert_int_equal(verbs_reg(ctrl.domain, &ctrl.m, sizeof(ctrl.m), 0, &ctrl.mr), 0);
        for (unsigned i = 0; i < RECVS; i++)
                post_recv(i);
        assert_int_equal(verbs_accept(ctrl.ep, &param), 0);
}

static void take_request(const struct verbs_event *v)
{
        ctrl.connects++;
        ctrl.param = v->param;
        rdma_request_read(v->param.data, v->param.len, &ctrl.request);
        if (script.ignores)
                return;
        if (script.rejects) {
                verbs_reject(v->ep, script.reject, script.reject_len);
                verbs_destroy(v->ep);
                return;
        }
        ctrl.ep = v->ep;
        accept_connect();
}

static void take_event(const struct verbs_event *v)
{
        if (v->type == VERBS_CONNECT_REQUEST)
                take_request(v);
        if (v->type == VERBS_DISCONNECTED && v->ep == ctrl.ep) {
                verbs_disconnect(v->ep);
                verbs_destroy(v->ep);
                ctrl.ep = NULL;
                ctrl.disconnected = true;
        }
}

/* One round; true: there was something to do. */
static bool serve(void)
{
        struct verbs_event v;
        struct verbs_wc wc;
        bool any = false;

        while (ctrl.context && memory_ops.event(ctrl.context, &v)) {
                v.param.data = v.param.data ? v.data : NULL;
                take_event(&v);
                any = true;
        }
        while (ctrl.domain && memory_ops.poll(ctrl.domain, &wc, 1) > 0) {
                if (wc.wr->op == VERBS_RECV && wc.status == VERBS_SUCCESS && ctrl.ep)
                        take_capsule(&wc);
                any = true;
        }
        return any;
}

static void run_world(void)
{
        static bool running;

        if (running)
                return;
        running = true;
        do
                memory_idle(fabric);
        while (serve());
        running = false;
}

static bool event(struct verbs_context *c, struct verbs_event *e)
{
        run_world();
        return memory_ops.event(c, e);
}

static int poll_cq(struct verbs_domain *d, struct verbs_wc *wc, int max)
{
        run_world();
        return memory_ops.poll(d, wc, max);
}

/* --- set-up ----------------------------------------------------------------------------------- */

static void world_new(bool random)
{
        struct memory_caps caps;
        const struct memory_config cfg = {
                .caps = &caps, .ops = &ops, .tap = tap, .random = random ? choose : NULL
        };

        memory_caps_default(&caps);
        caps.device.invalidates_mr = invalidates_mr;
        memset(&ctrl, 0, sizeof(ctrl));
        memset(&script, 0, sizeof(script));
        memset(&policy, 0, sizeof(policy));
        memset(&error, 0, sizeof(error));
        timeout = PATIENCE;
        script.accept = (struct rdma_accept) { .crqsize = le16(ENTRIES) };
        script.accept_len = sizeof(script.accept);
        ops = memory_ops;
        ops.event = event;
        ops.poll = poll_cq;
        fabric = memory_fabric_new(&cfg);
        assert_non_null(fabric);
        ctrl.context = verbs_open(memory_provider(fabric));
        ctrl.listener = verbs_listen(ctrl.context, "10.0.0.2", "4420", 4);
        assert_non_null(ctrl.listener);
}

static struct host_queue_config config(uint16_t qid)
{
        return (struct host_queue_config) { .transport = HOST_RDMA,
                                            .verbs = memory_provider(fabric),
                                            .traddr = "10.0.0.2",
                                            .trsvcid = "4420",
                                            .qid = qid,
                                            .entries = ENTRIES,
                                            .timeout = timeout,
                                            .in_capsule = IN_CAPSULE,
                                            .policy = &policy,
                                            .cntlid = 77 };
}

static int queue_open(uint16_t qid)
{
        struct host_queue_config cfg = config(qid);

        return host_queue_open(&queue, &cfg, &error);
}

/* Nothing of the host's is left, whatever happened. */
static void world_free(void)
{
        struct memory_count left;

        run_world();
        if (ctrl.ep)
                verbs_destroy(ctrl.ep);
        ctrl.ep = NULL;
        verbs_unlisten(ctrl.listener);
        if (ctrl.mr.lkey)
                verbs_dereg(ctrl.domain, &ctrl.mr);
        ctrl.domain = NULL;
        left = memory_leaks(fabric);
        assert_int_equal(left.contexts, 1);
        assert_int_equal(left.qps + left.mrs + left.posted + left.windows, 0);
        verbs_close(ctrl.context);
        ctrl.context = NULL;
        memory_fabric_free(fabric);
}

static void opened(uint16_t qid)
{
        world_new(false);
        if (queue_open(qid) < 0)
                fail_msg("%s", error.line);
}

static void closed(void)
{
        host_queue_close(&queue);
        world_free();
}

static void says(const char *words)
{
        if (!strstr(error.line, words))
                fail_msg("'%s' does not say '%s'", error.line, words);
        assert_null(strchr(error.line, '\n'));
        assert_int_equal(error.kind, HOST_BROKEN);
}

static int run_flush(void)
{
        union sqe sqe = build_admin(NVME_FLUSH, 1, 0, 0);

        return host_queue_run(&queue, &sqe, NULL, 0, NULL, &error);
}

static int run_io(uint8_t opc, void *data, uint32_t len)
{
        union sqe sqe = build_rw(opc, 1, 0, len / 512, 0);

        return host_queue_run(&queue, &sqe, data, len, NULL, &error);
}

/* --- what goes well --------------------------------------------------------------------------- */

static void request_data(void **state)
{
        (void)state;
        opened(3);
        assert_int_equal(le16_get(ctrl.request.recfmt), 0);
        assert_int_equal(le16_get(ctrl.request.qid), 3);
        assert_int_equal(le16_get(ctrl.request.hrqsize), ENTRIES);
        assert_int_equal(le16_get(ctrl.request.hsqsize), ENTRIES - 1);
        assert_int_equal(le16_get(ctrl.request.cntlid), 77);
        assert_int_equal(ctrl.param.rnr_retry, 7);
        assert_true(ctrl.param.reads_in > 0);
        assert_int_equal(ctrl.param.reads_out, 0);
        assert_int_equal(queue.depth, ENTRIES - 1);
        closed();
        assert_true(ctrl.disconnected);

        opened(0);
        assert_int_equal(le16_get(ctrl.request.qid), 0);
        assert_int_equal(le16_get(ctrl.request.cntlid), 0);
        closed();
}

static void data_of_any_memory(void **state)
{
        static uint8_t data[DATA];

        (void)state;
        opened(1);
        assert_int_equal(run_flush(), 0);
        for (uint32_t len = 512; len <= DATA; len *= 2) {
                memset(data, 0, sizeof(data));
                assert_int_equal(run_io(NVME_READ, data, len), 0);
                for (uint32_t i = 0; i < DATA; i++)
                        assert_int_equal(data[i], i < len ? PATTERN : 0);
                for (uint32_t i = 0; i < len; i++)
                        data[i] = (uint8_t)(i * 7 + len / 512);
                memset(ctrl.m.data, 0, sizeof(ctrl.m.data));
                assert_int_equal(run_io(NVME_WRITE, data, len), 0);
                assert_int_equal(ctrl.sqe.sgl.id == SGL_IN_CAPSULE, len <= IN_CAPSULE);
                assert_memory_equal(ctrl.m.data, data, len);
        }
        closed();
}

static uint64_t address(void)
{
        struct rdma_buffer b;

        assert_true(sgl_get_keyed(&ctrl.sqe.sgl, &b));
        return b.addr;
}

static void registered_memory_is_used_as_it_is(void **state)
{
        static uint8_t data[DATA];

        (void)state;
        opened(1);
        assert_int_equal(host_queue_add_memory(&queue, data, sizeof(data), &error), 0);
        assert_int_equal(run_io(NVME_READ, data + 1024, 512), 0);
        assert_int_equal(address(), (uintptr_t)data + 1024);
        assert_int_equal(data[1024], PATTERN);
        assert_int_equal(run_io(NVME_WRITE, data, 8192), 0);
        assert_int_equal(address(), (uintptr_t)data);
        assert_int_equal(run_io(NVME_WRITE, data + 512, 512), 0);
        assert_int_equal(ctrl.m.data[511], data[1023]);

        host_queue_drop_memory(&queue, data);
        assert_int_equal(run_io(NVME_READ, data, 512), 0);
        assert_int_not_equal(address(), (uintptr_t)data);
        assert_int_equal(data[0], PATTERN);
        host_queue_drop_memory(&queue, data); /* says nothing new */
        closed();
}

static unsigned done_count;

static void count_done(struct host_cmd *cmd, void *user)
{
        uint16_t *status = user;

        *status = cmd->status;
        done_count++;
}

static struct host_cmd flush_cmd(uint16_t *status)
{
        return (
            struct host_cmd) { .sqe = { .opc = NVME_FLUSH }, .done = count_done, .user = status };
}

static void commands_within_crqsize(void **state)
{
        struct host_cmd cmd[ENTRIES];
        uint16_t status[ENTRIES];

        (void)state;
        world_new(false);
        script.accept.crqsize = le16(3);
        assert_int_equal(queue_open(1), 0);
        assert_int_equal(queue.depth, 3);
        done_count = 0;
        for (unsigned i = 0; i < ENTRIES; i++) {
                cmd[i] = flush_cmd(&status[i]);
                assert_int_equal(host_queue_submit(&queue, &cmd[i]), i < 3 ? 0 : -1);
        }
        while (done_count < 3)
                assert_true(host_queue_wait(&queue, 10) >= 0);
        assert_int_equal(run_flush(), 0);
        closed();
}

/* Whatever comes when. */
static void orders(void **state)
{
        static uint8_t data[DATA];
        unsigned rounds = 0;

        (void)state;
        for (uint64_t s = 1; s <= 100; s++) {
                struct host_cmd cmd[ENTRIES];
                uint16_t status[ENTRIES];

                seed = s;
                world_new(true);
                assert_int_equal(queue_open(1), 0);
                assert_int_equal(host_queue_add_memory(&queue, data, sizeof(data), &error), 0);
                done_count = 0;
                for (unsigned i = 0; i < ENTRIES - 1; i++) {
                        cmd[i] = (struct host_cmd) { .sqe = build_rw(NVME_READ, 1, 0, 1, 0),
                                                     .data = data + 512 * i,
                                                     .len = 512,
                                                     .xfer = XFER_C2H,
                                                     .done = count_done,
                                                     .user = &status[i] };
                        assert_int_equal(host_queue_submit(&queue, &cmd[i]), 0);
                }
                while (done_count < ENTRIES - 1 && rounds++ < 100000)
                        assert_true(host_queue_poll(&queue) >= 0);
                assert_int_equal(done_count, ENTRIES - 1);
                closed();
        }
}

/* --- connects that fail ----------------------------------------------------------------------- */

static void rejected_in_words(void **state)
{
        (void)state;
        for (uint16_t sts = RDMA_REJECT_LENGTH; sts <= RDMA_REJECT_CNTLID; sts++) {
                world_new(false);
                script.rejects = true;
                script.reject_len = sizeof(struct rdma_reject);
                le_put(script.reject + 2, 2, sts);
                assert_int_equal(queue_open(0), -1);
                says("controller rejected the connection");
                says(rdma_reject_name(sts));
                world_free();
        }
}

static void rejected_without_a_word(void **state)
{
        (void)state;
        world_new(false);
        script.rejects = true;
        assert_int_equal(queue_open(0), -1);
        says("rejected: refused by the controller (reason 28)");
        world_free();

        world_new(false); /* data that say nothing */
        script.rejects = true;
        script.reject_len = sizeof(struct rdma_reject);
        le_put(script.reject, 2, 5);
        assert_int_equal(queue_open(0), -1);
        says("reason 28");
        world_free();
}

static void nobody_listens(void **state)
{
        struct host_queue_config cfg;

        (void)state;
        world_new(false);
        cfg = config(0);
        cfg.trsvcid = "4421";
        assert_int_equal(host_queue_open(&queue, &cfg, &error), -1);
        says("no listener at this address");
        cfg.trsvcid = "nonsense";
        assert_int_equal(host_queue_open(&queue, &cfg, &error), -1);
        says("port nonsense");
        world_free();
}

static void bad_acceptance(void **state)
{
        static const struct {
                uint16_t recfmt, crqsize;
                uint8_t rsvd, len;
                enum rule_id rule; /* RULE_NONE: it is good enough */
        } cases[] = {
                { 0, ENTRIES, 0, 32, RULE_NONE },
                { 0, ENTRIES - 1, 0, 32, RULE_NONE },
                { 0, ENTRIES, 1, 32, RULE_NONE }, /* reserved bytes: tolerated */
                { 1, ENTRIES, 0, 32, RDMA_ACC_RECFMT },
                { 0, 0, 0, 32, RDMA_ACC_CRQSIZE },
                { 0, ENTRIES + 1, 0, 32, RDMA_ACC_CRQSIZE },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                world_new(false);
                script.accept = (struct rdma_accept) { .recfmt = le16(cases[i].recfmt),
                                                       .crqsize = le16(cases[i].crqsize) };
                script.accept.rsvd4[0] = cases[i].rsvd;
                script.accept_len = cases[i].len;
                if (cases[i].rule == RULE_NONE) {
                        assert_int_equal(queue_open(1), 0);
                        assert_int_equal(run_flush(), 0);
                        host_queue_close(&queue);
                } else {
                        assert_int_equal(queue_open(1), -1);
                        says(rule_get(cases[i].rule)->id);
                        rule_add(&policy.waived, cases[i].rule);
                        run_world();
                        assert_int_equal(queue_open(1), 0);
                        assert_int_equal(run_flush(), 0);
                        host_queue_close(&queue);
                }
                world_free();
        }
}

/* At least so many ms, and not forever. */
static void took(uint64_t began, uint64_t least)
{
        assert_in_range((loop_now_ns() - began) / 1000000, least, PATIENCE - 1);
}

static void no_answer_to_the_request(void **state)
{
        uint64_t began = loop_now_ns();

        (void)state;
        world_new(false);
        script.ignores = true;
        timeout = HASTY;
        assert_int_equal(queue_open(0), -1);
        says("no answer within 300 ms");
        took(began, HASTY);
        world_free();
}

/* The nth thing that is asked of the provider can't be had, for every n. */
static void resources_run_out(void **state)
{
        static uint8_t data[DATA];
        unsigned n = 0, refused = 0;

        (void)state;
        for (bool all_well = false; !all_well; refused += !all_well) {
                world_new(false);
                ctrl.domain = NULL;
                memory_refuse(fabric, MEMORY_ANY, ++n);
                script.ignores = true; /* so that nothing is refused to the controller */
                timeout = HASTY;
                all_well =
                    queue_open(1) < 0 && strstr(error.line, "no answer") && ctrl.connects > 0;
                memory_refuse(fabric, MEMORY_ANY, 0);
                assert_true(all_well || strstr(error.line, "queue 1"));
                world_free();
        }
        assert_true(refused >=
                    7); /* context, address, device, queue pair, memory, posts, connect */

        for (unsigned what = MEMORY_REG; what <= MEMORY_POST; what++) {
                opened(1);
                memory_refuse(fabric, (enum memory_what)what, 1);
                if (run_io(NVME_WRITE, data, DATA) < 0)
                        assert_true(queue.state.broken);
                memory_refuse(fabric, MEMORY_ANY, 0);
                closed();
        }
}

/* A completion that fails, the nth of a few commands. */
static void completions_fail(void **state)
{
        static uint8_t data[DATA];

        (void)state;
        for (unsigned n = 1; n <= 8; n++) {
                opened(1);
                assert_int_equal(run_flush(), 0);
                memory_fail_completion(host_ep, n, VERBS_REMOTE_OPERATION);
                for (unsigned i = 0; i < 4; i++) /* a SEND and a response each */
                        if (run_io(NVME_READ, data, 512) < 0)
                                says(verbs_status_name(VERBS_REMOTE_OPERATION));
                assert_true(queue.state.broken);
                closed();
        }
}

static void no_memory_for_data(void **state)
{
        static uint8_t data[DATA];

        (void)state;
        opened(1);
        memory_refuse(fabric, MEMORY_REG, 1);
        assert_int_equal(host_queue_add_memory(&queue, data, sizeof(data), &error), -1);
        says("cannot register 32768 bytes");
        memory_refuse(fabric, MEMORY_REG, 1);
        assert_int_equal(run_io(NVME_READ, data, sizeof(data)), -1);
        says("is full");
        closed();
}

/* --- controllers that do wrong ---------------------------------------------------------------- */

static void wrong_cid(const union sqe *sqe)
{
        post(response((uint16_t)(cid_of(sqe) + 1), 0, sizeof(struct cqe)));
}

static void short_response(const union sqe *sqe)
{
        post(response(cid_of(sqe), 0, 12));
}

static void long_response(const union sqe *sqe)
{
        post(response(cid_of(sqe), 0, 32));
}

static void twice(const union sqe *sqe)
{
        post(response(cid_of(sqe), 0, sizeof(struct cqe)));
        post(response(cid_of(sqe), 0, sizeof(struct cqe)));
}

static void hang_up(const union sqe *sqe)
{
        (void)sqe;
        verbs_disconnect(ctrl.ep);
}

static void device_goes(const union sqe *sqe)
{
        (void)sqe;
        memory_remove(fabric, NULL);
}

static void queue_pair_fails(const union sqe *sqe)
{
        (void)sqe;
        memory_inject(host_ep, VERBS_QP_ERROR, 0);
}

static void write_elsewhere(const union sqe *sqe)
{
        struct verbs_wr *wr = work(VERBS_WRITE, ctrl.m.data, 64);

        (void)sqe;
        wr->remote = 4096;
        wr->rkey = 12345;
        post(wr);
}

static void wrong_answers(void **state)
{
        static const struct {
                void (*respond)(const union sqe *sqe);
                const char *says;
        } cases[] = {
                { wrong_cid, "rdma/response/cid" },
                { short_response, "rdma/response/length" },
                { long_response, "rdma/response/length" },
                { hang_up, "controller closed the connection" },
                { device_goes, "the RDMA device was removed" },
                { queue_pair_fails, "the queue pair failed" },
                { write_elsewhere, "queue 1: " },
        };
        uint16_t status = 0, flushed = 0;

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct host_cmd other = flush_cmd(&status), more = flush_cmd(&flushed);

                opened(1);
                script.mute = true;
                done_count = 0;
                assert_int_equal(host_queue_submit(&queue, &other), 0);
                assert_int_equal(host_queue_poll(&queue) < 0, 0);
                script.mute = false;
                script.respond = cases[i].respond;
                assert_int_equal(run_flush(), -1);
                says(cases[i].says);
                assert_true(queue.state.broken);
                assert_int_equal(done_count, 1); /* that one, too, once */
                assert_int_equal(status, HOST_STATUS_ABORTED);
                assert_int_equal(host_queue_submit(&queue, &more), -1);
                assert_int_equal(host_queue_poll(&queue), -1);
                assert_int_equal(host_queue_wait(&queue, PATIENCE), -1);
                assert_int_equal(host_queue_add_memory(&queue, &status, 2, &error), -1);
                assert_int_equal(run_flush(), -1);
                says(cases[i].says);
                closed();
        }
}

static void answered_twice(void **state)
{
        (void)state;
        opened(1);
        script.respond = twice;
        run_flush(); /* the second answer may come with the first, or later */
        assert_true(host_queue_wait(&queue, 10) < 0 || host_queue_wait(&queue, 10) < 0);
        assert_non_null(strstr(queue.state.error.line, "rdma/response/cid"));
        closed();
}

static void waived(void **state)
{
        (void)state;
        world_new(false);
        rule_add(&policy.waived, RDMA_RSP_LENGTH);
        assert_int_equal(queue_open(1), 0);
        script.respond = long_response;
        assert_int_equal(run_flush(), 0);
        closed();
}

static void invalidate(const union sqe *sqe)
{
        struct verbs_wr *wr = response(cid_of(sqe), 0, sizeof(struct cqe));
        struct rdma_buffer b;

        assert_true(sgl_get_keyed(&sqe->sgl, &b));
        assert_false(b.invalidate);
        wr->op = VERBS_SEND_INVALIDATE;
        wr->rkey = b.key;
        post(wr);
}

static void invalidated_key(void **state)
{
        uint8_t data[512];

        (void)state;
        opened(1);
        script.respond = invalidate;
        assert_int_equal(run_io(NVME_READ, data, sizeof(data)), -1);
        says("RECV failed: "); /* the device does not let it happen */
        closed();

        invalidates_mr = true;
        opened(1);
        script.respond = invalidate;
        assert_int_equal(run_io(NVME_READ, data, sizeof(data)), -1);
        says("rdma/key/invalidate-unasked");
        closed();
        invalidates_mr = false;
}

static void never_answers(void **state)
{
        uint64_t began = loop_now_ns();

        (void)state;
        opened(1);
        script.mute = true;
        queue.timeout = HASTY;
        assert_int_equal(run_flush(), -1);
        says("no response to Flush within 300 ms");
        took(began, HASTY);
        closed();
}

static void work_fails(void **state)
{
        (void)state;
        opened(1);
        assert_int_equal(run_flush(), 0);
        memory_fail_work(host_ep, 1, VERBS_RETRY_EXCEEDED);
        assert_int_equal(run_flush(), -1);
        says("SEND failed: ");
        says(verbs_status_name(VERBS_RETRY_EXCEEDED));
        closed();
}

static void posts_are_refused(void **state)
{
        (void)state;
        opened(1);
        memory_refuse(fabric, MEMORY_POST, 1);
        assert_int_equal(run_flush(), -1);
        says("post: ");
        closed();
}

/* Closing is bounded. */
static void no_answer_to_the_disconnect(void **state)
{
        uint64_t began = loop_now_ns();
        struct host_cmd cmd;
        uint16_t status = 0;

        (void)state;
        opened(1);
        script.mute = true;
        cmd = flush_cmd(&status);
        done_count = 0;
        assert_int_equal(host_queue_submit(&queue, &cmd), 0);
        assert_true(host_queue_poll(&queue) >= 0);
        memory_hold_cm(host_ep, true);
        host_queue_close(&queue);
        took(began, 0);
        assert_int_equal(done_count, 1);
        assert_int_equal(status, HOST_STATUS_ABORTED);
        world_free();
}

/* An idle queue learns of it, too. */
static void idle_queue_ends(void **state)
{
        (void)state;
        opened(1);
        verbs_disconnect(ctrl.ep);
        assert_int_equal(host_queue_wait(&queue, PATIENCE), -1);
        assert_string_equal(queue.state.error.line, "queue 1: controller closed the connection");
        closed();

        opened(1);
        memory_remove(fabric, NULL);
        assert_int_equal(host_queue_wait(&queue, PATIENCE), -1);
        assert_non_null(strstr(queue.state.error.line, "removed"));
        closed();
}

static void broken_by_its_owner(void **state)
{
        struct host_cmd cmd;
        uint16_t status = 0;

        (void)state;
        opened(1);
        script.mute = true;
        cmd = flush_cmd(&status);
        done_count = 0;
        assert_int_equal(host_queue_submit(&queue, &cmd), 0); /* not sent yet */
        assert_int_equal(host_queue_break(&queue, "enough of %s", "it"), -1);
        assert_int_equal(done_count, 1);
        assert_int_equal(status, HOST_STATUS_ABORTED);
        assert_string_equal(queue.state.error.line, "enough of it");
        assert_int_equal(host_queue_break(&queue, "again"), -1);
        assert_string_equal(queue.state.error.line, "enough of it");
        closed();
}

static void break_it(struct host_cmd *cmd, void *user)
{
        count_done(cmd, user);
        host_queue_break(&queue, "broken from within done()");
}

/* From within done(), with completions of others in hand and more to come. */
static void broken_by_a_command(void **state)
{
        struct host_cmd cmd[ENTRIES - 1];
        uint16_t status[ENTRIES - 1];
        int n = 0;

        (void)state;
        opened(1);
        done_count = 0;
        for (unsigned i = 0; i < ENTRIES - 1; i++) {
                cmd[i] = flush_cmd(&status[i]);
                if (i == 2)
                        cmd[i].done = break_it;
                assert_int_equal(host_queue_submit(&queue, &cmd[i]), 0);
        }
        for (unsigned i = 0; i < 100 && n >= 0; i++)
                n = host_queue_poll(&queue);
        assert_int_equal(n, -1);
        assert_int_equal(done_count, ENTRIES - 1);
        assert_int_equal(status[0], 0);
        assert_int_equal(status[2], 0);
        assert_int_equal(status[ENTRIES - 2], HOST_STATUS_ABORTED);
        assert_string_equal(queue.state.error.line, "broken from within done()");
        closed();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(request_data),
                cmocka_unit_test(data_of_any_memory),
                cmocka_unit_test(registered_memory_is_used_as_it_is),
                cmocka_unit_test(commands_within_crqsize),
                cmocka_unit_test(orders),
                cmocka_unit_test(rejected_in_words),
                cmocka_unit_test(rejected_without_a_word),
                cmocka_unit_test(nobody_listens),
                cmocka_unit_test(bad_acceptance),
                cmocka_unit_test(no_answer_to_the_request),
                cmocka_unit_test(resources_run_out),
                cmocka_unit_test(completions_fail),
                cmocka_unit_test(no_memory_for_data),
                cmocka_unit_test(wrong_answers),
                cmocka_unit_test(answered_twice),
                cmocka_unit_test(waived),
                cmocka_unit_test(invalidated_key),
                cmocka_unit_test(never_answers),
                cmocka_unit_test(work_fails),
                cmocka_unit_test(posts_are_refused),
                cmocka_unit_test(no_answer_to_the_disconnect),
                cmocka_unit_test(idle_queue_ends),
                cmocka_unit_test(broken_by_its_owner),
                cmocka_unit_test(broken_by_a_command),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
