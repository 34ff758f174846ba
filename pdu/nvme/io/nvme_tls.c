/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvme_tls.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "auth_openssl.h"
#include "pdu/core/wipe.h"
#include "pdu/io/core_dump.h"
#include "pdu/nvme/machine/tls_hello.h"

int nvme_tls_option(struct auth_key *key, const char *value, char *error, size_t size)
{
        return auth_option(key, tls_key_parse, value, error, size);
}

int nvme_tls_argument(struct auth_key *key, const char *value, char *error, size_t size)
{
        return auth_argument(key, tls_key_parse, value, error, size);
}

/* --- key stores ----------------------------------------------------------------------------------- */

enum { STORE_LINE = 1024 };

static bool read_store_file(struct tls_store *s, const char *path, char *error, size_t size)
{
        FILE *f = fopen(path, "re");
        const char *wrong = NULL;
        char line[STORE_LINE];
        unsigned number = 0;

        if (!f) {
                snprintf(error, size, "%s: %s", path, strerror(errno));
                return false;
        }
        setvbuf(f, NULL, _IONBF, 0); /* no copy of the keys */
        auth_warn_of_readers(path);
        while (!wrong && fgets(line, sizeof(line), f)) {
                size_t n = strcspn(line, "\n");

                number++;
                wrong = line[n] == '\n' || feof(f) ? tls_store_line(s, line, n)
                                                   : "longer than any identity and key";
        }
        if (!wrong && ferror(f))
                wrong = strerror(errno);
        wipe(line, sizeof(line));
        fclose(f);
        if (wrong)
                snprintf(error, size, "%s: line %u: %s", path, number, wrong);
        return !wrong;
}

static int is_seen(const struct dirent *e)
{
        return e->d_name[0] != '.';
}

static bool read_store_folder(struct tls_store *s, const char *path, char *error, size_t size)
{
        struct dirent **entries;
        char file[PATH_MAX];
        int n = scandir(path, &entries, is_seen, alphasort);
        bool ok = n >= 0;

        if (!ok)
                snprintf(error, size, "%s: %s", path, strerror(errno));
        for (int i = 0; i < n; i++) {
                if (ok &&
                    snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name) < PATH_MAX)
                        ok = read_store_file(s, file, error, size);
                free(entries[i]);
        }
        if (n >= 0)
                free(entries);
        return ok;
}

struct tls_store *nvme_tls_store(const char *path, char *error, size_t size)
{
        struct tls_store *s = calloc(1, sizeof(*s));
        struct stat st;
        bool ok;

        core_dump_empty();
        snprintf(error, size, "%s",
                 auth_openssl() ? strerror(ENOMEM) : "built without OpenSSL: no TLS");
        ok = s && auth_openssl();
        if (ok)
                ok = stat(path, &st) == 0 && S_ISDIR(st.st_mode)
                         ? read_store_folder(s, path, error, size)
                         : read_store_file(s, path, error, size);
        if (ok && s->n == 0 && !s->configured.len) {
                snprintf(error, size, "%s: no key", path);
                ok = false;
        }
        if (ok)
                return s;
        nvme_tls_store_free(s);
        return NULL;
}

void nvme_tls_store_free(struct tls_store *s)
{
        if (s)
                tls_store_clear(s);
        free(s);
}

/* --- as a host ------------------------------------------------------------------------------------ */

static enum tls_suite suite_of(const struct nvme_tls *cfg)
{
        if (cfg->suite)
                return cfg->suite;
        return cfg->key.len == tls_key_len(TLS_AES_128_GCM) ? TLS_AES_128_GCM : TLS_AES_256_GCM;
}

/* The store's own of these names, as it is; else what is derived of a configured PSK. False: there is neither. */
static bool take_psk(const struct nvme_tls *cfg, struct tls_identity *id, struct tls_psk *psk)
{
        const struct tls_store *s = cfg->store;
        const struct tls_psk *own = NULL;

        id->suite = cfg->suite;
        if (s && !cfg->generated)
                own = tls_store_of(s, id);
        if (own)
                *psk = *own;
        return own;
}

