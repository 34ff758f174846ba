/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "baseline.h"
#include "family.h"
#include "leaving.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/loop.h"
#include "pdu/io/output.h"
#include "pdu/io/shell.h"
#include "power.h"
#include "report.h"
#include "runner.h"
#include "show.h"
#include "spec.h"

enum { EXIT_USAGE = 2, EXIT_BROKEN = 3, AWAIT_MS = 100, LEAVE_MS = 5000 };

static int complain(int code, const char *what)
{
        fprintf(stderr, "nvmfspec conform: %s\n", what);
        return code;
}

/* --- what is tested ------------------------------------------------------------------------ */

static void note_start(struct run *run)
{
        time_t now = (time_t)(loop_wall_ns() / 1000000000);
        struct tm tm;

        gmtime_r(&now, &tm);
        strftime(run->started, sizeof(run->started), "%Y-%m-%dT%H:%M:%SZ", &tm);
}

/* --- reports ------------------------------------------------------------------------------- */

static bool is_stdout(const char *path)
{
        return path && strcmp(path, "-") == 0;
}

/* Before anything is run: the first place where no report can be written, with errno; or NULL. */
static const char *closed_to_us(const struct options *o)
{
        const char *const files[] = { o->json, o->junit, o->tap, o->html };

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                if (files[i] && !is_stdout(files[i]) && !output_file(files[i]))
                        return files[i];
        return !o->suite.transcripts || output_folder(o->suite.transcripts) ? NULL
                                                                            : o->suite.transcripts;
}

/* What an earlier run has left there is not this one's, however this one ends. */
static void remove_old_reports(const struct options *o)
{
        const char *const files[] = { o->json, o->junit, o->tap, o->html };
        struct stat st;

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                if (files[i] && !is_stdout(files[i]) && lstat(files[i], &st) == 0 &&
                    S_ISREG(st.st_mode))
                        unlink(files[i]);
}

static int write_reports(const struct options *o, const struct run *run)
{
        const struct {
                const char *path;
                int (*write)(const struct run *run, const char *path);
        } reports[] = {
                { o->json, report_json },
                { o->junit, report_junit },
                { o->tap, report_tap },
                { o->html, report_html },
        };
        int code = 0;

        for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
                if (!reports[i].path || reports[i].write(run, reports[i].path) == 0)
                        continue;
                fprintf(stderr, "nvmfspec conform: %s: %s\n", reports[i].path, strerror(errno));
                code = EXIT_BROKEN;
        }
        return code;
}

/* A report that goes to stdout has it for itself. */
static FILE *text_out(const struct options *o)
{
        return is_stdout(o->json) || is_stdout(o->junit) || is_stdout(o->tap) ||
                       is_stdout(o->html) || is_stdout(o->pcap)
                   ? stderr
                   : stdout;
}

static void ended(void *arg, const struct result *r)
{
        report_text_case(arg, r);
}

static int stop_recording(struct suite *s, const char *path)
{
        struct capture_writer *w = s->record;

        if (s->family->record)
                s->family->record(s, false);
        s->record = NULL;
        if (!w || capture_writer_close(w) == 0)
                return 0;
        fprintf(stderr, "nvmfspec conform: %s: %s\n", path, strerror(errno));
        return EXIT_BROKEN;
}

static bool start_recording(struct suite *s, const char *path, char *error, size_t size)
{
        snprintf(error, size, "out of memory");
        s->record = capture_writer_open(path, error, size);
        if (s->record && (!s->family->record || s->family->record(s, true))) {
                *error = '\0';
                return true;
        }
        (void)stop_recording(s, path);
        return false;
}

/* --- the run ------------------------------------------------------------------------------- */

static _Atomic bool interrupted;

static void on_signal(int number)
{
        (void)number;
        interrupted = true;
        shell_stop();
}

/* The first one ends the run in an orderly way, with all reports; the second one at once. */
static void catch_signals(void)
{
        static const int numbers[] = { SIGINT, SIGTERM };
        const struct sigaction act = { .sa_handler = on_signal,
                                       .sa_flags = (int)SA_RESETHAND | SA_RESTART };
        struct sigaction before;

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
                if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
                        sigaction(numbers[i], &act, NULL);
}

static struct run new_run(const struct options *o)
{
        struct run run = { .family = o->suite.family,
                           .role = o->selection.role,
                           .strict = o->suite.strict,
                           .lax = o->baseline_lax };

        note_start(&run);
        return run;
}

