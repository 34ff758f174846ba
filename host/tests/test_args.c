/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/cmd/args.h"
#include "host/cmd/command.h"

#define ALL UINT32_MAX

static struct args args;
static struct host_error error;
static char **words;

/* Parses words that are separated by blanks. */
static int parse(uint32_t groups, const char *line)
{
        static char copy[512];
        static char *argv[32];
        int argc = 0;

        strcpy(copy, line);
        argv[argc++] = (char *)(uintptr_t) "host";
        for (char *p = strtok(copy, " "); p; p = strtok(NULL, " "))
                argv[argc++] = p;
        argv[argc] = NULL;
        error = (struct host_error) { 0 };
        memset(&args, 0, sizeof(args));
        return host_parse(&nvme_host, groups, argc, argv, &args, &words, &error);
}

static void refused(const char *line, const char *says)
{
        int n = parse(ALL, line);

        assert_int_equal(n, -1);
        assert_int_equal(error.kind, HOST_USAGE);
        if (!strstr(error.line, says))
                fail_msg("'%s': '%s' does not say '%s'", line, error.line, says);
        assert_null(strchr(error.line, '\n'));
}

static void values_of_every_kind(void **state)
{
        (void)state;
        assert_int_equal(parse(ALL, "-a host -g -k 2.5 -Q 64 --hpda 0x1f --bs 64k -o json one two"),
                         2);
        assert_string_equal(args.traddr, "host");
        assert_true(args.hdgst && !args.ddgst);
        assert_int_equal(args.kato, 2500);
        assert_int_equal(args.queue_size, 64);
        assert_int_equal(args.hpda, 31);
        assert_int_equal(args.base.block_size, 65536);
        assert_true(host_json(&args.base));
        assert_string_equal(words[0], "one");
        assert_string_equal(words[1], "two");
        assert_int_equal(parse(ALL, "--waive tcp/c2hdata/datao --violate tcp/h2cdata/ttag"), 0);
        assert_true(rule_in(&args.policy.waived, TCP_C2H_CONTIG));
        assert_true(rule_in(&args.policy.violated, TCP_H2C_TTAG));
}

static void bad_values_are_one_clear_line(void **state)
{
        (void)state;
        refused("-Q 1", "option -Q: '1' is not a number from 2 to 65535");
        refused("-Q 99999999999999999999", "-Q");
        refused("-Q -5", "-Q");
        refused("-Q 0x", "-Q");
        refused("-k soon", "not a time");
        refused("-k 1.2.3", "not a time");
        refused("--bs 4q", "not a size");
        refused("--bs 99999999999999999T", "not a size");
        refused("--hpda 32", "--hpda");
        refused("-o xml", "not one of text|json");
        refused("-o tex", "not one of");
        refused("--waive tcp/none", "no rule 'tcp/none'");
        refused("--waive tcp/h2cdata/ttag", "'tcp/h2cdata/ttag' is a rule for the host");
        refused("--violate tcp/c2hdata/datao", "'tcp/c2hdata/datao' is a rule for the controller");
        refused("--nonsense", "unknown option '--nonsense'");
        refused("-x", "unknown option '-x'");
        refused("--hdr-digest=yes", "takes no value");
        refused("-a", "requires a value");
        refused("--traddr", "requires a value");
}

static void a_group_that_is_not_taken_is_unknown(void **state)
{
        (void)state;
        assert_int_equal(parse(ARGS_WHERE, "--bs 4k"), -1);
        assert_non_null(strstr(error.line, "unknown option"));
}

static void sizes_and_times(void **state)
{
        uint64_t v;

        (void)state;
        assert_int_equal(option_size("1G", &v), 0);
        assert_int_equal(v, 1 << 30);
        assert_int_equal(option_size("4KiB", &v), 0);
        assert_int_equal(v, 4096);
        assert_int_equal(option_size("0x200", &v), 0);
        assert_int_equal(v, 512);
        assert_int_equal(option_size("4KB2", &v), -1);
        assert_int_equal(option_size("", &v), -1);
        assert_int_equal(option_seconds("0.0625", &v), 0);
        assert_int_equal(v, 62);
        assert_int_equal(option_seconds(".5", &v), -1);
        assert_int_equal(option_number("010", &v), 0);
        assert_int_equal(v, 10);
}

static void addresses(void **state)
{
        struct host_params p;

        (void)state;
        assert_int_equal(parse(ALL, "nvme+tcp://[::1]:4421/nqn.x:y perhaps"), 1);
        assert_int_equal(args_params(&args, "4420", NULL, &p, &error), 0);
        assert_string_equal(p.traddr, "::1");
        assert_string_equal(p.trsvcid, "4421");
        assert_string_equal(p.subnqn, "nqn.x:y");

        assert_int_equal(parse(ALL, "-a nvme+tcp://example -s 5 -n nqn.z"), 0);
        assert_int_equal(args_params(&args, "4420", NULL, &p, &error), 0);
        assert_string_equal(p.traddr, "example");
        assert_string_equal(p.trsvcid, "5");
        assert_string_equal(p.subnqn, "nqn.z");
        refused("nvme+fc://host", "not an address");
        refused("nvme+rdma://", "must be of the form nvme+rdma://");
        refused("nvme+tcp://", "must be of the form nvme+tcp://");
        refused("nvme+tcp://[::1/nqn", "must be of the form");
        refused("nvme+tcp://host:/nqn", "must be of the form");
        refused("-a nvme+tcp://:5", "must be of the form");
}

