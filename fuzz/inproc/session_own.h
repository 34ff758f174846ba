/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What sessions over TCP and RDMA share: the owner of the machine that is played to. Of a controller's
 * it carries commands out, of a host's it has commands to send. Not for anybody else.
 */
#ifndef NVMF_FUZZ_SESSION_OWN_H
#define NVMF_FUZZ_SESSION_OWN_H

#include "fuzz/fuzz.h"
#include "fuzz/nvme/seq_bind.h"
#include "pdu/nvme/machine/host_cmd.h"
#include "pdu/nvme/machine/toy.h"
#include "session.h"

enum { BLOCK = 512, BLOCKS = 64, PARKED = 128, COMMANDS = 6, DATA = 8192 };

struct play {
        struct toy owner;                                    /* of the controller's side; first */
        int (*submit)(struct play *p, struct host_cmd *cmd); /* to the host's machine */
        const struct sequence *s;
        struct session_report *r;
        struct seq_bind bind;
        struct rule_policy policy;
        bool closed;

        /* the owner of the controller's side */
        struct request *parked[PARKED];
        unsigned n_parked;
        uint32_t cc;

        /* the owner of the host's side */
        struct host_cmd cmd[COMMANDS];
        bool busy[COMMANDS];
        unsigned submitted;
};

static inline bool is(const struct play *p, unsigned bit)
{
        return p->s->config & bit;
}

/* The machine may say what it should not. */
static inline bool is_lenient(const struct play *p)
{
        return is(p, SESSION_WAIVED) || p->s->violates != RULE_NONE;
}

static inline uint8_t pda_of(const struct play *p)
{
        return p->s->config >> SESSION_PDA_SHIFT & ((1 << SESSION_PDA) - 1);
}

/* The owner of a controller; `user` of its ops is the play. */
extern const struct request_ops owner_ops;
/* Completes what waits, the youngest first: answers need not come in the order of the commands. */
void owner_unpark(struct play *p);

/* The owner of a host: sends commands wherever there is room for one. */
void client_submit(struct play *p);
/* All its data, for who registers it. */
uint8_t *client_data(size_t *len);

/* All of it, from the first step to the last; p->s, p->r and p->policy are set. */
void session_play_tcp(const struct play *p, int cuts);
void session_play_rdma(const struct play *p);

#endif
