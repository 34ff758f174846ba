/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RDMA endpoint: a queue pair with its CM id, from the resolution of an address to its end. Who
 * has a protocol to speak over RDMA (host, target, suite, replay, fuzzer) builds on it, and on
 * nothing below it but struct verbs_wr and registered memory.
 *
 *      group       a context of verbs and one thread: polls the completion queues of its devices,
 *                  takes events, hands both to the endpoints they are for
 *      device      what the endpoints of one device share: domain, completion queue, capabilities
 *      endpoint    resolve or take a connect request, make the queue pair, post receives, connect or
 *                  accept, post; its life goes by the one table of rdma_life.h. Without connection
 *                  manager: local address, queue pair, numbers, join
 *
 * By itself an endpoint tries a resolution several times, holds completed receives back until it is
 * live, answers a DREQ, drains its queue pair before it is dead: waits for sentinels, and with an SRQ
 * for LAST_WQE where the device says it, lest receives that it took are lost. By hand, as the suite and the
 * fuzzer need it, each of these can be left out: op event() keeps an event from the life, op
 * completed() a failure; rdma_ep_disconnect() and rdma_ep_fail() do one thing and leave the life
 * alone; private data and receives are the owner's anyway, and rdma_ep_destroy() is allowed in
 * every state.
 *
 * No clock is read but the owner's, no call waits but as verbs.h says. Sleeping until something
 * comes, and descriptors in an event loop: pdu/io/verbs/rdma_wait.h.
 */
#ifndef NVMF_VERBS_RDMA_EP_H
#define NVMF_VERBS_RDMA_EP_H

#include "rdma_life.h"

struct rdma_ep;
struct rdma_group;

enum { RDMA_BATCH = 64, RDMA_RESOLVE_MS = 200 };

/* A device as a group uses it; from its first endpoint on until the group is closed, or until the
 * device was removed and its last endpoint is destroyed. */
struct rdma_dev {
        struct rdma_dev *next;
        struct verbs_domain *domain;
        const struct verbs_caps *caps;
        uint32_t cqes, cq_size; /* reserved; that the completion queue has */
        unsigned eps;           /* endpoints that use it */
        bool gone;              /* removed */
        void *user;             /* the owner's, see dev_free() */
};

/* What the owner of a group does; each may be NULL. */
struct rdma_group_ops {
        /* A connect request: v->ep is for rdma_ep_take() or rdma_ep_refuse(). NULL: it is refused. */
        void (*request)(struct rdma_group *g, const struct verbs_event *v);
        /* The device of this listener is gone: it is to be closed. */
        void (*listener_lost)(struct rdma_group *g, struct verbs_listener *l);
        /* The device goes; its domain is still good for what is registered there, unless NULL. */
        void (*dev_free)(struct rdma_dev *d);
        /* A receive of the device's SRQ, for an endpoint that is destroyed. */
        void (*orphan)(struct rdma_dev *d, struct verbs_wr *recv);
};

struct rdma_group {
        struct verbs_context *context;
        const struct rdma_group_ops *ops;
        uint64_t (*now)(void); /* ms, of any steady clock */
        struct rdma_dev *devs;
        struct rdma_ep *touched;           /* had completions: settle() follows */
        struct rdma_ep *drained;           /* all flushed; DRAINED when the queue is seen empty */
        struct verbs_wc batch[RDMA_BATCH]; /* in hand */
        struct rdma_dev *batch_dev;        /* whose it is */
        unsigned batch_at, batch_count;
};

/* What the owner of an endpoint does; each may be NULL but completed(). No op may destroy the
 * endpoint but settle() and end(). */
struct rdma_ep_ops {
        /* A CM or device event of it, before its life moves on; RESOLVED, and UNREACHABLE once the
         * time for a resolution is over. False: the life is not told. */
        bool (*event)(struct rdma_ep *e, const struct verbs_event *v);
        /*
         * A completion, not of a sentinel. True: it ends the connection (LIFE_FAILED). A receive
         * that succeeded comes as VERBS_SUCCESS only while the endpoint is live, before that it
         * waits, and later it comes as VERBS_FLUSHED, to be given back: this return value is
         * ignored then.
         */
        bool (*completed)(struct rdma_ep *e, const struct verbs_wc *wc);
        /* Its life has moved to life.state; the actions follow. */
        void (*moved)(struct rdma_ep *e, enum life_event why);
        /* LIFE_DO_END: no work request reaches memory any more. It is drained, or, where that took too
         * long, its queue pair is destroyed. */
        void (*end)(struct rdma_ep *e);
        /* After an event, and after a batch of completions; may post, destroy and free it. */
        void (*settle)(struct rdma_ep *e);
};

struct rdma_ep {
        struct rdma_group *group;
        const struct rdma_ep_ops *ops;
        struct rdma_dev *dev; /* NULL: not resolved */
        struct verbs_ep *ep;  /* NULL: destroyed, or not begun */
        struct rdma_life life;
        uint64_t since;       /* ms: in this state of life */
        unsigned unfinished;  /* signaled work requests that are posted, receives not counted */
        uint32_t cqes;        /* reserved */
        bool srq;             /* receives come from the device's SRQ */
        bool awaits_last_wqe; /* drained is it only after that event */
        bool last_wqe;        /* it came */

        const char *traddr, *trsvcid; /* of the resolution */
        unsigned try_ms;
        uint64_t give_up;                   /* ms */
        struct verbs_wr *held, **held_last; /* receives that came before it was live */
        bool touched, drained;              /* in the list of that name */
        struct rdma_ep *next_touched, *next_drained;
};

/* --- groups ------------------------------------------------------------------------------------ */

