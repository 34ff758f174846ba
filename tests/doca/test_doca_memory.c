/* SPDX-License-Identifier: BSD-3-Clause */
/* Our requester and our target, in one process over RDMA in memory. */
#include "pdu/core/tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "host/doca/session.h"
#include "host/engine/verify.h"
#include "pdu/io/log.h"
#include "pdu/io/loop.h"
#include "pdu/io/net.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "target/doca/doca_server.h"

enum { TIMEOUT = 20000, IO = 16 << 10, KIB = 1024 };
#ifdef NDEBUG
enum { MOVED_MIB = 1024 };
#else
enum { MOVED_MIB = 64 }; /* sanitizers, which take their time */
#endif

struct world {
        struct verbs_provider *verbs;
        struct doca_options options;
        struct doca_server *server;
        struct doca_params params;
};

static void serve(struct world *w)
{
        char error[300];

        w->options.listens = 1;
        w->options.listen[0] = (struct doca_listen) { "127.0.0.1", "0" };
        w->options.verbs = w->verbs;
        w->server = doca_server_start(&w->options, error, sizeof(error));
        if (!w->server)
                fail_msg("%s", error);
        w->params.trsvcid = doca_server_port(w->server, 0);
}

static void open_world(struct world *w, enum doca_version v)
{
        *w = (struct world) {
                .verbs = verbs_memory_new(NULL),
                .options = { .dialect = doca_dialect(v), .ns = "mem:1M", .quiet = true },
                .params = { .traddr = "127.0.0.1",
                            .dialect = doca_dialect(v),
                            .cores = 2,
                            .depth = 4,
                            .io_bytes = IO,
                            .storage = 1 << 20,
                            .timeout = TIMEOUT }
        };
        assert_non_null(w->verbs);
        w->params.verbs = w->verbs;
}

static void close_world(struct world *w)
{
        struct memory_count left;

        doca_server_stop(w->server);
        left = verbs_memory_leaks(w->verbs);
        assert_int_equal(left.eps + left.qps + left.mrs + left.listeners, 0);
        verbs_memory_free(w->verbs);
}

static void start(struct world *w, struct doca_session *s)
{
        struct host_error e = { 0 };

        if (doca_session_open(s, &w->params, &e) < 0 || doca_session_start(s, &e) < 0)
                fail_msg("%s", e.line);
}

static void finish(struct doca_session *s)
{
        struct host_error e = { 0 };

        if (doca_session_close(s, true, &e) < 0)
                fail_msg("%s", e.line);
}

static void move(struct doca_session *s, bool write, uint64_t block, uint32_t blocks, void *data)
{
        struct host_error e = { 0 };

        if (doca_transfer(s, 0, write, block, blocks, data, &e) < 0)
                fail_msg("%s", e.line);
}

/* --- what has to work ------------------------------------------------------------------------- */

static void work_in_each_dialect(bool by_cm)
{
        for (unsigned v = 0; v < DOCA_VERSIONS; v++) {
                struct verify_options o = {
                        .range = 512 * KIB, .max_size = IO, .depth = 4, .passes = 2, .seed = 3
                };
                struct host_error e = { 0 };
                struct verify_result r;
                struct doca_session s;
                struct world w;
                struct load l;

                open_world(&w, (enum doca_version)v);
                w.params.by_cm = by_cm;
                serve(&w);
                start(&w, &s);
                assert_int_equal(s.by_cm, by_cm);
                assert_int_equal(s.total_size, 1 << 20);
                assert_int_equal(s.block_size, 512);
                l = doca_load(&s);
                if (verify_run(&l, &o, &r, &e) < 0)
                        fail_msg("%s: %s", doca_dialect((enum doca_version)v)->name, e.line);
                assert_false(r.differs);
                assert_true(r.reads > 0 && r.writes > 0);
                finish(&s);
                close_world(&w);
        }
}

static void test_each_dialect(void **state)
{
        (void)state;
        work_in_each_dialect(false);
}

static void test_by_connection_manager(void **state)
{
        (void)state;
        work_in_each_dialect(true);
}

