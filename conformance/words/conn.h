/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection driven by hand, of either transport: what the words need of it. conn_tcp.h and
 * conn_rdma.h have the rest: how it is made, and what goes out. Every response that comes is
 * checked by the rulebook and what is broken is reported, but the connection goes on as long as it
 * can be read: verdicts are for others. (The machines of pdu/nvme would end it, and lay out what
 * has to go out broken; framer, trackers and verbs are used directly.)
 */
#ifndef NVMF_CONFORMANCE_CONN_H
#define NVMF_CONFORMANCE_CONN_H

#include "conformance/engine/exchange.h"
#include "pdu/io/loop.h"
#include "pdu/nvme/wire/message.h"

enum { CONN_CHANGES = 8 };

/* Of an exchange's line, whose header is a struct message: how opcodes read. */
enum { LINE_IO = 1, LINE_ADMIN };

/* What came: a PDU, over RDMA a response capsule. */
struct seen {
        struct seen *next;
        struct message m;
        uint32_t len; /* of data */
        bool ddgst_bad;
        bool invalidated; /* RDMA: it came by SEND with invalidate, of key */
        uint32_t key;
        uint8_t data[];
};

enum conn_end {
        CONN_OPEN,
        CONN_FIN,
        CONN_RST,
        CONN_UNREADABLE,   /* what came can't be framed */
        CONN_FLOODED,      /* far more came than any case asks for */
        CONN_REJECTED,     /* RDMA: the connect request was */
        CONN_DISCONNECTED, /* RDMA: by the target */
        CONN_BROKEN,       /* RDMA: a work request failed */
        CONN_CLOSED,       /* by us */
        CONN_STARVED,      /* by us, out of memory */
};

struct conn_change {
        const char *field;
        uint64_t value;
};

struct suite_conn;

struct conn_ops { /* what the two kinds do in ways of their own */
        void (*free)(struct suite_conn *c);
        void (*close)(struct suite_conn *c);
        void (*reset)(struct suite_conn *c);
        bool (*wait)(struct suite_conn *c, uint64_t deadline);
};

typedef bool (*seen_fits)(const struct seen *s, uint16_t cid);

struct suite_conn { /* both kinds begin with it */
        const struct conn_ops *kind;
        unsigned no; /* of the case's connections */
        enum conn_end end;
        bool admin; /* how opcodes read in the exchange */
        struct exchange *log;
        struct leaving *leaving; /* takes over what we close; or NULL */

        /* A rule that the target broke, with m (NULL: with no message). */
        void (*broken)(void *arg, enum rule_id rule, const struct message *m);
        void *arg;

        struct seen *inbox, **inbox_end, *taken;
        uint64_t filed; /* how many have come into the inbox */
        uint64_t kept;  /* bytes of all of them, CONN_KEPT for a header, without those let go */
        /* The search that was the last: what stands before `at` does not fit. */
        struct {
                seen_fits fits;
                uint16_t cid;
                struct seen **at;
        } search;

        /* how the next PDU or capsule is changed on its way out */
        struct conn_change change[CONN_CHANGES];
        unsigned changes;
        bool bad_field;     /* a change named a field that it does not have */
        bool violate_armed; /* a violator waits for its PDU */
};

/* Closes it, if it is not, and frees all that was received. */
void conn_free(struct suite_conn *c);
/* Our end of it: FIN or DREQ; RST, or a queue pair that fails. */
void conn_close(struct suite_conn *c);
void conn_reset(struct suite_conn *c);
/* Waits until something more than now is in the inbox, or the connection has ended, or the
 * deadline; false at the deadline. */
bool conn_wait(struct suite_conn *c, uint64_t deadline);
/* Takes the first that fits out of the inbox, NULL if none does; it stays readable until conn_free() or
 * conn_let_go(). The same asked again looks only at what it has not looked at: whether something fits never changes. */
struct seen *conn_take(struct suite_conn *c, seen_fits fits, uint16_t cid);
/* Frees s, which was taken, and the room that it has of what a connection may bring. */
void conn_let_go(struct suite_conn *c, struct seen *s);

/* --- for the two kinds --------------------------------------------------------------------- */

/* For those who make one: all else is zero, admin is true until a Connect says otherwise. */
void conn_init(struct suite_conn *c, const struct conn_ops *kind, unsigned no,
               struct exchange *log);
/* Frees what came. */
void conn_free_seen(struct suite_conn *c);
/* It has ended; the first end counts. */
void conn_over(struct suite_conn *c, enum conn_end how, const char *says);
/* A message with that many bytes of data goes into the exchange; remark may be NULL. */
void conn_log(struct suite_conn *c, bool sent, const struct message *m, uint32_t data,
              const char *remark);
/* Tells c->broken that the peer broke it; RULE_NONE: nothing. */
void conn_breach(struct suite_conn *c, enum rule_id rule, const struct message *m);
void conn_breaches(struct suite_conn *c, const struct rule_set *found, const struct message *m);
/* n bytes, zeroed; NULL: the connection has ended, and the case will be an error. */
void *conn_alloc(struct suite_conn *c, size_t n);
/* Room for what comes, with len bytes of data; NULL: that is too much, the connection has ended. */
struct seen *conn_room(struct suite_conn *c, uint32_t len);
/* To the end of the inbox. */
void conn_file(struct suite_conn *c, struct seen *s);
/* Changes m as asked, and says so in remark; whether anything was changed. */
bool conn_apply_changes(struct suite_conn *c, struct message *m, struct text *remark);

#endif
