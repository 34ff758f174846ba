/* SPDX-License-Identifier: BSD-3-Clause */
#include "play.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/discovery.h"
#include "host/verify.h"
#include "pcap/line.h"
#include "pdu/io/capture_writer.h"
#include "pdu/io/shell.h"
#include "pdu/io/verbs_memory.h"
#include "pdu/wire/identify.h"
#include "words.h"

enum {
        HOOK_MS = 30000,
        GRACE_MS = 1000,
        REFERENCE_MS = 1000, /* the reference host's patience: it runs on this machine */
        RANGE = 4 << 20,
        PIECE = 256 << 10,
        QUEUES = 2,
};

#define NQN_PREFIX "nqn.2026-01.io.nvmfspec:"

struct stage {
        struct t *t;
        const struct play *play;
        struct played *seen;
        struct target *target;
        struct verbs_provider *verbs;       /* RDMA */
        struct verbs_provider *memory;      /* the same, if it is ours */
        char trsvcid[8], subnqn[NQN_FIELD]; /* the latter another one for each play */
        int64_t over_ns;                    /* when the host was through */
};

/* --- the target ---------------------------------------------------------------------------- */

static bool make_fabric(struct stage *s, char *error, size_t size)
{
        const struct suite *suite = s->t->suite;

        s->verbs = suite->verbs;
        if (suite->trtype != TRTYPE_RDMA || s->verbs)
                return true;
        s->verbs = s->memory = verbs_memory_new(NULL);
        snprintf(error, size, "out of memory");
        return s->verbs;
}

static void start_target(struct stage *s, struct capture_writer *record, char *error, size_t size)
{
        static const char *const one_ns[] = { "mem:8M", NULL };
        const struct suite *suite = s->t->suite;
        struct target_options o = s->play->target;

        o.trtype = suite->trtype;
        o.subnqn = s->subnqn;
        o.traddr = suite->traddr;
        o.trsvcid = suite->trsvcid;
        o.ns = o.ns ? o.ns : one_ns;
        o.quiet = true;
        o.record = record;
        if (s->play->breaks != RULE_NONE)
                rule_add(&o.policy.violated, s->play->breaks);
        if (!make_fabric(s, error, size))
                return;
        o.verbs = s->verbs;
        s->target = target_start(&o, error, size);
        if (s->target)
                snprintf(s->trsvcid, sizeof(s->trsvcid), "%u", target_trsvcid(s->target));
        if (s->play->stranger)
                snprintf(s->subnqn, sizeof(s->subnqn), NQN_PREFIX "nobody");
}

/* What the host has ended its target has not yet seen end. */
static void await_end(const struct stage *s)
{
        uint64_t until = conn_clock() + (uint64_t)(GRACE_MS * s->t->suite->timeout_scale);

        while (target_connections(s->target) > 0 && conn_clock() < until)
                pause_ms(s->t, 1);
}

static void end_target(struct stage *s)
{
        if (s->target)
                await_end(s);
        s->over_ns = capture_clock();
        if (s->target)
                target_stop(s->target);
        if (s->memory)
                verbs_memory_free(s->memory);
}

/* --- the host ------------------------------------------------------------------------------ */

static void call_hook(struct stage *s)
{
        const struct hosted *h = s->t->suite->hosted;
        char command[HOOK_MAX + 1024], says[SHELL_LINE];

        snprintf(command, sizeof(command),
                 "export NVMF_CASE=%s NVMF_TRTYPE=%s NVMF_TRADDR=%s NVMF_TRSVCID=%s "
                 "NVMF_SUBNQN=%s NVMF_HDGST=%d NVMF_DDGST=%d\n%s",
                 s->t->test->id, s->t->suite->trtype == TRTYPE_RDMA ? "rdma" : "tcp",
                 s->t->suite->traddr, s->trsvcid, s->subnqn, s->play->hdgst, s->play->ddgst,
                 h->hook);
        s->seen->status =
            shell_run(command, says, (unsigned)(HOOK_MS * s->t->suite->timeout_scale));
        snprintf(s->seen->says, sizeof(s->seen->says), "%s", says);
}

static struct host_params reference(const struct stage *s)
{
        const struct suite *suite = s->t->suite;
        struct host_params p = host_params_default();

