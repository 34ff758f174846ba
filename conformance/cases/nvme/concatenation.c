/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 8.3.4.3, 8.3.4.4.1 and 8.3.4.5.9: secure channel concatenation. */
#include "conformance/words/case_auth.h"
#include "conformance/words/case_tls.h"

#include "conformance/engine/suite.h"

/* TLS by a PSK of a queue over plain TCP, whose association has done what it was for (8.3.4.3). */
static const struct nvme_tls *come_back(struct queue *q, const struct auth_key *psk)
{
        const struct nvme_tls *tls;

        hang_up(q);
        tls = tls_generated(q->t, psk, caps(q->t)->auth);
        want(q->t, tls, "TLS with the PSK that was generated", "no identity of it is taken");
        return tls;
}

static const struct nvme_tls *concatenate(struct t *t)
{
        struct queue *q = unproven_queue(t);

        return come_back(q, generate_psk(q, AUTH_SC_NEW_PSK));
}

static struct queue *secured_queue(struct t *t)
{
        return admin_queue(t, .subnqn = caps(t)->auth, .tls = concatenate(t));
}

/* Whatever its namespaces are like. */
static void want_usable(struct queue *q)
{
        want(q->t,
             finish(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = 1)).status != NVME_AUTH_REQUIRED,
             "Flush is executed", "Authentication Required");
}

CASE("fab/auth/generated-psk", MUST, RULES(FAB_AUTH_PSK),
     "After NEWTLSPSK, TLS with the generated PSK is taken on the admin queue and on I/O queues",
     .only = "tcp")
{
        struct queue *q = secured_queue(t);

        identify_ctrl(q);
        want_usable(io_queue_of(q, .qid = 1, .judged = true));
}

/* nvmet (Linux 7.2) has freed both challenges by AUTH_Success2, and generates none. */
CASE("fab/auth/generated-psk-mutual", MUST, RULES(FAB_AUTH_PSK),
     "After NEWTLSPSK where both ends authenticate themselves, TLS with the generated PSK is taken",
     .only = "tcp")
{
        struct queue *q = unproven_queue(t);
        const struct nvme_tls *tls = come_back(q, generate_psk_mutually(q));

        identify_ctrl(admin_queue(t, .subnqn = caps(t)->auth, .tls = tls));
}

CASE("fab/auth/replaced-psk", MUST, RULES(FAB_AUTH_PSK),
     "After REPLACETLSPSK over TLS, TLS with the new PSK is taken", .only = "tcp")
{
        struct queue *q = secured_queue(t);
        const struct auth_key *psk = generate_psk(q, AUTH_SC_REPLACE_PSK);

        expect_works(q);
        q->tls = tls_generated(t, psk, caps(t)->auth);
        want(t, q->tls, "TLS with the new PSK", "no identity of it is taken");
        want_usable(io_queue_of(q, .qid = 1, .judged = true));
}

CASE("fab/auth/sc-c-io", MUST, RULES(FAB_AUTH_SC_C),
     "AUTH_Negotiate with NEWTLSPSK on an I/O queue is refused")
{
        struct queue *q = unproven_io_queue(t);

        begin_auth_with(q, AUTH_SC_NEW_PSK);
        expect_auth_failure(q, next_message(q));
}

CASE("fab/auth/sc-c-replace", MUST, RULES(FAB_AUTH_SC_C),
     "AUTH_Negotiate with REPLACETLSPSK on a connection without TLS is refused")
{
        struct queue *q = unproven_queue(t);

        require(t, t_is_rdma(t) || !runs_over_tls(t), "the run is over TLS");
        begin_auth_with(q, AUTH_SC_REPLACE_PSK);
        expect_auth_failure(q, next_message(q));
}

CASE("fab/auth/sc-c-tls", MUST, RULES(FAB_AUTH_SC_C),
     "AUTH_Negotiate with NEWTLSPSK over TLS is refused", .only = "tcp")
{
        struct queue *q = runs_over_tls(t) ? unproven_queue(t) : secured_queue(t);

        begin_auth_with(q, AUTH_SC_NEW_PSK);
        expect_auth_failure(q, next_message(q));
}

CASE("fab/auth/sc-c-null", MUST, RULES(FAB_AUTH_GROUP),
     "AUTH_Negotiate with NEWTLSPSK that lists the NULL DH group among others is refused",
     .only = "tcp")
{
        struct auth_protocol *p;
        struct auth_draft *m;
        struct queue *q;

        generate_psk(unproven_queue(t), AUTH_SC_NEW_PSK); /* or there is nothing to refuse */
        q = unproven_queue(t);
        begin_auth_with(q, AUTH_SC_NEW_PSK);
        m = next_message(q);
        p = protocol_of(m);
        p->groups[p->dhlen++] = AUTH_NO_DH;
        expect_auth_failure(q, m);
}

CASE("fab/auth/psk-lifetime", MUST, RULES(FAB_AUTH_PSK_LIFETIME),
     "A generated PSK is not taken after its lifetime, which is ten minutes unless it was "
     "configured",
     .only = "tcp", .slow = true, .unmoved = true)
{
        enum { LATE = 150 };
        unsigned ms = psk_lifetime(t),
                 late = ms + ms / 10 + LATE; /* nobody says how exactly it ends */
        const struct nvme_tls *tls;

        require(t, ms > 0, "the lifetime is ten minutes, if --psk-lifetime says nothing else");
        tls = concatenate(t);
        t->deadline += late;
        pause_ms(t, late);
        want(t, !takes_generated(t, tls, caps(t)->auth),
             "no ServerHello with the PSK after its lifetime", "one, %u ms after it was generated",
             late);
}

/* That it is used once, for the admin queue, is not said to be wrong. */
CASE("fab/auth/retained-first", MUST, RULES(FAB_AUTH_PSK_RETAINED),
     "Where a PSK is configured for the host, one that it generates is not used again",
     .only = "tcp")
{
        const struct tls_host *h;
        const struct auth_key *psk;
        const struct nvme_tls *tls;
        struct queue *q;
        unsigned i = knows_tls(t);

        require(t, !runs_over_tls(t), "the run is over TLS");
        while ((h = tls_host_of(t, i++)) != NULL && h->key.spoilt)
                ;
        require(t, h, "no other host with a PSK of its own is known (--tls-host)");
        become_tls_host(t, h);
        q = unproven_queue(t);
        require(t, takes_configured(t, &h->key, caps(t)->auth),
                "the host has no configured PSK for the subsystem that asks for authentication");
        psk = generate_psk(q, AUTH_SC_NEW_PSK);
        hang_up(q);
        tls = tls_generated(t, psk, caps(t)->auth);
        want(t, !tls || !takes_generated(t, tls, caps(t)->auth),
             "the generated PSK is not used again", "a ServerHello with it");
}

CASE("fab/auth/demand", MUST, RULES(AUTHREQ_ONE),
     "Over TCP without TLS a Connect asks for authentication or for concatenation, not for both",
     .only = "tcp")
{
        struct queue *q;
        struct reply r;

        require(t, !runs_over_tls(t), "the run is over TLS");
        require(t, caps(t)->auth, "no subsystem asks for authentication");
        q = bare_queue(t, .subnqn = caps(t)->auth);
        r = expect_success(q, send_connect(q, .subnqn = caps(t)->auth));
        want(t, (r.dw0 & (CONNECT_ATR | CONNECT_ASCR)) != (CONNECT_ATR | CONNECT_ASCR),
             "ATR or ASCR", "both");
}
