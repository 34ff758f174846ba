/* SPDX-License-Identifier: BSD-3-Clause */
#include "corpus.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz/sequence/seq_capture.h"

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

unsigned corpus_keep(struct corpus *c, enum seq_transport transport)
{
        unsigned kept = 0, dropped;

        for (unsigned i = 0; i < c->n; i++)
                if (c->at[i]->transport == transport)
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
                        snprintf(why, sizeof(why), "no room for more than %u sequences", c->n);
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

static bool is_capture(const char *path)
{
        FILE *f = fopen(path, "re");
        uint8_t head[4];
        bool is = f && seq_is_capture(head, fread(head, 1, sizeof(head), f));

        if (f)
                fclose(f);
        return is;
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
        return is_capture(path) ? seq_capture(c, path, err) : load_file(c, path, err);
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

void corpus_begin(struct corpus *c, enum seq_transport transport)
{
        static const char *const tcp_texts[] = {
                "sequence host\nicreq\nconnect\nproperty_get ofst=8\nenable\nproperty_get ofst=28\n"
                "identify\nget_features\naer\n",
                "sequence host\nicreq dgst=3\nconnect\nenable\nidentify_list\nset_features\n"
                "get_smart\nkeep_alive\nabort\n",
                "sequence host\nicreq hpda=3 maxr2t=3\nconnect_r2t\nh2c\nproperty_get\nset_hostid\n"
                "disconnect\n",
                "sequence host queues=2\nicreq\nconnect\nenable\nicreq on=1\nconnect on=1\n"
                "read on=1\nwrite on=1\nh2c on=1\nwrite_icd on=1\nflush on=1\n",
                "sequence host queues=2\nicreq\nconnect\nenable\nicreq dgst=3 maxr2t=3 on=1\n"
                "connect on=1\nwrite data=8192 cdw12=15 on=1\nwrite cdw12=31 data=16384 on=1\n"
                "h2c of=1 on=1\nh2c on=1\nread cdw12=31 data=16384 on=1\ncompare_r2t on=1\n"
                "h2c on=1\ncompare on=1\n",
                "sequence host\nicreq dgst=2\nconnect\nauth_send\nauth_receive\nidentify_ns\n",
                "sequence host\nicreq\ndelay 1\nconnect "
                "cattr=4\nenable\nget_log\ndisable\nh2cterm\n",
                "sequence host queues=3\nicreq\nconnect\nenable\nicreq on=1\nconnect on=1\n"
                "icreq on=2\nconnect on=2\nread on=2\nread on=1\nwrite on=2\nclose\nh2c on=2\n",
        };
        static const char *const rdma_texts[] = {
                "sequence host rdma\nrequest\nconnect\nproperty_get "
                "ofst=8\nenable\nidentify\naer\n",
                "sequence host rdma queues=2\nrequest\nconnect\nenable\nrequest on=1\nconnect "
                "on=1\n"
                "read on=1\nwrite on=1\nwrite_icd on=1\nflush on=1\n",
                "sequence host rdma queues=2\nrequest\nconnect\nenable\nrequest on=1\nconnect "
                "on=1\n"
                "write data=4096 keys=3 on=1\nread sgl.id=0x4f on=1\ncompare_r2t on=1\n",
                "sequence host rdma\nrequest\nconnect\nenable\nidentify_list\nset_features\n"
                "get_smart\nkeep_alive\nset_hostid\ndisconnect\n",
        };
        const char *const *text = transport == SEQ_RDMA ? rdma_texts : tcp_texts;
        size_t n = transport == SEQ_RDMA ? sizeof(rdma_texts) / sizeof(rdma_texts[0])
                                         : sizeof(tcp_texts) / sizeof(tcp_texts[0]);
        struct sequence *s = malloc(sizeof(*s));
        char why[CORPUS_ERROR];

        for (size_t i = 0; s && i < n; i++)
                if (seq_parse(s, text[i], strlen(text[i]), why, sizeof(why)))
                        corpus_add(c, s);
        free(s);
}
