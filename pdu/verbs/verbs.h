/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What RDMA is to this project: the verbs and connection management that NVMe/RDMA needs, as one
 * table of functions. Below it is librdmacm with libibverbs (pdu/io/verbs/verbs_rdma.h) or memory
 * (memory_verbs.h: deterministic, any completion may fail, be late or come in another order). The
 * capsule machines only make work requests and are told of completions; who owns a queue pair
 * moves the two between them and the provider.
 *
 *      context     one thread's: where its events and completions arrive
 *      listener    an address that takes connects
 *      ep          an endpoint: a reliable queue pair, and the CM id that connects it; or it is
 *                  local, without one, and joined to its peer by numbers exchanged elsewhere
 *      domain      a device as a context uses it: protection domain, one completion queue and,
 *                  where the device has them, one shared receive queue
 *      mr          registered memory, good within its domain
 *
 * Everything of one context is called from one thread. No call waits, but those that say so.
 * Functions that can fail return 0, or -1 with errno.
 */
#ifndef NVMF_MACHINE_VERBS_H
#define NVMF_MACHINE_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct verbs_provider; /* whole implementation; each begins with struct verbs */
struct verbs_context;
struct verbs_listener;
struct verbs_domain;
struct verbs_ep;

enum verbs_op {
        VERBS_SEND,
        VERBS_SEND_INVALIDATE, /* rkey: what the peer's key becomes invalid */
        VERBS_READ,
        VERBS_WRITE,
        VERBS_RECV,
        VERBS_BIND,       /* remote..: binds a memory window, see struct verbs_window */
        VERBS_INVALIDATE, /* rkey: a window of our own */
};
const char *verbs_op_name(enum verbs_op op); /* "SEND", "RDMA READ", ... */

enum verbs_status { /* as ibv_wc_status, those that happen */
                    VERBS_SUCCESS,
                    VERBS_LOCAL_LENGTH,
                    VERBS_LOCAL_QP,
                    VERBS_LOCAL_PROTECTION,
                    VERBS_FLUSHED,
                    VERBS_BIND_ERROR,
                    VERBS_BAD_RESPONSE,
                    VERBS_LOCAL_ACCESS,
                    VERBS_REMOTE_INVALID,
                    VERBS_REMOTE_ACCESS,
                    VERBS_REMOTE_OPERATION,
                    VERBS_RETRY_EXCEEDED,
                    VERBS_RNR_EXCEEDED,
                    VERBS_FATAL,
                    VERBS_GENERAL,
                    VERBS_STATUSES
};
const char *verbs_status_name(enum verbs_status s); /* "flushed", "remote access error", ... */

enum { VERBS_SGES = 2, VERBS_PRIVATE_MAX = 196 };

enum verbs_flags {
        VERBS_SIGNALED = 1, /* a completion comes also if it succeeds */
        VERBS_INLINE = 2,   /* the data may be used again at once; lkeys are not looked at */
        VERBS_FENCE = 4,    /* waits for the READs before it */
};

struct verbs_sge {
        void *addr;
        uint32_t len, lkey;
};

/* Owned by who posts it, who keeps it until it is completed (or, not signaled, until a later one of
 * the same queue is). A RECV: until it is completed or its queue is gone. */
struct verbs_wr {
        struct verbs_wr *next; /* chain */
        enum verbs_op op;
        uint8_t flags, n_sge;
        struct verbs_sge sge[VERBS_SGES];
        uint64_t remote;             /* READ, WRITE */
        uint32_t rkey;               /* READ, WRITE, *_INVALIDATE */
        uint32_t bytes;              /* RECV: that came; kept by who holds it back */
        struct verbs_window *window; /* BIND */
        void *user;                  /* the poster's */
};

/* A receive buffer with its posted RECV; the owner's (a pool for the SRQ, or a queue's own ones).
 * wr.sge[0] is the buffer, wr.user the owner's. */
struct rdma_recv {
        struct verbs_wr wr;
        struct rdma_recv *next;
        uint32_t bytes; /* that came */
};

