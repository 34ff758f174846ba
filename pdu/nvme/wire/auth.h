/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of in-band authentication, DH-HMAC-CHAP (Base 2.2, 8.3.4.4 and 8.3.4.5), as Authentication
 * Send and Receive carry them, and the form in which its keys are handed to people (8.3.4.5.8).
 */
#ifndef NVMF_WIRE_AUTH_H
#define NVMF_WIRE_AUTH_H

#include "text.h"

enum auth_message { /* AUTH_TYPE << 8 | AUTH_ID */
                    AUTH_NEGOTIATE = 0x0000,
                    AUTH_FAILURE2 = 0x00f0, /* of a host */
                    AUTH_FAILURE1 = 0x00f1, /* of a controller */
                    AUTH_CHALLENGE = 0x0101,
                    AUTH_REPLY = 0x0102,
                    AUTH_SUCCESS1 = 0x0103,
                    AUTH_SUCCESS2 = 0x0104,
};
const char *auth_message_name(enum auth_message m); /* NULL if not assigned */

enum auth_hash { AUTH_SHA256 = 1, AUTH_SHA384, AUTH_SHA512, AUTH_HASHES };
enum auth_group {
        AUTH_NO_DH,
        AUTH_FFDHE2048,
        AUTH_FFDHE3072,
        AUTH_FFDHE4096,
        AUTH_FFDHE6144,
        AUTH_FFDHE8192,
        AUTH_GROUPS
};
unsigned auth_hash_len(uint8_t hash);       /* bytes; 0 if not assigned */
unsigned auth_group_len(uint8_t group);     /* of a DH value, bytes; 0 if there is none */
const char *auth_group_name(uint8_t group); /* NULL if not assigned */

enum auth_failure_code { /* RCODEEX; RCODE is always 1 */
                         AUTH_FAILED = 1,
                         AUTH_PROTOCOL_UNUSABLE,
                         AUTH_SC_C_MISMATCH,
                         AUTH_HASH_UNUSABLE,
                         AUTH_GROUP_UNUSABLE,
                         AUTH_BAD_PAYLOAD,
                         AUTH_BAD_MESSAGE,
};
const char *auth_failure_name(uint8_t rcodeex); /* NULL if not assigned */

enum {
        AUTH_HASH_MAX = 64, /* bytes */
        AUTH_GROUP_MAX = 1024,
        AUTH_LIST_MAX = 30, /* identifiers in HashIDList and DHgIDList */
        AUTH_CHAP = 1,      /* AuthID of DH-HMAC-CHAP */
        AUTH_RCODE = 1,
        AUTH_RECEIVE_MAX =
            16 + AUTH_HASH_MAX + AUTH_GROUP_MAX, /* bytes a controller says at most */
        AUTH_MESSAGE_MAX = 16 + 2 * AUTH_HASH_MAX + AUTH_GROUP_MAX, /* and a host of one protocol */
};

struct auth_header { /* of all of them */
        uint8_t type, id, rsvd2[2];
        le16_t t_id;
};

struct auth_protocol { /* the descriptor of DH-HMAC-CHAP */
        uint8_t authid, rsvd1, halen, dhlen;
        uint8_t hashes[AUTH_LIST_MAX], groups[AUTH_LIST_MAX];
};

enum auth_sc_c { AUTH_SC_NONE = 0, AUTH_SC_NEW_PSK = 2, AUTH_SC_REPLACE_PSK = 3 };

struct auth_negotiate { /* 8.3.4.4.1 */
        struct auth_header h;
        uint8_t sc_c, napd;              /* sc_c: AUTH_SC_* */
        struct auth_protocol protocol[]; /* napd of them */
};

struct auth_challenge { /* 8.3.4.5.3; hl and dhvlen: bytes */
        struct auth_header h;
        uint8_t hl, rsvd7, hashid, dhgid;
        le16_t dhvlen;
        le32_t seqnum;
        uint8_t values[]; /* CVAL[hl], DHV[dhvlen] */
};

struct auth_reply { /* 8.3.4.5.4 */
        struct auth_header h;
        uint8_t hl, rsvd7, cvalid, rsvd9;
        le16_t dhvlen;
        le32_t seqnum;
        uint8_t values[]; /* RVAL[hl], CVAL[hl], DHV[dhvlen] */
};

