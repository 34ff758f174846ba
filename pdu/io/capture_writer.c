/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/io/capture_writer.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>

enum {
        ETHER_HEAD = 14,
        IP4_HEAD = 20,
        IP6_HEAD = 40,
        TCP_HEAD = 20,
        SEGMENT = 32768, /* bytes of data in one packet at most; IPv4 counts in 16 bits */
        PACKET_MAX = ETHER_HEAD + IP6_HEAD + TCP_HEAD + SEGMENT,
};

enum tcp_flags { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };

struct capture_writer {
        pcap_t *pcap;
        pcap_dumper_t *dump;
        uint8_t packet[PACKET_MAX];
};

struct capture_writer *capture_writer_open(const char *path, char *err, size_t err_size)
{
        struct capture_writer *w = calloc(1, sizeof(*w));

        if (!w) {
                snprintf(err, err_size, "%s: out of memory", path);
                return NULL;
        }
        w->pcap = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, PACKET_MAX,
                                                       PCAP_TSTAMP_PRECISION_NANO);
        w->dump = w->pcap ? pcap_dump_open(w->pcap, path) : NULL;
        if (!w->dump) {
                snprintf(err, err_size, "%s", w->pcap ? pcap_geterr(w->pcap) : "out of memory");
                capture_writer_close(w);
                return NULL;
        }
        return w;
}

int capture_writer_close(struct capture_writer *w)
{
        int rc = 0;

        if (w->dump) {
                if (pcap_dump_flush(w->dump) < 0 || ferror(pcap_dump_file(w->dump)))
                        rc = -1;
                pcap_dump_close(w->dump);
        }
        if (w->pcap)
                pcap_close(w->pcap);
        free(w);
        return rc;
}

/* --- one packet ------------------------------------------------------------------------------- */

static void put16(uint8_t *p, unsigned v)
{
        p[0] = (uint8_t)(v >> 8);
        p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
        put16(p, v >> 16);
        put16(p + 2, v & 0xffff);
}

/* The Internet checksum (RFC 1071) goes on from `sum`. */
static uint32_t sum16(uint32_t sum, const uint8_t *p, size_t n)
{
        for (; n > 1; p += 2, n -= 2)
                sum += (uint32_t)(p[0] << 8 | p[1]);
        if (n)
                sum += (uint32_t)p[0] << 8;
        return (sum & 0xffff) + (sum >> 16);
}

static unsigned folded(uint32_t sum)
{
        while (sum >> 16)
                sum = (sum & 0xffff) + (sum >> 16);
        return ~sum & 0xffff;
}

static size_t addr_len(const struct capture_flow *f)
{
        return f->end[0].family == AF_INET ? 4 : 16;
}

static uint8_t *put_ether(uint8_t *p, const struct capture_flow *f, enum party sender)
{
        memset(p, 0, ETHER_HEAD);
        p[0] = p[6] = 0x02; /* locally administered: :01 the host, :02 the controller */
        p[5] = sender == PARTY_HOST ? 2 : 1;
        p[11] = sender == PARTY_HOST ? 1 : 2;
        put16(p + 12, f->end[0].family == AF_INET ? 0x0800 : 0x86dd);
        return p + ETHER_HEAD;
}

static uint8_t *put_ip4(uint8_t *p, const struct capture_flow *f, enum party sender, size_t n)
{
        memset(p, 0, IP4_HEAD);
        p[0] = 0x45;
        put16(p + 2, (unsigned)(IP4_HEAD + TCP_HEAD + n));
        p[6] = 0x40; /* don't fragment */
        p[8] = 64;
        p[9] = IPPROTO_TCP;
        memcpy(p + 12, f->end[sender].addr, 4);
        memcpy(p + 16, f->end[peer_of(sender)].addr, 4);
        put16(p + 10, folded(sum16(0, p, IP4_HEAD)));
        return p + IP4_HEAD;
}

static uint8_t *put_ip6(uint8_t *p, const struct capture_flow *f, enum party sender, size_t n)
{
        memset(p, 0, 8);
        p[0] = 0x60;
        put16(p + 4, (unsigned)(TCP_HEAD + n));
        p[6] = IPPROTO_TCP;
        p[7] = 64;
        memcpy(p + 8, f->end[sender].addr, 16);
        memcpy(p + 24, f->end[peer_of(sender)].addr, 16);
        return p + IP6_HEAD;
}

