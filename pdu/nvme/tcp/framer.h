/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stream framer: bytes of one direction of an NVMe/TCP connection in, PDUs out; any split of
 * the stream gives the same events. No socket: the caller asks where the next bytes belong
 * (framer_recv_iov), puts them there, says how many (framer_received), and takes events until
 * FRAMER_MORE.
 *
 * Each PDU gives FRAMER_HEADER (header whole, stateless rules and HDGST checked; nothing of the
 * data need be there yet) and then FRAMER_PDU (data whole, DDGST judged), also when it has no data.
 * A common header that breaks a rule is a fault as soon as its 8 bytes are there: what it says of
 * lengths is never believed. After FRAMER_FAULT framer_next() gives nothing else; only the calls
 * that ask about the fault, and framer_detach(), are legal.
 *
 * Whether DATAL and R2TL are multiples of a dword is not judged here but by the tracker, which
 * knows the commands that count bytes (T1.0 3.6.2.8 to 3.6.2.10).
 *
 * Data of up to FRAMER_IN_PLACE bytes stays in the receive buffer and is handed out in place, valid
 * until the next call of framer_next() or framer_recv_iov(). Longer data goes straight to the sink
 * that the owner names at FRAMER_HEADER, or is dropped if it names none. Bytes move within the
 * buffer only when they begin something that would not fit before its end.
 */
#ifndef NVMF_MACHINE_FRAMER_H
#define NVMF_MACHINE_FRAMER_H

#include <sys/uio.h>

#include "pdu/nvme/wire/tcp.h"

enum framer_event { FRAMER_MORE, FRAMER_HEADER, FRAMER_PDU, FRAMER_FAULT };

enum {
        FRAMER_IN_PLACE = 16384,   /* bytes of data; above, a sink is needed */
        FRAMER_BUFFER_MIN = 32768, /* bytes of a receive buffer */
        FRAMER_LOOK_AHEAD = 64,    /* bytes read after data that goes to a sink: they are copied */
};

struct framer {
        enum party sender;             /* whose bytes these are */
        struct pdu_format format;      /* negotiated; set through framer_negotiated() */
        const struct rule_set *waived; /* may be NULL */

        uint8_t *buf; /* attached receive buffer, not owned */
        uint32_t cap, start, end;

        union pdu header; /* of the PDU in hand */
        uint32_t hdgst;   /* as received */
        uint32_t header_got;
        uint32_t pad_left, data_len, data_got, tail_left;
        uint8_t *sink; /* NULL: in place, or dropped */
        const uint8_t *data;
        uint32_t crc; /* running DDGST */
        uint8_t state, ddgst_len;
        uint8_t pad; /* its bytes, one ORed to the other */
        bool ddgst_bad;
        bool holed; /* bytes of its data were passed over */
        struct fault fault;
};

/* Without digests and buffer, at the first PDU that `sender` sends. waived is not copied. */
void framer_init(struct framer *f, enum party sender, const struct rule_set *waived);

/* From the next PDU on: digests and alignment. Call between PDUs only (at FRAMER_PDU of the IC). */
void framer_negotiated(struct framer *f, const struct pdu_format *format);

/*
 * The receive buffer, cap >= FRAMER_BUFFER_MIN bytes, lent by the owner. framer_detach() gives it
 * back if no byte that is still needed lies in it, so that an idle connection holds none; else
 * NULL. After FRAMER_MORE or FRAMER_FAULT only.
 */
void framer_attach(struct framer *f, uint8_t *buf, uint32_t cap);
uint8_t *framer_detach(struct framer *f);
/* Whether it stands between two PDUs: nothing of the next one is there. */
bool framer_idle(const struct framer *f);

/* Where the next bytes belong: 1 or 2 iovecs, never empty ones. A buffer must be attached. After
 * FRAMER_MORE only. */
int framer_recv_iov(struct framer *f, struct iovec iov[2]);
/* n bytes were put there, in order. */
void framer_received(struct framer *f, size_t n);
/* Both, for bytes that lie elsewhere: copies as many of them as have room in one place, at least one
 * of n > 0, and returns how many. Events are taken before the next call. */
size_t framer_feed(struct framer *f, const void *bytes, size_t n);

/* The next n bytes are nowhere, as in a capture that lacks them: passes over as many of them as belong to data longer than
 * FRAMER_IN_PLACE, without looking at each, and returns how many. Of that PDU no data is handed out, and its DDGST is
 * not judged. After FRAMER_MORE only. */
uint32_t framer_skip(struct framer *f, uint32_t n);

/* The next thing that the bytes received contain: the header of a PDU, then the whole of it. MORE: they are
 * used up. FAULT (framer_fault()) stays. */
enum framer_event framer_next(struct framer *f);

/* At FRAMER_HEADER: where data longer than FRAMER_IN_PLACE goes; dst has room for framer_data_len()
 * bytes. Ignored for shorter data, which is handed out in place. */
void framer_sink(struct framer *f, uint8_t *dst);

static inline const union pdu *framer_header(const struct framer *f)
{
        return &f->header;
}

static inline uint32_t framer_data_len(const struct framer *f)
{
        return f->data_len;
}

/* At FRAMER_PDU: the data, in place or the sink; NULL if there is none or it was dropped. */
const uint8_t *framer_data(const struct framer *f);

/* At FRAMER_PDU: DDGST was there and did not match (TCP_DDGST_*, not fatal). */
static inline bool framer_ddgst_bad(const struct framer *f)
{
        return f->ddgst_bad;
}

/* At FRAMER_PDU: not all bytes of PAD were zero (TCP_RSVD_*). */
static inline bool framer_pad_set(const struct framer *f)
{
        return f->pad != 0;
}

/* At FRAMER_FAULT: the rule, FES and FEI (a bad HDGST is its FEI). */
static inline struct fault framer_fault(const struct framer *f)
{
        return f->fault;
}

/* At FRAMER_FAULT: bytes of framer_header() that were received, for the copy in a TermReq: 8 to
 * 128. Of one stream it may be more when more arrived at once: the only thing that a split changes.
 */
uint32_t framer_header_got(const struct framer *f);

#endif
