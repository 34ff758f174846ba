/* SPDX-License-Identifier: BSD-3-Clause */
#include "args.h"

#include <string.h>

#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/key_log.h"
#include "pdu/nvme/io/nvme_tls.h"
#include "pdu/nvme/machine/spoil.h"
#include "pdu/nvme/wire/fabrics.h"

#define RDMA_PORT  "4420"               /* of discovery, too */
#define TLS_KEYS   "/etc/nvme/tls-keys" /* nvme-cli's */

#define AT(member) .at = offsetof(struct args, member)

static bool take_waive(void *args, const char *value, char *error, size_t size)
{
        return option_rule_of(&nvme_rules, &((struct args *)args)->policy.waived, PARTY_CONTROLLER,
                              value, error, size);
}

static bool take_violate(void *args, const char *value, char *error, size_t size)
{
        struct rule_policy *policy = &((struct args *)args)->policy;
        struct rule_set *violated = &policy->violated;
        unsigned flaw = rulebook_flaw_by_name(&nvme_rules, value);
        enum rule_id rule = rule_by_name(value);

        if (flaw && nvme_rules.flaws[flaw].host) {
                rule_add(&policy->flaws, flaw);
                return true;
        }
        if (!option_rule_of(&nvme_rules, violated, PARTY_HOST, value, error, size))
                return false;
        if (spoil_host_can(rule))
                return true;
        snprintf(error, size, "this host sends nothing that can break '%s'", value);
        return false;
}

static bool take_key(void *args, const char *value, char *error, size_t size)
{
        return auth_key_argument(&((struct args *)args)->dhchap, value, error, size) == 0;
}

static bool take_ctrl_key(void *args, const char *value, char *error, size_t size)
{
        return auth_key_argument(&((struct args *)args)->dhchap_ctrl, value, error, size) == 0;
}

static bool take_tls_key(void *args, const char *value, char *error, size_t size)
{
        return nvme_tls_argument(&((struct args *)args)->tls.key, value, error, size) == 0;
}

static bool take_tls_keyfile(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;

        nvme_tls_store_free(a->tls_store);
        a->tls.store = a->tls_store = nvme_tls_store(value, error, size);
        return a->tls_store;
}

static bool take_tls_keylog(void *args, const char *value, char *error, size_t size)
{
        FILE **keylog = &((struct args *)args)->tls.keylog;

        if (!*keylog)
                *keylog = key_log_create(value, error, size);
        return *keylog;
}

