/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In-band authentication: both ends of a transaction, of whose messages bytes are changed and cut
 * on their way, with arithmetic that only looks like cryptography and fails when told to; messages
 * and keys as they come.
 *
 * Input: bits (1 byte; three of them choose a policy), hashes and groups of each end (4), the call
 * that fails (1); for each message how many bytes of it change (1), where (2) and to what (1), how
 * much is cut off (2). All of it is read as a message, as the text of a key, and as an identity of TLS, too.
 */
#include "fuzz/arithmetic.h"
#include "fuzz/fuzz.h"
#include "pdu/nvme/machine/tls_key.h"

enum { BIT_MUTUAL = 1, BIT_STRANGER = 2, BIT_NO_KEY = 4, BIT_POLICY = 8, BITS_POLICY = 0xc0 };
enum { MESSAGES = 12 };

/* --- messages ----------------------------------------------------------------------------------- */

static void check_view(const void *data, size_t n)
{
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);
        struct auth_view v;
        int failure = auth_view(&v, data, n);
        const uint8_t *end = (const uint8_t *)data + n;

        must(failure == 0 || failure == AUTH_BAD_MESSAGE || failure == AUTH_BAD_PAYLOAD);
        if (failure == 0) {
                must(v.len <= n && auth_message_name(v.message));
                must(!v.rval || v.rval + v.hl <= end);
                must(!v.cval || v.cval + v.hl <= end);
                must(!v.dhv || v.dhv + v.dhvlen <= end);
        }
        describe_auth(&d, data, n);
        fuzz_described(&reader);
}

static void check_key(const uint8_t *p, size_t n)
{
        char text[200];
        struct auth_key key = { .len = 1 };
        const char *wrong;

        n = n < sizeof(text) - 1 ? n : sizeof(text) - 1;
        memcpy(text, p, n);
        text[n] = '\0';
        wrong = auth_key_parse(&key, text);
        must(wrong ? *wrong && key.len == 1 : key.len == 32 || key.len == 48 || key.len == 64);
        key.len = 1;
        wrong = tls_key_parse(&key, text);
        must(wrong ? *wrong && key.len == 1 : key.len == 32 || key.len == 48);
}

/* An identity that is one makes a key, unless it is too long; and with that key it is found. */
static void check_identity(const uint8_t *p, size_t n)
{
        const struct auth_crypto *crypto = fuzz_arithmetic(0, 0);
        struct auth_key key = { .hash = n & 1, .len = n & 2 ? 48 : 32 };
        enum tls_derivation how = n & 4 ? TLS_OLD : TLS_PRINTED;
        struct tls_identity id;
        struct tls_psk psk, again;
        bool is = tls_identity_parse(&id, p, n);
        int found = tls_key_find(crypto, &key, how, p, n, &psk);

        must(is ? strlen(id.hostnqn) > 0 && strlen(id.subnqn) > 0 : found < 0);
        if (!is || tls_key_derive(crypto, &key, &id, how, &psk) < 0)
                return;
        must(found >= 0);
        must(tls_key_find(crypto, &key, how, psk.identity, psk.identity_len, &again) == 1);
        must(memcmp(psk.key, again.key, tls_key_len(psk.suite)) == 0);
        crypto = fuzz_arithmetic(0, 1 + (unsigned)n % 5);
        must(tls_key_find(crypto, &key, how, psk.identity, psk.identity_len, &again) != 0);
}

/* --- a transaction ------------------------------------------------------------------------------ */

/* What the controller overlooks and breaks on purpose, chosen by three bits. */
static const struct rule_policy *policy_of(unsigned bits)
{
        static const enum rule_id waived[8][5] = {
                [1] = { FAB_AUTH_LENGTHS, FAB_AUTH_HASH, FAB_AUTH_GROUP, FAB_AUTH_PROTOCOL,
                        FAB_AUTH_SC_C },
                [2] = { FAB_AUTH_ORDER, FAB_AUTH_T_ID },
                [3] = { FAB_AUTH_HL, FAB_AUTH_DHV, FAB_AUTH_R1, FAB_AUTH_C2 },
        };
        static const enum rule_id violated[8] = {
                [4] = FAB_AUTH_CHALLENGE, [5] = FAB_AUTH_FRESH, [6] = FAB_AUTH_R2
        };
        static struct rule_policy policy;
        unsigned n = (bits & BIT_POLICY) / BIT_POLICY | (bits & BITS_POLICY) >> 5;

        policy = (struct rule_policy) { 0 };
        for (unsigned i = 0; i < 5; i++)
                if (waived[n][i])
                        rule_add(&policy.waived, waived[n][i]);
        if (violated[n])
                rule_add(&policy.violated, violated[n]);
        return &policy;
}

struct end {
        struct auth_config cfg;
        struct auth a;
        uint8_t channels; /* as a host asks for, or bits of what a controller allows */
};

