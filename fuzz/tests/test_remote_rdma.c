/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions to a live target over RDMA in memory, and campaigns of them. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "pcap/nvme/family.h"
#include "pdu/nvme/wire/rdma.h"
#include "rdma_target.h"

static struct loop loop;
static struct player player;
static struct sequence seq;

static struct remote_answer play(const char *text)
{
        struct remote_answer a;
        char err[200];

        config.target.settle = 1000; /* of what the host keeps, every answer comes */
        if (!seq_parse(&seq, text, strlen(text), err, sizeof(err)))
                fail_msg("%s", err);
        assert_int_equal(loop_init(&loop), 0);
        assert_int_equal(player_init(&player, &config, &loop), 0);
        assert_int_equal(player_try(&player, &seq, true).kind, TROUBLE_NONE);
        a = player.session->answer;
        player_fini(&player);
        loop_fini(&loop);
        return a;
}

static void a_session_with_two_queues(void **state)
{
        struct remote_answer a;

        (void)state;
        start(NULL);
        config.target.allow_write = true;
        a = play("sequence host rdma queues=2\nrequest\nconnect\nenable\nidentify\nrequest on=1\n"
                 "connect on=1\nwrite on=1\nwrite_icd on=1\nread on=1\n");
        assert_int_equal(a.end, REMOTE_DONE);
        assert_int_equal(a.steps, 9);
        assert_int_equal(a.pdus, 7);
        stop();
}

static bool is_limit(const struct oracle_limits *l, uint64_t v)
{
        for (unsigned i = 0; i < l->n; i++)
                if (l->at[i] == v)
                        return true;
        return false;
}

/* Those of the default target: entries, MDTS, IOCCSZ and the data in it. */
static void a_target_says_its_limits(void **state)
{
        struct oracle_limits l;

        (void)state;
        start(NULL);
        l = oracle_limits(&config.target);
        assert_true(is_limit(&l, 1024) && is_limit(&l, 1 << 20));
        assert_true(is_limit(&l, 4096) && is_limit(&l, 4096 + sizeof(union sqe)));
        stop();
}

static void how_sessions_end(void **state)
{
        (void)state;
        start(NULL);
        assert_int_equal(play("sequence host rdma\nconnect\nclose\nidentify\n").end, REMOTE_LEFT);
        assert_int_equal(play("sequence host rdma\nconnect\nreset\n").end, REMOTE_LEFT);
        assert_int_equal(play("sequence host rdma\nrequest recfmt=7\nconnect\n").end,
                         REMOTE_CLOSED);
        assert_int_equal(play("sequence host rdma\nconnect\nraw 00\nidentify\n").end,
                         REMOTE_CLOSED);
        assert_int_equal(play("sequence host rdma\nrequest\nconnect\nwrite\n").end, REMOTE_UNSENT);
        stop();
}

static void what_is_avoided_is_not_sent(void **state)
{
        struct avoid avoid = { 0 };
        char error[200];

        (void)state;
        start(NULL);
        peer.avoid = &avoid;
        assert_true(avoid_add(&avoid, SEQ_RDMA, "request.hrqsize>64", error, sizeof(error)));
        assert_true(avoid_add(&avoid, SEQ_RDMA, "identify.nsid=7", error, sizeof(error)));
        assert_true(avoid_add(&avoid, SEQ_RDMA, "rdma/capsule/length", error, sizeof(error)));
        assert_int_equal(play("sequence host rdma\nrequest hrqsize=65\nconnect\n").end,
                         REMOTE_UNSENT);
        assert_int_equal(play("sequence host rdma\nrequest hrqsize=64\nconnect\n").end,
                         REMOTE_DONE);
        assert_int_equal(play("sequence host rdma\nconnect\nenable\nidentify nsid=7\n").end,
                         REMOTE_UNSENT);
        assert_int_equal(play("sequence host rdma\nconnect\nenable\nidentify nsid=1\n").end,
                         REMOTE_DONE);
        assert_int_equal(play("sequence host rdma\nconnect\nraw 00\nidentify\n").end,
                         REMOTE_UNSENT);
        stop();
}

