/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host's connection over RDMA, whatever protocol it speaks: an endpoint (pdu/verbs/rdma_ep.h) in a group of its own,
 * so that it may be given to another thread, from the resolution of an address to its end. Begins the family's, which
 * has what is said: the queue pair's size, private data, work requests.
 *
 * What a family has outstanding ends only when nothing can reach its memory any more: on a queue pair that breaks after
 * it is drained, or destroyed where that takes too long.
 */
#ifndef NVMF_HOST_RDMA_H
#define NVMF_HOST_RDMA_H

#include <poll.h>

#include "load.h"
#include "pdu/io/loop.h"
#include "pdu/verbs/rdma_ep.h"
#include "pdu/verbs/rdma_memory.h"

struct host_rdma;

struct host_rdma_ops {
        const char *closed;  /* in errors: "target closed the connection" */
        const char *refused; /* "refused by the target" */
        /* rdma_ep_ops.completed(): the family's work requests. False in any case. */
        bool (*completed)(struct rdma_ep *e, const struct verbs_wc *wc);
        /* No work request reaches memory any more: all that is outstanding is lost. */
        void (*ended)(struct host_rdma *c);
        /* The private data of a rejection, in c->said: true if it says why, and e does then. */
        bool (*rejected)(const struct host_rdma *c, struct host_error *e);
};

struct host_rdma_config {
        const char *traddr, *trsvcid;
        unsigned timeout;             /* ms, until it is established */
        struct verbs_provider *verbs; /* NULL: the devices of this machine */
};

struct host_rdma {
        struct rdma_ep ep; /* first */
        struct rdma_group group;
        struct rdma_memory memory;
        struct load_state *state; /* the family's */
        const struct host_rdma_ops *ops;
        struct rdma_ep_ops ep_ops; /* with the family's completed() */
        struct host_rdma_config cfg;
        char name[24], where[300]; /* in errors: "channel 1"; the peer's address */
        uint64_t deadline;         /* of its opening */
        struct verbs_event said;   /* RESOLVED, ESTABLISHED or what came in place of it */
        bool heard;                /* there is one */
        bool slept;                /* there may be events */
        unsigned polls;
};

/*
 * Opening, in steps. -1: e says why, and host_rdma_disconnect() and host_rdma_close() are to follow, as after all
 * went well; cfg's strings stay as long.
 */
/* Resolves the address: then c->ep.dev and c->memory are there. c is all zeroes but c->name and c->state. */
int host_rdma_resolve(struct host_rdma *c, const struct host_rdma_ops *ops,
                      const struct host_rdma_config *cfg, struct host_error *e);
/* Its queue pair. -1 also where the device supports fewer sends than attr asks for. */
int host_rdma_qp(struct host_rdma *c, const struct verbs_qp_attr *attr, struct host_error *e);
/* Connects, and waits for the answer, which is in c->said then. */
int host_rdma_connect(struct host_rdma *c, const struct verbs_conn_param *p, struct host_error *e);
/* What a family fails with for want of registered memory, or of room for receives, by errno. Always -1. */
int host_rdma_no_memory(const struct host_rdma *c, struct host_error *e);
int host_rdma_no_post(const struct host_rdma *c, struct host_error *e);

/* Posts chains; either may be NULL. Receives first: what is sent may be answered at once. -1 with errno. */
static inline int host_rdma_post(struct host_rdma *c, struct verbs_wr *recvs,
                                 struct verbs_wr *sends)
{
        struct verbs_wr *bad;

        if (recvs && rdma_ep_post_recv(&c->ep, recvs, &bad) < 0)
                return -1;
        return sends ? rdma_ep_post(&c->ep, sends, &bad) : 0;
}

/* First of all in completed(): notes when the batch came. */
static inline void host_rdma_note(struct host_rdma *c)
{
        if (c->group.batch_at == 1)
                c->state->received_at = loop_now_ns();
}

/* Hands out completions and, now and then, events; how many completions there were. -1: it is broken. */
long host_rdma_receive(struct host_rdma *c);
/* As load_ops.fds(): LOAD_FDS at most. */
int host_rdma_fds(struct host_rdma *c, struct pollfd *fds);
/* Sleeps until something comes, at most ms. */
void host_rdma_sleep(struct host_rdma *c, int ms);

/* A completion has failed, for no fault of the peer's own: it breaks, for what the events say, if anything. */
void host_rdma_failed(struct host_rdma *c, const struct verbs_wc *wc);
/* It breaks for this reason, with c->name before it, unless it has already. Always -1. */
int host_rdma_break(struct host_rdma *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Its state has just broken: ended() is called before this returns. */
void host_rdma_abort(struct host_rdma *c);

/* Ends it in order; nothing, where it is broken. ended() has been called then. */
void host_rdma_disconnect(struct host_rdma *c);
/* ... and what it was made of, once the family has freed what lies in its memory. */
void host_rdma_close(struct host_rdma *c);

#endif
