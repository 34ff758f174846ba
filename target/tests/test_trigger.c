/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults with a trigger: their grammar, their counting, and what happens over TCP and over RDMA in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

#include "peer.h"
#include "rdma_peer.h"
#include "target/nvme/control.h"
#include "target/nvme/trigger.h"

#define NQN   TARGET_NQN
#define OTHER "nqn.2026-01.io.nvmfspec:nobody"

static char error[512];

/* --- the grammar ------------------------------------------------------------------------------ */

static struct trigger read_fault(const char *text)
{
        struct trigger f;

        if (!trigger_parse(&f, text, error, sizeof(error)))
                fail_msg("%s: %s", text, error);
        assert_string_equal(f.text, text);
        return f;
}

static void all_words_are_read(void **state)
{
        struct trigger f = read_fault("status=2/81h/dnr  host=" OTHER " nqn=x qid=1-4 nsid=7 "
                                      "lba=0x10-0x1f after=1G wait=2s nth=3 times=2 seed=9 "
                                      "cmd=read,get-log-page,connect,io:80h,admin:0xc0 ");

        (void)state;
        assert_int_equal(f.action, FAULT_STATUS);
        assert_int_equal(f.point, FAULT_COMMAND);
        assert_int_equal(f.status, 0x281 | STATUS_DNR);
        assert_string_equal(f.host, OTHER);
        assert_string_equal(f.nqn, "x");
        assert_true(f.qid.given && f.qid.first == 1 && f.qid.last == 4);
        assert_true(f.nsid.given && f.nsid.first == 7 && f.nsid.last == 7);
        assert_true(f.lba.given && f.lba.first == 16 && f.lba.last == 31);
        assert_true(f.after == UINT64_C(1) << 30 && f.wait == 2000);
        assert_true(f.nth == 3 && f.times == 2 && f.seed == 9);
        assert_true(f.commands[4] == 1 << NVME_READ && f.commands[0] == 1 << NVME_GET_LOG_PAGE);
        assert_true(f.commands[8] == 1 << FCTYPE_CONNECT && f.commands[6] == 1 &&
                    f.commands[3] == 1);
}

static void defaults_follow_from_the_action(void **state)
{
        struct trigger f = read_fault("  delay=1.5s");

        (void)state;
        assert_true(f.action == FAULT_DELAY && f.point == FAULT_RESP && f.value == 1500);
        assert_true(f.any_command && f.times == 0 && f.seed == 1);
        f = read_fault("drop nth=2");
        assert_true(f.action == FAULT_DROP && f.times == 1);
        f = read_fault("reset=half on=c2hdata");
        assert_true(f.action == FAULT_RESET && f.point == FAULT_C2HDATA && f.half);
        f = read_fault("close=4k on=r2t");
        assert_true(f.action == FAULT_CLOSE && f.value == 4096 && !f.half);
        f = read_fault("close");
        assert_true(f.point == FAULT_COMMAND);
        f = read_fault("corrupt=7 on=h2cdata");
        assert_true(f.action == FAULT_CORRUPT && f.point == FAULT_H2CDATA && f.value == 7);
        f = read_fault("violate=tcp/c2hdata/datao qid=2 after=1G times=1");
        assert_true(f.rule == TCP_C2H_CONTIG && rule_in(&f.rules, TCP_C2H_CONTIG));
        assert_string_equal(fault_action_name(f.action), "violate");
}

