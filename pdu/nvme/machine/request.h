/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A command as a controller handles it, whatever transport it came by: one life cycle, whose few
 * operations of the transport (tcp_controller.c, rdma_controller.c) are a table. What the command
 * means is the owner's business: it admits it, executes it, completes it.
 */
#ifndef NVMF_MACHINE_REQUEST_H
#define NVMF_MACHINE_REQUEST_H

#include "pdu/nvme/wire/nvme.h"
#include "pdu/nvme/wire/rules.h"

enum request_state {
        REQUEST_FREE,
        REQUEST_NEW,              /* capsule received */
        REQUEST_DEFERRED,         /* waits until its owner starts it */
        REQUEST_NEED_BUFFER,      /* waits for a data buffer */
        REQUEST_H2C_PENDING,      /* RDMA: READs wait for room on the queue pair */
        REQUEST_TRANSFERRING_H2C, /* R2T sent, READs posted, or in-capsule data still arriving */
        REQUEST_READY_TO_EXECUTE,
        REQUEST_EXECUTING,
        REQUEST_EXECUTED,
        REQUEST_C2H_PENDING,        /* RDMA: WRITEs wait for room on the queue pair */
        REQUEST_COMPLETION_PENDING, /* RDMA: the response waits for room */
        REQUEST_READY_TO_COMPLETE,  /* RDMA: response made, to be posted with the next chain */
        REQUEST_TRANSFERRING_C2H,
        REQUEST_COMPLETING, /* response on its way out */
        REQUEST_COMPLETED,
};
const char *request_state_name(enum request_state s); /* "ready to execute", ... */

struct requests;
struct spoil;
struct spoil_response;
struct spoil_transfer;
struct tx;

struct request {
        union sqe sqe;
        struct cqe cqe; /* filled in by the owner: dw0, dw1, status, SQHD; CID is ours */
        enum request_state state;
        enum nvme_xfer xfer; /* set by admit() */
        uint32_t len;        /* bytes that the command transfers; set by admit() */
        uint32_t c2h_len;    /* bytes to send; set by the owner before completing, <= len */
        uint8_t *data;       /* host's data, or room for the controller's; NULL if none */
        bool in_place;       /* data lies in the receive buffer: valid only within execute() */
        bool success_ok;  /* set by the owner: C2HData may carry SUCCESS in place of a response */
        bool no_response; /* set by the owner before completing: the command just ends, as an AER
                           * does at a Controller Reset (Base 2.2 3.7.2) */
        void *owner;      /* who was given as user when the machine was made */
        void *user;       /* the owner's */
        uint64_t since;   /* the owner's */
        uint64_t began;   /* the owner's */
        bool preempted;   /* the owner's */
        bool held;        /* the owner's */
        bool deferred;    /* set by admit(): it waits until request_start() */
        bool lax;         /* set by admit(): its SGL may describe less than len */
        uint64_t faults;  /* the owner's; 0 as the command comes */
        void *times;      /* the owner's */
        struct request *next; /* in whichever list it is; the owner may use it while EXECUTING */

        /* The machine's. */
        struct requests *queue;
        bool outstanding;     /* what the host sends for its CID finds it */
        bool withdrawn;       /* completed by the owner while its data was arriving */
        uint8_t *buffer;      /* got from the owner */
        uint32_t buffer_len;  /* bytes; 0: none */
        uint32_t buffer_lkey; /* RDMA */
        uint32_t wire_len;    /* bytes that move: len, or what a short SGL has room for */
};

/* --- the owner's ------------------------------------------------------------------------------ */

