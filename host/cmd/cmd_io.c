/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host read, write, compare, flush, zeroes, dsm */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call.h"
#include "host/engine/show.h"
#include "host/nvme/build.h"
#include "pdu/core/crc32c.h"

enum { CHUNK = 1 << 20, RANGES_MAX = 256 };

/* A walk over --slba and --blocks in commands of a chunk each. */
struct span {
        struct call_ns ns;
        uint64_t lba, left; /* blocks */
        uint32_t chunk;     /* blocks of one command */
        uint32_t control;   /* cdw12 flags */
        uint8_t *buf;       /* of a chunk; NULL: the commands have no data */
};

static uint32_t chunk_blocks(const struct call *call, const struct call_ns *ns)
{
        uint32_t most = host_ctrl_max_transfer(call->ctrl);
        uint32_t blocks = (most < CHUNK ? most : CHUNK) / ns->block_size;

        if (blocks > RW_NLB_MASK + 1)
                return RW_NLB_MASK + 1;
        return blocks > 0 ? blocks : 1;
}

static int span_begin(struct span *s, struct call *call, bool data, struct host_error *e)
{
        const struct args *a = call->args;

        *s = (struct span) { .lba = a->base.slba, .left = a->base.blocks ? a->base.blocks : 1 };
        if ((data ? call_blocks : call_namespace)(call, &s->ns, e) < 0)
                return -1;
        s->control = (a->fua ? (uint32_t)RW_FUA : 0) | (a->deac ? (uint32_t)RW_DEAC : 0);
        s->chunk = data ? chunk_blocks(call, &s->ns) : RW_NLB_MASK + 1;
        if (!data)
                return 0;
        s->buf = malloc((size_t)s->chunk * s->ns.block_size);
        return s->buf ? 0 : host_fail(e, HOST_BROKEN, "no memory for %u blocks", s->chunk);
}

static uint32_t span_blocks(const struct span *s)
{
        return s->left < s->chunk ? (uint32_t)s->left : s->chunk;
}

static int io(struct call *call, const union sqe *sqe, void *data, uint32_t len,
              struct host_error *e)
{
        return host_ctrl_run(call->ctrl, &call->ctrl->io[0], sqe, data, len, NULL, e);
}

/* One command on the next chunk. */
static int span_step(struct span *s, struct call *call, uint8_t opc, struct host_error *e)
{
        uint32_t blocks = span_blocks(s);
        union sqe sqe = build_rw(opc, s->ns.nsid, s->lba, blocks, s->control);

        if (io(call, &sqe, s->buf, s->buf ? blocks * s->ns.block_size : 0, e) < 0) {
                if (e->kind == HOST_STATUS)
                        host_error_add(e, ", LBA %" PRIu64 ", %u blocks", s->lba, blocks);
                return -1;
        }
        s->lba += blocks;
        s->left -= blocks;
        return 0;
}

/* --- read ------------------------------------------------------------------------------------- */

static void hex_dump(const uint8_t *p, size_t len, uint64_t at)
{
        for (size_t line = 0; line < len; line += 16) {
                printf("%08" PRIx64 " ", at + line);
                for (size_t i = 0; i < 16; i++)
                        printf(i == 8 ? "  %02x" : " %02x", p[line + i]);
                printf("  |");
                for (size_t i = 0; i < 16; i++)
                        putchar(p[line + i] >= ' ' && p[line + i] < 127 ? p[line + i] : '.');
                printf("|\n");
        }
}

static FILE *open_output(const struct args *a, struct host_error *e)
{
        return !a->base.file || strcmp(a->base.file, "-") == 0 ? stdout
                                                               : host_output_open(a->base.file, e);
}

static void show_read(const struct span *s, const struct args *a, uint64_t blocks, uint32_t crc)
{
        struct json_object *o = show_object();
        char hex[9];

        snprintf(hex, sizeof(hex), "%08x", crc);
        json_object_object_add(o, "nsid", json_object_new_int64(s->ns.nsid));
        put_number(o, "slba", a->base.slba);
        put_number(o, "blocks", blocks);
        json_object_object_add(o, "block_size", json_object_new_int64(s->ns.block_size));
        put_number(o, "bytes", blocks * s->ns.block_size);
        put_string(o, "crc32c", hex);
        show_json(o);
}

