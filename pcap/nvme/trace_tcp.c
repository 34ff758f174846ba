/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe/TCP: the two directions of a connection through framers. Bytes are read where the capture
 * has them; only a unit that is spread over packets is put together in a buffer of the flow.
 */
#include "family.h"
#include "pcap/trace/tracer.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/crc32c.h"
#include "pdu/nvme/tcp/framer.h"

enum {
        SINK_MAX = 64 << 20,   /* bytes of data of a PDU; longer data is not kept, */
        SINKS_ALL = 256 << 20, /* nor more of all PDUs that are incomplete */
};

struct direction {
        struct framer framer;
        uint8_t *carry; /* FRAMER_BUFFER_MIN bytes, while a unit is incomplete */
        uint8_t *sink;  /* data of the PDU in hand, sink_len bytes; NULL: it is not kept */
        size_t sink_len;
        bool lost;                  /* after a gap or a fault: in search of the next PDU */
        bool cut;                   /* the PDU in hand has holes */
        uint64_t fed;               /* bytes of the stream so far, holes included */
        uint64_t ends;              /* where the PDU in hand does */
        uint64_t skipped;           /* bytes since it is lost */
        struct capture_place first; /* where the header in hand began */
};

struct trace_flow {
        struct trace_conn pub;
        struct direction dir[2];
        uint8_t hpda;
        bool negotiated, guessed; /* guessed: formats are taken from the PDUs themselves */
        struct capture_end end[2];
};

/* --- what a PDU looks like -------------------------------------------------------------------- */

static enum trace_guess is_icreq(const uint8_t *p, size_t n)
{
        static const uint8_t icreq[8] = { PDU_ICREQ, 0, 128, 0, 128, 0, 0, 0 };

        if (memcmp(p, icreq, n < sizeof(icreq) ? n : sizeof(icreq)) != 0)
                return TRACE_NO;
        return n >= sizeof(icreq) ? TRACE_YES : TRACE_PERHAPS;
}

/* A common header that fits its type in every way. */
static bool is_common(const struct pdu_ch *ch, enum party sender)
{
        const struct pdu_info *info = pdu_info(ch->type);
        uint32_t plen = le32_get(ch->plen), head;

        if (!info || info->hlen == 0 || info->sender != sender || ch->hlen != info->hlen ||
            ch->flags & ~info->flags)
                return false;
        head = ch->hlen + (info->has_hdgst && ch->flags & PDU_HDGSTF ? PDU_DIGEST_LEN : 0u);
        if (ch->type == PDU_H2C_TERM || ch->type == PDU_C2H_TERM)
                return plen >= head && plen <= PDU_TERM_MAX;
        if (!info->has_data || ch->pdo == 0)
                return plen == head;
        return ch->pdo >= head && ch->pdo <= PDU_PDO_MAX && ch->pdo % 4 == 0 && plen > ch->pdo;
}

/* An IC's header but for one field; one of another PDU; or one of no type at all that has no data. */
static enum trace_guess resembles(const uint8_t *p, size_t n)
{
        const struct pdu_ch *ch = (const void *)p;
        uint32_t plen;
        int wrong;

        if (n < sizeof(*ch))
                return TRACE_PERHAPS;
        plen = le32_get(ch->plen);
        wrong = (ch->type != PDU_ICREQ && ch->type != PDU_ICRESP) + (ch->flags != 0) +
                (ch->hlen != sizeof(struct pdu_icreq)) + (ch->pdo != 0) +
                (plen != sizeof(struct pdu_icreq));
        if (wrong <= 1 || is_common(ch, PARTY_HOST) || is_common(ch, PARTY_CONTROLLER))
                return TRACE_YES;
        return ch->flags == 0 && ch->pdo == 0 && ch->hlen >= sizeof(*ch) && plen == ch->hlen
                   ? TRACE_YES
                   : TRACE_NO;
}

/* PSDT 00b says PRPs, which nobody can use here: all else is to be as in a command of a host that means an SGL by it. */
static bool is_command_without_psdt(const union pdu *h, uint32_t data)
{
        static const uint8_t zero[sizeof(struct sgl)];
        const union sqe *s = &h->cmd.sqe;
        uint32_t len = le32_get(s->sgl.len);

        if (s->flags & ~SQE_FUSE_MASK || le32_get(s->cdw2) || le32_get(s->cdw3) ||
            le64_get(s->mptr) || le64_get(s->sgl.addr) ||
            memcmp(s->sgl.rsvd, zero, sizeof(s->sgl.rsvd)) != 0)
                return false;
        if (h->ch.pdo > 0)
                return s->sgl.id == SGL_IN_CAPSULE && len == data;
        if (memcmp(&s->sgl, zero, sizeof(zero)) == 0)
                return s->opc || le32_get(s->nsid); /* Flush of no namespace: zeroes */
        return s->sgl.id == SGL_TRANSPORT && len > 0;
}

