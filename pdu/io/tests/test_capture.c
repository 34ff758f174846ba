/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include <arpa/inet.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/tests/memory_file.h"
#include "pdu/nvme/wire/text.h"

/* --- a capture to write, and what is read of it ----------------------------------------------- */

static char path[MEMORY_FILE], err[256];
static struct capture_writer *out;
static struct capture_flow flow;

static char disk[] = "/tmp/test_capture.XXXXXX"; /* where there are to be others beside it */

static int make_paths(void **state)
{
        int fd = mkstemp(disk);

        (void)state;
        return fd < 0 || close(fd) < 0 ? -1 : memory_file(path);
}

static int drop_disk(void **state)
{
        (void)state;
        return unlink(disk);
}

static void begin(void)
{
        out = capture_writer_open(path, err, sizeof(err));
        assert_non_null(out);
}

static void send_text(enum party sender, const char *s)
{
        capture_flow_data(out, &flow, sender, s, strlen(s), 0);
}

/* As send_text, `ahead` bytes further on in the stream, which then stands where it stood. */
static void send_at(enum party sender, int ahead, const char *s)
{
        uint32_t seq = flow.seq[sender];

        flow.seq[sender] += (uint32_t)ahead;
        send_text(sender, s);
        flow.seq[sender] = seq;
}

static struct {
        char log[8192]; /* "1 open; 1h 'abc'@4; 1c gap 3@9; 1 closed; " */
        struct text text;
        struct capture_conn first;
        unsigned opened, closed;
        unsigned unfinished; /* gaps of unknown length of the first connection */
} seen;

static void on_opened(void *user, struct capture_conn *c, const struct capture_place *at)
{
        (void)user;
        if (c->number == 1)
                seen.first = *c;
        seen.opened++;
        text_add(&seen.text, "%u %s@%u; ", c->number, c->midstream ? "midstream" : "open",
                 (unsigned)at->frame);
}

static void on_data(void *user, struct capture_conn *c, enum party sender, const uint8_t *p,
                    size_t n, const struct capture_place *at)
{
        (void)user;
        assert_true(n > 0);
        text_add(&seen.text, "%u%c '%.*s'@%u; ", c->number, party_name(sender)[0],
                 n < 40 ? (int)n : 40, (const char *)p, (unsigned)at->frame);
}

static void on_gap(void *user, struct capture_conn *c, enum party sender, uint32_t n,
                   const struct capture_place *at)
{
        (void)user;
        seen.unfinished += c->number == 1 && n == 0;
        text_add(&seen.text, "%u%c gap %u@%u; ", c->number, party_name(sender)[0], n,
                 (unsigned)at->frame);
}

static void on_closed(void *user, struct capture_conn *c, const struct capture_place *at)
{
        (void)user;
        seen.closed++;
        text_add(&seen.text, "%u closed@%u; ", c->number, (unsigned)at->frame);
}

/* Controllers are at the ports of NVMe/TCP. */
static bool is_service(void *user, uint16_t port)
{
        (void)user;
        return port == NVME_TCP_PORT || port == NVME_DISC_PORT;
}

static const struct capture_ops ops = { .opened = on_opened,
                                        .data = on_data,
                                        .gap = on_gap,
                                        .closed = on_closed,
                                        .service = is_service };

static int read_back(void)
{
        seen.text = text_in(seen.log, sizeof(seen.log));
        return capture_read(path, &ops, NULL, err, sizeof(err));
}

static void assert_seen(const char *want)
{
        assert_int_equal(capture_writer_close(out), 0);
        assert_int_equal(read_back(), 0);
        assert_string_equal(seen.log, want);
}

/* --- streams ---------------------------------------------------------------------------------- */

static void test_there_and_back(void **state)
{
        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "hello");
        send_text(PARTY_CONTROLLER, "world");
        send_text(PARTY_HOST, "!");
        capture_flow_close(out, &flow, PARTY_HOST, false, 0);
        assert_seen("1 open@1; 1h 'hello'@4; 1c 'world'@5; 1h '!'@6; 1 closed@8; ");
        assert_int_equal(seen.first.end[PARTY_CONTROLLER].port, 4420);
        assert_memory_equal(seen.first.end[PARTY_HOST].addr, "\x0a\0\0\x01", 4);
}

