/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first flight of a TLS handshake by hand (RFC 8446 4.1 to 4.2, RFC 5246 7.4.1): a ClientHello as a test
 * wants it, what it says, and what a server answers to it. Which suite, key exchange, group and key a server
 * takes its ServerHello says, in clear text: no handshake has to be completed to see it.
 */
#ifndef NVMF_MACHINE_TLS_HELLO_H
#define NVMF_MACHINE_TLS_HELLO_H

#include "tls_schedule.h"

enum tls_version { SSL_3 = 0x0300, TLS_1_0, TLS_1_1, TLS_1_2, TLS_1_3 };

enum tls_group {
        TLS_NO_GROUP = 0,
        TLS_SECP256R1 = 0x17,
        TLS_SECP384R1 = 0x18,
        TLS_X25519 = 0x1d,
        TLS_FFDHE3072 = 0x101,
};

enum tls_psk_mode { TLS_PSK_KE = 1, TLS_PSK_DHE_KE = 2 }; /* bits; on the wire 0 and 1 */

enum { TLS_HELLO_MAX = 1536 }; /* bytes of the record that tls_hello_build() makes */

struct tls_hello {
        uint16_t version;     /* up to TLS 1.2: that one, without all that is new in TLS 1.3 */
        unsigned suites;      /* bits 1 << enum tls_suite */
        unsigned modes;       /* bits of enum tls_psk_mode; 0: none is named */
        uint16_t group;       /* the first one, with a share of it; TLS_NO_GROUP: none */
        uint16_t spare_group; /* offered without a share; TLS_NO_GROUP: none */
        bool shares_spare;    /* the share is that of spare_group */
        const struct auth_slice
            *cookie;                /* of a HelloRetryRequest, what its extension has; NULL: none */
        const struct tls_psk *psk;  /* NULL: none is offered */
        const struct tls_psk *also; /* offered after it; NULL: none */
        bool wrong_binder;          /* it does not prove that the key is known */
        bool early;                 /* announces 0-RTT data */
        bool compressed;            /* offers DEFLATE, too */
        bool psk_first;             /* pre_shared_key is not the last extension, as it has to be */
        bool
            unknown; /* has a suite, a group, a version, a mode and an extension that nobody knows */
        uint8_t session_len; /* of legacy_session_id, whose bytes are those of random; at most 32 */
        unsigned wrong_len;  /* the length field that is wrong, from 1 on; 0: none */
        int wrong_by;        /* ... by so much */
        uint8_t random[32];
};

/* The length fields within the message of a ClientHello, for wrong_len. */
unsigned tls_hello_lengths(const struct tls_hello *h);

/* The record. Its shares are good ones whose private half everybody knows. Bytes; 0: it cannot be computed,
 * or the identity is too long. */
size_t tls_hello_build(const struct auth_crypto *crypto, const struct tls_hello *h,
                       uint8_t record[TLS_HELLO_MAX]);

/* What a ClientHello says. Pointers are into the record. */
struct tls_hello_view {
        uint16_t version; /* the newest offered */
        unsigned suites, modes;
        bool groups, early;
        bool compressed; /* another method than null is offered */
        bool psk_last;   /* pre_shared_key is the last extension */
        bool unknown;    /* a suite is one that nobody knows, 0A0Ah */
        struct auth_slice suite_list, group_list, share_list; /* as they are on the wire */
        struct auth_slice extension_list;                     /* the same of all extensions */
        struct auth_slice cookie; /* what the extension has; p NULL: there is none */
        uint16_t share_group;     /* of the first share; 0: none */
        const uint8_t *share;
        uint16_t share_len;
        const uint8_t *session; /* legacy_session_id */
        uint8_t session_len;
        uint16_t first_suite; /* as it is on the wire */
        unsigned identities;  /* offered; the first one: */
        const uint8_t *identity;
        uint16_t identity_len;
        const uint8_t *list; /* of all identities, for tls_hello_identity() */
        uint16_t list_len;
        const uint8_t *random;
        const uint8_t *binder; /* of the first identity */
        uint8_t binder_len;
        size_t before_binders;  /* bytes of the handshake message before the list of binders */
        const uint8_t *message; /* the handshake message */
        size_t message_len;
};

/* Of a record that is there as a whole. False: it is no ClientHello, or one that cannot be read. */
bool tls_hello_read(struct tls_hello_view *v, const uint8_t *record, size_t len);
/* The n-th identity, from 0. False: there are no more. */
bool tls_hello_identity(const struct tls_hello_view *v, unsigned n, const uint8_t **identity,
                        uint16_t *len);
