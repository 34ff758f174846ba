/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pdu/io/log.h"
#include "pdu/io/loop.h"

enum {
        TURN_MS = 50, /* how long a record waits at most, while the disk keeps up */
        HEAD_LINE = 512,
        LAST_LINE = 64, /* bytes: {"left_out":N} */
        STACK = 128 << 10,
        UNIT = alignof(max_align_t),
};

/* A record where it waits; its bytes follow. */
struct entry {
        alignas(max_align_t) size_t n;
};

struct room {
        size_t used;
        alignas(max_align_t) uint8_t bytes[JOURNAL_ROOM];
};

struct journal {
        struct journal_options options; /* its path is ours */
        pthread_mutex_t lock;
        pthread_cond_t filled;
        pthread_t thread;
        bool ends;            /* of these: under the lock */
        struct room *waiting; /* what is added goes there */
        uint64_t left_out, untold;

        struct room *writing; /* the thread's, as all that follows */
        FILE *file;           /* NULL: the journal has ended */
        bool full;            /* so has the only file: its last line is still to come */
        uint64_t bytes, part;
        int error;
        char *path;
        char text[JOURNAL_LINE];
        struct room rooms[2];
};

/* --- files ------------------------------------------------------------------------------------ */

static void put(struct journal *j, const char *line, size_t n)
{
        if (fwrite(line, 1, n, j->file) != n || putc('\n', j->file) == EOF)
                j->error = j->error ? j->error : errno;
        j->bytes += n + 1;
}

static bool open_part(struct journal *j, char *error, size_t size)
{
        unsigned files = j->options.files > 1 ? j->options.files : 1;
        unsigned which = (unsigned)(j->part % files);
        char path[PATH_MAX + 16], head[HEAD_LINE]; /* j->text may be a line that is to come */
        size_t n;

        snprintf(path, sizeof(path), which ? "%s.%u" : "%s", j->path, which);
        j->file = fopen(path, "we");
        j->bytes = 0;
        if (!j->file) {
                snprintf(error, size, "%s: %s", path, strerror(errno));
                return false;
        }
        n = j->options.head(j->part++, head, sizeof(head));
        put(j, head, n);
        return true;
}

static void close_part(struct journal *j)
{
        errno = 0;
        if (j->file && fclose(j->file) != 0 && !j->error)
                j->error = errno ? errno : EIO;
        j->file = NULL;
}

/* Nothing is written from here on. */
static void fail(struct journal *j, const char *why)
{
        if (!j->error)
                j->error = errno ? errno : EIO;
        log_line(LOG_AS_ERROR, NULL, NULL, "the trace has ended: %s", why);
        close_part(j);
}

static void next_part(struct journal *j)
{
        char error[300];

        if (j->options.files < 2) {
                j->full = true;
                log_line(LOG_AS_WARNING, NULL, NULL,
                         "%s: the trace has ended: it may have %" PRIu64 " bytes", j->path,
                         j->options.most);
                return;
        }
        close_part(j);
        if (!open_part(j, error, sizeof(error)))
                fail(j, error);
}

/* --- lines ------------------------------------------------------------------------------------ */

/* Records that are not written are counted with those that found no room. */
static void leave_out(struct journal *j, uint64_t n)
{
        pthread_mutex_lock(&j->lock);
        j->left_out += n;
        j->untold += n;
        pthread_mutex_unlock(&j->lock);
}

static bool fits(const struct journal *j, size_t n)
{
        return j->options.most == 0 || j->bytes + n + 1 + LAST_LINE <= j->options.most;
}

static void write_line(struct journal *j, const char *line, size_t n)
{
        if (j->file && !j->full && !fits(j, n))
                next_part(j);
        if (n > 0 && j->file && !j->full)
                put(j, line, n);
        else
                leave_out(j, 1);
}

static uint64_t take_untold(struct journal *j)
{
        uint64_t n;

        pthread_mutex_lock(&j->lock);
        n = j->untold;
        j->untold = 0;
        pthread_mutex_unlock(&j->lock);
        return n;
}

/* Once the only file is full, at the end alone: there is room for one such line. */
static bool may_tell(const struct journal *j, bool last)
{
        return j->file && (last || !j->full);
}

static void tell_left_out(struct journal *j, bool last)
{
        char line[LAST_LINE];
        uint64_t n = may_tell(j, last) ? take_untold(j) : 0;

        if (n == 0)
                return;
        snprintf(line, sizeof(line), "{\"left_out\":%" PRIu64 "}", n);
        if (!last && !fits(j, strlen(line)))
                next_part(j);
        if (may_tell(j, last)) {
                put(j, line, strlen(line));
                return;
        }
        pthread_mutex_lock(&j->lock);
        j->untold += n;
        pthread_mutex_unlock(&j->lock);
}