static void what_is_wrong_is_named_with_its_place(void **state)
{
        static const struct {
                const char *text, *says;
        } bad[] = {
                { "", "at character 1, the text is empty" },
                { "   ", "at character 1, the text is empty" },
                { "stat=1/1", "at character 1, 'stat': it begins with status=, violate=" },
                { " cmd=read status=1/1", "at character 2, 'cmd': it begins with" },
                { "status=8/1", "at character 1, '8/1': status is SCT/SC" },
                { "status=1", "at character 1, '1': status is" },
                { "status=1/2/3", "at character 1, '1/2/3': status is" },
                { "status=0/0", "at character 1, '0/0': status is" },
                { "status=1/100h", "at character 1, '1/100h': status is" },
                { "status=1/0x", "at character 1, '1/0x': status is" },
                { "violate=tcp/none", "at character 1, 'tcp/none': violate is a rule" },
                { "violate=tcp/h2cdata/ttag", "violate is a rule of controllers" },
                { "violate=tcp/setup/ic-timeout", "violate is a rule of controllers" },
                { "delay", "at character 1, '': delay is a time" },
                { "delay=5", "at character 1, '5': delay is a time" },
                { "delay=0ms", "delay is a time" },
                { "delay=601s", "delay is a time" },
                { "delay=s", "delay is a time" },
                { "delay=1111111111111111111111111111s", "delay is a time" },
                { "drop=1", "at character 1, '1': drop is without a value" },
                { "drop on=r2t", "at character 6, drop is not possible with on=r2t" },
                { "drop on=resp on=resp", "at character 14, 'on' is given twice" },
                { "drop on=c2h", "at character 6, 'c2h': on= is one of command, r2t" },
                { "drop cmd=", "at character 6, '': cmd= is read" },
                { "drop cmd=read,", "cmd= is read" },
                { "drop cmd=reads", "cmd= is read" },
                { "drop cmd=rea", "cmd= is read" },
                { "drop cmd=unknown", "cmd= is read" },
                { "drop cmd=io:", "cmd= is read" },
                { "drop cmd=io:100h", "cmd= is read" },
                { "drop host=", "at character 6, '': host= is a host's NQN" },
                { "drop qid=65536", "qid= is a queue" },
                { "drop qid=4-1", "qid= is a queue" },
                { "drop qid=1-", "qid= is a queue" },
                { "drop qid=x", "qid= is a queue" },
                { "drop qid=000000000000000000000000000001", "qid= is a queue" },
                { "drop nth=0", "at character 6, '0': nth= is a number from 1" },
                { "drop nth=1 every=2", "at character 12, only one of nth, every, one-in" },
                { "drop every=1 one-in=2", "at character 14, only one of nth, every, one-in" },
                { "drop one-in=4294967296", "one-in= is a number" },
                { "drop after=0", "after= is bytes" },
                { "drop wait=1", "wait= is a time" },
                { "drop what", "at character 6, 'what' is not one of on, cmd, host" },
                { "close=1", "at character 1, close has a place only with on=" },
                { "reset=half on=h2cdata", "at character 12, reset has a place only with on=" },
                { "close=1x on=resp", "close is no value, a byte" },
                { "corrupt=x", "corrupt is no value, or a byte" },
                { "violate=tcp/c2hdata/datao on=r2t", "violate is not possible with on=r2t" },
                { "drop\n", "printable" },
        };
        struct trigger f;
        char more[FAULT_TEXT + 2];

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_false(trigger_parse(&f, bad[i].text, error, sizeof(error)));
                if (!strstr(error, bad[i].says))
                        fail_msg("'%s': %s", bad[i].text, error);
        }
        memset(more, ' ', sizeof(more) - 1);
        more[sizeof(more) - 1] = '\0';
        assert_false(trigger_parse(&f, more, error, sizeof(error)));
        assert_false(trigger_parse(&f, "drop nth=0", error, 20)); /* little room */
        assert_int_equal(strlen(error), 19);
}

/* --- which, and how often --------------------------------------------------------------------- */

struct bench {
        struct triggers *l;
        struct trigger_command c;
        union sqe sqe;
};

static void change(struct bench *b, const char *one, const char *two, uint64_t now)
{
        char *texts[] = { (char *)(uintptr_t)one, (char *)(uintptr_t)two };

        triggers_change(b->l, texts, one ? two ? 2 : 1 : 0, now);
}

static struct bench bench_of(const char *one, const char *two)
{
        struct bench b = { .l = triggers_new(), .sqe = { .opc = NVME_READ, .nsid = le32(1) } };

        assert_non_null(b.l);
        b.c = (struct trigger_command) { .host = "h", .nqn = "n", .qid = 1, .now = 1000 };
        change(&b, one, two, 1000);
        return b;
}

static uint64_t meet(struct bench *b)
{
        b->c.sqe = &b->sqe;
        return triggers_meet(b->l, &b->c);
}

