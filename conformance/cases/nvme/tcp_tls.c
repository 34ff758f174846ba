/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP 3.6.1: TLS. What a server takes and what it refuses its first answer says. */
#include <string.h>

#include "conformance/words/case_tls.h"

/* --- what it has to support */

CASE("tcp/tls/version", MUST, RULES(TLS_VERSION), "TLS 1.3 is spoken")
{
        enum { PROTOCOL_VERSION = 70 };
        const struct said *s = offer_each_way(t, usual_psk(t));
        const struct tls_answer *a = &s->answer;

        require(t, a->kind != TLS_ALERT || a->alert == PROTOCOL_VERSION,
                "our ClientHello is refused, and not for its version: %s", s->text);
        want(t, a->version == TLS_1_3, "an answer of TLS 1.3", "%s", s->text);
}

static void want_taken(struct t *t, const struct said *s, const char *expected)
{
        want(t, is_taken(s), expected, "%s", s->text);
}

CASE("tcp/tls/aes-128", MUST, RULES(TLS_AES_128), "TLS_AES_128_GCM_SHA256, offered alone, is used")
{
        want_taken(t, offer_each_way(t, own_psk(t, TLS_AES_128_GCM)), "the suite is used");
}

CASE("tcp/tls/aes-256", SHOULD, RULES(TLS_AES_256),
     "TLS_AES_256_GCM_SHA384, offered alone, is used")
{
        want_taken(t, offer_each_way(t, own_psk(t, TLS_AES_256_GCM)), "the suite is used");
}

CASE("tcp/tls/psk-alone", MUST, RULES(TLS_PSK_ALONE),
     "Key exchange by PSK alone, without (EC)DHE, is used where nothing else is offered")
{
        want_taken(t, say_hello(t, HELLO(usual_psk(t), .modes = TLS_PSK_KE, .group = TLS_NO_GROUP)),
                   "PSK alone is used");
}

CASE("tcp/tls/psk-dhe", MUST, RULES(TLS_PSK_DHE),
     "PSK with (EC)DHE is used where nothing else is offered")
{
        want(t,
             takes_group(t, TLS_FFDHE3072) || takes_group(t, TLS_SECP384R1) ||
                 takes_group(t, TLS_X25519) || takes_group(t, TLS_SECP256R1),
             "PSK with (EC)DHE is used",
             "it is refused with each of ffdhe3072, secp384r1, x25519 and secp256r1");
}

CASE("tcp/tls/ffdhe3072", MUST, RULES(TLS_GROUP_FFDHE3072),
     "The group ffdhe3072, offered alone, is used")
{
        want(t, takes_group(t, TLS_FFDHE3072), "ffdhe3072 is used", "it is refused");
}

CASE("tcp/tls/secp384r1", SHOULD, RULES(TLS_GROUP_SECP384R1),
     "The group secp384r1, offered alone, is used")
{
        want(t, takes_group(t, TLS_SECP384R1), "secp384r1 is used", "it is refused");
}

CASE("tcp/tls/share-fresh", SHOULD, RULES(TLS_SHARE_FRESH),
     "Two handshakes with (EC)DHE have shares of their own")
{
        const struct tls_hello h = accepted_hello(t);
        const struct tls_answer *a, *b;

        require(t, h.group != TLS_NO_GROUP, "the target takes PSK alone and no (EC)DHE");
        a = &say_hello(t, h)->answer;
        b = &say_hello(t, h)->answer;
        want(t, a->share_len > 0 && a->share_len == b->share_len, "shares of the group",
             "%u and %u bytes", a->share_len, b->share_len);
        want(t, memcmp(a->share, b->share, a->share_len) != 0, "different shares",
             "the same share twice");
}

/* --- what it must not take */

CASE("tcp/tls/version-old", MUST, RULES(TLS_VERSION_OLD), "TLS 1.1, TLS 1.0 and SSL 3 are refused")
{
        const struct tls_psk *psk = usual_psk(t);

        for (uint16_t version = TLS_1_1; version >= SSL_3; version--)
                want_refused(t, say_hello(t, HELLO(psk, .version = version)),
                             "an old version is refused");
}

