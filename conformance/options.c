/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, JOBS = 16 };

static int wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int wrong(const char *fmt, ...)
{
        va_list ap;

        fprintf(stderr, "nvmfspec conform: ");
        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
        fprintf(stderr, "\n");
        return EXIT_USAGE;
}

/* --- values ----------------------------------------------------------------------------------- */

/* What an option does with its value: 0, or EXIT_USAGE after saying why. */
typedef int (*set_fn)(struct options *o, const char *name, const char *value);

static int number(const char *name, const char *value, uint64_t max, uint64_t *n)
{
        char *end;

        errno = 0;
        *n = strtoull(value, &end, 0);
        if (*value < '0' || *value > '9' || *end || errno || *n > max)
                return wrong("%s: '%s' is no number from 0 to %llu", name, value,
                             (unsigned long long)max);
        return 0;
}

static int add(struct option_list *l, const char *name, const char *value)
{
        if (l->count == OPTION_LIST)
                return wrong("%s: more than %d of them", name, OPTION_LIST);
        l->items[l->count++] = value;
        return 0;
}

static int add_rule(struct rule_set *s, const char *name, const char *value)
{
        enum rule_id rule = rule_by_name(value);

        if (rule == RULE_NONE)
                return wrong("%s: no rule is called '%s' (--rules shows them)", name, value);
        rule_add(s, rule);
        return 0;
}

static int set_transport(struct options *o, const char *name, const char *value)
{
        (void)o;
        return strcmp(value, "tcp") == 0 ? 0 : wrong("%s: only tcp, not '%s'", name, value);
}

static int set_role(struct options *o, const char *name, const char *value)
{
        (void)o;
        return strcmp(value, "target") == 0 ? 0 : wrong("%s: only target, not '%s'", name, value);
}

static int set_traddr(struct options *o, const char *name, const char *value)
{
        (void)name;
        o->suite.traddr = value;
        return 0;
}

static int set_trsvcid(struct options *o, const char *name, const char *value)
{
        uint64_t port;

        o->suite.trsvcid = value;
        return number(name, value, 65535, &port);
}

static int set_nqn(struct options *o, const char *name, const char *value)
{
        o->suite.subnqn = value;
        return nqn_valid(value, strlen(value) + 1, false)
                   ? 0
                   : wrong("%s: '%s' is no NQN", name, value);
}

static int set_hostnqn(struct options *o, const char *name, const char *value)
{
        o->suite.hostnqn = value;
        return nqn_valid(value, strlen(value) + 1, false)
                   ? 0
                   : wrong("%s: '%s' is no NQN", name, value);
}

static int set_hostid(struct options *o, const char *name, const char *value)
{
        unsigned n = 0;

        for (const char *p = value; *p; p++) {
                char digit[2] = { *p };
                char *end;
                unsigned long v = strtoul(digit, &end, 16);

                if (*p == '-')
                        continue;
                if (end == digit || n == 32)
                        return wrong("%s: '%s' is no UUID", name, value);
                o->hostid[n / 2] = (uint8_t)((unsigned)o->hostid[n / 2] << 4 | v);
                n++;
        }
        o->suite.hostid = o->hostid;
        return n == 32 ? 0 : wrong("%s: '%s' is no UUID", name, value);
}

static int set_hdgst(struct options *o, const char *name, const char *value)
{
        (void)name;
        (void)value;
        o->suite.hdgst = true;
        return 0;
}

static int set_ddgst(struct options *o, const char *name, const char *value)
{
        (void)name;
        (void)value;
        o->suite.ddgst = true;
        return 0;
}

static int set_hpda(struct options *o, const char *name, const char *value)
{
        uint64_t n;
        int bad = number(name, value, PDU_PDA_MAX, &n);

        o->suite.hpda = (uint8_t)n;
        return bad;
}

static int set_cpda(struct options *o, const char *name, const char *value)
{
        uint64_t n;
        int bad = number(name, value, PDU_PDA_MAX, &n);

        o->cpda = (uint8_t)n;
        return bad;
}

