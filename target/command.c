/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "pdu/core/plant.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/net.h"
#include "pdu/io/option.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "target.h"
#include "target/ns/ns.h"

enum { EXIT_USAGE = 2, EXIT_BROKEN = 3, LISTENS_MAX = 16 };

#define DEFAULT_NQN "nqn.2026-01.io.nvmfspec:target"
#define DEFAULT_NS  "mem:64M"

struct args {
        struct target_options options;
        struct config config; /* what the command line asks for */
        const char *config_file, *traddr, *trsvcid, *trtype, *pcap;
        const char *listens[LISTENS_MAX]; /* [TRTYPE:]ADDR:PORT beside -a and -s */
        unsigned n_listens;
        cpu_set_t cpus;
        bool help;
        uint64_t reactors, busy_poll, cpda, icdoff, msdbd;
};

/* --- options that mean more than a value ------------------------------------------------------ */

static bool take_nqn(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;

        if (strlen(value) > NQN_MAX || !nqn_valid(value, strlen(value) + 1, false)) {
                snprintf(error, size, "'%s' is not an NQN", value);
                return false;
        }
        return config_add_subsystem(&a->config, value);
}

/* The subsystem that --ns and --host speak of: the last -n, or the default one. */
static struct config_subsystem *current(struct args *a)
{
        if (a->config.n_subsystems == 0)
                return config_add_subsystem(&a->config, DEFAULT_NQN);
        return &a->config.subsystems[a->config.n_subsystems - 1];
}

static bool take_ns(void *args, const char *value, char *error, size_t size)
{
        struct config_subsystem *s = current(args);

        if (s && config_add_ns(s, s->n_ns + 1, value))
                return true;
        snprintf(error, size, "%s", strerror(ENOMEM));
        return false;
}

static bool take_host(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;
        struct config_subsystem *s = current(a);

        if (strlen(value) > NQN_MAX || !nqn_valid(value, strlen(value) + 1, false)) {
                snprintf(error, size, "'%s' is not an NQN", value);
                return false;
        }
        if (!s)
                return false;
        s->allow_any_host = false;
        return config_add_string(&s->hosts, &s->n_hosts, value) &&
               config_add_host(&a->config, value);
}

static bool take_key(void *args, const char *value, char *error, size_t size)
{
        struct config_subsystem *s = current(args);

        return s && auth_key_option(&s->keys.host, value, error, size) == 0;
}

static bool take_ctrl_key(void *args, const char *value, char *error, size_t size)
{
        struct config_subsystem *s = current(args);

        return s && auth_key_option(&s->keys.ctrl, value, error, size) == 0;
}

static bool take_hash(void *args, const char *value, char *error, size_t size)
{
        struct config_subsystem *s = current(args);
        bool known = s && config_hash(value, &s->keys.hashes);

        if (!known)
                snprintf(error, size, "'%s' is not sha256, sha384 or sha512", value);
        return known;
}

static bool take_group(void *args, const char *value, char *error, size_t size)
{
        struct config_subsystem *s = current(args);
        bool known = s && config_group(value, &s->keys.groups);

        if (!known)
                snprintf(error, size, "'%s' is neither null nor ffdhe2048, 3072, 4096, 6144, 8192",
                         value);
        return known;
}

static bool begins(const char **text, const char *word)
{
        size_t len = strlen(word);

        if (strncmp(*text, word, len) != 0)
                return false;
        *text += len;
        return true;
}

/* Takes "tcp:" or "rdma:" off the beginning; without it the transport of -t. */
static uint8_t trtype_of(const struct args *a, const char **text)
{
        if (begins(text, "rdma:"))
                return TRTYPE_RDMA;
        if (begins(text, "tcp:"))
                return TRTYPE_TCP;
        return a->trtype && strcmp(a->trtype, "rdma") == 0 ? TRTYPE_RDMA : TRTYPE_TCP;
}

static bool take_listen(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;
        const char *place = value;
        char addr[NET_TRADDR], port[32];

        (void)trtype_of(a, &place);
        if (!net_split(place, addr, port)) {
                snprintf(error, size, "'%s' is not of the form [TYPE:]ADDR:PORT", value);
                return false;
        }
        if (a->n_listens == LISTENS_MAX) {
                snprintf(error, size, "given more than %d times", LISTENS_MAX);
                return false;
        }
        a->listens[a->n_listens++] = value;
        return true;
}