/* Reads the span to f; dump: in hex, NULL f: nowhere. */
static int read_span(struct span *s, struct call *call, FILE *f, bool dump, uint32_t *crc,
                     struct host_error *e)
{
        bool begun = !f || f == stdout;

        while (s->left > 0) {
                size_t len = (size_t)span_blocks(s) * s->ns.block_size;
                uint64_t at = s->lba * s->ns.block_size;

                if (span_step(s, call, NVME_READ, e) < 0 || (!begun && host_output_begin(f, e) < 0))
                        return -1;
                begun = true;
                *crc = crc32c_more(*crc, s->buf, len);
                if (dump)
                        hex_dump(s->buf, len, at);
                else if (f && fwrite(s->buf, 1, len, f) != len)
                        return host_fail(e, HOST_USAGE, "output: %s", strerror(errno));
        }
        return 0;
}

/* With -o json the object takes the place of data that would go to standard output. */
int call_read(struct call *call, struct host_error *e)
{
        bool json = host_json(&call->args->base);
        uint32_t crc = 0;
        struct span s;
        uint64_t blocks;
        FILE *f = open_output(call->args, e);
        int result = -1;

        if (!f)
                return -1;
        if (span_begin(&s, call, true, e) == 0) {
                blocks = s.left;
                result = read_span(&s, call, json && f == stdout ? NULL : f,
                                   !json && f == stdout && isatty(STDOUT_FILENO), &crc, e);
                if (result == 0 && json)
                        show_read(&s, call->args, blocks, crc);
        }
        if (f != stdout && fclose(f) != 0 && result == 0)
                result = host_fail(e, HOST_USAGE, "%s: %s", call->args->base.file, strerror(errno));
        free(s.buf);
        return result;
}

/* --- write and compare ------------------------------------------------------------------------ */

