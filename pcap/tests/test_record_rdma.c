/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host and target over RDMA in memory, one of them recorded while it breaks one rule: the capture is
 * judged, and has to be flagged with that rule where the run first differs from a lawful one. The one
 * who breaks it is who records, so that what it really did is there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/nvme/build.h" /* before cmocka, whose fail() is a macro */
#include "host/nvme/ctrl.h"
#include "pcap/nvme/session.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/nvme/io/nvme_record.h"
#include "pdu/nvme/rdma/spoil_rdma.h"
#include "target/nvme/target.h"

#include <cmocka.h>

enum { EVENTS = 512, FOUND = 64, BLOCK = 512, DATA = 32 << 10, TIMEOUT = 1200 };

/* --- a run ------------------------------------------------------------------------------------ */

static uint8_t data[DATA];
static char path[64];

static void io(struct host_ctrl *c, uint8_t opc, uint64_t slba, uint32_t bytes)
{
        union sqe sqe = build_rw(opc, 1, slba, bytes / BLOCK, 0);
        struct host_error e;
        struct cqe cqe;

        (void)host_ctrl_run(c, &c->io[0], &sqe, data, bytes, &cqe, &e);
}

/* Data in the capsule, by key, and the other way; whatever comes of it. */
static void work(struct verbs_provider *v, const char *port, const struct rule_policy *policy)
{
        struct host_params p = host_params_default();
        struct host_error e = { 0 };
        struct host_ctrl c;

        p.transport = HOST_RDMA;
        p.verbs = v;
        p.traddr = "127.0.0.1";
        p.trsvcid = port;
        p.subnqn = TARGET_NQN;
        p.io_queues = 1;
        p.queue_size = 16;
        p.timeout = TIMEOUT;
        p.policy = policy;
        for (size_t i = 0; i < DATA; i++)
                data[i] = (uint8_t)(i >> 9 ^ i);
        if (host_ctrl_connect(&c, &p, &e) < 0)
                return;
        io(&c, NVME_WRITE, 0, 4096);
        io(&c, NVME_WRITE, 8, DATA);
        io(&c, NVME_READ, 8, DATA);
        io(&c, NVME_READ, 0, 4096);
        (void)host_ctrl_disconnect(&c, &e);
}

static void record(enum party who, const struct rule_policy *policy)
{
        static const struct rule_policy lawful;
        static const char *const ns[] = { "mem:1M", NULL };
        struct verbs_provider *v = verbs_memory_new(NULL), *ours = NULL;
        char error[300] = "", port[8];
        struct capture_writer *w = capture_writer_open(path, error, sizeof(error));
        struct target_options o = { .trtype = TRTYPE_RDMA,
                                    .trsvcid = "0",
                                    .ns = ns,
                                    .quiet = true,
                                    .reactors = 2, /* so that connections migrate */
                                    .verbs = v };
        struct target *t;

        assert_non_null(w);
        if (who == PARTY_CONTROLLER) {
                o.record = w;
                o.policy = *policy;
        } else {
                o.policy.waived = policy->violated; /* so that it goes on */
                ours = nvme_record_new(v, w);
                assert_non_null(ours);
        }
        t = target_start(&o, error, sizeof(error));
        if (!t)
                fail_msg("%s", error);
        snprintf(port, sizeof(port), "%u", target_trsvcid(t));
        work(ours ? ours : v, port, who == PARTY_HOST ? policy : &lawful);
        target_stop(t);
        verbs_record_free(ours);
        assert_int_equal(verbs_memory_leaks(v).eps, 0);
        verbs_memory_free(v);
        assert_int_equal(capture_writer_close(w), 0);
}

/* --- what the capture says -------------------------------------------------------------------- */

struct event {
        enum party sender;
        unsigned conn;
        enum trace_kind kind;
        uint64_t first, last; /* frames */
        char text[200];
};

struct found {
        enum rule_id rule;
        unsigned conn;
        uint64_t frame;
};

