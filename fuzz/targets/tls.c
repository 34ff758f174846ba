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

/* A second ClientHello repeats the first one, whatever a HelloRetryRequest lets it change. */
static void check_repeated(struct tls_hello h, const struct tls_hello_view *first)
{
        const struct auth_slice cookie = { first->random, 32 };
        uint8_t record[TLS_HELLO_MAX];
        struct tls_hello_view second;
        size_t n;

        h.cookie = &cookie;
        h.shares_spare = h.spare_group != TLS_NO_GROUP;
        h.early = false;
        n = tls_hello_build(fuzz_arithmetic(0, 0), &h, record);
        if (n > 0 && tls_hello_read(&second, record, n))
                must(tls_hello_repeats(&second, first));
}

/* What is built of the input's first bytes and its last one, with its end as identity, is read as it was meant. */
static void check_built(const uint8_t *input, size_t size)
{
        static const uint16_t versions[] = { TLS_1_3, TLS_1_3, TLS_1_2, TLS_1_0 },
                              groups[] = { TLS_NO_GROUP, TLS_SECP256R1, TLS_SECP384R1, TLS_X25519 };
        uint8_t record[TLS_HELLO_MAX], kind = input[0], more = input[1], odd = input[size - 1];
        struct tls_psk psk[2] = { 0 };
        struct tls_hello h = { .version = versions[kind & 3],
                               .suites = (kind >> 2 & 3u) << TLS_AES_128_GCM,
                               .modes = kind >> 4 & 3u,
                               .group = groups[kind >> 6],
                               .spare_group = odd & 1 ? TLS_FFDHE3072 : groups[odd >> 1 & 3],
                               .early = more & 1,
                               .wrong_binder = more & 2,
                               .unknown = more & 64,
                               .compressed = more & 128,
                               .psk_first = odd & 8,
                               .session_len = odd & 1 ? 32 : 0,
                               .wrong_len = odd >> 4,
                               .wrong_by = 1,
                               .psk = more & 4 ? &psk[0] : NULL,
                               .also = (more & 12) == 12 ? &psk[1] : NULL };
        struct tls_hello_view v;
        size_t n;

        for (unsigned i = 0; i < 2; i++) {
                psk[i].suite = more >> (4 + i) & 1 ? TLS_AES_128_GCM : TLS_AES_256_GCM;
                psk[i].identity_len = (uint16_t)(size - 2 < 64 ? size - 2 : 64);
                memcpy(psk[i].identity, input + 2, psk[i].identity_len);
        }
        if (h.wrong_len > tls_hello_lengths(&h))
                h.wrong_len = 0;
        n = tls_hello_build(fuzz_arithmetic(0, 0), &h, record);
        must(n <= sizeof(record));
        if (n == 0)
                return;
        if (!tls_hello_read(&v, record, n)) {
                must(h.wrong_len > 0);
                return;
        }
        check_identities((struct place) { record, record + n }, &v);
        if (h.wrong_len > 0)
                return;
        must(h.version < TLS_1_3 || v.identities == (h.psk ? 1u : 0u) + (h.also ? 1u : 0u));
        check_repeated(h, &v);
}

/* A server's answer, right or wrong, is read as what it was built as. */
static void check_server_built(const uint8_t *input, size_t size)
{
        uint8_t record[TLS_ANSWER_MAX], kind = input[0], more = input[1];
        const struct auth_slice end = { input + 2, size - 2 < 32 ? size - 2 : 32 };
        struct tls_server_hello h = { .retry = kind & 1,
                                      .legacy = kind & 2 ? TLS_1_2 : TLS_1_0,
                                      .version = kind & 4 ? TLS_1_3 : 0,
                                      .downgraded = kind & 8,
                                      .session = end.p,
                                      .session_len = (uint8_t)end.len,
                                      .suite = more,
                                      .compression = more & 1,
                                      .psk = kind & 16,
                                      .group = kind & 32 ? TLS_SECP256R1 : TLS_NO_GROUP,
                                      .share = end,
                                      .cookie = kind & 64 ? end : (struct auth_slice) { NULL, 0 },
                                      .strange = kind & 128 ? 0x0a0a : 0,
                                      .twice = more & 2,
                                      .over = more & 4,
                                      .wrong_len = more & 8 ? TLS_LAST_LEN : more >> 4,
                                      .wrong_by = more & 128 ? -1 : 1 };
        size_t n = tls_server_hello_build(&h, record);
        struct tls_answer a = tls_answer_read(record, n);

        must(n > 0 && n <= sizeof(record));
        check_answer((struct place) { record, record + n }, &a);
        if (h.wrong_len > 0)
                return;
        must(a.kind == (h.retry ? TLS_RETRY : TLS_SERVER_HELLO) && a.suite == h.suite);
        must(a.psk == h.psk && a.group == h.group && a.strange == h.strange && a.over == h.over);
        must(a.cookie.len == h.cookie.len && (!h.twice || !h.version || a.twice));
}

static void check_short_ones(uint8_t description)
{
        uint8_t record[TLS_ANSWER_MAX], message[16];
        size_t n = tls_alert_build(description, record);
        struct tls_answer a = tls_answer_read(record, n);

        must(a.kind == TLS_ALERT && a.alert == description && a.len == n);
        must(tls_accepts_early(message, tls_early_build(message)) == 1);
}

/* What a ClientHello lists, looked up. */
static void check_lists(struct place p, const struct tls_hello_view *v)
{
        struct auth_slice share = { NULL, 0 };

        must(!v->first_suite || tls_hello_has_suite(v, v->first_suite));
        must(!tls_hello_share(v, v->share_group, &share) || share.p == v->share || !v->share_group);
        check_within(p, share.p, share.len);
        must(!v->cookie.p || tls_hello_has_extension(v, 44));
        (void)tls_hello_has_group(v, TLS_FFDHE3072);
        (void)tls_hello_repeats(v, v);
}

/* Keys by a ClientHello as it came: those of the handshake, and of what follows it. */
static void check_keys(const struct tls_hello_view *v, const struct tls_psk *psk)
{
        const struct auth_crypto *crypto = fuzz_arithmetic(0, v->suites % 16);
        const struct auth_slice said = { v->message, v->message_len };
        uint8_t secrets[2][AUTH_HASH_MAX];
        struct tls_traffic t;
        int rc = tls_server_traffic(crypto, psk, &said, &said, &t);

        must(rc == 0 || rc == -1);
        rc = tls_psk_secrets(crypto, psk, &said, TLS_APPLICATION_KEYS, &said, 1, secrets);
        must(rc == 0 || rc == -1);
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
        check_lists(p, &v);
        check_keys(&v, &psk);
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
        if (size <= 2)
                return 0;
        check_built(input, size);
        check_server_built(input, size);
        check_short_ones(input[0]);
        return 0;
}
