/* SPDX-License-Identifier: BSD-3-Clause */
#include "args.h"

#include <stdlib.h>
#include <string.h>

#include "conformance/engine/option_rows.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/key_log.h"
#include "pdu/nvme/io/nvme_tls.h"
#include "pdu/nvme/machine/spoil.h"
#include "target/nvme/trigger.h"

/* --- values with a syntax of their own ----------------------------------------------------- */

static bool take_ns(void *args, const char *value, char *error, size_t size)
{
        return option_list_add(&((struct nvme_args *)args)->ns, value, error, size);
}

static bool take_fault(void *args, const char *value, char *error, size_t size)
{
        struct trigger f;

        return trigger_parse(&f, value, error, size) &&
               option_list_add(&((struct nvme_args *)args)->faults, value, error, size);
}

static bool take_limit(void *args, const char *value, char *error, size_t size)
{
        struct nvme_args *a = args;

        a->limited = true;
        return target_limit(&a->limits, value, error, size);
}

static bool take_profile(void *args, const char *value, char *error, size_t size)
{
        struct nvme_args *a = args;

        a->limited = true;
        return target_profile(&a->profile, value, error, size);
}

/* Any name that fits: nvmetcli and blktests give targets names that are not NQNs. */
static bool is_name(const char *value, char *error, size_t size)
{
        size_t len = strlen(value);

        snprintf(error, size, "a name has 1 to %d bytes, this one %zu", NQN_MAX, len);
        return len > 0 && len <= NQN_MAX;
}

static bool take_nqn(void *args, const char *value, char *error, size_t size)
{
        ((struct nvme_args *)args)->peer.subnqn = value;
        return is_name(value, error, size);
}

static bool take_hostnqn(void *args, const char *value, char *error, size_t size)
{
        ((struct nvme_args *)args)->peer.hostnqn = value;
        return is_name(value, error, size);
}

static bool take_static(void *args, const char *value, char *error, size_t size)
{
        (void)error;
        (void)size;
        ((struct nvme_args *)args)->peer.statics = value;
        return true;
}

static bool take_denied(void *args, const char *value, char *error, size_t size)
{
        ((struct nvme_args *)args)->peer.denied = value;
        return is_name(value, error, size);
}

static bool take_key(void *args, const char *value, char *error, size_t size)
{
        struct nvme_args *a = args;

        a->keyed = true;
        return auth_key_argument(&a->peer.dhchap, value, error, size) == 0;
}

static bool take_ctrl_key(void *args, const char *value, char *error, size_t size)
{
        return auth_key_argument(&((struct nvme_args *)args)->peer.dhchap_ctrl, value, error,
                                 size) == 0;
}

static bool take_tls_key(void *args, const char *value, char *error, size_t size)
{
        struct nvme_args *a = args;

        a->peer.tls_always = true;
        return nvme_tls_argument(&a->peer.tls.key, value, error, size) == 0;
}

/* HOSTNQN=KEY; NQNs may have a '=', too. */
static bool take_tls_host(void *args, const char *value, char *error, size_t size)
{
        struct peer *p = &((struct nvme_args *)args)->peer;
        struct tls_host *h = &p->tls_hosts[p->n_tls_hosts];
        const char *end = strstr(value, "=NVMeTLSkey-");

        end = end ?: strstr(value, "=@");
        if (!end || end == value || p->n_tls_hosts == TLS_HOSTS) {
                snprintf(error, size, "'%s' is not HOSTNQN=KEY, or is more than the %uth", value,
                         TLS_HOSTS);
                return false;
        }
        snprintf(h->nqn, sizeof(h->nqn), "%.*s", (int)(end - value), value);
        p->n_tls_hosts++;
        if (nvme_tls_argument(&h->key, end + 1, error, size) == 0)
                return true;
        return auth_option(&h->key, tls_key_parse_spoilt, end + 1, error, size) == 0;
}

static bool take_psk_lifetime(void *args, const char *value, char *error, size_t size)
{
        char *end;
        unsigned long s = strtoul(value, &end, 10);

        ((struct nvme_args *)args)->peer.psk_lifetime = (unsigned)s * 1000;
        snprintf(error, size, "'%s' is not 1 to 3600 seconds", value);
        return !*end && s > 0 && s <= 3600;
}

static bool take_tls_keylog(void *args, const char *value, char *error, size_t size)
{
        FILE **keylog = &((struct nvme_args *)args)->peer.tls.keylog;

        if (!*keylog)
                *keylog = key_log_create(value, error, size);
        return *keylog;
}

