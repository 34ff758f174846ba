/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "pdu/io/option_table.h"

/* clang-format off */
static const struct subcommand {
        const char *name, *says;
        pcap_fn *run;
        uint32_t groups;
} subcommands[] = {
        { "show", "print a line per PDU or capsule: frame, seconds, connection, queue, "
                  "direction, contents",
          pcap_show, ARGS_FILTER | ARGS_OUTPUT | ARGS_VERBOSE | ARGS_COUNT | ARGS_JUDGE | ARGS_KEYS | ARGS_TOLD },
        { "check", "check both sides by the rulebook; report the first violation of each "
                   "connection",
          pcap_check, ARGS_OUTPUT | ARGS_CONN | ARGS_JUDGE | ARGS_ALL | ARGS_KEYS | ARGS_TOLD },
        { "stat", "print latencies from capsule to response and their parts, rates and depth "
                  "over time",
          pcap_stat, ARGS_OUTPUT | ARGS_CONN | ARGS_HTML | ARGS_KEYS | ARGS_TOLD },
        { "extract", "extract the blocks of a namespace, the commands as a sequence, or seeds "
                     "for a fuzzer",
          pcap_extract, ARGS_EXTRACT | ARGS_CONN | ARGS_TO | ARGS_KEYS },
        { "anonymize", "write a capture without names, identifiers, addresses and data",
          pcap_anonymize, ARGS_ANON | ARGS_TO | ARGS_KEYS },
};
/* clang-format on */
enum { SUBCOMMANDS = sizeof(subcommands) / sizeof(subcommands[0]) };

static void usage(FILE *out)
{
        fputs("usage: nvmfspec pcap SUBCOMMAND FILE [OPTION...]\n\n", out);
        for (size_t i = 0; i < SUBCOMMANDS; i++)
                fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].says);
        fprintf(out, "  %-10s %s\n", "replay",
                "send the commands to a live target again and compare the answers");
        fputs("\n"
              "FILE is a pcap or pcapng file, -: standard input. NVMe/TCP, also over TLS 1.3 "
              "(--keylog),\n"
              "RoCEv2 and iWARP.\n"
              "'nvmfspec pcap SUBCOMMAND --help' lists the options of a subcommand.\n"
              "Exit: 0 done, 1 check found a broken must or replay a difference, 2 usage "
              "error,\n"
              "3 unreadable or damaged file, or no live target, 4 check found nothing to judge.\n",
              out);
}

static const struct subcommand *find(const char *name)
{
        for (size_t i = 0; i < SUBCOMMANDS; i++)
                if (strcmp(subcommands[i].name, name) == 0)
                        return &subcommands[i];
        return NULL;
}

static int refuse(const char *name, const char *why)
{
        fprintf(stderr, "nvmfspec pcap %s: %s\n", name, why);
        return PCAP_USAGE;
}

static int read_and_run(const struct subcommand *s, int argc, char **argv, struct args *args)
{
        struct pcap_call call = { .args = args, .selected = true };
        char error[200] = "";
        int first = option_parse(pcap_options, s->groups, argc, argv, args, error, sizeof(error));
        int rc;

        if (first < 0)
                return refuse(s->name, error);
        if (args->help) {
                printf("usage: nvmfspec pcap %s FILE [OPTION...]\n%s\n\n", s->name, s->says);
                option_help(pcap_options, s->groups, stdout);
                return PCAP_OK;
        }
        if (first + 1 != argc)
                return refuse(s->name, first == argc ? "no file given" : "one file at a time");
        call.file = argv[first];
        if (!args_open(args, call.file, error, sizeof(error)))
                return refuse(s->name, error);
        rc = s->run(&call);
        fflush(stdout);
        if (*call.err)
                fprintf(stderr, "nvmfspec pcap %s: %s\n", s->name, call.err);
        else if (!call.selected)
                return refuse(s->name, "nothing is selected: no such connection or queue");
        /* What was found in part of a capture, for want of memory or of the disk, is not what is in it. */
        if (*call.err && (rc == PCAP_OK || rc == PCAP_UNJUDGED ||
                          strstr(call.err, "out of memory") || strstr(call.err, strerror(EIO))))
                return PCAP_UNREADABLE;
        return rc;
}

/* Options may bring keys: whatever becomes of the rest, they are wiped and freed. */
static int run(const struct subcommand *s, const struct trace_family *const *families, int argc,
               char **argv)
{
        struct args args;
        int rc;

        args_init(&args, families);
        rc = read_and_run(s, argc, argv, &args);
        args_free(&args);
        return rc;
}

/* By the family whose transport -t names, or else by the first one that can. */
static int replay(const struct trace_family *const *families, int argc, char **argv)
{
        const struct trace_family *f = option_family((const void *const *)families, argc, argv);

        for (unsigned i = 0; families[i] && !f->replay; i++)
                f = families[i];
        if (!f->replay)
                return refuse("replay", "no protocol can be replayed");
        return f->replay(families, argc, argv);
}

