/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "pdu/core/plant.h"

_Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT, "events of a loop have the values of "
                                                         "poll(2)");

static size_t bytes_in(const struct iovec *iov, int n)
{
        size_t bytes = 0;

        while (n-- > 0)
                bytes += iov[n].iov_len;
        return bytes;
}

/* --- recording -------------------------------------------------------------------------------- */

static void record_moved(struct stream *s, enum party sender, const struct iovec *iov, size_t n)
{
        int64_t now;

        if (!s->record)
                return;
        now = loop_wall_ns();
        for (; n > 0; iov++) {
                size_t part = n < iov->iov_len ? n : iov->iov_len;

                capture_flow_data(s->record, &s->flow, sender, iov->iov_base, part, now);
                n -= part;
        }
}

void stream_record_data(struct stream *s, enum party sender, const void *p, size_t n)
{
        const struct iovec iov = { (void *)(uintptr_t)p, n };

        record_moved(s, sender, &iov, n);
}

static void record_end(struct stream *s, enum party who, bool reset)
{
        if (s->record)
                capture_flow_close(s->record, &s->flow, who, reset, loop_wall_ns());
        s->record = NULL;
}

/* --- moving bytes ----------------------------------------------------------------------------- */

/* Also what a write that failed has seen first: then the socket itself says no more than "end". */
static void end(struct stream *s, int error)
{
        if (error == 0 && s->reset)
                error = ECONNRESET;
        s->error = error;
        s->end = error == 0                              ? STREAM_FIN
                 : error == ECONNRESET || error == EPIPE ? STREAM_RST
                                                         : STREAM_LOST;
        record_end(s, s->end == STREAM_FIN && s->half ? s->self : peer_of(s->self),
                   s->end == STREAM_RST);
}

ssize_t stream_read(struct stream *s, const struct iovec *iov, int n)
{
        ssize_t got;

        if (s->end != STREAM_OPEN)
                return -1;
        do
                got = s->ops->read(s, iov, n);
        while (got < 0 && errno == EINTR);
        s->all = got > 0 && (size_t)got == bytes_in(iov, n);
        if (got > 0) {
                record_moved(s, peer_of(s->self), iov, (size_t)got);
                return got;
        }
        if (got < 0 && errno == EAGAIN)
                return 0;
        end(s, got == 0 ? 0 : errno);
        return -1;
}

ssize_t stream_write(struct stream *s, const struct iovec *iov, int n)
{
        ssize_t put;

        do
                put = s->ops->write(s, iov, n);
        while (put < 0 && errno == EINTR);
        s->all = put > 0 && (size_t)put == bytes_in(iov, n);
        if (put >= 0) {
                record_moved(s, s->self, iov, (size_t)put);
                return put;
        }
        if (errno == EAGAIN)
                return 0;
        s->error = errno;
        s->reset |= errno == ECONNRESET;
        return -1;
}

const char *stream_why(const struct stream *s)
{
        const char *why = s->ops && s->ops->why ? s->ops->why(s) : NULL;

        return why ? why : strerror(s->error);
}

int stream_half_close(struct stream *s)
{
        s->half = true;
        return s->ops->half_close(s);
}

void stream_linger(struct stream *s, unsigned ms)
{
        uint64_t deadline = loop_now_ms() + ms;
        uint8_t waste[4096];
        const struct iovec iov = { waste, sizeof(waste) };

        if (stream_half_close(s) < 0)
                return;
        while (s->end == STREAM_OPEN) {
                int left = loop_left(deadline);

                if (left == 0 ||
                    stream_wait(s, EPOLLIN, left) <= 0) /* also for a peer that never stops */
                        return;
                stream_read(s, &iov, 1);
        }
}

