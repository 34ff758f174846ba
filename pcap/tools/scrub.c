/* SPDX-License-Identifier: BSD-3-Clause */
#include "scrub.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "pdu/core/le.h"
#include "pdu/core/text.h"

/* --- SipHash-2-4 (Aumasson and Bernstein) ----------------------------------------------------- */

static uint64_t rotate(uint64_t v, int by)
{
        return v << by | v >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
        v[3] ^= word;
        sip_round(v);
        sip_round(v);
        v[0] ^= word;
}

uint64_t scrub_hash(const struct scrub *s, const void *p, size_t n)
{
        uint64_t v[4] = { s->key[0] ^ UINT64_C(0x736f6d6570736575),
                          s->key[1] ^ UINT64_C(0x646f72616e646f6d),
                          s->key[0] ^ UINT64_C(0x6c7967656e657261),
                          s->key[1] ^ UINT64_C(0x7465646279746573) };
        const uint8_t *at = p;
        size_t left = n;

        for (; left >= 8; at += 8, left -= 8)
                sip_word(v, le_get(at, 8));
        sip_word(v, (left ? le_get(at, (unsigned)left) : 0) | (uint64_t)n << 56);
        v[2] ^= 0xff;
        for (int i = 0; i < 4; i++)
                sip_round(v);
        return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void scrub_bytes(const struct scrub *s, uint8_t *p, size_t n)
{
        uint64_t word, seed[2] = { scrub_hash(s, p, n), 0 };
        size_t i;

        for (i = 0; i < n && p[i] == 0; i++)
                continue;
        if (i == n)
                return;
        for (i = 0; i < n; i += 8) {
                word = scrub_hash(s, seed, sizeof(seed));
                memcpy(p + i, &word, n - i < 8 ? n - i : 8);
                seed[1]++;
        }
}

/* --- addresses -------------------------------------------------------------------------------- */

void scrub_address(const struct scrub *s, struct capture_end *e)
{
        size_t n = e->family == AF_INET ? 4 : 16;
        uint64_t hash = scrub_hash(s, e->addr, n);

        memset(e->addr + 1, 0, n - 1);
        e->addr[0] = e->family == AF_INET ? 10 : 0xfd;
        memcpy(e->addr + (n == 4 ? 1 : 8), &hash, n == 4 ? 3 : 8);
}

void scrub_address_text(const struct scrub *s, uint8_t *p, size_t n)
{
        struct capture_end e = { .family = AF_INET };
        char text[INET6_ADDRSTRLEN + 1] = "";

        text_copy(text, sizeof(text), (const char *)p, n);
        memset(p, 0, n);
        if (inet_pton(AF_INET, text, e.addr) != 1) {
                e.family = AF_INET6;
                if (inet_pton(AF_INET6, text, e.addr) != 1)
                        return;
        }
        scrub_address(s, &e);
        inet_ntop(e.family, e.addr, text, sizeof(text));
        text_fill((char *)p, n, text);
}

/* --- text and structures ---------------------------------------------------------------------- */

void scrub_letters(const struct scrub *s, uint8_t *p, size_t n)
{
        uint64_t word = 0, seed[2] = { scrub_hash(s, p, n), 0 };

        for (size_t i = 0; i < n; i++, word >>= 8) {
                uint8_t c = p[i];

                if (i % 8 == 0) {
                        seed[1] = i;
                        word = scrub_hash(s, seed, sizeof(seed));
                }
                if (c >= 'a' && c <= 'z')
                        p[i] = (uint8_t)('a' + (word & 0xff) % 26);
                else if (c >= 'A' && c <= 'Z')
                        p[i] = (uint8_t)('A' + (word & 0xff) % 26);
                else if (c >= '0' && c <= '9')
                        p[i] = (uint8_t)('0' + (word & 0xff) % 10);
                else if (c > '~')
                        p[i] = 0xff;
        }
}

void scrub_zero(const struct scrub *s, uint8_t *p, size_t n)
{
        (void)s;
        memset(p, 0, n);
}

static void replace_at(const struct scrub *s, const struct scrub_piece *d, uint64_t at,
                       const struct scrub_place *place)
{
        uint64_t from = at > d->offset ? at : d->offset, end = at + place->len;
        uint64_t to = end < d->offset + d->n ? end : d->offset + d->n;

        if (from >= to)
                return;
        (to - from < place->len ? scrub_zero : place->replace)(s, d->p + (from - d->offset),
                                                               (size_t)(to - from));
}

void scrub_places(const struct scrub *s, const struct scrub_piece *d, uint64_t base,
                  const struct scrub_place *places, size_t n)
{
        for (size_t i = 0; i < n; i++)
                replace_at(s, d, base + places[i].at, &places[i]);
}
