/* SPDX-License-Identifier: BSD-3-Clause */
#include "stat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "command.h"
#include "pcap/trace/words.h"
#include "pdu/io/json.h"
#include "pdu/io/output.h"
#include "stat_trace.h"

const char *const stat_parts[PARTS] = { "whole", "to data", "data", "to response" };

static const double percents[] = { 50, 90, 99, 99.9 };
enum { PERCENTS = sizeof(percents) / sizeof(percents[0]) };

struct gatherer {
        const struct args *args;
        struct stats s;
};

/* --- time ------------------------------------------------------------------------------------- */

static void merge_bins(struct stats *s)
{
        for (unsigned i = 0; i < STAT_BINS / 2; i++) {
                struct stat_bin *a = &s->bin[2 * i], *b = &s->bin[2 * i + 1], sum = *a;

                sum.done += b->done;
                sum.errors += b->errors;
                sum.h2c += b->h2c;
                sum.c2h += b->c2h;
                sum.latency_sum += b->latency_sum;
                sum.depth_area += b->depth_area;
                if (b->latency_max > sum.latency_max)
                        sum.latency_max = b->latency_max;
                if (b->depth_max > sum.depth_max)
                        sum.depth_max = b->depth_max;
                s->bin[i] = sum;
        }
        memset(s->bin + STAT_BINS / 2, 0, sizeof(s->bin) / 2);
        s->interval_ns *= 2;
        s->bins = (s->bins + 1) / 2;
}

static struct stat_bin *bin_at(struct stats *s, int64_t time_ns)
{
        while ((time_ns - s->start_ns) / s->interval_ns >= STAT_BINS)
                merge_bins(s);
        return &s->bin[(time_ns - s->start_ns) / s->interval_ns];
}

/* Up to now so many commands were outstanding. Time never goes back, whatever frames say. */
static void advance(struct stats *s, int64_t time_ns)
{
        if (!s->started) {
                s->started = true;
                s->start_ns = s->last_ns = time_ns;
                s->bins = 1;
        }
        if (time_ns <= s->last_ns)
                return;
        (void)bin_at(s, time_ns);
        while (s->last_ns < time_ns) {
                struct stat_bin *b = bin_at(s, s->last_ns);
                int64_t end = s->start_ns + (b - s->bin + 1) * s->interval_ns;

                if (end > time_ns)
                        end = time_ns;
                b->depth_area += (double)s->depth * (double)(end - s->last_ns);
                if (s->depth > b->depth_max)
                        b->depth_max = s->depth;
                s->last_ns = end;
        }
        s->bins = (unsigned)((s->last_ns - s->start_ns) / s->interval_ns) + 1;
}

/* --- commands --------------------------------------------------------------------------------- */

static bool is_later(const struct args *a, const struct stat_group *g, const struct trace_family *f,
                     bool io)
{
        return args_key(a, g->family, g->io) > args_key(a, f, io);
}

static struct stat_group *group_of(struct gatherer *g, const struct trace_family *f,
                                   const struct trace_command *c)
{
        struct stat_group **at = &g->s.groups, *made;

        for (; *at && !is_later(g->args, *at, f, c->io); at = &(*at)->next)
                if ((*at)->family == f && (*at)->io == c->io && strcmp((*at)->name, c->name) == 0)
                        return *at;
        made = calloc(1, sizeof(*made));
        if (!made) {
                g->s.no_memory = true;
                return NULL;
        }
        made->family = f;
        snprintf(made->name, sizeof(made->name), "%s", c->name);
        made->queue = c->queue;
        made->io = c->io;
        made->next = *at;
        return *at = made;
}

static uint64_t span(const struct capture_place *from, const struct capture_place *to)
{
        return to->time_ns > from->time_ns ? (uint64_t)(to->time_ns - from->time_ns) : 0;
}

