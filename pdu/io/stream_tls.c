/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream_tls.h"

#include <errno.h>

#ifndef NVMF_WITH_OPENSSL

struct tls *tls_new(const struct tls_config *cfg)
{
        (void)cfg;
        errno = ENOTSUP;
        return NULL;
}

void tls_free(struct tls *t)
{
        (void)t;
}

int stream_tls_begin(struct stream *s, struct tls *t, const struct tls_psk *psk)
{
        (void)s;
        (void)t;
        (void)psk;
        errno = ENOTSUP;
        return -1;
}

bool stream_tls_ready(const struct stream *s)
{
        (void)s;
        return false;
}

const char *stream_tls_suite(const struct stream *s)
{
        (void)s;
        return NULL;
}

const struct tls_psk *stream_tls_psk(const struct stream *s)
{
        (void)s;
        return NULL;
}

#else

#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "pdu/core/le.h"
#include "pdu/core/tls_secret.h"
#include "pdu/core/wipe.h"
#include "stream_tls_own.h"

enum {
        RECORD = 16384,                      /* bytes of data in a record, RFC 8446 5.1 */
        OFFERED = 8,                         /* identities of one ClientHello that are looked at */
        AHEAD = 64 * 1024,                   /* bytes that one receive may bring */
        OWED_MAX = 64 * 1024,                /* bytes of records that wait for the peer to read */
        NAMED = 240,                         /* bytes of an identity that a reason has */
        HELLO_HEADER = 5,                    /* of a record */
        PEEKED_HELLO = HELLO_HEADER + 16384, /* bytes of a ClientHello that is looked at */
        SPOILT_ANSWER = 1024,
};

/* --- the socket, as OpenSSL sees it --------------------------------------------------------------- */

/* A stream may have moved since. */
static struct own *here(struct stream *s)
{
        BIO_set_data(SSL_get_rbio(own(s)->ssl), s);
        return own(s);
}

static struct stream *below(BIO *b)
{
        return BIO_get_data(b);
}

/* Bytes of records that the socket had no room for. */
static size_t owed(const struct own *o)
{
        return o->unsent ? o->unsent_len - o->unsent_at : 0;
}

/* A peer that asks for KeyUpdates, and reads none, is not read from until it does. */
static bool owes_too_much(const struct own *o)
{
        return owed(o) > OWED_MAX;
}

static bool flush(struct stream *s)
{
        struct own *o = own(s);

        while (o->unsent) {
                const struct iovec iov = { o->unsent + o->unsent_at, o->unsent_len - o->unsent_at };
                ssize_t put = stream_over_tcp.write(s, &iov, 1);

                if (put < 0) {
                        if (errno != EAGAIN && errno != EINTR)
                                o->error = errno;
                        return false;
                }
                o->unsent_at += (size_t)put;
                if (o->unsent_at == o->unsent_len) {
                        free(o->unsent);
                        o->unsent = NULL;
                }
        }
        return true;
}

/* Keeps what the socket does not take, so that a record that is made is a record that is sent. */
static bool keep(struct own *o, const char *p, size_t n)
{
        size_t old = owed(o);
        uint8_t *more = malloc(old + n);

        if (!more)
                return false;
        if (old)
                memcpy(more, o->unsent + o->unsent_at, old);
        memcpy(more + old, p, n);
        free(o->unsent);
        o->unsent = more;
        o->unsent_at = 0;
        o->unsent_len = old + n;
        return true;
}

static int bio_write(BIO *b, const char *p, int n)
{
        struct own *o = own(below(b));
        const struct iovec iov = { (void *)(uintptr_t)p, (size_t)n };
        ssize_t put = flush(below(b)) ? stream_over_tcp.write(below(b), &iov, 1) : 0;

        if (put < 0 && errno != EAGAIN && errno != EINTR)
                o->error = errno;
        if (put < 0)
                put = 0;
        if (put < n && !o->error && !keep(o, p + put, (size_t)(n - put)))
                o->error = ENOMEM;
        return o->error ? -1 : n;
}

