/* SPDX-License-Identifier: BSD-3-Clause */
/* SRP as a family of the suite: its command line, who is tested, what he can do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/engine/option_rows.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/srp/wire/family.h"
#include "srp_initiators.h"
#include "srp_words.h"
#include "target/srp/srp_server.h"

enum { SLOW_LUN = 1, LIMIT = 16, CHANNELS = 4 };

struct srp_conform_args {
        struct options o; /* first */
        struct srp_peer peer;
        uint64_t lun, slow_lun;
};
#define OPTION_ARGS struct srp_conform_args

static struct srp_peer *peer_in(void *args)
{
        return &((struct srp_conform_args *)args)->peer;
}

static bool take_target(void *args, const char *value, char *error, size_t size)
{
        peer_in(args)->named = srp_port_id_read(peer_in(args)->target, value);
        snprintf(error, size, "'%s' is not 32 hexadecimal digits", value);
        return peer_in(args)->named;
}

static bool take_slow(void *args, const char *value, char *error, size_t size)
{
        struct srp_conform_args *a = args;

        a->peer.has_slow = option_number(value, &a->slow_lun) == 0 && a->slow_lun <= 0x3fff;
        snprintf(error, size, "'%s' is not a number from 0 to 16383", value);
        return a->peer.has_slow;
}

/* clang-format off */
static const struct option_row rows[] = {
        CALL(0, "target-id", "HEX", take_target, "its port identifier, id_ext and ioc_guid: 32 digits (zeroes)", TARGET),
        NUMBER(0, "lun", "N", lun, 0, 0x3fff, "the logical unit that is tested (0)", TARGET),
        CALL(0, "slow-lun", "N", take_slow, "one whose READs take a tenth of a second or more, for what has to be "
                                            "outstanding", TARGET),
        FLAG(0, "allow-write", peer.may_write, "cases may write to the logical unit", TARGET),
        STRING(0, "hook", "CMD", peer.hook, "--role host: shell command that has the initiator log in to $NVMF_TRADDR, "
               "$NVMF_TRSVCID, write, read back and log out", TARGET),
        { 0 },
};
/* clang-format on */

static int check(struct options *o)
{
        struct srp_conform_args *a = (struct srp_conform_args *)(void *)o;

        o->suite.peer = &a->peer;
        a->peer.lun = (uint32_t)a->lun;
        a->peer.slow_lun = (uint32_t)a->slow_lun;
        if (a->peer.hook && o->suite.role != ROLE_HOST)
                return options_wrong("--hook is for --role host");
        if (a->peer.hook && o->jobs == 0)
                o->jobs = 1; /* who knows how many at a time it can be asked for */
        return 0;
}

/* --- who is tested ------------------------------------------------------------------------------ */

struct started {
        struct srp_peer peer;      /* what is found out stays in it */
        struct srp_server *server; /* NULL: it is somebody else's */
        struct verbs_provider *memory;
};

/* Small limits: what is beyond them is soon sent. */
static struct srp_options embedded(const struct rule_policy *policy, struct verbs_provider *memory)
{
        static const char *luns[] = { "mem:4M", [SLOW_LUN] = "mem:1M,delay=150ms" };

        return (struct srp_options) { .listen = { { "127.0.0.1", "0" } },
                                      .listens = 1,
                                      .lun = luns,
                                      .luns = sizeof(luns) / sizeof(luns[0]),
                                      .id = "nvmfspec suite",
                                      .request_limit = LIMIT,
                                      .channels = CHANNELS,
                                      .policy = *policy,
                                      .quiet = true,
                                      .verbs = memory };
}

static bool start_embedded(struct started *st, const struct rule_policy *policy, struct suite *s,
                           char *error, size_t size)
{
        struct srp_options o;

        snprintf(error, size, "out of memory");
        st->memory = verbs_memory_new(NULL);
        if (!st->memory)
                return false;
        o = embedded(policy, st->memory);
        st->server = srp_server_start(&o, error, size);
        if (!st->server)
                return false;
        memcpy(st->peer.target, o.id, sizeof(o.id));
        st->peer.named = st->peer.has_slow = st->peer.may_write = true;
        st->peer.lun = 0;
        st->peer.slow_lun = SLOW_LUN;
        st->peer.block = 512;
        st->peer.blocks = (4 << 20) / 512;
        s->verbs = st->memory;
        s->traddr = "127.0.0.1";
        s->trsvcid = srp_server_port(st->server, 0);
        return true;
}

