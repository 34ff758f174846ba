/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_secret.h"

#include <stdbool.h>
#include <string.h>

#include "text.h"

const char *tls_secret_name(enum tls_secret_kind kind)
{
        static const char *const names[] = {
                [TLS_CLIENT_HANDSHAKE] = "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
                [TLS_SERVER_HANDSHAKE] = "SERVER_HANDSHAKE_TRAFFIC_SECRET",
                [TLS_CLIENT_TRAFFIC] = "CLIENT_TRAFFIC_SECRET_0",
                [TLS_SERVER_TRAFFIC] = "SERVER_TRAFFIC_SECRET_0",
        };

        return names[kind];
}

struct part {
        const char *p;
        size_t len;
};

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct part next_word(const char **at, const char *end)
{
        struct part w;

        while (*at < end && is_blank(**at))
                ++*at;
        w.p = *at;
        while (*at < end && !is_blank(**at))
                ++*at;
        w.len = (size_t)(*at - w.p);
        return w;
}

static bool from_hex(struct part w, uint8_t *out)
{
        for (size_t i = 0; i < w.len; i += 2) {
                int high = hex_digit(w.p[i]), low = hex_digit(w.p[i + 1]);

                if (high < 0 || low < 0)
                        return false;
                out[i / 2] = (uint8_t)(high << 4 | low);
        }
        return true;
}

static bool is_hex_of(struct part w, size_t bytes)
{
        return w.len == 2 * bytes;
}

static enum tls_secret_kind kind_of(struct part label)
{
        unsigned kind = 0;

        while (kind < TLS_SECRETS && (strlen(tls_secret_name(kind)) != label.len ||
                                      memcmp(tls_secret_name(kind), label.p, label.len) != 0))
                kind++;
        return (enum tls_secret_kind)kind;
}

int tls_secret_parse(struct tls_secret *s, const char *line, size_t len)
{
        const char *at = line, *end = line + len;
        struct part label = next_word(&at, end), random = next_word(&at, end),
                    secret = next_word(&at, end);

        if (label.len == 0 || label.p[0] == '#')
                return 0;
        if (secret.len == 0 || next_word(&at, end).len > 0)
                return -1;
        *s = (struct tls_secret) { .kind = (uint8_t)kind_of(label),
                                   .len = (uint8_t)(secret.len / 2) };
        if (s->kind == TLS_SECRETS)
                return 0;
        if (!is_hex_of(random, TLS_RANDOM) || (!is_hex_of(secret, 32) && !is_hex_of(secret, 48)))
                return -1;
        return from_hex(random, s->random) && from_hex(secret, s->bytes) ? 1 : -1;
}
