/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/io/capture.h"

#include <arpa/inet.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/wire/tcp.h"

enum {
        BUCKETS = 1024,
        HELD_BYTES = 4 << 20, /* of one direction, waiting for what should come before them */
        HELD_SEGMENTS = 4096,
};

enum tcp_flags { FIN = 1, SYN = 2, RST = 4, ACK = 16 };

const char *capture_end_text(const struct capture_end *e, char buf[CAPTURE_END_TEXT])
{
        char addr[INET6_ADDRSTRLEN] = "?";

        inet_ntop(e->family, e->addr, addr, sizeof(addr));
        snprintf(buf, CAPTURE_END_TEXT, e->family == AF_INET6 ? "[%s]:%u" : "%s:%u", addr, e->port);
        return buf;
}

/* --- one packet ------------------------------------------------------------------------------- */

struct segment {
        struct capture_end from, to;
        uint32_t seq;
        unsigned flags;
        const uint8_t *data;
        size_t n;     /* bytes of data in the capture */
        size_t whole; /* bytes of data in the packet */
};

/* The rest of a packet. */
struct cursor {
        const uint8_t *p;
        size_t n;     /* captured */
        size_t whole; /* on the wire, n or more */
};

/* The next n bytes and on behind them; NULL if they are not all there. */
static const uint8_t *take(struct cursor *c, size_t n)
{
        const uint8_t *p = c->p;

        if (c->n < n)
                return NULL;
        c->p += n;
        c->n -= n;
        c->whole -= n;
        return p;
}

/* Nothing counts beyond `whole` bytes: Ethernet pads short frames. */
static void trim(struct cursor *c, size_t whole)
{
        if (c->whole > whole)
                c->whole = whole;
        if (c->n > c->whole)
                c->n = c->whole;
}