static bool is_command(const union pdu *h, uint32_t data)
{
        const struct sgl *sgl = &h->cmd.sqe.sgl;

        if ((h->cmd.sqe.flags & SQE_PSDT_MASK) == 0)
                return is_command_without_psdt(h, data);
        return (h->cmd.sqe.flags & SQE_PSDT_MASK) == SQE_PSDT_SGL &&
               (h->ch.pdo == 0 || (sgl->id == SGL_IN_CAPSULE && le32_get(sgl->len) == data));
}

static bool is_term(const union pdu *h)
{
        uint16_t fes = le16_get(h->term.fes);

        return fes >= FES_INVALID_HEADER_FIELD && fes <= FES_UNSUPPORTED_PARAMETER;
}

/* What carries data says twice how much; payload that looks like the rest is not rare enough. */
static bool is_consistent(const union pdu *h)
{
        uint32_t ddgst = h->ch.flags & PDU_DDGSTF ? PDU_DIGEST_LEN : 0;
        uint32_t data = le32_get(h->ch.plen) - h->ch.pdo - ddgst;

        switch (h->ch.type) {
        case PDU_CAPSULE_CMD:
                return is_command(h, data);
        case PDU_H2C_TERM:
        case PDU_C2H_TERM:
                return is_term(h);
        case PDU_C2H_DATA:
        case PDU_H2C_DATA:
                return h->ch.pdo > 0 && le32_get(h->data.length) == data;
        default:
                return true;
        }
}

static bool is_digest_right(const union pdu *h, const uint8_t *p, size_t n)
{
        le32_t digest;

        if (!pdu_info(h->ch.type)->has_hdgst || !(h->ch.flags & PDU_HDGSTF))
                return true;
        if (n < h->ch.hlen + sizeof(digest))
                return false;
        memcpy(&digest, p + h->ch.hlen, sizeof(digest));
        return le32_get(digest) == crc32c(p, h->ch.hlen);
}

static bool is_plausible(const uint8_t *p, size_t n, enum party sender)
{
        union pdu h;
        uint32_t plen;

        if (n < sizeof(h.ch))
                return false;
        memcpy(&h.ch, p, sizeof(h.ch));
        if (!is_common(&h.ch, sender) || n < h.ch.hlen)
                return false;
        memcpy(&h, p, h.ch.hlen);
        if (!is_consistent(&h) || !is_digest_right(&h, p, n))
                return false;
        plen = le32_get(h.ch.plen);
        if (plen >= n || n - plen < sizeof(h.ch))
                return true;
        memcpy(&h.ch, p + plen, sizeof(h.ch));
        return is_common(&h.ch, sender);
}

/* --- data that does not stay in place ---------------------------------------------------------- */

static void drop_sink(struct tracer *t, struct direction *d)
{
        t->sinks -= d->sink_len;
        d->sink_len = 0;
        free(d->sink);
        d->sink = NULL;
}

static void get_sink(struct tracer *t, struct direction *d)
{
        uint32_t n = d->framer.data_len;

        drop_sink(t, d);
        if (!t->options.data || n <= FRAMER_IN_PLACE || n > SINK_MAX || n > SINKS_ALL - t->sinks)
                return;
        d->sink = malloc(n);
        if (!d->sink) {
                t->no_memory = true;
                return;
        }
        t->sinks += d->sink_len = n;
        framer_sink(&d->framer, d->sink);
}

/* --- life ------------------------------------------------------------------------------------- */

static struct trace_flow *flow_open(struct tracer *t, const struct capture_conn *c, bool begun)
{
        struct trace_flow *f = calloc(1, sizeof(*f));

        if (!f)
                return NULL;
        f->pub.transport = TRACE_TCP;
        f->pub.midstream = !begun;
        f->guessed = !begun;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                f->pub.end[p] = c->end[p];
                f->pub.whole_until[p] = UINT64_MAX;
                f->dir[p].lost = !begun;
                framer_init(&f->dir[p].framer, p, NULL);
        }
        trace_open(t, &f->pub);
        return f;
}

