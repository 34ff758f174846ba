/* SPDX-License-Identifier: BSD-3-Clause */
/* What NVMe keeps with a namespace (target/ns/ns.h), and its statuses for what comes of one. */
#ifndef NVMF_TARGET_NVME_NS_H
#define NVMF_TARGET_NVME_NS_H

#include "target/ns/ns.h"

struct lba_ranges;
struct ns_flips;
struct ns_hosts;
struct request;

enum { RECOVERY_DULBE = 1 << 16 }; /* reading deallocated blocks is an error */

struct nvme_ns {
        uint8_t nguid[16];         /* zeroes: none */
        _Atomic uint32_t recovery; /* feature 05h: RECOVERY_DULBE; the time is of no effect */
        uint8_t label[256];        /* feature 1Fh; guarded by its subsystem's lock of features */
        struct lba_ranges *lba_ranges; /* feature 03h, from malloc(); NULL: the default */
        _Atomic uint32_t anagrpid;     /* its group, where its subsystem reports ANA */
        /* Whom it is attached to; NULL: every host. Who puts another list there waits for the reactors'
         * turn before he frees this one. */
        _Atomic(struct ns_hosts *) hosts;
        bool made;  /* by a host: it is attached to no controller at first, otherwise to all ... */
        bool shown; /* made, and attached since: to those that are new */
        _Atomic(struct ns_flips *) flips; /* ... but for these; NULL: there are none */
        atomic_bool upset;                /* FLAW_FORMAT_UPSETS: its next command fails */
        struct ns *grave;                 /* among those that hosts have deleted */
        /* The last Set Features that has changed its write protection, by which it is put back if its flush fails;
         * NULL: there is none. */
        _Atomic(const struct request *) protector;
};

static inline struct nvme_ns *nvme_ns(const struct ns *ns)
{
        return ns->own;
}

/* For ns_open() and bdev_open(). */
extern const struct ns_family nvme_ns_family;

/* SCT << 8 | SC. */
uint16_t ns_status(enum ns_result result);

/* Feature 05h from here on. */
void ns_set_recovery(struct ns *ns, uint32_t value);

/* Whether it is attached to the controller where it is not to others, or the other way round; and from here on
 * it is (not). False: out of memory. Who calls ns_flip() has a lock. */
bool ns_is_flipped(const struct ns *ns, uint16_t cntlid);
bool ns_flip(struct ns *ns, uint16_t cntlid);

#endif