static int psk_for(const struct nvme_tls *cfg, const char *hostnqn, const char *subnqn,
                   struct tls_psk *psk, char *error, size_t size)
{
        struct tls_identity id = { .version = cfg->version, .generated = cfg->generated };
        struct nvme_tls with = *cfg;
        int rc = 0;

        snprintf(id.hostnqn, sizeof(id.hostnqn), "%s", hostnqn);
        snprintf(id.subnqn, sizeof(id.subnqn), "%s", subnqn);
        if (take_psk(cfg, &id, psk))
                return 0;
        if (!with.key.len && with.store)
                with.key = with.store->configured;
        id.suite = suite_of(&with);
        if (!with.key.len) {
                snprintf(error, size, "TLS: the key store has no key of %s and %s", hostnqn,
                         subnqn);
                rc = -1;
        } else if (tls_key_derive(auth_openssl(), &with.key, &id, cfg->derivation, psk) < 0) {
                snprintf(
                    error, size,
                    "TLS: no key can be derived for these names (an identity of version 0 has at "
                    "most 255 bytes: version 1 has no such limit)");
                rc = -1;
        }
        wipe(&with, sizeof(with));
        return rc;
}

static bool expand(enum tls_suite suite, const uint8_t *secret, const char *label, uint8_t *out,
                   size_t len)
{
        const struct auth_slice nothing = { "", 0 };

        return hkdf_expand_label(auth_openssl(), tls_hash(suite), secret, label, &nothing,
                                 TLS_PRINTED, out, len) == 0;
}

int nvme_tls_connect(struct stream *s, const struct nvme_tls *cfg, const char *hostnqn,
                     const char *subnqn, char *error, size_t size)
{
        struct tls_psk psk;
        struct tls *tls;
        int rc;

        if (psk_for(cfg, hostnqn, subnqn, &psk, error, size) < 0)
                return -1;
        tls = tls_new(&(struct tls_config) { .side = PARTY_HOST,
                                             .groups = cfg->groups,
                                             .dhe_only = cfg->dhe_only,
                                             .kernel = cfg->kernel ? expand : NULL,
                                             .derived = tls_derivation_text(cfg->derivation),
                                             .keylog = cfg->keylog });
        rc = tls ? stream_tls_begin(s, tls, &psk) : -1;
        tls_free(tls);
        wipe(&psk, sizeof(psk));
        if (rc < 0)
                snprintf(error, size, "TLS: %s", strerror(errno));
        return rc;
}

/* --- as a controller ------------------------------------------------------------------------------ */

/* The keys that an identity may be of: a PSK that is configured is a retained one. How many. */
static unsigned keys_for(const struct nvme_tls_server *server, const struct tls_identity *id,
                         struct auth_key keys[NVME_TLS_KEYS + 2], bool *usual)
{
        const struct nvme_tls *cfg = &server->tls;
        unsigned n = server->keys ? server->keys(server, id, keys, usual) : 0;

        *usual &= !id->generated;
        if (*usual && cfg->key.len > 0)
                keys[n++] = cfg->key;
        if (*usual && cfg->store && cfg->store->configured.len > 0)
                keys[n++] = cfg->store->configured;
        return n;
}

static enum tls_derivation other_than(enum tls_derivation how)
{
        return how == TLS_PRINTED ? TLS_OLD : TLS_PRINTED;
}

/* By either derivation. */
static bool is_of_key(const struct nvme_tls *cfg, const struct auth_key *key, const void *identity,
                      size_t len, struct tls_psk *psk)
{
        return tls_key_find(auth_openssl(), key, cfg->derivation, identity, len, psk) > 0 ||
               tls_key_find(auth_openssl(), key, other_than(cfg->derivation), identity, len, psk) >
                   0;
}

