/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_rdma.h"

#include <string.h>
#include <zlib.h>

#include "capture_frame.h"
#include "capture_iwarp.h"

enum {
        ROCE_PORT = 4791,
        UDP_HEAD = 8,
        BTH_LEN = 12,
        DETH_LEN = 8,
        RETH_LEN = 16,
        AETH_LEN = 4,
        ICRC_LEN = 4,
        PSN_MASK = 0xffffff,
        MTU = 4096,
        MIGRATED = 0x40,
        ASK_ACK = 0x80,
        HOST_PORT = 49152, /* the first of those made up */
        HOST_PORTS = 16384,
        CM_QPN = 1,
        CM_QKEY = (int)0x80010000,
        FIRST_QPN = 0x11,
        CREDITS_NONE = 0x1f, /* AETH of an ACK: end-to-end credits are not used */
};

/* Opcodes of reliable connections (IBTA 9.2.2); a message of one packet has the _ONLY one. */
enum opcode {
        SEND_FIRST = 0,
        SEND_MIDDLE = 1,
        SEND_LAST = 2,
        SEND_ONLY = 4,
        WRITE_FIRST = 6,
        WRITE_MIDDLE = 7,
        WRITE_LAST = 8,
        WRITE_ONLY = 10,
        READ_REQUEST = 12,
        ANSWER_FIRST = 13,
        ANSWER_MIDDLE = 14,
        ANSWER_LAST = 15,
        ANSWER_ONLY = 16,
        ACKNOWLEDGE = 17,
        SEND_LAST_INVALIDATE = 22,
        SEND_ONLY_INVALIDATE = 23,
        UD_SEND_ONLY = 0x64,
};

/* --- pieces ----------------------------------------------------------------------------------- */

size_t pieces_len(const struct pieces *p)
{
        size_t n = 0;

        for (int i = 0; i < p->n; i++)
                n += p->iov[i].iov_len;
        return n - p->at;
}

void pieces_take(struct pieces *p, uint8_t *to, size_t n)
{
        while (n > 0) {
                size_t left = p->iov->iov_len - p->at, run = left < n ? left : n;

                if (run > 0)
                        memcpy(to, (const uint8_t *)p->iov->iov_base + p->at, run);
                to += run;
                n -= run;
                p->at += run;
                if (run < left)
                        return;
                p->iov++;
                p->n--;
                p->at = 0;
        }
}

/* --- the invariant CRC ------------------------------------------------------------------------ */

/* A17.3: ones stand for the LRH that is not there and for all that may change on the way. */
static void put_icrc(const uint8_t *ip, bool v4, uint8_t *udp, size_t n)
{
        uint8_t heads[8 + IP6_HEAD + UDP_HEAD + BTH_LEN], *p = heads + 8;
        size_t ip_len = v4 ? IP4_HEAD : IP6_HEAD;
        uLong crc;

        memset(heads, 0xff, 8);
        memcpy(p, ip, ip_len + UDP_HEAD + BTH_LEN);
        if (v4) {
                p[1] = p[8] = p[10] = p[11] = 0xff; /* TOS, TTL, checksum */
        } else {
                p[0] |= 0x0f; /* traffic class, flow label, hop limit */
                p[1] = p[2] = p[3] = p[7] = 0xff;
        }
        p += ip_len;
        p[6] = p[7] = 0xff;     /* checksum */
        p[UDP_HEAD + 4] = 0xff; /* FECN, BECN */
        crc = crc32_z(0, heads, 8 + ip_len + UDP_HEAD + BTH_LEN);
        crc = crc32_z(crc, udp + UDP_HEAD + BTH_LEN, n - UDP_HEAD - BTH_LEN - ICRC_LEN);
        for (int i = 0; i < ICRC_LEN; i++)
                udp[n - ICRC_LEN + (size_t)i] = (uint8_t)(crc >> 8 * i);
}

/* --- one packet ------------------------------------------------------------------------------- */

