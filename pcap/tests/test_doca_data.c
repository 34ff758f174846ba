/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes over the RDMA connections of a DOCA session: a crafted capture for each rule of I/O messages that a capture can
 * show, and for what is just on the right side of it, whichever way the connections were made. What is wrong is found,
 * alone and proven, and nobody is accused of what is correct; all ways are shown and measured alike.
 */
#include "doca_capture.h"

static const char *const way_names[WAYS] = { "by numbers", "by CM", "iWARP" };

/* --- rules -------------------------------------------------------------------------------------- */

enum what { END, ASK, ANSWER, STOP, CLOSE };
enum { STEPS = 8, AT_END = MEMORY - 4096, STORAGE_END = STORAGE - 4096 };

struct step {
        enum what what;
        uint8_t type; /* of an I/O message; an ASK without one is a read */
        uint8_t user;
        uint8_t len; /* bytes of it; 0: 64 */
        uint32_t memory, storage, size;
};

/* Requests are of 4096 bytes unless they say otherwise. */
static const struct row {
        enum doca_rule broken; /* DOCA_RULE_NONE: it is correct */
        bool old;              /* of 2.10; else of 3.2 */
        struct step step[STEPS];
} rows[] = {
        /* clang-format off */
        { DOCA_RULE_NONE, .step = { { ASK, .user = 1 }, { ASK, .user = 2 }, { ANSWER, .user = 2 }, { ANSWER, .user = 1 } } },
        { DOCA_IO_LEN_S, .step = { { ASK, .user = 1, .len = 63 } } },
        { DOCA_IO_LEN_S, .step = { { ASK, .user = 1, .len = 65 } } },
        { DOCA_IO_LEN_T, .step = { { ASK, .user = 1 }, { ANSWER, .user = 1, .len = 63 } } },
        { DOCA_IO_LEN_T, .step = { { ASK, .user = 1 }, { ANSWER, .user = 1, .len = 65 } } },
        { DOCA_IO_TYPE_S, .step = { { ASK, .type = DOCA_IO_STOP, .user = 1 } } },
        { DOCA_IO_TYPE_S, .step = { { ASK, .type = 4, .user = 1 } } },
        { DOCA_IO_TYPE_S, .old = true, .step = { { ASK, .type = 4, .user = 1 } } },
        { DOCA_RULE_NONE, .old = true, .step = { { ASK, .type = DOCA_IO_STOP, .user = 1, .size = 0 } } },
        { DOCA_IO_TYPE_T, .step = { { ASK, .user = 1 }, { ANSWER, .type = DOCA_IO_READ, .user = 1 } } },
        { DOCA_IO_USER, .step = { { ASK, .user = 1 }, { ANSWER, .user = 2 } } },
        { DOCA_IO_USER, .step = { { ASK, .user = 1 }, { ANSWER, .user = 1 }, { ANSWER, .user = 1 } } },
        { DOCA_IO_ECHO, .step = { { ASK, .user = 1 }, { ANSWER, .user = 1, .size = 512 } } },
        { DOCA_IO_ECHO, .step = { { ASK, .user = 1 }, { ANSWER, .user = 1, .storage = 4096 } } },
        { DOCA_IO_ECHO, .step = { { ASK, .user = 1 }, { ANSWER, .user = 1, .memory = 4096 } } },
        { DOCA_RULE_NONE, .step = { { ASK, .user = 1 }, { ASK, .user = 2 }, { ASK, .user = 3 }, { ASK, .user = 4 } } },
        { DOCA_RULE_NONE, .step = { { ASK, .user = 1 }, { ASK, .user = 2 }, { ASK, .user = 3 }, { ASK, .user = 4 }, { ANSWER, .user = 3 }, { ASK, .user = 5 } } },
        { DOCA_IO_LIMIT, .step = { { ASK, .user = 1 }, { ASK, .user = 2 }, { ASK, .user = 3 }, { ASK, .user = 4 }, { ASK, .user = 5 } } },
        { DOCA_RULE_NONE, .step = { { ASK, .user = 1 }, { .what = STOP }, { ANSWER, .user = 1 } } },
        { DOCA_IO_STOPPED, .step = { { .what = STOP }, { ASK, .user = 1 } } },
        { DOCA_RULE_NONE, .step = { { .what = CLOSE }, { ASK, .user = 1 }, { ANSWER, .user = 1 } } },
        { DOCA_RULE_NONE, .step = { { ASK, .user = 1, .storage = STORAGE_END } } },
        { DOCA_IO_STORAGE, .step = { { ASK, .user = 1, .storage = STORAGE_END + 512 } } },
        { DOCA_IO_STORAGE, .step = { { ASK, .type = DOCA_IO_WRITE, .user = 1, .storage = STORAGE } } },
        { DOCA_RULE_NONE, .step = { { ASK, .user = 1, .memory = AT_END } } },
        { DOCA_IO_MEMORY, .step = { { ASK, .user = 1, .memory = AT_END + 1 } } },
        { DOCA_IO_MEMORY, .old = true, .step = { { ASK, .user = 1, .memory = AT_END + 512 } } },
        { DOCA_RULE_NONE, .step = { { ASK, .user = 1, .storage = 512, .size = 512 } } },
        { DOCA_IO_BLOCKS, .step = { { ASK, .user = 1, .storage = 511, .size = 512 } } },
        { DOCA_IO_BLOCKS, .step = { { ASK, .user = 1, .size = 513 } } },
        /* clang-format on */
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static bool shown[WAYS][DOCA_RULES]; /* it was found in some capture */

static void take_message(struct scene *s, const struct step *t)
{
        struct doca_io io = { .type = t->type, .user_data = t->user, .size = t->size };
        uint8_t p[DOCA_IO_LEN + 1] = { 0 };

        if (t->what == ASK && t->type == 0)
                io.type = DOCA_IO_READ;
        if (t->size == 0 && io.type != DOCA_IO_STOP)
                io.size = 4096;
        doca_io_put_place(s->d, &io, BASE, (struct doca_place) { t->memory, t->storage });
        doca_io_write(s->d, &io, p);
        send_bytes(s, t->what == ASK ? PARTY_HOST : PARTY_CONTROLLER, p,
                   t->len ? t->len : DOCA_IO_LEN);
}

static void take_step(struct scene *s, const struct step *t)
{
        if (t->what == STOP)
                stop(s);
        else if (t->what == CLOSE)
                close_channel(s);
        else
                take_message(s, t);
}

static void write_row(const struct row *r, enum way way)
{
        struct scene s;

        begin(&s, r->old ? DOCA_2_10 : DOCA_3_2, way);
        set_up(&s);
        for (unsigned i = 0; i < STEPS && r->step[i].what != END; i++)
                take_step(&s, &r->step[i]);
        prove(&s);
        end(&s);
}

static void test_rules(void **state)
{
        (void)state;
        for (unsigned i = 0; i < ROWS * WAYS; i++) {
                const struct row *r = &rows[i / WAYS];
                enum way way = (enum way)(i % WAYS);
                struct rule_set waived[2] = { 0 }; /* of NVMe and of DOCA */
                struct trace_totals totals;
                struct check_counts counts;
                char where[60];

                snprintf(where, sizeof(where), "row %u, %s", i / WAYS, way_names[way]);
                write_row(r, way);
                counts = check(NULL, &totals);
                assert_found(r->broken, where);
                assert_int_equal(totals.conns, 3);
                if (r->broken == DOCA_RULE_NONE)
                        continue;
                shown[way][r->broken] = true;
                assert_int_equal(counts.of[rule_grade(doca_rule_get(r->broken))], 1);
                rule_add(&waived[1], r->broken);
                (void)check(waived, &totals);
                assert_found(DOCA_RULE_NONE, where);
        }
}

static void test_no_rule_lacks_a_capture(void **state)
{
        (void)state;
        for (unsigned rule = DOCA_IO_LEN_S; rule < DOCA_RULES; rule++)
                for (unsigned way = 0; way < WAYS; way++)
                        if (doca_rule_get(rule)->seen & SEEN_CAPTURE && !shown[way][rule])
                                fail_msg("%s: no capture shows %s", way_names[way],
                                         doca_rule_get(rule)->id);
}

/* Who has broken it, and where: the target connects, and is a target all the same. */
static void test_parties(void **state)
{
        static const struct row row = { DOCA_IO_USER,
                                        .step = { { ASK, .user = 1 }, { ANSWER, .user = 2 } } };
        static const char *const where[WAYS] = {
                "connection 3 (roce 10.0.1.1:0 > 10.0.1.2:0 QP 66 > 67, DOCA io_control of ",
                "connection 3 (roce 10.0.1.1:7000 > 10.0.1.2:41",
                "connection 3 (iwarp 10.0.1.1:7000 > 10.0.1.2:41",
        };

        (void)state;
        for (unsigned way = 0; way < WAYS; way++) {
                write_row(&row, (enum way)way);
                assert_int_equal(RUN("check", path), PCAP_BROKEN);
                assert_int_equal(count_of(where[way]), 1);
                assert_int_equal(count_of(", DOCA io_control of context 0)\n"), 1);
                assert_int_equal(count_of("  target must doca/io/user-data: "), 1);
                assert_int_equal(count_of("  < result user_data 2h SUCCESS 4096 bytes"), 1);
        }
}

/* --- connections that nothing asks for ----------------------------------------------------------- */

enum untied { NO_CHANNEL, OTHER_COOKIE, OTHER_SERVICE, UNTIED };

/* Messages that would be wrong, over a connection that is nobody's. */
static void write_untied(enum way way, enum untied untied)
{
        uint8_t junk[] = "no I/O message";
        struct sockaddr_in service;
        struct scene s;

        begin(&s, DOCA_3_2, way);
        if (untied != NO_CHANNEL)
                set_up(&s);
        service = s.rdma[PARTY_HOST];
        service.sin_port = htons(LISTENER);
        if (untied == OTHER_SERVICE)
                service.sin_addr.s_addr = htonl(0x0a000103);
        connect_to(&s, &s.pair[DOCA_IO_CONTROL],
                   COOKIE + DOCA_IO_CONTROL + (untied == OTHER_COOKIE), &service);
        send_bytes(&s, PARTY_HOST, junk, sizeof(junk));
        send_bytes(&s, PARTY_CONTROLLER, junk, sizeof(junk));
        end(&s);
}

static void test_untied(void **state)
{
        (void)state;
        for (unsigned i = 0; i < UNTIED * WAYS; i++) {
                enum way way = (enum way)(i % WAYS);
                struct check_counts counts;
                struct trace_totals totals;

                if (way == BY_NUMBERS)
                        continue;
                write_untied(way, (enum untied)(i / WAYS));
                counts = check(NULL, &totals);
                assert_found(DOCA_RULE_NONE, way_names[way]);
                assert_int_equal(totals.conns, i / WAYS == NO_CHANNEL ? 1 : 4);
                assert_int_equal(counts.judged > 0, i / WAYS != NO_CHANNEL);
                assert_int_equal(RUN("check", path),
                                 i / WAYS == NO_CHANNEL ? PCAP_UNJUDGED : PCAP_OK);
                assert_int_equal(RUN("show", path), PCAP_OK);
                assert_int_equal(count_of("which no control channel in the capture has asked for"),
                                 1);
                assert_int_equal(count_of("> message of 15 bytes"), 1);
                assert_int_equal(count_of("< message of 15 bytes"), 1);
                assert_int_equal(RUN("show", path, "-v", "-o", "json"), PCAP_OK);
                assert_int_equal(RUN("stat", path), PCAP_OK);
                assert_int_equal(count_of("DOCA, of no control channel in the capture"), 1);
        }
}

/* --- tools --------------------------------------------------------------------------------------- */

static void write_transfers(enum way way, enum doca_version v)
{
        struct scene s;

        begin(&s, v, way);
        set_up(&s);
        request(&s, false, 0xa, 0x1000, 4096);
        request(&s, true, 0xb, 0x2000, 8192);
        request(&s, true, 0xc, 0x8000, 512);
        stop(&s);
        end(&s);
}

static void assert_count(const char *what, unsigned n, enum way way)
{
        if (count_of(what) != n)
                fail_msg("%s: '%s' %u times, not %u: %s", way_names[way], what, count_of(what), n,
                         out);
}

static void assert_tally(const char *name, unsigned n, unsigned times, enum way way)
{
        char line[60];

        snprintf(line, sizeof(line), "  %-28s %u\n", name, n);
        assert_count(line, times, way);
}

static void test_show(void **state)
{
        /* Six messages, the end, and what belongs to its beginning. */
        static const unsigned records[WAYS] = { 6 + 1 + 1, 6 + 1 + 3, 6 + 1 + 2 };

        (void)state;
        for (unsigned i = 0; i < WAYS; i++) {
                enum way way = (enum way)i;

                write_transfers(way, DOCA_3_2);
                assert_int_equal(RUN("show", path), PCAP_OK);
                assert_count("> read user_data ah 4096 bytes memory 1000h storage 1000h\n", 1, way);
                assert_count("< RDMA WRITE 4096 bytes at 11000h key 00000077h\n", 1, way);
                assert_count("< result user_data ah SUCCESS 4096 bytes", 1, way);
                assert_count("> write user_data bh 8192 bytes", 1, way);
                assert_count("< RDMA READ 8192 bytes at 12000h key 00000077h\n", 1, way);
                assert_count("> RDMA READ done 8192 bytes at 12000h", 1, way);
                assert_count(
                    "< REQUEST cookie 1234500h, io_data of context 0, READs in 16 out 16\n",
                    way != BY_NUMBERS, way);
                assert_count(
                    "< REQUEST cookie 1234501h, io_control of context 0, READs in 16 out 16\n",
                    way != BY_NUMBERS, way);
                assert_count("> ACCEPT, READs in 16 out 16\n", way == BY_NUMBERS ? 0 : 2, way);
                assert_int_equal(RUN("show", path, "--count"), PCAP_OK);
                assert_tally("read", 1, 2, way); /* of messages, and of commands */
                assert_tally("write", 2, 2, way);
                assert_tally("result", 3, 1, way);
                assert_int_equal(RUN("show", path, "-o", "json"), PCAP_OK);
                assert_count("\"kind\":\"io_message\"", 6, way);
                assert_count("\"context\":0,\"role\":\"io_control\"", records[way], way);
        }
}

/* By kinds of request: how many, and how many bytes each way. */
static void test_stat(void **state)
{
        (void)state;
        for (unsigned i = 0; i < WAYS * DOCA_VERSIONS; i++) {
                enum way way = (enum way)(i % WAYS);

                write_transfers(way, (enum doca_version)(i / WAYS));
                assert_int_equal(RUN("stat", path, "-o", "json"), PCAP_OK);
                assert_count("\"command\":\"read\",\"io\":true,\"count\":1,\"errors\":0,"
                             "\"h2c_bytes\":0,\"c2h_bytes\":4096,",
                             1, way);
                assert_count("\"command\":\"write\",\"io\":true,\"count\":2,\"errors\":0,"
                             "\"h2c_bytes\":8704,\"c2h_bytes\":0,",
                             1, way);
                assert_count("\"unanswered\":0,", 1, way);
        }
}

/* The connection manager's end is told, too. */
static void test_ends(void **state)
{
        struct capture_cm m = { .kind = CAPTURE_REJECT };
        struct scene s;

        (void)state;
        for (unsigned consumer = 0; consumer < 2; consumer++) {
                struct sockaddr_in service;
                struct capture_rdma f;

                begin(&s, DOCA_3_2, BY_CM);
                set_up(&s);
                service = s.rdma[PARTY_HOST];
                service.sin_port = htons(LISTENER);
                connect_to(&s, &f, COOKIE, &service);
                m.reason = consumer ? 28 : 10;
                capture_rdma_cm(s.w, &f, PARTY_CONTROLLER, &m, tick(&s));
                m.kind = CAPTURE_DISCONNECT;
                capture_rdma_cm(s.w, &s.pair[DOCA_IO_DATA], PARTY_CONTROLLER, &m, tick(&s));
                m.kind = CAPTURE_REJECT;
                end(&s);
                assert_int_equal(RUN("show", path), PCAP_OK);
                assert_int_equal(count_of("> REJECT by the service"), consumer);
                assert_int_equal(count_of("> REJECT by the connection manager, reason 10\n"),
                                 !consumer);
                assert_int_equal(count_of("> DISCONNECT\n"), 1);
        }
}

/* --- losses -------------------------------------------------------------------------------------- */

/* Whatever the capture lost, nothing is found that counts; what may be due to it may be told. */
static void test_losses(void **state)
{
        uint64_t seed = 1;
        struct capfile c;

        (void)state;
        for (unsigned round = 0; round < 300 * WAYS; round++) {
                enum way way = (enum way)(round % WAYS);
                struct trace_totals totals;
                struct scene s;

                begin(&s, (enum doca_version)(round / WAYS % DOCA_VERSIONS), way);
                set_up(&s);
                for (unsigned i = 0; i < 6; i++)
                        request(&s, i & 1, 1 + i % 3, 0x1000 * i, 4096);
                stop(&s);
                prove(&s);
                end(&s);
                cap_load_path(&c, path);
                (void)cap_write_lossy(&c, path, 4 + round % 40, &seed);
                cap_free(&c);
                (void)check(NULL, &totals);
                if (count_of("\"proven\":true") > 0)
                        fail_msg("round %u, %s: %s", round, way_names[way], out);
        }
}

/* What waits for bytes that the capture lacks is told after what was said later. */
static void test_told_late(void **state)
{
        static const struct step ask = { ASK, .user = 1 }, answer_to_it = { ANSWER, .user = 1 };
        struct trace_totals totals;
        struct scene s;

        (void)state;
        begin(&s, DOCA_3_2, BY_IWARP);
        set_up(&s);
        capture_rdma_gap(&s.pair[DOCA_IO_CONTROL], side_of(&s, PARTY_HOST), 40);
        take_step(&s, &ask);
        stop(&s);
        take_step(&s, &answer_to_it);
        end(&s);
        (void)check(NULL, &totals);
        assert_int_equal(totals.gaps, 1);
        assert_found(DOCA_RULE_NONE, "a request that waits");
        assert_int_equal(RUN("show", path), PCAP_OK);
        assert_true(strstr(out, "> read user_data 1h") > strstr(out, "> stop_storage_request"));
}

/* Nothing but the data path of a session whose blobs are another library's, or which began before: the user knows its queue
 * pairs, of io_control here. */
static void write_alone(enum doca_version v, bool correct)
{
        struct scene s;

        begin(&s, v, BY_NUMBERS);
        open_pair(&s, DOCA_IO_DATA);
        open_pair(&s, DOCA_IO_CONTROL);
        take_message(&s,
                     &(struct step) { ANSWER, .user = 9 }); /* of a request before the capture */
        request(&s, false, 1, 4096, 4096);
        request(&s, true, 2, 8192, 512);
        take_message(&s, &(struct step) { ASK, .user = 3, .len = correct ? 64 : 63 });
        take_message(&s, &(struct step) { ANSWER, .user = 3 });
        prove(&s);
        end(&s);
}

static void test_queue_pairs_that_the_user_names(void **state)
{
        static const char *const ways[DOCA_VERSIONS] = { "0x42:0x43:2.10", "0x42:67:3.0",
                                                         "66:67:3.1", "66:67" };

        (void)state;
        for (unsigned v = 0; v < DOCA_VERSIONS; v++) {
                write_alone((enum doca_version)v, true);
                assert_int_equal(RUN("show", path), PCAP_OK);
                assert_int_equal(count_of(" user_data "), 0);
                assert_int_equal(RUN("show", "--qp", (char *)ways[v], path), PCAP_OK);
                assert_int_equal(count_of("> read user_data 1h"), 1);
                assert_int_equal(count_of("> write user_data 2h"), 1);
                assert_int_equal(count_of("< result user_data "), 4);
                assert_int_equal(RUN("check", "--qp", (char *)ways[v], path), PCAP_OK);
                assert_int_equal(RUN("stat", "-o", "json", "--qp", (char *)ways[v], path), PCAP_OK);
                assert_int_equal(count_of("\"command\":\"read\",\"io\":true,\"count\":2,"), 1);
                write_alone((enum doca_version)v, false);
                assert_int_equal(RUN("check", "--qp", (char *)ways[v], path), PCAP_BROKEN);
                assert_int_equal(count_of("service must doca/io/length-service: "), 1);
        }
}

static void test_queue_pairs_that_are_none(void **state)
{
        static const char *const wrong[] = {
                "",          "66",  "66:",          "66:0",  "0:66", "66:67:2.9",
                "66:67.3.0", "a:b", "66:0x1000000", "66:66", NULL
        };
        char *many[2 * TRACE_TOLD + 5] = { "pcap", "show" };

        (void)state;
        write_alone(DOCA_3_2, true);
        for (unsigned i = 0; wrong[i]; i++)
                assert_int_equal(RUN("show", "--qp", (char *)wrong[i], path), PCAP_USAGE);
        for (unsigned i = 0; i <= TRACE_TOLD; i++) {
                many[2 + 2 * i] = "--qp";
                many[3 + 2 * i] = "66:67";
        }
        many[2 * TRACE_TOLD + 2] = path;
        assert_int_equal(run(many, 2 * TRACE_TOLD + 3), PCAP_OK);
        many[2 * TRACE_TOLD + 2] = "--qp";
        many[2 * TRACE_TOLD + 4] = path;
        assert_int_equal(run(many, 2 * TRACE_TOLD + 5), PCAP_USAGE);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rules),
                cmocka_unit_test(test_no_rule_lacks_a_capture),
                cmocka_unit_test(test_parties),
                cmocka_unit_test(test_untied),
                cmocka_unit_test(test_show),
                cmocka_unit_test(test_stat),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_losses),
                cmocka_unit_test(test_told_late),
                cmocka_unit_test(test_queue_pairs_that_the_user_names),
                cmocka_unit_test(test_queue_pairs_that_are_none),
        };

        return cmocka_run_group_tests_name("doca_data", tests, make_path, drop_path);
}
