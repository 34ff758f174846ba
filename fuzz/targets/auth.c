/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In-band authentication: both ends of a transaction, of whose messages bytes are changed and cut
 * on their way, with arithmetic that only looks like cryptography and fails when told to; messages
 * and keys as they come.
 *
 * Input: bits (1 byte; three of them choose a policy), hashes and groups of each end (4), the call
 * that fails (1); for each message how many bytes of it change (1), where (2) and to what (1), how
 * much is cut off (2). All of it is read as a message, and as the text of a key, too.
 */
#include "pdu/nvme/machine/auth.h"
#include "fuzz/fuzz.h"

enum { BIT_MUTUAL = 1, BIT_STRANGER = 2, BIT_NO_KEY = 4, BIT_POLICY = 8, BITS_POLICY = 0xc0 };
enum { MESSAGES = 12, PRIME = 65521 };

static unsigned calls, fails_at; /* of the arithmetic below */
static uint64_t drawn;

/* --- arithmetic --------------------------------------------------------------------------------- */

static int outcome(void)
{
        return ++calls == fails_at ? -1 : 0;
}

static int digest(enum auth_hash hash, const struct auth_slice *key, const struct auth_slice *parts,
                  unsigned n, uint8_t *out)
{
        uint32_t h = FUZZ_DIGEST_START + hash;

        must(auth_hash_len((uint8_t)hash) > 0);
        if (key)
                fuzz_digest(&h, key->p, key->len);
        for (unsigned i = 0; i < n; i++)
                fuzz_digest(&h, parts[i].p, parts[i].len);
        for (unsigned i = 0; i < auth_hash_len((uint8_t)hash); i++) {
                fuzz_digest(&h, &i, sizeof(i));
                out[i] = (uint8_t)h;
        }
        return outcome();
}

/* In the last two bytes, to a power of 16 bits. */
static int power(enum auth_group group, const uint8_t *base, const uint8_t *exponent, size_t n,
                 uint8_t *out)
{
        unsigned len = auth_group_len((uint8_t)group), x = exponent[0] | 1u;
        uint64_t b = base ? (uint64_t)base[len - 2] << 8 | base[len - 1] : 17, r = 1;

        must(len > 0 && n == AUTH_EXPONENT);
        if (b < 2 || b > PRIME - 2)
                return -1;
        for (; x; x >>= 1, b = b * b % PRIME)
                r = x & 1 ? r * b % PRIME : r;
        memset(out, 0, len);
        out[len - 2] = (uint8_t)(r >> 8);
        out[len - 1] = (uint8_t)r;
        return outcome();
}

static int draw(void *out, size_t n)
{
        for (size_t i = 0; i < n; i++)
                ((uint8_t *)out)[i] = (uint8_t)fuzz_random(&drawn);
        return outcome();
}

static const struct auth_crypto arithmetic = { digest, power, draw };

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
};

static struct end end_of(struct bytes *b, enum party role, unsigned bits)
{
        struct end e = { .cfg = { .role = role,
                                  .crypto = &arithmetic,
                                  .hostnqn = "nqn.2026-01.org.example:host",
                                  .subnqn = "nqn.2026-01.org.example:subsystem",
                                  .keys = { .host = { .hash = bits >> 4 & 3, .len = 32 },
                                            .ctrl = { .len = 48 } },
                                  .t_id = 77,
                                  .policy = policy_of(bits) } };

        e.cfg.keys.hashes = bytes_u8(b) & 0xe;
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
static bool disturb(struct bytes *b, uint8_t *message, size_t *n)
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
static bool exchange(struct end *from, struct end *to, struct bytes *b, bool *clean)
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

static void transact(struct bytes *b)
{
        unsigned bits = bytes_u8(b), said = 0;
        struct end host = end_of(b, PARTY_HOST, bits), ctrl = end_of(b, PARTY_CONTROLLER, bits);
        bool clean = !(bits & (BIT_STRANGER | BIT_NO_KEY));

        calls = 0;
        drawn = bits;
        fails_at = bytes_u8(b);
        auth_start(&host.a, &host.cfg);
        auth_start(&ctrl.a, &ctrl.cfg);
        while (exchange(&host, &ctrl, b, &clean) || exchange(&ctrl, &host, b, &clean))
                must(said++ < MESSAGES);
        check_end(&host.a);
        check_end(&ctrl.a);
        if (clean && fails_at == 0) /* they agree, one way or the other */
                must((auth_turn(&host.a) == AUTH_DONE) == (auth_turn(&ctrl.a) == AUTH_DONE));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct bytes b = bytes_of(input, size);

        transact(&b);
        check_view(input, size);
        check_key(input, size);
        return 0;
}
