/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of SRP over RoCEv2, written from sessions, and judged: of one test. */
#ifndef NVMF_PCAP_TESTS_SRP_CAPTURE_H
#define NVMF_PCAP_TESTS_SRP_CAPTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "capfile.h"
#include "pcap/nvme/family.h"
#include "pcap/srp/family.h"
#include "pcap/trace/check.h"
#include "pdu/io/capture/capture_rdma.h"
#include "pdu/srp/machine/tests/session.h"
#include "run.h"

static char path[] = "/tmp/test_srp.XXXXXX.pcap", out[1 << 20], err[256];
static struct session session;
static struct capture_writer *writer;
static struct capture_rdma flow;
static int64_t now;

/* --- writing ---------------------------------------------------------------------------------- */

static inline void begin(void)
{
        writer = capture_writer_open(path, err, sizeof(err));
        assert_non_null(writer);
        now = 0;
}

static inline void end(void)
{
        assert_int_equal(capture_writer_close(writer), 0);
}

static inline void write_cm(const struct say *one)
{
        struct srp_login_req login;
        struct srp_login_req_cm cm;
        struct capture_cm m = { .data = one->p, .len = one->n, .reads_in = 4, .reads_out = 4 };

        memcpy(&login, one->p, sizeof(login));
        cm = srp_login_to_cm(&login);
        if (one->kind == SAY_LOGIN) {
                m.data = &cm;
                m.len = sizeof(cm);
        }
        m.kind = one->kind == SAY_LOGIN    ? CAPTURE_REQUEST
                 : one->kind == SAY_ACCEPT ? CAPTURE_ACCEPT
                                           : CAPTURE_REJECT;
        m.reason = 28;
        capture_rdma_cm(writer, &flow, one->sender, &m, now += 1000);
        if (one->kind == SAY_ACCEPT) {
                m = (struct capture_cm) { .kind = CAPTURE_READY };
                capture_rdma_cm(writer, &flow, PARTY_HOST, &m, now += 1000);
        }
}

static inline void write_one(const struct say *one)
{
        static uint8_t nothing[16384];
        const uint8_t *data = one->n >= one->memory.len ? one->p : nothing; /* of a transfer */
        struct iovec bytes = { (void *)(uintptr_t)one->p, one->n };
        uint32_t number;

        if (one->kind < SAY_IU) {
                write_cm(one);
        } else if (one->kind == SAY_IU) {
                number =
                    capture_rdma_send(writer, &flow, one->sender, &bytes, 1, NULL, now += 1000);
                capture_rdma_ack(writer, &flow, peer_of(one->sender), number, CAPTURE_ACK,
                                 now += 1000);
        } else if (one->kind == SAY_WRITE) {
                bytes = (struct iovec) { (void *)(uintptr_t)data, one->memory.len };
                capture_rdma_write(writer, &flow, PARTY_CONTROLLER, one->memory.addr,
                                   one->memory.key, &bytes, 1, now += 1000);
        } else {
                number = capture_rdma_read(writer, &flow, PARTY_CONTROLLER, one->memory.addr,
                                           one->memory.key, one->memory.len, now += 1000);
                bytes = (struct iovec) { (void *)(uintptr_t)data, one->memory.len };
                capture_rdma_answer(writer, &flow, PARTY_HOST, number, &bytes, 1, now += 1000);
        }
}

/* A WRITE of nothing by each side shows that nothing before it is missing. */
static inline void write_end(void)
{
        struct iovec none = { NULL, 0 };

        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                capture_rdma_write(writer, &flow, p, 0, 0, &none, 0, now += 1000);
}

/* The first n messages of the session, that at `twice` (-1: none) two times. */
static inline void write_session(unsigned n, int twice)
{
        flow = (struct capture_rdma) { 0 };
        capture_rdma_open(writer, &flow, NULL, NULL, now);
        for (unsigned i = 0; i < n; i++) {
                write_one(&session.says[i]);
                if ((int)i == twice)
                        write_one(&session.says[i]);
        }
        if (session.says[n - 1].kind != SAY_REJECT && n > 1)
                write_end();
}

/* --- reading ---------------------------------------------------------------------------------- */

static const struct trace_family *const families[] = { &nvme_capture, &srp_capture, NULL };

static inline struct check_counts check(const struct rule_set *waived)
{
        struct check_options options = { .all = true, .json = true, .waived = waived };
        struct check_counts counts;
        struct trace_totals totals;
        FILE *f = fmemopen(out, sizeof(out), "w");

        assert_non_null(f);
        assert_int_equal(
            capture_check(path, families, NULL, &options, f, &counts, &totals, err, sizeof(err)),
            0);
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

static inline void assert_found(unsigned rule)
{
        char line[100];

        snprintf(line, sizeof(line), "\"rule\":\"%s\"", rule ? srp_rule_get(rule)->id : "none");
        if (count_of("\"rule\":") == (rule != 0) && count_of(line) == (rule != 0) &&
            count_of("\"proven\":true") == (rule != 0))
                return;
        fail_msg("%s: %s", line, out);
}

static inline int run(char **argv, int argc)
{
        return run_pcap(families, argv, argc, out, sizeof(out));
}
#define RUN(...)                                                                                   \
        run((char *[]) { "pcap", __VA_ARGS__ },                                                    \
            (int)(sizeof((char *[]) { "pcap", __VA_ARGS__ }) / sizeof(char *)))

static inline int set_up(void **state)
{
        int fd = mkstemps(path, 5);

        (void)state;
        return fd < 0 ? -1 : close(fd);
}

static inline int tear_down(void **state)
{
        (void)state;
        return unlink(path);
}

#endif
