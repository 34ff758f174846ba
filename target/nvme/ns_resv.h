/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reservation of a namespace, as all who reach the same storage share it: namespaces of several
 * subsystems on one file, bdev or device have one lock (struct ns_lock), and this with it.
 *
 * What is to persist through a loss of power is in a file beside the namespace's own, PATH.reservations,
 * written again and renamed before the command that changes it completes. There is none while the PTPL
 * state is 0. The thread that waits for the disk of the namespace writes it: changes wait for it in the order in which
 * they came, one write is for all that wait by then, and until it is done the state is what it was.
 */
#ifndef NVMF_TARGET_NS_RESV_H
#define NVMF_TARGET_NS_RESV_H

#include <pthread.h>

#include "reservation.h"
#include "target/ns/ns.h"

struct ns_resv {
        pthread_mutex_t
            lock; /* of what follows but the last two; nobody waits for a disk with it */
        _Atomic uint8_t type;                   /* the state's: 0: no command can conflict */
        struct reservation *state;              /* NULL: there never was any */
        struct ns_resv_change *waiting, **last; /* for the file to be written */
        bool writing;                           /* some wait, or are being written */
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

/* Embedded in whatever waits for it. */
struct ns_resv_change {
        const struct reservation_cmd
            *cmd; /* in: Register, Acquire or Release; NULL: the PTPL state becomes: */
        bool ptpl;
        void (*done)(struct ns_resv_change *c); /* from another thread, c may be freed in it */
        uint16_t status;                 /* out; with one that is not 0 nothing has changed */
        struct ns_resv_notices *notices; /* out: whom to tell, to be freed; NULL: nobody */

        /* its own */
        struct ns *ns;
        struct ns_wait on;
        struct ns_resv_change *next;
};

/* True: the change has been made, or fails. False: it has to be on a disk first: done will be called, perhaps before this
 * returns; until then the caller has a reference to ns, which he does not drop in done. */
bool ns_resv_apply(struct ns *ns, struct ns_resv_change *c);
/* The state as it is now, to be freed; NULL: out of memory. */
struct reservation *ns_resv_copy(struct ns *ns);
/* Whether a command of the host may be processed now. Without a lock where nobody holds anything. */
bool ns_resv_allows(struct ns *ns, const uint8_t hostid[16], bool writes,
                    const struct rule_policy *policy);
/* Feature 83h: whether reservations persist through a power loss. */
bool ns_resv_ptpl(struct ns *ns);
/* For a target that does so by mistake: nobody is registered any more. */
void ns_resv_clear_all(struct ns *ns);

#endif