struct seen {
        uint64_t moved[2]; /* what the transfer in hand has brought, by who sent it */
        struct event events[EVENTS];
        unsigned n, n_found;
        struct found found[FOUND];
};

/* FNV-1a goes on. */
static uint64_t sum_on(uint64_t h, const void *p, size_t n)
{
        const uint8_t *at = p;

        for (size_t i = 0; i < n; i++)
                h = (h ^ at[i]) * 1099511628211u;
        return h;
}

static uint64_t sum_of(const void *p, size_t n)
{
        return sum_on(1469598103934665603u, p, n);
}

/* Addresses and keys differ from run to run. */
static void capsule_text(const struct record *r, char *text, size_t size)
{
        const struct trace_capsule *c = &r->e->capsule;
        uint8_t bytes[8192];
        bool own = r->cmd && r->cmd->rdma.count > 0 && r->cmd->rdma.keyed[0].key == c->key;

        assert_true(c->len <= sizeof(bytes));
        memcpy(bytes, c->data, c->len);
        if (r->sqe && r->cmd && r->cmd->rdma.count > 0) {
                memset(bytes + offsetof(union sqe, sgl), 0, 8);
                memset(bytes + offsetof(union sqe, sgl) + 11, 0, 4);
        }
        snprintf(text, size, "capsule %u %016llx%s%s", c->len,
                 (unsigned long long)sum_of(bytes, c->len), c->invalidates ? " invalidates" : "",
                 c->invalidates && own ? " own" : "");
}

static bool text_of(const struct record *r, uint64_t moved, char *text, size_t size)
{
        const struct trace_event *e = r->e;
        const struct trace_memory *m = &e->memory;

        switch ((int)e->kind) {
        case TRACE_REQUEST:
        case TRACE_ACCEPT:
        case TRACE_REJECT:
                snprintf(text, size, "cm %d %016llx %u %u", (int)e->kind,
                         (unsigned long long)sum_of(e->cm.data, e->cm.len), e->cm.reads_in,
                         e->cm.reads_out);
                return true;
        case TRACE_CAPSULE:
                capsule_text(r, text, size);
                return true;
        case TRACE_READ:
        case TRACE_READ_END:
        case TRACE_WRITE:
                snprintf(text, size, "transfer %d %u at %lld %016llx", (int)e->kind, m->len,
                         r->cmd ? (long long)r->offset : -1, (unsigned long long)moved);
                return true;
        default:
                return false;
        }
}

static void on_record(void *user, const struct record *r)
{
        struct seen *s = user;
        struct event *e = &s->events[s->n];

        if (r->e->kind == TRACE_WRITE_DATA || r->e->kind == TRACE_READ_DATA)
                s->moved[r->e->sender] =
                    sum_on(s->moved[r->e->sender], r->e->memory.data, r->e->memory.len);
        if (text_of(r, s->moved[r->e->sender], e->text, sizeof(e->text))) {
                s->moved[r->e->sender] = 0;
                e->sender = r->e->sender;
                e->conn = r->e->conn->number;
                e->kind = r->e->kind;
                e->first = r->e->first.frame;
                e->last = r->e->at.frame;
                assert_true(++s->n < EVENTS);
        }
        rule_each (rule)
                if (rule_in(&r->broken, rule) && s->n_found < FOUND)
                        s->found[s->n_found++] =
                            (struct found) { rule, r->e->conn->number, r->e->at.frame };
}

static void read_capture(struct seen *s)
{
        struct session_options options = { .judge = true };
        struct trace_totals totals;
        char err[300];

        memset(s, 0, sizeof(*s));
        if (session_read(path, NULL, &options, on_record, s, &totals, err, sizeof(err)) < 0)
                fail_msg("%s", err);
        assert_int_equal(totals.gaps, 0);
        assert_int_equal(totals.strange, 0);
        unlink(path);
}

