/* SPDX-License-Identifier: BSD-3-Clause */
/* What the recorder of verbs writes of queue pairs that are joined by numbers: their packets alone, with
 * these numbers; and of managed ones whose protocol it does not know. Those of NVMe: pcap/tests/test_record_rdma.c. */
#include "pdu/core/tests/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <unistd.h>

#include "pdu/io/capture/packet.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/io/verbs/verbs_record.h"

enum {
        BYTES = 1024,
        SEND_ONLY = 4,
        WRITE_FIRST = 6,
        WRITE_LAST = 8,
        WRITE_ONLY = 10,
        READ_REQUEST = 12,
        ANSWER_FIRST = 13,
        ANSWER_LAST = 15,
        ANSWER_ONLY = 16,
        ACK = 17,
        UD_SEND_ONLY = 0x64,              /* a message of connection management */
        CM_PORT_AT = 12 + 8 + 24 + 8 + 6, /* BTH, DETH, MAD; in the service id of a request */
};

static char path[] = "/tmp/test_verbs_record.XXXXXX", error[256];

struct end {
        struct verbs_context *c;
        struct verbs_domain *d;
        struct verbs_ep *ep;
        struct verbs_mr mr;
        struct verbs_numbers own;
        uint8_t memory[BYTES];
        struct verbs_wr wr, recv;
};

static struct end ours, peer;
static const struct verbs_conn_param param = { .reads_in = 4, .reads_out = 4, .rnr_retry = 7 };

static void begin(struct end *e, struct verbs_provider *p, const char *traddr, int byte)
{
        const struct verbs_qp_attr attr = { 8, 8, 0 };

        memset(e, 0, sizeof(*e));
        memset(e->memory, byte, BYTES);
        e->c = verbs_open(p);
        e->ep = verbs_local(e->c, traddr);
        assert_non_null(e->ep);
        e->d = verbs_domain(e->ep);
        assert_int_equal(verbs_qp(e->ep, &attr), 0);
        assert_int_equal(
            verbs_reg(e->d, e->memory, BYTES, VERBS_REMOTE_READ | VERBS_REMOTE_WRITE, &e->mr), 0);
        assert_int_equal(verbs_numbers(e->ep, &e->own), 0);
}

static void finish(struct end *e)
{
        verbs_destroy(e->ep);
        verbs_dereg(e->d, &e->mr);
        verbs_close(e->c);
}

static void expect_wc(struct end *e, const struct verbs_wr *wr)
{
        struct verbs_wc wc;

        assert_int_equal(verbs_poll(e->d, &wc, 1), 1);
        assert_ptr_equal(wc.wr, wr);
        assert_ptr_equal(wc.ep, e->ep);
        assert_int_equal(wc.status, VERBS_SUCCESS);
}

static void expect_event(struct end *e, enum verbs_event_type type)
{
        struct verbs_event v;

        assert_true(verbs_event(e->c, &v));
        assert_int_equal(v.type, type);
        assert_ptr_equal(v.ep, e->ep);
}

static void run(struct end *e, struct end *to, enum verbs_op op, uint32_t len)
{
        struct verbs_wr *bad;

        e->wr = (struct verbs_wr) { .op = op,
                                    .flags = VERBS_SIGNALED,
                                    .n_sge = 1,
                                    .sge = { { e->memory, len, e->mr.lkey } },
                                    .remote = (uintptr_t)to->memory + 512,
                                    .rkey = to->mr.rkey };
        to->recv = (struct verbs_wr) { .op = VERBS_RECV,
                                       .n_sge = 1,
                                       .sge = { { to->memory + 256, 64, to->mr.lkey } } };
        if (op == VERBS_SEND)
                assert_int_equal(verbs_post_recv(to->ep, &to->recv, &bad), 0);
        assert_int_equal(verbs_post(e->ep, &e->wr, &bad), 0);
        if (op == VERBS_SEND)
                expect_wc(to, &to->recv);
        expect_wc(e, &e->wr);
}