struct auth_success1 { /* 8.3.4.5.5 */
        struct auth_header h;
        uint8_t hl, rsvd7, rvalid, rsvd9[7];
        uint8_t values[]; /* RVAL[hl] */
};

struct auth_success2 { /* 8.3.4.5.6 */
        struct auth_header h;
        uint8_t rsvd6[10];
};

struct auth_failure { /* either of them: 8.3.4.4.2 */
        struct auth_header h;
        uint8_t rcode, rcodeex;
};

_Static_assert(sizeof(struct auth_header) == 6, "authentication header");
_Static_assert(sizeof(struct auth_protocol) == 64, "protocol descriptor");
_Static_assert(offsetof(struct auth_protocol, groups) == 34, "DHgIDList");
_Static_assert(sizeof(struct auth_negotiate) == 8, "Negotiate");
_Static_assert(sizeof(struct auth_challenge) == 16, "Challenge");
_Static_assert(offsetof(struct auth_challenge, seqnum) == 12, "SEQNUM of a Challenge");
_Static_assert(sizeof(struct auth_reply) == 16, "Reply");
_Static_assert(offsetof(struct auth_reply, cvalid) == 8, "CVALID");
_Static_assert(sizeof(struct auth_success1) == 16, "Success1");
_Static_assert(offsetof(struct auth_success1, rvalid) == 8, "RVALID");
_Static_assert(sizeof(struct auth_success2) == 16, "Success2");
_Static_assert(sizeof(struct auth_failure) == 8, "Failure1, Failure2");

/* A message that is all there; pointers go into its bytes. */
struct auth_view {
        enum auth_message message;
        uint16_t t_id;
        size_t len; /* bytes of it: what follows in the buffer is none of it */
        union {
                const struct auth_header *header;
                const struct auth_negotiate *negotiate;
                const struct auth_challenge *challenge;
                const struct auth_reply *reply;
                const struct auth_success1 *success1;
                const struct auth_failure *failure;
        };
        const uint8_t *rval, *cval, *dhv; /* hl, hl and dhvlen bytes; NULL where it has none */
        unsigned hl, dhvlen;
};

/*
 * Finds the message in len bytes. 0; AUTH_BAD_MESSAGE: none of this type is assigned;
 * AUTH_BAD_PAYLOAD: it is longer than len. Whether lengths suit the hash and the group, and all that
 * a transaction says about it, is judged elsewhere.
 */
int auth_view(struct auth_view *v, const void *data, size_t len);

/* Every field; of a message that is cut, or unknown, what is common to all. */
void describe_auth(const struct describe *d, const void *data, size_t len);

/*
 * A key, or "secret" (8.3.4.5.8): "DHHC-1:HH:BASE64:", where BASE64 is the key and the CRC-32 of it,
 * little-endian. HH is 00 if the key is used as it stands, else the hash that ties it to an NQN.
 */
enum { AUTH_KEY_MAX = 64 }; /* bytes */
struct auth_key {
        uint8_t hash, len; /* 0: as it stands; bytes: 32, 48 or 64, 0: no key */
        uint8_t bytes[AUTH_KEY_MAX];
        bool spoilt; /* its checksum was wrong: nobody may use it */
};
/* What the two of them know of each other. */
struct auth_keys {
        struct auth_key host;   /* that of the host */
        struct auth_key ctrl;   /* that of the subsystem: none, and a host does not ask for it */
        uint8_t hashes, groups; /* bits 1 << id that may be used; 0: all */
        struct auth_key psk;    /* configured, for TLS: tls_key_parse() */
};

/* Whether all of it is the same: the three keys with their hashes, and what may be used. */
bool auth_keys_equal(const struct auth_keys *a, const struct auth_keys *b);
/* NULL; else what is wrong with it, and *key is not changed. */
const char *auth_key_parse(struct auth_key *key, const char *text);
/* The same of a configured PSK for TLS (T1.0 3.6.1.5): "NVMeTLSkey-1:HH:BASE64:", of 32 or 48 bytes. HH
 * is 00 if it is the retained PSK, else the hash by which that is derived from it. */
const char *tls_key_parse(struct auth_key *key, const char *text);
/* The same of one whose CRC-32 is wrong, which nobody may use. */
const char *tls_key_parse_spoilt(struct auth_key *key, const char *text);

#endif
