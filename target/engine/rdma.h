/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA on a reactor: a group of endpoints (pdu/verbs/rdma_ep.h) in its loop, with its listeners and
 * devices. All of it is called on the reactor's thread.
 *
 *      rdma.c          what comes, what is posted, when the reactor may sleep
 *      rdma_device.c   what connections of one device share: receives and registered memory
 */
#ifndef NVMF_TARGET_RDMA_H
#define NVMF_TARGET_RDMA_H

#include "pdu/io/verbs/rdma_wait.h"
#include "pdu/verbs/rdma_ep.h"
#include "pool.h"
#include "quota.h"
#include "regmem.h"

struct reactor;
struct rdma;

struct rdma_listener {
        struct verbs_listener *verbs; /* NULL: its device is gone, it is tried again */
        struct rdma *rdma;
        const char *traddr, *trsvcid; /* where */
        bool accepting;               /* else connect requests are rejected */
        void (*request)(struct rdma_listener *l, const struct verbs_event *e); /* takes e->ep */
        struct rdma_listener *next;
};

/* Receives that were made together. */
struct recv_chunk {
        struct recv_chunk *next;
        void *memory;
        size_t bytes;
        struct verbs_mr mr;
        unsigned count, n_spares;
        struct verbs_wr *spares; /* not posted: kept for when more are wanted */
        struct rdma_recv recv[];
};

/* A device as this reactor uses it; its dev->user. */
struct rdma_device {
        struct rdma_dev *dev;
        struct rdma *rdma;
        struct regmem memory;
        struct pool pool;                         /* data buffers, from it */
        uint32_t srq_wrs;                         /* 0: it has no SRQ */
        uint32_t receives, wanted;                /* on the SRQ's way; by its queues */
        struct recv_chunk *chunks;                /* of the SRQ */
        struct verbs_wr *to_post, **to_post_last; /* receives for the SRQ */
};

struct rdma {
        struct rdma_group group; /* first */
        struct reactor *reactor;
        struct rdma_loop loop;
        bool rung;             /* there may be events */
        bool armed;            /* completions will ring */
        unsigned patience;     /* looks for completions before sleeping */
        uint64_t hits, misses; /* polls that found completions, and that found none */
        struct rdma_listener *listeners;
};

/* NULL with errno. */
struct rdma *rdma_start(struct reactor *r, struct verbs_provider *p);
/* No connection or listener is left. */
void rdma_stop(struct rdma *m);

/* Listens where its port says; -1 with errno. */
int rdma_port_listen(struct rdma *m, struct rdma_listener *l);
void rdma_port_unlisten(struct rdma_listener *l);

/* Handles what has come; how much that was. */
unsigned rdma_work(struct rdma *m);
/* How long the reactor may sleep, of `timeout` ms. May do some work instead. */
int rdma_wait(struct rdma *m, int timeout);
/* Who asks for a connection: the address and port of the other end. */
struct conn_peer rdma_peer(const struct verbs_ep *ep);
/* Now and then. */
void rdma_sweep(struct rdma *m);

/* --- a device's, for its connections ---------------------------------------------------------- */

/* What this reactor has of a device; NULL with errno. */
struct rdma_device *rdma_device_of(struct rdma *m, struct rdma_dev *dev);
/* Now and then: a device that nobody uses gives memory back. */
void rdma_device_trim(struct rdma_device *d);
/* With its memory; see rdma_group_ops. */
void rdma_device_free(struct rdma_dev *dev);

/* So many receives more in the SRQ, for one more queue. -1 with errno: there is no room. */
int rdma_device_reserve(struct rdma_device *d, uint32_t receives);
void rdma_device_unreserve(struct rdma_device *d, uint32_t receives);
/* How many receives the SRQ has not promised to anybody. */
uint32_t rdma_device_receives_left(const struct rdma_device *d);

/* Without SRQ: receives of one queue; NULL with errno. */
struct recv_chunk *rdma_device_chunk(struct rdma_device *d, unsigned count);
void rdma_device_drop_chunk(struct rdma_device *d, struct recv_chunk *chunk);
/* The SRQ has given it, it is not needed any more. */
void rdma_device_recv_put(struct rdma_device *d, struct rdma_recv *rx);
/* Posts those that were put. */
void rdma_device_post(struct rdma_device *d);

#endif