struct roce { /* what a packet is made of: BTH, extension headers, data */
        uint8_t opcode;
        bool ask_ack;
        uint32_t qpn, psn;
        uint8_t extension[RETH_LEN];
        size_t extension_len;
};

static void put_bth(uint8_t *p, const struct roce *r, size_t pad)
{
        p[0] = r->opcode;
        p[1] = (uint8_t)(MIGRATED | pad << 4);
        put16(p + 2, 0xffff); /* the default partition */
        p[4] = 0;
        put24(p + 5, r->qpn);
        p[8] = r->ask_ack ? ASK_ACK : 0;
        put24(p + 9, r->psn);
        memcpy(p + BTH_LEN, r->extension, r->extension_len);
}

static void put_packet(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                       const struct roce *r, struct pieces *data, size_t n, int64_t time_ns)
{
        const struct capture_end *end = f->tcp.end;
        bool v4 = end[0].family == AF_INET;
        size_t head = UDP_HEAD + BTH_LEN + r->extension_len, pad = (4 - n % 4) % 4;
        size_t len = head + n + pad + ICRC_LEN;
        uint8_t *frame = frame_begin(w), *udp = frame_heads(frame, end, sender, IPPROTO_UDP, len);
        unsigned sum;

        put16(udp, 0xc000 | (f->qpn[sender] & 0x3fff));
        put16(udp + 2, ROCE_PORT);
        put16(udp + 4, (unsigned)len);
        put16(udp + 6, 0);
        put_bth(udp + UDP_HEAD, r, pad);
        pieces_take(data, udp + head, n);
        memset(udp + head + n, 0, pad);
        put_icrc(frame + ETHER_HEAD, v4, udp, len);
        sum = frame_sum(end, IPPROTO_UDP, udp, len);
        put16(udp + 6, sum ? sum : 0xffff);
        frame_end(w, udp + len, time_ns, f->comment);
        f->comment = NULL;
}

static struct roce packet_to(const struct capture_rdma *f, enum party sender, enum opcode o,
                             uint32_t psn)
{
        return (struct roce) { .opcode = (uint8_t)o, .qpn = f->qpn[peer_of(sender)], .psn = psn };
}

static void put_reth(struct roce *r, uint64_t addr, uint32_t key, uint32_t len)
{
        put64(r->extension, addr);
        put32(r->extension + 8, key);
        put32(r->extension + 12, len);
        r->extension_len = RETH_LEN;
}

static void put_aeth(struct roce *r, unsigned syndrome, uint32_t msn)
{
        r->extension[0] = (uint8_t)syndrome;
        put24(r->extension + 1, msn & PSN_MASK);
        r->extension_len = AETH_LEN;
}

/* --- messages --------------------------------------------------------------------------------- */

enum place { ALONE, AT_FIRST, BETWEEN, AT_LAST };

static enum place place_of(size_t at, size_t run, size_t len)
{
        if (run == len)
                return ALONE;
        return at == 0 ? AT_FIRST : at + run == len ? AT_LAST : BETWEEN;
}

/* What the packets of a kind of message are called, and which of them have the extension header. */
struct message {
        uint8_t opcode[4]; /* by enum place */
        bool extended[4];
};

static const struct message sends = { { SEND_ONLY, SEND_FIRST, SEND_MIDDLE, SEND_LAST }, { 0 } },
                            sends_invalidate = { { SEND_ONLY_INVALIDATE, SEND_FIRST, SEND_MIDDLE,
                                                   SEND_LAST_INVALIDATE },
                                                 { [ALONE] = true, [AT_LAST] = true } },
                            writes = { { WRITE_ONLY, WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST },
                                       { [ALONE] = true, [AT_FIRST] = true } },
                            answers = { { ANSWER_ONLY, ANSWER_FIRST, ANSWER_MIDDLE, ANSWER_LAST },
                                        { [ALONE] = true, [AT_FIRST] = true, [AT_LAST] = true } };

