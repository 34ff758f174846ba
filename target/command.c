/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "pdu/core/plant.h"
#include "pdu/core/wipe.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/core_dump.h"
#include "pdu/io/log.h"
#include "pdu/io/net.h"
#include "pdu/io/option.h"
#include "pdu/io/page_server.h"
#include "pdu/io/rpc_server.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/key_log.h"
#include "pdu/nvme/io/nvme_tls.h"
#include "target.h"
#include "target/ns/ns.h"
#include "target/rpc/rpc.h"

enum {
        EXIT_USAGE = 2,
        EXIT_BROKEN = 3,
        LISTENS_MAX = 16,
        PCAP_LEAST = 1 << 16, /* bytes of a recording: some packets of the largest */
        PCAP_MOST = 1 << 30,  /* without --pcap-size */
};

#define NOT_GIVEN   UINT64_MAX
#define DEFAULT_NQN "nqn.2026-01.io.nvmfspec:target"
#define DEFAULT_NS  "mem:64M"

struct args {
        struct target_options options;
        struct config config; /* what the command line asks for */
        const char *config_file, *traddr, *trsvcid, *trtype, *pcap, *log_level, *log_format, *user;
        struct target_options profile;    /* what --profile sets, where nothing else does */
        const char *listens[LISTENS_MAX]; /* [TRTYPE:]ADDR:PORT beside -a and -s */
        unsigned n_listens;
        cpu_set_t cpus;
        bool help, quiet, key_on_line, wait_for_rpc;
        const char *rpc, *rpc_listen, *metrics;
        char *rpc_token;
        uint64_t reactors, busy_poll, msdbd, pcap_size, pcap_files;
        uint64_t cpda, icdoff; /* or NOT_GIVEN */
        const char *tls_derivation, *tls_suite, *concat;
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
               (config_find_host(&a->config, value) || config_add_host(&a->config, value));
}

static bool take_key(void *args, const char *value, char *error, size_t size)
{
        struct config_subsystem *s = current(args);

        ((struct args *)args)->key_on_line |= value[0] != '@';
        return s && auth_key_option(&s->keys.host, value, error, size) == 0;
}

static bool take_tls_key(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;

        a->key_on_line |= value[0] != '@';
        return nvme_tls_option(&a->options.tls.key, value, error, size) == 0;
}

static bool take_tls_keylog(void *args, const char *value, char *error, size_t size)
{
        FILE **keylog = &((struct args *)args)->options.tls.keylog;

        if (!*keylog)
                *keylog = key_log_create(value, error, size);
        return *keylog;
}

static bool take_ctrl_key(void *args, const char *value, char *error, size_t size)
{
        struct config_subsystem *s = current(args);

        ((struct args *)args)->key_on_line |= value[0] != '@';
        return s && auth_key_option(&s->keys.ctrl, value, error, size) == 0;
}

static bool take_hash(void *args, const char *value, char *error, size_t size)
{
        struct config_subsystem *s = current(args);
        bool known = s && config_hash(value, &s->keys.hashes);

        if (!known)
                snprintf(error, size, "'%s' is not " CONFIG_HASHES, value);
        return known;
}