/* Each way, over so many contexts. */
static void move_all(unsigned contexts)
{
        struct verify_options o = {
                .range = 16 << 20, .max_size = 64 * KIB, .depth = 8, .passes = 4
        };
        uint64_t read = 0, written = 0, all = (uint64_t)MOVED_MIB << 20;
        struct host_error e = { 0 };
        struct verify_result r;
        struct doca_session s;
        struct world w;
        struct load l;

        open_world(&w, DOCA_3_2);
        w.options.ns = "mem:16M";
        w.params.cores = contexts;
        w.params.depth = o.depth;
        w.params.io_bytes = o.max_size;
        serve(&w);
        start(&w, &s);
        l = doca_load(&s);
        for (; read < all || written < all; o.seed++) {
                if (verify_run(&l, &o, &r, &e) < 0)
                        fail_msg("%u contexts: %s", contexts, e.line);
                assert_false(r.differs);
                read += r.bytes_read;
                written += r.bytes_written;
        }
        finish(&s);
        close_world(&w);
}

static void test_a_gib_each_way(void **state)
{
        (void)state;
        move_all(1);
        move_all(2);
        move_all(4);
}

/* Nobody listens there any more: start_storage is refused, and others are served. */
static void test_nobody_listens(void **state)
{
        struct doca_msg m, create = { .kind = DOCA_CREATE };
        struct host_error e = { 0 };
        uint8_t blob[DOCA_END_BLOB];
        struct doca_end end = { .by_cm = true, .port = 9, .reads_in = 1, .reads_out = 1 };
        struct doca_session s, other;
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        serve(&w);
        assert_int_equal(doca_session_open(&s, &w.params, &e), 0);
        create.data = (struct doca_bytes) { blob, sizeof(blob) };
        assert_true(net_gid("127.0.0.1", end.numbers.gid));
        doca_end_write(&end, blob);
        assert_int_equal(
            doca_session_ask(
                &s, (struct doca_msg) { .kind = DOCA_INIT, .transactions = 1, .cores = 1 }, &m, &e),
            0);
        for (create.role = 0; create.role < DOCA_ROLES; create.role++)
                assert_int_equal(doca_session_ask(&s, create, &m, &e), 0);
        assert_int_equal(doca_session_ask(&s, (struct doca_msg) { .kind = DOCA_START }, &m, &e),
                         -1);
        assert_int_equal(e.kind, HOST_STATUS);
        start(&w, &other);
        finish(&other);
        (void)doca_session_close(&s, false, NULL);
        close_world(&w);
}

/* What one client has written the next one reads. */
static void test_clients_in_turn(void **state)
{
        static uint8_t data[4096], back[4096];
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        serve(&w);
        for (unsigned i = 1; i <= 3; i++) {
                struct doca_session s;

                start(&w, &s);
                if (i > 1) {
                        move(&s, false, 16, 8, back);
                        assert_memory_equal(back, data, sizeof(data));
                }
                memset(data, (int)i, sizeof(data));
                move(&s, true, 16, 8, data);
                finish(&s);
        }
        close_world(&w);
}

static void test_clients_at_once(void **state)
{
        static uint8_t data[512], back[512];
        struct doca_session a, b;
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        w.options.reactors = 2;
        serve(&w);
        start(&w, &a);
        start(&w, &b);
        memset(data, 0x5a, sizeof(data));
        move(&a, true, 7, 1, data);
        move(&b, false, 7, 1, back);
        assert_memory_equal(back, data, sizeof(data));
        finish(&a);
        move(&b, false, 7, 1, back);
        finish(&b);
        close_world(&w);
}

/* --- what must not work ----------------------------------------------------------------------- */

static void expect_failure(enum doca_rule violated, uint16_t result)
{
        static uint8_t data[4096];
        struct host_error e = { 0 };
        struct doca_session s;
        struct world w;

        open_world(&w, DOCA_3_2);
        rule_add(&w.params.policy.violated, violated);
        serve(&w);
        start(&w, &s);
        assert_int_equal(doca_transfer(&s, 0, true, 0, 8, data, &e), -1);
        assert_int_equal(e.kind, HOST_STATUS);
        assert_int_equal(e.status, result);
        (void)doca_session_close(&s, true, NULL);
        close_world(&w);
}

