/* SPDX-License-Identifier: BSD-3-Clause */
#include "stage_tls.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/tls.h"
#include "pdu/core/wipe.h"
#include "pdu/io/loop.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/hand_stream.h"
#include "pdu/nvme/wire/tcp.h"
#include "target/nvme/tls_spoil.h"

enum {
        HEADER = 5,
        MESSAGE = 4,
        HELLO_MAX = 4096,
        FLIGHT = 1024,
        PIECE = 97,        /* bytes of data, */
        MESSAGE_PIECE = 7, /* and of messages, in a record */
        PADDING = 200,
        UPDATES =
            4, /* KeyUpdates, one before each of the first records of data; some take 8 a second */
        MANY = 100,
        END_AT = 4,      /* records of data before the end */
        HELLO_DONE = 14, /* ServerHelloDone of TLS 1.2 */
        LATE_AUTH = 49,  /* post_handshake_auth, RFC 8446 4.2.6 */
        ALPN = 16,       /* RFC 7301, which NVMe/TCP has no use for */
};

struct act;

struct scene {                  /* a connection */
        struct hand_stream tls; /* first */
        struct tls_seen *seen;
        const struct act *act;
        struct tls_psk psk;
        uint8_t hello[2][HELLO_MAX];       /* the records of the ClientHellos */
        struct tls_hello_view first, view; /* of them; the newest one */
        uint16_t group, spare; /* that has a share; that was offered without. Or TLS_NO_GROUP */
        uint16_t asked;        /* by HelloRetryRequest; TLS_NO_GROUP: none */
        struct tls_said said;  /* before the ServerHello */
        unsigned retries;
        bool answered;                  /* the ServerHello is out */
        bool open;                      /* the host's Finished has come */
        bool owes_update;               /* the host has to send KeyUpdate before its data */
        bool spoilt;                    /* the host has to end the connection */
        uint8_t part[TLS_FINISHED_MAX]; /* of a message of the host's that is not whole yet */
        size_t part_len;
        unsigned records; /* of our data */
};

/* What a row has says when it is done. */
struct act {
        bool lawful;                        /* the host has to work on */
        bool (*can)(const struct scene *c); /* whether it can be done; NULL: always */
        void (*retry)(const struct scene *c,
                      struct tls_server_hello *h); /* HelloRetryRequest first */
        bool (*retry_if)(const struct scene *c);   /* NULL: always */
        bool twice;                                /* a second one after it */
        void (*hello)(const struct scene *c, struct tls_server_hello *h); /* changes it */
        const uint8_t *instead; /* of the ServerHello: these bytes */
        size_t instead_len;
        const uint8_t *messages; /* instead of EncryptedExtensions; NULL: that */
        size_t messages_len;
        uint8_t extra_type; /* a record before Finished that has extra, of this type; 0: none */
        const uint8_t *extra;
        size_t extra_len;
        const uint8_t *ccs; /* ChangeCipherSpec after the ServerHello; NULL: none */
        unsigned times;     /* ... so many */
        bool again;         /* the ServerHello is sent once more */
        bool unaligned, wrong_proof;
        const uint8_t
            *rest; /* after the ServerHello: these bytes and nothing else; NULL: the usual flight */
        size_t rest_len;
        size_t piece, pad; /* as of struct hand_stream */
        /* Before a record of data, the n-th from 0 on. False: it cannot be computed. NULL: nothing. */
        bool (*before)(struct stream *s, unsigned n);
        const uint8_t *once; /* a record before the first one, of this type: */
        size_t once_len;
        uint8_t once_type; /* 0: bytes as they are */
};

static struct scene *scene_of(const struct stream *s)
{
        return s->own;
}

/* Once the host has been given what it has to end the connection for. */
static void spoil(struct scene *c)
{
        c->seen->done = true;
        c->spoilt = !c->act->lawful;
}

/* --- what can be done with a host ------------------------------------------------------------------ */

static const uint16_t by_hand[] = { TLS_X25519, TLS_SECP256R1, TLS_SECP384R1 };

static bool is_shared(const struct tls_hello_view *v, uint16_t group)
{
        struct auth_slice share;

        return tls_hello_share(v, group, &share);
}

/* False: there is no way that can be gone by hand, or the first share is not the one that was asked for (4.2.8). */
static bool choose_groups(struct scene *c)
{
        const struct tls_hello_view *v = &c->view;

        c->group = c->spare = TLS_NO_GROUP;
        for (size_t i = 0; v->modes & TLS_PSK_DHE_KE && i < sizeof(by_hand) / sizeof(by_hand[0]);
             i++) {
                bool shared = is_shared(v, by_hand[i]);

                if (!c->group && shared)
                        c->group = by_hand[i];
                if (!c->spare && !shared && tls_hello_has_group(v, by_hand[i]))
                        c->spare = by_hand[i];
        }
        return c->asked ? c->group == c->asked : c->group || v->modes & TLS_PSK_KE;
}

