/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of memory_verbs.h share: memory_verbs.c has the objects and the accounts,
 * memory_cm.c connection management, memory_join.c what goes without it, memory_work.c work requests and
 * completions, memory_keys.c what they may reach, memory_map.c a map. Not for anybody else.
 */
#ifndef NVMF_MACHINE_MEMORY_OWN_H
#define NVMF_MACHINE_MEMORY_OWN_H

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory_verbs.h"

/* A mistake of the program that uses the fabric. */
#define MUST(condition, words) assert((condition) && (words))
#define ALIVE(object)          MUST(!(object)->o.gone, "used after it was released")

/* --- lists ------------------------------------------------------------------------------------- */

struct chained { /* first in what is chained */
        struct chained *next;
};

struct fifo {
        struct chained *head, *last;
};

static inline void fifo_push(struct fifo *f, struct chained *c)
{
        c->next = NULL;
        if (f->head)
                f->last->next = c;
        else
                f->head = c;
        f->last = c;
}

static inline void *fifo_pop(struct fifo *f)
{
        struct chained *c = f->head;

        if (c)
                f->head = c->next;
        return c;
}

/* Keeps those that `keep` says, in order; it has freed or moved the others. */
void fifo_sift(struct fifo *f, bool (*keep)(struct chained *c, void *arg), void *arg);

/* A map that never fails for those that are there: a failed put changes nothing. */
struct memory_map {
        struct map_place *places;
        uint32_t mask, used;
};

/* value is not NULL, and its key is not there yet. -1 with errno: out of memory. map_get()
 * returns NULL for what is not there; map_remove() does nothing then. */
int map_put(struct memory_map *m, uint64_t key, void *value);
void *map_get(const struct memory_map *m, uint64_t key);
void map_remove(struct memory_map *m, uint64_t key);
/* Any one of them, from place *at on; NULL: no more. */
void *map_next(const struct memory_map *m, uint32_t *at);
void map_fini(struct memory_map *m);

/* --- objects ----------------------------------------------------------------------------------- */

/* Objects stay as shells after their end until the fabric goes, so that a late use is noticed. */
struct memory_object {
        const struct verbs *ops;
        struct memory_fabric *fabric;
        struct memory_object *next; /* of all that ever were */
        bool gone;
};

enum message { /* on its way to an endpoint */
               MESSAGE_RESOLVED,
               MESSAGE_REQUEST,
               MESSAGE_REPLY,
               MESSAGE_READY, /* ready to use: the reply was taken */
               MESSAGE_REJECT,
               MESSAGE_DREQ,
               MESSAGE_DREP,
               MESSAGE_TIMEWAIT,
               MESSAGES
};

struct memory_event {
        struct chained chain;
        enum message message; /* until it is delivered */
        bool injected;
        struct verbs_event e;
};

struct memory_work { /* a work request from being posted until its completion is taken */
        struct chained chain;
        struct verbs_wr *wr; /* the poster's */
        struct verbs_wr own; /* as it was posted */
        struct verbs_window window;
        struct verbs_ep *ep; /* NULL: in an SRQ, or its queue pair is gone */
        struct verbs_domain *srq;
        struct memory_work *covers; /* unsigned ones that its completion gives back */
        enum { WORK_QUEUED, WORK_STARTED, WORK_DONE } state;
        enum verbs_status status;
        uint32_t bytes, invalid_key;
        bool invalidated;
        uint8_t data[]; /* inline */
};

struct memory_key { /* an MR or a window */
        struct verbs_domain *domain;
        uint8_t *addr;
        size_t len;
        unsigned access;
        uint32_t lkey, rkey;
        bool window, usable;   /* by the rkey */
        struct verbs_ep *ep;   /* window: bound for it */
        struct memory_key *mr; /* window: bound to it */
};

struct verbs_context {
        struct memory_object o;
        struct verbs_context *next;
        struct fifo events;
        struct verbs_domain *domain;
        bool armed, rung, removed;
        void *own;
};

struct verbs_listener {
        struct memory_object o;
        struct verbs_listener *next;
        struct verbs_context *context;
        char traddr[64];
        uint16_t port;
        int backlog, waiting;
};

struct verbs_domain {
        struct memory_object o;
        struct verbs_context *context;
        struct fifo srq, cq;
        uint32_t srq_wrs, srq_used, cq_room, cq_used;
        bool starved; /* somebody waits for a RECV in the SRQ */
        bool asked;   /* how many completions it has room for */
};

