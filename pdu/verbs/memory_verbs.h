/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA in memory: the provider of verbs.h without devices, threads or clock. Both ends live in one
 * fabric and call the same functions as with real verbs. Nothing happens by itself: the owner of
 * the fabric takes step after step, in order or as a generator says, so that completions are late
 * and come in any order that a reliable connection permits:
 *
 *   - work requests of one queue pair start in order; a SEND or WRITE may pass a READ that is out,
 *     unless it is fenced; READs wait for the initiator depth
 *   - completions of one send queue come in order, those of one receive queue, too; between them,
 *     and between queue pairs, nothing is promised
 *   - what was written is there before the SEND that follows is received
 *   - events of connection management come in order for one endpoint
 *   - endpoints that are joined by numbers (verbs_join()) find each other where the numbers of both are
 *     right; what one of them posts waits for the other, that has them but has not joined yet
 *
 * Rights, ranges and keys are checked as a device does. An access that the responder refuses fails
 * both queue pairs: the requester's with a completion, the responder's with QP_ERROR. No key is ever
 * given twice.
 *
 * In builds with assertions these end the program, with words: a work request posted while it is
 * outstanding; an endpoint, listener, domain or context used after its end; more completions than
 * the queue has room for.
 */
#ifndef NVMF_MACHINE_MEMORY_VERBS_H
#define NVMF_MACHINE_MEMORY_VERBS_H

#include "verbs.h"

struct memory_fabric; /* begins with struct verbs_provider */

struct memory_caps {
        struct verbs_caps device; /* cqes: most that verbs_grow_cq() gives; 0: none of its limits */
        bool
            no_padding; /* private data come as long as they were sent, up to VERBS_PRIVATE_MAX; else as
                          * with IB: connect requests 56 bytes, acceptances 196, rejections 148 */
        char host[40]; /* the address of connectors (IPv4); "": the one that they connect to */
};
/* What most devices can: SRQs, 64 bytes inline, 16 READs, windows, last-WQE events; to be changed. */
void memory_caps_default(struct memory_caps *caps);

enum memory_act { /* what the fabric carries, for those who watch */
                  MEMORY_REQUEST,
                  MEMORY_ACCEPT,
                  MEMORY_REJECT,
                  MEMORY_DISCONNECT, /* DREQ, sent */
                  MEMORY_SEND,
                  MEMORY_READ,
                  MEMORY_WRITE,
};

struct memory_tap_entry {
        enum memory_act act;
        const struct verbs_ep *from; /* the requester; of REJECT maybe about to go */
        bool by_connector;
        uint64_t connection;                  /* the same number for both ends, never used again */
        const void *data;                     /* private data, or what is sent; NULL: none */
        uint32_t len;                         /* bytes; also of READ and WRITE */
        const struct verbs_conn_param *param; /* REQUEST, ACCEPT */
        uint64_t addr;                        /* READ, WRITE */
        uint32_t key;                         /* READ, WRITE; SEND with invalidate */
        bool invalidates;
};

struct memory_config {
        const struct memory_caps *caps; /* NULL: the default */
        /* Chooses among what may happen next: any number. NULL: in order. */
        uint32_t (*random)(void *user);
        /* Each work request when it is carried out, before the other side is told; may be NULL. */
        void (*tap)(void *user, const struct memory_tap_entry *e);
        /* memory_readable() of a context may have changed; may be NULL. */
        void (*changed)(void *user, struct verbs_context *c);
        void *user;
        const struct verbs *ops; /* what its objects begin with; NULL: memory_ops */
};

/* The functions themselves, for a provider that adds to them. */
extern const struct verbs memory_ops;

/* NULL: out of memory. cfg and its caps are copied; NULL: all default. */
struct memory_fabric *memory_fabric_new(const struct memory_config *cfg);
/* Everything that is left goes with it. */
void memory_fabric_free(struct memory_fabric *f);
/* Lives as long as f, like all that is made of it. */
struct verbs_provider *memory_provider(struct memory_fabric *f);
/* Of any object. */
struct memory_fabric *memory_fabric_of(const void *object);
/* memory_config.user. */
void *memory_fabric_user(const struct memory_fabric *f);

