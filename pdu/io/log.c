/* SPDX-License-Identifier: BSD-3-Clause */
#include "log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "net.h"

enum {
        PLACES =
            256, /* kinds and peers that are told apart; those that share one are limited together */
        TURN_MS = 1000,
        CHUNK = 4096, /* bytes of a write */
        ESCAPED = 6,  /* bytes that one may become */
        STACK = 128 << 10,
        LAST_MS = 500, /* for the last lines */
};

static struct {
        pthread_mutex_t lock;
        pthread_cond_t moved;
        int fd;
        _Atomic unsigned most;
        bool json;
        bool runs, writes; /* the thread; a chunk is on its way */
        bool at_exit;
        size_t at, used; /* of the ring */
        unsigned dropped;
        struct place {
                const char *kind;
                char peer[64];
                uint64_t since;
                unsigned lines, left_out;
        } places[PLACES];
        char ring[LOG_RING];
} the = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = STDERR_FILENO, .most = LOG_AS_INFO };

/* --- a line: under the lock ------------------------------------------------------------------- */

static size_t escape(char *to, size_t size, const char *from)
{
        size_t n = 0;

        for (const unsigned char *p = (const unsigned char *)from; *p && n + ESCAPED < size; p++) {
                if (the.json && (*p == '"' || *p == '\\'))
                        n += (size_t)snprintf(to + n, size - n, "\\%c", *p);
                else if (*p >= ' ' && *p < 0x7f)
                        to[n++] = (char)*p;
                else
                        n += (size_t)snprintf(to + n, size - n, the.json ? "\\u%04x" : "\\x%02x",
                                              *p);
        }
        to[n] = '\0';
        return n;
}

static void put(const char *bytes, size_t n)
{
        if (n > LOG_RING - the.used) {
                the.dropped++;
                return;
        }
        for (size_t i = 0; i < n; i++)
                the.ring[(the.at + the.used + i) % LOG_RING] = bytes[i];
        the.used += n;
        pthread_cond_broadcast(&the.moved);
}

static size_t put_member(char *line, size_t size, size_t n, const char *name, const char *value)
{
        char text[LOG_LINE];

        if (!value)
                return n;
        escape(text, sizeof(text), value);
        n += (size_t)snprintf(line + n, size - n, ",\"%s\":\"%s\"", name, text);
        return n < size ? n : size - 1;
}

static void write_line(enum log_level level, const char *kind, const char *peer, const char *says)
{
        static const char *const names[] = { "error", "warning", "info", "trace" };
        int64_t now = loop_wall_ns();
        time_t seconds = (time_t)(now / 1000000000);
        char stamp[32], text[LOG_LINE], line[3 * LOG_LINE];
        struct tm utc;
        size_t n;

        strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &utc));
        n = (size_t)snprintf(line, sizeof(line),
                             the.json ? "{\"time\":\"%s.%06dZ\",\"level\":\"%s\"" : "%s.%06dZ %s ",
                             stamp, (int)(now % 1000000000 / 1000), names[level]);
        if (the.json) {
                n = put_member(line, sizeof(line) - 3, n, "kind", kind);
                n = put_member(line, sizeof(line) - 3, n, "peer", peer);
                n = put_member(line, sizeof(line) - 3, n, "message", says);
        } else {
                escape(text, sizeof(text), says);
                n += (size_t)snprintf(line + n, sizeof(line) - n, "%s", text);
        }
        n += (size_t)snprintf(line + n, sizeof(line) - n, the.json ? "}\n" : "\n");
        put(line, n);
}

/* --- how many --------------------------------------------------------------------------------- */

static void sum_up(struct place *p)
{
        char says[160];

        if (p->left_out > 0) {
                snprintf(says, sizeof(says), "%s, %s: %u lines like these were left out", p->kind,
                         p->peer[0] ? p->peer : "all peers", p->left_out);
                write_line(LOG_AS_WARNING, p->kind, p->peer[0] ? p->peer : NULL, says);
        }
        p->lines = p->left_out = 0;
}

static struct place *place_of(const char *kind, const char *peer)
{
        uint32_t h = 2166136261u; /* FNV-1a */

        for (const char *p = kind; *p; p++)
                h = (h ^ (uint8_t)*p) * 16777619u;
        for (const char *p = peer ? peer : ""; *p; p++)
                h = (h ^ (uint8_t)*p) * 16777619u;
        return &the.places[h % PLACES];
}

