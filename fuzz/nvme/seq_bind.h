/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The live side of a sequence: what both sides have said so far, as far as the one that plays needs
 * it to fill in its next step; and steps as bytes.
 */
#ifndef NVMF_FUZZ_SEQ_BIND_H
#define NVMF_FUZZ_SEQ_BIND_H

#include "pdu/nvme/machine/auth.h"
#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/message.h"
#include "templates.h"

enum { BIND_R2TS = 16, BIND_CMDS = 32 };

struct bind_cmd { /* that the peer, a host, sent and we have not answered */
        union sqe sqe;
        uint32_t moved; /* bytes that were sent or asked for */
};

struct bind_r2t { /* that the peer, a controller, sent and we have not served */
        uint16_t cid, ttag;
        uint32_t offset, left;
};

enum {
        BIND_PLACES = 8,
        BIND_MEMORY = BIND_PLACES * SEQ_DATA_MAX,
        /* From one connection's to the next one's, and what it is aligned to: a low bit of an address
         * that is flipped leads to the same place in every session. */
        BIND_STRIDE = 1 << 18,
};
_Static_assert(BIND_MEMORY <= BIND_STRIDE, "memory of a connection");
struct bind_memory { /* registered, of a host: where the data of its commands lies, by turns */
        uint8_t *at;
        uint64_t addr; /* of it, as descriptors say */
        uint32_t key;
        uint32_t written[BIND_PLACES]; /* how much of each place is; the caller may set it back */
};

struct
    bind_auth { /* a host's transaction; without crypto there is none, and messages are a pattern */
        struct auth_config cfg;
        struct auth a;
        uint16_t cid;   /* of the last Authentication Receive */
        uint32_t n;     /* bytes of what it was answered with */
        bool succeeded; /* the controller has said so, whatever the host thinks of it */
        uint8_t message[AUTH_RECEIVE_MAX];
};

struct seq_bind {
        enum party side; /* who plays */
        /* over RDMA: the caller's to set before the first step */
        struct bind_memory memory; /* host; BIND_MEMORY bytes */
        struct rdma_format format; /* ICDOFF, and what violators want to know */
        uint16_t hsqsize;          /* of the connect request that was heard */
        struct pdu_format out, in; /* of what we say, of what the peer says */
        uint8_t asked_pda;         /* our HPDA or CPDA */
        uint16_t last_cid, cntlid; /* of the last command that we sent; of a Connect's response */
        uint16_t answered, ttag;   /* controller: SQHD; the TTAG of the next R2T */
        uint8_t peer_dgst;         /* that an ICReq asked for */
        struct bind_cmd cmd[BIND_CMDS];
        struct bind_r2t r2t[BIND_R2TS];
        unsigned cmds, r2ts;
        const char *hostnqn, *subnqn; /* for Connect */
        uint16_t qid;                 /* the same, and for a connect request; 0 at first */
        const struct seq_bind *admin; /* whose CNTLID it joins; NULL at first: its own */
        uint8_t hostid[16];
        struct bind_auth auth;
};

/* Nothing is known of the peer: tags and limits are made up until it names them. The names are
 * not copied; each host has the same HOSTID. */
void seq_bind_init(struct seq_bind *b, enum party side, const char *hostnqn, const char *subnqn);
/* The peer said this. */
void seq_bind_received(struct seq_bind *b, const struct message *m);
/* Data of a C2HData PDU. */
void seq_bind_received_data(struct seq_bind *b, const union pdu *h, const uint8_t *data);
/* From the first step on the host authenticates itself with these keys. */
void seq_bind_auth(struct seq_bind *b, const struct auth_crypto *crypto,
                   const struct auth_keys *keys);
/* Whether the step is one of a transaction: it follows from the answer to the one before. */
static inline bool seq_bind_is_auth(const struct seq_bind *b, const struct seq_step *step)
{
        const struct nvme_template *t = nvme_template(step->template);

        return b->auth.cfg.crypto && step->kind == SEQ_PDU && t->opc == NVME_FABRICS &&
               (t->fctype == FCTYPE_AUTH_SEND || t->fctype == FCTYPE_AUTH_RECEIVE);
}
/* RDMA: a host asks to connect. */
void seq_bind_asked(struct seq_bind *b, const struct rdma_request *r);

enum { BIND_ROOM = 2 * (SEQ_DATA_MAX + 512) }; /* a step at most, sent twice */
/*
 * A step (SEQ_PDU, SEQ_RAW) as bytes into out[BIND_ROOM]; how many: 0 where a violator says so. The
 * bind moves on: the CID is used, an R2T is served, a command is answered.
 */
size_t seq_bind_encode(struct seq_bind *b, const struct sequence *s, const struct seq_step *step,
                       uint8_t *out);

struct bind_work {      /* what a step comes to over RDMA */
        uint8_t type;   /* enum seq_message; PDU_CAPSULE_CMD or _RESP: a SEND */
        unsigned times; /* how often; 0 where a violator says so */
        uint32_t len;   /* bytes of the capsule or private data, in out; of READ and WRITE */
        uint64_t addr;  /* READ, WRITE */
        uint32_t key;   /* READ, WRITE; SEND with invalidate */
        bool invalidate;
        uint8_t reads_in, reads_out; /* connection management */
};
/* The same over RDMA; of a host, data goes into its memory. */
struct bind_work seq_bind_work(struct seq_bind *b, const struct sequence *s,
                               const struct seq_step *step, uint8_t *out);
/* How many keyed descriptors a command has, and where in the memory (bytes) its data lies. */
unsigned seq_bind_keys(const struct seq_step *step);
uint32_t seq_bind_place(uint16_t cid);

#endif
