/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "distil.h"
#include "finding.h"
#include "fuzz/sequence/fuzz_family.h"
#include "fuzz/sequence/seq_mutate.h"
#include "pdu/io/option_table.h"
#include "pdu/io/output.h"

struct fuzz_call {
        const char *name; /* of the subcommand */
        const struct fuzz_family *family;
        struct fuzz_args *args;
        struct campaign_config *config; /* of the arguments */
        bool live;                      /* a target was named */
        char **word;
        int words;
};

static int refuse(const char *name, const char *why)
{
        fprintf(stderr, "nvmfspec fuzz %s: %s\n", name, why);
        return FUZZ_USAGE;
}

static int unreadable(const char *name, const char *why)
{
        fprintf(stderr, "nvmfspec fuzz %s: %s\n", name, why);
        return FUZZ_UNREADABLE;
}

static void print(const struct sequence *s)
{
        static char text[SEQ_TEXT];

        seq_print(s, text, sizeof(text));
        fputs(text, stdout);
}

/* A target has one transport. False: nothing is left, and it was said why. */
static bool keep_playable(const struct fuzz_call *call, struct corpus *c)
{
        const struct remote_target *t = &call->config->target;
        unsigned dropped = corpus_keep(c, t->family, t->transport);

        if (dropped > 0)
                fprintf(stderr, "nvmfspec fuzz %s: skipped %u sequences that are not for %s\n",
                        call->name, dropped, t->family->family->transports[t->transport]);
        return c->n > 0 || dropped == 0;
}

/* All sequences of these files. False: it was said why. */
static bool load(const struct fuzz_call *call, struct corpus *c)
{
        unsigned skipped = 0;
        char err[CORPUS_ERROR];

        for (int i = 0; i < call->words; i++)
                if (!corpus_load(c, call->word[i], &skipped, err)) {
                        unreadable(call->name, err);
                        corpus_free(c);
                        return false;
                }
        if (skipped > 0)
                fprintf(stderr, "%u files contain no sequence\n", skipped);
        return !call->live || keep_playable(call, c);
}

/* --- show, mutate ------------------------------------------------------------------------------- */

static int show(const struct fuzz_call *call)
{
        struct corpus c = { 0 };

        if (!load(call, &c))
                return FUZZ_UNREADABLE;
        for (unsigned i = 0; i < c.n; i++)
                print(c.at[i]);
        corpus_free(&c);
        return FUZZ_OK;
}

static int mutate(const struct fuzz_call *call)
{
        struct corpus c = { 0 };
        char err[CORPUS_ERROR];
        uint64_t seed;

        if (call->words != 2 || option_number(call->word[1], &seed) < 0)
                return refuse(call->name, "a file and a seed are required");
        if (!corpus_load(&c, call->word[0], NULL, err))
                return unreadable(call->name, err);
        for (unsigned i = 0; i < c.n; i++) {
                seq_mutate(c.at[i], &seed);
                print(c.at[i]);
        }
        corpus_free(&c);
        return FUZZ_OK;
}

/* --- repro -------------------------------------------------------------------------------------- */

static void print_rules(const struct fuzz_family *f, const struct rule_set *broken)
{
        rule_each_in (broken, id) {
                const struct rule *r = rulebook_get(f->family->rules, id);

                printf("%s: the %s: %s\n", r->id, family_party(f->family, r->bound), r->says);
        }
}

static void print_message(const struct fuzz_family *f, unsigned on, enum party sender,
                          const void *message)
{
        char line[300];
        struct text t = text_in(line, sizeof(line));

        if (f->command->line)
                f->command->line(&t, on, sender, message);
        printf("%s %s\n", sender == PARTY_HOST ? "host      >" : "controller<", line);
}

static void on_own_message(void *user, unsigned on, enum party sender, const void *message)
{
        print_message(user, on, sender, message);
}

static void repro_own(const struct sequence *s)
{
        struct remote_answer a = { 0 };

        if (!s->family->play) {
                printf("%s: there are no machines of our own to play to: use -a\n",
                       s->family->family->name);
                return;
        }
        s->family->play(s, &a, on_own_message, (void *)(uintptr_t)s->family);
        print_rules(s->family, &a.broken);
        printf("%s after %u steps, %u PDUs back\n", a.why, a.steps, a.pdus);
}