static int bio_read(BIO *b, char *p, int n)
{
        struct stream *s = below(b);
        const struct iovec iov = { p, (size_t)n };
        ssize_t got;

        BIO_clear_retry_flags(b);
        errno = EAGAIN;
        got = owes_too_much(own(s)) ? -1 : stream_over_tcp.read(s, &iov, 1);
        if (got > 0)
                return (int)got;
        if (got == 0)
                own(s)->eof = true;
        else if (errno == EAGAIN || errno == EINTR)
                BIO_set_retry_read(b);
        else
                own(s)->error = errno;
        return (int)got;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *p)
{
        (void)b;
        (void)num;
        (void)p;
        return cmd == BIO_CTRL_FLUSH;
}

/* --- what goes wrong ------------------------------------------------------------------------------ */

/* As text, cut off where it is too long: what cannot be printed is a dot. text may be where the bytes are. */
static const char *printable(const void *bytes, size_t len, char *text, size_t size)
{
        const uint8_t *p = bytes;
        size_t n = len < size - 1 ? len : size - 1;

        for (size_t i = 0; i < n; i++)
                text[i] = p[i] >= ' ' && p[i] < 0x7f ? (char)p[i] : '.';
        text[n] = '\0';
        return text;
}

/* Which key it was, and what is wrong with it. */
static void add_key(struct own *o, size_t at)
{
        const struct tls_config *cfg = &o->tls->cfg;
        char text[TLS_REASON], name[NAMED];

        text[0] = '\0';
        if (cfg->side == PARTY_HOST && o->has_psk && !SSL_is_init_finished(o->ssl))
                snprintf(text, sizeof(text), "we offered %s%s%s",
                         printable(o->psk.identity, o->psk.identity_len, name, sizeof(name)),
                         cfg->derived ? ", derived " : "", cfg->derived ? cfg->derived : "");
        else if (!o->hello || !cfg->explain(cfg->user, o->hello, o->hello_len, text, sizeof(text)))
                return;
        if (text[0])
                snprintf(o->why + at, sizeof(o->why) - at, ": %s",
                         printable(text, strlen(text), text, sizeof(text)));
}

void tls_reason(struct own *o, const char *why)
{
        int n;

        if (o->why[0])
                return;
        n = snprintf(o->why, sizeof(o->why), "TLS: %s", why);
        add_key(o, (size_t)n < sizeof(o->why) ? (size_t)n : sizeof(o->why) - 1);
}

/* After an SSL_ function has failed: 0: not now; else it has ended, errno says how. */
static int settle(struct own *o, int rc)
{
        int what = SSL_get_error(o->ssl, rc);
        unsigned long code = ERR_peek_last_error();
        const char *text = code ? ERR_reason_error_string(code) : NULL;

        ERR_clear_error();
        if (what == SSL_ERROR_WANT_READ && !o->error && !o->eof) {
                o->dry = true;
                return 0;
        }
        if (what == SSL_ERROR_ZERO_RETURN)
                o->eof = true;
        else if (o->eof && !SSL_is_init_finished(o->ssl))
                tls_reason(o, "the peer ended the connection in the handshake");
        else if (!o->eof && !o->error)
                tls_reason(o, text ? text : "it failed");
        if (!o->eof && !o->error)
                o->error = EPROTO;
        return -1;
}

/* --- keys ----------------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        uint8_t id[2];
} suites[] = {
        [TLS_AES_128_GCM] = { "TLS_AES_128_GCM_SHA256", { 0x13, 0x01 } },
        [TLS_AES_256_GCM] = { "TLS_AES_256_GCM_SHA384", { 0x13, 0x02 } },
};

static SSL_SESSION *session_of(SSL *ssl, const struct tls_psk *psk)
{
        const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suites[psk->suite].id);
        SSL_SESSION *session = SSL_SESSION_new();

        if (session && cipher &&
            SSL_SESSION_set1_master_key(session, psk->key, tls_key_len(psk->suite)) &&
            SSL_SESSION_set_cipher(session, cipher) &&
            SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
                return session;
        SSL_SESSION_free(session);
        return NULL;
}

static struct own *own_of(const SSL *ssl)
{
        return SSL_get_app_data(ssl);
}

/* Client. With md NULL: whichever hash; after a HelloRetryRequest it is settled. */
static int offer(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len,
                 SSL_SESSION **session)
{
        const struct own *o = own_of(ssl);

        *session = NULL;
        if (!o->has_psk || (md && (size_t)EVP_MD_get_size(md) != tls_key_len(o->psk.suite)))
                return 1;
        *session = session_of(ssl, &o->psk);
        *id = o->psk.identity;
        *len = o->psk.identity_len;
        return *session != NULL;
}

