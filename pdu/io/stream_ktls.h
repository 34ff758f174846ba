/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of TLS 1.3 by the Linux kernel (its Documentation/networking/tls.rst), once the handshake is done: from
 * then on the socket carries data, and tells of other records as they come. A part of stream_tls.c.
 */
#ifndef NVMF_IO_STREAM_KTLS_H
#define NVMF_IO_STREAM_KTLS_H

#include "pdu/core/tls_psk.h"
#include "stream.h"

struct ktls {
        enum tls_suite suite;
        tls_expand *expand;
        uint8_t out[TLS_KEY_MAX], in[TLS_KEY_MAX]; /* the secrets of both directions' keys */
};

extern const struct stream_ops stream_over_kernel;

/* The kernel takes a stream of stream_tls.c over, of whose keys nothing has been sent or received yet. 1; 0: it has
 * no TLS, or not this suite, and all is as before; -1 with errno: it has taken one direction alone, which is no
 * good. */
int ktls_begin(struct stream *s);

#endif
