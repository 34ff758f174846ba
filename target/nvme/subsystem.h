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

#include "nvme_ns.h"
#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/fabrics.h"
#include "pel.h"

struct host_entry { /* an allowed host */
        char nqn[NQN_MAX + 1];
        struct auth_keys keys; /* with a key: it has to authenticate itself */
        struct host_entry *next;
};

enum sanitize_state { SANITIZE_IDLE, SANITIZE_RUNS, SANITIZE_FAILED };

/* A Sanitize operation: how the last one ended, or that it runs. */
struct sanitize {
        _Atomic(enum sanitize_state) state;
        bool unrestricted; /* AUSE: where it has failed, its host may leave it at that */
        bool erasing;      /* the command that began it has yet to end, and with it its erasure */
        bool spoilt;       /* not all could be erased: it fails when its time is up */
        uint8_t sos;
        uint16_t by;    /* CNTLID */
        uint32_t cdw10; /* of the command that began it */
        uint64_t until; /* ms */
};

enum { AGENTS = 2, LABEL_LEN = 256 };

/* Features that all controllers of a subsystem share, and that outlive resets; its namespaces' as well
 * (struct nvme_ns: label, lba_ranges) have this lock. */
struct shared_features {
        pthread_mutex_t lock;             /* taken within that of a controller */
        uint8_t agent[AGENTS][AGENT_LEN]; /* 78h, 79h */
        struct performance *performance;  /* 1Ch: what a host has saved, from malloc(), or NULL */
};

/* In SPDK's words. One that is not there yet, or any more, has no state here. */
enum subsystem_state {
        SUBSYSTEM_ACTIVE,
        SUBSYSTEM_PAUSING, /* what comes waits, what has begun has not ended */
        SUBSYSTEM_PAUSED,
        SUBSYSTEM_STATES
};

/* For subsystem.pause: admin commands wait, and I/O commands of this namespace (FFFFFFFFh: of all, 0: of none). */
static inline uint64_t subsystem_pause(uint32_t nsid)
{
        return UINT64_C(1) << 32 | nsid;
}

struct subsystem {
        char nqn[NQN_MAX + 1], serial[21], model[41], firmware[9];
        bool allow_any_host;
        bool fixed; /* the static controller model: hosts may ask for one of these CNTLIDs */
        uint16_t cntlid_min, cntlid_max, qid_max; /* qid_max 0: as many as the limits say */
        bool administrative;     /* its controllers have neither I/O queues nor namespaces */
        _Atomic uint32_t locked; /* by Lockdown: lockdown.c */
        atomic_bool whole;       /* hosts may reset it and shut it down as a whole: NSSR, NSSD */
        atomic_bool shut_down, was_reset; /* ... and have done so */
        bool ana;                         /* reports Asymmetric Namespace Access */
        atomic_bool limited; /* commands that transfer no data, or ranges, have limits (CNS 06h) */
        struct host_entry *hosts;
        struct auth_keys keys;   /* of hosts that are not among those */
        _Atomic(struct ns *) ns; /* ascending nsid */
        struct ns *graves;       /* those that a host has deleted, by their `grave` */
        uint32_t made;           /* namespaces that hosts have made, ever */
        _Atomic int state;       /* enum subsystem_state */
        _Atomic uint64_t pause;  /* what waits: subsystem_pause(); 0: nothing */
        struct ctrl *ctrls;      /* live controllers of it: see ctrl.h */
        struct pel pel;
        struct sanitize sanitize; /* guarded by the lock of the controllers' table */
        struct shared_features features;
        _Atomic unsigned formats;          /* Format NVM commands so far: for NVM_ATOMIC_SAME */
        _Atomic uint32_t last_arbitration; /* of any controller: for FLAW_SETTINGS_STAY, _SHARED */
        _Atomic unsigned refs;             /* the inventory and its controllers */
        struct subsystem *next;
};

enum {
        ANA_GROUPS = 1024,  /* ANAGRPMAX */
        ANA_GROUP_FIRST = 1 /* of a namespace that nobody gave another one */
};

struct ana_states {                  /* by group */
        uint8_t of[ANA_GROUPS + 1];  /* ANA_OPTIMIZED ... */
        uint16_t ms[ANA_GROUPS + 1]; /* that it is in the change state before it gets another one */
        uint8_t next[ANA_GROUPS + 1];   /* the state after the change state; 0: it stays as it is */
        uint64_t until[ANA_GROUPS + 1]; /* ... and when, of loop_now_ms() */
};

struct port_subsystem { /* a subsystem behind a port: SPDK's listener */
        struct subsystem *subsystem;
        struct ana_states ana;
        struct port_subsystem *next;
};

struct referral { /* another discovery service, or a subsystem of another target */
        uint16_t port_id;
        uint8_t trtype, adrfam, treq;
        char traddr[256], trsvcid[32];
        char subnqn[NQN_MAX + 1]; /* of the subsystem; "": it is a discovery service */
        struct referral *next;
};