static int set_level(struct options *o, const char *name, const char *value)
{
        for (enum level l = LEVEL_MUST; l <= LEVEL_INFO; l++) {
                if (strcmp(value, level_name(l)) != 0)
                        continue;
                o->selection.level = l;
                return 0;
        }
        return wrong("%s: must, should or info, not '%s'", name, value);
}

static int add_rule_selected(struct options *o, const char *name, const char *value)
{
        return add_rule(&o->selection.rules, name, value);
}

static int add_waived(struct options *o, const char *name, const char *value)
{
        return add_rule(&o->policy.waived, name, value);
}

static int add_violated(struct options *o, const char *name, const char *value)
{
        return add_rule(&o->policy.violated, name, value);
}

static int add_excluded(struct options *o, const char *name, const char *value)
{
        return add(&o->excluded, name, value);
}

static int add_ns(struct options *o, const char *name, const char *value)
{
        return add(&o->ns, name, value);
}

/* NSID[:SLBA+BLOCKS] */
static int set_allow_write(struct options *o, const char *name, const char *value)
{
        unsigned long long slba = 0, blocks = 0;
        unsigned nsid;
        int end = 0;
        int n = sscanf(value, "%u%n:%llu+%llu%n", &nsid, &end, &slba, &blocks, &end);

        if ((n != 1 && n != 3) || value[end] || nsid == 0 || (n == 3 && blocks == 0))
                return wrong("%s: NSID or NSID:SLBA+BLOCKS, not '%s'", name, value);
        o->suite.may_write = true;
        o->suite.write_nsid = nsid;
        o->suite.write_slba = slba;
        o->suite.write_blocks = blocks;
        return 0;
}

static int set_jobs(struct options *o, const char *name, const char *value)
{
        uint64_t n;
        int bad = number(name, value, 256, &n);

        o->jobs = (unsigned)n;
        return bad || n > 0 ? bad : wrong("%s: at least 1", name);
}

static int set_repeat(struct options *o, const char *name, const char *value)
{
        uint64_t n;
        int bad = number(name, value, 1000000, &n);

        o->repeat = (unsigned)n;
        return bad || n > 0 ? bad : wrong("%s: at least 1", name);
}

static int set_seed(struct options *o, const char *name, const char *value)
{
        uint64_t n;
        int bad = number(name, value, UINT32_MAX, &n);

        o->suite.seed = (uint32_t)n;
        return bad;
}

static int set_scale(struct options *o, const char *name, const char *value)
{
        char *end;
        double d = strtod(value, &end);

        o->suite.timeout_scale = d;
        if (*end || end == value || !(d >= 0.01 && d <= 1000))
                return wrong("%s: a number from 0.01 to 1000, not '%s'", name, value);
        return 0;
}

#define SET(function, statement)                                                                   \
        static int function(struct options *o, const char *name, const char *value)                \
        {                                                                                          \
                (void)name;                                                                        \
                (void)value;                                                                       \
                statement;                                                                         \
                return 0;                                                                          \
        }
SET(act_list, o->action = ACT_LIST)
SET(act_rules, o->action = ACT_RULES)
SET(act_explain, (o->action = ACT_EXPLAIN, o->explain = value))
SET(act_dry_run, o->action = ACT_DRY_RUN)
SET(act_power, o->action = ACT_POWER)
SET(act_help, o->action = ACT_HELP)
SET(set_strict, o->suite.strict = true)
SET(set_brief, o->brief = true)
SET(set_verbose, o->suite.narrate = stderr)
SET(set_show_rules, o->show_rules = true)
SET(set_denied, o->suite.caps.denied = value)
SET(set_json, o->json = value)
SET(set_junit, o->junit = value)
SET(set_tap, o->tap = value ? value : "-")
SET(set_html, o->html = value)
SET(set_baseline, o->baseline = value)
SET(set_lax, o->baseline_lax = true)
SET(set_transcript, o->suite.transcripts = value)

/* --- the table -------------------------------------------------------------------------------- */

