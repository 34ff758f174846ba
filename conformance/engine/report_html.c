/* SPDX-License-Identifier: BSD-3-Clause */
/* One page that needs nothing from elsewhere. */
#include <string.h>

#include "cause.h"
#include "escape.h"
#include "report.h"
#include "select.h"
#include "spec.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>nvmfspec conform</title>\n<style>\n"
    ":root{color-scheme:light dark;--line:#8884;--dim:#888}\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:1.8rem 0 .4rem}\n"
    "p.sub{color:var(--dim);margin:.2rem 0}\n"
    ".sums{display:flex;flex-wrap:wrap;gap:.6rem;margin:1rem 0}\n"
    ".sums span{border:1px solid var(--line);border-radius:.5rem;padding:.35rem .8rem}\n"
    ".sums b{font-size:1.2rem;margin-right:.35rem}\n"
    "table{border-collapse:collapse;width:100%}\n"
    "td{border-top:1px solid var(--line);padding:.3rem .6rem .3rem 0;vertical-align:top}\n"
    "td.v{width:5rem;font-weight:600}td.n{width:17rem}td.l,td.t{width:4rem;color:var(--dim)}\n"
    "td.t{text-align:right;white-space:nowrap}\n"
    ".pass,.covered{color:#1a7f37}.lenient,.open{color:#9a6700}.fail{color:#cf222e}.error{color:#"
    "8250df}\n"
    ".skip,.known,.not,.free,.unseen{color:var(--dim)}.info,.advice{color:#0969da}.fixed{color:#"
    "cf222e}\n"
    "code,pre{font:13px/1.4 ui-monospace,monospace}\n"
    "p.cause{border-left:.3rem solid #cf222e;padding-left:.6rem}\n"
    "pre{overflow:auto;border:1px solid var(--line);border-radius:.4rem;padding:.6rem}\n"
    "details>summary{cursor:pointer}dl{display:grid;grid-template-columns:6rem 1fr;gap:.2rem "
    "1rem;margin:.5rem 0}\ndt{color:var(--dim)}dd{margin:0}\n"
    "</style></head><body>\n";
static const char tail[] = "</body></html>\n";

static void text(FILE *f, const char *before, const char *s, const char *after)
{
        fputs(before, f);
        escape_markup(f, s);
        fputs(after, f);
}

static const char *class_of(const struct result *r)
{
        if (r->known != KNOWN_NOT)
                return r->known == KNOWN_LISTED ? "known" : "fixed";
        return r->verdict == VERDICT_NONE ? "not" : verdict_name(r->verdict);
}

/* --- head ---------------------------------------------------------------------------------- */

static void sum(FILE *f, unsigned n, const char *class, const char *what)
{
        if (n > 0)
                fprintf(f, "<span class=\"%s\"><b>%u</b>%s</span>", class, n, what);
}

static void summary(FILE *f, const struct run *run)
{
        const unsigned *v = run->verdicts;

        text(f, "<h1>nvmfspec conform</h1>\n<p class=\"sub\">", run->target, "</p>\n");
        text(f, "<p class=\"sub\">", run->abilities, "</p>\n");
        fprintf(f, "<p class=\"sub\">%s, %.1f s%s</p>\n<div class=\"sums\">", run->started,
                run->seconds, run->strict ? ", strict" : "");
        sum(f, v[VERDICT_PASS], "pass", "passed");
        sum(f, v[VERDICT_LENIENT], "lenient", "lenient");
        sum(f, v[VERDICT_FAIL], "fail", "failed");
        sum(f, v[VERDICT_ERROR], "error", "broken");
        sum(f, run->known, "known", "known failures");
        sum(f, run->fixed, "fixed", "fixed");
        sum(f, v[VERDICT_ADVICE], "advice", "advice");
        sum(f, v[VERDICT_INFO], "info", "informational");
        sum(f, v[VERDICT_SKIP], "skip", "skipped");
        fprintf(f, "<span><b>%u/%u</b>rules covered</span></div>\n", rules_count(&run->covered),
                rules_total(run->family->family));
}