enum cm {
        CM_NEW,
        CM_RESOLVED,
        CM_CONNECTING,  /* connector: request sent */
        CM_REPLIED,     /* connector: reply waits to be taken */
        CM_REQUESTED,   /* acceptor: to be answered */
        CM_ACCEPTED,    /* acceptor: reply sent */
        CM_ESTABLISHED, /* both */
        CM_DREQ_SENT,
        CM_DREQ_SEEN, /* to be answered */
        CM_CLOSED,
        CM_OVER,   /* it came to nothing */
        CM_LOCAL,  /* to be joined by numbers */
        CM_JOINED, /* until it disconnects: CM_CLOSED */
        CMS
};

struct verbs_ep {
        struct memory_object o;
        struct verbs_ep *next, *prev;
        struct verbs_context *context;
        struct verbs_listener *listener;
        struct verbs_domain *domain;
        struct verbs_ep *peer;
        void *user;
        char local[64], remote[72], traddr[64];
        uint16_t port;

        enum cm cm;
        bool connector, taken, hold, queued, removed;
        uint64_t connection;
        struct verbs_conn_param param, theirs; /* what we said, what they said */
        struct verbs_numbers own, joins;       /* local: qpn not 0; joined: the peer's */
        struct fifo messages, async;
        unsigned lose;

        enum memory_qp qp;
        struct verbs_qp_attr attr;
        uint32_t sends_used, recvs_used;
        struct fifo sends;           /* not completed, in order */
        struct fifo recvs;           /* own receive queue */
        struct fifo sent, received;  /* completed, on their way to the completion queue */
        struct memory_work *silent;  /* done unsigned, newest first */
        struct memory_work *in_hand; /* SEND or WRITE that has started */
        struct memory_work *claimed; /* RECV that a SEND of the peer's goes to */
        unsigned reads, rnr_left;    /* READs out */
        bool last_wqe;               /* is still to be said */
        unsigned fail_in, fail_work_in;
        enum verbs_status fail_status, fail_work_status;
};

struct memory_fabric {
        struct verbs_provider provider;
        struct memory_config cfg;
        struct memory_caps caps;
        struct memory_object *objects;
        struct verbs_context *contexts;
        struct verbs_listener *listeners;
        struct verbs_ep *eps;
        struct memory_map work; /* posted, by address */
        struct memory_map keys; /* by the upper 24 bits */
        unsigned mrs, windows, last_key, last_qpn, created;
        unsigned refuse[MEMORY_WHATS];
        uint64_t connections;
        uint16_t last_port;
        struct verbs_ep **ready; /* a ring of those that may have something to do */
        uint32_t ready_at, ready_count, ready_room;
};

/* --- memory_verbs.c ---------------------------------------------------------------------------- */

/* Says ENOMEM if it is this call's turn. */
bool memory_refused(struct memory_fabric *f, enum memory_what what);
/* A new object of `size` bytes, which begins with struct memory_object; NULL: out of memory. */
void *memory_object_new(struct memory_fabric *f, size_t size);
/* The same of an endpoint, in the fabric's list. */
struct verbs_ep *memory_ep_new(struct verbs_context *c);
/* It is out of the list, its events are gone; the memory stays until the fabric goes, so that late
 * use is noticed. */
void memory_ep_end(struct verbs_ep *ep);
/* Something may have become possible for it. */
void memory_ready(struct verbs_ep *ep);
/* Calls memory_config.changed. */
void memory_changed(struct verbs_context *c);
/* Calls memory_config.tap with e, to which it adds who and where. */
void memory_tap(struct verbs_ep *from, const struct memory_tap_entry *e);
/* An event for its context, now. */
void memory_event_push(struct verbs_context *c, struct memory_event *e);

/* --- memory_cm.c ------------------------------------------------------------------------------- */

/* As struct verbs has them (verbs.h). */
struct verbs_listener *memory_listen(struct verbs_context *c, const char *traddr,
                                     const char *trsvcid, int backlog);
void memory_unlisten(struct verbs_listener *l);
struct verbs_ep *memory_resolve(struct verbs_context *c, const char *traddr, const char *trsvcid,
                                unsigned timeout_ms);
