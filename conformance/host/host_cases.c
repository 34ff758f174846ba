/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_judge.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/machine/spoil.h"
#include "pdu/nvme/machine/tls_hello.h"

enum {
        PATIENCE = 120000,     /* ms of a target that leaves the end to the host */
        TERM_GRACE_MS = 32000, /* a host has 30 s to close after C2HTermReq (T1.0 3.5) */
};
enum { SAYS = 320, WORK = 1 << 16 /* bytes that a host has to write and to read at least */ };

static void play_alive(struct t *t);
static void play_legal(struct t *t);
static void play_mutual(struct t *t);
static void play_order(struct t *t);
static void play_interleaved(struct t *t);
static void play_success(struct t *t);
static void play_idle(struct t *t);
static void play_refusal(struct t *t);
static void play_breach(struct t *t);
static void play_ending(struct t *t);
static void play_able(struct t *t);
static void play_padded(struct t *t);
static void play_modes(struct t *t);
static void play_unproven(struct t *t);
static void play_crc(struct t *t);
static void play_secret_crc(struct t *t);
static void play_untold(struct t *t);
static void play_without(struct t *t);

/* --- what is legal ------------------------------------------------------------------------- */

#define PLAY(run_, ...) PLAY_OF(run_, NO_RULE, NULL, __VA_ARGS__)
#define LEGAL(...)      PLAY(play_legal, __VA_ARGS__)
#define ABLE(id, ...)   PLAY(play_able, id, MUST, __VA_ARGS__)
#define PADDED(id, ...) PLAY(play_padded, id, MUST, __VA_ARGS__)
#define ALGORITHM(...)  PLAY_OF(play_legal, RULES(HOST_ALGORITHMS), NULL, __VA_ARGS__)
#define KEYS(...)       PLAY_OF(play_legal, RULES(HOST_KEYS), NULL, __VA_ARGS__)

static const char *const large_blocks[] = { "mem:8M,bs=4096", NULL };
static const char *const slow[] = { "mem:8M,delay=100ms", NULL };
static const char *const unordered[] = { "mem:8M,delay=0-10ms", NULL };

/* As they stand, and tied to the NQN of their owner. */
#define KEY       "DHHC-1:00:BwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYDWRHm:"
#define OTHER_KEY "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:"
#define TIED_KEY                                                                                   \
        "DHHC-1:02:ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoOEhYaHiImKi4yNjo+QkZKTvGwQfg==:"
#define TIED_256 "DHHC-1:01:AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dyVhg6h:"
#define TIED_512                                                                                   \
        "DHHC-1:03:CxAVGh8kKS4zOD1CR0xRVltgZWpvdHl+g4iNkpeco"                                      \
        "aarsLW6v8TJztPY3eLn7PH2+wAFCg8UGR4jKC0yNzxBRs4biUQ=:"
/* KEY, and a CRC-32 of another one. */
#define KEY_CRC  "DHHC-1:00:BwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYDWRHn:"
#define KNOWN(k) .key = (k), .secret = (k)
#define HASH(h)  KNOWN(KEY), .hashes = 1 << (h), .cause = FAB_AUTH_HASH
#define GROUP(g) KNOWN(KEY), .groups = 1 << (g), .cause = FAB_AUTH_GROUP

#define CHALLENGE(fault, id, of)                                                                   \
        PLAY_OF(play_breach, RULES(FAB_AUTH_CHALLENGE), NULL, id, MUST,                            \
                "A Challenge " of " ends the authentication and the connection", KNOWN(KEY),       \
                .groups = 1 << AUTH_FFDHE2048 | 1 << AUTH_FFDHE3072, .breaks = FAB_AUTH_CHALLENGE, \
                .flaw = fault)

static const char *const slow_auth[] = { "delay=500ms cmd=fabrics:06h", NULL };

/* It is left to the host to end the connection. */
#define TERMINATES(f)  .flaw = (f), .grace = TERM_GRACE_MS, .target.limits.term_timeout = PATIENCE

#define SECURE(r, ...) PLAY_OF(play_legal, RULES(r), "tcp", __VA_ARGS__)
/* As they stand; wrong; 48 bytes for SHA-384. */
#define PSK_AS_IS "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
#define PSK_CRC   "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrX:"
#define PSK_384                                                                                    \
        "NVMeTLSkey-1:02:AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj"                             \
        "6vH4/wYNFBsiKTA3PkVMRdxyRQ==:"
#define BIT(set, id) .set.bits[(id) / 64] = UINT64_C(1) << (id) % 64