static void add_parts(struct stat_group *g, const struct trace_command *c,
                      const struct capture_place *end)
{
        bool asked = c->asked.frame != 0;
        const struct capture_place *data = asked ? &c->asked : &c->data_first;

        histogram_add(&g->part[PART_WHOLE], span(&c->at, end));
        if (c->data_last.frame == 0 || (!asked && c->c2h == 0)) /* none, or in the capsule */
                return;
        histogram_add(&g->part[PART_TO_DATA], span(&c->at, data));
        histogram_add(&g->part[PART_DATA], span(data, &c->data_last));
        histogram_add(&g->part[PART_TO_REPLY], span(&c->data_last, end));
}

static void add_status(struct gatherer *g, const struct trace_family *f, unsigned status)
{
        char name[TALLY_NAME];
        struct text t = text_in(name, sizeof(name));

        f->status(&t, status);
        g->s.no_memory |= !tally_add(&g->s.statuses, args_key(g->args, f, status), name);
}

static void take_end(struct gatherer *g, const struct trace_event *e, const struct trace_view *v)
{
        const struct trace_family *f = e->conn->family;
        const struct trace_command *c = &v->command;
        struct stat_group *group = group_of(g, f, c);
        uint64_t latency = span(&c->at, &e->at);
        struct stats *s = &g->s;
        struct stat_bin *b = bin_at(s, s->last_ns);

        if (!group)
                return;
        group->count++;
        group->errors += v->error;
        group->h2c += c->h2c;
        group->c2h += c->c2h;
        add_parts(group, c, &e->at);
        s->completed++;
        s->errors += v->error;
        if (v->error)
                add_status(g, f, v->status);
        if (c->io)
                histogram_add(&s->whole, latency);
        b->done++;
        b->errors += v->error;
        b->h2c += c->h2c;
        b->c2h += c->c2h;
        b->latency_sum += latency;
        if (latency > b->latency_max)
                b->latency_max = latency;
}

/* --- connections ------------------------------------------------------------------------------ */

static void take_conn_end(struct stat_conn *c, const struct trace_event *e,
                          const struct trace_view *v)
{
        uint64_t latency = span(&v->command.at, &e->at);

        c->count++;
        c->errors += v->error;
        c->h2c += v->command.h2c;
        c->c2h += v->command.c2h;
        c->latency_sum += latency;
        if (latency > c->latency_max)
                c->latency_max = latency;
}

/* Who they are is known for sure when they are over. */
static void name_conn(struct stat_conn *c, const struct trace_conn *conn)
{
        struct text t = text_in(c->name, sizeof(c->name));

        words_conn(&t, conn);
        if (!c->family->queue && c->family->place)
                c->family->place(&t, conn);
        c->qid = c->family->queue ? c->family->queue(conn) : -1;
}

static void take_conn(struct stats *s, const struct trace_event *e, const struct trace_view *v)
{
        struct stat_conn *c = e->conn->tool;

        if (!c && s->conns < STAT_CONNS) {
                e->conn->tool = c = &s->conn[s->conns++];
                c->number = e->conn->number;
                c->family = e->conn->family;
        }
        if (!c) {
                s->more_conns += e->kind == TRACE_CLOSED;
                return;
        }
        c->gaps += e->kind == TRACE_GAP;
        if (v->ends && !v->command.waits)
                take_conn_end(c, e, v);
        if (e->kind == TRACE_CLOSED)
                name_conn(c, e->conn);
}

/* Of a queue that was not known to be the one selected, the beginning was not counted. */
static void less_depth(struct stats *s)
{
        if (s->depth > 0)
                s->depth--;
}

/* What begins or ends a command is a message. */
static struct trace_view view_of(const struct trace_record *r)
{
        struct trace_view v = { 0 };

        if (r->e->kind == TRACE_PDU || r->e->kind == TRACE_CAPSULE)
                r->e->conn->family->view(&v, r->record);
        return v;
}

static void on_record(void *user, const struct trace_record *r)
{
        struct gatherer *g = user;
        struct stats *s = &g->s;
        struct trace_view v;

        advance(s, r->e->at.time_ns);
        if (!args_select_conn(g->args, r->e->conn))
                return;
        v = view_of(r);
        take_conn(s, r->e, &v);
        s->commands += v.begins;
        s->aers += v.begins && v.command.waits;
        if (!v.known || v.command.waits)
                return;
        if (v.begins)
                s->depth++;
        if (s->depth > s->depth_max)
                s->depth_max = s->depth;
        if (!v.ends)
                return;
        take_end(g, r->e, &v);
        less_depth(s);
}

