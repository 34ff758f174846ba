/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A channel driven by hand, upon an endpoint (pdu/verbs/rdma_ep.h): any login, any IU, any descriptor, and every way to
 * end. All channels of a case share one group, which is moved on by whoever waits for one of them. What the target says
 * is judged as it comes (pdu/srp/machine/channel.h), and its WRITEs are: all memory that it may reach is compared with what
 * it should be at each response.
 */
#ifndef NVMF_CONFORMANCE_SRP_CHAN_H
#define NVMF_CONFORMANCE_SRP_CHAN_H

#include "conformance/engine/suite.h"
#include "pdu/srp/machine/channel.h"
#include "pdu/verbs/rdma_ep.h"

enum {
        CHAN_ARENA = 256 << 10, /* bytes that the target may reach */
        CHAN_DEEP = 160,        /* IUs of either direction that may be on their way, */
        CHAN_AT_ONCE = 152,     /* and commands: what else is said has room beside them */
        CHAN_SLOT = 512,        /* a usual IU, ... */
        CHAN_LARGE = 8320,      /* and one of these */
        CHAN_LARGES = 4,
        CHAN_IU_IN = 320,
        CHAN_IMM_AT = 68, /* after a command and a descriptor, as Linux has it */
        CHAN_PIECES = 32, /* of memory that a command describes */
};

struct chan_iu { /* that came */
        struct chan_iu *next;
        uint32_t n;
        uint8_t p[CHAN_IU_IN];
};

struct chan_login {     /* a login request that is not as usual */
        unsigned other; /* which initiator port of the case: 0 is its own */
        uint8_t flags;
        uint32_t it_iu;    /* 0: what the target has accepted; at first 8260, as Linux asks for */
        uint16_t formats;  /* 0: likewise; direct and indirect */
        uint16_t imm_at;   /* 0: CHAN_IMM_AT, where immediate data is asked for */
        bool no_formats;   /* asks for none */
        bool other_target; /* names another target port */
        bool no_receives;  /* posts none */
        uint8_t opcode;    /* in place of SRP_LOGIN_REQ */
        uint8_t reserved;  /* of reserved bytes */
        int len;           /* bytes of it that are sent; 0: all; -1: none */
};

struct chan_range { /* of the arena, that a command may change */
        uint32_t at, len;
};

struct order { /* a command as it grows; of its case */
        struct chan *chan;
        struct order *next; /* outstanding */
        uint8_t iu[CHAN_LARGE];
        uint32_t n;
        uint64_t tag;
        uint32_t arena_at; /* memory that it has from here on */
        struct chan_range in[CHAN_PIECES], out[CHAN_PIECES];
        unsigned ins, outs;
};

enum chan_state { CHAN_NEW, CHAN_ASKED, CHAN_LIVE, CHAN_REJECTED, CHAN_ENDED };

struct chan {
        struct rdma_ep ep; /* first */
        struct chan *next;
        struct t *t;
        unsigned number;
        struct verbs_domain *domain;
        struct verbs_mr mr;
        bool registered;
        uint8_t *memory, *arena, *shadow; /* shadow: what the arena should be */
        uint32_t arena_used;
        uint8_t *slow; /* in the arena: where READs of the slow unit go; NULL: there was none */
        struct verbs_wr send[CHAN_DEEP], recv[CHAN_DEEP];
        bool out[CHAN_DEEP], large_out[CHAN_LARGES];
        struct verbs_wr large[CHAN_LARGES];
        unsigned sent;

        struct chan_login how;
        struct srp_login_req asked;
        struct srp_login_rsp rsp;
        struct srp_login_rej rej;
        bool has_rej;
        int reason; /* the CM's, of a rejection */
        struct srp_channel *seen;
        enum chan_state state;
        bool disconnected; /* the CM says so */
        bool failed;       /* a work request, or the queue pair */
        bool mute;         /* requests of the target are not answered, */
        bool deaf;         /* nor is its DREQ */
        bool overruns;     /* more requests are sent on it than its limit permits */
        bool left;         /* SRP_T_LOGOUT came */
        uint32_t left_for;
        int64_t limit, awaited; /* request limit, and the one that somebody waits for */
        uint64_t tag;           /* of the next request */
        struct chan_iu *first, **last;
        struct order *orders;
};

/* Resolved, with a queue pair and receives; ends the case as an error where that cannot be. */
struct chan *chan_new(struct t *t, const struct chan_login *how);
/* The connect request, with the login of `how`. */
void chan_connect(struct chan *c);
/* Waits until it is accepted or rejected, or ended; false at the deadline. */
bool chan_is_decided(struct chan *c, uint64_t deadline);
/* It was rejected by the CM, which has no room or still knows the last connection. */
bool chan_is_cm_busy(const struct chan *c);
/* Waits until an IU is there; false: none, and the end, or the deadline. */
bool chan_has_iu(struct chan *c, uint64_t deadline);
/* Waits until the request limit is `least` or above, a request of the target is there that is to be answered, or
 * nothing more will come; false at the deadline. */
bool chan_has_limit(struct chan *c, int64_t least, uint64_t deadline);
/* Waits until the target has ended it; false at the deadline. */
bool chan_is_ended(struct chan *c, uint64_t deadline);
/* Waits until the CM says that it is disconnected. */
bool chan_is_disconnected(struct chan *c, uint64_t deadline);
/* Sees to what has come so far. */
void chan_look(struct chan *c);
/* Takes the first IU that came; chan_has_iu() said that there is one. Good until the case ends. */
const struct chan_iu *chan_take(struct chan *c);
/* SRP_CRED_REQ or SRP_AER_REQ, whole. */
bool chan_is_request(const struct chan_iu *iu);
/* Takes the first request of the target that came, likewise; NULL: there is none. */
const struct chan_iu *chan_take_request(struct chan *c);
/* Sends n bytes as they are; `counted`: the judge learns of it as an IU. What cannot be sent because the channel has
 * ended is dropped. */
void chan_send(struct chan *c, const void *iu, uint32_t n, bool counted);
/* DREQ; the queue pair fails and nobody is told; all of it is gone at once. */
void chan_leave(struct chan *c);
void chan_fail(struct chan *c);
void chan_vanish(struct chan *c);

/* So many bytes of the arena, zeroes or whatever is put there before it is sent. */
uint8_t *chan_memory(struct chan *c, uint32_t len);
/* Where a piece of the arena is, for who is to reach it. */
struct srp_desc chan_desc(const struct chan *c, const uint8_t *p, uint32_t len);

/* family.begin(), settle() and end(). */
void chan_world_begin(struct t *t);
void chan_world_settle(struct t *t);
void chan_world_end(struct t *t);
/* family.fields(). */
void chan_fields(const struct exchange_line *l, char *buf, size_t size);

#endif