/* What a receiver tolerates the target may do or overlook, whoever the rule binds. */
static bool take_rule(struct rule_set *set, enum party bound, const char *value, char *error,
                      size_t size)
{
        enum rule_id id = rule_by_name(value);

        if (id != RULE_NONE && rule_get(id)->reaction == REACT_TOLERATE)
                return option_rule(&nvme_rules, set, value, error, size);
        return option_rule_of(&nvme_rules, set, bound, value, error, size);
}

static bool take_waive(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;

        return take_rule(&a->options.policy.waived, PARTY_HOST, value, error, size);
}

static bool take_violate(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;

        return take_rule(&a->options.policy.violated, PARTY_CONTROLLER, value, error, size);
}

#ifdef NVMF_PLANT
_Noreturn static void list_plants(void)
{
        for (enum plant p = PLANT_NONE + 1; p < PLANTS; p++)
                printf("%-18s%s (%s)\n", plant_get(p)->name, plant_get(p)->does,
                       plant_get(p)->after);
        exit(0);
}

static bool take_plant(void *args, const char *value, char *error, size_t size)
{
        (void)args;
        if (strcmp(value, "list") == 0)
                list_plants();
        snprintf(error, size, "no planted bug '%s' (--plant list)", value);
        return plant_switch_on(value);
}
#endif

static bool take_cpus(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;

        for (const char *p = value; *p;) {
                char *end;
                unsigned long cpu = strtoul(p, &end, 10);

                if (end == p || (*end != ',' && *end != '\0') || cpu >= CPU_SETSIZE) {
                        snprintf(error, size, "'%s' is not a list of processors (0,2,3)", value);
                        return false;
                }
                CPU_SET(cpu, &a->cpus);
                p = *end ? end + 1 : end;
        }
        return true;
}

static bool take_limit(void *args, const char *value, char *error, size_t size)
{
        return target_limit(&((struct args *)args)->options.limits, value, error, size);
}

