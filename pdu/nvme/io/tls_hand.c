/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_hand.h"

#include <string.h>

#include "auth_openssl.h"
#include "pdu/core/wipe.h"
#include "tls_record.h"

bool tls_said_add(struct tls_said *said, const void *message, size_t len)
{
        if (len > sizeof(said->p) - said->len)
                return false;
        memcpy(said->p + said->len, message, len);
        said->len += len;
        return true;
}

bool tls_said_fold(struct tls_said *said, enum tls_suite suite)
{
        enum { HEADER = 4 };
        uint8_t hash = tls_hash(suite), len = (uint8_t)auth_hash_len(hash);
        uint8_t message[HEADER + AUTH_HASH_MAX] = { TLS_MESSAGE_HASH, 0, 0, len };
        const struct auth_slice hello = { said->p, said->len };

        if (auth_openssl()->digest(hash, NULL, &hello, 1, message + HEADER) < 0)
                return false;
        said->len = 0;
        return tls_said_add(said, message, HEADER + len);
}

static int use(struct tls_hand *h, enum party side, const uint8_t *secret)
{
        memmove(h->secrets[side], secret, AUTH_HASH_MAX);
        h->keys[side].suite = h->psk.suite;
        h->seq[side] = 0;
        return tls_traffic_keys(auth_openssl(), h->secrets[side], &h->keys[side]);
}

static int derive(const struct tls_hand *h, enum tls_epoch epoch, uint8_t out[2][AUTH_HASH_MAX])
{
        const struct auth_slice said = { h->said, h->said_len },
                                shared = { h->shared, h->shared_len };

        return tls_psk_secrets(auth_openssl(), &h->psk, h->shared_len ? &shared : NULL, epoch,
                               &said, 1, out);
}

/* RFC 8446 7.4: of a curve of NIST the first coordinate, of X25519 all of it. */
static bool share_secret(struct tls_hand *h, uint16_t group, const struct auth_slice *share)
{
        bool nist = group == TLS_SECP256R1 || group == TLS_SECP384R1;
        size_t len = nist ? share->len / 2 : share->len;

        if (group == TLS_NO_GROUP)
                return true;
        if (group == TLS_FFDHE3072 || len == 0 || len > sizeof(h->shared))
                return false;
        memcpy(h->shared, (const uint8_t *)share->p + nist, len);
        h->shared_len = len;
        return true;
}

int tls_hand_begin(struct tls_hand *h, enum party self, const struct tls_psk *psk,
                   const struct auth_slice *client_hello, const struct auth_slice *server_hello,
                   uint16_t group, const struct auth_slice *share)
{
        *h = (struct tls_hand) { .self = self, .psk = *psk };
        if (!share_secret(h, group, share) ||
            tls_hand_heard(h, client_hello->p, client_hello->len) < 0 ||
            tls_hand_heard(h, server_hello->p, server_hello->len) < 0 ||
            derive(h, TLS_HANDSHAKE_KEYS, h->later) < 0 || tls_hand_switch(h, PARTY_HOST) < 0)
                return -1;
        return tls_hand_switch(h, PARTY_CONTROLLER);
}

int tls_hand_heard(struct tls_hand *h, const void *message, size_t len)
{
        if (len > sizeof(h->said) - h->said_len)
                return -1;
        memcpy(h->said + h->said_len, message, len);
        h->said_len += len;
        return 0;
}

size_t tls_hand_finished(const struct tls_hand *h, enum party side,
                         uint8_t message[TLS_FINISHED_MAX])
{
        uint8_t hash = tls_hash(h->psk.suite), len = (uint8_t)auth_hash_len(hash);
        const struct auth_slice said = { h->said, h->said_len };

        memcpy(message, (uint8_t[]) { TLS_FINISHED, 0, 0, len }, 4);
        return tls_finished(auth_openssl(), hash, h->secrets[side], &said, message + 4) == 0
                   ? 4u + len
                   : 0;
}

int tls_hand_complete(struct tls_hand *h)
{
        return derive(h, TLS_APPLICATION_KEYS, h->later);
}

int tls_hand_switch(struct tls_hand *h, enum party side)
{
        return use(h, side, h->later[side]);
}

int tls_hand_update(struct tls_hand *h, enum party side)
{
        if (tls_next_secret(auth_openssl(), h->psk.suite, h->secrets[side]) < 0)
                return -1;
        return use(h, side, h->secrets[side]);
}

size_t tls_hand_seal(struct tls_hand *h, uint8_t type, const void *content, size_t len, size_t pad,
                     uint8_t *record)
{
        return tls_record_seal(&h->keys[h->self], h->seq[h->self]++, type, content, len, pad,
                               record);
}

ssize_t tls_hand_open(struct tls_hand *h, const uint8_t *record, size_t len, uint8_t *content,
                      uint8_t *type)
{
        enum party peer = peer_of(h->self);
        ssize_t n = tls_record_open(&h->keys[peer], h->seq[peer], record, len, content, type);

        h->seq[peer] += n >= 0;
        return n;
}

void tls_hand_end(struct tls_hand *h)
{
        wipe(h, sizeof(*h));
}