/* A letter for each of n chances of the first fault: whether it happens. */
static const char *pattern(const char *text, unsigned n)
{
        static char letters[201];
        struct bench b = bench_of(text, NULL);
        unsigned slot = 0;
        const struct trigger *f = triggers_at(b.l, meet(&b), &slot, ~0u, FAULT_RESP);

        assert_non_null(f);
        for (unsigned i = 0; i < n; i++)
                letters[i] = triggers_due(b.l, f) ? 'x' : '.';
        letters[n] = '\0';
        slot = 0;
        assert_true(triggers_list(b.l, &slot, &(struct trigger) { 0 }));
        assert_false(triggers_list(b.l, &slot, &(struct trigger) { 0 }));
        triggers_free(b.l);
        return letters;
}

static void counts(void **state)
{
        char was[201];
        unsigned n = 0;

        (void)state;
        assert_string_equal(pattern("drop", 6), "xxxxxx");
        assert_string_equal(pattern("drop times=2", 6), "xx....");
        assert_string_equal(pattern("drop nth=3", 6), "..x...");
        assert_string_equal(pattern("drop nth=3 times=2", 6), "..xx..");
        assert_string_equal(pattern("drop every=3", 8), "..x..x..");
        assert_string_equal(pattern("drop every=3 times=1", 8), "..x.....");
        assert_string_equal(pattern("drop one-in=1", 4), "xxxx");
        strcpy(was, pattern("drop one-in=10", 200));
        assert_string_equal(pattern("drop one-in=10", 200), was);
        assert_string_not_equal(pattern("drop one-in=10 seed=5", 200), was);
        for (const char *p = was; *p; p++)
                n += *p == 'x';
        assert_in_range(n, 8, 40);
}

static void filters(void **state)
{
        struct bench b = bench_of("drop cmd=read host=h nqn=n qid=1-2 nsid=1 lba=100-107", NULL);

        (void)state;
        b.sqe.cdw10 = le32(96);
        b.sqe.cdw12 = le32(3); /* blocks 96 to 99 */
        assert_int_equal(meet(&b), 0);
        b.sqe.cdw12 = le32(4);
        assert_int_equal(meet(&b), 1);
        b.sqe.cdw10 = le32(107);
        assert_int_equal(meet(&b), 1);
        b.sqe.cdw10 = le32(108);
        assert_int_equal(meet(&b), 0);
        b.sqe.cdw10 = le32(100);
        b.sqe.cdw11 = le32(1);
        assert_int_equal(meet(&b), 0);
        b.sqe.cdw11 = le32(0);
        b.c.qid = 3;
        assert_int_equal(meet(&b), 0);
        b.c.qid = 0; /* there it is Get Log Page */
        assert_int_equal(meet(&b), 0);
        b.c.qid = 2;
        b.c.host = NULL;
        assert_int_equal(meet(&b), 0);
        b.c.host = "H";
        assert_int_equal(meet(&b), 0);
        b.c.host = "h";
        b.c.nqn = "m";
        assert_int_equal(meet(&b), 0);
        b.c.nqn = "n";
        b.sqe.nsid = le32(2);
        assert_int_equal(meet(&b), 0);
        b.sqe.nsid = le32(1);
        b.sqe.opc = NVME_WRITE;
        assert_int_equal(meet(&b), 0);
        b.sqe.opc = NVME_READ;
        assert_int_equal(meet(&b), 1);
        change(&b, "drop lba=0-7", "drop cmd=get-log-page,connect", 1000);
        assert_int_equal(meet(&b), 0);
        b.sqe.cdw10 = le32(0);
        assert_int_equal(meet(&b), 1);
        b.c.qid = 0;
        assert_int_equal(meet(&b), 2);
        b.sqe = (union sqe) { .opc = NVME_FABRICS };
        b.sqe.fctype = FCTYPE_CONNECT;
        assert_int_equal(meet(&b), 2);
        b.sqe.fctype = FCTYPE_PROPERTY_GET;
        assert_int_equal(meet(&b), 0);
        change(&b, "drop nsid=0", "drop qid=0", 1000);
        assert_int_equal(meet(&b), 3);
        b.c.sqe = NULL;
        assert_int_equal(triggers_meet(b.l, &b.c), 0);
        change(&b, "drop lba=1", "drop cmd=read", 1000);
        assert_int_equal(triggers_meet(b.l, &b.c), 0);
        change(&b, "drop", NULL, 1000);
        assert_int_equal(triggers_meet(b.l, &b.c), 1);
        triggers_free(b.l);
}

