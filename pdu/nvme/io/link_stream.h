/* SPDX-License-Identifier: BSD-3-Clause */
/* An NVMe/TCP link on a byte stream: the pump that host, target and replay share. */
#ifndef NVMF_NVME_IO_LINK_STREAM_H
#define NVMF_NVME_IO_LINK_STREAM_H

#include "pdu/io/stream.h"
#include "pdu/nvme/tcp/link.h"

/* Sends what the link offers, as far as the stream takes it; also a TermReq of one that ends. Bytes
 * sent; -1: the stream takes no more (s->error). */
ssize_t link_flush(struct link *l, struct stream *s);

/* Reads once, to where the link wants it; as stream_read(). What was read goes to the owner's
 * machine, whose part link_received() is. */
ssize_t link_fill(struct link *l, struct stream *s);

/* What the link waits for. */
static inline uint32_t link_events(const struct link *l)
{
        return link_wants_send(l) ? EPOLLIN | EPOLLOUT : EPOLLIN;
}

#endif
