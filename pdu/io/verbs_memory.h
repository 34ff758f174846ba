/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA in memory (memory_verbs.h) between the threads of one process: for a target and a host that
 * live together where there is no device. Work is done at once by whoever posts it, completions
 * and events wake the context they belong to: every context has one descriptor (eventfd).
 */
#ifndef NVMF_IO_VERBS_MEMORY_H
#define NVMF_IO_VERBS_MEMORY_H

#include "pdu/machine/memory_verbs.h"

/* caps may be NULL: the default. NULL without memory. */
struct verbs_provider *verbs_memory_new(const struct memory_caps *caps);
/* All contexts are closed, and no thread is left that uses it. */
void verbs_memory_free(struct verbs_provider *p);
/* memory_leaks() of it, whatever the other threads do. */
struct memory_count verbs_memory_leaks(struct verbs_provider *p);

#endif
