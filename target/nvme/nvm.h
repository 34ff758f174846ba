/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O commands of the NVM command set (NVM Command Set 1.2, chapter 3) on one queue: checked
 * when the capsule comes, executed when the data is there. A command that has to wait for a disk
 * ends later, the queue goes on meanwhile.
 *
 * Fused Compare and Write: the two are tied together as their capsules come and executed as one
 * step when the data of both is there.
 */
#ifndef NVMF_TARGET_NVM_H
#define NVMF_TARGET_NVM_H

#include "pdu/nvme/machine/request.h"
#include "subsystem.h"

struct nvm_queue; /* embedded in the connection; all calls on its reactor */

struct nvm_queue_ops {
        /* r->cqe and r->c2h_len are set: give it back to its machine. */
        void (*done)(struct nvm_queue *q, struct request *r);
        /* From any thread: bring r to nvm_resume() on the queue's own thread. */
        void (*post)(struct nvm_queue *q, struct request *r);
};

struct nvm_queue {
        const struct nvm_queue_ops *ops;
        const struct rule_policy *policy; /* may be NULL */
        bool write_through;               /* every write is durable when it completes */

        /* its own */
        struct request
            *open;        /* the last command was a first fused one: the next must be its second */
        bool open_failed; /* it was one, and has failed already */
        struct request *held; /* fused, executing, wait for the other one */
};

/* What the command transfers, or the status it ends with (with STATUS_DNR where that helps). */
uint16_t nvm_admit(struct nvm_queue *q, const struct subsystem *s, struct request *r);
void nvm_execute(struct nvm_queue *q, const struct subsystem *s, struct request *r);
/* It was posted. */
void nvm_resume(struct nvm_queue *q, struct request *r);
/* request_ops.completing: a fused command may have failed in the transport. */
void nvm_completing(struct nvm_queue *q, struct request *r);
/* The connection is over: held commands end. Those that wait for a disk still come back. */
void nvm_give_up(struct nvm_queue *q);

#endif
