/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iWARP: MPA start-up frames and FPDUs (RFC 5044, 6581) out of a TCP stream, DDP segments (5041) and
 * RDMAP messages (5040) out of those. An FPDU is read where the capture has it if it lies there
 * whole, else put together first.
 */
#include "tracer.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/crc32c.h"
#include "pdu/core/le.h"

enum {
        START_HEAD = 20, /* key, flags, revision, length */
        START_DATA_MAX = 512,
        START_MARKERS = 0x80,
        START_CRC = 0x40,
        START_REJECTED = 0x20,
        START_ENHANCED = 0x10, /* revision 2: four bytes on IRD and ORD come first */
        DEPTH_MASK = 0x3fff,   /* of IRD and ORD */
        MARKER_EVERY = 512,
        MARKER_LEN = 4,
        CRC_LEN = 4,
        TAGGED_HEAD = 14,
        UNTAGGED_HEAD = 18,
        READ_REQUEST_LEN = 28,
        READS = 64,
        CAPSULE_MAX = 1 << 20,
        SUMMED_PER_BYTE = 64, /* of a packet that is searched */
};

enum rdmap_opcode {
        RDMAP_WRITE,
        RDMAP_READ_REQUEST,
        RDMAP_READ_RESPONSE,
        RDMAP_SEND,
        RDMAP_SEND_INVALIDATE,
        RDMAP_SEND_SOLICITED,
        RDMAP_SEND_SOLICITED_INVALIDATE,
        RDMAP_TERMINATE,
        RDMAP_OPCODES
};

struct read { /* one that is asked for */
        bool used, cut;
        uint32_t sink_key, key, len, got;
        uint64_t sink, addr;
};

struct direction {    /* PARTY_HOST: from who opened the TCP connection, which is the active side */
        bool started; /* its start-up frame went by */
        bool spoken;  /* a message has followed */
        bool lost;
        bool markers; /* its FPDUs have them */
        uint64_t pos; /* of the stream after the start-up frame */
        uint64_t skipped;
        struct bytes carry;   /* an FPDU that is not whole yet */
        struct bytes message; /* SEND in several segments */
        bool sending, writing;
        bool hole;      /* in the FPDU in hand: zeroes stand for what the snapshot lacks, */
        size_t hole_at; /* from there on */
        uint32_t known; /* bytes of the SEND in hand before its first one */
        bool cut;       /* the WRITE in hand has had one */
        struct capture_place first;
        uint64_t write_addr;
        uint32_t write_key, write_len;
        struct read reads[READS]; /* that this side asked for */
        unsigned next_read;
};

struct trace_flow {
        struct trace_conn pub;
        struct direction dir[2];
        bool crc, crc_known;
};

static const char request_key[] = "MPA ID Req Frame", reply_key[] = "MPA ID Rep Frame";

static enum trace_guess is_request(const uint8_t *p, size_t n)
{
        if (memcmp(p, request_key, n < 16 ? n : 16) != 0)
                return TRACE_NO;
        return n >= 16 ? TRACE_YES : TRACE_PERHAPS;
}

static bool is_reply(const uint8_t *p, size_t n)
{
        return memcmp(p, reply_key, n < 16 ? n : 16) == 0;
}

/* --- events ----------------------------------------------------------------------------------- */

/* Whoever is the active side's party in its family. */
static enum party party_of(const struct trace_flow *f, enum party side)
{
        return side == PARTY_HOST ? f->pub.active : peer_of(f->pub.active);
}

static struct trace_event event_of(struct tracer *t, struct trace_flow *f, enum trace_kind kind,
                                   enum party side)
{
        return trace_event_of(t, &f->pub, kind, party_of(f, side));
}

static void tell_gap(struct tracer *t, struct trace_flow *f, enum party side, uint32_t bytes)
{
        trace_gap(t, &f->pub, party_of(f, side), (struct trace_gap) { .bytes = bytes });
}

/* --- life ------------------------------------------------------------------------------------- */

static struct trace_flow *flow_open(struct tracer *t, const struct capture_conn *c, bool begun)
{
        struct trace_flow *f = calloc(1, sizeof(*f));

        (void)t;
        if (!f)
                return NULL;
        f->pub.transport = TRACE_IWARP;
        f->pub.midstream = !begun;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                f->pub.end[p] = c->end[p];
                f->pub.whole_until[p] = UINT64_MAX;
                f->dir[p].lost = !begun;
        }
        f->pub.untold = true; /* until something says whose it is, or there is no hope of that */
        return f;
}

