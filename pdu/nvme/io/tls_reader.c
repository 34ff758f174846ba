/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth_openssl.h"
#include "pdu/core/tls.h"
#include "pdu/core/wipe.h"
#include "tls_record.h"

enum {
        HEADER = 5,
        RECORD_MAX = HEADER + 16384 + 256, /* RFC 8446 5.2 */
        SAID_MAX = HEADER + 16384,         /* bytes of a hello, and of a handshake of PSK alone */
        MESSAGE_HEADER = 4,
        UNKNOWN_MAX = 32, /* records of a handshake whose secrets nobody has */
        WHY = 200,
};

enum phase {
        PLAIN,  /* until the ServerHello */
        SEALED, /* the handshake, under its own keys */
        OPEN,
        ENDED, /* by close_notify */
};

struct side {
        enum phase phase;
        uint8_t *carry; /* RECORD_MAX bytes, once a record came in pieces */
        size_t carried;
        uint8_t *hello; /* SAID_MAX bytes: a record with all of it, however it was cut */
        size_t hello_len;
        bool has_hello;

        bool keyed; /* the keys are those of `phase` */
        struct tls_traffic traffic;
        uint64_t seq;                  /* of the next record under them */
        uint8_t secret[AUTH_HASH_MAX]; /* of application data; */
        bool has_secret;               /* it is known */
        unsigned unknown;              /* records so far that may be of the handshake */

        uint8_t head[MESSAGE_HEADER]; /* of the handshake message in hand */
        unsigned head_len;
        uint32_t body_left;
};

struct tls_reader {
        const struct key_log *keys;
        struct side side[2]; /* by enum party */
        enum tls_suite suite;
        bool retried; /* the server asked for another ClientHello */
        bool by_psk;  /* psk opens it; else the log does */
        struct tls_psk psk;
        uint8_t *said; /* by_psk: handshake messages so far, SAID_MAX bytes */
        size_t said_len;
        bool failed;
        char why[WHY];

        tls_plain_fn *plain; /* of the call in hand */
        void *user;
};

/* --- life ----------------------------------------------------------------------------------------- */

struct tls_reader *tls_reader_new(const struct key_log *keys)
{
        struct tls_reader *r = calloc(1, sizeof(*r));

        if (r)
                r->keys = keys;
        return r;
}

static void drop(uint8_t **p)
{
        free(*p);
        *p = NULL;
}

void tls_reader_free(struct tls_reader *r)
{
        if (!r)
                return;
        for (int s = 0; s < 2; s++) {
                drop(&r->side[s].carry);
                drop(&r->side[s].hello);
        }
        drop(&r->said);
        wipe(r, sizeof(*r));
        free(r);
}

/* False always. */
static bool fail(struct tls_reader *r, const char *form, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct tls_reader *r, const char *form, ...)
{
        va_list args;

        va_start(args, form);
        if (!r->failed)
                vsnprintf(r->why, sizeof(r->why), form, args);
        va_end(args);
        r->failed = true;
        return false;
}

static bool get_room(struct tls_reader *r, uint8_t **p, size_t n)
{
        if (!*p)
                *p = calloc(1, n);
        return *p || fail(r, "out of memory");
}

/* --- keys ----------------------------------------------------------------------------------------- */

/* The client's random: after the header of the record, that of the message, and the version. */
static const uint8_t *random_of(const struct tls_reader *r)
{
        return r->side[PARTY_HOST].hello + HEADER + MESSAGE_HEADER + 2;
}

static const struct tls_secret *logged(const struct tls_reader *r, enum tls_epoch epoch,
                                       enum party side)
{
        return key_log_find(r->keys, random_of(r), (enum tls_secret_kind)(2 * epoch + side));
}

static bool set_keys(struct tls_reader *r, enum party sender, enum phase phase,
                     const uint8_t *secret)
{
        struct side *s = &r->side[sender];

        s->phase = phase;
        s->seq = 0;
        s->keyed = secret != NULL;
        s->traffic.suite = r->suite;
        if (secret && tls_traffic_keys(auth_openssl(), secret, &s->traffic) < 0)
                return fail(r, "its keys cannot be computed");
        return true;
}