/* Bytes are those of commands before it, wherever the fault is to be, of whatever kind. */
static void bytes_and_time(void **state)
{
        struct bench b = bench_of("drop cmd=flush qid=1 after=8k", "drop wait=500ms");

        (void)state;
        b.c.len = 4096;
        assert_int_equal(meet(&b), 0);
        b.c.qid = 2;
        b.c.now = 999; /* of a turn that began before they were set up */
        assert_int_equal(meet(&b), 0);
        b.c.qid = 1;
        b.c.now = 1499;
        assert_int_equal(meet(&b), 0);
        b.sqe.opc = NVME_FLUSH;
        assert_int_equal(meet(&b), 1);
        b.c.now = 1500;
        assert_int_equal(meet(&b), 3);
        triggers_free(b.l);
}

static void those_that_stay_keep_their_counts(void **state)
{
        struct bench b = bench_of("drop", "delay=1s");
        char *texts[] = { "delay=1s", "close" };
        struct trigger f;
        unsigned slot = 0;

        (void)state;
        assert_true(triggers_are(b.l, (char *[]) { "drop", "delay=1s" }, 2));
        assert_false(triggers_are(b.l, (char *[]) { "delay=1s", "drop" }, 2));
        assert_true(triggers_are(NULL, NULL, 0));
        assert_false(triggers_are(NULL, texts, 1));
        assert_true(
            triggers_due(b.l, triggers_at(b.l, meet(&b), &slot, 1 << FAULT_DELAY, FAULT_RESP)));
        assert_null(triggers_at(b.l, meet(&b), &slot, ~0u, FAULT_RESP));
        slot = 0;
        assert_null(triggers_at(b.l, meet(&b), &slot, ~0u, FAULT_R2T));
        slot = 0;
        assert_null(triggers_at(b.l, 0, &slot, ~0u, FAULT_RESP));
        slot = 0;
        assert_null(triggers_at(NULL, 3, &slot, ~0u, FAULT_RESP));
        assert_int_equal(triggers_change(b.l, texts, 2, 5), ~UINT64_C(2)); /* slot 1 stays */
        slot = 0;
        assert_true(triggers_list(b.l, &slot, &f));
        assert_string_equal(f.text, "delay=1s");
        assert_true(f.id == 2 && f.met == 1 && f.fired == 1 && f.since == 1000);
        assert_true(triggers_list(b.l, &slot, &f));
        assert_string_equal(f.text, "close");
        assert_true(f.id == 3 && f.met == 0 && f.since == 5);
        assert_false(triggers_list(b.l, &slot, &f));
        change(&b, NULL, NULL, 9);
        slot = 0;
        assert_false(triggers_list(b.l, &slot, &f));
        assert_int_equal(meet(&b), 0);
        slot = 0;
        assert_false(triggers_list(NULL, &slot, &f));
        triggers_free(b.l);
        triggers_free(NULL);
}

/* --- a target, and a host over either transport ------------------------------------------------ */

enum { NEVER = 0xffff, ROOM = 1 << 16 };

struct host {
        bool rdma;
        struct verbs_provider *v;
        struct target *t;
        struct peer *admin, *io;
        struct rpeer *radmin, *rio;
        uint8_t *data, *admin_data;
};

static void *must(void *p)
{
        if (p)
                return p;
        print_error("a step of a host has failed\n");
        abort();
}

static void connect_host(struct host *h)
{
        static uint8_t data[ROOM], admin_data[4096];

        if (h->rdma) {
                h->radmin = must(rpeer_admin(h->v, h->t, NQN));
                h->rio = must(rpeer_io(h->v, h->t, NQN, h->radmin,
                                       (struct rpeer_options) { .qid = 1, .in_capsule = 4096 }));
                h->data = must(rpeer_alloc(h->rio, ROOM));
                h->admin_data = must(rpeer_alloc(h->radmin, 4096));
                return;
        }
        h->admin = must(peer_admin(h->t, NQN, (struct peer_options) { 0 }));
        h->io = must(peer_io(h->t, NQN, h->admin, 1, (struct peer_options) { .ddgst = true }));
        h->data = memset(data, 0, sizeof(data));
        h->admin_data = memset(admin_data, 0, sizeof(admin_data));
}

static void disconnect_host(struct host *h)
{
        if (h->rdma) {
                rpeer_close(h->rio);
                rpeer_close(h->radmin);
                return;
        }
        peer_close(h->io);
        peer_close(h->admin);
}

