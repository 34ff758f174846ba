/* SPDX-License-Identifier: BSD-3-Clause */
#include "ns.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "marks.h"
#include "ns_backend.h"
#include "pdu/core/le.h"

enum {
        STRIPES = 32,      /* the thread sanitizer follows no more than 64 locks of one thread */
        UNIT_SHIFT = 9,    /* namespaces of different block sizes may share the storage */
        REGION_SHIFT = 17, /* 128 KiB that share a stripe: most commands need one lock, or two */
        CHUNK = 16384,     /* bytes that are compared at a time */
};

#define ALL_STRIPES UINT32_MAX

struct stripe {
        pthread_rwlock_t lock;
} __attribute__((aligned(64)));

struct marked { /* units of 512 bytes */
        struct marks marks;
        _Atomic unsigned pages; /* of them: 0: none is marked */
};

struct ns_lock {
        struct stripe stripe[STRIPES];
        pthread_mutex_t marks_lock;     /* taken within stripes */
        struct marked bad;              /* by Write Uncorrectable */
        struct marked hollow;           /* deallocated, and not written since */
        _Atomic uint64_t times;         /* that blocks became bad */
        const struct ns_family *family; /* whose `shared` is; NULL: none */
        void *shared;
        _Atomic unsigned refs;
};

const char *ns_result_name(enum ns_result result)
{
        static const char *const names[NS_RESULTS] = {
                [NS_DONE] = "done",
                [NS_BEYOND] = "beyond its end",
                [NS_DIFFERS] = "other data",
                [NS_READ_ERROR] = "it cannot be read",
                [NS_WRITE_ERROR] = "it cannot be written",
                [NS_DEALLOCATED] = "deallocated",
                [NS_NO_SPACE] = "no space",
                [NS_NO_MEMORY] = "out of memory",
                [NS_BUSY] = "busy",
                [NS_FIXED] = "it cannot be changed so",
                [NS_GUARD_WRONG] = "another guard",
                [NS_APP_WRONG] = "another application tag",
                [NS_STORAGE_WRONG] = "another storage tag",
                [NS_REF_WRONG] = "another reference tag",
        };

        return result < NS_RESULTS ? names[result] : "a fault that was injected";
}

/* --- the lock of a range ---------------------------------------------------------------------- */

static struct ns_lock *lock_new(const struct ns_family *family)
{
        struct ns_lock *l = aligned_alloc(64, (sizeof(*l) + 63) / 64 * 64);

        if (!l)
                return NULL;
        memset(l, 0, sizeof(*l));
        if (family) {
                l->family = family;
                l->shared = calloc(1, family->shared_bytes);
                if (!l->shared) {
                        free(l);
                        return NULL;
                }
                family->shared_init(l->shared);
        }
        for (unsigned i = 0; i < STRIPES; i++)
                pthread_rwlock_init(&l->stripe[i].lock, NULL);
        pthread_mutex_init(&l->marks_lock, NULL);
        atomic_init(&l->refs, 1);
        return l;
}

struct ns_lock *ns_lock_get(struct ns_lock *l)
{
        atomic_fetch_add(&l->refs, 1);
        return l;
}

void ns_lock_put(struct ns_lock *l)
{
        if (atomic_fetch_sub(&l->refs, 1) > 1)
                return;
        for (unsigned i = 0; i < STRIPES; i++)
                pthread_rwlock_destroy(&l->stripe[i].lock);
        pthread_mutex_destroy(&l->marks_lock);
        marks_fini(&l->bad.marks);
        marks_fini(&l->hollow.marks);
        if (l->family)
                l->family->shared_fini(l->shared);
        free(l->shared);
        free(l);
}

void *ns_shared(const struct ns *ns)
{
        return ns->lock->shared;
}

