/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvme_command.h"

#include <string.h>

#include "host/nvme/identity.h"
#include "pdu/nvme/io/auth_openssl.h"

enum { AVOIDS = 64 };

struct nvme_args {
        struct fuzz_args base; /* first */
        const char *nqn, *hostnqn, *hostid;
        const char *avoid[AVOIDS]; /* ended by NULL */
        bool stranger;
        uint64_t prove_within;
        struct auth_key dhchap, dhchap_ctrl;
        struct nvme_peer peer;     /* the target's */
        struct avoid avoid_parsed; /* the peer's */
};

static bool take_key(void *args, const char *value, char *error, size_t size)
{
        return auth_key_argument(&((struct nvme_args *)args)->dhchap, value, error, size) == 0;
}

static bool take_ctrl_key(void *args, const char *value, char *error, size_t size)
{
        return auth_key_argument(&((struct nvme_args *)args)->dhchap_ctrl, value, error, size) == 0;
}

/* What it means depends on the transport, which may be told later. */
static bool take_avoid(void *args, const char *value, char *error, size_t size)
{
        const char **at = ((struct nvme_args *)args)->avoid;

        for (unsigned i = 0; i + 1 < AVOIDS; i++)
                if (!at[i]) {
                        at[i] = value;
                        return true;
                }
        snprintf(error, size, "given too many times");
        return false;
}

#define AT(member) .at = offsetof(struct nvme_args, member)
/* clang-format off */
static const struct option_row options[] = {
        { 'n', "nqn", "NQN", "the subsystem (default: as in our own target)", OPTION_STRING, FUZZ_LIVE, AT(nqn) },
        { 'q', "hostnqn", "NQN", "host NQN (by default with a UUID from this machine's id)", OPTION_STRING, FUZZ_LIVE, AT(hostnqn) },
        { 'I', "hostid", "UUID", "host identifier (by default the same UUID)", OPTION_STRING, FUZZ_LIVE, AT(hostid) },
        { 'S', "dhchap-secret", "KEY", "key of the host, DHHC-1:..., or @FILE that contains it: auth_send steps and probes authenticate themselves", OPTION_CALL, FUZZ_LIVE, .call = take_key },
        { 'C', "dhchap-ctrl-secret", "KEY", "key of the controller, to authenticate it, or @FILE", OPTION_CALL, FUZZ_LIVE, .call = take_ctrl_key },
        { 0, "stranger", NULL, "auth_send steps have another key than --dhchap-secret, which probes have: a target that accepts it is a finding", OPTION_FLAG, FUZZ_LIVE, AT(stranger) },
        { 0, "prove-within", "MS", "time that the target gives hosts to authenticate themselves: one that is served --hang "
                                   "later, and has not, is a finding", OPTION_NUMBER, FUZZ_LIVE, AT(prove_within), .min = 1, .max = 600000 },
        { 0, "avoid", "WHAT", "avoid breaking this rule of hosts, or steps with such values: "
                              "\"connect.sqsize>1023\" (or = or <); repeatable", OPTION_CALL, FUZZ_LIVE, .call = take_avoid },
        { 0 },
};
/* clang-format on */

static void defaults(void *args)
{
        ((struct nvme_args *)args)->nqn = "nqn.2026-01.io.nvmfspec:target";
}

static bool take_host(struct nvme_args *a, char *error, size_t size)
{
        struct host_params *p = &a->peer.host;
        uint64_t port;

        *p = host_params_default();
        p->transport = a->base.config.target.transport == SEQ_RDMA ? HOST_RDMA : HOST_TCP;
        p->traddr = a->base.traddr;
        p->trsvcid = a->base.trsvcid;
        p->subnqn = a->nqn;
        p->hostnqn = a->hostnqn ? a->hostnqn : p->hostnqn;
        p->timeout = (unsigned)a->base.timeout;
        p->policy = &a->base.policy;
        p->dhchap = a->dhchap;
        p->dhchap_ctrl = a->dhchap_ctrl;
        a->peer.stranger = a->stranger;
        a->peer.prove_within = (unsigned)a->prove_within;
        if (option_number(a->base.trsvcid, &port) < 0 || port > UINT16_MAX)
                snprintf(error, size, "'%s' is not a TCP port", a->base.trsvcid);
        else if (a->stranger && a->dhchap.len == 0)
                snprintf(error, size, "--stranger needs --dhchap-secret");
        else if (a->prove_within > 0 && a->dhchap.len == 0)
                snprintf(error, size, "--prove-within needs --dhchap-secret");
        else if (a->hostid && host_uuid_parse(a->hostid, p->hostid) < 0)
                snprintf(error, size, "'%s' is not a UUID", a->hostid);
        else if (strlen(p->subnqn) >= NQN_FIELD || strlen(p->hostnqn) >= NQN_FIELD)
                snprintf(error, size, "an NQN has at most %d characters", NQN_FIELD - 1);
        else
                return true;
        return false;
}

static bool complete(void *args, char *error, size_t size)
{
        struct nvme_args *a = args;

        a->base.config.target.peer = &a->peer;
        for (const char **what = a->avoid; *what; what++)
                if (!avoid_add(&a->avoid_parsed, a->base.config.target.transport, *what, error,
                               size))
                        return false;
        a->peer.avoid = &a->avoid_parsed;
        return take_host(a, error, size);
}

static void line(struct text *t, unsigned on, enum party sender, const void *message)
{
        (void)sender;
        message_line(t, message, on == 0);
}

const struct fuzz_command nvme_fuzz_command = {
        .options = options,
        .args_size = sizeof(struct nvme_args),
        .defaults = defaults,
        .complete = complete,
        .line = line,
};