static bool is_one_too_many(const char *kind, const char *peer)
{
        struct place *p = place_of(kind, peer);
        uint64_t now = loop_now_ms();

        if (p->lines == 0 || now - p->since >= LOG_WINDOW_MS) {
                sum_up(p);
                p->kind = kind;
                p->since = now;
                snprintf(p->peer, sizeof(p->peer), "%s", peer ? peer : "");
        }
        if (p->lines++ < LOG_BURST)
                return false;
        p->left_out++;
        return true;
}

static void sum_up_those(bool all)
{
        uint64_t now = loop_now_ms();

        for (struct place *p = the.places; p < the.places + PLACES; p++)
                if (p->left_out > 0 && (all || now - p->since >= LOG_WINDOW_MS))
                        sum_up(p);
}

static void own_up(void)
{
        char says[80];

        if (the.dropped == 0 || the.used > LOG_RING / 2)
                return;
        snprintf(says, sizeof(says), "%u lines were dropped: the log was not read", the.dropped);
        the.dropped = 0;
        write_line(LOG_AS_WARNING, NULL, NULL, says);
}

/* --- the thread ------------------------------------------------------------------------------- */

/* The descriptor may be one that does not wait. What it does not take is lost. */
static bool write_out(const char *bytes, size_t n)
{
        struct pollfd p = { .fd = the.fd, .events = POLLOUT };

        while (n > 0) {
                ssize_t put = write(the.fd, bytes, n);

                if (put < 0 && errno == EAGAIN)
                        loop_poll(&p, 1, TURN_MS);
                else if (put < 0 && errno != EINTR)
                        return false;
                bytes += put > 0 ? put : 0;
                n -= put > 0 ? (size_t)put : 0;
        }
        return true;
}

static void *write_all(void *arg)
{
        char chunk[CHUNK];

        pthread_mutex_lock(&the.lock);
        for (;;) {
                size_t n = the.used < CHUNK ? the.used : CHUNK;
                struct timespec until = loop_in(TURN_MS);

                if (n == 0) {
                        sum_up_those(false);
                        own_up();
                        if (the.used == 0)
                                pthread_cond_timedwait(&the.moved, &the.lock, &until);
                        continue;
                }
                for (size_t i = 0; i < n; i++)
                        chunk[i] = the.ring[(the.at + i) % LOG_RING];
                the.at = (the.at + n) % LOG_RING;
                the.used -= n;
                the.writes = true;
                pthread_mutex_unlock(&the.lock);
                write_out(chunk, n);
                pthread_mutex_lock(&the.lock);
                the.writes = false;
                pthread_cond_broadcast(&the.moved);
        }
        return arg;
}

static void write_last(void)
{
        log_flush(LAST_MS);
}

/* Without it lines wait forever, and are dropped when there are too many: so it is tried again. */
static void run_thread(void)
{
        pthread_condattr_t clock;
        pthread_attr_t attr;
        sigset_t all, before;
        pthread_t thread;

        pthread_condattr_init(&clock);
        pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        pthread_cond_init(&the.moved, &clock);
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, STACK);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        if (!the.at_exit)
                the.at_exit = atexit(write_last) == 0;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        the.runs = pthread_create(&thread, &attr, write_all, NULL) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attr);
        pthread_condattr_destroy(&clock);
}

/* --- the calls -------------------------------------------------------------------------------- */

void log_start(int fd, enum log_level most, bool json)
{
        pthread_mutex_lock(&the.lock);
        the.fd = fd;
        the.most = most;
        the.json = json;
        pthread_mutex_unlock(&the.lock);
}

void log_set_level(enum log_level most)
{
        the.most = most;
}

void log_line(enum log_level level, const char *kind, const char *peer, const char *fmt, ...)
{
        char says[LOG_LINE];
        va_list args;

        if (level > the.most)
                return;
        va_start(args, fmt);
        pthread_mutex_lock(&the.lock);
        if (!the.runs)
                run_thread();
        if (!kind || !is_one_too_many(kind, peer)) {
                vsnprintf(says, sizeof(says), fmt, args);
                write_line(level, kind, peer, says);
        }
        pthread_mutex_unlock(&the.lock);
        va_end(args);
}

bool log_flush(unsigned ms)
{
        struct timespec until = loop_in(ms);
        bool done;

        pthread_mutex_lock(&the.lock);
        sum_up_those(true);
        while (the.runs && (the.used > 0 || the.writes) &&
               pthread_cond_timedwait(&the.moved, &the.lock, &until) == 0)
                ;
        done = the.used == 0 && !the.writes;
        pthread_mutex_unlock(&the.lock);
        return done;
}
