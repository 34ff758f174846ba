/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "host/nvme/build.h"

enum {
        IO_QUEUE_SIZE = 4,
        PORTS_MS = 65000, /* that ports of ours are used up at most: TIME_WAIT is 60 s */
        NAP_MS = 50,
};

static bool reads(struct host_ctrl *c, uint32_t nsid, uint8_t page[IDENTIFY_LEN],
                  struct host_error *e)
{
        const struct id_ns *ns = (const void *)page;
        union sqe sqe = build_rw(NVME_READ, nsid, 0, 1, 0);
        uint32_t block;
        uint8_t *data;
        bool ok;

        if (host_ctrl_identify(c, CNS_NS, nsid, page, e) < 0)
                return false;
        block = 1u << (ns->lbaf[ns->flbas & 0xf].lbads & 31);
        if (le64_get(ns->nsze) == 0 || block < 512 || block > host_ctrl_max_transfer(c))
                return true;
        data = malloc(block);
        ok = data && host_ctrl_run(c, &c->io[0], &sqe, data, block, NULL, e) == 0;
        free(data);
        return ok;
}

/* The first namespace there is, 0: none. */
static bool first_ns(struct host_ctrl *c, uint32_t *nsid, struct host_error *e)
{
        uint8_t page[IDENTIFY_LEN];
        le32_t first;

        if (host_ctrl_identify(c, CNS_NS_LIST, 0, page, e) < 0)
                return false;
        memcpy(&first, page, sizeof(first));
        *nsid = le32_get(first);
        return true;
}

static bool asks(struct host_ctrl *c, struct host_error *e, struct oracle_limits *unused)
{
        uint8_t page[IDENTIFY_LEN];
        uint32_t nsid;

        (void)unused;
        return first_ns(c, &nsid, e) && (nsid == 0 || reads(c, nsid, page, e));
}

static void add_limit(struct oracle_limits *l, uint64_t limit)
{
        if (limit > 0 && l->n < ORACLE_LIMITS)
                l->at[l->n++] = limit;
}

static bool learns(struct host_ctrl *c, struct host_error *e, struct oracle_limits *l)
{
        const struct id_ctrl *id = &c->id;
        uint64_t capsule = le32_get(id->ioccsz) * UINT64_C(16);
        uint32_t transfer = host_ctrl_max_transfer(c), nsid;
        uint8_t page[IDENTIFY_LEN];
        const struct id_ns *ns = (const void *)page;

        add_limit(l, CAP_MQES(c->cap) + 1u);
        add_limit(l, transfer < UINT32_MAX ? transfer : 0);
        add_limit(l, capsule);
        add_limit(l, capsule > sizeof(union sqe) ? capsule - sizeof(union sqe) : 0);
        add_limit(l, id->aerl + 1u);
        add_limit(l, le32_get(id->nn));
        if (!first_ns(c, &nsid, e) || nsid == 0 || host_ctrl_identify(c, CNS_NS, nsid, page, e) < 0)
                return false;
        add_limit(l, le64_get(ns->nsze));
        return true;
}

typedef bool visit_fn(struct host_ctrl *c, struct host_error *e, struct oracle_limits *limits);

/* Connects, lets that be done, closes: one that can't shut down can be fuzzed, too. False: e says why. */
static bool visit_once(const struct host_params *p, struct host_error *e, visit_fn *what,
                       struct oracle_limits *limits)
{
        struct host_ctrl *c = calloc(1, sizeof(*c));
        bool ok = false;

        *e = (struct host_error) { .line = "no memory" };
        if (c && host_ctrl_connect(c, p, e) == 0) {
                /* a status is an answer: blocks may be what sessions have made of them */
                ok = what(c, e, limits) || e->kind == HOST_STATUS;
                host_ctrl_close(c);
        }
        free(c);
        return ok;
}

/* Many sessions use up the ports of this side for a while, which says nothing of the target. */
static bool visit(const struct remote_target *target, struct host_error *e, visit_fn *what,
                  struct oracle_limits *limits)
{
        const struct rule_policy tolerant = { .waived =
                                                  *fuzz_all_rules() }; /* it lives, well or not */
        const uint64_t until = loop_now_ms() + PORTS_MS;
        struct host_params p = ((const struct nvme_peer *)target->peer)->host;
        bool ok, said = false;

        p.io_queues = 1;
        p.queue_size = IO_QUEUE_SIZE;
        p.kato = 0;
        p.policy = &tolerant;
        while (!(ok = visit_once(&p, e, what, limits)) && e->no == EADDRNOTAVAIL &&
               loop_now_ms() < until) {
                if (!said)
                        fprintf(stderr, "nvmfspec fuzz: %s: waiting for a port\n", e->line);
                said = true;
                loop_sleep_us(NAP_MS * 1000);
        }
        return ok;
}

bool nvme_alive(const struct remote_target *target, char why[ORACLE_LINE])
{
        struct host_error e;
        bool ok = visit(target, &e, asks, NULL);

        if (!ok)
                snprintf(why, ORACLE_LINE, "%.*s", ORACLE_LINE - 1, e.line);
        return ok;
}

struct oracle_limits nvme_limits(const struct remote_target *target)
{
        struct oracle_limits limits = { .n = 0 };
        struct host_error e;

        visit(target, &e, learns, &limits);
        return limits;
}
