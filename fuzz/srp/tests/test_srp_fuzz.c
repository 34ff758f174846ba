/* SPDX-License-Identifier: BSD-3-Clause */
/* SRP's fuzzer: steps as bytes, sessions to a live target in memory, and campaigns of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/campaign/campaign.h" /* before cmocka, whose fail() is a macro */
#include "fuzz/nvme/templates.h"
#include "fuzz/sequence/seq_mutate.h"
#include "fuzz/srp/srp_live.h"
#include "pcap/nvme/family.h"
#include "pcap/srp/family.h"
#include "pcap/trace/check.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/srp/machine/spoil.h"
#include "target/srp/srp_server.h"

#include <cmocka.h>

const struct fuzz_family *const fuzz_families[] = { &nvme_fuzz, &srp_fuzz, NULL };

static struct verbs_provider *verbs;
static struct srp_server *server;
static struct srp_remote_peer peer;
static struct srp_avoid avoid;
static struct campaign_config config;
static struct sequence seq;

/* --- steps as bytes --------------------------------------------------------------------------- */

static struct bench {
        struct srp_bind bind;
        struct srp_channel channel;
        uint8_t memory[SRP_BIND_MEMORY], out[SRP_BIND_IU];
        struct rule_set found;
} bench;

static void parse(const char *text)
{
        char err[200];

        if (!seq_parse(&seq, text, strlen(text), err, sizeof(err)))
                fail_msg("%s: %s", text, err);
}

static struct srp_bound say(unsigned step)
{
        struct srp_bound b = srp_bind_step(&bench.bind, &seq, &seq.step[step], bench.out);

        bench.found = (struct rule_set) { 0 };
        for (unsigned i = 0; i < b.times; i++)
                srp_channel_iu(&bench.channel, PARTY_HOST, bench.out, b.len, &bench.found);
        return b;
}

/* A channel that is live, with a limit that no test reaches, after a login by the first step. */
static void log_in(const char *text)
{
        struct srp_login_rsp r = { .opcode = SRP_LOGIN_RSP,
                                   .req_lim_delta = be32(1000),
                                   .max_it_iu_len = be32(1 << 16),
                                   .max_ti_iu_len = be32(64),
                                   .buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                                   .rsp_flags = SRP_IMMEDIATE };
        struct srp_bound b;

        parse(text);
        memset(&bench, 0, sizeof(bench));
        srp_channel_init(&bench.channel);
        bench.bind = (struct srp_bind) { .initiator = "an initiator",
                                         .target = "a target",
                                         .first = true,
                                         .at = bench.memory,
                                         .addr = 0x100000,
                                         .key = 7,
                                         .channel = &bench.channel,
                                         .tag = 1 };
        b = srp_bind_step(&bench.bind, &seq, &seq.step[0], bench.out);
        assert_int_equal(b.type, SRP_LOGIN_REQ);
        bench.bind.tag++;
        srp_channel_login(&bench.channel, bench.out, b.len, false, &bench.found);
        r.tag = b.asked.tag;
        srp_channel_accept(&bench.channel, &r, sizeof(r), &bench.found);
}

static void each_template_keeps_the_rules(void **state)
{
        const struct seq_template *t;

        (void)state;
        for (unsigned i = 1; (t = srp_template_at(0, PARTY_HOST, i)); i++)
                for (int keys = -1; keys <= SRP_KEYS_MAX; keys += t->command ? 1 : 100) {
                        char text[100], option[20] = "";
                        bool answer = t->type == SRP_CRED_RSP || t->type == SRP_AER_RSP;

                        if (keys >= 0)
                                snprintf(option, sizeof(option), " keys=%d", keys);
                        snprintf(text, sizeof(text), "sequence srp host\nlogin\n%s%s\n", t->name,
                                 option);
                        log_in(text);
                        assert_true(rule_set_empty(&bench.found));
                        assert_true(say(1).len >= srp_info(t->type)->len);
                        if (answer) /* there is nothing to be answered */
                                rule_remove(&bench.found, SRP_TAG_ANSWER);
                        if (!rule_set_empty(&bench.found))
                                fail_msg("%s: %s", text,
                                         srp_rule_get(rule_next(&bench.found, RULE_NONE))->id);
                }
}

