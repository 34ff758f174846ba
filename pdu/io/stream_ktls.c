/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream_ktls.h"

#ifdef NVMF_WITH_OPENSSL

#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>
#include <sys/socket.h>

#include "pdu/core/wipe.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#ifndef TCP_ULP
#define TCP_ULP 31
#endif

enum { IV = 12, SALT = 4 };

/* HKDF-Expand-Label without context (RFC 8446 7.1); label: "tls13 ...". */
static bool expand(enum tls_suite suite, const uint8_t *secret, const char *label, uint8_t *out,
                   size_t len)
{
        uint8_t info[64] = { 0, (uint8_t)len, (uint8_t)strlen(label) };
        size_t n = strlen(label);
        int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
        char *digest = suite == TLS_AES_128_GCM ? "SHA256" : "SHA384";
        OSSL_PARAM params[] = {
                OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
                OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
                                                  tls_key_len(suite)),
                OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, 3 + n + 1),
                OSSL_PARAM_construct_end(),
        };
        EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
        EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
        bool good;

        memcpy(info + 3, label, n);
        good = ctx && EVP_KDF_derive(ctx, out, len, params) == 1;
        EVP_KDF_CTX_free(ctx);
        EVP_KDF_free(kdf);
        return good;
}

/* The keys of a secret, from their first record on. */
static bool set_keys(int fd, enum tls_suite suite, const uint8_t *secret, int direction)
{
        union {
                struct tls_crypto_info info;
                struct tls12_crypto_info_aes_gcm_128 small;
                struct tls12_crypto_info_aes_gcm_256 large;
        } c = { .info = { .version = TLS_1_3_VERSION } };
        bool is_small = suite == TLS_AES_128_GCM;
        uint8_t *key = is_small ? c.small.key : c.large.key, iv[IV];
        bool good = expand(suite, secret, "tls13 key", key,
                           is_small ? sizeof(c.small.key) : sizeof(c.large.key)) &&
                    expand(suite, secret, "tls13 iv", iv, sizeof(iv));

        errno = ENOTSUP;
        c.info.cipher_type = is_small ? TLS_CIPHER_AES_GCM_128 : TLS_CIPHER_AES_GCM_256;
        memcpy(is_small ? c.small.salt : c.large.salt, iv, SALT);
        memcpy(is_small ? c.small.iv : c.large.iv, iv + SALT, sizeof(iv) - SALT);
        good = good && setsockopt(fd, SOL_TLS, direction, &c,
                                  is_small ? sizeof(c.small) : sizeof(c.large)) == 0;
        wipe(&c, sizeof(c));
        wipe(iv, sizeof(iv));
        return good;
}

int ktls_begin(int fd, const struct ktls *k)
{
        if (setsockopt(fd, SOL_TCP, TCP_ULP, "tls", sizeof("tls")) < 0 ||
            !set_keys(fd, k->suite, k->out, TLS_TX))
                return 0;
        return set_keys(fd, k->suite, k->in, TLS_RX) ? 1 : -1;
}

ssize_t ktls_read(int fd, const struct iovec *iov, int n, uint8_t *type)
{
        enum { DATA = 23 };
        union {
                struct cmsghdr align;
                uint8_t bytes[CMSG_SPACE(sizeof(uint8_t))];
        } control;
        struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)iov,
                              .msg_iovlen = (size_t)n,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control) };
        ssize_t got = recvmsg(fd, &msg, 0);
        const struct cmsghdr *c = got >= 0 ? CMSG_FIRSTHDR(&msg) : NULL;

        *type = DATA;
        if (c && c->cmsg_level == SOL_TLS && c->cmsg_type == TLS_GET_RECORD_TYPE)
                *type = *CMSG_DATA(c);
        return got;
}

bool ktls_send(int fd, uint8_t type, const void *content, size_t len)
{
        union {
                struct cmsghdr header;
                uint8_t bytes[CMSG_SPACE(sizeof(uint8_t))];
        } control = { .header = { .cmsg_len = CMSG_LEN(sizeof(type)),
                                  .cmsg_level = SOL_TLS,
                                  .cmsg_type = TLS_SET_RECORD_TYPE } };
        struct iovec iov = { (void *)(uintptr_t)content, len };
        const struct msghdr msg = { .msg_iov = &iov,
                                    .msg_iovlen = 1,
                                    .msg_control = &control,
                                    .msg_controllen = sizeof(control) };

        *CMSG_DATA(&control.header) = type;
        return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)len;
}

bool ktls_update(int fd, struct ktls *k, bool out)
{
        uint8_t *secret = out ? k->out : k->in, next[TLS_KEY_MAX];
        bool good = expand(k->suite, secret, "tls13 traffic upd", next, tls_key_len(k->suite));

        if (good)
                memcpy(secret, next, tls_key_len(k->suite));
        wipe(next, sizeof(next));
        return good && set_keys(fd, k->suite, secret, out ? TLS_TX : TLS_RX);
}

#endif
