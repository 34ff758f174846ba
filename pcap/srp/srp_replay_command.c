/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec pcap replay -t srp */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/srp/args.h"
#include "pcap/tools/command.h"
#include "pdu/io/option.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "srp_replay.h"
#include "target/srp/srp_server.h"
#include "tools.h"

enum { IT_IU = 8260, OWN_UNITS = 16, OWN_BYTES_MAX = 1 << 30 };

struct replay_args {
        const char *transport, *traddr, *trsvcid;
        srp_port_id target;
        uint64_t timeout;
        bool allow_write, verbose, help;
};

static bool take_target(void *args, const char *value, char *error, size_t size)
{
        if (srp_port_id_read(((struct replay_args *)args)->target, value))
                return true;
        snprintf(error, size, "'%s' is not 32 hexadecimal digits", value);
        return false;
}

#define AT(member) .at = offsetof(struct replay_args, member)
/* clang-format off */
static const struct option_row rows[] = {
        { 't', "transport", "TYPE", "srp", OPTION_CHOICE, 1, AT(transport), .choices = "srp" },
        { 'a', "traddr", "ADDR", "address of the live target (our own one, in this process)", OPTION_STRING, 1, AT(traddr) },
        { 's', "trsvcid", "PORT", "its port (5555)", OPTION_STRING, 1, AT(trsvcid) },
        { 0, "target-id", "HEX", "target port identifier, id_ext and ioc_guid: 32 digits (zeroes)", OPTION_CALL, 1, .call = take_target },
        { 0, "timeout", "MS", "timeout of each login and command in milliseconds (30000)", OPTION_NUMBER, 1, AT(timeout), .min = 1, .max = 86400000 },
        { 0, "allow-write", NULL, "also replay what changes something: destroys data", OPTION_FLAG, 1, AT(allow_write) },
        { 'v', "verbose", NULL, "print a line for each request", OPTION_FLAG, 1, AT(verbose) },
        { 'h', "help", NULL, "print this help", OPTION_FLAG, 1, AT(help) },
        { 0 },
};
/* clang-format on */

static int refuse(const char *why)
{
        fprintf(stderr, "nvmfspec pcap replay: %s\n", why);
        return PCAP_USAGE;
}

/* --- lines ------------------------------------------------------------------------------------ */

static const char *name_of(const struct srp_plan_cmd *c)
{
        uint8_t type = c->function ? SRP_TSK_MGMT : SRP_CMD;
        const char *name =
            c->function
                ? word_for(field_named(srp_info(type)->fields, "function")->words, c->function)
                : srp_command_name(c->cdb[0]);

        return name ? name : c->function ? "another function" : "another CDB";
}

static void on_replayed(void *user, const struct srp_plan *p, const struct srp_plan_cmd *c,
                        const struct srp_verdict *v)
{
        const struct replay_args *a = user;

        if (!a->verbose && v->likeness != SRP_DIFFERENT)
                return;
        printf("%-9s frame %" PRIu64, srp_likeness_name(v->likeness), c->at.frame);
        if (c->answer.frame)
                printf("-%" PRIu64, c->answer.frame);
        printf(" connection %u lun %u %s%s%s\n", p->chan[c->chan].number, scsi_lun_number(c->lun),
               name_of(c), v->why ? ": " : "", v->why ? v->why : "");
}

/* --- a target of our own ---------------------------------------------------------------------- */

struct own {
        struct verbs_provider *verbs;
        struct srp_server *server;
        char spec[OWN_UNITS][60];
        const char *lun[OWN_UNITS];
};

/* With the units of the capture, as large as they were. */
static unsigned name_units(struct own *own, const struct srp_plan *p)
{
        unsigned n = 0;

        for (unsigned i = 0; i < OWN_UNITS; i++) {
                uint64_t blocks;
                uint32_t size;

                if (!srp_plan_capacity(p, scsi_lun_of(i), &blocks, &size) ||
                    (size != 512 && size != 4096))
                        continue;
                if (blocks > OWN_BYTES_MAX / size)
                        blocks = OWN_BYTES_MAX / size;
                snprintf(own->spec[i], sizeof(own->spec[i]), "mem:%" PRIu64 ",bs=%u", blocks * size,
                         size);
                own->lun[i] = own->spec[i];
                n = i + 1;
        }
        return n;
}

