/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into tlshd 1.4, for two things that it gets wrong:
 *
 * It gives up where the kernel cannot limit the size of records (TLS_TX_MAX_PAYLOAD_LEN, which 6.12 lacks), though no
 * peer has asked for a limit. Nothing is limited then.
 *
 * The process of each handshake links the keyring of its connection into the session's, which all of them have, and
 * takes it out again at its end: whoever looks for a key in that moment finds none. It stays.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <sys/socket.h>

enum { LEVEL_TLS = 282, MAX_PAYLOAD_LEN = 5 };

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
        int (*next)(int, int, int, const void *, socklen_t);

        *(void **)&next = dlsym(RTLD_NEXT, "setsockopt");
        return level == LEVEL_TLS && name == MAX_PAYLOAD_LEN ? 0
                                                             : next(fd, level, name, value, len);
}

long keyctl_unlink(int32_t key, int32_t keyring); /* of keyutils.h, a package of its own */

long keyctl_unlink(int32_t key, int32_t keyring)
{
        (void)key;
        (void)keyring;
        return 0;
}