static bool has_spare(const struct scene *c)
{
        return c->spare;
}

static bool has_share(const struct scene *c)
{
        return c->group;
}

static bool has_both(const struct scene *c)
{
        return c->group && c->spare;
}

/* Of x448, secp521r1, ffdhe8192 and X25519MLKEM768; TLS_NO_GROUP: all are offered. */
static uint16_t group_not_offered(const struct tls_hello_view *v)
{
        static const uint16_t groups[] = { 0x1e, 0x19, 0x104, 0x11ec };

        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
                if (!tls_hello_has_group(v, groups[i]))
                        return groups[i];
        return TLS_NO_GROUP;
}

static bool lacks_x25519(const struct scene *c)
{
        return !is_shared(&c->view, TLS_X25519);
}

static bool has_x25519(const struct scene *c)
{
        return c->view.modes & TLS_PSK_DHE_KE && tls_hello_has_group(&c->view, TLS_X25519);
}

static bool lacks_group(const struct scene *c)
{
        return c->group && group_not_offered(&c->view);
}

static bool wants_share(const struct scene *c)
{
        return c->group && !(c->view.modes & TLS_PSK_KE);
}

/* HelloRetryRequest lets it leave out 0-RTT data, and keys for another hash (4.1.2). */
static bool has_nothing_to_leave_out(const struct scene *c)
{
        return !c->view.early && c->view.identities == 1;
}

static bool has_no_alpn(const struct scene *c)
{
        return !tls_hello_has_extension(&c->view, ALPN);
}

static bool has_no_late_auth(const struct scene *c)
{
        return !tls_hello_has_extension(&c->view, LATE_AUTH);
}

/* --- ServerHello and HelloRetryRequest ------------------------------------------------------------- */

static uint16_t code_of(enum tls_suite suite)
{
        return suite == TLS_AES_128_GCM ? 0x1301 : 0x1302;
}

static void change_session(const struct scene *c, struct tls_server_hello *h)
{
        static const uint8_t another[32] = { 0xa5, 0x5a };

        (void)c;
        h->session = another;
        h->session_len = sizeof(another);
}

/* Of those in RFC 8446 B.4, 1301h to 1305h; 1300h: all are offered. */
static uint16_t suite_not_offered(const struct tls_hello_view *v)
{
        uint16_t suite = 0x1305;

        while (suite > 0x1300 && tls_hello_has_suite(v, suite))
                suite--;
        return suite;
}

static bool lacks_suite(const struct scene *c)
{
        return suite_not_offered(&c->view) > 0x1300;
}

static void change_suite(const struct scene *c, struct tls_server_hello *h)
{
        h->suite = suite_not_offered(&c->view);
}

static void change_compression(const struct scene *c, struct tls_server_hello *h)
{
        (void)c;
        h->compression = 1;
}

static void make_long(const struct scene *c, struct tls_server_hello *h)
{
        (void)c;
        h->wrong_len = TLS_LAST_LEN;
        h->wrong_by = 1;
}

static void make_short(const struct scene *c, struct tls_server_hello *h)
{
        (void)c;
        h->over = true;
}

static void change_version(const struct scene *c, struct tls_server_hello *h)
{
        (void)c;
        h->version = TLS_1_2;
}

/* One that is offered for TLS 1.2; else TLS_PSK_WITH_AES_128_GCM_SHA256. */
static uint16_t old_suite(const struct tls_hello_view *v)
{
        const uint8_t *p = v->suite_list.p;

        for (size_t i = 0; i + 1 < v->suite_list.len; i += 2)
                if (p[i] != 0x13 && !(p[i] == 0 && p[i + 1] == 0xff))
                        return (uint16_t)(p[i] << 8 | p[i + 1]);
        return 0x00a8;
}

static void downgrade(const struct scene *c, struct tls_server_hello *h)
{
        h->version = 0;
        h->downgraded = true;
        h->psk = false;
        h->group = TLS_NO_GROUP;
        h->suite = old_suite(&c->view);
}

static void add_unasked(const struct scene *c, struct tls_server_hello *h)
{
        (void)c;
        h->strange = ALPN;
}

static void repeat_versions(const struct scene *c, struct tls_server_hello *h)
{
        (void)c;
        h->twice = true;
}

static void change_identity(const struct scene *c, struct tls_server_hello *h)
{
        h->identity = (uint16_t)c->view.identities;
}

static void leave_psk(const struct scene *c, struct tls_server_hello *h)
{
        (void)c;
        h->psk = false;
}

static void change_group(const struct scene *c, struct tls_server_hello *h)
{
        h->group = group_not_offered(&c->view);
}

