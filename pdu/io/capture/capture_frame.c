/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_frame.h"

#include <string.h>

/* --- checksums -------------------------------------------------------------------------------- */

/* The Internet checksum (RFC 1071) goes on from `sum`. */
static uint32_t sum16(uint32_t sum, const uint8_t *p, size_t n)
{
        for (; n > 1; p += 2, n -= 2)
                sum += (uint32_t)(p[0] << 8 | p[1]);
        if (n)
                sum += (uint32_t)p[0] << 8;
        return (sum & 0xffff) + (sum >> 16);
}

static uint16_t folded(uint32_t sum)
{
        while (sum >> 16)
                sum = (sum & 0xffff) + (sum >> 16);
        return (uint16_t)~sum;
}

static size_t addr_len(const struct capture_end *e)
{
        return e->family == AF_INET ? 4 : 16;
}

uint16_t frame_sum(const struct capture_end end[2], uint8_t protocol, const uint8_t *p, size_t n)
{
        uint32_t sum = (uint32_t)(protocol + n);

        for (int i = 0; i < 2; i++)
                sum = sum16(sum, end[i].addr, addr_len(&end[i]));
        return folded(sum16(sum, p, n));
}

/* --- headers ---------------------------------------------------------------------------------- */

static uint8_t *put_ether(uint8_t *p, const struct capture_end end[2], enum party sender)
{
        memset(p, 0, ETHER_HEAD);
        p[0] = p[6] = 0x02; /* locally administered: :01 the host, :02 the controller */
        p[5] = sender == PARTY_HOST ? 2 : 1;
        p[11] = sender == PARTY_HOST ? 1 : 2;
        put16(p + 12, end[0].family == AF_INET ? 0x0800 : 0x86dd);
        return p + ETHER_HEAD;
}

static uint8_t *put_ip4(uint8_t *p, const struct capture_end end[2], enum party sender,
                        uint8_t protocol, size_t n)
{
        memset(p, 0, IP4_HEAD);
        p[0] = 0x45;
        put16(p + 2, (unsigned)(IP4_HEAD + n));
        p[6] = 0x40; /* don't fragment */
        p[8] = 64;
        p[9] = protocol;
        memcpy(p + 12, end[sender].addr, 4);
        memcpy(p + 16, end[peer_of(sender)].addr, 4);
        put16(p + 10, folded(sum16(0, p, IP4_HEAD)));
        return p + IP4_HEAD;
}

static uint8_t *put_ip6(uint8_t *p, const struct capture_end end[2], enum party sender,
                        uint8_t protocol, size_t n)
{
        memset(p, 0, 8);
        p[0] = 0x60;
        put16(p + 4, (unsigned)n);
        p[6] = protocol;
        p[7] = 64;
        memcpy(p + 8, end[sender].addr, 16);
        memcpy(p + 24, end[peer_of(sender)].addr, 16);
        return p + IP6_HEAD;
}

uint8_t *frame_heads(uint8_t *p, const struct capture_end end[2], enum party sender,
                     uint8_t protocol, size_t n)
{
        p = put_ether(p, end, sender);
        return (end[0].family == AF_INET ? put_ip4 : put_ip6)(p, end, sender, protocol, n);
}

/* --- addresses -------------------------------------------------------------------------------- */

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

void frame_ends(struct capture_end end[2], const struct sockaddr *host,
                const struct sockaddr *controller)
{
        struct capture_end *h = &end[PARTY_HOST], *c = &end[PARTY_CONTROLLER];

        if (end_of(h, host) && end_of(c, controller) && h->family == c->family)
                return;
        *h = (struct capture_end) { AF_INET, { 10, 0, 0, 1 }, 50000 };
        *c = (struct capture_end) { AF_INET, { 10, 0, 0, 2 }, 4420 };
}
