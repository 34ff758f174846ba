/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conformance/engine/baseline.h"
#include "conformance/engine/power.h"
#include "conformance/engine/report.h"
#include "conformance/engine/runner.h"
#include "conformance/engine/show.h"
#include "conformance/host/host_cases.h"
#include "embedded.h"
#include "options.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/loop.h"
#include "pdu/io/output.h"
#include "pdu/io/shell.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/io/verbs_record.h"

enum { EXIT_USAGE = 2, EXIT_BROKEN = 3, AWAIT_MS = 100 };

static int complain(int code, const char *what)
{
        fprintf(stderr, "nvmfspec conform: %s\n", what);
        return code;
}

/* --- what is tested ------------------------------------------------------------------------ */

static void size_text(char buf[32], uint64_t bytes)
{
        if (bytes >= 1 << 20 && bytes % (1 << 20) == 0)
                snprintf(buf, 32, "%llu MiB", (unsigned long long)(bytes >> 20));
        else if (bytes >= 1 << 10 && bytes % (1 << 10) == 0)
                snprintf(buf, 32, "%llu KiB", (unsigned long long)(bytes >> 10));
        else
                snprintf(buf, 32, "%llu bytes", (unsigned long long)bytes);
}

/* What only one of the transports has. */
static void transport_text(char *buf, size_t size, const struct suite *s)
{
        const struct caps *c = &s->caps;
        char h2c[32];

        size_text(h2c, c->maxh2cdata);
        if (s->trtype == TRTYPE_RDMA)
                snprintf(buf, size, "ICDOFF %u, MSDBD %u, CRQSIZE %u, %u READs at once", c->icdoff,
                         c->msdbd, c->crqsize, c->reads_out);
        else
                snprintf(buf, size, "MAXH2CDATA %s, CPDA %u, digests %s", h2c, c->cpda,
                         c->hdgst   ? c->ddgst ? "both" : "header"
                         : c->ddgst ? "data"
                                    : "none");
}

static void describe_host(struct run *run, const struct suite *s)
{
        snprintf(run->target, sizeof(run->target), "host: %.400s",
                 s->hosted->hook ? s->hosted->hook : "the reference host");
        snprintf(run->abilities, sizeof(run->abilities),
                 "a target of its own for each case, at %s%s:%s%s",
                 s->trtype == TRTYPE_RDMA ? "rdma:" : "", s->traddr,
                 strcmp(s->trsvcid, "0") == 0 ? "a free port" : s->trsvcid,
                 s->hosted->fails ? "; it fails with a sound one: cases can't show much" : "");
}

static void describe_target(struct run *run, const struct suite *s, bool embedded)
{
        const struct caps *c = &s->caps;
        char mdts[32], capsule[32], own[120];

        snprintf(run->target, sizeof(run->target), "%s%s:%s  %s%s",
                 s->trtype == TRTYPE_RDMA ? "rdma:" : "", s->traddr, s->trsvcid, s->subnqn,
                 embedded ? "  (embedded)" : "");
        if (c->reach < REACH_CONTROLLER) {
                snprintf(
                    run->abilities, sizeof(run->abilities),
                    "what it can do is not known, see probe/: cases can't have all that they need");
                return;
        }
        size_text(mdts, c->mdts);
        size_text(capsule, c->in_capsule);
        transport_text(own, sizeof(own), s);
        snprintf(run->abilities, sizeof(run->abilities),
                 "NVMe %u.%u, queues of %u, MDTS %s, in-capsule %s, %s, "
                 "NSID %u: %llu x %u bytes%s%s",
                 c->vs >> 16, c->vs >> 8 & 0xff, CAP_MQES(c->cap) + 1u, c->mdts ? mdts : "none",
                 c->in_capsule ? capsule : "none", own, c->nsid, (unsigned long long)c->blocks,
                 c->block, c->discovery ? ", discovery" : "",
                 c->sqfc_off ? ", SQ flow control can be off" : "");
}

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

static int stop_recording(struct options *o)
{
        struct capture_writer *w = o->suite.record;

        verbs_record_free(o->suite.recorder);
        o->suite.recorder = NULL;
        o->suite.record = NULL;
        if (!w || capture_writer_close(w) == 0)
                return 0;
        fprintf(stderr, "nvmfspec conform: %s: %s\n", o->pcap, strerror(errno));
        return EXIT_BROKEN;
}

