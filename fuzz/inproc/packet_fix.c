/* SPDX-License-Identifier: BSD-3-Clause */
/* What a packet says of itself, made true. */
#include <netinet/in.h>

#include "fuzz/stream.h"
#include "pcap_mutate.h"
#include "pdu/core/crc32c.h"

enum {
        IP4_HEAD = 20,
        IP6_HEAD = 40,
        TCP_HEAD = 20,
        UDP_HEAD = 8,
        BTH_LEN = 12,
        ROCE_PORT = 4791,
        FPDU_LEAST = 14, /* a DDP header */
        CRC_LEN = 4,
};

static unsigned be16_at(const uint8_t *p)
{
        return (unsigned)p[0] << 8 | p[1];
}

static void be16_put(uint8_t *p, size_t v)
{
        p[0] = (uint8_t)(v >> 8);
        p[1] = (uint8_t)v;
}

/* --- checksums ---------------------------------------------------------------------------------- */

static uint32_t add_up(uint32_t sum, const uint8_t *p, size_t n)
{
        for (size_t i = 0; i + 1 < n; i += 2)
                sum += be16_at(p + i);
        return n % 2 ? sum + ((uint32_t)p[n - 1] << 8) : sum;
}

static uint16_t folded(uint32_t sum)
{
        while (sum >> 16)
                sum = (sum & 0xffff) + (sum >> 16);
        return (uint16_t)~sum;
}

/* Of a transport: with the addresses before it. */
static void sum_transport(uint8_t *p, size_t n, size_t at, const uint8_t *addresses, size_t addr_n,
                          unsigned protocol)
{
        uint32_t sum;

        be16_put(p + at, 0);
        sum = add_up(add_up((uint32_t)n + protocol, addresses, addr_n), p, n);
        be16_put(p + at, folded(sum));
}

/* --- the invariant CRC of RoCEv2 (InfiniBand annex A17) ------------------------------------------ */

static uint32_t crc32_more(uint32_t crc, uint8_t byte)
{
        crc ^= byte;
        for (int i = 0; i < 8; i++)
                crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        return crc;
}

/* What routers change counts as ones, in both versions of IP. */
static bool is_variant(bool v6, size_t at, size_t udp)
{
        if (at >= udp)
                return at == udp + 6 || at == udp + 7 || at == udp + UDP_HEAD + 4;
        if (v6)
                return (at == 0) || at == 1 || at == 2 || at == 3 || at == 7;
        return at == 1 || at == 8 || at == 10 || at == 11;
}

static void sum_icrc(uint8_t *ip, size_t n, size_t udp)
{
        bool v6 = ip[0] >> 4 == 6;
        uint32_t crc = ~UINT32_C(0);
        le32_t put;

        if (n < udp + UDP_HEAD + BTH_LEN + CRC_LEN)
                return;
        for (int i = 0; i < 8; i++)
                crc = crc32_more(crc, 0xff);
        for (size_t i = 0; i < n - CRC_LEN; i++) {
                uint8_t byte = is_variant(v6, i, udp) ? 0xff : ip[i];

                if (v6 && i == 0) /* the version stays */
                        byte = ip[i] | 0x0f;
                crc = crc32_more(crc, byte);
        }
        put = le32(~crc);
        memcpy(ip + n - CRC_LEN, &put, sizeof(put));
}

/* --- what TCP carries --------------------------------------------------------------------------- */

static size_t pdu_at(const uint8_t *p, size_t n)
{
        const struct pdu_info *info = n >= sizeof(struct pdu_ch) ? pdu_info(p[0]) : NULL;
        struct pdu_ch ch;

        if (!info || !info->hlen || p[2] != info->hlen)
                return 0;
        memcpy(&ch, p, sizeof(ch));
        return le32_get(ch.plen) >= info->hlen && le32_get(ch.plen) <= n ? le32_get(ch.plen) : 0;
}

static void sum_pdus(uint8_t *p, size_t n)
{
        for (size_t len; (len = pdu_at(p, n)) > 0; p += len, n -= len) {
                const struct pdu_format f = { .hdgst = p[1] & PDU_HDGSTF,
                                              .ddgst = p[1] & PDU_DDGSTF };

                stream_sum(p, len, &f);
        }
}

