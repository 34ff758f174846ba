/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "case_tls.h"
#include "conn_tcp.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/tls_record.h"
#include "words.h"

bool knows_tls(const struct t *t)
{
        return peer(t)->tls.key.len > 0;
}

bool runs_over_tls(const struct t *t)
{
        return peer(t)->tls_always;
}

enum tls_suite suite_of_key(const struct auth_key *configured)
{
        return configured->len == tls_key_len(TLS_AES_256_GCM) ? TLS_AES_256_GCM : TLS_AES_128_GCM;
}

static enum tls_suite usual_suite(const struct peer *p)
{
        return suite_of_key(&p->tls.key);
}

static struct tls_psk *derive_for(struct t *t, const char *hostnqn, const struct auth_key *key,
                                  enum tls_suite suite, bool generated)
{
        const struct peer *p = peer(t);
        struct tls_psk *psk = t_alloc(t, sizeof(*psk));
        struct tls_identity id = { .version = p->tls.version,
                                   .suite = suite,
                                   .generated = generated };

        snprintf(id.hostnqn, sizeof(id.hostnqn), "%.*s", NQN_MAX, hostnqn);
        snprintf(id.subnqn, sizeof(id.subnqn), "%s", p->subnqn ? p->subnqn : NQN_DISCOVERY);
        if (tls_key_derive(auth_openssl(), key, &id, p->tls.derivation, psk) < 0)
                broke(t, "no key for TLS can be derived for these names");
        return psk;
}

static struct tls_psk *derive(struct t *t, enum tls_suite suite, bool generated)
{
        const struct peer *p = peer(t);

        require(t, p->tls.key.len, "no PSK for TLS is known (--tls-key)");
        return derive_for(t, world(t)->hostnqn, &p->tls.key, suite, generated);
}

/* --- hosts with a PSK of their own */

const struct tls_host *tls_host_of(struct t *t, unsigned i)
{
        const struct peer *p = peer(t);
        struct tls_host *ours;

        if (!knows_tls(t))
                i++;
        if (i > 0)
                return i <= p->n_tls_hosts ? &p->tls_hosts[i - 1] : NULL;
        ours = t_alloc(t, sizeof(*ours));
        *ours = (struct tls_host) { .key = p->tls.key };
        memcpy(ours->nqn, world(t)->hostnqn, sizeof(ours->nqn));
        return ours;
}

const struct tls_psk *psk_of_host(struct t *t, const struct tls_host *h,
                                  const struct auth_key *configured, enum tls_suite suite)
{
        return derive_for(t, h->nqn, configured, suite, false);
}

const struct nvme_tls *tls_of_run(struct t *t)
{
        require(t, knows_tls(t), "no PSK for TLS is known (--tls-key)");
        return runs_over_tls(t) ? NULL : &peer(t)->tls;
}

void become_tls_host(struct t *t, const struct tls_host *h)
{
        memcpy(world(t)->hostnqn, h->nqn, sizeof(world(t)->hostnqn));
}

unsigned psk_lifetime(const struct t *t)
{
        return peer(t)->psk_lifetime;
}

const struct tls_psk *own_psk(struct t *t, enum tls_suite suite)
{
        const struct peer *p = peer(t);

        require(t, !p->tls.key.len || p->tls_each_hash || suite == usual_suite(p),
                "the PSK has %u bytes, and may not be one for this suite", p->tls.key.len);
        return derive(t, suite, false);
}

const struct tls_psk *usual_psk(struct t *t)
{
        return derive(t, usual_suite(peer(t)), false);
}

const struct tls_psk *generated_psk(struct t *t)
{
        return derive(t, usual_suite(peer(t)), true);
}

const struct tls_psk *psk_named(struct t *t, const char *identity, ...)
{
        struct tls_psk *psk = derive(t, usual_suite(peer(t)), false);
        va_list args;

        va_start(args, identity);
        psk->identity_len =
            (uint16_t)vsnprintf((char *)psk->identity, sizeof(psk->identity), identity, args);
        va_end(args);
        return psk;
}

static bool is_whole(const struct said *s, unsigned records)
{
        size_t at = 0, len;

        while (records > 0 && (len = tls_record_len(s->bytes + at, s->len - at)) > 0) {
                at += len;
                records--;
        }
        return records == 0;
}

