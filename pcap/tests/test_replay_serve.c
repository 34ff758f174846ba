/* SPDX-License-Identifier: BSD-3-Clause */
/* Captured controllers, served over RDMA in memory to our own host, which replays a capture. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these before it */
#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>

#include "capfile.h"
#include "host/nvme/ctrl.h"
#include "pcap/replay/replay.h"
#include "pcap/replay/replay_serve.h"
#include "pdu/io/verbs/verbs_memory.h"

struct bench {
        struct verbs_provider *verbs;
        struct replay_plan plan;
        struct serve_options options;
        struct replay_totals told, served;
        volatile sig_atomic_t stop;
        sem_t listening;
        pthread_t thread;
        char port[8], err[300], host_err[300];
        int rc;
};

static void on_listening(void *user, uint16_t port)
{
        struct bench *b = user;

        snprintf(b->port, sizeof(b->port), "%u", port);
        sem_post(&b->listening);
}

static void on_served(void *user, const struct served *s)
{
        ((struct bench *)user)->served.count[s->verdict.likeness]++;
}

static void on_replayed(void *user, const struct replayed *r)
{
        (void)user;
        if (r->verdict.likeness == DIFFERENT)
                print_error("frame %llu: %s\n", (unsigned long long)r->cmd->at.frame,
                            r->verdict.why);
}

static void *serve(void *arg)
{
        struct bench *b = arg;

        b->rc = replay_serve(&b->plan, &b->options, b->err, sizeof(b->err));
        return NULL;
}

static void load(struct replay_plan *plan, unsigned capture)
{
        struct trace_options trace = { 0 };
        char path[512], err[300];

        snprintf(path, sizeof(path), "%s/%s", SOURCE_DIR, captures[capture]);
        if (replay_plan_read(plan, path, &trace, 0, err, sizeof(err)) < 0)
                fail_msg("%s", err);
}

static void start(struct bench *b, unsigned capture, bool srq)
{
        struct memory_caps caps;

        *b = (struct bench) { 0 };
        memory_caps_default(&caps);
        if (!srq)
                caps.device.srq_wrs = 0;
        b->verbs = verbs_memory_new(&caps);
        assert_non_null(b->verbs);
        load(&b->plan, capture);
        b->options = (struct serve_options) { .transport = HOST_RDMA,
                                              .verbs = b->verbs,
                                              .traddr = "127.0.0.1",
                                              .trsvcid = "0",
                                              .stop = &b->stop,
                                              .listening = on_listening,
                                              .served = on_served,
                                              .user = b };
        sem_init(&b->listening, 0, 0);
        assert_int_equal(pthread_create(&b->thread, NULL, serve, b), 0);
        sem_wait(&b->listening);
}

static void stop(struct bench *b)
{
        b->stop = 1;
        pthread_join(b->thread, NULL);
        if (b->rc < 0)
                fail_msg("%s", b->err);
        replay_plan_free(&b->plan);
        verbs_memory_free(b->verbs);
}

/* As host, the same capture or another one of the same actions. */
static void replay(struct bench *b, unsigned capture)
{
        struct replay_options o = { .transport = HOST_RDMA,
                                    .verbs = b->verbs,
                                    .traddr = "127.0.0.1",
                                    .trsvcid = b->port,
                                    .timeout = 20000,
                                    .allow_write = true,
                                    .strict_data = true };
        struct replay_plan plan;

        load(&plan, capture);
        if (replay_run(&plan, &o, on_replayed, b, &b->told, b->host_err, sizeof(b->host_err)) < 0)
                fail_msg("%s", b->host_err);
        replay_plan_free(&plan);
}

/* Whatever it was captured over, twice. */
static void test_same_capture(void **state)
{
        (void)state;
        for (unsigned i = 0; i < CAPTURES; i++) {
                static struct bench b;

                start(&b, i, i & 1);
                for (unsigned turn = 1; turn <= 2; turn++) {
                        replay(&b, i);
                        assert_int_equal(b.told.count[DIFFERENT] + b.told.count[SKIPPED], 0);
                        assert_true(b.told.count[SAME] >= 60 * turn);
                }
                assert_true(b.told.count[ALLOWED] <= 18); /* events, addresses, IOCCSZ and SGLS */
                stop(&b);
                assert_int_equal(b.served.count[DIFFERENT], 0);
        }
}

static void connect_to(struct bench *b, struct host_ctrl *ctrl, const char *subnqn)
{
        struct host_params p = host_params_default();
        struct host_error e;

        p.transport = HOST_RDMA;
        p.verbs = b->verbs;
        p.traddr = "127.0.0.1";
        p.trsvcid = b->port;
        p.subnqn = subnqn;
        if (host_ctrl_connect(ctrl, &p, &e) < 0)
                fail_msg("%s", e.line);
}

/* A host that knows of RDMA only what Identify says finds its way about a capture of TCP. */
static void test_identify_is_of_rdma(void **state)
{
        static struct bench b;
        static struct host_ctrl ctrl;
        const struct id_ctrl *id = &ctrl.id;

        (void)state;
        start(&b, 0, true);
        connect_to(&b, &ctrl, "nqn.2026-01.lab:tcp");
        assert_int_equal(le32_get(id->sgls) & 7, 5); /* SGLs without alignment, and keyed ones */
        assert_int_equal(le16_get(id->icdoff), 0);
        assert_int_equal(id->msdbd, 1);
        host_ctrl_close(&ctrl);
        stop(&b);
        assert_int_equal(b.served.count[DIFFERENT], 0);
}

/* Stopped while a host is there: it is told, and nothing is left. */
static void test_stopped(void **state)
{
        static struct bench b;
        static struct host_ctrl ctrl;

        (void)state;
        start(&b, 2, false);
        connect_to(&b, &ctrl, "nqn.2026-01.lab:rxe");
        b.stop = 1;
        pthread_join(b.thread, NULL);
        assert_int_equal(b.rc, 0);
        host_ctrl_close(&ctrl);
        replay_plan_free(&b.plan);
        verbs_memory_free(b.verbs);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_same_capture),
                cmocka_unit_test(test_identify_is_of_rdma),
                cmocka_unit_test(test_stopped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
