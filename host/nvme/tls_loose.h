/* SPDX-License-Identifier: BSD-3-Clause */
/* A TLS client by hand that lets pass what it must not, or refuses what it must take: the reference host's ways to break the
 * rules about a target's TLS. */
#ifndef NVMF_HOST_TLS_LOOSE_H
#define NVMF_HOST_TLS_LOOSE_H

#include "pdu/nvme/io/nvme_tls.h"
#include "pdu/nvme/wire/rules.h"

/* Whether it has one of these flaws, and a configured PSK. */
bool host_tls_is_loose(const struct nvme_tls *tls, const struct rule_policy *policy);
/* As nvme_tls_connect(). */
int host_tls_connect(struct stream *s, const struct nvme_tls *tls, const struct rule_policy *policy,
                     const char *hostnqn, const char *subnqn, char *error, size_t size);

#endif