struct verbs_wc {
        struct verbs_wr *wr; /* of whichever kind; its op tells */
        struct verbs_ep *ep; /* whose queue pair; NULL: it is gone meanwhile (RECV of an SRQ) */
        enum verbs_status status;
        uint32_t bytes;   /* RECV */
        bool invalidated; /* RECV: it came by SEND with invalidate, of this key of ours: */
        uint32_t invalid_key;
};

enum verbs_access { /* of registered memory; the local owner may always do both */
                    VERBS_REMOTE_READ = 1,
                    VERBS_REMOTE_WRITE = 2,
                    VERBS_WINDOWS = 4, /* windows may be bound to it */
};

struct verbs_mr {
        void *addr;
        size_t len;
        uint32_t lkey, rkey;
        void *own; /* the provider's */
};

/* A key for part of an MR that comes and goes by work requests (memory window of type 2). */
struct verbs_window {
        uint32_t rkey; /* good once the BIND that was posted with it has gone out before the SEND;
                        * the provider's first, verbs_window_next() before each further BIND */
        const struct verbs_mr *mr;
        void *addr;
        size_t len;
        unsigned access;
        void *own;
};

/* A key that nobody has seen lately; its low byte is ours to choose. */
static inline void verbs_window_next(struct verbs_window *w)
{
        w->rkey = (w->rkey & 0xffffff00) | ((w->rkey + 1) & 0xff);
}

struct verbs_caps {                  /* of a device */
        uint32_t sges, inline_bytes; /* of one work request; inline 0: none */
        uint32_t qp_wrs, srq_wrs;    /* at most; srq_wrs 0: no shared receive queues */
        uint32_t cqes;
        uint8_t reads_in, reads_out; /* responder resources, initiator depth */
        bool windows;                /* memory windows of type 2 */
        bool invalidates_mr;         /* SEND with invalidate works upon the rkey of an MR, too */
        bool no_last_wqe;            /* never says that a queue pair has drained (iWARP, rxe) */
        bool iwarp;
        char name[64];
};

struct verbs_qp_attr {
        uint32_t send_wrs, recv_wrs; /* recv_wrs 0: receives come from the domain's SRQ */
        uint32_t inline_bytes;
};

/* Of a connect request and its acceptance: the numbers are the sender's own also where they arrive
 * (reads_in: READs that it answers at a time). */
struct verbs_conn_param {
        const void *data; /* private data */
        uint8_t len;
        uint8_t reads_in, reads_out; /* responder resources, initiator depth */
        uint8_t rnr_retry, retry;    /* rnr_retry: how often the peer tries; 7: forever */
};

/* What a queue pair is known by to the peer that joins it. Whose protocol carries them, and how, is
 * not of interest here; both ends need the other's. */
struct verbs_numbers {
        uint32_t qpn, psn; /* 24 bits; psn: of the first packet that it sends */
        uint16_t lid;      /* of an InfiniBand port; 0: Ethernet */
        uint16_t mtu;    /* most data in a packet: 256, 512 .. 4096; else the next lower of these */
        uint8_t gid[16]; /* RoCEv2: its IP address, IPv4 as ::ffff:a.b.c.d (IBTA A17) */
};

enum verbs_event_type {
        VERBS_CONNECT_REQUEST, /* ep is new: accept, reject (and destroy) it */
        VERBS_RESOLVED,        /* ours: the device is known, make domain and queue pair, connect */
        VERBS_ESTABLISHED,
        VERBS_REJECTED,    /* data: the peer's, if len > 0; reason: the CM's */
        VERBS_UNREACHABLE, /* also: no route, no such address, a timeout; reason: errno or CM's */
        VERBS_CONNECT_ERROR,
        VERBS_DISCONNECTED, /* DREQ or DREP; or the connection is lost; or ours was only joined */
        VERBS_TIMEWAIT_EXIT,
        VERBS_DEVICE_REMOVED, /* ep, or listener if ep is NULL: destroy all that is of the device */
        VERBS_ADDR_CHANGE,
        VERBS_LAST_WQE,  /* async: the SRQ gives this queue pair nothing any more */
        VERBS_QP_ERROR,  /* async: the queue pair failed */
        VERBS_PORT_DOWN, /* async; ep is NULL */
        VERBS_PORT_UP,
};
/* "connect request" ...; never NULL. */
const char *verbs_event_name(enum verbs_event_type t);

