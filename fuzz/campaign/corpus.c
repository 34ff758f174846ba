/* SPDX-License-Identifier: BSD-3-Clause */
#include "corpus.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_MAX = 16 << 20, PATH_LEN = 1024, NUMBER_MAX = 999999 /* others are dates */ };

/* Only what it has: pages of steps and bytes that it has not are never touched. */
static struct sequence *copy_of(const struct sequence *s)
{
        struct sequence *copy = calloc(1, sizeof(*copy));

        if (!copy)
                return NULL;
        memcpy(copy, s, offsetof(struct sequence, step) + s->steps * sizeof(s->step[0]));
        copy->pooled = s->pooled;
        memcpy(copy->pool, s->pool, s->pooled);
        return copy;
}

static bool make_room(struct corpus *c)
{
        unsigned room = c->room ? 2 * c->room : 64;
        struct sequence **at;

        if (c->n < c->room)
                return true;
        at = c->n < CORPUS_MAX ? realloc(c->at, room * sizeof(struct sequence *)) : NULL;
        if (!at)
                return false;
        c->at = at;
        c->room = room;
        return true;
}

bool corpus_add(struct corpus *c, const struct sequence *s)
{
        struct sequence *copy = make_room(c) ? copy_of(s) : NULL;

        c->full |= !copy;
        if (copy)
                c->at[c->n++] = copy;
        return copy;
}

unsigned corpus_keep(struct corpus *c, const struct fuzz_family *f, unsigned transport)
{
        unsigned kept = 0, dropped;

        for (unsigned i = 0; i < c->n; i++)
                if (c->at[i]->family == f && c->at[i]->transport == transport)
                        c->at[kept++] = c->at[i];
                else
                        free(c->at[i]);
        dropped = c->n - kept;
        c->n = kept;
        return dropped;
}

void corpus_free(struct corpus *c)
{
        for (unsigned i = 0; i < c->n; i++)
                free(c->at[i]);
        free(c->at);
        *c = (struct corpus) { 0 };
}

/* --- files -------------------------------------------------------------------------------------- */

static bool complain(char err[CORPUS_ERROR], const char *path, const char *why)
{
        snprintf(err, CORPUS_ERROR, "%s: %s", path, why);
        return false;
}

static char *read_all(const char *path, size_t *n, char err[CORPUS_ERROR])
{
        FILE *f = fopen(path, "re");
        char *text = f ? malloc(FILE_MAX) : NULL;
        bool ok = text;

        if (!f)
                complain(err, path, strerror(errno));
        else if (!text)
                complain(err, path, "no memory");
        if (ok) {
                *n = fread(text, 1, FILE_MAX, f);
                ok = !ferror(f) && *n < FILE_MAX;
                if (!ok)
                        complain(err, path, ferror(f) ? "cannot be read" : "too long");
        }
        if (f)
                fclose(f);
        if (ok) {
                text[*n] = '\0';
                return text;
        }
        free(text);
        return NULL;
}

/* Where the sequence after the one that begins at p begins: at the next such line, or the end. */
static char *next_of(char *p, char *end)
{
        static const char word[] = "sequence";

        for (p = memchr(p, '\n', (size_t)(end - p)); p; p = memchr(p, '\n', (size_t)(end - p)))
                if ((size_t)(end - ++p) > sizeof(word) && memcmp(p, word, sizeof(word) - 1) == 0)
                        return p;
        return end;
}

static unsigned lines_in(const char *from, const char *to)
{
        unsigned n = 0;

        for (; from < to; from++)
                n += *from == '\n';
        return n;
}

static bool add_texts(struct corpus *c, const char *path, char *text, size_t n,
                      char err[CORPUS_ERROR])
{
        struct sequence *s = malloc(sizeof(*s));
        char *end = text + n, *first = next_of(text, end);
        char why[CORPUS_ERROR / 2];
        bool ok = s;

        /* comments may stand above the first one */
        if (strncmp(text, "sequence", strlen("sequence")) != 0 && first < end)
                first = next_of(first, end);
        for (char *p = text, *next = first; ok && p < end; p = next, next = next_of(p, end)) {
                ok = seq_parse(s, p, (size_t)(next - p), why, sizeof(why)) && corpus_add(c, s);
                if (c->full)
                        snprintf(why, sizeof(why), "more than %u sequences", c->n);
                if (!ok) {
                        snprintf(err, CORPUS_ERROR, "%s: in the sequence at line %u: %s", path,
                                 lines_in(text, p) + 1, why);
                        break;
                }
        }
        free(s);
        return ok;
}