static void test_reset(void **state)
{
        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "a");
        capture_flow_close(out, &flow, PARTY_CONTROLLER, true, 0);
        send_text(PARTY_HOST, "too late");
        assert_seen("1 open@1; 1h 'a'@4; 1 closed@5; ");
}

static void test_retransmission(void **state)
{
        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "abcd");
        send_at(PARTY_HOST, -4, "abcd");
        send_at(PARTY_HOST, -2, "cdef"); /* old and new in one */
        flow.seq[PARTY_HOST] += 2;
        send_text(PARTY_HOST, "g");
        assert_seen("1 open@1; 1h 'abcd'@4; 1h 'ef'@6; 1h 'g'@7; 1 closed@7; ");
}

static void test_reordering(void **state)
{
        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_at(PARTY_HOST, 6, "ghi");
        send_at(PARTY_HOST, 3, "def");
        send_at(PARTY_HOST, 6, "gh");
        send_at(PARTY_HOST, 0, "abcde");
        assert_seen("1 open@1; 1h 'abcde'@7; 1h 'f'@5; 1h 'ghi'@4; 1 closed@7; ");
}

static void test_wrap(void **state)
{
        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        capture_flow_close(out, &flow, PARTY_HOST, true, 0);
        flow.seq[PARTY_HOST] = UINT32_MAX - 2; /* mid-stream, about to wrap */
        flow.end[PARTY_HOST].port++;
        send_text(PARTY_HOST, "ab");
        send_at(PARTY_HOST, 2, "ef");
        send_text(PARTY_HOST, "cd");
        assert_seen("1 open@1; 1 closed@4; 2 midstream@5; 2h 'ab'@5; 2h 'cd'@7; 2h 'ef'@6; "
                    "2 closed@7; ");
}

static void test_gap(void **state)
{
        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "ab");
        send_at(PARTY_HOST, 3, "fg");
        send_at(PARTY_HOST, 7, "jk");
        assert_seen("1 open@1; 1h 'ab'@4; 1h gap 3@6; 1h 'fg'@5; 1h gap 2@6; 1h 'jk'@6; "
                    "1 closed@6; ");
}

/* An answer that was caught before what it answers, and an answer to that: each waits for its turn. */
static void test_crossed_frames(void **state)
{
        uint32_t *host = &flow.seq[PARTY_HOST], *controller = &flow.seq[PARTY_CONTROLLER];

        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        *host += 3;
        send_text(PARTY_CONTROLLER, "r2t"); /* has 'cmd' */
        send_text(PARTY_HOST, "data");      /* has 'r2t' */
        *host -= 7;
        *controller -= 3;
        send_text(PARTY_HOST, "cmd");
        *host += 4;
        *controller += 3;
        send_text(PARTY_CONTROLLER, "resp");
        assert_seen("1 open@1; 1h 'cmd'@6; 1c 'r2t'@4; 1h 'data'@5; 1c 'resp'@7; 1 closed@7; ");
}

/* What was acknowledged and does not come is a gap where it was missed. */
static void test_acknowledged_and_lost(void **state)
{
        const char *at;

        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "a");
        flow.seq[PARTY_HOST] += 4;
        send_text(PARTY_CONTROLLER, "b");
        for (int i = 0; i < 40; i++)
                send_text(PARTY_HOST, "c");
        assert_int_equal(capture_writer_close(out), 0);
        memset(&seen, 0, sizeof(seen));
        assert_int_equal(read_back(), 0);
        at = "1 open@1; 1h 'a'@4; 1h gap 4@5; 1c 'b'@5; 1h 'c'@6; 1h 'c'@7; ";
        assert_memory_equal(seen.log, at, strlen(at));
        assert_null(strstr(seen.log, "gap 4@5; 1c 'b'@5; 1h gap"));
}

/* A missing byte holds up no more than a bounded amount of what follows. */
static void test_gap_is_given_up(void **state)
{
        static uint8_t much[64 << 10];
        char *at;

        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        flow.seq[PARTY_HOST] += 5;
        for (int i = 0; i < 100; i++)
                capture_flow_data(out, &flow, PARTY_HOST, much, sizeof(much), 0);
        assert_int_equal(capture_writer_close(out), 0);
        assert_int_equal(read_back(), 0);
        at = strstr(seen.log, "1h gap 5@");
        assert_non_null(at);
        assert_in_range(atoi(at + 9), 100, 150); /* about 4 MiB in, of 200 packets */
}

