/* SPDX-License-Identifier: BSD-3-Clause */
#include "spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PART = 16 << 20, ALIGNMENT = 16 };

struct spill_part { /* a file of its own */
        void *p;
        size_t used, size;
        struct spill_part *next; /* the one before */
};

/* The name is gone before anything is written. -1 with errno. */
static int open_nameless(void)
{
        const char *dir = getenv("TMPDIR");
        char path[4096];
        int fd;

        snprintf(path, sizeof(path), "%s/nvmfspec.XXXXXX", dir && *dir ? dir : "/tmp");
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0)
                unlink(path);
        return fd;
}

/* The blocks are there before they are written to: a full disk is an error, not a signal. */
static void *map_new(size_t size)
{
        int fd = open_nameless(), rc;
        void *p = MAP_FAILED;

        if (fd < 0)
                return NULL;
        rc = posix_fallocate(fd, 0, (off_t)size);
        if (rc == 0)
                p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        else
                errno = rc;
        rc = errno;
        close(fd);
        errno = rc;
        return p == MAP_FAILED ? NULL : p;
}

static struct spill_part *part_new(struct spill *s, size_t n)
{
        struct spill_part *part = malloc(sizeof(*part));

        if (!part)
                return NULL;
        *part = (struct spill_part) { .size = n < PART ? PART : n, .next = s->parts };
        part->p = map_new(part->size);
        if (!part->p) {
                free(part);
                return NULL;
        }
        spill_rest(s);
        s->parts = part;
        return part;
}

void *spill_add(struct spill *s, size_t n)
{
        struct spill_part *part = s->parts;
        void *p;

        n = (n + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
        if (!part || part->size - part->used < n)
                part = part_new(s, n);
        if (!part) {
                s->error = s->error ? s->error : errno;
                return NULL;
        }
        p = (char *)part->p + part->used;
        part->used += n;
        s->bytes += n;
        return p;
}

/* Of a shared mapping of a file that drops the pages of the process, not what they hold. */
void spill_rest(const struct spill *s)
{
        for (const struct spill_part *part = s->parts; part; part = part->next)
                madvise(part->p, part->size, MADV_DONTNEED);
}

void spill_looked(const struct spill *s, size_t *since, size_t n)
{
        *since += n;
        if (*since < PART)
                return;
        spill_rest(s);
        *since = 0;
}

void spill_free(struct spill *s)
{
        while (s->parts) {
                struct spill_part *part = s->parts;

                s->parts = part->next;
                munmap(part->p, part->size);
                free(part);
        }
        *s = (struct spill) { 0 };
}