/* clang-format off */
static const struct host_case written[] = {
        LEGAL("fab/connect/works", MUST,
              "The host connects, writes, reads back what it wrote and disconnects", .breaks = RULE_NONE),
        ABLE("fab/connect/one-io-queue", "The host works with a single I/O queue",
              .target.limits.queues = 1),
        ABLE("fab/connect/small-queues", "The host works with queues of at most 16 entries",
              .target.limits.queue_entries = 16),
        LEGAL("fab/connect/flow-control-kept", MUST,
              "The host follows SQHD where SQ flow control stays enabled",
              .target.no_sqfc_disable = true),
        ABLE("base/identify/mdts", "The host sends no transfer above an MDTS of 8 KiB",
              .target.limits.max_transfer = KIB(8)),
        ABLE("nvm/host/large-blocks", "The host works with blocks of 4,096 bytes",
              .target.ns = large_blocks),
        PLAY(play_order, "nvm/host/any-order", MUST, "The host accepts responses in any order",
             .target.ns = unordered, .target.limits.max_transfer = KIB(32)), /* many at once */
        LEGAL("nvm/host/slow", MUST, "The host waits for commands that take a tenth of a second",
              .target.ns = slow),
        PLAY(play_idle, "fab/keep-alive/keep-alive", MUST,
             "The host sends Keep Alive while it is idle", .kato = 6, .idle = 15),
        KEYS("fab/auth/one-way", MUST, "The host authenticates itself", KNOWN(KEY)),
        PLAY(play_mutual, "fab/auth/mutual", MUST, "The host authenticates itself and the controller",
             KNOWN(KEY), .ctrl_key = OTHER_KEY),
        KEYS("fab/auth/tied-keys", MUST, "The host supports keys that are bound to NQNs", KNOWN(TIED_KEY),
              .ctrl_key = TIED_KEY),
        KEYS("fab/auth/tied-sha256", MUST, "The host supports keys that are bound to NQNs by SHA-256",
             KNOWN(TIED_256)),
        KEYS("fab/auth/tied-sha512", MUST,
             "The host supports keys of 64 bytes that are bound to NQNs by SHA-512", KNOWN(TIED_512)),
        PLAY_OF(play_secret_crc, RULES(HOST_KEY_CHECKED), NULL, "fab/auth/key-crc", MUST,
                "The host does not use a secret whose CRC-32 is wrong", .key = KEY, .secret = KEY_CRC),
        CHALLENGE(FLAW_AUTH_DHV_0, "fab/auth/challenge-dhv-0", "of the DH value 0"),
        CHALLENGE(FLAW_AUTH_DHV_1, "fab/auth/challenge-dhv-1", "of the DH value 1"),
        CHALLENGE(FLAW_AUTH_DHVLEN_0, "fab/auth/challenge-dhvlen-0", "without the DH value of its group"),
        CHALLENGE(FLAW_AUTH_HL, "fab/auth/challenge-hl", "whose HL is not that of its hash function"),
        ALGORITHM("fab/auth/sha256", MUST, "The host authenticates itself with SHA-256", HASH(AUTH_SHA256)),
        LEGAL("fab/auth/sha384", INFO, "The host authenticates itself with SHA-384", HASH(AUTH_SHA384)),
        LEGAL("fab/auth/sha512", INFO, "The host authenticates itself with SHA-512", HASH(AUTH_SHA512)),
        ALGORITHM("fab/auth/no-dh", SHOULD,
              "The host authenticates itself without a DH exchange", GROUP(AUTH_NO_DH)),
        ALGORITHM("fab/auth/ffdhe2048", SHOULD, "The host authenticates itself with a DH group of 2,048 bits",
              GROUP(AUTH_FFDHE2048)),
        ALGORITHM("fab/auth/ffdhe3072", MUST, "The host authenticates itself with a DH group of 3,072 bits",
              GROUP(AUTH_FFDHE3072)),
        LEGAL("fab/auth/ffdhe4096", INFO, "The host authenticates itself with a DH group of 4,096 bits",
              GROUP(AUTH_FFDHE4096)),
        LEGAL("fab/auth/ffdhe6144", INFO, "The host authenticates itself with a DH group of 6,144 bits",
              GROUP(AUTH_FFDHE6144)),
        LEGAL("fab/auth/ffdhe8192", INFO, "The host authenticates itself with a DH group of 8,192 bits",
              GROUP(AUTH_FFDHE8192)),
        PLAY_OF(play_unproven, RULES(FAB_AUTH_PROOF), NULL, "fab/auth/unproven", MUST,
                "The host works with no controller that was asked for a proof and gives none",
                KNOWN(KEY), .ctrl_key = OTHER_KEY, .breaks = FAB_AUTH_SUCCESS),
        PLAY_OF(play_legal, RULES(FAB_AUTH_SLOW), NULL, "fab/auth/slow", SHOULD,
                "The host waits for Authentication Receives that take half a second", KNOWN(KEY),
                .target.faults = slow_auth),
        PLAY(play_refusal, "fab/auth/no-key", MUST,
             "The host reports an error when it has no key", .key = KEY, .cause = FAB_AUTH_REQUIRED),
        PLAY(play_refusal, "fab/auth/other-key", MUST,
             "The host reports an error when its key is not accepted",
             .key = KEY, .secret = OTHER_KEY, .cause = FAB_AUTH_R1),
        LEGAL("tcp/setup/no-digests", INFO,
              "The host works without the digests that it asked for when the controller declines them",
              .hdgst = true, .ddgst = true, .target.no_hdgst = true, .target.no_ddgst = true),
        PADDED("tcp/alignment/cpda-3", "The host pads data to multiples of 16 bytes", .target.cpda = 3),
        PADDED("tcp/alignment/cpda-31", "The host pads data to multiples of 128 bytes", .target.cpda = 31),
        ABLE("tcp/capsule/small-capsules",
              "The host sends at most 512 bytes of in-capsule data where IOCCSZ allows no more",
              .target.limits.in_capsule = 512),
        LEGAL("tcp/capsule/large-capsules", MUST, "The host works with capsules of 16 KiB",
              .target.limits.in_capsule = KIB(16)),
        LEGAL("tcp/digest/header-digest", MUST, "The host works with header digests", .hdgst = true),
        LEGAL("tcp/digest/data-digest", MUST, "The host works with data digests", .ddgst = true),
        LEGAL("tcp/digest/both-digests", MUST, "The host works with header and data digests", .hdgst = true,
              .ddgst = true),
        PADDED("tcp/digest/digests-padded", "The host works with digests and padding", .hdgst = true,
               .ddgst = true, .target.cpda = 31),
        LEGAL("tcp/c2hdata/no-success", MUST,
              "The host waits for responses where the controller does not use SUCCESS",
              .target.no_success = true),
        LEGAL("tcp/icresp/small-maxh2cdata", MUST,
              "The host sends no H2CData above a MAXH2CDATA of 4,096 bytes",
              .target.limits.maxh2cdata = KIB(4)),
        LEGAL("tcp/icresp/odd-maxh2cdata", MUST,
              "The host sends no H2CData above a MAXH2CDATA of 4,100 bytes",
              .target.limits.maxh2cdata = KIB(4) + 4),
        LEGAL("tcp/r2t/several", MUST, "The host sends the data of a Write for R2Ts of 4 KiB",
              .target.limits.r2t = KIB(4)),
        LEGAL("tcp/r2t/odd", MUST, "The host sends the data of a Write for R2Ts of 1,000 bytes",
              .target.limits.r2t = 1000),
        LEGAL("tcp/c2hdata/odd", MUST, "The host works with C2HData of 1,000 bytes",
              .target.limits.c2hdata = 1000),
        ABLE("rdma/in-capsule/none",
              "The host works without in-capsule data", .target.no_in_capsule = true),
        ABLE("rdma/sgl/one-descriptor",
              "The host uses a single SGL descriptor where MSDBD is 1", .target.msdbd = 1),
        LEGAL("rdma/in-capsule/offset", INFO,
              "The host places in-capsule data as an ICDOFF of 1 asks", .target.icdoff = 1),
        PLAY(play_refusal, "fab/connect/refused", MUST,
             "The host reports an error when its Connect is refused",
             .stranger = true, .cause = FAB_CONNECT_SUBNQN),
        PLAY_OF(play_legal, RULES(HOST_READY), NULL, "fab/ready/slow", SHOULD,
                "The host waits for a controller that is ready after 3 seconds",
                .target.limits.ready_time = 3000),
        PLAY(play_refusal, "fab/ready/fatal", SHOULD,
             "The host reports an error when the controller reports a fatal status",
             .flaw = FLAW_FATAL),
        PLAY_OF(play_legal, RULES(DISC_REREAD), NULL, "fab/discovery/moves", SHOULD,
                "The host reads the discovery log again when GENCTR has changed meanwhile",
                .flaw = FLAW_DISC_RESTLESS),
        PLAY_OF(play_ending, RULES(TCP_TERM_CLOSE_H2C), "tcp", "tcp/termreq/host-closes", MUST,
                "The host ends the connection on which it receives C2HTermReq",
                TERMINATES(FLAW_TERM_UNPROVOKED)),
        PLAY_OF(play_ending, RULES(TCP_TERM_CLOSE_H2C), "tcp", "tcp/termreq/host-closes-setup", MUST,
                "The host ends the connection on which C2HTermReq comes in place of ICResp",
                TERMINATES(FLAW_IC_TERM)),
        PLAY_OF(play_ending, RULES(TCP_TERM_CLOSE_H2C), "tcp", "tcp/termreq/host-closes-connect", MUST,
                "The host ends the connection on which C2HTermReq comes in place of the Connect response",
                TERMINATES(FLAW_TERM_CONNECT)),
        PLAY_OF(play_ending, RULES(TCP_IC_TIMEOUT), "tcp", "tcp/setup/ic-timeout", MUST,
                "The host ends a connection on which no ICResp comes", .flaw = FLAW_IC_SILENT,
                .target.limits.ic_timeout = PATIENCE),
        PLAY_OF(play_legal, RULES(TCP_HOST_SEGMENTS), "tcp", "tcp/header/in-pieces", MUST,
                "The host accepts PDUs that arrive in segments of 97 bytes",
                .target.limits.segment = 97),
        SECURE(TLS_HOST_WORKS, "tcp/tls/works", MUST, "The host works over TLS 1.3, with a PSK for SHA-256",
               TLS(PSK), .target.tls_required = false, .target.tls.suite = TLS_AES_128_GCM),
        SECURE(TLS_HOST_AES_256, "tcp/tls/aes-256", SHOULD, "The host works over TLS with TLS_AES_256_GCM_SHA384",
               TLS(PSK_384), .target.tls.suite = TLS_AES_256_GCM),
        SECURE(TLS_HOST_KEYS, "tcp/tls/key-sha384", MUST,
               "The host retains a configured PSK by SHA-384 where that says so", TLS(PSK_384)),
        SECURE(TLS_HOST_KEYS, "tcp/tls/key-as-is", MUST,
               "The host retains a configured PSK as it stands where that says so", TLS(PSK_AS_IS)),
        SECURE(TLS_HOST_FFDHE3072, "tcp/tls/ffdhe3072", MUST,
               "The host works over TLS with a controller that accepts ffdhe3072 alone", TLS(PSK),
               .target.tls.groups = "ffdhe3072", .target.tls.dhe_only = true),
        SECURE(TLS_HOST_SECP384R1, "tcp/tls/secp384r1", SHOULD,
               "The host works over TLS with a controller that accepts secp384r1 alone", TLS(PSK),
               .target.tls.groups = "P-384", .target.tls.dhe_only = true),
        PLAY_OF(play_modes, RULES(TLS_HOST_MODES), "tcp", "tcp/tls/modes", MUST,
                "The host offers key exchange by PSK alone and by PSK with (EC)DHE", TLS(PSK)),
        PLAY_OF(play_crc, RULES(TLS_HOST_CRC), "tcp", "tcp/tls/key-crc", MUST,
                "The host does not use a configured PSK whose CRC-32 is wrong", TLS(PSK), .told_psk = PSK_CRC),
        PLAY_OF(play_without, RULES(TLS_HOST_REQUIRES), "tcp", "tcp/tls/refused", MUST,
                "The host that is to use TLS does not work without it", .told_psk = PSK),
        PLAY_OF(play_untold, RULES(TLS_HOST_TRIES), "tcp", "tcp/tls/untold", SHOULD,
                "The host uses TLS where the discovery log tells of none", TLS(PSK),
                .target.tls_required = false, .target.tls_untold = true),
        PLAY_OF(play_legal, NO_RULE, "tcp", "tcp/tls/told", MUST,
                "The host uses TLS where the discovery log requires it", TLS(PSK),
                .target.tls_required = false, BIT(target.policy.violated, TLS_REQUIRED)),
        PLAY_OF(play_legal, NO_RULE, "tcp", "tcp/tls/concatenation", MUST,
                "The host generates a PSK when it authenticates itself, and works over TLS with it",
                .key = KEY, .secret = KEY, .concat = true, .target.concat = CONCAT_PERMITTED),
        PLAY_OF(play_interleaved, RULES(TCP_HOST_ORDER), "tcp", "tcp/c2hdata/interleaved", MUST,
                "The host accepts interleaved C2HData of several commands",
                .target.limits.c2hdata = KIB(4)),
        PLAY_OF(play_success, RULES(TCP_HOST_SUCCESS), "tcp", "tcp/c2hdata/success", MUST,
                "The host completes a Read by C2HData with SUCCESS", .breaks = RULE_NONE),
};
/* clang-format on */

