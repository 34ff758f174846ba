/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference target's ways to break the rules of tcp/tls/. */
#ifndef NVMF_TARGET_TLS_SPOIL_H
#define NVMF_TARGET_TLS_SPOIL_H

#include "pdu/nvme/io/nvme_tls.h"
#include "pdu/nvme/machine/tls_hello.h"

/* For nvme_tls_server.spoil: the answer that breaks one of its violated
 * rules, as far as this ClientHello can; bytes, 0: none of them. */
size_t tls_spoil(const struct nvme_tls_server *server, const struct rule_policy *policy,
                 const uint8_t *hello, size_t len, uint8_t *answer, size_t size);

/* The key that the first identity of a ClientHello stands for. False: there is none. */
bool tls_offered_key(const struct nvme_tls_server *server, const struct tls_hello_view *v,
                     struct tls_psk *psk);

#endif
