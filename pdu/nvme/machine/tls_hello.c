/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_hello.h"

#include <stdio.h>
#include <string.h>

#include "pdu/core/tls.h"
#include "pdu/core/wipe.h"

enum { RECORD_HEADER = 5, MESSAGE_HEADER = 4 };
enum { CLIENT_HELLO = 1, SERVER_HELLO = 2 };

enum extension {
        EXT_GROUPS = 10,
        EXT_POINTS = 11,
        EXT_SIGNATURES = 13,
        EXT_PADDING = 21,
        EXT_PSK = 41,
        EXT_EARLY = 42,
        EXT_VERSIONS = 43,
        EXT_COOKIE = 44,
        EXT_MODES = 45,
        EXT_SHARE = 51,
};

/* --- what is written, big-endian ------------------------------------------------------------------ */

struct out {
        uint8_t *p;
        size_t len, cap;
        unsigned lens, wrong_len; /* how many length fields there were so far; the wrong one */
        int wrong_by;
};

static void put(struct out *o, const void *p, size_t n)
{
        if (n > 0 && o->len < o->cap && n <= o->cap - o->len)
                memcpy(o->p + o->len, p, n);
        o->len += n;
}

static void put8(struct out *o, unsigned v)
{
        put(o, &(uint8_t) { (uint8_t)v }, 1);
}

static void put16(struct out *o, unsigned v)
{
        put(o, (uint8_t[]) { (uint8_t)(v >> 8), (uint8_t)v }, 2);
}

/* Room for a length of so many bytes; close_len() fills it in. */
static size_t open_len(struct out *o, unsigned bytes)
{
        put(o, "\0\0\0", bytes);
        return o->len;
}

static void close_len(struct out *o, size_t from, unsigned bytes)
{
        size_t n = o->len - from;

        if (++o->lens == o->wrong_len)
                n += (size_t)o->wrong_by;
        for (unsigned i = 0; i < bytes && o->len <= o->cap; i++)
                o->p[from - 1 - i] = (uint8_t)(n >> 8 * i);
}

static size_t open_ext(struct out *o, enum extension type)
{
        put16(o, type);
        return open_len(o, 2);
}

/* --- shares --------------------------------------------------------------------------------------- */

/* The base points of the curves (FIPS 186-4 D.1.2.3 and D.1.2.4), uncompressed: the private key is 1. */
static const uint8_t base_256[65] = {
        0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5,
        0x63, 0xa4, 0x40, 0xf2, 0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4,
        0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f, 0xe3, 0x42, 0xe2, 0xfe, 0x1a,
        0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce, 0x33,
        0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
};
static const uint8_t base_384[97] = {
        0x04, 0xaa, 0x87, 0xca, 0x22, 0xbe, 0x8b, 0x05, 0x37, 0x8e, 0xb1, 0xc7, 0x1e, 0xf3,
        0x20, 0xad, 0x74, 0x6e, 0x1d, 0x3b, 0x62, 0x8b, 0xa7, 0x9b, 0x98, 0x59, 0xf7, 0x41,
        0xe0, 0x82, 0x54, 0x2a, 0x38, 0x55, 0x02, 0xf2, 0x5d, 0xbf, 0x55, 0x29, 0x6c, 0x3a,
        0x54, 0x5e, 0x38, 0x72, 0x76, 0x0a, 0xb7, 0x36, 0x17, 0xde, 0x4a, 0x96, 0x26, 0x2c,
        0x6f, 0x5d, 0x9e, 0x98, 0xbf, 0x92, 0x92, 0xdc, 0x29, 0xf8, 0xf4, 0x1d, 0xbd, 0x28,
        0x9a, 0x14, 0x7c, 0xe9, 0xda, 0x31, 0x13, 0xb5, 0xf0, 0xb8, 0xc0, 0x0a, 0x60, 0xb1,
        0xce, 0x1d, 0x7e, 0x81, 0x9d, 0x7a, 0x43, 0x1d, 0x7c, 0x90, 0xea, 0x0e, 0x5f,
};

/* RFC 7748 4.1: u of the base point. */
static const uint8_t base_25519[32] = { 9 };

/* 2^2000, which is less than the prime: the private key is 2000. */
static const uint8_t power_of_2[384] = { [384 - 1 - 2000 / 8] = 1 };

