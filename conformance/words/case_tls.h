/* SPDX-License-Identifier: BSD-3-Clause */
/* Words of the cases about TLS (NVMe/TCP 1.0, 3.6.1): ClientHellos by hand, and what is answered. */
#ifndef NVMF_CONFORMANCE_CASE_TLS_H
#define NVMF_CONFORMANCE_CASE_TLS_H

#include "case.h"
#include "pdu/nvme/io/tls_hand.h"
#include "words.h"

/* Whether the run has a PSK: then the target may expect TLS from the first byte on. */
bool knows_tls(const struct t *t);
/* Whether every connection is over TLS. */
bool runs_over_tls(const struct t *t);

/* The key of this run for a suite, under the identity of our host. Skips the case where no PSK is known, or it
 * may be one of the other suite. */
const struct tls_psk *own_psk(struct t *t, enum tls_suite suite);
/* ... of the suite that goes with the PSK. */
const struct tls_psk *usual_psk(struct t *t);
/* ... with another identity. */
const struct tls_psk *psk_named(struct t *t, const char *identity, ...)
    __attribute__((format(printf, 2, 3)));
/* How the server takes a PSK that was generated for a subsystem (B2.2 8.3.4.5.9): which version of the
 * identity, and which derivation; NULL: in no way. For struct setup. */
const struct nvme_tls *tls_generated(struct t *t, const struct auth_key *key, const char *subnqn);
/* The key that would be derived, were the PSK a generated one. */
const struct tls_psk *generated_psk(struct t *t);

struct tls_host;
/* Hosts that the target knows, from 0 on: ours, if the run has a PSK, and those that the run names; NULL beyond.
 * One that is spoilt has a PSK that may not be used. */
const struct tls_host *tls_host_of(struct t *t, unsigned i);
/* The host's key for a suite, were this its configured PSK. */
const struct tls_psk *psk_of_host(struct t *t, const struct tls_host *h,
                                  const struct auth_key *configured, enum tls_suite suite);
/* By its length. */
enum tls_suite suite_of_key(const struct auth_key *configured);
/* Whether the server answers a ClientHello that proves this key by its ServerHello. */
bool uses_psk(struct t *t, const struct tls_psk *psk);
/* TLS with the run's PSK, for struct setup: NULL where every connection has it anyway. */
const struct nvme_tls *tls_of_run(struct t *t);
/* For all that follows in the case we are this host. */
void become_tls_host(struct t *t, const struct tls_host *h);
/* Whether the server answers by a ServerHello with a PSK that was generated, by what tls_generated() has found. */
bool takes_generated(struct t *t, const struct nvme_tls *tls, const char *subnqn);
/* ... and a configured one, by our name. */
bool takes_configured(struct t *t, const struct auth_key *configured, const char *subnqn);
/* How long generated PSKs live, in ms; 0: nobody has said so. */
unsigned psk_lifetime(const struct t *t);

/* A ClientHello that is right: PSK with ffdhe3072. Any part can be named otherwise. */
#define HELLO(key, ...)                                                                            \
        (struct tls_hello)                                                                         \
        {                                                                                          \
                .version = TLS_1_3, .suites = 1u << (key)->suite, .modes = TLS_PSK_DHE_KE,         \
                .group = TLS_FFDHE3072, .psk = (key), ##__VA_ARGS__                                \
        }

struct said {
        struct tls_answer answer;
        char text[120];               /* of it */
        uint8_t hello[TLS_HELLO_MAX]; /* the record that was sent */
        size_t hello_len;
        uint8_t bytes[16384]; /* what came */
        size_t len;
        struct queue *queue;
};

/* A connection on which it is sent, and the answer: it can be TLS_NO_ANSWER, if the connection ends. */
struct said *say_hello(struct t *t, struct tls_hello h);
/* ... in so many records. */
struct said *say_hello_in(struct t *t, struct tls_hello h, unsigned records);
/* Whether the server takes it: its ServerHello, or a HelloRetryRequest (which says nothing of the key). */
bool is_taken(const struct said *s);
/* The record at that place, once it is there, or after it: ChangeCipherSpec means nothing in TLS 1.3. */
size_t next_record(struct said *s, size_t at);
/* With the groups of (EC)DHE that servers have, one after the other, and with PSK alone: the first answer that
 * takes it; else the last one. A server need not have each of them. */
const struct said *offer_each_way(struct t *t, const struct tls_psk *psk);
/* One that the server takes, for cases that spoil a part of it. Skips the case where there is none. */
struct tls_hello accepted_hello(struct t *t);
/* Whether the server chooses this group where no other is offered. */
bool takes_group(struct t *t, uint16_t group);
/* The server does not: whatever it answers, it is no ServerHello. */
void want_refused(struct t *t, const struct said *s, const char *what);
/* Whether it ends the connection after its answer, soon. */
bool is_ended(struct said *s);
/* After a ServerHello to a ClientHello with PSK alone: whether EncryptedExtensions has early_data. */
bool accepts_early(struct said *s, const struct tls_psk *psk);

/* --- what comes after it: a session by hand */

struct tls_session {
        struct said *said; /* with its queue */
        struct tls_hand hand;
        size_t at;     /* of said->bytes: what has been read */
        bool alerted;  /* an alert has come: */
        uint8_t alert; /* its description */
        bool updated;  /* a KeyUpdate has come */
        uint8_t content[TLS_SEALED_MAX];
};

/* One with the run's key, up to the server's Finished. Skips the case where the server has no way of key
 * exchange that can be gone by hand: PSK alone, x25519, secp256r1, secp384r1. */
struct tls_session *begin_session(struct t *t);
/* ... and with ours: it is ready for data. */
struct tls_session *open_session(struct t *t);
/* Our Finished, with a bit that is wrong or not. */
void send_finished(struct tls_session *s, bool wrong);
/* A record under our keys; what is put into its place. */
void put_record(struct tls_session *s, uint8_t type, const void *content, size_t len, size_t pad);
void put_bytes(struct tls_session *s, const void *bytes, size_t len);
/* The same of ICReq, with so much padding. */
void put_icreq(struct tls_session *s, size_t pad);
/* KeyUpdate with this request_update; our next record is under the next keys. */
void put_update(struct tls_session *s, uint8_t request);
/* Whether data comes; alerts and messages before it are noted. */
bool hears_data(struct tls_session *s);
/* ICReq is answered by ICResp. */
void want_session_works(struct tls_session *s, const char *expected);
enum { ANY_ALERT = 256 };
/* The server ends the connection, as it has to with this alert; with another one, or without any, is lenient. */
void want_terminated(struct tls_session *s, unsigned alert, const char *expected);

#endif