static bool is_allowed(const struct tls *t, enum tls_suite suite)
{
        return !t->cfg.suites || t->cfg.suites >> suite & 1;
}

static bool find(const struct own *o, const uint8_t *id, size_t len, struct tls_psk *psk)
{
        return len <= TLS_IDENTITY_MAX && o->tls->cfg.find(o->tls->cfg.user, id, len, psk) &&
               is_allowed(o->tls, psk->suite);
}

static int find_session(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **session)
{
        struct own *o = own_of(ssl);

        *session = NULL;
        if (!find(o, id, len, &o->psk))
                return 1;
        o->has_psk = true;
        *session = session_of(ssl, &o->psk);
        return *session != NULL;
}

/* An identity of the pre_shared_key extension (RFC 8446 4.2.11); moves on. False: there are no more. */
static bool next_identity(const uint8_t **p, const uint8_t *end, const uint8_t **id, size_t *len)
{
        if (end - *p < 2)
                return false;
        *len = (size_t)((*p)[0] << 8 | (*p)[1]);
        *id = *p + 2;
        if ((size_t)(end - *id) < *len + 4)
                return false;
        *p = *id + *len + 4;
        return true;
}

static const uint8_t *identities_end(const uint8_t *p, size_t len)
{
        size_t n = len < 2 ? 0 : (size_t)(p[0] << 8 | p[1]);

        return n + 2 <= len ? p + 2 + n : p + 2;
}

static void name_identity(struct own *o, const uint8_t *id, size_t len)
{
        char text[NAMED + 32], name[NAMED];

        snprintf(text, sizeof(text), "no key for the identity %s",
                 printable(id, len, name, sizeof(name)));
        tls_reason(o, text);
}

/* The suites of the identities that are ours, in the order of the client: one whose key is not there
 * must not be chosen. */
static bool choose_suites(SSL *ssl, struct own *o, const uint8_t *ext, size_t len)
{
        const uint8_t *p = ext + 2, *end = identities_end(ext, len), *id;
        char list[128] = "";
        struct tls_psk psk;
        size_t n;

        for (unsigned i = 0; i < OFFERED && next_identity(&p, end, &id, &n); i++) {
                if (!find(o, id, n, &psk))
                        name_identity(o, id, n);
                else if (!strstr(list, suites[psk.suite].name))
                        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                                 list[0] ? ":" : "", suites[psk.suite].name);
        }
        wipe(&psk, sizeof(psk));
        if (!list[0])
                return false;
        o->why[0] = '\0';
        return SSL_set_ciphersuites(ssl, list);
}

static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
        struct own *o = own_of(ssl);
        const unsigned char *ext;
        size_t len;

        (void)arg;
        if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk, &ext, &len)) {
                if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_supported_versions, &ext, &len))
                        tls_reason(o, "the client offers no pre-shared key");
                return SSL_CLIENT_HELLO_SUCCESS; /* OpenSSL says what is wrong */
        }
        if (len >= 2 && choose_suites(ssl, o, ext, len))
                return SSL_CLIENT_HELLO_SUCCESS;
        *alert = SSL_AD_UNKNOWN_PSK_IDENTITY;
        return SSL_CLIENT_HELLO_ERROR;
}

/* The first ClientHello is kept as a record, in case its key is wrong. */
static void keep_hello(int sent, int version, int type, const void *message, size_t len, SSL *ssl,
                       void *arg)
{
        const uint8_t header[] = { TLS_HANDSHAKE, 3, 1, (uint8_t)(len >> 8), (uint8_t)len };
        struct own *o = own_of(ssl);

        (void)version;
        (void)arg;
        if (sent || type != TLS_HANDSHAKE || len > RECORD)
                return;
        SSL_set_msg_callback(ssl, NULL);
        o->hello = malloc(sizeof(header) + len);
        if (!o->hello)
                return;
        o->hello_len = sizeof(header) + len;
        memcpy(o->hello, header, sizeof(header));
        memcpy(o->hello + sizeof(header), message, len);
}

static void drop_hello(struct own *o)
{
        free(o->hello);
        o->hello = NULL;
}

/* --- contexts ------------------------------------------------------------------------------------- */