/* The first thing that `who` said in the second run and not so in the first. */
static const struct event *first_difference(const struct seen *good, const struct seen *bad,
                                            enum party who)
{
        unsigned g = 0;

        for (unsigned i = 0; i < bad->n; i++) {
                if (bad->events[i].sender != who)
                        continue;
                while (g < good->n && good->events[g].sender != who)
                        g++;
                if (g == good->n || good->events[g].conn != bad->events[i].conn ||
                    strcmp(good->events[g].text, bad->events[i].text) != 0)
                        return &bad->events[i];
                g++;
        }
        return NULL;
}

/* What a transfer brings, or fails to, is judged when the response is there. */
static uint64_t until(const struct seen *s, const struct event *at)
{
        if (at->kind == TRACE_CAPSULE || at->kind == TRACE_REQUEST || at->kind == TRACE_ACCEPT)
                return at->last;
        for (const struct event *e = at; e < s->events + s->n; e++)
                if (e->conn == at->conn && e->sender == PARTY_CONTROLLER &&
                    e->kind == TRACE_CAPSULE)
                        return e->last;
        return at->last;
}

/* --- tests ------------------------------------------------------------------------------------ */

static struct seen good[2];

static int lawful_runs(void **state)
{
        static const struct rule_policy nothing;
        static struct seen again;

        (void)state;
        snprintf(path, sizeof(path), "/tmp/nvmfspec-record-rdma-%d.pcap", (int)getpid());
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                record(p, &nothing);
                read_capture(&good[p]);
                record(p, &nothing);
                read_capture(&again);
                assert_true(good[p].n > 30);
                assert_int_equal(good[p].n_found, 0);
                assert_null(first_difference(&good[p], &again, p));
        }
        return 0;
}

/* Either end tells the same of it: what the host's makes up of READs and WRITEs, too. */
static void test_both_ends_say_the_same(void **state)
{
        (void)state;
        assert_int_equal(good[PARTY_HOST].n, good[PARTY_CONTROLLER].n);
        assert_null(first_difference(&good[PARTY_HOST], &good[PARTY_CONTROLLER], PARTY_HOST));
        assert_null(first_difference(&good[PARTY_CONTROLLER], &good[PARTY_HOST], PARTY_CONTROLLER));
}

/*
 * Not among them: what this host and target have no occasion for (SEND with invalidate is asked for
 * by no host of ours), what the other side alone knows (whether a key is good), names of I/O queues, which
 * only a refusal shows to differ, a version, which shows beside Identify's, and lengths of private data, which
 * InfiniBand pads.
 */
static const char *const rules[] = {
        "fab/command/fctype",
        "fab/command/fuse",
        "fab/command/psdt",
        "fab/connect/first",
        "fab/sgl/short",
        "fab/connect/recfmt",
        "fab/connect/sqsize-zero",
        "fab/connect/hostnqn-syntax",
        "fab/connect/data-length",
        "fab/property/offset",
        "fab/property/size",
        "fab/property/read-only",
        "rdma/request/recfmt",
        "rdma/request/hsqsize",
        "rdma/request/hrqsize",
        "rdma/request/ird",
        "rdma/request/cntlid",
        "rdma/request/reserved",
        "rdma/request/hsqsize-is-sqsize",
        "rdma/request/qid-is-qid",
        "rdma/capsule/length",
        "rdma/capsule/size",
        "rdma/capsule/cid",
        "rdma/in-capsule/admin",
        "rdma/in-capsule/offset",
        "rdma/in-capsule/length",
        "rdma/in-capsule/direction",
        "rdma/sgl/type",
        "rdma/sgl/subtype",
        "rdma/sgl/segment",
        "rdma/sgl/count",
        "rdma/sgl/one",
        "rdma/sgl/length",
        /* of the controller */
        "fab/queue/sqhd",
        "fab/queue/dw0-zero",
        "fab/connect/response-reserved",
        "fab/property/cap",
        "fab/property/reserved",
        "fab/property/cc",
        "base/identify/cntlid",
        "base/identify/subnqn",
        "base/identify/ioccsz",
        "base/identify/sgls",
        "base/identify/kas",
        "base/identify/cntrltype",
        "base/identify/maxcmd",
        "base/identify/queue-entry-sizes",
        "rdma/accept/recfmt",
        "rdma/accept/crqsize",
        "rdma/accept/reserved",
        "rdma/accept/ird",
        "rdma/response/length",
        "rdma/response/cid",
        "rdma/response/cqe-reserved",
        "rdma/transfer/write-range",
        "rdma/transfer/write-direction",
        "rdma/transfer/whole-transfer",
        "rdma/transfer/read-range",
        "rdma/transfer/read-direction",
        "rdma/transfer/whole-fetch",
        "rdma/key/invalidate-unasked",
        "rdma/identify/sgls",
        "rdma/identify/icdoff",
};