static void test_ports_used_anew(void **state)
{
        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "one");
        capture_flow_close(out, &flow, PARTY_HOST, true, 0);
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "two");
        flow.seq[0] = flow.seq[1] = 0;
        assert_seen("1 open@1; 1h 'one'@4; 1 closed@5; 2 open@6; 2h 'two'@9; 2 closed@9; ");
}

/* --- frames that are lost, late, or not of this connection -------------------------------------- */

enum { FRAMES = 16, SEQ = 14 + 20 + 4, ACK = SEQ + 4 };

struct frame { /* one of those that were written, from 1 */
        unsigned n;
        uint32_t seq, ack; /* to be added */
};
#define AS_IS(number)                                                                              \
        (struct frame)                                                                             \
        {                                                                                          \
                .n = (number)                                                                      \
        }

static uint32_t be32_of(const uint8_t *p)
{
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void add_at(uint8_t *p, uint32_t more)
{
        uint32_t sum = htonl(be32_of(p) + more);

        memcpy(p, &sum, sizeof(sum));
}

/* The file has these instead, in this order; the last one is 0. */
static void rewrite(const struct frame *f)
{
        static uint8_t bytes[FRAMES + 1][256];
        struct pcap_pkthdr heads[FRAMES + 1], *head;
        const uint8_t *p;
        pcap_dumper_t *to;
        pcap_t *in;

        assert_int_equal(capture_writer_close(out), 0);
        in = pcap_open_offline(path, err);
        assert_non_null(in);
        for (unsigned i = 1; i <= FRAMES && pcap_next_ex(in, &head, &p) == 1; i++) {
                heads[i] = *head;
                memcpy(bytes[i], p, head->caplen);
        }
        to = pcap_dump_open(in, path);
        assert_non_null(to);
        for (; f->n; f++) {
                uint8_t changed[256];

                memcpy(changed, bytes[f->n], sizeof(changed));
                add_at(changed + SEQ, f->seq);
                add_at(changed + ACK, f->ack);
                pcap_dump((uint8_t *)to, &heads[f->n], changed);
        }
        pcap_dump_close(to);
        pcap_close(in);
}

static void assert_rewritten(const struct frame *f, const char *want)
{
        rewrite(f);
        assert_int_equal(read_back(), 0);
        assert_string_equal(seen.log, want);
}

/* 1 to 3: SYN, SYN-ACK, ACK; 4: "ab", 5: "cc", 6: "d", 7: RST of the host. */
static void write_one(void)
{
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "ab");
        send_text(PARTY_CONTROLLER, "cc");
        send_text(PARTY_HOST, "d");
        capture_flow_close(out, &flow, PARTY_HOST, true, 0);
}

/* RFC 9293, 3.10.7.4: what is out of the window is acknowledged, and else ignored. */
static void test_what_opens_and_ends_nothing(void **state)
{
        static const struct frame stray_syn[] = { AS_IS(1),       AS_IS(2), AS_IS(3), AS_IS(4),
                                                  { 1, 5000, 0 }, AS_IS(5), AS_IS(6), AS_IS(0) };
        static const struct frame stray_rst[] = { AS_IS(1),          AS_IS(2), AS_IS(3), AS_IS(4),
                                                  { 7, 1 << 25, 0 }, AS_IS(5), AS_IS(6), AS_IS(0) };

        (void)state;
        write_one();
        assert_rewritten(stray_syn, "1 open@1; 1h 'ab'@4; 1c 'cc'@6; 1h 'd'@7; 1 closed@7; ");
        write_one();
        assert_rewritten(stray_rst, "1 open@1; 1h 'ab'@4; 1c 'cc'@6; 1h 'd'@7; 1 closed@7; ");
}

