/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures as events: the real ones to the end, and what is left of them when they are damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capfile.h"
#include "pcap/nvme/family.h"
#include "pcap/nvme/judge.h"
#include "pcap/trace/keep.h"
#include "pdu/core/tests/rounds.h"
#include "pdu/io/tests/memory_file.h"
#include "pdu/nvme/wire/identify.h"

static char path[MEMORY_FILE], err[256];

static int make_path(void **state)
{
        (void)state;
        return memory_file(path);
}

/* --- what was seen ---------------------------------------------------------------------------- */

enum { EVENTS = TRACE_WRITE + 1 };

static struct seen {
        unsigned events[EVENTS];
        unsigned commands, responses, invalidated, opened_alive;
        unsigned admin[256],
            io[256]; /* commands by opcode; Fabrics: FCTYPE at admin[FCTYPE + 200] */
        uint64_t read_bytes, write_bytes, h2c_bytes, c2h_bytes, in_capsule;
        int64_t last_time;
} seen;

struct queue {
        bool io;
};

static void on_command(const struct trace_conn *c, const union sqe *s, uint32_t in_capsule)
{
        struct queue *q = c->user;

        seen.commands++;
        seen.in_capsule += in_capsule;
        if (s->opc == NVME_FABRICS && s->fctype == 1)
                q->io = le16_get(s->connect.qid) > 0;
        if (s->opc != NVME_FABRICS)
                (q->io ? seen.io : seen.admin)[s->opc]++;
        else
                seen.admin[200 + s->fctype % 50]++;
}

static void on_capsule(const struct trace_event *e)
{
        union sqe s;

        seen.invalidated += e->capsule.invalidates;
        if (e->sender == PARTY_CONTROLLER) {
                seen.responses++;
                return;
        }
        if (e->capsule.len < sizeof(s))
                return;
        memcpy(&s, e->capsule.data, sizeof(s));
        on_command(e->conn, &s, e->capsule.len - (uint32_t)sizeof(s));
}

static void on_pdu(const struct trace_event *e)
{
        const union pdu *h = e->pdu->h;

        seen.responses += h->ch.type == PDU_CAPSULE_RESP;
        if (h->ch.type == PDU_CAPSULE_CMD)
                on_command(e->conn, &h->cmd.sqe, e->pdu->data_len);
        else if (h->ch.type == PDU_H2C_DATA)
                seen.h2c_bytes += e->pdu->data_len;
        else if (h->ch.type == PDU_C2H_DATA)
                seen.c2h_bytes += e->pdu->data_len;
}

/* Bytes that an event hands out are read, so that a sanitizer sees whether they are there. */
static void touch(const uint8_t *p, size_t n)
{
        static volatile uint8_t sum;

        for (size_t i = 0; p && i < n; i++)
                sum = (uint8_t)(sum + p[i]);
}

static void on_event(void *user, const struct trace_event *e)
{
        (void)user;
        seen.events[e->kind]++;
        assert_true(e->at.frame > 0 && e->first.frame > 0);
        seen.last_time = e->at.time_ns;
        if (e->kind == TRACE_OPENED) {
                e->conn->user = calloc(1, sizeof(struct queue));
                seen.opened_alive++;
                return;
        }
        assert_non_null(e->conn->user);
        if (e->kind == TRACE_PDU) {
                touch(e->pdu->data, e->pdu->data_len);
                on_pdu(e);
        } else if (e->kind == TRACE_CAPSULE) {
                touch(e->capsule.data, e->capsule.len);
                on_capsule(e);
        } else if (e->kind == TRACE_REQUEST || e->kind == TRACE_ACCEPT || e->kind == TRACE_REJECT) {
                touch(e->cm.data, e->cm.len);
        } else if (e->kind == TRACE_READ_DATA || e->kind == TRACE_WRITE_DATA) {
                touch(e->memory.data, e->memory.len);
                *(e->kind == TRACE_READ_DATA ? &seen.read_bytes : &seen.write_bytes) +=
                    e->memory.len;
        } else if (e->kind == TRACE_CLOSED) {
                free(e->conn->user);
                seen.opened_alive--;
        }
}