/* With the versions of DDP and RDMAP after its length: a segment may begin in the middle of one. */
static size_t fpdu_at(const uint8_t *p, size_t n)
{
        size_t len = n >= FPDU_LEAST && (p[2] & 0x3f) == 1 && p[3] >> 4 == 4 ? be16_at(p) : 0;

        len = len < FPDU_LEAST ? 0 : (len + 2 + 3) / 4 * 4 + CRC_LEN;
        return len <= n ? len : 0;
}

static void sum_fpdus(uint8_t *p, size_t n)
{
        for (size_t len; (len = fpdu_at(p, n)) > 0; p += len, n -= len) {
                le32_t crc = le32(crc32c(p, len - CRC_LEN));

                if (le_get(p + len - CRC_LEN, CRC_LEN) != 0) /* zeroes: CRCs are not in use */
                        memcpy(p + len - CRC_LEN, &crc, sizeof(crc));
        }
}

/* --- a packet ----------------------------------------------------------------------------------- */

struct part {
        uint8_t *ip;
        size_t n, at; /* of the packet from IP on; where the transport begins */
        const uint8_t *addresses;
        size_t addresses_n;
};

static void fix_tcp(const struct part *x)
{
        uint8_t *p = x->ip + x->at;
        size_t n = x->n - x->at, head;

        if (n < TCP_HEAD)
                return;
        head = (size_t)(p[12] >> 4) * 4;
        if (head >= TCP_HEAD && head < n && pdu_at(p + head, n - head) > 0)
                sum_pdus(p + head, n - head);
        else if (head >= TCP_HEAD && head < n)
                sum_fpdus(p + head, n - head);
        sum_transport(p, n, 16, x->addresses, x->addresses_n, IPPROTO_TCP);
}

static void fix_udp(const struct part *x)
{
        uint8_t *p = x->ip + x->at;
        size_t n = x->n - x->at;

        if (n < UDP_HEAD)
                return;
        be16_put(p + 4, n);
        if (be16_at(p + 2) == ROCE_PORT) {
                be16_put(p + 6, 0); /* none: the invariant CRC is enough */
                sum_icrc(x->ip, x->n, x->at);
        } else {
                sum_transport(p, n, 6, x->addresses, x->addresses_n, IPPROTO_UDP);
        }
}

static unsigned fix_ip4(struct part *x)
{
        size_t head = (size_t)(x->ip[0] & 15) * 4;

        if (x->n < IP4_HEAD || head < IP4_HEAD || head > x->n)
                return 0;
        be16_put(x->ip + 2, x->n);
        be16_put(x->ip + 10, 0);
        be16_put(x->ip + 10, folded(add_up(0, x->ip, head)));
        x->at = head;
        x->addresses = x->ip + 12;
        x->addresses_n = 8;
        return x->ip[9];
}

static unsigned fix_ip6(struct part *x)
{
        if (x->n < IP6_HEAD)
                return 0;
        be16_put(x->ip + 4, x->n - IP6_HEAD);
        x->at = IP6_HEAD;
        x->addresses = x->ip + 8;
        x->addresses_n = 32;
        return x->ip[6];
}

/* Bytes before IP; SIZE_MAX: nobody knows. */
static size_t link_head(const uint8_t *p, size_t n, uint32_t linktype)
{
        static const struct {
                uint32_t type;
                size_t head;
        } links[] = { { 0, 4 },    { 1, 14 },  { 101, 0 }, { 108, 4 },
                      { 113, 16 }, { 228, 0 }, { 229, 0 }, { 276, 20 } };
        size_t head = SIZE_MAX;

        for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
                if (links[i].type == linktype)
                        head = links[i].head;
        while (linktype == 1 && head + 4 < n && be16_at(p + head - 2) == 0x8100)
                head += 4; /* VLAN */
        return head;
}

void packet_fix(uint8_t *p, size_t n, uint32_t linktype)
{
        size_t head = link_head(p, n, linktype);
        struct part x;
        unsigned protocol = 0;

        if (head >= n || n - head > UINT16_MAX)
                return;
        x = (struct part) { .ip = p + head, .n = n - head };
        if (x.ip[0] >> 4 == 4)
                protocol = fix_ip4(&x);
        else if (x.ip[0] >> 4 == 6)
                protocol = fix_ip6(&x);
        if (protocol == IPPROTO_TCP)
                fix_tcp(&x);
        else if (protocol == IPPROTO_UDP)
                fix_udp(&x);
}
