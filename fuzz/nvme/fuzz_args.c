/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_args.h"

#include <string.h>

#include "host/nvme/identity.h"
#include "pdu/nvme/io/auth_openssl.h"

static bool take_waive(void *args, const char *value, char *error, size_t size)
{
        return option_rule(&nvme_rules, &((struct fuzz_call *)args)->args.policy.waived, value,
                           error, size);
}

static bool take_key(void *args, const char *value, char *error, size_t size)
{
        return auth_key_argument(&((struct fuzz_call *)args)->args.dhchap, value, error, size) == 0;
}

static bool take_ctrl_key(void *args, const char *value, char *error, size_t size)
{
        return auth_key_argument(&((struct fuzz_call *)args)->args.dhchap_ctrl, value, error,
                                 size) == 0;
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
        snprintf(error, size, "given too many times");
        return false;
}

#define AT(member)   .at = offsetof(struct fuzz_call, args.member)
#define INTO(member) .at = offsetof(struct fuzz_call, config.member)
/* clang-format off */
const struct option_row fuzz_options[] = {
        { 't', "transport", "TYPE", "tcp or rdma (tcp)", OPTION_CHOICE, FUZZ_LIVE, AT(transport), .choices = "tcp|rdma" },
        { 'a', "traddr", "ADDR", "the target", OPTION_STRING, FUZZ_LIVE, AT(traddr) },
        { 's', "trsvcid", "PORT", "its port (4420)", OPTION_STRING, FUZZ_LIVE, AT(trsvcid) },
        { 'n', "nqn", "NQN", "the subsystem (default: as in our own target)", OPTION_STRING, FUZZ_LIVE, AT(nqn) },
        { 'q', "hostnqn", "NQN", "host NQN (by default with a UUID from this machine's id)", OPTION_STRING, FUZZ_LIVE, AT(hostnqn) },
        { 'I', "hostid", "UUID", "host identifier (by default the same UUID)", OPTION_STRING, FUZZ_LIVE, AT(hostid) },
        { 'S', "dhchap-secret", "KEY", "key of the host, DHHC-1:..., or @FILE that contains it: auth_send steps and probes authenticate themselves", OPTION_CALL, FUZZ_LIVE, .call = take_key },
        { 'C', "dhchap-ctrl-secret", "KEY", "key of the controller, to authenticate it, or @FILE", OPTION_CALL, FUZZ_LIVE, .call = take_ctrl_key },
        { 0, "stranger", NULL, "auth_send steps have another key than --dhchap-secret, which probes have: a target that accepts it is a finding", OPTION_FLAG, FUZZ_LIVE, AT(stranger) },
        { 0, "reload", "CMD", "shell command that gives the target the configuration whose number follows "
                              "it: 'reload N' steps run it; 0 is the first, and comes back after a session", OPTION_STRING, FUZZ_LIVE, AT(reload) },
        { 0, "reloads", "N", "configurations that --reload has (4)", OPTION_NUMBER, FUZZ_LIVE, AT(reloads), .min = 1, .max = SEQ_RELOADS },
        { 0, "revokes", "N", "the one of them that takes from hosts what let them in: a connection from before it that "
                             "is served --hang later is a finding", OPTION_NUMBER, FUZZ_LIVE, AT(revokes), .min = 1, .max = SEQ_RELOADS },
        { 0, "prove-within", "MS", "time that the target gives hosts to authenticate themselves: one that is served --hang "
                                   "later, and has not, is a finding", OPTION_NUMBER, FUZZ_LIVE, AT(prove_within), .min = 1, .max = 600000 },
        { 0, "allow-write", NULL, "also send commands that change data and settings: destroys data", OPTION_FLAG, FUZZ_LIVE, AT(allow_write) },
        { 0, "waive", "RULE", "do not check this rule of controllers; repeatable", OPTION_CALL, FUZZ_LIVE, .call = take_waive },
        { 0, "avoid", "WHAT", "avoid breaking this rule of hosts, or steps with such values: "
                              "\"connect.sqsize>1023\" (or = or <); repeatable", OPTION_CALL, FUZZ_LIVE, .call = take_avoid },
        { 0, "timeout", "MS", "timeout of connections and of answers to a probe, in "
                              "milliseconds (5000)", OPTION_NUMBER, FUZZ_LIVE, AT(timeout), .min = 1, .max = 600000 },
        { 0, "settle", "MS", "after this silence in milliseconds nothing more is expected (5 in "
                             "a campaign, where waiting costs time; else 20)", OPTION_NUMBER, FUZZ_LIVE, AT(settle), .min = 1, .max = 60000 },
        { 0, "hang", "MS", "milliseconds within which the target closes a connection that we "
                           "closed (10000)", OPTION_NUMBER, FUZZ_LIVE, AT(hang), .min = 1, .max = 600000 },
        { 0, "max-delay", "MS", "the longest delay of a sequence in milliseconds (1)", OPTION_NUMBER, FUZZ_LIVE, AT(delay), .max = 600000 },

        { 0, "time", "SEC", "run time in seconds", OPTION_SECONDS, FUZZ_CAMPAIGN, INTO(time), .min = 1, .max = UINT64_C(8640000000) },
        { 0, "runs", "N", "number of sessions", OPTION_NUMBER, FUZZ_CAMPAIGN, INTO(runs), .min = 1 },
        { 0, "seed", "N", "seed of all random choices (1)", OPTION_NUMBER, FUZZ_CAMPAIGN, INTO(seed) },
        { 0, "findings", "N", "stop after the Nth finding", OPTION_NUMBER, FUZZ_CAMPAIGN, INTO(findings), .min = 1 },
        { 0, "look", "MS", "milliseconds between two health checks of the target (1000)", OPTION_NUMBER, FUZZ_CAMPAIGN, INTO(look), .min = 10, .max = 600000 },
        { 0, "jobs", "N", "connections in parallel (4)", OPTION_NUMBER, FUZZ_CAMPAIGN, INTO(jobs), .min = 1, .max = CAMPAIGN_JOBS },
        { 0, "oracle", "CMD", "shell command, run at each health check and after trials: an "
                              "exit status other than 0 is a finding, and its first line names "
                              "it. It must report each problem once, or --restart must clear it", OPTION_STRING, FUZZ_ORACLE, INTO(oracle) },
        { 0, "late", "MS", "milliseconds that the oracle may lag: sessions of that time are "
                           "suspected, and trials wait that long (0)", OPTION_NUMBER, FUZZ_ORACLE, INTO(late), .max = 600000 },
        { 0, "restart", "CMD", "shell command that restarts the target when it is lost or the "
                               "oracle reports a problem; its first line names the cause. Then "
                               "the target must answer within --timeout", OPTION_STRING, FUZZ_ORACLE, INTO(restart) },
        { 0, "fresh", NULL, "--restart the target after each trial, too: what one leaves behind is not the "
                            "harm of the next", OPTION_FLAG, FUZZ_ORACLE, INTO(fresh) },
        { 0, "minimise", "SEC", "seconds spent at most to minimise a finding (60)", OPTION_SECONDS, FUZZ_CAMPAIGN | FUZZ_MIN, INTO(minimise) },
        { 'o', "out", "DIR", "folder to save findings (.seq and .pcap) and the corpus in, after "
                             "those of earlier runs", OPTION_STRING, FUZZ_CAMPAIGN, INTO(out) },
        { 'o', "out", "FILE", "file to write to (standard output)", OPTION_STRING, FUZZ_MIN, INTO(out) },
        { 'o', "out", "DIR", "folder to write to, after what it already contains", OPTION_STRING, FUZZ_MERGE, INTO(out) },
        { 'h', "help", NULL, "print this help", OPTION_FLAG, FUZZ_ANY, AT(help) },
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
        .reloads = 4,
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
        p->dhchap = a->dhchap;
        p->dhchap_ctrl = a->dhchap_ctrl;
        call->peer.stranger = a->stranger;
        call->peer.prove_within = (unsigned)a->prove_within;
        call->config.target.timeout = p->timeout;
        call->config.target.transport = p->transport == HOST_RDMA ? SEQ_RDMA : SEQ_TCP;
        if (option_number(a->trsvcid, &port) < 0 || port > UINT16_MAX)
                snprintf(error, size, "'%s' is not a TCP port", a->trsvcid);
        else if (a->stranger && a->dhchap.len == 0)
                snprintf(error, size, "--stranger needs --dhchap-secret");
        else if (a->prove_within > 0 && a->dhchap.len == 0)
                snprintf(error, size, "--prove-within needs --dhchap-secret");
        else if (a->revokes >= a->reloads)
                snprintf(error, size, "--revokes %u is none of the %u configurations",
                         (unsigned)a->revokes, (unsigned)a->reloads);
        else if (a->hostid && host_uuid_parse(a->hostid, p->hostid) < 0)
                snprintf(error, size, "'%s' is not a UUID", a->hostid);
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
        if (call->config.fresh && !call->config.restart) {
                snprintf(error, size, "--fresh needs --restart");
                return -1;
        }
        call->live = a->traddr;
        if (a->settle == 0)
                a->settle = groups & FUZZ_CAMPAIGN ? SETTLE_MANY : SETTLE_ONE;
        call->config.target.settle = (unsigned)a->settle;
        call->config.target.hang = (unsigned)a->hang;
        call->config.target.delay = (unsigned)a->delay;
        call->config.target.allow_write = a->allow_write;
        call->config.target.reload = a->reload;
        call->config.target.reloads = (unsigned)a->reloads;
        call->config.target.revokes = (unsigned)a->revokes;
        return first;
}