static void test_bad_requests(void **state)
{
        (void)state;
        expect_failure(DOCA_IO_STORAGE, DOCA_ERROR_INVALID_VALUE);
        expect_failure(DOCA_IO_MEMORY, DOCA_ERROR_INVALID_VALUE);
        expect_failure(DOCA_IO_TYPE_S, DOCA_ERROR_INVALID_VALUE);
        expect_failure(DOCA_IO_LEN_S, DOCA_ERROR_INVALID_VALUE);
        expect_failure(DOCA_IO_BLOCKS, DOCA_ERROR_INVALID_VALUE);
}

/* A request is refused, and the context works on. */
static void test_too_big(void **state)
{
        static uint8_t data[IO];
        struct host_error e = { 0 };
        struct doca_session s;
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        w.options.max_transfer = 8192;
        serve(&w);
        start(&w, &s);
        assert_int_equal(doca_transfer(&s, 0, false, 0, IO / 512, data, &e), -1);
        assert_int_equal(e.status, DOCA_ERROR_TOO_BIG);
        move(&s, false, 0, 16, data);
        finish(&s);
        close_world(&w);
}

/* Keys are the device's to check: what the blob says is not believed. */
static void test_wrong_key(void **state)
{
        static uint8_t data[512];
        struct host_error e = { 0 };
        struct doca_session s;
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        serve(&w);
        start(&w, &s);
        rdma_memory_drop(&s.memory, s.exported); /* its key is good no more */
        s.exported = rdma_memory_own(&s.memory, s.exported_len, &s.exported_key);
        for (unsigned i = 0; i < w.params.depth; i++)
                s.contexts[0].requests[i].data = s.exported;
        assert_int_equal(doca_transfer(&s, 0, false, 0, 1, data, &e), -1);
        (void)doca_session_close(&s, true, NULL);
        close_world(&w);
}

static void test_target_breaks_rules(void **state)
{
        static const enum doca_rule rules[] = { DOCA_IO_LEN_T, DOCA_IO_TYPE_T, DOCA_IO_USER };
        static uint8_t data[512];

        (void)state;
        for (unsigned i = 0; i < COUNT(rules); i++) {
                struct host_error e = { 0 };
                struct doca_session s;
                struct world w;

                open_world(&w, DOCA_3_2);
                rule_add(&w.options.policy.violated, rules[i]);
                serve(&w);
                start(&w, &s);
                assert_int_equal(doca_transfer(&s, 0, false, 0, 1, data, &e), -1);
                assert_non_null(strstr(e.line, doca_rule_get(rules[i])->id));
                (void)doca_session_close(&s, true, NULL);
                close_world(&w);
        }
}