static bool load_file(struct corpus *c, const char *path, char err[CORPUS_ERROR])
{
        size_t n = 0;
        char *text = read_all(path, &n, err);
        bool ok = text && add_texts(c, path, text, n, err);

        free(text);
        return ok;
}

/* As pcap and pcapng files begin. */
static bool is_capture(const char *path)
{
        static const uint8_t magic[][4] = { { 0xd4, 0xc3, 0xb2, 0xa1 },
                                            { 0xa1, 0xb2, 0xc3, 0xd4 },
                                            { 0x4d, 0x3c, 0xb2, 0xa1 },
                                            { 0xa1, 0xb2, 0x3c, 0x4d },
                                            { 0x0a, 0x0d, 0x0d, 0x0a } };
        FILE *f = fopen(path, "re");
        uint8_t head[4] = { 0 };
        bool is = false;

        if (f && fread(head, 1, sizeof(head), f) == sizeof(head))
                for (size_t i = 0; i < sizeof(magic) / sizeof(magic[0]); i++)
                        is |= memcmp(head, magic[i], sizeof(head)) == 0;
        if (f)
                fclose(f);
        return is;
}

/* Each family takes what it knows of it. */
static bool load_capture(struct corpus *c, const char *path, char err[CORPUS_ERROR])
{
        bool any = false;

        complain(err, path, "nobody here reads captures");
        for (const struct fuzz_family *const *f = fuzz_families; *f; f++)
                any |= (*f)->read_capture && (*f)->read_capture(c, path, err);
        return any;
}

static bool load_folder(struct corpus *c, const char *path, unsigned *skipped,
                        char err[CORPUS_ERROR])
{
        struct dirent **entry;
        int n = scandir(path, &entry, NULL, alphasort);
        char name[PATH_LEN];
        struct stat st;

        if (n < 0)
                return complain(err, path, strerror(errno));
        for (int i = 0; i < n; i++) {
                snprintf(name, sizeof(name), "%s/%s", path, entry[i]->d_name);
                if (!c->full && stat(name, &st) == 0 && S_ISREG(st.st_mode) &&
                    !load_file(c, name, err) && skipped)
                        ++*skipped;
                free(entry[i]);
        }
        free(entry);
        return !c->full;
}

bool corpus_load(struct corpus *c, const char *path, unsigned *skipped, char err[CORPUS_ERROR])
{
        struct stat st;

        if (stat(path, &st) < 0)
                return complain(err, path, strerror(errno));
        if (S_ISDIR(st.st_mode))
                return load_folder(c, path, skipped, err);
        return is_capture(path) ? load_capture(c, path, err) : load_file(c, path, err);
}

bool corpus_save(const struct corpus *c, const char *path, const char *note, char err[CORPUS_ERROR])
{
        char *text = malloc(SEQ_TEXT);
        FILE *f = text ? fopen(path, "we") : NULL;
        bool ok = f;

        if (f && note)
                fprintf(f, "# %s\n", note);
        for (unsigned i = 0; f && i < c->n; i++)
                fwrite(text, 1, seq_print(c->at[i], text, SEQ_TEXT), f);
        if (f)
                ok = fclose(f) == 0;
        free(text);
        return ok || complain(err, path, strerror(errno));
}

unsigned corpus_last(const char *folder)
{
        DIR *d = opendir(folder);
        unsigned long n, last = 0;

        for (const struct dirent *e; d && (e = readdir(d));) {
                n = isdigit((unsigned char)e->d_name[0]) ? strtoul(e->d_name, NULL, 10) : 0;
                if (n > last && n <= NUMBER_MAX)
                        last = n;
        }
        if (d)
                closedir(d);
        return (unsigned)last;
}

/* --- a beginning -------------------------------------------------------------------------------- */

void corpus_begin(struct corpus *c, const struct fuzz_family *f, unsigned transport)
{
        const char *const *text = f->transports[transport].seeds;
        struct sequence *s = malloc(sizeof(*s));
        char why[CORPUS_ERROR];

        for (; s && text && *text; text++)
                if (seq_parse(s, *text, strlen(*text), why, sizeof(why)))
                        corpus_add(c, s);
        free(s);
}
