/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/srp/wire/family.h"
#include "srp_command_line.h"
#include "srp_conn.h"
#include "target/engine/engine.h"
#include "target/engine/family.h"

enum {
        REQUEST_LIMIT = 64,
        CHANNELS = 8,
        IT_IU = 8260, /* what Linux asks for: SRP_CMD and 8 KiB of immediate data */
        MAX_TRANSFER = 1 << 20,
        CONNECTIONS = 1024,
        RECEIVES = 8192,
        BUFFERS = 256 << 20,
        SETUP_MS = 10000,
        STALL_MS = 30000,
        PROBE_MS = 300000,
        PROTOCOL_SRP = 4, /* SPC-4 7.6.1 */
};

struct port { /* the engine's word */
        char traddr[256], trsvcid[LISTEN_SERVICE];
};

struct srp_server {
        struct srp_service service;
        struct engine engine;
        struct port port[SRP_SERVER_LISTENS];
        struct port *ports[SRP_SERVER_LISTENS];
        unsigned n_ports;
};

/* --- what is served --------------------------------------------------------------------------- */

static bool open_unit(struct srp_service *s, uint32_t lun, const char *spec, char *error,
                      size_t size)
{
        char name[SRP_PORT_ID_TEXT];
        struct ns *ns;

        srp_port_id_text(s->port.id, name);
        ns = ns_open(NULL, spec, name, lun + 1, error, size);
        if (!ns)
                return false;
        s->device.unit[lun] = ns;
        if (ns->ms == 0)
                return true;
        snprintf(error, size, "LUN %u: '%s' has metadata, which is not supported", lun, spec);
        return false;
}

static bool open_units(struct srp_service *s, const struct srp_options *o, char *error, size_t size)
{
        if (o->luns == 0)
                return open_unit(s, 0, "mem:64M", error, size);
        if (o->luns > SCSI_UNITS) {
                snprintf(error, size, "LUN %u is above %d", o->luns - 1, SCSI_UNITS - 1);
                return false;
        }
        for (uint32_t lun = 0; lun < o->luns; lun++)
                if (o->lun[lun] && !open_unit(s, lun, o->lun[lun], error, size))
                        return false;
        return true;
}

static uint32_t given(uint32_t value, uint32_t otherwise)
{
        return value ? value : otherwise;
}

/* NULL; else what is wrong. */
static const char *check(const struct srp_options *o)
{
        if (o->request_limit == 1 || o->request_limit > 4096)
                return "the request limit is not from 2 to 4096";
        if (o->it_iu > 0 && (o->it_iu < sizeof(union srp_iu) || o->it_iu > 1 << 20))
                return "the longest IU of initiators is not from 64 to 1048576 bytes";
        if (o->max_transfer > 0 && (o->max_transfer < 4096 || o->max_transfer > 32 << 20))
                return "the longest transfer is not from 4K to 32M";
        return NULL;
}

static void describe(struct srp_service *s, const struct srp_options *o)
{
        s->port = (struct srp_port) {
                .it_iu_max = given(o->it_iu, IT_IU),
                .ti_iu_max = SRP_IU_OUT,
                .formats = SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT,
                .request_limit = given(o->request_limit, REQUEST_LIMIT),
                .channels_max = given(o->channels, CHANNELS),
        };
        memcpy(s->port.id, o->id, sizeof(s->port.id));
        s->port.immediate_max =
            o->no_immediate
                ? 0
                : (uint16_t)(s->port.it_iu_max < UINT16_MAX ? s->port.it_iu_max : UINT16_MAX);
        s->device.max_transfer = given(o->max_transfer, MAX_TRANSFER);
        s->device.protocol = PROTOCOL_SRP;
        s->setup_timeout = SETUP_MS;
        s->stall_timeout = given(o->stall_timeout, STALL_MS);
        s->probe = given(o->probe, PROBE_MS);
        s->trace = o->trace;
        s->quiet = o->quiet;
        s->base.busy_poll = o->busy_poll;
        s->base.limits = (struct engine_limits) { .connections = CONNECTIONS,
                                                  .host_connections = CONNECTIONS / 2,
                                                  .max_transfer = s->device.max_transfer,
                                                  .receives = RECEIVES,
                                                  .receive_bytes = s->port.it_iu_max };
}

