/* SPDX-License-Identifier: BSD-3-Clause */
#include "bdev.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ns_backend.h"

struct bdev {
        char name[BDEV_NAME];
        enum bdev_type type;
        struct bdev *under; /* of a layer */
        struct ns *storage; /* of the lowest one */
        struct ns_ops ops;  /* of namespaces on it: what the storage cannot do is NULL */
        uint8_t uuid[16];
        _Atomic uint64_t average[2], p99[2]; /* us, of reads and of writes */
        _Atomic uint64_t count[BDEV_OPS], bytes[BDEV_OPS], failed;
        atomic_bool faulty; /* some fault has commands left */
        pthread_mutex_t lock;
        struct bdev_fault faults[BDEV_OPS]; /* under the lock */
        _Atomic unsigned refs;
};

/* --- faults ----------------------------------------------------------------------------------- */

static bool take_fault(struct bdev *b, enum bdev_op op, struct bdev_fault *f)
{
        bool taken;

        if (!atomic_load_explicit(&b->faulty, memory_order_relaxed))
                return false;
        pthread_mutex_lock(&b->lock);
        *f = b->faults[op];
        taken = f->left > 0;
        if (taken)
                b->faults[op].left--;
        pthread_mutex_unlock(&b->lock);
        return taken;
}

/* What the layers, from the top down, make of a command: its result; *change: a byte of its data. */
static enum ns_result pass(struct bdev *b, enum bdev_op op, uint64_t len, struct bdev_fault *change)
{
        struct bdev_fault f;

        change->left = 0;
        for (; b; b = b->under) {
                if (take_fault(b, op, &f)) {
                        if (f.result) {
                                atomic_fetch_add_explicit(&b->failed, 1, memory_order_relaxed);
                                return f.result;
                        }
                        *change = f;
                }
                atomic_fetch_add_explicit(&b->count[op], 1, memory_order_relaxed);
                atomic_fetch_add_explicit(&b->bytes[op], len, memory_order_relaxed);
        }
        return NS_DONE;
}

/* --- what a namespace on it does -------------------------------------------------------------- */

/* The storage may have shrunk since the namespace was measured. */
static bool is_inside(const struct ns *storage, uint64_t offset, uint64_t len)
{
        uint64_t bytes = storage->blocks << storage->lbads;

        return offset <= bytes && len <= bytes - offset;
}

static enum ns_result bdev_read(struct ns *ns, uint64_t offset, uint32_t len, uint8_t *buf)
{
        struct bdev *b = ns->store;
        struct bdev_fault change;
        enum ns_result result = pass(b, BDEV_READ, len, &change);

        if (!result && !is_inside(b->storage, offset, len))
                result = NS_BEYOND;
        if (!result)
                result = b->storage->ops->read(b->storage, offset, len, buf);
        if (!result && change.left > 0 && change.offset < len)
                buf[change.offset] = change.value;
        return result;
}

static enum ns_result bdev_write(struct ns *ns, uint64_t offset, uint32_t len, const uint8_t *buf)
{
        struct bdev *b = ns->store;
        struct bdev_fault change;
        enum ns_result result = pass(b, BDEV_WRITE, len, &change);

        if (!result && !is_inside(b->storage, offset, len))
                result = NS_BEYOND;
        if (!result)
                result = b->storage->ops->write(b->storage, offset, len, buf);
        if (!result && change.left > 0 && change.offset < len)
                result =
                    b->storage->ops->write(b->storage, offset + change.offset, 1, &change.value);
        return result;
}

static enum ns_result bdev_zero(struct ns *ns, uint64_t offset, uint64_t len, bool deallocate)
{
        struct bdev *b = ns->store;
        struct bdev_fault change;
        enum ns_result result = pass(b, deallocate ? BDEV_UNMAP : BDEV_WRITE, len, &change);

        if (!result && !is_inside(b->storage, offset, len))
                result = NS_BEYOND;
        return result ? result : b->storage->ops->zero(b->storage, offset, len, deallocate);
}

static bool bdev_deallocate(struct ns *ns, uint64_t offset, uint64_t len)
{
        struct bdev *b = ns->store;
        struct bdev_fault change;

        return !pass(b, BDEV_UNMAP, len, &change) && is_inside(b->storage, offset, len) &&
               b->storage->ops->deallocate(b->storage, offset, len);
}

static void bdev_flush(struct ns *ns, struct ns_wait *w)
{
        struct bdev *b = ns->store;
        struct bdev_fault change;

        w->result = w->durable ? pass(b, BDEV_FLUSH, 0, &change) : NS_DONE;
        if (!w->result && b->storage->ops->flush)
                b->storage->ops->flush(b->storage, w);
        else
                w->done(w);
}

static uint64_t bdev_bytes(struct ns *ns)
{
        const struct bdev *b = ns->store;

        return b->storage->blocks << b->storage->lbads;
}

static void bdev_close(struct ns *ns)
{
        bdev_put(ns->store);
}

/* --- life ------------------------------------------------------------------------------------- */

static struct bdev *bdev_new(enum bdev_type type, const char *name)
{
        struct bdev *b = calloc(1, sizeof(*b));

