/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of the kernel's host and target, replayed against the reference target. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these before it */
#include <cmocka.h>

#include "capfile.h"
#include "pcap/replay/replay.h"
#include "pdu/io/tests/memory_file.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/nvme/wire/fabrics.h"
#include "target/nvme/target.h"

enum { COMMANDS_MAX = 512 };

struct bench {
        struct verbs_provider *verbs; /* NULL: TCP */
        struct target *target;
        struct replay_plan plan;
        struct replay_options options;
        struct replay_totals totals;
        struct replayed told[COMMANDS_MAX];
        unsigned count;
        char port[8], err[300];
};

static void on_replayed(void *user, const struct replayed *r)
{
        struct bench *b = user;

        assert_true(b->count < COMMANDS_MAX);
        b->told[b->count++] = *r;
}

static void start(struct bench *b, bool rdma)
{
        static const char *const ns[] = { "mem:64M", NULL };
        struct target_options t = { .trsvcid = "0", .ns = ns, .quiet = true };
        char error[300];

        *b = (struct bench) { 0 };
        if (rdma) {
                struct memory_caps caps;

                memory_caps_default(&caps);
                b->verbs = verbs_memory_new(&caps);
                assert_non_null(b->verbs);
                t.verbs = b->verbs;
                t.trtype = TRTYPE_RDMA;
        }
        b->target = target_start(&t, error, sizeof(error));
        if (!b->target)
                fail_msg("%s", error);
        snprintf(b->port, sizeof(b->port), "%u", target_trsvcid(b->target));
        b->options = (struct replay_options) { .transport = rdma ? HOST_RDMA : HOST_TCP,
                                               .verbs = b->verbs,
                                               .traddr = "127.0.0.1",
                                               .trsvcid = b->port,
                                               .subnqn = TARGET_NQN,
                                               .timeout = 20000,
                                               .allow_write = true };
}

static void load_path(struct bench *b, const char *path, uint64_t stop_at)
{
        struct trace_options trace = { 0 };

        if (replay_plan_read(&b->plan, path, &trace, stop_at, b->err, sizeof(b->err)) < 0)
                fail_msg("%s", b->err);
}

static void load(struct bench *b, unsigned capture, uint64_t stop_at)
{
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", SOURCE_DIR, captures[capture]);
        load_path(b, path, stop_at);
}

static int replay(struct bench *b)
{
        b->count = 0;
        b->totals = (struct replay_totals) { 0 };
        return replay_run(&b->plan, &b->options, on_replayed, b, &b->totals, b->err,
                          sizeof(b->err));
}

static void stop(struct bench *b)
{
        replay_plan_free(&b->plan);
        if (b->target)
                target_stop(b->target);
        if (b->verbs)
                verbs_memory_free(b->verbs);
}

static unsigned commands(const struct replay_plan *p)
{
        unsigned n = 0;

        for (const struct plan_cmd *c = p->cmds; c; c = c->next)
                n++;
        return n;
}

/* I/O commands of this opcode with this verdict. */
static unsigned count_io(const struct bench *b, uint8_t opc, enum likeness l)
{
        unsigned n = 0;

        for (unsigned i = 0; i < b->count; i++)
                n += !b->told[i].cmd->admin && b->told[i].cmd->sqe.opc == opc &&
                     b->told[i].verdict.likeness == l;
        return n;
}

static void replay_everything(bool rdma)
{
        for (unsigned i = 0; i < CAPTURES; i++) {
                static struct bench b;

                start(&b, rdma);
                load(&b, i, 0);
                b.options.strict_data = true; /* a new namespace is zero, as that one was */
                assert_int_equal(replay(&b), 0);
                assert_int_equal(b.count, commands(&b.plan));
                assert_int_equal(b.totals.count[DIFFERENT], 0);
                assert_int_equal(b.totals.count[SKIPPED], 0);
                assert_int_equal(count_io(&b, NVME_WRITE, SAME), 8);
                assert_true(count_io(&b, NVME_READ, SAME) >= 11);
                assert_int_equal(count_io(&b, NVME_READ, ALLOWED), 1); /* refused, either way */
                stop(&b);
        }
}

static void test_tcp(void **state)
{
        (void)state;
        replay_everything(false);
}

static void test_rdma(void **state)
{
        (void)state;
        replay_everything(true);
}

static void test_digests(void **state)
{
        static struct bench b;

        (void)state;
        start(&b, false);
        load(&b, 2, 0); /* RoCEv2 */
        b.options.hdgst = b.options.ddgst = true;
        assert_int_equal(replay(&b), 0);
        assert_int_equal(b.totals.count[DIFFERENT] + b.totals.count[SKIPPED], 0);
        stop(&b);
}

