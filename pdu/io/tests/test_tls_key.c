/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys and identities of TLS, against values that others computed: digests are nvme-cli's own, the keys those
 * of a second implementation of the text. */
#include "pdu/core/tests/check.h"

#include <stdio.h>
#include <string.h>

#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/machine/tls_key.h"

#define CONFIGURED "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
#define HOST       "nqn.psk-test-host"
#define SUBSYS     "nqn.psk-test-subsys"

static const struct vector {
        unsigned version;
        enum tls_suite suite;
        enum tls_derivation how;
        const char *identity, *key;
} vectors[] = {
        { 0, TLS_AES_128_GCM, TLS_PRINTED, "NVMe0R01 " HOST " " SUBSYS,
          "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68" },
        { 0, TLS_AES_128_GCM, TLS_OLD, "NVMe0R01 " HOST " " SUBSYS,
          "09fb1983ac6d6d0353e7cae4f23daddd651c367fa347c59d9cf6936f5a83eafb" },
        { 0, TLS_AES_256_GCM, TLS_PRINTED, "NVMe0R02 " HOST " " SUBSYS,
          "25828ec5d23f8ce359a7242318d967f49a118797589b0941f5908353ad12057905ff22ea497b698ba0851fdf"
          "1b34"
          "e5d2" },
        { 0, TLS_AES_256_GCM, TLS_OLD, "NVMe0R02 " HOST " " SUBSYS,
          "f32635ac359ab8fbf595baf7993a2b97e8978d85cb8ea2a3d2dfc6492246883f4c7509679c55238e202fa311"
          "1245"
          "84c1" },
        { 1, TLS_AES_128_GCM, TLS_PRINTED,
          "NVMe1R01 " HOST " " SUBSYS " iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
          "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca" },
        { 1, TLS_AES_128_GCM, TLS_OLD,
          "NVMe1R01 " HOST " " SUBSYS " 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
          "b9f5ab2a41ba6e72a23a12066302a2f775fa6c0942c8e0b18ca8ac07edf305e2" },
        { 1, TLS_AES_256_GCM, TLS_PRINTED,
          "NVMe1R02 " HOST " " SUBSYS
          " 6Kg3oceLHc+BJmPVDUdxBgSFCQu1UxTxI4s7basbb5sIUuv+7YkKpAAEOqUbN0KT",
          "a904a96e5b4c392a4fc3b2191542b4e0cd3996983732d3be74808ddad6baa4b5cec3f702610e95c457647f90"
          "f1c7"
          "fd44" },
        { 1, TLS_AES_256_GCM, TLS_OLD,
          "NVMe1R02 " HOST " " SUBSYS
          " Gy8C+5NgADbeeDviX5BaiAPOcAiMjZg6WPKroGXmbzAzBykr+EZ9otVEnnqFYKeB",
          "d41ca74f1cfe8ca8e7a402c593162c25c79c9ecd510c19c2c435bcf82673a59ca107c5051c5807e34de0308c"
          "7934"
          "823e" },
};

static struct auth_key configured;

static int parse(void **state)
{
        (void)state;
        return tls_key_parse(&configured, CONFIGURED) ? -1 : 0;
}

static struct tls_identity identity_of(const struct vector *v)
{
        struct tls_identity id = { .version = (uint8_t)v->version, .suite = v->suite };

        strcpy(id.hostnqn, HOST);
        strcpy(id.subnqn, SUBSYS);
        return id;
}

static void assert_psk(const struct tls_psk *psk, const struct vector *v)
{
        char hex[2 * TLS_KEY_MAX + 1] = "";

        for (size_t i = 0; i < tls_key_len(v->suite); i++)
                snprintf(hex + 2 * i, 3, "%02x", psk->key[i]);
        assert_string_equal(hex, v->key);
        assert_int_equal(psk->suite, v->suite);
        assert_int_equal(psk->identity_len, strlen(v->identity));
        assert_memory_equal(psk->identity, v->identity, psk->identity_len);
}

static void keys_are_those_that_others_derive(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
                struct tls_identity id = identity_of(&vectors[i]);
                struct tls_psk psk;

                assert_int_equal(
                    tls_key_derive(auth_openssl(), &configured, &id, vectors[i].how, &psk), 0);
                assert_psk(&psk, &vectors[i]);
        }
}

/* Version 1 shows whose key it is, and how it was derived; version 0 does not. */
static void identities_are_found(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
                const struct vector *v = &vectors[i];
                enum tls_derivation other = v->how == TLS_PRINTED ? TLS_OLD : TLS_PRINTED;
                size_t len = strlen(v->identity);
                struct tls_psk psk;

                assert_int_equal(
                    tls_key_find(auth_openssl(), &configured, v->how, v->identity, len, &psk), 1);
                assert_psk(&psk, v);
                assert_int_equal(
                    tls_key_find(auth_openssl(), &configured, other, v->identity, len, &psk),
                    v->version == 0);
        }
}