struct verbs_event {
        enum verbs_event_type type;
        struct verbs_ep *ep;
        struct verbs_listener *listener; /* of CONNECT_REQUEST, DEVICE_REMOVED */
        int reason;
        struct verbs_conn_param param;   /* CONNECT_REQUEST, ESTABLISHED (of the acceptor, seen by
                                              * the connector), REJECTED; data points below */
        uint8_t data[VERBS_PRIVATE_MAX]; /* len may be padded with zeroes beyond what was sent */
};

/* The functions; see verbs_* below for what they do. */
struct verbs {
        struct verbs_context *(*open)(struct verbs_provider *p);
        void (*close)(struct verbs_context *c);
        int (*fds)(struct verbs_context *c, int *fds, int max);
        bool (*event)(struct verbs_context *c, struct verbs_event *e);

        struct verbs_listener *(*listen)(struct verbs_context *c, const char *traddr,
                                         const char *trsvcid, int backlog);
        uint16_t (*listener_port)(const struct verbs_listener *l);
        void (*unlisten)(struct verbs_listener *l);

        struct verbs_ep *(*resolve)(struct verbs_context *c, const char *traddr,
                                    const char *trsvcid, unsigned timeout_ms);
        int (*migrate)(struct verbs_ep *ep, struct verbs_context *to);
        struct verbs_domain *(*domain)(struct verbs_ep *ep);
        int (*qp)(struct verbs_ep *ep, const struct verbs_qp_attr *attr);
        int (*connect)(struct verbs_ep *ep, const struct verbs_conn_param *param);
        int (*accept)(struct verbs_ep *ep, const struct verbs_conn_param *param);
        int (*reject)(struct verbs_ep *ep, const void *data, uint8_t len);
        struct verbs_ep *(*local)(struct verbs_context *c, const char *traddr);
        int (*numbers)(const struct verbs_ep *ep, struct verbs_numbers *own);
        int (*join_peer)(struct verbs_ep *ep, const struct verbs_numbers *peer,
                         const struct verbs_conn_param *param);
        int (*disconnect)(struct verbs_ep *ep);
        int (*fail)(struct verbs_ep *ep);
        void (*destroy)(struct verbs_ep *ep);
        void (*set_user)(struct verbs_ep *ep, void *user);
        void *(*user)(const struct verbs_ep *ep);
        void (*addresses)(const struct verbs_ep *ep, char *local, char *peer, size_t size);

        const struct verbs_caps *(*caps)(const struct verbs_domain *d);
        int (*make_srq)(struct verbs_domain *d, uint32_t wrs);
        int (*grow_cq)(struct verbs_domain *d, uint32_t cqes);
        int (*reg)(struct verbs_domain *d, void *addr, size_t len, unsigned access,
                   struct verbs_mr *mr);
        void (*dereg)(struct verbs_domain *d, struct verbs_mr *mr);
        int (*make_window)(struct verbs_domain *d, struct verbs_window *w);
        void (*drop_window)(struct verbs_domain *d, struct verbs_window *w);
        int (*post)(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad);
        int (*post_recv)(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad);
        int (*post_srq)(struct verbs_domain *d, struct verbs_wr *chain, struct verbs_wr **bad);
        int (*poll)(struct verbs_domain *d, struct verbs_wc *wc, int max);
        int (*arm)(struct verbs_context *c);
};

struct verbs_provider {
        const struct verbs *ops;
};

/* Every object above begins with the table of its provider, so that these find it. */
struct verbs_object {
        const struct verbs *ops;
};
#define VERBS(object) (((const struct verbs_object *)(const void *)(object))->ops)

/* --- contexts ---------------------------------------------------------------------------------- */

/* NULL with errno. */
static inline struct verbs_context *verbs_open(struct verbs_provider *p)
{
        return p->ops->open(p);
}
/* Endpoints and listeners are destroyed; domains and their registrations go with it. */
static inline void verbs_close(struct verbs_context *c)
{
        VERBS(c)->close(c);
}
/* Descriptors to wait for input on: events, and completions after verbs_arm(). Events come by the
 * first alone, so verbs_event() need not be asked for the others. How many, at most max; may grow
 * when a domain is made. 0: this provider has none, ask it. */
