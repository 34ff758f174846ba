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

/* --- from layer to layer ---------------------------------------------------------------------- */

enum {
        DEPTH_MAX = 5, /* IP headers within one another */
        /* bytes of a frame: segments that a network card shall cut or has joined, twice as long as Linux makes them.
         * Where the IP header leaves the length out, only the file says it. */
        WHOLE_MAX = 1 << 20,
};

/* Who names the layer that follows; the numbers are of each its own. */
enum namer {
        BY_ETHERTYPE = 1,
        BY_GRE = 2,
        BY_GENEVE = 4,
        BY_PPP = 8,
        BY_IP = 16,   /* protocol */
        BY_PORT = 32, /* of UDP, destination */
};

struct walk {
        struct cursor c; /* at the layer that follows */
        enum namer by;   /* names it */
        unsigned number;
        unsigned depth; /* IP headers so far */
        unsigned gre;   /* flags of the last GRE header */
        struct packet *out;
        enum packet_kind kind;  /* ... at the end */
        struct packet datagram; /* the last one; its data may be a tunnel's */
};

/* Takes a layer's header. True: another layer follows; false: the kind is known. */
typedef bool take_fn(struct walk *w);

static bool follow(struct walk *w, enum namer by, unsigned number)
{
        w->by = by;
        w->number = number;
        return true;
}

static bool finish(struct walk *w, enum packet_kind kind)
{
        w->kind = kind;
        return false;
}

/* The next n bytes are not all captured. */
static bool finish_short(struct walk *w, size_t n)
{
        return finish(w, w->c.whole >= n ? PACKET_CUT : PACKET_OTHER);
}

/* --- link ------------------------------------------------------------------------------------- */

enum { ETHER_HEAD = 14 };

struct packet_link {
        int dlt;
        int ethertype; /* offset, or -1: the IP version tells */
        unsigned head; /* bytes */
};

static const struct packet_link links[] = {
        { DLT_EN10MB, 12, ETHER_HEAD },
        { DLT_LINUX_SLL, 14, 16 },
        { DLT_LINUX_SLL2, 0, 20 },
        { DLT_RAW, -1, 0 },
        { DLT_IPV4, -1, 0 },
        { DLT_IPV6, -1, 0 },
        { DLT_NULL, -1, 4 },
        { DLT_LOOP, -1, 4 },
};

const struct packet_link *packet_link(int dlt)
{
        for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
                if (links[i].dlt == dlt)
                        return &links[i];
        return NULL;
}

static bool take_ether(struct walk *w)
{
        const uint8_t *p = cursor_take(&w->c, ETHER_HEAD);

        return p ? follow(w, BY_ETHERTYPE, get16(p + 12)) : finish_short(w, ETHER_HEAD);
}

static bool take_vlan(struct walk *w)
{
        const uint8_t *p = cursor_take(&w->c, 4);

        return p ? follow(w, BY_ETHERTYPE, get16(p + 2)) : finish_short(w, 4);
}

/* A session's packet (RFC 2516), and the PPP protocol in it. */
static bool take_pppoe(struct walk *w)
{
        const uint8_t *p = cursor_take(&w->c, 8);

        if (!p)
                return finish_short(w, 8);
        if (p[0] != 0x11 || p[1] != 0 || get16(p + 4) < 2)
                return finish(w, PACKET_OTHER);
        cursor_trim(&w->c, get16(p + 4) - 2);
        return follow(w, BY_PPP, get16(p + 6));
}

/* --- IP --------------------------------------------------------------------------------------- */

/* Mirrors may truncate what they send on: the IP header knows how much there was. */
static void set_whole(struct walk *w, size_t whole)
{
        if (w->c.whole < whole)
                w->c.whole = whole;
        cursor_trim(&w->c, whole);
}

static bool take_ip4(struct walk *w)
{
        const uint8_t *p = w->c.p;
        size_t head, total;

        if (w->c.n < 20)
                return finish(w, PACKET_CUT);
        head = (p[0] & 15u) * 4;
        total = get16(p + 2);
        if (total) /* 0: segmentation was left to the network card */
                set_whole(w, total);
        w->out->from.family = w->out->to.family = AF_INET;
        memcpy(w->out->from.addr, p + 12, 4);
        memcpy(w->out->to.addr, p + 16, 4);
        if (get16(p + 6) & 0x3fff) /* more fragments, or an offset */
                return finish(w, PACKET_FRAGMENT);
        if (head < 20 || !cursor_take(&w->c, head))
                return finish(w, PACKET_CUT);
        return follow(w, BY_IP, p[9]);
}