static void make_zero(const struct scene *c, struct tls_server_hello *h)
{
        static const uint8_t zeroes[32];

        (void)c;
        h->share = (struct auth_slice) { zeroes, sizeof(zeroes) };
}

static void leave_share(const struct scene *c, struct tls_server_hello *h)
{
        (void)c;
        h->group = TLS_NO_GROUP;
}

static void ask_for_spare(const struct scene *c, struct tls_server_hello *h)
{
        h->group = c->spare;
}

static void ask_for_shared(const struct scene *c, struct tls_server_hello *h)
{
        h->group = c->group;
}

static void ask_for_another(const struct scene *c, struct tls_server_hello *h)
{
        h->group = group_not_offered(&c->view);
}

static void ask_for_nothing(const struct scene *c, struct tls_server_hello *h)
{
        (void)c;
        h->group = TLS_NO_GROUP;
}

static const uint8_t cookie[] = "a HelloRetryRequest has it, and the ClientHello after that";

static void give_cookie(const struct scene *c, struct tls_server_hello *h)
{
        h->group = c->spare;
        h->cookie = (struct auth_slice) { cookie, sizeof(cookie) };
}

/* Each with another cookie: each would change the ClientHello. */
static void ask_for_more(const struct scene *c, struct tls_server_hello *h)
{
        h->group = c->spare;
        h->cookie = (struct auth_slice) { cookie, sizeof(cookie) - c->retries };
}

static void ask_for_x25519(const struct scene *c, struct tls_server_hello *h)
{
        (void)c;
        h->group = TLS_X25519;
}

/* That of the first ClientHello, where it was another one. */
static void change_back(const struct scene *c, struct tls_server_hello *h)
{
        for (size_t i = 0; i < sizeof(by_hand) / sizeof(by_hand[0]); i++)
                if (is_shared(&c->first, by_hand[i]))
                        h->group = by_hand[i];
}

/* --- before data ----------------------------------------------------------------------------------- */

static bool break_tag(struct stream *s, unsigned n)
{
        static const uint8_t data[64];
        uint8_t record[sizeof(data) + 22];
        size_t len;

        if (n > 0)
                return true;
        len = tls_hand_seal(&hand_stream_of(s)->hand, TLS_DATA, data, sizeof(data), 0, record);
        if (len > 0)
                record[len - 1] ^= 1;
        return hand_stream_put(s, record, len);
}

static bool send_overflow(struct stream *s, unsigned n)
{
        enum { TAG = 16, TOO_LONG = 16384 + 256 + 1 };

        return n > 0 || hand_stream_put_record(s, TLS_DATA, "", 0, TOO_LONG - TAG - 1);
}

static bool send_padding(struct stream *s, unsigned n)
{
        return n > 0 || hand_stream_put_record(s, 0, "", 0, 15);
}

static bool send_no_message(struct stream *s, unsigned n)
{
        return n > 0 || hand_stream_put_record(s, TLS_HANDSHAKE, "", 0, 0);
}

static bool send_empty(struct stream *s, unsigned n)
{
        bool put = true;

        (void)n;
        for (int i = 0; i < 2; i++)
                put &= hand_stream_put_record(s, TLS_DATA, "", 0, 0);
        return put;
}

enum { NOT_REQUESTED, REQUESTED, NEITHER };

static bool send_update(struct stream *s, unsigned n)
{
        return n >= UPDATES || hand_stream_put_update(s, NOT_REQUESTED);
}

static bool send_many_updates(struct stream *s, unsigned n)
{
        for (unsigned i = 0; n == 0 && i < MANY; i++)
                if (!hand_stream_put_update(s, NOT_REQUESTED))
                        return false;
        return true;
}

static bool end_it(struct stream *s, unsigned n)
{
        if (n == END_AT)
                stream_over_tcp.half_close(s);
        return n < END_AT;
}

static bool ask_for_update(struct stream *s, unsigned n)
{
        if (n > 0)
                return true;
        scene_of(s)->owes_update = true;
        return hand_stream_put_update(s, REQUESTED);
}

static bool send_wrong_update(struct stream *s, unsigned n)
{
        return n > 0 || hand_stream_put_update(s, NEITHER);
}

static bool send_two_updates(struct stream *s, unsigned n)
{
        static const uint8_t two[] = { TLS_KEY_UPDATE, 0, 0, 1, 0, TLS_KEY_UPDATE, 0, 0, 1, 0 };

        return n > 0 || (hand_stream_put_record(s, TLS_HANDSHAKE, two, sizeof(two), 0) &&
                         tls_hand_update(&hand_stream_of(s)->hand, PARTY_CONTROLLER) == 0);
}

/* --- what is done, and when ------------------------------------------------------------------------ */

#define BYTES(...)                                                                                 \
        (const uint8_t[])                                                                          \
        {                                                                                          \
                __VA_ARGS__                                                                        \
        }
