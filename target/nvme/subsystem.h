/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a target serves: subsystems with namespaces and allowed hosts, behind ports. One inventory
 * per target; it changes live (configuration re-read) under its lock, and every change that a
 * discovery log shows moves genctr.
 *
 * Who keeps a pointer beyond the lock holds a reference: a controller its subsystem, a connection
 * its port, a command its namespace. What the configuration no longer names goes with the last of
 * them.
 */
#ifndef NVMF_TARGET_SUBSYSTEM_H
#define NVMF_TARGET_SUBSYSTEM_H

#include <pthread.h>
#include <stdatomic.h>

#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/fabrics.h"
#include "target/ns/ns.h"

struct host_entry { /* an allowed host */
        char nqn[NQN_MAX + 1];
        struct auth_keys keys; /* with a key: it has to authenticate itself */
        struct host_entry *next;
};

struct subsystem {
        char nqn[NQN_MAX + 1], serial[21], model[41], firmware[9];
        bool allow_any_host;
        uint16_t cntlid_min, cntlid_max, qid_max; /* qid_max 0: as many as the limits say */
        struct host_entry *hosts;
        struct auth_keys keys;   /* of hosts that are not among those */
        _Atomic(struct ns *) ns; /* ascending nsid */
        struct ctrl *ctrls;      /* live controllers of it: see ctrl.h */
        _Atomic unsigned refs;   /* the inventory and its controllers */
        struct subsystem *next;
};

struct port_subsystem {
        struct subsystem *subsystem;
        struct port_subsystem *next;
};

struct referral { /* another discovery service */
        uint16_t port_id;
        uint8_t trtype, adrfam, treq;
        char traddr[256], trsvcid[32];
        struct referral *next;
};

struct port {
        uint16_t id;
        uint8_t trtype, treq;
        char traddr[256], trsvcid[32]; /* as listened to: port 0 is replaced by the real one */
        struct port_subsystem *subsystems;
        struct referral *referrals;
        _Atomic unsigned refs; /* the inventory and its connections */
        struct port *next;
};

struct inventory {
        pthread_rwlock_t lock; /* read: look-ups by connects and admin commands; write: changes */
        struct subsystem *subsystems;
        struct port *ports;
        uint64_t genctr;
};

void inventory_init(struct inventory *inv);
/* Nobody uses it any more: drops everything. */
void inventory_fini(struct inventory *inv);

/* Look-ups under the lock; NULL if there is none, or it may not be used. */
struct subsystem *port_subsystem(const struct port *p, const char *nqn);
bool subsystem_allows(const struct subsystem *s, const char *hostnqn);
/* With a key in it, if this host has to authenticate itself. */
const struct auth_keys *subsystem_keys(const struct subsystem *s, const char *hostnqn);
struct ns *subsystem_ns(const struct subsystem *s, uint32_t nsid);
struct subsystem *inventory_subsystem(const struct inventory *inv, const char *nqn);
struct port *inventory_port(const struct inventory *inv, uint16_t id);

/* References; get under the lock, put anywhere. */
struct subsystem *subsystem_get(struct subsystem *s);
void subsystem_put(struct subsystem *s);
struct port *port_get(struct port *p);
void port_put(struct port *p);

/*
 * A namespace for the I/O path, without lock and without reference: on a reactor, for the time of one
 * turn of its loop; NULL if nsid is not active. Who needs it for longer counts in its refs, until
 * ns_put(). Who removes a namespace waits for the reactors' turn to end before it drops it.
 */
struct ns *ns_find(const struct subsystem *s, uint32_t nsid);

/* --- changes: under the lock for writing ------------------------------------------------------ */

/* With the defaults for everything but the NQN, from which its serial number is made; not in an
 * inventory yet. NULL without memory. */
struct subsystem *subsystem_new(const char *nqn);
struct port *port_new(uint16_t id);
void inventory_add_subsystem(struct inventory *inv, struct subsystem *s);
void inventory_add_port(struct inventory *inv, struct port *p);
/* Takes it out, its reference becomes the caller's; also out of every port. */
void inventory_remove_subsystem(struct inventory *inv, struct subsystem *s);
void inventory_remove_port(struct inventory *inv, struct port *p);

/* The namespace's reference is the subsystem's from here on. */
void subsystem_add_ns(struct subsystem *s, struct ns *ns);
/* Takes it out; its reference becomes the caller's, to be put after the reactors' turn has ended.
 */
void subsystem_remove_ns(struct subsystem *s, struct ns *ns);
/* false: without memory. keys may be NULL. */
bool subsystem_add_host(struct subsystem *s, const char *hostnqn, const struct auth_keys *keys);
void subsystem_clear_hosts(struct subsystem *s);
bool port_add_subsystem(struct port *p, struct subsystem *s);
void port_clear_subsystems(struct port *p);

#endif
