/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference host's ways to break the rules of tcp/tls/ that bind hosts. */
#ifndef NVMF_HOST_TLS_FLAWS_H
#define NVMF_HOST_TLS_FLAWS_H

#include "ctrl.h"

/* Before it connects: sends the ClientHellos that its flaws are, each on a connection of its own, which it gives up. */
void host_greet_wrongly(const struct host_params *p);
/* What its flaws make of the options for TLS. */
void host_spoil_tls(struct nvme_tls *tls, const struct rule_policy *policy);

#endif