static void on_live_message(void *user, unsigned on, enum party sender, const void *message)
{
        const struct player *p = user;

        if (on > 0)
                printf("%u ", on);
        print_message(p->config->target.family, on, sender, message);
}

/* One that is lost is started again, if there is a command for it, and the next is played. */
static bool go_on(const struct fuzz_call *call, bool bad)
{
        char why[ORACLE_LINE] = "";

        if (!call->config->restart)
                return !bad;
        if (bad ? finding_revive(call->config, why) : finding_awake(call->config, why)) {
                if (bad && *why)
                        printf("lost because of: %s\n", why);
                return true;
        }
        unreadable(call->name, why);
        return false;
}

static enum trouble_kind repro_live(struct player *p, const struct sequence *s, uint64_t late)
{
        const struct remote_answer *a = &p->session->answer;
        struct trouble t;

        player_play(p, s);
        t = player_ask(p, true, late);

        print_rules(s->family, &a->broken);
        printf("%s after %u steps, %u PDUs back%s%s\n", remote_end_name(a->end), a->steps, a->pdus,
               *a->why ? ": " : "", a->why);
        if (t.kind != TROUBLE_NONE)
                printf("%s%s%s\n", trouble_name(t.kind), *t.says ? ": " : "", t.says);
        fflush(stdout);
        return t.kind;
}

static void tame(struct sequence *s)
{
        unsigned before = s->steps;

        s->family->tame(s);
        if (s->steps < before)
                printf("skipped %u steps that may change data: --allow-write permits them\n",
                       before - s->steps);
}

static int repro_all_live(const struct fuzz_call *call, const struct corpus *c)
{
        struct loop loop;
        struct player p;
        bool found = false, well = true;
        char why[ORACLE_LINE];

        if (!finding_awake(call->config, why))
                return unreadable(call->name, why);
        if (loop_init(&loop) < 0 || player_init(&p, call->config, &loop) < 0)
                return unreadable(call->name, strerror(errno));
        p.session->message = on_live_message;
        for (unsigned i = 0; i < c->n && well; i++) {
                enum trouble_kind kind;

                if (!call->config->target.allow_write)
                        tame(c->at[i]);
                kind = repro_live(&p, c->at[i], i + 1 < c->n ? 0 : call->config->late);
                found |= kind != TROUBLE_NONE;
                /* a target that breaks a rule, or hangs, keeps what the next ones add to */
                well = go_on(call, kind == TROUBLE_LOST ||
                                       (kind == TROUBLE_ORACLE && call->config->restart));
        }
        player_fini(&p);
        loop_fini(&loop);
        return found ? FUZZ_FOUND : FUZZ_OK;
}

static int repro(const struct fuzz_call *call)
{
        struct corpus c = { 0 };
        int rc = FUZZ_OK;

        if (!load(call, &c))
                return FUZZ_UNREADABLE;
        if (call->live)
                rc = repro_all_live(call, &c);
        for (unsigned i = 0; !call->live && i < c.n; i++)
                repro_own(c.at[i]);
        corpus_free(&c);
        return rc;
}

/* --- remote ------------------------------------------------------------------------------------- */

static int remote(const struct fuzz_call *call)
{
        struct campaign_config config = *call->config;
        int rc;

        if (config.out && !output_folder(config.out)) {
                fprintf(stderr, "nvmfspec fuzz remote: %s: %s\n", config.out, strerror(errno));
                return FUZZ_USAGE;
        }
        if (!load(call, &config.corpus))
                return FUZZ_UNREADABLE;
        for (unsigned i = 0; i < config.corpus.n; i++)
                if (config.corpus.at[i]->side != PARTY_HOST)
                        return refuse(call->name, "only sequences of a host can be played to a "
                                                  "target");
        rc = campaign_run(&config);
        corpus_free(&config.corpus);
        return rc;
}

/* --- min, merge --------------------------------------------------------------------------------- */