/* Whether it offers this cipher suite, this group, an extension of this type (RFC 8446 4.2). */
bool tls_hello_has_suite(const struct tls_hello_view *v, uint16_t suite);
bool tls_hello_has_group(const struct tls_hello_view *v, uint16_t group);
bool tls_hello_has_extension(const struct tls_hello_view *v, uint16_t type);
/* Its share of a group. False: it has none. */
bool tls_hello_share(const struct tls_hello_view *v, uint16_t group, struct auth_slice *share);
/* Whether a second ClientHello is the first one, but for what a HelloRetryRequest lets it change (RFC 8446 4.1.2). */
bool tls_hello_repeats(const struct tls_hello_view *second, const struct tls_hello_view *first);
/* Whether its first binder is that of this key. */
bool tls_hello_proves(const struct auth_crypto *crypto, const struct tls_hello_view *v,
                      const struct tls_psk *psk);

/* Bytes of the record at p; 0: more is needed to tell, or n is less than it has. */
size_t tls_record_len(const uint8_t *p, size_t n);

enum tls_answer_kind {
        TLS_NO_ANSWER, /* not yet */
        TLS_SERVER_HELLO,
        TLS_RETRY, /* HelloRetryRequest */
        TLS_ALERT,
        TLS_UNREADABLE, /* it is none of these */
};

struct tls_answer {
        enum tls_answer_kind kind;
        uint16_t version;               /* that was chosen */
        uint16_t suite;                 /* the same, on the wire */
        uint16_t group;                 /* of the share, or asked for; 0: there is none */
        bool psk;                       /* a key was taken */
        uint8_t alert;                  /* its description */
        const uint8_t *share, *session; /* session: legacy_session_id_echo */
        uint16_t share_len;
        uint8_t session_len;
        uint16_t identity;   /* selected_identity */
        uint8_t compression; /* legacy_compression_method */
        uint16_t strange; /* type of an extension that is none of those above; 0: there is none */
        bool twice;       /* an extension is there twice */
        bool over;        /* bytes are left over after the extensions */
        bool downgraded;  /* random says that the server can do TLS 1.3 */
        struct auth_slice cookie; /* what the extension has; p NULL: there is none */
        size_t message_len; /* bytes of the handshake message, which the record may go beyond */
        size_t len;         /* of the record */
};

/* Of what came first, n bytes so far: NO_ANSWER until the record is whole; UNREADABLE as soon
 * as it can be none. share and session point into p. */
struct tls_answer tls_answer_read(const uint8_t *p, size_t n);
/* "TLS 1.3, TLS_AES_128_GCM_SHA256, PSK alone" or "alert 40 (handshake_failure)". */
void tls_answer_text(const struct tls_answer *a, char *buf, size_t size);

enum { TLS_ANSWER_MAX = 768 }; /* bytes of a record */

/* A ServerHello or a HelloRetryRequest as a test wants it. */
struct tls_server_hello {
        bool retry;
        uint16_t legacy;  /* legacy_version */
        uint16_t version; /* of supported_versions; 0: there is no such extension */
        bool
            downgraded; /* random ends with what says that the server can do TLS 1.3 (RFC 8446 4.1.3) */
        const uint8_t *session;
        uint8_t session_len;
        uint16_t suite;
        uint8_t compression;
        bool psk;
        uint16_t identity;        /* selected_identity */
        uint16_t group;           /* TLS_NO_GROUP: no key_share */
        struct auth_slice share;  /* not of a HelloRetryRequest */
        struct auth_slice cookie; /* p NULL: none */
        uint16_t strange;         /* the type of one more extension, which is empty; 0: none */
        bool twice;               /* supported_versions once more, at the end */
        unsigned
            wrong_len; /* the length field that is wrong, from 1 on; 0: none. TLS_LAST_LEN: that of all extensions */
        int wrong_by; /* ... by so much */
        bool over;    /* a byte more after the extensions */
};
enum { TLS_LAST_LEN = 1000 };

/* The record. Bytes; 0: it does not fit. */
size_t tls_server_hello_build(const struct tls_server_hello *h, uint8_t record[TLS_ANSWER_MAX]);
/* A share whose private half is 1 (of ffdhe3072 2000), so that what it gives with another one is that one. */
struct auth_slice tls_known_share(uint16_t group);

/* A ServerHello that takes what the ClientHello offers first, right or wrong: its version, suite, key, and its
 * own share. For servers that break rules on purpose. Bytes; 0: it does not fit. */
size_t tls_answer_build(const struct tls_hello_view *v, uint16_t version,
                        uint8_t record[TLS_ANSWER_MAX]);
/* A fatal alert, as a record of its own. Bytes. */
size_t tls_alert_build(uint8_t description, uint8_t record[TLS_ANSWER_MAX]);

/* The server's key for what follows its ServerHello, where the key exchange is PSK alone (RFC 8446 7.1 to
 * 7.3). Both hellos are handshake messages, without the header of a record. 0; -1: it cannot be computed. */
int tls_server_traffic(const struct auth_crypto *crypto, const struct tls_psk *psk,
                       const struct auth_slice *client_hello, const struct auth_slice *server_hello,
                       struct tls_traffic *t);

/* Of EncryptedExtensions, in clear: whether early data is accepted. -1: it cannot be read. */
int tls_accepts_early(const uint8_t *message, size_t len);
/* EncryptedExtensions that do. Bytes. */
size_t tls_early_build(uint8_t message[16]);

#endif
