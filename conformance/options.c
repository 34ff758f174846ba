/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pdu/io/loop.h"
#include "pdu/io/option.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/machine/spoil.h"

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

/* --- values with a syntax of their own ----------------------------------------------------- */

static bool add(struct option_list *l, const char *value, char *error, size_t size)
{
        if (l->count < OPTION_LIST) {
                l->items[l->count++] = value;
                return true;
        }
        snprintf(error, size, "more than %d of them", OPTION_LIST);
        return false;
}

static bool take_excluded(void *args, const char *value, char *error, size_t size)
{
        return add(&((struct options *)args)->excluded, value, error, size);
}

static bool take_ns(void *args, const char *value, char *error, size_t size)
{
        return add(&((struct options *)args)->ns, value, error, size);
}

static bool take_baseline(void *args, const char *value, char *error, size_t size)
{
        return add(&((struct options *)args)->baselines, value, error, size);
}

static bool take_rule(void *args, const char *value, char *error, size_t size)
{
        return option_rule(&nvme_rules, &((struct options *)args)->selection.rules, value, error,
                           size);
}

static bool take_waived(void *args, const char *value, char *error, size_t size)
{
        return option_rule(&nvme_rules, &((struct options *)args)->policy.waived, value, error,
                           size);
}

static bool take_violated(void *args, const char *value, char *error, size_t size)
{
        return option_rule(&nvme_rules, &((struct options *)args)->policy.violated, value, error,
                           size);
}

static bool take_limit(void *args, const char *value, char *error, size_t size)
{
        struct options *o = args;

        o->limited = true;
        return target_limit(&o->limits, value, error, size);
}

static bool is_nqn(const char *value, char *error, size_t size)
{
        if (strlen(value) <= NQN_MAX && nqn_valid(value, strlen(value) + 1, false))
                return true;
        snprintf(error, size, "'%s' is no NQN", value);
        return false;
}

static bool take_nqn(void *args, const char *value, char *error, size_t size)
{
        ((struct options *)args)->suite.subnqn = value;
        return is_nqn(value, error, size);
}

static bool take_hostnqn(void *args, const char *value, char *error, size_t size)
{
        ((struct options *)args)->suite.hostnqn = value;
        return is_nqn(value, error, size);
}

static bool take_denied(void *args, const char *value, char *error, size_t size)
{
        ((struct options *)args)->suite.caps.denied = value;
        return is_nqn(value, error, size);
}

static bool take_key(void *args, const char *value, char *error, size_t size)
{
        struct options *o = args;

        o->keyed = true;
        return auth_key_option(&o->suite.dhchap, value, error, size) == 0;
}

static bool take_ctrl_key(void *args, const char *value, char *error, size_t size)
{
        return auth_key_option(&((struct options *)args)->suite.dhchap_ctrl, value, error, size) ==
               0;
}

static bool take_hostid(void *args, const char *value, char *error, size_t size)
{
        struct options *o = args;
        unsigned n = 0;

        for (const char *p = value; *p && n <= 32; p++) {
                char digit[2] = { *p };
                char *end;
                unsigned long v = strtoul(digit, &end, 16);

                if (*p == '-')
                        continue;
                if (end == digit || n == 32)
                        n = 33;
                else
                        o->hostid[n / 2] = (uint8_t)((unsigned)o->hostid[n / 2] << 4 | v), n++;
        }
        o->suite.hostid = o->hostid;
        snprintf(error, size, "'%s' is no UUID", value);
        return n == 32;
}

static bool take_allow_write(void *args, const char *value, char *error, size_t size)
{
        struct suite *s = &((struct options *)args)->suite;
        unsigned long long slba = 0, blocks = 0;
        unsigned nsid = 0;
        int end = 0;
        int n = sscanf(value, "%u%n:%llu+%llu%n", &nsid, &end, &slba, &blocks, &end);

        s->may_write = true;
        s->write_nsid = nsid;
        s->write_slba = slba;
        s->write_blocks = blocks;
        snprintf(error, size, "'%s' is no NSID and no NSID:SLBA+BLOCKS", value);
        return (n == 1 || (n == 3 && blocks > 0)) && !value[end] && nsid > 0 && value[0] != '-';
}