/* As long as a command of NVMe, but none: what the peer does with it is not guessed. */
static void exchange(const char *own_address, const char *peer_address)
{
        struct verbs_provider *v = verbs_memory_new(NULL), *recorder;
        struct capture_writer *w;
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        close(fd);
        w = capture_writer_open(path, error, sizeof(error));
        assert_non_null(w);
        recorder = verbs_record_new(v, w, NULL);
        begin(&ours, recorder, own_address, 'o');
        begin(&peer, v, peer_address, 'p');
        assert_int_equal(verbs_join(ours.ep, &peer.own, &param), 0);
        assert_int_equal(verbs_join(peer.ep, &ours.own, &param), 0);
        expect_event(&ours, VERBS_ESTABLISHED);
        run(&ours, &peer, VERBS_SEND, 64);
        run(&peer, &ours, VERBS_WRITE, 100); /* is not seen */
        run(&peer, &ours, VERBS_SEND, 16);
        run(&ours, &peer, VERBS_WRITE, 100);
        run(&ours, &peer, VERBS_READ, 20);
        assert_int_equal(verbs_disconnect(ours.ep), 0);
        expect_event(&ours, VERBS_DISCONNECTED);
        finish(&ours);
        finish(&peer);
        verbs_record_free(recorder);
        verbs_memory_free(v);
        assert_int_equal(capture_writer_close(w), 0);
}

static const struct want {
        uint8_t opcode;
        bool by_us;
        bool to_us; /* the PSN is of a request of the peer */
        uint32_t nth;
} wanted[] = {
        { SEND_ONLY, true, false, 0 },    { ACK, false, false, 0 },
        { SEND_ONLY, false, true, 0 },    { ACK, true, true, 0 },
        { WRITE_ONLY, true, false, 1 },   { ACK, false, false, 1 },
        { READ_REQUEST, true, false, 2 }, { ANSWER_ONLY, false, false, 2 },
};

static uint32_t get24(const uint8_t *p)
{
        return (uint32_t)(p[0] << 16 | p[1] << 8 | p[2]);
}

static void check_packet(const struct packet *p, const struct want *want)
{
        const struct verbs_numbers *to = want->by_us ? &peer.own : &ours.own;
        const struct verbs_numbers *asked = want->to_us ? &peer.own : &ours.own;

        assert_true(p->n >= 12);
        assert_int_equal(p->data[0], want->opcode);
        assert_int_equal(get24(p->data + 5), to->qpn);
        assert_int_equal(get24(p->data + 9), (asked->psn + want->nth) & 0xffffff);
}

static void check_address(const struct capture_end *end, int family, const char *text)
{
        uint8_t address[16] = { 0 };

        assert_int_equal(end->family, family);
        assert_int_equal(inet_pton(family, text, address), 1);
        assert_memory_equal(end->addr, address, family == AF_INET ? 4 : 16);
}

/* The one who records is written as the controller. */
static void check_capture(const struct want *want, size_t wants, int family,
                          const char *own_address, const char *peer_address)
{
        pcap_t *in = pcap_open_offline(path, error);
        struct pcap_pkthdr *h;
        const uint8_t *bytes;
        struct packet p;
        size_t n = 0;

        assert_non_null(in);
        for (; pcap_next_ex(in, &h, &bytes) == 1; n++) {
                assert_true(n < wants);
                assert_int_equal(
                    packet_parse(packet_link(DLT_EN10MB), bytes, h->caplen, h->len, &p),
                    PACKET_UDP);
                check_address(want[n].by_us ? &p.from : &p.to, family, own_address);
                check_address(want[n].by_us ? &p.to : &p.from, family, peer_address);
                check_packet(&p, &want[n]);
        }
        assert_int_equal(n, wants);
        pcap_close(in);
        unlink(path);
        memcpy(path + strlen(path) - 6, "XXXXXX", 6);
}

static void packets_have_the_numbers_of_the_joined(void **state)
{
        (void)state;
        exchange("10.0.0.7", "10.0.0.9");
        check_capture(wanted, COUNT(wanted), AF_INET, "10.0.0.7", "10.0.0.9");
}

