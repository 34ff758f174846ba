/* SPDX-License-Identifier: BSD-3-Clause */
#include "key_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth_openssl.h"
#include "pdu/core/wipe.h"
#include "pdu/io/core_dump.h"

enum { LINE = 512 }; /* bytes; the longest line that counts has 162 */

struct key_log {
        struct tls_secret *secrets;
        size_t count, cap;
        size_t sorted; /* of them, from the first on; the others came since */
        struct auth_key psk;
};

struct key_log *key_log_new(void)
{
        core_dump_empty();
        return calloc(1, sizeof(struct key_log));
}

void key_log_free(struct key_log *k)
{
        if (!k)
                return;
        wipe(k->secrets, k->count * sizeof(*k->secrets));
        wipe(&k->psk, sizeof(k->psk));
        free(k->secrets);
        free(k);
}

void key_log_set_psk(struct key_log *k, const struct auth_key *configured)
{
        k->psk = *configured;
}

const struct auth_key *key_log_psk(const struct key_log *k)
{
        return k->psk.len ? &k->psk : NULL;
}

bool key_log_is_empty(const struct key_log *k)
{
        return k->count == 0 && !k->psk.len;
}

/* --- what is read --------------------------------------------------------------------------------- */

/* Not by realloc(), which would leave a copy. */
static bool grow(struct key_log *k)
{
        size_t cap = k->cap ? 2 * k->cap : 64;
        struct tls_secret *more = calloc(cap, sizeof(*more));

        if (!more)
                return false;
        if (k->count > 0)
                memcpy(more, k->secrets, k->count * sizeof(*more));
        wipe(k->secrets, k->count * sizeof(*more));
        free(k->secrets);
        k->secrets = more;
        k->cap = cap;
        return true;
}

static int add_line(struct key_log *k, const char *line, size_t len, unsigned long number,
                    char *error, size_t size)
{
        struct tls_secret s;
        int rc = tls_secret_parse(&s, line, len);

        if (rc < 0)
                snprintf(error, size, "line %lu is not one of a TLS key log", number);
        if (rc > 0 && k->count == k->cap && !grow(k)) {
                snprintf(error, size, "out of memory");
                rc = -1;
        }
        if (rc > 0)
                k->secrets[k->count++] = s;
        wipe(&s, sizeof(s));
        return rc < 0 ? -1 : 0;
}

static int compare(const void *a, const void *b)
{
        const struct tls_secret *x = a, *y = b;
        int by_random = memcmp(x->random, y->random, sizeof(x->random));

        return by_random ? by_random : (int)x->kind - (int)y->kind;
}

static void sort(struct key_log *k)
{
        if (k->count > 0)
                qsort(k->secrets, k->count, sizeof(*k->secrets), compare);
        k->sorted = k->count;
}

/* Captures may have a block for each secret: not each of them is worth it. */
static void sort_now_and_then(struct key_log *k)
{
        enum { FEW = 64 };

        if (k->count - k->sorted > FEW + k->sorted / 4)
                sort(k);
}

int key_log_add(struct key_log *k, const char *text, size_t len, char *error, size_t size)
{
        unsigned long number = 0;
        int rc = 0;

        while (len > 0 && rc == 0) {
                const char *end = memchr(text, '\n', len);
                size_t n = end ? (size_t)(end - text) + 1 : len;

                rc = add_line(k, text, n, ++number, error, size);
                text += n;
                len -= n;
        }
        sort_now_and_then(k);
        return rc;
}

static int read_lines(struct key_log *k, FILE *f, char *error, size_t size)
{
        char line[LINE];
        unsigned long number = 0;
        int rc = 0;

        setvbuf(f, NULL, _IOFBF, 1 << 16);
        while (rc == 0 && fgets(line, sizeof(line), f))
                rc = add_line(k, line, strlen(line), ++number, error, size);
        if (rc == 0 && ferror(f)) {
                snprintf(error, size, "%s", strerror(errno));
                rc = -1;
        }
        wipe(line, sizeof(line));
        return rc;
}

int key_log_read(struct key_log *k, const char *path, char *error, size_t size)
{
        FILE *f = fopen(path, "re");
        size_t before = k->count;
        char why[100];
        int rc;

        if (!f) {
                snprintf(error, size, "%s: %s", path, strerror(errno));
                return -1;
        }
        rc = read_lines(k, f, why, sizeof(why));
        fclose(f);
        sort(k);
        if (rc == 0 && k->count == before) {
                snprintf(why, sizeof(why), "has no secret of TLS 1.3");
                rc = -1;
        }
        if (rc < 0)
                snprintf(error, size, "%s: %s", path, why);
        return rc;
}

const struct tls_secret *key_log_find(const struct key_log *k, const uint8_t random[TLS_RANDOM],
                                      enum tls_secret_kind kind)
{
        struct tls_secret wanted = { .kind = (uint8_t)kind };
        const struct tls_secret *found;

        memcpy(wanted.random, random, sizeof(wanted.random));
        found = k->sorted ? bsearch(&wanted, k->secrets, k->sorted, sizeof(wanted), compare) : NULL;
        for (size_t i = k->sorted; !found && i < k->count; i++)
                if (compare(&wanted, &k->secrets[i]) == 0)
                        found = &k->secrets[i];
        return found;
}

/* --- what is written ------------------------------------------------------------------------------ */

FILE *key_log_create(const char *path, char *error, size_t size)
{
        struct stat st;
        int fd = -1;
        FILE *f = NULL;

        core_dump_empty();
        errno = ENOTSUP;
        if (auth_openssl())
                fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_mode & 077)
                snprintf(error, size, "%s: others may read it (mode %04o; chmod 600)", path,
                         (unsigned)(st.st_mode & 07777));
        else if (fd >= 0 && (f = fdopen(fd, "a")))
                return f;
        else
                snprintf(error, size, "%s: %s", path,
                         auth_openssl() ? strerror(errno) : "built without OpenSSL: no TLS");
        if (fd >= 0)
                close(fd);
        return NULL;
}