static struct host begin(void **state, const char *const *faults)
{
        struct host h = { .rdma = *state != NULL };
        struct target_options o = { .trsvcid = "0", .quiet = true, .faults = faults };

        if (h.rdma) {
                o.trtype = TRTYPE_RDMA;
                o.verbs = h.v = verbs_memory_new(NULL);
        }
        h.t = target_start(&o, error, sizeof(error));
        if (!h.t)
                fail_msg("%s", error);
        connect_host(&h);
        return h;
}

static void finish(struct host *h)
{
        disconnect_host(h);
        target_stop(h->t);
        if (h->rdma)
                verbs_memory_free(h->v);
}

#define BEGIN(...) begin(state, (const char *const[]) { __VA_ARGS__, NULL })

struct command { /* of either */
        struct peer_cmd tcp;
        struct rpeer_cmd rdma;
};

static void send_it(struct host *h, struct command *c)
{
        if (h->rdma)
                rpeer_submit(h->rio, &c->rdma);
        else
                peer_submit(h->io, &c->tcp);
}

static void submit(struct host *h, struct command *c, uint8_t opc, uint64_t lba, uint32_t blocks)
{
        bool data = opc != NVME_FLUSH;

        c->tcp = peer_rw(opc, 1, lba, blocks, h->data, data ? blocks * 512 : 0);
        c->rdma = rpeer_rw(opc, lba, blocks, h->data);
        if (!data) {
                c->rdma.cmd.data = NULL;
                c->rdma.cmd.len = 0;
                c->rdma.cmd.xfer = XFER_NONE;
        }
        send_it(h, c);
}

/* Of 64 blocks, with a flag. */
static void submit_flagged(struct host *h, struct command *c, uint8_t opc, uint8_t flag)
{
        c->tcp = peer_rw(opc, 1, 0, 64, h->data, 64 * 512);
        c->rdma = rpeer_rw(opc, 0, 64, h->data);
        c->tcp.cmd.sqe.flags = c->rdma.cmd.sqe.flags = flag;
        send_it(h, c);
}

static uint16_t wait_for(struct host *h, struct command *c)
{
        return h->rdma ? rpeer_wait(h->rio, &c->rdma) : peer_wait(h->io, &c->tcp);
}

/* Its status; NEVER: the connection has ended. */
static uint16_t run(struct host *h, uint8_t opc, uint64_t lba, uint32_t blocks)
{
        static struct command all[8]; /* one that was not answered is the host's until it ends */
        static unsigned n;
        struct command *c = &all[n++ % 8];

        submit(h, c, opc, lba, blocks);
        return wait_for(h, c);
}

static uint16_t identify(struct host *h)
{
        struct peer_cmd c = { .cmd = { .data = h->admin_data, .len = 4096, .xfer = XFER_C2H } };
        struct rpeer_cmd r;

        c.cmd.sqe.opc = NVME_IDENTIFY;
        c.cmd.sqe.cdw10 = le32(CNS_CTRL);
        r = (struct rpeer_cmd) { .cmd = c.cmd };
        return h->rdma ? rpeer_run(h->radmin, &r) : peer_run(h->admin, &c);
}

static void assert_counts(struct host *h, unsigned nth, uint64_t met, uint64_t fired)
{
        unsigned slot = nth - 1;
        struct trigger f;

        assert_true(target_trigger(h->t, &slot, &f));
        if (f.met != met || f.fired != fired)
                fail_msg("%s: met %u, fired %u", f.text, (unsigned)f.met, (unsigned)f.fired);
}

/* --- what happens ------------------------------------------------------------------------------ */

