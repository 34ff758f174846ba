/* SPDX-License-Identifier: BSD-3-Clause */
/* Key stores: lines of any bytes, and the keys that are found in them. */
#include "pdu/nvme/machine/tls_store.h"
#include "fuzz/fuzz.h"

/* Whoever is in it is found by its identity, and by its names if it is a retained one. */
static void look_up(const struct tls_store *s)
{
        for (unsigned i = 0; i < s->n; i++) {
                const struct tls_psk *p = &s->psks[i];
                struct tls_identity id;
                struct tls_psk found;

                must(p->identity_len <= TLS_IDENTITY_MAX);
                must(tls_store_find(s, p->identity, p->identity_len, &found));
                must(memcmp(found.key, p->key, tls_key_len(p->suite)) == 0);
                must(tls_identity_parse(&id, p->identity, p->identity_len) && id.suite == p->suite);
                must(id.generated || tls_store_of(s, &id));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct tls_store s = { 0 };
        size_t at = 0;

        while (at < size) {
                const uint8_t *end = memchr(data + at, '\n', size - at);
                size_t n = end ? (size_t)(end - data) - at : size - at;
                unsigned before = s.n;
                const char *wrong = tls_store_line(&s, (const char *)data + at, n);

                must(!wrong || (s.n == before && *wrong));
                at += n + 1;
        }
        look_up(&s);
        tls_store_clear(&s);
        must(!s.psks && s.n == 0);
        return 0;
}
