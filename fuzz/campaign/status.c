/* SPDX-License-Identifier: BSD-3-Clause */
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "pdu/io/json.h"

enum { EVERY_MS = 1000 };

void status_begin(struct status *s, const struct fuzz_family *family)
{
        *s = (struct status) { .family = family,
                               .screen = isatty(STDOUT_FILENO),
                               .began = loop_now_ms() };
        s->shown = s->last_new = s->began;
}

static double since(uint64_t then)
{
        return (double)(loop_now_ms() - then) / 1000;
}

static void print(struct json_object *o)
{
        printf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
        fflush(stdout);
        json_object_put(o);
}

static void add(struct json_object *o, const char *name, struct json_object *value)
{
        json_object_object_add(o, name, value);
}

static struct json_object *figure(double v)
{
        char text[32];

        snprintf(text, sizeof(text), "%.1f", v);
        return json_object_new_double_s(v, text);
}

static void as_json(const struct status *s, const char *what, double rate)
{
        struct json_object *o = json_object_new_object(), *ends = json_object_new_object();

        add(o, what, figure(since(s->began)));
        add(o, "runs", json_object_new_uint64(s->runs));
        add(o, "sessions_per_s", figure(rate));
        add(o, "novelty", json_object_new_int64(s->novelty));
        add(o, "corpus", json_object_new_int64(s->corpus));
        add(o, "findings", json_object_new_int64(s->findings));
        add(o, "last_new_s", figure(since(s->last_new)));
        for (enum remote_end e = 0; e < REMOTE_ENDS; e++)
                if (s->ends[e] > 0)
                        add(ends, remote_end_name(e), json_object_new_uint64(s->ends[e]));
        add(o, "ends", ends);
        print(o);
}

static void clear(struct status *s)
{
        if (s->lines > 0)
                printf("\033[%uA\033[J", s->lines);
        s->lines = 0;
}

static void as_screen(struct status *s, double rate)
{
        clear(s);
        printf("  %8.0f s   %10" PRIu64 " sessions   %8.0f per second\n", since(s->began), s->runs,
               rate);
        printf("  novelty %8u   corpus %6u   last new %.0f s ago\n", s->novelty, s->corpus,
               since(s->last_new));
        printf("  ends:");
        for (enum remote_end e = 0; e < REMOTE_ENDS; e++)
                if (s->ends[e] > 0)
                        printf(" %s %" PRIu64, remote_end_name(e), s->ends[e]);
        printf("\n  findings %u\n", s->findings);
        s->lines = 4;
        fflush(stdout);
}

void status_show(struct status *s, bool now)
{
        double seconds = since(s->shown);
        double rate = seconds > 0 ? (double)(s->runs - s->shown_runs) / seconds : 0;

        if (!now && seconds * 1000 < EVERY_MS)
                return;
        if (s->screen)
                as_screen(s, rate);
        else
                as_json(s, "seconds", rate);
        s->shown = loop_now_ms();
        s->shown_runs = s->runs;
}

void status_finding(struct status *s, const struct finding *f)
{
        struct json_object *o;

        if (s->screen) {
                clear(s);
                printf("%s: %s%s, %u trials: %s\n", f->shape, f->trouble.says,
                       f->reproduced ? "" : " (not reproduced)", f->trials,
                       *f->file ? f->file : "not saved (no --out)");
                return;
        }
        o = json_object_new_object();
        add(o, "finding", json_object_new_string(trouble_name(f->trouble.kind)));
        if (f->trouble.rule != RULE_NONE)
                add(o, "rule",
                    json_object_new_string(seq_rule_get(s->family, f->trouble.rule)->id));
        add(o, "says", json_object_new_string(f->trouble.says));
        add(o, "shape", json_object_new_string(f->shape));
        add(o, "reproduced", json_object_new_boolean(f->reproduced));
        if (f->played > 0) {
                add(o, "again", json_object_new_int64(f->again));
                add(o, "played", json_object_new_int64(f->played));
        }
        add(o, "sessions", json_object_new_int64(f->sequences.n));
        add(o, "trials", json_object_new_int64(f->trials));
        add(o, "file", *f->file ? json_object_new_string(f->file) : NULL);
        print(o);
}

void status_end(struct status *s)
{
        double seconds = since(s->began);
        double rate = seconds > 0 ? (double)s->runs / seconds : 0;

        if (s->screen)
                as_screen(s, rate);
        else
                as_json(s, "total_seconds", rate);
}
