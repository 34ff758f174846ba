/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include <arpa/inet.h>
#include <pcap/pcap.h>
#include <stdlib.h>

#include "pdu/io/capture/packet.h"

/* --- frames, from the inside to the outside --------------------------------------------------- */

enum { ROOM = 1024, DATA_LEN = 5, TCP_AT_END = 20 + DATA_LEN };

struct frame {
        uint8_t bytes[ROOM];
        size_t n; /* the last ones of bytes */
};

static uint8_t *start_of(struct frame *f)
{
        return f->bytes + ROOM - f->n;
}

static void prepend(struct frame *f, const void *p, size_t n)
{
        assert_true(f->n + n <= ROOM);
        f->n += n;
        memcpy(start_of(f), p, n);
}

#define PREPEND(f, ...)                                                                            \
        do {                                                                                       \
                const uint8_t bytes_[] = { __VA_ARGS__ };                                          \
                prepend(f, bytes_, sizeof(bytes_));                                                \
        } while (0)

static void add_ether(struct frame *f, unsigned type)
{
        PREPEND(f, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, (uint8_t)(type >> 8), (uint8_t)type);
}

static void add_ip4(struct frame *f, uint8_t protocol)
{
        size_t n = f->n + 20;

        PREPEND(f, 0x45, 0, (uint8_t)(n >> 8), (uint8_t)n, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0,
                1, 10, 0, 0, 2);
}

static void add_ip6(struct frame *f, uint8_t protocol)
{
        uint8_t head[40] = { 0x60, [6] = protocol, 64, 0xfd, [24] = 0xfd, [39] = 2 };

        head[4] = (uint8_t)(f->n >> 8);
        head[5] = (uint8_t)f->n;
        prepend(f, head, sizeof(head));
}

static void add_udp(struct frame *f, unsigned port)
{
        size_t n = f->n + 8;

        PREPEND(f, 0xc0, 0, (uint8_t)(port >> 8), (uint8_t)port, (uint8_t)(n >> 8), (uint8_t)n, 0,
                0);
}

static void add_vxlan(struct frame *f)
{
        PREPEND(f, 8, 0, 0, 0, 0, 0, 42, 0);
        add_udp(f, 4789);
        add_ip4(f, IPPROTO_UDP);
}

static struct frame tcp_packet(void)
{
        struct frame f = { .n = 0 };

        prepend(&f, "abcde", DATA_LEN);
        PREPEND(&f, 0xc3, 0x50, 0x11, 0x44, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0, 0, 0, 0, 0, 0);
        add_ip4(&f, IPPROTO_TCP);
        return f;
}

static struct frame tcp_frame(void)
{
        struct frame f = tcp_packet();

        add_ether(&f, 0x0800);
        return f;
}

/* --- tunnels ---------------------------------------------------------------------------------- */

static struct frame in_vxlan(void)
{
        struct frame f = tcp_frame();

        add_vxlan(&f);
        add_ether(&f, 0x0800);
        return f;
}

static struct frame in_geneve(void)
{
        struct frame f = tcp_frame();

        PREPEND(&f, 2, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 2, 0x80, 1, 0, 0, 0, 42);
        add_udp(&f, 6081);
        add_ip6(&f, IPPROTO_UDP);
        add_ether(&f, 0x86dd);
        return f;
}

static struct frame in_gre(void)
{
        struct frame f = tcp_packet();

        PREPEND(&f, 0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2);
        add_ip4(&f, IPPROTO_GRE);
        add_ether(&f, 0x0800);
        return f;
}

static struct frame in_erspan3(void)
{
        struct frame f = tcp_frame();

        PREPEND(&f, 1, 2, 3, 4, 5, 6, 7, 8);                  /* its subheader */
        PREPEND(&f, 0x20, 100, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1); /* has one */
        PREPEND(&f, 0x10, 0, 0x22, 0xeb, 0, 0, 0, 9);
        add_ip4(&f, IPPROTO_GRE);
        add_ether(&f, 0x0800);
        return f;
}

static struct frame in_mpls(void)
{
        struct frame f = tcp_frame();

        PREPEND(&f, 0, 1, 0, 64, 0, 1, 1, 64, 0, 0, 0, 0); /* two labels and a control word */
        add_ether(&f, 0x8847);
        return f;
}

static struct frame in_pppoe(void)
{
        struct frame f = tcp_packet();

        PREPEND(&f, 0x11, 0, 0, 1, 0, (uint8_t)(f.n + 2), 0, 0x21);
        add_ether(&f, 0x8864);
        return f;
}

static struct frame (*const tunnels[])(void) = { in_vxlan,   in_geneve, in_gre,
                                                 in_erspan3, in_mpls,   in_pppoe };

/* --- reading ---------------------------------------------------------------------------------- */