#define HAS(field, ...)  .field = BYTES(__VA_ARGS__), .field##_len = sizeof(BYTES(__VA_ARGS__))
#define ONCE(type, ...)  HAS(once, __VA_ARGS__), .once_type = (type)
#define NO_EXTENSIONS    TLS_EXTENSIONS, 0, 0, 2, 0, 0
#define CHANGE_CIPHER(v) TLS_CHANGE_CIPHER, 3, 3, 0, 1, (v)
/* signature_algorithms: ecdsa_secp256r1_sha256 */
#define ALGORITHMS 0, 8, 0, 13, 0, 4, 0, 2, 4, 3
#define ICRESP     1, 0, 128, 0, 128, 0, 0, 0, [127] = 0
/* With zeroes after it: as much as the header of a record would announce. */
#define ICRESP_AND_MORE ICRESP, [255] = 0

/* clang-format off */
static const struct act acts[TLS_ACTS] = {
        [TLS_ACT_USUAL] = { .lawful = true },
        [TLS_ACT_SESSION] = { .hello = change_session },
        [TLS_ACT_SUITE] = { .hello = change_suite, .can = lacks_suite },
        [TLS_ACT_COMPRESSION] = { .hello = change_compression },
        [TLS_ACT_LONG] = { .hello = make_long },
        [TLS_ACT_SHORT] = { .hello = make_short },
        [TLS_ACT_VERSION] = { .hello = change_version },
        [TLS_ACT_DOWNGRADE] = { .hello = downgrade, HAS(rest, TLS_HANDSHAKE, 3, 3, 0, 4, HELLO_DONE, 0, 0, 0) },
        [TLS_ACT_UNASKED] = { .hello = add_unasked, .can = has_no_alpn },
        [TLS_ACT_TWICE] = { .hello = repeat_versions },
        [TLS_ACT_IDENTITY] = { .hello = change_identity },
        [TLS_ACT_NO_PSK] = { .hello = leave_psk, .can = has_share },
        [TLS_ACT_GROUP] = { .hello = change_group, .can = lacks_group },
        [TLS_ACT_POINT] = { .hello = make_zero, .can = has_x25519, .retry = ask_for_x25519,
                            .retry_if = lacks_x25519 },
        [TLS_ACT_NO_SHARE] = { .hello = leave_share, .can = wants_share },
        [TLS_ACT_PLAIN] = { HAS(instead, ICRESP_AND_MORE) },
        [TLS_ACT_NO_HELLO] = { HAS(instead, TLS_HANDSHAKE, 3, 3, 0, 6, NO_EXTENSIONS) },
        [TLS_ACT_TWO_HELLOS] = { .again = true },

        [TLS_ACT_RETRY] = { .retry = ask_for_spare, .can = has_spare, .lawful = true },
        [TLS_ACT_COOKIE] = { .retry = give_cookie, .lawful = true },
        [TLS_ACT_RETRY_TWICE] = { .retry = ask_for_more, .twice = true },
        [TLS_ACT_RETRY_SHARED] = { .retry = ask_for_shared, .can = has_share },
        [TLS_ACT_RETRY_GROUP] = { .retry = ask_for_another, .can = lacks_group },
        [TLS_ACT_RETRY_EMPTY] = { .retry = ask_for_nothing, .can = has_nothing_to_leave_out },
        [TLS_ACT_RETRY_OTHER] = { .retry = ask_for_spare, .hello = change_back, .can = has_both },

        [TLS_ACT_MISPLACED] = { HAS(messages, TLS_EXTENSIONS, 0, 0, 8, 0, 6, 0, 51, 0, 2, 0, TLS_X25519), .can = has_share },
        [TLS_ACT_UNASKED_LATER] = { HAS(messages, TLS_EXTENSIONS, 0, 0, 11, 0, 9, 0, ALPN, 0, 5, 0, 3, 2, 'h', '2'),
                                    .can = has_no_alpn },
        [TLS_ACT_NO_EXTENSIONS] = { .messages = BYTES(0) },
        [TLS_ACT_CERTIFICATE] = { HAS(messages, NO_EXTENSIONS, TLS_CERTIFICATE_REQUEST, 0, 0, 11, 0, ALGORITHMS) },
        [TLS_ACT_PROOF] = { .wrong_proof = true },
        [TLS_ACT_EARLY] = { HAS(extra, 1, 2, 3, 4), .extra_type = TLS_DATA },
        [TLS_ACT_EARLY_UPDATE] = { HAS(extra, TLS_KEY_UPDATE, 0, 0, 1, 0), .extra_type = TLS_HANDSHAKE },
        [TLS_ACT_UNALIGNED] = { .unaligned = true, .messages = BYTES(0) },
        [TLS_ACT_PIECES] = { .piece = PIECE, .lawful = true },
        [TLS_ACT_CCS] = { .ccs = BYTES(CHANGE_CIPHER(1)), .times = 3, .lawful = true },
        [TLS_ACT_CCS_VALUE] = { .ccs = BYTES(CHANGE_CIPHER(2)), .times = 1 },

        [TLS_ACT_TAG] = { .before = break_tag },
        [TLS_ACT_OVERFLOW] = { .before = send_overflow },
        [TLS_ACT_TYPE] = { ONCE(0, ICRESP) },
        [TLS_ACT_CCS_LATE] = { ONCE(0, CHANGE_CIPHER(1)) },
        [TLS_ACT_NO_TYPE] = { .before = send_padding },
        [TLS_ACT_NO_MESSAGE] = { .before = send_no_message },
        [TLS_ACT_PADDING] = { .pad = PADDING, .lawful = true },
        [TLS_ACT_EMPTY] = { .before = send_empty, .lawful = true },
        [TLS_ACT_UPDATE] = { .before = send_update, .lawful = true },
        [TLS_ACT_UPDATE_ASKED] = { .before = ask_for_update, .lawful = true },
        [TLS_ACT_UPDATE_VALUE] = { .before = send_wrong_update },
        [TLS_ACT_UPDATE_MORE] = { .before = send_two_updates },
        /* for an hour, with a nonce of a byte, a ticket of four, and an extension that nobody knows */
        [TLS_ACT_TICKET] = { ONCE(TLS_HANDSHAKE, TLS_NEW_TICKET, 0, 0, 22, 0, 0, 14, 16, 1, 2, 3, 4, 1, 0,
                                  0, 4, 5, 6, 7, 8, 0, 4, 0x0a, 0x0a, 0, 0), .lawful = true },
        [TLS_ACT_LATE_CERTIFICATE] = { ONCE(TLS_HANDSHAKE, TLS_CERTIFICATE_REQUEST, 0, 0, 12, 1, 7, ALGORITHMS),
                                       .can = has_no_late_auth },
        [TLS_ACT_HELLO_REQUEST] = { ONCE(TLS_HANDSHAKE, 0, 0, 0, 0) },
        [TLS_ACT_ALERT] = { ONCE(TLS_ALERTS, 2, 80) },
        [TLS_ACT_ALERT_WARNING] = { ONCE(TLS_ALERTS, 1, 20) },
        [TLS_ACT_ALERT_UNKNOWN] = { ONCE(TLS_ALERTS, 2, 200) },
        [TLS_ACT_CLOSED] = { ONCE(TLS_ALERTS, 1, TLS_CLOSE_NOTIFY) },
        [TLS_ACT_UPDATES] = { .before = send_many_updates, .lawful = true },
        [TLS_ACT_TRUNCATED] = { .before = end_it, .lawful = true },
};
/* clang-format on */

