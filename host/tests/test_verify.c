/* SPDX-License-Identifier: BSD-3-Clause */
/* A sound namespace verifies; one that loses, misplaces, tears or flips does not. */
#include "fake.h"

#include <sched.h>

#include "host/engine/perf.h"
#include "host/engine/verify.h"
#include "host/nvme/nvme_load.h"

static struct fake fake;
static struct host_ctrl ctrl;
static struct host_error error;
static struct verify_result result;

static void start(const struct fake_knobs *k)
{
        struct host_params p;

        fake_start(&fake, k);
        p = fake_params(&fake);
        p.io_queues = 3;
        assert_int_equal(host_ctrl_connect(&ctrl, &p, &error), 0);
}

static void end(void)
{
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
        fake_stop(&fake);
}

static int verify(const struct verify_options *o)
{
        struct load l = nvme_load(&ctrl, 1, 512, FAKE_BLOCKS);

        return verify_run(&l, o, &result, &error);
}

static struct verify_options options(void)
{
        return (struct verify_options) { .slba = 100,
                                         .range = 1 << 20,
                                         .max_size = 32768,
                                         .depth = 8,
                                         .asked_for = true,
                                         .passes = 2,
                                         .seed = 5 };
}

static void a_sound_namespace(void **state)
{
        struct verify_options o = options();

        (void)state;
        start(&(struct fake_knobs) { .ioccsz = 4 + 4096 / 16 });
        assert_int_equal(verify(&o), 0);
        assert_false(result.differs);
        assert_int_equal(result.passes, 2);
        assert_true(result.bytes_written >= (uint64_t)2 * o.range * 3 / 4);
        assert_true(result.bytes_read >= 2 * o.range);
        o.range = 1024;
        o.passes = 20;
        assert_int_equal(verify(&o), 0);
        assert_false(result.differs);
        end();
}

static void finds(enum fake_bug bug, const char *says)
{
        struct verify_options o = options();

        o.passes = 20;
        start(&(struct fake_knobs) { .bug = bug, .every = 500 });
        assert_int_equal(verify(&o), 0);
        assert_true(result.differs);
        assert_true(result.lba >= o.slba && result.lba < o.slba + o.range / 512);
        if (!strstr(result.line, says))
                fail_msg("'%s' does not say '%s'", result.line, says);
        host_ctrl_close(&ctrl);
        fake_stop(&fake);
}

static void faults_are_found_and_named(void **state)
{
        (void)state;
        finds(FAKE_FLIPPED, "torn or corrupt");
        finds(FAKE_LOST, "");
        finds(FAKE_MISPLACED, "");
        finds(FAKE_TORN, "");
}

/* 371h, Command Aborted By Host, is an error like others when a controller says it. */
static void errors_end_it(void **state)
{
        static const uint16_t statuses[] = { NVME_UNRECOVERED_READ, 0x371 };
        struct verify_options o = options();

        (void)state;
        for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
                start(
                    &(struct fake_knobs) { .fail_opc = NVME_READ + 1, .fail_status = statuses[i] });
                assert_int_equal(verify(&o), -1);
                assert_int_equal(error.kind, HOST_STATUS);
                assert_non_null(strstr(error.line, "Read of"));
                host_ctrl_close(&ctrl);
                fake_stop(&fake);
        }

        start(&(struct fake_knobs) { .close_opc = NVME_READ + 1 });
        assert_int_equal(verify(&o), -1);
        assert_int_equal(error.kind, HOST_BROKEN);
        host_ctrl_close(&ctrl);
        fake_stop(&fake);
}

/* A status that passes by itself is not the end, unless it says so (DNR) or comes each time. */
static void what_passes_is_tried_again(void **state)
{
        enum { CRD_1 = 1 << 11 };
        static const struct {
                uint16_t status;
                unsigned times;
                bool fails;
                uint16_t crdt;
        } rows[] = {
                { NVME_NS_NOT_READY | CRD_1, 2, false, 1 },
                { NVME_NS_NOT_READY | CRD_1, 1, true, UINT16_MAX }, /* after 1.8 hours */
                { NVME_NS_NOT_READY, 3, false, 0 },
                { NVME_ANA_TRANSITION, 20, false, 0 },
                { NVME_ANA_INACCESSIBLE, 1, false, 0 },
                { NVME_INTERRUPTED, 2, false, 0 },
                { NVME_NS_NOT_READY | STATUS_DNR, 1, true, 0 },
                { NVME_UNRECOVERED_READ, 1, true, 0 },
                { NVME_NS_NOT_READY, 0, true, 0 },
        };
        struct verify_options o = options();

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                start(&(struct fake_knobs) { .fail_opc = NVME_READ + 1,
                                             .fail_status = rows[i].status,
                                             .fail_times = rows[i].times,
                                             .crdt = rows[i].crdt });
                assert_int_equal(verify(&o), rows[i].fails ? -1 : 0);
                assert_false(result.differs);
                if (rows[i].fails)
                        assert_int_equal(error.kind, HOST_STATUS);
                host_ctrl_close(&ctrl);
                fake_stop(&fake);
        }
}