static void a_gid_that_is_no_ipv4_address_is_one_of_ipv6(void **state)
{
        (void)state;
        exchange("fd00::7", "fd00::a:9");
        check_capture(wanted, COUNT(wanted), AF_INET6, "fd00::7", "fd00::a:9");
}

/* Who has told the numbers has told the addresses, too; the numbers of one address differ. */
static void two_ends_at_one_address_keep_it(void **state)
{
        (void)state;
        exchange("10.0.0.7", "10.0.0.7");
        assert_int_not_equal(ours.own.qpn, peer.own.qpn);
        check_capture(wanted, COUNT(wanted), AF_INET, "10.0.0.7", "10.0.0.7");
}

/* Readers count PSNs by it. */
static void the_smaller_mtu_counts(void **state)
{
        static const struct want pieces[] = {
                { READ_REQUEST, true, false, 0 }, { ANSWER_FIRST, false, false, 0 },
                { ANSWER_LAST, false, false, 1 }, { WRITE_FIRST, true, false, 2 },
                { WRITE_LAST, true, false, 3 },   { ACK, false, false, 3 },
        };
        struct verbs_provider *v = verbs_memory_new(NULL), *recorder;
        int fd = mkstemp(path);
        struct capture_writer *w;
        struct verbs_numbers slow;

        (void)state;
        assert_true(fd >= 0);
        close(fd);
        w = capture_writer_open(path, error, sizeof(error));
        assert_non_null(w);
        recorder = verbs_record_new(v, w, NULL);
        begin(&ours, recorder, "10.0.0.7", 'o');
        begin(&peer, v, "10.0.0.9", 'p');
        slow = peer.own;
        slow.mtu = 256;
        assert_int_equal(verbs_join(ours.ep, &slow, &param), 0);
        assert_int_equal(verbs_join(peer.ep, &ours.own, &param), 0);
        run(&ours, &peer, VERBS_READ, 512);
        run(&ours, &peer, VERBS_WRITE, 300);
        finish(&ours);
        finish(&peer);
        verbs_record_free(recorder);
        verbs_memory_free(v);
        assert_int_equal(capture_writer_close(w), 0);
        check_capture(pieces, COUNT(pieces), AF_INET, "10.0.0.7", "10.0.0.9");
}

/* --- by the connection manager ------------------------------------------------------------------ */

static void take_event(struct end *e, enum verbs_event_type type, struct verbs_event *v)
{
        assert_true(verbs_event(e->c, v));
        assert_int_equal(v->type, type);
}

static void make_qp(struct end *e)
{
        const struct verbs_qp_attr attr = { 8, 8, 0 };

        e->d = verbs_domain(e->ep);
        assert_int_equal(verbs_qp(e->ep, &attr), 0);
        assert_int_equal(
            verbs_reg(e->d, e->memory, BYTES, VERBS_REMOTE_READ | VERBS_REMOTE_WRITE, &e->mr), 0);
}

static void connect_ends(struct verbs_provider *recorder, struct verbs_provider *v)
{
        struct verbs_listener *l;
        struct verbs_event event;

        memset(&ours, 0, sizeof(ours));
        memset(&peer, 0, sizeof(peer));
        ours.c = verbs_open(recorder);
        peer.c = verbs_open(v);
        l = verbs_listen(peer.c, "10.0.0.9", "7000", 1);
        assert_non_null(l);
        ours.ep = verbs_resolve(ours.c, "10.0.0.9", "7000", 1000);
        take_event(&ours, VERBS_RESOLVED, &event);
        make_qp(&ours);
        assert_int_equal(verbs_connect(ours.ep, &param), 0);
        take_event(&peer, VERBS_CONNECT_REQUEST, &event);
        peer.ep = event.ep;
        make_qp(&peer);
        assert_int_equal(verbs_accept(peer.ep, &param), 0);
        take_event(&ours, VERBS_ESTABLISHED, &event);
        take_event(&peer, VERBS_ESTABLISHED, &event);
        verbs_unlisten(l);
}

