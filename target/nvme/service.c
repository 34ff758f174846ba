/* SPDX-License-Identifier: BSD-3-Clause */
/* From options to what all reactors of a target share. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pdu/core/wipe.h"
#include "pdu/io/loop.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/nvme_tls.h"
#include "service.h"
#include "target/engine/family.h"
#include "target/nvme/auth_work.h"
#include "target/nvme/conn.h"
#include "target/nvme/psk_store.h"
#include "target/nvme/tls_keys.h"
#include "target/nvme/tls_lax.h"
#include "target/nvme/tls_spoil.h"

enum {
        R2TS_MAX = 1024, /* open ones of a connection */
        RDMA_IN_CAPSULE_MAX = 65536,
        ICDOFF_MAX = 256,    /* a page */
        CONNECT_DATA = 1024, /* Linux sends Connect of an I/O queue with its data in the capsule */
};

/* --- limits ----------------------------------------------------------------------------------- */

static struct target_limits target_limits_default(void)
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
                .receives = 16384,
                .ic_timeout = 10000,
                .stall_timeout = 30000,
                .term_timeout = 30000,
                .idle_timeout = 120000,
                .psk_lifetime = 600000, /* T1.0 3.6.1.4 */
                .auth_timeout = 120000, /* the default of KATO: Base 2.2 8.3.4.2 */
                .least_rate = 16384,
                .unproven = 64,
                .auth_jobs = 256,
        };
}

#define DEFAULT(field)                                                                             \
        do {                                                                                       \
                if (l->field == 0)                                                                 \
                        l->field = d.field;                                                        \
        } while (0)

/* What one may have of that which is for all, where a part is left for others. */
#define SHARE(field, whole, part)                                                                  \
        do {                                                                                       \
                if (l->field == 0)                                                                 \
                        l->field = l->whole - l->whole / (part);                                   \
        } while (0)

#define NONE(field)                                                                                \
        do {                                                                                       \
                if (l->field == TARGET_NONE)                                                       \
                        l->field = 0;                                                              \
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
        DEFAULT(auth_timeout);
        DEFAULT(psk_lifetime);
        DEFAULT(least_rate);
        DEFAULT(unproven);
        DEFAULT(auth_jobs);
        NONE(in_capsule);
        NONE(rdma_in_capsule);
        SHARE(host_connections, connections, 4);
        SHARE(host_controllers, controllers, 4);
        SHARE(subsystem_controllers, controllers, 8); /* more than one host may have */
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
        if (l->c2hdata % 4 != 0)
                return "limit c2hdata is not a multiple of 4";
        if (l->r2t % 4 != 0)
                return "limit r2t is not a multiple of 4";
        if (l->ready_time > 126000) /* CAP.TO is at most 127.5 s */
                return "limit ready_time is above 126000";
        return NULL;
}

/* --- options ----------------------------------------------------------------------------------- */

/* An SRQ serves queues of both kinds. */
static uint32_t receive_bytes(const struct rdma_format *f)
{
        uint32_t data = f->in_capsule > CONNECT_DATA ? f->in_capsule : CONNECT_DATA;

        return (uint32_t)sizeof(union sqe) + f->icdoff * 16u + data;
}

static void describe_limits(struct nvme_service *s)
{
        const struct target_limits *l = &s->limits;
        unsigned depth =
            l->queue_entries > CTRL_ADMIN_ENTRIES ? l->queue_entries : CTRL_ADMIN_ENTRIES;

        s->tcp.maxh2cdata = l->maxh2cdata;
        s->tcp.c2h_max = l->c2hdata;
        s->tcp.r2t_max = l->r2t;
        s->tcp.io_in_capsule = l->in_capsule;
        s->tcp.max_transfer = l->max_transfer;
        s->tcp.limits = (struct track_limits) {
                .depth_max = (uint16_t)(depth < 65535 ? depth : 65535),
                .r2ts_max = R2TS_MAX,
        };
        s->ctrl.rdma.in_capsule = l->rdma_in_capsule;
        s->base.limits = (struct engine_limits) {
                .connections = l->connections,
                .host_connections = l->host_connections,
                .max_transfer = l->max_transfer,
                .receives = l->receives,
                .receive_bytes = receive_bytes(&s->ctrl.rdma),
        };
}

static void describe_machine(struct nvme_service *s, const struct target_options *o)
{
        s->tcp = (struct tcp_controller_config) {
                .cpda = o->cpda,
                .hdgst = !o->no_hdgst,
                .ddgst = !o->no_ddgst,
                .policy = &s->policy,
        };
        describe_limits(s);
}

const char *service_set_limits(struct nvme_service *s, const struct target_limits *limits)
{
        const char *wrong = check_limits(limits);

        if (wrong)
                return wrong;
        if (s->base.longest && limits->max_transfer > s->base.longest)
                return "limit max_transfer is more than the buffers of a reactor are for";
        if (atomic_load(&s->base.conns) > 0 && !target_limits_same(limits, &s->limits))
                return "no limit changes while hosts are connected";
        s->limits = *limits;
        describe_limits(s);
        return NULL;
}

