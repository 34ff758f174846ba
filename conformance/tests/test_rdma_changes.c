/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes by RPC under load, over RDMA in memory: eight queues verify what they write while everything that can be
 * changed is changed, its own namespace among it. None of the changes fails, no command does, what is read is what was
 * written, the load goes on after each round, and nothing is left in the end. The same over TCP: test_rpc.py.
 */
#include <json-c/json.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/engine/verify.h" /* before cmocka, whose fail() is a macro */
#include "host/nvme/ctrl.h"
#include "host/nvme/nvme_load.h"
#include "pdu/io/loop.h"
#include "pdu/io/rpc_server.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "target/nvme/config.h"
#include "target/nvme/target.h"
#include "target/rpc/rpc.h"

#include <cmocka.h>

#define NQN   "nqn.2016-06.io.spdk:cnode1"
#define OTHER "nqn.2016-06.io.spdk:cnode2"
#define HOST  "nqn.2014-08.org.example:host1"
#define HERE  "{\"trtype\":\"RDMA\",\"adrfam\":\"IPv4\",\"traddr\":\"127.0.0.1\",\"trsvcid\":\"%s\"}"
#define THERE                                                                                      \
        "{\"trtype\":\"RDMA\",\"adrfam\":\"IPv4\",\"traddr\":\"127.0.0.2\",\"trsvcid\":\"%s\"}"

enum {
        CHANGES = 200, /* NVMFSPEC_RPC_CHANGES in the environment */
        QUEUES = 8,
        PATIENCE = 60000, /* ms */
        BLOCK = 512,
        BLOCKS = 131072,
        RANGE = 8 << 20,
};

static struct verbs_provider *provider;
static struct target *target;
static struct rpc *rpc;
static char folder[64], path[96], trsvcid[16];
static _Atomic bool over, broken,
    pumped;           /* the load has to end, it has failed; the pump has to end */
static char why[400]; /* the load is broken */
static unsigned done; /* changes */

/* --- calls -------------------------------------------------------------------------------------- */

/* The result of a call that succeeds; the caller's. */
static struct json_object *__attribute__((format(printf, 2, 3)))
call(const char *method, const char *params, ...)
{
        const struct rpc_place at = { .path = path };
        struct json_object *answer, *given, *result = NULL;
        char text[1024], error[300] = "";
        va_list args;

        va_start(args, params);
        vsnprintf(text, sizeof(text), params, args);
        va_end(args);
        given = json_tokener_parse(text);
        assert_non_null(given);
        answer = rpc_call(&at, method, given, PATIENCE, error, sizeof(error));
        json_object_put(given);
        if (!answer)
                fail_msg("%s %s: %s", method, text, error);
        if (!json_object_object_get_ex(answer, "result", &result))
                fail_msg("%s %s: %s", method, text, json_object_to_json_string(answer));
        result = json_object_get(result);
        json_object_put(answer);
        return result;
}

/* One that changes something. */
#define change(...) (json_object_put(call(__VA_ARGS__)), done++)

static struct json_object *member(struct json_object *o, const char *name)
{
        struct json_object *v = NULL;

        assert_true(json_object_object_get_ex(o, name, &v));
        return v;
}

static uint64_t writes(void)
{
        struct json_object *r = call("bdev_get_iostat", "{\"name\":\"Malloc0\"}");
        struct json_object *bdev = json_object_array_get_idx(member(r, "bdevs"), 0);
        uint64_t n = json_object_get_uint64(member(bdev, "num_write_ops"));

        json_object_put(r);
        return n;
}

/* Commands of the subsystem under load that wait for it to be resumed. */
static uint64_t waiting(void)
{
        struct json_object *r = call("nvmfspec_get_states", "{}"), *all = member(r, "subsystems");
        uint64_t n = 0;

        for (size_t i = 0; i < json_object_array_length(all); i++) {
                struct json_object *s = json_object_array_get_idx(all, i);

                if (strcmp(json_object_get_string(member(s, "nqn")), NQN) == 0)
                        n = json_object_get_uint64(member(s, "waiting"));
        }
        json_object_put(r);
        return n;
}

static size_t count_of(const char *method)
{
        struct json_object *r = call(method, "{\"nqn\":\"" NQN "\"}");
        size_t n = json_object_array_length(r);

        json_object_put(r);
        return n;
}

/* Of the listener at that address. */
static void find_port(const char *traddr, char port[16])
{
        struct json_object *r = call("nvmf_subsystem_get_listeners", "{\"nqn\":\"" NQN "\"}");

        port[0] = '\0';
        for (size_t i = 0; i < json_object_array_length(r); i++) {
                struct json_object *a = member(json_object_array_get_idx(r, i), "address");

                if (strcmp(json_object_get_string(member(a, "traddr")), traddr) == 0)
                        snprintf(port, 16, "%s", json_object_get_string(member(a, "trsvcid")));
        }
        json_object_put(r);
        assert_true(port[0]);
}

/* --- the load ----------------------------------------------------------------------------------- */

static void *pump(void *arg)
{
        (void)arg;
        while (!pumped) {
                verbs_memory_do(provider, NULL, NULL);
                usleep(300);
        }
        return NULL;
}

