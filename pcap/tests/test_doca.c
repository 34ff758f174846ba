/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A DOCA session in a capture: the control channel is found by its framing, in each dialect; its blobs, where they are ours,
 * name the queue pairs on which the I/O messages are then read and judged.
 */
#include "pcap/trace/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pcap/doca/family.h"
#include "pcap/nvme/family.h"
#include "pdu/doca/wire/blob.h"
#include "pdu/io/capture/capture_rdma.h"

enum { PSN_S = 0x100, PSN_T = 0x900, QP = 0x40, BASE = 0x10000, KEY = 0x77 };

static char path[] = "/tmp/test-doca-XXXXXX.pcap";
static const struct trace_family *const families[] = { &nvme_capture, &doca_capture, NULL };

struct scene {
        struct capture_writer *w;
        struct capture_flow f;
        struct sockaddr_in host, controller;
        const struct doca_dialect *d;
        uint32_t id;
        int64_t ms;
};

static int64_t tick(struct scene *s)
{
        return ++s->ms * 1000000;
}

static void begin(struct scene *s, enum doca_version v)
{
        char err[200];

        *s = (struct scene) { .w = capture_writer_open(path, err, sizeof(err)),
                              .d = doca_dialect(v),
                              .host = { .sin_family = AF_INET, .sin_port = htons(50000) },
                              .controller = { .sin_family = AF_INET, .sin_port = htons(9999) } };
        assert_non_null(s->w);
        s->host.sin_addr.s_addr = htonl(0x0a000001);
        s->controller.sin_addr.s_addr = htonl(0x0a000002);
        capture_flow_open(s->w, &s->f, (void *)&s->host, (void *)&s->controller, 0);
}

static void end(struct scene *s)
{
        capture_flow_close(s->w, &s->f, PARTY_HOST, false, tick(s));
        assert_int_equal(capture_writer_close(s->w), 0);
}

static void say(struct scene *s, enum party sender, struct doca_msg m)
{
        uint8_t frame[256];
        size_t n;

        s->id += sender == PARTY_HOST;
        m.message_id = m.correlation_id = s->id;
        n = doca_msg_write(s->d, &m, frame, sizeof(frame));
        assert_true(n > 0 && n <= sizeof(frame));
        capture_flow_data(s->w, &s->f, sender, frame, n, tick(s));
}

static void exchange(struct scene *s, struct doca_msg request, struct doca_msg response)
{
        say(s, PARTY_HOST, request);
        response.kind = doca_shape_of(s->d, request.kind)->answer;
        say(s, PARTY_CONTROLLER, response);
}

/* Both ends of a queue pair, by number. */
static void connect_pair(struct scene *s, uint64_t role, uint32_t qpn)
{
        struct doca_end service = { .numbers = { .qpn = qpn, .psn = PSN_S, .mtu = 1024 } };
        struct doca_end target = { .numbers = { .qpn = qpn + 1, .psn = PSN_T, .mtu = 1024 } };
        uint8_t here[DOCA_END_BLOB], there[DOCA_END_BLOB];

        doca_end_write(&service, here);
        doca_end_write(&target, there);
        exchange(
            s,
            (struct doca_msg) { .kind = DOCA_CREATE, .role = role, .data = { here, sizeof(here) } },
            (struct doca_msg) { .role = role, .data = { there, sizeof(there) } });
}

static void set_up(struct scene *s)
{
        const struct doca_memory m = { .base = BASE, .len = 1 << 16, .rkey = KEY, .access = 3 };
        uint8_t blob[DOCA_MEMORY_BLOB];

        doca_memory_write(&m, blob);
        if (s->d->has_context)
                exchange(s, (struct doca_msg) { .kind = DOCA_QUERY },
                         (struct doca_msg) { .total_size = 1 << 20, .block_size = 512 });
        exchange(s,
                 (struct doca_msg) { .kind = DOCA_INIT,
                                     .transactions = 4,
                                     .batch = 1,
                                     .buffer_size = 4096,
                                     .cores = s->d->has_context ? 1 : 0,
                                     .data = { blob, sizeof(blob) } },
                 (struct doca_msg) { 0 });
        connect_pair(s, DOCA_IO_DATA, QP);
        connect_pair(s, DOCA_IO_CONTROL, QP + 2);
        if (!s->d->has_context)
                exchange(s, (struct doca_msg) { .kind = DOCA_CONNECT }, (struct doca_msg) { 0 });
        exchange(s, (struct doca_msg) { .kind = DOCA_START }, (struct doca_msg) { 0 });
}

static void open_pair(struct scene *s, struct capture_rdma *f, uint32_t qpn)
{
        *f = (struct capture_rdma) { 0 };
        capture_rdma_open(s->w, f, (void *)&s->host, (void *)&s->controller, tick(s));
        f->qpn[PARTY_HOST] = qpn;
        f->qpn[PARTY_CONTROLLER] = qpn + 1;
        f->next[PARTY_HOST] = PSN_S;
        f->next[PARTY_CONTROLLER] = PSN_T;
}

static void send_io(struct scene *s, struct capture_rdma *f, enum party sender,
                    const struct doca_io *io)
{
        uint8_t p[DOCA_IO_LEN];
        struct iovec iov = { p, sizeof(p) };

        doca_io_write(s->d, io, p);
        capture_rdma_send(s->w, f, sender, &iov, 1, NULL, tick(s));
}

