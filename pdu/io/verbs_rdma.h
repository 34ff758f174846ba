/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs provider over librdmacm and libibverbs: InfiniBand, RoCE and iWARP devices of this
 * machine, soft ones (rxe, siw) included. pdu/machine/verbs.h says what a provider does; what
 * devices do differently stands there in struct verbs_caps and in verbs_rdma_*.c.
 *
 * Addresses are as in net.h (name, IPv4, IPv6, brackets, %scope). "", 0.0.0.0 and :: listen on
 * all devices, also on those that come later.
 */
#ifndef NVMF_IO_VERBS_RDMA_H
#define NVMF_IO_VERBS_RDMA_H

#include <stddef.h>

struct verbs_provider;

/* The process's one provider; never freed, good for any number of contexts in any threads. NULL and
 * the error, one line of text without line end, if this program is built without RDMA
 * (NVMF_WITH_RDMA) or the machine has none: no device, or no connection manager (rdma_ucm). That may
 * change: asking again is allowed. */
struct verbs_provider *verbs_rdma(char *error, size_t size);

#endif