struct auth_slice tls_known_share(uint16_t group)
{
        switch (group) {
        case TLS_SECP256R1:
                return (struct auth_slice) { base_256, sizeof(base_256) };
        case TLS_SECP384R1:
                return (struct auth_slice) { base_384, sizeof(base_384) };
        case TLS_X25519:
                return (struct auth_slice) { base_25519, sizeof(base_25519) };
        default:
                return (struct auth_slice) { power_of_2, sizeof(power_of_2) };
        }
}

static void put_share(struct out *o, uint16_t group)
{
        struct auth_slice share = tls_known_share(group);
        size_t len;

        put16(o, group);
        len = open_len(o, 2);
        put(o, share.p, share.len);
        close_len(o, len, 2);
}

/* --- a ClientHello -------------------------------------------------------------------------------- */

static const uint16_t suite_codes[] = { [TLS_AES_128_GCM] = 0x1301, [TLS_AES_256_GCM] = 0x1302 };

/* Of TLS 1.2 and before: PSK, DHE_PSK and ECDHE_PSK with AES in CBC mode, RSA with AES. */
static const uint16_t old_suites[] = { 0x008c, 0x008d, 0x0090, 0x0091,
                                       0xc035, 0xc036, 0x002f, 0x0035 };

enum { UNKNOWN = 0x0a0a, UNKNOWN_MODE = 0x0b }; /* RFC 8701: nobody knows them, ever */

static void put_suites(struct out *o, const struct tls_hello *h)
{
        size_t len = open_len(o, 2);

        if (h->unknown)
                put16(o, UNKNOWN);
        if (h->version < TLS_1_3)
                put(o, "\0\xff", 2); /* renegotiation is secure, RFC 5746 */
        for (size_t i = 0; h->version < TLS_1_3 && i < sizeof(old_suites) / 2; i++)
                put16(o, old_suites[i]);
        for (unsigned s = TLS_AES_128_GCM; h->version >= TLS_1_3 && s < TLS_SUITES; s++)
                if (h->suites >> s & 1)
                        put16(o, suite_codes[s]);
        close_len(o, len, 2);
}

static void put_groups(struct out *o, const struct tls_hello *h)
{
        size_t ext = open_ext(o, EXT_GROUPS), list = open_len(o, 2);

        if (h->unknown)
                put16(o, UNKNOWN);
        put16(o, h->group);
        if (h->spare_group)
                put16(o, h->spare_group);
        close_len(o, list, 2);
        close_len(o, ext, 2);
}

static void put_key_share(struct out *o, uint16_t group)
{
        size_t ext = open_ext(o, EXT_SHARE), list = open_len(o, 2);

        put_share(o, group);
        close_len(o, list, 2);
        close_len(o, ext, 2);
}

/* ecdsa_secp256r1_sha256, rsa_pss_rsae_sha256, ed25519: for servers that have a certificate. */
static void put_signatures(struct out *o)
{
        size_t ext = open_ext(o, EXT_SIGNATURES);

        put(o, "\0\6\4\3\x8\4\x8\7", 8);
        close_len(o, ext, 2);
}

static void put_modes(struct out *o, const struct tls_hello *h)
{
        size_t ext = open_ext(o, EXT_MODES), list = open_len(o, 1);

        if (h->unknown)
                put8(o, UNKNOWN_MODE);
        if (h->modes & TLS_PSK_DHE_KE)
                put8(o, 1);
        if (h->modes & TLS_PSK_KE)
                put8(o, 0);
        close_len(o, list, 1);
        close_len(o, ext, 2);
}

static void put_versions(struct out *o, const struct tls_hello *h)
{
        size_t ext = open_ext(o, EXT_VERSIONS), list = open_len(o, 1);

        if (h->unknown)
                put16(o, UNKNOWN);
        put16(o, h->version);
        close_len(o, list, 1);
        close_len(o, ext, 2);
}

static void put_identity(struct out *o, const struct tls_psk *psk)
{
        size_t len = open_len(o, 2);

        put(o, psk->identity, psk->identity_len);
        close_len(o, len, 2);
        put(o, "\0\0\0\0", 4); /* obfuscated_ticket_age of a key from outside */
}

static unsigned binder_len(const struct tls_psk *psk)
{
        return auth_hash_len(tls_hash(psk->suite));
}

static void put_binder(struct out *o, const struct tls_psk *psk)
{
        static const uint8_t zeroes[AUTH_HASH_MAX];
        size_t len = open_len(o, 1);

        put(o, zeroes, binder_len(psk));
        close_len(o, len, 1);
}

