/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A namespace: blocks on memory, on a file or block device, or on nothing.
 *
 * Every call below is one atomic step for the blocks it names, whatever backend: a reader sees a
 * write that goes on at the same time whole or not at all, also from another reactor. The range is
 * locked by stripes, in ascending order; the backend sees one call at a time for what it writes.
 *
 * lba and count are in blocks and inside the namespace (ns_has()). It knows no protocol: a family makes a status of
 * its own of a result.
 */
#ifndef NVMF_TARGET_NS_H
#define NVMF_TARGET_NS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pdu/core/plant.h"
#include "pdu/core/protect.h"

struct ns;
struct ns_lock;
struct ns_delay;

enum ns_result {
        NS_DONE,
        NS_BEYOND,      /* not all of the blocks are within the namespace (any more) */
        NS_DIFFERS,     /* from what it was compared with */
        NS_READ_ERROR,  /* of the storage, or the blocks were marked unreadable */
        NS_WRITE_ERROR, /* of the storage: what was written or flushed may be lost */
        NS_DEALLOCATED, /* where reading such blocks is an error */
        NS_NO_SPACE,
        NS_NO_MEMORY,
        NS_BUSY,        /* to be tried again */
        NS_FIXED,       /* what was to be changed cannot be: a size, write protection */
        NS_GUARD_WRONG, /* protection information, in the order of enum pi_result */
        NS_APP_WRONG,
        NS_STORAGE_WRONG,
        NS_REF_WRONG,
        NS_RESULTS,
        NS_OWN = 1 << 16 /* and above: with a status of the family's own, of an injected fault */
};

/* "no space", as a message says it. */
const char *ns_result_name(enum ns_result result);

/* What a family of protocols keeps with namespaces, and with the storage that several of them may share. */
struct ns_family {
        size_t own_bytes; /* ns->own, zero at first */
        void (*own_fini)(void *own);
        size_t shared_bytes; /* ns_shared(), zero at first */
        void (*shared_init)(void *shared);
        void (*shared_fini)(void *shared);
        /* A file or a device has been opened: what was kept beside it is there again. NULL; else what is wrong, which
         * may be in `why`. */
        const char *(*shared_restore)(void *shared, const char *path, bool device, char why[256]);
};

/* What a command that was carried out waits for until it is answered; embedded in whatever waits. */
struct ns_wait {
        bool durable; /* in: until what was acknowledged before is on stable storage */
        bool write;   /* in: it is not a command that only reads */
        enum ns_result result;
        void (*done)(struct ns_wait *w); /* called from another thread, w may be freed in it */
        uint64_t due;                    /* ns_delay.c's */
        struct ns_wait *next;
};

/* A backend. Ranges are bytes; the lock of the range is held (but for flush). */
struct ns_ops {
        const char *name; /* "mem", "file", "null" */
        enum ns_result (*read)(struct ns *ns, uint64_t offset, uint32_t len, uint8_t *buf);
        enum ns_result (*write)(struct ns *ns, uint64_t offset, uint32_t len, const uint8_t *buf);
        enum ns_result (*zero)(struct ns *ns, uint64_t offset, uint64_t len, bool deallocate);
        /* Zeroes by giving storage back, whatever the length in no time; false: nothing was done. */
        bool (*deallocate)(struct ns *ns, uint64_t offset, uint64_t len);
        /* What was written is on stable storage when w->done is called; if w is not durable, that is called by the same
         * thread, without it. NULL: nothing to flush. */
        void (*flush)(struct ns *ns, struct ns_wait *w);
        /* To that many bytes; the whole namespace is locked. */
        enum ns_result (*resize)(struct ns *ns, uint64_t bytes);
        /* Remembers over restarts whether it is write protected, from the next flush on; NULL: nothing to remember. */
        enum ns_result (*protect)(struct ns *ns, bool protect);
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
        uint8_t uuid[16];
        char *path; /* as configured: "mem:64M", "null:1G", a file */
        const struct ns_ops *ops;
        void *store; /* the backend's */
        struct ns_lock *lock;
        struct ns_delay *delay;     /* NULL: answers at once */
        _Atomic uint8_t protection; /* 0, or 1: write protected */
        _Atomic int
            barred; /* what ends whatever would change blocks, but ns_erase(); NS_DONE: nothing */
        atomic_bool deallocated_fails; /* reading deallocated blocks is an error */
        _Atomic unsigned refs; /* the inventory and commands in flight; the last one closes it */
        const struct ns_family *family; /* NULL: none */
        void *own;                      /* the family's, of each namespace; NULL: none */
        _Atomic(struct ns *) next;      /* its owner's list */
};

enum { NS_BLOCK_MAX = 4096, NS_METADATA_MAX = 64 };

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
 * family: NULL, or what a family keeps with it; namespaces on one file are of one family.
 * NULL: `error` (of `size` bytes) names the token at fault.
 */
