/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_pcapng.h"

#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>

enum block_type {
        INTERFACE = 1,
        OLD_PACKET = 2,
        SIMPLE_PACKET = 3,
        ENHANCED_PACKET = 6,
        JOURNAL = 9,
        CUSTOM = 0xbad,
        CUSTOM_PRIVATE = 0x40000bad, /* that is not to be copied */
        SECTION = 0x0a0d0d0a,        /* the same in both byte orders */
};

enum {
        ORDER = 0x1a2b3c4d,
        BLOCK_HEADER = 8, /* type, length */
        BLOCK_FRAME = 12, /* ... and the length again, after the body */
        SECTION_BODY = 16,
        INTERFACE_BODY = 8,
        SIMPLE_HEADER = 4, /* before the bytes of the frame */
        PACKET_HEADER = 20,
        INTERFACES_MAX = 1 << 16, /* of a section */
        OPTION_END = 0,
        OPTION_TSRESOL = 9,
        OPTION_TSOFFSET = 14,
        LINKTYPE_RAW = 101, /* the one of those that are read whose DLT_ number is another */
        MICROSECONDS = 6,
};

struct interface {
        int link;
        uint32_t snapshot;  /* 0: no limit */
        uint8_t resolution; /* units a second: 10 to this power; highest bit: 2 to the rest */
        int64_t offset;     /* s */
};

struct pcapng {
        struct capture_window *in;
        bool swapped;                /* the section is of the other byte order */
        struct interface *interface; /* of the section */
        uint32_t interfaces, room;
};

struct block {
        uint32_t type, len;
        uint64_t offset;
        const uint8_t *body; /* NULL: too long to be held, which no block is that is read */
        size_t n;
};

static uint16_t u16_of(const struct pcapng *g, const uint8_t *p)
{
        uint16_t v;

        memcpy(&v, p, sizeof(v));
        return g->swapped ? __builtin_bswap16(v) : v;
}

static uint32_t u32_of(const struct pcapng *g, const uint8_t *p)
{
        uint32_t v;

        memcpy(&v, p, sizeof(v));
        return g->swapped ? __builtin_bswap32(v) : v;
}