enum { WRITTEN = sizeof(written) / sizeof(written[0]) };

/* As the first of them, but it may leave out what it can't do. */
static const struct host_case alive =
    PLAY(play_alive, "fab/connect/works", MUST, "The host connects, works and disconnects",
         .breaks = RULE_NONE);

const struct test_case *host_liveness(void)
{
        return &alive.test;
}

const struct play *play_of(const struct t *t)
{
        return &((const struct host_case *)(const void *)t->test)->play;
}

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127, SIGNALLED = 128 };

/* The signal by which the host brought itself down, as a shell says it; 0: none. Another one came from outside, and many
 * programs exit with a negative errno. */
static int crash(const struct played *seen)
{
        static const int crashes[] = { SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS };

        for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
                if (seen->status == SIGNALLED + crashes[i])
                        return crashes[i];
        return 0;
}

/* A hook that does not run says nothing, and one whose host was killed by its own doing says all: not what the case is
 * about, if the target never came to break that. */
static void want_orderly(struct t *t, const struct played *seen)
{
        bool right = play_of(t)->breaks != RULE_NONE && !seen->broken;

        if (!peer(t)->hook)
                return;
        if (seen->status == NOT_EXECUTABLE || seen->status == NOT_FOUND)
                broke(t, "the hook can't be run (%d): %s", seen->status, seen->says);
        if (!crash(seen) || peer(t)->fails)
                return;
        if (right)
                blame(t, RULE_NONE);
        harm(t, "the host works, or fails in an orderly way", "signal %d ended it%s: %s",
             crash(seen), right ? ", though the target broke no rule" : "", seen->says);
}

