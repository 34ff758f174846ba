/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec target -t srp */
#include "srp_command_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/net.h"
#include "pdu/srp/wire/rules.h"
#include "srp_config.h"

#define DEFAULT_LUN "mem:64M"

struct args {
        struct target_args base; /* first */
        struct srp_options options;
        uint64_t request_limit, channels, it_iu, max_transfer, stall_timeout;
        const char *config;
};

#define AT(field) .at = offsetof(struct args, field)

static struct srp_options *options_of(void *args)
{
        return &((struct args *)args)->options;
}

/* "[N=]SPEC": without N the next number. */
static bool take_lun(void *args, const char *value, char *error, size_t size)
{
        struct srp_options *o = options_of(args);
        char *end;
        unsigned long lun = strtoul(value, &end, 10);
        bool numbered = end > value && *end == '=';

        if (srp_config_lun(o, numbered ? (uint32_t)(lun < UINT32_MAX ? lun : UINT32_MAX) : o->luns,
                           numbered ? end + 1 : value))
                return true;
        snprintf(error, size, "'%s': LUNs are from 0 to 255", value);
        return false;
}

static bool take_id(void *args, const char *value, char *error, size_t size)
{
        if (srp_port_id_read(options_of(args)->id, value))
                return true;
        snprintf(error, size, "'%s' is not 32 hexadecimal digits", value);
        return false;
}

static bool take_waive(void *args, const char *value, char *error, size_t size)
{
        return option_rule_of(&srp_rules, &options_of(args)->policy.waived, PARTY_HOST, value,
                              error, size);
}

static bool take_violate(void *args, const char *value, char *error, size_t size)
{
        unsigned rule = rulebook_by_name(&srp_rules, value);

        if (!option_rule_of(&srp_rules, &options_of(args)->policy.violated, PARTY_CONTROLLER, value,
                            error, size))
                return false;
        if (srp_rule_get(rule)->violators != 0)
                return true;
        snprintf(error, size, "this target sends nothing that can break '%s'", value);
        return false;
}

/* clang-format off */
static const struct option_row options[] = {
        { 0, "lun", "[N=]SPEC", "a logical unit: mem:SIZE, null:SIZE, file:PATH[,size=SIZE] or a path (" DEFAULT_LUN
                                "); each with ,bs=512|4096 and ,delay=TIME; repeatable",
          OPTION_CALL, 1, .call = take_lun },
        { 0, "target-id", "HEX", "target port identifier, id_ext and ioc_guid: 32 digits; logins to another one are "
                                 "rejected (any is accepted)", OPTION_CALL, 1, .call = take_id },
        { 0, "request-limit", "N", "requests that a channel may have outstanding (64)",
          OPTION_NUMBER, 1, AT(request_limit), .min = 2, .max = 4096 },
        { 0, "channels", "N", "channels of an initiator; 1: no multiple channels (8)",
          OPTION_NUMBER, 1, AT(channels), .min = 1, .max = 256 },
        { 0, "it-iu", "SIZE", "longest information unit that an initiator may ask for (8260)",
          OPTION_SIZE, 1, AT(it_iu), .min = 64, .max = 1 << 20 },
        { 0, "max-transfer", "SIZE", "data of a command at most (1M)",
          OPTION_SIZE, 1, AT(max_transfer), .min = 4096, .max = 32 << 20 },
        { 0, "stall-timeout", "SEC", "time in seconds that an initiator may take for an RDMA READ, or to have room for "
                                     "a response (30)",
          OPTION_SECONDS, 1, AT(stall_timeout), .min = 1, .max = 3600000 },
        { 0, "no-immediate", NULL, "grant no immediate data", OPTION_FLAG, 1, AT(options.no_immediate) },
        { 0, "config", "FILE", "section \"srp\" of a JSON file in place of all of the above",
          OPTION_STRING, 1, AT(config) },
        { 0, "waive", "RULE", "do not check this rule of initiators; repeatable", OPTION_CALL, 1, .call = take_waive },
        { 0, "violate", "RULE", "break this rule of targets; repeatable", OPTION_CALL, 1, .call = take_violate },
        { 0 },
};
/* clang-format on */