static void break_down(const char *text)
{
        snprintf(why, sizeof(why), "%s", text);
        broken = true;
}

static void verify_on(struct host_ctrl *c)
{
        struct load l = nvme_load(c, 1, BLOCK, BLOCKS);

        for (uint64_t seed = 1; !over && !broken; seed++) {
                const struct verify_options o = {
                        .range = RANGE, .max_size = 32 << 10, .depth = 8, .ms = 300, .seed = seed
                };
                struct verify_result r = { 0 };
                struct host_error e = { 0 };

                if (verify_run(&l, &o, &r, &e) < 0)
                        break_down(e.line);
                else if (r.differs)
                        break_down(r.line);
        }
}

static void *run_load(void *arg)
{
        const struct host_params *p = arg;
        struct host_ctrl *c = calloc(1, sizeof(*c));
        struct host_error e = { 0 };

        if (host_ctrl_connect(c, p, &e) < 0) {
                break_down(e.line);
                free(c);
                return NULL;
        }
        verify_on(c);
        if (host_ctrl_disconnect(c, &e) < 0 && !broken)
                break_down(e.line);
        free(c);
        return NULL;
}

/* It writes once more, or it is broken. */
static void goes_on(void)
{
        uint64_t before = writes(), until = loop_now_ms() + PATIENCE;

        while (writes() == before && !broken && loop_now_ms() < until)
                usleep(2000);
        if (broken)
                fail_msg("%s", why);
        assert_true(loop_now_ms() < until);
}

/* --- changes ------------------------------------------------------------------------------------ */

/* The namespace under load comes and goes while its commands wait for it. True: some did. */
static bool change_while_paused(unsigned i)
{
        static const char *const scopes[] = { "", ",\"nsid\":1", ",\"nsid\":0" };
        bool also_this = i % 3 < 2;
        uint64_t until = loop_now_ms() + PATIENCE;
        uint64_t waited = 0;

        change("nvmfspec_subsystem_pause", "{\"nqn\":\"" NQN "\"%s}", scopes[i % 3]);
        while (also_this && waited == 0 && !broken && loop_now_ms() < until)
                waited = waiting();
        change("bdev_null_resize", "{\"name\":\"Churn\",\"new_size\":%u}", 1 + i % 3);
        if (also_this) {
                change("nvmf_subsystem_remove_ns", "{\"nqn\":\"" NQN "\",\"nsid\":1}");
                change("nvmf_subsystem_add_ns",
                       "{\"nqn\":\"" NQN
                       "\",\"namespace\":{\"bdev_name\":\"Malloc0\",\"nsid\":1}}");
        }
        change("nvmf_subsystem_add_ns",
               "{\"nqn\":\"" NQN "\",\"namespace\":{\"bdev_name\":\"mem:1M\",\"nsid\":6}}");
        change("nvmf_subsystem_remove_ns", "{\"nqn\":\"" NQN "\",\"nsid\":6}");
        change("nvmfspec_subsystem_resume", "{\"nqn\":\"" NQN "\"}");
        return waited > 0;
}

static void mask(unsigned i)
{
        if (i % 3 != 0)
                return;
        change("nvmf_ns_add_host", "{\"nqn\":\"" NQN "\",\"nsid\":5,\"host\":\"" HOST "\"}");
        change("nvmf_ns_remove_host", "{\"nqn\":\"" NQN "\",\"nsid\":5,\"host\":\"" HOST "\"}");
}

static void trace(unsigned i)
{
        if (i % 2 == 0)
                change("nvmfspec_trace_start", "{\"file\":\"%s/trace%u\",\"size\":1048576}", folder,
                       i);
        else
                change("nvmfspec_trace_stop", "{}");
}

static bool change_everything(unsigned i)
{
        struct json_object *late =
            call("nvmfspec_fault_add", "{\"fault\":\"delay=1ms every=20 qid=1-8\"}");
        char port[16];
        bool waited;

        change("nvmf_subsystem_add_ns",
               "{\"nqn\":\"" NQN "\",\"namespace\":{\"bdev_name\":\"Churn\",\"nsid\":5,"
               "\"no_auto_visible\":%s}}",
               i % 3 == 0 ? "true" : "false");
        mask(i);
        trace(i);
        change("nvmf_subsystem_add_host", "{\"nqn\":\"" NQN "\",\"host\":\"" HOST "\"}");
        change("nvmf_create_subsystem", "{\"nqn\":\"" OTHER "\",\"allow_any_host\":%s}",
               i % 2 == 0 ? "true" : "false");
        change("nvmf_subsystem_add_listener", "{\"nqn\":\"" OTHER "\",\"listen_address\":" HERE "}",
               "0");
        change("nvmf_subsystem_add_listener", "{\"nqn\":\"" NQN "\",\"listen_address\":" THERE "}",
               "0");
        change("nvmf_discovery_add_referral", "{\"address\":" THERE "}", "8009");
        waited = change_while_paused(i);
        find_port("127.0.0.2", port);
        change("nvmf_subsystem_remove_listener",
               "{\"nqn\":\"" NQN "\",\"listen_address\":" THERE "}", port);
        change("nvmf_subsystem_remove_ns", "{\"nqn\":\"" NQN "\",\"nsid\":5}");
        change("nvmf_subsystem_remove_host", "{\"nqn\":\"" NQN "\",\"host\":\"" HOST "\"}");
        change("nvmf_discovery_remove_referral", "{\"address\":" THERE "}", "8009");
        change("nvmf_delete_subsystem", "{\"nqn\":\"" OTHER "\"}");
        change("nvmfspec_fault_remove", "{\"id\":%d}", json_object_get_int(late));
        json_object_put(late);
        done++;
        return waited;
}