/* A ServerHello without a key is not yet a session: who goes on after it has shown a certificate. */
static void want_ended(struct t *t, struct said *s)
{
        want(t, s->answer.kind != TLS_SERVER_HELLO || is_ended(s),
             "a client without a PSK is refused", "%s, and the connection stays", s->text);
}

CASE("tcp/tls/psk-needed", MUST, RULES(TLS_PSK_NEEDED),
     "A client that offers no pre-shared key is refused")
{
        struct tls_hello h = accepted_hello(t);

        h.psk = NULL;
        want_ended(t, say_hello(t, h));
        h.modes = 0;
        want_ended(t, say_hello(t, h));
}

/* A ServerHello that does without the key is another matter: tcp/tls/psk-needed. */
static void want_unused(struct t *t, struct tls_hello h, const char *expected)
{
        const struct said *s = say_hello(t, h);

        want(t, s->answer.kind != TLS_SERVER_HELLO || !s->answer.psk, expected, "%s", s->text);
}

CASE("tcp/tls/psk-hash", MUST, RULES(TLS_PSK_HASH),
     "A pre-shared key is not used with the cipher suite of the other hash")
{
        struct tls_hello h = accepted_hello(t);

        h.suites =
            h.suites == 1u << TLS_AES_128_GCM ? 1u << TLS_AES_256_GCM : 1u << TLS_AES_128_GCM;
        want_unused(t, h, "the key is not used with this suite");
}

static void want_no_key(struct t *t, struct tls_hello h, const struct tls_psk *psk)
{
        h.psk = psk;
        want_unused(t, h, "there is no key for this identity");
}

CASE("tcp/tls/identity", MUST, RULES(TLS_IDENTITY),
     "A PSK identity that is longer, shorter, in small letters or of another version has no key")
{
        const struct tls_hello h = accepted_hello(t);
        const char *text = (const char *)h.psk->identity;
        int len = h.psk->identity_len;

        want_no_key(t, h, psk_named(t, "%.*sx", len, text));
        want_no_key(t, h, psk_named(t, "%.*s", len - 1, text));
        want_no_key(t, h, psk_named(t, "nvme%.*s", len - 4, text + 4));
        want_no_key(t, h, psk_named(t, "NVMe9%.*s", len - 5, text + 5));
}

CASE("tcp/tls/generated", MUST, RULES(TLS_IDENTITY),
     "A configured PSK is not found by the identity of a generated one")
{
        want_no_key(t, accepted_hello(t), generated_psk(t));
}

CASE("tcp/tls/binder", MUST, RULES(TLS_BINDER),
     "A client that does not have the key of the identity that it offers is refused")
{
        struct tls_hello h = accepted_hello(t);
        struct tls_psk other = *h.psk;

        h.wrong_binder = true;
        want_unused(t, h, "a wrong binder is refused");
        other.key[0] ^= 1;
        h.psk = &other;
        h.wrong_binder = false;
        want_unused(t, h, "a client with another key is refused");
}

/* --- which key an identity has */

/* The first host from *i on that is not spoilt, and whose PSK is good for what is asked; NULL: there is none. */
static const struct tls_host *next_host(struct t *t, unsigned *i, bool hashed)
{
        const struct tls_host *h;

        while ((h = tls_host_of(t, (*i)++)) != NULL)
                if (!h->key.spoilt && (h->key.hash > 0) == hashed)
                        return h;
        return NULL;
}

static const struct tls_psk *psk_by(struct t *t, const struct tls_host *h, uint8_t hash)
{
        struct auth_key *key = t_alloc(t, sizeof(*key));

        *key = h->key;
        key->hash = hash;
        return psk_of_host(t, h, key, suite_of_key(key));
}

/* Every PSK of that kind, derived as its interchange format says, and in the two other ways. */
static void judge_retained(struct t *t, bool hashed)
{
        const struct tls_host *h;
        unsigned i = 0, count = 0;

        while ((h = next_host(t, &i, hashed)) != NULL) {
                count++;
                want(t, uses_psk(t, psk_by(t, h, h->key.hash)),
                     "the key that is derived from the PSK as its format says",
                     "no ServerHello with it (the hash of the PSK is %02u)", h->key.hash);
                for (uint8_t hash = 0; hash <= AUTH_SHA384; hash++)
                        want(t, hash == h->key.hash || !uses_psk(t, psk_by(t, h, hash)),
                             "no key that is derived in another way",
                             "a ServerHello with the key for hash %02u (the PSK has %02u)", hash,
                             h->key.hash);
        }
        require(t, count,
                hashed ? "no PSK with hash 01 or 02 is known (--tls-key, --tls-host)"
                       : "no PSK with hash 00 is known (--tls-key, --tls-host)");
}