int memory_connect(struct verbs_ep *ep, const struct verbs_conn_param *param);
int memory_accept(struct verbs_ep *ep, const struct verbs_conn_param *param);
int memory_reject(struct verbs_ep *ep, const void *data, uint8_t len);
int memory_disconnect(struct verbs_ep *ep);
/* A numeric address, or none for any, without its brackets; -1 with errno. */
int memory_address_of(const char *traddr, char *address, size_t size);
/* It stands for all addresses. */
bool memory_is_any(const char *address);
/* "10.0.0.1:4420", "[fd00::1]:4420". */
void memory_with_port(char *text, size_t size, const char *address, unsigned port);
/* Keeps what is said: no more READs than the device can do. Returns that. */
const struct verbs_conn_param *memory_offer(struct verbs_ep *ep,
                                            const struct verbs_conn_param *param);
/* The endpoint ends: what its peer is told. */
void memory_hang_up(struct verbs_ep *ep);
/* The first message on its way arrives. */
void memory_deliver(struct verbs_ep *ep);
/* The owner has taken this event. */
void memory_taken(const struct memory_event *e);
/* An event of no message: async, removed. */
void memory_send_event(struct verbs_ep *ep, enum verbs_event_type type);

/* --- memory_join.c ----------------------------------------------------------------------------- */

/* As struct verbs has them (verbs.h). */
struct verbs_ep *memory_local(struct verbs_context *c, const char *traddr);
int memory_numbers(const struct verbs_ep *ep, struct verbs_numbers *own);
int memory_join(struct verbs_ep *ep, const struct verbs_numbers *peer,
                const struct verbs_conn_param *param);
/* It was joined to one that is there, but has not joined yet: its work is tried again until then. */
bool memory_awaits(const struct verbs_ep *ep);
/* What memory_awaits() says may have changed for some. */
void memory_wake_joined(struct memory_fabric *f);

/* --- memory_work.c ----------------------------------------------------------------------------- */

/* As struct verbs has them (verbs.h). */
int memory_post(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad);
int memory_post_recv(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad);
int memory_post_srq(struct verbs_domain *d, struct verbs_wr *chain, struct verbs_wr **bad);
int memory_poll(struct verbs_domain *d, struct verbs_wc *wc, int max);
/* The queue pair fails: everything is flushed. */
void memory_qp_fail(struct verbs_ep *ep);
/* All that it still holds is given up. */
void memory_qp_end(struct verbs_ep *ep);
/* Its queues and keys go. */
void memory_domain_end(struct verbs_domain *d);

enum { /* bits: what may happen next to the work of an endpoint */
       WORK_START = 1,
       WORK_FINISH = 2,
       WORK_FINISH_READ = 4,
       WORK_SENT = 8,
       WORK_RECEIVED = 16,
       WORK_LAST_WQE = 32,
};
/* The bits of what may happen next; memory_work_do() makes one of those happen. */
unsigned memory_work_may(struct verbs_ep *ep);
void memory_work_do(struct verbs_ep *ep, unsigned bit);

static inline int fail_with(int why)
{
        errno = why;
        return -1;
}

/* --- memory_keys.c ----------------------------------------------------------------------------- */

/* As struct verbs has them (verbs.h): mr->own and w->own are the key. */
int memory_reg(struct verbs_domain *d, void *addr, size_t len, unsigned access,
               struct verbs_mr *mr);
void memory_dereg(struct verbs_domain *d, struct verbs_mr *mr);
int memory_make_window(struct verbs_domain *d, struct verbs_window *w);
void memory_drop_window(struct verbs_domain *d, struct verbs_window *w);
/* Those of the domain go. */
void memory_keys_end(struct verbs_domain *d);

/* Of that domain, whatever its low byte and whether it is usable; NULL: no such thing. */
struct memory_key *memory_key_of(const struct verbs_domain *d, uint32_t key);
/* Whether all of [addr, addr + len) lies in its memory. */
bool memory_key_holds(const struct memory_key *k, uint64_t addr, uint64_t len);
/* A key of the responder's, as it stands now. */
struct memory_key *memory_key_usable(const struct verbs_ep *responder, uint32_t key);
/* The window k is worth nothing until it is bound again. */
void memory_unbind(struct memory_key *k);
/* Windows that are bound to that MR (may be NULL), or for that endpoint (may be NULL). */
void memory_unbind_those_of(struct memory_fabric *f, const struct memory_key *mr,
                            const struct verbs_ep *ep);
/* Whether the poster's own memory is good for its work request. */
enum verbs_status memory_check_local(const struct memory_work *w, const struct verbs_domain *d);
/* Whether a READ or WRITE of so many bytes may reach where it wants to. */
bool memory_remote_ok(const struct verbs_ep *responder, const struct verbs_wr *wr, uint32_t len,
                      unsigned access);

#endif
