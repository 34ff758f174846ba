/* SPDX-License-Identifier: BSD-3-Clause */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
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