struct played play_own(struct t *t)
{
        const struct play *p = play_of(t);
        struct played seen;

        if ((p->key || p->psk || p->told_psk) && !auth_openssl())
                skip(t, "this program was built without OpenSSL");
        play(t, p, &seen);
        if (seen.status == PLAY_CANNOT && peer(t)->hook)
                skip(t, "the host does not support this: %s", seen.says);
        if (seen.connections == 0)
                broke(t, "no host connected; the hook ended with %d: %s", seen.status, seen.says);
        want_orderly(t, &seen);
        if (seen.status == 0 && ((p->hdgst && !seen.hdgst) || (p->ddgst && !seen.ddgst)))
                skip(t, "the host did not ask for these digests");
        if ((p->psk || p->concat) && !seen.hellos)
                skip(t, "the host did not begin TLS");
        if (p->secret && !seen.negotiated)
                skip(t, "the host did not begin to authenticate itself");
        return seen;
}

static void want_done(struct t *t, const struct played *seen)
{
        if (seen->status != 0)
                fail(t, "the host completes its work", "it failed with %d: %s", seen->status,
                     seen->says);
}

/* Some programs end with 0 whatever happened. */
static bool gave_up(const struct t *t, const struct played *seen)
{
        return peer(t)->hook && peer(t)->moves && seen->read + seen->written == 0 && seen->broken &&
               !seen->left;
}