/* --- the table -------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct args, field)

static const struct option_row rows[] = {
        { .letter = 't',
          .name = "transport",
          .arg = "TRTYPE",
          .says = "tcp or rdma (tcp)",
          .group = 1,
          .kind = OPTION_CHOICE,
          .choices = "tcp|rdma",
          .at = AT(trtype) },
        { .letter = 'a',
          .name = "traddr",
          .arg = "ADDR",
          .says = "address to listen on (127.0.0.1)",
          .group = 1,
          .kind = OPTION_STRING,
          .at = AT(traddr) },
        { .letter = 's',
          .name = "trsvcid",
          .arg = "PORT",
          .says = "port to listen on (4420); 0: any free port",
          .group = 1,
          .kind = OPTION_STRING,
          .at = AT(trsvcid) },
        { .name = "listen",
          .arg = "[TYPE:]ADDR:PORT",
          .says = "another address to listen on, tcp:... or rdma:... (default: as -t says); "
                  "repeatable",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_listen },
        { .letter = 'n',
          .name = "nqn",
          .arg = "NQN",
          .says = "a subsystem; repeatable; --ns, --host and --dhchap-... after it belong to it",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_nqn },
        { .name = "ns",
          .arg = "SPEC",
          .says = "a namespace: mem:64M, null:1G, file:PATH[,size=1G], each "
                  "[,bs=4096][,delay=0-5ms]; repeatable",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_ns },
        { .name = "host",
          .arg = "NQN",
          .says = "allow only this host; repeatable",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_host },
        { .name = "dhchap-key",
          .arg = "KEY",
          .says = "key with which hosts of this subsystem must authenticate themselves: "
                  "DHHC-1:..., or @FILE",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_key },
        { .name = "dhchap-ctrl-key",
          .arg = "KEY",
          .says = "key with which the subsystem authenticates itself to hosts that ask, or @FILE",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_ctrl_key },
        { .name = "dhchap-hash",
          .arg = "HASH",
          .says = "use only this hash: sha256, sha384 or sha512 (the host's first choice)",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_hash },
        { .name = "dhchap-dhgroup",
          .arg = "GROUP",
          .says = "use only this DH group: null, ffdhe2048, 3072, 4096, 6144 or 8192 (the "
                  "host's first choice)",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_group },
        { .name = "config",
          .arg = "FILE",
          .says = "nvmetcli's JSON in place of all of the above; SIGHUP reads it again",
          .group = 1,
          .kind = OPTION_STRING,
          .at = AT(config_file) },
        { .name = "reactors",
          .arg = "N",
          .says = "threads (1)",
          .group = 1,
          .kind = OPTION_NUMBER,
          .at = AT(reactors),
          .min = 1,
          .max = 256 },
        { .name = "busy-poll",
          .arg = "USEC",
          .says = "poll for this time before sleeping (0)",
          .group = 1,
          .kind = OPTION_NUMBER,
          .at = AT(busy_poll),
          .max = 1000000 },
        { .name = "cpu",
          .arg = "LIST",
          .says = "run on these processors (0,2,3)",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_cpus },
        { .name = "no-hdgst",
          .says = "grant no header digest",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(options.no_hdgst) },
        { .name = "no-ddgst",
          .says = "grant no data digest",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(options.no_ddgst) },
        { .name = "no-sqfc-disable",
          .says = "never disable SQ flow control",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(options.no_sqfc_disable) },
        { .name = "no-success",
          .says = "never use SUCCESS in C2HData",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(options.no_success) },
        { .name = "cpda",
          .arg = "N",
          .says = "data alignment to ask for (CPDA), (N + 1) * 4 bytes (0)",
          .group = 1,
          .kind = OPTION_NUMBER,
          .at = AT(cpda),
          .max = 31 },
        { .name = "no-in-capsule",
          .says = "RDMA: accept no data in capsules",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(options.no_in_capsule) },
        { .name = "icdoff",
          .arg = "N",
          .says = "RDMA: in-capsule data begins N * 16 bytes after the command (0)",
          .group = 1,
          .kind = OPTION_NUMBER,
          .at = AT(icdoff),
          .max = 256 },
        { .name = "msdbd",
          .arg = "N",
          .says = "RDMA: data block descriptors of a command (16)",
          .group = 1,
          .kind = OPTION_NUMBER,
          .at = AT(msdbd),
          .min = 1,
          .max = 16 },
        { .name = "waive",
          .arg = "RULE",
          .says = "do not check this rule of hosts; repeatable",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_waive },
        { .name = "violate",
          .arg = "RULE",
          .says = "break this rule of controllers; repeatable",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_violate },
#ifdef NVMF_PLANT
        { .name = "plant",
          .arg = "NAME",
          .says = "have this planted bug (list: show them)",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_plant },
#endif
        { .name = "limit",
          .arg = "NAME=VALUE",
          .says = "a limit, such as connections=64; repeatable",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_limit },
        { .name = "trace",
          .says = "print each request's states on stderr",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(options.trace) },
        { .name = "pcap",
          .arg = "FILE",
          .says =
              "write all connections to a .pcapng or .pcap, with 4420 as the port; RDMA as RoCEv2",
          .group = 1,
          .kind = OPTION_STRING,
          .at = AT(pcap) },
        { .name = "quiet",
          .says = "print only errors on stderr",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(options.quiet) },
        { .letter = 'h',
          .name = "help",
          .says = "this",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(help) },
        { .name = NULL },
};

static void help(void)
{
        puts("usage: nvmfspec target [OPTION...]\n\n"
             "Serves NVM subsystems and a discovery service over NVMe/TCP and NVMe/RDMA, until "
             "SIGTERM.\n"
             "Without options: " DEFAULT_NQN " with " DEFAULT_NS " on 127.0.0.1:4420.\n");
        option_help(rows, 1, stdout);
}

/* --- what is asked for ------------------------------------------------------------------------ */

static bool link_all(struct config *c, struct config_port *p, uint8_t trtype)
{
        if (p)
                p->trtype = trtype;
        for (unsigned i = 0; p && i < c->n_subsystems; i++)
                if (!config_add_string(&p->subsystems, &p->n_subsystems, c->subsystems[i].nqn))
                        return false;
        return p;
}

static bool add_ports(struct args *a)
{
        struct config *c = &a->config;
        char addr[NET_TRADDR], port[32];
        const char *none = "";
        uint8_t trtype = trtype_of(a, &none);

        if (!link_all(c, config_add_port(c, 1, a->traddr, a->trsvcid), trtype))
                return false;
        for (unsigned i = 0; i < a->n_listens; i++) {
                const char *place = a->listens[i];

                trtype = trtype_of(a, &place);
                net_split(place, addr, port);
                if (!link_all(c, config_add_port(c, (uint16_t)(i + 2), addr, port), trtype))
                        return false;
        }
        return true;
}

