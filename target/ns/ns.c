/* SPDX-License-Identifier: BSD-3-Clause */
#include "ns.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "extents.h"
#include "ns_backend.h"
#include "pdu/nvme/wire/nvme.h"

enum {
        STRIPES = 32,      /* the thread sanitizer follows no more than 64 locks of one thread */
        REGION_SHIFT = 17, /* 128 KiB that share a stripe: most commands need one lock, or two */
        CHUNK = 16384,     /* bytes that are compared at a time */
};

#define ALL_STRIPES UINT32_MAX

struct stripe {
        pthread_rwlock_t lock;
} __attribute__((aligned(64)));

struct ns_lock {
        struct stripe stripe[STRIPES];
        pthread_mutex_t bad_lock; /* taken within stripes */
        struct extents bad;       /* Write Uncorrectable */
        _Atomic unsigned bad_count;
};

/* --- the lock of a range ---------------------------------------------------------------------- */

static struct ns_lock *lock_new(void)
{
        struct ns_lock *l = aligned_alloc(64, (sizeof(*l) + 63) / 64 * 64);

        if (!l)
                return NULL;
        memset(l, 0, sizeof(*l));
        for (unsigned i = 0; i < STRIPES; i++)
                pthread_rwlock_init(&l->stripe[i].lock, NULL);
        pthread_mutex_init(&l->bad_lock, NULL);
        return l;
}

static void lock_free(struct ns_lock *l)
{
        for (unsigned i = 0; i < STRIPES; i++)
                pthread_rwlock_destroy(&l->stripe[i].lock);
        pthread_mutex_destroy(&l->bad_lock);
        extents_fini(&l->bad);
        free(l);
}

/* One bit for each stripe that blocks of the range hash to. */
static uint32_t stripes_of(const struct ns *ns, uint64_t lba, uint64_t count)
{
        uint64_t first = lba << ns->lbads >> REGION_SHIFT;
        uint64_t last = (((lba + count) << ns->lbads) - 1) >> REGION_SHIFT;
        uint32_t mask = 0;

        if (last - first >= STRIPES)
                return ALL_STRIPES;
        for (uint64_t region = first; region <= last; region++)
                mask |= UINT32_C(1) << region % STRIPES;
        return mask;
}

static unsigned lowest(uint32_t mask)
{
        return (unsigned)__builtin_ctz(mask);
}

static void lock_stripes(struct ns *ns, uint32_t mask, bool write)
{
        for (; mask; mask &= mask - 1) {
                if (write)
                        pthread_rwlock_wrlock(&ns->lock->stripe[lowest(mask)].lock);
                else
                        pthread_rwlock_rdlock(&ns->lock->stripe[lowest(mask)].lock);
        }
}

static void unlock_stripes(struct ns *ns, uint32_t mask)
{
        for (; mask; mask &= mask - 1)
                pthread_rwlock_unlock(&ns->lock->stripe[lowest(mask)].lock);
}

/* --- unreadable blocks, with the lock of the range held --------------------------------------- */

static bool none_bad(struct ns *ns)
{
        return atomic_load_explicit(&ns->lock->bad_count, memory_order_acquire) == 0;
}

static uint16_t check_readable(struct ns *ns, uint64_t lba, uint64_t count)
{
        bool bad;

        if (none_bad(ns))
                return NVME_SUCCESS;
        pthread_mutex_lock(&ns->lock->bad_lock);
        bad = extents_touch(&ns->lock->bad, lba, lba + count);
        pthread_mutex_unlock(&ns->lock->bad_lock);
        return bad ? NVME_UNRECOVERED_READ : NVME_SUCCESS;
}

static uint16_t change_bad(struct ns *ns, uint64_t lba, uint64_t count,
                           bool (*change)(struct extents *e, uint64_t from, uint64_t to))
{
        struct ns_lock *l = ns->lock;
        bool ok;

        pthread_mutex_lock(&l->bad_lock);
        ok = change(&l->bad, lba, lba + count);
        atomic_store_explicit(&l->bad_count, l->bad.count, memory_order_release);
        pthread_mutex_unlock(&l->bad_lock);
        return ok ? NVME_SUCCESS : NVME_INTERNAL_ERROR;
}

/* Blocks are about to be written. */
static uint16_t make_readable(struct ns *ns, uint64_t lba, uint64_t count)
{
        return none_bad(ns) ? NVME_SUCCESS : change_bad(ns, lba, count, extents_remove);
}