static void flow_close(struct tracer *t, struct trace_flow *f)
{
        trace_emit_kind(t, &f->pub, TRACE_CLOSED, PARTY_HOST);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                bytes_free_within(&t->gathered, &f->dir[p].carry);
                bytes_free_within(&t->gathered, &f->dir[p].message);
        }
        free(f);
}

/* --- RDMAP messages --------------------------------------------------------------------------- */

/* One DDP segment. */
struct segment {
        bool tagged, last;
        enum rdmap_opcode opcode;
        uint32_t key; /* tagged: STag; untagged: what to invalidate */
        uint64_t addr;
        uint32_t offset; /* untagged: MO */
        const uint8_t *data;
        uint32_t len, known; /* known: bytes of data before what the snapshot lacks */
};

static void send_end(struct tracer *t, struct trace_flow *f, enum party sender,
                     const struct segment *s)
{
        struct direction *d = &f->dir[sender];
        struct trace_event e = event_of(t, f, TRACE_CAPSULE, sender);

        if (s->opcode == RDMAP_TERMINATE)
                e.kind = TRACE_TERMINATE;
        e.capsule.invalidates =
            s->opcode == RDMAP_SEND_INVALIDATE || s->opcode == RDMAP_SEND_SOLICITED_INVALIDATE;
        e.capsule.key = e.capsule.invalidates ? s->key : 0;
        e.capsule.data = d->sending ? d->message.p : s->data;
        e.capsule.len = d->sending ? (uint32_t)d->message.n : s->len;
        e.capsule.known = d->sending ? d->known : s->known;
        if (d->sending)
                e.first = d->first;
        d->sending = false;
        t->totals.capsules++;
        trace_emit(t, &e);
        bytes_free_within(&t->gathered, &d->message);
}

static void drop_send(struct tracer *t, struct direction *d)
{
        d->sending = false;
        bytes_free_within(&t->gathered, &d->message);
}

static void take_send(struct tracer *t, struct trace_flow *f, enum party sender,
                      const struct segment *s)
{
        struct direction *d = &f->dir[sender];
        bool rtr = sender == PARTY_HOST && !d->spoken && s->last && s->offset == 0 && s->len == 0;

        d->spoken = true;
        if (rtr &&
            s->opcode == RDMAP_SEND) /* RFC 6581: that it is ready, and no message of anybody */
                return;
        if (s->last && s->offset == 0) {
                d->sending = false;
                send_end(t, f, sender, s);
                return;
        }
        if (s->offset == 0) {
                d->message.n = 0;
                d->sending = true;
                d->known = 0;
                d->first = t->at;
        }
        if (d->known == d->message.n)
                d->known += s->known;
        if (!d->sending || s->offset != d->message.n || d->message.n + s->len > CAPSULE_MAX) {
                drop_send(t, d); /* its beginning was lost */
        } else if (!bytes_add_within(&t->gathered, &d->message, s->data, s->len)) {
                drop_send(t, d);
                tell_gap(t, f, sender, 0);
        } else if (s->last) {
                send_end(t, f, sender, s);
        }
}

static struct trace_event memory_event(struct tracer *t, struct trace_flow *f, enum party sender,
                                       enum trace_kind kind, struct trace_memory m)
{
        struct trace_event e = event_of(t, f, kind, sender);

        e.memory = m;
        return e;
}

static void take_write(struct tracer *t, struct trace_flow *f, enum party sender,
                       const struct segment *s)
{
        struct direction *d = &f->dir[sender];
        struct trace_event e;

        if (!d->writing || s->addr != d->write_addr + d->write_len || s->key != d->write_key) {
                d->writing = true;
                d->cut = false;
                d->first = t->at;
                d->write_addr = s->addr;
                d->write_key = s->key;
                d->write_len = 0;
        }
        d->cut |= d->hole;
        e = memory_event(t, f, sender, TRACE_WRITE_DATA,
                         (struct trace_memory) { .addr = d->write_addr,
                                                 .key = s->key,
                                                 .len = s->len,
                                                 .offset = d->write_len,
                                                 .data = s->data });
        e.first = d->first;
        if (s->len > 0)
                trace_emit(t, &e);
        d->write_len += s->len;
        if (!s->last)
                return;
        d->writing = false;
        e.kind = TRACE_WRITE;
        e.memory.cut = d->cut;
        e.memory.len = d->write_len;
        e.memory.offset = 0;
        e.memory.data = NULL;
        if (d->write_len > 0) /* an empty one may be the RTR message of RFC 6581 */
                trace_emit(t, &e);
}