/* --- what is asked for ------------------------------------------------------------------------ */

static bool listen_at(struct srp_options *o, const char *traddr, const char *trsvcid)
{
        struct srp_place *p = &o->listen[o->listens];

        if (o->listens == SRP_SERVER_LISTENS)
                return false;
        *p = (struct srp_place) { strdup(traddr), strdup(trsvcid) };
        o->listens++;
        return p->traddr && p->trsvcid;
}

static bool add_places(struct args *a, char *error, size_t size)
{
        const struct target_args *b = &a->base;
        bool ok = listen_at(&a->options, b->traddr ? b->traddr : "127.0.0.1",
                            b->trsvcid ? b->trsvcid : SRP_PORT);

        for (unsigned i = 0; ok && i < b->n_listens; i++) {
                const char *place = b->listens[i];
                char addr[NET_TRADDR], port[32];

                (void)target_transport(b, &place);
                ok = net_split(place, addr, port) && listen_at(&a->options, addr, port);
        }
        if (!ok)
                snprintf(error, size, "more than %d places to listen on", SRP_SERVER_LISTENS);
        return ok;
}

static bool is_given(const struct args *a)
{
        return a->options.luns > 0 || a->base.traddr || a->base.trsvcid || a->base.n_listens > 0 ||
               a->request_limit || a->channels || a->it_iu || a->max_transfer;
}

static bool complete(void *args, char *error, size_t size)
{
        struct args *a = args;
        struct srp_options *o = &a->options;

        if (a->base.pcap) {
                snprintf(error, size, "option --pcap: the SRP target cannot record yet");
                return false;
        }
        if (a->config && is_given(a)) {
                snprintf(error, size, "--config excludes -a, -s, --listen, --lun and limits");
                return false;
        }
        o->request_limit = (uint32_t)a->request_limit;
        o->channels = (uint32_t)a->channels;
        o->it_iu = (uint32_t)a->it_iu;
        o->max_transfer = (uint32_t)a->max_transfer;
        o->stall_timeout = (uint32_t)a->stall_timeout;
        o->reactors = (unsigned)a->base.reactors;
        o->busy_poll = (unsigned)a->base.busy_poll;
        if (a->config && !srp_config_load(o, a->config, error, size))
                return false;
        return o->listens > 0 || add_places(a, error, size);
}

/* --- running ---------------------------------------------------------------------------------- */

static void *start(void *args, struct capture_writer *record, char *error, size_t size)
{
        struct args *a = args;

        (void)record;
        a->options.trace = a->base.trace;
        a->options.quiet = a->base.quiet;
        return srp_server_start(&a->options, error, size);
}

static void describe(void *started, const void *args, char *text, size_t size)
{
        const struct srp_options *o = &((const struct args *)args)->options;
        size_t len = 0;

        for (unsigned i = 0; i < o->listens && len < size; i++) {
                const char *addr = o->listen[i].traddr;
                bool v6 = strchr(addr, ':') && addr[0] != '[';

                len += (size_t)snprintf(text + len, size - len, "%ssrp:%s%s%s:%s", i ? " " : "",
                                        v6 ? "[" : "", addr, v6 ? "]" : "",
                                        srp_server_port(started, i));
        }
}

static void forget(void *args)
{
        srp_config_free(options_of(args));
}

static void stop(void *started)
{
        srp_server_stop(started);
}

const struct target_command srp_command_line = {
        .options = options,
        .args_size = sizeof(struct args),
        .intro =
            "Serves SCSI disks over SRP (RDMA), until SIGTERM. Without options: LUN 0, " DEFAULT_LUN
            ", on 127.0.0.1:" SRP_PORT ".\n"
            "SRP has no usual port.\n",
        .port = SRP_PORT,
        .complete = complete,
        .start = start,
        .describe = describe,
        .forget = forget,
        .stop = stop,
};