static void write_room(struct journal *j)
{
        const uint8_t *at = j->writing->bytes, *end = at + j->writing->used;

        while (at < end) {
                const struct entry *e = (const void *)at;
                size_t n = j->options.line(e + 1, e->n, j->text, sizeof(j->text));

                write_line(j, j->text, n);
                at += (sizeof(*e) + e->n + UNIT - 1) / UNIT * UNIT;
        }
        j->writing->used = 0;
}

static void flush(struct journal *j, bool last)
{
        tell_left_out(j, last);
        errno = 0;
        if (j->file && (fflush(j->file) != 0 || ferror(j->file)))
                fail(j, strerror(errno ? errno : EIO));
}

/* --- the thread ------------------------------------------------------------------------------- */

/* What waits is to be written now; false: nothing ever will any more. */
static bool swap(struct journal *j)
{
        struct timespec until = loop_in(TURN_MS);
        struct room *full;
        bool more;

        pthread_mutex_lock(&j->lock);
        while (!j->ends && j->waiting->used < JOURNAL_ROOM / 2 &&
               pthread_cond_timedwait(&j->filled, &j->lock, &until) == 0)
                ;
        full = j->waiting;
        more = !j->ends || full->used > 0;
        j->waiting = j->writing;
        j->writing = full;
        pthread_mutex_unlock(&j->lock);
        return more;
}

static void *write_all(void *arg)
{
        struct journal *j = arg;

        while (swap(j)) {
                if (j->writing->used > 0)
                        write_room(j);
                flush(j, false);
        }
        flush(j, true);
        return NULL;
}

static int run_thread(struct journal *j)
{
        pthread_attr_t attr;
        sigset_t all, before;
        int rc;

        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, STACK);
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        rc = pthread_create(&j->thread, &attr, write_all, j);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attr);
        return rc;
}

/* --- the calls -------------------------------------------------------------------------------- */

static void free_journal(struct journal *j)
{
        pthread_cond_destroy(&j->filled);
        pthread_mutex_destroy(&j->lock);
        free(j->path);
        free(j);
}

static struct journal *new_journal(const struct journal_options *o)
{
        struct journal *j = calloc(1, sizeof(*j));
        pthread_condattr_t clock;

        if (!j)
                return NULL;
        j->options = *o;
        j->path = strdup(o->path);
        j->waiting = &j->rooms[0];
        j->writing = &j->rooms[1];
        pthread_condattr_init(&clock);
        pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        pthread_cond_init(&j->filled, &clock);
        pthread_condattr_destroy(&clock);
        pthread_mutex_init(&j->lock, NULL);
        if (j->path)
                return j;
        free_journal(j);
        return NULL;
}

/* Who looks sees at once what it is. */
static bool begin(struct journal *j, char *error, size_t size)
{
        int rc;

        if (!open_part(j, error, size))
                return false;
        rc = fflush(j->file) == 0 ? run_thread(j) : errno;
        if (rc == 0)
                return true;
        snprintf(error, size, "%s: %s", j->path, strerror(rc));
        fclose(j->file);
        return false;
}

struct journal *journal_open(const struct journal_options *o, char *error, size_t size)
{
        struct journal *j = new_journal(o);

        if (!j) {
                snprintf(error, size, "%s: %s", o->path, strerror(ENOMEM));
                return NULL;
        }
        if (begin(j, error, size))
                return j;
        free_journal(j);
        return NULL;
}

void journal_add(struct journal *j, const void *record, size_t n)
{
        size_t whole = (sizeof(struct entry) + n + UNIT - 1) / UNIT * UNIT;
        struct room *r;

        pthread_mutex_lock(&j->lock);
        r = j->waiting;
        if (whole > JOURNAL_ROOM - r->used) {
                j->left_out++;
                j->untold++;
        } else {
                struct entry *e = (void *)(r->bytes + r->used);

                e->n = n;
                memcpy(e + 1, record, n);
                if (r->used < JOURNAL_ROOM / 2 && r->used + whole >= JOURNAL_ROOM / 2)
                        pthread_cond_signal(&j->filled);
                r->used += whole;
        }
        pthread_mutex_unlock(&j->lock);
}

void journal_lose(struct journal *j)
{
        leave_out(j, 1);
}

uint64_t journal_left_out(struct journal *j)
{
        uint64_t n;

        pthread_mutex_lock(&j->lock);
        n = j->left_out;
        pthread_mutex_unlock(&j->lock);
        return n;
}

int journal_close(struct journal *j)
{
        int error;

        if (!j)
                return 0;
        pthread_mutex_lock(&j->lock);
        j->ends = true;
        pthread_cond_signal(&j->filled);
        pthread_mutex_unlock(&j->lock);
        pthread_join(j->thread, NULL);
        close_part(j);
        error = j->error;
        free_journal(j);
        errno = error;
        return error ? -1 : 0;
}
