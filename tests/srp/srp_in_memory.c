/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * srp_in_memory [WORD...] -- SUBCOMMAND [OPTION...]: `nvmfspec host -t srp` against a target in the same process, over
 * verbs in memory: for tests where there is no RDMA device. WORD: lun=SPEC, violate=RULE, waive=RULE, limit=N (of
 * requests), reactors=N: the target's; relogin=MS: so much later the same initiator logs in once more, which ends the
 * channels that it had.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/srp/args.h"
#include "pdu/io/loop.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "target/srp/srp_server.h"

static struct verbs_provider *verbs;
static struct srp_server *server;
static unsigned relogin; /* ms; 0: it does not */

static void defaults(void *args)
{
        struct srp_args *a = args;

        srp_args_defaults(a);
        a->verbs = verbs;
        a->traddr = "127.0.0.1";
        a->trsvcid = srp_server_port(server, 0);
        if (relogin)
                memcpy(a->initiator, "the same, always", sizeof(a->initiator));
}

static void *log_in_again(void *unused)
{
        struct srp_params p = { .traddr = "127.0.0.1",
                                .trsvcid = srp_server_port(server, 0),
                                .initiator = "the same, always",
                                .channels = 1,
                                .depth = 1,
                                .it_iu = 8260,
                                .timeout = 30000,
                                .verbs = verbs };
        struct srp_chan c;
        struct host_error e;

        loop_sleep_us(1000ull * relogin);
        if (srp_chan_open(&c, &p, 1, true, &e) == 0)
                srp_chan_close(&c, true);
        else
                fprintf(stderr, "srp_in_memory: relogin: %s\n", e.line);
        return unused;
}

static bool is(const char *word, const char *name, const char **value)
{
        size_t n = strlen(name);

        *value = word + n + 1;
        return strncmp(word, name, n) == 0 && word[n] == '=';
}

static void take_word(struct srp_options *o, const char *word)
{
        const char *value;

        if (is(word, "lun", &value))
                o->lun[o->luns++] = value;
        else if (is(word, "violate", &value))
                rule_add(&o->policy.violated, rulebook_by_name(&srp_rules, value));
        else if (is(word, "waive", &value))
                rule_add(&o->policy.waived, rulebook_by_name(&srp_rules, value));
        else if (is(word, "limit", &value))
                o->request_limit = (uint32_t)atoi(value);
        else if (is(word, "relogin", &value))
                relogin = (unsigned)atoi(value);
        else if (is(word, "reactors", &value))
                o->reactors = (unsigned)atoi(value);
        else
                exit(2);
}

int main(int argc, char **argv)
{
        static const char *luns[256];
        struct srp_options o = {
                .listen = { { "127.0.0.1", "0" } }, .listens = 1, .lun = luns, .quiet = true
        };
        struct host_family family = srp_host_family;
        const struct host_family *const families[] = { &family, NULL };
        char error[300];
        pthread_t other = pthread_self();
        int at = 1, code;

        for (; at < argc && strcmp(argv[at], "--") != 0; at++)
                take_word(&o, argv[at]);
        verbs = o.verbs = verbs_memory_new(NULL);
        server = srp_server_start(&o, error, sizeof(error));
        if (!server || at >= argc) {
                fprintf(stderr, "srp_in_memory: %s\n", server ? "no subcommand" : error);
                return 2;
        }
        family.defaults = defaults;
        if (relogin && pthread_create(&other, NULL, log_in_again, NULL) != 0)
                return 2;
        code = host_command(families, argc - at, argv + at);
        if (relogin)
                pthread_join(other, NULL);
        srp_server_stop(server);
        if (code == 0 && verbs_memory_leaks(verbs).contexts > 0) {
                fprintf(stderr, "srp_in_memory: contexts are left\n");
                code = 4;
        }
        verbs_memory_free(verbs);
        return code;
}