static void take_read_request(struct tracer *t, struct trace_flow *f, enum party sender,
                              const struct segment *s)
{
        struct direction *d = &f->dir[sender];
        struct read *r = &d->reads[d->next_read++ % READS];
        struct trace_event e;

        if (s->len < READ_REQUEST_LEN)
                return;
        *r = (struct read) {
                .used = true,
                .sink_key = be32_at(s->data),
                .sink = be64_at(s->data + 4),
                .len = be32_at(s->data + 12),
                .key = be32_at(s->data + 16),
                .addr = be64_at(s->data + 20),
        };
        e = memory_event(t, f, sender, TRACE_READ,
                         (struct trace_memory) { .addr = r->addr, .key = r->key, .len = r->len });
        if (r->len > 0)
                trace_emit(t, &e);
}

static struct read *read_of(struct direction *d, const struct segment *s)
{
        for (unsigned i = 0; i < READS; i++) {
                struct read *r = &d->reads[(d->next_read + i) % READS];

                if (r->used && r->sink_key == s->key && s->addr >= r->sink &&
                    s->addr - r->sink <= r->len && s->len <= r->len - (s->addr - r->sink))
                        return r;
        }
        return NULL;
}

static void take_read_response(struct tracer *t, struct trace_flow *f, enum party sender,
                               const struct segment *s)
{
        struct read *r = read_of(&f->dir[peer_of(sender)], s);
        struct trace_event e;

        if (!r)
                return;
        e = memory_event(t, f, sender, TRACE_READ_DATA,
                         (struct trace_memory) { .addr = r->addr,
                                                 .key = r->key,
                                                 .len = s->len,
                                                 .offset = (uint32_t)(s->addr - r->sink),
                                                 .data = s->data });
        if (s->len > 0)
                trace_emit(t, &e);
        r->got += s->len;
        r->cut |= f->dir[sender].hole;
        if (!s->last)
                return;
        r->used = false;
        e.kind = TRACE_READ_END;
        e.memory = (struct trace_memory) {
                .addr = r->addr, .key = r->key, .len = r->len, .cut = r->cut || r->got < r->len
        };
        if (r->len > 0)
                trace_emit(t, &e);
}

static void take_segment(struct tracer *t, struct trace_flow *f, enum party sender,
                         const struct segment *s)
{
        switch (s->opcode) {
        case RDMAP_WRITE:
                take_write(t, f, sender, s);
                break;
        case RDMAP_READ_REQUEST:
                take_read_request(t, f, sender, s);
                break;
        case RDMAP_READ_RESPONSE:
                take_read_response(t, f, sender, s);
                break;
        case RDMAP_SEND:
        case RDMAP_SEND_INVALIDATE:
        case RDMAP_SEND_SOLICITED:
        case RDMAP_SEND_SOLICITED_INVALIDATE:
        case RDMAP_TERMINATE:
                take_send(t, f, sender, s);
                break;
        case RDMAP_OPCODES:
                break;
        }
}

/* --- DDP segments ----------------------------------------------------------------------------- */

static bool is_tagged(enum rdmap_opcode o)
{
        return o == RDMAP_WRITE || o == RDMAP_READ_RESPONSE;
}

/* False: no DDP segment of version 1 with an RDMAP message of version 1 (0 before the RFCs). */
static bool parse_ddp(const uint8_t *p, size_t n, struct segment *s)
{
        size_t head;

        if (n < 2 || (p[0] & 0x3f) != 1 || (p[1] & 0x30) || p[1] >> 6 > 1 ||
            (p[1] & 15) >= RDMAP_OPCODES)
                return false;
        *s = (struct segment) { .tagged = p[0] >> 7,
                                .last = p[0] >> 6 & 1,
                                .opcode = (enum rdmap_opcode)(p[1] & 15) };
        head = s->tagged ? TAGGED_HEAD : UNTAGGED_HEAD;
        if (n < head || s->tagged != is_tagged(s->opcode))
                return false;
        s->key = be32_at(p + 2);
        if (s->tagged)
                s->addr = be64_at(p + 6);
        else
                s->offset = be32_at(p + 14);
        s->data = p + head;
        s->len = (uint32_t)(n - head);
        return true;
}