static bool take_group(void *args, const char *value, char *error, size_t size)
{
        struct config_subsystem *s = current(args);
        bool known = s && config_group(value, &s->keys.groups);

        if (!known)
                snprintf(error, size, "'%s' is not " CONFIG_GROUPS, value);
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

static bool take_waive(void *args, const char *value, char *error, size_t size)
{
        return target_waive(&((struct args *)args)->options.policy, value, error, size);
}

static bool take_violate(void *args, const char *value, char *error, size_t size)
{
        return target_violate(&((struct args *)args)->options.policy, value, error, size);
}

static bool take_fault(void *args, const char *value, char *error, size_t size)
{
        return config_add_fault(&((struct args *)args)->config, value, error, size);
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

static void forget_token(struct args *a)
{
        if (a->rpc_token)
                wipe(a->rpc_token, strlen(a->rpc_token));
        free(a->rpc_token);
        a->rpc_token = NULL;
}

static bool take_token(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;
        char text[RPC_TOKEN_MAX + 2] = "";
        FILE *f = value[0] == '@' ? fopen(value + 1, "re") : NULL;

        forget_token(a);
        if (f)
                setvbuf(f, NULL, _IONBF, 0); /* no copy of it */
        if (f && fgets(text, sizeof(text), f)) {
                text[strcspn(text, "\n")] = '\0';
                if (strlen(text) >= RPC_TOKEN_MIN && strlen(text) <= RPC_TOKEN_MAX)
                        a->rpc_token = strdup(text);
        }
        wipe(text, sizeof(text));
        if (f)
                fclose(f);
        if (!a->rpc_token)
                snprintf(error, size, "'%s' is not @FILE with a line of %d to %d bytes", value,
                         RPC_TOKEN_MIN, RPC_TOKEN_MAX);
        return a->rpc_token;
}

static bool take_profile(void *args, const char *value, char *error, size_t size)
{
        return target_profile(&((struct args *)args)->profile, value, error, size);
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
                  "@FILE (@/dev/fd/N), or DHHC-1:..., which others see in ps",
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
          .says = "allow only this hash (the host's first choice): " CONFIG_HASHES,
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_hash },
        { .name = "dhchap-dhgroup",
          .arg = "GROUP",
          .says = "allow only this DH group (the host's first choice): " CONFIG_GROUPS,
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_group },
        { .name = "tls-key",
          .arg = "KEY",
          .says = "TLS on ports over TCP, for hosts that have this configured PSK: @FILE "
                  "(@/dev/fd/N), or "
                  "NVMeTLSkey-1:..., which others see in ps; hosts without TLS are served, too",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_tls_key },
        { .name = "tls-required",
          .says = "with --tls-key: hosts without TLS are not served",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(options.tls_required) },
        { .name = "concat",
          .arg = "HOW",
          .says =
              "secure channel concatenation for hosts that have a key (--dhchap-key): permitted, "
              "or required; they use the PSK that they generate, and no other",
          .group = 1,
          .kind = OPTION_CHOICE,
          .choices = "permitted|required",
          .at = AT(concat) },
        { .name = "tls-suite",
          .arg = "SUITE",
          .says = "only TLS_AES_128_GCM_SHA256 (aes128) or TLS_AES_256_GCM_SHA384 (aes256) (both)",
          .group = 1,
          .kind = OPTION_CHOICE,
          .choices = "aes128|aes256",
          .at = AT(tls_suite) },
        { .name = "tls-groups",
          .arg = "LIST",
          .says = "groups of (EC)DHE with colons (" TLS_GROUPS ")",
          .group = 1,
          .kind = OPTION_STRING,
          .at = AT(options.tls.groups) },
        { .name = "tls-dhe-only",
          .says = "no PSK without (EC)DHE",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(options.tls.dhe_only) },
        { .name = "tls-keylog",
          .arg = "FILE",
          .says =
              "append the secrets of each TLS connection to it, in SSLKEYLOGFILE's format: whoever "
              "has it can decrypt a capture (pcap --keylog)",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_tls_keylog },
        { .name = "tls-derivation",
          .arg = "HOW",
          .says = "how hosts with an identity of version 0 derive keys: printed, as RFC 8446 has "
                  "it, or "
                  "old, as nvme-cli 2.x did (printed); version 1 tells",
          .group = 1,
          .kind = OPTION_CHOICE,
          .choices = "printed|old",
          .at = AT(tls_derivation) },
        { .name = "config",
          .arg = "FILE",
          .says = "nvmetcli's JSON in place of all of the above; SIGHUP reads it again",
          .group = 1,
          .kind = OPTION_STRING,
          .at = AT(config_file) },
        { .name = "rpc",
          .arg = "PATH",
          .says = "JSON-RPC on this Unix socket, as SPDK's " RPC_SOCKET " (see nvmfspec ctl); with "
                  "nothing else of this list nothing is served until it is asked for",
          .group = 1,
          .kind = OPTION_STRING,
          .at = AT(rpc) },
        { .name = "rpc-listen",
          .arg = "ADDR:PORT",
          .says = "JSON-RPC over TCP, for who has the token",
          .group = 1,
          .kind = OPTION_STRING,
          .at = AT(rpc_listen) },
        { .name = "rpc-token",
          .arg = "@FILE",
          .says = "the token of --rpc-listen",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_token },
        { .name = "metrics",
          .arg = "[ADDR]:PORT",
          .says = "counters for Prometheus at http://ADDR:PORT/metrics (ADDR: 127.0.0.1)",
          .group = 1,
          .kind = OPTION_STRING,
          .at = AT(metrics) },
        { .name = "wait-for-rpc",
          .says = "wait for framework_start_init before most methods may be called",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(wait_for_rpc) },
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
        { .name = "user",
          .arg = "NAME",
          .says = "give up root for this user, once namespaces are open and ports listen",
          .group = 1,
          .kind = OPTION_STRING,
          .at = AT(user) },
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
        { .name = "profile",
          .arg = "NAME[,NAME...]",
          .says = "a kind of target, or several at once (below); the options that are given win "
                  "over it (tolerant)",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_profile },
        { .name = "cpda",
          .arg = "N",
          .says = "data alignment to ask for (CPDA), (N + 1) * 4 bytes (0)",
          .group = 1,
          .kind = OPTION_NUMBER,
          .at = AT(cpda),
          .max = 31 },
        { .name = "no-in-capsule",
          .says = "accept no data in I/O capsules: as --limit in_capsule=0 and "
                  "rdma_in_capsule=0",
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
        { .name = "fault",
          .arg = "SPEC",
          .says =
              "go wrong when this says: ACTION [WHEN...], such as 'status=2/81h cmd=read nth=3', "
              "'delay=50ms on=r2t one-in=100', 'reset=half on=c2hdata' (below); repeatable",
          .group = 1,
          .kind = OPTION_CALL,
          .call = take_fault },
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
          .says = "print each request's states on stderr: as --log-level trace",
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
        { .name = "pcap-size",
          .arg = "SIZE",
          .says = "bytes that the recording may have, after which it ends; 0: no limit (1G)",
          .group = 1,
          .kind = OPTION_SIZE,
          .at = AT(pcap_size) },
        { .name = "pcap-files",
          .arg = "N",
          .says =
              "record into a ring of N files of that size, as tcpdump -C -W does: FILE, FILE.1, "
              "... FILE.(N-1), then FILE over again (1)",
          .group = 1,
          .kind = OPTION_NUMBER,
          .at = AT(pcap_files),
          .min = 1,
          .max = 100000 },
        { .name = "quiet",
          .says = "as --log-level error",
          .group = 1,
          .kind = OPTION_FLAG,
          .at = AT(quiet) },
        { .name = "log-level",
          .arg = "LEVEL",
          .says = "error, warning, info or trace, on stderr (info)",
          .group = 1,
          .kind = OPTION_CHOICE,
          .choices = "error|warning|info|trace",
          .at = AT(log_level) },
        { .name = "log-format",
          .arg = "FORMAT",
          .says = "text or json: an object a line (text)",
          .group = 1,
          .kind = OPTION_CHOICE,
          .choices = "text|json",
          .at = AT(log_format) },
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
        puts(
            "\n--fault 'ACTION [WHEN...]': one of\n"
            "  status=SCT/SC[/dnr]  violate=RULE  delay=TIME  drop  close[=BYTE|half]  "
            "reset[=BYTE|half]\n"
            "  corrupt[=BYTE]\n"
            "when it is where on=command|r2t|h2cdata|c2hdata|resp says, of commands that fit cmd=, "
            "host=, nqn=,\nqid=, nsid=, lba=, once after= bytes and wait= time are over; then the "
            "nth=, every=, one-in= (with\nseed=), and times= in all. doc/target.md explains "
            "each.\n\n"
            "--profile NAME[,NAME...]: one or more of");
        target_profile_help(stdout);
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

/* What is served says the RPC alone. */
static bool begins_empty(const struct args *a)
{
        return (a->rpc || a->rpc_listen) && a->config.n_subsystems == 0 && a->n_listens == 0 &&
               !a->traddr && !a->trsvcid && !a->trtype && !a->config_file;
}

static bool check_rpc(const struct args *a, char *error, size_t size)
{
        if (!a->rpc_listen != !a->rpc_token)
                snprintf(error, size, "--rpc-listen requires --rpc-token, and the other way round");
        else if (a->wait_for_rpc && !a->rpc && !a->rpc_listen)
                snprintf(error, size, "--wait-for-rpc requires --rpc or --rpc-listen");
        else
                return true;
        return false;
}

static bool check_recording(const struct args *a, char *error, size_t size)
{
        if (!a->pcap && (a->pcap_size != PCAP_MOST || a->pcap_files > 1))
                snprintf(error, size, "--pcap-size and --pcap-files require --pcap");
        else if (a->pcap_size > 0 && a->pcap_size < PCAP_LEAST)
                snprintf(error, size, "--pcap-size is at least %dk, or 0", PCAP_LEAST >> 10);
        else if (a->pcap_size == 0 && a->pcap_files > 1)
                snprintf(error, size, "--pcap-files requires a --pcap-size");
        else
                return true;
        return false;
}

static bool add_default(struct args *a, char *error, size_t size)
{
        struct config *c = &a->config;

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
                        config_add_ns(&c->subsystems[i], 1,
                                      a->options.ns ? a->options.ns[0] : DEFAULT_NS);
        return true;
}

/* What the command line gives wins over what its profiles set. */
static void take_shape(struct args *a)
{
        struct target_options *o = &a->options;

        o->msdbd = (uint8_t)a->msdbd;
        target_profile_fill(o, &a->profile);
        if (a->cpda != NOT_GIVEN)
                o->cpda = (uint8_t)a->cpda;
        if (a->icdoff != NOT_GIVEN)
                o->icdoff = (uint16_t)a->icdoff;
}

static bool complete(struct args *a, char *error, size_t size)
{
        struct config *c = &a->config;
        bool empty = begins_empty(a);

        if (!check_rpc(a, error, size) || !check_recording(a, error, size))
                return false;
        if (a->config_file &&
            (c->n_subsystems > 0 || a->n_listens > 0 || a->traddr || a->trsvcid)) {
                snprintf(error, size,
                         "--config excludes -a, -s, --listen, -n, --ns, --host, --dhchap-...");
                return false;
        }
        if (a->config_file && c->n_faults > 0) {
                snprintf(error, size, "--config excludes --fault: the file has \"faults\"");
                return false;
        }
        for (unsigned i = 0; i < c->n_subsystems; i++)
                if (c->subsystems[i].keys.ctrl.len && !c->subsystems[i].keys.host.len) {
                        snprintf(error, size, "--dhchap-ctrl-key requires --dhchap-key");
                        return false;
                }
        take_shape(a);
        if (!empty && !add_default(a, error, size))
                return false;
        a->options.reactors = (unsigned)a->reactors;
        a->options.busy_poll = (unsigned)a->busy_poll;
        a->options.tls.derivation =
            a->tls_derivation && strcmp(a->tls_derivation, "old") == 0 ? TLS_OLD : TLS_PRINTED;
        if (a->concat)
                a->options.concat =
                    strcmp(a->concat, "required") == 0 ? CONCAT_REQUIRED : CONCAT_PERMITTED;
        if (a->tls_suite)
                a->options.tls.suite =
                    strcmp(a->tls_suite, "aes128") == 0 ? TLS_AES_128_GCM : TLS_AES_256_GCM;
        a->options.timed = a->metrics;
        a->options.config = a->config_file;
        a->options.serve = a->config_file ? NULL : c;
        return a->config_file || empty || config_check(c, "command line", error, size);
}

/* --- running ---------------------------------------------------------------------------------- */

static void announce(struct target *t, const struct args *a)
{
        char ports[4096];

        target_ports(t, ports, sizeof(ports));
        printf("listening on %s", ports[0] ? ports : a->rpc ? a->rpc : a->rpc_listen);
        for (unsigned i = 0; !a->config_file && i < a->config.n_subsystems; i++)
                printf(" %s", a->config.subsystems[i].nqn);
        putchar('\n');
        fflush(stdout);
}

/* The file in place of all that the RPC has changed. */
static int reload_all(struct rpc *rpc, const char *file, char *error, size_t size)
{
        struct config c;
        int rc = config_load(&c, file, error, size) ? rpc_replace(rpc, &c, error, size) : -1;

        config_free(&c);
        return rc;
}

static void reload(struct target *t, struct rpc *rpc, const char *file)
{
        char error[512];
        int rc = rpc && file ? reload_all(rpc, file, error, sizeof(error))
                             : target_reload(t, error, sizeof(error));

        if (rc == 0)
                log_line(LOG_AS_INFO, NULL, NULL, "configuration read again");
        else
                log_line(LOG_AS_ERROR, NULL, NULL, "%s (%s)", error,
                         rc < 0 ? "nothing was changed" : "all else was changed");
}

static void wait_for_end(struct target *t, struct rpc *rpc, const char *file,
                         const sigset_t *signals)
{
        int signal;

        while (sigwait(signals, &signal) == 0 && signal == SIGHUP)
                reload(t, rpc, file);
        pthread_sigmask(SIG_UNBLOCK, signals, NULL); /* another one ends it at once */
}

static int stop_recording(const struct args *a, struct capture_writer *w)
{
        if (!w || capture_writer_close(w) == 0)
                return 0;
        log_line(LOG_AS_ERROR, NULL, NULL, "%s: %s", a->pcap, strerror(errno));
        return EXIT_BROKEN;
}

static void start_log(struct args *a)
{
        static const char *const levels[] = { "error", "warning", "info", "trace" };
        unsigned most = a->options.trace ? LOG_AS_TRACE : a->quiet ? LOG_AS_ERROR : LOG_AS_INFO;

        for (unsigned i = 0; a->log_level && i <= LOG_AS_TRACE; i++)
                if (strcmp(a->log_level, levels[i]) == 0)
                        most = i;
        a->options.trace = most == LOG_AS_TRACE;
        a->options.quiet = most == LOG_AS_ERROR;
        log_start(STDERR_FILENO, (enum log_level)most,
                  a->log_format && strcmp(a->log_format, "json") == 0);
}

/* Of all threads. What is opened later, by SIGHUP, the user has to be allowed to open. */
static bool become(const char *name, const struct rpc *rpc, char *error, size_t size)
{
        const struct passwd *user = getpwnam(name);

        if (!user)
                snprintf(error, size, "option --user: there is no user '%s'", name);
        else if (rpc && rpc_give(rpc, user->pw_uid, user->pw_gid) < 0)
                snprintf(error, size, "option --user: the RPC's socket: %s", strerror(errno));
        else if (initgroups(name, user->pw_gid) < 0 ||
                 setresgid(user->pw_gid, user->pw_gid, user->pw_gid) < 0 ||
                 setresuid(user->pw_uid, user->pw_uid, user->pw_uid) < 0)
                snprintf(error, size, "option --user: %s", strerror(errno));
        else if (user->pw_uid != 0 && setuid(0) == 0)
                snprintf(error, size, "option --user: root could be had again");
        else
                return true;
        return false;
}

/* NULL: not asked for, or error says why not. */
static struct rpc *open_rpc(const struct args *a, char *error, size_t size)
{
        char addr[NET_TRADDR] = "", port[32] = "";
        struct rpc_place at = { .path = a->rpc, .login = RPC_LOGIN, .token = a->rpc_token };

        if (!a->rpc && !a->rpc_listen)
                return NULL;
        if (a->rpc_listen && !net_split(a->rpc_listen, addr, port)) {
                snprintf(error, size, "'%s' is not of the form ADDR:PORT", a->rpc_listen);
                return NULL;
        }
        if (a->rpc_listen) {
                at.traddr = addr;
                at.trsvcid = port;
        }
        return rpc_open(&at, error, size);
}

/* --- metrics ---------------------------------------------------------------------------------- */

struct metrics_place {
        struct page_server *server; /* NULL: not asked for */
        struct page page;
        char addr[NET_TRADDR];
};

/* False: error says why not. */
static bool open_metrics(struct metrics_place *m, const struct args *a, char *error, size_t size)
{
        char port[32] = "";

        if (!a->metrics)
                return true;
        if (!net_split(a->metrics, m->addr, port)) {
                snprintf(error, size, "'%s' is not of the form [ADDR]:PORT", a->metrics);
                return false;
        }
        if (!m->addr[0])
                strcpy(m->addr, "127.0.0.1");
        m->server = page_server_open(m->addr, port, error, size);
        return m->server;
}

static char *make_metrics(void *user, size_t *len)
{
        return target_metrics(user, len);
}

static bool start_metrics(struct metrics_place *m, struct target *t, char *error, size_t size)
{
        bool v6 = strchr(m->addr, ':') && m->addr[0] != '[';

        if (!m->server)
                return true;
        m->page = (struct page) { .path = "/metrics",
                                  .type = "text/plain; version=0.0.4; charset=utf-8",
                                  .make = make_metrics,
                                  .user = t };
        if (page_server_run(m->server, &m->page) < 0) {
                snprintf(error, size, "metrics: %s", strerror(errno));
                return false;
        }
        log_line(LOG_AS_INFO, NULL, NULL, "metrics at http://%s%s%s:%u/metrics", v6 ? "[" : "",
                 m->addr, v6 ? "]" : "", page_server_port(m->server));
        return true;
}

static void end_metrics(struct metrics_place *m)
{
        page_server_close(m->server);
        m->server = NULL;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* It knows what is served: a file is read for it once more. */
static bool start_rpc(struct rpc *rpc, struct target *t, const struct args *a, char *error,
                      size_t size)
{
        struct config c = { 0 };
        bool ok = !a->config_file || config_load(&c, a->config_file, error, size);

        if (ok && rpc_run(rpc, t, a->config_file ? &c : &a->config, a->wait_for_rpc) < 0) {
                snprintf(error, size, "RPC: %s", strerror(errno));
                ok = false;
        }
        config_free(&c);
        return ok;
}

static struct target *start(const struct args *a, const struct target_options *o, struct rpc *rpc,
                            struct metrics_place *m, char *error, size_t size)
{
        struct target *t = target_start(o, error, size);

        if (t && (!a->user || become(a->user, rpc, error, size)) &&
            (!rpc || start_rpc(rpc, t, a, error, size)) && start_metrics(m, t, error, size))
                return t;
        rpc_end(rpc);
        end_metrics(m);
        if (t)
                target_stop(t);
        return NULL;
}

static struct capture_writer *start_recording(const struct args *a, char *error, size_t size)
{
        struct capture_writer *w = capture_writer_open(a->pcap, error, size);

        if (w)
                capture_writer_limit(w, a->pcap_size, (unsigned)a->pcap_files);
        return w;
}

/* The target, and the RPC, have what they need. */
static void forget_keys(struct args *a)
{
        forget_token(a);
        wipe(&a->options.tls.key, sizeof(a->options.tls.key));
        config_free(&a->config);
}

static void serve_until_the_end(struct target *t, struct rpc *rpc, struct metrics_place *m,
                                struct args *a, const sigset_t *signals)
{
        announce(t, a);
        forget_keys(a);
        wait_for_end(t, rpc, a->config_file, signals);
        rpc_end(rpc);
        end_metrics(m);
        target_stop(t);
}

static int run(struct args *a, const sigset_t *signals)
{
        struct target_options o = a->options;
        struct target *t = NULL;
        char error[512] = "";
        struct rpc *rpc = open_rpc(a, error, sizeof(error));
        struct metrics_place metrics = { 0 };
        bool ok = rpc || (!a->rpc && !a->rpc_listen);
        int code;

        ok = ok && open_metrics(&metrics, a, error, sizeof(error));
        if (ok && a->pcap)
                o.record = start_recording(a, error, sizeof(error));
        if (ok && (!a->pcap || o.record))
                t = start(a, &o, rpc, &metrics, error, sizeof(error));
        wipe(&o.tls.key, sizeof(o.tls.key));
        if (t)
                serve_until_the_end(t, rpc, &metrics, a, signals);
        else
                fprintf(stderr, "nvmfspec target: %s\n", error);
        end_metrics(&metrics);
        rpc_free(rpc);
        code = stop_recording(a, o.record);
        return t ? code : EXIT_USAGE;
}

/* Signals are taken by sigwait() alone: blocked before the target's threads are born. */
static int serve(struct args *a)
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
        struct args a = { .reactors = 1,
                          .cpda = NOT_GIVEN,
                          .icdoff = NOT_GIVEN,
                          .pcap_size = PCAP_MOST,
                          .pcap_files = 1 };
        char error[512] = "";
        int at, code = EXIT_USAGE;

        core_dump_empty(); /* the RPC may bring keys at any time */
        at = option_parse(rows, 1, argc, argv, &a, error, sizeof(error));
        if (at >= 0 && a.help) {
                help();
                code = 0;
        } else if (at >= 0 && at < argc) {
                fprintf(stderr, "nvmfspec target: '%s' is not an option\n", argv[at]);
        } else if (at < 0 || !complete(&a, error, sizeof(error))) {
                fprintf(stderr, "nvmfspec target: %s\n", error);
        } else {
                start_log(&a);
                if (a.key_on_line)
                        log_line(LOG_AS_WARNING, NULL, NULL,
                                 "a key on the command line is seen by others: give @FILE or "
                                 "@/dev/fd/N");
                code = serve(&a);
        }
        forget_keys(&a);
        return code;
}
