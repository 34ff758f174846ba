/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A namespace: blocks on memory, on a file or block device, or on nothing.
 *
 * Every call below is one atomic step for the blocks it names, whatever backend: a reader sees a
 * write that goes on at the same time whole or not at all, also from another reactor. The range is
 * locked by stripes, in ascending order; the backend sees one call at a time for what it writes.
 *
 * lba and count are in blocks and inside the namespace (ns_has()). Statuses are SCT << 8 | SC.
 */
#ifndef NVMF_TARGET_NS_H
#define NVMF_TARGET_NS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pdu/core/plant.h"

struct ns;
struct ns_lock;
struct ns_delay;

/* What a command that was carried out waits for until it is answered; embedded in whatever waits. */
struct ns_wait {
        bool durable; /* in: until what was acknowledged before is on stable storage */
        uint16_t status;
        void (*done)(struct ns_wait *w); /* called from another thread, w may be freed in it */
        uint64_t due;                    /* ns_delay.c's */
        struct ns_wait *next;
};

/* A backend. Ranges are bytes; the lock of the range is held (but for flush). */
struct ns_ops {
        const char *name; /* "mem", "file", "null" */
        uint16_t (*read)(struct ns *ns, uint64_t offset, uint32_t len, uint8_t *buf);
        uint16_t (*write)(struct ns *ns, uint64_t offset, uint32_t len, const uint8_t *buf);
        uint16_t (*zero)(struct ns *ns, uint64_t offset, uint64_t len, bool deallocate);
        /* Zeroes by giving storage back, whatever the length in no time; false: nothing was done. */
        bool (*deallocate)(struct ns *ns, uint64_t offset, uint64_t len);
        /* What was written is on stable storage when w->done is called. NULL: nothing to flush. */
        void (*flush)(struct ns *ns, struct ns_wait *w);
        /* To that many bytes; the whole namespace is locked. */
        uint16_t (*resize)(struct ns *ns, uint64_t bytes);
        /* Bytes that the storage has now, where it has a size of its own; NULL: it has none. */
        uint64_t (*measure)(struct ns *ns);
        void (*close)(struct ns *ns);
};

struct ns {
        uint32_t nsid; /* 1.. */
        uint8_t lbads; /* 9 or 12 */
        _Atomic uint64_t blocks;
        uint8_t uuid[16], nguid[16]; /* NGUID of zeroes: none */
        char *path;                  /* as configured: "mem:64M", "null:1G", a file */
        const struct ns_ops *ops;
        void *store; /* the backend's */
        struct ns_lock *lock;
        struct ns_delay *delay; /* NULL: answers at once */
        _Atomic unsigned refs;  /* the inventory and commands in flight; the last one closes it */
        _Atomic(struct ns *) next; /* in its subsystem, ascending nsid */
};

/*
 * Opens what `spec` says: "mem:SIZE", "null:SIZE", "file:PATH[,size=SIZE]" or a path that begins
 * with / or ., each with ",bs=512" (default) or ",bs=4096", and ",delay=TIME" or ",delay=TIME-TIME".
 * SIZE is bytes with an optional K, M, G or T, TIME a number of us, ms or s: each command of the
 * namespace is answered so much later, from the one to the other at random. A file that is missing is
 * created if a size is given, one that is shorter grows to it. One reference is the caller's. The UUID
 * is the same for the same nqn, nsid and spec.
 * NULL: `error` (of `size` bytes) names the token at fault.
 */
struct ns *ns_open(const char *spec, const char *nqn, uint32_t nsid, char *error, size_t size);
void ns_put(struct ns *ns);

/* "64M" in bytes; false if it is no size or does not fit. */
bool ns_parse_size(const char *text, uint64_t *bytes);

static inline bool ns_has(const struct ns *ns, uint64_t lba, uint64_t count)
{
        uint64_t blocks = atomic_load_explicit(&ns->blocks, memory_order_relaxed);

        if (PLANTED(LBA_OVERFLOW))
                lba = (uint32_t)lba;
        return lba <= blocks && count <= blocks - lba;
}

/* All answer NVME_LBA_RANGE if the namespace has shrunk meanwhile, and NVME_UNRECOVERED_READ for
 * reading blocks that Write Uncorrectable marked. */
uint16_t ns_read(struct ns *ns, uint64_t lba, uint32_t count, uint8_t *buf);
uint16_t ns_write(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf);
uint16_t ns_compare(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf);
/* Equal to cmp? Then writes buf, else NVME_COMPARE_FAILURE. */
uint16_t ns_compare_write(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *cmp,
                          const uint8_t *buf);
/* Blocks read as zeroes afterwards; deallocate: and their storage may be given back. */
uint16_t ns_zero(struct ns *ns, uint64_t lba, uint64_t count, bool deallocate);
/* As far as the storage can give back what it holds: blocks read as zeroes then, else as before. */
uint16_t ns_deallocate(struct ns *ns, uint64_t lba, uint64_t count);
uint16_t ns_verify(struct ns *ns, uint64_t lba, uint32_t count);
/* The blocks cannot be read until they are written again (not remembered over a restart). */
uint16_t ns_write_uncorrectable(struct ns *ns, uint64_t lba, uint64_t count);

/* Whether there is anything to wait for. */
static inline bool ns_waits(const struct ns *ns, bool durable)
{
        return ns->delay || (durable && ns->ops->flush);
}
/* True: there is not, w->status is NVME_SUCCESS. False: w->done will be called with its status set,
 * perhaps before this returns. */
bool ns_await(struct ns *ns, struct ns_wait *w);

/* Resizes; blocks beyond the new end are gone, new ones are zeroes. Files do not shrink by it (but by
 * their owner's hand, see ns_measure()). */
uint16_t ns_resize(struct ns *ns, uint64_t blocks);
/* Takes over a new size of the file or device behind; true if it changed. */
bool ns_measure(struct ns *ns);

#endif