static void flow_close(struct tracer *t, struct trace_flow *f)
{
        trace_emit_kind(t, &f->pub, TRACE_CLOSED, PARTY_HOST);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                free(f->dir[p].carry);
                drop_sink(t, &f->dir[p]);
        }
        free(f);
}

/* --- PDUs ------------------------------------------------------------------------------------- */

static void pdu_event(struct tracer *t, struct trace_flow *f, enum party sender,
                      enum trace_kind kind, struct trace_event *e, struct trace_pdu *pdu)
{
        struct direction *d = &f->dir[sender];

        *e = trace_event_of(t, &f->pub, kind, sender);
        e->first = d->first;
        e->pdu = pdu;
        *pdu = (struct trace_pdu) {
                .h = framer_header(&d->framer),
                .data_len = framer_data_len(&d->framer),
                .hdgst = d->framer.hdgst,
                .format = &d->framer.format,
        };
}

static uint32_t have(const struct framer *f)
{
        return f->end - f->start;
}

static void take_header(struct tracer *t, struct trace_flow *f, enum party sender)
{
        struct direction *d = &f->dir[sender];
        struct framer *fr = &d->framer;
        struct trace_pdu pdu;
        struct trace_event e;

        d->ends = d->fed - have(fr) + fr->pad_left + fr->data_len + fr->ddgst_len + fr->tail_left;
        d->cut = false;
        d->first = t->at;
        pdu_event(t, f, sender, TRACE_HEADER, &e, &pdu);
        trace_emit(t, &e);
        get_sink(t, d);
}

/* What both ICs settle (T1.0 3.6.2.2, 3.6.2.3): the same as the tracker does. */
static void negotiate(struct trace_flow *f, const union pdu *h)
{
        struct pdu_format format = {
                .hdgst = h->icresp.dgst & PDU_DGST_HEADER,
                .ddgst = h->icresp.dgst & PDU_DGST_DATA,
                .pda = h->icresp.cpda,
        };

        framer_negotiated(&f->dir[PARTY_HOST].framer, &format);
        format.pda = f->hpda;
        framer_negotiated(&f->dir[PARTY_CONTROLLER].framer, &format);
        f->negotiated = true;
        f->guessed = false;
}

/* Nobody saw the ICs: the flags of a PDU tell what its sender has agreed to. */
static void guess_format(struct trace_flow *f, const struct pdu_ch *ch)
{
        const struct pdu_info *info = pdu_info(ch->type);
        struct pdu_format format = f->dir[PARTY_HOST].framer.format;

        if (!info || !info->has_hdgst)
                return;
        format.hdgst = ch->flags & PDU_HDGSTF;
        if (info->has_data && ch->pdo > 0)
                format.ddgst = ch->flags & PDU_DDGSTF;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                framer_negotiated(&f->dir[p].framer, &format);
}

static void guess_next(struct trace_flow *f, const struct framer *fr)
{
        struct pdu_ch ch;

        if (have(fr) < sizeof(ch))
                return;
        memcpy(&ch, fr->buf + fr->start, sizeof(ch));
        guess_format(f, &ch);
}

static void take_pdu(struct tracer *t, struct trace_flow *f, enum party sender)
{
        struct direction *d = &f->dir[sender];
        struct trace_pdu pdu;
        struct trace_event e;

        pdu_event(t, f, sender, TRACE_PDU, &e, &pdu);
        pdu.data = pdu.data_len > 0 ? framer_data(&d->framer) : NULL;
        pdu.cut = d->cut;
        pdu.ddgst_bad = framer_ddgst_bad(&d->framer) && !d->cut;
        pdu.pad_set = framer_pad_set(&d->framer);
        t->totals.pdus++;
        trace_emit(t, &e);
        drop_sink(t, d);
        if (pdu.h->ch.type == PDU_ICREQ)
                f->hpda = pdu.h->icreq.hpda;
        else if (pdu.h->ch.type == PDU_ICRESP && !f->negotiated)
                negotiate(f, pdu.h);
        if (f->guessed)
                guess_next(f, &d->framer);
}

