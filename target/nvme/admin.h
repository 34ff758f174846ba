/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of a controller, shared by the files that execute its commands: ctrl.c (association,
 * Connect, properties), admin.c (dispatch), identify.c, logs.c, features.c, discovery.c.
 */
#ifndef NVMF_TARGET_ADMIN_H
#define NVMF_TARGET_ADMIN_H

#include "ana.h"
#include "ctrl.h"
#include "target/nvme/metrics.h"

enum {
        ERROR_ENTRIES = 64, /* ELPE + 1 */
        KAS_UNITS = 1,      /* KATO granularity, 100 ms units */
        KATO_MIN = 500,     /* ms */
        AER_MAX = 4,        /* AERL + 1 */
        ABORT_MAX = 4,      /* ACL + 1 */
};

enum { /* feature 15h, 100 ms: the shortest and the longest interval of its events */
       LBA_INTERVAL = 1,
       LBA_INTERVAL_MAX = 6000,
};

/* Log page 0Eh as a host has begun to read it. */
struct lba_log {
        size_t len;
        uint8_t bytes[];
};

enum { NOTICE_PAGES = 16 };

/* Reservation Notification log pages that wait to be read, and which notices make none. */
struct notices {
        struct log_reservation page[NOTICE_PAGES]; /* a ring */
        unsigned first, count;
        uint64_t made; /* ever, lost ones too: the count of the last one */
        uint8_t masked[CTRL_NSID_MAX + 1];
};

enum {
        EXTENDED_FORMAT =
            1, /* where there are extended formats of protection information, the second one, ... */
        EXTENDED_STS = 16, /* ... of a 32b guard, with so many bits of a storage tag */
};

/* Features that are not the machine's; a Controller Reset brings the defaults back. */
struct settings {
        uint32_t dword[32];               /* by FID: those that are one dword without further ado */
        uint16_t temp_over, temp_under;   /* kelvins */
        uint64_t timestamp, timestamp_at; /* ms since 1970, and when it was set */
        bool timestamp_set;
        uint64_t reset_at; /* ms: the last Controller Level Reset */
        uint8_t host_behavior[512];
        uint32_t progress; /* Software Progress Marker: kept over resets */
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
        uint64_t error_count, errors_gone;      /* gone: those from before the last reset */
        uint32_t changed_ns[LOG_CHANGED_NS_MAX];
        unsigned changed; /* LOG_CHANGED_NS_MAX + 1: too many to list */
        uint32_t changed_allocated_ns[LOG_CHANGED_NS_MAX];
        unsigned changed_allocated; /* the same of those that are not attached, too */
        struct notices notices;
        struct lba_log *lba_log; /* NULL: not begun */
        uint16_t lba_generation; /* LSGC */
        uint64_t lba_seen;       /* ns_times_marked() of all, as the log page has it, ... */
        uint64_t lba_told;       /* ... as the host was told, ... */
        uint64_t lba_told_at;    /* ... ms */
        uint64_t view;           /* digest of the discovery log as the host last could see it */
        uint64_t bytes_read, bytes_written, reads, writes; /* of queues that are gone */
        atomic_bool write_through;
        _Atomic uint16_t copy_formats; /* CDFE of feature 16h */
        _Atomic bool extended;         /* LBAFEE of it */
        struct ana_view *ana;          /* NULL: its subsystem does not report ANA */
        bool asked_lba_status;         /* by the last command: for FLAW_FORMAT_BUSY */
        bool recorded_feature;         /* a Set Feature event: for FLAW_PEL_FEATURE_ONCE */
        struct pel_context *pel;       /* reporting context of the Persistent Event log, or NULL */

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
        /* Written with the lock held, read without. */
        metric io, discovery;    /* controllers that there are */
        metric refused, expired; /* Connects for a limit; associations by Keep Alive */
};

static inline bool is_discovery(const struct ctrl *c)
{
        return c->m.cfg.type == CONTROLLER_DISCOVERY;
}

/* The namespaces that are attached to it: one of them, the first one, the next one; NULL: there is none.
 * On a reactor, or under the inventory's lock. */
static inline struct ns *ctrl_ns(const struct ctrl *c, uint32_t nsid)
{
        return ns_attached(c->subsystem, nsid, c->m.hostnqn, c->m.cntlid);
}

static inline struct ns *ctrl_first_ns(const struct ctrl *c)
{
        return c->subsystem ? ns_attached_from(c->subsystem->ns, c->m.hostnqn, c->m.cntlid) : NULL;
}

static inline struct ns *ctrl_next_ns(const struct ctrl *c, const struct ns *ns)
{
        return ns_attached_from(ns->next, c->m.hostnqn, c->m.cntlid);
}

static inline bool waives(const struct ctrl_env *env, enum rule_id rule)
{
        return env->policy && rule_in(&env->policy->waived, rule);
}

static inline bool violates(const struct ctrl_env *env, enum rule_id rule)
{
        return env->policy && rule_in(&env->policy->violated, rule);
}