/* The first `captured` bytes of the frame, in memory that ends there. */
static enum packet_kind parse(struct frame *f, size_t captured, size_t whole, struct packet *out)
{
        uint8_t *p = malloc(captured + 1);
        enum packet_kind kind;

        assert_non_null(p);
        memcpy(p + 1, start_of(f), captured);
        kind = packet_parse(packet_link(DLT_EN10MB), p + 1, captured, whole, out);
        if (kind == PACKET_TCP || kind == PACKET_UDP) {
                assert_true(out->data >= p + 1 && out->data + out->n <= p + 1 + captured);
                assert_true(out->n <= out->whole);
        }
        free(p);
        return kind;
}

static enum packet_kind parse_whole(struct frame *f, struct packet *out)
{
        return parse(f, f->n, f->n, out);
}

static void test_inner_headers_count(void **state)
{
        struct packet p;

        (void)state;
        for (size_t i = 0; i < COUNT(tunnels); i++) {
                struct frame f = tunnels[i]();

                assert_int_equal(parse_whole(&f, &p), PACKET_TCP);
                assert_int_equal(p.n, DATA_LEN);
                assert_int_equal(p.whole, DATA_LEN);
                assert_int_equal(p.to.port, 4420);
                assert_int_equal(p.from.family, AF_INET);
                assert_memory_equal(p.from.addr, "\x0a\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0", 16);
        }
}

static void test_cut_at_each_byte(void **state)
{
        struct packet p;

        (void)state;
        for (size_t i = 0; i < COUNT(tunnels); i++) {
                struct frame f = tunnels[i]();
                size_t heads = f.n - DATA_LEN;

                for (size_t n = 14; n < heads; n++) /* by the snapshot length */
                        assert_int_equal(parse(&f, n, f.n, &p), PACKET_CUT);
                for (size_t n = heads; n <= f.n; n++) {
                        assert_int_equal(parse(&f, n, f.n, &p), PACKET_TCP);
                        assert_int_equal(p.n, n - heads);
                        assert_int_equal(p.whole, DATA_LEN);
                }
                for (size_t n = 0; n < heads; n++) /* on the wire */
                        assert_int_not_equal(parse(&f, n, n, &p), PACKET_TCP);
        }
}

/* --- lengths that lie ------------------------------------------------------------------------- */

static void test_options_beyond_the_datagram(void **state)
{
        struct frame f = in_geneve();
        struct packet p;

        (void)state;
        start_of(&f)[14 + 40 + 8] = 63;
        assert_int_equal(parse_whole(&f, &p), PACKET_UDP);
        assert_int_equal(p.to.port, 6081);
        assert_int_equal(p.from.family, AF_INET6);
        assert_int_equal(p.n, f.n - 14 - 40 - 8);
}

/* A mirror that truncates leaves the length of the inner IP header as it was. */
static void test_inner_packet_beyond_the_tunnel(void **state)
{
        struct frame f = in_vxlan();
        struct packet p;

        (void)state;
        start_of(&f)[f.n - TCP_AT_END - 20 + 2] = 1; /* 256 bytes more */
        assert_int_equal(parse_whole(&f, &p), PACKET_TCP);
        assert_int_equal(p.n, DATA_LEN);
        assert_int_equal(p.whole, DATA_LEN + 256);
}

static void test_outer_packet_shorter_than_the_tunnel(void **state)
{
        struct frame f = in_vxlan();
        struct packet p;

        (void)state;
        start_of(&f)[14 + 3] -= 3; /* of the outer IP */
        assert_int_equal(parse_whole(&f, &p), PACKET_TCP);
        assert_int_equal(p.n, DATA_LEN - 3);
        assert_int_equal(p.whole, DATA_LEN);
        start_of(&f)[14 + 3] = 20 + 8 + 8 + 14; /* no inner IP */
        assert_int_not_equal(parse_whole(&f, &p), PACKET_TCP);
        start_of(&f)[14 + 20 + 5] = 12; /* half a VXLAN header, by the outer UDP */
        assert_int_equal(parse_whole(&f, &p), PACKET_UDP);
        assert_int_equal(p.n, 4);
}

static void test_labels_without_a_bottom(void **state)
{
        struct frame f = { .n = 0 };
        struct packet p;

        (void)state;
        for (int i = 0; i < 200; i++)
                PREPEND(&f, 0, 1, 0, 64);
        add_ether(&f, 0x8847);
        assert_int_equal(parse_whole(&f, &p), PACKET_OTHER);
}

static void test_session_of_no_length(void **state)
{
        struct frame f = in_pppoe();
        struct packet p;

        (void)state;
        start_of(&f)[14 + 5] = 1;
        assert_int_equal(parse_whole(&f, &p), PACKET_OTHER);
        start_of(&f)[14 + 5] = 2;
        assert_int_not_equal(parse_whole(&f, &p), PACKET_TCP);
}

