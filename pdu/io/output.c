/* SPDX-License-Identifier: BSD-3-Clause */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Not opened: the reader of a pipe would take that for the end. */
static bool is_writable(const char *path)
{
        struct stat st;

        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
                errno = EISDIR;
                return false;
        }
        return access(path, W_OK) == 0;
}

bool output_file(const char *path)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

        if (fd < 0)
                return errno == EEXIST && is_writable(path);
        close(fd);
        unlink(path);
        return true;
}

bool output_folder(const char *path)
{
        bool good;
        int fd;

        if (mkdir(path, 0777) == 0)
                return true;
        fd = errno == EEXIST ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        if (fd < 0)
                return false;
        good = faccessat(fd, ".", W_OK | X_OK, 0) == 0;
        close(fd);
        return good;
}

bool output_same(const char *a, const char *b)
{
        struct stat x, y;

        return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Beside o->to, with the same ending, by which some tell the format. */
static bool make_beside(struct output *o)
{
        const char *name = strrchr(o->to, '/'), *dot = strrchr(name ? name : o->to, '.');
        int stem = (int)(dot ? dot - o->to : (ptrdiff_t)strlen(o->to)), fd;

        if (snprintf(o->path, sizeof(o->path), "%.*s.%d%s", stem, o->to, (int)getpid(),
                     dot ? dot : "") >= (int)sizeof(o->path)) {
                errno = ENAMETOOLONG;
                return false;
        }
        fd = open(o->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        return fd >= 0 && close(fd) == 0;
}

bool output_begin(struct output *o, const char *from, const char *to, char *error, size_t size)
{
        char *real = realpath(to, NULL); /* a link stays one */
        struct stat st;

        snprintf(o->to, sizeof(o->to), "%s", real ? real : to);
        free(real);
        if (output_same(from, to)) {
                snprintf(error, size, "%s: is the file that is read; choose another one", to);
                return false;
        }
        if (stat(o->to, &st) == 0 && !S_ISREG(st.st_mode))
                strcpy(o->path, o->to);
        else if (!output_file(o->to) || !make_beside(o)) {
                snprintf(error, size, "%s: %s", to, strerror(errno));
                return false;
        }
        return true;
}

bool output_end(struct output *o, bool good)
{
        if (strcmp(o->path, o->to) == 0)
                return true;
        if (good && rename(o->path, o->to) == 0)
                return true;
        unlink(o->path);
        return !good;
}