static void a_status(void **state)
{
        struct host h =
            BEGIN("status=2/81h cmd=read host=" PEER_HOSTNQN " nth=3", "status=0/6 host=" OTHER,
                  "status=0/20h/dnr cmd=write every=2 times=2",
                  "status=0/82h cmd=flush after=64k times=1");

        assert_int_equal(run(&h, NVME_READ, 0, 1), 0);
        assert_int_equal(run(&h, NVME_READ, 0, 1), 0);
        assert_int_equal(run(&h, NVME_FLUSH, 0, 1), 0);
        assert_int_equal(run(&h, NVME_READ, 0, 1) & STATUS_MASK, 0x281);
        assert_int_equal(run(&h, NVME_READ, 0, 1), 0);
        for (unsigned i = 1; i <= 6; i++) /* in the capsule, and not */
                assert_int_equal(run(&h, NVME_WRITE, 0, i < 3 ? 1 : 40) & STATUS_MASK,
                                 i == 2 || i == 4 ? 0x20 : 0);
        assert_int_equal(run(&h, NVME_FLUSH, 0, 1) & STATUS_MASK, 0x82);
        assert_int_equal(run(&h, NVME_FLUSH, 0, 1), 0);
        assert_counts(&h, 1, 4, 1);
        assert_counts(&h, 2, 0, 0);
        assert_counts(&h, 3, 6, 2);
        assert_counts(&h, 4, 2, 1);
        finish(&h);
}

/* A Write that is refused has written nothing. */
static void what_is_refused_is_not_executed(void **state)
{
        struct host h = BEGIN("status=0/6 cmd=write lba=8-15");

        memset(h.data, 7, 4096);
        assert_int_equal(run(&h, NVME_WRITE, 8, 8) & STATUS_MASK, 6);
        assert_int_equal(run(&h, NVME_WRITE, 16, 8), 0);
        assert_int_equal(run(&h, NVME_READ, 8, 8), 0);
        assert_int_equal(h.data[0], 0);
        assert_int_equal(run(&h, NVME_READ, 16, 8), 0);
        assert_int_equal(h.data[0], 7);
        assert_counts(&h, 1, 1, 1);
        finish(&h);
}

static uint64_t time_of(struct host *h, uint8_t opc)
{
        uint64_t since = loop_now_ms();

        assert_int_equal(run(h, opc, 0, 64), 0);
        return loop_now_ms() - since;
}

static void delays(void **state)
{
        struct host h =
            BEGIN("delay=120ms on=r2t cmd=write nth=2", "delay=60ms on=c2hdata cmd=read nth=2",
                  "delay=90ms cmd=flush every=2", "delay=70ms cmd=identify nth=2");
        uint64_t since;

        time_of(&h, NVME_WRITE);
        assert_true(time_of(&h, NVME_WRITE) >= 120);
        time_of(&h, NVME_READ);
        assert_true(time_of(&h, NVME_READ) >= 60);
        time_of(&h, NVME_FLUSH);
        assert_true(time_of(&h, NVME_FLUSH) >= 90);
        assert_int_equal(identify(&h), 0);
        since = loop_now_ms();
        assert_int_equal(identify(&h), 0);
        assert_true(loop_now_ms() - since >= 70);
        assert_counts(&h, 1, 2, 1);
        assert_counts(&h, 2, 2, 1);
        assert_counts(&h, 3, 2, 1);
        assert_counts(&h, 4, 2, 1);
        finish(&h);
}

/* Others pass what is late, and the connection may end meanwhile. */
static void others_pass_what_is_late(void **state)
{
        struct host h =
            BEGIN("delay=1s cmd=read nth=1", "delay=20s on=r2t cmd=write", "delay=20s cmd=flush");
        struct command late, asked, flushed;

        submit(&h, &late, NVME_READ, 0, 1);
        assert_int_equal(run(&h, NVME_READ, 0, 1), 0);
        assert_false(h.rdma ? late.rdma.done : late.tcp.done);
        assert_int_equal(wait_for(&h, &late), 0);
        submit(&h, &asked, NVME_WRITE, 0, 64);
        submit(&h, &flushed, NVME_FLUSH, 0, 1);
        assert_int_equal(run(&h, NVME_READ, 0, 1), 0);
        assert_counts(&h, 2, 1, 1);
        assert_counts(&h, 3, 1, 1);
        finish(&h);
}

/* The first half of a fused operation, whose second does not come, ends while its data is on the way: at once, for
 * what is late would be answered a second time when the data is there. */
static void a_half_is_not_late(void **state)
{
        struct host h = BEGIN("delay=80ms cmd=compare");
        struct command c;

        submit_flagged(&h, &c, NVME_COMPARE, SQE_FUSE_FIRST);
        assert_int_equal(run(&h, NVME_READ, 0, 1), 0);
        assert_int_equal(wait_for(&h, &c) & STATUS_MASK, NVME_ABORT_MISSING_FUSED);
        usleep(120000);
        assert_int_equal(run(&h, NVME_READ, 0, 1), 0);
        assert_int_equal(run(&h, NVME_WRITE, 0, 64), 0);
        finish(&h);
}

