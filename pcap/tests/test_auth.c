/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernel's host and target said to each other when they authenticated, word for word: our
 * machine in the place of either, given the random numbers that it drew, has to say the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "pcap/replay/replay_plan.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/wire/fabrics.h"

#define CAPTURE SOURCE_DIR "/pcap/tests/captures/nvme-tcp-auth-6.12.pcap"
#define HOSTNQN "nqn.2026-01.lab:host"
#define SUBNQN  "nqn.2026-01.lab:auth"

/* Two connections each, admin queue and I/O queue. */
static const struct {
        enum auth_hash hash;
        const char *host, *ctrl;
} sessions[] = {
        { AUTH_SHA256, "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:", NULL },
        { AUTH_SHA384,
          "DHHC-1:02:qp/44WRcvnAgOZY0ClbKKAmGy1tsUOWCEmOxD7wd1AiDUSwAwy5F/4mMg1OouLxyllYE9w==:",
          "DHHC-1:03:j/2Ee22vdCugFzi5rUtvK1cA7xl+aEO8/gKUH9fFx93w/iLfvbqjoGSSHqQONFPvppJdXpwQDPT2"
          "+8nasEyVqz6LpMU=:" },
        { AUTH_SHA512, "DHHC-1:01:ejnPQY5lhlwzN5IwoTcoN3GfbbP5if4Cwz20DH5o9TnkEZbS:",
          "DHHC-1:02:nqeNjp5QF/zBhE1bM7MHCptna6210XJQ1eOz2ueOsL4MOrCh3nCy9bANlc1rM61ZT03dvQ==:" },
};
enum { NULL_DH_CONNECTIONS = 6, MESSAGES = 5 };

struct talk { /* of one connection */
        const struct plan_cmd *cmd[MESSAGES];
        unsigned count;
};

static bool is_auth(const union sqe *s)
{
        return s->opc == NVME_FABRICS &&
               (s->fctype == FCTYPE_AUTH_SEND || s->fctype == FCTYPE_AUTH_RECEIVE);
}

static struct talk talk_of(const struct replay_plan *p, unsigned connection)
{
        struct talk t = { .count = 0 };

        for (const struct plan_cmd *c = p->cmds; c; c = c->next)
                if (c->queue->number == connection && is_auth(&c->sqe)) {
                        assert_true(t.count < MESSAGES);
                        t.cmd[t.count++] = c;
                }
        return t;
}

/* --- what the kernel drew --------------------------------------------------------------------- */

static struct {
        const void *p;
        size_t len;
} drawn[2];
static unsigned draws;

static int draw_again(void *out, size_t n)
{
        assert_true(draws < 2 && drawn[draws].len == n);
        memcpy(out, drawn[draws++].p, n);
        return 0;
}

static void will_draw(const uint8_t *challenge, size_t len, const le32_t *seqnum)
{
        draws = 0;
        drawn[0].p = challenge;
        drawn[0].len = len;
        drawn[1].p = seqnum;
        drawn[1].len = sizeof(*seqnum);
}

/* Challenge: C1, then S1; Reply: C2, then S2. */
static void foresee(const struct auth_view *v)
{
        if (v->message == AUTH_CHALLENGE)
                will_draw(v->cval, v->hl, &v->challenge->seqnum);
        else if (v->message == AUTH_REPLY)
                will_draw(v->cval, v->hl, &v->reply->seqnum);
}

/* --- in the kernel's place -------------------------------------------------------------------- */

/* The one thing that is said in the way of its own: which hashes and groups are offered. */
static void offers(const uint8_t *said, size_t len, const struct auth_view *was)
{
        assert_int_equal(len, was->len);
        assert_memory_equal(said, was->header, 8);
        assert_int_equal(was->negotiate->protocol[0].authid, AUTH_CHAP);
}

static void plays(const struct talk *t, const struct auth_config *cfg)
{
        struct auth a;
        unsigned spoken = 0;

        auth_start(&a, cfg);
        for (unsigned i = 0; i < t->count; i++) {
                const struct plan_cmd *c = t->cmd[i];
                uint8_t said[AUTH_MESSAGE_MAX];
                struct auth_view was;
                size_t len;

                assert_int_equal(auth_view(&was, c->data, c->data_len), 0);
                foresee(&was);
                if (auth_turn(&a) == AUTH_LISTEN) {
                        auth_hear(&a, c->data, c->data_len);
                        continue;
                }
                assert_int_equal(auth_turn(&a), AUTH_SPEAK);
                len = auth_speak(&a, said);
                spoken++;
                if (was.message == AUTH_NEGOTIATE) {
                        offers(said, len, &was);
                        continue;
                }
                assert_int_equal(len, was.len);
                if (was.message == AUTH_REPLY &&
                    !cfg->keys.ctrl.len) /* C2 and S2 that nobody looks at */
                        memcpy(said + 12, was.reply->values - 4, 4);
                assert_memory_equal(said, c->data, len);
        }
        assert_int_equal(auth_turn(&a), AUTH_DONE);
        assert_int_equal(spoken, cfg->role == PARTY_CONTROLLER ? 2 : cfg->keys.ctrl.len ? 3 : 2);
}

static void key(struct auth_key *k, const char *text)
{
        if (text)
                assert_null(auth_key_parse(k, text));
}

static void in_the_place_of(enum party role)
{
        struct auth_crypto crypto;
        struct trace_options trace = { 0 };
        char err[300];
        struct replay_plan plan;

        if (!auth_openssl())
                skip();
        crypto = *auth_openssl();
        crypto.random = draw_again;
        if (replay_plan_read(&plan, CAPTURE, &trace, 0, err, sizeof(err)) < 0)
                fail_msg("%s", err);
        for (unsigned i = 0; i < NULL_DH_CONNECTIONS; i++) {
                struct talk t = talk_of(&plan, i + 1);
                struct auth_config cfg = { .role = role,
                                           .crypto = &crypto,
                                           .hostnqn = HOSTNQN,
                                           .subnqn = SUBNQN,
                                           .keys.hashes = (uint8_t)(1 << sessions[i / 2].hash),
                                           .keys.groups = 1 << AUTH_NO_DH };

                assert_int_equal(t.count, sessions[i / 2].ctrl ? 5 : 4);
                key(&cfg.keys.host, sessions[i / 2].host);
                key(&cfg.keys.ctrl, sessions[i / 2].ctrl);
                if (role == PARTY_HOST) {
                        cfg.keys.hashes = 0;
                        cfg.keys.groups = 0;
                        cfg.t_id = le16_get(
                            ((const struct auth_header *)(const void *)t.cmd[0]->data)->t_id);
                }
                plays(&t, &cfg);
        }
        replay_plan_free(&plan);
}

static void the_host(void **state)
{
        (void)state;
        in_the_place_of(PARTY_HOST);
}

static void the_controller(void **state)
{
        (void)state;
        in_the_place_of(PARTY_CONTROLLER);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_host),
                cmocka_unit_test(the_controller),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