static inline bool has_flaw(const struct ctrl_env *env, enum flaw_id flaw)
{
        return flawed(env->policy, flaw);
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
        uint64_t csinfo; /* of its entry in the error log, if it fails */
};

/* Handlers: see struct admin. admin_connect() also of I/O queues: takes the inventory's lock
 * and the table's. */
uint16_t admin_connect(struct admin *a);
/* I/O queues that a new controller of `s` (NULL: discovery) may have. */
unsigned ctrl_queues_max(const struct ctrl_env *env, const struct subsystem *s);
uint16_t admin_identify(struct admin *a);
uint16_t admin_format(struct admin *a);
/* ns_manage.c */
uint16_t admin_ns_management(struct admin *a);
uint16_t admin_ns_attachment(struct admin *a);
enum { SUBSYSTEM_CAPACITY = 64 << 20, ATTACHED_MAX = 8 };  /* TNVMCAP, MAXCNA */
uint64_t subsystem_unallocated(const struct subsystem *s); /* UNVMCAP */
/* lockdown.c. The status of a command that is prohibited; 0: it is not. */
uint16_t admin_lockdown(struct admin *a);
uint16_t lockdown_bars(const struct ctrl *c, uint8_t opc);
/* Sanitize (sanitize.c). While it runs, and after it has failed, most commands are aborted: what I/O commands end with
 * (0: they may be; s may be NULL), and whether this admin command is. */
uint16_t admin_sanitize(struct admin *a);
uint16_t sanitize_io_status(const struct subsystem *s);
bool sanitize_bars(const struct ctrl *c, const union sqe *sqe);
/* Under the table's lock: ends those whose time is up. */
void sanitize_tick(struct ctrl_table *t, uint64_t now);
/* What is to be done with the reporting context of the Persistent Event log (ACT). */
enum pel_action { PEL_READ, PEL_ESTABLISH, PEL_RELEASE, PEL_HEADER, PEL_NONE };
enum pel_action pel_action(const union sqe *sqe); /* PEL_NONE: the command reads another log page */
/* Identify Controller data, into zeroes. */
void identify_fill(const struct ctrl *c, struct id_ctrl *id);
/* Handlers. */
uint16_t admin_get_log(struct admin *a);
uint16_t admin_features(struct admin *a); /* Set and Get */
uint16_t admin_auth_send(struct admin *a);
uint16_t admin_auth_receive(struct admin *a);
uint16_t admin_auth_done(struct admin *a); /* of the two: what was computed on another thread */

/* Authentication: for a new controller of `s` (NULL: discovery), for each of its queues. */
void auth_set_up(struct ctrl *c, const struct subsystem *s);
void auth_begin(const struct ctrl *c, struct ctrl_queue *q, uint64_t now);
/* AUTHREQ of Connect's answer. */
uint32_t auth_demand(const struct ctrl_queue *q);
/* Whether the command is one of it, and its host has a key. */
bool auth_concerns(const struct ctrl *c, const union sqe *sqe);
/* What other commands end with on a queue whose host has yet to prove who it is; 0: they run. */
uint16_t auth_required(const struct ctrl *c, const struct ctrl_queue *q);
/* The transaction by which a host proves itself once more is over, if there is one. */
void auth_drop(struct ctrl *c, struct ctrl_queue *q);
/* What the command transfers, into r->xfer and r->len; non-zero: the status it ends with. */
uint16_t auth_transfer(const struct ctrl_env *env, struct request *r);
uint16_t features_transfer(struct request *r);
bool feature_is_of_ns(uint8_t fid);                        /* not the controller's */
bool feature_is_shared(uint8_t fid);                       /* the subsystem's */
bool features_supports(const struct ctrl *c, uint8_t fid); /* of its type of controller */
/* Of a new controller; after a reset, under the controller's lock. now: ms. */
void settings_begin(struct ctrl *c, uint64_t now);
void settings_reset(struct ctrl *c, uint64_t now);
/* What Get Features of Timestamp returns now; under the controller's lock. */
struct pel_stamp settings_stamp(const struct ctrl *c, uint64_t now);
enum { ROOM_TEMP = 300 }; /* kelvins: what the composite temperature is */
/* Whether that is beyond a threshold; under the controller's lock. */
bool settings_too_hot(const struct ctrl *c);
/* On a reactor, without a lock: a command has been executed, with the status in r->cqe, and ends with that, or with
 * its flush. If it is a Set Features of write protection, what it changed is told to hosts, or put back where it failed. */
void features_protected(const struct ctrl *c, const struct request *r, bool ends);
/* ... and its flush has ended with that status: where that failed, all is put back, and told again. */
void features_flushed(const struct ctrl *c, const struct request *r);

/* Whether it is the Set Features that waits for the disks of its namespaces, CTRL_PARKED with r->user set; it has: its
 * status. */