static void check(const char *id)
{
        static struct seen bad;
        struct rule_policy policy = { 0 };
        enum rule_id rule = rule_by_name(id);
        enum party who = rule_get(rule)->bound;
        const struct event *at;
        unsigned i = 0;

        assert_true(spoil_can_rdma(rule));
        rule_add(&policy.violated, rule);
        record(who, &policy);
        read_capture(&bad);
        at = first_difference(&good[who], &bad, who);
        if (!at) {
                fail_msg("%s: nothing differs", id);
                return;
        }
        while (i < bad.n_found && bad.found[i].conn != at->conn)
                i++;
        if (i == bad.n_found)
                fail_msg("%s: not found", id);
        if (bad.found[i].rule != rule)
                fail_msg("%s: found as %s", id, rule_get(bad.found[i].rule)->id);
        if (bad.found[i].frame < at->first || bad.found[i].frame > until(&bad, at))
                fail_msg("%s: found at frame %llu, broken at %llu-%llu", id,
                         (unsigned long long)bad.found[i].frame, (unsigned long long)at->first,
                         (unsigned long long)at->last);
}

static void test_the_broken_rule_is_flagged_where_it_is_broken(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
                check(rules[i]);
}

/* A response before the data of its command lacks them first. */
static void test_data_behind_the_response(void **state)
{
        static struct seen bad;
        struct rule_policy policy = { 0 };

        (void)state;
        rule_add(&policy.violated, RDMA_WRITE_BEFORE);
        record(PARTY_CONTROLLER, &policy);
        read_capture(&bad);
        assert_true(bad.n_found >= 2);
        assert_int_equal(bad.found[0].rule, RDMA_WRITE_WHOLE);
        assert_int_equal(bad.found[1].rule, RDMA_WRITE_BEFORE);
        assert_true(bad.found[1].frame > bad.found[0].frame);
}

/* --- ends, by hand ---------------------------------------------------------------------------- */

static struct verbs_event awaits(struct verbs_context *c, enum verbs_event_type type)
{
        struct verbs_event e;

        for (int i = 0; !verbs_event(c, &e); i++) {
                assert_true(i < 60000);
                usleep(1000);
        }
        assert_int_equal(e.type, type);
        return e;
}

static void await_work(struct verbs_domain *d)
{
        struct verbs_wc wc;

        for (int i = 0; verbs_poll(d, &wc, 1) == 0; i++) {
                assert_true(i < 60000);
                usleep(1000);
        }
        assert_int_equal(wc.status, VERBS_SUCCESS);
}