static void describe(const struct suite *s, struct run *run)
{
        if (s->family->describe)
                s->family->describe(s, run);
        else
                snprintf(run->target, sizeof(run->target), "%s:%s  %s", s->traddr, s->trsvcid,
                         s->family->family->name);
}

/* A run that came to no case has its reports all the same. s: who is tested; NULL: that is not known. */
static int end_early(const struct options *o, const struct suite *s, int code, const char *error)
{
        struct run run = new_run(o);

        if (s)
                describe(s, &run);
        run.abilities[0] = '\0';
        run.verdicts[VERDICT_ERROR] = 1;
        snprintf(run.error, sizeof(run.error), "%s", error);
        complain(code, error);
        write_reports(o, &run);
        return code;
}

static int run_cases(const struct options *o, struct suite *suite, const struct test_case **cases,
                     size_t n, const struct probed *probed, const struct baseline *known)
{
        struct report_text text = report_text(suite->family->family, text_out(o), o->brief);
        struct run run = new_run(o);
        struct runner runner = {
                .suite = suite,
                .cases = cases,
                .count = n,
                .probed = probed,
                .jobs = (unsigned)o->jobs,
                .repeat = (unsigned)o->repeat,
                .stop = &interrupted,
                .ended = ended,
                .arg = &text,
        };
        bool ran;
        int code;

        if (o->pcap && !start_recording(suite, o->pcap, run.error, sizeof(run.error)))
                return end_early(o, suite, EXIT_BROKEN, run.error);
        describe(suite, &run);
        fprintf(text.out, "%s\n%s\n", run.target, run.abilities);
        fflush(text.out);
        if (known->count > 0) /* verdicts are known at the end only */
                runner.ended = NULL;
        suite->leaving = leaving_new((unsigned)(LEAVE_MS * suite->timeout_scale));
        ran = runner_run(&runner, &run);
        suite->leaving = NULL;
        if (!ran)
                return end_early(o, suite, EXIT_BROKEN, "out of memory");
        baseline_apply(known, &run);
        run_sum(&run);
        if (run.dead)
                snprintf(run.error, sizeof(run.error), "%s",
                         interrupted ? "interrupted before all cases were run"
                                     : "the system under test stopped answering");
        for (size_t i = 0; !runner.ended && i < run.count; i++)
                if (run.results[i].test)
                        report_text_case(&text, &run.results[i]);
        if (o->show_rules)
                report_text_rules(text.out, &run);
        report_text_end(&text, &run);
        if (run.dead && interrupted)
                complain(EXIT_BROKEN, run.error);
        code = run_exit(&run);
        if (write_reports(o, &run) + stop_recording(suite, o->pcap) != 0 && code == 0)
                code = EXIT_BROKEN;
        free(run.results);
        return code;
}

static bool read_baselines(const struct options *o, struct baseline *b, char *error, size_t size)
{
        for (size_t i = 0; i < o->baselines.count; i++) {
                const char *path = o->baselines.items[i];
                size_t from = b->count;
                const struct baseline_entry *stray;

                if (baseline_read(b, path, error, size) != 0)
                        return false;
                stray = baseline_stray(b, from, o->suite.family, o->suite.role);
                if (!stray)
                        continue;
                snprintf(error, size, "%s:%d: no case or rule is called '%s' (--list shows them)",
                         path, stray->line, stray->id);
                baseline_free(b);
                return false;
        }
        return true;
}

/* Until who is tested answers, as --wait says: CI starts it a moment before. */
static void await_answer(const struct options *o, const struct suite *suite)
{
        uint64_t end = now_ms() + o->wait * 1000;
        char error[1024];

        while (now_ms() < end && !interrupted) {
                struct suite s = *suite;
                struct probed probed;

                s.transcripts = NULL;
                if (s.family->probe(&s, &probed, error, sizeof(error)))
                        return;
                loop_sleep_us(AWAIT_MS * 1000);
        }
}

static int judge_started(const struct options *o, struct suite *suite,
                         const struct test_case **cases, size_t n)
{
        struct baseline known = { 0 };
        struct probed probed = { .count = 0 };
        char error[1024];
        int code;

        if (!read_baselines(o, &known, error, sizeof(error)))
                return end_early(o, suite, EXIT_USAGE, error);
        await_answer(o, suite);
        if (suite->family->probe(suite, &probed, error, sizeof(error)))
                code = run_cases(o, suite, cases, n, &probed, &known);
        else
                code = end_early(o, suite, EXIT_BROKEN, error);
        baseline_free(&known);
        return code;
}

