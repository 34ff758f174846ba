/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe over Fabrics as a family of the suite. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "conform.h"
#include "conformance/engine/conform.h"
#include "conformance/engine/standstill.h"
#include "conformance/host/host_cases.h"
#include "conformance/words/case_rdma.h"
#include "embedded.h"
#include "pdu/io/shell.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/io/nvme_record.h"
#include "pdu/nvme/wire/family.h"
#include "pdu/nvme/wire/text.h"

static bool over_rdma(const struct suite *s)
{
        return strcmp(s->transport, "rdma") == 0;
}

/* --- who is tested ------------------------------------------------------------------------- */

static void size_text(char buf[32], uint64_t bytes)
{
        if (bytes >= 1 << 20 && bytes % (1 << 20) == 0)
                snprintf(buf, 32, "%llu MiB", (unsigned long long)(bytes >> 20));
        else if (bytes >= 1 << 10 && bytes % (1 << 10) == 0)
                snprintf(buf, 32, "%llu KiB", (unsigned long long)(bytes >> 10));
        else
                snprintf(buf, 32, "%llu bytes", (unsigned long long)bytes);
}

/* What only one of the transports has. */
static void transport_text(char *buf, size_t size, const struct suite *s)
{
        const struct caps *c = &((const struct peer *)s->peer)->caps;
        char h2c[32];

        size_text(h2c, c->maxh2cdata);
        if (over_rdma(s))
                snprintf(buf, size, "ICDOFF %u, MSDBD %u, CRQSIZE %u, %u READs at once", c->icdoff,
                         c->msdbd, c->crqsize, c->reads_out);
        else
                snprintf(buf, size, "MAXH2CDATA %s, CPDA %u, digests %s", h2c, c->cpda,
                         c->hdgst   ? c->ddgst ? "both" : "header"
                         : c->ddgst ? "data"
                                    : "none");
}

static void describe_host(struct run *run, const struct suite *s)
{
        const struct peer *p = s->peer;

        snprintf(run->target, sizeof(run->target), "host: %.400s",
                 p->hook ? p->hook : "the reference host");
        snprintf(run->abilities, sizeof(run->abilities),
                 "a target of its own for each case, at %s%s:%s%s", over_rdma(s) ? "rdma:" : "",
                 s->traddr, strcmp(s->trsvcid, "0") == 0 ? "a free port" : s->trsvcid,
                 p->fails ? "; the host fails with a correct target, so cases can show little"
                          : "");
        rule_each_in (&p->policy.waived, rule) {
                size_t len = strlen(run->abilities);

                snprintf(run->abilities + len, sizeof(run->abilities) - len, "; %s is not judged",
                         rule_get(rule)->id);
        }
}

static void describe_target(struct run *run, const struct suite *s)
{
        const struct caps *c = &((const struct peer *)s->peer)->caps;
        const char *nqn = ((const struct peer *)s->peer)->subnqn;
        char mdts[32], capsule[32], own[120];

        snprintf(run->target, sizeof(run->target), "%s%s:%s  %s%s%s", over_rdma(s) ? "rdma:" : "",
                 s->traddr, s->trsvcid, nqn ? nqn : "(no subsystem)",
                 nqn && !nqn_valid(nqn, NQN_FIELD, false) ? " (not an NQN: B2.2 4.7)" : "",
                 s->embedded ? "  (embedded)" : "");
        if (c->reach < REACH_CONTROLLER) {
                snprintf(
                    run->abilities, sizeof(run->abilities),
                    "its abilities are not known (see probe/), so cases lack some of what they "
                    "need");
                return;
        }
        size_text(mdts, c->mdts);
        size_text(capsule, c->in_capsule);
        transport_text(own, sizeof(own), s);
        snprintf(run->abilities, sizeof(run->abilities),
                 "NVMe %u.%u, queues of %u, MDTS %s, in-capsule %s, %s, "
                 "NSID %u: %llu x %u bytes%s%s",
                 c->vs >> 16, c->vs >> 8 & 0xff, CAP_MQES(c->cap) + 1u, c->mdts ? mdts : "none",
                 c->in_capsule ? capsule : "none", own, c->nsid, (unsigned long long)c->blocks,
                 c->block, c->discovery ? ", discovery" : "",
                 c->sqfc_off ? ", SQ flow control can be disabled" : "");
}