static void on_lost(void *user, const struct trace_record *r)
{
        struct gatherer *g = user;
        struct trace_view v = { 0 };

        if (!args_select_conn(g->args, r->e->conn))
                return;
        r->e->conn->family->view(&v, r->record);
        g->s.unanswered++;
        if (!v.command.waits)
                less_depth(&g->s);
}

/* --- text ------------------------------------------------------------------------------------- */

static double us(double ns)
{
        return ns / 1000;
}

static void print_histogram(const struct histogram *h)
{
        printf(" %9.1f", us(histogram_mean(h)));
        for (int i = 0; i < PERCENTS; i++)
                printf(" %9.1f", us((double)histogram_percentile(h, percents[i])));
        printf(" %9.1f\n", us((double)h->max));
}

static void print_group(const struct stat_group *g)
{
        printf("%-30s %8" PRIu64 " %7" PRIu64 " %9.2f", g->name, g->count, g->errors,
               (double)(g->h2c + g->c2h) / 1048576);
        print_histogram(&g->part[PART_WHOLE]);
        for (int p = 1; p < PARTS; p++) {
                if (g->part[p].count == 0)
                        continue;
                printf("  %-28s %8" PRIu64 " %7s %9s", stat_parts[p], g->part[p].count, "", "");
                print_histogram(&g->part[p]);
        }
}

static void print_groups(const struct stats *s)
{
        const char *queue = "";
        char title[80];

        for (const struct stat_group *g = s->groups; g; queue = g->queue, g = g->next) {
                snprintf(title, sizeof(title), "%s: latency in us", g->queue);
                if (strcmp(g->queue, queue) != 0)
                        printf("\n%-30s %8s %7s %9s %9s %9s %9s %9s %9s %9s\n", title, "count",
                               "errors", "MiB", "mean", "p50", "p90", "p99", "p99.9", "max");
                print_group(g);
        }
}

static void print_conns(const struct stats *s)
{
        printf("\n%-62s %5s %8s %7s %9s %9s %9s\n", "connections: latency in us", "queue", "count",
               "errors", "MiB", "mean", "max");
        for (unsigned i = 0; i < s->conns; i++) {
                const struct stat_conn *c = &s->conn[i];
                char qid[12] = "", name[STAT_CONN_NAME + 16];

                if (c->family->queue)
                        snprintf(qid, sizeof(qid), c->qid < 0 ? "?" : "%d", c->qid);
                snprintf(name, sizeof(name), "%u %s", c->number, c->name);
                printf("%-62s %5s %8" PRIu64 " %7" PRIu64 " %9.2f %9.1f %9.1f\n", name, qid,
                       c->count, c->errors, (double)(c->h2c + c->c2h) / 1048576, us(stat_mean(c)),
                       us((double)c->latency_max));
        }
        if (s->more_conns)
                printf("and %" PRIu64 " more\n", s->more_conns);
}

