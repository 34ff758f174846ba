/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sequence, both sides of it and every way to leave it, with arithmetic that only looks like
 * cryptography: what real one computes is compared with real peers elsewhere.
 */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/machine/auth.h"

/* --- arithmetic ------------------------------------------------------------------------------- */

static uint64_t seed = 3;
static unsigned calls, fails_at; /* the call that fails; 0: none */

static int outcome(void)
{
        return ++calls == fails_at ? -1 : 0;
}

static void mix(uint64_t *h, const void *p, size_t n)
{
        for (const uint8_t *b = p; n-- > 0; b++)
                *h = (*h ^ *b) * UINT64_C(0x100000001b3);
}

static int digest(enum auth_hash hash, const struct auth_slice *key, const struct auth_slice *parts,
                  unsigned n, uint8_t *out)
{
        uint64_t h = UINT64_C(0xcbf29ce484222325) + (uint64_t)hash;

        if (key)
                mix(&h, key->p, key->len);
        mix(&h, key ? "k" : "-", 1);
        for (unsigned i = 0; i < n; i++)
                mix(&h, parts[i].p, parts[i].len);
        for (unsigned i = 0; i < auth_hash_len((uint8_t)hash); i++) {
                mix(&h, &i, sizeof(i));
                out[i] = (uint8_t)(h >> 24);
        }
        return outcome();
}

enum { P = 65521 };

/* In the last four bytes, and to a 16-bit power. */
static int power(enum auth_group group, const uint8_t *base, const uint8_t *exponent, size_t n,
                 uint8_t *out)
{
        unsigned len = auth_group_len((uint8_t)group);
        uint64_t b = base ? (uint64_t)base[len - 4] << 24 | (uint64_t)base[len - 3] << 16 |
                                (uint64_t)base[len - 2] << 8 | base[len - 1]
                          : 17,
                 r = 1;

        assert_int_equal(n, AUTH_EXPONENT);
        if (b < 2 || b > P - 2)
                return -1;
        for (unsigned x = (exponent[0] | (unsigned)exponent[1] << 8) | 1; x; x >>= 1, b = b * b % P)
                if (x & 1)
                        r = r * b % P;
        memset(out, 0, len);
        for (unsigned i = 0; i < 4; i++)
                out[len - 1 - i] = (uint8_t)(r >> 8 * i);
        return outcome();
}

static int top(enum auth_group group, uint8_t *out)
{
        unsigned len = auth_group_len((uint8_t)group);

        memset(out, 0, len);
        for (unsigned i = 0; i < 4; i++)
                out[len - 1 - i] = (uint8_t)((P - 1) >> 8 * i);
        return outcome();
}

static int draw(void *out, size_t n)
{
        random_fill(&seed, out, n);
        return outcome();
}

static const struct auth_crypto toy = { digest, power, top, draw };

/* --- two ends --------------------------------------------------------------------------------- */

#define HOSTNQN "nqn.2026-01.org.example:host"
#define SUBNQN  "nqn.2026-01.org.example:subsystem"

struct ends {
        struct auth_config host_cfg, ctrl_cfg;
        struct auth host, ctrl;
        uint8_t said[AUTH_MESSAGE_MAX]; /* last */
        size_t len;
        unsigned messages, cut; /* so many bytes of message `mangled` are not handed on ... */
        unsigned mangled;       /* 1: the first; 0: none */
        unsigned at;            /* ... or this byte of it is */
        uint8_t becomes;
        uint8_t sc_c, allowed;
};

static struct auth_key key_of(uint8_t hash, uint8_t fill)
{
        struct auth_key key = { .hash = hash, .len = 32 };

        memset(key.bytes, fill, key.len);
        return key;
}

static void set_up(struct ends *e, bool mutual)
{
        *e = (struct ends) { 0 };
        e->host_cfg = (struct auth_config) { .role = PARTY_HOST,
                                             .crypto = &toy,
                                             .hostnqn = HOSTNQN,
                                             .subnqn = SUBNQN,
                                             .keys.host = key_of(1, 0x11),
                                             .t_id = 77 };
        if (mutual)
                e->host_cfg.keys.ctrl = key_of(0, 0x22);
        e->ctrl_cfg = e->host_cfg;
        e->ctrl_cfg.role = PARTY_CONTROLLER;
        e->ctrl_cfg.keys.ctrl = key_of(0, 0x22);
        e->ctrl_cfg.t_id = 0;
        calls = fails_at = 0;
}

