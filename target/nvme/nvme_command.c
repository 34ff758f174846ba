/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvme_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"
#include "pdu/core/wipe.h"
#include "pdu/io/net.h"
#include "pdu/io/rpc_server.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/key_log.h"
#include "pdu/nvme/io/nvme_tls.h"
#include "target/ns/ns.h"
#include "target/nvme/command_trace.h"
#include "target/nvme/config.h"
#include "target/nvme/target.h"
#include "target/rpc/rpc.h"

#define NOT_GIVEN    UINT64_MAX
#define DEFAULT_NQN  "nqn.2026-01.io.nvmfspec:target"
#define DEFAULT_NS   "mem:64M"
#define DEFAULT_PORT "4420"

struct args {
        struct target_args base; /* first */
        struct target_options options;
        struct tls_store *tls_store;   /* of it, until it is the target's; NULL: none */
        struct config config;          /* what the command line asks for */
        struct target_options profile; /* what --profile sets, where nothing else does */
        const char *config_file, *rpc, *rpc_listen;
        char *rpc_token;
        bool wait_for_rpc;
        uint64_t msdbd, cpda, icdoff; /* the last two: or NOT_GIVEN */
        const char *tls_derivation, *tls_suite, *concat;
        const char *trace_file;
        uint64_t trace_size, trace_files;
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

        ((struct args *)args)->base.key_on_line |= value[0] != '@';
        return s && auth_key_option(&s->keys.host, value, error, size) == 0;
}

static bool take_tls_key(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;

        a->base.key_on_line |= value[0] != '@';
        return nvme_tls_option(&a->options.tls.key, value, error, size) == 0;
}

