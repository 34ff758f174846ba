/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From what is served to what is asked for: a plan holds all that has to be opened for it, so that
 * whatever can fail fails before anything changes. Then it is applied under the inventory's lock
 * and says who has to be told.
 *
 *      plan_make()      opens new namespaces, makes new subsystems and ports; may fail
 *      (owner)          listens on plan->new_ports; may fail
 *      plan_apply()     swaps, cannot fail but for the size of a namespace
 *      (owner)          closes listeners of plan->old_ports
 *      plan_notify()    tells hosts
 *      (owner)          waits for the reactors' turn
 *      plan_free()      drops what is no longer used; without plan_apply() what was made
 */
#ifndef NVMF_TARGET_PLAN_H
#define NVMF_TARGET_PLAN_H

#include "config.h"
#include "target/nvme/ctrl.h"

struct plan_ns {
        struct subsystem *subsystem; /* where it changes */
        struct ns *add, *remove;     /* or NULL */
        struct ns *resize;           /* stays, with `blocks` and the new path */
        uint64_t blocks;
        const char *path;
        struct ns *mask;        /* stays, and is attached to other hosts: */
        struct ns_hosts *hosts; /* these; after plan_apply() those of before */
        uint32_t nsid;
};

struct plan_lists {                /* what is put in place of what was there, and then dropped */
        struct host_entry **hosts; /* by place of the subsystem in the configuration */
        struct port_subsystem **subsystems; /* by place of the port */
        struct referral **referrals;
};

struct plan {
        const struct config *config; /* must outlive the plan */
        struct plan_ns *ns;
        unsigned n_ns;
        struct subsystem **new_subsystems, **old_subsystems;
        unsigned n_new_subsystems, n_old_subsystems;
        struct port **new_ports, **old_ports; /* an address that changed is a new port */
        unsigned n_new_ports, n_old_ports;
        struct plan_lists lists;
        bool applied;
        bool discovery; /* out of plan_apply(): some discovery log has changed, genctr has moved */
};

/* false: error has one line, nothing is left open. Only one plan at a time may exist. */
bool plan_make(struct plan *p, struct inventory *inv, const struct config *config, char *error,
               size_t size);
/* false: a namespace kept its size (error has one line, of the first), all else is as it was planned. What a
 * size takes may be data, and cannot be given back: so it is not tried before. */
bool plan_apply(struct plan *p, struct inventory *inv, char *error, size_t size);
/* After plan_apply(): hosts hear of it, and those that may not stay are sent away. */
void plan_notify(const struct plan *p, struct ctrl_table *t, struct inventory *inv);
/* Puts what the target does not use: the new if it was not applied, else the old. */
void plan_free(struct plan *p);

#endif