/* A descriptor; -1: e says why. */
static int open_input(const struct args *a, struct host_error *e)
{
        int fd;

        if (!a->base.file && isatty(STDIN_FILENO))
                return host_fail(e, HOST_USAGE, "no data given: use --file PATH or --pattern BYTE");
        if (!a->base.file || strcmp(a->base.file, "-") == 0)
                return STDIN_FILENO;
        fd = open(a->base.file, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? host_fail(e, HOST_USAGE, "%s: %s", a->base.file, strerror(errno)) : fd;
}

/* Whether fd can be read; the association is kept alive until it can. */
static bool wait_input(struct host_ctrl *c, int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int ready;

        while ((ready = loop_poll(&p, 1, host_ctrl_next(c))) == 0)
                if (host_ctrl_poll(c) < 0)
                        return true; /* the next command tells */
        return ready > 0;
}

static ssize_t read_input(struct host_ctrl *c, int fd, uint8_t *buf, size_t want)
{
        size_t got = 0;

        while (got < want && wait_input(c, fd)) {
                ssize_t n = read(fd, buf + got, want - got);

                if (n < 0 && errno != EINTR)
                        return -1;
                if (n == 0)
                        break;
                got += n > 0 ? (size_t)n : 0;
        }
        return (ssize_t)got;
}

/* Bytes for the next chunk. 1: there are some; 0: the input has ended where it may. */
static int fill_chunk(struct span *s, struct call *call, int fd, struct host_error *e)
{
        size_t want = (size_t)span_blocks(s) * s->ns.block_size;
        ssize_t got;

        if (fd < 0) {
                memset(s->buf, (int)call->args->base.pattern, want);
                return 1;
        }
        got = read_input(call->ctrl, fd, s->buf, want);
        if (got < 0)
                return host_fail(e, HOST_USAGE, "input: %s", strerror(errno));
        if ((size_t)got == want)
                return 1;
        if (call->args->base.blocks)
                return host_fail(e, HOST_USAGE,
                                 "input ends %" PRIu64 " bytes before the last block",
                                 s->left * s->ns.block_size - (uint64_t)got);
        if ((size_t)got % s->ns.block_size)
                return host_fail(e, HOST_USAGE, "input ends within a block of %u bytes",
                                 s->ns.block_size);
        s->left = (size_t)got / s->ns.block_size;
        return got > 0;
}

static int send_data(struct span *s, struct call *call, uint8_t opc, int fd, struct host_error *e)
{
        int more = 1;

        if (fd >= 0 && !call->args->base.blocks)
                s->left = UINT64_MAX; /* as much as the input has */
        while (s->left > 0 && (more = fill_chunk(s, call, fd, e)) > 0)
                if (span_step(s, call, opc, e) < 0)
                        return -1;
        if (more == 0 && s->lba == call->args->base.slba)
                return host_fail(e, HOST_USAGE, "the input is empty");
        return more < 0 ? -1 : 0;
}

static int write_or_compare(struct call *call, uint8_t opc, struct host_error *e)
{
        bool patterned = call->args->base.pattern != HOST_NO_PATTERN;
        int fd = patterned ? -1 : open_input(call->args, e), result = -1;
        struct span s = { 0 };

        if (fd < 0 && !patterned)
                return -1;
        if (patterned && call->args->base.file)
                return host_fail(e, HOST_USAGE, "--file and --pattern exclude each other");
        if (span_begin(&s, call, true, e) == 0)
                result = send_data(&s, call, opc, fd, e);
        free(s.buf);
        if (fd > STDIN_FILENO)
                close(fd);
        return result;
}

int call_write(struct call *call, struct host_error *e)
{
        return write_or_compare(call, NVME_WRITE, e);
}

int call_compare(struct call *call, struct host_error *e)
{
        return write_or_compare(call, NVME_COMPARE, e);
}

/* --- without data ----------------------------------------------------------------------------- */

int call_flush(struct call *call, struct host_error *e)
{
        union sqe sqe = build_admin(NVME_FLUSH, (uint32_t)call->args->nsid, 0, 0);

        return io(call, &sqe, NULL, 0, e);
}

/* CNS 06h of the NVM command set; zeroes, which are no limits, where it is refused, or not known yet. */
static int read_limits(struct host_ctrl *c, struct id_nvm_ctrl *limits, struct host_error *e)
{
        memset(limits, 0, sizeof(*limits));
        if (c->vs < NVME_VERSION(1, 2, 0) ||
            host_ctrl_identify(c, CNS_IOCS_CTRL, 0, limits, e) == 0)
                return 0;
        memset(limits, 0, sizeof(*limits));
        return e->kind == HOST_STATUS ? 0 : -1;
}

/* Blocks that a command may write with zeroes: WZSL, or WZDSL, pages of CAP.MPSMIN as a power of two. */
static uint32_t zeroes_most(const struct call *call, const struct id_nvm_ctrl *limits,
                            const struct call_ns *ns)
{
        uint8_t limit = call->args->deac && limits->wzdsl ? limits->wzdsl : limits->wzsl;
        unsigned shift = limit + 12u + (unsigned)(call->ctrl->cap >> 48 & 0xf);
        uint64_t blocks = shift < 64 ? (UINT64_C(1) << shift) / (ns->block_size + ns->metadata) : 0;

        if (!limit || shift >= 64 || blocks > RW_NLB_MASK)
                return RW_NLB_MASK + 1;
        return blocks > 0 ? (uint32_t)blocks : 1;
}

int call_zeroes(struct call *call, struct host_error *e)
{
        struct id_nvm_ctrl limits;
        struct span s;
        int result = span_begin(&s, call, false, e);

        if (result == 0)
                result = read_limits(call->ctrl, &limits, e);
        if (result == 0)
                s.chunk = zeroes_most(call, &limits, &s.ns);
        while (result == 0 && s.left > 0)
                result = span_step(&s, call, NVME_WRITE_ZEROES, e);
        return result;
}

/* "SLBA+BLOCKS" */
static int parse_range(const char *word, struct dsm_range *r, struct host_error *e)
{
        const char *plus = strchr(word, '+');
        uint64_t slba, blocks;
        char first[24] = "";

        if (plus && (size_t)(plus - word) < sizeof(first))
                memcpy(first, word, (size_t)(plus - word));
        if (!plus || option_number(first, &slba) < 0 || option_number(plus + 1, &blocks) < 0 ||
            blocks > UINT32_MAX)
                return host_fail(e, HOST_USAGE, "'%s' is not of the form SLBA+BLOCKS", word);
        *r = (struct dsm_range) { .blocks = le32((uint32_t)blocks), .slba = le64(slba) };
        return 0;
}

static int parse_ranges(const struct call *call, struct dsm_range *ranges, struct host_error *e)
{
        if (call->count > RANGES_MAX)
                return host_fail(e, HOST_USAGE, "%d ranges: one command has at most %d",
                                 call->count, RANGES_MAX);
        for (int i = 0; i < call->count; i++)
                if (parse_range(call->words[i], &ranges[i], e) < 0)
                        return -1;
        return 0;
}

int check_dsm(struct call *call, struct host_error *e)
{
        struct dsm_range ranges[RANGES_MAX];

        return parse_ranges(call, ranges, e);
}

/* Ranges that become one command, and what one may have (DMRL, DMRSL, DMSL). */
struct dsm {
        uint32_t how; /* cdw11 */
        unsigned ranges_most, count;
        uint64_t range_most, blocks_most, blocks;
        struct dsm_range ranges[RANGES_MAX];
};

static int dsm_send(struct dsm *d, struct call *call, struct host_error *e)
{
        union sqe sqe = build_admin(NVME_DSM, (uint32_t)call->args->nsid, d->count - 1, d->how);
        uint32_t len = d->count * (uint32_t)sizeof(d->ranges[0]);

        d->count = 0;
        d->blocks = 0;
        return io(call, &sqe, d->ranges, len, e);
}

/* In pieces where it is too long for a range or for what is left of the command. */
static int dsm_add(struct dsm *d, struct call *call, const struct dsm_range *range,
                   struct host_error *e)
{
        uint64_t lba = le64_get(range->slba), left = le32_get(range->blocks);

        do {
                uint64_t room = d->blocks_most - d->blocks, n = left;

                if (d->count == d->ranges_most || (room == 0 && left > 0)) {
                        if (dsm_send(d, call, e) < 0)
                                return -1;
                        room = d->blocks_most;
                }
                n = n < d->range_most ? n : d->range_most;
                n = n < room ? n : room;
                d->ranges[d->count++] =
                    (struct dsm_range) { .blocks = le32((uint32_t)n), .slba = le64(lba) };
                d->blocks += n;
                lba += n;
                left -= n;
        } while (left > 0);
        return 0;
}

static uint64_t limit_or(uint64_t limit, uint64_t most)
{
        return limit ? limit : most;
}

int call_dsm(struct call *call, struct host_error *e)
{
        enum { IDR = 1, IDW = 2, AD = 4 };
        const struct args *a = call->args;
        uint32_t how = (a->idr ? IDR : 0u) | (a->idw ? IDW : 0u);
        struct dsm_range ranges[RANGES_MAX] = {
                { .blocks = le32(a->base.blocks ? (uint32_t)a->base.blocks : 1),
                  .slba = le64(a->base.slba) }
        };
        struct id_nvm_ctrl limits;
        struct dsm d = { .how = how ? how : AD };

        if (parse_ranges(call, ranges, e) < 0 || read_limits(call->ctrl, &limits, e) < 0)
                return -1;
        d.ranges_most = (unsigned)limit_or(limits.dmrl, RANGES_MAX);
        d.range_most = limit_or(le32_get(limits.dmrsl), UINT32_MAX);
        d.blocks_most = limit_or(le64_get(limits.dmsl), UINT64_MAX);
        for (int i = 0; i == 0 || i < call->count; i++)
                if (dsm_add(&d, call, &ranges[i], e) < 0)
                        return -1;
        return dsm_send(&d, call, e);
}