/* The list of binders, which are zero yet, ends it, and the message. Where that begins. */
static size_t put_psk(struct out *o, const struct tls_hello *h)
{
        size_t ext = open_ext(o, EXT_PSK), list = open_len(o, 2), before, binders;

        put_identity(o, h->psk);
        if (h->also)
                put_identity(o, h->also);
        close_len(o, list, 2);
        before = o->len;
        binders = open_len(o, 2);
        put_binder(o, h->psk);
        if (h->also)
                put_binder(o, h->also);
        close_len(o, binders, 2);
        close_len(o, ext, 2);
        return before;
}

/* The binder of a message up to its list of binders (RFC 8446 4.2.11.2). */
static int bind(const struct auth_crypto *c, const struct tls_psk *psk, const void *message,
                size_t len, uint8_t *binder)
{
        static const struct auth_slice nothing = { "", 0 };
        const struct auth_slice text = { message, len };
        uint8_t hash = tls_hash(psk->suite), early[AUTH_HASH_MAX], base[AUTH_HASH_MAX];
        int rc = tls_early_secret(c, psk, early);

        if (rc == 0)
                rc = tls_derive_secret(c, hash, early, "tls13 ext binder", &nothing, 1, base);
        if (rc == 0)
                rc = tls_finished(c, hash, base, &text, binder);
        wipe(early, sizeof(early));
        wipe(base, sizeof(base));
        return rc;
}

static void put_unknown(struct out *o)
{
        put16(o, UNKNOWN);
        put16(o, 0);
}

static void put_cookie(struct out *o, const struct auth_slice *cookie)
{
        size_t ext = open_ext(o, EXT_COOKIE), len = open_len(o, 2);

        put(o, cookie->p, cookie->len);
        close_len(o, len, 2);
        close_len(o, ext, 2);
}

/* What TLS 1.3 has; where the binders begin, 0: there are none. */
static size_t put_new_extensions(struct out *o, const struct tls_hello *h)
{
        size_t binders = h->psk && h->psk_first ? put_psk(o, h) : 0;

        put_versions(o, h);
        if (h->modes)
                put_modes(o, h);
        if (h->group)
                put_key_share(o, h->shares_spare ? h->spare_group : h->group);
        if (h->cookie)
                put_cookie(o, h->cookie);
        if (h->early)
                put(o, "\0\x2a\0\0", 4);
        if (h->unknown)
                put_unknown(o);
        return h->psk && !h->psk_first ? put_psk(o, h) : binders;
}

/* Where the binders begin; 0: there are none. */
static size_t put_extensions(struct out *o, const struct tls_hello *h)
{
        size_t all = open_len(o, 2), binders = 0;

        if (h->group)
                put_groups(o, h);
        if (h->version >= TLS_1_2)
                put_signatures(o);
        if (h->version < TLS_1_3)
                put(o, "\0\xb\0\2\1\0", 6); /* ec_point_formats: uncompressed */
        else
                binders = put_new_extensions(o, h);
        close_len(o, all, 2);
        return binders;
}

/* legacy_session_id, which no middlebox needs here, and the methods of compression: null. */
static void put_legacy(struct out *o, const struct tls_hello *h)
{
        size_t len = open_len(o, 1);

        put(o, h->random, h->session_len);
        close_len(o, len, 1);
        put_suites(o, h);
        len = open_len(o, 1);
        if (h->compressed)
                put8(o, 1);
        put8(o, 0);
        close_len(o, len, 1);
}

static size_t put_hello(struct out *o, const struct tls_hello *h)
{
        size_t message, binders;

        put8(o, CLIENT_HELLO);
        message = open_len(o, 3);
        put16(o, h->version < TLS_1_2 ? h->version : TLS_1_2);
        put(o, h->random, sizeof(h->random));
        put_legacy(o, h);
        binders = h->version > SSL_3 ? put_extensions(o, h) : 0;
        o->wrong_len = 0; /* a wrong length of the message would be another message */
        close_len(o, message, 3);
        return binders;
}

unsigned tls_hello_lengths(const struct tls_hello *h)
{
        uint8_t message[TLS_HELLO_MAX];
        struct out o = { .p = message, .cap = sizeof(message) };

        put_hello(&o, h);
        return o.lens - 1;
}