static inline int verbs_fds(struct verbs_context *c, int *fds, int max)
{
        return VERBS(c)->fds(c, fds, max);
}
/* Takes the next connection or device event; false: none waits. */
static inline bool verbs_event(struct verbs_context *c, struct verbs_event *e)
{
        return VERBS(c)->event(c, e);
}
/* Asks that the descriptors become readable at the next completion of any domain. To be followed by
 * one more verbs_poll() of each before waiting: what came in between wakes nobody. */
static inline int verbs_arm(struct verbs_context *c)
{
        return VERBS(c)->arm(c);
}

/* --- connections ------------------------------------------------------------------------------- */

/* As stream_listen(); trsvcid "0": any free port. NULL with errno. */
static inline struct verbs_listener *verbs_listen(struct verbs_context *c, const char *traddr,
                                                  const char *trsvcid, int backlog)
{
        return VERBS(c)->listen(c, traddr, trsvcid, backlog);
}
static inline uint16_t verbs_listener_port(const struct verbs_listener *l)
{
        return VERBS(l)->listener_port(l);
}
/* Connect requests that nobody took yet are rejected. */
static inline void verbs_unlisten(struct verbs_listener *l)
{
        VERBS(l)->unlisten(l);
}

/* A new endpoint on its way to that address: RESOLVED or UNREACHABLE comes. NULL with errno. */
static inline struct verbs_ep *verbs_resolve(struct verbs_context *c, const char *traddr,
                                             const char *trsvcid, unsigned timeout_ms)
{
        return VERBS(c)->resolve(c, traddr, trsvcid, timeout_ms);
}
/* Its events come to another context (of another thread) from here on; before it has a queue pair.
 * May wait until its events in hand are done. */
static inline int verbs_migrate(struct verbs_ep *ep, struct verbs_context *to)
{
        return VERBS(ep)->migrate(ep, to);
}
/* The domain of its device in its context, made when asked for the first time. NULL with errno. */
static inline struct verbs_domain *verbs_domain(struct verbs_ep *ep)
{
        return VERBS(ep)->domain(ep);
}
/* Its queue pair. Receives may be posted at once, and come no later than accept or connect. */
static inline int verbs_qp(struct verbs_ep *ep, const struct verbs_qp_attr *attr)
{
        return VERBS(ep)->qp(ep, attr);
}
static inline int verbs_connect(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        return VERBS(ep)->connect(ep, param);
}
static inline int verbs_accept(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        return VERBS(ep)->accept(ep, param);
}
/* The endpoint is still to be destroyed. */
static inline int verbs_reject(struct verbs_ep *ep, const void *data, uint8_t len)
{
        return VERBS(ep)->reject(ep, data, len);
}
/* Sends DREQ, or answers the peer's; the queue pair fails (see below), DISCONNECTED comes once. One
 * that was joined says nothing to its peer, and DISCONNECTED comes at once. */
static inline int verbs_disconnect(struct verbs_ep *ep)
{
        return VERBS(ep)->disconnect(ep);
}
/* Moves the queue pair to the error state: nothing is said to the peer, all that is posted (on an
 * SRQ: all that was taken from it) is flushed, what is posted from now on is, too. */
static inline int verbs_fail(struct verbs_ep *ep)
{
        return (VERBS(ep)->fail)(ep); /* cmocka has a macro of that name */
}
/* No event or completion of it comes any more; may wait. Not from within the handling of one of its
 * events while another one is unread by verbs_event(): those are dropped. */
static inline void verbs_destroy(struct verbs_ep *ep)
{
        VERBS(ep)->destroy(ep);
}
static inline void verbs_set_user(struct verbs_ep *ep, void *user)
{
        VERBS(ep)->set_user(ep, user);
}
static inline void *verbs_user(const struct verbs_ep *ep)
{
        return VERBS(ep)->user(ep);
}
/* Numeric addresses, "" where there is none; peer with its port: "10.0.0.1:1234"; of one that was
 * joined what its GID says, with port 0. Either may be NULL; both have `size` bytes. */
static inline void verbs_addresses(const struct verbs_ep *ep, char *local, char *peer, size_t size)
{
        VERBS(ep)->addresses(ep, local, peer, size);
}

/* --- connections without the connection manager ------------------------------------------------- */