static bool keep_secret(struct tls_reader *r, enum party sender, const uint8_t *secret)
{
        memcpy(r->side[sender].secret, secret, auth_hash_len(tls_hash(r->suite)));
        r->side[sender].has_secret = true;
        return true;
}

/* Those of the handshake may be missing: where it ends shows by what opens under those that follow. */
static bool take_logged(struct tls_reader *r, enum party sender)
{
        const struct tls_secret *handshake = logged(r, TLS_HANDSHAKE_KEYS, sender),
                                *traffic = logged(r, TLS_APPLICATION_KEYS, sender);
        size_t len = auth_hash_len(tls_hash(r->suite));

        if (!traffic)
                return fail(r, "the key log lacks its %s",
                            tls_secret_name((enum tls_secret_kind)(TLS_CLIENT_TRAFFIC + sender)));
        if (traffic->len != len || (handshake && handshake->len != len))
                return fail(r, "its secrets in the key log are of another cipher suite");
        return keep_secret(r, sender, traffic->bytes) &&
               set_keys(r, sender, SEALED, handshake ? handshake->bytes : NULL);
}

static bool add_said(struct tls_reader *r, const uint8_t *p, size_t n)
{
        if (n > SAID_MAX - r->said_len)
                return fail(r, "its handshake is too long");
        memcpy(r->said + r->said_len, p, n);
        r->said_len += n;
        return true;
}

/* The keys of an epoch by all that was said before. */
static bool derive(struct tls_reader *r, enum tls_epoch epoch, uint8_t secrets[2][AUTH_HASH_MAX])
{
        const struct auth_slice said = { r->said, r->said_len };

        return tls_psk_secrets(auth_openssl(), &r->psk, NULL, epoch, &said, 1, secrets) == 0 ||
               fail(r, "its keys cannot be computed");
}

static bool begin_by_psk(struct tls_reader *r)
{
        const struct side *host = &r->side[PARTY_HOST], *controller = &r->side[PARTY_CONTROLLER];
        uint8_t secrets[2][AUTH_HASH_MAX];
        bool good = get_room(r, &r->said, SAID_MAX) &&
                    add_said(r, host->hello + HEADER, host->hello_len - HEADER) &&
                    add_said(r, controller->hello + HEADER, controller->hello_len - HEADER) &&
                    derive(r, TLS_HANDSHAKE_KEYS, secrets) &&
                    set_keys(r, PARTY_HOST, SEALED, secrets[PARTY_HOST]) &&
                    set_keys(r, PARTY_CONTROLLER, SEALED, secrets[PARTY_CONTROLLER]);

        wipe(secrets, sizeof(secrets));
        return good;
}

/* The server's Finished is the last that the other secrets depend on. */
static bool go_on_by_psk(struct tls_reader *r)
{
        uint8_t secrets[2][AUTH_HASH_MAX];
        bool good = derive(r, TLS_APPLICATION_KEYS, secrets) &&
                    keep_secret(r, PARTY_HOST, secrets[PARTY_HOST]) &&
                    keep_secret(r, PARTY_CONTROLLER, secrets[PARTY_CONTROLLER]);

        wipe(secrets, sizeof(secrets));
        drop(&r->said);
        r->by_psk = false;
        return good;
}

/* The TLS PSK of the first identity, whichever way its host derives. */
static bool find_psk(struct tls_reader *r, const struct tls_hello_view *v)
{
        bool known = false;

        for (int how = TLS_PRINTED; how < TLS_DERIVATIONS; how++) {
                if (tls_key_find(auth_openssl(), key_log_psk(r->keys), (enum tls_derivation)how,
                                 v->identity, v->identity_len, &r->psk) <= 0)
                        continue;
                known = true;
                if (tls_hello_proves(auth_openssl(), v, &r->psk))
                        return true;
        }
        return fail(r, known ? "its binder is not of this PSK" : "its identity is not of this PSK");
}

