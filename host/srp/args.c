/* SPDX-License-Identifier: BSD-3-Clause */
#include "args.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pdu/core/be.h"
#include "pdu/io/loop.h"

#define AT(member) .at = offsetof(struct srp_args, member)

enum { IT_IU = 8260, LUN_MAX = 0x3fff };

static bool take_id(srp_port_id id, const char *value, char *error, size_t size)
{
        if (srp_port_id_read(id, value))
                return true;
        snprintf(error, size, "'%s' is not 32 hexadecimal digits", value);
        return false;
}

static bool take_target(void *args, const char *value, char *error, size_t size)
{
        return take_id(((struct srp_args *)args)->target, value, error, size);
}

static bool take_initiator(void *args, const char *value, char *error, size_t size)
{
        return take_id(((struct srp_args *)args)->initiator, value, error, size);
}

static bool take_waive(void *args, const char *value, char *error, size_t size)
{
        return option_rule_of(&srp_rules, &((struct srp_args *)args)->policy.waived,
                              PARTY_CONTROLLER, value, error, size);
}

static bool take_violate(void *args, const char *value, char *error, size_t size)
{
        struct rule_set *violated = &((struct srp_args *)args)->policy.violated;

        if (!option_rule_of(&srp_rules, violated, PARTY_HOST, value, error, size))
                return false;
        if (srp_rule_get(rulebook_by_name(&srp_rules, value))->violators & SRP_V_SPOILS)
                return true;
        snprintf(error, size, "this initiator sends nothing that can break '%s'", value);
        return false;
}

/* clang-format off */
const struct option_row srp_host_options[] = {
        { 'a', "traddr", "ADDR", "address or name", OPTION_STRING, HOST_WHERE, AT(traddr) },
        { 's', "trsvcid", "PORT", "port (5555)", OPTION_STRING, HOST_WHERE, AT(trsvcid) },
        { 0, "target-id", "HEX", "target port identifier, id_ext and ioc_guid: 32 digits (zeroes)", OPTION_CALL, HOST_WHERE, .call = take_target },
        { 0, "initiator-id", "HEX", "initiator port identifier, 32 digits (of this process alone)", OPTION_CALL, HOST_WHERE, .call = take_initiator },
        { 0, "it-iu", "SIZE", "longest information unit to ask for (8260)", OPTION_SIZE, HOST_WHERE, AT(it_iu), .min = 1, .max = 1 << 20 },
        { 0, "no-immediate", NULL, "do not ask for immediate data", OPTION_FLAG, HOST_WHERE, AT(no_immediate) },
        { 0, "timeout", "MS", "timeout of the login and of each command in milliseconds (30000)", OPTION_NUMBER, HOST_WHERE, AT(timeout), .min = 1, .max = 86400000 },
        { 0, "waive", "RULE", "do not check this rule of targets; repeatable", OPTION_CALL, HOST_WHERE, .call = take_waive },
        { 0, "violate", "RULE", "break this rule of initiators; repeatable", OPTION_CALL, HOST_WHERE, .call = take_violate },
        { 0, "reconnect", "SEC", "time in seconds for which lost channels are tried again (0: they are not)", OPTION_SECONDS, HOST_VERIFY, AT(reconnect), .max = 86400000 },
        { 'i', "channels", "N", "channels (login, verify: 4; perf: 1)", OPTION_NUMBER, SRP_CHANNELS, AT(channels), .min = 1, .max = 64 },
        { 0, "lun", "N", "logical unit (0)", OPTION_NUMBER, SRP_LUN, AT(lun), .max = LUN_MAX },
        { 0, "slba", "LBA", "first logical block (0)", OPTION_NUMBER, SRP_SLBA, AT(base.slba) },
        { 0, "blocks", "N", "logical blocks (1)", OPTION_NUMBER, SRP_BLOCKS, AT(base.blocks), .min = 1, .max = UINT32_MAX },
        { 0, "form", "FORM", "how data is described: direct, indirect, external (a table that the target has to read) or immediate (direct)", OPTION_CHOICE, SRP_FORM, AT(form), .choices = "direct|indirect|external|immediate" },
        { 0, "pieces", "N", "descriptors of a table (2)", OPTION_NUMBER, SRP_FORM, AT(pieces), .min = 1, .max = SRP_PIECES_MAX },
        { 0 },
};
/* clang-format on */

/* Two programs are two initiators, or each login of one would end the other's channels. */
void srp_args_defaults(void *args)
{
        struct srp_args *a = args;

        memcpy(a->initiator, "nvmfspec", 8);
        be_put(a->initiator + 8, 4, (uint64_t)getpid());
        be_put(a->initiator + 12, 4, (uint64_t)loop_wall_ns() >> 10 & UINT32_MAX);
        a->timeout = 30000;
        a->it_iu = IT_IU;
        a->form = "direct";
        a->trsvcid = "5555";
}

enum srp_form srp_args_form(const struct srp_args *a)
{
        static const char *const names[] = {
                [SRP_FORM_DIRECT] = "direct",
                [SRP_FORM_INDIRECT] = "indirect",
                [SRP_FORM_EXTERNAL] = "external",
                [SRP_FORM_IMMEDIATE] = "immediate",
        };
        enum srp_form form = SRP_FORM_IMMEDIATE;

        while (form > SRP_FORM_DIRECT && strcmp(a->form, names[form]) != 0)
                form--;
        return form;
}

int srp_args_params(const struct srp_args *a, unsigned channels, struct srp_params *p,
                    struct host_error *e)
{
        if (!a->traddr)
                return host_fail(e, HOST_USAGE, "no address: use -a");
        *p = (struct srp_params) { .traddr = a->traddr,
                                   .trsvcid = a->trsvcid,
                                   .channels = a->channels ? (unsigned)a->channels : channels,
                                   .depth = (unsigned)a->base.iodepth,
                                   .it_iu = (uint32_t)a->it_iu,
                                   .immediate = !a->no_immediate,
                                   .timeout = (unsigned)a->timeout,
                                   .reconnect = (unsigned)a->reconnect,
                                   .policy = a->policy,
                                   .verbs = a->verbs };
        memcpy(p->initiator, a->initiator, sizeof(p->initiator));
        memcpy(p->target, a->target, sizeof(p->target));
        return 0;
}
