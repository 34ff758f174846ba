/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Block devices with names, as SPDK's tools know them: storage that outlives the namespaces on it, and
 * layers over other ones that delay or fail commands. A namespace on one shares its blocks and their lock.
 * Who may use which is their owner's to see to; changes of latency and faults take effect at once.
 */
#ifndef NVMF_TARGET_NS_BDEV_H
#define NVMF_TARGET_NS_BDEV_H

#include "ns.h"

enum { BDEV_NAME = 128 };

enum bdev_type { BDEV_MALLOC, BDEV_NULL, BDEV_AIO, BDEV_DELAY, BDEV_ERROR };

enum bdev_op { BDEV_READ, BDEV_WRITE, BDEV_UNMAP, BDEV_FLUSH, BDEV_OPS };

struct bdev_latency { /* us */
        uint64_t average, p99;
};

struct bdev_stats {
        uint64_t ops[BDEV_OPS], bytes[BDEV_OPS], failed;
};

struct bdev_fault {
        uint32_t left;         /* commands that it still fails; 0: none */
        enum ns_result result; /* that they end with; 0: their data is changed */
        uint32_t offset;       /* of the byte that is changed, */
        uint8_t value;         /* to this */
};

struct bdev;

/* family and spec as in ns_open(). One reference is the caller's. NULL: error has one line. */
struct bdev *bdev_open(const struct ns_family *family, enum bdev_type type, const char *name,
                       const char *spec, char *error, size_t size);
/* A layer over `on`, of type DELAY or ERROR. NULL: out of memory. */
struct bdev *bdev_over(enum bdev_type type, const char *name, struct bdev *on);
void bdev_put(struct bdev *b); /* the last reference closes it */

/* The name and the storage stay the bdev's; a layer has the storage of what it is over. */
const char *bdev_name(const struct bdev *b);
enum bdev_type bdev_type(const struct bdev *b);
struct bdev *bdev_under(const struct bdev *b); /* that it is a layer over; NULL: it is storage */
const struct ns *bdev_storage(const struct bdev *b);
uint8_t *bdev_uuid(struct bdev *b); /* 16 bytes; set before it is used */

/* Of a DELAY layer: of its reads, or of its writes. From any thread. */
void bdev_set_latency(struct bdev *b, bool write, struct bdev_latency l);
struct bdev_latency bdev_latency(const struct bdev *b, bool write);
/* Replaces the one of that operation. */
void bdev_set_fault(struct bdev *b, enum bdev_op op, struct bdev_fault f);
/* Since it was opened, or since the last reset; from any thread. */
struct bdev_stats bdev_stats(const struct bdev *b);
void bdev_reset_stats(struct bdev *b);

/* Status as of ns_resize(). Namespaces on it are measured again by their owner. */
enum ns_result bdev_resize(struct bdev *b, uint64_t blocks);
/* Takes over the size that its file has now; true: it has changed. */
bool bdev_measure(struct bdev *b);

/* A namespace on it, with its UUID; path becomes ns->path. NULL: error has one line. */
struct ns *bdev_open_ns(struct bdev *b, const char *path, uint32_t nsid, char *error, size_t size);

#endif
