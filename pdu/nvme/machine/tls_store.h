/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A key store: PSKs of NVMe/TCP, one a line, as `nvme tls-key --export` writes the kernel's keyring and /etc/nvme/tls-keys has
 * it. "IDENTITY KEY" is the TLS PSK of this identity, as it is; "KEY" alone a configured PSK, which is good for every host
 * and subsystem. Keys are in the interchange format (NVMe/TCP 1.0, 3.6.1.5). Empty lines, and those that begin with #, say
 * nothing.
 */
#ifndef NVMF_MACHINE_TLS_STORE_H
#define NVMF_MACHINE_TLS_STORE_H

#include "tls_key.h"

enum { TLS_STORE_MAX = 1024 }; /* keys */

struct tls_store { /* all zero: empty */
        struct tls_psk *psks;
        unsigned n, room;
        struct auth_key configured; /* len 0: none */
};

/* A line of n bytes, without its end, any bytes. NULL; else what is wrong with it, never the key. */
const char *tls_store_line(struct tls_store *s, const char *line, size_t n);
/* The key of an identity; false: there is none. */
bool tls_store_find(const struct tls_store *s, const void *identity, size_t len,
                    struct tls_psk *psk);
/* That of a host and a subsystem: of the version and suite that like has (suite 0: any); else of any version. Retained ones
 * alone. NULL: there is none. */
const struct tls_psk *tls_store_of(const struct tls_store *s, const struct tls_identity *like);
/* It has no keys any more, and no memory has them. */
void tls_store_clear(struct tls_store *s);

#endif