/* More of what comes, until so many records are there whole, or nothing comes any more. */
static void hear_more(struct said *s, unsigned records)
{
        struct queue *q = s->queue;
        uint64_t deadline = t_deadline(q->t, REPLY_MS);

        while (!is_whole(s, records) && s->len < sizeof(s->bytes)) {
                size_t n = conn_read_bytes(conn_tcp(q->conn), s->bytes + s->len,
                                           sizeof(s->bytes) - s->len, deadline);

                if (n == 0)
                        break;
                s->len += n;
        }
}

/* A record as so many, each with a part of what it has. */
static void send_in(struct said *s, unsigned records)
{
        enum { HEADER = 5 };
        struct conn_tcp *c = conn_tcp(s->queue->conn);
        uint64_t deadline = t_deadline(s->queue->t, REPLY_MS);
        const uint8_t *from = s->hello + HEADER, *end = s->hello + s->hello_len;
        size_t part = (size_t)(end - from) / records;

        for (unsigned i = 1; i <= records; i++) {
                size_t n = i < records ? part : (size_t)(end - from);
                uint8_t record[TLS_HELLO_MAX];

                memcpy(record, s->hello, HEADER);
                record[HEADER - 2] = (uint8_t)(n >> 8);
                record[HEADER - 1] = (uint8_t)n;
                memcpy(record + HEADER, from, n);
                conn_send_bytes(c, record, (uint32_t)(HEADER + n), deadline);
                from += n;
        }
}

struct said *say_hello(struct t *t, struct tls_hello h)
{
        return say_hello_in(t, h, 1);
}

struct said *say_hello_in(struct t *t, struct tls_hello h, unsigned records)
{
        struct said *s = t_alloc(t, sizeof(*s));

        *s = (struct said) { .queue = tcp_open_bare(t) };
        for (size_t i = 0; i < sizeof(h.random); i++)
                h.random[i] = (uint8_t)(t->connections + i);
        s->hello_len = tls_hello_build(auth_openssl(), &h, s->hello);
        if (s->hello_len == 0)
                broke(t, "the ClientHello cannot be computed");
        exchange_event(
            &t->log, s->queue->conn->no, "ClientHello of version %04Xh, suites %s%s, %s, group %Xh",
            h.version, h.suites >> TLS_AES_128_GCM & 1 ? "1301h" : "",
            h.suites >> TLS_AES_256_GCM & 1 ? "1302h" : "", h.psk ? "a PSK" : "no PSK", h.group);
        provoke(s->queue);
        send_in(s, records);
        hear_more(s, 1);
        if (s->len == 0)
                broke_if_late(s->queue);
        s->answer = tls_answer_read(s->bytes, s->len);
        tls_answer_text(&s->answer, s->text, sizeof(s->text));
        exchange_event(&t->log, s->queue->conn->no, "%s", s->text);
        return s;
}

bool is_taken(const struct said *s)
{
        const struct tls_answer *a = &s->answer;

        return a->version == TLS_1_3 &&
               (a->kind == TLS_RETRY || (a->kind == TLS_SERVER_HELLO && a->psk));
}

/* Of key exchange; the last one is PSK alone. */
static const uint16_t ways[] = { TLS_FFDHE3072, TLS_SECP384R1, TLS_X25519, TLS_SECP256R1,
                                 TLS_NO_GROUP };
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static struct tls_hello hello_by(const struct tls_psk *psk, uint16_t group)
{
        return HELLO(psk, .group = group, .modes = group ? TLS_PSK_DHE_KE : TLS_PSK_KE);
}

const struct said *offer_each_way(struct t *t, const struct tls_psk *psk)
{
        const struct said *s = NULL;

        for (unsigned i = 0; i < WAYS && !(s && is_taken(s)); i++)
                s = say_hello(t, hello_by(psk, ways[i]));
        return s;
}

bool uses_psk(struct t *t, const struct tls_psk *psk)
{
        for (unsigned i = 0; i < WAYS; i++) {
                const struct said *s = say_hello(t, hello_by(psk, ways[i]));

                if (s->answer.kind == TLS_SERVER_HELLO && s->answer.psk)
                        return true;
        }
        return false;
}

/* By our name; NULL: it cannot be derived. */
static const struct tls_psk *psk_for(struct t *t, const struct nvme_tls *tls, bool generated,
                                     const char *subnqn)
{
        struct tls_identity id = { .version = tls->version,
                                   .suite = tls->suite,
                                   .generated = generated };
        struct tls_psk *psk = t_alloc(t, sizeof(*psk));

        snprintf(id.hostnqn, sizeof(id.hostnqn), "%.*s", NQN_MAX, world(t)->hostnqn);
        snprintf(id.subnqn, sizeof(id.subnqn), "%s", subnqn);
        return tls_key_derive(auth_openssl(), &tls->key, &id, tls->derivation, psk) == 0 ? psk
                                                                                         : NULL;
}