static bool complete(struct args *a, char *error, size_t size)
{
        struct config *c = &a->config;

        if (a->config_file &&
            (c->n_subsystems > 0 || a->n_listens > 0 || a->traddr || a->trsvcid)) {
                snprintf(error, size,
                         "--config excludes -a, -s, --listen, -n, --ns, --host, --dhchap-...");
                return false;
        }
        for (unsigned i = 0; i < c->n_subsystems; i++)
                if (c->subsystems[i].keys.ctrl.len && !c->subsystems[i].keys.host.len) {
                        snprintf(error, size, "--dhchap-ctrl-key requires --dhchap-key");
                        return false;
                }
        if (!a->traddr)
                a->traddr = "127.0.0.1";
        if (!a->trsvcid)
                a->trsvcid = "4420";
        if (!current(a) || !add_ports(a)) {
                snprintf(error, size, "%s", strerror(ENOMEM));
                return false;
        }
        for (unsigned i = 0; i < c->n_subsystems; i++)
                if (c->subsystems[i].n_ns == 0 && c->n_subsystems == 1)
                        config_add_ns(&c->subsystems[i], 1, DEFAULT_NS);
        a->options.reactors = (unsigned)a->reactors;
        a->options.busy_poll = (unsigned)a->busy_poll;
        a->options.cpda = (uint8_t)a->cpda;
        a->options.icdoff = (uint16_t)a->icdoff;
        a->options.msdbd = (uint8_t)a->msdbd;
        a->options.config = a->config_file;
        a->options.serve = a->config_file ? NULL : c;
        return a->config_file || config_check(c, "command line", error, size);
}

/* --- running ---------------------------------------------------------------------------------- */

static void announce(const struct target *t, const struct args *a)
{
        char ports[4096];

        target_ports(t, ports, sizeof(ports));
        printf("listening on %s", ports);
        for (unsigned i = 0; !a->config_file && i < a->config.n_subsystems; i++)
                printf(" %s", a->config.subsystems[i].nqn);
        putchar('\n');
        fflush(stdout);
}

static void reload(struct target *t, bool quiet)
{
        char error[512];

        if (target_reload(t, error, sizeof(error)) < 0)
                fprintf(stderr, "nvmfspec target: %s (nothing was changed)\n", error);
        else if (!quiet)
                fprintf(stderr, "nvmfspec target: configuration read again\n");
}

static void wait_for_end(struct target *t, const sigset_t *signals, bool quiet)
{
        int signal;

        while (sigwait(signals, &signal) == 0) {
                if (signal != SIGHUP)
                        return;
                reload(t, quiet);
        }
}

static int stop_recording(const struct args *a, struct capture_writer *w)
{
        if (!w || capture_writer_close(w) == 0)
                return 0;
        fprintf(stderr, "nvmfspec target: %s: %s\n", a->pcap, strerror(errno));
        return EXIT_BROKEN;
}

static int run(const struct args *a, const sigset_t *signals)
{
        struct target_options o = a->options;
        struct target *t = NULL;
        char error[512] = "";

        if (a->pcap)
                o.record = capture_writer_open(a->pcap, error, sizeof(error));
        if (!a->pcap || o.record)
                t = target_start(&o, error, sizeof(error));
        if (!t) {
                stop_recording(a, o.record);
                fprintf(stderr, "nvmfspec target: %s\n", error);
                return EXIT_USAGE;
        }
        announce(t, a);
        wait_for_end(t, signals, a->options.quiet);
        target_stop(t);
        return stop_recording(a, o.record);
}

/* Signals are taken by sigwait() alone: blocked before the target's threads are born. */
static int serve(const struct args *a)
{
        sigset_t signals;

        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGHUP);
        pthread_sigmask(SIG_BLOCK, &signals, NULL);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGXFSZ, SIG_IGN); /* a file that may not grow so far fails its write, and no more */
        if (CPU_COUNT(&a->cpus) > 0 && sched_setaffinity(0, sizeof(a->cpus), &a->cpus) != 0) {
                fprintf(stderr, "nvmfspec target: option --cpu: %s\n", strerror(errno));
                return EXIT_USAGE;
        }
        return run(a, &signals);
}

int target_command(int argc, char **argv)
{
        struct args a = { .reactors = 1 };
        char error[512] = "";
        int at = option_parse(rows, 1, argc, argv, &a, error, sizeof(error));
        int code = EXIT_USAGE;

        if (at >= 0 && a.help) {
                help();
                code = 0;
        } else if (at >= 0 && at < argc) {
                fprintf(stderr, "nvmfspec target: '%s' is not an option\n", argv[at]);
        } else if (at < 0 || !complete(&a, error, sizeof(error))) {
                fprintf(stderr, "nvmfspec target: %s\n", error);
        } else {
                code = serve(&a);
        }
        config_free(&a.config);
        return code;
}
