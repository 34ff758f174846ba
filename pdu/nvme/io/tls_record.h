/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of TLS 1.3 under AES-GCM (RFC 8446 5.2), by OpenSSL. */
#ifndef NVMF_NVME_IO_TLS_RECORD_H
#define NVMF_NVME_IO_TLS_RECORD_H

#include <sys/types.h>

#include "pdu/nvme/machine/tls_hello.h"

enum { TLS_RECORD_MORE = 5 + 1 + 16 }; /* bytes that a record has beside its content */

/* The seq-th record of a key, of content type `type`, with `pad` bytes of padding: len + pad + TLS_RECORD_MORE
 * bytes. 0: it cannot be computed. */
size_t tls_record_seal(const struct tls_traffic *t, uint64_t seq, uint8_t type, const void *content,
                       size_t len, size_t pad, uint8_t *record);
/* What the seq-th record has, in content, which has room for all of it; bytes, and its type: 0 if it has none,
 * nothing but padding. -1: it is not of this key. */
ssize_t tls_record_open(const struct tls_traffic *t, uint64_t seq, const uint8_t *record,
                        size_t len, uint8_t *content, uint8_t *type);

#endif