/* One of the things that may happen next happens; false: nothing can, before somebody acts. */
bool memory_step(struct memory_fabric *f);
/* Steps until nothing can. */
void memory_idle(struct memory_fabric *f);

/* Whether a context's descriptors would be readable: an event waits, or a completion came since
 * verbs_arm(). */
bool memory_readable(const struct verbs_context *c);
/* A pointer that is the owner's; NULL at first. */
void memory_context_set_own(struct verbs_context *c, void *own);
void *memory_context_own(const struct verbs_context *c);

/* --- faults ------------------------------------------------------------------------------------ */

/* The k-th completion of this queue pair from now on (1: the next; sends and receives, signaled or
 * not, but not those that are flushed) has this status, although what it asked for has been done:
 * as when the acknowledgement is lost. Not VERBS_SUCCESS: the queue pair fails with it. */
void memory_fail_completion(struct verbs_ep *ep, unsigned k, enum verbs_status status);
/* The k-th work request that starts on its send queue does not happen, and completes so. */
void memory_fail_work(struct verbs_ep *ep, unsigned k, enum verbs_status status);
/* The next n messages of connection management on their way to it are lost. */
void memory_lose_cm(struct verbs_ep *ep, unsigned n);
/* They wait until this is taken back. */
void memory_hold_cm(struct verbs_ep *ep, bool hold);
/* An event out of nowhere; nothing else changes. Of ep or of c alone. */
void memory_inject(struct verbs_ep *ep, enum verbs_event_type type, int reason);
void memory_inject_context(struct verbs_context *c, enum verbs_event_type type, int reason);
/* The device of a context (NULL: of all) goes away: DEVICE_REMOVED to its listeners and endpoints,
 * whose queue pairs fail and say nothing any more. Nothing new can be made of it. */
void memory_remove(struct memory_fabric *f, struct verbs_context *c);

enum memory_what {
        MEMORY_ANY,
        MEMORY_OPEN,
        MEMORY_LISTEN,
        MEMORY_RESOLVE, /* verbs_local(), too */
        MEMORY_DOMAIN,
        MEMORY_QP,
        MEMORY_SRQ,
        MEMORY_CQ, /* verbs_grow_cq() */
        MEMORY_REG,
        MEMORY_WINDOW,
        MEMORY_POST,    /* of any kind, the first of its chain */
        MEMORY_CONNECT, /* verbs_join(), too */
        MEMORY_ACCEPTANCE,
        MEMORY_DISCONNECTION,
        MEMORY_WHATS
};
/* The nth call of this kind from now on (1: the next) fails with ENOMEM; 0: none does. */
void memory_refuse(struct memory_fabric *f, enum memory_what what, unsigned nth);

/* --- accounts ---------------------------------------------------------------------------------- */

struct memory_count {
        unsigned contexts, listeners, eps, qps, mrs, windows;
        unsigned posted; /* work requests that are the provider's still */
};
/* What exists. An endpoint counts from its CONNECT_REQUEST being taken on. */
struct memory_count memory_leaks(const struct memory_fabric *f);
/* All but the contexts, added up. */
unsigned memory_leaked(const struct memory_fabric *f);

/* The i-th of the endpoints that count, in no order worth knowing; NULL: there are fewer. */
struct verbs_ep *memory_ep(const struct memory_fabric *f, unsigned i);
struct verbs_context *memory_context(const struct verbs_ep *ep);
bool memory_connects(const struct verbs_ep *ep); /* it is the connector; of two that join none */

enum memory_qp { MEMORY_QP_NONE, MEMORY_QP_NEW, MEMORY_QP_LIVE, MEMORY_QP_ERROR };
/* NONE before the queue pair is made. */
enum memory_qp memory_qp_state(const struct verbs_ep *ep);

#endif
