/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/engine/option_rows.h"
#include "doca_words.h"
#include "pdu/doca/wire/family.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/io/verbs/verbs_record.h"
#include "target/doca/doca_server.h"

enum {
        CLIENTS = 1024, /* of the embedded target: who has gone may still be on the way out */
};

struct doca_conform_args {
        struct options o; /* first */
        struct doca_peer peer;
        const char *dialect, *ns;
        bool reference;
};
#define OPTION_ARGS struct doca_conform_args

static bool take_waive(void *args, const char *value, char *error, size_t size)
{
        return option_rule(&doca_rules, &((struct options *)args)->policy.waived, value, error,
                           size);
}

static bool take_violate(void *args, const char *value, char *error, size_t size)
{
        return option_rule(&doca_rules, &((struct options *)args)->policy.violated, value, error,
                           size);
}

/* clang-format off */
static const struct option_row rows[] = {
        CHOICE(0, "dialect", "VERSION", dialect, DOCA_DIALECT_NAMES, "release of DOCA whose messages the target speaks, which nothing on the wire tells (3.2)", TARGET),
        STRING(0, "device", "ADDR", peer.device, "address of our RDMA device (that of the control channel)", TARGET),
        FLAG(0, "cm", peer.by_cm, "connections by the connection manager, as iWARP needs them, in place of queue pair numbers", TARGET),
        STRING(0, "hook", "CMD", peer.hook, "--role host: the shell's command that has the service connect to $NVMF_TRADDR, $NVMF_TRSVCID, work and go; it fails where the service does", TARGET),
        FLAG(0, "allow-write", peer.may_write, "cases may write to the storage", TARGET),
        STRING(0, "ns", "SPEC", ns, "its storage (mem:4M)", EMBEDDED),
        FLAG(0, "reference", reference, "it is as NVIDIA's: a request that fails has used its stage up", EMBEDDED),
        CALL(0, "waive", "RULE", take_waive, "it does not check this rule of services; repeatable", EMBEDDED),
        CALL(0, "violate", "RULE", take_violate, "it breaks this rule of targets; repeatable", EMBEDDED),
        { 0 },
};
/* clang-format on */

static int check(struct options *o)
{
        struct doca_conform_args *a = (struct doca_conform_args *)(void *)o;

        o->suite.peer = &a->peer;
        a->peer.dialect = doca_dialect_named(a->dialect ? a->dialect : "3.2");
        if (a->peer.hook && o->suite.role != ROLE_HOST)
                return options_wrong("--hook is for --role host");
        if (a->peer.hook && o->jobs == 0)
                o->jobs = 1; /* who knows how many at a time it can be asked for */
        return 0;
}

/* --- who is tested ------------------------------------------------------------------------------ */

struct started {
        struct doca_peer peer;      /* what is found out stays in it */
        struct doca_server *server; /* NULL: it is somebody else's */
        struct verbs_provider *memory;
};

static bool start_embedded(struct started *st, const struct doca_conform_args *a,
                           const struct rule_policy *policy, char *error, size_t size)
{
        struct doca_options o = { .listen = { { "127.0.0.1", "0" } },
                                  .listens = 1,
                                  .ns = a->ns ? a->ns : "mem:4M",
                                  .dialect = a->peer.dialect,
                                  .reference = a->reference,
                                  .clients = CLIENTS,
                                  .policy = *policy,
                                  .reactors = 1,
                                  .quiet = true };

        o.verbs = st->memory;
        st->server = doca_server_start(&o, error, size);
        return st->server;
}

static void stop(void *started)
{
        struct started *st = started;

        if (st->server)
                doca_server_stop(st->server);
        if (st->memory)
                verbs_memory_free(st->memory);
        free(st);
}

static void reach(struct started *st, struct suite *s)
{
        uint32_t block;

        if (s->role == ROLE_HOST) { /* each case has a target of its own */
                s->traddr = s->traddr ? s->traddr : "127.0.0.1";
                s->trsvcid = s->trsvcid ? s->trsvcid : "0";
                s->verbs = st->memory;
                return;
        }

        if (st->server) {
                s->traddr = "127.0.0.1";
                s->trsvcid = doca_server_port(st->server, 0);
                s->verbs = st->memory;
                st->peer.may_write = true;
                st->peer.total_size = doca_server_size(st->server, &block);
                st->peer.block_size = block;
                return;
        }
        if (!s->trsvcid)
                s->trsvcid = "4421";
        s->verbs = verbs_rdma(st->peer.no_rdma, sizeof(st->peer.no_rdma));
}

/* Both ends are ours, and in this process. */
static bool in_memory(const struct suite *s)
{
        const struct doca_peer *p = s->peer;

        return s->embedded || (s->role == ROLE_HOST && !p->hook);
}

static void *start(const struct options *o, const struct rule_policy *policy, struct suite *s,
                   char *error, size_t size)
{
        const struct doca_conform_args *a = (const struct doca_conform_args *)(const void *)o;
        struct started *st = calloc(1, sizeof(*st));

        snprintf(error, size, "out of memory");
        if (!st)
                return NULL;
        st->peer = *(const struct doca_peer *)s->peer;
        st->peer.policy = *policy;
        if (in_memory(s))
                st->memory = verbs_memory_new(NULL);
        if ((in_memory(s) && !st->memory) ||
            (s->embedded && !start_embedded(st, a, policy, error, size))) {
                stop(st);
                return NULL;
        }
        s->peer = &st->peer;
        reach(st, s);
        return st;
}

