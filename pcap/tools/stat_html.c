/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "stat.h"

enum { WIDTH = 860, HEIGHT = 230, LEFT = 64, RIGHT = 16, TOP = 26, BOTTOM = 34, SERIES = 4 };

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>nvmfspec pcap stat</title>\n<style>\n"
    ":root{color-scheme:light dark;--line:#8885;--dim:#888;"
    "--a:#0969da;--b:#cf222e;--c:#1a7f37;--d:#8250df}\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:1.8rem 0 .4rem}\n"
    "p{margin:.2rem 0;color:var(--dim)}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "th,td{border-top:1px solid var(--line);padding:.25rem .5rem;text-align:right}\n"
    "th{color:var(--dim);font-weight:500;border:0}th:first-child,td:first-child{text-align:left}\n"
    "tr.part td{color:var(--dim);border:0}tr.part td:first-child{padding-left:1.5rem}\n"
    "svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--dim)}\n"
    ".grid{stroke:var(--line);stroke-width:1}.s0{stroke:var(--a)}.s1{stroke:var(--b)}\n"
    ".s2{stroke:var(--c)}.s3{stroke:var(--d)}.s{fill:none;stroke-width:1.6}\n"
    ".k0{fill:var(--a)!important}.k1{fill:var(--b)!important}.k2{fill:var(--c)!important}\n"
    ".k3{fill:var(--d)!important}\n"
    "</style></head><body>\n";

static void escape(FILE *f, const char *s)
{
        for (; *s; s++) {
                if (*s == '<')
                        fputs("&lt;", f);
                else if (*s == '>')
                        fputs("&gt;", f);
                else if (*s == '&')
                        fputs("&amp;", f);
                else
                        fputc(*s, f);
        }
}

/* --- plots ------------------------------------------------------------------------------------ */

struct plot {
        const char *title, *unit;
        const char *names[SERIES];
        unsigned series;
        double max, width; /* of y; of x, in its own unit */
        const char *x_unit;
        bool log_x; /* from x_min */
        double x_min;
};

/* 1, 2 or 5 times a power of ten, not below v. */
static double round_up(double v)
{
        static const double steps[] = { 1, 2, 5, 10 };
        double power = v > 0 ? pow(10, floor(log10(v))) : 1;

        for (int i = 0; i < 4; i++)
                if (steps[i] * power >= v)
                        return steps[i] * power;
        return v;
}

static double x_of(const struct plot *p, double x)
{
        double part = p->width > 0 ? x / p->width : 0;

        if (p->log_x)
                part = log(x / p->x_min) / log(p->width / p->x_min);
        if (part < 0)
                part = 0;
        return LEFT + (part > 1 ? 1 : part) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct plot *p, double y)
{
        return HEIGHT - BOTTOM - y / p->max * (HEIGHT - TOP - BOTTOM);
}

/* "250", "12.5k", "3M" */
static const char *short_number(double v, char buf[32])
{
        static const char *const units[] = { "", "k", "M", "G" };
        int unit = 0;

        for (; fabs(v) >= 1000 && unit < 3; unit++)
                v /= 1000;
        snprintf(buf, 32, "%.4g%s", v, units[unit]);
        return buf;
}

static void x_label(FILE *f, const struct plot *p, double x)
{
        char number[32];

        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x_of(p, x),
                HEIGHT - BOTTOM + 16, short_number(x, number));
}

static void axes(FILE *f, const struct plot *p)
{
        double step = p->width > 0 ? round_up(p->width / 8) : 1;
        char number[32];

        for (int i = 0; i <= 4; i++) {
                double y = p->max * i / 4;

                fprintf(f,
                        "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                        LEFT, WIDTH - RIGHT, y_of(p, y), y_of(p, y), LEFT - 6, y_of(p, y) + 4,
                        short_number(y, number));
        }
        for (int i = 0; i < 100; i++) {
                double x = p->log_x ? p->x_min * pow(10, i) : step * i;

                if (x > p->width * 1.001)
                        break;
                x_label(f, p, x);
        }
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", WIDTH - RIGHT,
                HEIGHT - 4, p->x_unit);
}

static void plot_begin(FILE *f, struct plot *p)
{
        p->max = round_up(p->max);
        fprintf(f, "<h2>%s</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
                p->title, WIDTH, HEIGHT, p->title);
        axes(f, p);
        for (unsigned i = 0; i < p->series; i++)
                fprintf(f, "<text class=\"k%u\" x=\"%d\" y=\"%d\">%s</text>\n", i,
                        LEFT + (int)i * 170, TOP - 12, p->names[i]);
}

static void plot_end(FILE *f)
{
        fputs("</svg>\n", f);
}

static void line_begin(FILE *f, unsigned series)
{
        fprintf(f, "<polyline class=\"s s%u\" points=\"", series);
}

static void point(FILE *f, const struct plot *p, double x, double y)
{
        fprintf(f, "%.1f,%.1f ", x_of(p, x), y_of(p, y < p->max ? y : p->max));
}