static bool prepare_psk(struct tls_reader *r, const struct tls_answer *a)
{
        const struct side *host = &r->side[PARTY_HOST];
        struct tls_hello_view v;

        if (a->group != TLS_NO_GROUP || !a->psk)
                return fail(r,
                            "its keys come from (EC)DHE, too: that takes a key log, not the PSK");
        if (r->retried)
                return fail(r, "after a HelloRetryRequest it takes a key log, not the PSK");
        if (!tls_hello_read(&v, host->hello, host->hello_len) || v.identities == 0)
                return fail(r, "its ClientHello cannot be read");
        if (!find_psk(r, &v))
                return false;
        if (r->psk.suite != r->suite)
                return fail(r, "its cipher suite is not that of the identity");
        r->by_psk = true;
        return begin_by_psk(r);
}

/* --- hellos --------------------------------------------------------------------------------------- */

static bool is_logged(const struct tls_reader *r)
{
        for (int kind = 0; kind < TLS_SECRETS; kind++)
                if (key_log_find(r->keys, random_of(r), (enum tls_secret_kind)kind))
                        return true;
        return false;
}

static bool choose_suite(struct tls_reader *r, uint16_t code)
{
        if (code != 0x1301 && code != 0x1302)
                return fail(r, "its cipher suite, %04Xh, is none that is read", code);
        r->suite = code == 0x1301 ? TLS_AES_128_GCM : TLS_AES_256_GCM;
        return true;
}

static bool fail_unlogged(struct tls_reader *r)
{
        const uint8_t *p = random_of(r);

        return fail(r, "the key log has no secrets of it (client random %02x%02x%02x%02x...)", p[0],
                    p[1], p[2], p[3]);
}

static bool take_server_hello(struct tls_reader *r)
{
        const struct side *s = &r->side[PARTY_CONTROLLER];
        struct tls_answer a = tls_answer_read(s->hello, s->hello_len);
        bool good;

        if (!r->side[PARTY_HOST].has_hello)
                return fail(r, "its ClientHello is not in the capture");
        if (a.kind != TLS_SERVER_HELLO && a.kind != TLS_RETRY)
                return fail(r, "its ServerHello cannot be read");
        if (a.version != TLS_1_3)
                return fail(r, "it is not TLS 1.3");
        if (a.kind == TLS_RETRY) {
                r->retried = true;
                r->side[PARTY_CONTROLLER].hello_len = 0;
                return true;
        }
        r->side[PARTY_CONTROLLER].has_hello = true;
        if (!choose_suite(r, a.suite))
                return false;
        good = is_logged(r) ? take_logged(r, PARTY_HOST) && take_logged(r, PARTY_CONTROLLER)
               : key_log_psk(r->keys) ? prepare_psk(r, &a)
                                      : fail_unlogged(r);
        drop(&r->side[PARTY_HOST].hello);
        drop(&r->side[PARTY_CONTROLLER].hello);
        return good;
}

/* All of the message is there: the header of the record is made to say so. */
static bool is_whole(struct side *s)
{
        const uint8_t *m = s->hello + HEADER;
        size_t have = s->hello_len > HEADER ? s->hello_len - HEADER : 0, len;

        if (have < MESSAGE_HEADER)
                return false;
        len = MESSAGE_HEADER + ((size_t)m[1] << 16 | (size_t)m[2] << 8 | m[3]);
        s->hello[3] = (uint8_t)(have >> 8);
        s->hello[4] = (uint8_t)have;
        return have >= len;
}

/* One that came in several records is put together; a second ClientHello has the first one's random. */
static bool take_hello(struct tls_reader *r, enum party sender, const uint8_t *record, size_t len)
{
        struct side *s = &r->side[sender];
        size_t skip = s->hello_len ? HEADER : 0;

        if (s->has_hello)
                return true;
        if (!get_room(r, &s->hello, SAID_MAX))
                return false;
        if (len - skip > SAID_MAX - s->hello_len)
                return fail(r, "its hello is too long");
        memcpy(s->hello + s->hello_len, record + skip, len - skip);
        s->hello_len += len - skip;
        if (!is_whole(s))
                return true;
        if (sender == PARTY_CONTROLLER)
                return take_server_hello(r);
        s->has_hello = s->hello_len >= HEADER + MESSAGE_HEADER + 2 + TLS_RANDOM;
        return s->has_hello || fail(r, "its ClientHello cannot be read");
}

/* --- the handshake -------------------------------------------------------------------------------- */