/* What protects data is kept for the kernel. */
static void keep_secret(struct own *o, const char *line)
{
        struct tls_secret s;
        bool ours;

        if (tls_secret_parse(&s, line, strlen(line)) != 1 || s.kind < TLS_CLIENT_TRAFFIC)
                return;
        ours = (s.kind == TLS_CLIENT_TRAFFIC) == (o->tls->cfg.side == PARTY_HOST);
        o->keys.suite = o->psk.suite;
        o->keys.expand = o->tls->cfg.kernel;
        memcpy(ours ? o->keys.out : o->keys.in, s.bytes, s.len);
        o->known += s.len == tls_key_len(o->psk.suite);
        wipe(&s, sizeof(s));
}

static void log_key(const SSL *ssl, const char *line)
{
        struct own *o = own_of(ssl);
        FILE *f = o->tls->cfg.keylog;

        if (o->tls->cfg.kernel)
                keep_secret(o, line);
        if (!f)
                return;
        flockfile(f);
        fprintf(f, "%s\n", line);
        fflush(f);
        funlockfile(f);
}

static bool set_suites(SSL_CTX *ctx, const struct tls *t)
{
        char list[128] = "";

        for (unsigned i = TLS_AES_128_GCM; i < TLS_SUITES; i++)
                if (is_allowed(t, (enum tls_suite)i))
                        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                                 list[0] ? ":" : "", suites[i].name);
        return SSL_CTX_set_ciphersuites(ctx, list);
}

static void set_up(SSL_CTX *ctx, const struct tls *t)
{
        uint64_t options = SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION;

        SSL_CTX_set_options(ctx, t->cfg.dhe_only ? options : options | SSL_OP_ALLOW_NO_DHE_KEX);
        SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_num_tickets(ctx, 0);
        SSL_CTX_set_read_ahead(ctx, !t->cfg.kernel); /* what the kernel is to open stays there */
        SSL_CTX_set_default_read_buffer_len(ctx, AHEAD);
        if (t->cfg.keylog || t->cfg.kernel)
                SSL_CTX_set_keylog_callback(ctx, log_key);
        if (t->cfg.side == PARTY_HOST) {
                SSL_CTX_set_psk_use_session_callback(ctx, offer);
                /* a server that does not take the key would have to show a certificate */
                SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        } else {
                SSL_CTX_set_client_hello_cb(ctx, on_client_hello, NULL);
                SSL_CTX_set_psk_find_session_callback(ctx, find_session);
        }
}

static BIO_METHOD *socket_method(void)
{
        BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "stream");

        if (m && BIO_meth_set_write(m, bio_write) && BIO_meth_set_read(m, bio_read) &&
            BIO_meth_set_ctrl(m, bio_ctrl))
                return m;
        BIO_meth_free(m);
        return NULL;
}

static void drop_context(struct tls *t)
{
        int saved = errno;

        SSL_CTX_free(t->ctx);
        BIO_meth_free(t->socket);
        free(t);
        errno = saved;
}

struct tls *tls_new(const struct tls_config *cfg)
{
        struct tls *t = calloc(1, sizeof(*t));
        bool good;

        if (!t)
                return NULL;
        t->refs = 1;
        t->cfg = *cfg;
        t->ctx = SSL_CTX_new(cfg->side == PARTY_HOST ? TLS_client_method() : TLS_server_method());
        t->socket = socket_method();
        good = t->ctx && t->socket && SSL_CTX_set_min_proto_version(t->ctx, TLS1_3_VERSION) &&
               set_suites(t->ctx, t);
        errno = ENOMEM;
        if (good) {
                set_up(t->ctx, t);
                good = SSL_CTX_set1_groups_list(t->ctx, cfg->groups ? cfg->groups : TLS_GROUPS);
                errno = EINVAL;
        }
        ERR_clear_error();
        if (good)
                return t;
        drop_context(t);
        return NULL;
}

void tls_free(struct tls *t)
{
        if (t && --t->refs == 0)
                drop_context(t);
}

/* --- a stream ------------------------------------------------------------------------------------- */

void tls_drop(struct own *o)
{
        SSL_free(o->ssl);
        tls_free(o->tls);
        drop_hello(o);
        free(o->unsent);
        wipe(&o->psk, sizeof(o->psk));
        wipe(&o->keys, sizeof(o->keys));
        free(o);
}