bool srp_service_init(struct srp_service *s, const struct srp_options *o, char *error, size_t size)
{
        const char *wrong = check(o);

        *s = (struct srp_service) { .base.family = &srp_target_family,
                                    .policy = o->policy,
                                    .script = o->script,
                                    .enabled = true };
        quota_init(&s->base.of_address);
        pthread_mutex_init(&s->lock, NULL);
        if (wrong) {
                snprintf(error, size, "%s", wrong);
                return false;
        }
        describe(s, o);
        return open_units(s, o, error, size);
}

/* Its threads answer reactors: before these are gone. */
static void close_units(struct srp_service *s)
{
        for (unsigned i = 0; i < SCSI_UNITS; i++) {
                if (s->device.unit[i])
                        ns_put(s->device.unit[i]);
                s->device.unit[i] = NULL;
        }
}

void srp_service_fini(struct srp_service *s)
{
        close_units(s);
        quota_fini(&s->base.of_address);
        pthread_mutex_destroy(&s->lock);
}

void srp_service_disable(struct srp_service *s)
{
        pthread_mutex_lock(&s->lock);
        s->enabled = false;
        pthread_mutex_unlock(&s->lock);
}

/* --- the server ------------------------------------------------------------------------------- */

static void name_ports(struct srp_server *s, const struct srp_options *o)
{
        for (; s->n_ports < o->listens; s->n_ports++) {
                struct port *p = &s->port[s->n_ports];

                snprintf(p->traddr, sizeof(p->traddr), "%s", o->listen[s->n_ports].traddr);
                snprintf(p->trsvcid, sizeof(p->trsvcid), "%s", o->listen[s->n_ports].trsvcid);
                s->ports[s->n_ports] = p;
        }
}

struct srp_server *srp_server_start(const struct srp_options *o, char *error, size_t size)
{
        struct srp_server *s = calloc(1, sizeof(*s));

        snprintf(error, size, "%s", strerror(ENOMEM));
        if (!s)
                return NULL;
        name_ports(s, o);
        if (srp_service_init(&s->service, o, error, size) &&
            engine_start(&s->engine, &s->service.base, o->reactors ? o->reactors : 1, BUFFERS,
                         o->verbs, error, size) &&
            listen_on(&s->engine.listeners, s->ports, s->n_ports, error, size)) {
                listen_accept(&s->engine.listeners, s->n_ports);
                return s;
        }
        srp_server_stop(s);
        return NULL;
}

static void end_conn(struct conn *c, void *arg)
{
        (void)arg;
        srp_conn_end(c);
}

void srp_server_disable(struct srp_server *s)
{
        srp_service_disable(&s->service);
        engine_each_conn(&s->engine, end_conn, NULL);
}

static void hurry_units(struct srp_service *s)
{
        for (unsigned i = 0; i < SCSI_UNITS; i++)
                if (s->device.unit[i])
                        ns_hurry(s->device.unit[i]);
}

void srp_server_stop(struct srp_server *s)
{
        if (s->engine.reactors) {
                srp_service_disable(&s->service);
                engine_close(&s->engine);
                hurry_units(&s->service);
        }
        engine_drain(&s->engine);
        close_units(&s->service);
        engine_fini(&s->engine);
        srp_service_fini(&s->service);
        free(s);
}

const char *srp_server_port(const struct srp_server *s, unsigned i)
{
        return s->port[i].trsvcid;
}

/* --- the family ------------------------------------------------------------------------------- */

static struct listen_place place(struct port *p)
{
        return (struct listen_place) { .rdma = true, .traddr = p->traddr, .trsvcid = p->trsvcid };
}

const struct target_family srp_target_family = {
        .family = &srp_family,
        .place = place,
        .start_rdma = srp_conn_start,
        .reject_rdma = srp_conn_reject,
        .command = &srp_command_line,
};
