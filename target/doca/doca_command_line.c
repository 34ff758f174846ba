/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec target -t doca */
#include "doca_command_line.h"

#include <stdio.h>
#include <string.h>

#include "doca_server.h"
#include "pdu/io/net.h"

#define DEFAULT_PORT "4421"
#define DEFAULT_NS   "mem:64M"

struct args {
        struct target_args base; /* first */
        struct doca_options options;
        uint64_t cores, transactions, max_transfer;
        const char *dialect;
        char places[DOCA_SERVER_LISTENS][2][NET_TRADDR];
};

#define AT(field) offsetof(struct args, field)

static bool take_waive(void *args, const char *value, char *error, size_t size)
{
        return option_rule_of(&doca_rules, &((struct args *)args)->options.policy.waived,
                              PARTY_HOST, value, error, size);
}

static bool take_violate(void *args, const char *value, char *error, size_t size)
{
        struct rule_set *violated = &((struct args *)args)->options.policy.violated;

        if (!option_rule_of(&doca_rules, violated, PARTY_CONTROLLER, value, error, size))
                return false;
        if (doca_rule_get(rulebook_by_name(&doca_rules, value))->violators != 0)
                return true;
        snprintf(error, size, "this target sends nothing that can break '%s'", value);
        return false;
}

static bool take_fault(void *args, const char *value, char *error, size_t size)
{
        return doca_fault_add(&((struct args *)args)->options.faults, value, error, size);
}

/* clang-format off */
static const struct option_row options[] = {
        { .name = "ns", .arg = "SPEC", .group = 1, .kind = OPTION_STRING, .at = AT(options.ns),
          .says = "the storage: mem:SIZE, null:SIZE, file:PATH[,size=SIZE] or a path (" DEFAULT_NS "); each with ,bs=512|4096 and ,delay=TIME" },
        { .name = "dialect", .arg = "VERSION", .group = 1, .kind = OPTION_CHOICE, .at = AT(dialect), .choices = DOCA_DIALECT_NAMES,
          .says = "release of DOCA whose messages are spoken, which nothing on the wire tells: " DOCA_DIALECT_NAMES " (3.2)" },
        { .name = "reference", .group = 1, .kind = OPTION_FLAG, .at = AT(options.reference),
          .says = "as NVIDIA's target: a request that fails has used its stage up" },
        { .name = "cores", .arg = "N", .group = 1, .kind = OPTION_NUMBER, .at = AT(cores), .min = 1, .max = 256,
          .says = "contexts of a client at most (16)" },
        { .name = "transactions", .arg = "N", .group = 1, .kind = OPTION_NUMBER, .at = AT(transactions), .min = 1, .max = 16384,
          .says = "requests outstanding of a context at most (1024)" },
        { .name = "max-transfer", .arg = "SIZE", .group = 1, .kind = OPTION_SIZE, .at = AT(max_transfer), .min = 4096, .max = 64 << 20,
          .says = "data of a request at most (4M)" },
        { .name = "device", .arg = "ADDR", .group = 1, .kind = OPTION_STRING, .at = AT(options.device),
          .says = "address of the RDMA device (that of the control channel)" },
        { .name = "waive", .arg = "RULE", .group = 1, .kind = OPTION_CALL, .call = take_waive,
          .says = "do not check this rule of services; repeatable" },
        { .name = "violate", .arg = "RULE", .group = 1, .kind = OPTION_CALL, .call = take_violate,
          .says = "break this rule of targets; repeatable" },
        { .name = "fault", .arg = "HOW@REQUEST", .group = 1, .kind = OPTION_CALL, .call = take_fault,
          .says = "lawful trouble: refuse, silent or close, @query, @init, @create, @connect, @start, @stop or @shutdown; refuse or silent, @read or @write; repeatable" },
        { .name = NULL },
};
/* clang-format on */

static void listen_at(struct args *a, const char *traddr, const char *trsvcid)
{
        unsigned i = a->options.listens++;

        snprintf(a->places[i][0], NET_TRADDR, "%s", traddr);
        snprintf(a->places[i][1], NET_TRADDR, "%s", trsvcid);
        a->options.listen[i] = (struct doca_listen) { a->places[i][0], a->places[i][1] };
}

static bool add_places(struct args *a, char *error, size_t size)
{
        const struct target_args *b = &a->base;

        listen_at(a, b->traddr ? b->traddr : "127.0.0.1", b->trsvcid ? b->trsvcid : DEFAULT_PORT);
        for (unsigned i = 0; i < b->n_listens; i++) {
                const char *place = b->listens[i];
                char addr[NET_TRADDR], port[32];

                (void)target_transport(b, &place);
                if (a->options.listens == DOCA_SERVER_LISTENS || !net_split(place, addr, port)) {
                        snprintf(error, size, "'%s' is not a place, or one too many (%d)", place,
                                 DOCA_SERVER_LISTENS);
                        return false;
                }
                listen_at(a, addr, port);
        }
        return true;
}

static bool complete(void *args, char *error, size_t size)
{
        struct args *a = args;
        struct doca_options *o = &a->options;

        o->dialect = doca_dialect_named(a->dialect ? a->dialect : "3.2");
        o->cores = (uint32_t)a->cores;
        o->transactions = (uint32_t)a->transactions;
        o->max_transfer = (uint32_t)a->max_transfer;
        o->reactors = (unsigned)a->base.reactors;
        o->busy_poll = (unsigned)a->base.busy_poll;
        return add_places(a, error, size);
}

static void *start(void *args, struct capture_writer *record, char *error, size_t size)
{
        struct args *a = args;

        a->options.record = record;
        a->options.trace = a->base.trace;
        a->options.quiet = a->base.quiet;
        return doca_server_start(&a->options, error, size);
}

static void describe(void *started, const void *args, char *text, size_t size)
{
        const struct doca_options *o = &((const struct args *)args)->options;
        size_t len = 0;

        for (unsigned i = 0; i < o->listens && len < size; i++) {
                const char *addr = o->listen[i].traddr;
                bool v6 = strchr(addr, ':') && addr[0] != '[';

                len += (size_t)snprintf(text + len, size - len, "%sdoca:%s%s%s:%s", i ? " " : "",
                                        v6 ? "[" : "", addr, v6 ? "]" : "",
                                        doca_server_port(started, i));
        }
        if (len < size && doca_server_no_rdma(started)[0])
                snprintf(text + len, size - len, " (control channel only)");
}

static void stop(void *started)
{
        doca_server_stop(started);
}

const struct target_command doca_command_line = {
        .options = options,
        .args_size = sizeof(struct args),
        .intro =
            "Serves a storage by the protocol of NVIDIA's DOCA storage applications, until "
            "SIGTERM. Without options: " DEFAULT_NS ", on 127.0.0.1:" DEFAULT_PORT ".\n"
            "-s: DOCA has no usual port; this target's is " DEFAULT_PORT ".\n"
            "The blobs of connections and memory are of our own (verbs blob, version 1): those of "
            "NVIDIA's libraries are not documented, and a service with them is answered up to "
            "its first connection.\n",
        .complete = complete,
        .start = start,
        .describe = describe,
        .stop = stop,
};
