/* SPDX-License-Identifier: BSD-3-Clause */
/* A line of a TLS key log: a secret of one connection, as SSLKEYLOGFILE has it (draft-ietf-tls-keylogfile). */
#ifndef NVMF_CORE_TLS_SECRET_H
#define NVMF_CORE_TLS_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "tls_psk.h"

/* Those that protect records. The host is the client: a secret's number is 2 * epoch + enum party. */
enum tls_secret_kind {
        TLS_CLIENT_HANDSHAKE,
        TLS_SERVER_HANDSHAKE,
        TLS_CLIENT_TRAFFIC,
        TLS_SERVER_TRAFFIC,
        TLS_SECRETS,
};
const char *tls_secret_name(enum tls_secret_kind kind); /* "CLIENT_TRAFFIC_SECRET_0" */

enum { TLS_RANDOM = 32 };

struct tls_secret {
        uint8_t random[TLS_RANDOM]; /* of the ClientHello: whose it is */
        uint8_t kind;               /* enum tls_secret_kind */
        uint8_t len;                /* 32 or 48 bytes: those of the suite's hash */
        uint8_t bytes[TLS_KEY_MAX];
};

/* A line, with its end or without. 1; 0: a comment, or a secret of another kind, which is not needed; -1: it is
 * no line of a key log. */
int tls_secret_parse(struct tls_secret *s, const char *line, size_t len);

#endif
