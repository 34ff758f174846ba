/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_flaws.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "pdu/core/wipe.h"
#include "pdu/io/stream.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/machine/tls_hello.h"

enum { ANSWER_MS = 500, BOTH_SUITES = 1 << TLS_AES_128_GCM | 1 << TLS_AES_256_GCM };

struct greeting {
        const struct host_params *params;
        enum flaw_id flaw;
        struct tls_psk psk, also;
        struct tls_hello hello;
};

static enum tls_suite suite_of(const struct nvme_tls *tls)
{
        return tls->key.len == tls_key_len(TLS_AES_128_GCM) ? TLS_AES_128_GCM : TLS_AES_256_GCM;
}

static bool derive(const struct host_params *p, bool generated, struct tls_psk *psk)
{
        struct tls_identity id = { .version = p->tls.version,
                                   .suite = suite_of(&p->tls),
                                   .generated = generated };

        snprintf(id.hostnqn, sizeof(id.hostnqn), "%s", p->hostnqn);
        snprintf(id.subnqn, sizeof(id.subnqn), "%s", p->subnqn);
        return tls_key_derive(auth_openssl(), &p->tls.key, &id, p->tls.derivation, psk) == 0;
}

static void is_old(struct greeting *g)
{
        g->hello.version = TLS_1_1;
        g->hello.psk = NULL;
}

static void has_no_psk(struct greeting *g)
{
        g->hello.psk = NULL;
}

static void mixes_hashes(struct greeting *g)
{
        g->hello.suites ^= BOTH_SUITES;
}

static void has_one_key(struct greeting *g)
{
        g->hello.suites = BOTH_SUITES;
}

static void lacks_hash(struct greeting *g)
{
        enum { HASH_AT = 6 };

        g->psk.identity[HASH_AT] = '9';
}

static void has_both_kinds(struct greeting *g)
{
        if (derive(g->params, true, &g->also))
                g->hello.also = &g->also;
}

static void has_old_share(struct greeting *g)
{
        (void)g; /* all that are made by hand have the same */
}

static void is_early(struct greeting *g)
{
        g->hello.early = true;
}

static const struct {
        enum flaw_id flaw;
        void (*spoil)(struct greeting *g);
        unsigned times;
} greetings[] = {
        { FLAW_HOST_TLS_OLD, is_old, 1 },          { FLAW_HOST_TLS_NO_PSK, has_no_psk, 1 },
        { FLAW_HOST_TLS_HASH, mixes_hashes, 1 },   { FLAW_HOST_TLS_ONE_KEY, has_one_key, 1 },
        { FLAW_HOST_TLS_IDENTITY, lacks_hash, 1 }, { FLAW_HOST_TLS_BOTH, has_both_kinds, 1 },
        { FLAW_HOST_TLS_SHARE, has_old_share, 2 }, { FLAW_HOST_TLS_EARLY, is_early, 1 },
};

/* Waits until something comes: else it would be gone before it is read. */
static void send_hello(const struct greeting *g)
{
        uint8_t record[TLS_HELLO_MAX];
        size_t len = tls_hello_build(auth_openssl(), &g->hello, record);
        const struct iovec iov = { record, len };
        char error[NET_ERROR];
        struct stream s;

        if (len == 0 || stream_connect(&s, g->params->traddr, g->params->trsvcid,
                                       g->params->timeout, error, sizeof(error)) < 0)
                return;
        if (stream_write(&s, &iov, 1) == (ssize_t)len)
                (void)stream_wait(&s, POLLIN, ANSWER_MS);
        stream_close(&s, false);
}

static void greet(struct greeting *g, void (*spoil)(struct greeting *g), uint8_t number)
{
        g->hello = (struct tls_hello) { .version = TLS_1_3,
                                        .suites = 1u << suite_of(&g->params->tls),
                                        .modes = TLS_PSK_KE | TLS_PSK_DHE_KE,
                                        .group = TLS_FFDHE3072,
                                        .psk = &g->psk };
        memcpy(g->hello.random, g->params->hostid, sizeof(g->params->hostid));
        g->hello.random[31] = number;
        if (derive(g->params, false, &g->psk)) {
                spoil(g);
                send_hello(g);
        }
        wipe(&g->psk, sizeof(g->psk));
        wipe(&g->also, sizeof(g->also));
}

void host_greet_wrongly(const struct host_params *p)
{
        struct greeting g = { .params = p };

        if (!p->tls.key.len || !auth_openssl())
                return;
        for (size_t i = 0; i < sizeof(greetings) / sizeof(greetings[0]); i++)
                for (unsigned n = 0; flawed(p->policy, greetings[i].flaw) && n < greetings[i].times;
                     n++)
                        greet(&g, greetings[i].spoil, (uint8_t)n);
}

void host_spoil_tls(struct nvme_tls *tls, const struct rule_policy *policy)
{
        bool small = !tls->key.len || suite_of(tls) == TLS_AES_128_GCM;

        if (small && flawed(policy, FLAW_HOST_TLS_AES_256))
                tls->suite = TLS_AES_256_GCM;
        if (!small && flawed(policy, FLAW_HOST_TLS_AES_128))
                tls->suite = TLS_AES_128_GCM;
        if (flawed(policy, FLAW_HOST_TLS_AS_IS))
                tls->key.hash = 0;
        tls->dhe_only |= flawed(policy, FLAW_HOST_TLS_DHE);
        if (flawed(policy, FLAW_HOST_TLS_NO_3072))
                tls->groups = "P-384:X25519";
        if (flawed(policy, FLAW_HOST_TLS_NO_384))
                tls->groups = "ffdhe3072:X25519";
}