size_t tls_hello_build(const struct auth_crypto *crypto, const struct tls_hello *h,
                       uint8_t record[TLS_HELLO_MAX])
{
        struct out o = { .p = record,
                         .cap = TLS_HELLO_MAX,
                         .wrong_len = h->wrong_len,
                         .wrong_by = h->wrong_by };
        size_t body, binders;

        put8(&o, TLS_HANDSHAKE);
        put16(&o, h->version == SSL_3 ? SSL_3 : TLS_1_0);
        body = open_len(&o, 2);
        binders = put_hello(&o, h);
        close_len(&o, body, 2);
        if (o.len > o.cap)
                return 0;
        if (binders &&
            bind(crypto, h->psk, record + body, binders - body, record + binders + 3) < 0)
                return 0;
        if (binders && h->also &&
            bind(crypto, h->also, record + body, binders - body,
                 record + binders + 4 + binder_len(h->psk)) < 0)
                return 0;
        if (binders && h->wrong_binder)
                record[binders + 3] ^= 1;
        return o.len;
}

/* --- what is read --------------------------------------------------------------------------------- */

struct in {
        const uint8_t *p, *end;
        bool bad;
};

static const uint8_t *get(struct in *in, size_t n)
{
        const uint8_t *p = in->p;

        if ((size_t)(in->end - in->p) < n) {
                in->bad = true;
                in->p = in->end;
                return NULL;
        }
        in->p += n;
        return p;
}

static unsigned get_number(struct in *in, unsigned bytes)
{
        const uint8_t *p = get(in, bytes);
        unsigned v = 0;

        for (unsigned i = 0; p && i < bytes; i++)
                v = v << 8 | p[i];
        return v;
}

/* What a length of so many bytes counts. */
static struct in get_list(struct in *in, unsigned bytes)
{
        size_t n = get_number(in, bytes);
        const uint8_t *p = get(in, n);

        return p ? (struct in) { p, p + n, false } : (struct in) { in->end, in->end, true };
}

size_t tls_record_len(const uint8_t *p, size_t n)
{
        size_t len = n < RECORD_HEADER ? 0 : RECORD_HEADER + (size_t)(p[3] << 8 | p[4]);

        return len > n ? 0 : len;
}

static struct auth_slice slice_of(struct in list)
{
        return (struct auth_slice) { list.p, (size_t)(list.end - list.p) };
}

static void see_suites(struct tls_hello_view *v, struct in list)
{
        v->suite_list = slice_of(list);
        while (list.p < list.end && !list.bad) {
                uint16_t code = (uint16_t)get_number(&list, 2);

                v->unknown |= code == UNKNOWN;
                if (!v->first_suite && code != 0x00ff && code != UNKNOWN)
                        v->first_suite = code;
                for (unsigned s = TLS_AES_128_GCM; s < TLS_SUITES; s++)
                        if (code == suite_codes[s])
                                v->suites |= 1u << s;
        }
}

static void see_versions(struct tls_hello_view *v, struct in list)
{
        while (list.p < list.end && !list.bad) {
                uint16_t version = (uint16_t)get_number(&list, 2);

                if (version <= TLS_1_3 && version > v->version)
                        v->version = version;
        }
}

static void see_modes(struct tls_hello_view *v, struct in list)
{
        for (; list.p < list.end; list.p++)
                v->modes |= *list.p == 0 ? TLS_PSK_KE : *list.p == 1 ? TLS_PSK_DHE_KE : 0;
}

static void see_share(struct tls_hello_view *v, struct in list)
{
        struct in share;

        v->share_list = slice_of(list);
        v->share_group = (uint16_t)get_number(&list, 2);
        share = get_list(&list, 2);
        v->share = share.p;
        v->share_len = (uint16_t)(share.end - share.p);
        if (list.bad)
                v->share_group = 0;
}

static bool see_psk(struct tls_hello_view *v, struct in ext)
{
        struct in list = get_list(&ext, 2), whole = list, first = get_list(&list, 2);
        struct in binders, binder;

        v->list = whole.p;
        v->list_len = (uint16_t)(whole.end - whole.p);
        v->identity = first.p;
        v->identity_len = (uint16_t)(first.end - first.p);
        get(&list, 4);
        v->identities = !list.bad;
        while (list.p < list.end && !list.bad) {
                get_list(&list, 2);
                get(&list, 4);
                v->identities += !list.bad;
        }
        v->before_binders = (size_t)(ext.p - v->message);
        binders = get_list(&ext, 2);
        binder = get_list(&binders, 1);
        v->binder = binder.p;
        v->binder_len = (uint8_t)(binder.end - binder.p);
        return !ext.bad && !list.bad && !binders.bad;
}