/* KickStart discovery (B2.2 8.3.2.2.2.1), after the ICs, is lawful, and not read here. */
static bool is_kickstart(const struct trace_flow *f, enum party sender)
{
        uint8_t type = framer_header(&f->dir[sender].framer)->ch.type;

        return f->negotiated && type == (sender == PARTY_HOST ? PDU_KDREQ : PDU_KDRESP);
}

static void take_fault(struct tracer *t, struct trace_flow *f, enum party sender)
{
        struct direction *d = &f->dir[sender];
        struct trace_pdu pdu;
        struct trace_event e;

        d->lost = true;
        d->skipped = 0;
        /* or the thread was lost: what is left out until it is found is a gap */
        if (f->guessed || is_kickstart(f, sender)) {
                trace_gap(t, &f->pub, sender, (struct trace_gap) { 0 });
                return;
        }
        pdu_event(t, f, sender, TRACE_FAULT, &e, &pdu);
        e.first = t->at;
        pdu.data_len = 0;
        pdu.fault = framer_fault(&d->framer);
        pdu.header_len = framer_header_got(&d->framer);
        trace_emit(t, &e);
}

/* False: the stream cannot be followed any more. */
static bool take_events(struct tracer *t, struct trace_flow *f, enum party sender)
{
        struct framer *fr = &f->dir[sender].framer;

        for (;;) {
                switch (framer_next(fr)) {
                case FRAMER_HEADER:
                        take_header(t, f, sender);
                        break;
                case FRAMER_PDU:
                        take_pdu(t, f, sender);
                        break;
                case FRAMER_FAULT:
                        take_fault(t, f, sender);
                        return false;
                case FRAMER_MORE:
                        return true;
                }
        }
}

/* --- bytes ------------------------------------------------------------------------------------ */

static bool get_carry(struct tracer *t, struct direction *d)
{
        if (!d->carry)
                d->carry = malloc(FRAMER_BUFFER_MIN);
        if (!d->carry)
                t->no_memory = true;
        return d->carry;
}

static bool has_sink(const struct direction *d)
{
        return d->framer.sink && d->framer.data_got < d->framer.data_len;
}

/* Into the framer's own places until it stands between units. Returns how many bytes. */
static size_t feed_copies(struct tracer *t, struct trace_flow *f, enum party sender,
                          const uint8_t *p, size_t n)
{
        struct direction *d = &f->dir[sender];
        size_t done = 0;

        while (done < n && (have(&d->framer) > 0 || has_sink(d))) {
                size_t part = framer_feed(&d->framer, p + done, n - done);

                d->fed += part;
                done += part;
                if (take_events(t, f, sender))
                        continue;
                d->skipped += have(&d->framer);
                framer_attach(&d->framer, NULL, 0);
                break;
        }
        return done;
}

static void keep_rest(struct tracer *t, struct direction *d)
{
        struct framer *fr = &d->framer;
        const uint8_t *p = fr->buf + fr->start;
        uint32_t left = have(fr);

        framer_attach(fr, NULL, 0);
        if (left == 0 || !get_carry(t, d))
                return;
        framer_attach(fr, d->carry, FRAMER_BUFFER_MIN);
        memcpy(d->carry, p, left);
        fr->end = left;
}

/* Where they lie in the packet. What is left of them begins a unit that other packets go on with;
 * after a fault the rest is searched. */
static size_t feed_in_place(struct tracer *t, struct trace_flow *f, enum party sender,
                            const uint8_t *p, uint32_t n)
{
        struct direction *d = &f->dir[sender];
        struct framer *fr = &d->framer;
        uint32_t done = n;

        framer_attach(fr, (uint8_t *)(uintptr_t)p, n); /* written to only when room is asked for */
        framer_received(fr, n);
        d->fed += n;
        if (take_events(t, f, sender)) {
                keep_rest(t, d);
                return done;
        }
        done = fr->start + 1;
        d->fed -= n - done;
        d->skipped = 1;
        framer_attach(fr, NULL, 0);
        return done;
}

static size_t feed(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                   size_t n)
{
        struct direction *d = &f->dir[sender];

        if (f->guessed && d->fed >= d->ends && n >= sizeof(struct pdu_ch) && have(&d->framer) == 0)
                guess_format(f, (const void *)p);
        if (have(&d->framer) == 0 && !has_sink(d))
                return feed_in_place(t, f, sender, p,
                                     n < UINT32_MAX / 2 ? (uint32_t)n : UINT32_MAX / 2);
        if (!d->framer.buf && get_carry(t, d))
                framer_attach(&d->framer, d->carry, FRAMER_BUFFER_MIN);
        return d->framer.buf ? feed_copies(t, f, sender, p, n) : n;
}

