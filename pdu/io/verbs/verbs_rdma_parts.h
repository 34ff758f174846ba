/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the provider over librdmacm: what its parts know of each other.
 *
 *      verbs_rdma.c          the provider: built in or not
 *      verbs_rdma_cm.c       contexts, listeners, endpoints
 *      verbs_rdma_event.c    what happens to them: connection events, notes
 *      verbs_rdma_device.c   devices, domains, registrations, asynchronous device events
 *      verbs_rdma_qp.c       queue pairs, work requests, completions
 *      verbs_rdma_join.c     queue pairs without the connection manager
 *
 * A context's objects belong to its thread. Shared between threads are only the devices, under
 * their lock, and the notes of a context, under the context's.
 */
#ifndef NVMF_IO_VERBS_RDMA_PARTS_H
#define NVMF_IO_VERBS_RDMA_PARTS_H

#define verbs_context ibv_verbs_context /* libibverbs has a structure of that name, too */
#include <infiniband/verbs.h>
#undef verbs_context
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include "pdu/verbs/verbs.h"

extern const struct verbs verbs_rdma_ops;

/* What a CM id's context points to begins so. */
enum cm_kind { CM_LISTENER, CM_EP, CM_GUARD };
struct cm_owner {
        const struct verbs *ops; /* see struct verbs_object */
        enum cm_kind kind;
};

/* Asynchronous events are read by whichever thread comes first; it leaves a note with the context
 * whose endpoint or domain it is about. One bit for each kind: no memory, none gets lost. */
enum note_bits {
        NOTE_LAST_WQE = 1,
        NOTE_QP_ERROR = 2,
        NOTE_REMOVED = 4,
        NOTE_PORT_DOWN = 8,
        NOTE_PORT_UP = 16,
        NOTE_CQ_ERROR = 32,
        NOTE_JOINED = 64, /* of verbs_rdma_join.c, as the next */
        NOTE_PARTED = 128,
};
struct note {
        struct note *next;
        struct verbs_ep *ep; /* or */
        struct verbs_domain *domain;
        unsigned bits;
        bool listed;
};

struct verbs_context {
        const struct verbs *ops;
        struct rdma_event_channel *channel;
        int events;           /* epoll: the channel, the bell, the devices' async descriptors */
        int completions;      /* epoll: the completion channels, the flush bell */
        int bell, flush_bell; /* eventfd: notes are there; flushed completions are there */
        bool cm_ready;        /* the channel may have an event */
        bool rang;            /* the flush bell */
        pthread_mutex_t lock; /* of the notes */
        struct note *notes;   /* oldest first */
        struct note **last_note;
        struct verbs_domain *domains;
};

struct verbs_listener {
        struct cm_owner owner;
        struct verbs_context *context;
        struct rdma_cm_id *id;
};

struct verbs_ep {
        struct cm_owner owner;
        struct verbs_context *context;
        struct rdma_cm_id *id;
        struct verbs_domain *domain;
        void *user;
        int timeout_ms;             /* of resolving */
        bool local, joined;         /* its id is bound to its address, and does no more */
        uint32_t psn;               /* local: of its first packet */
        struct sockaddr_in6 peer;   /* joined; or in its place a sockaddr_in */
        bool srq;                   /* receives come from the domain's */
        bool failed;                /* verbs_fail() was called */
        bool disconnected, removed; /* the event was given */
        struct note note;
        struct verbs_ep *same_hash;
        struct verbs_ep *next, **link; /* in its domain */
};

/* A device that is open, for all contexts. */
struct device {
        struct device *next;
        struct ibv_context *verbs;
        struct verbs_domain *domains; /* by other_context */
        struct ibv_cq *spacer;        /* siw, see keep_off() */
};

struct registration { /* verbs_mr.own, verbs_window.own */
        struct registration *next, **link;
        struct ibv_mr *mr; /* or */
        struct ibv_mw *mw; /* neither: the device is gone */
};

/* What becomes of a work request posted to a queue pair that has failed. */
enum flushing {
        FLUSH_ALWAYS,
        FLUSH_KICKED, /* rxe: a RECV is looked at when the queue pair is told again to fail */
        FLUSH_NEVER,  /* siw: none is looked at any more */
};

enum { QP_BUCKETS = 1024 };

struct verbs_domain {
        struct cm_owner owner;
        struct verbs_context *context;
        struct verbs_domain *next, *other_context;
        struct device *device;    /* NULL: everything of it is released */
        struct rdma_cm_id *guard; /* keeps the device open, hears of its removal */
        struct ibv_pd *pd;
        struct ibv_comp_channel *channel;
        struct ibv_cq *cq;
        struct ibv_srq *srq;
        bool resizes;   /* the device can resize a CQ */
        bool no_inline; /* see find_quirks() */
        bool mute_down; /* see is_mute() */
        bool removed;
        bool given_up; /* nobody asks any more */
        bool armed;
        enum flushing flushing;
        unsigned invalidated_flag; /* of a RECV that a SEND with invalidate filled */
        unsigned unacked;          /* completion events */
        struct verbs_caps caps;
        struct registration *registrations;
        struct note note;
        struct verbs_ep *eps;
        struct verbs_ep *by_qp[QP_BUCKETS];
        struct verbs_wc *stash; /* completions taken out of the CQ, oldest first: at..count */
        unsigned stash_at, stash_count, stash_size;
};

