/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An authentication transaction, DH-HMAC-CHAP (Base 2.2, 8.3.4.5), of either side. What one says is
 * the data of an Authentication Send or Receive, moved by the owner; who has to speak is said by
 * auth_turn(). Where a secure channel is concatenated (SC_C), a transaction that succeeds leaves the PSK
 * for it: auth_take_psk().
 *
 * A failure message is a message like others: it is said (or heard), and then the owner ends the
 * connection (8.3.4.4.2).
 */
#ifndef NVMF_MACHINE_AUTH_H
#define NVMF_MACHINE_AUTH_H

#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/rules.h"

struct auth_slice {
        const void *p;
        size_t len;
};

/* What the machine asks of a library. All return 0, or -1. */
struct auth_crypto {
        /* HMAC of the parts, one after the other, under `key`, into auth_hash_len(hash) bytes;
         * key NULL: the plain hash. */
        int (*digest)(enum auth_hash hash, const struct auth_slice *key,
                      const struct auth_slice *parts, unsigned n, uint8_t *out);
        /* base^exponent mod p of an RFC 7919 group; base NULL: its generator. base and out have
         * auth_group_len(group) bytes, the exponent n, all most significant byte first. -1 also
         * for a base that is 0, 1, p - 1 or beyond. */
        int (*power)(enum auth_group group, const uint8_t *base, const uint8_t *exponent, size_t n,
                     uint8_t *out);
        /* p - 1 of it. */
        int (*top)(enum auth_group group, uint8_t *out);
        int (*random)(void *out, size_t n); /* n bytes that nobody can guess */
};

struct auth_config {     /* the caller's; outlives the transaction */
        enum party role; /* PARTY_HOST or PARTY_CONTROLLER */
        const struct auth_crypto *crypto;
        const char *hostnqn, *subnqn;
        struct auth_keys keys;
        uint16_t t_id;                    /* of a host */
        const struct rule_policy *policy; /* what is overlooked and broken on purpose, or NULL */
};

/* DH values by which anybody knows the session key; by p - 1 it is one of two, and is taken to be that of 1. */
enum auth_weak { AUTH_STRONG, AUTH_ZERO, AUTH_ONE, AUTH_TOP };

enum { AUTH_EXPONENT = 64 }; /* bytes; 8.3.4.5.3 wants 256 bits or more */

struct auth {
        const struct auth_config *cfg;
        unsigned at; /* the message of the sequence that is due */
        uint16_t t_id;
        uint8_t sc_c; /* enum auth_sc_c; a host may set it after auth_start() */
        /* A controller may set it after auth_start(): bits 1 << SC_C of what it agrees to on this queue;
         * 0: AUTH_SC_NONE alone. */
        uint8_t allowed;
        uint8_t weak;   /* enum auth_weak: the value it says, and goes by; set after auth_start() */
        bool credulous; /* takes any response of the host for right; set after auth_start() */
        uint8_t hash, group;
        bool mutual;    /* the controller has to authenticate itself, too */
        bool generated; /* there is a PSK */
        uint32_t s1, s2;
        uint8_t c1[AUTH_HASH_MAX], c2[AUTH_HASH_MAX];
        uint8_t exponent[AUTH_EXPONENT];
        uint8_t session[AUTH_HASH_MAX]; /* H(g^xy mod p); at the end the generated PSK */

        uint8_t failed;  /* enum auth_failure_code, 0: so far so good */
        bool told;       /* the failure message has been said or heard */
        const char *why; /* the failure is ours: what was wrong; NULL: the peer said so */
};

enum auth_turn {
        AUTH_SPEAK,   /* auth_speak() */
        AUTH_LISTEN,  /* auth_hear() what the peer says */
        AUTH_DONE,    /* authenticated */
        AUTH_REFUSED, /* failed, why; nothing more is said */
};

/* From the first message on, also once more after an end. cfg is not copied. */
void auth_start(struct auth *a, const struct auth_config *cfg);
enum auth_turn auth_turn(const struct auth *a);
/* The next message, said or heard, takes a computation in the DH group: milliseconds. */
bool auth_computes(const struct auth *a);
/* On AUTH_SPEAK: the next message into buf of AUTH_MESSAGE_MAX bytes; how long it is. */
size_t auth_speak(struct auth *a, void *buf);
/* What the peer said, at any turn but the last two; the buffer may be longer than the message. */
void auth_hear(struct auth *a, const void *data, size_t len);

/* On AUTH_DONE, once: the PSK that the transaction has generated (8.3.4.5.9), as long as its hash. False:
 * there is none. */
bool auth_take_psk(struct auth *a, struct auth_key *psk);

#endif
