/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA in memory (memory_verbs.h) between the threads of one process: for a target and a host that
 * live together where there is no device. Work is done at once by whoever posts it, completions
 * and events wake the context they belong to: every context has one descriptor (eventfd).
 */
#ifndef NVMF_IO_VERBS_MEMORY_H
#define NVMF_IO_VERBS_MEMORY_H

#include "pdu/verbs/memory_verbs.h"

/* caps may be NULL: the default. NULL: out of memory. */
struct verbs_provider *verbs_memory_new(const struct memory_caps *caps);
/* The same, but slow: what has become possible happens a few steps at a time, when anybody calls, in
 * an order that comes from the seed. Where all threads may sleep somebody has to call
 * verbs_memory_do() now and then. */
struct verbs_provider *verbs_memory_new_slow(const struct memory_caps *caps, uint32_t seed);
/* All contexts are closed, and no thread is left that uses it. */
void verbs_memory_free(struct verbs_provider *p);
/* Calls fn (which may be NULL) while no other thread is at work, for the faults of memory_verbs.h;
 * then all that is possible happens. */
void verbs_memory_do(struct verbs_provider *p, void (*fn)(struct memory_fabric *f, void *arg),
                     void *arg);
/* memory_leaks() of it, whatever the other threads do. */
struct memory_count verbs_memory_leaks(struct verbs_provider *p);

#endif