/* --- our flight ------------------------------------------------------------------------------------ */

struct flight {
        uint8_t bytes[FLIGHT];
        size_t len;
};

static bool flight_add(struct scene *c, struct flight *f, const void *message, size_t len)
{
        if (len > sizeof(f->bytes) - f->len || tls_hand_heard(&c->tls.hand, message, len) < 0)
                return false;
        memcpy(f->bytes + f->len, message, len);
        f->len += len;
        return true;
}

static bool send_messages(struct stream *s, const struct flight *f)
{
        const struct hand_stream *h = hand_stream_of(s);
        size_t piece = h->piece ? MESSAGE_PIECE : sizeof(f->bytes);

        for (size_t at = 0; at < f->len; at += piece) {
                size_t left = f->len - at;

                if (!hand_stream_put_record(s, TLS_HANDSHAKE, f->bytes + at,
                                            left < piece ? left : piece, h->pad))
                        return false;
        }
        return true;
}

static const uint8_t no_extensions[] = { NO_EXTENSIONS };

static bool send_extensions(struct stream *s)
{
        struct scene *c = scene_of(s);
        const struct act *a = c->act;
        struct flight f = { .len = 0 };

        return flight_add(c, &f, a->messages ? a->messages : no_extensions,
                          a->messages ? a->messages_len : sizeof(no_extensions)) &&
               send_messages(s, &f);
}

static bool send_finished(struct stream *s)
{
        struct scene *c = scene_of(s);
        struct flight f = { .len = 0 };
        uint8_t message[TLS_FINISHED_MAX];
        size_t len = tls_hand_finished(&c->tls.hand, PARTY_CONTROLLER, message);

        message[MESSAGE] ^= c->act->wrong_proof;
        return len > 0 && flight_add(c, &f, message, len) && send_messages(s, &f) &&
               tls_hand_complete(&c->tls.hand) == 0 &&
               tls_hand_switch(&c->tls.hand, PARTY_CONTROLLER) == 0;
}