static bool start_own(struct own *own, const struct srp_plan *p, struct srp_params *to, char *err,
                      size_t size)
{
        struct srp_options o = { .listen = { { "127.0.0.1", "0" } }, .listens = 1, .quiet = true };

        snprintf(err, size, "out of memory");
        o.luns = name_units(own, p);
        o.lun = own->lun;
        o.verbs = own->verbs = verbs_memory_new(NULL);
        own->server = own->verbs ? srp_server_start(&o, err, size) : NULL;
        if (!own->server)
                return false;
        to->verbs = own->verbs;
        to->traddr = "127.0.0.1";
        to->trsvcid = srp_server_port(own->server, 0);
        return true;
}

static void stop_own(struct own *own)
{
        if (own->server)
                srp_server_stop(own->server);
        if (own->verbs)
                verbs_memory_free(own->verbs);
}

/* --- the command ------------------------------------------------------------------------------ */

static int replay(const struct replay_args *a, const struct srp_plan *p, char *err, size_t size,
                  uint64_t counts[SRP_LIKENESSES])
{
        struct srp_args names = { 0 };
        struct srp_replay_options o = { .allow_write = a->allow_write || !a->traddr,
                                        .replayed = on_replayed,
                                        .user = (void *)(uintptr_t)a };
        struct own own = { 0 };
        int rc = -1;

        srp_args_defaults(&names);
        o.host = (struct srp_params) { .traddr = a->traddr,
                                       .trsvcid = a->trsvcid,
                                       .channels = 1,
                                       .it_iu = IT_IU,
                                       .immediate = true,
                                       .timeout = (unsigned)a->timeout };
        memcpy(o.host.initiator, names.initiator, sizeof(srp_port_id));
        memcpy(o.host.target, a->target, sizeof(srp_port_id));
        if (a->traddr || start_own(&own, p, &o.host, err, size))
                rc = srp_replay_run(p, &o, counts, err, size);
        stop_own(&own);
        return rc;
}

static int run(const struct replay_args *a, const struct trace_family *const *families,
               const char *file)
{
        uint64_t counts[SRP_LIKENESSES] = { 0 };
        struct srp_plan plan;
        char err[400] = "";
        int rc = srp_plan_read(&plan, file, families, err, sizeof(err));

        if (rc == 0 && plan.others > 0)
                fprintf(stderr, "%s: %" PRIu64 " connections of other protocols are left out\n",
                        file, plan.others);
        if (rc == 0)
                rc = replay(a, &plan, err, sizeof(err), counts);
        if (rc == 0)
                printf("%" PRIu64 " same, %" PRIu64 " allowed differences, %" PRIu64
                       " DIFFERENT, %" PRIu64 " skipped\n",
                       counts[SRP_SAME], counts[SRP_ALLOWED], counts[SRP_DIFFERENT],
                       counts[SRP_SKIPPED]);
        srp_plan_free(&plan);
        fflush(stdout);
        if (rc == 0)
                return counts[SRP_DIFFERENT] ? PCAP_BROKEN : PCAP_OK;
        fprintf(stderr, "nvmfspec pcap replay: %s\n", err);
        return PCAP_UNREADABLE;
}

int srp_replay_command(const struct trace_family *const *families, int argc, char **argv)
{
        struct replay_args a = { .transport = "srp", .trsvcid = "5555", .timeout = 30000 };
        char error[200] = "";
        int first = option_parse(rows, 1, argc, argv, &a, error, sizeof(error));

        if (first < 0)
                return refuse(error);
        if (a.help) {
                puts("usage: nvmfspec pcap replay FILE -t srp [-a ADDR] [OPTION...]\n"
                     "send the requests of a capture to a live target again and compare the "
                     "answers\n");
                option_help(rows, 1, stdout);
                return PCAP_OK;
        }
        if (first + 1 != argc)
                return refuse(first == argc ? "no file given" : "one file at a time");
        return run(&a, families, argv[first]);
}