/* --- one atomic step -------------------------------------------------------------------------- */

struct step {
        uint64_t lba, count;
        const uint8_t *cmp, *in;
        uint8_t *out;
        bool deallocate;
};

static uint64_t offset_of(const struct ns *ns, const struct step *s)
{
        return s->lba << ns->lbads;
}

static uint32_t bytes_of(const struct ns *ns, const struct step *s)
{
        return (uint32_t)(s->count << ns->lbads);
}

static uint16_t run(struct ns *ns, const struct step *s, bool write,
                    uint16_t (*body)(struct ns *ns, const struct step *s))
{
        uint32_t mask;
        uint16_t status = NVME_LBA_RANGE;

        if (!ns_has(ns, s->lba, s->count))
                return NVME_LBA_RANGE;
        if (s->count == 0)
                return NVME_SUCCESS;
        mask = stripes_of(ns, s->lba, s->count);
        lock_stripes(ns, mask, write);
        if (ns_has(ns, s->lba, s->count)) /* it may just have shrunk */
                status = body(ns, s);
        unlock_stripes(ns, mask);
        return status;
}

static uint16_t read_body(struct ns *ns, const struct step *s)
{
        uint16_t status = check_readable(ns, s->lba, s->count);

        return status ? status : ns->ops->read(ns, offset_of(ns, s), bytes_of(ns, s), s->out);
}

static uint16_t write_body(struct ns *ns, const struct step *s)
{
        uint16_t status = make_readable(ns, s->lba, s->count);

        return status ? status : ns->ops->write(ns, offset_of(ns, s), bytes_of(ns, s), s->in);
}

static uint16_t compare_body(struct ns *ns, const struct step *s)
{
        uint16_t status = check_readable(ns, s->lba, s->count);
        uint64_t offset = offset_of(ns, s);
        uint32_t left = bytes_of(ns, s), len;
        const uint8_t *cmp = s->cmp;
        uint8_t chunk[CHUNK];

        for (; left > 0 && !status; left -= len, offset += len) {
                len = left < CHUNK ? left : CHUNK;
                status = ns->ops->read(ns, offset, len, chunk);
                if (!status && cmp && memcmp(chunk, cmp, len) != 0)
                        status = NVME_COMPARE_FAILURE;
                cmp = cmp ? cmp + len : NULL;
        }
        return status;
}

/* Memory can be read; of a disk only reading tells. */
static uint16_t verify_body(struct ns *ns, const struct step *s)
{
        return ns->ops->measure ? compare_body(ns, s) : check_readable(ns, s->lba, s->count);
}

static uint16_t compare_write_body(struct ns *ns, const struct step *s)
{
        uint16_t status = compare_body(ns, s);

        return status ? status : write_body(ns, s);
}

static uint16_t zero_body(struct ns *ns, const struct step *s)
{
        uint16_t status = make_readable(ns, s->lba, s->count);

        if (status)
                return status;
        return ns->ops->zero(ns, offset_of(ns, s), s->count << ns->lbads, s->deallocate);
}

static uint16_t deallocate_body(struct ns *ns, const struct step *s)
{
        if (!ns->ops->deallocate(ns, offset_of(ns, s), s->count << ns->lbads))
                return NVME_SUCCESS;
        return make_readable(ns, s->lba, s->count);
}

static uint16_t uncorrectable_body(struct ns *ns, const struct step *s)
{
        return change_bad(ns, s->lba, s->count, extents_add);
}

uint16_t ns_read(struct ns *ns, uint64_t lba, uint32_t count, uint8_t *buf)
{
        return run(ns, &(struct step) { .lba = lba, .count = count, .out = buf }, false, read_body);
}

uint16_t ns_write(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf)
{
        return run(ns, &(struct step) { .lba = lba, .count = count, .in = buf }, true, write_body);
}

uint16_t ns_compare(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf)
{
        return run(ns, &(struct step) { .lba = lba, .count = count, .cmp = buf }, false,
                   compare_body);
}

uint16_t ns_compare_write(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *cmp,
                          const uint8_t *buf)
{
        return run(ns, &(struct step) { .lba = lba, .count = count, .cmp = cmp, .in = buf }, true,
                   compare_write_body);
}

