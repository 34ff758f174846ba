/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth_openssl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "pdu/core/wipe.h"
#include "pdu/io/core_dump.h"
#include "pdu/io/log.h"

#ifndef NVMF_WITH_OPENSSL

const struct auth_crypto *auth_openssl(void)
{
        return NULL;
}

#else

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/dh.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

static const EVP_MD *md_of(enum auth_hash hash)
{
        return hash == AUTH_SHA256   ? EVP_sha256()
               : hash == AUTH_SHA384 ? EVP_sha384()
                                     : EVP_sha512();
}

static int plain_hash(enum auth_hash hash, const struct auth_slice *parts, unsigned n, uint8_t *out)
{
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();
        bool good = ctx && EVP_DigestInit_ex(ctx, md_of(hash), NULL);

        for (unsigned i = 0; i < n && good; i++)
                good = EVP_DigestUpdate(ctx, parts[i].p, parts[i].len);
        good = good && EVP_DigestFinal_ex(ctx, out, NULL);
        EVP_MD_CTX_free(ctx);
        return good ? 0 : -1;
}

static EVP_MAC_CTX *hmac_new(void)
{
        EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
        EVP_MAC_CTX *ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;

        EVP_MAC_free(mac); /* the context holds it */
        return ctx;
}

static int hmac(enum auth_hash hash, const struct auth_slice *key, const struct auth_slice *parts,
                unsigned n, uint8_t *out)
{
        OSSL_PARAM params[] = {
                OSSL_PARAM_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)EVP_MD_get0_name(md_of(hash)),
                                       0),
                OSSL_PARAM_END,
        };
        EVP_MAC_CTX *ctx = hmac_new();
        bool good = ctx && EVP_MAC_init(ctx, key->p, key->len, params);

        for (unsigned i = 0; i < n && good; i++)
                good = EVP_MAC_update(ctx, parts[i].p, parts[i].len);
        good = good && EVP_MAC_final(ctx, out, NULL, AUTH_HASH_MAX);
        EVP_MAC_CTX_free(ctx);
        return good ? 0 : -1;
}

static int digest(enum auth_hash hash, const struct auth_slice *key, const struct auth_slice *parts,
                  unsigned n, uint8_t *out)
{
        return key ? hmac(hash, key, parts, n, out) : plain_hash(hash, parts, n, out);
}

/* The prime of a group, which OpenSSL knows by name; NULL: out of memory. */
static BIGNUM *prime_of(enum auth_group group)
{
        OSSL_PARAM params[] = {
                OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME,
                                       (char *)auth_group_name((uint8_t)group), 0),
                OSSL_PARAM_END,
        };
        EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
        EVP_PKEY *key = NULL;
        BIGNUM *p = NULL;

        if (ctx && EVP_PKEY_fromdata_init(ctx) > 0 &&
            EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEY_PARAMETERS, params) > 0)
                EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_FFC_P, &p);
        EVP_PKEY_free(key);
        EVP_PKEY_CTX_free(ctx);
        return p;
}

/* 1 < base < p - 1 */
static bool in_group(const BIGNUM *base, const BIGNUM *p)
{
        BIGNUM *top = BN_dup(p);
        bool in =
            top && BN_sub_word(top, 1) && BN_cmp(base, BN_value_one()) > 0 && BN_cmp(base, top) < 0;

        BN_free(top);
        return in;
}

static BIGNUM *base_of(const uint8_t *base, unsigned len)
{
        static const uint8_t generator[] = { 2 };

        return base ? BN_bin2bn(base, (int)len, NULL) : BN_bin2bn(generator, 1, NULL);
}

static int power(enum auth_group group, const uint8_t *base, const uint8_t *exponent, size_t n,
                 uint8_t *out)
{
        unsigned len = auth_group_len((uint8_t)group);
        BIGNUM *p = prime_of(group), *b = base_of(base, len);
        BIGNUM *x = BN_bin2bn(exponent, (int)n, NULL), *r = BN_new();
        BN_CTX *ctx = BN_CTX_new();
        bool good = p && b && x && r && ctx && in_group(b, p);

        if (good)
                BN_set_flags(x, BN_FLG_CONSTTIME);
        good = good && BN_mod_exp_mont_consttime(r, b, x, p, ctx, NULL) &&
               BN_bn2binpad(r, out, (int)len) > 0;
        BN_CTX_free(ctx);
        BN_clear_free(r);
        BN_clear_free(x);
        BN_free(b);
        BN_free(p);
        return good ? 0 : -1;
}

static int top(enum auth_group group, uint8_t *out)
{
        BIGNUM *p = prime_of(group);
        bool good =
            p && BN_sub_word(p, 1) && BN_bn2binpad(p, out, (int)auth_group_len((uint8_t)group)) > 0;

        BN_free(p);
        return good ? 0 : -1;
}

static int draw(void *out, size_t n)
{
        return RAND_bytes(out, (int)n) == 1 ? 0 : -1;
}

const struct auth_crypto *auth_openssl(void)
{
        static const struct auth_crypto crypto = { digest, power, top, draw };

        return &crypto;
}

#endif

/* The first line of a file, without its end; -1: errno. */
static int read_line(const char *path, char *line, int size)
{
        FILE *f = fopen(path, "re");
        bool good;

        if (!f)
                return -1;
        errno = ENODATA;
        setvbuf(f, NULL, _IONBF, 0); /* no copy of the key */
        good = fgets(line, size, f) != NULL;
        fclose(f);
        if (!good)
                return -1;
        line[strcspn(line, "\r\n")] = '\0';
        return 0;
}

void auth_warn_of_readers(const char *file)
{
        struct stat st;

        if (stat(file, &st) == 0 && S_ISREG(st.st_mode) && st.st_mode & 077)
                log_line(LOG_AS_WARNING, NULL, NULL,
                         "%s: has keys, and others may read it (mode %04o; chmod 600)", file,
                         (unsigned)(st.st_mode & 07777));
}

int auth_option(struct auth_key *key, auth_parse *parse, const char *value, char *error,
                size_t size)
{
        char line[256] = "";
        const char *wrong;

        core_dump_empty();
        if (!auth_openssl()) {
                snprintf(error, size, "built without OpenSSL: no authentication");
                return -1;
        }
        if (value[0] == '@' && read_line(value + 1, line, sizeof(line)) < 0) {
                snprintf(error, size, "%s: %s", value + 1, strerror(errno));
                return -1;
        }
        if (value[0] == '@')
                auth_warn_of_readers(value + 1);
        wrong = parse(key, value[0] == '@' ? line : value);
        wipe(line, sizeof(line));
        if (wrong)
                snprintf(error, size, "%s%s%s", value[0] == '@' ? value + 1 : "",
                         value[0] == '@' ? ": " : "", wrong);
        return wrong ? -1 : 0;
}

int auth_key_option(struct auth_key *key, const char *value, char *error, size_t size)
{
        return auth_option(key, auth_key_parse, value, error, size);
}

int auth_argument(struct auth_key *key, auth_parse *parse, const char *value, char *error,
                  size_t size)
{
        if (value[0] != '@')
                log_line(LOG_AS_WARNING, NULL, NULL,
                         "a key on the command line is seen by others: give @FILE or @/dev/fd/N");
        return auth_option(key, parse, value, error, size);
}

int auth_key_argument(struct auth_key *key, const char *value, char *error, size_t size)
{
        return auth_argument(key, auth_key_parse, value, error, size);
}