static bool take_hostid(void *args, const char *value, char *error, size_t size)
{
        struct nvme_args *a = args;
        unsigned n = 0;

        for (const char *p = value; *p && n <= 32; p++) {
                char digit[2] = { *p };
                char *end;
                unsigned long v = strtoul(digit, &end, 16);

                if (*p == '-')
                        continue;
                if (end == digit || n == 32)
                        n = 33;
                else
                        a->hostid[n / 2] = (uint8_t)((unsigned)a->hostid[n / 2] << 4 | v), n++;
        }
        a->peer.hostid = a->hostid;
        snprintf(error, size, "'%s' is not a UUID", value);
        return n == 32;
}

static bool take_allow_write(void *args, const char *value, char *error, size_t size)
{
        struct peer *p = &((struct nvme_args *)args)->peer;
        unsigned long long slba = 0, blocks = 0;
        unsigned nsid = 0;
        int end = 0;
        int n = sscanf(value, "%u%n:%llu+%llu%n", &nsid, &end, &slba, &blocks, &end);

        p->may_write = true;
        p->write_nsid = nsid;
        p->write_slba = slba;
        p->write_blocks = blocks;
        snprintf(error, size, "'%s' is neither NSID nor NSID:SLBA+BLOCKS", value);
        return (n == 1 || (n == 3 && blocks > 0)) && !value[end] && nsid > 0 && value[0] != '-';
}

static bool take_slice(void *args, const char *value, char *error, size_t size)
{
        struct peer *p = &((struct nvme_args *)args)->peer;
        unsigned slice = 0;
        int end = 0;

        snprintf(error, size, "'%s' is not K/N with K from 1 to N, N from 1 to 1000", value);
        if (sscanf(value, "%u/%u%n", &slice, &p->slices, &end) != 2 || value[end] ||
            value[0] == '-' || slice < 1 || slice > p->slices || p->slices > 1000)
                return false;
        p->slice = slice - 1;
        return true;
}

/* --- the table ----------------------------------------------------------------------------- */

#define OPTION_ARGS struct nvme_args

/* clang-format off */
const struct option_row nvme_options[] = {
        CALL('n', "nqn", "NQN", take_nqn, "the subsystem (the first one in the discovery log)", TARGET),
        CALL('q', "hostnqn", "NQN", take_hostnqn, "our name (one for each case)", TARGET),
        CALL('I', "hostid", "UUID", take_hostid, "our HOSTID (one for each case)", TARGET),
        FLAG('g', "hdr-digest", peer.hdgst, "enable header digests where the case does not set "
                                            "them", TARGET),
        FLAG('G', "data-digest", peer.ddgst, "enable data digests where the case does not set them", TARGET),
        NUMBER(0, "hpda", "N", hpda, 0, PDU_PDA_MAX, "alignment of data sent to us (HPDA), 0 to "
                                                     "31, where the case does not set it", TARGET),
        CALL(0, "allow-write", "RANGE", take_allow_write, "NSID[:SLBA+BLOCKS] that cases may "
                                                          "write to; without it no case writes", TARGET),
        CALL(0, "slice", "K/N", take_slice, "write to the K-th of N parts of it only: runs that share a "
                                            "namespace take a part each", TARGET),
        CALL('S', "dhchap-secret", "KEY", take_key, "our key, if the target asks for "
                                                    "authentication: DHHC-1:..., or @FILE", TARGET),
        CALL('C', "dhchap-ctrl-secret", "KEY", take_ctrl_key, "the subsystem's key, to "
                                                              "authenticate the target, or @FILE", TARGET),
        CALL(0, "tls-key", "KEY", take_tls_key, "TLS on every connection, with this configured PSK: "
                                                "NVMeTLSkey-1:..., or @FILE (TCP)", TARGET),
        FLAG(0, "tls", tls, "the same on the embedded target, with a PSK that is made for it", TARGET),
        NUMBER(0, "tls-identity", "N", tls_version, 0, 1, "version of the PSK identity that we offer: 0, or 1, which has a "
                                                          "digest of the PSK (0)", TARGET),
        CHOICE(0, "tls-derivation", "HOW", tls_derivation, "printed|old", "how we derive keys: printed, as RFC 8446 has it, "
                                                                          "or old, as nvme-cli 2.x did (printed)", TARGET),
        CALL(0, "tls-host", "HOSTNQN=KEY", take_tls_host, "another host that the target knows, and its "
                                                          "configured PSK there, or @FILE; repeatable. One with "
                                                          "a wrong checksum must not work", TARGET),
        CALL(0, "psk-lifetime", "S", take_psk_lifetime, "seconds that the target keeps a PSK that authentication "
                                                        "has generated (ten minutes, which is too long to "
                                                        "wait for unless this says so)", TARGET),
        CALL(0, "tls-keylog", "FILE", take_tls_keylog, "append the secrets of each TLS connection to it, in "
                                                       "SSLKEYLOGFILE's format, for pcap --keylog", TARGET),
        CALL(0, "denied-nqn", "NQN", take_denied, "a subsystem of the target that does not "
                                                  "allow our host", TARGET),
        CALL(0, "static-nqn", "NQN", take_static, "a subsystem of the target whose controllers "
                                                  "are of the static model", TARGET),
        STRING(0, "administrative-nqn", "NQN", peer.administrative,
               "a subsystem of the target whose controllers are administrative ones", TARGET),
        STRING(0, "expendable-nqn", "NQN", peer.expendable, "a subsystem of the target that cases may reset, shut down and format as a whole", TARGET),
        STRING(0, "formats-nqn", "NQN", peer.formats, "a subsystem of the target, with namespaces of extended formats (a storage tag, or a guard of 32 or 64 bits), that cases may write and format", TARGET),
        NUMBER(0, "masked-nsid", "N", masked_nsid, 1, UINT32_MAX - 1, "a namespace of the tested subsystem, or of --masked-nqn, "
                                                                 "that is there and not attached for our host", TARGET),
        STRING(0, "masked-nqn", "NQN", peer.masked, "the subsystem of --masked-nsid, if it is another", TARGET),
        STRING(0, "change", "CMD", change, "shell command: 'CMD namespaces' and 'CMD discovery' "
                                           "each make one such change; exit 77: not possible", TARGET),
        STRING(0, "hook", "CMD", peer.hook, "--role host: the shell's command that makes the host connect, work and go; see below (then -j 1)", TARGET),
        CALL(0, "ns", "SPEC", take_ns, "a namespace: mem:64M, file:PATH, null:1G[,bs=4096]; repeatable", EMBEDDED),
        NUMBER(0, "cpda", "N", cpda, 0, PDU_PDA_MAX, "alignment of data sent to it, 0 to 31", EMBEDDED),
        CALL(0, "limit", "NAME=VALUE", take_limit, "a limit of it (queue_entries=16); repeatable", EMBEDDED),
        CALL(0, "profile", "NAMES", take_profile, "what `nvmfspec target --profile` calls so (strict); repeatable", EMBEDDED),
        CALL(0, "fault", "SPEC", take_fault, "let it go wrong when this says, as target --fault; repeatable", EMBEDDED),
        { 0 },
};
/* clang-format on */