static void test_another_between_the_same_ports(void **state)
{
        static const struct frame seen_whole[] = {
                AS_IS(1),         AS_IS(2),         AS_IS(3),         AS_IS(4), { 1, 5000, 0 },
                { 2, 900, 5000 }, { 3, 5000, 900 }, { 4, 5000, 900 }, AS_IS(0)
        };
        static const struct frame without_answer[] = { AS_IS(1),         AS_IS(2),
                                                       AS_IS(3),         AS_IS(4),
                                                       { 1, 5000, 0 },   { 4, 5000, 900 },
                                                       { 5, 900, 5000 }, AS_IS(0) };
        static const struct frame without_syn[] = { AS_IS(1), AS_IS(2), AS_IS(3),
                                                    AS_IS(4), AS_IS(7), { 4, 1 << 25, 900 },
                                                    AS_IS(0) };

        (void)state;
        write_one();
        assert_rewritten(seen_whole, "1 open@1; 1h 'ab'@4; 1 closed@6; 2 open@6; 2h 'ab'@8; "
                                     "2 closed@8; ");
        write_one();
        assert_rewritten(without_answer, "1 open@1; 1h 'ab'@4; 1 closed@6; 2 open@6; 2h 'ab'@6; "
                                         "2c 'cc'@7; 2 closed@7; ");
        write_one();
        assert_rewritten(without_syn, "1 open@1; 1h 'ab'@4; 1c gap 2@5; 1 closed@5; 2 midstream@6; "
                                      "2h 'ab'@6; 2 closed@6; ");
}

/* One byte that is missing may be a FIN, until that is known. */
static void test_lost_before_the_end(void **state)
{
        static const struct frame told[] = { AS_IS(1), AS_IS(2), AS_IS(3), AS_IS(4), AS_IS(6),
                                             AS_IS(7), AS_IS(8), AS_IS(9), AS_IS(0) };
        static const struct frame untold[] = { AS_IS(1), AS_IS(2), AS_IS(3), AS_IS(4),
                                               AS_IS(6), AS_IS(8), AS_IS(0) };

        (void)state;
        for (unsigned i = 0; i < 2; i++) { /* 5: "c"; 7 to 9: FINs */
                begin();
                capture_flow_open(out, &flow, NULL, NULL, 0);
                send_text(PARTY_HOST, "ab");
                send_text(PARTY_CONTROLLER, "c");
                send_text(PARTY_HOST, "d");
                capture_flow_close(out, &flow, PARTY_HOST, false, 0);
                if (i == 0)
                        assert_rewritten(told, "1 open@1; 1h 'ab'@4; 1h 'd'@5; 1c gap 1@8; "
                                               "1 closed@8; ");
                else
                        assert_rewritten(untold,
                                         "1 open@1; 1h 'ab'@4; 1h 'd'@5; 1c gap 1@6; 1 closed@6; ");
        }
}

/* Data that was caught before the SYN of who it acknowledges. */
static void test_crossed_with_the_handshake(void **state)
{
        static const struct frame crossed[] = { AS_IS(1), AS_IS(6), AS_IS(2), AS_IS(3),
                                                AS_IS(4), AS_IS(5), AS_IS(0) };

        (void)state;
        write_one();
        assert_rewritten(crossed, "1 open@1; 1h 'ab'@5; 1c 'cc'@6; 1h 'd'@2; 1 closed@4; ");
}

/* A frame that its slice has made shorter than its IP header says is cut, whatever length the capture gives it. */
static void test_sliced(void **state)
{
        static uint8_t bytes[1500];
        struct pcap_pkthdr *head;
        pcap_dumper_t *to;
        const uint8_t *p;
        pcap_t *in;

        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        capture_flow_data(out, &flow, PARTY_HOST, bytes, 1000, 0);
        assert_int_equal(capture_writer_close(out), 0);
        in = pcap_open_offline(path, err);
        assert_non_null(in);
        assert_int_equal(memory_file(path), 0); /* `in` still reads the other one */
        to = pcap_dump_open(in, path);
        assert_non_null(to);
        while (pcap_next_ex(in, &head, &p) == 1) {
                if (head->caplen > 154)
                        head->caplen = head->len = 154;
                pcap_dump((uint8_t *)to, head, p);
        }
        pcap_dump_close(to);
        pcap_close(in);
        assert_int_equal(read_back(), 0);
        assert_non_null(strstr(seen.log, "1h gap 900@4; "));
}

