/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS secrets that a pcapng file carries itself: Decryption Secrets Blocks (draft-ietf-opsawg-pcapng 4.7). */
#ifndef NVMF_IO_CAPTURE_SECRETS_H
#define NVMF_IO_CAPTURE_SECRETS_H

#include <stddef.h>

/*
 * Calls fn with the text of each TLS key log that stands before the first packet, where editcap --inject-secrets
 * puts them; it is valid during the call. Nothing of a file that is another, damaged, or cannot be read twice: who
 * reads the packets says so. 0; -1: out of memory, or what fn returned, at which it ended.
 */
int capture_secrets(const char *path, int (*fn)(void *user, const char *text, size_t len),
                    void *user);

#endif
