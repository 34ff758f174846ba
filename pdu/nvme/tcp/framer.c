/* SPDX-License-Identifier: BSD-3-Clause */
#include "framer.h"

#include <string.h>

#include "pdu/core/asan.h"
#include "pdu/core/crc32c.h"
#include "pdu/core/plant.h"

enum framer_state {
        AT_COMMON, /* between PDUs, or some of the common header is there */
        AT_HEAD,   /* common header judged, waits for the rest of the header and HDGST */
        AT_PLACE,  /* body that stays in the buffer */
        AT_STREAM, /* data that goes to a sink or nowhere */
        AT_DDGST,  /* of such data */
        AT_TAIL,   /* bytes of PLEN that nothing accounts for: only where rules are waived */
        AT_FAULT,
};

void framer_init(struct framer *f, enum party sender, const struct rule_set *waived)
{
        *f = (struct framer) { .sender = sender, .waived = waived, .state = AT_COMMON };
}

void framer_negotiated(struct framer *f, const struct pdu_format *format)
{
        f->format = *format;
}

/* --- the receive buffer ----------------------------------------------------------------------- */

/* After what was received a sanitizer sees whoever reads. */
static void fence(const struct framer *f)
{
        ASAN_UNPOISON_MEMORY_REGION(f->buf, f->end);
        ASAN_POISON_MEMORY_REGION(f->buf + f->end, f->cap - f->end);
}

static void lay_open(const struct framer *f)
{
        ASAN_UNPOISON_MEMORY_REGION(f->buf, f->cap);
}

void framer_attach(struct framer *f, uint8_t *buf, uint32_t cap)
{
        lay_open(f);
        f->buf = buf;
        f->cap = cap;
        f->start = f->end = 0;
}

uint8_t *framer_detach(struct framer *f)
{
        uint8_t *buf = f->buf;

        if (f->start != f->end && f->state != AT_FAULT)
                return NULL;
        framer_attach(f, NULL, 0);
        return buf;
}

static uint32_t have(const struct framer *f)
{
        return f->end - f->start;
}

bool framer_idle(const struct framer *f)
{
        return have(f) == 0 && (f->state == AT_COMMON || f->state == AT_FAULT ||
                                (f->state == AT_TAIL && f->tail_left == 0));
}

static uint32_t least(size_t a, size_t b)
{
        return (uint32_t)(a < b ? a : b);
}

/* Bytes from f->start on that have to lie in the buffer together. */
static uint32_t wanted(const struct framer *f)
{
        if (f->state == AT_PLACE)
                return f->pad_left + f->data_len + f->ddgst_len;
        return PDU_HEADER_MAX + PDU_DIGEST_LEN;
}

/* Room after what is there; that moves only if the unit it begins would not fit before the end. */
static struct iovec room(struct framer *f)
{
        if (f->start == f->end) {
                f->start = f->end = 0;
        } else if (f->cap - f->start < wanted(f)) {
                memmove(f->buf, f->buf + f->start, have(f));
                f->end -= f->start;
                f->start = 0;
        }
        return (struct iovec) { f->buf + f->end, f->cap - f->end };
}

int framer_recv_iov(struct framer *f, struct iovec iov[2])
{
        lay_open(f);
        iov[0] = room(f);
        if (f->state != AT_STREAM || !f->sink)
                return 1;
        if (f->pad_left > 0) {
                iov[0].iov_len = f->pad_left;
                iov[1] = (struct iovec) { f->sink, f->data_len };
        } else {
                iov[0] = (struct iovec) { f->sink + f->data_got, f->data_len - f->data_got };
                iov[1] = (struct iovec) { f->buf, FRAMER_LOOK_AHEAD };
        }
        return 2;
}

static void look_at_pad(struct framer *f, const uint8_t *p, uint32_t n)
{
        while (n > 0)
                f->pad |= p[--n];
}

/* The next n bytes are at p; says how many of them are PAD. */
static uint32_t take_pad(struct framer *f, const uint8_t *p, size_t n)
{
        uint32_t len = least(n, f->pad_left);

        look_at_pad(f, p, len);
        f->pad_left -= len;
        return len;
}

/* The next n bytes are at p; says how many of them are data. */
static uint32_t take_data(struct framer *f, const uint8_t *p, size_t n)
{
        uint32_t len = least(n, f->data_len - f->data_got);

        if (f->ddgst_len > 0 && !f->holed)
                f->crc = crc32c_more(f->crc, p, len);
        f->data_got += len;
        return len;
}

