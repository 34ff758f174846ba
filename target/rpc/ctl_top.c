/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec ctl top: rates, from two answers of the target a while apart. */
#include "ctl_top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pdu/io/loop.h"

#define NS_PER_SECOND 1e9
#define KIB           1024

enum { LINES = 24 }; /* queues that are shown: those with the most commands */

static struct json_object *member(struct json_object *o, const char *name)
{
        struct json_object *v = NULL;

        json_object_object_get_ex(o, name, &v);
        return v;
}

static uint64_t number_in(struct json_object *o, const char *name)
{
        return json_object_get_uint64(member(o, name));
}

static const char *text_in(struct json_object *o, const char *name)
{
        const char *text = json_object_get_string(member(o, name));

        return text ? text : "";
}

/* --- counters and what they make up ----------------------------------------------------------- */

enum counter { READS, BYTES_READ, WRITES, BYTES_WRITTEN, ANSWERED, BUSY, COUNTERS };

struct rates {
        double of[COUNTERS]; /* a second; BUSY: ns a second */
};

/* The element of `array` that has the same value of that name; NULL: it was not there. */
static struct json_object *same(struct json_object *array, const char *name, struct json_object *o)
{
        for (size_t i = 0; array && i < json_object_array_length(array); i++) {
                struct json_object *e = json_object_array_get_idx(array, i);

                if (json_object_equal(member(e, name), member(o, name)))
                        return e;
        }
        return NULL;
}

static struct rates rates_of(struct json_object *now, struct json_object *before, double seconds,
                             const char *const names[COUNTERS])
{
        struct rates r = { { 0 } };

        for (unsigned i = 0; i < COUNTERS && names[i]; i++) {
                uint64_t was = before ? number_in(before, names[i]) : 0;
                uint64_t is = number_in(now, names[i]);

                if (seconds > 0 && is > was)
                        r.of[i] = (double)(is - was) / seconds;
        }
        return r;
}

static void add(struct rates *sum, const struct rates *r)
{
        for (unsigned i = 0; i < COUNTERS; i++)
                sum->of[i] += r->of[i];
}

static void print_head(const char *what)
{
        printf("%-44s %10s %10s %10s %10s", what, "reads/s", "KiB/s", "writes/s", "KiB/s");
}

static void print_rates(const char *name, const struct rates *r)
{
        printf("%-44.44s", name);
        for (unsigned i = READS; i <= BYTES_WRITTEN; i++)
                printf(" %10.0f", r->of[i] / (i % 2 ? KIB : 1));
}

/* Of all commands: how long one takes on average, and so how many there are at once. */
static void print_times(const struct rates *r)
{
        double ns = r->of[ANSWERED] > 0 ? r->of[BUSY] / r->of[ANSWERED] : 0;

        printf(" %10.1f %7.2f\n", ns / 1000, r->of[BUSY] / NS_PER_SECOND);
}

/* --- hosts and their queues ------------------------------------------------------------------- */

static const char *const queue_counters[COUNTERS] = { "reads",         "bytes_read", "writes",
                                                      "bytes_written", "commands",   "busy_ns" };

struct line { /* a queue */
        struct json_object *queue;
        struct rates rates;
        bool shown;
};

static bool same_controller(struct json_object *a, struct json_object *b)
{
        return json_object_equal(member(a, "cntlid"), member(b, "cntlid")) &&
               json_object_equal(member(a, "nqn"), member(b, "nqn"));
}

static int busiest_first(const void *a, const void *b)
{
        double x = ((const struct line *)a)->rates.of[ANSWERED];
        double y = ((const struct line *)b)->rates.of[ANSWERED];

        return (x < y) - (x > y);
}

static void print_controller(const struct line *lines, size_t n, size_t at)
{
        struct json_object *q = lines[at].queue;
        struct rates sum = { { 0 } };
        unsigned io = 0;

        for (size_t i = 0; i < n; i++)
                if (same_controller(lines[i].queue, q)) {
                        add(&sum, &lines[i].rates);
                        io += number_in(lines[i].queue, "qid") > 0;
                }
        print_rates(text_in(q, "hostnqn"), &sum);
        print_times(&sum);
        printf("  %s cntlid %u, %s, %u I/O queues\n", text_in(q, "nqn"),
               (unsigned)number_in(q, "cntlid"), text_in(q, "peer"), io);
}

