/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "family.h"
#include "option_rows.h"
#include "pdu/io/loop.h"

enum { EXIT_USAGE = 2, JOBS = 28 };

int options_wrong(const char *fmt, ...)
{
        va_list ap;

        fprintf(stderr, "nvmfspec conform: ");
        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
        fprintf(stderr, "\n");
        return EXIT_USAGE;
}

/* --- values with a syntax of their own ----------------------------------------------------- */

bool option_list_add(struct option_list *l, const char *value, char *error, size_t size)
{
        if (l->count < OPTION_LIST) {
                l->items[l->count++] = value;
                return true;
        }
        snprintf(error, size, "given more than %d times", OPTION_LIST);
        return false;
}

static bool take_excluded(void *args, const char *value, char *error, size_t size)
{
        return option_list_add(&((struct options *)args)->excluded, value, error, size);
}

static bool take_baseline(void *args, const char *value, char *error, size_t size)
{
        return option_list_add(&((struct options *)args)->baselines, value, error, size);
}

static bool take_rule(void *args, const char *value, char *error, size_t size)
{
        struct options *o = args;

        return option_rule(o->suite.family->family->rules, &o->selection.rules, value, error, size);
}

static bool take_waived(void *args, const char *value, char *error, size_t size)
{
        struct options *o = args;

        return option_rule(o->suite.family->family->rules, &o->policy.waived, value, error, size);
}

static bool take_violated(void *args, const char *value, char *error, size_t size)
{
        struct options *o = args;

        return option_violate(o->suite.family->family->rules, &o->policy, value, error, size);
}

/* The family is the one that it is a transport of, or the first one. */
static bool take_transport(void *args, const char *value, char *error, size_t size)
{
        struct options *o = args;
        char all[128];

        o->suite.transport = NULL;
        for (const char *const *t = o->suite.family->family->transports; *t; t++)
                if (strcmp(value, *t) == 0)
                        o->suite.transport = *t;
        families_transports((const void *const *)o->families, all, sizeof(all));
        snprintf(error, size, "'%s' is none of %s", value, all);
        return o->suite.transport;
}

static bool take_scale(void *args, const char *value, char *error, size_t size)
{
        char *end;
        double d = strtod(value, &end);

        ((struct options *)args)->suite.timeout_scale = d;
        snprintf(error, size, "'%s' is not a number from 0.01 to 1000", value);
        return !*end && end != value && d >= 0.01 && d <= 1000;
}

/* --- the table ----------------------------------------------------------------------------- */

#define OPTION_ARGS struct options

/* clang-format off */
static const struct option_row where[] = {
        CALL('t', "transport", "TRTYPE", take_transport, NULL, TARGET),
        STRING('a', "traddr", "ADDR", suite.traddr, "its address", TARGET),
        STRING('s', "trsvcid", "PORT", suite.trsvcid, "its port (4420)", TARGET),
        { 0 },
};

