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
#include "pdu/nvme/wire/protect.h"

struct ns;
struct ns_lock;
struct ns_delay;
struct ns_hosts;
struct ns_flips;

/* What a command that was carried out waits for until it is answered; embedded in whatever waits. */
struct ns_wait {
        bool durable; /* in: until what was acknowledged before is on stable storage */
        bool write;   /* in: it is not a command that only reads */
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
        /* Remembers over restarts whether it is write protected; NULL: nothing to remember. */
        uint16_t (*protect)(struct ns *ns, bool protect);
        /* Bytes that the storage has now, where it has a size of its own; NULL: it has none. */
        uint64_t (*measure)(struct ns *ns);
        void (*close)(struct ns *ns);
};

struct ns {
        uint32_t nsid;      /* 1.. */
        uint8_t lbads;      /* 9 or 12 */
        uint8_t ms;         /* bytes of metadata a block: 0, or 8 to NS_METADATA_MAX */
        uint8_t pi;         /* type of protection information: 1 to 3; 0: none */
        uint8_t guard, sts; /* ... bits of its guard and of its storage tag */
        uint64_t meta;      /* where the storage has the metadata, in bytes */
        _Atomic uint64_t blocks;
        uint8_t uuid[16], nguid[16]; /* NGUID of zeroes: none */
        char *path;                  /* as configured: "mem:64M", "null:1G", a file */
        const struct ns_ops *ops;
        void *store; /* the backend's */
        struct ns_lock *lock;
        struct ns_delay *delay;     /* NULL: answers at once */
        _Atomic uint8_t protection; /* feature 84h: 0, or 1: write protected */
        _Atomic uint32_t recovery;  /* feature 05h: RECOVERY_DULBE; the time is of no effect */
        uint8_t label[256];         /* feature 1Fh; guarded by its subsystem's lock of features */
        _Atomic(struct lba_ranges *) lba_ranges; /* feature 03h, from malloc(); NULL: the default */
        _Atomic uint32_t anagrpid;               /* its group, where its subsystem reports ANA */
        _Atomic unsigned refs; /* the inventory and commands in flight; the last one closes it */
        /* Whom it is attached to; NULL: every host. Who puts another list there waits for the reactors'
         * turn before he frees this one. */
        _Atomic(struct ns_hosts *) hosts;
        bool made;  /* by a host: it is attached to no controller at first, otherwise to all ... */
        bool shown; /* made, and attached since: to those that are new */
        _Atomic(struct ns_flips *) flips; /* ... but for these; NULL: there are none */
        atomic_bool upset;                /* FLAW_FORMAT_UPSETS: its next command fails */
        struct ns *grave;                 /* among those that hosts have deleted */
        _Atomic(struct ns *) next;        /* in its subsystem, ascending nsid */
};

/* Whether it is attached to the controller where it is not to others, or the other way round; and from here on
 * it is (not). False: out of memory. Who calls ns_flip() has a lock. */
bool ns_is_flipped(const struct ns *ns, uint16_t cntlid);
bool ns_flip(struct ns *ns, uint16_t cntlid);

enum { NS_BLOCK_MAX = 4096, NS_METADATA_MAX = 64 };

enum { RECOVERY_DULBE = 1 << 16 }; /* reading deallocated blocks is an error */

/*
 * Opens what `spec` says: "mem:SIZE", "null:SIZE", "file:PATH[,size=SIZE]" or a path that begins
 * with / or ., each with ",bs=512" (default) or ",bs=4096", and ",delay=TIME" or ",delay=TIME-TIME".
 * "mem:" also takes ",ms=8" (16, 32 or 64: bytes of metadata a block, besides SIZE) and ",pi=1" (2, 3:
 * protection information in the last 8 of them), and with bs=4096 ",guard=32" or ",guard=64" (in the last
 * 16), ",sts=N" (bits of a storage tag); its size cannot be changed then.
 * SIZE is bytes with an optional K, M, G or T, TIME a number of us, ms or s: each command of the
 * namespace is answered so much later, from the one to the other at random. A file that is missing is
 * created if a size is given, one that is shorter grows to it. Namespaces on one file share its blocks;
 * a file that another process has, or a device that is mounted, is refused. One reference is the
 * caller's. The UUID
 * is the same for the same nqn, nsid and spec.
 * NULL: `error` (of `size` bytes) names the token at fault.
 */
struct ns *ns_open(const char *spec, const char *nqn, uint32_t nsid, char *error, size_t size);
void ns_put(struct ns *ns); /* the last reference closes it */