static void pass(struct ends *e, struct auth *from, struct auth *to)
{
        e->len = auth_speak(from, e->said);
        assert_in_range(e->len, 8, AUTH_MESSAGE_MAX);
        if (++e->messages == e->mangled && !e->cut)
                e->said[e->at] = e->becomes;
        auth_hear(to, e->said, e->messages == e->mangled ? e->len - e->cut : e->len);
}

/* Until nobody has anything to say. */
static void converse(struct ends *e)
{
        auth_start(&e->host, &e->host_cfg);
        auth_start(&e->ctrl, &e->ctrl_cfg);
        e->host.sc_c = e->sc_c;
        e->ctrl.allowed = e->allowed;
        for (unsigned i = 0; i < 10; i++) {
                if (auth_turn(&e->host) == AUTH_SPEAK)
                        pass(e, &e->host, &e->ctrl);
                else if (auth_turn(&e->ctrl) == AUTH_SPEAK)
                        pass(e, &e->ctrl, &e->host);
        }
}

static void agree(struct ends *e, unsigned messages)
{
        converse(e);
        assert_int_equal(auth_turn(&e->host), AUTH_DONE);
        assert_int_equal(auth_turn(&e->ctrl), AUTH_DONE);
        assert_int_equal(e->messages, messages);
        assert_int_equal(e->host.t_id, 77);
        assert_int_equal(e->ctrl.t_id, 77);
}

/* `by` finds the failure, and both end with it. */
static void part(struct ends *e, enum party by, enum auth_failure_code code)
{
        const struct auth *finder = by == PARTY_HOST ? &e->host : &e->ctrl;
        const struct auth *other = by == PARTY_HOST ? &e->ctrl : &e->host;

        converse(e);
        assert_int_equal(auth_turn(&e->host), AUTH_REFUSED);
        assert_int_equal(auth_turn(&e->ctrl), AUTH_REFUSED);
        assert_int_equal(finder->failed, code);
        assert_int_equal(other->failed, code);
        assert_non_null(finder->why);
        assert_null(other->why);
        assert_int_equal(e->said[0], 0);
        assert_int_equal(e->said[1], by == PARTY_HOST ? 0xf0 : 0xf1);
        assert_int_equal(e->said[6], 1);
        assert_int_equal(e->len, 8);
}

static void every_hash_and_group(void **state)
{
        struct ends e;

        (void)state;
        for (uint8_t hash = AUTH_SHA256; hash < AUTH_HASHES; hash++)
                for (uint8_t group = AUTH_NO_DH; group < AUTH_GROUPS; group++)
                        for (int mutual = 0; mutual < 2; mutual++) {
                                set_up(&e, mutual);
                                e.ctrl_cfg.keys.hashes = (uint8_t)(1 << hash);
                                e.ctrl_cfg.keys.groups = (uint8_t)(1 << group);
                                agree(&e, mutual ? 5 : 4);
                                assert_int_equal(e.host.hash, hash);
                                assert_int_equal(e.host.group, group);
                                assert_int_equal(e.ctrl.mutual, mutual);
                        }
}

