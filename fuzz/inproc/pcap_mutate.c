/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures as lists of packets: read, changed, written again. */
#include "pcap_mutate.h"

#include "fuzz/stream.h"
#include "pdu/core/le.h"

enum {
        PACKETS = 96,
        PACKET = 9000, /* bytes of one */
        MAGIC = 0xa1b2c3d4,
        FILE_HEAD = 24,
        RECORD_HEAD = 16,
        BLOCK_SECTION = 0x0a0d0d0a,
        BLOCK_INTERFACE = 1,
        BLOCK_PACKET = 6,
        PACKET_BLOCK_HEAD = 28, /* of a packet's block, before the packet */
        BYTE_ORDER = 0x1a2b3c4d,
        SNAPLEN = 262144,
};

struct frame {
        uint64_t time;
        uint32_t len, wire; /* bytes that are there, that there were */
        uint8_t bytes[PACKET];
};

struct shelf {
        struct frame packet[PACKETS];
        unsigned n;
        uint32_t linktype;
        bool blocks; /* pcapng */
};

static uint32_t u32_at(const uint8_t *p)
{
        return (uint32_t)le_get(p, 4);
}

/* --- reading ------------------------------------------------------------------------------------ */

static void add(struct shelf *s, uint64_t time, uint32_t len, uint32_t wire, const uint8_t *p)
{
        struct frame *f = &s->packet[s->n];

        if (s->n == PACKETS || len > PACKET)
                return;
        f->time = time;
        f->len = len;
        f->wire = wire;
        memcpy(f->bytes, p, len);
        s->n++;
}

static bool read_records(struct shelf *s, const uint8_t *p, size_t n)
{
        if (n < FILE_HEAD || u32_at(p) != MAGIC)
                return false;
        s->linktype = u32_at(p + 20);
        p += FILE_HEAD;
        n -= FILE_HEAD;
        while (n >= RECORD_HEAD && u32_at(p + 8) <= n - RECORD_HEAD) {
                uint32_t len = u32_at(p + 8);

                add(s, u32_at(p) * UINT64_C(1000000) + u32_at(p + 4), len, u32_at(p + 12),
                    p + RECORD_HEAD);
                p += RECORD_HEAD + len;
                n -= RECORD_HEAD + len;
        }
        return s->n > 0;
}

static void read_block(struct shelf *s, const uint8_t *p, uint32_t len)
{
        uint32_t type = u32_at(p);

        if (type == BLOCK_INTERFACE && len >= 20)
                s->linktype = (uint32_t)le_get(p + 8, 2);
        if (type == BLOCK_PACKET && len >= PACKET_BLOCK_HEAD + 4 &&
            u32_at(p + 20) <= len - PACKET_BLOCK_HEAD - 4)
                add(s, (uint64_t)u32_at(p + 12) << 32 | u32_at(p + 16), u32_at(p + 20),
                    u32_at(p + 24), p + PACKET_BLOCK_HEAD);
}

static bool read_blocks(struct shelf *s, const uint8_t *p, size_t n)
{
        if (n < 28 || u32_at(p) != BLOCK_SECTION || u32_at(p + 8) != BYTE_ORDER)
                return false;
        s->blocks = true;
        while (n >= 12 && u32_at(p + 4) >= 12 && u32_at(p + 4) <= n) {
                uint32_t len = u32_at(p + 4);

                read_block(s, p, len);
                p += len;
                n -= len;
        }
        return s->n > 0;
}

/* --- writing ------------------------------------------------------------------------------------ */

struct out {
        uint8_t *p;
        size_t n, max;
};

static bool put_bytes(struct out *o, const void *p, size_t n)
{
        if (n > o->max - o->n)
                return false;
        memcpy(o->p + o->n, p, n);
        o->n += n;
        return true;
}

static bool put_words(struct out *o, unsigned n, const uint32_t *words)
{
        le32_t le;

        for (unsigned i = 0; i < n; i++) {
                le = le32(words[i]);
                if (!put_bytes(o, &le, sizeof(le)))
                        return false;
        }
        return true;
}

static bool write_record(struct out *o, const struct frame *f)
{
        const uint32_t head[] = { (uint32_t)(f->time / 1000000), (uint32_t)(f->time % 1000000),
                                  f->len, f->wire };

        return o->max - o->n >= RECORD_HEAD + f->len && put_words(o, 4, head) &&
               put_bytes(o, f->bytes, f->len);
}

static bool write_block(struct out *o, const struct frame *f)
{
        uint32_t padded = (f->len + 3) & ~3u, len = PACKET_BLOCK_HEAD + 4 + padded;
        const uint32_t head[] = { BLOCK_PACKET,      len,    0,      (uint32_t)(f->time >> 32),
                                  (uint32_t)f->time, f->len, f->wire };

        return o->max - o->n >= len && put_words(o, 7, head) && put_bytes(o, f->bytes, f->len) &&
               put_bytes(o, "\0\0\0", padded - f->len) && put_words(o, 1, &len);
}

