/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of authentication. */
#include <string.h>

#include "case_auth.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/wire/text.h"
#include "words.h"

struct talk { /* a queue's transaction */
        struct auth_config cfg;
        struct auth host;
        struct auth_view heard;
};

/* --- a transaction ------------------------------------------------------------------------- */

static void need_keys(struct t *t)
{
        if (!auth_openssl())
                skip(t, "built without OpenSSL");
        require(t, peer(t)->dhchap.len > 0, "no key is known (--dhchap-secret)");
}

static const char *name_of(struct queue *q)
{
        char *nqn = t_alloc(q->t, NQN_FIELD);
        uint8_t hostid[16];

        case_identity(q->t, q->host, hostid, nqn);
        return nqn;
}

static void start_talk(struct queue *q)
{
        const struct peer *s = peer(q->t);
        struct talk *k = t_alloc(q->t, sizeof(*k));

        *k = (struct talk) { .cfg = { .role = PARTY_HOST,
                                      .crypto = auth_openssl(),
                                      .hostnqn = name_of(q),
                                      .subnqn = q->subnqn,
                                      .keys = { .host = s->dhchap, .ctrl = s->dhchap_ctrl },
                                      .t_id = (uint16_t)(q->t->connections * 0x101) } };
        q->talk = k;
        auth_start(&k->host, &k->cfg);
}

void begin_auth(struct queue *q, uint8_t hashes, uint8_t groups)
{
        start_talk(q);
        q->talk->cfg.keys.hashes = hashes;
        q->talk->cfg.keys.groups = groups;
}

void begin_auth_with(struct queue *q, enum auth_sc_c sc_c)
{
        start_talk(q);
        q->talk->host.sc_c = (uint8_t)sc_c;
        q->talk->cfg.keys.ctrl.len = 0;
}

struct auth_draft *next_message(struct queue *q)
{
        struct auth_draft *m = t_alloc(q->t, sizeof(*m));

        m->len = (uint32_t)auth_speak(&q->talk->host, m->bytes);
        return m;
}

struct auth_protocol *protocol_of(struct auth_draft *negotiate)
{
        return (struct auth_protocol *)(negotiate->bytes + sizeof(struct auth_negotiate));
}

void send_auth_message(struct queue *q, const struct auth_draft *m)
{
        succeed(q, send_auth_send(q, m->bytes, m->len, AUTH_SECP));
}

const struct auth_view *receive_auth_message(struct queue *q)
{
        struct talk *k = q->talk;
        const void *data = succeed(q, send_auth_receive(q, AUTH_RECEIVE_MAX)).data;

        if (auth_view(&k->heard, data, AUTH_RECEIVE_MAX) != 0)
                fail(q->t, "an authentication message",
                     "no authentication message, or a "
                     "truncated one");
        auth_hear(&k->host, data, AUTH_RECEIVE_MAX);
        return &k->heard;
}

/* The controller is told why. */
static void fail_transaction(struct queue *q)
{
        const struct auth *a = &q->talk->host;
        const char *name = auth_failure_name(a->failed);
        struct auth_draft *last;

        if (auth_turn(a) == AUTH_SPEAK) {
                last = next_message(q);
                expect_answer(q, send_auth_send(q, last->bytes, last->len, AUTH_SECP));
        }
        if (a->why)
                fail(q->t, "authentication to succeed", "%s", a->why);
        fail(q->t, "authentication to succeed", "authentication is refused: %s",
             name ? name : "for a reason that is not assigned");
}

/* Not in the case's own time: one that makes 32 connections would have none left for what it judges. */
void authenticate(struct queue *q)
{
        enum { MOST_MS = 60000 }; /* longer than all its messages may take */
        uint64_t left = t_lend(q->t, t_scaled(q->t, MOST_MS));
        struct auth *a = &q->talk->host;
        enum auth_turn turn;

        while ((turn = auth_turn(a)) != AUTH_DONE) {
                if (a->failed)
                        fail_transaction(q);
                if (turn == AUTH_SPEAK)
                        send_auth_message(q, next_message(q));
                else
                        receive_auth_message(q);
        }
        t_repay(q->t, left);
}

const struct auth_view *auth_received(const struct queue *q)
{
        return &q->talk->heard;
}

le16_t auth_t_id(const struct queue *q)
{
        return le16(q->talk->cfg.t_id);
}

bool auth_is_mutual(const struct t *t)
{
        return peer(t)->dhchap_ctrl.len > 0;
}

/* Of the transaction that has begun. */
static const struct auth_key *finish_psk(struct queue *q)
{
        struct auth_key *psk = t_alloc(q->t, sizeof(*psk));
        const struct auth_view *v;

        send_auth_message(q, next_message(q));
        v = receive_auth_message(q);
        require(q->t,
                v->message != AUTH_FAILURE1 || (v->failure->rcodeex != AUTH_SC_C_MISMATCH &&
                                                v->failure->rcodeex != AUTH_GROUP_UNUSABLE),
                "the controller does not concatenate secure channels");
        authenticate(q);
        if (!auth_take_psk(&q->talk->host, psk))
                broke(q->t, "the PSK cannot be computed");
        return psk;
}