/* A DH exchange goes before none; what one does not want is not used. */
static void what_is_chosen(void **state)
{
        struct ends e;

        (void)state;
        set_up(&e, true);
        agree(&e, 5);
        assert_int_equal(e.host.hash, AUTH_SHA256);
        assert_int_equal(e.host.group, AUTH_FFDHE2048);
        set_up(&e, true);
        e.host_cfg.keys.hashes = 1 << AUTH_SHA512;
        e.host_cfg.keys.groups = 1 << AUTH_FFDHE4096 | 1 << AUTH_NO_DH;
        e.ctrl_cfg.keys.groups = 1 << AUTH_FFDHE3072 | 1 << AUTH_NO_DH;
        agree(&e, 5);
        assert_int_equal(e.host.hash, AUTH_SHA512);
        assert_int_equal(e.host.group, AUTH_NO_DH);
        e.ctrl_cfg.keys.groups = 1 << AUTH_FFDHE3072;
        e.messages = 0;
        part(&e, PARTY_CONTROLLER, AUTH_GROUP_UNUSABLE);
        e.ctrl_cfg.keys.hashes = 1 << AUTH_SHA256;
        e.messages = 0;
        part(&e, PARTY_CONTROLLER, AUTH_HASH_UNUSABLE);
}

static void wrong_keys(void **state)
{
        struct ends e;

        (void)state;
        set_up(&e, true);
        e.host_cfg.keys.host.bytes[31] ^= 1;
        part(&e, PARTY_CONTROLLER, AUTH_FAILED);
        set_up(&e, true);
        e.host_cfg.keys.host.hash = 0; /* not tied to the name */
        part(&e, PARTY_CONTROLLER, AUTH_FAILED);
        set_up(&e, true);
        e.host_cfg.keys.ctrl.bytes[0] ^= 1;
        part(&e, PARTY_HOST, AUTH_FAILED);
        set_up(&e, false);
        e.host_cfg.hostnqn = SUBNQN;
        part(&e, PARTY_CONTROLLER, AUTH_FAILED);
        set_up(&e, true);
        e.ctrl_cfg.keys.ctrl.len = 0; /* it has none to prove itself with */
        part(&e, PARTY_CONTROLLER, AUTH_FAILED);
}

/* --- secure channels -------------------------------------------------------------------------- */

enum { NEW = 1 << AUTH_SC_NEW_PSK, REPLACE = 1 << AUTH_SC_REPLACE_PSK };

static void want_same_psk(struct ends *e, unsigned len)
{
        struct auth_key of_host, of_ctrl;

        assert_true(auth_take_psk(&e->host, &of_host) && auth_take_psk(&e->ctrl, &of_ctrl));
        assert_int_equal(of_host.len, len);
        assert_int_equal(of_host.hash, 0);
        assert_memory_equal(&of_host, &of_ctrl, sizeof(of_host));
        assert_false(auth_take_psk(&e->host, &of_host));
        assert_false(auth_take_psk(&e->ctrl, &of_ctrl));
}

static void a_psk_comes_of_it(void **state)
{
        struct ends e;

        (void)state;
        for (uint8_t hash = AUTH_SHA256; hash < AUTH_HASHES; hash++)
                for (uint8_t group = AUTH_FFDHE2048; group < AUTH_GROUPS; group++)
                        for (int mutual = 0; mutual < 2; mutual++) {
                                set_up(&e, mutual);
                                e.ctrl_cfg.keys.hashes = (uint8_t)(1 << hash);
                                e.ctrl_cfg.keys.groups = (uint8_t)(1 << group);
                                e.sc_c = mutual ? AUTH_SC_REPLACE_PSK : AUTH_SC_NEW_PSK;
                                e.allowed = mutual ? REPLACE : NEW;
                                agree(&e, mutual ? 5 : 4);
                                assert_int_equal(e.ctrl.mutual, mutual);
                                want_same_psk(&e, auth_hash_len(hash));
                        }
        set_up(&e, true);
        agree(&e, 5);
        assert_false(e.host.generated || e.ctrl.generated);
}

