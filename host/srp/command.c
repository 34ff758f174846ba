/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host -t srp login, inquiry, luns, read, write, verify, perf, reset */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "host/engine/show.h"
#include "pdu/core/be.h"
#include "pdu/srp/wire/family.h"

enum { REPLY = 4096 };

struct call {
        const struct srp_args *args;
        struct srp_channels *all;
        struct srp_chan *chan; /* the first */
        struct srp_work work;  /* of those that need a disk */
        uint8_t *buf;          /* of read and write */
};
typedef int call_fn(struct call *c, struct host_error *e);

static call_fn call_login, call_inquiry, call_luns, call_read, call_write, call_verify, call_perf,
    call_reset;

/* clang-format off */
static const struct subcommand {
        struct host_subcommand base; /* first */
        call_fn *run;
        unsigned channels; /* where -i does not say */
        bool disk;
} subcommands[] = {
#define COMMON HOST_WHERE
        { { "login", "", "log in, show what was agreed on, and log out", COMMON | HOST_OUTPUT | SRP_CHANNELS }, call_login, 4, false },
        { { "inquiry", "", "show what a logical unit reports about itself", COMMON | HOST_OUTPUT | SRP_LUN }, call_inquiry, 1, false },
        { { "luns", "", "list the logical units, with their sizes", COMMON | HOST_OUTPUT }, call_luns, 1, false },
        { { "read", "", "read logical blocks to a file or standard output", COMMON | HOST_OUTPUT | SRP_LUN | SRP_SLBA | SRP_BLOCKS | HOST_FILE | SRP_FORM }, call_read, 1, true },
        { { "write", "", "write logical blocks from a file or a pattern", COMMON | SRP_LUN | SRP_SLBA | SRP_BLOCKS | HOST_FILE | HOST_PATTERN | SRP_FORM }, call_write, 1, true },
        { { "verify", "", "write a pattern over many channels and read it back; destroys data", COMMON | HOST_OUTPUT | HOST_LOAD | HOST_VERIFY | SRP_LUN | SRP_CHANNELS | SRP_FORM | SRP_SLBA }, call_verify, 4, true },
        { { "perf", "", "measure IOPS, bandwidth and latency; write loads destroy data", COMMON | HOST_OUTPUT | HOST_LOAD | HOST_PERF | SRP_LUN | SRP_CHANNELS | SRP_FORM }, call_perf, 1, true },
        { { "reset", "", "reset a logical unit", COMMON | SRP_LUN }, call_reset, 1, false },
};
/* clang-format on */
enum { SUBCOMMANDS = sizeof(subcommands) / sizeof(subcommands[0]) };

/* --- what is reported ------------------------------------------------------------------------- */

static int call_login(struct call *c, struct host_error *e)
{
        struct show s;

        (void)e;
        show_begin(&s, host_json(&c->args->base));
        for (unsigned i = 0; i < c->all->channels; i++) {
                const struct srp_chan *chan = &c->all->chan[i];

                s.d.group(s.d.arg, "channel[]");
                s.d.number(s.d.arg, "number", chan->number, 32, NULL);
                srp_describe(&s.d, &chan->granted, sizeof(chan->granted), 0);
                s.d.group(s.d.arg, NULL);
        }
        show_end(&s);
        return 0;
}

static void show_text(const struct describe *d, const char *name, const uint8_t *p, size_t n)
{
        char buf[4 * 64 + 1];
        struct text t = text_in(buf, sizeof(buf));

        text_printable(&t, (const char *)p, text_len((const char *)p, n));
        d->string(d->arg, name, buf, t.len);
}

static void show_standard(const struct describe *d, const uint8_t *p)
{
        static const struct word types[] = { { 0, "disk" },
                                             { 0x1f, "no logical unit" },
                                             { 0, NULL } };

        d->number(d->arg, "qualifier", p[0] >> 5, 3, NULL);
        d->number(d->arg, "type", p[0] & 0x1f, 5, word_for(types, p[0] & 0x1f));
        d->number(d->arg, "version", p[2], 8, NULL);
        show_text(d, "vendor", p + 8, 8);
        show_text(d, "product", p + 16, 16);
        show_text(d, "revision", p + 32, 4);
}

/* Pages that the unit names; their bytes in hex. */
static int show_pages(struct call *c, const struct describe *d, uint64_t lun, uint8_t *p,
                      struct host_error *e)
{
        struct srp_request_out r = srp_inquiry(lun, 0, p, 255);
        uint8_t pages[255];
        unsigned n;

        if (srp_run_well(c->chan, &r, "INQUIRY of page 00h", e) < 0)
                return -1;
        n = p[3] < 251 ? p[3] : 251;
        memcpy(pages, p + 4, n);
        for (unsigned i = 0; i < n; i++) {
                char name[16], hex[2 * 256 + 1] = "";
                unsigned len;

                r = srp_inquiry(lun, pages[i], p, 255);
                if (srp_run_well(c->chan, &r, "INQUIRY of a page", e) < 0)
                        return -1;
                len = 4u + (p[3] < 251 ? p[3] : 251);
                for (unsigned k = 0; k < len; k++)
                        snprintf(hex + 2 * k, 3, "%02x", p[k]);
                snprintf(name, sizeof(name), "page_%02x", pages[i]);
                d->string(d->arg, name, hex, strlen(hex));
        }
        return 0;
}

