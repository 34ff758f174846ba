/* SPDX-License-Identifier: BSD-3-Clause */
/* A counter that one thread writes and anybody reads: nothing waits for anybody. */
#ifndef NVMF_TARGET_METRIC_H
#define NVMF_TARGET_METRIC_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t metric;

/* By the thread that it belongs to. */
static inline void metric_add(metric *n, uint64_t more)
{
        atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + more,
                              memory_order_relaxed);
}

#endif
