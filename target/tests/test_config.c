/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pdu/core/tests/scarce.h"
#include "target/nvme/config.h"
#include "target/nvme/plan.h"

#define PORT                                                                                       \
        "{\"portid\":1,\"addr\":{\"trtype\":\"tcp\",\"adrfam\":\"ipv4\","                          \
        "\"traddr\":\"127.0.0.1\",\"trsvcid\":\"4420\"},\"subsystems\":[%s]}"
#define NQN_A "nqn.2026-01.io.nvmfspec:a"
#define NQN_B "nqn.2026-01.io.nvmfspec:b"
#define HOST  "nqn.2026-01.io.nvmfspec:host"
#define KEY   "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:"

static char path[] = "/tmp/test_config.XXXXXX";

static const char *file_with(const char *text)
{
        FILE *f;

        strcpy(path + strlen(path) - 6, "XXXXXX");
        close(mkstemp(path));
        f = fopen(path, "w");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
        return path;
}

static bool load(struct config *c, const char *text, char *error, size_t size)
{
        bool ok = config_load(c, file_with(text), error, size);

        unlink(path);
        return ok;
}

/* Each broken document with the place that the error has to name. */
static void test_errors(void **state)
{
        static const struct {
                const char *text, *error;
        } rows[] = {
                { "", "line 1" },
                { "{", "unexpected end of the file" },
                { "{}\n}", "line 2: unexpected text" },
                { "[]", "an object is expected" },
                { "{}", "has no ports" },
                { "{\"subsystems\":5}", "subsystems: an array is expected" },
                { "{\"subsystem\":[]}", "subsystem: unknown key" },
                { "{\"sub\\n\\u001b[2J\":[]}", "sub??[2J: unknown key" }, /* one line */
                { "{\"subsystems\":[{\"nqn\":\"\"}]}", "subsystems[0].nqn: is empty" },
                { "{\"subsystems\":[{}]}", "subsystems[0]: has no nqn" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A "\",\"attr\":{\"cntlid_min\":\"x\"}}]}",
                  "subsystems[0].attr.cntlid_min: 'x' is not a number" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A "\",\"attr\":{\"qid_max\":70000}}]}",
                  "subsystems[0].attr.qid_max: 70000 is not from 0 to 65535" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A "\",\"attr\":{\"serial\":"
                  "\"0123456789012345678901\"}}]}",
                  "attr.serial: longer than 20" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A "\",\"namespaces\":[{\"nsid\":0}]}]}",
                  "namespaces[0].nsid: 0 is not from 1 to 1024" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A
                  "\",\"namespaces\":[{\"nsid\":1,\"enable\":1}]}]}",
                  "namespaces[0]: is enabled" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A
                  "\",\"namespaces\":[{\"nsid\":1},{\"nsid\":1}]}]}",
                  "subsystems[0].namespaces[1].nsid: 1 occurs twice" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A "\",\"namespaces\":[{\"nsid\":1,\"device\":"
                  "{\"uuid\":\"12\"}}]}]}",
                  "namespaces[0].device.uuid: '12'" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A
                  "\",\"namespaces\":[{\"nsid\":1,\"hosts\":[\"" HOST "\"]}]}]}",
                  "namespaces[0]: has hosts, but not no_auto_visible" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A
                  "\",\"namespaces\":[{\"nsid\":1,\"no_auto_visible\":1,\"hosts\":[7,\"\"]}]}]}",
                  "namespaces[0].hosts[1]: is empty" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A "\"},{\"nqn\":\"" NQN_A "\"}]}",
                  "subsystems[1]: nqn '" NQN_A "' occurs twice" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A "\",\"allowed_hosts\":[\"" HOST "\"]}]}",
                  "subsystems[0].allowed_hosts[0]: '" HOST "' is not in hosts" },
                { "{\"hosts\":[{\"nqn\":\"" HOST "\",\"attr\":{\"dhchap_key\":\"DHHC-1:00:x:\"}}]}",
                  "hosts[0].attr.dhchap_key: the third part of a key is not" },
                { "{\"hosts\":[{\"nqn\":\"" HOST "\",\"attr\":{\"dhchap_ctrl_key\":\"" KEY "\"}}]}",
                  "hosts[0]: attr.dhchap_ctrl_key requires dhchap_key" },
                { "{\"hosts\":[{\"nqn\":\"" HOST "\",\"attr\":{\"dhchap_hash\":\"md5\"}}]}",
                  "hosts[0].attr.dhchap_hash: 'md5' is not" },
                { "{\"hosts\":[{\"nqn\":\"" HOST "\",\"attr\":{\"dhchap_dhgroup\":\"x\"}}]}",
                  "hosts[0].attr.dhchap_dhgroup: 'x' is not" },
                { "null\n", "an object is expected" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A "\\u0000b\"}]}",
                  "subsystems[0].nqn: has a zero byte" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A "\",\"attr\":{\"qid_max\":\"5\\u00006\"}}]}",
                  "attr.qid_max: has a zero byte" },
                { "{\"subsystems\":[{\"nqn\":\"" NQN_A "\",\"attr\":{\"qid_max\":\"010\"}}]}",
                  "attr.qid_max: '010' is a number with a leading zero" },
                { "{\"subsystems\":[],\n\"ports\":[],\n\"subsystems\":[]}",
                  "line 3: 'subsystems' occurs twice in an object" },
                { "/* it's ':\"a\":\"a\": */ {\"x-a\":{\"b\":\"'\\\"b\\\":\"},// \"x-b\":\n"
                  "\"x-b\":[{\"b\":1},{\"b\":2,'c':3,'b':4}]}",
                  "line 2: 'b' occurs twice in an object" },
                { "{\"ports\":[{\"portid\":1}]}", "ports[0]: has no addr.traddr" },
                { "{\"ports\":[{\"addr\":{\"trtype\":\"fc\"}}]}",
                  "ports[0].addr.trtype: 'fc' is not supported" },
                { "{\"ports\":[{\"portid\":1,\"addr\":{\"traddr\":\"::1\"},\"subsystems\":[\"" NQN_A
                  "\"]}]}",
                  "ports[0].subsystems[0]: '" NQN_A "' is not in subsystems" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct config c;
                char error[512] = "";

                assert_false(load(&c, rows[i].text, error, sizeof(error)));
                if (!strstr(error, rows[i].error) || strchr(error, '\n'))
                        fail_msg("%s\ngave: %s\nnot:  %s", rows[i].text, error, rows[i].error);
                config_free(&c);
        }
}

static void test_policies_for_algorithms(void **state)
{
        static const struct {
                bool (*parse)(const char *text, uint8_t *allowed);
                const char *text;
                int allowed; /* -1: refused */
        } rows[] = {
                { config_hash, "sha384", 1 << AUTH_SHA384 },
                { config_hash, "sha384+", 1 << AUTH_SHA384 | 1 << AUTH_SHA512 },
                { config_hash, "hmac(sha512)+", 1 << AUTH_SHA512 },
                { config_hash, "sha512,sha256", 1 << AUTH_SHA256 | 1 << AUTH_SHA512 },
                { config_hash, "hmac(sha256),hmac(sha512)", 1 << AUTH_SHA256 | 1 << AUTH_SHA512 },
                { config_hash, "sha384++", -1 },
                { config_hash, "sha384,", -1 },
                { config_hash, "sha", -1 },
                { config_hash, "+", -1 },
                { config_group, "null", 1 << AUTH_NO_DH },
                { config_group, "null+", (1 << AUTH_GROUPS) - 1 },
                { config_group, "null,ffdhe6144+",
                  1 << AUTH_NO_DH | 1 << AUTH_FFDHE6144 | 1 << AUTH_FFDHE8192 },
                { config_group, "ffdhe2048 +", -1 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                uint8_t allowed;
                int got = rows[i].parse(rows[i].text, &allowed) ? allowed : -1;

                if (got != rows[i].allowed)
                        fail_msg("'%s' gave %d, not %d", rows[i].text, got, rows[i].allowed);
        }
}

static void test_missing_file(void **state)
{
        struct config c;
        char error[512] = "";

        (void)state;
        assert_false(config_load(&c, "/nonexistent/x.json", error, sizeof(error)));
        assert_string_equal(error, "/nonexistent/x.json: No such file or directory");
        config_free(&c);
}

static void test_values(void **state)
{
        struct config c;
        char error[512] = "", text[4096];

        (void)state;
        snprintf(text, sizeof(text),
                 "{\"hosts\":[{\"nqn\":\"" HOST "\",\"attr\":{\"dhchap_key\":\"" KEY "\","
                 "\"dhchap_ctrl_key\":\"\",\"dhchap_hash\":\"hmac(sha384)\","
                 "\"dhchap_dhgroup\":\"ffdhe3072\"}}],\"x-note\":7,\"ports\":[" PORT "],"
                 "\"subsystems\":[{\"nqn\":\"" NQN_A "\",\"allowed_hosts\":[\"" HOST "\"],"
                 "\"attr\":{\"allow_any_host\":\"0\",\"serial\":\"77\",\"cntlid_min\":\"5\","
                 "\"cntlid_max\":9},\"namespaces\":[{\"nsid\":\"3\",\"enable\":true,\"device\":"
                 "{\"path\":\"mem:1M\",\"uuid\":\"00112233-4455-6677-8899-aabbccddeeff\","
                 "\"nguid\":\"00000000-0000-0000-0000-000000000000\"},\"ana_grpid\":1,"
                 "\"no_auto_visible\":true,\"hosts\":[\"" HOST "\"]}]}]}",
                 "\"" NQN_A "\"");
        if (!load(&c, text, error, sizeof(error)))
                fail_msg("%s", error);
        assert_int_equal(c.n_hosts, 1);
        assert_int_equal(c.hosts[0].keys.host.len, 32);
        assert_int_equal(c.hosts[0].keys.ctrl.len, 0);
        assert_int_equal(c.hosts[0].keys.hashes, 1 << AUTH_SHA384);
        assert_int_equal(c.hosts[0].keys.groups, 1 << AUTH_FFDHE3072);
        assert_ptr_equal(config_keys(&c, &c.subsystems[0], HOST), &c.hosts[0].keys);
        assert_ptr_equal(config_keys(&c, &c.subsystems[0], NQN_A), &c.subsystems[0].keys);
        assert_int_equal(c.n_subsystems, 1);
        assert_false(c.subsystems[0].allow_any_host);
        assert_string_equal(c.subsystems[0].serial, "77");
        assert_int_equal(c.subsystems[0].cntlid_min, 5);
        assert_int_equal(c.subsystems[0].cntlid_max, 9);
        assert_int_equal(c.subsystems[0].ns[0].nsid, 3);
        assert_true(c.subsystems[0].ns[0].has_uuid);
        assert_int_equal(c.subsystems[0].ns[0].uuid[15], 0xff);
        assert_false(c.subsystems[0].ns[0].has_nguid);
        assert_true(c.subsystems[0].ns[0].masked);
        assert_int_equal(c.subsystems[0].ns[0].n_hosts, 1);
        assert_string_equal(c.subsystems[0].ns[0].hosts[0], HOST);
        assert_string_equal(c.ports[0].trsvcid, "4420");
        assert_string_equal(c.ports[0].subsystems[0], NQN_A);
        config_free(&c);
}

/* --- plans ------------------------------------------------------------------------------------ */

static void add(struct config *c, const char *nqn, const char *ns1, const char *ns2)
{
        struct config_subsystem *s = config_add_subsystem(c, nqn);

        if (ns1)
                config_add_ns(s, 1, ns1);
        if (ns2)
                config_add_ns(s, 2, ns2);
        config_add_string(&c->ports[0].subsystems, &c->ports[0].n_subsystems, nqn);
}

static struct config on_port(const char *trsvcid)
{
        struct config c = { 0 };

        config_add_port(&c, 1, "127.0.0.1", trsvcid);
        return c;
}

/* The first namespace is attached to hosts one by one: to that one too. */
static void mask(struct config *c, const char *hostnqn)
{
        struct config_ns *ns = &c->subsystems[0].ns[0];

        ns->masked = true;
        if (hostnqn)
                assert_true(config_add_string(&ns->hosts, &ns->n_hosts, hostnqn));
}

/* It, if the host has it. */
static struct ns *attached(const struct inventory *inv, const char *hostnqn)
{
        return ns_attached(inventory_subsystem(inv, NQN_A), 1, hostnqn, 1);
}

/* Makes, applies and frees a plan for c (which is freed too); whether a discovery log changed. */
static bool change(struct inventory *inv, struct config *c)
{
        struct plan p;
        char error[512] = "";
        bool discovery;

        if (!plan_make(&p, inv, c, error, sizeof(error)))
                fail_msg("%s", error);
        if (!plan_apply(&p, inv, error, sizeof(error)))
                fail_msg("%s", error);
        discovery = p.discovery;
        plan_free(&p);
        config_free(c);
        return discovery;
}

static void test_plan(void **state)
{
        struct inventory inv;
        struct config c = on_port("4420");
        struct subsystem *s;
        struct ns *first;

        (void)state;
        inventory_init(&inv);
        add(&c, NQN_A, "mem:1M", NULL);
        assert_true(change(&inv, &c));
        assert_int_equal(inv.genctr, 1);
        s = inventory_subsystem(&inv, NQN_A);
        first = subsystem_ns(s, 1);
        assert_int_equal(first->blocks, 2048);

        c = on_port("4420"); /* the same again */
        add(&c, NQN_A, "mem:1M", NULL);
        assert_false(change(&inv, &c));
        assert_ptr_equal(subsystem_ns(s, 1), first);

        c = on_port("4420"); /* grows in place, one more: no discovery log shows namespaces */
        add(&c, NQN_A, "mem:2M", "null:1G,bs=4096");
        assert_false(change(&inv, &c));
        assert_ptr_equal(subsystem_ns(s, 1), first);
        assert_int_equal(first->blocks, 4096);
        assert_int_equal(subsystem_ns(s, 2)->lbads, 12);
        assert_int_equal(inv.genctr, 1);

        c = on_port("4420"); /* other CNTLIDs in the log */
        add(&c, NQN_A, "mem:2M", "null:1G,bs=4096");
        c.subsystems[0].fixed = true;
        assert_true(change(&inv, &c));
        assert_int_equal(inv.genctr, 2);

        c = on_port("4421"); /* another port, another subsystem */
        add(&c, NQN_B, "mem:1M", NULL);
        assert_true(change(&inv, &c));
        assert_null(inventory_subsystem(&inv, NQN_A));
        assert_non_null(port_subsystem(inventory_port(&inv, 1), NQN_B));
        assert_string_equal(inv.ports->trsvcid, "4421");
        assert_null(inv.ports->next);
        inventory_fini(&inv);
}

/* Between plan and change a host makes the namespace that is to be added, and deletes the one that is to go. */
static void test_a_host_that_is_quicker(void **state)
{
        struct inventory inv;
        struct config c = on_port("4420");
        struct plan p;
        char error[512] = "";
        struct subsystem *s;
        struct ns *old;

        (void)state;
        inventory_init(&inv);
        add(&c, NQN_A, "mem:1M", NULL);
        change(&inv, &c);
        s = inventory_subsystem(&inv, NQN_A);
        old = subsystem_ns(s, 1);
        c = on_port("4420");
        add(&c, NQN_A, "null:4M", "mem:2M");
        assert_true(plan_make(&p, &inv, &c, error, sizeof(error)));
        assert_true(subsystem_remove_ns(s, old));
        subsystem_add_ns(s, ns_open(&nvme_ns_family, "mem:8M", NQN_A, 2, error, sizeof(error)));
        assert_true(plan_apply(&p, &inv, error, sizeof(error)));
        assert_string_equal(subsystem_ns(s, 1)->path, "null:4M");
        assert_string_equal(subsystem_ns(s, 2)->path, "mem:2M");
        assert_ptr_equal(subsystem_ns(s, 1)->next, subsystem_ns(s, 2));
        assert_null(subsystem_ns(s, 2)->next);
        plan_free(&p);
        ns_put(old);
        config_free(&c);
        inventory_fini(&inv);
}

static void test_plan_that_fails_changes_nothing(void **state)
{
        struct inventory inv;
        struct config c = on_port("4420");
        struct plan p;
        char error[512] = "";

        (void)state;
        inventory_init(&inv);
        add(&c, NQN_A, "mem:1M", NULL);
        change(&inv, &c);
        c = on_port("4420");
        add(&c, NQN_A, "null:1M", NULL);
        add(&c, NQN_B, "mem:1M", "/nonexistent/file");
        assert_false(plan_make(&p, &inv, &c, error, sizeof(error)));
        assert_non_null(strstr(error, "/nonexistent/file"));
        assert_string_equal(subsystem_ns(inventory_subsystem(&inv, NQN_A), 1)->path, "mem:1M");
        assert_null(inventory_subsystem(&inv, NQN_B));
        config_free(&c);
        inventory_fini(&inv);
}

/* Wherever it fails, nobody may do what he might not before. */
static void test_a_plan_without_memory_changes_nothing(void **state)
{
        struct inventory inv;
        struct config c = on_port("4420");
        struct plan p;
        char error[512];
        unsigned nth = 1;
        bool ok = false;

        (void)state;
        inventory_init(&inv);
        add(&c, NQN_A, "mem:1M", NULL);
        c.subsystems[0].allow_any_host = false;
        change(&inv, &c);
        c = on_port("4420");
        add(&c, NQN_A, "mem:1M", NULL);
        add(&c, NQN_B, "mem:1M", NULL);
        c.subsystems[0].allow_any_host = false;
        config_add_string(&c.subsystems[0].hosts, &c.subsystems[0].n_hosts, HOST);
        mask(&c, HOST);
        for (; !ok; nth++) {
                assert_true(nth < 100);
                allocations_left = nth;
                ok = plan_make(&p, &inv, &c, error, sizeof(error));
                allocations_left = 0;
                assert_false(subsystem_allows(inventory_subsystem(&inv, NQN_A), HOST));
                assert_non_null(attached(&inv, NQN_B));
                assert_null(inventory_subsystem(&inv, NQN_B));
        }
        assert_true(nth > 8);
        allocations_left = 1; /* it needs none any more */
        assert_true(plan_apply(&p, &inv, error, sizeof(error)));
        assert_int_equal(allocations_left, 1);
        allocations_left = 0;
        assert_true(subsystem_allows(inventory_subsystem(&inv, NQN_A), HOST));
        assert_non_null(attached(&inv, HOST));
        assert_null(attached(&inv, NQN_B));
        assert_non_null(port_subsystem(inv.ports, NQN_B));
        plan_free(&p);
        config_free(&c);
        inventory_fini(&inv);
}

/* Whom a namespace is attached to changes without the namespace itself. */
static void test_masking(void **state)
{
        struct inventory inv;
        struct config c = on_port("4420"), copy;
        struct ns *ns;

        (void)state;
        inventory_init(&inv);
        add(&c, NQN_A, "mem:1M", NULL);
        mask(&c, NULL);
        change(&inv, &c);
        ns = ns_find(inventory_subsystem(&inv, NQN_A), 1);
        assert_non_null(ns);
        assert_null(attached(&inv, HOST));
        c = on_port("4420");
        add(&c, NQN_A, "mem:2M", NULL);
        mask(&c, HOST);
        mask(&c, HOST);
        assert_true(config_copy(&copy, &c));
        config_free(&c);
        change(&inv, &copy);
        assert_ptr_equal(attached(&inv, HOST), ns);
        assert_int_equal(ns->blocks, 4096);
        assert_null(attached(&inv, NQN_B));
        assert_null(attached(&inv, NULL));
        c = on_port("4420");
        add(&c, NQN_A, "mem:2M", NULL);
        change(&inv, &c);
        assert_ptr_equal(attached(&inv, NQN_B), ns);
        inventory_fini(&inv);
}

static void test_hosts_change_what_logs_show(void **state)
{
        struct inventory inv;
        struct config c = on_port("4420");

        (void)state;
        inventory_init(&inv);
        add(&c, NQN_A, "mem:1M", NULL);
        change(&inv, &c);
        c = on_port("4420");
        add(&c, NQN_A, "mem:1M", NULL);
        c.subsystems[0].allow_any_host = false;
        config_add_string(&c.subsystems[0].hosts, &c.subsystems[0].n_hosts, HOST);
        assert_true(change(&inv, &c));
        assert_true(subsystem_allows(inventory_subsystem(&inv, NQN_A), HOST));
        assert_false(subsystem_allows(inventory_subsystem(&inv, NQN_A), NQN_B));
        inventory_fini(&inv);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_policies_for_algorithms),
                cmocka_unit_test(test_missing_file),
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_plan),
                cmocka_unit_test(test_a_host_that_is_quicker),
                cmocka_unit_test(test_plan_that_fails_changes_nothing),
                cmocka_unit_test(test_a_plan_without_memory_changes_nothing),
                cmocka_unit_test(test_masking),
                cmocka_unit_test(test_hosts_change_what_logs_show),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