static int minimise(const struct fuzz_call *call)
{
        struct corpus c = { 0 };
        char err[CORPUS_ERROR];
        int rc;

        if (!load(call, &c))
                return FUZZ_UNREADABLE;
        if (c.n != 1) {
                corpus_free(&c);
                return refuse(call->name, "one sequence at a time");
        }
        rc = distil_min(call->config, call->live, c.at[0]);
        if (rc == FUZZ_FOUND && call->config->out) {
                if (!corpus_save(&c, call->config->out, NULL, err))
                        rc = unreadable(call->name, err);
        } else if (rc == FUZZ_FOUND) {
                print(c.at[0]);
        }
        corpus_free(&c);
        return rc;
}

static int merge(const struct fuzz_call *call)
{
        struct corpus c = { 0 };
        int rc;

        if (!call->config->out)
                return refuse(call->name, "no output given: use -o DIR");
        if (!load(call, &c))
                return FUZZ_UNREADABLE;
        rc = distil_merge(call->config, call->live, &c, call->config->out);
        corpus_free(&c);
        return rc;
}

/* --- options ------------------------------------------------------------------------------------ */

static bool take_waive(void *args, const char *value, char *error, size_t size)
{
        struct fuzz_args *a = args;

        return option_rule(a->config.target.family->family->rules, &a->policy.waived, value, error,
                           size);
}

#define AT(member) .at = offsetof(struct fuzz_args, member)
/* clang-format off */
static const struct option_row where[] = {
        { 't', "transport", "TYPE", NULL, OPTION_CHOICE, FUZZ_LIVE, AT(transport) },
        { 'a', "traddr", "ADDR", "the target", OPTION_STRING, FUZZ_LIVE, AT(traddr) },
        { 's', "trsvcid", "PORT", "its port (4420)", OPTION_STRING, FUZZ_LIVE, AT(trsvcid) },
        { 0 },
};

static const struct option_row how[] = {
        { 0, "reload", "CMD", "shell command that gives the target the configuration whose number follows "
                              "it: 'reload N' steps run it; 0 is the first, and comes back after a session", OPTION_STRING, FUZZ_LIVE, AT(reload) },
        { 0, "reloads", "N", "configurations that --reload has (4)", OPTION_NUMBER, FUZZ_LIVE, AT(reloads), .min = 1, .max = SEQ_RELOADS },
        { 0, "revokes", "N", "the one of them that takes from hosts what let them in: a connection from before it that "
                             "is served --hang later is a finding", OPTION_NUMBER, FUZZ_LIVE, AT(revokes), .min = 1, .max = SEQ_RELOADS },
        { 0, "allow-write", NULL, "also send commands that change data and settings: destroys data", OPTION_FLAG, FUZZ_LIVE, AT(allow_write) },
        { 0, "waive", "RULE", "do not check this rule of controllers; repeatable", OPTION_CALL, FUZZ_LIVE, .call = take_waive },
        { 0, "timeout", "MS", "timeout of connections and of answers to a probe, in "
                              "milliseconds (5000)", OPTION_NUMBER, FUZZ_LIVE, AT(timeout), .min = 1, .max = 600000 },
        { 0, "settle", "MS", "after this silence in milliseconds nothing more is expected (5 in "
                             "a campaign, where waiting costs time; else 20)", OPTION_NUMBER, FUZZ_LIVE, AT(settle), .min = 1, .max = 60000 },
        { 0, "hang", "MS", "milliseconds within which the target closes a connection that we "
                           "closed (10000)", OPTION_NUMBER, FUZZ_LIVE, AT(hang), .min = 1, .max = 600000 },
        { 0, "max-delay", "MS", "the longest delay of a sequence in milliseconds (1)", OPTION_NUMBER, FUZZ_LIVE, AT(delay), .max = 600000 },
        { 0, "time", "SEC", "run time in seconds", OPTION_SECONDS, FUZZ_CAMPAIGN, AT(config.time), .min = 1, .max = UINT64_C(8640000000) },
        { 0, "runs", "N", "number of sessions", OPTION_NUMBER, FUZZ_CAMPAIGN, AT(config.runs), .min = 1 },
        { 0, "seed", "N", "seed of all random choices (1)", OPTION_NUMBER, FUZZ_CAMPAIGN, AT(config.seed) },
        { 0, "findings", "N", "stop after the Nth finding", OPTION_NUMBER, FUZZ_CAMPAIGN, AT(config.findings), .min = 1 },
        { 0, "look", "MS", "milliseconds between two health checks of the target (1000)", OPTION_NUMBER, FUZZ_CAMPAIGN, AT(config.look), .min = 10, .max = 600000 },
        { 0, "jobs", "N", "connections in parallel (4)", OPTION_NUMBER, FUZZ_CAMPAIGN, AT(config.jobs), .min = 1, .max = CAMPAIGN_JOBS },
        { 0, "oracle", "CMD", "shell command, run at each health check and after trials: an "
                              "exit status other than 0 is a finding, and its first line names "
                              "it. It must report each problem once, or --restart must clear it", OPTION_STRING, FUZZ_ORACLE, AT(config.oracle) },
        { 0, "late", "MS", "milliseconds that the oracle may lag: sessions of that time are "
                           "suspected, and trials wait that long (0)", OPTION_NUMBER, FUZZ_ORACLE, AT(config.late), .max = 600000 },
        { 0, "restart", "CMD", "shell command that restarts the target when it is lost or the "
                               "oracle reports a problem; its first line names the cause. Then "
                               "the target must answer within --timeout", OPTION_STRING, FUZZ_ORACLE, AT(config.restart) },
        { 0, "fresh", NULL, "--restart the target after each trial, too: what one leaves behind is not the "
                            "harm of the next", OPTION_FLAG, FUZZ_ORACLE, AT(config.fresh) },
        { 0, "minimise", "SEC", "seconds spent at most to minimise a finding (60)", OPTION_SECONDS, FUZZ_CAMPAIGN | FUZZ_MIN, AT(config.minimise) },
        { 'o', "out", "DIR", "folder to save findings (.seq and .pcap) and the corpus in, after "
                             "those of earlier runs", OPTION_STRING, FUZZ_CAMPAIGN, AT(config.out) },
        { 'o', "out", "FILE", "file to write to (standard output)", OPTION_STRING, FUZZ_MIN, AT(config.out) },
        { 'o', "out", "DIR", "folder to write to, after what it already contains", OPTION_STRING, FUZZ_MERGE, AT(config.out) },
        { 'h', "help", NULL, "print this help", OPTION_FLAG, FUZZ_ANY, AT(help) },
        { 0 },
};
/* clang-format on */

