/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_keys.h"

#include <string.h>

#include "pdu/core/wipe.h"
#include "pdu/io/loop.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "psk_store.h"

/* Those that were generated with these keys; how many. */
static unsigned living(const struct ctrl_env *env, const char *hostnqn, const char *subnqn,
                       const struct auth_keys *by, uint64_t now,
                       struct auth_key keys[NVME_TLS_KEYS])
{
        struct generated_psk psks[PSKS_OF_PAIR];
        unsigned count = psk_store_find(env->psks, hostnqn, subnqn, now, psks), n = 0;

        _Static_assert((int)PSKS_OF_PAIR <= (int)NVME_TLS_KEYS, "room for them");
        for (unsigned i = 0; i < count; i++)
                if (auth_keys_equal(&psks[i].by, by))
                        keys[n++] = psks[i].psk;
        wipe(psks, sizeof(psks));
        return n;
}

unsigned tls_keys(const struct ctrl_env *env, const struct tls_identity *id,
                  struct auth_key keys[NVME_TLS_KEYS], bool *usual)
{
        const struct subsystem *s;
        struct auth_keys by = { 0 };
        unsigned n = 0;

        pthread_rwlock_rdlock(&env->inv->lock);
        s = inventory_subsystem(env->inv, id->subnqn);
        if (s && subsystem_allows(s, id->hostnqn))
                by = *subsystem_keys(s, id->hostnqn);
        pthread_rwlock_unlock(&env->inv->lock);
        keys[0] = by.psk;
        if (by.psk.len && !(id->generated && violates(env, FAB_AUTH_PSK_RETAINED)))
                n = !id->generated && (!by.psk.spoilt || violates(env, TLS_CHECKSUM));
        else if (id->generated && env->psks)
                n = living(env, id->hostnqn, id->subnqn, &by, loop_now_ms(), keys);
        *usual = !by.psk.len && !(by.host.len && env->psks);
        wipe(&by, sizeof(by));
        return n;
}

static bool is_psk_of(const struct auth_key *key, const struct tls_psk *have)
{
        struct tls_psk psk;
        bool same = false;

        for (unsigned how = TLS_PRINTED; how <= TLS_OLD && !same; how++)
                same = tls_key_find(auth_openssl(), key, (enum tls_derivation)how, have->identity,
                                    have->identity_len, &psk) > 0 &&
                       memcmp(psk.key, have->key, tls_key_len(have->suite)) == 0;
        wipe(&psk, sizeof(psk));
        return same;
}

bool tls_keys_prove(const struct ctrl *c, const struct ctrl_queue *q, uint64_t now,
                    struct auth_key *psk)
{
        struct auth_key keys[NVME_TLS_KEYS];
        unsigned n = 0, i = 0;

        if (q->tls && c->env->psks)
                n = living(c->env, c->m.hostnqn, c->m.subnqn, &c->auth.keys, now, keys);
        while (i < n && !is_psk_of(&keys[i], q->tls))
                i++;
        if (i < n)
                *psk = keys[i];
        wipe(keys, sizeof(keys));
        return i < n;
}