static bool send_flight(struct stream *s)
{
        const struct act *a = scene_of(s)->act;

        for (unsigned i = 0; i < a->times; i++)
                if (!hand_stream_put(s, a->ccs, HEADER + 1))
                        return false;
        return send_extensions(s) &&
               (!a->extra_type ||
                hand_stream_put_record(s, a->extra_type, a->extra, a->extra_len, 0)) &&
               send_finished(s);
}

/* --- the ServerHello ------------------------------------------------------------------------------- */

static struct tls_server_hello usual_hello(const struct scene *c)
{
        return (struct tls_server_hello) { .legacy = TLS_1_2,
                                           .version = TLS_1_3,
                                           .session = c->view.session,
                                           .session_len = c->view.session_len,
                                           .suite = code_of(c->psk.suite),
                                           .psk = true,
                                           .group = c->group,
                                           .share = tls_known_share(c->group) };
}

/* What the private key 1 gives with the host's share; with a share of ours that is zero, zero. */
static struct auth_slice shared_with(const struct scene *c, const struct tls_server_hello *h)
{
        struct auth_slice share = { "", 0 };

        if (c->act->hello == make_zero)
                return h->share;
        tls_hello_share(&c->view, c->group, &share);
        return share;
}

/* The keys that a host has which takes it. */
static bool begin_keys(struct scene *c, const struct tls_server_hello *h, const uint8_t *record,
                       size_t n)
{
        const struct auth_slice before = { c->said.p, c->said.len },
                                server = { record + HEADER, n - HEADER }, share = shared_with(c, h);
        struct tls_psk psk = c->psk;
        int rc;

        if (!h->psk)
                memset(psk.key, 0, sizeof(psk.key));
        rc = tls_hand_begin(&c->tls.hand, PARTY_CONTROLLER, &psk, &before, &server,
                            h->group ? c->group : TLS_NO_GROUP, &share);
        wipe(&psk, sizeof(psk));
        return rc == 0;
}

/* EncryptedExtensions at its end, in clear. Bytes of it all. */
static size_t add_extensions(struct scene *c, uint8_t *record, size_t n)
{
        size_t len = n - HEADER + sizeof(no_extensions);

        if (tls_hand_heard(&c->tls.hand, no_extensions, sizeof(no_extensions)) < 0)
                return 0;
        memcpy(record + n, no_extensions, sizeof(no_extensions));
        record[3] = (uint8_t)(len >> 8);
        record[4] = (uint8_t)len;
        return HEADER + len;
}

/* After the first message to a host that has sent a legacy_session_id (RFC 8446 D.4). */
static bool put_change_cipher(struct stream *s)
{
        static const uint8_t change_cipher[] = { CHANGE_CIPHER(1) };

        return scene_of(s)->view.session_len == 0 ||
               hand_stream_put(s, change_cipher, sizeof(change_cipher));
}

/* Before anything of it goes out: what comes after it may be judged. */
static bool answer(struct stream *s)
{
        struct scene *c = scene_of(s);
        const struct act *a = c->act;
        struct tls_server_hello h = usual_hello(c);
        uint8_t record[TLS_ANSWER_MAX + sizeof(no_extensions)];
        size_t n;

        if (a->hello)
                a->hello(c, &h);
        n = tls_server_hello_build(&h, record);
        if (n == 0 || !begin_keys(c, &h, record, n))
                return false;
        c->answered = true;
        if (!a->before && !a->once)
                spoil(c);
        if (a->instead)
                return hand_stream_put(s, a->instead, a->instead_len);
        if (a->unaligned)
                n = add_extensions(c, record, n);
        c->tls.ready = true;
        if (!hand_stream_put(s, record, n) || (a->again && !hand_stream_put(s, record, n)))
                return false;
        if (a->rest)
                return hand_stream_put(s, a->rest, a->rest_len);
        return (c->retries > 0 || put_change_cipher(s)) && send_flight(s);
}

/* --- HelloRetryRequest ----------------------------------------------------------------------------- */

static bool ask_again(struct stream *s)
{
        struct scene *c = scene_of(s);
        const struct act *a = c->act;
        struct tls_server_hello h = usual_hello(c);
        uint8_t record[TLS_ANSWER_MAX];
        size_t n;

        h.retry = true;
        h.psk = false;
        a->retry(c, &h);
        n = tls_server_hello_build(&h, record);
        if (n == 0 || (c->retries == 0 && !tls_said_fold(&c->said, c->psk.suite)) ||
            !tls_said_add(&c->said, record + HEADER, n - HEADER))
                return false;
        c->asked = h.group;
        c->retries++;
        if (!a->hello && (!a->twice || c->retries == 2))
                spoil(c);
        return hand_stream_put(s, record, n) && (c->retries > 1 || put_change_cipher(s));
}

