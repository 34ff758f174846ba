/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is inside a TLS 1.3 connection, by who saw the bytes of both sides from the first one on and has its
 * secrets (RFC 8446): the handshake is passed over, KeyUpdate followed, the rest is handed out. Nothing is
 * guessed: where a record does not open, or one was not seen, all that follows is out of reach.
 *
 * It takes 84 KiB at most in a handshake, and 34 KiB afterwards.
 */
#ifndef NVMF_NVME_IO_TLS_READER_H
#define NVMF_NVME_IO_TLS_READER_H

#include "key_log.h"

struct tls_reader;

/* The next n > 0 bytes that are inside; valid during the call. */
typedef void tls_plain_fn(void *user, enum party sender, const uint8_t *p, size_t n);

/* The keys outlive it, and do not change. NULL: no memory. */
struct tls_reader *tls_reader_new(const struct key_log *keys);
/* NULL allowed. */
void tls_reader_free(struct tls_reader *r);

/* The next n bytes that a side sent, the host being the client. NULL; else why nothing more can be read, one line
 * that the reader owns, from then on at each call. */
const char *tls_reader_read(struct tls_reader *r, enum party sender, const uint8_t *p, size_t n,
                            tls_plain_fn *plain, void *user);

#endif
