/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host verify */
#include <inttypes.h>
#include <stdio.h>

#include "command.h"
#include "show.h"
#include "verify.h"

enum { RANGE = 64 << 20 };

static void add_count(struct json_object *o, const char *name, uint64_t value)
{
        json_object_object_add(o, name, json_object_new_uint64(value));
}

static struct json_object *difference_json(const struct verify_result *r)
{
        struct json_object *o = json_object_new_object();

        add_count(o, "lba", r->lba);
        add_count(o, "offset", r->diff.offset);
        add_count(o, "expected", r->diff.expected);
        add_count(o, "seen", r->diff.seen);
        add_count(o, "write_queue", r->write_queue);
        add_count(o, "read_queue", r->read_queue);
        json_object_object_add(o, "says", json_object_new_string(r->line));
        return o;
}

static void show_result(const struct verify_options *o, const struct verify_result *r)
{
        struct json_object *root = show_object();

        add_count(root, "seed", o->seed);
        add_count(root, "slba", o->slba);
        add_count(root, "range", o->range);
        add_count(root, "passes", r->passes);
        add_count(root, "writes", r->writes);
        add_count(root, "reads", r->reads);
        add_count(root, "bytes_written", r->bytes_written);
        add_count(root, "bytes_read", r->bytes_read);
        add_count(root, "reconnects", r->reconnects);
        json_object_object_add(root, "seconds", json_object_new_double(r->seconds));
        json_object_object_add(root, "ok", json_object_new_boolean(!r->differs));
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
