/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What opens captured TLS 1.3: secrets out of key logs (SSLKEYLOGFILE's format), and a configured PSK, which is
 * enough where a handshake used it alone. And the file that our own ends write such a log to.
 */
#ifndef NVMF_NVME_IO_KEY_LOG_H
#define NVMF_NVME_IO_KEY_LOG_H

#include <stdio.h>

#include "pdu/core/tls_secret.h"
#include "pdu/nvme/machine/tls_key.h"

struct key_log;

/* NULL: no memory. Cores are empty from here on (core_dump.h). */
struct key_log *key_log_new(void);
/* NULL allowed. */
void key_log_free(struct key_log *k);

/* Text of a key log. 0; -1 and one line in error: no memory, or a line (by its number) that is no secret. What
 * stands before that line counts. */
int key_log_add(struct key_log *k, const char *text, size_t len, char *error, size_t size);
/* The same of a file; -1 also where it cannot be read, or has no secret of TLS 1.3. */
int key_log_read(struct key_log *k, const char *path, char *error, size_t size);
/* The PSK, which is copied. */
void key_log_set_psk(struct key_log *k, const struct auth_key *configured);

/* Whether nothing can be opened by it. */
bool key_log_is_empty(const struct key_log *k);
/* A connection's secret; NULL: the log lacks it. Valid until more is added. */
const struct tls_secret *key_log_find(const struct key_log *k, const uint8_t random[TLS_RANDOM],
                                      enum tls_secret_kind kind);
/* NULL: none. */
const struct auth_key *key_log_psk(const struct key_log *k);

/* The log that our own ends append to: a file of its owner, made if there is none. NULL and the error, also if
 * others may read it, or without OpenSSL. Cores are empty from here on. */
FILE *key_log_create(const char *path, char *error, size_t size);

#endif