struct port {
        uint16_t id;
        uint8_t trtype, treq, sectype; /* the last two: under the lock */
        char traddr[256], trsvcid[32]; /* as listened to: port 0 is replaced by the real one */
        struct port_subsystem *subsystems;
        struct referral *referrals;
        _Atomic unsigned refs; /* the inventory and its connections */
        struct port *next;
};

/* Whose subsystems a discovery log has beside those of the port that the host came in by. */
struct discovery_scope {
        bool all_ports; /* those of every port that has the same, as far as it is asked for: */
        bool same_trtype, same_traddr, same_trsvcid;
};

struct inventory {
        pthread_rwlock_t lock; /* read: look-ups by connects and admin commands; write: changes */
        struct discovery_scope discovery;
        struct subsystem *subsystems;
        struct port *ports;
        uint64_t genctr;
        _Atomic uint64_t
            ana_due; /* when the next ANA group leaves the change state; 0: none is to */
};

/* "active", ... */
const char *subsystem_state_name(enum subsystem_state state);

/* No ports and no subsystems yet. */
void inventory_init(struct inventory *inv);
/* Nobody uses it any more: drops everything. */
void inventory_fini(struct inventory *inv);

/* Look-ups under the lock; NULL if there is none, or it may not be used. */
struct subsystem *port_subsystem(const struct port *p, const char *nqn);
bool subsystem_allows(const struct subsystem *s, const char *hostnqn);
/* With a key in it, if this host has to authenticate itself. */
const struct auth_keys *subsystem_keys(const struct subsystem *s, const char *hostnqn);
/* Whether a namespace has protection information that hosts have to enable. */
bool subsystem_is_extended(const struct subsystem *s);
struct ns *subsystem_ns(const struct subsystem *s, uint32_t nsid);
struct subsystem *inventory_subsystem(const struct inventory *inv, const char *nqn);
struct port *inventory_port(const struct inventory *inv, uint16_t id);

/* References; get under the lock, put anywhere. */
struct subsystem *subsystem_get(struct subsystem *s);
void subsystem_put(struct subsystem *s);
/* It ends: delayed commands are answered at once. */
void subsystem_hurry(struct subsystem *s);
struct port *port_get(struct port *p);
void port_put(struct port *p);

/*
 * A namespace for the I/O path, without lock and without reference: on a reactor, for the time of one
 * turn of its loop; NULL if nsid is not active. Who needs it for longer counts in its refs, until
 * ns_put(). Who removes a namespace waits for the reactors' turn to end before it drops it.
 */
struct ns *ns_find(const struct subsystem *s, uint32_t nsid);

/*
 * The same for a host's controllers, where its NSID is active if the namespace is attached to the host;
 * NULL also if it is not. And the first one from `ns` on that is attached (NULL: none), for a walk over
 * all of them.
 */
struct ns *ns_attached(const struct subsystem *s, uint32_t nsid, const char *hostnqn,
                       uint16_t cntlid);
struct ns *ns_attached_from(struct ns *ns, const char *hostnqn, uint16_t cntlid);
bool ns_is_attached(const struct ns *ns, const char *hostnqn, uint16_t cntlid);
/* What Namespace Attachment has made of it, whichever host has the controller. */
bool ns_has_controller(const struct ns *ns, uint16_t cntlid);

/* --- changes: under the lock for writing ------------------------------------------------------ */

/* With the defaults for everything but the NQN, from which its serial number is made; not in an
 * inventory yet. NULL: out of memory. */
struct subsystem *subsystem_new(const char *nqn);
struct port *port_new(uint16_t id);
/* The reference is the inventory's from here on. */
void inventory_add_subsystem(struct inventory *inv, struct subsystem *s);
void inventory_add_port(struct inventory *inv, struct port *p);
/* Takes it out, its reference becomes the caller's; also out of every port. */
void inventory_remove_subsystem(struct inventory *inv, struct subsystem *s);
void inventory_remove_port(struct inventory *inv, struct port *p);

/* The namespace's reference is the subsystem's from here on. */
void subsystem_add_ns(struct subsystem *s, struct ns *ns);
/* Takes it out; its reference becomes the caller's, to be put after the reactors' turn has ended. False: a
 * host has deleted it before, and it is not the caller's. */
bool subsystem_remove_ns(struct subsystem *s, struct ns *ns);
/* Lists, of a subsystem and of a port. false: out of memory. keys may be NULL. A new listener has every
 * ANA group optimized. */
bool hosts_add(struct host_entry **hosts, const char *hostnqn, const struct auth_keys *keys);
void hosts_clear(struct host_entry **hosts);
bool port_subsystems_add(struct port_subsystem **list, struct subsystem *s);
void port_subsystems_clear(struct port_subsystem **list);
void referrals_clear(struct referral **list);

#endif
