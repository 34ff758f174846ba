/* SPDX-License-Identifier: BSD-3-Clause */
/* A pre-shared key as TLS 1.3 uses it (RFC 8446 2.2): an identity, a key, and the hash both belong to. */
#ifndef NVMF_CORE_TLS_PSK_H
#define NVMF_CORE_TLS_PSK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The cipher suite that has this hash. */
enum tls_suite {
        TLS_AES_128_GCM = 1, /* TLS_AES_128_GCM_SHA256, 1301h */
        TLS_AES_256_GCM,     /* TLS_AES_256_GCM_SHA384, 1302h */
        TLS_SUITES,
};

enum {
        TLS_IDENTITY_MAX = 600, /* bytes */
        TLS_KEY_MAX = 48,
};

struct tls_psk {
        enum tls_suite suite;
        uint16_t identity_len;
        uint8_t identity[TLS_IDENTITY_MAX];
        uint8_t key[TLS_KEY_MAX]; /* as long as the hash: 32 or 48 bytes */
};

static inline size_t tls_key_len(enum tls_suite suite)
{
        return suite == TLS_AES_128_GCM ? 32 : 48;
}

/* HKDF-Expand-Label without context (RFC 8446 7.1) of a secret as long as the suite's hash; label: "tls13 ...". False:
 * it cannot be computed. */
typedef bool tls_expand(enum tls_suite suite, const uint8_t *secret, const char *label,
                        uint8_t *out, size_t len);

#endif
