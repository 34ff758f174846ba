/* SPDX-License-Identifier: BSD-3-Clause */
#include "lease.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* An abstract address of a socket that nobody sends to: the kernel gives it to one, and takes it back. */
int lease_take(const char *name)
{
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        size_t len = strnlen(name, LEASE_NAME);
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), why;

        if (fd < 0)
                return LEASE_IMPOSSIBLE;
        memcpy(a.sun_path + 1, name, len);
        if (bind(fd, (struct sockaddr *)&a,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) == 0)
                return fd;
        why = errno;
        close(fd);
        return why == EADDRINUSE ? LEASE_HELD : LEASE_IMPOSSIBLE;
}

void lease_give(int lease)
{
        if (lease >= 0)
                close(lease);
}
