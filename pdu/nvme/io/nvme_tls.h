/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP over TLS (NVMe/TCP 1.0, 3.6.1): configured PSKs as options give them, put to use on streams. */
#ifndef NVMF_NVME_IO_NVME_TLS_H
#define NVMF_NVME_IO_NVME_TLS_H

#include "pdu/io/stream_tls.h"
#include "pdu/nvme/machine/tls_store.h"

/* The value of an option: the PSK (NVMeTLSkey-1:...), or @FILE that holds it. 0; -1 and the error, which never
 * quotes the PSK. */
int nvme_tls_option(struct auth_key *key, const char *value, char *error, size_t size);
/* The same of a command line, which is seen by others: a line of the log says so. */
int nvme_tls_argument(struct auth_key *key, const char *value, char *error, size_t size);

/* A key store: the lines of a file, or of each file of a directory but hidden ones, in the order of their names. What
 * nvme_tls_store_free() frees; NULL: the error names file and line, and quotes no key. */
struct tls_store *nvme_tls_store(const char *path, char *error, size_t size);
void nvme_tls_store_free(struct tls_store *s);

/*
 * A host's side of a connected stream. The names are those that its identity has. 0; -1 and the error.
 */
int nvme_tls_connect(struct stream *s, const struct nvme_tls *cfg, const char *hostnqn,
                     const char *subnqn, char *error, size_t size);

enum { NVME_TLS_KEYS = 4 };

/* What a controller goes by; it outlives the context that nvme_tls_server() makes of it. */
struct nvme_tls_server {
        struct nvme_tls
            tls; /* its key: good for every host and subsystem named in an identity; may have none */
        bool plain;        /* hosts without TLS are served, too */
        bool record_hello; /* see tls_config */
        /* What other keys an identity's host and subsystem have, the likeliest first; how many. `usual`: set to
         * false if tls.key is none of theirs. NULL: there are none. Any thread calls it. */
        unsigned (*keys)(const struct nvme_tls_server *server, const struct tls_identity *id,
                         struct auth_key keys[NVME_TLS_KEYS], bool *usual);
        /* see tls_config.spoil; NULL: it breaks nothing on purpose */
        size_t (*spoil)(const struct nvme_tls_server *server, const uint8_t *hello, size_t len,
                        uint8_t *answer, size_t size);
        /* see tls_config.take_over; NULL: never */
        bool (*take_over)(const struct nvme_tls_server *server, struct stream *s,
                          const uint8_t *hello, size_t len);
        const void *user; /* of all of them */
};

/*
 * A controller's context for stream_tls_begin(). An identity of version 1 tells how its host derives.
 * NULL with errno.
 */
struct tls *nvme_tls_server(const struct nvme_tls_server *server);

#endif