static int trace(const char *file, struct trace_totals *totals, bool data)
{
        struct trace_options options = { .data = data };

        memset(&seen, 0, sizeof(seen));
        return trace_read(file, &nvme_capture, &options, on_event, NULL, totals, err, sizeof(err));
}

static void trace_capture(int i, struct trace_totals *totals)
{
        char file[512];

        snprintf(file, sizeof(file), "%s/%s", SOURCE_DIR, captures[i]);
        if (trace(file, totals, true) != 0)
                fail_msg("%s", err);
        assert_int_equal(totals->gaps, 0);
        assert_int_equal(totals->strange, 0);
        assert_int_equal(totals->crc_bad, 0);
        assert_int_equal(totals->fragments + totals->cut, 0);
        assert_int_equal(totals->conns, 4);
        assert_int_equal(seen.opened_alive, 0);
        assert_int_equal(seen.events[TRACE_FAULT], 0);
        assert_int_equal(seen.events[TRACE_GAP] + seen.events[TRACE_FOUND], 0);
}

/* --- the real ones ---------------------------------------------------------------------------- */

/* The list of actions in the captures' README. */
static void assert_actions(void)
{
        assert_int_equal(seen.io[NVME_WRITE], 8);
        assert_in_range(seen.io[NVME_READ], 12, 40);
        assert_int_equal(seen.io[NVME_FLUSH], 1);
        assert_int_equal(seen.io[NVME_WRITE_ZEROES], 1);
        assert_int_equal(seen.io[NVME_DSM], 1);
        assert_int_equal(seen.admin[200 + 1], 4); /* Connect */
        assert_true(seen.admin[NVME_KEEP_ALIVE] >= 2);
        assert_true(seen.admin[NVME_IDENTIFY] >= 2);
        assert_true(seen.admin[NVME_GET_LOG_PAGE] >= 2);
}

static void test_tcp(void **state)
{
        struct trace_totals totals;

        (void)state;
        for (int i = 0; i < 2; i++) {
                trace_capture(i, &totals);
                assert_actions();
                assert_int_equal(totals.pdus, i == 0 ? 198 : 197);
                assert_int_equal(seen.events[TRACE_HEADER], totals.pdus);
                assert_int_equal(seen.commands, 75);
                assert_int_equal(seen.responses, i == 0 ? 75 : 74);
                assert_int_equal(seen.h2c_bytes, 4 * 131072);
                assert_int_equal(seen.in_capsule, 4 * 1024 + 4 * 4096 + 16);
        }
}

/* Each response but those that move no data, or only into the capsule, invalidates a key. */
static void test_rdma(void **state)
{
        struct trace_totals totals;

        (void)state;
        for (int i = 2; i < CAPTURES; i++) {
                trace_capture(i, &totals);
                assert_actions();
                assert_int_equal(seen.events[TRACE_REQUEST], 4);
                assert_int_equal(seen.events[TRACE_ACCEPT], 4);
                assert_int_equal(seen.events[TRACE_CAPSULE], seen.commands + seen.responses);
                assert_in_range(seen.commands - seen.responses, 0, 2); /* AERs */
                assert_int_equal(seen.events[TRACE_READ], seen.events[TRACE_READ_END]);
                assert_int_equal(seen.read_bytes, 2 * 1024 + 4 * 131072);
                assert_true(seen.write_bytes > 4 * 131072);
                assert_true(seen.invalidated > 20);
        }
        assert_int_equal(totals.guessed_times, 0);
}

static void test_rdma_disconnects(void **state)
{
        struct trace_totals totals;

        (void)state;
        trace_capture(2, &totals);
        assert_int_equal(seen.events[TRACE_READY], 4);
        assert_int_equal(seen.events[TRACE_DISCONNECT], 4);
        assert_int_equal(seen.events[TRACE_DISCONNECTED], 4);
        assert_true(totals.guessed_times > 500); /* the target's frames */
        assert_true(seen.last_time > INT64_C(1500000000) * 1000000000);
}

/* --- damage ----------------------------------------------------------------------------------- */