static void transports(void **state)
{
        static const struct {
                const char *line;
                enum host_transport transport;
                const char *port;
        } cases[] = {
                { "-a host", HOST_TCP, "8009" },
                { "-a host -t tcp", HOST_TCP, "8009" },
                { "-a host -t rdma", HOST_RDMA, "4420" },
                { "-a host -t rdma -s 7", HOST_RDMA, "7" },
                { "nvme+tcp://host", HOST_TCP, "8009" },
                { "nvme+rdma://host", HOST_RDMA, "4420" },
                { "nvme+rdma://host:5", HOST_RDMA, "5" },
                { "-a nvme+rdma://host", HOST_RDMA, "4420" },
                { "nvme+rdma://host -t tcp", HOST_TCP, "8009" }, /* options come first */
        };
        struct host_params p;

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(parse(ALL, cases[i].line), 0);
                assert_int_equal(args_params(&args, "8009", "nqn.x", &p, &error), 0);
                assert_string_equal(p.traddr, "host");
                assert_int_equal(p.transport, cases[i].transport);
                assert_string_equal(p.trsvcid, cases[i].port);
        }
        assert_int_equal(parse(ALL, "nvme+rdma://host -G"), 0);
        assert_int_equal(args_params(&args, "4420", "nqn.x", &p, &error), -1);
        assert_non_null(strstr(error.line, "no digests"));
}

static void what_is_missing_is_asked_for(void **state)
{
        struct host_params p;

        (void)state;
        assert_int_equal(parse(ALL, "-n nqn.x"), 0);
        assert_int_equal(args_params(&args, "4420", NULL, &p, &error), -1);
        assert_non_null(strstr(error.line, "no address given"));
        assert_int_equal(parse(ALL, "-a host"), 0);
        assert_int_equal(args_params(&args, "4420", NULL, &p, &error), -1);
        assert_non_null(strstr(error.line, "no subsystem given"));
        assert_int_equal(parse(ALL, "-a host -n nqn.x -I 12345"), 0);
        assert_int_equal(args_params(&args, "4420", NULL, &p, &error), -1);
        assert_non_null(strstr(error.line, "not a UUID"));
}

static void uuids_round_trip(void **state)
{
        static const char text[] = "00112233-4455-6677-8899-aabbccddeeff";
        uint8_t uuid[16];
        char out[37];

        (void)state;
        assert_int_equal(host_uuid_parse(text, uuid), 0);
        assert_int_equal(uuid[15], 0xff);
        host_uuid_print(uuid, out);
        assert_string_equal(out, text);
        assert_int_equal(host_uuid_parse("00112233445566778899aabbccddeeff", uuid), 0);
        assert_int_equal(host_uuid_parse("0011223344556677889-9aabbccddeeff", uuid), -1);
        assert_int_equal(host_uuid_parse("00112233-4455-6677-8899-aabbccddeef", uuid), -1);
        assert_int_equal(host_uuid_parse("00112233-4455-6677-8899-aabbccddeeff0", uuid), -1);
}

static void the_host_is_the_same_each_time(void **state)
{
        uint8_t a[16], b[16];
        char nqn_a[256], nqn_b[256];

        (void)state;
        host_identity(a, nqn_a);
        host_identity(b, nqn_b);
        assert_memory_equal(a, b, 16);
        assert_string_equal(nqn_a, nqn_b);
        assert_true(nqn_valid(nqn_a, sizeof(nqn_a), true));
}

static void the_table_is_consistent(void **state)
{
        (void)state;
        for (const struct option_row *r = host_options; r->name; r++) {
                assert_true((r->kind == OPTION_FLAG) == (r->arg == NULL));
                assert_true((r->kind == OPTION_CHOICE) == (r->choices != NULL));
                for (const struct option_row *s = host_options; s < r; s++) {
                        assert_string_not_equal(r->name, s->name);
                        assert_true(r->letter == 0 || r->letter != s->letter);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(values_of_every_kind),
                cmocka_unit_test(bad_values_are_one_clear_line),
                cmocka_unit_test(a_group_that_is_not_taken_is_unknown),
                cmocka_unit_test(sizes_and_times),
                cmocka_unit_test(addresses),
                cmocka_unit_test(transports),
                cmocka_unit_test(what_is_missing_is_asked_for),
                cmocka_unit_test(uuids_round_trip),
                cmocka_unit_test(the_host_is_the_same_each_time),
                cmocka_unit_test(the_table_is_consistent),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