/* --- from beginning to end ---------------------------------------------------------------------- */

static void start(const struct memory_caps *caps)
{
        static const struct config nothing;
        struct target_options o = { .serve = &nothing, .reactors = 2, .quiet = true };
        char error[300] = "";

        strcpy(folder, "/tmp/test_rdma_changes.XXXXXX");
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/rpc.sock", folder);
        provider = verbs_memory_new(caps);
        o.verbs = provider;
        rpc = rpc_open(&(struct rpc_place) { .path = path }, error, sizeof(error));
        assert_non_null(rpc);
        target = target_start(&o, error, sizeof(error));
        if (!target)
                fail_msg("%s", error);
        assert_int_equal(rpc_run(rpc, target, &nothing, false), 0);
        over = broken = pumped = false;
        done = 0;
}

static void serve(void)
{
        change("nvmf_create_transport", "{\"trtype\":\"RDMA\"}");
        change("bdev_malloc_create", "{\"name\":\"Malloc0\",\"num_blocks\":%d,\"block_size\":%d}",
               BLOCKS, BLOCK);
        change("bdev_null_create", "{\"name\":\"Churn\",\"num_blocks\":2048,\"block_size\":512}");
        change("nvmf_create_subsystem", "{\"nqn\":\"" NQN "\",\"allow_any_host\":true}");
        change("nvmf_subsystem_add_ns",
               "{\"nqn\":\"" NQN "\",\"namespace\":{\"bdev_name\":\"Malloc0\",\"nsid\":1}}");
        change("nvmf_subsystem_add_listener", "{\"nqn\":\"" NQN "\",\"listen_address\":" HERE "}",
               "0");
        find_port("127.0.0.1", trsvcid);
}

static void stop(pthread_t pumps)
{
        struct memory_count c;
        char command[128];

        rpc_end(rpc);
        target_stop(target);
        rpc_free(rpc);
        pumped = true;
        pthread_join(pumps, NULL);
        c = verbs_memory_leaks(provider);
        assert_int_equal(c.contexts + c.listeners + c.eps + c.qps + c.mrs + c.windows, 0);
        assert_int_equal(c.posted, 0);
        verbs_memory_free(provider);
        snprintf(command, sizeof(command), "rm -rf '%s'", folder);
        assert_int_equal(system(command), 0);
}

static struct host_params params(void)
{
        struct host_params p = host_params_default();

        p.transport = HOST_RDMA;
        p.verbs = provider;
        p.traddr = "127.0.0.1";
        p.trsvcid = trsvcid;
        p.subnqn = NQN;
        p.io_queues = QUEUES;
        p.queue_size = 16;
        p.kato = 120000;
        p.timeout = PATIENCE;
        return p;
}

static void changes_under_load(const struct memory_caps *caps)
{
        const char *wish = getenv("NVMFSPEC_RPC_CHANGES");
        unsigned wanted = wish ? (unsigned)strtoul(wish, NULL, 0) : CHANGES, waited = 0;
        pthread_t pumps, load;
        struct host_params p;

        start(caps);
        pthread_create(&pumps, NULL, pump, NULL);
        serve();
        p = params();
        pthread_create(&load, NULL, run_load, &p);
        while (count_of("nvmf_subsystem_get_qpairs") < QUEUES + 1 && !broken)
                usleep(20000);
        done = 0;
        for (unsigned i = 0; done < wanted; i++) {
                goes_on();
                waited += change_everything(i);
        }
        goes_on();
        over = true;
        pthread_join(load, NULL);
        if (broken)
                fail_msg("%s", why);
        assert_true(waited > 0);
        for (unsigned i = 0; i < 1000 && count_of("nvmf_subsystem_get_controllers") > 0; i++)
                usleep(20000);
        assert_int_equal(count_of("nvmf_subsystem_get_controllers"), 0);
        stop(pumps);
        printf("%u changes\n", done);
}

static void shared_receives(void **state)
{
        (void)state;
        changes_under_load(NULL);
}

/* iWARP, without inline data or a shared receive queue, as siw is. */
static void own_receives(void **state)
{
        struct memory_caps caps;

        (void)state;
        memory_caps_default(&caps);
        caps.device.iwarp = caps.device.no_last_wqe = true;
        caps.device.srq_wrs = 0;
        caps.device.inline_bytes = 0;
        changes_under_load(&caps);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(shared_receives),
                cmocka_unit_test(own_receives),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