/* A result that overtakes its data: the memory is as it was, until the data comes after all. */
static void test_result_before_data(void **state)
{
        static uint8_t data[512], back[512], zeroes[512];
        struct doca_session s;
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        rule_add(&w.options.policy.violated, DOCA_DATA_FIRST);
        serve(&w);
        start(&w, &s);
        memset(data, 0x77, sizeof(data));
        move(&s, true, 3, 1, data);
        memset(s.exported, 0, s.exported_len);
        move(&s, false, 3, 1, back);
        assert_memory_equal(back, zeroes, sizeof(back));
        finish(&s);
        close_world(&w);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void count_done(struct load_io *io, void *user)
{
        *(unsigned *)user += io->outcome == LOAD_DONE;
}

/* stop_storage is answered when all requests are. */
static void test_stop_drains(void **state)
{
        struct load_io ios[4];
        struct host_error e = { 0 };
        struct doca_session s;
        unsigned done = 0;
        struct doca_msg m;
        struct world w;
        struct load l;

        (void)state;
        open_world(&w, DOCA_3_2);
        w.options.ns = "mem:1M,delay=100ms";
        serve(&w);
        start(&w, &s);
        l = doca_load(&s);
        for (unsigned i = 0; i < 4; i++) {
                ios[i] =
                    (struct load_io) { .blocks = 1, .block = i, .done = count_done, .user = &done };
                assert_int_equal(l.ops->submit(&l, 0, &ios[i]), 0);
        }
        assert_int_equal(l.ops->send(&l, 0), 0);
        loop_sleep_us(20000);
        assert_int_equal(doca_session_ask(&s, (struct doca_msg) { .kind = DOCA_STOP }, &m, &e), 0);
        while (done < 4 && l.ops->receive(&l, 0) > 0)
                ;
        assert_int_equal(done, 4);
        assert_int_equal(doca_session_ask(&s, (struct doca_msg) { .kind = DOCA_SHUTDOWN }, &m, &e),
                         0);
        (void)doca_session_close(&s, false, NULL);
        close_world(&w);
}

/* A client that goes in the middle of requests leaves nothing behind, and the next one is served. */
static void test_client_vanishes(void **state)
{
        static uint8_t data[512];
        struct load_io ios[4];
        struct doca_session s;
        unsigned done = 0;
        struct world w;
        struct load l;

        (void)state;
        open_world(&w, DOCA_3_2);
        w.options.ns = "mem:1M,delay=30ms";
        serve(&w);
        start(&w, &s);
        l = doca_load(&s);
        for (unsigned i = 0; i < 4; i++) {
                ios[i] =
                    (struct load_io) { .blocks = 1, .block = i, .done = count_done, .user = &done };
                assert_int_equal(l.ops->submit(&l, 0, &ios[i]), 0);
        }
        assert_int_equal(l.ops->send(&l, 0), 0);
        loop_sleep_us(10000);
        (void)doca_session_close(&s, false, NULL);
        start(&w, &s);
        move(&s, false, 0, 1, data);
        finish(&s);
        close_world(&w);
}

/* The target ends while a client is there. */
static void test_target_vanishes(void **state)
{
        static uint8_t data[512];
        struct host_error e = { 0 };
        struct doca_session s;
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        w.params.timeout = 500;
        serve(&w);
        start(&w, &s);
        move(&s, false, 0, 1, data);
        doca_server_stop(w.server);
        assert_int_equal(doca_transfer(&s, 0, false, 0, 1, data, &e), -1);
        assert_int_equal(e.kind, HOST_BROKEN);
        (void)doca_session_close(&s, false, NULL);
        serve(&w);
        close_world(&w);
}

/* --- blobs of others -------------------------------------------------------------------------- */

static void test_foreign_blobs(void **state)
{
        static const struct doca_bytes foreign = { (const uint8_t *)"whatever a library makes",
                                                   24 };
        struct host_error e = { 0 };
        struct doca_session s;
        struct doca_msg m;
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        serve(&w);
        assert_int_equal(doca_session_open(&s, &w.params, &e), 0);
        assert_int_equal(doca_session_ask(&s,
                                          (struct doca_msg) { .kind = DOCA_INIT,
                                                              .cores = 1,
                                                              .transactions = 1,
                                                              .data = foreign },
                                          &m, &e),
                         0);
        assert_int_equal(
            doca_session_ask(&s, (struct doca_msg) { .kind = DOCA_CREATE, .data = foreign }, &m,
                             &e),
            -1);
        assert_int_equal(e.status, DOCA_ERROR_NOT_SUPPORTED);
        assert_non_null(strstr(e.line, "not a verbs blob, version 1"));
        (void)doca_session_close(&s, false, NULL);
        close_world(&w);
}

static void test_limits(void **state)
{
        struct host_error e = { 0 };
        struct doca_session s;
        struct doca_msg m;
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        w.options.cores = 3;
        w.options.transactions = 5;
        serve(&w);
        assert_int_equal(doca_session_open(&s, &w.params, &e), 0);
        assert_int_equal(
            doca_session_ask(
                &s, (struct doca_msg) { .kind = DOCA_INIT, .cores = 4, .transactions = 1 }, &m, &e),
            -1);
        assert_int_equal(e.status, DOCA_ERROR_INVALID_VALUE);
        assert_int_equal(
            doca_session_ask(
                &s, (struct doca_msg) { .kind = DOCA_INIT, .cores = 1, .transactions = 6 }, &m, &e),
            -1);
        assert_int_equal(
            doca_session_ask(
                &s, (struct doca_msg) { .kind = DOCA_INIT, .cores = 3, .transactions = 5 }, &m, &e),
            0);
        (void)doca_session_close(&s, false, NULL);
        close_world(&w);
}

static void remove_all(struct memory_fabric *f, void *arg)
{
        (void)arg;
        memory_remove(f, NULL);
}

/* A queue pair that could not be made has left its device, which may go before the client does. */
static void test_device_goes_after_a_refusal(void **state)
{
        struct doca_msg m, create = { .kind = DOCA_CREATE };
        struct host_error e = { 0 };
        uint8_t blob[DOCA_END_BLOB];
        struct doca_end end = { .reads_in = 0, .reads_out = 1 }; /* it could not be written from */
        struct doca_session s;
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        serve(&w);
        assert_int_equal(doca_session_open(&s, &w.params, &e), 0);
        create.data = (struct doca_bytes) { blob, sizeof(blob) };
        assert_true(net_gid("127.0.0.1", end.numbers.gid));
        doca_end_write(&end, blob);
        assert_int_equal(
            doca_session_ask(
                &s, (struct doca_msg) { .kind = DOCA_INIT, .transactions = 1, .cores = 1 }, &m, &e),
            0);
        for (create.role = 0; create.role < DOCA_ROLES; create.role++) {
                assert_int_equal(doca_session_ask(&s, create, &m, &e), -1);
                assert_int_equal(e.kind, HOST_STATUS);
        }
        verbs_memory_do(w.verbs, remove_all, NULL);
        loop_sleep_us(50000);
        (void)doca_session_close(&s, true, NULL);
        close_world(&w);
}

/* Nothing can be connected, and all else is answered. */
static void test_connection_fails(void **state)
{
        struct host_error e = { 0 };
        struct doca_session s;
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        w.options.device = "0.0.0.0"; /* no device has it */
        serve(&w);
        assert_int_equal(doca_session_open(&s, &w.params, &e), 0);
        assert_int_equal(doca_session_start(&s, &e), -1);
        assert_int_equal(e.status, DOCA_ERROR_INITIALIZATION);
        (void)doca_session_close(&s, true, NULL);
        close_world(&w);
}

/* What the log says at the end, of a client and of all; the last one: the log stays where it is. */
static void test_statistics(void **state)
{
        static uint8_t data[4096];
        char text[4096];
        FILE *f = tmpfile();
        struct doca_session s;
        struct world w;
        const char *all;
        int hits = 0;
        ssize_t n;

        (void)state;
        assert_non_null(f);
        log_start(fileno(f), LOG_AS_INFO, false);
        open_world(&w, DOCA_3_2);
        w.options.quiet = false;
        serve(&w);
        start(&w, &s);
        move(&s, true, 0, 8, data);
        move(&s, true, 8, 1, data);
        move(&s, false, 0, 1, data);
        finish(&s);
        close_world(&w);
        assert_true(log_flush(TIMEOUT));
        n = pread(fileno(f), text, sizeof(text) - 1, 0);
        assert_true(n > 0);
        text[n] = '\0';
        assert_non_null(
            strstr(text, "context 0: 1 reads (512 bytes), 2 writes (4608 bytes), 0 failed\n"));
        assert_non_null(
            strstr(text, "context 1: 0 reads (0 bytes), 0 writes (0 bytes), 0 failed\n"));
        assert_non_null(strstr(text, "conn 1: polls: "));
        all = strstr(text,
                     "1 clients: 1 reads (512 bytes), 2 writes (4608 bytes), 0 failed; polls: ");
        assert_non_null(all);
        assert_int_equal(sscanf(strstr(all, "polls: "), "polls: %d hits", &hits), 1);
        assert_true(hits >= 3);
}

/* --- clients that are rude ------------------------------------------------------------------------ */

/* A control channel by hand, with a small buffer for what comes; it never waits. */
static int channel(const struct world *w, const char *from)
{
        struct sockaddr_in a = { .sin_family = AF_INET };
        int fd = socket(AF_INET, SOCK_STREAM, 0), small = 4096;

        assert_true(fd >= 0);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
        assert_int_equal(inet_pton(AF_INET, from, &a.sin_addr), 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        a.sin_port = htons((uint16_t)atoi(w->params.trsvcid));
        assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &a.sin_addr), 1);
        assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        return fd;
}