void want_failure(struct t *t, const struct played *seen, const char *expected)
{
        if (seen->status == 0 && !gave_up(t, seen))
                fail(t, expected, "the host continued without an error");
        if (seen->status != PLAY_HUNG || (!seen->left && seen->broken))
                return;
        if (rests_on_own_reading(t, t->rule)) /* it may wait for what the target did not send */
                fail(t, expected, "the host neither failed nor disconnected: %s", seen->says);
        harm(t, expected, "the host neither failed nor disconnected: %s", seen->says);
}

void want_meaning(struct t *t, const struct played *seen)
{
        if (peer(t)->fails && seen->status != 0 && !seen->accepted)
                skip(t, "the host fails even with a correct target (here with %d: %s)",
                     seen->status, seen->says);
}

/* What a host need not be able to do it may leave out of what it offers. */
static void want_live(struct t *t, const struct played *seen)
{
        if (seen->caused && t->test->level != MUST)
                skip(t, "the host does not offer this");
        want_done(t, seen);
        if (seen->commands == 0)
                broke(t, "the host sent the subsystem no command");
}

static struct played live(struct t *t)
{
        struct played seen = play_own(t);

        want_live(t, &seen);
        return seen;
}

void want_work(struct t *t, const struct played *seen)
{
        want_live(t, seen);
        if (seen->written < WORK || seen->read < WORK)
                skip(t,
                     "the host wrote %llu KiB and read %llu KiB; this case needs at least 64 "
                     "KiB of each",
                     (unsigned long long)seen->written >> 10, (unsigned long long)seen->read >> 10);
}

static struct played work(struct t *t)
{
        struct played seen = play_own(t);

