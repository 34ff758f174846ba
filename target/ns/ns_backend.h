/* SPDX-License-Identifier: BSD-3-Clause */
/* What ns.c and the backends share. */
#ifndef NVMF_TARGET_NS_BACKEND_H
#define NVMF_TARGET_NS_BACKEND_H

#include "ns.h"

struct ns_spec {         /* what a specification says, in parts */
        const char *arg; /* after "mem:", "null:" or "file:" */
        uint64_t bytes;  /* of SIZE or size=; 0: not given */
        uint8_t lbads, ms, pi, guard, sts;
        struct ns_times {
                uint64_t least, most; /* us, of delay=; most 0: none */
        } delay;
};

/* What a namespace begins with, its own lock included; NULL: out of memory. */
struct ns *ns_new(const struct ns_family *family, const char *path, uint32_t nsid);
/* The lock of that one in place of its own. */
void ns_share_lock(struct ns *ns, const struct ns *with);
/* The UUID (version 8, own scheme) that it has in every run. */
void ns_make_uuid(uint8_t uuid[16], const char *nqn, uint32_t nsid, const char *identity);

/* Of a backend that shares its storage among namespaces: these share the lock, too. */
struct ns_lock *ns_lock_get(struct ns_lock *l);
void ns_lock_put(struct ns_lock *l);
/* Whether namespaces of that family may share the lock. */
bool ns_lock_suits(const struct ns_lock *l, const struct ns_family *family);
/* A name in the folder of `path` has changed, and is there after a loss of power, too; else errno. */
bool ns_sync_folder(const char *path);

/* Set ops, store and blocks of the namespace; false: `error` says why (without the spec). */
bool ns_mem_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size);
bool ns_null_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size);
bool ns_file_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size);

/* --- metadata (ns_meta.c) ------------------------------------------------------------------------ */

/* Of a namespace that has metadata, with the lock of the range held, blocks and metadata alike. Buffers
 * are ns_unit() a block. pi NULL: as it is, and unchecked. */
enum ns_result meta_read(struct ns *ns, uint64_t lba, uint32_t count, uint8_t *out,
                         const struct pi_use *pi);
enum ns_result meta_write(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *in,
                          const struct pi_use *pi);
/* cmp NULL: only what is stored is checked. */
enum ns_result meta_compare(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *cmp,
                            const struct pi_use *pi);
/* The metadata alone. */
enum ns_result meta_zero(struct ns *ns, uint64_t lba, uint64_t count, bool deallocate,
                         const struct pi_use *pi);

/* --- delay (ns_delay.c) ------------------------------------------------------------------------- */

enum { NS_DELAY_MAX = 60000000 /* us */ };

/* "5ms", "0-200us"; false: it is none, is empty, or longer than NS_DELAY_MAX. */
bool ns_delay_parse(const char *text, struct ns_times *t);
/* A thread of its own. t NULL: as bdev_delay_us() says. NULL: errno says why. */
struct ns_delay *ns_delay_new(struct ns *ns, const struct ns_times *t);
void ns_delay_free(struct ns_delay *d); /* nobody waits */
/* After its time: to the disk if w is durable, else done. */
void ns_delay_begin(struct ns_delay *d, struct ns_wait *w);
/* us that a command of a namespace on a bdev takes; percent: a number at random, 0 to 99. */
uint64_t bdev_delay_us(const struct ns *ns, bool write, unsigned percent);
/* From here on everything is due. */
void ns_delay_hurry(struct ns_delay *d);

#endif
