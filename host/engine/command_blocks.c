/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host read, write: blocks to and from a file */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "pdu/core/crc32c.h"
#include "show.h"

/* --- a walk over the blocks in requests of the longest kind ------------------------------------- */

struct walk {
        uint64_t block, left;
        uint32_t blocks; /* of the next request */
        size_t bytes;
};

static int walk_begin(struct walk *w, const struct host_blocks *b, const struct host_args *a,
                      struct host_error *e)
{
        *w = (struct walk) { .block = a->slba, .left = a->blocks };
        return b->max_blocks > 0
                   ? 0
                   : host_fail(e, HOST_STATUS, "blocks of %u bytes are longer than a request",
                               b->block_size);
}

static bool walk_next(struct walk *w, const struct host_blocks *b)
{
        w->blocks = w->left < b->max_blocks ? (uint32_t)w->left : b->max_blocks;
        w->bytes = (size_t)w->blocks * b->block_size;
        return w->left > 0;
}

static int walk_step(struct walk *w, const struct host_blocks *b, bool write, struct host_error *e)
{
        if (b->transfer(b->user, write, w->block, w->blocks, e) < 0)
                return -1;
        w->block += w->blocks;
        w->left -= w->blocks;
        return 0;
}

/* --- read --------------------------------------------------------------------------------------- */

static void show_read(const struct host_blocks *b, const struct host_args *a, uint32_t crc)
{
        struct json_object *o = show_object();
        char hex[9];

        snprintf(hex, sizeof(hex), "%08x", crc);
        if (b->show)
                b->show(b->user, o);
        put_number(o, "slba", a->slba);
        put_number(o, "blocks", a->blocks);
        put_number(o, "block_size", b->block_size);
        put_string(o, "crc32c", hex);
        show_json(o);
}

FILE *host_output_open(const char *path, struct host_error *e)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

        if (!f)
                host_error_set(e, HOST_USAGE, "%s: %s", path, strerror(errno));
        if (!f && fd >= 0)
                close(fd);
        return f;
}

/* Pipes and devices, which have no length, say so by EINVAL. */
int host_output_begin(FILE *f, struct host_error *e)
{
        return ftruncate(fileno(f), 0) == 0 || errno == EINVAL
                   ? 0
                   : host_fail(e, HOST_USAGE, "output: %s", strerror(errno));
}

/* f NULL: nowhere. */
static int read_to(const struct host_blocks *b, const struct host_args *a, FILE *f, bool named,
                   struct host_error *e)
{
        bool begun = !named;
        uint32_t crc = 0;
        struct walk w;

        if (walk_begin(&w, b, a, e) < 0)
                return -1;
        while (walk_next(&w, b)) {
                if (walk_step(&w, b, false, e) < 0 || (!begun && host_output_begin(f, e) < 0))
                        return -1;
                begun = true;
                crc = crc32c_more(crc, b->buf, w.bytes);
                if (f && fwrite(b->buf, 1, w.bytes, f) != w.bytes)
                        return host_fail(e, HOST_USAGE, "output: %s", strerror(errno));
        }
        if (host_json(a))
                show_read(b, a, crc);
        return 0;
}

static bool is_named(const struct host_args *a)
{
        return a->file && strcmp(a->file, "-") != 0;
}

/* With -o json the object takes the place of data that would go to standard output. */
int host_blocks_read(const struct host_blocks *b, const struct host_args *a, struct host_error *e)
{
        bool named = is_named(a);
        FILE *f = named ? host_output_open(a->file, e) : stdout;
        int rc;

        if (!f)
                return -1;
        rc = read_to(b, a, !named && host_json(a) ? NULL : f, named, e);
        if (named && fclose(f) != 0 && rc == 0)
                rc = host_fail(e, HOST_USAGE, "%s: %s", a->file, strerror(errno));
        return rc;
}

/* --- write -------------------------------------------------------------------------------------- */

/* f NULL: the pattern. */
static int write_from(const struct host_blocks *b, const struct host_args *a, FILE *f,
                      struct host_error *e)
{
        struct walk w;

        if (walk_begin(&w, b, a, e) < 0)
                return -1;
        while (walk_next(&w, b)) {
                if (!f)
                        memset(b->buf, (int)a->pattern, w.bytes);
                else if (fread(b->buf, 1, w.bytes, f) != w.bytes)
                        return host_fail(e, HOST_USAGE, "the input ends before block %" PRIu64,
                                         w.block + w.blocks);
                if (walk_step(&w, b, true, e) < 0)
                        return -1;
        }
        return 0;
}

int host_blocks_check(const struct host_args *a, struct host_error *e)
{
        return a->file && a->pattern != HOST_NO_PATTERN
                   ? host_fail(e, HOST_USAGE, "--file and --pattern exclude each other")
                   : 0;
}

int host_blocks_write(const struct host_blocks *b, const struct host_args *a, struct host_error *e)
{
        bool patterned = a->pattern != HOST_NO_PATTERN, named = !patterned && is_named(a);
        FILE *f = patterned ? NULL : named ? fopen(a->file, "re") : stdin;
        int rc;

        if (!f && !patterned)
                return host_fail(e, HOST_USAGE, "%s: %s", a->file, strerror(errno));
        rc = write_from(b, a, f, e);
        if (named)
                fclose(f);
        return rc;
}