        want_work(t, &seen);
        return seen;
}

static void play_alive(struct t *t)
{
        struct played seen = live(t);

        peer(t)->moves = peer(t)->moves || seen.read + seen.written > 0;
}

static void play_legal(struct t *t)
{
        work(t);
}

/* What no sentence obliges a host to work with: that it sends nothing then, and leaves in order, is right, too. */
static void play_able(struct t *t)
{
        struct played seen = play_own(t);
        bool refuses = seen.status != 0 && seen.status != PLAY_HUNG;

        if (refuses && seen.io == 0)
                lenient(t, "the host works", "it does nothing, and ends with %d: %s", seen.status,
                        seen.says);
        else
                want_work(t, &seen);
}

/* T1.0 3.1: a parameter of ICResp may be one that a host does not support, and H2CTermReq says so. */
static void play_padded(struct t *t)
{
        struct played seen = play_own(t);
        bool refused = seen.status != 0 && seen.status != PLAY_HUNG && seen.commands == 0;

        if (refused && seen.unsupported)
                skip(t, "the host does not support CPDA %u", play_of(t)->target.cpda);
        if (refused)
                lenient(t, "the host works, or says by H2CTermReq that CPDA is not supported",
                        "it failed with %d: %s", seen.status, seen.says);
        else
                want_work(t, &seen);
}

static void play_mutual(struct t *t)
{
        if (!work(t).proven)
                fail(t, "the host challenges the controller",
                     "the host did not ask for the "
                     "controller's authentication");
}

static void play_order(struct t *t)
{
        if (!work(t).overtaken)
                skip(t, "the host never had two commands in flight on one queue for long enough");
}

static void play_interleaved(struct t *t)
{
        if (!work(t).interleaved)
                skip(t, "the host never had two Reads in flight on one queue for long enough");
}

static void play_success(struct t *t)
{
        if (!work(t).implied)
                skip(t, "the host did not let the controller disable SQ flow control");
}

/* That it sends Keep Alive is a should (B2.2 3.9.3.2): a host that does not, and says that it lost its association or
 * connects another one, is right, too. */
static void play_idle(struct t *t)
{
        struct played seen = play_own(t);
        bool fails = seen.status != 0 && seen.status != PLAY_HUNG;

        if (seen.kato == 0)
                skip(t, "the host did not ask for Keep Alive");
        if (fails && seen.silent >= seen.kato) {
                lenient(t, "the association lives on",
                        "the host sent no command for %u ms, with a KATO of %u ms, and ended with "
                        "%d: %s",
                        (unsigned)seen.silent, (unsigned)seen.kato, seen.status, seen.says);
                return;
        }
        if (seen.idle <= seen.kato && seen.status == 0)
                skip(t, "the host was idle for only %u ms, with a KATO of %u ms",
                     (unsigned)seen.idle, (unsigned)seen.kato);
        want_done(t, &seen);
        if (seen.renewed)
                lenient(t, "the association lives on",
                        "the host connected a new association after %u ms without a command",
                        (unsigned)seen.idle);
}

/* What failed before the controller had refused anything says nothing of how the host takes that. */
static void play_refusal(struct t *t)
{
        struct played seen = play_own(t);

        want_meaning(t, &seen);
        if (seen.status == PLAY_HUNG && seen.tries > 1) /* as it may (B2.2 9.1) */
                skip(t, "the host goes on trying: %u admin queues", seen.tries);
        want_failure(t, &seen, "an error");
        if (play_of(t)->stranger ? !seen.refused : seen.associations == 0)
                skip(t, "the host did not do what this case needs");
}

/* Only who asked for it lacks the proof. */
static void play_unproven(struct t *t)
{
        struct played seen;

        t->negative = true;
        seen = play_own(t);
        if (!seen.broken)
                skip(t, "the host did not ask for the controller's authentication");
        want_meaning(t, &seen);
        want_failure(t, &seen, "an error");
}

/* Of its own accord, since the target does not. */
static void play_ending(struct t *t)
{
        struct played seen = play_own(t);

        if (!seen.broken)
                skip(t, "the host did not do what this case needs");
        want_meaning(t, &seen);
        if (seen.status == PLAY_HUNG && play_of(t)->flaw == FLAW_IC_SILENT) {
                lenient(t, "the host ends the connection",
                        "it waits on; how long it may is not printed");
                return;
        }
        want_failure(t, &seen, "an error");
        if (seen.left)
                fail(t, "the host ends the connection",
                     "the host left the connection open (and failed with %d: %s)", seen.status,
                     seen.says);
}

/* --- TLS ----------------------------------------------------------------------------------------- */