static void channels_that_are_refused(void **state)
{
        struct ends e;

        (void)state;
        for (unsigned sc_c = AUTH_SC_NONE; sc_c <= AUTH_SC_REPLACE_PSK; sc_c++) {
                set_up(&e, false);
                e.sc_c = (uint8_t)sc_c;
                e.allowed = (uint8_t)(0xf & ~(1u << sc_c));
                part(&e, PARTY_CONTROLLER, AUTH_SC_C_MISMATCH);
        }
        for (unsigned at = 0; at < 2; at++) { /* nothing but the NULL group, and it beside others */
                set_up(&e, false);
                e.sc_c = AUTH_SC_NEW_PSK;
                e.allowed = NEW;
                e.mangled = 1;
                e.at = (unsigned)offsetof(struct auth_protocol, groups) + 8 + at;
                e.becomes = AUTH_NO_DH;
                if (at == 0)
                        e.host_cfg.keys.groups = 1 << AUTH_FFDHE2048;
                part(&e, PARTY_CONTROLLER, AUTH_GROUP_UNUSABLE);
        }
        set_up(&e, false);
        e.sc_c = AUTH_SC_NEW_PSK;
        e.allowed = NEW;
        e.mangled = 3; /* CVALID of the Reply */
        e.at = 8;
        part(&e, PARTY_CONTROLLER, AUTH_BAD_PAYLOAD);
        e.messages = 0;
        e.mangled = 2; /* DHgID of the Challenge */
        e.at = 9;
        part(&e, PARTY_HOST, AUTH_BAD_PAYLOAD);
}

static void no_psk_without_crypto(void **state)
{
        struct ends e;
        unsigned all;

        (void)state;
        set_up(&e, false);
        e.sc_c = AUTH_SC_NEW_PSK;
        e.allowed = NEW;
        agree(&e, 4);
        all = calls;
        for (unsigned at = 1; at <= all; at++) {
                struct auth_key psk;

                e.messages = calls = 0;
                fails_at = at;
                converse(&e);
                assert_true(e.host.failed || e.ctrl.failed || !auth_take_psk(&e.host, &psk) ||
                            !auth_take_psk(&e.ctrl, &psk));
        }
        fails_at = 0;
}

/* --- what is wrong with a message ------------------------------------------------------------- */

enum { NEGOTIATE = 1, CHALLENGE, REPLY, SUCCESS1, SUCCESS2 };

static void faults(void **state)
{
        static const struct {
                unsigned message, at;
                uint8_t becomes;
                uint8_t group;
                enum party by;
                enum auth_failure_code code;
        } fault[] = {
                { NEGOTIATE, 0, 1, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_BAD_MESSAGE },
                { NEGOTIATE, 6, 2, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_SC_C_MISMATCH },
                { NEGOTIATE, 7, 0, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_PROTOCOL_UNUSABLE },
                { NEGOTIATE, 7, 2, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_BAD_PAYLOAD },
                { NEGOTIATE, 8, 2, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_PROTOCOL_UNUSABLE },
                { NEGOTIATE, 10, 0, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_BAD_PAYLOAD },
                { NEGOTIATE, 10, 31, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_BAD_PAYLOAD },
                { NEGOTIATE, 11, 0, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_BAD_PAYLOAD },
                { NEGOTIATE, 11, 255, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_BAD_PAYLOAD },
                { CHALLENGE, 1, 3, AUTH_NO_DH, PARTY_HOST, AUTH_BAD_MESSAGE },
                { CHALLENGE, 1, 9, AUTH_NO_DH, PARTY_HOST, AUTH_BAD_MESSAGE },
                { CHALLENGE, 4, 78, AUTH_NO_DH, PARTY_HOST, AUTH_BAD_MESSAGE },
                { CHALLENGE, 6, 16, AUTH_NO_DH, PARTY_HOST, AUTH_BAD_PAYLOAD },
                { CHALLENGE, 8, 0, AUTH_NO_DH, PARTY_HOST, AUTH_BAD_PAYLOAD },
                { CHALLENGE, 8, 4, AUTH_NO_DH, PARTY_HOST, AUTH_BAD_PAYLOAD },
                { CHALLENGE, 9, 1, AUTH_NO_DH, PARTY_HOST, AUTH_BAD_PAYLOAD },
                { CHALLENGE, 9, 6, AUTH_NO_DH, PARTY_HOST, AUTH_BAD_PAYLOAD },
                { CHALLENGE, 9, 0, AUTH_FFDHE2048, PARTY_HOST, AUTH_BAD_PAYLOAD },
                { CHALLENGE, 10, 4, AUTH_FFDHE2048, PARTY_HOST, AUTH_BAD_PAYLOAD },
                { CHALLENGE, 11, 0, AUTH_FFDHE2048, PARTY_HOST, AUTH_BAD_PAYLOAD },
                { CHALLENGE, 16, 1, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_FAILED },
                { CHALLENGE, 16 + 32 + 252, 1, AUTH_FFDHE2048, PARTY_HOST, AUTH_BAD_PAYLOAD },
                { REPLY, 1, 4, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_BAD_MESSAGE },
                { REPLY, 5, 1, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_BAD_MESSAGE },
                { REPLY, 6, 31, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_BAD_PAYLOAD },
                { REPLY, 8, 2, AUTH_NO_DH, PARTY_CONTROLLER, AUTH_BAD_PAYLOAD },
                { REPLY, 8, 0, AUTH_NO_DH, PARTY_HOST, AUTH_FAILED },
                { REPLY, 11, 0, AUTH_FFDHE2048, PARTY_CONTROLLER, AUTH_BAD_PAYLOAD },
                { REPLY, 16 + 32 + 5, 1, AUTH_NO_DH, PARTY_HOST, AUTH_FAILED },
                { REPLY, 16 + 64 + 252, 1, AUTH_FFDHE2048, PARTY_CONTROLLER, AUTH_BAD_PAYLOAD },
                { SUCCESS1, 6, 31, AUTH_NO_DH, PARTY_HOST, AUTH_BAD_PAYLOAD },
                { SUCCESS1, 8, 0, AUTH_NO_DH, PARTY_HOST, AUTH_FAILED },
                { SUCCESS1, 47, 1, AUTH_NO_DH, PARTY_HOST, AUTH_FAILED },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(fault); i++) {
                struct ends e;

                set_up(&e, true);
                e.mangled = fault[i].message;
                e.at = fault[i].at;
                e.becomes = fault[i].becomes;
                e.ctrl_cfg.keys.groups = (uint8_t)(1 << fault[i].group);
                part(&e, fault[i].by, fault[i].code);
        }
}