static const struct {
        const char *title; /* of a group that starts here, or NULL */
        const char *name;
        char letter;
        const char *value; /* NULL: takes none; "[X]": it may be left out */
        const char *says;
        set_fn set;
} table[] = {
        { "The target (without -a: the embedded one)", "traddr", 'a', "ADDR", "its address",
          set_traddr },
        { NULL, "trsvcid", 's', "PORT", "its port (4420)", set_trsvcid },
        { NULL, "transport", 't', "tcp", "the transport", set_transport },
        { NULL, "nqn", 'n', "NQN", "the subsystem (the first one that discovery lists)", set_nqn },
        { NULL, "hostnqn", 'q', "NQN", "our name (one for each case)", set_hostnqn },
        { NULL, "hostid", 'I', "UUID", "our HOSTID (one for each case)", set_hostid },
        { NULL, "hdr-digest", 'g', NULL, "ask for header digests where the case does not care",
          set_hdgst },
        { NULL, "data-digest", 'G', NULL, "likewise for data digests", set_ddgst },
        { NULL, "hpda", 0, "N", "likewise: alignment of data sent to us, 0 to 31", set_hpda },
        { NULL, "allow-write", 0, "NSID[:SLBA+N]",
          "what cases may write to; without it none writes", set_allow_write },
        { NULL, "denied-nqn", 0, "NQN", "a subsystem there that does not allow our host",
          set_denied },
        { NULL, "role", 0, "target", "what is tested", set_role },
        { "Which cases", "level", 0, "LEVEL", "must, should or info: this level and above (info)",
          set_level },
        { NULL, "rule", 0, "RULE", "those that test this rule", add_rule_selected },
        { NULL, "exclude", 0, "ID", "not these", add_excluded },
        { NULL, "list", 0, NULL, "show them (with --json FILE: as JSON)", act_list },
        { NULL, "dry-run", 0, NULL, "show what would run", act_dry_run },
        { NULL, "explain", 0, "ID", "all about a case or rule", act_explain },
        { NULL, "rules", 0, NULL, "the rulebook", act_rules },
        { "How they run", "strict", 0, NULL, "the exact reaction is demanded, and what should be",
          set_strict },
        { NULL, "jobs", 'j', "N", "cases at once (16)", set_jobs },
        { NULL, "timeout-scale", 0, "X", "all waits times X", set_scale },
        { NULL, "repeat", 0, "N", "each case N times, the worst counts", set_repeat },
        { NULL, "seed", 0, "N", "of data and host identifiers", set_seed },
        { "Reports", "verbose", 'v', NULL, "each PDU as it goes, on stderr", set_verbose },
        { NULL, "brief", 0, NULL, "only what did not pass", set_brief },
        { NULL, "show-rules", 0, NULL, "which rules were covered", set_show_rules },
        { NULL, "json", 0, "FILE", "all results", set_json },
        { NULL, "junit", 0, "FILE", "JUnit XML", set_junit },
        { NULL, "tap", 0, "[=FILE]", "Test Anything Protocol, on stdout without FILE", set_tap },
        { NULL, "html", 0, "FILE", "one page, nothing to fetch", set_html },
        { NULL, "transcript", 0, "DIR", "text and pcap of each case that did not pass",
          set_transcript },
        { NULL, "baseline", 0, "FILE", "known failures: lines 'ID fail|lenient # why'",
          set_baseline },
        { NULL, "baseline-lax", 0, NULL, "a known failure that passes is no failure", set_lax },
        { "The embedded target", "power", 0, NULL, "break each rule in it: does a case find out?",
          act_power },
        { NULL, "waive", 0, "RULE", "it does not check this", add_waived },
        { NULL, "violate", 0, "RULE", "it breaks this", add_violated },
        { NULL, "ns", 0, "SPEC", "a namespace: mem:64M, file:PATH, null:1G[,bs=4096]", add_ns },
        { NULL, "cpda", 0, "N", "alignment of data sent to it, 0 to 31", set_cpda },
        { NULL, "help", 'h', NULL, "this", act_help },
};
enum { OPTIONS = sizeof(table) / sizeof(table[0]) };

