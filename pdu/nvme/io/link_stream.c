/* SPDX-License-Identifier: BSD-3-Clause */
#include "link_stream.h"

enum { IOVECS = 256 /* PDUs go out many at a time: two or three of these each */ };

/* So many iovecs are left of n for that many bytes. */
ssize_t link_flush(struct link *l, struct stream *s)
{
        struct iovec iov[IOVECS];
        ssize_t sum = 0, put;
        int n;

        while ((n = link_send_iov(l, iov, IOVECS)) > 0) {
                if (l->segment)
                        n = link_shorten(iov, n, l->segment);
                put = stream_write(s, iov, n);
                if (put < 0)
                        return -1;
                if (put > 0)
                        link_sent(l, (size_t)put);
                sum += put;
                if (!s->all)
                        break;
        }
        return sum;
}

ssize_t link_fill(struct link *l, struct stream *s)
{
        struct iovec iov[2];

        return stream_read(s, iov, link_recv_iov(l, iov));
}
