/* SPDX-License-Identifier: BSD-3-Clause */
#include "hand_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "tls_record.h"

/* --- what goes out -------------------------------------------------------------------------------- */

/* True: nothing is unsent. Once the peer has reset the connection all of it is lost, which is no failure yet: what it has
 * said before that is still to be read. */
static bool flush(struct stream *s)
{
        struct hand_stream *h = hand_stream_of(s);

        while (h->out_at < h->out_len && !h->deaf) {
                const struct iovec iov = { h->out + h->out_at, h->out_len - h->out_at };
                ssize_t put = stream_over_tcp.write(s, &iov, 1);

                if (put < 0 && (errno == EAGAIN || errno == EINTR))
                        return false;
                h->deaf = put < 0;
                h->ended |= h->deaf;
                h->out_at += put < 0 ? 0 : (size_t)put;
        }
        h->out_at = h->out_len = 0;
        return true;
}

bool hand_stream_put(struct stream *s, const void *bytes, size_t len)
{
        struct hand_stream *h = hand_stream_of(s);

        if (len == 0 || len > sizeof(h->out) - h->out_len)
                return false;
        memcpy(h->out + h->out_len, bytes, len);
        h->out_len += len;
        flush(s);
        return true;
}

bool hand_stream_put_record(struct stream *s, uint8_t type, const void *content, size_t len,
                            size_t pad)
{
        uint8_t record[HAND_IN];

        if (len + pad + TLS_RECORD_MORE > sizeof(record))
                return false;
        return hand_stream_put(
            s, record, tls_hand_seal(&hand_stream_of(s)->hand, type, content, len, pad, record));
}

bool hand_stream_put_update(struct stream *s, uint8_t request)
{
        const uint8_t update[] = { TLS_KEY_UPDATE, 0, 0, 1, request };
        struct tls_hand *hand = &hand_stream_of(s)->hand;

        return hand_stream_put_record(s, TLS_HANDSHAKE, update, sizeof(update), 0) &&
               tls_hand_update(hand, hand->self) == 0;
}

static size_t most(const struct hand_stream *h)
{
        return h->piece > 0 ? h->piece : TLS_CONTENT_MAX - h->pad;
}

/* Records of one place, as long as the socket takes them. Bytes; failed: no more can be sent. */
static size_t send_data(struct stream *s, const struct iovec *iov)
{
        struct hand_stream *h = hand_stream_of(s);
        size_t sum = 0;

        while (sum < iov->iov_len && flush(s)) {
                size_t part = iov->iov_len - sum < most(h) ? iov->iov_len - sum : most(h);

                h->failed = (h->ops->sends && !h->ops->sends(s)) ||
                            !hand_stream_put_record(
                                s, TLS_DATA, (const uint8_t *)iov->iov_base + sum, part, h->pad);
                if (h->failed)
                        break;
                sum += part;
        }
        return sum;
}

static ssize_t hand_write(struct stream *s, const struct iovec *iov, int n)
{
        struct hand_stream *h = hand_stream_of(s);
        size_t sum = 0;

        for (int i = 0; i < n && h->ready && !h->failed; i++) {
                size_t part = send_data(s, &iov[i]);

                sum += part;
                if (part < iov[i].iov_len)
                        break;
        }
        errno = h->failed ? EPROTO : EAGAIN;
        return sum > 0 ? (ssize_t)sum : -1;
}

/* --- what comes ----------------------------------------------------------------------------------- */

bool hand_stream_give(struct stream *s, const void *data, size_t len)
{
        struct hand_stream *h = hand_stream_of(s);

        if (len > sizeof(h->data) - h->data_len)
                return false;
        memcpy(h->data + h->data_len, data, len);
        h->data_len += len;
        return true;
}

/* Bytes that came, 0: the end, -1 with errno. */
static ssize_t fill(struct stream *s)
{
        struct hand_stream *h = hand_stream_of(s);
        const struct iovec iov = { h->in + h->in_len, sizeof(h->in) - h->in_len };
        ssize_t n = stream_over_tcp.read(s, &iov, 1);

        if (n > 0)
                h->in_len += (size_t)n;
        h->ended |= n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
        return n;
}