static size_t write_all(const struct shelf *s, uint8_t *data, size_t max)
{
        const uint32_t head[] = { MAGIC, 4 << 16 | 2, 0, 0, SNAPLEN, s->linktype };
        const uint32_t section[] = { BLOCK_SECTION, 28, BYTE_ORDER,      1,  UINT32_MAX,
                                     UINT32_MAX,    28, BLOCK_INTERFACE, 20, s->linktype,
                                     SNAPLEN,       20 };
        struct out o = { .p = data, .max = max };

        if (s->blocks ? !put_words(&o, 12, section) : !put_words(&o, 6, head))
                return 0;
        for (unsigned i = 0; i < s->n; i++)
                if (s->blocks ? !write_block(&o, &s->packet[i]) : !write_record(&o, &s->packet[i]))
                        break;
        return o.n;
}

/* --- changing ----------------------------------------------------------------------------------- */

static struct shelf shelf;

static void change_bytes(struct shelf *s, unsigned i, uint64_t *seed)
{
        struct frame *f = &s->packet[i];
        uint32_t from = f->len > 0 ? fuzz_random(seed) % f->len : 0;
        size_t n = f->len - from, most = fuzz_random(seed) % 4 ? n : PACKET - from;

        if (fuzz_random(seed) % 2 && n > 40)
                n = most = 40; /* a header rather than data */
        if (n == f->len - from) {
                f->len = from + (uint32_t)LLVMFuzzerMutate(f->bytes + from, n, most);
                f->wire = f->len;
        } else {
                (void)LLVMFuzzerMutate(f->bytes + from, n, n);
        }
}

static void take_out(struct shelf *s, unsigned i, uint64_t *seed)
{
        (void)seed;
        if (s->n > 1)
                memmove(&s->packet[i], &s->packet[i + 1], (--s->n - i) * sizeof(s->packet[0]));
}

static void twice(struct shelf *s, unsigned i, uint64_t *seed)
{
        struct frame *f;

        if (s->n == PACKETS)
                return;
        f = &s->packet[s->n++];
        *f = s->packet[i];
        f->time += fuzz_random(seed) % 100;
}

static void swap(struct shelf *s, unsigned i, uint64_t *seed)
{
        static struct frame held;
        unsigned j = fuzz_random(seed) % s->n;

        held = s->packet[i];
        s->packet[i] = s->packet[j];
        s->packet[j] = held;
}

/* The snapshot ends before the packet does. */
static void cut(struct shelf *s, unsigned i, uint64_t *seed)
{
        struct frame *f = &s->packet[i];

        if (f->len > 0)
                f->len = fuzz_random(seed) % f->len;
}

/* The other direction says it. */
static void turn_round(struct shelf *s, unsigned i, uint64_t *seed)
{
        struct frame *f = &s->packet[i];
        uint8_t held[4];

        (void)seed;
        if (s->linktype != 1 || f->len < 38 || f->bytes[14] != 0x45)
                return;
        memcpy(held, f->bytes + 26, 4);
        memcpy(f->bytes + 26, f->bytes + 30, 4);
        memcpy(f->bytes + 30, held, 4);
        memcpy(held, f->bytes + 34, 2);
        memcpy(f->bytes + 34, f->bytes + 36, 2);
        memcpy(f->bytes + 36, held, 2);
}

static void change(struct shelf *s, uint64_t *seed)
{
        static void (*const ways[])(struct shelf *, unsigned,
                                    uint64_t *) = { change_bytes, change_bytes, change_bytes,
                                                    change_bytes, take_out,     twice,
                                                    swap,         cut,          turn_round };
        unsigned i = fuzz_random(seed) % s->n;
        uint32_t way = fuzz_random(seed) % (sizeof(ways) / sizeof(ways[0]));

        ways[way](s, i, seed);
        if (i < s->n && s->packet[i].len == s->packet[i].wire && fuzz_random(seed) % 8)
                packet_fix(s->packet[i].bytes, s->packet[i].len, s->linktype);
}

size_t pcap_mutate(uint8_t *data, size_t size, size_t max, unsigned seed)
{
        uint64_t state = seed;
        size_t n;

        shelf.n = 0;
        shelf.blocks = false;
        if (fuzz_random(&state) % 8 == 0 ||
            (!read_records(&shelf, data, size) && !read_blocks(&shelf, data, size)))
                return LLVMFuzzerMutate(data, size, max);
        for (unsigned i = 1 + fuzz_random(&state) % 4; i > 0; i--)
                change(&shelf, &state);
        if (fuzz_random(&state) % 32 == 0)
                shelf.blocks = !shelf.blocks;
        n = write_all(&shelf, data, max);
        return n > 0 ? n : size;
}