static int has_arg(const char *value)
{
        if (!value)
                return no_argument;
        return value[0] == '[' ? optional_argument : required_argument;
}

void options_usage(FILE *out)
{
        fprintf(out,
                "usage: nvmfspec conform [OPTION...] [ID...]\n\n"
                "Judges an NVMe/TCP target. An ID is a case (tcp/3.3.2.2/ttag-unknown), the start "
                "of one\n(tcp/3.3) or a glob; without any all cases run.\n");
        for (int i = 0; i < OPTIONS; i++) {
                char left[48];

                if (table[i].title)
                        fprintf(out, "\n%s\n", table[i].title);
                snprintf(left, sizeof(left), "%c%c%s --%s%s%s", table[i].letter ? '-' : ' ',
                         table[i].letter ? table[i].letter : ' ', table[i].letter ? "," : " ",
                         table[i].name, has_arg(table[i].value) == required_argument ? " " : "",
                         table[i].value ? table[i].value : "");
                fprintf(out, "  %-30s  %s\n", left, table[i].says);
        }
        fprintf(out, "\nExit status: 0 passed, 1 failed, 2 usage, 3 harness or connection broke, "
                     "77 all skipped.\n");
}

static void make_tables(struct option longs[OPTIONS + 1], char *shorts)
{
        *shorts++ = ':';
        for (int i = 0; i < OPTIONS; i++) {
                longs[i] =
                    (struct option) { table[i].name, has_arg(table[i].value), NULL, 256 + i };
                if (!table[i].letter)
                        continue;
                *shorts++ = table[i].letter;
                if (table[i].value)
                        *shorts++ = ':';
        }
        *shorts = '\0';
        longs[OPTIONS] = (struct option) { 0 };
}

static int index_of(int c)
{
        int i = 0;

        if (c >= 256)
                return c - 256;
        while (table[i].letter != c)
                i++;
        return i;
}

static int take(struct options *o, int c, char **argv)
{
        char name[48];

        if (c == '?')
                return wrong("no option %s (--help lists them)", argv[optind - 1]);
        if (c == ':')
                return wrong("%s needs a value", argv[optind - 1]);
        snprintf(name, sizeof(name), "--%s", table[index_of(c)].name);
        return table[index_of(c)].set(o, name, optarg);
}

static int check(const struct options *o)
{
        bool spoilt = !rule_set_empty(&o->policy.waived) || !rule_set_empty(&o->policy.violated);

        if (o->suite.traddr && (spoilt || o->ns.count > 0 || o->cpda > 0))
                return wrong("--waive, --violate, --ns and --cpda are for the embedded target");
        if (o->suite.traddr && o->action == ACT_POWER)
                return wrong("--power is for the embedded target");
        if (!o->suite.traddr && (o->suite.subnqn || o->suite.trsvcid))
                return wrong("-n and -s need -a");
        return 0;
}

static void set_defaults(struct options *o)
{
        if (!o->suite.trsvcid)
                o->suite.trsvcid = "4420";
        if (!o->suite.traddr)
                o->suite.may_write = true;
        if (o->ns.count == 0)
                o->ns.items[o->ns.count++] = "mem:64M";
        o->selection.excluded = o->excluded.items;
        o->selection.excluded_count = o->excluded.count;
}

int options_parse(struct options *o, int argc, char **argv)
{
        struct option longs[OPTIONS + 1];
        char shorts[OPTIONS * 2 + 2];
        int c, bad;

        *o = (struct options) {
                .jobs = JOBS,
                .repeat = 1,
                .selection.level = LEVEL_INFO,
                .suite.timeout_scale = 1,
                .suite.seed = (uint32_t)time(NULL) ^ (uint32_t)getpid() << 16,
        };
        make_tables(longs, shorts);
        optind = 0;
        while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
                bad = take(o, c, argv);
                if (bad)
                        return bad;
        }
        bad = check(o);
        set_defaults(o);
        o->selection.ids = argv + optind;
        o->selection.id_count = (size_t)(argc - optind);
        return bad;
}