/* Cut anywhere: what stands before the cut is handed out. */
static void test_truncated(void **state)
{
        struct trace_totals totals;
        struct capfile c;

        (void)state;
        for (int i = 0; i < CAPTURES; i++) {
                cap_load(&c, captures[i]);
                for (size_t n = 0; n < c.at[24]; n++) {
                        cap_write_bytes(path, c.bytes, n);
                        if (trace(path, &totals, true) < 0)
                                assert_true(strlen(err) > 0);
                        assert_int_equal(seen.opened_alive, 0);
                }
                cap_free(&c);
        }
}

/* Bits of whole captures flipped, in the file's own fields too. */
static void test_flipped(void **state)
{
        struct trace_totals totals;
        struct capfile c;
        uint64_t seed = 4;

        (void)state;
        for (unsigned round = 0; round < random_rounds(120); round++) {
                cap_load(&c, captures[round % CAPTURES]);
                for (int i = 0; i < 200; i++)
                        c.bytes[cap_random(&seed) % c.len] ^= (uint8_t)(1 << cap_random(&seed) % 8);
                cap_write_bytes(path, c.bytes, c.len);
                (void)trace(path, &totals, round % 2);
                assert_int_equal(seen.opened_alive, 0);
                cap_free(&c);
        }
}

/* Headers are what is looked at: the first 90 bytes of each packet, whose lengths stay. */
static void test_hostile_headers(void **state)
{
        struct trace_totals totals;
        struct capfile c;
        uint64_t seed = 5;

        (void)state;
        for (unsigned round = 0; round < random_rounds(200); round++) {
                cap_load(&c, captures[round % CAPTURES]);
                for (unsigned i = 0; i < c.packets; i++) {
                        size_t n = c.at[i + 1] - c.at[i] - CAP_PACKET_HEAD;

                        if (cap_random(&seed) % 8)
                                continue;
                        n = n < 90 ? n : 90;
                        for (int k = 0; k < 3; k++)
                                c.bytes[c.at[i] + CAP_PACKET_HEAD + cap_random(&seed) % n] =
                                    (uint8_t)cap_random(&seed);
                }
                cap_write_bytes(path, c.bytes, c.len);
                assert_int_equal(trace(path, &totals, round % 2), 0);
                assert_int_equal(totals.frames, c.packets);
                assert_int_equal(seen.opened_alive, 0);
                cap_free(&c);
        }
}

/* Snapshots of 200 bytes: the headers of most PDUs are there, their data is not. */
static void test_cut_snapshots(void **state)
{
        struct trace_totals totals;
        struct capfile c;

        (void)state;
        for (int i = 0; i < CAPTURES; i++) {
                uint8_t *out;
                size_t n = CAP_HEAD;

                cap_load(&c, captures[i]);
                out = malloc(c.len);
                assert_non_null(out);
                memcpy(out, c.bytes, n);
                for (unsigned k = 0; k < c.packets; k++) {
                        const uint8_t *p = c.bytes + c.at[k];
                        uint32_t keep = cap_u32(p + 8) < 200 ? cap_u32(p + 8) : 200;

                        memcpy(out + n, p, CAP_PACKET_HEAD + keep);
                        memcpy(out + n + 8, &keep, sizeof(keep));
                        n += CAP_PACKET_HEAD + keep;
                }
                cap_write_bytes(path, out, n);
                assert_int_equal(trace(path, &totals, true), 0);
                assert_in_range(seen.commands, 70, 76);
                free(out);
                cap_free(&c);
        }
}

/* Without its beginning: what follows is found again. */
static void test_midstream(void **state)
{
        struct trace_totals totals;
        struct capfile c;

        (void)state;
        for (int i = 0; i < CAPTURES; i++) {
                size_t from;

                cap_load(&c, captures[i]);
                from = c.at[c.packets / 2];
                memmove(c.bytes + CAP_HEAD, c.bytes + from, c.len - from);
                cap_write_bytes(path, c.bytes, CAP_HEAD + c.len - from);
                assert_int_equal(trace(path, &totals, true), 0);
                assert_true(totals.conns >= 1);
                assert_true(seen.commands > 10);
                assert_in_range(seen.commands - seen.responses + 4, 0, 8);
                cap_free(&c);
        }
}

/* --- ports ------------------------------------------------------------------------------------ */