/* --- gaps ------------------------------------------------------------------------------------- */

static void found(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p)
{
        struct direction *d = &f->dir[sender];
        struct pdu_format format = d->framer.format;
        struct trace_event e = trace_event_of(t, &f->pub, TRACE_FOUND, sender);
        struct pdu_ch ch;

        memcpy(&ch, p, sizeof(ch));
        framer_init(&d->framer, sender, NULL);
        framer_negotiated(&d->framer, &format);
        if (f->guessed)
                guess_format(f, &ch);
        d->lost = false;
        e.gap.bytes = d->skipped;
        d->skipped = 0;
        trace_emit(t, &e);
}

/* Whether its digests are those that both sides agreed to; nobody saw that: they may be. */
static bool is_agreed(const struct trace_flow *f, enum party sender, const uint8_t *p)
{
        const struct pdu_format *format = &f->dir[sender].framer.format;
        const struct pdu_info *info = pdu_info(p[0]);
        const struct pdu_ch *ch = (const void *)p;

        if (!f->negotiated || !info->has_hdgst)
                return true;
        if (!(ch->flags & PDU_HDGSTF) != !format->hdgst)
                return false;
        return !info->has_data || ch->pdo == 0 || !(ch->flags & PDU_DDGSTF) == !format->ddgst;
}

/* The next PDU that is beyond doubt. It has to begin, with its type's header, within a packet.
 * Returns how many bytes are not it. */
static size_t search(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                     size_t n)
{
        size_t i;

        for (i = 0; i < n; i++)
                if ((is_plausible(p + i, n - i, sender) && is_agreed(f, sender, p + i)) ||
                    (sender == PARTY_HOST && is_icreq(p + i, n - i) == TRACE_YES))
                        break;
        f->dir[sender].skipped += i;
        if (i < n)
                found(t, f, sender, p + i);
        return i;
}

static void flow_data(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                      size_t n)
{
        while (n > 0) {
                size_t done =
                    f->dir[sender].lost ? search(t, f, sender, p, n) : feed(t, f, sender, p, n);

                p += done;
                n -= done;
        }
}

/* A hole in the data of a PDU whose header is known is no loss of the thread: how much of n bytes is one. */
static uint32_t within_data(const struct direction *d, uint32_t n)
{
        if (d->lost || d->fed >= d->ends)
                return 0;
        return d->ends - d->fed < n ? (uint32_t)(d->ends - d->fed) : n;
}

/* It costs the same however long it is: what lies in long data is passed over, but for its last byte, with which the PDU
 * may be over. */
static void feed_hole(struct tracer *t, struct trace_flow *f, enum party sender, uint32_t n)
{
        static const uint8_t zeroes[16384];
        struct direction *d = &f->dir[sender];
        uint32_t skipped = framer_skip(&d->framer, n - 1);

        d->cut = true;
        d->fed += skipped;
        n -= skipped;
        if (skipped > 0)
                drop_sink(t, d);
        t->totals.gaps++;
        while (n > 0) {
                uint32_t part = n < sizeof(zeroes) ? n : (uint32_t)sizeof(zeroes);

                flow_data(t, f, sender, zeroes, part);
                n -= part;
        }
}

static void flow_gap(struct tracer *t, struct trace_flow *f, enum party sender, uint32_t n)
{
        struct direction *d = &f->dir[sender];
        uint32_t hole = within_data(d, n);

        if (hole > 0)
                feed_hole(t, f, sender, hole);
        if (hole > 0 && hole == n)
                return;
        n -= hole; /* 0: nobody knows how many */
        framer_attach(&d->framer, NULL, 0);
        drop_sink(t, d);
        d->lost = true;
        d->skipped = 0;
        if (!f->negotiated)
                f->guessed = true;
        trace_gap(t, &f->pub, sender, (struct trace_gap) { .bytes = n });
}

static struct trace_conn *flow_conn(struct trace_flow *f)
{
        return &f->pub;
}

const struct trace_stream nvme_tcp_stream = {
        .begins = is_icreq,
        .resembles = resembles,
        .plausible = is_plausible,
        .open = flow_open,
        .data = flow_data,
        .gap = flow_gap,
        .close = flow_close,
        .conn = flow_conn,
};
