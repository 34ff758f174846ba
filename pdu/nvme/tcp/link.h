/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of an NVMe/TCP connection, without the socket: framer and tracker for what comes in, a
 * queue of PDUs for what goes out, and termination (T1.0 3.5). The controller side, the host side
 * and the suite's hand-driven connection are built on it.
 *
 * States only ever move down the list.
 */
#ifndef NVMF_MACHINE_LINK_H
#define NVMF_MACHINE_LINK_H

#include <sys/uio.h>

#include "framer.h"
#include "spoil_tcp.h"
#include "track.h"

enum link_state {
        LINK_CONNECTING, /* IC exchange not done */
        LINK_LIVE,
        LINK_TERMINATING, /* a fatal fault: input is dropped, TermReq is on its way out */
        LINK_CLOSING,     /* nothing more to send: close the socket (after a while, if the peer has
                           * still to read our TermReq: it has if link_term_sent()) */
        LINK_DEAD,        /* the connection is gone */
};
/* "connecting" ... */
const char *link_state_name(enum link_state s);

/* A PDU on its way out; owned by whoever sends it, who keeps it (and data) until sent() is called.
 */
enum tx_end { TX_GOES_ON, TX_CLOSES, TX_RESETS };
#define TX_WHOLE                                                                                   \
        (UINT32_MAX - 1) /* the bytes of a PDU; any other number: so many of them, or all */
#define TX_HALF UINT32_MAX

struct tx {
        struct tx *next;
        uint8_t *head; /* laid out by link_send(): header and HDGST; room for hlen + 4 bytes */
        const uint8_t *data; /* NULL if none */
        uint32_t data_len;
        uint16_t head_len;
        uint8_t pad, ddgst_len;
        uint8_t ddgst[PDU_DIGEST_LEN];
        bool data_writable; /* a violator may change the data */
        bool twice;         /* sent once more (a violator's wish) */
        enum tx_end
            end; /* the connection ends with it, on purpose: in LINK_CLOSING or LINK_DEAD ... */
        uint32_t end_at;                         /* ... after so many bytes of it */
        const union sqe *sqe;                    /* command that it belongs to, or NULL */
        void (*sent)(struct tx *tx, void *user); /* may be NULL; not called when the link dies */
};

struct link_config {
        enum party side;
        const struct rule_policy *policy; /* may be NULL; outlives the link */
        struct track_limits limits;
        bool manual; /* faults and TermReqs of the peer are only reported: no TermReq is sent, and
                      * the state falls below LINK_LIVE by link_close() and link_kill() alone */
};

struct link {
        struct link_config cfg;
        enum link_state state;
        struct framer rx;
        struct track *track;
        struct tx *tx_first, **tx_last;
        size_t tx_done;     /* bytes of tx_first that are out */
        struct fault fault; /* the peer's fault that ended it, or that was seen last if manual */
        struct {
                uint16_t fes;
                uint32_t fei;
                bool seen;
        } peer_term; /* TermReq that the peer sent */
        struct tx term_tx;
        uint8_t term[PDU_TERM_MAX];
        void *user; /* handed to tx->sent and to sending */
        /* Each PDU that link_send() has laid out: may spoil it, and have the connection end with it. NULL:
         * nobody is asked. */
        void (*sending)(void *user, struct tx *tx, struct spoil *s);

        /* its own */
        uint8_t in_hand;  /* how far the PDU in rx.header has been handed out */
        bool spoils;      /* the policy violates something */
        uint32_t segment; /* bytes that are sent at once; 0: as many as there are */
        bool lawful;      /* nobody told it to depart from a rule: whatever it sends is right */
        bool deaf;        /* input is dropped */
        bool skip;        /* the PDU in hand is not to be seen */
        bool term_queued;
};

/* 0, or -1: out of memory. */
int link_init(struct link *l, const struct link_config *cfg, void *user);
/* What the policy points to has changed. What was seen until then stays as it was judged. */
void link_renew(struct link *l);
void link_fini(struct link *l);

/*
 * Input: as framer_recv_iov()/framer_received(); attach buffers to l->rx. Once the link is
 * terminating, bytes still have to be read (so that the peer gets our TermReq, and no reset
 * instead) and are dropped.
 */
int link_recv_iov(struct link *l, struct iovec iov[2]);
void link_received(struct link *l, size_t n);

/*
 * The next event, tracked: FRAMER_HEADER and FRAMER_PDU mean that the PDU broke no rule that ends
 * the connection. FRAMER_FAULT: l->fault says what; the TermReq is queued (unless manual) and the
 * state is LINK_TERMINATING or below. A received TermReq closes: FRAMER_PDU with its header, state
 * LINK_CLOSING. After ICResp went either way both formats are in force by themselves.
 *
 * manual: a fault that leaves the stream readable is only noted in l->fault, and the event is
 * returned as if there were none; FRAMER_FAULT is left for those that do not, forever after.
 */
enum framer_event link_next(struct link *l);

/*
 * Queues a PDU: lays it out (tx->head holds the header with type, own fields and LAST/SUCCESS),
 * applies violators, sums digests, tracks. The header is copied nowhere: it must stay. In debug
 * builds a rule that we break ourselves without being told to is an assertion.
 *
 * A link that is terminating or below takes nothing: the PDU is forgotten, sent() not called.
 */
void link_send(struct link *l, struct tx *tx);

/* Queues a PDU as it stands: head, head_len, pad, data, ddgst and ddgst_len are the caller's,
 * nothing is checked or tracked. For those who break rules by hand. */
void link_send_raw(struct link *l, struct tx *tx);

/* Ends the connection for `fault`: TermReq with FES, FEI and the header of the PDU in hand. */
void link_terminate(struct link *l, struct fault fault);
/* Ends it without a word: what is queued is forgotten, LINK_CLOSING. */
void link_close(struct link *l);
/* The socket is gone, or to be reset: LINK_DEAD. */
void link_kill(struct link *l);
/* Ends it without a word as soon as what is queued is out; nothing more is received or queued. */
void link_finish(struct link *l, enum tx_end end);

/* Output: up to max iovecs (0: nothing to send), then how many bytes went out. */
int link_send_iov(struct link *l, struct iovec *iov, int max);
/* Cuts iovecs at so many bytes; how many of them are left. */
int link_shorten(struct iovec *iov, int n, size_t bytes);
void link_sent(struct link *l, size_t n);
static inline bool link_wants_send(const struct link *l)
{
        return l->tx_first != NULL;
}

/* Whether the peer got a TermReq from us, and should be given the time to read it. */
static inline bool link_term_sent(const struct link *l)
{
        return l->term_queued && l->state == LINK_CLOSING;
}

/* Whether the policy tells this end to break its own rule, or to overlook one of the peer's. */
static inline bool link_violates(const struct link *l, enum rule_id rule)
{
        return l->spoils && rule_in(&l->cfg.policy->violated, rule);
}

static inline bool link_waives(const struct link *l, enum rule_id rule)
{
        return l->cfg.policy && rule_in(&l->cfg.policy->waived, rule);
}

#endif
