/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cause.h"
#include "report.h"
#include "select.h"

static unsigned width_of(FILE *out)
{
        struct winsize w;

        if (ioctl(fileno(out), TIOCGWINSZ, &w) != 0 || w.ws_col < 60)
                return 0;
        return w.ws_col;
}

struct report_text report_text(const struct family *f, FILE *out, bool brief)
{
        bool tty = isatty(fileno(out));

        return (struct report_text) { .family = f,
                                      .out = out,
                                      .colour = tty && !getenv("NO_COLOR"),
                                      .brief = brief,
                                      .width = tty ? width_of(out) : 0 };
}

/* --- one case ------------------------------------------------------------------------------ */

static const char *colour(const struct report_text *r, enum verdict v)
{
        static const char *const colours[VERDICTS] = {
                [VERDICT_PASS] = "\033[32m",    [VERDICT_ADVICE] = "\033[34m",
                [VERDICT_LENIENT] = "\033[33m", [VERDICT_INFO] = "\033[36m",
                [VERDICT_SKIP] = "\033[2m",     [VERDICT_FAIL] = "\033[1;31m",
                [VERDICT_ERROR] = "\033[1;35m",
        };

        return r->colour && colours[v] ? colours[v] : "";
}

static const char *plain(const struct report_text *r)
{
        return r->colour ? "\033[0m" : "";
}

static const char *word(const struct result *r)
{
        if (r->known == KNOWN_LISTED)
                return "known";
        if (r->known == KNOWN_FIXED)
                return "fixed";
        return verdict_name(r->verdict);
}

static void section(struct report_text *r, const char *id)
{
        int len = (int)id_section(id);

        if (strlen(r->section) == (size_t)len && strncmp(r->section, id, (size_t)len) == 0)
                return;
        snprintf(r->section, sizeof(r->section), "%.*s", len, id);
        fprintf(r->out, "\n%s  %s\n", r->section,
                section_title(r->family, r->section, (size_t)len));
}

/* Cut to the terminal's width: column characters are gone already. */
static void sentence(const struct report_text *r, int column, const char *text)
{
        int room = r->width > 0 ? (int)r->width - column - 1 : 10000;

        if ((int)strlen(text) <= room)
                fprintf(r->out, "%s\n", text);
        else
                fprintf(r->out, "%.*s...\n", room > 3 ? room - 3 : 0, text);
}

/* What is worth a second line. */
static const char *remark(const struct result *r)
{
        return r->seen[0] && r->verdict != VERDICT_SKIP ? r->seen : r->note;
}

void report_text_case(struct report_text *r, const struct result *c)
{
        if (r->brief && c->verdict == VERDICT_PASS && c->known == KNOWN_NOT)
                return;
        section(r, c->test ? c->id : "noticed/");
        fprintf(r->out, "  %s%-7s%s  %-28s  ", colour(r, c->verdict), word(c), plain(r),
                c->test ? id_name(c->id) : c->id + strlen("noticed/"));
        sentence(r, 41, c->test ? c->test->says : c->expected);
        if (remark(c)[0]) {
                fprintf(r->out, "%41s", "");
                sentence(r, 41, remark(c));
        }
        fflush(r->out);
}

/* --- a failure, in full -------------------------------------------------------------------- */

static void print_exchange(FILE *out, const struct result *r)
{
        char line[EXCHANGE_LINE + 64];

        if (r->exchange_dropped > 0)
                fprintf(out, "            (%u earlier lines)\n", r->exchange_dropped);
        for (unsigned i = 0; i < r->exchange_count; i++) {
                exchange_format(&r->exchange[i], r->exchange_start, line, sizeof(line));
                fprintf(out, "  %s\n", line);
        }
}