        if (!b)
                return NULL;
        snprintf(b->name, sizeof(b->name), "%s", name);
        b->type = type;
        pthread_mutex_init(&b->lock, NULL);
        atomic_init(&b->refs, 1);
        b->ops = (struct ns_ops) {
                .name = "bdev",
                .read = bdev_read,
                .write = bdev_write,
                .zero = bdev_zero,
                .deallocate = bdev_deallocate,
                .measure = bdev_bytes,
                .close = bdev_close,
        };
        return b;
}

struct bdev *bdev_open(const struct ns_family *family, enum bdev_type type, const char *name,
                       const char *spec, char *error, size_t size)
{
        struct bdev *b = bdev_new(type, name);

        if (!b) {
                snprintf(error, size, "%s", strerror(ENOMEM));
                return NULL;
        }
        b->storage = ns_open(family, spec, name, 1, error, size);
        if (!b->storage) {
                bdev_put(b);
                return NULL;
        }
        memcpy(b->uuid, b->storage->uuid, sizeof(b->uuid));
        if (b->storage->ops->flush)
                b->ops.flush = bdev_flush;
        return b;
}

static struct bdev *bdev_get(struct bdev *b)
{
        atomic_fetch_add(&b->refs, 1);
        return b;
}

struct bdev *bdev_over(enum bdev_type type, const char *name, struct bdev *on)
{
        struct bdev *b = bdev_new(type, name);

        if (!b)
                return NULL;
        b->under = bdev_get(on);
        b->storage = on->storage;
        b->ops.flush = type == BDEV_ERROR ? bdev_flush : on->ops.flush;
        ns_make_uuid(b->uuid, name, 1, "layer");
        return b;
}

void bdev_put(struct bdev *b)
{
        if (atomic_fetch_sub(&b->refs, 1) > 1)
                return;
        if (b->under)
                bdev_put(b->under);
        else if (b->storage)
                ns_put(b->storage);
        pthread_mutex_destroy(&b->lock);
        free(b);
}

static bool is_delayed(const struct bdev *b)
{
        while (b && b->type != BDEV_DELAY)
                b = b->under;
        return b;
}

struct ns *bdev_open_ns(struct bdev *b, const char *path, uint32_t nsid, char *error, size_t size)
{
        struct ns *ns = ns_new(b->storage->family, path, nsid);

        if (ns) {
                ns_share_lock(ns, b->storage);
                ns->lbads = b->storage->lbads;
                ns->blocks = atomic_load(&b->storage->blocks);
                ns->ops = &b->ops;
                memcpy(ns->uuid, b->uuid, sizeof(ns->uuid));
                ns->store = bdev_get(b);
                if (!is_delayed(b) || (ns->delay = ns_delay_new(ns, NULL)) != NULL)
                        return ns;
                ns_put(ns);
        }
        snprintf(error, size, "%s: %s", path, strerror(ENOMEM));
        return NULL;
}

/* --- what can be asked and changed ------------------------------------------------------------ */

const char *bdev_name(const struct bdev *b)
{
        return b->name;
}

enum bdev_type bdev_type(const struct bdev *b)
{
        return b->type;
}

struct bdev *bdev_under(const struct bdev *b)
{
        return b->under;
}

const struct ns *bdev_storage(const struct bdev *b)
{
        return b->storage;
}

uint8_t *bdev_uuid(struct bdev *b)
{
        return b->uuid;
}

void bdev_set_latency(struct bdev *b, bool write, struct bdev_latency l)
{
        atomic_store(&b->average[write], l.average);
        atomic_store(&b->p99[write], l.p99);
}

struct bdev_latency bdev_latency(const struct bdev *b, bool write)
{
        return (struct bdev_latency) { atomic_load(&b->average[write]),
                                       atomic_load(&b->p99[write]) };
}

uint64_t bdev_delay_us(const struct ns *ns, bool write, unsigned percent)
{
        uint64_t us = 0;

        for (const struct bdev *b = ns->store; b; b = b->under)
                us += percent == 0 ? b->p99[write] : b->average[write];
        return us;
}

void bdev_set_fault(struct bdev *b, enum bdev_op op, struct bdev_fault f)
{
        bool any = false;

        pthread_mutex_lock(&b->lock);
        b->faults[op] = f;
        for (unsigned i = 0; i < BDEV_OPS; i++)
                any |= b->faults[i].left > 0;
        atomic_store(&b->faulty, any);
        pthread_mutex_unlock(&b->lock);
}

struct bdev_stats bdev_stats(const struct bdev *b)
{
        struct bdev_stats s = { .failed = atomic_load(&b->failed) };

        for (unsigned i = 0; i < BDEV_OPS; i++) {
                s.ops[i] = atomic_load(&b->count[i]);
                s.bytes[i] = atomic_load(&b->bytes[i]);
        }
        return s;
}

void bdev_reset_stats(struct bdev *b)
{
        for (unsigned i = 0; i < BDEV_OPS; i++) {
                atomic_store(&b->count[i], 0);
                atomic_store(&b->bytes[i], 0);
        }
        atomic_store(&b->failed, 0);
}

enum ns_result bdev_resize(struct bdev *b, uint64_t blocks)
{
        return ns_resize(b->storage, blocks);
}

bool bdev_measure(struct bdev *b)
{
        return ns_measure(b->storage);
}
