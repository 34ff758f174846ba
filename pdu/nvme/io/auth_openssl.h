/* SPDX-License-Identifier: BSD-3-Clause */
/* What authentication computes (pdu/nvme/machine/auth.h), by OpenSSL; and keys as options give them. */
#ifndef NVMF_IO_AUTH_OPENSSL_H
#define NVMF_IO_AUTH_OPENSSL_H

#include "pdu/nvme/machine/auth.h"

/* NULL: built without OpenSSL. */
const struct auth_crypto *auth_openssl(void);

/*
 * The value of a key's option: the key itself, or @FILE that holds it (a command line is seen by
 * others). 0; -1: error says why, and never quotes the key. Whoever has keys has got them by this: cores
 * are empty from here on (core_dump.h).
 */
int auth_key_option(struct auth_key *key, const char *value, char *error, size_t size);
/* The same of a command line, which is seen by others: a line of the log says so. */
int auth_key_argument(struct auth_key *key, const char *value, char *error, size_t size);
typedef const char *auth_parse(struct auth_key *key, const char *text);
/* Both of a key of another form: parse is auth_key_parse(), tls_key_parse(). */
int auth_option(struct auth_key *key, auth_parse *parse, const char *value, char *error,
                size_t size);
int auth_argument(struct auth_key *key, auth_parse *parse, const char *value, char *error,
                  size_t size);
/* A line of the log, if others than its owner may read the file of a key. */
void auth_warn_of_readers(const char *file);

#endif