/* What changes something is left out, and nothing is known of what the blocks hold. */
static void test_read_only(void **state)
{
        static struct bench b;

        (void)state;
        start(&b, false);
        load(&b, 0, 0);
        b.options.allow_write = false;
        assert_int_equal(replay(&b), 0);
        assert_int_equal(b.totals.count[DIFFERENT], 0);
        assert_int_equal(count_io(&b, NVME_WRITE, SKIPPED), 8);
        assert_int_equal(count_io(&b, NVME_WRITE_ZEROES, SKIPPED), 1);
        assert_int_equal(count_io(&b, NVME_DSM, SKIPPED), 1);
        assert_int_equal(b.totals.count[SKIPPED], 10);
        assert_true(count_io(&b, NVME_READ, ALLOWED) >= 8);
        b.options.strict_data = true; /* now they have to hold what they held */
        assert_int_equal(replay(&b), 0);
        assert_int_equal(count_io(&b, NVME_READ, DIFFERENT), 8);
        assert_int_equal(b.totals.count[DIFFERENT], 8);
        stop(&b);
}

static void test_again(void **state)
{
        static struct bench b;

        (void)state;
        start(&b, false);
        load(&b, 1, 0);
        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(replay(&b), 0);
                assert_int_equal(b.totals.count[DIFFERENT] + b.totals.count[SKIPPED], 0);
                assert_int_equal(b.count, commands(&b.plan));
        }
        stop(&b);
}

/* Everything moves, and what leaves the region is left out. */
static void test_remap(void **state)
{
        static struct bench b;
        unsigned inside = 0;

        (void)state;
        start(&b, false);
        load(&b, 0, 0);
        b.options.offset = 10000;
        b.options.blocks = 512;
        assert_int_equal(replay(&b), 0);
        assert_int_equal(b.totals.count[DIFFERENT], 0);
        assert_int_equal(count_io(&b, NVME_WRITE, SAME), 6);
        assert_int_equal(count_io(&b, NVME_WRITE, SKIPPED), 2);
        assert_int_equal(count_io(&b, NVME_WRITE_ZEROES, SKIPPED), 1);
        assert_int_equal(count_io(&b, NVME_DSM, SKIPPED), 1);
        inside = count_io(&b, NVME_READ, SAME);
        assert_true(inside > 0);
        /* where it was written without the offset there is nothing */
        b.options.offset = 0;
        b.options.allow_write = false;
        b.options.strict_data = true;
        assert_int_equal(replay(&b), 0);
        assert_true(count_io(&b, NVME_READ, DIFFERENT) > 0);
        /* there it is, also for the 3 reads that came before the writes */
        b.options.offset = 10000;
        assert_int_equal(replay(&b), 0);
        assert_int_equal(count_io(&b, NVME_READ, DIFFERENT), 3);
        assert_int_equal(count_io(&b, NVME_READ, SAME), inside - 3);
        stop(&b);
}

static void test_stop_at(void **state)
{
        static struct bench b;

        (void)state;
        start(&b, false);
        load(&b, 0, 200);
        assert_int_equal(replay(&b), 0);
        assert_int_equal(count_io(&b, NVME_WRITE, SAME), 1);
        assert_int_equal(b.totals.count[DIFFERENT] + b.totals.count[SKIPPED], 0);
        for (unsigned i = 0; i < b.count; i++)
                assert_true(b.told[i].cmd->at.frame <= 200);
        stop(&b);
}

/* The end of the first association to the end of the capture: 5 s of Keep Alive are shortened. */
static void test_timing(void **state)
{
        static struct bench b;
        uint64_t begun = loop_now_ns();

        (void)state;
        start(&b, false);
        load(&b, 0, 0);
        b.options.timing = 0.1;
        assert_int_equal(replay(&b), 0);
        assert_int_equal(b.totals.count[DIFFERENT], 0);
        assert_true(loop_now_ns() - begun > 800000000);
        stop(&b);
}

static void test_nobody_there(void **state)
{
        static struct bench b;

        (void)state;
        start(&b, false);
        load(&b, 0, 0);
        target_stop(b.target);
        b.target = NULL;
        b.options.timeout = 1000;
        assert_int_equal(replay(&b), -1);
        assert_true(strlen(b.err) > 0);
        stop(&b);
}

/* What lost frames took away is left out, with the reason; each command is told once. */
static void test_lossy(void **state)
{
        char path[MEMORY_FILE];
        uint64_t seed = 7;

        (void)state;
        assert_int_equal(memory_file(path), 0);
        for (unsigned i = 0; i < 24; i++) {
                static struct bench b;
                struct capfile c;

                start(&b, false);
                cap_load(&c, captures[i % CAPTURES]);
                cap_write_lossy(&c, path, 50, &seed);
                load_path(&b, path, 0);
                b.options.timeout = 5000;
                if (replay(&b) == 0)
                        assert_int_equal(b.count, commands(&b.plan));
                assert_int_equal(b.totals.count[DIFFERENT], 0);
                for (unsigned k = 0; k < b.count; k++)
                        assert_true(b.told[k].verdict.likeness == SAME ||
                                    strlen(b.told[k].verdict.why) > 0);
                cap_free(&c);
                stop(&b);
        }
}

