/* SPDX-License-Identifier: BSD-3-Clause */
/* What the words of NVMe share among themselves. */
#ifndef NVMF_CONFORMANCE_WORDS_H
#define NVMF_CONFORMANCE_WORDS_H

#include "case.h"

#include "conformance/engine/family.h"
#include "conn.h"
#include "pdu/nvme/machine/tls_key.h"
#include "pdu/nvme/wire/auth.h"

enum { REPLY_MS = 3000, SLOT_BYTES = 256 << 10, LARGE_SLOT = 1 << 20, SLOTS = 16 };
/* RDMA_CM is given three tries, however fast the target is: Linux repeats a REQ, REP or DREQ that was lost after 4.3 s. */
enum { CM_MS = 15000 };
/* After H2CTermReq: before that the host may not end the connection itself (T1.0 3.5), so nothing is late. */
enum { TERM_MS = 30000 };
/* What a lost association has begun may still be done for so long, or for CQT (B2.2 9.6.2). */
enum { LINGER_MS = 10000 };

/* Who makes the target change. */
struct changer {
        /* 0; CHANGE_NOT: that can't be changed; else `error` says what went wrong. NULL: nobody can. */
        int (*make)(void *user, enum change what, char *error, size_t size);
        void *user;
};
enum { CHANGE_NOT = 77 };

enum { HOOK_MAX = 3000 };

enum { TLS_HOSTS = 8 };

struct tls_host { /* that the target knows, and the PSK that is configured there for it */
        char nqn[NQN_FIELD];
        struct auth_key key; /* spoilt: it may not be used */
};

struct peer {                /* suite.peer: the target or host under test */
        const char *subnqn;  /* NULL: the first one that discovery lists */
        const char *hostnqn; /* NULL: one for each case */
        const uint8_t *hostid;
        struct auth_key dhchap, dhchap_ctrl; /* ours and the subsystem's; len 0: none */
        struct nvme_tls tls;                 /* the PSK for TLS, if there is one */
        bool tls_always;                     /* every connection is over TLS */
        bool tls_each_hash; /* the PSK is good for both suites, whichever its length */
        struct tls_host tls_hosts[TLS_HOSTS]; /* others than ours */
        unsigned n_tls_hosts;
        unsigned psk_lifetime; /* ms that a generated PSK lives; 0: ten minutes */
        bool hdgst, ddgst;
        uint8_t hpda;
        bool may_write;
        bool
            every_ns; /* all namespaces of the subsystem may be written, where a case needs another */
        uint32_t write_nsid;               /* 0: the first namespace that can be used */
        uint64_t write_slba, write_blocks; /* 0 blocks: all of it */
        unsigned slice, slices;            /* of that range, from 0 on; 0 slices: all of it */
        struct changer changer;
        /* subsystems, for caps; or NULL */
        const char *denied, *auth, *statics, *ana, *expendable, *limited, *formats, *administrative,
            *masked;
        uint32_t masked_nsid; /* see struct caps */
        struct caps caps;

        /* ROLE_HOST */
        const char *hook; /* the shell's command that makes it connect; NULL: the reference host */
        struct rule_policy policy; /* of the reference host; with a hook: of its targets */
        bool fails;                /* with a sound target, too, from the beginning on */
        bool moves;                /* with a sound target it has read or written */
        _Atomic enum { TLS_UNTRIED, TLS_WORKS, TLS_FAILS } tls_state; /* with one over TLS */
        char found[NQN_FIELD];                                        /* subnqn, from discovery */
};

struct world { /* t.world */
        struct queue *queues;
        const struct queue *provoked; /* where something was done last that could hurt */
        struct rdma_group *rdma; /* RDMA: what all its connections share; made with the first one */
        char hostnqn[NQN_FIELD];
        uint8_t hostid[16];
        uint64_t slba, blocks; /* the range that it may write */
        uint64_t stamp;        /* of the blocks of the pattern */
        struct deed *deeds;    /* the last one first: see undo() */
        unsigned rescap;       /* of the namespace; 0: not asked yet */
        bool reserves;         /* it has used reservations: see unreserve() */
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
        uint32_t least;      /* of it that a success has to deliver (TCP_C2H_COMPLETE) */
        uint8_t *in;         /* controller's data */
        uint32_t got;
        bool by_hand;          /* RDMA: its SGL is the case's own */
        struct region *region; /* RDMA: the memory that it describes by key, or NULL */
        bool done;
        bool solicited; /* an R2T came: the controller may be waiting for its data */
};

