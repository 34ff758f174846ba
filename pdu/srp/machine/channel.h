/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One RDMA channel of SRP as whoever sees all of it knows it: what the login agreed on, the request
 * limit, which requests are outstanding and what memory they have described. It is told what each side
 * says, in order, and finds what that breaks, on either side. It does no I/O and has no memory but its
 * own; it is passive, so the same one serves both ends, captures and fuzzers.
 *
 * It never guesses: what has not been seen (srp_channel_miss()) is not held against anybody.
 */
#ifndef NVMF_SRP_MACHINE_CHANNEL_H
#define NVMF_SRP_MACHINE_CHANNEL_H

#include "pdu/srp/wire/srp.h"

enum {
        SRP_CHANNEL_REQUESTS = 256, /* outstanding at a time; of more, not all is judged */
        SRP_CHANNEL_RANGES = 8,     /* pieces of memory of one request; likewise */
        SRP_CHANNEL_ASKED = 4,      /* requests of the target, likewise */
};

enum srp_state {
        SRP_STATE_NEW,    /* nothing was seen, or its beginning was not */
        SRP_STATE_ASKED,  /* the initiator has asked for a login */
        SRP_STATE_OPEN,   /* ... and the target has accepted */
        SRP_STATE_CLOSED, /* rejected, or over */
};
const char *srp_state_name(enum srp_state s); /* "new", "login", "live", "closed" */

struct srp_request { /* SRP_CMD or SRP_TSK_MGMT without its response */
        bool used;
        bool doubtful; /* task management may have ended it silently */
        bool whole;    /* `range` has all the memory that it describes */
        bool stale;    /* requests were missed since: another one may have its tag by now */
        uint8_t type, function, sol_not;
        uint8_t ranges;
        uint64_t tag, lun, task_tag;
        uint32_t out_len, in_len; /* bytes */
        struct srp_range {
                struct srp_desc desc;
                bool written; /* by the target; else read */
                bool table;   /* of descriptors: it is no data */
        } range[SRP_CHANNEL_RANGES];
};

struct srp_channel {
        enum srp_state state;
        struct srp_login_req asked;   /* from SRP_STATE_ASKED on */
        struct srp_login_rsp granted; /* from SRP_STATE_OPEN on, if `agreed` */
        bool agreed;                  /* the login response was seen and is one */
        bool missing[2];              /* something that this party sent was not seen */
        bool overfull;                /* there were more requests than there is room for */
        bool left[2];                 /* this party has logged out */
        int64_t given;                /* all deltas so far */
        int64_t gifts;                /* ... the positive ones */
        uint64_t taken;               /* requests that were sent */
        struct srp_request request[SRP_CHANNEL_REQUESTS];
        struct srp_asked { /* SRP_CRED_REQ or SRP_AER_REQ that is not answered */
                uint8_t type;
                uint64_t tag;
                bool used;
        } target_request[SRP_CHANNEL_ASKED];
};

/* Nothing has been said yet. It owns no memory. */
void srp_channel_init(struct srp_channel *c);

/* What was said, n bytes at p. Rules that it breaks are added to found. */

/* Private data of the connect request; native: a whole IU, else the form of RDMA CM. */
void srp_channel_login(struct srp_channel *c, const void *p, uint32_t n, bool native,
                       struct rule_set *found);
/* Private data of its acceptance, or of its rejection by the target itself; padded or not. */
void srp_channel_accept(struct srp_channel *c, const void *p, uint32_t n, struct rule_set *found);
void srp_channel_reject(struct srp_channel *c, const void *p, uint32_t n, struct rule_set *found);
/* A SEND: one IU, whole. */
void srp_channel_iu(struct srp_channel *c, enum party sender, const void *p, uint32_t n,
                    struct rule_set *found);
/* The target READs or WRITEs the initiator's memory. */
void srp_channel_transfer(struct srp_channel *c, bool writes, const struct srp_desc *memory,
                          struct rule_set *found);

/* Something that `sender` said is not known. */
void srp_channel_miss(struct srp_channel *c, enum party sender);
/* Task management on another channel of the nexus may have ended requests for this logical unit. */
void srp_channel_doubt(struct srp_channel *c, uint64_t lun);
/* The connection has ended, by whomever. */
void srp_channel_close(struct srp_channel *c);

/* Where immediate data begins in SRP_CMD, bytes; 0: there is none. */
uint32_t srp_channel_immediate(const struct srp_channel *c);
/* Requests that the initiator may still send; 0 if none, or if that is not known. */
uint32_t srp_channel_limit(const struct srp_channel *c);
/* The request that is outstanding under this tag; NULL: none. */
const struct srp_request *srp_channel_find(const struct srp_channel *c, uint64_t tag);
/* How many are outstanding. */
unsigned srp_channel_outstanding(const struct srp_channel *c);

#endif