/* Bytes of headers and commands that are anything at all: whatever is sent, each command is told. */
static void test_damaged(void **state)
{
        char path[MEMORY_FILE];
        uint64_t seed = 99;

        (void)state;
        assert_int_equal(memory_file(path), 0);
        for (unsigned i = 0; i < 40; i++) {
                struct trace_options trace = { 0 };
                static struct bench b;
                struct capfile c;

                start(&b, false);
                cap_load(&c, captures[i % CAPTURES]);
                for (unsigned k = 0; k < 60; k++) {
                        uint64_t packet = cap_random(&seed) % c.packets;
                        size_t room = c.at[packet + 1] - c.at[packet] - CAP_PACKET_HEAD;
                        size_t at = cap_random(&seed) % (room < 256 ? room : 256);

                        c.bytes[c.at[packet] + CAP_PACKET_HEAD + at] = (uint8_t)cap_random(&seed);
                }
                cap_write_bytes(path, c.bytes, c.len);
                b.options.timeout = 500;
                if (replay_plan_read(&b.plan, path, &trace, 0, b.err, sizeof(b.err)) == 0 &&
                    replay(&b) == 0)
                        assert_int_equal(b.count, commands(&b.plan));
                cap_free(&c);
                stop(&b);
        }
}

/* --- answers side by side --------------------------------------------------------------------- */

static struct cqe answer(uint16_t status, uint32_t dw0)
{
        return (struct cqe) { .dw0 = le32(dw0), .sf = status_field(status) };
}

static enum likeness likeness(struct comparison c)
{
        return compare_answers(&c).likeness;
}

static void test_compare(void **state)
{
        static const uint8_t block[512] = { 1 }, other[512] = { 1, 2 };
        static struct id_ctrl was, is;
        union sqe read = { .opc = NVME_READ, .nsid = le32(1) };
        union sqe identify = { .opc = NVME_IDENTIFY, .cdw10 = le32(CNS_CTRL) };
        union sqe features = { .opc = NVME_GET_FEATURES, .cdw10 = le32(FEAT_KATO) };
        struct comparison c = { .sqe = &read,
                                .captured = { answer(0, 0), block, 512 },
                                .live = { answer(0, 0), block, 512 } };

        (void)state;
        assert_int_equal(likeness(c), SAME);
        c.live.data = other;
        assert_int_equal(likeness(c), DIFFERENT);
        c.unknown = true;
        assert_int_equal(likeness(c), ALLOWED);
        c.live.len = 256;
        assert_int_equal(likeness(c), DIFFERENT);
        c.live.cqe = answer(NVME_LBA_RANGE, 0);
        assert_int_equal(likeness(c), DIFFERENT);
        c.captured.cqe = answer(NVME_SGL_LENGTH, 0);
        assert_int_equal(likeness(c), ALLOWED);

        was.cntrltype = is.cntrltype = CNTRLTYPE_IO;
        is.mdts = 9;
        c = (struct comparison) { .sqe = &identify,
                                  .admin = true,
                                  .captured = { answer(0, 0), (void *)&was, sizeof(was) },
                                  .live = { answer(0, 0), (void *)&is, sizeof(is) } };
        assert_int_equal(likeness(c), ALLOWED);
        is.cntrltype = CNTRLTYPE_DISCOVERY; /* an allowed difference hides no other one */
        assert_int_equal(likeness(c), DIFFERENT);

        c = (struct comparison) { .sqe = &features,
                                  .admin = true,
                                  .captured = { answer(0, 5), NULL, 0 },
                                  .live = { answer(0, 6), NULL, 0 } };
        assert_int_equal(likeness(c), DIFFERENT);
        features.cdw10 = le32(FEAT_QUEUES);
        assert_int_equal(likeness(c), ALLOWED);
        c.live.cqe = answer(NVME_INTERNAL_ERROR, 0);
        assert_int_equal(likeness(c), DIFFERENT);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_compare),   cmocka_unit_test(test_tcp),
                cmocka_unit_test(test_rdma),      cmocka_unit_test(test_digests),
                cmocka_unit_test(test_read_only), cmocka_unit_test(test_again),
                cmocka_unit_test(test_remap),     cmocka_unit_test(test_stop_at),
                cmocka_unit_test(test_timing),    cmocka_unit_test(test_nobody_there),
                cmocka_unit_test(test_lossy),     cmocka_unit_test(test_damaged),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