struct ns *ns_open(const struct ns_family *family, const char *spec, const char *nqn, uint32_t nsid,
                   char *error, size_t size);
void ns_put(struct ns *ns); /* the last reference closes it, and what was written is on the disk */
/* From here on the calling thread has others to serve: what it puts last and has a disk is closed by another thread. */
void ns_put_elsewhere(void);
/* Waits until all that was put so is closed. */
void ns_settle(void);

/* What the family keeps with the storage. */
void *ns_shared(const struct ns *ns);

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

/* All answer NS_BEYOND if the namespace has shrunk meanwhile, NS_READ_ERROR for
 * reading blocks that Write Uncorrectable marked, and NS_DEALLOCATED for deallocated ones where that is
 * an error. */
enum ns_result ns_read(struct ns *ns, uint64_t lba, uint32_t count, uint8_t *buf);
enum ns_result ns_write(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf);
enum ns_result ns_compare(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf);
/* Equal to cmp? Then writes buf, else NS_DIFFERS. */
enum ns_result ns_compare_write(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *cmp,
                                const uint8_t *buf);
/* Blocks read as zeroes afterwards; deallocate: and their storage may be given back. */
enum ns_result ns_zero(struct ns *ns, uint64_t lba, uint64_t count, bool deallocate);
/* As far as the storage can give back what it holds: blocks read as zeroes then, else as before. */
enum ns_result ns_deallocate(struct ns *ns, uint64_t lba, uint64_t count);
/* Zeroes all of it, whatever ns->barred says. */
enum ns_result ns_erase(struct ns *ns);
/* Reads and checks, and returns nothing but what came of it. */
enum ns_result ns_verify(struct ns *ns, uint64_t lba, uint32_t count);
/* The same, of blocks with metadata, as PRINFO and tags ask for; without metadata pi means nothing. A
 * buffer has ns_unit() bytes a block; Compare's has the metadata in any case. Those above leave
 * protection information as it is. */
enum ns_result ns_read_with(struct ns *ns, uint64_t lba, uint32_t count, uint8_t *buf,
                            const struct pi_use *pi);
enum ns_result ns_write_with(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf,
                             const struct pi_use *pi);
enum ns_result ns_compare_with(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf,
                               const struct pi_use *pi);
struct ns_fused { /* of Compare, of Write */
        const uint8_t *cmp, *buf;
        const struct pi_use *cmp_pi, *pi;
        enum ns_result *written; /* result of the Write, where the Compare succeeds */
};
/* The result of the Compare. */
enum ns_result ns_compare_write_with(struct ns *ns, uint64_t lba, uint32_t count,
                                     const struct ns_fused *f);
enum ns_result ns_zero_with(struct ns *ns, uint64_t lba, uint64_t count, bool deallocate,
                            const struct pi_use *pi);
enum ns_result ns_verify_with(struct ns *ns, uint64_t lba, uint32_t count, const struct pi_use *pi);
/* The blocks cannot be read until they are written again (not remembered over a restart). */
enum ns_result ns_write_uncorrectable(struct ns *ns, uint64_t lba, uint64_t count);

enum ns_blocks {
        NS_ALLOCATED, /* not deallocated, or written since: as far as this process knows */
        NS_UNREADABLE /* by Write Uncorrectable */
};
/* The first of such blocks in [lba, end), and *count of them; `end` and 0 if there is none. */
uint64_t ns_extent(struct ns *ns, enum ns_blocks what, uint64_t lba, uint64_t end, uint64_t *count);
/* How often blocks became unreadable so far. */
uint64_t ns_times_marked(const struct ns *ns);
/* Blocks that are allocated; that are unreadable, if no namespace of the same storage has other blocks. At once. */
uint64_t ns_used(struct ns *ns);
uint64_t ns_unreadable(struct ns *ns);

/* From here on ns->protection is `state`, 0 or 1 (who writes looks there). It is over a restart, too, once something
 * durable has been waited for (ns_await()). */
enum ns_result ns_protect(struct ns *ns, uint8_t state);

/* Whether there is anything to wait for. */
static inline bool ns_waits(const struct ns *ns, bool durable)
{
        return ns->delay || (durable && ns->ops->flush);
}
/* True: there is not, w->result is NS_DONE. False: w->done will be called with its result set,
 * perhaps before this returns. */
bool ns_await(struct ns *ns, struct ns_wait *w);
/* True: w->done will be called by the thread that waits for the disk of the namespace, for what takes as long. False:
 * there is no such thread. */
bool ns_defer(struct ns *ns, struct ns_wait *w);
/* Nobody waits for its delay any more: it goes. */
void ns_hurry(struct ns *ns);

/* Resizes; blocks beyond the new end are gone, new ones are zeroes. Files do not shrink by it (but by
 * their owner's hand, see ns_measure()). */
enum ns_result ns_resize(struct ns *ns, uint64_t blocks);
/* Takes over a new size of the file or device behind; true if it changed. */
bool ns_measure(struct ns *ns);

#endif