/* clang-format off */
const struct option_row host_options[] = {
        { 'a', "traddr", "ADDR", "address or name, or a URI: nvme+tcp://HOST[:PORT][/NQN], "
                                 "nvme+rdma://", OPTION_STRING, ARGS_WHERE, AT(traddr) },
        { 's', "trsvcid", "PORT", "port (4420; discover over TCP: 8009)", OPTION_STRING, ARGS_WHERE, AT(trsvcid) },
        { 'n', "nqn", "NQN", "subsystem", OPTION_STRING, ARGS_WHO, AT(nqn) },
        { 'q', "hostnqn", "NQN", "host NQN (by default with a UUID from this machine's id)", OPTION_STRING, ARGS_WHO, AT(hostnqn) },
        { 'I', "hostid", "UUID", "host identifier (by default the same UUID)", OPTION_STRING, ARGS_WHO, AT(hostid) },
        { 'k', "keep-alive-tmo", "SEC", "keep alive timeout in seconds, 0: none (10; discover: "
                                        "only with --persistent)", OPTION_SECONDS, ARGS_WHO, AT(kato), .max = ARG_UNSET - 1 },
        { 0, "disable-sqflow", NULL, "ask to disable SQ flow control", OPTION_FLAG, ARGS_WHO, AT(no_sqfc) },
        { 0, "no-sqfc", NULL, "the same", OPTION_FLAG, ARGS_WHO, AT(no_sqfc) },
        { 'g', "hdr-digest", NULL, "header digest (TCP); an error if the controller refuses it", OPTION_FLAG, ARGS_WHERE, AT(hdgst) },
        { 'G', "data-digest", NULL, "data digest (TCP); an error if the controller refuses it", OPTION_FLAG, ARGS_WHERE, AT(ddgst) },
        { 0, "hpda", "N", "PDU data alignment for the controller: (N + 1) * 4 bytes (TCP; 0)", OPTION_NUMBER, ARGS_WHERE, AT(hpda), .max = PDU_PDA_MAX },
        { 0, "maxr2t", "N", "R2Ts that may be outstanding per command (TCP; 1)", OPTION_NUMBER, ARGS_WHO, AT(maxr2t), .min = 1, .max = 64 },
        { 0, "timeout", "MS", "timeout of setup and of each command in milliseconds (30000)", OPTION_NUMBER, ARGS_WHERE, AT(timeout), .min = 1, .max = 86400000 },
        { 'S', "dhchap-secret", "KEY", "key of the host, DHHC-1:..., or @FILE that contains it", OPTION_CALL, ARGS_WHO, .call = take_key },
        { 'C', "dhchap-ctrl-secret", "KEY", "key of the controller, to authenticate it, or @FILE", OPTION_CALL, ARGS_WHO, .call = take_ctrl_key },
        { 0, "tls-key", "KEY", "TLS with this configured PSK, NVMeTLSkey-1:..., or @FILE that contains it (TCP)", OPTION_CALL, ARGS_WHO, .call = take_tls_key },
        { 0, "tls-keyfile", "PATH", "TLS with the key that this file has for host and subsystem, as nvme-cli exports the keyring (IDENTITY KEY; a key alone is as of --tls-key); a directory: all files in it", OPTION_CALL, ARGS_WHO, .call = take_tls_keyfile },
        { 0, "tls", NULL, "the same with " TLS_KEYS, OPTION_FLAG, ARGS_WHO, AT(tls_usual) },
        { 0, "concat", NULL, "TLS with the PSK that authentication generates (--dhchap-secret): secure channel concatenation (TCP)", OPTION_FLAG, ARGS_WHO, AT(concat) },
        { 0, "tls-suite", "SUITE", "TLS_AES_128_GCM_SHA256 (aes128) or TLS_AES_256_GCM_SHA384 (aes256); by default as long as the PSK", OPTION_CHOICE, ARGS_WHO, AT(tls_suite), .choices = "aes128|aes256" },
        { 0, "tls-groups", "LIST", "groups of (EC)DHE with colons (" TLS_GROUPS ")", OPTION_STRING, ARGS_WHO, AT(tls.groups) },
        { 0, "ktls", NULL, "TLS records by the kernel, where it can", OPTION_FLAG, ARGS_WHO, AT(tls.kernel) },
        { 0, "tls-dhe-only", NULL, "no PSK without (EC)DHE", OPTION_FLAG, ARGS_WHO, AT(tls.dhe_only) },
        { 0, "tls-identity", "N", "version of the PSK identity: 0, or 1, which has a digest of the PSK (0; with --concat 1, as Linux has it)", OPTION_NUMBER, ARGS_WHO, AT(tls_version), .max = 1 },
        { 0, "tls-derivation", "HOW", "how keys are derived: printed, as RFC 8446 has it, or old, as nvme-cli 2.x did (printed)", OPTION_CHOICE, ARGS_WHO, AT(tls_derivation), .choices = "printed|old" },
        { 0, "tls-keylog", "FILE", "append the secrets of each TLS connection to it, in SSLKEYLOGFILE's format, for pcap --keylog", OPTION_CALL, ARGS_WHO, .call = take_tls_keylog },
        { 0, "waive", "RULE", "do not check this rule of controllers; repeatable", OPTION_CALL, ARGS_WHO, .call = take_waive },
        { 0, "violate", "RULE", "break this rule of hosts; repeatable", OPTION_CALL, ARGS_WHO, .call = take_violate },
        { 0, "pcap", "FILE", "write the connections to a .pcapng or .pcap, with 4420 as the "
                             "port; RDMA as RoCEv2, with READs and WRITEs derived from the "
                             "responses", OPTION_STRING, ARGS_WHO, AT(pcap) },
        { 'i', "nr-io-queues", "N", "I/O queues (verify: 4, perf: 1)", OPTION_NUMBER, ARGS_QUEUES, AT(io_queues), .min = 1, .max = HOST_IO_QUEUES_MAX },
        { 'Q', "queue-size", "N", "entries of an I/O queue (128; verify, perf: as --iodepth needs)", OPTION_NUMBER, ARGS_QUEUES, AT(queue_size), .min = 2, .max = 65535 },

        { 'N', "nsid", "N", "namespace (1; 0 for features that are not of namespaces)", OPTION_NUMBER, ARGS_NSID, AT(nsid), .max = UINT32_MAX },
        { 0, "slba", "LBA", "first logical block (0)", OPTION_NUMBER, ARGS_SLBA, AT(base.slba) },
        { 0, "blocks", "N", "logical blocks, not 0's based (1; with a file: all of it)", OPTION_NUMBER, ARGS_BLOCKS, AT(base.blocks), .min = 1, .max = UINT32_MAX },
        { 0, "fua", NULL, "force unit access", OPTION_FLAG, ARGS_FUA, AT(fua) },
        { 0, "deac", NULL, "the blocks may be deallocated", OPTION_FLAG, ARGS_DEAC, AT(deac) },
        { 0, "idw", NULL, "integral dataset for write, in place of deallocate", OPTION_FLAG, ARGS_DSM, AT(idw) },
        { 0, "idr", NULL, "integral dataset for read, in place of deallocate", OPTION_FLAG, ARGS_DSM, AT(idr) },

        { 0, "length", "SIZE", "bytes to read (the page's length)", OPTION_SIZE, ARGS_LOG, AT(length), .min = 4, .max = 1 << 24 },
        { 0, "offset", "SIZE", "bytes to skip", OPTION_SIZE, ARGS_LOG, AT(offset) },
        { 0, "rae", NULL, "retain the asynchronous event", OPTION_FLAG, ARGS_LOG, AT(rae) },
        { 0, "sel", "WHICH", "current, default, saved or capabilities", OPTION_CHOICE, ARGS_GET_FEATURE, AT(select), .choices = "current|default|saved|capabilities" },
        { 0, "value", "N", "the new value (DW11)", OPTION_NUMBER, ARGS_SET_FEATURE, AT(value), .max = UINT32_MAX },
        { 0, "save", NULL, "keep the value through power cycles", OPTION_FLAG, ARGS_SET_FEATURE, AT(save) },
        { 0, "data-len", "SIZE", "bytes of data (the feature's length)", OPTION_SIZE, ARGS_GET_FEATURE, AT(data_length), .max = 4096 },
        { 0, "persistent", NULL, "stay connected and report each change", OPTION_FLAG, ARGS_DISCOVER, AT(persistent) },

        { 'l', "ctrl-loss-tmo", "SEC", "time in seconds to reconnect for when the controller is lost; what was outstanding is sent again (0: it ends the run)", OPTION_SECONDS, ARGS_VERIFY, AT(ctrl_loss_tmo), .max = 86400000 },
        { 'c', "reconnect-delay", "SEC", "time in seconds to wait before each try; before the first also 2 or 3 times -k, as Base 2.2, 9.6.2 says (10)", OPTION_SECONDS, ARGS_VERIFY, AT(reconnect_delay), .max = 1000000 },
        { 0, "command-buffers", NULL, "send no data in capsules: it waits for an R2T (SGL 5Ah) "
                                      "or is READ (keyed) (verify: every other write)", OPTION_FLAG, ARGS_LOAD, AT(base.asked_for) },

        { 0, "ic", NULL, "exchange ICReq and ICResp first, as the options above say", OPTION_FLAG, ARGS_RAW, AT(ic) },
        { 0, "split", "N", "send in pieces of N bytes", OPTION_NUMBER, ARGS_RAW, AT(split), .min = 1, .max = 1 << 24 },
        { 0, "delay", "MS", "milliseconds to wait between pieces", OPTION_NUMBER, ARGS_RAW, AT(delay), .max = 3600000 },
        { 0, "wait", "MS", "milliseconds to listen after the last byte (1000)", OPTION_NUMBER, ARGS_RAW, AT(wait), .max = 3600000 },
        { 0 },
};
/* clang-format on */

