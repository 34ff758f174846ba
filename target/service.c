/* SPDX-License-Identifier: BSD-3-Clause */
/* From options to what all reactors of a target share. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reactor.h"

enum {
        R2TS_MAX = 1024, /* open ones of a connection */
        RDMA_IN_CAPSULE_MAX = 65536,
        ICDOFF_MAX = 256, /* a page */
};

/* --- limits ----------------------------------------------------------------------------------- */

struct target_limits target_limits_default(void)
{
        return (struct target_limits) {
                .connections = 4096,
                .queue_entries = 1024,
                .queues = 64,
                .controllers = 1024,
                .buffers = 256 << 20,
                .max_transfer = 1 << 20,
                .in_capsule = 16384,
                .maxh2cdata = 1 << 17,
                .rdma_in_capsule = 4096,
                .receives = 8192,
                .ic_timeout = 10000,
                .stall_timeout = 30000,
                .term_timeout = 30000,
                .idle_timeout = 120000,
        };
}

#define DEFAULT(field)                                                                             \
        do {                                                                                       \
                if (l->field == 0)                                                                 \
                        l->field = d.field;                                                        \
        } while (0)

static void fill_in(struct target_limits *l)
{
        const struct target_limits d = target_limits_default();

        DEFAULT(connections);
        DEFAULT(queue_entries);
        DEFAULT(queues);
        DEFAULT(controllers);
        DEFAULT(buffers);
        DEFAULT(max_transfer);
        DEFAULT(in_capsule);
        DEFAULT(maxh2cdata);
        DEFAULT(rdma_in_capsule);
        DEFAULT(receives);
        DEFAULT(ic_timeout);
        DEFAULT(stall_timeout);
        DEFAULT(term_timeout);
        DEFAULT(idle_timeout);
}

/* What no configuration of a machine or of Identify can express; NULL: all is well. */
static const char *check_limits(const struct target_limits *l)
{
        if (l->queue_entries < 2 || l->queue_entries > 65536)
                return "limit queue_entries is not from 2 to 65536";
        if (l->queues > 65535)
                return "limit queues is above 65535";
        if (l->controllers > CNTLID_MAX)
                return "limit controllers is above 65519";
        if (l->max_transfer < 8192 || l->max_transfer > 64 << 20 ||
            (l->max_transfer & (l->max_transfer - 1)) != 0) /* MDTS 0, one page, is no limit */
                return "limit max_transfer is not a power of two from 8K to 64M";
        if (l->in_capsule > FRAMER_IN_PLACE || l->in_capsule % 16 != 0)
                return "limit in_capsule is not a multiple of 16 up to 16384";
        if (l->rdma_in_capsule > RDMA_IN_CAPSULE_MAX || l->rdma_in_capsule % 16 != 0)
                return "limit rdma_in_capsule is not a multiple of 16 up to 65536";
        if (l->receives < 2)
                return "limit receives is below 2";
        if (l->maxh2cdata < PDU_MAXH2CDATA_MIN || l->maxh2cdata % 4 != 0)
                return "limit maxh2cdata is not a multiple of 4 of at least 4096";
        return NULL;
}

/* --- options ----------------------------------------------------------------------------------- */

static void describe_machine(struct service *s, const struct target_options *o)
{
        const struct target_limits *l = &s->limits;
        unsigned depth =
            l->queue_entries > CTRL_ADMIN_ENTRIES ? l->queue_entries : CTRL_ADMIN_ENTRIES;

        s->tcp = (struct tcp_controller_config) {
                .cpda = o->cpda,
                .hdgst = !o->no_hdgst,
                .ddgst = !o->no_ddgst,
                .maxh2cdata = l->maxh2cdata,
                .io_in_capsule = l->in_capsule,
                .max_transfer = l->max_transfer,
                .limits = { .depth_max = (uint16_t)(depth < 65535 ? depth : 65535),
                            .r2ts_max = R2TS_MAX },
                .policy = &s->policy,
        };
}

static struct rdma_format rdma_format(const struct target_limits *l, const struct target_options *o)
{
        return (struct rdma_format) {
                .icdoff = o->icdoff,
                .in_capsule = o->no_in_capsule ? 0 : l->rdma_in_capsule,
                .msdbd = o->msdbd ? o->msdbd : RDMA_DESCRIPTORS,
        };
}

/* What limits do not say. */
static const char *check_options(const struct target_options *o)
{
        if (o->cpda > PDU_PDA_MAX)
                return "cpda is above 31";
        if (o->icdoff > ICDOFF_MAX)
                return "icdoff is above 256";
        if (o->msdbd > RDMA_DESCRIPTORS)
                return "msdbd is above 16";
        return NULL;
}

bool service_init(struct service *s, const struct target_options *o, struct inventory *inv,
                  char *error, size_t size)
{
        const char *wrong;

        memset(s, 0, sizeof(*s));
        s->limits = o->limits;
        fill_in(&s->limits);
        wrong = check_options(o);
        if (!wrong)
                wrong = check_limits(&s->limits);
        if (wrong) {
                snprintf(error, size, "%s", wrong);
                return false;
        }
        s->policy = o->policy;
        s->success = !o->no_success;
        s->trace = o->trace;
        s->record = o->record;
        s->quiet = o->quiet;
        s->busy_poll = o->busy_poll;
        s->ctrl = (struct ctrl_env) {
                .inv = inv,
                .limits = &s->limits,
                .policy = &s->policy,
                .sqfc_disable =
                    !o->no_sqfc_disable && !rule_in(&o->policy.violated, TCP_C2H_SUCCESS_SQFC),
                .rdma = rdma_format(&s->limits, o),
                .table = ctrl_table_new(s->limits.controllers),
        };
        describe_machine(s, o);
        if (!s->ctrl.table)
                snprintf(error, size, "%s", strerror(ENOMEM));
        return s->ctrl.table;
}

void service_fini(struct service *s)
{
        ctrl_table_free(s->ctrl.table);
}