void framer_received(struct framer *f, size_t n)
{
        if (f->state == AT_STREAM && f->sink) {
                n -= take_pad(f, f->buf + f->end, n);
                n -= take_data(f, f->sink + f->data_got, n);
        }
        f->end += (uint32_t)n;
        fence(f);
}

size_t framer_feed(struct framer *f, const void *bytes, size_t n)
{
        struct iovec iov[2];

        framer_recv_iov(f, iov);
        if (n > iov[0].iov_len)
                n = iov[0].iov_len;
        memcpy(iov[0].iov_base, bytes, n);
        framer_received(f, n);
        return n;
}

uint32_t framer_skip(struct framer *f, uint32_t n)
{
        uint32_t pad = least(n, f->pad_left), data = least(n - pad, f->data_len - f->data_got);

        if (f->state != AT_STREAM)
                return 0;
        f->pad_left -= pad;
        f->data_got += data;
        f->holed = true;
        f->sink = NULL;
        return pad + data;
}

/* --- header ----------------------------------------------------------------------------------- */

static enum framer_event fail(struct framer *f, struct fault fault, uint32_t got)
{
        memcpy(&f->header, f->buf + f->start, got);
        f->header_got = got;
        f->fault = fault;
        f->state = AT_FAULT;
        return FRAMER_FAULT;
}

/* By type; `unknown` where a waived rule let in one that has none. */
static uint32_t header_len(const union pdu *h, uint32_t unknown)
{
        const struct pdu_info *info = pdu_info(h->ch.type);

        return info && info->hlen ? info->hlen : unknown;
}

/* When the common header lies: how much of the header it seems to begin is here. */
static uint32_t header_here(const struct framer *f)
{
        uint32_t len = header_len(&f->header, f->header.ch.hlen);

        if (len < sizeof(struct pdu_ch))
                len = sizeof(struct pdu_ch);
        return least(least(len, PDU_HEADER_MAX), have(f));
}

static enum framer_event read_common(struct framer *f)
{
        struct fault fault;

        if (have(f) < sizeof(struct pdu_ch))
                return FRAMER_MORE;
        memcpy(&f->header.ch, f->buf + f->start, sizeof(struct pdu_ch));
        fault = pdu_check_common(&f->header.ch, f->sender, &f->format, f->waived);
        if (PLANTED(C2H_HLEN) && f->sender == PARTY_CONTROLLER)
                fault = (struct fault) { 0 };
        if (is_fault(fault))
                return fail(f, fault, header_here(f));
        f->state = AT_HEAD;
        return FRAMER_HEADER;
}

static struct fault check_digest(struct framer *f, uint32_t hlen)
{
        enum rule_id rule = f->sender == PARTY_HOST ? TCP_HDGST_H2C : TCP_HDGST_C2H;
        struct fault fault = { 0 };

        f->hdgst = (uint32_t)le_get(f->buf + f->start + hlen, PDU_DIGEST_LEN);
        if (f->hdgst == crc32c(f->header.bytes, hlen) || rule_in(f->waived, rule))
                return fault;
        fault = rule_fault(rule);
        fault.place = f->hdgst;
        return fault;
}

/*
 * Lengths that are no multiple of a dword are for the tracker to judge: some commands count bytes.
 * pdu_check_header() names these rules only when nothing else is wrong.
 */
static bool needs_the_command(enum rule_id rule)
{
        return rule == TCP_C2H_DWORD_LENGTH || rule == TCP_H2C_DWORD_LENGTH ||
               rule == TCP_R2T_DWORD_LENGTH;
}

static struct fault check_header(struct framer *f, uint32_t hlen, uint32_t head)
{
        struct fault fault = { 0 };

        if (head > hlen)
                fault = check_digest(f, hlen);
        if (!is_fault(fault))
                fault = pdu_check_header(&f->header, &f->format, f->waived);
        return needs_the_command(fault.rule) ? (struct fault) { 0 } : fault;
}

/* What follows the head: PAD, DATA, DDGST. They end with PLEN unless rules are waived. */
static void measure_body(struct framer *f, uint32_t head)
{
        uint32_t plen = le32_get(f->header.ch.plen), end;

        f->data_len = pdu_data_len(&f->header, &f->format);
        f->pad_left = f->data_len > 0 ? pdu_data_start(&f->header, &f->format) - head : 0;
        if (PLANTED(PDO_WRAP) && f->data_len > 0)
                f->pad_left = f->header.ch.pdo - head;
        f->ddgst_len = pdu_has_ddgst(&f->header, &f->format) ? PDU_DIGEST_LEN : 0;
        end = head + f->pad_left + f->data_len + f->ddgst_len;
        f->tail_left = plen > end ? plen - end : 0;
        f->data_got = f->crc = 0;
        f->sink = NULL;
        f->data = NULL;
        f->pad = 0;
        f->ddgst_bad = f->holed = false;
        f->state = f->data_len <= FRAMER_IN_PLACE ? AT_PLACE : AT_STREAM;
}