static unsigned get16(const uint8_t *p)
{
        return (unsigned)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
        return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static const struct link_type {
        int dlt;
        int ethertype; /* offset, or -1: the IP version tells */
        unsigned head; /* bytes */
} link_types[] = {
        { DLT_EN10MB, 12, 14 }, { DLT_LINUX_SLL, 14, 16 }, { DLT_LINUX_SLL2, 0, 20 },
        { DLT_RAW, -1, 0 },     { DLT_IPV4, -1, 0 },       { DLT_IPV6, -1, 0 },
        { DLT_NULL, -1, 4 },    { DLT_LOOP, -1, 4 },
};

static const struct link_type *link_type(int dlt)
{
        for (size_t i = 0; i < sizeof(link_types) / sizeof(link_types[0]); i++)
                if (link_types[i].dlt == dlt)
                        return &link_types[i];
        return NULL;
}

static bool is_vlan(unsigned ethertype)
{
        return ethertype == 0x8100 || ethertype == 0x88a8;
}

static bool take_link(struct cursor *c, const struct link_type *link)
{
        const uint8_t *p = take(c, link->head);
        unsigned ethertype;

        if (!p || link->ethertype < 0)
                return p != NULL;
        ethertype = get16(p + link->ethertype);
        while (is_vlan(ethertype) && (p = take(c, 4)))
                ethertype = get16(p + 2);
        return ethertype == 0x0800 || ethertype == 0x86dd;
}

static bool take_ip4(struct cursor *c, struct segment *s)
{
        const uint8_t *p = c->p;
        size_t head, total;

        if (c->n < 20)
                return false;
        head = (p[0] & 15u) * 4;
        total = get16(p + 2);
        if (total) /* 0: segmentation was left to the network card */
                trim(c, total);
        if (head < 20 || p[9] != IPPROTO_TCP || get16(p + 6) & 0x3fff || !take(c, head))
                return false;
        s->from.family = s->to.family = AF_INET;
        memcpy(s->from.addr, p + 12, 4);
        memcpy(s->to.addr, p + 16, 4);
        return true;
}

/* Hop-by-hop, routing and destination options may stand before TCP; fragments are left out. */
static bool take_ip6(struct cursor *c, struct segment *s)
{
        const uint8_t *p = take(c, 40);
        unsigned next;

        if (!p)
                return false;
        if (get16(p + 4))
                trim(c, get16(p + 4));
        s->from.family = s->to.family = AF_INET6;
        memcpy(s->from.addr, p + 8, 16);
        memcpy(s->to.addr, p + 24, 16);
        for (next = p[6]; next == 0 || next == 43 || next == 60;) {
                p = take(c, 8);
                if (!p || !take(c, p[1] * 8u))
                        return false;
                next = p[0];
        }
        return next == IPPROTO_TCP;
}

static bool take_tcp(struct cursor *c, struct segment *s)
{
        const uint8_t *p = c->p;
        size_t head;

        if (c->n < 20)
                return false;
        head = (p[12] >> 4) * 4u;
        if (head < 20 || !take(c, head))
                return false;
        s->from.port = (uint16_t)get16(p);
        s->to.port = (uint16_t)get16(p + 2);
        s->seq = get32(p + 4);
        s->flags = p[13];
        s->data = c->p;
        s->n = c->n;
        s->whole = c->whole;
        return true;
}

static bool parse(struct cursor c, const struct link_type *link, struct segment *s)
{
        *s = (struct segment) { 0 };
        if (!take_link(&c, link) || c.n == 0)
                return false;
        if (c.p[0] >> 4 == 4)
                return take_ip4(&c, s) && take_tcp(&c, s);
        return c.p[0] >> 4 == 6 && take_ip6(&c, s) && take_tcp(&c, s);
}

/* --- streams ---------------------------------------------------------------------------------- */

struct held { /* a segment that came too early */
        struct held *next;
        struct capture_place at;
        uint32_t seq;
        size_t n, whole;
        uint8_t data[];
};

struct stream {
        bool synced;
        uint32_t first, next; /* sequence numbers: of the first byte, of the next one wanted */
        bool fin;
        uint32_t fin_seq;
        struct held *held; /* by sequence number */
        size_t held_bytes;
        unsigned held_segments;
};

struct conn {
        struct capture_conn pub;
        struct stream stream[2];
        bool closed;        /* only a SYN brings its ports back to life */
        struct conn *next;  /* in its bucket */
        struct conn *later; /* in order of appearance */
};

struct reader {
        const struct capture_ops *ops;
        void *user;
        struct capture_place at;
        unsigned conns;
        struct conn *bucket[BUCKETS];
        struct conn *all, **last;
        bool no_memory;
};

/* Bytes of one packet, or (p NULL) bytes that no packet held. */
struct piece {
        const uint8_t *p;
        size_t n, whole;
        const struct capture_place *at;
};

static void deliver(struct reader *r, struct conn *c, enum party sender, struct piece b)
{
        c->stream[sender].next += (uint32_t)b.whole;
        if (b.n > 0)
                r->ops->data(r->user, &c->pub, sender, b.p, b.n, b.at);
        if (b.n < b.whole && r->ops->gap)
                r->ops->gap(r->user, &c->pub, sender, (uint32_t)(b.whole - b.n), b.at);
}

/* What is new of a piece that starts at or before the wanted byte. */
static void deliver_new(struct reader *r, struct conn *c, enum party sender, uint32_t seq,
                        struct piece b)
{
        size_t old = c->stream[sender].next - seq;

        if (old >= b.whole)
                return;
        b.whole -= old;
        b.p += old < b.n ? old : b.n;
        b.n -= old < b.n ? old : b.n;
        deliver(r, c, sender, b);
}

static bool is_early(const struct stream *s, uint32_t seq)
{
        return (int32_t)(seq - s->next) > 0;
}

static void release_held(struct reader *r, struct conn *c, enum party sender)
{
        struct stream *s = &c->stream[sender];

        while (s->held && !is_early(s, s->held->seq)) {
                struct held *h = s->held;

                s->held = h->next;
                s->held_bytes -= h->n;
                s->held_segments--;
                deliver_new(r, c, sender, h->seq,
                            (struct piece) { h->data, h->n, h->whole, &h->at });
                free(h);
        }
}

/* Gives up on what should come before the first held segment. */
static void skip_gap(struct reader *r, struct conn *c, enum party sender)
{
        struct stream *s = &c->stream[sender];

        deliver(r, c, sender, (struct piece) { NULL, 0, s->held->seq - s->next, &r->at });
        release_held(r, c, sender);
}

static void hold(struct reader *r, struct stream *s, const struct segment *seg)
{
        struct held *h = malloc(sizeof(*h) + seg->n), **at = &s->held;

        if (!h) {
                r->no_memory = true;
                return;
        }
        h->at = r->at;
        h->seq = seg->seq;
        h->n = seg->n;
        h->whole = seg->whole;
        memcpy(h->data, seg->data, seg->n);
        while (*at && (int32_t)((*at)->seq - h->seq) <= 0)
                at = &(*at)->next;
        h->next = *at;
        *at = h;
        s->held_bytes += h->n;
        s->held_segments++;
}

static void take_data(struct reader *r, struct conn *c, enum party sender,
                      const struct segment *seg)
{
        struct stream *s = &c->stream[sender];

        if (!is_early(s, seg->seq)) {
                deliver_new(r, c, sender, seg->seq,
                            (struct piece) { seg->data, seg->n, seg->whole, &r->at });
                release_held(r, c, sender);
                return;
        }
        hold(r, s, seg);
        while (s->held && (s->held_bytes > HELD_BYTES || s->held_segments > HELD_SEGMENTS))
                skip_gap(r, c, sender);
}

/* --- connections ------------------------------------------------------------------------------ */

static bool same_end(const struct capture_end *a, const struct capture_end *b)
{
        return a->family == b->family && a->port == b->port &&
               memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

/* The same for both directions. */
static struct conn **bucket_of(struct reader *r, const struct segment *s)
{
        uint32_t h = (uint32_t)(s->from.port + s->to.port) * 2654435761u;

        for (size_t i = 0; i < sizeof(s->from.addr); i++)
                h = h * 31 + s->from.addr[i] + s->to.addr[i];
        return &r->bucket[(h ^ h >> 16) % BUCKETS];
}

static struct conn *find(struct reader *r, const struct segment *s)
{
        for (struct conn *c = *bucket_of(r, s); c; c = c->next)
                if ((same_end(&c->pub.end[0], &s->from) && same_end(&c->pub.end[1], &s->to)) ||
                    (same_end(&c->pub.end[1], &s->from) && same_end(&c->pub.end[0], &s->to)))
                        return c;
        return NULL;
}

static bool is_service(uint16_t port)
{
        return port == NVME_TCP_PORT || port == NVME_DISC_PORT;
}

/* Which side opened the connection: SYN tells; else the ports have to. */
static bool from_host(const struct segment *s)
{
        if (s->flags & SYN)
                return !(s->flags & ACK);
        if (is_service(s->from.port) != is_service(s->to.port))
                return is_service(s->to.port);
        return s->from.port > s->to.port;
}

static void start(struct reader *r, struct conn *c, const struct segment *s)
{
        bool host = from_host(s);

        c->pub = (struct capture_conn) {
                .number = ++r->conns,
                .end = { host ? s->from : s->to, host ? s->to : s->from },
                .midstream = !(s->flags & SYN),
        };
        memset(c->stream, 0, sizeof(c->stream));
        c->closed = false;
        if (r->ops->opened)
                r->ops->opened(r->user, &c->pub, &r->at);
}

static struct conn *conn_new(struct reader *r, const struct segment *s)
{
        struct conn *c = calloc(1, sizeof(*c)), **bucket = bucket_of(r, s);

        if (!c) {
                r->no_memory = true;
                return NULL;
        }
        c->next = *bucket;
        *bucket = c;
        *r->last = c;
        r->last = &c->later;
        start(r, c, s);
        return c;
}

static void close_conn(struct reader *r, struct conn *c)
{
        if (c->closed)
                return;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                while (c->stream[p].held)
                        skip_gap(r, c, p);
        c->closed = true;
        if (r->ops->closed)
                r->ops->closed(r->user, &c->pub, &r->at);
}

/* A SYN that is no retransmission begins another connection between the same ports. */
static bool is_anew(const struct conn *c, const struct segment *s)
{
        const struct stream *host = &c->stream[PARTY_HOST];

        if ((s->flags & (SYN | ACK)) != SYN)
                return false;
        return c->closed || !host->synced || host->first != s->seq + 1;
}

static struct conn *conn_of(struct reader *r, const struct segment *s)
{
        struct conn *c = find(r, s);

        if (!c)
                return s->flags & SYN || s->whole > 0 ? conn_new(r, s) : NULL;
        if (is_anew(c, s)) {
                close_conn(r, c);
                start(r, c, s);
        }
        return c->closed ? NULL : c;
}

static bool is_done(const struct stream *s)
{
        return s->fin && !s->held && !is_early(s, s->fin_seq);
}

static void take_segment(struct reader *r, const struct segment *seg)
{
        struct conn *c = conn_of(r, seg);
        struct segment s = *seg;
        enum party sender;
        struct stream *stream;

        if (!c)
                return;
        sender = same_end(&c->pub.end[PARTY_HOST], &s.from) ? PARTY_HOST : PARTY_CONTROLLER;
        stream = &c->stream[sender];
        if (s.flags & SYN)
                s.seq++;
        if (!stream->synced) {
                stream->synced = true;
                stream->first = stream->next = s.seq;
        }
        if (s.whole > 0)
                take_data(r, c, sender, &s);
        if (s.flags & FIN) {
                stream->fin = true;
                stream->fin_seq = s.seq + (uint32_t)s.whole;
        }
        if (s.flags & RST || (is_done(&c->stream[0]) && is_done(&c->stream[1])))
                close_conn(r, c);
}

/* --- the file --------------------------------------------------------------------------------- */

static int read_packets(struct reader *r, pcap_t *pcap, const struct link_type *link)
{
        struct pcap_pkthdr *head;
        const uint8_t *bytes;
        struct segment s;
        int rc;

        while ((rc = pcap_next_ex(pcap, &head, &bytes)) == 1 && !r->no_memory) {
                size_t whole = head->len > head->caplen ? head->len : head->caplen;

                r->at.frame++;
                r->at.time_ns = head->ts.tv_sec * INT64_C(1000000000) + head->ts.tv_usec;
                if (parse((struct cursor) { bytes, head->caplen, whole }, link, &s))
                        take_segment(r, &s);
        }
        return rc == PCAP_ERROR ? -1 : 0;
}

static void close_all(struct reader *r)
{
        for (struct conn *c = r->all; c; c = c->later)
                close_conn(r, c);
}

static void free_all(struct reader *r)
{
        while (r->all) {
                struct conn *c = r->all;

                r->all = c->later;
                free(c);
        }
}

static int read_all(struct reader *r, pcap_t *pcap, const char *path, char *err, size_t err_size)
{
        const struct link_type *link = link_type(pcap_datalink(pcap));
        int rc = 0;

        if (!link) {
                snprintf(err, err_size, "%s: link type %d is not supported", path,
                         pcap_datalink(pcap));
                return -1;
        }
        if (read_packets(r, pcap, link) < 0) {
                snprintf(err, err_size, "%s: %s", path, pcap_geterr(pcap));
                rc = -1;
        }
        close_all(r);
        if (r->no_memory) {
                snprintf(err, err_size, "%s: out of memory", path);
                rc = -1;
        }
        return rc;
}

static int read_opened(pcap_t *pcap, const char *path, const struct capture_ops *ops, void *user,
                       char *err, size_t err_size)
{
        struct reader *r = calloc(1, sizeof(*r));
        int rc;

        if (!r) {
                snprintf(err, err_size, "%s: out of memory", path);
                return -1;
        }
        r->ops = ops;
        r->user = user;
        r->last = &r->all;
        rc = read_all(r, pcap, path, err, err_size);
        free_all(r);
        free(r);
        return rc;
}

int capture_read(const char *path, const struct capture_ops *ops, void *user, char *err,
                 size_t err_size)
{
        char why[PCAP_ERRBUF_SIZE];
        pcap_t *pcap =
            pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, why);
        int rc;

        if (!pcap) {
                bool named = strncmp(why, path, strlen(path)) == 0;

                snprintf(err, err_size, "%s%s%s", named ? "" : path, named ? "" : ": ", why);
                return -1;
        }
        rc = read_opened(pcap, path, ops, user, err, err_size);
        pcap_close(pcap);
        return rc;
}
