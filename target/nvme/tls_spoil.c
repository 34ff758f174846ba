/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference target's ways to break the rules of tcp/tls/: each looks at the ClientHello alone. */
#include "tls_spoil.h"

#include "pdu/core/tls.h"
#include "pdu/core/wipe.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/tls_record.h"
#include "pdu/nvme/wire/rules.h"

struct offer {
        struct tls_hello_view hello;
        struct tls_identity id;
        bool named; /* the first identity has the form of NVMe/TCP: id */
        bool known; /* there is a key for it: psk, of this configured one */
        bool own;   /* ... which is this host's alone */
        bool in_pieces,
            unreadable; /* the message goes on in another record; it is no ClientHello */
        struct tls_psk psk;
        struct auth_key configured;
};

static bool is_new(const struct offer *o)
{
        return o->hello.version >= TLS_1_3;
}

static bool is_old(const struct offer *o)
{
        return o->hello.version < TLS_1_2;
}

static bool wants_aes_128(const struct offer *o)
{
        return o->hello.suites == 1u << TLS_AES_128_GCM;
}

static bool wants_aes_256(const struct offer *o)
{
        return o->hello.suites == 1u << TLS_AES_256_GCM;
}

static bool wants_psk_alone(const struct offer *o)
{
        return o->hello.modes == TLS_PSK_KE;
}

static bool wants_dhe(const struct offer *o)
{
        return o->hello.modes == TLS_PSK_DHE_KE;
}

static bool wants_ffdhe3072(const struct offer *o)
{
        return o->hello.share_group == TLS_FFDHE3072;
}

static bool wants_secp384r1(const struct offer *o)
{
        return o->hello.share_group == TLS_SECP384R1;
}

/* Its own share comes back. */
static bool has_share(const struct offer *o)
{
        return o->known && o->hello.share_group != TLS_NO_GROUP;
}

static bool has_no_psk(const struct offer *o)
{
        return is_new(o) && o->hello.identities == 0;
}

static bool mixes_hashes(const struct offer *o)
{
        return o->named && !(o->hello.suites >> o->id.suite & 1);
}

static bool is_nameless(const struct offer *o)
{
        return o->hello.identities > 0 && !o->known;
}

static bool is_unproven(const struct offer *o)
{
        return o->known && !tls_hello_proves(auth_openssl(), &o->hello, &o->psk);
}

static bool is_early(const struct offer *o)
{
        return o->hello.early && o->known && wants_psk_alone(o);
}

static bool is_as_it_stands(const struct offer *o)
{
        return o->known && o->configured.hash == 0;
}

static bool is_retained(const struct offer *o)
{
        return o->known && o->configured.hash > 0;
}

static bool is_long(const struct offer *o)
{
        return o->known && o->configured.len > 32;
}

static bool has_own(const struct offer *o)
{
        return o->own;
}

static bool has_other_suite(const struct offer *o)
{
        return o->known && o->configured.len != tls_key_len(o->id.suite);
}

static bool is_unreadable(const struct offer *o)
{
        return o->unreadable && !o->in_pieces;
}

static bool is_in_pieces(const struct offer *o)
{
        return o->in_pieces;
}

static bool has_late_extensions(const struct offer *o)
{
        return o->hello.identities > 0 && !o->hello.psk_last;
}

static bool has_no_modes(const struct offer *o)
{
        return o->hello.identities > 0 && o->hello.modes == 0;
}

static bool is_compressed(const struct offer *o)
{
        return is_new(o) && o->hello.compressed;
}

static bool has_unknown(const struct offer *o)
{
        return is_new(o) && o->hello.unknown;
}

static bool has_session(const struct offer *o)
{
        return is_new(o) && o->hello.session_len > 0;
}

enum spoil { TAKES, REFUSES, TAKES_OLD, TAKES_EARLY, TAKES_WITHOUT_SESSION };

static const struct {
        enum rule_id rule;
        bool (*met)(const struct offer *o);
        enum spoil how;
} spoils[] = {
        { TLS_VERSION, is_new, TAKES_OLD },
        { TLS_VERSION_OLD, is_old, TAKES },
        { TLS_AES_128, wants_aes_128, REFUSES },
        { TLS_AES_256, wants_aes_256, REFUSES },
        { TLS_PSK_ALONE, wants_psk_alone, REFUSES },
        { TLS_PSK_DHE, wants_dhe, REFUSES },
        { TLS_GROUP_FFDHE3072, wants_ffdhe3072, REFUSES },
        { TLS_GROUP_SECP384R1, wants_secp384r1, REFUSES },
        { TLS_SHARE_FRESH, has_share, TAKES },
        { TLS_PSK_NEEDED, has_no_psk, TAKES },
        { TLS_PSK_HASH, mixes_hashes, TAKES },
        { TLS_IDENTITY, is_nameless, TAKES },
        { TLS_BINDER, is_unproven, TAKES },
        { TLS_PSK_AS_IS, is_as_it_stands, REFUSES },
        { TLS_PSK_RETAINED, is_retained, REFUSES },
        { TLS_INTERCHANGE, is_long, REFUSES },
        { TLS_PSK_PER_HOST, has_own, REFUSES },
        { TLS_EACH_SUITE, has_other_suite, REFUSES },
        { TLS_EARLY_DATA, is_early, TAKES_EARLY },
        { TLS_HELLO_LENGTHS, is_unreadable, TAKES },
        { TLS_HELLO_PIECES, is_in_pieces, REFUSES },
        { TLS_HELLO_PSK_LAST, has_late_extensions, TAKES },
        { TLS_HELLO_MODES, has_no_modes, TAKES },
        { TLS_HELLO_COMPRESSION, is_compressed, TAKES },
        { TLS_HELLO_UNKNOWN, has_unknown, REFUSES },
        { TLS_HELLO_SESSION, has_session, TAKES_WITHOUT_SESSION },
};

