/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_record.h"

#include <string.h>

#include "pdu/core/tls.h"

enum { HEADER = 5, TAG = 16 };

#ifdef NVMF_WITH_OPENSSL

#include <openssl/evp.h>

static EVP_CIPHER_CTX *begin(const struct tls_traffic *t, uint64_t seq, bool seal)
{
        const EVP_CIPHER *cipher =
            t->suite == TLS_AES_128_GCM ? EVP_aes_128_gcm() : EVP_aes_256_gcm();
        EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
        uint8_t nonce[sizeof(t->iv)];

        memcpy(nonce, t->iv, sizeof(nonce));
        for (unsigned i = 0; i < 8; i++)
                nonce[sizeof(nonce) - 1 - i] ^= (uint8_t)(seq >> 8 * i);
        if (ctx && EVP_CipherInit_ex(ctx, cipher, NULL, t->key, nonce, seal) == 1)
                return ctx;
        EVP_CIPHER_CTX_free(ctx);
        return NULL;
}

/* False: it is not what the tag is of. */
static bool crypt(EVP_CIPHER_CTX *ctx, const uint8_t *header, const uint8_t *from, int len,
                  uint8_t *to)
{
        int n;

        return EVP_CipherUpdate(ctx, NULL, &n, header, HEADER) == 1 &&
               EVP_CipherUpdate(ctx, to, &n, from, len) == 1 &&
               EVP_CipherFinal_ex(ctx, to + len, &n) == 1;
}

size_t tls_record_seal(const struct tls_traffic *t, uint64_t seq, uint8_t type, const void *content,
                       size_t len, size_t pad, uint8_t *record)
{
        size_t inner = len + 1 + pad, n = inner + TAG;
        const uint8_t header[HEADER] = { TLS_DATA, 3, 3, (uint8_t)(n >> 8), (uint8_t)n };
        EVP_CIPHER_CTX *ctx = begin(t, seq, true);
        bool good;

        memcpy(record, header, HEADER);
        memmove(record + HEADER, content, len);
        record[HEADER + len] = type;
        memset(record + HEADER + len + 1, 0, pad);
        good = ctx && crypt(ctx, header, record + HEADER, (int)inner, record + HEADER) &&
               EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG, record + HEADER + inner) == 1;
        EVP_CIPHER_CTX_free(ctx);
        return good ? HEADER + n : 0;
}

/* RFC 8446 5.4: the type is the last byte that is not zero. */
static ssize_t unpad(const uint8_t *content, size_t len, uint8_t *type)
{
        while (len > 0 && content[len - 1] == 0)
                len--;
        *type = len > 0 ? content[len - 1] : 0;
        return len > 0 ? (ssize_t)len - 1 : 0;
}

ssize_t tls_record_open(const struct tls_traffic *t, uint64_t seq, const uint8_t *record,
                        size_t len, uint8_t *content, uint8_t *type)
{
        EVP_CIPHER_CTX *ctx;
        size_t inner;
        bool good;

        if (len < TLS_RECORD_MORE || tls_record_len(record, len) != len || record[0] != TLS_DATA)
                return -1;
        inner = len - HEADER - TAG;
        ctx = begin(t, seq, false);
        good = ctx &&
               EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TAG,
                                   (void *)(uintptr_t)(record + HEADER + inner)) == 1 &&
               crypt(ctx, record, record + HEADER, (int)inner, content);
        EVP_CIPHER_CTX_free(ctx);
        return good ? unpad(content, inner, type) : -1;
}

#else

size_t tls_record_seal(const struct tls_traffic *t, uint64_t seq, uint8_t type, const void *content,
                       size_t len, size_t pad, uint8_t *record)
{
        (void)t, (void)seq, (void)type, (void)content, (void)len, (void)pad, (void)record;
        return 0;
}

ssize_t tls_record_open(const struct tls_traffic *t, uint64_t seq, const uint8_t *record,
                        size_t len, uint8_t *content, uint8_t *type)
{
        (void)t, (void)seq, (void)record, (void)len, (void)content, (void)type;
        return -1;
}

#endif