CASE("tcp/tls/psk-as-is", MUST, RULES(TLS_PSK_AS_IS),
     "A configured PSK with hash 00 is the retained PSK as it stands")
{
        judge_retained(t, false);
}

CASE("tcp/tls/psk-retained", MUST, RULES(TLS_PSK_RETAINED),
     "From a configured PSK with hash 01 or 02 the retained PSK is derived by that hash and the "
     "host's NQN")
{
        judge_retained(t, true);
}

CASE("tcp/tls/interchange", MUST, RULES(TLS_INTERCHANGE),
     "TLS is set up with each PSK that was configured in the interchange format")
{
        const struct tls_host *h;
        unsigned i = 0;

        require(t, tls_host_of(t, 0), "no PSK for TLS is known (--tls-key, --tls-host)");
        while ((h = tls_host_of(t, i++)) != NULL)
                want(t, h->key.spoilt || uses_psk(t, psk_by(t, h, h->key.hash)),
                     "each PSK that is configured is used",
                     "no ServerHello with a PSK of %u bytes and hash %02u", h->key.len,
                     h->key.hash);
}

CASE("tcp/tls/psk-checksum", MUST, RULES(TLS_CHECKSUM),
     "A configured PSK whose CRC-32 was wrong is not used")
{
        const struct tls_host *h;
        unsigned i = 0;

        while ((h = tls_host_of(t, i++)) != NULL && !h->key.spoilt)
                ;
        require(t, h, "no host is known whose PSK has a wrong checksum (--tls-host)");
        for (uint8_t hash = 0; hash <= AUTH_SHA384; hash++)
                want(t, !uses_psk(t, psk_by(t, h, hash)), "the PSK is not used",
                     "a ServerHello with it");
}

CASE("tcp/tls/psk-per-host", SHOULD, RULES(TLS_PSK_PER_HOST),
     "Two hosts have configured PSKs of their own, and neither has the other's")
{
        const struct tls_host *h[2] = { NULL, NULL };

        for (unsigned i = 0; !h[1] && (h[1] = tls_host_of(t, i)) != NULL; i++) {
                if (!h[0] && !h[1]->key.spoilt)
                        h[0] = h[1];
                if (h[1]->key.spoilt || memcmp(h[0]->key.bytes, h[1]->key.bytes, 32) == 0)
                        h[1] = NULL;
        }
        require(t, h[1], "no second host with a PSK of its own is known (--tls-host)");
        for (unsigned i = 0; i < 2; i++)
                want(t, uses_psk(t, psk_by(t, h[i], h[i]->key.hash)), "a host's own PSK",
                     "no ServerHello with it");
        for (unsigned i = 0; i < 2; i++) {
                const struct auth_key *others = &h[!i]->key;

                want(t, !uses_psk(t, psk_of_host(t, h[i], others, suite_of_key(others))),
                     "no PSK of another host", "a ServerHello with the other host's");
        }
}

CASE("tcp/tls/each-suite", SHOULD, RULES(TLS_EACH_SUITE),
     "A configured PSK is good for each cipher suite that is used with some PSK")
{
        const struct tls_host *h;
        unsigned used[TLS_AES_256_GCM + 1] = { 0 }, count = 0;

        for (unsigned i = 0; (h = tls_host_of(t, i)) != NULL; i++) {
                if (h->key.spoilt)
                        continue;
                count++;
                for (enum tls_suite s = TLS_AES_128_GCM; s <= TLS_AES_256_GCM; s++)
                        used[s] += uses_psk(t, psk_of_host(t, h, &h->key, s));
        }
        require(t, used[TLS_AES_128_GCM] && used[TLS_AES_256_GCM],
                "one suite is used with no PSK that is known: it may not be supported");
        for (enum tls_suite s = TLS_AES_128_GCM; s <= TLS_AES_256_GCM; s++)
                want_eq(t,
                        s == TLS_AES_128_GCM ? "PSKs that TLS_AES_128_GCM_SHA256 is used with"
                                             : "PSKs that TLS_AES_256_GCM_SHA384 is used with",
                        used[s], count);
}

