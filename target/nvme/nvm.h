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
#include "target/nvme/ns_resv.h"

enum { /* limits of Copy: source ranges, blocks of one, blocks in all */
       COPY_RANGES = 16,
       COPY_RANGE_BLOCKS = 128,
       COPY_BLOCKS = 256,
       COPY_FORMAT_MAX = 3, /* descriptor formats 0h to 3h */
};

enum { /* of a subsystem that is limited: 2^n pages, and what Dataset Management processes */
       LIMIT_VERIFY = 2,
       LIMIT_ZEROES = 1,
       LIMIT_ZEROES_DEAC = 2,
       LIMIT_UNCORRECTABLE = 1,
       LIMIT_RANGES = 4,
       LIMIT_RANGE = 16, /* blocks */
       LIMIT_BLOCKS = 32,
};

struct nvm_queue; /* embedded in the connection; all calls on its reactor */

struct nvm_queue_ops {
        /* r->cqe and r->c2h_len are set: give it back to its machine. */
        void (*done)(struct nvm_queue *q, struct request *r);
        /* From any thread: bring r to nvm_resume() on the queue's own thread. */
        void (*post)(struct nvm_queue *q, struct request *r);
        /* CNTLID of a controller of that host, of the same subsystem; CNTLID_NOT_ASSOCIATED: none. Any
         * number of times within one command. */
        uint16_t (*cntlid)(void *q, const uint8_t hostid[16]);
        /* A reservation command of this queue has succeeded: hosts are to be told. */
        void (*notify)(struct nvm_queue *q, struct ns *ns, const struct ns_resv_notices *n);
        /* ... and those whose registrations were preempted have their commands aborted. False: there
         * was nothing to wait for; else r is posted when they have ended, its user NULL. */
        bool (*preempt)(struct nvm_queue *q, struct ns *ns, const struct ns_resv_notices *n,
                        struct request *r);
        /* A copy of what came in the capsule, r->len bytes, which is dropped when the command ends; NULL: there is
         * no memory for it. */
        void *(*keep)(struct nvm_queue *q, const struct request *r);
        void (*drop)(struct nvm_queue *q, const struct request *r, void *copy);
        /* The outstanding command of that CID, other than `but`; NULL: there is none. May be NULL. */
        const struct request *(*find)(struct nvm_queue *q, uint16_t cid, const struct request *but);
};

struct nvm_queue {
        const struct nvm_queue_ops *ops;
        const struct rule_policy *policy; /* may be NULL */
        bool write_through;               /* every write is durable when it completes */
        const struct ana_view *ana;       /* of its controller, for nvm_admit(); or NULL */
        uint16_t qid;
        uint8_t hostid[16]; /* whose reservations count */
        uint16_t cntlid;
        const char *hostnqn;   /* whose namespaces; NULL: of nobody who has a name */
        uint16_t copy_formats; /* of Copy, that the host has enabled: bits as in CDFS */
        bool extended; /* so has it the extended formats of protection information: LBAFEE */

        /* its own */
        const struct subsystem *subsystem; /* of the command at hand */
        struct request
            *open;         /* the last command was a first fused one: the next must be its second */
        bool open_failed;  /* it was one, and has failed already */
        unsigned in_place; /* Writes with in-capsule data, counted for FLAW_WRITE_PIPELINED */
        uint8_t *kept;     /* FLAW_WRITE_VOLATILE: the first block that was written, ... */
        uint64_t kept_lba;
        struct torn *torn;    /* FLAW_WRITE_TORN: what is still to be written */
        struct request *held; /* fused, executing, wait for the other one */
};

static inline bool nvm_waives(const struct nvm_queue *q, enum rule_id rule)
{
        return q->policy && rule_in(&q->policy->waived, rule);
}

static inline bool nvm_violates(const struct nvm_queue *q, enum rule_id rule)
{
        return q->policy && rule_in(&q->policy->violated, rule);
}

static inline bool nvm_has_flaw(const struct nvm_queue *q, enum flaw_id flaw)
{
        return flawed(q->policy, flaw);
}

/* What the command transfers, or the status it ends with (with STATUS_DNR where that helps). */
uint16_t nvm_admit(struct nvm_queue *q, const struct subsystem *s, struct request *r);
/* The same of a command that waits: but for its place in a fused operation it is looked at by nvm_admit_again().
 * What it transfers is what its SGL describes, where that is not known. */
uint16_t nvm_admit_later(struct nvm_queue *q, const struct subsystem *s, struct request *r);
/* It waits no longer: 0, or the status it ends with; one that transfers something else than was thought is to be
 * sent again (Namespace Not Ready). */
uint16_t nvm_admit_again(struct nvm_queue *q, const struct subsystem *s, struct request *r);
/* Carries out a command that was admitted, once its data is there: ops->done, now or later. */
void nvm_execute(struct nvm_queue *q, const struct subsystem *s, struct request *r);
/* Whether it executes and does nothing but wait for the other half of a fused operation, which has not begun. */
bool nvm_waits_for_half(const struct request *r);
/* Ends such a command; another one goes on. */
void nvm_end_waiting(struct nvm_queue *q, struct request *r, uint16_t status);
/* ops->done when what the subsystem's namespaces have acknowledged is on stable storage, whatever command
 * r is. Also of those that are not attached any more: the host may have written before. */
void nvm_flush_all(struct nvm_queue *q, const struct subsystem *s, struct request *r);
/* Whether a reservation stands against the command: 0, or NVME_RESERVATION_CONFLICT. */
uint16_t nvm_reservation_check(const struct nvm_queue *q, const struct subsystem *s, struct ns *ns,
                               const struct request *r);
/* The reservation commands (nvm_reservation.c), as nvm_admit() and nvm_execute() ask for them. */
uint16_t nvm_reservation_admit(const struct nvm_queue *q, const struct ns *ns, struct request *r);
void nvm_reservation_execute(struct nvm_queue *q, struct ns *ns, struct request *r);
/* One that has waited for the disk was posted. */
void nvm_reservation_resume(struct nvm_queue *q, struct request *r);
/* Whether the host may use a namespace of this format: 0, or NVME_INVALID_NS. */
uint16_t nvm_format_check(const struct nvm_queue *q, const struct ns *ns);
/* How many of these blocks the namespace has; all of them where it does not have the first. */
uint32_t nvm_within(const struct ns *ns, uint64_t lba, uint32_t blocks);
/* ns_write_with(), in one step unless it is to be torn. */
uint16_t nvm_store(struct nvm_queue *q, struct ns *ns, uint64_t lba, uint32_t count,
                   const uint8_t *data, const struct pi_use *pi);
/* PRINFO and tags as this target takes them. */
struct pi_use nvm_protection(const struct nvm_queue *q, struct pi_use u);
/* Copy (nvm_copy.c), of a namespace of q->subsystem; what its data says is looked at by the latter. */
uint16_t nvm_copy_admit(const struct nvm_queue *q, const struct ns *ns, struct request *r);
uint16_t nvm_copy_run(struct nvm_queue *q, struct ns *ns, struct request *r);
/* It was posted. */
void nvm_resume(struct nvm_queue *q, struct request *r);
/* Whether it was posted since it has slices left: the time for the next one may be short. */
bool nvm_has_slices(const struct request *r);
/* Such a one, instead of nvm_resume(): the connection is over, and what is left of it is not done. */
void nvm_drop_slices(struct request *r);
/* request_ops.completing: a fused command may have failed in the transport. */
void nvm_completing(struct nvm_queue *q, struct request *r);
/* The connection is over: held commands end. Those that wait for a disk still come back. */
void nvm_give_up(struct nvm_queue *q);

#endif
