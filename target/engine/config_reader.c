/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_reader.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pdu/core/wipe.h"
#include "pdu/io/log.h"

enum { FILE_MAX = 16 << 20 }; /* bytes of a configuration */

/* --- the reader: where it stands in the document, and what went wrong there ------------------- */

bool reader_complain(struct reader *r, const char *fmt, ...)
{
        int n = snprintf(r->error, r->size, "%s: %s%s", r->file, r->path, r->path[0] ? ": " : "");
        va_list ap;

        va_start(ap, fmt);
        if (n >= 0 && (size_t)n < r->size)
                vsnprintf(r->error + n, r->size - (size_t)n, fmt, ap);
        va_end(ap);
        for (char *c = r->error; *c; c++) /* one line, whatever a key is called */
                if (iscntrl((unsigned char)*c))
                        *c = '?';
        return false;
}

bool reader_no_memory(struct reader *r)
{
        return reader_complain(r, "%s", strerror(ENOMEM));
}

size_t reader_descend(struct reader *r, const char *fmt, ...)
{
        size_t len = strlen(r->path);
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(r->path + len, sizeof(r->path) - len, fmt, ap);
        va_end(ap);
        return len;
}

/* --- what is ignored */

bool reader_ignored(struct reader *r, struct json_object *v, void *at)
{
        (void)v, (void)at;
        log_line(LOG_AS_WARNING, NULL, NULL, "%s: %s: not supported, and ignored", r->file,
                 r->path);
        return true;
}

/* nvmetcli writes numbers as strings. */
static long number_of(struct json_object *v)
{
        const char *text = json_object_get_string(v);

        return text ? strtol(text, NULL, 0) : 0;
}

bool reader_ignored_unless_off(struct reader *r, struct json_object *v, void *at)
{
        return number_of(v) == 0 || number_of(v) == -1 || reader_ignored(r, v, at);
}

bool reader_ignored_unless_on(struct reader *r, struct json_object *v, void *at)
{
        return number_of(v) != 0 || reader_ignored(r, v, at);
}

bool reader_moot(struct reader *r, struct json_object *v, void *at)
{
        (void)r, (void)v, (void)at;
        return true;
}

static const struct key *find_key(const struct key *keys, const char *name)
{
        while (keys->name && strcmp(keys->name, name) != 0)
                keys++;
        return keys->name ? keys : NULL;
}

static bool take_member(struct reader *r, const struct key *keys, const char *name,
                        struct json_object *v, void *at)
{
        const struct key *key = find_key(keys, name);
        size_t len = reader_descend(r, "%s%s", r->path[0] ? "." : "", name);
        bool ok = true;

        if (key)
                ok = key->take(r, v, (char *)at + key->offset);
        else if (strncmp(name, "x-", 2) != 0)
                ok = reader_complain(r, "unknown key");
        if (ok)
                r->path[len] = '\0';
        return ok;
}

bool reader_object(struct reader *r, struct json_object *v, const struct key *keys, void *at)
{
        if (!json_object_is_type(v, json_type_object))
                return reader_complain(r, "an object is expected");
        json_object_object_foreach(v, name, member)
        {
                if (!take_member(r, keys, name, member, at))
                        return false;
        }
        return true;
}

bool reader_array(struct reader *r, struct json_object *v, take_fn *each, void *at)
{
        if (!json_object_is_type(v, json_type_array))
                return reader_complain(r, "an array is expected");
        for (size_t i = 0; i < json_object_array_length(v); i++) {
                size_t len = reader_descend(r, "[%zu]", i);

                if (!each(r, json_object_array_get_idx(v, i), at))
                        return false;
                r->path[len] = '\0';
        }
        return true;
}

/* --- values ----------------------------------------------------------------------------------- */

/* What C would read another string for, which ends there. */
static bool has_zero(struct json_object *v)
{
        return json_object_is_type(v, json_type_string) &&
               strlen(json_object_get_string(v)) != (size_t)json_object_get_string_len(v);
}

