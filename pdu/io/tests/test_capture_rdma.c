/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA connections as they are written: packets, PSNs and CRCs of RoCEv2, FPDUs of iWARP. What the
 * reader of captures makes of them is tested with it. */
#include "pdu/core/tests/check.h"

#include <arpa/inet.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pdu/core/crc32c.h"
#include "pdu/core/le.h"
#include "pdu/io/capture/capture_rdma.h"
#include "pdu/io/capture/packet.h"

enum { FRAMES = 64, FRAME = 5000, MTU = 4096, BTH = 12, ICRC = 4 };

static char path[] = "/tmp/test_capture_rdma.XXXXXX", err[256];
static struct capture_writer *out;
static struct capture_rdma flow;
static uint8_t bytes[3 * MTU];

static struct frame {
        uint8_t bytes[FRAME];
        uint32_t len;
        struct packet packet;
} frames[FRAMES];
static unsigned n_frames;

static void begin(bool iwarp, const char *host, const char *controller)
{
        struct sockaddr_in6 ends[2] = { { .sin6_family = AF_INET6, .sin6_port = htons(50001) },
                                        { .sin6_family = AF_INET6, .sin6_port = htons(4420) } };
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        close(fd);
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)(i * 7 + (i >> 8));
        if (host) {
                assert_int_equal(inet_pton(AF_INET6, host, &ends[0].sin6_addr), 1);
                assert_int_equal(inet_pton(AF_INET6, controller, &ends[1].sin6_addr), 1);
        }
        out = capture_writer_open(path, err, sizeof(err));
        assert_non_null(out);
        flow = (struct capture_rdma) { .iwarp = iwarp };
        capture_rdma_open(out, &flow, host ? (void *)&ends[0] : NULL,
                          host ? (void *)&ends[1] : NULL, 0);
}

/* All frames are whole packets with right checksums of IP's own kind. */
static void end(void)
{
        struct pcap_pkthdr *h;
        const uint8_t *p;
        pcap_t *in;

        capture_rdma_close(out, &flow, 0);
        assert_int_equal(capture_writer_close(out), 0);
        in = pcap_open_offline(path, err);
        assert_non_null(in);
        for (n_frames = 0; pcap_next_ex(in, &h, &p) == 1; n_frames++) {
                struct frame *f = &frames[n_frames];

                assert_true(n_frames < FRAMES && h->caplen <= FRAME && h->caplen == h->len);
                memcpy(f->bytes, p, h->caplen);
                f->len = h->caplen;
                assert_int_not_equal(
                    packet_parse(packet_link(DLT_EN10MB), f->bytes, f->len, f->len, &f->packet),
                    PACKET_OTHER);
        }
        pcap_close(in);
        unlink(path);
        memcpy(path + strlen(path) - 6, "XXXXXX", 6);
}

/* --- RoCEv2 ----------------------------------------------------------------------------------- */

static uint32_t crc32_of(const uint8_t *p, size_t n)
{
        uint32_t crc = ~0u;

        for (size_t i = 0; i < 8 * n; i++) {
                crc ^= p[i / 8] >> i % 8 & 1;
                crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        }
        return ~crc;
}

/* IBTA A17.3, by offsets in the frame. */
static void check_icrc(const struct frame *f, bool v6)
{
        static const uint8_t in_v4[] = { 15, 22, 24, 25, 40, 41, 46 };
        static const uint8_t in_v6[] = { 15, 16, 17, 21, 60, 61, 66 };
        const uint8_t *masked = v6 ? in_v6 : in_v4;
        uint8_t covered[FRAME];
        const uint8_t *stored = f->bytes + f->len - ICRC;

        memcpy(covered, f->bytes, f->len);
        memset(covered + 6, 0xff, 8);
        for (size_t i = 0; i < sizeof(in_v4); i++)
                covered[masked[i]] = 0xff;
        if (v6)
                covered[14] |= 0x0f;
        assert_int_equal(crc32_of(covered + 6, f->len - 6 - ICRC), le_get(stored, ICRC));
}

struct want {
        uint8_t opcode;
        uint32_t psn, head, data; /* bytes of extension headers and of data with padding */
};

