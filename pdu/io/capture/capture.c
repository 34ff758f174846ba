/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "capture_file.h"
#include "packet.h"

enum {
        BUCKETS = 16384,
        CONNS_MAX = 16384,    /* remembered: the idle ones are closed when more appear */
        HELD_BYTES = 4 << 20, /* of one direction, waiting for what should come before them */
        HELD_SEGMENTS = 4096,
        HELD_ALL = 64 << 20, /* bytes of all directions */
        LOOKED_AT = 32,      /* connections, to find an idle one */
        HANDSHAKE = 4096,    /* frames: what has brought no data by then is of little use */
        AHEAD = 64,          /* frames: as late may one come that was acknowledged already */
        NESTED = 64,         /* acknowledgements that bring on one another */
        FAR = 1 << 24, /* bytes: nothing that a receiver takes is as far from what it waits for */
};

const char *capture_end_text(const struct capture_end *e, char buf[CAPTURE_END_TEXT])
{
        char addr[INET6_ADDRSTRLEN] = "?";

        inet_ntop(e->family, e->addr, addr, sizeof(addr));
        snprintf(buf, CAPTURE_END_TEXT, e->family == AF_INET6 ? "[%s]:%u" : "%s:%u", addr, e->port);
        return buf;
}

static uint64_t secret[2];

static void draw_secret(void)
{
        if (getrandom(secret, sizeof(secret), GRND_NONBLOCK) != sizeof(secret))
                secret[0] = secret[1] = (uint64_t)(uintptr_t)secret;
}

static uint64_t stir(uint64_t h, uint64_t word)
{
        h = (h ^ word) * (secret[1] | 1);
        return h ^ h >> 32;
}

uint64_t capture_end_hash(const struct capture_end *e, uint64_t more)
{
        static pthread_once_t drawn = PTHREAD_ONCE_INIT;
        uint64_t addr[2];

        pthread_once(&drawn, draw_secret);
        memcpy(addr, e->addr, sizeof(addr));
        return stir(stir(stir(stir(secret[0], addr[0]), addr[1]), e->port), more);
}

/* --- streams ---------------------------------------------------------------------------------- */

struct held { /* a segment that came too early */
        struct held *next;
        struct capture_place at;
        uint32_t seq, ack;
        bool acks; /* that is to be taken before its data */
        size_t n, whole;
        uint8_t data[];
};

struct stream {
        bool synced;
        bool begun;           /* `first` is the first byte of all */
        uint32_t first, next; /* sequence numbers: of the first byte, of the next one wanted */
        bool fin;
        uint32_t fin_seq;
        struct held *held, *held_last; /* by sequence number */
        struct held *held_recent;      /* the one that came last; NULL: it is not there any more */
        size_t held_bytes;
        unsigned held_segments;
};

struct tcp_conn_state {
        struct capture_conn pub;
        struct stream stream[2];
        bool closed;   /* only a SYN brings its ports back to life */
        bool bare;     /* no data has been seen: it is in the reader's list of these */
        bool renewed;  /* a SYN asks for another connection, which there is if ... */
        enum party by; /* ... what this one sends, */
        uint32_t isn;  /* or what it is sent, is of this number */
        uint64_t last; /* frame */
        struct tcp_conn_state **bucket, *next;
        struct tcp_conn_state *earlier, *later; /* in order of appearance */
        struct tcp_conn_state *before, *after;  /* bare ones, by their last frame */
};

struct ahead { /* a frame that was read and is yet to be taken */
        struct ahead *next;
        struct capture_place at;
        enum packet_kind kind;
        struct packet p;
        uint8_t frame[];
};

struct reader {
        const struct capture_ops *ops;
        void *user;
        struct capture_file *file;
        struct capture_place at, read; /* the frame that is taken; the last one that was read */
        int64_t clock_skew;            /* ns from the clock of odd frames to ours */
        struct ahead *ahead;           /* oldest first */
        unsigned n_ahead;
        bool known;       /* the link type of a frame was */
        int unknown_link; /* of the last frame of which it was not, or -1 */
        int more;         /* what capture_file_next() said last: 1: there may be more */
        unsigned conns, kept;
        unsigned nested; /* acknowledgements that are being taken */
        size_t held_bytes;
        struct tcp_conn_state *bucket[BUCKETS];
        struct tcp_conn_state *all, *last, *hand, *recent; /* recent: found last */
        struct tcp_conn_state *bare, *last_bare;
        bool no_memory;
};

