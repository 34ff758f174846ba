/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference host and the reference target, their threads and all, over RDMA in memory, while a
 * third party breaks what can break: completions fail, connection management says what it likes or
 * nothing, calls find no memory, devices go. Commands may fail then; but what is read is what was
 * written, nobody hangs, the target serves the next who comes, and nothing is left in the end.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/nvme/ctrl.h" /* before cmocka, whose fail() is a macro */
#include "pdu/io/verbs/verbs_memory.h"
#include "target/nvme/target.h"

#include <cmocka.h>

enum {
        HOSTS = 2,       /* threads */
        SECONDS = 1,     /* of each kind; CHAOS_SECONDS in the environment */
        PATIENCE = 1200, /* tenths of a second more, for a machine that is busy */
#ifdef __SANITIZE_THREAD__
        TIMEOUT = 2000, /* ms, of a host for set-up and commands: few would connect in less */
#else
        TIMEOUT = 400,
#endif
        BLOCK = 512,
        BYTES = 8192,
};

static struct verbs_provider *provider;
static struct target *target;
static char trsvcid[8];
static unsigned seconds = SECONDS;
static _Atomic bool over;
static _Atomic unsigned connects, refusals, commands, failures;

/* --- chance ------------------------------------------------------------------------------------- */

struct dice {
        uint32_t state;
};

static uint32_t roll(struct dice *d, uint32_t n)
{
        d->state ^= d->state << 13;
        d->state ^= d->state >> 17;
        d->state ^= d->state << 5;
        return (uint32_t)((uint64_t)d->state * n >> 32);
}

/* --- what breaks -------------------------------------------------------------------------------- */

static void fail_completion(struct memory_fabric *f, struct verbs_ep *ep, struct dice *d)
{
        (void)f;
        memory_fail_completion(ep, 1 + roll(d, 20),
                               (enum verbs_status)(1 + roll(d, VERBS_STATUSES - 1)));
}

static void fail_work(struct memory_fabric *f, struct verbs_ep *ep, struct dice *d)
{
        (void)f;
        memory_fail_work(ep, 1 + roll(d, 20), (enum verbs_status)(1 + roll(d, VERBS_STATUSES - 1)));
}

static void lose(struct memory_fabric *f, struct verbs_ep *ep, struct dice *d)
{
        (void)f;
        (void)d;
        memory_lose_cm(ep, 1);
}

static void hold(struct memory_fabric *f, struct verbs_ep *ep, struct dice *d)
{
        (void)f;
        memory_hold_cm(ep, roll(d, 2) > 0);
}

static void no_memory(struct memory_fabric *f, struct verbs_ep *ep, struct dice *d)
{
        (void)ep;
        memory_refuse(f, (enum memory_what)roll(d, MEMORY_WHATS), 1 + roll(d, 20));
}

static void event(struct memory_fabric *f, struct verbs_ep *ep, struct dice *d)
{
        static const enum verbs_event_type types[] = {
                VERBS_DISCONNECTED,
                VERBS_TIMEWAIT_EXIT,
                VERBS_ADDR_CHANGE,
                VERBS_QP_ERROR,
        };

        (void)f;
        memory_inject(ep, types[roll(d, sizeof(types) / sizeof(*types))], 0);
}

static void hardware(struct memory_fabric *f, struct verbs_ep *ep, struct dice *d)
{
        (void)f;
        (void)d;
        (memory_ops.fail)(ep);
}

/* A host's: the target's would not come back. */
static void removal(struct memory_fabric *f, struct verbs_ep *ep, struct dice *d)
{
        (void)d;
        if (memory_connects(ep))
                memory_remove(f, memory_context(ep));
}

static void vanish(struct memory_fabric *f, struct verbs_ep *ep, struct dice *d)
{
        (void)f;
        (void)d;
        memory_ops.disconnect(ep);
}

static void break_something(struct memory_fabric *f, void *arg)
{
        static void (*const ways[])(struct memory_fabric *, struct verbs_ep *, struct dice *) = {
                fail_completion, fail_work, lose, hold, no_memory, event, hardware, removal, vanish,
        };
        struct dice *d = arg;
        struct verbs_ep *ep = memory_ep(f, roll(d, 8));

        if (ep && roll(d, 4) == 0)
                ways[roll(d, sizeof(ways) / sizeof(*ways))](f, ep, d);
}