static bool finish(struct tls_reader *r, enum party sender)
{
        struct side *s = &r->side[sender];

        if (sender == PARTY_CONTROLLER && r->by_psk && !go_on_by_psk(r))
                return false;
        if (!s->has_secret)
                return fail(r, "the host's Finished comes before the controller's in the capture");
        return set_keys(r, sender, OPEN, s->secret);
}

static bool update(struct tls_reader *r, enum party sender)
{
        struct side *s = &r->side[sender];

        return (tls_next_secret(auth_openssl(), r->suite, s->secret) == 0 ||
                fail(r, "its keys cannot be computed")) &&
               set_keys(r, sender, OPEN, s->secret);
}

static bool end_message(struct tls_reader *r, enum party sender)
{
        struct side *s = &r->side[sender];
        uint8_t type = s->head[0];

        s->head_len = 0;
        if (type == TLS_FINISHED && s->phase == SEALED)
                return finish(r, sender);
        if (type == TLS_KEY_UPDATE && s->phase == OPEN)
                return update(r, sender);
        return true;
}

static size_t smaller(size_t a, size_t b)
{
        return a < b ? a : b;
}

/* Whatever the messages are, only their types and lengths count. */
static bool take_messages(struct tls_reader *r, enum party sender, const uint8_t *p, size_t n)
{
        struct side *s = &r->side[sender];

        while (n > 0) {
                bool in_head = s->head_len < MESSAGE_HEADER;
                size_t part =
                    smaller(n, in_head ? (size_t)(MESSAGE_HEADER - s->head_len) : s->body_left);

                if (r->by_psk && sender == PARTY_CONTROLLER && !add_said(r, p, part))
                        return false;
                if (in_head) {
                        memcpy(s->head + s->head_len, p, part);
                        s->head_len += (unsigned)part;
                        s->body_left = (uint32_t)(s->head[1] << 16 | s->head[2] << 8 | s->head[3]);
                } else {
                        s->body_left -= (uint32_t)part;
                }
                p += part;
                n -= part;
                if (s->head_len == MESSAGE_HEADER && s->body_left == 0 && !end_message(r, sender))
                        return false;
        }
        return true;
}

/* --- records -------------------------------------------------------------------------------------- */

static bool take_alert(struct tls_reader *r, enum party sender, const uint8_t *p, size_t n)
{
        uint8_t record[] = { TLS_ALERTS, 3, 3, 0, 2, 2, n == 2 ? p[1] : 0 };
        struct tls_answer a = tls_answer_read(record, sizeof(record));
        char text[60];

        if (n == 2 && p[1] == TLS_CLOSE_NOTIFY) {
                r->side[sender].phase = ENDED;
                return true;
        }
        if (n == 2 && p[1] == TLS_USER_CANCELED)
                return true;
        tls_answer_text(&a, text, sizeof(text));
        return fail(r, "the %s ended it by %s%s", party_name(sender), n == 2 ? text : "an alert",
                    r->side[sender].phase == OPEN ? "" : " in the handshake");
}

static bool take_content(struct tls_reader *r, enum party sender, uint8_t type, const uint8_t *p,
                         size_t n)
{
        switch (type) {
        case TLS_HANDSHAKE:
                return take_messages(r, sender, p, n);
        case TLS_ALERTS:
                return take_alert(r, sender, p, n);
        case TLS_DATA:
                if (r->side[sender].phase != OPEN)
                        return fail(r, "the %s sent data before its Finished", party_name(sender));
                if (n > 0)
                        r->plain(r->user, sender, p, n);
                return true;
        default:
                return fail(r, "the %s sent a record of type %u", party_name(sender), type);
        }
}

/* A record of a handshake without secrets: if it opens as the first one after that, it is that. */
static ssize_t open_unknown(struct tls_reader *r, enum party sender, const uint8_t *record,
                            size_t len, uint8_t *content, uint8_t *type)
{
        struct side *s = &r->side[sender];
        ssize_t n;

        if (!set_keys(r, sender, SEALED, s->secret))
                return -1;
        n = tls_record_open(&s->traffic, 0, record, len, content, type);
        if (n >= 0) {
                s->phase = OPEN;
                return n;
        }
        s->keyed = false;
        *type = 0;
        if (++s->unknown > UNKNOWN_MAX)
                fail(r, "its %s opens nothing, and there is none of the handshake in the key log",
                     tls_secret_name((enum tls_secret_kind)(TLS_CLIENT_TRAFFIC + sender)));
        return -1;
}

