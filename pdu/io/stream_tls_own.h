/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of stream_tls.h share: a stream's side of TLS, by OpenSSL (stream_tls.c) or, from the handshake
 * on, by the kernel (stream_ktls.c). */
#ifndef NVMF_IO_STREAM_TLS_OWN_H
#define NVMF_IO_STREAM_TLS_OWN_H

#include <openssl/ssl.h>

#include "pdu/core/tls.h"
#include "stream_ktls.h"
#include "stream_tls.h"

enum { TLS_REASON = 512 };

struct tls {
        _Atomic unsigned refs; /* its owner's, and one of each stream */
        struct tls_config cfg;
        SSL_CTX *ctx;
        BIO_METHOD *socket;
};

/* What a stream has of it: stream.own. */
struct own {
        struct tls *tls;
        SSL *ssl;
        struct tls_psk psk;
        bool has_psk;     /* client: it offers one; server: one has been found */
        bool begun;       /* server: the peer begins with TLS */
        bool dry;         /* what the last read left is no whole record */
        bool eof;         /* the socket has no more */
        int error;        /* errno of the socket; EPROTO: TLS's own */
        struct ktls keys; /* for the kernel; once both are known: */
        unsigned known;
        bool tried; /* whether the kernel takes over is settled */
        char why[TLS_REASON];

        uint8_t *
            hello; /* server: the record of the ClientHello, until data has come; NULL: there is none */
        size_t hello_len;

        uint8_t *unsent; /* records that the socket had no room for; NULL: none */
        size_t unsent_at, unsent_len;
};

static inline struct own *own(const struct stream *s)
{
        return s->own;
}

/* -1, and errno is what has ended it. */
int tls_fail(struct own *o);
/* What stream_why() says: the first one counts. */
void tls_reason(struct own *o, const char *why);
const char *tls_why(const struct stream *s);
/* Frees it. */
void tls_drop(struct own *o);

#endif