static bool take_tls_keyfile(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;

        nvme_tls_store_free(a->tls_store);
        a->options.tls.store = a->tls_store = nvme_tls_store(value, error, size);
        return a->tls_store;
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

        ((struct args *)args)->base.key_on_line |= value[0] != '@';
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

#define AT(field) .at = offsetof(struct args, field)

/* clang-format off */
static const struct option_row options[] = {
        { 'n', "nqn", "NQN", "a subsystem; repeatable; --ns, --host and --dhchap-... after it belong to it",
          OPTION_CALL, 1, .call = take_nqn },
        { 0, "ns", "SPEC", "a namespace: mem:64M, null:1G, file:PATH[,size=1G], each [,bs=4096][,delay=0-5ms]; "
                           "repeatable", OPTION_CALL, 1, .call = take_ns },
        { 0, "host", "NQN", "allow only this host; repeatable", OPTION_CALL, 1, .call = take_host },
        { 0, "dhchap-key", "KEY", "key with which hosts of this subsystem must authenticate themselves: @FILE "
                                  "(@/dev/fd/N), or DHHC-1:..., which others see in ps",
          OPTION_CALL, 1, .call = take_key },
        { 0, "dhchap-ctrl-key", "KEY", "key with which the subsystem authenticates itself to hosts that ask, or @FILE",
          OPTION_CALL, 1, .call = take_ctrl_key },
        { 0, "dhchap-hash", "HASH", "allow only this hash (the host's first choice): " CONFIG_HASHES,
          OPTION_CALL, 1, .call = take_hash },
        { 0, "dhchap-dhgroup", "GROUP", "allow only this DH group (the host's first choice): " CONFIG_GROUPS,
          OPTION_CALL, 1, .call = take_group },
        { 0, "tls-key", "KEY", "TLS on ports over TCP, for hosts that have this configured PSK: @FILE (@/dev/fd/N), or "
                               "NVMeTLSkey-1:..., which others see in ps; hosts without TLS are served, too",
          OPTION_CALL, 1, .call = take_tls_key },
        { 0, "tls-keyfile", "PATH", "... or one of these, a line each as nvme-cli exports the keyring (IDENTITY KEY; a key "
                                    "alone is as of --tls-key); a directory: all files in it",
          OPTION_CALL, 1, .call = take_tls_keyfile },
        { 0, "tls-required", NULL, "with --tls-key or --tls-keyfile: hosts without TLS are not served",
          OPTION_FLAG, 1, AT(options.tls_required) },
        { 0, "concat", "HOW", "secure channel concatenation for hosts that have a key (--dhchap-key): permitted, or "
                              "required; they use the PSK that they generate, and no other",
          OPTION_CHOICE, 1, AT(concat), .choices = "permitted|required" },
        { 0, "tls-suite", "SUITE", "only TLS_AES_128_GCM_SHA256 (aes128) or TLS_AES_256_GCM_SHA384 (aes256) (both)",
          OPTION_CHOICE, 1, AT(tls_suite), .choices = "aes128|aes256" },
        { 0, "tls-groups", "LIST", "groups of (EC)DHE with colons (" TLS_GROUPS ")",
          OPTION_STRING, 1, AT(options.tls.groups) },
        { 0, "ktls", NULL, "TLS records by the kernel, where it can", OPTION_FLAG, 1, AT(options.tls.kernel) },
        { 0, "tls-dhe-only", NULL, "no PSK without (EC)DHE", OPTION_FLAG, 1, AT(options.tls.dhe_only) },
        { 0, "tls-keylog", "FILE", "append the secrets of each TLS connection to it, in SSLKEYLOGFILE's format: "
                                   "whoever has it can decrypt a capture (pcap --keylog)",
          OPTION_CALL, 1, .call = take_tls_keylog },
        { 0, "tls-derivation", "HOW", "how hosts with an identity of version 0 derive keys: printed, as RFC 8446 has "
                                      "it, or old, as nvme-cli 2.x did (printed); version 1 tells",
          OPTION_CHOICE, 1, AT(tls_derivation), .choices = "printed|old" },
        { 0, "config", "FILE", "nvmetcli's JSON in place of all of the above; SIGHUP reads it again",
          OPTION_STRING, 1, AT(config_file) },
        { 0, "rpc", "PATH", "JSON-RPC on this Unix socket, as SPDK's " RPC_SOCKET " (see nvmfspec ctl); with nothing "
                            "else of this list nothing is served until it is asked for", OPTION_STRING, 1, AT(rpc) },
        { 0, "rpc-listen", "ADDR:PORT", "JSON-RPC over TCP, for who has the token", OPTION_STRING, 1, AT(rpc_listen) },
        { 0, "rpc-token", "@FILE", "the token of --rpc-listen", OPTION_CALL, 1, .call = take_token },
        { 0, "wait-for-rpc", NULL, "wait for framework_start_init before most methods may be called",
          OPTION_FLAG, 1, AT(wait_for_rpc) },
        { 0, "no-hdgst", NULL, "grant no header digest", OPTION_FLAG, 1, AT(options.no_hdgst) },
        { 0, "no-ddgst", NULL, "grant no data digest", OPTION_FLAG, 1, AT(options.no_ddgst) },
        { 0, "no-sqfc-disable", NULL, "never disable SQ flow control", OPTION_FLAG, 1, AT(options.no_sqfc_disable) },
        { 0, "no-success", NULL, "never use SUCCESS in C2HData", OPTION_FLAG, 1, AT(options.no_success) },
        { 0, "profile", "NAME[,NAME...]", "a kind of target, or several at once (below); the options that are given "
                                          "win over it (tolerant)", OPTION_CALL, 1, .call = take_profile },
        { 0, "cpda", "N", "data alignment to ask for (CPDA), (N + 1) * 4 bytes (0)",
          OPTION_NUMBER, 1, AT(cpda), .max = 31 },
        { 0, "no-in-capsule", NULL, "accept no data in I/O capsules: as --limit in_capsule=0 and rdma_in_capsule=0",
          OPTION_FLAG, 1, AT(options.no_in_capsule) },
        { 0, "icdoff", "N", "RDMA: in-capsule data begins N * 16 bytes after the command (0)",
          OPTION_NUMBER, 1, AT(icdoff), .max = 256 },
        { 0, "msdbd", "N", "RDMA: data block descriptors of a command (16)",
          OPTION_NUMBER, 1, AT(msdbd), .min = 1, .max = 16 },
        { 0, "waive", "RULE", "do not check this rule of hosts; repeatable", OPTION_CALL, 1, .call = take_waive },
        { 0, "violate", "RULE", "break this rule of controllers; repeatable", OPTION_CALL, 1, .call = take_violate },
        { 0, "fault", "SPEC", "go wrong when this says: ACTION [WHEN...], such as 'status=2/81h cmd=read nth=3', "
                              "'delay=50ms on=r2t one-in=100', 'reset=half on=c2hdata' (below); repeatable",
          OPTION_CALL, 1, .call = take_fault },
        { 0, "trace-file", "FILE", "write a line of JSON for each command that ends: who, what, status, and when it "
                                   "was in which state; pcap stat reads it", OPTION_STRING, 1, AT(trace_file) },
        { 0, "trace-size", "SIZE", "bytes that it may have, after which it ends; 0: no limit (1G)",
          OPTION_SIZE, 1, AT(trace_size) },
        { 0, "trace-files", "N", "write a ring of N files of that size: FILE, FILE.1, ... FILE.(N-1), then FILE over "
                                 "again (1)", OPTION_NUMBER, 1, AT(trace_files), .min = 1, .max = TRACE_FILES_MAX },
#ifdef NVMF_PLANT
        { 0, "plant", "NAME", "have this planted bug (list: show them)", OPTION_CALL, 1, .call = take_plant },
#endif
        { 0, "limit", "NAME=VALUE", "a limit, such as connections=64; repeatable", OPTION_CALL, 1, .call = take_limit },
        { 0 },
};
/* clang-format on */

static void help(FILE *out)
{
        fputs(
            "\n--fault 'ACTION [WHEN...]': one of\n"
            "  status=SCT/SC[/dnr]  violate=RULE  delay=TIME  drop  close[=BYTE|half]  "
            "reset[=BYTE|half]\n"
            "  corrupt[=BYTE]\n"
            "when it is where on=command|r2t|h2cdata|c2hdata|resp says, of commands that fit cmd=, "
            "host=, nqn=,\nqid=, nsid=, lba=, once after= bytes and wait= time are over; then the "
            "nth=, every=, one-in= (with\nseed=), and times= in all. doc/target.md explains "
            "each.\n\n"
            "--profile NAME[,NAME...]: one or more of\n",
            out);
        target_profile_help(out);
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

static uint8_t trtype_of(const struct args *a, const char **place)
{
        return strcmp(target_transport(&a->base, place), "rdma") == 0 ? TRTYPE_RDMA : TRTYPE_TCP;
}

static bool add_ports(struct args *a)
{
        struct config *c = &a->config;
        char addr[NET_TRADDR], port[32];
        const char *none = "";
        uint8_t trtype = trtype_of(a, &none);

        if (!link_all(c, config_add_port(c, 1, a->base.traddr, a->base.trsvcid), trtype))
                return false;
        for (unsigned i = 0; i < a->base.n_listens; i++) {
                const char *place = a->base.listens[i];

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
        return (a->rpc || a->rpc_listen) && a->config.n_subsystems == 0 && a->base.n_listens == 0 &&
               !a->base.traddr && !a->base.trsvcid && !a->base.trtype && !a->config_file;
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

static bool add_default(struct args *a, char *error, size_t size)
{
        struct config *c = &a->config;

        if (!a->base.traddr)
                a->base.traddr = "127.0.0.1";
        if (!a->base.trsvcid)
                a->base.trsvcid = DEFAULT_PORT;
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

static bool take_trace(struct args *a, char *error, size_t size)
{
        struct config_trace t = { .size = a->trace_size, .files = a->trace_files };
        char why[80];

        if (!a->trace_file && (t.size != TRACE_SIZE_USUAL || t.files > 1)) {
                snprintf(error, size, "--trace-size and --trace-files require --trace-file");
                return false;
        }
        if (a->config_file && a->trace_file) {
                snprintf(error, size, "--config excludes --trace-file: the file has \"trace\"");
                return false;
        }
        t.file = (char *)a->trace_file;
        if (config_set_trace(&a->config, &t, why, sizeof(why)))
                return true;
        snprintf(error, size, "--trace-file: %s", why);
        return false;
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

static bool complete(void *args, char *error, size_t size)
{
        struct args *a = args;
        struct config *c = &a->config;
        bool empty = begins_empty(a);

        if (!check_rpc(a, error, size))
                return false;
        if (a->config_file &&
            (c->n_subsystems > 0 || a->base.n_listens > 0 || a->base.traddr || a->base.trsvcid)) {
                snprintf(error, size,
                         "--config excludes -a, -s, --listen, -n, --ns, --host, --dhchap-...");
                return false;
        }
        if (a->config_file && c->n_faults > 0) {
                snprintf(error, size, "--config excludes --fault: the file has \"faults\"");
                return false;
        }
        if (!take_trace(a, error, size))
                return false;
        for (unsigned i = 0; i < c->n_subsystems; i++)
                if (c->subsystems[i].keys.ctrl.len && !c->subsystems[i].keys.host.len) {
                        snprintf(error, size, "--dhchap-ctrl-key requires --dhchap-key");
                        return false;
                }
        take_shape(a);
        if (!empty && !add_default(a, error, size))
                return false;
        a->options.reactors = (unsigned)a->base.reactors;
        a->options.busy_poll = (unsigned)a->base.busy_poll;
        a->options.tls.derivation =
            a->tls_derivation && strcmp(a->tls_derivation, "old") == 0 ? TLS_OLD : TLS_PRINTED;
        if (a->concat)
                a->options.concat =
                    strcmp(a->concat, "required") == 0 ? CONCAT_REQUIRED : CONCAT_PERMITTED;
        if (a->tls_suite)
                a->options.tls.suite =
                    strcmp(a->tls_suite, "aes128") == 0 ? TLS_AES_128_GCM : TLS_AES_256_GCM;
        a->options.timed = a->base.metrics;
        a->options.config = a->config_file;
        a->options.serve = a->config_file ? NULL : c;
        return a->config_file || empty || config_check(c, "command line", error, size);
}

/* --- running ---------------------------------------------------------------------------------- */

struct served {
        struct target *target;
        struct rpc *rpc;             /* NULL: not asked for */
        struct tls_store *tls_store; /* the target's; NULL: none */
};

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

static void stop(void *started)
{
        struct served *s = started;

        rpc_end(s->rpc);
        if (s->target)
                target_stop(s->target);
        rpc_free(s->rpc);
        nvme_tls_store_free(s->tls_store);
        free(s);
}

static void *start(void *args, struct capture_writer *record, char *error, size_t size)
{
        struct args *a = args;
        struct target_options o = a->options;
        struct served *s = calloc(1, sizeof(*s));

        snprintf(error, size, "%s", strerror(ENOMEM));
        if (!s)
                return NULL;
        o.trace = a->base.trace;
        o.quiet = a->base.quiet;
        o.record = record;
        s->tls_store = a->tls_store;
        a->tls_store = NULL;
        s->rpc = open_rpc(a, error, size);
        if (s->rpc || (!a->rpc && !a->rpc_listen))
                s->target = target_start(&o, error, size);
        wipe(&o.tls.key, sizeof(o.tls.key));
        if (s->target)
                return s;
        stop(s);
        return NULL;
}

static int give(void *started, uid_t uid, gid_t gid)
{
        const struct served *s = started;

        return s->rpc ? rpc_give(s->rpc, uid, gid) : 0;
}

/* It knows what is served: a file is read for it once more. */
static bool control(void *started, void *args, char *error, size_t size)
{
        const struct served *s = started;
        const struct args *a = args;
        struct config c = { 0 };
        bool ok = !s->rpc || !a->config_file || config_load(&c, a->config_file, error, size);

        if (ok && s->rpc &&
            rpc_run(s->rpc, s->target, a->config_file ? &c : &a->config, a->wait_for_rpc) < 0) {
                snprintf(error, size, "RPC: %s", strerror(errno));
                ok = false;
        }
        config_free(&c);
        return ok;
}

static void describe(void *started, const void *args, char *text, size_t size)
{
        const struct served *s = started;
        const struct args *a = args;

        target_ports(s->target, text, size);
        if (!text[0])
                snprintf(text, size, "%s", a->rpc ? a->rpc : a->rpc_listen);
        for (unsigned i = 0; !a->config_file && i < a->config.n_subsystems; i++) {
                size_t len = strlen(text);

                snprintf(text + len, size - len, " %s", a->config.subsystems[i].nqn);
        }
}

/* The file in place of all that the RPC has changed. */
static int reload_all(struct rpc *rpc, const char *file, char *error, size_t size)
{
        struct config c;
        int rc = config_load(&c, file, error, size) ? rpc_replace(rpc, &c, error, size) : -1;

        config_free(&c);
        return rc;
}

static int reload(void *started, const void *args, char *error, size_t size)
{
        const struct served *s = started;
        const struct args *a = args;

        return s->rpc && a->config_file ? reload_all(s->rpc, a->config_file, error, size)
                                        : target_reload(s->target, error, size);
}

static char *metrics(void *started, size_t *len)
{
        return target_metrics(((const struct served *)started)->target, len);
}

static void free_args(void *args)
{
        struct args *a = args;

        forget_token(a);
        wipe(&a->options.tls.key, sizeof(a->options.tls.key));
        nvme_tls_store_free(a->tls_store);
        config_free(&a->config);
}

static void defaults(void *args)
{
        struct args *a = args;

        a->cpda = a->icdoff = NOT_GIVEN;
        a->trace_size = TRACE_SIZE_USUAL;
        a->trace_files = 1;
}

const struct target_command nvme_command = {
        .options = options,
        .args_size = sizeof(struct args),
        .intro =
            "Serves NVM subsystems and a discovery service over NVMe/TCP and NVMe/RDMA, until "
            "SIGTERM.\n"
            "Without options: " DEFAULT_NQN " with " DEFAULT_NS " on 127.0.0.1:" DEFAULT_PORT ".\n",
        .port = DEFAULT_PORT,
        .more_help = help,
        .defaults = defaults,
        .complete = complete,
        .start = start,
        .give = give,
        .control = control,
        .describe = describe,
        .reload = reload,
        .metrics = metrics,
        .forget = free_args,
        .stop = stop,
};
