/* SPDX-License-Identifier: BSD-3-Clause */
/* The inventory: who is where, who may use it, and who is the last to let go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "target/nvme/subsystem.h"

#define NQN_A  "nqn.2026-01.io.nvmfspec:a"
#define NQN_B  "nqn.2026-01.io.nvmfspec:b"
#define HOST_1 "nqn.2026-01.io.nvmfspec:host-1"
#define HOST_2 "nqn.2026-01.io.nvmfspec:host-2"

static struct inventory inv;
static struct subsystem *a, *b;
static struct port *port;

static struct ns *new_ns(uint32_t nsid)
{
        char error[128];

        return ns_open(&nvme_ns_family, "mem:1M", NQN_A, nsid, error, sizeof(error));
}

static int set_up(void **state)
{
        (void)state;
        inventory_init(&inv);
        a = subsystem_new(NQN_A);
        b = subsystem_new(NQN_B);
        port = port_new(7);
        inventory_add_subsystem(&inv, a);
        inventory_add_subsystem(&inv, b);
        inventory_add_port(&inv, port);
        return !port_subsystems_add(&port->subsystems, a);
}

static int tear_down(void **state)
{
        (void)state;
        inventory_fini(&inv);
        return 0;
}

static void test_look_ups(void **state)
{
        (void)state;
        assert_ptr_equal(inventory_subsystem(&inv, NQN_B), b);
        assert_null(inventory_subsystem(&inv, "nqn.2026-01.io.nvmfspec:c"));
        assert_ptr_equal(inventory_port(&inv, 7), port);
        assert_null(inventory_port(&inv, 8));
        assert_ptr_equal(port_subsystem(port, NQN_A), a);
        assert_null(port_subsystem(port, NQN_B)); /* is there, but not behind this port */
}

/* Hosts that name disks by serial number tell two subsystems apart, and know one again. */
static void test_serials(void **state)
{
        struct subsystem *again = subsystem_new(NQN_A);

        (void)state;
        assert_non_null(again);
        assert_int_equal(strspn(a->serial, "0123456789abcdef"), 16);
        assert_int_equal(strlen(a->serial), 16);
        assert_string_not_equal(a->serial, b->serial);
        assert_string_equal(a->serial, again->serial);
        subsystem_put(again);
}

static void test_hosts(void **state)
{
        (void)state;
        assert_true(subsystem_allows(a, HOST_1));
        a->allow_any_host = false;
        assert_false(subsystem_allows(a, HOST_1));
        assert_true(hosts_add(&a->hosts, HOST_1, NULL));
        assert_true(subsystem_allows(a, HOST_1));
        assert_false(subsystem_allows(a, HOST_2));
        hosts_clear(&a->hosts);
        assert_false(subsystem_allows(a, HOST_1));
}

static void test_namespaces_ascend(void **state)
{
        static const uint32_t order[] = { 5, 1, 9, 2 };
        struct ns *ns;
        uint32_t last = 0;

        (void)state;
        for (unsigned i = 0; i < 4; i++)
                subsystem_add_ns(a, new_ns(order[i]));
        for (ns = a->ns; ns; ns = ns->next) {
                assert_true(ns->nsid > last);
                last = ns->nsid;
        }
        assert_int_equal(ns_find(a, 5)->nsid, 5);
        assert_null(ns_find(a, 3));
        assert_null(ns_find(a, 0));
        assert_null(ns_find(a, 0xffffffff));
        ns = ns_find(a, 2);
        subsystem_remove_ns(a, ns);
        assert_null(ns_find(a, 2));
        assert_int_equal(ns_find(a, 9)->nsid, 9);
        ns_put(ns);
}

static void test_who_holds_it_keeps_it(void **state)
{
        struct ns *ns;

        (void)state;
        subsystem_add_ns(a, new_ns(1));
        ns = ns_find(a, 1);
        assert_null(ns_find(a, 2));
        atomic_fetch_add(&ns->refs, 1);
        subsystem_get(a);
        inventory_remove_subsystem(&inv, a);
        subsystem_put(a); /* the inventory's */
        assert_null(inventory_subsystem(&inv, NQN_A));
        assert_null(port_subsystem(port, NQN_A));
        assert_string_equal(a->nqn, NQN_A); /* still ours */
        subsystem_put(a);
        assert_int_equal(ns->blocks, 2048);
        ns_put(ns);
        port_get(port);
        inventory_remove_port(&inv, port);
        port_put(port);
        assert_int_equal(port->id, 7);
        port_put(port);
}

/* Readers without a lock, while namespaces come and go. */
static _Atomic bool over;

static void *look(void *arg)
{
        (void)arg;
        while (!over)
                for (uint32_t nsid = 1; nsid < 6; nsid++) {
                        const struct ns *ns = ns_find(a, nsid);

                        if (ns)
                                assert_int_equal(ns->nsid, nsid);
                }
        return NULL;
}

static void test_look_ups_need_no_lock(void **state)
{
        struct ns *ns[5];
        pthread_t thread;

        (void)state;
        for (uint32_t i = 0; i < 5; i++)
                ns[i] = new_ns(i + 1);
        pthread_create(&thread, NULL, look, NULL);
        for (unsigned i = 0; i < 2000; i++) {
                if (ns_find(a, i % 5 + 1))
                        subsystem_remove_ns(a, ns[i % 5]);
                else
                        subsystem_add_ns(a, ns[i % 5]);
        }
        over = true;
        pthread_join(thread, NULL);
        for (uint32_t i = 0; i < 5; i++)
                if (!ns_find(a, i + 1))
                        ns_put(ns[i]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_look_ups, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_serials, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_hosts, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_namespaces_ascend, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_who_holds_it_keeps_it, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_look_ups_need_no_lock, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