/* --- FPDUs ------------------------------------------------------------------------------------ */

static size_t padded(size_t ulpdu)
{
        return (2 + ulpdu + 3) & ~(size_t)3;
}

/* Bytes of an FPDU of `plain` bytes that starts at pos in a stream with markers: one stands at
 * each multiple of 512, those within included. */
static size_t with_markers(uint64_t pos, size_t plain)
{
        uint64_t at = pos;

        while (plain > 0) {
                size_t run;

                if (at % MARKER_EVERY == 0)
                        at += MARKER_LEN;
                run = MARKER_EVERY - (size_t)(at % MARKER_EVERY);
                if (run > plain)
                        run = plain;
                at += run;
                plain -= run;
        }
        return (size_t)(at - pos);
}

/* The bytes at p, which stand at pos, without the markers among them. */
static bool strip_markers(struct bytes *out, uint64_t pos, const uint8_t *p, size_t n)
{
        out->n = 0;
        while (n > 0) {
                size_t run = MARKER_EVERY - (size_t)(pos % MARKER_EVERY);

                if (pos % MARKER_EVERY == 0) {
                        size_t marker = n < MARKER_LEN ? n : MARKER_LEN;

                        pos += marker;
                        p += marker;
                        n -= marker;
                        run -= MARKER_LEN;
                }
                if (run > n)
                        run = n;
                if (!bytes_add(out, p, run))
                        return false;
                pos += run;
                p += run;
                n -= run;
        }
        return true;
}

/* Of the FPDU that starts at p; 0: not enough is there to say. */
static size_t fpdu_len(const struct direction *d, const uint8_t *p, size_t n)
{
        size_t marker = d->markers && d->pos % MARKER_EVERY == 0 ? MARKER_LEN : 0, plain;

        if (n < marker + 2)
                return 0;
        plain = padded(be16_at(p + marker)) + CRC_LEN;
        return d->markers ? with_markers(d->pos, plain) : plain;
}

static bool crc_fits(const uint8_t *p, size_t n)
{
        return crc32c(p, n - CRC_LEN) == le_get(p + n - CRC_LEN, CRC_LEN);
}

/* RFC 5044 4.4 has the markers in the CRC; senders that leave them out are believed, too. */
static void judge_crc(struct tracer *t, const struct trace_flow *f, const struct direction *d,
                      const uint8_t *whole, size_t n, const uint8_t *plain, size_t plain_n)
{
        if (!f->crc || crc_fits(plain, plain_n))
                return;
        if (!d->markers || !crc_fits(whole, n))
                t->totals.crc_bad++;
}

/* Bytes of a segment's data before a hole; p: its FPDU without markers. At most as many as there are, where it had some. */
static uint32_t known_of(const struct direction *d, const struct segment *s, const uint8_t *p)
{
        size_t head = (size_t)(s->data - p);

        if (!d->hole)
                return s->len;
        if (d->markers)
                head += MARKER_LEN * (d->hole_at / MARKER_EVERY + 1);
        if (d->hole_at <= head)
                return 0;
        return d->hole_at - head < s->len ? (uint32_t)(d->hole_at - head) : s->len;
}

/* n bytes, a whole FPDU. */
static bool take_fpdu(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                      size_t n)
{
        struct direction *d = &f->dir[sender];
        const uint8_t *whole = p;
        size_t plain = n;
        struct segment s;

        if (d->markers) {
                if (!strip_markers(&t->scratch, d->pos, p, n)) {
                        t->no_memory = true;
                        return false;
                }
                p = t->scratch.p;
                plain = t->scratch.n;
        }
        d->pos += n;
        if (be16_at(p) == 0) /* nothing in it: allowed */
                return true;
        if (!parse_ddp(p + 2, be16_at(p), &s))
                return false;
        s.known = known_of(d, &s, p);
        if (!d->hole)
                judge_crc(t, f, d, whole, n, p, plain);
        take_segment(t, f, sender, &s);
        return true;
}

/* As much as a reader can ask of a place to begin at without knowing anything. *summed: bytes that may still be looked at
 * for their CRC. */