int tls_fail(struct own *o)
{
        errno = o->error ? o->error : ENOTCONN;
        return -1;
}

/* 1: the peer begins with TLS; 0: not known yet; -1: it does not. */
static int begins(struct stream *s)
{
        struct own *o = own(s);
        uint8_t first;
        ssize_t n = o->begun ? 1 : recv(s->source.fd, &first, 1, MSG_PEEK);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : 1; /* who reads is told the same */
        if (n == 0 || o->begun || first == TLS_HANDSHAKE)
                o->begun = true;
        return o->begun ? 1 : -1;
}

static ssize_t tls_read_some(struct own *o, const struct iovec *iov)
{
        size_t sum = 0;

        while (sum < iov->iov_len) {
                size_t got;
                int rc =
                    SSL_read_ex(o->ssl, (uint8_t *)iov->iov_base + sum, iov->iov_len - sum, &got);

                if (rc <= 0) {
                        if (settle(o, rc) < 0 && sum == 0)
                                return -1;
                        break;
                }
                o->dry = false;
                drop_hello(o);
                sum += got;
        }
        return (ssize_t)sum;
}

/* Of a peer that does not begin with TLS. */
static ssize_t read_plain(struct stream *s, const struct iovec *iov, int n)
{
        struct own *o = own(s);

        if (!o->tls->cfg.plain) {
                tls_reason(o, "the peer does not begin with TLS");
                o->error = EPROTO;
                return tls_fail(o);
        }
        s->ops = &stream_over_tcp;
        s->own = NULL;
        tls_drop(o);
        return s->ops->read(s, iov, n);
}

/* --- a server that answers what it must not ------------------------------------------------------- */

static ssize_t silent_read(struct stream *s, const struct iovec *iov, int n)
{
        ssize_t got;

        do
                got = stream_over_tcp.read(s, iov, n);
        while (got > 0);
        return got;
}

static ssize_t silent_write(struct stream *s, const struct iovec *iov, int n)
{
        ssize_t sum = 0;

        (void)s;
        for (int i = 0; i < n; i++)
                sum += (ssize_t)iov[i].iov_len;
        return sum;
}

static int silent_half_close(struct stream *s)
{
        return stream_over_tcp.half_close(s);
}

static void silent_close(struct stream *s, bool reset)
{
        stream_over_tcp.close(s, reset);
}

static const struct stream_ops stream_silent = { .read = silent_read,
                                                 .write = silent_write,
                                                 .half_close = silent_half_close,
                                                 .close = silent_close };