static void print_failure(const struct report_text *r, const struct run *run,
                          const struct result *c)
{
        char rule[REPORT_LINE];

        report_rule(run, c, rule, sizeof(rule));
        fprintf(r->out, "\n%s%s%s  %s\n", colour(r, c->verdict), verdict_name(c->verdict), plain(r),
                c->id);
        if (c->test)
                fprintf(r->out, "  %s\n", c->test->says);
        if (c->cause != RULE_NONE && c->cause != c->rule)
                fprintf(r->out, "  cause     %s\n", r->family->rules->rows[c->cause].id);
        if (c->expected[0])
                fprintf(r->out, "  expected  %s\n", c->expected);
        fprintf(r->out, "  seen      %s\n", c->seen);
        if (rule[0])
                fprintf(r->out, "  rule      %s\n            %s\n", rule,
                        rulebook_get(r->family->rules, c->rule)->says);
        if (c->note[0])
                fprintf(r->out, "  note      %s\n", c->note);
        if (result_related(c))
                fprintf(r->out, "  related   %s\n", result_related(c));
        print_exchange(r->out, c);
        if (c->transcript[0])
                fprintf(r->out, "  files     %s.txt .pcap\n", c->transcript);
}

/* What is only about itself is said with the failure. */
static void print_causes(const struct report_text *r, const struct run *run)
{
        char line[REPORT_LINE];

        for (size_t i = 0; i < run->cause_count; i++) {
                const struct cause *c = &run->causes[i];

                if (c->failures == 1 && c->first->rule == c->rule)
                        continue;
                cause_says(run, c, line, sizeof(line));
                fprintf(r->out, "\n%scause%s  %s\n", colour(r, VERDICT_FAIL), plain(r), line);
        }
}

static void print_fixed(FILE *out, const struct run *run)
{
        for (size_t i = 0; i < run->count; i++)
                if (run->results[i].known == KNOWN_FIXED)
                        fprintf(out, "\nfixed  %s is in the baseline, but it does not fail\n",
                                run->results[i].id);
}

/* --- the summary --------------------------------------------------------------------------- */

static void count(FILE *out, unsigned n, const char *what)
{
        if (n > 0)
                fprintf(out, ", %u %s", n, what);
}

static void print_summary(const struct report_text *r, const struct run *run)
{
        const unsigned *v = run->verdicts;
        int code = run_exit(run);

        fprintf(r->out, "\n%s%s%s  %u passed", colour(r, code ? VERDICT_FAIL : VERDICT_PASS),
                code == 0    ? "PASS"
                : code == 77 ? "SKIPPED"
                : code == 1  ? "FAIL"
                             : "BROKEN",
                plain(r), v[VERDICT_PASS]);
        count(r->out, v[VERDICT_LENIENT], run->strict ? "lenient" : "lenient (fail with --strict)");
        count(r->out, v[VERDICT_FAIL], "failed");
        count(r->out, v[VERDICT_ERROR], "broken");
        count(r->out, run->known, "known failures");
        count(r->out, run->fixed, "fixed, to be removed from the baseline");
        count(r->out, v[VERDICT_ADVICE], "advice");
        count(r->out, v[VERDICT_INFO], "informational");
        count(r->out, v[VERDICT_SKIP], "skipped");
        fprintf(r->out, "\n      %u of %u rules covered, %.1f s\n", rules_count(&run->covered),
                rules_total(run->family->family), run->seconds);
}

void report_text_end(struct report_text *r, const struct run *run)
{
        for (size_t i = 0; i < run->count; i++)
                if (!run->results[i].test)
                        report_text_case(r, &run->results[i]);
        print_causes(r, run);
        for (size_t i = 0; i < run->count; i++)
                if (result_fails(&run->results[i]) ||
                    (run->results[i].verdict == VERDICT_ERROR && !run->dead))
                        print_failure(r, run, &run->results[i]);
        print_fixed(r->out, run);
        print_summary(r, run);
}

void report_text_rules(FILE *out, const struct run *run)
{
        const struct rulebook *book = run->family->family->rules;

        fprintf(out, "\nrules covered: %u of %u\n", rules_count(&run->covered),
                rules_total(run->family->family));
        for (unsigned r = 1; r < book->count; r++)
                fprintf(out, "  %-7s  %-34s %s\n", rule_in(&run->covered, r) ? "covered" : "-",
                        book->rows[r].id, book->rows[r].says);
}
