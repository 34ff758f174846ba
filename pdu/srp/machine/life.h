/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a channel on the target, and what has to be true of it whoever leads it: the queue pair's is that of
 * pdu/verbs/rdma_life.h, by the names that SRP's targets print; above it are the session with its nexus, what
 * was received before the channel was live, credits, and the order in which things are given back. Passive: it is
 * told what happens, and says which invariant that breaks.
 *
 *      connecting      REP may be sent; information units that come are kept
 *      live            they are served
 *      disconnecting   DREQ is out, its answer is waited for
 *      draining        queue pair in error, flushing
 *      disconnected    no completion comes any more; commands may still execute
 *      released
 */
#ifndef NVMF_SRP_MACHINE_LIFE_H
#define NVMF_SRP_MACHINE_LIFE_H

#include "pdu/verbs/rdma_life.h"

/* As traces have it: "connecting", "live", "disconnecting", "draining", "disconnected", "released". */
const char *srp_life_name(enum life_state s);

enum srp_happening {
        SRP_HAS_REGISTERED, /* its session: it is on the list of its nexus */
        SRP_HAS_ACCEPTED,   /* REP */
        SRP_HAS_MOVED,      /* value: enum life_state */
        SRP_HAS_POSTED,     /* work requests, value: how many */
        SRP_HAS_COMPLETED,  /* one of them, in whatever way */
        SRP_HAS_RUN, /* an information unit is served; value: its number, in the order of their coming, from 0 */
        SRP_HAS_REQUESTED, /* a request of the initiator that takes from the limit */
        SRP_HAS_GRANTED,   /* value: a delta, of the login too */
        SRP_HAS_AWAITED,   /* a command waits for its data */
        SRP_HAS_EXECUTED,  /* ... and is carried out */
        SRP_HAS_DROPPED,   /* ... or is given up */
        SRP_HAS_GOT,       /* a reference to it, beside the first */
        SRP_HAS_PUT,       /* one is gone; the first too */
        SRP_HAS_HEARD_DREQ,
        SRP_HAS_SAID_DREQ, /* or DREP: one call of the CM */
        SRP_HAS_DISABLED,  /* its port takes no logins any more */
        SRP_HAS_UNREGISTERED,
        SRP_HAS_DESTROYED, /* CM id and queue pair */
        SRP_HAS_FREED,     /* the buffers of its work requests */
        SRP_HAS_RELOGGED, /* it was logged in; value: 2 * older channels that were told to end, plus 1 where the
                              * answer says that some were */
        SRP_HAPPENINGS
};
const char *srp_happening_name(enum srp_happening h); /* "registered" ... */

enum srp_invariant {
        SRP_INVARIANT_NONE,
        SRP_MONOTONE,       /* 1: states only increase, each edge once */
        SRP_LAST_CQE,       /* 2: no completion after disconnected */
        SRP_UNREGISTER_ONE, /* 3: once for each session, not before disconnected */
        SRP_DESTROY_ONE,    /* 4: the CM id once, and not while the channel is on its way */
        SRP_ORDER,          /* 5: last completion, unregistered, id destroyed, buffers freed */
        SRP_REFERENCES,     /* 6: never taken from none, down to none once */
        SRP_ON_NEXUS,       /* 7: on its nexus's list from registration to its end */
        SRP_NOT_DISABLED,   /* 8: no REP after its port was disabled */
        SRP_DREQ_ANSWERED,  /* 9 */
        SRP_HELD_IN_ORDER,  /* 10: what was held is served once, in order, only when live */
        SRP_CREDITS,        /* 11: no more requests than the limit; a limit never below zero */
        SRP_RELOGIN,        /* 12: "terminated" if and only if older channels were told to end */
        SRP_NEED_DATA, /* 13: what waits for data when the channel is no longer live is not carried out */
        SRP_IN_TIME, /* 14: each state but live has a bound of time */
        SRP_INVARIANTS
};
const char *srp_invariant_says(enum srp_invariant i); /* the sentence; never NULL */

struct srp_watch_times { /* ms: bounds; 0: none */
        unsigned connecting, disconnecting, draining, disconnected;
};

struct srp_watch {
        const struct srp_watch_times *times; /* NULL: no bounds */
        enum life_state state;
        uint64_t since; /* ms */
        unsigned moved; /* bits: states that were reached */
        bool registered, unregistered, destroyed, freed, disabled, heard_dreq, said_dreq;
        unsigned refs, posted, awaiting;
        uint64_t run;              /* information units that were served */
        int64_t limit;             /* requests that may still come */
        enum srp_invariant broken; /* the first */
        enum srp_happening by;     /* what broke it */
};

/* A channel whose connect request has come; now: ms. */
void srp_watch_init(struct srp_watch *w, const struct srp_watch_times *times, uint64_t now);
/* What has happened. The invariant that it breaks, or SRP_INVARIANT_NONE; w->broken keeps the first. */
enum srp_invariant srp_watch_tell(struct srp_watch *w, enum srp_happening what, int64_t value,
                                  uint64_t now);
/* Nothing will happen any more: what then is missing. */
enum srp_invariant srp_watch_end(struct srp_watch *w);

#endif
