/* SPDX-License-Identifier: BSD-3-Clause */
#include "doca_server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doca_command_line.h"
#include "doca_conn.h"
#include "pdu/doca/wire/family.h"
#include "pdu/io/log.h"
#include "pdu/io/verbs/verbs_record.h"
#include "target/engine/engine.h"
#include "target/engine/family.h"

enum {
        CORES = 16,
        TRANSACTIONS = 1024,
        MAX_TRANSFER = 4 << 20,
        CONNECTIONS = 64,
        OF_ADDRESS = CONNECTIONS - CONNECTIONS / 4,
        BUFFERS = 256 << 20,
        PATIENCE = 10000, /* ms */
};

struct port { /* the engine's word */
        char traddr[256], trsvcid[LISTEN_SERVICE];
};

struct doca_server {
        struct doca_shared shared;
        struct engine engine;
        struct port port[DOCA_SERVER_LISTENS];
        struct port *ports[DOCA_SERVER_LISTENS];
        unsigned n_ports;
};

static uint32_t or (uint32_t value, uint32_t otherwise)
{
        return value ? value : otherwise;
}

static void describe(struct doca_shared *s, const struct doca_options *o)
{
        *s = (struct doca_shared) {
                .base = { .family = &doca_target_family,
                          .record = o->record,
                          .busy_poll = o->busy_poll,
                          .limits = { .connections = or (o->clients, CONNECTIONS),
                                      .host_connections = or (o->clients, OF_ADDRESS),
                                      .max_transfer = or (o->max_transfer, MAX_TRANSFER),
                                      .receive_bytes = DOCA_IO_LEN } },
                .dialect = o->dialect,
                .after_error = o->reference ? DOCA_CONSUMES : DOCA_KEEPS,
                .policy = o->policy,
                .faults = o->faults,
                .cores = or (o->cores, CORES),
                .transactions = or (o->transactions, TRANSACTIONS),
                .device = o->device,
                .broken = o->broken,
                .user = o->user,
                .patience = or (o->patience, PATIENCE),
                .trace = o->trace,
                .quiet = o->quiet,
        };
        quota_init(&s->base.of_address);
        pthread_mutex_init(&s->lock, NULL);
}

static bool open_storage(struct doca_shared *s, const char *spec, char *error, size_t size)
{
        s->ns = ns_open(NULL, spec, "doca", 1, error, size);
        if (!s->ns)
                return false;
        if (s->ns->ms == 0)
                return true;
        snprintf(error, size, "'%s' has metadata, which is not supported", spec);
        return false;
}

static void name_ports(struct doca_server *s, const struct doca_options *o)
{
        for (; s->n_ports < o->listens; s->n_ports++) {
                struct port *p = &s->port[s->n_ports];

                snprintf(p->traddr, sizeof(p->traddr), "%s", o->listen[s->n_ports].traddr);
                snprintf(p->trsvcid, sizeof(p->trsvcid), "%s", o->listen[s->n_ports].trsvcid);
                s->ports[s->n_ports] = p;
        }
}

/* Without RDMA control messages are answered all the same. */
static void open_rdma(struct doca_server *s)
{
        char *why = s->shared.no_rdma;

        if (listen_open_rdma(&s->engine.listeners, why, sizeof(s->shared.no_rdma)) ||
            s->shared.quiet)
                return;
        log_line(LOG_AS_WARNING, NULL, NULL,
                 "%s: control messages are answered, and no connection can be made", why);
}

struct doca_server *doca_server_start(const struct doca_options *o, char *error, size_t size)
{
        struct doca_server *s = calloc(1, sizeof(*s));
        bool ok;

        snprintf(error, size, "%s", strerror(ENOMEM));
        if (!s)
                return NULL;
        describe(&s->shared, o);
        name_ports(s, o);
        ok = open_storage(&s->shared, o->ns ? o->ns : "mem:64M", error, size) &&
             engine_start(&s->engine, &s->shared.base, o->reactors ? o->reactors : 1, BUFFERS,
                          o->verbs, error, size);
        if (ok)
                open_rdma(s);
        if (ok && listen_on(&s->engine.listeners, s->ports, s->n_ports, error, size)) {
                listen_accept(&s->engine.listeners, s->n_ports);
                return s;
        }
        doca_server_stop(s);
        return NULL;
}

static void say_total(const struct doca_shared *s)
{
        const struct doca_stats *t = &s->total;

        if (s->clients > 0 && !s->quiet)
                log_line(LOG_AS_INFO, NULL, NULL,
                         "%u clients: %" PRIu64 " reads (%" PRIu64 " bytes), %" PRIu64
                         " writes (%" PRIu64 " bytes), %" PRIu64 " failed; polls: %" PRIu64
                         " hits, %" PRIu64 " misses",
                         s->clients, t->reads, t->bytes_read, t->writes, t->bytes_written,
                         t->failed, s->polls.hits, s->polls.misses);
}

void doca_server_stop(struct doca_server *s)
{
        if (s->engine.reactors) {
                engine_close(&s->engine);
                ns_hurry(s->shared.ns);
        }
        engine_drain(&s->engine);
        engine_fini(&s->engine);
        say_total(&s->shared);
        if (s->shared.ns)
                ns_put(s->shared.ns);
        quota_fini(&s->shared.base.of_address);
        pthread_mutex_destroy(&s->shared.lock);
        free(s);
}

const char *doca_server_port(const struct doca_server *s, unsigned i)
{
        return s->port[i].trsvcid;
}

uint64_t doca_server_size(const struct doca_server *s, uint32_t *block_size)
{
        *block_size = doca_block_size(&s->shared);
        return doca_total_size(&s->shared);
}

const char *doca_server_no_rdma(const struct doca_server *s)
{
        return s->shared.no_rdma;
}

/* --- the family --------------------------------------------------------------------------------- */

static struct listen_place place(struct port *p)
{
        return (struct listen_place) { .traddr = p->traddr, .trsvcid = p->trsvcid };
}

/* Places are as they are: that of a connection is in its blob. */
static struct verbs_provider *record_rdma(struct verbs_provider *of, struct capture_writer *w)
{
        return verbs_record_new(of, w, NULL);
}

const struct target_family doca_target_family = {
        .family = &doca_family,
        .place = place,
        .start_stream = doca_conn_start,
        .record_rdma = record_rdma,
        .record_end = verbs_record_free,
        .own_bytes = sizeof(struct doca_reactor),
        .own_init = doca_reactor_init,
        .command = &doca_command_line,
};