static bool is_closed(int fd)
{
        char byte;

        return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0 || errno != EAGAIN;
}

/* Where places are short, who says nothing gives way; a client with contexts stays, and where there is room all do. */
static void test_silent_clients_give_way(void **state)
{
        enum { SILENT = 64, PATIENCE = 300 };
        static uint8_t data[512];
        uint64_t until = loop_now_ms() + TIMEOUT;
        struct doca_session s;
        int fd[SILENT];
        struct world w;

        (void)state;
        open_world(&w, DOCA_3_2);
        w.options.patience = PATIENCE;
        serve(&w);
        for (unsigned i = 0; i < SILENT; i++)
                fd[i] = channel(&w, "127.0.0.2");
        start(&w, &s); /* one address does not have all places */
        for (unsigned open = SILENT; open > 32 && loop_now_ms() < until; usleep(10000)) {
                open = 0;
                for (unsigned i = 0; i < SILENT; i++)
                        open += !is_closed(fd[i]);
        }
        assert_true(loop_now_ms() < until);
        usleep(2 * PATIENCE * 1000);
        for (unsigned i = 0, open = 0; i < SILENT; i++) {
                open += !is_closed(fd[i]);
                assert_true(i < SILENT - 1 || open >= 16);
                close(fd[i]);
        }
        move(&s, true, 7, 1, data);
        finish(&s);
        close_world(&w);
}

