/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_args.h"

#include <string.h>

#include "host/nvme/identity.h"

static bool take_waive(void *args, const char *value, char *error, size_t size)
{
        return option_rule(&nvme_rules, &((struct fuzz_call *)args)->args.policy.waived, value,
                           error, size);
}

/* What it means depends on the transport, which may be told later. */
static bool take_avoid(void *args, const char *value, char *error, size_t size)
{
        const char **at = ((struct fuzz_call *)args)->args.avoid;

        for (unsigned i = 0; i + 1 < FUZZ_AVOIDS; i++)
                if (!at[i]) {
                        at[i] = value;
                        return true;
                }
        snprintf(error, size, "there are too many");
        return false;
}

#define AT(member)   .at = offsetof(struct fuzz_call, args.member)
#define INTO(member) .at = offsetof(struct fuzz_call, config.member)
/* clang-format off */
const struct option_row fuzz_options[] = {
        { 't', "transport", "TYPE", "tcp or rdma (tcp)", OPTION_CHOICE, FUZZ_LIVE, AT(transport), .choices = "tcp|rdma" },
        { 'a', "traddr", "ADDR", "the target", OPTION_STRING, FUZZ_LIVE, AT(traddr) },
        { 's', "trsvcid", "PORT", "its port (4420)", OPTION_STRING, FUZZ_LIVE, AT(trsvcid) },
        { 'n', "nqn", "NQN", "the subsystem (that of our own target)", OPTION_STRING, FUZZ_LIVE, AT(nqn) },
        { 'q', "hostnqn", "NQN", "who connects (a UUID made of this machine's id)", OPTION_STRING, FUZZ_LIVE, AT(hostnqn) },
        { 'I', "hostid", "UUID", "its identifier (the same UUID)", OPTION_STRING, FUZZ_LIVE, AT(hostid) },
        { 0, "allow-write", NULL, "send commands that change data and settings, too: destroys data", OPTION_FLAG, FUZZ_LIVE, AT(allow_write) },
        { 0, "waive", "RULE", "do not check this rule of controllers; repeatable", OPTION_CALL, FUZZ_LIVE, .call = take_waive },
        { 0, "avoid", "WHAT", "do not play what breaks this rule of hosts, or a step as it says: \"connect.sqsize>1023\" (or = or <); repeatable", OPTION_CALL, FUZZ_LIVE, .call = take_avoid },
        { 0, "timeout", "MS", "for connections and for answers to a probe (5000)", OPTION_NUMBER, FUZZ_LIVE, AT(timeout), .min = 1, .max = 600000 },
        { 0, "settle", "MS", "without a word for so long: nothing more comes (5 in a campaign, for which it is lost time; else 20)", OPTION_NUMBER, FUZZ_LIVE, AT(settle), .min = 1, .max = 60000 },
        { 0, "hang", "MS", "a connection that we closed is closed by the target within (10000)", OPTION_NUMBER, FUZZ_LIVE, AT(hang), .min = 1, .max = 600000 },
        { 0, "max-delay", "MS", "the most that a delay of a sequence takes (1)", OPTION_NUMBER, FUZZ_LIVE, AT(delay), .max = 600000 },

        { 0, "time", "SEC", "how long", OPTION_SECONDS, FUZZ_CAMPAIGN, INTO(time), .min = 1, .max = UINT64_C(8640000000) },
        { 0, "runs", "N", "how many sessions", OPTION_NUMBER, FUZZ_CAMPAIGN, INTO(runs), .min = 1 },
        { 0, "seed", "N", "of all random choices (1)", OPTION_NUMBER, FUZZ_CAMPAIGN, INTO(seed) },
        { 0, "findings", "N", "end with the Nth finding", OPTION_NUMBER, FUZZ_CAMPAIGN, INTO(findings), .min = 1 },
        { 0, "look", "MS", "between two looks whether the target is well (1000)", OPTION_NUMBER, FUZZ_CAMPAIGN, INTO(look), .min = 10, .max = 600000 },
        { 0, "jobs", "N", "connections at a time (4)", OPTION_NUMBER, FUZZ_CAMPAIGN, INTO(jobs), .min = 1, .max = CAMPAIGN_JOBS },
        { 0, "oracle", "CMD", "asked at each look and after trials: exit other than 0 is a finding, its first line says which. It has to complain of each thing once, or --restart to make it well", OPTION_STRING, FUZZ_ORACLE, INTO(oracle) },
        { 0, "late", "MS", "what an oracle complains of was played so long ago at most: sessions of that time are suspected, and trials wait for it (0)", OPTION_NUMBER, FUZZ_ORACLE, INTO(late), .max = 600000 },
        { 0, "restart", "CMD", "starts the target afresh, by the shell, where it is lost or the oracle complains; its first line says what it was lost by. Then the target has --timeout to answer", OPTION_STRING, FUZZ_ORACLE, INTO(restart) },
        { 0, "minimise", "SEC", "to make a finding small, at most (60)", OPTION_SECONDS, FUZZ_CAMPAIGN | FUZZ_MIN, INTO(minimise) },
        { 'o', "out", "DIR", "findings (.seq and .pcap) and the corpus are saved there, behind those of earlier runs", OPTION_STRING, FUZZ_CAMPAIGN, INTO(out) },
        { 'o', "out", "FILE", "where it goes (standard output)", OPTION_STRING, FUZZ_MIN, INTO(out) },
        { 'o', "out", "DIR", "where they go, behind those that are there", OPTION_STRING, FUZZ_MERGE, INTO(out) },
        { 'h', "help", NULL, "this list", OPTION_FLAG, FUZZ_ANY, AT(help) },
        { 0 },
};
/* clang-format on */