static void each_form_of_data(void **state)
{
        static const struct {
                const char *step;
                enum srp_format format;
                uint32_t in_line, entries, len;
        } rows[] = {
                { "write", SRP_DIRECT, 0, 0, 4096 },
                { "write data=1000", SRP_DIRECT, 0, 0, 1000 },
                { "write_table", SRP_INDIRECT, 4, 4, 4096 },
                { "write_table keys=9", SRP_INDIRECT, 9, 9, 4096 },
                { "write_external keys=16", SRP_INDIRECT, 1, 16, 4096 },
                { "write keys=2", SRP_INDIRECT, 2, 2, 4096 },
                { "write_immediate", SRP_IMMEDIATE_DATA, 0, 0, 512 },
                { "write keys=0 data=hex:010203", SRP_IMMEDIATE_DATA, 0, 0, 3 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct rule_set unused = { 0 };
                struct srp_cmd_parts parts;
                struct srp_bound b;
                char text[100];

                snprintf(text, sizeof(text), "sequence srp host\nlogin\n%s\n", rows[i].step);
                log_in(text);
                b = say(1);
                assert_true(srp_cmd_read(bench.out, b.len, SRP_BIND_IMM_AT, &parts, &unused));
                assert_int_equal(parts.out.format, rows[i].format);
                assert_int_equal(parts.out.in_line, rows[i].in_line);
                assert_int_equal(parts.out.len, rows[i].len);
                if (rows[i].format == SRP_INDIRECT)
                        assert_int_equal(parts.out.desc.len, rows[i].entries * SRP_DESC_LEN);
        }
        assert_memory_equal(bench.out + SRP_BIND_IMM_AT, "\1\2\3", 3);
}

static void fields_and_violators_change_what_is_sent(void **state)
{
        struct srp_bound b;

        (void)state;
        log_in("sequence srp host\nlogin\nread lba=0x10203 blocks=9 len=50 key^=1\nraw 0102\n"
               "read violate=srp/command/attribute\nabort_task of=1\n");
        b = say(1);
        assert_int_equal(b.len, 50);
        assert_int_equal(be_get(bench.out + 32 + 2, 4), 0x10203);
        assert_int_equal(be_get(bench.out + 32 + 7, 2), 9);
        assert_int_equal(be_get(bench.out + 48 + 8, 4), 6);
        assert_int_equal(say(2).len, 2);
        (void)say(3);
        assert_true(rule_in(&bench.found, SRP_CMD_ATTRIBUTE));
        (void)say(4);
        assert_int_equal(be_get(bench.out + 32, 8), bench.bind.sent[0]);
        assert_true(bench.bind.sent[0] != bench.bind.sent[1]);
        log_in("sequence srp host\nlogin\nready violate=srp/tag/unique\n");
        assert_int_equal(say(1).times, 2);
        assert_true(rule_in(&bench.found, SRP_TAG_UNIQUE));
}

/* Whatever a mutant is, it prints, parses to the same, and comes to an IU that has room. */
static void mutants_are_sequences(void **state)
{
        static char text[SEQ_TEXT], again[SEQ_TEXT];
        uint64_t seed = 1;

        (void)state;
        log_in("sequence srp host\nlogin\n");
        for (unsigned round = 0; round < 3000; round++) {
                size_t n;
                char err[200];

                if (round % 50 == 0)
                        seq_begin(&seq, &srp_fuzz, 0, PARTY_HOST, &seed);
                seq_mutate(&seq, &seed);
                n = seq_print(&seq, text, sizeof(text));
                if (!seq_parse(&seq, text, n, err, sizeof(err)))
                        fail_msg("%s: %s", err, text);
                seq_print(&seq, again, sizeof(again));
                assert_string_equal(text, again);
                for (unsigned i = 0; i < seq.steps; i++)
                        if (seq.step[i].kind == SEQ_PDU || seq.step[i].kind == SEQ_RAW)
                                assert_true(
                                    srp_bind_step(&bench.bind, &seq, &seq.step[i], bench.out).len <=
                                    SRP_BIND_IU);
        }
}

/* --- a live target ---------------------------------------------------------------------------- */

static void start(const struct rule_policy *spoilt)
{
        static const char *luns[] = { "mem:1M" };
        struct srp_options o = { .listen = { { "127.0.0.1", "0" } },
                                 .listens = 1,
                                 .lun = luns,
                                 .luns = 1,
                                 .id = "a target's name",
                                 .quiet = true };
        char error[200];

        verbs = verbs_memory_new(NULL);
        assert_non_null(verbs);
        o.verbs = verbs;
        if (spoilt)
                o.policy = *spoilt;
        server = srp_server_start(&o, error, sizeof(error));
        if (!server)
                fail_msg("%s", error);
        avoid = (struct srp_avoid) { 0 };
        peer = (struct srp_remote_peer) { .host = { .traddr = "127.0.0.1",
                                                    .trsvcid = srp_server_port(server, 0),
                                                    .target = "a target's name",
                                                    .channels = 1,
                                                    .depth = 8,
                                                    .it_iu = 8260,
                                                    .immediate = true,
                                                    .timeout = 5000,
                                                    .verbs = verbs },
                                          .avoid = &avoid };
        config = (struct campaign_config) { .seed = 1, .runs = 300, .jobs = 4, .minimise = 5000 };
        config.target = (struct remote_target) { .family = &srp_fuzz,
                                                 .peer = &peer,
                                                 .timeout = 5000,
                                                 .settle = 10,
                                                 .hang = 5000,
                                                 .delay = 1,
                                                 .allow_write = true };
}

static void stop(void)
{
        struct memory_count left;

        srp_server_stop(server);
        left = verbs_memory_leaks(verbs);
        assert_int_equal(left.contexts + left.eps + left.qps + left.mrs, 0);
        verbs_memory_free(verbs);
}

static struct remote_answer play(const char *text)
{
        struct remote_answer a;
        struct player player;
        struct loop loop;

        config.target.settle = 1000; /* of what the initiator keeps, every answer comes */
        parse(text);
        assert_int_equal(loop_init(&loop), 0);
        assert_int_equal(player_init(&player, &config, &loop), 0);
        assert_int_equal(player_try(&player, &seq, true).kind, TROUBLE_NONE);
        a = player.session->answer;
        player_fini(&player);
        loop_fini(&loop);
        return a;
}

static void seeds_are_answered(void **state)
{
        const char *const *seeds = srp_fuzz.transports[0].seeds;

        (void)state;
        start(NULL);
        for (unsigned i = 0; i < 2; i++) {
                struct remote_answer a = play(seeds[i]);

                assert_int_equal(a.end, REMOTE_DONE);
                assert_int_equal(a.steps, seq.steps);
                assert_int_equal(a.pdus, seq.steps - 1); /* all but the login */
        }
        while (*seeds)
                (void)play(*seeds++);
        stop();
}

static void how_sessions_end(void **state)
{
        static const struct {
                const char *text;
                enum remote_end end;
        } rows[] = {
                { "login\nready\nclose\nread\n", REMOTE_LEFT },
                { "login\nready\nreset\n", REMOTE_LEFT },
                { "ready\nread\n", REMOTE_DONE },
                { "login req_it_iu_len=63\nready\n", REMOTE_CLOSED },
                { "login len=20\nready\n", REMOTE_CLOSED },
                { "login target_port_id^=1\nready\n", REMOTE_CLOSED },
                { "login\nlogout\nready\n", REMOTE_CLOSED },
                { "login\nready violate=srp/iu/length-initiator\nready\n", REMOTE_TERM },
                { "login\nraw ff\nready\n", REMOTE_TERM },
        };

        (void)state;
        start(NULL);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char text[200];
                enum remote_end end;

                snprintf(text, sizeof(text), "sequence srp host\n%s", rows[i].text);
                end = play(text).end;
                if (end != rows[i].end)
                        fail_msg("%s: %s, not %s", rows[i].text, remote_end_name(end),
                                 remote_end_name(rows[i].end));
        }
        stop();
}