static void play_modes(struct t *t)
{
        struct played seen = play_own(t);

        want_done(t, &seen);
        if (!(seen.modes & TLS_PSK_KE))
                fail(t, "the host offers PSK alone (psk_ke)", "it offers PSK with (EC)DHE alone");
        if (!(seen.modes & TLS_PSK_DHE_KE))
                fail(t, "the host offers PSK with (EC)DHE (psk_dhe_ke)", "it offers PSK alone");
}

void want_tls(struct t *t)
{
        static const struct play right = { TLS(PSK), .breaks = RULE_NONE };
        struct played seen;

        if (!auth_openssl())
                skip(t, "this program was built without OpenSSL");
        if (peer(t)->tls_state == TLS_UNTRIED) {
                play(t, &right, &seen);
                if (seen.hellos && seen.status == 0)
                        peer(t)->tls_state = TLS_WORKS;
                else if (seen.status != PLAY_HUNG)
                        peer(t)->tls_state = TLS_FAILS;
        }
        if (peer(t)->tls_state != TLS_WORKS)
                skip(t, "the host does not work over TLS");
}

static void play_crc(struct t *t)
{
        struct played seen;

        want_tls(t);
        play(t, play_of(t), &seen);
        want_orderly(t, &seen);
        want_failure(t, &seen, "an error");
        if (seen.hellos)
                fail(t, "the host does not use the PSK", "it began TLS %u times", seen.hellos);
}

static void play_secret_crc(struct t *t)
{
        struct played seen;

        if (!auth_openssl())
                skip(t, "this program was built without OpenSSL");
        play(t, play_of(t), &seen);
        if (seen.status == PLAY_CANNOT && peer(t)->hook)
                skip(t, "the host does not support this: %s", seen.says);
        want_orderly(t, &seen);
        want_meaning(t, &seen);
        want_failure(t, &seen, "an error");
}

static void play_without(struct t *t)
{
        struct played seen;

        want_tls(t);
        play(t, play_of(t), &seen);
        want_orderly(t, &seen);
        if (seen.commands)
                fail(t, "the host ends its connections", "it sent %u commands without TLS",
                     seen.commands);
        want_failure(t, &seen, "an error");
}

static void play_untold(struct t *t)
{
        struct played seen;

        want_tls(t);
        play(t, play_of(t), &seen);
        want_orderly(t, &seen);
        if (seen.commands > seen.secured)
                fail(t, "the host uses TLS", "it sent %u commands without TLS",
                     seen.commands - seen.secured);
        want_done(t, &seen);
}

/* --- what breaks a rule -------------------------------------------------------------------- */

static struct host_case breaches[RULES];
static char sentences[RULES][SAYS];

/* What the host is to do, after the rule's own sentence. */
static const char *const answers[] = {
        [REACT_NONE] = "survives it",
        [REACT_TERM] = "ends the connection",
        [REACT_STATUS] = "fails the command",
        [REACT_CLOSE] = "closes the connection",
        [REACT_ANY] = "fails the command or ends the connection",
        [REACT_REFUSE] = "fails the command or ends the connection",
        [REACT_REJECT] = "does not connect",
        [REACT_AUTH] = "reports it and ends the connection",
        [REACT_TOLERATE] = "works on",
};

/* Whether the host ended the connection, and with a word of why: the wrong one. */
static bool ended_wrongly(struct t *t, const struct played *seen, const char *expected)
{
        want_failure(t, seen, expected);
        if (seen->left)
                fail(t, expected, "the host left the connection open (and failed with %d: %s)",
                     seen->status, seen->says);
        if (!seen->said)
                lenient(t, expected, "the host closed the connection without saying why");
        return seen->said && !seen->accepted;
}

static void judge_term(struct t *t, const struct played *seen)
{
        static const char expected[] = "the host ends the connection with H2CTermReq, as the "
                                       "rule says";

        if (ended_wrongly(t, seen, expected))
                lenient(t, expected, "H2CTermReq with FES %02Xh, FEI %u", seen->code, seen->place);
}

/* T1.0 3.5: what is wrong with a TermReq is ignored. */
static void judge_close(struct t *t, const struct played *seen)
{
        static const char expected[] = "the host closes the connection without H2CTermReq";

        want_failure(t, seen, expected);
        if (seen->left)
                fail(t, expected, "the host left the connection open (and failed with %d: %s)",
                     seen->status, seen->says);
        if (seen->said)
                lenient(t, expected, "H2CTermReq with FES %02Xh, FEI %u", seen->code, seen->place);
}