/* What was written is read back whole: so many connections, each opened and closed. */
static void assert_connections(unsigned n)
{
        assert_int_equal(capture_writer_close(out), 0);
        memset(&seen, 0, sizeof(seen));
        assert_int_equal(read_back(), 0);
        assert_int_equal(seen.opened, n);
        assert_int_equal(seen.closed, n);
}

/* Connections of which one byte is there, and again something of the first one after each thousand. */
static void strangers(unsigned count, const char *again)
{
        for (unsigned i = 0; i < count; i++) {
                struct capture_flow other = flow;

                other.end[PARTY_HOST].addr[2] = (uint8_t)(1 + i / 10000);
                other.end[PARTY_HOST].port = (uint16_t)(1024 + i % 10000);
                capture_flow_data(out, &other, PARTY_HOST, "a", 1, 0);
                if (again && i % 1000 == 0)
                        send_text(PARTY_HOST, again);
        }
}

/* More connections than are remembered, of which one is in use all the time: it goes on, the idle
 * ones are closed. */
static void test_many(void **state)
{
        enum { MANY = 40000 };
        char *at;

        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        strangers(MANY, "b");
        assert_connections(MANY + 1);
        at = strstr(seen.log, "1 closed");
        assert_null(at); /* last of all, far after what the log can hold */
        assert_int_equal(seen.unfinished, 0);
}

/* An idle one that makes room for others may go on: both its sides lack something before it is closed. */
static void test_what_is_forgotten_has_not_ended(void **state)
{
        enum { REMEMBERED = 16384 };

        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "hello");
        strangers(REMEMBERED, NULL);
        assert_connections(REMEMBERED + 1);
        assert_int_equal(seen.unfinished, 2);
}

/* One that has ended makes room, too, and nothing of it is missing. */
static void test_what_has_ended_is_forgotten(void **state)
{
        enum { REMEMBERED = 16384 };

        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "hello");
        capture_flow_close(out, &flow, PARTY_HOST, false, 0);
        strangers(REMEMBERED, NULL);
        assert_connections(REMEMBERED + 1);
        assert_int_equal(seen.unfinished, 0);
}

/* Many that are opened, and nothing is said on them. */
static void flood(unsigned count)
{
        struct sockaddr_in host = { .sin_family = AF_INET },
                           controller = { .sin_family = AF_INET,
                                          .sin_port = htons(NVME_TCP_PORT),
                                          .sin_addr.s_addr = htonl(0x0a000002) };

        for (unsigned i = 0; i < count; i++) {
                struct capture_flow other = { 0 };

                host.sin_addr.s_addr = htonl(0x0a010001 + i / 10000);
                host.sin_port = htons((uint16_t)(1024 + i % 10000));
                capture_flow_open(out, &other, (const struct sockaddr *)&host,
                                  (const struct sockaddr *)&controller, 0);
        }
}

/* One that is idle for as long as it takes is not forgotten for handshakes that nothing comes of: else
 * its last bytes would be those of another that began earlier. */
static void test_a_flood_of_handshakes(void **state)
{
        enum { FLOOD = 40000 };

        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "hello");
        flood(FLOOD);
        send_text(PARTY_HOST, "bye");
        assert_connections(FLOOD + 1);
        assert_int_equal(seen.unfinished, 0);
}

static void test_midstream(void **state)
{
        (void)state;
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        capture_flow_close(out, &flow, PARTY_HOST, true, 0);
        flow.end[PARTY_HOST].port = 40000;
        flow.seq[PARTY_HOST] = 1000;
        flow.seq[PARTY_CONTROLLER] = 2000;
        send_text(PARTY_CONTROLLER, "from the controller: its port says so");
        send_text(PARTY_HOST, "host");
        assert_seen("1 open@1; 1 closed@4; 2 midstream@5; "
                    "2c 'from the controller: its port says so'@5; 2h 'host'@6; 2 closed@6; ");
}

static void test_ip6(void **state)
{
        struct sockaddr_in6 host = { .sin6_family = AF_INET6, .sin6_port = htons(50000) };
        struct sockaddr_in6 ctrl = { .sin6_family = AF_INET6, .sin6_port = htons(8009) };
        char buf[CAPTURE_END_TEXT];

        (void)state;
        inet_pton(AF_INET6, "2001:db8::1", &host.sin6_addr);
        inet_pton(AF_INET6, "2001:db8::2", &ctrl.sin6_addr);
        begin();
        capture_flow_open(out, &flow, (struct sockaddr *)&host, (struct sockaddr *)&ctrl, 0);
        send_text(PARTY_HOST, "six");
        assert_seen("1 open@1; 1h 'six'@4; 1 closed@4; ");
        assert_string_equal(capture_end_text(&seen.first.end[PARTY_CONTROLLER], buf),
                            "[2001:db8::2]:8009");
}

