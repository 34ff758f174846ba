/* SPDX-License-Identifier: BSD-3-Clause */
/* The capture that a command reads, by which ports, and with which secrets of TLS. */
#ifndef NVMF_PCAP_SOURCE_H
#define NVMF_PCAP_SOURCE_H

#include "pcap/trace/trace.h"
#include "pdu/nvme/io/key_log.h"

struct source {
        struct trace_options trace; /* first: args_take_port() */
        struct key_log *keys;       /* NULL: none so far */
        struct trace_tls tls;       /* trace.tls, where there are keys */
        const char *file;
        unsigned unread; /* connections over TLS that could not be read, or not to their end */
};

/* An option_row's `call` for arguments that begin with a struct source: --keylog, --tls-key. */
bool source_take_keylog(void *source, const char *value, char *error, size_t size);
bool source_take_tls_key(void *source, const char *value, char *error, size_t size);

/* The file, and the secrets that it brings itself; what cannot be read of TLS is told on stderr from now on. False:
 * error says why. */
bool source_open(struct source *s, const char *file, char *error, size_t size);
/* Whether there were keys, and none of the connections over TLS could be read at all: error says so. */
bool source_is_sealed(const struct source *s, const struct trace_totals *t, char *error,
                      size_t size);
/* Tells how many lines were left out, and forgets the secrets. */
void source_close(struct source *s);

#endif
