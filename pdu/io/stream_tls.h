/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 with pre-shared keys, as one more kind of stream: put in place of TCP's once a stream is
 * connected or accepted. The handshake is part of the first reads and writes; whoever waits as the
 * stream says (stream_watch(), stream_pollfd()) needs to know nothing of it. TCP alone carries it, by
 * OpenSSL; there are no certificates, no tickets, no resumption and no early data.
 *
 * An end of the peer with close_notify or without is STREAM_FIN; all that TLS finds wrong is
 * STREAM_LOST with EPROTO, and stream_why() says what.
 */
#ifndef NVMF_IO_STREAM_TLS_H
#define NVMF_IO_STREAM_TLS_H

#include <stdio.h>

#include "pdu/core/tls_psk.h"
#include "stream.h"

struct tls;

struct tls_config {
        enum party side; /* PARTY_HOST is the client */
        /* Server: the key of an identity, any bytes. False: there is none. Any thread that serves a
         * stream calls it. */
        bool (*find)(void *user, const void *identity, size_t len, struct tls_psk *psk);
        /* Server: what is wrong with the key that a ClientHello offers, a record of so many bytes, whose handshake
         * has failed: words for stream_why(). False: nothing is. NULL: nothing is said. As find. */
        bool (*explain)(void *user, const uint8_t *hello, size_t len, char *text, size_t size);
        const char *derived; /* client: how its key was, words for the same; NULL: not known */
        void *user;          /* of all of them */
        /* Server that breaks rules on purpose: what it answers to a ClientHello, a record of so many bytes,
         * instead of what is right; bytes of the answer, at most size. 0: what is right. NULL: always.
         * After the answer such a connection is silent. */
        size_t (*spoil)(void *user, const uint8_t *hello, size_t len, uint8_t *answer, size_t size);
        /* The same for all that follows: whether it has put other ops in place, which find the ClientHello
         * unread. NULL: never. */
        bool (*take_over)(void *user, struct stream *s, const uint8_t *hello, size_t len);
        bool
            record_hello; /* server: a stream that is recorded has its ClientHello before what is inside */
        bool plain;         /* server: who does not begin with a TLS record is served without TLS */
        unsigned suites;    /* bits 1 << enum tls_suite that may be used; 0: all */
        const char *groups; /* of (EC)DHE, by OpenSSL's names, with colons; NULL: TLS_GROUPS */
        bool dhe_only;      /* no PSK without (EC)DHE; else both are offered and taken */
        /* Its records by the kernel from the handshake on, where it can (stream_ktls.h), with keys by this. NULL: not. */
        tls_expand *kernel;
        FILE *keylog; /* secrets of each connection as SSLKEYLOGFILE has them; NULL: none */
};

#define TLS_GROUPS "P-384:ffdhe3072:X25519:P-256:ffdhe4096"

/* NULL with errno: ENOTSUP: built without OpenSSL; EINVAL: groups that OpenSSL does not know. cfg is
 * copied, what it points to is not. It may be shared by threads. */
struct tls *tls_new(const struct tls_config *cfg);
/* NULL allowed. It lasts as long as its streams. */
void tls_free(struct tls *t);

/* Puts TLS on a stream of TCP before a byte has gone over it. A client offers `psk`, which is copied; a
 * server: NULL. 0; -1 with errno, and the stream is as before. */
int stream_tls_begin(struct stream *s, struct tls *t, const struct tls_psk *psk);
/* Whether the handshake is complete. False for streams without TLS. */
bool stream_tls_ready(const struct stream *s);
/* "TLS_AES_128_GCM_SHA256"; NULL if it is not complete. */
const char *stream_tls_suite(const struct stream *s);
/* The key in use; NULL: none (yet). */
const struct tls_psk *stream_tls_psk(const struct stream *s);

#endif
