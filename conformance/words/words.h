/* SPDX-License-Identifier: BSD-3-Clause */
/* What the words share among themselves. */
#ifndef NVMF_CONFORMANCE_WORDS_H
#define NVMF_CONFORMANCE_WORDS_H

#include "conformance/engine/suite.h"

/* The command with this CID, the last one sent if there are several; ends the case if none. */
struct command *command_of(struct queue *q, uint16_t cid);
/* The response has to be Success, or the case ends as what() failed. */
struct reply must_succeed(struct queue *q, struct reply r, const char *what);
/* sqsize, or as much as an I/O queue can have by CAP.MQES (not known while probing). */
uint16_t fitting_sqsize(struct t *t, uint16_t qid, uint16_t sqsize);

/* Connect has succeeded on q, and with this DW0 has asked for authentication, which is done; ends the
 * case if it fails. */
void auth_connected(struct queue *q, uint32_t dw0);

struct conn_tcp;
struct conn_rdma;

/* A queue without, then with its connection: it is closed when the case ends. */
struct queue *new_queue(struct t *t);
void attach(struct queue *q, struct conn *c);
/* The connection as that of one transport; ends the case if it is of the other. */
struct conn_tcp *tcp_of(struct queue *q);
struct conn_rdma *rdma_of(struct queue *q);
bool is_rdma(const struct queue *q);

/* A Read of the first block of the case's range, its CID the next one. */
struct command block_read(struct queue *q);

void tcp_send(struct queue *q, union pdu *h, const void *data, uint32_t len);

struct transfer { /* how a command's data goes, see struct cmd */
        const void *data;
        uint32_t bytes;
        bool in_capsule;
        int64_t sgl_len;
        const struct by_hand *hand;
};
void rdma_submit(struct queue *q, struct command *c, const struct transfer *x);
/* A queue whose connect request was accepted; admin: whose association it is to join, or NULL. */
struct queue *rdma_ready(struct t *t, struct queue *admin, uint16_t qid, uint16_t sqsize);
/* The response to c is there: what it left in memory. */
void rdma_collect(struct queue *q, struct command *c);
/* Memory as the response left it: has it changed since? */
void rdma_look_once_more(struct t *t);
void rdma_end(struct t *t);

/* "rejected with STS 2 (invalid RECFMT)", ...: what a rule asks for. */
const char *reaction_says(const struct rule *r, char *buf, size_t size);

#endif