/* --- what it can do ----------------------------------------------------------------------------- */

static void ask_size(struct t *t)
{
        ask_first(connect_channel(t));
}

static const struct test_case first_look = { .id = "probe",
                                             .rules = RULES(RULE_NONE),
                                             .says = "The target answers the first request",
                                             .run = ask_size,
                                             .family = &doca_conform };

/* Its own exchange: the words keep no size. */
static bool probe(struct suite *s, struct probed *p, char *error, size_t size)
{
        struct result r = { .id = "probe" };
        struct doca_peer *peer = s->peer;
        struct doca_params params = { .traddr = s->traddr,
                                      .trsvcid = s->trsvcid,
                                      .dialect = peer->dialect,
                                      .timeout = 5000,
                                      .storage = DOCA_RANGE_BYTES };
        struct doca_session session;
        struct host_error e = { 0 };

        p->count = 0;
        t_once(s, s->role == ROLE_HOST ? &doca_service_session : &first_look, &r, UINT32_MAX);
        snprintf(error, size, "%s", r.seen);
        if (r.verdict == VERDICT_ERROR || s->role == ROLE_HOST)
                return r.verdict != VERDICT_ERROR;
        if (!doca_shape_of(peer->dialect, DOCA_QUERY))
                return true; /* it cannot be asked */
        if (doca_session_open(&session, &params, &e) == 0) {
                peer->total_size = session.total_size;
                peer->block_size = session.block_size;
                (void)doca_session_close(&session, false, NULL);
        }
        return true;
}

/* Sessions: control channel and RDMA, as their requester has it. Cases that are channels alone are in their exchange; of
 * services the target records. */
static bool record(struct suite *s, bool on)
{
        if (!on)
                verbs_record_free(s->recorder);
        s->recorder = on && s->verbs ? verbs_record_new(s->verbs, s->record, NULL) : NULL;
        return !on || !s->verbs || s->recorder;
}

static void describe(const struct suite *s, struct run *run)
{
        const struct doca_peer *p = s->peer;

        if (s->role == ROLE_HOST) {
                snprintf(run->target, sizeof(run->target), "service: %.400s",
                         p->hook ? p->hook : "our requester");
                snprintf(run->abilities, sizeof(run->abilities),
                         "DOCA %s, a target of its own for each case", p->dialect->name);
                return;
        }
        snprintf(run->target, sizeof(run->target), "doca:%s:%s%s", s->traddr, s->trsvcid,
                 s->embedded ? "  (embedded)" : "");
        snprintf(run->abilities, sizeof(run->abilities),
                 "DOCA %s, %llu bytes in blocks of %llu%s%s", p->dialect->name,
                 (unsigned long long)p->total_size, (unsigned long long)p->block_size,
                 p->no_rdma[0] ? "; no data path: " : "", p->no_rdma);
}

static const struct test_case *liveness(const struct suite *s)
{
        return s->role == ROLE_HOST ? NULL : &first_look;
}

/* By the bits of NEEDS_QUERY and so on. */
static const char *const needs[] = {
        "query_storage",
        "message ids",
        "error_response",
        "a number of cores",
        "stop_storage",
        "a place in the storage",
        "",
};
static const char *const lacks[] = {
        "2.10 has no query_storage",
        "2.10 has no message ids",
        "2.10 has no error_response apart from response",
        "2.10 has no number of cores, and no context of a connection",
        "2.10 has no stop_storage",
        "2.10 has no place in the storage apart from that in the memory",
};
enum { NEEDS = sizeof(lacks) / sizeof(lacks[0]) };

static const char *why_not(const struct suite *s, const struct test_case *c, bool range)
{
        const struct doca_peer *p = s->peer;

        for (unsigned i = 0; i < NEEDS && p->dialect->version == DOCA_2_10; i++)
                if (c->needs >> i & 1)
                        return lacks[i];
        if (!c->writes)
                return NULL;
        if (!p->may_write)
                return "this case writes: --allow-write permits that";
        return range ? NULL : "the storage is too small";
}

static void outcome(const struct rule *r, const struct outcome *o, char *buf, size_t size)
{
        (void)r;
        snprintf(buf, size, "%s (%u)", doca_error_name(o->code), o->code);
}

const struct conform_family doca_conform = {
        .family = &doca_family,
        .options = rows,
        .args_size = sizeof(struct doca_conform_args),
        .intro = "-t doca judges a target, or with --role host a service, of NVIDIA's DOCA storage "
                 "protocol. Cases with a data "
                 "path need one that "
                 "connects our own blobs (verbs blob, version 1): none of NVIDIA's does.\n",
        .check = check,
        .start = start,
        .stop = stop,
        .probe = probe,
        .describe = describe,
        .liveness = liveness,
        .record = record,
        .port = 4421,
        .host_cases = doca_service_cases,
        .notices = true,
        .needs = needs,
        .why_not = why_not,
        .ranges = doca_ranges,
        .begin = doca_world_begin,
        .end = doca_world_end,
        .fields = doca_words_fields,
        .outcome = outcome,
};
