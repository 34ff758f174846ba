/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks in anonymous memory: what was never written, or was deallocated, takes none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ns_backend.h"

enum { PAGE = 4096, WORTH_A_CALL = 65536 };

struct mem {
        uint8_t *base;
        uint64_t bytes;
};

static enum ns_result mem_read(struct ns *ns, uint64_t offset, uint32_t len, uint8_t *buf)
{
        const struct mem *m = ns->store;

        memcpy(buf, m->base + offset, len);
        return NS_DONE;
}

static enum ns_result mem_write(struct ns *ns, uint64_t offset, uint32_t len, const uint8_t *buf)
{
        const struct mem *m = ns->store;

        memcpy(m->base + offset, buf, len);
        return NS_DONE;
}

static enum ns_result mem_zero(struct ns *ns, uint64_t offset, uint64_t len, bool deallocate)
{
        const struct mem *m = ns->store;
        uint64_t from = (offset + PAGE - 1) / PAGE * PAGE, to = (offset + len) / PAGE * PAGE;

        if (to <= from || (!deallocate && len < WORTH_A_CALL) ||
            madvise(m->base + from, to - from, MADV_DONTNEED) < 0) {
                memset(m->base + offset, 0, len);
                return NS_DONE;
        }
        memset(m->base + offset, 0, from - offset);
        memset(m->base + to, 0, offset + len - to);
        return NS_DONE;
}

static bool mem_deallocate(struct ns *ns, uint64_t offset, uint64_t len)
{
        return mem_zero(ns, offset, len, true) == NS_DONE;
}

static uint64_t whole_pages(uint64_t bytes)
{
        return (bytes + PAGE - 1) / PAGE * PAGE;
}

static enum ns_result mem_resize(struct ns *ns, uint64_t bytes)
{
        struct mem *m = ns->store;
        uint8_t *base;

        if (bytes < m->bytes) /* what may come back later has to come back as zeroes */
                mem_zero(ns, bytes, whole_pages(bytes) - bytes, false);
        base = mremap(m->base, whole_pages(m->bytes), whole_pages(bytes), MREMAP_MAYMOVE);
        if (base == MAP_FAILED)
                return NS_NO_MEMORY;
        *m = (struct mem) { base, bytes };
        return NS_DONE;
}

static void mem_close(struct ns *ns)
{
        struct mem *m = ns->store;

        munmap(m->base, whole_pages(m->bytes));
        free(m);
}

static const struct ns_ops mem_ops = {
        .name = "mem",
        .read = mem_read,
        .write = mem_write,
        .zero = mem_zero,
        .deallocate = mem_deallocate,
        .resize = mem_resize,
        .close = mem_close,
};

bool ns_mem_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size)
{
        struct mem *m = malloc(sizeof(*m));
        void *base = MAP_FAILED;
        uint64_t bytes = spec->bytes + (spec->bytes >> ns->lbads) * ns->ms;

        errno = ENOMEM;
        if (m)
                base = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) {
                snprintf(error, size, "%s", strerror(errno));
                free(m);
                return false;
        }
        *m = (struct mem) { base, bytes };
        ns->meta = spec->bytes;
        ns->store = m;
        ns->ops = &mem_ops;
        ns->blocks = spec->bytes >> ns->lbads;
        return true;
}