enum { SETTLE_MANY = 5, SETTLE_ONE = 20 };

static const struct fuzz_args default_args = {
        .config = { .seed = 1, .jobs = 4, .minimise = 60000, .look = 1000 },
        .trsvcid = "4420",
        .timeout = 5000,
        .hang = 10000,
        .delay = 1,
        .reloads = 4,
};

static unsigned transport_of(const struct fuzz_family *f, const char *name)
{
        unsigned i = 0;

        while (name && strcmp(f->family->transports[i], name) != 0)
                i++;
        return i;
}

/* What a target is told of the arguments. */
static bool complete(struct fuzz_args *a, uint32_t groups, char *error, size_t size)
{
        struct remote_target *t = &a->config.target;

        if (a->config.fresh && !a->config.restart)
                snprintf(error, size, "--fresh needs --restart");
        else if (a->revokes >= a->reloads)
                snprintf(error, size, "--revokes %u is none of the %u configurations",
                         (unsigned)a->revokes, (unsigned)a->reloads);
        else {
                if (a->settle == 0)
                        a->settle = groups & FUZZ_CAMPAIGN ? SETTLE_MANY : SETTLE_ONE;
                t->transport = transport_of(t->family, a->transport);
                t->timeout = (unsigned)a->timeout;
                t->settle = (unsigned)a->settle;
                t->hang = (unsigned)a->hang;
                t->delay = (unsigned)a->delay;
                t->allow_write = a->allow_write;
                t->reload = a->reload;
                t->reloads = (unsigned)a->reloads;
                t->revokes = (unsigned)a->revokes;
                return t->family->command->complete(a, error, size);
        }
        return false;
}

/* --- all of them -------------------------------------------------------------------------------- */

