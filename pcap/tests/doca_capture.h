/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures of a DOCA session, of one test: the control channel, and a context's two RDMA connections, which are queue pairs
 * that the channel's blobs name, or are made by the connection manager, over RoCE or iWARP: then the target connects.
 */
#ifndef NVMF_PCAP_TESTS_DOCA_CAPTURE_H
#define NVMF_PCAP_TESTS_DOCA_CAPTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capfile.h"
#include "pcap/doca/family.h"
#include "pcap/nvme/family.h"
#include "pcap/trace/check.h"
#include "pdu/doca/wire/blob.h"
#include "pdu/io/capture/capture_rdma.h"
#include "pdu/io/net.h"
#include "run.h"

enum {
        PSN_S = 0x100,
        PSN_T = 0x900,
        QP = 0x40,
        BASE = 0x10000, /* of the service's memory: */
        MEMORY = 1 << 16,
        KEY = 0x77,
        STORAGE = 1 << 20,
        TRANSACTIONS = 4,
        LISTENER = 7000,
        COOKIE = 0x1234500, /* of io_data */
};

enum way { BY_NUMBERS, BY_CM, BY_IWARP, WAYS };

struct scene {
        enum way way;
        struct capture_writer *w;
        struct capture_flow f;
        struct sockaddr_in host, controller; /* of the control channel */
        struct sockaddr_in rdma[2];          /* addresses of the devices, which are others */
        const struct doca_dialect *d;
        struct capture_rdma pair[DOCA_ROLES];
        uint32_t id;
        int64_t ms;
        bool closed; /* the control channel is */
};

static char path[] = "/tmp/test-doca-XXXXXX.pcap", out[1 << 20], err[256];
static const struct trace_family *const families[] = { &nvme_capture, &doca_capture, NULL };

/* --- the control channel ------------------------------------------------------------------------ */

static inline int64_t tick(struct scene *s)
{
        return ++s->ms * 1000000;
}

static inline void begin(struct scene *s, enum doca_version v, enum way way)
{
        *s = (struct scene) { .way = way,
                              .w = capture_writer_open(path, err, sizeof(err)),
                              .d = doca_dialect(v),
                              .host = { .sin_family = AF_INET, .sin_port = htons(50000) },
                              .controller = { .sin_family = AF_INET, .sin_port = htons(9999) } };
        assert_non_null(s->w);
        s->host.sin_addr.s_addr = htonl(0x0a000001);
        s->controller.sin_addr.s_addr = htonl(0x0a000002);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                s->rdma[p].sin_family = AF_INET;
                s->rdma[p].sin_addr.s_addr = htonl(0x0a000101 + (uint32_t)p);
        }
        capture_flow_open(s->w, &s->f, (void *)&s->host, (void *)&s->controller, 0);
}

static inline void say(struct scene *s, enum party sender, struct doca_msg m)
{
        uint8_t frame[256];
        size_t n;

        s->id += sender == PARTY_HOST;
        m.message_id = m.correlation_id = s->id;
        n = doca_msg_write(s->d, &m, frame, sizeof(frame));
        assert_true(n > 0 && n <= sizeof(frame));
        capture_flow_data(s->w, &s->f, sender, frame, n, tick(s));
}

static inline void answer(struct scene *s, enum doca_kind request, struct doca_msg response)
{
        response.kind = doca_shape_of(s->d, request)->answer;
        say(s, PARTY_CONTROLLER, response);
}

static inline void exchange(struct scene *s, struct doca_msg request, struct doca_msg response)
{
        say(s, PARTY_HOST, request);
        answer(s, request.kind, response);
}

/* --- RDMA connections --------------------------------------------------------------------------- */

/* Whose packets are those of the side that connects. */
static inline enum party side_of(const struct scene *s, enum party p)
{
        return s->way == BY_NUMBERS ? p : peer_of(p);
}

static inline struct doca_end end_of(const struct scene *s, enum doca_role role, enum party p)
{
        struct doca_end e = { .by_cm = s->way != BY_NUMBERS, .reads_in = 16, .reads_out = 16 };

        assert_true(net_gid(p == PARTY_HOST || e.by_cm ? "10.0.1.1" : "10.0.1.2", e.numbers.gid));
        if (!e.by_cm) {
                e.numbers.qpn = (uint32_t)(QP + 2 * (int)role + (int)p);
                e.numbers.psn = p == PARTY_HOST ? PSN_S : PSN_T;
                e.numbers.mtu = 4096; /* as capture_rdma.c writes */
                return e;
        }
        e.port = LISTENER;
        e.cookie = COOKIE + role;
        return e;
}

