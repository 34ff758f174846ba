/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iWARP streams made here, with and without CRC and markers, cut into segments of any size: the same
 * messages come out. The encoder follows RFC 5044 and 5041 on its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capfile.h"
#include "pcap/nvme/family.h"
#include "pdu/core/crc32c.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/tests/memory_file.h"
#include "pdu/nvme/wire/text.h"

static char path[MEMORY_FILE], err[256];

static int make_path(void **state)
{
        (void)state;
        return memory_file(path);
}

/* --- an encoder ------------------------------------------------------------------------------- */

struct stream {
        uint8_t bytes[200000];
        size_t n;
        size_t start; /* of the FPDUs: markers count from there */
        bool markers, crc;
};

static struct stream streams[2];

static void put(struct stream *s, const void *p, size_t n)
{
        assert_true(s->n + n <= sizeof(s->bytes));
        memcpy(s->bytes + s->n, p, n);
        s->n += n;
}

static void put_be(uint8_t *p, uint64_t v, unsigned n)
{
        while (n-- > 0) {
                p[n] = (uint8_t)v;
                v >>= 8;
        }
}

static void start_up(struct stream *s, const char *key, uint8_t flags, const char *data)
{
        uint8_t head[20] = { 0 };

        memcpy(head, key, 16);
        head[16] = flags;
        head[17] = 1;
        put_be(head + 18, strlen(data), 2);
        put(s, head, sizeof(head));
        put(s, data, strlen(data));
        s->start = s->n;
}

/* One before each byte whose place is a multiple of 512; it says how far back its FPDU began. */
static void put_marker(struct stream *s, size_t fpdu)
{
        uint8_t marker[4] = { 0 };

        if (!s->markers || (s->n - s->start) % 512 != 0)
                return;
        put_be(marker + 2, s->n - fpdu, 2);
        put(s, marker, 4);
}

static void put_marked(struct stream *s, const uint8_t *p, size_t n, size_t fpdu)
{
        for (size_t i = 0; i < n; i++) {
                put_marker(s, fpdu);
                put(s, p + i, 1);
        }
}

/* The CRC is over all that stands before it in the FPDU. */
static void fpdu(struct stream *s, const uint8_t *ddp, size_t n)
{
        uint8_t plain[2048] = { 0 }, sum[4];
        size_t from = s->n, whole = (2 + n + 3) & ~(size_t)3;
        uint32_t crc;

        put_be(plain, n, 2);
        memcpy(plain + 2, ddp, n);
        put_marked(s, plain, whole, from);
        put_marker(s, from);
        crc = s->crc ? crc32c(s->bytes + from, s->n - from) : 0;
        for (int i = 0; i < 4; i++)
                sum[i] = (uint8_t)(crc >> 8 * i);
        put(s, sum, 4);
}

static void untagged(struct stream *s, uint8_t opcode, uint32_t key, uint32_t offset, bool last,
                     const void *data, size_t n)
{
        uint8_t ddp[2048] = { (uint8_t)(last ? 0x41 : 0x01), (uint8_t)(0x40 | opcode) };

        put_be(ddp + 2, key, 4);
        put_be(ddp + 6, opcode == 1, 4);
        put_be(ddp + 10, 1, 4);
        put_be(ddp + 14, offset, 4);
        memcpy(ddp + 18, data, n);
        fpdu(s, ddp, 18 + n);
}

static void tagged(struct stream *s, uint8_t opcode, uint32_t key, uint64_t addr, bool last,
                   const void *data, size_t n)
{
        uint8_t ddp[2048] = { (uint8_t)(last ? 0xc1 : 0x81), (uint8_t)(0x40 | opcode) };

        put_be(ddp + 2, key, 4);
        put_be(ddp + 6, addr, 8);
        memcpy(ddp + 14, data, n);
        fpdu(s, ddp, 14 + n);
}

static void read_request(struct stream *s)
{
        uint8_t body[28];

        put_be(body, 0x77, 4); /* sink */
        put_be(body + 4, 0x5000, 8);
        put_be(body + 12, 2400, 4); /* bytes */
        put_be(body + 16, 0x88, 4); /* source */
        put_be(body + 20, 0xabc000, 8);
        untagged(s, 1, 0, 0, true, body, sizeof(body));
}