/* What a machine asks of its owner. */
struct request_ops {
        /*
         * A capsule came: say what the command transfers (r->xfer, r->len). Non-zero (SCT << 8 |
         * SC, STATUS_DNR may be or'ed): the command ends with it, without data. r->sqe is all there
         * is. Called once for every command, also for those that fail in the transport afterwards.
         */
        uint16_t (*admit)(void *user, struct request *r);
        /* Data is there (or room for it). Must end, now or later, in request_complete(). */
        void (*execute)(void *user, struct request *r);
        /* It has been admitted and is deferred: data that is in_place is valid only within this, what r->data
         * points to is the owner's to keep. Must end, now or later, in request_start(), or as one that has not
         * come to EXECUTING does. May be NULL if nothing is. */
        void (*defer)(void *user, struct request *r);
        /* A data buffer of len bytes, NULL: none now, ask again at requests_buffers(). lkey: out,
         * the key of registered memory (RDMA). */
        uint8_t *(*buffer_get)(void *user, uint32_t len, uint32_t *lkey);
        void (*buffer_put)(void *user, uint8_t *buf, uint32_t len);
        /* The command ends, whoever ended it, and its data and response are about to leave, unless
         * there is no_response: the place to set that. May be NULL. */
        void (*completing)(void *user, struct request *r);
        /* Its response (or SUCCESS, or no_response) takes its place among what leaves, which others
         * may have done since it ended: what SQHD is from now on (struct sq). Once for each command
         * that ends. May be NULL: cqe.sqhd is as it was set before. */
        uint16_t (*sqhd)(void *user, const struct request *r);
        /* Each change of state; may be NULL. */
        void (*trace)(void *user, const struct request *r);
        /* Faults in single messages, beside the policy's; NULL: there are none. */
        const struct request_faults *faults;
};

/* What an owner who has faults of his own is asked while a queue has requests.faulty. */
struct request_faults {
        /* The host's data is about to be asked for. True: not now, request_fetch() comes, or the end. */
        bool (*hold)(void *user, struct request *r);
        /* SQHD of the response is known. */
        void (*head)(void *user, struct request *r);
        /* Over TCP: a PDU is laid out and about to be queued, r NULL: it belongs to no command. */
        void (*pdu)(void *user, struct request *r, struct spoil *s, struct tx *tx);
        /* Over RDMA: a response, a READ or WRITE that is about to be chained. */
        void (*response)(void *user, struct request *r, struct spoil_response *s);
        void (*transfer)(void *user, struct request *r, struct spoil_transfer *s);
};

/*
 * The owner is done with an EXECUTING request: r->cqe and r->c2h_len are set. It may also end one
 * that has not come so far (Abort): its data that is still on its way (R2Ts that are open, READs that
 * are out) is waited for or dropped. One whose answer is on its way already is past all that, and
 * nothing happens.
 */
void request_complete(struct request *r);
/* One that is DEFERRED goes on; in_place data is where r->data points to now, until this returns. */
void request_start(struct request *r);
/* It ends with this status instead, without data. */
void request_fail(struct request *r, uint16_t status);
/* One that request_faults.hold has held, and that has not ended since. */
void request_fetch(struct request *r);
/*
 * A Controller Reset (Base 2.2 3.7.2), by a command of this queue that is EXECUTING: all others but
 * Fabrics commands end without an answer, and their CIDs are the host's again. The owner goes on with those
 * that are EXECUTING as well, and completes them; an answer that is on its way stays there.
 */
void requests_reset(struct requests *q);
unsigned requests_executing(const struct requests *q);
/* Buffers may be had again: requests in REQUEST_NEED_BUFFER try once more, in order. Not to be
 * called from within an op. */
void requests_buffers(struct requests *q);
bool requests_need_buffers(const struct requests *q);
/* Connect succeeded: queue size in entries. Requests for the first of them are allocated, the
 * others when they are needed for the first time; -1: out of memory. Before it there are a few for
 * Connect itself. */
int requests_set_depth(struct requests *q, unsigned entries);
/* The outstanding request with this CID, for Abort; NULL if there is none. */
struct request *requests_find(const struct requests *q, uint16_t cid);

/* --- the transport's -------------------------------------------------------------------------- */