uint16_t ns_zero(struct ns *ns, uint64_t lba, uint64_t count, bool deallocate)
{
        return run(ns, &(struct step) { .lba = lba, .count = count, .deallocate = deallocate },
                   true, zero_body);
}

uint16_t ns_deallocate(struct ns *ns, uint64_t lba, uint64_t count)
{
        return run(ns, &(struct step) { .lba = lba, .count = count }, true, deallocate_body);
}

uint16_t ns_verify(struct ns *ns, uint64_t lba, uint32_t count)
{
        return run(ns, &(struct step) { .lba = lba, .count = count }, false, verify_body);
}

uint16_t ns_write_uncorrectable(struct ns *ns, uint64_t lba, uint64_t count)
{
        return run(ns, &(struct step) { .lba = lba, .count = count }, true, uncorrectable_body);
}

/* --- what a command waits for ----------------------------------------------------------------- */

bool ns_await(struct ns *ns, struct ns_wait *w)
{
        w->status = NVME_SUCCESS;
        if (!ns_waits(ns, w->durable))
                return true;
        if (ns->delay)
                ns_delay_begin(ns->delay, w);
        else
                ns->ops->flush(ns, w);
        return false;
}

/* --- size ------------------------------------------------------------------------------------- */

static void forget_beyond(struct ns *ns, uint64_t blocks)
{
        if (!none_bad(ns))
                change_bad(ns, blocks, UINT64_MAX - blocks, extents_remove);
}

/* resize: also the storage behind. */
static uint16_t take_size(struct ns *ns, uint64_t blocks, bool resize)
{
        uint16_t status = NVME_SUCCESS;

        lock_stripes(ns, ALL_STRIPES, true);
        if (resize)
                status = ns->ops->resize(ns, blocks << ns->lbads);
        if (!status) {
                forget_beyond(ns, blocks);
                atomic_store(&ns->blocks, blocks);
        }
        unlock_stripes(ns, ALL_STRIPES);
        return status;
}

uint16_t ns_resize(struct ns *ns, uint64_t blocks)
{
        return blocks == ns->blocks ? NVME_SUCCESS : take_size(ns, blocks, true);
}

bool ns_measure(struct ns *ns)
{
        uint64_t blocks = ns->ops->measure ? ns->ops->measure(ns) >> ns->lbads : ns->blocks;

        if (blocks == ns->blocks)
                return false;
        take_size(ns, blocks, false);
        return true;
}

/* --- specification ---------------------------------------------------------------------------- */

bool ns_parse_size(const char *text, uint64_t *bytes)
{
        static const char units[] = "KMGT";
        const char *unit;
        unsigned shift = 0;
        char *end;

        if (!isdigit((unsigned char)text[0]))
                return false;
        errno = 0;
        *bytes = strtoull(text, &end, 10);
        if (*end != '\0') {
                unit = strchr(units, toupper((unsigned char)*end));
                if (!unit || end[1] != '\0')
                        return false;
                shift = 10 * (unsigned)(unit - units + 1);
        }
        if (errno || *bytes == 0 || *bytes > (uint64_t)INT64_MAX >> shift)
                return false;
        *bytes <<= shift;
        return true;
}

