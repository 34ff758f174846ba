/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes first on a TLS connection: the input is a record that holds a ClientHello, one that holds a
 * server's answer, and a handshake message that EncryptedExtensions may be. What points into the input stays
 * there, and each ClientHello that can be read can be answered.
 */
#include "fuzz/arithmetic.h"
#include "fuzz/fuzz.h"
#include "pdu/nvme/machine/tls_hello.h"

struct place {
        const uint8_t *begin, *end;
};

static void check_within(struct place p, const uint8_t *at, size_t len)
{
        must(len == 0 || (at >= p.begin && at + len <= p.end));
}

static void check_answer(struct place p, const struct tls_answer *a)
{
        char text[120];

        must(a->len <= (size_t)(p.end - p.begin));
        must((a->kind == TLS_NO_ANSWER) <= (a->len == 0));
        check_within(p, a->share, a->share_len);
        tls_answer_text(a, text, sizeof(text));
        must(strlen(text) > 0 && strlen(text) < sizeof(text) - 1);
}

static void check_answerable(const struct tls_hello_view *v)
{
        uint8_t record[TLS_ANSWER_MAX];
        size_t n = tls_answer_build(v, v->version, record);
        struct tls_answer a = tls_answer_read(record, n);

        must(n <= sizeof(record));
        if (n == 0) /* its share is too long */
                return;
        must(a.kind == TLS_SERVER_HELLO && a.len == n);
        must(a.suite == v->first_suite);
        must(v->version < TLS_1_3 || (a.psk == (v->identities > 0) && a.group == v->share_group));
}

static void check_identities(struct place p, const struct tls_hello_view *v)
{
        const uint8_t *identity;
        uint16_t len;

        for (unsigned n = 0; n < v->identities; n++) {
                must(tls_hello_identity(v, n, &identity, &len));
                check_within(p, identity, len);
        }
        must(!tls_hello_identity(v, v->identities, &identity, &len));
}

/* What is built of the input's first bytes, with its end as identity, is read as it was meant. */
static void check_built(const uint8_t *input, size_t size)
{
        static const uint16_t versions[] = { TLS_1_3, TLS_1_3, TLS_1_2, TLS_1_0 },
                              groups[] = { TLS_NO_GROUP, TLS_SECP256R1, TLS_SECP384R1, TLS_X25519 };
        uint8_t record[TLS_HELLO_MAX], kind = input[0], more = input[1];
        struct tls_psk psk[2] = { 0 };
        struct tls_hello h = { .version = versions[kind & 3],
                               .suites = (kind >> 2 & 3u) << TLS_AES_128_GCM,
                               .modes = kind >> 4 & 3u,
                               .group = groups[kind >> 6],
                               .early = more & 1,
                               .wrong_binder = more & 2,
                               .psk = more & 4 ? &psk[0] : NULL,
                               .also = (more & 12) == 12 ? &psk[1] : NULL };
        struct tls_hello_view v;
        size_t n;

        for (unsigned i = 0; i < 2; i++) {
                psk[i].suite = more >> (4 + i) & 1 ? TLS_AES_128_GCM : TLS_AES_256_GCM;
                psk[i].identity_len = (uint16_t)(size - 2 < 64 ? size - 2 : 64);
                memcpy(psk[i].identity, input + 2, psk[i].identity_len);
        }
        n = tls_hello_build(fuzz_arithmetic(0, 0), &h, record);
        if (n == 0)
                return;
        must(n <= sizeof(record) && tls_hello_read(&v, record, n));
        must(h.version < TLS_1_3 || v.identities == (h.psk ? 1u : 0u) + (h.also ? 1u : 0u));
        check_identities((struct place) { record, record + n }, &v);
}

static void check_hello(struct place p)
{
        const struct auth_crypto *crypto = fuzz_arithmetic(0, 0);
        size_t n = (size_t)(p.end - p.begin);
        struct tls_hello_view v;
        struct tls_psk psk = { .suite = n & 1 ? TLS_AES_128_GCM : TLS_AES_256_GCM };

        if (!tls_hello_read(&v, p.begin, n))
                return;
        check_within(p, v.share, v.share_len);
        check_within(p, v.session, v.session_len);
        check_within(p, v.message, v.message_len);
        check_within(p, v.identity, v.identity_len);
        check_within(p, v.binder, v.binder_len);
        must(v.before_binders <= v.message_len);
        check_identities(p, &v);
        (void)tls_hello_proves(crypto, &v, &psk);
        check_answerable(&v);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct place p = { input, input + size };
        struct tls_answer a = tls_answer_read(input, size);
        int early = tls_accepts_early(input, size);

        must(tls_record_len(input, size) <= size);
        must(early >= -1 && early <= 1);
        check_answer(p, &a);
        check_hello(p);
        if (size > 2)
                check_built(input, size);
        return 0;
}