static uint8_t *put_tcp(uint8_t *p, const struct capture_flow *f, enum party sender, unsigned flags,
                        const void *data, size_t n)
{
        const struct capture_end *from = &f->end[sender], *to = &f->end[peer_of(sender)];
        uint32_t sum = (uint32_t)(IPPROTO_TCP + TCP_HEAD + n);

        put16(p, from->port);
        put16(p + 2, to->port);
        put32(p + 4, f->seq[sender]);
        put32(p + 8, flags & ACK ? f->seq[peer_of(sender)] : 0);
        put16(p + 12, (TCP_HEAD / 4) << 12 | flags);
        put16(p + 14, 65535); /* window */
        put32(p + 16, 0);
        if (n)
                memcpy(p + TCP_HEAD, data, n);
        sum = sum16(sum, from->addr, addr_len(f));
        sum = sum16(sum, to->addr, addr_len(f));
        put16(p + 16, folded(sum16(sum, p, TCP_HEAD + n)));
        return p + TCP_HEAD + n;
}

static void packet(struct capture_writer *w, struct capture_flow *f, enum party sender,
                   unsigned flags, const void *data, size_t n, int64_t time_ns)
{
        uint8_t *p = put_ether(w->packet, f, sender);
        struct pcap_pkthdr head = { 0 };

        p = f->end[0].family == AF_INET ? put_ip4(p, f, sender, n) : put_ip6(p, f, sender, n);
        p = put_tcp(p, f, sender, flags, data, n);
        head.ts.tv_sec = time_ns / 1000000000;
        head.ts.tv_usec = time_ns % 1000000000; /* the file is one of nanoseconds */
        head.caplen = head.len = (uint32_t)(p - w->packet);
        pcap_dump((uint8_t *)w->dump, &head, w->packet);
        f->seq[sender] += (uint32_t)n + (flags & (SYN | FIN) ? 1 : 0);
}

/* --- a flow ----------------------------------------------------------------------------------- */

static bool end_of(struct capture_end *e, const struct sockaddr *sa)
{
        const struct sockaddr_in *in4 = (const void *)sa;
        const struct sockaddr_in6 *in6 = (const void *)sa;

        *e = (struct capture_end) { 0 };
        if (!sa || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
                return false;
        e->family = (uint8_t)sa->sa_family;
        if (sa->sa_family == AF_INET) {
                memcpy(e->addr, &in4->sin_addr, 4);
                e->port = ntohs(in4->sin_port);
        } else {
                memcpy(e->addr, &in6->sin6_addr, 16);
                e->port = ntohs(in6->sin6_port);
        }
        return true;
}

void capture_flow_open(struct capture_writer *w, struct capture_flow *f,
                       const struct sockaddr *host, const struct sockaddr *controller,
                       int64_t time_ns)
{
        struct capture_end *h = &f->end[PARTY_HOST], *c = &f->end[PARTY_CONTROLLER];

        if (!end_of(h, host) || !end_of(c, controller) || h->family != c->family) {
                *h = (struct capture_end) { AF_INET, { 10, 0, 0, 1 }, 50000 };
                *c = (struct capture_end) { AF_INET, { 10, 0, 0, 2 }, 4420 };
        }
        f->seq[PARTY_HOST] = f->seq[PARTY_CONTROLLER] = 0;
        packet(w, f, PARTY_HOST, SYN, NULL, 0, time_ns);
        packet(w, f, PARTY_CONTROLLER, SYN | ACK, NULL, 0, time_ns);
        packet(w, f, PARTY_HOST, ACK, NULL, 0, time_ns);
}

void capture_flow_data(struct capture_writer *w, struct capture_flow *f, enum party sender,
                       const void *data, size_t n, int64_t time_ns)
{
        const uint8_t *p = data;

        while (n > 0) {
                size_t part = n < SEGMENT ? n : SEGMENT;

                packet(w, f, sender, PSH | ACK, p, part, time_ns);
                p += part;
                n -= part;
        }
}

void capture_flow_close(struct capture_writer *w, struct capture_flow *f, enum party who,
                        bool reset, int64_t time_ns)
{
        if (reset) {
                packet(w, f, who, RST | ACK, NULL, 0, time_ns);
                return;
        }
        packet(w, f, who, FIN | ACK, NULL, 0, time_ns);
        packet(w, f, peer_of(who), FIN | ACK, NULL, 0, time_ns);
        packet(w, f, who, ACK, NULL, 0, time_ns);
}