/* Whatever was held or is to fail. */
static void mend(struct memory_fabric *f, void *arg)
{
        struct verbs_ep *ep;

        (void)arg;
        for (unsigned i = 0; (ep = memory_ep(f, i)); i++) {
                memory_hold_cm(ep, false);
                memory_lose_cm(ep, 0);
                memory_fail_completion(ep, 0, VERBS_SUCCESS);
                memory_fail_work(ep, 0, VERBS_SUCCESS);
        }
        for (unsigned what = 0; what < MEMORY_WHATS; what++)
                memory_refuse(f, (enum memory_what)what, 0);
}

static void *pump(void *arg)
{
        while (!over) {
                verbs_memory_do(provider, arg ? break_something : NULL, arg);
                usleep(300);
        }
        return NULL;
}

/* --- hosts -------------------------------------------------------------------------------------- */

/* host_params_default() is for one thread. */
static struct host_params defaults;

static struct host_params params(void)
{
        struct host_params p = defaults;

        p.transport = HOST_RDMA;
        p.verbs = provider;
        p.traddr = target_traddr(target);
        p.trsvcid = trsvcid;
        p.subnqn = TARGET_NQN;
        p.io_queues = 2;
        p.queue_size = 8;
        p.timeout = TIMEOUT;
        return p;
}

static union sqe rw(uint8_t opc, uint64_t lba)
{
        union sqe sqe = { .opc = opc };

        sqe.nsid = le32(1);
        sqe.cdw10 = le32((uint32_t)lba);
        sqe.cdw12 = le32(BYTES / BLOCK - 1);
        return sqe;
}

static void fill(uint8_t *p, uint32_t salt)
{
        for (uint32_t i = 0; i < BYTES; i++)
                p[i] = (uint8_t)(i * 31 + salt + (i >> 8));
}

/* One write, one read; false: the association is no good any more. */
static bool write_and_read(struct host_ctrl *c, uint64_t lba, uint32_t salt, struct host_error *e)
{
        static _Thread_local uint8_t out[BYTES], in[BYTES];
        struct host_queue *q = &c->io[salt % c->io_count];
        union sqe w = rw(NVME_WRITE, lba), r = rw(NVME_READ, lba);

        fill(out, salt);
        commands += 2;
        if (host_ctrl_run(c, q, &w, out, BYTES, NULL, e) < 0 ||
            host_ctrl_run(c, q, &r, in, BYTES, NULL, e) < 0) {
                failures++;
                return false;
        }
        if (memcmp(in, out, BYTES) != 0)
                abort(); /* not the thread of the test */
        return true;
}

static void *host(void *arg)
{
        unsigned number = *(unsigned *)arg;
        struct host_params p = params();
        struct host_error e;

        for (uint32_t salt = number; !over;) {
                struct host_ctrl *c = calloc(1, sizeof(*c));

                connects++;
                if (host_ctrl_connect(c, &p, &e) < 0) {
                        refusals++;
                        free(c);
                        continue;
                }
                while (!over && write_and_read(c, number * 1000 + salt % 20 * 16, salt, &e))
                        salt += HOSTS;
                host_ctrl_close(c);
                free(c);
        }
        return NULL;
}

/* --- rounds ------------------------------------------------------------------------------------- */

static void start(const struct memory_caps *caps, uint32_t seed, struct target_options o)
{
        char error[256];

        provider = seed ? verbs_memory_new_slow(caps, seed) : verbs_memory_new(caps);
        o.trtype = TRTYPE_RDMA;
        o.verbs = provider;
        o.trsvcid = "0";
        o.reactors = 2;
        o.quiet = true;
        target = target_start(&o, error, sizeof(error));
        assert_non_null(target);
        snprintf(trsvcid, sizeof(trsvcid), "%u", target_trsvcid(target));
        defaults = host_params_default();
        over = false;
        connects = refusals = commands = failures = 0;
}

static void expect_nothing_left(void)
{
        struct memory_count c = verbs_memory_leaks(provider);

        assert_int_equal(c.contexts + c.listeners + c.eps + c.qps + c.mrs + c.windows, 0);
        assert_int_equal(c.posted, 0);
        verbs_memory_free(provider);
}