/*
 * Of protocols that exchange the numbers of queue pairs themselves: verbs_local(), verbs_domain(),
 * verbs_qp(), verbs_numbers() for the peer, and with the peer's verbs_join(). From then on it is an
 * endpoint as any other. No message is ever sent but work: that a peer has gone, or was never there,
 * shows with the next work request (VERBS_RETRY_EXCEEDED, on devices some seconds later), and to
 * who has none to post not at all.
 */

/* An endpoint at the local device that has this address (as in verbs_listen(), but no wildcard).
 * Nothing is to be resolved: no event comes, it may have a domain at once, or be migrated. NULL with
 * errno: ENOTSUP with iWARP, whose queue pairs cannot do without its connection setup; ENODEV,
 * EADDRNOTAVAIL: no device has it. */
static inline struct verbs_ep *verbs_local(struct verbs_context *c, const char *traddr)
{
        return VERBS(c)->local(c, traddr);
}
/* What the peer has to know of a local endpoint that has its queue pair; else -1 with EINVAL. They stay
 * the same. */
static inline int verbs_numbers(const struct verbs_ep *ep, struct verbs_numbers *own)
{
        return VERBS(ep)->numbers(ep, own);
}
/*
 * A local endpoint's queue pair is connected to the peer's, and ESTABLISHED comes. In which order the
 * two do so is the same: what is posted before the other one has joined is tried again as often as
 * `retry` says. param: no private data; reads_out is no more than the peer's reads_in (both as this
 * end has them); as nobody tells the peer, rnr_retry and retry are how often this end tries. The
 * smaller mtu counts. InfiniBand: both are in one subnet. May wait for the peer's answer to ARP
 * (RoCE), one second at most. -1 with errno: it is no good any more; EINVAL: it is not local, has no
 * queue pair, or was joined or failed before.
 */
static inline int verbs_join(struct verbs_ep *ep, const struct verbs_numbers *peer,
                             const struct verbs_conn_param *param)
{
        return VERBS(ep)->join_peer(ep, peer, param);
}

/* --- memory and work --------------------------------------------------------------------------- */

static inline const struct verbs_caps *verbs_caps(const struct verbs_domain *d)
{
        return VERBS(d)->caps(d);
}
/* Once, before the first queue pair that uses it. */
static inline int verbs_make_srq(struct verbs_domain *d, uint32_t wrs)
{
        return VERBS(d)->make_srq(d, wrs);
}
/* Room for so many completions at once; never shrinks. */
static inline int verbs_grow_cq(struct verbs_domain *d, uint32_t cqes)
{
        return VERBS(d)->grow_cq(d, cqes);
}
static inline int verbs_reg(struct verbs_domain *d, void *addr, size_t len, unsigned access,
                            struct verbs_mr *mr)
{
        return VERBS(d)->reg(d, addr, len, access, mr);
}
static inline void verbs_dereg(struct verbs_domain *d, struct verbs_mr *mr)
{
        VERBS(d)->dereg(d, mr);
}
/* A window to be bound by VERBS_BIND; only where caps.windows. */
static inline int verbs_make_window(struct verbs_domain *d, struct verbs_window *w)
{
        return VERBS(d)->make_window(d, w);
}
static inline void verbs_drop_window(struct verbs_domain *d, struct verbs_window *w)
{
        VERBS(d)->drop_window(d, w);
}
/* Posts a chain in one go. -1 with errno: from *bad on nothing was posted. */
static inline int verbs_post(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        return VERBS(ep)->post(ep, chain, bad);
}
static inline int verbs_post_recv(struct verbs_ep *ep, struct verbs_wr *chain,
                                  struct verbs_wr **bad)
{
        return VERBS(ep)->post_recv(ep, chain, bad);
}
static inline int verbs_post_srq(struct verbs_domain *d, struct verbs_wr *chain,
                                 struct verbs_wr **bad)
{
        return VERBS(d)->post_srq(d, chain, bad);
}
/* Completions, oldest first; how many, 0: none, -1: none, and the device is gone: once that was said
 * with no endpoint left, only its registrations are still to be given up. */
static inline int verbs_poll(struct verbs_domain *d, struct verbs_wc *wc, int max)
{
        return VERBS(d)->poll(d, wc, max);
}

#endif