/* The loss of the admin queue ends it, though every I/O queue is well. */
static void an_association_that_ends(void **state)
{
        struct verify_options o = options();

        (void)state;
        o.passes = 100;
        error = (struct host_error) { 0 };
        start(&(struct fake_knobs) { .admin_dies = 200 });
        assert_int_equal(verify(&o), -1);
        assert_int_equal(error.kind, HOST_BROKEN);
        assert_non_null(strstr(error.line, "queue 0: controller closed"));
        host_ctrl_close(&ctrl);
        fake_stop(&fake);
}

static void ranges_are_checked(void **state)
{
        struct verify_options o = options();

        (void)state;
        start(&(struct fake_knobs) { 0 });
        o.range = 512;
        assert_int_equal(verify(&o), -1);
        assert_int_equal(error.kind, HOST_USAGE);
        o.range = 1 << 20;
        o.slba = FAKE_BLOCKS - 4;
        assert_int_equal(verify(&o), -1);
        assert_int_equal(error.kind, HOST_USAGE);
        end();
}

/* --- the load --------------------------------------------------------------------------------- */

static struct perf_result perf;

static int perf_of(const struct perf_options *o)
{
        struct load l = nvme_load(&ctrl, 1, 512, FAKE_BLOCKS);

        return perf_run(&l, o, &perf, &error);
}

static struct perf_options load(unsigned read_percent, bool random, unsigned depth)
{
        return (struct perf_options) { .io_size = 4096,
                                       .read_percent = read_percent,
                                       .random = random,
                                       .depth = depth,
                                       .ms = 100,
                                       .seed = 1 };
}

/* A machine may stand still for longer than a load takes: until each kind has had its turn. */
static void loaded(struct perf_options o, bool reads, bool writes)
{
        do {
                o.ms *= 2;
                assert_int_equal(perf_of(&o), 0);
                assert_true(reads || perf.latency[PERF_READ].count == 0);
                assert_true(writes || perf.latency[PERF_WRITE].count == 0);
        } while (o.ms < 30000 && ((reads && perf.latency[PERF_READ].count == 0) ||
                                  (writes && perf.latency[PERF_WRITE].count == 0)));
        assert_true((perf.latency[PERF_READ].count > 0) == reads);
        assert_true((perf.latency[PERF_WRITE].count > 0) == writes);
}

static void loads_of_every_kind(void **state)
{
        (void)state;
        start(&(struct fake_knobs) { 0 });
        for (unsigned mix = 0; mix <= 100; mix += 50) {
                struct perf_options o = load(mix, mix == 50, mix / 2 + 1);

                o.sleep = mix == 100;
                loaded(o, mix > 0, mix < 100);
        }
        end();
}

static void two_workers(void **state)
{
        struct perf_options o = load(70, true, 4);

        (void)state;
        start(&(struct fake_knobs) { 0 });
        o.cpus = 2;
        o.cpu[0] = o.cpu[1] = sched_getcpu();
        loaded(o, true, true);
        end();
}

static void a_load_that_fails(void **state)
{
        static const uint16_t statuses[] = { NVME_LBA_RANGE, 0x371 };
        struct perf_options o = load(100, true, 4);

        (void)state;
        o.ms = FAKE_PATIENCE; /* the failure is what ends it */
        for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
                start(
                    &(struct fake_knobs) { .fail_opc = NVME_READ + 1, .fail_status = statuses[i] });
                assert_int_equal(perf_of(&o), -1);
                assert_int_equal(error.kind, HOST_STATUS);
                host_ctrl_close(&ctrl);
                fake_stop(&fake);
        }

        start(&(struct fake_knobs) { .close_opc = NVME_READ + 1 });
        assert_int_equal(perf_of(&o), -1);
        assert_int_equal(error.kind, HOST_BROKEN);
        o.io_size = 1000;
        assert_int_equal(perf_of(&o), -1);
        assert_int_equal(error.kind, HOST_USAGE);
        host_ctrl_close(&ctrl);
        fake_stop(&fake);
}

static void a_processor_that_is_not_there(void **state)
{
        struct perf_options o = load(100, true, 4);

        (void)state;
        start(&(struct fake_knobs) { 0 });
        o.cpus = 2;
        o.cpu[0] = sched_getcpu();
        o.cpu[1] = 1023;
        assert_int_equal(perf_of(&o), -1);
        assert_int_equal(error.kind, HOST_USAGE);
        assert_non_null(strstr(error.line, "CPU 1023"));
        end();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_sound_namespace),
                cmocka_unit_test(faults_are_found_and_named),
                cmocka_unit_test(errors_end_it),
                cmocka_unit_test(what_passes_is_tried_again),
                cmocka_unit_test(an_association_that_ends),
                cmocka_unit_test(ranges_are_checked),
                cmocka_unit_test(loads_of_every_kind),
                cmocka_unit_test(two_workers),
                cmocka_unit_test(a_load_that_fails),
                cmocka_unit_test(a_processor_that_is_not_there),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