static void line_end(FILE *f)
{
        fputs("\"/>\n", f);
}

/* --- over time -------------------------------------------------------------------------------- */

typedef double value_fn(const struct stats *s, const struct stat_bin *b);

static double per_second(const struct stats *s, double n)
{
        return n * 1e9 / (double)s->interval_ns;
}

static double iops(const struct stats *s, const struct stat_bin *b)
{
        return per_second(s, (double)b->done);
}

static double errors(const struct stats *s, const struct stat_bin *b)
{
        return per_second(s, (double)b->errors);
}

static double to_controller(const struct stats *s, const struct stat_bin *b)
{
        return per_second(s, (double)b->h2c / 1048576);
}

static double to_host(const struct stats *s, const struct stat_bin *b)
{
        return per_second(s, (double)b->c2h / 1048576);
}

static double mean_depth(const struct stats *s, const struct stat_bin *b)
{
        return b->depth_area / (double)s->interval_ns;
}

static double max_depth(const struct stats *s, const struct stat_bin *b)
{
        (void)s;
        return b->depth_max;
}

static double mean_latency(const struct stats *s, const struct stat_bin *b)
{
        (void)s;
        return b->done ? (double)b->latency_sum / (double)b->done / 1000 : 0;
}

static double max_latency(const struct stats *s, const struct stat_bin *b)
{
        (void)s;
        return (double)b->latency_max / 1000;
}

static const struct timeline {
        const char *title, *names[2];
        value_fn *value[2];
} timelines[] = {
        { "Commands completed per second", { "all", "with an error" }, { iops, errors } },
        { "Data, MiB per second",
          { "to the host", "to the controller" },
          { to_host, to_controller } },
        { "Commands outstanding", { "on average", "most" }, { mean_depth, max_depth } },
        { "Latency, microseconds", { "mean", "longest" }, { mean_latency, max_latency } },
};

static void timeline(FILE *f, const struct stats *s, const struct timeline *t)
{
        struct plot p = {
                .title = t->title,
                .names = { t->names[0], t->names[1] },
                .series = 2,
                .width = stat_seconds(s),
                .x_unit = "seconds",
        };

        for (unsigned i = 0; i < s->bins; i++)
                for (int k = 0; k < 2; k++)
                        p.max = fmax(p.max, t->value[k](s, &s->bin[i]));
        plot_begin(f, &p);
        for (unsigned k = 2; k-- > 0;) {
                line_begin(f, k);
                for (unsigned i = 0; i < s->bins; i++)
                        point(f, &p, ((double)i + 0.5) * (double)s->interval_ns / 1e9,
                              t->value[k](s, &s->bin[i]));
                line_end(f);
        }
        plot_end(f);
}

/* --- distribution ----------------------------------------------------------------------------- */

/* The middle of a bucket, in us. */
static double bucket_us(unsigned i)
{
        unsigned shift = i < HISTOGRAM_SUB ? 0 : i / HISTOGRAM_SUB - 1;
        double low = i < HISTOGRAM_SUB ? i : (double)(i % HISTOGRAM_SUB + HISTOGRAM_SUB);

        return (low + 0.5) * (double)(UINT64_C(1) << shift) / 1000;
}

static void curve(FILE *f, const struct plot *p, unsigned series, const struct histogram *h)
{
        uint64_t sum = 0;

        line_begin(f, series);
        point(f, p, p->x_min, 0);
        for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
                if (h->bucket[i] == 0)
                        continue;
                point(f, p, bucket_us(i), 100.0 * (double)sum / (double)h->count);
                sum += h->bucket[i];
                point(f, p, bucket_us(i), 100.0 * (double)sum / (double)h->count);
        }
        line_end(f);
}

/* The four kinds of I/O command with the most completions; of admin ones where there are none. */
static unsigned choose(const struct stats *s, const struct stat_group *out[SERIES])
{
        unsigned n = 0;

        for (const struct stat_group *g = s->groups; g; g = g->next) {
                unsigned at = n < SERIES ? n : SERIES - 1;

                if (g->part[PART_WHOLE].count == 0 || (!g->io && s->whole.count > 0) ||
                    (n == SERIES && out[at]->count >= g->count))
                        continue;
                for (; at > 0 && out[at - 1]->count < g->count; at--)
                        out[at] = out[at - 1];
                out[at] = g;
                n += n < SERIES;
        }
        return n;
}

static void distribution(FILE *f, const struct stats *s)
{
        const struct stat_group *groups[SERIES];
        struct plot p = {
                .title = "Latency, per cent of commands answered within",
                .max = 100,
                .log_x = true,
                .x_unit = "microseconds",
        };
        double least = 1e12, most = 0;

        p.series = choose(s, groups);
        if (p.series == 0)
                return;
        for (unsigned i = 0; i < p.series; i++) {
                p.names[i] = groups[i]->name;
                least = fmin(least, (double)groups[i]->part[PART_WHOLE].min / 1000);
                most = fmax(most, (double)groups[i]->part[PART_WHOLE].max / 1000);
        }
        p.x_min = pow(10, floor(log10(fmax(least, 0.1))));
        p.width = pow(10, ceil(log10(fmax(most, p.x_min * 10))));
        plot_begin(f, &p);
        for (unsigned i = 0; i < p.series; i++)
                curve(f, &p, i, &groups[i]->part[PART_WHOLE]);
        plot_end(f);
}

