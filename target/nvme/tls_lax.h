/* SPDX-License-Identifier: BSD-3-Clause */
/* A TLS server by hand that lets pass what it must not: the reference target's ways to break the rules about
 * records, and about what comes after the ClientHello. */
#ifndef NVMF_TARGET_TLS_LAX_H
#define NVMF_TARGET_TLS_LAX_H

#include "pdu/nvme/io/nvme_tls.h"

/* For nvme_tls_server.take_over: it serves the stream from here on, if one of its rules is violated and the
 * ClientHello is one that it can take. */
bool tls_lax_take(const struct nvme_tls_server *server, const struct rule_policy *policy,
                  struct stream *s, const uint8_t *hello, size_t len);

#endif