static void a_response_that_never_comes(void **state)
{
        struct host h = BEGIN("drop cmd=write nth=2");
        struct command lost;

        memset(h.data, 9, 512);
        assert_int_equal(run(&h, NVME_WRITE, 0, 1), 0);
        submit(&h, &lost, NVME_WRITE, 1, 1);
        assert_int_equal(run(&h, NVME_READ, 1, 1), 0);
        assert_int_equal(h.data[0], 9); /* it was executed */
        assert_false(h.rdma ? lost.rdma.done : lost.tcp.done);
        assert_counts(&h, 1, 2, 1);
        finish(&h);
}

static void data_that_is_not_right(void **state)
{
        struct host h = BEGIN("corrupt=5 cmd=read nth=2", "corrupt on=h2cdata cmd=write nth=2",
                              "corrupt=1M cmd=read");

        memset(h.data, 0x11, 4096);
        assert_int_equal(run(&h, NVME_WRITE, 0, 1), 0);
        assert_int_equal(run(&h, NVME_WRITE, 8, 1), 0);
        assert_int_equal(run(&h, NVME_READ, 0, 1), 0);
        assert_int_equal(h.data[5], 0x11);
        assert_int_equal(run(&h, NVME_READ, 0, 1), 0);
        assert_int_equal(h.data[5], 0xee);
        assert_int_equal(h.data[0], 0x11);
        assert_int_equal(run(&h, NVME_READ, 0, 1), 0); /* it is right where it is kept */
        assert_int_equal(h.data[5], 0x11);
        assert_int_equal(run(&h, NVME_READ, 8, 1), 0);
        assert_int_equal(h.data[0], 0xee);
        assert_int_equal(h.data[1], 0x11);
        assert_counts(&h, 2, 2, 1);
        assert_counts(&h, 3, 0, 0);
        finish(&h);
}

static bool is_cut(struct host *h)
{
        if (h->rdma)
                return rpeer_closed(h->rio, 5000);
        return peer_closed(h->io, 5000);
}

/* The connection ends at that point of the second command of that kind; the admin queue lives. */
static void ends_at(void **state, const char *how, const char *point, uint8_t opc)
{
        char text[80];
        struct host h;

        snprintf(text, sizeof(text), "%s on=%s cmd=%s nth=2", how, point,
                 opc == NVME_READ ? "read" : "write");
        h = BEGIN(text);
        assert_int_equal(run(&h, opc, 0, 64), 0);
        assert_int_equal(run(&h, opc, 0, 64), NEVER);
        assert_true(is_cut(&h));
        if (!h.rdma)
                assert_int_equal(h.io->reset, strncmp(how, "reset", 5) == 0);
        assert_int_equal(identify(&h), 0);
        assert_counts(&h, 1, 2, 1);
        finish(&h);
}

static void the_end_of_a_connection(void **state)
{
        ends_at(state, "close", "command", NVME_READ);
        ends_at(state, "reset", "command", NVME_WRITE);
        ends_at(state, "close", "r2t", NVME_WRITE);
        ends_at(state, "close", "h2cdata", NVME_WRITE);
        ends_at(state, "reset=half", "c2hdata", NVME_READ);
        ends_at(state, "close=100", "c2hdata", NVME_READ);
        ends_at(state, "close", "resp", NVME_WRITE);
        ends_at(state, "reset=3", "resp", NVME_WRITE);
}

static void a_rule_of_values(void **state)
{
        struct host h = BEGIN("violate=base/identify/kas nth=2", "violate=fab/queue/sqhd nth=2");
        uint8_t right[4096];
        struct trigger f;
        unsigned slot;

        assert_int_equal(identify(&h), 0);
        memcpy(right, h.admin_data, sizeof(right));
        assert_int_equal(identify(&h), 0);
        assert_int_not_equal(memcmp(right, h.admin_data, sizeof(right)), 0);
        assert_int_equal(identify(&h), 0);
        assert_memory_equal(right, h.admin_data, sizeof(right));
        assert_counts(&h, 1, 3, 1);
        slot = 1;
        assert_true(target_trigger(h.t, &slot, &f));
        assert_true(f.met == 5 && f.fired == 1); /* responses of all commands but Connect */
        finish(&h);
}