static void our_target_is_clean(void **state)
{
        (void)state;
        start(NULL);
        config.target.allow_write = true;
        assert_int_equal(campaign_run(&config), CAMPAIGN_CLEAN);
        stop();
}

static void count_short(void *user, const struct trace_event *e)
{
        unsigned *n = user;

        *n += e->kind == TRACE_CAPSULE && e->sender == PARTY_CONTROLLER &&
              e->capsule.len != sizeof(struct cqe);
}

static const char *capture_in(const char *folder)
{
        static char path[100];

        snprintf(path, sizeof(path), "%s/001-rule-%s.pcap", folder, rule_get(RDMA_RSP_LENGTH)->id);
        for (char *p = path + strlen(folder) + 1; (p = strchr(p, '/'));)
                *p = '-';
        return path;
}

/* A response of a wrong length is in there. And the folder goes. */
static void the_capture_shows_it(const char *folder)
{
        char command[100], err[200];
        unsigned wrong = 0;

        if (trace_read(capture_in(folder), &nvme_capture, NULL, count_short, &wrong, NULL, err,
                       sizeof(err)) < 0)
                fail_msg("%s", err);
        assert_int_not_equal(wrong, 0);
        snprintf(command, sizeof(command), "rm -r %s", folder);
        assert_int_equal(system(command), 0);
}

/* With patience: a busy machine answers later than the campaign waited. */
static void the_capture_does_it_again(const char *folder)
{
        struct corpus c = { 0 };
        struct trouble t = { 0 };
        char err[CORPUS_ERROR];
        size_t n;

        if (!corpus_load(&c, capture_in(folder), NULL, err))
                fail_msg("%s", err);
        n = c.n;
        config.target.settle = 3000;
        assert_int_equal(loop_init(&loop), 0);
        assert_int_equal(player_init(&player, &config, &loop), 0);
        if (n > 0)
                t = player_try(&player, c.at[0], false);
        player_fini(&player);
        loop_fini(&loop);
        corpus_free(&c);
        assert_int_equal(n, 1);
        assert_int_equal(t.rule, RDMA_RSP_LENGTH);
}

static void a_broken_rule_is_found(void **state)
{
        char folder[] = "/tmp/remote_rdma.XXXXXX";
        struct rule_policy spoilt = { 0 };

        (void)state;
        rule_add(&spoilt.violated, RDMA_RSP_LENGTH);
        start(&spoilt);
        config.target.allow_write = true; /* responses to writes are cut */
        assert_non_null(mkdtemp(folder));
        config.out = folder;
        config.findings = 1;
        config.target.settle = 200;
        assert_int_equal(campaign_run(&config), CAMPAIGN_FOUND);
        the_capture_does_it_again(folder);
        stop();
        the_capture_shows_it(folder);
}

static void nobody_is_there(void **state)
{
        static const char text[] = "sequence host rdma\nconnect\n";
        char err[200];

        (void)state;
        start(NULL);
        peer.host.trsvcid = "1";
        assert_int_equal(campaign_run(&config), CAMPAIGN_NOBODY);
        /* the connection manager says so: no controller broke a rule */
        assert_true(seq_parse(&seq, text, sizeof(text) - 1, err, sizeof(err)));
        assert_int_equal(loop_init(&loop), 0);
        assert_int_equal(player_init(&player, &config, &loop), 0);
        assert_int_equal(player_try(&player, &seq, false).kind, TROUBLE_NONE);
        assert_int_equal(player.session->answer.end, REMOTE_CLOSED);
        player_fini(&player);
        loop_fini(&loop);
        stop();
}

/* --- a controller that never stops talking ------------------------------------------------------ */

enum { WORDS = 16 };

static struct talker {
        pthread_t thread;
        atomic_bool over;
        struct verbs_context *context;
        struct verbs_listener *listener;
        struct verbs_ep *ep;
        struct verbs_domain *domain;
        struct verbs_mr mr;
        struct verbs_wr wr[2 * WORDS]; /* receives; sends */
        uint8_t room[4096];
} talker;

