/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 by hand, once both hellos are there: the rest of a handshake with a pre-shared key, and records
 * either way, right or wrong as a test wants them (RFC 8446 4.4.4, 4.6.3, 5). It moves no bytes, and has no
 * opinion on what comes. For tests and for peers that break rules on purpose: what is to be secret uses
 * stream_tls.h.
 */
#ifndef NVMF_NVME_IO_TLS_HAND_H
#define NVMF_NVME_IO_TLS_HAND_H

#include <stdbool.h>
#include <sys/types.h>

#include "pdu/core/tls.h"
#include "pdu/nvme/machine/tls_hello.h"

enum {
        TLS_SAID_MAX = 8192,                /* bytes of all messages of a handshake */
        TLS_FINISHED_MAX = 4 + TLS_KEY_MAX, /* bytes of the message */
        TLS_CONTENT_MAX = 16384,            /* bytes of data in a record */
        TLS_SEALED_MAX = 5 + 16384 + 256,   /* bytes of a whole record (5.2) */
};

struct tls_hand {
        enum party self; /* PARTY_HOST is the client */
        struct tls_psk psk;
        uint8_t shared[TLS_SHARED_MAX]; /* what (EC)DHE gave */
        size_t shared_len;              /* 0: PSK alone */
        uint8_t said[TLS_SAID_MAX];     /* the messages of the handshake, one after the other */
        size_t said_len;
        uint8_t secrets[2][AUTH_HASH_MAX]; /* of each side's keys in use */
        uint8_t later[2][AUTH_HASH_MAX];   /* ... and of those after its Finished */
        struct tls_traffic keys[2];
        uint64_t seq[2]; /* of the next record of each side */
};

struct tls_said { /* handshake messages, one after the other */
        uint8_t p[TLS_SAID_MAX];
        size_t len;
};

/* One more. False: there is no room. */
bool tls_said_add(struct tls_said *said, const void *message, size_t len);
/* Before a HelloRetryRequest: a message_hash, by the hash of the suite, stands for the ClientHello (RFC 8446 4.4.1). False: it
 * cannot be computed. */
bool tls_said_fold(struct tls_said *said, enum tls_suite suite);

/* All that return int: 0; -1: it cannot be computed, or there is no room. */

/* From the two hellos, handshake messages without headers of records: the keys of the handshake. The group is
 * that of the share, with a private key of 1; TLS_NO_GROUP: PSK alone; TLS_FFDHE3072 cannot be computed. */
int tls_hand_begin(struct tls_hand *h, enum party self, const struct tls_psk *psk,
                   const struct auth_slice *client_hello, const struct auth_slice *server_hello,
                   uint16_t group, const struct auth_slice *share);
/* A message of either side, in the order in which they were sent. */
int tls_hand_heard(struct tls_hand *h, const void *message, size_t len);
/* The Finished of a side, by what has been heard so far; bytes, 0: it cannot be computed. It is not heard by this. */
size_t tls_hand_finished(const struct tls_hand *h, enum party side,
                         uint8_t message[TLS_FINISHED_MAX]);
/* After the server's Finished has been heard: what both go on with. */
int tls_hand_complete(struct tls_hand *h);
/* After a side's Finished: that side's records are under the next keys. */
int tls_hand_switch(struct tls_hand *h, enum party side);
/* The same after its KeyUpdate. */
int tls_hand_update(struct tls_hand *h, enum party side);

/* The next record of our own, with so many bytes of padding; content may be where it is to be in the record.
 * Bytes, 0: it cannot be computed. Room: len + pad + TLS_RECORD_MORE; more than TLS_SEALED_MAX is a wrong one. */
size_t tls_hand_seal(struct tls_hand *h, uint8_t type, const void *content, size_t len, size_t pad,
                     uint8_t *record);
/* The peer's next record; its content, which has room for len bytes, and type. Bytes, -1: it is not the next one. */
ssize_t tls_hand_open(struct tls_hand *h, const uint8_t *record, size_t len, uint8_t *content,
                      uint8_t *type);

/* Wipes its keys. */
void tls_hand_end(struct tls_hand *h);

#endif