/* "64M" in bytes; false if it is no size or does not fit. */
bool ns_parse_size(const char *text, uint64_t *bytes);

static inline bool ns_has(const struct ns *ns, uint64_t lba, uint64_t count)
{
        uint64_t blocks = atomic_load_explicit(&ns->blocks, memory_order_relaxed);

        if (PLANTED(LBA_OVERFLOW))
                lba = (uint32_t)lba;
        return lba <= blocks && count <= blocks - lba;
}

static inline struct pi_format ns_pi(const struct ns *ns)
{
        return (struct pi_format) { .type = ns->pi, .guard = ns->guard, .sts = ns->sts };
}

/* Bytes of protection information, as which metadata alone is not transferred with PRACT. */
static inline uint32_t ns_pi_len(const struct ns *ns)
{
        return ns->guard > 16 ? PI_LEN_WIDE : PI_LEN;
}

/* Bytes of a block in a buffer of a command: with its metadata, unless that is protection information
 * and nothing else, and PRACT (act) is set. */
static inline uint32_t ns_unit(const struct ns *ns, bool act)
{
        return (1u << ns->lbads) + (act && ns->pi && ns->ms == ns_pi_len(ns) ? 0 : ns->ms);
}

/* All answer NVME_LBA_RANGE if the namespace has shrunk meanwhile, NVME_UNRECOVERED_READ for
 * reading blocks that Write Uncorrectable marked, and NVME_DEALLOCATED for deallocated ones where that is
 * an error. */
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
/* Reads and checks, and returns nothing but the status. */
uint16_t ns_verify(struct ns *ns, uint64_t lba, uint32_t count);
/* The same, of blocks with metadata, as PRINFO and tags ask for; without metadata pi means nothing. A
 * buffer has ns_unit() bytes a block; Compare's has the metadata in any case. Those above leave
 * protection information as it is. */
uint16_t ns_read_with(struct ns *ns, uint64_t lba, uint32_t count, uint8_t *buf,
                      const struct pi_use *pi);
uint16_t ns_write_with(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf,
                       const struct pi_use *pi);
uint16_t ns_compare_with(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf,
                         const struct pi_use *pi);
struct ns_fused { /* of Compare, of Write */
        const uint8_t *cmp, *buf;
        const struct pi_use *cmp_pi, *pi;
        uint16_t *written; /* status of the Write, where the Compare succeeds */
};
/* The status of the Compare. */
uint16_t ns_compare_write_with(struct ns *ns, uint64_t lba, uint32_t count,
                               const struct ns_fused *f);
uint16_t ns_zero_with(struct ns *ns, uint64_t lba, uint64_t count, bool deallocate,
                      const struct pi_use *pi);
uint16_t ns_verify_with(struct ns *ns, uint64_t lba, uint32_t count, const struct pi_use *pi);
/* The blocks cannot be read until they are written again (not remembered over a restart). */
uint16_t ns_write_uncorrectable(struct ns *ns, uint64_t lba, uint64_t count);

enum ns_blocks {
        NS_ALLOCATED, /* not deallocated, or written since: as far as this process knows */
        NS_UNREADABLE /* by Write Uncorrectable */
};
/* The first of such blocks in [lba, end), and *count of them; `end` and 0 if there is none. */
uint64_t ns_extent(struct ns *ns, enum ns_blocks what, uint64_t lba, uint64_t end, uint64_t *count);
/* How often blocks became unreadable so far. */
uint64_t ns_times_marked(const struct ns *ns);
/* Blocks that are allocated. */
uint64_t ns_used(struct ns *ns);

/* Feature 84h: from here on ns->protection is `state`, 0 or 1 (who writes looks there). */
uint16_t ns_protect(struct ns *ns, uint8_t state);

/* Whether there is anything to wait for. */
static inline bool ns_waits(const struct ns *ns, bool durable)
{
        return ns->delay || (durable && ns->ops->flush);
}
/* True: there is not, w->status is NVME_SUCCESS. False: w->done will be called with its status set,
 * perhaps before this returns. */
bool ns_await(struct ns *ns, struct ns_wait *w);
/* Nobody waits for its delay any more: it goes. */
void ns_hurry(struct ns *ns);

/* Resizes; blocks beyond the new end are gone, new ones are zeroes. Files do not shrink by it (but by
 * their owner's hand, see ns_measure()). */
uint16_t ns_resize(struct ns *ns, uint64_t blocks);
/* Takes over a new size of the file or device behind; true if it changed. */
bool ns_measure(struct ns *ns);

#endif