static uint64_t u64_of(const struct pcapng *g, const uint8_t *p)
{
        uint64_t v;

        memcpy(&v, p, sizeof(v));
        return g->swapped ? __builtin_bswap64(v) : v;
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* In a section's own byte order is also its length, which comes before the order. */
static int read_header(struct pcapng *g, struct block *b)
{
        struct capture_window *w = g->in;
        ssize_t have = window_fill(w, BLOCK_FRAME);
        const uint8_t *p = w->bytes + w->start;
        uint32_t order;

        *b = (struct block) { .offset = window_offset(w) };
        if (have <= 0)
                return (int)have;
        if (have < BLOCK_FRAME)
                return window_fail(w, b->offset,
                                   "the file ends in the header of a block: %zd bytes, not %d",
                                   have, BLOCK_FRAME);
        b->type = u32_of(g, p);
        memcpy(&order, p + BLOCK_HEADER, sizeof(order));
        if (b->type == SECTION && order != ORDER && order != __builtin_bswap32(ORDER))
                return window_fail(w, b->offset, "a section of unknown byte order");
        if (b->type == SECTION)
                g->swapped = order != ORDER;
        b->len = u32_of(g, p + 4);
        if (b->len < BLOCK_FRAME || b->len % 4 != 0)
                return window_fail(w, b->offset, "the length of a block is not plausible: %u bytes",
                                   b->len);
        return 1;
}

static int check_trailer(struct pcapng *g, const struct block *b, const uint8_t *p)
{
        uint32_t len = u32_of(g, p);

        return len == b->len
                   ? 1
                   : window_fail(g->in, b->offset,
                                 "a block of %u bytes at its end, and of %u in its header", len,
                                 b->len);
}

static int fail_in_block(struct pcapng *g, const struct block *b)
{
        return window_fail(g->in, b->offset, "the file ends in a block of %u bytes", b->len);
}

static int skip_block(struct pcapng *g, const struct block *b)
{
        struct capture_window *w = g->in;
        int rc = window_skip(w, b->len - 4);
        ssize_t have = rc == 1 ? window_fill(w, 4) : rc;

        if (have < 0)
                return -1;
        if (have < 4)
                return fail_in_block(g, b);
        w->start += 4;
        return check_trailer(g, b, w->bytes + w->start - 4);
}

/* 1; 0: there are no more; -1 */
static int next_block(struct pcapng *g, struct block *b)
{
        struct capture_window *w = g->in;
        int rc = read_header(g, b);
        ssize_t have;

        if (rc != 1)
                return rc;
        if (b->len > WINDOW_MAX)
                return skip_block(g, b);
        have = window_fill(w, b->len);
        if (have < 0)
                return -1;
        if ((size_t)have < b->len)
                return fail_in_block(g, b);
        b->body = w->bytes + w->start + BLOCK_HEADER;
        b->n = b->len - BLOCK_FRAME;
        rc = check_trailer(g, b, b->body + b->n);
        if (rc == 1)
                w->start += b->len;
        return rc;
}

/* Whether a block that is read has these bytes of its body; else the window says why not. */
static bool has_body(struct pcapng *g, const struct block *b, size_t least)
{
        if (b->body && b->n >= least)
                return true;
        window_fail(g->in, b->offset, "the length of a block of type %u is not plausible: %u bytes",
                    b->type, b->len);
        return false;
}

/* --- sections and interfaces ------------------------------------------------------------------- */

static int take_section(struct pcapng *g, const struct block *b)
{
        unsigned major;

        if (!has_body(g, b, SECTION_BODY))
                return -1;
        major = u16_of(g, b->body + 4);
        if (major != 1)
                return window_fail(g->in, b->offset, "a section of unknown version %u.%u", major,
                                   u16_of(g, b->body + 6));
        g->interfaces = 0;
        return 1;
}

static int take_option(struct pcapng *g, const struct block *b, struct interface *i, unsigned code,
                       const uint8_t *p, size_t n)
{
        bool resolution = code == OPTION_TSRESOL, offset = code == OPTION_TSOFFSET;

        if ((resolution && n != 1) || (offset && n != 8))
                return window_fail(g->in, b->offset,
                                   "option %u of an interface is of %zu bytes, not %d", code, n,
                                   resolution ? 1 : 8);
        if (resolution)
                i->resolution = *p;
        if (offset)
                i->offset = (int64_t)u64_of(g, p);
        return 1;
}

static int take_options(struct pcapng *g, const struct block *b, struct interface *i)
{
        const uint8_t *p = b->body + INTERFACE_BODY, *end = b->body + b->n;

        while (end - p >= 4) {
                unsigned code = u16_of(g, p);
                size_t n = u16_of(g, p + 2), padded = (n + 3) & ~(size_t)3;

                p += 4;
                if (code == OPTION_END)
                        break;
                if (padded > (size_t)(end - p))
                        return window_fail(g->in, b->offset,
                                           "an option of an interface ends beyond its block");
                if (take_option(g, b, i, code, p, n) < 0)
                        return -1;
                p += padded;
        }
        return 1;
}

static int add_interface(struct pcapng *g, const struct block *b, const struct interface *i)
{
        if (g->interfaces == INTERFACES_MAX)
                return window_fail(g->in, b->offset, "more than %d interfaces", INTERFACES_MAX);
        if (g->interfaces == g->room) {
                uint32_t room = g->room ? 2 * g->room : 8;
                struct interface *more = realloc(g->interface, room * sizeof(*more));

                if (!more)
                        return window_fail(g->in, b->offset, "out of memory");
                g->interface = more;
                g->room = room;
        }
        g->interface[g->interfaces++] = *i;
        return 1;
}

static int take_interface(struct pcapng *g, const struct block *b)
{
        struct interface i = { .resolution = MICROSECONDS };

        if (!has_body(g, b, INTERFACE_BODY))
                return -1;
        i.link = u16_of(g, b->body);
        if (i.link == LINKTYPE_RAW)
                i.link = DLT_RAW;
        i.snapshot = u32_of(g, b->body + 4);
        return take_options(g, b, &i) < 0 ? -1 : add_interface(g, b, &i);
}

/* --- frames ----------------------------------------------------------------------------------- */

static int64_t time_of(const struct interface *i, uint64_t units)
{
        static const uint32_t tens[] = { 1,      10,      100,      1000,      10000,
                                         100000, 1000000, 10000000, 100000000, 1000000000 };
        const unsigned second = 9;
        unsigned power = i->resolution & 0x7f;
        __int128 ns;

        if (i->resolution & 0x80) {
                ns = (__int128)units * tens[second] >> power;
        } else {
                for (; power > second && units > 0; power--)
                        units /= 10;
                ns = (__int128)units * tens[power < second ? second - power : 0];
        }
        ns += (__int128)i->offset * tens[second];
        return ns < 0 || ns > INT64_MAX / 2 ? 0 : (int64_t)ns;
}

static const struct interface *interface_of(struct pcapng *g, const struct block *b, uint32_t id)
{
        if (id < g->interfaces)
                return &g->interface[id];
        window_fail(g->in, b->offset, "a frame of interface %u, of which the section has %u", id,
                    g->interfaces);
        return NULL;
}

/* The bytes of a frame are `head` bytes into the body of its block. */
static int take_frame(struct pcapng *g, const struct block *b, size_t head,
                      struct capture_frame *out)
{
        size_t room = b->n - head;

        out->p = b->body + head;
        if (out->captured <= CAPTURED_MAX && out->captured <= room)
                return 1;
        return window_fail(g->in, b->offset,
                           "the length of a frame is not plausible: %zu bytes, not %zu",
                           out->captured, room < CAPTURED_MAX ? room : (size_t)CAPTURED_MAX);
}

static int take_stamped(struct pcapng *g, const struct block *b, struct capture_frame *out)
{
        const uint8_t *p = b->body;
        const struct interface *i;

        if (!has_body(g, b, PACKET_HEADER))
                return -1;
        i = interface_of(g, b, b->type == OLD_PACKET ? u16_of(g, p) : u32_of(g, p));
        if (!i)
                return -1;
        *out = (struct capture_frame) {
                .link = i->link,
                .captured = u32_of(g, p + 12),
                .whole = u32_of(g, p + 16),
                .time_ns = time_of(i, (uint64_t)u32_of(g, p + 4) << 32 | u32_of(g, p + 8)),
        };
        return take_frame(g, b, PACKET_HEADER, out);
}

/* Of the first interface, and without a time. */
static int take_simple(struct pcapng *g, const struct block *b, struct capture_frame *out)
{
        const struct interface *i;
        uint32_t whole;

        if (!has_body(g, b, SIMPLE_HEADER))
                return -1;
        i = interface_of(g, b, 0);
        if (!i)
                return -1;
        whole = u32_of(g, b->body);
        *out = (struct capture_frame) {
                .link = i->link,
                .captured = i->snapshot && i->snapshot < whole ? i->snapshot : whole,
                .whole = whole,
        };
        return take_frame(g, b, SIMPLE_HEADER, out);
}

static bool is_packet(uint32_t type)
{
        return type == ENHANCED_PACKET || type == OLD_PACKET || type == SIMPLE_PACKET;
}

bool pcapng_begins(const struct capture_window *w)
{
        const uint32_t type = SECTION;

        return w->end - w->start >= sizeof(type) &&
               memcmp(w->bytes + w->start, &type, sizeof(type)) == 0;
}

struct pcapng *pcapng_new(struct capture_window *w)
{
        struct pcapng *g = calloc(1, sizeof(*g));

        if (g)
                g->in = w;
        return g;
}

/* Whether a block that is no packet counts as a frame in Wireshark. */
static bool is_counted(uint32_t type)
{
        return type == JOURNAL || type == CUSTOM || type == CUSTOM_PRIVATE;
}

int pcapng_next(struct pcapng *g, struct capture_frame *out)
{
        unsigned others = 0;
        struct block b;
        int rc;

        while ((rc = next_block(g, &b)) == 1) {
                if (is_packet(b.type)) {
                        rc = (b.type == SIMPLE_PACKET ? take_simple : take_stamped)(g, &b, out);
                        out->others = others;
                        return rc;
                }
                others += is_counted(b.type);
                if (b.type == SECTION)
                        rc = take_section(g, &b);
                else if (b.type == INTERFACE)
                        rc = take_interface(g, &b);
                if (rc < 0)
                        break;
        }
        return rc;
}

void pcapng_free(struct pcapng *g)
{
        free(g->interface);
        free(g);
}