static const struct option_row rows[] = {
        NUMBER(0, "wait", "SEC", wait, 0, 3600, "wait at most this long for a target that is "
                                                "starting", TARGET),
        CHOICE(0, "role", "ROLE", role, "target|host", "what to test: target or host (target); "
                                                       "a host finds a target at -a -s, a new "
                                                       "one for each case", TARGET),

        CHOICE(0, "level", "LEVEL", level, "must|should|info", "must, should or info: run this "
                                                               "level and above (info)", CASES),
        CALL(0, "rule", "RULE", take_rule, "run only the cases of this rule; repeatable", CASES),
        CALL(0, "exclude", "ID", take_excluded, "leave out these cases; repeatable", CASES),
        FLAG(0, "list", list, "list the cases (with --json FILE: as JSON)", CASES),
        FLAG(0, "dry-run", dry_run, "list what would run", CASES),
        STRING(0, "explain", "ID", explain, "explain a case or a rule", CASES),
        FLAG(0, "rules", rules, "the rulebook (with --json FILE: as JSON)", CASES),
        FLAG(0, "spec", spec, "what the specification demands, and what judges it (with --json, --html "
                              "FILE: there)", CASES),
        FLAG(0, "count", count, "with --rules or --spec: the figures alone", CASES),

        FLAG(0, "strict", suite.strict, "demand the exact reaction, and what SHOULD be", RUN),
        NUMBER('j', "jobs", "N", jobs, 1, 256, "cases at once (28)", RUN),
        CALL(0, "timeout-scale", "X", take_scale, "multiply all timeouts by X", RUN),
        NUMBER(0, "repeat", "N", repeat, 1, 1000000, "run each case N times; the worst result "
                                                     "counts", RUN),
        STRING(0, "restart", "CMD", suite.restart, "shell command that starts the target again when it "
               "died: what ran then is run again alone, and the run goes on", RUN),
        NUMBER(0, "seed", "N", seed, 0, UINT32_MAX, "seed of data and host identifiers", RUN),

        FLAG('v', "verbose", verbose, "each message as it goes, on stderr", REPORTS),
        FLAG(0, "brief", brief, "print only what did not pass", REPORTS),
        FLAG(0, "show-rules", show_rules, "print which rules were covered", REPORTS),
        STRING(0, "json", "FILE", json, "write all results as JSON; '-' is stdout, here and below", REPORTS),
        STRING(0, "junit", "FILE", junit, "write JUnit XML", REPORTS),
        STRING(0, "tap", "FILE", tap, "write Test Anything Protocol", REPORTS),
        STRING(0, "html", "FILE", html, "write one self-contained HTML page", REPORTS),
        STRING(0, "pcap", "FILE", pcap, "write the cases' connections to a .pcapng, with case "
                                        "ids as comments; RDMA as RoCEv2, with READs and WRITEs "
                                        "derived from the responses", REPORTS),
        STRING(0, "transcript", "DIR", suite.transcripts, "write a text and a pcap of each case "
                                                          "that did not pass", REPORTS),
        CALL(0, "baseline", "FILE", take_baseline, "known failures: lines 'ID fail|lenient # why'; repeatable", REPORTS),
        FLAG(0, "baseline-lax", baseline_lax, "do not fail when a known failure passes", REPORTS),

        FLAG(0, "power", power, "break each rule in it and check that a case detects it; with the ID semantic: give it each of the faults that products have", EMBEDDED),
        CALL(0, "waive", "RULE", take_waived, "do not let it check this rule; repeatable", EMBEDDED),
        CALL(0, "violate", "RULE", take_violated, "let it break this rule, or have this fault (semantic/NAME); repeatable", EMBEDDED),
        FLAG('h', "help", help, "this", EMBEDDED),
        { 0 },
};
/* clang-format on */

static void make_table(struct option_table *t, const struct options *o)
{
        option_table_make(t, (const void *const *)o->families, where, o->suite.family->options,
                          rows);
}

void options_usage(const struct options *o, FILE *out)
{
        const struct conform_family *f = o->suite.family;
        static const struct {
                const char *title;
                enum option_group group;
        } groups[] = {
                { "The target (without -a: the embedded one)", OPTIONS_TARGET },
                { "Which cases", OPTIONS_CASES },
                { "How they run", OPTIONS_RUN },
                { "Reports", OPTIONS_REPORTS },
                { "The embedded target", OPTIONS_EMBEDDED },
        };
        struct option_table table;

        make_table(&table, o);
        fprintf(out, "usage: nvmfspec conform [OPTION...] [ID...]\n\n%s", f->intro ?: "");
        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
                fprintf(out, "\n%s\n", groups[i].title);
                option_help(table.rows, groups[i].group, out);
        }
        fprintf(out,
                "%s\nExit status: 0 passed, 1 failed, 2 usage, 3 harness or connection broke, 77 "
                "all skipped.\n",
                f->more ?: "");
}