bool reader_number(struct reader *r, struct json_object *v, uint64_t min, uint64_t max, uint64_t *n)
{
        const char *text = json_object_get_string(v);
        bool typed =
            json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_string);
        char *end;

        *n = 0;
        if (!typed || !text || !isdigit((unsigned char)text[0]))
                return reader_complain(r, "'%s' is not a number", text ? text : "null");
        if (has_zero(v))
                return reader_complain(r, "has a zero byte");
        if (text[0] == '0' && isdigit((unsigned char)text[1])) /* octal to Linux, not to readers */
                return reader_complain(r, "'%s' is a number with a leading zero", text);
        errno = 0;
        *n = strtoull(text, &end, 0);
        if (*end != '\0')
                return reader_complain(r, "'%s' is not a number", text);
        if (errno || *n < min || *n > max)
                return reader_complain(r, "%s is not from %llu to %llu", text,
                                       (unsigned long long)min, (unsigned long long)max);
        return true;
}

bool reader_u16(struct reader *r, struct json_object *v, void *at)
{
        uint64_t n;

        if (!reader_number(r, v, 0, UINT16_MAX, &n))
                return false;
        *(uint16_t *)at = (uint16_t)n;
        return true;
}

bool reader_bool(struct reader *r, struct json_object *v, void *at)
{
        uint64_t n;

        if (json_object_is_type(v, json_type_boolean))
                n = json_object_get_boolean(v) ? 1 : 0;
        else if (!reader_number(r, v, 0, 1, &n))
                return false;
        *(bool *)at = n;
        return true;
}

const char *reader_text(struct reader *r, struct json_object *v, size_t max)
{
        const char *text;

        if (!json_object_is_type(v, json_type_string) && !json_object_is_type(v, json_type_int)) {
                reader_complain(r, "a string is expected");
                return NULL;
        }
        text = json_object_get_string(v);
        if (has_zero(v))
                reader_complain(r, "has a zero byte");
        else if (strlen(text) > max)
                reader_complain(r, "longer than %zu bytes", max);
        else
                return text;
        return NULL;
}

bool reader_copy(struct reader *r, struct json_object *v, void *at, size_t max)
{
        const char *text = reader_text(r, v, max);

        if (text)
                strcpy(at, text);
        return text;
}

bool reader_choice(struct reader *r, struct json_object *v, const struct choice *words, void *at)
{
        const char *text = reader_text(r, v, 64);

        if (!text)
                return false;
        for (; words->text; words++)
                if (strcmp(words->text, text) == 0) {
                        *(uint8_t *)at = words->value;
                        return true;
                }
        return reader_complain(r, "'%s' is not supported", text);
}

/* --- the file --------------------------------------------------------------------------------- */

/* More than it has, where that is known; a pipe may have anything. */
static size_t room_for(FILE *f)
{
        struct stat st;
        bool known = fstat(fileno(f), &st) == 0 && st.st_size > 0 && st.st_size < FILE_MAX;

        return known ? (size_t)st.st_size + 1 : FILE_MAX;
}

static char *read_file(struct reader *r, size_t *len)
{
        FILE *f = fopen(r->file, "re");
        size_t room = f ? room_for(f) : 0;
        char *text = f ? malloc(room) : NULL;

        if (!text) {
                reader_complain(r, "%s", strerror(errno));
                if (f)
                        fclose(f);
                return NULL;
        }
        setvbuf(f, NULL, _IONBF, 0); /* no copy of keys */
        *len = fread(text, 1, room, f);
        if (ferror(f) || *len == room) {
                reader_complain(r, "%s", ferror(f) ? strerror(errno) : "too large");
                free(text);
                text = NULL;
        }
        fclose(f);
        return text;
}

static unsigned line_of(const char *text, size_t offset)
{
        unsigned line = 1;

        for (size_t i = 0; i < offset; i++)
                line += text[i] == '\n';
        return line;
}

