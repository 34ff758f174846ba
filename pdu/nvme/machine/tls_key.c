/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_key.h"

#include <stdio.h>
#include <string.h>

#include "pdu/core/wipe.h"

const char *tls_derivation_name(enum tls_derivation how)
{
        return how == TLS_PRINTED ? "printed" : "old";
}

const char *tls_derivation_text(enum tls_derivation how)
{
        return how == TLS_PRINTED ? "as RFC 8446 prints it" : "the old way";
}

static int derive(const struct auth_crypto *c, uint8_t hash, const void *secret, size_t n,
                  const char *label, const struct auth_slice *context, enum tls_derivation how,
                  uint8_t *out, size_t len)
{
        const struct auth_slice input = { secret, n };
        uint8_t prk[AUTH_HASH_MAX];
        int rc = hkdf_extract(c, hash, NULL, &input, prk);

        if (rc == 0)
                rc = hkdf_expand_label(c, hash, prk, label, context, how, out, len);
        wipe(prk, sizeof(prk));
        return rc;
}

/* --- identities ----------------------------------------------------------------------------------- */

/* The next word of the text, which a space or its end ends; false: it is empty or too long. */
static bool take_word(const char **at, const char *end, char *word, size_t size)
{
        const char *space = memchr(*at, ' ', (size_t)(end - *at));
        size_t n = (size_t)((space ? space : end) - *at);

        if (n == 0 || n >= size || memchr(*at, '\0', n))
                return false;
        memcpy(word, *at, n);
        word[n] = '\0';
        *at += n + (space != NULL);
        return true;
}

bool tls_identity_parse(struct tls_identity *id, const void *bytes, size_t len)
{
        const char *at = bytes, *end = at + len;
        bool nul = len > 0 && end[-1] == '\0';

        end -= nul;
        if (end - at < 9 || memcmp(at, "NVMe", 4) != 0 || (at[4] != '0' && at[4] != '1') ||
            (at[5] != 'R' && at[5] != 'G') || at[6] != '0' || (at[7] != '1' && at[7] != '2') ||
            at[8] != ' ' || end[-1] == ' ')
                return false;
        *id = (struct tls_identity) { .version = (uint8_t)(at[4] - '0'),
                                      .generated = at[5] == 'G',
                                      .nul = nul,
                                      .suite = (enum tls_suite)(at[7] - '0') };
        at += 9;
        return take_word(&at, end, id->hostnqn, sizeof(id->hostnqn)) &&
               take_word(&at, end, id->subnqn, sizeof(id->subnqn)) &&
               (id->version == 0 || take_word(&at, end, id->digest, sizeof(id->digest))) &&
               at == end;
}

static void base64(char *out, const uint8_t *p, size_t n)
{
        static const char digits[] =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

        for (; n > 0; n -= n < 3 ? n : 3, p += 3) {
                uint32_t bits =
                    (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0) | (n > 2 ? p[2] : 0);

                for (unsigned i = 0; i < 4; i++)
                        *out++ = i <= n ? digits[bits >> (18 - 6 * i) & 63] : '=';
        }
        *out = '\0';
}

static int digest_of(const struct auth_crypto *c, const struct auth_key *retained,
                     const struct tls_identity *id, char *out)
{
        const struct auth_slice key = { retained->bytes, retained->len };
        const struct auth_slice parts[] = { { id->hostnqn, strlen(id->hostnqn) },
                                            { " ", 1 },
                                            { id->subnqn, strlen(id->subnqn) },
                                            { " NVMe-over-Fabrics", 18 } };
        uint8_t digest[AUTH_HASH_MAX];

        if (c->digest((enum auth_hash)tls_hash(id->suite), &key, parts, 4, digest) < 0)
                return -1;
        base64(out, digest, auth_hash_len(tls_hash(id->suite)));
        return 0;
}

/* --- keys ----------------------------------------------------------------------------------------- */

static int retain(const struct auth_crypto *c, const struct auth_key *configured,
                  const char *hostnqn, enum tls_derivation how, struct auth_key *retained)
{
        const struct auth_slice context = { hostnqn, strlen(hostnqn) };

        *retained = *configured;
        if (configured->hash == 0)
                return 0;
        return derive(c, configured->hash, configured->bytes, configured->len, "tls13 HostNQN",
                      &context, how, retained->bytes, retained->len);
}

static int name_it(const struct auth_crypto *c, const struct auth_key *retained,
                   const struct tls_identity *id, char *digest, struct tls_psk *psk)
{
        char text[TLS_IDENTITY_MAX];
        int n;

        digest[0] = '\0';
        if (id->version > 0 && digest_of(c, retained, id, digest) < 0)
                return -1;
        n = snprintf(text, sizeof(text), "NVMe%u%c%02u %s %s%s%s", id->version,
                     id->generated ? 'G' : 'R', id->suite, id->hostnqn, id->subnqn,
                     id->version > 0 ? " " : "", digest);
        psk->suite = id->suite;
        psk->identity_len = (uint16_t)(n + id->nul);
        memcpy(psk->identity, text, psk->identity_len);
        return 0;
}

/* The context of version 1 is shorter: the hash's number, and the digest. */
static int make_key(const struct auth_crypto *c, const struct auth_key *retained,
                    const struct tls_identity *id, const char *digest, enum tls_derivation how,
                    struct tls_psk *psk)
{
        char text[TLS_DIGEST_MAX + 3];
        struct auth_slice context = { psk->identity, psk->identity_len };

        if (id->version > 0)
                context =
                    (struct auth_slice) { text, (size_t)snprintf(text, sizeof(text), "%02u %s",
                                                                 id->suite, digest) };
        return derive(c, tls_hash(id->suite), retained->bytes, retained->len, "tls13 nvme-tls-psk",
                      &context, how, psk->key, tls_key_len(id->suite));
}

int tls_key_derive(const struct auth_crypto *crypto, const struct auth_key *configured,
                   const struct tls_identity *id, enum tls_derivation how, struct tls_psk *psk)
{
        char digest[TLS_DIGEST_MAX];
        struct auth_key retained;
        int rc = retain(crypto, configured, id->hostnqn, how, &retained);

        if (rc == 0)
                rc = name_it(crypto, &retained, id, digest, psk);
        if (rc == 0)
                rc = make_key(crypto, &retained, id, digest, how, psk);
        wipe(&retained, sizeof(retained));
        return rc;
}

int tls_key_find(const struct auth_crypto *crypto, const struct auth_key *configured,
                 enum tls_derivation how, const void *identity, size_t len, struct tls_psk *psk)
{
        struct tls_identity id;

        if (!tls_identity_parse(&id, identity, len) ||
            tls_key_derive(crypto, configured, &id, how, psk) < 0)
                return -1;
        return psk->identity_len == len && memcmp(psk->identity, identity, len) == 0;
}