/* A connect request of the target, and its acceptance. */
static inline void connect_to(struct scene *s, struct capture_rdma *f, uint64_t cookie,
                              const struct sockaddr_in *service)
{
        struct sockaddr_in target = s->rdma[PARTY_CONTROLLER];
        uint8_t data[DOCA_CM_DATA];
        struct capture_cm m = { .kind = CAPTURE_REQUEST,
                                .data = data,
                                .len = sizeof(data),
                                .reads_in = 16,
                                .reads_out = 16 };

        *f = (struct capture_rdma) { .iwarp = s->way == BY_IWARP };
        doca_cm_write(cookie, data);
        target.sin_port = htons((uint16_t)(41000 + s->ms));
        capture_rdma_open(s->w, f, (void *)&target, (const void *)service, tick(s));
        capture_rdma_cm(s->w, f, PARTY_HOST, &m, tick(s));
        m = (struct capture_cm) { .kind = CAPTURE_ACCEPT, .reads_in = 16, .reads_out = 16 };
        capture_rdma_cm(s->w, f, PARTY_CONTROLLER, &m, tick(s));
        m.kind = CAPTURE_READY;
        if (s->way == BY_CM)
                capture_rdma_cm(s->w, f, PARTY_HOST, &m, tick(s));
}

static inline void open_pair(struct scene *s, enum doca_role role)
{
        struct capture_rdma *f = &s->pair[role];
        struct sockaddr_in service = s->rdma[PARTY_HOST];

        if (s->way != BY_NUMBERS) {
                service.sin_port = htons(LISTENER);
                connect_to(s, f, COOKIE + role, &service);
                return;
        }
        capture_rdma_open(s->w, f, (void *)&s->rdma[PARTY_HOST], (void *)&s->rdma[PARTY_CONTROLLER],
                          tick(s));
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                f->qpn[p] = end_of(s, role, p).numbers.qpn;
                f->next[p] = end_of(s, role, p).numbers.psn;
        }
}

/* A connection is asked for and made; by the connection manager it may be there before the answer is. */
static inline void create(struct scene *s, enum doca_role role, bool early)
{
        struct doca_end service = end_of(s, role, PARTY_HOST),
                        target = end_of(s, role, PARTY_CONTROLLER);
        uint8_t here[DOCA_END_BLOB], there[DOCA_END_BLOB];

        doca_end_write(&service, here);
        doca_end_write(&target, there);
        say(s, PARTY_HOST,
            (struct doca_msg) {
                .kind = DOCA_CREATE, .role = role, .data = { here, sizeof(here) } });
        if (early)
                open_pair(s, role);
        answer(s, DOCA_CREATE,
               (struct doca_msg) { .role = role, .data = { there, sizeof(there) } });
        if (!early)
                open_pair(s, role);
}

static inline void initialise(struct scene *s)
{
        const struct doca_memory m = { .base = BASE, .len = MEMORY, .rkey = KEY, .access = 3 };
        uint8_t blob[DOCA_MEMORY_BLOB];

        doca_memory_write(&m, blob);
        if (s->d->has_context)
                exchange(s, (struct doca_msg) { .kind = DOCA_QUERY },
                         (struct doca_msg) { .total_size = STORAGE, .block_size = 512 });
        exchange(s,
                 (struct doca_msg) { .kind = DOCA_INIT,
                                     .transactions = TRANSACTIONS,
                                     .batch = 1,
                                     .buffer_size = 4096,
                                     .cores = s->d->has_context ? 1 : 0,
                                     .data = { blob, sizeof(blob) } },
                 (struct doca_msg) { 0 });
}

static inline void start(struct scene *s)
{
        if (!s->d->has_context)
                exchange(s, (struct doca_msg) { .kind = DOCA_CONNECT }, (struct doca_msg) { 0 });
        exchange(s, (struct doca_msg) { .kind = DOCA_START }, (struct doca_msg) { 0 });
}

static inline void set_up(struct scene *s)
{
        initialise(s);
        create(s, DOCA_IO_DATA, false);
        create(s, DOCA_IO_CONTROL, true);
        start(s);
}

/* --- what goes over them ------------------------------------------------------------------------ */

static inline void send_bytes(struct scene *s, enum party sender, uint8_t *p, uint32_t n)
{
        struct capture_rdma *f = &s->pair[DOCA_IO_CONTROL];
        struct iovec iov = { p, n };
        uint32_t number = capture_rdma_send(s->w, f, side_of(s, sender), &iov, 1, NULL, tick(s));

        capture_rdma_ack(s->w, f, side_of(s, peer_of(sender)), number, CAPTURE_ACK, tick(s));
}

