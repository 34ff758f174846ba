/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
        WINDOW_FIRST = 1 << 16
}; /* bytes: below what malloc() maps apart; most files need no more */

int window_open(struct capture_window *w, const char *path)
{
        *w = (struct capture_window) { .bytes = malloc(WINDOW_FIRST), .room = WINDOW_FIRST };
        if (!w->bytes) {
                errno = ENOMEM;
                return -1;
        }
        w->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
        if (w->fd >= 0)
                return 0;
        free(w->bytes);
        return -1;
}

void window_close(struct capture_window *w)
{
        if (w->fd != STDIN_FILENO)
                close(w->fd);
        free(w->bytes);
}

static bool make_room(struct capture_window *w, size_t n)
{
        size_t room = w->room;
        uint8_t *bytes;

        while (room < n)
                room *= 2;
        bytes = room > w->room ? realloc(w->bytes, room) : w->bytes;
        if (!bytes) {
                snprintf(w->why, sizeof(w->why), "%s", strerror(ENOMEM));
                return false;
        }
        w->bytes = bytes;
        w->room = room;
        return true;
}

ssize_t window_fill(struct capture_window *w, size_t n)
{
        if (w->end - w->start >= n)
                return (ssize_t)(w->end - w->start);
        if (!make_room(w, n))
                return -1;
        memmove(w->bytes, w->bytes + w->start, w->end - w->start);
        w->end -= w->start;
        w->start = 0;
        while (w->end < n) {
                ssize_t got = read(w->fd, w->bytes + w->end, w->room - w->end);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        snprintf(w->why, sizeof(w->why), "%s", strerror(errno));
                if (got < 0)
                        return -1;
                if (got == 0)
                        break;
                w->end += (size_t)got;
                w->read += (uint64_t)got;
        }
        return (ssize_t)w->end;
}

int window_skip(struct capture_window *w, uint64_t n)
{
        while (n > 0) {
                ssize_t have = window_fill(w, 1);

                if (have <= 0)
                        return (int)have;
                if ((uint64_t)have > n)
                        have = (ssize_t)n;
                w->start += (size_t)have;
                n -= (uint64_t)have;
        }
        return 1;
}

uint64_t window_offset(const struct capture_window *w)
{
        return w->read - (w->end - w->start);
}

int window_fail(struct capture_window *w, uint64_t offset, const char *fmt, ...)
{
        size_t n;
        va_list args;

        va_start(args, fmt);
        vsnprintf(w->why, sizeof(w->why), fmt, args);
        va_end(args);
        n = strlen(w->why);
        snprintf(w->why + n, sizeof(w->why) - n, ", at offset %llu", (unsigned long long)offset);
        return -1;
}
