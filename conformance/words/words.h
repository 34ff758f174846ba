/* SPDX-License-Identifier: BSD-3-Clause */
/* What the words of NVMe share among themselves. */
#ifndef NVMF_CONFORMANCE_WORDS_H
#define NVMF_CONFORMANCE_WORDS_H

#include "case.h"

#include "conformance/engine/family.h"
#include "conn.h"
#include "pdu/nvme/wire/auth.h"

enum { REPLY_MS = 3000, SLOT_BYTES = 256 << 10 };

/* Who makes the target change. */
struct changer {
        /* 0; CHANGE_NOT: that can't be changed; else `error` says what went wrong. NULL: nobody can. */
        int (*make)(void *user, enum change what, char *error, size_t size);
        void *user;
};
enum { CHANGE_NOT = 77 };

enum { HOOK_MAX = 3000 };

struct peer {                /* suite.peer: the target or host under test */
        const char *subnqn;  /* NULL: the first one that discovery lists */
        const char *hostnqn; /* NULL: one for each case */
        const uint8_t *hostid;
        struct auth_key dhchap, dhchap_ctrl; /* ours and the subsystem's; len 0: none */
        bool hdgst, ddgst;
        uint8_t hpda;
        bool may_write;
        uint32_t write_nsid;               /* 0: the first namespace that can be used */
        uint64_t write_slba, write_blocks; /* 0 blocks: all of it */
        struct changer changer;
        const char *denied, *auth; /* subsystems, for caps; or NULL */
        struct caps caps;

        /* ROLE_HOST */
        const char *hook; /* the shell's command that makes it connect; NULL: the reference host */
        struct rule_policy policy; /* of the reference host */
        bool fails;                /* with a sound target, too, from the beginning on */
        char found[NQN_FIELD];     /* subnqn, from discovery */
};

struct world { /* t.world */
        struct queue *queues;
        struct rdma_group *rdma; /* RDMA: what all its connections share; made with the first one */
        char hostnqn[NQN_FIELD];
        uint8_t hostid[16];
        uint64_t slba, blocks; /* the range that it may write */
        uint8_t *pattern;
        uint32_t pattern_len;
};

static inline struct peer *peer(const struct t *t)
{
        return t->suite->peer;
}

static inline struct world *world(const struct t *t)
{
        return t->world;
}

struct command { /* that was sent on a queue */
        struct command *next;
        uint16_t cid;
        union sqe sqe;
        enum nvme_xfer xfer;
        const uint8_t *data; /* host's */
        uint32_t bytes;      /* of the transfer */
        bool whole;          /* a success has to deliver all of it (TCP_C2H_COMPLETE) */
        uint8_t *in;         /* controller's data */
        uint32_t got;
        bool by_hand;          /* RDMA: its SGL is the case's own */
        struct region *region; /* RDMA: the memory that it describes by key, or NULL */
        bool done;
};

/* conform_family: what a running case has open. */
void world_begin(struct t *t);
void world_settle(struct t *t);
void world_end(struct t *t);
/* Who is tested broke `rule`, in the message m (may be NULL) or in a way that `what` says. */
void t_breach(struct t *t, enum rule_id rule, const struct message *m, const char *what);
/* What the target can do; the first NVM subsystem of the transport is found where none is named. */
bool probe(struct suite *s, struct probed *p, char *error, size_t size);

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
void attach(struct queue *q, struct suite_conn *c);
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