/* What is no record at all ends with what has come. */
static size_t next_record(const struct hand_stream *h)
{
        bool plain = h->in[0] < TLS_CHANGE_CIPHER || h->in[0] > TLS_DATA;

        return plain ? h->in_len : tls_record_len(h->in, h->in_len);
}

/* False: the connection has to end. */
static bool take_records(struct stream *s)
{
        struct hand_stream *h = hand_stream_of(s);

        while (h->in_len > 0 && !h->over) {
                size_t n = next_record(h), taken;

                if (n == 0)
                        return h->in_len < sizeof(h->in);
                taken = h->ops->record(s, h->in, n);
                if (taken == 0)
                        return false;
                h->in_len -= taken;
                memmove(h->in, h->in + taken, h->in_len);
        }
        return true;
}

static ssize_t hand_out(struct hand_stream *h, const struct iovec *iov, int n)
{
        size_t sum = 0;

        for (int i = 0; i < n && h->data_at < h->data_len; i++) {
                size_t part = h->data_len - h->data_at;

                part = part < iov[i].iov_len ? part : iov[i].iov_len;
                memcpy(iov[i].iov_base, h->data + h->data_at, part);
                h->data_at += part;
                sum += part;
        }
        if (h->data_at == h->data_len)
                h->data_at = h->data_len = 0;
        return (ssize_t)sum;
}

static ssize_t hand_read(struct stream *s, const struct iovec *iov, int n)
{
        struct hand_stream *h = hand_stream_of(s);

        while (h->data_len == 0 && !h->over && !h->failed) {
                ssize_t got;

                flush(s);
                got = fill(s);
                if (got <= 0)
                        return got;
                h->failed = !take_records(s);
        }
        if (h->data_len > 0)
                return hand_out(h, iov, n);
        errno = EPROTO;
        return h->over ? 0 : -1;
}

bool hand_stream_skip(struct stream *s, size_t len)
{
        struct hand_stream *h = hand_stream_of(s);
        const struct iovec iov = { h->in, len };

        return len <= sizeof(h->in) && stream_over_tcp.read(s, &iov, 1) == (ssize_t)len;
}

/* --- its life ------------------------------------------------------------------------------------- */

static void announce_close(struct stream *s)
{
        struct hand_stream *h = hand_stream_of(s);

        if (!h->closes && !h->failed && !h->ended && h->ops->closes)
                h->ops->closes(s);
        h->closes = true;
}

static int hand_half_close(struct stream *s)
{
        const struct hand_stream *h = hand_stream_of(s);

        announce_close(s);
        return h->out_at < h->out_len ? 0
                                      : stream_over_tcp.half_close(s); /* else its end says so */
}

static void hand_close(struct stream *s, bool reset)
{
        struct hand_stream *h = hand_stream_of(s);

        if (!reset)
                announce_close(s);
        if (h->ops->gone)
                h->ops->gone(s);
        stream_over_tcp.close(s, reset);
        tls_hand_end(&h->hand);
        free(h);
        s->own = NULL;
}

static uint32_t hand_wants(const struct stream *s, uint32_t events)
{
        const struct hand_stream *h = hand_stream_of(s);
        bool now = events & EPOLLIN && (h->data_len > 0 || h->over || h->failed);

        if (!h->ready)
                events = EPOLLIN; /* the handshake waits for the peer, whatever its user does */
        if (h->out_at < h->out_len)
                events |= EPOLLOUT;
        return now ? events | STREAM_NOW : events;
}

static const struct stream_ops stream_by_hand = { .read = hand_read,
                                                  .write = hand_write,
                                                  .half_close = hand_half_close,
                                                  .close = hand_close,
                                                  .wants = hand_wants };

void hand_stream_begin(struct stream *s, struct hand_stream *h, const struct hand_stream_ops *ops)
{
        h->ops = ops;
        s->own = h;
        s->ops = &stream_by_hand;
}
