/* SPDX-License-Identifier: BSD-3-Clause */
#include "embedded.h"

static const char subnqn[] = "nqn.2026-01.io.nvmfspec:target";

bool embedded_start(struct embedded *e, const struct options *o, const struct rule_policy *policy,
                    char *error, size_t size)
{
        struct target_options t = {
                .traddr = "127.0.0.1",
                .trsvcid = "0",
                .subnqn = subnqn,
                .ns = o->ns.items,
                .reactors = 1,
                .cpda = o->cpda,
                .quiet = true,
                .policy = *policy,
                .limits = { .ic_timeout = 2000, .stall_timeout = 3000 },
        };

        e->target = target_start(&t, error, size);
        if (!e->target)
                return false;
        snprintf(e->trsvcid, sizeof(e->trsvcid), "%u", target_trsvcid(e->target));
        return true;
}

void embedded_stop(struct embedded *e)
{
        target_stop(e->target);
}

void embedded_address(const struct embedded *e, struct suite *s)
{
        s->traddr = "127.0.0.1";
        s->trsvcid = e->trsvcid;
        s->subnqn = subnqn;
}