static bool find(void *user, const void *identity, size_t len, struct tls_psk *psk)
{
        const struct nvme_tls_server *server = user;
        struct auth_key keys[NVME_TLS_KEYS + 2];
        struct tls_identity id;
        bool found, usual = true;
        unsigned n;

        if (!tls_identity_parse(&id, identity, len))
                return false;
        n = keys_for(server, &id, keys, &usual);
        found = usual && server->tls.store && tls_store_find(server->tls.store, identity, len, psk);
        for (unsigned i = 0; i < n && !found; i++)
                found = is_of_key(&server->tls, &keys[i], identity, len, psk);
        wipe(keys, sizeof(keys));
        return found;
}

/* Whether the host has proved that it knows this key, derived so. */
static bool proves(const struct tls_hello_view *v, const struct auth_key *key,
                   enum tls_derivation how)
{
        struct tls_psk psk;
        bool known =
            tls_key_find(auth_openssl(), key, how, v->identity, v->identity_len, &psk) > 0 &&
            tls_hello_proves(auth_openssl(), v, &psk);

        wipe(&psk, sizeof(psk));
        return known;
}

/* Of the first key that is offered: version 1 shows in its identity whose it is, version 0 in its binder. */
static bool explain(void *user, const uint8_t *hello, size_t len, char *text, size_t size)
{
        const struct nvme_tls_server *server = user;
        enum tls_derivation ours = server->tls.derivation, other = other_than(ours);
        struct auth_key keys[NVME_TLS_KEYS + 2];
        bool known = false, otherwise = false, usual = true;
        struct tls_hello_view v;
        struct tls_identity id;
        unsigned n;

        if (!tls_hello_read(&v, hello, len) || v.identities == 0 ||
            !tls_identity_parse(&id, v.identity, v.identity_len))
                return false;
        n = keys_for(server, &id, keys, &usual);
        for (unsigned i = 0; i < n; i++) {
                known |= proves(&v, &keys[i], ours);
                otherwise |= proves(&v, &keys[i], other);
        }
        wipe(keys, sizeof(keys));
        if (n == 0)
                snprintf(text, size, "there is none for this host and subsystem");
        else if (id.version > 0)
                snprintf(text, size, "its digest is not of our key");
        else if (otherwise)
                snprintf(text, size,
                         "the host has our key of %.*s, but derived %s, ours %s (--tls-derivation)",
                         (int)v.identity_len, (const char *)v.identity, tls_derivation_text(other),
                         tls_derivation_text(ours));
        else
                snprintf(text, size, "the host's key of %.*s is not ours, derived either way",
                         (int)v.identity_len, (const char *)v.identity);
        return !known && (id.version == 0 || !otherwise);
}

static size_t spoil(void *user, const uint8_t *hello, size_t len, uint8_t *answer, size_t size)
{
        const struct nvme_tls_server *server = user;

        return server->spoil(server, hello, len, answer, size);
}

static bool take_over(void *user, struct stream *s, const uint8_t *hello, size_t len)
{
        const struct nvme_tls_server *server = user;

        return server->take_over(server, s, hello, len);
}

struct tls *nvme_tls_server(const struct nvme_tls_server *server)
{
        const struct nvme_tls *cfg = &server->tls;

        return tls_new(&(struct tls_config) { .side = PARTY_CONTROLLER,
                                              .find = find,
                                              .explain = explain,
                                              .user = (void *)(uintptr_t)server,
                                              .spoil = server->spoil ? spoil : NULL,
                                              .take_over = server->take_over ? take_over : NULL,
                                              .suites = cfg->suite ? 1u << cfg->suite : 0,
                                              .groups = cfg->groups,
                                              .dhe_only = cfg->dhe_only,
                                              .kernel = cfg->kernel ? expand : NULL,
                                              .keylog = cfg->keylog,
                                              .record_hello = server->record_hello,
                                              .plain = server->plain });
}