/* verbs_rdma_cm.c. Where struct verbs (verbs.h) has one of that name, as it says there. */
struct verbs_context *vrdma_context_open(struct verbs_provider *p);
void vrdma_context_close(struct verbs_context *c);
int vrdma_context_fds(struct verbs_context *c, int *fds, int max);
struct verbs_listener *vrdma_listener(struct verbs_context *c, const char *traddr,
                                      const char *trsvcid, int backlog);
uint16_t vrdma_listener_port(const struct verbs_listener *l);
void vrdma_unlisten(struct verbs_listener *l);
struct verbs_ep *vrdma_resolve(struct verbs_context *c, const char *traddr, const char *trsvcid,
                               unsigned timeout_ms);
int vrdma_ep_migrate(struct verbs_ep *ep, struct verbs_context *to);
int vrdma_ep_connect(struct verbs_ep *ep, const struct verbs_conn_param *param);
int vrdma_ep_accept(struct verbs_ep *ep, const struct verbs_conn_param *param);
int vrdma_ep_reject(struct verbs_ep *ep, const void *data, uint8_t len);
int vrdma_ep_disconnect(struct verbs_ep *ep);
void vrdma_ep_destroy(struct verbs_ep *ep);
void vrdma_ep_set_user(struct verbs_ep *ep, void *user);
void *vrdma_ep_user(const struct verbs_ep *ep);
void vrdma_ep_addresses(const struct verbs_ep *ep, char *local, char *peer, size_t size);
struct verbs_ep *vrdma_ep_new(struct verbs_context *c); /* NULL with errno */
struct verbs_ep *vrdma_local(struct verbs_context *c, const char *traddr);
void vrdma_destroy_held(void);                  /* ids whose port is up again, or gone */
int vrdma_watch(int epoll, int fd, void *what); /* for input */
static inline uint8_t at_most(uint8_t wanted, uint8_t limit)
{
        return wanted < limit ? wanted : limit;
}

/* verbs_rdma_event.c. The next event, as struct verbs has it. */
bool vrdma_context_event(struct verbs_context *c, struct verbs_event *e);
/* From any thread. The object of the note lives until it has been dropped. */
void vrdma_note(struct verbs_context *c, struct note *n, unsigned bits);
void vrdma_drop_note(struct verbs_context *c, struct note *n);

/* verbs_rdma_device.c. The domain of an endpoint's device, made if it is the first one there. NULL
 * with errno. */
struct verbs_domain *vrdma_domain(struct verbs_ep *ep);
/* Its device goes away: it is released with its last endpoint. */
void vrdma_domain_removed(struct verbs_domain *d);
void vrdma_domain_leave(struct verbs_ep *ep); /* its last call of the domain */
void vrdma_domain_free(struct verbs_domain *d);
/* Takes the asynchronous events that wait, and notes each where it belongs. */
void vrdma_read_async(struct device *device);
/* As struct verbs has them. */
const struct verbs_caps *vrdma_domain_caps(const struct verbs_domain *d);
int vrdma_make_srq(struct verbs_domain *d, uint32_t wrs);
int vrdma_grow_cq(struct verbs_domain *d, uint32_t cqes);
int vrdma_reg(struct verbs_domain *d, void *addr, size_t len, unsigned access, struct verbs_mr *mr);
void vrdma_dereg(struct verbs_domain *d, struct verbs_mr *mr);
int vrdma_make_window(struct verbs_domain *d, struct verbs_window *w);
void vrdma_drop_window(struct verbs_domain *d, struct verbs_window *w);

/* verbs_rdma_qp.c. As struct verbs has them, but for the two with a comment. */
int vrdma_ep_qp(struct verbs_ep *ep, const struct verbs_qp_attr *attr);
int vrdma_ep_fail(struct verbs_ep *ep);
void vrdma_ep_drop_qp(struct verbs_ep *ep); /* and what is left of its completions */
int vrdma_post(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad);
int vrdma_post_recv(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad);
int vrdma_post_srq(struct verbs_domain *d, struct verbs_wr *chain, struct verbs_wr **bad);
int vrdma_poll(struct verbs_domain *d, struct verbs_wc *wc, int max);
int vrdma_arm(struct verbs_context *c);
/* Takes the completion events of an armed CQ, so that its descriptor is not readable any more. */
void vrdma_take_cq_events(struct verbs_domain *d);

/* verbs_rdma_join.c. As struct verbs has them; disconnect() of a local endpoint. */
int vrdma_ep_numbers(const struct verbs_ep *ep, struct verbs_numbers *own);
int vrdma_ep_join(struct verbs_ep *ep, const struct verbs_numbers *peer,
                  const struct verbs_conn_param *param);
int vrdma_ep_part(struct verbs_ep *ep);

#endif
