/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's side of one channel: information units in, READ and WRITE of the initiator's memory, responses out. It
 * posts nothing itself: it makes chains of work requests, and is told of completions. Logging in (login.h),
 * connection management and the life of the queue pair are the owner's; what a command does is, too.
 *
 * A command's way, as traces have it:
 *
 *      new                        it has come, and takes one from the request limit
 *      need buffer                waits for memory
 *      need data                  waits until fewer READs are out than the initiator answers at a time
 *      transferring to target     its table, then its data is READ
 *      wait for its turn          an ordered one has come before it, or it is one (SAM-5 8.6, within the channel)
 *      executing                  the owner has it
 *      need room                  waits until there is room in the send queue
 *      transferring to initiator  WRITEs and SRP_RSP are out
 *      free
 */
#ifndef NVMF_SRP_MACHINE_SRP_TARGET_H
#define NVMF_SRP_MACHINE_SRP_TARGET_H

#include "life.h"
#include "pdu/scsi/scsi.h"
#include "pdu/srp/wire/srp.h"

struct srp_target;

enum srp_step {
        SRP_STEP_FREE,
        SRP_STEP_NEW,
        SRP_STEP_BUFFER,
        SRP_STEP_DATA,
        SRP_STEP_READING,
        SRP_STEP_TURN,
        SRP_STEP_EXECUTING,
        SRP_STEP_ROOM,
        SRP_STEP_ANSWERING,
};
const char *srp_step_name(enum srp_step s); /* "new", "need buffer", ... */

enum srp_tm_response { /* of SRP_RSP to SRP_TSK_MGMT, and of what the transport refuses */
                       SRP_TM_COMPLETE = 0,
                       SRP_TM_INVALID = 2,
                       SRP_TM_NOT_SUPPORTED = 4,
                       SRP_TM_FAILED = 5,
};

enum {
        SRP_TABLE_MAX = 1 << 16, /* bytes of a table of descriptors */
        SRP_IU_OUT = 64,         /* bytes that an IU of the target has at most */
};

struct srp_command {
        uint8_t type; /* SRP_CMD, or SRP_TSK_MGMT: */
        uint8_t function;
        uint64_t task_tag;
        uint8_t attr, sol_not;
        uint64_t tag, lun;
        const uint8_t *cdb; /* of cdb_len bytes, at least 16 */
        unsigned cdb_len;
        uint32_t out_size, in_size; /* bytes that the initiator gives; that it has room for */

        /* By admit(): bytes of data-out that it needs, at most out_size unless it is refused; that it returns at most.
         * Not both. */
        uint32_t out_len, in_max;
        /* Of execute(): out_len bytes, or room for in_max. NULL: neither. */
        uint8_t *data;

        /* The outcome: bytes returned, also more than in_size; of SRP_TSK_MGMT a srp_tm_response. */
        uint32_t in_len;
        uint8_t status, response, sense_len;
        uint8_t sense[SCSI_SENSE_LEN];

        void *
            own; /* the owner's: srp_target_config.own_bytes of it, zero at first, not cleared later */
        void *user;   /* the owner's: NULL when it comes */
        bool aborted; /* no response any more */

        /* The machine's. */
        struct srp_target *of;
        enum srp_step step;
        struct srp_command *next;          /* waits, or is free */
        struct srp_command *later, **link; /* among those that are outstanding */
        struct rdma_recv *rx;
        struct srp_data out, in; /* where its data is, or goes to */
        bool reads_table, awaits;
        uint32_t done; /* bytes of data-out that came */
        uint8_t *buffer, *table;
        uint32_t buffer_len, lkey;
        struct verbs_wr *piece, one, answer, again;
        unsigned pieces, asked, arrived, writes;
        unsigned with_answer; /* work requests that its completion gives back */
        uint8_t *iu, iu_inline[SRP_IU_OUT];
};

struct srp_target_config {
        struct srp_login_req asked;
        struct srp_login_rsp granted;
        uint32_t send_wrs; /* of the queue pair that may be outstanding: 8 or more */
        uint32_t
            reads; /* READs outstanding at most; 0: commands with data-out in the initiator's memory fail */
        uint32_t inline_bytes;            /* of a SEND; IUs go inline where SRP_IU_OUT fit */
        size_t own_bytes;                 /* srp_command.own */
        const struct rule_policy *policy; /* may be NULL */
};

