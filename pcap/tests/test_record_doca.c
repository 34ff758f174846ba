/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `nvmfspec target -t doca --pcap` writes: our requester and our target in one process, over RDMA in memory, in each
 * dialect and by either way to connect. All of it is found again, judged and measured.
 */
#include "doca_capture.h"
#include "host/doca/session.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "target/doca/doca_server.h"

enum { IO = 16 << 10, TIMEOUT = 20000 };

struct world {
        struct verbs_provider *verbs;
        struct doca_options options;
        struct doca_params params;
        struct doca_server *server;
        struct capture_writer *w;
};

static void open_world(struct world *w, enum doca_version v, bool by_cm)
{
        *w = (struct world) { .verbs = verbs_memory_new(NULL),
                              .w = capture_writer_open(path, err, sizeof(err)),
                              .options = { .listen = { { "127.0.0.1", "0" } },
                                           .listens = 1,
                                           .dialect = doca_dialect(v),
                                           .ns = "mem:1M",
                                           .quiet = true },
                              .params = { .traddr = "127.0.0.1",
                                          .dialect = doca_dialect(v),
                                          .by_cm = by_cm,
                                          .cores = 2,
                                          .depth = 4,
                                          .io_bytes = IO,
                                          .storage = 1 << 20,
                                          .timeout = TIMEOUT } };
        assert_non_null(w->verbs);
        assert_non_null(w->w);
        w->options.verbs = w->params.verbs = w->verbs;
        w->options.record = w->w;
}

static void move(struct doca_session *s, unsigned context, bool write, uint32_t blocks)
{
        static uint8_t data[IO];
        struct host_error e = { 0 };

        if (doca_transfer(s, context, write, 8, blocks, data, &e) < 0)
                fail_msg("%s", e.line);
}

/* A session of two contexts. */
static void record(struct world *w)
{
        struct host_error e = { 0 };
        struct doca_session s;

        w->server = doca_server_start(&w->options, err, sizeof(err));
        if (!w->server)
                fail_msg("%s", err);
        w->params.trsvcid = doca_server_port(w->server, 0);
        if (doca_session_open(&s, &w->params, &e) < 0 || doca_session_start(&s, &e) < 0)
                fail_msg("%s", e.line);
        move(&s, 0, true, IO / 512);
        move(&s, 1, false, 16);
        move(&s, 1, false, 1);
        if (doca_session_close(&s, true, &e) < 0)
                fail_msg("%s", e.line);
        doca_server_stop(w->server);
        assert_int_equal(capture_writer_close(w->w), 0);
        verbs_memory_free(w->verbs);
}

static void test_found_again(void **state)
{
        (void)state;
        for (unsigned i = 0; i < 2 * DOCA_VERSIONS; i++) {
                struct trace_totals totals;
                struct world w;

                open_world(&w, (enum doca_version)(i / 2), i % 2);
                record(&w);
                (void)check(NULL, &totals);
                assert_found(DOCA_RULE_NONE, i % 2 ? "by CM" : "by numbers");
                assert_int_equal(totals.conns, 1 + 2 * DOCA_ROLES);
                assert_int_equal(totals.strange + totals.gaps + totals.repeated, 0);
                assert_int_equal(RUN("show", path, "--count"), PCAP_OK);
                assert_int_equal(count_of("  read                         2\n"), 2);
                assert_int_equal(count_of("  write                        1\n"), 2);
                assert_int_equal(count_of("  result                       3\n"), 1);
                assert_int_equal(RUN("show", path), PCAP_OK);
                assert_int_equal(count_of("< REQUEST cookie"), i % 2 ? 2 * DOCA_ROLES : 0);
                assert_int_equal(RUN("stat", path, "-o", "json"), PCAP_OK);
                assert_int_equal(
                    count_of("\"command\":\"read\",\"io\":true,\"count\":2,\"errors\":0,"
                             "\"h2c_bytes\":0,\"c2h_bytes\":8704,"),
                    1);
                assert_int_equal(
                    count_of("\"command\":\"write\",\"io\":true,\"count\":1,\"errors\":0,"
                             "\"h2c_bytes\":16384,\"c2h_bytes\":0,"),
                    1);
        }
}

static void test_a_broken_rule_is_found(void **state)
{
        (void)state;
        for (unsigned by_cm = 0; by_cm < 2; by_cm++) {
                struct trace_totals totals;
                struct world w;

                open_world(&w, DOCA_3_2, by_cm);
                rule_add(&w.options.policy.violated, DOCA_IO_ECHO);
                record(&w);
                (void)check(NULL, &totals);
                assert_int_equal(count_of("\"rule\":\"doca/io/echo\""), 3);
                assert_int_equal(count_of("\"rule\":"), 3);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_found_again),
                cmocka_unit_test(test_a_broken_rule_is_found),
        };

        return cmocka_run_group_tests_name("record_doca", tests, make_path, drop_path);
}