static void what_may_not_be_sent_is_not(void **state)
{
        (void)state;
        start(NULL);
        rule_add(&avoid.rules, SRP_CMD_ATTRIBUTE);
        assert_int_equal(play("sequence srp host\nlogin\nread attr=3\n").end, REMOTE_UNSENT);
        assert_int_equal(play("sequence srp host\nlogin\nread attr=2\n").end, REMOTE_DONE);
        config.target.allow_write = false;
        assert_int_equal(play("sequence srp host\nlogin\nwrite\n").end, REMOTE_UNSENT);
        assert_int_equal(play("sequence srp host\nlogin\nreset_lun\n").end, REMOTE_UNSENT);
        assert_int_equal(play("sequence srp host\nlogin\nread op=0x2a\n").end, REMOTE_UNSENT);
        assert_int_equal(play("sequence srp host\nlogin\nread\nabort_task\n").end, REMOTE_DONE);
        parse("sequence srp host\nlogin\nread op=0x2a blocks=1\nwrite\nraw 02\nreset_lun\nsync\n");
        srp_tame(&seq);
        assert_int_equal(seq.steps, 3);
        assert_int_equal(seq.step[1].changes, 1);
        stop();
}

static void descriptors_of_a_kind_are_not_sent(void **state)
{
        static const struct {
                const char *kind, *sent, *unsent;
        } rows[] = {
                { "external", "read_table\n", "read_external\n" },
                { "external", "write keys=9\n", "write_external keys=9\n" },
                { "empty", "read bytes=1\n", "read bytes=0\n" },
                { "long", "read bytes=0x1000000\n", "read bytes=0x1000001\n" },
        };
        char error[200];

        (void)state;
        start(NULL);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *steps[] = { rows[i].sent, rows[i].unsent };

                avoid = (struct srp_avoid) { 0 };
                assert_true(srp_avoid_add(&avoid, rows[i].kind, error, sizeof(error)));
                for (unsigned k = 0; k < 2; k++) {
                        char text[100];

                        snprintf(text, sizeof(text), "sequence srp host\nlogin\n%s", steps[k]);
                        assert_int_equal(play(text).end == REMOTE_UNSENT, k);
                }
        }
        assert_false(srp_avoid_add(&avoid, "tables", error, sizeof(error)));
        stop();
}

