/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "host/srp/channels.h"
#include "pdu/core/be.h"
#include "srp_live.h"

typedef bool visit_fn(struct srp_chan *c, struct host_error *e, struct oracle_limits *limits);

static bool reads(struct srp_chan *c, struct host_error *e, struct oracle_limits *unused)
{
        struct srp_request_out r;
        struct srp_disk d;
        void *block;

        (void)unused;
        if (srp_disk_open(c, 0, &d, e) < 0)
                return false;
        if (d.blocks == 0 || d.max_blocks == 0)
                return true;
        block = srp_alloc(c, d.block_size, e);
        if (!block)
                return false;
        r = srp_rw(&d, false, 0, 1, block);
        return srp_run_well(c, &r, "READ(16)", e) == 0;
}

static void add_limit(struct oracle_limits *l, uint64_t limit)
{
        if (limit > 0 && l->n < ORACLE_LIMITS)
                l->at[l->n++] = limit;
}

static bool learns(struct srp_chan *c, struct host_error *e, struct oracle_limits *l)
{
        struct srp_disk d;

        add_limit(l, be32_get(c->granted.req_lim_delta));
        add_limit(l, be32_get(c->granted.max_it_iu_len));
        add_limit(l, be32_get(c->granted.max_ti_iu_len));
        if (srp_disk_open(c, 0, &d, e) < 0)
                return false;
        add_limit(l, d.blocks);
        add_limit(l, d.max_blocks);
        add_limit(l, (uint64_t)d.max_blocks * d.block_size);
        return true;
}

/* Logs in as somebody that no session is, lets that be done, and leaves. False: e says why. */
static bool visit(const struct remote_target *target, struct host_error *e, visit_fn *what,
                  struct oracle_limits *limits)
{
        struct srp_params p = ((const struct srp_remote_peer *)target->peer)->host;
        struct srp_chan c;
        bool ok;

        *e = (struct host_error) { .line = "" };
        memcpy(p.initiator, "the prober", 10);
        p.channels = p.depth = 1;
        p.reconnect = 0;
        p.policy = (struct rule_policy) { 0 };
        for (unsigned id = 1; id < SRP_RULES; id++) /* it lives, well or not */
                rule_add(&p.policy.waived, id);
        if (srp_chan_open(&c, &p, 1, true, e) < 0)
                return false;
        ok = what(&c, e, limits) || e->kind == HOST_STATUS;
        srp_chan_close(&c, false);
        return ok;
}

bool srp_alive(const struct remote_target *target, char why[ORACLE_LINE])
{
        struct host_error e;
        bool ok = visit(target, &e, reads, NULL);

        if (!ok)
                snprintf(why, ORACLE_LINE, "%.*s", ORACLE_LINE - 1, e.line);
        return ok;
}

struct oracle_limits srp_limits(const struct remote_target *target)
{
        struct oracle_limits limits = { .n = 0 };
        struct host_error e;

        visit(target, &e, learns, &limits);
        return limits;
}