void stream_close(struct stream *s, bool reset)
{
        if (!stream_is_open(s))
                return;
        if (s->loop)
                loop_remove(s->loop, &s->source);
        record_end(s, s->reset ? peer_of(s->self) : s->self, s->reset || reset);
        if (!PLANTED(FD_KEPT) || s->end != STREAM_RST)
                s->ops->close(s, reset);
        s->ops = NULL;
        s->loop = NULL;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static uint32_t wants(const struct stream *s, uint32_t events)
{
        return s->ops->wants ? s->ops->wants(s, events) : events;
}

/* What comes of another kind than the owner waits for lets the ops do what it does wait for. */
static uint32_t meant(uint32_t come, uint32_t waited)
{
        return come & (EPOLLIN | EPOLLOUT) & ~waited ? come | waited : come;
}

static void on_ready(struct loop_source *source, uint32_t events)
{
        struct stream *s =
            (struct stream *)(void *)((char *)source - offsetof(struct stream, source));

        s->ready(s, meant(events, s->events));
}

int stream_watch(struct stream *s, struct loop *l, uint32_t events)
{
        uint32_t want = wants(s, events);

        s->events = events;
        if (s->loop) {
                loop_change(l, &s->source, want & ~STREAM_NOW);
        } else {
                s->source.ready = on_ready;
                if (loop_add(l, &s->source, want & ~STREAM_NOW) < 0)
                        return -1;
                s->loop = l;
        }
        return want & STREAM_NOW ? 1 : 0;
}

bool stream_pollfd(const struct stream *s, uint32_t events, struct pollfd *p)
{
        uint32_t want = wants(s, events);

        *p = (struct pollfd) { .fd = s->source.fd, .events = (short)(want & ~STREAM_NOW) };
        return !(want & STREAM_NOW);
}

void stream_limit_unread(const struct stream *s, int bytes)
{
        (void)setsockopt(s->source.fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

int stream_wait(const struct stream *s, uint32_t events, int ms)
{
        struct pollfd p;
        int n;

        if (!stream_pollfd(s, events, &p))
                return (int)events;
        n = loop_poll(&p, 1, ms);
        return n > 0 ? (int)meant((uint32_t)p.revents, events) : n;
}

/* --- by hand ---------------------------------------------------------------------------------- */

bool stream_serve(struct stream *s, uint64_t deadline, const struct stream_hand *h)
{
        while (s->end == STREAM_OPEN) {
                int left = loop_left(deadline);

                if (stream_wait(s, h->readable ? EPOLLIN : 0, left) > 0 &&
                    (!h->readable || !h->readable(h->user)))
                        return true;
                if (left == 0) /* also for a peer that never stops sending */
                        return s->end != STREAM_OPEN;
        }
        return true;
}

/* Why it takes no more the peer may have said before. */
static int give_up(const struct stream_hand *h)
{
        int error = errno;

        if (h->readable)
                h->readable(h->user);
        errno = error;
        return -1;
}

static int send_piece(struct stream *s, const uint8_t *p, size_t n, struct stream_hand *h)
{
        while (n > 0) {
                const struct iovec iov = { (void *)(uintptr_t)p, n };
                ssize_t put = s->end == STREAM_OPEN ? stream_write(s, &iov, 1) : -1;
                int events;

                if (put < 0)
                        return s->end == STREAM_OPEN ? give_up(h) : -1;
                if (put > 0) {
                        if (h->sent)
                                h->sent(h->user, p, (size_t)put);
                        p += put;
                        n -= (size_t)put;
                        continue;
                }
                events = stream_wait(s, h->readable ? EPOLLIN | EPOLLOUT : EPOLLOUT,
                                     loop_left(h->deadline));
                if (events == 0)
                        return 0;
                if (h->readable && events & ~EPOLLOUT && !h->readable(h->user))
                        return -1;
                if (!(events & EPOLLOUT) && loop_left(h->deadline) == 0)
                        return 0;
        }
        return 1;
}

int stream_send(struct stream *s, const void *bytes, size_t n, struct stream_hand *h)
{
        const uint8_t *p = bytes;
        int rc = 1;

        while (n > 0 && rc > 0) {
                size_t len = h->piece > 0 && h->piece < n ? h->piece : n;

                rc = send_piece(s, p, len, h);
                p += len;
                n -= len;
                if (n > 0 && rc > 0 && h->pause > 0) {
                        h->deadline += h->pause;
                        rc = stream_serve(s, loop_now_ms() + h->pause, h) ? -1 : 1;
                }
        }
        return rc;
}