/* Whether the peer has said that nothing comes any more. */
static bool has_closed(const struct stream *s)
{
        struct pollfd p = { .fd = s->source.fd, .events = POLLRDHUP };

        return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* With so many bytes, not before: a part that stays where it is would be looked at again and again. */
static void readable_from(const struct stream *s, int bytes)
{
        (void)setsockopt(s->source.fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

/* The ClientHello, which stays where it is; bytes of its record, 0: it is not there as a whole, -1: nor will it be. */
static ssize_t peek_hello(const struct stream *s, uint8_t *hello, size_t size)
{
        ssize_t n = recv(s->source.fd, hello, size, MSG_PEEK);
        size_t len = n < 5 ? 0 : 5 + (size_t)(hello[3] << 8 | hello[4]);
        bool whole = len > 0 && len <= (size_t)n, never = !whole && (len > size || has_closed(s));

        readable_from(s, whole || never || n < 0 ? 1 : (int)n + 1);
        return whole ? (ssize_t)len : never ? -1 : 0;
}

/* Whether other ops are in place: those of a server that has answered and is silent, or that goes on by itself. */
static bool is_taken_over(struct stream *s, const uint8_t *hello, size_t len)
{
        struct own *o = own(s);
        const struct tls_config *cfg = &o->tls->cfg;
        uint8_t answer[SPOILT_ANSWER];
        size_t n = cfg->spoil ? cfg->spoil(cfg->user, hello, len, answer, sizeof(answer)) : 0;
        const struct iovec iov = { answer, n };

        if (n == 0)
                return cfg->take_over && cfg->take_over(cfg->user, s, hello, len);
        stream_over_tcp.write(s, &iov, 1);
        s->ops = &stream_silent;
        s->own = NULL;
        return true;
}

/* 1: other ops are in place; 0: it does what is right; -1: not known yet. */
static int answer_wrongly(struct stream *s)
{
        struct own *o = own(s);
        uint8_t hello[PEEKED_HELLO];
        ssize_t len = peek_hello(s, hello, sizeof(hello));

        if (len <= 0)
                return len < 0 ? 0 : -1;
        if (o->tls->cfg.record_hello)
                stream_record_data(s, peer_of(s->self), hello, (size_t)len);
        if (!is_taken_over(s, hello, (size_t)len))
                return 0;
        tls_drop(o);
        return 1;
}

/* True: it is complete; else errno is EAGAIN, or says why it never will be. */
static bool handshake(struct own *o)
{
        int rc = SSL_do_handshake(o->ssl);

        if (rc == 1)
                return true;
        if (settle(o, rc) < 0)
                tls_fail(o);
        else
                errno = EAGAIN;
        return false;
}

/* The handshake, and before OpenSSL has touched a record of data: 1: the kernel has it; 0: it goes on as it is; -1:
 * not yet, or it has failed: errno. In the same call as all of a handshake OpenSSL 3.0 would read what follows as
 * if it were not TLS 1.3, and pass over an alert of level 1. */
static int hand_over(struct stream *s)
{
        struct own *o = here(s);
        int rc = 0;

        if (!SSL_is_init_finished(o->ssl) && !handshake(o))
                return -1;
        if (!o->tls->cfg.kernel || o->tried)
                return 0;
        errno = EAGAIN;
        if (!flush(s))
                return o->error ? tls_fail(o) : -1;
        o->tried = true;
        if (o->known == 2 && !SSL_has_pending(o->ssl))
                rc = ktls_begin(s);
        if (rc == 0)
                SSL_set_read_ahead(o->ssl, 1);
        return rc;
}

/* --- reading and writing -------------------------------------------------------------------------- */

static bool looks_at_hello(const struct tls_config *cfg)
{
        return cfg->spoil || cfg->take_over || cfg->record_hello;
}

static ssize_t tls_read(struct stream *s, const struct iovec *iov, int n)
{
        struct own *o = here(s);
        bool fresh = !o->begun;
        int first = begins(s), handed;
        ssize_t sum = 0;

        if (first < 0)
                return read_plain(s, iov, n);
        if (fresh && o->begun && looks_at_hello(&o->tls->cfg)) {
                int spoilt = answer_wrongly(s);

                if (spoilt > 0)
                        return s->ops->read(s, iov, n);
                o->begun = spoilt == 0;
                first = o->begun;
        }
        flush(s);
        handed = first > 0 ? hand_over(s) : 0;
        if (handed > 0)
                return s->ops->read(s, iov, n);
        for (int i = 0; i < n && first > 0 && !o->error && handed == 0; i++) {
                ssize_t got = tls_read_some(o, &iov[i]);

                if (got > 0)
                        sum += got;
                if (got < 0 || (size_t)got < iov[i].iov_len)
                        break;
        }
        if (sum > 0)
                return sum;
        if (o->error)
                return tls_fail(o);
        if (o->eof)
                return 0;
        errno = EAGAIN;
        return -1;
}

/* The beginning of what is to be sent after `skip` bytes, a record's worth. */
static size_t gather(uint8_t *record, const struct iovec *iov, int n, size_t skip)
{
        size_t len = 0;

        for (int i = 0; i < n && len < RECORD; i++) {
                size_t part = iov[i].iov_len - skip;

                part = part < RECORD - len ? part : RECORD - len;
                memcpy(record + len, (const uint8_t *)iov[i].iov_base + skip, part);
                len += part;
                skip = 0;
        }
        return len;
}

/* False: errno says why nothing can be written. */
static bool can_write(struct stream *s)
{
        struct own *o = here(s);

        errno = EAGAIN;
        if (!o->begun)
                return false;
        if (!flush(s)) {
                if (o->error)
                        tls_fail(o);
                return false;
        }
        return SSL_is_init_finished(o->ssl) || handshake(o);
}

static ssize_t tls_write(struct stream *s, const struct iovec *iov, int n)
{
        struct own *o = own(s);
        uint8_t record[RECORD];
        size_t sum = 0, skip = 0, put;
        int handed = can_write(s) ? hand_over(s) : -1;

        if (handed > 0)
                return s->ops->write(s, iov, n);
        while (handed == 0 && n > 0 && can_write(s)) {
                int rc = SSL_write_ex(o->ssl, record, gather(record, iov, n, skip), &put);

                if (rc <= 0) {
                        settle(o, rc);
                        tls_fail(o);
                        break;
                }
                sum += put;
                for (put += skip; n > 0 && put >= iov->iov_len; iov++, n--)
                        put -= iov->iov_len;
                skip = put;
        }
        return sum > 0 ? (ssize_t)sum : -1;
}

static int tls_half_close(struct stream *s)
{
        struct own *o = here(s);

        if (SSL_is_init_finished(o->ssl) && !o->error)
                SSL_shutdown(o->ssl);
        ERR_clear_error();
        return o->unsent ? 0 : stream_over_tcp.half_close(s); /* else its end says so */
}

static void tls_close(struct stream *s, bool reset)
{
        struct own *o = here(s);

        if (!reset && SSL_is_init_finished(o->ssl) && !o->error && !s->half)
                SSL_shutdown(o->ssl);
        ERR_clear_error();
        stream_over_tcp.close(s, reset);
        tls_drop(o);
        s->own = NULL;
}

static uint32_t tls_wants(const struct stream *s, uint32_t events)
{
        const struct own *o = own(s);
        bool now = events & EPOLLIN && o->begun && !o->dry && SSL_has_pending(o->ssl);

        if (!SSL_is_init_finished(o->ssl) && (o->dry || !o->begun))
                events =
                    EPOLLIN; /* whatever the owner waits for, the handshake waits for the peer */
        if (o->unsent)
                events |= EPOLLOUT;
        if (owes_too_much(o))
                events &= ~(uint32_t)EPOLLIN;
        return now ? events | STREAM_NOW : events;
}

const char *tls_why(const struct stream *s)
{
        return own(s)->why[0] ? own(s)->why : NULL;
}

static const struct stream_ops stream_over_tls = {
        .read = tls_read,
        .write = tls_write,
        .half_close = tls_half_close,
        .close = tls_close,
        .wants = tls_wants,
        .why = tls_why,
};

static bool make_ssl(struct stream *s, struct own *o)
{
        BIO *b = BIO_new(o->tls->socket);

        o->ssl = b ? SSL_new(o->tls->ctx) : NULL;
        if (!o->ssl) {
                BIO_free(b);
                return false;
        }
        BIO_set_data(b, s);
        BIO_set_init(b, 1);
        SSL_set_bio(o->ssl, b, b);
        SSL_set_app_data(o->ssl, o);
        if (o->tls->cfg.side != PARTY_HOST) {
                SSL_set_accept_state(o->ssl);
                if (o->tls->cfg.explain)
                        SSL_set_msg_callback(o->ssl, keep_hello);
                return true;
        }
        SSL_set_connect_state(o->ssl);
        o->begun = true;
        return SSL_set_ciphersuites(o->ssl, suites[o->psk.suite].name);
}

int stream_tls_begin(struct stream *s, struct tls *t, const struct tls_psk *psk)
{
        struct own *o = calloc(1, sizeof(*o));

        errno = ENOMEM;
        if (!o)
                return -1;
        o->tls = t;
        t->refs++;
        o->has_psk = psk != NULL;
        if (psk)
                o->psk = *psk;
        if (!make_ssl(s, o)) {
                tls_drop(o);
                ERR_clear_error();
                errno = ENOMEM;
                return -1;
        }
        s->own = o;
        s->ops = &stream_over_tls;
        if (t->cfg.side == PARTY_HOST)
                handshake(o); /* what is wrong with it the first read says */
        return 0;
}

bool stream_tls_ready(const struct stream *s)
{
        return s->ops == &stream_over_kernel ||
               (s->ops == &stream_over_tls && SSL_is_init_finished(own(s)->ssl));
}

const char *stream_tls_suite(const struct stream *s)
{
        return stream_tls_ready(s) ? SSL_get_cipher_name(own(s)->ssl) : NULL;
}

const struct tls_psk *stream_tls_psk(const struct stream *s)
{
        return stream_tls_ready(s) && own(s)->has_psk ? &own(s)->psk : NULL;
}

#endif