enum { SETTLE_MANY = 5, SETTLE_ONE = 20 };

static const struct fuzz_args default_args = {
        .transport = "tcp",
        .trsvcid = "4420",
        .nqn = "nqn.2026-01.io.nvmfspec:target",
        .timeout = 5000,
        .hang = 10000,
        .delay = 1,
};
static const struct campaign_config default_config = {
        .seed = 1, .jobs = 4, .minimise = 60000, .look = 1000
};

static bool take_host(struct fuzz_call *call, char *error, size_t size)
{
        const struct fuzz_args *a = &call->args;
        struct host_params *p = &call->peer.host;
        uint64_t port;

        *p = host_params_default();
        p->transport = strcmp(a->transport, "rdma") == 0 ? HOST_RDMA : HOST_TCP;
        p->traddr = a->traddr;
        p->trsvcid = a->trsvcid;
        p->subnqn = a->nqn;
        p->hostnqn = a->hostnqn ? a->hostnqn : p->hostnqn;
        p->timeout = (unsigned)a->timeout;
        p->policy = &a->policy;
        call->config.target.timeout = p->timeout;
        call->config.target.transport = p->transport == HOST_RDMA ? SEQ_RDMA : SEQ_TCP;
        if (option_number(a->trsvcid, &port) < 0 || port > UINT16_MAX)
                snprintf(error, size, "'%s' is no TCP port", a->trsvcid);
        else if (a->hostid && host_uuid_parse(a->hostid, p->hostid) < 0)
                snprintf(error, size, "'%s' is no UUID", a->hostid);
        else if (strlen(p->subnqn) >= NQN_FIELD || strlen(p->hostnqn) >= NQN_FIELD)
                snprintf(error, size, "an NQN has at most %d characters", NQN_FIELD - 1);
        else
                return true;
        return false;
}

static bool take_avoids(struct fuzz_call *call, char *error, size_t size)
{
        for (const char **what = call->args.avoid; *what; what++)
                if (!avoid_add(&call->avoid, call->config.target.transport, *what, error, size))
                        return false;
        call->peer.avoid = &call->avoid;
        return true;
}

int fuzz_args_parse(struct fuzz_call *call, uint32_t groups, int argc, char **argv, char *error,
                    size_t size)
{
        struct fuzz_args *a = &call->args;
        int first;

        *a = default_args;
        call->config = default_config;
        call->config.target.family = &nvme_fuzz;
        call->config.target.peer = &call->peer;
        first = option_parse(fuzz_options, groups | FUZZ_ANY, argc, argv, call, error, size);
        if (first < 0 || !take_host(call, error, size) || !take_avoids(call, error, size))
                return -1;
        call->live = a->traddr;
        if (a->settle == 0)
                a->settle = groups & FUZZ_CAMPAIGN ? SETTLE_MANY : SETTLE_ONE;
        call->config.target.settle = (unsigned)a->settle;
        call->config.target.hang = (unsigned)a->hang;
        call->config.target.delay = (unsigned)a->delay;
        call->config.target.allow_write = a->allow_write;
        return first;
}