/* Why it ended early, and what explains many failures. */
static void causes(FILE *f, const struct run *run)
{
        char line[REPORT_LINE];

        if (run->error[0])
                text(f, "<p class=\"error\">", run->error, "</p>\n");
        for (size_t i = 0; i < run->cause_count; i++) {
                cause_says(run, &run->causes[i], line, sizeof(line));
                text(f, "<p class=\"cause\">", line, "</p>\n");
        }
}

/* --- cases --------------------------------------------------------------------------------- */

static void row(FILE *f, const char *name, const char *value)
{
        if (!value || !*value)
                return;
        fprintf(f, "<dt>%s</dt><dd>", name);
        escape_markup(f, value);
        fputs("</dd>", f);
}

static void exchange(FILE *f, const struct result *r)
{
        char line[EXCHANGE_LINE + 64];

        if (r->exchange_count == 0)
                return;
        fputs("<pre>", f);
        for (unsigned i = 0; i < r->exchange_count; i++) {
                exchange_format(&r->exchange[i], r->exchange_start, line, sizeof(line));
                text(f, "", line, "\n");
        }
        fputs("</pre>", f);
}

static void details(FILE *f, const struct run *run, const struct result *r)
{
        const struct rulebook *book = run->family->family->rules;
        char rule[REPORT_LINE];

        report_rule(run, r, rule, sizeof(rule));
        fputs("<dl>", f);
        row(f, "cause", r->cause ? book->rows[r->cause].id : NULL);
        row(f, "expected", r->expected);
        row(f, "seen", r->seen);
        row(f, "note", r->note);
        row(f, "rule", rule);
        row(f, "says", rule[0] ? rulebook_get(book, r->rule)->says : NULL);
        row(f, "related", result_related(r));
        row(f, "baseline", r->reason);
        row(f, "files", r->transcript);
        fputs("</dl>", f);
        exchange(f, r);
}

static bool has_details(const struct result *r)
{
        return r->seen[0] || r->note[0] || r->exchange_count > 0;
}

static void case_row(FILE *f, const struct run *run, const struct result *r)
{
        const char *says = r->test ? r->test->says : r->expected;
        bool open = result_fails(r) || r->known == KNOWN_FIXED;

        fprintf(f, "<tr id=\"%s\"><td class=\"v %s\">%s</td><td class=\"n\"><code>%s</code></td>",
                r->id, class_of(r), class_of(r), r->test ? id_name(r->id) : r->id + 8);
        fprintf(f, "<td class=\"l\">%s</td><td>", level_name(r->level));
        if (has_details(r)) {
                fprintf(f, "<details%s><summary>", open ? " open" : "");
                escape_markup(f, says);
                fputs("</summary>", f);
                details(f, run, r);
                fputs("</details>", f);
        } else {
                escape_markup(f, says);
        }
        fprintf(f, "</td><td class=\"t\">%.1f ms</td></tr>\n", r->ms);
}

static void cases(FILE *f, const struct run *run)
{
        const char *section = "";
        size_t len = 0;

        for (size_t i = 0; i < run->count; i++) {
                const struct result *r = &run->results[i];
                const char *id = r->test ? r->id : "noticed/";

                if (id_section(id) != len || strncmp(id, section, len) != 0) {
                        fputs(len > 0 ? "</table>\n" : "", f);
                        section = id;
                        len = id_section(id);
                        fprintf(f, "<h2>%.*s &ensp;%s</h2>\n<table>\n", (int)len, section,
                                section_title(run->family->family, section, len));
                }
                case_row(f, run, r);
        }
        fputs(run->count > 0 ? "</table>\n" : "", f);
}

/* --- rules --------------------------------------------------------------------------------- */

static void rules(FILE *f, const struct run *run)
{
        const struct rulebook *book = run->family->family->rules;

        fprintf(f, "<h2>Rules</h2>\n<details><summary>%u of %u covered</summary>\n<table>\n",
                rules_count(&run->covered), rules_total(run->family->family));
        for (unsigned r = 1; r < book->count; r++) {
                bool covered = rule_in(&run->covered, r);

                fprintf(f, "<tr><td class=\"v %s\">%s</td><td class=\"n\"><code>%s</code></td><td>",
                        covered ? "pass" : "not", covered ? "covered" : "-", book->rows[r].id);
                escape_markup(f, book->rows[r].says);
                text(f, "</td><td class=\"l\">", party_name(book->rows[r].bound), "</td></tr>\n");
        }
        fputs("</table>\n</details>\n", f);
}

