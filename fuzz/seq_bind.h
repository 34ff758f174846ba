/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The live side of a sequence: what both sides have said so far, as far as the one that plays needs
 * it to fill in its next step; and steps as bytes.
 */
#ifndef NVMF_FUZZ_SEQ_BIND_H
#define NVMF_FUZZ_SEQ_BIND_H

#include "sequence.h"

enum { BIND_R2TS = 16, BIND_CMDS = 32 };

struct bind_cmd { /* that the peer, a host, sent and we have not answered */
        union sqe sqe;
        uint32_t moved; /* bytes that were sent or asked for */
};

struct bind_r2t { /* that the peer, a controller, sent and we have not served */
        uint16_t cid, ttag;
        uint32_t offset, left;
};

struct seq_bind {
        enum party side;           /* who plays */
        struct pdu_format out, in; /* of what we say, of what the peer says */
        uint8_t asked_pda;         /* our HPDA or CPDA */
        uint16_t last_cid, cntlid; /* of the last command that we sent; of a Connect's response */
        uint16_t answered, ttag;   /* controller: SQHD; the TTAG of the next R2T */
        uint8_t peer_dgst;         /* that an ICReq asked for */
        struct bind_cmd cmd[BIND_CMDS];
        struct bind_r2t r2t[BIND_R2TS];
        unsigned cmds, r2ts;
        const char *hostnqn, *subnqn; /* for Connect */
        uint8_t hostid[16];
};

void seq_bind_init(struct seq_bind *b, enum party side, const char *hostnqn, const char *subnqn);
/* The peer said this PDU. */
void seq_bind_heard(struct seq_bind *b, const union pdu *h);

enum { BIND_ROOM = 2 * (SEQ_DATA_MAX + 512) }; /* a step at most, sent twice */
/*
 * A step (SEQ_PDU, SEQ_RAW) as bytes into out[BIND_ROOM]; how many: 0 where a violator says so. The
 * bind moves on: the CID is used, an R2T is served, a command is answered.
 */
size_t seq_bind_say(struct seq_bind *b, const struct sequence *s, const struct seq_step *step,
                    uint8_t *out);

#endif