bool takes_generated(struct t *t, const struct nvme_tls *tls, const char *subnqn)
{
        const struct tls_psk *psk = psk_for(t, tls, true, subnqn);

        return psk && uses_psk(t, psk);
}

bool takes_configured(struct t *t, const struct auth_key *configured, const char *subnqn)
{
        struct nvme_tls tls = { .key = *configured,
                                .version = peer(t)->tls.version,
                                .derivation = peer(t)->tls.derivation,
                                .suite = suite_of_key(configured) };

        const struct tls_psk *psk = psk_for(t, &tls, false, subnqn);

        return psk && uses_psk(t, psk);
}

const struct nvme_tls *tls_generated(struct t *t, const struct auth_key *key, const char *subnqn)
{
        struct nvme_tls *tls = t_alloc(t, sizeof(*tls));
        const struct tls_psk *psk;

        for (unsigned i = 0; i < 8; i++) {
                *tls = (struct nvme_tls) { .key = *key,
                                           .generated = true,
                                           .keylog = peer(t)->tls.keylog,
                                           .version = i & 1,
                                           .derivation = i & 2 ? TLS_OLD : TLS_PRINTED,
                                           .suite = i & 4 ? TLS_AES_256_GCM : TLS_AES_128_GCM };
                psk = psk_for(t, tls, true, subnqn);
                if (psk && is_taken(offer_each_way(t, psk)))
                        return tls;
        }
        return NULL;
}

struct tls_hello accepted_hello(struct t *t)
{
        const struct tls_psk *psk = usual_psk(t);
        unsigned i = 0;

        for (; i < WAYS; i++) {
                const struct said *s = say_hello(t, hello_by(psk, ways[i]));

                if (s->answer.kind == TLS_SERVER_HELLO && s->answer.psk)
                        break;
        }
        require(t, i < WAYS,
                "the target takes no ClientHello of ours: nothing can be said of spoilt ones");
        return hello_by(psk, ways[i]);
}

bool takes_group(struct t *t, uint16_t group)
{
        const struct said *s = say_hello(t, hello_by(usual_psk(t), group));

        return s->answer.kind == TLS_RETRY ||
               (s->answer.kind == TLS_SERVER_HELLO && s->answer.group == group);
}

void want_refused(struct t *t, const struct said *s, const char *what)
{
        want(t, s->answer.kind != TLS_SERVER_HELLO, what, "%s", s->text);
}

bool is_ended(struct said *s)
{
        struct conn_tcp *c = conn_tcp(s->queue->conn);
        uint64_t deadline = t_deadline(s->queue->t, REPLY_MS);
        uint8_t rest[256];

        while (conn_read_bytes(c, rest, sizeof(rest), deadline) > 0)
                ;
        broke_if_late(s->queue);
        return s->queue->conn->end != CONN_OPEN;
}

/* How many records are whole before that place. */
static unsigned records_before(const struct said *s, size_t end)
{
        unsigned n = 0;

        for (size_t at = 0; at < end; n++)
                at += tls_record_len(s->bytes + at, s->len - at);
        return n;
}

size_t next_record(struct said *s, size_t at)
{
        for (;;) {
                size_t len;

                hear_more(s, records_before(s, at) + 1);
                len = tls_record_len(s->bytes + at, s->len - at);
                if (len == 0 || s->bytes[at] != TLS_CHANGE_CIPHER)
                        return at;
                at += len;
        }
}

bool accepts_early(struct said *s, const struct tls_psk *psk)
{
        enum { HEADER = 5 };
        const struct auth_slice client = { s->hello + HEADER, s->hello_len - HEADER },
                                server = { s->bytes + HEADER, s->answer.len - HEADER };
        size_t at = next_record(s, s->answer.len), len = tls_record_len(s->bytes + at, s->len - at);
        struct t *t = s->queue->t;
        uint8_t message[sizeof(s->bytes)], type;
        struct tls_traffic traffic;
        ssize_t n = -1;
        int early;

        if (tls_server_traffic(auth_openssl(), psk, &client, &server, &traffic) == 0)
                n = tls_record_open(&traffic, 0, s->bytes + at, len, message, &type);
        early = n < 0 ? -1 : tls_accepts_early(message, (size_t)n);
        want(t, early >= 0, "EncryptedExtensions", "what cannot be read as that");
        return early > 0;
}