static void test_large_writes(void **state)
{
        static char much[100000];

        (void)state;
        memset(much, 'x', sizeof(much));
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        capture_flow_data(out, &flow, PARTY_HOST, much, sizeof(much), 0);
        send_text(PARTY_HOST, "end");
        assert_int_equal(capture_writer_close(out), 0);
        assert_int_equal(read_back(), 0);
        assert_non_null(strstr(seen.log, "1h 'end'@8"));
        assert_null(strstr(seen.log, "gap"));
}

/* --- other link types, and damage ------------------------------------------------------------- */

static const uint8_t ip4_head[20] = { 0x45, [8] = 64, 6, [12] = 10, 0, 0, 1, 10, 0, 0, 2 };
static const uint8_t tcp_head[20] = { 0xc3, 0x50, 0x11, 0x44, [7] = 1, [12] = 0x50, 0x10 };

/* One packet of a link type: `head` bytes of link header before an IPv4 packet of `n` data bytes,
 * of which `cut` are left out of the capture. */
static void write_raw(int dlt, const void *head, size_t head_len, unsigned n, unsigned cut)
{
        uint8_t packet[256] = { 0 }, *ip = packet + head_len;
        pcap_t *pcap = pcap_open_dead(dlt, 65535);
        pcap_dumper_t *dump = pcap_dump_open(pcap, path);
        struct pcap_pkthdr h = { .len = (uint32_t)(head_len + 40 + n) };

        assert_non_null(dump);
        memcpy(packet, head, head_len);
        memcpy(ip, ip4_head, sizeof(ip4_head));
        ip[3] = (uint8_t)(40 + n);
        memcpy(ip + 20, tcp_head, sizeof(tcp_head));
        memcpy(ip + 40, "abcdefghijklmnop", n);
        h.caplen = h.len - cut;
        pcap_dump((uint8_t *)dump, &h, packet);
        pcap_dump_close(dump);
        pcap_close(pcap);
}