/* --- depth ------------------------------------------------------------------------------------ */

enum { DEEPEST = 5 };

static void test_depth(void **state)
{
        struct packet p;

        (void)state;
        for (int depth = 1; depth <= DEEPEST + 2; depth++) {
                struct frame f = tcp_packet();

                for (int i = 1; i < depth; i++)
                        add_ip4(&f, IPPROTO_IPIP);
                add_ether(&f, 0x0800);
                assert_int_equal(parse_whole(&f, &p), depth <= DEEPEST ? PACKET_TCP : PACKET_OTHER);
        }
}

static void test_depth_of_datagrams(void **state)
{
        struct packet p;

        (void)state;
        for (int depth = 1; depth <= DEEPEST + 2; depth++) {
                struct frame f = tcp_frame();

                for (int i = 1; i < depth; i++) {
                        add_vxlan(&f);
                        add_ether(&f, 0x0800);
                }
                assert_int_equal(parse_whole(&f, &p), depth <= DEEPEST ? PACKET_TCP : PACKET_UDP);
                assert_int_equal(p.to.port, depth <= DEEPEST ? 4420 : 4789);
        }
}

/* --- what is none ----------------------------------------------------------------------------- */

/* ARP in a tunnel, a fragment in one, and RoCEv2 whose data looks like a tunnel's. */
static void test_other_contents(void **state)
{
        struct frame arp = { .n = 0 }, fragment = in_vxlan(), roce = tcp_frame();
        struct packet p;

        (void)state;
        prepend(&arp, "arp", 3);
        add_ether(&arp, 0x0806);
        add_vxlan(&arp);
        add_ether(&arp, 0x0800);
        assert_int_equal(parse_whole(&arp, &p), PACKET_UDP);
        start_of(&fragment)[fragment.n - TCP_AT_END - 20 + 7] = 1; /* its offset */
        assert_int_equal(parse_whole(&fragment, &p), PACKET_FRAGMENT);
        PREPEND(&roce, 8, 0, 0, 0, 0, 0, 42, 0);
        add_udp(&roce, 4791);
        add_ip4(&roce, IPPROTO_UDP);
        add_ether(&roce, 0x0800);
        assert_int_equal(parse_whole(&roce, &p), PACKET_UDP);
        assert_int_equal(p.to.port, 4791);
        assert_int_equal(p.n, roce.n - 14 - 20 - 8);
}

static void test_random_bytes(void **state)
{
        uint64_t seed = 21;
        struct packet p;

        (void)state;
        for (int round = 0; round < 60000; round++) {
                struct frame f = tunnels[(size_t)round % COUNT(tunnels)]();

                for (int i = 0; i < 3; i++)
                        start_of(&f)[random_next(&seed) % f.n] = (uint8_t)random_next(&seed);
                parse(&f, (size_t)(random_next(&seed) % (f.n + 1)), f.n, &p);
                parse_whole(&f, &p);
        }
}

/* Its IP header leaves the length out, and the file says what no network card makes. */
static void test_length_that_no_frame_has(void **state)
{
        enum { IP4_LEN = 14 + 2, IP6_LEN = 14 + 4, MOST = 1 << 20 };
        struct frame four = tcp_packet(), six = { .n = 0 };
        struct packet p;

        (void)state;
        add_ether(&four, 0x0800);
        memset(start_of(&four) + IP4_LEN, 0, 2);
        prepend(&six, four.bytes + ROOM - TCP_AT_END, TCP_AT_END);
        add_ip6(&six, IPPROTO_TCP);
        add_ether(&six, 0x86dd);
        memset(start_of(&six) + IP6_LEN, 0, 2);
        for (struct frame *f = &four; f; f = f == &four ? &six : NULL) {
                size_t heads = f->n - DATA_LEN;

                assert_int_equal(parse(f, f->n, heads + 400000, &p), PACKET_TCP);
                assert_int_equal(p.whole, 400000);
                assert_int_equal(parse(f, f->n, UINT32_MAX, &p), PACKET_TCP);
                assert_int_equal(p.whole, MOST - heads);
                assert_int_equal(p.n, DATA_LEN);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_inner_headers_count),
                cmocka_unit_test(test_cut_at_each_byte),
                cmocka_unit_test(test_options_beyond_the_datagram),
                cmocka_unit_test(test_inner_packet_beyond_the_tunnel),
                cmocka_unit_test(test_outer_packet_shorter_than_the_tunnel),
                cmocka_unit_test(test_length_that_no_frame_has),
                cmocka_unit_test(test_labels_without_a_bottom),
                cmocka_unit_test(test_session_of_no_length),
                cmocka_unit_test(test_depth),
                cmocka_unit_test(test_depth_of_datagrams),
                cmocka_unit_test(test_other_contents),
                cmocka_unit_test(test_random_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