/* A read of a page; wrong: its result has another user data. */
static void read_page(struct scene *s, bool wrong)
{
        static uint8_t page[4096];
        struct iovec data = { page, sizeof(page) };
        struct doca_io io = { .type = DOCA_IO_READ, .user_data = 0xabc, .size = sizeof(page) };
        struct capture_rdma control, transfer;

        open_pair(s, &transfer, QP);
        open_pair(s, &control, QP + 2);
        doca_io_put_place(s->d, &io, BASE, (struct doca_place) { 0x1000, 0x1000 });
        send_io(s, &control, PARTY_HOST, &io);
        capture_rdma_write(s->w, &transfer, PARTY_CONTROLLER, BASE + 0x1000, KEY, &data, 1,
                           tick(s));
        io.type = DOCA_IO_RESULT;
        io.user_data += wrong;
        send_io(s, &control, PARTY_CONTROLLER, &io);
}

static char *checked(struct check_counts *counts, struct trace_totals *totals)
{
        struct check_options options = { .all = true };
        char err[200], *out = NULL;
        size_t size;
        FILE *f = open_memstream(&out, &size);

        assert_int_equal(
            capture_check(path, families, NULL, &options, f, counts, totals, err, sizeof(err)), 0);
        fclose(f);
        unlink(path);
        return out;
}

static void test_good_sessions(void **state)
{
        (void)state;
        for (unsigned v = 0; v < DOCA_VERSIONS; v++) {
                struct check_counts counts;
                struct trace_totals totals;
                struct scene s;
                char *out;

                begin(&s, (enum doca_version)v);
                set_up(&s);
                read_page(&s, false);
                if (s.d->has_context)
                        exchange(&s, (struct doca_msg) { .kind = DOCA_STOP },
                                 (struct doca_msg) { 0 });
                exchange(&s, (struct doca_msg) { .kind = DOCA_SHUTDOWN }, (struct doca_msg) { 0 });
                end(&s);
                out = checked(&counts, &totals);
                assert_int_equal(totals.conns, 3);
                if (counts.of[GRADE_MUST] + counts.of[GRADE_SHOULD] + counts.of[GRADE_ADVICE] > 0)
                        fail_msg("%s: %s", s.d->name, out);
                free(out);
        }
}

static void test_wrong_user_data(void **state)
{
        struct check_counts counts;
        struct trace_totals totals;
        struct scene s;
        char *out;

        (void)state;
        begin(&s, DOCA_3_2);
        set_up(&s);
        read_page(&s, true);
        end(&s);
        out = checked(&counts, &totals);
        if (counts.of[GRADE_MUST] + counts.unproven !=
            1) /* nothing that follows shows that no packet is missing */
                fail_msg("%s", out);
        assert_non_null(strstr(out, "doca/io/user-data"));
        free(out);
}

static void test_wrong_control_messages(void **state)
{
        struct check_counts counts;
        struct trace_totals totals;
        struct scene s;
        char *out;

        (void)state;
        begin(&s, DOCA_3_2);
        exchange(&s, (struct doca_msg) { .kind = DOCA_QUERY },
                 (struct doca_msg) { .total_size = 1000, .block_size = 512 });
        exchange(&s, (struct doca_msg) { .kind = DOCA_STOP }, (struct doca_msg) { 0 });
        end(&s);
        out = checked(&counts, &totals);
        assert_int_equal(counts.of[GRADE_MUST], 2);
        assert_non_null(strstr(out, "target must doca/query/size"));
        assert_non_null(strstr(out, "service must doca/order/stage"));
        free(out);
}

/* Blobs of others name nothing: the channel is read, and no queue pair is. */
static void test_foreign_blobs(void **state)
{
        static const uint8_t blob[] = "a library's";
        struct doca_bytes foreign = { blob, sizeof(blob) };
        struct check_counts counts;
        struct trace_totals totals;
        struct scene s;
        char *out;

        (void)state;
        begin(&s, DOCA_3_2);
        exchange(&s, (struct doca_msg) { .kind = DOCA_QUERY },
                 (struct doca_msg) { .total_size = 1 << 20, .block_size = 512 });
        exchange(
            &s,
            (struct doca_msg) { .kind = DOCA_INIT, .transactions = 1, .cores = 1, .data = foreign },
            (struct doca_msg) { 0 });
        exchange(&s, (struct doca_msg) { .kind = DOCA_CREATE, .data = foreign },
                 (struct doca_msg) { .data = foreign });
        end(&s);
        out = checked(&counts, &totals);
        assert_int_equal(totals.conns, 1);
        assert_int_equal(counts.of[GRADE_MUST], 0);
        free(out);
}

/* A size that is none, and what cannot be this protocol. */
static void test_bad_frames_and_others(void **state)
{
        static const uint8_t bad[] = { 0, 0, 0, 1 }, other[] = "GET / HTTP/1.1\r\n\r\n";
        struct check_counts counts;
        struct trace_totals totals;
        struct scene s;
        char *out;

        (void)state;
        begin(&s, DOCA_3_2);
        exchange(&s, (struct doca_msg) { .kind = DOCA_QUERY },
                 (struct doca_msg) { .total_size = 1 << 20, .block_size = 512 });
        capture_flow_data(s.w, &s.f, PARTY_HOST, bad, sizeof(bad), tick(&s));
        end(&s);
        out = checked(&counts, &totals);
        assert_int_equal(counts.of[GRADE_MUST], 1);
        assert_non_null(strstr(out, "doca/frame/size-service"));
        free(out);

        begin(&s, DOCA_3_2);
        capture_flow_data(s.w, &s.f, PARTY_HOST, other, sizeof(other) - 1, tick(&s));
        end(&s);
        free(checked(&counts, &totals));
        assert_int_equal(totals.conns, 0);
        assert_int_equal(totals.other, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_good_sessions),
                cmocka_unit_test(test_wrong_user_data),
                cmocka_unit_test(test_wrong_control_messages),
                cmocka_unit_test(test_foreign_blobs),
                cmocka_unit_test(test_bad_frames_and_others),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