static void test_link_types(void **state)
{
        static const uint8_t ether[14] = { [12] = 8 }, vlan[18] = { [12] = 0x81, [16] = 8 };
        static const uint8_t twice[22] = { [12] = 0x88, 0xa8, [16] = 0x81, [20] = 8 };
        static const uint8_t sll[16] = { [14] = 8 }, sll2[20] = { 8 }, null[4] = { 2 };
        static const struct {
                int dlt;
                const void *head;
                size_t len;
        } links[] = {
                { DLT_EN10MB, ether, 14 },  { DLT_EN10MB, vlan, 18 },     { DLT_EN10MB, twice, 22 },
                { DLT_LINUX_SLL, sll, 16 }, { DLT_LINUX_SLL2, sll2, 20 }, { DLT_NULL, null, 4 },
                { DLT_RAW, "", 0 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(links); i++) {
                write_raw(links[i].dlt, links[i].head, links[i].len, 5, 0);
                assert_int_equal(read_back(), 0);
                assert_string_equal(seen.log, "1 midstream@1; 1h 'abcde'@1; 1 closed@1; ");
        }
        write_raw(DLT_PPP, "", 0, 5, 0);
        assert_int_equal(read_back(), -1);
        assert_non_null(strstr(err, "link type"));
}

/* Two extension headers before TCP, and one that hides it: a fragment. */
static void test_ip6_extensions(void **state)
{
        uint8_t ip[40 + 8 + 16 + 20 + 3] = { 0x60, [5] = 8 + 16 + 20 + 3, [6] = 0, [7] = 64 };
        pcap_t *pcap = pcap_open_dead(DLT_RAW, 65535);
        pcap_dumper_t *dump = pcap_dump_open(pcap, path);
        struct pcap_pkthdr h = { .caplen = sizeof(ip), .len = sizeof(ip) };

        (void)state;
        assert_non_null(dump);
        ip[40] = 60; /* destination options follow */
        ip[48] = 6;  /* TCP follows, 16 bytes on */
        ip[49] = 1;
        memcpy(ip + 64, tcp_head, sizeof(tcp_head));
        ip[84] = 'a';
        ip[85] = 'b';
        ip[86] = 'c';
        pcap_dump((uint8_t *)dump, &h, ip);
        ip[40] = 44;
        pcap_dump((uint8_t *)dump, &h, ip);
        ip[40] = 60;
        ip[49] = 255; /* beyond the packet */
        pcap_dump((uint8_t *)dump, &h, ip);
        pcap_dump_close(dump);
        pcap_close(pcap);
        assert_int_equal(read_back(), 0);
        assert_string_equal(seen.log, "1 midstream@1; 1h 'abc'@1; 1 closed@3; ");
}

static void test_cut_packets(void **state)
{
        static const uint8_t ether[14] = { [12] = 8 };

        (void)state;
        write_raw(DLT_EN10MB, ether, 14, 5, 2);
        assert_int_equal(read_back(), 0);
        assert_string_equal(seen.log, "1 midstream@1; 1h 'abc'@1; 1h gap 2@1; 1 closed@1; ");
        for (unsigned cut = 6; cut <= 14 + 45; cut++) {
                write_raw(DLT_EN10MB, ether, 14, 5, cut);
                assert_int_equal(read_back(), 0);
                assert_string_equal(seen.log, "");
        }
}

static void test_random_packets(void **state)
{
        static const uint8_t ether[14] = { [12] = 8 };
        uint64_t seed = 8;
        uint8_t bytes[14 + 45 + 40];

        (void)state;
        write_raw(DLT_EN10MB, ether, 14, 5, 0);
        for (int round = 0; round < 3000; round++) {
                FILE *f = fopen(path, "r+b");

                assert_non_null(f);
                assert_int_equal(fread(bytes, 1, sizeof(bytes), f), sizeof(bytes));
                for (int i = 0; i < 3; i++) /* after the file's and the packet's own header */
                        bytes[40 + random_next(&seed) % 59] = (uint8_t)random_next(&seed);
                rewind(f);
                fwrite(bytes, 1, sizeof(bytes), f);
                fclose(f);
                assert_int_equal(read_back(), 0);
        }
}

static void write_file(const void *bytes, size_t n)
{
        FILE *f = fopen(path, "wb");

        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, n, f), n);
        assert_int_equal(fclose(f), 0);
}

static void test_bad_files(void **state)
{
        static char whole[4096];
        size_t n;
        FILE *f;

        (void)state;
        assert_int_equal(capture_read("/nonexistent/x.pcap", &ops, NULL, err, sizeof(err)), -1);
        assert_non_null(strstr(err, "/nonexistent/x.pcap"));
        write_file("not a capture, and long enough to be one", 40);
        assert_int_equal(read_back(), -1);
        assert_non_null(strstr(err, path));
        begin();
        capture_flow_open(out, &flow, NULL, NULL, 0);
        send_text(PARTY_HOST, "before the damage");
        send_text(PARTY_HOST, "lost");
        assert_int_equal(capture_writer_close(out), 0);
        f = fopen(path, "rb");
        n = fread(whole, 1, sizeof(whole), f);
        fclose(f);
        write_file(whole, n - 3);
        assert_int_equal(read_back(), -1);
        assert_non_null(strstr(seen.log, "'before the damage'@4; 1 closed"));
}

static void test_bad_output(void **state)
{
        (void)state;
        assert_null(capture_writer_open("/nonexistent/x.pcap", err, sizeof(err)));
        assert_non_null(strstr(err, "/nonexistent/x.pcap"));
        out = capture_writer_open("/dev/full", err, sizeof(err));
        if (!out)
                return;
        capture_flow_open(out, &flow, NULL, NULL, 0);
        assert_int_equal(capture_writer_close(out), -1);
}

/* --- how much is written ---------------------------------------------------------------------- */

#define LINE "one of the many packets that fill a file to its end"

enum { LIMIT = 4096, RING = 3, MANY = 120 }; /* packets: three files, and half of the fourth */

static off_t size_of(const char *file)
{
        struct stat st;

        return stat(file, &st) == 0 ? st.st_size : -1;
}