/* A row of `width` signs for values over time. */
static void print_curve(const char *what, const char *unit, const double *values, unsigned n)
{
        static const char *const signs[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
        double max = 0;

        for (unsigned i = 0; i < n; i++)
                max = values[i] > max ? values[i] : max;
        printf("%-12s |", what);
        for (unsigned i = 0; i < n; i++)
                fputs(signs[max > 0 ? (int)(values[i] / max * 8 + 0.5) : 0], stdout);
        printf("| up to %.1f %s\n", max, unit);
}

enum { COLUMNS = 60 };

static void print_timeline(const struct stats *s)
{
        double iops[COLUMNS] = { 0 }, depth[COLUMNS] = { 0 }, rate[COLUMNS] = { 0 };
        unsigned per = (s->bins + COLUMNS - 1) / COLUMNS, n;
        double seconds;

        if (s->bins == 0 || stat_seconds(s) <= 0)
                return;
        seconds = (double)s->interval_ns * per / 1e9;
        n = (s->bins + per - 1) / per;
        for (unsigned i = 0; i < s->bins; i++) {
                const struct stat_bin *b = &s->bin[i];

                iops[i / per] += (double)b->done / seconds;
                rate[i / per] += (double)(b->h2c + b->c2h) / 1048576 / seconds;
                depth[i / per] += b->depth_area / ((double)s->interval_ns * per);
        }
        printf("\n"
               "over %.3f s, %.3f s per column\n",
               stat_seconds(s), seconds);
        print_curve("commands", "per second", iops, n);
        print_curve("data", "MiB/s", rate, n);
        print_curve("outstanding", "on average", depth, n);
}

static void print_text(const struct stats *s, const struct trace_totals *t)
{
        printf("%" PRIu64 " %s, %.3f s, %" PRIu64 " connections, %" PRIu64 " gaps; %" PRIu64
               " commands, %" PRIu64 " answered, %" PRIu64 " with an error, %" PRIu64
               " without an answer (%" PRIu64 " AERs sent); up to %u outstanding\n",
               t->frames, s->trace ? "lines" : "frames", stat_seconds(s), t->conns, t->gaps,
               s->commands, s->completed, s->errors, s->unanswered, s->aers, s->depth_max);
        print_groups(s);
        putchar('\n');
        for (const struct tally *e = s->statuses; e; e = e->next)
                printf("%-29s %8" PRIu64 "\n", e->name, e->count);
        print_timeline(s);
        if (s->conns > 0)
                print_conns(s);
        stat_trace_print(s);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static struct json_object *histogram_object(const struct histogram *h)
{
        static const char *const names[PERCENTS] = { "p50", "p90", "p99", "p99_9" };
        struct json_object *o = json_object_new_object();

        put_number(o, "count", h->count);
        put_number(o, "min", h->min);
        json_object_object_add(o, "mean", json_object_new_double(histogram_mean(h)));
        for (int i = 0; i < PERCENTS; i++)
                put_number(o, names[i], histogram_percentile(h, percents[i]));
        put_number(o, "max", h->max);
        return o;
}

static struct json_object *group_object(const struct stat_group *g)
{
        static const char *const names[PARTS] = { "whole_ns", "to_data_ns", "data_ns",
                                                  "to_response_ns" };
        struct json_object *o = json_object_new_object();

        put_string(o, "protocol", g->family->name);
        put_string(o, "command", g->name);
        put_bool(o, "io", g->io);
        put_number(o, "count", g->count);
        put_number(o, "errors", g->errors);
        put_number(o, "h2c_bytes", g->h2c);
        put_number(o, "c2h_bytes", g->c2h);
        for (int p = 0; p < PARTS; p++)
                if (g->part[p].count)
                        json_object_object_add(o, names[p], histogram_object(&g->part[p]));
        return o;
}

static struct json_object *conn_object(const struct stat_conn *c)
{
        struct json_object *o = json_object_new_object();

        put_number(o, "connection", c->number);
        put_string(o, "name", c->name);
        put_string(o, "protocol", c->family->name);
        if (c->family->queue)
                json_object_object_add(o, "qid", json_object_new_int(c->qid));
        put_number(o, "count", c->count);
        put_number(o, "errors", c->errors);
        put_number(o, "h2c_bytes", c->h2c);
        put_number(o, "c2h_bytes", c->c2h);
        put_number(o, "gaps", c->gaps);
        json_object_object_add(o, "latency_mean_ns", json_object_new_double(stat_mean(c)));
        put_number(o, "latency_max_ns", c->latency_max);
        return o;
}

static struct json_object *bin_object(const struct stats *s, unsigned i)
{
        const struct stat_bin *b = &s->bin[i];
        struct json_object *o = json_object_new_object();

        put_number(o, "at_ns", (uint64_t)(s->interval_ns * (int64_t)i));
        put_number(o, "completed", b->done);
        put_number(o, "errors", b->errors);
        put_number(o, "h2c_bytes", b->h2c);
        put_number(o, "c2h_bytes", b->c2h);
        put_number(o, "latency_mean_ns", b->done ? b->latency_sum / b->done : 0);
        put_number(o, "latency_max_ns", b->latency_max);
        json_object_object_add(o, "depth_mean",
                               json_object_new_double(b->depth_area / (double)s->interval_ns));
        put_number(o, "depth_max", b->depth_max);
        return o;
}

static void print_json(const struct stats *s, const struct trace_totals *t)
{
        struct json_object *o = json_object_new_object(), *list = json_object_new_array();

        put_number(o, "schema", 1);
        put_number(o, "frames", t->frames);
        put_number(o, "connections", t->conns);
        put_number(o, "gaps", t->gaps);
        json_object_object_add(o, "seconds", json_object_new_double(stat_seconds(s)));
        put_number(o, "commands", s->commands);
        put_number(o, "completed", s->completed);
        put_number(o, "errors", s->errors);
        put_number(o, "unanswered", s->unanswered);
        put_number(o, "depth_max", s->depth_max);
        json_object_object_add(o, "kinds", list);
        for (const struct stat_group *g = s->groups; g; g = g->next)
                json_object_array_add(list, group_object(g));
        list = json_object_new_array();
        json_object_object_add(o, "queues", list); /* the first STAT_CONNS connections */
        for (unsigned i = 0; i < s->conns; i++)
                json_object_array_add(list, conn_object(&s->conn[i]));
        put_number(o, "interval_ns", (uint64_t)s->interval_ns);
        list = json_object_new_array();
        json_object_object_add(o, "timeline", list);
        for (unsigned i = 0; i < s->bins; i++)
                json_object_array_add(list, bin_object(s, i));
        stat_trace_put(s, o);
        puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(o);
}

/* --- the command ------------------------------------------------------------------------------ */

static int write_page(struct pcap_call *call, const struct stats *s, const struct trace_totals *t)
{
        struct output o;
        bool good;
        FILE *f;

        if (!output_begin(&o, call->file, call->args->html, call->err, sizeof(call->err)))
                return PCAP_UNREADABLE;
        f = fopen(o.path, "we");
        if (f)
                stat_html(f, s, t, call->file);
        good = f && !ferror(f);
        if (f)
                good &= fclose(f) == 0;
        if (output_end(&o, good) && good)
                return PCAP_OK;
        snprintf(call->err, sizeof(call->err), "%s: %s", call->args->html, strerror(errno));
        return PCAP_UNREADABLE;
}

static void free_groups(struct stats *s)
{
        while (s->groups) {
                struct stat_group *g = s->groups;

                s->groups = g->next;
                free(g);
        }
        tally_free(&s->statuses);
}

static bool is_measured(const struct args *a, const struct trace_family *f)
{
        (void)a;
        return f->view;
}

static int report(struct pcap_call *call, struct gatherer *g)
{
        const struct trace_reading how = { .record = on_record, .lost = on_lost, .user = g };
        struct trace_totals totals;
        int rc = PCAP_OK;

        call->can = is_measured;
        call->cannot = "has no commands that could be measured";
        if (!stat_trace_read(call, &g->s, &totals))
                (void)pcap_records(call, &how, &totals);
        if (g->s.no_memory && !*call->err)
                snprintf(call->err, sizeof(call->err), "out of memory");
        if (args_json(call->args))
                print_json(&g->s, &totals);
        else
                print_text(&g->s, &totals);
        fflush(stdout);
        if (!g->s.trace)
                pcap_remarks(call, &totals);
        if (call->args->html)
                rc = write_page(call, &g->s, &totals);
        free_groups(&g->s);
        stat_trace_free(&g->s);
        return rc;
}

int pcap_stat(struct pcap_call *call)
{
        struct gatherer *g = calloc(1, sizeof(*g));
        int rc;

        if (!g) {
                snprintf(call->err, sizeof(call->err), "out of memory");
                return PCAP_UNREADABLE;
        }
        g->args = call->args;
        g->s.interval_ns = call->args->interval ? (int64_t)call->args->interval * 1000000 : 1000;
        rc = report(call, g);
        free(g);
        return rc;
}
