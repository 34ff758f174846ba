/* SPDX-License-Identifier: BSD-3-Clause */
#include "cause.h"
#include "escape.h"
#include "report.h"

static void directive(FILE *f, const struct result *r)
{
        if (r->known == KNOWN_LISTED) {
                fputs(" # TODO ", f);
                escape_tap(f, r->reason && *r->reason ? r->reason : "known failure");
        } else if (r->verdict == VERDICT_SKIP) {
                fputs(" # SKIP ", f);
                escape_tap(f, r->note);
        }
}

static void diagnostic(FILE *f, const char *name, const char *text)
{
        if (!*text)
                return;
        fprintf(f, "# %s: ", name);
        escape_tap(f, text);
        fputc('\n', f);
}

static bool is_ok(const struct result *r, bool lax)
{
        return r->verdict != VERDICT_FAIL && r->verdict != VERDICT_ERROR &&
               r->verdict != VERDICT_NONE && (lax || r->known != KNOWN_FIXED);
}

int report_tap(const struct run *run, const char *path)
{
        const struct rulebook *book = run->family->family->rules;
        struct report_file file = report_open(path);
        FILE *f = file.f;
        char line[REPORT_LINE];

        if (!f)
                return -1;
        fprintf(f, "TAP version 13\n");
        if (run->error[0] && run->count == 0) {
                fputs("Bail out! ", f);
                escape_tap(f, run->error);
                fputc('\n', f);
                return report_close(&file);
        }
        fprintf(f, "1..%zu\n", run->count);
        diagnostic(f, "error", run->error);
        for (size_t i = 0; i < run->cause_count; i++) {
                cause_says(run, &run->causes[i], line, sizeof(line));
                diagnostic(f, "cause", line);
        }
        for (size_t i = 0; i < run->count; i++) {
                const struct result *r = &run->results[i];

                fprintf(f, "%s %zu - %s", is_ok(r, run->lax) ? "ok" : "not ok", i + 1, r->id);
                directive(f, r);
                fputc('\n', f);
                if (r->verdict == VERDICT_PASS || r->verdict == VERDICT_SKIP)
                        continue;
                diagnostic(f, "verdict", verdict_name(r->verdict));
                diagnostic(f, "expected", r->expected);
                diagnostic(f, "seen", r->seen);
                report_rule(run, r, line, sizeof(line));
                diagnostic(f, "rule", line);
                diagnostic(f, "says", line[0] ? rulebook_get(book, r->rule)->says : "");
                diagnostic(f, "cause", r->cause ? book->rows[r->cause].id : "");
                diagnostic(f, "note", r->note);
        }
        return report_close(&file);
}