static bool take_scale(void *args, const char *value, char *error, size_t size)
{
        char *end;
        double d = strtod(value, &end);

        ((struct options *)args)->suite.timeout_scale = d;
        snprintf(error, size, "'%s' is no number from 0.01 to 1000", value);
        return !*end && end != value && d >= 0.01 && d <= 1000;
}

/* --- the table ----------------------------------------------------------------------------- */

enum { TARGET = 1, CASES = 2, RUN = 4, REPORTS = 8, EMBEDDED = 16, ALL = 31 };

#define FLAG(name, member, says, group)                                                            \
        {                                                                                          \
                0, name, NULL, says, OPTION_FLAG, group, offsetof(struct options, member), 0, 0,   \
                    NULL, NULL                                                                     \
        }
#define STRING(letter, name, arg, member, says, group)                                             \
        {                                                                                          \
                letter, name, arg, says, OPTION_STRING, group, offsetof(struct options, member),   \
                    0, 0, NULL, NULL                                                               \
        }
#define NUMBER(letter, name, arg, member, min, max, says, group)                                   \
        {                                                                                          \
                letter, name, arg, says, OPTION_NUMBER, group, offsetof(struct options, member),   \
                    min, max, NULL, NULL                                                           \
        }
#define CHOICE(letter, name, arg, member, words, says, group)                                      \
        {                                                                                          \
                letter, name, arg, says, OPTION_CHOICE, group, offsetof(struct options, member),   \
                    0, 0, words, NULL                                                              \
        }
#define CALL(letter, name, arg, take, says, group)                                                 \
        {                                                                                          \
                letter, name, arg, says, OPTION_CALL, group, 0, 0, 0, NULL, take                   \
        }

