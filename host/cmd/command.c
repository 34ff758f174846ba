/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "host/nvme/nvme_load.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/io/nvme_record.h"
#include "pdu/nvme/wire/family.h"
#include "pdu/nvme/wire/identify.h"

enum connects { ITSELF, ADMIN, IO };

/* clang-format off */
static const struct subcommand {
        struct host_subcommand base; /* first */
        call_fn *run, *check; /* check: what can be told to be wrong before connecting; may be NULL */
        enum connects connects;
        unsigned queues;      /* I/O queues where -i does not say */
} subcommands[] = {
#define COMMON ARGS_WHERE | ARGS_WHO
#define BLOCKS COMMON | ARGS_NSID | ARGS_SLBA | ARGS_BLOCKS
#define LOAD   COMMON | ARGS_NSID | ARGS_QUEUES | ARGS_OUTPUT | ARGS_LOAD
        { { "discover", "", "list the subsystems that a discovery service knows",
            COMMON | ARGS_OUTPUT | ARGS_DISCOVER },
          call_discover, NULL, ITSELF, 0 },
        { { "identify", "[ctrl|ns|ns-list|ns-descs]", "show what a controller or namespace "
                                                    "reports about itself",
            COMMON | ARGS_NSID | ARGS_OUTPUT },
          call_identify, check_identify, ADMIN, 0 },
        { { "list", "", "list the namespaces of a subsystem",
            COMMON | ARGS_OUTPUT },
          call_list, NULL, ADMIN, 0 },
        { { "get-log", "LOG", "read a log page, by number or name",
            COMMON | ARGS_OUTPUT | ARGS_LOG },
          call_get_log, check_log, ADMIN, 0 },
        { { "get-feature", "FEATURE", "read a feature, by number or name",
            COMMON | ARGS_NSID | ARGS_OUTPUT | ARGS_GET_FEATURE },
          call_get_feature, check_feature, ADMIN, 0 },
        { { "set-feature", "FEATURE", "set a feature",
            COMMON | ARGS_NSID | ARGS_FILE | ARGS_SET_FEATURE },
          call_set_feature, check_set_feature, ADMIN, 0 },
        { { "read", "", "read logical blocks to a file or the terminal",
            BLOCKS | ARGS_FILE | ARGS_FUA | ARGS_OUTPUT },
          call_read, NULL, IO, 1 },
        { { "write", "", "write logical blocks from a file or a pattern",
            BLOCKS | ARGS_FILE | ARGS_PATTERN | ARGS_FUA },
          call_write, NULL, IO, 1 },
        { { "compare", "", "compare logical blocks with a file or a pattern",
            BLOCKS | ARGS_FILE | ARGS_PATTERN | ARGS_FUA },
          call_compare, NULL, IO, 1 },
        { { "flush", "", "make what was written durable",
            COMMON | ARGS_NSID },
          call_flush, NULL, IO, 1 },
        { { "zeroes", "", "Write Zeroes",
            BLOCKS | ARGS_FUA | ARGS_DEAC },
          call_zeroes, NULL, IO, 1 },
        { { "dsm", "[SLBA+BLOCKS...]", "Dataset Management: deallocate ranges",
            BLOCKS | ARGS_DSM },
          call_dsm, check_dsm, IO, 1 },
        { { "verify", "", "write a pattern over many queues and read it back; destroys data",
            LOAD | ARGS_SLBA | ARGS_VERIFY },
          call_verify, NULL, IO, 4 },
        { { "perf", "", "measure IOPS, bandwidth and latency; write loads destroy data",
            LOAD | ARGS_PERF },
          call_perf, check_perf, IO, 1 },
        { { "raw", "HEX|@FILE...", "send bytes and print the PDUs that come back",
            ARGS_WHERE | ARGS_RAW },
          call_raw, NULL, ITSELF, 0 },
};
/* clang-format on */
enum { SUBCOMMANDS = sizeof(subcommands) / sizeof(subcommands[0]) };

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
        if (!call->args->queue_size && p.queue_size <= call->args->base.iodepth &&
            (s->base.groups & ARGS_LOAD))
                p.queue_size = (unsigned)call->args->base.iodepth + 1;
        if (host_ctrl_connect(&c, &p, e) < 0)
                return -1;
        if (call->args->base.verbose)
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
        args->verbs = nvme_record_new(devices, args->record);
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

static int run(const struct host_subcommand *base, void *args, int count, char **words,
               struct host_error *e)
{
        const struct subcommand *s = (const struct subcommand *)base;
        struct args *a = args;
        struct call call = { .args = a, .words = words, .count = count };

        if (a->nsid == ARG_NO_NSID && !(base->groups & (ARGS_GET_FEATURE | ARGS_SET_FEATURE)))
                a->nsid = 1;
        if (s->check && s->check(&call, e) < 0)
                return -1;
        return run_recorded(s, args, &call, e);
}

static const struct host_subcommand *subcommand(unsigned i)
{
        return i < SUBCOMMANDS ? &subcommands[i].base : NULL;
}

const struct host_family nvme_host = {
        .family = &nvme_family,
        .subcommand = subcommand,
        .address = "[nvme+tcp|rdma://HOST[:PORT][/NQN]] ",
        .options = host_options,
        .args_size = sizeof(struct args),
        .defaults = args_defaults,
        .addresses = args_addresses,
        .forget = args_forget,
        .run = run,
};

/* --- a namespace ------------------------------------------------------------------------------- */

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

/* --- loads ------------------------------------------------------------------------------------- */

int check_perf(struct call *call, struct host_error *e)
{
        return host_perf_check(&call->args->base, e);
}

int call_perf(struct call *call, struct host_error *e)
{
        struct call_ns ns;
        struct load l;

        if (call_blocks(call, &ns, e) < 0)
                return -1;
        l = nvme_load(call->ctrl, ns.nsid, ns.block_size, ns.blocks);
        return host_perf(&l, &call->args->base, e);
}

int call_verify(struct call *call, struct host_error *e)
{
        struct call_ns ns;
        struct load l;

        if (call_blocks(call, &ns, e) < 0)
                return -1;
        l = nvme_load(call->ctrl, ns.nsid, ns.block_size, ns.blocks);
        return host_verify(&l, &call->args->base, e);
}
