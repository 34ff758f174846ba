/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reservation of a namespace, as all who reach the same storage share it: namespaces of several
 * subsystems on one file, bdev or device have one lock (struct ns_lock), and this with it.
 *
 * What is to persist through a loss of power is in a file beside the namespace's own, PATH.reservations,
 * written again and renamed before the command that changes it completes. There is none while the PTPL
 * state is 0.
 */
#ifndef NVMF_TARGET_NS_RESV_H
#define NVMF_TARGET_NS_RESV_H

#include <pthread.h>

#include "reservation.h"
#include "target/ns/ns.h"

struct ns_resv {
        pthread_mutex_t lock;
        _Atomic uint8_t type;      /* the state's: 0: no command can conflict */
        struct reservation *state; /* NULL: there never was any */
        char *path;       /* of the file; NULL: the storage itself is lost with the power */
        bool unsupported; /* it would have to persist, and cannot: a device has no file */
};

/* Of the storage of the namespace. */
static inline struct ns_resv *ns_resv_of(const struct ns *ns)
{
        return ns_shared(ns);
}

/* v is all zero: nobody has registered. ns_resv_fini() leaves the file as it is. */
void ns_resv_init(struct ns_resv *v);
void ns_resv_fini(struct ns_resv *v);
/* Of a namespace on the file `path`: what has persisted. NULL; else what is wrong (in `why`). */
const char *ns_resv_restore(struct ns_resv *v, const char *path, char why[256]);

/* False: reservations would have to persist, but the namespace is a device, which has no file
 * beside it. */
bool ns_resv_supported(const struct ns *ns);

/* Who is told what by a command. */
struct ns_resv_notices {
        unsigned count;
        struct {
                uint8_t hostid[16], notice;
        } of[RESERVATION_REGISTRANTS];
};

/* Reservation Register, Acquire and Release. The status; e has whom to tell. */
uint16_t ns_resv_run(struct ns *ns, const struct reservation_cmd *c, struct ns_resv_notices *e);
/* The state as it is now, to be freed; NULL: out of memory. */
struct reservation *ns_resv_copy(struct ns *ns);
/* Whether a command of the host may be processed now. Without a lock where nobody holds anything. */
bool ns_resv_allows(struct ns *ns, const uint8_t hostid[16], bool writes,
                    const struct rule_policy *policy);
/* Feature 83h: whether reservations persist through a power loss. Set: the status. */
bool ns_resv_ptpl(struct ns *ns);
uint16_t ns_resv_set_ptpl(struct ns *ns, bool ptpl);
/* For a target that does so by mistake: nobody is registered any more. */
void ns_resv_clear_all(struct ns *ns);

#endif
