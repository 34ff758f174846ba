/* SPDX-License-Identifier: BSD-3-Clause */
/* Secrets of TLS by which captures are read: key logs, and configured PSKs. Private to the room. */
#ifndef NVMF_PCAP_NVME_SOURCE_H
#define NVMF_PCAP_NVME_SOURCE_H

#include "pcap/trace/trace.h"
#include "pdu/nvme/io/key_log.h"

struct source {
        struct key_log *keys; /* NULL: none so far */
        struct trace_tls tls; /* where there are keys */
        const char *file;
        unsigned unread; /* connections over TLS that could not be read, or not to their end */
};

/* See pcap/tools/secrets.h: of a struct source, all zero at first. */
bool source_take_keylog(void *source, const char *value, char *error, size_t size);
bool source_open(void *source, const char *file, const struct trace_tls **tls, char *error,
                 size_t size);
/* Tells how many lines were left out, too. */
void source_close(void *source);

#endif