bool features_persists(const struct request *r);
uint16_t features_persistent(struct admin *a);

/* Takes the oldest page of the log away, under the controller's lock; all zero: there is none. */
struct log_reservation notices_read(struct ctrl *c);

/* SCT << 8 | SC with DNR, unless trying again may help. */
uint16_t with_dnr(uint16_t status);

/* Takes the table's lock: CNTLIDs of the subsystem's controllers from `from` on, those that the namespace
 * is attached to (NULL: all), ascending, at most max; their number. */
unsigned ctrl_table_list(struct ctrl_table *t, const struct subsystem *s, const struct ns *ns,
                         uint16_t from, le16_t *list, unsigned max);
/* These three under the table's lock: a free CNTLID, as late as can be one that was used before; 0: none. */
uint16_t ctrl_table_cntlid(struct ctrl_table *t, const struct subsystem *s);
/* Whether a controller of s has this CNTLID. */
bool ctrl_table_has(const struct ctrl_table *t, const struct subsystem *s, uint16_t cntlid);
/* Sorted by CNTLID, and counted. */
void ctrl_table_add(struct ctrl_table *t, struct ctrl *c);

/* Under the controller's lock. */
void ctrl_add_queue(struct ctrl *c, struct ctrl_queue *q);
/* What may run on them has changed. */
void ctrl_update_queues(struct ctrl *c);
/* The connection of the queue ends as soon as the command is answered; nothing comes after. */
void ctrl_leave_queue(struct ctrl_queue *q);
/* Whether a command that was answered with this status when it came counts for Keep Alive. Each that is fetched
 * does, however it ends (3.9.4.1); but what is refused to a host that has yet to authenticate itself is not
 * known to be of the host that the controller is kept for. */
bool ctrl_is_traffic(const struct ctrl_queue *q, uint16_t status);
/* Completes AERs for the events that there are. */
void ctrl_send_events(struct ctrl *c);
/* An entry of the error log; sqe NULL: not about a command. */
void ctrl_add_error(struct ctrl *c, uint16_t sqid, const union sqe *sqe, uint16_t status);
/* Takes the table's lock, then those of its controllers: one of each of the subsystem; how many. */
unsigned ctrl_table_resets(struct ctrl_table *t, const struct subsystem *s, uint64_t now,
                           struct pel_reset *list, unsigned max);
/* How many there have been on all controllers. */
uint64_t ctrl_errors_of_all(void);
/* Property Set, with what follows from it for the queues. True: AERs went, answer later. */
bool ctrl_set_property(struct ctrl_queue *q, struct request *r, uint64_t now);

void ctrl_free(struct ctrl *c); /* one without queues */

/* Where a part of a log page goes: `len` bytes at `out`, from offset `at` of the page on. */
struct window {
        uint8_t *out;
        uint64_t at;
        uint32_t len;
};
/* Log pages 14h, 81h. */
void lockdown_log(struct admin *a, const struct window *w);
void sanitize_log(struct admin *a, const struct window *w);
/* Puts n bytes that stand at offset `pos` of the page, as far as they are in the window. */
void window_put(const struct window *w, uint64_t pos, const void *bytes, size_t n);

struct discovery_part {
        bool local; /* without what is behind other ports */
        bool all;   /* of every port and for every host */
};
/*
 * The discovery log that the controller's host sees through `port` (NULL: it is gone), under the
 * inventory's lock. Size in bytes; the part in the window; a digest of its entries.
 */
uint64_t discovery_log_size(const struct ctrl *c, const struct port *port,
                            struct discovery_part part);
void discovery_log(const struct ctrl *c, const struct port *port, struct discovery_part part,
                   const struct window *w);
uint64_t discovery_view(const struct ctrl *c, const struct port *port);

enum { LBA_RANGES_LEN = 4096, PERFORMANCE_LEN = 4096 };
/* Performance Characteristics, feature 1Ch (performance.c): set or get. *value: dword 0. */
uint16_t performance(struct admin *a, uint32_t *value);
/* LBA Range Type, feature 03h (lba_ranges.c). *value: what Get Features returns in dword 0. */
uint16_t lba_ranges_set(struct admin *a);
/* Into a->r->data; current: what was set, else the default. */
uint16_t lba_ranges_get(struct admin *a, bool current, uint32_t *value);

/* Get LBA Status, log page 0Eh and feature 15h (lba_status.c). Sets *value to what the command returns. */
uint16_t admin_lba_status(struct admin *a);
/* The log from byte `offset` on into a->r->data. retain: RAE, it is shown again and the alert stays masked. */
uint16_t lba_status_log(struct admin *a, uint64_t offset, bool retain);
/* Set Features of the interval: *value is the closest one that there is. */
uint16_t lba_status_interval(struct admin *a, uint32_t *value);
/* Under the controller's lock, on a reactor: tells its host of blocks that were marked since. */
void lba_status_tick(struct ctrl *c, uint64_t now);

#endif