static int call_inquiry(struct call *c, struct host_error *e)
{
        uint64_t lun = scsi_lun_of((uint32_t)c->args->lun);
        uint8_t *p = srp_alloc(c->chan, REPLY, e);
        struct srp_request_out r;
        struct show s;
        int rc = 0;

        if (!p)
                return -1;
        r = srp_inquiry(lun, -1, p, 96);
        if (srp_run_well(c->chan, &r, "INQUIRY", e) < 0)
                return -1;
        show_begin(&s, host_json(&c->args->base));
        show_standard(&s.d, p);
        if (p[0] >> 5 == 0)
                rc = show_pages(c, &s.d, lun, p, e);
        show_end(&s);
        return rc;
}

static int call_luns(struct call *c, struct host_error *e)
{
        uint8_t *p = srp_alloc(c->chan, REPLY, e);
        struct srp_request_out r;
        struct srp_disk disk;
        struct show s;
        uint32_t n;
        int rc = 0;

        if (!p)
                return -1;
        r = srp_report_luns(p, REPLY);
        if (srp_run_well(c->chan, &r, "REPORT LUNS", e) < 0)
                return -1;
        n = (uint32_t)be_get(p, 4);
        n = n < REPLY - 8 ? n : REPLY - 8;
        show_begin(&s, host_json(&c->args->base));
        for (uint32_t at = 8; at + 8 <= 8 + n && rc == 0; at += 8) {
                uint32_t lun = scsi_lun_number(be_get(p + at, 8));

                rc = srp_disk_open(c->chan, lun, &disk, e);
                if (rc < 0)
                        break;
                s.d.group(s.d.arg, "lun[]");
                s.d.number(s.d.arg, "number", lun, 32, NULL);
                s.d.number(s.d.arg, "blocks", disk.blocks, 64, NULL);
                s.d.number(s.d.arg, "block_size", disk.block_size, 32, NULL);
                s.d.group(s.d.arg, NULL);
        }
        show_end(&s);
        return rc;
}

static int call_reset(struct call *c, struct host_error *e)
{
        struct srp_request_out r = { .lun = scsi_lun_of((uint32_t)c->args->lun),
                                     .function = SRP_TM_LUN_RESET };

        return srp_run_well(c->chan, &r, "logical unit reset", e);
}

/* --- blocks ------------------------------------------------------------------------------------ */

static int transfer(void *user, bool write, uint64_t block, uint32_t blocks, struct host_error *e)
{
        struct call *c = user;
        struct srp_request_out r = srp_rw(&c->work.disk, write, block, blocks, c->buf);
        char what[80];

        r.form = c->work.form;
        r.pieces = c->work.pieces;
        snprintf(what, sizeof(what), "%s of %u blocks at LBA %" PRIu64,
                 write ? "WRITE(16)" : "READ(16)", blocks, block);
        return srp_run_well(c->chan, &r, what, e);
}

static void show_lun(void *user, struct json_object *o)
{
        put_number(o, "lun", ((const struct call *)user)->args->lun);
}

/* False: e says why not. */
static bool make_blocks(struct call *c, struct host_blocks *b, struct host_error *e)
{
        const struct srp_disk *d = &c->work.disk;

        c->buf = srp_alloc(c->chan, (size_t)d->max_blocks * d->block_size, e);
        *b = (struct host_blocks) { .block_size = d->block_size,
                                    .max_blocks = d->max_blocks,
                                    .buf = c->buf,
                                    .transfer = transfer,
                                    .show = show_lun,
                                    .user = c };
        return c->buf;
}

static int call_read(struct call *c, struct host_error *e)
{
        struct host_blocks b;

        return make_blocks(c, &b, e) ? host_blocks_read(&b, &c->args->base, e) : -1;
}

static int call_write(struct call *c, struct host_error *e)
{
        struct host_blocks b;

        return make_blocks(c, &b, e) ? host_blocks_write(&b, &c->args->base, e) : -1;
}

static int call_verify(struct call *c, struct host_error *e)
{
        struct load l = srp_load(&c->work);

        return host_verify(&l, &c->args->base, e);
}

static int call_perf(struct call *c, struct host_error *e)
{
        struct load l = srp_load(&c->work);

        return host_perf(&l, &c->args->base, e);
}

/* --- a call ------------------------------------------------------------------------------------ */

static int run_on(const struct subcommand *s, struct call *c, struct host_error *e)
{
        c->work = (struct srp_work) { .all = c->all,
                                      .form = srp_args_form(c->args),
                                      .pieces = (unsigned)c->args->pieces };
        if (s->disk && srp_disk_open(c->chan, (uint32_t)c->args->lun, &c->work.disk, e) < 0)
                return -1;
        return s->run(c, e);
}

static int check(const struct subcommand *s, const struct srp_args *a, struct host_error *e)
{
        if (host_blocks_check(&a->base, e) < 0)
                return -1;
        return s->run == call_perf ? host_perf_check(&a->base, e) : 0;
}

static int run(const struct host_subcommand *base, void *args, int count, char **words,
               struct host_error *e)
{
        const struct subcommand *s = (const struct subcommand *)base;
        struct srp_channels all;
        struct srp_params p;
        struct call c = { .args = args, .all = &all };
        int rc;

        (void)count, (void)words;
        if (check(s, args, e) < 0 || srp_args_params(args, s->channels, &p, e) < 0 ||
            srp_channels_open(&all, &p, e) < 0)
                return -1;
        c.chan = &all.chan[0];
        rc = run_on(s, &c, e);
        srp_channels_close(&all, rc == 0 || e->kind != HOST_BROKEN);
        return rc;
}

static const struct host_subcommand *subcommand(unsigned i)
{
        return i < SUBCOMMANDS ? &subcommands[i].base : NULL;
}

const struct host_family srp_host_family = {
        .family = &srp_family,
        .subcommand = subcommand,
        .address = "",
        .options = srp_host_options,
        .args_size = sizeof(struct srp_args),
        .defaults = srp_args_defaults,
        .run = run,
};