/* --- tables ----------------------------------------------------------------------------------- */

static void latency_cells(FILE *f, const struct histogram *h)
{
        static const double percents[] = { 50, 90, 99, 99.9 };

        fprintf(f, "<td>%.1f</td>", histogram_mean(h) / 1000);
        for (int i = 0; i < 4; i++)
                fprintf(f, "<td>%.1f</td>", (double)histogram_percentile(h, percents[i]) / 1000);
        fprintf(f, "<td>%.1f</td></tr>\n", (double)h->max / 1000);
}

static void table_rows(FILE *f, const struct stat_group *g)
{
        fprintf(f, "<tr><td>%s</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%.2f</td>", g->name,
                g->count, g->errors, (double)(g->h2c + g->c2h) / 1048576);
        latency_cells(f, &g->part[PART_WHOLE]);
        for (int p = 1; p < PARTS; p++) {
                if (g->part[p].count == 0)
                        continue;
                fprintf(f, "<tr class=\"part\"><td>%s</td><td>%" PRIu64 "</td><td></td><td></td>",
                        stat_parts[p], g->part[p].count);
                latency_cells(f, &g->part[p]);
        }
}

static void tables(FILE *f, const struct stats *s)
{
        const char *queue = NULL;

        for (const struct stat_group *g = s->groups; g; queue = g->queue, g = g->next) {
                if (!queue || strcmp(g->queue, queue) != 0)
                        fprintf(f,
                                "%s<h2>%s: latency in microseconds</h2>\n<table><tr>"
                                "<th>command</th><th>count</th><th>errors</th><th>MiB</th>"
                                "<th>mean</th><th>p50</th><th>p90</th><th>p99</th><th>p99.9</th>"
                                "<th>max</th></tr>\n",
                                queue ? "</table>\n" : "", g->queue);
                table_rows(f, g);
        }
        if (queue)
                fputs("</table>\n", f);
}

static void conns(FILE *f, const struct stats *s)
{
        fputs("<h2>Connections, latency in microseconds</h2>\n<table><tr><th>connection</th>"
              "<th>queue</th><th>count</th><th>errors</th><th>MiB</th><th>mean</th><th>max</th>"
              "</tr>\n",
              f);
        for (unsigned i = 0; i < s->conns; i++) {
                const struct stat_conn *c = &s->conn[i];

                fprintf(f, "<tr><td>%u&ensp;", c->number);
                escape(f, c->name);
                if (c->qid >= 0)
                        fprintf(f, "</td><td>%d", c->qid);
                else
                        fputs(c->family->queue ? "</td><td>?" : "</td><td>", f);
                fprintf(f,
                        "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%.2f</td><td>%.1f</td>"
                        "<td>%.1f</td></tr>\n",
                        c->count, c->errors, (double)(c->h2c + c->c2h) / 1048576,
                        stat_mean(c) / 1000, (double)c->latency_max / 1000);
        }
        fputs("</table>\n", f);
        if (s->more_conns)
                fprintf(f, "<p>and %" PRIu64 " more</p>\n", s->more_conns);
}

static void statuses(FILE *f, const struct stats *s)
{
        if (!s->statuses)
                return;
        fputs("<h2>Errors</h2>\n<table><tr><th>status</th><th>count</th></tr>\n", f);
        for (const struct tally *e = s->statuses; e; e = e->next)
                fprintf(f, "<tr><td>%s</td><td>%" PRIu64 "</td></tr>\n", e->name, e->count);
        fputs("</table>\n", f);
}

void stat_html(FILE *f, const struct stats *s, const struct trace_totals *totals, const char *file)
{
        fputs(head, f);
        fputs("<h1>", f);
        escape(f, file);
        fprintf(f,
                "</h1>\n<p>%" PRIu64 " frames over %.3f s, %" PRIu64 " connections, %" PRIu64
                " gaps</p>\n<p>%" PRIu64 " commands, %" PRIu64 " answered, %" PRIu64
                " with an error, %" PRIu64 " without an answer; up to %u outstanding</p>\n",
                totals->frames, stat_seconds(s), totals->conns, totals->gaps, s->commands,
                s->completed, s->errors, s->unanswered, s->depth_max);
        for (size_t i = 0; s->bins > 0 && i < sizeof(timelines) / sizeof(timelines[0]); i++)
                timeline(f, s, &timelines[i]);
        distribution(f, s);
        tables(f, s);
        conns(f, s);
        statuses(f, s);
        fputs("</body></html>\n", f);
}