/* The target is as good as new for who comes next. */
static void serves_the_next(void)
{
        struct host_params p = params();
        struct host_ctrl *c = calloc(1, sizeof(*c));
        struct host_error e;
        bool served;

        verbs_memory_do(provider, mend, NULL);
        p.timeout = 20000;
        served = host_ctrl_connect(c, &p, &e) == 0 && write_and_read(c, 5000, 1, &e) &&
                 host_ctrl_disconnect(c, &e) == 0;
        if (!served)
                print_error("%s\n", e.line);
        assert_true(served);
        free(c);
}

static bool had_enough(void)
{
        return connects > refusals + 3 && commands > 20 && failures > 3;
}

static void chaos(const struct memory_caps *caps, uint32_t seed, struct target_options o)
{
        pthread_t pumps, hosts[HOSTS];
        unsigned numbers[HOSTS];
        bool enough;
        struct dice dice = { seed * 2654435761u + 1 };

        start(caps, seed & 1 ? seed : 0, o);
        pthread_create(&pumps, NULL, pump, &dice);
        for (unsigned i = 0; i < HOSTS; i++) {
                numbers[i] = i;
                pthread_create(&hosts[i], NULL, host, &numbers[i]);
        }
        sleep(seconds);
        for (unsigned i = 0; i < PATIENCE && !had_enough(); i++)
                usleep(100000);
        enough = had_enough();
        over = true;
        for (unsigned i = 0; i < HOSTS; i++)
                pthread_join(hosts[i], NULL);
        pthread_join(pumps, NULL);
        over = false;
        pthread_create(&pumps, NULL, pump, NULL);
        serves_the_next();
        target_stop(target);
        over = true;
        pthread_join(pumps, NULL);
        printf("%u connects (%u refused), %u commands (%u failed)\n", connects, refusals, commands,
               failures);
        assert_true(enough);
        expect_nothing_left();
}

static void shared_receives(void **state)
{
        (void)state;
        chaos(NULL, 2, (struct target_options) { 0 });
}

static void shared_receives_and_delays(void **state)
{
        (void)state;
        chaos(NULL, 3, (struct target_options) { 0 });
}

/* rxe and siw never say LAST_WQE. */
static void own_receives_and_delays(void **state)
{
        struct memory_caps caps;

        (void)state;
        memory_caps_default(&caps);
        caps.device.srq_wrs = 0;
        caps.device.no_last_wqe = true;
        caps.device.inline_bytes = 0;
        chaos(&caps, 5, (struct target_options) { 0 });
}

static void iwarp(void **state)
{
        struct memory_caps caps;

        (void)state;
        memory_caps_default(&caps);
        caps.device.iwarp = caps.device.no_last_wqe = true;
        caps.device.reads_in = caps.device.reads_out = 2;
        chaos(&caps, 4, (struct target_options) { 0 });
}

static void remove_all(struct memory_fabric *f, void *arg)
{
        (void)arg;
        memory_remove(f, NULL);
}

/* All devices go in the middle of it: everybody finds the way out. */
static void the_devices_go(void **state)
{
        pthread_t pumps, hosts[HOSTS];
        unsigned numbers[HOSTS];

        (void)state;
        for (uint32_t seed = 0; seed < 4; seed++) {
                start(NULL, seed & 1 ? seed : 0, (struct target_options) { 0 });
                pthread_create(&pumps, NULL, pump, NULL);
                for (unsigned i = 0; i < HOSTS; i++) {
                        numbers[i] = i;
                        pthread_create(&hosts[i], NULL, host, &numbers[i]);
                }
                while (commands < 100 * seed + 10)
                        usleep(1000);
                verbs_memory_do(provider, remove_all, NULL);
                usleep(20000);
                over = true;
                for (unsigned i = 0; i < HOSTS; i++)
                        pthread_join(hosts[i], NULL);
                pthread_join(pumps, NULL);
                over = false;
                pthread_create(&pumps, NULL, pump, NULL);
                target_stop(target);
                over = true;
                pthread_join(pumps, NULL);
                expect_nothing_left();
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(shared_receives),
                cmocka_unit_test(shared_receives_and_delays),
                cmocka_unit_test(own_receives_and_delays),
                cmocka_unit_test(iwarp),
                cmocka_unit_test(the_devices_go),
        };
        const char *wish = getenv("CHAOS_SECONDS");

        if (wish)
                seconds = (unsigned)strtoul(wish, NULL, 0);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