bool ns_lock_suits(const struct ns_lock *l, const struct ns_family *family)
{
        return l->family == family;
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

/* --- blocks that are marked, with the lock of the range held ----------------------------------- */

static uint64_t unit(const struct ns *ns, uint64_t lba)
{
        return lba << (ns->lbads - UNIT_SHIFT);
}

static bool is_marked(struct ns *ns, struct marked *m, uint64_t lba, uint64_t count)
{
        bool found;

        if (atomic_load_explicit(&m->pages, memory_order_acquire) == 0)
                return false;
        pthread_mutex_lock(&ns->lock->marks_lock);
        found = marks_touch(&m->marks, unit(ns, lba), unit(ns, lba + count));
        pthread_mutex_unlock(&ns->lock->marks_lock);
        return found;
}

static bool mark(struct ns *ns, struct marked *m, uint64_t lba, uint64_t count)
{
        bool ok;

        pthread_mutex_lock(&ns->lock->marks_lock);
        ok = marks_add(&m->marks, unit(ns, lba), unit(ns, lba + count));
        atomic_store_explicit(&m->pages, m->marks.count, memory_order_release);
        pthread_mutex_unlock(&ns->lock->marks_lock);
        return ok;
}

static void unmark(struct ns *ns, struct marked *m, uint64_t lba, uint64_t count)
{
        if (atomic_load_explicit(&m->pages, memory_order_acquire) == 0)
                return;
        pthread_mutex_lock(&ns->lock->marks_lock);
        marks_remove(&m->marks, unit(ns, lba), unit(ns, lba + count));
        atomic_store_explicit(&m->pages, m->marks.count, memory_order_release);
        pthread_mutex_unlock(&ns->lock->marks_lock);
}

static enum ns_result check_readable(struct ns *ns, uint64_t lba, uint64_t count)
{
        if (is_marked(ns, &ns->lock->bad, lba, count))
                return NS_READ_ERROR;
        return atomic_load_explicit(&ns->deallocated_fails, memory_order_relaxed) &&
                       is_marked(ns, &ns->lock->hollow, lba, count)
                   ? NS_DEALLOCATED
                   : NS_DONE;
}

static enum ns_result make_unreadable(struct ns *ns, uint64_t lba, uint64_t count)
{
        if (!mark(ns, &ns->lock->bad, lba, count))
                return NS_NO_MEMORY;
        unmark(ns, &ns->lock->hollow, lba, count);
        atomic_fetch_add(&ns->lock->times, 1);
        return NS_DONE;
}

uint64_t ns_times_marked(const struct ns *ns)
{
        return atomic_load(&ns->lock->times);
}

/* Blocks have been written, or are gone. */
static void make_readable(struct ns *ns, uint64_t lba, uint64_t count)
{
        unmark(ns, &ns->lock->bad, lba, count);
        unmark(ns, &ns->lock->hollow, lba, count);
}

/* Out of memory: they count as written, as zeroes. */
static void make_hollow(struct ns *ns, uint64_t lba, uint64_t count)
{
        unmark(ns, &ns->lock->bad, lba, count);
        mark(ns, &ns->lock->hollow, lba, count);
}

/* The first block from lba on that has a unit that is marked, or (in: false) one that is not; `end` if
 * there is none. Of namespaces on one file a block may have both: the file's units are those of all. */
static uint64_t next_block(const struct ns *ns, const struct marks *m, uint64_t lba, uint64_t end,
                           bool in)
{
        uint64_t at = marks_next(m, unit(ns, lba), unit(ns, end), in) >> (ns->lbads - UNIT_SHIFT);

        return at < lba ? lba : at;
}

/* The first block from lba on that has no unit that is marked, or (in: false) none that is not; lba has one. */
static uint64_t next_without(const struct ns *ns, const struct marks *m, uint64_t lba, uint64_t end,
                             bool in)
{
        do
                lba = next_block(ns, m, lba + 1, end, !in);
        while (lba < end && next_block(ns, m, lba, end, in) == lba);
        return lba;
}

uint64_t ns_extent(struct ns *ns, enum ns_blocks what, uint64_t lba, uint64_t end, uint64_t *count)
{
        bool in = what == NS_UNREADABLE;
        const struct marks *m = in ? &ns->lock->bad.marks : &ns->lock->hollow.marks;
        uint64_t first;

        pthread_mutex_lock(&ns->lock->marks_lock);
        first = next_block(ns, m, lba, end, in);
        *count = first < end ? next_without(ns, m, first, end, in) - first : 0;
        pthread_mutex_unlock(&ns->lock->marks_lock);
        return first;
}

static uint64_t count_marked(struct ns *ns, const struct marked *m)
{
        uint64_t end = unit(ns, atomic_load(&ns->blocks)), count;

        pthread_mutex_lock(&ns->lock->marks_lock);
        count = marks_groups(&m->marks, ns->lbads - UNIT_SHIFT, end);
        pthread_mutex_unlock(&ns->lock->marks_lock);
        return count;
}

uint64_t ns_used(struct ns *ns)
{
        return atomic_load(&ns->blocks) - count_marked(ns, &ns->lock->hollow);
}

uint64_t ns_unreadable(struct ns *ns)
{
        return count_marked(ns, &ns->lock->bad);
}

/* --- one atomic step -------------------------------------------------------------------------- */

struct step {
        uint64_t lba, count;
        const uint8_t *cmp, *in;
        uint8_t *out;
        bool deallocate, erase;
        const struct pi_use *pi, *cmp_pi;
        enum ns_result *written;
};

static uint64_t offset_of(const struct ns *ns, const struct step *s)
{
        return s->lba << ns->lbads;
}

static uint32_t bytes_of(const struct ns *ns, const struct step *s)
{
        return (uint32_t)(s->count << ns->lbads);
}

static enum ns_result run(struct ns *ns, const struct step *s, bool write,
                          enum ns_result (*body)(struct ns *ns, const struct step *s))
{
        uint32_t mask;
        enum ns_result result;

        if (!ns_has(ns, s->lba, s->count) && !PLANTED(NS_SHRUNK)) /* it was once */
                return NS_BEYOND;
        if (s->count == 0)
                return NS_DONE;
        mask = stripes_of(ns, s->lba, s->count);
        lock_stripes(ns, mask, write);
        result = write && !s->erase ? (enum ns_result)atomic_load(&ns->barred) : NS_DONE;
        if (!result && !ns_has(ns, s->lba, s->count) && !PLANTED(NS_SHRUNK))
                result = NS_BEYOND; /* it has just shrunk */
        if (!result)
                result = body(ns, s);
        unlock_stripes(ns, mask);
        return result;
}

static enum ns_result read_body(struct ns *ns, const struct step *s)
{
        enum ns_result result = check_readable(ns, s->lba, s->count);

        if (!result && ns->ms)
                return meta_read(ns, s->lba, (uint32_t)s->count, s->out, s->pi);
        return result ? result : ns->ops->read(ns, offset_of(ns, s), bytes_of(ns, s), s->out);
}

static enum ns_result write_body(struct ns *ns, const struct step *s)
{
        enum ns_result result = ns->ms
                                    ? meta_write(ns, s->lba, (uint32_t)s->count, s->in, s->pi)
                                    : ns->ops->write(ns, offset_of(ns, s), bytes_of(ns, s), s->in);

        if (!result)
                make_readable(ns, s->lba, s->count);
        return result;
}

static enum ns_result compare_body(struct ns *ns, const struct step *s)
{
        enum ns_result result = check_readable(ns, s->lba, s->count);
        uint64_t offset = offset_of(ns, s);
        uint32_t left = bytes_of(ns, s), len;
        const uint8_t *cmp = s->cmp;
        uint8_t chunk[CHUNK];

        if (!result && ns->ms)
                return meta_compare(ns, s->lba, (uint32_t)s->count, s->cmp, s->cmp_pi);
        for (; left > 0 && !result; left -= len, offset += len) {
                len = left < CHUNK ? left : CHUNK;
                result = ns->ops->read(ns, offset, len, chunk);
                if (!result && cmp && memcmp(chunk, cmp, len) != 0)
                        result = NS_DIFFERS;
                cmp = cmp ? cmp + len : NULL;
        }
        return result;
}

/* Memory can be read; of a disk only reading tells. */
static enum ns_result verify_body(struct ns *ns, const struct step *s)
{
        return ns->ops->measure || ns->pi ? compare_body(ns, s)
                                          : check_readable(ns, s->lba, s->count);
}

static enum ns_result compare_write_body(struct ns *ns, const struct step *s)
{
        enum ns_result result = compare_body(ns, s);

        if (!result)
                *s->written = write_body(ns, s);
        return result;
}

static enum ns_result zero_body(struct ns *ns, const struct step *s)
{
        enum ns_result result =
            ns->ops->zero(ns, offset_of(ns, s), s->count << ns->lbads, s->deallocate);

        if (!result && ns->ms)
                result = meta_zero(ns, s->lba, s->count, s->deallocate, s->pi);
        if (!result && s->deallocate)
                make_hollow(ns, s->lba, s->count);
        else if (!result)
                make_readable(ns, s->lba, s->count);
        return result;
}

static enum ns_result deallocate_body(struct ns *ns, const struct step *s)
{
        if (!ns->ops->deallocate(ns, offset_of(ns, s), s->count << ns->lbads))
                return NS_DONE;
        make_hollow(ns, s->lba, s->count);
        return ns->ms ? meta_zero(ns, s->lba, s->count, true, NULL) : NS_DONE;
}

static enum ns_result uncorrectable_body(struct ns *ns, const struct step *s)
{
        return make_unreadable(ns, s->lba, s->count);
}

enum ns_result ns_read_with(struct ns *ns, uint64_t lba, uint32_t count, uint8_t *buf,
                            const struct pi_use *pi)
{
        return run(ns, &(struct step) { .lba = lba, .count = count, .out = buf, .pi = pi }, false,
                   read_body);
}

enum ns_result ns_write_with(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf,
                             const struct pi_use *pi)
{
        return run(ns, &(struct step) { .lba = lba, .count = count, .in = buf, .pi = pi }, true,
                   write_body);
}

enum ns_result ns_compare_with(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf,
                               const struct pi_use *pi)
{
        return run(ns, &(struct step) { .lba = lba, .count = count, .cmp = buf, .cmp_pi = pi },
                   false, compare_body);
}

enum ns_result ns_compare_write_with(struct ns *ns, uint64_t lba, uint32_t count,
                                     const struct ns_fused *f)
{
        return run(ns,
                   &(struct step) { .lba = lba,
                                    .count = count,
                                    .cmp = f->cmp,
                                    .in = f->buf,
                                    .cmp_pi = f->cmp_pi,
                                    .pi = f->pi,
                                    .written = f->written },
                   true, compare_write_body);
}

enum ns_result ns_zero_with(struct ns *ns, uint64_t lba, uint64_t count, bool deallocate,
                            const struct pi_use *pi)
{
        return run(
            ns, &(struct step) { .lba = lba, .count = count, .deallocate = deallocate, .pi = pi },
            true, zero_body);
}

enum ns_result ns_verify_with(struct ns *ns, uint64_t lba, uint32_t count, const struct pi_use *pi)
{
        return run(ns, &(struct step) { .lba = lba, .count = count, .cmp_pi = pi }, false,
                   verify_body);
}

enum ns_result ns_read(struct ns *ns, uint64_t lba, uint32_t count, uint8_t *buf)
{
        return ns_read_with(ns, lba, count, buf, NULL);
}

enum ns_result ns_write(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf)
{
        return ns_write_with(ns, lba, count, buf, NULL);
}

enum ns_result ns_compare(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *buf)
{
        return ns_compare_with(ns, lba, count, buf, NULL);
}

enum ns_result ns_compare_write(struct ns *ns, uint64_t lba, uint32_t count, const uint8_t *cmp,
                                const uint8_t *buf)
{
        enum ns_result written = NS_DONE;
        enum ns_result result = ns_compare_write_with(
            ns, lba, count, &(struct ns_fused) { .cmp = cmp, .buf = buf, .written = &written });

        return result ? result : written;
}

enum ns_result ns_zero(struct ns *ns, uint64_t lba, uint64_t count, bool deallocate)
{
        return ns_zero_with(ns, lba, count, deallocate, NULL);
}

enum ns_result ns_erase(struct ns *ns)
{
        uint64_t blocks = atomic_load(&ns->blocks);

        return run(ns, &(struct step) { .count = blocks, .deallocate = true, .erase = true }, true,
                   zero_body);
}

enum ns_result ns_deallocate(struct ns *ns, uint64_t lba, uint64_t count)
{
        return run(ns, &(struct step) { .lba = lba, .count = count }, true, deallocate_body);
}

enum ns_result ns_verify(struct ns *ns, uint64_t lba, uint32_t count)
{
        return ns_verify_with(ns, lba, count, NULL);
}

enum ns_result ns_write_uncorrectable(struct ns *ns, uint64_t lba, uint64_t count)
{
        return run(ns, &(struct step) { .lba = lba, .count = count }, true, uncorrectable_body);
}

enum ns_result ns_protect(struct ns *ns, uint8_t state)
{
        enum ns_result result = NS_DONE;

        if (ns->ops->protect && atomic_load(&ns->protection) != state)
                result = ns->ops->protect(ns, state);
        if (!result)
                atomic_store(&ns->protection, state);
        return result;
}

/* --- what a command waits for ----------------------------------------------------------------- */

bool ns_await(struct ns *ns, struct ns_wait *w)
{
        w->result = NS_DONE;
        if (!ns_waits(ns, w->durable))
                return true;
        if (ns->delay)
                ns_delay_begin(ns->delay, w);
        else
                ns->ops->flush(ns, w);
        return false;
}

bool ns_defer(struct ns *ns, struct ns_wait *w)
{
        w->durable = false;
        if (!ns->ops->flush)
                return false;
        ns->ops->flush(ns, w);
        return true;
}

/* --- size ------------------------------------------------------------------------------------- */

/* resize: also the storage behind. */
static enum ns_result take_size(struct ns *ns, uint64_t blocks, bool resize)
{
        enum ns_result result = NS_DONE;

        lock_stripes(ns, ALL_STRIPES, true);
        if (resize)
                result = ns->ops->resize(ns, blocks << ns->lbads);
        if (!result) {
                make_readable(ns, blocks, (UINT64_MAX >> ns->lbads) - blocks);
                atomic_store(&ns->blocks, blocks);
        }
        unlock_stripes(ns, ALL_STRIPES);
        return result;
}

enum ns_result ns_resize(struct ns *ns, uint64_t blocks)
{
        if (blocks != ns->blocks && ns->ms) /* the metadata stands where the blocks end */
                return NS_FIXED;
        return blocks == ns->blocks ? NS_DONE : take_size(ns, blocks, true);
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

/* A number that `option` has after its '='; 0: none, or none of up to 64. */
static uint8_t small_number(const char *option)
{
        const char *value = strchr(option, '=') + 1;
        char *end;
        unsigned long n = isdigit((unsigned char)*value) ? strtoul(value, &end, 10) : 0;

        return n <= NS_METADATA_MAX && n > 0 && !*end ? (uint8_t)n : 0;
}

/* Of 8, 16, 32 or 64 bytes. */
static bool parse_metadata(struct ns_spec *spec, const char *option)
{
        spec->ms = small_number(option);
        return spec->ms >= PI_LEN && !(spec->ms & (spec->ms - 1));
}

static bool parse_protection(struct ns_spec *spec, const char *option)
{
        spec->pi = small_number(option);
        return spec->pi > 0 && spec->pi <= PI_TYPES;
}

static bool parse_guard(struct ns_spec *spec, const char *option)
{
        spec->guard = small_number(option);
        return spec->guard == 16 || spec->guard == 32 || spec->guard == 64;
}

static bool parse_storage_tag(struct ns_spec *spec, const char *option)
{
        spec->sts = small_number(option);
        return spec->sts > 0;
}

static bool parse_option(struct ns_spec *spec, const char *option, bool sized)
{
        if (strcmp(option, "bs=512") == 0)
                spec->lbads = 9;
        else if (strcmp(option, "bs=4096") == 0)
                spec->lbads = 12;
        else if (strncmp(option, "ms=", 3) == 0)
                return parse_metadata(spec, option);
        else if (strncmp(option, "pi=", 3) == 0)
                return parse_protection(spec, option);
        else if (strncmp(option, "guard=", 6) == 0)
                return parse_guard(spec, option);
        else if (strncmp(option, "sts=", 4) == 0)
                return parse_storage_tag(spec, option);
        else if (strncmp(option, "delay=", 6) == 0)
                return ns_delay_parse(option + 6, &spec->delay);
        else
                return !sized && strncmp(option, "size=", 5) == 0 &&
                       ns_parse_size(option + 5, &spec->bytes);
        return true;
}

/* The guard and storage tag of the protection information (N1.2 figure 157). */
static bool has_format(const struct ns_spec *spec)
{
        const struct pi_format f = { spec->pi, spec->guard, spec->sts };

        return (!pi_is_extended(&f) && f.guard == 16 && !f.sts) ||
               (f.type && pi_is_format(&f) && spec->ms >= pi_len(&f) &&
                (f.guard == 16 || spec->lbads == 12));
}

/* Takes `text` apart, in place. */
static bool parse_spec(char *text, const struct kind *k, struct ns_spec *spec, char *error,
                       size_t size)
{
        char *rest = text + strlen(k->prefix), *option;

        *spec = (struct ns_spec) { .arg = strsep(&rest, ","), .lbads = 9, .guard = 16 };
        while ((option = strsep(&rest, ",")) != NULL)
                if (!parse_option(spec, option, k->sized)) {
                        snprintf(error, size,
                                 "'%s' is not an option of a namespace (bs=512, bs=4096, "
                                 "delay=TIME-TIME, ms=8, pi=1, guard=32, sts=16%s)",
                                 option, k->sized ? "" : ", size=SIZE");
                        return false;
                }
        if (k->sized && !ns_parse_size(spec->arg, &spec->bytes)) {
                snprintf(error, size, "'%s' is not a size", spec->arg);
                return false;
        }
        if ((spec->ms || spec->pi) && k->open != ns_mem_open) {
                snprintf(error, size, "only mem: has metadata");
                return false;
        }
        if (spec->pi && !spec->ms) {
                snprintf(error, size, "pi= needs metadata (ms=8)");
                return false;
        }
        if (!has_format(spec)) {
                snprintf(error, size,
                         "guard=32 and guard=64 need pi=, bs=4096 and ms=16, and sts= is up to "
                         "32, 16 to 64, or up to 48 bits, by the guard");
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

void ns_make_uuid(uint8_t uuid[16], const char *nqn, uint32_t nsid, const char *identity)
{
        char number[16];

        snprintf(number, sizeof(number), "%u", nsid);
        for (unsigned i = 0; i < 2; i++) {
                uint64_t h = hash(UINT64_C(0xcbf29ce484222325) + i, nqn);

                le_put(uuid + 8 * i, 8, hash(hash(h, number), identity));
        }
        uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x80);
        uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

static void ns_free(struct ns *ns)
{
        if (ns->lock)
                ns_lock_put(ns->lock);
        if (ns->own)
                ns->family->own_fini(ns->own);
        free(ns->own);
        free(ns->path);
        free(ns);
}

struct ns *ns_new(const struct ns_family *family, const char *path, uint32_t nsid)
{
        struct ns *ns = calloc(1, sizeof(*ns));

        if (!ns)
                return NULL;
        ns->nsid = nsid;
        ns->guard = 16;
        atomic_init(&ns->refs, 1);
        ns->path = strdup(path);
        ns->lock = lock_new(family);
        ns->family = family;
        ns->own = family ? calloc(1, family->own_bytes) : NULL;
        if (ns->path && ns->lock && (ns->own || !family))
                return ns;
        ns_free(ns);
        return NULL;
}

void ns_share_lock(struct ns *ns, const struct ns *with)
{
        ns_lock_put(ns->lock);
        ns->lock = ns_lock_get(with->lock);
}

static bool ns_start(struct ns *ns, const char *nqn, const struct kind *k, char *text, char *error,
                     size_t size)
{
        struct ns_spec spec;

        if (!text) {
                snprintf(error, size, "%s", strerror(ENOMEM));
                return false;
        }
        if (!parse_spec(text, k, &spec, error, size))
                return false;
        ns->lbads = spec.lbads;
        ns->ms = spec.ms;
        ns->pi = spec.pi;
        ns->guard = spec.guard;
        ns->sts = spec.sts;
        ns_make_uuid(ns->uuid, nqn, ns->nsid, k->sized ? k->prefix : spec.arg);
        if (!k->open(ns, &spec, error, size))
                return false;
        if (spec.delay.most == 0 || (ns->delay = ns_delay_new(ns, &spec.delay)) != NULL)
                return true;
        snprintf(error, size, "%s", strerror(errno));
        ns->ops->close(ns);
        return false;
}

struct ns *ns_open(const struct ns_family *family, const char *spec, const char *nqn, uint32_t nsid,
                   char *error, size_t size)
{
        const struct kind *k = kind_of(spec);
        struct ns *ns = k ? ns_new(family, spec, nsid) : NULL;
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

void ns_hurry(struct ns *ns)
{
        if (ns->delay)
                ns_delay_hurry(ns->delay);
}

static void ns_close(struct ns *ns)
{
        if (ns->delay)
                ns_delay_free(ns->delay);
        ns->ops->close(ns);
        ns_free(ns);
}

static _Thread_local bool elsewhere;
static struct {
        pthread_mutex_t lock;
        pthread_cond_t done;
        struct ns *first;
        bool running; /* a thread: as long as there are some, or one is being closed */
} closing = { .lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER };

static void *close_all(void *arg)
{
        struct ns *ns;

        pthread_mutex_lock(&closing.lock);
        while ((ns = closing.first) != NULL) {
                closing.first = ns->next;
                pthread_mutex_unlock(&closing.lock);
                ns_close(ns);
                pthread_mutex_lock(&closing.lock);
        }
        closing.running = false;
        pthread_cond_broadcast(&closing.done);
        pthread_mutex_unlock(&closing.lock);
        return arg;
}

/* False: there is no thread for it. */
static bool hand_over(struct ns *ns)
{
        pthread_t thread;
        bool good;

        pthread_mutex_lock(&closing.lock);
        if (!closing.running && pthread_create(&thread, NULL, close_all, NULL) == 0) {
                closing.running = true;
                pthread_detach(thread);
        }
        good = closing.running;
        if (good) {
                ns->next = closing.first;
                closing.first = ns;
        }
        pthread_mutex_unlock(&closing.lock);
        return good;
}

void ns_put_elsewhere(void)
{
        elsewhere = true;
}

void ns_settle(void)
{
        pthread_mutex_lock(&closing.lock);
        while (closing.running)
                pthread_cond_wait(&closing.done, &closing.lock);
        pthread_mutex_unlock(&closing.lock);
}

void ns_put(struct ns *ns)
{
        if (atomic_fetch_sub(&ns->refs, 1) > 1)
                return;
        if (!elsewhere || !ns->ops->flush || !hand_over(ns))
                ns_close(ns);
}
