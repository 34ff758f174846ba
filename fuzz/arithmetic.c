/* SPDX-License-Identifier: BSD-3-Clause */
#include "arithmetic.h"

#include "fuzz/fuzz.h"

enum { PRIME = 65521 };

static unsigned calls, fails_at;
static uint64_t drawn;

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

static int top(enum auth_group group, uint8_t *out)
{
        unsigned len = auth_group_len((uint8_t)group);

        memset(out, 0, len);
        out[len - 2] = (uint8_t)((PRIME - 1) >> 8);
        out[len - 1] = (uint8_t)(PRIME - 1);
        return outcome();
}

static int draw(void *out, size_t n)
{
        for (size_t i = 0; i < n; i++)
                ((uint8_t *)out)[i] = (uint8_t)fuzz_random(&drawn);
        return outcome();
}

const struct auth_crypto *fuzz_arithmetic(uint64_t seed, unsigned nth)
{
        static const struct auth_crypto arithmetic = { digest, power, top, draw };

        calls = 0;
        drawn = seed;
        fails_at = nth;
        return &arithmetic;
}
