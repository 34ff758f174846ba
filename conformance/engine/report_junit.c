/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "cause.h"
#include "escape.h"
#include "report.h"
#include "select.h"

static void attribute(FILE *f, const char *name, const char *value)
{
        fprintf(f, " %s=\"", name);
        escape_markup(f, value);
        fputc('"', f);
}

static void text_line(FILE *f, const char *name, const char *value)
{
        if (!value || !*value)
                return;
        fprintf(f, "%s: ", name);
        escape_markup(f, value);
        fputc('\n', f);
}

/* All that is known, as the text of <failure> and the like. */
static void body(FILE *f, const struct run *run, const struct result *r)
{
        const struct rulebook *book = run->family->family->rules;
        char line[REPORT_LINE];

        report_rule(run, r, line, sizeof(line));
        text_line(f, "cause", r->cause ? book->rows[r->cause].id : "");
        text_line(f, "expected", r->expected);
        text_line(f, "seen", r->seen);
        text_line(f, "rule", line);
        text_line(f, "says", line[0] ? rulebook_get(book, r->rule)->says : "");
        text_line(f, "note", r->note);
        text_line(f, "related", result_related(r));
        for (unsigned i = 0; i < r->exchange_count; i++) {
                exchange_format(&r->exchange[i], r->exchange_start, line, sizeof(line));
                escape_markup(f, line);
                fputc('\n', f);
        }
}

static void element(FILE *f, const char *name, const char *message, const struct run *run,
                    const struct result *r)
{
        fprintf(f, "      <%s", name);
        attribute(f, "message", message);
        fputc('>', f);
        body(f, run, r);
        fprintf(f, "</%s>\n", name);
}

static void skipped(FILE *f, const char *why)
{
        fputs("      <skipped", f);
        attribute(f, "message", why);
        fputs("/>\n", f);
}

static void outcome(FILE *f, const struct run *run, const struct result *r)
{
        if (r->known == KNOWN_LISTED)
                skipped(f, r->reason && *r->reason ? r->reason : "known failure");
        else if (r->known == KNOWN_FIXED && !run->lax)
                element(f, "failure", "is in the baseline, but it does not fail", run, r);
        else if (r->verdict == VERDICT_FAIL)
                element(f, "failure", r->seen, run, r);
        else if (r->verdict == VERDICT_ERROR)
                element(f, "error", r->seen, run, r);
        else if (r->verdict == VERDICT_SKIP)
                skipped(f, r->note);
}

/* What passes, but is worth a word. */
static void system_out(FILE *f, const struct run *run, const struct result *r)
{
        if (r->verdict != VERDICT_LENIENT && r->verdict != VERDICT_INFO &&
            r->verdict != VERDICT_ADVICE)
                return;
        fprintf(f, "      <system-out>%s: ", verdict_name(r->verdict));
        body(f, run, r);
        fputs("</system-out>\n", f);
}

static void testcase(FILE *f, const struct run *run, const struct result *r)
{
        char section[128];

        snprintf(section, sizeof(section), "%.*s", (int)id_section(r->id), r->id);
        fputs("    <testcase", f);
        attribute(f, "classname", section);
        attribute(f, "name", r->id);
        fprintf(f, " time=\"%.3f\">\n", r->ms / 1000.0);
        outcome(f, run, r);
        system_out(f, run, r);
        fputs("    </testcase>\n", f);
}

static void property(FILE *f, const char *name, const char *value)
{
        if (!*value)
                return;
        fputs("      <property", f);
        attribute(f, "name", name);
        attribute(f, "value", value);
        fputs("/>\n", f);
}

static void properties(FILE *f, const struct run *run)
{
        char line[REPORT_LINE];

        fputs("    <properties>\n", f);
        property(f, "target", run->target);
        property(f, "abilities", run->abilities);
        property(f, "error", run->error);
        for (size_t i = 0; i < run->cause_count; i++) {
                cause_says(run, &run->causes[i], line, sizeof(line));
                property(f, "cause", line);
        }
        fputs("    </properties>\n", f);
}

/* In place of the cases of a run that came to none. */
static void no_case(FILE *f, const char *error)
{
        fputs("    <testcase classname=\"run\" name=\"run\" time=\"0\">\n      <error", f);
        attribute(f, "message", error);
        fputs("/>\n    </testcase>\n", f);
}

int report_junit(const struct run *run, const char *path)
{
        struct report_file file = report_open(path);
        FILE *f = file.f;
        unsigned failures = run->verdicts[VERDICT_FAIL] + (run->lax ? 0 : run->fixed);
        unsigned skips = run->verdicts[VERDICT_SKIP] + run->known;
        bool empty = run->count == 0 && run->error[0];

        if (!f)
                return -1;
        fprintf(f,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
                "  <testsuite name=\"nvmfspec conform\" tests=\"%zu\" failures=\"%u\" "
                "errors=\"%u\" skipped=\"%u\" time=\"%.3f\" timestamp=\"%.19s\">\n",
                run->count + empty, failures, run->verdicts[VERDICT_ERROR], skips, run->seconds,
                run->started);
        properties(f, run);
        if (empty)
                no_case(f, run->error);
        for (size_t i = 0; i < run->count; i++)
                testcase(f, run, &run->results[i]);
        fputs("  </testsuite>\n</testsuites>\n", f);
        return report_close(&file);
}
