/* SPDX-License-Identifier: BSD-3-Clause */
#include "source.h"

#include <inttypes.h>
#include <stdio.h>

#include "pdu/core/wipe.h"
#include "pdu/io/capture/capture_secrets.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/nvme_tls.h"
#include "pdu/nvme/io/tls_reader.h"
#include "tools.h"

enum { LINES_MAX = 8 };

static bool get_keys(struct source *s, char *error, size_t size)
{
        if (!auth_openssl()) {
                snprintf(error, size, "built without OpenSSL: nothing can be decrypted");
                return false;
        }
        if (!s->keys && !(s->keys = key_log_new()))
                snprintf(error, size, "out of memory");
        return s->keys;
}

bool source_take_keylog(void *source, const char *value, char *error, size_t size)
{
        struct source *s = source;

        return get_keys(s, error, size) && key_log_read(s->keys, value, error, size) == 0;
}

static bool take_tls_key(void *source, const char *value, char *error, size_t size)
{
        struct source *s = source;
        struct auth_key key = { 0 };
        bool good = get_keys(s, error, size) && nvme_tls_argument(&key, value, error, size) == 0;

        if (good)
                key_log_set_psk(s->keys, &key);
        wipe(&key, sizeof(key));
        return good;
}

/* --- what reads TLS ------------------------------------------------------------------------------- */

static void *open_conn(const void *keys)
{
        return tls_reader_new(keys);
}

static const char *read_conn(void *conn, enum party sender, const uint8_t *p, size_t n,
                             tls_plain_fn *plain, void *user)
{
        return tls_reader_read(conn, sender, p, n, plain, user);
}

static void close_conn(void *conn)
{
        tls_reader_free(conn);
}

static void on_unread(void *user, const struct capture_conn *c, const struct capture_place *at,
                      const char *why)
{
        char host[CAPTURE_END_TEXT], controller[CAPTURE_END_TEXT];
        struct source *s = user;

        if (s->unread++ < LINES_MAX)
                fprintf(stderr,
                        "%s: frame %" PRIu64
                        ": TLS connection %s > %s is not read from here on: %s\n",
                        s->file, at->frame, capture_end_text(&c->end[PARTY_HOST], host),
                        capture_end_text(&c->end[PARTY_CONTROLLER], controller), why);
}

/* --- from beginning to end ------------------------------------------------------------------------ */

/* What is wrong with them is no reason not to read the packets. */
static int add_embedded(void *user, const char *text, size_t len)
{
        struct source *s = user;
        char error[200];

        if (!get_keys(s, error, sizeof(error)))
                return -1;
        if (key_log_add(s->keys, text, len, error, sizeof(error)) < 0)
                fprintf(stderr, "%s: TLS secrets in the capture: %s\n", s->file, error);
        return 0;
}

bool source_open(void *source, const char *file, const struct trace_tls **tls, char *error,
                 size_t size)
{
        struct source *s = source;

        s->file = file;
        *tls = NULL;
        if (auth_openssl() && capture_secrets(file, add_embedded, s) < 0) {
                snprintf(error, size, "out of memory");
                return false;
        }
        if (!s->keys || key_log_is_empty(s->keys))
                return true;
        s->tls = (struct trace_tls) { .keys = s->keys,
                                      .open = open_conn,
                                      .read = read_conn,
                                      .close = close_conn,
                                      .unread = on_unread,
                                      .user = s };
        *tls = &s->tls;
        return true;
}

void source_close(void *source)
{
        struct source *s = source;

        if (s->unread > LINES_MAX)
                fprintf(stderr, "%s: %u more TLS connections are not read to their end\n", s->file,
                        s->unread - LINES_MAX);
        key_log_free(s->keys);
        s->keys = NULL;
}

const struct trace_secrets nvme_secrets = { .size = sizeof(struct source),
                                            .take_keylog = source_take_keylog,
                                            .take_tls_key = take_tls_key,
                                            .open = source_open,
                                            .close = source_close };