static void describe(const struct suite *s, struct run *run)
{
        if (s->role == ROLE_HOST)
                describe_host(run, s);
        else
                describe_target(run, s);
}

static const char *entity(const struct suite *s)
{
        return ((const struct peer *)s->peer)->subnqn;
}

static int change_by_command(void *user, enum change what, char *error, size_t size)
{
        static const char *const words[] = { [CHANGE_NAMESPACES] = "namespaces",
                                             [CHANGE_DISCOVERY] = "discovery",
                                             [CHANGE_ANA] = "ana",
                                             [CHANGE_ANA_GROUP] = "ana-group",
                                             [CHANGE_MASKED] = "masked" };
        const struct nvme_args *a = user;
        char command[4096], says[SHELL_LINE];
        int n = snprintf(command, sizeof(command), "%s %s", a->change, words[what]);
        int rc = n < (int)sizeof(command) ? shell_run(command, says, SHELL_MS) : -1;

        if (n >= (int)sizeof(command))
                snprintf(error, size, "longer than %zu bytes", sizeof(command) - 1);
        else if (rc == CHANGE_NOT || *says)
                snprintf(error, size, "%s", says);
        else
                snprintf(error, size, "'%.200s' ended with %d", command, rc);
        return rc;
}

struct started { /* a peer of its own: what is found out stays in it */
        struct peer peer;
        struct embedded embedded; /* .target NULL: it is somebody else's */
};

static bool begin_peer(struct started *st, const struct options *o,
                       const struct rule_policy *policy, struct suite *s, char *error, size_t size)
{
        const struct nvme_args *a = nvme_args(o);
        struct peer *p = &st->peer;

        p->policy = *policy;
        s->peer = p;
        if (s->embedded && !embedded_start(&st->embedded, a, policy, error, size))
                return false;
        if (s->embedded) {
                embedded_address(&st->embedded, s);
                return true;
        }
        if (a->change)
                p->changer = (struct changer) { change_by_command, (void *)(uintptr_t)a };
        if (!s->traddr)
                s->traddr = "127.0.0.1";
        if (!s->trsvcid)
                s->trsvcid = s->role == ROLE_HOST ? "0" : "4420";
        if (over_rdma(s) && (s->role == ROLE_TARGET || p->hook)) {
                s->verbs = verbs_rdma(error, size);
                return s->verbs;
        }
        return true;
}

static void *start(const struct options *o, const struct rule_policy *policy, struct suite *s,
                   char *error, size_t size)
{
        struct started *st = calloc(1, sizeof(*st));

        if (!st) {
                snprintf(error, size, "out of memory");
                return NULL;
        }
        st->peer = *(const struct peer *)s->peer;
        if (begin_peer(st, o, policy, s, error, size))
                return st;
        free(st);
        return NULL;
}

static void stop(void *started)
{
        struct started *st = started;

        if (st->embedded.target)
                embedded_stop(&st->embedded);
        free(st);
}

static bool record(struct suite *s, bool on)
{
        if (!on)
                verbs_record_free(s->recorder);
        s->recorder = on && s->verbs ? nvme_record_new(s->verbs, s->record) : NULL;
        return !on || !s->verbs || s->recorder;
}

/* Tried again if it went wrong while this machine stood still. */
static struct result try_host(struct suite *s)
{
        enum { TRIES = 3 };
        struct standstill still;
        struct result r;
        uint64_t since;

        standstill_start(&still);
        for (unsigned tries = 0; tries < TRIES; tries++) {
                since = now_ms();
                r = (struct result) { .id = "probe" };
                t_once(s, host_liveness(), &r, UINT32_MAX);
                if (r.verdict <= VERDICT_LENIENT || !standstill_since(&still, since))
                        break;
        }
        standstill_stop(&still);
        return r;
}

/* A host that never comes is no host; one that comes, but fails, is judged as far as it goes. */
static bool probe_host(struct suite *s, char *error, size_t size)
{
        struct peer *p = s->peer;
        struct result r = try_host(s);

        p->fails = r.verdict == VERDICT_FAIL || r.verdict == VERDICT_SKIP;
        snprintf(error, size, "%s", r.seen);
        return r.verdict != VERDICT_ERROR;
}