/* Hop-by-hop, routing and destination options may stand before TCP. */
static bool take_ip6(struct walk *w)
{
        const uint8_t *p = cursor_take(&w->c, 40);
        unsigned next;

        if (!p)
                return finish(w, PACKET_CUT);
        if (get16(p + 4))
                set_whole(w, get16(p + 4));
        w->out->from.family = w->out->to.family = AF_INET6;
        memcpy(w->out->from.addr, p + 8, 16);
        memcpy(w->out->to.addr, p + 24, 16);
        for (next = p[6]; next == 0 || next == 43 || next == 60;) {
                p = cursor_take(&w->c, 8);
                if (!p || !cursor_take(&w->c, p[1] * 8u))
                        return finish(w, PACKET_CUT);
                next = p[0];
        }
        return next == 44 ? finish(w, PACKET_FRAGMENT) : follow(w, BY_IP, next);
}

/* Whatever names it, its version tells which it is. */
static bool take_ip(struct walk *w)
{
        if (w->c.n == 0)
                return finish_short(w, 1);
        if (++w->depth > DEPTH_MAX)
                return finish(w, PACKET_OTHER);
        *w->out = (struct packet) { 0 };
        switch (w->c.p[0] >> 4) {
        case 4:
                return take_ip4(w);
        case 6:
                return take_ip6(w);
        default:
                return finish(w, PACKET_OTHER);
        }
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

static bool take_tcp(struct walk *w)
{
        const uint8_t *p = w->c.p;
        size_t head;

        if (w->c.n < 20)
                return finish(w, PACKET_CUT);
        head = (p[12] >> 4) * 4u;
        if (head < 20 || !cursor_take(&w->c, head))
                return finish(w, PACKET_CUT);
        w->out->seq = get32(p + 4);
        w->out->ack = get32(p + 8);
        w->out->flags = p[13];
        put_rest(&w->c, p, w->out);
        return finish(w, PACKET_TCP);
}

static bool take_udp(struct walk *w)
{
        const uint8_t *p = cursor_take(&w->c, 8);

        if (!p)
                return finish(w, PACKET_CUT);
        if (get16(p + 4) >= 8)
                cursor_trim(&w->c, get16(p + 4) - 8);
        put_rest(&w->c, p, w->out);
        w->datagram = *w->out;
        return follow(w, BY_PORT, w->out->to.port);
}

/* --- tunnels ---------------------------------------------------------------------------------- */

/* RFC 7348: the I flag and an identifier. Of what it reserves, the G flag has a group and its bits
 * in bytes 1 to 3. */
static bool take_vxlan(struct walk *w)
{
        const uint8_t *p = cursor_take(&w->c, 8);
        bool group;

        if (!p)
                return finish_short(w, 8);
        group = p[0] & 0x80;
        if ((p[0] & 0x7f) != 0x08 || p[7] != 0 || (group ? p[1] & ~0x48u : p[1] | p[2] | p[3]) != 0)
                return finish(w, PACKET_OTHER);
        return take_ether(w);
}

/* RFC 8926: version 0, options, a protocol. */
static bool take_geneve(struct walk *w)
{
        const uint8_t *p = cursor_take(&w->c, 8);
        size_t options;

        if (!p)
                return finish_short(w, 8);
        options = (p[0] & 0x3fu) * 4;
        if (p[0] >> 6 != 0 || p[1] & 0x3f || p[7] != 0)
                return finish(w, PACKET_OTHER);
        if (!cursor_take(&w->c, options))
                return finish_short(w, options);
        return follow(w, BY_GENEVE, get16(p + 2));
}

enum { GRE_CHECKSUM = 0x8000, GRE_KEY = 0x2000, GRE_SEQUENCE = 0x1000 }; /* 4 bytes each */

/* RFC 2784 and 2890: version 0, nothing reserved is set. */
static bool take_gre(struct walk *w)
{
        const uint8_t *p = cursor_take(&w->c, 4);
        size_t more;

        if (!p)
                return finish_short(w, 4);
        w->gre = get16(p);
        if (w->gre & ~(unsigned)(GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE))
                return finish(w, PACKET_OTHER);
        more = (w->gre & GRE_CHECKSUM ? 4u : 0) + (w->gre & GRE_KEY ? 4u : 0) +
               (w->gre & GRE_SEQUENCE ? 4u : 0);
        if (!cursor_take(&w->c, more))
                return finish_short(w, more);
        return follow(w, BY_GRE, get16(p + 2));
}

/* Type I has no header, and no sequence number in GRE's. */
static bool take_erspan2(struct walk *w)
{
        const uint8_t *p;

        if (!(w->gre & GRE_SEQUENCE))
                return take_ether(w);
        p = cursor_take(&w->c, 8);
        if (!p)
                return finish_short(w, 8);
        return p[0] >> 4 == 1 ? take_ether(w) : finish(w, PACKET_OTHER);
}

static bool take_erspan3(struct walk *w)
{
        enum { HEAD = 12, SUBHEAD = 8, ETHERNET = 0, IP = 2 };
        const uint8_t *p = cursor_take(&w->c, HEAD);
        unsigned type;

        if (!p)
                return finish_short(w, HEAD);
        type = p[10] >> 2 & 0x1fu;
        if (p[0] >> 4 != 2 || (type != ETHERNET && type != IP))
                return finish(w, PACKET_OTHER);
        if (p[11] & 1 && !cursor_take(&w->c, SUBHEAD))
                return finish_short(w, SUBHEAD);
        return type == IP ? take_ip(w) : take_ether(w);
}

/* Nothing names what is below the labels: IP by its version; else Ethernet, after a control word
 * (RFC 4448) or not. */
static bool take_mpls(struct walk *w)
{
        const uint8_t *p;

        do {
                p = cursor_take(&w->c, 4);
                if (!p)
                        return finish_short(w, 4);
        } while (!(p[2] & 1)); /* bottom of the stack */
        if (w->c.n < 2)
                return finish_short(w, 2);
        if (w->c.p[0] >> 4 == 4 || w->c.p[0] >> 4 == 6)
                return take_ip(w);
        if (get16(w->c.p) == 0 && !cursor_take(&w->c, 4))
                return finish_short(w, 4);
        return take_ether(w);
}

/* --- what carries what ------------------------------------------------------------------------ */

static const struct carried {
        unsigned by; /* enum namer: each that uses this number for it */
        unsigned number;
        take_fn *take;
} carried[] = {
        { BY_ETHERTYPE | BY_GRE | BY_GENEVE, 0x0800, take_ip },
        { BY_ETHERTYPE | BY_GRE | BY_GENEVE, 0x86dd, take_ip },
        { BY_ETHERTYPE, 0x8100, take_vlan },
        { BY_ETHERTYPE, 0x88a8, take_vlan },
        { BY_ETHERTYPE, 0x9100, take_vlan },
        { BY_ETHERTYPE, 0x8864, take_pppoe },
        { BY_ETHERTYPE | BY_GRE, 0x8847, take_mpls },
        { BY_ETHERTYPE | BY_GRE, 0x8848, take_mpls },
        { BY_GRE | BY_GENEVE, 0x6558, take_ether },
        { BY_GRE, 0x88be, take_erspan2 },
        { BY_GRE, 0x22eb, take_erspan3 },
        { BY_PPP, 0x0021, take_ip },
        { BY_PPP, 0x0057, take_ip },
        { BY_IP, IPPROTO_TCP, take_tcp },
        { BY_IP, IPPROTO_UDP, take_udp },
        { BY_IP, IPPROTO_IPIP, take_ip },
        { BY_IP, IPPROTO_IPV6, take_ip },
        { BY_IP, IPPROTO_GRE, take_gre },
        { BY_PORT, 4789, take_vxlan },
        { BY_PORT, 8472, take_vxlan }, /* Linux, before there was a number */
        { BY_PORT, 6081, take_geneve },
};

static bool take_next(struct walk *w)
{
        for (size_t i = 0; i < sizeof(carried) / sizeof(carried[0]); i++)
                if (carried[i].by & w->by && carried[i].number == w->number)
                        return carried[i].take(w);
        return finish(w, PACKET_OTHER);
}

static bool take_link(struct walk *w, const struct packet_link *link)
{
        const uint8_t *p = cursor_take(&w->c, link->head);

        if (!p)
                return finish(w, PACKET_OTHER);
        if (link->ethertype < 0)
                return take_ip(w);
        return follow(w, BY_ETHERTYPE, get16(p + link->ethertype));
}

enum packet_kind packet_parse(const struct packet_link *link, const uint8_t *p, size_t captured,
                              size_t whole, struct packet *out)
{
        struct walk w = { .out = out };

        if (whole > WHOLE_MAX)
                whole = WHOLE_MAX;
        w.c = (struct cursor) { p, captured, whole > captured ? whole : captured };
        *out = (struct packet) { 0 };
        if (!link)
                return PACKET_LINK;
        for (bool more = take_link(&w, link); more;)
                more = take_next(&w);
        if (w.kind != PACKET_OTHER || !w.datagram.data)
                return w.kind;
        *out = w.datagram; /* its port was no proof of a tunnel that can be read */
        return PACKET_UDP;
}