static bool see_extension(struct tls_hello_view *v, unsigned type, struct in ext)
{
        switch (type) {
        case EXT_VERSIONS:
                see_versions(v, get_list(&ext, 1));
                break;
        case EXT_MODES:
                see_modes(v, get_list(&ext, 1));
                break;
        case EXT_GROUPS:
                v->groups = true;
                v->group_list = slice_of(get_list(&ext, 2));
                break;
        case EXT_COOKIE:
                v->cookie = slice_of(get_list(&ext, 2));
                break;
        case EXT_SHARE:
                see_share(v, get_list(&ext, 2));
                break;
        case EXT_EARLY:
                v->early = true;
                break;
        case EXT_PSK:
                return see_psk(v, ext);
        default:
                break;
        }
        return true;
}

static bool see_extensions(struct tls_hello_view *v, struct in list)
{
        v->extension_list = slice_of(list);
        while (list.p < list.end) {
                unsigned type = get_number(&list, 2);
                struct in ext = get_list(&list, 2);

                v->psk_last = type == EXT_PSK;
                if (list.bad || !see_extension(v, type, ext))
                        return false;
        }
        return true;
}

bool tls_hello_read(struct tls_hello_view *v, const uint8_t *record, size_t len)
{
        struct in in = { record, record + len, false }, body, session, methods;

        *v = (struct tls_hello_view) { 0 };
        if (len < RECORD_HEADER || tls_record_len(record, len) != len || record[0] != TLS_HANDSHAKE)
                return false;
        get(&in, RECORD_HEADER);
        v->message = in.p;
        v->message_len = len - RECORD_HEADER;
        if (get_number(&in, 1) != CLIENT_HELLO)
                return false;
        body = get_list(&in, 3);
        v->version = (uint16_t)get_number(&body, 2);
        v->random = get(&body, 32);
        session = get_list(&body, 1);
        v->session = session.p;
        v->session_len = (uint8_t)(session.end - session.p);
        see_suites(v, get_list(&body, 2));
        methods = get_list(&body, 1);
        v->compressed = methods.end - methods.p != 1 || *methods.p != 0;
        if (body.bad || in.bad)
                return false;
        return body.p == body.end || see_extensions(v, get_list(&body, 2));
}

bool tls_hello_identity(const struct tls_hello_view *v, unsigned n, const uint8_t **identity,
                        uint16_t *len)
{
        struct in list = { v->list, v->list_len ? v->list + v->list_len : v->list, false };

        for (; list.p < list.end && !list.bad; n--) {
                struct in one = get_list(&list, 2);

                get(&list, 4);
                if (list.bad || n > 0)
                        continue;
                *identity = one.p;
                *len = (uint16_t)(one.end - one.p);
                return true;
        }
        return false;
}

static struct in list_of(const struct auth_slice *s)
{
        static const uint8_t nothing;
        const uint8_t *p = s->p ? s->p : &nothing;

        return (struct in) { p, p + s->len, false };
}

static bool has_code(const struct auth_slice *codes, uint16_t code)
{
        struct in list = list_of(codes);

        while (list.p < list.end)
                if (get_number(&list, 2) == code && !list.bad)
                        return true;
        return false;
}

bool tls_hello_has_suite(const struct tls_hello_view *v, uint16_t suite)
{
        return has_code(&v->suite_list, suite);
}

bool tls_hello_has_group(const struct tls_hello_view *v, uint16_t group)
{
        return has_code(&v->group_list, group);
}

/* Of a list of types or groups, each with what it has. */
static bool find_entry(const struct auth_slice *entries, uint16_t type, struct auth_slice *found)
{
        struct in list = list_of(entries);

        while (list.p < list.end && !list.bad) {
                bool same = get_number(&list, 2) == type;
                struct in entry = get_list(&list, 2);

                if (!same || list.bad)
                        continue;
                *found = slice_of(entry);
                return true;
        }
        return false;
}

bool tls_hello_has_extension(const struct tls_hello_view *v, uint16_t type)
{
        struct auth_slice found;

        return find_entry(&v->extension_list, type, &found);
}

bool tls_hello_share(const struct tls_hello_view *v, uint16_t group, struct auth_slice *share)
{
        return find_entry(&v->share_list, group, share);
}