static bool is_key_of(const struct nvme_tls *cfg, struct offer *o, const struct auth_key *key)
{
        const struct tls_hello_view *v = &o->hello;

        o->configured = *key;
        return key->len > 0 && tls_key_find(auth_openssl(), key, cfg->derivation, v->identity,
                                            v->identity_len, &o->psk) > 0;
}

static void look_up(const struct nvme_tls_server *server, struct offer *o)
{
        const struct tls_hello_view *v = &o->hello;
        struct auth_key keys[NVME_TLS_KEYS];
        bool usual = true;

        if (v->identities == 0)
                return;
        o->named = tls_identity_parse(&o->id, v->identity, v->identity_len);
        o->own = o->named && !o->id.generated && server->keys &&
                 server->keys(server, &o->id, keys, &usual) > 0 &&
                 is_key_of(&server->tls, o, &keys[0]);
        o->known = o->own || (usual && is_key_of(&server->tls, o, &server->tls.key));
        wipe(keys, sizeof(keys));
}

bool tls_offered_key(const struct nvme_tls_server *server, const struct tls_hello_view *v,
                     struct tls_psk *psk)
{
        struct offer o = { .hello = *v };

        look_up(server, &o);
        if (o.known)
                *psk = o.psk;
        wipe(&o, sizeof(o));
        return psk->suite && v->suites >> psk->suite & 1;
}

/* EncryptedExtensions under the key that the two hellos give; bytes of the record. */
static size_t accept_early(const struct offer *o, const uint8_t *server_hello, size_t len,
                           uint8_t *record)
{
        const struct auth_slice client = { o->hello.message, o->hello.message_len },
                                server = { server_hello, len };
        uint8_t message[16];
        struct tls_traffic t;

        if (tls_server_traffic(auth_openssl(), &o->psk, &client, &server, &t) < 0)
                return 0;
        return tls_record_seal(&t, 0, TLS_HANDSHAKE, message, tls_early_build(message), 0, record);
}

static size_t answer_as(enum spoil how, struct offer *o, uint8_t *answer)
{
        enum { HEADER = 5 };
        size_t n;

        if (how == REFUSES)
                return tls_alert_build(TLS_HANDSHAKE_FAILURE, answer);
        if (o->unreadable) /* what most would have said */
                o->hello = (struct tls_hello_view) { .version = TLS_1_3,
                                                     .identities = 1,
                                                     .first_suite = 0x1301 };
        if (how == TAKES_WITHOUT_SESSION)
                o->hello.session_len = 0;
        n = tls_answer_build(&o->hello, how == TAKES_OLD ? TLS_1_2 : o->hello.version, answer);
        if (n > 0 && how == TAKES_EARLY)
                n += accept_early(o, answer + HEADER, n - HEADER, answer + n);
        return n;
}

/* Of a handshake message that goes on in the next record. */
static bool is_piece(const uint8_t *record, size_t len)
{
        enum { HEADER = 9 };

        return record[0] == TLS_HANDSHAKE &&
               (len < HEADER ||
                (size_t)(record[6] << 16 | record[7] << 8 | record[8]) > len - HEADER);
}

size_t tls_spoil(const struct nvme_tls_server *server, const struct rule_policy *policy,
                 const uint8_t *hello, size_t len, uint8_t *answer, size_t size)
{
        struct offer o = { .named = false };
        size_t n = 0;

        if (size < TLS_ANSWER_MAX + 64)
                return 0;
        o.in_pieces = is_piece(hello, len);
        o.unreadable = !tls_hello_read(&o.hello, hello, len);
        if (o.unreadable)
                o.hello = (struct tls_hello_view) { 0 };
        look_up(server, &o);
        for (size_t i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++)
                if (rule_in(&policy->violated, spoils[i].rule) && spoils[i].met(&o)) {
                        n = answer_as(spoils[i].how, &o, answer);
                        break;
                }
        wipe(&o.configured, sizeof(o.configured));
        return n;
}