static struct json_object *parse(struct reader *r, const char *text, size_t len)
{
        struct json_tokener *tok = json_tokener_new();
        struct json_object *v = tok ? json_tokener_parse_ex(tok, text, (int)len) : NULL;
        enum json_tokener_error e = tok ? json_tokener_get_error(tok) : json_tokener_error_depth;
        size_t end = tok ? json_tokener_get_parse_end(tok) : 0;

        while (v && end < len && isspace((unsigned char)text[end]))
                end++;
        if (!v && e == json_tokener_success) /* null */
                reader_complain(r, "an object is expected");
        else if (!v)
                reader_complain(r, "line %u: %s", line_of(text, end < len ? end : len),
                                e == json_tokener_continue ? "unexpected end of the file"
                                                           : json_tokener_error_desc(e));
        else if (end < len)
                reader_complain(r, "line %u: unexpected text after the end", line_of(text, end));
        if (v && end < len) {
                json_object_put(v);
                v = NULL;
        }
        if (tok)
                json_tokener_free(tok);
        return v;
}

/* --- keys that occur twice in an object: json-c has the last one only ------------------------- */

struct key_text {
        const char *text;
        size_t len;
        unsigned depth;
};

struct keys_seen {
        struct key_text *key; /* of the objects that are open, the innermost last */
        size_t n, room;
};

static bool note_key(struct reader *r, struct keys_seen *seen, const char *text,
                     const struct key_text *k)
{
        struct key_text *more;

        for (size_t i = seen->n; i > 0 && seen->key[i - 1].depth == k->depth; i--)
                if (seen->key[i - 1].len == k->len &&
                    memcmp(seen->key[i - 1].text, k->text, k->len) == 0)
                        return reader_complain(r, "line %u: '%.*s' occurs twice in an object",
                                               line_of(text, (size_t)(k->text - text)),
                                               k->len < 100 ? (int)k->len : 100, k->text);
        if (seen->n == seen->room) {
                seen->room = seen->room ? 2 * seen->room : 64;
                more = realloc(seen->key, seen->room * sizeof(*more));
                if (!more)
                        return reader_no_memory(r);
                seen->key = more;
        }
        seen->key[seen->n++] = *k;
        return true;
}

/* The last byte of the string or, as json-c takes them, comment that begins at p. */
static const char *last_of(const char *p, const char *end)
{
        const char *begin = p++;

        if (*begin != '/')
                while (p < end && *p != *begin)
                        p += *p == '\\' ? 2 : 1;
        else if (p < end && *p == '*')
                while (++p < end && !(p[0] == '/' && p[-1] == '*' && p - begin > 2))
                        ;
        else
                while (p < end && *p != '\n')
                        p++;
        return p < end ? p : end - 1;
}

/* text is JSON. */
static bool check_keys(struct reader *r, const char *text, size_t len)
{
        struct keys_seen seen = { 0 };
        struct key_text k = { 0 };
        bool ok = true;

        for (const char *p = text, *end = text + len; ok && p < end; p++) {
                const char *begin = p;

                if (*p == '{' || *p == '[') {
                        k.depth++;
                } else if (*p == '}' || *p == ']') {
                        k.depth--;
                        while (seen.n > 0 && seen.key[seen.n - 1].depth > k.depth)
                                seen.n--;
                } else if (*p == ':') {
                        ok = note_key(r, &seen, text, &k);
                } else if (*p == '/') {
                        p = last_of(p, end);
                } else if (*p == '"' || *p == '\'') {
                        p = last_of(p, end);
                        k.text = begin + 1;
                        k.len = (size_t)(p - k.text);
                }
        }
        free(seen.key);
        return ok;
}

struct json_object *reader_file(struct reader *r)
{
        struct json_object *v = NULL;
        size_t len = 0;
        char *text = read_file(r, &len);

        if (text) {
                v = parse(r, text, len);
                if (v && !check_keys(r, text, len)) {
                        json_object_put(v);
                        v = NULL;
                }
                wipe(text, len);
        }
        free(text);
        return v;
}