static void judge_failure(struct t *t, const struct played *seen)
{
        static const char expected[] =
            "the host ends the connection with AUTH_Failure2, as the rule says";

        if (ended_wrongly(t, seen, expected))
                lenient(t, expected, "AUTH_Failure2 with RCODEEX %u", seen->code);
}

static void judge_status(struct t *t, const struct played *seen)
{
        static const char expected[] = "the host fails the command and keeps the connection";

        want_failure(t, seen, expected);
        if (seen->said)
                lenient(t, expected, "the host ended the connection");
}

static enum reaction owed(enum rule_id rule)
{
        return rule_get(rule)->unowed ? REACT_NONE : rule_get(rule)->reaction;
}

static void judge_breach(struct t *t, const struct played *seen)
{
        switch (owed(t->rule)) {
        case REACT_TERM:
                judge_term(t, seen);
                break;
        case REACT_CLOSE:
                judge_close(t, seen);
                break;
        case REACT_STATUS:
                judge_status(t, seen);
                break;
        case REACT_ANY:
        case REACT_REFUSE:
        case REACT_REJECT:
                want_failure(t, seen, "the host fails the command or ends the connection");
                break;
        case REACT_AUTH:
                judge_failure(t, seen);
                break;
        case REACT_TOLERATE:
                want_done(t, seen);
                break;
        case REACT_NONE: /* it may fail, but why it did nobody can tell; whether it lives is asked next */
                if (seen->status != 0 && peer(t)->hook)
                        skip(t,
                             "the host failed with %d: %.200s; it may, but whether that is why is "
                             "not known",
                             seen->status, seen->says);
                break;
        }
}

static void play_breach(struct t *t)
{
        struct played seen;

        t->negative = true;
        seen = play_own(t);
        if (!seen.broken)
                skip(t, "the host did not do what this case needs");
        want_meaning(t, &seen);
        judge_breach(t, &seen);
        if (seen.status != 0)
                note(t, "the host failed with %d: %.200s", seen.status, seen.says);
}

/* What no capture shows is not played. What ends a connection, or an authentication, is broken by its own
 * machine where no table of violators has it. */
static bool is_played(const struct rule *r)
{
        return r->bound == PARTY_CONTROLLER && (r->seen & SEEN_CAPTURE) &&
               ((r->violators & (V_TABLES | V_AUTH)) || r->reaction == REACT_TERM ||
                r->reaction == REACT_ANY);
}

static void make_breach(struct host_case *c, enum rule_id rule, char *says)
{
        static unsigned rules[RULES][2];
        const struct rule *r = rule_get(rule);
        bool needs_key = r->violators & V_AUTH;

        rules[rule][0] = rule;
        rules[rule][1] = RULE_NONE;
        snprintf(says, SAYS, "%.*s; if not, the host %s", (int)strlen(r->says) - 1, r->says,
                 answers[owed(rule)]);
        *c = (struct host_case) {
                .test = { .family = &nvme_conform,
                          .id = r->id,
                          .level = r->level,
                          .rules = rules[rule],
                          .says = says,
                          .run = play_breach,
                          .only = spoil_can_rdma(rule) || needs_key ? NULL : "tcp" },
                .play = { .breaks = rule,
                          .flaw = r->reaction == REACT_CLOSE ? FLAW_TERM_UNPROVOKED : FLAW_NONE,
                          .hdgst = rule == TCP_HDGST_C2H || rule == TCP_TERM_DIGEST_C2H,
                          .ddgst = rule == TCP_DDGST_C2H,
                          .target.limits.maxh2cdata = KIB(64) },
        };
        if (r->reaction == REACT_CLOSE) {
                c->play.grace = TERM_GRACE_MS;
                c->play.target.limits.term_timeout = PATIENCE;
        }
        if (needs_key) {
                c->play.key = c->play.secret = KEY;
                c->play.ctrl_key = OTHER_KEY;
        }
}

/* --- all of them --------------------------------------------------------------------------- */

const struct test_case **host_cases(size_t *count)
{
        size_t n = 0, of_tls;
        const struct host_case *tls = tls_host_cases(&of_tls);
        const struct test_case **all =
            must_have(calloc(WRITTEN + of_tls + (size_t)RULES, sizeof(struct test_case *)));

        for (size_t i = 0; i < WRITTEN; i++)
                all[n++] = &written[i].test;
        for (size_t i = 0; i < of_tls; i++)
                all[n++] = &tls[i].test;
        rule_each (rule) {
                if (!is_played(rule_get(rule)))
                        continue;
                make_breach(&breaches[rule], rule, sentences[rule]);
                all[n++] = &breaches[rule].test;
        }
        *count = n;
        return all;
}