static bool probe_any(struct suite *s, struct probed *p, char *error, size_t size)
{
        p->count = 0;
        return s->role == ROLE_HOST ? probe_host(s, error, size) : probe(s, p, error, size);
}

/* --- is it still there? -------------------------------------------------------------------- */

/* Asked for no more than it could do at the start. */
static void alive(struct t *t)
{
        bool enabled = caps(t)->reach == REACH_CONTROLLER && caps(t)->io;
        struct queue *q;

        if (caps(t)->reach == REACH_NONE) {
                (void)(t_is_rdma(t) ? rdma_open(t) : tcp_open(t));
                return;
        }
        q = admin_queue(t, .disabled = !enabled, .hpda = 0, .hdgst = 0, .ddgst = 0);
        if (enabled)
                identify_ctrl(q);
        else if (caps(t)->reach >= REACH_PROPERTIES)
                property_get(q, PROP_VS);
}

static const struct test_case liveness = {
        .id = "liveness", .rules = RULES(RULE_NONE), .says = "The target answers", .run = alive
};

/* All of the range is read that the case before had, and again for a while: zeroes or marks of another run
 * show no stamp, but it will write there again. A target that can't be read says nothing. */
static void look_for_strangers(struct t *t)
{
        enum { WATCH_MS = 600, PAUSE_MS = 20 };
        struct queue *q = io_queue(t);
        uint32_t piece = large_bytes(t) / 4096 * 4096, block = caps(t)->block;
        uint64_t end = now_ms() + (t->suite->embedded ? 0 : WATCH_MS);

        do {
                for (uint32_t at = 0; piece > 0 && at + piece <= own_bytes(t); at += piece)
                        require(t, !is_strangers(t, read_blocks(q, at / block, piece), piece),
                                "blocks %llu to %llu hold what another run has written",
                                (unsigned long long)(own_lba(t) + at / block),
                                (unsigned long long)(own_lba(t) + (at + piece) / block - 1));
                pause_ms(t, PAUSE_MS);
        } while (now_ms() < end);
}

static const struct test_case sharing = { .id = "sharing",
                                          .rules = RULES(RULE_NONE),
                                          .says = "Nobody else writes to this range",
                                          .writes = true,
                                          .run = look_for_strangers };

static const struct test_case *liveness_of(const struct suite *s)
{
        if (s->role == ROLE_HOST)
                return ((const struct peer *)s->peer)->fails ? NULL : host_liveness();
        return &liveness;
}

/* --- which cases --------------------------------------------------------------------------- */

/* What base/ asks for is, but for little, not mandatory on discovery and administrative controllers, and they have
 * no NVM Command Set. */
static bool for_other_controllers(const struct caps *c, const struct test_case *test)
{
        return c->reach == REACH_CONTROLLER && !c->io && !test->needs &&
               (strncmp(test->id, "base/", 5) == 0 || strncmp(test->id, "nvm/", 4) == 0);
}

/* Without persistent connections a discovery controller has neither Keep Alive nor features nor events (3.1.3.4). */
static bool for_persistent_ones(const struct caps *c, const struct test_case *test)
{
        return c->id.cntrltype == CNTRLTYPE_DISCOVERY && !c->persistent && !test->needs &&
               (strncmp(test->id, "fab/keep-alive/", 15) == 0 ||
                strncmp(test->id, "fab/reset/", 10) == 0);
}

static const char *why_not(const struct suite *s, const struct test_case *test, bool range)
{
        const struct peer *p = s->peer;

        if (for_other_controllers(&p->caps, test))
                return "this case is about I/O controllers, and CNTRLTYPE is another";
        if (for_persistent_ones(&p->caps, test))
                return "the discovery controller does not support persistent connections";
        if ((test->needs & DISCOVERY) && !p->caps.discovery)
                return "no discovery service at this address";
        if (test->changes && !p->changer.make)
                return "this case needs a change of the target: --change CMD permits and makes it";
        if (test->alone && p->may_write && (p->slices > 0 || p->write_blocks > 0))
                return "this case is about the whole namespace: --allow-write NSID permits that";
        if (!test->writes)
                return NULL;
        if (!p->may_write)
                return "this case writes: --allow-write NSID[:SLBA+BLOCKS] permits that";
        if (!p->caps.nsid)
                return "the subsystem has no namespace";
        return range ? NULL : "the range of --allow-write, or its slice, is too small";
}