static void a_rule_of_responses(void **state)
{
        struct host h = BEGIN(*state ? "violate=rdma/response/cid nth=2"
                                     : "violate=tcp/capsule/response-cid nth=2");

        assert_int_equal(run(&h, NVME_READ, 0, 1), 0); /* Writes are what it can be broken in */
        assert_int_equal(run(&h, NVME_WRITE, 0, 1), 0);
        assert_counts(&h, 1, 1, 0);
        assert_int_equal(run(&h, NVME_WRITE, 0, 1), NEVER);
        assert_counts(&h, 1, 2, 1);
        finish(&h);
}

static void a_rule_of_pdus(void **state)
{
        struct host h = BEGIN("violate=tcp/c2hdata/datao nth=2");

        assert_int_equal(run(&h, NVME_READ, 0, 16), 0);
        assert_int_equal(run(&h, NVME_READ, 0, 16), NEVER);
        assert_counts(&h, 1, 2, 1);
        finish(&h);
}

/* WRITEs of data over RDMA. */
static void a_write_that_is_short(void **state)
{
        struct host h = BEGIN("violate=rdma/transfer/whole-transfer cmd=read nth=2");

        memset(h.data, 0x33, 8192);
        assert_int_equal(run(&h, NVME_WRITE, 0, 16), 0);
        for (unsigned i = 1; i <= 3; i++) {
                memset(h.data, 0, 8192);
                assert_int_equal(run(&h, NVME_READ, 0, 16), 0);
                assert_int_equal(h.data[8191], i == 2 ? 0 : 0x33);
        }
        assert_counts(&h, 1, 3, 1);
        finish(&h);
}

/* Reads over RDMA of what the host writes. */
static void a_read_that_is_short(void **state)
{
        struct host h = BEGIN("violate=rdma/transfer/whole-fetch nth=2");

        memset(h.data, 0x44, 8192);
        assert_int_equal(run(&h, NVME_WRITE, 0, 16), 0);
        assert_int_equal(run(&h, NVME_WRITE, 0, 16), 0);
        assert_counts(&h, 1, 2, 1);
        finish(&h);
}

/* It is another connection's, and what the target was told before. */
static void bad_ones_are_refused_at_start(void **state)
{
        struct target_options o = { .trsvcid = "0",
                                    .quiet = true,
                                    .faults = (const char *const[]) { "drop", "drop", NULL } };

        (void)state;
        assert_null(target_start(&o, error, sizeof(error)));
        assert_non_null(strstr(error, "such a fault already"));
        o.faults = (const char *const[]) { "drop nth=x", NULL };
        assert_null(target_start(&o, error, sizeof(error)));
        assert_non_null(strstr(error, "at character 6"));
}

#define OVER_BOTH(test)                                                                            \
        { #test " (TCP)", test, NULL, NULL, NULL },                                                \
        {                                                                                          \
#test " (RDMA)", test, NULL, NULL, over_rdma                                       \
        }

int main(void)
{
        static char over_rdma[] = "rdma";
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(all_words_are_read),
                cmocka_unit_test(defaults_follow_from_the_action),
                cmocka_unit_test(what_is_wrong_is_named_with_its_place),
                cmocka_unit_test(counts),
                cmocka_unit_test(filters),
                cmocka_unit_test(bytes_and_time),
                cmocka_unit_test(those_that_stay_keep_their_counts),
                cmocka_unit_test(bad_ones_are_refused_at_start),
                OVER_BOTH(a_status),
                OVER_BOTH(what_is_refused_is_not_executed),
                OVER_BOTH(delays),
                OVER_BOTH(others_pass_what_is_late),
                OVER_BOTH(a_half_is_not_late),
                OVER_BOTH(a_response_that_never_comes),
                OVER_BOTH(data_that_is_not_right),
                OVER_BOTH(the_end_of_a_connection),
                OVER_BOTH(a_rule_of_values),
                OVER_BOTH(a_rule_of_responses),
                { "a_rule_of_pdus", a_rule_of_pdus, NULL, NULL, NULL },
                { "a_write_that_is_short", a_write_that_is_short, NULL, NULL, over_rdma },
                { "a_read_that_is_short", a_read_that_is_short, NULL, NULL, over_rdma },
        };

        return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