static void check_frames(const struct want *want, size_t n, bool v6)
{
        assert_int_equal(n_frames, n);
        for (size_t i = 0; i < n; i++) {
                const uint8_t *bth = frames[i].packet.data;

                assert_int_equal(bth[0], want[i].opcode);
                assert_int_equal(bth[9] << 16 | bth[10] << 8 | bth[11], want[i].psn);
                assert_int_equal(frames[i].packet.whole, BTH + want[i].head + want[i].data + ICRC);
                check_icrc(&frames[i], v6);
        }
}
#define CHECK_FRAMES(want, v6) check_frames(want, sizeof(want) / sizeof((want)[0]), v6)

static void check_data(unsigned frame, uint32_t head, size_t from, size_t n)
{
        assert_memory_equal(frames[frame].packet.data + BTH + head, bytes + from, n);
}

/* Each kind of message in one packet and in several, out of pieces that end anywhere. */
static void say_all(void)
{
        const uint32_t key = 0x01020304;
        struct iovec whole[] = { { bytes, 5 }, { bytes + 5, 0 }, { bytes + 5, 2 * MTU + 2 } };
        struct iovec few[] = { { bytes, 16 } };
        uint32_t read;

        assert_int_equal(capture_rdma_send(out, &flow, PARTY_HOST, whole, 3, NULL, 0), 2);
        assert_int_equal(capture_rdma_send(out, &flow, PARTY_HOST, few, 1, &key, 0), 3);
        assert_int_equal(capture_rdma_send(out, &flow, PARTY_HOST, NULL, 0, NULL, 0), 4);
        capture_rdma_ack(out, &flow, PARTY_CONTROLLER, 4, CAPTURE_ACK, 0);
        assert_int_equal(capture_rdma_write(out, &flow, PARTY_CONTROLLER, 0x1000, key, whole, 3, 0),
                         2);
        read = capture_rdma_read(out, &flow, PARTY_CONTROLLER, 0x1000, key, 2 * MTU + 7, 0);
        assert_int_equal(read, 3);
        capture_rdma_answer(out, &flow, PARTY_HOST, read, whole, 3, 0);
        assert_int_equal(capture_rdma_send(out, &flow, PARTY_CONTROLLER, few, 1, NULL, 0), 6);
}

static const struct want all[] = {
        { 0, 0, 0, MTU },  { 1, 1, 0, MTU },  { 2, 2, 0, 8 },   { 23, 3, 4, 16 }, { 4, 4, 0, 0 },
        { 17, 4, 4, 0 },   { 6, 0, 16, MTU }, { 7, 1, 0, MTU }, { 8, 2, 0, 8 },   { 12, 3, 16, 0 },
        { 13, 3, 4, MTU }, { 14, 4, 0, MTU }, { 15, 5, 4, 8 },  { 4, 6, 0, 16 },
};

static void test_roce(void **state)
{
        (void)state;
        begin(false, NULL, NULL);
        say_all();
        end();
        CHECK_FRAMES(all, false);
        check_data(0, 0, 0, MTU);
        check_data(2, 0, 2 * MTU, 7);
        check_data(6, 16, 0, MTU);
        check_data(10, 4, 0, MTU);
        check_data(12, 4, 2 * MTU, 7);
        assert_int_equal(frames[2].packet.data[1] >> 4 & 3, 1); /* padding */
        assert_int_equal(frames[0].packet.to.port, 4791);
}

static void test_roce_over_ipv6(void **state)
{
        (void)state;
        begin(false, "2001:db8::1", "2001:db8::2");
        say_all();
        end();
        CHECK_FRAMES(all, true);
        assert_int_equal(frames[0].packet.from.family, AF_INET6);
}

/* More private data than a message has room for. */
static void test_messages(void **state)
{
        struct capture_cm m = { .kind = CAPTURE_REQUEST,
                                .data = bytes,
                                .len = sizeof(bytes),
                                .reads_in = 16,
                                .reads_out = 3 };
        static const struct want want[] = {
                { 0x64, 1, 8, 256 }, { 0x64, 2, 8, 256 }, { 0x64, 1, 8, 256 },
                { 0x64, 2, 8, 256 }, { 0x64, 1, 8, 256 }, { 0x64, 2, 8, 256 },
        };
        static const uint16_t attributes[] = { 0x10, 0x13, 0x14, 0x12, 0x15, 0x16 };
        static const enum capture_cm_kind kinds[] = { CAPTURE_REQUEST,    CAPTURE_ACCEPT,
                                                      CAPTURE_READY,      CAPTURE_REJECT,
                                                      CAPTURE_DISCONNECT, CAPTURE_DISCONNECTED };

        (void)state;
        begin(false, NULL, NULL);
        for (unsigned i = 0; i < 6; i++) {
                m.kind = kinds[i];
                capture_rdma_cm(out, &flow, i % 2 ? PARTY_CONTROLLER : PARTY_HOST, &m, 0);
        }
        end();
        CHECK_FRAMES(want, false);
        for (unsigned i = 0; i < 6; i++)
                assert_int_equal(frames[i].packet.data[BTH + 8 + 17], attributes[i]);
        assert_memory_equal(frames[0].packet.data + BTH + 8 + 24 + 176, bytes, 56);
}