/* Bytes of one packet, or (p NULL) bytes that no packet held. */
struct piece {
        const uint8_t *p;
        size_t n, whole;
        const struct capture_place *at;
};

static void deliver(struct reader *r, struct tcp_conn_state *c, enum party sender, struct piece b)
{
        c->stream[sender].next += (uint32_t)b.whole;
        if (b.n > 0)
                r->ops->data(r->user, &c->pub, sender, b.p, b.n, b.at);
        if (b.n < b.whole && r->ops->gap)
                r->ops->gap(r->user, &c->pub, sender, (uint32_t)(b.whole - b.n), b.at);
}

/* What is new of a piece that starts at or before the wanted byte. */
static void deliver_new(struct reader *r, struct tcp_conn_state *c, enum party sender, uint32_t seq,
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

/* Of sequence numbers. */
static bool is_before(uint32_t a, uint32_t b)
{
        return (int32_t)(a - b) < 0;
}

static bool is_early(const struct stream *s, uint32_t seq)
{
        return is_before(s->next, seq);
}

static void take_ack(struct reader *r, struct tcp_conn_state *c, enum party sender, uint32_t ack);

/* What it acknowledges comes before it, so that a gap is told before the answers to it. True: that has been looked at,
 * and who is the first one held may be another. */
static bool acknowledge_held(struct reader *r, struct tcp_conn_state *c, enum party sender)
{
        struct held *h = c->stream[sender].held;

        if (!h->acks || r->nested == NESTED)
                return false;
        h->acks = false;
        r->nested++;
        take_ack(r, c, sender, h->ack);
        r->nested--;
        return true;
}

static void release_held(struct reader *r, struct tcp_conn_state *c, enum party sender)
{
        struct stream *s = &c->stream[sender];

        while (s->held && !is_early(s, s->held->seq)) {
                struct held *h = s->held;

                if (acknowledge_held(r, c, sender))
                        continue;
                s->held = h->next;
                if (s->held_recent == h)
                        s->held_recent = NULL;
                s->held_bytes -= h->n;
                r->held_bytes -= sizeof(*h) + h->n;
                s->held_segments--;
                deliver_new(r, c, sender, h->seq,
                            (struct piece) { h->data, h->n, h->whole, &h->at });
                free(h);
        }
}

/* Gives up on what should come before the first held segment. */
static void skip_gap(struct reader *r, struct tcp_conn_state *c, enum party sender)
{
        struct stream *s = &c->stream[sender];

        if (is_early(s, s->held->seq))
                deliver(r, c, sender, (struct piece) { NULL, 0, s->held->seq - s->next, &r->at });
        release_held(r, c, sender);
}

static void hold(struct reader *r, struct stream *s, const struct packet *seg)
{
        struct held *h = malloc(sizeof(*h) + seg->n), **at = &s->held;

        if (!h) {
                r->no_memory = true;
                return;
        }
        h->at = r->at;
        h->seq = seg->seq;
        h->ack = seg->ack;
        h->acks = seg->flags & TCP_ACK;
        h->n = seg->n;
        h->whole = seg->whole;
        memcpy(h->data, seg->data, seg->n);
        if (s->held && (int32_t)(s->held_last->seq - h->seq) <= 0) /* as most often */
                at = &s->held_last->next;
        else if (s->held_recent && (int32_t)(s->held_recent->seq - h->seq) <= 0)
                at = &s->held_recent->next;
        while (*at && (int32_t)((*at)->seq - h->seq) <= 0)
                at = &(*at)->next;
        h->next = *at;
        *at = h;
        if (!h->next)
                s->held_last = h;
        s->held_recent = h;
        s->held_bytes += h->n;
        r->held_bytes += sizeof(*h) + h->n;
        s->held_segments++;
}

static void take_data(struct reader *r, struct tcp_conn_state *c, enum party sender,
                      const struct packet *seg)
{
        struct stream *s = &c->stream[sender];

        if (!is_early(s, seg->seq)) {
                deliver_new(r, c, sender, seg->seq,
                            (struct piece) { seg->data, seg->n, seg->whole, &r->at });
                release_held(r, c, sender);
                return;
        }
        hold(r, s, seg);
        while (s->held && (s->held_bytes > HELD_BYTES || s->held_segments > HELD_SEGMENTS ||
                           r->held_bytes > HELD_ALL))
                skip_gap(r, c, sender);
}

/* `sender` has received all before `ack`, in the capture or not: what its peer sent and nobody saw
 * is a gap now, before the answers to it come. One byte may be a FIN. */
static void take_ack(struct reader *r, struct tcp_conn_state *c, enum party sender, uint32_t ack)
{
        enum party peer = peer_of(sender);
        struct stream *s = &c->stream[peer];
        uint32_t end = s->fin && is_before(s->fin_seq, ack) ? s->fin_seq : ack;

        if (!s->synced || !is_early(s, end))
                return;
        while (s->held && !is_before(end, s->held->seq) && s->held->seq != end)
                skip_gap(r, c, peer);
        if (is_early(s, end) && (end - s->next > 1 || s->fin))
                deliver(r, c, peer, (struct piece) { NULL, 0, end - s->next, &r->at });
}

/* --- connections ------------------------------------------------------------------------------ */

static bool same_end(const struct capture_end *a, const struct capture_end *b)
{
        return a->family == b->family && a->port == b->port &&
               memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

static bool is_of(const struct tcp_conn_state *c, const struct packet *s)
{
        return (same_end(&c->pub.end[0], &s->from) && same_end(&c->pub.end[1], &s->to)) ||
               (same_end(&c->pub.end[1], &s->from) && same_end(&c->pub.end[0], &s->to));
}

/* The same for both directions. */
static struct tcp_conn_state **bucket_of(struct reader *r, const struct packet *s)
{
        return &r->bucket[(capture_end_hash(&s->from, 0) + capture_end_hash(&s->to, 0)) % BUCKETS];
}

static struct tcp_conn_state *find(struct reader *r, const struct packet *s)
{
        if (r->recent && is_of(r->recent, s))
                return r->recent;
        for (struct tcp_conn_state *c = *bucket_of(r, s); c; c = c->next)
                if (is_of(c, s))
                        return r->recent = c;
        return NULL;
}

static bool is_service(const struct reader *r, uint16_t port)
{
        return r->ops->service(r->user, port);
}

/* Which side opened the connection: SYN tells; else the ports have to. */
static bool from_host(const struct reader *r, const struct packet *s)
{
        if (s->flags & TCP_SYN)
                return !(s->flags & TCP_ACK);
        if (is_service(r, s->from.port) != is_service(r, s->to.port))
                return is_service(r, s->to.port);
        return s->from.port > s->to.port;
}

static void leave_bare(struct reader *r, struct tcp_conn_state *c)
{
        if (!c->bare)
                return;
        *(c->before ? &c->before->after : &r->bare) = c->after;
        *(c->after ? &c->after->before : &r->last_bare) = c->before;
        c->bare = false;
}

static void enter_bare(struct reader *r, struct tcp_conn_state *c)
{
        c->bare = true;
        c->after = NULL;
        c->before = r->last_bare;
        *(r->last_bare ? &r->last_bare->after : &r->bare) = c;
        r->last_bare = c;
}

/* A frame of it has come. */
static void note_frame(struct reader *r, struct tcp_conn_state *c, bool data)
{
        bool bare = c->bare;

        c->last = r->at.frame;
        leave_bare(r, c);
        if (bare && !data)
                enter_bare(r, c);
}

static void start(struct reader *r, struct tcp_conn_state *c, const struct packet *s)
{
        bool host = from_host(r, s);

        c->pub = (struct capture_conn) {
                .number = ++r->conns,
                .end = { host ? s->from : s->to, host ? s->to : s->from },
                .midstream = !(s->flags & TCP_SYN),
        };
        memset(c->stream, 0, sizeof(c->stream));
        c->closed = c->renewed = false;
        if (!c->bare)
                enter_bare(r, c);
        if (r->ops->opened)
                r->ops->opened(r->user, &c->pub, &r->at);
}

/* Nothing comes any more of what is missing, up to the FIN if there was one. */
static void close_stream(struct reader *r, struct tcp_conn_state *c, enum party sender)
{
        struct stream *s = &c->stream[sender];

        while (s->held)
                skip_gap(r, c, sender);
        if (s->fin && is_early(s, s->fin_seq))
                deliver(r, c, sender, (struct piece) { NULL, 0, s->fin_seq - s->next, &r->at });
}

static void close_conn(struct reader *r, struct tcp_conn_state *c)
{
        if (c->closed)
                return;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                close_stream(r, c, p);
        c->closed = true;
        if (r->ops->closed)
                r->ops->closed(r->user, &c->pub, &r->at);
}

static void link_conn(struct reader *r, struct tcp_conn_state *c, struct tcp_conn_state **bucket)
{
        c->bucket = bucket;
        c->next = *bucket;
        *bucket = c;
        c->earlier = r->last;
        *(r->last ? &r->last->later : &r->all) = c;
        r->last = c;
        r->kept++;
}

/* It may go on, which nobody will know: what is missing from here on is told, so that this does not pass for its end. */
static void leave_unfinished(struct reader *r, struct tcp_conn_state *c)
{
        if (c->closed || c->bare || !r->ops->gap)
                return;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                close_stream(r, c, p);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                r->ops->gap(r->user, &c->pub, p, 0, &r->at);
}

static void drop_conn(struct reader *r, struct tcp_conn_state *c)
{
        struct tcp_conn_state **at = c->bucket;

        leave_bare(r, c);
        while (*at != c)
                at = &(*at)->next;
        *at = c->next;
        *(c->earlier ? &c->earlier->later : &r->all) = c->later;
        *(c->later ? &c->later->earlier : &r->last) = c->earlier;
        r->kept--;
        if (r->recent == c)
                r->recent = NULL;
        free(c);
}

/* Of the next few the one that nothing was heard of for the longest time, or that is closed. */
static struct tcp_conn_state *find_idle(struct reader *r)
{
        struct tcp_conn_state *c = r->hand ? r->hand : r->all, *oldest = c;

        for (int i = 0; i < LOOKED_AT && !oldest->closed; i++) {
                if (c->closed || c->last < oldest->last)
                        oldest = c;
                c = c->later ? c->later : r->all;
        }
        r->hand = c;
        return oldest;
}

/* First of all handshakes that nothing has come of: a flood of them takes no other's place. */
static void forget_idle(struct reader *r)
{
        bool is_over = r->bare && r->bare->last + HANDSHAKE < r->at.frame;
        struct tcp_conn_state *c = is_over ? r->bare : find_idle(r);

        if (r->hand == c)
                r->hand = c->later;
        leave_unfinished(r, c);
        close_conn(r, c);
        drop_conn(r, c);
}

static struct tcp_conn_state *conn_new(struct reader *r, const struct packet *s)
{
        struct tcp_conn_state *c = calloc(1, sizeof(*c));

        if (!c) {
                r->no_memory = true;
                return NULL;
        }
        if (r->kept == CONNS_MAX)
                forget_idle(r);
        link_conn(r, c, bucket_of(r, s));
        start(r, c, s);
        return c;
}

static enum party sender_of(const struct tcp_conn_state *c, const struct packet *s)
{
        return same_end(&c->pub.end[PARTY_HOST], &s->from) ? PARTY_HOST : PARTY_CONTROLLER;
}

static bool is_far(uint32_t a, uint32_t b)
{
        return a - b > FAR && b - a > FAR;
}

/* A SYN that is no retransmission asks for another connection between the same ports. Both sides may open one at once. */
static bool asks_anew(const struct tcp_conn_state *c, const struct packet *s)
{
        enum party sender = sender_of(c, s);
        const struct stream *own = &c->stream[sender];

        if ((s->flags & (TCP_SYN | TCP_ACK)) != TCP_SYN)
                return false;
        return c->closed || (own->synced ? own->first != s->seq + 1 : sender == PARTY_HOST);
}

/* A connection that lives answers such a SYN with an acknowledgement of its own, and goes on (RFC 9293, 3.10.7.4): there
 * is another one if its number is acknowledged, or what follows has it. */
static bool is_renewed(const struct tcp_conn_state *c, const struct packet *s)
{
        if (!c->renewed || s->flags & TCP_RST)
                return false;
        return sender_of(c, s) == c->by
                   ? !(s->flags & TCP_SYN) && s->seq == c->isn
                   : s->flags & TCP_SYN && s->flags & TCP_ACK && s->ack == c->isn;
}

/* What can't be of the connection that is over, nor said again: that its ports are used once more was not seen. */
static bool is_after_end(const struct tcp_conn_state *c, const struct packet *s)
{
        const struct stream *own = &c->stream[sender_of(c, s)];

        if (s->flags & TCP_RST || (s->whole == 0 && !(s->flags & TCP_SYN)) || !own->synced)
                return false;
        return s->flags & TCP_SYN
                   ? s->seq + 1 != own->first
                   : is_far(s->seq, own->next) || (own->fin && is_before(own->fin_seq, s->seq));
}

static void renew(struct reader *r, struct tcp_conn_state *c)
{
        const struct packet syn = { .from = c->pub.end[c->by],
                                    .to = c->pub.end[peer_of(c->by)],
                                    .flags = TCP_SYN };
        uint32_t isn = c->isn;

        close_conn(r, c);
        start(r, c, &syn);
        c->stream[PARTY_HOST] =
            (struct stream) { .synced = true, .begun = true, .first = isn, .next = isn };
}

/* The connection that the SYN is of, or NULL: that is not known yet. */
static struct tcp_conn_state *ask(struct reader *r, struct tcp_conn_state *c,
                                  const struct packet *s)
{
        if (!c->stream[PARTY_HOST].synced) {
                close_conn(r, c);
                start(r, c, s);
                return c;
        }
        c->renewed = true;
        c->by = sender_of(c, s);
        c->isn = s->seq + 1;
        return NULL;
}

static struct tcp_conn_state *conn_of(struct reader *r, const struct packet *s)
{
        struct tcp_conn_state *c = find(r, s);

        if (!c)
                return s->flags & TCP_SYN || s->whole > 0 ? conn_new(r, s) : NULL;
        if (c->closed && (asks_anew(c, s) || is_after_end(c, s)))
                start(r, c, s);
        else if (is_renewed(c, s))
                renew(r, c);
        else if (asks_anew(c, s))
                return ask(r, c, s);
        return c->closed ? NULL : c;
}

static bool is_done(const struct stream *s)
{
        return s->fin && !s->held && !is_early(s, s->fin_seq);
}

/* What this acknowledgement, the first sight of the other side's numbers, says of them. */
static void sync_by_ack(struct reader *r, struct tcp_conn_state *c, enum party sender,
                        const struct packet *p)
{
        const struct stream *own = &c->stream[sender];
        struct stream *peer = &c->stream[peer_of(sender)];

        peer->synced = true;
        peer->first = peer->next = p->ack;
        peer->begun = p->flags & TCP_SYN || (own->begun && p->seq == own->first);
        if (!peer->begun && !c->pub.midstream && r->ops->gap)
                r->ops->gap(r->user, &c->pub, peer_of(sender), 0, &r->at);
}

static void sync(struct reader *r, struct tcp_conn_state *c, enum party sender,
                 const struct packet *p)
{
        struct stream *s = &c->stream[sender];

        s->synced = true;
        s->begun = p->flags & TCP_SYN;
        s->first = s->next = p->seq;
        if (!s->begun && !c->pub.midstream && r->ops->gap) /* nobody knows how much */
                r->ops->gap(r->user, &c->pub, sender, 0, &r->at);
}

/* What a segment that is held acknowledges is taken with it, unless both sides would wait for each other. */
static bool waits_with_data(const struct tcp_conn_state *c, enum party sender,
                            const struct packet *s)
{
        return s->whole > 0 && is_early(&c->stream[sender], s->seq) &&
               !c->stream[peer_of(sender)].held;
}

static void take_segment(struct reader *r, const struct packet *seg)
{
        struct tcp_conn_state *c = conn_of(r, seg);
        struct packet s = *seg;
        enum party sender;
        struct stream *stream;

        if (!c)
                return;
        note_frame(r, c, seg->whole > 0);
        sender = sender_of(c, &s);
        stream = &c->stream[sender];
        if (s.flags & TCP_SYN) {
                s.seq++;
                c->pub.accepted |= sender == PARTY_CONTROLLER;
        }
        if (!stream->synced && (s.flags & TCP_SYN || s.whole > 0))
                sync(r, c, sender, &s);
        if (s.flags & TCP_ACK && !c->stream[peer_of(sender)].synced)
                sync_by_ack(r, c, sender, &s);
        else if (s.flags & TCP_ACK && !waits_with_data(c, sender, &s))
                take_ack(r, c, sender, s.ack);
        if (s.whole > 0)
                take_data(r, c, sender, &s);
        if (s.flags & TCP_FIN) {
                stream->fin = true;
                stream->fin_seq = s.seq + (uint32_t)s.whole;
        }
        if ((s.flags & TCP_RST && !(stream->synced && is_far(s.seq, stream->next))) ||
            (is_done(&c->stream[0]) && is_done(&c->stream[1])))
                close_conn(r, c);
}

/* --- the file --------------------------------------------------------------------------------- */

/* Frames with times before 1973 among later ones come from another clock. It is aligned so that none
 * of them lies before the frame it follows. */
static void set_time(struct reader *r, int64_t time_ns)
{
        const int64_t year_1973 = INT64_C(100000000) * 1000000000;
        int64_t before = r->read.time_ns;

        r->read.time_guessed = time_ns < year_1973 && before >= year_1973;
        r->read.time_ns = time_ns;
        if (!r->read.time_guessed)
                return;
        if (time_ns + r->clock_skew < before)
                r->clock_skew = before - time_ns;
        r->read.time_ns = time_ns + r->clock_skew;
}

/* False: there are no more, or the file is damaged. */
static bool read_frame(struct reader *r, struct capture_frame *frame)
{
        if (r->more == 1)
                r->more = capture_file_next(r->file, frame);
        if (r->more != 1)
                return false;
        r->read.frame += 1 + frame->others;
        set_time(r, frame->time_ns);
        return true;
}

static void skip_packet(struct reader *r, enum packet_kind kind)
{
        if (kind == PACKET_FRAGMENT)
                r->ops->skipped(r->user, SKIP_FRAGMENT, &r->at);
        else if (kind == PACKET_CUT)
                r->ops->skipped(r->user, SKIP_CUT, &r->at);
        else if (kind == PACKET_LINK)
                r->ops->skipped(r->user, SKIP_LINK, &r->at);
}

static void take_packet(struct reader *r, enum packet_kind kind, const struct packet *p,
                        const struct capture_place *at)
{
        r->at = *at;
        if (r->ops->packet)
                r->ops->packet(r->user, &r->at);
        if (kind == PACKET_TCP)
                take_segment(r, p);
        else if (kind == PACKET_UDP && r->ops->datagram)
                r->ops->datagram(r->user, p, &r->at);
        else if (r->ops->skipped)
                skip_packet(r, kind);
}

static enum packet_kind parse(struct reader *r, const uint8_t *p, const struct capture_frame *frame,
                              struct packet *out)
{
        const struct packet_link *link = packet_link(frame->link);

        r->known |= link != NULL;
        if (!link)
                r->unknown_link = frame->link;
        return packet_parse(link, p, frame->captured, frame->whole, out);
}

/* --- frames that were caught out of order ------------------------------------------------------- */

/* The stream of which this segment acknowledges what was not seen yet, or NULL. One byte may be a
 * FIN. */
static const struct stream *awaited(struct reader *r, const struct packet *p)
{
        const struct tcp_conn_state *c = p->flags & TCP_ACK ? find(r, p) : NULL;
        const struct stream *own, *s;

        if (!c || c->closed)
                return NULL;
        own = &c->stream[sender_of(c, p)];
        s = &c->stream[peer_of(sender_of(c, p))];
        if (!s->synced) /* its SYN, which has been answered before */
                return !c->pub.midstream && !(p->flags & TCP_SYN) && own->synced &&
                               p->seq != own->first
                           ? s
                           : NULL;
        return is_early(s, p->ack) && p->ack - s->next > 1 ? s : NULL;
}

/* Whether it has the next bytes of the stream that this segment acknowledges. */
static bool has_next(const struct ahead *a, const struct packet *p, const struct stream *s)
{
        bool next = s->synced ? a->p.whole > 0 && !is_early(s, a->p.seq) &&
                                    is_before(s->next, a->p.seq + (uint32_t)a->p.whole)
                              : a->p.flags & TCP_SYN;

        return a->kind == PACKET_TCP && next && same_end(&a->p.from, &p->to) &&
               same_end(&a->p.to, &p->from);
}

static struct ahead *unlink_ahead(struct reader *r, struct ahead **at)
{
        struct ahead *a = *at;

        *at = a->next;
        r->n_ahead--;
        return a;
}

/* Takes from the frames ahead, out of their order, what this segment acknowledges; first of all what
 * that acknowledges, and so on. */
static void catch_up(struct reader *r, const struct packet *p)
{
        const struct stream *s;

        for (struct ahead **at = &r->ahead; *at && (s = awaited(r, p));) {
                struct ahead *a = *at;

                if (!has_next(a, p, s)) {
                        at = &a->next;
                        continue;
                }
                unlink_ahead(r, at);
                catch_up(r, &a->p);
                take_packet(r, a->kind, &a->p, &a->at);
                free(a);
                at = &r->ahead;
        }
}

static void put_ahead(struct reader *r, const struct capture_frame *frame)
{
        struct ahead *a = malloc(sizeof(*a) + frame->captured), **at = &r->ahead;

        if (!a) {
                r->no_memory = true;
                return;
        }
        while (*at)
                at = &(*at)->next;
        *a = (struct ahead) { .at = r->read };
        memcpy(a->frame, frame->p, frame->captured);
        a->kind = parse(r, a->frame, frame, &a->p);
        *at = a;
        r->n_ahead++;
}

/* The oldest frame ahead, after what it acknowledges. */
static void take_ahead(struct reader *r)
{
        struct capture_frame frame;
        struct ahead *a = unlink_ahead(r, &r->ahead);

        if (a->kind == PACKET_TCP && awaited(r, &a->p)) {
                while (r->n_ahead < AHEAD && !r->no_memory && read_frame(r, &frame))
                        put_ahead(r, &frame);
                catch_up(r, &a->p);
        }
        take_packet(r, a->kind, &a->p, &a->at);
        free(a);
}

static void take_frame(struct reader *r, const struct capture_frame *frame)
{
        struct packet p;
        enum packet_kind kind = parse(r, frame->p, frame, &p);

        if (kind == PACKET_TCP && awaited(r, &p))
                put_ahead(r, frame);
        else
                take_packet(r, kind, &p, &r->read);
}

static void read_packets(struct reader *r)
{
        struct capture_frame frame;

        while (!r->no_memory)
                if (r->ahead)
                        take_ahead(r);
                else if (read_frame(r, &frame))
                        take_frame(r, &frame);
                else
                        return;
}

static void close_all(struct reader *r)
{
        for (struct tcp_conn_state *c = r->all; c; c = c->later)
                close_conn(r, c);
}

static void free_all(struct reader *r)
{
        while (r->ahead)
                free(unlink_ahead(r, &r->ahead));
        for (struct tcp_conn_state *c = r->all, *next; c; c = next) {
                next = c->later;
                free(c);
        }
}

static int read_all(struct reader *r, const char *path, char *err, size_t err_size)
{
        int rc = 0;

        r->more = 1;
        r->unknown_link = -1;
        read_packets(r);
        if (r->more < 0) {
                snprintf(err, err_size, "%s: %s", path, capture_file_error(r->file));
                rc = -1;
        } else if (r->unknown_link >= 0 && !r->known) {
                snprintf(err, err_size, "%s: link type %d is not supported", path, r->unknown_link);
                rc = -1;
        }
        close_all(r);
        if (r->no_memory) {
                snprintf(err, err_size, "%s: out of memory", path);
                rc = -1;
        }
        return rc;
}

int capture_read(const char *path, const struct capture_ops *ops, void *user, char *err,
                 size_t err_size)
{
        struct capture_file *f = capture_file_open(path, err, err_size);
        struct reader *r;
        int rc = -1;

        if (!f)
                return -1;
        r = calloc(1, sizeof(*r));
        if (r) {
                r->ops = ops;
                r->user = user;
                r->file = f;
                rc = read_all(r, path, err, err_size);
                free_all(r);
        } else {
                snprintf(err, err_size, "%s: out of memory", path);
        }
        free(r);
        capture_file_close(f);
        return rc;
}