static struct rdma_format rdma_format(const struct target_limits *l, const struct target_options *o)
{
        return (struct rdma_format) {
                .icdoff = o->icdoff,
                .in_capsule = l->rdma_in_capsule,
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

static unsigned keys_of(const struct nvme_tls_server *server, const struct tls_identity *id,
                        struct auth_key keys[NVME_TLS_KEYS], bool *usual)
{
        const struct nvme_service *s = server->user;

        return tls_keys(&s->ctrl, id, keys, usual);
}

static size_t spoil(const struct nvme_tls_server *server, const uint8_t *hello, size_t len,
                    uint8_t *answer, size_t size)
{
        const struct nvme_service *s = server->user;

        return tls_spoil(server, &s->policy, hello, len, answer, size);
}

static bool take_over(const struct nvme_tls_server *server, struct stream *stream,
                      const uint8_t *hello, size_t len)
{
        const struct nvme_service *s = server->user;

        if (s->tls_take_over && s->tls_take_over(s->tls_user, server, stream, hello, len))
                return true;
        return tls_lax_take(server, &s->policy, stream, hello, len);
}

static struct tls *serve_tls(struct nvme_service *s, struct nvme_tls_server *server,
                             const struct target_options *o, bool plain)
{
        server->tls = o->tls; /* no copy of the key but this one */
        server->keys = keys_of;
        server->plain = plain;
        server->record_hello = o->record_hello;
        server->spoil = rule_set_empty(&s->policy.violated) ? NULL : spoil;
        server->take_over =
            rule_set_empty(&s->policy.violated) && !s->tls_take_over ? NULL : take_over;
        server->user = s;
        return nvme_tls_server(server);
}

/* NULL; else what is wrong. Ports may ask for it at any time: it is there wherever it can be. */
static const char *start_tls(struct nvme_service *s, const struct target_options *o)
{
        bool asked = nvme_tls_is_asked(&o->tls) || o->concat;

        if (!nvme_tls_is_asked(&o->tls) && o->tls_required)
                return "TLS cannot be required without a PSK";
        s->tls_take_over = o->tls_take_over;
        s->tls_user = o->tls_user;
        s->tls_use = o->tls_required && !rule_in(&o->policy.violated, TLS_REQUIRED) ? TLS_ALONE
                     : asked                                                        ? TLS_OR_PLAIN
                                                                                    : TLS_BY_PORT;
        if (!auth_openssl() && !asked)
                return NULL;
        s->tls = serve_tls(s, &s->tls_server[0], o, true);
        s->tls_alone = s->tls ? serve_tls(s, &s->tls_server[1], o, false) : NULL;
        return s->tls_alone ? NULL : strerror(errno);
}

struct tls *service_tls(const struct nvme_service *s, const struct port *port)
{
        bool violated = rule_in(&s->policy.violated, TLS_REQUIRED);
        bool required, offered;

        pthread_rwlock_rdlock(&s->ctrl.inv->lock);
        required = port->treq == TREQ_SECURE_REQUIRED && !violated;
        offered = port->sectype == SECTYPE_TLS13;
        pthread_rwlock_unlock(&s->ctrl.inv->lock);
        if (s->tls_use == TLS_ALONE || required)
                return s->tls_alone;
        return s->tls_use == TLS_OR_PLAIN || offered ? s->tls : NULL;
}

bool service_init(struct nvme_service *s, const struct target_options *o, struct inventory *inv,
                  char *error, size_t size)
{
        const char *wrong;

        memset(s, 0, sizeof(*s));
        s->base.family = &nvme_target;
        quota_init(&s->base.of_address);
        s->limits = o->limits;
        if (o->no_in_capsule)
                s->limits.in_capsule = s->limits.rdma_in_capsule = TARGET_NONE;
        fill_in(&s->limits);
        wrong = check_options(o);
        if (!wrong)
                wrong = check_limits(&s->limits);
        s->policy = o->policy;
        rulebook_add_flaws(&nvme_rules, &s->policy);
        if (!wrong)
                wrong = start_tls(s, o);
        if (wrong) {
                snprintf(error, size, "%s", wrong);
                return false;
        }
        s->success = !o->no_success;
        s->sqfc_disable = !o->no_sqfc_disable;
        s->trace = o->trace;
        s->base.record = o->record;
        s->quiet = o->quiet;
        s->timed = o->timed;
        s->started = (double)loop_wall_ns() / 1e9;
        s->base.busy_poll = o->busy_poll;
        s->ctrl = (struct ctrl_env) {
                .inv = inv,
                .limits = &s->limits,
                .policy = &s->policy,
                .strict = o->rigour == RIGOUR_STRICT,
                .secure = !nvme_tls_is_asked(&o->tls) || o->tls_untold ? 0
                          : o->tls_required || rule_in(&o->policy.violated, TLS_REQUIRED)
                              ? TREQ_SECURE_REQUIRED
                              : TREQ_SECURE_OPTIONAL,
                .sqfc_disable =
                    s->sqfc_disable && !rule_in(&o->policy.violated, TCP_C2H_SUCCESS_SQFC),
                .rdma = rdma_format(&s->limits, o),
                .quiet = o->quiet,
                .table = ctrl_table_new(s->limits.controllers),
                .auth_work = auth_work_new(s->limits.auth_jobs),
                .psks = o->concat ? psk_store_new() : NULL,
                .psk_required = o->concat == CONCAT_REQUIRED,
        };
        describe_machine(s, o);
        if (s->ctrl.table && s->ctrl.auth_work && (s->ctrl.psks || !o->concat))
                return true;
        snprintf(error, size, "%s", strerror(ENOMEM));
        return false;
}

void service_fini(struct nvme_service *s)
{
        ctrl_table_free(s->ctrl.table);
        auth_work_free(s->ctrl.auth_work);
        quota_fini(&s->base.of_address);
        tls_free(s->tls);
        tls_free(s->tls_alone);
        psk_store_free(s->ctrl.psks);
        wipe(&s->tls_server, sizeof(s->tls_server));
}
