/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/io/verbs_record.h"
#include "pdu/nvme/wire/identify.h"

enum connects { ITSELF, ADMIN, IO };

/* clang-format off */
static const struct subcommand {
        const char *name, *words, *says;
        call_fn *run, *check; /* check: what can be told to be wrong before connecting; may be NULL */
        enum connects connects;
        unsigned queues;      /* I/O queues where -i does not say */
        uint32_t groups;
} subcommands[] = {
#define COMMON ARGS_WHERE | ARGS_WHO
#define BLOCKS COMMON | ARGS_NSID | ARGS_SLBA | ARGS_BLOCKS
#define LOAD   COMMON | ARGS_NSID | ARGS_QUEUES | ARGS_OUTPUT | ARGS_LOAD
        { "discover", "", "list the subsystems that a discovery service knows",
          call_discover, NULL, ITSELF, 0, COMMON | ARGS_OUTPUT | ARGS_DISCOVER },
        { "identify", "[ctrl|ns|ns-list|ns-descs]", "show what a controller or namespace "
                                                    "reports about itself",
          call_identify, check_identify, ADMIN, 0, COMMON | ARGS_NSID | ARGS_OUTPUT },
        { "list", "", "list the namespaces of a subsystem",
          call_list, NULL, ADMIN, 0, COMMON | ARGS_OUTPUT },
        { "get-log", "LOG", "read a log page, by number or name",
          call_get_log, check_log, ADMIN, 0, COMMON | ARGS_OUTPUT | ARGS_LOG },
        { "get-feature", "FEATURE", "read a feature, by number or name",
          call_get_feature, check_feature, ADMIN, 0, COMMON | ARGS_OUTPUT | ARGS_GET_FEATURE },
        { "set-feature", "FEATURE", "set a feature",
          call_set_feature, check_set_feature, ADMIN, 0, COMMON | ARGS_FILE | ARGS_SET_FEATURE },
        { "read", "", "read logical blocks to a file or the terminal",
          call_read, NULL, IO, 1, BLOCKS | ARGS_FILE | ARGS_FUA | ARGS_OUTPUT },
        { "write", "", "write logical blocks from a file or a pattern",
          call_write, NULL, IO, 1, BLOCKS | ARGS_FILE | ARGS_PATTERN | ARGS_FUA },
        { "compare", "", "compare logical blocks with a file or a pattern",
          call_compare, NULL, IO, 1, BLOCKS | ARGS_FILE | ARGS_PATTERN | ARGS_FUA },
        { "flush", "", "make what was written durable",
          call_flush, NULL, IO, 1, COMMON | ARGS_NSID },
        { "zeroes", "", "Write Zeroes",
          call_zeroes, NULL, IO, 1, BLOCKS | ARGS_FUA | ARGS_DEAC },
        { "dsm", "[SLBA+BLOCKS...]", "Dataset Management: deallocate ranges",
          call_dsm, check_dsm, IO, 1, BLOCKS | ARGS_DSM },
        { "verify", "", "write a pattern over many queues and read it back; destroys data",
          call_verify, NULL, IO, 4, LOAD | ARGS_SLBA | ARGS_VERIFY },
        { "perf", "", "measure IOPS, bandwidth and latency; write loads destroy data",
          call_perf, check_perf, IO, 1, LOAD | ARGS_PERF },
        { "raw", "HEX|@FILE...", "send bytes and print the PDUs that come back",
          call_raw, NULL, ITSELF, 0, ARGS_WHERE | ARGS_RAW },
};
/* clang-format on */
enum { SUBCOMMANDS = sizeof(subcommands) / sizeof(subcommands[0]) };

static void usage(FILE *out)
{
        fputs("usage: nvmfspec host SUBCOMMAND [nvme+tcp|rdma://HOST[:PORT][/NQN]] [OPTION...]\n\n",
              out);
        for (size_t i = 0; i < SUBCOMMANDS; i++)
                fprintf(out, "  %-12s %s\n", subcommands[i].name, subcommands[i].says);
        fputs("\n"
              "'nvmfspec host SUBCOMMAND --help' lists the options of a subcommand.\n"
              "Exit: 0 done, 1 a command failed or data differs, 2 usage error, 3 no "
              "connection.\n",
              out);
}

static void help(const struct subcommand *s)
{
        printf("usage: nvmfspec host %s%s%s [OPTION...]\n%s\n\n", s->name, *s->words ? " " : "",
               s->words, s->says);
        option_help(host_options, s->groups, stdout);
}

static const struct subcommand *find(const char *name)
{
        for (size_t i = 0; i < SUBCOMMANDS; i++)
                if (strcmp(subcommands[i].name, name) == 0)
                        return &subcommands[i];
        return NULL;
}

static void introduce(const struct host_ctrl *c)
{
        char model[4 * sizeof(c->id.mn) + 1];
        struct text t = text_in(model, sizeof(model));

        text_printable(&t, c->id.mn, text_len(c->id.mn, sizeof(c->id.mn)));
        fprintf(stderr, "controller %u of %s, NVMe %u.%u, %s: %u I/O queues of %u entries\n",
                c->cntlid, c->params.subnqn, c->vs >> 16, c->vs >> 8 & 0xff, model, c->io_count,
                c->io_count ? c->io[0].depth + 1u : 0);
}