/* 0; -1 with errno. ops may be NULL; it outlives the group. */
int rdma_group_open(struct rdma_group *g, struct verbs_provider *p,
                    const struct rdma_group_ops *ops, uint64_t (*now)(void));
/* Endpoints and listeners are destroyed. dev_free() is called with domain NULL: registrations are
 * gone with it. A group that was not opened (all zeroes) is left alone. */
void rdma_group_close(struct rdma_group *g);

/* Takes events, `max` at most; how many. */
unsigned rdma_group_events(struct rdma_group *g, unsigned max);
/*
 * Hands out completions of each device, `batches` of up to RDMA_BATCH at most; or, where all queues
 * are empty, tells one endpoint that it is drained. How much that was; 0: nothing is left to do. May
 * be called from within an op of an endpoint without settle(): what the outer call has in hand is
 * handed out first.
 */
unsigned rdma_group_poll(struct rdma_group *g, unsigned batches);

/* Room in the device's completion queue for so many more; -1 with errno: there is none. */
int rdma_dev_reserve(struct rdma_dev *d, uint32_t cqes);
void rdma_dev_unreserve(struct rdma_dev *d, uint32_t cqes);

/* --- endpoints --------------------------------------------------------------------------------- */

/* Not connected, and nothing to be freed yet. g and ops must outlive it. */
void rdma_ep_init(struct rdma_ep *e, struct rdma_group *g, const struct rdma_ep_ops *ops);
/*
 * Starts to resolve an address and the route there, for at most `ms`: op event() has the outcome,
 * RESOLVED (dev is set), or UNREACHABLE with the errno or the CM's reason. Several short tries, from
 * RDMA_RESOLVE_MS on, each twice as long: an answer to ARP that comes at once is missed by Linux
 * (6.12), and found only when the time of the try is over. The strings stay until then. -1 with
 * errno.
 */
int rdma_ep_resolve(struct rdma_ep *e, const char *traddr, const char *trsvcid, unsigned ms);
/* Takes a connect request, which stays the owner's where that fails: -1 with errno. */
int rdma_ep_take(struct rdma_ep *e, struct verbs_ep *ep);
/*
 * Makes the queue pair, with room for the sentinels beyond what attr asks for, and reserves its
 * completions. attr becomes what the device gives: no more work requests than it has, no more inline
 * bytes. recv_wrs 0: the SRQ's. -1 with errno.
 */
int rdma_ep_qp(struct rdma_ep *e, struct verbs_qp_attr *attr);
static inline int rdma_ep_connect(struct rdma_ep *e, const struct verbs_conn_param *p)
{
        return verbs_connect(e->ep, p);
}
static inline int rdma_ep_accept(struct rdma_ep *e, const struct verbs_conn_param *p)
{
        return verbs_accept(e->ep, p);
}
/*
 * In place of a resolution or a request: at the local device of this address (dev is set), to be joined
 * by numbers (verbs.h); nothing is to be waited for. Life begins with the join: ESTABLISHED comes. It
 * ends as any other, but that nobody answers, or tells that the peer has gone: LIFE_CLOSE is over at
 * once. -1 with errno: ENOTSUP with iWARP.
 */
int rdma_ep_local(struct rdma_ep *e, const char *traddr);
/* After rdma_ep_qp(). */
static inline int rdma_ep_numbers(const struct rdma_ep *e, struct verbs_numbers *own)
{
        return verbs_numbers(e->ep, own);
}
static inline int rdma_ep_join(struct rdma_ep *e, const struct verbs_numbers *peer,
                               const struct verbs_conn_param *p)
{
        return verbs_join(e->ep, peer, p);
}
/* Rejects a connect request with private data, and destroys it; an endpoint that took it has to
 * rdma_ep_disown() it then. */
void rdma_ep_refuse(struct verbs_ep *ep, const void *data, uint8_t len);
static inline void rdma_ep_disown(struct rdma_ep *e)
{
        e->ep = NULL;
}

/* Posts a chain on the send queue. -1 with errno: what begins with *bad is not posted, but counted as
 * unfinished until rdma_ep_flushed(). */
int rdma_ep_post(struct rdma_ep *e, struct verbs_wr *chain, struct verbs_wr **bad);
/* What could not be posted is as good as flushed: completed() for each. */
void rdma_ep_flushed(struct rdma_ep *e, struct verbs_wr *bad);
static inline int rdma_ep_post_recv(struct rdma_ep *e, struct verbs_wr *chain,
                                    struct verbs_wr **bad)
{
        return verbs_post_recv(e->ep, chain, bad);
}

/* Something happens to its life, such as LIFE_CLOSE or LIFE_ABORT: the actions of rdma_life.h are
 * done but the last, which is rdma_ep_release(). Nothing, where it is released. */
void rdma_ep_step(struct rdma_ep *e, enum life_event why);
/* It has been in this state of life for so many ms. */
static inline bool rdma_ep_is_older(const struct rdma_ep *e, unsigned ms)
{
        return e->group->now() - e->since >= ms;
}
/* LIFE_LATE, if it has been closing, or draining, for so many ms. */
void rdma_ep_expire(struct rdma_ep *e, unsigned closing, unsigned draining);
/* No command executes any more. True: it was dead and is released now, the owner destroys it. */
bool rdma_ep_release(struct rdma_ep *e);

/* By hand: DREQ, or the answer to one; the queue pair fails, and nothing is told to anybody. The
 * life stays as it is. 0; -1 with errno, also where it is destroyed. */
int rdma_ep_disconnect(struct rdma_ep *e);
int rdma_ep_fail(struct rdma_ep *e);

/* Whatever it was doing: no event or completion of it comes any more. What is posted is still
 * there; windows that are bound on it are dropped before that, or rxe waits for them. */
void rdma_ep_destroy(struct rdma_ep *e);

#endif