struct lease {
        uint64_t read, slba, slot, slots;
};
/* The blocks that this run may write: those of its slice. Cases that only read begin at `read`. Each case that writes
 * has a slot of `slot` blocks, the first one at `slba`: 1 MiB where 16 of these fit, else SLOT_BYTES. The first MiB,
 * but at most half of all, is in no slot, so that nobody reads what another case makes unreadable meanwhile. */
struct lease lease(const struct peer *p);
/* Whether there is a block in it that another run has written since ours began. */
bool is_strangers(const struct t *t, const void *data, uint32_t bytes);
/* HOSTID and NQN of the case's host 0, 1, ...: one NQN for all of them where the run has one. */
void case_identity(const struct t *t, unsigned host, uint8_t hostid[16], char hostnqn[NQN_FIELD]);
/* conform_family: before a case; after it, what waits in its sockets is judged; all that it has
 * open is closed. */
void world_begin(struct t *t);
void world_settle(struct t *t);
void world_end(struct t *t);
/* Who is tested broke `rule`, in the message m (may be NULL) or in a way that `what` says. */
void t_breach(struct t *t, enum rule_id rule, const struct message *m, const char *what);
/* What the target can do; the first NVM subsystem of the transport is found where none is named. */
bool probe(struct suite *s, struct probed *p, char *error, size_t size);

/* The command with this CID, the last one sent if there are several; ends the case if none. */
/* NULL: none with this CID was sent on it. command_of() is for CIDs of the case's own. */
struct command *find_command(const struct queue *q, uint16_t cid);
struct command *command_of(struct queue *q, uint16_t cid);
/* Something is done on q that could hurt who is tested: it has to live on afterwards, and so do its other
 * connections. */
void provoke(struct queue *q);
/* ms that the controller says it takes for CSTS to follow CC: CAP.TO, and CRTO.CRWMT where that is more, as CAP.TO
 * is full (3.5.4). */
unsigned announced_ms(const struct caps *c);
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

/* Sends a PDU whose own fields are set, laid out and changed as the case has asked (mutate()
 * ...). Nothing once the queue is over. */
void tcp_send(struct queue *q, union pdu *h, const void *data, uint32_t len);

struct transfer { /* how a command's data goes, see struct cmd */
        const void *data;
        uint32_t bytes;
        bool in_capsule;
        int64_t sgl_len;
        const struct by_hand *hand;
};
/* Posts the capsule of c, and what its data needs. Nothing once the queue is over. */
void rdma_submit(struct queue *q, struct command *c, const struct transfer *x);
/* A queue whose connect request was accepted; admin: whose association it is to join, or NULL. */
struct queue *rdma_ready(struct t *t, struct queue *admin, uint16_t qid, uint16_t sqsize);
/* The response to c is there: what it left in memory. */
void rdma_collect(struct queue *q, struct command *c);
/* As t_deadline(), but CM_MS at least, which are not scaled. */
uint64_t cm_deadline(const struct t *t, unsigned ms);
/* Bytes of its memory that the controller has written, up to the last one. */
uint32_t rdma_written(const struct command *c);
/* Memory as the response left it: has it changed since? */
void rdma_look_once_more(struct t *t);
void rdma_end(struct t *t); /* the case is over */

/* "rejected with STS 2 (invalid RECFMT)", ...: what a rule asks for. */
const char *reaction_says(const struct rule *r, char *buf, size_t size);

/* A command waits for an answer, and not for us. Events may never come. */
bool is_silent(const struct queue *q);
/* Nothing can be said where the case's time is over while the connection is open: ends it. */
void broke_if_late(const struct queue *q);

#endif