static bool is_same(const struct auth_slice *a, const struct auth_slice *b)
{
        return a->len == b->len && (a->len == 0 || memcmp(a->p, b->p, a->len) == 0);
}

static bool may_change(unsigned type)
{
        return type == EXT_SHARE || type == EXT_EARLY || type == EXT_COOKIE || type == EXT_PSK ||
               type == EXT_PADDING;
}

/* Whether all extensions of one that may not change are in the other. */
static bool has_each(const struct auth_slice *in, const struct auth_slice *of)
{
        struct in list = list_of(of);

        while (list.p < list.end && !list.bad) {
                unsigned type = get_number(&list, 2);
                struct auth_slice has = slice_of(get_list(&list, 2)), found;

                if (!may_change(type) &&
                    (!find_entry(in, (uint16_t)type, &found) || !is_same(&found, &has)))
                        return false;
        }
        return true;
}

bool tls_hello_repeats(const struct tls_hello_view *second, const struct tls_hello_view *first)
{
        const struct auth_slice sessions[] = { { first->session, first->session_len },
                                               { second->session, second->session_len } };

        return memcmp(first->random, second->random, 32) == 0 &&
               is_same(&sessions[0], &sessions[1]) &&
               is_same(&first->suite_list, &second->suite_list) &&
               has_each(&first->extension_list, &second->extension_list) &&
               has_each(&second->extension_list, &first->extension_list);
}

bool tls_hello_proves(const struct auth_crypto *crypto, const struct tls_hello_view *v,
                      const struct tls_psk *psk)
{
        uint8_t binder[AUTH_HASH_MAX];
        size_t len = auth_hash_len(tls_hash(psk->suite));

        return v->binder_len == len &&
               bind(crypto, psk, v->message, v->before_binders, binder) == 0 &&
               memcmp(binder, v->binder, len) == 0;
}

/* --- a ServerHello -------------------------------------------------------------------------------- */

/* RFC 8446 4.1.3: the random of a HelloRetryRequest. */
static const uint8_t retry_random[32] = {
        0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c,
        0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
        0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
};

/* 4.1.3: the end of the random of a server that can do TLS 1.3 and chooses an older one. */
static const uint8_t downgrade[7] = { 'D', 'O', 'W', 'N', 'G', 'R', 'D' };

static void see_answer(struct tls_answer *a, unsigned type, struct in ext)
{
        struct in share;

        if (type == EXT_VERSIONS) {
                a->version = (uint16_t)get_number(&ext, 2);
        } else if (type == EXT_PSK) {
                a->psk = true;
                a->identity = (uint16_t)get_number(&ext, 2);
        } else if (type == EXT_COOKIE) {
                a->cookie = slice_of(get_list(&ext, 2));
        } else if (type != EXT_SHARE) {
                a->strange = (uint16_t)type;
        } else {
                a->group = (uint16_t)get_number(&ext, 2);
                if (a->kind == TLS_RETRY)
                        return;
                share = get_list(&ext, 2);
                a->share = share.p;
                a->share_len = (uint16_t)(share.end - share.p);
        }
}

/* False: they cannot be read. */
static bool see_answers(struct tls_answer *a, struct in list)
{
        const uint8_t *first = list.p;

        while (list.p < list.end && !list.bad) {
                const struct auth_slice before = { first, (size_t)(list.p - first) };
                unsigned type = get_number(&list, 2);
                struct in ext = get_list(&list, 2);
                struct auth_slice same;

                a->twice |= find_entry(&before, (uint16_t)type, &same);
                if (!list.bad)
                        see_answer(a, type, ext);
        }
        return !list.bad;
}

static struct tls_answer see_server_hello(struct in body)
{
        struct tls_answer a = { .kind = TLS_SERVER_HELLO };
        const uint8_t *random;
        struct in list;

        a.version = (uint16_t)get_number(&body, 2);
        random = get(&body, 32);
        list = get_list(&body, 1);
        a.session = list.p;
        a.session_len = (uint8_t)(list.end - list.p);
        a.suite = (uint16_t)get_number(&body, 2);
        a.compression = (uint8_t)get_number(&body, 1);
        if (body.bad)
                return (struct tls_answer) { .kind = TLS_UNREADABLE };
        if (memcmp(random, retry_random, 32) == 0)
                a.kind = TLS_RETRY;
        a.downgraded = memcmp(random + 24, downgrade, sizeof(downgrade)) == 0 && random[31] <= 1;
        list = body.p == body.end ? body : get_list(&body, 2);
        a.over = body.p < body.end;
        if (!see_answers(&a, list) || body.bad)
                a.kind = TLS_UNREADABLE;
        return a;
}