static inline void send_io(struct scene *s, enum party sender, const struct doca_io *io)
{
        uint8_t p[DOCA_IO_LEN];

        doca_io_write(s->d, io, p);
        send_bytes(s, sender, p, sizeof(p));
}

/* The data of a read or of a write, by the target. */
static inline void transfer(struct scene *s, bool write, uint64_t memory, uint32_t n)
{
        static uint8_t bytes[MEMORY];
        struct iovec data = { bytes, n };
        struct capture_rdma *f = &s->pair[DOCA_IO_DATA];
        enum party target = side_of(s, PARTY_CONTROLLER);
        uint32_t number;

        if (!write) {
                number = capture_rdma_write(s->w, f, target, BASE + memory, KEY, &data, 1, tick(s));
                capture_rdma_ack(s->w, f, peer_of(target), number, CAPTURE_ACK, tick(s));
                return;
        }
        number = capture_rdma_read(s->w, f, target, BASE + memory, KEY, n, tick(s));
        capture_rdma_answer(s->w, f, peer_of(target), number, &data, 1, tick(s));
}

/* A request for n bytes at the same place of memory and storage, its data, and its result. */
static inline void request(struct scene *s, bool write, uint64_t user, uint64_t at, uint32_t n)
{
        struct doca_io io = { .type = write ? DOCA_IO_WRITE : DOCA_IO_READ,
                              .user_data = user,
                              .size = n };

        doca_io_put_place(s->d, &io, BASE, (struct doca_place) { at, at });
        send_io(s, PARTY_HOST, &io);
        transfer(s, write, at, n);
        io.type = DOCA_IO_RESULT;
        send_io(s, PARTY_CONTROLLER, &io);
}

/* A WRITE of nothing by each side shows that nothing before it is missing. */
static inline void prove(struct scene *s)
{
        struct iovec none = { NULL, 0 };

        for (unsigned role = 0; role < DOCA_ROLES; role++)
                for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                        capture_rdma_write(s->w, &s->pair[role], p, 0, 0, &none, 0, tick(s));
}

static inline void stop(struct scene *s)
{
        if (s->d->has_context)
                exchange(s, (struct doca_msg) { .kind = DOCA_STOP }, (struct doca_msg) { 0 });
}

static inline void close_channel(struct scene *s)
{
        if (!s->closed)
                capture_flow_close(s->w, &s->f, PARTY_HOST, false, tick(s));
        s->closed = true;
}

static inline void end(struct scene *s)
{
        for (unsigned role = 0; role < DOCA_ROLES; role++)
                if (s->pair[role].iwarp)
                        capture_rdma_close(s->w, &s->pair[role], tick(s));
        close_channel(s);
        assert_int_equal(capture_writer_close(s->w), 0);
}

/* --- reading ------------------------------------------------------------------------------------ */

/* What is found goes to `out`; waived: NULL, or a set for each family. */
static inline struct check_counts check(const struct rule_set *waived, struct trace_totals *totals)
{
        struct check_options options = { .all = true, .json = true, .waived = waived };
        struct check_counts counts;
        FILE *f = fmemopen(out, sizeof(out), "w");

        assert_non_null(f);
        assert_int_equal(
            capture_check(path, families, NULL, &options, f, &counts, totals, err, sizeof(err)), 0);
        fclose(f);
        return counts;
}

static inline unsigned count_of(const char *what)
{
        unsigned n = 0;

        for (const char *at = out; (at = strstr(at, what)); at++)
                n++;
        return n;
}

/* That rule alone, once, proven; DOCA_RULE_NONE: nothing. */
static inline void assert_found(enum doca_rule rule, const char *where)
{
        bool one = rule != DOCA_RULE_NONE;
        char line[100];

        snprintf(line, sizeof(line), "\"rule\":\"%s\"", one ? doca_rule_get(rule)->id : "none");
        if (count_of("\"rule\":") == one && count_of(line) == one &&
            count_of("\"proven\":true") == one)
                return;
        fail_msg("%s: not %s alone, but: %s", where, line, out);
}

static inline int run(char **argv, int argc)
{
        return run_pcap(families, argv, argc, out, sizeof(out));
}
#define RUN(...)                                                                                   \
        run((char *[]) { "pcap", __VA_ARGS__ },                                                    \
            (int)(sizeof((char *[]) { "pcap", __VA_ARGS__ }) / sizeof(char *)))

static inline int make_path(void **state)
{
        int fd = mkstemps(path, 5);

        (void)state;
        return fd < 0 ? -1 : close(fd);
}

static inline int drop_path(void **state)
{
        (void)state;
        return unlink(path);
}

#endif