/* A queue pair that has one work request posted or can send one. */
static struct verbs_domain *set_up(struct verbs_ep *ep, struct verbs_wr *wr, void *bytes,
                                   uint32_t n)
{
        const struct verbs_qp_attr attr = { .send_wrs = 1, .recv_wrs = 1 };
        struct verbs_domain *d = verbs_domain(ep);
        struct verbs_wr *bad;
        struct verbs_mr mr;

        assert_int_equal(verbs_grow_cq(d, 4), 0);
        assert_int_equal(verbs_qp(ep, &attr), 0);
        assert_int_equal(verbs_reg(d, bytes, n, 0, &mr), 0);
        wr->n_sge = 1;
        wr->sge[0] = (struct verbs_sge) { bytes, n, mr.lkey };
        if (wr->op == VERBS_RECV)
                assert_int_equal(verbs_post_recv(ep, wr, &bad), 0);
        return d;
}

/* A controller answers and goes; its end is an event, and the answer is a completion that is looked
 * at later. */
static void answer_and_end(struct verbs_context *host, struct verbs_context *target)
{
        static struct cqe sent, got;
        struct rdma_request request = { .hrqsize = le16(32), .hsqsize = le16(31) };
        struct rdma_accept accept = { .crqsize = le16(32) };
        struct verbs_conn_param p = { .data = &request, .len = sizeof(request), .rnr_retry = 7 };
        struct verbs_wr recv = { .op = VERBS_RECV };
        struct verbs_wr send = { .op = VERBS_SEND, .flags = VERBS_SIGNALED }, *bad;
        struct verbs_listener *l = verbs_listen(target, "127.0.0.1", "0", 1);
        struct verbs_domain *hd, *td;
        struct verbs_ep *h, *t;
        char port[8];

        snprintf(port, sizeof(port), "%u", verbs_listener_port(l));
        h = verbs_resolve(host, "127.0.0.1", port, 1000);
        assert_non_null(h);
        awaits(host, VERBS_RESOLVED);
        hd = set_up(h, &recv, &got, sizeof(got));
        assert_int_equal(verbs_connect(h, &p), 0);
        t = awaits(target, VERBS_CONNECT_REQUEST).ep;
        td = set_up(t, &send, &sent, sizeof(sent));
        p.data = &accept;
        p.len = sizeof(accept);
        assert_int_equal(verbs_accept(t, &p), 0);
        awaits(host, VERBS_ESTABLISHED);
        awaits(target, VERBS_ESTABLISHED);
        assert_int_equal(verbs_post(t, &send, &bad), 0);
        await_work(td);
        assert_int_equal(verbs_disconnect(t), 0);
        awaits(host, VERBS_DISCONNECTED);
        await_work(hd);
        assert_int_equal(verbs_disconnect(h), 0);
        verbs_destroy(h);
        verbs_destroy(t);
        verbs_unlisten(l);
}

static void test_an_answer_that_was_there_before_the_end(void **state)
{
        static struct seen s;
        struct verbs_provider *v = verbs_memory_new(NULL), *ours;
        char error[300] = "";
        struct capture_writer *w = capture_writer_open(path, error, sizeof(error));
        struct verbs_context *host, *target;
        unsigned capsules = 0;

        (void)state;
        ours = nvme_record_new(v, w);
        host = verbs_open(ours);
        target = verbs_open(v);
        answer_and_end(host, target);
        verbs_close(host);
        verbs_close(target);
        verbs_record_free(ours);
        verbs_memory_free(v);
        assert_int_equal(capture_writer_close(w), 0);
        read_capture(&s);
        for (unsigned i = 0; i < s.n; i++)
                capsules += s.events[i].kind == TRACE_CAPSULE;
        assert_int_equal(capsules, 1);
        assert_true(s.n_found > 0); /* it answers nobody */
        for (unsigned i = 0; i < s.n_found; i++)
                assert_int_not_equal(s.found[i].rule, RDMA_LATE_SEND);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_both_ends_say_the_same),
                cmocka_unit_test(test_the_broken_rule_is_flagged_where_it_is_broken),
                cmocka_unit_test(test_data_behind_the_response),
                cmocka_unit_test(test_an_answer_that_was_there_before_the_end),
        };

        return cmocka_run_group_tests(tests, lawful_runs, NULL);
}