CASE("tcp/tls/all-queues", MUST, RULES(TLS_ALL_QUEUES),
     "The configured PSK is good for the admin and I/O queues of each of a host's associations")
{
        const struct nvme_tls *tls = tls_of_run(t);

        for (int i = 0; i < 2; i++) {
                struct queue *q = admin_queue(t, .tls = tls, .judged = true);

                expect_works(io_queue_of(q, .qid = 1, .judged = true));
                expect_works(q);
        }
}

/* --- early data */

CASE("tcp/tls/early-data", MUST, RULES(TLS_EARLY_DATA),
     "0-RTT data that is announced is not accepted")
{
        const struct tls_psk *psk = usual_psk(t);
        struct said *s =
            say_hello(t, HELLO(psk, .modes = TLS_PSK_KE, .group = TLS_NO_GROUP, .early = true));

        require(t, s->answer.kind == TLS_SERVER_HELLO && s->answer.psk,
                "PSK alone is refused: what else the server says cannot be read");
        want(t, !accepts_early(s, psk), "EncryptedExtensions without early_data",
             "early_data is in it");
}

/* --- how a ClientHello looks */

CASE("tcp/tls/hello-lengths", MUST, RULES(TLS_HELLO_LENGTHS),
     "A ClientHello with a length that is one too many or too few is not taken")
{
        struct tls_hello h = accepted_hello(t);
        unsigned n = tls_hello_lengths(&h);

        for (h.wrong_len = 1; h.wrong_len <= n; h.wrong_len++)
                for (h.wrong_by = -1; h.wrong_by <= 1; h.wrong_by += 2)
                        want_unused(t, h, "a ClientHello that cannot be read is not taken");
}

CASE("tcp/tls/hello-pieces", MUST, RULES(TLS_HELLO_PIECES),
     "A ClientHello in three records is taken as one in one is")
{
        want_taken(t, say_hello_in(t, accepted_hello(t), 3), "a ServerHello");
}

CASE("tcp/tls/hello-psk-last", MUST, RULES(TLS_HELLO_PSK_LAST),
     "A ClientHello that has other extensions after pre_shared_key is not taken")
{
        struct tls_hello h = accepted_hello(t);

        h.psk_first = true;
        want_unused(t, h, "it is not taken");
}

CASE("tcp/tls/hello-modes", MUST, RULES(TLS_HELLO_MODES),
     "A ClientHello that has pre_shared_key and no psk_key_exchange_modes is not taken")
{
        struct tls_hello h = accepted_hello(t);

        h.modes = 0;
        want_unused(t, h, "it is not taken");
}

CASE("tcp/tls/hello-compression", MUST, RULES(TLS_HELLO_COMPRESSION),
     "A ClientHello of TLS 1.3 that offers compression is not taken")
{
        struct tls_hello h = accepted_hello(t);

        h.compressed = true;
        want_unused(t, h, "it is not taken");
}

CASE("tcp/tls/hello-unknown", MUST, RULES(TLS_HELLO_UNKNOWN),
     "A suite, a group, a version, a mode and an extension that nobody knows are passed over")
{
        struct tls_hello h = accepted_hello(t);

        h.unknown = true;
        want_taken(t, say_hello(t, h), "it is taken as without them");
}

/* In the record, whose message begins with its type, length and version. */
static const uint8_t *hello_random(const struct said *s)
{
        return s->hello + 5 + 4 + 2;
}

CASE("tcp/tls/hello-session", MUST, RULES(TLS_HELLO_SESSION),
     "A ServerHello has the legacy_session_id of the ClientHello")
{
        static const uint8_t lengths[] = { 0, 1, 32 };
        struct tls_hello h = accepted_hello(t);

        for (size_t i = 0; i < sizeof(lengths); i++) {
                const struct said *s;

                h.session_len = lengths[i];
                s = say_hello(t, h);
                want_taken(t, s, "it is taken");
                want_eq(t, "bytes of legacy_session_id", s->answer.session_len, lengths[i]);
                want(t, memcmp(s->answer.session, hello_random(s), lengths[i]) == 0,
                     "the client's legacy_session_id", "another one");
        }
}