static int judge(const struct options *o, const struct test_case **cases, size_t n)
{
        const struct conform_family *f = o->suite.family;
        struct suite suite = o->suite;
        char error[1024];
        void *started;
        int code;

        remove_old_reports(o);
        catch_signals();
        started = f->start(o, &o->policy, &suite, error, sizeof(error));
        if (!started)
                return end_early(o, NULL, EXIT_BROKEN, error);
        code = judge_started(o, &suite, cases, n);
        f->stop(started);
        return code;
}

void *must_have(void *memory)
{
        if (memory)
                return memory;
        complain(EXIT_BROKEN, "out of memory");
        fflush(NULL);
        _exit(EXIT_BROKEN);
}

static int list_cases(const struct options *o, const struct test_case **cases, size_t n)
{
        if (!o->json) {
                show_list(stdout, o->suite.family->family, cases, n);
                return 0;
        }
        if (report_list_json(o->suite.family->family, cases, n, o->json) == 0)
                return 0;
        fprintf(stderr, "nvmfspec conform: %s: %s\n", o->json, strerror(errno));
        return EXIT_BROKEN;
}

static int with_cases(const struct options *o)
{
        struct selection selection = o->selection;
        char error[256];
        const char *closed;
        const struct test_case **cases;
        size_t n;
        int code = 0;

        if (o->action == ACT_POWER && power_is_of_flaws(o))
                selection.id_count = 0;
        cases = cases_select(&selection, &n, error, sizeof(error));

        if (!cases)
                return complain(EXIT_USAGE, error);
        closed = o->action == ACT_RUN ? closed_to_us(o) : NULL;
        if (closed) {
                fprintf(stderr, "nvmfspec conform: %s: %s\n", closed, strerror(errno));
                free(cases);
                return EXIT_BROKEN;
        }
        if (o->action == ACT_LIST)
                code = list_cases(o, cases, n);
        else if (o->action == ACT_POWER)
                code = power_run(o, cases, n);
        else
                code = judge(o, cases, n);
        free(cases);
        return code;
}

static int list_rules(const struct options *o)
{
        const struct conform_family *f = o->suite.family;

        if (o->count)
                show_count(stdout, f);
        else if (!o->json)
                show_rules(stdout, f, o->selection.role);
        if (!o->json || report_rules_json(f, o->json) == 0)
                return 0;
        fprintf(stderr, "nvmfspec conform: %s: %s\n", o->json, strerror(errno));
        return EXIT_BROKEN;
}

static int list_spec(const struct options *o)
{
        const struct {
                const char *path;
                int (*write)(const struct spec *s, const char *path);
        } reports[] = { { o->json, report_spec_json }, { o->html, report_spec_html } };
        struct spec s;
        char error[512];
        int code = 0;

        if (!spec_read(&s, o->suite.family, error, sizeof(error)))
                return complain(EXIT_BROKEN, error);
        if (o->count || (!o->json && !o->html))
                spec_print(stdout, &s, o->count);
        for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
                if (!reports[i].path || reports[i].write(&s, reports[i].path) == 0)
                        continue;
                fprintf(stderr, "nvmfspec conform: %s: %s\n", reports[i].path, strerror(errno));
                code = EXIT_BROKEN;
        }
        spec_free(&s);
        return code;
}

static int act(struct options *o)
{
        const struct conform_family *f = o->suite.family;

        switch (o->action) {
        case ACT_HELP:
                options_usage(o, stdout);
                return 0;
        case ACT_RULES:
                return list_rules(o);
        case ACT_SPEC:
                return list_spec(o);
        case ACT_EXPLAIN:
                if (show_explain(stdout, f, o->selection.role, o->explain))
                        return 0;
                fprintf(stderr, "nvmfspec conform: no case or rule is called '%s'\n", o->explain);
                return EXIT_USAGE;
        case ACT_LIST:
        case ACT_POWER:
        case ACT_RUN:
                break;
        }
        return with_cases(o);
}

int conform_command(const struct conform_family *const *families, int argc, char **argv)
{
        const struct conform_family *f = option_family((const void *const *)families, argc, argv);
        struct options *o;
        int code;

        o = calloc(1, f->args_size);
        if (!o)
                return complain(EXIT_BROKEN, "out of memory");
        code = options_parse(families, f, o, argc, argv);
        if (code == 0) {
                signal(SIGPIPE, SIG_IGN);
                code = act(o);
        }
        free(o);
        return code;
}
