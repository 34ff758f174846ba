/* SPDX-License-Identifier: BSD-3-Clause */
/* HKDF (RFC 5869) as TLS 1.3 uses it (RFC 8446 7.1), over the hashes that auth_crypto has. */
#ifndef NVMF_MACHINE_HKDF_H
#define NVMF_MACHINE_HKDF_H

#include "auth.h"
#include "pdu/core/tls_psk.h"

/* How HKDF-Expand-Label builds what it expands. Both are in the field: with the same key and the same
 * names two that do it differently do not understand each other. */
enum tls_derivation {
        TLS_PRINTED, /* RFC 8446 7.1: label and context after a byte of their length */
        TLS_OLD,     /* without these, the length little-endian: libnvme and nvme-cli up to 2.x */
        TLS_DERIVATIONS,
};

/* The hash of a cipher suite, enum auth_hash. */
static inline uint8_t tls_hash(enum tls_suite suite)
{
        return suite == TLS_AES_128_GCM ? AUTH_SHA256 : AUTH_SHA384;
}

/* salt: as long as the hash; NULL: zeroes. prk gets auth_hash_len(hash) bytes. 0; -1: cannot be computed. */
int hkdf_extract(const struct auth_crypto *c, uint8_t hash, const uint8_t *salt,
                 const struct auth_slice *secret, uint8_t *prk);
/* label: "tls13 ..." of at most 32 bytes; len: at most 64 bytes. 0; -1: cannot be computed, or the context
 * has more than 255 bytes. */
int hkdf_expand_label(const struct auth_crypto *c, uint8_t hash, const uint8_t *prk,
                      const char *label, const struct auth_slice *context, enum tls_derivation how,
                      uint8_t *out, size_t len);

#endif