/* clang-format off */
static const struct option_row table[] = {
        STRING('a', "traddr", "ADDR", suite.traddr, "its address", TARGET),
        STRING('s', "trsvcid", "PORT", suite.trsvcid, "its port (4420)", TARGET),
        CHOICE('t', "transport", "TRTYPE", transport, "tcp|rdma", "tcp or rdma (tcp)", TARGET),
        CALL('n', "nqn", "NQN", take_nqn, "the subsystem (the first one that discovery lists)", TARGET),
        CALL('q', "hostnqn", "NQN", take_hostnqn, "our name (one for each case)", TARGET),
        CALL('I', "hostid", "UUID", take_hostid, "our HOSTID (one for each case)", TARGET),
        { 'g', "hdr-digest", NULL, "ask for header digests where the case does not care", OPTION_FLAG,
          TARGET, offsetof(struct options, suite.hdgst), 0, 0, NULL, NULL },
        { 'G', "data-digest", NULL, "likewise for data digests", OPTION_FLAG,
          TARGET, offsetof(struct options, suite.ddgst), 0, 0, NULL, NULL },
        NUMBER(0, "hpda", "N", hpda, 0, PDU_PDA_MAX, "likewise: alignment of data sent to us, 0 to 31", TARGET),
        CALL(0, "allow-write", "RANGE", take_allow_write, "NSID[:SLBA+BLOCKS] that cases may write to; else none writes", TARGET),
        CALL('S', "dhchap-secret", "KEY", take_key, "our key, where it asks for authentication: DHHC-1:..., or @FILE", TARGET),
        CALL('C', "dhchap-ctrl-secret", "KEY", take_ctrl_key, "the subsystem's, which it has to authenticate itself with, or @FILE", TARGET),
        CALL(0, "denied-nqn", "NQN", take_denied, "a subsystem there that does not allow our host", TARGET),
        STRING(0, "change", "CMD", change, "the shell's 'CMD namespaces' and 'CMD discovery' make one such change each time; exit 77: it can't", TARGET),
        NUMBER(0, "wait", "SEC", wait, 0, 3600, "for a target that is about to start, so long at most", TARGET),
        CHOICE(0, "role", "ROLE", role, "target|host", "what is tested: target or host (target); a host finds a target at -a -s, another one for each case", TARGET),
        STRING(0, "hook", "CMD", hosted.hook, "--role host: the shell's command that makes the host connect, work and go; see below", TARGET),

        CHOICE(0, "level", "LEVEL", level, "must|should|info", "must, should or info: this and above (info)", CASES),
        CALL(0, "rule", "RULE", take_rule, "those that test this rule; repeatable", CASES),
        CALL(0, "exclude", "ID", take_excluded, "not these; repeatable", CASES),
        FLAG("list", list, "show them (with --json FILE: as JSON)", CASES),
        FLAG("dry-run", dry_run, "show what would run", CASES),
        STRING(0, "explain", "ID", explain, "all about a case or a rule", CASES),
        FLAG("rules", rules, "the rulebook (with --json FILE: as JSON)", CASES),
        FLAG("count", count, "with --rules: how many there are, and what proves them", CASES),

        FLAG("strict", suite.strict, "the exact reaction is demanded, and what should be", RUN),
        NUMBER('j', "jobs", "N", jobs, 1, 256, "cases at once (16; with --hook 1)", RUN),
        CALL(0, "timeout-scale", "X", take_scale, "all waits times X", RUN),
        NUMBER(0, "repeat", "N", repeat, 1, 1000000, "each case N times, the worst counts", RUN),
        NUMBER(0, "seed", "N", seed, 0, UINT32_MAX, "of data and host identifiers", RUN),

        { 'v', "verbose", NULL, "each PDU as it goes, on stderr", OPTION_FLAG, REPORTS,
          offsetof(struct options, verbose), 0, 0, NULL, NULL },
        FLAG("brief", brief, "only what did not pass", REPORTS),
        FLAG("show-rules", show_rules, "which rules were covered", REPORTS),
        STRING(0, "json", "FILE", json, "all results; '-' is stdout, here and below", REPORTS),
        STRING(0, "junit", "FILE", junit, "JUnit XML", REPORTS),
        STRING(0, "tap", "FILE", tap, "Test Anything Protocol", REPORTS),
        STRING(0, "html", "FILE", html, "one page, nothing to fetch", REPORTS),
        STRING(0, "pcap", "FILE", pcap, "record the cases' connections, a .pcapng with their ids as comments; RDMA as RoCEv2, with READs and WRITEs as the responses imply them", REPORTS),
        STRING(0, "transcript", "DIR", suite.transcripts, "text and pcap of each case that did not pass", REPORTS),
        CALL(0, "baseline", "FILE", take_baseline, "known failures: lines 'ID fail|lenient # why'; repeatable", REPORTS),
        FLAG("baseline-lax", baseline_lax, "a known failure that passes is no failure", REPORTS),

        FLAG("power", power, "break each rule in it: does a case find out?", EMBEDDED),
        CALL(0, "waive", "RULE", take_waived, "it does not check this; repeatable", EMBEDDED),
        CALL(0, "violate", "RULE", take_violated, "it breaks this; repeatable", EMBEDDED),
        CALL(0, "ns", "SPEC", take_ns, "a namespace: mem:64M, file:PATH, null:1G[,bs=4096]; repeatable", EMBEDDED),
        NUMBER(0, "cpda", "N", cpda, 0, PDU_PDA_MAX, "alignment of data sent to it, 0 to 31", EMBEDDED),
        CALL(0, "limit", "NAME=VALUE", take_limit, "a bound of it (queue_entries=16); repeatable", EMBEDDED),
        { 'h', "help", NULL, "this", OPTION_FLAG, EMBEDDED, offsetof(struct options, help), 0, 0, NULL, NULL },
        { 0 },
};
/* clang-format on */

