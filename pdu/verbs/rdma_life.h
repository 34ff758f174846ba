/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an RDMA queue pair, for both sides: which events move it on, what is to be done at
 * each, and what has to be true. A table of [state][event]; the owner feeds it connection events,
 * completions and its own wishes, and does the actions that come back. States only ever increase.
 *
 *      connecting   requested, accepted or joined, not established; capsules that come are kept
 *      live         capsules flow
 *      closing      DREQ sent or received; waits for the other end, not forever. One that was joined
 *                   by numbers has no DREQ: the disconnect is an event at once, by the same way
 *      draining     queue pair in error; waits for the sentinels: work requests posted last, so that
 *                   when they are flushed all others are; and with an SRQ for its last-WQE event
 *                   (which does not come with rxe and iWARP)
 *      dead         no completion of it comes any more; waits for commands that still execute
 *      released     nothing is left
 */
#ifndef NVMF_MACHINE_RDMA_LIFE_H
#define NVMF_MACHINE_RDMA_LIFE_H

#include "verbs.h"

enum life_state {
        LIFE_CONNECTING,
        LIFE_LIVE,
        LIFE_CLOSING,
        LIFE_DRAINING,
        LIFE_DEAD,
        LIFE_RELEASED,
};
const char *life_state_name(enum life_state s); /* "connecting", ... */

enum life_event {
        LIFE_ESTABLISHED,  /* CM event, or the first capsule overtook it */
        LIFE_REFUSED,      /* rejected, unreachable, connect error; accept or connect failed */
        LIFE_CLOSE,        /* the owner's wish, orderly: say DREQ */
        LIFE_ABORT,        /* ... at once: without waiting for the peer */
        LIFE_DISCONNECTED, /* CM event: DREQ or DREP came, or the connection is lost */
        LIFE_TIMEWAIT,     /* CM event */
        LIFE_LATE,         /* the owner's timer: closing or draining takes too long */
        LIFE_REMOVED,      /* the device goes away */
        LIFE_FAILED,       /* a completion with error, not of a sentinel; or async QP error */
        LIFE_DRAINED, /* all sentinels are flushed, and the completion queue was then seen empty */
        LIFE_IDLE,    /* no command executes any more */
        LIFE_EVENTS
};
/* "established" ...; "nothing" for LIFE_EVENTS. */
const char *life_event_name(enum life_event e);
/* What the provider's event is to the queue pair that it names; LIFE_EVENTS: nothing. */
enum life_event life_event_of(enum verbs_event_type t);

enum life_action {                         /* bits, to be done in this order */
                   LIFE_DO_REPLAY = 1,     /* now live: take the capsules that were kept */
                   LIFE_DO_DISCONNECT = 2, /* verbs_disconnect() */
                   LIFE_DO_FAIL = 4,       /* verbs_fail(), then post the sentinels */
                   LIFE_DO_END =
                       8, /* drained: give up what the queue pair still held, tell the layer above;
                                 * exactly once in every life */
                   LIFE_DO_RELEASE =
                       16, /* verbs_destroy(), free; exactly once, the last action of all */
};

struct rdma_life {
        enum life_state state;
        bool has_qp; /* set by the owner when verbs_qp() succeeded: without it there is nothing to
                      * drain */
        bool idle;   /* the last LIFE_IDLE still holds: kept by the owner's calls of life_busy() */
        unsigned actions;            /* ever given, for the invariants */
        enum life_event cause;       /* that ended CONNECTING or LIVE; LIFE_EVENTS: none has */
        uint32_t sentinels;          /* posted and not flushed, and a last-WQE event to come */
        struct verbs_wr sentinel[2]; /* SEND side (a WRITE of zero bytes), RECV */
};

/* without idle: at first no command executes. */
void life_init(struct rdma_life *l);
/* Moves on; returns LIFE_DO_* bits. Asserts (in builds with assertions) what must be true. An event
 * that says nothing new in this state does nothing. */
unsigned life_event(struct rdma_life *l, enum life_event e);
/* Whether this event says something new in this state: a cell of the table that is not empty. */
bool life_moves(enum life_state s, enum life_event e);
/* A command executes: DEAD is not left before LIFE_IDLE. */
void life_busy(struct rdma_life *l);
/* Prepares the sentinels for LIFE_DO_FAIL: the chain for verbs_post(), and (srq false) for
 * verbs_post_recv(). After posting fails for one: life_sentinel_flushed() it. */
struct verbs_wr *life_send_sentinel(struct rdma_life *l);
struct verbs_wr *life_recv_sentinel(struct rdma_life *l);
/* Whether a completed work request is one of them; then counts it. All flushed: the owner polls the
 * completion queue once more until it is empty, then says LIFE_DRAINED. */
bool life_sentinel_flushed(struct rdma_life *l, const struct verbs_wr *wr);

#endif