static bool has_to_ask(const struct scene *c)
{
        const struct act *a = c->act;

        if (!a->retry || (a->retry_if && c->retries == 0 && !a->retry_if(c)))
                return false;
        return c->retries < (a->twice ? 2 : 1);
}

static bool take_hello(struct stream *s)
{
        struct scene *c = scene_of(s);

        return tls_said_add(&c->said, c->view.message, c->view.message_len) &&
               (has_to_ask(c) ? ask_again(s) : answer(s));
}

/* --- what comes ------------------------------------------------------------------------------------ */

static void note_wrong(struct scene *c, bool wrong, const char *what)
{
        if (wrong && !c->seen->wrong)
                c->seen->wrong = what;
}

static bool take_second_hello(struct stream *s, const uint8_t *record, size_t len)
{
        struct scene *c = scene_of(s);
        const struct auth_slice *got = &c->view.cookie;

        c->seen->went_on |= c->spoilt;
        if (len > HELLO_MAX)
                return false;
        memcpy(c->hello[1], record, len);
        if (!tls_hello_read(&c->view, c->hello[1], len))
                return false;
        note_wrong(c, !tls_hello_repeats(&c->view, &c->first),
                   "its second ClientHello differs in what may not change");
        note_wrong(c,
                   c->act->retry == give_cookie &&
                       (got->len != sizeof(cookie) || memcmp(got->p, cookie, got->len) != 0),
                   "its second ClientHello has not the cookie");
        return choose_groups(c) && take_hello(s);
}

/* An alert ends the connection; those of closure say nothing of an error (RFC 8446 6.1). */
static void note_alert(struct scene *c, uint8_t alert)
{
        bool says = alert != TLS_CLOSE_NOTIFY && alert != TLS_USER_CANCELED;

        if (says && c->spoilt && !c->seen->alerted) {
                c->seen->alerted = true;
                c->seen->alert = alert;
        }
        c->tls.over = true;
}

/* Whatever it proves: who sends it has taken what came before. */
static bool take_finished(struct scene *c, const uint8_t *message, size_t len)
{
        uint8_t right[TLS_FINISHED_MAX];
        size_t n = tls_hand_finished(&c->tls.hand, PARTY_HOST, right);

        c->seen->went_on |= c->spoilt;
        c->open = n == len && memcmp(right, message, n) == 0;
        return c->open && tls_hand_switch(&c->tls.hand, PARTY_HOST) == 0;
}

static bool take_update(struct stream *s, uint8_t asks)
{
        struct scene *c = scene_of(s);

        c->owes_update = false;
        return tls_hand_update(&c->tls.hand, PARTY_HOST) == 0 &&
               (asks != REQUESTED || hand_stream_put_update(s, NOT_REQUESTED));
}

static bool take_message(struct stream *s, const uint8_t *message, size_t len)
{
        struct scene *c = scene_of(s);

        if (!c->open)
                return message[0] == TLS_FINISHED && take_finished(c, message, len);
        return message[0] == TLS_KEY_UPDATE && len == MESSAGE + 1 &&
               take_update(s, message[MESSAGE]);
}

/* Both of those that may come change the keys: nothing may follow them in their record. */
static bool take_part(struct stream *s, const uint8_t *p, size_t n)
{
        struct scene *c = scene_of(s);
        size_t len = MESSAGE;

        if (n == 0 || n > sizeof(c->part) - c->part_len)
                return false;
        memcpy(c->part + c->part_len, p, n);
        c->part_len += n;
        if (c->part_len >= MESSAGE)
                len += (size_t)(c->part[1] << 16 | c->part[2] << 8 | c->part[3]);
        if (c->part_len < len)
                return true;
        n = c->part_len;
        c->part_len = 0;
        return n == len && take_message(s, c->part, len);
}

/* close_notify does not keep the host from sending (RFC 8446 6.1): it may say that it ends the connection. */
static bool takes_leave(const struct scene *c, const uint8_t *data)
{
        return c->act == &acts[TLS_ACT_CLOSED] && data[0] == PDU_H2C_TERM;
}

static bool take_data(struct stream *s, const uint8_t *data, size_t len)
{
        struct scene *c = scene_of(s);

        c->seen->went_on |= c->spoilt && len > 0 && !takes_leave(c, data);
        note_wrong(c, c->owes_update,
                   "it sent data before the KeyUpdate that it had been asked for");
        return c->open && hand_stream_give(s, data, len);
}