static enum framer_event read_head(struct framer *f)
{
        uint32_t head = pdu_head_len(&f->header, &f->format);
        uint32_t hlen = header_len(&f->header, sizeof(struct pdu_ch));
        struct fault fault;

        if (PLANTED(C2H_HLEN) && f->sender == PARTY_CONTROLLER)
                hlen = f->header.ch.hlen;
        if (have(f) < head)
                return FRAMER_MORE;
        memcpy(&f->header, f->buf + f->start, hlen);
        fault = check_header(f, hlen, head);
        if (is_fault(fault))
                return fail(f, fault, hlen);
        f->start += head;
        measure_body(f, head);
        return FRAMER_HEADER;
}

/* --- body ------------------------------------------------------------------------------------- */

static void judge_data(struct framer *f, const uint8_t *ddgst)
{
        enum rule_id rule = f->sender == PARTY_HOST ? TCP_DDGST_H2C : TCP_DDGST_C2H;

        f->ddgst_bad =
            !f->holed && f->crc != le_get(ddgst, PDU_DIGEST_LEN) && !rule_in(f->waived, rule);
}

static enum framer_event read_place(struct framer *f)
{
        uint8_t *data = f->buf + f->start + f->pad_left;

        if (have(f) < wanted(f))
                return FRAMER_MORE;
        look_at_pad(f, f->buf + f->start, f->pad_left);
        f->start += wanted(f);
        f->state = AT_TAIL;
        if (f->data_len > 0)
                f->data = data;
        take_data(f, data, f->data_len);
        if (f->ddgst_len > 0)
                judge_data(f, data + f->data_len);
        return FRAMER_PDU;
}

/* What of the data came into the buffer, before its header was read or with the bytes before it. */
static void read_stream(struct framer *f)
{
        uint32_t len;

        f->start += take_pad(f, f->buf + f->start, have(f));
        len = least(have(f), f->data_len - f->data_got);
        if (f->sink)
                memcpy(f->sink + f->data_got, f->buf + f->start, len);
        f->start += take_data(f, f->buf + f->start, len);
        if (f->data_got == f->data_len)
                f->state = AT_DDGST;
}

static enum framer_event read_ddgst(struct framer *f)
{
        if (have(f) < f->ddgst_len)
                return FRAMER_MORE;
        if (f->ddgst_len > 0)
                judge_data(f, f->buf + f->start);
        f->start += f->ddgst_len;
        f->data = f->sink;
        f->state = AT_TAIL;
        return FRAMER_PDU;
}

static void skip_tail(struct framer *f)
{
        uint32_t len = least(have(f), f->tail_left);

        f->start += len;
        f->tail_left -= len;
        if (f->tail_left == 0)
                f->state = AT_COMMON;
}

enum framer_event framer_next(struct framer *f)
{
        if (!f->buf)
                return f->state == AT_FAULT ? FRAMER_FAULT : FRAMER_MORE;
        if (f->state == AT_TAIL)
                skip_tail(f);
        if (f->state == AT_COMMON) {
                enum framer_event e = read_common(f);

                if (e != FRAMER_HEADER)
                        return e;
        }
        if (f->state == AT_STREAM)
                read_stream(f);
        switch ((enum framer_state)f->state) {
        case AT_HEAD:
                return read_head(f);
        case AT_PLACE:
                return read_place(f);
        case AT_DDGST:
                return read_ddgst(f);
        case AT_FAULT:
                return FRAMER_FAULT;
        case AT_COMMON:
        case AT_STREAM:
        case AT_TAIL:
                break;
        }
        return FRAMER_MORE;
}

/* --- what the owner asks ---------------------------------------------------------------------- */

void framer_sink(struct framer *f, uint8_t *dst)
{
        if (f->state == AT_STREAM)
                f->sink = dst;
}

const uint8_t *framer_data(const struct framer *f)
{
        return f->data;
}

uint32_t framer_header_got(const struct framer *f)
{
        return f->header_got;
}