/* A Read of NVMe, whose data is all of our memory: command and response mean nothing to a recorder that does not know it. */
static void say_what_nvme_says(void)
{
        uint8_t *sqe = ours.memory;
        uint64_t addr = (uintptr_t)ours.memory;

        sqe[0] = 2;
        for (unsigned i = 0; i < 8; i++)
                sqe[24 + i] = (uint8_t)(addr >> 8 * i);
        sqe[33] = BYTES >> 8;
        for (unsigned i = 0; i < 4; i++)
                sqe[35 + i] = (uint8_t)(ours.mr.rkey >> 8 * i);
        sqe[39] = 0x40;
        run(&ours, &peer, VERBS_SEND, 64);
        run(&peer, &ours, VERBS_SEND, 16);
}

static const uint8_t managed[] = { UD_SEND_ONLY, UD_SEND_ONLY, UD_SEND_ONLY, SEND_ONLY,
                                   ACK,          SEND_ONLY,    ACK };

static void check_managed(void)
{
        pcap_t *in = pcap_open_offline(path, error);
        struct pcap_pkthdr *h;
        const uint8_t *bytes;
        struct packet p;
        size_t n = 0;

        assert_non_null(in);
        for (; pcap_next_ex(in, &h, &bytes) == 1; n++) {
                assert_true(n < COUNT(managed));
                assert_int_equal(
                    packet_parse(packet_link(DLT_EN10MB), bytes, h->caplen, h->len, &p),
                    PACKET_UDP);
                assert_int_equal(p.data[0], managed[n]);
                check_address(&p.from, AF_INET, "10.0.0.9");
                check_address(&p.to, AF_INET, "10.0.0.9");
                if (n == 0)
                        assert_int_equal(p.data[CM_PORT_AT] << 8 | p.data[CM_PORT_AT + 1], 7000);
        }
        assert_int_equal(n, COUNT(managed));
        pcap_close(in);
}

static void without_a_protocol_nothing_is_made_up(void **state)
{
        struct verbs_provider *v = verbs_memory_new(NULL), *recorder;
        int fd = mkstemp(path);
        struct capture_writer *w;

        (void)state;
        assert_true(fd >= 0);
        close(fd);
        w = capture_writer_open(path, error, sizeof(error));
        assert_non_null(w);
        recorder = verbs_record_new(v, w, NULL);
        connect_ends(recorder, v);
        say_what_nvme_says();
        finish(&ours);
        finish(&peer);
        verbs_record_free(recorder);
        verbs_memory_free(v);
        assert_int_equal(capture_writer_close(w), 0);
        check_managed();
        unlink(path);
        memcpy(path + strlen(path) - 6, "XXXXXX", 6);
}

static void what_cannot_be_joined_is_not_recorded(void **state)
{
        struct memory_caps caps;
        struct verbs_provider *v, *recorder;
        struct capture_writer *w;
        struct verbs_context *c;
        int fd = mkstemp(path);

        (void)state;
        assert_true(fd >= 0);
        close(fd);
        memory_caps_default(&caps);
        caps.device.iwarp = true;
        v = verbs_memory_new(&caps);
        w = capture_writer_open(path, error, sizeof(error));
        recorder = verbs_record_new(v, w, NULL);
        c = verbs_open(recorder);
        assert_null(verbs_local(c, "10.0.0.7"));
        assert_int_equal(errno, ENOTSUP);
        verbs_close(c);
        verbs_record_free(recorder);
        verbs_memory_free(v);
        assert_int_equal(capture_writer_close(w), 0);
        unlink(path);
        memcpy(path + strlen(path) - 6, "XXXXXX", 6);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(packets_have_the_numbers_of_the_joined),
                cmocka_unit_test(a_gid_that_is_no_ipv4_address_is_one_of_ipv6),
                cmocka_unit_test(two_ends_at_one_address_keep_it),
                cmocka_unit_test(the_smaller_mtu_counts),
                cmocka_unit_test(without_a_protocol_nothing_is_made_up),
                cmocka_unit_test(what_cannot_be_joined_is_not_recorded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
