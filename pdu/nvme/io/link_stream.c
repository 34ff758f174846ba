/* SPDX-License-Identifier: BSD-3-Clause */
#include "link_stream.h"

enum { IOVECS = 256 /* PDUs go out many at a time: two or three of these each */ };

/* So many iovecs are left of n for that many bytes. */
static int cut(struct iovec *iov, int n, size_t bytes)
{
        for (int i = 0; i < n; i++) {
                if (iov[i].iov_len >= bytes) {
                        iov[i].iov_len = bytes;
                        return i + 1;
                }
                bytes -= iov[i].iov_len;
        }
        return n;
}

ssize_t link_flush(struct link *l, struct stream *s)
{
        struct iovec iov[IOVECS];
        ssize_t sum = 0, put;
        int n;

        while ((n = link_send_iov(l, iov, IOVECS)) > 0) {
                if (l->segment)
                        n = cut(iov, n, l->segment);
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