/* As 3.6.1.3 has it, which is a key of its own. */
static void an_identity_may_end_with_nul(void **state)
{
        static const char text[] = "NVMe0R01 " HOST " " SUBSYS;
        struct tls_psk with, without;

        (void)state;
        assert_int_equal(
            tls_key_find(auth_openssl(), &configured, TLS_PRINTED, text, sizeof(text), &with), 1);
        assert_int_equal(tls_key_find(auth_openssl(), &configured, TLS_PRINTED, text,
                                      sizeof(text) - 1, &without),
                         1);
        assert_int_equal(with.identity_len, sizeof(text));
        assert_memory_not_equal(with.key, without.key, 32);
}

static void a_key_may_be_used_as_it_stands(void **state)
{
        struct tls_identity id = identity_of(&vectors[0]);
        struct auth_key retained = configured;
        struct tls_psk psk;

        (void)state;
        retained.hash = 0;
        assert_int_equal(tls_key_derive(auth_openssl(), &retained, &id, TLS_PRINTED, &psk), 0);
        assert_int_equal(psk.identity_len, strlen(vectors[0].identity));
        id.generated = true;
        assert_int_equal(tls_key_derive(auth_openssl(), &retained, &id, TLS_PRINTED, &psk), 0);
        assert_memory_equal(psk.identity, "NVMe0G01", 8);
}

static void what_is_no_identity_is_refused(void **state)
{
        static const char *const wrong[] = {
                "",
                "NVMe0R01",
                "NVMe0R01 ",
                "NVMe0R01 a",
                "NVMe0R01 a ",
                "NVMe0R01  b",
                "NVMe0R01 a b c",
                "NVMe1R01 a b",
                "NVMe1R01 a b ",
                "NVMe1R01 a b c d",
                "NVMe2R01 a b",
                "NVMe0X01 a b",
                "NVMe0R11 a b",
                "NVMe0R00 a b",
                "NVMe0R03 a b",
                "NVMe0R01-a b",
                "nvme0R01 a b",
                "NVMe0R01 a b\n\n ",
        };
        char longest[600];
        struct tls_identity id;

        (void)state;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                if (tls_identity_parse(&id, wrong[i], strlen(wrong[i])))
                        fail_msg("'%s'", wrong[i]);
        assert_false(tls_identity_parse(&id, "NVMe0R01 a\0b c", 14));
        assert_false(tls_identity_parse(&id, "NVMe0R01 a b\0\0", 14));
        snprintf(longest, sizeof(longest), "NVMe0R01 %0224d b", 1);
        assert_false(tls_identity_parse(&id, longest, strlen(longest)));
        snprintf(longest, sizeof(longest), "NVMe0R01 %0223d b", 1);
        assert_true(tls_identity_parse(&id, longest, strlen(longest)));
}

/* RFC 8446 7.1: a context has 255 bytes at most. A digest in place of the names has no such limit. */
static void long_names_need_version_1(void **state)
{
        struct tls_identity id = { .suite = TLS_AES_256_GCM };
        struct tls_psk psk;

        (void)state;
        memset(id.hostnqn, 'h', NQN_MAX);
        memset(id.subnqn, 's', NQN_MAX);
        assert_int_equal(tls_key_derive(auth_openssl(), &configured, &id, TLS_PRINTED, &psk), -1);
        id.version = 1;
        assert_int_equal(tls_key_derive(auth_openssl(), &configured, &id, TLS_PRINTED, &psk), 0);
        assert_int_equal(psk.identity_len, 9 + NQN_MAX + 1 + NQN_MAX + 1 + 64);
}

static const struct auth_crypto *real;
static int works; /* so many more calls */

static int digest_fails(enum auth_hash hash, const struct auth_slice *key,
                        const struct auth_slice *parts, unsigned n, uint8_t *out)
{
        return works-- > 0 ? real->digest(hash, key, parts, n, out) : -1;
}

static void a_library_that_fails_is_noticed(void **state)
{
        const struct auth_crypto failing = { .digest = digest_fails };
        struct tls_identity id = identity_of(&vectors[4]);
        struct tls_psk psk;
        int calls = 0;

        (void)state;
        real = auth_openssl();
        do
                works = calls++;
        while (tls_key_derive(&failing, &configured, &id, TLS_PRINTED, &psk) < 0);
        assert_int_equal(calls - 1, 5); /* of two derivations two, and the digest */
        assert_psk(&psk, &vectors[4]);
        assert_string_equal(tls_derivation_name(TLS_PRINTED), "printed");
        assert_string_equal(tls_derivation_name(TLS_OLD), "old");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(keys_are_those_that_others_derive),
                cmocka_unit_test(identities_are_found),
                cmocka_unit_test(an_identity_may_end_with_nul),
                cmocka_unit_test(a_key_may_be_used_as_it_stands),
                cmocka_unit_test(what_is_no_identity_is_refused),
                cmocka_unit_test(long_names_need_version_1),
                cmocka_unit_test(a_library_that_fails_is_noticed),
        };

        if (!auth_openssl())
                return 77;
        return cmocka_run_group_tests(tests, parse, NULL);
}
