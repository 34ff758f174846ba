/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_schedule.h"

#include "pdu/core/wipe.h"

static const struct auth_slice nothing = { "", 0 };

int tls_early_secret(const struct auth_crypto *c, const struct tls_psk *psk, uint8_t *out)
{
        const struct auth_slice key = { psk->key, tls_key_len(psk->suite) };

        return hkdf_extract(c, tls_hash(psk->suite), NULL, &key, out);
}

int tls_derive_secret(const struct auth_crypto *c, uint8_t hash, const uint8_t *from,
                      const char *label, const struct auth_slice *said, unsigned n, uint8_t *out)
{
        uint8_t digest[AUTH_HASH_MAX];
        const struct auth_slice context = { digest, auth_hash_len(hash) };

        if (c->digest((enum auth_hash)hash, NULL, said, n, digest) < 0)
                return -1;
        return hkdf_expand_label(c, hash, from, label, &context, TLS_PRINTED, out, context.len);
}

/* The next one of the three that follow each other, early, handshake and master. mixed: NULL: nothing. */
static int extract_next(const struct auth_crypto *c, uint8_t hash, const struct auth_slice *mixed,
                        uint8_t *secret)
{
        static const uint8_t zeroes[AUTH_HASH_MAX];
        const struct auth_slice nothing_mixed = { zeroes, auth_hash_len(hash) };
        uint8_t derived[AUTH_HASH_MAX];
        int rc = tls_derive_secret(c, hash, secret, "tls13 derived", &nothing, 1, derived);

        if (rc == 0)
                rc = hkdf_extract(c, hash, derived, mixed ? mixed : &nothing_mixed, secret);
        wipe(derived, sizeof(derived));
        return rc;
}

int tls_psk_secrets(const struct auth_crypto *c, const struct tls_psk *psk,
                    const struct auth_slice *shared, enum tls_epoch epoch,
                    const struct auth_slice *said, unsigned n, uint8_t secrets[2][AUTH_HASH_MAX])
{
        bool handshake = epoch == TLS_HANDSHAKE_KEYS;
        const char *client = handshake ? "tls13 c hs traffic" : "tls13 c ap traffic";
        const char *server = handshake ? "tls13 s hs traffic" : "tls13 s ap traffic";
        uint8_t hash = tls_hash(psk->suite), secret[AUTH_HASH_MAX];
        int rc = tls_early_secret(c, psk, secret);

        if (rc == 0)
                rc = extract_next(c, hash, shared, secret);
        if (rc == 0 && !handshake)
                rc = extract_next(c, hash, NULL, secret);
        if (rc == 0)
                rc = tls_derive_secret(c, hash, secret, client, said, n, secrets[PARTY_HOST]);
        if (rc == 0)
                rc = tls_derive_secret(c, hash, secret, server, said, n, secrets[PARTY_CONTROLLER]);
        wipe(secret, sizeof(secret));
        return rc;
}

int tls_finished(const struct auth_crypto *c, uint8_t hash, const uint8_t *secret,
                 const struct auth_slice *said, uint8_t *out)
{
        uint8_t key[AUTH_HASH_MAX], digest[AUTH_HASH_MAX];
        const struct auth_slice mac = { key, auth_hash_len(hash) }, text = { digest, mac.len };
        int rc = hkdf_expand_label(c, hash, secret, "tls13 finished", &nothing, TLS_PRINTED, key,
                                   mac.len);

        if (rc == 0)
                rc = c->digest((enum auth_hash)hash, NULL, said, 1, digest);
        if (rc == 0)
                rc = c->digest((enum auth_hash)hash, &mac, &text, 1, out);
        wipe(key, sizeof(key));
        return rc;
}

int tls_traffic_keys(const struct auth_crypto *c, const uint8_t *secret, struct tls_traffic *t)
{
        uint8_t hash = tls_hash(t->suite);
        size_t key = t->suite == TLS_AES_128_GCM ? 16 : 32;

        if (hkdf_expand_label(c, hash, secret, "tls13 key", &nothing, TLS_PRINTED, t->key, key) < 0)
                return -1;
        return hkdf_expand_label(c, hash, secret, "tls13 iv", &nothing, TLS_PRINTED, t->iv,
                                 sizeof(t->iv));
}

int tls_next_secret(const struct auth_crypto *c, enum tls_suite suite, uint8_t *secret)
{
        uint8_t hash = tls_hash(suite), next[AUTH_HASH_MAX];
        int rc = hkdf_expand_label(c, hash, secret, "tls13 traffic upd", &nothing, TLS_PRINTED,
                                   next, auth_hash_len(hash));

        if (rc == 0)
                memcpy(secret, next, auth_hash_len(hash));
        wipe(next, sizeof(next));
        return rc;
}
