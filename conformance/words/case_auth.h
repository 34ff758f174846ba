/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of authentication: transactions with the run's keys, whose messages a case may change.
 *
 *      CASE("fab/auth/t-id", MUST, RULES(FAB_AUTH_T_ID),
 *           "A Reply with another T_ID is answered with AUTH_Failure1")
 *      {
 *              struct queue *q = challenged_queue(t);
 *              struct auth_draft *m = next_message(q);
 *
 *              m->header.t_id = le16(le16_get(m->header.t_id) ^ 1);
 *              expect_auth_failure(q, m);
 *      }
 */
#ifndef NVMF_CONFORMANCE_CASE_AUTH_H
#define NVMF_CONFORMANCE_CASE_AUTH_H

#include "conformance/words/case.h"
#include "pdu/nvme/machine/auth.h"

struct auth_draft {
        uint32_t len; /* bytes of it that are sent */
        union {
                struct auth_header header;
                struct auth_negotiate negotiate;
                struct auth_reply reply;
                uint8_t bytes[AUTH_MESSAGE_MAX];
        };
};
/* The one descriptor of a Negotiate. */
struct auth_protocol *protocol_of(struct auth_draft *negotiate);

/* An admin queue whose Connect was answered with a demand for authentication, and nothing more.
 * Skips the case where no subsystem demands it, or no key is known. */
struct queue *unproven_queue(struct t *t);
/* ... and an I/O queue of it, whose own association has authenticated itself. */
struct queue *unproven_io_queue(struct t *t);
/* unproven_queue() as far as the controller's Challenge; groups: bits 1 << DHgID that are offered. */
struct queue *challenged_queue_of(struct t *t, uint8_t groups);
struct queue *challenged_queue(struct t *t); /* ... any */
/* ... by a host whose DH value and session key are weak, and whose response goes with them. */
struct queue *challenged_queue_weakly(struct t *t, uint8_t groups, enum auth_weak weak);

/* What a sound host says next. */
struct auth_draft *next_message(struct queue *q);
/* Authentication Send of it, which succeeds, whatever is to be thought of the message. */
void send_auth_message(struct queue *q, const struct auth_draft *m);
/* What Authentication Receive brings; the host's machine listens, too. Until the next one. */
const struct auth_view *receive_auth_message(struct queue *q);
/* A new transaction that offers these (bits 1 << id); 0: all. */
void begin_auth(struct queue *q, uint8_t hashes, uint8_t groups);
/* What is left of the transaction, to its success. */
void authenticate(struct queue *q);

/* A new transaction with this SC_C, which asks for a PSK, and does not challenge the controller. */
void begin_auth_with(struct queue *q, enum auth_sc_c sc_c);
/* ... to its end: the PSK. Skips the case where the controller does not concatenate secure channels. */
const struct auth_key *generate_psk(struct queue *q, enum auth_sc_c sc_c);
/* NEWTLSPSK where the controller authenticates itself, too. Skips the case where its key is not known, likewise. */
const struct auth_key *generate_psk_mutually(struct queue *q);

/* What receive_auth_message() has returned last; the transaction's T_ID; whether both keys are known. */
const struct auth_view *auth_received(const struct queue *q);
le16_t auth_t_id(const struct queue *q);
bool auth_is_mutual(const struct t *t);

/* Commands, whose SECP and length (TL, AL) are the case's. */
uint16_t send_auth_send(struct queue *q, const void *data, uint32_t bytes, uint8_t secp);
uint16_t send_auth_receive(struct queue *q, uint32_t bytes);

/* Says it: AUTH_Failure1 with a code of the case's rule is the strict grade; another code, an error
 * status or the end of the connection the lenient one. */
void expect_auth_failure(struct queue *q, const struct auth_draft *m);

#endif