/* --- what comes out --------------------------------------------------------------------------- */

static struct {
        struct text log;
        char buf[8192];
        uint32_t sum;
} seen;

static void on_event(void *user, const struct trace_event *e)
{
        const char *who = e->sender == PARTY_HOST ? "h" : "c";

        (void)user;
        if (e->kind == TRACE_REQUEST || e->kind == TRACE_ACCEPT || e->kind == TRACE_REJECT)
                text_add(&seen.log, "%s %s '%.*s'; ", who,
                         e->kind == TRACE_REQUEST  ? "request"
                         : e->kind == TRACE_ACCEPT ? "accept"
                                                   : "reject",
                         (int)e->cm.len, (const char *)e->cm.data);
        else if (e->kind == TRACE_CAPSULE)
                text_add(&seen.log, "%s send %u crc %08x%s%x; ", who, e->capsule.len,
                         crc32c(e->capsule.data, e->capsule.len),
                         e->capsule.invalidates ? " inv " : " ", e->capsule.key);
        else if (e->kind == TRACE_READ || e->kind == TRACE_READ_END || e->kind == TRACE_WRITE)
                text_add(&seen.log, "%s %s %u at %llx key %x%s; ", who,
                         e->kind == TRACE_READ    ? "read"
                         : e->kind == TRACE_WRITE ? "write"
                                                  : "read end",
                         e->memory.len, (unsigned long long)e->memory.addr, e->memory.key,
                         e->memory.cut ? " cut" : "");
        else if (e->kind == TRACE_READ_DATA || e->kind == TRACE_WRITE_DATA)
                seen.sum = crc32c_more(seen.sum, e->memory.data, e->memory.len);
        else if (e->kind == TRACE_GAP)
                text_add(&seen.log, "%s gap; ", who);
}

static struct trace_totals trace(void)
{
        struct trace_totals totals;

        seen.log = text_in(seen.buf, sizeof(seen.buf));
        seen.sum = 0;
        assert_int_equal(
            trace_read(path, &nvme_capture, NULL, on_event, NULL, &totals, err, sizeof(err)), 0);
        return totals;
}

/* --- streams ---------------------------------------------------------------------------------- */

static uint8_t data[6000];

/* A command of 64 and one of 5000 bytes in four segments; READ and its data; WRITE; response. */
static void make_streams(bool crc, bool markers_h2c, bool markers_c2h)
{
        struct stream *h = &streams[PARTY_HOST], *c = &streams[PARTY_CONTROLLER];

        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (uint8_t)(i * 7 + i / 251);
        h->n = c->n = 0;
        h->crc = c->crc = crc;
        h->markers = markers_h2c;
        c->markers = markers_c2h;
        /* M is asked for by who is to receive them */
        start_up(h, "MPA ID Req Frame", (uint8_t)((crc ? 0x40 : 0) | (markers_c2h ? 0x80 : 0)),
                 "private data of the host");
        start_up(c, "MPA ID Rep Frame", (uint8_t)((crc ? 0x40 : 0) | (markers_h2c ? 0x80 : 0)),
                 "of the controller");
        untagged(h, 3, 0, 0, true, data, 64);
        for (uint32_t at = 0; at < 5000; at += 1250)
                untagged(h, 3, 0, at, at == 3750, data + at, 1250);
        tagged(h, 2, 0x77, 0x5000, false, data, 1400);
        tagged(h, 2, 0x77, 0x5000 + 1400, true, data + 1400, 1000);
        read_request(c);
        for (uint32_t at = 0; at < 4096; at += 1024)
                tagged(c, 0, 0x99, 0xdef000 + at, at == 3072, data + at, 1024);
        untagged(c, 4, 0x99, 0, true, data, 16);
        untagged(c, 3, 0, 0, true, data + 1, 16);
}

static void send_part(struct capture_writer *w, struct capture_flow *f, enum party p, size_t from,
                      size_t to, size_t run)
{
        for (size_t n; from < to; from += n) {
                n = to - from < run ? to - from : run;
                capture_flow_data(w, f, p, streams[p].bytes + from, n, 0);
        }
}