/* In packets from that PSN on; returns the last one's. r has the extension header. */
static uint32_t put_message(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                            const struct message *m, struct roce r, struct pieces data,
                            int64_t time_ns)
{
        size_t len = pieces_len(&data), at = 0, extension = r.extension_len, run;

        for (;;) {
                enum place place;

                run = len - at < f->mtu ? len - at : f->mtu;
                place = place_of(at, run, len);
                r.opcode = m->opcode[place];
                r.extension_len = m->extended[place] ? extension : 0;
                r.ask_ack = at + run == len && m != &answers;
                put_packet(w, f, sender, &r, &data, run, time_ns);
                at += run;
                if (at == len)
                        return r.psn;
                r.psn = (r.psn + 1) & PSN_MASK;
        }
}

static uint32_t request(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                        const struct message *m, struct roce r, struct pieces data, int64_t time_ns)
{
        uint32_t last = put_message(w, f, sender, m, r, data, time_ns);

        f->next[sender] = (last + 1) & PSN_MASK;
        f->msn[sender]++;
        return last;
}

uint32_t capture_rdma_send(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                           const struct iovec *data, int n, const uint32_t *key, int64_t time_ns)
{
        struct pieces pieces = { data, n, 0 };
        struct roce r = packet_to(f, sender, SEND_ONLY, f->next[sender]);

        if (f->iwarp) {
                iwarp_untagged(w, f, sender, key ? IWARP_SEND_INVALIDATE : IWARP_SEND,
                               key ? *key : 0, pieces, time_ns);
                return 0;
        }
        if (key) {
                put32(r.extension, *key);
                r.extension_len = 4;
        }
        return request(w, f, sender, key ? &sends_invalidate : &sends, r, pieces, time_ns);
}

uint32_t capture_rdma_write(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                            uint64_t addr, uint32_t key, const struct iovec *data, int n,
                            int64_t time_ns)
{
        struct pieces pieces = { data, n, 0 };
        struct roce r = packet_to(f, sender, WRITE_ONLY, f->next[sender]);

        if (f->iwarp) {
                iwarp_tagged(w, f, sender, IWARP_WRITE, addr, key, pieces, time_ns);
                return 0;
        }
        put_reth(&r, addr, key, (uint32_t)pieces_len(&pieces));
        return request(w, f, sender, &writes, r, pieces, time_ns);
}

/* It takes as many PSNs as its answer has packets (9.7.3.1). */
uint32_t capture_rdma_read(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                           uint64_t addr, uint32_t key, uint32_t len, int64_t time_ns)
{
        struct pieces none = { NULL, 0, 0 };
        struct roce r = packet_to(f, sender, READ_REQUEST, f->next[sender]);
        uint32_t packets = len <= f->mtu ? 1 : (len - 1) / f->mtu + 1;

        if (f->iwarp)
                return iwarp_read(w, f, sender, addr, key, len, time_ns);
        put_reth(&r, addr, key, len);
        put_packet(w, f, sender, &r, &none, 0, time_ns);
        f->next[sender] = (r.psn + packets) & PSN_MASK;
        f->msn[sender]++;
        return r.psn;
}

void capture_rdma_answer(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                         uint32_t read, const struct iovec *data, int n, int64_t time_ns)
{
        struct pieces pieces = { data, n, 0 };
        struct roce r = packet_to(f, sender, ANSWER_ONLY, read);

        if (f->iwarp) {
                iwarp_answer(w, f, sender, read, pieces, time_ns);
                return;
        }
        put_aeth(&r, CREDITS_NONE, f->msn[peer_of(sender)]);
        (void)put_message(w, f, sender, &answers, r, pieces, time_ns);
}

void capture_rdma_ack(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                      uint32_t number, enum capture_ack ack, int64_t time_ns)
{
        struct pieces none = { NULL, 0, 0 };
        struct roce r = packet_to(f, sender, ACKNOWLEDGE, number);

        if (f->iwarp)
                return;
        put_aeth(&r, ack == CAPTURE_ACK ? CREDITS_NONE : ack, f->msn[peer_of(sender)]);
        put_packet(w, f, sender, &r, &none, 0, time_ns);
}