/* Orderly, unless something broke: then nobody may be there to answer. */
static int disconnect(struct host_ctrl *c, int result, struct host_error *e)
{
        struct host_error late;

        if (result < 0 && e->kind == HOST_BROKEN) {
                host_ctrl_close(c);
                return -1;
        }
        return host_ctrl_disconnect(c, result < 0 ? &late : e) < 0 ? -1 : result;
}

static int run_connected(const struct subcommand *s, struct call *call, struct host_error *e)
{
        struct host_ctrl c;
        struct host_params p;

        if (args_params(call->args, "4420", NULL, &p, e) < 0)
                return -1;
        if (p.io_queues == 0)
                p.io_queues = s->queues;
        if (!call->args->queue_size && p.queue_size <= call->args->iodepth &&
            (s->groups & ARGS_LOAD))
                p.queue_size = (unsigned)call->args->iodepth + 1;
        if (host_ctrl_connect(&c, &p, e) < 0)
                return -1;
        if (call->args->verbose)
                introduce(&c);
        call->ctrl = &c;
        return disconnect(&c, s->run(call, e), e);
}

static int start_recording(struct args *args, struct host_error *e)
{
        struct verbs_provider *devices = NULL;
        char error[300];

        args->record = capture_writer_open(args->pcap, error, sizeof(error));
        if (!args->record)
                return host_fail(e, HOST_USAGE, "%s", error);
        if (args_transport(args) == HOST_TCP)
                return 0;
        devices = verbs_rdma(error, sizeof(error));
        if (!devices)
                return host_fail(e, HOST_BROKEN, "%s", error);
        args->verbs = verbs_record_new(devices, args->record);
        return args->verbs ? 0 : host_fail(e, HOST_BROKEN, "out of memory");
}

static int run_recorded(const struct subcommand *s, struct args *args, struct call *call,
                        struct host_error *e)
{
        int rc = args->pcap ? start_recording(args, e) : 0;

        if (rc == 0)
                rc = s->connects == ITSELF ? s->run(call, e) : run_connected(s, call, e);
        verbs_record_free(args->verbs);
        if (args->record && capture_writer_close(args->record) < 0 && rc == 0)
                return host_fail(e, HOST_BROKEN, "%s: %s", args->pcap, strerror(errno));
        return rc;
}

static int run(const struct subcommand *s, int argc, char **argv, struct host_error *e)
{
        struct args args;
        struct call call = { .args = &args };

        call.count = args_parse(&args, s->groups, argc, argv, &call.words, e);
        if (call.count < 0)
                return -1;
        if (args.help) {
                help(s);
                return 0;
        }
        if (call.count > 0 && !*s->words)
                return host_fail(e, HOST_USAGE, "'%s' is too large", call.words[0]);
        if (s->check && s->check(&call, e) < 0)
                return -1;
        return run_recorded(s, &args, &call, e);
}

int host_command(int argc, char **argv)
{
        const struct subcommand *s = argc > 1 ? find(argv[1]) : NULL;
        struct host_error e = { 0 };

        if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
                usage(stdout);
                return 0;
        }
        if (!s) {
                fprintf(stderr,
                        argc > 1 ? "nvmfspec host: no subcommand '%s'; --help lists them\n"
                                 : "nvmfspec host: no subcommand given; --help lists them\n",
                        argc > 1 ? argv[1] : "");
                return HOST_USAGE;
        }
        if (run(s, argc - 1, argv + 1, &e) == 0)
                return 0;
        fflush(stdout);
        fprintf(stderr, "nvmfspec host %s: %s\n", s->name, e.line);
        return (int)e.kind;
}

int call_namespace(struct call *call, struct call_ns *ns, struct host_error *e)
{
        static struct id_ns id;

        ns->nsid = (uint32_t)call->args->nsid;
        if (host_ctrl_identify(call->ctrl, CNS_NS, ns->nsid, &id, e) < 0)
                return -1;
        ns->block_size = id_ns_block_size(&id);
        ns->blocks = le64_get(id.nsze);
        ns->metadata = id_ns_metadata(&id);
        if (ns->blocks == 0)
                return host_fail(e, HOST_STATUS, "no namespace %u", ns->nsid);
        if (ns->block_size == 0)
                return host_fail(e, HOST_STATUS, "namespace %u has no usable block size", ns->nsid);
        return 0;
}

int call_blocks(struct call *call, struct call_ns *ns, struct host_error *e)
{
        if (call_namespace(call, ns, e) < 0)
                return -1;
        if (ns->metadata > 0)
                return host_fail(e, HOST_USAGE,
                                 "namespace %u has %u bytes of metadata per block of %u bytes, "
                                 "which this host does not transfer",
                                 ns->nsid, ns->metadata, ns->block_size);
        return 0;
}