/* Where a rule is waived, what breaks it does no harm. */
static void overlooked(void **state)
{
        static const struct {
                unsigned message, at;
                uint8_t becomes;
                uint8_t group;
                enum rule_id rule;
        } fault[] = {
                { NEGOTIATE, 6, 2, AUTH_NO_DH, FAB_AUTH_SC_C },
                { NEGOTIATE, 7, 0, AUTH_NO_DH, FAB_AUTH_PROTOCOL },
                { NEGOTIATE, 8, 2, AUTH_NO_DH, FAB_AUTH_PROTOCOL },
                { NEGOTIATE, 10, 0, AUTH_NO_DH, FAB_AUTH_LENGTHS },
                { NEGOTIATE, 10, 255, AUTH_NO_DH, FAB_AUTH_LENGTHS },
                { NEGOTIATE, 11, 31, AUTH_NO_DH, FAB_AUTH_LENGTHS },
                { REPLY, 4, 78, AUTH_NO_DH, FAB_AUTH_T_ID },
                { REPLY, 6, 31, AUTH_NO_DH, FAB_AUTH_HL },
                { REPLY, 11, 0, AUTH_FFDHE2048, FAB_AUTH_DHV },
                { REPLY, 16, 1, AUTH_NO_DH, FAB_AUTH_R1 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(fault); i++) {
                struct rule_policy policy = { 0 };
                struct ends e;

                set_up(&e, false);
                e.mangled = fault[i].message;
                e.at = fault[i].at;
                e.becomes = fault[i].becomes;
                e.ctrl_cfg.keys.groups = (uint8_t)(1 << fault[i].group);
                part(&e, PARTY_CONTROLLER, (enum auth_failure_code)rule_fault(fault[i].rule).code);
                rule_add(&policy.waived, fault[i].rule);
                e.ctrl_cfg.policy = &policy;
                e.messages = 0;
                agree(&e, 4);
        }
}

/* The host offers nothing that the controller allows. */
static void unusable_but_overlooked(void **state)
{
        struct rule_policy policy = { 0 };
        struct ends e;

        (void)state;
        set_up(&e, true);
        e.host_cfg.keys.groups = 1 << AUTH_FFDHE3072 | 1 << AUTH_NO_DH;
        e.ctrl_cfg.keys.groups = 1 << AUTH_FFDHE2048;
        rule_add(&policy.waived, FAB_AUTH_GROUP);
        e.ctrl_cfg.policy = &policy;
        agree(&e, 5);
        assert_int_equal(e.host.group, AUTH_NO_DH);
}

static void violations(void **state)
{
        static const enum rule_id rules[] = { FAB_AUTH_CHALLENGE, FAB_AUTH_R2 };

        (void)state;
        for (size_t i = 0; i < COUNT(rules); i++) {
                struct rule_policy policy = { 0 };
                struct ends e;

                set_up(&e, true);
                rule_add(&policy.violated, rules[i]);
                e.ctrl_cfg.policy = &policy;
                part(&e, PARTY_HOST, (enum auth_failure_code)rule_fault(rules[i]).code);
        }
}

static void cut_short(void **state)
{
        (void)state;
        for (unsigned message = NEGOTIATE; message <= SUCCESS1; message++) {
                struct ends e;

                set_up(&e, true);
                e.mangled = message;
                e.cut = 1;
                part(&e, message == NEGOTIATE || message == REPLY ? PARTY_CONTROLLER : PARTY_HOST,
                     AUTH_BAD_PAYLOAD);
        }
}

/* Of one that nobody has asked to prove who he is. */
static void an_answer_to_no_challenge(void **state)
{
        struct ends e;

        (void)state;
        set_up(&e, false);
        e.mangled = SUCCESS1;
        e.at = 8;
        e.becomes = 1;
        converse(&e);
        assert_int_equal(auth_turn(&e.host), AUTH_REFUSED);
        assert_int_equal(e.host.failed, AUTH_BAD_PAYLOAD);
}

/* C2 is C1: 8.3.4.5.4. S2 of 0: no authentication of the controller is asked for. */
static void a_challenge_sent_back(void **state)
{
        struct ends e;
        uint8_t reply[AUTH_MESSAGE_MAX];

        (void)state;
        set_up(&e, true);
        e.ctrl_cfg.keys.groups = 1 << AUTH_NO_DH;
        for (int same = 0; same < 2; same++) {
                auth_start(&e.host, &e.host_cfg);
                auth_start(&e.ctrl, &e.ctrl_cfg);
                pass(&e, &e.host, &e.ctrl);
                pass(&e, &e.ctrl, &e.host);
                e.len = auth_speak(&e.host, reply);
                if (same)
                        memcpy(reply + 16 + 32, e.ctrl.c1, 32);
                else
                        memset(reply + 12, 0, 4);
                auth_hear(&e.ctrl, reply, e.len);
                assert_int_equal(e.ctrl.failed, same ? AUTH_FAILED : 0);
                assert_false(!same && e.ctrl.mutual);
        }
}

/* Who speaks out of turn; and the first failure is the one that is told. */
static void out_of_turn(void **state)
{
        struct ends e;
        uint8_t twice[AUTH_MESSAGE_MAX];
        size_t len;

        (void)state;
        set_up(&e, true);
        auth_start(&e.host, &e.host_cfg);
        auth_start(&e.ctrl, &e.ctrl_cfg);
        len = auth_speak(&e.host, twice);
        auth_hear(&e.ctrl, twice, len);
        auth_hear(&e.ctrl, twice, len);
        assert_int_equal(e.ctrl.failed, AUTH_BAD_MESSAGE);
        auth_hear(&e.ctrl, twice, 3);
        assert_int_equal(e.ctrl.failed, AUTH_BAD_MESSAGE);
        assert_int_equal(auth_turn(&e.ctrl), AUTH_SPEAK);
        pass(&e, &e.ctrl, &e.host);
        assert_int_equal(auth_turn(&e.ctrl), AUTH_REFUSED);
        assert_int_equal(auth_turn(&e.host), AUTH_REFUSED);
}

/* Whichever computation fails, both ends come to an end, and neither believes the other. */
static void a_library_that_fails(void **state)
{
        unsigned all;
        struct ends e;

        (void)state;
        set_up(&e, true);
        agree(&e, 5);
        all = calls;
        for (unsigned at = 1; at <= all; at++) {
                set_up(&e, true);
                fails_at = at;
                converse(&e);
                assert_int_equal(auth_turn(&e.host), AUTH_REFUSED);
                assert_int_equal(auth_turn(&e.ctrl), AUTH_REFUSED);
        }
}

/* Any bytes at any turn. */
static bool is_wiped(const struct auth *a)
{
        static const struct auth zero;

        return memcmp(a->exponent, zero.exponent, sizeof(zero.exponent)) == 0 &&
               memcmp(a->session, zero.session, sizeof(zero.session)) == 0 &&
               memcmp(a->c1, zero.c1, sizeof(zero.c1)) == 0 &&
               memcmp(a->c2, zero.c2, sizeof(zero.c2)) == 0;
}

/* What was computed with does not stay, whether it succeeded or failed. */
static void secrets_are_wiped(void **state)
{
        struct ends e;

        (void)state;
        for (unsigned wrong = 0; wrong < 2; wrong++) {
                set_up(&e, true);
                e.ctrl_cfg.keys.host.bytes[0] ^= (uint8_t)wrong;
                auth_start(&e.host, &e.host_cfg);
                auth_start(&e.ctrl, &e.ctrl_cfg);
                pass(&e, &e.host, &e.ctrl);
                pass(&e, &e.ctrl, &e.host);
                assert_false(is_wiped(&e.host) || is_wiped(&e.ctrl));
                for (unsigned i = 0; i < 4; i++)
                        if (auth_turn(&e.host) == AUTH_SPEAK)
                                pass(&e, &e.host, &e.ctrl);
                        else if (auth_turn(&e.ctrl) == AUTH_SPEAK)
                                pass(&e, &e.ctrl, &e.host);
                assert_int_equal(auth_turn(&e.host), wrong ? AUTH_REFUSED : AUTH_DONE);
                assert_true(is_wiped(&e.host) && is_wiped(&e.ctrl));
        }
}

static void noise(void **state)
{
        (void)state;
        for (unsigned i = 0; i < 20000; i++) {
                struct ends e;
                struct auth *a = i & 1 ? &e.host : &e.ctrl;
                uint8_t said[AUTH_MESSAGE_MAX];
                size_t len = random_next(&seed) % sizeof(said);

                set_up(&e, i & 2);
                auth_start(&e.host, &e.host_cfg);
                auth_start(&e.ctrl, &e.ctrl_cfg);
                for (unsigned k = 0; k < i % 4; k++)
                        if (auth_turn(&e.host) == AUTH_SPEAK)
                                pass(&e, &e.host, &e.ctrl);
                        else
                                pass(&e, &e.ctrl, &e.host);
                random_fill(&seed, said, sizeof(said));
                said[0] = i & 4 ? 1 : 0;
                said[1] = (uint8_t)(i >> 3 & 7);
                said[4] = 77;
                said[5] = 0;
                said[6] = 32;
                auth_hear(a, said, len);
                assert_true(a->failed || a->at > 0);
                if (auth_turn(a) == AUTH_SPEAK)
                        auth_speak(a, said);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_hash_and_group),
                cmocka_unit_test(what_is_chosen),
                cmocka_unit_test(wrong_keys),
                cmocka_unit_test(a_psk_comes_of_it),
                cmocka_unit_test(channels_that_are_refused),
                cmocka_unit_test(no_psk_without_crypto),
                cmocka_unit_test(faults),
                cmocka_unit_test(overlooked),
                cmocka_unit_test(unusable_but_overlooked),
                cmocka_unit_test(violations),
                cmocka_unit_test(cut_short),
                cmocka_unit_test(an_answer_to_no_challenge),
                cmocka_unit_test(a_challenge_sent_back),
                cmocka_unit_test(out_of_turn),
                cmocka_unit_test(a_library_that_fails),
                cmocka_unit_test(secrets_are_wiped),
                cmocka_unit_test(noise),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