struct tls_answer tls_answer_read(const uint8_t *p, size_t n)
{
        size_t len = tls_record_len(p, n);
        struct tls_answer a = { .kind = TLS_UNREADABLE };
        struct in in = { p + RECORD_HEADER, p + len, false };

        if (n > 0 && p[0] != TLS_ALERTS && p[0] != TLS_HANDSHAKE)
                return a;
        if (len == 0)
                return (struct tls_answer) { .kind = TLS_NO_ANSWER };
        if (p[0] == TLS_ALERTS && len >= RECORD_HEADER + 2)
                a = (struct tls_answer) { .kind = TLS_ALERT, .alert = p[RECORD_HEADER + 1] };
        else if (p[0] == TLS_HANDSHAKE && get_number(&in, 1) == SERVER_HELLO)
                a = see_server_hello(get_list(&in, 3));
        a.message_len = (size_t)(in.p - p) - RECORD_HEADER;
        a.len = len;
        return a;
}

static const char *alert_name(uint8_t alert)
{
        static const struct {
                uint8_t code;
                const char *name;
        } names[] = { { 0, "close_notify" },           { 10, "unexpected_message" },
                      { 20, "bad_record_mac" },        { 40, "handshake_failure" },
                      { 47, "illegal_parameter" },     { 50, "decode_error" },
                      { 51, "decrypt_error" },         { 70, "protocol_version" },
                      { 71, "insufficient_security" }, { 80, "internal_error" },
                      { 109, "missing_extension" },    { 115, "unknown_psk_identity" },
                      { 116, "certificate_required" } };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (names[i].code == alert)
                        return names[i].name;
        return "of another kind";
}

static const char *version_name(uint16_t version)
{
        static const char *const names[] = { "SSL 3", "TLS 1.0", "TLS 1.1", "TLS 1.2", "TLS 1.3" };

        return version < SSL_3 || version > TLS_1_3 ? "an unknown version" : names[version - SSL_3];
}

static const char *group_name(uint16_t group)
{
        switch (group) {
        case TLS_NO_GROUP:
                return "no (EC)DHE";
        case TLS_SECP256R1:
                return "secp256r1";
        case TLS_SECP384R1:
                return "secp384r1";
        case TLS_X25519:
                return "x25519";
        case TLS_FFDHE3072:
                return "ffdhe3072";
        default:
                return "another group";
        }
}

void tls_answer_text(const struct tls_answer *a, char *buf, size_t size)
{
        switch (a->kind) {
        case TLS_NO_ANSWER:
                snprintf(buf, size, "no answer");
                break;
        case TLS_ALERT:
                snprintf(buf, size, "alert %u (%s)", a->alert, alert_name(a->alert));
                break;
        case TLS_UNREADABLE:
                snprintf(buf, size, "an answer that is not TLS");
                break;
        case TLS_SERVER_HELLO:
        case TLS_RETRY:
        default:
                snprintf(buf, size, "%s of %s, suite %04Xh, %s, %s",
                         a->kind == TLS_RETRY ? "HelloRetryRequest" : "ServerHello",
                         version_name(a->version), a->suite, a->psk ? "the PSK" : "no PSK",
                         group_name(a->group));
        }
}

static void put_answer_version(struct out *o, uint16_t version)
{
        size_t ext = open_ext(o, EXT_VERSIONS);

        put16(o, version);
        close_len(o, ext, 2);
}

static void put_answer_share(struct out *o, const struct tls_server_hello *h)
{
        size_t ext = open_ext(o, EXT_SHARE), len;

        put16(o, h->group);
        if (!h->retry) {
                len = open_len(o, 2);
                put(o, h->share.p, h->share.len);
                close_len(o, len, 2);
        }
        close_len(o, ext, 2);
}