/* The start-up frames and the READ cross before what answers them. */
static void write_capture(size_t run)
{
        struct capture_writer *w = capture_writer_open(path, err, sizeof(err));
        const struct stream *h = &streams[PARTY_HOST], *c = &streams[PARTY_CONTROLLER];
        struct capture_flow f = { 0 };

        assert_non_null(w);
        capture_flow_open(w, &f, NULL, NULL, 0);
        send_part(w, &f, PARTY_HOST, 0, h->start, run);
        send_part(w, &f, PARTY_CONTROLLER, 0, c->n, run);
        send_part(w, &f, PARTY_HOST, h->start, h->n, run);
        capture_flow_close(w, &f, PARTY_HOST, false, 0);
        assert_int_equal(capture_writer_close(w), 0);
}

static void assert_messages(void)
{
        char want[2048];

        snprintf(want, sizeof(want),
                 "h request 'private data of the host'; c accept 'of the controller'; "
                 "c read 2400 at abc000 key 88; c write 4096 at def000 key 99; "
                 "c send 16 crc %08x inv 99; c send 16 crc %08x 0; "
                 "h send 64 crc %08x 0; h send 5000 crc %08x 0; h read end 2400 at abc000 key 88; ",
                 crc32c(data, 16), crc32c(data + 1, 16), crc32c(data, 64), crc32c(data, 5000));
        assert_string_equal(seen.buf, want);
        assert_int_equal(seen.sum, crc32c_more(crc32c(data, 4096), data, 2400));
}

static void test_all_kinds(void **state)
{
        static const size_t runs[] = { 1, 2, 3, 7, 64, 511, 512, 513, 1448, 9000, 60000 };

        (void)state;
        for (int kind = 0; kind < 8; kind++)
                for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
                        struct trace_totals totals;

                        make_streams(kind & 1, kind & 2, kind & 4);
                        write_capture(runs[i]);
                        totals = trace();
                        assert_messages();
                        assert_int_equal(totals.crc_bad, 0);
                        assert_int_equal(totals.gaps, 0);
                        assert_int_equal(totals.conns, 1);
                }
}

/* Markers at each place of an FPDU: before its length, its CRC, its last byte... */
static void test_marker_places(void **state)
{
        (void)state;
        for (size_t len = 16; len < 560; len += 4) {
                struct trace_totals totals;

                make_streams(true, true, false);
                streams[PARTY_HOST].n = streams[PARTY_HOST].start;
                untagged(&streams[PARTY_HOST], 3, 0, 0, true, data, len);
                untagged(&streams[PARTY_HOST], 3, 0, 0, true, data, 700);
                write_capture(100000);
                totals = trace();
                assert_int_equal(totals.crc_bad, 0);
                assert_int_equal(totals.gaps, 0);
                assert_int_equal(totals.capsules, 4);
        }
}

static void test_wrong_crc(void **state)
{
        struct trace_totals totals;

        (void)state;
        make_streams(true, false, true);
        streams[PARTY_HOST].bytes[streams[PARTY_HOST].n - 1] ^= 1;
        write_capture(1448);
        totals = trace();
        assert_int_equal(totals.crc_bad, 1);
        assert_messages();
}

static void test_reject(void **state)
{
        (void)state;
        make_streams(false, false, false);
        streams[PARTY_CONTROLLER].n = 0;
        start_up(&streams[PARTY_CONTROLLER], "MPA ID Rep Frame", 0x20, "no");
        streams[PARTY_HOST].n = streams[PARTY_HOST].start;
        write_capture(1448);
        (void)trace();
        assert_string_equal(seen.buf, "h request 'private data of the host'; c reject 'no'; ");
}

/* Any bytes for FPDUs. */
static void test_nonsense(void **state)
{
        uint64_t seed = 12;

        (void)state;
        for (int round = 0; round < 300; round++) {
                make_streams(round & 1, round & 2, round & 4);
                for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                        for (int i = 0; i < 20; i++)
                                streams[p].bytes[cap_random(&seed) % streams[p].n] =
                                    (uint8_t)cap_random(&seed);
                write_capture(1 + cap_random(&seed) % 3000);
                (void)trace();
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_kinds), cmocka_unit_test(test_marker_places),
                cmocka_unit_test(test_wrong_crc), cmocka_unit_test(test_reject),
                cmocka_unit_test(test_nonsense),
        };

        return cmocka_run_group_tests(tests, make_path, NULL);
}