static void talker_accepts(struct talker *t, struct verbs_ep *ep)
{
        const struct rdma_accept a = { .crqsize = le16(WORDS) };
        const struct verbs_qp_attr attr = { .send_wrs = WORDS, .recv_wrs = WORDS };
        const struct verbs_conn_param p = { .data = &a, .len = sizeof(a), .rnr_retry = 7 };
        struct verbs_wr *bad;

        t->ep = ep;
        t->domain = verbs_domain(ep);
        verbs_grow_cq(t->domain, 2 * WORDS);
        verbs_qp(ep, &attr);
        verbs_reg(t->domain, t->room, sizeof(t->room), 0, &t->mr);
        for (unsigned i = 0; i < WORDS; i++) {
                t->wr[i] =
                    (struct verbs_wr) { .op = VERBS_RECV,
                                        .n_sge = 1,
                                        .sge = { { t->room, sizeof(t->room), t->mr.lkey } } };
                verbs_post_recv(ep, &t->wr[i], &bad);
        }
        verbs_accept(ep, &p);
}

/* A response to a command that there is not. */
static void talker_talks(struct talker *t, struct verbs_wr *wr)
{
        struct verbs_wr *bad;

        *wr = (struct verbs_wr) { .op = VERBS_SEND,
                                  .flags = VERBS_SIGNALED,
                                  .n_sge = 1,
                                  .sge = { { t->room, sizeof(struct cqe), t->mr.lkey } } };
        verbs_post(t->ep, wr, &bad);
}

static void *talk(void *arg)
{
        struct talker *t = arg;
        struct verbs_event e;
        struct verbs_wc wc;
        unsigned i = 0;

        while (!t->over) {
                while (verbs_event(t->context, &e))
                        if (e.type == VERBS_CONNECT_REQUEST && !t->ep)
                                talker_accepts(t, e.ep);
                while (t->ep && verbs_poll(t->domain, &wc, 1) > 0)
                        ;
                if (t->ep)
                        talker_talks(t, &t->wr[WORDS + i++ % WORDS]);
                nanosleep(&(struct timespec) { .tv_nsec = 1000000 }, NULL);
        }
        return NULL;
}

static void talker_start(struct talker *t)
{
        t->context = verbs_open(verbs);
        t->listener = verbs_listen(t->context, "127.0.0.1", "0", 4);
        assert_non_null(t->listener);
        snprintf(port, sizeof(port), "%u", verbs_listener_port(t->listener));
        assert_int_equal(pthread_create(&t->thread, NULL, talk, t), 0);
}

static void talker_stop(struct talker *t)
{
        t->over = true;
        pthread_join(t->thread, NULL);
        assert_non_null(t->ep);
        verbs_destroy(t->ep);
        verbs_dereg(t->domain, &t->mr);
        verbs_unlisten(t->listener);
        verbs_close(t->context);
}

static void a_controller_that_never_stops_talking(void **state)
{
        static const char text[] = "sequence host rdma\nrequest\nconnect\nidentify\n";
        char err[200];

        (void)state;
        start(NULL);
        talker_start(&talker);
        config.target.settle = 50;
        config.target.hang = 1000;
        assert_true(seq_parse(&seq, text, sizeof(text) - 1, err, sizeof(err)));
        assert_int_equal(loop_init(&loop), 0);
        assert_int_equal(player_init(&player, &config, &loop), 0);
        player_play(&player, &seq); /* ends */
        assert_true(player.session->answer.pdus > 10);
        player_fini(&player);
        loop_fini(&loop);
        talker_stop(&talker);
        stop();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_session_with_two_queues),
                cmocka_unit_test(a_target_says_its_limits),
                cmocka_unit_test(how_sessions_end),
                cmocka_unit_test(what_is_avoided_is_not_sent),
                cmocka_unit_test(our_target_is_clean),
                cmocka_unit_test(a_broken_rule_is_found),
                cmocka_unit_test(nobody_is_there),
                cmocka_unit_test(a_controller_that_never_stops_talking),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