const struct auth_key *generate_psk(struct queue *q, enum auth_sc_c sc_c)
{
        begin_auth_with(q, sc_c);
        return finish_psk(q);
}

const struct auth_key *generate_psk_mutually(struct queue *q)
{
        require(q->t, auth_is_mutual(q->t),
                "the subsystem's key is not known (--dhchap-ctrl-secret)");
        begin_auth_with(q, AUTH_SC_NEW_PSK);
        q->talk->cfg.keys.ctrl = peer(q->t)->dhchap_ctrl;
        return finish_psk(q);
}

/* --- queues -------------------------------------------------------------------------------- */

void auth_connected(struct queue *q, uint32_t dw0)
{
        if (dw0 & CONNECT_ASCR)
                fail(q->t, "no demand for secure channel concatenation, by which few cases can do",
                     "DW0 %08Xh", dw0);
        if (!auth_openssl() || peer(q->t)->dhchap.len == 0)
                fail(q->t, "no demand for authentication, as --dhchap-secret is not given",
                     "DW0 %08Xh", dw0);
        start_talk(q);
        authenticate(q);
}

/* Each response to Connect says what its queue requires (6.3). */
static void connect(struct queue *q, const char *subnqn)
{
        struct reply r = succeed(q, send_connect(q, .subnqn = subnqn));
        bool asked = r.dw0 & (CONNECT_ATR | CONNECT_ASCR);

        q->cntlid = (uint16_t)r.dw0;
        require(q->t, asked || q->qid == 0, "no authentication is required on I/O queues");
        want(q->t, asked, "a demand for authentication (DW0 bits 17 and 18)", "DW0 %08Xh", r.dw0);
        start_talk(q);
}

struct queue *unproven_queue(struct t *t)
{
        struct queue *q;

        require(t, caps(t)->auth, "no subsystem asks for authentication");
        need_keys(t);
        q = bare_queue(t);
        connect(q, caps(t)->auth);
        q->admin = q;
        return q;
}

struct queue *unproven_io_queue(struct t *t)
{
        struct queue *q;

        require(t, caps(t)->auth, "no subsystem asks for authentication");
        need_keys(t);
        q = join(granting_queue(t, caps(t)->auth));
        connect(q, NULL);
        return q;
}

static bool has(uint8_t groups, uint8_t id)
{
        return id < AUTH_GROUPS && groups >> id & 1;
}

struct queue *challenged_queue_weakly(struct t *t, uint8_t groups, enum auth_weak weak)
{
        struct queue *q = unproven_queue(t);
        const struct auth_view *v;

        begin_auth(q, 0, groups);
        q->talk->host.weak = (uint8_t)weak;
        send_auth_message(q, next_message(q));
        v = receive_auth_message(q);
        require(t, !groups || (v->message == AUTH_CHALLENGE && has(groups, v->challenge->dhgid)),
                "the controller allows none of the DH groups that the case needs");
        if (q->talk->host.failed)
                fail_transaction(q);
        return q;
}

struct queue *challenged_queue_of(struct t *t, uint8_t groups)
{
        return challenged_queue_weakly(t, groups, AUTH_STRONG);
}

struct queue *challenged_queue(struct t *t)
{
        return challenged_queue_of(t, 0);
}

/* --- failures ------------------------------------------------------------------------------ */

/* It refuses otherwise than by a message. */
static bool refused(struct queue *q, struct reply r, const char *expected)
{
        if (q->over)
                lenient(q->t, expected, "the connection ends");
        else if (r.status != NVME_SUCCESS)
                lenient(q->t, expected, "%s (%X/%02Xh)", status_name(r.status), r.status >> 8,
                        r.status & 0xffu);
        return q->over || r.status != NVME_SUCCESS;
}

static void judge_message(struct queue *q, const void *data, const char *expected)
{
        struct auth_view v;

        if (auth_view(&v, data, AUTH_RECEIVE_MAX) != 0)
                fail(q->t, expected, "no authentication message");
        if (v.message != AUTH_FAILURE1)
                fail(q->t, expected, "%s", auth_message_name(v.message));
        if (v.failure->rcode != AUTH_RCODE || v.t_id != q->talk->cfg.t_id)
                lenient(q->t, "RCODE 1 and the T_ID of the transaction", "RCODE %u, T_ID %u",
                        v.failure->rcode, v.t_id);
        if (!rule_accepts(q->t->rule, v.failure->rcodeex, 0, 0))
                lenient(q->t, expected, "\"%s\" (%02Xh)",
                        auth_failure_name(v.failure->rcodeex) ?: "a code that is not assigned",
                        v.failure->rcodeex);
}

void expect_auth_failure(struct queue *q, const struct auth_draft *m)
{
        char expected[RESULT_TEXT];
        struct reply r;

        reaction_says(rule_get(q->t->rule), expected, sizeof(expected));
        r = expect_answer(q, send_auth_send(q, m->bytes, m->len, AUTH_SECP));
        if (refused(q, r, expected))
                return;
        r = expect_answer(q, send_auth_receive(q, AUTH_RECEIVE_MAX));
        if (!refused(q, r, expected))
                judge_message(q, r.data, expected);
}
