/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A command as a controller handles it, whatever transport it came by. The transport's machine
 * (tcp_controller.h, rdma_controller.h) walks it down the states below, past those that it does not
 * need; what the command means is the owner's business: it admits it, executes it, completes it.
 */
#ifndef NVMF_MACHINE_REQUEST_H
#define NVMF_MACHINE_REQUEST_H

#include "pdu/nvme/wire/nvme.h"

enum request_state {
        REQUEST_FREE,
        REQUEST_NEW,              /* capsule received */
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
        struct request *next; /* in whichever list it is; the owner may use it while EXECUTING */
};

/* First come, first served. */
struct request_list {
        struct request *first, **last;
};
void request_list_init(struct request_list *l);
void request_list_add(struct request_list *l, struct request *r);
/* One that is not in it stays where it is. */
void request_list_remove(struct request_list *l, struct request *r);

/* The requests of one machine. They come a slab at a time, as the queue fills up for the first time:
 * most connections never do. */
struct request_pool {
        size_t size; /* bytes of one: the machine's own struct, that begins with struct request */
        void *owner; /* of each */
        unsigned count; /* there are */
        struct request *free;
        struct request_slab *slabs;
};
/* n more; the one returned is the first of them, all of them lie `size` apart and are zero but for
 * their owner. NULL without memory. */
struct request *request_pool_grow(struct request_pool *p, unsigned n);
/* With each request, free or not. */
void request_pool_each(const struct request_pool *p, void (*fn)(struct request *r));
void request_pool_free(struct request_pool *p);

/* A free one (there has to be one) for a command that came. */
static inline struct request *request_pool_take(struct request_pool *p, const union sqe *sqe)
{
        struct request *r = p->free;

        p->free = r->next;
        r->sqe = *sqe;
        r->cqe = (struct cqe) { .cid = sqe->cid };
        r->xfer = XFER_NONE;
        r->len = r->c2h_len = 0;
        r->data = NULL;
        r->in_place = r->success_ok = r->no_response = false;
        r->user = NULL;
        return r;
}

static inline void request_pool_put(struct request_pool *p, struct request *r)
{
        r->state = REQUEST_FREE;
        r->next = p->free;
        p->free = r;
}

/* Of a completed one: its CID, and c2h_len no more than may move; 0 where nothing does. */
static inline void request_seal(struct request *r, uint32_t max)
{
        r->cqe.cid = r->sqe.cid;
        if (r->xfer != XFER_C2H || !r->data || cqe_status(&r->cqe))
                r->c2h_len = 0;
        if (r->c2h_len > max)
                r->c2h_len = max;
}

/* What a machine asks of its owner. */
struct request_ops {
        /*
         * A capsule came: say what the command transfers (r->xfer, r->len). Non-zero (SCT << 8 |
         * SC, STATUS_DNR may be or'ed): the command ends with it, without data. r->sqe is all there
         * is. Called once for every command, also for those that fail in the transport afterwards.
         */
        uint16_t (*admit)(void *user, struct request *r);
        /* Data is there (or room for it). Must end, now or later, in *_controller_complete(). */
        void (*execute)(void *user, struct request *r);
        /* A data buffer of len bytes, NULL: none now, ask again at *_controller_buffers(). lkey: out,
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
};

#endif