static bool is_limit(const struct oracle_limits *l, uint64_t v)
{
        for (unsigned i = 0; i < l->n; i++)
                if (l->at[i] == v)
                        return true;
        return false;
}

static void a_target_says_its_limits(void **state)
{
        struct oracle_limits l;
        char why[ORACLE_LINE];

        (void)state;
        start(NULL);
        l = oracle_limits(&config.target);
        assert_true(is_limit(&l, 64) && is_limit(&l, 8260) && is_limit(&l, 2048));
        peer.host.target[0] ^= 1;
        assert_int_equal(oracle_limits(&config.target).n, 0);
        assert_false(oracle_alive(&config.target, why));
        assert_non_null(strstr(why, "login rejected"));
        stop();
}

static void our_target_is_clean(void **state)
{
        (void)state;
        start(NULL);
        assert_int_equal(campaign_run(&config), CAMPAIGN_CLEAN);
        stop();
}

/* --- what is found ---------------------------------------------------------------------------- */

static const struct trace_family *const captures[] = { &nvme_capture, &srp_capture, NULL };

static void check_capture(const char *path, const char *rule)
{
        static char out[1 << 16];
        struct check_options options = { .all = true, .json = true };
        struct check_counts counts;
        struct trace_totals totals;
        char err[256], line[100];
        FILE *f = fmemopen(out, sizeof(out), "w");

        if (capture_check(path, captures, NULL, &options, f, &counts, &totals, err, sizeof(err)) <
            0)
                fail_msg("%s", err);
        fclose(f);
        snprintf(line, sizeof(line), "\"rule\":\"%s\"", rule);
        if (!strstr(out, line))
                fail_msg("no %s in %s", line, out);
}

static void a_broken_rule_is_found_made_small_and_recorded(void **state)
{
        char folder[] = "/tmp/test_srp_fuzz.XXXXXX", path[100], err[CORPUS_ERROR], command[100];
        struct rule_policy spoilt = { 0 };
        struct corpus c = { 0 };

        (void)state;
        rule_add(&spoilt.violated, SRP_RSP_PARTS);
        start(&spoilt);
        config.findings = 1;
        config.target.settle =
            1000; /* a trial whose answer comes late is not taken for one without the fault */
        config.out = mkdtemp(folder);
        assert_non_null(config.out);
        assert_int_equal(campaign_run(&config), CAMPAIGN_FOUND);
        snprintf(path, sizeof(path), "%s/001-rule-srp-response-parts.seq", folder);
        if (!corpus_load(&c, path, NULL, err))
                fail_msg("%s", err);
        assert_int_equal(c.n, 1);
        assert_int_equal(c.at[0]->steps, 1); /* the login goes without saying */
        corpus_free(&c);
        snprintf(path, sizeof(path), "%s/001-rule-srp-response-parts.pcap", folder);
        check_capture(path, "srp/response/parts");
        snprintf(command, sizeof(command), "rm -r %s", folder);
        assert_int_equal(system(command), 0);
        stop();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_template_keeps_the_rules),
                cmocka_unit_test(each_form_of_data),
                cmocka_unit_test(fields_and_violators_change_what_is_sent),
                cmocka_unit_test(mutants_are_sequences),
                cmocka_unit_test(seeds_are_answered),
                cmocka_unit_test(how_sessions_end),
                cmocka_unit_test(what_may_not_be_sent_is_not),
                cmocka_unit_test(descriptors_of_a_kind_are_not_sent),
                cmocka_unit_test(a_target_says_its_limits),
                cmocka_unit_test(our_target_is_clean),
                cmocka_unit_test(a_broken_rule_is_found_made_small_and_recorded),
        };

        return cmocka_run_group_tests_name("srp_fuzz", tests, NULL, NULL);
}