void capture_rdma_terminate(struct capture_writer *w, struct capture_rdma *f, const void *p,
                            size_t n, enum party sender, int64_t time_ns)
{
        struct iovec iov = { (void *)p, n };

        if (f->iwarp)
                iwarp_untagged(w, f, sender, IWARP_TERMINATE, 0, (struct pieces) { &iov, 1, 0 },
                               time_ns);
}

void capture_rdma_gap(struct capture_rdma *f, enum party sender, uint64_t n)
{
        if (f->iwarp)
                f->tcp.seq[sender] += n ? (uint32_t)n : 4;
        else
                f->next[sender] = (f->next[sender] + (n ? (uint32_t)n : 1)) & PSN_MASK;
}

/* --- connection management -------------------------------------------------------------------- */

enum {
        MAD_LEN = 256,
        MAD_HEAD = 24,
        MAD_VERSION = 1,
        MAD_CLASS_CM = 0x07,
        MAD_CLASS_VERSION = 2,
        MAD_SEND = 3,
        IP_CM_HEAD = 36,      /* before the consumer's data of a REQ (A11) */
        SERVICE_TCP = 0x0106, /* the port space of a service id, above the port */
        REQ_HEAD = 140,
};

/* IBTA 12.6: the attribute of a message, and where its private data are. */
static const struct {
        uint16_t attribute;
        uint8_t at, len;
} mads[] = {
        [CAPTURE_REQUEST] = { 0x10, REQ_HEAD + IP_CM_HEAD, 92 - IP_CM_HEAD },
        [CAPTURE_ACCEPT] = { 0x13, 36, 196 },
        [CAPTURE_REJECT] = { 0x12, 84, 148 },
        [CAPTURE_READY] = { 0x14, 8, 224 },
        [CAPTURE_DISCONNECT] = { 0x15, 12, 220 },
        [CAPTURE_DISCONNECTED] = { 0x16, 8, 224 },
};

/* IPv4 addresses are mapped into IPv6 ones for GIDs, and stand at the end of the IP CM header's. */
static void put_gid(uint8_t *p, const struct capture_end *e, bool mapped)
{
        if (e->family != AF_INET) {
                memcpy(p, e->addr, 16);
                return;
        }
        if (mapped)
                p[10] = p[11] = 0xff;
        memcpy(p + 12, e->addr, 4);
}

/* 256, 512 .. 4096 bytes. */
static unsigned mtu_code(uint32_t mtu)
{
        unsigned code = 1;

        while (code < 5 && 128u << (code + 1) <= mtu)
                code++;
        return code;
}

static void put_req(uint8_t *p, const struct capture_rdma *f, const struct capture_cm *m)
{
        const struct capture_end *host = &f->tcp.end[PARTY_HOST],
                                 *controller = &f->tcp.end[PARTY_CONTROLLER];
        uint8_t *ip = p + REQ_HEAD;

        put64(p + 8, (uint64_t)SERVICE_TCP << 16 | controller->port);
        put24(p + 32, f->qpn[PARTY_HOST]);
        p[35] = (uint8_t)m->reads_in;
        p[39] = (uint8_t)m->reads_out;
        p[43] = 20 << 3; /* the peer answers within 4 s; reliable connection */
        put24(p + 44, f->next[PARTY_CONTROLLER]);
        p[47] = 20 << 3 | 7; /* ... as does this side; 7 retries */
        put16(p + 48, 0xffff);
        p[50] = (uint8_t)(mtu_code(f->mtu) << 4 | 7); /* RNR retries: forever */
        p[51] = 15 << 4;
        put16(p + 52, 0xffff); /* LIDs: permissive */
        put16(p + 54, 0xffff);
        put_gid(p + 56, host, true);
        put_gid(p + 72, controller, true);
        p[93] = 64;      /* hop limit */
        p[95] = 18 << 3; /* ACKs come within 1 s */
        ip[1] = host->family == AF_INET ? 4 << 4 : 6 << 4;
        put16(ip + 2, host->port);
        put_gid(ip + 4, host, false);
        put_gid(ip + 20, controller, false);
}