        p.transport = suite->trtype == TRTYPE_RDMA ? HOST_RDMA : HOST_TCP;
        p.verbs = s->verbs;
        p.traddr = suite->traddr;
        p.trsvcid = s->trsvcid;
        p.hostnqn = s->t->hostnqn;
        memcpy(p.hostid, s->t->hostid, sizeof(p.hostid));
        p.timeout = (unsigned)(REFERENCE_MS * suite->timeout_scale);
        p.hdgst = s->play->hdgst;
        p.ddgst = s->play->ddgst;
        p.no_sqfc = true;
        p.policy = &suite->hosted->policy;
        return p;
}

static int read_discovery(const struct stage *s, struct host_error *e)
{
        struct host_params p = reference(s);
        struct discovery_log log;
        struct host_ctrl c;

        p.subnqn = NQN_DISCOVERY;
        p.io_queues = 0;
        p.kato = 0;
        if (host_ctrl_connect(&c, &p, e) < 0)
                return -1;
        if (discovery_read(&c, 0, &log, e) < 0) {
                host_ctrl_close(&c);
                return -1;
        }
        discovery_free(&log);
        return host_ctrl_disconnect(&c, e);
}

static int verify(const struct stage *s, struct host_ctrl *c, struct host_error *e)
{
        static const struct verify_options usual = { .nsid = 1,
                                                     .range = RANGE,
                                                     .max_size = PIECE,
                                                     .depth = 8,
                                                     .passes = 1,
                                                     .command_buffers = true };
        struct verify_options o = usual;
        struct verify_result r;
        struct id_ns id;

        if (host_ctrl_identify(c, CNS_NS, o.nsid, &id, e) < 0)
                return -1;
        o.block_size = id_ns_block_size(&id);
        o.blocks = le64_get(id.nsze);
        o.seed = s->t->suite->seed;
        if (o.block_size == 0 || o.blocks == 0)
                return host_fail(e, HOST_STATUS, "namespace 1 has no usable blocks");
        if (verify_run(c, &o, &r, e) < 0)
                return -1;
        return r.differs ? host_fail(e, HOST_STATUS, "%s", r.line) : 0;
}

static int use_subsystem(const struct stage *s, struct host_error *e)
{
        struct host_params p = reference(s);
        struct host_ctrl c;

        p.subnqn = s->subnqn;
        p.io_queues = QUEUES;
        if (host_ctrl_connect(&c, &p, e) < 0)
                return -1;
        if (verify(s, &c, e) < 0) {
                host_ctrl_close(&c);
                return -1;
        }
        return host_ctrl_disconnect(&c, e);
}

static void call_reference(struct stage *s)
{
        struct host_error e = { 0 };

        if (read_discovery(s, &e) == 0 && use_subsystem(s, &e) == 0)
                return;
        s->seen->status = e.kind ? (int)e.kind : HOST_BROKEN;
        snprintf(s->seen->says, sizeof(s->seen->says), "%.*s", RESULT_TEXT - 1, e.line);
}

/* --- what the capture shows ---------------------------------------------------------------- */

struct sight {              /* of one connection */
        bool spoilt;        /* the rule was broken on it, */
        uint32_t digest;    /* first by a PDU with this HDGST */
        bool termed, ended; /* by H2CTermReq, with these; before its target did */
        uint16_t fes;
        uint32_t fei;
};

static bool is_pdu(const struct record *r, enum pdu_type type)
{
        return r->e->kind == TRACE_PDU && r->e->pdu.h->ch.type == type;
}

static void see_line(struct t *t, const struct record *r)
{
        char line[EXCHANGE_LINE];
        struct text words = text_in(line, sizeof(line));

        if (r->e->kind == TRACE_HEADER)
                return;
        line_words(&words, r);
        t->log.now = (uint64_t)r->e->at.time_ns / 1000;
        exchange_message(&t->log, r->session->conn->number, r->e->sender == PARTY_CONTROLLER, "%s",
                         line);
}

/* What a header has shown is told with the rest of its PDU, or behind what the host made of it. */
static void see_breach(const struct stage *s, const struct record *r)
{
        struct sight *c = r->session->user;

        if (c->spoilt || !rule_in(&r->broken, s->play->breaks))
                return;
        c->spoilt = true;
        if (r->e->kind == TRACE_PDU || r->e->kind == TRACE_FAULT)
                c->digest = r->e->pdu.hdgst;
}