static bool is_likely(const uint8_t *p, size_t n, size_t *summed)
{
        struct segment s;
        size_t len;

        if (n < 4 || be16_at(p) < TAGGED_HEAD)
                return false;
        len = be16_at(p);
        if (!parse_ddp(p + 2, n - 2 < len ? n - 2 : len, &s))
                return false;
        len = padded(len) + CRC_LEN;
        if (len > n || len > *summed)
                return false;
        *summed -= len;
        return crc_fits(p, len) || le_get(p + len - CRC_LEN, CRC_LEN) == 0;
}

static bool is_plausible(const uint8_t *p, size_t n, enum party sender)
{
        size_t summed = n;

        (void)sender;
        return is_likely(p, n, &summed);
}

/* --- start-up --------------------------------------------------------------------------------- */

/* RFC 6581 9: A and B bits with IRD, C and D bits with ORD. */
static void read_depths(struct trace_cm *cm)
{
        if (cm->len < 4)
                return;
        cm->reads_in = be16_at(cm->data) & DEPTH_MASK;
        cm->reads_out = be16_at(cm->data + 2) & DEPTH_MASK;
        cm->depths = true;
        cm->data += 4;
        cm->len -= 4;
}

/* Once: it is the first that the active side says. */
static void recognize(struct tracer *t, struct trace_flow *f, const struct trace_cm *cm)
{
        struct capture_end active = f->pub.end[PARTY_HOST];

        trace_recognize(t, &f->pub, cm->data, cm->len);
        if (f->pub.active == PARTY_HOST)
                return;
        f->pub.end[PARTY_HOST] = f->pub.end[PARTY_CONTROLLER];
        f->pub.end[PARTY_CONTROLLER] = active;
}

static void emit_start(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                       uint32_t len)
{
        unsigned flags = p[16];
        struct trace_cm cm = { .data = p + START_HEAD, .len = len };
        struct trace_event e;

        if (p[17] >= 2 && flags & START_ENHANCED)
                read_depths(&cm);
        if (sender == PARTY_HOST)
                recognize(t, f, &cm);
        e = event_of(t, f, TRACE_REQUEST, sender);
        e.cm = cm;
        if (sender == PARTY_CONTROLLER)
                e.kind = flags & START_REJECTED ? TRACE_REJECT : TRACE_ACCEPT;
        if (e.kind == TRACE_REJECT)
                e.cm.reason = CM_REJECTED_BY_CONSUMER;
        trace_emit(t, &e);
}

/* Bytes of the start-up frame at p; 0: not whole yet; SIZE_MAX: it is none. */
static size_t start_len(enum party sender, const uint8_t *p, size_t n)
{
        bool right = sender == PARTY_HOST ? is_request(p, n) != TRACE_NO : is_reply(p, n);

        if (!right || (n >= START_HEAD && be16_at(p + 18) > START_DATA_MAX))
                return SIZE_MAX;
        if (n < START_HEAD || n < START_HEAD + (size_t)be16_at(p + 18))
                return 0;
        return START_HEAD + (size_t)be16_at(p + 18);
}

