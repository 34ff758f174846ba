/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into tlshd 1.4, which gives up where the kernel cannot limit the size of records
 * (TLS_TX_MAX_PAYLOAD_LEN, which 6.12 lacks), though no peer has asked for a limit. Nothing is limited then.
 */
#include <dlfcn.h>
#include <sys/socket.h>

enum { LEVEL_TLS = 282, MAX_PAYLOAD_LEN = 5 };

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
        int (*next)(int, int, int, const void *, socklen_t);

        *(void **)&next = dlsym(RTLD_NEXT, "setsockopt");
        return level == LEVEL_TLS && name == MAX_PAYLOAD_LEN ? 0
                                                             : next(fd, level, name, value, len);
}