/* --- the specification --------------------------------------------------------------------- */

/* Covered: a rule of it was, in this run. */
static const char *state_of(const struct spec_row *row, const struct rule_set *covered)
{
        static const char *const names[] = { "judged", "open", "free", "unseen" };

        for (const unsigned *r = row->rules; covered && *r != RULE_NONE; r++)
                if (rule_in(covered, *r))
                        return "covered";
        return names[spec_state(row)];
}

static void requirement(FILE *f, const struct spec *s, const struct spec_row *row,
                        const struct rule_set *covered)
{
        const struct rulebook *book = s->family->family->rules;
        const char *state = state_of(row, covered);

        fprintf(f, "<tr><td class=\"v %s\">%s</td><td class=\"n\"><code>%s</code></td>", state,
                state, row->key);
        fprintf(f, "<td class=\"l\">%s<br>%s</td><td>", row->party, row->level);
        escape_markup(f, row->gist);
        if (spec_state(row) == SPEC_UNSEEN)
                text(f, "<br><i>", row->shows + 4, "</i>");
        for (const unsigned *r = row->rules; *r != RULE_NONE; r++)
                text(f, "<br><code>", book->rows[*r].id, "</code>");
        fputs("</td></tr>\n", f);
}

static void way(FILE *f, const unsigned n[2])
{
        if (n[1] > 0)
                fprintf(f, "<td>%u of %u, %.0f %%</td>", n[0], n[1], 100.0 * n[0] / n[1]);
        else
                fputs("<td></td>", f);
}

static void figures(FILE *f, const char *name, size_t len, struct spec_figures n)
{
        fprintf(f, "<tr><td>%.*s</td><td>%u</td>", (int)len, name, n.rows);
        way(f, n.targets);
        way(f, n.hosts);
        way(f, n.captures);
        fprintf(f, "<td>%u</td></tr>\n", n.unseen);
}

static bool opens(const struct spec *s, size_t i, unsigned len)
{
        return i == 0 || strncmp(s->rows[i].key, s->rows[i - 1].key, len + 1) != 0;
}

/* What it demands, section by section, and what judges it; covered: by this run, or NULL. */
static void specification(FILE *f, const struct spec *s, const struct rule_set *covered)
{
        fputs("<h2>Specification</h2>\n<table><tr><td>document</td><td>requirements</td><td>judged "
              "of "
              "targets</td><td>of hosts</td><td>in captures</td><td>can't be judged</td></tr>\n",
              f);
        for (size_t i = 0; i < s->count; i++)
                if (opens(s, i, s->rows[i].document))
                        figures(f, s->rows[i].key, s->rows[i].document,
                                spec_count(s, s->rows[i].key, s->rows[i].document));
        figures(f, "all", 3, spec_count(s, "", 0));
        fputs("</table>\n", f);
        for (size_t i = 0; i < s->count; i++) {
                const struct spec_row *row = &s->rows[i];

                if (opens(s, i, row->section))
                        fprintf(f, "%s<details><summary>%.*s</summary><table>\n",
                                i > 0 ? "</table></details>\n" : "", (int)row->section, row->key);
                requirement(f, s, row, covered);
        }
        fputs(s->count > 0 ? "</table></details>\n" : "", f);
}

int report_spec_html(const struct spec *s, const char *path)
{
        struct report_file file = report_open(path);

        if (!file.f)
                return -1;
        fputs(head, file.f);
        specification(file.f, s, NULL);
        fputs(tail, file.f);
        return report_close(&file);
}

int report_html(const struct run *run, const char *path)
{
        struct report_file file = report_open(path);
        FILE *f = file.f;
        struct spec s;
        char error[256];

        if (!f)
                return -1;
        fputs(head, f);
        summary(f, run);
        causes(f, run);
        cases(f, run);
        rules(f, run);
        if (spec_read(&s, run->family, error, sizeof(error))) {
                specification(f, &s, &run->covered);
                spec_free(&s);
        } else {
                text(f, "<p class=\"error\">", error, "</p>\n");
        }
        fputs(tail, f);
        return report_close(&file);
}
