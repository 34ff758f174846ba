/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a target serves: subsystems with namespaces and allowed hosts, behind ports. One inventory per
 * target; it changes live (configuration re-read) under its lock, and every change that a discovery
 * log shows moves genctr.
 */
#ifndef NVMF_TARGET_SUBSYSTEM_H
#define NVMF_TARGET_SUBSYSTEM_H

#include <pthread.h>
#include <stdatomic.h>

#include "pdu/wire/fabrics.h"

struct ns;

/*
 * A namespace's storage. All calls come from reactor threads, several at once; lba and count are in
 * blocks and inside the namespace. A block is never torn: a read sees each block as one write left
 * it. They return SCT << 8 | SC.
 */
struct ns_ops {
        const char *name; /* "mem", "file", "null" */
        uint16_t (*read)(struct ns *ns, uint64_t lba, uint32_t count, uint8_t *buf);
        uint16_t (*write)(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf, bool fua);
        uint16_t (*flush)(struct ns *ns);
        uint16_t (*zero)(struct ns *ns, uint64_t lba, uint64_t count, bool deallocate);
        /* One atomic step: equal to cmp (count blocks)? then write buf; else NVME_COMPARE_FAILURE. */
        uint16_t (*compare_write)(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *cmp,
                                  const uint8_t *buf, bool fua);
        uint16_t (*resize)(struct ns *ns, uint64_t blocks);
        void (*close)(struct ns *ns);
};

struct ns {
        uint32_t nsid;     /* 1.. */
        uint8_t lbads;     /* 9 or 12 */
        uint64_t blocks;
        uint8_t uuid[16], nguid[16];
        char *path;        /* as configured: "mem:64M", "null:1G", a file */
        const struct ns_ops *ops;
        void *store;       /* the backend's */
        _Atomic unsigned refs; /* commands in flight; removed when the last one ends */
        struct ns *next;   /* in its subsystem, ascending nsid */
};

struct host_entry { /* an allowed host */
        char nqn[NQN_MAX + 1];
        struct host_entry *next;
};

struct subsystem {
        char nqn[NQN_MAX + 1], serial[21], model[41], firmware[9];
        bool allow_any_host;
        uint16_t cntlid_min, cntlid_max, qid_max;
        struct host_entry *hosts;
        struct ns *ns;
        struct ctrl *ctrls; /* live controllers of it: see ctrl.h */
        struct subsystem *next;
};

struct port_subsystem {
        struct subsystem *subsystem;
        struct port_subsystem *next;
};

struct port {
        uint16_t id;
        uint8_t trtype, adrfam, treq;
        char traddr[256], trsvcid[32]; /* as listened to: port 0 is replaced by the real one */
        struct port_subsystem *subsystems;
        struct port *next;
};

struct inventory {
        pthread_rwlock_t lock; /* read: look-ups by connects and admin commands; write: changes */
        struct subsystem *subsystems;
        struct port *ports;
        uint64_t genctr;
};

/* Look-ups under the lock; NULL if there is none, or it may not be used. */
struct subsystem *port_subsystem(const struct port *p, const char *nqn);
bool subsystem_allows(const struct subsystem *s, const char *hostnqn);
struct ns *subsystem_ns(const struct subsystem *s, uint32_t nsid);

/* A namespace that a command may use until ns_put(); NULL if nsid is not active. Takes the lock. */
struct ns *ns_get(struct inventory *inv, struct subsystem *s, uint32_t nsid);
void ns_put(struct ns *ns);

#endif