void options_usage(FILE *out)
{
        static const struct {
                const char *title;
                uint32_t group;
        } groups[] = {
                { "The target (without -a: the embedded one)", TARGET },
                { "Which cases", CASES },
                { "How they run", RUN },
                { "Reports", REPORTS },
                { "The embedded target", EMBEDDED },
        };

        fprintf(out, "usage: nvmfspec conform [OPTION...] [ID...]\n\n"
                     "Judges an NVMe/TCP or NVMe/RDMA target, or host. An ID is a case "
                     "(tcp/h2cdata/ttag-unknown), the "
                     "start\nof one (tcp/alignment) or a glob; without any all cases run.\n");
        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
                fprintf(out, "\n%s\n", groups[i].title);
                option_help(table, groups[i].group, out);
        }
        fprintf(
            out,
            "\n--role host: CMD finds NVMF_TRTYPE, NVMF_TRADDR, NVMF_TRSVCID, NVMF_SUBNQN, "
            "NVMF_HDGST and\nNVMF_DDGST (1: to be asked for), NVMF_DHCHAP_SECRET and "
            "NVMF_DHCHAP_CTRL_SECRET (keys, or nothing),\nNVMF_KATO and NVMF_IDLE (seconds; 0: as "
            "usual, none) in its environment. It makes the host connect,\nwrite some MiB of "
            "namespace 1, be idle, read them back and disconnect, and exits with 0 if all of\nthat "
            "went well, with 77 if the host can't do it, else with something else. Without --hook "
            "the\nreference host is tested.\n");
        fprintf(out, "\nExit status: 0 passed, 1 failed, 2 usage, 3 harness or connection broke, "
                     "77 all skipped.\n");
}

/* --- all of it ----------------------------------------------------------------------------- */

static bool is_host(const struct options *o)
{
        return o->role && strcmp(o->role, "host") == 0;
}

static bool is_spoilt(const struct options *o)
{
        return !rule_set_empty(&o->policy.waived) || !rule_set_empty(&o->policy.violated);
}

static int check_target(const struct options *o)
{
        if (o->hosted.hook)
                return wrong("--hook is for --role host");
        if (o->suite.traddr && (is_spoilt(o) || o->ns.count > 0 || o->cpda > 0 || o->limited))
                return wrong("--waive, --violate, --ns, --cpda and --limit are for the embedded "
                             "target");
        if (o->suite.traddr && o->power)
                return wrong("--power is for the embedded target");
        if (!o->suite.traddr && (o->suite.subnqn || o->suite.trsvcid))
                return wrong("-n and -s need -a");
        return 0;
}

static bool is_about_targets(const struct options *o)
{
        const struct suite *s = &o->suite;

        return s->subnqn || s->hostnqn || s->hostid || s->hdgst || s->ddgst || o->hpda > 0 ||
               s->may_write || s->dhchap.len > 0 || s->dhchap_ctrl.len > 0 || s->caps.denied ||
               o->change || o->wait > 0 || o->ns.count > 0 || o->cpda > 0 || o->limited;
}

/* A party overlooks what binds its peer, and breaks what binds itself; what a receiver tolerates it may
 * do or overlook, whoever the rule binds. */
static bool is_free(enum rule_id rule)
{
        return rule_get(rule)->reaction == REACT_TOLERATE;
}

static int check_waived(enum rule_id rule, enum party tested)
{
        if (rule_get(rule)->bound != tested || is_free(rule))
                return 0;
        return wrong("--waive: '%s' binds the %s itself", rule_get(rule)->id, party_name(tested));
}

static int check_violated(enum rule_id rule, enum party tested)
{
        const char *id = rule_get(rule)->id;

        if (is_free(rule))
                return 0;
        if (rule_get(rule)->bound != tested)
                return wrong("--violate: '%s' binds the %s", id, party_name(peer_of(tested)));
        if (tested == PARTY_HOST && !spoil_host_can(rule))
                return wrong("--violate: nothing that the host sends can break '%s'", id);
        return 0;
}