/* What differs from transport to transport. "Ends": request_release_cid() has come, or comes. */
struct request_transport {
        size_t size;          /* bytes of its requests, that begin with struct request */
        uint32_t granularity; /* bytes: those of buffers are a multiple */
        /* Nothing is sent any more. */
        bool (*gone)(const struct requests *q);
        /* n more requests have been made, `size` apart and zero but for queue and owner; false: they
         * can't be used, or memory has run out. May be NULL. */
        bool (*grown)(struct requests *q, struct request *first, unsigned n);
        /* A command came in it: its CID finds it from now on. */
        void (*begin)(struct request *r);
        struct request *(*find)(const struct requests *q, uint16_t cid);
        /* Its CID is the host's again. Once for each request that has begun. */
        void (*forget)(struct request *r);
        /* Where the data of a command (xfer and len are set) lies: sets wire_len and, where it is in
         * the capsule, data and in_place. Non-zero: the status that it ends with. */
        uint16_t (*place)(struct request *r);
        /* Brings the host's data into the buffer; then, at once or later, request_arrived(). */
        void (*fetch)(struct request *r);
        /* cqe and c2h_len are what the host is to get. Applies violators to them; false: it gets no
         * answer. Called where there are any. */
        bool (*spoil)(struct request *r);
        /* Sends data (c2h_len bytes) and response; then request_release(). */
        void (*answer)(struct request *r);
        /* Takes one that does not execute out of where it waits. False: it can't be ended; if it has
         * not executed, request_arrived() comes as soon as what is on its way has arrived. */
        bool (*withdraw)(struct request *r);
        /* It ends without an answer; true: not before something of it has left, and then with
         * request_release(). May be NULL. */
        bool (*lingers)(const struct request *r);
        /* SQHD of its response is known. May be NULL. */
        void (*sqhd)(struct request *r);
};

/* First come, first served. */
struct request_list {
        struct request *first, **last;
};
/* Linked by request.next: a request is in one list at a time. Added at the end. */
void request_list_init(struct request_list *l);
void request_list_add(struct request_list *l, struct request *r);
/* One that is not in it stays where it is. */
void request_list_remove(struct request_list *l, struct request *r);

/* The requests of one queue: the transport's machine begins with it. They come a slab at a time, as
 * the queue fills up for the first time: most connections never do. */
struct requests {
        const struct request_transport *transport;
        struct request_ops ops;
        void *user;
        const struct rule_set *waived, *violated; /* NULL: none */
        bool faulty;                              /* ops.faults are asked */
        bool long_writes;                         /* FLAW_MDTS_WRITE */
        uint32_t max_transfer; /* bytes (MDTS): longer ones end with Invalid Field in Command */
        unsigned depth;        /* entries; 0: not known yet */
        unsigned extra;        /* requests that there may be beyond the entries */
        unsigned count;        /* there are */
        unsigned executing;
        struct request *free;
        struct request_slab *slabs;
        struct request_list need_buffer;
};

/* Of a struct that is zero but for max_transfer, depth and extra. ops are copied, policy may be NULL.
 * -1: out of memory, and requests_fini() is due all the same. */
int requests_init(struct requests *q, const struct request_transport *t,
                  const struct request_ops *ops, void *user, const struct rule_policy *policy);
/* Another policy from here on, which outlives it; NULL: none. */
void requests_set_policy(struct requests *q, const struct rule_policy *policy);
/* Whether its owner's faults are asked from here on. */
void requests_set_faulty(struct requests *q, bool faulty);
/* ops.trace from here on; NULL: none. */
void requests_set_trace(struct requests *q, void (*trace)(void *user, const struct request *r));
/* None may be EXECUTING; buffers go back. */
void requests_fini(struct requests *q);
/* With each request, free or not. */
void requests_each(const struct requests *q, void (*fn)(struct request *r));

/* A request for the next command is free. False: it has to wait, until another one ends. */
bool requests_available(struct requests *q);
/* A command came, and a request for it is free. broken: the status that it ends with, if the owner
 * admits it, for what the transport found in its data; 0: nothing. */
void requests_take(struct requests *q, const union sqe *sqe, uint16_t broken);

/* The host's data is there: it executes, or ends if it was withdrawn meanwhile. */
void request_arrived(struct request *r);
/* The response takes its place among what leaves: cqe.sqhd is set. */
void request_set_sqhd(struct request *r);
/* The CID is the host's again; nothing if it is already. */
void request_release_cid(struct request *r);
/* All is out, or nobody waits for it. */
void request_release(struct request *r);

static inline void request_enter(struct request *r, enum request_state s)
{
        r->state = s;
        if (r->queue->ops.trace)
                r->queue->ops.trace(r->queue->user, r);
}

/* Waits in the list, in that state. */
static inline void request_wait(struct request *r, struct request_list *l, enum request_state s)
{
        request_enter(r, s);
        request_list_add(l, r);
}

#endif
