/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of TLS 1.3 by the Linux kernel (its Documentation/networking/tls.rst), once the handshake is done: from
 * then on the socket carries data alone, and tells of other records as they come. With OpenSSL's HKDF. A part of
 * stream_tls.c.
 */
#ifndef NVMF_IO_STREAM_KTLS_H
#define NVMF_IO_STREAM_KTLS_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "pdu/core/tls_psk.h"

struct ktls {
        enum tls_suite suite;
        uint8_t out[TLS_KEY_MAX], in[TLS_KEY_MAX]; /* the secrets of both directions' keys */
};

/* The kernel takes both directions over: nothing has been sent or received under these keys yet. 1; 0: it has no
 * TLS, or not this suite, and all is as before; -1 with errno: it has taken only one of them, which is no good. */
int ktls_begin(int fd, const struct ktls *k);
/* As readv(2), of one record's content: EBADMSG: it could not be decrypted; EMSGSIZE: it is too long; EKEYEXPIRED:
 * a KeyUpdate has not been followed. *type: of the record, 23 is data. */
ssize_t ktls_read(int fd, const struct iovec *iov, int n, uint8_t *type);
/* A record of this content type, not of data. False with errno. */
bool ktls_send(int fd, uint8_t type, const void *content, size_t len);
/* After a KeyUpdate that was sent (`out`) or received: the next keys. False with errno: kernels before 6.14 do not
 * know how. */
bool ktls_update(int fd, struct ktls *k, bool out);

#endif