static bool take_sealed(struct tls_reader *r, enum party sender, const uint8_t *record, size_t len)
{
        struct side *s = &r->side[sender];
        uint8_t content[RECORD_MAX], type;
        ssize_t n;

        if (s->phase == SEALED && !s->keyed) {
                n = open_unknown(r, sender, record, len, content, &type);
                if (n < 0)
                        return !r->failed;
        } else {
                n = tls_record_open(&s->traffic, s->seq, record, len, content, &type);
        }
        if (n < 0)
                return fail(r, "record %" PRIu64 " of the %s's %s does not decrypt: %s", s->seq + 1,
                            party_name(sender), s->phase == OPEN ? "data" : "handshake",
                            s->seq ? "it is damaged"
                                   : "the secret is not its own, or it is damaged");
        s->seq++;
        return take_content(r, sender, type, content, (size_t)n);
}

static bool take_record(struct tls_reader *r, enum party sender, const uint8_t *record, size_t len)
{
        struct side *s = &r->side[sender];
        uint8_t type = record[0];

        if (s->phase == ENDED || type == TLS_CHANGE_CIPHER)
                return true;
        if (type == TLS_ALERTS && s->phase != OPEN)
                return take_alert(r, sender, record + HEADER, len - HEADER);
        if (s->phase == PLAIN && type == TLS_HANDSHAKE)
                return take_hello(r, sender, record, len);
        if (s->phase == PLAIN)
                return fail(r,
                            "the %s's encrypted record comes before the ServerHello in the capture",
                            party_name(sender));
        if (type != TLS_DATA)
                return fail(r, "the %s sent a record of type %u in clear", party_name(sender),
                            type);
        return take_sealed(r, sender, record, len);
}

/* --- bytes ---------------------------------------------------------------------------------------- */

/* Of the record that begins at p, by its header; 0: it is none. */
static size_t record_len(struct tls_reader *r, enum party sender, const uint8_t *p)
{
        size_t len = HEADER + (size_t)(p[3] << 8 | p[4]);

        if (p[0] >= TLS_CHANGE_CIPHER && p[0] <= TLS_DATA && p[1] == 3 && len <= RECORD_MAX)
                return len;
        fail(r, "what the %s sent is not a TLS record", party_name(sender));
        return 0;
}

/* What a record needs that began before; 0: it is none. */
static size_t wanted(struct tls_reader *r, enum party sender)
{
        const struct side *s = &r->side[sender];

        return s->carried < HEADER ? HEADER : record_len(r, sender, s->carry);
}

/* Bytes that were used. */
static size_t carry(struct tls_reader *r, enum party sender, const uint8_t *p, size_t n)
{
        struct side *s = &r->side[sender];
        size_t done = 0, want;

        if (!get_room(r, &s->carry, RECORD_MAX))
                return n;
        while (done < n && (want = wanted(r, sender))) {
                size_t part = smaller(n - done, want - s->carried);

                memcpy(s->carry + s->carried, p + done, part);
                s->carried += part;
                done += part;
                if (s->carried < HEADER || s->carried < wanted(r, sender) || r->failed)
                        continue;
                want = s->carried;
                s->carried = 0;
                take_record(r, sender, s->carry, want);
                break;
        }
        return done;
}

static size_t take_some(struct tls_reader *r, enum party sender, const uint8_t *p, size_t n)
{
        size_t len;

        if (r->side[sender].carried > 0 || n < HEADER)
                return carry(r, sender, p, n);
        len = record_len(r, sender, p);
        if (len > n)
                return carry(r, sender, p, n);
        if (len > 0)
                take_record(r, sender, p, len);
        return len;
}

const char *tls_reader_read(struct tls_reader *r, enum party sender, const uint8_t *p, size_t n,
                            tls_plain_fn *plain, void *user)
{
        r->plain = plain;
        r->user = user;
        while (n > 0 && !r->failed) {
                size_t done = take_some(r, sender, p, n);

                p += done;
                n -= done;
        }
        return r->failed ? r->why : NULL;
}