static void take_start(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                       size_t n)
{
        struct direction *d = &f->dir[sender];

        d->started = true;
        d->pos = 0;
        f->crc |= p[16] & START_CRC; /* who asks for it gets it, both ways */
        if (p[16] & START_MARKERS)   /* who asks for them receives them */
                f->dir[peer_of(sender)].markers = true;
        emit_start(t, f, sender, p, (uint32_t)(n - START_HEAD));
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void lose(struct tracer *t, struct trace_flow *f, enum party sender, uint32_t bytes)
{
        struct direction *d = &f->dir[sender];

        d->lost = true;
        d->skipped = 0;
        bytes_free_within(&t->gathered, &d->carry);
        drop_send(t, d);
        d->writing = d->hole = false;
        tell_gap(t, f, sender, bytes);
}

/* One unit at p: returns its length, 0 if it is not whole, SIZE_MAX if it is none. */
static size_t take_unit(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                        size_t n)
{
        struct direction *d = &f->dir[sender];
        size_t len = d->started ? fpdu_len(d, p, n) : start_len(sender, p, n);

        if (len == 0 || len > n)
                return len == SIZE_MAX ? len : 0;
        if (!d->started)
                take_start(t, f, sender, p, len);
        else if (!take_fpdu(t, f, sender, p, len))
                return SIZE_MAX;
        return len;
}

/* After a gap an FPDU is looked for at each place; where there are markers nobody can tell. Few places look like one that
 * are none: more of them than data made by chance has are not looked at. */
static size_t search(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                     size_t n)
{
        struct direction *d = &f->dir[sender];
        bool starts = !d->started && n > 0 && start_len(sender, p, n) != SIZE_MAX && n >= 16;
        struct trace_event e = event_of(t, f, TRACE_FOUND, sender);
        size_t i = 0, summed = n * SUMMED_PER_BYTE;

        if (!starts)
                while (i < n && (d->markers || !is_likely(p + i, n - i, &summed)))
                        i++;
        d->skipped += i;
        if (i == n)
                return n;
        d->lost = false;
        d->started = !starts;
        e.gap.bytes = d->skipped;
        if (!starts || d->skipped > 0) /* else the start-up frame tells it, and more */
                trace_emit(t, &e);
        return i;
}

/* Units as they lie in the packet; returns how much of it was used up. */
static size_t take_in_place(struct tracer *t, struct trace_flow *f, enum party sender,
                            const uint8_t *p, size_t n)
{
        struct direction *d = &f->dir[sender];
        size_t done = 0;

        while (done < n && !d->lost) {
                size_t len = take_unit(t, f, sender, p + done, n - done);

                if (len == SIZE_MAX) {
                        lose(t, f, sender, 0);
                        done++;
                        break;
                }
                if (len == 0) {
                        if (!bytes_add_within(&t->gathered, &d->carry, p + done, n - done))
                                lose(t, f, sender, 0);
                        return n;
                }
                done += len;
        }
        return done;
}

/* To a unit that began in another packet. */
static size_t take_carried(struct tracer *t, struct trace_flow *f, enum party sender,
                           const uint8_t *p, size_t n)
{
        struct direction *d = &f->dir[sender];
        size_t before = d->carry.n, want = 0, len;

        if (d->started)
                want = fpdu_len(d, d->carry.p, before);
        if (want == 0)
                want = before + 1; /* until its length is known */
        if (want - before < n)
                n = want - before;
        if (!bytes_add_within(&t->gathered, &d->carry, p, n)) {
                lose(t, f, sender, 0);
                return n;
        }
        len = take_unit(t, f, sender, d->carry.p, d->carry.n);
        if (len == SIZE_MAX) {
                lose(t, f, sender, 0);
        } else if (len > 0) {
                bytes_free_within(&t->gathered, &d->carry);
                d->hole = false;
        }
        return n;
}

static void flow_data(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                      size_t n)
{
        struct direction *d = &f->dir[sender];

        while (n > 0 && !t->no_memory && !t->gathered.no_memory) {
                size_t done;

                if (d->lost)
                        done = search(t, f, sender, p, n);
                else if (d->carry.n > 0)
                        done = take_carried(t, f, sender, p, n);
                else
                        done = take_in_place(t, f, sender, p, n);
                p += done;
                n -= done;
        }
}

/* A hole in the payload of an FPDU whose headers are known is no loss of the thread. */
static bool fits_in_fpdu(const struct direction *d, uint32_t n)
{
        size_t len;

        if (d->lost || !d->started || n == 0 || d->carry.n < 2 + UNTAGGED_HEAD + READ_REQUEST_LEN)
                return false;
        len = fpdu_len(d, d->carry.p, d->carry.n);
        return d->carry.n + n <= len;
}

static void feed_hole(struct tracer *t, struct trace_flow *f, enum party sender, uint32_t n)
{
        static const uint8_t zeroes[4096];
        struct direction *d = &f->dir[sender];

        if (!d->hole)
                d->hole_at = d->carry.n;
        d->hole = true;
        t->totals.gaps++;
        while (n > 0) {
                uint32_t part = n < sizeof(zeroes) ? n : (uint32_t)sizeof(zeroes);

                flow_data(t, f, sender, zeroes, part);
                n -= part;
        }
}

static void flow_gap(struct tracer *t, struct trace_flow *f, enum party sender, uint32_t n)
{
        if (fits_in_fpdu(&f->dir[sender], n)) {
                feed_hole(t, f, sender, n);
                return;
        }
        lose(t, f, sender, n);
}

const struct trace_stream iwarp_stream = {
        .begins = is_request,
        .plausible = is_plausible,
        .open = flow_open,
        .data = flow_data,
        .gap = flow_gap,
        .close = flow_close,
};
