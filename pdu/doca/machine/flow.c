/* SPDX-License-Identifier: BSD-3-Clause */
#include "flow.h"

#include <string.h>

void doca_bounds_check(const struct doca_dialect *d, const struct doca_bounds *b,
                       const struct doca_io *io, struct rule_set *found)
{
        struct doca_place at = doca_io_place(d, io, b->base);

        if (io->type != DOCA_IO_READ && io->type != DOCA_IO_WRITE)
                return;
        if (b->len > 0 && !doca_within(at.memory, io->size, b->len))
                rule_add(found, DOCA_IO_MEMORY);
        if (d->storage_by_memory && b->len == 0)
                return; /* where that begins is not known */
        if (b->total_size > 0 && !doca_within(at.storage, io->size, b->total_size))
                rule_add(found, DOCA_IO_STORAGE);
        if (b->block_size > 0 && (at.storage % b->block_size != 0 || io->size % b->block_size != 0))
                rule_add(found, DOCA_IO_BLOCKS);
}

void doca_flow_init(struct doca_flow *f, const struct doca_dialect *d,
                    const struct doca_bounds *bounds, uint64_t limit)
{
        f->dialect = d;
        f->bounds = *bounds;
        f->limit = limit;
        f->missing = false;
        f->count = 0;
}

void doca_flow_miss(struct doca_flow *f)
{
        f->missing = true;
        f->count = 0;
}

static void take_request(struct doca_flow *f, const struct doca_io *io, struct rule_set *found)
{
        if (f->limit > 0 && !f->missing && f->count >= f->limit)
                rule_add(found, DOCA_IO_LIMIT);
        doca_bounds_check(f->dialect, &f->bounds, io, found);
        if (f->count == DOCA_FLOW_REQUESTS)
                doca_flow_miss(f);
        f->request[f->count++] = *io;
}

static bool echoes(const struct doca_io *request, const struct doca_io *io)
{
        return io->size == request->size && io->memory == request->memory &&
               io->storage == request->storage && io->correlation_id == request->correlation_id;
}

/* Of requests with that user data the one that it echoes, else the oldest. NULL: there is none, or, where the results of some
 * may be missing, nobody knows which. */
static const struct doca_io *find(const struct doca_flow *f, const struct doca_io *io)
{
        const struct doca_io *oldest = NULL;
        unsigned n = 0;

        for (unsigned i = 0; i < f->count; i++) {
                const struct doca_io *request = &f->request[i];

                if (request->user_data != io->user_data)
                        continue;
                if (echoes(request, io))
                        return request;
                oldest = n++ == 0 ? request : oldest;
        }
        return f->missing && n > 1 ? NULL : oldest;
}

static void take_result(struct doca_flow *f, const struct doca_io *io, struct rule_set *found)
{
        const struct doca_io *request = find(f, io);
        size_t i = request ? (size_t)(request - f->request) : 0;

        if (!request) {
                if (!f->missing)
                        rule_add(found, DOCA_IO_USER);
                return;
        }
        if (!echoes(request, io))
                rule_add(found, DOCA_IO_ECHO);
        f->count--;
        memmove(f->request + i, f->request + i + 1, (f->count - i) * sizeof(f->request[0]));
}

void doca_flow_says(struct doca_flow *f, enum party sender, const void *p, size_t n,
                    struct doca_io *out, struct rule_set *found)
{
        (void)doca_io_read(f->dialect, p, n, sender, out, found);
        if (sender == PARTY_HOST)
                take_request(f, out, found);
        else if (n == DOCA_IO_LEN)
                take_result(f, out, found);
}