const char nvme_intro[] = "Judges an NVMe/TCP or NVMe/RDMA target, or host. An ID is a case "
                          "(tcp/h2cdata/ttag-unknown), the "
                          "start\nof one (tcp/alignment) or a glob; without any all cases run.\n";
const char nvme_more[] =
    "\n--role host: CMD finds NVMF_TRTYPE, NVMF_TRADDR, NVMF_TRSVCID, NVMF_SUBNQN, "
    "NVMF_HDGST and\nNVMF_DDGST (1: to be asked for), NVMF_DHCHAP_SECRET and "
    "NVMF_DHCHAP_CTRL_SECRET (keys, or nothing),\nNVMF_KATO and NVMF_IDLE (seconds; 0: as "
    "usual, none) in its environment. It makes the host connect,\nwrite some MiB of "
    "namespace 1, be idle, read them back and disconnect, and exits with 0 if all of\nthat "
    "went well, with 77 if the host can't do it, else with something else. Without --hook "
    "the\nreference host is tested.\n";

/* --- all of it ----------------------------------------------------------------------------- */

static bool is_spoilt(const struct options *o)
{
        return !rule_set_empty(&o->policy.waived) || !rule_set_empty(&o->policy.violated) ||
               !rule_set_empty(&o->policy.flaws);
}

static int check_target(const struct nvme_args *a)
{
        const struct options *o = &a->o;

        if (a->peer.hook)
                return options_wrong("--hook is for --role host");
        if (o->suite.traddr &&
            (is_spoilt(o) || a->ns.count > 0 || a->cpda > 0 || a->limited || a->faults.count > 0))
                return options_wrong(
                    "--waive, --violate, --ns, --cpda, --limit, --profile and --fault are for the "
                    "embedded target");
        if (!o->suite.traddr && (a->peer.subnqn || o->suite.trsvcid))
                return options_wrong("-n and -s require -a");
        if (a->peer.masked && !a->masked_nsid)
                return options_wrong("--masked-nqn requires --masked-nsid");
        return 0;
}

/* The embedded target has what the suite names. */
static int check_tls(struct nvme_args *a)
{
        static const struct auth_key psk = { .hash = AUTH_SHA256, .len = 32, .bytes = "of --tls" };

        if ((a->tls || a->peer.tls_always) && strcmp(a->o.suite.transport, "tcp") != 0)
                return options_wrong("TLS is for -t tcp");
        if (!a->tls || a->peer.tls_always)
                return 0;
        if (a->o.suite.traddr)
                return options_wrong(
                    "--tls has a PSK for the embedded target alone: --tls-key names "
                    "that of another one");
        a->peer.tls_always = true;
        a->peer.tls.key = psk;
        return 0;
}

