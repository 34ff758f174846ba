/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_store.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/wipe.h"

enum { KEY_TEXT = 128 }; /* bytes of a key in the interchange format, and more */

static bool is_same(const struct tls_psk *psk, const void *identity, size_t len)
{
        return psk->identity_len == len && memcmp(psk->identity, identity, len) == 0;
}

/* realloc() would leave the keys behind. */
static bool make_room(struct tls_store *s)
{
        unsigned room = s->room ? 2 * s->room : 16;
        struct tls_psk *psks;

        if (s->n < s->room)
                return true;
        psks = calloc(room, sizeof(*psks));
        if (!psks)
                return false;
        if (s->psks) {
                memcpy(psks, s->psks, s->n * sizeof(*psks));
                wipe(s->psks, s->room * sizeof(*psks));
        }
        free(s->psks);
        s->psks = psks;
        s->room = room;
        return true;
}

static const char *add(struct tls_store *s, const char *identity, size_t len,
                       const struct auth_key *key)
{
        struct tls_identity id;
        struct tls_psk *psk;

        if (len > TLS_IDENTITY_MAX || !tls_identity_parse(&id, identity, len))
                return "what is before the key is no identity of NVMe/TCP";
        if (key->len != tls_key_len(id.suite))
                return "the key is not as long as the hash of its identity";
        for (unsigned i = 0; i < s->n; i++)
                if (is_same(&s->psks[i], identity, len))
                        return "a second key of the same identity";
        if (s->n == TLS_STORE_MAX)
                return "more than 1024 keys";
        if (!make_room(s))
                return "out of memory";
        psk = &s->psks[s->n++];
        psk->suite = id.suite;
        psk->identity_len = (uint16_t)len;
        memcpy(psk->identity, identity, len);
        memcpy(psk->key, key->bytes, key->len);
        return NULL;
}

static const char *configure(struct tls_store *s, const struct auth_key *key)
{
        if (s->configured.len)
                return "a second configured PSK, without an identity";
        s->configured = *key;
        return NULL;
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r';
}

/* The last word of the line is the key; NULL: there is none. */
static const char *last_word(const char *line, size_t n)
{
        const char *at = line + n;

        while (at > line && !is_blank(at[-1]))
                at--;
        return at < line + n ? at : NULL;
}

const char *tls_store_line(struct tls_store *s, const char *line, size_t n)
{
        char text[KEY_TEXT] = "";
        struct auth_key key;
        const char *word, *wrong;

        while (n > 0 && is_blank(line[n - 1]))
                n--;
        for (; n > 0 && is_blank(*line); n--)
                line++;
        if (n == 0 || *line == '#')
                return NULL;
        word = last_word(line, n);
        if ((size_t)(line + n - word) >= sizeof(text))
                return "its last word is no key: it is too long";
        memcpy(text, word, (size_t)(line + n - word));
        wrong = tls_key_parse(&key, text);
        if (!wrong && word == line)
                wrong = configure(s, &key);
        else if (!wrong)
                wrong = add(s, line, (size_t)(word - 1 - line), &key);
        wipe(text, sizeof(text));
        wipe(&key, sizeof(key));
        return wrong;
}

bool tls_store_find(const struct tls_store *s, const void *identity, size_t len,
                    struct tls_psk *psk)
{
        for (unsigned i = 0; i < s->n; i++)
                if (is_same(&s->psks[i], identity, len)) {
                        *psk = s->psks[i];
                        return true;
                }
        return false;
}

const struct tls_psk *tls_store_of(const struct tls_store *s, const struct tls_identity *like)
{
        const struct tls_psk *found = NULL;

        for (unsigned i = 0; i < s->n; i++) {
                const struct tls_psk *psk = &s->psks[i];
                struct tls_identity id;

                if (!tls_identity_parse(&id, psk->identity, psk->identity_len) || id.generated ||
                    (like->suite && id.suite != like->suite) ||
                    strcmp(id.hostnqn, like->hostnqn) != 0 || strcmp(id.subnqn, like->subnqn) != 0)
                        continue;
                if (id.version == like->version)
                        return psk;
                found = found ? found : psk;
        }
        return found;
}

void tls_store_clear(struct tls_store *s)
{
        if (s->psks)
                wipe(s->psks, s->room * sizeof(*s->psks));
        free(s->psks);
        wipe(s, sizeof(*s));
}