static void stop(void *started)
{
        struct started *st = started;

        if (st->server)
                srp_server_stop(st->server);
        if (st->memory)
                verbs_memory_free(st->memory);
        free(st);
}

static bool reach(struct suite *s, const struct srp_peer *p, char *error, size_t size)
{
        bool host = s->role == ROLE_HOST;

        s->traddr = s->traddr ? s->traddr : "127.0.0.1";
        s->trsvcid = s->trsvcid ? s->trsvcid : host ? "0" : "5555";
        if (host && !p->hook)
                return true; /* each case has memory of its own */
        s->verbs = verbs_rdma(error, size);
        return s->verbs;
}

static void *start(const struct options *o, const struct rule_policy *policy, struct suite *s,
                   char *error, size_t size)
{
        struct started *st = calloc(1, sizeof(*st));

        (void)o;
        snprintf(error, size, "out of memory");
        if (!st)
                return NULL;
        st->peer = *srp_peer_of(s);
        st->peer.policy = *policy;
        if (s->embedded ? start_embedded(st, policy, s, error, size)
                        : reach(s, &st->peer, error, size)) {
                s->peer = &st->peer;
                return st;
        }
        stop(st);
        return NULL;
}

/* --- what it can do ----------------------------------------------------------------------------- */

static void ask_capacity(struct chan *c, struct srp_peer *p)
{
        struct order *o = order_of(c, SCSI_READ_CAPACITY_10, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        const uint8_t *data = data_in(o, 8);
        struct answer a = run_order(o);

        if (a.status != SCSI_GOOD)
                return;
        if (be_get(data + 4, 4) == 0)
                return; /* nothing has come */
        p->blocks = be_get(data, 4) + 1;
        p->block = (uint32_t)be_get(data + 4, 4);
}

/* Less of what the target has rejected, for the reason that it gives; a bit that its revision reserves it need not
 * accept. False: there is no less. */
static bool ask_less(struct chan_login *how, uint32_t reason)
{
        static const uint32_t lengths[] = { 8260, 4148, 2116, 996, 512, 260, 64, 0 };
        unsigned i = 0;

        if (reason == SRP_REJECT_IU_LENGTH) {
                while (lengths[i] >= how->it_iu)
                        i++;
                how->it_iu = lengths[i];
                return how->it_iu > 0;
        }
        if (reason == SRP_REJECT_FORMATS && how->formats != SRP_FORMAT_INDIRECT) {
                how->formats =
                    how->formats == SRP_FORMAT_DIRECT ? SRP_FORMAT_INDIRECT : SRP_FORMAT_DIRECT;
                return true;
        }
        if (!how->flags)
                return false;
        how->flags = 0;
        return true;
}

/* What a target has no resources for it may have them for later (00010001h). */
static bool may_pass(struct t *t, uint32_t reason, unsigned *tries)
{
        enum { TRIES = 5, WAIT_MS = 100 };

        if (reason != SRP_REJECT_RESOURCES || *tries == TRIES)
                return false;
        give_ms(t, (unsigned)WAIT_MS << (*tries)++);
        return true;
}

/* Who takes no login of ours, as of somebody whom he does not know, cannot be judged. */
static struct chan *log_in_first(struct t *t)
{
        struct chan_login how = { .flags = SRP_IMMEDIATE,
                                  .it_iu = 8260,
                                  .formats = SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT };
        struct srp_peer *p = srp_peer_of(t->suite);
        struct chan *c = ask_login_as(t, how);
        unsigned tries = 0;

        while (c->has_rej && (may_pass(t, be32_get(c->rej.reason), &tries) ||
                              ask_less(&how, be32_get(c->rej.reason))))
                c = ask_login_as(t, how);
        if (c->has_rej)
                broke(t, "the target rejects our logins: %s",
                      srp_reject_name(be32_get(c->rej.reason)));
        if (c->state == CHAN_REJECTED)
                broke(t, "connections are rejected (%d)", c->reason);
        p->it_iu = how.it_iu;
        p->formats = how.formats;
        return c;
}

static void look(struct t *t)
{
        struct srp_peer *p = srp_peer_of(t->suite);
        struct chan *c = log_in_first(t), *more;

        want(t, c->rsp.opcode == SRP_LOGIN_RSP, "a login response",
             "an acceptance without login response");
        p->limit = limit_of(c);
        p->immediate = c->rsp.rsp_flags & SRP_IMMEDIATE;
        attend(c);
        ask_capacity(c, p);
        more = ask_login(t, .flags = SRP_ACTION_MULTI);
        p->multi = more->state == CHAN_LIVE;
        if (p->multi)
                leave(more);
        leave(c);
}

static const struct test_case first_look = { .id = "probe/login",
                                             .rules = RULES(RULE_NONE),
                                             .says =
                                                 "The target accepts a login and serves its unit",
                                             .run = look,
                                             .family = &srp_conform };

static bool probe(struct suite *s, struct probed *p, char *error, size_t size)
{
        struct result r = { .id = "probe/login", .test = &first_look };

        p->count = 0;
        t_once(s, s->role == ROLE_HOST ? &srp_initiator_session : &first_look, &r, UINT32_MAX);
        snprintf(error, size, "%s", r.seen);
        if (s->role == ROLE_TARGET && r.verdict == VERDICT_FAIL)
                p->results[p->count++] = r;
        return r.verdict != VERDICT_ERROR;
}

static void describe(const struct suite *s, struct run *run)
{
        const struct srp_peer *p = srp_peer_of(s);

        if (s->role == ROLE_HOST) {
                snprintf(run->target, sizeof(run->target), "initiator: %.400s",
                         p->hook ? p->hook : "ours");
                snprintf(run->abilities, sizeof(run->abilities),
                         "a target of its own for each case, at srp:%s:%s", s->traddr,
                         strcmp(s->trsvcid, "0") == 0 ? "a free port" : s->trsvcid);
                return;
        }
        snprintf(run->target, sizeof(run->target), "srp:%s:%s%s", s->traddr, s->trsvcid,
                 s->embedded ? "  (embedded)" : "");
        snprintf(run->abilities, sizeof(run->abilities),
                 "request limit %u, %s, %s, LUN %u: %llu x %u bytes", p->limit,
                 p->multi ? "several channels" : "one channel",
                 p->immediate ? "immediate data" : "no immediate data", p->lun,
                 (unsigned long long)p->blocks, p->block);
}

static const struct test_case alive = { .id = "liveness",
                                        .rules = RULES(RULE_NONE),
                                        .says = "The target serves a new login",
                                        .run = expect_others_served,
                                        .family = &srp_conform };

static const struct test_case *liveness(const struct suite *s)
{
        return s->role == ROLE_HOST ? &srp_initiator_session : &alive;
}

static const char *const needs[] = { "slow unit", "several channels", "immediate data",
                                     "port identifier", "" };

static const char *why_not(const struct suite *s, const struct test_case *c, bool range)
{
        const struct srp_peer *p = srp_peer_of(s);

        if (c->needs & NEEDS_SLOW && !p->has_slow)
                return "this case needs a unit that is slow: --slow-lun N";
        if (c->needs & NEEDS_MULTI && !p->multi)
                return "the target has one channel for each initiator";
        if (c->needs & NEEDS_IMMEDIATE && !p->immediate)
                return "the target grants no immediate data";
        if (c->needs & NEEDS_PORT && !p->named)
                return "which identifier the target has is not known: --target-id HEX";
        if (!c->writes)
                return NULL;
        if (!p->may_write)
                return "this case writes: --allow-write permits that";
        return range ? NULL : "the logical unit is too small";
}

static unsigned ranges(const struct suite *s)
{
        const struct srp_peer *p = srp_peer_of(s);
        uint64_t n = p->blocks * p->block / SRP_RANGE_BYTES;

        return s->role == ROLE_HOST ? 0 : n < 64 ? (unsigned)n : 64;
}

const struct conform_family srp_conform = {
        .family = &srp_family,
        .options = rows,
        .args_size = sizeof(struct srp_conform_args),
        .intro = "-t srp judges a target, or with --role host an initiator, of SRP over RDMA CM.\n"
                 "-s: SRP has no usual port; the default is 5555.\n",
        .check = check,
        .start = start,
        .stop = stop,
        .probe = probe,
        .describe = describe,
        .liveness = liveness,
        .host_cases = srp_initiator_cases,
        .needs = needs,
        .why_not = why_not,
        .ranges = ranges,
        .begin = chan_world_begin,
        .settle = chan_world_settle,
        .end = chan_world_end,
        .fields = chan_fields,
        .by_case = SRP_V_CASE,
};