static bool start_recording(struct options *o)
{
        char error[256] = "out of memory";
        struct suite *s = &o->suite;

        s->record = capture_writer_open(o->pcap, error, sizeof(error));
        if (s->record && s->verbs)
                s->recorder = verbs_record_new(s->verbs, s->record);
        if (s->record && (!s->verbs || s->recorder))
                return true;
        fprintf(stderr, "nvmfspec conform: %s\n", error);
        (void)stop_recording(o);
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

static int run_cases(struct options *o, const struct test_case **cases, size_t n,
                     const struct probed *probed, const struct baseline *known, bool embedded)
{
        struct report_text text = report_text(text_out(o), o->brief);
        struct run run = { .strict = o->suite.strict, .lax = o->baseline_lax };
        struct runner runner = {
                .suite = &o->suite,
                .cases = cases,
                .count = n,
                .probed = probed,
                .jobs = (unsigned)o->jobs,
                .repeat = (unsigned)o->repeat,
                .stop = &interrupted,
                .ended = ended,
                .arg = &text,
        };
        int code;

        if (o->pcap && !start_recording(o))
                return EXIT_BROKEN;
        note_start(&run);
        if (o->suite.hosted)
                describe_host(&run, &o->suite);
        else
                describe_target(&run, &o->suite, embedded);
        fprintf(text.out, "%s\n%s\n", run.target, run.abilities);
        if (known->count > 0) /* verdicts are known at the end only */
                runner.ended = NULL;
        runner_run(&runner, &run);
        baseline_apply(known, &run);
        run_sum(&run);
        for (size_t i = 0; !runner.ended && i < run.count; i++)
                if (run.results[i].test)
                        report_text_case(&text, &run.results[i]);
        if (o->show_rules)
                report_text_rules(text.out, &run);
        report_text_end(&text, &run);
        if (run.dead && interrupted)
                complain(EXIT_BROKEN, "interrupted: not all cases were run");
        code = run_exit(&run);
        if (write_reports(o, &run) + stop_recording(o) != 0 && code == 0)
                code = EXIT_BROKEN;
        free(run.results);
        return code;
}

/* A host that never comes is no host; one that comes, but fails, is judged as far as it goes. */
static bool probe_host(struct options *o, char *error, size_t size)
{
        struct result r = { .id = "probe" };

        t_once(&o->suite, host_liveness(), &r, UINT32_MAX);
        o->hosted.fails = r.verdict == VERDICT_FAIL || r.verdict == VERDICT_SKIP;
        snprintf(error, size, "%s", r.seen);
        return r.verdict != VERDICT_ERROR;
}

static bool probe_any(struct options *o, struct probed *p, char *error, size_t size)
{
        return o->suite.hosted ? probe_host(o, error, size) : probe(&o->suite, p, error, size);
}

static bool read_baselines(const struct options *o, struct baseline *b, char *error, size_t size)
{
        for (size_t i = 0; i < o->baselines.count; i++) {
                const char *path = o->baselines.items[i];
                size_t from = b->count;
                const struct baseline_entry *stray;

                if (baseline_read(b, path, error, size) != 0)
                        return false;
                stray = baseline_stray(b, from, o->selection.role);
                if (!stray)
                        continue;
                snprintf(error, size, "%s:%d: no case or rule is called '%s' (--list shows them)",
                         path, stray->line, stray->id);
                baseline_free(b);
                return false;
        }
        return true;
}

static int judge(struct options *o, const struct test_case **cases, size_t n, bool embedded)
{
        struct baseline known = { 0 };
        struct probed probed = { .count = 0 };
        char error[1024];
        int code;

        if (!read_baselines(o, &known, error, sizeof(error)))
                return complain(EXIT_USAGE, error);
        catch_signals();
        if (!probe_any(o, &probed, error, sizeof(error))) {
                baseline_free(&known);
                return complain(EXIT_BROKEN, error);
        }
        code = run_cases(o, cases, n, &probed, &known, embedded);
        baseline_free(&known);
        return code;
}

static int judge_embedded(struct options *o, const struct test_case **cases, size_t n)
{
        struct embedded e;
        char error[1024];
        int code;

        if (!embedded_start(&e, o, &o->policy, error, sizeof(error)))
                return complain(EXIT_BROKEN, error);
        embedded_address(&e, &o->suite);
        code = judge(o, cases, n, true);
        embedded_stop(&e);
        return code;
}

/* Until the target answers, as --wait says: CI starts it a moment before. */
static void await_target(const struct options *o)
{
        uint64_t end = conn_clock() + o->wait * 1000;
        char error[1024], nqn[NQN_FIELD];

        while (conn_clock() < end) {
                struct suite s = o->suite;
                struct probed probed;

                s.transcripts = NULL;
                if (s.subnqn ? probe(&s, &probed, error, sizeof(error))
                             : probe_subsystem(&s, nqn, error, sizeof(error)))
                        return;
                loop_sleep_us(AWAIT_MS * 1000);
        }
}

static int change_by_command(void *user, enum change what, char *error, size_t size)
{
        static const char *const words[] = {
                [CHANGE_NAMESPACES] = "namespaces", [CHANGE_DISCOVERY] = "discovery"
        };
        const struct options *o = user;
        char command[4096], says[SHELL_LINE];
        int n = snprintf(command, sizeof(command), "%s %s", o->change, words[what]);
        int rc = n < (int)sizeof(command) ? shell_run(command, says, SHELL_MS) : -1;

        if (n >= (int)sizeof(command))
                snprintf(error, size, "longer than %zu bytes", sizeof(command) - 1);
        else if (rc == CHANGE_NOT || *says)
                snprintf(error, size, "%s", says);
        else
                snprintf(error, size, "'%.200s' ended with %d", command, rc);
        return rc;
}

static int judge_address(struct options *o, const struct test_case **cases, size_t n)
{
        char error[1024], nqn[NQN_FIELD];
        int code;

        if (o->suite.trtype == TRTYPE_RDMA) {
                o->suite.verbs = verbs_rdma(error, sizeof(error));
                if (!o->suite.verbs)
                        return complain(EXIT_BROKEN, error);
        }
        if (o->change)
                o->suite.changer = (struct changer) { change_by_command, o };
        await_target(o);
        if (!o->suite.subnqn) {
                if (!probe_subsystem(&o->suite, nqn, error, sizeof(error)))
                        return complain(EXIT_BROKEN, error);
                o->suite.subnqn = nqn;
        }
        code = judge(o, cases, n, false);
        o->suite.subnqn = NULL;
        return code;
}

static int judge_host(struct options *o, const struct test_case **cases, size_t n)
{
        char error[1024];

        if (o->suite.trtype == TRTYPE_RDMA && o->hosted.hook) {
                o->suite.verbs = verbs_rdma(error, sizeof(error));
                if (!o->suite.verbs)
                        return complain(EXIT_BROKEN, error);
        }
        return judge(o, cases, n, false);
}

static int list_cases(const struct options *o, const struct test_case **cases, size_t n)
{
        if (!o->json) {
                show_list(stdout, cases, n);
                return 0;
        }
        if (report_list_json(cases, n, o->json) == 0)
                return 0;
        fprintf(stderr, "nvmfspec conform: %s: %s\n", o->json, strerror(errno));
        return EXIT_BROKEN;
}

static int with_cases(struct options *o)
{
        char error[256];
        const char *closed;
        size_t n;
        const struct test_case **cases = cases_select(&o->selection, &n, error, sizeof(error));
        int code = 0;

        if (!cases)
                return complain(EXIT_USAGE, error);
        closed = o->action == ACT_RUN ? closed_to_us(o) : NULL;
        if (closed) {
                fprintf(stderr, "nvmfspec conform: %s: %s\n", closed, strerror(errno));
                free(cases);
                return EXIT_BROKEN;
        }
        if (o->selection.role == ROLE_HOST)
                o->suite.hosted = &o->hosted;
        if (o->action == ACT_LIST)
                code = list_cases(o, cases, n);
        else if (o->action == ACT_POWER)
                code = power_run(o, cases, n);
        else if (o->suite.hosted)
                code = judge_host(o, cases, n);
        else if (o->suite.traddr)
                code = judge_address(o, cases, n);
        else
                code = judge_embedded(o, cases, n);
        free(cases);
        return code;
}

static int list_rules(const struct options *o)
{
        if (o->count)
                show_count(stdout);
        else if (!o->json)
                show_rules(stdout, o->selection.role);
        if (!o->json || report_rules_json(o->json) == 0)
                return 0;
        fprintf(stderr, "nvmfspec conform: %s: %s\n", o->json, strerror(errno));
        return EXIT_BROKEN;
}

int conform_command(int argc, char **argv)
{
        struct options o;
        int wrong = options_parse(&o, argc, argv);

        if (wrong)
                return wrong;
        signal(SIGPIPE, SIG_IGN);
        switch (o.action) {
        case ACT_HELP:
                options_usage(stdout);
                return 0;
        case ACT_RULES:
                return list_rules(&o);
        case ACT_EXPLAIN:
                if (show_explain(stdout, o.selection.role, o.explain))
                        return 0;
                fprintf(stderr, "nvmfspec conform: no case or rule is called '%s'\n", o.explain);
                return EXIT_USAGE;
        case ACT_LIST:
        case ACT_POWER:
        case ACT_RUN:
                break;
        }
        return with_cases(&o);
}