/* clang-format off */
static const struct subcommand {
        const char *name, *words, *says;
        uint32_t groups;
        int least; /* words */
        int (*run)(const struct fuzz_call *call);
} subcommands[] = {
        { "remote", "[SEED...]", "send mutated sessions to a target and check its health", FUZZ_LIVE | FUZZ_CAMPAIGN | FUZZ_ORACLE, 0, remote },
        { "repro", "FILE...", "play sequences to our own machines in memory, or to a target (-a)", FUZZ_LIVE | FUZZ_ORACLE, 1, repro },
        { "min", "FILE", "find the smallest sequence that still crashes our own machines, or "
                         "harms a target (-a)", FUZZ_LIVE | FUZZ_ORACLE | FUZZ_MIN, 1, minimise },
        { "merge", "DIR...", "keep the sequences that show something new, short ones first", FUZZ_LIVE | FUZZ_MERGE, 1, merge },
        { "show", "FILE...", "read sequences and print them", 0, 1, show },
        { "mutate", "FILE SEED", "print the mutant that this seed makes", 0, 2, mutate },
};
/* clang-format on */
enum { SUBCOMMANDS = sizeof(subcommands) / sizeof(subcommands[0]) };

static int usage(FILE *out)
{
        fputs("usage: nvmfspec fuzz SUBCOMMAND [OPTION...]\n\n", out);
        for (size_t i = 0; i < SUBCOMMANDS; i++)
                fprintf(out, "  %-7s %-11s %s\n", subcommands[i].name, subcommands[i].words,
                        subcommands[i].says);
        fputs("\n"
              "A sequence is a text with one step per line; fuzz/sequence/sequence.h describes "
              "it. From a capture\n"
              "the messages of its hosts are read.\n"
              "'nvmfspec fuzz SUBCOMMAND --help' lists the options of a subcommand.\n"
              "Exit: 0 done, nothing found, 1 something was found, 2 usage error,\n"
              "3 a file that is not a sequence, or no target.\n",
              out);
        return out == stdout ? FUZZ_OK : FUZZ_USAGE;
}

/* A target is there: another one's, or the family's own. False: error says why that could not be started. */
static bool find_target(struct fuzz_call *call, uint32_t groups, char *error, size_t size)
{
        const struct fuzz_command *f = call->family->command;

        call->live = call->args->traddr;
        if (call->live || !f->embed || !(groups & FUZZ_LIVE))
                return true;
        call->live = f->embed(call->args, error, size);
        return call->live;
}

static int call_it(const struct subcommand *s, struct fuzz_call *call, int argc, char **argv)
{
        char error[400];
        struct option_table t;
        int first;

        option_table_make(&t, (const void *const *)fuzz_families, where,
                          call->family->command->options, how);
        first = option_parse(t.rows, s->groups | FUZZ_ANY, argc, argv, call->args, error,
                             sizeof(error));
        if (first < 0 || !complete(call->args, s->groups, error, sizeof(error)))
                return refuse(s->name, error);
        if (call->args->help) {
                printf("usage: nvmfspec fuzz %s %s [OPTION...]\n%s\n\n", s->name, s->words,
                       s->says);
                option_help(t.rows, s->groups | FUZZ_ANY, stdout);
                return FUZZ_OK;
        }
        call->word = argv + first;
        call->words = argc - first;
        if (call->words < s->least)
                return refuse(s->name, s->words);
        if (!find_target(call, s->groups, error, sizeof(error)))
                return unreadable(s->name, error);
        if (!call->live && s->run == remote)
                return refuse(s->name, "no address given: use -a ADDR");
        return s->run(call);
}

static int run(const struct subcommand *s, int argc, char **argv)
{
        const struct fuzz_family *f = option_family((const void *const *)fuzz_families, argc, argv);
        struct fuzz_call call = { .name = s->name };
        int rc;

        call.family = f;
        call.args = calloc(1, f->command->args_size);
        if (!call.args)
                return unreadable(s->name, strerror(ENOMEM));
        *call.args = default_args;
        call.config = &call.args->config;
        call.config->target.family = f;
        if (f->command->defaults)
                f->command->defaults(call.args);
        rc = call_it(s, &call, argc, argv);
        if (f->command->stop)
                f->command->stop(call.args);
        free(call.args);
        return rc;
}

int fuzz_command(int argc, char **argv)
{
        const char *what = argc > 1 ? argv[1] : "";

        if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0)
                return usage(stdout);
        for (size_t i = 0; i < SUBCOMMANDS; i++)
                if (strcmp(what, subcommands[i].name) == 0)
                        return run(&subcommands[i], argc - 1, argv + 1);
        return usage(stderr);
}