static int check_policy(const struct rule_policy *p, enum party tested)
{
        int bad = 0;

        rule_each_in (&p->waived, rule)
                bad = bad ? bad : check_waived(rule, tested);
        rule_each_in (&p->violated, rule)
                bad = bad ? bad : check_violated(rule, tested);
        return bad;
}

static int check_host(const struct options *o)
{
        if (!o->hosted.hook && (o->suite.traddr || o->suite.trsvcid))
                return wrong("-a and -s need --hook: the reference host needs no address");
        if (o->hosted.hook && strlen(o->hosted.hook) > HOOK_MAX)
                return wrong("--hook is longer than %d bytes", HOOK_MAX);
        if (o->hosted.hook && (is_spoilt(o) || o->power))
                return wrong("--waive, --violate and --power are for the reference host");
        if (o->pcap)
                return wrong("--pcap is for --role target; --transcript keeps what hosts did");
        if (is_about_targets(o))
                return wrong("of options about the target --role host takes -t, -a, -s and --hook");
        return 0;
}

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
                                return wrong("%s and %s both go to '%s'", outs[k].name,
                                             outs[i].name, outs[i].path);
        return 0;
}

static int check(const struct options *o)
{
        int bad = is_host(o) ? check_host(o) : check_target(o);
        uint64_t port;

        if (!bad)
                bad = check_outputs(o);
        if (!bad)
                bad = check_policy(&o->policy, is_host(o) ? PARTY_HOST : PARTY_CONTROLLER);
        if (bad)
                return bad;
        if (o->suite.trsvcid &&
            (option_number(o->suite.trsvcid, &port) < 0 || port == 0 || port > 65535))
                return wrong("option -s: '%s' is no port", o->suite.trsvcid);
        if (o->count && !o->rules)
                return wrong("--count goes with --rules");
        if (o->list + o->dry_run + o->rules + o->power + !!o->explain > 1)
                return wrong("--list, --dry-run, --rules, --explain and --power are one at a time");
        return 0;
}

static enum action action_of(const struct options *o)
{
        if (o->help)
                return ACT_HELP;
        if (o->rules)
                return ACT_RULES;
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
        bool rdma = o->transport && strcmp(o->transport, "rdma") == 0;

        o->action = action_of(o);
        o->suite.trtype = o->selection.trtype = rdma ? TRTYPE_RDMA : TRTYPE_TCP;
        o->suite.hpda = (uint8_t)o->hpda;
        o->suite.seed = (uint32_t)o->seed;
        o->suite.narrate = o->verbose ? stderr : NULL;
        o->selection.level = level_of(o->level);
        o->selection.excluded = o->excluded.items;
        o->selection.excluded_count = o->excluded.count;
        o->selection.role = is_host(o) ? ROLE_HOST : ROLE_TARGET;
        o->hosted.policy = o->policy;
        if (is_host(o) && o->hosted.hook && o->jobs == 0)
                o->jobs = 1; /* who knows how many at a time it can be asked for */
        if (o->jobs == 0)
                o->jobs = JOBS;
        if (!o->suite.trsvcid)
                o->suite.trsvcid = is_host(o) ? "0" : "4420";
        if (!o->suite.traddr && is_host(o))
                o->suite.traddr = "127.0.0.1";
        if (!o->suite.traddr)
                o->suite.may_write = true;
        if (o->ns.count == 0)
                o->ns.items[o->ns.count++] = "mem:64M";
}

int options_parse(struct options *o, int argc, char **argv)
{
        char error[512];
        int rest, bad;

        *o = (struct options) {
                .repeat = 1,
                .suite.timeout_scale = 1,
                .seed = (uint32_t)(loop_wall_ns() / 1000000000) ^ (uint32_t)getpid() << 16,
        };
        rest = option_parse(table, ALL, argc, argv, o, error, sizeof(error));
        if (rest < 0)
                return wrong("%s", error);
        bad = check(o);
        finish_up(o);
        o->selection.ids = argv + rest;
        o->selection.id_count = (size_t)(argc - rest);
        return bad;
}