static void put_rep(uint8_t *p, const struct capture_rdma *f, const struct capture_cm *m)
{
        put24(p + 12, f->qpn[PARTY_CONTROLLER]);
        put24(p + 20, f->next[PARTY_HOST]);
        p[24] = (uint8_t)m->reads_in;
        p[25] = (uint8_t)m->reads_out;
        p[27] = 7 << 5; /* RNR retries: forever */
}

static void put_rej(uint8_t *p, const struct capture_cm *m)
{
        put16(p + 10, m->reason); /* byte 8: it is a REQ that is rejected */
}

static void put_mad(uint8_t *mad, const struct capture_rdma *f, enum party sender,
                    const struct capture_cm *m)
{
        uint8_t *p = mad + MAD_HEAD;
        uint32_t len = m->len < mads[m->kind].len ? m->len : mads[m->kind].len;

        mad[0] = MAD_VERSION;
        mad[1] = MAD_CLASS_CM;
        mad[2] = MAD_CLASS_VERSION;
        mad[3] = MAD_SEND;
        put64(mad + 8, f->id[PARTY_HOST]); /* transaction */
        put16(mad + 16, mads[m->kind].attribute);
        put32(p, f->id[sender]);
        if (m->kind != CAPTURE_REQUEST)
                put32(p + 4, f->id[peer_of(sender)]);
        if (m->kind == CAPTURE_REQUEST)
                put_req(p, f, m);
        else if (m->kind == CAPTURE_ACCEPT)
                put_rep(p, f, m);
        else if (m->kind == CAPTURE_REJECT)
                put_rej(p, m);
        else if (m->kind == CAPTURE_DISCONNECT)
                put24(p + 8, f->qpn[peer_of(sender)]);
        if (len > 0)
                memcpy(p + mads[m->kind].at, m->data, len);
}

void capture_rdma_cm(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                     const struct capture_cm *m, int64_t time_ns)
{
        uint8_t mad[MAD_LEN] = { 0 };
        struct iovec iov = { mad, sizeof(mad) };
        struct pieces pieces = { &iov, 1, 0 };
        struct roce r = { .opcode = UD_SEND_ONLY, .qpn = CM_QPN, .psn = f->id[sender] & PSN_MASK };

        if (f->iwarp) {
                iwarp_cm(w, f, sender, m, time_ns);
                return;
        }
        put_mad(mad, f, sender, m);
        put32(r.extension, (uint32_t)CM_QKEY);
        put32(r.extension + 4, CM_QPN);
        r.extension_len = DETH_LEN;
        put_packet(w, f, sender, &r, &pieces, MAD_LEN, time_ns);
}

/* --- beginning and end ------------------------------------------------------------------------ */

void capture_rdma_open(struct capture_writer *w, struct capture_rdma *f,
                       const struct sockaddr *host, const struct sockaddr *controller,
                       int64_t time_ns)
{
        uint32_t number = frame_number(w);

        f->next[PARTY_HOST] = f->next[PARTY_CONTROLLER] = 0;
        f->msn[PARTY_HOST] = f->msn[PARTY_CONTROLLER] = 0;
        f->mtu = MTU;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                f->qpn[p] = (FIRST_QPN + 2 * number + p) & PSN_MASK;
                f->id[p] = 1 + 2 * number + p;
        }
        if (!f->iwarp) {
                frame_ends(f->tcp.end, host, controller);
                if (!host || f->tcp.end[PARTY_HOST].port == 0)
                        f->tcp.end[PARTY_HOST].port = (uint16_t)(HOST_PORT + number % HOST_PORTS);
                return;
        }
        f->tcp.comment = f->comment;
        f->comment = NULL;
        capture_flow_open(w, &f->tcp, host, controller, time_ns);
}

void capture_rdma_close(struct capture_writer *w, struct capture_rdma *f, int64_t time_ns)
{
        if (f->iwarp)
                capture_flow_close(w, &f->tcp, PARTY_HOST, false, time_ns);
}