static const struct kind {
        const char *prefix;
        bool sized; /* what follows the prefix is a size */
        bool (*open)(struct ns *ns, const struct ns_spec *spec, char *error, size_t size);
} kinds[] = {
        { "mem:", true, ns_mem_open },
        { "null:", true, ns_null_open },
        { "file:", false, ns_file_open },
        { "", false, ns_file_open }, /* a plain path */
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const struct kind *kind_of(const char *spec)
{
        for (const struct kind *k = kinds; k < kinds + KINDS; k++)
                if (k->prefix[0] && strncmp(spec, k->prefix, strlen(k->prefix)) == 0)
                        return k;
        return spec[0] == '/' || spec[0] == '.' ? &kinds[KINDS - 1] : NULL;
}

static bool parse_option(struct ns_spec *spec, const char *option, bool sized)
{
        if (strcmp(option, "bs=512") == 0)
                spec->lbads = 9;
        else if (strcmp(option, "bs=4096") == 0)
                spec->lbads = 12;
        else if (strncmp(option, "delay=", 6) == 0)
                return ns_delay_parse(option + 6, &spec->delay);
        else
                return !sized && strncmp(option, "size=", 5) == 0 &&
                       ns_parse_size(option + 5, &spec->bytes);
        return true;
}

/* Takes `text` apart, in place. */
static bool parse_spec(char *text, const struct kind *k, struct ns_spec *spec, char *error,
                       size_t size)
{
        char *rest = text + strlen(k->prefix), *option;

        *spec = (struct ns_spec) { .arg = strsep(&rest, ","), .lbads = 9 };
        while ((option = strsep(&rest, ",")) != NULL)
                if (!parse_option(spec, option, k->sized)) {
                        snprintf(error, size,
                                 "'%s' is not an option of a namespace (bs=512, bs=4096, "
                                 "delay=TIME-TIME%s)",
                                 option, k->sized ? "" : ", size=SIZE");
                        return false;
                }
        if (k->sized && !ns_parse_size(spec->arg, &spec->bytes)) {
                snprintf(error, size, "'%s' is not a size", spec->arg);
                return false;
        }
        if (spec->bytes % (UINT64_C(1) << spec->lbads) != 0) {
                snprintf(error, size, "size is not a multiple of the block size");
                return false;
        }
        return true;
}

/* --- open and close --------------------------------------------------------------------------- */

/* 64 bits of FNV-1a. */
static uint64_t hash(uint64_t h, const char *text)
{
        for (; *text; text++)
                h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
        return h * UINT64_C(0x100000001b3); /* the NUL */
}

/* The UUID (version 8, own scheme) that the namespace has in every run. */
static void make_uuid(struct ns *ns, const char *nqn, const char *identity)
{
        char number[16];

        snprintf(number, sizeof(number), "%u", ns->nsid);
        for (unsigned i = 0; i < 2; i++) {
                uint64_t h = hash(UINT64_C(0xcbf29ce484222325) + i, nqn);

                le_put(ns->uuid + 8 * i, 8, hash(hash(h, number), identity));
        }
        ns->uuid[6] = (uint8_t)((ns->uuid[6] & 0x0f) | 0x80);
        ns->uuid[8] = (uint8_t)((ns->uuid[8] & 0x3f) | 0x80);
}

static struct ns *ns_new(const char *spec, uint32_t nsid)
{
        struct ns *ns = calloc(1, sizeof(*ns));

        if (!ns)
                return NULL;
        ns->nsid = nsid;
        atomic_init(&ns->refs, 1);
        ns->path = strdup(spec);
        ns->lock = lock_new();
        return ns;
}

static void ns_free(struct ns *ns)
{
        if (ns->lock)
                lock_free(ns->lock);
        free(ns->path);
        free(ns);
}

static bool ns_start(struct ns *ns, const char *nqn, const struct kind *k, char *text, char *error,
                     size_t size)
{
        struct ns_spec spec;

        if (!ns->path || !ns->lock || !text) {
                snprintf(error, size, "%s", strerror(ENOMEM));
                return false;
        }
        if (!parse_spec(text, k, &spec, error, size))
                return false;
        ns->lbads = spec.lbads;
        make_uuid(ns, nqn, k->sized ? k->prefix : spec.arg);
        if (!k->open(ns, &spec, error, size))
                return false;
        if (spec.delay.most == 0 || (ns->delay = ns_delay_new(ns, &spec.delay)) != NULL)
                return true;
        snprintf(error, size, "%s", strerror(errno));
        ns->ops->close(ns);
        return false;
}

struct ns *ns_open(const char *spec, const char *nqn, uint32_t nsid, char *error, size_t size)
{
        const struct kind *k = kind_of(spec);
        struct ns *ns = k ? ns_new(spec, nsid) : NULL;
        char *text = strdup(spec), why[256] = "";

        if (!k)
                snprintf(why, sizeof(why), "neither mem:SIZE, null:SIZE, file:PATH nor a path");
        if (ns && !ns_start(ns, nqn, k, text, why, sizeof(why))) {
                ns_free(ns);
                ns = NULL;
        }
        if (!ns)
                snprintf(error, size, "%s: %s", spec, why[0] ? why : strerror(ENOMEM));
        free(text);
        return ns;
}

void ns_put(struct ns *ns)
{
        if (atomic_fetch_sub(&ns->refs, 1) > 1)
                return;
        if (ns->delay)
                ns_delay_free(ns->delay);
        ns->ops->close(ns);
        ns_free(ns);
}
