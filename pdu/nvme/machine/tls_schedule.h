/* SPDX-License-Identifier: BSD-3-Clause */
/* The key schedule of TLS 1.3 (RFC 8446 7.1 to 7.3), from a pre-shared key to what protects records. */
#ifndef NVMF_MACHINE_TLS_SCHEDULE_H
#define NVMF_MACHINE_TLS_SCHEDULE_H

#include "hkdf.h"

/* What protects the records of one side; the key has 16 or 32 bytes, as the suite says. */
struct tls_traffic {
        enum tls_suite suite;
        uint8_t key[32], iv[12];
};

/* All return 0; -1: it cannot be computed. Secrets are as long as the suite's hash. */

/* HKDF-Extract of the key, without salt. */
int tls_early_secret(const struct auth_crypto *c, const struct tls_psk *psk, uint8_t *out);
/* Derive-Secret: what belongs to this label ("tls13 ...") and to what was said, n parts. */
int tls_derive_secret(const struct auth_crypto *c, uint8_t hash, const uint8_t *from,
                      const char *label, const struct auth_slice *said, unsigned n, uint8_t *out);

enum tls_epoch { TLS_HANDSHAKE_KEYS, TLS_APPLICATION_KEYS };

enum { TLS_SHARED_MAX = 48 }; /* bytes that the two shares give: a coordinate of secp384r1 */
/* The secrets of both sides (enum party) by what was said, handshake messages without headers of records: both
 * hellos; for the application's, all up to the server's Finished. shared: what (EC)DHE gave; NULL: the key
 * exchange is PSK alone. */
int tls_psk_secrets(const struct auth_crypto *c, const struct tls_psk *psk,
                    const struct auth_slice *shared, enum tls_epoch epoch,
                    const struct auth_slice *said, unsigned n, uint8_t secrets[2][AUTH_HASH_MAX]);
/* What the Finished of a side proves, or a binder (4.4.4, 4.2.11.2): by the secret of its keys and what was said. */
int tls_finished(const struct auth_crypto *c, uint8_t hash, const uint8_t *secret,
                 const struct auth_slice *said, uint8_t *out);

/* t->suite is the caller's to set. */
int tls_traffic_keys(const struct auth_crypto *c, const uint8_t *secret, struct tls_traffic *t);
/* In place, the secret that holds after a KeyUpdate. */
int tls_next_secret(const struct auth_crypto *c, enum tls_suite suite, uint8_t *secret);

#endif