void args_defaults(void *args)
{
        struct args *a = args;

        a->kato = a->tls_version = ARG_UNSET;
        a->timeout = HOST_TIMEOUT;
        a->maxr2t = 1;
        a->nsid = ARG_NO_NSID;
        a->base.blocks = 0;
        a->value = a->data_length = ARG_UNSET;
        a->select = "current";
        a->reconnect_delay = 10000;
        a->wait = 1000;
}

static bool is_address(const char *word)
{
        return strncmp(word, "nvme", 4) == 0 && strstr(word, "://") != NULL;
}

/* Takes addresses out of the words; how many words are left, or -1. */
static int take_addresses(struct args *a, int count, char **words, struct host_error *e)
{
        int left = 0;

        for (int i = 0; i < count; i++) {
                if (!is_address(words[i]))
                        words[left++] = words[i];
                else if (host_address_parse(&a->address, words[i], e) < 0)
                        return -1;
        }
        return left;
}

static int take_usual_keys(struct args *a, struct host_error *e)
{
        char line[sizeof(e->line)];

        if (!a->tls_usual || a->tls.store)
                return 0;
        a->tls.store = a->tls_store = nvme_tls_store(TLS_KEYS, line, sizeof(line));
        return a->tls.store ? 0 : host_fail(e, HOST_USAGE, "--tls: %.380s", line);
}

void args_forget(void *args)
{
        nvme_tls_store_free(((struct args *)args)->tls_store);
}