static unsigned ranges(const struct suite *s)
{
        uint64_t n = lease(s->peer).slots;

        return n < UINT32_MAX ? (unsigned)n : UINT32_MAX;
}

/* FNV-1a */
static uint64_t hash(uint64_t h, const char *s)
{
        while (*s)
                h = (h ^ (uint8_t)*s++) * UINT64_C(0x100000001b3);
        return h;
}

/* Pieces of SLOT_BYTES from the start of the namespace, as other runs may have other ranges of it. */
static bool range_piece(const struct suite *s, unsigned range, unsigned i, char name[LEASE_NAME])
{
        const struct peer *p = s->peer;
        struct lease l = lease(p);
        uint64_t begin = (l.slba + range * l.slot) * p->caps.block;
        uint64_t first = begin / SLOT_BYTES,
                 last = (begin + l.slot * p->caps.block - 1) / SLOT_BYTES;
        uint64_t who = UINT64_C(0xcbf29ce484222325);

        who = hash(hash(hash(who, p->subnqn), s->traddr), s->trsvcid ? s->trsvcid : "");
        snprintf(name, LEASE_NAME, "nvmfspec/%016llx/%u/%llu", (unsigned long long)who,
                 p->caps.nsid, (unsigned long long)(first + i));
        return !s->embedded && first + i <= last;
}

/* The namespace of a target that others may judge, too. */
static bool whole(const struct suite *s, char name[LEASE_NAME])
{
        const struct peer *p = s->peer;

        if (s->role == ROLE_HOST || s->embedded || !p->subnqn)
                return false;
        return range_piece(s, 0, 0, name) && snprintf(strrchr(name, '/'), 8, "/whole") > 0;
}

static const char *const needs[] = { "discovery service", "" };

/* --- text ---------------------------------------------------------------------------------- */

static void fields(const struct exchange_line *l, char *buf, size_t size)
{
        struct text_lines lines = { .text = text_in(buf, size) };
        struct describe d = text_describer(&lines);
        struct message m;

        memcpy(&m, l->header, sizeof(m));
        describe_message(&d, &m, l->kind == LINE_ADMIN);
}

static void outcome(const struct rule *r, const struct outcome *o, char *buf, size_t size)
{
        struct text t = text_in(buf, size);

        if (r->reaction == REACT_STATUS) {
                text_add(&t, "%s (%X/%02Xh)", status_name(o->code), o->code >> 8, o->code & 0xffu);
                if (o->place >= 0)
                        text_add(&t, " IPO %d in the %s", o->place & 0xffff,
                                 o->place & CONNECT_IATTR_DATA ? "data" : "SQE");
                return;
        }
        text_add(&t, "%s (%02Xh)", pdu_fes_name(o->code, peer_of(r->bound)), o->code);
        if (o->place >= 0)
                text_add(&t, " FEI %d", o->place);
        else if (o->place == PLACE_DIGEST)
                text_add(&t, " FEI = the digest received");
}

/* --- all of it ----------------------------------------------------------------------------- */

const struct conform_family nvme_conform = {
        .family = &nvme_family,
        .options = nvme_options,
        .args_size = sizeof(struct nvme_args),
        .intro = nvme_intro,
        .more = nvme_more,
        .check = nvme_check,
        .start = start,
        .stop = stop,
        .probe = probe_any,
        .describe = describe,
        .entity = entity,
        .liveness = liveness_of,
        .sharing = &sharing,
        .record = record,
        .host_cases = host_cases,
        .needs = needs,
        .why_not = why_not,
        .ranges = ranges,
        .range_piece = range_piece,
        .whole = whole,
        .begin = world_begin,
        .settle = world_settle,
        .end = world_end,
        .fields = fields,
        .outcome = outcome,
        .port = NVME_TCP_PORT,
        .by_case = V_CASE,
        .spec = nvme_spec,
};
