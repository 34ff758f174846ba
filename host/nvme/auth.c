/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth.h"

#include <string.h>

#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/wire/fabrics.h"

static union sqe build_auth(enum fctype fctype, size_t len)
{
        union sqe s = { .auth = { .opc = NVME_FABRICS,
                                  .fctype = (uint8_t)fctype,
                                  .spsp0 = AUTH_SPSP,
                                  .spsp1 = AUTH_SPSP,
                                  .secp = AUTH_SECP,
                                  .len = le32((uint32_t)len) } };

        return s;
}

static int speak(const struct host_auth *h, struct auth *a, struct host_error *e)
{
        uint8_t message[AUTH_MESSAGE_MAX];
        size_t len = auth_speak(a, message);
        union sqe sqe = build_auth(FCTYPE_AUTH_SEND, len);

        return h->run(h->user, &sqe, message, (uint32_t)len, e);
}

/* A controller that refuses hangs up so soon that its message may be lost (RDMA). */
static int no_answer(const struct auth *a, struct host_error *e)
{
        struct host_error was = *e;

        if (was.kind == HOST_BROKEN)
                host_error_set(e, HOST_BROKEN, "authentication: %s instead of a response%s",
                               was.line, a->hash ? ": the controller may not accept this key" : "");
        return -1;
}

static int listen_to(const struct host_auth *h, struct auth *a, struct host_error *e)
{
        uint8_t message[AUTH_RECEIVE_MAX] = { 0 };
        union sqe sqe = build_auth(FCTYPE_AUTH_RECEIVE, sizeof(message));

        if (h->run(h->user, &sqe, message, sizeof(message), e) < 0)
                return no_answer(a, e);
        auth_hear(a, message, sizeof(message));
        return 0;
}

static int explain(const struct auth *a, struct host_error *e)
{
        const char *name = auth_failure_name(a->failed);

        if (a->why)
                return host_fail(e, HOST_STATUS, "authentication: %s", a->why);
        return host_fail(e, HOST_STATUS, "authentication: refused by the controller: %s",
                         name ? name : "for a reason that is not assigned");
}

static int transact(const struct host_auth *h, struct auth *a, struct host_error *e)
{
        for (;;) {
                switch (auth_turn(a)) {
                case AUTH_SPEAK:
                        if (speak(h, a, e) < 0) /* who is told of a failure may just hang up */
                                return a->failed ? explain(a, e) : -1;
                        break;
                case AUTH_LISTEN:
                        if (listen_to(h, a, e) < 0)
                                return -1;
                        break;
                case AUTH_DONE:
                        return 0;
                case AUTH_REFUSED:
                        return explain(a, e);
                }
        }
}

/* 1: it is to be done; 0: it is not; -1: it can't be. */
static int is_needed(const struct host_auth *h, bool mutual, uint32_t dw0, struct host_error *e)
{
        bool asked = dw0 & (CONNECT_ATR | CONNECT_ASCR) || h->sc_c != AUTH_SC_NONE;

        if (dw0 & CONNECT_ASCR && h->sc_c == AUTH_SC_NONE)
                return host_fail(e, HOST_STATUS,
                                 "authentication: the controller requires a secure channel "
                                 "(--concat)");
        if (!asked && mutual && !h->proven)
                return host_fail(e, HOST_STATUS,
                                 "authentication: the controller does not ask for "
                                 "authentication, so it cannot be authenticated itself");
        if (!asked)
                return 0;
        if (h->host.len == 0)
                return host_fail(e, HOST_STATUS,
                                 "authentication required, but no key is given (--dhchap-secret)");
        if (!auth_openssl())
                return host_fail(e, HOST_USAGE, "authentication required: built without OpenSSL");
        return 1;
}

static int take_psk(struct auth *a, struct auth_key *psk, struct host_error *e)
{
        if (auth_take_psk(a, psk))
                return 0;
        return host_fail(e, HOST_BROKEN, "authentication: no PSK has come of it");
}

int host_authenticate(const struct host_auth *h, uint32_t connect_dw0, struct auth_key *psk,
                      struct host_error *e)
{
        bool mutual = h->ctrl.len > 0 && strcmp(h->subnqn, NQN_DISCOVERY) != 0;
        struct auth_config cfg = { .role = PARTY_HOST,
                                   .crypto = auth_openssl(),
                                   .hostnqn = h->hostnqn,
                                   .subnqn = h->subnqn,
                                   .keys.host = h->host,
                                   .policy = h->policy };
        int needed = is_needed(h, mutual, connect_dw0, e);
        struct auth a;

        if (needed <= 0)
                return needed;
        if (mutual)
                cfg.keys.ctrl = h->ctrl;
        if (flawed(h->policy, FLAW_HOST_NO_SHA256))
                cfg.keys.hashes = 1 << AUTH_SHA384 | 1 << AUTH_SHA512;
        if (flawed(h->policy, FLAW_HOST_NO_3072))
                cfg.keys.groups = 1 << AUTH_NO_DH | 1 << AUTH_FFDHE2048;
        if (flawed(h->policy, FLAW_HOST_KEY_LOOSE))
                cfg.keys.host.hash = 0;
        if (cfg.crypto->random(&cfg.t_id, sizeof(cfg.t_id)) < 0)
                return host_fail(e, HOST_BROKEN, "authentication: no random numbers");
        auth_start(&a, &cfg);
        a.sc_c = (uint8_t)h->sc_c;
        if (transact(h, &a, e) < 0)
                return -1;
        return h->sc_c == AUTH_SC_NONE ? 0 : take_psk(&a, psk, e);
}
