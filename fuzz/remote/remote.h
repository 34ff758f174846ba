/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sequences of a host played to a live controller: what a session is and what comes back of it. One
 * scheduler plays them over each transport (schedule.h). All of one loop, on one thread.
 */
#ifndef NVMF_FUZZ_REMOTE_H
#define NVMF_FUZZ_REMOTE_H

#include "fuzz/sequence/sequence.h"
#include "pdu/io/loop.h"

struct remote_target { /* who is played to, and how */
        const struct fuzz_family *family;
        unsigned transport; /* of it */
        const void *peer;   /* where that is, and who asks: the family's */
        unsigned timeout;   /* ms, for set-up and probes */
        unsigned settle;    /* ms without a word: nothing more will be said */
        unsigned hang;      /* ms that an end of ours may stay unanswered */
        unsigned delay;     /* ms that a delay of a sequence takes at most */
        bool allow_write;
        const char
            *reload;      /* command that gives the target the configuration that its argument says;
                             * NULL: steps that want that are left out */
        unsigned reloads; /* how many there are */
        unsigned revokes; /* after this one nobody stays who was there before; 0: there is none */
};

enum remote_end {                 /* of several connections the last one in this order counts */
                  REMOTE_LEFT,    /* by us, as the sequence says; also if it says nothing at all */
                  REMOTE_REFUSED, /* no connection */
                  REMOTE_UNSENT,  /* not played to its end: it would have changed data, or done
                                   * what is to be avoided */
                  REMOTE_DONE,    /* by us, when all was said; the controller closed, too */
                  REMOTE_CLOSED,  /* by the controller */
                  REMOTE_RESET,   /* by the controller, with RST */
                  REMOTE_TERM,    /* by the controller, with a TermReq */
                  REMOTE_HANG, /* by us, and the controller did not close within `hang`, or was not
                                   * done with the orderly end that it was asked for */
                  REMOTE_ENDS
};
const char *remote_end_name(enum remote_end e); /* "refused", ... */

enum { REMOTE_PATH = 64, REMOTE_LOG = 64 * 1024, REMOTE_WHY = 320 };

/* What came back: the end, what the controller broke, and the way there as numbers, one for each
 * word of the controller given the one before it: new numbers are new behaviour. */
struct remote_answer {
        enum remote_end end;
        unsigned steps, pdus; /* played; heard */
        struct rule_set broken;
        unsigned ways;
        uint32_t way[REMOTE_PATH];
        uint32_t word[REMOTE_PATH]; /* the same of each word alone */
        char why[REMOTE_WHY];       /* of REMOTE_REFUSED */
};
/* One more word: a hash of `what` (of any meaning) and of the word before. */
void remote_answer_add(struct remote_answer *a, uint64_t what);

/* All that answers have shown so far, as a map. */
enum { NOVELTY_WAYS = 1 << 16 };
struct novelty {
        uint8_t seen[NOVELTY_WAYS / 8];
};
/* How many of its ways are new. */
unsigned novelty_add(struct novelty *n, const struct remote_answer *a);

/* What went over the connection, as far as it fits: for a capture. */
struct remote_log {
        uint8_t *bytes; /* records: struct remote_bytes and its bytes; REMOTE_LOG of them */
        size_t len;
        bool cut;
};
struct remote_bytes {
        int64_t time; /* ns since 1970 */
        uint32_t n;
        uint8_t on; /* which connection */
        enum party sender;
};
/* Adds n bytes that `sender` sent on connection `on`; from the first that have no room on, none. The
 * first record of each connection says that it is there, and may have no bytes: n 0, p NULL. */
void remote_log_add(struct remote_log *l, unsigned on, enum party sender, const void *p, size_t n);

/* A place where one session after the other is played. */
struct remote_session {
        struct loop *loop;
        const struct remote_target *target;
        unsigned hang; /* ms, as the target's; may be changed between two sessions */
        void (*over)(struct remote_session *s); /* answer is whole; it may be played on at once */
        /* Each message that goes either way over the connection `on`, as the family has it; or NULL. */
        void (*message)(void *user, unsigned on, enum party sender, const void *message);
        void *user;

        const struct sequence *sequence; /* that is played; NULL: none is */
        struct remote_answer answer;
        struct remote_log log;
        uint64_t deadline; /* ms of loop_now_ms(): remote_late() is due */

        /* of schedule.h */
        const struct remote_transport *transport;
        struct remote_conn *conn[SEQ_QUEUES];
        unsigned step, mode;
        bool impatient;    /* an answer did not come: no more waits */
        bool reloaded;     /* the target does not have its first configuration */
        bool blind;        /* it has no descriptors: it is to be polled */
        uint64_t due;      /* ms: what is waited for is late; deadline, unless blind */
        uint64_t patience; /* ms: an answer is not waited for any longer, whatever is said */
};

/* NULL with errno; over, message and user are to be set. loop and target must outlive it. */
struct remote_session *remote_open(struct loop *loop, const struct remote_target *target);
void remote_close(struct remote_session *s);
/* Gives up what is played, without an answer. */
void remote_stop(struct remote_session *s);
/* Plays; `sequence` stays where it is until over(), which may come from within. */
void remote_play(struct remote_session *s, const struct sequence *sequence);
/* For how many ms it has had nothing to do but to wait until the target closes, too; 0: it has more to do,
 * or another session may not begin before its end. */
uint64_t remote_idle(const struct remote_session *s);
/* To be called when its deadline has come, and may be at any time. */
void remote_late(struct remote_session *s, uint64_t now);

#endif