static bool is_our_doing(const struct play *p, enum rule_id rule)
{
        return p->stranger && rule == FAB_CONNECT_SUBNQN;
}

/* A target that breaks a rule excuses what the host does; but not how it says so. */
static void see_host(const struct stage *s, const struct record *r)
{
        char line[EXCHANGE_LINE];
        struct text words = text_in(line, sizeof(line));

        if (!r->is_broken || (s->play->breaks != RULE_NONE && !is_pdu(r, PDU_H2C_TERM)))
                return;
        line_words(&words, r);
        rule_each_in (&r->broken, rule)
                if (rule_get(rule)->bound == PARTY_HOST && !is_our_doing(s->play, rule))
                        t_notice(s->t, rule, NULL, line);
}

static void see_end(const struct stage *s, const struct record *r)
{
        struct sight *c = r->session->user;

        if (is_pdu(r, PDU_H2C_TERM) && !c->termed) {
                c->termed = true;
                c->fes = le16_get(r->e->pdu.h->term.fes);
                c->fei = le32_get(r->e->pdu.h->term.fei);
        }
        if (r->e->kind == TRACE_CLOSED || r->e->kind == TRACE_DISCONNECT)
                c->ended = c->ended || r->e->at.time_ns < s->over_ns;
}

/* Once it has found the fault on one connection a host may close the others at once. */
static void sum_up(const struct stage *s, const struct sight *c)
{
        struct played *seen = s->seen;

        seen->broken = true;
        seen->left = seen->left || !c->ended;
        if (!c->termed)
                return;
        if (rule_accepts(s->play->breaks, c->fes, c->fei, c->digest))
                seen->accepted = true;
        seen->termed = true;
        seen->fes = c->fes;
        seen->fei = c->fei;
}

static void see(void *user, const struct record *r)
{
        struct stage *s = user;
        struct played *seen = s->seen;
        struct sight *c;

        if (r->e->kind == TRACE_OPENED)
                r->session->user = t_alloc(s->t, sizeof(struct sight));
        c = r->session->user;
        see_line(s->t, r);
        seen->connections += r->e->kind == TRACE_OPENED;
        seen->commands += r->sqe != NULL;
        if (is_pdu(r, PDU_ICREQ)) {
                seen->hdgst = seen->hdgst || r->e->pdu.h->icreq.dgst & PDU_DGST_HEADER;
                seen->ddgst = seen->ddgst || r->e->pdu.h->icreq.dgst & PDU_DGST_DATA;
        }
        see_breach(s, r);
        see_host(s, r);
        see_end(s, r);
        if (r->e->kind == TRACE_CLOSED && c->spoilt)
                sum_up(s, c);
}

/* --- all of it ----------------------------------------------------------------------------- */

static void name_capture(struct t *t)
{
        const char *folder = getenv("TMPDIR");
        int fd;

        snprintf(t->capture, sizeof(t->capture), "%s/nvmfspec-XXXXXX.pcap",
                 folder ? folder : "/tmp");
        fd = mkstemps(t->capture, (int)strlen(".pcap"));
        if (fd < 0)
                broke(t, "%s: %s", t->capture, strerror(errno));
        close(fd);
}

static void act(struct stage *s)
{
        char error[RESULT_TEXT] = "";
        struct capture_writer *record = capture_writer_open(s->t->capture, error, sizeof(error));

        if (record)
                start_target(s, record, error, sizeof(error));
        if (s->target && s->t->suite->hosted->hook)
                call_hook(s);
        else if (s->target)
                call_reference(s);
        end_target(s);
        if (record && capture_writer_close(record) != 0)
                broke(s->t, "%s: %s", s->t->capture, strerror(errno));
        if (!s->target)
                broke(s->t, "%s", error);
}

void play(struct t *t, const struct play *p, struct played *seen)
{
        static _Atomic unsigned plays;
        struct session_options options = { .judge = true };
        struct stage s = { .t = t, .play = p, .seen = seen };
        char error[RESULT_TEXT];

        *seen = (struct played) { 0 };
        snprintf(s.subnqn, sizeof(s.subnqn), NQN_PREFIX "play-%d-%u", (int)getpid(),
                 atomic_fetch_add(&plays, 1));
        name_capture(t);
        act(&s);
        if (session_read(t->capture, NULL, &options, see, &s, NULL, error, sizeof(error)) < 0)
                broke(t, "%s", error);
        t->log.now = 0;
}