static void print_queue(const struct line *l)
{
        char name[32];

        snprintf(name, sizeof(name), "    queue %u", (unsigned)number_in(l->queue, "qid"));
        print_rates(name, &l->rates);
        print_times(&l->rates);
}

static struct line *lines_of(struct json_object *now, struct json_object *before, size_t *n)
{
        struct json_object *queues = member(now, "queues");
        double seconds = (double)(number_in(now, "ns") - number_in(before, "ns")) / NS_PER_SECOND;
        struct line *lines;

        *n = queues ? json_object_array_length(queues) : 0;
        lines = calloc(*n + 1, sizeof(*lines));
        for (size_t i = 0; lines && i < *n; i++) {
                struct json_object *q = json_object_array_get_idx(queues, i);

                lines[i].queue = q;
                lines[i].rates = rates_of(q, same(member(before, "queues"), "connection", q),
                                          seconds, queue_counters);
        }
        if (lines)
                qsort(lines, *n, sizeof(*lines), busiest_first);
        return lines;
}

/* Controllers in the order of their busiest queues; queues as far as there are lines for them. */
static void print_hosts(struct json_object *now, struct json_object *before)
{
        size_t n, left;
        struct line *lines = lines_of(now, before, &n);

        print_head("host");
        printf(" %10s %7s\n", "us", "depth");
        for (size_t i = 0; lines && i < n; i++) {
                if (lines[i].shown)
                        continue;
                print_controller(lines, n, i);
                for (size_t k = i; k < n; k++) {
                        if (!same_controller(lines[k].queue, lines[i].queue))
                                continue;
                        lines[k].shown = true;
                        if (k < LINES)
                                print_queue(&lines[k]);
                }
        }
        left = n > LINES ? n - LINES : 0;
        if (left > 0)
                printf("and %zu queues with fewer commands\n", left);
        free(lines);
}

/* --- bdevs ------------------------------------------------------------------------------------ */

static const char *const bdev_counters[COUNTERS] = { "num_read_ops", "bytes_read", "num_write_ops",
                                                     "bytes_written" };

static void print_bdevs(struct json_object *now, struct json_object *before)
{
        struct json_object *bdevs = member(now, "bdevs");
        double seconds =
            (double)(number_in(now, "ticks") - number_in(before, "ticks")) / NS_PER_SECOND;

        if (!bdevs || json_object_array_length(bdevs) == 0)
                return;
        print_head("bdev");
        for (size_t i = 0; i < json_object_array_length(bdevs); i++) {
                struct json_object *b = json_object_array_get_idx(bdevs, i);
                struct rates r =
                    rates_of(b, same(member(before, "bdevs"), "name", b), seconds, bdev_counters);

                putchar('\n');
                print_rates(text_in(b, "name"), &r);
        }
        putchar('\n');
}

/* --- the table -------------------------------------------------------------------------------- */

struct view {
        struct json_object *queues, *bdevs;
};

static bool look(const struct ctl_top *t, struct view *v)
{
        v->queues = t->call(t->user, "nvmfspec_get_queues");
        v->bdevs = v->queues ? t->call(t->user, "bdev_get_iostat") : NULL;
        return v->bdevs;
}

static void drop(struct view *v)
{
        json_object_put(v->queues);
        json_object_put(v->bdevs);
}

bool ctl_top(const struct ctl_top *t)
{
        struct view before, now;
        bool ok = look(t, &before);

        for (uint64_t i = 0; ok && (t->times == 0 || i < t->times); i++) {
                loop_sleep_us(t->ms * 1000);
                ok = look(t, &now);
                if (ok) {
                        fputs(isatty(STDOUT_FILENO) ? "\033[H\033[J" : "", stdout);
                        print_hosts(now.queues, before.queues);
                        print_bdevs(now.bdevs, before.bdevs);
                        fflush(stdout);
                }
                drop(&before);
                before = now;
        }
        drop(&before);
        return ok;
}