struct srp_target_ops {
        /* Whether the command may begin; sets out_len and in_max. False: it is answered as it is. */
        bool (*admit)(void *user, struct srp_command *c);
        /* To be followed by srp_command_done(), at once or later. */
        void (*execute)(void *user, struct srp_command *c);
        /* Likewise of SRP_TSK_MGMT. */
        void (*manage)(void *user, struct srp_command *c);
        /* Nobody will ask the owner about it any more: it is answered, or given up. Once for each that was admitted, or
         * refused by admit(), and each that was to be managed. */
        void (*ended)(void *user, struct srp_command *c);
        /* As struct conn has them; NULL: later. */
        uint8_t *(*buffer_get)(void *user, uint32_t len, uint32_t *lkey);
        void (*buffer_put)(void *user, uint8_t *buf, uint32_t len);
        /* The receive buffer is no longer needed: post it again. */
        void (*recv_put)(void *user, struct rdma_recv *rx);
        /* Registered memory for all IUs of the channel, until it is freed. Not called where they go inline. NULL: out of
         * memory. */
        void *(*iu_memory)(void *user, uint32_t bytes, uint32_t *lkey);
        void (*iu_memory_put)(void *user, void *memory, uint32_t bytes);
        /* It has made a step; may be NULL. */
        void (*stepped)(void *user, const struct srp_command *c);
        /* What happens to the channel, for srp_watch_tell(); may be NULL. */
        void (*tell)(void *user, enum srp_happening what, int64_t value);
};

/* NULL: out of memory. cfg and ops are copied, user is handed to every op. */
struct srp_target *srp_target_new(const struct srp_target_config *cfg,
                                  const struct srp_target_ops *ops, void *user);
/* No command is executing; the queue pair is drained or was never there. What it holds goes back. */
void srp_target_free(struct srp_target *t);

enum srp_verdict {
        SRP_GOES_ON,
        SRP_LOGGED_OUT, /* by the initiator: the connection is to end */
        SRP_AT_FAULT,   /* it broke srp_target_fault(): likewise */
};
/* A RECV completed well: an IU of rx->bytes bytes. rx goes back through recv_put in any case, sometime. */
enum srp_verdict srp_target_received(struct srp_target *t, struct rdma_recv *rx);
/* The rule that it broke; RULE_NONE: none. */
enum srp_rule srp_target_fault(const struct srp_target *t);

/* Work requests that are ready, as one chain; NULL: none. They are outstanding from here on. After each batch of
 * completions; not from within an op. */
struct verbs_wr *srp_target_take(struct srp_target *t);
/* Whether srp_target_take() has something to do. */
bool srp_target_wants_post(const struct srp_target *t);
/* One of them completed (those not signaled: with error only). True: with an error, the connection has to end. */
bool srp_target_completed(struct srp_target *t, const struct verbs_wc *wc);
/* Data buffers have come back. */
void srp_target_feed(struct srp_target *t);

/* The owner has carried it out: status and the rest are set. */
void srp_command_done(struct srp_command *c);
/* The status is CHECK CONDITION with this sense. */
void srp_command_check(struct srp_command *c, const struct scsi_sense *s);
/* No response is sent any more; READs that are out are waited for. Its credit comes with a later response, or with
 * SRP_CRED_REQ. srp_target_ops.ended() may be called at once. */
void srp_command_abort(struct srp_command *c);
/* The oldest command that is outstanding, and the next one; NULL: there is none. */
struct srp_command *srp_target_first(const struct srp_target *t);
struct srp_command *srp_command_next(const struct srp_command *c);

/* SRP_T_LOGOUT is sent, and nothing after it. */
void srp_target_logout(struct srp_target *t, uint32_t reason);
/* Everything is sent that will be, or can be no more. */
bool srp_target_is_said(const struct srp_target *t);
/* The channel is no longer live: nothing that waits for data is carried out. */
void srp_target_stop(struct srp_target *t);
/* The queue pair is drained, or never came to be: nothing is outstanding any more. What does not execute ends. */
void srp_target_end(struct srp_target *t);
/* How many the owner has. */
unsigned srp_target_executing(const struct srp_target *t);

#endif