/* What closing it returned. */
static int write_many(const char *file, unsigned files)
{
        out = capture_writer_open(file, err, sizeof(err));
        assert_non_null(out);
        capture_writer_limit(out, LIMIT, files);
        capture_flow_open(out, &flow, NULL, NULL, 0);
        for (unsigned i = 0; i < MANY; i++)
                send_text(PARTY_HOST, LINE);
        return capture_writer_close(out);
}

static void assert_begins(const char *file, const char *want)
{
        seen.text = text_in(seen.log, sizeof(seen.log));
        assert_int_equal(capture_read(file, &ops, NULL, err, sizeof(err)), 0);
        assert_memory_equal(seen.log, want, strlen(want));
}

static void test_a_recording_ends_at_its_limit(void **state)
{
        static const char *const suffixes[] = { "", ".pcapng" };
        char file[64], next[80];

        (void)state;
        for (unsigned i = 0; i < COUNT(suffixes); i++) {
                snprintf(file, sizeof(file), "%s%s", disk, suffixes[i]);
                snprintf(next, sizeof(next), "%s.1", file);
                assert_int_equal(write_many(file, 1), 0);
                assert_in_range(size_of(file), LIMIT - 150, LIMIT); /* one more did not fit */
                assert_int_equal(size_of(next), -1);
                assert_begins(file, "1 open@1; 1h 'one of the many");
        }
        unlink(file);
}

/* Each has a beginning of its own; the first is written over again. */
static void test_a_ring_of_recordings(void **state)
{
        char file[64];

        (void)state;
        assert_int_equal(write_many(disk, RING), 0);
        for (unsigned i = 0; i < RING; i++) {
                snprintf(file, sizeof(file), i ? "%s.%u" : "%s", disk, i);
                assert_in_range(size_of(file), LIMIT / 4, LIMIT);
                assert_begins(file, "1 midstream@1; 1h 'one of the many");
                if (i > 0)
                        unlink(file);
        }
        snprintf(file, sizeof(file), "%s.%u", disk, (unsigned)RING);
        assert_int_equal(size_of(file), -1);
}

/* The next one cannot be made: what is there stays, and the end says so. */
static void test_a_ring_that_cannot_continue(void **state)
{
        char next[64];

        (void)state;
        snprintf(next, sizeof(next), "%s.1", disk);
        assert_int_equal(mkdir(next, 0700), 0);
        assert_int_equal(write_many(disk, RING), -1);
        assert_begins(disk, "1 open@1; 1h 'one of the many");
        assert_int_equal(rmdir(next), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_and_back),
                cmocka_unit_test(test_reset),
                cmocka_unit_test(test_retransmission),
                cmocka_unit_test(test_reordering),
                cmocka_unit_test(test_wrap),
                cmocka_unit_test(test_gap),
                cmocka_unit_test(test_crossed_frames),
                cmocka_unit_test(test_acknowledged_and_lost),
                cmocka_unit_test(test_gap_is_given_up),
                cmocka_unit_test(test_ports_used_anew),
                cmocka_unit_test(test_what_opens_and_ends_nothing),
                cmocka_unit_test(test_another_between_the_same_ports),
                cmocka_unit_test(test_lost_before_the_end),
                cmocka_unit_test(test_crossed_with_the_handshake),
                cmocka_unit_test(test_sliced),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_what_is_forgotten_has_not_ended),
                cmocka_unit_test(test_what_has_ended_is_forgotten),
                cmocka_unit_test(test_a_flood_of_handshakes),
                cmocka_unit_test(test_midstream),
                cmocka_unit_test(test_ip6),
                cmocka_unit_test(test_large_writes),
                cmocka_unit_test(test_link_types),
                cmocka_unit_test(test_ip6_extensions),
                cmocka_unit_test(test_cut_packets),
                cmocka_unit_test(test_random_packets),
                cmocka_unit_test(test_bad_files),
                cmocka_unit_test(test_bad_output),
                cmocka_unit_test(test_a_recording_ends_at_its_limit),
                cmocka_unit_test(test_a_ring_of_recordings),
                cmocka_unit_test(test_a_ring_that_cannot_continue),
        };

        return cmocka_run_group_tests(tests, make_paths, drop_disk);
}