/* Requests without end, and no answer is read. */
static void test_unread_answers_have_a_time(void **state)
{
        uint64_t until = loop_now_ms() + TIMEOUT;
        uint8_t frame[256];
        struct world w;
        size_t n;
        int fd;

        (void)state;
        open_world(&w, DOCA_3_2);
        w.options.patience = 300;
        serve(&w);
        fd = channel(&w, "127.0.0.1");
        n = doca_msg_write(w.options.dialect, &(struct doca_msg) { .kind = DOCA_QUERY }, frame,
                           sizeof(frame));
        assert_true(n > 0 && n <= sizeof(frame));
        while (loop_now_ms() < until) {
                ssize_t sent = send(fd, frame, n, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (sent < 0 && errno != EAGAIN)
                        break;
                if (sent < (ssize_t)n)
                        usleep(1000);
        }
        assert_true(loop_now_ms() < until);
        close(fd);
        close_world(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_dialect),
                cmocka_unit_test(test_by_connection_manager),
                cmocka_unit_test(test_a_gib_each_way),
                cmocka_unit_test(test_nobody_listens),
                cmocka_unit_test(test_clients_in_turn),
                cmocka_unit_test(test_clients_at_once),
                cmocka_unit_test(test_bad_requests),
                cmocka_unit_test(test_too_big),
                cmocka_unit_test(test_wrong_key),
                cmocka_unit_test(test_target_breaks_rules),
                cmocka_unit_test(test_result_before_data),
                cmocka_unit_test(test_stop_drains),
                cmocka_unit_test(test_client_vanishes),
                cmocka_unit_test(test_target_vanishes),
                cmocka_unit_test(test_foreign_blobs),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_device_goes_after_a_refusal),
                cmocka_unit_test(test_connection_fails),
                cmocka_unit_test(test_statistics),
                cmocka_unit_test(test_silent_clients_give_way),
                cmocka_unit_test(test_unread_answers_have_a_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