static struct end end_of(struct fuzz_input *b, enum party role, unsigned bits,
                         const struct auth_crypto *crypto)
{
        struct end e = { .cfg = { .role = role,
                                  .crypto = crypto,
                                  .hostnqn = "nqn.2026-01.org.example:host",
                                  .subnqn = "nqn.2026-01.org.example:subsystem",
                                  .keys = { .host = { .hash = bits >> 4 & 3, .len = 32 },
                                            .ctrl = { .len = 48 } },
                                  .t_id = 77,
                                  .policy = policy_of(bits) } };

        e.channels = bytes_u8(b);
        e.cfg.keys.hashes = e.channels & 0xe;
        e.channels >>= 4;
        e.cfg.keys.groups = bytes_u8(b) & 0x3f;
        if (role == PARTY_HOST && !(bits & BIT_MUTUAL))
                e.cfg.keys.ctrl.len = 0;
        if (role == PARTY_CONTROLLER && (bits & BIT_STRANGER))
                e.cfg.keys.host.bytes[0] = 1;
        if (role == PARTY_CONTROLLER && (bits & BIT_NO_KEY))
                e.cfg.keys.ctrl.len = 0;
        return e;
}

/* Message on its way; true if nothing happens to it. */
static bool disturb(struct fuzz_input *b, uint8_t *message, size_t *n)
{
        unsigned changes = bytes_u8(b), cut;
        bool whole = true;

        for (unsigned i = changes % 4; i > 0; i--) {
                uint16_t at = bytes_u16(b);
                uint8_t to = bytes_u8(b);

                at = (uint16_t)(at % *n);
                whole &= message[at] == to;
                message[at] = to;
        }
        cut = changes & 0x80 ? bytes_u16(b) : 0;
        *n -= cut % (*n + 1);
        return whole && cut == 0;
}

static bool over(const struct auth *a)
{
        return auth_turn(a) == AUTH_DONE || auth_turn(a) == AUTH_REFUSED;
}

static void check_end(const struct auth *a)
{
        must(auth_turn(a) != AUTH_REFUSED || (a->failed && a->told));
        must(auth_turn(a) != AUTH_DONE || !a->failed);
}

/* Whoever has to speak does; what is said arrives, or something like it. */
static bool exchange(struct end *from, struct end *to, struct fuzz_input *b, bool *clean)
{
        static uint8_t message[AUTH_MESSAGE_MAX];
        size_t n;

        if (auth_turn(&from->a) != AUTH_SPEAK)
                return false;
        n = auth_speak(&from->a, message);
        must(n >= sizeof(struct auth_failure) && n <= sizeof(message));
        check_view(message, n);
        *clean &= disturb(b, message, &n);
        if (!over(&to->a))
                auth_hear(&to->a, message, n);
        return true;
}

static void start_transaction(struct end *host, struct end *ctrl)
{
        auth_start(&host->a, &host->cfg);
        auth_start(&ctrl->a, &ctrl->cfg);
        host->a.sc_c = host->channels & 3;
        ctrl->a.allowed = ctrl->channels;
}

/* Both have one, and the same, or none has. */
static void compare_psks(struct end *host, struct end *ctrl)
{
        struct auth_key of_host, of_ctrl;
        bool has = auth_take_psk(&host->a, &of_host);

        must(has == auth_take_psk(&ctrl->a, &of_ctrl));
        must(!has || (of_host.len == of_ctrl.len &&
                      memcmp(of_host.bytes, of_ctrl.bytes, of_host.len) == 0));
}

static void transact(struct fuzz_input *b)
{
        unsigned bits = bytes_u8(b), said = 0, fails_at;
        const struct auth_crypto *crypto = fuzz_arithmetic(bits, 0);
        struct end host = end_of(b, PARTY_HOST, bits, crypto),
                   ctrl = end_of(b, PARTY_CONTROLLER, bits, crypto);
        bool clean = !(bits & (BIT_STRANGER | BIT_NO_KEY));

        fails_at = bytes_u8(b);
        (void)fuzz_arithmetic(bits, fails_at);
        start_transaction(&host, &ctrl);
        while (exchange(&host, &ctrl, b, &clean) || exchange(&ctrl, &host, b, &clean))
                must(said++ < MESSAGES);
        check_end(&host.a);
        check_end(&ctrl.a);
        if (!clean || fails_at != 0)
                return;
        /* they agree, one way or the other */
        must((auth_turn(&host.a) == AUTH_DONE) == (auth_turn(&ctrl.a) == AUTH_DONE));
        if (auth_turn(&host.a) == AUTH_DONE)
                compare_psks(&host, &ctrl);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);

        transact(&b);
        check_view(input, size);
        check_key(input, size);
        check_identity(input, size);
        return 0;
}