/* 4420 and 4421 change places, in TCP and UDP headers and in the service ids of the CM. */
static void move_port(struct capfile *c)
{
        static const uint8_t from[2] = { 0x11, 0x44 };

        for (unsigned i = 0; i < c->packets; i++) {
                uint8_t *p = c->bytes + c->at[i] + CAP_PACKET_HEAD;
                size_t n = c->at[i + 1] - c->at[i] - CAP_PACKET_HEAD;

                if (n < 54 || p[12] != 8)
                        continue;
                for (int k = 34; k <= 36; k += 2)
                        if (memcmp(p + k, from, 2) == 0)
                                p[k + 1] = 0x45;
                if (p[23] == 17 && n > 120 && p[42] == 0x64 && memcmp(p + 92, from, 2) == 0)
                        p[93] = 0x45;
        }
}

/* What begins as NVMe/TCP or MPA, or asks for a connection as NVMe/RDMA does, is known anywhere; what
 * began earlier is known by its port. */
static void test_ports(void **state)
{
        struct trace_options options = { .ports = { 4421 } };
        struct trace_totals totals;
        struct capfile c;

        (void)state;
        for (int i = 0; i < CAPTURES; i++) {
                size_t from;

                cap_load(&c, captures[i]);
                move_port(&c);
                cap_write_bytes(path, c.bytes, c.len);
                assert_int_equal(trace(path, &totals, false), 0);
                assert_int_equal(totals.conns, 4);
                assert_in_range(seen.commands, 75, 76);
                from = c.at[c.packets / 2];
                memmove(c.bytes + CAP_HEAD, c.bytes + from, c.len - from);
                cap_write_bytes(path, c.bytes, CAP_HEAD + c.len - from);
                if (i != 2) { /* RoCEv2 has but one port */
                        assert_int_equal(trace(path, &totals, false), 0);
                        assert_int_equal(totals.conns, 0);
                        assert_true(totals.other >= 2);
                }
                memset(&seen, 0, sizeof(seen));
                assert_int_equal(trace_read(path, &nvme_capture, &options, on_event, NULL, &totals,
                                            err, sizeof(err)),
                                 0);
                assert_true(totals.conns >= 2 && seen.commands > 10);
                cap_free(&c);
        }
}

/* For another log there may be no room: nothing is known of it. */
static void test_logs_that_are_kept(void **state)
{
        struct {
                struct log_ana head;
                struct ana_group group;
                le32_t nsid;
        } log = { .head = { .ngrps = le16(1) },
                  .group = { .grpid = le32(1), .nnsids = le32(1), .state = ANA_OPTIMIZED },
                  .nsid = le32(1) };
        const int64_t later = INT64_C(10000000000);
        struct session_cmd cmd = { .data = (void *)&log, .data_len = sizeof(log), .at.frame = 1 };
        struct keep logs = keep_most(sizeof(log) + 1);
        struct ana_past *kept = ana_past_new(&logs), *other = ana_past_new(&logs);
        struct rule_set found = { 0 };

        (void)state;
        ana_reads(kept, &cmd, 2, &found);
        ana_reads(other, &cmd, 2, &found);
        assert_int_equal(ana_shown(kept, 1, later), ANA_OPTIMIZED);
        assert_int_equal(ana_shown(other, 1, later), 0);
        assert_int_equal(logs.used, sizeof(log));
        ana_past_free(kept);
        ana_reads(other, &cmd, 2, &found);
        assert_int_equal(ana_shown(other, 1, later), ANA_OPTIMIZED);
        ana_past_free(other);
        assert_int_equal(logs.used, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tcp),
                cmocka_unit_test(test_rdma),
                cmocka_unit_test(test_rdma_disconnects),
                cmocka_unit_test(test_truncated),
                cmocka_unit_test(test_flipped),
                cmocka_unit_test(test_hostile_headers),
                cmocka_unit_test(test_cut_snapshots),
                cmocka_unit_test(test_midstream),
                cmocka_unit_test(test_ports),
                cmocka_unit_test(test_logs_that_are_kept),
        };

        return cmocka_run_group_tests(tests, make_path, NULL);
}