static void test_gaps(void **state)
{
        struct iovec few = { bytes, 16 };
        static const struct want want[] = { { 4, 0, 0, 16 }, { 4, 8, 0, 16 }, { 4, 10, 0, 16 } };

        (void)state;
        begin(false, NULL, NULL);
        (void)capture_rdma_send(out, &flow, PARTY_HOST, &few, 1, NULL, 0);
        capture_rdma_gap(&flow, PARTY_HOST, 7);
        (void)capture_rdma_send(out, &flow, PARTY_HOST, &few, 1, NULL, 0);
        capture_rdma_gap(&flow, PARTY_HOST, 0); /* some, but who knows how many */
        (void)capture_rdma_send(out, &flow, PARTY_HOST, &few, 1, NULL, 0);
        end();
        CHECK_FRAMES(want, false);
}

/* --- iWARP ------------------------------------------------------------------------------------ */

/* An FPDU of our own begins each packet with data, and its CRC ends it. */
static void check_fpdu(const struct frame *f, uint8_t ddp, uint8_t rdmap, size_t n)
{
        const uint8_t *p = f->packet.data;
        size_t len = f->packet.n;

        assert_int_equal(p[0] << 8 | p[1], n);
        assert_int_equal(p[2], ddp);
        assert_int_equal(p[3], rdmap);
        assert_int_equal(len, (2 + n + 3) / 4 * 4 + 4);
        assert_int_equal(crc32c(p, len - 4), le_get(p + len - 4, 4));
}

static void test_iwarp(void **state)
{
        const uint32_t key = 0x01020304;
        struct iovec few = { bytes, 15 };
        struct capture_cm m = { .kind = CAPTURE_REQUEST, .data = bytes, .len = 32, .reads_in = 4 };
        uint32_t read;

        (void)state;
        begin(true, NULL, NULL);
        capture_rdma_cm(out, &flow, PARTY_HOST, &m, 0);
        (void)capture_rdma_send(out, &flow, PARTY_HOST, &few, 1, &key, 0);
        (void)capture_rdma_write(out, &flow, PARTY_CONTROLLER, 0x1000, key, &few, 1, 0);
        read = capture_rdma_read(out, &flow, PARTY_CONTROLLER, 0x1000, key, 15, 0);
        capture_rdma_answer(out, &flow, PARTY_HOST, read, &few, 1, 0);
        capture_rdma_ack(out, &flow, PARTY_HOST, 0, CAPTURE_ACK, 0); /* TCP's */
        capture_rdma_terminate(out, &flow, bytes, 4, PARTY_HOST, 0);
        end();
        assert_int_equal(n_frames, 3 + 6 + 3); /* with the handshake, and FINs */
        assert_memory_equal(frames[3].packet.data, "MPA ID Req Frame\x50\x02\0\x24\0\x04\0\0", 24);
        check_fpdu(&frames[4], 0x41, 0x44, 18 + 15);
        check_fpdu(&frames[5], 0xc1, 0x40, 14 + 15);
        check_fpdu(&frames[6], 0x41, 0x41, 18 + 28);
        check_fpdu(&frames[7], 0xc1, 0x42, 14 + 15);
        check_fpdu(&frames[8], 0x41, 0x47, 18 + 4);
        /* The answer goes where the READ says. */
        assert_memory_equal(frames[7].packet.data + 4, frames[6].packet.data + 20, 12);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_roce),     cmocka_unit_test(test_roce_over_ipv6),
                cmocka_unit_test(test_messages), cmocka_unit_test(test_gaps),
                cmocka_unit_test(test_iwarp),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
