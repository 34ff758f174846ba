/* SPDX-License-Identifier: BSD-3-Clause */
#include "hkdf.h"

#include <string.h>

#include "pdu/core/wipe.h"

enum {
        CONTEXT_MAX = 255, /* bytes: RFC 8446 7.1 has one byte for its length */
        LABEL_MAX = 32,
        INFO_MAX = 2 + 1 + LABEL_MAX + 1 + CONTEXT_MAX,
};

int hkdf_extract(const struct auth_crypto *c, uint8_t hash, const uint8_t *salt,
                 const struct auth_slice *secret, uint8_t *prk)
{
        static const uint8_t zeroes[AUTH_HASH_MAX];
        const struct auth_slice key = { salt ? salt : zeroes, auth_hash_len(hash) };

        return c->digest((enum auth_hash)hash, &key, secret, 1, prk);
}

struct info {
        uint8_t bytes[INFO_MAX];
        size_t len;
};

static void info_add(struct info *i, const void *p, size_t n, bool counted)
{
        if (counted)
                i->bytes[i->len++] = (uint8_t)n;
        memcpy(i->bytes + i->len, p, n);
        i->len += n;
}

static struct info info_of(const char *label, const struct auth_slice *context, size_t len,
                           enum tls_derivation how)
{
        bool printed = how == TLS_PRINTED;
        const uint8_t big[] = { 0, (uint8_t)len }, little[] = { (uint8_t)len, 0 };
        struct info i = { .len = 0 };

        info_add(&i, printed ? big : little, 2, false);
        info_add(&i, label, strlen(label), printed);
        info_add(&i, context->p, context->len, printed);
        return i;
}

/* At most 255 blocks, of which nobody needs more than two. */
static int expand(const struct auth_crypto *c, uint8_t hash, const uint8_t *prk,
                  const struct info *info, uint8_t *out, size_t len)
{
        const struct auth_slice key = { prk, auth_hash_len(hash) };
        uint8_t block[AUTH_HASH_MAX], count = 0;
        int rc = 0;

        for (size_t done = 0; done < len && rc == 0; done += key.len) {
                const struct auth_slice parts[] = { { block, count ? key.len : 0 },
                                                    { info->bytes, info->len },
                                                    { &count, 1 } };
                size_t n = len - done < key.len ? len - done : key.len;

                count++;
                rc = c->digest((enum auth_hash)hash, &key, parts, 3, block);
                memcpy(out + done, block, n);
        }
        wipe(block, sizeof(block));
        return rc;
}

int hkdf_expand_label(const struct auth_crypto *c, uint8_t hash, const uint8_t *prk,
                      const char *label, const struct auth_slice *context, enum tls_derivation how,
                      uint8_t *out, size_t len)
{
        struct info info;

        if (context->len > CONTEXT_MAX || strlen(label) > LABEL_MAX)
                return -1;
        info = info_of(label, context, len, how);
        return expand(c, hash, prk, &info, out, len);
}