static void put_answer_extensions(struct out *o, const struct tls_server_hello *h)
{
        size_t all = open_len(o, 2), ext;

        if (h->version)
                put_answer_version(o, h->version);
        if (h->psk) {
                ext = open_ext(o, EXT_PSK);
                put16(o, h->identity);
                close_len(o, ext, 2);
        }
        if (h->group)
                put_answer_share(o, h);
        if (h->cookie.p)
                put_cookie(o, &h->cookie);
        if (h->strange)
                close_len(o, open_ext(o, h->strange), 2);
        if (h->twice)
                put_answer_version(o, h->version);
        if (h->wrong_len == TLS_LAST_LEN)
                o->wrong_len = o->lens + 1;
        close_len(o, all, 2);
}

static void put_answer_random(struct out *o, const struct tls_server_hello *h)
{
        if (h->retry) {
                put(o, retry_random, 32);
        } else if (h->downgraded) {
                put(o, retry_random + 1, 24);
                put(o, downgrade, sizeof(downgrade));
                put8(o, 1);
        } else {
                put(o, retry_random + 1, 31);
                put8(o, 1);
        }
}

size_t tls_server_hello_build(const struct tls_server_hello *h, uint8_t record[TLS_ANSWER_MAX])
{
        struct out o = { .p = record, .cap = TLS_ANSWER_MAX, .wrong_by = h->wrong_by };
        size_t body, message, session;

        if (h->wrong_len != TLS_LAST_LEN)
                o.wrong_len = h->wrong_len;
        put8(&o, TLS_HANDSHAKE);
        put16(&o, h->legacy < TLS_1_2 ? h->legacy : TLS_1_2);
        body = open_len(&o, 2);
        put8(&o, SERVER_HELLO);
        message = open_len(&o, 3);
        put16(&o, h->legacy);
        put_answer_random(&o, h);
        session = open_len(&o, 1);
        put(&o, h->session, h->session_len);
        close_len(&o, session, 1);
        put16(&o, h->suite);
        put8(&o, h->compression);
        put_answer_extensions(&o, h);
        o.wrong_len = 0;
        if (h->over)
                put8(&o, 0);
        close_len(&o, message, 3);
        close_len(&o, body, 2);
        return o.len <= o.cap ? o.len : 0;
}

size_t tls_answer_build(const struct tls_hello_view *v, uint16_t version,
                        uint8_t record[TLS_ANSWER_MAX])
{
        bool now = version >= TLS_1_3;
        const struct tls_server_hello h = { .legacy = now ? TLS_1_2 : version,
                                            .version = now ? version : 0,
                                            .session = v->session,
                                            .session_len = v->session_len,
                                            .suite = v->first_suite,
                                            .psk = now && v->identities,
                                            .group = now ? v->share_group : TLS_NO_GROUP,
                                            .share = { v->share, v->share_len } };

        return tls_server_hello_build(&h, record);
}

size_t tls_alert_build(uint8_t description, uint8_t record[TLS_ANSWER_MAX])
{
        const uint8_t alert[] = { TLS_ALERTS, 3, 3, 0, 2, 2, description };

        memcpy(record, alert, sizeof(alert));
        return sizeof(alert);
}

/* --- what follows it ------------------------------------------------------------------------------ */

int tls_server_traffic(const struct auth_crypto *crypto, const struct tls_psk *psk,
                       const struct auth_slice *client_hello, const struct auth_slice *server_hello,
                       struct tls_traffic *t)
{
        const struct auth_slice said[] = { *client_hello, *server_hello };
        uint8_t secrets[2][AUTH_HASH_MAX];
        int rc = tls_psk_secrets(crypto, psk, NULL, TLS_HANDSHAKE_KEYS, said, 2, secrets);

        t->suite = psk->suite;
        if (rc == 0)
                rc = tls_traffic_keys(crypto, secrets[PARTY_CONTROLLER], t);
        wipe(secrets, sizeof(secrets));
        return rc;
}

int tls_accepts_early(const uint8_t *message, size_t len)
{
        struct in in = { message, message + len, false }, body, list;
        bool early = false;

        if (get_number(&in, 1) != TLS_EXTENSIONS)
                return -1;
        body = get_list(&in, 3);
        list = get_list(&body, 2);
        while (list.p < list.end && !list.bad) {
                early |= get_number(&list, 2) == EXT_EARLY;
                get_list(&list, 2);
        }
        return in.bad || body.bad || list.bad ? -1 : early;
}

size_t tls_early_build(uint8_t message[16])
{
        static const uint8_t accepts[] = { TLS_EXTENSIONS, 0, 0, 6, 0, 4, 0, EXT_EARLY, 0, 0 };

        memcpy(message, accepts, sizeof(accepts));
        return sizeof(accepts);
}
