/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the PSK that an administrator configures to the key and the identity of a TLS connection
 * (NVMe/TCP 1.0, 3.6.1.3): configured PSK -> retained PSK -> TLS PSK, by HKDF. Version 0 of the
 * identity is that of NVMe/TCP 1.0; version 1, of later revisions, ends with a digest of the PSK.
 */
#ifndef NVMF_MACHINE_TLS_KEY_H
#define NVMF_MACHINE_TLS_KEY_H

#include <stdio.h>

#include "hkdf.h"
#include "pdu/nvme/wire/fabrics.h"

const char *tls_derivation_name(enum tls_derivation how); /* "printed", "old" */
const char *
tls_derivation_text(enum tls_derivation how); /* "as RFC 8446 prints it", "the old way" */

struct tls_store;

/* What options say. */
struct nvme_tls {
        struct auth_key key; /* the configured PSK, of any hash; len 0: none */
        const struct tls_store
            *store;     /* keys of identities (tls_store.h); NULL: none. Neither: no TLS */
        bool generated; /* it is no configured PSK, but that of an authentication transaction */
        enum tls_derivation derivation;
        uint8_t version; /* of the identity that a host offers: 0 or 1 */
        enum tls_suite
            suite; /* that a host offers, or the only one that a controller takes; 0: the one whose
                               * hash is as long as the PSK, or both */
        const char *groups; /* of (EC)DHE, by OpenSSL's names, with colons; NULL: as usual */
        bool dhe_only;      /* no PSK without (EC)DHE */
        bool kernel;        /* records by the kernel, where it can */
        FILE *keylog;       /* the secrets of each connection go there (key_log.h); NULL: nowhere */
};

static inline bool nvme_tls_is_asked(const struct nvme_tls *tls)
{
        return tls->key.len > 0 || tls->store;
}

enum { TLS_DIGEST_MAX = 64 + 1 }; /* base64 of 48 bytes, and NUL */

/* What an identity says. */
struct tls_identity {
        uint8_t version; /* 0 or 1 */
        bool generated;  /* 'G': the PSK comes from authentication; else 'R', retained */
        bool nul; /* ends with a NUL, as 3.6.1.3 has it and no implementation known sends it */
        enum tls_suite suite;
        char hostnqn[NQN_MAX + 1], subnqn[NQN_MAX + 1];
        char digest[TLS_DIGEST_MAX]; /* version 1; else "" */
};

/* True if these bytes are an identity of NVMe/TCP: NQNs of 1 to 223 bytes without spaces or NUL. */
bool tls_identity_parse(struct tls_identity *id, const void *bytes, size_t len);

/*
 * The key and the identity for a connection of these names: all of `id` but its digest is asked for,
 * the digest is computed. 0; -1: it cannot be computed, or the identity of version 0 is longer than the
 * 255 bytes that HKDF-Expand-Label takes (RFC 8446 7.1).
 */
int tls_key_derive(const struct auth_crypto *crypto, const struct auth_key *configured,
                   const struct tls_identity *id, enum tls_derivation how, struct tls_psk *psk);

/*
 * What a server does with an identity: derives with its own key. 1: psk is the key; 0: it is another
 * key's, which only version 1 shows; -1: it is none of ours, or cannot be computed.
 */
int tls_key_find(const struct auth_crypto *crypto, const struct auth_key *configured,
                 enum tls_derivation how, const void *identity, size_t len, struct tls_psk *psk);

#endif
