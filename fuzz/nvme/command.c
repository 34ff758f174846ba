/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/campaign/distil.h"
#include "fuzz/campaign/finding.h"
#include "fuzz/inproc/session.h"
#include "fuzz/sequence/seq_mutate.h"
#include "fuzz_args.h"
#include "pdu/io/output.h"

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
        const struct remote_target *t = &call->config.target;
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

static void print_pdu(enum party sender, const union pdu *h, bool admin)
{
        char line[300];
        struct text t = text_in(line, sizeof(line));

        pdu_line(&t, h, admin);
        printf("%s %s\n", sender == PARTY_HOST ? "host      >" : "controller<", line);
}

static void print_rule(enum rule_id id)
{
        const struct rule *r = rule_get(id);

        printf("%s: the %s: %s\n", r->id, party_name(r->bound), r->says);
}

static void on_own_pdu(void *user, enum party sender, const union pdu *h)
{
        const struct sequence *s = user;

        print_pdu(sender, h, !(s->config & SESSION_IO));
}

static void repro_own(struct sequence *s)
{
        struct session_report r = { .pdu = on_own_pdu, .user = s };

        session_play(s, SESSION_DECLARED, &r);
        if (is_fault(r.fault))
                print_rule(r.fault.rule);
        printf("%s after %u steps, %u PDUs back\n", r.end, r.steps, r.pdus);
}

static void on_live_pdu(void *user, unsigned on, enum party sender, const void *message)
{
        (void)user;
        if (on > 0)
                printf("%u ", on);
        print_pdu(sender, message, on == 0);
}

/* One that is lost is started afresh, if there is a command for it, and the next is played. */
static bool go_on(const struct fuzz_call *call, bool bad)
{
        char why[ORACLE_LINE] = "";

        if (!call->config.restart)
                return !bad;
        if (bad ? finding_revive(&call->config, why) : finding_awake(&call->config, why)) {
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

        rule_each (id)
                if (rule_in(&a->broken, id))
                        print_rule(id);
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

        nvme_tame(s);
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

        if (!finding_awake(&call->config, why))
                return unreadable(call->name, why);
        if (loop_init(&loop) < 0 || player_init(&p, &call->config, &loop) < 0)
                return unreadable(call->name, strerror(errno));
        p.session->message = on_live_pdu;
        for (unsigned i = 0; i < c->n && well; i++) {
                enum trouble_kind kind;

                if (!call->config.target.allow_write)
                        tame(c->at[i]);
                kind = repro_live(&p, c->at[i], i + 1 < c->n ? 0 : call->config.late);
                found |= kind != TROUBLE_NONE;
                /* a target that breaks a rule, or hangs, keeps what the next ones add to */
                well = go_on(call, kind == TROUBLE_LOST ||
                                       (kind == TROUBLE_ORACLE && call->config.restart));
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
        struct campaign_config config = call->config;
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
        rc = distil_min(&call->config, call->live, c.at[0]);
        if (rc == FUZZ_FOUND && call->config.out) {
                if (!corpus_save(&c, call->config.out, NULL, err))
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

        if (!call->config.out)
                return refuse(call->name, "no output given: use -o DIR");
        if (!load(call, &c))
                return FUZZ_UNREADABLE;
        rc = distil_merge(&call->config, call->live, &c, call->config.out);
        corpus_free(&c);
        return rc;
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
              "it. From a capture of\n"
              "NVMe/TCP or NVMe/RDMA (RoCEv2, iWARP) the messages of its hosts are read.\n"
              "'nvmfspec fuzz SUBCOMMAND --help' lists the options of a subcommand.\n"
              "Exit: 0 done, nothing found, 1 something was found, 2 usage error,\n"
              "3 a file that is not a sequence, or no target.\n",
              out);
        return out == stdout ? FUZZ_OK : FUZZ_USAGE;
}

static int run(const struct subcommand *s, int argc, char **argv)
{
        static struct fuzz_call call;
        char error[400];
        int first;

        call = (struct fuzz_call) { .name = s->name };
        first = fuzz_args_parse(&call, s->groups, argc, argv, error, sizeof(error));
        if (first < 0)
                return refuse(s->name, error);
        if (call.args.help) {
                printf("usage: nvmfspec fuzz %s %s [OPTION...]\n%s\n\n", s->name, s->words,
                       s->says);
                option_help(fuzz_options, s->groups | FUZZ_ANY, stdout);
                return FUZZ_OK;
        }
        call.word = argv + first;
        call.words = argc - first;
        if (call.words < s->least)
                return refuse(s->name, s->words);
        if (!call.live && s->run == remote)
                return refuse(s->name, "no address given: use -a ADDR");
        return s->run(&call);
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