int pcap_command(const struct trace_family *const *families, int argc, char **argv)
{
        const struct subcommand *s = argc > 1 ? find(argv[1]) : NULL;

        if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
                usage(stdout);
                return PCAP_OK;
        }
        if (argc > 1 && strcmp(argv[1], "replay") == 0)
                return replay(families, argc - 1, argv + 1);
        if (s)
                return run(s, families, argc - 1, argv + 1);
        if (argc > 1)
                fprintf(stderr, "nvmfspec pcap: no subcommand '%s'; --help lists them\n", argv[1]);
        else
                fputs("nvmfspec pcap: no subcommand given; --help lists them\n", stderr);
        return PCAP_USAGE;
}

struct filter {
        struct pcap_call *call;
        const struct trace_reading *how;
};

static bool is_read(const struct pcap_call *call, const struct trace_conn *c)
{
        return !call->can || call->can(call->args, c->family);
}

static void on_record(void *user, const struct trace_record *r)
{
        const struct filter *f = user;
        const struct trace_conn *c = r->e->conn;
        bool selected = args_select_conn(f->call->args, c);

        f->call->selected = f->call->selected || selected;
        if (is_read(f->call, c) && (!c->sealed || f->how->judge))
                f->how->record(f->how->user, r);
        else if (selected && r->e->kind == TRACE_OPENED && !c->sealed)
                fprintf(stderr, "%s: connection %u is of %s, which %s\n", f->call->file, c->number,
                        c->family->name, f->call->cannot);
}

static void on_lost(void *user, const struct trace_record *r)
{
        const struct filter *f = user;

        if (is_read(f->call, r->e->conn))
                f->how->lost(f->how->user, r);
}

bool pcap_sealed(struct pcap_call *call, const struct trace_totals *t)
{
        bool sealed = call->args->trace.tls && t->tls > 0 && t->tls_read == 0;

        if (sealed)
                snprintf(call->err, sizeof(call->err),
                         "%s: none of %" PRIu64 " connections over TLS could be read", call->file,
                         t->tls);
        return sealed;
}

int pcap_records(struct pcap_call *call, const struct trace_reading *how,
                 struct trace_totals *totals)
{
        const struct args *a = call->args;
        struct filter f = { call, how };
        struct trace_options trace = a->trace;
        struct trace_reading own = *how;

        trace.data = call->data;
        own.record = on_record;
        own.lost = how->lost ? on_lost : NULL;
        own.user = &f;
        call->selected = !a->conn && a->qid == ARG_ANY;
        if (trace_records(call->file, a->families, &trace, &own, totals, call->err,
                          sizeof(call->err)) < 0)
                return -1;
        return pcap_sealed(call, totals) ? -1 : 0;
}

static void remark(const struct pcap_call *call, uint64_t n, const char *what)
{
        if (n > 0)
                fprintf(stderr, "%s: %" PRIu64 " %s\n", call->file, n, what);
}

void pcap_remarks(const struct pcap_call *call, const struct trace_totals *t)
{
        unsigned n = 0;

        remark(call, t->gaps, "gaps: the capture is incomplete");
        if (!call->args->trace.tls)
                remark(call, t->tls,
                       "connections use TLS, and are not read without --keylog or --tls-key");
        remark(
            call, t->unlike,
            "TCP connections to ports of controllers begin as another protocol, and are not read");
        if (t->guests > 0)
                fprintf(stderr,
                        "%s: %" PRIu64 " connections on a port of %s are of another protocol\n",
                        call->file, t->guests, call->args->families[0]->name);
        remark(call, t->unknown_link,
               "frames skipped, of interfaces with link types that are not supported");
        remark(call, t->fragments, "IP fragments skipped");
        remark(call, t->cut, "packets whose headers the snapshot cut off");
        remark(call, t->sliced, "RoCEv2 packets that the snapshot cut");
        remark(call, t->unrecognized,
               "TCP connections to ports of controllers began before the capture, and could not be "
               "recognized");
        remark(call, t->guessed_times,
               "frames with timestamps of another clock, which was aligned");
        remark(call, t->repeated, "repeated RoCEv2 packets");
        remark(call, t->strange, "RoCEv2 packets of an unknown queue pair");
        remark(call, t->crc_bad, "FPDUs with a wrong CRC");
        if (t->conns > 0 || *call->err)
                return;
        while (call->args->families[n])
                n++;
        fprintf(stderr, "%s:", call->file);
        while (n-- > 0)
                fprintf(stderr, " no %s connection%s", call->args->families[n]->name,
                        n ? " and" : "");
        fprintf(stderr, " among %" PRIu64 " frames\n", t->frames);
}