int args_addresses(void *args, int count, char **words, struct host_error *e)
{
        struct args *a = args;

        if (a->traddr && is_address(a->traddr)) {
                if (host_address_parse(&a->address, a->traddr, e) < 0)
                        return -1;
                a->traddr = NULL;
        }
        return take_usual_keys(a, e) < 0 ? -1 : take_addresses(a, count, words, e);
}

/* The option, else what the address said, else the default. */
static const char *choose(const char *option, const char *address, const char *otherwise)
{
        return option ? option : address[0] ? address : otherwise;
}

enum host_transport args_transport(const struct args *a)
{
        const char *name = choose(a->base.transport, a->address.transport, "tcp");

        return strcmp(name, "rdma") == 0 ? HOST_RDMA : HOST_TCP;
}

static struct nvme_tls tls_of(const struct args *a)
{
        struct nvme_tls tls = a->tls;

        tls.version = a->tls_version == ARG_UNSET ? a->concat : (uint8_t)a->tls_version;
        if (a->tls_derivation && strcmp(a->tls_derivation, "old") == 0)
                tls.derivation = TLS_OLD;
        if (a->tls_suite)
                tls.suite = strcmp(a->tls_suite, "aes128") == 0 ? TLS_AES_128_GCM : TLS_AES_256_GCM;
        return tls;
}

int args_params(const struct args *a, const char *port, const char *nqn, struct host_params *p,
                struct host_error *e)
{
        bool rdma = args_transport(a) == HOST_RDMA;
        uint64_t number;

        *p = host_params_default();
        p->transport = rdma ? HOST_RDMA : HOST_TCP;
        if (rdma)
                port = RDMA_PORT;
        p->traddr = choose(a->traddr, a->address.traddr, NULL);
        p->trsvcid = choose(a->trsvcid, a->address.trsvcid, port);
        p->subnqn = choose(a->nqn, a->address.subnqn, nqn);
        if (!p->traddr)
                return host_fail(e, HOST_USAGE,
                                 "no address given: use -a ADDR or "
                                 "nvme+%s://HOST[:PORT]/NQN",
                                 host_transport_name(p->transport));
        if (!p->subnqn)
                return host_fail(e, HOST_USAGE,
                                 "no subsystem given: use -n NQN or "
                                 "nvme+%s://HOST/NQN",
                                 host_transport_name(p->transport));
        if (option_number(p->trsvcid, &number) < 0 || number > UINT16_MAX)
                return host_fail(e, HOST_USAGE, "'%s' is not a TCP port", p->trsvcid);
        if (rdma && (a->hdgst || a->ddgst))
                return host_fail(e, HOST_USAGE, "NVMe/RDMA has no digests");
        if (rdma && nvme_tls_is_asked(&a->tls))
                return host_fail(e, HOST_USAGE, "TLS is for NVMe/TCP");
        if (a->concat && (rdma || nvme_tls_is_asked(&a->tls) || !a->dhchap.len))
                return host_fail(e, HOST_USAGE,
                                 "--concat is for NVMe/TCP, requires --dhchap-secret and excludes "
                                 "--tls-key");
        if (a->dhchap_ctrl.len && !a->dhchap.len)
                return host_fail(e, HOST_USAGE, "--dhchap-ctrl-secret requires --dhchap-secret");
        if (strlen(p->subnqn) >= NQN_FIELD || (a->hostnqn && strlen(a->hostnqn) >= NQN_FIELD))
                return host_fail(e, HOST_USAGE, "an NQN has at most %d bytes", NQN_MAX);
        if (a->hostid && host_uuid_parse(a->hostid, p->hostid) < 0)
                return host_fail(e, HOST_USAGE, "option -I: '%s' is not a UUID", a->hostid);
        if (a->hostnqn)
                p->hostnqn = a->hostnqn;
        if (a->kato != ARG_UNSET)
                p->kato = (unsigned)a->kato;
        p->timeout = (unsigned)a->timeout;
        p->reconnect_delay = (unsigned)a->reconnect_delay;
        p->ctrl_loss_tmo = (unsigned)a->ctrl_loss_tmo;
        p->io_queues = (unsigned)a->io_queues;
        if (a->queue_size)
                p->queue_size = (unsigned)a->queue_size;
        p->hdgst = a->hdgst;
        p->ddgst = a->ddgst;
        p->hpda = (uint8_t)a->hpda;
        p->maxr2t = (uint32_t)a->maxr2t;
        p->no_sqfc = a->no_sqfc;
        p->dhchap = a->dhchap;
        p->dhchap_ctrl = a->dhchap_ctrl;
        p->tls = tls_of(a);
        p->concat = a->concat;
        p->policy = &a->policy;
        p->record = a->record;
        p->verbs = a->verbs;
        return 0;
}
