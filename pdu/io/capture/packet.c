/* SPDX-License-Identifier: BSD-3-Clause */
#include "packet.h"

#include <pcap/pcap.h>
#include <string.h>

#include "packet_cursor.h"

static unsigned get16(const uint8_t *p)
{
        return (unsigned)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
        return (uint32_t)get16(p) << 16 | get16(p + 2);
}

/* --- link ------------------------------------------------------------------------------------- */

struct packet_link {
        int dlt;
        int ethertype; /* offset, or -1: the IP version tells */
        unsigned head; /* bytes */
};

static const struct packet_link links[] = {
        { DLT_EN10MB, 12, 14 }, { DLT_LINUX_SLL, 14, 16 }, { DLT_LINUX_SLL2, 0, 20 },
        { DLT_RAW, -1, 0 },     { DLT_IPV4, -1, 0 },       { DLT_IPV6, -1, 0 },
        { DLT_NULL, -1, 4 },    { DLT_LOOP, -1, 4 },
};

const struct packet_link *packet_link(int dlt)
{
        for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
                if (links[i].dlt == dlt)
                        return &links[i];
        return NULL;
}

static bool is_vlan(unsigned ethertype)
{
        return ethertype == 0x8100 || ethertype == 0x88a8 || ethertype == 0x9100;
}

static bool take_link(struct cursor *c, const struct packet_link *link)
{
        const uint8_t *p = cursor_take(c, link->head);
        unsigned ethertype;

        if (!p || link->ethertype < 0)
                return p != NULL;
        ethertype = get16(p + link->ethertype);
        while (is_vlan(ethertype) && (p = cursor_take(c, 4)))
                ethertype = get16(p + 2);
        return ethertype == 0x0800 || ethertype == 0x86dd;
}

/* --- IP --------------------------------------------------------------------------------------- */

static enum packet_kind kind_of(unsigned protocol)
{
        if (protocol == IPPROTO_TCP)
                return PACKET_TCP;
        return protocol == IPPROTO_UDP ? PACKET_UDP : PACKET_OTHER;
}

static enum packet_kind take_ip4(struct cursor *c, struct packet *out)
{
        const uint8_t *p = c->p;
        size_t head, total;

        if (c->n < 20)
                return PACKET_CUT;
        head = (p[0] & 15u) * 4;
        total = get16(p + 2);
        if (total) /* 0: segmentation was left to the network card */
                cursor_trim(c, total);
        out->from.family = out->to.family = AF_INET;
        memcpy(out->from.addr, p + 12, 4);
        memcpy(out->to.addr, p + 16, 4);
        if (get16(p + 6) & 0x3fff) /* more fragments, or an offset */
                return PACKET_FRAGMENT;
        return head < 20 || !cursor_take(c, head) ? PACKET_CUT : kind_of(p[9]);
}

/* Hop-by-hop, routing and destination options may stand before TCP. */
static enum packet_kind take_ip6(struct cursor *c, struct packet *out)
{
        const uint8_t *p = cursor_take(c, 40);
        unsigned next;

        if (!p)
                return PACKET_CUT;
        if (get16(p + 4))
                cursor_trim(c, get16(p + 4));
        out->from.family = out->to.family = AF_INET6;
        memcpy(out->from.addr, p + 8, 16);
        memcpy(out->to.addr, p + 24, 16);
        for (next = p[6]; next == 0 || next == 43 || next == 60;) {
                p = cursor_take(c, 8);
                if (!p || !cursor_take(c, p[1] * 8u))
                        return PACKET_CUT;
                next = p[0];
        }
        return next == 44 ? PACKET_FRAGMENT : kind_of(next);
}

/* --- TCP and UDP ------------------------------------------------------------------------------ */

static void put_rest(const struct cursor *c, const uint8_t *ports, struct packet *out)
{
        out->from.port = (uint16_t)get16(ports);
        out->to.port = (uint16_t)get16(ports + 2);
        out->data = c->p;
        out->n = c->n;
        out->whole = c->whole;
}

static enum packet_kind take_tcp(struct cursor *c, struct packet *out)
{
        const uint8_t *p = c->p;
        size_t head;

        if (c->n < 20)
                return PACKET_CUT;
        head = (p[12] >> 4) * 4u;
        if (head < 20 || !cursor_take(c, head))
                return PACKET_CUT;
        out->seq = get32(p + 4);
        out->ack = get32(p + 8);
        out->flags = p[13];
        put_rest(c, p, out);
        return PACKET_TCP;
}

static enum packet_kind take_udp(struct cursor *c, struct packet *out)
{
        const uint8_t *p = cursor_take(c, 8);

        if (!p)
                return PACKET_CUT;
        if (get16(p + 4) >= 8)
                cursor_trim(c, get16(p + 4) - 8);
        put_rest(c, p, out);
        return PACKET_UDP;
}

enum packet_kind packet_parse(const struct packet_link *link, const uint8_t *p, size_t captured,
                              size_t whole, struct packet *out)
{
        struct cursor c = { p, captured, whole > captured ? whole : captured };
        enum packet_kind kind = PACKET_OTHER;

        *out = (struct packet) { 0 };
        if (!link)
                return PACKET_LINK;
        if (!take_link(&c, link) || c.n == 0)
                return PACKET_OTHER;
        if (c.p[0] >> 4 == 4)
                kind = take_ip4(&c, out);
        else if (c.p[0] >> 4 == 6)
                kind = take_ip6(&c, out);
        if (kind == PACKET_TCP)
                return take_tcp(&c, out);
        return kind == PACKET_UDP ? take_udp(&c, out) : kind;
}