/* --- all of it ----------------------------------------------------------------------------- */

/* Two of them in one file, or on stdout, are neither. */
static int check_outputs(const struct options *o)
{
        const struct {
                const char *name, *path;
        } outs[] = { { "--json", o->json },
                     { "--junit", o->junit },
                     { "--tap", o->tap },
                     { "--html", o->html },
                     { "--pcap", o->pcap } };
        enum { OUTS = sizeof(outs) / sizeof(outs[0]) };

        for (size_t i = 0; i < OUTS; i++)
                for (size_t k = 0; k < i && outs[i].path; k++)
                        if (outs[k].path && strcmp(outs[k].path, outs[i].path) == 0)
                                return options_wrong("%s and %s both go to '%s'", outs[k].name,
                                                     outs[i].name, outs[i].path);
        return 0;
}

static int check(const struct options *o)
{
        uint64_t port;

        if (o->suite.traddr && o->power)
                return options_wrong("--power is for the embedded target");
        if (o->suite.trsvcid &&
            (option_number(o->suite.trsvcid, &port) < 0 || port == 0 || port > 65535))
                return options_wrong("option -s: '%s' is not a port", o->suite.trsvcid);
        if (o->count && !o->rules && !o->spec)
                return options_wrong("--count requires --rules or --spec");
        if (o->list + o->dry_run + o->rules + o->spec + o->power + !!o->explain > 1)
                return options_wrong("--list, --dry-run, --rules, --spec, --explain and --power "
                                     "exclude each other");
        return check_outputs(o);
}

static enum action action_of(const struct options *o)
{
        if (o->help)
                return ACT_HELP;
        if (o->rules)
                return ACT_RULES;
        if (o->spec)
                return ACT_SPEC;
        if (o->explain)
                return ACT_EXPLAIN;
        if (o->power)
                return ACT_POWER;
        return o->list || o->dry_run ? ACT_LIST : ACT_RUN;
}

static enum level level_of(const char *name)
{
        for (enum level l = LEVEL_MUST; name && l < LEVEL_INFO; l++)
                if (strcmp(name, level_name(l)) == 0)
                        return l;
        return LEVEL_INFO;
}

static void finish_up(struct options *o)
{
        struct suite *s = &o->suite;

        o->action = action_of(o);
        s->seed = (uint32_t)o->seed;
        s->started = loop_wall_ns() / 1000000000;
        s->narrate = o->verbose ? stderr : NULL;
        o->selection.level = level_of(o->level);
        o->selection.excluded = o->excluded.items;
        o->selection.excluded_count = o->excluded.count;
        o->selection.family = s->family;
        o->selection.role = s->role;
        o->selection.transport = s->transport;
        if (o->jobs == 0)
                o->jobs = JOBS;
}

int options_parse(const struct conform_family *const *families, const struct conform_family *f,
                  struct options *o, int argc, char **argv)
{
        struct option_table table;
        char error[512];
        int rest, bad;

        *o = (struct options) {
                .families = families,
                .repeat = 1,
                .suite = { .family = f, .transport = f->family->transports[0], .timeout_scale = 1 },
                .seed = (uint32_t)(loop_wall_ns() / 1000000000) ^ (uint32_t)getpid() << 16,
        };
        make_table(&table, o);
        rest = option_parse(table.rows, OPTIONS_ALL, argc, argv, o, error, sizeof(error));
        if (rest < 0)
                return options_wrong("%s", error);
        o->suite.role = o->role && strcmp(o->role, "host") == 0 ? ROLE_HOST : ROLE_TARGET;
        o->suite.embedded = o->suite.role == ROLE_TARGET && !o->suite.traddr;
        bad = f->check ? f->check(o) : 0;
        if (!bad)
                bad = check(o);
        finish_up(o);
        o->selection.ids = argv + rest;
        o->selection.id_count = (size_t)(argc - rest);
        return bad;
}
