/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs provider over librdmacm and libibverbs: InfiniBand, RoCE and iWARP devices of this
 * machine, soft ones (rxe, siw) included. pdu/verbs/verbs.h says what a provider does; what
 * devices do differently stands there in struct verbs_caps and in verbs_rdma_*.c.
 *
 * Addresses are as in net.h (name, IPv4, IPv6, brackets, %scope). "", 0.0.0.0 and :: listen on
 * all devices, also on those that come later; :: with iWARP for IPv6 alone.
 *
 * A context has two descriptors from the start: first events, then completions. Whose loop keeps
 * them apart need not ask verbs_event() when only the second is readable.
 *
 * verbs_connect() and verbs_accept() ask for no more READs than the device can do.
 *
 * iWARP: the connector sends first. Memory that READs fill is registered without VERBS_REMOTE_READ,
 * or with VERBS_REMOTE_WRITE; a READ has one sge. No RNR: a SEND without RECV ends the connection.
 * A WRITE or SEND that the peer refuses may complete well before that.
 *
 * Joined queue pairs (verbs_join()): RoCEv2, or InfiniBand within a subnet. A peer that does not answer
 * is asked again after 268 ms, `retry` times, six at most.
 *
 * With siw verbs_connect() waits for TCP's handshake, and fails with errno where others tell
 * REJECTED or UNREACHABLE.
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

/* Called before there are other threads, by a program in which several will use the provider, and devices may go away and
 * come back: sets malloc() so that older librdmacm survives it (all threads share one arena). */
void verbs_rdma_prepare(void);

#endif
