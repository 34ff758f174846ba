/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A byte stream over TLS by hand (tls_hand.h), in place of TCP's: its owner is shown each record that comes,
 * says what becomes of it, and sends whatever it wants between the records of data. For tests and for peers
 * that break rules on purpose.
 */
#ifndef NVMF_NVME_IO_HAND_STREAM_H
#define NVMF_NVME_IO_HAND_STREAM_H

#include "pdu/io/stream.h"
#include "tls_hand.h"

struct hand_stream_ops {
        /* What came: a whole record, or, where it is no record, all of it. How many bytes it was, to be passed
         * over; 0: the connection has to end. */
        size_t (*record)(struct stream *s, uint8_t *record, size_t len);
        /* A record of data is about to be sent. False: the connection has to end. NULL: nothing is done. */
        bool (*sends)(struct stream *s);
        /* Its user closes, or sends no more, and has not reset it. */
        void (*closes)(struct stream *s);
        /* It is closed: what the owner has of it, apart from its memory. */
        void (*gone)(struct stream *s);
};

enum { HAND_IN = TLS_SEALED_MAX + 4096, HAND_OUT = 4 * TLS_SEALED_MAX };

/* stream.own, by malloc(); its owner may have more after it. Zeroed. */
struct hand_stream {
        const struct hand_stream_ops *ops;
        struct tls_hand hand;
        size_t piece, pad; /* bytes of data in a record of ours at most (0: any), of its padding */
        bool ready;        /* data may be sent */
        bool over;         /* what comes is not looked at any more, and reads as the end */
        bool ended, deaf;  /* the peer has ended the connection; it takes nothing any more */
        bool failed, closes; /* nothing more can be done with it; its user has closed it */
        uint8_t in[HAND_IN]; /* records, the last one perhaps not whole */
        size_t in_len;
        uint8_t data[HAND_IN]; /* for who reads */
        size_t data_at, data_len;
        uint8_t out[HAND_OUT];
        size_t out_at, out_len;
};

/* Puts it in place; it is freed with the stream. */
void hand_stream_begin(struct stream *s, struct hand_stream *h, const struct hand_stream_ops *ops);
/* Reads and drops what has been looked at and is still there, before anything else is read; at most HAND_IN bytes. False:
 * it is not. */
bool hand_stream_skip(struct stream *s, size_t len);

static inline struct hand_stream *hand_stream_of(const struct stream *s)
{
        return s->own;
}

/* Bytes as they are, or the next record of ours, go out. False: there is no room, or it cannot be computed. */
bool hand_stream_put(struct stream *s, const void *bytes, size_t len);
bool hand_stream_put_record(struct stream *s, uint8_t type, const void *content, size_t len,
                            size_t pad);
/* KeyUpdate with this request_update; what follows is under the next keys. */
bool hand_stream_put_update(struct stream *s, uint8_t request);
/* Data for who reads. False: there is no room. */
bool hand_stream_give(struct stream *s, const void *data, size_t len);

#endif
