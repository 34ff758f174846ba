/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The initiator's side of one channel: requests out, responses in, within the request limit. It posts nothing itself: it
 * makes chains of work requests, and is told of completions. Logging in, connection management and the life of the
 * queue pair are the owner's.
 */
#ifndef NVMF_SRP_MACHINE_SRP_INITIATOR_H
#define NVMF_SRP_MACHINE_SRP_INITIATOR_H

#include "pdu/scsi/scsi.h"
#include "pdu/srp/wire/srp.h"
#include "pdu/verbs/verbs.h"

struct srp_initiator;

enum srp_form { /* how a command's memory is described; what cannot be had is SRP_FORM_DIRECT */
                SRP_FORM_DIRECT,
                SRP_FORM_INDIRECT,  /* a table, all of which is in the IU */
                SRP_FORM_EXTERNAL,  /* a table, whose first entry alone is */
                SRP_FORM_IMMEDIATE, /* no memory: data-out is in the IU */
};
enum srp_direction { SRP_NOTHING, SRP_OUT, SRP_IN };
enum { SRP_PIECES_MAX = 64 }; /* entries of a table */

enum srp_outcome { SRP_DONE, SRP_LOST /* its channel is gone: it may have been carried out */ };

struct srp_request_out { /* the caller's, until done() */
        uint8_t cdb[SCSI_CDB_LEN];
        uint64_t lun; /* as scsi_lun_of() */
        uint8_t attr;
        enum srp_direction direction;
        void *data; /* in memory that srp_initiator_ops.keys() knows */
        uint32_t len;
        enum srp_form form;
        unsigned pieces;   /* of a table */
        uint8_t function;  /* not 0: SRP_TSK_MGMT, */
        uint64_t task_tag; /* ... about this one */
        void (*done)(struct srp_request_out *r, void *user);
        void *user;

        uint64_t tag; /* from its submission on */
        enum srp_outcome outcome;
        uint8_t status, response; /* response: of task management */
        bool has_response, has_sense;
        struct scsi_sense sense;
        int64_t out_residual,
            in_residual; /* bytes that were too many for the other side (overflow: negative) */
};

struct srp_initiator_config {
        struct srp_login_req asked;
        struct srp_login_rsp granted;
        unsigned depth;                   /* requests outstanding at most, task management apart */
        uint32_t inline_bytes;            /* of a SEND */
        const struct rule_policy *policy; /* may be NULL */
};

struct srp_initiator_ops {
        /* Registered memory for IUs and tables. NULL: out of memory. It is given back by its owner's end. */
        void *(*memory)(void *user, size_t bytes, uint32_t *lkey, uint32_t *rkey);
        /* The keys of data[0..len); false: it is not registered. */
        bool (*keys)(void *user, const void *data, uint32_t len, uint32_t *rkey);
};

/* Work requests of the queue pair that it needs: sends, receives. */
uint32_t srp_initiator_sends(unsigned depth);
uint32_t srp_initiator_receives(unsigned depth);

/* NULL: out of memory. cfg and ops are copied. */
struct srp_initiator *srp_initiator_new(const struct srp_initiator_config *cfg,
                                        const struct srp_initiator_ops *ops, void *user);
/* The queue pair is gone; srp_initiator_fail_all() came before. */
void srp_initiator_free(struct srp_initiator *i);

/* Nothing is sent before it is taken. -1: the limit is reached, the memory is not known, or the channel is over. */
int srp_initiator_submit(struct srp_initiator *i, struct srp_request_out *r);
/* SRP_I_LOGOUT. */
void srp_initiator_logout(struct srp_initiator *i);

/* Receives to be posted, and work requests; chains. NULL: none. */
struct verbs_wr *srp_initiator_take_recvs(struct srp_initiator *i);
struct verbs_wr *srp_initiator_take(struct srp_initiator *i);
bool srp_initiator_wants_post(const struct srp_initiator *i);
/* One of them has completed. True: the connection has to end. */
bool srp_initiator_completed(struct srp_initiator *i, const struct verbs_wc *wc);
/* The rule that the target broke; RULE_NONE: none. */
enum srp_rule srp_initiator_fault(const struct srp_initiator *i);
/* SRP_T_LOGOUT came. */
bool srp_initiator_is_left(const struct srp_initiator *i, uint32_t *reason);
/* done() of all that is outstanding: SRP_LOST. Nothing more is taken. */
void srp_initiator_fail_all(struct srp_initiator *i);

#endif
