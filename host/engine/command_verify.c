/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host verify */
#include <inttypes.h>
#include <stdio.h>

#include "command.h"
#include "show.h"
#include "verify.h"

enum { RANGE = 64 << 20 };

static struct json_object *difference_json(const struct verify_result *r)
{
        struct json_object *o = json_object_new_object();

        put_number(o, "lba", r->lba);
        put_number(o, "offset", r->diff.offset);
        put_number(o, "expected", r->diff.expected);
        put_number(o, "seen", r->diff.seen);
        put_number(o, "write_queue", r->write_queue);
        put_number(o, "read_queue", r->read_queue);
        put_string(o, "says", r->line);
        return o;
}

static void show_result(const struct verify_options *o, const struct verify_result *r)
{
        struct json_object *root = show_object();

        put_number(root, "seed", o->seed);
        put_number(root, "slba", o->slba);
        put_number(root, "range", o->range);
        put_number(root, "passes", r->passes);
        put_number(root, "writes", r->writes);
        put_number(root, "reads", r->reads);
        put_number(root, "bytes_written", r->bytes_written);
        put_number(root, "bytes_read", r->bytes_read);
        put_number(root, "reconnects", r->reconnects);
        json_object_object_add(root, "seconds", json_object_new_double(r->seconds));
        put_bool(root, "ok", !r->differs);
        json_object_object_add(root, "difference", r->differs ? difference_json(r) : NULL);
        show_json(root);
}

static void print_result(const struct load *l, const struct verify_options *o,
                         const struct verify_result *r)
{
        char written[32], read[32];

        printf("%s: %" PRIu64 " writes (%s), %" PRIu64 " reads (%s), %u queues, %" PRIu64
               " passes, %u reconnects, %.1f s, seed %" PRIu64 "\n",
               r->differs ? "differs" : "verified", r->writes, show_size(r->bytes_written, written),
               r->reads, show_size(r->bytes_read, read), l->queues, r->passes, r->reconnects,
               r->seconds, o->seed);
}

static uint64_t range_of(const struct load *l, const struct host_args *a)
{
        uint64_t all = (l->blocks > a->slba ? l->blocks - a->slba : 0) * l->block_size;

        return a->range ? a->range : all < RANGE ? all : RANGE;
}

int host_verify(struct load *l, const struct host_args *a, struct host_error *e)
{
        struct verify_options o = { .slba = a->slba,
                                    .range = range_of(l, a),
                                    .max_size = (uint32_t)a->size,
                                    .depth = (unsigned)a->iodepth,
                                    .passes = a->passes || a->time ? (unsigned)a->passes : 1,
                                    .ms = (unsigned)a->time,
                                    .asked_for = a->asked_for,
                                    .seed = a->seed };
        struct verify_result r;

        if (verify_run(l, &o, &r, e) < 0)
                return -1;
        if (host_json(a))
                show_result(&o, &r);
        else
                print_result(l, &o, &r);
        return r.differs ? host_fail(e, HOST_STATUS, "%s", r.line) : 0;
}
