/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker: one context of a client, which is two queue pairs and the requests that come over them. io_control has the
 * messages, io_data the transfers, so that a result does not wait for the transfers of others. All of it is on the
 * client's reactor.
 */
#ifndef NVMF_TARGET_DOCA_WORKER_H
#define NVMF_TARGET_DOCA_WORKER_H

#include <netinet/in.h>

#include "doca_shared.h"
#include "pdu/doca/machine/flow.h"
#include "pdu/doca/wire/blob.h"
#include "target/engine/rdma.h"

struct doca_conn;
struct doca_worker;

struct doca_ep {
        struct rdma_ep ep; /* first */
        struct doca_worker *worker;
        enum doca_role role;
        bool made; /* it has a queue pair, or, by CM, will have one */
        bool by_cm;
        char addr[INET6_ADDRSTRLEN], port[8]; /* by_cm: of its peer */
        uint8_t data[DOCA_CM_DATA];           /* by_cm: private data */
        uint8_t reads;                        /* by_cm: that the peer answers */
        bool knocks;                          /* the first message of iWARP's active side is due */
        struct verbs_wr knock;
        struct verbs_wr *chain, **chain_last; /* to be posted */
};

struct doca_slot { /* a request, from its receive until its result is sent */
        struct verbs_wr data, send;
        struct ns_wait wait;
        struct doca_worker *worker;
        struct doca_slot *next; /* free, hungry or finished */
        struct doca_io io;
        struct doca_place place;
        uint8_t *message; /* 64 bytes that the device knows */
        uint8_t *buf;     /* of io.size bytes; NULL: none yet */
        uint32_t result;
        bool early;    /* its result goes before its data, on purpose */
        bool answered; /* its result has gone */
};

struct doca_worker {
        struct doca_conn *client;
        unsigned index;
        struct doca_ep ep[DOCA_ROLES];
        struct rdma_device *device; /* NULL: it has no queue pair yet */
        struct recv_chunk *recvs;
        struct verbs_wr *to_post;                  /* of them */
        struct rdma_recv *waiting, **waiting_last; /* no slot was free, or the turn had no time */
        struct turn_part part;                     /* of its client's share of the reactor */
        struct doca_slot *slots, *free, *hungry, **hungry_last;
        struct doca_slot *late; /* whose data follows their result, on purpose */
        uint32_t n_slots;
        uint8_t *messages; /* of the slots */
        uint32_t message_key;
        unsigned in_use; /* slots */
        unsigned away;   /* ... that another thread has */
        unsigned begun;  /* requests, for who leaves out some */
        bool closing;
        struct doca_stats stats;
};

/* Nothing is made yet; w is zero. */
void doca_worker_init(struct doca_worker *w, struct doca_conn *client, unsigned index);
/* The queue pair of a role, joined to the peer's; own: what the peer has to know. NULL; else one line that says why not,
 * which is good until the next call. */
const char *doca_worker_create(struct doca_worker *w, enum doca_role role,
                               const struct doca_end *peer, struct doca_end *own);
/* Both queue pairs are live. */
bool doca_worker_is_ready(const struct doca_worker *w);
/* One of them was, or was to be, and is not any more. */
bool doca_worker_is_lost(const struct doca_worker *w);
/* No request is in hand. */
static inline bool doca_worker_is_idle(const struct doca_worker *w)
{
        return w->in_use == 0 && !w->waiting;
}
/* Its queue pairs end, at once. */
void doca_worker_close(struct doca_worker *w);
/* ... have ended: nothing of it is in anybody else's hands. */
bool doca_worker_is_over(const struct doca_worker *w);
/* What it has of its device goes, before the device can: it is over. */
void doca_worker_dismantle(struct doca_worker *w);
/* Posts what is ready, and takes on what waited. */
void doca_worker_go_on(struct doca_worker *w);
/* Buffers came back; timers. */
void doca_worker_feed(struct doca_worker *w);
void doca_worker_sweep(struct doca_worker *w);
/* target_family.own_init(). */
void doca_reactor_init(struct reactor *r);

#endif