/* What cannot be opened may be under keys that nobody can know, or 0-RTT data. */
static bool take_sealed(struct stream *s, const uint8_t *record, size_t len)
{
        struct scene *c = scene_of(s);
        uint8_t content[TLS_SEALED_MAX], type;
        ssize_t n = len <= sizeof(content) && c->answered
                        ? tls_hand_open(&c->tls.hand, record, len, content, &type)
                        : -1;

        if (n < 0)
                return c->spoilt || c->first.early;
        if (type == TLS_DATA)
                return take_data(s, content, (size_t)n);
        if (type == TLS_HANDSHAKE)
                return take_part(s, content, (size_t)n);
        if (type == TLS_ALERTS && n == 2)
                note_alert(c, content[1]);
        return type == TLS_ALERTS;
}

static bool take_record(struct stream *s, const uint8_t *record, size_t len)
{
        struct scene *c = scene_of(s);

        if (record[0] == TLS_DATA)
                return take_sealed(s, record, len);
        if (record[0] == TLS_CHANGE_CIPHER)
                return true;
        if (record[0] == TLS_ALERTS && len >= HEADER + 2)
                note_alert(c, record[HEADER + 1]);
        if (record[0] == TLS_HANDSHAKE && c->retries > 0 && !c->answered)
                return take_second_hello(s, record, len);
        return record[0] == TLS_ALERTS;
}

/* What is wrong, or as though it were TLS 1.2 or none, is another way to go on. */
static size_t on_record(struct stream *s, uint8_t *record, size_t len)
{
        struct scene *c = scene_of(s);
        bool taken = take_record(s, record, len);

        c->seen->went_on |= c->spoilt && !taken;
        return taken ? len : 0;
}

/* --- what goes out, and the end -------------------------------------------------------------------- */

static bool send_once(struct stream *s, const struct act *a)
{
        if (a->once_type)
                return hand_stream_put_record(s, a->once_type, a->once, a->once_len, 0);
        return hand_stream_put(s, a->once, a->once_len);
}

static bool on_sends(struct stream *s)
{
        struct scene *c = scene_of(s);
        const struct act *a = c->act;
        unsigned n = c->records++;

        if (n == 0 && (a->before || a->once))
                spoil(c);
        if (n == 0 && a->once)
                return send_once(s, a);
        return !a->before || a->before(s, n);
}

static void on_closes(struct stream *s)
{
        static const uint8_t close_notify[] = { 1, TLS_CLOSE_NOTIFY };

        if (scene_of(s)->open)
                hand_stream_put_record(s, TLS_ALERTS, close_notify, sizeof(close_notify), 0);
}

/* An alert is its end, too; what has failed was not left open. */
static void on_gone(struct stream *s)
{
        struct scene *c = scene_of(s);

        if (c->spoilt && (c->tls.ended || c->tls.over))
                c->seen->ended_ns = loop_wall_ns();
        else if (!c->tls.failed)
                c->seen->left |= c->spoilt;
        c->seen->unclosed |= c->open && c->tls.ended && !c->tls.over && s->end == STREAM_FIN;
        wipe(&c->psk, sizeof(c->psk));
}

static const struct hand_stream_ops its_ops = {
        .record = on_record, .sends = on_sends, .closes = on_closes, .gone = on_gone
};

/* --- the start ------------------------------------------------------------------------------------- */

/* Derived in either way. */
static bool find_key(struct scene *c, const struct nvme_tls_server *server)
{
        static const enum tls_derivation ways[] = { TLS_PRINTED, TLS_OLD };
        struct nvme_tls_server with = *server;
        bool found = false;

        for (size_t i = 0; i < 2 && !found; i++) {
                with.tls.derivation = ways[i];
                found = tls_offered_key(&with, &c->view, &c->psk) &&
                        tls_hello_proves(auth_openssl(), &c->view, &c->psk);
        }
        wipe(&with, sizeof(with));
        return found;
}

static bool can_play(struct scene *c, const struct nvme_tls_server *server, size_t len)
{
        if (!tls_hello_read(&c->view, c->hello[0], len) || c->view.version != TLS_1_3 ||
            !find_key(c, server) || !choose_groups(c))
                return false;
        c->first = c->view;
        return !c->act->can || c->act->can(c);
}

bool stage_tls_take(void *stage_tls, const struct nvme_tls_server *server, struct stream *s,
                    const uint8_t *hello, size_t len)
{
        struct stage_tls *stage = stage_tls;
        struct scene *c = len <= HELLO_MAX ? calloc(1, sizeof(*c)) : NULL;

        if (!c)
                return false;
        c->act = &acts[stage->act];
        c->seen = stage->seen;
        memcpy(c->hello[0], hello, len);
        if (!can_play(c, server, len)) {
                wipe(&c->psk, sizeof(c->psk));
                free(c);
                return false;
        }
        hand_stream_begin(s, &c->tls, &its_ops);
        c->tls.piece = c->act->piece;
        c->tls.pad = c->act->pad;
        c->tls.failed = !hand_stream_skip(s, len) || !take_hello(s);
        return true;
}
