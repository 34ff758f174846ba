/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host perf */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "perf.h"
#include "show.h"

static const double percentiles[] = { 50, 90, 99, 99.9 };
static const char *const percentile_names[] = { "p50", "p90", "p99", "p99.9" };
enum { PERCENTILES = sizeof(percentiles) / sizeof(percentiles[0]) };

static double us(double ns)
{
        return ns / 1000;
}

/* --- results ---------------------------------------------------------------------------------- */

static double mib_per_s(const struct histogram *h, const struct perf_options *o, double seconds)
{
        return (double)h->count * o->io_size / seconds / (1 << 20);
}

static void print_row(const char *name, const struct histogram *h, const struct perf_options *o,
                      double seconds)
{
        if (h->count == 0)
                return;
        printf("%-5s %10.0f %9.1f %9.1f", name, (double)h->count / seconds,
               mib_per_s(h, o, seconds), us(histogram_mean(h)));
        for (int i = 0; i < PERCENTILES; i++)
                printf(" %9.1f", us((double)histogram_percentile(h, percentiles[i])));
        printf(" %9.1f\n", us((double)h->max));
}

static void print_result(const struct load *l, const struct host_args *a,
                         const struct perf_options *o, const struct perf_result *r)
{
        char size[32];

        printf("%s %s, %u queue%s, depth %u, %.1f s; latency in us\n", a->rw,
               show_size(o->io_size, size), l->queues, l->queues == 1 ? "" : "s", r->depth,
               r->seconds);
        printf("%-5s %10s %9s %9s", "", "IOPS", "MiB/s", "mean");
        for (int i = 0; i < PERCENTILES; i++)
                printf(" %9s", percentile_names[i]);
        printf(" %9s\n", "max");
        print_row("read", &r->latency[PERF_READ], o, r->seconds);
        print_row("write", &r->latency[PERF_WRITE], o, r->seconds);
}

static struct json_object *latency_json(const struct histogram *h)
{
        struct json_object *o = json_object_new_object();

        json_object_object_add(o, "min", json_object_new_double(us((double)h->min)));
        json_object_object_add(o, "mean", json_object_new_double(us(histogram_mean(h))));
        for (int i = 0; i < PERCENTILES; i++)
                json_object_object_add(
                    o, percentile_names[i],
                    json_object_new_double(us((double)histogram_percentile(h, percentiles[i]))));
        json_object_object_add(o, "max", json_object_new_double(us((double)h->max)));
        return o;
}

static struct json_object *side_json(const struct histogram *h, const struct perf_options *o,
                                     double seconds)
{
        struct json_object *side = json_object_new_object();

        put_number(side, "ios", h->count);
        json_object_object_add(side, "iops", json_object_new_double((double)h->count / seconds));
        json_object_object_add(side, "mib_per_s", json_object_new_double(mib_per_s(h, o, seconds)));
        json_object_object_add(side, "latency_us", latency_json(h));
        return side;
}

static void show_result(const struct load *l, const struct host_args *a,
                        const struct perf_options *o, const struct perf_result *r)
{
        struct json_object *root = show_object();

        put_string(root, "rw", a->rw);
        json_object_object_add(root, "block_size", json_object_new_int64(o->io_size));
        json_object_object_add(root, "queues", json_object_new_int64(l->queues));
        json_object_object_add(root, "iodepth", json_object_new_int64(r->depth));
        if (l->ops->show)
                l->ops->show(l, root);
        json_object_object_add(root, "seconds", json_object_new_double(r->seconds));
        json_object_object_add(root, "read", side_json(&r->latency[PERF_READ], o, r->seconds));
        json_object_object_add(root, "write", side_json(&r->latency[PERF_WRITE], o, r->seconds));
        show_json(root);
}

/* --- options ---------------------------------------------------------------------------------- */

static unsigned read_percent(const struct host_args *a)
{
        const char *kind = strncmp(a->rw, "rand", 4) == 0 ? a->rw + 4 : a->rw;

        if (strcmp(kind, "rw") == 0)
                return (unsigned)a->mix;
        return strcmp(kind, "read") == 0 ? 100 : 0;
}

/* "2-5,8" */
static int parse_cpus(const char *list, struct perf_options *o, struct host_error *e)
{
        const char *p = list;

        while (*p) {
                char *end;
                unsigned long from = strtoul(p, &end, 10), to = from;

                if (end == p)
                        break;
                if (*end == '-')
                        to = strtoul(end + 1, &end, 10);
                for (; from <= to && o->cpus < PERF_CPUS && from < 1024; from++)
                        o->cpu[o->cpus++] = (int)from;
                p = *end == ',' ? end + 1 : end;
                if (p == end && *p)
                        break;
        }
        if (*p || o->cpus == 0)
                return host_fail(e, HOST_USAGE,
                                 "option --cpu: '%s' is not a list such as 1 or "
                                 "2-5,8",
                                 list);
        return 0;
}

/* A worker that can't be pinned would run, and be measured, anywhere. */
static int check_cpus(const struct perf_options *o, struct host_error *e)
{
        cpu_set_t ours;

        if (sched_getaffinity(0, sizeof(ours), &ours) < 0)
                return 0; /* more processors than it holds */
        for (unsigned i = 0; i < o->cpus; i++)
                if (!CPU_ISSET((size_t)o->cpu[i], &ours))
                        return host_fail(
                            e, HOST_USAGE,
                            "option --cpu: processor %d does not exist or may not be used by "
                            "this process",
                            o->cpu[i]);
        return 0;
}

int host_perf_check(const struct host_args *a, struct host_error *e)
{
        struct perf_options o = { 0 };

        if (!a->cpu)
                return 0;
        return parse_cpus(a->cpu, &o, e) < 0 ? -1 : check_cpus(&o, e);
}

int host_perf(struct load *l, const struct host_args *a, struct host_error *e)
{
        static struct perf_result result;
        struct perf_options o = { .io_size = (uint32_t)a->block_size,
                                  .range = a->range,
                                  .read_percent = read_percent(a),
                                  .random = strncmp(a->rw, "rand", 4) == 0,
                                  .depth = (unsigned)a->iodepth,
                                  .ms = a->time ? (unsigned)a->time : 10000,
                                  .warmup_ms = (unsigned)a->warmup,
                                  .sleep = a->no_busy_poll,
                                  .asked_for = a->asked_for,
                                  .seed = a->seed };

        if (a->cpu && parse_cpus(a->cpu, &o, e) < 0)
                return -1;
        if (perf_run(l, &o, &result, e) < 0)
                return -1;
        if (host_json(a))
                show_result(l, a, &o, &result);
        else
                print_result(l, a, &o, &result);
        return 0;
}
