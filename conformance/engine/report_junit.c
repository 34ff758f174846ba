/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "escape.h"
#include "report.h"
#include "select.h"

static void attribute(FILE *f, const char *name, const char *value)
{
        fprintf(f, " %s=\"", name);
        escape_markup(f, value);
        fputc('"', f);
}

/* All that is known, as the text of <failure> and the like. */
static void body(FILE *f, const struct rule *rule, const struct result *r)
{
        char line[EXCHANGE_LINE + 64];

        fputs("expected: ", f);
        escape_markup(f, r->expected);
        fputs("\nseen: ", f);
        escape_markup(f, r->seen);
        if (rule) {
                fprintf(f, "\nrule: %s (%s)\n", rule->id, rule->source);
                escape_markup(f, rule->says);
        }
        fputc('\n', f);
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
        body(f, rulebook_get(run->family->family->rules, r->rule), r);
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
                element(f, "failure", "is in the baseline, but it passes", run, r);
        else if (r->verdict == VERDICT_FAIL)
                element(f, "failure", r->seen, run, r);
        else if (r->verdict == VERDICT_ERROR)
                element(f, "error", r->seen, run, r);
        else if (r->verdict == VERDICT_SKIP)
                skipped(f, r->note);
}

static void system_out(FILE *f, const struct result *r)
{
        if (r->verdict != VERDICT_LENIENT && r->verdict != VERDICT_INFO)
                return;
        fprintf(f, "      <system-out>%s: ", verdict_name(r->verdict));
        escape_markup(f, r->seen[0] ? r->seen : r->note);
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
        system_out(f, r);
        fputs("    </testcase>\n", f);
}

int report_junit(const struct run *run, const char *path)
{
        FILE *f = report_open(path);
        unsigned failures = run->verdicts[VERDICT_FAIL] + (run->lax ? 0 : run->fixed);
        unsigned skips = run->verdicts[VERDICT_SKIP] + run->known;

        if (!f)
                return -1;
        fprintf(f,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
                "  <testsuite name=\"nvmfspec conform\" tests=\"%zu\" failures=\"%u\" "
                "errors=\"%u\" skipped=\"%u\" time=\"%.3f\" timestamp=\"%.19s\">\n",
                run->count, failures, run->verdicts[VERDICT_ERROR], skips, run->seconds,
                run->started);
        fputs("    <properties>\n      <property name=\"target\"", f);
        attribute(f, "value", run->target);
        fputs("/>\n    </properties>\n", f);
        for (size_t i = 0; i < run->count; i++)
                testcase(f, run, &run->results[i]);
        fputs("  </testsuite>\n</testsuites>\n", f);
        return report_close(f);
}
