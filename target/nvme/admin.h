/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of a controller, shared by the files that execute its commands: ctrl.c (association,
 * Connect, properties), admin.c (dispatch), identify.c, logs.c, features.c, discovery.c.
 */
#ifndef NVMF_TARGET_ADMIN_H
#define NVMF_TARGET_ADMIN_H

#include "ctrl.h"

enum {
        ERROR_ENTRIES = 64, /* ELPE + 1 */
        KAS_UNITS = 1,      /* KATO granularity, 100 ms units */
        KATO_MIN = 500,     /* ms */
        AER_MAX = 4,        /* AERL + 1 */
        ABORT_MAX = 4,      /* ACL + 1 */
};

/* Features that are not the machine's; a Controller Reset brings the defaults back. */
struct settings {
        uint32_t dword[32];               /* by FID: those that are one dword without further ado */
        uint16_t temp_over, temp_under;   /* kelvins */
        uint64_t timestamp, timestamp_at; /* ms since 1970, and when it was set */
        bool timestamp_set;
        uint8_t host_behavior[512];
};

struct ctrl {
        pthread_mutex_t lock; /* guards what follows, constants apart */
        struct controller m;
        struct settings settings;
        bool ended;          /* not in the table any more; its queues are closing */
        bool io_lost;        /* an I/O queue went without Disconnect ... */
        uint64_t io_lost_at; /* ... ms; 0: since the last tick */
        struct ctrl_queue *queues, *admin;
        struct log_error errors[ERROR_ENTRIES]; /* ring; entry of error n at (n - 1) % size */
        uint64_t error_count;
        uint32_t changed_ns[LOG_CHANGED_NS_MAX];
        unsigned changed; /* LOG_CHANGED_NS_MAX + 1: too many to list */
        uint64_t view;    /* digest of the discovery log as the host last could see it */
        uint64_t bytes_read, bytes_written, reads, writes; /* of queues that are gone */
        atomic_bool write_through;

        /* constant */
        const struct ctrl_env *env;
        struct auth_config auth;     /* without a key: no authentication */
        struct subsystem *subsystem; /* referenced; NULL: discovery controller */
        uint16_t port_id;
        uint8_t trtype;
        bool single_queues; /* its host, too, can do with one I/O queue less (CATTR of Connect) */
        struct ctrl *next;  /* in the table, by CNTLID; guarded by the table's lock */
};

struct ctrl_table {
        pthread_mutex_t lock;
        unsigned max, count;
        struct ctrl *first;              /* by CNTLID */
        uint16_t last;                   /* CNTLID that was given last */
        _Atomic(struct inventory *) inv; /* NULL before the first Connect */
        _Atomic uint64_t log_reads;      /* of the discovery log: for DISC_GENCTR */
};

static inline bool is_discovery(const struct ctrl *c)
{
        return c->m.cfg.type == CONTROLLER_DISCOVERY;
}

static inline bool waives(const struct ctrl_env *env, enum rule_id rule)
{
        return env->policy && rule_in(&env->policy->waived, rule);
}

static inline bool violates(const struct ctrl_env *env, enum rule_id rule)
{
        return env->policy && rule_in(&env->policy->violated, rule);
}

/* One command being executed. Handlers return its status, leave its result in r->cqe and its data
 * in r->data (r->len bytes, all of which are sent; NULL if there are none). */
struct admin {
        const struct ctrl_env *env;
        struct ctrl *ctrl;
        struct ctrl_queue *queue;
        const struct port *port;
        struct request *r;
        uint64_t now;
        enum ctrl_verdict verdict;
};

uint16_t admin_connect(struct admin *a);
uint16_t admin_identify(struct admin *a);
uint16_t admin_get_log(struct admin *a);
uint16_t admin_features(struct admin *a); /* Set and Get */
uint16_t admin_auth_send(struct admin *a);
uint16_t admin_auth_receive(struct admin *a);

/* Authentication: for a new controller of `s` (NULL: discovery), for each of its queues. */
void auth_set_up(struct ctrl *c, const struct subsystem *s);
void auth_begin(const struct ctrl *c, struct ctrl_queue *q);
/* Whether the command is one of it, and its host has a key. */
bool auth_concerns(const struct ctrl *c, const union sqe *sqe);
/* What other commands end with on a queue whose host has yet to prove who it is; 0: they run. */
uint16_t auth_required(const struct ctrl *c, const struct ctrl_queue *q);
/* What the command transfers, into r->xfer and r->len; non-zero: the status it ends with. */
uint16_t auth_transfer(const struct ctrl_env *env, struct request *r);
uint16_t features_transfer(struct request *r);
bool features_supports(const struct ctrl *c, uint8_t fid);
/* Under the controller's lock. */
void settings_reset(struct ctrl *c);

/* SCT << 8 | SC with DNR, unless trying again may help. */
uint16_t with_dnr(uint16_t status);

/* Takes the table's lock: CNTLIDs of the subsystem's controllers from `from` on, ascending, at most
 * max; their number. */
unsigned ctrl_table_list(struct ctrl_table *t, const struct subsystem *s, uint16_t from,
                         le16_t *list, unsigned max);
/* Under the table's lock: a free CNTLID, as late as can be one that was used before (0: none); and
 * into the table. */
uint16_t ctrl_table_cntlid(struct ctrl_table *t, const struct subsystem *s);
void ctrl_table_add(struct ctrl_table *t, struct ctrl *c);

/* Under the controller's lock. */
void ctrl_add_queue(struct ctrl *c, struct ctrl_queue *q);
/* What may run on them has changed. */
void ctrl_update_queues(struct ctrl *c);
/* The connection of the queue ends as soon as the command is answered; nothing comes after. */
void ctrl_leave_queue(struct ctrl_queue *q);
/* Completes AERs for the events that there are. */
void ctrl_send_events(struct ctrl *c);
/* An entry of the error log; sqe NULL: not about a command. */
void ctrl_add_error(struct ctrl *c, uint16_t sqid, const union sqe *sqe, uint16_t status);
/* Property Set, with what follows from it for the queues. True: AERs went, answer later. */
bool ctrl_set_property(struct ctrl_queue *q, struct request *r, uint64_t now);

void ctrl_free(struct ctrl *c); /* one without queues */

/* Where a part of a log page goes: `len` bytes at `out`, from offset `at` of the page on. */
struct window {
        uint8_t *out;
        uint64_t at;
        uint32_t len;
};
/* Puts n bytes that stand at offset `pos` of the page, as far as they are in the window. */
void window_put(const struct window *w, uint64_t pos, const void *bytes, size_t n);

/*
 * The discovery log that the controller's host sees through `port` (NULL: it is gone), under the
 * inventory's lock. Size in bytes; the part in the window; a digest of its entries.
 */
uint64_t discovery_log_size(const struct ctrl *c, const struct port *port);
void discovery_log(const struct ctrl *c, const struct port *port, const struct window *w);
uint64_t discovery_view(const struct ctrl *c, const struct port *port);

#endif