static bool is_about_targets(const struct nvme_args *a)
{
        const struct peer *s = &a->peer;

        return s->subnqn || s->hostnqn || s->hostid || s->hdgst || s->ddgst || a->hpda > 0 ||
               s->may_write || s->slices > 0 || s->dhchap.len > 0 || s->dhchap_ctrl.len > 0 ||
               s->tls_always || a->tls_version > 0 || a->tls_derivation || s->n_tls_hosts > 0 ||
               s->psk_lifetime > 0 || s->denied || s->statics || s->expendable || s->formats ||
               a->masked_nsid > 0 || s->masked || s->administrative || a->change || a->o.wait > 0 ||
               a->ns.count > 0 || a->cpda > 0 || a->limited || a->faults.count > 0;
}

/* A party overlooks what binds its peer, and breaks what binds itself; what a receiver tolerates it may
 * do or overlook, whoever the rule binds. */
static bool is_free(enum rule_id rule)
{
        return rule_get(rule)->reaction == REACT_TOLERATE;
}

static int check_waived(enum rule_id rule, enum party tested)
{
        if (rule_get(rule)->bound != tested || is_free(rule))
                return 0;
        return options_wrong("--waive: '%s' is a rule for the %s itself", rule_get(rule)->id,
                             party_name(tested));
}

static int check_violated(enum rule_id rule, enum party tested)
{
        const char *id = rule_get(rule)->id;

        if (is_free(rule))
                return 0;
        if (rule_get(rule)->bound != tested)
                return options_wrong("--violate: '%s' is a rule for the %s", id,
                                     party_name(peer_of(tested)));
        if (tested == PARTY_HOST && !spoil_host_can(rule))
                return options_wrong("--violate: the host sends nothing that can break '%s'", id);
        return 0;
}

static int check_policy(const struct rule_policy *p, enum party tested)
{
        int bad = 0;

        rule_each_in (&p->flaws, flaw)
                if (nvme_rules.flaws[flaw].host != (tested == PARTY_HOST))
                        return options_wrong("--violate: '%s' is a fault of the %s",
                                             nvme_rules.flaws[flaw].id,
                                             party_name(peer_of(tested)));
        rule_each_in (&p->waived, rule)
                bad = bad ? bad : check_waived(rule, tested);
        rule_each_in (&p->violated, rule)
                bad = bad ? bad : check_violated(rule, tested);
        return bad;
}

static int check_host(const struct nvme_args *a)
{
        const struct options *o = &a->o;

        if (!a->peer.hook && (o->suite.traddr || o->suite.trsvcid))
                return options_wrong("-a and -s require --hook: the reference host needs no "
                                     "address");
        if (a->peer.hook && strlen(a->peer.hook) > HOOK_MAX)
                return options_wrong("--hook is longer than %d bytes", HOOK_MAX);
        if (a->peer.hook && (!rule_set_empty(&o->policy.violated) || o->power))
                return options_wrong("--violate and --power are for the reference host");
        if (o->pcap)
                return options_wrong(
                    "--pcap is for --role target; use --transcript to record hosts");
        if (is_about_targets(a))
                return options_wrong(
                    "of the target's options, --role host accepts only -t, -a, -s and --hook");
        return 0;
}

int nvme_check(struct options *o)
{
        /* Unlike each other: who takes one for another is seen. */
        static const struct option_list several = {
                .items = { "mem:64M", "mem:32M,bs=4096", "mem:80M", "mem:64M,ms=8,pi=1",
                           "mem:64M,ms=8,pi=2", "mem:64M,ms=16,pi=3", "mem:64M,ms=8" },
                .count = 7
        };
        struct nvme_args *a = (struct nvme_args *)(void *)o;
        struct suite *s = &o->suite;
        bool host = s->role == ROLE_HOST;
        int bad = check_tls(a);

        if (!bad)
                bad = host ? check_host(a) : check_target(a);
        if (!bad)
                bad =
                    check_policy(&o->policy, host && !a->peer.hook ? PARTY_HOST : PARTY_CONTROLLER);
        s->peer = &a->peer;
        a->peer.hpda = (uint8_t)a->hpda;
        a->peer.masked_nsid = (uint32_t)a->masked_nsid;
        a->peer.tls.version = (uint8_t)a->tls_version;
        if (a->tls_derivation && strcmp(a->tls_derivation, "old") == 0)
                a->peer.tls.derivation = TLS_OLD;
        if (host && a->peer.hook && o->jobs == 0)
                o->jobs = 1; /* who knows how many at a time it can be asked for */
        if (a->ns.count == 0 && a->profile.ns)
                a->ns = (struct option_list) { .items = { a->profile.ns[0] }, .count = 1 };
        else if (a->ns.count == 0)
                a->ns = several;
        return bad;
}
